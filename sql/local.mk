# Migrations: forward only, run by `paddockctl migrate`. roles.sql is run once by whoever sets the cluster up.
sqldir = $(pkgdatadir)/sql
dist_sql_DATA = \
	sql/roles.sql \
	sql/0001_tables.sql \
	sql/0002_runs.sql \
	sql/0003_commands.sql \
	sql/0004_plans.sql \
	sql/0005_stages.sql \
	sql/0006_limits.sql \
	sql/0007_sandboxes.sql \
	sql/0008_steer.sql \
	sql/0009_sandbox_views.sql \
	sql/0010_sandbox_look.sql \
	sql/0011_usage_of_user.sql
EXTRA_DIST += tests/lib/pg.sh docs/database.md docs/lifecycle.md
dist_check_SCRIPTS += sql/test/pgtap
EXTRA_DIST += sql/test/rules.sql sql/test/sandboxes.sql sql/test/steer.sql
TESTS += sql/test/pgtap
