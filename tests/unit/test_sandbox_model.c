/* Random walks over users' sandboxes: Runs, commands, pauses, rebuilds and releases of several users, by several workers and janitors, with the real
 * executor over a provider that is late, loses answers, refuses, forgets and changes its mind (tests/lib/scripted_provider.h). The executor is killed, also at
 * its fault points, the database crashes, and processes of the service die at theirs (--enable-fault).
 *
 * After every event the rules of tests/lib/sandbox_model.c hold; at the end all comes to rest. Each event throws its dice by seed and number alone:
 * PADDOCK_MODEL_SEED and PADDOCK_MODEL_STEPS choose another walk, or the same again.
 *
 * PADDOCK_MODEL_MUTATION names a rule to be broken first: the walk must find that out (tests/unit/test_sandbox_model_control). */
#include "unit.h"

#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/num.h"
#include "base/str.h"
#include "domain/audit.h"
#include "domain/commands.h"
#include "domain/duties.h"
#include "domain/execute.h"
#include "domain/orphans.h"
#include "domain/reports.h"
#include "domain/sandbox.h"
#include "domain/sandbox_duties.h"
#include "domain/steer.h"
#include "lib/sandbox_model.h"

#define DOMAINS 4
#define THREADS 5
#define SLOW_MS 1000
#define REST_MS 120000

static struct stand st;
static struct model m;
static struct domain *domains[DOMAINS];
static int64_t steps = 2000;
static uint64_t seed = 1, rng;
static int64_t serial;

static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

static uint32_t dice(uint32_t n)
{
	rng = mix(rng);
	return (uint32_t)(rng >> 32) % n;
}

static const struct caller *caller(unsigned u)
{
	return &m.users[u].caller;
}

/* A failure is fine when it is one that the rules allow; a fault of ours is not. */
static void forgive(err_t *e)
{
	if (e && (err_code(e) == ERR_INTERNAL || err_code(e) == ERR_INVALID))
		model_broken(&m, "%s: %s", err_detail(e), err_message(e));
	err_free(e);
}

/* Of a Run that is refused as over we ask for the end: events shall not choose it again and again. */
static void look(struct domain *d, unsigned u, const char *id, const err_t *why)
{
	json_t *run = NULL;

	if (why && str_eq(err_detail(why), "run_ended") && runs_get(d, caller(u), id, &run, NULL) == 0)
		(void)model_run_told(&m, u, run, NULL, -1);
	json_object_put(run);
}

static struct model_run *any_run(unsigned u)
{
	static struct model_run none = { .id = "01900000-0000-7000-8000-000000000000" };
	const struct model_user *w = &m.users[u];

	if (w->n_live && dice(8))
		return &m.runs[w->live[dice((uint32_t)w->n_live)]];
	return m.n_runs && dice(4) ? &m.runs[w->over] : &none;
}

static const char *any_command(unsigned u)
{
	const struct model_user *w = &m.users[u];

	return w->n_recent ? m.commands[w->recent[dice((uint32_t)w->n_recent)]].id : "01900000-0000-7000-8000-000000000000";
}

static const char *lease_of(const struct model_run *r)
{
	return r->token[0] && dice(12) ? r->token : NULL;
}

static json_t *input_of(const char *thread, int64_t n)
{
	json_t *o = json_object_new_object();

	assert_int_equal(json_add_str(o, "thread", thread) | json_add_i64(o, "n", n), 0);
	return o;
}

static int64_t lease_ms(void)
{
	return dice(3) ? 60000 : 100;
}

/* --- events: Runs --- */

static void op_create(struct domain *d, unsigned u)
{
	char thread[16], token[LEASE_TOKEN_SIZE] = "";
	json_t *run = NULL;
	err_t *e = NULL;
	struct run_claim cl = { .worker_id = "w", .lease_ms = lease_ms() };

	snprintf(thread, sizeof thread, "t%u", dice(THREADS));
	json_t *input = input_of(thread, ++serial);
	struct run_new n = { .thread_id = thread, .input = input, .claim = dice(2) ? &cl : NULL, .has_timeout = dice(10) == 0, .timeout_ms = 400 };
	if (runs_create(d, caller(u), &n, &run, token, &e) == 0) {
		(void)model_run_told(&m, u, run, token, serial);
		if (token[0])
			model_claim_told(&m, u, run, token);
	}
	json_object_put(run);
	json_object_put(input);
	forgive(e);
}

static void op_claim(struct domain *d, unsigned u)
{
	char token[LEASE_TOKEN_SIZE];
	json_t *run = NULL;
	err_t *e = NULL;

	if (runs_claim(d, caller(u), &(struct run_claim){ .worker_id = "w", .lease_ms = lease_ms() }, NULL, &run, token, &e) == 1)
		model_claim_told(&m, u, run, token);
	json_object_put(run);
	forgive(e);
}

static void op_heartbeat(struct domain *d, unsigned u)
{
	struct model_run *r = any_run(u);
	json_t *o = NULL;
	err_t *e = NULL;

	(void)runs_heartbeat(d, caller(u), r->id, r->token, dice(4) ? 60000 : 100, &o, &e);
	look(d, u, r->id, e);
	json_object_put(o);
	forgive(e);
}

static void op_finish(struct domain *d, unsigned u)
{
	struct model_run *r = any_run(u);
	json_t *run = NULL;
	err_t *e = NULL;
	const char *to = dice(2) ? "completed" : "failed";

	if (runs_finish(d, caller(u), r->id, &(struct run_finish){ .lease_token = lease_of(r), .status = to }, &run, &e) == 0 &&
			!str_eq(model_run_told(&m, u, run, NULL, -1)->status, to))
		model_broken(&m, "Run %s is not %s", r->id, to);
	json_object_put(run);
	forgive(e);
}

static void op_cancel(struct domain *d, unsigned u)
{
	json_t *run = NULL;
	err_t *e = NULL;

	if (runs_cancel(d, caller(u), any_run(u)->id, &run, &e) == 0)
		(void)model_run_told(&m, u, run, NULL, -1);
	json_object_put(run);
	forgive(e);
}

/* The Run yields; its successor is delivered with the new input, once an attempt, behind the fence. */
static void op_steer(struct domain *d, unsigned u)
{
	const struct model_run *r = any_run(u);
	json_t *input = input_of("", ++serial), *o = NULL;
	const json_t *run = NULL, *successor = NULL;
	err_t *e = NULL;

	if (steer_run(d, caller(u), r->id, &(struct steer){ .input = input }, &o, &e) == 0) {
		assert_int_equal(json_get_obj(o, "run", true, &run, NULL) | json_get_obj(o, "successor", true, &successor, NULL), 0);
		model_steer_told(&m, u, run, successor, serial);
	}
	json_object_put(o);
	json_object_put(input);
	forgive(e);
}

/* The oldest that we have not heard the end of: nothing waits for us for ever. */
static void op_get(struct domain *d, unsigned u)
{
	const struct model_user *w = &m.users[u];
	const struct model_run *r = w->n_live && dice(3) ? &m.runs[w->live[0]] : any_run(u);
	json_t *run = NULL;
	err_t *e = NULL;

	if (runs_get(d, caller(u), r->id, &run, &e) == 0)
		(void)model_run_told(&m, u, run, NULL, -1);
	json_object_put(run);
	forgive(e);
}

/* --- events: commands --- */

static const char *const texts[] = { "true", "true", "true", "exit 3", "echo hi", "sleep 0.003", "sleep 0.02", "sleep 0.1", "sleep 20", "bg 20; true",
	"bg 0.05; sleep 0.01", "trap '' TERM; sleep 10", "kill -KILL $$", "share A=1; printenv A", "sleep 0.01; exit 4" };

static void started(unsigned u, const struct command_started *s)
{
	model_command_told(&m, u, s->id, s->command);
	json_object_put(s->command);
}

/* It waits until the command runs: the provider had better behave. */
static bool with_sandbox(unsigned u)
{
	const char *state = m.users[u].state;
	char text[64];

	/* What is on its way somewhere may be so for long: nothing is told of it. */
	if (dice(5) || str_eq(state, "creating") || str_eq(state, "rebuilding") || str_eq(state, "waking") || str_eq(state, "pausing"))
		return false;
	snprintf(text, sizeof text, "# %ld\nnow contact of w%u\n", m.step, u);
	stand_script(&st, text);
	return true;
}

static void op_start(struct domain *d, unsigned u)
{
	struct command_started s = { 0 };
	err_t *e = NULL;
	char key[16];

	if (!m.users[u].n_live)
		op_create(d, u);
	const struct model_run *r = any_run(u);

	snprintf(key, sizeof key, "k%u", dice(60));
	struct command_new n = { .command = texts[dice(UNIT_LEN(texts))], .lease_token = lease_of(r), .view = dice(3) ? COMMAND_VIEW_RESULT : COMMAND_VIEW_NONE,
		.background = true, .has_timeout = dice(6) == 0, .timeout_ms = 30, .with_sandbox = with_sandbox(u),
		.idempotency = { .key = dice(6) ? NULL : key, .body = r->id, .body_len = strlen(r->id) } };
	n.background = n.view == COMMAND_VIEW_NONE;
	if (commands_start(d, caller(u), r->id, &n, &s, &e) == 0)
		started(u, &s);
	look(d, u, r->id, e);
	forgive(e);
}

static void op_execute(struct domain *d, unsigned u)
{
	struct command_started s = { 0 };
	err_t *e = NULL;
	bool file = dice(4) == 0;
	json_t *argv = file ? json_parse("[\"ls\", \"-1\", \".\"]", strlen("[\"ls\", \"-1\", \".\"]"), 64, 4, NULL) : NULL;
	struct command_new n = { .command = file ? NULL : texts[dice(UNIT_LEN(texts))], .argv = argv, .view = COMMAND_VIEW_SSE, .with_sandbox = with_sandbox(u),
		.kind = file ? COMMAND_KIND_FILE : COMMAND_KIND_COMMAND };

	if (execute_start(d, caller(u), &n, &s, &e) == 0) {
		model_execute_told(&m, u, s.run_id, dice(3) == 0);
		started(u, &s);
	}
	json_object_put(argv);
	forgive(e);
}

static void op_command(struct domain *d, unsigned u)
{
	const char *id = any_command(u);
	json_t *o = NULL;
	err_t *e = NULL;

	if (commands_get(d, caller(u), id, &o, &e) == 0)
		model_command_told(&m, u, id, o);
	json_object_put(o);
	forgive(e);
}

static void op_kill(struct domain *d, unsigned u)
{
	err_t *e = NULL;

	if (dice(2))
		(void)commands_kill(d, caller(u), any_command(u), &e);
	else
		(void)commands_signal(d, caller(u), any_command(u), "TERM", &e);
	forgive(e);
}

/* --- events: the sandbox --- */

/* A wish that nothing may stand against when it is granted. What stood against it before may have been brought to its end by the call itself; and the call
 * may have learnt that there is nothing to do: it fell asleep by itself, or is no more. */
static void move(int (*call)(struct domain *, const struct caller *, json_t **, json_t **, err_t **), struct domain *d, unsigned u, bool replaces, const char *what)
{
	long blockers = model_blockers(&m, u, replaces, false), decided = model_decisions(&m, u);
	json_t *o = NULL, *list = NULL;
	err_t *e = NULL;

	if (call(d, caller(u), &o, &list, &e) == 0 && blockers > 0 && model_decisions(&m, u) > decided && (blockers = model_blockers(&m, u, replaces, true)) > 0)
		model_broken(&m, "a %s although %ld things stand against it", what, blockers);
	json_object_put(o);
	json_object_put(list);
	forgive(e);
}

static void op_rebuild(struct domain *d, unsigned u)
{
	move(sandbox_rebuild, d, u, true, "rebuild");
}

static void op_pause(struct domain *d, unsigned u)
{
	move(sandbox_pause, d, u, false, "pause");
}

static void op_release(struct domain *d, unsigned u)
{
	move(sandbox_release, d, u, true, "release");
}

static void op_keep(struct domain *d, unsigned u)
{
	json_t *o = NULL;
	err_t *e = NULL;

	(void)sandbox_keep_alive(d, caller(u), dice(2) ? 1 : 60000, &o, &e);
	json_object_put(o);
	forgive(e);
}

static void op_reports(struct domain *d, unsigned u)
{
	err_t *e = NULL;

	(void)u;
	(void)reports_take(d, 0, &e);
	forgive(e);
}

/* Everybody lets go of it, for once: what stands against a pause, a rebuild or a release is over. */
static void op_leave(struct domain *d, unsigned u)
{
	static void (*const then[])(struct domain *, unsigned) = { op_rebuild, op_release, op_pause, op_pause };
	json_t *runs = NULL;
	const json_t *items = NULL;

	if (runs_list(d, caller(u), &(struct run_list){ .limit = 50 }, &runs, NULL) == 0 && json_get_arr(runs, "items", true, &items, NULL) == 0)
		for (size_t i = 0; i < json_object_array_length(items); i++) {
			const json_t *r = json_object_array_get_idx(items, i);
			const char *id = NULL;
			json_t *run = NULL;
			(void)model_run_told(&m, u, r, NULL, -1);
			if (json_get_str(r, "id", true, &id, NULL) == 0 && !json_has(r, "ended_at") && runs_cancel(d, caller(u), id, &run, NULL) == 0)
				(void)model_run_told(&m, u, run, NULL, -1);
			json_object_put(run);
		}
	json_object_put(runs);
	op_reports(d, u);
	then[dice(UNIT_LEN(then))](d, u);
}

static void op_quarantine(struct domain *d, unsigned u)
{
	struct caller by;
	err_t *e = NULL;

	audit_operator(&by, "test");
	(void)sandbox_quarantine(d, m.users[u].caller.user, &by, &e);
	forgive(e);
}

/* --- events: the janitor --- */

static void op_duty(struct domain *d, unsigned u)
{
	static char name[32];
	const struct duty *y = &duties[dice((uint32_t)duties_count)];
	err_t *e = NULL;

	(void)u;
	snprintf(name, sizeof name, "duty %s", y->name);
	m.event = name;
	(void)y->run(d, &e);
	forgive(e);
}

/* Time passes. Of one Run, of one sandbox, or what is due of all. */
static void op_time(struct domain *d, unsigned u)
{
	const char *user = m.users[u].caller.user_id, *run = any_run(u)->id;

	(void)d;
	switch (dice(8)) {
	case 0:
		model_sql(&m, "UPDATE runs SET lease_expires_at = now() WHERE id = '%s' AND lease_owner IS NOT NULL", run);
		break;
	case 1:
		model_sql(&m, "UPDATE runs SET deadline_at = now() WHERE id = '%s' AND ended_at IS NULL AND deadline_at IS NOT NULL", run);
		break;
	case 2:
		model_sql(&m, "UPDATE user_sandboxes SET op_at = op_at - interval '10 min', last_activity_at = last_activity_at - interval '10 min', kept_at = kept_at - "
			"interval '10 min', keep_until = keep_until - interval '10 min' WHERE user_id = '%s'", user);
		break;
	case 3:
	case 4:
		model_sql(&m, "UPDATE user_sandboxes SET op_at = op_at - interval '%u s', kept_at = kept_at - interval '40 s' WHERE op_id IS NOT NULL OR user_id = '%s'",
			dice(2) ? 3 : 30, user);
		break;
	case 5:
		model_sql(&m, "UPDATE sandbox_commands SET created_at = created_at - interval '1 min' WHERE ended_at IS NULL AND user_id = '%s'", user);
		break;
	default:
		model_sql(&m, "UPDATE runs SET cleanup_next_at = now() WHERE cleanup_pending");
		model_sql(&m, "UPDATE instances SET destroy_next_at = now() WHERE retired_at IS NOT NULL");
	}
}

static const struct op {
	const char *name;
	void (*fn)(struct domain *d, unsigned u);
	unsigned weight;
} ops[] = {
	{ "create", op_create, 12 }, { "claim", op_claim, 8 }, { "heartbeat", op_heartbeat, 3 }, { "start", op_start, 24 }, { "execute", op_execute, 8 },
	{ "finish", op_finish, 8 }, { "cancel", op_cancel, 4 }, { "steer", op_steer, 4 }, { "get", op_get, 8 }, { "command", op_command, 4 }, { "kill", op_kill, 3 }, { "rebuild", op_rebuild, 3 },
	{ "pause", op_pause, 4 }, { "release", op_release, 3 }, { "leave", op_leave, 5 }, { "keep_alive", op_keep, 2 }, { "quarantine", op_quarantine, 1 }, { "reports", op_reports, 14 },
	{ "duty", op_duty, 16 }, { "time", op_time, 10 },
};

static const struct op *any_op(void)
{
	unsigned all = 0, roll;

	for (size_t i = 0; i < UNIT_LEN(ops); i++)
		all += ops[i].weight;
	roll = dice(all);
	for (size_t i = 0;; i++) {
		if (roll < ops[i].weight)
			return &ops[i];
		roll -= ops[i].weight;
	}
}

static void act(struct domain *d)
{
	const struct op *o = any_op();

	m.event = o->name;
	o->fn(d, dice(MODEL_USERS));
}

/* --- what befalls the others --- */

static const char *const misdeeds[] = {
	"create late 3 times 3", "create slow 5 times 3", "create lost 4 times 1", "create refuse unavailable times 1", "create reject unavailable times 1",
	"create fail times 1", "create twice times 2", "create vanish times 1", "create refuse limit times 1", "create silent times 1",
	"wake late 3 times 3", "wake slow 5 times 3", "wake lost 4 times 1", "wake refuse unavailable times 2", "wake reject busy times 1", "wake fail times 1",
	"wake twice times 2", "wake vanish times 1",
	"pause late 3 times 3", "pause slow 5 times 3", "pause lost 4 times 1", "pause refuse busy times 2", "pause reject unavailable times 1", "pause stuck 15 times 1",
	"pause twice times 2", "pause vanish times 1",
	"keep lost 4 times 1", "keep refuse unavailable times 2", "keep vanish times 1", "keep pause times 1", "keep late 2 times 2",
	"destroy late 3 times 3", "destroy lost 4 times 2", "destroy refuse unavailable times 2", "destroy reject unavailable times 1", "destroy twice times 2",
	"destroy silent times 1",
	"lookup late 2 times 2", "lookup refuse unavailable times 2", "lookup says at_it times 2", "lookup vanish times 1", "lookup silent times 2", "lookup twice times 2",
	"exec late 2 times 4", "exec lost 4 times 1", "exec twice times 4", "exec refuse unavailable times 2", "exec vanish times 1", "exec pause times 1",
	"exec reject unavailable times 1", "exec silent times 1",
	"exec_kill late 2 times 3", "exec_kill lost 4 times 1", "exec_kill twice times 2", "exec_kill silent times 1", "exec_kill refuse unavailable times 1",
	"scope_end late 3 times 3", "scope_end lost 4 times 2", "scope_end refuse unavailable times 3", "scope_end silent times 1", "scope_end twice times 2",
	"scope_end vanish times 1", "scope_end pause times 1",
	"exec_ack lost 4 times 2", "exec_ack vanish times 1", "adopt late 3 times 4", "adopt lost 4 times 2",
};
static const char *const blows[] = { "vanish", "pause", "lose_contact", "contact", "contact", "settle" };

static void op_provider(void)
{
	char text[256];
	int n = snprintf(text, sizeof text, "# %ld\n", m.step);

	m.event = "provider";
	for (uint32_t i = dice(4); i > 0; i--)
		n += snprintf(text + n, sizeof text - (size_t)n, "%s\n", misdeeds[dice(UNIT_LEN(misdeeds))]);
	if (dice(3) == 0)
		snprintf(text + n, sizeof text - (size_t)n, "now %s of w%u\n", blows[dice(UNIT_LEN(blows))], dice(MODEL_USERS));
	stand_script(&st, text);
}

/* Points at which each kind of process can die. */
#ifdef PADDOCK_FAULTS
static const struct {
	const char *name, *who;
} points[] = {
#define FAULT_PLACE(step, place, who) { #step "_" #place, #who },
#include "base/fault_steps.def"
#undef FAULT_PLACE
};

static const char *any_point(const char *a, const char *b)
{
	for (;;) {
		const char *who = points[dice(UNIT_LEN(points))].who, *name = NULL;
		for (size_t i = 0; i < UNIT_LEN(points); i++)
			if (points[i].who == who)
				name = points[i].name;
		if (name && (strstr(who, a) || strstr(who, b)) && !strstr(who, "ENGINE"))
			return name;
	}
}

/* A process of its own does a few things and dies at a chosen point, if it comes there. */
static void op_mortal(void)
{
	char spec[96];
	int status;
	pid_t pid;

	m.event = "mortal";
	snprintf(spec, sizeof spec, "%s=kill", any_point("WORKER", "JANITOR"));
	uint32_t n = 1 + dice(4);
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		m.child = true;
		log_set_fd(-1);
		setenv("PADDOCK_FAULT", spec, 1);
		struct domain *d = stand_domain(&st);
		for (; n > 0; n--)
			act(d);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (!WIFSIGNALED(status) && WEXITSTATUS(status) != 0)
		model_broken(&m, "the process ended with status %x", (unsigned)status);
}

static void arm_executor(void)
{
	char spec[96];

	if (dice(2)) {
		unsetenv("PADDOCK_FAULT");
		return;
	}
	snprintf(spec, sizeof spec, "%s=kill", any_point("EXECUTOR", "EXECUTOR"));
	setenv("PADDOCK_FAULT", spec, 1);
}
#else
static void op_mortal(void)
{
	op_time(NULL, 0);
}

static void arm_executor(void)
{
}
#endif

static void start_executor(void)
{
	stand_executor_start(&st);
	unsetenv("PADDOCK_FAULT");
}

static void op_executor(void)
{
	stand_executor_kill(&st);
	if (dice(2))
		act(domains[0]);
	m.event = "executor";
	arm_executor();
	start_executor();
}

static void op_database(void)
{
	m.event = "database";
	stand_pg(&st, "restart");
}

/* One in so many steps. */
#define MORTAL 150
#define EXECUTOR 1000
#define DATABASE 5000

static void event(void)
{
	uint32_t roll = dice(30000);

	if (stand_executor_died(&st))
		start_executor();
	if (roll < 30000 / DATABASE)
		op_database();
	else if (roll < 30000 / DATABASE + 30000 / EXECUTOR)
		op_executor();
	else if (roll < 30000 / DATABASE + 30000 / EXECUTOR + 30000 / MORTAL)
		op_mortal();
	else if (roll < 4000)
		op_provider();
	else
		act(domains[dice(DOMAINS)]);
}

/* All is well again, and the janitor comes to rest. */
static void calm(void)
{
	struct duties_clock clk = { 0 };
	int64_t until = clock_boot_ms() + REST_MS;
	err_t *e = NULL;

	m.event = "calm";
	stand_executor_kill(&st);
	stand_script(&st, NULL);
	start_executor();
	for (unsigned u = 0; u < MODEL_USERS; u++) {
		char text[64];
		snprintf(text, sizeof text, "now settle of w%u\n", u);
		stand_script(&st, text);
		clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){ .tv_nsec = 20000000 }, NULL);
	}
	model_sql(&m, "UPDATE runs SET deadline_at = now(), started_at = coalesce(started_at, now()) WHERE ended_at IS NULL");
	do {
		model_sql(&m, "UPDATE user_sandboxes SET op_at = op_at - interval '3 s' WHERE op_id IS NOT NULL");
		model_sql(&m, "UPDATE instances SET destroy_next_at = now() WHERE retired_at IS NOT NULL");
		duties_step(domains[0], &clk);
		if (clock_boot_ms() > until)
			model_broken(&m, "it does not come to rest");
	} while (!model_at_rest(&m));
	/* Asleep, they have told all of their time. */
	model_sql(&m, "UPDATE user_sandboxes SET op_at = op_at - interval '10 min', last_activity_at = last_activity_at - interval '10 min', "
		"keep_until = keep_until - interval '7 days'");
	(void)sandboxes_pause_idle(domains[0], &e);
	forgive(e);
	for (int i = 0; i < 50 && (reports_take(domains[0], 100, NULL) > 0 || !model_at_rest(&m)); i++)
		;
}

static int64_t slowest;

static void test_walk(void **state)
{
	int64_t begun = clock_boot_ms();

	(void)state;
	for (m.step = 1; m.step <= steps; m.step++) {
		int64_t from = clock_boot_ms(), took;
		rng = mix(seed ^ mix((uint64_t)m.step));
		event();
		took = clock_boot_ms() - from;
		if (took >= SLOW_MS)
			printf("# step %ld, %s, took %lld ms\n", m.step, m.event, (long long)took);
		slowest = took > slowest ? took : slowest;
		model_watch(&m);
	}
	printf("# %lld events in %lld ms, the slowest %lld ms\n", (long long)steps, (long long)(clock_boot_ms() - begun), (long long)slowest);
	calm();
	model_finish(&m);
	printf("# Runs %ld, commands %ld, of which %zu started, instances %zu\n", stand_count(&st, "SELECT count(*) FROM runs"),
		stand_count(&st, "SELECT count(*) FROM sandbox_commands"), m.truth.n_commands, m.truth.n_instances);
}

static const struct mutation {
	const char *name, *function, *from, *to;
} mutations[] = {
	{ "retire_forgotten", "instance_retire(uuid)", "WHERE id = p_instance AND retired_at IS NULL", "WHERE false" },
	{ "generation_not_counted", "sandbox_replace(user_sandboxes,text,text,uuid,text,text,uuid,origin)", "generation = x.generation + 1", "generation = x.generation" },
	{ "fence_ignored", "run_claim(text,text,bigint,text,bytea,origin)", "AND f.thread_id = c.thread_id AND f.cleanup_pending", "AND false" },
	{ "usage_counted_twice", "usage_count(instances,bigint,boolean)", "SET ms = ms + v_part", "SET ms = ms + 2 * v_part" },
	{ "pause_looks_at_no_command", "sandbox_blockers(uuid,user_sandboxes)", "FROM sandbox_commands WHERE user_id = p_user AND", "FROM sandbox_commands WHERE false AND" },
	{ "end_without_clean_up", "run_end(uuid,text,text,text)", "cleanup_pending = true, cleanup_next_at = v_now,", "" },
	{ "gone_without_a_word", "instance_destroy_later(uuid,text,boolean,bigint,bigint)", "BEGIN", "BEGIN DELETE FROM instances WHERE id = p_instance AND retired_at IS NOT NULL;" },
};

/* Replaces a piece of a rule's text in the database, as if somebody had written it so. */
static void mutate(const char *name)
{
	char sql[1024];

	for (size_t i = 0; i < UNIT_LEN(mutations); i++) {
		const struct mutation *k = &mutations[i];
		if (!str_eq(k->name, name))
			continue;
		assert_int_equal(str_fmt(sql, sizeof sql, "SELECT count(*) FROM pg_get_functiondef('%s'::regprocedure) f WHERE strpos(f, '%s') > 0", k->function, k->from), 0);
		assert_int_equal(stand_count(&st, sql), 1);
		model_sql(&m, "DO $m$ BEGIN EXECUTE replace(pg_get_functiondef('%s'::regprocedure), '%s', '%s'); END $m$", k->function, k->from, k->to);
		return;
	}
	fail_msg("there is no mutation %s", name);
}

static int up(void **state)
{
	const char *name = getenv("PADDOCK_MODEL_MUTATION");

	(void)state;
	setvbuf(stdout, NULL, _IOLBF, 0);
	log_init("model", LOG_ERROR);
	stand_up_scripted(&st);
	for (size_t i = 0; i < DOMAINS; i++)
		domains[i] = stand_domain(&st);
	model_open(&m, &st);
	if (name)
		mutate(name);
	return 0;
}

static int down(void **state)
{
	(void)state;
	for (size_t i = 0; i < DOMAINS; i++)
		domain_close(domains[i]);
	model_close(&m);
	stand_down(&st);
	return 0;
}

int main(void)
{
	const char *s = getenv("PADDOCK_MODEL_SEED"), *n = getenv("PADDOCK_MODEL_STEPS");
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_walk) };

	if (s && num_u64(s, UINT64_MAX, &seed) < 0)
		return 2;
	if (n && num_i64(n, 1, 10000000, &steps) < 0)
		return 2;
	fprintf(stderr, "# PADDOCK_MODEL_SEED=%llu PADDOCK_MODEL_STEPS=%lld\n", (unsigned long long)seed, (long long)steps);
	return cmocka_run_group_tests_name("sandbox_model", tests, up, down);
}
