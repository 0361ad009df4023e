#include "domain/sandbox_json.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "domain/run_json.h"
#include "provider/provider.h"

#define BLOCKERS_MAX 6
#define OWN_WARNINGS 2
#define WARNINGS_MAX (16 + OWN_WARNINGS)

/* What goes on, in the words of sandbox_blockers() in sql/. */
enum busy { ACTIVE_RUNS, CANCEL_REQUESTED, ACTIVE_OPERATIONS, CLEANUP_PENDING, BUSY_KINDS };
static const char *const busy_words[BUSY_KINDS] = { "active_runs", "cancel_requested", "active_operations", "cleanup_pending" };

/* What a row says, seen with the backend that is configured: one that has no sandboxes of users shows none, whatever an earlier one left. */
struct view {
	const struct db_result *r;
	int row, at;
	const char *backend;
	const struct config *config;
	unsigned caps;
	const char *state;      /* "none" without a row */
	const char *provider;   /* of the sandbox, else the backend */
	bool foreign;           /* it is another provider's */
	int64_t busy[BUSY_KINDS];
};

static const char *status_of(const char *state)
{
	if (str_eq(state, "pausing"))
		return "ready";
	return str_eq(state, "waking") ? "paused" : state;
}

/* Words without anything to quote, as PostgreSQL writes an array of them: {a,b}. */
static void count_busy(struct view *v)
{
	const char *p = db_str(v->r, v->row, v->at + SBV_BUSY);

	while (p && (*p == '{' || *p == ',')) {
		size_t n = strcspn(++p, ",}");

		for (int k = 0; k < BUSY_KINDS; k++)
			v->busy[k] += strlen(busy_words[k]) == n && memcmp(p, busy_words[k], n) == 0;
		p += n;
	}
}

static void view_init(struct view *v, const struct domain *d, const struct db_result *r, int row, int at)
{
	const char *state = db_str(r, row, at + SBV_STATE), *provider = db_str(r, row, at + SBV_PROVIDER);

	*v = (struct view){ .r = r, .row = row, .at = at, .backend = d->backend, .config = d->config, .caps = d->caps, .state = "none", .provider = d->backend };
	count_busy(v);
	if (!state)
		return;
	v->foreign = !str_eq(state, "none") && !str_eq(provider, d->backend);
	if (!(d->caps & PROVIDER_PERSISTENT))
		return;
	v->state = state;
	if (v->foreign)
		v->provider = provider;
}

/* A value of the row that is not shown while there is no sandbox to show. */
static const char *text(const struct view *v, int col)
{
	return v->caps & PROVIDER_PERSISTENT ? db_str(v->r, v->row, v->at + col) : NULL;
}

static json_t *caps_json(unsigned caps)
{
	json_t *o = json_object_new_object();
	int bad = !o;

	if (!bad) {
		bad |= json_add_bool(o, "persistent", caps & PROVIDER_PERSISTENT);
		bad |= json_add_bool(o, "pause", caps & PROVIDER_PAUSE);
		bad |= json_add_bool(o, "release", caps & PROVIDER_RELEASE);
		bad |= json_add_bool(o, "mounts", caps & PROVIDER_MOUNTS);
		bad |= json_add_bool(o, "sudo", caps & PROVIDER_SUDO);
	}
	if (!bad)
		return o;
	json_object_put(o);
	return NULL;
}

static json_t *words_json(const char *const *words, size_t n)
{
	cleanup_json json_t *list = json_object_new_array_ext(n ? (int)n : 1);

	for (size_t i = 0; list && i < n; i++) {
		json_t *w = json_object_new_string(words[i]);

		if (!w || json_object_array_add(list, w) < 0) {
			json_object_put(w);
			return NULL;
		}
	}
	return steal_ptr(&list);
}

/* As sandbox_blockers() in sql/ has them, from the same facts, and what stands against it before those are looked at. */
static size_t blockers_of(const struct view *v, const char *words[BLOCKERS_MAX])
{
	size_t n = 0;

	if (!(v->caps & PROVIDER_PERSISTENT)) {
		words[n++] = "rebuild_unsupported";
		return n;
	}
	if (v->foreign)
		words[n++] = "provider_changed";
	for (int k = 0; k < BUSY_KINDS; k++) {
		if (v->busy[k] > 0)
			words[n++] = busy_words[k];
	}
	if (db_bool(v->r, v->row, v->at + SBV_MOVING))
		words[n++] = "operation_in_progress";
	return n;
}

static json_t *rebuild_json(const struct view *v)
{
	const char *words[BLOCKERS_MAX];
	size_t n = blockers_of(v, words);
	cleanup_json json_t *o = json_object_new_object();

	json_t *list = words_json(words, n);

	if (!o || !list || json_add_bool(o, "allowed", n == 0) < 0) {
		json_object_put(list);
		return NULL;
	}
	if (json_add(o, "blockers", list) < 0)
		return NULL;
	return steal_ptr(&o);
}

static json_t *warnings_json(const struct view *v)
{
	const char *words[WARNINGS_MAX];
	size_t n = 0;

	for (const char *const *w = provider_warnings(v->backend, v->config); *w && n < WARNINGS_MAX - OWN_WARNINGS; w++)
		words[n++] = *w;
	if (v->foreign)
		words[n++] = "there is a sandbox of another provider than the configured one; it can be used again when that one is configured, and an administrator can take it away";
	if (str_eq(v->state, "error"))
		words[n++] = "the sandbox no longer exists; what was in it outside the Workspace is lost, and a rebuild makes another";
	return words_json(words, n);
}

static json_t *error_json(const struct view *v)
{
	const char *message = text(v, SBV_ERROR_MESSAGE);
	json_t *o = json_object_new_object();

	if (o && (json_add_str(o, "code", text(v, SBV_ERROR_CODE)) < 0 || json_add_str(o, "message", message ? message : "") < 0)) {
		json_object_put(o);
		return NULL;
	}
	return o;
}

/* A member that was made: NULL is want of memory. */
static int add_made(json_t *o, const char *key, json_t *v)
{
	return v ? json_add(o, key, v) : -1;
}

static int add_time(json_t *o, const char *key, const struct view *v, int col)
{
	return text(v, col) ? run_json_time(o, key, v->r, v->row, v->at + col) : json_add_null(o, key);
}

static int add_identity(json_t *o, const struct view *v)
{
	bool made = !str_eq(v->state, "none") && !str_eq(v->state, "creating") && !str_eq(v->state, "rebuilding");
	int bad = 0;

	bad |= json_add_str(o, "backend", v->backend);
	bad |= json_add_str(o, "provider", v->provider);
	bad |= add_made(o, "capabilities", caps_json(v->caps));
	bad |= json_add_str(o, "status", status_of(v->state));
	bad |= json_add_i64(o, "generation", text(v, SBV_GENERATION) ? db_i64(v->r, v->row, v->at + SBV_GENERATION) : 0);
	bad |= json_add_bool(o, "paused", str_eq(v->state, "paused") || str_eq(v->state, "waking"));
	bad |= json_add_str(o, "sandbox_id", made ? text(v, SBV_REF) : NULL);
	bad |= add_time(o, "created_at", v, SBV_CREATED);
	bad |= add_time(o, "last_activity_at", v, SBV_ACTIVITY);
	return bad;
}

static int add_use(json_t *o, const struct domain *d, const struct view *v)
{
	int64_t keep = text(v, SBV_KEEP_MS) ? db_i64(v->r, v->row, v->at + SBV_KEEP_MS) : 0;
	int bad = 0;

	bad |= json_add_i64(o, "idle_timeout_ms", keep > d->limits.sandbox_idle_ms ? keep : d->limits.sandbox_idle_ms);
	bad |= json_add_i64(o, "total_usage_seconds", db_i64(v->r, v->row, v->at + SBV_USAGE_MS) / 1000);
	bad |= json_add_i64(o, "active_runs", v->busy[ACTIVE_RUNS] + v->busy[CANCEL_REQUESTED]);
	bad |= json_add_i64(o, "active_operations", v->busy[ACTIVE_OPERATIONS]);
	bad |= json_add_bool(o, "cleanup_pending", v->busy[CLEANUP_PENDING] > 0);
	bad |= add_made(o, "rebuild", rebuild_json(v));
	bad |= add_made(o, "warnings", warnings_json(v));
	bad |= text(v, SBV_ERROR_CODE) ? add_made(o, "error", error_json(v)) : json_add_null(o, "error");
	return bad;
}

json_t *sandbox_json(const struct domain *d, const struct db_result *r, int row, int at, err_t **err)
{
	json_t *o = json_object_new_object();
	struct view v;

	view_init(&v, d, r, row, at);
	if (!o || add_identity(o, &v) || add_use(o, d, &v)) {
		json_object_put(o);
		err_set(err, ERR_NO_MEMORY, NULL, "no memory for a sandbox");
		return NULL;
	}
	return o;
}
