/* What is asked of containers that exist: lookup, pause, keep, list, and the ends of scopes. */
#include "unit.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/str.h"
#include "tests/lib/container_stand.h"

/* --- what is asked of an instance --- */

static void lookup(void)
{
	assert_int_equal(provider_container.lookup(provider, FAKE_IID, NULL), 0);
}

static void looked_up(void **state)
{
	cleanup_err err_t *err = NULL;

	(void)state;
	assert_int_equal(provider_container.lookup(provider, FAKE_IID, &err), -1);
	assert_int_equal(err_code(err), ERR_NOT_FOUND);
	create();
	lookup();
	assert_int_equal(stand.n_seen, 0);
	until(INSTANCE_AT_IT);
	until(INSTANCE_READY);
	stand.n_seen = 0;
	lookup();
	until(INSTANCE_READY);
	assert_int_equal(stand.n_seen, 1);
	fake.away = 1;
	lookup();
	pass(50);
	assert_int_equal(stand.n_seen, 1);   /* nobody knows */
	fake.state = ENGINE_STOPPED;
	fake_agent_hang_up();
	until(INSTANCE_EXITED);
	stand.n_seen = 0;
	lookup();
	until(INSTANCE_EXITED);
	assert_string_equal(stand.last_detail, "instance_ended");
	gone();
}

/* A question that could not even be put is put again, however long ago it was made: no reason to give it up. */
static void looked_up_with_difficulty(void **state)
{
	(void)state;
	create();
	until(INSTANCE_READY);
	pass(3100);
	fake.refuse_inspects = 2;
	lookup();
	until(INSTANCE_READY);
	assert_int_equal(fake.refuse_inspects, 0);
	assert_int_equal(stand.n_seen, 2);
	gone();
}

static void looked_up_and_failed(void **state)
{
	(void)state;
	fake.no_image = true;
	create();
	until(INSTANCE_FAILED);
	lookup();
	until(INSTANCE_FAILED);
	assert_string_equal(stand.last_detail, "image_missing");
	gone();
}

static void never_paused(void **state)
{
	cleanup_err err_t *err = NULL, *other = NULL;

	(void)state;
	create();
	until(INSTANCE_READY);
	assert_int_equal(provider_container.pause(provider, FAKE_IID, &err), -1);
	assert_int_equal(err_code(err), ERR_REFUSED);
	assert_string_equal(err_detail(err), "pause_unsupported");
	assert_int_equal(provider_container.wake(provider, FAKE_IID, &other), -1);
	assert_string_equal(err_detail(other), "pause_unsupported");
	assert_int_equal(provider_container.caps, provider_caps("container"));
	assert_int_equal(provider_caps("container") & PROVIDER_PAUSE, 0);
	assert_int_equal(provider_caps("nothing"), 0);
	gone();
}

static void kept(void **state)
{
	cleanup_err err_t *err = NULL;

	(void)state;
	assert_int_equal(provider_container.keep(provider, FAKE_IID, 1000, &err), -1);
	assert_int_equal(err_code(err), ERR_NOT_FOUND);
	create();
	assert_int_equal(provider_container.keep(provider, FAKE_IID, 1000, NULL), 0);
	until(INSTANCE_KEEP_FAILED);
	assert_string_equal(stand.last_detail, "instance_not_ready");
	until(INSTANCE_READY);
	assert_int_equal(provider_container.keep(provider, FAKE_IID, 1000, NULL), 0);
	until(INSTANCE_KEPT);
	gone();
}

static void until_listed(void)
{
	assert_int_equal(provider_container.list(provider, NULL), 0);
	until_stopped();
}

static void listed(void **state)
{
	(void)state;
	until_listed();
	assert_int_equal(stand.n_listed, 0);
	assert_true(stand.list_complete);
	create();
	until(INSTANCE_READY);
	until_listed();
	assert_int_equal(stand.n_listed, 1);
	assert_string_equal(stand.listed_id, FAKE_IID);
	assert_string_equal(stand.listed_ref, FAKE_NAME);
	assert_int_equal(stand.listed_as, LISTED_RUNNING);
	fake.foreign = true;
	until_listed();
	assert_string_equal(stand.listed_id, "");
	fake.foreign = false;
	fake.away = 1;
	until_listed();
	assert_int_equal(stand.n_listed, 0);
	assert_false(stand.list_complete);
	assert_string_equal(stand.last_detail, "unavailable");
	gone();
}

/* --- the ends of scopes --- */

static void scope_end(void)
{
	unsigned before = stand.scopes_ended;

	assert_int_equal(provider_container.scope_end(provider, FAKE_IID, SCOPE, NULL), 0);
	assert_int_equal(stand.scopes_ended, before);   /* nothing is told from within the call */
}

/* Confirmed, or why not. */
static void until_scope(const char *detail)
{
	unsigned before = stand.scopes_ended;

	until_stopped();
	assert_int_equal(stand.scopes_ended, before + 1);
	assert_string_equal(stand.last_scope, SCOPE);
	assert_string_equal(stand.last_detail, detail);
}

static int exec_in_scope(err_t **err)
{
	const struct exec_spec s = { .exec_id = "e", .scope = SCOPE, .command = "true", .cwd = "/", .timeout_ms = 1000 };

	return provider_container.exec(provider, FAKE_IID, &s, err);
}

static void assert_scope_is_over(void)
{
	cleanup_err err_t *err = NULL;

	assert_int_equal(exec_in_scope(&err), -1);
	assert_int_equal(err_code(err), ERR_GONE);
	assert_string_equal(err_detail(err), "scope_gone");
}

static void a_scope_of_nobody(void **state)
{
	(void)state;
	scope_end();
	until_scope("");
}

static void a_scope_before_it_was_ready(void **state)
{
	(void)state;
	create();
	scope_end();
	until_scope("");
	until(INSTANCE_READY);
	assert_scope_is_over();
	gone();
}

static void agent_answers(void)
{
	fake_agent_scope_ended(SCOPE);
}

static void a_scope_ends_with_the_agent_s_word(void **state)
{
	(void)state;
	create();
	until(INSTANCE_READY);
	assert_int_equal(exec_in_scope(NULL), 0);
	scope_end();
	pass(50);
	assert_int_equal(stand.scopes_ended, 0);
	assert_int_equal(fake_agent_scope_ends(SCOPE), 1);
	assert_scope_is_over();
	scope_end();                          /* asked twice, told once */
	later(1, agent_answers);
	until_scope("");
	fake_agent_scope_ended(SCOPE);        /* told unasked */
	pass(50);
	assert_int_equal(stand.scopes_ended, 1);
	scope_end();
	later(1, agent_answers);
	until_scope("");
	gone();
}

/* Its answer was lost with the connection. */
/* As many as the agent remembers. None that waits for its confirmation is forgotten. */
static void the_oldest_of_many_scopes_is_forgotten(void **state)
{
	cleanup_err err_t *err = NULL;
	char id[] = "00000000-2222-4333-8444-555555555555";

	(void)state;
	create();
	until(INSTANCE_READY);
	scope_end();
	for (int i = 1; i < 4096; i++) {
		str_fmt(id, 9, "%08x", (unsigned)i);
		id[8] = '-';
		assert_int_equal(provider_container.scope_end(provider, FAKE_IID, id, NULL), 0);
	}
	memset(id, 'f', 8);
	assert_int_equal(provider_container.scope_end(provider, FAKE_IID, id, &err), -1);
	assert_int_equal(err_code(err), ERR_NO_MEMORY);
	fake_agent_scope_ended(SCOPE);
	until_scope("");
	assert_scope_is_over();
	assert_int_equal(provider_container.scope_end(provider, FAKE_IID, id, NULL), 0);
	assert_int_equal(exec_in_scope(NULL), 0);   /* the agent has forgotten it, too: its caller has not */
	gone();
}

static void a_scope_is_asked_again_when_the_agent_is_back(void **state)
{
	(void)state;
	create();
	until(INSTANCE_READY);
	scope_end();
	fake_agent_hang_up();
	until(INSTANCE_LOST_CONTACT);
	later(50, fake_agent_dial);
	until(INSTANCE_READY);
	pass(50);
	assert_int_equal(stand.scopes_ended, 0);
	assert_int_equal(fake_agent_scope_ends(SCOPE), 1);
	later(1, agent_answers);
	until_scope("");
	gone();
}

static void a_scope_of_one_that_was_taken_up(void **state)
{
	(void)state;
	create();
	until(INSTANCE_READY);
	fake_agent_hang_up();
	provider_container.close(provider);
	provider = provider_container.open(loop, config, &events, NULL, NULL);
	adopt(INSTANCE_WAS_READY);
	scope_end();                          /* commands may run there: only the agent knows */
	pass(50);
	assert_int_equal(stand.scopes_ended, 0);
	fake_agent_dial();
	until(INSTANCE_READY);
	pass(50);
	assert_int_equal(fake_agent_scope_ends(SCOPE), 1);
	later(1, agent_answers);
	until_scope("");
	gone();
}

static void a_scope_ends_with_its_instance(void **state)
{
	(void)state;
	create();
	until(INSTANCE_READY);
	scope_end();
	fake.state = ENGINE_STOPPED;
	fake_agent_hang_up();
	until_scope("");
	assert_int_equal(stand.seen[stand.n_seen - 1], INSTANCE_EXITED);
	scope_end();
	until_scope("");
	destroy();
	scope_end();                          /* on its way out: confirmed when it is gone */
	until_scope("");
	assert_int_equal(stand.seen[stand.n_seen - 1], INSTANCE_GONE);
}

static void an_old_agent_ends_no_scope(void **state)
{
	(void)state;
	fake.old_agent = true;
	create();
	until(INSTANCE_READY);
	scope_end();
	until_scope("scope_unsupported");
	assert_scope_is_over();
	destroy();
	scope_end();
	until_scope("");
	assert_int_equal(stand.seen[stand.n_seen - 1], INSTANCE_GONE);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(looked_up), CASE(looked_up_with_difficulty), CASE(looked_up_and_failed), CASE(never_paused), CASE(kept), CASE(listed), CASE(a_scope_of_nobody),
		CASE(a_scope_before_it_was_ready), CASE(a_scope_ends_with_the_agent_s_word), CASE(a_scope_is_asked_again_when_the_agent_is_back),
		CASE(the_oldest_of_many_scopes_is_forgotten),
		CASE(a_scope_of_one_that_was_taken_up), CASE(a_scope_ends_with_its_instance), CASE(an_old_agent_ends_no_scope),
	};

	log_init("test", LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
