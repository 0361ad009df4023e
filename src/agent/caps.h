/* caps.h - what root's agent may do: signal, change account, and give that up for its commands. */
#ifndef PADDOCK_AGENT_CAPS_H
#define PADDOCK_AGENT_CAPS_H

#include <stddef.h>

/* CAP_KILL, CAP_SETGID, CAP_SETUID, CAP_SETPCAP: dropped from the bounding set of each command, this one last. */
extern const int caps_kept[];
#define CAPS_KEPT 4

/* Drops every other capability from all sets, for whoever started the agent may have given more. Where the agent has no CAP_SETPCAP the bounding set
 * stays as it is: nothing gets a capability from it all the same, see PR_SET_NO_NEW_PRIVS in main.c. */
void caps_reduce(void);

#endif
