#include "core/config_rules.h"

#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "core/config_table.h"

struct choice {
	const char *where;
	const char *backend_name, *provider_name;   /* what the layer calls them */
	const char *backend, *provider;             /* NULL: not set */
};

static const char *const backends[] = { "container", "cube", NULL };
static const char *const providers[] = { "host", "e2b", "daytona", NULL };

static const char *const available[] = { "container", "host", NULL };

static bool one_of(const char *word, const char *const *list)
{
	for (; *list; list++) {
		if (str_eq(word, *list))
			return true;
	}
	return false;
}

static char **place(char **file, const char *key)
{
	for (size_t i = 0; i < config_table_len; i++) {
		if (str_eq(config_table[i].section, "service") && str_eq(config_table[i].key, key))
			return &file[i];
	}
	abort();
}

static const char *variable(const char *known, const char *ours)
{
	const char *v = getenv(known);

	return v ? v : getenv(ours);
}

static int check_layer(const struct choice *c, err_t **err)
{
	if (c->backend && c->provider)
		return err_set(err, ERR_REFUSED, "bad_config", "%s: %s and %s are both set; set one of them", c->where, c->backend_name, c->provider_name);
	if (c->backend && !one_of(c->backend, backends))
		return err_set(err, ERR_REFUSED, "bad_config", "%s: %s is \"%s\", it must be container or cube", c->where, c->backend_name, c->backend);
	if (c->provider && !one_of(c->provider, providers))
		return err_set(err, ERR_REFUSED, "bad_config", "%s: %s is \"%s\", it must be host, e2b or daytona", c->where, c->provider_name,
			c->provider);
	return 0;
}

static void drop(char **value)
{
	free(*value);
	*value = NULL;
}

int config_rules_backend(const char *path, char **file, const char **ret, err_t **err)
{
	char **file_backend = place(file, "backend"), **file_provider = place(file, "provider");
	struct choice env = { "environment", "SANDBOX_BACKEND", "SANDBOX_PROVIDER",
		variable("SANDBOX_BACKEND", "PADDOCK_SERVICE_BACKEND"), variable("SANDBOX_PROVIDER", "PADDOCK_SERVICE_PROVIDER") };
	struct choice ini = { path, "service.backend", "service.provider", *file_backend, *file_provider };
	const struct choice *wins = env.backend || env.provider ? &env : &ini;
	const char *chosen;

	if (ini.provider && !*ini.provider)
		ini.provider = NULL;   /* "provider =" is how a file says that there is none */
	if (check_layer(&env, err) < 0 || check_layer(&ini, err) < 0)
		return -1;
	chosen = wins->provider ? wins->provider : wins->backend ? wins->backend : "container";
	if (!one_of(chosen, available))
		return err_set(err, ERR_REFUSED, "bad_config", "%s: \"%s\" is not part of this version; only container and host are available",
			wins->where, chosen);
	if (wins == &env) {
		drop(file_backend);
		drop(file_provider);
	}
	*ret = str_eq(chosen, "host") ? "host" : "container";
	return 0;
}

static int at_most(const struct config *c, const char *small, const char *large, err_t **err)
{
	if (config_int(c, small) <= config_int(c, large))
		return 0;
	return err_set(err, ERR_REFUSED, "bad_config", "%s must not be above %s", small, large);
}

static int check_executor(const struct config *c, err_t **err)
{
	int64_t head = config_int(c, "executor.stream_head_bytes"), tail = config_int(c, "executor.stream_tail_bytes");

	if (config_int(c, "executor.journal_max_bytes") / 2 < head + tail)
		return err_set(err, ERR_REFUSED, "bad_config", "executor.journal_max_bytes must hold one command: "
			"at least twice stream_head_bytes and stream_tail_bytes");
	return 0;
}

/* A keep-alive that is late once must not cost a busy sandbox its life. */
static int check_sandbox(const struct config *c, err_t **err)
{
	if (config_int(c, "sandbox.idle_timeout_ms") / 2 < config_int(c, "sandbox.keepalive_ms"))
		return err_set(err, ERR_REFUSED, "bad_config", "sandbox.idle_timeout_ms must be at least twice sandbox.keepalive_ms");
	return 0;
}

static bool is_node_name(const char *s)
{
	return !s[strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789")];
}

static int check_host(const struct config *c, err_t **err)
{
	if (!str_eq(config_backend(c), "host") || str_eq(config_str(c, "host.i_understand"), "yes"))
		return 0;
	return err_set(err, ERR_REFUSED, "bad_config", "provider host runs every user's commands as processes of this machine: they share its kernel, and without "
		"bubblewrap its files. It is for development and for machines with a single tenant. If that is what you want, set [host] i_understand = yes");
}

int config_rules_check(const struct config *c, err_t **err)
{
	const char *prefix = config_str(c, "api.accel_prefix");

	if (strcasestr(config_str(c, "database.conninfo"), "password"))
		return err_set(err, ERR_REFUSED, "bad_config", "database.conninfo must not hold a password; use peer authentication or a passfile");
	if (!is_node_name(config_str(c, "service.node")))
		return err_set(err, ERR_REFUSED, "bad_config", "service.node must be of a-z and 0-9");
	if (prefix[0] != '/' || !str_suffix(prefix, "/"))
		return err_set(err, ERR_REFUSED, "bad_config", "api.accel_prefix must begin and end with /");
	if (at_most(c, "runs.lease_ms", "runs.lease_max_ms", err) < 0 || at_most(c, "runs.run_commands", "runs.all_commands", err) < 0 ||
			at_most(c, "runs.user_commands", "runs.all_commands", err) < 0 || at_most(c, "runs.user_instances", "runs.all_instances", err) < 0 ||
			at_most(c, "janitor.backoff_min_ms", "janitor.backoff_max_ms", err) < 0 || check_executor(c, err) < 0 || check_sandbox(c, err) < 0 ||
			check_host(c, err) < 0)
		return -1;
	return 0;
}
