#include "stand.h"

#include <fcntl.h>
#include <libpq-fe.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/io.h"
#include "base/rand.h"
#include "base/str.h"
#include "db/db_schema.h"
#include "domain/audit.h"
#include "domain/auth.h"
#include "domain/tokens.h"
#include "domain/users.h"

static void die(const char *what, const err_t *e)
{
	fprintf(stderr, "stand: %s: %s\n", what, e ? err_message(e) : "failed");
	exit(1);
}

static pid_t spawn(char *const argv[])
{
	pid_t pid = fork();

	if (pid == 0) {
		int null = open("/dev/null", O_RDWR);
		dup2(null, 0);
		dup2(2, 1);
		execv(argv[0], argv);
		_exit(127);
	}
	return pid;
}

static int finish(pid_t pid)
{
	int status = 0;

	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void stand_pg(const struct stand *s, const char *verb)
{
	char pg[160], tool[] = TEST_SRCDIR "/tests/lib/pg.sh", sh[] = "/bin/sh", v[16];
	char *argv[] = { sh, tool, v, pg, NULL };

	snprintf(pg, sizeof pg, "%s/pg", s->dir);
	snprintf(v, sizeof v, "%s", verb);
	int rc = finish(spawn(argv));
	if (rc == 77) {
		printf("1..0 # SKIP no PostgreSQL server here\n");
		exit(77);
	}
	if (rc != 0)
		die(verb, NULL);
}

void stand_executor_start(struct stand *s)
{
	char sock[160], state[160], tool[] = TEST_SRCDIR "/tests/lib/scripted_executor.py", python[] = "/usr/bin/python3";
	char *argv[] = { python, tool, sock, state, NULL };
	struct http_req r = { .method = "GET", .path = "/control/state", .timeout_ms = 1000, .max_answer = 16 << 20 };

	snprintf(sock, sizeof sock, "%s/executor.sock", s->dir);
	snprintf(state, sizeof state, "%s/executor.json", s->dir);
	unlink(sock);
	s->executor = spawn(argv);
	for (int i = 0; i < 200; i++) {
		struct http_answer a = { 0 };
		if (http_client_do(s->control, &r, &a, NULL) == 0) {
			http_answer_free(&a);
			return;
		}
		usleep(50000);
	}
	die("the scripted executor does not answer", NULL);
}

void stand_executor_kill(struct stand *s)
{
	kill(s->executor, SIGKILL);
	(void)finish(s->executor);
	s->executor = 0;
}

static json_t *control(struct stand *s, const char *method, const char *path, const char *json)
{
	char full[64];
	struct http_answer a = { 0 };
	err_t *e = NULL;

	snprintf(full, sizeof full, "/control%s", path);
	struct http_req r = { .method = method, .path = full, .body = json, .body_len = json ? strlen(json) : 0, .timeout_ms = 10000, .max_answer = 64 << 20 };
	if (http_client_do(s->control, &r, &a, &e) < 0)
		die(full, e);
	json_t *o = json_parse(buf_str(&a.body), a.body.len, 64 << 20, 32, &e);
	if (!o)
		die(full, e);
	http_answer_free(&a);
	return o;
}

void stand_control(struct stand *s, const char *path, const char *json)
{
	json_object_put(control(s, "POST", path, json));
}

json_t *stand_state(struct stand *s)
{
	return control(s, "GET", "/state", NULL);
}

char *stand_sql(const struct stand *s, const char *sql)
{
	char info[256];

	snprintf(info, sizeof info, "host=%s/pg dbname=paddock user=postgres", s->dir);
	PGconn *c = PQconnectdb(info);
	PGresult *r = PQexec(c, sql);
	if (PQresultStatus(r) != PGRES_TUPLES_OK && PQresultStatus(r) != PGRES_COMMAND_OK) {
		fprintf(stderr, "stand: %s: %s\n", sql, PQerrorMessage(c));
		exit(1);
	}
	char *v = str_dup(PQntuples(r) > 0 && PQnfields(r) > 0 ? PQgetvalue(r, 0, 0) : "");
	PQclear(r);
	PQfinish(c);
	return v;
}

long stand_count(const struct stand *s, const char *sql)
{
	char *v = stand_sql(s, sql);
	long n = strtol(v, NULL, 10);

	free(v);
	return n;
}

static void write_files(struct stand *s)
{
	char text[1024], key[CRYPTO_KEY_BYTES];
	int dir = open(s->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	err_t *e = NULL;

	rand_bytes(key, sizeof key);
	snprintf(text, sizeof text, "[database]\nconninfo = host=%s/pg dbname=paddock user=paddock_api\nconnect_timeout_ms = 2000\n[paths]\nkeys = %s\n"
		"[executor]\nsocket = %s/executor.sock\n[runs]\nrun_commands = 6\nuser_commands = 40\n"
		"[janitor]\ninterval_ms = 50\nbackoff_min_ms = 50\nbackoff_max_ms = 400\norphan_grace_ms = 0\n",
		s->dir, s->dir, s->dir);
	if (io_write_file(dir, "pepper", key, sizeof key, 0400, 0, &e) < 0 || io_write_file(dir, "paddock.ini", text, strlen(text), 0600, 0, &e) < 0)
		die("files", e);
	close(dir);
	snprintf(s->config_path, sizeof s->config_path, "%s/paddock.ini", s->dir);
	s->config = config_load(s->config_path, &e);
	if (!s->config)
		die("configuration", e);
}

static void quiet(void *arg, const char *file, bool done)
{
	(void)arg;
	(void)file;
	(void)done;
}

static void migrate(const struct stand *s)
{
	struct db_config c = { .conninfo = config_str(s->config, "database.conninfo"), .user = "paddock_owner", .any_schema = true, .connect_timeout_ms = 5000,
		.statement_timeout_ms = 5000 };
	err_t *e = NULL;
	struct db *d = db_new(&c, &e);

	if (!d || db_migrate(d, TEST_SRCDIR "/sql", quiet, NULL, &e) < 0)
		die("migrations", e);
	db_free(d);
}

struct domain *stand_domain(const struct stand *s)
{
	err_t *e = NULL;
	struct domain *d = domain_open(s->config, &e);

	if (!d)
		die("domain", e);
	return d;
}

static void make_caller(struct stand *s)
{
	struct caller by;
	json_t *user = NULL;
	err_t *e = NULL;
	char bearer[192];

	audit_operator(&by, "test");
	if (users_create(s->domain, &by, "ann", false, &user, &e) < 0 || tokens_create(s->domain, &by, &(struct token_new){ .user = "ann", .kind = CALLER_USER }, s->token, &e) < 0)
		die("account", e);
	json_object_put(user);
	snprintf(bearer, sizeof bearer, "Bearer %s", s->token);
	if (auth_bearer(s->domain, &(struct auth_request){ .authorization = bearer, .request_id = "req-1", .address = "192.0.2.1" }, &s->caller, &e) < 0)
		die("token", e);
}

void stand_up(struct stand *s)
{
	char sock[160];
	err_t *e = NULL;

	memset(s, 0, sizeof *s);
	snprintf(s->dir, sizeof s->dir, "/tmp/paddock-stand-XXXXXX");
	if (!mkdtemp(s->dir) || chmod(s->dir, 0711) < 0)
		die(s->dir, NULL);
	snprintf(sock, sizeof sock, "%s/executor.sock", s->dir);
	s->control = http_client_new(sock, &e);
	if (!s->control)
		die("http client", e);
	stand_pg(s, "start");
	write_files(s);
	migrate(s);
	stand_executor_start(s);
	s->domain = stand_domain(s);
	make_caller(s);
}

void stand_down(struct stand *s)
{
	domain_close(s->domain);
	if (s->executor)
		stand_executor_kill(s);
	http_client_free(s->control);
	config_free(s->config);
	stand_pg(s, "stop");
	int tmp = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	(void)io_remove_tree(tmp, s->dir + strlen("/tmp/"), NULL);
	close(tmp);
}
