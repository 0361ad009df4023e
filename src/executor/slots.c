#include "executor/slots.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/num.h"
#include "base/str.h"

#define SLOT_NAME 16
#define OPEN_MAX_SPARE 64      /* empty slots that stay open */
#define SPARE_MAX 4096         /* empty slots that stay; more are removed */

struct spare {
	unsigned slot;
	int fd;
};

struct slots {
	int dirfd;
	unsigned next;         /* no slot has this number or a higher one */
	struct spare spare[SPARE_MAX];
	size_t n_spare;
};

static void name_of(char dst[SLOT_NAME], unsigned slot)
{
	if (str_fmt(dst, SLOT_NAME, "%u", slot) < 0)
		abort();   /* ten digits fit */
}

struct slots *slots_new(int dirfd, err_t **err)
{
	struct slots *s = calloc(1, sizeof *s);

	if (!s)
		err_set(err, ERR_NO_MEMORY, NULL, "journal slots");
	else
		s->dirfd = dirfd;
	return s;
}

void slots_free(struct slots *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n_spare; i++)
		if (s->spare[i].fd >= 0)
			close(s->spare[i].fd);
	free(s);
}

static int file_open(struct slots *s, unsigned slot, int flags, err_t **err)
{
	char name[SLOT_NAME];
	int fd;

	name_of(name, slot);
	fd = openat(s->dirfd, name, O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
	return fd < 0 ? err_sys(err, errno, "journal slot %s", name) : fd;
}

int slots_take(struct slots *s, unsigned *ret, err_t **err)
{
	struct spare p = { s->next, -1 };

	if (s->n_spare > 0)
		p = s->spare[--s->n_spare];
	else
		s->next++;
	*ret = p.slot;
	return p.fd >= 0 ? p.fd : file_open(s, p.slot, O_CREAT, err);
}

int slots_open(struct slots *s, unsigned slot, err_t **err)
{
	return file_open(s, slot, 0, err);
}

void slots_give(struct slots *s, unsigned slot, int fd)
{
	char name[SLOT_NAME];

	if (fd < 0)
		fd = file_open(s, slot, 0, NULL);
	name_of(name, slot);
	if (fd < 0 || ftruncate(fd, 0) < 0 || s->n_spare >= SPARE_MAX) {
		(void)unlinkat(s->dirfd, name, 0);
		if (fd >= 0)
			close(fd);
		return;
	}
	if (s->n_spare >= OPEN_MAX_SPARE) {
		close(fd);
		fd = -1;
	}
	s->spare[s->n_spare++] = (struct spare){ slot, fd };
}

int slots_each(struct slots *s, int (*fn)(void *arg, unsigned slot, err_t **err), void *arg, err_t **err)
{
	int fd = openat(s->dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cleanup_closedir DIR *d = fd < 0 ? NULL : fdopendir(fd);
	int64_t slot;

	if (!d)
		return err_sys(err, errno, "journal");
	for (struct dirent *e; (e = readdir(d));) {
		if (num_i64(e->d_name, 0, INT32_MAX - 1, &slot) < 0)
			continue;
		if ((unsigned)slot >= s->next)
			s->next = (unsigned)slot + 1;
		int used = fn(arg, (unsigned)slot, err);
		if (used < 0)
			return -1;
		if (!used)
			slots_give(s, (unsigned)slot, -1);
	}
	return 0;
}
