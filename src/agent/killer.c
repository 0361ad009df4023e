#include "agent/killer.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "agent/proctab.h"

#define PLAIN_ROUNDS 3
#define CROWD 64            /* so many processes leave us too little of the processor to look at them while they run */
#define PAUSE_MIN_US 300
#define PAUSE_MAX_US 200000
#define STOPPED_MAX 512
#define FREEZES 4           /* looks in one frozen round: some may have been continued by their like in the middle of it */

static bool (*is_supervisor)(pid_t pid);
static struct list jobs = { &jobs, &jobs };
static struct kill_job strays;
static int64_t next_us = INT64_MAX;

/* The victims of the round before, in the order of pids: one that is not among them is new, so its tree still forks. */
static pid_t seen[PROCTAB_MAX];
static size_t seen_n;

/* Processes of others that were stopped before we stopped everybody. */
static pid_t stopped[STOPPED_MAX];
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

bool killer_has_strays(void)
{
	return kill_job_active(&strays);
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
	bool grew;           /* there were victims that the round before has not seen */
	bool forking;        /* ... in a tree that had its plain rounds */
	bool strays;
};

static void note_stopped(const struct proc *p)
{
	if (p->state == 'T' && stopped_n < STOPPED_MAX && proctab_stop_pending(p->pid))
		stopped[stopped_n++] = p->pid;
}

/* A zombie is a victim like any other: threads of it may still run. note: everybody was just stopped, for the first time. */
static struct round kill_round(bool note)
{
	struct round r = { 0 };
	size_t n = 0, old = 0, kept = 0;
	static pid_t now[PROCTAB_MAX];
	const struct proc *t = proctab_scan(&n);

	for (size_t i = 0; t && i < n; i++) {
		const struct kill_job *j = job_of(&t[i]);
		if (!j) {
			if (note)
				note_stopped(&t[i]);
			continue;
		}
		kill(t[i].pid, SIGKILL);
		r.strays |= j == &strays;
		while (old < seen_n && seen[old] < t[i].pid)
			old++;
		if (old == seen_n || seen[old] != t[i].pid) {
			r.grew = true;
			r.forking |= j->rounds >= PLAIN_ROUNDS;
		}
		now[kept++] = t[i].pid;
	}
	memcpy(seen, now, kept * sizeof(now[0]));
	seen_n = kept;
	return r;
}

static bool was_stopped(pid_t pid)
{
	for (size_t i = 0; i < stopped_n; i++) {
		if (stopped[i] == pid)
			return true;
	}
	return false;
}

static void thaw(void)
{
	size_t n = 0;
	const struct proc *t = proctab_scan(&n);

	/* Better one too many goes on than one too few. */
	if (!t || n == PROCTAB_MAX)
		kill(-1, SIGCONT);
	for (size_t i = 0; t && i < n; i++) {
		if (!job_of(&t[i]) && !was_stopped(t[i].pid))
			kill(t[i].pid, SIGCONT);
	}
}

/* Whether the tree still grew when it was left. */
static bool frozen_round(struct round *r)
{
	bool grew = true;

	stopped_n = 0;
	for (int i = 0; grew && i < FREEZES; i++) {
		kill(-1, SIGSTOP);
		*r = kill_round(i == 0);
		grew = r->grew;
	}
	thaw();
	return grew;
}

/* The pauses grow while what was killed takes its time to die, not while there is something to win by being quick. */
static void schedule(int64_t now_us, bool grew)
{
	int64_t pause = grew ? PAUSE_MIN_US : PAUSE_MAX_US;

	list_for_each(n, &jobs) {
		struct kill_job *j = list_entry(n, struct kill_job, node);
		int64_t p = j->rounds < 10 ? (int64_t)PAUSE_MIN_US << j->rounds : PAUSE_MAX_US;
		j->rounds++;
		if (p < pause)
			pause = p;
	}
	next_us = list_empty(&jobs) ? INT64_MAX : now_us + pause;
}

static bool any_new(void)
{
	list_for_each(n, &jobs) {
		if (list_entry(n, struct kill_job, node)->rounds == 0)
			return true;
	}
	return false;
}

void killer_run(int64_t now_us)
{
	if (now_us < next_us)
		return;
	bool crowd = proctab_count() > CROWD;
	bool freeze = crowd && any_new(), grew = false;
	struct round r = { 0 };
	if (!freeze) {
		r = kill_round(false);
		freeze = r.forking || (crowd && r.grew);
	}
	if (freeze)
		grew = frozen_round(&r);
	if (kill_job_active(&strays) && !r.strays)
		killer_del(&strays);
	schedule(now_us, grew);
}
