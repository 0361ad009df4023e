#include "core/config_table.h"

#define KI INT64_C(1024)
#define MI (KI * KI)
#define GI (KI * MI)
#define TI (KI * GI)
#define SECOND INT64_C(1000)
#define HOUR (3600 * SECOND)
#define DAY (24 * HOUR)

#define STR(s, k, def, min, max, env, who, help) { s, k, CONFIG_STR, def, min, max, NULL, env, who, help }
#define PATH(s, k, def, who, help) { s, k, CONFIG_PATH, def, 1, 900, NULL, NULL, who, help }
#define SOCK(s, k, def, who, help) { s, k, CONFIG_PATH, def, 1, 107, NULL, NULL, who, help }
#define WORD(s, k, def, choices, env, who, help) { s, k, CONFIG_WORD, def, 0, 0, choices, env, who, help }
#define INT(s, k, def, min, max, who, help) { s, k, CONFIG_INT, def, min, max, NULL, NULL, who, help }
#define SIZE(s, k, def, min, max, who, help) { s, k, CONFIG_SIZE, def, min, max, NULL, NULL, who, help }
#define MS(s, k, def, min, max, env, who, help) { s, k, CONFIG_MS, def, min, max, NULL, env, who, help }

#define API CONFIG_API
#define EXE CONFIG_EXECUTOR
#define CTL CONFIG_CTL

const struct config_opt config_table[] = {
	WORD("service", "backend", "container", "container|cube", "SANDBOX_BACKEND", CONFIG_ALL, "which backend runs the sandboxes"),
	STR("service", "provider", "", 0, 16, "SANDBOX_PROVIDER", CONFIG_ALL, "instead of a backend: host, e2b or daytona"),
	STR("service", "instance", "", 0, 12, "PADDOCK_INSTANCE", CONFIG_ALL, "name of a second installation on this machine"),
	STR("service", "node", "local", 1, 32, NULL, CONFIG_ALL, "name of this node, part of the names of its containers"),
	INT("service", "https_port", "8443", 1, 65535, CTL, "port of nginx on this machine, as contrib/up wrote it into nginx.conf"),
	WORD("service", "log_level", "info", "debug|info|warn|error", NULL, CONFIG_ALL, "lowest level of the log lines that are written"),

	PATH("paths", "state", "/var/lib/paddock%I/executor", EXE | CTL, "journal and state of the executor"),
	PATH("paths", "workspaces", "/var/lib/paddock%I/workspaces", EXE | CTL, "the users' persistent files, one directory a user"),
	PATH("paths", "keys", "/etc/paddock%I/keys", API | CTL, "key files (pepper)"),

	STR("database", "conninfo", "host=/run/paddock%I/pg dbname=paddock user=paddock_api", 1, 900, NULL, API | CTL,
		"libpq connection string, without a password"),
	MS("database", "connect_timeout_ms", "2000", 100, 60 * SECOND, NULL, API | CTL, "longest wait for a connection"),
	MS("database", "statement_timeout_ms", "10000", 100, 600 * SECOND, NULL, API | CTL, "longest run of one statement"),

	SOCK("api", "socket", "/run/paddock%I/api/api.sock", API | CTL, "FastCGI socket that nginx connects to"),
	STR("api", "socket_group", "www-data", 1, 32, NULL, API, "group that may connect to the FastCGI socket"),
	INT("api", "workers", "4", 1, 256, API, "worker processes"),
	INT("api", "max_requests", "10000", 1, 100000000, API, "requests after which a worker is replaced"),
	SIZE("api", "body_bytes", "1M", KI, 64 * MI, API, "largest JSON body of a request"),
	SIZE("api", "stdin_bytes", "64M", 0, 4 * GI, API, "largest standard input given with a request"),
	INT("api", "retry_after_s", "2", 1, 3600, API, "Retry-After of answers that ask to come back"),
	MS("api", "drain_ms", "10000", 0, 600 * SECOND, NULL, API, "how long workers may finish their request at a stop"),
	STR("api", "accel_prefix", "/_x/", 3, 64, NULL, API, "internal location of nginx that leads to the executor"),

	SOCK("executor", "socket", "/run/paddock%I/executor/executor.sock", CONFIG_ALL, "HTTP socket of the executor"),
	STR("executor", "api_account", "paddock-api%I", 1, 32, NULL, EXE, "account whose requests are obeyed"),
	STR("executor", "nginx_account", "www-data", 1, 32, NULL, EXE, "account that may redeem tickets"),
	SIZE("executor", "stream_head_bytes", "64M", 4 * KI, TI, EXE, "kept from the beginning of each output stream"),
	SIZE("executor", "stream_tail_bytes", "192M", 4 * KI, TI, EXE, "kept from the end of each output stream"),
	SIZE("executor", "journal_max_bytes", "16G", 64 * KI, 1024 * TI, EXE, "all output and logs; recorded ones go early to keep to it"),
	SIZE("executor", "min_free_bytes", "512M", 0, 1024 * TI, EXE | CTL, "free disk below which recorded output goes early"),
	INT("executor", "index_records", "4194304", 1024, 67108864, EXE, "records in the arrival index of one command"),
	SIZE("executor", "output_limit_bytes", "16G", 0, 1024 * TI, EXE, "output above which a command is killed; 0 for none"),
	SIZE("executor", "text_bytes", "1M", KI, 8 * MI, EXE, "head and tail of each stream in a JSON answer"),
	SIZE("executor", "stdin_bytes", "64M", 0, 4 * GI, EXE, "standard input that may wait for one command"),
	INT("executor", "max_commands", "512", 1, 100000, EXE, "commands running at once on this node"),
	INT("executor", "instance_commands", "256", 1, 4096, EXE, "commands running at once in one instance"),
	INT("executor", "max_instances", "256", 1, 10000, EXE, "instances on this node"),
	MS("executor", "tombstone_ms", "86400000", 60 * SECOND, 365 * DAY, NULL, EXE, "how long a removed id stays refused"),
	MS("executor", "request_ms", "30000", SECOND, 600 * SECOND, NULL, EXE, "after which a connection that sends no more of its first request is closed"),
	MS("executor", "ticket_ms", "30000", SECOND, 600 * SECOND, NULL, EXE, "life of a stream ticket"),
	MS("executor", "journal_keep_ms", "3600000", 0, 30 * DAY, NULL, EXE, "how long a recorded command's output stays readable"),

	WORD("container", "engine", "podman", "podman|docker", NULL, EXE | CTL, "which engine answers on the socket"),
	SOCK("container", "engine_socket", "/run/paddock%I/engine/engine.sock", EXE | CTL, "HTTP API socket of the engine"),
	STR("container", "image", "localhost/paddock-sandbox:latest", 1, 255, NULL, EXE | CTL, "image of the sandboxes"),
	PATH("container", "agent", "/opt/paddock%I/libexec/paddock/paddock-agent", EXE | CTL, "static agent binary that is mounted into sandboxes"),
	PATH("container", "netguard", "/opt/paddock%I/libexec/paddock/paddock-netguard", EXE | CTL, "helper that closes the sandbox's network"),
	SOCK("container", "agent_dir", "/run/paddock%I/agents", EXE | CTL, "directory of the agents' sockets, one directory an instance"),
	PATH("container", "runtime_state", "/run/paddock%I/xdg/runc", EXE | CTL, "where the engine's runtime keeps its records of containers"),
	PATH("container", "seccomp", "/etc/paddock%I/seccomp.json", EXE | CTL, "seccomp profile of the sandboxes"),
	WORD("container", "network", "internet", "internet|none", NULL, EXE | CTL, "what a sandbox may reach"),
	SIZE("container", "memory_bytes", "1G", 32 * MI, 16 * TI, EXE, "memory of one instance, swap included"),
	INT("container", "pids", "256", 16, 4194304, EXE, "processes of one instance"),
	INT("container", "cpus_milli", "1000", 10, 1024000, EXE, "processor time of one instance; 1000 is one processor"),
	SIZE("container", "tmp_bytes", "256M", MI, TI, EXE, "size of /tmp"),
	SIZE("container", "home_bytes", "512M", MI, TI, EXE, "size of /home/user outside the workspace"),
	SIZE("container", "shm_bytes", "64M", MI, TI, EXE, "size of /dev/shm"),
	INT("container", "nofile", "1024", 64, 1048576, EXE, "open files of one process"),
	INT("container", "nproc", "1000", 16, 4194304, EXE, "RLIMIT_NPROC of commands"),
	PATH("container", "cgroup_parent", "/paddock%I", EXE | CTL, "control group below which instances are put"),
	MS("container", "create_timeout_ms", "60000", SECOND, HOUR, NULL, EXE, "longest creation of an instance"),
	INT("container", "nice", "5", 0, 19, EXE, "nice value of commands"),

	STR("host", "i_understand", "no", 0, 16, NULL, CONFIG_ALL, "exactly `yes` lets provider host start: commands then run on this machine itself"),
	PATH("host", "sandboxes", "/var/lib/paddock%I/sandboxes", EXE | CTL, "the users' sandboxes, one directory each"),
	SOCK("host", "launcher_socket", "/run/paddock%I/engine/launcher.sock", EXE | CTL, "socket of paddock-launcher"),
	STR("host", "bwrap", "", 0, 255, NULL, CONFIG_ALL, "path of bubblewrap; empty: where the system has it; a path that is not there: none"),
	WORD("host", "network", "internet", "internet|none|shared", NULL, EXE | CTL, "what a sandbox may reach; shared: everything that this machine may"),
	SIZE("host", "memory_bytes", "1G", 32 * MI, 16 * TI, EXE, "memory of one sandbox, swap included"),
	INT("host", "pids", "256", 16, 4194304, EXE, "processes of one sandbox"),
	INT("host", "cpus_milli", "1000", 10, 1024000, EXE, "processor time of one sandbox; 1000 is one processor"),
	SIZE("host", "tmp_bytes", "256M", MI, TI, EXE, "size of /tmp"),
	SIZE("host", "shm_bytes", "64M", MI, TI, EXE, "size of /dev/shm"),
	INT("host", "nofile", "1024", 64, 1048576, EXE, "open files of one process"),
	INT("host", "nproc", "1000", 16, 4194304, EXE, "RLIMIT_NPROC of commands"),
	MS("host", "create_timeout_ms", "60000", SECOND, HOUR, NULL, EXE, "longest creation of a sandbox, and longest wake"),
	INT("host", "nice", "5", 0, 19, EXE, "nice value of commands"),

	MS("runs", "lease_ms", "120000", SECOND, DAY, NULL, API, "life of a lease when none is asked for"),
	MS("runs", "lease_max_ms", "3600000", SECOND, 7 * DAY, NULL, API, "longest life of a lease that may be asked for"),
	INT("runs", "max_attempts", "2", 1, 100, API, "attempts before a Run has failed"),
	MS("runs", "run_timeout_ms", "604800000", SECOND, 365 * DAY, "AGENT_RUN_TIMEOUT_MS", API, "hard ceiling of a Run's life"),
	MS("runs", "stage_timeout_ms", "180000", 100, 365 * DAY, NULL, API, "wall clock of the commands of one stage"),
	INT("runs", "run_commands", "64", 1, 100000, API, "commands of one Run running at once"),
	INT("runs", "user_commands", "128", 1, 100000, API, "commands of one user running at once"),
	INT("runs", "all_commands", "512", 1, 100000, API, "commands running at once in all"),
	INT("runs", "user_instances", "128", 1, 10000, API, "sandboxes of one user at once"),
	INT("runs", "all_instances", "256", 1, 10000, API, "sandboxes at once in all"),

	MS("sandbox", "idle_timeout_ms", "300000", SECOND, 365 * DAY, "SANDBOX_IDLE_TIMEOUT_MS", API, "idle time after which a user's sandbox is paused"),
	MS("sandbox", "keepalive_ms", "30000", 100, DAY, NULL, API, "how often a sandbox is kept alive while a Run is active"),
	MS("sandbox", "stale_ms", "25000", 100, HOUR, NULL, API, "no progress for so long: the executor is asked what became of an operation"),
	INT("sandbox", "quarantine_tries", "5", 1, 1000, EXE | API, "failed removals after which a sandbox is quarantined and no longer in the way of a new one"),

	MS("janitor", "interval_ms", "500", 50, HOUR, NULL, API, "pause between two rounds"),
	INT("janitor", "batch", "100", 1, 10000, API, "rows taken in one step"),
	MS("janitor", "backoff_min_ms", "500", 50, HOUR, NULL, API, "first wait before a failed clean-up is tried again"),
	MS("janitor", "backoff_max_ms", "60000", 50, DAY, NULL, API, "longest wait before a failed clean-up is tried again"),
	MS("janitor", "orphan_grace_ms", "60000", 0, DAY, NULL, API, "how long an instance is seen without a row before it is removed"),

	INT("retention", "output_days", "30", 0, 36500, API, "how long a command's record has its output; 0 for ever"),
	INT("retention", "run_days", "90", 0, 36500, API, "how long an ended Run and its commands are kept; 0 for ever"),
	INT("retention", "audit_days", "730", 0, 36500, API, "how long the audit is kept; 0 for ever"),
};

const size_t config_table_len = sizeof config_table / sizeof config_table[0];
