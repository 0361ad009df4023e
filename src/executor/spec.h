/* spec.h - the body of PUT /v1/commands/{cid}, checked, and what is made of it for the agent.
 *
 * Holds the parsed body alive, environment and all, in memory only; freed as soon as the agent has started the command. */
#ifndef PADDOCK_EXECUTOR_SPEC_H
#define PADDOCK_EXECUTOR_SPEC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "core/json.h"
#include "executor/instances.h"
#include "executor/outcome.h"

#define SPEC_TIMEOUT_MAX_MS INT64_C(31536000000)   /* a year */
#define SPEC_CWD_MAX 4095
#define SPEC_CWD_DEFAULT "/home/user/workspace"

/* Which of a command's outputs and how; also the body of POST …/tickets. */
struct view_spec {
	const struct view_kind *kind;   /* NULL: none asked for */
	uint64_t from;
	bool base64;
};

struct spec {
	json_t *body;              /* everything below is borrowed from it */
	const char *instance;
	const char *scope;         /* the instance when none is named */
	enum exec_kind kind;
	const char *workspace;     /* NULL: do not create the instance */
	const char *replaces;      /* with workspace: what is destroyed first; NULL: nothing */
	const char *command;       /* NULL when argv is given */
	const json_t *argv;
	const char *cwd;
	const json_t *env;
	const json_t *record;      /* NULL: {} */
	const char *stdin_text;    /* NULL: none */
	size_t stdin_len;
	bool stdin_is_base64;
	bool make_cwd;
	bool keep_stdin;
	int64_t timeout_ms;
	enum timer timer;          /* whose time that is */
	struct view_spec ticket;
};

/* A new spec, or NULL: ERR_INVALID names the field, ERR_REFUSED for values that cannot be (bad_cwd, bad_env, bad_argv). Takes a reference to body. */
struct spec *spec_new(json_t *body, err_t **err);
void spec_free(struct spec *s);   /* NULL is fine */
/* {view, from?, base64?}; ret is untouched when o is NULL. */
int spec_view(const json_t *o, struct view_spec *ret, err_t **err);
/* Hands the command to the instance's agent. */
int spec_exec(const struct spec *s, const char *cid, struct instances *is, bool stdin_open, err_t **err);

#endif
