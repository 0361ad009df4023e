/* host_up.c - from a directory to an agent that answers. */
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/rand.h"
#include "provider/host.h"
#include "provider/process.h"

#define LOOK_AGAIN_MS 20
#define LAUNCH_MS 45000        /* longer than the launcher's own steps may take together */
#define REFUSALS_MAX 3
#define TOKEN_BYTES 32

/* --- it runs --- */

/* One of the two has ended; without a keeper the sandbox has no network, and nobody who would see it out. */
static void on_end(void *arg, int fd, int events)
{
	struct sandbox *s = arg;

	(void)events;
	log_kv(s->step == SANDBOX_END ? LOG_DEBUG : LOG_WARN, fd == s->agent_fd ? "agent_ended" : "keeper_ended", "instance", s->id, NULL);
	loop_io_free(steal_ptr(&s->agent_io));
	loop_io_free(steal_ptr(&s->keeper_io));
	/* ready or not: what is left of it is ended and waited for, then it is looked at */
	if (s->step == SANDBOX_END)
		sandbox_kick(s);
	else
		sandbox_go(s, SANDBOX_END);
}

static void limit(struct sandbox *s)
{
	cleanup_err err_t *err = NULL;

	(void)agent_instance_limit(&s->agent, s->run.agent.pid, &err);
	agent_instance_limits_seen(&s->agent, err);
}

/* False: it has ended since the record was written. */
static bool take_up(struct sandbox *s, const struct host_run *r)
{
	sandbox_forget_run(s);
	s->agent_fd = host_proc_open(&r->agent);
	s->keeper_fd = host_proc_open(&r->keeper);
	if (s->agent_fd < 0 || s->keeper_fd < 0 || (!s->agent.link && agent_instance_open(&s->agent, NULL) < 0))
		return false;
	s->agent_io = loop_io_new(s->p->agents.loop, s->agent_fd, LOOP_READ, on_end, s);
	s->keeper_io = loop_io_new(s->p->agents.loop, s->keeper_fd, LOOP_READ, on_end, s);
	if (!s->agent_io || !s->keeper_io)
		return false;
	s->run = *r;
	limit(s);
	agent_link_expect(s->agent.link, process_uid(r->agent.pid), r->agent.pid);
	return true;
}

void sandbox_check_up(struct sandbox *s)
{
	if (s->step != SANDBOX_WAIT || !agent_link_ready(s->agent.link))
		return;
	s->step = SANDBOX_UP;
	s->was_ready = true;
	s->waking = s->asked = false;
	s->backoff_ms = HOST_BACKOFF_MIN_MS;
	loop_timer_set(s->timer, -1);
	host_tell(s, INSTANCE_READY, NULL);
	agent_instance_scopes_ask(&s->agent);
}

/* --- a look --- */

/* Nobody came up in time: what there is of it is ended, then that is told. */
static void late(struct sandbox *s, const char *what)
{
	err_free(steal_ptr(&s->why));
	err_set(&s->why, ERR_TIMEOUT, "create_timeout", "%s", what);
	sandbox_go(s, SANDBOX_END);
}

static void look_again(struct sandbox *s, const char *what)
{
	if (clock_boot_ms() <= s->deadline_ms)
		loop_timer_set(s->timer, LOOK_AGAIN_MS);
	else
		late(s, what);
}

static void nobody_there(struct sandbox *s, const struct host_run *r, bool recorded)
{
	cleanup_close int agent = recorded ? host_proc_open(&r->agent) : -1;

	if (agent >= 0) {
		/* its keeper was killed, and it is about to follow */
		sandbox_go(s, SANDBOX_END);
		return;
	}
	if (s->was_ready && !s->waking) {
		bool told = s->step == SANDBOX_PAUSED && !s->asked;

		s->step = SANDBOX_PAUSED;
		s->asked = false;
		loop_timer_set(s->timer, -1);
		agent_instance_scopes_over(&s->agent, NULL);
		if (!told)
			host_tell(s, INSTANCE_PAUSED, NULL);
		return;
	}
	sandbox_go(s, SANDBOX_MAKE);
}

static void keeper_there(struct sandbox *s, pid_t keeper, const struct host_run *r, bool recorded)
{
	if (!recorded || r->keeper.pid != keeper || !take_up(s, r)) {
		s->step = SANDBOX_LOOK;
		look_again(s, "the sandbox did not come up in time");
		return;
	}
	log_kv(LOG_DEBUG, "instance_runs", "instance", s->id, NULL);
	s->step = SANDBOX_WAIT;
	loop_timer_set(s->timer, s->deadline_ms - clock_boot_ms() > 0 ? s->deadline_ms - clock_boot_ms() : 0);
	sandbox_check_up(s);
}

void sandbox_look(struct sandbox *s)
{
	cleanup_err err_t *err = NULL;
	cleanup_close int dir = host_layout_open(s->p->root_fd, s->id, &err);
	struct host_run r = { .token_hash = "" };
	pid_t keeper;
	bool recorded;

	if (dir < 0 && err_code(err) == ERR_NOT_FOUND && (s->was_ready || s->step == SANDBOX_UP)) {
		s->vanished = true;
		sandbox_go(s, SANDBOX_END);
		return;
	}
	if (dir < 0 && err_code(err) == ERR_NOT_FOUND) {
		sandbox_go(s, SANDBOX_MAKE);
		return;
	}
	if (dir < 0) {
		sandbox_retry(s, err);
		return;
	}
	if (s->step == SANDBOX_UP) {
		if (s->asked && agent_link_ready(s->agent.link))
			host_tell(s, INSTANCE_READY, NULL);
		s->asked = false;
		return;
	}
	if (s->step == SANDBOX_WAIT) {
		late(s, "the agent did not connect in time");
		return;
	}
	keeper = host_layout_keeper(dir);
	recorded = host_run_read(dir, &r, NULL) == 0;
	if (keeper > 0)
		keeper_there(s, keeper, &r, recorded);
	else
		nobody_there(s, &r, recorded);
}

/* --- make and launch --- */

void sandbox_make(struct sandbox *s)
{
	cleanup_err err_t *err = NULL;
	struct provider *p = s->p;
	cleanup_close int dir = -1;

	if (s->was_ready && (dir = host_layout_open(p->root_fd, s->id, &err)) < 0 && err_code(err) == ERR_NOT_FOUND) {
		sandbox_vanished(s);
		return;
	}
	if (err || workspace_make(p->workspaces_fd, s->workspace, &err) < 0 || host_layout_make(p->root_fd, s->id, s->workspace, &err) < 0 ||
	    (!s->agent.link && agent_instance_open(&s->agent, &err) < 0)) {
		if (err_code(err) == ERR_REFUSED || err_code(err) == ERR_INVALID)
			sandbox_fail(s, err);
		else
			sandbox_retry(s, err);
		return;
	}
	FAULT_POINT(host_make_done);
	sandbox_go(s, SANDBOX_LAUNCH);
}

static void on_launched(void *arg, const char *text, const err_t *err)
{
	struct sandbox *s = arg;

	(void)text;
	s->call = NULL;
	FAULT_POINT(host_launch_answered);
	if (!err || err_code(err) == ERR_BUSY) {
		sandbox_go(s, SANDBOX_LOOK);   /* what runs is on record, whoever started it */
	} else if (err_code(err) == ERR_REFUSED && ++s->refusals >= REFUSALS_MAX) {
		sandbox_fail(s, err);
	} else {
		s->step = SANDBOX_LOOK;
		sandbox_retry(s, err);
	}
}

void sandbox_launch(struct sandbox *s)
{
	cleanup_err err_t *err = NULL;
	char token[2 * TOKEN_BYTES + 1], hash[AGENT_HASH_SIZE];
	const char *const fields[] = { "start", s->id, s->workspace, token, hash, NULL };

	rand_hex(token, TOKEN_BYTES);
	agent_token_hash(token, hash);
	s->call = host_call_start(s->p->agents.loop, s->p->launcher, fields, LAUNCH_MS, on_launched, s, &err);
	explicit_bzero(token, sizeof(token));
	FAULT_POINT(host_launch_asked);
	if (!s->call)
		sandbox_retry(s, err);
}
