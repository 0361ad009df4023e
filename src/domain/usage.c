#include "domain/usage.h"

#include <stdio.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "db/db_usage.h"

#define DAY_MS INT64_C(86400000)
#define TIME_MAX_MS INT64_C(253402300799999)   /* the end of the year 9999: no later time can be written; by way of an offset it can be asked for */
#define DEFAULT_DAYS 30
#define DAYS_MAX 400
#define ITEMS_MAX 1000

static const struct {
	const char *name, *key;   /* as it is asked for; as it is called in an item */
	enum db_usage_by by;
} forms[] = {
	[USAGE_BY_DAY] = { "day", "day", DB_USAGE_BY_DAY },
	[USAGE_BY_RUN] = { "run", "run_id", DB_USAGE_BY_RUN },
	[USAGE_BY_REASON] = { "reason", "reason", DB_USAGE_BY_REASON },
};

static int parse(const char *name, const char *text, int64_t *ret, err_t **err)
{
	if (clock_parse(text, ret) < 0 || *ret > TIME_MAX_MS)
		return err_set(err, ERR_REFUSED, "bad_time", "%s is neither a date (2026-01-31) nor a time (2026-01-31T12:00:00Z)", name);
	return 0;
}

static int read_range(struct domain *d, const char *from, const char *to, int64_t *ret_from, int64_t *ret_to, err_t **err)
{
	if (to ? parse("to", to, ret_to, err) < 0 : db_now_ms(d->db, ret_to, err) < 0)
		return -1;
	*ret_from = *ret_to - DEFAULT_DAYS * DAY_MS;
	if (from && parse("from", from, ret_from, err) < 0)
		return -1;
	if (*ret_from >= *ret_to)
		return err_set(err, ERR_REFUSED, "bad_time", "from must be before to");
	if (*ret_to - *ret_from > DAYS_MAX * DAY_MS)
		return err_set(err, ERR_REFUSED, "bad_time", "from and to are at most %d days apart", DAYS_MAX);
	return 0;
}

/* Seconds with milliseconds, where there are any. */
static int add_seconds(json_t *o, const char *key, int64_t ms)
{
	char text[32];
	json_t *v;

	if (ms % 1000 == 0)
		return json_add_i64(o, key, ms / 1000);
	snprintf(text, sizeof text, "%lld.%03d", (long long)(ms / 1000), (int)(ms % 1000));
	v = json_object_new_double_s((double)ms / 1000, text);
	return v ? json_add(o, key, v) : -1;
}

static int add_items(json_t *o, const struct db_result *r, const char *key)
{
	json_t *list = json_object_new_array();
	int bad = list ? json_add(o, "items", list) : -1;

	for (int i = 0; !bad && i < db_rows(r); i++) {
		json_t *item = json_object_new_object();

		if (!item || json_object_array_add(list, item) < 0) {
			json_object_put(item);
			return -1;
		}
		bad = json_add_str(item, key, db_str(r, i, USAGE_KEY)) | add_seconds(item, "seconds", db_i64(r, i, USAGE_MS));
	}
	return bad;
}

static int add_time(json_t *o, const char *key, int64_t ms)
{
	char text[CLOCK_RFC3339_SIZE];

	clock_rfc3339(ms, text);
	return json_add_str(o, key, text);
}

int usage_read(struct domain *d, const struct caller *c, const char *from, const char *to, enum usage_by by, json_t **ret, err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	int64_t lo, hi;
	if (read_range(d, from, to, &lo, &hi, err) < 0 || db_usage(d->db, c->user_id, lo, hi, forms[by].by, ITEMS_MAX, &r, err) < 0)
		return -1;
	cleanup_json json_t *o = json_object_new_object();
	if (!o || add_time(o, "from", lo) < 0 || add_time(o, "to", hi) < 0 || json_add_str(o, "by", forms[by].name) < 0 ||
			add_seconds(o, "total_seconds", db_rows(r) > 0 ? db_i64(r, 0, USAGE_ALL_MS) : 0) < 0 || add_items(o, r, forms[by].key))
		return err_set(err, ERR_NO_MEMORY, NULL, "no memory for an answer");
	*ret = steal_ptr(&o);
	return 0;
}
