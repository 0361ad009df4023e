/* main.c - paddock-executor: puts the parts together and runs the loop. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/log.h"
#include "core/crypto.h"
#include "core/unixsock.h"
#include "executor/executor.h"
#include "executor/listing.h"
#include "executor/lock.h"

#define BACKLOG 4096
#define KEEP_MAX_MS (24 * 3600 * INT64_C(1000))
#define LAG_TICK_MS 100
#define LAG_TICK_IDLE_MS 5000
#define WANT_FILES 65536

/* --- the process --- */

/* No new privileges, no core dumps (a command's environment may be in memory), many descriptors, orphans come to us, nobody else reads what we write. */
static int process_setup(err_t **err)
{
	struct rlimit none = { 0, 0 }, files;

	umask(077);
	if (setrlimit(RLIMIT_CORE, &none) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return err_sys(err, errno, "core dumps");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return err_sys(err, errno, "new privileges");
	if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
		return err_sys(err, errno, "child subreaper");
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max < WANT_FILES ? files.rlim_max : WANT_FILES;
		(void)setrlimit(RLIMIT_NOFILE, &files);
	}
	signal(SIGPIPE, SIG_IGN);
	return 0;
}

static int state_open(const struct config *c, err_t **err)
{
	const char *path = config_str(c, "paths.state");
	int fd;

	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return err_sys(err, errno, "%s", path);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? err_sys(err, errno, "%s", path) : fd;
}

/* --- events of the instances --- */

static void on_changed(void *arg, struct instance *i)
{
	struct executor *x = arg;

	commands_instance_changed(x->commands, i);   /* first: the ends of its commands are reported before its own */
	scopes_instance_changed(x->scopes, i);
	reports_instance(x->reports, instance_id(i), instance_version(i));
	watch_tell(&x->instance_watches);
}

static void on_connected(void *arg, struct instance *i)
{
	struct executor *x = arg;

	commands_instance_connected(x->commands, i);
	scopes_instance_connected(x->scopes, i);
}

static void on_wake_failed(void *arg, struct instance *i)
{
	commands_instance_wake_failed(((struct executor *)arg)->commands, i);
}

static void on_kept(void *arg, struct instance *i)
{
	(void)i;
	watch_tell(&((struct executor *)arg)->instance_watches);
}

static void on_scope_ended(void *arg, const char *iid, const char *scope, const err_t *err)
{
	scopes_answered(((struct executor *)arg)->scopes, iid, scope, err);
}

static void on_listed(void *arg, const struct listed *items, size_t n, bool complete, const err_t *err)
{
	listing_set(((struct executor *)arg)->listing, items, n, complete, err);
}

static void on_started(void *arg, const char *iid, const char *cid, const struct exec_started *s, int out_fd, int err_fd)
{
	commands_started(((struct executor *)arg)->commands, iid, cid, s, out_fd, err_fd);
}

static void on_exited(void *arg, const char *iid, const char *cid, const struct exec_exited *e)
{
	commands_exited(((struct executor *)arg)->commands, iid, cid, e);
}

static void on_stdin_taken(void *arg, const char *iid, const char *cid, uint64_t taken, uint64_t window)
{
	commands_stdin_taken(((struct executor *)arg)->commands, iid, cid, taken, window);
}

static const struct instances_events instances_events = {
	.changed = on_changed, .connected = on_connected, .wake_failed = on_wake_failed, .kept = on_kept, .started = on_started, .exited = on_exited,
	.stdin_taken = on_stdin_taken, .scope_ended = on_scope_ended, .listed = on_listed,
};

static bool instance_gone(void *arg, const char *iid)
{
	struct executor *x = arg;
	struct instance *i = x->instances ? instances_find(x->instances, iid) : NULL;

	return !i || instance_state(i) == INSTANCE_IS_GONE;
}

static void report_unacked(void *arg, struct instance *i)
{
	struct executor *x = arg;

	if (instance_version(i) > instance_acked(i))
		reports_instance(x->reports, instance_id(i), instance_version(i));
}

/* --- the loop's lag --- */

struct lag {
	struct executor *x;
	struct loop_timer *timer;
	int64_t due_us;
	uint64_t requests;
};

/* Seldom while nobody asks for anything: an idle executor sleeps. */
static void lag_arm(struct lag *l)
{
	uint64_t requests = l->x->http ? http_requests(l->x->http) : 0;
	int64_t in_ms = requests != l->requests || commands_open(l->x->commands, NULL) ? LAG_TICK_MS : LAG_TICK_IDLE_MS;

	l->requests = requests;
	l->due_us = clock_boot_us() + in_ms * 1000;
	loop_timer_set(l->timer, in_ms);
}

static void on_lag_tick(void *arg)
{
	struct lag *l = arg;
	int64_t late = clock_boot_us() - l->due_us;

	if (late > l->x->lag_max_us)
		l->x->lag_max_us = late;
	lag_arm(l);
}

/* --- start and stop --- */

static struct commands_limits limits_of(const struct config *c)
{
	return (struct commands_limits){
		.output_limit = (uint64_t)config_int(c, "executor.output_limit_bytes"),
		.stdin_bytes = (uint64_t)config_int(c, "executor.stdin_bytes"),
		.text_bytes = (size_t)config_int(c, "executor.text_bytes"),
		.max_commands = (unsigned)config_int(c, "executor.max_commands"),
		.instance_commands = (unsigned)config_int(c, "executor.instance_commands"),
		.caps = {
			.head = (uint64_t)config_int(c, "executor.stream_head_bytes"),
			.tail = (uint64_t)config_int(c, "executor.stream_tail_bytes"),
			.index_records = (uint64_t)config_int(c, "executor.index_records"),
		},
	};
}

/* An account that does not exist here lets nobody in. */
static uid_t uid_or_none(const char *account)
{
	uid_t uid = unix_uid_of(account, NULL);

	if (uid == (uid_t)-1)
		log_kv(LOG_WARN, "account_missing", "account", account, NULL);
	return uid;
}

static int http_start(struct executor *x, err_t **err)
{
	const char *path = config_str(x->config, "executor.socket");
	struct http_peers peers = {
		.full = { 0, getuid(), uid_or_none(config_str(x->config, "executor.api_account")) },
		.tickets = uid_or_none(config_str(x->config, "executor.nginx_account")),
	};
	int fd = unix_listen(path, 0666, BACKLOG, err);   /* who may speak is decided by peer uid */

	if (fd < 0)
		return -1;
	x->http = http_new(x->loop, fd, &peers, config_int(x->config, "executor.request_ms"), executor_routes, x, err);
	return x->http ? 0 : -1;
}

static int open_parts(struct executor *x, int state_fd, err_t **err)
{
	struct journal_policy keep = {
		.keep_ms = config_int(x->config, "executor.journal_keep_ms"), .keep_max_ms = KEEP_MAX_MS, .instance_gone = instance_gone, .arg = x,
		.max_bytes = (uint64_t)config_int(x->config, "executor.journal_max_bytes"),
		.min_free = (uint64_t)config_int(x->config, "executor.min_free_bytes"),
	};
	struct commands_limits limits = limits_of(x->config);

	if (!(x->reports = reports_new(x->loop, err)) || !(x->tickets = tickets_new(config_int(x->config, "executor.ticket_ms"), err)) ||
	    !(x->journal = journal_open(x->loop, state_fd, &keep, err)) ||
	    !(x->listing = listing_new(err)) ||
	    !(x->commands = commands_new(x->loop, x->journal, x->reports, &limits, err)) ||
	    !(x->scopes = scopes_open(x->loop, state_fd, config_int(x->config, "executor.tombstone_ms"), err)) ||
	    !(x->instances = instances_open(x->loop, x->config, state_fd, &instances_events, x, err)))
		return -1;
	commands_attach(x->commands, x->instances, x->scopes);
	scopes_attach(x->scopes, x->instances, x->commands);
	instances_each(x->instances, report_unacked, x);
	return http_start(x, err);
}

/* Streams first: they hold references to outputs. */
static void close_parts(struct executor *x)
{
	http_free(x->http);
	scopes_close(x->scopes);
	listing_free(x->listing);
	commands_free(x->commands);
	instances_close(x->instances);
	journal_free(x->journal);
	tickets_free(x->tickets);
	reports_free(x->reports);
}

static void on_stop(void *arg, int signo)
{
	log_kv(LOG_INFO, "stopping", "signal", signo == SIGTERM ? "TERM" : "INT", NULL);
	loop_stop(arg);
}

static int serve(const struct config *c, int state_fd, err_t **err)
{
	struct executor x = { .config = c, .started_ms = clock_boot_ms() };
	struct lag lag = { .x = &x };
	int rc = -1;

	list_init(&x.instance_watches);
	x.loop = loop_new(err);
	if (!x.loop)
		return -1;
	lag.timer = loop_timer_new(x.loop, on_lag_tick, &lag);
	if (lag.timer && loop_signal(x.loop, SIGTERM, on_stop, x.loop) == 0 && loop_signal(x.loop, SIGINT, on_stop, x.loop) == 0 &&
	    open_parts(&x, state_fd, err) == 0) {
		log_kv(LOG_INFO, "ready", "socket", config_str(c, "executor.socket"), NULL);
		lag_arm(&lag);
		rc = loop_run(x.loop, err);
	}
	close_parts(&x);
	loop_timer_free(lag.timer);
	loop_free(x.loop);
	return rc;
}

int main(int argc, char **argv)
{
	struct config *c = NULL;
	cleanup_err err_t *e = NULL;
	enum log_level level = LOG_INFO;
	cleanup_close int state_fd = -1, lock_fd = -1;
	int rc;

	if (io_std_fds() < 0)
		return 2;
	rc = config_main(argc, argv, "paddock-executor", "runs commands in sandboxes and keeps their output", &c);
	if (rc != 0)
		return rc > 0 ? 0 : 2;
	(void)log_level_parse(config_str(c, "service.log_level"), &level);
	log_init("executor", level);
	/* NOLINTNEXTLINE(clang-analyzer-deadcode.DeadStores): the lock is held by being open */
	if (process_setup(&e) < 0 || crypto_init(&e) < 0 || (state_fd = state_open(c, &e)) < 0 || (lock_fd = lock_take(state_fd, &e)) < 0 ||
	    serve(c, state_fd, &e) < 0)
		log_kv(LOG_ERROR, "stopped", "err", err_message(e), NULL);
	config_free(c);
	return e ? 1 : 0;
}
