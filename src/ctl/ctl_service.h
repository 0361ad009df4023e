/* ctl_service.h - the services of an installation under their supervisor: systemd where it is process 1, else s6. */
#ifndef PADDOCK_CTL_SERVICE_H
#define PADDOCK_CTL_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "core/config.h"

struct ctl_service_state {
	bool up;
	int64_t pid;        /* 0 when down */
	int64_t seconds;    /* how long in this state; -1 unknown */
};

/* In the order of their start; ended by NULL. */
extern const char *const ctl_services[];

bool ctl_service_systemd(void);
bool ctl_service_supervised(const struct config *c);   /* the supervisor itself is there */
int ctl_service_state(const struct config *c, const char *name, struct ctl_service_state *ret, err_t **err);

#endif
