/* check.h - is a value that came from a caller allowed? Pure functions. Each failure is ERR_REFUSED with the word it names. */
#ifndef PADDOCK_DOMAIN_CHECK_H
#define PADDOCK_DOMAIN_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "core/json.h"

#define CHECK_WORKSPACE "/home/user/workspace"
#define CHECK_PATH_MAX 4095

/* An absolute path or ~/workspace..., without "." and ".." components and NUL, at most 4095 bytes. *ret is malloc'ed, the short form
 * resolved, without double or trailing slashes. below_workspace: it must be /home/user/workspace or lie below it. */
int check_path(const char *path, bool below_workspace, const char *word, char **ret, err_t **err);
/* 1..max, "bad_timeout". */
int check_timeout(bool given, int64_t v, int64_t fallback, int64_t max, int64_t *ret, err_t **err);
/* 100 ms..max; 0: the default. "bad_lease". */
int check_lease_ms(int64_t v, int64_t fallback, int64_t max, int64_t *ret, err_t **err);
/* A page's size: 0 is 50, else 1..200. "bad_limit". */
int check_limit(int64_t v, int64_t *ret, err_t **err);
/* UTF-8, 1..max bytes, no control characters. */
int check_name(const char *s, size_t max, const char *word, const char *what, err_t **err);
/* "bad_argv" / ERR_INVALID "bad_field"; at most 4096 words, 1 MiB in all. */
int check_argv(const json_t *argv, err_t **err);
/* "bad_env" / ERR_INVALID "bad_field": names as in the shell, none beginning with PADDOCK_; one NAME=value below 128 KiB, together at most 1 MiB.
 * The message names the variable, never its value. */
int check_env(const json_t *env, err_t **err);

#endif
