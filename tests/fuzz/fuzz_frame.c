/* Frames: never reads past the input, never waits for what cannot come, and header and payload come back as they were. */
#include <stdlib.h>
#include <string.h>

#include "core/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const uint8_t *p, size_t n, const struct frame *f, size_t used)
{
	uint8_t header[FRAME_HEADER];

	if (used > n || used != FRAME_HEADER + (size_t)f->len || f->payload != p + FRAME_HEADER || f->nfds > FRAME_MAX_FDS || f->len > FRAME_MAX)
		abort();
	frame_header(header, f->type, f->nfds, f->len);
	if (memcmp(header, p, FRAME_HEADER) != 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	for (size_t at = 0; at < size;) {
		struct frame f;
		size_t used;
		int rc = frame_next(data + at, size - at, &f, &used);

		if (rc < 1)
			break;
		check(data + at, size - at, &f, used);
		if (frame_next(data + at, used - 1, &f, &used) != 0)
			abort();
		at += used;
	}
	return 0;
}
