#include "unit.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/io.h"
#include "core/config.h"
#include "core/config_table.h"
#include "core/config_value.h"

static char dir[128], path[160];

static void write_ini(const char *text, size_t n)
{
	int at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	assert_int_equal(io_write_file(at, "p.ini", text, n, 0600, 0, NULL), 0);
	close(at);
}

static struct config *load(const char *text)
{
	err_t *e = NULL;
	struct config *c;

	write_ini(text, strlen(text));
	c = config_load(path, &e);
	if (!c)
		fail_msg("%s", err_message(e));
	return c;
}

/* The text is refused, and the message has all the words. */
static void refused(const char *text, const char *a, const char *b)
{
	err_t *e = NULL;

	write_ini(text, strlen(text));
	assert_null(config_load(path, &e));
	if (!strstr(err_message(e), a) || !strstr(err_message(e), b))
		fail_msg("\"%s\" lacks %s or %s", err_message(e), a, b);
	err_free(e);
}

static void defaults(void **state)
{
	struct config *c = load("");

	(void)state;
	assert_string_equal(config_backend(c), "container");
	assert_int_equal(config_int(c, "api.workers"), 4);
	assert_int_equal(config_int(c, "api.body_bytes"), 1 << 20);
	assert_string_equal(config_str(c, "paths.keys"), "/etc/paddock/keys");
	assert_true(config_int(c, "executor.output_limit_bytes") == INT64_C(16) << 30);
	config_free(c);
	config_free(NULL);
}

/* What was promised where nothing is set (R2.1, R2.9, R3.3, R3.4). */
static void promised_times(void **state)
{
	static const struct {
		const char *key;
		int64_t value;
	} t[] = {
		{ "runs.lease_ms", 120000 }, { "runs.max_attempts", 2 }, { "runs.run_timeout_ms", INT64_C(7) * 24 * 3600000 }, { "runs.stage_timeout_ms", 180000 },
		{ "sandbox.idle_timeout_ms", 300000 }, { "sandbox.keepalive_ms", 30000 }, { "sandbox.stale_ms", 25000 },
	};
	struct config *c = load("");

	(void)state;
	for (size_t i = 0; i < UNIT_LEN(t); i++)
		if (config_int(c, t[i].key) != t[i].value)
			fail_msg("%s is %lld", t[i].key, (long long)config_int(c, t[i].key));
	config_free(c);
}

static void file_beats_default_and_environment_beats_file(void **state)
{
	static const char text[] = "# c\n; c\n[API]\nWorkers = 9 ; comment\n[runs]\nrun_timeout_ms=5000\n[api]\nretry_after_s = \"3\"\n";
	struct config *c = load(text);

	(void)state;
	assert_int_equal(config_int(c, "api.workers"), 9);
	assert_int_equal(config_int(c, "api.retry_after_s"), 3);
	assert_int_equal(config_int(c, "runs.run_timeout_ms"), 5000);
	config_free(c);
	setenv("PADDOCK_API_WORKERS", "7", 1);
	setenv("AGENT_RUN_TIMEOUT_MS", "6000", 1);
	c = load(text);
	assert_int_equal(config_int(c, "api.workers"), 7);
	assert_int_equal(config_int(c, "runs.run_timeout_ms"), 6000);
	config_free(c);
	setenv("PADDOCK_RUNS_RUN_TIMEOUT_MS", "6001", 1);
	refused(text, "AGENT_RUN_TIMEOUT_MS", "differ");
	setenv("PADDOCK_RUNS_RUN_TIMEOUT_MS", "6000", 1);
	config_free(load(text));
	setenv("AGENT_RUN_TIMEOUT_MS", "0", 1);
	unsetenv("PADDOCK_RUNS_RUN_TIMEOUT_MS");
	refused(text, "AGENT_RUN_TIMEOUT_MS", "milliseconds from 1000 to");
}

static void idle_time_outlasts_a_late_keep_alive(void **state)
{
	struct config *c = load("[sandbox]\nidle_timeout_ms=60000\nkeepalive_ms=30000\n");

	(void)state;
	config_free(c);
	refused("[sandbox]\nidle_timeout_ms=59999\nkeepalive_ms=30000\n", "sandbox.idle_timeout_ms", "at least twice sandbox.keepalive_ms");
	setenv("SANDBOX_IDLE_TIMEOUT_MS", "59000", 1);
	refused("[sandbox]\nkeepalive_ms=30000\n", "sandbox.idle_timeout_ms", "at least twice");
	unsetenv("SANDBOX_IDLE_TIMEOUT_MS");
}

/* A misspelt setting is an error there as it is in the file; what is below no section of the table is not ours. */
static void unknown_variables(void **state)
{
	static const char *const bad[] = { "PADDOCK_API_WORKERZ", "PADDOCK_API_", "PADDOCK_API_WORKERS_", "PADDOCK_API_workers", "PADDOCK_RUNS_LEASE",
		"PADDOCK_RETENTION_OUTPUT_DAYS_X", "PADDOCK_SERVICE_PORT" };
	static const char *const good[] = { "PADDOCK_API", "PADDOCK_APIS_X", "PADDOCK_AP", "PADDOCK_", "PADDOCK", "paddock_api_workerz", "XPADDOCK_API_X",
		"PADDOCK_HTTPS_PORT", "PADDOCK_BUILD", "PADDOCK_CONFIGURE_FLAGS", "PADDOCK_CONFIG", "PADDOCK_FAULT", "PADDOCK_FAULT_FILE", "PADDOCK_AGENT",
		"PADDOCK_AGENT_TOKEN", "PADDOCK_MODEL_SEED", "PADDOCK_CHECK_KEEP", "PADDOCK_IMAGE_SUITE", "PADDOCK_PROJECT_DIR" };

	(void)state;
	for (size_t i = 0; i < UNIT_LEN(bad); i++) {
		setenv(bad[i], "7", 1);
		refused("", bad[i], "unknown key in [");
		unsetenv(bad[i]);
	}
	for (size_t i = 0; i < UNIT_LEN(good); i++) {
		setenv(good[i], "7", 1);
		config_free(load(""));
		unsetenv(good[i]);
	}
}

static void bad_files(void **state)
{
	static const struct {
		const char *text, *a, *b;
	} t[] = {
		{ "[nope]\n", "line 1", "unknown section nope" }, { "[api]\nworker = 3\n", "line 2", "unknown key worker in [api]" },
		{ "[api]\nworkers = 3\nWORKERS = 4\n", "line 3", "second time: workers" },
		{ "[api]\nworkers = 3\n[runs]\n[api]\nworkers = 3\n", "line 5", "second time" }, { "workers = 3\n", "line 1", "before the first" },
		{ "[api]\nworkers\n", "line 2", "neither" }, { "[api\n", "line 1", "]" }, { "[api]\nworkers = 0\n", "api.workers is \"0\"", "from 1 to 256" },
		{ "[api]\nworkers = 257\n", "api.workers", "from 1 to 256" }, { "[api]\nworkers = four\n", "api.workers", "four" },
		{ "[api]\nworkers =\n", "api.workers is \"\"", "number" }, { "[api]\nbody_bytes = 65M\n", "api.body_bytes", "1K to 64M" },
		{ "[paths]\nstate = relative\n", "paths.state", "absolute" }, { "[api]\nworkers = \\\n3\n", "line 2", "next line" },
		{ "[service]\nlog_level = loud\n", "service.log_level", "debug|info|warn|error" },
		{ "[runs]\nlease_ms = 10000\nlease_max_ms = 9999\n", "runs.lease_ms", "runs.lease_max_ms" },
		{ "[database]\nconninfo = user=x password=y\n", "database.conninfo", "password" },
		{ "[service]\nnode = a/b\n", "service.node", "a-z" }, { "[api]\naccel_prefix = x/y\n", "api.accel_prefix", "/" },
		{ "[service]\ninstance = A\n", "instance", "a-z" },
		{ "[executor]\nstream_head_bytes = 9G\n", "executor.journal_max_bytes", "stream_tail_bytes" },
		{ "[executor]\ntext_bytes = 9M\n", "executor.text_bytes", "1K to 8M" },   /* 12 bytes a byte: both streams, escaped; a page takes 128M */
	};

	(void)state;
	for (size_t i = 0; i < UNIT_LEN(t); i++)
		refused(t[i].text, t[i].a, t[i].b);
}

static void the_message_names_the_file(void **state)
{
	(void)state;
	refused("[nope]\n", path, "nope");
	refused("[api]\nworkers = x\n", path, "api.workers");
}

static void unreadable_files(void **state)
{
	static char big[300000];
	err_t *e = NULL;

	(void)state;
	assert_null(config_load("/nonexistent/p.ini", &e));
	assert_int_equal(err_code(e), ERR_NOT_FOUND);
	assert_non_null(strstr(err_message(e), "/nonexistent/p.ini"));
	err_free(e);
	assert_null(config_load("/", NULL));
	write_ini("[api]\nworkers = 3\n\0\n", 20);
	assert_null(config_load(path, NULL));
	memset(big, '\n', sizeof big);
	write_ini(big, sizeof big);
	assert_null(config_load(path, NULL));
}

/* The longest line is accepted, one byte more is not. */
static void line_length(void **state)
{
	static char text[1100];

	(void)state;
	memset(text, 'x', sizeof text);
	memcpy(text, "[api]\n;", 7);
	text[6 + 1000] = '\0';
	config_free(load(text));
	text[6 + 1000] = 'x';
	text[6 + 1001] = '\0';
	refused(text, "line 2", "too long");
}

static void every_default_is_valid(void **state)
{
	(void)state;
	for (size_t i = 0; i < config_table_len; i++) {
		int64_t n;

		assert_int_equal(config_value_check(&config_table[i], config_table[i].def, "default", &n, NULL), 0);
		for (size_t k = 0; k < i; k++)
			assert_false(strcmp(config_table[i].section, config_table[k].section) == 0 &&
				strcmp(config_table[i].key, config_table[k].key) == 0);
	}
}

/* Each number at both ends of its range and one past them. */
static void every_range_holds(void **state)
{
	(void)state;
	for (size_t i = 0; i < config_table_len; i++) {
		const struct config_opt *o = &config_table[i];
		char text[32];
		int64_t n;

		if (o->type != CONFIG_INT && o->type != CONFIG_MS && o->type != CONFIG_SIZE)
			continue;
		for (int step = -1; step <= 1; step++) {
			snprintf(text, sizeof text, "%lld", (long long)(o->min + step));
			assert_int_equal(config_value_check(o, text, "t", &n, NULL), step < 0 ? -1 : 0);
			snprintf(text, sizeof text, "%lld", (long long)(o->max + step));
			assert_int_equal(config_value_check(o, text, "t", &n, NULL), step > 0 ? -1 : 0);
		}
	}
}

static void texts_with_quotes_or_controls(void **state)
{
	static const char *const bad[] = { "a\"b", "a\nb", "a\x7f", "\xff" };

	(void)state;
	for (size_t i = 0; i < UNIT_LEN(bad); i++) {
		setenv("PADDOCK_CONTAINER_IMAGE", bad[i], 1);
		refused("", "PADDOCK_CONTAINER_IMAGE", "one line");
	}
}

/* --- the backend --- */

/* R1.1: exactly the allowed words, and a message that has the value and both of them. */
static void backend_words_are_exact(void **state)
{
	static const char *const bad[] = { "", "Container", "container ", "docker", "cube2", "host" };

	(void)state;
	for (size_t i = 0; i < UNIT_LEN(bad); i++) {
		setenv("SANDBOX_BACKEND", bad[i], 1);
		refused("", "SANDBOX_BACKEND", "container or cube");
	}
	setenv("SANDBOX_BACKEND", "docker", 1);
	refused("", "\"docker\"", "must be");
	unsetenv("SANDBOX_BACKEND");
	setenv("SANDBOX_PROVIDER", "container", 1);
	refused("", "SANDBOX_PROVIDER", "host, e2b or daytona");
	unsetenv("SANDBOX_PROVIDER");
	refused("[service]\nbackend = podman\n", "service.backend", "container or cube");
	refused("[service]\nprovider = cube\n", "service.provider", "host, e2b or daytona");
}

/* R1.2: one choice a layer. */
static void both_in_one_layer(void **state)
{
	(void)state;
	refused("[service]\nbackend = container\nprovider = e2b\n", "both set", "service.provider");
	setenv("SANDBOX_BACKEND", "container", 1);
	refused("[service]\nbackend = container\nprovider = e2b\n", "both set", path);
	setenv("SANDBOX_PROVIDER", "e2b", 1);
	refused("", "both set", "SANDBOX_PROVIDER");
}

/* R1.2: either variable goes before both keys of the file. */
static void environment_overrides_both_keys(void **state)
{
	struct config *c;

	(void)state;
	setenv("SANDBOX_BACKEND", "container", 1);
	c = load("[service]\nprovider = e2b\n");
	assert_string_equal(config_backend(c), "container");
	assert_string_equal(config_str(c, "service.provider"), "");
	config_free(c);
	c = load("[service]\nbackend = cube\n");
	config_free(c);
	unsetenv("SANDBOX_BACKEND");
	setenv("SANDBOX_PROVIDER", "host", 1);
	refused("[service]\nbackend = container\n", "provider host", "i_understand = yes");
	c = load("[service]\nbackend = container\n[host]\ni_understand = yes\n");
	assert_string_equal(config_backend(c), "host");
	config_free(c);
}

/* R1.8: only those who say that they know what it is get it, and they say it in one way. */
static void host_wants_to_be_understood(void **state)
{
	static const char *const no[] = { "", "no", "Yes", "YES", "true", "1", "y", "yes, I do" };
	struct config *c;
	char text[96];

	(void)state;
	refused("[service]\nprovider = host\n", "processes of this machine", "[host] i_understand = yes");
	for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++) {
		assert_true(snprintf(text, sizeof(text), "[service]\nprovider = host\n[host]\ni_understand = %s\n", no[i]) < (int)sizeof(text));
		refused(text, "provider host", "i_understand = yes");
	}
	c = load("[service]\nprovider = host\n[host]\ni_understand = yes\n");
	assert_string_equal(config_backend(c), "host");
	config_free(c);
	config_free(load("[host]\ni_understand = no\n"));
}

static void what_is_not_built_in(void **state)
{
	(void)state;
	refused("[service]\nbackend = cube\n", "cube", "only container and host are available");
	refused("[service]\nprovider = e2b\n", "e2b", "only container and host are available");
	refused("[service]\nprovider = daytona\n", "daytona", "only container and host are available");
	config_free(load("[service]\nbackend = container\nprovider =\n"));
}

/* --- instance, dump, start --- */

static void instance_names(void **state)
{
	struct config *c = load("[service]\ninstance = two\n[paths]\nkeys = /k\n");

	(void)state;
	assert_string_equal(config_str(c, "paths.state"), "/var/lib/paddock-two/executor");
	assert_string_equal(config_str(c, "executor.api_account"), "paddock-api-two");
	assert_string_equal(config_str(c, "paths.keys"), "/k");
	config_free(c);
	setenv("PADDOCK_INSTANCE", "three", 1);
	c = load("[service]\ninstance = two\n");
	assert_string_equal(config_str(c, "paths.state"), "/var/lib/paddock-three/executor");
	config_free(c);
	setenv("PADDOCK_INSTANCE", "abcdefghijklm", 1);
	refused("", "instance", "12");
}

static char *dump(const struct config *c)
{
	char *text = NULL;
	size_t n;
	FILE *f = open_memstream(&text, &n);

	config_dump(c, f);
	fclose(f);
	return text;
}

static void a_dump_loads_again(void **state)
{
	struct config *c;
	char *a, *b;

	(void)state;
	setenv("PADDOCK_API_WORKERS", "7", 1);
	c = load("[container]\nimage = example/x:1\n");
	a = dump(c);
	config_free(c);
	assert_non_null(strstr(a, "workers = \"7\" ; PADDOCK_API_WORKERS\n"));
	assert_non_null(strstr(a, "image = \"example/x:1\" ; file\n"));
	unsetenv("PADDOCK_API_WORKERS");
	c = load(a);
	assert_int_equal(config_int(c, "api.workers"), 7);
	assert_string_equal(config_str(c, "container.image"), "example/x:1");
	b = dump(c);
	assert_non_null(strstr(b, "workers = \"7\" ; file\n"));
	config_free(c);
	free(a);
	free(b);
}

static int start(int argc, const char *a, const char *b, const char *c, struct config **ret)
{
	char args[4][200];
	char *argv[5] = { args[0], args[1], args[2], args[3], NULL };

	snprintf(args[0], sizeof args[0], "prog");
	snprintf(args[1], sizeof args[1], "%s", a);
	snprintf(args[2], sizeof args[2], "%s", b);
	snprintf(args[3], sizeof args[3], "%s", c);
	argv[argc] = NULL;
	return config_main(argc, argv, "prog", "A program.", ret);
}

static void common_start(void **state)
{
	struct config *c = NULL;
	int out = dup(1), null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	(void)state;
	write_ini("", 0);
	fflush(stdout);
	dup2(null, 1);   /* standard output is the test's protocol */
	assert_int_equal(start(3, "--config", path, "", &c), 0);
	assert_non_null(c);
	config_free(c);
	assert_int_equal(start(4, "--config", path, "--check", &c), 1);
	assert_int_equal(start(4, "--config", path, "--dump", &c), 1);
	assert_int_equal(start(2, "--help", "", "", &c), 1);
	assert_int_equal(start(2, "--version", "", "", &c), 1);
	assert_int_equal(start(2, "--nonsense", "", "", &c), -1);
	assert_int_equal(start(2, "--config", "", "", &c), -1);
	assert_int_equal(start(3, "--config", "/nonexistent/p.ini", "", &c), -1);
	fflush(stdout);
	dup2(out, 1);
	close(out);
	close(null);
}

static int clean(void **state)
{
	static const char *const names[] = { "SANDBOX_BACKEND", "SANDBOX_PROVIDER", "AGENT_RUN_TIMEOUT_MS", "SANDBOX_IDLE_TIMEOUT_MS", "PADDOCK_API_WORKERS",
		"PADDOCK_RUNS_RUN_TIMEOUT_MS", "PADDOCK_CONTAINER_IMAGE", "PADDOCK_INSTANCE", "PADDOCK_CONFIG" };

	(void)state;
	for (size_t i = 0; i < UNIT_LEN(names); i++)
		unsetenv(names[i]);
	return 0;
}

static int setup(void **state)
{
	snprintf(path, sizeof path, "%s/p.ini", unit_tmpdir(dir));
	return clean(state);
}

static int teardown(void **state)
{
	(void)state;
	return io_remove_tree(AT_FDCWD, dir, NULL);
}

#define TEST(f) cmocka_unit_test_setup(f, clean)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(defaults), TEST(promised_times), TEST(file_beats_default_and_environment_beats_file), TEST(idle_time_outlasts_a_late_keep_alive), TEST(unknown_variables), TEST(bad_files), TEST(the_message_names_the_file),
		TEST(unreadable_files), TEST(line_length), TEST(every_default_is_valid), TEST(every_range_holds), TEST(texts_with_quotes_or_controls),
		TEST(backend_words_are_exact), TEST(both_in_one_layer), TEST(environment_overrides_both_keys), TEST(host_wants_to_be_understood), TEST(what_is_not_built_in),
		TEST(instance_names), TEST(a_dump_loads_again), TEST(common_start),
	};

	return cmocka_run_group_tests_name("config", tests, setup, teardown);
}
