/* domain.h - the context of all rules: database, executor, keys and limits. One per process, not shared between threads.
 *
 * Rules are free of HTTP and of SQL text. Every call may block for at most the configured database and executor time-outs, never for a
 * command. A call that changes something is durable when it returns 0.
 *
 * Errors, besides those that each function names: ERR_UNAVAILABLE ("database_unavailable", "executor_unavailable", "schema_mismatch": nothing was
 * done, ask again), ERR_UNKNOWN ("outcome_unknown": it may have been done), ERR_INTERNAL. The words in quotes are err_detail().
 *
 * Functions that give JSON put a new reference into *ret, exactly the Run or Command of the HTTP contract. */
#ifndef PADDOCK_DOMAIN_DOMAIN_H
#define PADDOCK_DOMAIN_DOMAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "core/config.h"
#include "core/crypto.h"
#include "core/id.h"
#include "core/json.h"

struct db;
struct executor_client;
struct strangers;

/* What the configuration allows; milliseconds unless the name says otherwise. */
struct domain_limits {
	int64_t lease_ms, lease_max_ms;
	int64_t max_attempts;
	int64_t run_timeout_ms, stage_timeout_ms;
	int64_t run_commands, user_commands, all_commands, user_instances, all_instances;
	int64_t backoff_min_ms, backoff_max_ms;
	int64_t orphan_grace_ms;
	int64_t sandbox_idle_ms, sandbox_keepalive_ms, sandbox_stale_ms;
	int64_t interval_ms, batch;
	int64_t stdin_bytes;
	int64_t output_days, run_days, audit_days;   /* 0: for ever */
};

/* The members are for src/domain (and paddockctl, which reads tables that have no rule); others use the functions. */
struct domain {
	const struct config *config;      /* borrowed */
	struct db *db;
	struct executor_client *executor;
	struct crypto_key pepper;
	struct domain_limits limits;
	char backend[32];
	unsigned caps;                    /* of the backend: enum provider_cap */
	struct strangers *strangers;      /* of orphans.c */
};

/* The provider's name when sandboxes outlive Runs, one a user; NULL when each attempt of a Run has one of its own. */
const char *domain_persistent(const struct domain *d);

/* Reads the pepper and prepares database and executor clients; connects to neither yet. `c` must outlive the domain. */
struct domain *domain_open(const struct config *c, err_t **err);
void domain_close(struct domain *d);   /* NULL is fine */
/* Connects now, so that a wrong schema or a missing right shows at the start. 0, or ERR_UNAVAILABLE with the reason. */
int domain_check(struct domain *d, err_t **err);

#endif
