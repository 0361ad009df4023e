/* Fails the n-th allocation for n = 1, 2, ... until an operation succeeds without reaching it: each failure must be reported as one,
 * leave nothing half-written, and not crash. */
#include "unit.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/str.h"
#include "core/config.h"
#include "core/json.h"
#include "tests/lib/failalloc.h"

#define ROUNDS_MAX 20000

typedef int operation(err_t **err);

/* 0 or -1 as op; must not fail unless an allocation did, nor succeed with an error set. */
static void fail_each(operation *op, bool strict)
{
	for (long n = 1; n < ROUNDS_MAX; n++) {
		err_t *e = NULL;
		bool fired;
		int rc;

		failalloc_arm(n);
		rc = op(&e);
		fired = failalloc_disarm();
		if (!fired) {
			assert_int_equal(rc, 0);
			assert_null(e);
			return;
		}
		if (strict)
			assert_int_equal(rc, -1);
		if (rc < 0)
			assert_non_null(e);
		err_free(e);
	}
	fail_msg("no end after %d rounds", ROUNDS_MAX);
}

static int op_err(err_t **err)
{
	err_t *e = NULL;
	int rc;

	err_set(&e, ERR_CONFLICT, "word", "text");
	err_wrap(&e, "outer");
	rc = err_code(e) == ERR_CONFLICT && str_eq(err_message(e), "outer: text") ? 0 : -1;
	return rc < 0 ? err_move(err, e) : (err_free(e), 0);
}

static int op_buf(err_t **err)
{
	struct buf b = BUF_INIT(5000);
	char *p;

	for (int i = 0; i < 100; i++)
		buf_addf(&b, "%d,", i);
	buf_add_u64(&b, 1);
	p = buf_steal(&b);
	free(p);
	return p ? 0 : err_set(err, ERR_NO_MEMORY, NULL, "out of memory");
}

static int op_strv(err_t **err)
{
	char one[] = "one", two[] = "two", *v[] = { one, two, NULL }, **copy = strv_dup(v);

	if (!copy)
		return err_set(err, ERR_NO_MEMORY, NULL, "out of memory");
	strv_free(copy);
	return 0;
}

static int op_file(err_t **err)
{
	cleanup_free char *p = NULL;

	return io_read_file(AT_FDCWD, "/proc/self/status", 65536, &p, NULL, err);
}

static int op_json_parse(err_t **err)
{
	static const char text[] = "{\"command\":\"echo \\u00e9\",\"env\":{\"A\":\"b\",\"C\":\"d\"},\"list\":[1,2.5,true,null,{\"x\":\"y\"}]}";
	json_t *v = json_parse(text, sizeof text - 1, 1024, 8, err);

	if (!v)
		return -1;
	assert_string_equal(json_text(v, NULL), "{\"command\":\"echo \xc3\xa9\",\"env\":{\"A\":\"b\",\"C\":\"d\"},\"list\":[1,2.5,true,null,{\"x\":\"y\"}]}");
	json_object_put(v);
	return 0;
}

static int op_json_build(err_t **err)
{
	cleanup_json json_t *o = json_object_new_object();
	size_t n;

	if (!o || json_add_str(o, "s", "some text that is longer than a pointer, so that it needs room of its own") < 0 ||
			json_add_i64(o, "n", 1) < 0 || json_add_bool(o, "b", true) < 0 || json_add_mem(o, "m", "x", 1) < 0 ||
			json_add(o, "o", json_object_new_object()) < 0 || !json_text(o, &n))
		return err_set(err, ERR_NO_MEMORY, NULL, "out of memory");
	return 0;
}

static char dir[128], path[160];

static int op_config(err_t **err)
{
	struct config *c = config_load(path, err);

	if (!c)
		return -1;
	config_free(c);
	return 0;
}

static void errors(void **state)
{
	(void)state;
	fail_each(op_err, false);   /* the cause may be kept without its context */
}

static void buffers(void **state)
{
	(void)state;
	fail_each(op_buf, true);
}

static void vectors(void **state)
{
	(void)state;
	fail_each(op_strv, true);
}

static void files(void **state)
{
	(void)state;
	fail_each(op_file, true);
}

static void json_parsing(void **state)
{
	(void)state;
	failalloc_only_from("test_oom");   /* json-c's own failures crash it: it copies names unchecked */
	fail_each(op_json_parse, true);
	failalloc_only_from(NULL);
}

static void json_building(void **state)
{
	(void)state;
	fail_each(op_json_build, false);   /* json-c grows its tables best-effort */
}

static void configuration(void **state)
{
	(void)state;
	failalloc_only_from("test_oom");   /* iniparser checks nothing; configuration is read once, at the start */
	fail_each(op_config, true);
	failalloc_only_from(NULL);
}

static int setup(void **state)
{
	int at;

	(void)state;
	snprintf(path, sizeof path, "%s/p.ini", unit_tmpdir(dir));
	at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (io_write_file(at, "p.ini", "[api]\nworkers = 3\n[runs]\nrun_commands = 5\n", 42, 0600, 0, NULL) < 0)
		return -1;
	return close(at);
}

static int teardown(void **state)
{
	(void)state;
	return io_remove_tree(AT_FDCWD, dir, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(errors), cmocka_unit_test(buffers), cmocka_unit_test(vectors), cmocka_unit_test(files),
		cmocka_unit_test(json_parsing), cmocka_unit_test(json_building), cmocka_unit_test(configuration),
	};

	if (!FAILALLOC) {
		puts("1..0 # SKIP the sanitizers bring an allocator of their own");
		return 0;
	}
	return cmocka_run_group_tests_name("oom", tests, setup, teardown);
}
