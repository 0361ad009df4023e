/* What is accepted prints as text that is accepted again and prints the same; json_quote() makes one string of anything that is UTF-8. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "core/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void round_trip(json_t *v)
{
	size_t n, m;
	char *first = strdup(json_text(v, &n));
	json_t *again = json_parse(first, n, SIZE_MAX, 64, NULL);

	if (!again || strcmp(first, json_text(again, &m)) != 0 || n != m)
		abort();
	json_object_put(again);
	free(first);
}

static void quote(const char *p, size_t n)
{
	struct buf b = BUF_INIT(1 << 20);
	json_t *v;

	if (!utf8_valid(p, n) || json_quote(&b, p, n) < 0)
		goto out;
	v = json_parse(b.data, b.len, SIZE_MAX, 1, NULL);
	if (!v || (size_t)json_object_get_string_len(v) != n || memcmp(json_object_get_string(v), p, n) != 0)
		abort();
	json_object_put(v);
out:
	buf_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	err_t *err = NULL;
	json_t *v = json_parse((const char *)data, size, 65536, 32, &err);

	if (!v != !!err)
		abort();
	if (v)
		round_trip(v);
	json_object_put(v);
	err_free(err);
	quote((const char *)data, size);
	return 0;
}
