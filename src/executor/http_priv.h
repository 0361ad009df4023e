/* http_priv.h - what http.c and http_answer.c share. */
#ifndef PADDOCK_EXECUTOR_HTTP_PRIV_H
#define PADDOCK_EXECUTOR_HTTP_PRIV_H

#include "base/buf.h"
#include "base/list.h"
#include "executor/gate.h"
#include "executor/http.h"

#define HTTP_PARAMS 2
#define HTTP_PARAM 72           /* a ticket has 64 characters */

struct MHD_Connection;
struct MHD_Daemon;

struct http {
	struct loop *loop;
	struct MHD_Daemon *daemon;
	struct gate *gate;
	struct loop_io *io;
	struct loop_timer *timer;
	struct http_peers peers;
	const struct route *routes;
	struct executor *x;
	struct list sleepers;        /* and streams whose socket is full */
	struct list ready;           /* streams that may go on */
	bool resumed;                /* a connection, since the last run of the daemon */
	int64_t due;                 /* what the timer is set to: ms, -1 not at all */
	unsigned connections;
	uint64_t requests;
};

struct request {
	struct http *http;
	struct MHD_Connection *conn;
	const struct route *route;
	enum http_method method;
	int status;                  /* of a request without a route */
	bool head_only, old_version; /* HEAD; HTTP/1.0 */
	bool answered;
	bool too_large;
	bool dead;                   /* no answer could be made */
	bool asleep;
	bool timed_out;              /* the last sleep ended by its time */
	struct list sleeping;        /* in http.sleepers or http.ready */
	char params[HTTP_PARAMS][HTTP_PARAM];
	struct buf body;
	struct { const char *name; char value[72]; } headers[HTTP_HEADERS];
	unsigned n_headers;
	struct loop_timer *timer;
	void (*next)(struct executor *x, struct request *r);
	void *state;
	void (*free_state)(void *state);

	/* http_stream.c */
	const struct http_source *source;
	int64_t idle_ms;
	bool streaming, chunked, ending;
	uint64_t owed;               /* bytes of the announced chunk that are still to be sent */
	struct buf unsent;           /* head or framing that goes before anything else */
	struct loop_io *io;          /* tells when a full socket has room; made when it is needed */
};

int request_fd(const struct request *r);
int request_doze(struct request *r, int64_t ms);   /* asleep for at most ms. -1: out of memory */
void request_on_time(void *arg);                   /* the timer of a doze */
bool request_peer_gone(const struct request *r);   /* a suspended connection does not see its peer's end by itself */
void http_soon(struct http *h);                    /* another turn, as soon as the loop can */

void http_streams_turn(struct http *h, int64_t us);   /* one piece of each ready stream; those that are left after so long wait for the next turn */
void http_stream_ready(struct request *r);
void http_stream_end(struct request *r);           /* the library then closes the connection */

#endif
