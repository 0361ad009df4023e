#include "base/rand.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

void rand_bytes(void *p, size_t n)
{
	uint8_t *dst = p;

	while (n) {
		ssize_t got = getrandom(dst, n, 0);

		if (got < 0) {
			if (errno == EINTR)
				continue;
			abort();   /* no secret can be made: nothing may go on */
		}
		dst += got;
		n -= (size_t)got;
	}
}

void rand_hex(char *dst, size_t nbytes)
{
	static const char hex[] = "0123456789abcdef";

	/* The bytes lie in the upper half until their digits are written from the left: one system call. */
	rand_bytes(dst + nbytes, nbytes);
	for (size_t i = 0; i < nbytes; i++) {
		uint8_t b = (uint8_t)dst[nbytes + i];

		dst[2 * i] = hex[b >> 4];
		dst[2 * i + 1] = hex[b & 15];
	}
	dst[2 * nbytes] = '\0';
}
