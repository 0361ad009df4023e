/* instances_again.c - the one timer of an instance: what its state needs is asked of the provider again, later and later. */
#include "base/cleanup.h"
#include "base/clock.h"
#include "executor/instances_priv.h"

#define BACKOFF_MIN_MS 250
#define BACKOFF_MAX_MS 5000
#define DESTROY_BACKOFF_MIN_MS 1000
#define DESTROY_BACKOFF_MAX_MS 60000

/* What is asked next is how its pause or its wake goes on; a wake is over when its time is, also of one that is not taken up again. */
static bool is_timed(const struct instance *i)
{
	if (i->r.state == INSTANCE_WAKING)
		return i->handed || clock_boot_ms() >= i->until_ms;
	return i->r.state == INSTANCE_PAUSING && i->handed;
}

static void on_again(void *arg)
{
	struct instance *i = arg;

	if (is_timed(i))
		instances_pause_again(i);
	else
		instances_life_again(i);
}

void instances_again_in(struct instance *i, int64_t ms)
{
	if (!i->again)
		i->again = loop_timer_new(i->is->loop, on_again, i);
	if (i->again)
		loop_timer_set(i->again, ms > 0 ? ms : 0);
}

void instances_again(struct instance *i)
{
	bool destroys = i->r.state == INSTANCE_DESTROYING;
	int64_t min = destroys ? DESTROY_BACKOFF_MIN_MS : BACKOFF_MIN_MS, max = destroys ? DESTROY_BACKOFF_MAX_MS : BACKOFF_MAX_MS;

	if (i->backoff_ms < min)
		i->backoff_ms = min;
	instances_again_in(i, i->backoff_ms);
	i->backoff_ms = i->backoff_ms * 2 > max ? max : i->backoff_ms * 2;
}

void instances_again_reset(struct instance *i)
{
	loop_timer_free(steal_ptr(&i->again));
	i->backoff_ms = 0;
}

bool instances_transient(const err_t *err)
{
	switch (err_code(err)) {
	case ERR_UNAVAILABLE:
	case ERR_UNKNOWN:
	case ERR_BUSY:
	case ERR_TIMEOUT:
	case ERR_LIMIT:
	case ERR_DENIED:      /* credentials are put right by a person */
	case ERR_NO_SPACE:
	case ERR_NO_MEMORY:
		return true;
	case ERR_INTERNAL:
	case ERR_INVALID:
	case ERR_REFUSED:
	case ERR_NOT_FOUND:
	case ERR_CONFLICT:
	case ERR_EXISTS:
	case ERR_TOO_LARGE:
	case ERR_GONE:
		break;
	}
	return false;
}
