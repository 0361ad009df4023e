/* res_provider.c - /v1/provider/instances: the provider's own list. */
#include "base/cleanup.h"
#include "executor/executor.h"
#include "executor/listing.h"
#include "executor/res.h"
#include "executor/res_wait.h"

#define LIST_MS 10000

struct list_wait {
	struct res_wait wait;   /* first */
	unsigned n;             /* which list */
};

static void answer_list(struct executor *x, struct request *r)
{
	const err_t *why = NULL;
	const struct buf *text = listing_text(x->listing, &why);
	struct buf b = BUF_INIT(text ? text->cap : 0);

	if (!text) {
		http_answer_problem(r, 503, "control_plane_unavailable", err_message(why));
		return;
	}
	buf_add(&b, text->data, text->len);
	http_answer_buf(r, 200, "application/json", &b);
}

static void answer_or_wait(struct executor *x, struct request *r)
{
	const struct list_wait *w = request_state(r);

	if (listing_has(x->listing, w->n)) {
		answer_list(x, r);
	} else if (!res_wait_more(r, answer_or_wait)) {
		listing_late(x->listing);
		http_answer_problem(r, 503, "control_plane_unavailable", "the provider did not answer in time");
	}
}

void res_provider_instances(struct executor *x, struct request *r)
{
	struct list_wait *w = res_wait_new(r, listing_watches(x->listing), LIST_MS, sizeof *w);
	cleanup_err err_t *e = NULL;

	if (!w)
		return;
	if (listing_ask(x->listing, x->instances, &w->n, &e) < 0)
		http_answer_problem(r, 503, "control_plane_unavailable", err_message(e));
	else
		answer_or_wait(x, r);
}
