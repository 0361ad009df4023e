# The scripted provider, and the suite that every provider passes: docs/providers.md.
SCRIPTED_PROVIDER = tests/lib/scripted_provider.c tests/lib/scripted_provider.h tests/lib/scripted_priv.h \
	tests/lib/scripted_answers.c tests/lib/scripted_exec.c tests/lib/scripted_run.c \
	tests/lib/scripted_world.c tests/lib/scripted_world.h tests/lib/scripted_rules.c tests/lib/scripted_rules.h \
	tests/lib/scripted_plan.c tests/lib/scripted_plan.h

# The executor over it; answers to every backend's name.
noinst_PROGRAMS += tests/lib/paddock-executor-scripted
tests_lib_paddock_executor_scripted_SOURCES = src/executor/main.c tests/lib/scripted_find.c $(SCRIPTED_PROVIDER)
tests_lib_paddock_executor_scripted_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/tests/lib
tests_lib_paddock_executor_scripted_LDADD = $(EXECUTOR_LDADD)

# A file operation of the service, for tests/integration/test_two_nodes.py.
noinst_PROGRAMS += tests/lib/file-operation
tests_lib_file_operation_SOURCES = tests/lib/file_operation.c
tests_lib_file_operation_CPPFLAGS = $(AM_CPPFLAGS) $(JSONC_CFLAGS)
tests_lib_file_operation_LDADD = $(DOMAIN_LDADD)
EXTRA_DIST += tests/lib/host_truth.py

dist_check_SCRIPTS += tests/unit/test_provider_control
EXTRA_DIST += tests/integration/test_executor_scripted.py tests/integration/test_provider_conformance.py tests/lib/scripted_truth.py
if HAVE_CMOCKA
check_PROGRAMS += tests/unit/test_provider
tests_unit_test_provider_SOURCES = tests/unit/test_provider.c tests/lib/provider_bench.c tests/lib/provider_bench.h \
	tests/lib/provider_careful.c tests/lib/provider_careful.h tests/lib/provider_commands.c tests/lib/provider_words.c tests/lib/provider_words.h \
	$(SCRIPTED_PROVIDER)
tests_unit_test_provider_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/tests/unit -I$(srcdir)/tests/lib
tests_unit_test_provider_LDADD = $(PROVIDER_TEST_LDADD)
TESTS += tests/unit/test_provider_control

# The same with the real agent: `unshare` in the place of the registry. Needs root; tests/integration/test_provider_conformance.py runs it.
noinst_PROGRAMS += tests/lib/test_provider_unshare
tests_lib_test_provider_unshare_SOURCES = $(tests_unit_test_provider_SOURCES) tests/lib/unshare_provider.c
tests_lib_test_provider_unshare_CPPFLAGS = $(tests_unit_test_provider_CPPFLAGS)
tests_lib_test_provider_unshare_LDADD = $(PROVIDER_TEST_LDADD)
endif
