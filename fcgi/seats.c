#include "fcgi/seats.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "fcgi/confine.h"

struct seat {
	const struct config *config;
	enum board_role role;      /* BOARD_FREE: nobody's */
	unsigned generation;
	pid_t pid;                 /* 0: empty, to be filled at `due` */
	int64_t started, due, backoff;
	int64_t kill_at;           /* retiring: SIGKILL then; 0: not retiring */
};

struct seats {
	struct board *board;
	seats_child_fn *fn;
	void *arg;
	struct seat seats[LIMIT_SLOTS];
};

struct seats *seats_new(struct board *b, seats_child_fn *fn, void *arg)
{
	struct seats *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->board = b;
	s->fn = fn;
	s->arg = arg;
	return s;
}

void seats_free(struct seats *s)
{
	free(s);
}

static struct board_slot *slot_of(const struct seats *s, const struct seat *t)
{
	return &s->board->slots[t - s->seats];
}

static void log_child(enum log_level lvl, const char *event, const struct seat *t, pid_t pid, const char *how)
{
	char num[16], gen[16];

	snprintf(num, sizeof(num), "%d", (int)pid);
	snprintf(gen, sizeof(gen), "%u", t->generation);
	log_kv(lvl, event, "role", t->role == BOARD_JANITOR ? "janitor" : "worker", "pid", num, "generation", gen, "how", how, NULL);
}

/* Never returns. */
static void run_child(struct seats *s, struct seat *t, pid_t parent)
{
	int rc;

	signal(SIGHUP, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	prctl(PR_SET_NAME, t->role == BOARD_JANITOR ? "paddock-janitor" : "paddock-worker", 0, 0, 0);   /* what ps and top show */
	if (confine_to_parent((int)parent) < 0)
		_exit(0);
	rc = s->fn(s->arg, t->role, t->config, slot_of(s, t));
	exit(rc);
}

static void prepare_slot(struct board_slot *slot, const struct seat *t)
{
	slot->state = BOARD_STARTING;
	slot->busy_since = 0;
	slot->done = 0;
	slot->generation = t->generation;
	slot->started_wall_ms = clock_wall_ms();
	slot->role = t->role;
}

static void plan_again(struct seat *t, int64_t now)
{
	int64_t wait = t->backoff ? t->backoff * 2 : LIMIT_RESPAWN_MIN_MS;

	t->backoff = wait < LIMIT_RESPAWN_MAX_MS ? wait : LIMIT_RESPAWN_MAX_MS;
	t->due = now + t->backoff;
}

static void start(struct seats *s, struct seat *t, int64_t now)
{
	pid_t parent = getpid(), pid;

	prepare_slot(slot_of(s, t), t);
	pid = fork();
	if (pid == 0)
		run_child(s, t, parent);
	if (pid < 0) {
		log_child(LOG_ERROR, "fork_failed", t, 0, strerror(errno));
		plan_again(t, now);
		return;
	}
	t->pid = pid;
	t->started = now;
	slot_of(s, t)->pid = pid;
}

static struct seat *free_seat(struct seats *s)
{
	for (int i = 0; i < LIMIT_SLOTS; i++)
		if (s->seats[i].role == BOARD_FREE)
			return &s->seats[i];
	return NULL;
}

int seats_add_generation(struct seats *s, const struct config *c, unsigned generation, int n, int64_t now)
{
	if (n < 1 || n > LIMIT_WORKERS || seats_count(s, 0) + (unsigned)n + 1 > LIMIT_SLOTS)
		return -1;
	for (int i = 0; i <= n; i++) {
		struct seat *t = free_seat(s);

		*t = (struct seat){ .config = c, .role = i == n ? BOARD_JANITOR : BOARD_WORKER, .generation = generation };
		start(s, t, now);
	}
	return 0;
}

static void release(struct seats *s, struct seat *t)
{
	slot_of(s, t)->pid = 0;
	slot_of(s, t)->role = BOARD_FREE;
	*t = (struct seat){ .role = BOARD_FREE };
}

void seats_retire(struct seats *s, unsigned keep, int64_t drain_ms, int64_t now)
{
	for (struct seat *t = s->seats; t < s->seats + LIMIT_SLOTS; t++) {
		if (t->role == BOARD_FREE || (keep && t->generation == keep) || t->kill_at)
			continue;
		if (t->pid == 0) {
			release(s, t);
			continue;
		}
		t->kill_at = now + drain_ms;
		kill(t->pid, SIGTERM);
	}
}

static const char *how_it_ended(int status, char *dst, size_t n)
{
	if (WIFSIGNALED(status))
		snprintf(dst, n, "signal %d", WTERMSIG(status));
	else
		snprintf(dst, n, "status %d", WEXITSTATUS(status));
	return dst;
}

/* A child left a seat that is to be filled again. */
static void vacate(struct seats *s, struct seat *t, int status, int64_t now)
{
	bool by_itself = slot_of(s, t)->done && WIFEXITED(status) && WEXITSTATUS(status) == 0;
	char how[32];

	if (by_itself) {
		s->board->recycled++;
		t->backoff = 0;
		t->due = now;
	} else {
		s->board->deaths++;
		log_child(LOG_WARN, "child_died", t, t->pid, how_it_ended(status, how, sizeof(how)));
		if (now - t->started >= LIMIT_YOUNG_MS) {
			t->backoff = 0;
			t->due = now;
		} else {
			plan_again(t, now);
		}
	}
	t->pid = 0;
	slot_of(s, t)->pid = 0;
	slot_of(s, t)->busy_since = 0;
}

static struct seat *seat_of(struct seats *s, pid_t pid)
{
	for (struct seat *t = s->seats; t < s->seats + LIMIT_SLOTS; t++)
		if (t->role != BOARD_FREE && t->pid == pid)
			return t;
	return NULL;
}

void seats_reap(struct seats *s, int64_t now)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		struct seat *t = seat_of(s, pid);

		if (t && t->kill_at)
			release(s, t);
		else if (t)
			vacate(s, t, status, now);
	}
}

static bool stuck(struct seats *s, const struct seat *t, int64_t now)
{
	int64_t since = slot_of(s, t)->busy_since;

	return since && now - since > (t->role == BOARD_JANITOR ? LIMIT_JANITOR_MS : LIMIT_REQUEST_MS);
}

void seats_tick(struct seats *s, int64_t now)
{
	for (struct seat *t = s->seats; t < s->seats + LIMIT_SLOTS; t++) {
		if (t->role == BOARD_FREE)
			continue;
		if (t->pid == 0) {
			if (now >= t->due)
				start(s, t, now);
		} else if (t->kill_at && now >= t->kill_at) {
			log_child(LOG_WARN, "child_killed", t, t->pid, "did not drain in time");
			t->kill_at = now + LIMIT_TICK_MS;
			kill(t->pid, SIGKILL);
		} else if (stuck(s, t, now)) {
			s->board->stuck++;
			log_child(LOG_ERROR, "child_stuck", t, t->pid, "took too long on one request");
			slot_of(s, t)->busy_since = 0;
			kill(t->pid, SIGKILL);
		}
	}
}

int64_t seats_next(const struct seats *s, int64_t now)
{
	int64_t next = LIMIT_TICK_MS;

	for (const struct seat *t = s->seats; t < s->seats + LIMIT_SLOTS; t++) {
		int64_t at = t->role == BOARD_FREE ? 0 : t->pid == 0 ? t->due : t->kill_at;

		if (at && at - now < next)
			next = at > now ? at - now : 0;
	}
	return next;
}

bool seats_ready(const struct seats *s, unsigned generation)
{
	for (const struct seat *t = s->seats; t < s->seats + LIMIT_SLOTS; t++)
		if (t->role != BOARD_FREE && t->generation == generation && (t->pid == 0 || slot_of(s, t)->state == BOARD_STARTING))
			return false;
	return true;
}

unsigned seats_count(const struct seats *s, unsigned generation)
{
	unsigned n = 0;

	for (const struct seat *t = s->seats; t < s->seats + LIMIT_SLOTS; t++)
		n += t->role != BOARD_FREE && (generation == 0 || t->generation == generation);
	return n;
}
