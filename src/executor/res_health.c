/* res_health.c - /healthz, /v1/health, /metrics. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "executor/executor.h"
#include "executor/pump.h"
#include "executor/res.h"
#include "executor/view.h"

#define STUCK INSTANCE_N_STATES   /* counted behind the states */
#define LOW_PERMILLE 50    /* free inodes or bytes of the journal's file system below which we are degraded */

void res_healthz(struct executor *x, struct request *r)
{
	struct buf b = BUF_INIT(64);

	(void)x;
	buf_adds(&b, "{\"status\":\"ok\"}\n");
	http_answer_buf(r, 200, "application/json", &b);
}

/* True when every component's "ok" is true. */
static bool all_ok(json_t *components)
{
	for (size_t i = 0, n = json_object_array_length(components); i < n; i++) {
		bool ok = false;

		if (json_get_bool(json_object_array_get_idx(components, i), "ok", true, &ok, NULL) < 0 || !ok)
			return false;
	}
	return true;
}

/* "" when all is well. */
static const char *room_hint(const struct space_facts *f)
{
	if (f->full && f->free < f->min_free)
		return "new commands are refused: the disk is full ([executor] min_free_bytes)";
	if (f->full)
		return "new commands are refused: the journal is full of what is not recorded yet ([executor] journal_max_bytes)";
	if (f->free < f->min_free)
		return "the disk is full: outputs of recorded commands are removed early ([executor] min_free_bytes)";
	if (f->free_permille >= 0 && f->free_permille < LOW_PERMILLE)
		return "the state directory's file system is nearly full";
	return "";
}

static void count_stuck(void *arg, struct instance *i)
{
	*(unsigned *)arg += instance_stuck(i);
}

/* For the operator; who else asks for a sandbox is not concerned. */
static void add_stuck(struct executor *x, struct buf *b)
{
	unsigned n = 0;

	instances_each(x->instances, count_stuck, &n);
	if (n)
		buf_addf(b, ",{\"name\":\"instances\",\"ok\":true,\"hint\":\"%u cannot be destroyed: see paddockctl sandboxes\"}", n);
}

void res_health(struct executor *x, struct request *r)
{
	cleanup_free char *facts = instances_health(x->instances);
	struct buf b = BUF_INIT(1u << 20);
	struct space_facts f;
	const char *hint;
	cleanup_json json_t *components = NULL;

	journal_space(x->journal, &f);
	hint = room_hint(&f);
	buf_addf(&b, "[{\"name\":\"journal\",\"ok\":%s,\"hint\":\"%s\"}%s%s", *hint ? "false" : "true", hint, facts && *facts ? "," : "",
		facts ? facts : "");
	add_stuck(x, &b);
	buf_addc(&b, ']');
	components = buf_failed(&b) ? NULL : json_parse(b.data, b.len, b.cap, 8, NULL);
	if (!components) {
		buf_free(&b);
		http_answer_problem(r, 500, "internal", "the provider's facts are not readable");
		return;
	}
	buf_reset(&b);
	buf_addf(&b, "{\"status\":\"%s\",\"components\":%s}\n", all_ok(components) ? "ok" : "degraded", json_text(components, NULL));
	http_answer_buf(r, 200, "application/json", &b);
}

/* --- metrics --- */

static uint64_t rss_bytes(void)
{
	cleanup_fclose FILE *f = fopen("/proc/self/statm", "re");
	unsigned long total = 0, resident = 0;

	if (!f || fscanf(f, "%lu %lu", &total, &resident) != 2)
		return 0;
	return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void metric(struct buf *b, const char *name, const char *type, const char *help, uint64_t v)
{
	buf_addf(b, "# HELP paddock_executor_%s %s\n# TYPE paddock_executor_%s %s\npaddock_executor_%s %" PRIu64 "\n", name, help, name, type,
		name, v);
}

static void count_state(void *arg, struct instance *i)
{
	unsigned *counts = arg;

	counts[instance_state(i)]++;
	counts[STUCK] += instance_stuck(i);
}

static void instance_metrics(struct executor *x, struct buf *b)
{
	unsigned counts[STUCK + 1] = { 0 };

	instances_each(x->instances, count_state, counts);
	metric(b, "instances_stuck", "gauge", "Instances that could not be destroyed in [sandbox] quarantine_tries tries.", counts[STUCK]);
	counts[INSTANCE_IS_GONE] += (unsigned)instances_tombstones(x->instances);
	buf_adds(b, "# HELP paddock_executor_instances Instances by state.\n# TYPE paddock_executor_instances gauge\n");
	for (int s = 0; s <= INSTANCE_IS_GONE; s++)
		buf_addf(b, "paddock_executor_instances{state=\"%s\"} %u\n", instance_state_name((enum instance_state)s), counts[s]);
}

static void space_metrics(struct executor *x, struct buf *b)
{
	struct space_facts f;

	journal_space(x->journal, &f);
	metric(b, "journal_held_bytes", "gauge", "Output of commands that are not acknowledged.", f.held);
	metric(b, "journal_acknowledged_bytes", "gauge", "Logs and output of acknowledged commands.", f.acked);
	metric(b, "journal_max_bytes", "gauge", "Cap of the two.", f.max_bytes);
	if (f.free_permille >= 0)
		metric(b, "journal_free_bytes", "gauge", "Free bytes of the state directory's file system.", f.free);
	metric(b, "journal_full", "gauge", "1 while new commands are refused for lack of room.", f.full);
	metric(b, "journal_refused_total", "counter", "Commands refused for lack of room.", f.refused);
	metric(b, "journal_early_total", "counter", "Acknowledged commands whose output was removed before its time.", f.early);
}

void res_metrics(struct executor *x, struct request *r)
{
	struct buf b = BUF_INIT(64u << 10);

	metric(&b, "commands_open", "gauge", "Commands that have not ended.", commands_open(x->commands, NULL));
	metric(&b, "reports_due", "gauge", "Changes that are not acknowledged.", reports_count(x->reports));
	metric(&b, "output_bytes_total", "counter", "Bytes of output taken from pipes.", pump_counters.bytes);
	metric(&b, "output_splices_total", "counter", "Splices from pipe to journal.", pump_counters.splices);
	metric(&b, "splice_longest_microseconds", "gauge", "Longest splice so far.", pump_counters.longest_us);
	metric(&b, "readers_open", "gauge", "Open streams and waiting results.", view_readers());
	metric(&b, "tickets", "gauge", "Tickets that wait to be used.", tickets_count(x->tickets));
	metric(&b, "http_connections", "gauge", "Open connections.", http_connections(x->http));
	metric(&b, "http_requests_total", "counter", "Requests.", http_requests(x->http));
	metric(&b, "resident_bytes", "gauge", "Resident memory.", rss_bytes());
	metric(&b, "uptime_seconds", "gauge", "Time since the start.", (uint64_t)(clock_boot_ms() - x->started_ms) / 1000);
	metric(&b, "loop_lag_microseconds", "gauge", "Longest delay of the loop since the last reading.", (uint64_t)x->lag_max_us);
	space_metrics(x, &b);
	instance_metrics(x, &b);
	x->lag_max_us = 0;
	http_answer_buf(r, 200, "text/plain; version=0.0.4", &b);
}
