/* engine_spec.c - the create bodies. What is asked for here is the container's whole hardening. */
#include "provider/engine_spec.h"

#include <stdarg.h>

#include "base/str.h"

#define CPU_PERIOD_US 100000
#define RUN_TMPFS "size=1m"

static json_t *strings(const char *first, ...)
{
	json_t *a = json_object_new_array();
	va_list ap;

	va_start(ap, first);
	for (const char *s = first; a && s; s = va_arg(ap, const char *))
		json_object_array_add(a, json_object_new_string(s));
	va_end(ap);
	return a;
}

static json_t *labels_of(const struct engine_config *c, const struct engine_spec *s)
{
	json_t *l = json_object_new_object();

	json_add_str(l, ENGINE_LABEL_NODE, c->node);
	json_add_str(l, ENGINE_LABEL_INSTANCE, s->instance);
	json_add_str(l, ENGINE_LABEL_TOKEN, s->token_hash);
	return l;
}

static void size_option(char dst[32], int64_t bytes)
{
	str_fmt(dst, 32, "size=%lld", (long long)bytes);
}

static void add_mount(json_t *mounts, const char *dst, const char *type, const char *src, json_t *options)
{
	json_t *m = json_object_new_object();

	json_add_str(m, "destination", dst);
	json_add_str(m, "type", type);
	json_add_str(m, "source", src);
	json_add(m, "options", options);
	json_object_array_add(mounts, m);
}

static json_t *mounts_libpod(const struct engine_config *c, const struct engine_spec *s)
{
	json_t *a = json_object_new_array();
	char tmp[32], home[32];

	size_option(tmp, c->tmp_bytes);
	size_option(home, c->home_bytes);
	add_mount(a, "/tmp", "tmpfs", "tmpfs", strings("rw", "nosuid", "nodev", tmp, "mode=1777", NULL));
	add_mount(a, "/var/tmp", "tmpfs", "tmpfs", strings("rw", "nosuid", "nodev", tmp, "mode=1777", NULL));
	add_mount(a, "/run", "tmpfs", "tmpfs", strings("rw", "nosuid", "nodev", "noexec", RUN_TMPFS, "mode=755", NULL));
	/* the agent gives it to `user` */
	add_mount(a, "/home/user", "tmpfs", "tmpfs", strings("rw", "nosuid", "nodev", home, NULL));
	add_mount(a, "/home/user/workspace", "bind", s->workspace, strings("bind", "rprivate", "rw", "nosuid", "nodev", NULL));
	add_mount(a, "/paddock/agent", "bind", c->agent, strings("bind", "rprivate", "ro", "nosuid", "nodev", NULL));
	add_mount(a, "/paddock/run", "bind", s->agent_dir, strings("bind", "rprivate", "ro", "nosuid", "nodev", "noexec", NULL));
	return a;
}

static void add_rlimit(json_t *a, const char *type_key, const char *type, const char *soft_key, const char *hard_key, int64_t n)
{
	json_t *o = json_object_new_object();

	json_add_str(o, type_key, type);
	json_add_i64(o, soft_key, n);
	json_add_i64(o, hard_key, n);
	json_object_array_add(a, o);
}

static json_t *rlimits(const struct engine_config *c, const char *type_key, const char *soft_key, const char *hard_key)
{
	json_t *a = json_object_new_array();

	add_rlimit(a, type_key, "nofile", soft_key, hard_key, c->nofile);
	add_rlimit(a, type_key, "nproc", soft_key, hard_key, c->nproc);
	add_rlimit(a, type_key, "core", soft_key, hard_key, 0);
	return a;
}

static json_t *resources(const struct engine_config *c)
{
	json_t *o = json_object_new_object(), *memory = json_object_new_object(), *pids = json_object_new_object(), *cpu = json_object_new_object();

	json_add_i64(memory, "limit", c->memory_bytes);
	json_add_i64(memory, "swap", c->memory_bytes);
	json_add_i64(pids, "limit", c->pids);
	json_add_i64(cpu, "quota", c->cpus_milli * CPU_PERIOD_US / 1000);
	json_add_i64(cpu, "period", CPU_PERIOD_US);
	json_add(o, "memory", memory);
	json_add(o, "pids", pids);
	json_add(o, "cpu", cpu);
	return o;
}

static json_t *mode(const char *nsmode, const char *value)
{
	json_t *o = json_object_new_object();

	json_add_str(o, "nsmode", nsmode);
	if (value)
		json_add_str(o, "value", value);
	return o;
}

static void add_network_libpod(json_t *o, const struct engine_config *c)
{
	json_t *options;

	if (!c->internet) {
		json_add(o, "netns", mode("none", NULL));
		return;
	}
	json_add(o, "netns", mode("slirp4netns", NULL));
	options = json_object_new_object();
	json_add(options, "slirp4netns", strings("enable_ipv6=false", "allow_host_loopback=false", NULL));
	json_add(o, "network_options", options);
	json_add(o, "dns_server", strings("10.0.2.3", NULL));
}

static void add_hardening_libpod(json_t *o, const struct engine_config *c)
{
	json_t *log = json_object_new_object();

	json_add(o, "cap_drop", strings("all", NULL));
	json_add(o, "cap_add", strings("CHOWN", "SETUID", "SETGID", "SETPCAP", "KILL", NULL));
	json_add_bool(o, "no_new_privileges", true);
	json_add_str(o, "seccomp_profile_path", c->seccomp);
	json_add_bool(o, "read_only_filesystem", true);
	json_add(o, "userns", mode("keep-id", "uid=1000,gid=1000"));
	json_add(o, "cgroupns", mode("private", NULL));
	json_add(o, "ipcns", mode("private", NULL));
	json_add_str(log, "driver", "none");
	json_add(o, "log_configuration", log);
	json_add_i64(o, "shm_size", c->shm_bytes);
	json_add(o, "r_limits", rlimits(c, "type", "soft", "hard"));
	json_add(o, "resource_limits", resources(c));
	json_add_str(o, "cgroup_parent", c->cgroup_parent);
	json_add_str(o, "systemd", "false");
	json_add_str(o, "image_volume_mode", "ignore");
}

json_t *engine_spec_libpod(const struct engine_config *c, const struct engine_spec *s)
{
	json_t *o = json_object_new_object(), *env = json_object_new_object();

	json_add_str(o, "name", s->name);
	json_add_str(o, "image", c->image);
	json_add(o, "entrypoint", json_object_new_array());
	json_add(o, "command", strings("/paddock/agent", NULL));
	json_add_str(o, "user", "0:0");
	json_add_str(o, "work_dir", "/");
	json_add_str(o, "hostname", "sandbox");
	json_add_str(env, "PADDOCK_AGENT_TOKEN", s->token);
	json_add(o, "env", env);
	json_add(o, "labels", labels_of(c, s));
	json_add(o, "mounts", mounts_libpod(c, s));
	add_network_libpod(o, c);
	add_hardening_libpod(o, c);
	return o;
}

static json_t *tmpfs_docker(const struct engine_config *c)
{
	json_t *o = json_object_new_object();
	char opts[96];

	str_fmt(opts, sizeof(opts), "rw,nosuid,nodev,mode=1777,size=%lld", (long long)c->tmp_bytes);
	json_add_str(o, "/tmp", opts);
	json_add_str(o, "/var/tmp", opts);
	json_add_str(o, "/run", "rw,nosuid,nodev,noexec,mode=755," RUN_TMPFS);
	str_fmt(opts, sizeof(opts), "rw,nosuid,nodev,size=%lld", (long long)c->home_bytes);
	json_add_str(o, "/home/user", opts);
	return o;
}

static void add_bind(json_t *a, const char *src, const char *dst, const char *options)
{
	cleanup_buf struct buf b = BUF_INIT(16384);

	if (buf_addf(&b, "%s:%s:%s", src, dst, options) == 0)
		json_object_array_add(a, json_object_new_string(buf_str(&b)));
}

static json_t *host_config_docker(const struct engine_config *c, const struct engine_spec *s, const char *seccomp, bool podman)
{
	json_t *h = json_object_new_object(), *binds = json_object_new_array(), *log = json_object_new_object();
	cleanup_buf struct buf profile = BUF_INIT(1u << 20);

	add_bind(binds, s->workspace, "/home/user/workspace", podman ? "rw,nosuid,nodev,rprivate" : "rw,rprivate");
	add_bind(binds, c->agent, "/paddock/agent", "ro,rprivate");
	add_bind(binds, s->agent_dir, "/paddock/run", "ro,rprivate");
	json_add(h, "Binds", binds);
	json_add(h, "Tmpfs", tmpfs_docker(c));
	json_add(h, "CapDrop", strings("ALL", NULL));
	json_add(h, "CapAdd", strings("CHOWN", "SETUID", "SETGID", "SETPCAP", "KILL", NULL));
	buf_addf(&profile, "seccomp=%s", seccomp);
	json_add(h, "SecurityOpt", strings("no-new-privileges", buf_str(&profile), NULL));
	json_add_bool(h, "ReadonlyRootfs", true);
	json_add_i64(h, "ShmSize", c->shm_bytes);
	json_add(h, "Ulimits", rlimits(c, "Name", "Soft", "Hard"));
	json_add_i64(h, "Memory", c->memory_bytes);
	json_add_i64(h, "MemorySwap", c->memory_bytes);
	json_add_i64(h, "PidsLimit", c->pids);
	json_add_i64(h, "NanoCpus", c->cpus_milli * 1000000);
	json_add_str(h, "CgroupParent", c->cgroup_parent);
	json_add_str(log, "Type", "none");
	json_add(h, "LogConfig", log);
	json_add_str(h, "NetworkMode", !c->internet ? "none" : podman ? "slirp4netns:enable_ipv6=false" : "bridge");
	if (podman)
		json_add_str(h, "UsernsMode", "keep-id:uid=1000,gid=1000");
	if (podman && c->internet)
		json_add(h, "Dns", strings("10.0.2.3", NULL));
	return h;
}

json_t *engine_spec_docker(const struct engine_config *c, const struct engine_spec *s, const char *seccomp, bool podman)
{
	json_t *o = json_object_new_object();
	char token[128];

	json_add_str(o, "Image", c->image);
	json_add(o, "Entrypoint", json_object_new_array());
	json_add(o, "Cmd", strings("/paddock/agent", NULL));
	json_add_str(o, "User", "0:0");
	json_add_str(o, "WorkingDir", "/");
	json_add_str(o, "Hostname", "sandbox");
	str_fmt(token, sizeof(token), "PADDOCK_AGENT_TOKEN=%s", s->token);
	json_add(o, "Env", strings(token, NULL));
	explicit_bzero(token, sizeof(token));
	json_add(o, "Labels", labels_of(c, s));
	json_add(o, "HostConfig", host_config_docker(c, s, seccomp, podman));
	return o;
}
