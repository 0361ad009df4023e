#include "domain/answer.h"

#include "base/cleanup.h"
#include "base/str.h"

struct word {
	const char *word;
	enum err_code code;       /* 0: success */
	const char *message;
};

static const struct word words[] = {
	{ "created", 0, NULL },
	{ "replayed", 0, NULL },
	{ "claimed", 0, NULL },
	{ "nothing", 0, NULL },
	{ "renewed", 0, NULL },
	{ "finished", 0, NULL },
	{ "cancelled", 0, NULL },
	{ "steered", 0, NULL },
	{ "requested", 0, NULL },
	{ "again", 0, NULL },
	{ "rebuilt", 0, NULL },
	{ "released", 0, NULL },
	{ "pausing", 0, NULL },
	{ "paused", 0, NULL },
	{ "kept", 0, NULL },
	{ "not_found", ERR_NOT_FOUND, "there is no such Run" },
	{ "idempotency_mismatch", ERR_REFUSED, "this Idempotency-Key was used for another request" },
	{ "run_ended", ERR_CONFLICT, "the Run has ended or is being cancelled" },
	{ "lease_lost", ERR_CONFLICT, "the lease token is not the one of the Run's present lease" },
	{ "lease_required", ERR_CONFLICT, "the Run is leased: its lease token is needed" },
	{ "not_running", ERR_CONFLICT, "the Run has not been started" },
	{ "not_steerable", ERR_CONFLICT, "a Run of one command takes no further input" },
	{ "cleanup_pending", ERR_CONFLICT, "an earlier environment of this Thread is still being cleaned up" },
	{ "stage_timeout", ERR_CONFLICT, "the time of this stage is used up" },
	{ "sandbox_busy", ERR_CONFLICT, "the sandbox is in use" },
	{ "sandbox_not_running", ERR_CONFLICT, "the sandbox is not running" },
	{ "sandbox_not_found", ERR_CONFLICT, "the sandbox no longer exists; a rebuild makes another" },
	{ "provider_changed", ERR_CONFLICT, "the user's sandbox is one of another provider" },
	{ "too_many_commands", ERR_LIMIT, "too many commands are running" },
	{ "too_many_instances", ERR_LIMIT, "too many sandboxes exist" },
};

int answer_check(const char *word, err_t **err)
{
	for (size_t i = 0; word && i < sizeof words / sizeof *words; i++) {
		if (!str_eq(words[i].word, word))
			continue;
		return words[i].code ? err_set(err, words[i].code, word, "%s", words[i].message) : 0;
	}
	return err_set(err, ERR_INTERNAL, NULL, "the database gave an unknown answer");
}

struct db_origin answer_origin(const struct caller *c)
{
	return (struct db_origin){ .actor_id = c->actor_id, .user_id = c->user_id, .token_id = c->token_id, .request_id = c->request_id, .source = c->address };
}

struct db_act answer_act(const struct caller *c)
{
	return (struct db_act){ .origin = answer_origin(c), .actor = c->actor };
}

int answer_not_found(const char *what, err_t **err)
{
	return err_set(err, ERR_NOT_FOUND, "not_found", "there is no such %s", what);
}

bool answer_again(int *tries, bool has_key, err_t **err)
{
	enum err_code code = err_code(*err);
	if (--*tries <= 0 || (code != ERR_BUSY && !(code == ERR_EXISTS && has_key)))
		return false;
	err_free(*err);
	*err = NULL;
	return true;
}

int answer_page(int rows, int64_t limit, int64_t total, bool *ret_more)
{
	int n = rows > limit ? (int)limit : rows;
	*ret_more = total > n;
	return n;
}

int answer_items(json_t *items, const char *cursor, json_t **ret, err_t **err)
{
	cleanup_json json_t *o = json_object_new_object();
	cleanup_json json_t *own = items;
	if (!own || !o || json_add(o, "items", steal_ptr(&own)) < 0 || json_add_str(o, "next_cursor", cursor) < 0)
		return err_set(err, ERR_NO_MEMORY, NULL, "no memory for a list");
	*ret = steal_ptr(&o);
	return 0;
}

int answer_list(const struct db_result *r, json_t *(*row)(const struct db_result *r, int i), json_t **ret, err_t **err)
{
	cleanup_json json_t *list = json_object_new_array();

	for (int i = 0; list && i < db_rows(r); i++) {
		json_t *o = row(r, i);

		if (!o)
			return err_set(err, ERR_NO_MEMORY, NULL, "no memory for a list");
		json_object_array_add(list, o);
	}
	if (!list)
		return err_set(err, ERR_NO_MEMORY, NULL, "no memory for a list");
	*ret = steal_ptr(&list);
	return 0;
}
