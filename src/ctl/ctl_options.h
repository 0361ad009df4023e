/* ctl_options.h - the options of the commands that list. */
#ifndef PADDOCK_CTL_CTL_OPTIONS_H
#define PADDOCK_CTL_CTL_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ctl_option {
	const char *name;        /* "--user" */
	const char **text;       /* takes a value when one of these is not NULL, */
	int64_t *number;         /* from 1 to 10000 */
	bool *flag;
};

/* Reads argv[1..argc). 0, or 2 after the usage on standard error: an unknown option, a missing or bad value, or a value that is no id for an option "--run". */
int ctl_options_read(int argc, char **argv, const struct ctl_option *options, size_t n, const char *usage);

#endif
