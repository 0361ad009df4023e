# libbase.a: libc only; linked into every program, the agent too.
noinst_LIBRARIES += libbase.a
libbase_a_SOURCES = \
	src/base/buf.c src/base/buf.h \
	src/base/cleanup.h \
	src/base/clock.c src/base/clock.h \
	src/base/err.c src/base/err.h \
	src/base/fault.c src/base/fault.h src/base/fault_steps.def \
	src/base/io.c src/base/io_tree.c src/base/io.h \
	src/base/list.h \
	src/base/log.c src/base/log.h \
	src/base/num.c src/base/num.h \
	src/base/rand.c src/base/rand.h \
	src/base/sanitized.h \
	src/base/str.c src/base/str.h \
	src/base/utf8.c src/base/utf8.h

# What the crash matrix is made from.
noinst_PROGRAMS += tests/lib/fault-list
tests_lib_fault_list_SOURCES = tests/lib/fault_list.c
EXTRA_DIST += tests/integration/test_crash_matrix.py tests/lib/crash.py tests/lib/crash_recipes.py tests/lib/nodes.py

# A wall clock that steps, for tests/integration/test_two_nodes.py.
noinst_DATA += tests/lib/clock_shift.so
EXTRA_DIST += tests/lib/clock_shift.c tests/integration/test_two_nodes.py
CLEANFILES += tests/lib/clock_shift.so
tests/lib/clock_shift.so: tests/lib/clock_shift.c
	$(AM_V_CC)$(MKDIR_P) tests/lib && $(CC) $(CFLAGS) -Wall -Wextra -fPIC -shared -o $@ $(srcdir)/tests/lib/clock_shift.c
