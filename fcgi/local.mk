# paddock-api: master, workers, janitor. All but main() is a library, for the tests.
sbin_PROGRAMS += paddock-api
paddock_api_SOURCES = fcgi/main.c
paddock_api_LDADD = libapi.a libdomain.a libdb.a libprovider.a $(CORE_LDADD) $(PQ_LIBS) $(FCGI_LIBS) $(SECCOMP_LIBS)
noinst_LIBRARIES += libapi.a
libapi_a_CPPFLAGS = $(AM_CPPFLAGS) $(JSONC_CFLAGS)
libapi_a_SOURCES = \
	fcgi/arena.c fcgi/arena.h \
	fcgi/auth.c fcgi/auth.h \
	fcgi/board.c fcgi/board.h \
	fcgi/body.c fcgi/body.h \
	fcgi/command_body.c fcgi/command_body.h \
	fcgi/confine.c fcgi/confine_calls.c fcgi/confine_files.c fcgi/confine.h \
	fcgi/ctx.c fcgi/ctx.h \
	fcgi/dispatch.c fcgi/dispatch.h \
	fcgi/header.c fcgi/header.h \
	fcgi/janitor.c fcgi/janitor.h \
	fcgi/limits.h \
	fcgi/listen.c fcgi/listen.h \
	fcgi/master.c fcgi/master.h \
	fcgi/page.c fcgi/page.h \
	fcgi/problem.c fcgi/problem.h \
	fcgi/request.c fcgi/request.h \
	fcgi/res_auth.c fcgi/res_auth.h \
	fcgi/res_commands.c fcgi/res_commands.h \
	fcgi/res_execute.c fcgi/res_execute.h \
	fcgi/res_health.c fcgi/res_health.h \
	fcgi/res_runs.c fcgi/res_runs.h \
	fcgi/res_sandbox.c fcgi/res_sandbox.h \
	fcgi/res_tokens.c fcgi/res_tokens.h \
	fcgi/res_usage.c fcgi/res_usage.h \
	fcgi/response.c fcgi/response.h \
	fcgi/router.c fcgi/router.h \
	fcgi/routes.c fcgi/routes.h \
	fcgi/seats.c fcgi/seats.h \
	fcgi/stop.c fcgi/stop.h \
	fcgi/uri.c fcgi/uri.h \
	fcgi/worker.c fcgi/worker.h
EXTRA_DIST += docs/api.md docs/openapi.yaml tests/fuzz/seeds/path tests/fuzz/seeds/query tests/fuzz/seeds/header
dist_man_MANS += docs/man/paddock-api.8

if HAVE_CMOCKA
API_TESTS = tests/unit/test_arena tests/unit/test_request tests/unit/test_router tests/unit/test_response tests/unit/test_problem \
	tests/unit/test_master_seats tests/unit/test_confine
check_PROGRAMS += $(API_TESTS)
API_TEST_LDADD = libapi.a $(CORE_LDADD) $(UNIT_LDADD) $(SECCOMP_LIBS)
tests_unit_test_arena_LDADD = $(API_TEST_LDADD)
tests_unit_test_request_LDADD = $(API_TEST_LDADD)
tests_unit_test_router_LDADD = $(API_TEST_LDADD)
tests_unit_test_response_LDADD = $(API_TEST_LDADD)
tests_unit_test_problem_LDADD = $(API_TEST_LDADD)
tests_unit_test_master_seats_LDADD = $(API_TEST_LDADD)
tests_unit_test_confine_LDADD = $(API_TEST_LDADD)
endif

if FUZZ
noinst_PROGRAMS += tests/fuzz/fuzz_path tests/fuzz/fuzz_query tests/fuzz/fuzz_header
API_FUZZ_LDADD = libapi.a libbase.a
tests_fuzz_fuzz_path_LDADD = $(API_FUZZ_LDADD)
tests_fuzz_fuzz_path_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
tests_fuzz_fuzz_query_LDADD = $(API_FUZZ_LDADD)
tests_fuzz_fuzz_query_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
tests_fuzz_fuzz_header_LDADD = $(API_FUZZ_LDADD)
tests_fuzz_fuzz_header_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
endif

EXTRA_DIST += tests/integration/conftest.py tests/integration/test_api_master.py tests/integration/test_api_requests.py tests/integration/test_api_sandbox.py \
	tests/lib/fake_executor.py tests/lib/fcgi_client.py
