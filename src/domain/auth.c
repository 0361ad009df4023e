#include "domain/auth.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "domain/answer.h"
#include "domain/auth_db.h"
#include "domain/run_json.h"
#include "domain/users.h"

#define TOKEN_MAX 256

static int unauthorized(err_t **err, const char *why)
{
	return err_set(err, ERR_DENIED, "unauthorized", "%s", why);
}

/* The token of an Authorization header, and the id in it. */
static int parse_bearer(const char *header, const char **token, char id[TOKEN_ID_SIZE], err_t **err)
{
	if (!header || !*header)
		return unauthorized(err, "a bearer token is needed");
	if (strncasecmp(header, "Bearer ", 7) != 0)
		return unauthorized(err, "only bearer tokens are accepted");
	const char *t = header + 7;
	size_t n = strlen(t);
	if (n > TOKEN_MAX)
		return unauthorized(err, "the token is not valid");
	size_t skip = str_prefix(t, "pdk_") || str_prefix(t, "e2b_") ? 4 : n;
	if (n < skip + TOKEN_ID_SIZE || strspn(t + skip, "0123456789abcdef") < TOKEN_ID_SIZE - 1)
		return unauthorized(err, "the token is not valid");
	memcpy(id, t + skip, TOKEN_ID_SIZE - 1);
	id[TOKEN_ID_SIZE - 1] = 0;
	*token = t;
	return 0;
}

static bool hash_matches(const struct domain *d, const struct db_result *r, const char *token)
{
	uint8_t h[CRYPTO_HASH_BYTES];
	char *stored = NULL;
	size_t n = 0;
	if (db_bytes(r, 0, AUTH_HASH, &stored, &n, NULL) < 0)
		return false;
	crypto_keyed_hash(&d->pepper, token, strlen(token), h);
	bool same = n == sizeof h && crypto_equal(stored, h, sizeof h);
	free(stored);
	return same;
}

static void copy_cut(char *dst, size_t size, const char *src)
{
	size_t n = src ? strnlen(src, size - 1) : 0;
	if (n)
		memcpy(dst, src, n);
	dst[n] = 0;
}

/* A service token acts for the named user, the others for their own; another's name with them is refused. */
static int choose_user(const struct db_result *r, const struct auth_request *rq, struct caller *c, err_t **err)
{
	bool named = rq->act_for && *rq->act_for;
	const char *id = db_str(r, 0, AUTH_USER_ID), *name = db_str(r, 0, AUTH_USER);
	if (c->kind == CALLER_E2B)
		return err_set(err, ERR_DENIED, "forbidden", "an e2b token is for the E2B API alone");
	if (c->kind == CALLER_SERVICE) {
		if (!named)
			return err_set(err, ERR_INVALID, "user_header_required", "a service token needs X-Paddock-User");
		id = db_str(r, 0, AUTH_FOR_ID);
		name = db_str(r, 0, AUTH_FOR);
		if (!id)
			return err_set(err, ERR_NOT_FOUND, "unknown_user", "X-Paddock-User names no user");
	} else if (named) {
		return err_set(err, ERR_DENIED, "forbidden", "only a service token may name a user");
	}
	if (str_copy(c->user_id, sizeof c->user_id, id) < 0 || str_copy(c->user, sizeof c->user, name) < 0)
		return err_set(err, ERR_INTERNAL, NULL, "an account has an impossible name");
	return 0;
}

static int fill(struct domain *d, const struct db_result *r, const struct auth_request *rq, const char *token, const char *id, struct caller *c, err_t **err)
{
	if (db_rows(r) != 1 || !hash_matches(d, r, token) || !db_bool(r, 0, AUTH_USABLE) || caller_kind_parse(db_str(r, 0, AUTH_KIND), &c->kind) < 0)
		return unauthorized(err, "the token is not valid");
	/* The prefix is part of the hashed token, and tokens_create gives each kind its own. */
	c->admin = c->kind == CALLER_ADMIN && db_bool(r, 0, AUTH_ADMIN);
	copy_cut(c->actor_id, sizeof c->actor_id, db_str(r, 0, AUTH_USER_ID));
	copy_cut(c->actor, sizeof c->actor, db_str(r, 0, AUTH_USER));
	copy_cut(c->token_id, sizeof c->token_id, id);
	copy_cut(c->request_id, sizeof c->request_id, rq->request_id);
	copy_cut(c->address, sizeof c->address, rq->address);
	return choose_user(r, rq, c, err);
}

/* A name that cannot be one is not worth asking for, and may not be UTF-8. */
static const char *asked_name(const struct auth_request *rq)
{
	return rq->act_for && users_name_valid(rq->act_for) ? rq->act_for : NULL;
}

int auth_with(struct domain *d, const struct auth_request *rq, auth_read *ask, const void *arg, struct caller *ret, struct db_result **ret_row, err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	const char *token;
	char id[TOKEN_ID_SIZE];
	struct caller c = { 0 };
	if (parse_bearer(rq->authorization, &token, id, err) < 0 || ask(d->db, id, asked_name(rq), arg, &r, err) < 0 || fill(d, r, rq, token, id, &c, err) < 0)
		return -1;
	*ret = c;
	*ret_row = steal_ptr(&r);
	return 0;
}

static int ask_token(struct db *d, const char *id, const char *act_for, const void *arg, struct db_result **ret, err_t **err)
{
	(void)arg;
	return db_auth(d, id, act_for, ret, err);
}

int auth_bearer(struct domain *d, const struct auth_request *rq, struct caller *ret, err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	return auth_with(d, rq, ask_token, NULL, ret, &r, err);
}

static int ask_run(struct db *d, const char *id, const char *act_for, const void *run_id, struct db_result **ret, err_t **err)
{
	return db_auth_run(d, id, act_for, run_id, ret, err);
}

int auth_run_get(struct domain *d, const struct auth_request *rq, const char *run_id, struct caller *ret, json_t **ret_run, err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	if (!id_valid(run_id))
		return auth_bearer(d, rq, ret, err) < 0 ? -1 : answer_not_found("Run", err);
	if (auth_with(d, rq, ask_run, run_id, ret, &r, err) < 0)
		return -1;
	if (db_null(r, 0, AUTH_COLS + RUN_ID))
		return answer_not_found("Run", err);
	json_t *run = run_json(r, 0, AUTH_COLS, ret->user, err);
	if (!run)
		return -1;
	*ret_run = run;
	return 0;
}
