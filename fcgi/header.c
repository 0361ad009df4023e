#include "fcgi/header.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"
#include "fcgi/limits.h"

static const struct {
	enum header_form form;
	const char *type;
} forms[] = {
	{ HEADER_JSON, "application/json" },
	{ HEADER_SSE, "text/event-stream" },
	{ HEADER_NDJSON, "application/x-ndjson" },
};

#define NFORMS (sizeof(forms) / sizeof(forms[0]))

const char *header_form_type(enum header_form f)
{
	for (size_t i = 0; i < NFORMS; i++)
		if (forms[i].form == f)
			return forms[i].type;
	return "application/octet-stream";
}

static const char *skip_blank(const char *p, const char *end)
{
	while (p < end && (*p == ' ' || *p == '\t'))
		p++;
	return p;
}

static const char *trim_blank(const char *p, const char *end)
{
	while (end > p && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	return end;
}

/* A qvalue in thousandths: "1", "0.85", at most three decimals, 0 to 1. -1 when it is none. */
static int parse_q(const char *p, const char *end)
{
	int v, scale = 100;

	if (p == end || (*p != '0' && *p != '1'))
		return -1;
	v = (*p++ - '0') * 1000;
	if (p == end)
		return v;
	if (*p++ != '.')
		return -1;
	for (; p < end; p++, scale /= 10) {
		if (!isdigit((unsigned char)*p) || scale == 0)
			return -1;
		v += (*p - '0') * scale;
	}
	return v <= 1000 ? v : -1;
}

/* The q of the parameters that follow a media range; 1000 when there is none, -1 when it is malformed. */
static int params_q(const char *p, const char *end)
{
	while (p < end) {
		const char *semi = memchr(p + 1, ';', (size_t)(end - p - 1)), *to = semi ? semi : end;
		const char *name = skip_blank(p + 1, to);

		if (to - name >= 2 && (name[0] == 'q' || name[0] == 'Q') && name[1] == '=')
			return parse_q(name + 2, trim_blank(name + 2, to));
		p = to;
	}
	return 1000;
}

struct range {
	enum header_form form;
	int q, specificity;   /* 3 type/subtype, 2 type/..., 1 anything */
	int at;               /* which range of the header it was */
};

static bool same(const char *p, size_t n, const char *word)
{
	return n == strlen(word) && strncasecmp(p, word, n) == 0;
}

/* Does this media range speak of form f, and how precisely? 0: no. */
static int range_covers(const char *p, size_t n, enum header_form f)
{
	const char *type = header_form_type(f);
	size_t major = strcspn(type, "/") + 1;

	if (same(p, n, "*/*"))
		return 1;
	if (n == major + 1 && p[n - 1] == '*' && strncasecmp(p, type, major) == 0)
		return 2;
	return same(p, n, type) ? 3 : 0;
}

/* The best range of the header that speaks of form f: a more specific one overrules a wildcard. q is -1 when none does. */
static struct range form_range(const char *accept, enum header_form f)
{
	struct range best = { .form = f, .q = -1, .specificity = 0 };
	const char *p = accept, *end = accept + strlen(accept);

	for (int seen = 0; p < end && seen < LIMIT_ACCEPT_RANGES; seen++) {
		const char *comma = memchr(p, ',', (size_t)(end - p)), *to = comma ? comma : end;
		const char *from = skip_blank(p, to), *semi = memchr(from, ';', (size_t)(to - from));
		const char *range_end = trim_blank(from, semi ? semi : to);
		int spec = range_covers(from, (size_t)(range_end - from), f), q = semi ? params_q(semi, to) : 1000;

		if (spec > best.specificity && q >= 0)
			best = (struct range){ .form = f, .q = q, .specificity = spec, .at = seen };
		p = to + 1;
	}
	return best;
}

/* Is a the better choice of the two? */
static bool beats(const struct range *a, const struct range *b, enum header_form fallback)
{
	if (a->q != b->q)
		return a->q > b->q;
	if (a->specificity != b->specificity)
		return a->specificity > b->specificity;
	return a->specificity == 3 ? a->at < b->at : a->form == fallback;
}

enum header_form header_accept(const char *accept, unsigned offered, enum header_form fallback)
{
	struct range best = { .form = fallback, .q = 0, .specificity = 0 };

	for (size_t i = 0; accept && i < NFORMS; i++) {
		struct range r = form_range(accept, forms[i].form);

		if ((offered & (1u << r.form)) && r.q > 0 && beats(&r, &best, fallback))
			best = r;
	}
	return best.form;
}

const char *header_bearer(const char *authorization)
{
	const char *p = authorization;

	if (!p || strncasecmp(p, "Bearer ", 7) != 0)
		return NULL;
	p += 7 + strspn(p + 7, " ");
	if (!*p)
		return NULL;
	for (const char *c = p; *c; c++)
		if (*c <= ' ' || (unsigned char)*c >= 0x7f)
			return NULL;
	return p;
}

bool header_is_json(const char *content_type)
{
	const char *p, *end, *semi;
	size_t n;

	if (!content_type || !*content_type)
		return true;
	end = content_type + strlen(content_type);
	p = skip_blank(content_type, end);
	semi = memchr(p, ';', (size_t)(end - p));
	n = (size_t)(trim_blank(p, semi ? semi : end) - p);
	if (same(p, n, "application/x-www-form-urlencoded"))
		return true;
	if (!same(p, n, "application/json"))
		return false;
	if (!semi)
		return true;
	p = skip_blank(semi + 1, end);
	end = trim_blank(p, end);
	n = (size_t)(end - p);
	return n == 0 || same(p, n, "charset=utf-8") || same(p, n, "charset=\"utf-8\"");
}

bool header_request_id_ok(const char *s)
{
	size_t n = strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-");

	return n > 0 && n <= LIMIT_REQUEST_ID && s[n] == '\0';
}
