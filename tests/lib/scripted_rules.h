/* scripted_rules.h - how the scripted provider misbehaves: rules that a test writes and may replace at any time. The language is in scripted_provider.h. */
#ifndef PADDOCK_TESTS_SCRIPTED_RULES_H
#define PADDOCK_TESTS_SCRIPTED_RULES_H

#include "scripted_world.h"

enum fault {
	FAULT_NONE, FAULT_LATE, FAULT_SLOW, FAULT_LOST, FAULT_SILENT, FAULT_TWICE, FAULT_REFUSE, FAULT_REJECT, FAULT_SAYS, FAULT_PART, FAULT_VANISH, FAULT_PAUSE,
	FAULT_STUCK, FAULT_FAIL, FAULT_LOSE_CONTACT, FAULT_CONTACT, FAULT_SETTLE,
};

struct rule {
	char call[16];
	enum fault fault;
	int64_t ms;              /* of late, slow, lost, stuck (-1: for ever); how many of part */
	enum err_code code;      /* of refuse, reject */
	char says[16];
	long times, skip;        /* times -1: always */
	double chance;
	char of[65];             /* an instance id or a workspace; "": any */
	long skipped;
};

struct rules {
	char *text;
	uint64_t hash;
	uint64_t dice;
	struct rule list[64];
	size_t n;
};

void rules_free(struct rules *r);
/* Reads the file again; a line that cannot be understood aborts with it on standard error: a test must not pass by a typing error. */
void rules_read(struct rules *r, struct world *w);
/* The rule for this call, now used up by one; NULL: none, behave. */
const struct rule *rules_match(struct rules *r, struct world *w, const char *call, const char *iid, const char *workspace);

#endif
