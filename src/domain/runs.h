/* runs.h - Runs, attempts and leases. See docs/lifecycle.md. */
#ifndef PADDOCK_DOMAIN_RUNS_H
#define PADDOCK_DOMAIN_RUNS_H

#include "domain/caller.h"
#include "domain/domain.h"
#include "domain/idempotency.h"

#define LEASE_TOKEN_SIZE 72
#define RUN_THREAD_MAX 255     /* bytes of UTF-8 */
#define RUN_WORKER_MAX 255

/* A durable wish for a lease: with claim, worker_id is required. lease_ms 0: the default. */
struct run_claim {
	const char *worker_id;
	int64_t lease_ms;
};

struct run_new {
	const char *thread_id;       /* required */
	const json_t *input;         /* any JSON value, NULL for none */
	const json_t *metadata;      /* an object, NULL for none */
	const char *workdir;         /* NULL: /home/user/workspace */
	int64_t timeout_ms;          /* as it came, checked here; counts only with has_timeout */
	bool has_timeout;
	const struct run_claim *claim;   /* NULL: not claimed */
	struct idempotency idempotency;
};

/* 201. lease_token is "" when it was not claimed, also because the Thread has clean-up pending.
 * ERR_REFUSED: "bad_thread_id", "bad_workdir", "bad_timeout", "bad_worker_id", "bad_lease", "bad_metadata", "idempotency_mismatch". */
int runs_create(struct domain *d, const struct caller *c, const struct run_new *n, json_t **ret, char lease_token[LEASE_TOKEN_SIZE], err_t **err);

/* ERR_NOT_FOUND "not_found" for unknown, malformed and other users' ids; so everywhere below. */
int runs_get(struct domain *d, const struct caller *c, const char *run_id, json_t **ret, err_t **err);

struct run_list {
	const char *thread_id;   /* NULL: any */
	const char *status;      /* NULL: any; an unknown word is ERR_REFUSED "bad_status" */
	const char *cursor;      /* NULL: from the newest; else a next_cursor (ERR_INVALID "bad_cursor") */
	int64_t limit;           /* 0: 50; else 1-200 (ERR_REFUSED "bad_limit") */
};
/* {items:[Run], next_cursor}, newest first. */
int runs_list(struct domain *d, const struct caller *c, const struct run_list *q, json_t **ret, err_t **err);

/* The oldest pending Run of the caller whose Thread has no clean-up pending. 1: *ret and lease_token are set; 0: nothing to do (204).
 * A service token claims for the user it acts for. */
int runs_claim(struct domain *d, const struct caller *c, const struct run_claim *cl, const char *thread_id, json_t **ret,
	char lease_token[LEASE_TOKEN_SIZE], err_t **err);

/* {expires_at}. ERR_CONFLICT "lease_lost" (wrong, foreign or expired token), "run_ended". */
int runs_heartbeat(struct domain *d, const struct caller *c, const char *run_id, const char *lease_token, int64_t lease_ms, json_t **ret, err_t **err);

struct run_finish {
	const char *lease_token;     /* NULL: by the Run's own user while no lease is held */
	const char *status;          /* "completed" or "failed" (ERR_REFUSED "bad_status") */
	const char *error_code;      /* failed: NULL becomes "failed"; at most 64 bytes */
	const char *error_message;   /* at most 4096 bytes; ERR_REFUSED "bad_error" for either */
};
/* The Run. ERR_CONFLICT "lease_lost", "lease_required" (a lease is held and no token came), "run_ended", "not_running" (still pending). */
int runs_finish(struct domain *d, const struct caller *c, const char *run_id, const struct run_finish *f, json_t **ret, err_t **err);

/* Asks for the end; the Run is cancel_requested while commands are being killed, else cancelled at once. Asking again gives the Run;
 * ERR_CONFLICT "run_ended" when it ended otherwise. */
int runs_cancel(struct domain *d, const struct caller *c, const char *run_id, json_t **ret, err_t **err);

#endif
