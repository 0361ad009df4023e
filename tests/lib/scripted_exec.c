/* scripted_exec.c - the scripted provider's calls about commands. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "scripted_priv.h"

static struct inst *ready_one(struct inst *i, err_t **err)
{
	if (!i || !i->managed)
		(void)call_no_such(err);
	else if (i->state != SIM_RUNNING)
		err_set(err, ERR_CONFLICT, "instance_not_ready", "the instance is not ready");
	else if (!i->contact)
		err_set(err, ERR_UNAVAILABLE, NULL, "no contact with the agent");
	else
		return i;
	return NULL;
}

static char **environment(struct provider *p, const struct inst *i, const struct exec_spec *s)
{
	static const char *const base[] = { "PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/home/user", "USER=user", "LOGNAME=user", "SHELL=/bin/bash", "LANG=C.UTF-8" };
	bool clean = s->kind == EXEC_FILE && !scripted_breaks(p, "dirty_files");
	size_t n = 0, own = s->env ? strv_len(s->env) : 0;
	char **env = calloc(64 + own, sizeof(*env));

	for (size_t k = 0; k < sizeof(base) / sizeof(base[0]); k++)
		env[n++] = str_dup(base[k]);
	if (!clean)
		env[n++] = str_dupf("PADDOCK_ENV=/tmp/.paddock-env/%s", s->scope);
	list_for_each(m, &i->scopes) {
		const struct scope *o = list_entry(m, struct scope, node);

		for (size_t k = 0; !clean && k < o->vars_n && n < 60 && (str_eq(o->id, s->scope) || scripted_breaks(p, "shares_across")); k++)
			env[n++] = str_dup(o->vars[k]);
	}
	for (size_t k = 0; !clean && k < own; k++)
		env[n++] = str_dup(s->env[k]);
	return env;
}

static bool has_dir(struct inst *i, const struct exec_spec *s)
{
	static const char *const there[] = { "/", "/tmp", "/home/user", "/home/user/workspace" };
	cleanup_buf struct buf pct = BUF_INIT(16384);

	for (size_t n = 0; n < sizeof(there) / sizeof(there[0]); n++)
		if (str_eq(there[n], s->cwd))
			return true;
	for (size_t n = 0; n < i->dirs_n; n++)
		if (str_eq(i->dirs[n], s->cwd))
			return true;
	if (!s->make_cwd)
		return false;
	pct_encode(&pct, s->cwd, strlen(s->cwd));
	world_note(i->w, clock_boot_us(), "dir %s %s", i->id, buf_str(&pct));
	return true;
}

static void not_started(struct provider *p, const struct inst *i, const char *cid, const char *stage, int32_t error)
{
	struct answer *a = answer_owe(p, ANSWER_NOT_STARTED, i->id, cid);

	a->stage = stage;
	a->error = error;
}

static void start(struct provider *p, struct inst *i, const struct exec_spec *s, const struct rule *r)
{
	cleanup_strv char **env = environment(p, i, s);
	struct plan plan;
	struct cmd *c;

	if (!has_dir(i, s)) {
		not_started(p, i, s->exec_id, "cwd", ENOENT);
	} else if (!plan_make(&plan, s, env)) {
		not_started(p, i, s->exec_id, "exec", ENOENT);
		plan_free(&plan);
	} else {
		world_start(p->world, i, s, &plan, clock_boot_us());
		plan_free(&plan);
		c = list_entry(i->cmds.prev, struct cmd, node);
		run_open(c);
		c->live.mute = r && (r->fault == FAULT_LOST || r->fault == FAULT_SILENT);
		c->live.twice = r && r->fault == FAULT_TWICE;
		c->live.tell_us = r && r->fault == FAULT_LATE ? clock_boot_us() + r->ms * 1000 : 0;
	}
}

int scripted_exec(struct provider *p, const char *iid, const struct exec_spec *s, err_t **err)
{
	struct inst *i;
	const struct rule *r = call_begin(p, "exec", iid, s->exec_id, &i);
	const struct scope *o;
	struct cmd *c;

	if (call_is_rejected(r, err))
		return -1;
	if (call_is_refused(r))
		return err_set(err, r->code, NULL, "scripted: %s", err_code_name(r->code));
	if (!ready_one(i, err))
		return -1;
	o = world_scope(i, s->scope);
	c = world_cmd(i, s->exec_id);
	if (o && o->ended && !scripted_breaks(p, "forgets_scope")) {
		not_started(p, i, s->exec_id, "agent", ECANCELED);
	} else if (c && !c->acked) {
		c->live.adopted = true;   /* held: it starts nothing, it is told again */
		c->live.told_start = c->live.told_end = c->live.mute = false;
		if (scripted_breaks(p, "starts_twice"))
			world_note(p->world, clock_boot_us(), "step %s %s 0 %lld", iid, c->id, (long long)clock_boot_us());
	} else {
		start(p, i, s, r);
	}
	call_end(p);
	return 0;
}

/* The command of a later call, or NULL; *rc is what the call returns then. */
static struct cmd *command_of(struct provider *p, const char *call, const char *iid, const char *cid, int *rc, err_t **err)
{
	struct inst *i;
	const struct rule *r = call_begin(p, call, iid, cid, &i);

	*rc = 0;
	if (r && r->fault == FAULT_REFUSE)
		*rc = err_set(err, r->code, NULL, "scripted: %s", err_code_name(r->code));
	else if (call_is_rejected(r, err) || !ready_one(i, err))
		*rc = -1;
	else if (!r || (r->fault != FAULT_LOST && r->fault != FAULT_SILENT))
		return world_cmd(i, cid);
	return NULL;
}

int scripted_exec_ack(struct provider *p, const char *iid, const char *cid, err_t **err)
{
	int rc;
	struct cmd *c = command_of(p, "exec_ack", iid, cid, &rc, err);

	if (c && c->ended && !scripted_breaks(p, "repeats_acked")) {
		run_close(c);
		world_note(p->world, clock_boot_us(), "ack %s %s", iid, cid);
	}
	return rc;
}

int scripted_exec_stdin(struct provider *p, const char *iid, const char *cid, uint64_t offset, const void *data, size_t n, bool eof, err_t **err)
{
	int rc;
	struct cmd *c = command_of(p, "exec_stdin", iid, cid, &rc, err);

	if (c && c->stdin_open && !c->ended)
		run_feed(c, offset, data, n, eof);
	return rc;
}

static bool is_meant(const struct cmd *c, const struct exec_ref *x)
{
	return c && (!x->pgid || x->pgid == c->pgid);
}

int scripted_exec_signal(struct provider *p, const char *iid, const struct exec_ref *x, int signo, err_t **err)
{
	int rc;
	struct cmd *c = command_of(p, "exec_signal", iid, x->exec_id, &rc, err);
	bool harmless = signo == SIGCONT || signo == SIGCHLD || signo == SIGURG || signo == SIGWINCH || signo == SIGSTOP || signo == SIGTSTP;

	if ((is_meant(c, x) || (c && scripted_breaks(p, "signals_all"))) && !c->ended && !harmless && !(c->deaf && (signo == SIGTERM || signo == SIGINT || signo == SIGHUP)))
		run_end(c, clock_boot_us(), EXEC_SIGNALED, signo, EXEC_WHY_NONE);
	return rc;
}

static void kill_tree(struct provider *p, struct cmd *c, bool background)
{
	int64_t now = clock_boot_us();
	struct inst *i = c->inst;
	char cid[ID_SIZE];

	(void)str_copy(cid, sizeof(cid), c->id);
	if (!c->ended)
		run_end(c, now, EXEC_SIGNALED, SIGKILL, EXEC_WHY_KILLED);
	if (background && c->bg_until_us)
		world_note(p->world, now, "bgkill %s %s", i->id, cid);
}

/* What the broken one hits instead. */
static struct cmd *any_other(struct provider *p)
{
	list_for_each(n, &p->world->living)
		list_for_each(m, &list_entry(n, struct inst, node)->cmds)
			if (!list_entry(m, struct cmd, node)->ended)
				return list_entry(m, struct cmd, node);
	return NULL;
}

int scripted_exec_kill(struct provider *p, const char *iid, const struct exec_ref *x, err_t **err)
{
	int rc;
	struct cmd *c = command_of(p, "exec_kill", iid, x->exec_id, &rc, err);

	if (!is_meant(c, x))
		c = scripted_breaks(p, "kills_other") ? any_other(p) : NULL;
	if (c)
		kill_tree(p, c, true);
	call_end(p);
	return rc;
}

int scripted_scope_end(struct provider *p, const char *iid, const char *sid, err_t **err)
{
	struct inst *i;
	const struct rule *r = call_begin(p, "scope_end", iid, sid, &i);
	struct answer *a;

	if (call_is_rejected(r, err))
		return -1;
	if (!call_is_refused(r) && i) {
		list_for_each_safe(n, tmp, &i->cmds)
			if (str_eq(list_entry(n, struct cmd, node)->scope, sid))
				kill_tree(p, list_entry(n, struct cmd, node), !scripted_breaks(p, "leaves_background"));
		world_note(p->world, clock_boot_us(), "scope %s %s", iid, sid);
	}
	a = answer_owe(p, ANSWER_SCOPE, iid, sid);
	if (call_is_refused(r))
		a->code = r->code;
	answer_bend(a, r, INSTANCE_AT_IT);
	call_end(p);
	return 0;
}
