/* provider_bench.h - one provider on a bench: a loop of its own, a recorder of all it tells, and words to drive it. For tests/unit/test_provider.c.
 *
 * An event is taken once: each bench_take_…() waits for the first one not taken yet that fits, up to patience_ms. Every call into the provider goes
 * through BENCH_CALL, so that an event from within a call is counted (events_in_call). Nothing here asserts from a callback. */
#ifndef PADDOCK_TESTS_PROVIDER_BENCH_H
#define PADDOCK_TESTS_PROVIDER_BENCH_H

#include "base/buf.h"
#include "base/list.h"
#include "core/id.h"
#include "provider/provider.h"

#define BENCH_MS 30000
#define BENCH_QUIET_MS 150       /* so long nothing may come that must not come */
#define BENCH_HOME "/home/user"

enum told { TOLD_INSTANCE, TOLD_STARTED, TOLD_EXITED, TOLD_STDIN, TOLD_SCOPE, TOLD_LIST };

struct event {
	struct list node;
	enum told kind;
	bool taken;
	char iid[ID_SIZE], other[ID_SIZE];   /* other: command or scope */
	enum instance_event ev;
	bool failed;
	enum err_code code;                  /* when failed */
	struct exec_started started;
	struct exec_exited exited;
	uint64_t window, stdin_taken;
	struct { char id[ID_SIZE]; enum listed_state state; } *items;
	size_t items_n;
	bool complete;
};

struct stream {
	struct bench *b;
	int fd;
	struct loop_io *io;
	struct buf bytes;
};

struct output {
	struct list node;
	char cid[ID_SIZE];
	struct stream s[2];
};

struct bench {
	const struct provider_ops *ops;
	const char *prelude;             /* defines bg, alive and share for a real shell */
	bool scripted;
	char dir[128];                   /* scratch; the scripted provider's directory */
	struct config *config;
	struct loop *loop;
	struct loop_timer *timer;
	struct provider *p;
	struct list events, outputs;
	char made[64][ID_SIZE];          /* removed at the end */
	size_t made_n;
	unsigned in_call, events_in_call;
	int64_t patience_ms;             /* of each bench_take_...(); $PADDOCK_BENCH_MS, BENCH_MS at first */
	bool over, waiting;
};

#define BENCH_CALL(b, expr) ({ (b)->in_call++; __typeof__(expr) r_ = (expr); (b)->in_call--; r_; })

struct bench *bench_new(const struct provider_ops *ops, bool scripted, const char *ini);   /* ini NULL: the table's defaults */
void bench_free(struct bench *b);        /* destroys what was made; the provider is closed */
void bench_open(struct bench *b);
void bench_close(struct bench *b);       /* as the executor's death does it: nothing is said before; what was told is forgotten */
void bench_turn(struct bench *b, int64_t ms);   /* lets the loop run so long */

/* NULL after patience_ms. iid and other may be NULL: any. */
struct event *bench_take(struct bench *b, enum told kind, const char *iid, const char *other);
/* The first instance event out of a set of bits (1 << INSTANCE_...). */
struct event *bench_take_instance(struct bench *b, const char *iid, unsigned bits);
struct event *bench_peek(struct bench *b, enum told kind, const char *iid, const char *other);   /* without waiting, not taken by it */
unsigned bench_count(struct bench *b, enum told kind, const char *iid, const char *other);       /* all, also those taken */

/* A command. The text runs in a shell that knows bg, alive and share (scripted_plan.h). */
struct exec_spec bench_exec_spec(const char cid[ID_SIZE], const char *scope);
int bench_exec(struct bench *b, const char *iid, struct exec_spec *s, const char *text, err_t **err);
struct output *bench_output(struct bench *b, const char *cid);
const char *bench_text(struct bench *b, const char *cid, int which);   /* what came so far; which: 0 stdout, 1 stderr */

#endif
