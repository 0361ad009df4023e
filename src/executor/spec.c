#include "executor/spec.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "core/id.h"
#include "executor/view.h"

#define ARGS_MAX 4096
#define ENV_MAX 1024

static const char *const keys[] = { "instance", "scope", "kind", "create", "command", "argv", "cwd", "make_cwd", "env", "stdin", "stdin_base64",
	"keep_stdin", "timeout_ms", "timer", "record", "ticket", NULL };
static const char *const create_keys[] = { "workspace", "replaces", NULL };
static const char *const view_keys[] = { "view", "from", "base64", NULL };

static int refuse(err_t **err, const char *detail, const char *why)
{
	return err_set(err, ERR_REFUSED, detail, "%s", why);
}

int spec_view(const json_t *o, struct view_spec *ret, err_t **err)
{
	struct view_spec v = { 0 };
	const char *name = "";
	int64_t from = 0;

	if (!o)
		return 0;
	if (json_only_keys(o, view_keys, err) < 0 || json_get_str(o, "view", true, &name, err) < 0 ||
	    json_get_i64(o, "from", false, 0, INT64_MAX, &from, err) < 0 || json_get_bool(o, "base64", false, &v.base64, err) < 0)
		return -1;
	v.kind = view_find(name);
	v.from = (uint64_t)from;
	if (!v.kind)
		return err_set(err, ERR_INVALID, "bad_field", "view: one of result, sse, ndjson, stdout, stderr");
	*ret = v;
	return 0;
}

static int parse_create(struct spec *s, err_t **err)
{
	const json_t *create = NULL;

	if (json_get_obj(s->body, "create", false, &create, err) < 0)
		return -1;
	if (!create)
		return 0;
	if (json_only_keys(create, create_keys, err) < 0 || json_get_str(create, "workspace", true, &s->workspace, err) < 0)
		return -1;
	return json_get_str(create, "replaces", false, &s->replaces, err);
}

static int parse_kind(struct spec *s, err_t **err)
{
	const char *name = "command";

	if (json_get_str(s->body, "kind", false, &name, err) < 0)
		return -1;
	s->kind = str_eq(name, "file") ? EXEC_FILE : EXEC_COMMAND;
	if (s->kind == EXEC_COMMAND && !str_eq(name, "command"))
		return err_set(err, ERR_INVALID, "bad_field", "kind: command or file");
	if (s->kind == EXEC_FILE && s->env && json_object_object_length(s->env) > 0)
		return err_set(err, ERR_INVALID, "bad_field", "env: a file operation has none");
	return 0;
}

static int check_ids(struct spec *s, err_t **err)
{
	if (!id_valid(s->instance))
		return err_set(err, ERR_INVALID, "bad_field", "instance: not an id");
	if (!s->scope)
		s->scope = s->instance;
	return id_valid(s->scope) ? 0 : err_set(err, ERR_INVALID, "bad_field", "scope: not an id");
}

static int check_argv(const struct spec *s, err_t **err)
{
	size_t n;

	if (!s->argv == !s->command)
		return err_set(err, ERR_INVALID, "bad_field", "exactly one of command and argv is needed");
	if (!s->argv)
		return 0;
	n = json_object_array_length(s->argv);
	if (n == 0 || n > ARGS_MAX)
		return refuse(err, "bad_argv", "argv: 1 to 4096 strings");
	for (size_t i = 0; i < n; i++) {
		const json_t *a = json_object_array_get_idx(s->argv, i);

		if (!json_object_is_type(a, json_type_string) ||
		    strlen(json_object_get_string((json_t *)a)) != (size_t)json_object_get_string_len(a))
			return refuse(err, "bad_argv", "argv: each element is a string without NUL");
	}
	return json_object_get_string_len(json_object_array_get_idx(s->argv, 0)) ? 0 : refuse(err, "bad_argv", "argv: the program's name is empty");
}

static int check_cwd(const struct spec *s, err_t **err)
{
	if (s->cwd[0] != '/' || strlen(s->cwd) > SPEC_CWD_MAX)
		return refuse(err, "bad_cwd", "cwd: an absolute path of at most 4095 bytes");
	return 0;
}

static int check_env(const struct spec *s, err_t **err)
{
	if (!s->env)
		return 0;
	if (json_object_object_length(s->env) > ENV_MAX)
		return refuse(err, "bad_env", "env: at most 1024 names");
	json_object_object_foreach((json_t *)s->env, name, v) {
		if (!*name || strchr(name, '='))
			return refuse(err, "bad_env", "env: a name is empty or has a '='");
		if (!json_object_is_type(v, json_type_string) || strlen(json_object_get_string(v)) != (size_t)json_object_get_string_len(v))
			return err_set(err, ERR_REFUSED, "bad_env", "env: %s is not a string without NUL", name);
	}
	return 0;
}

static int parse_stdin(struct spec *s, err_t **err)
{
	const char *text = NULL, *b64 = NULL;
	size_t text_len = 0, b64_len = 0;

	if (json_get_mem(s->body, "stdin", false, &text, &text_len, err) < 0 ||
	    json_get_mem(s->body, "stdin_base64", false, &b64, &b64_len, err) < 0)
		return -1;
	if (text && b64)
		return err_set(err, ERR_INVALID, "bad_field", "at most one of stdin and stdin_base64");
	s->stdin_is_base64 = b64 != NULL;
	s->stdin_text = b64 ? b64 : text;
	s->stdin_len = b64 ? b64_len : text_len;
	return 0;
}

static int parse_timer(struct spec *s, err_t **err)
{
	const char *name = timer_name(TIMER_COMMAND);

	if (json_get_str(s->body, "timer", false, &name, err) < 0)
		return -1;
	s->timer = timer_parse(name);
	if (s->timer != TIMER_COMMAND && s->timer != TIMER_STAGE)
		return err_set(err, ERR_INVALID, "bad_field", "timer: command or stage");
	return 0;
}

static int parse(struct spec *s, err_t **err)
{
	const json_t *ticket = NULL, *body = s->body;

	if (json_only_keys(body, keys, err) < 0 || json_get_str(body, "instance", true, &s->instance, err) < 0 ||
	    json_get_str(body, "scope", false, &s->scope, err) < 0 || parse_create(s, err) < 0 || json_get_str(body, "command", false, &s->command, err) < 0 ||
	    json_get_arr(body, "argv", false, &s->argv, err) < 0 || json_get_str(body, "cwd", false, &s->cwd, err) < 0 ||
	    json_get_bool(body, "make_cwd", false, &s->make_cwd, err) < 0 || json_get_obj(body, "env", false, &s->env, err) < 0 ||
	    json_get_bool(body, "keep_stdin", false, &s->keep_stdin, err) < 0 || parse_stdin(s, err) < 0 ||
	    json_get_i64(body, "timeout_ms", true, 1, SPEC_TIMEOUT_MAX_MS, &s->timeout_ms, err) < 0 || parse_timer(s, err) < 0 ||
	    json_get_obj(body, "record", false, &s->record, err) < 0 || json_get_obj(body, "ticket", false, &ticket, err) < 0 ||
	    spec_view(ticket, &s->ticket, err) < 0 || parse_kind(s, err) < 0 || check_ids(s, err) < 0)
		return -1;
	return check_argv(s, err) < 0 || check_cwd(s, err) < 0 ? -1 : check_env(s, err);
}

struct spec *spec_new(json_t *body, err_t **err)
{
	struct spec *s = calloc(1, sizeof *s);

	if (!s) {
		err_set(err, ERR_NO_MEMORY, NULL, "command");
		return NULL;
	}
	s->body = json_object_get(body);
	s->cwd = SPEC_CWD_DEFAULT;
	if (parse(s, err) < 0) {
		spec_free(s);
		return NULL;
	}
	return s;
}

void spec_free(struct spec *s)
{
	if (!s)
		return;
	json_object_put(s->body);
	free(s);
}

/* Borrowed pointers into the body; the vector itself is the caller's. */
static char **argv_of(const struct spec *s)
{
	size_t n = json_object_array_length(s->argv);
	char **v = calloc(n + 1, sizeof *v);

	for (size_t i = 0; v && i < n; i++)
		v[i] = (char *)json_object_get_string(json_object_array_get_idx(s->argv, i));
	return v;
}

static char **env_of(const struct spec *s)
{
	size_t i = 0;
	char **v = calloc(s->env ? (size_t)json_object_object_length(s->env) + 1 : 1, sizeof *v);

	if (!v || !s->env)
		return v;
	json_object_object_foreach((json_t *)s->env, name, value) {
		v[i] = str_dupf("%s=%s", name, json_object_get_string(value));
		if (!v[i++]) {
			strv_free(v);
			return NULL;
		}
	}
	return v;
}

int spec_exec(const struct spec *s, const char *cid, struct instances *is, bool stdin_open, err_t **err)
{
	cleanup_free char **argv = s->argv ? argv_of(s) : NULL;
	cleanup_strv char **env = env_of(s);
	struct exec_spec x = {
		.exec_id = cid, .scope = s->scope, .kind = s->kind, .argv = argv, .command = s->command, .cwd = s->cwd, .make_cwd = s->make_cwd, .env = env,
		.timeout_ms = s->timeout_ms, .stdin_open = stdin_open,
	};

	if (!env || (s->argv && !argv))
		return err_set(err, ERR_NO_MEMORY, NULL, "command %s", cid);
	return instances_exec(is, s->instance, &x, err);
}
