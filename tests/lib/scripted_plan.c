#include "scripted_plan.h"

#include <ctype.h>
#include <stdlib.h>
#include <signal.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"

#define STEPS_MAX 256
#define WORDS_MAX 64

/* --- the log's spelling --- */

void pct_encode(struct buf *b, const void *p, size_t n)
{
	const unsigned char *s = p;

	for (size_t i = 0; i < n; i++)
		if (isalnum(s[i]) || (s[i] && strchr("-_./=+@$'", s[i])))
			buf_addc(b, (char)s[i]);
		else
			buf_addf(b, "%%%02x", s[i]);
}

static int hex(char c)
{
	return c <= '9' ? c - '0' : (c | 32) - 'a' + 10;
}

char *pct_decode(const char *text, size_t n, size_t *ret)
{
	char *dst = malloc(n + 1);
	size_t at = 0;

	if (!dst)
		abort();
	for (size_t i = 0; i < n; i++) {
		if (text[i] == '%' && i + 2 < n && isxdigit((unsigned char)text[i + 1]) && isxdigit((unsigned char)text[i + 2])) {
			dst[at++] = (char)(hex(text[i + 1]) << 4 | hex(text[i + 2]));
			i += 2;
		} else {
			dst[at++] = text[i];
		}
	}
	dst[at] = '\0';
	if (ret)
		*ret = at;
	return dst;
}

static void add(struct plan *p, enum step_kind kind, const void *text, size_t len, int64_t n)
{
	if (p->n == STEPS_MAX)
		abort();
	if (!p->steps && !(p->steps = calloc(STEPS_MAX, sizeof(*p->steps))))
		abort();
	struct step *s = &p->steps[p->n++];
	*s = (struct step){ .kind = kind, .text = malloc(len + 1), .len = len, .n = n };
	if (!s->text)
		abort();
	memcpy(s->text, text, len);
	s->text[len] = '\0';
}

void plan_free(struct plan *p)
{
	for (size_t i = 0; i < p->n; i++)
		free(p->steps[i].text);
	free(p->steps);
	*p = (struct plan){ 0 };
}

void plan_encode(const struct plan *p, struct buf *b)
{
	for (size_t i = 0; i < p->n; i++) {
		buf_addf(b, "%s%c:%lld:", i ? "," : "", p->steps[i].kind, (long long)p->steps[i].n);
		pct_encode(b, p->steps[i].text, p->steps[i].len);
	}
}

bool plan_decode(struct plan *p, const char *text)
{
	*p = (struct plan){ 0 };
	while (*text) {
		char *rest;
		long long n = strtoll(text + 2, &rest, 10);

		if (text[1] != ':' || *rest != ':')
			return false;
		size_t len = strcspn(++rest, ","), plain;
		cleanup_free char *bytes = pct_decode(rest, len, &plain);
		add(p, (enum step_kind)text[0], bytes, plain, n);
		text = rest + len + (rest[len] == ',');
	}
	return p->n > 0;
}

/* --- the language --- */

struct words {
	char *w[WORDS_MAX];
	size_t n;
	bool to_err;
};

static void words_free(struct words *w)
{
	for (size_t i = 0; i < w->n; i++)
		free(w->w[i]);
	w->n = 0;
	w->to_err = false;
}

static void words_add(struct words *w, struct buf *word)
{
	if (str_eq(buf_str(word), ">&2"))
		w->to_err = true;
	else if (w->n < WORDS_MAX)
		w->w[w->n++] = str_dupn(buf_str(word), word->len);
	buf_reset(word);
}

/* One statement from *text on; false at the end. */
static bool words_next(const char **text, struct words *w)
{
	cleanup_buf struct buf word = BUF_INIT(2 << 20);
	bool any = false;
	char quote = 0;
	const char *s = *text;

	if (!*s)
		return false;
	for (; *s && (quote || (*s != ';' && *s != '\n')); s++) {
		if (quote ? *s == quote : *s == '\'' || *s == '"') {
			quote = quote ? 0 : *s;
			any = true;
		} else if (!quote && isspace((unsigned char)*s)) {
			if (any)
				words_add(w, &word);
			any = false;
		} else {
			buf_addc(&word, *s);
			any = true;
		}
	}
	if (any)
		words_add(w, &word);
	*text = *s ? s + 1 : s;
	return true;
}

int64_t plan_seconds(const char *text)
{
	return (int64_t)(strtod(text, NULL) * 1e6 + 0.5);
}

static const char *env_get(char *const *env, const char *name)
{
	const char *value = NULL;
	size_t n = strlen(name);

	for (; env && *env; env++)
		if (strncmp(*env, name, n) == 0 && (*env)[n] == '=')
			value = *env + n + 1;
	return value;
}

static void unescape(struct buf *b, const char *s)
{
	for (; *s; s++) {
		if (*s == '\\' && s[1] == 'n') {
			buf_addc(b, '\n');
			s++;
		} else {
			buf_addc(b, *s);
		}
	}
}

struct compiler {
	struct plan *p;
	char *const *env;
	const char *cwd;
	int64_t status;      /* of the last statement */
	bool over;
};

static void print(struct compiler *c, const struct words *w, struct buf *b)
{
	if (b->len)
		add(c->p, w->to_err ? STEP_ERR : STEP_OUT, buf_str(b), b->len, 0);
}

static bool say(struct compiler *c, const struct words *w)
{
	cleanup_buf struct buf b = BUF_INIT(4 << 20);
	const char *v;

	if (str_eq(w->w[0], "echo")) {
		for (size_t i = 1; i < w->n; i++)
			buf_addf(&b, "%s%s", i > 1 ? " " : "", w->w[i]);
		buf_addc(&b, '\n');
	} else if (str_eq(w->w[0], "printf") && w->n == 2) {
		unescape(&b, w->w[1]);
	} else if (str_eq(w->w[0], "pwd")) {
		buf_addf(&b, "%s\n", c->cwd);
	} else if (str_eq(w->w[0], "env") && w->n == 1) {
		for (char *const *e = c->env; e && *e; e++)
			buf_addf(&b, "%s\n", *e);
	} else if (str_eq(w->w[0], "printenv") && w->n == 2) {
		v = env_get(c->env, w->w[1]);
		c->status = !v;
		if (v)
			buf_addf(&b, "%s\n", v);
	} else {
		return false;
	}
	print(c, w, &b);
	return true;
}

static int64_t signo_of(const char *word)
{
	static const struct { const char *name; int no; } names[] = { { "KILL", SIGKILL }, { "TERM", SIGTERM }, { "INT", SIGINT }, { "HUP", SIGHUP } };

	word += *word == '-';
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (str_eq(word, names[i].name))
			return names[i].no;
	return strtoll(word, NULL, 10);
}

static bool act(struct compiler *c, const struct words *w)
{
	const char *verb = w->w[0], *arg = w->n > 1 ? w->w[1] : "";
	struct plan *p = c->p;

	if (str_eq(verb, "sleep"))
		add(p, STEP_SLEEP, arg, strlen(arg), plan_seconds(arg));
	else if (str_eq(verb, "cat") && w->n == 1)
		add(p, STEP_CAT, "", 0, 0);
	else if (str_eq(verb, "head") && w->n == 4)
		add(p, STEP_ZEROS, "", 0, strtoll(w->w[2], NULL, 10));
	else if (str_eq(verb, "share"))
		add(p, STEP_SHARE, arg, strlen(arg), 0);
	else if (str_eq(verb, "bg"))
		add(p, STEP_BG, arg, strlen(arg), plan_seconds(arg));
	else if (str_eq(verb, "alive"))
		add(p, STEP_ALIVE, arg, strlen(arg), 0);
	else if (str_eq(verb, "trap"))
		add(p, STEP_DEAF, "", 0, 0);
	else if (str_eq(verb, "kill") && (c->over = true))
		add(p, STEP_SIGNAL, "", 0, signo_of(arg));
	else
		return false;
	return true;
}

static bool ends(struct compiler *c, const struct words *w)
{
	const char *verb = w->w[0];

	if (str_eq(verb, "exit")) {
		c->over = true;
		if (w->n > 1)
			c->status = strtoll(w->w[1], NULL, 10) & 255;
	} else if (str_eq(verb, "false")) {
		c->status = 1;
	} else if (!str_eq(verb, "true") && !str_eq(verb, ":")) {
		return false;
	}
	return true;
}

static bool is_files(struct compiler *c, const struct words *w)
{
	static const struct { const char *verb; size_t names; enum step_kind kind; } known[] = {
		{ "tee", 1, STEP_FILE_WRITE }, { "cat", 1, STEP_FILE_READ }, { "stat", 1, STEP_FILE_SIZE }, { "ls", 0, STEP_FILE_LIST }, { "rm", 1, STEP_FILE_REMOVE },
		{ "mv", 2, STEP_FILE_RENAME },
	};
	cleanup_buf struct buf b = BUF_INIT(16384);

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		size_t names = known[i].names;

		if (!str_eq(w->w[0], known[i].verb) || w->n < names + 1)
			continue;
		buf_addc(&b, str_prefix(c->cwd, "/home/user/workspace") ? 'w' : 'h');
		buf_adds(&b, names ? w->w[w->n - names] : "");
		if (names == 2)   /* a name holds no NUL: it parts the two */
			buf_add(&b, "", 1), buf_adds(&b, w->w[w->n - 1]);
		add(c->p, known[i].kind, buf_str(&b), b.len, 0);
		return true;
	}
	return false;
}

static bool statement(struct compiler *c, const struct words *w)
{
	c->status = 0;
	return say(c, w) || act(c, w) || is_files(c, w);
}

static void compile(struct compiler *c, const char *text)
{
	struct words w = { .n = 0 };

	while (!c->over && words_next(&text, &w)) {
		if (w.n && !ends(c, &w) && !statement(c, &w)) {
			cleanup_free char *what = str_dupf("bash: %s: command not found\n", w.w[0]);
			add(c->p, STEP_ERR, what, strlen(what), 0);
			c->status = 127;
		}
		words_free(&w);
	}
	words_free(&w);
}

bool plan_make(struct plan *p, const struct exec_spec *s, char *const *env)
{
	struct compiler c = { .p = p, .env = env, .cwd = s->cwd };
	struct words w = { .n = 0 };
	bool known = true;

	*p = (struct plan){ 0 };
	if (s->command) {
		compile(&c, s->command);
	} else if (strv_len(s->argv) == 3 && str_eq(s->argv[1], "-c")) {
		compile(&c, s->argv[2]);
	} else {
		while (w.n < WORDS_MAX && s->argv[w.n])
			w.w[w.n] = str_dup(s->argv[w.n]), w.n++;
		known = ends(&c, &w) || statement(&c, &w);
		words_free(&w);
	}
	if (known && (p->n == 0 || p->steps[p->n - 1].kind != STEP_SIGNAL))
		add(p, STEP_EXIT, "", 0, c.status);
	return known;
}
