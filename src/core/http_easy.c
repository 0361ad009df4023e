#include "core/http_easy.h"

#include <string.h>

#include "base/str.h"

#define CONNECT_TIMEOUT_MS 5000L

int http_easy_global(err_t **err)
{
	static bool done;

	if (done)
		return 0;
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		return err_set(err, ERR_INTERNAL, NULL, "libcurl could not be initialised");
	done = true;
	return 0;
}

static size_t on_body(char *p, size_t size, size_t n, void *arg)
{
	struct http_easy *e = arg;

	if (buf_add(&e->body, p, size * n) < 0) {
		e->too_large = true;
		return 0;
	}
	return size * n;
}

static int constant_options(struct http_easy *e, const char *socket_path)
{
	CURL *c = e->curl;

	return curl_easy_setopt(c, CURLOPT_UNIX_SOCKET_PATH, socket_path) ||
		curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L) ||
		curl_easy_setopt(c, CURLOPT_PROXY, "") ||
		curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http") ||
		curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L) ||
		curl_easy_setopt(c, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) ||
		curl_easy_setopt(c, CURLOPT_PATH_AS_IS, 1L) ||
		curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_TIMEOUT_MS) ||
		curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body) ||
		curl_easy_setopt(c, CURLOPT_WRITEDATA, e) ? -1 : 0;
}

int http_easy_init(struct http_easy *e, const char *socket_path, err_t **err)
{
	*e = (struct http_easy){ .body = BUF_INIT(0) };
	e->curl = curl_easy_init();
	if (!e->curl || constant_options(e, socket_path) < 0) {
		http_easy_free(e);
		return err_set(err, ERR_INTERNAL, NULL, "cannot set up an HTTP client for %s", socket_path);
	}
	return 0;
}

void http_easy_free(struct http_easy *e)
{
	if (e->curl)
		curl_easy_cleanup(e->curl);
	curl_slist_free_all(e->headers);
	buf_free(&e->body);
	e->curl = NULL;
	e->headers = NULL;
}

/* Nothing that could end the request line or a header may come from outside. */
static bool is_safe(const char *s)
{
	for (; *s; s++) {
		if (*s <= ' ' || *s == 0x7f)
			return false;
	}
	return true;
}

static int add_header(struct http_easy *e, const char *name, const char *value)
{
	char line[512];
	struct curl_slist *longer;

	if (str_fmt(line, sizeof line, "%s%s", name, value) < 0)
		return -1;
	longer = curl_slist_append(e->headers, line);
	if (!longer)
		return -1;
	e->headers = longer;
	return 0;
}

static int set_headers(struct http_easy *e, const struct http_req *r)
{
	curl_slist_free_all(e->headers);
	e->headers = NULL;
	if (add_header(e, "Expect:", "") < 0)   /* no 100-continue pause */
		return -1;
	if (r->body && add_header(e, "Content-Type: ", r->content_type ? r->content_type : "application/json") < 0)
		return -1;
	if (r->request_id && is_safe(r->request_id) && add_header(e, "X-Request-Id: ", r->request_id) < 0)
		return -1;
	return curl_easy_setopt(e->curl, CURLOPT_HTTPHEADER, e->headers) ? -1 : 0;
}

/* A GET or DELETE without a body is set up as GET, all else as POST; then the method's own name is put in. */
static int set_method(struct http_easy *e, const struct http_req *r)
{
	CURL *c = e->curl;
	bool bare = !r->body && (str_eq(r->method, "GET") || str_eq(r->method, "DELETE"));
	int rc;

	if (bare) {
		rc = curl_easy_setopt(c, CURLOPT_HTTPGET, 1L);
	} else {
		rc = curl_easy_setopt(c, CURLOPT_POST, 1L) ||
			curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->body_len) ||
			curl_easy_setopt(c, CURLOPT_POSTFIELDS, r->body ? r->body : "");
	}
	if (rc || curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, r->method))
		return -1;
	/* libcurl silently sends a request again when a kept connection dies before the answer. That is right for methods
	 * that may be repeated; any other POST gets a connection of its own. */
	return curl_easy_setopt(c, CURLOPT_FRESH_CONNECT, str_eq(r->method, "POST") && !r->repeatable ? 1L : 0L) ? -1 : 0;
}

int http_easy_prepare(struct http_easy *e, const struct http_req *r, err_t **err)
{
	char url[4096];

	if (r->path[0] != '/' || !is_safe(r->path) || str_fmt(url, sizeof url, "http://localhost%s", r->path) < 0)
		return err_set(err, ERR_INTERNAL, NULL, "malformed request path");
	buf_free(&e->body);
	buf_init(&e->body, r->max_answer);
	e->too_large = false;
	if (curl_easy_setopt(e->curl, CURLOPT_URL, url) || curl_easy_setopt(e->curl, CURLOPT_TIMEOUT_MS, (long)r->timeout_ms) ||
			set_method(e, r) < 0 || set_headers(e, r) < 0)
		return err_set(err, ERR_INTERNAL, NULL, "cannot set up the request");
	return 0;
}

int http_easy_result(struct http_easy *e, CURLcode rc, struct http_answer *ret, err_t **err)
{
	long sent = 0, status = 0;

	curl_easy_getinfo(e->curl, CURLINFO_REQUEST_SIZE, &sent);
	curl_easy_getinfo(e->curl, CURLINFO_RESPONSE_CODE, &status);
	if (rc == CURLE_OK) {
		*ret = (struct http_answer){ .status = (int)status, .body = e->body };
		buf_init(&e->body, 0);
		return 0;
	}
	buf_free(&e->body);
	if (e->too_large)
		return err_set(err, ERR_TOO_LARGE, NULL, "the answer is larger than %zu bytes", e->body.cap);
	/* Of all tries together: one that found nobody may come behind one whose connection broke. */
	if (sent == 0)
		return err_set(err, ERR_UNAVAILABLE, NULL, "no connection: %s", curl_easy_strerror(rc));
	return err_set(err, ERR_UNKNOWN, NULL, "no complete answer: %s", curl_easy_strerror(rc));
}
