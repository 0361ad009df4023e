#include "executor/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fault.h"
#include "base/io.h"
#include "base/log.h"
#include "base/str.h"
#include "executor/sweep.h"

struct journal {
	int open_fd;      /* <state>/journal */
	int acked_fd;     /* <state>/acked */
	int output_fd;    /* <state>/output */
	struct sweep *sweep;
};

static int dir_open(int state_fd, const char *name, err_t **err)
{
	int fd;

	if (mkdirat(state_fd, name, 0700) < 0 && errno != EEXIST)
		return err_sys(err, errno, "state directory: %s", name);
	fd = openat(state_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? err_sys(err, errno, "state directory: %s", name) : fd;
}

struct journal *journal_open(struct loop *l, int state_fd, const struct journal_policy *p, err_t **err)
{
	struct journal *j = calloc(1, sizeof *j);

	if (!j) {
		err_set(err, ERR_NO_MEMORY, NULL, "journal");
		return NULL;
	}
	*j = (struct journal){ -1, -1, -1, NULL };
	if ((j->open_fd = dir_open(state_fd, "journal", err)) < 0 || (j->acked_fd = dir_open(state_fd, "acked", err)) < 0 ||
	    (j->output_fd = dir_open(state_fd, "output", err)) < 0 ||
	    !(j->sweep = sweep_new(l, j->acked_fd, j->output_fd, p, err))) {
		journal_free(j);
		return NULL;
	}
	return j;
}

void journal_free(struct journal *j)
{
	if (!j)
		return;
	sweep_free(j->sweep);
	for (int i = 0; i < 3; i++) {
		int fd = i == 0 ? j->open_fd : i == 1 ? j->acked_fd : j->output_fd;

		if (fd >= 0)
			close(fd);
	}
	free(j);
}

void journal_name(char dst[JOURNAL_NAME_SIZE], const char *cid, const char *what)
{
	if (str_fmt(dst, JOURNAL_NAME_SIZE, "%s.%s", cid, what) < 0)
		abort();   /* ids are checked, the rest is ours */
}

int journal_name_id(const char *name, char cid[ID_SIZE])
{
	if (strlen(name) != ID_SIZE - 1 + strlen(".log") || !str_eq(name + ID_SIZE - 1, ".log"))
		return -1;
	memcpy(cid, name, ID_SIZE - 1);
	cid[ID_SIZE - 1] = '\0';
	return id_valid(cid) ? 0 : -1;
}

static int file_open(int dirfd, const char *cid, const char *what, int flags)
{
	char name[JOURNAL_NAME_SIZE];

	journal_name(name, cid, what);
	return openat(dirfd, name, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
}

static bool has_log(int dirfd, const char *cid)
{
	char name[JOURNAL_NAME_SIZE];

	journal_name(name, cid, "log");
	return faccessat(dirfd, name, F_OK, 0) == 0;
}

bool journal_acked(struct journal *j, const char *cid)
{
	return has_log(j->acked_fd, cid);
}

bool journal_has(struct journal *j, const char *cid)
{
	return has_log(j->open_fd, cid) || has_log(j->acked_fd, cid);
}

int journal_create(struct journal *j, const char *cid, struct steps *s, const char *record, size_t record_len, int *ret_log, err_t **err)
{
	cleanup_close int fd = file_open(j->open_fd, cid, "log", O_RDWR | O_CREAT | O_EXCL | O_APPEND);

	if (fd < 0)
		return err_sys(err, errno, "journal %s", cid);
	FAULT_POINT("journal_entry_made");
	if (steps_create(fd, s, record, record_len, err) < 0) {
		journal_discard(j, cid);
		return -1;
	}
	FAULT_POINT("journal_entry_written");
	*ret_log = steal_fd(&fd);
	return 0;
}

/* Whatever was made after the log goes before it. */
void journal_discard(struct journal *j, const char *cid)
{
	static const char *const what[] = { "in", "out", "err", "idx" };
	char name[JOURNAL_NAME_SIZE];

	for (size_t i = 0; i < sizeof what / sizeof *what; i++) {
		journal_name(name, cid, what[i]);
		(void)unlinkat(j->output_fd, name, 0);
	}
	journal_name(name, cid, "log");
	(void)unlinkat(j->open_fd, name, 0);
}

int journal_log(struct journal *j, const char *cid, err_t **err)
{
	int fd = file_open(j->open_fd, cid, "log", O_RDWR | O_APPEND);

	if (fd < 0)
		return err_sys(err, errno, "journal %s", cid);
	steps_repair(fd);
	return fd;
}

static int read_log(int dirfd, const char *cid, struct steps *ret, char **ret_record, err_t **err)
{
	cleanup_free char *text = NULL;
	char name[JOURNAL_NAME_SIZE];
	size_t len = 0;

	journal_name(name, cid, "log");
	if (io_read_file(dirfd, name, STEPS_FILE_MAX, &text, &len, err) < 0)
		return -1;
	if (steps_parse(text, len, ret, err) < 0)
		return err_wrap(err, "journal %s", cid);
	if (!ret_record)
		return 0;
	*ret_record = str_dupn(text + ret->record_off, ret->record_len);
	return *ret_record ? 0 : err_set(err, ERR_NO_MEMORY, NULL, "journal %s", cid);
}

int journal_read(struct journal *j, const char *cid, struct steps *ret, char **ret_record, err_t **err)
{
	cleanup_err err_t *e = NULL;

	if (read_log(j->open_fd, cid, ret, ret_record, &e) == 0)
		return 0;
	if (err_code(e) != ERR_NOT_FOUND)
		return err_move(err, steal_ptr(&e));
	err_free(steal_ptr(&e));
	if (read_log(j->acked_fd, cid, ret, ret_record, &e) == 0)
		return 0;
	if (err_code(e) == ERR_NOT_FOUND)
		return err_set(err, ERR_NOT_FOUND, NULL, "command %s is not known", cid);
	return err_move(err, steal_ptr(&e));
}

struct output *journal_output(struct journal *j, const char *cid, const struct steps *s, err_t **err)
{
	struct output *o;

	if (!s->ended || s->end.bytes[0] || s->end.bytes[1])
		return output_open(j->output_fd, cid, &s->caps, s->ended ? s->end.bytes : NULL, err);
	o = output_new(j->output_fd, cid, &s->caps, err);
	if (o)
		output_finish(o);
	return o;
}

struct output *journal_output_fresh(struct journal *j, const char *cid, const struct steps *s, err_t **err)
{
	return output_new(j->output_fd, cid, &s->caps, err);
}

int journal_spool(struct journal *j, const char *cid, err_t **err)
{
	int fd = file_open(j->output_fd, cid, "in", O_RDWR | O_CREAT | O_APPEND);

	return fd < 0 ? err_sys(err, errno, "stdin spool of %s", cid) : fd;
}

void journal_spool_remove(struct journal *j, const char *cid)
{
	char name[JOURNAL_NAME_SIZE];

	journal_name(name, cid, "in");
	if (unlinkat(j->output_fd, name, 0) < 0 && errno != ENOENT)
		log_kv(LOG_WARN, "journal_spool_kept", "command", cid, "err", strerror(errno), NULL);
}

int journal_ack(struct journal *j, const char *cid, err_t **err)
{
	char name[JOURNAL_NAME_SIZE];

	journal_name(name, cid, "log");
	if (renameat(j->open_fd, name, j->acked_fd, name) < 0) {
		if (errno == ENOENT && journal_acked(j, cid))
			return 0;
		return err_sys(err, errno, "journal %s", cid);
	}
	FAULT_POINT("journal_acked");
	(void)utimensat(j->acked_fd, name, NULL, 0);   /* else its time is that of the end, a little earlier */
	return 0;
}

static void recover_one(struct journal *j, const char *cid, void (*fn)(void *arg, const char *cid, const struct steps *s), void *arg)
{
	cleanup_err err_t *e = NULL;
	struct steps s;

	if (read_log(j->open_fd, cid, &s, NULL, &e) == 0) {
		fn(arg, cid, &s);
		return;
	}
	log_kv(LOG_WARN, "journal_torn_entry_removed", "command", cid, "err", err_message(e), NULL);
	journal_discard(j, cid);
}

int journal_recover(struct journal *j, void (*fn)(void *arg, const char *cid, const struct steps *s), void *arg, err_t **err)
{
	int fd = openat(j->open_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cleanup_closedir DIR *d = fd < 0 ? NULL : fdopendir(fd);
	char cid[ID_SIZE];

	if (!d)
		return err_sys(err, errno, "journal");
	for (struct dirent *e; (e = readdir(d));)
		if (journal_name_id(e->d_name, cid) == 0)
			recover_one(j, cid, fn, arg);
	return 0;
}

int journal_free_permille(struct journal *j)
{
	struct statvfs v;
	uint64_t bytes, inodes = 1000;

	if (fstatvfs(j->open_fd, &v) < 0 || v.f_blocks == 0)
		return -1;
	bytes = (uint64_t)v.f_bavail * 1000 / v.f_blocks;
	if (v.f_files > 0)
		inodes = (uint64_t)v.f_favail * 1000 / v.f_files;
	return (int)(bytes < inodes ? bytes : inodes);
}
