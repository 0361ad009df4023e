#include "provider_words.h"

#include "base/cleanup.h"
#include "base/str.h"

void new_id(struct bench *b, char id[ID_SIZE])
{
	id_v4(id);
	assert_true(b->made_n < UNIT_LEN(b->made));
	memcpy(b->made[b->made_n++], id, ID_SIZE);
}

enum instance_event told(struct bench *b, const char *iid, unsigned bits)
{
	struct event *e = bench_take_instance(b, iid, bits);

	assert_non_null(e);
	return e->ev;
}

void make(struct bench *b, char iid[ID_SIZE], const char *workspace)
{
	cleanup_err err_t *err = NULL;

	new_id(b, iid);
	const struct instance_spec s = { iid, workspace };
	assert_int_equal(call(b, create, &s, &err), 0);
	assert_int_equal(told(b, iid, MADE), INSTANCE_READY);
}

void adopt(struct bench *b, const char *iid, enum instance_was was)
{
	cleanup_err err_t *err = NULL;
	const struct instance_spec s = { iid, "w" };

	assert_int_equal(call(b, adopt, &s, was, &err), 0);
}

void restart(struct bench *b)
{
	bench_close(b);
	bench_open(b);
}

void destroy(struct bench *b, const char *iid)
{
	assert_int_equal(call(b, destroy, iid, NULL), 0);
	assert_int_equal(told(b, iid, REMOVED), INSTANCE_GONE);
}

unsigned listed(struct bench *b, const char *iid, enum listed_state *ret)
{
	unsigned found = 0;

	assert_int_equal(call(b, list, NULL), 0);
	struct event *e = bench_take(b, TOLD_LIST, NULL, NULL);
	assert_non_null(e);
	assert_false(e->failed);
	assert_true(e->complete);
	for (size_t i = 0; i < e->items_n; i++)
		if (str_eq(e->items[i].id, iid)) {
			found++;
			if (ret)
				*ret = e->items[i].state;
		}
	return found;
}

void begin_in(struct bench *b, const char *iid, const char *scope, char cid[ID_SIZE], const char *text)
{
	struct exec_spec s;
	cleanup_err err_t *err = NULL;

	id_v4(cid);
	s = bench_exec_spec(cid, scope);
	assert_int_equal(bench_exec(b, iid, &s, text, &err), 0);
}

int32_t pgid_of(struct bench *b, const char *iid, const char *cid)
{
	struct event *e = bench_take(b, TOLD_STARTED, iid, cid);

	assert_non_null(e);
	assert_false(e->started.adopted);
	return e->started.pgid;
}

struct exec_exited end_of(struct bench *b, const char *iid, const char *cid)
{
	struct event *e = bench_take(b, TOLD_EXITED, iid, cid);

	assert_non_null(e);
	return e->exited;
}

/* What is still in the pipes is read first: after this it may be gone. */
void ack(struct bench *b, const char *iid, const char *cid)
{
	(void)bench_text(b, cid, 0);
	(void)bench_text(b, cid, 1);
	assert_int_equal(call(b, exec_ack, iid, cid, NULL), 0);
}

const char *run_spec(struct bench *b, const char *iid, struct exec_spec *s, const char *text, int status)
{
	cleanup_err err_t *err = NULL;
	struct exec_exited x;

	assert_int_equal(bench_exec(b, iid, s, text, &err), 0);
	x = end_of(b, iid, s->exec_id);
	assert_int_equal(x.end, EXEC_EXITED);
	assert_int_equal(x.code, status);
	assert_int_equal(bench_count(b, TOLD_STARTED, iid, s->exec_id), 1);
	ack(b, iid, s->exec_id);
	return bench_text(b, s->exec_id, 0);
}

const char *run(struct bench *b, const char *iid, const char *scope, const char *text, int status)
{
	char cid[ID_SIZE];
	struct exec_spec s;

	id_v4(cid);
	s = bench_exec_spec(cid, scope);
	return run_spec(b, iid, &s, text, status);
}

void end_scope(struct bench *b, const char *iid, const char *scope)
{
	for (unsigned tries = 0; tries < 50; tries++) {
		assert_int_equal(call(b, scope_end, iid, scope, NULL), 0);
		struct event *e = bench_take(b, TOLD_SCOPE, iid, scope);
		assert_non_null(e);
		if (!e->failed)
			return;
		bench_turn(b, 50);   /* not confirmed: to be asked again */
	}
	fail_msg("the end of a scope is never confirmed");
}

void starts_nothing(struct bench *b, const char *iid, const char *scope)
{
	char cid[ID_SIZE];
	struct exec_spec s;

	id_v4(cid);
	s = bench_exec_spec(cid, scope);
	if (bench_exec(b, iid, &s, "echo no", NULL) == 0) {
		struct exec_exited x = end_of(b, iid, cid);
		assert_int_equal(x.end, EXEC_NOT_STARTED);
	}
	assert_int_equal(bench_count(b, TOLD_STARTED, iid, cid), 0);
}

bool can_pause(const struct bench *b)
{
	return b->ops->caps & PROVIDER_PAUSE;
}

void feed(struct bench *b, const char *iid, const char *cid, const char *data, size_t n)
{
	uint64_t sent = 0, may = 65536;

	while (sent < n) {
		size_t part = n - sent < may - sent ? (size_t)(n - sent) : (size_t)(may - sent);
		if (part) {
			assert_int_equal(call(b, exec_stdin, iid, cid, sent, data + sent, part, false, NULL), 0);
			sent += part;
			continue;
		}
		struct event *e = bench_take(b, TOLD_STDIN, iid, cid);
		assert_non_null(e);
		may = e->stdin_taken + e->window;
	}
	assert_int_equal(call(b, exec_stdin, iid, cid, sent, NULL, 0, true, NULL), 0);
}

static struct exec_spec file_spec(char cid[ID_SIZE], const char *scope, const char *dir, char *const *argv)
{
	id_v4(cid);
	struct exec_spec s = bench_exec_spec(cid, scope);
	s.kind = EXEC_FILE;
	s.argv = argv;
	s.cwd = dir;
	s.make_cwd = true;
	return s;
}

const char *file_op(struct bench *b, const char *iid, const char *dir, char *const *argv, int status, size_t *n)
{
	char cid[ID_SIZE];
	struct exec_spec s = file_spec(cid, iid, dir, argv);
	const char *text = run_spec(b, iid, &s, NULL, status);

	*n = bench_output(b, cid)->s[0].bytes.len;
	return text;
}

void write_file(struct bench *b, const char *iid, const char *dir, char *name, const char *data, size_t n)
{
	char cid[ID_SIZE], *argv[] = { "tee", "--", name, NULL };
	struct exec_spec s = file_spec(cid, iid, dir, argv);

	s.stdin_open = true;
	assert_int_equal(call(b, exec, iid, &s, NULL), 0);
	(void)pgid_of(b, iid, cid);
	feed(b, iid, cid, data, n);
	assert_int_equal(end_of(b, iid, cid).code, 0);
	ack(b, iid, cid);
}
