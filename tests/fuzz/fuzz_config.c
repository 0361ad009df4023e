/* Any ini file: refused with a message, or its dump loads to the same values. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/io.h"
#include "core/config.h"
#include "core/config_table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct config *load(const void *p, size_t n, err_t **err)
{
	int fd = memfd_create("ini", MFD_CLOEXEC);
	struct config *c;
	char path[64];

	if (fd < 0 || io_write_full(fd, p, n) < 0)
		abort();
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	c = config_load(path, err);
	close(fd);
	return c;
}

static void compare(const struct config *a, const struct config *b)
{
	for (size_t i = 0; i < config_table_len; i++) {
		const struct config_opt *o = &config_table[i];
		char key[128];

		snprintf(key, sizeof key, "%s.%s", o->section, o->key);
		if (o->type <= CONFIG_WORD && strcmp(config_str(a, key), config_str(b, key)) != 0)
			abort();
		if (o->type > CONFIG_WORD && config_int(a, key) != config_int(b, key))
			abort();
	}
}

static void dump_and_load(const struct config *c)
{
	char *text = NULL;
	size_t n;
	FILE *f = open_memstream(&text, &n);
	struct config *again;

	config_dump(c, f);
	fclose(f);
	again = load(text, n, NULL);
	if (!again)
		abort();
	compare(c, again);
	config_free(again);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	err_t *err = NULL;
	struct config *c = load(data, size, &err);

	if (!c != !!err)
		abort();
	if (c)
		dump_and_load(c);
	config_free(c);
	err_free(err);
	return 0;
}
