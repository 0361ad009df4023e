#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "executor/output.h"
#include "executor/reader.h"

#define CAPS_ALL { 1 << 30, 1 << 30, 1 << 20 }

struct rig {
	char path[128];
	int dir;
	int pipes[2][2];
	struct output *o;
	struct output_caps caps;
};

static void rig_open(struct rig *r, struct output_caps caps)
{
	memset(r, 0, sizeof *r);
	r->caps = caps;
	r->dir = open(unit_tmpdir(r->path), O_RDONLY | O_DIRECTORY);
	assert_true(r->dir >= 0);
	for (int s = 0; s < 2; s++)
		assert_int_equal(pipe2(r->pipes[s], O_NONBLOCK), 0);
	r->o = output_new(r->dir, "c", &caps, NULL);
	assert_non_null(r->o);
}

static void rig_close(struct rig *r)
{
	static const char *const names[] = { "c.out", "c.err", "c.idx", "d.out", "d.err", "d.idx" };

	output_unref(r->o);
	for (int s = 0; s < 2; s++) {
		close(r->pipes[s][0]);
		close(r->pipes[s][1]);
	}
	for (size_t i = 0; i < UNIT_LEN(names); i++)
		unlinkat(r->dir, names[i], 0);
	close(r->dir);
	rmdir(r->path);
}

static void say(struct rig *r, int s, const void *p, size_t n)
{
	const char *at = p;

	while (n > 0) {
		ssize_t w = write(r->pipes[s][1], at, n > 60000 ? 60000 : n);

		assert_true(w > 0);
		assert_int_equal(output_take(r->o, (enum output_stream)s, r->pipes[s][0], 1 << 20), w);
		at += w;
		n -= (size_t)w;
	}
}

static void says(struct rig *r, int s, const char *text)
{
	say(r, s, text, strlen(text));
}

/* Everything from `from` on as "o:text|e:text|gap" pieces. */
static char *tell(struct output *o, uint64_t from, char *dst, size_t n)
{
	struct reader rd;
	struct reader_piece p;
	enum reader_got got;
	size_t at = 0;

	dst[0] = '\0';
	reader_init(&rd, o, from);
	while ((got = reader_next(&rd, READER_PIECE, &p)) == READER_DATA || got == READER_GAP) {
		if (got == READER_GAP)
			at += (size_t)snprintf(dst + at, n - at, "[%d-%d]", (int)p.from, (int)p.to);
		else
			at += (size_t)snprintf(dst + at, n - at, "%c%.*s|", p.stream == OUTPUT_OUT ? 'o' : 'e', (int)p.len, (const char *)p.data);
	}
	reader_close(&rd);
	assert_true(at < n);
	return dst;
}

static void order_of_arrival(void **state)
{
	struct rig r;
	char t[256];

	(void)state;
	rig_open(&r, (struct output_caps)CAPS_ALL);
	says(&r, 0, "one");
	says(&r, 0, "two");
	says(&r, 1, "bad");
	says(&r, 0, "three");
	assert_string_equal(tell(r.o, 0, t, sizeof t), "oonetwo|ebad|othree|");
	assert_string_equal(tell(r.o, 4, t, sizeof t), "owo|ebad|othree|");
	output_finish(r.o);
	assert_string_equal(tell(r.o, 8, t, sizeof t), "ed|othree|");
	assert_int_equal(output_end(r.o), 14);
	rig_close(&r);
}

static void nothing_makes_no_file(void **state)
{
	struct rig r;
	struct stat st;

	(void)state;
	rig_open(&r, (struct output_caps)CAPS_ALL);
	assert_int_equal(output_take(r.o, OUTPUT_OUT, r.pipes[0][0], 100), -1);
	assert_int_equal(errno, EAGAIN);
	close(r.pipes[0][1]);
	assert_int_equal(output_take(r.o, OUTPUT_OUT, r.pipes[0][0], 100), 0);
	r.pipes[0][1] = open("/dev/null", O_RDONLY);
	output_finish(r.o);
	assert_int_equal(fstatat(r.dir, "c.out", &st, 0), -1);
	says(&r, 1, "");
	rig_close(&r);
}

/* One stream alone needs no index file. */
static void one_stream_has_no_index(void **state)
{
	struct rig r;
	struct stat st;
	char t[64];
	uint64_t totals[2] = { 3, 0 };

	(void)state;
	rig_open(&r, (struct output_caps)CAPS_ALL);
	says(&r, 0, "abc");
	output_finish(r.o);
	assert_int_equal(fstatat(r.dir, "c.idx", &st, 0), -1);
	output_unref(r.o);
	r.o = output_open(r.dir, "c", &r.caps, totals, NULL);
	assert_string_equal(tell(r.o, 0, t, sizeof t), "oabc|");
	rig_close(&r);
}

static void a_character_waits_for_its_rest(void **state)
{
	struct rig r;
	char t[128];

	(void)state;
	rig_open(&r, (struct output_caps)CAPS_ALL);
	says(&r, 0, "a\xf0\x9f");
	assert_string_equal(tell(r.o, 0, t, sizeof t), "oa|");
	says(&r, 1, "x");
	assert_string_equal(tell(r.o, 0, t, sizeof t), "oa|ex|");
	says(&r, 0, "\x98\x80" "b\xe2");
	assert_string_equal(tell(r.o, 0, t, sizeof t), "oa|ex|o\xf0\x9f\x98\x80" "b|");
	says(&r, 0, "!");   /* invalid: no reason to wait any longer */
	assert_string_equal(tell(r.o, 7, t, sizeof t), "o\xe2!|");
	says(&r, 1, "\xc3");
	assert_string_equal(tell(r.o, 9, t, sizeof t), "");
	output_finish(r.o);
	assert_string_equal(tell(r.o, 9, t, sizeof t), "e\xc3|");
	rig_close(&r);
}

/* --- death and recovery --- */

static void copy_file(int dir, const char *from, const char *to)
{
	int in = openat(dir, from, O_RDONLY), out;
	struct stat st;

	unlinkat(dir, to, 0);
	if (in < 0)
		return;
	out = openat(dir, to, O_WRONLY | O_CREAT, 0600);
	assert_int_equal(fstat(in, &st), 0);
	assert_int_equal(sendfile(out, in, NULL, (size_t)st.st_size), st.st_size);
	close(in);
	close(out);
}

/* The files as a kill -9 would leave them now, under another name. */
static void snapshot(struct rig *r)
{
	copy_file(r->dir, "c.out", "d.out");
	copy_file(r->dir, "c.err", "d.err");
	copy_file(r->dir, "c.idx", "d.idx");
}

/* Position by position: which stream's byte and which byte. */
struct seen {
	uint8_t stream[4096], byte[4096];
	size_t n;
};

static void look(struct output *o, struct seen *s)
{
	struct reader rd;
	struct reader_piece p;

	s->n = 0;
	reader_init(&rd, o, 0);
	while (reader_next(&rd, 64, &p) == READER_DATA) {
		assert_int_equal(p.from, s->n);
		for (size_t i = 0; i < p.len; i++) {
			s->stream[s->n] = (uint8_t)p.stream;
			s->byte[s->n++] = p.data[i];
		}
	}
	reader_close(&rd);
}

static const char *const words[] = { "a", "bc", "\xc3\xa9", "\xf0\x9f\x98\x80", "\xe2\x82", "\xac", "\xff", "longer words\n", "\xf0", "\x9f\x98\x80" };

/* Wherever the daemon dies, what a reader has seen stays where it was, and nothing is lost or told twice. */
static void death_moves_nothing(void **state)
{
	unsigned seed = 1;
	struct seen before, after;

	(void)state;
	for (int round = 0; round < 40; round++) {
		struct rig r;
		char want[2][2048] = { "", "" };
		struct output *again;
		uint64_t totals[2];

		rig_open(&r, (struct output_caps)CAPS_ALL);
		for (int step = 0; step < 25; step++) {
			int s = rand_r(&seed) % 3 == 0;
			const char *w = words[(unsigned)rand_r(&seed) % UNIT_LEN(words)];

			says(&r, s, w);
			strcat(want[s], w);
			look(r.o, &before);
			snapshot(&r);
			again = output_open(r.dir, "d", &r.caps, NULL, NULL);
			look(again, &after);
			assert_true(after.n >= before.n);
			assert_memory_equal(before.stream, after.stream, before.n);
			assert_memory_equal(before.byte, after.byte, before.n);
			output_unref(again);
			if (rand_r(&seed) % 4 == 0) {   /* live on as the next executor */
				output_unref(r.o);
				r.o = output_open(r.dir, "c", &r.caps, NULL, NULL);
			}
		}
		output_finish(r.o);
		look(r.o, &before);
		totals[0] = strlen(want[0]);
		totals[1] = strlen(want[1]);
		assert_int_equal(before.n, totals[0] + totals[1]);
		for (size_t i = 0, at[2] = { 0, 0 }; i < before.n; i++)
			assert_int_equal(before.byte[i], (uint8_t)want[before.stream[i]][at[before.stream[i]]++]);
		again = output_open(r.dir, "c", &r.caps, totals, NULL);
		look(again, &after);
		assert_int_equal(after.n, before.n);
		assert_memory_equal(before.stream, after.stream, before.n);
		assert_memory_equal(before.byte, after.byte, before.n);
		output_unref(again);
		rig_close(&r);
	}
}

/* Whatever is left of the index, each stream is told whole, once and in its own order. */
static void index_cut_at_every_byte(void **state)
{
	struct rig r;
	struct stat st;
	uint64_t totals[2] = { 0, 0 };

	(void)state;
	rig_open(&r, (struct output_caps)CAPS_ALL);
	for (int i = 0; i < 12; i++) {
		char w[8];

		snprintf(w, sizeof w, "%c%d", i % 2 ? 'e' : 'o', i);
		says(&r, i % 2, w);
		totals[i % 2] += strlen(w);
	}
	output_finish(r.o);
	assert_int_equal(fstatat(r.dir, "c.idx", &st, 0), 0);
	for (off_t size = st.st_size; size >= 0; size--) {
		char t[256], streams[2][64] = { "", "" };
		int fd;
		struct output *o;
		struct seen s;

		snapshot(&r);
		fd = openat(r.dir, "d.idx", O_WRONLY);
		assert_int_equal(ftruncate(fd, size), 0);
		close(fd);
		o = output_open(r.dir, "d", &r.caps, totals, NULL);
		look(o, &s);
		for (size_t i = 0, at[2] = { 0, 0 }; i < s.n; i++)
			streams[s.stream[i]][at[s.stream[i]]++] = (char)s.byte[i];
		assert_string_equal(streams[0], "o0o2o4o6o8o10");
		assert_string_equal(streams[1], "e1e3e5e7e9e11");
		assert_non_null(tell(o, 0, t, sizeof t));
		output_unref(o);
	}
	rig_close(&r);
}

/* --- what is not kept --- */

static void head_and_tail(void **state)
{
	struct rig r;
	struct output_caps caps = { 8192, 2 << 20, 1 << 20 };
	static char block[100000];
	struct output_piece p;
	uint64_t from, to, hint = 0, totals[2] = { 0, 0 };
	struct stat st;

	(void)state;
	rig_open(&r, caps);
	memset(block, 'x', sizeof block);
	for (int i = 0; i < 60; i++)
		say(&r, 0, block, sizeof block);
	totals[0] = 60 * sizeof block;
	assert_true(output_hole(r.o, OUTPUT_OUT, &from, &to));
	assert_int_equal(from, 8192);
	assert_true(to <= totals[0] - (2 << 20) && to > totals[0] - (2 << 20) - OUTPUT_HOLE_STEP);
	assert_int_equal(fstatat(r.dir, "c.out", &st, 0), 0);
	assert_true(st.st_blocks * 512 < 4 << 20);
	for (int again = 0; again < 2; again++) {
		output_piece_at(r.o, 5000, &hint, &p);
		assert_true(p.what == OUTPUT_DATA && p.to == 8192);
		output_piece_at(r.o, 8192, &hint, &p);
		assert_true(p.what == OUTPUT_GAP && p.to == to);
		output_piece_at(r.o, to, &hint, &p);
		assert_true(p.what == OUTPUT_DATA && p.to == totals[0]);
		assert_true(output_truncated(r.o, OUTPUT_OUT) && !output_truncated(r.o, OUTPUT_ERR));
		output_finish(r.o);
		output_unref(r.o);
		r.o = output_open(r.dir, "c", &caps, totals, NULL);
	}
	rig_close(&r);
}

static void a_full_index_drops_the_rest(void **state)
{
	struct rig r;
	struct output_caps caps = { 1 << 20, 1 << 20, 4 };
	char t[256];
	uint64_t totals[2];

	(void)state;
	rig_open(&r, caps);
	for (int i = 0; i < 10; i++) {
		says(&r, 0, "o");
		says(&r, 1, "ee");
	}
	assert_string_equal(tell(r.o, 0, t, sizeof t), "oo|eee|oo|eee|");
	assert_int_equal(output_bytes(r.o, OUTPUT_OUT), 10);
	assert_int_equal(output_bytes(r.o, OUTPUT_ERR), 20);
	/* what was dropped is counted across a death */
	output_unref(r.o);
	r.o = output_open(r.dir, "c", &caps, NULL, NULL);
	assert_int_equal(output_bytes(r.o, OUTPUT_OUT), 10);
	says(&r, 0, "more");
	output_finish(r.o);
	assert_string_equal(tell(r.o, 0, t, sizeof t), "oo|eee|oo|eee|[6-34]");
	assert_true(output_truncated(r.o, OUTPUT_OUT));
	totals[0] = output_bytes(r.o, OUTPUT_OUT);
	totals[1] = output_bytes(r.o, OUTPUT_ERR);
	output_unref(r.o);
	r.o = output_open(r.dir, "c", &caps, totals, NULL);
	assert_string_equal(tell(r.o, 3, t, sizeof t), "oo|eee|[6-34]");
	rig_close(&r);
}

/* A disk that is full must not hold up the command. */
static void no_space_drops_the_rest(void **state)
{
	struct rig r;
	char t[256];
	int full;

	(void)state;
	rig_open(&r, (struct output_caps)CAPS_ALL);
	full = symlinkat("/dev/full", r.dir, "c.err");   /* O_NOFOLLOW refuses it: as good as any error of the disk */
	assert_int_equal(full, 0);
	says(&r, 0, "kept");
	says(&r, 1, "gone");
	says(&r, 0, "gone too");
	assert_string_equal(tell(r.o, 0, t, sizeof t), "okept|");
	output_finish(r.o);
	assert_string_equal(tell(r.o, 0, t, sizeof t), "okept|[4-16]");
	assert_int_equal(output_bytes(r.o, OUTPUT_ERR), 4);
	rig_close(&r);
}

static void pieces_are_bounded_and_whole(void **state)
{
	struct rig r;
	struct reader rd;
	struct reader_piece p;
	uint64_t n = 0;

	(void)state;
	rig_open(&r, (struct output_caps)CAPS_ALL);
	for (int i = 0; i < 30000; i++)
		says(&r, 0, "\xe2\x82\xac");
	output_finish(r.o);
	reader_init(&rd, r.o, 0);
	while (reader_next(&rd, READER_PIECE, &p) == READER_DATA) {
		assert_true(p.len <= READER_PIECE && p.len % 3 == 0);
		n += p.len;
	}
	assert_int_equal(n, 90000);
	reader_close(&rd);
	rig_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(order_of_arrival), cmocka_unit_test(nothing_makes_no_file), cmocka_unit_test(one_stream_has_no_index),
		cmocka_unit_test(a_character_waits_for_its_rest), cmocka_unit_test(death_moves_nothing),
		cmocka_unit_test(index_cut_at_every_byte), cmocka_unit_test(head_and_tail), cmocka_unit_test(a_full_index_drops_the_rest),
		cmocka_unit_test(no_space_drops_the_rest), cmocka_unit_test(pieces_are_bounded_and_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
