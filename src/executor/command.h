/* command.h - one command: what is in memory of it while it is open, and the moves between its states.
 *
 * pending -> handed -> running -> ended. Each move is written to the journal before it is acted on. Of an ended command only this
 * struct without `live` stays, until its end is acknowledged; then everything is read from the journal. Shared by command*.c and commands.c only. */
#ifndef PADDOCK_EXECUTOR_COMMAND_H
#define PADDOCK_EXECUTOR_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

#include "core/loop.h"
#include "executor/feed.h"
#include "executor/idmap.h"
#include "executor/instances.h"
#include "executor/journal.h"
#include "executor/pump.h"
#include "executor/report.h"
#include "executor/spec.h"
#include "executor/steps.h"

struct commands;

struct live {
	struct list node;          /* in commands->open until the end is written */
	struct command *c;
	struct spec *spec;         /* until the agent has started it; NULL after a restart */
	struct output *o;
	struct pump *pump;
	struct feed feed;
	bool told;                 /* the agent named it in its present connection */
	enum { UNSAID_NOTHING, UNSAID_START, UNSAID_KILL } unsaid;   /* the provider was away when it was to be told: it is told again */
	bool over_limit;
	bool ending;               /* until its end is written, and settled a moment later */
	struct outcome end;
	struct loop_timer *again;  /* while ending: tries to write the end once more, or settles it */
};

struct command {
	struct idmap_node node;    /* first */
	struct commands *cs;
	struct steps st;
	unsigned slot;             /* of its log; free when acked */
	int log_fd;                /* -1: not open, for it has ended (see log_keep() in command.c) */
	char *record;              /* as it came, when it is small; else NULL: it is read from the journal */
	struct report report;
	bool ended;
	struct live *live;         /* NULL when its end is settled */
};

enum { COMMAND_VERSION_STARTED = 2, COMMAND_VERSION_ENDED = 3 };

/* spec: of a new command; NULL: found in the journal. Takes over spec and log_fd. NULL: out of memory, both are released. */
struct command *command_new(struct commands *cs, unsigned slot, const struct steps *st, struct spec *spec, int log_fd, err_t **err);
/* Its log's descriptor, or -1; the caller's from now on. */
int command_log_take(struct command *c);
struct command *command_new_ended(struct commands *cs, unsigned slot, const struct steps *st, err_t **err);
void command_free(struct command *c);   /* takes it out of every list; the journal is untouched */

void command_start(struct command *c);                                  /* hands it to the agent when that is possible now */
void command_started(struct command *c, const struct exec_started *s, int out_fd, int err_fd);
void command_exited(struct command *c, const struct exec_exited *e);
void command_say_again(struct command *c);                              /* what is unsaid */
void command_connected(struct command *c);                              /* the agent's connection is ready */
void command_instance_over(struct command *c, enum instance_state s);   /* failed, lost or gone */
void command_instance_paused(struct command *c);                        /* what ran is lost, what waits goes on waiting */
void command_wake_failed(struct command *c);
int command_kill(struct command *c, enum reason why, err_t **err);
int command_signal(struct command *c, int signo, err_t **err);

#endif
