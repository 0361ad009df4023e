/* command_json.h - a command's row as the HTTP contract shows it. For src/domain alone. */
#ifndef PADDOCK_DOMAIN_COMMAND_JSON_H
#define PADDOCK_DOMAIN_COMMAND_JSON_H

#include "core/json.h"
#include "db/db_commands.h"

/* The Command in a row; a new reference. texts: the row has COMMAND_OUT and COMMAND_ERR. */
json_t *command_json(const struct db_result *r, int row, bool texts, err_t **err);
/* Bytes as `key` and `key`_encoding: text when they are UTF-8, else base64. */
int command_json_text(json_t *o, const char *key, const char *encoding_key, const void *p, size_t n);

#endif
