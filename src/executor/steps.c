#include "executor/steps.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/log.h"
#include "base/str.h"

#define STEPS_DEPTH 40
#define LINE_MAX_BYTES (4u << 20)
#define BLOCK 4096        /* of the file system, as a rule */
#define LATER_MAX 400     /* bytes that all steps after the first two lines may take */

/* The offset behind the last newline. */
static off_t whole_size(int fd)
{
	char b[4096];
	off_t at = lseek(fd, 0, SEEK_END);

	while (at > 0) {
		size_t n = at < (off_t)sizeof b ? (size_t)at : sizeof b;
		const char *nl;

		if (io_pread(fd, b, n, at - (off_t)n) != (ssize_t)n)
			return -1;
		nl = memrchr(b, '\n', n);
		if (nl)
			return at - (off_t)n + (nl - b) + 1;
		at -= (off_t)n;
	}
	return 0;
}

void steps_repair(int fd)
{
	off_t whole = whole_size(fd);

	if (whole >= 0 && ftruncate(fd, whole) < 0)
		log_kv(LOG_WARN, "journal_repair_failed", "err", strerror(errno), NULL);
}

static int append(int fd, const void *p, size_t n, err_t **err)
{
	int e;

	if (io_write_full(fd, p, n) == 0)
		return 0;
	e = errno;
	steps_repair(fd);
	return err_sys(err, e, "journal log");
}

/* {"key":value} */
static int append_number(int fd, const char *key, int64_t v, err_t **err)
{
	char line[96];

	if (str_fmt(line, sizeof line, "{\"%s\":%lld}\n", key, (long long)v) < 0)
		return err_set(err, ERR_INTERNAL, NULL, "journal log: %s", key);
	return append(fd, line, strlen(line), err);
}

/* Ids are checked; the Run's is the caller's word. */
static void add_head(struct buf *b, const struct steps *s)
{
	buf_addf(b, "{\"v\":1,\"id\":\"%s\",\"instance\":\"%s\",\"run\":", s->cid, s->instance);
	json_quote(b, s->run_id, strlen(s->run_id));
	if (s->scope[0] && !str_eq(s->scope, s->instance))
		buf_addf(b, ",\"scope\":\"%s\"", s->scope);
	if (timer_name(s->timer))
		buf_addf(b, ",\"timer\":\"%s\"", timer_name(s->timer));
	buf_addf(b, ",\"timeout_ms\":%" PRId64 ",\"accepted\":%" PRId64 ",\"stdin\":%s,\"stdin_eof\":%s", s->timeout_ms, s->accepted_ms,
		s->stdin_open ? "true" : "false", s->stdin_eof ? "true" : "false");
	buf_addf(b, ",\"head\":%" PRIu64 ",\"tail\":%" PRIu64 ",\"records\":%" PRIu64 "}", s->caps.head, s->caps.tail, s->caps.index_records);
}

/* Blanks, if the last block would not have room for all that is to come: so the end of a command can be written on a full disk. */
static void pad(struct buf *b, size_t more)
{
	size_t left = BLOCK - (b->len + more) % BLOCK;

	for (size_t n = left < LATER_MAX ? left + 1 : 0; n > 0; n--)
		buf_addc(b, ' ');
}

int steps_create(int fd, struct steps *s, const char *record, size_t record_len, err_t **err)
{
	cleanup_buf struct buf b = BUF_INIT(LINE_MAX_BYTES + 4096);

	add_head(&b, s);
	pad(&b, record_len + 2);
	buf_addc(&b, '\n');
	s->record_off = b.len;
	s->record_len = record_len;
	buf_add(&b, record, record_len);
	buf_addc(&b, '\n');
	if (s->handed_ms)
		buf_addf(&b, "{\"handed\":%lld}\n", (long long)s->handed_ms);
	if (buf_failed(&b))
		return err_set(err, ERR_NO_MEMORY, NULL, "journal log");
	return append(fd, b.data, b.len, err);
}

int steps_handed(int fd, struct steps *s, err_t **err)
{
	s->handed_ms = clock_wall_ms();
	return append_number(fd, "handed", s->handed_ms, err);
}

int steps_started(int fd, struct steps *s, int64_t started_ms, int32_t process_group, err_t **err)
{
	char line[96];

	s->started_ms = started_ms;
	s->process_group = process_group;
	if (str_fmt(line, sizeof line, "{\"started\":%lld,\"group\":%d}\n", (long long)started_ms, process_group) < 0)
		return err_set(err, ERR_INTERNAL, NULL, "journal log: started");
	return append(fd, line, strlen(line), err);
}

int steps_stdin_eof(int fd, struct steps *s, err_t **err)
{
	s->stdin_eof = true;
	return append_number(fd, "stdin_eof", 1, err);
}

int steps_kill(int fd, struct steps *s, enum reason why, err_t **err)
{
	char line[64];

	s->kill = why;
	if (str_fmt(line, sizeof line, "{\"kill\":\"%s\"}\n", reason_name(why)) < 0)
		return err_set(err, ERR_INTERNAL, NULL, "journal log: kill");
	return append(fd, line, strlen(line), err);
}

int steps_end(int fd, struct steps *s, const struct outcome *o, err_t **err)
{
	cleanup_buf struct buf b = BUF_INIT(4096);

	s->ended = true;
	s->end = *o;
	buf_adds(&b, "{\"end\":");
	outcome_add(&b, o);
	if (buf_adds(&b, "}\n") < 0)
		return err_set(err, ERR_NO_MEMORY, NULL, "journal log: end");
	return append(fd, b.data, b.len, err);
}

/* --- reading --- */

static int parse_head(const char *p, size_t n, struct steps *s, err_t **err)
{
	cleanup_json json_t *j = json_parse(p, n, LINE_MAX_BYTES, STEPS_DEPTH, err);
	const char *cid = "", *instance = "", *scope = NULL, *run = "", *timer = timer_name(TIMER_COMMAND);
	int64_t v = 0, head = 0, tail = 0, records = 0;

	if (!j || json_get_i64(j, "v", true, 1, 1, &v, err) < 0 || json_get_str(j, "id", true, &cid, err) < 0 ||
	    json_get_str(j, "instance", true, &instance, err) < 0 || json_get_str(j, "scope", false, &scope, err) < 0 ||
	    json_get_str(j, "run", true, &run, err) < 0 || json_get_i64(j, "timeout_ms", true, 0, INT64_MAX, &s->timeout_ms, err) < 0 ||
	    json_get_str(j, "timer", false, &timer, err) < 0 ||
	    json_get_i64(j, "accepted", true, 0, INT64_MAX, &s->accepted_ms, err) < 0 ||
	    json_get_bool(j, "stdin", true, &s->stdin_open, err) < 0 || json_get_bool(j, "stdin_eof", true, &s->stdin_eof, err) < 0 ||
	    json_get_i64(j, "head", true, 0, INT64_MAX / 4, &head, err) < 0 || json_get_i64(j, "tail", true, 0, INT64_MAX / 4, &tail, err) < 0 ||
	    json_get_i64(j, "records", true, 0, INT64_MAX / 64, &records, err) < 0)
		return -1;
	s->timer = timer_parse(timer);
	s->caps = (struct output_caps){ (uint64_t)head, (uint64_t)tail, (uint64_t)records };
	if (!scope)
		scope = instance;
	if (!id_valid(cid) || !id_valid(instance) || !id_valid(scope) || str_copy(s->scope, sizeof s->scope, scope) < 0 || str_copy(s->cid, sizeof s->cid, cid) < 0 ||
	    str_copy(s->instance, sizeof s->instance, instance) < 0 ||
	    str_copy(s->run_id, sizeof s->run_id, run) < 0)
		return err_set(err, ERR_INVALID, NULL, "journal log: bad ids");
	return 0;
}

static int parse_step(const char *p, size_t n, struct steps *s, err_t **err)
{
	cleanup_json json_t *j = json_parse(p, n, LINE_MAX_BYTES, STEPS_DEPTH, err);
	const char *kill = NULL;
	const json_t *end = NULL;
	int64_t group = s->process_group;

	if (!j || json_get_i64(j, "handed", false, 0, INT64_MAX, &s->handed_ms, err) < 0 ||
	    json_get_i64(j, "started", false, 0, INT64_MAX, &s->started_ms, err) < 0 ||
	    json_get_i64(j, "group", false, INT32_MIN, INT32_MAX, &group, err) < 0 || json_get_str(j, "kill", false, &kill, err) < 0 ||
	    json_get_obj(j, "end", false, &end, err) < 0)
		return -1;
	s->process_group = (int32_t)group;
	if (json_has(j, "stdin_eof"))
		s->stdin_eof = true;
	if (kill)
		s->kill = reason_parse(kill);
	if (!end)
		return 0;
	s->ended = true;
	return outcome_parse(end, &s->end, err);
}

size_t steps_whole(const char *text, size_t len)
{
	while (len > 0 && text[len - 1] != '\n')
		len--;
	return len;
}

int steps_parse(const char *text, size_t len, struct steps *ret, err_t **err)
{
	struct steps s = { 0 };
	const char *p = text, *end = text + steps_whole(text, len);
	int line = 0;

	for (const char *nl; p < end; p = nl + 1, line++) {
		nl = memchr(p, '\n', (size_t)(end - p));
		if (line == 0 && parse_head(p, (size_t)(nl - p), &s, err) < 0)
			return -1;
		if (line == 1) {
			s.record_off = (size_t)(p - text);
			s.record_len = (size_t)(nl - p);
		}
		if (line > 1 && parse_step(p, (size_t)(nl - p), &s, err) < 0)
			return err_wrap(err, "line %d", line + 1);
	}
	if (line < 2)
		return err_set(err, ERR_INVALID, NULL, "journal log: incomplete");
	*ret = s;
	return 0;
}
