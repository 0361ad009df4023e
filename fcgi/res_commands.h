/* res_commands.h - handlers of commands. A worker never waits for one: streams and results are fetched by nginx with a ticket. */
#ifndef PADDOCK_FCGI_RES_COMMANDS_H
#define PADDOCK_FCGI_RES_COMMANDS_H

#include "fcgi/ctx.h"

int res_commands_start(struct call *c, err_t **err);
int res_commands_list(struct call *c, err_t **err);
int res_commands_get(struct call *c, err_t **err);
int res_commands_events(struct call *c, err_t **err);
int res_commands_stdout(struct call *c, err_t **err);
int res_commands_stderr(struct call *c, err_t **err);
int res_commands_stdin(struct call *c, err_t **err);
int res_commands_signal(struct call *c, err_t **err);
int res_commands_kill(struct call *c, err_t **err);

#endif
