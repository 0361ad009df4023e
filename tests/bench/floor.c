/* floor.c - pre-forked libfcgi workers that do the bare minimum: what the product's workers are measured against.
 *
 *   floor SOCKET WORKERS CONNINFO [AGENT_SOCKET]
 *
 * /pg    one prepared SELECT by primary key
 * /run   INSERT (commit), `true` by miniagent, UPDATE (commit): a recorded command without JSON, authentication and executor */
#include <fcgiapp.h>
#include <libpq-fe.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct {
	const char *name, *text;
	int args;
} statements[] = {
	{"get", "SELECT id, owner, status, attempt, created_at FROM run WHERE id = $1", 1},
	{"begin", "INSERT INTO command (run_id, argv, status) VALUES ($1, '[\"true\"]', 'running') RETURNING id", 1},
	{"end", "UPDATE command SET status = 'exited', exit_code = $2::int, ended_at = now() WHERE id = $1::bigint", 2},
};

static PGconn *db;
static const char *agent_path;
static int agent_fd = -1;
static unsigned seed;

static unsigned next_random(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 17;
	seed ^= seed << 5;
	return seed;
}

static int agent_dial(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};

	if (agent_path == NULL || strlen(agent_path) >= sizeof(a.sun_path))
		return -1;
	memcpy(a.sun_path, agent_path, strlen(agent_path) + 1);
	agent_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	return connect(agent_fd, (struct sockaddr *)&a, sizeof(a));
}

/* Runs `true` over the kept connection; its exit status, or 255. */
static int agent_true(void)
{
	static const char argv[] = "/bin/true";
	char message[4 + sizeof(argv)], piece[4096];
	uint32_t n = sizeof(argv);

	if (agent_fd < 0 && agent_dial() < 0)
		return 255;
	memcpy(message, &n, sizeof(n));
	memcpy(message + sizeof(n), argv, sizeof(argv));
	if (send(agent_fd, message, sizeof(message), MSG_NOSIGNAL) != (ssize_t)sizeof(message))
		return 255;
	while (recv(agent_fd, piece, 5, MSG_WAITALL) == 5) {
		int type = piece[4];

		memcpy(&n, piece, sizeof(n));
		if (n > sizeof(piece) || recv(agent_fd, piece, n, MSG_WAITALL) != (ssize_t)n)
			return 255;
		if (type == 2) {
			int32_t code;

			memcpy(&code, piece, sizeof(code));
			return code;
		}
	}
	return 255;
}

static PGresult *query(const char *name, int n, const char *const *values)
{
	return PQexecPrepared(db, name, n, values, NULL, NULL, 0);
}

static void answer_pg(FCGX_Stream *out)
{
	char id[16];
	const char *values[] = {id};
	PGresult *r;

	snprintf(id, sizeof(id), "run_%06u", next_random() % 100000);
	r = query("get", 1, values);
	if (PQresultStatus(r) != PGRES_TUPLES_OK || PQntuples(r) != 1)
		FCGX_FPrintF(out, "Status: 500\r\n\r\n");
	else
		FCGX_FPrintF(out, "Content-Type: application/json\r\n\r\n{\"id\":\"%s\",\"owner\":\"%s\",\"status\":\"%s\",\"attempt\":%s,\"created_at\":\"%s\"}\n",
			PQgetvalue(r, 0, 0), PQgetvalue(r, 0, 1), PQgetvalue(r, 0, 2), PQgetvalue(r, 0, 3), PQgetvalue(r, 0, 4));
	PQclear(r);
}

static void answer_run(FCGX_Stream *out)
{
	char id[16], command[32] = "0", code[12];
	const char *begin[] = {id}, *end[] = {command, code};
	PGresult *r;
	int rc, ok;

	snprintf(id, sizeof(id), "run_%06u", next_random() % 100000);
	r = query("begin", 1, begin);
	ok = PQresultStatus(r) == PGRES_TUPLES_OK;
	if (ok)
		snprintf(command, sizeof(command), "%s", PQgetvalue(r, 0, 0));
	PQclear(r);
	rc = agent_true();
	snprintf(code, sizeof(code), "%d", rc);
	r = query("end", 2, end);
	ok = ok && PQresultStatus(r) == PGRES_COMMAND_OK && rc == 0;
	PQclear(r);
	FCGX_FPrintF(out, "%sContent-Type: application/json\r\n\r\n{\"id\":%s,\"exit_code\":%d}\n", ok ? "" : "Status: 500\r\n", command, rc);
}

static void worker(int listener, const char *conninfo)
{
	FCGX_Request q;

	prctl(PR_SET_PDEATHSIG, SIGTERM);
	seed = (unsigned)getpid() * 2654435761U | 1;
	db = PQconnectdb(conninfo);
	if (PQstatus(db) != CONNECTION_OK) {
		fprintf(stderr, "%s", PQerrorMessage(db));
		exit(1);
	}
	for (size_t i = 0; i < sizeof(statements) / sizeof(*statements); i++)
		PQclear(PQprepare(db, statements[i].name, statements[i].text, statements[i].args, NULL));
	FCGX_InitRequest(&q, listener, 0);
	while (FCGX_Accept_r(&q) == 0) {
		const char *uri = FCGX_GetParam("REQUEST_URI", q.envp);

		if (uri != NULL && strcmp(uri, "/floor/pg") == 0)
			answer_pg(q.out);
		else if (uri != NULL && strcmp(uri, "/floor/run") == 0)
			answer_run(q.out);
		else
			FCGX_FPrintF(q.out, "Status: 404\r\n\r\n");
		FCGX_Finish_r(&q);
	}
}

int main(int argc, char **argv)
{
	int listener, workers;

	if (argc < 4) {
		fprintf(stderr, "usage: floor SOCKET WORKERS CONNINFO [AGENT_SOCKET]\n");
		return 2;
	}
	agent_path = argc > 4 ? argv[4] : NULL;
	workers = (int)strtol(argv[2], NULL, 10);
	FCGX_Init();
	unlink(argv[1]);
	listener = FCGX_OpenSocket(argv[1], 1024);
	if (listener < 0 || chmod(argv[1], 0666) < 0) {
		perror(argv[1]);
		return 1;
	}
	for (int i = 0; i < workers; i++)
		if (fork() == 0) {
			worker(listener, argv[3]);
			_exit(0);
		}
	while (wait(NULL) > 0)
		;
	return 0;
}
