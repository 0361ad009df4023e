/* commands_priv.h - what commands*.c and command.c share. */
#ifndef PADDOCK_EXECUTOR_COMMANDS_PRIV_H
#define PADDOCK_EXECUTOR_COMMANDS_PRIV_H

#include "executor/command.h"
#include "executor/commands.h"

struct commands {
	struct loop *loop;
	struct journal *journal;
	struct reports *reports;
	struct instances *instances;   /* NULL until commands_attach() */
	const struct scopes *scopes;
	struct commands_limits limits;
	struct idmap map;
	struct list open;              /* live.node */
	unsigned n_open;
	unsigned n_logs;               /* of ended commands, kept open */
	struct loop_timer *feed_again;
	struct loop_timer *say_again;  /* armed while something is unsaid */
	bool saying_again;
};

struct command *commands_find(const struct commands *cs, const char *cid);   /* NULL when it is not in the table */

#endif
