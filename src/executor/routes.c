/* routes.c - the routes of docs/executor-api.md. The first that matches wins. */
#include <stddef.h>

#include "executor/executor.h"
#include "executor/res.h"

#define JSON_BYTES (4u << 20)
#define SMALL_BYTES (64u << 10)
#define STDIN_BYTES (64u << 20)   /* of one request; [executor] stdin_bytes limits the whole */

const struct route executor_routes[] = {
	{ HTTP_GET, "/t/{}", true, 0, res_ticket_get },
	{ HTTP_GET, "/healthz", false, 0, res_healthz },
	{ HTTP_GET, "/metrics", false, 0, res_metrics },
	{ HTTP_GET, "/v1/health", false, 0, res_health },
	{ HTTP_GET, "/v1/reports", false, 0, res_reports_get },
	{ HTTP_POST, "/v1/reports/ack", false, JSON_BYTES, res_reports_ack },
	{ HTTP_POST, "/v1/commands/query", false, SMALL_BYTES, res_commands_query },
	{ HTTP_PUT, "/v1/commands/{}", false, JSON_BYTES, res_command_put },
	{ HTTP_GET, "/v1/commands/{}", false, 0, res_command_get },
	{ HTTP_POST, "/v1/commands/{}/tickets", false, SMALL_BYTES, res_command_ticket },
	{ HTTP_POST, "/v1/commands/{}/stdin", false, STDIN_BYTES, res_command_stdin },
	{ HTTP_POST, "/v1/commands/{}/signal", false, SMALL_BYTES, res_command_signal },
	{ HTTP_POST, "/v1/commands/{}/kill", false, SMALL_BYTES, res_command_kill },
	{ HTTP_GET, "/v1/commands/{}/{}", false, 0, res_command_view },
	{ HTTP_GET, "/v1/instances", false, 0, res_instances_get },
	{ HTTP_PUT, "/v1/instances/{}", false, SMALL_BYTES, res_instance_put },
	{ HTTP_GET, "/v1/instances/{}", false, 0, res_instance_get },
	{ HTTP_DELETE, "/v1/instances/{}", false, 0, res_instance_delete },
	{ HTTP_POST, "/v1/instances/{}/pause", false, SMALL_BYTES, res_instance_pause },
	{ HTTP_POST, "/v1/instances/{}/wake", false, SMALL_BYTES, res_instance_wake },
	{ HTTP_POST, "/v1/instances/{}/keepalive", false, SMALL_BYTES, res_instance_keepalive },
	{ HTTP_DELETE, "/v1/instances/{}/scopes/{}", false, 0, res_scope_delete },
	{ HTTP_GET, "/v1/provider/instances", false, 0, res_provider_instances },
	{ 0 },
};
