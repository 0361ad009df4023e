/* scripted_plan.h - what a simulated command will do: a subset of shell text, compiled to steps when the command is given.
 *
 *     echo WORDS · printf TEXT     (also: ... >&2)        pwd · printenv NAME · env        cat              (copies its standard input)
 *     sleep SECONDS · true · false · exit N               kill -SIG $$                     trap '' TERM     (deaf to TERM, INT and HUP)
 *     head -c N /dev/zero                                 share NAME=VALUE                 (a line for $PADDOCK_ENV)
 *     bg SECONDS   (leaves `setsid sleep SECONDS` behind) alive SECONDS   ("yes" or "no": does any sleep of exactly this text run in the instance?)
 *
 * separated by `;` or newlines, words quoted by '…' or "…"; anything else is "command not found", 127. With a prelude that defines share, bg and alive the
 * same text runs in a real shell (provider_bench.c has it). As argv: one such statement, {"bash"|"sh", "-c", text}, or a file operation on the instance's files:
 *
 *     tee NAME (stdin) · cat NAME · stat -c %s NAME · ls -1 (NUL-terminated with --zero) · rm NAME · mv -T A B        ("--" before names is passed over)
 *
 * The files of a cwd at or below /home/user/workspace are the workspace's and outlive the instance, all others are the instance's; there are no directories.
 *
 * Steps are logged with the command, so that a new process of the executor goes on with it at the right place. */
#ifndef PADDOCK_TESTS_SCRIPTED_PLAN_H
#define PADDOCK_TESTS_SCRIPTED_PLAN_H

#include "base/buf.h"
#include "provider/provider.h"

enum step_kind {
	STEP_OUT = 'o', STEP_ERR = 'e', STEP_ZEROS = 'z', STEP_SLEEP = 's', STEP_CAT = 'c', STEP_SHARE = 'h', STEP_BG = 'b', STEP_ALIVE = 'a', STEP_DEAF = 't',
	STEP_EXIT = 'x', STEP_SIGNAL = 'k', STEP_FILE_WRITE = 'W', STEP_FILE_READ = 'R', STEP_FILE_SIZE = 'S', STEP_FILE_LIST = 'L', STEP_FILE_REMOVE = 'D',
	STEP_FILE_RENAME = 'M',
};

struct step {
	enum step_kind kind;
	char *text;          /* malloc'ed, NUL-terminated besides: the bytes, the seconds, or w(orkspace) or h(ome) and the name */
	size_t len;
	int64_t n;           /* microseconds of a sleep, count of zeros, exit status, signal */
};

struct plan {
	struct step *steps;  /* the last one is an EXIT or a SIGNAL */
	size_t n;
};

/* env: what the command sees. False: there is no such program (argv[0]). */
bool plan_make(struct plan *p, const struct exec_spec *s, char *const *env);
void plan_free(struct plan *p);
void plan_encode(const struct plan *p, struct buf *b);     /* no blanks in it */
bool plan_decode(struct plan *p, const char *text);
int64_t plan_seconds(const char *text);                    /* to microseconds */

void pct_encode(struct buf *b, const void *p, size_t n);   /* printable, without blank, comma and percent */
char *pct_decode(const char *text, size_t n, size_t *ret); /* malloc'ed */

#endif
