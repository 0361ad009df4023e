/* scopes.h - scopes that are to end, or have: nothing is started in them any more, and their export file goes (exports.h).
 *
 * Which processes belong to a scope is known to execs.c, which ends them; here is what comes after that. */
#ifndef PADDOCK_AGENT_SCOPES_H
#define PADDOCK_AGENT_SCOPES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define SCOPES_REMEMBERED 4096   /* the last that ended */
#define SCOPES_ENDING_MAX 1024   /* at a time: more than any executor asks for */

bool scopes_over(const char *scope);            /* it was asked to end: nothing is started in it */
int scopes_end(const char *scope);              /* fine again and again; -1: too many, or no memory */
/* Goes on with those of which no process is left, as busy() tells. Their files are removed one after the other, by a process of its own. */
void scopes_run(int64_t now_us, bool (*busy)(const char *scope));
int64_t scopes_next_us(void);                   /* CLOCK_BOOTTIME; INT64_MAX: nothing is due */
bool scopes_is_remover(pid_t pid);
void scopes_child_ended(pid_t pid);
/* The executor that asked is gone: nobody is told unless it asks again. */
void scopes_unasked(void);
/* One that has ended and was asked for, until scopes_told(); NULL: none. */
const char *scopes_to_tell(void);
void scopes_told(void);

#endif
