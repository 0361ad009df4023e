# libprovider.a: what isolates code, behind provider.h. Helpers run beside the executor: paddock-engine, paddock-conmon, paddock-netguard, paddock-launcher.
noinst_LIBRARIES += libprovider.a
libprovider_a_SOURCES = \
	src/provider/agent_instance.c src/provider/agent_instance_scope.c src/provider/agent_instance.h \
	src/provider/agent_link.c src/provider/agent_link.h src/provider/agent_token.c src/provider/agent_token.h \
	src/provider/agents.c src/provider/agents.h \
	src/provider/box.c src/provider/box_agent.c src/provider/box_end.c src/provider/box_make.c src/provider/box_run.c src/provider/box.h \
	src/provider/container.c src/provider/container_ask.c src/provider/container_health.c src/provider/container_sweep.c src/provider/container.h \
	src/provider/bwrap.c src/provider/bwrap.h \
	src/provider/cgroup.c src/provider/cgroup.h \
	src/provider/engine.c src/provider/engine.h \
	src/provider/engine_docker.c src/provider/engine_podman.c \
	src/provider/engine_http.c src/provider/engine_http.h src/provider/engine_rest.c src/provider/engine_rest.h \
	src/provider/engine_spec.c src/provider/engine_spec.h \
	src/provider/exec.h src/provider/exec_groups.c src/provider/exec_groups.h \
	src/provider/fact.c src/provider/fact.h \
	src/provider/guard.c src/provider/guard.h \
	src/provider/host.c src/provider/host_agent.c src/provider/host_ask.c src/provider/host_end.c src/provider/host_health.c \
	src/provider/host_sandbox.c src/provider/host_up.c src/provider/host.h \
	src/provider/host_call.c src/provider/host_call.h \
	src/provider/host_layout.c src/provider/host_layout.h \
	src/provider/leftovers.c src/provider/leftovers.h \
	src/provider/outside.c src/provider/outside.h \
	src/provider/owed.c src/provider/owed.h \
	src/provider/netguard_rules.c src/provider/netguard_rules.h \
	src/provider/process.c src/provider/process.h \
	src/provider/provider.c src/provider/provider_caps.c src/provider/provider.h \
	src/provider/workspace.c src/provider/workspace.h

pkglibexec_PROGRAMS += paddock-netguard paddock-engine paddock-conmon paddock-launcher
paddock_netguard_SOURCES = src/provider/netguard_main.c src/provider/netguard_rules.c src/provider/netguard_rules.h
paddock_netguard_LDADD = libbase.a
paddock_engine_SOURCES = src/provider/engine_main.c
paddock_engine_LDADD = libbase.a
paddock_conmon_SOURCES = src/provider/conmon_main.c
paddock_conmon_LDADD = libbase.a

# Not in libprovider.a: what only the launcher does, with rights that the executor has given up.
paddock_launcher_SOURCES = src/provider/host_launcher_main.c \
	src/provider/host_bwrap.c \
	src/provider/host_group.c src/provider/host_group.h \
	src/provider/host_inside.c src/provider/host_inside.h \
	src/provider/host_keep.c src/provider/host_keep.h \
	src/provider/host_keeper.c src/provider/host_keeper.h \
	src/provider/host_net.c src/provider/host_net.h \
	src/provider/host_plain.c src/provider/host_probe.c \
	src/provider/host_tree.c src/provider/host_tree.h \
	src/provider/host_userns.c src/provider/host_userns.h
paddock_launcher_LDADD = libprovider.a $(CORE_LDADD)

EXTRA_DIST += tests/integration/test_host.py tests/lib/host_lab.py tests/lib/lab.py
EXTRA_DIST += tests/integration/test_container.py tests/lib/container_lab.py

if HAVE_CMOCKA
PROVIDER_TESTS = tests/unit/test_cgroup tests/unit/test_container_ask tests/unit/test_engine_faults tests/unit/test_engine_http \
	tests/unit/test_netguard_rules tests/unit/test_outside tests/unit/test_owed tests/unit/test_workspace
check_PROGRAMS += $(PROVIDER_TESTS)
PROVIDER_TEST_LDADD = libprovider.a $(CORE_LDADD) $(CMOCKA_LIBS)
tests_unit_test_cgroup_LDADD = $(PROVIDER_TEST_LDADD)
CONTAINER_STAND = tests/lib/container_stand.c tests/lib/container_stand.h tests/lib/fake_engine.c tests/lib/fake_engine.h
tests_unit_test_container_ask_SOURCES = tests/unit/test_container_ask.c $(CONTAINER_STAND)
tests_unit_test_container_ask_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/tests/unit
tests_unit_test_container_ask_LDADD = $(PROVIDER_TEST_LDADD)
tests_unit_test_engine_faults_SOURCES = tests/unit/test_engine_faults.c $(CONTAINER_STAND)
tests_unit_test_engine_faults_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/tests/unit
tests_unit_test_engine_faults_LDADD = $(PROVIDER_TEST_LDADD)
tests_unit_test_engine_http_LDADD = $(PROVIDER_TEST_LDADD)
tests_unit_test_netguard_rules_LDADD = $(PROVIDER_TEST_LDADD)
tests_unit_test_outside_LDADD = $(PROVIDER_TEST_LDADD)
tests_unit_test_owed_LDADD = $(PROVIDER_TEST_LDADD)
tests_unit_test_workspace_LDADD = $(PROVIDER_TEST_LDADD)
endif
