/* engine_http.c - requests to an engine's HTTP API and what their answers mean. */
#include "provider/engine_http.h"

#include <ctype.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "base/str.h"

#define ANSWER_MAX (4u << 20)
#define ITEMS_MAX 4096

struct engine_http {
	struct http_async *async;
	struct list calls;   /* in flight */
};

struct call {
	struct list link;
	engine_fn *fn;
	void *arg;
	enum engine_http_parse parse;
	bool absent_is_fine, clash_on_500;
	char node[ENGINE_NAME_SIZE], prefix[ENGINE_NAME_SIZE];
};

struct engine_http *engine_http_new(struct loop *l, const char *socket_path, err_t **err)
{
	struct engine_http *h = calloc(1, sizeof(*h));

	if (!h) {
		err_set(err, ERR_NO_MEMORY, NULL, "engine");
		return NULL;
	}
	list_init(&h->calls);
	h->async = http_async_new(l, socket_path, err);
	if (!h->async) {
		free(h);
		return NULL;
	}
	return h;
}

void engine_http_free(struct engine_http *h)
{
	if (!h)
		return;
	http_async_free(h->async);
	list_for_each_safe(i, next, &h->calls)
		free(list_entry(i, struct call, link));
	free(h);
}

int engine_http_escape(struct buf *b, const char *s)
{
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (isalnum(c) || strchr("._~-", c))
			buf_addc(b, (char)c);
		else
			buf_addf(b, "%%%02X", c);
	}
	return buf_failed(b) ? -1 : 0;
}

/* The engine's own words, made fit for one line of a log. */
static void reason_of(const char *body, size_t n, char *dst, size_t size)
{
	cleanup_json json_t *o = json_parse(body, n, ANSWER_MAX, 32, NULL);
	const char *msg = NULL;

	if (!o || json_get_str(o, "message", false, &msg, NULL) < 0 || !msg)
		msg = "no reason given";
	if (strlen(msg) >= size)
		str_fmt(dst, size, "%.*s...", (int)size - 4, msg);
	else
		str_copy(dst, size, msg);
	for (char *p = dst; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = ' ';
}

int engine_http_refusal(int status, const char *body, size_t n, bool clash_on_500, err_t **err)
{
	char why[512];

	reason_of(body, n, why, sizeof(why));
	if (status == 404)
		return err_set(err, ERR_NOT_FOUND, NULL, "engine: %s", why);
	if (status == 409 || (status == 500 && clash_on_500 && strstr(why, "in use")))
		return err_set(err, ERR_EXISTS, NULL, "engine: %s", why);
	if (status >= 500)
		return err_set(err, ERR_UNKNOWN, "engine_error", "engine answered %d: %s", status, why);
	return err_set(err, ERR_REFUSED, "engine_refused", "engine answered %d: %s", status, why);
}

static enum engine_state state_of(const char *s)
{
	if (str_eq(s, "running"))
		return ENGINE_RUNNING;
	if (str_eq(s, "created") || str_eq(s, "configured") || str_eq(s, "initialized"))
		return ENGINE_CREATED;
	if (str_eq(s, "exited") || str_eq(s, "stopped") || str_eq(s, "dead"))
		return ENGINE_STOPPED;
	return ENGINE_ODD;
}

static void copy_label(const json_t *labels, const char *key, char *dst, size_t n)
{
	const char *v = NULL;

	dst[0] = '\0';
	if (labels && json_get_str(labels, key, false, &v, NULL) == 0 && v)
		str_copy(dst, n, v);
}

static void copy_labels(const json_t *labels, struct engine_container *c)
{
	copy_label(labels, ENGINE_LABEL_NODE, c->node, sizeof(c->node));
	copy_label(labels, ENGINE_LABEL_INSTANCE, c->instance, sizeof(c->instance));
	copy_label(labels, ENGINE_LABEL_TOKEN, c->token_hash, sizeof(c->token_hash));
}

static int copy_id(const json_t *o, struct engine_container *c, err_t **err)
{
	const char *id = NULL;

	if (json_get_str(o, "Id", true, &id, err) < 0)
		return -1;
	if (str_copy(c->id, sizeof(c->id), id) < 0)
		return err_set(err, ERR_INTERNAL, "engine_answer", "engine: an id of %zu characters", strlen(id));
	return 0;
}

int engine_http_inspect(const json_t *o, struct engine_container *ret, err_t **err)
{
	const json_t *state = NULL, *config = NULL, *labels = NULL;
	const char *name = "", *status = "";
	int64_t pid = 0;
	struct engine_container c = { .pid = 0 };

	if (copy_id(o, &c, err) < 0 || json_get_str(o, "Name", true, &name, err) < 0 || json_get_obj(o, "State", true, &state, err) < 0 ||
	    json_get_str(state, "Status", true, &status, err) < 0 || json_get_i64(state, "Pid", false, 0, INT32_MAX, &pid, err) < 0 ||
	    json_get_obj(o, "Config", true, &config, err) < 0 || json_get_obj(config, "Labels", false, &labels, err) < 0)
		return err_wrap(err, "engine: inspect");
	str_copy(c.name, sizeof(c.name), *name == '/' ? name + 1 : name);
	copy_labels(labels, &c);
	c.state = state_of(status);
	c.pid = c.state == ENGINE_RUNNING ? (pid_t)pid : 0;
	*ret = c;
	return 0;
}

int engine_http_summary(const json_t *o, struct engine_container *ret, err_t **err)
{
	const json_t *names = NULL, *labels = NULL;
	const char *status = "";
	struct engine_container c = { .pid = 0 };

	if (copy_id(o, &c, err) < 0 || json_get_arr(o, "Names", false, &names, err) < 0 || json_get_obj(o, "Labels", false, &labels, err) < 0 ||
	    json_get_str(o, "State", false, &status, err) < 0)
		return err_wrap(err, "engine: list");
	if (names && json_object_array_length(names) > 0) {
		const char *name = json_object_get_string(json_object_array_get_idx(names, 0));

		if (name)
			str_copy(c.name, sizeof(c.name), *name == '/' ? name + 1 : name);
	}
	copy_labels(labels, &c);
	c.state = state_of(status);
	*ret = c;
	return 0;
}

static bool wanted(const struct call *c, const struct engine_container *k)
{
	if (!c->node[0] && !c->prefix[0])
		return true;
	return (c->node[0] && str_eq(c->node, k->node)) || (c->prefix[0] && str_prefix(k->name, c->prefix));
}

static void answer_list(const struct call *c, const json_t *o)
{
	cleanup_err err_t *err = NULL;
	cleanup_free struct engine_container *items = NULL;
	struct engine_answer a = { .n = 0 };
	size_t n = json_object_is_type(o, json_type_array) ? json_object_array_length(o) : 0;

	if (n > ITEMS_MAX) {
		err_set(&err, ERR_TOO_LARGE, NULL, "engine: a list of %zu containers", n);
		c->fn(c->arg, NULL, err);
		return;
	}
	items = calloc(n + 1, sizeof(*items));
	for (size_t i = 0; items && i < n; i++) {
		if (engine_http_summary(json_object_array_get_idx(o, i), &items[a.n], &err) < 0)
			break;
		if (wanted(c, &items[a.n]))
			a.n++;
	}
	if (!items)
		err_set(&err, ERR_NO_MEMORY, NULL, "engine: list");
	a.items = items;
	c->fn(c->arg, err ? NULL : &a, err);
}

static void answer_json(const struct call *c, const json_t *o)
{
	cleanup_err err_t *err = NULL;
	struct engine_container one;
	struct engine_answer a = { .n = 0 };

	if (c->parse == ENGINE_HTTP_LIST) {
		answer_list(c, o);
		return;
	}
	if (c->parse == ENGINE_HTTP_ID)
		json_get_str(o, "Id", true, &a.id, &err);
	else if (engine_http_inspect(o, &one, &err) == 0)
		a = (struct engine_answer){ .items = &one, .n = 1, .id = one.id };
	c->fn(c->arg, err ? NULL : &a, err);
}

static void on_answer(void *arg, const struct http_answer *h, const err_t *failed)
{
	cleanup_free struct call *c = arg;
	cleanup_err err_t *err = NULL;
	cleanup_json json_t *o = NULL;
	struct engine_answer nothing = { .n = 0 };

	list_del(&c->link);
	if (failed) {
		c->fn(c->arg, NULL, failed);
		return;
	}
	bool fine = (h->status >= 200 && h->status < 300) || h->status == 304 || (h->status == 404 && c->absent_is_fine);
	if (!fine)
		engine_http_refusal(h->status, buf_str(&h->body), h->body.len, c->clash_on_500, &err);
	else if (c->parse != ENGINE_HTTP_NOTHING)
		o = json_parse(buf_str(&h->body), h->body.len, ANSWER_MAX, 32, &err);
	if (err)
		c->fn(c->arg, NULL, err);
	else if (o)
		answer_json(c, o);
	else
		c->fn(c->arg, &nothing, NULL);
}

int engine_http_do(struct engine_http *h, const struct engine_http_call *q, engine_fn *fn, void *arg, err_t **err)
{
	struct call *c = calloc(1, sizeof(*c));
	struct http_req r = { .method = q->method, .path = q->path, .body = q->body, .body_len = q->body ? strlen(q->body) : 0,
		.timeout_ms = q->timeout_ms, .max_answer = ANSWER_MAX };

	if (!c)
		return err_set(err, ERR_NO_MEMORY, NULL, "engine request");
	list_add_tail(&h->calls, &c->link);
	c->fn = fn;
	c->arg = arg;
	c->parse = q->parse;
	c->absent_is_fine = q->absent_is_fine;
	c->clash_on_500 = q->clash_on_500;
	str_copy(c->node, sizeof(c->node), q->node ? q->node : "");
	str_copy(c->prefix, sizeof(c->prefix), q->prefix ? q->prefix : "");
	if (http_async_do(h->async, &r, on_answer, c, err) < 0) {
		list_del(&c->link);
		free(c);
		return err_wrap(err, "engine");
	}
	return 0;
}
