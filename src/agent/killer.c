#include "agent/killer.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "agent/proctab.h"

#define PLAIN_ROUNDS 5
#define PAUSE_MIN_US 300
#define PAUSE_MAX_US 200000
#define STOPPED_MAX 512

static bool (*is_supervisor)(pid_t pid);
static struct list jobs = { &jobs, &jobs };
static struct kill_job strays;
static int64_t next_us = INT64_MAX;

/* The victims of the round before, in the order of pids: one that is not among them is new, so its tree still forks. */
static pid_t seen[PROCTAB_MAX];
static size_t seen_n;

/* Processes of others that were stopped before we stopped everybody. */
static struct {
	pid_t pid;
	uint64_t switches;
} stopped[STOPPED_MAX];
static size_t stopped_n;

void killer_init(bool (*fn)(pid_t pid))
{
	is_supervisor = fn;
	kill_job_init(&strays, 0);
}

void kill_job_init(struct kill_job *j, pid_t supervisor)
{
	list_init(&j->node);
	j->supervisor = supervisor;
	j->rounds = 0;
}

bool kill_job_active(const struct kill_job *j)
{
	return !list_empty(&j->node);
}

void killer_add(struct kill_job *j)
{
	if (kill_job_active(j))
		return;
	j->rounds = 0;
	list_add_tail(&jobs, &j->node);
	next_us = 0;
}

void killer_del(struct kill_job *j)
{
	list_del(&j->node);
	if (list_empty(&jobs)) {
		next_us = INT64_MAX;
		seen_n = 0;
	}
}

void killer_strays(void)
{
	killer_add(&strays);
}

int64_t killer_next_us(void)
{
	return next_us;
}

/* The job that wants p dead, or NULL. */
static struct kill_job *job_of(const struct proc *p)
{
	if (!p->top)
		return NULL;
	list_for_each(n, &jobs) {
		struct kill_job *j = list_entry(n, struct kill_job, node);
		if (j == &strays ? !is_supervisor(p->top) : p->top == j->supervisor && p->pid != p->top)
			return j;
	}
	return NULL;
}

struct round {
	size_t victims;
	bool forking;        /* a tree that had its plain rounds has new members */
	bool strays;
};

/* A zombie is a victim like any other: threads of it may still run. */
static struct round kill_round(void)
{
	struct round r = { 0 };
	size_t n = 0, old = 0, kept = 0;
	static pid_t now[PROCTAB_MAX];
	const struct proc *t = proctab_scan(&n);

	for (size_t i = 0; t && i < n; i++) {
		const struct kill_job *j = job_of(&t[i]);
		if (!j)
			continue;
		kill(t[i].pid, SIGKILL);
		r.strays |= j == &strays;
		while (old < seen_n && seen[old] < t[i].pid)
			old++;
		if (j->rounds >= PLAIN_ROUNDS && (old == seen_n || seen[old] != t[i].pid))
			r.forking = true;
		now[kept++] = t[i].pid;
	}
	r.victims = kept;
	memcpy(seen, now, kept * sizeof(now[0]));
	seen_n = kept;
	return r;
}

static void note_stopped(void)
{
	size_t n = 0;
	const struct proc *t = proctab_scan(&n);

	stopped_n = 0;
	for (size_t i = 0; t && i < n && stopped_n < STOPPED_MAX; i++) {
		if (t[i].state != 'T' || job_of(&t[i]))
			continue;
		stopped[stopped_n].pid = t[i].pid;
		stopped[stopped_n++].switches = proctab_switches(t[i].pid);
	}
}

/* Stopped before and not run since: it was continued by nobody between our look and our stop. */
static bool was_stopped(pid_t pid)
{
	for (size_t i = 0; i < stopped_n; i++) {
		if (stopped[i].pid == pid)
			return stopped[i].switches == proctab_switches(pid);
	}
	return false;
}

static void thaw(void)
{
	size_t n = 0;
	const struct proc *t = proctab_scan(&n);

	for (size_t i = 0; t && i < n; i++) {
		if (!job_of(&t[i]) && !was_stopped(t[i].pid))
			kill(t[i].pid, SIGCONT);
	}
}

static void frozen_round(void)
{
	note_stopped();
	kill(-1, SIGSTOP);
	kill_round();
	thaw();
}

static void schedule(int64_t now_us)
{
	int64_t pause = PAUSE_MAX_US;

	list_for_each(n, &jobs) {
		struct kill_job *j = list_entry(n, struct kill_job, node);
		int64_t p = j->rounds < 10 ? (int64_t)PAUSE_MIN_US << j->rounds : PAUSE_MAX_US;
		j->rounds++;
		if (p < pause)
			pause = p;
	}
	next_us = list_empty(&jobs) ? INT64_MAX : now_us + pause;
}

void killer_run(int64_t now_us)
{
	if (now_us < next_us)
		return;
	struct round r = kill_round();
	if (r.forking)
		frozen_round();
	if (kill_job_active(&strays) && !r.strays)
		killer_del(&strays);
	schedule(now_us);
}
