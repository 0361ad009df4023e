/* The master's children with a stand-in for what they do: no sockets, no database. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "core/unixsock.h"
#include "fcgi/listen.h"
#include "fcgi/seats.h"
#include "fcgi/stop.h"

enum behaviour { OBEY, CRASH, IGNORE_STOP, RECYCLE };

struct world {
	struct board *board;
	struct seats *seats;
	_Atomic int *behaviour;
	int64_t now;   /* the master's clock is ours */
};

static int child(void *arg, enum board_role role, const struct config *c, struct board_slot *slot)
{
	struct world *w = arg;
	bool janitor = role == BOARD_JANITOR;

	(void)c;
	if (stop_open() < 0)
		_exit(9);
	if (*w->behaviour == CRASH && !janitor)
		_exit(3);
	board_idle(slot);
	if (*w->behaviour == RECYCLE && !janitor) {
		slot->done = 1;
		_exit(0);
	}
	while (!stop_asked() || (*w->behaviour == IGNORE_STOP && !janitor))
		usleep(1000);
	_exit(0);
}

static int set_up(void **state)
{
	struct world *w = calloc(1, sizeof(*w));
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	log_init("test", LOG_ERROR);
	w->board = board_new();
	w->behaviour = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	w->seats = seats_new(w->board, child, w);
	w->now = 1000;
	*state = w;
	return w->board && w->seats ? 0 : -1;
}

/* Lets real time pass until the children are where `done` wants them; the master's clock stands. */
static void wait_for(struct world *w, bool (*done)(struct world *w))
{
	for (int i = 0; i < 3000 && !done(w); i++) {
		usleep(1000);
		seats_reap(w->seats, w->now);
	}
	assert_true(done(w));
}

static bool all_gone(struct world *w)
{
	return seats_count(w->seats, 0) == 0;
}

static bool first_ready(struct world *w)
{
	return seats_ready(w->seats, 1);
}

static bool second_ready(struct world *w)
{
	return seats_ready(w->seats, 2);
}

static bool first_gone(struct world *w)
{
	return seats_count(w->seats, 1) == 0;
}

static uint64_t wanted;

static bool deaths(struct world *w)
{
	return w->board->deaths >= wanted;
}

static bool recycled(struct world *w)
{
	return w->board->recycled >= wanted;
}

static int tear_down(void **state)
{
	struct world *w = *state;

	*w->behaviour = OBEY;
	seats_retire(w->seats, 0, 1000, w->now);
	wait_for(w, all_gone);
	seats_free(w->seats);
	munmap(w->board, sizeof(*w->board));
	munmap(w->behaviour, 4096);
	free(w);
	return 0;
}

static void fills_seats_and_replaces_the_dead(void **state)
{
	struct world *w = *state;
	int pid;

	assert_int_equal(seats_add_generation(w->seats, NULL, 1, 3, w->now), 0);
	assert_int_equal(seats_count(w->seats, 1), 4);
	wait_for(w, first_ready);
	pid = w->board->slots[1].pid;
	w->now += LIMIT_YOUNG_MS;   /* no longer young: replaced at once */
	kill(pid, SIGKILL);
	wanted = 1;
	wait_for(w, deaths);
	assert_int_equal(seats_next(w->seats, w->now), 0);
	seats_tick(w->seats, w->now);
	wait_for(w, first_ready);
	assert_int_not_equal(w->board->slots[1].pid, pid);
	assert_int_equal(seats_count(w->seats, 1), 4);
}

static void a_crash_loop_is_slowed_down(void **state)
{
	struct world *w = *state;
	int64_t waits = 0;

	*w->behaviour = CRASH;
	assert_int_equal(seats_add_generation(w->seats, NULL, 1, 1, w->now), 0);
	for (wanted = 1; wanted <= 10; wanted++) {
		int64_t from = w->now;

		wait_for(w, deaths);
		for (int i = 0; w->board->slots[0].pid == 0 && i < 100; i++) {
			w->now += seats_next(w->seats, w->now);
			seats_tick(w->seats, w->now);
		}
		assert_true(w->now - from >= waits / 2 && w->now - from <= LIMIT_RESPAWN_MAX_MS);
		assert_true(w->now - from >= waits || waits == LIMIT_RESPAWN_MAX_MS);
		waits = w->now - from;
	}
	assert_int_equal(waits, LIMIT_RESPAWN_MAX_MS);
}

static void a_worker_that_leaves_by_itself_is_no_death(void **state)
{
	struct world *w = *state;

	*w->behaviour = RECYCLE;
	assert_int_equal(seats_add_generation(w->seats, NULL, 1, 1, w->now), 0);
	for (wanted = 1; wanted <= 3; wanted++) {
		wait_for(w, recycled);
		seats_tick(w->seats, w->now);
	}
	assert_int_equal(w->board->deaths, 0);
}

static void a_new_generation_replaces_the_old(void **state)
{
	struct world *w = *state;

	assert_int_equal(seats_add_generation(w->seats, NULL, 1, 2, w->now), 0);
	wait_for(w, first_ready);
	assert_int_equal(seats_add_generation(w->seats, NULL, 2, 3, w->now), 0);
	wait_for(w, second_ready);
	seats_retire(w->seats, 2, 1000, w->now);
	wait_for(w, first_gone);
	assert_int_equal(seats_count(w->seats, 2), 4);
	assert_int_equal(w->board->deaths, 0);
}

static void who_overstays_is_killed(void **state)
{
	struct world *w = *state;

	*w->behaviour = IGNORE_STOP;
	assert_int_equal(seats_add_generation(w->seats, NULL, 1, 2, w->now), 0);
	wait_for(w, first_ready);
	seats_retire(w->seats, 0, 1000, w->now);
	seats_tick(w->seats, w->now + 999);
	usleep(20000);
	seats_reap(w->seats, w->now);
	assert_true(seats_count(w->seats, 0) >= 2);
	w->now += 1000;
	seats_tick(w->seats, w->now);
	wait_for(w, all_gone);
}

static void who_is_stuck_is_killed_and_replaced(void **state)
{
	struct world *w = *state;
	int pid;

	assert_int_equal(seats_add_generation(w->seats, NULL, 1, 1, w->now), 0);
	wait_for(w, first_ready);
	pid = w->board->slots[0].pid;
	board_busy(&w->board->slots[0], w->now);
	w->now += LIMIT_REQUEST_MS;
	seats_tick(w->seats, w->now);
	assert_int_equal(w->board->stuck, 0);
	w->now++;
	seats_tick(w->seats, w->now);
	assert_int_equal(w->board->stuck, 1);
	wanted = 1;
	wait_for(w, deaths);
	seats_tick(w->seats, w->now);
	wait_for(w, first_ready);
	assert_int_not_equal(w->board->slots[0].pid, pid);
}

static void there_is_room_for_two_generations(void **state)
{
	struct world *w = *state;

	assert_int_equal(seats_add_generation(w->seats, NULL, 1, 0, w->now), -1);
	assert_int_equal(seats_add_generation(w->seats, NULL, 1, LIMIT_WORKERS + 1, w->now), -1);
	assert_int_equal(seats_count(w->seats, 0), 0);
}

static void counters_outlive_children(void **state)
{
	struct world *w = *state;
	cleanup_buf struct buf b = BUF_INIT(1 << 16);
	cleanup_json json_t *o = NULL;

	board_count(&w->board->slots[0], 204, 1500);
	board_count(&w->board->slots[7], 503, 500000);
	board_count(&w->board->slots[7], 0, 0);
	assert_int_equal(board_metrics(w->board, &b), 0);
	assert_non_null(strstr(buf_str(&b), "paddock_api_requests_total{class=\"2xx\"} 1\n"));
	assert_non_null(strstr(buf_str(&b), "paddock_api_requests_total{class=\"5xx\"} 1\n"));
	assert_non_null(strstr(buf_str(&b), "paddock_api_request_seconds_sum 0.501500\n"));
	assert_non_null(strstr(buf_str(&b), "paddock_api_request_seconds_count 3\n"));
	o = board_json(w->board);
	assert_string_equal(json_text(o, NULL), "{\"generation\":0,\"workers\":[]}");
}

/* The lock is the master's alone: a child that keeps the socket does not keep the next master from the path. */
static void the_next_master_takes_the_path_at_once(void **state)
{
	char dir[] = "/tmp/paddock-test-XXXXXX", path[64];
	struct listen_socket a, b;
	struct stat st;
	pid_t holder;
	int held[2];
	char c;

	(void)state;
	assert_non_null(mkdtemp(dir));
	assert_int_equal(str_fmt(path, sizeof(path), "%s/s", dir), 0);
	assert_int_equal(pipe(held), 0);
	holder = fork();
	if (holder == 0) {   /* a master with a child that outlives it */
		if (listen_open(path, "", &a, NULL) < 0)
			_exit(1);
		if (fork() == 0) {
			assert_int_equal(write(held[1], "x", 1), 1);
			sleep(2);
			_exit(0);
		}
		pause();
	}
	assert_int_equal(read(held[0], &c, 1), 1);
	assert_int_equal(listen_open(path, "", &b, NULL), -1);   /* while it lives: no */
	kill(holder, SIGKILL);
	usleep(50000);
	assert_int_equal(listen_open(path, "", &b, NULL), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0660);
	listen_close(&b, path);
	assert_int_equal(stat(path, &st), -1);
	str_fmt(path, sizeof(path), "%s/s.lock", dir);
	unlink(path);
	rmdir(dir);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(fills_seats_and_replaces_the_dead), T(a_crash_loop_is_slowed_down), T(a_worker_that_leaves_by_itself_is_no_death),
		T(a_new_generation_replaces_the_old), T(who_overstays_is_killed), T(who_is_stuck_is_killed_and_replaced), T(there_is_room_for_two_generations),
		T(counters_outlive_children), T(the_next_master_takes_the_path_at_once),
	};
#undef T

	return cmocka_run_group_tests(tests, NULL, NULL);
}
