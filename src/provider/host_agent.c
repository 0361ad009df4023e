/* host_agent.c - what a sandbox does about its agent, and what it says of its processes. */
#include "provider/host.h"

static enum agent_life sandbox_life(const struct agent_instance *i)
{
	const struct sandbox *s = list_entry(i, struct sandbox, agent);

	if (s->want_destroy)
		return AGENT_ENDS;
	if (!s->was_ready || s->step == SANDBOX_PAUSED || s->step == SANDBOX_DOWN)
		return AGENT_NONE;
	if (s->want_pause)
		return AGENT_ENDS;
	return s->step == SANDBOX_UP ? AGENT_UP : AGENT_RUNS;
}

static void on_ready(struct agent_instance *i)
{
	struct sandbox *s = host_sandbox(i);

	if (s->step == SANDBOX_UP)
		host_tell(s, INSTANCE_READY, NULL);
	else
		sandbox_check_up(s);
}

static void on_lost(struct agent_instance *i)
{
	struct sandbox *s = host_sandbox(i);

	/* when it has ended, its pidfd tells */
	if (s->step == SANDBOX_UP)
		host_tell(s, INSTANCE_LOST_CONTACT, NULL);
}

const struct agents_ops host_agents_ops = { .life = sandbox_life, .ready = on_ready, .lost = on_lost };
