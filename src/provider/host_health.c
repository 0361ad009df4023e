/* host_health.c - what readiness needs, each fact with a hint at its remedy. Cheap: the launcher tries it out in the background. */
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "provider/fact.h"
#include "provider/host.h"

#define PROBE_AGE_MS 30000     /* an answer is good for so long; */
#define PROBE_AWAY_MS 500      /* while something is missing, for less: a start is seen when it is done */
#define PROBE_MS 20000
#define HEALTH_MAX (16u << 10)

/* Calls fn for each line "fact NAME 0|1 TEXT". */
static void each_fact(const char *facts, void (*fn)(void *arg, const char *name, bool ok, const char *text), void *arg)
{
	cleanup_free char *copy = str_dup(facts);

	for (char *line = copy, *next; line && *line; line = next) {
		char *name, *ok, *text;

		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		if (!str_prefix(line, "fact ") || !(ok = strchr(name = line + strlen("fact "), ' ')) || !(text = strchr(ok + 1, ' ')))
			continue;
		*ok++ = *text++ = '\0';
		fn(arg, name, str_eq(ok, "1"), text);
	}
}

static void count_missing(void *arg, const char *name, bool ok, const char *text)
{
	(void)name;
	(void)text;
	*(unsigned *)arg += !ok;
}

static void on_probed(void *arg, const char *text, const err_t *err)
{
	struct provider *p = arg;

	p->probe = NULL;
	p->probed_ms = clock_boot_ms();
	p->launcher_there = !err;
	str_copy(p->launcher_hint, sizeof(p->launcher_hint), err ? "paddock-launcher cannot try it out: see its log" : "");
	if (err)
		return;
	free(p->facts);
	p->facts = str_dup(text);
}

/* The one that was asked last is no more, however good its answer still is. */
static bool launcher_ended(const struct provider *p)
{
	struct pollfd f = { .fd = p->launcher_fd, .events = POLLIN };

	return p->launcher_fd >= 0 && poll(&f, 1, 0) == 1;
}

static void launcher_watch(struct provider *p, int fd)
{
	if (p->launcher_fd >= 0)
		close(p->launcher_fd);
	p->launcher_fd = fd;
}

void host_probe_begin(struct provider *p)
{
	const char *const fields[] = { "probe", NULL };

	if (p->probe)
		return;
	p->probe = host_call_start(p->agents.loop, p->launcher, fields, PROBE_MS, on_probed, p, NULL);
	if (p->probe) {
		launcher_watch(p, host_call_launcher(p->probe));
		return;
	}
	p->probed_ms = clock_boot_ms();
	p->launcher_there = false;
	if (str_fmt(p->launcher_hint, sizeof(p->launcher_hint), "no answer at %s: is paddock-launcher running?", p->launcher) < 0)
		str_copy(p->launcher_hint, sizeof(p->launcher_hint), "no answer: is paddock-launcher running?");
}

void host_probe_free(struct provider *p)
{
	host_call_cancel(p->probe);
	launcher_watch(p, -1);
	free(p->facts);
}

static void add_fact(void *arg, const char *name, bool ok, const char *text)
{
	fact_add(arg, name, ok, text);
}

static void add_sandboxes(struct buf *b, const struct provider *p)
{
	bool ok = access(p->sandboxes, R_OK | W_OK | X_OK) == 0;

	fact_add(b, "sandboxes", ok, ok ? "" : "[host] sandboxes is not a directory that the account may write: run contrib/up");
}

static void add_limits(struct buf *b, const struct provider *p)
{
	char path[PATH_MAX];
	bool v1 = access("/sys/fs/cgroup/memory", F_OK) == 0;
	bool owned = str_fmt(path, sizeof(path), "/sys/fs/cgroup%s%s", v1 ? "/memory" : "", config_str(p->config, "container.cgroup_parent")) == 0 &&
		access(path, W_OK) == 0;

	if (p->agents.limits_seen == LIMITS_UNKNOWN)
		fact_add(b, "limits", owned, owned ? "" : "nominal: [container] cgroup_parent is not there for the account in every hierarchy; run contrib/up");
	else
		fact_add(b, "limits", p->agents.limits_seen == LIMITS_ENFORCED, p->agents.limits_hint);
}

static void add_agent(struct buf *b, const struct provider *p)
{
	bool ok = access(config_str(p->config, "container.agent"), X_OK) == 0;

	fact_add(b, "agent", ok, ok ? "" : "[container] agent is not there");
}

char *host_health(struct provider *p)
{
	cleanup_buf struct buf b = BUF_INIT(HEALTH_MAX);
	unsigned missing = !p->launcher_there;

	if (p->facts)
		each_fact(p->facts, count_missing, &missing);
	if (launcher_ended(p) || clock_boot_ms() - p->probed_ms > (missing ? PROBE_AWAY_MS : PROBE_AGE_MS))
		host_probe_begin(p);
	fact_add_vital(&b, "launcher", p->launcher_there, p->launcher_there || p->launcher_hint[0] ? p->launcher_hint : "not asked yet");
	if (p->facts)
		each_fact(p->facts, add_fact, &b);
	add_sandboxes(&b, p);
	add_limits(&b, p);
	add_agent(&b, p);
	return buf_steal(&b);
}
