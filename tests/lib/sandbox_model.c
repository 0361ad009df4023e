#include "sandbox_model.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"

#define GROW 1024
#define TOTALS_EVERY 256
#define VACUUM_EVERY 2048
#define USAGE_ONE_MS 10000
#define USAGE_ALL_MS 1000

void model_broken(const struct model *m, const char *fmt, ...)
{
	va_list ap;
	char text[1024];

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	printf("not ok 1 - test_walk\n# broken in step %ld, %s%s: %s\n", m->step, m->event ? m->event : "", m->child ? " (in a process of its own)" : "", text);
	fflush(stdout);
	if (m->child)
		_exit(3);
	/* Nothing that follows is of use; the stand goes. */
	stand_down(m->stand);
	exit(1);
}

static void *room(void *list, size_t n, size_t size)
{
	void *p = n % GROW ? list : realloc(list, (n + GROW) * size);

	if (!p)
		abort();
	return p;
}

/* --- what calls were told --- */

static bool is_terminal(const char *status)
{
	return str_eq(status, "completed") || str_eq(status, "failed") || str_eq(status, "cancelled") || str_eq(status, "yielded");
}

static void forget_first(size_t *list, size_t *n)
{
	memmove(list, list + 1, --*n * sizeof *list);
}

static struct model_run *run_of(struct model *m, unsigned user, const char *id)
{
	struct model_user *u = &m->users[user];

	for (size_t i = u->n_live; i-- > 0;)
		if (str_eq(m->runs[u->live[i]].id, id))
			return &m->runs[u->live[i]];
	for (size_t i = m->n_runs; i-- > 0;)
		if (str_eq(m->runs[i].id, id))
			return &m->runs[i];
	return NULL;
}

static struct model_run *run_add(struct model *m, unsigned user, const char *id, int64_t input)
{
	struct model_user *u = &m->users[user];

	m->runs = room(m->runs, m->n_runs, sizeof *m->runs);
	struct model_run *r = &m->runs[m->n_runs++];
	*r = (struct model_run){ .user = user, .input = input };
	(void)str_copy(r->id, sizeof r->id, id);
	if (u->n_live == MODEL_LIVE)
		forget_first(u->live, &u->n_live);
	u->live[u->n_live++] = m->n_runs - 1;
	return r;
}

static void run_over(struct model *m, struct model_run *r)
{
	struct model_user *u = &m->users[r->user];
	size_t place = (size_t)(r - m->runs);

	u->over = place;
	for (size_t i = 0; i < u->n_live; i++)
		if (u->live[i] == place) {
			memmove(&u->live[i], &u->live[i + 1], (--u->n_live - i) * sizeof u->live[0]);
			return;
		}
}

static const char *text_of(const struct model *m, const json_t *o, const char *key, bool required)
{
	const char *s = NULL;

	if (json_get_str(o, key, false, &s, NULL) < 0 || (required && !s))
		model_broken(m, "an answer has no %s", key);
	return s;
}

struct model_run *model_run_told(struct model *m, unsigned user, const json_t *run, const char *token, int64_t input)
{
	const char *id = text_of(m, run, "id", true), *status = text_of(m, run, "status", true), *successor = text_of(m, run, "successor_id", false);
	struct model_run *r = run_of(m, user, id);

	if (!r)
		r = run_add(m, user, id, input);
	if (r->user != user)
		model_broken(m, "Run %s of user %u was given to user %u", id, r->user, user);
	if (token && *token)
		(void)str_copy(r->token, sizeof r->token, token);
	if (r->status[0] && !str_eq(r->status, status))
		model_broken(m, "Run %s was %s and is %s", id, r->status, status);
	if (r->successor[0] && (!successor || !str_eq(r->successor, successor)))
		model_broken(m, "Run %s had the successor %s and has %s", id, r->successor, successor ? successor : "none");
	if (successor)
		(void)str_copy(r->successor, sizeof r->successor, successor);
	if (!r->status[0] && is_terminal(status)) {
		(void)str_copy(r->status, sizeof r->status, status);
		run_over(m, r);
	}
	return r;
}

void model_claim_told(struct model *m, unsigned user, const json_t *run, const char *token)
{
	const json_t *input = NULL;
	const char *thread = text_of(m, run, "thread_id", true), *of = NULL;
	int64_t n = -1;

	struct model_run *r = model_run_told(m, user, run, token, -1);
	if (!str_eq(text_of(m, run, "status", true), "running"))
		model_broken(m, "a claim gave Run %s, which is %s", r->id, text_of(m, run, "status", true));
	/* An input that came by a steer names no Thread. */
	if (json_get_obj(run, "input", true, &input, NULL) < 0 || json_get_str(input, "thread", true, &of, NULL) < 0 ||
			json_get_i64(input, "n", true, 0, INT64_MAX, &n, NULL) < 0 || (*of && !str_eq(of, thread)) || (r->input >= 0 && n != r->input))
		model_broken(m, "a claim of Run %s (input %lld) gave the input %s", r->id, (long long)r->input, input ? json_text((json_t *)input, NULL) : "null");
	r->input = n;
}

void model_steer_told(struct model *m, unsigned user, const json_t *run, const json_t *successor, int64_t input)
{
	struct model_run *r = model_run_told(m, user, run, NULL, -1);
	size_t place = (size_t)(r - m->runs);
	const char *id = text_of(m, successor, "id", true);

	if (!str_eq(r->status, "yielded") || !str_eq(r->successor, id))
		model_broken(m, "Run %s was steered to %s; it is %s and has the successor %s", r->id, id, r->status, r->successor);
	if (!str_eq(text_of(m, successor, "thread_id", true), text_of(m, run, "thread_id", true)) || !str_eq(text_of(m, successor, "status", true), "pending"))
		model_broken(m, "the successor of Run %s is %s of another Thread, or not pending", m->runs[place].id, id);
	r = model_run_told(m, user, successor, NULL, input);
	r->input = input;
}

static struct model_command *command_of(struct model *m, unsigned user, const char *id)
{
	struct model_user *u = &m->users[user];

	for (size_t i = u->n_recent; i-- > 0;)
		if (str_eq(m->commands[u->recent[i]].id, id))
			return &m->commands[u->recent[i]];
	m->commands = room(m->commands, m->n_commands, sizeof *m->commands);
	struct model_command *c = &m->commands[m->n_commands++];
	*c = (struct model_command){ .user = user };
	(void)str_copy(c->id, sizeof c->id, id);
	if (u->n_recent == MODEL_LIVE)
		forget_first(u->recent, &u->n_recent);
	u->recent[u->n_recent++] = m->n_commands - 1;
	return c;
}

void model_command_told(struct model *m, unsigned user, const char *id, const json_t *command)
{
	struct model_command *c = command_of(m, user, id);
	const char *reason = command ? text_of(m, command, "reason", false) : NULL;

	/* "lost" is the one end that a later truth may replace. */
	if (c->reason[0] && !str_eq(c->reason, "lost") && (!reason || !str_eq(c->reason, reason)) && command)
		model_broken(m, "command %s had the end %s and has %s", id, c->reason, reason ? reason : "none");
	if (reason)
		(void)str_copy(c->reason, sizeof c->reason, reason);
}

void model_execute_told(struct model *m, unsigned user, const char *run, bool live)
{
	(void)run_add(m, user, run, -1);
	if (!live)
		m->users[user].n_live--;
}

/* --- the database --- */

static const char watch_sql[] =
	"SELECT 'S', substr(u.name, 2), coalesce(s.state, ''), coalesce(s.generation, 0)::text, coalesce(s.instance_id::text, ''),"
	" (SELECT count(*) FROM runs r WHERE r.user_id = u.id AND r.ended_at IS NULL AND r.status IN ('running', 'cancel_requested'))::text"
	" FROM users u LEFT JOIN user_sandboxes s ON s.user_id = u.id WHERE u.name ~ '^w[0-9]$'"
	" UNION ALL SELECT 'X', 'a present instance is nobody''s', i.id::text, '', '', '' FROM instances i WHERE i.run_id IS NULL AND i.retired_at IS NULL"
	"  AND NOT EXISTS (SELECT FROM user_sandboxes s WHERE s.instance_id = i.id)"
	" UNION ALL SELECT 'X', 'a sandbox is not in the ledger', s.instance_id::text, '', '', '' FROM user_sandboxes s WHERE s.instance_id IS NOT NULL"
	"  AND NOT EXISTS (SELECT FROM instances i WHERE i.id = s.instance_id AND i.user_id = s.user_id AND i.generation = s.generation AND i.retired_at IS NULL)"
	" UNION ALL SELECT 'X', 'the provider holds what the ledger does not', x::text, '', '', '' FROM unnest($1::uuid[]) x"
	"  WHERE NOT EXISTS (SELECT FROM instances i WHERE i.id = x)"
	" UNION ALL SELECT 'X', 'it was cleaned up and its processes are there', a.run_id::text, x.scope::text, '', ''"
	"  FROM unnest($2::uuid[], $3::uuid[]) x (scope, instance) JOIN run_attempts a ON a.scope_id = x.scope JOIN runs r ON r.id = a.run_id"
	"  WHERE a.ended_at IS NOT NULL AND NOT r.cleanup_pending AND NOT EXISTS (SELECT FROM instances i WHERE i.id = x.instance AND i.retired_at IS NOT NULL)"
	" UNION ALL SELECT 'X', 'a command runs that has no row of that instance and scope', x.id::text, x.instance::text, x.scope::text, ''"
	"  FROM unnest($4::uuid[], $5::uuid[], $6::uuid[]) x (id, instance, scope)"
	"  WHERE NOT EXISTS (SELECT FROM sandbox_commands c WHERE c.id = x.id AND c.instance_id = x.instance AND c.scope_id = x.scope)"
	" UNION ALL SELECT 'X', 'a Run is over, holds a sandbox, and nobody has the duty', r.id::text, '', '', '' FROM runs r"
	"  WHERE r.ended_at IS NOT NULL AND NOT r.cleanup_pending AND (r.scope_id IS NOT NULL OR r.instance_id IS NOT NULL)"
	" UNION ALL SELECT 'X', 'a Run is offered again, holds a sandbox, and nobody has the duty', r.id::text, '', '', '' FROM runs r"
	"  WHERE r.status = 'pending' AND NOT r.cleanup_pending AND (r.scope_id IS NOT NULL OR r.instance_id IS NOT NULL)"
	" UNION ALL SELECT 'X', 'the attempt of a Run that is over goes on', r.id::text, '', '', '' FROM run_attempts a JOIN runs r ON r.id = a.run_id"
	"  WHERE a.ended_at IS NULL AND (r.ended_at IS NOT NULL OR r.attempt <> a.attempt)"
	" UNION ALL SELECT 'X', 'an attempt passed the fence', a.run_id::text, f.id::text, '', '' FROM run_attempts a JOIN runs r ON r.id = a.run_id"
	"  JOIN runs f ON f.user_id = r.user_id AND f.thread_id = r.thread_id AND f.cleanup_pending WHERE a.ended_at IS NULL"
	"  AND a.started_at > coalesce(f.ended_at, (SELECT max(x.ended_at) FROM run_attempts x WHERE x.run_id = f.id))"
	" UNION ALL SELECT 'X', 'it sleeps and has an open command', s.instance_id::text, c.id::text, s.state, '' FROM user_sandboxes s"
	"  JOIN sandbox_commands c ON c.user_id = s.user_id AND c.instance_id = s.instance_id AND c.ended_at IS NULL WHERE s.state IN ('pausing', 'paused')"
	" UNION ALL SELECT 'X', 'an open command of a Run that was cleaned up', c.id::text, r.id::text, '', '' FROM sandbox_commands c JOIN runs r ON r.id = c.run_id"
	"  WHERE c.ended_at IS NULL AND (r.ended_at IS NOT NULL OR r.status = 'pending') AND NOT r.cleanup_pending"
	" UNION ALL SELECT 'X', 'the stretches of its time are not its time', i.id::text, i.usage_ms::text, l.ms::text, '' FROM instances i,"
	"  LATERAL (SELECT coalesce(sum(ms), 0) AS ms FROM sb_usage_log WHERE instance_id = i.id) l WHERE l.ms <> i.usage_ms"
	" UNION ALL SELECT 'X', 'what is shown to run does not run, or the other way round', s.instance_id::text, s.state, '', '' FROM user_sandboxes s"
	"  WHERE (s.running_at IS NULL) = EXISTS (SELECT FROM sb_usage_log l WHERE l.instance_id = s.instance_id AND l.ended_at IS NULL)"
	" UNION ALL SELECT 'X', 'time goes on of what is gone', l.instance_id::text, '', '', '' FROM sb_usage_log l WHERE l.ended_at IS NULL"
	"  AND NOT EXISTS (SELECT FROM instances i WHERE i.id = l.instance_id)";

static const char totals_sql[] =
	"SELECT u.name, coalesce(t.usage_ms, 0), coalesce(l.ms, 0) FROM users u LEFT JOIN user_sandboxes t ON t.user_id = u.id"
	" LEFT JOIN (SELECT user_id, sum(ms) AS ms FROM sb_usage_log GROUP BY user_id) l ON l.user_id = u.id WHERE coalesce(t.usage_ms, 0) <> coalesce(l.ms, 0)";

/* Only what is wrong stands in most of these: each statement above costs next to nothing. */
static const char indexes_sql[] =
	"CREATE INDEX model_1 ON runs (id) WHERE ended_at IS NOT NULL AND NOT cleanup_pending AND (scope_id IS NOT NULL OR instance_id IS NOT NULL);"
	"CREATE INDEX model_2 ON run_attempts (run_id) WHERE ended_at IS NULL; CREATE INDEX model_3 ON run_attempts (scope_id);"
	"CREATE INDEX model_4 ON instances (id) WHERE run_id IS NULL AND retired_at IS NULL; ANALYZE";

static void connect_db(struct model *m)
{
	char info[256];

	PQfinish(m->db);
	snprintf(info, sizeof info, "host=%s/pg dbname=paddock user=postgres", m->stand->dir);
	m->db = PQconnectdb(info);
	PQclear(PQexec(m->db, "SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET plan_cache_mode = force_generic_plan; SET jit = off"));
	PQclear(PQprepare(m->db, "watch", watch_sql, 6, NULL));
	PQclear(PQprepare(m->db, "totals", totals_sql, 0, NULL));
}

/* The answer's rows; the connection is made anew when the database was restarted meanwhile. */
static PGresult *ask(struct model *m, const char *prepared, const char *sql, int n, const char *const *args)
{
	for (int tries = 0;; tries++) {
		PGresult *r = prepared ? PQexecPrepared(m->db, prepared, n, args, NULL, NULL, 0) : PQexec(m->db, sql);
		if (PQresultStatus(r) == PGRES_TUPLES_OK || PQresultStatus(r) == PGRES_COMMAND_OK)
			return r;
		if (tries == 3)
			model_broken(m, "%s: %s", prepared ? prepared : sql, PQerrorMessage(m->db));
		PQclear(r);
		connect_db(m);
	}
}

void model_sql(struct model *m, const char *fmt, ...)
{
	va_list ap;
	char sql[1024];

	va_start(ap, fmt);
	vsnprintf(sql, sizeof sql, fmt, ap);
	va_end(ap);
	PQclear(ask(m, NULL, sql, 0, NULL));
}

static long count(struct model *m, const char *sql)
{
	PGresult *r = ask(m, NULL, sql, 0, NULL);
	long n = strtol(PQgetvalue(r, 0, 0), NULL, 10);

	PQclear(r);
	return n;
}

long model_blockers(struct model *m, unsigned user, bool replaces, bool granted)
{
	const char *id = m->users[user].caller.user_id;
	char sql[1024];

	snprintf(sql, sizeof sql, "SELECT coalesce((SELECT (SELECT count(*) FROM sandbox_commands WHERE user_id = s.user_id AND ended_at IS NULL)"
		" + (SELECT count(*) FROM runs WHERE user_id = s.user_id AND ended_at IS NULL AND status IN ('cancel_requested'%s))"
		" + (SELECT count(*) FROM runs WHERE user_id = s.user_id AND cleanup_pending)"
		" FROM user_sandboxes s WHERE user_id = '%s' AND (%s OR state NOT IN ('none', 'pausing', 'paused'))), 0)", replaces ? ", 'running'" : "", id,
		granted ? "true" : "false");
	return count(m, sql);
}

long model_decisions(struct model *m, unsigned user)
{
	char sql[256];

	snprintf(sql, sizeof sql, "SELECT count(*) FROM audit WHERE user_id = '%s' AND actor_id IS NOT NULL AND action IN ('sandbox.pause', 'sandbox.rebuild', 'sandbox.release')",
		m->users[user].caller.user_id);
	return count(m, sql);
}

/* --- what holds after every event --- */

static void add_id(struct buf *b, const char *id)
{
	buf_addf(b, "%s%s", b->len > 1 ? "," : "{", id);
}

static const char *array(struct buf *b)
{
	buf_addf(b, "%s", b->len ? "}" : "{}");
	return buf_str(b);
}

struct arrays {
	struct buf living, scopes, places, ids, instances, of;
};

static void gather(struct model *m, struct arrays *a)
{
	const struct truth *t = &m->truth;
	int64_t now = clock_boot_us();

	for (size_t i = 0; i < t->n_living; i++)
		add_id(&a->living, t->instances[t->living[i]].id);
	for (size_t i = 0; i < t->n_alive; i++) {
		const struct truth_command *c = &t->commands[t->alive[i]];
		if (!truth_alive(t, c, now))
			continue;
		add_id(&a->scopes, c->scope);
		add_id(&a->places, t->instances[c->instance].id);
	}
	for (; m->commands_seen < t->n_commands; m->commands_seen++) {
		const struct truth_command *c = &t->commands[m->commands_seen];
		add_id(&a->ids, c->id);
		add_id(&a->instances, t->instances[c->instance].id);
		add_id(&a->of, c->scope);
	}
}

static bool was_used(const struct model *m, const char *id)
{
	for (size_t i = m->n_used; i-- > 0;)
		if (str_eq(m->used[i], id))
			return true;
	return false;
}

static void watch_sandbox(struct model *m, const char *user, const char *state, const char *generation, const char *instance, const char *active)
{
	struct model_user *u = &m->users[*user - '0'];
	int64_t g = strtoll(generation, NULL, 10);
	bool slept = str_eq(state, "pausing") || str_eq(state, "paused");

	if (g < u->generation)
		model_broken(m, "the generation of user %s was %lld and is %lld", user, (long long)u->generation, (long long)g);
	if (*instance && !str_eq(instance, u->instance)) {
		if (was_used(m, instance))
			model_broken(m, "instance %s of user %s is back", instance, user);
		if (g == u->generation)
			model_broken(m, "user %s has another instance, %s, of the same generation %lld", user, instance, (long long)g);
		m->used = room(m->used, m->n_used, sizeof *m->used);
		(void)str_copy(m->used[m->n_used++], ID_SIZE, instance);
	} else if (g != u->generation && *instance) {
		model_broken(m, "instance %s of user %s has another generation, %lld", instance, user, (long long)g);
	}
	if (slept && str_eq(u->state, "ready") && !str_eq(active, "0") && str_eq(m->event, "duty idle"))
		model_broken(m, "the sandbox of user %s was paused for idleness while %s Runs are active", user, active);
	u->generation = g;
	(void)str_copy(u->instance, sizeof u->instance, instance);
	(void)str_copy(u->state, sizeof u->state, state);
}

static void watch_totals(struct model *m)
{
	PGresult *r = ask(m, "totals", NULL, 0, NULL);

	if (PQntuples(r))
		model_broken(m, "user %s has used %s ms, by the stretches %s", PQgetvalue(r, 0, 0), PQgetvalue(r, 0, 1), PQgetvalue(r, 0, 2));
	PQclear(r);
}

void model_watch(struct model *m)
{
	struct arrays a = { BUF_INIT(1 << 20), BUF_INIT(1 << 20), BUF_INIT(1 << 20), BUF_INIT(1 << 20), BUF_INIT(1 << 20), BUF_INIT(1 << 20) };
	struct buf *all[] = { &a.living, &a.scopes, &a.places, &a.ids, &a.instances, &a.of };
	const char *args[6];

	truth_read(&m->truth);
	if (m->truth.violation[0])
		model_broken(m, "%s", m->truth.violation);
	gather(m, &a);
	for (size_t i = 0; i < 6; i++)
		args[i] = array(all[i]);
	PGresult *r = ask(m, "watch", NULL, 6, args);
	for (int i = 0; i < PQntuples(r); i++) {
		if (*PQgetvalue(r, i, 0) == 'X')
			model_broken(m, "%s: %s %s %s", PQgetvalue(r, i, 1), PQgetvalue(r, i, 2), PQgetvalue(r, i, 3), PQgetvalue(r, i, 4));
		watch_sandbox(m, PQgetvalue(r, i, 1), PQgetvalue(r, i, 2), PQgetvalue(r, i, 3), PQgetvalue(r, i, 4), PQgetvalue(r, i, 5));
	}
	PQclear(r);
	for (size_t i = 0; i < 6; i++)
		buf_free(all[i]);
	if (m->step % TOTALS_EVERY == 0)
		watch_totals(m);
	if (m->step % VACUUM_EVERY == 0)
		model_sql(m, "VACUUM ANALYZE runs, run_attempts, instances, user_sandboxes, sandbox_commands, sb_usage_log, idempotency_keys");
}

/* --- at the end --- */

bool model_at_rest(struct model *m)
{
	return count(m, "SELECT (SELECT count(*) FROM runs WHERE ended_at IS NULL OR cleanup_pending) + (SELECT count(*) FROM sandbox_commands WHERE ended_at IS NULL)"
		" + (SELECT count(*) FROM user_sandboxes WHERE op_id IS NOT NULL) + (SELECT count(*) FROM instances WHERE retired_at IS NOT NULL)") == 0;
}

static void finish_living(struct model *m)
{
	const struct truth *t = &m->truth;

	for (size_t i = 0; i < t->n_living; i++) {
		const struct truth_instance *l = &t->instances[t->living[i]];
		bool mine = false;
		for (unsigned u = 0; u < MODEL_USERS; u++)
			mine |= str_eq(m->users[u].instance, l->id) && str_eq(m->users[u].state, l->state == TRUTH_PAUSED ? "paused" : "ready");
		if (!mine)
			model_broken(m, "instance %s is left, which is no present sandbox as the rows have it", l->id);
	}
	for (unsigned u = 0; u < MODEL_USERS; u++) {
		const struct truth_instance *i = m->users[u].instance[0] ? truth_instance(t, m->users[u].instance) : NULL;
		bool there = i && i->state != TRUTH_GONE && i->state != TRUTH_VANISHED;
		if (m->users[u].instance[0] && !there && !str_eq(m->users[u].state, "error"))
			model_broken(m, "the sandbox of user %u is %s, the provider has none", u, m->users[u].state);
	}
}

/* The row of a command against what really became of it. */
static void finish_command(struct model *m, const char *id, const char *reason, const char *code)
{
	const struct truth_command *c = truth_command(&m->truth, id);

	if (!c && !str_eq(reason, "not_started") && !str_eq(reason, "lost") && !str_eq(reason, "cancelled") && !str_eq(reason, "timeout"))
		model_broken(m, "command %s never started and has the end %s", id, reason);
	if (!c)
		return;
	if (str_eq(reason, "not_started"))
		model_broken(m, "command %s is said not to have started; it did", id);
	if (str_eq(reason, "exited") && (!str_eq(c->how, "exited") || c->code != (int)strtol(code, NULL, 10)))
		model_broken(m, "command %s is said to have exited with %s; it has %s %d", id, code, c->how, c->code);
}

static void finish_commands(struct model *m)
{
	PGresult *r = ask(m, NULL, "SELECT id, coalesce(reason, ''), coalesce(exit_code, -1) FROM sandbox_commands", 0, NULL);

	for (int i = 0; i < PQntuples(r); i++)
		finish_command(m, PQgetvalue(r, i, 0), PQgetvalue(r, i, 1), PQgetvalue(r, i, 2));
	PQclear(r);
}

static int by_id(const void *a, const void *b)
{
	return strcmp(a, b);   /* an id is the first member */
}

/* What was answered is what the rows say. */
static void finish_answers(struct model *m)
{
	PGresult *r = ask(m, NULL, "SELECT id, status, coalesce(successor_id::text, '') FROM runs ORDER BY id", 0, NULL);
	int row = 0;

	qsort(m->runs, m->n_runs, sizeof *m->runs, by_id);
	for (size_t i = 0; i < m->n_runs; i++) {
		const struct model_run *k = &m->runs[i];
		while (row < PQntuples(r) && strcmp(PQgetvalue(r, row, 0), k->id) < 0)
			row++;
		if (row == PQntuples(r) || !str_eq(PQgetvalue(r, row, 0), k->id))
			model_broken(m, "Run %s was given and has no row", k->id);
		if (k->status[0] && !str_eq(k->status, PQgetvalue(r, row, 1)))
			model_broken(m, "Run %s was %s and is %s", k->id, k->status, PQgetvalue(r, row, 1));
		if (k->successor[0] && !str_eq(k->successor, PQgetvalue(r, row, 2)))
			model_broken(m, "Run %s had the successor %s and has %s", k->id, k->successor, PQgetvalue(r, row, 2));
	}
	PQclear(r);
	r = ask(m, NULL, "SELECT id, reason FROM sandbox_commands ORDER BY id", 0, NULL);
	row = 0;
	qsort(m->commands, m->n_commands, sizeof *m->commands, by_id);
	for (size_t i = 0; i < m->n_commands; i++) {
		const struct model_command *k = &m->commands[i];
		while (row < PQntuples(r) && strcmp(PQgetvalue(r, row, 0), k->id) < 0)
			row++;
		if (row == PQntuples(r) || !str_eq(PQgetvalue(r, row, 0), k->id))
			model_broken(m, "command %s was acknowledged and has no row", k->id);
		if (k->reason[0] && !str_eq(k->reason, "lost") && !str_eq(k->reason, PQgetvalue(r, row, 1)))
			model_broken(m, "command %s had the end %s and has %s", k->id, k->reason, PQgetvalue(r, row, 1));
	}
	PQclear(r);
}

/* What vanished without a word, or whose destruction was not told of, is counted until that is found out. Else a count may lack what
 * ran while the executor was dead or its provider silent, which the machine's load stretches: the exact sums are the crash matrix's. */
static bool was_not_told(const struct truth_instance *t)
{
	return t->state == TRUTH_VANISHED || (t->state == TRUTH_GONE && t->destroys > 1);
}

static void finish_usage(struct model *m)
{
	PGresult *r = ask(m, NULL, "SELECT instance_id, sum(ms) FROM sb_usage_log GROUP BY instance_id", 0, NULL);
	int64_t now = clock_boot_us(), worst = 0, all = 0, all_counted = 0;

	for (int i = 0; i < PQntuples(r); i++) {
		const struct truth_instance *t = truth_instance(&m->truth, PQgetvalue(r, i, 0));
		int64_t counted = strtoll(PQgetvalue(r, i, 1), NULL, 10), ran = t ? truth_ran_ms(t, now) : 0, off = counted > ran ? counted - ran : ran - counted;
		if (t && was_not_told(t) && counted > ran)
			continue;
		all += ran;
		all_counted += counted;
		worst = off > worst ? off : worst;
		if (off > USAGE_ONE_MS)
			model_broken(m, "instance %s ran for %lld ms by the provider, %lld ms were counted", PQgetvalue(r, i, 0), (long long)ran, (long long)counted);
	}
	printf("# instances ran for %lld ms, %lld were counted; the worst count is %lld ms off\n", (long long)all, (long long)all_counted, (long long)worst);
	if (all_counted > all + all / 20 + USAGE_ALL_MS || all_counted < all - all / 20 - USAGE_ALL_MS)
		model_broken(m, "instances ran for %lld ms, %lld were counted", (long long)all, (long long)all_counted);
	PQclear(r);
}

void model_finish(struct model *m)
{
	model_watch(m);
	watch_totals(m);
	finish_living(m);
	finish_commands(m);
	finish_usage(m);
	finish_answers(m);
}

/* --- open, close --- */

void model_open(struct model *m, struct stand *s)
{
	*m = (struct model){ .stand = s, .event = "" };
	truth_open(&m->truth, s->script_dir);
	for (unsigned u = 0; u < MODEL_USERS; u++) {
		char name[8];
		snprintf(name, sizeof name, "w%u", u);
		stand_caller(s, name, &m->users[u].caller);
	}
	connect_db(m);
	model_sql(m, "%s", indexes_sql);
	connect_db(m);
}

void model_close(struct model *m)
{
	PQfinish(m->db);
	truth_close(&m->truth);
	free(m->runs);
	free(m->commands);
	free(m->used);
}
