#include "agent/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "agent/leader.h"
#include "agent/rawcall.h"
#include "agent/secret.h"
#include "agent/stack.h"

/* After this 0-2 are the command's, REPORT_FD is the socket, nothing else is open: no descriptor of the agent or of another
 * command is held here. The agent keeps 0-3 occupied, so none of the sources lies in the way. */
static void arrange_fds(const struct launch *l)
{
	if (l->in >= 0)
		rawcall(SYS_dup3, l->in, 0, 0);
	rawcall(SYS_dup3, l->out, 1, 0);
	rawcall(SYS_dup3, l->err, 2, 0);
	rawcall(SYS_dup3, l->report, LEADER_REPORT_FD, O_CLOEXEC);
	rawcall(SYS_close_range, LEADER_REPORT_FD + 1, ~0U, 0);
}

static void say(enum report_kind kind, enum msg_stage stage, int value)
{
	struct report r = { kind, (int32_t)stage, value };

	rawcall(SYS_sendto, LEADER_REPORT_FD, &r, sizeof(r), MSG_NOSIGNAL, 0, 0);
}

static void reap(pid_t pid)
{
	rawcall(SYS_wait4, pid, 0, 0, 0);
}

/* The leader is left a zombie until the agent has taken note: a signal that it sends meanwhile cannot meet a new process. */
static void leader_ended(pid_t leader, const siginfo_t *si)
{
	int status = si->si_code == CLD_EXITED ? W_EXITCODE(si->si_status, 0) : si->si_status & 0x7f;
	char go;

	say(REPORT_ENDED, MSG_STAGE_NONE, status);
	while (rawcall(SYS_recvfrom, LEADER_REPORT_FD, &go, 1, 0, 0, 0) == -EINTR)
		;
	reap(leader);
}

static void reap_until_alone(pid_t leader)
{
	siginfo_t si;

	for (;;) {
		si.si_pid = 0;
		long r = rawcall(SYS_waitid, P_ALL, 0, &si, WEXITED | WNOWAIT, 0);
		if (r < 0 && r != -EINTR)
			return;
		if (r < 0)
			continue;
		if (si.si_pid == leader)
			leader_ended(leader, &si);
		else
			reap(si.si_pid);
	}
}

static int start_leader(void *arg)
{
	leader_run(arg);
}

/* The leader borrows this memory and this process sleeps until it has become its program or given up. All signals are blocked, no
 * handler is set, and the memory is not dumpable, so its new account cannot interfere. */
static pid_t spawn_leader(const struct launch *l, int share)
{
	pid_t pid = clone(start_leader, stack_leader(l->stack), share | CLONE_VFORK | SIGCHLD, (void *)(uintptr_t)l);

	if (pid < 0)
		say(REPORT_FAILED, MSG_STAGE_FORK, errno);
	return pid;
}

_Noreturn void supervisor_run(const struct launch *l, int share)
{
	rawcall(SYS_prctl, PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	if (!share)
		secret_wipe();
	arrange_fds(l);
	pid_t leader = spawn_leader(l, share);
	rawcall(SYS_close_range, 0, 2, 0);
	if (leader > 0) {
		/* From here on l is not to be touched: the agent frees it. */
		say(REPORT_LEADER, MSG_STAGE_NONE, leader);
		reap_until_alone(leader);
	}
	rawcall_exit(0);
}
