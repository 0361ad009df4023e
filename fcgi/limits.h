/* limits.h - every number of this folder that a caller, or a misbehaving part, can push against. Sizes in bytes, times in ms.
 * What an operator may want to change is in the option table (core/config_table.c) instead. */
#ifndef PADDOCK_FCGI_LIMITS_H
#define PADDOCK_FCGI_LIMITS_H

#define LIMIT_ARENA_BYTES (16u << 20)    /* memory of one request, parsed JSON apart */
#define LIMIT_PATH_BYTES 8192            /* request target: path and query as sent */
#define LIMIT_PATH_SEGMENTS 16
#define LIMIT_QUERY_PARAMS 16
#define LIMIT_HEADER_BYTES 8192          /* one parameter that nginx passes */
#define LIMIT_REQUEST_ID 64
#define LIMIT_JSON_DEPTH 32
#define LIMIT_RESPONSE_BYTES (32u << 20)
#define LIMIT_RESPONSE_HEADERS 12
#define LIMIT_ACCEPT_RANGES 32           /* media ranges looked at in one Accept header */

#define LIMIT_REQUEST_MS 60000           /* a worker on one request for longer is killed by the master */
#define LIMIT_READY_MS 10000             /* a new generation that is not ready by then is given up */
#define LIMIT_TICK_MS 500                /* how often the master looks at its children when nothing happens */
#define LIMIT_RESPAWN_MIN_MS 100         /* back-off of a child that dies young */
#define LIMIT_RESPAWN_MAX_MS 10000
#define LIMIT_YOUNG_MS 3000              /* dying before this age is "young" */
#define LIMIT_WORKERS 256               /* of one generation */
#define LIMIT_SLOTS (2 * (LIMIT_WORKERS + 1))   /* children of two generations */
#define LIMIT_JANITOR_MS 600000         /* a janitor in one step for longer is killed by the master */
#define LIMIT_BACKLOG 1024

#endif
