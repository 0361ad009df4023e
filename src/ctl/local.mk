# paddockctl. libctl.a: the commands that look after an installation (status, doctor, start, stop, sql, engine)
noinst_LIBRARIES += libctl.a
libctl_a_SOURCES = \
	src/ctl/ctl_check.h \
	src/ctl/ctl_check_host.c \
	src/ctl/ctl_check_limits.c \
	src/ctl/ctl_check_parts.c \
	src/ctl/ctl_check_sandboxes.c \
	src/ctl/ctl_check_workers.c \
	src/ctl/ctl_commands.h \
	src/ctl/ctl_doctor.c \
	src/ctl/ctl_engine.c \
	src/ctl/ctl_front.c src/ctl/ctl_front.h \
	src/ctl/ctl_paths.c src/ctl/ctl_paths.h \
	src/ctl/ctl_proc.c src/ctl/ctl_proc.h \
	src/ctl/ctl_service.c src/ctl/ctl_service.h \
	src/ctl/ctl_sql.c \
	src/ctl/ctl_status.c

# the program, with the commands that work on the database
bin_PROGRAMS += paddockctl
paddockctl_CPPFLAGS = $(AM_CPPFLAGS) $(JSONC_CFLAGS)
paddockctl_SOURCES = \
	src/ctl/ctl_cleanup.c \
	src/ctl/ctl_cmds.c \
	src/ctl/ctl_context.c src/ctl/ctl_context.h \
	src/ctl/ctl_main.c \
	src/ctl/ctl_migrate.c \
	src/ctl/ctl_options.c src/ctl/ctl_options.h \
	src/ctl/ctl_runs.c \
	src/ctl/ctl_sandboxes.c \
	src/ctl/ctl_table.c src/ctl/ctl_table.h \
	src/ctl/ctl_tokens.c \
	src/ctl/ctl_users.c
paddockctl_LDADD = libctl.a $(DOMAIN_LDADD)
