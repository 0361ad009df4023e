#include "domain/check.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "base/utf8.h"

#define LEASE_MIN_MS 100
#define LIMIT_DEFAULT 50
#define LIMIT_MAX 200
#define ARGV_MAX 4096
#define ARGV_BYTES (1u << 20)
#define ENV_ONE_BYTES (128u << 10)
#define ENV_ALL_BYTES (1u << 20)

/* Appends the components of p, each after a slash; refuses "." and "..". */
static int add_components(struct buf *b, const char *p)
{
	while (*p) {
		size_t n = strcspn(p, "/");
		if ((n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
			return -1;
		if (n) {
			buf_addc(b, '/');
			buf_add(b, p, n);
		}
		p += n;
		if (*p == '/')
			p++;
	}
	return 0;
}

static bool under_workspace(const char *path)
{
	size_t n = strlen(CHECK_WORKSPACE);
	return strncmp(path, CHECK_WORKSPACE, n) == 0 && (path[n] == 0 || path[n] == '/');
}

int check_path(const char *path, bool below_workspace, const char *word, char **ret, err_t **err)
{
	cleanup_buf struct buf b = BUF_INIT(CHECK_PATH_MAX + sizeof CHECK_WORKSPACE + 2);
	bool shortened = str_eq(path, "~/workspace") || str_prefix(path, "~/workspace/");
	if (strlen(path) > CHECK_PATH_MAX || (path[0] != '/' && !shortened) || !utf8_valid(path, strlen(path)))
		return err_set(err, ERR_REFUSED, word, "a path must be absolute or begin with ~/workspace, be UTF-8 and have at most %d bytes", CHECK_PATH_MAX);
	if (shortened)
		buf_adds(&b, CHECK_WORKSPACE);
	if (add_components(&b, shortened ? path + strlen("~/workspace") : path) < 0)
		return err_set(err, ERR_REFUSED, word, "a path must not have . or .. components");
	if (b.len == 0)
		buf_addc(&b, '/');
	if (buf_failed(&b))
		return err_set(err, ERR_NO_MEMORY, NULL, "no memory for a path");
	if (b.len > CHECK_PATH_MAX)
		return err_set(err, ERR_REFUSED, word, "a path has at most %d bytes", CHECK_PATH_MAX);
	if (below_workspace && !under_workspace(b.data))
		return err_set(err, ERR_REFUSED, word, "the path must lie below " CHECK_WORKSPACE);
	char *p = buf_steal(&b);
	if (!p)
		return err_set(err, ERR_NO_MEMORY, NULL, "no memory for a path");
	*ret = p;
	return 0;
}

int check_timeout(bool given, int64_t v, int64_t fallback, int64_t max, int64_t *ret, err_t **err)
{
	if (!given)
		v = fallback < max ? fallback : max;
	if (v < 1 || v > max)
		return err_set(err, ERR_REFUSED, "bad_timeout", "timeout_ms must be between 1 and %lld", (long long)max);
	*ret = v;
	return 0;
}

int check_lease_ms(int64_t v, int64_t fallback, int64_t max, int64_t *ret, err_t **err)
{
	if (v == 0)
		v = fallback;
	if (v < LEASE_MIN_MS || v > max)
		return err_set(err, ERR_REFUSED, "bad_lease", "lease_ms must be between %d and %lld", LEASE_MIN_MS, (long long)max);
	*ret = v;
	return 0;
}

int check_limit(int64_t v, int64_t *ret, err_t **err)
{
	if (v == 0)
		v = LIMIT_DEFAULT;
	if (v < 1 || v > LIMIT_MAX)
		return err_set(err, ERR_REFUSED, "bad_limit", "limit must be between 1 and %d", LIMIT_MAX);
	*ret = v;
	return 0;
}

int check_name(const char *s, size_t max, const char *word, const char *what, err_t **err)
{
	size_t n = s ? strlen(s) : 0;
	if (n < 1 || n > max || !utf8_valid(s, n))
		return err_set(err, ERR_REFUSED, word, "%s must be UTF-8 of 1 to %zu bytes", what, max);
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f)
			return err_set(err, ERR_REFUSED, word, "%s must not have control characters", what);
	return 0;
}

int check_argv(const json_t *argv, err_t **err)
{
	if (!json_object_is_type(argv, json_type_array))
		return err_set(err, ERR_INVALID, "bad_field", "argv must be an array of strings");
	size_t n = json_object_array_length(argv), sum = 0;
	if (n < 1 || n > ARGV_MAX)
		return err_set(err, ERR_REFUSED, "bad_argv", "argv must have 1 to %d words", ARGV_MAX);
	for (size_t i = 0; i < n; i++) {
		json_t *w = json_object_array_get_idx(argv, i);
		if (!json_object_is_type(w, json_type_string))
			return err_set(err, ERR_INVALID, "bad_field", "argv[%zu] must be a string", i);
		size_t len = (size_t)json_object_get_string_len(w);
		sum += len;
		if (strlen(json_object_get_string(w)) != len || (i == 0 && len == 0))
			return err_set(err, ERR_REFUSED, "bad_argv", "argv[%zu] must %s", i, len ? "not hold NUL" : "not be empty");
		if (len >= ENV_ONE_BYTES || sum > ARGV_BYTES)
			return err_set(err, ERR_REFUSED, "bad_argv", "a word of argv is below 128 KiB, all together have at most 1 MiB");
	}
	return 0;
}

static bool env_name_valid(const char *s)
{
	size_t n = strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789");
	return n > 0 && s[n] == 0 && n <= 128 && !(s[0] >= '0' && s[0] <= '9') && !str_prefix(s, "PADDOCK_");
}

int check_env(const json_t *env, err_t **err)
{
	size_t sum = 0;
	if (!json_object_is_type(env, json_type_object))
		return err_set(err, ERR_INVALID, "bad_field", "env must be an object of strings");
	json_object_object_foreach((json_t *)env, name, v) {
		if (!env_name_valid(name))
			return err_set(err, ERR_REFUSED, "bad_env", "env: \"%.128s\" is no name that may be set", name);
		if (!json_object_is_type(v, json_type_string))
			return err_set(err, ERR_INVALID, "bad_field", "env: the value of %s must be a string", name);
		size_t len = (size_t)json_object_get_string_len(v);
		if (strlen(json_object_get_string(v)) != len)
			return err_set(err, ERR_REFUSED, "bad_env", "env: the value of %s must not hold NUL", name);
		sum += strlen(name) + 2 + len;
		if (strlen(name) + 2 + len > ENV_ONE_BYTES || sum > ENV_ALL_BYTES)
			return err_set(err, ERR_REFUSED, "bad_env", "env: %s is too long, or all variables together are", name);
	}
	return 0;
}
