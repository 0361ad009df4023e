/* http_easy.h - what the blocking client and the one on the loop share: one curl easy handle set up for one request. */
#ifndef PADDOCK_CORE_HTTP_EASY_H
#define PADDOCK_CORE_HTTP_EASY_H

#include <curl/curl.h>
#include <stdbool.h>

#include "core/http_client.h"

struct http_easy {
	CURL *curl;
	struct curl_slist *headers;
	struct buf body;     /* of the answer */
	bool too_large;
};

/* Once a process, before the first handle. */
int http_easy_global(err_t **err);
int http_easy_init(struct http_easy *e, const char *socket_path, err_t **err);
void http_easy_free(struct http_easy *e);
/* Sets the handle up for r. r->body must stay until the end. */
int http_easy_prepare(struct http_easy *e, const struct http_req *r, err_t **err);
/* Turns the transfer's result into an answer, whose body is handed over, or an error. */
int http_easy_result(struct http_easy *e, CURLcode rc, struct http_answer *ret, err_t **err);

#endif
