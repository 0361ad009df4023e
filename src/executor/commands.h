/* commands.h - the table of commands: those that are open, and those whose end is not acknowledged. Acknowledged ones are read from the journal.
 *
 * Functions that take an id work for all three. Nothing here blocks but for local disk. */
#ifndef PADDOCK_EXECUTOR_COMMANDS_H
#define PADDOCK_EXECUTOR_COMMANDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "core/loop.h"
#include "executor/instances.h"
#include "executor/journal.h"
#include "executor/report.h"
#include "executor/spec.h"

struct commands;
struct command;
struct scopes;

struct commands_limits {
	uint64_t output_limit;     /* bytes of both streams; 0: none */
	uint64_t stdin_bytes;
	size_t text_bytes;
	unsigned max_commands, instance_commands;
	struct output_caps caps;
};

enum command_phase { COMMAND_UNKNOWN, COMMAND_PENDING, COMMAND_RUNNING, COMMAND_ENDED };

/* Reads the journal: open commands wait for their instance's agent, ended ones are reported. */
struct commands *commands_new(struct loop *l, struct journal *j, struct reports *r, const struct commands_limits *lim, err_t **err);
void commands_free(struct commands *cs);
/* Once, when the instances are open: ends the commands whose instance is not there any more. */
void commands_attach(struct commands *cs, struct instances *is, const struct scopes *s);

/* Takes a command on and starts it when its instance is ready. *ret_new tells whether it was new. Takes over s. Errors: ERR_GONE instance_gone, ERR_NOT_FOUND
 * instance_not_found, ERR_GONE scope_gone, ERR_LIMIT too_many_commands or too_many_instances, ERR_TOO_LARGE stdin_too_large, ERR_INVALID, ERR_NO_SPACE. */
int commands_put(struct commands *cs, const char *cid, struct spec *s, bool *ret_new, err_t **err);

enum command_phase commands_phase(struct commands *cs, const char *cid);
/* iid: the instance that the caller means, or NULL. ERR_CONFLICT not_running, other_instance; ERR_NOT_FOUND. */
int commands_kill(struct commands *cs, const char *cid, const char *iid, enum reason why, err_t **err);
int commands_signal(struct commands *cs, const char *cid, const char *iid, int signo, err_t **err);
/* Kills what is open of that scope in that instance. */
void commands_scope_end(struct commands *cs, const char *iid, const char *scope, enum reason why);
unsigned commands_open_in(struct commands *cs, const char *iid, const char *scope);   /* how many have not ended there */
int commands_stdin(struct commands *cs, const char *cid, const void *p, size_t n, bool eof, err_t **err);
uint64_t commands_stdin_received(struct commands *cs, const char *cid);
/* The end was taken in: the entry goes to its retention. An outdated version is ignored. */
void commands_ack(struct commands *cs, const char *cid, uint64_t version);

/* A reference to the command's output. ERR_NOT_FOUND. */
struct output *commands_output(struct commands *cs, const char *cid, err_t **err);
/* Facts of one command. *ret_record, when wanted, is malloc'ed and holds the record as it came. ERR_NOT_FOUND. */
int commands_facts(struct commands *cs, const char *cid, struct steps *ret, char **ret_record, err_t **err);

/* From the instances. */
void commands_instance_changed(struct commands *cs, struct instance *i);
void commands_instance_wake_failed(struct commands *cs, struct instance *i);
void commands_instance_connected(struct commands *cs, struct instance *i);
void commands_started(struct commands *cs, const char *iid, const char *cid, const struct exec_started *s, int out_fd, int err_fd);
void commands_exited(struct commands *cs, const char *iid, const char *cid, const struct exec_exited *e);
void commands_stdin_taken(struct commands *cs, const char *iid, const char *cid, uint64_t taken, uint64_t window);

unsigned commands_open(struct commands *cs, const char *iid);   /* open commands of iid, or of all when NULL */
const struct commands_limits *commands_limits(const struct commands *cs);

#endif
