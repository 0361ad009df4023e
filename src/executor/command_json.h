/* command_json.h - the Command of docs/executor-api.md as text: the caller's record first, as it came, then our members. */
#ifndef PADDOCK_EXECUTOR_COMMAND_JSON_H
#define PADDOCK_EXECUTOR_COMMAND_JSON_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "executor/output.h"
#include "executor/steps.h"

/* Appends the members without braces. record: the text of a JSON object. o: the output for the texts; NULL leaves the texts out.
 * text_bytes: head and tail of each stream together. */
int command_members(struct buf *b, const struct steps *s, const char *record, const struct output *o, size_t text_bytes, err_t **err);

#endif
