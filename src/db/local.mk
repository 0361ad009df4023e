noinst_LIBRARIES += libdb.a
libdb_a_CPPFLAGS = $(AM_CPPFLAGS) $(PQ_CFLAGS)
libdb_a_SOURCES = \
	src/db/db.c src/db/db.h \
	src/db/db_array.c src/db/db_array.h \
	src/db/db_accounts.c src/db/db_accounts.h \
	src/db/db_commands.c src/db/db_commands.h \
	src/db/db_conn.c src/db/db_conn.h \
	src/db/db_migrate.c src/db/db_schema.h \
	src/db/db_auth_sql.h \
	src/db/db_operator.c src/db/db_operator.h \
	src/db/db_runs.c src/db/db_runs.h \
	src/db/db_sandbox.c src/db/db_sandbox.h \
	src/db/db_sandbox_admin.c src/db/db_sandbox_admin.h \
	src/db/db_sandbox_view.c src/db/db_sandbox_view.h \
	src/db/db_stats.c src/db/db_stats.h \
	src/db/db_sweeps.c src/db/db_sweeps.h \
	src/db/db_usage.c src/db/db_usage.h
