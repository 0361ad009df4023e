/* res_scopes.c - DELETE /v1/instances/{iid}/scopes/{sid}. */
#include "base/cleanup.h"
#include "base/str.h"
#include "executor/executor.h"
#include "executor/res.h"
#include "executor/res_wait.h"

static void answer(struct request *r, bool gone)
{
	struct buf b = BUF_INIT(64);

	buf_addf(&b, "{\"state\":\"%s\"}\n", gone ? "gone" : "ending");
	http_answer_buf(r, gone ? 200 : 202, "application/json", &b);
}

static void answer_or_wait(struct executor *x, struct request *r)
{
	cleanup_err err_t *e = NULL;
	bool gone = false;

	/* asked for anew: what it has become is what is answered */
	if (scopes_end(x->scopes, request_param(r, 0), request_param(r, 1), REASON_CANCELLED, &gone, &e) < 0)
		http_answer_err(r, e);
	else if (gone || !res_wait_more(r, answer_or_wait))
		answer(r, gone);
}

void res_scope_delete(struct executor *x, struct request *r)
{
	const char *iid = request_param(r, 0), *sid = request_param(r, 1), *name = request_query(r, "reason");
	enum reason why = name ? reason_parse(name) : REASON_CANCELLED;
	cleanup_err err_t *e = NULL;
	int64_t wait_ms;
	bool gone = false;

	if (!id_valid(iid) || !id_valid(sid)) {
		http_answer_problem(r, 404, "not_found", "not the id of an instance and a scope");
		return;
	}
	if (request_query_i64(r, "wait_ms", 0, RES_WAIT_MAX_MS, &wait_ms) < 0)
		return;
	if (why != REASON_CANCELLED && why != REASON_TIMEOUT)
		http_answer_problem(r, 400, "bad_field", "reason: cancelled or timeout");
	else if (scopes_end(x->scopes, iid, sid, why, &gone, &e) < 0)
		http_answer_err(r, e);
	else if (gone)
		answer(r, true);
	else if (res_wait_new(r, scopes_watches(x->scopes), wait_ms, sizeof(struct res_wait)))
		answer_or_wait(x, r);
}
