/* file-operation CONFIG TOKEN COMMAND - an operation of the service on a user's files: put on record and started as a part of the service does it that offers
 * one. Its standard input stays open. Prints the command's id. */
#include <stdio.h>

#include "base/str.h"
#include "domain/auth.h"
#include "domain/execute.h"

static int begin(struct domain *d, const char *token, const char *command, struct command_started *ret, err_t **err)
{
	struct command_new n = { .command = command, .kind = COMMAND_KIND_FILE, .keep_stdin = true, .background = true };
	struct caller c;
	char bearer[256];

	if (str_fmt(bearer, sizeof bearer, "Bearer %s", token) < 0)
		return err_set(err, ERR_INVALID, NULL, "the token is too long");
	if (auth_bearer(d, &(struct auth_request){ .authorization = bearer }, &c, err) < 0)
		return -1;
	return execute_start(d, &c, &n, ret, err);
}

int main(int argc, char **argv)
{
	err_t *e = NULL;
	struct command_started s = { 0 };
	struct config *config = argc == 4 ? config_load(argv[1], &e) : NULL;
	struct domain *d = config ? domain_open(config, &e) : NULL;
	int rc = d ? begin(d, argv[2], argv[3], &s, &e) : -1;

	if (rc == 0)
		puts(s.id);
	else
		fprintf(stderr, "file-operation: %s\n", e ? err_message(e) : "usage: file-operation CONFIG TOKEN COMMAND");
	json_object_put(s.command);
	err_free(e);
	domain_close(d);
	config_free(config);
	return rc == 0 ? 0 : 1;
}
