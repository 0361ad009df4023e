/* Ids that stay refused: found again after a restart and after a torn line, forgotten in time. */
#include "unit.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/io.h"
#include "base/log.h"
#include "base/str.h"
#include "core/id.h"
#include "executor/tombs.h"

#define KEEP INT64_C(2400000)      /* a part of it is 100 s */
#define T0 INT64_C(1700000000000)

static char dir[128];
static int dir_fd = -1;

static int set_up(void **state)
{
	(void)state;
	dir_fd = open(unit_tmpdir(dir), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return dir_fd < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
	(void)state;
	close(dir_fd);
	return io_remove_tree(AT_FDCWD, dir, NULL);
}

static void id_of(char dst[ID_SIZE], unsigned i)
{
	assert_int_equal(str_fmt(dst, ID_SIZE, "%08x-1111-7000-8000-00000000abcd", i * 2654435761u), 0);
	assert_true(id_valid(dst));
}

static void add(struct tombs *t, unsigned i, int64_t ms)
{
	char id[ID_SIZE];

	id_of(id, i);
	assert_int_equal(tombs_add(t, id, ms, NULL), 0);
}

static bool has(const struct tombs *t, unsigned i)
{
	char id[ID_SIZE];

	id_of(id, i);
	return tombs_has(t, id);
}

static unsigned count_files(int64_t *ret_first)
{
	unsigned n = 0;

	for (int64_t s = T0 / 1000; s < T0 / 1000 + 4000; s++) {
		char name[40];

		snprintf(name, sizeof name, "tombs/%" PRId64, s);
		if (faccessat(dir_fd, name, F_OK, 0) < 0)
			continue;
		if (n++ == 0)
			*ret_first = s;
	}
	return n;
}

static void found_after_a_restart_and_forgotten_in_time(void **state)
{
	struct tombs *t = tombs_open(dir_fd, "tombs", KEEP, NULL);
	int64_t first = 0;

	(void)state;
	for (unsigned i = 0; i < 1000; i++) {
		assert_false(has(t, i));
		add(t, i, T0 + i * 1000);
	}
	add(t, 7, T0 + 999000);   /* once more */
	assert_int_equal(tombs_count(t), 1000);
	for (int round = 0; round < 2; round++) {
		for (unsigned i = 0; i < 1000; i++)
			assert_true(has(t, i));
		assert_false(has(t, 1000));
		tombs_free(t);
		t = tombs_open(dir_fd, "tombs", KEEP, NULL);
		assert_int_equal(tombs_count(t), 1000);
	}
	assert_int_equal(count_files(&first), 10);
	tombs_expire(t, T0 + KEEP + 98000);
	assert_int_equal(tombs_count(t), 1000);   /* never before its time */
	tombs_expire(t, T0 + KEEP + 99000);
	assert_int_equal(tombs_count(t), 900);
	assert_false(has(t, 99));
	assert_true(has(t, 100));
	assert_int_equal(count_files(&first), 9);
	assert_int_equal(first, T0 / 1000 + 100);
	tombs_expire(t, T0 + 2 * KEEP);
	assert_int_equal(tombs_count(t), 0);
	assert_int_equal(count_files(&first), 0);
	tombs_free(t);
}

static void a_torn_line_is_written_over(void **state)
{
	char name[40];
	struct tombs *t = tombs_open(dir_fd, "tombs", KEEP, NULL);
	struct stat st;

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		add(t, i, T0);
	tombs_free(t);
	snprintf(name, sizeof name, "tombs/%" PRId64, T0 / 1000);
	assert_int_equal(fstatat(dir_fd, name, &st, 0), 0);
	int fd = openat(dir_fd, name, O_WRONLY | O_CLOEXEC);
	assert_int_equal(ftruncate(fd, st.st_size - 20), 0);
	close(fd);
	t = tombs_open(dir_fd, "tombs", KEEP, NULL);
	assert_int_equal(tombs_count(t), 2);
	assert_false(has(t, 2));
	add(t, 3, T0 + 5);
	tombs_free(t);
	t = tombs_open(dir_fd, "tombs", KEEP, NULL);
	assert_true(has(t, 0) && has(t, 1) && has(t, 3) && !has(t, 2));
	tombs_free(t);
}

static void a_clock_that_is_set_back(void **state)
{
	struct tombs *t = tombs_open(dir_fd, "tombs", KEEP, NULL);

	(void)state;
	add(t, 1, T0);
	add(t, 2, T0 - 500000);
	add(t, 3, T0 - 499000);
	add(t, 4, T0 - 500000);
	assert_true(has(t, 1) && has(t, 2) && has(t, 3) && has(t, 4));
	tombs_expire(t, T0 + KEEP - 1);
	assert_true(has(t, 1));
	tombs_free(t);
}

static void in_any_order_there_are_few_files(void **state)
{
	struct tombs *t = tombs_open(dir_fd, "tombs", KEEP, NULL);
	int64_t first = 0;

	(void)state;
	add(t, 1000, T0 + 3000000);
	for (unsigned i = 0; i < 600; i++)
		add(t, i, T0 + 2000000 - i * 1000);
	for (unsigned i = 0; i < 600; i++)
		assert_true(has(t, i));
	assert_true(count_files(&first) <= 8);
	tombs_free(t);
}

/* Room is set aside before it is needed, and the file does not go for being empty. */
static void room_is_made(void **state)
{
	struct tombs *t = tombs_open(dir_fd, "tombs", KEEP, NULL);
	char name[40];
	struct stat st;

	(void)state;
	snprintf(name, sizeof name, "tombs/%" PRId64, T0 / 1000);
	for (int64_t ms = T0; ms < T0 + KEEP; ms += KEEP / 3) {
		tombs_expire(t, ms);
		tombs_make_room(t, ms);
		assert_int_equal(fstatat(dir_fd, name, &st, 0), 0);
		assert_true(st.st_size == 0 && (st.st_blocks == 0 || st.st_blocks * 512 >= 65536));   /* not every file system can */
	}
	tombs_expire(t, T0 + KEEP);
	assert_int_equal(fstatat(dir_fd, name, &st, 0), -1);
	tombs_free(t);
}

static void on_a_full_disk_it_goes_where_there_is_room(void **state)
{
	struct tombs *t = tombs_open(dir_fd, "tombs", KEEP, NULL);
	char full[40], id[ID_SIZE];
	int fd = -1;

	(void)state;
	id_of(id, 2);
	add(t, 1, T0);
	snprintf(full, sizeof full, "tombs/%" PRId64, T0 / 1000 + 200);
	if (mknodat(dir_fd, full, S_IFCHR | 0600, makedev(1, 7)) < 0 || (fd = openat(dir_fd, full, O_WRONLY | O_CLOEXEC)) < 0) {
		tombs_free(t);
		skip();   /* a second /dev/full is root's to make */
	}
	close(fd);
	assert_int_equal(tombs_add(t, id, T0 + 250000, NULL), 0);
	assert_int_equal(unlinkat(dir_fd, full, 0), 0);
	for (int round = 0; round < 2; round++) {
		assert_true(has(t, 1) && has(t, 2));
		tombs_free(t);
		t = tombs_open(dir_fd, "tombs", KEEP, NULL);
	}
	tombs_expire(t, T0 + KEEP + 249999);
	assert_true(has(t, 1) && has(t, 2));
	tombs_expire(t, T0 + KEEP + 250000);
	assert_int_equal(tombs_count(t), 0);
	tombs_free(t);
}

static void there_must_be_a_directory(void **state)
{
	err_t *err = NULL;

	(void)state;
	int fd = openat(dir_fd, "tombs", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	close(fd);
	assert_null(tombs_open(dir_fd, "tombs", KEEP, &err));
	assert_non_null(err);
	err_free(err);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(found_after_a_restart_and_forgotten_in_time), CASE(a_torn_line_is_written_over), CASE(a_clock_that_is_set_back),
		CASE(in_any_order_there_are_few_files), CASE(there_must_be_a_directory), CASE(room_is_made),
		CASE(on_a_full_disk_it_goes_where_there_is_room),
	};

	log_init("test", LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
