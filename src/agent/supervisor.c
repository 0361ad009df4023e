#include "agent/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/leader.h"
#include "agent/secret.h"

/* After this 0-2 are the command's, REPORT_FD is the socket, nothing else is open: no descriptor of the agent or of another
 * command is held here. The agent keeps 0-3 occupied, so none of the sources lies in the way. */
static void arrange_fds(int in, int out, int err, int report)
{
	if (in >= 0)
		dup2(in, 0);
	dup2(out, 1);
	dup2(err, 2);
	dup3(report, LEADER_REPORT_FD, O_CLOEXEC);
	close_range(LEADER_REPORT_FD + 1, ~0U, 0);
}

static void say(enum report_kind kind, enum msg_stage stage, int value)
{
	struct report r = { kind, (int32_t)stage, value };

	send(LEADER_REPORT_FD, &r, sizeof(r), MSG_NOSIGNAL);
}

/* The leader is left a zombie until the agent has taken note: a signal that it sends meanwhile cannot meet a new process. */
static void leader_ended(pid_t leader, const siginfo_t *si)
{
	int status = si->si_code == CLD_EXITED ? W_EXITCODE(si->si_status, 0) : si->si_status & 0x7f;
	char go;

	say(REPORT_ENDED, MSG_STAGE_NONE, status);
	while (recv(LEADER_REPORT_FD, &go, 1, 0) < 0 && errno == EINTR)
		;
	waitpid(leader, NULL, 0);
}

static void reap_until_alone(pid_t leader)
{
	siginfo_t si;

	for (;;) {
		si.si_pid = 0;
		if (waitid(P_ALL, 0, &si, WEXITED | WNOWAIT) < 0) {
			if (errno == EINTR)
				continue;
			return;
		}
		if (si.si_pid == leader)
			leader_ended(leader, &si);
		else
			waitpid(si.si_pid, NULL, 0);
	}
}

_Noreturn void supervisor_run(const struct launch *l, int in, int out, int err, int report)
{
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	secret_wipe();
	arrange_fds(in, out, err, report);
	/* vfork: the leader borrows this memory (nothing is copied) and this process sleeps until it has become its program or given up.
	 * All signals are blocked, no handler is set, and the memory is not dumpable, so its new account cannot interfere. */
	pid_t leader = vfork();
	if (leader == 0)
		leader_run(l);
	if (leader < 0)
		say(REPORT_FAILED, MSG_STAGE_FORK, errno);
	close_range(0, 2, 0);
	if (leader > 0) {
		say(REPORT_LEADER, MSG_STAGE_NONE, leader);
		reap_until_alone(leader);
	}
	_exit(0);
}
