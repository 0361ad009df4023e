/* domain_kit.h - what the tests of the rules share: a stand for the program's life, short ways to say what is expected. Included once a program. */
#ifndef PADDOCK_TESTS_DOMAIN_KIT_H
#define PADDOCK_TESTS_DOMAIN_KIT_H

#include "unit.h"

#include <time.h>

#include "base/clock.h"
#include "base/str.h"
#include "domain/auth.h"
#include "domain/cleanup.h"
#include "domain/commands.h"
#include "domain/duties.h"
#include "domain/execute.h"
#include "domain/health.h"
#include "domain/orphans.h"
#include "domain/reports.h"
#include "domain/runs.h"
#include "domain/tokens.h"
#include "domain/users.h"
#include "lib/stand.h"

static struct stand st;
#define D st.domain
#define C (&st.caller)

static inline int up(void **state)
{
	(void)state;
	stand_up(&st);
	return 0;
}

static inline int down(void **state)
{
	(void)state;
	stand_down(&st);
	return 0;
}

#define assert_fails(call, word) do { \
	err_t *e_ = NULL, **err = &e_; \
	assert_true((call) < 0); \
	assert_string_equal(err_detail(e_), word); \
	err_free(e_); \
} while (0)

#define assert_ok(call) do { \
	err_t *e_ = NULL, **err = &e_; \
	int rc_ = (call); \
	if (rc_ < 0) \
		fail_msg("%s", err_message(e_)); \
} while (0)

static inline const char *str_of(const json_t *o, const char *key)
{
	const char *s = NULL;
	assert_int_equal(json_get_str(o, key, false, &s, NULL), 0);
	return s;
}

struct made {
	char id[ID_SIZE];
	char token[LEASE_TOKEN_SIZE];
};

static inline struct made make_run(const char *thread, bool claim, int64_t lease_ms)
{
	struct made m;
	json_t *run = NULL;
	struct run_claim cl = { .worker_id = "w1", .lease_ms = lease_ms };
	assert_ok(runs_create(D, C, &(struct run_new){ .thread_id = thread, .claim = claim ? &cl : NULL }, &run, m.token, err));
	str_copy(m.id, sizeof m.id, str_of(run, "id"));
	json_object_put(run);
	return m;
}

static inline struct command_started start(const struct made *m, const char *token)
{
	struct command_started s;
	struct command_new n = { .command = "true", .lease_token = token, .view = COMMAND_VIEW_RESULT };
	assert_ok(commands_start(D, C, m->id, &n, &s, err));
	return s;
}

static inline void run_status(const char *id, char dst[32], bool *cleanup)
{
	json_t *run = NULL;
	assert_ok(runs_get(D, C, id, &run, err));
	str_copy(dst, 32, str_of(run, "status"));
	if (cleanup)
		assert_int_equal(json_get_bool(run, "runtime_cleanup_pending", true, cleanup, NULL), 0);
	json_object_put(run);
}

static inline void assert_status(const char *id, const char *want)
{
	char s[32];
	run_status(id, s, NULL);
	assert_string_equal(s, want);
}

/* The janitor until nothing is left to do, at most about 5 s. */
static inline void settle(void)
{
	struct duties_clock clk = { 0 };
	for (int i = 0; i < 100; i++) {
		duties_step(D, &clk);
		if (i > 1 && stand_count(&st, "SELECT count(*) FROM runs WHERE cleanup_pending OR status = 'cancel_requested'") == 0)
			return;
	}
	fail_msg("clean-up does not come to an end");
}

#endif
