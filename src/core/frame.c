#include "core/frame.h"

static void put_u16(uint8_t *p, uint16_t v)
{
	p[0] = (uint8_t)v;
	p[1] = (uint8_t)(v >> 8);
}

static uint16_t get_u16(const uint8_t *p)
{
	return (uint16_t)(p[0] | p[1] << 8);
}

static uint32_t get_u32(const uint8_t *p)
{
	return (uint32_t)get_u16(p) | (uint32_t)get_u16(p + 2) << 16;
}

int frame_next(const void *p, size_t n, struct frame *ret, size_t *used)
{
	const uint8_t *b = p;
	uint32_t len;
	uint16_t nfds;

	if (n < FRAME_HEADER)
		return 0;
	len = get_u32(b);
	nfds = get_u16(b + 6);
	if (len > FRAME_MAX || b[5] != 0 || nfds > FRAME_MAX_FDS)
		return -1;
	if (n - FRAME_HEADER < len)
		return 0;
	*ret = (struct frame){ .type = b[4], .nfds = nfds, .payload = b + FRAME_HEADER, .len = len };
	*used = FRAME_HEADER + (size_t)len;
	return 1;
}

void frame_header(uint8_t dst[FRAME_HEADER], uint8_t type, uint16_t nfds, uint32_t len)
{
	put_u16(dst, (uint16_t)len);
	put_u16(dst + 2, (uint16_t)(len >> 16));
	dst[4] = type;
	dst[5] = 0;
	put_u16(dst + 6, nfds);
}
