#include "domain/tokens.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/rand.h"
#include "base/str.h"
#include "base/utf8.h"
#include "db/db_accounts.h"
#include "domain/answer.h"
#include "domain/check.h"
#include "domain/idempotency_db.h"
#include "domain/run_json.h"

#define LABEL_MAX 200
#define SECRET_BYTES 32
#define ID_BYTES ((TOKEN_ID_SIZE - 1) / 2)
#define DERIVE_MAX (IDEMPOTENCY_KEY_MAX + ID_SIZE + 2 * CRYPTO_HASH_BYTES + 32)

struct parts {
	char id[TOKEN_ID_SIZE];
	char random[2 * SECRET_BYTES + 1];
};

static void hex(const uint8_t *p, size_t n, char *dst)
{
	for (size_t i = 0; i < n; i++)
		snprintf(dst + 2 * i, 3, "%02x", p[i]);
}

static void draw(struct parts *ret)
{
	rand_hex(ret->id, ID_BYTES);
	rand_hex(ret->random, SECRET_BYTES);
}

/* Nobody keeps a token, so a repeated key makes it again: its id from user and key, its secret from the body too. Another body under the same key
 * thus gives the same id with another secret, which is how it is noticed. */
static void derive(const struct domain *d, const char *user_id, const struct idempotency_hash *i, struct parts *ret)
{
	char text[DERIVE_MAX], body[2 * CRYPTO_HASH_BYTES + 1];
	uint8_t h[CRYPTO_HASH_BYTES];
	hex(i->hash, sizeof i->hash, body);
	(void)str_fmt(text, sizeof text, "token-id|%s|%s", user_id, i->db.key);
	crypto_keyed_hash(&d->pepper, text, strlen(text), h);
	hex(h, ID_BYTES, ret->id);
	(void)str_fmt(text, sizeof text, "token-secret|%s|%s|%s", user_id, body, i->db.key);
	crypto_keyed_hash(&d->pepper, text, strlen(text), h);
	hex(h, SECRET_BYTES, ret->random);
	crypto_wipe(h, sizeof h);
}

/* pdk_<id>_<secret>, for the E2B API e2b_<id><secret>, which its clients take for one run of hex digits. */
static void make_secret(enum caller_kind kind, struct parts *p, char secret[TOKEN_SECRET_SIZE])
{
	(void)str_fmt(secret, TOKEN_SECRET_SIZE, kind == CALLER_E2B ? "e2b_%s%s" : "pdk_%s_%s", p->id, p->random);
	crypto_wipe(p->random, sizeof p->random);
}

/* The id is taken: by this very token when the request is a repeated one. */
static int replayed(struct domain *d, const char *id, const uint8_t hash[CRYPTO_HASH_BYTES], err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	cleanup_free char *stored = NULL;
	size_t n = 0;
	if (db_auth(d->db, id, NULL, &r, err) < 0 || (db_rows(r) == 1 && db_bytes(r, 0, AUTH_HASH, &stored, &n, err) < 0))
		return -1;
	if (n != CRYPTO_HASH_BYTES || !crypto_equal(stored, hash, n))
		return err_set(err, ERR_REFUSED, "idempotency_mismatch", "this Idempotency-Key was used for another request");
	return 0;
}

static int find_user(struct domain *d, const struct token_new *n, char id[ID_SIZE], err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	if (db_users(d->db, n->user, &r, err) < 0)
		return -1;
	if (db_rows(r) != 1)
		return err_set(err, ERR_NOT_FOUND, "unknown_user", "there is no user of this name");
	if (n->kind == CALLER_ADMIN && !db_bool(r, 0, USER_ADMIN))
		return err_set(err, ERR_REFUSED, "not_an_admin", "an admin token needs an admin account");
	return str_copy(id, ID_SIZE, db_str(r, 0, USER_ID)) < 0 ? err_set(err, ERR_INTERNAL, NULL, "an account has an impossible id") : 0;
}

/* Made now, or by an earlier request with the same key. */
static int insert(struct domain *d, const struct caller *by, const char *user_id, const struct parts *p, const struct token_new *n,
	const uint8_t hash[CRYPTO_HASH_BYTES], err_t **err)
{
	err_t *e = NULL;
	struct db_act a = answer_act(by);
	struct db_token_new t = { .id = p->id, .user_id = user_id, .kind = caller_kind_name(n->kind), .label = n->label, .hash = hash, .hash_len = CRYPTO_HASH_BYTES,
		.lifetime_ms = n->lifetime_ms };
	if (db_token_insert(d->db, &t, &a, &e) == 0)
		return 0;
	if (err_code(e) != ERR_EXISTS || !n->idempotency.key)
		return err_move(err, e);
	err_free(e);
	return replayed(d, p->id, hash, err);
}

int tokens_create(struct domain *d, const struct caller *by, const struct token_new *n, char secret[TOKEN_SECRET_SIZE], err_t **err)
{
	char user_id[ID_SIZE];
	struct parts p;
	struct idempotency_hash idem;
	uint8_t hash[CRYPTO_HASH_BYTES];
	if (n->label && (strlen(n->label) > LABEL_MAX || !utf8_valid(n->label, strlen(n->label))))
		return err_set(err, ERR_REFUSED, "bad_label", "a label is UTF-8 of at most %d bytes", LABEL_MAX);
	if (n->lifetime_ms < 0)
		return err_set(err, ERR_REFUSED, "bad_lifetime", "a token's lifetime is positive");
	if (idempotency_check(d, &n->idempotency, &idem, err) < 0 || find_user(d, n, user_id, err) < 0)
		return -1;
	if (idem.db.key)
		derive(d, user_id, &idem, &p);
	else
		draw(&p);
	make_secret(n->kind, &p, secret);
	crypto_keyed_hash(&d->pepper, secret, strlen(secret), hash);
	int rc = insert(d, by, user_id, &p, n, hash, err);
	if (rc < 0)
		crypto_wipe(secret, TOKEN_SECRET_SIZE);
	return rc;
}

static json_t *token_json(const struct db_result *r, int row)
{
	json_t *o = json_object_new_object();
	if (o && (json_add_str(o, "id", db_str(r, row, TOKEN_ID)) | json_add_str(o, "user", db_str(r, row, TOKEN_USER)) | json_add_str(o, "kind", db_str(r, row, TOKEN_KIND)) |
			json_add_str(o, "label", db_str(r, row, TOKEN_LABEL)) | run_json_time(o, "created_at", r, row, TOKEN_CREATED) |
			run_json_time(o, "expires_at", r, row, TOKEN_EXPIRES) | run_json_time(o, "revoked_at", r, row, TOKEN_REVOKED))) {
		json_object_put(o);
		return NULL;
	}
	return o;
}

int tokens_list(struct domain *d, const char *user, json_t **ret, err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	if (db_tokens(d->db, user, &r, err) < 0)
		return -1;
	return answer_list(r, token_json, ret, err);
}

static bool is_id(const char *s)
{
	return strlen(s) == TOKEN_ID_SIZE - 1 && strspn(s, "0123456789abcdef") == TOKEN_ID_SIZE - 1;
}

static int check_cursor(struct domain *d, const struct caller *c, const char *cursor, err_t **err)
{
	bool is_own = false;
	if (!cursor)
		return 0;
	if (is_id(cursor) && db_token_is_of(d->db, cursor, c->user_id, &is_own, err) < 0)
		return -1;
	return is_own ? 0 : err_set(err, ERR_INVALID, "bad_cursor", "cursor is not one that was given");
}

int tokens_page(struct domain *d, const struct caller *c, int64_t limit, const char *cursor, json_t **ret, err_t **err)
{
	cleanup_db_result struct db_result *r = NULL;
	if (check_limit(limit, &limit, err) < 0 || check_cursor(d, c, cursor, err) < 0 || db_tokens_of(d->db, c->user_id, cursor, limit + 1, &r, err) < 0)
		return -1;
	cleanup_json json_t *items = json_object_new_array();
	bool more;
	int n = answer_page(db_rows(r), limit, db_rows(r), &more), bad = items ? 0 : -1;
	for (int i = 0; !bad && i < n; i++) {
		json_t *t = token_json(r, i);
		bad = t ? json_object_array_add(items, t) : -1;
	}
	if (bad)
		return err_set(err, ERR_NO_MEMORY, NULL, "no memory for a list");
	return answer_items(steal_ptr(&items), more ? db_str(r, n - 1, TOKEN_ID) : NULL, ret, err);
}

static int revoke_of(struct domain *d, const struct caller *by, const char *id, const char *user_id, err_t **err)
{
	bool found = false;
	struct db_act a = answer_act(by);
	if (is_id(id) && db_token_revoke(d->db, id, user_id, &a, &found, err) < 0)
		return -1;
	return found ? 0 : err_set(err, ERR_NOT_FOUND, "not_found", "there is no such token");
}

int tokens_revoke(struct domain *d, const struct caller *by, const char *id, err_t **err)
{
	return revoke_of(d, by, id, NULL, err);
}

int tokens_revoke_own(struct domain *d, const struct caller *by, const char *id, err_t **err)
{
	return revoke_of(d, by, id, by->user_id, err);
}
