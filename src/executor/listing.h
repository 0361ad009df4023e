/* listing.h - what the provider listed last, as the answer's text, and who waits for the next one.
 *
 * A list must have been asked for after its request came, so that what it leaves out was not there then: who comes while one is under way waits for the
 * one behind it. */
#ifndef PADDOCK_EXECUTOR_LISTING_H
#define PADDOCK_EXECUTOR_LISTING_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/list.h"
#include "executor/instances.h"

struct listing;

struct listing *listing_new(err_t **err);
void listing_free(struct listing *l);   /* NULL is fine */
/* Asks; *ret is the number of the list to wait for. */
int listing_ask(struct listing *l, struct instances *is, unsigned *ret, err_t **err);
bool listing_has(const struct listing *l, unsigned n);
void listing_late(struct listing *l);   /* nothing came in time: who comes now asks anew */
/* The answer's body; NULL when the provider gave none, then *ret_why is why. */
const struct buf *listing_text(const struct listing *l, const err_t **ret_why);
struct list *listing_watches(struct listing *l);

void listing_set(struct listing *l, const struct listed *items, size_t n, bool complete, const err_t *err);   /* from the provider */

#endif
