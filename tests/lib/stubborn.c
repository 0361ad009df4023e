/* stubborn - process trees that do not want to die. "stubborn list" prints their names, "stubborn NAME" becomes that tree, prints
 * "ready" once it stands, and stays. Self-contained (cc -static stubborn.c), so that it can be carried into a container. It runs as the
 * account that commands have; what it starts is bounded by that account's limits only. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void nap_ms(long ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000 };

	nanosleep(&t, NULL);
}

static void deaf(void)
{
	static const int signals[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGPIPE };

	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		signal(signals[i], SIG_IGN);
}

static _Noreturn void stay(void)
{
	for (;;)
		pause();
}

static _Noreturn void ready(void)
{
	static const char word[] = "ready\n";

	if (write(1, word, sizeof(word) - 1) < 0)
		_exit(1);
	stay();
}

static _Noreturn void shell(const char *text)
{
	execl("/bin/bash", "bash", "-c", text, (char *)NULL);
	_exit(127);
}

/* Runs fn in a child; returns in the parent. Processes are short: try again while there is no room. */
static pid_t spawn(void (*fn)(void))
{
	pid_t p = fork();

	if (p == 0) {
		fn();
		_exit(0);
	}
	return p;
}

static void plain(void)
{
	spawn(stay);
	spawn(stay);
}

static void ignoring(void)
{
	deaf();
	spawn(stay);
}

static void session_and_stay(void)
{
	setsid();
	stay();
}

static void in_session(void)
{
	spawn(session_and_stay);
}

static void daemon_twice(void)
{
	setsid();
	deaf();
	if (fork() == 0)
		session_and_stay();
}

static void double_fork(void)
{
	spawn(daemon_twice);
}

static void many_daemons(void)
{
	for (int i = 0; i < 60; i++)
		spawn(daemon_twice);
}

static void stop_myself(void)
{
	setsid();
	raise(SIGSTOP);
	stay();
}

static void stopped(void)
{
	for (int i = 0; i < 20; i++)
		spawn(stop_myself);
}

/* Each generation lives just long enough to have a child. */
static void flee(void)
{
	for (;;) {
		if (fork() > 0)
			_exit(0);
	}
}

static void flee_sessions(void)
{
	for (;;) {
		pid_t p = fork();
		if (p > 0)
			_exit(0);
		if (p == 0)
			setsid();
	}
}

static void flee_vfork(void)
{
	for (;;) {
		pid_t p = vfork();
		if (p > 0)
			_exit(0);
		if (p == 0)
			setsid();
	}
}

static void chains(void)
{
	for (int i = 0; i < 8; i++)
		spawn(flee);
}

static void session_chains(void)
{
	for (int i = 0; i < 8; i++)
		spawn(flee_sessions);
}

static void vfork_chains(void)
{
	for (int i = 0; i < 8; i++)
		spawn(flee_vfork);
}

#define FUSE_MS 100   /* the parent says "ready" before it gets no time any more */

static void explode(void)
{
	nap_ms(FUSE_MS);
	for (;;) {
		if (fork() == 0)
			setsid();
	}
}

static void bomb(void)
{
	spawn(explode);
}

static void explode_and_flee(void)
{
	nap_ms(FUSE_MS);
	for (;;) {
		pid_t p = fork();
		if (p > 0 && (rand() & 1))
			_exit(0);
		if (p == 0) {
			setsid();
			srand((unsigned)getpid());
		}
	}
}

static void bomb_chain(void)
{
	spawn(explode_and_flee);
}

/* Continues everybody all the time. It hits neighbours, too, as any command of the same account could. */
static void wake_all(void)
{
	for (;;) {
		if (fork() == 0) {
			setsid();
			kill(getppid(), SIGCONT);
			kill(-1, SIGCONT);
		}
		nap_ms(1);
	}
}

static void rebel(void)
{
	spawn(wake_all);
}

static void closed(void)
{
	setsid();
	close_range(0, ~0U, 0);
	if (chdir("/") < 0)
		_exit(1);
	stay();
}

static void closed_fds(void)
{
	spawn(closed);
}

/* A name that looks like the fields of /proc/<pid>/stat to a careless reader. */
static void odd_name(void)
{
	prctl(PR_SET_NAME, "a) Z 1 1 (");
	setsid();
	stay();
}

static void renamed(void)
{
	spawn(odd_name);
}

static void kernel_name(void)
{
	prctl(PR_SET_NAME, "kworker/0:0");
	session_and_stay();
}

static void disguised(void)
{
	spawn(kernel_name);
}

static void be_traced(void)
{
	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	raise(SIGUSR1);
	stay();
}

static void traced(void)
{
	for (int i = 0; i < 3; i++)
		spawn(be_traced);
}

static void *thread_forks(void *arg)
{
	(void)arg;
	spawn(session_and_stay);
	stay();
}

static void threads(void)
{
	pthread_t t;

	for (int i = 0; i < 8; i++)
		pthread_create(&t, NULL, thread_forks, NULL);
}

static void *thread_ready(void *arg)
{
	(void)arg;
	spawn(session_and_stay);
	ready();
}

/* The main thread is a zombie, the process lives. */
static void headless(void)
{
	pthread_t t;

	pthread_create(&t, NULL, thread_ready, NULL);
	pthread_exit(NULL);
}

static void trap_shell(void)
{
	shell("trap '' TERM INT HUP; echo ready; while :; do sleep 1; done");
}

static void nohup_job(void)
{
	shell("nohup sleep 1000 >/dev/null 2>&1 & echo ready; wait");
}

static void disowned(void)
{
	shell("set -m; sleep 1000 >/dev/null 2>&1 & disown; echo ready; while :; do sleep 1; done");
}

static void setsid_nohup(void)
{
	shell("setsid nohup sleep 1000 >/dev/null 2>&1 & setsid -f nohup sleep 1000 >/dev/null 2>&1; echo ready; sleep 1000");
}

static void orphan_pipeline(void)
{
	shell("( ( while :; do echo x; sleep .01; done | cat >/dev/null ) & ) ; echo ready; sleep 1000");
}

static void subshells(void)
{
	shell("( ( ( ( sleep 1000 & sleep 1001 ) & sleep 1002 ) & sleep 1003 ) & sleep 1004 ) & echo ready; sleep 1000");
}

static void background_of_background(void)
{
	shell("bash -c 'bash -c \"bash -c \\\"sleep 1000 & sleep 1001\\\" & sleep 1002\" & sleep 1003' & echo ready; wait");
}

static void exec_again(void)
{
	char self[] = "/proc/self/exe", name[] = "stubborn", how[] = "exec-loop";
	char *argv[] = { name, how, NULL };

	setsid();
	nap_ms(1);
	execv(self, argv);
}

static void exec_chain(void)
{
	for (int i = 0; i < 4; i++)
		spawn(exec_again);
}

/* Its name is gone before anybody waits on it, so that whoever kills this has nothing to remove. */
static void open_fifo(void)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/tmp/stubborn-fifo-%d", (int)getpid());
	if (mkfifo(path, 0600) < 0)
		_exit(1);
	fd = open(path, O_RDONLY | O_NONBLOCK);
	if (unlink(path) < 0 || fd < 0)
		_exit(1);
	setsid();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (open(path, O_RDONLY) < 0)
		_exit(1);
	stay();
}

static void fifo(void)
{
	spawn(open_fifo);
}

static void python_pool(void)
{
	shell("exec python3 -c 'import multiprocessing as m, time\n"
	      "def f(): time.sleep(1000)\n"
	      "ps = [m.Process(target=f, daemon=False) for _ in range(4)]\n"
	      "[p.start() for p in ps]\n"
	      "print(\"ready\", flush=True)\n"
	      "[p.join() for p in ps]'");
}

static void end_at_once(void)
{
	_exit(0);
}

static void zombies(void)
{
	for (int i = 0; i < 50; i++)
		spawn(end_at_once);
	spawn(session_and_stay);
}

static void reaper_body(void)
{
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	setsid();
	spawn(daemon_twice);
	spawn(daemon_twice);
	stay();
}

static void own_reaper(void)
{
	spawn(reaper_body);
}

/* Two that bring each other back. */
static void guard(void)
{
	setsid();
	for (;;) {
		pid_t p = fork();
		if (p == 0) {
			setsid();
			pid_t parent = getppid();
			while (getppid() == parent)
				nap_ms(1);
			continue;
		}
		if (p > 0)
			waitpid(p, NULL, 0);
		else
			nap_ms(1);
	}
}

static void phoenix(void)
{
	for (int i = 0; i < 4; i++)
		spawn(guard);
}

static void beat(void)
{
	pid_t parent = getppid();

	for (;;) {
		kill(parent, SIGSTOP);
		kill(parent, SIGCONT);
	}
}

static void stop_and_go(void)
{
	spawn(beat);
}

static void deep_start(void)
{
	for (int depth = 0; depth < 60 && fork() == 0; depth++)
		setsid();
	stay();
}

static void deep(void)
{
	spawn(deep_start);
}

static void busy_body(void)
{
	setsid();
	deaf();
	for (volatile unsigned n = 0;; n++)
		;
}

static void busy(void)
{
	spawn(busy_body);
	spawn(busy_body);
}

static void attack_body(void)
{
	setsid();
	for (;;) {
		/* The agent and the supervisor are out of reach; this must change nothing. */
		kill(1, SIGKILL);
		kill(1, SIGTERM);
		kill(1, SIGSTOP);
		nap_ms(5);
	}
}

static void attacker(void)
{
	spawn(attack_body);
}

static const struct {
	const char *name;
	void (*make)(void);
} trees[] = {
	{ "plain", plain },
	{ "ignoring", ignoring },
	{ "session", in_session },
	{ "double-fork", double_fork },
	{ "many-daemons", many_daemons },
	{ "stopped", stopped },
	{ "chain", chains },
	{ "session-chain", session_chains },
	{ "vfork-chain", vfork_chains },
	{ "bomb", bomb },
	{ "bomb-chain", bomb_chain },
	{ "rebel", rebel },
	{ "closed-fds", closed_fds },
	{ "renamed", renamed },
	{ "disguised", disguised },
	{ "traced", traced },
	{ "threads", threads },
	{ "headless", headless },
	{ "trap-shell", trap_shell },
	{ "nohup", nohup_job },
	{ "disowned", disowned },
	{ "setsid-nohup", setsid_nohup },
	{ "orphan-pipeline", orphan_pipeline },
	{ "subshells", subshells },
	{ "background-of-background", background_of_background },
	{ "exec-chain", exec_chain },
	{ "fifo", fifo },
	{ "python-pool", python_pool },
	{ "zombies", zombies },
	{ "own-reaper", own_reaper },
	{ "phoenix", phoenix },
	{ "stop-and-go", stop_and_go },
	{ "deep", deep },
	{ "busy", busy },
	{ "attacker", attacker },
};

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	if (strcmp(argv[1], "exec-loop") == 0)
		exec_again();
	for (size_t i = 0; i < sizeof(trees) / sizeof(trees[0]); i++) {
		if (strcmp(argv[1], "list") == 0)
			puts(trees[i].name);
		else if (strcmp(argv[1], trees[i].name) == 0) {
			trees[i].make();
			ready();
		}
	}
	return strcmp(argv[1], "list") ? 2 : 0;
}
