/* Answers that are owed: never from within the call, in their order, whoever is told may ask again. */
#include "unit.h"

#include "base/str.h"
#include "provider/owed.h"

#define IID "11111111-2222-4333-8444-555555555555"
#define SCOPE "22222222-2222-4333-8444-555555555555"

static struct loop *loop;
static struct owed *owed;
static char told[256];
static unsigned asked_again;

static void tell(const char *what, const char *detail)
{
	size_t n = strlen(told);

	str_fmt(told + n, sizeof(told) - n, "%s%s%s ", what, detail ? ":" : "", detail ? detail : "");
}

static void on_instance(void *arg, const char *instance_id, enum instance_event ev, const err_t *err)
{
	(void)arg;
	assert_string_equal(instance_id, IID);
	tell(ev == INSTANCE_KEPT ? "kept" : "other", err ? err_detail(err) : NULL);
}

static void on_scope_ended(void *arg, const char *instance_id, const char *scope, const err_t *err)
{
	(void)arg;
	assert_string_equal(instance_id, IID);
	assert_string_equal(scope, SCOPE);
	tell("scope", err ? err_detail(err) : NULL);
	if (asked_again++ == 0)
		assert_int_equal(owed_event(owed, IID, INSTANCE_KEPT, NULL, NULL), 0);
	else
		loop_stop(loop);
}

static void on_call(void *arg)
{
	tell(arg, NULL);
}

static void told_from_the_loop_in_order(void **state)
{
	static char call[] = "call";
	static const struct provider_events events = { .instance = on_instance, .scope_ended = on_scope_ended };
	err_t *why = NULL;

	(void)state;
	loop = loop_new(NULL);
	owed = owed_new(loop, &events, NULL, NULL);
	assert_non_null(owed);
	err_set(&why, ERR_UNKNOWN, "detail", "why");
	assert_int_equal(owed_call(owed, on_call, call, NULL), 0);
	assert_int_equal(owed_scope(owed, IID, SCOPE, why, NULL), 0);
	assert_int_equal(owed_event(owed, IID, INSTANCE_PAUSED, NULL, NULL), 0);
	assert_int_equal(owed_scope(owed, IID, SCOPE, NULL, NULL), 0);
	assert_string_equal(told, "");
	assert_int_equal(loop_run(loop, NULL), 0);
	assert_string_equal(told, "call scope:detail other scope ");
	owed_free(owed);   /* with one that is owed still */
	loop_free(loop);
}

static void nothing_owed_after_a_refusal(void **state)
{
	char long_id[128] = "";
	err_t *err = NULL, *why = NULL;

	(void)state;
	memset(long_id, 'a', sizeof(long_id) - 1);
	loop = loop_new(NULL);
	owed = owed_new(loop, NULL, NULL, NULL);
	err_set(&why, ERR_UNKNOWN, "detail", "why");
	assert_int_equal(owed_event(owed, long_id, INSTANCE_KEPT, why, &err), -1);
	assert_int_equal(err_code(err), ERR_NO_MEMORY);
	err_free(err);
	owed_free(owed);
	owed_free(NULL);
	loop_free(loop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(told_from_the_loop_in_order),
		cmocka_unit_test(nothing_owed_after_a_refusal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
