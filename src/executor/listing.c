#include "executor/listing.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/utf8.h"
#include "core/id.h"
#include "core/json.h"
#include "executor/watch.h"

#define TEXT_MAX (64u << 20)

struct listing {
	struct buf text;
	err_t *why;              /* why there is no text */
	unsigned answered;       /* lists that came or failed */
	bool asked;              /* one is under way */
	unsigned wanted;         /* the last one that somebody waits for */
	struct instances *is;
	struct list watches;
};

struct listing *listing_new(err_t **err)
{
	struct listing *l = calloc(1, sizeof *l);

	if (!l) {
		err_set(err, ERR_NO_MEMORY, NULL, "listing");
		return NULL;
	}
	l->text = (struct buf)BUF_INIT(TEXT_MAX);
	list_init(&l->watches);
	return l;
}

void listing_free(struct listing *l)
{
	if (!l)
		return;
	buf_free(&l->text);
	err_free(l->why);
	free(l);
}

static int ask(struct listing *l, err_t **err)
{
	l->asked = instances_list(l->is, err) == 0;
	return l->asked ? 0 : -1;
}

int listing_ask(struct listing *l, struct instances *is, unsigned *ret, err_t **err)
{
	l->is = is;
	*ret = l->answered + (l->asked ? 2 : 1);
	if (!l->asked && ask(l, err) < 0)
		return -1;
	if ((int)(*ret - l->wanted) > 0)
		l->wanted = *ret;
	return 0;
}

bool listing_has(const struct listing *l, unsigned n)
{
	return (int)(l->answered - n) >= 0;
}

void listing_late(struct listing *l)
{
	l->asked = false;
}

const struct buf *listing_text(const struct listing *l, const err_t **ret_why)
{
	*ret_why = l->why;
	return l->why ? NULL : &l->text;
}

struct list *listing_watches(struct listing *l)
{
	return &l->watches;
}

/* A provider's name of something is its own word: what is not text has no name. */
static void add(struct buf *b, const struct listed *d)
{
	static const char *const states[] = { [LISTED_RUNNING] = "running", [LISTED_PAUSED] = "paused", [LISTED_OTHER] = "other" };
	const char *ref = d->ref && utf8_valid(d->ref, strlen(d->ref)) ? d->ref : "";

	buf_adds(b, "{\"ref\":");
	json_quote(b, ref, strlen(ref));
	if (d->id && id_valid(d->id))
		buf_addf(b, ",\"id\":\"%s\"", d->id);
	else
		buf_adds(b, ",\"id\":null");
	buf_addf(b, ",\"state\":\"%s\"}", states[d->state]);
}

static void write_text(struct listing *l, const struct listed *items, size_t n, bool complete)
{
	buf_reset(&l->text);
	buf_adds(&l->text, "{\"items\":[");
	for (size_t i = 0; i < n; i++) {
		if (i)
			buf_addc(&l->text, ',');
		add(&l->text, &items[i]);
	}
	buf_addf(&l->text, "],\"complete\":%s}\n", complete ? "true" : "false");
	if (buf_failed(&l->text))
		err_set(&l->why, ERR_NO_MEMORY, NULL, "list of instances");
}

void listing_set(struct listing *l, const struct listed *items, size_t n, bool complete, const err_t *err)
{
	err_free(steal_ptr(&l->why));
	if (err)
		err_set(&l->why, err_code(err), err_detail(err), "%s", err_message(err));
	else
		write_text(l, items, n, complete);
	l->answered++;
	l->asked = false;
	if ((int)(l->wanted - l->answered) > 0 && ask(l, NULL) < 0)
		l->answered = l->wanted;   /* those behind it get this answer: the provider takes no other question now */
	watch_tell(&l->watches);
}
