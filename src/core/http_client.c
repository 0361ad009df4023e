#include "core/http_client.h"

#include <stdlib.h>

#include "core/http_easy.h"

struct http_client {
	struct http_easy easy;
};

void http_answer_free(struct http_answer *a)
{
	buf_free(&a->body);
	a->status = 0;
}

struct http_client *http_client_new(const char *socket_path, err_t **err)
{
	struct http_client *c;

	if (http_easy_global(err) < 0)
		return NULL;
	c = calloc(1, sizeof *c);
	if (!c) {
		err_set(err, ERR_NO_MEMORY, NULL, "out of memory");
		return NULL;
	}
	if (http_easy_init(&c->easy, socket_path, err) < 0) {
		free(c);
		return NULL;
	}
	return c;
}

void http_client_free(struct http_client *c)
{
	if (!c)
		return;
	http_easy_free(&c->easy);
	free(c);
}

int http_client_do(struct http_client *c, const struct http_req *r, struct http_answer *ret, err_t **err)
{
	if (http_easy_prepare(&c->easy, r, err) < 0)
		return -1;
	return http_easy_result(&c->easy, curl_easy_perform(c->easy.curl), ret, err);
}
