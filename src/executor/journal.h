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
#include "executor/space.h"
#include "executor/steps.h"

struct journal;

struct journal_policy {
	int64_t keep_ms;       /* acknowledged and the instance is gone */
	int64_t keep_max_ms;   /* acknowledged, in any case */
	bool (*instance_gone)(void *arg, const char *iid);
	void *arg;
	uint64_t max_bytes;    /* of all entries; acknowledged ones go early to keep to it, then new commands are refused */
	uint64_t min_free;     /* bytes that stay free on the file system, in the same way */
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
/* The end was acknowledged: the log goes to the archive, the slot is free. Takes log_fd (-1: not open). */
int journal_ack(struct journal *j, const struct steps *s, unsigned slot, int log_fd, err_t **err);
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

/* --- room --- */
/* Tells the bytes that entries hold which are not acknowledged, and how many commands are open. */
typedef uint64_t journal_held_fn(void *arg, unsigned *ret_open);
void journal_set_held(struct journal *j, journal_held_fn *fn, void *arg);
/* Whether a new command may be taken on. ERR_NO_SPACE. */
int journal_room(struct journal *j, err_t **err);
/* A line could not be written: gives the bytes away that were set aside for that. True when trying again makes sense. */
bool journal_open_reserve(struct journal *j);
void journal_space(struct journal *j, struct space_facts *ret);

/* "<cid>.<what>" */
#define JOURNAL_NAME_SIZE (ID_SIZE + 8)
void journal_name(char dst[JOURNAL_NAME_SIZE], const char *cid, const char *what);

#endif
