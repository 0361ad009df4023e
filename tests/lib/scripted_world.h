/* scripted_world.h - the other side of the scripted provider: what "really" is there. It outlives the executor's process, in the file `truth` of a directory.
 *
 * The file is a log, one effect a line, appended by the process that acts (no fsync: it outlives a kill -9, not the machine). The state is what the lines
 * say: the acting process reads them when it opens, tests read them at any time (world_open with acting = false, then world_refresh). Words, parted by blanks:
 *
 *     T making IID WORKSPACE DUE          T running IID                  T pausing IID DUE            T waking IID DUE
 *     T paused IID asked|itself           T vanished IID                 T failed IID                 T gone IID
 *     T start IID CID SCOPE PGID TIMEOUT STDIN KIND PLAN                 T step IID CID N AT          T ack IID CID
 *     T end IID CID exited|signaled|lost CODE none|timeout|killed        T stdin IID CID TAKEN EOF    T left IID CID out|err BYTES
 *     T bg IID CID UNTIL SECONDS          T bgkill IID CID               T scope IID SCOPE            T share IID SCOPE NAME=VALUE
 *     T dir IID PATH                      T rule HASH INDEX              T call NAME IID OTHER        T violation WHAT …
 *
 * T, DUE, UNTIL, TIMEOUT: CLOCK_BOOTTIME in microseconds; -1 as DUE: never by itself. `call` is each call as it came in, also those that were refused; the
 * other lines are effects. `violation` is what no caller may bring about: two_living (a second living instance of a persistent workspace),
 * made_after_destroy, started_twice (a command id that started before, anywhere). */
#ifndef PADDOCK_TESTS_SCRIPTED_WORLD_H
#define PADDOCK_TESTS_SCRIPTED_WORLD_H

#include "base/list.h"
#include "core/id.h"
#include "scripted_plan.h"

#define WORLD_NEVER INT64_C(-1)

enum sim_state { SIM_MAKING, SIM_RUNNING, SIM_PAUSING, SIM_PAUSED, SIM_WAKING, SIM_FAILED, SIM_VANISHED, SIM_GONE };

struct scope {
	struct list node;
	char id[ID_SIZE];
	bool ended;
	char *vars[32];
	size_t vars_n;
};

struct cmd {
	struct list node;            /* in inst.cmds, until acknowledged and without a background process */
	struct inst *inst;
	char id[ID_SIZE], scope[ID_SIZE];
	enum exec_kind kind;
	int32_t pgid;
	int64_t start_us, start_wall_ms, end_wall_ms, timeout_us;
	int64_t at_us;               /* the steps before `step` were done by then */
	struct plan plan;
	size_t step;
	int64_t zeros;               /* of the present step, already given */
	bool stdin_open, eof, deaf, ended, acked;
	uint64_t taken;
	enum exec_end end;
	enum exec_why why;
	int code;
	int64_t bg_until_us;
	char bg[24];
	char *left[2];               /* written, but not yet read when the provider was closed */
	size_t left_n[2];
	/* The acting provider's, nothing of it is in the log. */
	struct {
		int out[2], err[2];  /* pipes, both ends; -1 when closed */
		struct loop_io *io;  /* waits until a pipe takes more */
		struct provider *p;
		struct buf in;       /* stdin that the pipe did not take yet */
		bool told_start, told_end, adopted, mute, twice, tell_stdin;
		int64_t tell_us;     /* nothing is told of it before */
	} live;
};

struct inst {
	struct list node;            /* in world.living, later in world.past */
	struct world *w;
	char id[ID_SIZE], workspace[65];
	enum sim_state state;
	int64_t due_us;              /* end of MAKING, PAUSING, WAKING */
	int64_t ran_us, since_us;    /* before the present stretch; its begin */
	struct list scopes, cmds;
	char *dirs[16];
	size_t dirs_n;
	bool managed, contact;       /* the acting provider's */
};

struct idset {
	uint64_t *slots;
	size_t size, n;
};

struct world {
	int fd, dir_fd;
	bool acting, persistent;
	int64_t read_to;
	struct buf tail;             /* the begin of a line that is not complete yet */
	struct list living, past;
	struct idset destroyed, started;
	unsigned calls, violations;
	char violation[256];         /* the last one's words */
	int32_t next_pgid;
	uint64_t rules_hash;
	unsigned rule_uses[64];      /* of the rules with that hash */
};

struct world *world_open(const char *dir, bool acting);   /* aborts when the directory is not there */
void world_free(struct world *w);
void world_refresh(struct world *w);                       /* a reader takes in what has been written since */

struct inst *world_find(const struct world *w, const char *id);    /* living ones: not vanished, not gone */
struct inst *world_any(const struct world *w, const char *id);     /* also those of the past */
struct cmd *world_cmd(const struct inst *i, const char *cid);
struct scope *world_scope(const struct inst *i, const char *sid);
size_t world_living(const struct world *w, const char *workspace); /* how many; workspace NULL: of all */
int64_t world_ran_us(const struct inst *i, int64_t now_us);
unsigned world_running(const struct inst *i);                       /* commands */
bool world_alive(const struct inst *i, const char *seconds, int64_t now_us);

/* The acting side: writes the line and does what it says. */
void world_note(struct world *w, int64_t t_us, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void world_make(struct world *w, const struct instance_spec *s, int64_t now_us, int64_t due_us);
void world_start(struct world *w, struct inst *i, const struct exec_spec *s, const struct plan *p, int64_t now_us);
/* All that came due by itself: makings, pauses, wakes. Returns the next moment, or WORLD_NEVER. */
int64_t world_pass(struct world *w, int64_t now_us);
void world_cmd_free(struct cmd *c);

#endif
