/* truth.h - what the scripted provider says has really happened (its log: scripted_world.h), read as it grows, and what nobody may bring about in it:
 *
 * two living instances of a workspace (but for one whose destruction failed as often as makes it stuck), an id made again, a command started twice or in a
 * scope that had ended, a pause that was asked for while commands run. */
#ifndef PADDOCK_TESTS_TRUTH_H
#define PADDOCK_TESTS_TRUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/id.h"

#define TRUTH_STUCK_TRIES 5

enum truth_state { TRUTH_MAKING, TRUTH_RUNNING, TRUTH_PAUSING, TRUTH_PAUSED, TRUTH_WAKING, TRUTH_FAILED, TRUTH_VANISHED, TRUTH_GONE };

struct truth_instance {
	char id[ID_SIZE], workspace[65];
	enum truth_state state;
	int64_t ran_us, since_us;
	int destroys;                /* asked for */
	int running;                 /* commands without an end */
};

struct truth_command {
	char id[ID_SIZE], scope[ID_SIZE];
	size_t instance;             /* its place among the instances */
	bool ended;
	char how[12], why[12];       /* exited|signaled|lost; none|timeout|killed */
	int code;
	int64_t bg_until_us;         /* a process that it left behind; 0: none */
};

struct truth {
	int fd;
	int64_t at;
	char *tail;
	size_t tail_n, tail_size;
	struct truth_instance *instances;
	struct truth_command *commands;
	size_t n_instances, n_commands;
	struct truth_index { uint32_t *slots; size_t size, n; } by_instance, by_command, ended_scopes;
	char (*scopes)[ID_SIZE];     /* that have ended */
	size_t n_scopes;
	size_t *living, n_living;    /* places of instances that are there */
	size_t *alive, n_alive;      /* places of commands of which a process may be left */
	char violation[512];         /* "": none */
};

void truth_open(struct truth *t, const char *dir);
void truth_read(struct truth *t);           /* what has been written since */
void truth_close(struct truth *t);

const struct truth_instance *truth_instance(const struct truth *t, const char *id);   /* NULL: never made */
const struct truth_command *truth_command(const struct truth *t, const char *id);     /* NULL: never started */
/* A process of it is there at this time. */
bool truth_alive(const struct truth *t, const struct truth_command *c, int64_t now_us);
int64_t truth_ran_ms(const struct truth_instance *i, int64_t now_us);

#endif
