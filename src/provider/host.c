/* host.c - the provider `host`: one directory a user on this machine, its agent in namespaces of its own, under bubblewrap where that is installed. */
#include "provider/host.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/str.h"
#include "provider/outside.h"

static void read_config(struct provider *p)
{
	const struct config *c = p->config;

	p->sandboxes = config_str(c, "host.sandboxes");
	p->launcher = config_str(c, "host.launcher_socket");
	p->agent_dir = config_str(c, "container.agent_dir");
	p->create_timeout_ms = config_int(c, "host.create_timeout_ms");
	p->limits = (struct cgroup_limits){ .memory_bytes = config_int(c, "host.memory_bytes"), .pids = config_int(c, "host.pids"),
		.cpus_milli = config_int(c, "host.cpus_milli") };
	p->agent_limits = (struct agent_link_limits){ .nofile = (uint32_t)config_int(c, "host.nofile"), .nproc = (uint32_t)config_int(c, "host.nproc"),
		.nice = (int32_t)config_int(c, "host.nice") };
}

static void host_close(struct provider *p)
{
	if (!p)
		return;
	host_probe_free(p);
	list_for_each_safe(i, following, &p->sandboxes_list)
		sandbox_free(list_entry(i, struct sandbox, link_node));
	owed_free(p->owed);
	if (p->root_fd >= 0)
		close(p->root_fd);
	if (p->workspaces_fd >= 0)
		close(p->workspaces_fd);
	free(p);
}

static int open_dir(const char *path, const char *what, err_t **err)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? err_sys(err, errno, "%s: %s", what, path) : fd;
}

static void warn(const struct config *c)
{
	const char *const *w = provider_warnings("host", c);

	for (; *w; w++)
		log_kv(LOG_WARN, "host_provider", "warning", *w, NULL);
	if (str_eq(config_str(c, "host.network"), "shared"))
		log_kv(LOG_WARN, "host_provider", "warning", "network = shared: sandboxes reach everything that this machine reaches, its own services too", NULL);
}

static int start_up(struct provider *p, err_t **err)
{
	read_config(p);
	p->owed = owed_new(p->loop, p->events, p->arg, err);
	if (!p->owed)
		return -1;
	p->workspaces_fd = open_dir(config_str(p->config, "paths.workspaces"), "[paths] workspaces", err);
	if (p->workspaces_fd < 0)
		return -1;
	p->root_fd = open_dir(p->sandboxes, "[host] sandboxes", err);
	if (p->root_fd < 0)
		return -1;
	warn(p->config);
	host_probe_begin(p);
	return 0;
}

static struct provider *host_open(struct loop *l, const struct config *c, const struct provider_events *ev, void *arg, err_t **err)
{
	struct provider *p = calloc(1, sizeof(*p));

	if (!p) {
		err_set(err, ERR_NO_MEMORY, NULL, "provider");
		return NULL;
	}
	p->loop = l;
	p->config = c;
	p->events = ev;
	p->arg = arg;
	p->root_fd = p->workspaces_fd = p->launcher_fd = -1;
	list_init(&p->sandboxes_list);
	if (start_up(p, err) < 0) {
		host_close(p);
		return NULL;
	}
	return p;
}

struct sandbox *host_find(struct provider *p, const char *id)
{
	list_for_each(i, &p->sandboxes_list) {
		struct sandbox *s = list_entry(i, struct sandbox, link_node);

		if (str_eq(s->id, id))
			return s;
	}
	return NULL;
}

void host_tell(struct sandbox *s, enum instance_event ev, const err_t *err)
{
	cleanup_err err_t *told = outside_err(s->id, err);

	s->p->events->instance(s->p->arg, s->id, ev, told);
}

static struct sandbox *add(struct provider *p, const struct instance_spec *spec, err_t **err)
{
	struct sandbox *s = NULL;

	if (host_find(p, spec->id))
		err_set(err, ERR_EXISTS, NULL, "the instance is managed already");
	else if (!workspace_name_valid(spec->workspace))
		err_set(err, ERR_INVALID, "bad_workspace", "a workspace name is [a-z0-9][a-z0-9._-]{0,63}");
	else if ((s = sandbox_new(p, spec->id, err)))
		str_copy(s->workspace, sizeof(s->workspace), spec->workspace);
	return s;
}

static int host_adopt(struct provider *p, const struct instance_spec *spec, enum instance_was was, err_t **err)
{
	struct sandbox *s = add(p, spec, err);

	if (!s)
		return -1;
	s->was_ready = was != INSTANCE_WAS_MADE;
	if (was != INSTANCE_WAS_PAUSED && sandbox_agent_open(s, err) < 0) {
		sandbox_free(s);
		return outside_fail(spec->id, err);
	}
	sandbox_begin(s, SANDBOX_LOOK);
	return 0;
}

/* What was left behind under the id by a call whose answer was lost is found by the look. */
static int host_create(struct provider *p, const struct instance_spec *spec, err_t **err)
{
	return host_adopt(p, spec, INSTANCE_WAS_MADE, err);
}

static int host_destroy(struct provider *p, const char *id, err_t **err)
{
	struct sandbox *s = host_find(p, id);

	if (!s && !(s = sandbox_new(p, id, err)))
		return -1;
	sandbox_destroy(s);
	return 0;
}

/* A sandbox that is up, or NULL with an error. */
static struct sandbox *running(struct provider *p, const char *id, err_t **err)
{
	struct sandbox *s = host_find(p, id);

	if (!s)
		err_set(err, ERR_NOT_FOUND, "instance_not_found", "no such instance");
	else if (s->step == SANDBOX_UP && !s->want_destroy)
		return s;
	else
		err_set(err, ERR_CONFLICT, "instance_not_ready", "the instance is not ready");
	return NULL;
}

static int host_exec(struct provider *p, const char *id, const struct exec_spec *x, err_t **err)
{
	struct sandbox *s = running(p, id, err);

	return s ? sandbox_exec(s, x, err) : -1;
}

static int host_exec_ack(struct provider *p, const char *id, const char *exec_id, err_t **err)
{
	struct sandbox *s = running(p, id, err);

	if (!s)
		return -1;
	sandbox_exec_forget(s, exec_id);
	return agent_link_exec_ack(s->agent, exec_id, err);
}

static int host_exec_stdin(struct provider *p, const char *id, const char *exec_id, uint64_t offset, const void *data, size_t n, bool eof, err_t **err)
{
	struct sandbox *s = running(p, id, err);

	return s ? agent_link_stdin(s->agent, exec_id, offset, data, n, eof, err) : -1;
}

static int host_exec_signal(struct provider *p, const char *id, const struct exec_ref *x, int signo, err_t **err)
{
	struct sandbox *s = running(p, id, err);

	return s ? agent_link_signal(s->agent, x, signo, err) : -1;
}

static int host_exec_kill(struct provider *p, const char *id, const struct exec_ref *x, err_t **err)
{
	struct sandbox *s = running(p, id, err);

	return s ? agent_link_kill(s->agent, x, err) : -1;
}

static bool host_enforced(struct provider *p, const char *id)
{
	struct sandbox *s = host_find(p, id);

	return s && s->enforced;
}

const struct provider_ops provider_host = {
	.name = "host",
	.caps = PROVIDER_PERSISTENT | PROVIDER_PAUSE | PROVIDER_RELEASE | PROVIDER_MOUNTS,
	.open = host_open,
	.close = host_close,
	.create = host_create,
	.adopt = host_adopt,
	.lookup = host_lookup,
	.pause = host_pause,
	.wake = host_wake,
	.keep = host_keep_alive,
	.destroy = host_destroy,
	.sweep = host_sweep,
	.exec = host_exec,
	.exec_ack = host_exec_ack,
	.exec_stdin = host_exec_stdin,
	.exec_signal = host_exec_signal,
	.exec_kill = host_exec_kill,
	.scope_end = host_scope_end,
	.list = host_list,
	.enforced = host_enforced,
	.health = host_health,
};
