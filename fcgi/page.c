#include "fcgi/page.h"

#include "base/num.h"

int page_limit(const struct request *q, int64_t *ret, err_t **err)
{
	const char *v = request_query(q, "limit");

	*ret = 0;
	if (v && num_i64(v, 1, 200, ret) < 0)
		return err_set(err, ERR_REFUSED, "bad_limit", "limit is a number from 1 to 200");
	return 0;
}
