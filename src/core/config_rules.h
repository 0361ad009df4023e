/* config_rules.h - what the option table cannot say: the choice of a backend, and options that depend on each other. */
#ifndef PADDOCK_CORE_CONFIG_RULES_H
#define PADDOCK_CORE_CONFIG_RULES_H

#include "core/config.h"

/* Chooses the backend: SANDBOX_BACKEND or SANDBOX_PROVIDER, either of which overrides both keys of the file; both in one layer are
 * refused, and so is what this version does not have. `file` has the file's values, one place for each of config_table. On success
 * the losing layer's values are gone from `file`, and *ret is a static word. */
int config_rules_backend(const char *path, char **file, const char **ret, err_t **err);
int config_rules_check(const struct config *c, err_t **err);

#endif
