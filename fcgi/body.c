#include "fcgi/body.h"

#include "fcgi/header.h"
#include "fcgi/limits.h"

static void put_json(void *p)
{
	json_object_put(p);
}

static int parse(struct call *c, const char *p, size_t n, err_t **err)
{
	json_t *o = json_parse(p, n, (size_t)c->ctx->body_bytes, LIMIT_JSON_DEPTH, err);

	if (!o)
		return -1;
	if (!arena_adopt(c->arena, put_json, o))
		return err_set(err, ERR_NO_MEMORY, NULL, "no memory for the body");
	if (!json_object_is_type(o, json_type_object))
		return err_set(err, ERR_INVALID, "bad_json", "the body is not a JSON object");
	c->body = o;
	return 0;
}

int body_json(struct call *c, bool optional, err_t **err)
{
	if (request_body_length(c->q) == 0) {
		c->raw = "";
		c->raw_len = 0;
		return optional ? parse(c, "{}", 2, err) : err_set(err, ERR_INVALID, "body_required", "a JSON body is needed");
	}
	if (!header_is_json(request_field(c->q, FIELD_CONTENT_TYPE)))
		return err_set(err, ERR_INVALID, "unsupported_media_type", "the body must be application/json");
	if (request_body_all(c->q, c->arena, c->ctx->body_bytes, &c->raw, &c->raw_len, err) < 0)
		return -1;
	return parse(c, c->raw, c->raw_len, err);
}
