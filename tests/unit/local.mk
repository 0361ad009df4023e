# A unit test is one cmocka program a module: tests/unit/test_<stem>.c. `make check` runs them through the TAP driver.
UNIT_LDADD = $(CMOCKA_LIBS)
