# The agent: one static program without foreign code. libagent.a is the same code for tests, which may be dynamic (sanitizers).
noinst_LIBRARIES += libagent.a
libagent_a_SOURCES = \
	src/agent/conn.c src/agent/conn.h \
	src/agent/execs.c src/agent/execs.h \
	src/agent/feed.c src/agent/feed.h \
	src/agent/killer.c src/agent/killer.h \
	src/agent/launch.c src/agent/launch.h \
	src/agent/leader.c src/agent/leader.h \
	src/agent/poller.c src/agent/poller.h \
	src/agent/proctab.c src/agent/proctab.h \
	src/agent/secret.c src/agent/secret.h \
	src/agent/supervisor.c src/agent/supervisor.h

pkglibexec_PROGRAMS += paddock-agent
paddock_agent_SOURCES = src/agent/main.c
paddock_agent_LDADD = libagent.a libframe.a libbase.a
if !SANITIZED
paddock_agent_LDFLAGS = -static-pie $(HARDEN_LDFLAGS)
endif
