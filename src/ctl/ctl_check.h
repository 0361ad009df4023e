/* ctl_check.h - what `paddockctl doctor` looks at. A check looks at one thing and says how it is; it changes nothing and has a deadline. */
#ifndef PADDOCK_CTL_CHECK_H
#define PADDOCK_CTL_CHECK_H

#include "core/config.h"

enum ctl_verdict {
	CTL_OK,
	CTL_NOMINAL,   /* works, but a promise is only nominally enforced */
	CTL_MISSING,   /* does not work without it */
};

struct ctl_finding {
	enum ctl_verdict verdict;
	char text[400];   /* what was found; for anything but CTL_OK also what to do */
};

typedef void ctl_check_fn(const struct config *c, struct ctl_finding *f);

struct ctl_check {
	const char *name;
	ctl_check_fn *fn;
};

/* Sets verdict and text. */
void ctl_find(struct ctl_finding *f, enum ctl_verdict v, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

extern const struct ctl_check ctl_checks_host[], ctl_checks_limits[], ctl_checks_parts[], ctl_checks_sandboxes[], ctl_checks_workers[];   /* ended by a NULL name */

#endif
