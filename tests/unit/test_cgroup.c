/* Limits written and checked in a made-up cgroup tree. */
#include "unit.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/str.h"
#include "provider/cgroup.h"

#define V1 "4:memory:/paddock/libpod-x\n3:pids:/paddock/libpod-x\n2:cpu,cpuacct:/paddock/libpod-x\n1:name=systemd:/paddock/libpod-x\n0::/\n"
#define V2 "0::/user.slice/box/libpod-x\n"

static const struct cgroup_limits limits = { .memory_bytes = 1 << 30, .pids = 256, .cpus_milli = 1500 };
static char root[128];

static void put(const char *path, const char *text)
{
	char full[512];

	str_fmt(full, sizeof(full), "%s/%s", root, path);
	for (char *p = full + strlen(root) + 1; (p = strchr(p, '/')); p++) {
		*p = '\0';
		mkdir(full, 0700);
		*p = '/';
	}
	cleanup_close int fd = open(full, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(io_write_full(fd, text, strlen(text)), 0);
}

static int value_is(const char *path, const char *want)
{
	char full[512];
	cleanup_free char *text = NULL;

	str_fmt(full, sizeof(full), "%s/%s", root, path);
	return io_read_file(AT_FDCWD, full, 100, &text, NULL, NULL) == 0 && str_eq(text, want);
}

static int set_up(void **state)
{
	(void)state;
	unit_tmpdir(root);
	put("memory/paddock/libpod-x/memory.limit_in_bytes", "");
	put("memory/paddock/libpod-x/memory.memsw.limit_in_bytes", "");
	put("memory/paddock/libpod-x/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 7\n");
	put("pids/paddock/libpod-x/pids.max", "");
	put("cpu/paddock/libpod-x/cpu.cfs_period_us", "");
	put("cpu/paddock/libpod-x/cpu.cfs_quota_us", "");
	return 0;
}

static int tear_down(void **state)
{
	char *slash = strrchr(root, '/');

	(void)state;
	*slash = '\0';
	cleanup_close int dir = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return io_remove_tree(dir, slash + 1, NULL);
}

static void v1_is_written_and_read_back(void **state)
{
	struct cgroup *g = cgroup_open(root, V1, "/paddock", NULL);

	(void)state;
	assert_non_null(g);
	assert_int_equal(cgroup_limit(g, &limits, NULL), 0);
	assert_true(value_is("memory/paddock/libpod-x/memory.limit_in_bytes", "1073741824"));
	assert_true(value_is("memory/paddock/libpod-x/memory.memsw.limit_in_bytes", "1073741824"));
	assert_true(value_is("pids/paddock/libpod-x/pids.max", "256"));
	assert_true(value_is("cpu/paddock/libpod-x/cpu.cfs_quota_us", "150000"));
	assert_int_equal(cgroup_oom_kills(g), 7);
	cgroup_free(g);
}

static void swap_accounting_may_be_missing(void **state)
{
	char path[512];
	struct cgroup *g = cgroup_open(root, V1, "/paddock", NULL);

	(void)state;
	str_fmt(path, sizeof(path), "%s/memory/paddock/libpod-x/memory.memsw.limit_in_bytes", root);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(cgroup_limit(g, &limits, NULL), 0);
	cgroup_free(g);
}

static void outside_the_parent_is_nominal(void **state)
{
	static const char *const memberships[] = {
		"4:memory:/other/libpod-x\n3:pids:/paddock/libpod-x\n2:cpu:/paddock/libpod-x\n",
		"4:memory:/paddockx/libpod-x\n3:pids:/paddock/libpod-x\n2:cpu:/paddock/libpod-x\n",
		"4:memory:/paddock/../x\n3:pids:/paddock/libpod-x\n2:cpu:/paddock/libpod-x\n",
		"4:memory:/\n3:pids:/\n2:cpu:/\n",
	};

	(void)state;
	for (size_t i = 0; i < UNIT_LEN(memberships); i++) {
		struct cgroup *g = cgroup_open(root, memberships[i], "/paddock", NULL);
		err_t *err = NULL;

		assert_int_equal(cgroup_limit(g, &limits, &err), -1);
		assert_string_equal(err_detail(err), "cgroup_missing");
		err_free(err);
		cgroup_free(g);
	}
}

static void v2_is_checked(void **state)
{
	struct cgroup *g = cgroup_open(root, V2, "/paddock", NULL);
	err_t *err = NULL;

	(void)state;
	put("user.slice/box/libpod-x/memory.max", "max\n");
	put("user.slice/box/libpod-x/pids.max", "256\n");
	put("user.slice/box/libpod-x/memory.events", "low 0\noom 3\noom_kill 2\noom_group_kill 0\n");
	assert_int_equal(cgroup_limit(g, &limits, &err), -1);
	assert_string_equal(err_detail(err), "limit_not_enforced");
	err_free(err);
	put("user.slice/box/libpod-x/memory.max", "1073741824\n");
	assert_int_equal(cgroup_limit(g, &limits, NULL), 0);
	assert_int_equal(cgroup_oom_kills(g), 2);
	put("user.slice/box/libpod-x/pids.max", "257\n");
	assert_int_equal(cgroup_limit(g, &limits, NULL), -1);
	cgroup_free(g);
}

static void a_broken_membership_is_nominal(void **state)
{
	static const char *const memberships[] = { "", "\n", ":", "::", "4:memory", "4:memory:", "0::", "garbage\n4:memory:relative\n" };

	(void)state;
	for (size_t i = 0; i < UNIT_LEN(memberships); i++) {
		struct cgroup *g = cgroup_open(root, memberships[i], "/paddock", NULL);

		assert_non_null(g);
		assert_int_equal(cgroup_limit(g, &limits, NULL), -1);
		assert_int_equal(cgroup_oom_kills(g), -1);
		cgroup_free(g);
	}
}

static void of_a_process(void **state)
{
	cleanup_err err_t *err = NULL;
	struct cgroup *g = cgroup_of(getpid(), "/no such parent", NULL);

	(void)state;
	assert_non_null(g);
	cgroup_free(g);
	assert_null(cgroup_of(INT32_MAX, "/", &err));
	assert_int_equal(err_errno(err), ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(v1_is_written_and_read_back, set_up, tear_down),
		cmocka_unit_test_setup_teardown(swap_accounting_may_be_missing, set_up, tear_down),
		cmocka_unit_test_setup_teardown(outside_the_parent_is_nominal, set_up, tear_down),
		cmocka_unit_test_setup_teardown(v2_is_checked, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_broken_membership_is_nominal, set_up, tear_down),
		cmocka_unit_test(of_a_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
