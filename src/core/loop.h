/* loop.h - the event loop: a thin header over libevent_core, so that nothing else includes it. Single-threaded.
 *
 * Callbacks run from loop_run() only. Watches are owned by the caller and must be freed before the loop. Freeing a watch
 * from its own callback is fine.
 *
 * Signals are taken by signalfd: SIGCHLD and every signal given to loop_signal() are blocked from loop_new()/loop_signal() to
 * loop_free(). A blocked mask survives fork and exec, so a forked child calls loop_unblock_signals() before it goes on. */
#ifndef PADDOCK_CORE_LOOP_H
#define PADDOCK_CORE_LOOP_H

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct loop;
struct loop_io;
struct loop_timer;

enum { LOOP_READ = 1, LOOP_WRITE = 2 };

typedef void loop_io_fn(void *arg, int fd, int events);
typedef void loop_timer_fn(void *arg);
typedef void loop_signal_fn(void *arg, int signo);
typedef void loop_child_fn(void *arg, pid_t pid, int wait_status);

struct loop *loop_new(err_t **err);
void loop_free(struct loop *l);
int loop_run(struct loop *l, err_t **err);   /* until loop_stop() */
void loop_stop(struct loop *l);

/* events may be 0: nothing is watched until loop_io_set(). The fd stays the caller's and must be closed after loop_io_free(). */
struct loop_io *loop_io_new(struct loop *l, int fd, int events, loop_io_fn *fn, void *arg);
int loop_io_set(struct loop_io *io, int events);
void loop_io_free(struct loop_io *io);       /* NULL is fine */

struct loop_timer *loop_timer_new(struct loop *l, loop_timer_fn *fn, void *arg);
void loop_timer_set(struct loop_timer *t, int64_t in_ms);   /* one shot, re-armed by another call; < 0 disarms */
/* Runs it in this turn, after what is already due: to put a step behind others without another turn of the loop. A timer that does so again from
 * its own function would keep the loop from its descriptors. Only from a callback. */
void loop_timer_now(struct loop_timer *t);
void loop_timer_free(struct loop_timer *t);  /* NULL is fine */

int loop_signal(struct loop *l, int signo, loop_signal_fn *fn, void *arg);  /* for the loop's life; -1 out of memory or bad signal */
/* Calls fn once when pid has ended and was reaped. The loop reaps every child, also adopted orphans (child subreaper): nobody else may
 * wait for a child. To be called in the same turn of the loop as the fork. -1: out of memory. */
int loop_child(struct loop *l, pid_t pid, loop_child_fn *fn, void *arg);
void loop_child_forget(struct loop *l, pid_t pid);
void loop_unblock_signals(void);            /* in a forked child: an empty signal mask; async-signal-safe */

#endif
