/* steps.h - the log of a command in the journal: one line of JSON for each step of a command, appended by one write each.
 *
 * Line 1: what was asked (no environment, no stdin, no command text of its own); line 2: the caller's record, as it came; then any of
 * handed, started, stdin_eof, kill, end. A line without its newline was torn by our death and does not count. docs/journal.md
 * says what each one means to recovery. No fsync: the lines guard against the death of processes; with the machine its commands die too. */
#ifndef PADDOCK_EXECUTOR_STEPS_H
#define PADDOCK_EXECUTOR_STEPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "core/id.h"
#include "core/json.h"
#include "executor/outcome.h"
#include "executor/output.h"

#define STEPS_RUN_MAX 64
#define STEPS_FILE_MAX (8u << 20)

struct steps {
	char cid[ID_SIZE];
	char instance[ID_SIZE];
	char scope[ID_SIZE];          /* the attempt of a Run that it belongs to; the instance's id when none was named */
	char run_id[STEPS_RUN_MAX];   /* of the record; "" when it has none */
	int64_t timeout_ms;
	enum timer timer;             /* whose time that is */
	int64_t accepted_ms;          /* all times are wall time; 0: not yet */
	int64_t handed_ms;            /* it may have reached the agent from here on */
	int64_t started_ms;
	int32_t process_group;
	bool stdin_open;              /* it has a stdin other than /dev/null */
	bool stdin_eof;               /* nothing will be added to the spool */
	enum reason kill;             /* a kill was asked for */
	bool ended;
	struct outcome end;
	struct output_caps caps;
	size_t record_off, record_len;
};

/* Cuts a torn last line off, so that the next one starts clean. The file is open for reading and appending. */
void steps_repair(int fd);
/* Line 1 and 2, and with handed_ms also the step `handed`, by one write. Sets record_off and record_len. */
int steps_create(int fd, struct steps *s, const char *record, size_t record_len, err_t **err);
int steps_handed(int fd, struct steps *s, err_t **err);
int steps_started(int fd, struct steps *s, int64_t started_ms, int32_t process_group, err_t **err);
int steps_stdin_eof(int fd, struct steps *s, err_t **err);
int steps_kill(int fd, struct steps *s, enum reason why, err_t **err);
int steps_end(int fd, struct steps *s, const struct outcome *o, err_t **err);

/* Parses a whole file. ERR_INVALID when the first two lines are not both there (the command was never acknowledged to anyone). */
int steps_parse(const char *text, size_t len, struct steps *ret, err_t **err);
/* The length of the part of text that is whole lines. */
size_t steps_whole(const char *text, size_t len);

#endif
