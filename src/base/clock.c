#include "base/clock.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static int64_t now_us(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

int64_t clock_boot_us(void)
{
	return now_us(CLOCK_BOOTTIME);
}

int64_t clock_boot_ms(void)
{
	return clock_boot_us() / 1000;
}

int64_t clock_wall_us(void)
{
	return now_us(CLOCK_REALTIME);
}

int64_t clock_wall_ms(void)
{
	return clock_wall_us() / 1000;
}

void clock_rfc3339(int64_t wall_ms, char dst[CLOCK_RFC3339_SIZE])
{
	int64_t ms = wall_ms % 1000;
	time_t s;
	struct tm tm;
	size_t n;

	if (ms < 0)
		ms += 1000;
	s = (time_t)((wall_ms - ms) / 1000);
	if (!gmtime_r(&s, &tm) || tm.tm_year > 9999 - 1900 || tm.tm_year < -1900)
		s = 0, ms = 0, gmtime_r(&s, &tm);
	n = strftime(dst, CLOCK_RFC3339_SIZE, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(dst + n, CLOCK_RFC3339_SIZE - n, ".%03dZ", (int)ms);
}

/* n digits of *s, from min to max; *s then stands behind them. */
static bool digits(const char **s, int n, int min, int max, int *ret)
{
	int v = 0;

	for (int i = 0; i < n; i++, (*s)++) {
		if (**s < '0' || **s > '9')
			return false;
		v = v * 10 + (**s - '0');
	}
	*ret = v;
	return v >= min && v <= max;
}

static bool one_of(const char **s, const char *chars)
{
	return **s && strchr(chars, *(*s)++);
}

static bool parse_date(const char **s, struct tm *ret)
{
	struct tm as_is;

	if (!digits(s, 4, 1970, 9999, &ret->tm_year) || !one_of(s, "-") || !digits(s, 2, 1, 12, &ret->tm_mon) || !one_of(s, "-") ||
			!digits(s, 2, 1, 31, &ret->tm_mday))
		return false;
	ret->tm_year -= 1900;
	ret->tm_mon--;
	as_is = *ret;
	(void)timegm(&as_is);
	return as_is.tm_mday == ret->tm_mday;   /* else the month has no such day */
}

static bool parse_fraction(const char **s, int *ret_ms)
{
	int scale = 100;

	*ret_ms = 0;
	if (**s != '.')
		return true;
	for ((*s)++; **s >= '0' && **s <= '9'; (*s)++, scale /= 10)
		*ret_ms += (**s - '0') * scale;
	return scale < 100;
}

static bool parse_zone(const char **s, int *ret_minutes)
{
	char sign = **s;
	int h, m;

	*ret_minutes = 0;
	if (!one_of(s, "Zz+-"))
		return false;
	if (sign == 'Z' || sign == 'z')
		return true;
	if (!digits(s, 2, 0, 23, &h) || !one_of(s, ":") || !digits(s, 2, 0, 59, &m))
		return false;
	*ret_minutes = (sign == '-' ? -1 : 1) * (h * 60 + m);
	return true;
}

int clock_parse(const char *s, int64_t *ret)
{
	struct tm tm = { 0 };
	int ms = 0, zone = 0;

	if (!parse_date(&s, &tm))
		return -1;
	if (*s && (!one_of(&s, "Tt") || !digits(&s, 2, 0, 23, &tm.tm_hour) || !one_of(&s, ":") || !digits(&s, 2, 0, 59, &tm.tm_min) || !one_of(&s, ":") ||
			!digits(&s, 2, 0, 59, &tm.tm_sec) || !parse_fraction(&s, &ms) || !parse_zone(&s, &zone) || *s))
		return -1;
	*ret = ((int64_t)timegm(&tm) - zone * 60) * 1000 + ms;
	return 0;
}
