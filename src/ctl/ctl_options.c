#include "ctl/ctl_options.h"

#include <stdio.h>

#include "base/num.h"
#include "base/str.h"
#include "core/id.h"

#define NUMBER_MAX 10000

static const struct ctl_option *find(const struct ctl_option *options, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (str_eq(options[i].name, name))
			return &options[i];
	return NULL;
}

static int take(const struct ctl_option *o, const char *value)
{
	if (!value)
		return -1;
	if (o->number)
		return num_i64(value, 1, NUMBER_MAX, o->number);
	*o->text = value;
	return str_eq(o->name, "--run") && !id_valid(value) ? -1 : 0;
}

int ctl_options_read(int argc, char **argv, const struct ctl_option *options, size_t n, const char *usage)
{
	for (int i = 1; i < argc; i++) {
		const struct ctl_option *o = find(options, n, argv[i]);

		if (o && o->flag) {
			*o->flag = true;
		} else if (!o || take(o, i + 1 < argc ? argv[i + 1] : NULL) < 0) {
			fprintf(stderr, "usage: paddockctl %s\n", usage);
			return 2;
		} else {
			i++;
		}
	}
	return 0;
}
