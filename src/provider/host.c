/* host.c - the provider `host`: one directory a user on this machine, its agent in namespaces of its own, under bubblewrap where that is installed. */
#include "provider/host.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "base/str.h"
#include "provider/outside.h"

static void read_config(struct provider *p)
{
	const struct config *c = p->config;

	p->sandboxes = config_str(c, "host.sandboxes");
	p->launcher = config_str(c, "host.launcher_socket");
	p->create_timeout_ms = config_int(c, "host.create_timeout_ms");
	p->agents.dir = config_str(c, "container.agent_dir");
	p->agents.cgroup_parent = config_str(c, "container.cgroup_parent");
	p->agents.limits = (struct cgroup_limits){ .memory_bytes = config_int(c, "host.memory_bytes"), .pids = config_int(c, "host.pids"),
		.cpus_milli = config_int(c, "host.cpus_milli") };
	p->agents.link_limits = (struct agent_link_limits){ .nofile = (uint32_t)config_int(c, "host.nofile"), .nproc = (uint32_t)config_int(c, "host.nproc"),
		.nice = (int32_t)config_int(c, "host.nice") };
}

static void host_close(struct provider *p)
{
	if (!p)
		return;
	host_probe_free(p);
	list_for_each_safe(i, following, &p->agents.instances)
		sandbox_free(list_entry(i, struct sandbox, agent.node));
	agents_free(&p->agents);
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
	p->config = c;
	p->root_fd = p->workspaces_fd = p->launcher_fd = -1;
	if (agents_init(&p->agents, l, ev, arg, &host_agents_ops, err) < 0 || start_up(p, err) < 0) {
		host_close(p);
		return NULL;
	}
	return p;
}

struct sandbox *host_sandbox(struct agent_instance *i)
{
	return i ? list_entry(i, struct sandbox, agent) : NULL;
}

struct sandbox *host_find(struct provider *p, const char *id)
{
	return host_sandbox(agents_find(&p->agents, id));
}

void host_tell(struct sandbox *s, enum instance_event ev, const err_t *err)
{
	agent_instance_tell(&s->agent, ev, err);
}

static int host_adopt(struct provider *p, const struct instance_spec *spec, enum instance_was was, err_t **err)
{
	struct sandbox *s = agents_may_add(&p->agents, spec, err) < 0 ? NULL : sandbox_new(p, spec->id, err);

	if (!s)
		return -1;
	str_copy(s->workspace, sizeof(s->workspace), spec->workspace);
	s->was_ready = was != INSTANCE_WAS_MADE;
	if (was != INSTANCE_WAS_PAUSED && agent_instance_open(&s->agent, err) < 0) {
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
	.exec = agents_exec,
	.exec_ack = agents_exec_ack,
	.exec_stdin = agents_exec_stdin,
	.exec_signal = agents_exec_signal,
	.exec_kill = agents_exec_kill,
	.scope_end = agents_scope_end,
	.list = host_list,
	.enforced = agents_enforced,
	.health = host_health,
};
