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
#include "executor/journal.h"

#define TURN_ENTRIES 32             /* looked at in one turn of the loop */
#define TURN_MS 100
#define PASS_PAUSE_MS 2000          /* between two walks over all entries */
#define CUT_BYTES (32u << 20)       /* freed in one turn at most */

struct sweep {
	int acked_fd, output_fd;
	struct journal_policy policy;
	struct loop_timer *timer;
	DIR *walk;
	char removing[ID_SIZE];     /* an entry whose large files are being shortened; "" for none */
};

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

/* One step of a removal; true when the entry is gone or given up. The log goes last: as long as it is there, the rest is found. */
static bool remove_step(struct sweep *s)
{
	static const char *const what[] = { "out", "err", "idx" };
	char name[JOURNAL_NAME_SIZE];

	for (size_t i = 0; i < sizeof what / sizeof *what; i++) {
		journal_name(name, s->removing, what[i]);
		if (cut(s->output_fd, name))
			return false;
		drop(s->output_fd, name);
	}
	journal_name(name, s->removing, "log");
	drop(s->acked_fd, name);
	s->removing[0] = '\0';
	return true;
}

static bool instance_gone(struct sweep *s, const char *name)
{
	cleanup_free char *text = NULL;
	struct steps st;
	size_t n = 0;

	if (io_read_file(s->acked_fd, name, STEPS_FILE_MAX, &text, &n, NULL) < 0 || steps_parse(text, n, &st, NULL) < 0)
		return false;   /* unreadable: kept until keep_max_ms */
	return s->policy.instance_gone(s->policy.arg, st.instance);
}

static bool is_over(struct sweep *s, const char *name)
{
	struct stat st;
	int64_t age;

	if (fstatat(s->acked_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return false;
	age = clock_wall_ms() - (st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000);
	if (age < s->policy.keep_ms)
		return false;
	return age >= s->policy.keep_max_ms || instance_gone(s, name);
}

static void walk_begin(struct sweep *s)
{
	int fd = openat(s->acked_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	s->walk = fd < 0 ? NULL : fdopendir(fd);
	if (fd >= 0 && !s->walk)
		close(fd);
}

static void on_timer(void *arg)
{
	struct sweep *s = arg;
	struct dirent *e;
	char cid[ID_SIZE];

	if (!s->walk)
		walk_begin(s);
	for (int i = 0; s->walk && i < TURN_ENTRIES; i++) {
		if (s->removing[0] && !remove_step(s))
			break;
		e = readdir(s->walk);
		if (!e) {
			closedir(s->walk);
			s->walk = NULL;
			break;
		}
		if (journal_name_id(e->d_name, cid) == 0 && is_over(s, e->d_name))
			(void)str_copy(s->removing, sizeof s->removing, cid);
	}
	loop_timer_set(s->timer, s->walk ? TURN_MS : PASS_PAUSE_MS);
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
	loop_timer_free(s->timer);
	free(s);
}
