#include "domain/domain.h"

#include <stdlib.h>

#include "base/str.h"
#include "db/db.h"
#include "db/db_stats.h"
#include "domain/executor_client.h"
#include "domain/orphans.h"
#include "provider/provider.h"

static void read_limits(struct domain_limits *l, const struct config *c)
{
	l->lease_ms = config_int(c, "runs.lease_ms");
	l->lease_max_ms = config_int(c, "runs.lease_max_ms");
	l->max_attempts = config_int(c, "runs.max_attempts");
	l->run_timeout_ms = config_int(c, "runs.run_timeout_ms");
	l->stage_timeout_ms = config_int(c, "runs.stage_timeout_ms");
	l->run_commands = config_int(c, "runs.run_commands");
	l->user_commands = config_int(c, "runs.user_commands");
	l->all_commands = config_int(c, "runs.all_commands");
	l->user_instances = config_int(c, "runs.user_instances");
	l->all_instances = config_int(c, "runs.all_instances");
	l->backoff_min_ms = config_int(c, "janitor.backoff_min_ms");
	l->backoff_max_ms = config_int(c, "janitor.backoff_max_ms");
	l->orphan_grace_ms = config_int(c, "janitor.orphan_grace_ms");
	l->sandbox_idle_ms = config_int(c, "sandbox.idle_timeout_ms");
	l->sandbox_keepalive_ms = config_int(c, "sandbox.keepalive_ms");
	l->sandbox_stale_ms = config_int(c, "sandbox.stale_ms");
	l->interval_ms = config_int(c, "janitor.interval_ms");
	l->batch = config_int(c, "janitor.batch");
	l->stdin_bytes = config_int(c, "api.stdin_bytes");
	l->output_days = config_int(c, "retention.output_days");
	l->run_days = config_int(c, "retention.run_days");
	l->audit_days = config_int(c, "retention.audit_days");
}

static int open_parts(struct domain *d, const struct config *c, err_t **err)
{
	struct db_config dc = {
		.conninfo = config_str(c, "database.conninfo"),
		.connect_timeout_ms = config_int(c, "database.connect_timeout_ms"),
		.statement_timeout_ms = config_int(c, "database.statement_timeout_ms"),
	};
	char pepper[4096];
	if (str_fmt(pepper, sizeof pepper, "%s/pepper", config_str(c, "paths.keys")) < 0)
		return err_set(err, ERR_TOO_LARGE, NULL, "paths.keys is too long");
	if (crypto_init(err) < 0 || crypto_key_load(pepper, &d->pepper, err) < 0)
		return -1;
	if (str_copy(d->backend, sizeof d->backend, config_backend(c)) < 0)
		return err_set(err, ERR_INTERNAL, NULL, "the backend's name is too long");
	d->caps = provider_caps(d->backend);
	d->db = db_new(&dc, err);
	if (!d->db)
		return -1;
	d->executor = executor_client_new(config_str(c, "executor.socket"), config_int(c, "executor.text_bytes"), err);
	return d->executor ? 0 : -1;
}

const char *domain_persistent(const struct domain *d)
{
	return d->caps & PROVIDER_PERSISTENT ? d->backend : NULL;
}

struct domain *domain_open(const struct config *c, err_t **err)
{
	struct domain *d = calloc(1, sizeof *d);
	if (!d) {
		err_set(err, ERR_NO_MEMORY, NULL, "no memory");
		return NULL;
	}
	d->config = c;
	read_limits(&d->limits, c);
	if (open_parts(d, c, err) < 0) {
		domain_close(d);
		return NULL;
	}
	return d;
}

void domain_close(struct domain *d)
{
	if (!d)
		return;
	db_free(d->db);
	executor_client_free(d->executor);
	orphans_forget(d);
	crypto_wipe(&d->pepper, sizeof d->pepper);
	free(d);
}

int domain_check(struct domain *d, err_t **err)
{
	return db_ping(d->db, err);
}
