/* frame.h - the frame codec between executor and agent (docs/agent-protocol.md). Pure functions over bytes; libc only.
 *
 * A frame is: u32 length of the payload (little endian, at most FRAME_MAX) · u8 type · u8 flags (0) · u16 number of descriptors that
 * travel with it · payload. The payload codecs for each type are in frame_msg.h. */
#ifndef PADDOCK_CORE_FRAME_H
#define PADDOCK_CORE_FRAME_H

#include <stddef.h>
#include <stdint.h>

#define FRAME_HEADER 8
#define FRAME_MAX (4u << 20)
#define FRAME_MAX_FDS 2

struct frame {
	uint8_t type;
	uint16_t nfds;
	const uint8_t *payload;   /* borrowed from the input */
	uint32_t len;
};

/* Looks at p[0..n). 1: *ret holds a frame, *used its size. 0: more bytes needed. -1: not a frame (too long, bad flags, too many descriptors). */
int frame_next(const void *p, size_t n, struct frame *ret, size_t *used);
void frame_header(uint8_t dst[FRAME_HEADER], uint8_t type, uint16_t nfds, uint32_t len);

#endif
