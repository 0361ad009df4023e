#include "domain/health.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "db/db_stats.h"
#include "domain/executor_client.h"

/* Adds name:{ok, hint} to the components. */
static int add_component(json_t *parts, const char *name, bool ok, const char *hint)
{
	json_t *c = json_object_new_object();
	if (!c || json_add_bool(c, "ok", ok) | json_add_str(c, "hint", hint)) {
		json_object_put(c);
		return -1;
	}
	return json_add(parts, name, c);
}

/* What the executor says of its own parts: engine, image, ... */
static int add_executor_parts(json_t *parts, const json_t *answer, bool *all_ok)
{
	const json_t *list = NULL;
	if (json_get_arr(answer, "components", false, &list, NULL) < 0 || !list)
		return 0;
	for (size_t i = 0; i < json_object_array_length(list); i++) {
		const json_t *c = json_object_array_get_idx(list, i);
		const char *name = NULL, *hint = NULL;
		bool ok = false;
		if (json_get_str(c, "name", true, &name, NULL) < 0 || json_get_bool(c, "ok", true, &ok, NULL) < 0)
			continue;
		(void)json_get_str(c, "hint", false, &hint, NULL);
		*all_ok = *all_ok && ok;
		if (add_component(parts, name, ok, hint) < 0)
			return -1;
	}
	return 0;
}

static int fill(struct domain *d, json_t *parts, bool *db_ok, bool *executor_ok, bool *parts_ok)
{
	cleanup_err err_t *e = NULL, *x = NULL;
	cleanup_json json_t *answer = NULL;
	*parts_ok = true;
	*db_ok = db_ping(d->db, &e) == 0;
	int bad = add_component(parts, "database", *db_ok, *db_ok ? NULL : err_message(e));
	*executor_ok = executor_client_health(d->executor, &answer, &x) == 0;
	bad |= add_component(parts, "executor", *executor_ok, *executor_ok ? NULL : err_message(x));
	return answer ? bad | add_executor_parts(parts, answer, parts_ok) : bad;
}

int health_read(struct domain *d, json_t **ret, bool *ready, err_t **err)
{
	bool db_ok = false, executor_ok = false, parts_ok = false;
	cleanup_json json_t *o = json_object_new_object();
	cleanup_json json_t *parts = json_object_new_object();
	if (!o || !parts || fill(d, parts, &db_ok, &executor_ok, &parts_ok) < 0)
		return err_set(err, ERR_NO_MEMORY, NULL, "no memory for a health report");
	bool all = db_ok && executor_ok;
	const char *status = all ? parts_ok ? "ok" : "degraded" : "unavailable";
	if (json_add_str(o, "status", status) < 0 || json_add(o, "components", steal_ptr(&parts)) < 0)
		return err_set(err, ERR_NO_MEMORY, NULL, "no memory for a health report");
	*ready = all && parts_ok;
	*ret = steal_ptr(&o);
	return 0;
}

struct gauge {
	int col;
	const char *name, *help;
};

static const struct gauge gauges[] = {
	{ STATS_PENDING, "paddock_runs_pending", "Runs that wait to be claimed" },
	{ STATS_LEASED, "paddock_runs_leased", "Runs that a worker holds" },
	{ STATS_CANCELS, "paddock_runs_cancel_requested", "Runs whose commands are being killed" },
	{ STATS_OPEN_COMMANDS, "paddock_commands_open", "commands without an end on record" },
	{ STATS_CLEANUPS, "paddock_cleanups_pending", "Runs whose release is not confirmed" },
	{ STATS_INSTANCES, "paddock_instances_owned", "sandboxes in the ledger" },
	{ STATS_READY, "paddock_sandboxes_ready", "users' own sandboxes that run" },
	{ STATS_MOVING, "paddock_sandboxes_moving", "users' own sandboxes that are being made, woken, paused or replaced" },
	{ STATS_RETIRED, "paddock_instances_retired", "users' instances whose destruction is not confirmed" },
	{ STATS_QUARANTINED, "paddock_instances_quarantined", "of these, those that somebody has to look at" },
};

int health_metrics(struct domain *d, struct buf *b, err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	if (db_stats(d->db, &r, err) < 0)
		return -1;
	for (size_t i = 0; i < sizeof gauges / sizeof *gauges; i++)
		buf_addf(b, "# HELP %s %s\n# TYPE %s gauge\n%s %lld\n", gauges[i].name, gauges[i].help, gauges[i].name, gauges[i].name, (long long)db_i64(r, 0, gauges[i].col));
	buf_addf(b, "# HELP paddock_cleanup_oldest_seconds age of the oldest unconfirmed release\n# TYPE paddock_cleanup_oldest_seconds gauge\n"
		"paddock_cleanup_oldest_seconds %.3f\n", (double)db_i64(r, 0, STATS_OLDEST_CLEANUP_MS) / 1000.0);
	return buf_failed(b) ? err_set(err, ERR_NO_MEMORY, NULL, "no memory for metrics") : 0;
}
