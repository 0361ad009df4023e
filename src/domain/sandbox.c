#include "domain/sandbox.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/str.h"
#include "db/db_sweeps.h"
#include "domain/answer.h"
#include "domain/cleanup.h"
#include "domain/executor_client.h"
#include "domain/reports.h"
#include "domain/sandbox_ask.h"
#include "provider/provider.h"

#define TRIES 4
#define CLEANUPS_MAX 8
#define REPORTS_MAX 4
#define WAIT_MS 2000

enum call { CALL_REBUILD, CALL_RELEASE, CALL_PAUSE, CALL_KEEP };

static const struct {
	unsigned cap;
	const char *unsupported;
} calls[] = {
	[CALL_REBUILD] = { PROVIDER_PERSISTENT, "rebuild_unsupported" },
	[CALL_RELEASE] = { PROVIDER_RELEASE, "release_unsupported" },
	[CALL_PAUSE] = { PROVIDER_PAUSE, "pause_unsupported" },
	[CALL_KEEP] = { PROVIDER_PERSISTENT, "keep_alive_unsupported" },
};

static int check_supported(const struct domain *d, enum call what, err_t **err)
{
	if (d->caps & calls[what].cap)
		return 0;
	return err_set(err, ERR_CONFLICT, calls[what].unsupported, "sandboxes of the backend %s do not support that", d->backend);
}

/* The provider says so itself. */
static bool is_away(const json_t *component)
{
	bool away = false;
	return json_get_bool(component, "away", false, &away, NULL) == 0 && away;
}

/* Nothing is begun that the provider cannot carry out now. */
static int check_provider(struct domain *d, err_t **err)
{
	cleanup_json json_t *health = NULL;
	cleanup_err err_t *e = NULL;
	const json_t *parts = NULL;
	if (executor_client_health(d->executor, &health, &e) < 0)
		return err_set(err, ERR_UNAVAILABLE, "control_plane_unavailable", "%s", err_message(e));
	if (json_get_arr(health, "components", false, &parts, err) < 0)
		return -1;
	for (size_t i = 0; parts && i < json_object_array_length(parts); i++)
		if (is_away(json_object_array_get_idx(parts, i)))
			return err_set(err, ERR_UNAVAILABLE, "control_plane_unavailable", "what runs the sandboxes is away; nothing was done");
	return 0;
}

struct wish {
	enum call what;
	const char *instance;      /* CALL_REBUILD: the new one */
	int64_t ms;                /* CALL_KEEP */
};

static int decide_once(struct domain *d, const struct caller *c, const struct wish *w, struct db_result **ret, err_t **err)
{
	struct db_origin o = answer_origin(c);
	struct db_rebuild b = { .provider = d->backend, .instance = w->instance, .workspace = c->user, .stale_ms = d->limits.sandbox_stale_ms,
		.max_user_instances = d->limits.user_instances, .max_all_instances = d->limits.all_instances };
	switch (w->what) {
	case CALL_REBUILD:
		return db_sandbox_rebuild(d->db, &b, &o, ret, err);
	case CALL_RELEASE:
		return db_sandbox_release(d->db, d->backend, d->limits.sandbox_stale_ms, &o, ret, err);
	case CALL_PAUSE:
		return db_sandbox_pause(d->db, d->backend, -1, d->limits.sandbox_stale_ms, &o, ret, err);
	case CALL_KEEP:
		break;
	}
	return db_sandbox_keep(d->db, d->backend, w->ms, d->limits.sandbox_stale_ms, &o, ret, err);
}

/* What is over may not be on record yet: ends that the executor has reported, clean-ups that are a moment's work. True: it is worth another look. One that
 * fails is the last: the caller must not wait for the same time-out again and again. */
static bool caught_up(struct domain *d, const struct caller *c)
{
	cleanup_db_result struct db_result *runs = NULL;
	int done = 0, n = 1;
	for (int i = 0; i < REPORTS_MAX && (n = reports_take(d, 0, NULL)) > 0; i++)
		done++;
	if (n < 0 || db_cleanups_of(d->db, c->user_id, CLEANUPS_MAX, &runs, NULL) < 0)
		return done > 0;
	for (int i = 0; i < db_rows(runs) && n >= 0; i++) {
		n = cleanup_run(d, db_str(runs, i, 0), NULL);
		done += n == 1;
	}
	return done > 0;
}

/* What would be another answer if all that happened were on record. */
static bool is_late(const char *word)
{
	return str_eq(word, "sandbox_busy") || str_eq(word, "sandbox_not_running");
}

/* One decision; a deadlock is tried again, an operation in doubt is asked for first. */
static int decide(struct domain *d, const struct caller *c, const struct wish *w, struct db_result **ret, err_t **err)
{
	int tries = TRIES;
	for (int i = 0; i < SANDBOX_TRIES; i++) {
		cleanup_db_result struct db_result *r = NULL;
		err_t *e = NULL;
		while (decide_once(d, c, w, &r, &e) < 0)
			if (!answer_again(&tries, false, &e))
				return err_move(err, e);
		if (i == 0 && is_late(db_str(r, 0, 0)) && caught_up(d, c))
			continue;
		if (!str_eq(db_str(r, 0, 0), "sandbox_stale")) {
			*ret = steal_ptr(&r);
			return 0;
		}
		if (sandbox_unstick(d, db_str(r, 0, SANDBOX_ANSWER_AT + SANDBOX_INSTANCE), err) < 0)
			return -1;
	}
	return err_set(err, ERR_UNAVAILABLE, "control_plane_unavailable", "an operation on the sandbox makes no progress");
}

static json_t *words(const char *list)
{
	json_t *a = json_object_new_array();
	while (a && list && *list) {
		size_t n = strcspn(list, ",");
		json_object_array_add(a, json_object_new_string_len(list, (int)n));
		list += n + (list[n] == ',');
	}
	return a;
}

static int check_answer(const struct db_result *r, json_t **ret_blockers, err_t **err)
{
	if (answer_check(db_str(r, 0, 0), err) == 0)
		return 0;
	if (ret_blockers && str_eq(db_str(r, 0, 0), "sandbox_busy"))
		*ret_blockers = words(db_str(r, 0, SANDBOX_BLOCKERS));
	return -1;
}

static const char *column(const struct db_result *r, enum sandbox_col col)
{
	return db_str(r, 0, SANDBOX_ANSWER_AT + (int)col);
}

/* The row stands; what could not be done now is the janitor's. */
static void leave_it(const char *what, const char *instance, err_t *e)
{
	log_kv(LOG_WARN, what, "sandbox", instance, "err", err_message(e), NULL);
	err_free(e);
}

int sandbox_rebuild(struct domain *d, const struct caller *c, json_t **ret, json_t **ret_blockers, err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	char instance[ID_SIZE];
	err_t *e = NULL;
	*ret_blockers = NULL;
	if (check_supported(d, CALL_REBUILD, err) < 0 || check_provider(d, err) < 0)
		return -1;
	id_v7(instance);
	FAULT_POINT(rebuild_before_row);
	if (decide(d, c, &(struct wish){ .what = CALL_REBUILD, .instance = instance }, &r, err) < 0 || check_answer(r, ret_blockers, err) < 0)
		return -1;
	FAULT_POINT(rebuild_after_row);
	if (sandbox_tell_make(d, instance, c->user, column(r, SANDBOX_PREVIOUS), &e) < 0)
		leave_it("rebuild_not_told", instance, e);
	return sandbox_get(d, c, ret, err);
}

int sandbox_pause(struct domain *d, const struct caller *c, json_t **ret, json_t **ret_blockers, err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	err_t *e = NULL;
	*ret_blockers = NULL;
	if (check_supported(d, CALL_PAUSE, err) < 0 || check_provider(d, err) < 0)
		return -1;
	FAULT_POINT(pause_before_row);
	if (decide(d, c, &(struct wish){ .what = CALL_PAUSE }, &r, err) < 0 || check_answer(r, ret_blockers, err) < 0)
		return -1;
	FAULT_POINT(pause_after_row);
	if (str_eq(db_str(r, 0, 0), "pausing") && sandbox_tell_pause(d, column(r, SANDBOX_INSTANCE), WAIT_MS, &e) < 0)
		leave_it("pause_not_told", column(r, SANDBOX_INSTANCE), e);
	return sandbox_get(d, c, ret, err);
}

int sandbox_release(struct domain *d, const struct caller *c, json_t **ret, json_t **ret_blockers, err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	err_t *e = NULL;
	*ret_blockers = NULL;
	if (check_supported(d, CALL_RELEASE, err) < 0 || check_provider(d, err) < 0)
		return -1;
	FAULT_POINT(release_before_row);
	if (decide(d, c, &(struct wish){ .what = CALL_RELEASE }, &r, err) < 0 || check_answer(r, ret_blockers, err) < 0)
		return -1;
	FAULT_POINT(release_after_row);
	if (str_eq(db_str(r, 0, 0), "released") && sandbox_tell_destroy(d, column(r, SANDBOX_PREVIOUS), &e) < 0)
		leave_it("release_not_told", column(r, SANDBOX_PREVIOUS), e);
	return sandbox_get(d, c, ret, err);
}

int sandbox_keep_alive(struct domain *d, const struct caller *c, int64_t ms, json_t **ret, err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	if (check_supported(d, CALL_KEEP, err) < 0)
		return -1;
	if (ms < 1 || ms > SANDBOX_KEEP_MAX_MS)
		return err_set(err, ERR_REFUSED, "bad_timeout", "timeout_ms must be from 1 to %lld", (long long)SANDBOX_KEEP_MAX_MS);
	FAULT_POINT(keepalive_before_row);
	if (decide(d, c, &(struct wish){ .what = CALL_KEEP, .ms = ms }, &r, err) < 0 || check_answer(r, NULL, err) < 0)
		return -1;
	FAULT_POINT(keepalive_after_row);
	if (str_eq(db_str(r, 0, 0), "kept") && sandbox_tell_keep(d, column(r, SANDBOX_INSTANCE), ms, err) < 0)
		return -1;
	return sandbox_get(d, c, ret, err);
}
