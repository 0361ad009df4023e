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
#include "base/list.h"
#include "base/num.h"
#include "base/str.h"
#include "core/id.h"
#include "provider/agent_link.h"
#include "provider/provider.h"
#include "provider/workspace.h"

#define TOKEN "unshare"

struct answer {
	struct list node;
	struct provider *p;
	struct loop_timer *timer;
	char id[ID_SIZE], scope[ID_SIZE];
	enum instance_event ev;
	bool list;
	bool waits;                 /* a scope, for the agent or its end */
};

struct provider {
	struct loop *loop;
	const struct provider_events *ev;
	void *arg;
	char dir[80];
	int dir_fd;
	char agent[256];
	struct list boxes, answers;
};

struct box {
	struct list node;
	struct provider *p;
	char id[ID_SIZE];
	struct agent_link *link;
	struct loop_io *io;        /* the pidfd */
	int pidfd;
	pid_t pid;
	bool destroying;
	struct loop_timer *soon;
};

static struct box *find(struct provider *p, const char *id)
{
	list_for_each(n, &p->boxes)
		if (str_eq(list_entry(n, struct box, node)->id, id))
			return list_entry(n, struct box, node);
	return NULL;
}

/* --- the ends of scopes --- */

static void answer_free(struct answer *a)
{
	list_del(&a->node);
	loop_timer_free(a->timer);
	free(a);
}

/* scope NULL: all of that box. */
static void scopes_over(struct provider *p, const char *id, const char *scope)
{
	list_for_each_safe(n, following, &p->answers) {
		struct answer *a = list_entry(n, struct answer, node);

		if (!a->waits || !str_eq(a->id, id) || (scope && !str_eq(a->scope, scope)))
			continue;
		a->waits = false;
		loop_timer_set(a->timer, 0);
	}
}

static void on_scope_ended(void *arg, const char *scope)
{
	struct box *b = arg;

	scopes_over(b->p, b->id, scope);
}

static void scopes_ask(struct box *b)
{
	list_for_each(n, &b->p->answers) {
		struct answer *a = list_entry(n, struct answer, node);

		if (a->waits && str_eq(a->id, b->id))
			(void)agent_link_scope_end(b->link, a->scope, NULL);
	}
}

static void pid_path(const struct provider *p, const char *id, char dst[160])
{
	if (str_fmt(dst, 160, "%s/%s.pid", p->dir, id) < 0)
		abort();
}

static void box_free(struct box *b, bool gone)
{
	char path[160];

	pid_path(b->p, b->id, path);
	if (gone)
		(void)unlink(path);
	list_del(&b->node);
	agent_link_free(b->link, gone);
	loop_io_free(b->io);
	loop_timer_free(b->soon);
	if (b->pidfd >= 0)
		close(b->pidfd);
	free(b);
}

static void tell(struct box *b, enum instance_event e)
{
	char id[ID_SIZE];
	struct provider *p = b->p;

	if (e == INSTANCE_GONE || e == INSTANCE_EXITED)
		scopes_over(p, b->id, NULL);
	(void)str_copy(id, sizeof id, b->id);
	if (e == INSTANCE_GONE)
		box_free(b, true);
	p->ev->instance(p->arg, id, e, NULL);
}

/* --- the link --- */

static int on_token(void *arg, const char *token)
{
	(void)arg;
	return str_eq(token, TOKEN) ? 0 : -1;
}

static void on_connected(void *arg)
{
	(void)arg;
}

static void on_ready(void *arg)
{
	tell(arg, INSTANCE_READY);
	scopes_ask(arg);
}

static void on_lost(void *arg)
{
	tell(arg, INSTANCE_LOST_CONTACT);
}

static void on_started(void *arg, const char *exec_id, const struct exec_started *s, int out_fd, int err_fd)
{
	struct box *b = arg;

	b->p->ev->started(b->p->arg, b->id, exec_id, s, out_fd, err_fd);
}

static void on_exited(void *arg, const char *exec_id, const struct exec_exited *e)
{
	struct box *b = arg;

	b->p->ev->exited(b->p->arg, b->id, exec_id, e);
}

static void on_stdin_taken(void *arg, const char *exec_id, uint64_t taken, uint64_t window)
{
	struct box *b = arg;

	b->p->ev->stdin_taken(b->p->arg, b->id, exec_id, taken, window);
}

static void on_not_running(void *arg, const char *exec_id, bool known)
{
	(void)arg;
	(void)exec_id;
	(void)known;
}

static const struct agent_link_events link_events = {
	on_token, on_connected, on_ready, on_lost, on_started, on_exited, on_stdin_taken, on_not_running, on_scope_ended,
};

/* --- the process --- */

static void on_death(void *arg, int fd, int events)
{
	struct box *b = arg;

	(void)fd;
	(void)events;
	loop_io_free(b->io);
	b->io = NULL;
	tell(b, b->destroying ? INSTANCE_GONE : INSTANCE_EXITED);
}

static void on_soon(void *arg)
{
	struct box *b = arg;

	tell(b, b->destroying ? INSTANCE_GONE : INSTANCE_EXITED);
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
		b->io = loop_io_new(b->p->loop, b->pidfd, LOOP_READ, on_death, b);
		return b->io ? 0 : -1;
	}
	loop_timer_set(b->soon, 0);   /* it is dead already */
	return 0;
}

/* For create and adopt. */
static int may_add(struct provider *p, const struct instance_spec *s, err_t **err)
{
	if (find(p, s->id))
		return err_set(err, ERR_EXISTS, NULL, "there is such a box");
	return workspace_name_valid(s->workspace) ? 0 : err_set(err, ERR_INVALID, "bad_workspace", "not a workspace's name");
}

static struct box *box_new(struct provider *p, const char *id, err_t **err)
{
	struct box *b = calloc(1, sizeof *b);
	char dir[160];
	struct agent_link_limits none = { 0 };

	if (!b || str_copy(b->id, sizeof b->id, id) < 0 || str_fmt(dir, sizeof dir, "%s/%s", p->dir, id) < 0)
		abort();
	b->p = p;
	b->pidfd = -1;
	list_add_tail(&p->boxes, &b->node);
	b->soon = loop_timer_new(p->loop, on_soon, b);
	b->link = agent_link_new(p->loop, dir, &none, &link_events, b, err);
	if (!b->link) {
		box_free(b, true);
		return NULL;
	}
	agent_link_expect(b->link, (uid_t)-1, (pid_t)-1);
	return b;
}

static int ops_create(struct provider *p, const struct instance_spec *s, err_t **err)
{
	struct box *b = may_add(p, s, err) < 0 ? NULL : box_new(p, s->id, err);
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
	b = may_add(p, s, err) < 0 ? NULL : box_new(p, s->id, err);
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
	struct box *b = find(p, id);

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

static void tell_list(struct provider *p)
{
	struct listed items[256];
	size_t n = 0, all = 0;

	list_for_each(i, &p->boxes) {
		struct box *b = list_entry(i, struct box, node);

		if (!b->io)
			continue;
		all++;
		if (n < sizeof items / sizeof items[0])
			items[n++] = (struct listed){ .ref = b->id, .id = b->id, .state = agent_link_ready(b->link) ? LISTED_RUNNING : LISTED_OTHER };
	}
	p->ev->listed(p->arg, items, n, n == all, NULL);
}

static void on_answer(void *arg)
{
	struct answer *a = arg;
	struct provider *p = a->p;

	if (a->list)
		tell_list(p);
	else if (a->scope[0])
		p->ev->scope_ended(p->arg, a->id, a->scope, NULL);
	else
		p->ev->instance(p->arg, a->id, a->ev, NULL);
	answer_free(a);
}

static int answer(struct provider *p, const struct answer *what)
{
	struct answer *a = malloc(sizeof *a);

	if (!a)
		abort();
	*a = *what;
	a->p = p;
	a->timer = loop_timer_new(p->loop, on_answer, a);
	list_add_tail(&p->answers, &a->node);
	if (!a->waits)
		loop_timer_set(a->timer, 0);
	return 0;
}

static int answer_instance(struct provider *p, const char *id, enum instance_event ev)
{
	struct answer a = { .ev = ev };

	(void)str_copy(a.id, sizeof a.id, id);
	return answer(p, &a);
}

static int ops_lookup(struct provider *p, const char *id, err_t **err)
{
	struct box *b = find(p, id);

	if (!b)
		return err_set(err, ERR_NOT_FOUND, NULL, "no box");
	return answer_instance(p, id, agent_link_ready(b->link) ? INSTANCE_READY : b->io ? INSTANCE_AT_IT : INSTANCE_EXITED);
}

static int ops_pause(struct provider *p, const char *id, err_t **err)
{
	(void)p;
	(void)id;
	return err_set(err, ERR_REFUSED, "pause_unsupported", "it is not paused");
}

static int ops_keep(struct provider *p, const char *id, int64_t ms, err_t **err)
{
	struct box *b = find(p, id);

	(void)ms;
	if (!b)
		return err_set(err, ERR_NOT_FOUND, NULL, "no box");
	return answer_instance(p, id, agent_link_ready(b->link) ? INSTANCE_KEPT : INSTANCE_KEEP_FAILED);
}

static int ops_list(struct provider *p, err_t **err)
{
	struct answer a = { .list = true };

	(void)err;
	return answer(p, &a);
}

static int ops_scope_end(struct provider *p, const char *id, const char *scope, err_t **err)
{
	struct box *b = find(p, id);
	struct answer a = { .waits = b && (b->io || b->destroying) };

	(void)err;
	(void)str_copy(a.id, sizeof a.id, id);
	(void)str_copy(a.scope, sizeof a.scope, scope);
	(void)answer(p, &a);
	if (a.waits)
		scopes_ask(b);
	return 0;
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
	p->loop = l;
	p->ev = ev;
	p->arg = arg;
	list_init(&p->boxes);
	list_init(&p->answers);
	return p;
}

static void ops_close(struct provider *p)
{
	while (!list_empty(&p->boxes))
		box_free(list_entry(p->boxes.next, struct box, node), false);
	while (!list_empty(&p->answers))
		answer_free(list_entry(p->answers.next, struct answer, node));
	close(p->dir_fd);
	free(p);
}

static bool ops_enforced(struct provider *p, const char *id)
{
	(void)p;
	(void)id;
	return false;
}

static void ops_sweep(struct provider *p, bool (*known)(void *arg, const char *id), void *arg)
{
	(void)p;
	(void)known;
	(void)arg;
}

static struct box *live(struct provider *p, const char *id, err_t **err)
{
	struct box *b = find(p, id);

	if (!b)
		err_set(err, ERR_UNAVAILABLE, NULL, "no box");
	return b;
}

static int ops_exec(struct provider *p, const char *id, const struct exec_spec *s, err_t **err)
{
	struct box *b = live(p, id, err);

	return b ? agent_link_exec(b->link, s, err) : -1;
}

static int ops_exec_ack(struct provider *p, const char *id, const char *exec_id, err_t **err)
{
	struct box *b = live(p, id, err);

	return b ? agent_link_exec_ack(b->link, exec_id, err) : -1;
}

static int ops_exec_stdin(struct provider *p, const char *id, const char *exec_id, uint64_t offset, const void *data, size_t n, bool eof, err_t **err)
{
	struct box *b = live(p, id, err);

	return b ? agent_link_stdin(b->link, exec_id, offset, data, n, eof, err) : -1;
}

static int ops_exec_signal(struct provider *p, const char *id, const struct exec_ref *x, int signo, err_t **err)
{
	struct box *b = live(p, id, err);

	return b ? agent_link_signal(b->link, x, signo, err) : -1;
}

static int ops_exec_kill(struct provider *p, const char *id, const struct exec_ref *x, err_t **err)
{
	struct box *b = live(p, id, err);

	return b ? agent_link_kill(b->link, x, err) : -1;
}

static char *ops_health(struct provider *p)
{
	(void)p;
	return str_dup("{\"name\":\"unshare\",\"ok\":true,\"hint\":\"\",\"away\":false}");
}

static const struct provider_ops unshare_ops = {
	.name = "unshare", .open = ops_open, .close = ops_close, .create = ops_create, .adopt = ops_adopt,
	.lookup = ops_lookup, .pause = ops_pause, .wake = ops_pause, .keep = ops_keep, .list = ops_list, .scope_end = ops_scope_end, .destroy = ops_destroy,
	.enforced = ops_enforced, .sweep = ops_sweep, .exec = ops_exec, .exec_ack = ops_exec_ack, .exec_stdin = ops_exec_stdin,
	.exec_signal = ops_exec_signal, .exec_kill = ops_exec_kill, .health = ops_health,
};

const struct provider_ops *provider_find(const char *name, err_t **err)
{
	(void)name;
	(void)err;
	return &unshare_ops;
}
