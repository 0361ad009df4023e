#include "executor/sweep.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/log.h"
#include "base/str.h"
#include "executor/archive.h"
#include "executor/journal.h"

#define TURN_FILES 8                /* of the archive, looked at in one turn of the loop */
#define TURN_MS 50
#define TURN_ENTRIES 64             /* whose outputs are removed in one turn */
#define PASS_PAUSE_MS 2000          /* between two walks over the archive */
#define CUT_BYTES (32u << 20)       /* freed in one turn at most */

struct sweep {
	int acked_fd, output_fd;
	struct journal_policy policy;
	struct loop_timer *timer;
	DIR *walk;
	/* The file of the archive that is being removed, or -1, its name, and the place of its next entry. */
	int fd;
	char name[ARCHIVE_NAME];
	uint64_t at;
	char cid[ID_SIZE];          /* the entry whose outputs are being removed; "" for none */
};

/* --- removing --- */

/* Shortens the file by CUT_BYTES. False when it is small enough to be unlinked. */
static bool cut(int fd, const char *name)
{
	struct stat st;

	if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode) || st.st_size <= (off_t)CUT_BYTES)
		return false;
	cleanup_close int f = openat(fd, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	return f >= 0 && ftruncate(f, st.st_size - (off_t)CUT_BYTES) == 0;
}

static void drop(int fd, const char *name)
{
	if (unlinkat(fd, name, 0) < 0 && errno != ENOENT)
		log_kv(LOG_WARN, "journal_remove_failed", "name", name, "err", strerror(errno), NULL);
}

/* False when a large file needs more turns. */
static bool drop_outputs(struct sweep *s)
{
	static const char *const what[] = { "out", "err", "idx" };
	char name[JOURNAL_NAME_SIZE];

	for (size_t i = 0; i < sizeof what / sizeof *what; i++) {
		journal_name(name, s->cid, what[i]);
		if (cut(s->output_fd, name))
			return false;
		drop(s->output_fd, name);
	}
	s->cid[0] = '\0';
	return true;
}

/* The archive's file goes last: as long as it is there, the rest is found. */
static void remove_some(struct sweep *s)
{
	size_t n;

	for (int i = 0; i < TURN_ENTRIES; i++) {
		if (s->cid[0] && !drop_outputs(s))
			return;
		if (archive_next(s->fd, &s->at, s->cid, &n) == 1)
			continue;
		drop(s->acked_fd, s->name);
		close(s->fd);
		s->fd = -1;
		s->cid[0] = '\0';
		return;
	}
}

/* --- looking --- */

static bool instances_gone(struct sweep *s, int fd)
{
	char cid[ID_SIZE];
	uint64_t at = 0;
	size_t n;

	while (archive_next(fd, &at, cid, &n) == 1) {
		cleanup_free char *text = malloc(n + 1);
		struct steps st;

		/* unreadable: kept until keep_max_ms */
		if (!text || io_pread(fd, text, n, (off_t)(at - n)) != (ssize_t)n || steps_parse(text, n, &st, NULL) < 0 ||
		    !s->policy.instance_gone(s->policy.arg, st.instance))
			return false;
	}
	return true;
}

/* Opens the file for removal when its time is over. */
static bool look(struct sweep *s, const char *name)
{
	cleanup_close int fd = -1;
	struct stat st;
	int64_t age;

	if (!archive_is_name(name) || fstatat(s->acked_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	age = clock_wall_ms() - (st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000);
	if (age < s->policy.keep_ms)
		return false;
	fd = openat(s->acked_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || (age < s->policy.keep_max_ms && !instances_gone(s, fd)))
		return false;
	(void)str_copy(s->name, sizeof s->name, name);
	s->fd = steal_fd(&fd);
	s->at = 0;
	return true;
}

static void walk_some(struct sweep *s)
{
	struct dirent *e;
	int fd;

	if (!s->walk) {
		fd = openat(s->acked_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		s->walk = fd < 0 ? NULL : fdopendir(fd);
		if (fd >= 0 && !s->walk)
			close(fd);
	}
	for (int i = 0; s->walk && i < TURN_FILES; i++) {
		e = readdir(s->walk);
		if (!e) {
			closedir(s->walk);
			s->walk = NULL;
		} else if (look(s, e->d_name)) {
			return;
		}
	}
}

static void on_timer(void *arg)
{
	struct sweep *s = arg;

	if (s->fd < 0)
		walk_some(s);
	if (s->fd >= 0)
		remove_some(s);
	loop_timer_set(s->timer, s->walk || s->fd >= 0 ? TURN_MS : PASS_PAUSE_MS);
}

struct sweep *sweep_new(struct loop *l, int acked_fd, int output_fd, const struct journal_policy *p, err_t **err)
{
	struct sweep *s = calloc(1, sizeof *s);

	if (s)
		s->timer = loop_timer_new(l, on_timer, s);
	if (!s || !s->timer) {
		free(s);
		err_set(err, ERR_NO_MEMORY, NULL, "journal sweep");
		return NULL;
	}
	s->fd = -1;
	s->acked_fd = acked_fd;
	s->output_fd = output_fd;
	s->policy = *p;
	loop_timer_set(s->timer, PASS_PAUSE_MS);
	return s;
}

void sweep_free(struct sweep *s)
{
	if (!s)
		return;
	if (s->walk)
		closedir(s->walk);
	if (s->fd >= 0)
		close(s->fd);
	loop_timer_free(s->timer);
	free(s);
}
