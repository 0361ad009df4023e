/* journal.h - the files of the journal, flat in three directories of the state directory:
 *
 *   journal/<cid>.log              while the command is open or its end is not acknowledged
 *   acked/<cid>.log                from then on; its time of change is that of the acknowledgement
 *   output/<cid>.{out,err,idx,in}  what it wrote, the order of arrival, the spool of its stdin; each made when it is needed
 *
 * docs/journal.md has the whole story. Local disk work of microseconds; large files are removed in steps. Ids are checked by the caller (id_valid). */
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

/* Makes the log and writes its first lines. *ret_log: the log, open for appending. ERR_EXISTS when there is a log that is not acknowledged. */
int journal_create(struct journal *j, const char *cid, struct steps *s, const char *record, size_t record_len, int *ret_log, err_t **err);
void journal_discard(struct journal *j, const char *cid);   /* an entry that nobody was told of */
/* Opens the log of an entry that is not acknowledged for appending; a torn last line is cut off. */
int journal_log(struct journal *j, const char *cid, err_t **err);
/* Reads an entry, acknowledged or not. *ret_record (malloc'ed; NULL when not wanted) is the caller's record. ERR_NOT_FOUND. */
int journal_read(struct journal *j, const char *cid, struct steps *ret, char **ret_record, err_t **err);
bool journal_has(struct journal *j, const char *cid);
bool journal_acked(struct journal *j, const char *cid);
/* The output of an entry: see output_open(). */
struct output *journal_output(struct journal *j, const char *cid, const struct steps *s, err_t **err);
/* The same for an entry that was made just now. */
struct output *journal_output_fresh(struct journal *j, const char *cid, const struct steps *s, err_t **err);
/* The spool of stdin: open for reading and appending, made when absent. */
int journal_spool(struct journal *j, const char *cid, err_t **err);
void journal_spool_remove(struct journal *j, const char *cid);
/* The end was acknowledged. Idempotent; ERR_NOT_FOUND when there is no such entry. */
int journal_ack(struct journal *j, const char *cid, err_t **err);

/* Calls fn for each entry that is not acknowledged; entries whose first lines are torn (nobody was told of them) are removed. At start only. */
int journal_recover(struct journal *j, void (*fn)(void *arg, const char *cid, const struct steps *s), void *arg, err_t **err);
/* Free bytes and inodes of the file system, as permille of the whole (the smaller one). */
int journal_free_permille(struct journal *j);

/* "<cid>.<what>" */
#define JOURNAL_NAME_SIZE (ID_SIZE + 8)
void journal_name(char dst[JOURNAL_NAME_SIZE], const char *cid, const char *what);
/* The id of a log's file name; -1 when it is not one. */
int journal_name_id(const char *name, char cid[ID_SIZE]);

#endif
