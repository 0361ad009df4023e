#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "base/utf8.h"

static const char *proc_name = "-";
static enum log_level lowest = LOG_INFO;
static int log_fd = 2;
static unsigned long dropped;   /* lines, since one was taken */
static bool holding;
static char held[LOG_LINE_MAX];   /* whole lines; a pipe takes them at once or not at all */
static size_t held_len;

static const char *const level_names[] = { "debug", "info", "warn", "error" };

/* A line that is being made; room is always left for "...\n". */
struct line {
	char text[LOG_LINE_MAX];
	size_t len;
	bool cut;
};

#define LINE_ROOM (LOG_LINE_MAX - 5)   /* dots, a quote, the newline */

static void prepare(int fd)
{
	struct stat st;
	int saved = errno, flags = fcntl(fd, F_GETFL);

	if (fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode) && flags >= 0 && !(flags & O_NONBLOCK))
		(void)fcntl(fd, F_SETFL, flags | O_NONBLOCK);
	errno = saved;
}

void log_init(const char *proc, enum log_level min)
{
	proc_name = proc;
	lowest = min;
	prepare(log_fd);
}

void log_set_fd(int fd)
{
	log_fd = fd;
	prepare(fd);
}

int log_level_parse(const char *s, enum log_level *ret)
{
	for (int i = LOG_DEBUG; i <= LOG_ERROR; i++) {
		if (str_eq(s, level_names[i])) {
			*ret = (enum log_level)i;
			return 0;
		}
	}
	return -1;
}

static void add(struct line *l, const char *s, size_t n)
{
	if (l->cut || n > LINE_ROOM - l->len) {
		l->cut = true;
		return;
	}
	memcpy(l->text + l->len, s, n);
	l->len += n;
}

static void adds(struct line *l, const char *s)
{
	add(l, s, strlen(s));
}

static bool is_plain(uint8_t c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c && strchr("-_./:@+,%~", c));
}

static bool all_plain(const char *s)
{
	if (!*s)
		return false;
	for (; *s; s++) {
		if (!is_plain((uint8_t)*s))
			return false;
	}
	return true;
}

/* The bytes (1-4) of the printable character at s, or 0: a control (C0, DEL, C1, line and paragraph separators) or no UTF-8. */
static size_t printable(const uint8_t *s)
{
	size_t n = *s < 0x80 ? 1 : *s < 0xe0 ? 2 : *s < 0xf0 ? 3 : 4;

	if (*s < 0x20 || *s == 0x7f)
		return 0;
	for (size_t i = 1; i < n; i++) {
		if (!s[i])
			return 0;
	}
	if (!utf8_valid(s, n))
		return 0;
	if (s[0] == 0xc2 && s[1] < 0xa0)
		return 0;
	/* U+2028-202E, U+2066-2069: they break or reorder lines where a terminal shows them. */
	if (s[0] == 0xe2 && s[1] == 0x80 && s[2] >= 0xa8 && s[2] <= 0xae)
		return 0;
	if (s[0] == 0xe2 && s[1] == 0x81 && s[2] >= 0xa6 && s[2] <= 0xa9)
		return 0;
	return n;
}

static void add_quoted(struct line *l, const char *value)
{
	static const char hex[] = "0123456789abcdef";
	const uint8_t *s = (const uint8_t *)value;

	add(l, "\"", 1);
	while (*s && !l->cut) {
		size_t n = printable(s);

		if (!n) {
			char esc[4] = { '\\', 'x', hex[*s >> 4], hex[*s & 15] };
			add(l, esc, sizeof esc);
			n = 1;
		} else if (*s == '"' || *s == '\\') {
			char esc[2] = { '\\', (char)*s };
			add(l, esc, sizeof esc);
		} else {
			add(l, (const char *)s, n);
		}
		s += n;
	}
	/* A cut value is closed as well, so that the line still parses; finish() has the room. */
	if (!l->cut)
		add(l, "\"", 1);
	if (l->cut) {
		memcpy(l->text + l->len, "...\"", 4);
		l->len += 4;
	}
}

static void add_pair(struct line *l, const char *key, const char *value)
{
	size_t before = l->len;

	if (l->cut)
		return;
	if (l->len)
		add(l, " ", 1);
	adds(l, key);
	add(l, "=", 1);
	if (l->cut) {
		l->len = before;   /* no half keys */
		return;
	}
	if (!value)
		add(l, "-", 1);
	else if (all_plain(value) && strlen(value) < LINE_ROOM - l->len)
		adds(l, value);
	else
		add_quoted(l, value);
}

/* False when the reader takes nothing; it is waited for once, not again for each of many lines. */
static bool may_write(void)
{
	struct pollfd p = { .fd = log_fd, .events = POLLOUT };

	return poll(&p, 1, dropped ? 0 : LOG_WAIT_MS) > 0 && (p.revents & POLLOUT);
}

static unsigned long lines_in(const char *p, size_t n)
{
	unsigned long lines = 0;

	for (size_t i = 0; i < n; i++)
		lines += p[i] == '\n';
	return lines;
}

static void write_out(const char *p, size_t len)
{
	int saved = errno;
	size_t done = 0;

	while (done < len) {
		ssize_t n = write(log_fd, p + done, len - done);

		if (n < 0 && (errno == EINTR || (errno == EAGAIN && may_write())))
			continue;
		if (n < 0 && errno == EAGAIN)
			dropped += lines_in(p + done, len - done);
		if (n <= 0)
			break;   /* nowhere left to complain */
		done += (size_t)n;
	}
	errno = saved;
}

void log_hold(void)
{
	holding = true;
}

void log_flush(void)
{
	size_t n = held_len;

	held_len = 0;
	if (n)
		write_out(held, n);
}

static void put(struct line *l, enum log_level lvl)
{
	l->text[l->len++] = '\n';
	if (!holding || lvl > LOG_INFO || held_len + l->len > sizeof held)
		log_flush();
	if (!holding || lvl > LOG_INFO) {
		write_out(l->text, l->len);
		return;
	}
	memcpy(held + held_len, l->text, l->len);
	held_len += l->len;
}

static void begin(struct line *l, enum log_level lvl, const char *event)
{
	char ts[CLOCK_RFC3339_SIZE];

	l->len = 0;
	l->cut = false;
	clock_rfc3339(clock_wall_ms(), ts);
	add_pair(l, "ts", ts);
	add_pair(l, "lvl", level_names[lvl]);
	add_pair(l, "proc", proc_name);
	add_pair(l, "event", event);
}

static void tell_dropped(void)
{
	unsigned long n;
	struct line l;
	char num[24];

	if (!dropped || !may_write())
		return;
	log_flush();
	n = dropped;
	dropped = 0;
	(void)str_fmt(num, sizeof num, "%lu", n);
	begin(&l, LOG_WARN, "log_lines_dropped");
	add_pair(&l, "lines", num);
	put(&l, LOG_WARN);
	if (dropped)
		dropped = n;   /* that line itself */
}

void log_kv(enum log_level lvl, const char *event, ...)
{
	struct line l;
	const char *key;
	va_list ap;

	if (lvl < lowest || lvl > LOG_ERROR)
		return;
	tell_dropped();
	begin(&l, lvl, event);
	va_start(ap, event);
	while ((key = va_arg(ap, const char *)))
		add_pair(&l, key, va_arg(ap, const char *));
	va_end(ap);
	put(&l, lvl);
}
