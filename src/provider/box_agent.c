/* box_agent.c - what a box does about its agent, and what it says of its processes. */
#include "provider/box.h"
#include "provider/container.h"

#define LOST_LOOK_MS 50

static enum agent_life box_life(const struct agent_instance *i)
{
	const struct box *b = list_entry(i, struct box, agent);
	bool ended = b->step == BOX_DOWN && b->exited;

	if (!b->want_destroy && (!b->was_ready || ended))
		return AGENT_NONE;
	if (b->step == BOX_DOWN)
		return AGENT_IN_DOUBT;
	if (b->want_destroy)
		return AGENT_ENDS;
	return b->step == BOX_UP ? AGENT_UP : AGENT_RUNS;
}

static void on_ready(struct agent_instance *i)
{
	struct box *b = container_box(i);

	if (b->step == BOX_UP)
		container_tell(b, INSTANCE_READY, NULL);
	else
		box_check_up(b);
}

static void on_lost(struct agent_instance *i)
{
	struct box *b = container_box(i);

	if (b->step != BOX_UP)
		return;
	container_tell(b, INSTANCE_LOST_CONTACT, NULL);
	loop_timer_set(b->timer, LOST_LOOK_MS);
}

const struct agents_ops box_agents_ops = { .life = box_life, .ready = on_ready, .lost = on_lost };
