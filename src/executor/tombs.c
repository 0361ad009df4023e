#include "executor/tombs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/list.h"
#include "base/log.h"
#include "base/num.h"
#include "base/str.h"
#include "core/id.h"

#define PARTS 24
#define LINE_SIZE 51            /* 36 + 1 + 13 + 1 */
#define FILE_NAME 24
#define SOME 64                 /* lines read at once */
#define AHEAD 65536             /* bytes that a file has before they are needed: for 1285 lines */

struct tomb {
	uint8_t id[16];
};

/* The ids of one file, in order. */
struct part {
	struct list node;
	int64_t start_s, youngest_ms;
	struct tomb *ids;
	size_t n, alloc;
};

struct tombs {
	const char *name;
	int dirfd;
	int64_t keep_ms;
	struct list parts;          /* the youngest first */
	size_t count;
};

/* --- ids --- */

static unsigned digit(char c)
{
	return (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
}

static struct tomb tomb_of(const char *id)
{
	struct tomb t = { { 0 } };
	unsigned n = 0;

	for (; *id && n < 32; id++) {
		if (*id == '-')
			continue;
		t.id[n / 2] = (uint8_t)(t.id[n / 2] << 4 | digit(*id));
		n++;
	}
	return t;
}

/* The place of the id, or where it belongs. */
static size_t place(const struct part *p, const struct tomb *t, bool *ret_found)
{
	size_t from = 0, to = p->n;

	*ret_found = false;
	while (from < to) {
		size_t mid = (from + to) / 2;
		int c = memcmp(&p->ids[mid], t, sizeof *t);

		*ret_found = *ret_found || c == 0;
		if (c < 0)
			from = mid + 1;
		else
			to = mid;
	}
	return from;
}

static int reserve(struct part *p)
{
	size_t alloc = p->alloc ? p->alloc + p->alloc / 4 + 1 : 16;
	struct tomb *ids = p->n < p->alloc ? p->ids : reallocarray(p->ids, alloc, sizeof *ids);

	if (!ids)
		return -1;
	p->alloc = p->n < p->alloc ? p->alloc : alloc;
	p->ids = ids;
	return 0;
}

/* There is room. Ids that grow with time go to the end, or nearly. */
static void insert(struct tombs *t, struct part *p, const struct tomb *id, int64_t ms)
{
	bool found;
	size_t at = place(p, id, &found);

	if (ms > p->youngest_ms)
		p->youngest_ms = ms;
	if (found)
		return;
	memmove(&p->ids[at + 1], &p->ids[at], (p->n - at) * sizeof *id);
	p->ids[at] = *id;
	p->n++;
	t->count++;
}

/* --- files --- */

static void name_of(char dst[FILE_NAME], const struct part *p)
{
	if (str_fmt(dst, FILE_NAME, "%" PRId64, p->start_s) < 0)
		abort();   /* 19 digits fit */
}

static void part_free(struct tombs *t, struct part *p)
{
	t->count -= p->n;
	list_del(&p->node);
	free(p->ids);
	free(p);
}

static struct part *part_new(struct tombs *t, int64_t start_s)
{
	struct part *p = calloc(1, sizeof *p);
	struct list *at = t->parts.next;

	if (!p)
		return NULL;
	p->start_s = start_s;
	p->youngest_ms = start_s * 1000;
	while (at != &t->parts && list_entry(at, struct part, node)->start_s > start_s)
		at = at->next;
	list_add_tail(at, &p->node);
	return p;
}

static int take_line(struct tombs *t, struct part *p, char line[LINE_SIZE])
{
	struct tomb id;
	int64_t ms;

	if (line[36] != ' ' || line[LINE_SIZE - 1] != '\n')
		return 0;
	line[36] = line[LINE_SIZE - 1] = '\0';
	if (!id_valid(line) || num_i64(line + 37, 0, INT64_MAX, &ms) < 0)
		return 0;
	if (reserve(p) < 0)
		return -1;
	id = tomb_of(line);
	insert(t, p, &id, ms);
	return 0;
}

/* A torn last line does not count. */
static int load(struct tombs *t, struct part *p, const char *name, err_t **err)
{
	cleanup_close int fd = openat(t->dirfd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	char lines[SOME * LINE_SIZE];
	ssize_t n = 0;
	off_t at = 0;

	if (fd < 0)
		return err_sys(err, errno, "%s/%s", t->name, name);
	while ((n = io_pread(fd, lines, sizeof lines, at)) >= LINE_SIZE) {
		for (ssize_t i = 0; i + LINE_SIZE <= n; i += LINE_SIZE)
			if (take_line(t, p, lines + i) < 0)
				return err_set(err, ERR_NO_MEMORY, NULL, "%s/%s", t->name, name);
		at += n - n % LINE_SIZE;
	}
	return n < 0 ? err_sys(err, errno, "%s/%s", t->name, name) : 0;
}

static int load_all(struct tombs *t, err_t **err)
{
	int fd = openat(t->dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cleanup_closedir DIR *d = fd < 0 ? NULL : fdopendir(fd);
	int64_t start_s;

	if (!d)
		return err_sys(err, errno, "%s", t->name);
	for (struct dirent *e; (e = readdir(d));) {
		struct part *p;

		if (num_i64(e->d_name, 0, INT64_MAX / 1000, &start_s) < 0)
			continue;
		p = part_new(t, start_s);
		if (!p)
			return err_set(err, ERR_NO_MEMORY, NULL, "%s", t->name);
		if (load(t, p, e->d_name, err) < 0)
			return -1;
	}
	return 0;
}

/* --- the set --- */

struct tombs *tombs_open(int state_fd, const char *dir, int64_t keep_ms, err_t **err)
{
	struct tombs *t = calloc(1, sizeof *t);

	if (!t) {
		err_set(err, ERR_NO_MEMORY, NULL, "%s", dir);
		return NULL;
	}
	t->name = dir;
	t->keep_ms = keep_ms;
	list_init(&t->parts);
	if (mkdirat(state_fd, dir, 0700) == 0 || errno == EEXIST)
		t->dirfd = openat(state_fd, dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	else
		t->dirfd = -1;
	if (t->dirfd < 0)
		(void)err_sys(err, errno, "%s", dir);
	if (t->dirfd >= 0 && load_all(t, err) == 0)
		return t;
	tombs_free(t);
	return NULL;
}

void tombs_free(struct tombs *t)
{
	if (!t)
		return;
	while (!list_empty(&t->parts))
		part_free(t, list_entry(t->parts.next, struct part, node));
	if (t->dirfd >= 0)
		close(t->dirfd);
	free(t);
}

/* The part that takes what was gone then: a new one begins at a multiple of a part's length, so that there are few of them in whatever order the
 * ids come, and when the clock was set back. */
static struct part *part_for(struct tombs *t, int64_t now_ms)
{
	int64_t ms = t->keep_ms / PARTS < 1000 ? 1000 : t->keep_ms / PARTS, s = ms / 1000;

	list_for_each(n, &t->parts) {
		struct part *p = list_entry(n, struct part, node);

		if (now_ms >= p->start_s * 1000 && now_ms - p->start_s * 1000 < ms)
			return p;
	}
	return part_new(t, now_ms / 1000 / s * s);
}

static int open_part(struct tombs *t, const struct part *p, char name[FILE_NAME], struct stat *st, err_t **err)
{
	name_of(name, p);
	cleanup_close int fd = openat(t->dirfd, name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0 || fstat(fd, st) < 0)
		return err_sys(err, errno, "%s/%s", t->name, name);
	return steal_fd(&fd);
}

/* Each line at its place: what a torn one left there is written over. */
static int write_line(struct tombs *t, const struct part *p, const char *id, int64_t now_ms, err_t **err)
{
	char name[FILE_NAME], line[LINE_SIZE + 1];
	struct stat st;

	cleanup_close int fd = open_part(t, p, name, &st, err);
	if (fd < 0)
		return -1;
	if (str_fmt(line, sizeof line, "%s %013" PRId64 "\n", id, now_ms) < 0)
		return err_set(err, ERR_INTERNAL, NULL, "%s/%s", t->name, name);
	if (lseek(fd, st.st_size - st.st_size % LINE_SIZE, SEEK_SET) < 0 || io_write_full(fd, line, LINE_SIZE) < 0)
		return err_sys(err, errno, "%s/%s", t->name, name);
	return 0;
}

/* Into a file that has room, whichever. */
static struct part *write_elsewhere(struct tombs *t, const char *id, int64_t now_ms)
{
	list_for_each(n, &t->parts) {
		struct part *p = list_entry(n, struct part, node);

		if (reserve(p) == 0 && write_line(t, p, id, now_ms, NULL) == 0)
			return p;
	}
	return NULL;
}

int tombs_add(struct tombs *t, const char *id, int64_t now_ms, err_t **err)
{
	struct tomb b = tomb_of(id);
	cleanup_err err_t *e = NULL;
	struct part *p;

	if (tombs_has(t, id))
		return 0;
	p = part_for(t, now_ms);
	if (!p || reserve(p) < 0)
		return err_set(err, ERR_NO_MEMORY, NULL, "%s", t->name);
	if (write_line(t, p, id, now_ms, &e) < 0 && (err_code(e) != ERR_NO_SPACE || !(p = write_elsewhere(t, id, now_ms))))
		return err_move(err, steal_ptr(&e));
	insert(t, p, &b, now_ms);
	return 0;
}

bool tombs_has(const struct tombs *t, const char *id)
{
	struct tomb b = tomb_of(id);
	bool found = false;

	list_for_each(n, &t->parts) {
		(void)place(list_entry(n, struct part, node), &b, &found);
		if (found)
			return true;
	}
	return false;
}

void tombs_make_room(struct tombs *t, int64_t now_ms)
{
	struct part *p = list_empty(&t->parts) ? part_for(t, now_ms) : list_entry(t->parts.next, struct part, node);
	char name[FILE_NAME];
	struct stat st;

	if (!p)
		return;
	cleanup_close int fd = open_part(t, p, name, &st, NULL);
	if (fd >= 0)
		(void)fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, st.st_size + AHEAD);
}

void tombs_expire(struct tombs *t, int64_t now_ms)
{
	char name[FILE_NAME];

	list_for_each_safe(n, next, &t->parts) {
		struct part *p = list_entry(n, struct part, node);

		if (now_ms - p->youngest_ms < t->keep_ms)
			continue;
		name_of(name, p);
		if (unlinkat(t->dirfd, name, 0) < 0 && errno != ENOENT)
			log_kv(LOG_WARN, "tombs_not_removed", "dir", t->name, "name", name, "err", strerror(errno), NULL);
		else
			part_free(t, p);
	}
}

size_t tombs_count(const struct tombs *t)
{
	return t->count;
}
