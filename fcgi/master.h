/* master.h - the parent of workers and janitor. One process, no threads, no requests.
 *
 *   SIGTERM, SIGINT  the socket's path goes, the children finish what they have and leave; after [api] drain_ms they are killed
 *   SIGHUP           the configuration is read again; a new generation of children starts, and when all of it is ready the old one drains.
 *                    A bad configuration, or a generation that does not get ready, changes nothing and is logged. Socket and group stay.
 * A master that is killed takes nobody with it that still has work: children learn of it (PR_SET_PDEATHSIG) and drain by themselves. */
#ifndef PADDOCK_FCGI_MASTER_H
#define PADDOCK_FCGI_MASTER_H

#include "core/config.h"

/* Takes the configuration over. path: where it is read again from (NULL: the default place). Returns the exit status. */
int master_main(struct config *c, const char *path);

#endif
