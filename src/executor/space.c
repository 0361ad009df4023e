#include "executor/space.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "executor/journal.h"
#include "executor/sweep.h"

#define LOOK_MS 1000
#define RESERVE "reserve"
#define RESERVE_BYTES (1 << 20)

struct space {
	int state_fd;
	struct sweep *sweep;
	struct loop_timer *timer;
	uint64_t (*held)(void *arg, unsigned *ret_open);
	void *arg;
	struct space_facts f;
	unsigned open;
	int64_t looked_ms;
	bool armed, reserve, warned;
};

static void arm(struct space *s)
{
	s->armed = true;
	loop_timer_set(s->timer, LOOK_MS);
}

/* --- the reserve --- */

static void make_reserve(struct space *s)
{
	cleanup_close int fd = openat(s->state_fd, RESERVE, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd >= 0 && fallocate(fd, 0, 0, RESERVE_BYTES) == 0) {
		s->reserve = true;
		s->warned = false;
		return;
	}
	if (!s->warned)
		log_kv(LOG_WARN, "journal_no_reserve", "err", strerror(errno), NULL);
	s->warned = true;
	(void)unlinkat(s->state_fd, RESERVE, 0);
}

/* That of the executor before us. */
static bool find_reserve(const struct space *s)
{
	struct stat st;

	return fstatat(s->state_fd, RESERVE, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) && st.st_blocks * 512 >= RESERVE_BYTES;
}

bool space_open_reserve(struct space *s)
{
	if (!s->reserve)
		return false;
	s->reserve = false;
	if (!s->armed)
		arm(s);
	log_kv(LOG_WARN, "journal_reserve_used", NULL);
	return unlinkat(s->state_fd, RESERVE, 0) == 0;
}

/* --- looking --- */

static void look_at_disk(struct space *s)
{
	struct statvfs v;
	uint64_t bytes, inodes = 1000;

	s->f.free = UINT64_MAX;
	s->f.free_permille = -1;
	if (fstatvfs(s->state_fd, &v) < 0 || v.f_blocks == 0)
		return;
	s->f.free = (uint64_t)v.f_bavail * v.f_frsize;
	bytes = (uint64_t)v.f_bavail * 1000 / v.f_blocks;
	if (v.f_files > 0)
		inodes = (uint64_t)v.f_favail * 1000 / v.f_files;
	s->f.free_permille = (int)(bytes < inodes ? bytes : inodes);
}

/* How much too much there is. */
static uint64_t excess(const struct space_facts *f)
{
	uint64_t used = f->held + f->acked, over = used > f->max_bytes ? used - f->max_bytes : 0;
	uint64_t lack = f->free < f->min_free ? f->min_free - f->free : 0;

	return over > lack ? over : lack;
}

static void look(struct space *s)
{
	uint64_t over;
	bool was = s->f.full;

	s->looked_ms = clock_boot_ms();
	s->open = 0;
	s->f.held = s->held ? s->held(s->arg, &s->open) : 0;
	s->f.acked = sweep_bytes(s->sweep);
	s->f.early = sweep_early(s->sweep);
	look_at_disk(s);
	over = excess(&s->f);
	sweep_want(s->sweep, over);
	s->f.full = over > 0 && !sweep_can_give(s->sweep);
	if (s->f.full != was)
		log_kv(s->f.full ? LOG_WARN : LOG_INFO, s->f.full ? "journal_full" : "journal_has_room", NULL);
	if (!s->reserve && s->f.free > s->f.min_free && s->f.free > 2 * RESERVE_BYTES)
		make_reserve(s);
}

static void on_timer(void *arg)
{
	struct space *s = arg;

	s->armed = false;
	look(s);
	if (s->open > 0 || !s->reserve || excess(&s->f) > 0)
		arm(s);
}

int space_take(struct space *s, err_t **err)
{
	if (clock_boot_ms() - s->looked_ms >= LOOK_MS || s->f.full)
		look(s);
	if (!s->armed)
		arm(s);
	if (!s->f.full)
		return 0;
	s->f.refused++;
	if (s->f.free < s->f.min_free)
		return err_set(err, ERR_NO_SPACE, NULL, "the disk of the journal is full ([executor] min_free_bytes)");
	return err_set(err, ERR_NO_SPACE, NULL, "the journal is full of commands that are not recorded yet ([executor] journal_max_bytes)");
}

void space_look(struct space *s, struct space_facts *ret)
{
	look(s);
	*ret = s->f;
}

void space_set_held(struct space *s, uint64_t (*held)(void *arg, unsigned *ret_open), void *arg)
{
	s->held = held;
	s->arg = arg;
}

struct space *space_new(struct loop *l, int state_fd, struct sweep *sweep, const struct journal_policy *p, err_t **err)
{
	struct space *s = calloc(1, sizeof *s);

	if (s)
		s->timer = loop_timer_new(l, on_timer, s);
	if (!s || !s->timer) {
		free(s);
		err_set(err, ERR_NO_MEMORY, NULL, "journal space");
		return NULL;
	}
	s->state_fd = state_fd;
	s->sweep = sweep;
	s->f.max_bytes = p->max_bytes;
	s->f.min_free = p->min_free;
	s->reserve = find_reserve(s);
	look(s);
	if (!s->reserve || excess(&s->f) > 0)
		arm(s);
	return s;
}

void space_free(struct space *s)
{
	if (!s)
		return;
	loop_timer_free(s->timer);
	free(s);
}
