/* command_body.h - the JSON of a command to start, and the answer to a started one: common to startCommand and execute. */
#ifndef PADDOCK_FCGI_COMMAND_BODY_H
#define PADDOCK_FCGI_COMMAND_BODY_H

#include "domain/commands.h"
#include "fcgi/ctx.h"

/* What both bodies may hold. */
#define COMMAND_BODY_KEYS "command", "argv", "cwd", "env", "stdin", "timeout_ms", "with_sandbox"

/* Reads those members, the Idempotency-Key, Accept and ?encoding= into *ret (borrowed from the call). */
int command_body_read(struct call *c, struct command_new *ret, err_t **err);
/* Takes s->command. 202 and the Command with background, a ticket for nginx else, or the Command when it was all there. */
int command_body_answer(struct call *c, const struct command_new *n, struct command_started *s, err_t **err);

/* ?encoding=: absent or utf-8, or base64. ERR_REFUSED "bad_encoding". */
int command_body_encoding(const struct call *c, bool *ret, err_t **err);
/* An answer that nginx fetches: ticket, type, X-Paddock-Command. */
int command_body_ticket(struct call *c, const char *command_id, const char *ticket, const char *type, err_t **err);

#endif
