/* host_keep.c - see host_keep.h. */
#include "provider/host_keep.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/log.h"
#include "base/str.h"
#include "core/id.h"
#include "provider/host_keeper.h"
#include "provider/host_tree.h"
#include "provider/workspace.h"

#define REQUEST_MS 5000
#define FIELDS 5

struct request {
	char bytes[HOST_REQUEST_MAX];
	char *field[FIELDS];
	size_t n;
};

static int read_request(int fd, struct request *r)
{
	struct timeval limit = { .tv_sec = REQUEST_MS / 1000 };
	size_t len = 0;
	ssize_t got;

	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	while ((got = io_read(fd, r->bytes + len, sizeof(r->bytes) - len)) > 0)
		len += (size_t)got;
	if (got < 0 || len == 0 || len == sizeof(r->bytes) || r->bytes[len - 1] != '\0')
		return -1;
	for (size_t at = 0; at < len; at += strlen(r->bytes + at) + 1) {
		if (r->n == FIELDS)
			return -1;
		r->field[r->n++] = r->bytes + at;
	}
	return 0;
}

/* The executor may be gone: then nobody needs the answer. */
static void answer(int fd, const char *text)
{
	(void)send(fd, text, strlen(text), MSG_NOSIGNAL);
}

static void answer_error(int fd, const err_t *err)
{
	const char *word = err_code(err) == ERR_BUSY ? "busy" : err_code(err) == ERR_NOT_FOUND ? "not_found" : err_code(err) == ERR_NO_SPACE ? "no_space" : "failed";
	char text[1024];

	if (str_fmt(text, sizeof(text), "error %s %s", word, err_message(err)) < 0)
		str_fmt(text, sizeof(text), "error %s (too long to tell)", word);
	answer(fd, text);
}

static int open_root(const struct config *c, err_t **err)
{
	const char *path = config_str(c, "host.sandboxes");
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? err_sys(err, errno, "[host] sandboxes: %s", path) : fd;
}

static int start(const struct config *c, int fd, struct request *r, err_t **err)
{
	struct host_keeper k = { .config = c, .id = r->field[1], .workspace = r->field[2], .token = r->field[3], .token_hash = r->field[4], .dir_fd = -1, .lock_fd = -1 };
	cleanup_close int root = -1;
	int null;

	if (r->n != 5 || !id_valid(k.id) || !workspace_name_valid(k.workspace) || strlen(k.token_hash) >= AGENT_HASH_SIZE)
		return err_set(err, ERR_INVALID, NULL, "bad request");
	root = open_root(c, err);
	if (root < 0 || host_keeper_start(&k, root, err) < 0)
		return -1;
	explicit_bzero(r->field[3], strlen(r->field[3]));
	answer(fd, "ok");
	close(fd);
	/* from here on nobody but the sandbox counts: a log that nobody reads any more would stop us */
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null >= 0)
		for (int i = 0; i <= 2; i++)
			(void)dup2(null, i);
	host_keeper_stay(&k);
	return 0;
}

static int remove_all(const struct config *c, int fd, const struct request *r, err_t **err)
{
	cleanup_close int root = -1;
	cleanup_close int dir = -1;
	cleanup_close int lock = -1;
	cleanup_err err_t *why = NULL;

	if (r->n != 2 || !id_valid(r->field[1]))
		return err_set(err, ERR_INVALID, NULL, "bad request");
	root = open_root(c, err);
	dir = root < 0 ? -1 : host_layout_open(root, r->field[1], &why);
	if (root < 0 || (dir < 0 && err_code(why) != ERR_NOT_FOUND))
		return err_move(err, steal_ptr(&why));
	lock = dir < 0 ? -1 : host_layout_lock(dir, &why);
	if (dir >= 0 && lock < 0 && err_code(why) != ERR_NOT_FOUND)
		return err_move(err, steal_ptr(&why));
	host_keeper_leave_group(c, r->field[1]);   /* of a keeper that was killed */
	if (dir >= 0 && (host_tree_empty(dir, "lock", err) < 0 || (unlinkat(dir, "lock", 0) < 0 && errno != ENOENT && err_sys(err, errno, "lock") < 0)))
		return -1;
	if (dir >= 0 && unlinkat(root, r->field[1], AT_REMOVEDIR) < 0 && errno != ENOENT)
		return err_sys(err, errno, "the sandbox's directory");
	answer(fd, "ok");
	return 0;
}

int host_keep(const struct config *c, int conn_fd)
{
	struct request r = { .n = 0 };
	cleanup_err err_t *err = NULL;
	int rc;

	if (read_request(conn_fd, &r) < 0)
		return 1;
	if (str_eq(r.field[0], "start"))
		rc = start(c, conn_fd, &r, &err);
	else if (str_eq(r.field[0], "remove"))
		rc = remove_all(c, conn_fd, &r, &err);
	else if (str_eq(r.field[0], "probe"))
		rc = host_keeper_probe(c, conn_fd, &err);
	else
		rc = err_set(&err, ERR_INVALID, NULL, "unknown request");
	if (rc < 0) {
		log_kv(LOG_WARN, "request_failed", "request", r.field[0], "err", err_message(err), NULL);
		answer_error(conn_fd, err);
	}
	return rc < 0 ? 1 : 0;
}
