/* unshare_provider.c - a provider for tests: an "instance" is the real agent as PID 1 of a pid namespace of its own, nothing more. Needs root.
 *
 * Linked instead of the registry of providers: `provider_find` always gives this one. Like the real one it outlives the executor. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/num.h"
#include "base/str.h"
#include "core/id.h"
#include "provider/agents.h"

#define TOKEN "unshare"

struct provider {
	struct agents agents;      /* first: agents.h */
	char dir[80];
	int dir_fd;
	char agent[256];
	char token_hash[AGENT_HASH_SIZE];
};

struct box {
	struct agent_instance agent;
	struct provider *p;
	char id[ID_SIZE];
	struct loop_io *io;        /* the pidfd; NULL: it has ended */
	int pidfd;
	pid_t pid;
	bool was_ready, destroying;
	struct loop_timer *soon;
};

static struct box *box_of(struct agent_instance *i)
{
	return i ? list_entry(i, struct box, agent) : NULL;
}

static void pid_path(const struct provider *p, const char *id, char dst[160])
{
	if (str_fmt(dst, 160, "%s/%s.pid", p->dir, id) < 0)
		abort();
}

static void box_free(struct box *b)
{
	agent_instance_free(&b->agent);
	loop_io_free(b->io);
	loop_timer_free(b->soon);
	if (b->pidfd >= 0)
		close(b->pidfd);
	free(b);
}

/* --- the agent --- */

static enum agent_life box_life(const struct agent_instance *i)
{
	const struct box *b = list_entry(i, struct box, agent);

	if (b->destroying)
		return AGENT_ENDS;
	if (!b->io)
		return AGENT_NONE;
	return b->was_ready ? AGENT_UP : AGENT_RUNS;
}

static void on_ready(struct agent_instance *i)
{
	box_of(i)->was_ready = true;
	agent_instance_tell(i, INSTANCE_READY, NULL);
}

static void on_lost(struct agent_instance *i)
{
	agent_instance_tell(i, INSTANCE_LOST_CONTACT, NULL);
}

static const struct agents_ops agents_ops = { .life = box_life, .ready = on_ready, .lost = on_lost };

/* --- the process --- */

static void on_soon(void *arg)
{
	struct box *b = arg;
	char path[160];

	if (b->destroying) {
		pid_path(b->p, b->id, path);
		(void)unlink(path);
		agent_instance_remove(&b->agent);
	}
	agent_instance_tell(&b->agent, b->destroying ? INSTANCE_GONE : INSTANCE_EXITED, NULL);
	agent_instance_scopes_over(&b->agent, NULL);
	if (b->destroying)
		box_free(b);
}

static void on_death(void *arg, int fd, int events)
{
	struct box *b = arg;

	(void)fd;
	(void)events;
	loop_io_free(steal_ptr(&b->io));
	on_soon(b);
}

/* A home of its own; the agent is opened before, for it may lie below /home. */
static char with_home[] = "exec 9<\"$1\" && mount -t tmpfs -o mode=755 none /home && mkdir /home/user && chown 1000:1000 /home/user && "
	"exec /proc/self/fd/9 \"$2\"";

static pid_t spawn(const struct provider *p, const char *id)
{
	char sock[160];
	char *argv[] = { "unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", with_home, "sh", (char *)p->agent, sock, NULL };
	char *env[] = { "PADDOCK_AGENT_TOKEN=" TOKEN, NULL };
	pid_t pid;

	if (str_fmt(sock, sizeof sock, "%s/%s/s", p->dir, id) < 0)
		return -1;
	pid = fork();
	if (pid != 0)
		return pid;
	setsid();
	execve("/usr/bin/unshare", argv, env);
	_exit(127);
}

static int watch_pid(struct box *b)
{
	b->pidfd = (int)syscall(SYS_pidfd_open, b->pid, 0);
	if (b->pidfd >= 0) {
		b->io = loop_io_new(b->p->agents.loop, b->pidfd, LOOP_READ, on_death, b);
		return b->io ? 0 : -1;
	}
	loop_timer_set(b->soon, 0);   /* it is dead already */
	return 0;
}

static struct box *box_new(struct provider *p, const char *id, err_t **err)
{
	struct box *b = calloc(1, sizeof *b);

	if (!b || str_copy(b->id, sizeof b->id, id) < 0)
		abort();
	b->p = p;
	b->pidfd = -1;
	agent_instance_init(&b->agent, &p->agents, b->id, p->token_hash);
	b->soon = loop_timer_new(p->agents.loop, on_soon, b);
	if (agent_instance_open(&b->agent, err) < 0) {
		box_free(b);
		return NULL;
	}
	agent_link_expect(b->agent.link, (uid_t)-1, (pid_t)-1);
	return b;
}

static int ops_create(struct provider *p, const struct instance_spec *s, err_t **err)
{
	struct box *b = agents_may_add(&p->agents, s, err) < 0 ? NULL : box_new(p, s->id, err);
	char name[ID_SIZE + 8], text[24];

	if (!b)
		return -1;
	b->pid = spawn(p, s->id);
	if (str_fmt(name, sizeof name, "%s.pid", s->id) < 0 || str_fmt(text, sizeof text, "%d", b->pid) < 0 ||
	    io_write_file(p->dir_fd, name, text, strlen(text), 0600, 0, err) < 0)
		return -1;
	return watch_pid(b);
}

static pid_t pid_read(struct provider *p, const char *id)
{
	cleanup_free char *text = NULL;
	char path[160];
	size_t n;
	int64_t pid = 0;

	pid_path(p, id, path);
	if (io_read_file(AT_FDCWD, path, 32, &text, &n, NULL) < 0 || num_i64(text, 2, INT32_MAX, &pid) < 0)
		return 0;
	return (pid_t)pid;
}

static int ops_adopt(struct provider *p, const struct instance_spec *s, enum instance_was was, err_t **err)
{
	pid_t pid = pid_read(p, s->id);
	struct box *b;

	if (pid == 0 && was == INSTANCE_WAS_MADE)
		return ops_create(p, s, err);
	b = agents_may_add(&p->agents, s, err) < 0 ? NULL : box_new(p, s->id, err);
	if (!b)
		return -1;
	b->pid = pid ? pid : 1 << 30;
	return watch_pid(b);
}

/* Process 1 of the namespace dies first; unshare then ends by itself, and is killed too in case it had no child yet. */
static void kill_box(pid_t pid)
{
	cleanup_free char *text = NULL;
	char path[64];
	size_t n;
	int64_t child;

	if (str_fmt(path, sizeof path, "/proc/%d/task/%d/children", pid, pid) == 0 &&
	    io_read_file(AT_FDCWD, path, 64, &text, &n, NULL) == 0) {
		text[strcspn(text, " ")] = '\0';
		if (num_i64(text, 2, INT32_MAX, &child) == 0)
			(void)kill((pid_t)child, SIGKILL);
	}
	(void)kill(pid, SIGKILL);
}

static int ops_destroy(struct provider *p, const char *id, err_t **err)
{
	struct box *b = box_of(agents_find(&p->agents, id));

	if (!b && !(b = box_new(p, id, err)))
		return -1;
	b->destroying = true;
	if (b->pid == 0)
		b->pid = pid_read(p, id);
	if (b->pid > 1)
		kill_box(b->pid);
	if (b->io)
		return 0;
	loop_timer_set(b->soon, 0);
	return 0;
}

/* --- answers from the loop --- */

static void tell_list(void *arg)
{
	struct provider *p = arg;
	struct listed items[256];
	size_t n = 0, all = 0;

	list_for_each(i, &p->agents.instances) {
		struct box *b = list_entry(i, struct box, agent.node);

		if (!b->io)
			continue;
		all++;
		if (n < sizeof items / sizeof items[0])
			items[n++] = (struct listed){ .ref = b->id, .id = b->id, .state = agent_link_ready(b->agent.link) ? LISTED_RUNNING : LISTED_OTHER };
	}
	p->agents.events->listed(p->agents.arg, items, n, n == all, NULL);
}

static int ops_lookup(struct provider *p, const char *id, err_t **err)
{
	struct box *b = box_of(agents_find_or_say(&p->agents, id, err));

	if (!b)
		return -1;
	return owed_event(p->agents.owed, id, agent_link_ready(b->agent.link) ? INSTANCE_READY : b->io ? INSTANCE_AT_IT : INSTANCE_EXITED, NULL, err);
}

static int ops_pause(struct provider *p, const char *id, err_t **err)
{
	(void)p;
	(void)id;
	return err_set(err, ERR_REFUSED, "pause_unsupported", "it is not paused");
}

static int ops_keep(struct provider *p, const char *id, int64_t ms, err_t **err)
{
	struct box *b = box_of(agents_find_or_say(&p->agents, id, err));

	(void)ms;
	if (!b)
		return -1;
	return owed_event(p->agents.owed, id, agent_link_ready(b->agent.link) ? INSTANCE_KEPT : INSTANCE_KEEP_FAILED, NULL, err);
}

static int ops_list(struct provider *p, err_t **err)
{
	return owed_call(p->agents.owed, tell_list, p, err);
}

/* --- the rest --- */

static struct provider *ops_open(struct loop *l, const struct config *c, const struct provider_events *ev, void *arg, err_t **err)
{
	struct provider *p = calloc(1, sizeof *p);

	if (!p || str_copy(p->dir, sizeof p->dir, config_str(c, "container.agent_dir")) < 0 ||
	    str_copy(p->agent, sizeof p->agent, config_str(c, "container.agent")) < 0) {
		free(p);
		err_set(err, ERR_INVALID, NULL, "agent_dir or agent is too long");
		return NULL;
	}
	p->dir_fd = open(p->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (agents_init(&p->agents, l, ev, arg, &agents_ops, err) < 0)
		abort();
	p->agents.dir = p->dir;
	agent_token_hash(TOKEN, p->token_hash);
	return p;
}

static void ops_close(struct provider *p)
{
	list_for_each_safe(i, following, &p->agents.instances)
		box_free(list_entry(i, struct box, agent.node));
	agents_free(&p->agents);
	close(p->dir_fd);
	free(p);
}

static void ops_sweep(struct provider *p, bool (*known)(void *arg, const char *id), void *arg)
{
	(void)p;
	(void)known;
	(void)arg;
}

static char *ops_health(struct provider *p)
{
	(void)p;
	return str_dup("{\"name\":\"unshare\",\"ok\":true,\"hint\":\"\",\"away\":false}");
}

static const struct provider_ops unshare_ops = {
	.name = "unshare", .open = ops_open, .close = ops_close, .create = ops_create, .adopt = ops_adopt,
	.lookup = ops_lookup, .pause = ops_pause, .wake = ops_pause, .keep = ops_keep, .list = ops_list, .scope_end = agents_scope_end, .destroy = ops_destroy,
	.enforced = agents_enforced, .sweep = ops_sweep, .exec = agents_exec, .exec_ack = agents_exec_ack, .exec_stdin = agents_exec_stdin,
	.exec_signal = agents_exec_signal, .exec_kill = agents_exec_kill, .health = ops_health,
};

const struct provider_ops *provider_find(const char *name, err_t **err)
{
	(void)name;
	(void)err;
	return &unshare_ops;
}
