/* config_value.h - one option's value from its text. */
#ifndef PADDOCK_CORE_CONFIG_VALUE_H
#define PADDOCK_CORE_CONFIG_VALUE_H

#include <stddef.h>

#include "base/err.h"
#include "core/config_table.h"

/* Longest text of a value; a line of the file has room for it, its key and quotes. */
#define CONFIG_TEXT_MAX 900

/* Checks text against the option. *ret is the number for INT, SIZE, MS, BOOL and 0 for the others. `where` names the source. */
int config_value_check(const struct config_opt *o, const char *text, const char *where, int64_t *ret, err_t **err);
/* What the option accepts, for people: "a number from 1 to 256". */
void config_value_allowed(const struct config_opt *o, char *dst, size_t size);

#endif
