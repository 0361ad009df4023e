#include "fcgi/res_execute.h"

#include "domain/execute.h"
#include "fcgi/command_body.h"

int res_execute(struct call *c, err_t **err)
{
	static const char *const keys[] = { COMMAND_BODY_KEYS, NULL };
	struct command_new n = { 0 };
	struct command_started s = { 0 };

	if (json_only_keys(c->body, keys, err) < 0 || command_body_read(c, &n, err) < 0)
		return -1;
	if (execute_start(c->ctx->domain, &c->caller, &n, &s, err) < 0)
		return -1;
	return command_body_answer(c, &n, &s, err);
}
