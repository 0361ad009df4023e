/* gate.h - who comes in at the listening socket.
 *
 * A peer whose uid (SO_PEERCRED) is not wanted is closed before its first byte is read. Without descriptors a spare one is given up to accept and close
 * whoever waits, so that the loop does not spin and nobody hangs in the queue. Both are told in one log line at once and then in one line each
 * GATE_TELL_MS that says how many there were: anyone may connect, and nobody may fill the log. */
#ifndef PADDOCK_EXECUTOR_GATE_H
#define PADDOCK_EXECUTOR_GATE_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "core/loop.h"

#define GATE_TELL_MS 10000

struct gate;

struct gate_events {
	bool (*wanted)(void *arg, uid_t uid);
	void (*entered)(void *arg, int fd);   /* takes it; non-blocking, CLOEXEC */
	void (*done)(void *arg);              /* after a turn of the loop in which somebody entered */
};

/* listen_fd is taken, also on failure. ev is static. */
struct gate *gate_new(struct loop *l, int listen_fd, const struct gate_events *ev, void *arg, err_t **err);
void gate_free(struct gate *g);   /* NULL is fine */

#endif
