# A unit test is one cmocka program a module: tests/unit/test_<stem>.c. `make check` runs them through the TAP driver.
UNIT_LDADD = libbase.a $(CMOCKA_LIBS)
UNIT_CORE_LDADD = $(CORE_LDADD) $(CMOCKA_LIBS)
EXTRA_DIST += tests/unit/unit.h tests/unit/arena_kit.h

if HAVE_CMOCKA
UNIT_BASE_TESTS = tests/unit/test_err tests/unit/test_buf tests/unit/test_str tests/unit/test_num tests/unit/test_utf8 tests/unit/test_io \
	tests/unit/test_clock tests/unit/test_log tests/unit/test_list tests/unit/test_fault
UNIT_CORE_TESTS = tests/unit/test_frame tests/unit/test_id tests/unit/test_json tests/unit/test_crypto tests/unit/test_unixsock \
	tests/unit/test_loop tests/unit/test_http_client tests/unit/test_config tests/unit/test_oom
check_PROGRAMS += $(UNIT_BASE_TESTS) $(UNIT_CORE_TESTS)
tests_unit_test_err_LDADD = $(UNIT_LDADD)
tests_unit_test_buf_LDADD = $(UNIT_LDADD)
tests_unit_test_str_LDADD = $(UNIT_LDADD)
tests_unit_test_num_LDADD = $(UNIT_LDADD)
tests_unit_test_utf8_LDADD = $(UNIT_LDADD)
tests_unit_test_io_LDADD = $(UNIT_LDADD)
tests_unit_test_clock_LDADD = $(UNIT_LDADD)
tests_unit_test_log_LDADD = $(UNIT_LDADD)
tests_unit_test_list_LDADD = $(UNIT_LDADD)
tests_unit_test_fault_LDADD = $(UNIT_LDADD)
tests_unit_test_frame_LDADD = $(UNIT_CORE_LDADD)
tests_unit_test_id_LDADD = $(UNIT_CORE_LDADD)
tests_unit_test_json_LDADD = $(UNIT_CORE_LDADD)
tests_unit_test_crypto_LDADD = $(UNIT_CORE_LDADD)
tests_unit_test_unixsock_LDADD = $(UNIT_CORE_LDADD)
tests_unit_test_loop_LDADD = $(UNIT_CORE_LDADD)
tests_unit_test_http_client_LDADD = $(UNIT_CORE_LDADD)
tests_unit_test_config_LDADD = $(UNIT_CORE_LDADD)
tests_unit_test_http_client_SOURCES = tests/unit/test_http_client.c tests/lib/failalloc.c tests/lib/failalloc.h
tests_unit_test_oom_SOURCES = tests/unit/test_oom.c tests/lib/failalloc.c tests/lib/failalloc.h
tests_unit_test_oom_LDADD = $(UNIT_CORE_LDADD)
endif
