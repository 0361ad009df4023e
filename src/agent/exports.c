#include "agent/exports.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/home.h"
#include "agent/rawcall.h"
#include "base/str.h"

#define DIR_NAME ".paddock"
#define LINES_MAX 4096                /* variables that are taken; more are left out */
#define VARIABLES_MAX (LINES_MAX + MSG_ENV_MAX + 16)
#define SLOTS 16384                   /* a power of two, more than twice the variables */

struct exports {
	char name[EXPORTS_NAME_SIZE];
	size_t n;                     /* entries of env */
	size_t left;                  /* bytes that the environment may still grow by */
	char *env[VARIABLES_MAX + 1];
	char *slot[SLOTS];            /* by name */
	char text[EXPORTS_BYTES_MAX + 1];
};

char *exports_variable(const char *scope)
{
	return str_dupf(EXPORTS_VARIABLE "=" HOME_PATH "/" DIR_NAME "/" EXPORTS_PREFIX "%s", scope);
}

struct exports *exports_new(const char *scope)
{
	struct exports *x = calloc(1, sizeof(*x));

	if (x && str_fmt(x->name, sizeof(x->name), EXPORTS_PREFIX "%s", scope) < 0) {
		free(x);
		return NULL;
	}
	return x;
}

char *exports_text(struct exports *x)
{
	return x->text;
}

/* ---- lines ---- */

static size_t name_len(const char *var)
{
	return (size_t)(strchrnul(var, '=') - var);
}

/* The name's place in the table: empty, or taken by the same name. */
static char **slot_of(struct exports *x, const char *var)
{
	size_t len = name_len(var);
	uint32_t h = 2166136261u;

	for (size_t i = 0; i < len; i++)
		h = (h ^ (uint8_t)var[i]) * 16777619u;
	for (;; h++) {
		char **s = &x->slot[h & (SLOTS - 1)];

		if (!*s || (name_len(*s) == len && memcmp(*s, var, len) == 0))
			return s;
	}
}

static void take(struct exports *x, char *var)
{
	char **s = slot_of(x, var);

	if (*s || x->n == VARIABLES_MAX)
		return;
	*s = x->env[x->n++] = var;
}

static bool is_name(const char *s, size_t n)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
	size_t i = 0;

	while (i < n && memchr(letters, s[i], sizeof(letters) - (i ? 1 : 11)))
		i++;
	return n > 0 && i == n && n <= EXPORTS_VARIABLE_MAX;
}

/* The rules are those of a user's own variables. */
static bool may_set(const char *name, size_t n)
{
	static const char *const never[] = { "USER", "HOME", "LD_PRELOAD", "LD_LIBRARY_PATH" };

	if (!is_name(name, n) || (n >= 8 && memcmp(name, "PADDOCK_", 8) == 0))
		return false;
	for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++)
		if (strlen(never[i]) == n && memcmp(never[i], name, n) == 0)
			return false;
	return true;
}

/* line is n bytes without a newline, the byte behind is ours to end it with. */
static void take_line(struct exports *x, char *line, size_t n)
{
	const char *eq = memchr(line, '=', n);

	if (!eq || n >= EXPORTS_LINE_MAX || n + 1 > x->left || memchr(line, 0, n) || !may_set(line, (size_t)(eq - line)))
		return;
	line[n] = 0;
	if (*slot_of(x, line))
		return;
	x->left -= n + 1;
	take(x, line);
}

/* From the last line to the first: the later one of a name wins. */
static void take_lines(struct exports *x, size_t n)
{
	size_t most = x->n + LINES_MAX;

	if (n && x->text[n - 1] == '\n')
		n--;
	while (n && x->n < most) {
		const char *newline = memrchr(x->text, '\n', n);
		size_t at = newline ? (size_t)(newline - x->text) + 1 : 0;

		take_line(x, x->text + at, n - at);
		n = newline ? at - 1 : 0;
	}
}

char *const *exports_merge(struct exports *x, size_t n, char *const *env, size_t own)
{
	size_t bytes = 0, all = 0;

	for (; env[all]; all++)
		bytes += strlen(env[all]) + 1;
	if (n > EXPORTS_BYTES_MAX || bytes >= EXPORTS_BYTES_MAX || all > VARIABLES_MAX - LINES_MAX)
		return env;
	x->left = EXPORTS_BYTES_MAX - bytes;
	for (size_t i = 0; i < own; i++)
		take(x, env[i]);
	take_lines(x, n);
	for (size_t i = own; i < all; i++)
		take(x, env[i]);
	return x->env;
}

/* ---- the file ---- */

/* The directory as the user may reach it: neither it nor what lies in it is taken by way of a link. */
static long open_dir(bool make)
{
	long home = rawcall(SYS_openat, AT_FDCWD, HOME_PATH, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);

	if (home < 0)
		return home;
	if (make)
		rawcall(SYS_mkdirat, home, DIR_NAME, 0700);
	long dir = rawcall(SYS_openat, home, DIR_NAME, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
	rawcall(SYS_close, home);
	return dir;
}

/* Neither a pipe nor a lease makes it wait: O_NONBLOCK. */
static long open_file(const char *name)
{
	static const int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
	long dir = open_dir(false);

	if (dir < 0)
		dir = open_dir(true);
	if (dir < 0)
		return dir;
	long fd = rawcall(SYS_openat, dir, name, flags | O_CREAT, 0600);
	rawcall(SYS_close, dir);
	return fd;
}

/* Its bytes; 0 when there is nothing that can be used. It may change meanwhile: what was read is what counts. */
static size_t read_all(long fd, char *dst)
{
	struct stat st;
	size_t n = 0;

	if (rawcall(SYS_fstat, fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > EXPORTS_BYTES_MAX)
		return 0;
	for (;;) {
		long r = rawcall(SYS_read, fd, dst + n, EXPORTS_BYTES_MAX + 1 - n);

		if (r == 0)
			return n;
		if (r < 0 || (n += (size_t)r) > EXPORTS_BYTES_MAX)
			return 0;
	}
}

char *const *exports_read(struct exports *x, char *const *env, size_t own)
{
	long fd = open_file(x->name);

	if (fd < 0)
		return env;
	size_t n = read_all(fd, x->text);
	rawcall(SYS_close, fd);
	return n ? exports_merge(x, n, env, own) : env;
}

void exports_remove(const char *name)
{
	long dir = open_dir(false);

	if (dir < 0)
		return;
	rawcall(SYS_unlinkat, dir, name, 0);
	rawcall(SYS_close, dir);
}
