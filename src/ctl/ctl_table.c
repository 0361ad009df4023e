#include "ctl/ctl_table.h"

#include <stdio.h>
#include <string.h>

#define BEYOND_BMP 0x10000u

static void put_cell(const char *s, int width)
{
	int len = (int)strlen(s), n = width > 0 && len > width ? width : len;

	for (int i = 0; i < n; i++)
		putchar((unsigned char)s[i] < 0x20 || (unsigned char)s[i] > 0x7e ? '?' : i == n - 1 && n < len ? '~' : s[i]);
	if (width > n)
		printf("%*s", width - n, "");
}

/* The text of a cell, in `time` where it is one; NULL for nothing. */
static const char *text_of(const struct db_result *r, int row, const struct ctl_column *c, char time[CLOCK_RFC3339_SIZE])
{
	if (c->kind == CTL_TIME)
		return db_time(r, row, c->col, time) ? time : NULL;
	return db_str(r, row, c->col);
}

static void put_row(const struct db_result *r, int row, const struct ctl_column *columns, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char time[CLOCK_RFC3339_SIZE];
		const char *s = text_of(r, row, &columns[i], time);

		if (i > 0)
			putchar(' ');
		put_cell(s && *s ? s : "-", columns[i].width);
	}
	putchar('\n');
}

static unsigned point_of(const unsigned char **p)
{
	unsigned c = *(*p)++;
	int more = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : c >= 0xc0 ? 1 : 0;

	c &= more == 3 ? 0x07 : more == 2 ? 0x0f : more == 1 ? 0x1f : 0xff;
	for (; more > 0 && (**p & 0xc0) == 0x80; more--)
		c = c << 6 | (*(*p)++ & 0x3f);
	return c;
}

/* JSON text, with \u for what is not printable ASCII: only texts in it have such. */
static void put_escaped(const char *text)
{
	for (const unsigned char *p = (const unsigned char *)text; *p;) {
		unsigned c = point_of(&p);

		if (c < 0x7f)
			putchar((int)c);
		else if (c < BEYOND_BMP)
			printf("\\u%04x", c);
		else
			printf("\\u%04x\\u%04x", 0xd800 + ((c - BEYOND_BMP) >> 10), 0xdc00 + ((c - BEYOND_BMP) & 0x3ff));
	}
	putchar('\n');
}

int ctl_table_json(json_t *v)
{
	const char *text = v ? json_text(v, NULL) : NULL;

	if (!text) {
		fprintf(stderr, "paddockctl: no memory\n");
		return 1;
	}
	put_escaped(text);
	return 0;
}

static int add_cell(json_t *o, const struct db_result *r, int row, const struct ctl_column *c)
{
	char time[CLOCK_RFC3339_SIZE];

	if (c->kind == CTL_NUMBER)
		return db_null(r, row, c->col) ? json_add_null(o, c->name) : json_add_i64(o, c->name, db_i64(r, row, c->col));
	return json_add_str(o, c->name, text_of(r, row, c, time));
}

/* 0, or 1 after saying on standard error what failed. */
static int put_object(const struct db_result *r, int row, const struct ctl_column *columns, size_t n)
{
	cleanup_json json_t *o = json_object_new_object();
	int bad = o ? 0 : -1;

	for (size_t i = 0; !bad && i < n; i++)
		bad = add_cell(o, r, row, &columns[i]);
	return ctl_table_json(bad ? NULL : o);
}

static void put_heading(const struct ctl_column *columns, size_t n)
{
	for (size_t i = 0; i < n; i++)
		printf("%s%-*s", i > 0 ? " " : "", columns[i].width, columns[i].name);
	putchar('\n');
}

int ctl_table_print(const struct db_result *r, const struct ctl_column *columns, size_t n, bool json)
{
	int bad = 0;

	if (!json)
		put_heading(columns, n);
	for (int row = 0; !bad && row < db_rows(r); row++) {
		if (json)
			bad = put_object(r, row, columns, n);
		else
			put_row(r, row, columns, n);
	}
	return bad;
}
