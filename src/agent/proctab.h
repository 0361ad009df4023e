/* proctab.h - a snapshot of all processes of the container and whose descendants they are. Reads /proc/<pid>/stat once a process:
 * parent and state in one pass, whatever thread forked. One static table; not re-entrant. */
#ifndef PADDOCK_AGENT_PROCTAB_H
#define PADDOCK_AGENT_PROCTAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PROCTAB_MAX 16384     /* more processes than that are seen in the next snapshot, after some of these died */

struct proc {
	pid_t pid;
	pid_t ppid;
	pid_t top;            /* the child of PID 1 that it descends from (itself, when it is one); 0: none or not known */
	char state;           /* R S D T t Z X I */
};

/* The table, in the order of pids; *ret_n entries, PID 1 is not among them. Valid until the next call. NULL with errno. */
const struct proc *proctab_scan(size_t *ret_n);
/* Parses one /proc/<pid>/stat line. 0 or -1. */
int proctab_parse(const char *line, struct proc *ret);
/* How many processes there are, about: the names in /proc only. */
size_t proctab_count(void);
/* Whether a SIGSTOP waits for the process: in a stopped one it can only wait when it was stopped before it was sent. */
bool proctab_stop_pending(pid_t pid);

#endif
