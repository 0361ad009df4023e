/* config_env.h - the names of the variables that set options. */
#ifndef PADDOCK_CORE_CONFIG_ENV_H
#define PADDOCK_CORE_CONFIG_ENV_H

#include "base/err.h"
#include "core/config_table.h"

#define CONFIG_ENV_NAME 64

void config_env_name(const struct config_opt *o, char dst[CONFIG_ENV_NAME]);   /* PADDOCK_<SECTION>_<KEY> */

/* Refuses (bad_config) a variable of the environment that begins like an option of one of the table's sections and names none, so that a
 * misspelt setting is not passed over. Other variables, PADDOCK_INSTANCE and the like among them, are nobody's business here. */
int config_env_check(err_t **err);

#endif
