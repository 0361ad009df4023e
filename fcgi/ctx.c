#include "fcgi/ctx.h"

int ctx_open(struct ctx *ret, const struct config *c, struct board *b, err_t **err)
{
	struct domain *d = domain_open(c, err);

	if (!d)
		return -1;
	*ret = (struct ctx){
		.config = c,
		.domain = d,
		.board = b,
		.body_bytes = (uint64_t)config_int(c, "api.body_bytes"),
		.stdin_bytes = (uint64_t)config_int(c, "api.stdin_bytes"),
		.retry_after_s = config_int(c, "api.retry_after_s"),
		.accel_prefix = config_str(c, "api.accel_prefix"),
	};
	return 0;
}

void ctx_close(struct ctx *x)
{
	domain_close(x->domain);
	x->domain = NULL;
}
