/* Instances that are paused, woken and kept: what is on disk before the provider is asked, and what a restart makes of it. */
#include "instances_kit.h"

#include <signal.h>
#include <sys/resource.h>

#include "base/cleanup.h"
#include "base/log.h"

/* --- pause and wake --- */

static void paused_and_woken(void **state)
{
	struct instance *i = kit_ready(A);

	(void)state;
	assert_int_equal(instances_pause(is, i, NULL), 0);
	TOLD("pausing a");
	assert_int_equal(instances_pause(is, i, NULL), 0);   /* again: nothing new */
	kit_say(A, INSTANCE_READY);                              /* the agent dialled again meanwhile */
	TOLD("");
	kit_say(A, INSTANCE_PAUSED);
	TOLD("paused a");
	assert_int_equal(instances_pause(is, i, NULL), 0);
	CALLS("pause a");
	assert_int_equal(instances_wake(is, i, NULL), 0);
	assert_int_equal(instances_wake(is, i, NULL), 0);
	TOLD("waking a");
	CALLS("wake a");
	REFUSED(instances_pause(is, i, &err), ERR_CONFLICT, "instance_busy");
	kit_say(A, INSTANCE_READY);
	TOLD("ready a, connected a");
	assert_int_equal(instances_wake(is, i, NULL), 0);
	CALLS("");
}

static void when_pause_is_refused(void **state)
{
	struct instance *i = kit_ensure(A, "w", NULL);

	(void)state;
	REFUSED(instances_pause(is, i, &err), ERR_CONFLICT, "instance_busy");
	kit_say(A, INSTANCE_READY);
	told[0] = kit_fake.calls[0] = '\0';
	kit_fake.fails = ERR_BUSY;
	REFUSED(instances_pause(is, i, &err), ERR_CONFLICT, "instance_busy");   /* the provider's own word */
	TOLD("pausing a, ready a, connected a");
	STATE(A, "ready");
	kit_fake.fails = ERR_REFUSED;
	kit_fake.detail = "pause_unsupported";
	REFUSED(instances_pause(is, i, &err), ERR_CONFLICT, "pause_unsupported");
	kit_fake.fails = 0;
	kit_say(A, INSTANCE_EXITED);
	REFUSED(instances_pause(is, i, &err), ERR_CONFLICT, "instance_lost");
	REFUSED(instances_wake(is, i, &err), ERR_CONFLICT, "instance_lost");
	assert_int_equal(instances_destroy(is, A, &i, NULL), 0);
	REFUSED(instances_pause(is, i, &err), ERR_CONFLICT, "instance_busy");
	REFUSED(instances_wake(is, i, &err), ERR_GONE, "instance_gone");
	kit_say(A, INSTANCE_GONE);
	REFUSED(instances_pause(is, i, &err), ERR_GONE, "instance_gone");
	i = kit_ensure(B, "w", NULL);
	kit_say(B, INSTANCE_FAILED);
	REFUSED(instances_wake(is, i, &err), ERR_CONFLICT, "instance_failed");
}

static void without_the_capability(void **state)
{
	(void)state;
	caps = 0;
	kit_restart();
	struct instance *i = kit_ready(A);
	REFUSED(instances_pause(is, i, &err), ERR_CONFLICT, "pause_unsupported");
	CALLS("");
	STATE(A, "ready");
}

static void a_pause_that_failed(void **state)
{
	struct instance *i = kit_ready(A);

	(void)state;
	instances_pause(is, i, NULL);
	kit_say(A, INSTANCE_PAUSE_FAILED);
	TOLD("pausing a, ready a, connected a");   /* what was queued meanwhile is started */
	assert_string_equal(instance_error_code(i), "engine_away");
	kit_fake.calls[0] = '\0';
	kit_fake.fails = ERR_UNKNOWN;                  /* it may have been done: what is true is asked */
	kit_fake.fails_call = "nothing";
	instances_pause(is, i, NULL);
	kit_say(A, INSTANCE_PAUSE_FAILED);
	CALLS("pause a, lookup a");
	STATE(A, "pausing");
	kit_say(A, INSTANCE_PAUSED);
	STATE(A, "paused");
	assert_string_equal(instance_error_code(i), "");
}

static void a_pause_without_an_answer(void **state)
{
	struct instance *i = kit_ready(A);

	(void)state;
	instances_pause(is, i, NULL);
	kit_run_for(1100);
	CALLS("pause a, lookup a");
	kit_say(A, INSTANCE_READY);   /* the truth: it did not come about; what was queued is started */
	TOLD("pausing a, ready a, connected a");
	kit_say(A, INSTANCE_PAUSED);  /* or did, after all */
	STATE(A, "paused");
}

/* Nothing waits for ever. */
static void a_pause_that_never_ends(void **state)
{
	struct instance *i = kit_ready(A);

	(void)state;
	instances_pause(is, i, NULL);
	instances_wake(is, i, NULL);
	kit_run_for(1300);
	kit_say(A, INSTANCE_AT_IT);
	TOLD("pausing a, wake-failed a");
	STATE(A, "pausing");
	kit_say(A, INSTANCE_PAUSED);
	TOLD("paused a");
}

static void woken_while_it_is_being_paused(void **state)
{
	struct instance *i = kit_ready(A);

	(void)state;
	instances_pause(is, i, NULL);
	assert_int_equal(instances_wake(is, i, NULL), 0);
	REFUSED(instances_pause(is, i, &err), ERR_CONFLICT, "instance_busy");
	kit_say(A, INSTANCE_READY);     /* the agent dialled again: the pause is still on its way */
	STATE(A, "pausing");
	CALLS("pause a");
	kit_say(A, INSTANCE_PAUSED);
	CALLS("wake a");
	TOLD("pausing a, paused a, waking a");
}

static void asleep_by_itself(void **state)
{
	(void)state;
	kit_ready(A);
	kit_say(A, INSTANCE_PAUSED);
	TOLD("paused a");
	CALLS("");
	kit_say(A, INSTANCE_READY);   /* and awake */
	TOLD("ready a, connected a");
	kit_ensure(B, "x", NULL);
	kit_say(B, INSTANCE_PAUSED);  /* while it was being made */
	STATE(B, "paused");
	kit_restart();
	assert_non_null(strstr(kit_fake.calls, "adopt-paused b"));
}

static void wakes_are_tried_again(void **state)
{
	struct instance *i = kit_paused(A);

	(void)state;
	instances_wake(is, i, NULL);
	kit_say(A, INSTANCE_WAKE_FAILED);
	STATE(A, "waking");
	kit_run_for(300);
	CALLS("wake a, wake a");
	kit_say(A, INSTANCE_READY);
	STATE(A, "ready");
	assert_string_equal(instance_error_code(i), "");
}

static void a_wake_that_is_given_up(void **state)
{
	struct instance *i = kit_paused(A);

	(void)state;
	kit_fake.fails = ERR_UNAVAILABLE;
	kit_fake.fails_call = "wake";
	instances_wake(is, i, NULL);
	kit_run_for(2200);
	TOLD("waking a, wake-failed a, paused a");
	assert_string_equal(instance_error_code(i), "wake_failed");
	assert_true(strlen(kit_fake.calls) > strlen("wake a, wake a"));
	kit_fake.calls[0] = '\0';
	kit_fake.fails = 0;
	instances_wake(is, i, NULL);
	kit_run_for(1100);                  /* no answer at all */
	CALLS("wake a");
	TOLD("waking a, wake-failed a, paused a");
	kit_say(A, INSTANCE_READY);         /* a late one */
	TOLD("ready a, connected a");
}

static void a_wake_that_cannot_be(void **state)
{
	struct instance *i = kit_paused(A);

	(void)state;
	kit_fake.fails = ERR_REFUSED;
	instances_wake(is, i, NULL);
	TOLD("waking a, wake-failed a, paused a");
}

static void gone_while_it_slept(void **state)
{
	struct instance *i = kit_paused(A);

	(void)state;
	instances_wake(is, i, NULL);
	kit_say(A, INSTANCE_EXITED);
	TOLD("waking a, lost a");
	kit_say(A, INSTANCE_READY);         /* never made anew under this id */
	STATE(A, "lost");
}

/* --- restarts --- */

static void restart_while_pausing(void **state)
{
	struct instance *i = kit_ready(A);

	(void)state;
	instances_pause(is, i, NULL);
	kit_fake.calls[0] = told[0] = '\0';
	kit_restart();
	CALLS("adopt-ready a");
	STATE(A, "pausing");
	kit_say(A, INSTANCE_READY);         /* it runs: what was asked for is asked again */
	CALLS("pause a");
	kit_say(A, INSTANCE_PAUSED);
	TOLD("paused a");
	kit_restart();
	CALLS("adopt-paused a");
	kit_say(A, INSTANCE_PAUSED);
	TOLD("");
}

static void restart_while_pausing_and_wanted(void **state)
{
	struct instance *i = kit_ready(A);

	(void)state;
	instances_pause(is, i, NULL);
	instances_wake(is, i, NULL);
	kit_restart();
	told[0] = kit_fake.calls[0] = '\0';
	kit_say(A, INSTANCE_READY);
	TOLD("ready a, connected a");
	CALLS("");
	i = kit_find(A);
	instances_pause(is, i, NULL);
	instances_wake(is, i, NULL);
	kit_restart();
	told[0] = kit_fake.calls[0] = '\0';
	kit_say(A, INSTANCE_PAUSED);
	TOLD("paused a, waking a");
	CALLS("wake a");
}

static void restart_while_waking(void **state)
{
	struct instance *i = kit_paused(A);

	(void)state;
	instances_wake(is, i, NULL);
	kit_fake.calls[0] = told[0] = '\0';
	kit_restart();
	CALLS("adopt-paused a");
	STATE(A, "waking");
	kit_say(A, INSTANCE_PAUSED);
	CALLS("wake a");
	kit_say(A, INSTANCE_READY);
	TOLD("ready a, connected a");
	kit_restart();
	CALLS("adopt-ready a");
	kit_say(A, INSTANCE_EXITED);
	TOLD("lost a");
}

static void adoption_is_tried_again(void **state)
{
	(void)state;
	kit_ready(A);
	kit_fake.fails = ERR_UNAVAILABLE;
	kit_restart();
	kit_run_for(400);
	STATE(A, "ready");
	assert_true(strlen(kit_fake.calls) > strlen("adopt-ready a, adopt-ready a"));
	REFUSED(instances_pause(is, kit_find(A), &err), ERR_CONFLICT, "instance_busy");
	kit_fake.fails = 0;
	kit_run_for(600);
	kit_fake.calls[0] = told[0] = '\0';
	kit_run_for(1100);
	CALLS("");
	kit_fake.fails = ERR_INVALID;
	kit_restart();
	STATE(A, "ready");
	kit_run_for(10);
	TOLD("failed a");
}

/* The provider is away for longer than anything may take. */
static void adoption_of_one_that_pauses(void **state)
{
	struct instance *i = kit_ready(A);

	(void)state;
	instances_pause(is, i, NULL);
	kit_fake.fails = ERR_UNAVAILABLE;
	kit_restart();
	kit_run_for(1500);
	kit_fake.calls[0] = '\0';
	kit_fake.fails = 0;
	kit_run_for(2500);
	assert_non_null(strstr(kit_fake.calls, "adopt-ready a"));
	kit_say(A, INSTANCE_PAUSED);
	STATE(A, "paused");
}

static void adoption_of_one_that_wakes(void **state)
{
	struct instance *i = kit_paused(A);

	(void)state;
	instances_wake(is, i, NULL);
	kit_fake.fails = ERR_UNAVAILABLE;
	kit_restart();
	told[0] = '\0';
	kit_run_for(3000);
	TOLD("wake-failed a, paused a");
	kit_fake.fails = 0;
	kit_run_for(2500);
	kit_say(A, INSTANCE_PAUSED);
	kit_fake.calls[0] = '\0';
	assert_int_equal(instances_wake(is, kit_find(A), NULL), 0);
	CALLS("wake a");
}

/* The provider says that it does not manage it. */
static void forgotten_by_the_provider(void **state)
{
	struct instance *i = kit_ready(A);

	(void)state;
	kit_fake.fails = ERR_NOT_FOUND;
	kit_fake.fails_call = "lookup";
	instances_lookup(is, i);
	kit_run_for(300);
	CALLS("lookup a, adopt-ready a");
	STATE(A, "ready");
}

/* --- the rest --- */

static void kept_awake(void **state)
{
	struct instance *i = kit_ready(A);
	struct instance_keeps k;

	(void)state;
	assert_int_equal(instances_keep(is, i, 5000, NULL), 0);
	CALLS("keep a");
	kit_say(A, INSTANCE_KEPT);
	TOLD("kept a");
	assert_in_range(kit_number(A, "kept_ms"), 0, 1000);
	kit_say(A, INSTANCE_KEEP_FAILED);
	k = instance_keeps(i);
	assert_int_equal(k.kept, 1);
	assert_int_equal(k.refused, 1);
	assert_string_equal(err_detail(k.err), "engine_away");
	CALLS("");
	kit_fake.fails = ERR_CONFLICT;
	kit_fake.fails_call = "nothing";
	kit_say(A, INSTANCE_KEEP_FAILED);
	CALLS("lookup a");             /* it is not what the books say */
	kit_fake.fails = 0;
	kit_restart();
	assert_in_range(kit_number(A, "kept_ms"), 0, 1000);
	kit_say(A, INSTANCE_PAUSED);
	REFUSED(instances_keep(is, kit_find(A), 5000, &err), ERR_CONFLICT, "instance_not_ready");
}

static void looked_up(void **state)
{
	struct instance *i = kit_ready(A);

	(void)state;
	instances_lookup(is, i);
	CALLS("lookup a");
	kit_say(A, INSTANCE_READY);
	kit_say(A, INSTANCE_AT_IT);
	TOLD("");
	kit_fake.fails = ERR_UNAVAILABLE;
	instances_lookup(is, i);       /* nothing comes of it */
	STATE(A, "ready");
	kit_ensure(B, "w", NULL);
	kit_fake.calls[0] = '\0';
	instances_lookup(is, kit_find(B)); /* the provider has not heard of it */
	CALLS("");
}

/* What cannot be written down does not happen. */
static void a_full_disk(void **state)
{
	struct instance *i = kit_ready(A);
	struct rlimit old, none;

	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &old);
	none = (struct rlimit){ 0, old.rlim_max };
	setrlimit(RLIMIT_FSIZE, &none);
	disk_is_full = true;
	int pause = instances_pause(is, i, NULL);
	struct instance *b = NULL;
	int replace = instances_ensure(is, B, "w", A, &b, NULL);
	setrlimit(RLIMIT_FSIZE, &old);
	disk_is_full = false;
	assert_int_equal(pause, -1);
	assert_int_equal(replace, -1);
	assert_null(instances_find(is, B));
	assert_null(strstr(kit_fake.calls, "pause"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(paused_and_woken), CASE(when_pause_is_refused), CASE(without_the_capability), CASE(a_pause_that_failed),
		CASE(a_pause_without_an_answer), CASE(a_pause_that_never_ends), CASE(woken_while_it_is_being_paused), CASE(asleep_by_itself), CASE(wakes_are_tried_again),
		CASE(a_wake_that_is_given_up), CASE(a_wake_that_cannot_be), CASE(gone_while_it_slept), CASE(restart_while_pausing),
		CASE(restart_while_pausing_and_wanted), CASE(restart_while_waking), CASE(adoption_is_tried_again), CASE(adoption_of_one_that_pauses), CASE(adoption_of_one_that_wakes),
		CASE(forgotten_by_the_provider), CASE(kept_awake),
		CASE(looked_up), CASE(a_full_disk),
	};

	log_init("test", LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
