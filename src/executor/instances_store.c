/* instances_store.c - see instances_store.h. */
#include "executor/instances_store.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/str.h"
#include "core/json.h"

#define FILE_MAX 8192

static const char *const state_names[] = {
	[INSTANCE_CREATING] = "creating", [INSTANCE_IS_READY] = "ready", [INSTANCE_IS_FAILED] = "failed", [INSTANCE_IS_LOST] = "lost",
	[INSTANCE_DESTROYING] = "destroying", [INSTANCE_IS_GONE] = "gone",
};
#define N_STATES (sizeof(state_names) / sizeof(state_names[0]))

const char *instances_store_state_name(enum instance_state s)
{
	return state_names[s];
}

static int write_json(int fd, const char *name, json_t *o, err_t **err)
{
	size_t n = 0;
	const char *text = json_text(o, &n);

	return text ? io_write_file(fd, name, text, n, 0600, 0, err) : err_set(err, ERR_NO_MEMORY, NULL, "%s", name);
}

static int open_dir(int dir_fd, const char *id, err_t **err)
{
	int fd = openat(dir_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? err_sys(err, errno, "instance %s", id) : fd;
}

static int save_state(int fd, const struct instance_record *r, err_t **err)
{
	cleanup_json json_t *o = json_object_new_object();

	json_add_str(o, "state", state_names[r->state]);
	json_add_bool(o, "was_ready", r->was_ready);
	json_add_bool(o, "enforced", r->enforced);
	json_add_i64(o, "created_ms", r->created_ms);
	json_add_i64(o, "ready_ms", r->ready_ms);
	json_add_i64(o, "gone_ms", r->gone_ms);
	json_add_i64(o, "version", (int64_t)r->version);
	json_add_i64(o, "acked", (int64_t)r->acked);
	json_add_str(o, "error_code", r->error_code);
	json_add_str(o, "error_message", r->error_message);
	return write_json(fd, "state", o, err);
}

int instances_store_save(int dir_fd, const struct instance_record *r, err_t **err)
{
	cleanup_close int fd = open_dir(dir_fd, r->id, err);

	return fd < 0 ? -1 : save_state(fd, r, err);
}

int instances_store_add(int dir_fd, const struct instance_record *r, err_t **err)
{
	cleanup_close int fd = -1;
	cleanup_json json_t *spec = json_object_new_object();

	if (mkdirat(dir_fd, r->id, 0700) < 0 && errno != EEXIST)
		return err_sys(err, errno, "instance %s", r->id);
	fd = open_dir(dir_fd, r->id, err);
	if (fd < 0)
		return -1;
	json_add_str(spec, "workspace", r->workspace);
	json_add_i64(spec, "created_ms", r->created_ms);
	if (write_json(fd, "spec.json", spec, err) < 0)
		return -1;
	return r->state == INSTANCE_CREATING ? 0 : save_state(fd, r, err);
}

static json_t *read_json(int fd, const char *name, err_t **err)
{
	cleanup_free char *text = NULL;
	size_t n = 0;

	if (io_read_file(fd, name, FILE_MAX, &text, &n, err) < 0)
		return NULL;
	return json_parse(text, n, FILE_MAX, 4, err);
}

static int load_state(const json_t *o, struct instance_record *r, err_t **err)
{
	const char *state = "", *code = "", *message = "";
	int64_t version = 1, acked = 0;

	if (json_get_str(o, "state", true, &state, err) < 0 || json_get_bool(o, "was_ready", true, &r->was_ready, err) < 0 ||
	    json_get_bool(o, "enforced", true, &r->enforced, err) < 0 || json_get_i64(o, "created_ms", true, 0, INT64_MAX, &r->created_ms, err) < 0 ||
	    json_get_i64(o, "ready_ms", true, 0, INT64_MAX, &r->ready_ms, err) < 0 || json_get_i64(o, "gone_ms", true, 0, INT64_MAX, &r->gone_ms, err) < 0 ||
	    json_get_i64(o, "version", true, 1, INT64_MAX, &version, err) < 0 || json_get_i64(o, "acked", true, 0, INT64_MAX, &acked, err) < 0 ||
	    json_get_str(o, "error_code", true, &code, err) < 0 || json_get_str(o, "error_message", true, &message, err) < 0)
		return -1;
	r->version = (uint64_t)version;
	r->acked = (uint64_t)acked;
	str_copy(r->error_code, sizeof(r->error_code), code);
	str_copy(r->error_message, sizeof(r->error_message), message);
	for (size_t i = 0; i < N_STATES; i++)
		if (str_eq(state_names[i], state)) {
			r->state = (enum instance_state)i;
			return 0;
		}
	return err_set(err, ERR_INVALID, NULL, "no state \"%s\"", state);
}

int instances_store_load(int dir_fd, const char *id, struct instance_record *ret, err_t **err)
{
	cleanup_close int fd = open_dir(dir_fd, id, err);
	cleanup_err err_t *missing = NULL;
	struct instance_record r = { .state = INSTANCE_CREATING, .version = 1 };
	const char *workspace = NULL;

	if (fd < 0)
		return -1;
	if (str_copy(r.id, sizeof(r.id), id) < 0)
		return err_set(err, ERR_INVALID, NULL, "no instance id: %s", id);
	cleanup_json json_t *spec = read_json(fd, "spec.json", &missing);
	if (!spec)
		return err_move(err, steal_ptr(&missing));
	if (json_get_str(spec, "workspace", true, &workspace, err) < 0 || json_get_i64(spec, "created_ms", true, 0, INT64_MAX, &r.created_ms, err) < 0)
		return -1;
	if (str_copy(r.workspace, sizeof(r.workspace), workspace) < 0)
		return err_set(err, ERR_INVALID, NULL, "workspace of %s", id);
	cleanup_json json_t *state = read_json(fd, "state", &missing);
	if (state && load_state(state, &r, err) < 0)
		return -1;
	if (!state && err_code(missing) != ERR_NOT_FOUND)
		return err_move(err, steal_ptr(&missing));
	*ret = r;
	return 0;
}

int instances_store_drop(int dir_fd, const char *id, err_t **err)
{
	return io_remove_tree(dir_fd, id, err);
}
