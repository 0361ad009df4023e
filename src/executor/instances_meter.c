#include "executor/instances_meter.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/log.h"
#include "base/num.h"
#include "base/str.h"
#include "executor/boot.h"

#define LINE_SIZE 79   /* 36 + 1 + 20 + 1 + 20 + 1 */

struct meter {
	int fd;
	int64_t before_ms;      /* until when our predecessor watched; 0: unknown */
	int64_t seen_ms;        /* until when we did, as it is written */
	unsigned open;          /* confirmed open stretches */
	bool complained;
	struct loop_timer *timer;
};

/* One write over the same bytes: there is no moment without a whole line. */
static void see(struct meter *m)
{
	struct boot_stamp now;
	char line[LINE_SIZE + 1];

	boot_stamp_now(&now);
	if (now.boot_ms == m->seen_ms)
		return;
	if (str_fmt(line, sizeof line, "%-36s %-20" PRId64 " %-20" PRId64 "\n", now.boot, now.boot_ms, now.wall_ms) < 0)
		return;
	if (io_pwrite_full(m->fd, line, LINE_SIZE, 0) == 0) {
		m->seen_ms = now.boot_ms;
		m->complained = false;
	} else if (!m->complained) {
		log_kv(LOG_ERROR, "seen_not_written", "err", strerror(errno), NULL);
		m->complained = true;
	}
}

static void on_timer(void *arg)
{
	struct meter *m = arg;

	see(m);
	if (m->open > 0)
		loop_timer_set(m->timer, METER_SEEN_MS);
}

/* What cannot be read counts for nothing. */
static int64_t predecessor(int fd)
{
	char line[LINE_SIZE + 1] = "";
	struct boot_stamp at = { "", 0, 0 };

	if (io_pread(fd, line, LINE_SIZE, 0) != LINE_SIZE || line[36] != ' ' || line[57] != ' ' || line[78] != '\n')
		return 0;
	for (char *p = line; p < line + LINE_SIZE; p++)
		if (*p == ' ' || *p == '\n')
			*p = '\0';   /* the numbers end where their padding begins */
	(void)str_copy(at.boot, sizeof at.boot, line);
	if (num_i64(line + 37, 0, INT64_MAX, &at.boot_ms) < 0 || num_i64(line + 58, 0, INT64_MAX, &at.wall_ms) < 0)
		return 0;
	return boot_rebase(&at, at.boot_ms);
}

struct meter *meter_open(struct loop *l, int state_fd, err_t **err)
{
	struct meter *m = calloc(1, sizeof *m);

	if (!m) {
		err_set(err, ERR_NO_MEMORY, NULL, "seen");
		return NULL;
	}
	m->timer = loop_timer_new(l, on_timer, m);
	m->fd = openat(state_fd, "seen", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (!m->timer || m->fd < 0) {
		if (m->fd < 0)
			(void)err_sys(err, errno, "seen");
		else
			(void)err_set(err, ERR_NO_MEMORY, NULL, "seen");
		loop_timer_free(m->timer);
		if (m->fd >= 0)
			close(m->fd);
		free(m);
		return NULL;
	}
	m->before_ms = predecessor(m->fd);
	return m;
}

void meter_flush(struct meter *m)
{
	if (m->open > 0)
		see(m);
}

void meter_close(struct meter *m)
{
	if (!m)
		return;
	loop_timer_free(m->timer);
	close(m->fd);
	free(m);
}

static void count_open(struct meter *m)
{
	if (m->open++ == 0)
		loop_timer_set(m->timer, METER_SEEN_MS);
}

void meter_take_up(struct meter *m, struct metered *t)
{
	if (t->since_ms && t->confirmed && m->before_ms && m->before_ms > t->since_ms) {
		t->running_ms += m->before_ms - t->since_ms;
		t->since_ms = m->before_ms;
	}
	t->confirmed = false;
}

void meter_start(struct meter *m, struct metered *t)
{
	if (t->since_ms && t->confirmed)
		return;
	if (!t->since_ms)
		t->since_ms = clock_boot_ms();
	t->confirmed = true;
	count_open(m);
}

void meter_stop(struct meter *m, struct metered *t)
{
	if (t->since_ms && t->confirmed) {
		t->running_ms += clock_boot_ms() - t->since_ms;
		m->open--;
	}
	t->since_ms = 0;
	t->confirmed = false;
}

void meter_forget(struct meter *m, const struct metered *t)
{
	if (t->since_ms && t->confirmed)
		m->open--;
}

int64_t meter_total(struct meter *m, const struct metered *t)
{
	if (!t->since_ms || !t->confirmed)
		return t->running_ms;
	see(m);
	return t->running_ms + (m->seen_ms > t->since_ms ? m->seen_ms - t->since_ms : 0);
}
