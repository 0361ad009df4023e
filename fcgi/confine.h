/* confine.h - rights that this program gives up: for good, in itself and in its children. */
#ifndef PADDOCK_FCGI_CONFINE_H
#define PADDOCK_FCGI_CONFINE_H

#include "base/err.h"

/* No new privileges, no core dumps, memory not readable by others of the same account, umask 077. */
int confine_self(err_t **err);

/* In a child, first thing: it is told by SIGTERM when its parent ends. -1 when the parent has ended already. */
int confine_to_parent(int parent_pid);

#endif
