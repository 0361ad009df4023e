/* frame_msg.h - the payloads of the frames between executor and agent (docs/agent-protocol.md). Pure functions over bytes; libc only.
 *
 * Encoders append a whole frame (header and payload) to a buffer and return 0, or -1 when a value is outside the protocol's limits or
 * the buffer's cap or memory is out (the buffer is then as it was). Decoders take a payload and return 0, or -1 when it
 * is not exactly one valid payload of that type; nothing is trusted, *ret is unspecified after a failure. Decoded strings are
 * NUL-terminated and borrowed from the payload. */
#ifndef PADDOCK_CORE_FRAME_MSG_H
#define PADDOCK_CORE_FRAME_MSG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "core/frame.h"

#define MSG_VERSION 2u
#define MSG_VERSION_OLD 1u         /* agents that the executor still speaks to: without scopes */
#define MSG_ID_MAX 63              /* characters of an exec id: [A-Za-z0-9._-]+ */
#define MSG_TOKEN_MAX 255
#define MSG_PATH_MAX 4095
#define MSG_COMMAND_MAX (1u << 20)
#define MSG_ARGV_MAX 16384         /* entries */
#define MSG_ENV_MAX 4096           /* entries */
#define MSG_STDIN_MAX 65536        /* bytes of one frame, and what the agent holds for one command */
#define MSG_TIMEOUT_MAX INT64_C(4398046511104)   /* 2^42 ms, 139 years: sums with a clock cannot overflow */

enum msg_type {
	/* agent to executor */
	MSG_HELLO = 1,
	MSG_SYNCED = 2,
	MSG_STARTED = 3,
	MSG_EXITED = 4,
	MSG_STDIN_TAKEN = 5,
	MSG_NOT_RUNNING = 6,
	MSG_SCOPE_ENDED = 7,
	/* executor to agent */
	MSG_CONFIG = 16,
	MSG_EXEC = 17,
	MSG_STDIN = 18,
	MSG_SIGNAL = 19,
	MSG_KILL = 20,
	MSG_EXIT_ACK = 21,
	MSG_SCOPE_END = 22,
};

struct msg_hello {
	uint32_t version;
	uint32_t execs;               /* commands that the agent holds and will tell before SYNCED */
	const char *token;
};

struct msg_config {
	uint32_t version;
	uint32_t nofile;              /* 0: as it is */
	uint32_t nproc;               /* 0: as it is */
	int32_t nice;                 /* 0..19 */
	int32_t oom_score_adj;        /* 0..1000 */
};

struct msg_exec {
	const char *id;
	const char *scope;            /* an id: what it belongs to and ends with */
	const char *command;          /* or NULL: argv */
	const char *cwd;
	bool make_cwd;
	bool stdin_open;
	bool clean;                   /* the base environment and nothing else: env is empty */
	int64_t timeout_ms;           /* 1..MSG_TIMEOUT_MAX */
	char *const *argv;            /* NULL-terminated; NULL when command is given */
	char *const *env;             /* NULL-terminated NAME=value; NULL is none */
};

struct msg_started {
	const char *id;
	bool adopted;
	int32_t pgid;
	int64_t started_wall_ms;
	uint64_t stdin_taken;
};

enum msg_end { MSG_END_EXITED, MSG_END_SIGNALED, MSG_END_NOT_STARTED };
enum msg_why { MSG_WHY_NONE, MSG_WHY_TIMEOUT, MSG_WHY_KILLED };

/* What failed before the command's own program ran. */
enum msg_stage { MSG_STAGE_NONE, MSG_STAGE_AGENT, MSG_STAGE_PIPES, MSG_STAGE_FORK, MSG_STAGE_LIMITS, MSG_STAGE_USER, MSG_STAGE_CWD, MSG_STAGE_EXEC };

struct msg_exited {
	const char *id;
	enum msg_end end;
	enum msg_why why;
	enum msg_stage stage;         /* MSG_END_NOT_STARTED only */
	int32_t code;                 /* exit status 0..255, signal 1..64, or errno 1..4095 */
	int64_t ended_wall_ms;
};

struct msg_stdin_taken {
	const char *id;
	uint64_t taken;
	uint64_t window;
};

struct msg_not_running {
	const char *id;
	bool known;
};

struct msg_stdin {
	const char *id;
	uint64_t offset;
	bool eof;
	const void *data;
	size_t len;
};

struct msg_signal {
	const char *id;
	int32_t signo;                /* 1..64 */
};

int msg_put_hello(struct buf *b, const struct msg_hello *m);
int msg_put_synced(struct buf *b);
int msg_put_started(struct buf *b, const struct msg_started *m);   /* two descriptors travel with it: stdout, stderr */
int msg_put_exited(struct buf *b, const struct msg_exited *m);
int msg_put_stdin_taken(struct buf *b, const struct msg_stdin_taken *m);
int msg_put_not_running(struct buf *b, const struct msg_not_running *m);
int msg_put_config(struct buf *b, const struct msg_config *m);
int msg_put_exec(struct buf *b, const struct msg_exec *m);
int msg_put_exec_old(struct buf *b, const struct msg_exec *m);     /* MSG_VERSION_OLD: without scope and clean */
int msg_put_stdin(struct buf *b, const struct msg_stdin *m);
int msg_put_signal(struct buf *b, const struct msg_signal *m);
int msg_put_id(struct buf *b, enum msg_type type, const char *id);     /* KILL, EXIT_ACK, SCOPE_END and SCOPE_ENDED */

int msg_get_hello(const void *p, size_t n, struct msg_hello *ret);
int msg_get_synced(const void *p, size_t n);
int msg_get_started(const void *p, size_t n, struct msg_started *ret);
int msg_get_exited(const void *p, size_t n, struct msg_exited *ret);
int msg_get_stdin_taken(const void *p, size_t n, struct msg_stdin_taken *ret);
int msg_get_not_running(const void *p, size_t n, struct msg_not_running *ret);
int msg_get_config(const void *p, size_t n, struct msg_config *ret);
/* argv and env point into one malloc'ed block, *ret_vectors, which the caller frees. -1 with *ret_vectors NULL also when memory is out. */
int msg_get_exec(const void *p, size_t n, struct msg_exec *ret, char ***ret_vectors);
int msg_get_stdin(const void *p, size_t n, struct msg_stdin *ret);
int msg_get_signal(const void *p, size_t n, struct msg_signal *ret);
int msg_get_id(const void *p, size_t n, const char **ret_id);      /* the same */
bool msg_id_ok(const char *id);
const char *msg_stage_name(enum msg_stage s);                      /* "cwd", ...; static */

#endif
