/* The container provider against an engine that loses answers, lies, clashes, is away or breaks: made once, told truly, gone for sure. */
#include "unit.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/str.h"
#include "tests/lib/container_stand.h"

/* --- cases --- */

static void made_and_gone(void **state)
{
	(void)state;
	create();
	until(INSTANCE_READY);
	assert_int_equal(fake.creates, 1);
	assert_int_equal(strlen(fake.token), 64);
	gone();
	assert_int_equal(stand.n_seen, 2);
}

static void a_second_create_is_refused(void **state)
{
	const struct instance_spec s = { .id = FAKE_IID, .workspace = "w" }, bad = { .id = "x", .workspace = "../w" };
	cleanup_err err_t *err = NULL;

	(void)state;
	create();
	assert_int_equal(provider_container.create(provider, &s, &err), -1);
	assert_int_equal(err_code(err), ERR_EXISTS);
	assert_int_equal(provider_container.create(provider, &bad, NULL), -1);
	until(INSTANCE_READY);
	assert_int_equal(fake.creates, 1);
}

static void destroy_other(void)
{
	assert_int_equal(provider_container.destroy(provider, FAKE_OTHER_IID, NULL), 0);
}

static void create_other(void)
{
	const struct instance_spec s = { .id = FAKE_OTHER_IID, .workspace = "w" };

	assert_int_equal(provider_container.create(provider, &s, NULL), 0);
}

/* Two at once end a Podman 4.3. */
static void creates_go_one_by_one(void **state)
{
	(void)state;
	fake.create_ms = 50;
	create();
	create_other();
	until(INSTANCE_READY);
	while (fake.creates < 2)
		pass(20);
	assert_int_equal(fake.creating_most, 1);
}

static void destroyed_before_its_turn(void **state)
{
	(void)state;
	fake.create_ms = 300;
	create();
	create_other();
	later(50, destroy_other);
	until(INSTANCE_READY);
	pass(50);
	assert_int_equal(fake.creates + fake.creating, 1);
}

/* The engine is left to those that are being made. */
static void removals_give_way(void **state)
{
	(void)state;
	create();
	until(INSTANCE_READY);
	fake.create_ms = 400;
	create_other();
	pass(20);
	destroy();
	pass(200);
	assert_int_equal(fake.removes, 0);
	until(INSTANCE_GONE);
	assert_int_equal(fake.removes, 1);
}

static void a_lost_answer_is_adopted(void **state)
{
	(void)state;
	fake.lose_creates = 1;
	create();
	until(INSTANCE_READY);
	assert_int_equal(fake.creates, 1);
	gone();
}

static void a_create_that_never_was_is_repeated(void **state)
{
	(void)state;
	fake.drop_creates = 1;
	create();
	until(INSTANCE_READY);
	assert_int_equal(fake.creates, 2);
}

static void an_engine_that_comes_back(void **state)
{
	(void)state;
	fake.away = 3;
	create();
	until(INSTANCE_READY);
	assert_int_equal(fake.creates, 1);
	fake.away = 2;
	gone();
}

static void an_engine_that_stays_away(void **state)
{
	(void)state;
	fake.away = 1000;
	create();
	until(INSTANCE_FAILED);
	assert_string_equal(stand.last_detail, "unavailable");
	fake.away = 0;
	gone();
}

static void storage_of_a_killed_create_is_removed(void **state)
{
	(void)state;
	fake.ghost = true;
	create();
	until(INSTANCE_READY);
	assert_int_equal(fake.removes, 1);
	gone();
}

static void no_image(void **state)
{
	(void)state;
	fake.no_image = true;
	create();
	until(INSTANCE_FAILED);
	assert_string_equal(stand.last_detail, "image_missing");
	gone();
}

/* R4.1: an engine names the host's paths freely. */
static void no_path_of_the_host_is_told(void **state)
{
	(void)state;
	fake.refusal = "engine answered 400: statfs /var/lib/paddock/workspaces/w/files: no such file or directory";
	create();
	until(INSTANCE_FAILED);
	assert_string_equal(stand.last_detail, "engine_refused");
	assert_string_equal(stand.last_text, "engine answered 400: statfs …: no such file or directory");
	stand.last_text[0] = '\0';
	assert_int_equal(provider_container.lookup(provider, FAKE_IID, NULL), 0);
	until(INSTANCE_FAILED);
	assert_string_equal(stand.last_text, "engine answered 400: statfs …: no such file or directory");
	gone();
}

static void starts_that_break(void **state)
{
	(void)state;
	fake.break_starts = 2;
	create();
	until(INSTANCE_READY);
	gone();
}

static void starts_that_never_work(void **state)
{
	(void)state;
	fake.break_starts = 100;
	create();
	until(INSTANCE_FAILED);
	assert_string_equal(stand.last_detail, "engine_error");
	gone();
}

static void somebody_else_s_container(void **state)
{
	(void)state;
	fake.exists = fake.foreign = true;
	fake.state = ENGINE_RUNNING;
	adopt(INSTANCE_WAS_MADE);
	until(INSTANCE_FAILED);
	assert_string_equal(stand.last_detail, "foreign_container");
}

static void a_wrong_token(void **state)
{
	(void)state;
	fake.wrong_token = true;
	create();
	until(INSTANCE_FAILED);
	assert_string_equal(stand.last_detail, "create_timeout");
	gone();
}

static void destroyed_while_it_is_made(void **state)
{
	(void)state;
	create();
	later(2, destroy);
	until(INSTANCE_GONE);
	assert_false(fake.exists);
	assert_int_equal(stand.n_seen, 1);
}

static void a_remove_that_lies(void **state)
{
	(void)state;
	create();
	until(INSTANCE_READY);
	fake.lie_removes = 2;
	gone();
	assert_int_equal(fake.removes, 3);
}

static void destroy_of_an_unknown_id(void **state)
{
	(void)state;
	gone();
}

static void adopted_running(void **state)
{
	(void)state;
	create();
	until(INSTANCE_READY);
	fake_agent_hang_up();
	provider_container.close(provider);
	provider = provider_container.open(loop, config, &events, NULL, NULL);
	stand.n_seen = 0;
	adopt(INSTANCE_WAS_READY);
	later(50, fake_agent_dial);
	until(INSTANCE_READY);
	assert_int_equal(fake.creates, 1);
	gone();
}

/* Longer than a making may take: it may well run on, and is no failure. */
static void adopted_and_nobody_answers(unsigned away)
{
	create();
	until(INSTANCE_READY);
	fake_agent_hang_up();
	provider_container.close(provider);
	provider = provider_container.open(loop, config, &events, NULL, NULL);
	stand.n_seen = 0;
	fake.away = away;
	adopt(INSTANCE_WAS_READY);
	pass(4500);
	assert_int_equal(stand.n_seen, 0);
	fake.away = 0;
	later(50, fake_agent_dial);
	until(INSTANCE_READY);
	assert_int_equal(stand.n_seen, 1);
	gone();
}

static void adopted_while_the_engine_is_away(void **state)
{
	(void)state;
	adopted_and_nobody_answers(1000);
}

static void adopted_while_the_agent_is_away(void **state)
{
	(void)state;
	adopted_and_nobody_answers(0);
}

static void adopted_and_no_longer_there(void **state)
{
	(void)state;
	adopt(INSTANCE_WAS_READY);
	until(INSTANCE_EXITED);
	assert_int_equal(fake.creates, 0);
	gone();
}

static void adopted_and_never_made(void **state)
{
	(void)state;
	adopt(INSTANCE_WAS_MADE);
	until(INSTANCE_READY);
	assert_int_equal(fake.creates, 1);
}

static void ends_by_itself(void **state)
{
	(void)state;
	create();
	until(INSTANCE_READY);
	fake.state = ENGINE_STOPPED;
	fake_agent_hang_up();
	until(INSTANCE_EXITED);
	assert_int_equal(stand.seen[stand.n_seen - 2], INSTANCE_LOST_CONTACT);
	gone();
}

static void the_agent_dials_again(void **state)
{
	(void)state;
	create();
	until(INSTANCE_READY);
	fake_agent_hang_up();
	until(INSTANCE_LOST_CONTACT);
	later(100, fake_agent_dial);
	until(INSTANCE_READY);
	gone();
}

static bool nobody(void *arg, const char *id)
{
	(void)arg;
	(void)id;
	return false;
}

static bool everybody(void *arg, const char *id)
{
	(void)arg;
	(void)id;
	return true;
}

static void sweeps(void **state)
{
	(void)state;
	fake.exists = true;
	fake.state = ENGINE_RUNNING;
	provider_container.sweep(provider, everybody, NULL);
	pass(200);
	assert_true(fake.exists);
	provider_container.sweep(provider, nobody, NULL);
	pass(400);
	assert_false(fake.exists);
	assert_int_equal(stand.n_seen, 0);   /* an orphan's end is nobody's news */
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(made_and_gone), CASE(a_second_create_is_refused), CASE(creates_go_one_by_one), CASE(destroyed_before_its_turn),
		CASE(removals_give_way), CASE(a_lost_answer_is_adopted), CASE(a_create_that_never_was_is_repeated),
		CASE(an_engine_that_comes_back), CASE(an_engine_that_stays_away), CASE(storage_of_a_killed_create_is_removed), CASE(no_image),
		CASE(no_path_of_the_host_is_told), CASE(starts_that_break), CASE(starts_that_never_work), CASE(somebody_else_s_container), CASE(a_wrong_token), CASE(destroyed_while_it_is_made),
		CASE(a_remove_that_lies), CASE(destroy_of_an_unknown_id), CASE(adopted_running), CASE(adopted_while_the_engine_is_away), CASE(adopted_while_the_agent_is_away),
		CASE(adopted_and_no_longer_there),
		CASE(adopted_and_never_made), CASE(ends_by_itself), CASE(the_agent_dials_again), CASE(sweeps),
	};

	log_init("test", LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
