#include "domain/users.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "db/db_accounts.h"
#include "domain/answer.h"
#include "domain/run_json.h"

bool users_name_valid(const char *name)
{
	static const char first[] = "abcdefghijklmnopqrstuvwxyz0123456789", rest[] = "abcdefghijklmnopqrstuvwxyz0123456789._-";
	size_t n = strlen(name);
	return n >= 1 && n < USER_NAME_SIZE && strchr(first, name[0]) && strspn(name, rest) == n;
}

static json_t *user_json(const struct db_result *r, int row)
{
	json_t *o = json_object_new_object();
	if (o && (json_add_str(o, "id", db_str(r, row, USER_ID)) | json_add_str(o, "name", db_str(r, row, USER_NAME)) | json_add_bool(o, "admin", db_bool(r, row, USER_ADMIN)) |
			json_add_bool(o, "disabled", db_bool(r, row, USER_DISABLED)) | run_json_time(o, "created_at", r, row, USER_CREATED))) {
		json_object_put(o);
		return NULL;
	}
	return o;
}

int users_create(struct domain *d, const struct caller *by, const char *name, bool admin, json_t **ret, err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	struct db_act a = answer_act(by);
	char id[ID_SIZE];
	err_t *e = NULL;
	if (!users_name_valid(name))
		return err_set(err, ERR_REFUSED, "bad_user_name", "a user's name has 1 to 64 of a-z 0-9 . _ - and begins with a letter or digit");
	id_v7(id);
	if (db_user_insert(d->db, id, name, admin, &a, &e) < 0) {
		if (err_code(e) != ERR_EXISTS)
			return err_move(err, e);
		err_free(e);
		return err_set(err, ERR_EXISTS, "user_exists", "there is a user of this name");
	}
	if (db_users(d->db, name, &r, err) < 0)
		return -1;
	json_t *o = db_rows(r) == 1 ? user_json(r, 0) : NULL;
	if (!o)
		return err_set(err, ERR_NO_MEMORY, NULL, "no memory for a user");
	*ret = o;
	return 0;
}

int users_list(struct domain *d, json_t **ret, err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	if (db_users(d->db, NULL, &r, err) < 0)
		return -1;
	return answer_list(r, user_json, ret, err);
}
