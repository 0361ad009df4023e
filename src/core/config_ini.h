/* config_ini.h - the ini file: iniparser, and before it a pass over the lines for what iniparser lets go by. */
#ifndef PADDOCK_CORE_CONFIG_INI_H
#define PADDOCK_CORE_CONFIG_INI_H

#include "base/err.h"

/* Reads the file and gives values[i] (malloc'ed, or NULL when the file is silent) for config_table[i]; values has config_table_len
 * places, all NULL at the call, and is the caller's to free, also on failure. Refused, with the file and the line: unknown
 * sections and keys, keys named twice, keys outside a section, continued and over-long lines, NUL. */
int config_ini_load(const char *path, char **values, err_t **err);

#endif
