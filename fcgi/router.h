/* router.h - from method and path to a row of the route table. Pure.
 *
 * A pattern is "/api/runs/{run_id}"; a segment in braces takes one segment whose form its name decides (run_id, command_id and instance_id: a UUID;
 * token_id: 12 hex digits). A segment of another form matches nothing, so a malformed id is 404 like an unknown one. */
#ifndef PADDOCK_FCGI_ROUTER_H
#define PADDOCK_FCGI_ROUTER_H

#include "base/err.h"
#include "fcgi/request.h"
#include "fcgi/uri.h"

#define ROUTER_PARAMS 2

struct call;

enum route_auth {
	ROUTE_PUBLIC,
	ROUTE_CALLER,    /* a user, an admin as a user, or a service token acting for one */
	ROUTE_ADMIN,     /* an admin token of an admin account */
	ROUTE_HANDLER,   /* the handler authenticates */
};

enum route_body {
	ROUTE_NO_BODY,
	ROUTE_JSON,           /* an object is required */
	ROUTE_JSON_OPTIONAL,  /* no body is an empty object */
	ROUTE_RAW,            /* the handler reads it */
};

/* 0: the answer is in call->r. -1: it is made from the error. */
typedef int route_handler(struct call *c, err_t **err);

struct route {
	enum request_method method;   /* METHOD_GET serves HEAD too */
	const char *pattern;
	enum route_auth auth;
	enum route_body body;
	const char *query;            /* parameters that may be given, separated by spaces */
	route_handler *handler;
	const char *operation;        /* operationId in docs/openapi.yaml; in the access log */
};

struct router_match {
	const struct route *route;          /* NULL: none */
	const char *params[ROUTER_PARAMS];  /* of the braces, in order; borrowed from the uri */
	unsigned allowed;                   /* bits (1u << method) of the routes with this path */
};

void router_match(const struct route *table, size_t n, enum request_method m, const struct uri *u, struct router_match *ret);
/* "GET, HEAD, POST" of router_match.allowed; dst of at least 64 bytes. */
void router_allow(unsigned allowed, char dst[64]);

#endif
