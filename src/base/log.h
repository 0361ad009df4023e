/* log.h - one line per event on standard error, logfmt: ts= lvl= proc= then event= and the caller's keys.
 *
 *   log_event(LOG_INFO, "run_claimed", "req=%s run=%s", req, run)   -- values from outside go through log_esc()
 *   log_kv(LOG_WARN, "cleanup_failed", "run", run_id, "err", err_message(err), NULL)   -- preferred: escapes every value
 *
 * A line is written by one write(2) and is at most LOG_LINE_MAX bytes (cut with "..." when longer). Secrets are never passed in. */
#ifndef PADDOCK_BASE_LOG_H
#define PADDOCK_BASE_LOG_H

#include <stdarg.h>

#define LOG_LINE_MAX 4096

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

void log_init(const char *proc, enum log_level min);  /* proc: short program name, static */
void log_set_fd(int fd);                              /* default 2 */
int log_level_parse(const char *s, enum log_level *ret);
/* key, value pairs of const char *, ended by NULL; a NULL value prints as -. Values are quoted and escaped where needed. */
void log_kv(enum log_level lvl, const char *event, ...) __attribute__((sentinel));

#endif
