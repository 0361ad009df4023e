/* What an engine's answers mean, and what is asked of it. */
#include "unit.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "provider/engine_http.h"
#include "provider/engine_spec.h"

static void refusals(void **state)
{
	static const struct {
		int status;
		const char *body;
		bool clash;
		enum err_code code;
	} cases[] = {
		{ 404, "{\"message\":\"no such container\"}", false, ERR_NOT_FOUND },
		{ 409, "{}", false, ERR_EXISTS },
		{ 500, "{\"message\":\"the container name \\\"x\\\" is already in use by\"}", true, ERR_EXISTS },
		{ 500, "{\"message\":\"the container name \\\"x\\\" is already in use by\"}", false, ERR_UNKNOWN },
		{ 500, "{\"message\":\"boom\"}", true, ERR_UNKNOWN },
		{ 503, "<html>", true, ERR_UNKNOWN },
		{ 400, "", true, ERR_REFUSED },
		{ 403, "[1,2", false, ERR_REFUSED },
	};

	(void)state;
	for (size_t i = 0; i < UNIT_LEN(cases); i++) {
		cleanup_err err_t *err = NULL;

		assert_int_equal(engine_http_refusal(cases[i].status, cases[i].body, strlen(cases[i].body), cases[i].clash, &err), -1);
		assert_int_equal(err_code(err), cases[i].code);
	}
}

static void a_reason_is_one_line(void **state)
{
	cleanup_err err_t *err = NULL;
	const char *body = "{\"message\":\"a\\nb\\u001b[31m\"}";

	(void)state;
	engine_http_refusal(500, body, strlen(body), false, &err);
	assert_null(strpbrk(err_message(err), "\n\033"));
	assert_non_null(strstr(err_message(err), "a b"));
}

static json_t *parse(const char *text)
{
	json_t *o = json_parse(text, strlen(text), 65536, 32, NULL);

	assert_non_null(o);
	return o;
}

static void inspect(void **state)
{
	struct engine_container c;
	cleanup_json json_t *o = parse("{\"Id\":\"abc\",\"Name\":\"/pdk-n-1\",\"State\":{\"Status\":\"running\",\"Pid\":77},"
		"\"Config\":{\"Labels\":{\"io.paddock.node\":\"n\",\"io.paddock.instance\":\"1\",\"io.paddock.token\":\"ff\"}}}");
	cleanup_json json_t *dead = parse("{\"Id\":\"abc\",\"Name\":\"x\",\"State\":{\"Status\":\"exited\",\"Pid\":77},\"Config\":{\"Labels\":null}}");

	(void)state;
	assert_int_equal(engine_http_inspect(o, &c, NULL), 0);
	assert_string_equal(c.name, "pdk-n-1");
	assert_string_equal(c.node, "n");
	assert_string_equal(c.instance, "1");
	assert_string_equal(c.token_hash, "ff");
	assert_int_equal(c.state, ENGINE_RUNNING);
	assert_int_equal(c.pid, 77);
	assert_int_equal(engine_http_inspect(dead, &c, NULL), 0);
	assert_int_equal(c.state, ENGINE_STOPPED);
	assert_int_equal(c.pid, 0);
	assert_string_equal(c.node, "");
}

static void nonsense_is_refused(void **state)
{
	static const char *const texts[] = {
		"{}", "[]", "{\"Id\":1}", "{\"Id\":\"a\",\"Name\":\"n\"}", "{\"Id\":\"a\",\"Name\":\"n\",\"State\":7,\"Config\":{}}",
		"{\"Id\":\"a\",\"Name\":\"n\",\"State\":{\"Status\":\"running\",\"Pid\":-1},\"Config\":{}}",
		"{\"Id\":\"a\",\"Name\":\"n\",\"State\":{\"Status\":\"running\",\"Pid\":99999999999},\"Config\":{}}",
		"{\"Id\":\"01234567890123456789012345678901234567890123456789012345678901234\",\"Name\":\"n\",\"State\":{\"Status\":\"\"},\"Config\":{}}",
	};

	(void)state;
	for (size_t i = 0; i < UNIT_LEN(texts); i++) {
		struct engine_container c;
		cleanup_json json_t *o = parse(texts[i]);

		assert_int_equal(engine_http_inspect(o, &c, NULL), -1);
	}
}

static void summary(void **state)
{
	struct engine_container c;
	cleanup_json json_t *o = parse("{\"Id\":\"abc\",\"Names\":[\"pdk-n-1\"],\"State\":\"created\",\"Labels\":{\"io.paddock.node\":\"n\"}}");
	cleanup_json json_t *external = parse("{\"Id\":\"abc\",\"Names\":[\"pdk-n-2\"],\"State\":\"storage\",\"Labels\":null}");

	(void)state;
	assert_int_equal(engine_http_summary(o, &c, NULL), 0);
	assert_int_equal(c.state, ENGINE_CREATED);
	assert_string_equal(c.node, "n");
	assert_int_equal(engine_http_summary(external, &c, NULL), 0);
	assert_int_equal(c.state, ENGINE_ODD);
	assert_string_equal(c.name, "pdk-n-2");
}

static const struct engine_config config = {
	.socket = "/run/x/engine.sock", .node = "n", .image = "i", .agent = "/a", .seccomp = "/s.json", .cgroup_parent = "/paddock", .internet = true,
	.memory_bytes = 1 << 30, .pids = 256, .cpus_milli = 500, .tmp_bytes = 1 << 20, .home_bytes = 1 << 21, .shm_bytes = 1 << 22, .nofile = 99, .nproc = 88,
};
static const struct engine_spec spec = { .name = "pdk-n-1", .instance = "1", .token = "SECRET", .token_hash = "hash", .workspace = "/w/x/files",
	.agent_dir = "/r/1" };

static void libpod_spec_has_the_whole_hardening(void **state)
{
	static const char *const wanted[] = {
		"\"cap_drop\":[\"all\"]", "\"cap_add\":[\"CHOWN\",\"SETUID\",\"SETGID\",\"SETPCAP\",\"KILL\"]", "\"no_new_privileges\":true", "\"seccomp_profile_path\":\"/s.json\"",
		"\"read_only_filesystem\":true", "\"userns\":{\"nsmode\":\"keep-id\",\"value\":\"uid=1000,gid=1000\"}", "\"driver\":\"none\"",
		"\"type\":\"core\",\"soft\":0,\"hard\":0", "\"limit\":1073741824,\"swap\":1073741824", "\"pids\":{\"limit\":256}", "\"quota\":50000",
		"\"cgroup_parent\":\"/paddock\"", "\"nsmode\":\"slirp4netns\"", "enable_ipv6=false", "\"user\":\"0:0\"", "\"io.paddock.instance\":\"1\"",
		"\"io.paddock.token\":\"hash\"", "\"source\":\"/w/x/files\"", "\"source\":\"/r/1\",\"options\":[\"bind\",\"rprivate\",\"ro\"",
	};
	cleanup_json json_t *o = engine_spec_libpod(&config, &spec);
	const char *text = json_text(o, NULL);
	const char *token = strstr(text, "SECRET");

	(void)state;
	for (size_t i = 0; i < UNIT_LEN(wanted); i++)
		if (!strstr(text, wanted[i]))
			fail_msg("%s is missing in %s", wanted[i], text);
	assert_non_null(token);
	assert_null(strstr(token + 1, "SECRET"));
}

static void no_network_is_none(void **state)
{
	struct engine_config c = config;

	(void)state;
	c.internet = false;
	cleanup_json json_t *o = engine_spec_libpod(&c, &spec);
	assert_non_null(strstr(json_text(o, NULL), "\"netns\":{\"nsmode\":\"none\"}"));
	assert_null(strstr(json_text(o, NULL), "slirp"));
	cleanup_json json_t *d = engine_spec_docker(&c, &spec, "/s.json", false);
	assert_non_null(strstr(json_text(d, NULL), "\"NetworkMode\":\"none\""));
}

static void docker_spec(void **state)
{
	static const char *const wanted[] = {
		"\"CapDrop\":[\"ALL\"]", "\"CapAdd\":[\"CHOWN\",\"SETUID\",\"SETGID\",\"SETPCAP\",\"KILL\"]", "\"SecurityOpt\":[\"no-new-privileges\",\"seccomp={}\"]",
		"\"ReadonlyRootfs\":true", "\"PidsLimit\":256", "\"NanoCpus\":500000000", "\"Memory\":1073741824", "\"MemorySwap\":1073741824",
		"\"LogConfig\":{\"Type\":\"none\"}", "\"NetworkMode\":\"bridge\"", "/r/1:/paddock/run:ro",
	};
	cleanup_json json_t *o = engine_spec_docker(&config, &spec, "{}", false);

	(void)state;
	for (size_t i = 0; i < UNIT_LEN(wanted); i++)
		if (!strstr(json_text(o, NULL), wanted[i]))
			fail_msg("%s is missing in %s", wanted[i], json_text(o, NULL));
}

static void escape(void **state)
{
	cleanup_buf struct buf b = BUF_INIT(100);

	(void)state;
	engine_http_escape(&b, "localhost/a:b c%\xff");
	assert_string_equal(buf_str(&b), "localhost%2Fa%3Ab%20c%25%FF");
}

static void engines(void **state)
{
	cleanup_err err_t *err = NULL;

	(void)state;
	assert_string_equal(engine_find("podman", NULL)->name, "podman");
	assert_string_equal(engine_find("docker", NULL)->name, "docker");
	assert_null(engine_find("lxc", &err));
	assert_non_null(strstr(err_message(err), "podman and docker"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refusals),
		cmocka_unit_test(a_reason_is_one_line),
		cmocka_unit_test(inspect),
		cmocka_unit_test(nonsense_is_refused),
		cmocka_unit_test(summary),
		cmocka_unit_test(libpod_spec_has_the_whole_hardening),
		cmocka_unit_test(no_network_is_none),
		cmocka_unit_test(docker_spec),
		cmocka_unit_test(escape),
		cmocka_unit_test(engines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
