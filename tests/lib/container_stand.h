/* container_stand.h - the provider `container` on an engine of straw (fake_engine.h), one instance, and what it tells. */
#ifndef PADDOCK_TESTS_CONTAINER_STAND_H
#define PADDOCK_TESTS_CONTAINER_STAND_H

#include "provider/provider.h"
#include "tests/lib/fake_engine.h"

#define SCOPE "22222222-2222-4333-8444-555555555555"

/* What the provider told of FAKE_IID. */
struct stand_seen {
	enum instance_event seen[32];
	size_t n_seen;
	char last_detail[64];             /* of the last error, of whatever kind; "" when there was none */
	char last_text[256];              /* its message */
	unsigned scopes_ended;            /* answers; each stops the loop */
	char last_scope[64];              /* of those */
	size_t n_listed;                  /* the last list; it stops the loop, too */
	bool list_complete;
	char listed_id[64], listed_ref[64];
	enum listed_state listed_as;
};

extern struct stand_seen stand;
extern struct loop *loop;
extern struct provider *provider;
extern struct config *config;
extern const struct provider_events events;

int set_up(void **state);
int tear_down(void **state);

void create(void);
void adopt(enum instance_was was);
void destroy(void);
void gone(void);                          /* destroys and waits; nothing may be left */
void until(enum instance_event ev);       /* runs the loop until that is told */
void until_stopped(void);                 /* or whatever else stops it */
void later(int64_t ms, void (*fn)(void));
void pass(int64_t ms);

#endif
