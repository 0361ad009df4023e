#include "unit.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/str.h"
#include "core/http_client.h"
#include "core/unixsock.h"
#include "tests/lib/failalloc.h"

static char dir[128], path[160];
static int lfd;
static pid_t server;

/* --- a small server in a child: what it answers depends on the path --- */

static ssize_t read_request(int fd, char *dst, size_t size)
{
	size_t n = 0, want = 0;

	while (n + 1 < size) {
		ssize_t r = io_read(fd, dst + n, size - 1 - n);
		char *end, *len;

		if (r <= 0)
			return -1;
		n += (size_t)r;
		dst[n] = '\0';
		end = strstr(dst, "\r\n\r\n");
		if (!end)
			continue;
		len = strcasestr(dst, "\r\nContent-Length: ");
		want = (size_t)(end + 4 - dst) + (len && len < end ? (size_t)strtoul(len + 18, NULL, 10) : 0);
		if (n >= want)
			return (ssize_t)n;
	}
	return -1;
}

static void answer(int fd, int status, const char *body)
{
	char text[16384];

	str_fmt(text, sizeof text, "HTTP/1.1 %d X\r\nContent-Length: %zu\r\n\r\n%s", status, strlen(body), body);
	(void)io_write_full(fd, text, strlen(text));
}

static int count_connections;

/* -1: the connection is to be closed. */
static int serve_one(int fd)
{
	static char req[65536];
	char text[64];

	if (read_request(fd, req, sizeof req) < 0)
		return -1;
	if (strstr(req, " /echo ")) {
		answer(fd, 200, req);
	} else if (strstr(req, " /connections ")) {
		str_fmt(text, sizeof text, "%d", count_connections);
		answer(fd, 200, text);
	} else if (strstr(req, " /missing ")) {
		answer(fd, 404, "{}");
	} else if (strstr(req, " /redirect ")) {
		str_fmt(text, sizeof text, "HTTP/1.1 302 X\r\nLocation: /echo\r\nContent-Length: 0\r\n\r\n");
		(void)io_write_full(fd, text, strlen(text));
	} else if (strstr(req, " /cut ")) {
		str_fmt(text, sizeof text, "HTTP/1.1 200 X\r\nContent-Length: 10\r\n\r\nabc");
		(void)io_write_full(fd, text, strlen(text));
		return -1;
	} else if (strstr(req, " /close ")) {
		return -1;
	} else if (strstr(req, " /die ")) {
		unlink(path);
		return -1;
	}
	return 0;   /* /silent: no answer at all */
}

static void serve(void)
{
	struct pollfd fds[16] = { { .fd = lfd, .events = POLLIN } };
	nfds_t n = 1;

	while (poll(fds, n, -1) > 0) {
		if ((fds[0].revents & POLLIN) && n < 16) {
			fds[n++] = (struct pollfd){ .fd = accept4(lfd, NULL, NULL, SOCK_CLOEXEC), .events = POLLIN };
			count_connections++;
			continue;
		}
		for (nfds_t i = 1; i < n; i++) {
			if (fds[i].revents && serve_one(fds[i].fd) < 0) {
				close(fds[i].fd);
				fds[i] = fds[--n];
				break;
			}
		}
	}
}

/* --- blocking --- */

static struct http_req req(const char *method, const char *at)
{
	return (struct http_req){ .method = method, .path = at, .timeout_ms = 5000, .max_answer = 8192 };
}

static int get(struct http_client *c, const struct http_req *r, struct http_answer *a, enum err_code *code)
{
	err_t *e = NULL;
	int rc = http_client_do(c, r, a, &e);

	*code = err_code(e);
	err_free(e);
	return rc;
}

static void sends_what_was_asked(void **state)
{
	struct http_client *c = http_client_new(path, NULL);
	struct http_req r = req("PUT", "/echo");
	struct http_answer a;
	enum err_code code;

	(void)state;
	r.body = "{\"a\":1}";
	r.body_len = 7;
	r.request_id = "abc123";
	assert_int_equal(get(c, &r, &a, &code), 0);
	assert_int_equal(a.status, 200);
	assert_memory_equal(a.body.data, "PUT /echo HTTP/1.1\r\n", 20);
	assert_non_null(strstr(a.body.data, "\r\nX-Request-Id: abc123\r\n"));
	assert_non_null(strstr(a.body.data, "\r\nContent-Type: application/json\r\n"));
	assert_non_null(strstr(a.body.data, "\r\n\r\n{\"a\":1}"));
	assert_null(strstr(a.body.data, "Expect:"));
	http_answer_free(&a);
	http_client_free(c);
}

static void methods(void **state)
{
	static const char *const names[] = { "GET", "POST", "PUT", "DELETE" };
	struct http_client *c = http_client_new(path, NULL);

	(void)state;
	for (size_t i = 0; i < UNIT_LEN(names); i++) {
		for (int body = 0; body < 2; body++) {
			struct http_req r = req(names[i], "/echo");
			struct http_answer a;
			enum err_code code;
			char want[32];

			r.body = body ? "xyz" : NULL;
			r.body_len = body ? 3 : 0;
			assert_int_equal(get(c, &r, &a, &code), 0);
			str_fmt(want, sizeof want, "%s /echo ", names[i]);
			assert_true(str_prefix(a.body.data, want));
			assert_int_equal(str_suffix(a.body.data, "xyz"), body);
			http_answer_free(&a);
		}
	}
	http_client_free(c);
}

static void any_status_is_an_answer(void **state)
{
	struct http_client *c = http_client_new(path, NULL);
	struct http_req missing = req("GET", "/missing"), redirect = req("GET", "/redirect");
	struct http_answer a;
	enum err_code code;

	(void)state;
	assert_int_equal(get(c, &missing, &a, &code), 0);
	assert_int_equal(a.status, 404);
	http_answer_free(&a);
	assert_int_equal(get(c, &redirect, &a, &code), 0);
	assert_int_equal(a.status, 302);
	http_answer_free(&a);
	http_client_free(c);
}

static int connections(struct http_client *c, const char *method)
{
	struct http_req r = req(method, "/connections");
	struct http_answer a;
	enum err_code code;
	int n;

	assert_int_equal(get(c, &r, &a, &code), 0);
	n = (int)strtol(buf_str(&a.body), NULL, 10);
	http_answer_free(&a);
	return n;
}

static int connections_repeatable(struct http_client *c)
{
	struct http_req r = req("POST", "/connections");
	struct http_answer a;
	enum err_code code;
	int n;

	r.repeatable = true;
	assert_int_equal(get(c, &r, &a, &code), 0);
	n = (int)strtol(buf_str(&a.body), NULL, 10);
	http_answer_free(&a);
	return n;
}

static void keeps_its_connection(void **state)
{
	struct http_client *c = http_client_new(path, NULL);
	int first = connections(c, "GET");

	(void)state;
	assert_int_equal(connections(c, "GET"), first);
	assert_int_equal(connections(c, "PUT"), first);
	assert_int_equal(connections(c, "POST"), first + 1);
	assert_int_equal(connections_repeatable(c), first + 1);
	http_client_free(c);
}

static void errors_tell_what_is_known(void **state)
{
	struct http_client *c = http_client_new(path, NULL), *nobody = http_client_new("/nonexistent/s", NULL);
	struct http_req r = req("POST", "/cut");
	struct http_answer a;
	enum err_code code;

	(void)state;
	assert_int_equal(get(c, &r, &a, &code), -1);
	assert_int_equal(code, ERR_UNKNOWN);
	r.path = "/close";
	assert_int_equal(get(c, &r, &a, &code), -1);
	assert_int_equal(code, ERR_UNKNOWN);
	r.path = "/silent";
	r.timeout_ms = 100;
	assert_int_equal(get(c, &r, &a, &code), -1);
	assert_int_equal(code, ERR_UNKNOWN);
	assert_int_equal(get(nobody, &r, &a, &code), -1);
	assert_int_equal(code, ERR_UNAVAILABLE);
	http_client_free(c);
	http_client_free(nobody);
	http_client_free(NULL);
}

static void answer_cap(void **state)
{
	struct http_client *c = http_client_new(path, NULL);
	struct http_req r = req("GET", "/missing");   /* answers two bytes */
	struct http_answer a;
	enum err_code code;

	(void)state;
	r.max_answer = 2;
	assert_int_equal(get(c, &r, &a, &code), 0);
	http_answer_free(&a);
	r.max_answer = 1;
	assert_int_equal(get(c, &r, &a, &code), -1);
	assert_int_equal(code, ERR_TOO_LARGE);
	http_client_free(c);
}

static void no_header_can_be_smuggled(void **state)
{
	static const char *const bad[] = { "/a b", "/a\r\nX: y", "http://other/", "", "/a\x7f" };
	struct http_client *c = http_client_new(path, NULL);
	struct http_req r = req("GET", "/echo");
	struct http_answer a;
	enum err_code code;

	(void)state;
	for (size_t i = 0; i < UNIT_LEN(bad); i++) {
		struct http_req b = req("GET", bad[i]);

		assert_int_equal(get(c, &b, &a, &code), -1);
		assert_int_equal(code, ERR_INTERNAL);
	}
	r.request_id = "x\r\nEvil: 1";
	assert_int_equal(get(c, &r, &a, &code), 0);
	assert_null(strstr(a.body.data, "Evil"));
	http_answer_free(&a);
	http_client_free(c);
}

/* --- on the loop --- */

static struct loop *loop;
static int wanted, answers, failures;
static enum err_code last_code;

static void on_answer(void *arg, const struct http_answer *a, const err_t *err)
{
	(void)arg;
	assert_true(!a != !err);
	answers += a != NULL;
	failures += err != NULL;
	if (err)
		last_code = err_code(err);
	if (answers + failures == wanted)
		loop_stop(loop);
}

static void run_async(const char *socket_path, const struct http_req *r, int n)
{
	struct http_async *h;

	loop = loop_new(NULL);
	h = http_async_new(loop, socket_path, NULL);
	wanted = n;
	answers = failures = 0;
	for (int i = 0; i < n; i++)
		assert_int_equal(http_async_do(h, r, on_answer, NULL, NULL), 0);
	assert_int_equal(answers + failures, 0);   /* from the loop only */
	assert_int_equal(loop_run(loop, NULL), 0);
	http_async_free(h);
	loop_free(loop);
}

static void async_answers(void **state)
{
	struct http_req r = req("PUT", "/echo");
	char body[] = "xyz";

	(void)state;
	r.body = body;
	r.body_len = 3;
	run_async(path, &r, 10);
	assert_int_equal(answers, 10);
}

static void async_errors(void **state)
{
	struct http_req r = req("POST", "/silent");

	(void)state;
	r.timeout_ms = 100;
	run_async(path, &r, 3);
	assert_int_equal(failures, 3);
	assert_int_equal(last_code, ERR_UNKNOWN);
	run_async("/nonexistent/s", &r, 1);
	assert_int_equal(last_code, ERR_UNAVAILABLE);
	r.path = "/cut";
	run_async(path, &r, 1);
	assert_int_equal(last_code, ERR_UNKNOWN);
	r.path = "/missing";
	r.max_answer = 1;
	run_async(path, &r, 1);
	assert_int_equal(last_code, ERR_TOO_LARGE);
}

#if FAILALLOC
/* A socket that cannot be watched costs its own request; the handle goes on. */
static void async_survives_a_want_of_memory(void **state)
{
	struct http_req r = req("GET", "/echo");
	bool hit = true;

	(void)state;
	failalloc_only_from("test_http_client");
	for (long n = 1; hit; n++) {
		struct http_async *h;

		loop = loop_new(NULL);
		h = http_async_new(loop, path, NULL);
		wanted = 1;
		answers = failures = 0;
		r.timeout_ms = 1000;
		assert_int_equal(http_async_do(h, &r, on_answer, NULL, NULL), 0);
		failalloc_arm(n);
		assert_int_equal(loop_run(loop, NULL), 0);
		hit = failalloc_disarm();
		assert_int_equal(answers + failures, 1);
		answers = failures = 0;
		assert_int_equal(http_async_do(h, &r, on_answer, NULL, NULL), 0);
		assert_int_equal(loop_run(loop, NULL), 0);
		assert_int_equal(answers, 1);
		http_async_free(h);
		loop_free(loop);
	}
	failalloc_only_from(NULL);
}
#endif

static void async_dropped(void **state)
{
	struct http_req r = req("GET", "/silent");
	struct http_async *h;

	(void)state;
	loop = loop_new(NULL);
	h = http_async_new(loop, path, NULL);
	assert_int_equal(http_async_do(h, &r, on_answer, NULL, NULL), 0);
	http_async_free(h);
	http_async_free(NULL);
	loop_free(loop);
}

static int setup(void **state)
{
	(void)state;
	snprintf(path, sizeof path, "%s/s", unit_tmpdir(dir));
	lfd = unix_listen(path, 0600, 64, NULL);
	if (lfd < 0)
		return -1;
	server = fork();
	if (server == 0) {
		signal(SIGPIPE, SIG_IGN);   /* clients go away before they have read */
		serve();
		_exit(0);
	}
	return server < 0;
}

/* The server dies with a request that came over a kept connection. libcurl tries another connection by itself, and finds nobody: still one was sent. */
static void the_first_of_two_was_sent(void **state)
{
	struct http_client *c = http_client_new(path, NULL);
	struct http_req r = req("PUT", "/die");
	struct http_answer a;
	enum err_code code;

	(void)state;
	(void)connections(c, "PUT");
	r.body = "x";
	r.body_len = 1;
	assert_int_equal(get(c, &r, &a, &code), -1);
	assert_int_equal(code, ERR_UNKNOWN);
	assert_int_equal(get(c, &r, &a, &code), -1);
	assert_int_equal(code, ERR_UNAVAILABLE);
	http_client_free(c);
}

static int teardown(void **state)
{
	(void)state;
	kill(server, SIGKILL);
	waitpid(server, NULL, 0);
	close(lfd);
	return io_remove_tree(AT_FDCWD, dir, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sends_what_was_asked), cmocka_unit_test(methods), cmocka_unit_test(any_status_is_an_answer),
		cmocka_unit_test(keeps_its_connection), cmocka_unit_test(errors_tell_what_is_known), cmocka_unit_test(answer_cap),
		cmocka_unit_test(no_header_can_be_smuggled), cmocka_unit_test(async_answers), cmocka_unit_test(async_errors),
		cmocka_unit_test(async_dropped),
#if FAILALLOC   /* the sanitizers bring an allocator of their own */
		cmocka_unit_test(async_survives_a_want_of_memory),
#endif
		cmocka_unit_test(the_first_of_two_was_sent),   /* last: nobody can reach the server any more */
	};

	return cmocka_run_group_tests_name("http_client", tests, setup, teardown);
}
