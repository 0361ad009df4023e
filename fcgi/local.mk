# paddock-api: master, workers, janitor. A library for now: the program follows with the rules it stands on.
noinst_LIBRARIES += libapi.a
libapi_a_CPPFLAGS = $(AM_CPPFLAGS) $(JSONC_CFLAGS)
libapi_a_SOURCES = \
	fcgi/arena.c fcgi/arena.h \
	fcgi/auth.c fcgi/auth.h \
	fcgi/board.c fcgi/board.h \
	fcgi/body.c fcgi/body.h \
	fcgi/command_body.c fcgi/command_body.h \
	fcgi/confine.c fcgi/confine.h \
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
	fcgi/res_tokens.c fcgi/res_tokens.h \
	fcgi/response.c fcgi/response.h \
	fcgi/router.c fcgi/router.h \
	fcgi/routes.c fcgi/routes.h \
	fcgi/seats.c fcgi/seats.h \
	fcgi/stop.c fcgi/stop.h \
	fcgi/uri.c fcgi/uri.h \
	fcgi/worker.c fcgi/worker.h
EXTRA_DIST += fcgi/main.c
