#include "fcgi/res_tokens.h"

#include <stdbool.h>

#include "domain/tokens.h"
#include "fcgi/page.h"

/* A token that acts for others, or an admin's, is an admin's to give. A service token makes none: it would outlive its own revocation. */
static int may_create(const struct caller *by, enum caller_kind kind, err_t **err)
{
	bool strong = kind == CALLER_ADMIN || kind == CALLER_SERVICE;

	if (by->kind == CALLER_SERVICE)
		return err_set(err, ERR_DENIED, "forbidden", "a service token cannot make tokens");
	if (strong && !by->admin)
		return err_set(err, ERR_DENIED, "admin_required", "tokens of this kind are made by admins");
	return 0;
}

static int read_new(const struct call *c, struct token_new *n, err_t **err)
{
	static const char *const keys[] = { "kind", "label", "lifetime_ms", NULL };
	const char *kind = "user";

	if (json_only_keys(c->body, keys, err) < 0 || json_get_str(c->body, "kind", false, &kind, err) < 0 ||
	    json_get_str(c->body, "label", false, &n->label, err) < 0 || json_get_i64(c->body, "lifetime_ms", false, 1, INT64_MAX / 1000, &n->lifetime_ms, err) < 0)
		return -1;
	if (caller_kind_parse(kind, &n->kind) < 0)
		return err_set(err, ERR_REFUSED, "bad_kind", "kind is user, admin, service or e2b");
	return may_create(&c->caller, n->kind, err);
}

int res_tokens_create(struct call *c, err_t **err)
{
	struct token_new n = {
		.user = c->caller.user,
		.idempotency = { .key = request_field(c->q, FIELD_IDEMPOTENCY_KEY), .body = c->raw, .body_len = c->raw_len },
	};
	char secret[TOKEN_SECRET_SIZE];
	json_t *o;
	int rc;

	if (read_new(c, &n, err) < 0 || tokens_create(c->ctx->domain, &c->caller, &n, secret, err) < 0)
		return -1;
	o = json_object_new_object();
	if (o && (json_add_str(o, "token", secret) < 0 || json_add_str(o, "kind", caller_kind_name(n.kind)) < 0)) {
		json_object_put(o);
		o = NULL;
	}
	rc = response_json(c->r, 201, o, err);
	crypto_wipe(secret, sizeof(secret));
	return rc;
}

int res_tokens_list(struct call *c, err_t **err)
{
	json_t *o = NULL;
	int64_t limit;

	if (page_limit(c->q, &limit, err) < 0 || tokens_page(c->ctx->domain, &c->caller, limit, request_query(c->q, "cursor"), &o, err) < 0)
		return -1;
	return response_json(c->r, 200, o, err);
}

int res_tokens_revoke(struct call *c, err_t **err)
{
	if (tokens_revoke_own(c->ctx->domain, &c->caller, c->params[0], err) < 0)
		return -1;
	response_empty(c->r, 204);
	return 0;
}
