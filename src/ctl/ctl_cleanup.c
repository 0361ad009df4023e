#include <stdio.h>

#include "base/str.h"
#include "ctl/ctl_commands.h"
#include "ctl/ctl_context.h"
#include "ctl/ctl_options.h"
#include "ctl/ctl_table.h"
#include "db/db_operator.h"
#include "domain/operator.h"

#define ROWS_DEFAULT 200
#define LEN(A) (sizeof(A) / sizeof *(A))

static const struct ctl_column columns[] = {
	{ "run_id", OPERATOR_CLEANUP_RUN, CTL_TEXT, 36 },
	{ "since", OPERATOR_CLEANUP_SINCE, CTL_TIME, 24 },
	{ "status", OPERATOR_CLEANUP_STATUS, CTL_TEXT, 9 },
	{ "tries", OPERATOR_CLEANUP_TRIES, CTL_NUMBER, 5 },
	{ "next_at", OPERATOR_CLEANUP_NEXT, CTL_TIME, 24 },
	{ "user", OPERATOR_CLEANUP_USER, CTL_TEXT, 16 },
	{ "thread_id", OPERATOR_CLEANUP_THREAD, CTL_TEXT, 24 },
	{ "instance_id", OPERATOR_CLEANUP_INSTANCE, CTL_TEXT, 36 },
	{ "error", OPERATOR_CLEANUP_ERROR, CTL_TEXT, 0 },
};

static int list(struct domain *d, const struct db_operator_filter *f, bool json)
{
	cleanup_db_result struct db_result *r = NULL;
	err_t *e = NULL;

	if (db_operator_cleanups(d->db, f, &r, &e) < 0)
		return ctl_context_fail(e);
	return ctl_table_print(r, columns, LEN(columns), json);
}

static int retry(struct domain *d, const struct caller *by, const char *run)
{
	cleanup_json json_t *ids = NULL;
	err_t *e = NULL;

	if (operator_retry(d, by, run, &ids, &e) < 0)
		return ctl_context_fail(e);
	for (size_t i = 0; i < json_object_array_length(ids); i++)
		printf("%s\n", json_object_get_string(json_object_array_get_idx(ids, i)));
	return 0;
}

int ctl_cleanup(const struct config *c, int argc, char **argv)
{
	struct db_operator_filter f = { .limit = ROWS_DEFAULT };
	struct caller by;
	bool json = false, retries = argc == 3 && str_eq(argv[1], "retry");
	const struct ctl_option options[] = {
		{ "--user", .text = &f.user }, { "--run", .text = &f.run }, { "--limit", .number = &f.limit }, { "--json", .flag = &json },
	};

	if (!retries && ctl_options_read(argc, argv, options, LEN(options), "cleanup [--user NAME] [--run ID] [--limit N] [--json] | cleanup retry RUN|--all") != 0)
		return 2;
	struct domain *d = ctl_context_open(c, &by);
	if (!d)
		return 1;
	int rc = retries ? retry(d, &by, str_eq(argv[2], "--all") ? NULL : argv[2]) : list(d, &f, json);
	domain_close(d);
	return rc;
}
