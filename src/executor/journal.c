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
	struct sweep *sweep;
};

#define ENTRY_PATH (ID_SIZE + 8)

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
	j->open_fd = dir_open(state_fd, "journal", err);
	j->acked_fd = j->open_fd < 0 ? -1 : dir_open(state_fd, "acked", err);
	j->sweep = j->acked_fd < 0 ? NULL : sweep_new(l, j->acked_fd, p, err);
	if (!j->sweep) {
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
	if (j->open_fd >= 0)
		close(j->open_fd);
	if (j->acked_fd >= 0)
		close(j->acked_fd);
	free(j);
}

static void path_of(char dst[ENTRY_PATH], const char *cid, const char *file)
{
	if (str_fmt(dst, ENTRY_PATH, "%s/%s", cid, file) < 0)
		abort();   /* ids are checked, file names are ours */
}

static int file_open(int dirfd, const char *cid, const char *file, int flags)
{
	char path[ENTRY_PATH];

	path_of(path, cid, file);
	return openat(dirfd, path, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
}

bool journal_has(struct journal *j, const char *cid)
{
	return faccessat(j->open_fd, cid, F_OK, 0) == 0 || faccessat(j->acked_fd, cid, F_OK, 0) == 0;
}

int journal_create(struct journal *j, const char *cid, struct steps *s, const char *record, size_t record_len, int *ret_log, err_t **err)
{
	cleanup_close int fd = -1;

	if (faccessat(j->acked_fd, cid, F_OK, 0) == 0)
		return err_set(err, ERR_EXISTS, NULL, "command %s", cid);
	if (mkdirat(j->open_fd, cid, 0700) < 0)
		return err_sys(err, errno, "journal %s", cid);
	FAULT_POINT("journal_entry_made");
	fd = file_open(j->open_fd, cid, "log", O_RDWR | O_CREAT | O_EXCL | O_APPEND);
	if (fd < 0)
		err_sys(err, errno, "journal %s", cid);
	if (fd < 0 || steps_create(fd, s, record, record_len, err) < 0) {
		(void)io_remove_tree(j->open_fd, cid, NULL);
		return -1;
	}
	FAULT_POINT("journal_entry_written");
	*ret_log = steal_fd(&fd);
	return 0;
}

void journal_discard(struct journal *j, const char *cid)
{
	(void)io_remove_tree(j->open_fd, cid, NULL);
}

int journal_log(struct journal *j, const char *cid, err_t **err)
{
	int fd = file_open(j->open_fd, cid, "log", O_RDWR | O_APPEND);

	if (fd < 0)
		return err_sys(err, errno, "journal %s", cid);
	steps_repair(fd);
	return fd;
}

static int read_log(int dirfd, const char *cid, struct steps *ret, char **ret_text, err_t **err)
{
	cleanup_free char *text = NULL;
	char path[ENTRY_PATH];
	size_t len = 0;

	path_of(path, cid, "log");
	if (io_read_file(dirfd, path, STEPS_FILE_MAX, &text, &len, err) < 0)
		return -1;
	if (steps_parse(text, len, ret, err) < 0)
		return err_wrap(err, "journal %s", cid);
	if (ret_text)
		*ret_text = steal_ptr(&text);
	return 0;
}

int journal_read(struct journal *j, const char *cid, struct steps *ret, char **ret_text, err_t **err)
{
	cleanup_err err_t *e = NULL;

	if (read_log(j->open_fd, cid, ret, ret_text, &e) == 0)
		return 0;
	if (err_code(e) != ERR_NOT_FOUND)
		return err_move(err, steal_ptr(&e));
	err_free(steal_ptr(&e));
	if (read_log(j->acked_fd, cid, ret, ret_text, &e) == 0)
		return 0;
	if (err_code(e) == ERR_NOT_FOUND)
		return err_set(err, ERR_NOT_FOUND, NULL, "command %s is not known", cid);
	return err_move(err, steal_ptr(&e));
}

struct output *journal_output(struct journal *j, const char *cid, const struct steps *s, err_t **err)
{
	bool acked = s->ended && faccessat(j->open_fd, cid, F_OK, 0) < 0;

	return output_open(acked ? j->acked_fd : j->open_fd, cid, &s->caps, s->ended ? s->end.bytes : NULL, err);
}

struct output *journal_output_fresh(struct journal *j, const char *cid, const struct steps *s, err_t **err)
{
	return output_new(j->open_fd, cid, &s->caps, err);
}

int journal_spool(struct journal *j, const char *cid, err_t **err)
{
	int fd = file_open(j->open_fd, cid, "in", O_RDWR | O_CREAT | O_APPEND);

	return fd < 0 ? err_sys(err, errno, "stdin spool of %s", cid) : fd;
}

void journal_spool_remove(struct journal *j, const char *cid)
{
	char path[ENTRY_PATH];

	path_of(path, cid, "in");
	if (unlinkat(j->open_fd, path, 0) < 0 && errno != ENOENT)
		log_kv(LOG_WARN, "journal_spool_kept", "command", cid, "err", strerror(errno), NULL);
}

int journal_ack(struct journal *j, const char *cid, err_t **err)
{
	cleanup_close int fd = file_open(j->open_fd, cid, "log", O_RDWR | O_APPEND);

	if (fd < 0 && errno == ENOENT && faccessat(j->acked_fd, cid, F_OK, 0) == 0)
		return 0;
	if (fd < 0)
		return err_sys(err, errno, "journal %s", cid);
	if (steps_acked(fd, err) < 0)
		return -1;
	FAULT_POINT("journal_ack_written");
	if (renameat(j->open_fd, cid, j->acked_fd, cid) < 0)
		return err_sys(err, errno, "journal %s", cid);
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
	(void)io_remove_tree(j->open_fd, cid, NULL);
}

int journal_recover(struct journal *j, void (*fn)(void *arg, const char *cid, const struct steps *s), void *arg, err_t **err)
{
	int fd = openat(j->open_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cleanup_closedir DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (!d)
		return err_sys(err, errno, "journal");
	for (struct dirent *e; (e = readdir(d));)
		if (id_valid(e->d_name))
			recover_one(j, e->d_name, fn, arg);
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
