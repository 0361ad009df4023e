/* The client on the loop (declared in http_client.h): curl's multi interface tells which descriptors and which time-out to watch. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/str.h"
#include "core/http_easy.h"

#define CONNECTIONS_KEPT 8L

struct http_async {
	struct loop *loop;
	CURLM *multi;
	struct loop_timer *timer;
	struct loop_timer *drop;     /* ends the requests that are lost */
	struct list requests;
	struct list watches;
	char *socket_path;
};

struct request {
	struct list node;
	struct http_easy easy;
	http_async_fn *fn;
	void *arg;
	void *body;
	bool lost;                   /* its socket cannot be watched: nothing would ever be heard of it */
};

struct watch {
	struct list node;
	struct http_async *h;
	struct loop_io *io;
};

static void request_free(struct request *q)
{
	http_easy_free(&q->easy);
	free(q->body);
	free(q);
}

static void watch_free(struct watch *w)
{
	list_del(&w->node);
	loop_io_free(w->io);
	free(w);
}

static void finish(struct http_async *h, CURL *curl, CURLcode rc)
{
	struct http_answer a;
	struct request *q;
	err_t *err = NULL;
	int failed;

	curl_easy_getinfo(curl, CURLINFO_PRIVATE, (char **)&q);
	curl_multi_remove_handle(h->multi, curl);
	list_del(&q->node);
	failed = http_easy_result(&q->easy, rc, &a, &err);
	q->fn(q->arg, failed ? NULL : &a, err);
	if (!failed)
		http_answer_free(&a);
	err_free(err);
	request_free(q);
}

static void collect(struct http_async *h)
{
	CURLMsg *m;
	int left;

	while ((m = curl_multi_info_read(h->multi, &left))) {
		if (m->msg == CURLMSG_DONE)
			finish(h, m->easy_handle, m->data.result);
	}
}

static void on_ready(void *arg, int fd, int events)
{
	struct watch *w = arg;
	struct http_async *h = w->h;
	int running, what = 0;

	if (events & LOOP_READ)
		what |= CURL_CSELECT_IN;
	if (events & LOOP_WRITE)
		what |= CURL_CSELECT_OUT;
	curl_multi_socket_action(h->multi, fd, what, &running);
	collect(h);
}

static void on_timeout(void *arg)
{
	struct http_async *h = arg;
	int running;

	curl_multi_socket_action(h->multi, CURL_SOCKET_TIMEOUT, 0, &running);
	collect(h);
}

static void on_drop(void *arg)
{
	struct http_async *h = arg;
	bool again = true;

	while (again) {   /* an answer may start or end others */
		again = false;
		list_for_each(n, &h->requests) {
			struct request *q = list_entry(n, struct request, node);

			if (q->lost) {
				again = true;
				finish(h, q->easy.curl, CURLE_RECV_ERROR);
				break;
			}
		}
	}
}

/* Told to curl, it would end the whole handle, with every request of now and later. */
static void lose(struct http_async *h, CURL *curl)
{
	struct request *q;

	if (curl_easy_getinfo(curl, CURLINFO_PRIVATE, (char **)&q) == CURLE_OK && q) {
		q->lost = true;
		loop_timer_set(h->drop, 0);
	}
}

static int want_timer(CURLM *multi, long ms, void *arg)
{
	struct http_async *h = arg;

	(void)multi;
	loop_timer_set(h->timer, ms);
	return 0;
}

static int want_socket(CURL *curl, curl_socket_t fd, int what, void *arg, void *assigned)
{
	struct http_async *h = arg;
	struct watch *w = assigned;
	int events = ((what & CURL_POLL_IN) ? LOOP_READ : 0) | ((what & CURL_POLL_OUT) ? LOOP_WRITE : 0);

	if (what == CURL_POLL_REMOVE) {
		if (w)
			watch_free(w);
		return 0;
	}
	if (w) {
		if (loop_io_set(w->io, events) < 0)
			lose(h, curl);
		return 0;
	}
	w = calloc(1, sizeof *w);
	if (w) {
		w->h = h;
		w->io = loop_io_new(h->loop, fd, events, on_ready, w);
	}
	if (!w || !w->io) {   /* memory, or the kernel's limit on watches, which sandboxes share with us */
		free(w);
		lose(h, curl);
		return 0;
	}
	list_add_tail(&h->watches, &w->node);
	curl_multi_assign(h->multi, fd, w);
	return 0;
}

static int multi_options(struct http_async *h)
{
	return curl_multi_setopt(h->multi, CURLMOPT_SOCKETFUNCTION, want_socket) ||
		curl_multi_setopt(h->multi, CURLMOPT_SOCKETDATA, h) ||
		curl_multi_setopt(h->multi, CURLMOPT_TIMERFUNCTION, want_timer) ||
		curl_multi_setopt(h->multi, CURLMOPT_TIMERDATA, h) ||
		curl_multi_setopt(h->multi, CURLMOPT_MAXCONNECTS, CONNECTIONS_KEPT) ? -1 : 0;
}

struct http_async *http_async_new(struct loop *l, const char *socket_path, err_t **err)
{
	struct http_async *h;

	if (http_easy_global(err) < 0)
		return NULL;
	h = calloc(1, sizeof *h);
	if (!h) {
		err_set(err, ERR_NO_MEMORY, NULL, "out of memory");
		return NULL;
	}
	h->loop = l;
	list_init(&h->requests);
	list_init(&h->watches);
	h->socket_path = str_dup(socket_path);
	h->timer = loop_timer_new(l, on_timeout, h);
	h->drop = loop_timer_new(l, on_drop, h);
	h->multi = curl_multi_init();
	if (!h->socket_path || !h->timer || !h->drop || !h->multi || multi_options(h) < 0) {
		http_async_free(h);
		err_set(err, ERR_NO_MEMORY, NULL, "cannot set up an HTTP client for %s", socket_path);
		return NULL;
	}
	return h;
}

void http_async_free(struct http_async *h)
{
	if (!h)
		return;
	list_for_each_safe(n, next, &h->requests) {
		struct request *q = list_entry(n, struct request, node);

		curl_multi_remove_handle(h->multi, q->easy.curl);
		list_del(n);
		request_free(q);
	}
	curl_multi_cleanup(h->multi);
	list_for_each_safe(w, after, &h->watches)
		watch_free(list_entry(w, struct watch, node));
	loop_timer_free(h->timer);
	loop_timer_free(h->drop);
	free(h->socket_path);
	free(h);
}

static struct request *request_new(struct http_async *h, const struct http_req *r, err_t **err)
{
	struct http_req own = *r;
	struct request *q = calloc(1, sizeof *q);

	if (!q) {
		err_set(err, ERR_NO_MEMORY, NULL, "out of memory");
		return NULL;
	}
	list_init(&q->node);
	if (r->body) {
		q->body = malloc(r->body_len + 1);
		if (!q->body) {
			free(q);
			err_set(err, ERR_NO_MEMORY, NULL, "out of memory");
			return NULL;
		}
		memcpy(q->body, r->body, r->body_len);
		own.body = q->body;
	}
	if (http_easy_init(&q->easy, h->socket_path, err) < 0 || http_easy_prepare(&q->easy, &own, err) < 0) {
		request_free(q);
		return NULL;
	}
	return q;
}

int http_async_do(struct http_async *h, const struct http_req *r, http_async_fn *fn, void *arg, err_t **err)
{
	struct request *q = request_new(h, r, err);

	if (!q)
		return -1;
	q->fn = fn;
	q->arg = arg;
	if (curl_easy_setopt(q->easy.curl, CURLOPT_PRIVATE, q) || curl_multi_add_handle(h->multi, q->easy.curl) != CURLM_OK) {
		request_free(q);
		return err_set(err, ERR_INTERNAL, NULL, "cannot start the request");
	}
	list_add_tail(&h->requests, &q->node);
	return 0;
}
