/* journal.h - what is on disk of commands (docs/journal.md has the whole story):
 *
 *   journal/N                      slots: the log of one command each, until its end is acknowledged
 *   acked/<10 digits of the id>    archive: the logs of acknowledged commands; its time of change is that of the last acknowledgement
 *   output/<cid>.{out,err,idx,in}  what it wrote, the order of arrival, the spool of its stdin; each made when it is needed
 *
 * Local disk work of microseconds; large files are removed in steps. Ids are checked by the caller (id_valid). */
#ifndef PADDOCK_EXECUTOR_JOURNAL_H
#define PADDOCK_EXECUTOR_JOURNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "core/loop.h"
#include "executor/output.h"
#include "executor/steps.h"

struct journal;

struct journal_policy {
	int64_t keep_ms;       /* acknowledged and the instance is gone */
	int64_t keep_max_ms;   /* acknowledged, in any case */
	bool (*instance_gone)(void *arg, const char *iid);
	void *arg;
};

struct journal *journal_open(struct loop *l, int state_fd, const struct journal_policy *p, err_t **err);
void journal_free(struct journal *j);

/* --- open commands; their caller knows the slot --- */
/* Takes a slot and writes the first lines of s->cid's log. Returns the log, open for appending. */
int journal_create(struct journal *j, struct steps *s, const char *record, size_t record_len, unsigned *ret_slot, err_t **err);
void journal_discard(struct journal *j, const char *cid, unsigned slot, int log_fd);   /* an entry that nobody was told of; takes the fd */
/* The log for appending; a torn last line is cut off. */
int journal_log(struct journal *j, unsigned slot, err_t **err);
/* The caller's record, malloc'ed. */
char *journal_record(struct journal *j, unsigned slot, const struct steps *s, err_t **err);
/* The end was acknowledged: the log goes to the archive, the slot is free. */
int journal_ack(struct journal *j, const char *cid, unsigned slot, err_t **err);
/* Calls fn for each command that is in a slot; slots with torn logs are freed. A log that cannot be read at
 * present is an error: the caller must not go on without it. At start only. */
int journal_recover(struct journal *j, void (*fn)(void *arg, unsigned slot, const struct steps *s), void *arg, err_t **err);

/* --- acknowledged commands --- */
bool journal_acked(struct journal *j, const char *cid);
/* *ret_record: malloc'ed; NULL when not wanted. ERR_NOT_FOUND. */
int journal_read(struct journal *j, const char *cid, struct steps *ret, char **ret_record, err_t **err);

/* --- files of both --- */
/* See output_open(). */
struct output *journal_output(struct journal *j, const struct steps *s, err_t **err);
/* The same for an entry that was made just now. */
struct output *journal_output_fresh(struct journal *j, const struct steps *s, err_t **err);
/* The spool of stdin: open for reading and appending, made when absent. */
int journal_spool(struct journal *j, const char *cid, err_t **err);
void journal_spool_remove(struct journal *j, const char *cid);
/* Free bytes and inodes of the file system, as permille of the whole (the smaller one). */
int journal_free_permille(struct journal *j);

/* "<cid>.<what>" */
#define JOURNAL_NAME_SIZE (ID_SIZE + 8)
void journal_name(char dst[JOURNAL_NAME_SIZE], const char *cid, const char *what);

#endif
