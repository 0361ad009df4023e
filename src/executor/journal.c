#include "executor/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fault.h"
#include "base/io.h"
#include "base/log.h"
#include "base/str.h"
#include "executor/archive.h"
#include "executor/slots.h"
#include "executor/space.h"
#include "executor/sweep.h"

struct journal {
	int open_fd;      /* <state>/journal */
	int acked_fd;     /* <state>/acked */
	int output_fd;    /* <state>/output */
	struct slots *slots;
	struct archive *archive;
	struct sweep *sweep;
	struct space *space;
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
	*j = (struct journal){ .open_fd = -1, .acked_fd = -1, .output_fd = -1 };
	if ((j->open_fd = dir_open(state_fd, "journal", err)) < 0 || (j->acked_fd = dir_open(state_fd, "acked", err)) < 0 ||
	    (j->output_fd = dir_open(state_fd, "output", err)) < 0 || !(j->slots = slots_new(j->open_fd, err)) ||
	    !(j->archive = archive_new(j->acked_fd, err)) || !(j->sweep = sweep_new(l, j->archive, j->acked_fd, j->output_fd, p, err)) ||
	    !(j->space = space_new(l, state_fd, j->sweep, p, err))) {
		journal_free(j);
		return NULL;
	}
	return j;
}

void journal_free(struct journal *j)
{
	if (!j)
		return;
	space_free(j->space);
	sweep_free(j->sweep);
	archive_free(j->archive);
	slots_free(j->slots);
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

/* --- open commands --- */

int journal_create(struct journal *j, struct steps *s, const char *record, size_t record_len, unsigned *ret_slot, err_t **err)
{
	int fd = slots_take(j->slots, ret_slot, err);

	if (fd < 0)
		return -1;
	FAULT_POINT(command_put_slot_taken);
	FAULT_POINT(command_put_before_row);
	if (steps_create(fd, s, record, record_len, err) < 0) {
		slots_give(j->slots, *ret_slot, fd);
		return -1;
	}
	FAULT_POINT(command_put_after_row);
	return fd;
}

/* Whatever was made after the log goes before it. */
void journal_discard(struct journal *j, const char *cid, unsigned slot, int log_fd)
{
	journal_spool_remove(j, cid);
	slots_give(j->slots, slot, log_fd);
}

int journal_log(struct journal *j, unsigned slot, err_t **err)
{
	int fd = slots_open(j->slots, slot, err);

	if (fd >= 0)
		steps_repair(fd);
	return fd;
}

/* The whole log, malloc'ed. */
static int slurp(int fd, char **ret, size_t *ret_len, err_t **err)
{
	cleanup_free char *text = NULL;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_sys(err, errno, "journal log");
	if (st.st_size > (off_t)STEPS_FILE_MAX)
		return err_set(err, ERR_TOO_LARGE, NULL, "journal log");
	text = malloc((size_t)st.st_size + 1);
	if (!text)
		return err_set(err, ERR_NO_MEMORY, NULL, "journal log");
	if (io_pread(fd, text, (size_t)st.st_size, 0) != (ssize_t)st.st_size)
		return err_set(err, ERR_INTERNAL, NULL, "journal log is unreadable");
	text[st.st_size] = '\0';
	*ret = steal_ptr(&text);
	*ret_len = (size_t)st.st_size;
	return 0;
}

static char *record_of(const char *text, const struct steps *s, err_t **err)
{
	char *record = str_dupn(text + s->record_off, s->record_len);

	if (!record)
		err_set(err, ERR_NO_MEMORY, NULL, "command %s", s->cid);
	return record;
}

char *journal_record(struct journal *j, unsigned slot, const struct steps *s, err_t **err)
{
	cleanup_close int fd = slots_open(j->slots, slot, err);
	cleanup_free char *text = NULL;
	size_t n = 0;

	if (fd < 0 || slurp(fd, &text, &n, err) < 0)
		return NULL;
	if (n < s->record_off + s->record_len) {
		err_set(err, ERR_INTERNAL, NULL, "journal log of %s is too short", s->cid);
		return NULL;
	}
	return record_of(text, s, err);
}

/* With the reserve, if need be: only acknowledged commands can give room. */
static int archive(struct journal *j, const char *cid, const char *text, size_t n, err_t **err)
{
	cleanup_err err_t *e = NULL;

	if (archive_add(j->archive, cid, text, n, &e) == 0 ||
	    (err_code(e) == ERR_NO_SPACE && space_open_reserve(j->space) && archive_add(j->archive, cid, text, n, NULL) == 0))
		return 0;
	return err_move(err, steal_ptr(&e));
}

int journal_ack(struct journal *j, const struct steps *s, unsigned slot, int log_fd, err_t **err)
{
	cleanup_close int fd = log_fd >= 0 ? log_fd : slots_open(j->slots, slot, err);
	cleanup_free char *text = NULL;
	size_t n = 0;

	if (fd < 0 || slurp(fd, &text, &n, err) < 0)
		return -1;
	FAULT_POINT(command_ack_before_row);
	if (archive(j, s->cid, text, n, err) < 0)
		return -1;
	FAULT_POINT(command_ack_after_row);
	slots_give(j->slots, slot, steal_fd(&fd));
	sweep_acked(j->sweep, s->cid, n, s->end.bytes[0] || s->end.bytes[1]);
	return 0;
}

struct recovery {
	struct journal *j;
	void (*fn)(void *arg, unsigned slot, const struct steps *s);
	void *arg;
};

/* Only what was read and makes no sense is a torn entry. What cannot be read now (descriptors, memory, the disk) is kept: better not to start. */
static int recover_one(void *arg, unsigned slot, err_t **err)
{
	struct recovery *r = arg;
	cleanup_err err_t *e = NULL;
	cleanup_close int fd = slots_open(r->j->slots, slot, &e);
	cleanup_free char *text = NULL;
	struct steps s;
	size_t n = 0;

	if (fd >= 0 && slurp(fd, &text, &n, &e) == 0 && n > 0 && steps_parse(text, n, &s, &e) == 0) {
		r->fn(r->arg, slot, &s);
		return 1;
	}
	if (e && err_code(e) != ERR_INVALID && err_code(e) != ERR_TOO_LARGE)
		return err_move(err, steal_ptr(&e));
	if (e)
		log_kv(LOG_WARN, "journal_torn_entry_removed", "err", err_message(e), NULL);
	return 0;
}

int journal_recover(struct journal *j, void (*fn)(void *arg, unsigned slot, const struct steps *s), void *arg, err_t **err)
{
	struct recovery r = { j, fn, arg };

	return slots_each(j->slots, recover_one, &r, err);
}

/* --- acknowledged commands --- */

bool journal_acked(struct journal *j, const char *cid)
{
	return archive_has(j->archive, cid);
}

int journal_read(struct journal *j, const char *cid, struct steps *ret, char **ret_record, err_t **err)
{
	cleanup_free char *text = NULL;
	size_t n = 0;

	if (archive_read(j->archive, cid, &text, &n, err) < 0)
		return -1;
	if (steps_parse(text, n, ret, err) < 0)
		return err_wrap(err, "archive of %s", cid);
	if (!ret_record)
		return 0;
	*ret_record = record_of(text, ret, err);
	return *ret_record ? 0 : -1;
}

/* --- files of both --- */

struct output *journal_output(struct journal *j, const struct steps *s, err_t **err)
{
	struct output *o;

	if (!s->ended || s->end.bytes[0] || s->end.bytes[1])
		return output_open(j->output_fd, s->cid, &s->caps, s->ended ? s->end.bytes : NULL, err);
	o = output_new(j->output_fd, s->cid, &s->caps, err);
	if (o)
		output_finish(o);
	return o;
}

struct output *journal_output_fresh(struct journal *j, const struct steps *s, err_t **err)
{
	return output_new(j->output_fd, s->cid, &s->caps, err);
}

int journal_spool(struct journal *j, const char *cid, err_t **err)
{
	char name[JOURNAL_NAME_SIZE];
	int fd;

	journal_name(name, cid, "in");
	fd = openat(j->output_fd, name, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	return fd < 0 ? err_sys(err, errno, "stdin spool of %s", cid) : fd;
}

void journal_spool_remove(struct journal *j, const char *cid)
{
	char name[JOURNAL_NAME_SIZE];

	journal_name(name, cid, "in");
	if (unlinkat(j->output_fd, name, 0) < 0 && errno != ENOENT)
		log_kv(LOG_WARN, "journal_spool_kept", "command", cid, "err", strerror(errno), NULL);
}

/* --- room --- */

void journal_set_held(struct journal *j, journal_held_fn *fn, void *arg)
{
	space_set_held(j->space, fn, arg);
}

int journal_room(struct journal *j, err_t **err)
{
	return space_take(j->space, err);
}

bool journal_open_reserve(struct journal *j)
{
	return space_open_reserve(j->space);
}

void journal_space(struct journal *j, struct space_facts *ret)
{
	space_look(j->space, ret);
}
