#include "executor/gate.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/str.h"
#include "core/unixsock.h"

#define TURN_ACCEPTS 64
#define PAUSE_MS 100           /* when not even the spare descriptor helps */

/* What may happen very often. */
struct tale {
	const char *event;
	struct loop_timer *timer;
	bool quiet;                /* until the timer */
	uint64_t untold;
	uid_t uid;                 /* of the last one */
};

struct gate {
	int fd, spare;
	struct loop_io *io;
	struct loop_timer *pause;
	struct tale refused, exhausted;
	const struct gate_events *ev;
	void *arg;
};

/* --- telling --- */

static void say(struct tale *t, uint64_t count)
{
	char n[24], uid[24];

	(void)str_fmt(n, sizeof n, "%" PRIu64, count);
	(void)str_fmt(uid, sizeof uid, "%ld", (long)(int32_t)t->uid);
	log_kv(LOG_WARN, t->event, "count", n, "last_uid", uid, NULL);
	t->quiet = true;
	loop_timer_set(t->timer, GATE_TELL_MS);
}

static void tell(struct tale *t, uid_t uid)
{
	t->uid = uid;
	if (t->quiet)
		t->untold++;
	else
		say(t, 1);
}

static void on_quiet_over(void *arg)
{
	struct tale *t = arg;
	uint64_t count = t->untold;

	t->quiet = false;
	t->untold = 0;
	if (count)
		say(t, count);
}

/* --- accepting --- */

static int spare_fd(void)
{
	return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static int next_peer(struct gate *g)
{
	return accept4(g->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

static void on_pause_over(void *arg)
{
	struct gate *g = arg;

	if (loop_io_set(g->io, LOOP_READ) < 0)
		loop_timer_set(g->pause, PAUSE_MS);
}

static void wait_a_little(struct gate *g)
{
	(void)loop_io_set(g->io, 0);
	loop_timer_set(g->pause, PAUSE_MS);
}

static void close_peer(int fd, struct tale *t)
{
	struct unix_peer peer;

	tell(t, unix_peer(fd, &peer, NULL) == 0 ? peer.uid : (uid_t)-1);
	close(fd);
}

/* Closes one who waits, on the spare descriptor. False: it could not be done now. */
static bool turn_away(struct gate *g)
{
	int fd;

	if (g->spare < 0)
		g->spare = spare_fd();
	if (g->spare < 0)
		return false;
	close(g->spare);
	fd = next_peer(g);
	if (fd >= 0)
		close_peer(fd, &g->exhausted);
	g->spare = spare_fd();
	return fd >= 0;
}

static void receive(struct gate *g, int fd)
{
	struct unix_peer peer;

	if (unix_peer(fd, &peer, NULL) == 0 && g->ev->wanted(g->arg, peer.uid))
		g->ev->entered(g->arg, fd);
	else
		close_peer(fd, &g->refused);
}

/* One peer. False: nobody waits, or nobody can be let in now. */
static bool accept_one(struct gate *g)
{
	int fd = next_peer(g);

	if (fd >= 0) {
		receive(g, fd);
		return true;
	}
	if (errno == EINTR || errno == ECONNABORTED)
		return true;
	if (errno == EAGAIN)
		return false;
	if ((errno == EMFILE || errno == ENFILE) && turn_away(g))
		return true;
	wait_a_little(g);
	return false;
}

static void on_ready(void *arg, int fd, int events)
{
	struct gate *g = arg;

	(void)fd;
	(void)events;
	for (int i = 0; i < TURN_ACCEPTS && accept_one(g); i++)
		;
	g->ev->done(g->arg);
}

/* --- opening --- */

struct gate *gate_new(struct loop *l, int listen_fd, const struct gate_events *ev, void *arg, err_t **err)
{
	struct gate *g = calloc(1, sizeof *g);

	if (!g) {
		close(listen_fd);
		err_set(err, ERR_NO_MEMORY, NULL, "gate");
		return NULL;
	}
	*g = (struct gate){ .fd = listen_fd, .spare = spare_fd(), .ev = ev, .arg = arg, .refused.event = "peer_refused", .exhausted.event = "descriptors_exhausted" };
	g->io = loop_io_new(l, listen_fd, LOOP_READ, on_ready, g);
	g->pause = loop_timer_new(l, on_pause_over, g);
	g->refused.timer = loop_timer_new(l, on_quiet_over, &g->refused);
	g->exhausted.timer = loop_timer_new(l, on_quiet_over, &g->exhausted);
	if (!g->io || !g->pause || !g->refused.timer || !g->exhausted.timer) {
		gate_free(g);
		err_set(err, ERR_NO_MEMORY, NULL, "gate");
		return NULL;
	}
	return g;
}

void gate_free(struct gate *g)
{
	if (!g)
		return;
	loop_io_free(g->io);
	loop_timer_free(g->pause);
	loop_timer_free(g->refused.timer);
	loop_timer_free(g->exhausted.timer);
	if (g->spare >= 0)
		close(g->spare);
	close(g->fd);
	free(g);
}
