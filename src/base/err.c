#include "base/err.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

/* Messages are for people and logs: longer chains are cut. */
#define ERR_TEXT_MAX 2048
#define ERR_DETAIL_MAX 48

struct err {
	enum err_code code;
	int errnum;
	char detail[ERR_DETAIL_MAX];
	char *text;
};

static char oom_text[] = "out of memory";
static struct err oom = { .code = ERR_NO_MEMORY, .errnum = ENOMEM, .detail = "out_of_memory", .text = oom_text };

static const char *const names[] = {
	[ERR_INTERNAL] = "internal",
	[ERR_INVALID] = "invalid",
	[ERR_REFUSED] = "refused",
	[ERR_NOT_FOUND] = "not_found",
	[ERR_CONFLICT] = "conflict",
	[ERR_EXISTS] = "exists",
	[ERR_DENIED] = "denied",
	[ERR_BUSY] = "busy",
	[ERR_LIMIT] = "limit",
	[ERR_TOO_LARGE] = "too_large",
	[ERR_UNAVAILABLE] = "unavailable",
	[ERR_UNKNOWN] = "unknown",
	[ERR_TIMEOUT] = "timeout",
	[ERR_GONE] = "gone",
	[ERR_NO_SPACE] = "no_space",
	[ERR_NO_MEMORY] = "out_of_memory",
};

const char *err_code_name(enum err_code code)
{
	if (code < ERR_INTERNAL || code > ERR_NO_MEMORY)
		return names[ERR_INTERNAL];
	return names[code];
}

static enum err_code code_of_errno(int errnum)
{
	switch (errnum) {
	case ENOENT:
	case ENOTDIR:
	case ESRCH:
		return ERR_NOT_FOUND;
	case EEXIST:
	case ENOTEMPTY:
		return ERR_EXISTS;
	case EACCES:
	case EPERM:
	case EROFS:
	case ELOOP:
		return ERR_DENIED;
	case EBUSY:
	case EAGAIN:
	case ETXTBSY:
		return ERR_BUSY;
	case EMFILE:
	case ENFILE:
		return ERR_LIMIT;
	case EFBIG:
	case ENAMETOOLONG:
		return ERR_TOO_LARGE;
	case ECONNREFUSED:
	case ENOTCONN:
	case ENETUNREACH:
	case EHOSTUNREACH:
		return ERR_UNAVAILABLE;
	case ECONNRESET:
	case EPIPE:
		return ERR_UNKNOWN;
	case ETIMEDOUT:
		return ERR_TIMEOUT;
	case ENOSPC:
	case EDQUOT:
		return ERR_NO_SPACE;
	case ENOMEM:
		return ERR_NO_MEMORY;
	default:
		return ERR_INTERNAL;
	}
}

static void store(err_t **err, err_t *fresh)
{
	err_free(*err);
	*err = fresh ? fresh : &oom;
}

/* Texts go into JSON and logs. A precision in a format cuts characters in two, and others' words may be anything. */
static void make_utf8(char *text)
{
	if (utf8_valid(text, strlen(text)))
		return;
	for (char *p = text; *p;) {
		size_t n = 1;

		while (n <= 4 && n <= strlen(p) && !utf8_valid(p, n))
			n++;
		if (n <= 4 && n <= strlen(p))
			p += n;
		else
			*p++ = '?';
	}
}

static err_t *make(enum err_code code, int errnum, const char *detail, char *text)
{
	err_t *e = calloc(1, sizeof *e);

	if (!e)
		return NULL;
	make_utf8(text);
	e->text = strdup(text);
	if (!e->text) {
		free(e);
		return NULL;
	}
	e->code = code;
	e->errnum = errnum;
	snprintf(e->detail, sizeof e->detail, "%s", detail ? detail : err_code_name(code));
	return e;
}

int err_set(err_t **err, enum err_code code, const char *detail, const char *fmt, ...)
{
	char text[ERR_TEXT_MAX];
	va_list ap;

	if (!err)
		return -1;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	store(err, make(code, 0, detail, text));
	return -1;
}

int err_sys(err_t **err, int errnum, const char *fmt, ...)
{
	char text[ERR_TEXT_MAX], why[128];
	va_list ap;
	int n;

	if (!err)
		return -1;
	va_start(ap, fmt);
	n = vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	if (n >= 0 && (size_t)n < sizeof text)
		snprintf(text + n, sizeof text - (size_t)n, ": %s", strerror_r(errnum, why, sizeof why));
	store(err, make(code_of_errno(errnum), errnum, NULL, text));
	return -1;
}

int err_wrap(err_t **err, const char *fmt, ...)
{
	char text[ERR_TEXT_MAX], *longer;
	va_list ap;
	int n;

	if (!err || !*err || *err == &oom)
		return -1;
	va_start(ap, fmt);
	n = vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	if (n < 0 || (size_t)n >= sizeof text)
		n = (int)strlen(text);
	snprintf(text + n, sizeof text - (size_t)n, ": %s", (*err)->text);
	make_utf8(text);
	longer = strdup(text);
	if (!longer)
		return -1;   /* the cause alone is better than nothing */
	free((*err)->text);
	(*err)->text = longer;
	return -1;
}

enum err_code err_code(const err_t *err)
{
	return err ? err->code : ERR_INTERNAL;
}

const char *err_detail(const err_t *err)
{
	return err ? err->detail : names[ERR_INTERNAL];
}

const char *err_message(const err_t *err)
{
	return err ? err->text : "unknown error";
}

int err_errno(const err_t *err)
{
	return err ? err->errnum : 0;
}

err_t *err_copy(const err_t *err)
{
	err_t *copy = NULL;

	if (err)
		err_set(&copy, err_code(err), err_detail(err), "%s", err_message(err));
	return copy;
}

void err_free(err_t *err)
{
	if (!err || err == &oom)
		return;
	free(err->text);
	free(err);
}

int err_move(err_t **to, err_t *from)
{
	if (to && !*to)
		*to = from;
	else
		err_free(from);
	return -1;
}
