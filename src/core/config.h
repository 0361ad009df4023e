/* config.h - configuration: one option table, an ini file (iniparser) and the environment on top.
 *
 * The table is in config_table.c: section.key, type, default, range, environment name, help, and which programs read it.
 * Precedence: environment > file > default. An unknown section or key in the file, a variable below a section that names no key of it,
 * a bad value anywhere, or a missing file is an error that names the file or the variable, the key and what is allowed. docs/man/paddock.ini.5 is checked against the table.
 * Environment: PADDOCK_<SECTION>_<KEY>; a few keys have a well-known name besides (SANDBOX_BACKEND, SANDBOX_PROVIDER,
 * AGENT_RUN_TIMEOUT_MS). The instance's name (PADDOCK_INSTANCE, service.instance) is put into the default paths and account names as "-NAME". */
#ifndef PADDOCK_CORE_CONFIG_H
#define PADDOCK_CORE_CONFIG_H

#include <stdint.h>
#include <stdio.h>

#include "base/err.h"

struct config;

/* The default file when none is named: $PADDOCK_CONFIG, else this (/etc/paddock-NAME/... for an instance). */
#define CONFIG_DEFAULT_PATH "/etc/paddock/paddock.ini"

struct config *config_load(const char *path, err_t **err);   /* path NULL: the default */
void config_free(struct config *c);

/* Access by "section.key"; a key that is not in the table, or of another type, is a bug and aborts. */
const char *config_str(const struct config *c, const char *key);   /* never NULL; owned by c */
int64_t config_int(const struct config *c, const char *key);       /* also sizes (bytes) and times (ms) */

void config_dump(const struct config *c, FILE *to);   /* effective values as an ini file, each with its source; secrets are not in it */
void config_help(FILE *to);                           /* the table as text */

/* Which backend: R1.1 and R1.2. "container" today; others are refused with a message that says what is allowed. */
const char *config_backend(const struct config *c);

/* The common start of every program: handles --config FILE, --check, --dump, --help, --version.
 * Returns 0 with *ret set to go on, 1 when the program is done (exit 0), -1 when it must exit 2 (message already printed). */
int config_main(int argc, char **argv, const char *program, const char *summary, struct config **ret);

#endif
