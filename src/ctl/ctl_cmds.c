/* paddockctl commands: what runs or ran in the sandboxes. */
#include "base/str.h"
#include "ctl/ctl_commands.h"
#include "ctl/ctl_context.h"
#include "ctl/ctl_options.h"
#include "ctl/ctl_table.h"
#include "db/db_operator.h"
#include "domain/operator.h"

#define ROWS_DEFAULT 50
#define LEN(A) (sizeof(A) / sizeof *(A))

static const struct ctl_column columns[] = {
	{ "id", OPERATOR_COMMAND_ID, CTL_TEXT, 36 },
	{ "created_at", OPERATOR_COMMAND_CREATED, CTL_TIME, 24 },
	{ "status", OPERATOR_COMMAND_STATUS, CTL_TEXT, 8 },
	{ "reason", OPERATOR_COMMAND_REASON, CTL_TEXT, 12 },
	{ "ms", OPERATOR_COMMAND_MS, CTL_NUMBER, 10 },
	{ "user", OPERATOR_COMMAND_USER, CTL_TEXT, 16 },
	{ "run_id", OPERATOR_COMMAND_RUN, CTL_TEXT, 36 },
	{ "instance_id", OPERATOR_COMMAND_INSTANCE, CTL_TEXT, 36 },
	{ "command", OPERATOR_COMMAND_TEXT, CTL_TEXT, 0 },
};

static int list(struct domain *d, const struct db_operator_filter *f, bool json)
{
	cleanup_db_result struct db_result *r = NULL;
	err_t *e = NULL;

	if (db_operator_commands(d->db, f, &r, &e) < 0)
		return ctl_context_fail(e);
	return ctl_table_print(r, columns, LEN(columns), json);
}

int ctl_cmds(const struct config *c, int argc, char **argv)
{
	struct db_operator_filter f = { .limit = ROWS_DEFAULT };
	struct caller by;
	bool json = false, kills = argc == 3 && str_eq(argv[1], "kill");
	err_t *e = NULL;
	const struct ctl_option options[] = {
		{ "--user", .text = &f.user }, { "--run", .text = &f.run }, { "--open", .flag = &f.open }, { "--limit", .number = &f.limit }, { "--json", .flag = &json },
	};

	if (!kills && ctl_options_read(argc, argv, options, LEN(options), "commands [--user NAME] [--run ID] [--open] [--limit N] [--json] | commands kill ID") != 0)
		return 2;
	struct domain *d = ctl_context_open(c, &by);
	if (!d)
		return 1;
	int rc = !kills ? list(d, &f, json) : operator_kill(d, &by, argv[2], &e) < 0 ? ctl_context_fail(e) : 0;
	domain_close(d);
	return rc;
}
