/* log.h - one line per event on standard error, logfmt: ts= lvl= proc= then event= and the caller's keys.
 *
 *   log_kv(LOG_WARN, "cleanup_failed", "run", run_id, "err", err_message(err), NULL)
 *
 * A value is quoted when it has bytes outside letters, digits and -_./:@+,%~; inside quotes " and \ get a backslash, and control bytes
 * (C0, DEL, C1), characters that reorder or break lines, and bytes that are not UTF-8 are shown as \xNN.
 * A line is written by one write(2) and is at most LOG_LINE_MAX bytes (cut with "..." when longer). Secrets are never passed in.
 * A reader that does not read (a full disk stops it) stops nobody here: lines that a pipe does not take within LOG_WAIT_MS are dropped, and
 * their number is told when it reads again. errno is preserved. Not for use after fork in a child of a threaded process.
 *
 * A process that writes a line for each request may hold them (log_hold): lines up to LOG_INFO then wait until LOG_LINE_MAX bytes of them are there, a
 * higher level comes, or log_flush(); in order, and one write(2) for many. Lines that are held are lost when the process is killed. */
#ifndef PADDOCK_BASE_LOG_H
#define PADDOCK_BASE_LOG_H

#define LOG_LINE_MAX 4096   /* what a pipe takes whole or not at all */
#define LOG_WAIT_MS 50

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

void log_init(const char *proc, enum log_level min);  /* proc: short program name, static. A pipe is made non-blocking. */
void log_set_fd(int fd);                              /* default 2 */
int log_level_parse(const char *s, enum log_level *ret);
/* key, value pairs of const char *, ended by NULL; a NULL value prints as -. Values are quoted and escaped where needed. */
void log_kv(enum log_level lvl, const char *event, ...) __attribute__((sentinel));
void log_hold(void);    /* from now on */
void log_flush(void);   /* what is held; cheap when nothing is */

#endif
