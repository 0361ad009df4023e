# libexecutor.a: the daemon without its main(), for the tests.
noinst_LIBRARIES += libexecutor.a
libexecutor_a_SOURCES = \
	src/executor/archive.c src/executor/archive.h \
	src/executor/boot.c src/executor/boot.h \
	src/executor/command.c src/executor/command.h \
	src/executor/command_json.c src/executor/command_json.h \
	src/executor/commands.c src/executor/commands.h src/executor/commands_priv.h \
	src/executor/commands_call.c src/executor/commands_put.c \
	src/executor/dues.c src/executor/dues.h \
	src/executor/event.c src/executor/event.h \
	src/executor/executor.h \
	src/executor/feed.c src/executor/feed.h \
	src/executor/gate.c src/executor/gate.h \
	src/executor/http.c src/executor/http_answer.c src/executor/http_stream.c src/executor/http.h src/executor/http_priv.h \
	src/executor/idmap.c src/executor/idmap.h \
	src/executor/instances.c src/executor/instances.h src/executor/instances_priv.h src/executor/instances_again.c \
	src/executor/instances_call.c src/executor/instances_event.c src/executor/instances_life.c src/executor/instances_pause.c \
	src/executor/instances_meter.c src/executor/instances_meter.h \
	src/executor/instances_store.c src/executor/instances_store.h \
	src/executor/journal.c src/executor/journal.h \
	src/executor/journal_index.c src/executor/journal_index.h \
	src/executor/listing.c src/executor/listing.h \
	src/executor/lock.c src/executor/lock.h \
	src/executor/outcome.c src/executor/outcome.h \
	src/executor/output.c src/executor/output.h \
	src/executor/pump.c src/executor/pump.h \
	src/executor/range.c src/executor/range.h \
	src/executor/reader.c src/executor/reader.h \
	src/executor/report.c src/executor/report.h \
	src/executor/res.h src/executor/res_commands.c src/executor/res_health.c \
	src/executor/res_instances.c src/executor/res_instances.h src/executor/res_instances_life.c \
	src/executor/res_provider.c src/executor/res_reports.c src/executor/res_scopes.c \
	src/executor/res_wait.c src/executor/res_wait.h \
	src/executor/routes.c \
	src/executor/scopes.c src/executor/scopes.h \
	src/executor/slots.c src/executor/slots.h \
	src/executor/space.c src/executor/space.h \
	src/executor/spec.c src/executor/spec.h \
	src/executor/steps.c src/executor/steps.h \
	src/executor/sweep.c src/executor/sweep.h \
	src/executor/ticket.c src/executor/ticket.h \
	src/executor/tombs.c src/executor/tombs.h \
	src/executor/view.c src/executor/view.h \
	src/executor/view_events.c src/executor/view_raw.c src/executor/view_result.c \
	src/executor/watch.h
EXECUTOR_LDADD = libexecutor.a libprovider.a $(CORE_LDADD) $(MHD_LIBS)

sbin_PROGRAMS += paddock-executor
paddock_executor_SOURCES = src/executor/main.c
paddock_executor_LDADD = $(EXECUTOR_LDADD)

# For tests/integration/test_executor.py: the same daemon over the real agent in a bare pid namespace.
noinst_PROGRAMS += tests/lib/paddock-executor-unshare
tests_lib_paddock_executor_unshare_SOURCES = src/executor/main.c tests/lib/unshare_provider.c
tests_lib_paddock_executor_unshare_LDADD = $(EXECUTOR_LDADD)
EXTRA_DIST += tests/integration/test_executor.py tests/integration/test_executor_life.py tests/integration/test_executor_room.py \
	tests/integration/test_executor_scopes.py tests/integration/test_full_disk.py tests/lib/executor.py

if HAVE_CMOCKA
UNIT_EXECUTOR_TESTS = tests/unit/test_journal_index tests/unit/test_output tests/unit/test_steps tests/unit/test_event \
	tests/unit/test_archive tests/unit/test_tombs \
	tests/unit/test_instances tests/unit/test_instances_life tests/unit/test_instances_meter tests/unit/test_instances_pause
check_PROGRAMS += $(UNIT_EXECUTOR_TESTS)
UNIT_EXECUTOR_LDADD = $(EXECUTOR_LDADD) $(CMOCKA_LIBS)
tests_unit_test_journal_index_LDADD = $(UNIT_EXECUTOR_LDADD)
tests_unit_test_output_LDADD = $(UNIT_EXECUTOR_LDADD)
tests_unit_test_steps_LDADD = $(UNIT_EXECUTOR_LDADD)
tests_unit_test_event_LDADD = $(UNIT_EXECUTOR_LDADD)
tests_unit_test_archive_LDADD = $(UNIT_EXECUTOR_LDADD)
tests_unit_test_tombs_LDADD = $(UNIT_EXECUTOR_LDADD)
INSTANCES_KIT = tests/lib/instances_kit.c tests/lib/instances_kit.h
tests_unit_test_instances_SOURCES = tests/unit/test_instances.c $(INSTANCES_KIT)
tests_unit_test_instances_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/tests/unit -I$(srcdir)/tests/lib
tests_unit_test_instances_LDADD = $(UNIT_EXECUTOR_LDADD)
tests_unit_test_instances_life_SOURCES = tests/unit/test_instances_life.c $(INSTANCES_KIT)
tests_unit_test_instances_life_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/tests/unit -I$(srcdir)/tests/lib
tests_unit_test_instances_life_LDADD = $(UNIT_EXECUTOR_LDADD)
tests_unit_test_instances_meter_SOURCES = tests/unit/test_instances_meter.c $(INSTANCES_KIT)
tests_unit_test_instances_meter_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/tests/unit -I$(srcdir)/tests/lib
tests_unit_test_instances_meter_LDADD = $(UNIT_EXECUTOR_LDADD)
tests_unit_test_instances_pause_SOURCES = tests/unit/test_instances_pause.c $(INSTANCES_KIT)
tests_unit_test_instances_pause_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/tests/unit -I$(srcdir)/tests/lib
tests_unit_test_instances_pause_LDADD = $(UNIT_EXECUTOR_LDADD)
endif

EXTRA_DIST += tests/fuzz/seeds/steps tests/fuzz/seeds/index
if FUZZ
noinst_PROGRAMS += tests/fuzz/fuzz_steps tests/fuzz/fuzz_index
tests_fuzz_fuzz_steps_LDADD = $(EXECUTOR_LDADD)
tests_fuzz_fuzz_steps_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
tests_fuzz_fuzz_index_LDADD = $(EXECUTOR_LDADD)
tests_fuzz_fuzz_index_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
endif
