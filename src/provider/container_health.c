/* container_health.c - what readiness needs, each fact with a hint at its remedy. Cheap: the engine is asked in the background. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/num.h"
#include "base/str.h"
#include "provider/container.h"
#include "provider/fact.h"

#define PROBE_AGE_MS 5000      /* an answer is good for so long; */
#define PROBE_AWAY_MS 500      /* while something is missing, for less: a start is seen when it is done */
#define HEALTH_MAX (16u << 10)

static void on_image(void *arg, const struct engine_answer *a, const err_t *err)
{
	struct provider *p = arg;

	(void)a;
	p->probe.out = false;
	p->probe.image = !err;
	str_copy(p->probe.image_hint, sizeof(p->probe.image_hint), err ? "the engine does not have the image: run contrib/up, or import it again" : "");
}

static void engine_is(struct provider *p, const err_t *err)
{
	p->probe.known = true;
	p->probe.at_ms = clock_boot_ms();
	p->probe.engine = !err;
	if (!err)
		p->probe.engine_hint[0] = '\0';
	else if (str_fmt(p->probe.engine_hint, sizeof(p->probe.engine_hint), "no answer at %s: is paddock-engine running?", p->engine_config.socket) < 0)
		str_copy(p->probe.engine_hint, sizeof(p->probe.engine_hint), "no answer: is paddock-engine running?");
}

static void on_ping(void *arg, const struct engine_answer *a, const err_t *err)
{
	struct provider *p = arg;

	(void)a;
	engine_is(p, err);
	if (err || p->ops->image(p->engine, on_image, p, NULL) < 0)
		p->probe.out = false;
}

void container_probe_start(struct provider *p)
{
	cleanup_err err_t *err = NULL;

	if (p->probe.out)
		return;
	p->probe.out = true;
	if (p->ops->ping(p->engine, on_ping, p, &err) < 0) {
		p->probe.out = false;
		engine_is(p, err);
	}
}

static void fact_if(struct buf *b, const char *name, bool ok, const char *remedy)
{
	fact_add(b, name, ok, ok ? "" : remedy);
}

static int64_t number_in(const char *path)
{
	cleanup_free char *text = NULL;
	int64_t n = -1;

	if (io_read_file(AT_FDCWD, path, 64, &text, NULL, NULL) < 0)
		return -1;
	text[strcspn(text, "\n")] = '\0';
	return num_i64(text, 0, INT64_MAX, &n) < 0 ? -1 : n;
}

static bool has_userns(void)
{
	return number_in("/proc/sys/user/max_user_namespaces") != 0 && number_in("/proc/sys/kernel/unprivileged_userns_clone") != 0;
}

/* The account has a line in /etc/subuid; the name stands first on it. */
static bool has_subuids(void)
{
	cleanup_free char *text = NULL;
	const struct passwd *pw = getpwuid(geteuid());
	char at[128];

	if (!pw || str_fmt(at, sizeof(at), "\n%s:", pw->pw_name) < 0 || io_read_file(AT_FDCWD, "/etc/subuid", 1u << 20, &text, NULL, NULL) < 0)
		return false;
	return str_prefix(text, at + 1) || strstr(text, at);
}

static void add_limits(struct buf *b, const struct provider *p)
{
	char path[PATH_MAX];
	bool v1 = access("/sys/fs/cgroup/memory", F_OK) == 0;
	bool owned = str_fmt(path, sizeof(path), "/sys/fs/cgroup/%s%s", v1 ? "memory" : "", p->engine_config.cgroup_parent) == 0 && access(path, W_OK) == 0;

	if (p->agents.limits_seen == LIMITS_UNKNOWN)
		fact_if(b, "limits", owned || !v1, "nominal: [container] cgroup_parent is not there for the account in every hierarchy; run contrib/up");
	else
		fact_add(b, "limits", p->agents.limits_seen == LIMITS_ENFORCED, p->agents.limits_hint);
}

static void add_network(struct buf *b, const struct provider *p)
{
	if (!p->engine_config.internet)
		fact_add(b, "network", true, "none, by setting");
	else if (access("/dev/net/tun", R_OK | W_OK) < 0)
		fact_add(b, "network", false, "the account may not use /dev/net/tun");
	else if (access(p->netguard, X_OK) < 0)
		fact_add(b, "network", false, "[container] netguard is not there");
	else
		fact_if(b, "network", access("/usr/sbin/nft", X_OK) == 0, "nft is not there: install nftables");
}

char *container_health(struct provider *p)
{
	cleanup_buf struct buf b = BUF_INIT(HEALTH_MAX);

	int64_t age = p->probe.engine && p->probe.image ? PROBE_AGE_MS : PROBE_AWAY_MS;

	if (!p->probe.known || clock_boot_ms() - p->probe.at_ms > age)
		container_probe_start(p);
	fact_add_vital(&b, "engine", p->probe.engine, p->probe.known ? p->probe.engine_hint : "not asked yet");
	fact_add(&b, "image", p->probe.engine && p->probe.image, p->probe.engine ? p->probe.image_hint : "not known while the engine is away");
	fact_if(&b, "user_namespaces", has_userns(), "the kernel forbids user namespaces: sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone");
	fact_if(&b, "subordinate_ids", has_subuids(), "the account has no line in /etc/subuid: usermod --add-subuids, --add-subgids");
	add_limits(&b, p);
	add_network(&b, p);
	fact_if(&b, "seccomp", access(p->engine_config.seccomp, R_OK) == 0, "[container] seccomp is not there");
	fact_if(&b, "agent", access(p->engine_config.agent, X_OK) == 0, "[container] agent is not there");
	return buf_steal(&b);
}
