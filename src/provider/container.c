/* container.c - the provider `container`: one rootless container an instance, its agent inside. */
#include "provider/container.h"

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

	p->engine_config = (struct engine_config){
		.socket = config_str(c, "container.engine_socket"),
		.node = config_str(c, "service.node"),
		.image = config_str(c, "container.image"),
		.agent = config_str(c, "container.agent"),
		.seccomp = config_str(c, "container.seccomp"),
		.cgroup_parent = config_str(c, "container.cgroup_parent"),
		.internet = str_eq(config_str(c, "container.network"), "internet"),
		.memory_bytes = config_int(c, "container.memory_bytes"),
		.pids = config_int(c, "container.pids"),
		.cpus_milli = config_int(c, "container.cpus_milli"),
		.tmp_bytes = config_int(c, "container.tmp_bytes"),
		.home_bytes = config_int(c, "container.home_bytes"),
		.shm_bytes = config_int(c, "container.shm_bytes"),
		.nofile = config_int(c, "container.nofile"),
		.nproc = config_int(c, "container.nproc"),
	};
	p->agents.dir = config_str(c, "container.agent_dir");
	p->agents.cgroup_parent = p->engine_config.cgroup_parent;
	p->agents.limits = (struct cgroup_limits){ .memory_bytes = p->engine_config.memory_bytes, .pids = p->engine_config.pids,
		.cpus_milli = p->engine_config.cpus_milli };
	p->agents.link_limits = (struct agent_link_limits){ .nofile = (uint32_t)p->engine_config.nofile, .nproc = (uint32_t)p->engine_config.nproc,
		.nice = (int32_t)config_int(c, "container.nice") };
	p->netguard = config_str(c, "container.netguard");
	p->runtime_state = config_str(c, "container.runtime_state");
	p->workspaces = config_str(c, "paths.workspaces");
	p->create_timeout_ms = config_int(c, "container.create_timeout_ms");
}

static void container_close(struct provider *p)
{
	if (!p)
		return;
	if (p->engine)
		p->ops->close(p->engine);
	list_for_each_safe(i, following, &p->agents.instances)
		box_free(list_entry(i, struct box, agent.node));
	if (p->workspaces_fd >= 0)
		close(p->workspaces_fd);
	agents_free(&p->agents);
	free(p);
}

static int start_up(struct provider *p, err_t **err)
{
	read_config(p);
	p->ops = engine_find(config_str(p->config, "container.engine"), err);
	if (!p->ops)
		return -1;
	if (str_fmt(p->prefix, sizeof(p->prefix), "pdk-%s-", p->engine_config.node) < 0)
		return err_set(err, ERR_REFUSED, "bad_node", "[service] node is too long");
	p->workspaces_fd = open(p->workspaces, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (p->workspaces_fd < 0)
		return err_sys(err, errno, "[paths] workspaces: %s", p->workspaces);
	p->engine = p->ops->open(p->agents.loop, &p->engine_config, err);
	if (!p->engine)
		return -1;
	container_probe_start(p);
	return 0;
}

static struct provider *container_open(struct loop *l, const struct config *c, const struct provider_events *ev, void *arg, err_t **err)
{
	struct provider *p = calloc(1, sizeof(*p));

	if (!p) {
		err_set(err, ERR_NO_MEMORY, NULL, "provider");
		return NULL;
	}
	p->config = c;
	p->workspaces_fd = -1;
	if (agents_init(&p->agents, l, ev, arg, &box_agents_ops, err) < 0 || start_up(p, err) < 0) {
		container_close(p);
		return NULL;
	}
	return p;
}

struct box *container_box(struct agent_instance *i)
{
	return i ? list_entry(i, struct box, agent) : NULL;
}

struct box *container_find(struct provider *p, const char *id)
{
	return container_box(agents_find(&p->agents, id));
}

void container_tell(struct box *b, enum instance_event ev, const err_t *err)
{
	if (!b->quiet)
		agent_instance_tell(&b->agent, ev, err);
	else if (ev == INSTANCE_DESTROY_FAILED)
		log_kv(LOG_WARN, "orphan_not_removed", "instance", b->id, "err", err_message(err), NULL);
}

static struct box *add_box(struct provider *p, const struct instance_spec *s, err_t **err)
{
	struct box *b = agents_may_add(&p->agents, s, err) < 0 ? NULL : box_new(p, s->id, err);

	if (!b)
		return NULL;
	if (str_copy(b->workspace, sizeof(b->workspace), s->workspace) < 0 || agent_instance_open(&b->agent, err) < 0) {
		box_free(b);
		outside_fail(s->id, err);
		return NULL;
	}
	return b;
}

static int container_create(struct provider *p, const struct instance_spec *s, err_t **err)
{
	struct box *b = add_box(p, s, err);

	if (!b)
		return -1;
	box_begin(b, BOX_CREATE);
	return 0;
}

static int container_adopt(struct provider *p, const struct instance_spec *s, enum instance_was was, err_t **err)
{
	struct box *b = add_box(p, s, err);

	if (!b)
		return -1;
	b->was_ready = was != INSTANCE_WAS_MADE;
	box_begin(b, BOX_LOOKUP);
	return 0;
}

static int container_destroy(struct provider *p, const char *id, err_t **err)
{
	struct box *b = container_find(p, id);

	if (!b && !(b = box_new(p, id, err)))
		return -1;
	b->quiet = false;
	box_destroy(b);
	return 0;
}

const struct provider_ops provider_container = {
	.name = "container",
	.caps = PROVIDER_MOUNTS,
	.open = container_open,
	.close = container_close,
	.create = container_create,
	.adopt = container_adopt,
	.lookup = container_lookup,
	.pause = container_pause,
	.wake = container_pause,
	.keep = container_keep,
	.destroy = container_destroy,
	.sweep = container_sweep,
	.exec = agents_exec,
	.exec_ack = agents_exec_ack,
	.exec_stdin = agents_exec_stdin,
	.exec_signal = agents_exec_signal,
	.exec_kill = agents_exec_kill,
	.scope_end = agents_scope_end,
	.list = container_list,
	.enforced = agents_enforced,
	.health = container_health,
};
