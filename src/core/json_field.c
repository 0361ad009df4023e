/* Typed access to members and building of objects (declared in json.h). */
#include <string.h>

#include "base/str.h"
#include "core/json.h"

static int bad_field(err_t **err, const char *key, const char *want)
{
	return err_set(err, ERR_INVALID, "bad_field", "field \"%s\" must be %s", key, want);
}

/* 1: *ret is the member, of that type. 0: absent or null, and that is allowed. -1: error. */
static int field(const json_t *o, const char *key, bool required, enum json_type type, const char *want, json_t **ret, err_t **err)
{
	json_t *v = NULL;

	if (!json_object_is_type(o, json_type_object))
		return err_set(err, ERR_INVALID, "bad_field", "an object was expected");
	if (!json_object_object_get_ex(o, key, &v) || !v) {
		if (required)
			return err_set(err, ERR_INVALID, "bad_field", "field \"%s\" is missing", key);
		return 0;
	}
	if (!json_object_is_type(v, type))
		return bad_field(err, key, want);
	*ret = v;
	return 1;
}

int json_get_mem(const json_t *o, const char *key, bool required, const char **ret, size_t *len, err_t **err)
{
	json_t *v = NULL;
	int rc = field(o, key, required, json_type_string, "a string", &v, err);

	if (rc <= 0)
		return rc;
	*ret = json_object_get_string(v);
	*len = (size_t)json_object_get_string_len(v);
	return 0;
}

int json_get_str(const json_t *o, const char *key, bool required, const char **ret, err_t **err)
{
	const char *s = NULL;
	size_t len;

	if (json_get_mem(o, key, required, &s, &len, err) < 0)
		return -1;
	if (!s)
		return 0;
	if (memchr(s, '\0', len))
		return bad_field(err, key, "a string without NUL");
	*ret = s;
	return 0;
}

int json_get_i64(const json_t *o, const char *key, bool required, int64_t min, int64_t max, int64_t *ret, err_t **err)
{
	json_t *v = NULL;
	int rc = field(o, key, required, json_type_int, "an integer", &v, err);
	int64_t n;

	if (rc <= 0)
		return rc;
	n = json_object_get_int64(v);
	/* json-c keeps what is above INT64_MAX as unsigned and clamps it here. */
	if (n < min || n > max || json_object_get_uint64(v) > INT64_MAX)
		return err_set(err, ERR_INVALID, "bad_field", "field \"%s\" must be from %lld to %lld", key, (long long)min, (long long)max);
	*ret = n;
	return 0;
}

int json_get_bool(const json_t *o, const char *key, bool required, bool *ret, err_t **err)
{
	json_t *v = NULL;
	int rc = field(o, key, required, json_type_boolean, "true or false", &v, err);

	if (rc <= 0)
		return rc;
	*ret = json_object_get_boolean(v);
	return 0;
}

int json_get_obj(const json_t *o, const char *key, bool required, const json_t **ret, err_t **err)
{
	json_t *v = NULL;
	int rc = field(o, key, required, json_type_object, "an object", &v, err);

	if (rc <= 0)
		return rc;
	*ret = v;
	return 0;
}

int json_get_arr(const json_t *o, const char *key, bool required, const json_t **ret, err_t **err)
{
	json_t *v = NULL;
	int rc = field(o, key, required, json_type_array, "an array", &v, err);

	if (rc <= 0)
		return rc;
	*ret = v;
	return 0;
}

bool json_has(const json_t *o, const char *key)
{
	json_t *v = NULL;

	return json_object_is_type(o, json_type_object) && json_object_object_get_ex(o, key, &v) && v;
}

static bool listed(const char *key, const char *const *keys)
{
	for (; *keys; keys++) {
		if (str_eq(key, *keys))
			return true;
	}
	return false;
}

int json_only_keys(const json_t *o, const char *const *keys, err_t **err)
{
	if (!json_object_is_type(o, json_type_object))
		return err_set(err, ERR_INVALID, "bad_field", "an object was expected");
	json_object_object_foreach((json_t *)(uintptr_t)o, key, v)
	{
		(void)v;
		if (!listed(key, keys))
			return err_set(err, ERR_INVALID, "unknown_field", "unknown field \"%.64s\"", key);
	}
	return 0;
}

int json_add(json_t *o, const char *key, json_t *v)
{
	if (json_object_object_add(o, key, v) < 0) {
		json_object_put(v);
		return -1;
	}
	return 0;
}

static int add_const(json_t *o, const char *key, json_t *v)
{
	if (json_object_object_add_ex(o, key, v, JSON_C_OBJECT_ADD_CONSTANT_KEY) < 0) {
		json_object_put(v);
		return -1;
	}
	return 0;
}

static int add_made(json_t *o, const char *key, json_t *v)
{
	return v ? add_const(o, key, v) : -1;
}

int json_add_str(json_t *o, const char *key, const char *v)
{
	return v ? add_made(o, key, json_object_new_string(v)) : json_add_null(o, key);
}

int json_add_mem(json_t *o, const char *key, const void *p, size_t n)
{
	if (n > INT32_MAX)
		return -1;
	return add_made(o, key, json_object_new_string_len(n ? p : "", (int)n));
}

int json_add_i64(json_t *o, const char *key, int64_t v)
{
	return add_made(o, key, json_object_new_int64(v));
}

int json_add_bool(json_t *o, const char *key, bool v)
{
	return add_made(o, key, json_object_new_boolean(v));
}

int json_add_null(json_t *o, const char *key)
{
	return add_const(o, key, NULL);
}
