#include "executor/ticket.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/rand.h"
#include "base/str.h"
#include "core/crypto.h"

#define TICKET_SLOTS 4096   /* a power of two */

struct ticket {
	struct list node;       /* all, oldest first */
	struct ticket *next;    /* in its slot */
	int64_t until_ms;
	char text[TICKET_SIZE];
	char cid[ID_SIZE];
	struct view_spec view;
};

struct tickets {
	int64_t life_ms;
	unsigned count;
	struct list all;
	struct ticket *slots[TICKET_SLOTS];
};

struct tickets *tickets_new(int64_t life_ms, err_t **err)
{
	struct tickets *t = calloc(1, sizeof *t);

	if (!t) {
		err_set(err, ERR_NO_MEMORY, NULL, "tickets");
		return NULL;
	}
	t->life_ms = life_ms;
	list_init(&t->all);
	return t;
}

/* The text is random: a part of it is as good as a hash, and a time measured on the slot tells nothing about the rest. */
static struct ticket **slot_of(struct tickets *t, const char *text)
{
	unsigned v = 0;

	for (int i = 0; i < 8; i++)
		v = v * 16 + (unsigned char)text[i] % 39 % 16;
	return &t->slots[v % TICKET_SLOTS];
}

static void forget(struct tickets *t, struct ticket *k)
{
	struct ticket **p = slot_of(t, k->text);

	while (*p != k)
		p = &(*p)->next;
	*p = k->next;
	list_del(&k->node);
	t->count--;
	free(k);
}

static void expire(struct tickets *t)
{
	int64_t now = clock_boot_ms();

	while (!list_empty(&t->all)) {
		struct ticket *k = list_entry(t->all.next, struct ticket, node);

		if (k->until_ms > now)
			return;
		forget(t, k);
	}
}

void tickets_free(struct tickets *t)
{
	if (!t)
		return;
	while (!list_empty(&t->all))
		forget(t, list_entry(t->all.next, struct ticket, node));
	free(t);
}

int tickets_make(struct tickets *t, const char *cid, const struct view_spec *v, char dst[TICKET_SIZE], err_t **err)
{
	struct ticket *k, **slot;

	expire(t);
	if (t->count >= TICKETS_MAX)
		return err_set(err, ERR_LIMIT, "too_many_tickets", "%u tickets wait to be used", t->count);
	k = calloc(1, sizeof *k);
	if (!k || str_copy(k->cid, sizeof k->cid, cid) < 0) {
		free(k);
		return err_set(err, ERR_NO_MEMORY, NULL, "ticket");
	}
	rand_hex(k->text, (TICKET_SIZE - 1) / 2);
	k->view = *v;
	k->until_ms = clock_boot_ms() + t->life_ms;
	slot = slot_of(t, k->text);
	k->next = *slot;
	*slot = k;
	list_add_tail(&t->all, &k->node);
	t->count++;
	memcpy(dst, k->text, TICKET_SIZE);
	return 0;
}

int tickets_take(struct tickets *t, const char *ticket, char cid[ID_SIZE], struct view_spec *ret)
{
	expire(t);
	if (strlen(ticket) != TICKET_SIZE - 1)
		return -1;
	for (struct ticket *k = *slot_of(t, ticket); k; k = k->next) {
		if (!crypto_equal(k->text, ticket, TICKET_SIZE - 1))
			continue;
		memcpy(cid, k->cid, ID_SIZE);
		*ret = k->view;
		forget(t, k);
		return 0;
	}
	return -1;
}

unsigned tickets_count(const struct tickets *t)
{
	return t->count;
}
