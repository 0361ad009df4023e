#include "domain/duties.h"

#include <poll.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "db/db_sweeps.h"
#include "domain/cleanup.h"
#include "domain/command_end.h"
#include "domain/orphans.h"
#include "domain/reports.h"
#include "domain/sandbox_duties.h"

#define CANCEL_PATIENCE_MS 30000
#define KEYS_AGE_MS 86400000
#define KEYS_PERIOD_MS 600000
#define KEYS_BATCH 10000
#define RETENTION_PERIOD_MS 60000
#define RETENTION_SLICE_MS 1000   /* the other duties wait meanwhile */
#define BACKOFF_MIN_MS 50
#define BACKOFF_MAX_MS 1000
/* A commit for each end would cost the workers more than the ends' own delay: what comes within this time shares one. */
#define PACE_MS 40

static int64_t often(const struct domain *d)
{
	return d->limits.interval_ms;
}

static int64_t seldom(const struct domain *d)
{
	int64_t ms = d->limits.orphan_grace_ms / 2;
	return ms < 5000 ? 5000 : ms > 30000 ? 30000 : ms;
}

static int64_t rarely(const struct domain *d)
{
	(void)d;
	return KEYS_PERIOD_MS;
}

/* The Runs that a sweep moved: their sandboxes are released at once, unless the executor is away: the duty is on record. */
static int clean_all(struct domain *d, const struct db_result *r, const char *event)
{
	bool away = false;
	for (int i = 0; i < db_rows(r); i++) {
		const char *run = db_str(r, i, 0);
		log_kv(LOG_INFO, event, "run", run, NULL);
		if (!away)
			away = cleanup_run(d, run, NULL) < 0;
	}
	return db_rows(r);
}

static int expire_leases(struct domain *d, err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	return db_expire_leases(d->db, d->limits.batch, &r, err) < 0 ? -1 : clean_all(d, r, "lease_expired");
}

static int expire_runs(struct domain *d, err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	return db_expire_deadlines(d->db, d->limits.batch, &r, err) < 0 ? -1 : clean_all(d, r, "run_timeout");
}

static int finish_cancels(struct domain *d, err_t **err)
{
	cleanup_db_result struct db_result *waiting = NULL, *r = NULL;
	if (db_cancels(d->db, d->limits.batch, &waiting, err) < 0)
		return -1;
	for (int i = 0; i < db_rows(waiting); i++)
		if (command_end_kill_open(d, db_str(waiting, i, 0), "cancelled", NULL) < 0)
			break;
	return db_settle_cancels(d->db, d->limits.batch, CANCEL_PATIENCE_MS, &r, err) < 0 ? -1 : clean_all(d, r, "run_cancelled");
}

static int forget_keys(struct domain *d, err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	return db_forget_keys(d->db, KEYS_AGE_MS, KEYS_BATCH, &r, err) < 0 ? -1 : (int)db_i64(r, 0, 0);
}

static int64_t at_leisure(const struct domain *d)
{
	(void)d;
	return RETENTION_PERIOD_MS;
}

/* Batch after batch, each in a transaction of its own, for a short time. */
static int retire(struct domain *d, int (*batch)(struct db *, int64_t, int64_t, int64_t *, err_t **), int64_t days, err_t **err)
{
	int64_t n = 0, all = 0, until = clock_boot_ms() + RETENTION_SLICE_MS;
	if (days == 0)
		return 0;
	do {
		if (batch(d->db, days, d->limits.batch, &n, err) < 0)
			return -1;
		all += n;
	} while (n >= d->limits.batch && clock_boot_ms() < until);
	return (int)all;
}

static int retire_outputs(struct domain *d, err_t **err)
{
	return retire(d, db_retire_outputs, d->limits.output_days, err);
}

static int retire_runs(struct domain *d, err_t **err)
{
	return retire(d, db_retire_runs, d->limits.run_days, err);
}

static int retire_audit(struct domain *d, err_t **err)
{
	return retire(d, db_retire_audit, d->limits.audit_days, err);
}

const struct duty duties[] = {
	{ "leases", "ends attempts whose lease expired", often, expire_leases },
	{ "ceilings", "ends Runs that reached their time limit", often, expire_runs },
	{ "cancels", "kills the commands of Runs to be cancelled", often, finish_cancels },
	{ "cleanups", "releases what ended Runs and attempts held", often, cleanup_sweep },
	{ "sandboxes", "makes operations on users' sandboxes go on", often, sandboxes_go_on },
	{ "retired", "destroys users' instances that were replaced or given up", often, sandboxes_retire },
	{ "keepalives", "keeps sandboxes with an active Run alive", often, sandboxes_keep },
	{ "idle", "pauses sandboxes that nobody uses", often, sandboxes_pause_idle },
	{ "instances", "compares the executor's instances with the ledger", seldom, orphans_instances },
	{ "commands", "settles open commands that the executor does not know", seldom, orphans_commands },
	{ "keys", "forgets old Idempotency-Keys", rarely, forget_keys },
	{ "outputs", "forgets the output of old commands", at_leisure, retire_outputs },
	{ "runs", "forgets old Runs and their commands", at_leisure, retire_runs },
	{ "audit", "forgets the old audit", at_leisure, retire_audit },
};
const size_t duties_count = sizeof duties / sizeof *duties;
_Static_assert(sizeof duties / sizeof *duties <= DUTIES_MAX, "duties_clock has room for DUTIES_MAX");

static void failed(struct duties_clock *clk, const char *what, err_t *e)
{
	/* One line at the beginning of a disturbance; each duty's own failures are logged where they matter. */
	if (!clk->failing_since) {
		clk->failing_since = clock_boot_ms();
		log_kv(LOG_WARN, "janitor_disturbed", "duty", what, "err", err_message(e), NULL);
	}
	err_free(e);
}

static bool run_due(struct domain *d, struct duties_clock *clk)
{
	bool well = true;
	for (size_t i = 0; i < duties_count; i++) {
		err_t *e = NULL;
		int64_t now = clock_boot_ms();
		if (clk->due[i] > now)
			continue;
		int n = duties[i].run(d, &e);
		clk->due[i] = clock_boot_ms() + duties[i].period_ms(d);
		if (n < 0) {
			clk->failed[i]++;
			failed(clk, duties[i].name, e);
			well = false;
		} else {
			clk->done[i] += (uint64_t)n;
		}
	}
	return well;
}

static int64_t until_next(const struct domain *d, const struct duties_clock *clk)
{
	int64_t now = clock_boot_ms(), best = d->limits.interval_ms;
	for (size_t i = 0; i < duties_count; i++)
		if (clk->due[i] - now < best)
			best = clk->due[i] - now;
	return best < 0 ? 0 : best;
}

static void rest(struct duties_clock *clk)
{
	clk->backoff_ms = clk->backoff_ms ? clk->backoff_ms * 2 : BACKOFF_MIN_MS;
	if (clk->backoff_ms > BACKOFF_MAX_MS)
		clk->backoff_ms = BACKOFF_MAX_MS;
	poll(NULL, 0, (int)clk->backoff_ms);
}

static void recovered(struct duties_clock *clk)
{
	char ms[24];
	clk->backoff_ms = 0;
	if (!clk->failing_since)
		return;
	snprintf(ms, sizeof ms, "%lld", (long long)(clock_boot_ms() - clk->failing_since));
	clk->failing_since = 0;
	log_kv(LOG_INFO, "janitor_recovered", "dur_ms", ms, NULL);
}

void duties_step(struct domain *d, struct duties_clock *clk)
{
	err_t *e = NULL;
	bool well = run_due(d, clk);
	int n = reports_take(d, until_next(d, clk), &e);
	if (n < 0)
		failed(clk, "reports", e);
	if (n < 0 || !well) {
		rest(clk);
		return;
	}
	recovered(clk);
	if (n > 0 && n < d->limits.batch)
		poll(NULL, 0, PACE_MS);
}
