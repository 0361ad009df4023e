#include "fcgi/master.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "fcgi/confine.h"
#include "fcgi/janitor.h"
#include "fcgi/listen.h"
#include "fcgi/seats.h"
#include "fcgi/worker.h"

struct master {
	struct config *config, *next, *old;   /* serving; being brought up; of a generation that drains */
	const char *config_path;
	char *socket_path;
	struct listen_socket sock;
	struct board *board;
	struct seats *seats;
	unsigned generation;         /* the one that serves */
	int64_t give_up_at;          /* next != NULL: when its generation must be ready */
	int signal_fd;
	bool stopping, reload_wanted;
};

static int child(void *arg, enum board_role role, const struct config *c, struct board_slot *slot)
{
	struct master *m = arg;

	close(m->signal_fd);
	close(m->sock.lock_fd);
	if (role == BOARD_WORKER)
		return worker_main(c, m->board, slot, m->sock.fd);
	close(m->sock.fd);
	return janitor_main(c, slot);
}

static int open_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return -1;
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void log_generation(enum log_level lvl, const char *event, unsigned generation, const char *err)
{
	char num[16];

	snprintf(num, sizeof(num), "%u", generation);
	log_kv(lvl, event, "generation", num, "err", err, NULL);
}

static void refuse_reload(struct master *m, const char *why)
{
	m->board->reload_failures++;
	log_generation(LOG_ERROR, "reload_failed", m->generation, why);
}

static void begin_reload(struct master *m, int64_t now)
{
	cleanup_err err_t *e = NULL;
	struct config *c = config_load(m->config_path, &e);

	m->reload_wanted = false;
	if (!c) {
		refuse_reload(m, err_message(e));
		return;
	}
	if (!str_eq(config_str(c, "api.socket"), m->socket_path))
		log_generation(LOG_WARN, "reload_keeps_socket", m->generation, "[api] socket needs a restart");
	if (seats_add_generation(m->seats, c, m->generation + 1, (int)config_int(c, "api.workers"), now) < 0) {
		refuse_reload(m, "too many workers");
		config_free(c);
		return;
	}
	m->next = c;
	m->give_up_at = now + LIMIT_READY_MS;
}

/* A generation is on its way up: is it there, or to be given up? */
static void check_reload(struct master *m, int64_t now)
{
	if (seats_ready(m->seats, m->generation + 1)) {
		m->generation++;
		m->board->generation = m->generation;
		m->board->reloads++;
		log_generation(LOG_INFO, "reloaded", m->generation, NULL);
		seats_retire(m->seats, m->generation, config_int(m->config, "api.drain_ms"), now);
		m->old = m->config;
		m->config = steal_ptr(&m->next);
	} else if (now >= m->give_up_at) {
		refuse_reload(m, "the new workers did not get ready");
		seats_retire(m->seats, m->generation, config_int(m->config, "api.drain_ms"), now);
		m->old = steal_ptr(&m->next);
	}
}

static void begin_stop(struct master *m, int64_t now)
{
	if (m->stopping)
		return;
	m->stopping = true;
	log_generation(LOG_INFO, "stopping", m->generation, NULL);
	listen_close(&m->sock, m->socket_path);
	seats_retire(m->seats, 0, config_int(m->config, "api.drain_ms"), now);
}

static void take_signals(struct master *m, int64_t now)
{
	struct signalfd_siginfo si;

	while (read(m->signal_fd, &si, sizeof(si)) == (ssize_t)sizeof(si)) {
		if (si.ssi_signo == SIGTERM || si.ssi_signo == SIGINT)
			begin_stop(m, now);
		else if (si.ssi_signo == SIGHUP)
			m->reload_wanted = true;
	}
}

static void loop(struct master *m)
{
	while (!m->stopping || seats_count(m->seats, 0) > 0) {
		int64_t now = clock_boot_ms();
		struct pollfd p = { .fd = m->signal_fd, .events = POLLIN };

		poll(&p, 1, (int)seats_next(m->seats, now));
		now = clock_boot_ms();
		take_signals(m, now);
		seats_reap(m->seats, now);
		if (!m->stopping && m->next)
			check_reload(m, now);
		if (m->old && !m->next && seats_count(m->seats, 0) == seats_count(m->seats, m->generation)) {
			config_free(m->old);
			m->old = NULL;
		}
		/* One generation at a time: a reload waits until the one before has drained. */
		if (!m->stopping && m->reload_wanted && !m->next && !m->old)
			begin_reload(m, now);
		seats_tick(m->seats, now);
	}
}

static int set_up(struct master *m, err_t **err)
{
	m->signal_fd = open_signals();
	m->board = board_new();
	m->seats = m->board ? seats_new(m->board, child, m) : NULL;
	m->socket_path = str_dup(config_str(m->config, "api.socket"));
	if (m->signal_fd < 0 || !m->seats || !m->socket_path)
		return err_sys(err, errno, "set up");
	if (confine_self(err) < 0 || listen_open(m->socket_path, config_str(m->config, "api.socket_group"), &m->sock, err) < 0)
		return -1;
	m->generation = 1;
	m->board->generation = 1;
	if (seats_add_generation(m->seats, m->config, 1, (int)config_int(m->config, "api.workers"), clock_boot_ms()) < 0)
		return err_set(err, ERR_INVALID, NULL, "[api] workers is not from 1 to %d", LIMIT_WORKERS);
	return 0;
}

int master_main(struct config *c, const char *path)
{
	struct master m = { .config = c, .config_path = path, .sock = { .fd = -1, .lock_fd = -1 }, .signal_fd = -1 };
	cleanup_err err_t *e = NULL;
	int rc = set_up(&m, &e);

	if (rc < 0) {
		log_kv(LOG_ERROR, "start_failed", "err", err_message(e), NULL);
	} else {
		log_generation(LOG_INFO, "started", m.generation, NULL);
		loop(&m);
		log_generation(LOG_INFO, "stopped", m.generation, NULL);
	}
	seats_free(m.seats);
	free(m.socket_path);
	config_free(m.old);
	config_free(m.next);
	config_free(m.config);
	return rc < 0 ? 1 : 0;
}
