# The agent: one static program without foreign code. libagent.a is the same code for tests, which may be dynamic (sanitizers).
noinst_LIBRARIES += libagent.a
libagent_a_SOURCES = \
	src/agent/caps.c src/agent/caps.h \
	src/agent/conn.c src/agent/conn.h \
	src/agent/execs.c src/agent/execs.h \
	src/agent/exports.c src/agent/exports.h \
	src/agent/feed.c src/agent/feed.h \
	src/agent/home.c src/agent/home.h \
	src/agent/killer.c src/agent/killer.h \
	src/agent/launch.c src/agent/launch.h \
	src/agent/leader.c src/agent/leader.h \
	src/agent/poller.c src/agent/poller.h \
	src/agent/proctab.c src/agent/proctab.h \
	src/agent/rawcall.h \
	src/agent/scopes.c src/agent/scopes.h \
	src/agent/secret.c src/agent/secret.h \
	src/agent/stack.c src/agent/stack.h \
	src/agent/supervisor.c src/agent/supervisor.h

# In a container there is no sanitizer's library: the program is compiled without, also where everything else is instrumented.
pkglibexec_PROGRAMS += paddock-agent
paddock_agent_LDFLAGS = -static-pie $(HARDEN_LDFLAGS)
if SANITIZED
paddock_agent_SOURCES = src/agent/main.c $(libagent_a_SOURCES) $(libframe_a_SOURCES) $(libbase_a_SOURCES)
paddock_agent_CFLAGS = $(PADDOCK_CFLAGS) $(HARDEN_CFLAGS) $(PIE_CFLAGS)
else
paddock_agent_SOURCES = src/agent/main.c
paddock_agent_LDADD = libagent.a libframe.a libbase.a
endif

EXTRA_DIST += tests/integration/test_agent.py tests/lib/agent_peer.py tests/lib/stubborn.c tests/fuzz/seeds/frame_msg tests/fuzz/seeds/exports

if HAVE_CMOCKA
check_PROGRAMS += tests/unit/test_frame_msg tests/unit/test_agent_parts tests/unit/test_agent_link
tests_unit_test_frame_msg_LDADD = libframe.a libbase.a $(CMOCKA_LIBS)
tests_unit_test_agent_parts_LDADD = libagent.a libframe.a libbase.a $(CMOCKA_LIBS)
tests_unit_test_agent_link_LDADD = libprovider.a $(CORE_LDADD) $(CMOCKA_LIBS)
endif
if FUZZ
noinst_PROGRAMS += tests/fuzz/fuzz_exports tests/fuzz/fuzz_frame_msg
tests_fuzz_fuzz_exports_LDADD = libagent.a libframe.a libbase.a
tests_fuzz_fuzz_exports_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
tests_fuzz_fuzz_frame_msg_LDADD = libframe.a libbase.a
tests_fuzz_fuzz_frame_msg_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
endif
