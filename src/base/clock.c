#include "base/clock.h"

#include <stdio.h>
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
