#include "core/frame_msg.h"

#include <stdlib.h>
#include <string.h>

/* ---- writing ---- */

/* Starts a frame; the header is written by put_end() once the length is known. */
static size_t put_begin(struct buf *b)
{
	static const uint8_t none[FRAME_HEADER];
	size_t at = b->len;

	buf_add(b, none, sizeof(none));
	return at;
}

static int put_undo(struct buf *b, size_t at)
{
	b->len = at;
	b->failed = false;
	if (b->data)
		b->data[at] = 0;
	return -1;
}

static int put_end(struct buf *b, size_t at, enum msg_type type, uint16_t nfds)
{
	if (buf_failed(b))
		return put_undo(b, at);
	size_t len = b->len - at - FRAME_HEADER;
	if (len > FRAME_MAX)
		return put_undo(b, at);
	frame_header((uint8_t *)b->data + at, (uint8_t)type, nfds, (uint32_t)len);
	return 0;
}

static void put_u8(struct buf *b, unsigned v)
{
	buf_addc(b, (char)(uint8_t)v);
}

static void put_i32(struct buf *b, int32_t v)
{
	buf_add_u32(b, (uint32_t)v);
}

static void put_i64(struct buf *b, int64_t v)
{
	buf_add_u64(b, (uint64_t)v);
}

/* A string on the wire is its length, its bytes, a zero byte: the reader can use it in place. */
static void put_str(struct buf *b, const char *s)
{
	size_t n = strlen(s);

	if (n > FRAME_MAX) {
		b->failed = true;
		return;
	}
	buf_add_u32(b, (uint32_t)n);
	buf_add(b, s, n + 1);
}

static size_t vec_len(char *const *v)
{
	size_t n = 0;

	while (v && v[n])
		n++;
	return n;
}

static void put_vec(struct buf *b, char *const *v)
{
	size_t n = vec_len(v);

	buf_add_u32(b, (uint32_t)n);
	for (size_t i = 0; i < n; i++)
		put_str(b, v[i]);
}

/* ---- reading ---- */

struct reader {
	const uint8_t *p;
	size_t left;
	bool bad;
};

static const uint8_t *get_bytes(struct reader *r, size_t n)
{
	if (r->bad || n > r->left) {
		r->bad = true;
		return NULL;
	}
	const uint8_t *p = r->p;
	r->p += n;
	r->left -= n;
	return p;
}

static uint64_t get_le(struct reader *r, size_t n)
{
	const uint8_t *p = get_bytes(r, n);
	uint64_t v = 0;

	for (size_t i = 0; p && i < n; i++)
		v |= (uint64_t)p[i] << (8 * i);
	return v;
}

static uint32_t get_u32(struct reader *r)
{
	return (uint32_t)get_le(r, 4);
}

static int32_t get_i32(struct reader *r)
{
	return (int32_t)get_u32(r);
}

static bool get_bool(struct reader *r)
{
	uint64_t v = get_le(r, 1);

	if (v > 1)
		r->bad = true;
	return v == 1;
}

/* A number of an enum, 0..max. */
static int get_enum(struct reader *r, int max)
{
	uint64_t v = get_le(r, 1);

	if (v > (uint64_t)max) {
		r->bad = true;
		return 0;
	}
	return (int)v;
}

static const char *get_str(struct reader *r, size_t max)
{
	uint32_t n = get_u32(r);

	if (n > max)
		r->bad = true;
	const uint8_t *p = get_bytes(r, (size_t)n + 1);
	if (!p || p[n] != 0 || memchr(p, 0, n)) {
		r->bad = true;
		return "";
	}
	return (const char *)p;
}

static const char *get_id(struct reader *r)
{
	const char *id = get_str(r, MSG_ID_MAX);

	if (!r->bad && !msg_id_ok(id))
		r->bad = true;
	return id;
}

static int get_end(const struct reader *r)
{
	return r->bad || r->left ? -1 : 0;
}

static struct reader reader(const void *p, size_t n)
{
	return (struct reader){ .p = p, .left = n };
}

/* ---- values ---- */

bool msg_id_ok(const char *id)
{
	size_t n = strspn(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");

	return n > 0 && n <= MSG_ID_MAX && id[n] == 0;
}

const char *msg_stage_name(enum msg_stage s)
{
	static const char *const name[] = {
		[MSG_STAGE_NONE] = "", [MSG_STAGE_AGENT] = "agent", [MSG_STAGE_PIPES] = "pipes", [MSG_STAGE_FORK] = "fork",
		[MSG_STAGE_LIMITS] = "limits", [MSG_STAGE_USER] = "user", [MSG_STAGE_CWD] = "cwd", [MSG_STAGE_EXEC] = "exec",
	};

	return s <= MSG_STAGE_EXEC ? name[s] : "";
}

static bool config_ok(const struct msg_config *m)
{
	return m->nice >= 0 && m->nice <= 19 && m->oom_score_adj >= 0 && m->oom_score_adj <= 1000;
}

static bool exited_ok(const struct msg_exited *m)
{
	static const int32_t lo[] = { [MSG_END_EXITED] = 0, [MSG_END_SIGNALED] = 1, [MSG_END_NOT_STARTED] = 1 };
	static const int32_t hi[] = { [MSG_END_EXITED] = 255, [MSG_END_SIGNALED] = 64, [MSG_END_NOT_STARTED] = 4095 };

	if (m->end > MSG_END_NOT_STARTED || m->why > MSG_WHY_KILLED || m->stage > MSG_STAGE_EXEC)
		return false;
	if ((m->end == MSG_END_NOT_STARTED) != (m->stage != MSG_STAGE_NONE))
		return false;
	return m->code >= lo[m->end] && m->code <= hi[m->end] && m->ended_wall_ms >= 0;
}

static bool env_ok(char *const *env)
{
	for (size_t i = 0; env && env[i]; i++) {
		const char *eq = strchr(env[i], '=');
		if (!eq || eq == env[i])
			return false;
	}
	return true;
}

static bool exec_ok(const struct msg_exec *m)
{
	size_t argc = vec_len(m->argv);

	if (m->command ? argc != 0 || strlen(m->command) > MSG_COMMAND_MAX : argc == 0 || argc > MSG_ARGV_MAX || !m->argv[0][0])
		return false;
	if (m->cwd[0] != '/' || strlen(m->cwd) > MSG_PATH_MAX || (m->clean && vec_len(m->env)))
		return false;
	return m->timeout_ms > 0 && m->timeout_ms <= MSG_TIMEOUT_MAX && vec_len(m->env) <= MSG_ENV_MAX && env_ok(m->env);
}

/* ---- one pair a type ---- */

int msg_put_hello(struct buf *b, const struct msg_hello *m)
{
	if (strlen(m->token) > MSG_TOKEN_MAX)
		return -1;
	size_t at = put_begin(b);
	buf_add_u32(b, m->version);
	buf_add_u32(b, m->execs);
	put_str(b, m->token);
	return put_end(b, at, MSG_HELLO, 0);
}

int msg_get_hello(const void *p, size_t n, struct msg_hello *ret)
{
	struct reader r = reader(p, n);

	ret->version = get_u32(&r);
	ret->execs = get_u32(&r);
	ret->token = get_str(&r, MSG_TOKEN_MAX);
	return get_end(&r);
}

int msg_put_synced(struct buf *b)
{
	return put_end(b, put_begin(b), MSG_SYNCED, 0);
}

int msg_get_synced(const void *p, size_t n)
{
	(void)p;
	return n ? -1 : 0;
}

int msg_put_started(struct buf *b, const struct msg_started *m)
{
	if (!msg_id_ok(m->id) || m->pgid <= 0 || m->started_wall_ms < 0)
		return -1;
	size_t at = put_begin(b);
	put_str(b, m->id);
	put_u8(b, m->adopted);
	put_i32(b, m->pgid);
	put_i64(b, m->started_wall_ms);
	buf_add_u64(b, m->stdin_taken);
	return put_end(b, at, MSG_STARTED, 2);
}

int msg_get_started(const void *p, size_t n, struct msg_started *ret)
{
	struct reader r = reader(p, n);

	ret->id = get_id(&r);
	ret->adopted = get_bool(&r);
	ret->pgid = get_i32(&r);
	ret->started_wall_ms = (int64_t)get_le(&r, 8);
	ret->stdin_taken = get_le(&r, 8);
	return ret->pgid <= 0 || ret->started_wall_ms < 0 ? -1 : get_end(&r);
}

int msg_put_exited(struct buf *b, const struct msg_exited *m)
{
	if (!msg_id_ok(m->id) || !exited_ok(m))
		return -1;
	size_t at = put_begin(b);
	put_str(b, m->id);
	put_u8(b, m->end);
	put_u8(b, m->why);
	put_u8(b, m->stage);
	put_i32(b, m->code);
	put_i64(b, m->ended_wall_ms);
	return put_end(b, at, MSG_EXITED, 0);
}

int msg_get_exited(const void *p, size_t n, struct msg_exited *ret)
{
	struct reader r = reader(p, n);

	ret->id = get_id(&r);
	ret->end = (enum msg_end)get_enum(&r, MSG_END_NOT_STARTED);
	ret->why = (enum msg_why)get_enum(&r, MSG_WHY_KILLED);
	ret->stage = (enum msg_stage)get_enum(&r, MSG_STAGE_EXEC);
	ret->code = get_i32(&r);
	ret->ended_wall_ms = (int64_t)get_le(&r, 8);
	return get_end(&r) || !exited_ok(ret) ? -1 : 0;
}

int msg_put_stdin_taken(struct buf *b, const struct msg_stdin_taken *m)
{
	if (!msg_id_ok(m->id))
		return -1;
	size_t at = put_begin(b);
	put_str(b, m->id);
	buf_add_u64(b, m->taken);
	buf_add_u64(b, m->window);
	return put_end(b, at, MSG_STDIN_TAKEN, 0);
}

int msg_get_stdin_taken(const void *p, size_t n, struct msg_stdin_taken *ret)
{
	struct reader r = reader(p, n);

	ret->id = get_id(&r);
	ret->taken = get_le(&r, 8);
	ret->window = get_le(&r, 8);
	return get_end(&r);
}

int msg_put_not_running(struct buf *b, const struct msg_not_running *m)
{
	if (!msg_id_ok(m->id))
		return -1;
	size_t at = put_begin(b);
	put_str(b, m->id);
	put_u8(b, m->known);
	return put_end(b, at, MSG_NOT_RUNNING, 0);
}

int msg_get_not_running(const void *p, size_t n, struct msg_not_running *ret)
{
	struct reader r = reader(p, n);

	ret->id = get_id(&r);
	ret->known = get_bool(&r);
	return get_end(&r);
}

int msg_put_config(struct buf *b, const struct msg_config *m)
{
	if (!config_ok(m))
		return -1;
	size_t at = put_begin(b);
	buf_add_u32(b, m->version);
	buf_add_u32(b, m->nofile);
	buf_add_u32(b, m->nproc);
	put_i32(b, m->nice);
	put_i32(b, m->oom_score_adj);
	return put_end(b, at, MSG_CONFIG, 0);
}

int msg_get_config(const void *p, size_t n, struct msg_config *ret)
{
	struct reader r = reader(p, n);

	ret->version = get_u32(&r);
	ret->nofile = get_u32(&r);
	ret->nproc = get_u32(&r);
	ret->nice = get_i32(&r);
	ret->oom_score_adj = get_i32(&r);
	return get_end(&r) || !config_ok(ret) ? -1 : 0;
}

static int put_exec(struct buf *b, const struct msg_exec *m, uint32_t version)
{
	if (!msg_id_ok(m->id) || !msg_id_ok(m->scope) || !exec_ok(m))
		return -1;
	size_t at = put_begin(b);
	put_str(b, m->id);
	if (version > MSG_VERSION_OLD)
		put_str(b, m->scope);
	put_u8(b, m->command != NULL);
	put_u8(b, m->make_cwd);
	put_u8(b, m->stdin_open);
	if (version > MSG_VERSION_OLD)
		put_u8(b, m->clean);
	put_i64(b, m->timeout_ms);
	put_str(b, m->cwd);
	if (m->command)
		put_str(b, m->command);
	else
		put_vec(b, m->argv);
	put_vec(b, m->env);
	return put_end(b, at, MSG_EXEC, 0);
}

int msg_put_exec(struct buf *b, const struct msg_exec *m)
{
	return put_exec(b, m, MSG_VERSION);
}

int msg_put_exec_old(struct buf *b, const struct msg_exec *m)
{
	return put_exec(b, m, MSG_VERSION_OLD);
}

/* The number of strings of a vector; the reader moves behind it. */
static uint32_t skip_vec(struct reader *r, uint32_t max)
{
	uint32_t n = get_u32(r);

	if (n > max)
		r->bad = true;
	for (uint32_t i = 0; i < n && !r->bad; i++)
		get_str(r, FRAME_MAX);
	return r->bad ? 0 : n;
}

static void fill_vec(struct reader r, char **dst)
{
	uint32_t n = get_u32(&r);

	/* The cast is the price of execve()'s signature; nobody writes through these. */
	for (uint32_t i = 0; i < n; i++)
		dst[i] = (char *)(uintptr_t)get_str(&r, FRAME_MAX);
	dst[n] = NULL;
}

int msg_get_exec(const void *p, size_t n, struct msg_exec *ret, char ***ret_vectors)
{
	struct reader r = reader(p, n);
	uint32_t argc = 0;

	*ret_vectors = NULL;
	ret->id = get_id(&r);
	ret->scope = get_id(&r);
	bool is_text = get_bool(&r);
	ret->make_cwd = get_bool(&r);
	ret->stdin_open = get_bool(&r);
	ret->clean = get_bool(&r);
	ret->timeout_ms = (int64_t)get_le(&r, 8);
	ret->cwd = get_str(&r, MSG_PATH_MAX);
	ret->command = is_text ? get_str(&r, MSG_COMMAND_MAX) : NULL;
	struct reader args = r;
	if (!is_text)
		argc = skip_vec(&r, MSG_ARGV_MAX);
	struct reader vars = r;
	uint32_t envc = skip_vec(&r, MSG_ENV_MAX);
	if (get_end(&r))
		return -1;
	char **v = calloc((size_t)argc + envc + 2, sizeof(*v));
	if (!v)
		return -1;
	if (!is_text)
		fill_vec(args, v);
	fill_vec(vars, v + argc + 1);
	ret->argv = is_text ? NULL : v;
	ret->env = v + argc + 1;
	if (!exec_ok(ret)) {
		free(v);
		return -1;
	}
	*ret_vectors = v;
	return 0;
}

int msg_put_stdin(struct buf *b, const struct msg_stdin *m)
{
	if (!msg_id_ok(m->id) || m->len > MSG_STDIN_MAX || m->offset > UINT64_MAX / 2)
		return -1;
	size_t at = put_begin(b);
	put_str(b, m->id);
	buf_add_u64(b, m->offset);
	put_u8(b, m->eof);
	buf_add_u32(b, (uint32_t)m->len);
	if (m->len)
		buf_add(b, m->data, m->len);
	return put_end(b, at, MSG_STDIN, 0);
}

int msg_get_stdin(const void *p, size_t n, struct msg_stdin *ret)
{
	struct reader r = reader(p, n);

	ret->id = get_id(&r);
	ret->offset = get_le(&r, 8);
	ret->eof = get_bool(&r);
	ret->len = get_u32(&r);
	if (ret->len > MSG_STDIN_MAX || ret->offset > UINT64_MAX / 2)
		return -1;
	ret->data = get_bytes(&r, ret->len);
	return get_end(&r);
}

int msg_put_signal(struct buf *b, const struct msg_signal *m)
{
	if (!msg_id_ok(m->id) || m->signo < 1 || m->signo > 64)
		return -1;
	size_t at = put_begin(b);
	put_str(b, m->id);
	put_i32(b, m->signo);
	return put_end(b, at, MSG_SIGNAL, 0);
}

int msg_get_signal(const void *p, size_t n, struct msg_signal *ret)
{
	struct reader r = reader(p, n);

	ret->id = get_id(&r);
	ret->signo = get_i32(&r);
	return get_end(&r) || ret->signo < 1 || ret->signo > 64 ? -1 : 0;
}

int msg_put_id(struct buf *b, enum msg_type type, const char *id)
{
	if (!msg_id_ok(id))
		return -1;
	size_t at = put_begin(b);
	put_str(b, id);
	return put_end(b, at, type, 0);
}

int msg_get_id(const void *p, size_t n, const char **ret_id)
{
	struct reader r = reader(p, n);

	*ret_id = get_id(&r);
	return get_end(&r);
}
