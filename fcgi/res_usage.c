#include "fcgi/res_usage.h"

#include "base/str.h"
#include "domain/usage.h"

static int read_by(const struct call *c, enum usage_by *ret, err_t **err)
{
	static const char *const words[] = { [USAGE_BY_DAY] = "day", [USAGE_BY_RUN] = "run", [USAGE_BY_REASON] = "reason" };
	const char *by = request_query(c->q, "by");

	*ret = USAGE_BY_DAY;
	if (!by)
		return 0;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (str_eq(words[i], by)) {
			*ret = (enum usage_by)i;
			return 0;
		}
	}
	return err_set(err, ERR_REFUSED, "bad_by", "by is day, run or reason");
}

int res_usage(struct call *c, err_t **err)
{
	enum usage_by by;
	json_t *o = NULL;

	if (read_by(c, &by, err) < 0 ||
	    usage_read(c->ctx->domain, &c->caller, request_query(c->q, "from"), request_query(c->q, "to"), by, &o, err) < 0)
		return -1;
	return response_json(c->r, 200, o, err);
}
