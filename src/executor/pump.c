#include "executor/pump.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"

#define TURN_BYTES (1u << 20)      /* per pipe and turn */

struct pump_pipe {
	struct pump *pump;
	int fd;                    /* -1: closed */
	struct loop_io *io;
};

struct pump {
	struct pump_pipe pipes[2];
	struct output *o;
	const struct pump_events *ev;
	void *arg;
};

struct pump_counters pump_counters;

static void pipe_close(struct pump_pipe *p)
{
	loop_io_free(p->io);
	p->io = NULL;
	if (p->fd >= 0)
		close(p->fd);
	p->fd = -1;
}

static ssize_t take(struct pump *p, unsigned which, size_t max)
{
	int64_t t0 = clock_boot_us(), us;
	ssize_t n = output_take(p->o, (enum output_stream)which, p->pipes[which].fd, max);

	us = clock_boot_us() - t0;
	if (us > (int64_t)pump_counters.longest_us)
		pump_counters.longest_us = (uint64_t)us;
	if (n > 0) {
		pump_counters.bytes += (uint64_t)n;
		pump_counters.splices++;
	}
	return n;
}

static void on_readable(void *arg, int fd, int events)
{
	struct pump_pipe *pp = arg;
	struct pump *p = pp->pump;
	unsigned which = (unsigned)(pp - p->pipes);
	ssize_t n = take(p, which, TURN_BYTES);

	(void)fd;
	(void)events;
	if (n > 0)
		p->ev->grown(p->arg);
	if (n > 0 || (n < 0 && errno == EAGAIN))
		return;
	pipe_close(pp);
	if (p->pipes[0].fd < 0 && p->pipes[1].fd < 0)
		p->ev->closed(p->arg);
}

struct pump *pump_new(struct loop *l, struct output *o, int out_fd, int err_fd, const struct pump_events *ev, void *arg, err_t **err)
{
	struct pump *p = calloc(1, sizeof *p);

	if (!p) {
		close(out_fd);
		close(err_fd);
		err_set(err, ERR_NO_MEMORY, NULL, "pump");
		return NULL;
	}
	*p = (struct pump){ .pipes = { { p, out_fd, NULL }, { p, err_fd, NULL } }, .o = output_ref(o), .ev = ev, .arg = arg };
	for (int i = 0; i < 2; i++)
		p->pipes[i].io = loop_io_new(l, p->pipes[i].fd, LOOP_READ, on_readable, &p->pipes[i]);
	if (!p->pipes[0].io || !p->pipes[1].io) {
		pump_free(p);
		err_set(err, ERR_NO_MEMORY, NULL, "pump");
		return NULL;
	}
	return p;
}

void pump_free(struct pump *p)
{
	if (!p)
		return;
	pipe_close(&p->pipes[0]);
	pipe_close(&p->pipes[1]);
	output_unref(p->o);
	free(p);
}

static void pipe_take_rest(struct pump *p, unsigned which)
{
	int left = 0;
	ssize_t n;

	if (p->pipes[which].fd < 0 || ioctl(p->pipes[which].fd, FIONREAD, &left) < 0)
		return;
	while (left > 0) {
		n = take(p, which, (size_t)left);
		if (n <= 0)
			return;
		left -= (int)n;
	}
}

void pump_take_rest(struct pump *p)
{
	pipe_take_rest(p, 0);
	pipe_take_rest(p, 1);
}
