#include "unit.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "core/loop.h"

static struct loop *loop;
static int calls;

static void stop(void *arg)
{
	(void)arg;
	calls++;
	loop_stop(loop);
}

/* A test that hangs is a failure. */
static struct loop_timer *guard(void)
{
	struct loop_timer *t = loop_timer_new(loop, stop, NULL);

	loop_timer_set(t, 10000);
	return t;
}

static void timers(void **state)
{
	struct loop_timer *t = loop_timer_new(loop, stop, NULL);
	int64_t before = clock_boot_ms();

	(void)state;
	loop_timer_set(t, 30);
	loop_timer_set(t, 60);   /* the last call counts */
	assert_int_equal(loop_run(loop, NULL), 0);
	assert_true(clock_boot_ms() - before >= 59);
	assert_int_equal(calls, 1);
	loop_timer_set(t, 0);
	assert_int_equal(loop_run(loop, NULL), 0);
	assert_int_equal(calls, 2);
	loop_timer_set(t, 5);
	loop_timer_set(t, -1);
	loop_timer_free(t);
	loop_timer_free(NULL);
}

static struct loop_timer *behind;
static int order[3], n_order;

static void on_first(void *arg)
{
	(void)arg;
	order[n_order++] = 1;
	loop_timer_set(behind, 10000);   /* what follows counts */
	loop_timer_now(behind);
}

static void on_second(void *arg)
{
	(void)arg;
	order[n_order++] = 2;
}

static void on_behind(void *arg)
{
	order[n_order++] = 3;
	loop_timer_free(behind);
	stop(arg);
}

/* In the same turn, behind what was due already. */
static void a_timer_of_this_turn(void **state)
{
	struct loop_timer *first = loop_timer_new(loop, on_first, NULL), *second = loop_timer_new(loop, on_second, NULL);

	(void)state;
	behind = loop_timer_new(loop, on_behind, NULL);
	loop_timer_set(first, 0);
	loop_timer_set(second, 0);
	assert_int_equal(loop_run(loop, NULL), 0);
	assert_int_equal(n_order, 3);
	for (int i = 0; i < 3; i++)
		assert_int_equal(order[i], i + 1);
	loop_timer_free(first);
	loop_timer_free(second);
}

static void stop_before_run(void **state)
{
	(void)state;
	loop_stop(loop);
	assert_int_equal(loop_run(loop, NULL), 0);
}

struct pipe_state {
	int fds[2];
	struct loop_io *in, *out;
	size_t got;
};

static void on_write(void *arg, int fd, int events)
{
	struct pipe_state *p = arg;

	assert_int_equal(events, LOOP_WRITE);
	assert_int_equal(write(fd, "x", 1), 1);
	if (++calls == 3) {
		assert_int_equal(loop_io_set(p->out, 0), 0);
		assert_int_equal(loop_io_set(p->in, LOOP_READ), 0);
	}
}

static void on_read(void *arg, int fd, int events)
{
	struct pipe_state *p = arg;
	char c[8];

	assert_int_equal(events, LOOP_READ);
	p->got += (size_t)read(fd, c, sizeof c);
	loop_io_free(p->in);   /* from its own callback */
	loop_stop(loop);
}

static void descriptors(void **state)
{
	struct pipe_state p = { .got = 0 };
	struct loop_timer *g = guard();

	(void)state;
	assert_int_equal(pipe2(p.fds, O_CLOEXEC | O_NONBLOCK), 0);
	p.in = loop_io_new(loop, p.fds[0], 0, on_read, &p);
	p.out = loop_io_new(loop, p.fds[1], LOOP_WRITE, on_write, &p);
	assert_int_equal(loop_run(loop, NULL), 0);
	assert_int_equal(p.got, 3);
	assert_int_equal(calls, 3);
	loop_io_free(p.out);
	loop_io_free(NULL);
	loop_timer_free(g);
	close(p.fds[0]);
	close(p.fds[1]);
}

static void on_signal(void *arg, int signo)
{
	*(int *)arg = signo;
	loop_stop(loop);
}

static void signals(void **state)
{
	struct loop_timer *g = guard();
	int seen = 0, other = 0;

	(void)state;
	assert_int_equal(loop_signal(loop, SIGUSR1, on_signal, &seen), 0);
	assert_int_equal(loop_signal(loop, SIGUSR2, on_signal, &other), 0);
	kill(getpid(), SIGUSR1);
	assert_int_equal(loop_run(loop, NULL), 0);
	assert_int_equal(seen, SIGUSR1);
	assert_int_equal(other, 0);
	loop_timer_free(g);
}

static int statuses[64];

static void on_child(void *arg, pid_t pid, int status)
{
	(void)pid;
	statuses[(intptr_t)arg] = status;
	if (++calls == 64)
		loop_stop(loop);
}

/* 64 deaths arrive as few signals; each is told once and with its own status. */
static void children(void **state)
{
	struct loop_timer *g = guard();

	(void)state;
	for (intptr_t i = 0; i < 64; i++) {
		pid_t pid = fork();

		if (pid == 0)
			_exit((int)i);
		assert_int_equal(loop_child(loop, pid, on_child, (void *)i), 0);
	}
	assert_int_equal(loop_run(loop, NULL), 0);
	assert_int_equal(calls, 64);
	for (int i = 0; i < 64; i++)
		assert_int_equal(WEXITSTATUS(statuses[i]), i);
	loop_timer_free(g);
}

static void forgotten_children_are_reaped(void **state)
{
	struct loop_timer *t = loop_timer_new(loop, stop, NULL);
	pid_t pid = fork();

	(void)state;
	if (pid == 0)
		_exit(0);
	loop_child(loop, pid, on_child, NULL);
	loop_child_forget(loop, pid);
	loop_child_forget(loop, pid);
	loop_timer_set(t, 100);
	loop_run(loop, NULL);
	assert_int_equal(calls, 1);   /* the timer */
	assert_int_equal(waitpid(pid, NULL, WNOHANG), -1);
	loop_timer_free(t);
}

static void adopted_orphans_are_reaped(void **state)
{
	struct loop_timer *t = loop_timer_new(loop, stop, NULL);

	(void)state;
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	if (fork() == 0) {
		if (fork() == 0)
			usleep(20000);
		_exit(0);
	}
	loop_timer_set(t, 200);
	loop_run(loop, NULL);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);   /* no child is left */
	prctl(PR_SET_CHILD_SUBREAPER, 0);
	loop_timer_free(t);
}

static void the_mask_is_given_back(void **state)
{
	sigset_t now;
	pid_t pid;
	int status;

	(void)state;
	sigprocmask(SIG_SETMASK, NULL, &now);
	assert_true(sigismember(&now, SIGCHLD));
	pid = fork();
	if (pid == 0) {
		loop_unblock_signals();
		sigprocmask(SIG_SETMASK, NULL, &now);
		_exit(sigismember(&now, SIGCHLD));
	}
	loop_free(loop);
	loop = NULL;
	sigprocmask(SIG_SETMASK, NULL, &now);
	assert_false(sigismember(&now, SIGCHLD));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static int setup(void **state)
{
	(void)state;
	calls = 0;
	loop = loop_new(NULL);
	return !loop;
}

static int teardown(void **state)
{
	(void)state;
	loop_free(loop);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(timers, setup, teardown),
		cmocka_unit_test_setup_teardown(a_timer_of_this_turn, setup, teardown), cmocka_unit_test_setup_teardown(stop_before_run, setup, teardown),
		cmocka_unit_test_setup_teardown(descriptors, setup, teardown), cmocka_unit_test_setup_teardown(signals, setup, teardown),
		cmocka_unit_test_setup_teardown(children, setup, teardown),
		cmocka_unit_test_setup_teardown(forgotten_children_are_reaped, setup, teardown),
		cmocka_unit_test_setup_teardown(adopted_orphans_are_reaped, setup, teardown),
		cmocka_unit_test_setup_teardown(the_mask_is_given_back, setup, teardown),
	};

	return cmocka_run_group_tests_name("loop", tests, NULL, NULL);
}
