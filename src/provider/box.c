/* box.c - a container's life: found or made, started, limited, closed off, connected. Its end is in box_end.c. */
#include "provider/box.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/io.h"
#include "base/log.h"
#include "base/rand.h"
#include "base/str.h"
#include "provider/container.h"
#include "provider/leftovers.h"

#define BACKOFF_MIN_MS 100
#define BACKOFF_MAX_MS 3000
#define RECHECK_MS 1000
#define EARLY_LOOK_MS 20
#define REFUSALS_MAX 4
#define REMAKES_MAX 2
#define GHOSTS_MAX 3
#define GUARD_TRIES 3
#define UNSURE_MS 35000        /* longer than the deadline of any engine call */
#define CGROUP_ROOT "/sys/fs/cgroup"

static void run(void *arg);

struct box *box_new(struct provider *p, const char *id, err_t **err)
{
	struct box *b = calloc(1, sizeof(*b));

	if (!b || !(b->timer = loop_timer_new(p->loop, run, b))) {
		free(b);
		err_set(err, ERR_NO_MEMORY, NULL, "instance");
		return NULL;
	}
	b->p = p;
	b->backoff_ms = BACKOFF_MIN_MS;
	list_init(&b->execs);
	list_add_tail(&p->boxes, &b->link_node);
	if (str_copy(b->id, sizeof(b->id), id) < 0 || str_fmt(b->name, sizeof(b->name), "%s%s", p->prefix, id) < 0) {
		box_free(b);
		err_set(err, ERR_INVALID, "bad_id", "instance id too long");
		return NULL;
	}
	return b;
}

void box_free(struct box *b)
{
	list_del(&b->link_node);
	box_execs_free(b);
	guard_cancel(b->guard);
	box_agent_close(b, false);
	cgroup_free(b->cgroup);
	loop_timer_free(b->timer);
	free(b);
}

void box_kick(struct box *b)
{
	loop_timer_set(b->timer, 0);
}

void box_begin(struct box *b, enum box_step first)
{
	b->step = first;
	b->deadline_ms = clock_boot_ms() + b->p->create_timeout_ms;
	box_kick(b);
}

static void go_down(struct box *b)
{
	b->step = BOX_DOWN;
	guard_cancel(steal_ptr(&b->guard));
	loop_timer_set(b->timer, -1);
}

void box_fail(struct box *b, const err_t *why)
{
	log_kv(LOG_WARN, "instance_failed", "instance", b->id, "err", err_message(why), NULL);
	go_down(b);
	container_tell(b, INSTANCE_FAILED, why);
}

void box_exited(struct box *b, const err_t *why)
{
	log_kv(LOG_WARN, "instance_ended", "instance", b->id, "err", err_message(why), NULL);
	go_down(b);
	container_tell(b, INSTANCE_EXITED, why);
}

static void fail_with(struct box *b, enum err_code code, const char *detail, const char *what)
{
	cleanup_err err_t *err = NULL;

	err_set(&err, code, detail, "%s", what);
	box_fail(b, err);
}

void box_retry(struct box *b, const err_t *why)
{
	int64_t now = clock_boot_ms();

	if (now + b->backoff_ms > b->deadline_ms) {
		if (b->step >= BOX_REMOVE) {
			b->step = BOX_DOWN;
			container_tell(b, INSTANCE_DESTROY_FAILED, why);
		} else {
			box_fail(b, why);
		}
		return;
	}
	log_kv(LOG_INFO, "instance_retry", "instance", b->id, "err", err_message(why), NULL);
	loop_timer_set(b->timer, b->backoff_ms);
	b->backoff_ms = b->backoff_ms * 2 > BACKOFF_MAX_MS ? BACKOFF_MAX_MS : b->backoff_ms * 2;
}

/* Every answer passes here first. True: this box is to be destroyed, the answer no longer matters. */
static bool answered(struct box *b)
{
	b->busy = false;
	if (b->want_destroy)
		box_kick(b);
	return b->want_destroy;
}

static void next(struct box *b, enum box_step step)
{
	static const char *const names[] = { "lookup", "create", "start", "remake", "wait", "up", "down", "remove", "confirm" };

	log_kv(LOG_DEBUG, "instance_step", "instance", b->id, "step", names[step], NULL);
	b->step = step;
	box_kick(b);
}

/* --- look up --- */

static bool is_ours(const struct box *b, const struct engine_container *c)
{
	return str_eq(c->name, b->name) && str_eq(c->instance, b->id) && str_eq(c->node, b->p->engine_config.node) && c->token_hash[0];
}

static void decide(struct box *b, const struct engine_container *c)
{
	cleanup_err err_t *err = NULL;

	if (!is_ours(b, c)) {
		fail_with(b, ERR_REFUSED, "foreign_container", "a container of that name is not ours");
		return;
	}
	b->ghosts = 0;
	b->unsure_until_ms = 0;   /* names are unique: that create has come true, or cannot any more */
	str_copy(b->container, sizeof(b->container), c->id);
	str_copy(b->token_hash, sizeof(b->token_hash), c->token_hash);
	if (c->state == ENGINE_RUNNING && c->pid > 0) {
		box_settle(b, c);
	} else if (c->state == ENGINE_CREATED && !b->was_ready) {
		next(b, BOX_START);
	} else if (c->state == ENGINE_STOPPED && b->was_ready) {
		err_set(&err, ERR_GONE, "instance_ended", "the container has ended");
		box_exited(b, err);
	} else if (c->state == ENGINE_STOPPED && b->remakes++ < REMAKES_MAX) {
		next(b, BOX_REMAKE);
	} else if (c->state == ENGINE_STOPPED) {
		fail_with(b, ERR_UNAVAILABLE, "agent_ended", "the agent ended before it was ready");
	} else {
		err_set(&err, ERR_BUSY, "container_busy", "the container is in an odd state");
		box_retry(b, err);
	}
}

static void on_lookup(void *arg, const struct engine_answer *a, const err_t *err)
{
	struct box *b = arg;
	cleanup_err err_t *gone = NULL;

	if (answered(b))
		return;
	if (!err) {
		decide(b, &a->items[0]);
	} else if (err_code(err) != ERR_NOT_FOUND) {
		box_retry(b, err);
	} else if (b->was_ready) {
		err_set(&gone, ERR_GONE, "instance_ended", "the container is no longer there");
		box_exited(b, gone);
	} else {
		next(b, BOX_CREATE);
	}
}

/* --- create and start --- */

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

	if (!err || err_code(err) == ERR_REFUSED || err_code(err) == ERR_NOT_FOUND || err_code(err) == ERR_UNAVAILABLE)
		b->unsure_until_ms = 0;
	FAULT_POINT("container_created");
	if (answered(b))
		return;
	if (!err) {
		str_copy(b->container, sizeof(b->container), a->id);
		next(b, BOX_START);
	} else if (err_code(err) == ERR_NOT_FOUND) {
		fail_with(b, ERR_UNAVAILABLE, "image_missing", "the engine has no image of the configured name");
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

static int create(struct box *b, err_t **err)
{
	struct provider *p = b->p;
	char token[65], workspace[PATH_MAX], dir[PATH_MAX];
	struct engine_spec s = { .name = b->name, .instance = b->id, .token = token, .token_hash = b->token_hash, .workspace = workspace, .agent_dir = dir };
	int rc;

	if (workspace_make(p->workspaces_fd, b->workspace, err) < 0)
		return -1;
	if (str_fmt(workspace, sizeof(workspace), "%s/%s/files", p->workspaces, b->workspace) < 0 ||
	    str_fmt(dir, sizeof(dir), "%s/%s", p->agent_dir, b->id) < 0)
		return err_set(err, ERR_TOO_LARGE, NULL, "path too long");
	rand_hex(token, 32);
	container_token_hash(token, b->token_hash);
	b->unsure_until_ms = clock_boot_ms() + UNSURE_MS;
	rc = p->ops->create(p->engine, &s, on_created, b, err);
	crypto_wipe(token, sizeof(token));
	return rc;
}

static void on_started(void *arg, const struct engine_answer *a, const err_t *err)
{
	struct box *b = arg;

	(void)a;
	FAULT_POINT("container_started");
	if (answered(b))
		return;
	if (!err)
		next(b, BOX_LOOKUP);
	else if (err_code(err) == ERR_REFUSED)
		box_fail(b, err);
	else
		on_refusal(b, err);
}

static void on_remade(void *arg, const struct engine_answer *a, const err_t *err)
{
	struct box *b = arg;

	(void)a;
	if (answered(b))
		return;
	if (err) {
		box_retry(b, err);
		return;
	}
	guard_cancel(steal_ptr(&b->guard));
	b->guarded = false;
	b->guard_pid = b->pid = 0;
	next(b, BOX_CREATE);
}

/* --- it runs --- */

static uid_t uid_of(pid_t pid)
{
	cleanup_free char *text = NULL;
	char path[64];
	unsigned uid = (unsigned)-1;
	const char *line;

	if (str_fmt(path, sizeof(path), "/proc/%d/status", (int)pid) == 0 && io_read_file(AT_FDCWD, path, 16384, &text, NULL, NULL) == 0 &&
	    (line = strstr(text, "\nUid:")))
		sscanf(line, "\nUid: %u", &uid);
	return (uid_t)uid;
}

static void limit(struct box *b)
{
	cleanup_err err_t *err = NULL;
	cleanup_free char *text = NULL;
	struct provider *p = b->p;
	char path[64];

	cgroup_free(steal_ptr(&b->cgroup));
	b->enforced = str_fmt(path, sizeof(path), "/proc/%d/cgroup", (int)b->pid) == 0 && io_read_file(AT_FDCWD, path, 65536, &text, NULL, &err) == 0 &&
		(b->cgroup = cgroup_open(CGROUP_ROOT, text, p->engine_config.cgroup_parent, &err)) && cgroup_limit(b->cgroup, &p->limits, &err) == 0;
	if (!b->enforced && p->limits_seen != LIMITS_NOMINAL)
		log_kv(LOG_WARN, "limits_nominal", "instance", b->id, "err", err_message(err), NULL);
	p->limits_seen = b->enforced ? LIMITS_ENFORCED : LIMITS_NOMINAL;
	str_copy(p->limits_hint, sizeof(p->limits_hint), b->enforced ? "" : err_message(err));
}

static void close_network(struct box *b, pid_t pid);

static void on_guarded(void *arg, const err_t *err)
{
	struct box *b = arg;

	b->guard = NULL;
	if (b->want_destroy || b->step == BOX_DOWN)
		return;
	if (!err) {
		log_kv(LOG_DEBUG, "instance_guarded", "instance", b->id, NULL);
		b->guarded = true;
		box_check_up(b);
	} else if (b->step != BOX_WAIT) {
		b->guard_pid = 0;   /* too early: tried again when the engine has told the pid */
	} else if (b->guard_tries < GUARD_TRIES) {
		close_network(b, b->pid);
	} else {
		box_fail(b, err);
	}
}

static void close_network(struct box *b, pid_t pid)
{
	cleanup_err err_t *err = NULL;

	guard_cancel(steal_ptr(&b->guard));
	b->guarded = false;
	b->guard_tries++;
	b->guard_pid = pid;
	b->guard = guard_start(b->p->loop, b->p->netguard, pid, on_guarded, b, &err);
	if (!b->guard)
		box_fail(b, err);
}

/* While the engine still starts the container, the runtime's record tells its first process: the guard's time is hidden behind the engine's.
 * The engine's own word is asked for all the same; another pid there means: once more. */
static void guard_early(struct box *b)
{
	pid_t pid = b->p->engine_config.internet && !b->guard_pid ? leftovers_recorded(b->container, b->p->runtime_state) : 0;

	if (pid)
		close_network(b, pid);
	else if (b->p->engine_config.internet && !b->guard_pid)
		loop_timer_set(b->timer, EARLY_LOOK_MS);
}

void box_settle(struct box *b, const struct engine_container *c)
{
	bool fresh = b->pid != c->pid;
	uid_t uid = uid_of(c->pid);

	if (uid == (uid_t)-1) {
		/* it ended between the answer and now: the next look tells */
		b->step = BOX_LOOKUP;
		loop_timer_set(b->timer, BACKOFF_MIN_MS);
		return;
	}
	b->step = BOX_WAIT;
	log_kv(LOG_DEBUG, "instance_runs", "instance", b->id, NULL);
	if (fresh) {
		b->pid = c->pid;
		limit(b);
		agent_link_expect(b->agent, uid, b->pid);
		if (!b->p->engine_config.internet)
			b->guarded = true;
		else if (b->guard_pid != b->pid)
			close_network(b, b->pid);
	}
	if (b->step == BOX_WAIT) {
		loop_timer_set(b->timer, RECHECK_MS);
		box_check_up(b);
	}
}

void box_check_up(struct box *b)
{
	if (b->step != BOX_WAIT || !b->guarded || !agent_link_ready(b->agent))
		return;
	b->step = BOX_UP;
	b->was_ready = true;
	b->backoff_ms = BACKOFF_MIN_MS;
	loop_timer_set(b->timer, -1);
	container_tell(b, INSTANCE_READY, NULL);
}

/* The agent is not there (yet, or any more): does the container still run? */
static void on_recheck(void *arg, const struct engine_answer *a, const err_t *err)
{
	struct box *b = arg;
	cleanup_err err_t *late = NULL;

	if (answered(b) || (b->step == BOX_UP && agent_link_ready(b->agent)) || b->step == BOX_DOWN)
		return;
	if ((err && err_code(err) == ERR_NOT_FOUND) || (!err && (a->items[0].state != ENGINE_RUNNING || a->items[0].pid != b->pid))) {
		err_set(&late, ERR_GONE, b->was_ready ? "instance_ended" : "agent_ended", "the container has ended");
		if (b->was_ready)
			box_exited(b, late);
		else
			box_fail(b, late);
		return;
	}
	if (b->step == BOX_WAIT && clock_boot_ms() > b->deadline_ms) {
		err_set(&late, ERR_TIMEOUT, "create_timeout", "%s", b->guarded ? "the agent did not connect in time" : "the network was not closed in time");
		box_fail(b, late);
		return;
	}
	loop_timer_set(b->timer, RECHECK_MS);
}

/* --- the driver --- */

static int act(struct box *b, err_t **err)
{
	struct provider *p = b->p;

	switch (b->step) {
	case BOX_LOOKUP:
		return p->ops->inspect(p->engine, b->name, on_lookup, b, err);
	case BOX_CREATE:
		return create(b, err);
	case BOX_START:
		loop_timer_set(b->timer, EARLY_LOOK_MS);
		return p->ops->start(p->engine, b->name, on_started, b, err);
	case BOX_REMAKE:
		return p->ops->remove(p->engine, b->name, on_remade, b, err);
	case BOX_WAIT:
	case BOX_UP:
		return p->ops->inspect(p->engine, b->name, on_recheck, b, err);
	case BOX_DOWN:
	case BOX_REMOVE:
	case BOX_CONFIRM:
		break;
	}
	return err_set(err, ERR_INTERNAL, NULL, "no such step");
}

static void run(void *arg)
{
	struct box *b = arg;
	cleanup_err err_t *err = NULL;

	if (b->busy) {
		if (b->step == BOX_START && !b->want_destroy)
			guard_early(b);
		return;
	}
	if (b->want_destroy && b->step < BOX_REMOVE)
		b->step = BOX_REMOVE;
	if (b->step >= BOX_REMOVE) {
		box_run_removal(b);
		return;
	}
	if (b->step == BOX_DOWN || (b->step == BOX_UP && agent_link_ready(b->agent)))
		return;
	b->busy = true;
	if (act(b, &err) < 0) {
		b->busy = false;
		if (b->step == BOX_CREATE)
			box_fail(b, err);
		else
			box_retry(b, err);
	}
}
