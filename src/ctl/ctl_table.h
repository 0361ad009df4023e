/* ctl_table.h - rows on standard output: columns for people, or a JSON object a line. What users, Runs and sandboxes have written reaches no terminal as it is:
 * a table shows '?' for every byte that is not printable ASCII, JSON escapes all that is not ASCII. */
#ifndef PADDOCK_CTL_CTL_TABLE_H
#define PADDOCK_CTL_CTL_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/json.h"
#include "db/db.h"

enum ctl_kind { CTL_TEXT, CTL_NUMBER, CTL_TIME };

struct ctl_column {
	const char *name;        /* also the member in JSON */
	int col;                 /* of the result */
	enum ctl_kind kind;
	int width;               /* longer texts are cut, and end in '~'; 0: as it comes, for the last column */
};

/* A heading and a line each; '-' stands for nothing. 0, or 1 after saying on standard error what failed. */
int ctl_table_print(const struct db_result *r, const struct ctl_column *columns, size_t n, bool json);
/* Any JSON, on a line of its own: everything that paddockctl gives with --json. NULL: it could not be made for want of memory. Returns as above. */
int ctl_table_json(json_t *v);

#endif
