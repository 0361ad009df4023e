#include "fcgi/routes.h"

#include "fcgi/res_auth.h"
#include "fcgi/res_commands.h"
#include "fcgi/res_execute.h"
#include "fcgi/res_health.h"
#include "fcgi/res_runs.h"
#include "fcgi/res_sandbox.h"
#include "fcgi/res_tokens.h"
#include "fcgi/res_usage.h"

/* One route a line: contrib/lint/openapi reads this table. */
const struct route routes[] = {
	{ METHOD_POST, "/api/execute", ROUTE_CALLER, ROUTE_JSON, "encoding", res_execute, "execute" },
	{ METHOD_POST, "/api/runs", ROUTE_CALLER, ROUTE_JSON, "", res_runs_create, "createRun" },
	{ METHOD_GET, "/api/runs", ROUTE_CALLER, ROUTE_NO_BODY, "thread_id status limit cursor", res_runs_list, "listRuns" },
	{ METHOD_POST, "/api/runs/claim", ROUTE_CALLER, ROUTE_JSON, "", res_runs_claim, "claimRun" },
	{ METHOD_GET, "/api/runs/{run_id}", ROUTE_HANDLER, ROUTE_NO_BODY, "", res_runs_get, "getRun" },
	{ METHOD_POST, "/api/runs/{run_id}/heartbeat", ROUTE_CALLER, ROUTE_JSON, "", res_runs_heartbeat, "heartbeatRun" },
	{ METHOD_POST, "/api/runs/{run_id}/finish", ROUTE_CALLER, ROUTE_JSON, "", res_runs_finish, "finishRun" },
	{ METHOD_POST, "/api/runs/{run_id}/cancel", ROUTE_CALLER, ROUTE_JSON_OPTIONAL, "", res_runs_cancel, "cancelRun" },
	{ METHOD_POST, "/api/runs/{run_id}/steer", ROUTE_CALLER, ROUTE_JSON, "", res_runs_steer, "steerRun" },
	{ METHOD_POST, "/api/runs/{run_id}/commands", ROUTE_CALLER, ROUTE_JSON, "encoding", res_commands_start, "startCommand" },
	{ METHOD_GET, "/api/runs/{run_id}/commands", ROUTE_CALLER, ROUTE_NO_BODY, "limit cursor", res_commands_list, "listCommands" },
	{ METHOD_GET, "/api/commands/{command_id}", ROUTE_CALLER, ROUTE_NO_BODY, "", res_commands_get, "getCommand" },
	{ METHOD_GET, "/api/commands/{command_id}/events", ROUTE_CALLER, ROUTE_NO_BODY, "from encoding", res_commands_events, "getCommandEvents" },
	{ METHOD_GET, "/api/commands/{command_id}/stdout", ROUTE_CALLER, ROUTE_NO_BODY, "", res_commands_stdout, "getCommandStdout" },
	{ METHOD_GET, "/api/commands/{command_id}/stderr", ROUTE_CALLER, ROUTE_NO_BODY, "", res_commands_stderr, "getCommandStderr" },
	{ METHOD_POST, "/api/commands/{command_id}/stdin", ROUTE_CALLER, ROUTE_RAW, "eof", res_commands_stdin, "writeCommandStdin" },
	{ METHOD_POST, "/api/commands/{command_id}/signal", ROUTE_CALLER, ROUTE_JSON, "", res_commands_signal, "signalCommand" },
	{ METHOD_POST, "/api/commands/{command_id}/kill", ROUTE_CALLER, ROUTE_JSON_OPTIONAL, "", res_commands_kill, "killCommand" },
	{ METHOD_GET, "/api/auth/me", ROUTE_CALLER, ROUTE_NO_BODY, "", res_auth_me, "getMe" },
	{ METHOD_GET, "/api/user/tokens", ROUTE_CALLER, ROUTE_NO_BODY, "limit cursor", res_tokens_list, "listTokens" },
	{ METHOD_POST, "/api/user/tokens", ROUTE_CALLER, ROUTE_JSON_OPTIONAL, "", res_tokens_create, "createToken" },
	{ METHOD_DELETE, "/api/user/tokens/{token_id}", ROUTE_CALLER, ROUTE_NO_BODY, "", res_tokens_revoke, "revokeToken" },
	{ METHOD_GET, "/api/user/sandbox", ROUTE_HANDLER, ROUTE_NO_BODY, "", res_sandbox_get, "getSandbox" },
	{ METHOD_POST, "/api/user/sandbox/rebuild", ROUTE_CALLER, ROUTE_JSON_OPTIONAL, "", res_sandbox_rebuild, "rebuildSandbox" },
	{ METHOD_POST, "/api/user/sandbox/pause", ROUTE_CALLER, ROUTE_JSON_OPTIONAL, "", res_sandbox_pause, "pauseSandbox" },
	{ METHOD_POST, "/api/user/sandbox/release", ROUTE_CALLER, ROUTE_JSON_OPTIONAL, "", res_sandbox_release, "releaseSandbox" },
	{ METHOD_POST, "/api/user/sandbox/keep-alive", ROUTE_CALLER, ROUTE_JSON_OPTIONAL, "", res_sandbox_keep_alive, "keepSandboxAlive" },
	{ METHOD_GET, "/api/user/usage", ROUTE_CALLER, ROUTE_NO_BODY, "from to by", res_usage, "getUsage" },
	{ METHOD_GET, "/api/admin/workers", ROUTE_ADMIN, ROUTE_NO_BODY, "", res_health_workers, "listWorkers" },
	{ METHOD_GET, "/api/admin/quarantine", ROUTE_ADMIN, ROUTE_NO_BODY, "limit cursor", res_sandbox_quarantine, "listQuarantine" },
	{ METHOD_POST, "/api/admin/quarantine/{instance_id}/retire", ROUTE_ADMIN, ROUTE_JSON_OPTIONAL, "", res_sandbox_retire, "retireQuarantined" },
	{ METHOD_GET, "/healthz", ROUTE_PUBLIC, ROUTE_NO_BODY, "", res_health_live, "getHealth" },
	{ METHOD_GET, "/readyz", ROUTE_PUBLIC, ROUTE_NO_BODY, "", res_health_ready, "getReadiness" },
	{ METHOD_GET, "/metrics", ROUTE_HANDLER, ROUTE_NO_BODY, "", res_health_metrics, "getMetrics" },
	{ METHOD_GET, "/_auth", ROUTE_HANDLER, ROUTE_NO_BODY, "", res_auth_subrequest, "authSubrequest" },
};

const size_t routes_count = sizeof(routes) / sizeof(routes[0]);
