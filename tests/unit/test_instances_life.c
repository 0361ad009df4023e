/* One living instance a workspace: replaced, waiting, stuck, forgotten. */
#include "instances_kit.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/log.h"
#include "base/str.h"

/* --- one living instance a workspace --- */

static void replaced(void **state)
{
	struct instance *i;

	(void)state;
	kit_ready(A);
	kit_ensure(B, "w", A);
	CALLS("destroy a");
	STATE(A, "destroying");
	STATE(B, "creating");
	assert_true(kit_text_is(B, "waits_for", A));
	kit_say(B, INSTANCE_READY);        /* nobody made it */
	STATE(B, "creating");
	REFUSED(instances_ensure(is, A, "w", NULL, &i, &err), ERR_GONE, "instance_gone");
	kit_say(A, INSTANCE_GONE);
	CALLS("adopt-made b");
	assert_true(kit_text_is(B, "waits_for", NULL));
	kit_ensure(B, "w", A);             /* asked again */
	CALLS("");
	kit_say(B, INSTANCE_READY);
	STATE(B, "ready");
}

static void what_may_be_replaced(void **state)
{
	struct instance *i;

	(void)state;
	kit_ready(A);
	REFUSED(instances_ensure(is, B, "x", A, &i, &err), ERR_CONFLICT, "other_workspace");
	REFUSED(instances_ensure(is, B, "w", B, &i, &err), ERR_INVALID, "bad_field");
	REFUSED(instances_ensure(is, B, "w", "../../" A, &i, &err), ERR_INVALID, "bad_field");
	REFUSED(instances_ensure(is, B, "..", A, &i, &err), ERR_INVALID, "bad_workspace");
	STATE(A, "ready");
	assert_null(instances_find(is, B));
	kit_ensure(B, "w", C);             /* never heard of: no late request makes it now */
	STATE(C, "destroying");
	REFUSED(instances_ensure(is, C, "w", NULL, &i, &err), ERR_GONE, "instance_gone");
	REFUSED(instances_ensure(is, D, "x", C, &i, &err), ERR_CONFLICT, "other_workspace");
	kit_restart();
	REFUSED(instances_ensure(is, C, "w", NULL, &i, &err), ERR_GONE, "instance_gone");
}

/* The executor's books were lost and the old instance lives: its replacement waits for its end as for that of any other. */
static void one_never_seen_is_in_the_way(void **state)
{
	(void)state;
	kit_ensure(B, "w", A);
	CALLS("destroy a");
	TOLD("destroying a");
	STATE(B, "creating");
	assert_true(kit_text_is(B, "waits_for", A));
	assert_true(kit_text_is(A, "workspace", "w"));
	kit_restart();
	kit_run_for(10);
	CALLS("destroy a");
	assert_true(kit_text_is(B, "waits_for", A));
	kit_say(A, INSTANCE_GONE);
	CALLS("adopt-made b");
	STATE(A, "gone");
	kit_say(B, INSTANCE_READY);
	STATE(B, "ready");
}

/* Destroyed by its id alone, it becomes known as one of the workspace when it is to be replaced. */
static void one_never_seen_gets_its_workspace(void **state)
{
	struct instance *i;

	(void)state;
	assert_int_equal(instances_destroy(is, A, &i, NULL), 0);
	kit_ensure(B, "w", A);
	CALLS("destroy a");
	assert_true(kit_text_is(B, "waits_for", A));
	kit_restart();
	assert_true(kit_text_is(A, "workspace", "w"));
	REFUSED(instances_ensure(is, C, "x", A, &i, &err), ERR_CONFLICT, "other_workspace");
	kit_fake.calls[0] = '\0';
	kit_say(A, INSTANCE_GONE);
	CALLS("adopt-made b");
}

static void one_never_seen_and_a_provider_that_is_away(void **state)
{
	(void)state;
	kit_fake.fails = ERR_UNAVAILABLE;
	kit_fake.fails_call = "destroy";
	kit_ensure(B, "w", A);
	assert_int_equal(kit_number(A, "destroy_failures"), 1);
	assert_true(kit_text_is(B, "waits_for", A));
	kit_run_for(1100);
	CALLS("destroy a, destroy a");
	kit_run_for(2100);
	assert_true(instance_stuck(kit_find(A)));
	CALLS("destroy a, adopt-made b");   /* stuck as any other */
	kit_say(A, INSTANCE_GONE);
	STATE(A, "gone");
}

static void one_never_seen_is_no_ones_in_a_run(void **state)
{
	(void)state;
	caps = 0;
	kit_restart();
	kit_ensure(B, "w", A);
	CALLS("destroy a, create b");
}

/* --- the books are younger than the instance --- */

static struct instance *take_back(const char *id, bool paused, int64_t running_ms)
{
	struct instance_past p = { paused, running_ms };
	struct instance *i = NULL;

	assert_int_equal(instances_take_back(is, id, "w", &p, &i, NULL), 0);
	return i;
}

static void taken_back(void **state)
{
	(void)state;
	take_back(A, false, 5000);
	CALLS("adopt-ready a");
	TOLD("ready a");
	assert_int_equal(kit_number(A, "running_ms"), 5000);
	take_back(A, true, 1);             /* asked again: nothing changes */
	CALLS("");
	STATE(A, "ready");
	kit_say(A, INSTANCE_READY);
	TOLD("connected a");
	kit_run_for(20);
	assert_in_range(kit_number(A, "running_ms"), 5010, 5500);
	kit_restart();
	CALLS("adopt-ready a");
	assert_in_range(kit_number(A, "running_ms"), 5010, 5500);
	take_back(B, true, 0);
	CALLS("adopt-paused b");
	kit_say(B, INSTANCE_PAUSED);
	STATE(B, "paused");
	assert_int_equal(instances_wake(is, kit_find(B), NULL), 0);
	CALLS("wake b");
}

/* It is never made, and it does not take the room of what exists. */
static void taken_back_and_no_more(void **state)
{
	(void)state;
	take_back(A, false, 70);
	kit_say(A, INSTANCE_EXITED);
	STATE(A, "lost");
	assert_int_equal(kit_number(A, "running_ms"), 70);
	kit_fake.fails = ERR_NOT_FOUND;
	take_back(B, false, 0);
	STATE(B, "lost");
	take_back(C, true, 0);
	take_back(D, true, 0);
	CALLS("adopt-ready a, adopt-ready b, adopt-paused c, adopt-paused d");
	kit_fake.fails = 0;
	assert_int_equal(instances_destroy(is, D, &(struct instance *){ NULL }, NULL), 0);
	take_back(D, true, 0);
	STATE(D, "destroying");
	kit_say(D, INSTANCE_GONE);
	take_back(D, true, 0);
	STATE(D, "gone");
}

static void taken_back_when_the_provider_is_away(void **state)
{
	(void)state;
	kit_fake.fails = ERR_UNAVAILABLE;
	take_back(A, false, 0);
	STATE(A, "ready");
	kit_run_for(1500);                 /* for longer than a creation may take */
	STATE(A, "ready");
	kit_fake.fails = 0;
	kit_run_for(2100);
	kit_say(A, INSTANCE_READY);
	STATE(A, "ready");
	assert_non_null(strstr(told, "connected a"));
}

static void what_is_not_taken_back(void **state)
{
	struct instance_past p = { 0 };
	struct instance *i;

	(void)state;
	REFUSED(instances_take_back(is, "nonsense", "w", &p, &i, &err), ERR_INVALID, "bad_id");
	REFUSED(instances_take_back(is, A, "..", &p, &i, &err), ERR_INVALID, "bad_workspace");
	caps = 0;
	kit_restart();
	REFUSED(instances_take_back(is, A, "w", &p, &i, &err), ERR_CONFLICT, "take_up_unsupported");
	assert_null(instances_find(is, A));
}

/* A provider that does not manage it would say of any scope that nothing is left. */
static void scopes_of_what_is_not_taken_up(void **state)
{
	(void)state;
	REFUSED(instances_scope_end(is, A, B, &err), ERR_CONFLICT, "instance_not_ready");
	kit_fake.fails = ERR_UNAVAILABLE;
	take_back(A, false, 0);
	REFUSED(instances_scope_end(is, A, B, &err), ERR_CONFLICT, "instance_not_ready");
	assert_int_equal(instances_destroy(is, C, &(struct instance *){ NULL }, NULL), 0);
	REFUSED(instances_scope_end(is, C, B, &err), ERR_CONFLICT, "instance_not_ready");
}

/* What an addition that came to nothing has left makes nothing, and unmakes nothing. */
static void what_was_not_written_whole_was_not_written(void **state)
{
	static const char gone[] = "{\"state\":\"destroying\",\"was_ready\":false,\"enforced\":false,\"created_ms\":0,\"ready_ms\":0,\"gone_ms\":0,\"version\":1,"
		"\"acked\":0,\"error_code\":\"\",\"error_message\":\"\"}";
	struct instance *i;

	(void)state;
	kit_ready(A);
	assert_int_equal(mkdirat(dir_fd, "instances/" B, 0700), 0);
	assert_int_equal(mkdirat(dir_fd, "instances/" B "/state", 0700), 0);   /* cannot be written */
	assert_int_equal(instances_ensure(is, B, "w", A, &i, NULL), -1);
	assert_int_equal(instances_ensure(is, D, "w", B, &i, NULL), -1);
	kit_restart();
	assert_null(instances_find(is, B));
	assert_int_equal(mkdirat(dir_fd, "instances/" C, 0700), 0);
	cleanup_close int fd = openat(dir_fd, "instances/" C, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(io_write_file(fd, "state", gone, strlen(gone), 0600, 0, NULL), 0);
	kit_ensure(C, "x", NULL);
	kit_restart();
	STATE(C, "creating");
}

static void a_replacement_needs_no_place(void **state)
{
	struct instance *i;

	(void)state;
	kit_ready(A);
	kit_ensure(B, "x", NULL);
	kit_ensure(C, "y", NULL);
	REFUSED(instances_ensure(is, D, "z", NULL, &i, &err), ERR_LIMIT, "too_many_instances");
	kit_ensure(D, "w", A);
	STATE(A, "destroying");
}

static void waiting_outlives_us(void **state)
{
	(void)state;
	kit_ready(A);
	kit_ensure(B, "w", A);
	kit_restart();
	kit_run_for(10);
	assert_null(strstr(kit_fake.calls, "adopt-made b"));
	assert_null(strstr(kit_fake.calls, "create"));
	assert_true(kit_text_is(B, "waits_for", A));
	kit_say(A, INSTANCE_GONE);
	assert_non_null(strstr(kit_fake.calls, "adopt-made b"));
}

/* Gone on disk, and then we died. */
static void freed_while_we_were_away(void **state)
{
	struct instance *i;
	char path[128];

	(void)state;
	kit_ready(A);
	kit_ensure(B, "w", A);
	instances_close(is);
	str_fmt(path, sizeof(path), "instances/%s", A);
	io_remove_tree(dir_fd, path, NULL);
	cleanup_close int fd = openat(dir_fd, "instances", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	io_remove_tree(fd, A, NULL);
	kit_fake.calls[0] = '\0';
	kit_start();
	kit_run_for(10);
	CALLS("adopt-made b");
	assert_int_equal(instances_destroy(is, B, &i, NULL), 0);
}

static void stuck(void **state)
{
	(void)state;
	kit_ready(A);
	kit_ensure(B, "w", A);
	for (int n = 1; n <= 2; n++) {
		kit_say(A, INSTANCE_DESTROY_FAILED);
		assert_int_equal(kit_number(A, "destroy_failures"), n);
		assert_false(instance_stuck(kit_find(A)));
	}
	CALLS("destroy a");
	kit_restart();                     /* the count is kept */
	assert_int_equal(kit_number(A, "destroy_failures"), 2);
	told[0] = kit_fake.calls[0] = '\0';
	uint64_t version = instance_version(kit_find(A));
	kit_say(A, INSTANCE_DESTROY_FAILED);
	assert_true(instance_stuck(kit_find(A)));
	assert_true(instance_version(kit_find(A)) > version);   /* reported */
	CALLS("adopt-made b");                               /* no longer in the way */
	assert_string_equal(instance_error_code(kit_find(A)), "engine_away");
	kit_say(B, INSTANCE_READY);
	STATE(B, "ready");
	version = instance_version(kit_find(A));
	kit_say(A, INSTANCE_DESTROY_FAILED);
	assert_int_equal(instance_version(kit_find(A)), version);
	kit_run_for(2200);
	CALLS("destroy a");                                  /* still tried */
	kit_say(A, INSTANCE_GONE);
	STATE(A, "gone");
}

static void two_that_wait(void **state)
{
	struct instance *i;

	(void)state;
	kit_ready(A);
	kit_ensure(B, "w", A);
	usleep(3000);
	kit_ensure(C, "w", NULL);
	kit_fake.calls[0] = '\0';
	kit_say(A, INSTANCE_GONE);
	CALLS("adopt-made b");         /* the older one */
	assert_true(kit_text_is(C, "waits_for", B));
	kit_restart();
	kit_run_for(10);
	CALLS("adopt-made b");
	instances_destroy(is, B, &i, NULL);
	CALLS("destroy b");
	kit_say(B, INSTANCE_GONE);
	CALLS("adopt-made c");
}

static void one_that_waits_is_destroyed(void **state)
{
	struct instance *i;

	(void)state;
	kit_ready(A);
	kit_ensure(B, "w", A);
	instances_destroy(is, B, &i, NULL);
	CALLS("destroy a, destroy b");
	kit_say(B, INSTANCE_GONE);
	kit_say(A, INSTANCE_GONE);
	CALLS("");
}

static void other_workspaces_and_other_kinds_do_not_wait(void **state)
{
	(void)state;
	kit_ready(A);
	kit_ensure(B, "x", NULL);
	CALLS("create b");
	caps = 0;
	kit_restart();
	kit_fake.calls[0] = '\0';
	kit_ensure(C, "w", NULL);
	CALLS("create c");
}

static void forgotten(void **state)
{
	struct instance *i;

	(void)state;
	kit_ready(A);
	kit_ensure(B, "w", A);
	assert_int_equal(instances_forget(is, A, &i, NULL), 0);
	STATE(A, "gone");
	CALLS("destroy a, adopt-made b");
	kit_say(A, INSTANCE_DESTROY_FAILED);   /* counts no more */
	kit_say(B, INSTANCE_READY);
	kit_run_for(1100);
	CALLS("");
	kit_restart();
	STATE(A, "gone");
	kit_fake.calls[0] = '\0';
	assert_int_equal(instances_forget(is, C, &i, NULL), 0);
	STATE(C, "gone");
	CALLS("destroy c");                       /* never seen: asked once, and its answer counts no more */
	kit_say(C, INSTANCE_DESTROY_FAILED);
	kit_run_for(1100);
	CALLS("");
	assert_int_equal(instances_forget(is, B, &i, NULL), 0);   /* one that lives: the provider is told all the same */
	assert_non_null(strstr(kit_fake.calls, "destroy b"));
	REFUSED(instances_forget(is, "B", &i, &err), ERR_INVALID, "bad_id");
}

/* --- creations --- */

static void a_create_of_which_nothing_is_known(void **state)
{
	(void)state;
	kit_fake.fails = ERR_UNKNOWN;
	kit_ensure(A, "w", NULL);
	STATE(A, "creating");
	kit_fake.fails = 0;
	kit_run_for(300);
	CALLS("create a, adopt-made a");   /* asked by its id, never a second one */
	kit_say(A, INSTANCE_READY);
	kit_ensure(B, "x", NULL);
	kit_fake.fails = ERR_UNKNOWN;      /* the same as an answer */
	kit_fake.fails_call = "nothing";
	kit_say(B, INSTANCE_FAILED);
	kit_run_for(300);
	CALLS("create b, lookup b");
	STATE(B, "creating");
	kit_say(B, INSTANCE_READY);
	kit_run_for(600);
	CALLS("");
	STATE(B, "ready");
	kit_ensure(C, "y", NULL);
	kit_run_for(1000);
	kit_say(C, INSTANCE_FAILED);       /* too late to hope */
	STATE(C, "failed");
}

static void a_create_without_an_answer(void **state)
{
	(void)state;
	kit_ensure(A, "w", NULL);
	kit_run_for(1400);
	CALLS("create a, lookup a, lookup a");
	STATE(A, "creating");
	kit_say(A, INSTANCE_READY);
	kit_run_for(1000);
	CALLS("");
}

static void a_destroy_without_an_answer(void **state)
{
	struct instance *i = kit_ready(A);

	(void)state;
	instances_destroy(is, A, &i, NULL);
	kit_run_for(1100);
	assert_int_equal(kit_number(A, "destroy_failures"), 1);
	kit_run_for(1100);
	CALLS("destroy a, destroy a");
}

/* The provider cannot tell what became of one that was there: that is no reason to give it up. */
static void in_doubt(void **state)
{
	(void)state;
	kit_ready(A);
	kit_fake.fails = ERR_UNAVAILABLE;
	kit_fake.fails_call = "nothing";
	kit_say(A, INSTANCE_FAILED);
	kit_run_for(900);
	CALLS("lookup a, lookup a");
	STATE(A, "ready");
	TOLD("");
	kit_say(A, INSTANCE_PAUSED);
	STATE(A, "paused");
	kit_fake.fails = ERR_UNAVAILABLE;
	kit_say(A, INSTANCE_FAILED);
	kit_say(A, INSTANCE_FAILED);   /* what it says when it is asked counts */
	STATE(A, "failed");
	kit_ensure(B, "x", NULL);
	kit_say(B, INSTANCE_READY);
	kit_fake.fails = ERR_INVALID;
	kit_say(B, INSTANCE_FAILED);
	STATE(B, "failed");
}

static void no_doubt_for_one_of_a_run(void **state)
{
	(void)state;
	caps = 0;
	kit_restart();
	kit_ready(A);
	kit_fake.fails = ERR_TIMEOUT;
	kit_say(A, INSTANCE_FAILED);
	STATE(A, "failed");
}

static void a_create_after_a_wait_that_fails(void **state)
{
	(void)state;
	kit_ready(A);
	kit_ensure(B, "w", A);
	kit_fake.fails = ERR_UNAVAILABLE;
	kit_fake.fails_call = "adopt-made";
	kit_say(A, INSTANCE_GONE);
	kit_run_for(2300);
	STATE(B, "failed");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(replaced), CASE(what_may_be_replaced), CASE(a_replacement_needs_no_place), CASE(waiting_outlives_us),
		CASE(freed_while_we_were_away), CASE(stuck), CASE(two_that_wait), CASE(one_that_waits_is_destroyed),
		CASE(other_workspaces_and_other_kinds_do_not_wait), CASE(forgotten), CASE(one_never_seen_is_in_the_way),
		CASE(one_never_seen_gets_its_workspace), CASE(one_never_seen_and_a_provider_that_is_away), CASE(one_never_seen_is_no_ones_in_a_run), CASE(taken_back), CASE(taken_back_and_no_more), CASE(taken_back_when_the_provider_is_away),
		CASE(what_is_not_taken_back), CASE(scopes_of_what_is_not_taken_up),
		CASE(what_was_not_written_whole_was_not_written), CASE(a_create_of_which_nothing_is_known), CASE(in_doubt), CASE(no_doubt_for_one_of_a_run),
		CASE(a_create_without_an_answer), CASE(a_destroy_without_an_answer),
		CASE(a_create_after_a_wait_that_fails),
	};

	log_init("test", LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
