/* host_sandbox.c - a sandbox's life, step by step. How it comes up is in host_up.c, its end in host_end.c. */
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "provider/host.h"

#define BACKOFF_MAX_MS 3000
#define END_MS 60000           /* after that the caller hears of it and asks again */

static void run(void *arg)
{
	struct sandbox *s = arg;

	if (s->call)
		return;   /* its answer goes on */
	switch (s->step) {
	case SANDBOX_MAKE:
		sandbox_make(s);
		break;
	case SANDBOX_LAUNCH:
		sandbox_launch(s);
		break;
	case SANDBOX_END:
		sandbox_end(s);
		break;
	case SANDBOX_REMOVE:
		sandbox_remove(s);
		break;
	case SANDBOX_DOWN:
		break;
	case SANDBOX_LOOK:
	case SANDBOX_WAIT:
	case SANDBOX_UP:
	case SANDBOX_PAUSED:
	default:
		sandbox_look(s);
		break;
	}
}

struct sandbox *sandbox_new(struct provider *p, const char *id, err_t **err)
{
	struct sandbox *s = NULL;

	if (!id_valid(id)) {
		err_set(err, ERR_INVALID, "bad_id", "an instance id is a UUID");
		return NULL;
	}
	s = calloc(1, sizeof(*s));
	if (!s || !(s->timer = loop_timer_new(p->agents.loop, run, s))) {
		free(s);
		err_set(err, ERR_NO_MEMORY, NULL, "instance");
		return NULL;
	}
	s->p = p;
	s->agent_fd = s->keeper_fd = -1;
	s->backoff_ms = HOST_BACKOFF_MIN_MS;
	str_copy(s->id, sizeof(s->id), id);
	agent_instance_init(&s->agent, &p->agents, s->id, s->run.token_hash);
	return s;
}

void sandbox_free(struct sandbox *s)
{
	host_call_cancel(s->call);
	sandbox_forget_run(s);
	agent_instance_free(&s->agent);
	loop_timer_free(s->timer);
	err_free(s->why);
	free(s);
}

void sandbox_kick(struct sandbox *s)
{
	loop_timer_set(s->timer, 0);
}

void sandbox_go(struct sandbox *s, enum sandbox_step step)
{
	static const char *const names[] = { "look", "make", "launch", "wait", "up", "paused", "down", "end", "remove" };

	log_kv(LOG_DEBUG, "instance_step", "instance", s->id, "step", names[step], NULL);
	s->step = step;
	if (step == SANDBOX_END) {
		s->end_since_ms = clock_boot_ms();
		s->quiet_until_ms = 0;
		s->deadline_ms = s->end_since_ms + END_MS;
	}
	sandbox_kick(s);
}

void sandbox_begin(struct sandbox *s, enum sandbox_step first)
{
	s->deadline_ms = clock_boot_ms() + s->p->create_timeout_ms;
	s->backoff_ms = HOST_BACKOFF_MIN_MS;
	s->refusals = 0;
	sandbox_go(s, first);
}

static void go_down(struct sandbox *s, const err_t *why, bool exited)
{
	s->step = SANDBOX_DOWN;
	s->exited = exited;
	s->waking = false;
	err_free(steal_ptr(&s->why));
	err_set(&s->why, err_code(why), err_detail(why), "%s", err_message(why));
	loop_timer_set(s->timer, -1);
}

void sandbox_fail(struct sandbox *s, const err_t *why)
{
	bool waking = s->was_ready;

	log_kv(LOG_WARN, waking ? "instance_wake_failed" : "instance_failed", "instance", s->id, "err", err_message(why), NULL);
	if (!waking) {
		go_down(s, why, false);
		agent_instance_scopes_over(&s->agent, NULL);
		host_tell(s, INSTANCE_FAILED, why);
		return;
	}
	s->waking = false;
	s->step = SANDBOX_PAUSED;
	loop_timer_set(s->timer, -1);
	agent_instance_scopes_over(&s->agent, NULL);
	host_tell(s, INSTANCE_WAKE_FAILED, why);
}

void sandbox_vanished(struct sandbox *s)
{
	cleanup_err err_t *err = NULL;

	err_set(&err, ERR_NOT_FOUND, "sandbox_not_found", "the sandbox's directory is no longer there");
	log_kv(LOG_WARN, "instance_ended", "instance", s->id, "err", err_message(err), NULL);
	sandbox_forget_run(s);
	go_down(s, err, true);
	agent_instance_scopes_over(&s->agent, NULL);
	host_tell(s, INSTANCE_EXITED, err);
}

void sandbox_retry(struct sandbox *s, const err_t *why)
{
	int64_t now = clock_boot_ms();

	if (now + s->backoff_ms <= s->deadline_ms) {
		log_kv(LOG_INFO, "instance_retry", "instance", s->id, "err", err_message(why), NULL);
		loop_timer_set(s->timer, s->backoff_ms);
		s->backoff_ms = s->backoff_ms * 2 > BACKOFF_MAX_MS ? BACKOFF_MAX_MS : s->backoff_ms * 2;
	} else if (s->want_destroy) {
		s->step = SANDBOX_DOWN;
		agent_instance_scopes_over(&s->agent, why);
		host_tell(s, INSTANCE_DESTROY_FAILED, why);
	} else if (s->want_pause) {
		s->want_pause = false;
		sandbox_go(s, SANDBOX_LOOK);   /* in whatever state it is: the look tells */
		host_tell(s, INSTANCE_PAUSE_FAILED, why);
	} else {
		sandbox_fail(s, why);
	}
}

void sandbox_destroy(struct sandbox *s)
{
	if (s->want_destroy && s->step != SANDBOX_DOWN)
		return;
	/* what it may have been asked for is not waited for: ending finds what came of it */
	host_call_cancel(steal_ptr(&s->call));
	s->want_destroy = true;
	s->backoff_ms = HOST_BACKOFF_MIN_MS;
	sandbox_go(s, SANDBOX_END);
}

void sandbox_pause(struct sandbox *s)
{
	s->want_pause = true;
	s->backoff_ms = HOST_BACKOFF_MIN_MS;
	sandbox_go(s, SANDBOX_END);
}
