#include "core/id.h"

#include <stdint.h>
#include <string.h>

#include "base/clock.h"
#include "base/rand.h"

static void format(const uint8_t u[16], char dst[ID_SIZE])
{
	static const char hex[] = "0123456789abcdef";
	char *p = dst;

	for (int i = 0; i < 16; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			*p++ = '-';
		*p++ = hex[u[i] >> 4];
		*p++ = hex[u[i] & 15];
	}
	*p = '\0';
}

static void stamp(uint8_t u[16], unsigned version)
{
	u[6] = (uint8_t)((u[6] & 0x0f) | version << 4);
	u[8] = (uint8_t)((u[8] & 0x3f) | 0x80);
}

/* The 12 bits after the time count within a millisecond, so that the ids of one process are in order of their making. */
void id_v7(char dst[ID_SIZE])
{
	static int64_t last_ms;
	static unsigned count;
	int64_t now = clock_wall_ms();
	uint8_t u[16];

	rand_bytes(u, sizeof u);
	if (now > last_ms) {
		last_ms = now;
		count = u[7];   /* leaves room to count */
	} else if (++count > 0xfff) {
		last_ms++;
		count = u[7];
	}
	for (int i = 0; i < 6; i++)
		u[i] = (uint8_t)(last_ms >> (40 - 8 * i));
	u[6] = (uint8_t)(count >> 8);
	u[7] = (uint8_t)count;
	stamp(u, 7);
	format(u, dst);
}

void id_v4(char dst[ID_SIZE])
{
	uint8_t u[16];

	rand_bytes(u, sizeof u);
	stamp(u, 4);
	format(u, dst);
}

bool id_valid(const char *s)
{
	static const char shape[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";

	for (size_t i = 0; i < sizeof shape; i++) {
		bool hex = (s[i] >= '0' && s[i] <= '9') || (s[i] >= 'a' && s[i] <= 'f');

		if (shape[i] == 'x' ? !hex : s[i] != shape[i])
			return false;
	}
	return true;
}
