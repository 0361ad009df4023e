#include "agent/scopes.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "agent/exports.h"
#include "agent/launch.h"
#include "agent/rawcall.h"
#include "agent/stack.h"
#include "base/cleanup.h"
#include "base/list.h"
#include "base/str.h"

#define RETRY_US 100000          /* no process could be made: somebody else has them all */

struct ending {
	struct list node;
	char scope[MSG_ID_MAX + 1];
	char file[EXPORTS_NAME_SIZE];
	bool asked, done;
};

static struct list endings = { &endings, &endings };
static size_t endings_n;

/* The last that ended, oldest first from `next` on; a hash beside each, so that to look for one is cheap. */
static struct {
	uint32_t hash[SCOPES_REMEMBERED];
	char scope[SCOPES_REMEMBERED][MSG_ID_MAX + 1];
	size_t n, next;
} over;

static struct {
	pid_t pid;                   /* 0: none */
	struct ending *of;
	struct stack *stack;
	int64_t not_before_us;
} remover;

/* ---- those that are over ---- */

static uint32_t hash_of(const char *s)
{
	uint32_t h = 2166136261u;

	for (; *s; s++)
		h = (h ^ (uint8_t)*s) * 16777619u;
	return h;
}

bool scopes_over(const char *scope)
{
	uint32_t h = hash_of(scope);

	for (size_t i = 0; i < over.n; i++)
		if (over.hash[i] == h && str_eq(over.scope[i], scope))
			return true;
	return false;
}

static void remember(const char *scope)
{
	if (scopes_over(scope))
		return;
	over.hash[over.next] = hash_of(scope);
	(void)str_copy(over.scope[over.next], sizeof(over.scope[0]), scope);
	over.next = (over.next + 1) % SCOPES_REMEMBERED;
	if (over.n < SCOPES_REMEMBERED)
		over.n++;
}

/* ---- those that are ending ---- */

static struct ending *find(const char *scope)
{
	list_for_each(n, &endings) {
		struct ending *e = list_entry(n, struct ending, node);

		if (str_eq(e->scope, scope))
			return e;
	}
	return NULL;
}

static void discard(struct ending *e)
{
	list_del(&e->node);
	free(e);
	endings_n--;
}

int scopes_end(const char *scope)
{
	struct ending *e = find(scope);

	if (!e) {
		if (endings_n == SCOPES_ENDING_MAX || !(e = calloc(1, sizeof(*e))))
			return -1;
		(void)str_copy(e->scope, sizeof(e->scope), scope);
		(void)str_fmt(e->file, sizeof(e->file), EXPORTS_PREFIX "%s", scope);
		list_add_tail(&endings, &e->node);
		endings_n++;
	}
	e->asked = true;
	remember(scope);
	return 0;
}

/* ---- the file ---- */

/* With the user's rights to files, and still root: the user can neither stop nor end it. The memory is the agent's, see launch_init(). */
static int remove_file(void *arg)
{
	rawcall(SYS_setfsgid, LAUNCH_GID);
	rawcall(SYS_setfsuid, LAUNCH_UID);
	rawcall(SYS_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0);
	exports_remove(arg);
	rawcall_exit(0);
}

static void start_remover(struct ending *e, int64_t now_us)
{
	remover.stack = stack_get();
	pid_t pid = remover.stack ? clone(remove_file, stack_supervisor(remover.stack), launch_share() | SIGCHLD, e->file) : -1;

	if (pid < 0) {
		stack_put(steal_ptr(&remover.stack));
		remover.not_before_us = now_us + RETRY_US;
		return;
	}
	remover.pid = pid;
	remover.of = e;
}

bool scopes_is_remover(pid_t pid)
{
	return remover.pid == pid;
}

void scopes_child_ended(pid_t pid)
{
	if (remover.pid != pid)
		return;
	remover.pid = 0;
	stack_put(steal_ptr(&remover.stack));
	struct ending *e = steal_ptr(&remover.of);
	e->done = true;
	if (!e->asked)
		discard(e);
}

void scopes_run(int64_t now_us, bool (*busy)(const char *scope))
{
	if (remover.pid || now_us < remover.not_before_us)
		return;
	remover.not_before_us = 0;
	list_for_each(n, &endings) {
		struct ending *e = list_entry(n, struct ending, node);

		if (e->done || busy(e->scope))
			continue;
		start_remover(e, now_us);
		return;
	}
}

int64_t scopes_next_us(void)
{
	return remover.not_before_us ? remover.not_before_us : INT64_MAX;
}

/* ---- what is to be told ---- */

void scopes_unasked(void)
{
	list_for_each_safe(n, following, &endings) {
		struct ending *e = list_entry(n, struct ending, node);

		e->asked = false;
		if (e->done)
			discard(e);
	}
}

static struct ending *finished(void)
{
	list_for_each(n, &endings) {
		struct ending *e = list_entry(n, struct ending, node);

		if (e->done)
			return e;
	}
	return NULL;
}

const char *scopes_to_tell(void)
{
	struct ending *e = finished();

	return e ? e->scope : NULL;
}

void scopes_told(void)
{
	struct ending *e = finished();

	if (e)
		discard(e);
}
