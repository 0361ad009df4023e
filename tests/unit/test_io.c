#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"

static char dir[128];
static int at;

static void file_round_trip_and_cap(void **state)
{
	char *p = NULL;
	size_t n;
	err_t *e = NULL;
	struct stat st;

	(void)state;
	assert_int_equal(io_write_file(at, "f", "12345", 5, 0640, 1, NULL), 0);
	assert_int_equal(fstatat(at, "f", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
	assert_int_equal(io_read_file(at, "f", 5, &p, &n, NULL), 0);
	assert_int_equal(n, 5);
	assert_string_equal(p, "12345");
	free(p);
	assert_int_equal(io_read_file(at, "f", 4, &p, &n, &e), -1);
	assert_int_equal(err_code(e), ERR_TOO_LARGE);
	err_free(e);
	assert_int_equal(io_write_file(at, "f", "", 0, 0600, 0, NULL), 0);
	assert_int_equal(io_read_file(at, "f", 0, &p, &n, NULL), 0);
	assert_int_equal(n, 0);
	free(p);
	assert_int_equal(faccessat(at, "f.new", F_OK, 0), -1);
}

static void read_file_errors(void **state)
{
	char *p = NULL;
	err_t *e = NULL;

	(void)state;
	assert_int_equal(io_read_file(at, "absent", 9, &p, NULL, &e), -1);
	assert_int_equal(err_code(e), ERR_NOT_FOUND);
	err_free(e);
	e = NULL;
	assert_int_equal(io_read_file(at, ".", 9, &p, NULL, &e), -1);
	err_free(e);
	assert_null(p);
	/* /proc files say size 0 */
	assert_int_equal(io_read_file(AT_FDCWD, "/proc/self/status", 1 << 20, &p, NULL, NULL), 0);
	assert_true(strlen(p) > 100);
	free(p);
}

static void write_file_takes_names_only(void **state)
{
	char longest[300];

	(void)state;
	memset(longest, 'n', sizeof longest);
	longest[299] = '\0';
	assert_int_equal(io_write_file(at, "a/b", "", 0, 0600, 0, NULL), -1);
	assert_int_equal(io_write_file(at, longest, "", 0, 0600, 0, NULL), -1);
}

/* A link that waits at the temporary name is not followed. */
static void write_file_does_not_follow(void **state)
{
	char *p;

	(void)state;
	assert_int_equal(io_write_file(at, "victim", "keep", 4, 0600, 0, NULL), 0);
	assert_int_equal(symlinkat("victim", at, "g.new"), 0);
	assert_int_equal(io_write_file(at, "g", "evil", 4, 0600, 0, NULL), 0);
	assert_int_equal(io_read_file(at, "victim", 9, &p, NULL, NULL), 0);
	assert_string_equal(p, "keep");
	free(p);
}

static void full_reads_and_writes(void **state)
{
	int fds[2];
	char got[4];

	(void)state;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_int_equal(io_write_full(fds[1], "abc", 3), 0);
	assert_int_equal(io_read_full(fds[0], got, 3), 0);
	assert_memory_equal(got, "abc", 3);
	assert_int_equal(io_write_full(fds[1], "ab", 2), 0);
	close(fds[1]);
	errno = EIO;
	assert_int_equal(io_read_full(fds[0], got, 3), -1);
	assert_int_equal(errno, 0);
	close(fds[0]);
	assert_int_equal(io_read_full(-1, got, 1), -1);
	assert_int_equal(errno, EBADF);
	assert_int_equal(io_write_full(-1, got, 1), -1);
}

static void positioned(void **state)
{
	int fd = openat(at, "pos", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	char got[3];

	(void)state;
	assert_int_equal(io_pwrite_full(fd, "xyz", 3, 5), 0);
	assert_int_equal(io_pread(fd, got, 3, 5), 3);
	assert_memory_equal(got, "xyz", 3);
	assert_int_equal(io_pread(fd, got, 3, 8), 0);
	assert_int_equal(io_set_nonblock(fd), 0);
	assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
	close(fd);
}

static void remove_tree_stays_inside(void **state)
{
	(void)state;
	assert_int_equal(mkdirat(at, "t", 0700), 0);
	assert_int_equal(mkdirat(at, "t/sub", 0700), 0);
	assert_int_equal(mkdirat(at, "outside", 0700), 0);
	assert_int_equal(io_write_file(at, "outside.txt", "x", 1, 0600, 0, NULL), 0);
	assert_int_equal(symlinkat("../../outside", at, "t/sub/link"), 0);
	assert_int_equal(symlinkat("/", at, "t/root"), 0);
	assert_int_equal(mknodat(at, "t/fifo", S_IFIFO | 0600, 0), 0);
	assert_int_equal(io_remove_tree(at, "t", NULL), 0);
	assert_int_equal(faccessat(at, "t", F_OK, 0), -1);
	assert_int_equal(faccessat(at, "outside", F_OK, 0), 0);
	assert_int_equal(io_remove_tree(at, "t", NULL), 0);   /* absent */
	assert_int_equal(symlinkat("outside", at, "l"), 0);
	assert_int_equal(io_remove_tree(at, "l", NULL), 0);
	assert_int_equal(faccessat(at, "outside", F_OK, 0), 0);
}

/* Makes `depth` nested directories d/d/d... */
static void nest(int depth)
{
	int fd = dup(at);

	for (int i = 0; i < depth; i++) {
		int next;

		assert_int_equal(mkdirat(fd, "d", 0700), 0);
		next = openat(fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		close(fd);
		fd = next;
	}
	close(fd);
}

static void remove_tree_depth(void **state)
{
	(void)state;
	nest(64);
	assert_int_equal(io_remove_tree(at, "d", NULL), 0);
	nest(65);
	assert_int_equal(io_remove_tree(at, "d", NULL), -1);
	assert_int_equal(renameat(at, "d/d", at, "e"), 0);
	assert_int_equal(io_remove_tree(at, "e", NULL), 0);
}

static int setup(void **state)
{
	(void)state;
	at = open(unit_tmpdir(dir), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return at < 0;
}

static int teardown(void **state)
{
	(void)state;
	close(at);
	return io_remove_tree(AT_FDCWD, dir, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(file_round_trip_and_cap), cmocka_unit_test(read_file_errors), cmocka_unit_test(write_file_takes_names_only),
		cmocka_unit_test(write_file_does_not_follow), cmocka_unit_test(full_reads_and_writes), cmocka_unit_test(positioned),
		cmocka_unit_test(remove_tree_stays_inside), cmocka_unit_test(remove_tree_depth),
	};

	return cmocka_run_group_tests_name("io", tests, setup, teardown);
}
