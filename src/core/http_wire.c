#include "core/http_wire.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/num.h"
#include "base/str.h"

#define LINE_MAX_BYTES 1024   /* of a chunk's size, of a trailer */
#define IN_MAX (256u << 10)   /* more is not read at once */

bool http_wire_safe(const char *s)
{
	for (; *s; s++) {
		if (*s <= ' ' || *s == 0x7f)
			return false;
	}
	return true;
}

int http_wire_head(struct buf *b, const struct http_req *r)
{
	if (r->path[0] != '/' || !http_wire_safe(r->path))
		return -1;
	buf_addf(b, "%s %s HTTP/1.1\r\nHost: localhost\r\n", r->method, r->path);
	if (r->body)
		buf_addf(b, "Content-Type: %s\r\n", r->content_type ? r->content_type : "application/json");
	if (r->body || str_eq(r->method, "POST") || str_eq(r->method, "PUT"))
		buf_addf(b, "Content-Length: %zu\r\n", r->body ? r->body_len : 0);
	if (r->request_id && http_wire_safe(r->request_id))
		buf_addf(b, "X-Request-Id: %s\r\n", r->request_id);
	return buf_adds(b, "\r\n");
}

void http_wire_init(struct http_wire *w, size_t max_answer)
{
	*w = (struct http_wire){ .in = BUF_INIT(IN_MAX), .body = BUF_INIT(max_answer) };
}

void http_wire_free(struct http_wire *w)
{
	buf_free(&w->in);
	buf_free(&w->body);
}

/* The length of the line at the front with its end; 0 when it is not whole. */
static size_t line_len(const struct http_wire *w)
{
	const char *nl = w->in.len ? memchr(w->in.data, '\n', w->in.len) : NULL;

	return nl ? (size_t)(nl - w->in.data) + 1 : 0;
}

/* The value when the header line has that name; spaces around it are cut off in place. */
static char *value_of(char *line, const char *name)
{
	size_t n = strlen(name), len;
	char *v;

	if (strncasecmp(line, name, n) != 0 || line[n] != ':')
		return NULL;
	v = line + n + 1 + strspn(line + n + 1, " \t");
	for (len = strlen(v); len > 0 && (v[len - 1] == ' ' || v[len - 1] == '\t'); len--)
		v[len - 1] = '\0';
	return v;
}

static int take_header(struct http_wire *w, char *line)
{
	char *v;

	if ((v = value_of(line, "Content-Length"))) {
		if (w->step == HTTP_WIRE_TO_END)
			w->step = HTTP_WIRE_LENGTH;
		return num_u64(v, INT64_MAX, &w->left);
	}
	if ((v = value_of(line, "Transfer-Encoding"))) {
		w->step = HTTP_WIRE_CHUNK_SIZE;
		return strcasecmp(v, "chunked") == 0 ? 0 : -1;
	}
	if ((v = value_of(line, "Connection")) && strcasecmp(v, "close") == 0)
		w->keep = false;
	return 0;
}

/* "HTTP/1.x NNN ..." */
static int take_status(struct http_wire *w, const char *line)
{
	if (!str_prefix(line, "HTTP/1.") || strlen(line) < 12 || line[8] != ' ' || (line[12] && line[12] != ' '))
		return -1;
	w->status = 0;
	for (int i = 9; i < 12; i++) {
		if (line[i] < '0' || line[i] > '9')
			return -1;
		w->status = w->status * 10 + (line[i] - '0');
	}
	w->keep = line[7] == '1';
	w->step = HTTP_WIRE_TO_END;
	return 0;
}

/* head: its lines, NUL-terminated, with an empty line at the end. */
static int take_lines(struct http_wire *w, char *head)
{
	bool first = true;

	for (char *line = head, *nl; (nl = strchr(line, '\n')); line = nl + 1, first = false) {
		*nl = '\0';
		if (nl > line && nl[-1] == '\r')
			nl[-1] = '\0';
		if (*line && (first ? take_status(w, line) : take_header(w, line)) < 0)
			return -1;
	}
	if (w->status == 204 || w->status == 304)
		w->step = HTTP_WIRE_DONE;
	else if (w->status < 200)
		w->step = HTTP_WIRE_HEAD;   /* an interim answer */
	else if (w->step == HTTP_WIRE_TO_END)
		w->keep = false;
	return 1;
}

/* These give 1: goes on with the next step; 0: more has to come; -1: malformed. */
static int take_head(struct http_wire *w)
{
	const char *end = w->in.len ? strstr(w->in.data, "\r\n\r\n") : NULL;
	char head[HTTP_WIRE_HEAD_MAX + 1];
	size_t n = end ? (size_t)(end - w->in.data) + 4 : 0;

	if (n > HTTP_WIRE_HEAD_MAX || (!end && w->in.len > HTTP_WIRE_HEAD_MAX))
		return -1;
	if (!end)
		return 0;
	memcpy(head, w->in.data, n);
	head[n] = '\0';
	buf_consume(&w->in, n);
	return take_lines(w, head);
}

static int take_bytes(struct http_wire *w, enum http_wire_step next)
{
	size_t n = w->in.len < w->left ? w->in.len : (size_t)w->left;

	if (n > 0 && buf_add(&w->body, w->in.data, n) < 0)
		return -1;
	buf_consume(&w->in, n);
	w->left -= n;
	if (w->left > 0)
		return 0;
	w->step = next;
	return 1;
}

static int take_chunk_size(struct http_wire *w)
{
	size_t n = line_len(w);
	char *end;

	if (n == 0)
		return w->in.len > LINE_MAX_BYTES ? -1 : 0;
	w->left = strtoull(w->in.data, &end, 16);
	if (end == w->in.data || (*end != '\r' && *end != '\n' && *end != ';') || w->left > INT64_MAX)
		return -1;
	buf_consume(&w->in, n);
	w->step = w->left ? HTTP_WIRE_CHUNK : HTTP_WIRE_TRAILER;
	return 1;
}

/* The empty line behind a chunk, or trailers and the empty line behind the last one. */
static int take_line(struct http_wire *w)
{
	size_t n = line_len(w);
	bool empty = n == 1 || (n == 2 && w->in.data[0] == '\r');

	if (n == 0)
		return w->in.len > LINE_MAX_BYTES ? -1 : 0;
	if (w->step == HTTP_WIRE_CHUNK_END && !empty)
		return -1;
	buf_consume(&w->in, n);
	if (empty)
		w->step = w->step == HTTP_WIRE_CHUNK_END ? HTTP_WIRE_CHUNK_SIZE : HTTP_WIRE_DONE;
	return 1;
}

static int take_step(struct http_wire *w)
{
	switch (w->step) {
	case HTTP_WIRE_HEAD:
		return take_head(w);
	case HTTP_WIRE_LENGTH:
		return take_bytes(w, HTTP_WIRE_DONE);
	case HTTP_WIRE_CHUNK_SIZE:
		return take_chunk_size(w);
	case HTTP_WIRE_CHUNK:
		return take_bytes(w, HTTP_WIRE_CHUNK_END);
	case HTTP_WIRE_CHUNK_END:
	case HTTP_WIRE_TRAILER:
		return take_line(w);
	case HTTP_WIRE_TO_END:
		w->left = w->in.len + UINT64_C(1);
		return take_bytes(w, HTTP_WIRE_TO_END);
	case HTTP_WIRE_DONE:
		break;
	}
	return 0;
}

int http_wire_take(struct http_wire *w, bool *ret_large)
{
	int rc;

	do
		rc = take_step(w);
	while (rc > 0 && w->step != HTTP_WIRE_DONE);
	*ret_large = buf_failed(&w->body) || (w->step == HTTP_WIRE_LENGTH && w->left > w->body.cap - w->body.len);
	if (rc < 0 || *ret_large)
		return -1;
	return w->step == HTTP_WIRE_DONE;
}

bool http_wire_ended(struct http_wire *w)
{
	if (w->step == HTTP_WIRE_TO_END)
		w->step = HTTP_WIRE_DONE;
	return w->step == HTTP_WIRE_DONE;
}
