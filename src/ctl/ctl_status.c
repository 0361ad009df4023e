/* paddockctl status: what runs, since when, and whether the front answers. */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "ctl/ctl_commands.h"
#include "ctl/ctl_front.h"
#include "ctl/ctl_service.h"

static void print_age(int64_t s)
{
	if (s < 0)
		printf("\n");
	else if (s < 120)
		printf("  %llds\n", (long long)s);
	else if (s < 7200)
		printf("  %lldm\n", (long long)s / 60);
	else
		printf("  %lldh\n", (long long)s / 3600);
}

static bool print_service(const struct config *c, const char *name)
{
	struct ctl_service_state st;
	cleanup_err err_t *err = NULL;

	if (ctl_service_state(c, name, &st, &err) < 0) {
		printf("%-11s ?     %s\n", name, err_message(err));
		return false;
	}
	if (!st.up) {
		printf("%-11s down", name);
		print_age(st.seconds);
		return false;
	}
	printf("%-11s up    pid %lld", name, (long long)st.pid);
	print_age(st.seconds);
	return true;
}

int ctl_status(const struct config *c, int argc, char **argv)
{
	const char *instance = config_str(c, "service.instance");
	bool supervised = ctl_service_supervised(c), good = supervised;
	cleanup_buf struct buf answer = BUF_INIT(65536);
	cleanup_err err_t *err = NULL;
	int http;

	(void)argc;
	(void)argv;
	printf("%-11s %s\n", "instance", *instance ? instance : "(the normal one)");
	printf("%-11s %s: %s\n", "backend", config_backend(c), "shared kernel, for single-tenant or trusted code");
	printf("%-11s %s%s\n", "supervisor", ctl_service_systemd() ? "systemd" : "s6", supervised ? "" : ", not running (paddockctl start)");
	for (const char *const *s = ctl_services; *s && supervised; s++)
		good = print_service(c, *s) && good;
	http = ctl_front_ready(c, &answer, &err);
	if (http < 0)
		printf("%-11s https://localhost:%lld does not answer\n", "front", (long long)config_int(c, "service.https_port"));
	else
		printf("%-11s https://localhost:%lld %s%s\n", "front", (long long)config_int(c, "service.https_port"), http == 200 ? "ready" : "not ready: ",
			http == 200 ? "" : buf_str(&answer));
	return good && http == 200 ? 0 : 3;
}
