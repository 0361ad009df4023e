/* How long an instance ran, against the provider's own account, across restarts, old books and another boot. */
#include "instances_kit.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/log.h"
#include "base/str.h"

/* --- counting --- */

static void only_what_runs_is_counted(void **state)
{
	struct instance *i = kit_ready(A);
	int64_t last = 0;

	(void)state;
	for (int n = 0; n < 5; n++) {
		kit_run_for(20);
		assert_true(kit_number(A, "running_ms") >= last);
		last = kit_number(A, "running_ms");
		instances_pause(is, i, NULL);
		kit_run_for(10);
		kit_say(A, INSTANCE_PAUSED);
		last = kit_number(A, "running_ms");
		kit_run_for(20);
		assert_int_equal(kit_number(A, "running_ms"), last);
		instances_wake(is, i, NULL);
		kit_run_for(10);
		assert_int_equal(kit_number(A, "running_ms"), last);
		kit_say(A, INSTANCE_READY);
	}
	kit_say(A, INSTANCE_EXITED);
	last = kit_number(A, "running_ms");
	assert_in_range(last, kit_fake.ran_ms - 20, kit_fake.ran_ms + 20);
	kit_run_for(20);
	kit_restart();
	assert_int_equal(kit_number(A, "running_ms"), last);
}

static void counting_survives_us(void **state)
{
	int64_t before, after;

	(void)state;
	kit_ready(A);
	kit_run_for(30);
	before = kit_number(A, "running_ms");
	kit_restart();                     /* what was told does not fall */
	assert_true(kit_number(A, "running_ms") >= before);
	kit_run_for(50);
	assert_true(kit_number(A, "running_ms") < before + 40);
	kit_restart();                     /* nor is it counted twice */
	assert_true(kit_number(A, "running_ms") < before + 40);
	kit_say(A, INSTANCE_READY);        /* it ran on all the while */
	after = kit_number(A, "running_ms");
	assert_true(after >= before + 50);
	kit_say(A, INSTANCE_PAUSED);
	assert_in_range(kit_number(A, "running_ms"), kit_fake.ran_ms - 20, kit_fake.ran_ms + 20);
}

static void what_died_with_us_is_counted_till_then(void **state)
{
	int64_t before;

	(void)state;
	kit_ready(A);
	kit_run_for(30);
	before = kit_number(A, "running_ms");
	instances_close(is);
	usleep(200000);
	kit_start();
	kit_say(A, INSTANCE_EXITED);
	assert_true(kit_number(A, "running_ms") >= before && kit_number(A, "running_ms") < before + 150);
}

static void destroyed_is_counted_till_it_is_gone(void **state)
{
	struct instance *i;
	int64_t at;

	(void)state;
	kit_ready(A);
	instances_destroy(is, A, &i, NULL);
	at = kit_number(A, "running_ms");
	kit_run_for(30);
	assert_true(kit_number(A, "running_ms") >= at + 30);
	kit_say(A, INSTANCE_EXITED);       /* its processes have ended */
	at = kit_number(A, "running_ms");
	kit_run_for(30);
	kit_say(A, INSTANCE_GONE);
	assert_int_equal(kit_number(A, "running_ms"), at);
}

static void put_state(const char *id, const char *text)
{
	char path[128];

	str_fmt(path, sizeof(path), "instances/%s", id);
	cleanup_close int fd = openat(dir_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(io_write_file(fd, "state", text, strlen(text), 0600, 0, NULL), 0);
}

#define OLD "\"was_ready\":true,\"enforced\":true,\"created_ms\":1700000000000,\"ready_ms\":1700000000500,\"gone_ms\":0,\"version\":3,\"acked\":2," \
	"\"error_code\":\"\",\"error_message\":\"\""

/* As the version before wrote it. */
static void old_books_are_read(void **state)
{
	(void)state;
	kit_ready(A);
	instances_close(is);
	put_state(A, "{\"state\":\"ready\"," OLD "}");
	kit_start();
	STATE(A, "ready");
	assert_int_equal(kit_number(A, "running_ms"), 0);
	assert_int_equal(kit_number(A, "destroy_failures"), 0);
	assert_true(kit_text_is(A, "waits_for", NULL));
	kit_say(A, INSTANCE_READY);
	kit_run_for(20);
	assert_in_range(kit_number(A, "running_ms"), 20, 500);
}

/* The machine was started anew: times of its last boot mean nothing by themselves. */
static void another_boot(void **state)
{
	char text[1024];
	int64_t wall = clock_wall_ms();

	(void)state;
	kit_ready(A);
	instances_close(is);
	str_fmt(text, sizeof(text), "{\"state\":\"paused\"," OLD ",\"boot\":\"11111111-2222-4333-8444-555555555555\",\"boot_ms\":999999000000,\"wall_ms\":%lld,"
		"\"since_ms\":999998990000,\"kept_ms\":0,\"runs_since_ms\":0,\"runs\":false,\"running_ms\":777}", (long long)wall - 60000);
	put_state(A, text);
	kit_start();
	assert_int_equal(kit_number(A, "running_ms"), 777);
	assert_in_range(kit_number(A, "state_ms"), 70000, 75000);
	assert_true(kit_text_is(A, "kept_ms", NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(only_what_runs_is_counted), CASE(counting_survives_us), CASE(what_died_with_us_is_counted_till_then),
		CASE(destroyed_is_counted_till_it_is_gone), CASE(old_books_are_read), CASE(another_boot),
	};

	log_init("test", LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
