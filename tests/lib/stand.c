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

/* log: where its standard error goes; NULL: to ours. */
static pid_t spawn(char *const argv[], const char *log)
{
	pid_t pid = fork();

	if (pid == 0) {
		int null = open("/dev/null", O_RDWR), err = log ? open(log, O_WRONLY | O_CREAT | O_APPEND, 0644) : 2;
		dup2(null, 0);
		dup2(err, 2);
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
	int rc = finish(spawn(argv, NULL));
	if (rc == 77) {
		printf("1..0 # SKIP no PostgreSQL server here\n");
		exit(77);
	}
	if (rc != 0)
		die(verb, NULL);
}

static pid_t spawn_straw(const char *sock, const struct stand *s)
{
	char where[160], state[160], tool[] = TEST_SRCDIR "/tests/lib/scripted_executor.py", python[] = "/usr/bin/python3";
	char *argv[] = { python, tool, where, state, NULL };

	snprintf(where, sizeof where, "%s", sock);
	snprintf(state, sizeof state, "%s/executor.json", s->dir);
	return spawn(argv, NULL);
}

static pid_t spawn_real(const struct stand *s)
{
	const char *build = getenv("PADDOCK_BUILD");
	char program[512], config[160], log[160], flag[] = "--config";
	char *argv[] = { program, flag, config, NULL };

	snprintf(program, sizeof program, "%s/tests/lib/paddock-executor-scripted", build ? build : ".");
	snprintf(config, sizeof config, "%s", s->config_path);
	snprintf(log, sizeof log, "%s/executor.log", s->dir);
	return spawn(argv, log);
}

static bool is_dead(pid_t pid)
{
	return waitpid(pid, NULL, WNOHANG) == pid;
}

bool stand_executor_died(struct stand *s)
{
	if (!s->executor || !is_dead(s->executor))
		return false;
	s->executor = 0;
	return true;
}

void stand_executor_start(struct stand *s)
{
	char sock[160];
	struct http_req r = { .method = "GET", .path = s->script_dir[0] ? "/v1/health" : "/control/state", .timeout_ms = 1000, .max_answer = 16 << 20 };

	snprintf(sock, sizeof sock, "%s/executor.sock", s->dir);
	unlink(sock);
	s->executor = s->script_dir[0] ? spawn_real(s) : spawn_straw(sock, s);
	for (int i = 0; i < 4000; i++) {
		struct http_answer a = { 0 };
		if (http_client_do(s->control, &r, &a, NULL) == 0) {
			http_answer_free(&a);
			return;
		}
		/* One that is armed (fault.h) may die before it answers. */
		if (stand_executor_died(s))
			return;
		usleep(2500);
	}
	die("the executor does not answer", NULL);
}

void stand_executor_kill(struct stand *s)
{
	if (!s->executor)
		return;
	kill(s->executor, SIGKILL);
	(void)finish(s->executor);
	s->executor = 0;
}

void stand_script(const struct stand *s, const char *text)
{
	int dir = open(s->script_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	err_t *e = NULL;

	if (dir < 0 || io_write_file(dir, "script", text ? text : "", text ? strlen(text) : 0, 0644, 0, &e) < 0)
		die("script", e);
	close(dir);
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
	char text[1536], more[512] = "", key[CRYPTO_KEY_BYTES];
	int dir = open(s->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	err_t *e = NULL;

	rand_bytes(key, sizeof key);
	if (s->script_dir[0])
		snprintf(more, sizeof more, "state = %s/state\nworkspaces = %s/workspaces\n[service]\nprovider = host\n[host]\ni_understand = yes\n", s->dir, s->dir);
	snprintf(text, sizeof text, "[database]\nconninfo = host=%s/pg dbname=paddock user=paddock_api\nconnect_timeout_ms = 2000\n[paths]\nkeys = %s\n%s"
		"[executor]\nsocket = %s/executor.sock\n[runs]\nrun_commands = 6\nuser_commands = 40\n"
		"[janitor]\ninterval_ms = 50\nbackoff_min_ms = 50\nbackoff_max_ms = 400\norphan_grace_ms = 0\n",
		s->dir, s->dir, more, s->dir);
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

void stand_caller(struct stand *s, const char *name, struct caller *ret)
{
	struct caller by;
	json_t *user = NULL;
	err_t *e = NULL;
	char bearer[192];

	audit_operator(&by, "test");
	if (users_create(s->domain, &by, name, false, &user, &e) < 0 || tokens_create(s->domain, &by, &(struct token_new){ .user = name, .kind = CALLER_USER }, s->token, &e) < 0)
		die("account", e);
	json_object_put(user);
	snprintf(bearer, sizeof bearer, "Bearer %s", s->token);
	if (auth_bearer(s->domain, &(struct auth_request){ .authorization = bearer, .request_id = "req-1", .address = "192.0.2.1" }, ret, &e) < 0)
		die("token", e);
}

static void make_directory(struct stand *s)
{
	memset(s, 0, sizeof *s);
	snprintf(s->dir, sizeof s->dir, "/tmp/paddock-stand-XXXXXX");
	if (!mkdtemp(s->dir) || chmod(s->dir, 0711) < 0)
		die(s->dir, NULL);
}

static void make_scripted(struct stand *s)
{
	char path[192];

	snprintf(s->script_dir, sizeof s->script_dir, "%s/scripted", s->dir);
	snprintf(path, sizeof path, "%s/workspaces", s->dir);
	if (mkdir(s->script_dir, 0755) < 0 || mkdir(path, 0755) < 0 || setenv("PADDOCK_SCRIPTED_DIR", s->script_dir, 1) < 0)
		die(s->script_dir, NULL);
	snprintf(path, sizeof path, "%s/state", s->dir);
	if (mkdir(path, 0700) < 0)
		die(path, NULL);
}

static void raise_up(struct stand *s)
{
	char sock[160];
	err_t *e = NULL;

	snprintf(sock, sizeof sock, "%s/executor.sock", s->dir);
	s->control = http_client_new(sock, &e);
	if (!s->control)
		die("http client", e);
	stand_pg(s, "start");
	write_files(s);
	migrate(s);
	stand_executor_start(s);
	s->domain = stand_domain(s);
	stand_caller(s, "ann", &s->caller);
}

void stand_up(struct stand *s)
{
	make_directory(s);
	raise_up(s);
}

void stand_up_scripted(struct stand *s)
{
	make_directory(s);
	make_scripted(s);
	raise_up(s);
}

void stand_down(struct stand *s)
{
	domain_close(s->domain);
	if (s->executor)
		stand_executor_kill(s);
	http_client_free(s->control);
	config_free(s->config);
	if (getenv("PADDOCK_STAND_KEEP")) {
		printf("# kept: %s\n", s->dir);
		return;
	}
	stand_pg(s, "stop");
	int tmp = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	(void)io_remove_tree(tmp, s->dir + strlen("/tmp/"), NULL);
	close(tmp);
}
