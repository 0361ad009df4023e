/* fake_engine.h - an engine for tests that holds at most one container and misbehaves as told; it takes the place of the registry's. Once the container
 * runs, this process itself plays its agent. */
#ifndef PADDOCK_TESTS_FAKE_ENGINE_H
#define PADDOCK_TESTS_FAKE_ENGINE_H

#include "provider/engine.h"

#define FAKE_IID "11111111-2222-4333-8444-555555555555"
#define FAKE_NODE "unit"
#define FAKE_NAME "pdk-" FAKE_NODE "-" FAKE_IID
#define FAKE_OTHER_IID "99999999-2222-4333-8444-555555555555"   /* of a second instance, whose name the engine says is taken */

/* What the engine holds, and how it misbehaves. */
struct fake_engine {
	bool exists, ghost, foreign;
	enum engine_state state;
	char token[128], hash[AGENT_HASH_SIZE];
	unsigned creates, removes;
	unsigned creating, creating_most;   /* creates that are out, now and at most */
	unsigned create_ms;         /* how long a create takes; 0: one */
	unsigned away;              /* so many calls find nobody */
	unsigned refuse_inspects;   /* so many are not even sent */
	unsigned lose_creates;      /* so many creates are done and their answer is lost */
	unsigned drop_creates;      /* so many creates are not done and their answer is lost */
	unsigned break_starts;
	unsigned lie_removes;       /* so many removes say yes and do nothing */
	const char *refusal;        /* what creates are refused with */
	bool no_image, wrong_token, no_agent, old_agent;
};

extern struct fake_engine fake;

/* Empties the engine and makes it misbehave in no way. agents: the directory below which the agents' sockets are. */
void fake_engine_reset(struct loop *l, const char *agents);
void fake_agent_dial(void);
void fake_agent_hang_up(void);
/* How often the agent was asked to end this scope since it dialled; and its answer. */
unsigned fake_agent_scope_ends(const char *scope);
void fake_agent_scope_ended(const char *scope);

#endif
