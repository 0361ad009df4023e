/* box_make.c - a container is made: one create at a time, then the start. */
#include "provider/box.h"

#include <limits.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/rand.h"
#include "base/str.h"
#include "core/crypto.h"
#include "provider/container.h"
#include "provider/leftovers.h"

#define EARLY_LOOK_MS 10
#define REFUSALS_MAX 4
#define GHOSTS_MAX 3
#define UNSURE_MS 35000        /* longer than the deadline of any engine call */

/* --- whose turn it is --- */

/* Podman looks subordinate ids up by a library that two threads must not use at once: the second create ends the whole service. */
bool box_take_turn(struct box *b)
{
	struct provider *p = b->p;
	struct box *first = p->creating;
	int64_t left = b->deadline_ms - clock_boot_ms();

	b->queued = true;
	list_for_each(i, &p->agents.instances) {
		struct box *other = list_entry(i, struct box, agent.node);

		if (!first && other->queued)
			first = other;
	}
	if (first == b) {
		b->queued = false;
		p->creating = b;
		return true;
	}
	if (left > 0)
		loop_timer_set(b->timer, left);
	else
		box_fail_with(b, ERR_TIMEOUT, "create_timeout", "the engine was busy with other creations");
	return false;
}

void box_pass_turn(struct box *b)
{
	struct provider *p = b->p;

	if (!b->queued && p->creating != b)
		return;
	b->queued = false;
	if (p->creating == b)
		p->creating = NULL;
	list_for_each(i, &p->agents.instances) {
		struct box *other = list_entry(i, struct box, agent.node);

		if (other->queued)
			box_kick(other);
	}
}

/* --- create --- */

static void on_refusal(struct box *b, const err_t *err)
{
	if (err_code(err) == ERR_UNKNOWN && str_eq(err_detail(err), "engine_error") && ++b->refusals >= REFUSALS_MAX) {
		box_fail(b, err);
		return;
	}
	/* nothing was done, or nobody knows: ask by name before anything else */
	b->step = BOX_LOOKUP;
	box_retry(b, err);
}

static void on_created(void *arg, const struct engine_answer *a, const err_t *err)
{
	struct box *b = arg;

	box_pass_turn(b);
	if (!err || err_code(err) == ERR_REFUSED || err_code(err) == ERR_NOT_FOUND || err_code(err) == ERR_UNAVAILABLE)
		b->unsure_until_ms = 0;
	FAULT_POINT(container_created);
	if (box_answered(b))
		return;
	if (!err) {
		str_copy(b->container, sizeof(b->container), a->id);
		box_go(b, BOX_START);
	} else if (err_code(err) == ERR_NOT_FOUND) {
		box_fail_with(b, ERR_UNAVAILABLE, "image_missing", "the engine has no image of the configured name");
	} else if (err_code(err) == ERR_REFUSED) {
		box_fail(b, err);
	} else if (err_code(err) == ERR_EXISTS) {
		/* ours by its name; when the engine cannot show it either, a killed create has left its storage: remove that */
		b->step = ++b->ghosts > GHOSTS_MAX ? BOX_REMAKE : BOX_LOOKUP;
		box_retry(b, err);
	} else {
		on_refusal(b, err);
	}
}

/* What create() needs besides the engine: the workspace, the paths, a token. */
static int ask(struct box *b, err_t **err)
{
	struct provider *p = b->p;
	char token[65], workspace[PATH_MAX], dir[PATH_MAX];
	struct engine_spec s = { .name = b->name, .instance = b->id, .token = token, .token_hash = b->token_hash, .workspace = workspace, .agent_dir = dir };
	int rc;

	if (workspace_make(p->workspaces_fd, b->workspace, err) < 0)
		return -1;
	if (str_fmt(workspace, sizeof(workspace), "%s/%s/files", p->workspaces, b->workspace) < 0 ||
	    str_fmt(dir, sizeof(dir), "%s/%s", p->agents.dir, b->id) < 0)
		return err_set(err, ERR_TOO_LARGE, NULL, "path too long");
	rand_hex(token, 32);
	agent_token_hash(token, b->token_hash);
	b->unsure_until_ms = clock_boot_ms() + UNSURE_MS;
	rc = p->ops->create(p->engine, &s, on_created, b, err);
	crypto_wipe(token, sizeof(token));
	return rc;
}

int box_create(struct box *b, err_t **err)
{
	int rc = ask(b, err);

	if (rc < 0)
		box_pass_turn(b);
	return rc;
}

/* --- start --- */

/* The runtime's record tells the first process while the engine still does its own part of the start: limits, guard and agent need not wait for that. */
void box_look_early(struct box *b)
{
	pid_t pid = leftovers_recorded(b->container, b->p->runtime_state);

	if (pid)
		box_settle(b, pid);
	else
		loop_timer_set(b->timer, EARLY_LOOK_MS);
}

static void on_started(void *arg, const struct engine_answer *a, const err_t *err)
{
	struct box *b = arg;
	pid_t pid;

	(void)a;
	FAULT_POINT(container_started);
	if (box_answered(b))
		return;
	if (b->step != BOX_START) {
		box_kick(b);   /* it is up already, or has failed meanwhile */
		return;
	}
	pid = err ? 0 : leftovers_recorded(b->container, b->p->runtime_state);
	if (pid) {
		b->step = BOX_WAIT;
		box_settle(b, pid);
	} else if (!err)
		box_go(b, BOX_LOOKUP);
	else if (err_code(err) == ERR_REFUSED)
		box_fail(b, err);
	else
		on_refusal(b, err);
}

int box_start(struct box *b, err_t **err)
{
	loop_timer_set(b->timer, EARLY_LOOK_MS);
	return b->p->ops->start(b->p->engine, b->name, on_started, b, err);
}

static void on_remade(void *arg, const struct engine_answer *a, const err_t *err)
{
	struct box *b = arg;

	(void)a;
	if (box_answered(b))
		return;
	if (err) {
		box_retry(b, err);
		return;
	}
	box_unsettle(b);
	box_go(b, BOX_CREATE);
}

int box_remake(struct box *b, err_t **err)
{
	return b->p->ops->remove(b->p->engine, b->name, on_remade, b, err);
}
