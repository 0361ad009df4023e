/* What leaves a provider names no path of this machine, whoever worded it. */
#include "unit.h"

#include <errno.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "provider/outside.h"

static const struct {
	const char *text, *told;
} t[] = {
	{ "the agent ended before it was ready", "the agent ended before it was ready" },
	{ "engine answered 500: statfs /var/lib/paddock/ws/w/files: no such file or directory", "engine answered 500: statfs …: no such file or directory" },
	{ "agent socket: cannot bind /run/paddock/agents/1/s: Permission denied", "agent socket: cannot bind …: Permission denied" },
	{ "bwrap: Can't find source path /srv/x/home: No such file or directory", "bwrap: Can't find source path …: No such file or directory" },
	{ "mount `/srv/a b/c' failed, `/x y` too", "mount `…' failed, `…` too" },
	{ "open \"/srv/a b/c\": denied, '/x y' too", "open \"…\": denied, '…' too" },
	{ "lowerdir=/a/b:/c/d,upperdir=/e", "lowerdir=…:…,upperdir=…" },
	{ "overlay:/a (/b) [/c];/d", "overlay:… (…) […];…" },
	{ "/a", "…" }, { "/a: /b", "…: …" }, { "../../var/lib ./x ~/y .hidden/x", "… … … .hidden/x" },
	{ "no image localhost/paddock-sandbox:latest, application/json and/or 1 / 2", "no image localhost/paddock-sandbox:latest, application/json and/or 1 / 2" },
	{ "at http://d/v4/x", "at http:…" }, { "unclosed '/a b", "unclosed '… b" }, { "", "" }, { "/", "/" }, { "…/a", "…/a" },
};

static void paths_are_taken_out(void **state)
{
	(void)state;
	for (size_t i = 0; i < UNIT_LEN(t); i++) {
		cleanup_err err_t *err = NULL;
		cleanup_err err_t *told = NULL;

		err_set(&err, ERR_UNKNOWN, "some_word", "%s", t[i].text);
		told = outside_err("i", err);
		assert_string_equal(err_message(told), t[i].told);
		assert_string_equal(err_detail(told), "some_word");
		assert_int_equal(err_code(told), ERR_UNKNOWN);
		assert_string_equal(err_message(err), t[i].text);
	}
}

static void of_nothing(void **state)
{
	cleanup_err err_t *err = NULL;

	(void)state;
	assert_null(outside_err("i", NULL));
	assert_int_equal(outside_fail("i", NULL), -1);
	assert_int_equal(outside_fail("i", &err), -1);
	assert_null(err);
}

static void in_its_place(void **state)
{
	cleanup_err err_t *err = NULL;

	(void)state;
	err_sys(&err, EACCES, "cannot make %s", "/run/x");
	assert_int_equal(outside_fail("i", &err), -1);
	assert_int_equal(err_code(err), ERR_DENIED);
	assert_string_equal(err_message(err), "cannot make …: Permission denied");
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(paths_are_taken_out), cmocka_unit_test(of_nothing), cmocka_unit_test(in_its_place) };

	log_init("test", LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
