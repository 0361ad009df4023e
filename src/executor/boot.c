#include "executor/boot.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/str.h"

static const char *boot_id(void)
{
	static char id[ID_SIZE];
	cleanup_free char *text = NULL;
	size_t n = 0;

	if (!id[0] && io_read_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id", 64, &text, &n, NULL) == 0) {
		text[strcspn(text, "\n")] = '\0';
		(void)str_copy(id, sizeof id, text);
	}
	return id;
}

void boot_stamp_now(struct boot_stamp *ret)
{
	(void)str_copy(ret->boot, sizeof ret->boot, boot_id());
	ret->boot_ms = clock_boot_ms();
	ret->wall_ms = clock_wall_ms();
}

static int64_t past(int64_t ms)
{
	int64_t now = clock_boot_ms(), at = ms > now ? now : ms;

	return at ? at : -1;
}

int64_t boot_from_wall(int64_t wall_ms)
{
	return past(clock_boot_ms() - (clock_wall_ms() - wall_ms));
}

int64_t boot_rebase(const struct boot_stamp *at, int64_t ms)
{
	if (str_eq(at->boot, boot_id()))
		return past(ms);
	return boot_from_wall(at->wall_ms - (at->boot_ms - ms));
}
