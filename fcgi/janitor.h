/* janitor.h - one more child of the master: runs the table of duties (domain/duties.h) over and over. Any number may run on one database. */
#ifndef PADDOCK_FCGI_JANITOR_H
#define PADDOCK_FCGI_JANITOR_H

#include "core/config.h"
#include "fcgi/board.h"

/* Runs in a child of the master; returns its exit status. On SIGTERM it leaves after the step in hand (about [janitor] interval_ms). */
int janitor_main(const struct config *c, struct board_slot *slot);

#endif
