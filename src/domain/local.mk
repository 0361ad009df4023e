noinst_LIBRARIES += libdomain.a
libdomain_a_CPPFLAGS = $(AM_CPPFLAGS) $(JSONC_CFLAGS)
libdomain_a_SOURCES = \
	src/domain/answer.c src/domain/answer.h \
	src/domain/audit.c src/domain/audit.h \
	src/domain/auth.c src/domain/auth.h src/domain/auth_db.h \
	src/domain/caller.c src/domain/caller.h \
	src/domain/check.c src/domain/check.h \
	src/domain/cleanup.c src/domain/cleanup.h \
	src/domain/command_end.c src/domain/command_end.h \
	src/domain/command_json.c src/domain/command_json.h \
	src/domain/command_start.c src/domain/command_start.h \
	src/domain/commands.c src/domain/commands.h \
	src/domain/domain.c src/domain/domain.h \
	src/domain/duties.c src/domain/duties.h \
	src/domain/execute.c src/domain/execute.h \
	src/domain/executor_client.c src/domain/executor_client.h \
	src/domain/health.c src/domain/health.h \
	src/domain/idempotency.c src/domain/idempotency.h src/domain/idempotency_db.h \
	src/domain/lease.c src/domain/lease.h \
	src/domain/operator.c src/domain/operator.h \
	src/domain/orphans.c src/domain/orphans.h \
	src/domain/reports.c src/domain/reports.h \
	src/domain/run_json.c src/domain/run_json.h \
	src/domain/runs.c src/domain/runs.h \
	src/domain/sandbox.c src/domain/sandbox.h \
	src/domain/sandbox_admin.c src/domain/sandbox_admin.h \
	src/domain/sandbox_ask.c src/domain/sandbox_ask.h \
	src/domain/sandbox_duties.c src/domain/sandbox_duties.h \
	src/domain/sandbox_quarantine.c \
	src/domain/sandbox_json.c src/domain/sandbox_json.h \
	src/domain/sandbox_view.c \
	src/domain/steer.c src/domain/steer.h \
	src/domain/tokens.c src/domain/tokens.h \
	src/domain/usage.c src/domain/usage.h \
	src/domain/users.c src/domain/users.h
DOMAIN_LDADD = libdomain.a libdb.a libprovider.a $(CORE_LDADD) $(PQ_LIBS)

# Against a PostgreSQL cluster of their own and an executor of straw (tests/lib/stand.h); skipped where there is no PostgreSQL server.
dist_check_SCRIPTS = tests/unit/test_domain_model_control tests/unit/test_sandbox_model_control
EXTRA_DIST += tests/lib/scripted_executor.py tests/integration/test_domain_ctl.py
if HAVE_CMOCKA
DOMAIN_TESTS = tests/unit/test_db tests/unit/test_domain tests/unit/test_domain_access tests/unit/test_domain_audit tests/unit/test_domain_clock \
	tests/unit/test_domain_model tests/unit/test_domain_sandbox tests/unit/test_domain_sandbox_view tests/unit/test_domain_steer tests/unit/test_sandbox_model
check_PROGRAMS += $(DOMAIN_TESTS)
TESTS += tests/unit/test_domain_model_control tests/unit/test_sandbox_model_control
STAND_CPPFLAGS = $(AM_CPPFLAGS) $(JSONC_CFLAGS) $(PQ_CFLAGS) $(CMOCKA_CFLAGS) -I$(srcdir)/tests -DTEST_SRCDIR='"$(abs_top_srcdir)"'
STAND_SOURCES = tests/lib/stand.c tests/lib/stand.h
tests_unit_test_db_SOURCES = tests/unit/test_db.c $(STAND_SOURCES)
tests_unit_test_db_CPPFLAGS = $(STAND_CPPFLAGS)
tests_unit_test_db_LDADD = $(DOMAIN_LDADD) $(CMOCKA_LIBS)
tests_unit_test_domain_SOURCES = tests/unit/test_domain.c tests/unit/domain_kit.h $(STAND_SOURCES)
tests_unit_test_domain_CPPFLAGS = $(STAND_CPPFLAGS)
tests_unit_test_domain_LDADD = $(DOMAIN_LDADD) $(CMOCKA_LIBS)
tests_unit_test_domain_access_SOURCES = tests/unit/test_domain_access.c tests/unit/domain_kit.h $(STAND_SOURCES)
tests_unit_test_domain_access_CPPFLAGS = $(STAND_CPPFLAGS)
tests_unit_test_domain_access_LDADD = $(DOMAIN_LDADD) $(CMOCKA_LIBS)
tests_unit_test_domain_sandbox_SOURCES = tests/unit/test_domain_sandbox.c tests/unit/domain_kit.h $(STAND_SOURCES)
tests_unit_test_domain_sandbox_CPPFLAGS = $(STAND_CPPFLAGS)
tests_unit_test_domain_sandbox_LDADD = $(DOMAIN_LDADD) $(CMOCKA_LIBS)
tests_unit_test_domain_audit_SOURCES = tests/unit/test_domain_audit.c tests/unit/domain_kit.h $(STAND_SOURCES)
tests_unit_test_domain_audit_CPPFLAGS = $(STAND_CPPFLAGS)
tests_unit_test_domain_audit_LDADD = $(DOMAIN_LDADD) $(CMOCKA_LIBS)
tests_unit_test_domain_clock_SOURCES = tests/unit/test_domain_clock.c tests/unit/domain_kit.h $(STAND_SOURCES)
tests_unit_test_domain_clock_CPPFLAGS = $(STAND_CPPFLAGS)
tests_unit_test_domain_clock_LDADD = $(DOMAIN_LDADD) $(CMOCKA_LIBS)
tests_unit_test_domain_steer_SOURCES = tests/unit/test_domain_steer.c tests/unit/domain_kit.h $(STAND_SOURCES)
tests_unit_test_domain_steer_CPPFLAGS = $(STAND_CPPFLAGS)
tests_unit_test_domain_steer_LDADD = $(DOMAIN_LDADD) $(CMOCKA_LIBS)
tests_unit_test_domain_sandbox_view_SOURCES = tests/unit/test_domain_sandbox_view.c tests/unit/domain_kit.h $(STAND_SOURCES)
tests_unit_test_domain_sandbox_view_CPPFLAGS = $(STAND_CPPFLAGS)
tests_unit_test_domain_sandbox_view_LDADD = $(DOMAIN_LDADD) $(CMOCKA_LIBS)
tests_unit_test_domain_model_SOURCES = tests/unit/test_domain_model.c $(STAND_SOURCES)
tests_unit_test_domain_model_CPPFLAGS = $(STAND_CPPFLAGS)
tests_unit_test_domain_model_LDADD = $(DOMAIN_LDADD) $(CMOCKA_LIBS)
tests_unit_test_sandbox_model_SOURCES = tests/unit/test_sandbox_model.c tests/lib/sandbox_model.c tests/lib/sandbox_model.h tests/lib/truth.c \
	tests/lib/truth.h $(STAND_SOURCES)
tests_unit_test_sandbox_model_CPPFLAGS = $(STAND_CPPFLAGS)
tests_unit_test_sandbox_model_LDADD = $(DOMAIN_LDADD) $(CMOCKA_LIBS)
endif
