/* sandbox_model.h - what a walk over users' sandboxes remembers (tests/unit/test_sandbox_model.c): what its calls were told, what it has seen of each user's
 * sandbox, and the rules that hold after every event, whoever did what. A rule that is broken ends the test with the event's name. */
#ifndef PADDOCK_TESTS_SANDBOX_MODEL_H
#define PADDOCK_TESTS_SANDBOX_MODEL_H

#include <libpq-fe.h>

#include "domain/runs.h"
#include "lib/stand.h"
#include "lib/truth.h"

#define MODEL_USERS 8
#define MODEL_LIVE 32        /* Runs and commands of a user that events choose from */

struct model_run {
	char id[ID_SIZE];
	char token[LEASE_TOKEN_SIZE];
	unsigned user;
	int64_t input;           /* the number in its input; -1: another process made it */
	char status[20];         /* terminal, as answered; "": none was */
	char successor[ID_SIZE];
};

struct model_command {
	char id[ID_SIZE];
	unsigned user;
	char reason[20];         /* of its end, as answered; "": none was */
};

struct model_user {
	struct caller caller;
	char instance[ID_SIZE];  /* the present one, "" */
	char state[16];
	int64_t generation;      /* the highest that was seen */
	size_t live[MODEL_LIVE], n_live;            /* Runs that were not told to be over, oldest first */
	size_t recent[MODEL_LIVE], n_recent;        /* commands */
	size_t over;                                /* a Run that is over */
};

struct model {
	struct stand *stand;
	struct truth truth;
	PGconn *db;
	struct model_user users[MODEL_USERS];
	struct model_run *runs;
	struct model_command *commands;
	size_t n_runs, n_commands, commands_seen;
	char (*used)[ID_SIZE];   /* instances that were somebody's */
	size_t n_used;
	const char *event;       /* the present one */
	long step;
	bool child;              /* a process of its own that dies with the event */
};

void model_open(struct model *m, struct stand *s);
void model_close(struct model *m);
/* The rule that is broken; does not return. */
void model_broken(const struct model *m, const char *fmt, ...) __attribute__((format(printf, 2, 3), noreturn));
/* Moves times, and the like; by the superuser. */
void model_sql(struct model *m, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* How much stands against a pause of that user's sandbox; against a replacement, too: active Runs. 0 when there is none, or it sleeps, unless
 * that was granted. */
long model_blockers(struct model *m, unsigned user, bool replaces, bool granted);
/* How many pauses, rebuilds and releases that user's calls have decided. */
long model_decisions(struct model *m, unsigned user);

/* A Run as it was answered; token NULL: that answer had none. input -1: not known. */
struct model_run *model_run_told(struct model *m, unsigned user, const json_t *run, const char *token, int64_t input);
/* A Run of one command; live: events may choose it. */
void model_execute_told(struct model *m, unsigned user, const char *run, bool live);
void model_command_told(struct model *m, unsigned user, const char *id, const json_t *command);
/* A claim gave it: its own input, and no other attempt of its Thread is being cleaned up. */
void model_claim_told(struct model *m, unsigned user, const json_t *run, const char *token);

/* A Run has yielded to a successor with that input. */
void model_steer_told(struct model *m, unsigned user, const json_t *run, const json_t *successor, int64_t input);

/* What holds after every event. */
void model_watch(struct model *m);
/* What holds when all has come to rest; gives up after a minute. */
bool model_at_rest(struct model *m);
void model_finish(struct model *m);

#endif
