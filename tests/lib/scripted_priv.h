/* scripted_priv.h - between the files of the scripted provider. */
#ifndef PADDOCK_TESTS_SCRIPTED_PRIV_H
#define PADDOCK_TESTS_SCRIPTED_PRIV_H

#include "scripted_provider.h"
#include "scripted_rules.h"

enum answer_kind { ANSWER_INSTANCE, ANSWER_SCOPE, ANSWER_LIST, ANSWER_NOT_STARTED, ANSWER_STDIN };

struct answer {
	struct list node;
	enum answer_kind kind;
	char iid[ID_SIZE], other[ID_SIZE];   /* other: scope, command */
	bool settled;                        /* INSTANCE: ev is known; else it is taken from the state once that is no transition */
	enum instance_event ev;
	enum err_code code;                  /* 0: no error */
	int32_t error;                       /* NOT_STARTED */
	const char *stage;
	int64_t due_us, late_us;             /* late_us: from the settling on */
	long part;                           /* LIST: at most so many; -1: all */
	char says[16];
	unsigned times;
};

struct provider {
	struct loop *loop;
	const struct provider_events *ev;
	void *arg;
	const struct provider_ops *ops;
	const char *broken;                  /* PADDOCK_SCRIPTED_BREAK; "" */
	struct world *world;
	struct rules rules;
	struct loop_timer *timer;
	struct loop_io *watch;               /* of the script */
	int watch_fd;
	struct list answers;
	bool in_turn;
};

bool scripted_breaks(const struct provider *p, const char *rule);
void scripted_soon(struct provider *p);              /* another turn of the loop looks at what is due */

/* scripted_answers.c: what is owed, and what happens by itself. */
struct answer *answer_owe(struct provider *p, enum answer_kind kind, const char *iid, const char *other);
bool answer_bend(struct answer *a, const struct rule *r, enum instance_event failed);   /* as the rule says; false: it is not owed any more */
void answer_state(struct provider *p, const char *iid, const struct rule *r, enum instance_event failed);   /* what became of it, once it is settled */
void answer_event(struct provider *p, const char *iid, enum instance_event ev, enum err_code code, const struct rule *r, enum instance_event failed);
void answer_drop(struct provider *p, const char *iid);
void answer_lose_commands(struct inst *i);
void answer_vanish(struct provider *p, struct inst *i);
void answer_pause_itself(struct provider *p, struct inst *i);
void answer_pass(struct provider *p, int64_t now, int64_t *next);
void answer_on_script(void *arg, int fd, int events);
void answer_turn(void *arg);

/* scripted_provider.c: every call begins and ends with these. call_begin() gives the rule for it and the instance, or NULL. */
const struct rule *call_begin(struct provider *p, const char *call, const char *iid, const char *other, struct inst **i);
bool call_is_rejected(const struct rule *r, err_t **err);
bool call_is_refused(const struct rule *r);
int call_no_such(err_t **err);
void call_end(struct provider *p);

/* scripted_exec.c: members of provider_ops. */
int scripted_exec(struct provider *p, const char *iid, const struct exec_spec *s, err_t **err);
int scripted_exec_ack(struct provider *p, const char *iid, const char *cid, err_t **err);
int scripted_exec_stdin(struct provider *p, const char *iid, const char *cid, uint64_t offset, const void *data, size_t n, bool eof, err_t **err);
int scripted_exec_signal(struct provider *p, const char *iid, const struct exec_ref *x, int signo, err_t **err);
int scripted_exec_kill(struct provider *p, const char *iid, const struct exec_ref *x, err_t **err);
int scripted_scope_end(struct provider *p, const char *iid, const char *sid, err_t **err);

/* scripted_run.c: commands. */
int64_t run_commands(struct provider *p, int64_t now_us);   /* as far as they have come by now; the next moment or WORLD_NEVER */
void run_open(struct cmd *c);                        /* makes its pipes, with what was left in them */
void run_close(struct cmd *c);
void run_close_all(struct inst *i);
void run_end(struct cmd *c, int64_t at_us, enum exec_end end, int code, enum exec_why why);
void run_feed(struct cmd *c, uint64_t offset, const void *data, size_t n, bool eof);
void run_save(struct cmd *c);                        /* the provider closes: what nobody has read is written down */

#endif
