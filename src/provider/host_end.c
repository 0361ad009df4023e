/* host_end.c - a sandbox's processes end, and when it is to be destroyed its files go. */
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "provider/host.h"

#define LOOK_AGAIN_MS 10
#define KEEPER_MS 3000         /* how long a keeper may take after its agent has ended */
#define QUIET_MS 300           /* a keeper that was killed before it had recorded anything takes its child along: the kernel's work */
#define REMOVE_MS 45000

void sandbox_forget_run(struct sandbox *s)
{
	loop_io_free(steal_ptr(&s->agent_io));
	loop_io_free(steal_ptr(&s->keeper_io));
	if (s->agent_fd >= 0)
		close(steal_fd(&s->agent_fd));
	if (s->keeper_fd >= 0)
		close(steal_fd(&s->keeper_fd));
	s->run = (struct host_run){ .token_hash = "" };
	agent_instance_forget_run(&s->agent);
}

static bool lives(int pidfd)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	return pidfd >= 0 && poll(&p, 1, 0) == 0;
}

static void end_it(int pidfd)
{
	(void)syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
}

/* The lock says who keeps it: opened, and asked again, so that it is not another who has the pid since. */
static void end_keeper(int dir, pid_t pid)
{
	cleanup_close int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	if (fd >= 0 && host_layout_keeper(dir) == pid)
		end_it(fd);
}

/* True while something of it may run. The agent's end is the end of every process of its pid namespace: the kernel sees to that before it is told. */
static bool runs(struct sandbox *s, int dir)
{
	int64_t now = clock_boot_ms();
	pid_t keeper = dir >= 0 ? host_layout_keeper(dir) : 0;
	struct host_run r;

	if (s->agent_fd < 0 && dir >= 0 && host_run_read(dir, &r, NULL) == 0) {
		s->agent_fd = host_proc_open(&r.agent);
		s->keeper_fd = s->keeper_fd < 0 ? host_proc_open(&r.keeper) : s->keeper_fd;
	}
	if (lives(s->agent_fd))
		end_it(s->agent_fd);
	else if (keeper > 0 && (s->agent_fd < 0 || now - s->end_since_ms > KEEPER_MS)) {
		end_keeper(dir, keeper);
		s->quiet_until_ms = now + QUIET_MS;
	} else if (lives(s->keeper_fd) && now - s->end_since_ms > KEEPER_MS)
		end_it(s->keeper_fd);
	return keeper > 0 || lives(s->agent_fd) || lives(s->keeper_fd) || now < s->quiet_until_ms;
}

static void ended(struct sandbox *s)
{
	cleanup_err err_t *why = steal_ptr(&s->why);
	bool never = !s->was_ready;

	sandbox_forget_run(s);
	FAULT_POINT(host_end_ended);
	if (s->want_destroy) {
		sandbox_go(s, SANDBOX_REMOVE);
	} else if (s->vanished) {
		sandbox_vanished(s);
	} else if (s->want_pause) {
		s->want_pause = false;
		s->step = SANDBOX_PAUSED;
		agent_instance_shut(&s->agent);
		agent_instance_scopes_over(&s->agent, NULL);
		host_tell(s, INSTANCE_PAUSED, NULL);
	} else if ((never || s->waking) && why) {
		sandbox_fail(s, why);
	} else {
		/* by itself: a first start or a wake is tried again until its deadline; what was up is paused now */
		if (never || s->waking)
			s->deadline_ms = clock_boot_ms() + s->p->create_timeout_ms;
		if (never && ++s->refusals >= 3) {
			err_set(&why, ERR_UNAVAILABLE, "agent_ended", "the agent ended before it was ready");
			sandbox_fail(s, why);
			return;
		}
		sandbox_go(s, SANDBOX_LOOK);
	}
}

void sandbox_end(struct sandbox *s)
{
	cleanup_err err_t *err = NULL;
	cleanup_close int dir = host_layout_open(s->p->root_fd, s->id, &err);

	if (dir < 0 && err_code(err) != ERR_NOT_FOUND) {
		sandbox_retry(s, err);
		return;
	}
	if (!runs(s, dir)) {
		ended(s);
		return;
	}
	if (clock_boot_ms() <= s->deadline_ms) {
		loop_timer_set(s->timer, LOOK_AGAIN_MS);
		return;
	}
	err_free(steal_ptr(&err));
	err_set(&err, ERR_BUSY, "leftovers", "processes of the sandbox do not end");
	sandbox_retry(s, err);
}

/* --- its files --- */

static void on_removed(void *arg, const char *text, const err_t *err)
{
	struct sandbox *s = arg;

	(void)text;
	s->call = NULL;
	FAULT_POINT(host_end_removed);
	if (err) {
		s->step = SANDBOX_END;
		sandbox_retry(s, err);
		return;
	}
	agent_instance_remove(&s->agent);
	log_kv(LOG_INFO, "instance_gone", "instance", s->id, NULL);
	agent_instance_scopes_over(&s->agent, NULL);
	host_tell(s, INSTANCE_GONE, NULL);
	sandbox_free(s);
}

void sandbox_remove(struct sandbox *s)
{
	cleanup_err err_t *err = NULL;
	const char *const fields[] = { "remove", s->id, NULL };

	s->call = host_call_start(s->p->agents.loop, s->p->launcher, fields, REMOVE_MS, on_removed, s, &err);
	if (!s->call)
		sandbox_retry(s, err);
}
