/* instances_store.c - see instances_store.h. */
#include "executor/instances_store.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/str.h"
#include "core/json.h"
#include "executor/boot.h"

#define FILE_MAX 8192
#define TIME_MAX (INT64_MAX / 4)

static const char *const state_names[INSTANCE_N_STATES] = {
	[INSTANCE_CREATING] = "creating", [INSTANCE_IS_READY] = "ready", [INSTANCE_PAUSING] = "pausing", [INSTANCE_IS_PAUSED] = "paused",
	[INSTANCE_WAKING] = "waking", [INSTANCE_IS_FAILED] = "failed", [INSTANCE_IS_LOST] = "lost", [INSTANCE_DESTROYING] = "destroying",
	[INSTANCE_IS_GONE] = "gone",
};

static const enum fault_point written[INSTANCE_N_STATES] = {
	[INSTANCE_CREATING] = FAULT_AT_instance_creating_written, [INSTANCE_IS_READY] = FAULT_AT_instance_ready_written,
	[INSTANCE_PAUSING] = FAULT_AT_instance_pausing_written, [INSTANCE_IS_PAUSED] = FAULT_AT_instance_paused_written,
	[INSTANCE_WAKING] = FAULT_AT_instance_waking_written, [INSTANCE_IS_FAILED] = FAULT_AT_instance_over_written,
	[INSTANCE_IS_LOST] = FAULT_AT_instance_over_written, [INSTANCE_DESTROYING] = FAULT_AT_instance_destroying_written,
	[INSTANCE_IS_GONE] = FAULT_AT_instance_gone_written,
};

const char *instances_store_state_name(enum instance_state s)
{
	return state_names[s];
}

enum fault_point instances_store_written(enum instance_state s)
{
	return written[s];
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

static void add_boot_times(json_t *o, const struct instance_record *r)
{
	struct boot_stamp now;

	boot_stamp_now(&now);
	json_add_str(o, "boot", now.boot);
	json_add_i64(o, "boot_ms", now.boot_ms);
	json_add_i64(o, "wall_ms", now.wall_ms);
	json_add_i64(o, "since_ms", r->since_ms);
	json_add_i64(o, "kept_ms", r->kept_ms);
	json_add_i64(o, "runs_since_ms", r->meter.since_ms);
	json_add_bool(o, "runs", r->meter.confirmed);
	json_add_i64(o, "running_ms", r->meter.running_ms);
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
	json_add_bool(o, "wanted", r->wanted);
	json_add_str(o, "waits_for", r->waits_for);
	json_add_i64(o, "destroy_failures", r->destroy_failures);
	add_boot_times(o, r);
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
	if (r->state == INSTANCE_CREATING && !r->waits_for[0]) {
		if (unlinkat(fd, "state", 0) < 0 && errno != ENOENT)   /* of an addition that came to nothing */
			return err_sys(err, errno, "instance %s", r->id);
	} else if (save_state(fd, r, err) < 0) {
		return -1;
	}
	json_add_str(spec, "workspace", r->workspace);
	json_add_i64(spec, "created_ms", r->created_ms);
	return write_json(fd, "spec.json", spec, err);
}

static json_t *read_json(int fd, const char *name, err_t **err)
{
	cleanup_free char *text = NULL;
	size_t n = 0;

	if (io_read_file(fd, name, FILE_MAX, &text, &n, err) < 0)
		return NULL;
	return json_parse(text, n, FILE_MAX, 4, err);
}

/* What earlier versions did not write. */
static int load_boot_times(const json_t *o, struct instance_record *r, err_t **err)
{
	struct boot_stamp at = { "", 0, 0 };
	const char *boot = "";
	int64_t since = 0, kept = 0, runs_since = 0;

	if (json_get_str(o, "boot", false, &boot, err) < 0 || json_get_i64(o, "boot_ms", false, 0, INT64_MAX, &at.boot_ms, err) < 0 ||
	    json_get_i64(o, "wall_ms", false, 0, INT64_MAX, &at.wall_ms, err) < 0 || json_get_i64(o, "since_ms", false, -TIME_MAX, TIME_MAX, &since, err) < 0 ||
	    json_get_i64(o, "kept_ms", false, -TIME_MAX, TIME_MAX, &kept, err) < 0 ||
	    json_get_i64(o, "runs_since_ms", false, -TIME_MAX, TIME_MAX, &runs_since, err) < 0 ||
	    json_get_bool(o, "runs", false, &r->meter.confirmed, err) < 0 ||
	    json_get_i64(o, "running_ms", false, 0, TIME_MAX, &r->meter.running_ms, err) < 0)
		return -1;
	(void)str_copy(at.boot, sizeof(at.boot), boot);
	if (since)
		r->since_ms = boot_rebase(&at, since);
	r->kept_ms = kept ? boot_rebase(&at, kept) : 0;
	r->meter.since_ms = runs_since ? boot_rebase(&at, runs_since) : 0;
	return 0;
}

static int load_state(const json_t *o, struct instance_record *r, err_t **err)
{
	const char *state = "", *code = "", *message = "", *waits_for = "";
	int64_t version = 1, acked = 0;

	if (json_get_str(o, "state", true, &state, err) < 0 || json_get_bool(o, "was_ready", true, &r->was_ready, err) < 0 ||
	    json_get_bool(o, "enforced", true, &r->enforced, err) < 0 || json_get_i64(o, "created_ms", true, 0, INT64_MAX, &r->created_ms, err) < 0 ||
	    json_get_i64(o, "ready_ms", true, 0, INT64_MAX, &r->ready_ms, err) < 0 || json_get_i64(o, "gone_ms", true, 0, INT64_MAX, &r->gone_ms, err) < 0 ||
	    json_get_i64(o, "version", true, 1, INT64_MAX, &version, err) < 0 || json_get_i64(o, "acked", true, 0, INT64_MAX, &acked, err) < 0 ||
	    json_get_str(o, "error_code", true, &code, err) < 0 || json_get_str(o, "error_message", true, &message, err) < 0 ||
	    json_get_bool(o, "wanted", false, &r->wanted, err) < 0 || json_get_str(o, "waits_for", false, &waits_for, err) < 0 ||
	    json_get_i64(o, "destroy_failures", false, 0, INT64_MAX, &r->destroy_failures, err) < 0 || load_boot_times(o, r, err) < 0)
		return -1;
	(void)str_copy(r->waits_for, sizeof(r->waits_for), waits_for);
	r->version = (uint64_t)version;
	r->acked = (uint64_t)acked;
	str_copy(r->error_code, sizeof(r->error_code), code);
	str_copy(r->error_message, sizeof(r->error_message), message);
	for (size_t i = 0; i < INSTANCE_N_STATES; i++)
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
	r.since_ms = boot_from_wall(r.created_ms);
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
