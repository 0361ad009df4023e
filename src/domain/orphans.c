#include "domain/orphans.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "db/db_commands.h"
#include "db/db_sandbox.h"
#include "db/db_sweeps.h"
#include "domain/audit.h"
#include "domain/cleanup.h"
#include "domain/command_end.h"
#include "domain/command_start.h"
#include "domain/executor_client.h"
#include "domain/sandbox_ask.h"

#define QUERY_MAX 200
#define SETTLE_FAILURES_MAX 3
#define STRANGERS_MAX 1024

static bool in_ledger(const struct db_result *ledger, const char *id)
{
	/* Sorted by id. */
	int lo = 0, hi = db_rows(ledger);
	while (lo < hi) {
		int mid = lo + (hi - lo) / 2, c = strcmp(db_str(ledger, mid, LEDGER_ID), id);
		if (c == 0)
			return true;
		if (c < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return false;
}

/* Strangers of the last look, and when each was first seen. No clock of day: a step of it must not make a fresh instance look old, and an id's
 * time is only what its maker's clock said. */
struct strangers {
	size_t n;
	struct stranger {
		char id[ID_SIZE];
		int64_t since_ms;    /* clock_boot_ms */
	} e[STRANGERS_MAX];
};

static int64_t first_seen(const struct strangers *s, const char *id, int64_t now)
{
	for (size_t i = 0; s && i < s->n; i++)
		if (str_eq(s->e[i].id, id))
			return s->e[i].since_ms;
	return now;
}

/* One for which there is no room is new again at the next look. */
static void remember(struct strangers *s, const char *id, int64_t since)
{
	if (s->n == STRANGERS_MAX)
		return;
	(void)str_copy(s->e[s->n].id, sizeof s->e[s->n].id, id);
	s->e[s->n++].since_ms = since;
}

void orphans_forget(struct domain *d)
{
	free(d->strangers);
	d->strangers = NULL;
}

static const char *state_of(const json_t *instances, const char *id)
{
	for (size_t i = 0; i < json_object_array_length(instances); i++) {
		const char *other = NULL, *state = NULL;
		const json_t *o = json_object_array_get_idx(instances, i);
		if (json_get_str(o, "id", true, &other, NULL) == 0 && str_eq(id, other) && json_get_str(o, "state", true, &state, NULL) == 0)
			return state;
	}
	return NULL;
}

/* One of a Run is worthless without it. A user's own holds his things: nobody but an operator lays hands on it. */
static int put_aside(struct domain *d, const json_t *instance, const char *id, const char *state, err_t **err)
{
	const char *workspace = "";
	if (!domain_persistent(d)) {
		log_kv(LOG_WARN, "orphan_instance_destroyed", "sandbox", id, "state", state, NULL);
		if (executor_client_instance_delete(d->executor, id, 0, NULL, err) < 0)
			return -1;
		audit_own(d, "instance.destroy_orphan", id, state);
		return 0;
	}
	log_kv(LOG_WARN, "orphan_instance_quarantined", "sandbox", id, "state", state, NULL);
	return json_get_str(instance, "workspace", true, &workspace, err) < 0 ? -1 : db_instance_stranger(d->db, id, workspace, d->backend, err);
}

/* Instances that nobody here asked for, or whose row went when they were confirmed gone. now_seen: those that are left for a later look. */
static int destroy_strangers(struct domain *d, const json_t *instances, const struct db_result *ledger, struct strangers *now_seen, err_t **err)
{
	int n = 0;
	int64_t now = clock_boot_ms();
	for (size_t i = 0; i < json_object_array_length(instances); i++) {
		const char *id = NULL, *state = "";
		const json_t *o = json_object_array_get_idx(instances, i);
		if (json_get_str(o, "id", true, &id, err) < 0 || json_get_str(o, "state", true, &state, err) < 0)
			return -1;
		if (str_eq(state, "gone") || str_eq(state, "destroying") || !id_valid(id) || in_ledger(ledger, id))
			continue;
		int64_t since = first_seen(d->strangers, id, now);
		if (now - since < d->limits.orphan_grace_ms) {
			remember(now_seen, id, since);
			continue;
		}
		if (put_aside(d, o, id, state, err) < 0)
			return -1;
		n++;
	}
	return n;
}

static int look_at_strangers(struct domain *d, const json_t *instances, const struct db_result *ledger, err_t **err)
{
	struct strangers *now_seen = calloc(1, sizeof *now_seen);
	if (!now_seen)
		return err_set(err, ERR_NO_MEMORY, NULL, "no memory for a sweep");
	int n = destroy_strangers(d, instances, ledger, now_seen, err);
	if (n < 0) {
		free(now_seen);
		return -1;
	}
	orphans_forget(d);
	d->strangers = now_seen;
	return n;
}

static bool is_lost(const char *state, bool older, bool started)
{
	/* Unknown to the executor: fine before its first command arrived, a loss after. */
	if (!state)
		return older && started;
	return str_eq(state, "lost") || str_eq(state, "failed") || str_eq(state, "gone");
}

/* A user's own at rest: does the executor (is NULL: does not know it) say something else than the row, and for good? */
static bool contradicts(const char *is, const char *row, bool older)
{
	bool alive = is && (str_eq(is, "ready") || str_eq(is, "paused"));
	if (str_eq(row, "error"))
		return is ? alive : older;   /* it was lost to an executor that has forgotten since: the provider is asked anew */
	return is ? (alive && !str_eq(is, row)) || is_lost(is, older, true) : older;
}

/* Two janitors may have written down what they heard in the wrong order; a restored database, or books that were lost, say what was. Asked once more. */
static int ask_again(struct domain *d, const char *id, const char *is, const char *row, err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	if (db_sandbox_of(d->db, id, &r, err) < 0)
		return -1;
	if (db_rows(r) == 0)
		return 0;
	log_kv(LOG_WARN, "sandbox_contradicts", "sandbox", id, "row", row, "executor", is ? is : "unknown", NULL);
	return sandbox_go_on(d, r, 0, 0, err);
}

static int give_up_lost(struct domain *d, const json_t *instances, const struct db_result *ledger, err_t **err)
{
	int n = 0;
	for (int i = 0; i < db_rows(ledger); i++) {
		cleanup_db_result struct db_result *r = NULL;
		const char *id = db_str(ledger, i, LEDGER_ID), *run = db_str(ledger, i, LEDGER_RUN);
		const char *is = state_of(instances, id), *row = db_str(ledger, i, LEDGER_STATE);
		bool older = db_bool(ledger, i, LEDGER_OLDER);
		if (row && contradicts(is, row, older) && ask_again(d, id, is, row, err) < 0)
			return -1;
		if (!run || db_bool(ledger, i, LEDGER_CLEANUP) || !is_lost(is, older, db_bool(ledger, i, LEDGER_STARTED)))
			continue;
		log_kv(LOG_WARN, "sandbox_lost", "run", run, "sandbox", id, NULL);
		if (db_instance_lost(d->db, id, "sandbox_lost", "the sandbox is gone", &r, err) < 0)
			return -1;
		(void)cleanup_run(d, run, NULL);
		n++;
	}
	return n;
}

int orphans_instances(struct domain *d, err_t **err)
{
	cleanup_json json_t *answer = NULL;
	cleanup_db_result struct db_result *ledger = NULL;
	const json_t *instances = NULL;
	/* The ledger after the executor's list: a row is always older than its instance. */
	if (executor_client_instances(d->executor, &answer, err) < 0 || json_get_arr(answer, "items", true, &instances, err) < 0 ||
			db_ledger(d->db, d->limits.orphan_grace_ms, domain_persistent(d), &ledger, err) < 0)
		return -1;
	int a = look_at_strangers(d, instances, ledger, err);
	int b = a < 0 ? -1 : give_up_lost(d, instances, ledger, err);
	return b < 0 ? -1 : a + b;
}

/* Known and without an end: it will be reported. */
static bool goes_on(const json_t *known, const char *id)
{
	const char *status = NULL;
	for (size_t i = 0; i < json_object_array_length(known); i++) {
		const char *other = NULL;
		const json_t *o = json_object_array_get_idx(known, i);
		if (json_get_str(o, "id", true, &other, NULL) == 0 && str_eq(id, other) && json_get_str(o, "status", true, &status, NULL) == 0)
			return str_eq(status, "pending") || str_eq(status, "running");
	}
	return false;
}

/* One that cannot be settled must not hold up the others, unless it is the executor that does not answer. */
static int settle_page(struct domain *d, const struct db_result *r, const json_t *known, err_t **err)
{
	int n = 0, failed = 0;
	err_t *first = NULL;
	for (int i = 0; i < db_rows(r); i++) {
		cleanup_db_result struct db_result *ended = NULL;
		const char *id = db_str(r, i, OPEN_ID);
		if (goes_on(known, id))
			continue;
		err_t *e = NULL;
		if (command_end_settle_one(d, id, &ended, &e) < 0) {
			log_kv(LOG_WARN, "open_command_not_settled", "command", id, "run", db_str(r, i, OPEN_RUN), "err", err_message(e), NULL);
			err_move(first ? NULL : &first, e);
			if (++failed == SETTLE_FAILURES_MAX)
				break;
			continue;
		}
		log_kv(LOG_WARN, "open_command_settled", "command", id, "run", db_str(r, i, OPEN_RUN), NULL);
		if (ended)
			ends_follow(d, ended);
		n++;
	}
	return first ? err_move(err, first) : n;
}

int orphans_commands(struct domain *d, err_t **err)
{
	char after[ID_SIZE] = "";
	int done = 0;
	for (;;) {
		cleanup_db_result struct db_result *r = NULL;
		cleanup_json json_t *answer = NULL;
		const json_t *known = NULL;
		const char *ids[QUERY_MAX];
		if (db_commands_open(d->db, START_SETTLE_MS, *after ? after : NULL, QUERY_MAX, &r, err) < 0)
			return -1;
		int n = db_rows(r);
		for (int i = 0; i < n; i++)
			ids[i] = db_str(r, i, OPEN_ID);
		if (n == 0)
			return done;
		if (executor_client_commands_query(d->executor, ids, (size_t)n, &answer, err) < 0 || json_get_arr(answer, "items", true, &known, err) < 0)
			return -1;
		int rc = settle_page(d, r, known, err);
		if (rc < 0)
			return -1;
		done += rc;
		if (n < QUERY_MAX)
			return done;
		(void)str_copy(after, sizeof after, ids[n - 1]);
	}
}
