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
#include "executor/dues.h"
#include "executor/journal.h"

#define TURN_FILES 8                /* of the archive, looked at in one turn of the loop */
#define TURN_MS 50
#define TURN_ENTRIES 64             /* whose outputs are removed in one turn */
#define PAUSE_MS 2000               /* between two passes at least */
#define WAIT_MAX_MS (3600 * INT64_C(1000))   /* for instances to go; doubles from PAUSE_MS to this */
#define LOGS_STAY_MS (60 * INT64_C(1000))    /* a caller who asks again does so within this time */
#define CUT_BYTES (32u << 20)       /* freed in one turn at most */
#define BLOCK 512                   /* what st_blocks counts in */

struct sweep {
	struct archive *archive;
	int acked_fd, output_fd;
	struct journal_policy policy;
	struct loop_timer *timer;
	struct dues dues;
	size_t at_due;              /* of the pass that goes on */
	DIR *walk;                  /* at start */
	int64_t since_ms;           /* wall time of the start, or a little before it */
	uint64_t bytes, wanted, early;
	int64_t armed_ms;           /* wall time that the timer is set to; 0: at work, INT64_MAX: not set */
	/* The file of the archive that is being removed or made bare, or -1, its name, and the place of its next entry. */
	int fd;
	bool baring;
	char name[ARCHIVE_NAME];
	uint64_t at, until;         /* until: what was in the file when it was chosen */
	char cid[ID_SIZE];          /* the entry whose outputs are being removed; "" for none */
};

static const char *const outputs[] = { "out", "err", "idx" };

static void gave(struct sweep *s, uint64_t bytes)
{
	s->bytes -= bytes < s->bytes ? bytes : s->bytes;
	s->wanted -= bytes < s->wanted ? bytes : s->wanted;
}

static uint64_t size_of_outputs(const struct sweep *s, const char *cid)
{
	char name[JOURNAL_NAME_SIZE];
	struct stat st;
	uint64_t n = 0;

	for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++) {
		journal_name(name, cid, outputs[i]);
		if (fstatat(s->output_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			n += (uint64_t)st.st_blocks * BLOCK;
	}
	return n;
}

/* --- removing --- */

/* Shortens the file by CUT_BYTES. False when it is small enough to be unlinked. */
static bool cut(int fd, const char *name, const struct stat *st)
{
	if (!S_ISREG(st->st_mode) || st->st_size <= (off_t)CUT_BYTES)
		return false;
	cleanup_close int f = openat(fd, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	return f >= 0 && ftruncate(f, st->st_size - (off_t)CUT_BYTES) == 0;
}

static bool drop(int fd, const char *name)
{
	if (unlinkat(fd, name, 0) == 0)
		return true;
	if (errno != ENOENT)
		log_kv(LOG_WARN, "journal_remove_failed", "name", name, "err", strerror(errno), NULL);
	return false;
}

/* False when a large file needs more turns. */
static bool drop_outputs(struct sweep *s)
{
	char name[JOURNAL_NAME_SIZE];
	struct stat st, less;
	bool some = false;

	for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++) {
		journal_name(name, s->cid, outputs[i]);
		if (fstatat(s->output_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		if (cut(s->output_fd, name, &st)) {
			if (fstatat(s->output_fd, name, &less, AT_SYMLINK_NOFOLLOW) == 0 && less.st_blocks < st.st_blocks)
				gave(s, (uint64_t)(st.st_blocks - less.st_blocks) * BLOCK);
			return false;
		}
		if (drop(s->output_fd, name))
			gave(s, (uint64_t)st.st_blocks * BLOCK);
		some = true;
	}
	s->early += s->baring && some;
	s->cid[0] = '\0';
	return true;
}

/* The archive's file goes last: as long as it is there, the rest is found. */
static void file_done(struct sweep *s)
{
	struct stat st;

	/* A file that something was added to meanwhile stays: it was noted again. */
	if (!s->baring && fstat(s->fd, &st) == 0 && (uint64_t)st.st_size == s->until) {
		archive_forget(s->archive, s->name);
		if (drop(s->acked_fd, s->name))
			gave(s, s->until);
	}
	close(s->fd);
	s->fd = -1;
	s->cid[0] = '\0';
}

static void remove_some(struct sweep *s)
{
	size_t n;

	for (int i = 0; i < TURN_ENTRIES; i++) {
		if (s->cid[0] && !drop_outputs(s))
			return;
		if (s->at >= s->until || archive_next(s->fd, &s->at, s->cid, &n) != 1) {
			file_done(s);
			return;
		}
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

static int64_t mtime_ms(const struct stat *st)
{
	return st->st_mtim.tv_sec * 1000 + st->st_mtim.tv_nsec / 1000000;
}

/* Opens the file of item i; the item is dead when there is none, and moved behind the others when it is younger than was known. -1 for both. */
static int open_due(struct sweep *s, size_t i, char name[ARCHIVE_NAME])
{
	struct due *d = &s->dues.items[i];
	struct stat st;
	int fd;

	due_name(d, name);
	fd = openat(s->acked_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 && errno != ENOENT && errno != ELOOP) {
		d->next_ms = clock_wall_ms() + PAUSE_MS;
		return -1;
	}
	if (fd < 0 || fstat(fd, &st) < 0) {
		d->dead = 1;
	} else if (mtime_ms(&st) > d->acked_ms) {
		dues_move_last(&s->dues, i, mtime_ms(&st), mtime_ms(&st) + s->policy.keep_ms);
	} else {
		return fd;
	}
	if (fd >= 0)
		close(fd);
	return -1;
}

static void take_file(struct sweep *s, int fd, const char *name, bool baring)
{
	struct stat st;

	(void)str_copy(s->name, sizeof s->name, name);
	s->until = fstat(fd, &st) < 0 ? 0 : (uint64_t)st.st_size;
	s->fd = fd;
	s->baring = baring;
	s->at = 0;
}

/* Its time is over unless an instance of its commands is still there. True: the file is being removed. */
static bool look(struct sweep *s, size_t i, int64_t now)
{
	char name[ARCHIVE_NAME];
	cleanup_close int fd = open_due(s, i, name);
	struct due *d = &s->dues.items[i];
	int64_t age = now - d->acked_ms, wait;

	if (fd < 0)
		return false;
	if (age < s->policy.keep_max_ms && !instances_gone(s, fd)) {
		wait = age < PAUSE_MS ? PAUSE_MS : age > WAIT_MAX_MS ? WAIT_MAX_MS : age;
		d->next_ms = now + wait < d->acked_ms + s->policy.keep_max_ms ? now + wait : d->acked_ms + s->policy.keep_max_ms;
		return false;
	}
	d->dead = 1;
	take_file(s, steal_fd(&fd), name, false);
	return true;
}

/* Goes on with the pass. True while there is more to do now. */
static bool pass(struct sweep *s)
{
	int64_t now = clock_wall_ms();
	int looked = 0;

	while (s->at_due < s->dues.n && looked < TURN_FILES) {
		const struct due *d = &s->dues.items[s->at_due];
		uint64_t file = d->file;

		if (!d->dead && d->next_ms <= now) {
			looked++;
			if (look(s, s->at_due, now))
				return true;
			if (s->dues.items[s->at_due].file != file)
				continue;   /* it was moved, another one is here now */
		}
		s->at_due++;
	}
	if (s->at_due < s->dues.n)
		return true;
	dues_compact(&s->dues);
	s->at_due = 0;
	if (s->dues.n == 0 && !s->walk)
		s->bytes = 0;
	return false;
}

/* --- giving room --- */

/* The oldest one that has something to give: outputs, else logs. SIZE_MAX for none. */
static size_t oldest(const struct sweep *s)
{
	int64_t before = clock_wall_ms() - LOGS_STAY_MS;
	size_t logs = SIZE_MAX;

	for (size_t i = 0; i < s->dues.n; i++) {
		const struct due *d = &s->dues.items[i];

		if (d->dead)
			continue;
		if (!d->bare)
			return i;
		if (logs == SIZE_MAX && d->acked_ms <= before)
			logs = i;
	}
	return logs;
}

/* True: a file is being removed or made bare. */
static bool give(struct sweep *s)
{
	char name[ARCHIVE_NAME];
	size_t i;
	int fd;

	for (int tries = 0; s->wanted > 0 && tries < TURN_FILES && (i = oldest(s)) != SIZE_MAX; tries++) {
		bool bare = s->dues.items[i].bare;

		fd = open_due(s, i, name);
		if (fd < 0)
			continue;
		if (bare)
			s->dues.items[i].dead = 1;
		else
			s->dues.items[i].bare = 1;
		take_file(s, fd, name, !bare);
		return true;
	}
	return false;
}

/* --- the walk at start --- */

/* It was made or added to since the start, and counted then. */
static bool is_known(const struct sweep *s, const char *name, const struct stat *st)
{
	return mtime_ms(st) >= s->since_ms && dues_has(&s->dues, name);
}

/* Counts what the commands of the file hold and notes it. */
static void take_up(struct sweep *s, const char *name)
{
	cleanup_close int fd = openat(s->acked_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	char cid[ID_SIZE];
	struct stat st;
	uint64_t at = 0, outs = 0;
	size_t n;

	if (!archive_is_name(name) || fd < 0 || fstat(fd, &st) < 0 || is_known(s, name, &st))
		return;
	while (archive_next(fd, &at, cid, &n) == 1)
		outs += size_of_outputs(s, cid);
	s->bytes += (uint64_t)st.st_size + outs;
	if (dues_note(&s->dues, name, mtime_ms(&st), mtime_ms(&st) + s->policy.keep_ms, outs > 0) < 0)
		log_kv(LOG_ERROR, "journal_entry_not_noted", "name", name, NULL);   /* the next executor finds it */
}

static void walk_some(struct sweep *s)
{
	struct dirent *e = NULL;

	for (int i = 0; i < TURN_FILES && (e = readdir(s->walk)); i++)
		take_up(s, e->d_name);
	if (e)
		return;
	closedir(s->walk);
	s->walk = NULL;
	dues_sort(&s->dues);
}

/* --- time --- */

/* Not sooner than a pause, not later than WAIT_MAX_MS: the wall clock may be set. */
static void rest_until(struct sweep *s, int64_t next)
{
	int64_t in = next == INT64_MAX ? -1 : next - clock_wall_ms();

	s->armed_ms = next;
	if (next != INT64_MAX)
		in = in < PAUSE_MS ? PAUSE_MS : in > WAIT_MAX_MS ? WAIT_MAX_MS : in;
	loop_timer_set(s->timer, in);
}

static void work_in(struct sweep *s, int64_t ms)
{
	s->armed_ms = 0;
	loop_timer_set(s->timer, ms);
}

static void on_timer(void *arg)
{
	struct sweep *s = arg;
	bool more;

	if (s->walk)
		walk_some(s);
	if (s->fd < 0)
		more = (!s->walk && give(s)) || pass(s);   /* which one is the oldest is known when all are */
	else
		more = true;
	if (s->fd >= 0)
		remove_some(s);
	if (s->walk || more || (s->wanted > 0 && oldest(s) != SIZE_MAX))
		work_in(s, s->walk && s->wanted > 0 ? 0 : TURN_MS);
	else
		rest_until(s, dues_next_ms(&s->dues));
}

void sweep_acked(struct sweep *s, const char *cid, uint64_t log_bytes, bool has_output)
{
	char name[ARCHIVE_NAME];
	int64_t now = clock_wall_ms();

	archive_name(name, cid);
	s->bytes += ARCHIVE_HEADER + log_bytes + (has_output ? size_of_outputs(s, cid) : 0);
	if (dues_note(&s->dues, name, now, now + s->policy.keep_ms, has_output) < 0)
		log_kv(LOG_ERROR, "journal_entry_not_noted", "name", name, NULL);
	else if (now + s->policy.keep_ms < s->armed_ms)
		rest_until(s, now + s->policy.keep_ms);
}

void sweep_want(struct sweep *s, uint64_t bytes)
{
	s->wanted = bytes;
	if (bytes > 0 && s->armed_ms != 0 && oldest(s) != SIZE_MAX)
		work_in(s, 0);
}

bool sweep_can_give(const struct sweep *s)
{
	return s->walk || s->fd >= 0 || oldest(s) != SIZE_MAX;
}

uint64_t sweep_bytes(const struct sweep *s)
{
	return s->bytes;
}

uint64_t sweep_early(const struct sweep *s)
{
	return s->early;
}

static int walk_open(struct sweep *s, err_t **err)
{
	int fd = openat(s->acked_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	s->walk = fd < 0 ? NULL : fdopendir(fd);
	if (s->walk)
		return 0;
	(void)err_sys(err, errno, "journal sweep");
	if (fd >= 0)
		close(fd);
	return -1;
}

struct sweep *sweep_new(struct loop *l, struct archive *a, int acked_fd, int output_fd, const struct journal_policy *p, err_t **err)
{
	struct sweep *s = calloc(1, sizeof *s);

	if (!s) {
		err_set(err, ERR_NO_MEMORY, NULL, "journal sweep");
		return NULL;
	}
	*s = (struct sweep){ .fd = -1, .archive = a, .acked_fd = acked_fd, .output_fd = output_fd, .policy = *p };
	s->timer = loop_timer_new(l, on_timer, s);
	if (!s->timer)
		err_set(err, ERR_NO_MEMORY, NULL, "journal sweep");
	if (!s->timer || walk_open(s, err) < 0) {
		sweep_free(s);
		return NULL;
	}
	s->since_ms = clock_wall_ms() - PAUSE_MS;
	work_in(s, TURN_MS);
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
	dues_free(&s->dues);
	loop_timer_free(s->timer);
	free(s);
}
