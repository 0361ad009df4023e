/* executor.h - the parts of the daemon, for its route handlers. */
#ifndef PADDOCK_EXECUTOR_EXECUTOR_H
#define PADDOCK_EXECUTOR_EXECUTOR_H

#include "core/config.h"
#include "core/loop.h"
#include "executor/commands.h"
#include "executor/http.h"
#include "executor/instances.h"
#include "executor/journal.h"
#include "executor/report.h"
#include "executor/scopes.h"
#include "executor/ticket.h"

struct listing;

struct executor {
	struct loop *loop;
	const struct config *config;
	struct journal *journal;
	struct reports *reports;
	struct commands *commands;
	struct instances *instances;
	struct scopes *scopes;
	struct tickets *tickets;
	struct http *http;
	struct list instance_watches;   /* told at every change of an instance, and at every answer to a keepalive */
	struct listing *listing;        /* what the provider listed (res_provider.c) */
	int64_t started_ms;             /* boot time */
	int64_t lag_max_us;             /* the loop's longest delay of a timer since the last /metrics */
};

extern const struct route executor_routes[];

/* A Command as an object with braces: members of record and state; texts when asked for. */
int executor_command_members(struct executor *x, const char *cid, bool texts, struct buf *b, err_t **err);   /* without the braces */
int executor_command(struct executor *x, const char *cid, bool texts, struct buf *b, err_t **err);

#endif
