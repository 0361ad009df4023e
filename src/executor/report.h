/* report.h - what the janitors have to know: commands and instances that changed since it was last acknowledged, in order.
 *
 * A started command is told only when it has run for REPORT_START_DELAY_MS: most have ended by then and are told once. */
#ifndef PADDOCK_EXECUTOR_REPORT_H
#define PADDOCK_EXECUTOR_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "core/id.h"
#include "core/loop.h"

#define REPORT_START_DELAY_MS 250
#define REPORT_RETRY_MS 10000    /* one that could not be made */

struct reports;

enum report_kind { REPORT_COMMAND, REPORT_INSTANCE };

/* Embedded in a command; made by reports for instances. */
struct report {
	struct list node;
	enum report_kind kind;
	const char *id;          /* borrowed from the owner */
	uint64_t version;        /* grows with each change worth telling */
	int64_t due_ms;          /* boot time; 0 unless in the waiting list */
};

struct reports *reports_new(struct loop *l, err_t **err);
void reports_free(struct reports *r);

void report_init(struct report *p, enum report_kind k, const char *id);
void report_later(struct reports *r, struct report *p);   /* due after REPORT_START_DELAY_MS */
void report_now(struct reports *r, struct report *p);
void report_drop(struct reports *r, struct report *p);    /* acknowledged, or its owner goes */

/* An instance changed: told now. Kept until acknowledged. Out of memory: told with the next change. */
void reports_instance(struct reports *r, const char *iid, uint64_t version);
/* Drops the report of iid when version is its present one. */
void reports_instance_acked(struct reports *r, const char *iid, uint64_t version);

bool reports_any(const struct reports *r);
size_t reports_count(const struct reports *r);
enum report_said {
	REPORT_NEXT,
	REPORT_STOP,
	REPORT_PUT_OFF,          /* due again after REPORT_RETRY_MS */
	REPORT_VOID,             /* of an instance that is no longer in the books: nothing is left to tell */
};
/* Calls fn for the due ones in order until it says REPORT_STOP. fn changes nothing itself. */
void reports_each(struct reports *r, enum report_said (*fn)(void *arg, const struct report *p), void *arg);
/* Told whenever a report becomes due. */
struct list *reports_watches(struct reports *r);

/* Keys: "c:<id>:<version>", "i:<id>:<version>". */
#define REPORT_KEY_SIZE 64
void report_key(const struct report *p, char dst[REPORT_KEY_SIZE]);
int report_key_parse(const char *key, enum report_kind *kind, char id[ID_SIZE], uint64_t *version);

#endif
