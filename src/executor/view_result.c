/* view_result.c - waits for the end of a command and gives it whole. Its headers go out when the end is there or after the first 15 s. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/str.h"
#include "executor/executor.h"
#include "executor/view.h"

#define RESULT_MAX (256u << 20)
#define SPACE_MS 15000

struct result {
	struct executor *x;
	struct request *r;
	char cid[ID_SIZE];
	struct output *o;
	struct watch watch;
	struct buf out;
	size_t sent;               /* of out */
	bool made;
	bool spaced;               /* a space went out; a sleep is next */
};

static void on_change(struct watch *w)
{
	struct result *s = list_entry(w, struct result, watch);

	/* Output alone is no reason to wake: the end is. */
	if (output_finished(s->o))
		request_wake(s->r);
}

static void result_free(void *state)
{
	struct result *s = state;

	list_del(&s->watch.node);
	output_unref(s->o);
	buf_free(&s->out);
	view_open_streams--;
	free(s);
}

static bool is_over(const struct result *s)
{
	return commands_phase(s->x->commands, s->cid) == COMMAND_ENDED;
}

static int make(struct result *s)
{
	cleanup_err err_t *e = NULL;

	s->made = true;
	if (executor_command(s->x, s->cid, true, &s->out, &e) == 0 && buf_addc(&s->out, '\n') == 0)
		return 0;
	log_kv(LOG_ERROR, "result_not_made", "command", s->cid, "err", err_message(e), NULL);
	return -1;
}

/* After the first space has gone. */
static ssize_t result_read(struct request *r, size_t max, const char **ret)
{
	struct result *s = request_state(r);
	size_t n;

	if (!s->made && !is_over(s)) {
		s->spaced = !s->spaced;
		*ret = " ";
		return s->spaced ? 1 : 0;
	}
	if (!s->made && make(s) < 0)
		return HTTP_STREAM_BROKEN;
	n = s->out.len - s->sent < max ? s->out.len - s->sent : max;
	if (n == 0)
		return HTTP_STREAM_END;
	*ret = s->out.data + s->sent;
	s->sent += n;
	return (ssize_t)n;
}

static void result_back(struct request *r, size_t n)
{
	struct result *s = request_state(r);

	if (s->made)
		s->sent -= n;
	else
		s->spaced = false;
}

static const struct http_source result_source = { result_read, result_back };

static void answer(struct result *s)
{
	struct steps st;

	if (commands_facts(s->x->commands, s->cid, &st, NULL, NULL) == 0 && st.end.error != START_OK)
		http_answer_problem_with(s->r, start_error_status(st.end.error), start_error_code(st.end.error),
			start_error_message(st.end.error), "command_id", s->cid);
	else if (make(s) < 0)
		http_answer_problem(s->r, 500, "internal", "the result could not be read");
	else
		http_answer_buf(s->r, 200, "application/json", &s->out);
}

static void on_wait_over(struct executor *x, struct request *r)
{
	struct result *s = request_state(r);

	(void)x;
	if (is_over(s))
		answer(s);
	else
		http_stream(r, 200, "application/json", HTTP_UNSIZED, &result_source);
}

void view_result_open(struct executor *x, struct request *r, const char *cid, const struct view_spec *v)
{
	struct output *o;
	struct result *s = view_begin(x, r, cid, sizeof *s, &o);

	(void)v;
	if (!s)
		return;
	*s = (struct result){ .x = x, .r = r, .o = o };
	(void)str_copy(s->cid, sizeof s->cid, cid);
	buf_init(&s->out, RESULT_MAX);
	watch_init(&s->watch, on_change);
	list_add_tail(output_watches(o), &s->watch.node);
	view_open_streams++;
	request_set_state(r, s, result_free);
	if (is_over(s))
		answer(s);
	else
		http_wait(r, SPACE_MS, on_wait_over);
}
