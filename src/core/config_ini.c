#include "core/config_ini.h"

#include <ctype.h>
#include <fcntl.h>
#include <iniparser/iniparser.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/str.h"
#include "core/config_table.h"

#define FILE_MAX ((size_t)256 * 1024)
/* iniparser's own limit is 1024 with newline and NUL. */
#define LINE_MAX_BYTES 1000

struct pass {
	const char *path;
	int line;
	char section[64];
	bool *seen;
};

static int bad_line(const struct pass *p, err_t **err, const char *what, const char *name)
{
	return err_set(err, ERR_REFUSED, "bad_config", "%s line %d: %s%s", p->path, p->line, what, name);
}

/* Cuts white space at both ends, in place. */
static char *strip(char *s)
{
	size_t n;

	while (isspace((unsigned char)*s))
		s++;
	n = strlen(s);
	while (n && isspace((unsigned char)s[n - 1]))
		s[--n] = '\0';
	return s;
}

static void lower(char *s)
{
	for (; *s; s++)
		*s = (char)tolower((unsigned char)*s);
}

static bool section_known(const char *name)
{
	for (size_t i = 0; i < config_table_len; i++) {
		if (str_eq(config_table[i].section, name))
			return true;
	}
	return false;
}

static int take_section(struct pass *p, char *s, err_t **err)
{
	char *end = strchr(s, ']');

	if (!end)
		return bad_line(p, err, "no ] after the section's name", "");
	*end = '\0';
	s = strip(s + 1);
	lower(s);
	if (!section_known(s))
		return bad_line(p, err, "unknown section ", s);
	return str_copy(p->section, sizeof p->section, s);
}

static int take_key(struct pass *p, char *s, err_t **err)
{
	char *eq = strchr(s, '=');

	if (!eq)
		return bad_line(p, err, "neither [section] nor key = value", "");
	*eq = '\0';
	s = strip(s);
	lower(s);
	if (!p->section[0])
		return bad_line(p, err, "a key before the first [section]: ", s);
	for (size_t i = 0; i < config_table_len; i++) {
		if (!str_eq(config_table[i].section, p->section) || !str_eq(config_table[i].key, s))
			continue;
		if (p->seen[i])
			return bad_line(p, err, "named for the second time: ", s);
		p->seen[i] = true;
		return 0;
	}
	return err_set(err, ERR_REFUSED, "bad_config", "%s line %d: unknown key %s in [%s]", p->path, p->line, s, p->section);
}

static int take_line(struct pass *p, char *s, err_t **err)
{
	if (strlen(s) > LINE_MAX_BYTES)
		return bad_line(p, err, "line too long", "");
	s = strip(s);
	if (!*s || *s == '#' || *s == ';')
		return 0;
	if (s[strlen(s) - 1] == '\\')
		return bad_line(p, err, "a value cannot go on in the next line", "");
	return *s == '[' ? take_section(p, s, err) : take_key(p, s, err);
}

static int check_lines(const char *path, err_t **err)
{
	cleanup_free char *text = NULL;
	cleanup_free bool *seen = calloc(config_table_len, sizeof *seen);
	struct pass p = { .path = path, .seen = seen };
	char *rest, *line;
	size_t len;

	if (!seen)
		return err_set(err, ERR_NO_MEMORY, NULL, "out of memory");
	if (io_read_file(AT_FDCWD, path, FILE_MAX, &text, &len, err) < 0)
		return err_wrap(err, "configuration");
	if (memchr(text, '\0', len))
		return err_set(err, ERR_REFUSED, "bad_config", "%s: the file holds a NUL byte", path);
	for (rest = text; (line = strsep(&rest, "\n"));) {
		p.line++;
		if (take_line(&p, line, err) < 0)
			return -1;
	}
	return 0;
}

static int quiet(const char *fmt, ...)
{
	(void)fmt;
	return 0;
}

static int copy_values(const dictionary *d, char **values, err_t **err)
{
	for (size_t i = 0; i < config_table_len; i++) {
		char name[128];
		const char *v;

		if (str_fmt(name, sizeof name, "%s:%s", config_table[i].section, config_table[i].key) < 0)
			continue;
		v = iniparser_getstring(d, name, NULL);
		if (!v)
			continue;
		values[i] = str_dup(v);
		if (!values[i])
			return err_set(err, ERR_NO_MEMORY, NULL, "out of memory");
	}
	return 0;
}

int config_ini_load(const char *path, char **values, err_t **err)
{
	dictionary *d;
	int rc;

	if (check_lines(path, err) < 0)
		return -1;
	iniparser_set_error_callback(quiet);
	d = iniparser_load(path);
	if (!d)
		return err_set(err, ERR_REFUSED, "bad_config", "%s: not a valid ini file", path);
	rc = copy_values(d, values, err);
	iniparser_freedict(d);
	return rc;
}
