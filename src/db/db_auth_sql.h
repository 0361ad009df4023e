/* db_auth_sql.h - SQL that authenticates and reads something of the acting user's in one statement. For src/db alone.
 *
 * The columns of db_auth() come first. $1: the token's id; with the _ONE forms $2: the name of the user that is acted for. Whom a token may act for
 * is looked up only when a request names somebody: most do not, and each table in a join costs its time. */
#ifndef PADDOCK_DB_DB_AUTH_SQL_H
#define PADDOCK_DB_DB_AUTH_SQL_H

#define DB_AUTH(FOR, MORE, JOIN) "SELECT t.hash, t.kind, " \
	"u.disabled_at IS NULL AND t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > clock_timestamp()), u.id, u.name, u.is_admin, " \
	FOR MORE " FROM tokens t JOIN users u ON u.id = t.user_id " JOIN " WHERE t.id = $1"
#define DB_AUTH_NOBODY "NULL::uuid, NULL::text"
#define DB_AUTH_ONE "f.id, f.name"
#define DB_AUTH_JOIN_ONE "LEFT JOIN users f ON f.name = $2 AND f.disabled_at IS NULL "

#endif
