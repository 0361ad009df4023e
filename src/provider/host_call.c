/* host_call.c - see host_call.h. */
#include "provider/host_call.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/str.h"
#include "core/unixsock.h"

#define ANSWER_MAX 8192
#define REQUEST_MAX 4096

struct host_call {
	int fd;
	struct loop_io *io;
	struct loop_timer *timer;
	struct buf answer;
	host_call_fn *fn;
	void *arg;
};

static void call_free(struct host_call *c)
{
	if (!c)
		return;
	loop_io_free(c->io);
	loop_timer_free(c->timer);
	if (c->fd >= 0)
		close(c->fd);
	buf_free(&c->answer);
	free(c);
}

void host_call_cancel(struct host_call *c)
{
	call_free(c);
}

int host_call_launcher(const struct host_call *c)
{
	struct unix_peer peer;   /* who listens */

	return unix_peer(c->fd, &peer, NULL) == 0 && peer.pid > 1 ? (int)syscall(SYS_pidfd_open, peer.pid, 0) : -1;
}

/* What the answer's last line says; its text is cut off. */
static void judge(char *text, err_t **err)
{
	static const struct {
		const char *word;
		enum err_code code;
		const char *detail;
	} words[] = { { "busy ", ERR_BUSY, "sandbox_runs" }, { "not_found ", ERR_NOT_FOUND, "sandbox_not_found" }, { "no_space ", ERR_NO_SPACE, NULL },
		{ "failed ", ERR_REFUSED, "sandbox_not_started" } };
	char *last = strrchr(text, '\n');

	last = last ? last + 1 : text;
	if (str_eq(last, "ok")) {
		*last = '\0';
		return;
	}
	for (size_t i = 0; str_prefix(last, "error ") && i < sizeof(words) / sizeof(words[0]); i++) {
		const char *rest = last + strlen("error ");

		if (str_prefix(rest, words[i].word)) {
			err_set(err, words[i].code, words[i].detail, "%s", rest + strlen(words[i].word));
			return;
		}
	}
	err_set(err, ERR_UNKNOWN, "no_answer", "the launcher gave no answer");
}

static void finish(struct host_call *c, const err_t *failed)
{
	cleanup_err err_t *err = NULL;
	cleanup_free char *text = failed ? NULL : buf_steal(&c->answer);
	host_call_fn *fn = c->fn;
	void *arg = c->arg;

	if (!failed && text)
		judge(text, &err);
	else if (!failed)
		err_set(&err, ERR_UNKNOWN, "no_answer", "the launcher gave no answer");
	call_free(c);
	fn(arg, text && !err ? text : "", failed ? failed : err);
}

static void on_readable(void *arg, int fd, int events)
{
	struct host_call *c = arg;
	char bytes[1024];
	ssize_t n;

	(void)events;
	while ((n = io_read(fd, bytes, sizeof(bytes))) > 0)
		if (buf_add(&c->answer, bytes, (size_t)n) < 0)
			break;
	if (n < 0 && errno == EAGAIN)
		return;
	finish(c, NULL);
}

static void on_late(void *arg)
{
	cleanup_err err_t *err = NULL;

	err_set(&err, ERR_UNKNOWN, "no_answer", "the launcher did not answer in time");
	finish(arg, err);
}

static int send_request(int fd, const char *const *fields, err_t **err)
{
	cleanup_buf struct buf b = BUF_INIT(REQUEST_MAX);
	ssize_t n;

	for (; *fields; fields++)
		buf_add(&b, *fields, strlen(*fields) + 1);
	if (buf_failed(&b))
		return err_set(err, ERR_TOO_LARGE, NULL, "request to the launcher");
	n = send(fd, b.data, b.len, MSG_NOSIGNAL);   /* a new socket takes so little at once */
	explicit_bzero(b.data, b.len);
	if (n != (ssize_t)b.len || shutdown(fd, SHUT_WR) < 0)
		return err_set(err, ERR_UNAVAILABLE, "launcher_away", "the launcher took no request");
	return 0;
}

static int dial(const char *socket_path, err_t **err)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	cleanup_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || str_copy(a.sun_path, sizeof(a.sun_path), socket_path) < 0)
		return err_set(err, ERR_UNAVAILABLE, "launcher_away", "no socket for the launcher");
	if (connect(fd, (const struct sockaddr *)&a, sizeof(a)) < 0)
		return err_set(err, ERR_UNAVAILABLE, "launcher_away", "no answer at %s: is paddock-launcher running? (%s)", socket_path, strerror(errno));
	return steal_fd(&fd);
}

struct host_call *host_call_start(struct loop *l, const char *socket, const char *const *fields, int64_t ms, host_call_fn *fn, void *arg, err_t **err)
{
	struct host_call *c = calloc(1, sizeof(*c));

	if (!c) {
		err_set(err, ERR_NO_MEMORY, NULL, "call");
		return NULL;
	}
	buf_init(&c->answer, ANSWER_MAX);
	c->fn = fn;
	c->arg = arg;
	c->fd = dial(socket, err);
	if (c->fd < 0 || send_request(c->fd, fields, err) < 0) {
		call_free(c);
		return NULL;
	}
	c->io = loop_io_new(l, c->fd, LOOP_READ, on_readable, c);
	c->timer = loop_timer_new(l, on_late, c);
	if (!c->io || !c->timer) {
		call_free(c);
		err_set(err, ERR_UNKNOWN, NULL, "out of memory for the launcher's answer");
		return NULL;
	}
	loop_timer_set(c->timer, ms);
	return c;
}
