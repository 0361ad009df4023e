#include "ctl/ctl_commands.h"
#include "ctl/ctl_context.h"
#include "ctl/ctl_options.h"
#include "ctl/ctl_table.h"
#include "db/db_operator.h"

#define ROWS_DEFAULT 50
#define LEN(A) (sizeof(A) / sizeof *(A))

static const struct ctl_column columns[] = {
	{ "id", OPERATOR_RUN_ID, CTL_TEXT, 36 },
	{ "created_at", OPERATOR_RUN_CREATED, CTL_TIME, 24 },
	{ "status", OPERATOR_RUN_STATUS, CTL_TEXT, 16 },
	{ "attempt", OPERATOR_RUN_ATTEMPT, CTL_NUMBER, 7 },
	{ "why", OPERATOR_RUN_WHY, CTL_TEXT, 14 },
	{ "user", OPERATOR_RUN_USER, CTL_TEXT, 16 },
	{ "thread_id", OPERATOR_RUN_THREAD, CTL_TEXT, 24 },
	{ "lease_owner", OPERATOR_RUN_OWNER, CTL_TEXT, 16 },
	{ "lease_expires_at", OPERATOR_RUN_EXPIRES, CTL_TIME, 24 },
	{ "cancel_requested_at", OPERATOR_RUN_CANCEL, CTL_TIME, 24 },
	{ "fenced_by", OPERATOR_RUN_BY, CTL_TEXT, 36 },
	{ "cleanup_tries", OPERATOR_RUN_TRIES, CTL_NUMBER, 13 },
	{ "cleanup_next_at", OPERATOR_RUN_NEXT, CTL_TIME, 24 },
	{ "successor_id", OPERATOR_RUN_SUCCESSOR, CTL_TEXT, 36 },
	{ "error", OPERATOR_RUN_ERROR, CTL_TEXT, 0 },
};

int ctl_runs(const struct config *c, int argc, char **argv)
{
	cleanup_db_result struct db_result *r = NULL;
	struct db_operator_filter f = { .limit = ROWS_DEFAULT };
	struct caller by;
	bool json = false;
	err_t *e = NULL;
	const struct ctl_option options[] = {
		{ "--user", .text = &f.user }, { "--status", .text = &f.status }, { "--run", .text = &f.run }, { "--stuck", .flag = &f.stuck },
		{ "--all", .flag = &f.all }, { "--limit", .number = &f.limit }, { "--json", .flag = &json },
	};

	if (ctl_options_read(argc, argv, options, LEN(options), "runs [--user NAME] [--status STATUS] [--run ID] [--stuck] [--all] [--limit N] [--json]") != 0)
		return 2;
	struct domain *d = ctl_context_open(c, &by);
	if (!d)
		return 1;
	int rc = db_operator_runs(d->db, &f, &r, &e);
	domain_close(d);
	return rc < 0 ? ctl_context_fail(e) : ctl_table_print(r, columns, LEN(columns), json);
}
