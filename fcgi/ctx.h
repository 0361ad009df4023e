/* ctx.h - what a worker keeps between requests, and the call that a handler gets. */
#ifndef PADDOCK_FCGI_CTX_H
#define PADDOCK_FCGI_CTX_H

#include <stddef.h>
#include <stdint.h>

#include "core/config.h"
#include "core/json.h"
#include "domain/caller.h"
#include "domain/domain.h"
#include "fcgi/arena.h"
#include "fcgi/board.h"
#include "fcgi/request.h"
#include "fcgi/response.h"

struct ctx {
	const struct config *config;   /* borrowed */
	struct domain *domain;
	struct board *board;           /* borrowed */
	uint64_t body_bytes, stdin_bytes;
	int64_t retry_after_s;
	const char *accel_prefix;
};

/* Opens the domain (it connects later). The configuration must outlive the context. */
int ctx_open(struct ctx *ret, const struct config *c, struct board *b, err_t **err);
void ctx_close(struct ctx *x);

/* One request on its way through a handler. All is borrowed for the request's time. */
struct call {
	struct ctx *ctx;
	struct arena *arena;
	struct request *q;
	struct response *r;
	const char *params[2];     /* of the route's braces */
	const char *operation;     /* the route's; "-" while none is found */
	struct caller caller;      /* valid when authenticated */
	int authenticated;
	const json_t *body;        /* the JSON object; NULL without one */
	const char *raw;           /* its text, for Idempotency-Key */
	size_t raw_len;
	json_t *extras;            /* members that a problem has besides the usual ones; owned, NULL: none */
};

#endif
