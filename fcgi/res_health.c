#include "fcgi/res_health.h"

#include <stdio.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "domain/health.h"
#include "fcgi/auth.h"

#define METRICS_BYTES (1u << 20)

int res_health_live(struct call *c, err_t **err)
{
	static const char text[] = "{\"status\":\"ok\"}";

	return response_text(c->r, 200, "application/json", text, sizeof(text) - 1, err);
}

int res_health_ready(struct call *c, err_t **err)
{
	bool ready = false;
	json_t *o = NULL;
	char retry[24];

	if (health_read(c->ctx->domain, &o, &ready, err) < 0)
		return -1;
	snprintf(retry, sizeof(retry), "%lld", (long long)c->ctx->retry_after_s);
	if (!ready && response_header(c->r, "Retry-After", retry, err) < 0) {
		json_object_put(o);
		return -1;
	}
	return response_json(c->r, ready ? 200 : 503, o, err);
}

int res_health_metrics(struct call *c, err_t **err)
{
	cleanup_buf struct buf b = BUF_INIT(METRICS_BYTES);
	cleanup_err err_t *away = NULL;

	if (!auth_from_loopback(c->q) && auth_call(c, ROUTE_ADMIN, err) < 0)
		return -1;
	if (board_metrics(c->ctx->board, &b) < 0)
		return err_set(err, ERR_NO_MEMORY, NULL, "no memory for the metrics");
	/* The counters of the children are worth showing when the database is away, and that it is away is a metric too. */
	if (health_metrics(c->ctx->domain, &b, &away) < 0)
		log_kv(LOG_WARN, "metrics_incomplete", "req", request_id(c->q), "err", err_message(away), NULL);
	buf_addf(&b, "# HELP paddock_api_database_up Whether the database answered\n# TYPE paddock_api_database_up gauge\npaddock_api_database_up %d\n",
		 away ? 0 : 1);
	return response_text(c->r, 200, "text/plain; version=0.0.4; charset=utf-8", buf_str(&b), b.len, err);
}

int res_health_workers(struct call *c, err_t **err)
{
	return response_json(c->r, 200, board_json(c->ctx->board), err);
}
