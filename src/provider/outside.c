#include "provider/outside.h"

#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/log.h"

#define TEXT_MAX (8u << 10)
#define QUOTES "\"'`"

static bool is_break(char c)
{
	return !c || strchr(" \t\r\n" QUOTES "()[]{}<>,;=|", c) != NULL;
}

/* How much of what begins at p, behind `before`, is a path; 0: none. Between quotes a path may have any characters, elsewhere it ends where a word ends. */
static size_t path_at(const char *p, char before)
{
	size_t n = strspn(p, ".~");
	const char *end = before == '`' ? "`'" : before == '"' ? "\"" : before == '\'' ? "'" : "";
	const char *quote = strpbrk(p, end);

	if (p[n] != '/' || is_break(p[n + 1]) || (!is_break(before) && before != ':'))
		return 0;
	if (quote)
		return (size_t)(quote - p);
	while (!is_break(p[n]) && !(p[n] == ':' && (is_break(p[n + 1]) || p[n + 1] == '/')))
		n++;
	return n;
}

static bool take_out(const char *text, struct buf *to)
{
	char before = '\0';
	bool found = false;

	for (const char *p = text; *p;) {
		size_t n = path_at(p, before);

		if (n) {
			buf_adds(to, "…");
			found = true;
		} else {
			buf_addc(to, *p);
			n = 1;
		}
		before = p[n - 1];
		p += n;
	}
	return found;
}

err_t *outside_err(const char *instance_id, const err_t *err)
{
	cleanup_buf struct buf b = BUF_INIT(TEXT_MAX);
	err_t *told = NULL;

	if (!err || !take_out(err_message(err), &b))
		return err_copy(err);
	log_kv(LOG_WARN, "told_without_paths", "instance", instance_id, "err", err_message(err), NULL);
	err_set(&told, err_code(err), err_detail(err), "%s", buf_failed(&b) ? err_detail(err) : buf_str(&b));
	return told;
}

int outside_fail(const char *instance_id, err_t **err)
{
	err_t *told;

	if (!err || !*err)
		return -1;
	told = outside_err(instance_id, *err);
	err_free(*err);
	*err = told;
	return -1;
}
