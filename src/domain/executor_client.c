#include "domain/executor_client.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/num.h"
#include "base/str.h"
#include "core/http_client.h"

#define CALL_MS 5000
#define SCOPE_WAIT_MS 50   /* an agent that is there answers at once */
#define KEEP_MS 11000   /* the executor waits for the provider */
#define KEEP_ASKED_MAX_MS INT64_C(86400000)   /* it takes no more; how long nobody here pauses the sandbox is in its row */
/* An answer holds at most about 4 MiB, or one command with two texts, of which each byte may take six (\u0001). */
#define ANSWER_BASE (16u << 20)
#define ANSWER_TEXTS 12
#define ANSWER_DEPTH 32
#define REQUEST_ID_MAX 65

struct executor_client {
	struct http_client *http;
	size_t answer_max;
	char request_id[REQUEST_ID_MAX];
};

struct executor_client *executor_client_new(const char *socket_path, int64_t text_bytes, err_t **err)
{
	struct executor_client *x = calloc(1, sizeof *x);
	if (!x) {
		err_set(err, ERR_NO_MEMORY, NULL, "no memory");
		return NULL;
	}
	x->answer_max = ANSWER_BASE + ANSWER_TEXTS * (size_t)text_bytes;
	x->http = http_client_new(socket_path, err);
	if (!x->http) {
		free(x);
		return NULL;
	}
	return x;
}

void executor_client_free(struct executor_client *x)
{
	if (!x)
		return;
	http_client_free(x->http);
	free(x);
}

void executor_client_request_id(struct executor_client *x, const char *id)
{
	if (!id || str_copy(x->request_id, sizeof x->request_id, id) < 0)
		x->request_id[0] = 0;
}

struct status_code {
	int status;
	enum err_code code;
	const char *detail;
};

static const struct status_code status_codes[] = {
	{ 404, ERR_NOT_FOUND, "not_found" },
	{ 409, ERR_CONFLICT, "conflict" },
	{ 410, ERR_GONE, "instance_gone" },
	{ 413, ERR_TOO_LARGE, "too_large" },
	{ 429, ERR_LIMIT, "too_many_commands" },
	{ 503, ERR_UNAVAILABLE, "executor_unavailable" },
	{ 507, ERR_NO_SPACE, "no_space" },
};

/* A problem+json answer; what it says is repeated, what it does not say is not trusted. */
static int refused(const struct http_answer *a, err_t **err)
{
	const struct status_code *sc = NULL;
	const char *code = NULL, *detail = NULL;
	cleanup_json json_t *j = json_parse(buf_str(&a->body), a->body.len, ANSWER_BASE, ANSWER_DEPTH, NULL);
	for (size_t i = 0; i < sizeof status_codes / sizeof *status_codes; i++)
		if (status_codes[i].status == a->status)
			sc = &status_codes[i];
	if (j) {
		(void)json_get_str(j, "code", false, &code, NULL);
		(void)json_get_str(j, "detail", false, &detail, NULL);
	}
	if (!sc && a->status >= 500)
		return err_set(err, ERR_UNKNOWN, "outcome_unknown", "the executor answered %d", a->status);
	/* Nothing was done, whatever the reason that it gives. */
	if (a->status == 503 && !str_eq(code ? code : "", "control_plane_unavailable"))
		code = NULL;
	return err_set(err, sc ? sc->code : ERR_REFUSED, code ? code : sc ? sc->detail : "refused", "%s", detail ? detail : "the executor refused");
}

static int call(struct executor_client *x, const struct http_req *r, json_t **ret, err_t **err)
{
	struct http_answer a = { 0 };
	struct http_req q = *r;
	err_t *e = NULL;
	q.request_id = x->request_id[0] ? x->request_id : NULL;
	q.max_answer = x->answer_max;
	log_flush();   /* of earlier requests: this may take a while */
	if (http_client_do(x->http, &q, &a, &e) < 0) {
		if (err_code(e) == ERR_UNAVAILABLE)
			err_set(err, ERR_UNAVAILABLE, "executor_unavailable", "%s", err_message(e));
		else
			err_set(err, ERR_UNKNOWN, "outcome_unknown", "%s", err_message(e));
		err_free(e);
		return -1;
	}
	int rc = 0;
	if (a.status >= 400)
		rc = refused(&a, err);
	else if (ret) {
		json_t *j = json_parse(buf_str(&a.body), a.body.len, x->answer_max, ANSWER_DEPTH, &e);
		if (j)
			*ret = j;
		else
			rc = err_set(err, ERR_UNKNOWN, "outcome_unknown", "%s: %s", r->path, err_message(e));
		err_free(e);
	}
	http_answer_free(&a);
	return rc;
}

static int call_json(struct executor_client *x, const char *method, const char *path, json_t *body, int64_t ms, json_t **ret, err_t **err)
{
	size_t n = 0;
	const char *text = body ? json_text(body, &n) : NULL;
	if (body && !text)
		return err_set(err, ERR_NO_MEMORY, NULL, "no memory for a request");
	return call(x, &(struct http_req){ .method = method, .path = path, .body = text, .body_len = n, .timeout_ms = ms }, ret, err);
}

/* A POST that may arrive twice: it goes over the kept connection. */
static int post_repeatable(struct executor_client *x, const char *path, json_t *body, json_t **ret, err_t **err)
{
	size_t n = 0;
	const char *text = json_text(body, &n);
	struct http_req r = { .method = "POST", .path = path, .body = text, .body_len = n, .timeout_ms = CALL_MS, .repeatable = true };
	return text ? call(x, &r, ret, err) : err_set(err, ERR_NO_MEMORY, NULL, "no memory for a request");
}

#define PATH_SIZE 160

int executor_client_command_put(struct executor_client *x, const char *cid, json_t *body, int64_t wait_start_ms, json_t **ret, err_t **err)
{
	char path[PATH_SIZE];
	if (wait_start_ms > 0)
		(void)str_fmt(path, sizeof path, "/v1/commands/%s?wait_start_ms=%lld", cid, (long long)wait_start_ms);
	else
		(void)str_fmt(path, sizeof path, "/v1/commands/%s", cid);
	return call_json(x, "PUT", path, body, wait_start_ms + CALL_MS, ret, err);
}

int executor_client_command_get(struct executor_client *x, const char *cid, bool texts, json_t **ret, err_t **err)
{
	char path[PATH_SIZE];
	(void)str_fmt(path, sizeof path, "/v1/commands/%s%s", cid, texts ? "?texts=1" : "");
	return call_json(x, "GET", path, NULL, CALL_MS, ret, err);
}

int executor_client_commands_query(struct executor_client *x, const char *const *ids, size_t n, json_t **ret, err_t **err)
{
	cleanup_json json_t *o = json_object_new_object();
	json_t *list = json_object_new_array();
	for (size_t i = 0; list && i < n; i++)
		json_object_array_add(list, json_object_new_string(ids[i]));
	if (!o || !list || json_add(o, "ids", list) < 0)
		return err_set(err, ERR_NO_MEMORY, NULL, "no memory for a request");
	return post_repeatable(x, "/v1/commands/query", o, ret, err);
}

int executor_client_ticket(struct executor_client *x, const char *cid, json_t *body, json_t **ret, err_t **err)
{
	char path[PATH_SIZE];
	(void)str_fmt(path, sizeof path, "/v1/commands/%s/tickets", cid);
	return post_repeatable(x, path, body, ret, err);
}

int executor_client_stdin(struct executor_client *x, const char *cid, const void *p, size_t n, bool eof, json_t **ret, err_t **err)
{
	char path[PATH_SIZE];
	(void)str_fmt(path, sizeof path, "/v1/commands/%s/stdin?eof=%d", cid, eof ? 1 : 0);
	struct http_req r = { .method = "POST", .path = path, .body = p ? p : "", .body_len = n, .content_type = "application/octet-stream", .timeout_ms = 6 * CALL_MS };
	return call(x, &r, ret, err);
}

int executor_client_signal(struct executor_client *x, const char *cid, const char *instance, const char *sig, err_t **err)
{
	char path[PATH_SIZE];
	int64_t v;
	cleanup_json json_t *o = json_object_new_object();
	(void)str_fmt(path, sizeof path, "/v1/commands/%s/signal", cid);
	if (!o || json_add_str(o, "instance", instance) < 0 || (num_i64(sig, 1, 64, &v) == 0 ? json_add_i64(o, "signal", v) : json_add_str(o, "signal", sig)) < 0)
		return err_set(err, ERR_NO_MEMORY, NULL, "no memory for a request");
	return call_json(x, "POST", path, o, CALL_MS, NULL, err);
}

int executor_client_kill(struct executor_client *x, const char *cid, const char *instance, const char *reason, err_t **err)
{
	char path[PATH_SIZE];
	cleanup_json json_t *o = json_object_new_object();
	(void)str_fmt(path, sizeof path, "/v1/commands/%s/kill", cid);
	if (!o || json_add_str(o, "reason", reason) < 0 || (instance && json_add_str(o, "instance", instance) < 0))
		return err_set(err, ERR_NO_MEMORY, NULL, "no memory for a request");
	return call_json(x, "POST", path, o, CALL_MS, NULL, err);
}

int executor_client_instances(struct executor_client *x, json_t **ret, err_t **err)
{
	return call_json(x, "GET", "/v1/instances", NULL, CALL_MS, ret, err);
}

static int instance_call(struct executor_client *x, const char *method, const char *iid, const char *rest, json_t *body, int64_t ms, json_t **ret, err_t **err)
{
	char path[PATH_SIZE];
	(void)str_fmt(path, sizeof path, "/v1/instances/%s%s", iid, rest);
	return call_json(x, method, path, body, ms, ret, err);
}

int executor_client_instance_get(struct executor_client *x, const char *iid, bool lookup, json_t **ret, err_t **err)
{
	return instance_call(x, "GET", iid, lookup ? "?lookup=1" : "", NULL, CALL_MS, ret, err);
}

int executor_client_instance_put(struct executor_client *x, const char *iid, const char *workspace, const char *replaces, json_t **ret, err_t **err)
{
	cleanup_json json_t *o = json_object_new_object();
	if (!o || json_add_str(o, "workspace", workspace) < 0 || (replaces && json_add_str(o, "replaces", replaces) < 0))
		return err_set(err, ERR_NO_MEMORY, NULL, "no memory for a request");
	return instance_call(x, "PUT", iid, "", o, CALL_MS, ret, err);
}

int executor_client_instance_take_back(struct executor_client *x, const char *iid, const char *workspace, bool paused, int64_t running_ms, json_t **ret, err_t **err)
{
	cleanup_json json_t *o = json_object_new_object();
	if (!o || json_add_str(o, "workspace", workspace) < 0 || json_add_str(o, "was", paused ? "paused" : "ready") < 0 || json_add_i64(o, "running_ms", running_ms) < 0)
		return err_set(err, ERR_NO_MEMORY, NULL, "no memory for a request");
	return instance_call(x, "PUT", iid, "", o, CALL_MS, ret, err);
}

static int instance_post(struct executor_client *x, const char *iid, const char *rest, int64_t keep_ms, int64_t ms, json_t **ret, err_t **err)
{
	cleanup_json json_t *o = json_object_new_object();
	if (!o || (keep_ms > 0 && json_add_i64(o, "ms", keep_ms) < 0))
		return err_set(err, ERR_NO_MEMORY, NULL, "no memory for a request");
	return instance_call(x, "POST", iid, rest, o, ms, ret, err);
}

int executor_client_instance_pause(struct executor_client *x, const char *iid, int64_t wait_ms, json_t **ret, err_t **err)
{
	char rest[48];
	(void)str_fmt(rest, sizeof rest, "/pause?wait_ms=%lld", (long long)wait_ms);
	return instance_post(x, iid, rest, 0, wait_ms + CALL_MS, ret, err);
}

int executor_client_instance_wake(struct executor_client *x, const char *iid, json_t **ret, err_t **err)
{
	return instance_post(x, iid, "/wake", 0, CALL_MS, ret, err);
}

int executor_client_instance_keep(struct executor_client *x, const char *iid, int64_t ms, json_t **ret, err_t **err)
{
	return instance_post(x, iid, "/keepalive", ms < KEEP_ASKED_MAX_MS ? ms : KEEP_ASKED_MAX_MS, KEEP_MS, ret, err);
}

int executor_client_instance_forget(struct executor_client *x, const char *iid, err_t **err)
{
	return instance_call(x, "DELETE", iid, "?forget=1", NULL, CALL_MS, NULL, err);
}

int executor_client_scope_delete(struct executor_client *x, const char *iid, const char *scope, const char *reason, json_t **ret, err_t **err)
{
	char rest[96];
	(void)str_fmt(rest, sizeof rest, "/scopes/%s?reason=%s&wait_ms=%d", scope, reason, SCOPE_WAIT_MS);
	return instance_call(x, "DELETE", iid, rest, NULL, CALL_MS, ret, err);
}

int executor_client_instance_delete(struct executor_client *x, const char *iid, int64_t wait_ms, json_t **ret, err_t **err)
{
	char path[PATH_SIZE];
	(void)str_fmt(path, sizeof path, "/v1/instances/%s?wait_ms=%lld", iid, (long long)wait_ms);
	return call_json(x, "DELETE", path, NULL, wait_ms + CALL_MS, ret, err);
}

int executor_client_reports(struct executor_client *x, int64_t wait_ms, int64_t limit, json_t **ret, err_t **err)
{
	char path[PATH_SIZE];
	(void)str_fmt(path, sizeof path, "/v1/reports?wait_ms=%lld&limit=%lld", (long long)wait_ms, (long long)limit);
	return call_json(x, "GET", path, NULL, wait_ms + CALL_MS, ret, err);
}

int executor_client_ack(struct executor_client *x, json_t *keys, err_t **err)
{
	cleanup_json json_t *o = json_object_new_object();
	if (!o || json_add(o, "keys", json_object_get(keys)) < 0)
		return err_set(err, ERR_NO_MEMORY, NULL, "no memory for a request");
	return post_repeatable(x, "/v1/reports/ack", o, NULL, err);
}

int executor_client_health(struct executor_client *x, json_t **ret, err_t **err)
{
	return call_json(x, "GET", "/v1/health", NULL, CALL_MS / 2, ret, err);
}
