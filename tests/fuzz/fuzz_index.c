/* An index of any bytes over two real files: a reader comes to its end, and no piece is outside of what it claims. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "executor/output.h"
#include "executor/reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static int scratch_dir(void)
{
	static char path[] = "/tmp/paddock-fuzz-XXXXXX";
	static int fd = -1;

	if (fd < 0 && mkdtemp(path)) {
		fd = open(path, O_RDONLY | O_DIRECTORY);
		log_init("fuzz", LOG_ERROR);
	}
	return fd;
}

static void put(const char *name, const void *p, size_t n)
{
	int fd = openat(scratch_dir(), name, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	if (fd < 0 || write(fd, p, n) != (ssize_t)n)
		abort();
	close(fd);
}

/* The first byte says how large the files are and whether the command has ended; the rest is the index. */
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	static const char text[] = "some output \xf0\x9f\x98\x80 and more\xe2\x82";
	struct output_caps caps = { 4096, 4096, 1000 };
	struct reader_piece piece;
	struct reader r;
	struct output *o;
	size_t size = n ? p[0] % sizeof text : 0;
	uint64_t totals[2] = { size, sizeof text - 1 }, last = 0;
	enum reader_got got;

	if (n == 0)
		return 0;
	put("f.out", text, size);
	put("f.err", text, sizeof text - 1);
	put("f.idx", p + 1, n - 1);
	o = output_open(scratch_dir(), "f", &caps, p[0] & 0x80 ? totals : NULL, NULL);
	if (!o)
		abort();
	reader_init(&r, o, 0);
	for (int steps = 0; (got = reader_next(&r, READER_PIECE, &piece)) == READER_DATA || got == READER_GAP; steps++) {
		if (piece.to <= piece.from || piece.from < last || steps > 1 << 20)
			abort();
		last = piece.to;
	}
	reader_close(&r);
	output_unref(o);
	return 0;
}
