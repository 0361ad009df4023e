/* res_reports.c - /v1/reports: what changed, until it is acknowledged. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "executor/executor.h"
#include "executor/res.h"
#include "executor/watch.h"

#define WAIT_MAX_MS 30000
#define LIMIT_MAX 500
#define ANSWER_BYTES (4u << 20)    /* an answer is closed when it has passed this */
#define BUF_BYTES (128u << 20)
#define GATHER_MS 5                /* after the first report of a wait: others that come with it */

struct page {
	struct executor *x;
	struct buf b;
	int64_t left;
	unsigned n;
};

static int add_command(struct page *p, const struct report *rep)
{
	cleanup_err err_t *e = NULL;
	bool ended = commands_phase(p->x->commands, rep->id) == COMMAND_ENDED;

	buf_adds(&p->b, "\"kind\":\"command\",\"command\":");
	if (executor_command(p->x, rep->id, ended, &p->b, &e) == 0)
		return 0;
	log_kv(LOG_ERROR, "report_not_made", "command", rep->id, "err", err_message(e), NULL);
	return -1;
}

static int add_instance(struct page *p, const struct report *rep)
{
	struct instance *i = instances_find(p->x->instances, rep->id);
	cleanup_json json_t *j = i ? instance_json(i, commands_open(p->x->commands, rep->id)) : NULL;
	size_t n = 0;
	const char *text = j ? json_text(j, &n) : NULL;

	if (!text)
		return -1;
	buf_adds(&p->b, "\"kind\":\"instance\",\"instance\":");
	return buf_add(&p->b, text, n);
}

/* A report that cannot be made is left out and tried again later: were it due, nobody would ever wait for the next one. */
static enum report_said add_one(void *arg, const struct report *rep)
{
	struct page *p = arg;
	char key[REPORT_KEY_SIZE];
	size_t before = p->b.len;

	if (rep->kind == REPORT_INSTANCE && !instances_find(p->x->instances, rep->id))
		return REPORT_VOID;
	report_key(rep, key);
	buf_addf(&p->b, "%s{\"key\":\"%s\",", p->n ? "," : "", key);
	if ((rep->kind == REPORT_COMMAND ? add_command(p, rep) : add_instance(p, rep)) < 0) {
		p->b.len = before;
		return buf_failed(&p->b) ? REPORT_STOP : REPORT_PUT_OFF;
	}
	buf_addc(&p->b, '}');
	p->n++;
	return --p->left > 0 && p->b.len < ANSWER_BYTES ? REPORT_NEXT : REPORT_STOP;
}

static void answer(struct executor *x, struct request *r, int64_t limit)
{
	struct page p = { .x = x, .b = BUF_INIT(BUF_BYTES), .left = limit };

	buf_adds(&p.b, "{\"items\":[");
	reports_each(x->reports, add_one, &p);
	buf_adds(&p.b, "]}\n");
	http_answer_buf(r, 200, "application/json", &p.b);
}

/* --- waiting --- */

struct report_wait {
	struct request *r;
	struct watch watch;
	int64_t limit;
};

static void on_change(struct watch *w)
{
	request_wake(list_entry(w, struct report_wait, watch)->r);
}

static void report_wait_free(void *state)
{
	struct report_wait *w = state;

	list_del(&w->watch.node);
	free(w);
}

static void on_gathered(struct executor *x, struct request *r)
{
	answer(x, r, ((struct report_wait *)request_state(r))->limit);
}

static void on_wait_over(struct executor *x, struct request *r)
{
	struct report_wait *w = request_state(r);

	list_del(&w->watch.node);
	if (reports_any(x->reports))
		http_wait(r, GATHER_MS, on_gathered);
	else
		answer(x, r, w->limit);
}

void res_reports_get(struct executor *x, struct request *r)
{
	int64_t wait_ms, limit;
	struct report_wait *w;

	if (request_query_i64(r, "wait_ms", 0, WAIT_MAX_MS, &wait_ms) < 0 || request_query_i64(r, "limit", 100, LIMIT_MAX, &limit) < 0)
		return;
	if (reports_any(x->reports) || wait_ms == 0) {
		answer(x, r, limit);
		return;
	}
	w = calloc(1, sizeof *w);
	if (!w) {
		http_answer_problem(r, 503, "no_memory", "out of memory");
		return;
	}
	w->r = r;
	w->limit = limit;
	watch_init(&w->watch, on_change);
	list_add_tail(reports_watches(x->reports), &w->watch.node);
	request_set_state(r, w, report_wait_free);
	http_wait(r, wait_ms, on_wait_over);
}

/* --- acknowledging --- */

static void ack(struct executor *x, const char *key)
{
	enum report_kind kind;
	char id[ID_SIZE];
	uint64_t version;
	struct instance *i;

	if (report_key_parse(key, &kind, id, &version) < 0)
		return;
	if (kind == REPORT_COMMAND) {
		commands_ack(x->commands, id, version);
		return;
	}
	i = instances_find(x->instances, id);
	if (i)
		instance_ack(i, version);
	reports_instance_acked(x->reports, id, version);
}

void res_reports_ack(struct executor *x, struct request *r)
{
	static const char *const keys[] = { "keys", NULL };
	cleanup_json json_t *body = request_json(r);
	cleanup_err err_t *e = NULL;
	const json_t *list = NULL;

	if (!body)
		return;
	if (json_only_keys(body, keys, &e) < 0 || json_get_arr(body, "keys", true, &list, &e) < 0) {
		http_answer_err(r, e);
		return;
	}
	for (size_t i = 0, n = json_object_array_length(list); i < n; i++) {
		const char *key = json_object_get_string(json_object_array_get_idx(list, i));

		if (key)
			ack(x, key);
	}
	http_answer_empty(r, 204);
}
