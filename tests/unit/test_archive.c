#include "unit.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.h"
#include "base/str.h"
#include "core/loop.h"
#include "executor/archive.h"
#include "executor/dues.h"
#include "executor/journal.h"
#include "executor/slots.h"
#include "executor/sweep.h"

static int scratch_dir(char path[128])
{
	int fd = open(unit_tmpdir(path), O_RDONLY | O_DIRECTORY);

	assert_true(fd >= 0);
	return fd;
}

static void id_of(char dst[ID_SIZE], const char *head, int i)
{
	assert_int_equal(str_fmt(dst, ID_SIZE, "%s-7000-8000-%012d", head, i), 0);
	assert_true(id_valid(dst));
}

static void added_and_found(void **state)
{
	char path[128], cid[ID_SIZE], log[64], *got = NULL;
	int dir = scratch_dir(path);
	struct archive *a = archive_new(dir, NULL);
	size_t n = 0;

	(void)state;
	for (int i = 0; i < 50; i++) {
		id_of(cid, "0190aaaa-ab01", i);
		assert_false(archive_has(a, cid));
		snprintf(log, sizeof log, "line %d\nentry x\n", i);
		assert_int_equal(archive_add(a, cid, log, strlen(log), NULL), 0);
	}
	for (int i = 0; i < 50; i++) {
		id_of(cid, "0190aaaa-ab01", i);
		snprintf(log, sizeof log, "line %d\nentry x\n", i);
		assert_true(archive_has(a, cid));
		assert_int_equal(archive_read(a, cid, &got, &n, NULL), 0);
		assert_int_equal(n, strlen(log));
		assert_string_equal(got, log);
		free(got);
	}
	id_of(cid, "0190aaaa-ac01", 1);
	assert_int_equal(archive_read(a, cid, &got, &n, NULL), -1);
	archive_free(a);
	unlinkat(dir, "0190aaaa-ab", 0);
	close(dir);
	assert_int_equal(rmdir(path), 0);
}

/* Whatever is torn off the end, the entries before it are there, and the next one is found. */
static void cut_at_every_byte(void **state)
{
	char path[128], cid[ID_SIZE];
	int dir = scratch_dir(path);
	struct archive *a = archive_new(dir, NULL);
	struct stat st;

	(void)state;
	for (int i = 0; i < 3; i++) {
		id_of(cid, "0190bbbb-0101", i);
		assert_int_equal(archive_add(a, cid, "some log\n", 9, NULL), 0);
	}
	assert_int_equal(fstatat(dir, "0190bbbb-01", &st, 0), 0);
	for (off_t size = st.st_size; size >= 0; size--) {
		int fd = openat(dir, "0190bbbb-01", O_WRONLY);
		char head[ID_SIZE];

		assert_int_equal(ftruncate(fd, size), 0);
		close(fd);
		archive_free(a);   /* as another process would find it */
		a = archive_new(dir, NULL);
		for (int i = 0; i < 3; i++) {
			id_of(cid, "0190bbbb-0101", i);
			assert_int_equal(archive_has(a, cid), size >= (i + 1) * (ARCHIVE_HEADER + 9));
		}
		snprintf(head, sizeof head, "0190%04x-0101", (unsigned)size);
		head[11] = '\0';
		assert_int_equal(linkat(dir, "0190bbbb-01", dir, head, 0), 0);
		head[11] = '0';
		id_of(cid, head, 9);
		assert_int_equal(archive_add(a, cid, "new\n", 4, NULL), 0);
		assert_true(archive_has(a, cid));
		head[11] = '\0';
		unlinkat(dir, head, 0);
	}
	archive_free(a);
	unlinkat(dir, "0190bbbb-01", 0);
	close(dir);
	assert_int_equal(rmdir(path), 0);
}

static void file_of(char dst[ID_SIZE], int file)
{
	char head[ID_SIZE];

	snprintf(head, sizeof head, "0190cccc-%02x01", (unsigned)file);
	id_of(dst, head, 1);
}

/* More files than are kept in mind, a file with more ids than are kept in mind, one that was removed. */
static void beyond_what_is_known(void **state)
{
	char path[128], cid[ID_SIZE], name[ARCHIVE_NAME];
	int dir = scratch_dir(path);
	struct archive *a = archive_new(dir, NULL);

	(void)state;
	for (int round = 0; round < 2; round++)
		for (int i = 0; i < 40; i++) {
			file_of(cid, i);
			assert_int_equal(archive_has(a, cid), round);
			assert_int_equal(archive_add(a, cid, "log\n", 4, NULL), 0);
			assert_true(archive_has(a, cid));
		}
	for (int i = 0; i < 2100; i++) {
		id_of(cid, "0190cccc-ff01", i);
		assert_false(archive_has(a, cid));
		assert_int_equal(archive_add(a, cid, "log\n", 4, NULL), 0);
	}
	for (int i = 0; i < 2101; i += 300) {
		id_of(cid, "0190cccc-ff01", i);
		assert_int_equal(archive_has(a, cid), i < 2100);
	}
	file_of(cid, 39);
	memcpy(name, cid, sizeof name);
	name[sizeof name - 1] = '\0';
	archive_forget(a, name);
	assert_int_equal(unlinkat(dir, name, 0), 0);
	assert_false(archive_has(a, cid));
	assert_int_equal(archive_add(a, cid, "log\n", 4, NULL), 0);
	assert_true(archive_has(a, cid));
	archive_free(a);
	for (int i = 0; i < 256; i++) {
		file_of(cid, i);
		memcpy(name, cid, sizeof name - 1);
		unlinkat(dir, name, 0);
	}
	close(dir);
	assert_int_equal(rmdir(path), 0);
}

/* --- slots --- */

static unsigned used[8];
static size_t n_used;

static int in_use(void *arg, unsigned slot, err_t **err)
{
	struct stat st;
	char name[16];

	(void)err;
	snprintf(name, sizeof name, "%u", slot);
	assert_int_equal(fstatat(*(int *)arg, name, &st, 0), 0);
	if (st.st_size > 0)
		used[n_used++] = slot;
	return st.st_size > 0;
}

static void slots_come_back_empty(void **state)
{
	char path[128];
	int dir = scratch_dir(path), fd[3], again;
	unsigned slot[3], other;
	struct slots *s = slots_new(dir, NULL);
	struct stat st;

	(void)state;
	for (int i = 0; i < 3; i++) {
		fd[i] = slots_take(s, &slot[i], NULL);
		assert_int_equal(write(fd[i], "text", 4), 4);
	}
	assert_true(slot[0] != slot[1] && slot[1] != slot[2]);
	slots_give(s, slot[1], fd[1]);
	again = slots_take(s, &other, NULL);
	assert_int_equal(other, slot[1]);
	assert_int_equal(fstat(again, &st), 0);
	assert_int_equal(st.st_size, 0);
	slots_give(s, other, again);
	close(fd[0]);
	close(fd[2]);
	slots_free(s);

	/* the next process finds the two that are in use and never hands them out */
	s = slots_new(dir, NULL);
	assert_int_equal(slots_each(s, in_use, &dir, NULL), 0);
	assert_int_equal(n_used, 2);
	for (int i = 0; i < 3; i++) {
		fd[i] = slots_take(s, &other, NULL);
		assert_true(other != used[0] && other != used[1]);
		slots_give(s, other, fd[i]);
	}
	slots_free(s);
	for (unsigned i = 0; i < 8; i++) {
		char name[16];

		snprintf(name, sizeof name, "%u", i);
		unlinkat(dir, name, 0);
	}
	close(dir);
	assert_int_equal(rmdir(path), 0);
}

/* --- what the sweep knows --- */

static void note(struct dues *d, unsigned file, int64_t acked)
{
	char name[ARCHIVE_NAME];

	snprintf(name, sizeof name, "%08x-%02x", 0x01900000 + file / 256, file % 256);
	assert_int_equal(dues_note(d, name, acked, acked + 1000, true), 0);
}

static void in_the_order_of_their_last_acknowledgement(void **state)
{
	struct dues d = { NULL, 0, 0 };
	char name[ARCHIVE_NAME];

	(void)state;
	assert_true(dues_next_ms(&d) == INT64_MAX);
	for (unsigned i = 0; i < 1000; i++)
		note(&d, i, i * 10);
	assert_int_equal(d.n, 1000);
	note(&d, 999, 20000);   /* once more: still one item */
	assert_int_equal(d.n, 1000);
	due_name(&d.items[999], name);
	assert_string_equal(name, "01900003-e7");
	assert_int_equal(dues_next_ms(&d), 1000);
	dues_move_last(&d, 0, 30000, 31000);
	due_name(&d.items[999], name);
	assert_string_equal(name, "01900000-00");
	assert_int_equal(dues_next_ms(&d), 1010);
	for (size_t i = 0; i < d.n; i++)
		d.items[i].dead = i % 100 != 0;
	dues_compact(&d);
	assert_int_equal(d.n, 10);
	assert_true(d.alloc < 100);
	note(&d, 5000, 1);      /* of a clock that was set back */
	dues_sort(&d);
	assert_int_equal(d.items[0].acked_ms, 1);
	for (size_t i = 0; i < d.n; i++)
		d.items[i].dead = 1;
	assert_true(dues_next_ms(&d) == INT64_MAX);
	dues_compact(&d);
	assert_null(d.items);
}

/* --- the sweep --- */

static struct {
	struct loop *loop;
	struct loop_timer *timer;
	struct archive *archive;
	struct sweep *sweep;
	int dir, rounds;
	bool added, done;
} world;

static bool always_gone(void *arg, const char *iid)
{
	(void)arg;
	(void)iid;
	return true;
}

static off_t output_size_of(int i)
{
	char name[ID_SIZE + 8];
	struct stat st;

	id_of(name, "0190cccc-0101", i);
	memcpy(name + ID_SIZE - 1, ".out", 5);
	return fstatat(world.dir, name, &st, 0) < 0 ? -1 : st.st_size;
}

static void acknowledge(int i, off_t size)
{
	char name[ID_SIZE + 8];
	int fd;

	id_of(name, "0190cccc-0101", i);
	assert_int_equal(archive_add(world.archive, name, "log\n", 4, NULL), 0);
	memcpy(name + ID_SIZE - 1, ".out", 5);
	fd = openat(world.dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(ftruncate(fd, size), 0);
	close(fd);
	name[ID_SIZE - 1] = '\0';
	sweep_acked(world.sweep, name, 4, true);
}

static void on_look(void *arg)
{
	(void)arg;
	if (!world.added && output_size_of(0) < (off_t)200 << 20) {
		acknowledge(1, 1);
		world.added = true;
	}
	world.done = world.added && output_size_of(0) < 0;
	if (world.done || ++world.rounds > 2000)
		loop_stop(world.loop);
	else
		loop_timer_set(world.timer, 5);
}

static void open_world(char path[128], const struct journal_policy *p)
{
	world.added = world.done = false;
	world.rounds = 0;
	world.dir = scratch_dir(path);
	world.loop = loop_new(NULL);
	world.archive = archive_new(world.dir, NULL);
	world.sweep = sweep_new(world.loop, world.archive, world.dir, world.dir, p, NULL);
	assert_non_null(world.sweep);
}

static void run_world(void (*look)(void *arg))
{
	world.timer = loop_timer_new(world.loop, look, NULL);
	loop_timer_set(world.timer, 5);
	loop_run(world.loop, NULL);
	loop_timer_free(world.timer);
	assert_true(world.done);
}

static void close_world(const char *path)
{
	sweep_free(world.sweep);
	archive_free(world.archive);
	loop_free(world.loop);
	close(world.dir);
	assert_int_equal(io_remove_tree(AT_FDCWD, path, NULL), 0);
}

/* A large output takes several turns to remove; what is acknowledged meanwhile, in the same file, is not removed with it. */
static void added_while_the_file_is_removed(void **state)
{
	struct journal_policy p = { .keep_ms = 0, .keep_max_ms = 0, .instance_gone = always_gone };
	char path[128], id[ID_SIZE];

	(void)state;
	open_world(path, &p);
	acknowledge(0, (off_t)200 << 20);
	run_world(on_look);
	id_of(id, "0190cccc-0101", 1);
	assert_true(archive_has(world.archive, id));
	assert_int_equal(output_size_of(1), 1);
	assert_int_equal(faccessat(world.dir, "0190cccc-01", F_OK, 0), 0);
	close_world(path);
}

/* The first output is given and is not enough; the second one comes when the sweep rests. */
static void on_dry(void *arg)
{
	char id[ID_SIZE];

	(void)arg;
	if (!world.added && !sweep_can_give(world.sweep) && ++world.rounds > 20) {
		id_of(id, "0190dddd-0101", 0);
		sweep_acked(world.sweep, id, 4, false);
		assert_false(sweep_can_give(world.sweep));   /* it wrote nothing */
		acknowledge(1, 1);
		assert_true(sweep_can_give(world.sweep));
		sweep_want(world.sweep, UINT64_C(1) << 30);
		world.added = true;
		world.rounds = 0;
	}
	world.done = world.added && output_size_of(1) < 0;
	if (world.done || (world.added && ++world.rounds > 200))
		loop_stop(world.loop);
	else
		loop_timer_set(world.timer, 5);
}

static void wakes_when_there_is_something_to_give(void **state)
{
	struct journal_policy p = { .keep_ms = 3600000, .keep_max_ms = 3600000, .instance_gone = always_gone };
	char path[128];

	(void)state;
	open_world(path, &p);
	acknowledge(0, 1);
	sweep_want(world.sweep, UINT64_C(1) << 30);
	run_world(on_dry);
	close_world(path);
}

/* What is acknowledged while the directory is walked is not counted twice. */
static void on_walked(void *arg)
{
	(void)arg;
	world.done = ++world.rounds > 40;
	if (world.done)
		loop_stop(world.loop);
	else
		loop_timer_set(world.timer, 5);
}

static void counted_once(void **state)
{
	struct journal_policy p = { .keep_ms = 3600000, .keep_max_ms = 3600000, .instance_gone = always_gone };
	char path[128];

	(void)state;
	open_world(path, &p);
	acknowledge(0, 0);
	acknowledge(1, 0);
	assert_int_equal(sweep_bytes(world.sweep), 2 * (4 + ARCHIVE_HEADER));
	run_world(on_walked);
	assert_int_equal(sweep_bytes(world.sweep), 2 * (4 + ARCHIVE_HEADER));
	close_world(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(added_and_found), cmocka_unit_test(cut_at_every_byte), cmocka_unit_test(beyond_what_is_known),
		cmocka_unit_test(slots_come_back_empty),
		cmocka_unit_test(in_the_order_of_their_last_acknowledgement), cmocka_unit_test(added_while_the_file_is_removed),
		cmocka_unit_test(wakes_when_there_is_something_to_give), cmocka_unit_test(counted_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
