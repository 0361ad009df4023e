/* instances_kit.h - for tests of the executor's books on instances: a provider that notes what it is asked and says what the test wants. It takes the
 * place of the registry of providers. */
#ifndef PADDOCK_TESTS_LIB_INSTANCES_KIT_H
#define PADDOCK_TESTS_LIB_INSTANCES_KIT_H

#include "unit.h"

#include "base/err.h"
#include "core/config.h"
#include "core/json.h"
#include "core/loop.h"
#include "executor/instances.h"

#define A "aaaaaaaa-2222-4333-8444-555555555555"
#define B "bbbbbbbb-2222-4333-8444-555555555555"
#define C "cccccccc-2222-4333-8444-555555555555"
#define D "dddddddd-2222-4333-8444-555555555555"

/* Each call is noted as a word; it fails with `fails` when that is set, and fails_call when that is not NULL. */
struct kit_fake {
	const struct provider_events *events;
	void *arg;
	char calls[1024];
	enum err_code fails;
	const char *fails_call, *detail;
	char workspace[64];          /* of the last that was to be made or taken up */
	int64_t ran_since, ran_ms;   /* how long it ran, by the provider's own account */
};

extern struct kit_fake kit_fake;
extern struct loop *loop;
extern struct config *config;
extern struct instances *is;
extern char told[1024];          /* what the books told */
extern int dir_fd;               /* the state directory */
extern unsigned caps;            /* of the provider; from the next start on */
extern bool disk_is_full;

int kit_set_up(void **state);
int kit_tear_down(void **state);
void kit_start(void);
void kit_restart(void);
void kit_run_for(int64_t ms);
void kit_say(const char *id, enum instance_event ev);   /* the provider speaks */
struct instances *kit_open(err_t **err);
bool kit_on_disk(const char *id, const char *file);
bool kit_disk_says(const char *id, const char *text);   /* its state */

struct instance *kit_ensure(const char *id, const char *workspace, const char *replaces);
struct instance *kit_find(const char *id);
struct instance *kit_ready(const char *id);             /* one of workspace "w" */
struct instance *kit_paused(const char *id);
void kit_refused(int rc, const err_t *err, enum err_code code, const char *detail);
int64_t kit_number(const char *id, const char *key);    /* of the Instance as JSON */
bool kit_text_is(const char *id, const char *key, const char *want);

/* What was called, and told, since the last time. */
#define CALLS(text) do { assert_string_equal(kit_fake.calls, text); kit_fake.calls[0] = '\0'; } while (0)
#define TOLD(text) do { assert_string_equal(told, text); told[0] = '\0'; } while (0)
#define STATE(id, s) assert_string_equal(instance_state_name(instance_state(kit_find(id))), s)
#define REFUSED(call, code, detail) do { cleanup_err err_t *err = NULL; int rc = (call); kit_refused(rc, err, code, detail); } while (0)
#define CASE(f) cmocka_unit_test_setup_teardown(f, kit_set_up, kit_tear_down)

#endif
