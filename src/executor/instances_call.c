/* instances_call.c - what callers ask of an instance: how it is, and its commands, which are the provider's (declared in instances.h). */
#include "base/clock.h"
#include "executor/instances_priv.h"

const char *instance_id(const struct instance *i)
{
	return i->r.id;
}

enum instance_state instance_state(const struct instance *i)
{
	return i->r.state;
}

const char *instance_state_name(enum instance_state s)
{
	return instances_store_state_name(s);
}

const char *instance_error_code(const struct instance *i)
{
	return i->r.error_code;
}

const char *instance_error_message(const struct instance *i)
{
	return i->r.error_message;
}

static void add_time(json_t *o, const char *key, int64_t wall_ms)
{
	char text[CLOCK_RFC3339_SIZE];

	if (wall_ms)
		clock_rfc3339(wall_ms, text);
	json_add_str(o, key, wall_ms ? text : NULL);
}

bool instance_stuck(const struct instance *i)
{
	return i->r.state == INSTANCE_DESTROYING && i->r.destroy_failures >= i->is->quarantine_tries;
}

struct instance_keeps instance_keeps(const struct instance *i)
{
	return (struct instance_keeps){ .kept = i->kept, .refused = i->keep_refused, .err = i->keep_err };
}

static void add_age(json_t *o, const char *key, int64_t boot_ms)
{
	if (boot_ms)
		json_add_i64(o, key, clock_boot_ms() - boot_ms);
	else
		json_add_null(o, key);
}

static void add_life(json_t *o, const struct instance *i)
{
	if (i == &i->is->picture || !i->r.created_ms)
		json_add_null(o, "running_ms");   /* it was told before, or never heard of: only the id is known */
	else
		json_add_i64(o, "running_ms", meter_total(i->is->meter, &i->r.meter));
	add_age(o, "state_ms", i->r.since_ms);
	add_age(o, "kept_ms", i->r.kept_ms);
	json_add_str(o, "ref", i->ref);
	json_add_str(o, "waits_for", i->r.waits_for[0] ? i->r.waits_for : NULL);
	json_add_i64(o, "destroy_failures", i->r.destroy_failures);
	json_add_bool(o, "stuck", instance_stuck(i));
}

json_t *instance_json(const struct instance *i, unsigned commands)
{
	json_t *o = json_object_new_object(), *error = NULL;

	json_add_str(o, "id", i->r.id);
	json_add_str(o, "workspace", i->r.workspace);
	json_add_str(o, "state", instances_store_state_name(i->r.state));
	add_time(o, "created_at", i->r.created_ms);
	add_time(o, "ready_at", i->r.ready_ms);
	if (i->r.error_code[0]) {
		error = json_object_new_object();
		json_add_str(error, "code", i->r.error_code);
		json_add_str(error, "message", i->r.error_message);
	}
	json_add(o, "error", error);
	json_add_str(o, "limits", i->r.enforced ? "enforced" : "nominal");
	json_add_i64(o, "commands", commands);
	add_life(o, i);
	return o;
}

uint64_t instance_version(const struct instance *i)
{
	return i->r.version;
}

uint64_t instance_acked(const struct instance *i)
{
	return i->r.acked;
}

/* --- commands --- */

static int must_be_ready(struct instances *is, const char *iid, err_t **err)
{
	struct instance *i = instances_find(is, iid);

	if (!i)
		return err_set(err, ERR_NOT_FOUND, "instance_not_found", "no such instance");
	if (i->r.state != INSTANCE_IS_READY)
		return err_set(err, ERR_CONFLICT, "instance_not_ready", "the instance is %s", instances_store_state_name(i->r.state));
	if (!i->handed)
		return err_set(err, ERR_CONFLICT, "instance_not_ready", "the instance is being taken up again");
	return 0;
}

int instances_exec(struct instances *is, const char *iid, const struct exec_spec *s, err_t **err)
{
	return must_be_ready(is, iid, err) < 0 ? -1 : is->ops->exec(is->provider, iid, s, err);
}

int instances_exec_ack(struct instances *is, const char *iid, const char *cid, err_t **err)
{
	return must_be_ready(is, iid, err) < 0 ? -1 : is->ops->exec_ack(is->provider, iid, cid, err);
}

int instances_exec_stdin(struct instances *is, const char *iid, const char *cid, uint64_t offset, const void *data, size_t n, bool eof, err_t **err)
{
	return must_be_ready(is, iid, err) < 0 ? -1 : is->ops->exec_stdin(is->provider, iid, cid, offset, data, n, eof, err);
}

int instances_exec_signal(struct instances *is, const char *iid, const struct exec_ref *x, int signo, err_t **err)
{
	return must_be_ready(is, iid, err) < 0 ? -1 : is->ops->exec_signal(is->provider, iid, x, signo, err);
}

int instances_exec_kill(struct instances *is, const char *iid, const struct exec_ref *x, err_t **err)
{
	return must_be_ready(is, iid, err) < 0 ? -1 : is->ops->exec_kill(is->provider, iid, x, err);
}

/* --- what is the provider's alone --- */

int instances_list(struct instances *is, err_t **err)
{
	return is->ops->list(is->provider, err);
}

int instances_scope_end(struct instances *is, const char *iid, const char *scope, err_t **err)
{
	const struct instance *i = instances_find(is, iid);

	if (!i || !i->handed)
		return err_set(err, ERR_CONFLICT, "instance_not_ready", "the instance is not taken up");
	return is->ops->scope_end(is->provider, iid, scope, err);
}

char *instances_health(struct instances *is)
{
	return is->ops->health(is->provider);
}
