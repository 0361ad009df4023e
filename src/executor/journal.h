/* journal.h - the directories of the journal: <state>/journal/<cid>/ while a command is open or its end is not acknowledged,
 * <state>/acked/<cid>/ from then until its retention is over. docs/journal.md has the whole story.
 *
 * Everything here is local disk work of microseconds; large files are removed in steps. Ids are checked by the caller (id_valid). */
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

/* Makes the entry and writes its first lines. *ret_log: the log, open for appending. ERR_EXISTS when cid is in the journal already. */
int journal_create(struct journal *j, const char *cid, struct steps *s, const char *record, size_t record_len, int *ret_log, err_t **err);
void journal_discard(struct journal *j, const char *cid);   /* an entry that nobody was told of */
/* Opens the log of an entry that is not acknowledged for appending; a torn last line is cut off. */
int journal_log(struct journal *j, const char *cid, err_t **err);
/* Reads an entry, wherever it lies. *ret_text (malloc'ed, may be NULL when not wanted) holds the record at record_off. ERR_NOT_FOUND. */
int journal_read(struct journal *j, const char *cid, struct steps *ret, char **ret_text, err_t **err);
bool journal_has(struct journal *j, const char *cid);
/* The output of an entry: see output_open(). */
struct output *journal_output(struct journal *j, const char *cid, const struct steps *s, err_t **err);
/* The same for an entry that was made just now. */
struct output *journal_output_fresh(struct journal *j, const char *cid, const struct steps *s, err_t **err);
/* The spool of stdin: open for reading and appending, made when absent. */
int journal_spool(struct journal *j, const char *cid, err_t **err);
void journal_spool_remove(struct journal *j, const char *cid);
/* The end was acknowledged: moves the entry. Idempotent; ERR_NOT_FOUND when it is in neither place. */
int journal_ack(struct journal *j, const char *cid, err_t **err);

/* Calls fn for each entry that is not acknowledged; entries that were never acknowledged to their caller (torn) are removed. At start only. */
int journal_recover(struct journal *j, void (*fn)(void *arg, const char *cid, const struct steps *s), void *arg, err_t **err);
/* Free bytes and inodes of the file system, as permille of the whole (the smaller one). */
int journal_free_permille(struct journal *j);

#endif
