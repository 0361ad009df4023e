/* db_schema.h - which schema this build speaks, and how a database gets there. */
#ifndef PADDOCK_DB_DB_SCHEMA_H
#define PADDOCK_DB_DB_SCHEMA_H

#include "base/err.h"
#include "db/db.h"

/* The number of the newest file in sql/. A worker refuses a database of another version. */
#define DB_SCHEMA_VERSION 11

/* Called for each file: done is false when it was there already. */
typedef void db_migrate_fn(void *arg, const char *file, bool done);

/* Runs the files NNNN_name.sql of dir that the database has not seen, in order, each in a transaction of its own, under an advisory lock. d must be a
 * connection of the owner with any_schema. ERR_REFUSED: "migration_changed" (a file differs from what was run), "migration_unknown" (the database
 * knows a newer one than dir), "migration_gap", "migration_failed". A statement in a file may take as long as it needs. */
int db_migrate(struct db *d, const char *dir, db_migrate_fn *fn, void *arg, err_t **err);

#endif
