/* paddockctl doctor: what is missing, and what is only nominally enforced. */
#include <stdarg.h>
#include <stdio.h>

#include "base/str.h"
#include "ctl/ctl_check.h"
#include "ctl/ctl_commands.h"

void ctl_find(struct ctl_finding *f, enum ctl_verdict v, const char *fmt, ...)
{
	va_list ap;

	f->verdict = v;
	va_start(ap, fmt);
	vsnprintf(f->text, sizeof f->text, fmt, ap);
	va_end(ap);
}

static void run_checks(const struct config *c, const struct ctl_check *checks, unsigned count[3])
{
	static const char *const words[] = { [CTL_OK] = "ok", [CTL_NOMINAL] = "nominal", [CTL_MISSING] = "MISSING" };

	for (; checks->name; checks++) {
		struct ctl_finding f = { .verdict = CTL_OK };

		checks->fn(c, &f);
		printf("%-8s %-22s %s\n", words[f.verdict], checks->name, f.text);
		fflush(stdout);
		count[f.verdict]++;
	}
}

int ctl_doctor(const struct config *c, int argc, char **argv)
{
	unsigned count[3] = { 0 };

	(void)argc;
	(void)argv;
	run_checks(c, ctl_checks_host, count);
	run_checks(c, ctl_checks_limits, count);
	run_checks(c, ctl_checks_parts, count);
	run_checks(c, ctl_checks_sandboxes, count);
	run_checks(c, ctl_checks_workers, count);
	printf("\n%u ok, %u nominal, %u missing\n", count[CTL_OK], count[CTL_NOMINAL], count[CTL_MISSING]);
	return count[CTL_MISSING] ? 3 : 0;
}
