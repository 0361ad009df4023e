/* Fault points: what arms them, what limits them. */
#include "tests/unit/unit.h"

#include "base/fault.h"

#ifdef PADDOCK_FAULTS

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Is a child of the given name killed at the point? */
static bool dies(const char *name)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_NAME, name, 0, 0, 0);
		(void)dup2(open("/dev/null", O_WRONLY), 2);
		FAULT_POINT(create_after_row);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

static void arm(const char *spec)
{
	assert_int_equal(setenv("PADDOCK_FAULT", spec, 1), 0);
}

static void only_the_point_that_is_armed(void **state)
{
	(void)state;
	arm("");
	assert_false(dies("x"));
	arm("create_before_row=kill,create_after=kill,create_after_row_=kill");
	assert_false(dies("x"));
	arm("create_before_row=kill,create_after_row=kill");
	assert_true(dies("x"));
	assert_true(dies("x"));
}

static void only_in_a_process_of_that_name(void **state)
{
	(void)state;
	arm("create_after_row=kill@keeper");
	assert_false(dies("keep"));
	assert_true(dies("keeper"));
}

static void once_for_a_number(void **state)
{
	(void)state;
	arm("create_after_row=kill@keeper#7");
	assert_false(dies("other"));
	assert_true(dies("keeper"));
	assert_false(dies("keeper"));
	arm("create_after_row=kill#9");
	assert_true(dies("keeper"));
	arm("create_after_row=kill#8");
	assert_false(dies("keeper"));
	arm("create_after_row=kill#x");
	assert_false(dies("keeper"));
}

static void a_file_is_read_each_time(void **state)
{
	char path[] = "/tmp/paddock-fault-XXXXXX";
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	arm("create_after_row=kill");
	assert_int_equal(setenv("PADDOCK_FAULT_FILE", path, 1), 0);
	assert_false(dies("x"));
	assert_int_equal(write(fd, "create_after_row=kill\n", 22), 22);
	assert_true(dies("x"));
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_false(dies("x"));
	close(fd);
	unlink(path);
	assert_false(dies("x"));
	unsetenv("PADDOCK_FAULT_FILE");
}

static void fail_tells(void **state)
{
	(void)state;
	arm("claim_after_row=fail");
	assert_true(FAULT_FAIL(claim_after_row));
	assert_false(FAULT_FAIL(claim_before_row));
	arm("claim_after_row=stall:1");
	assert_false(FAULT_FAIL(claim_after_row));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_the_point_that_is_armed), cmocka_unit_test(only_in_a_process_of_that_name), cmocka_unit_test(once_for_a_number),
		cmocka_unit_test(a_file_is_read_each_time), cmocka_unit_test(fail_tells),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

/* A build without them has none that could be armed. */
static void nothing_is_armed(void **state)
{
	(void)state;
	assert_int_equal(setenv("PADDOCK_FAULT", "create_after_row=fail", 1), 0);
	assert_false(FAULT_FAIL(create_after_row));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(nothing_is_armed) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
