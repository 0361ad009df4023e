#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/num.h"
#include "base/str.h"
#include "ctl/ctl_commands.h"
#include "ctl/ctl_context.h"
#include "db/db_stats.h"

#define ROWS_DEFAULT 50
#define ROWS_MAX 10000

static const char *or_dash(const char *s)
{
	return s && *s ? s : "-";
}

/* Thread names come from users: nothing but printable ASCII reaches a terminal. */
static void put_safe(const char *s, int width)
{
	int n = 0;

	for (; n < width && s[n]; n++)
		putchar((unsigned char)s[n] < 0x20 || (unsigned char)s[n] > 0x7e ? '?' : s[n]);
	printf("%*s ", width - n, "");
}

static void print_run(const struct db_result *r, int i)
{
	char when[CLOCK_RFC3339_SIZE] = "";

	(void)db_time(r, i, LIVE_CREATED, when);
	printf("%s %s %-16s %d ", db_str(r, i, LIVE_ID), when, db_str(r, i, LIVE_STATUS), (int)db_i64(r, i, LIVE_ATTEMPT));
	put_safe(db_str(r, i, LIVE_USER), 16);
	put_safe(db_str(r, i, LIVE_THREAD), 24);
	if (db_bool(r, i, LIVE_CLEANUP))
		printf("cleanup pending, %d failed tries ", (int)db_i64(r, i, LIVE_TRIES));
	put_safe(or_dash(db_str(r, i, LIVE_ERROR)), 60);
	putchar('\n');
}

int ctl_runs(const struct config *c, int argc, char **argv)
{
	cleanup_db_result struct db_result *r = NULL;
	struct caller by;
	bool all = false;
	int64_t limit = ROWS_DEFAULT;
	err_t *e = NULL;

	for (int i = 1; i < argc; i++) {
		if (str_eq(argv[i], "--all")) {
			all = true;
		} else if (!str_eq(argv[i], "--limit") || ++i >= argc || num_i64(argv[i], 1, ROWS_MAX, &limit) < 0) {
			fprintf(stderr, "usage: paddockctl runs [--all] [--limit N]\n");
			return 2;
		}
	}
	struct domain *d = ctl_context_open(c, &by);
	if (!d)
		return 1;
	int rc = db_runs_live(d->db, all, limit, &r, &e);
	domain_close(d);
	if (rc < 0)
		return ctl_context_fail(e);
	for (int i = 0; i < db_rows(r); i++)
		print_run(r, i);
	return 0;
}
