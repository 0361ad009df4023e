-- Accounts, Runs with their attempts and leases, the ledger of instances, commands, idempotency, audit.
-- What each state means and who moves it: docs/lifecycle.md. All times are clock_timestamp() of the database.

REVOKE ALL ON SCHEMA public FROM PUBLIC;
GRANT USAGE ON SCHEMA public TO paddock_api, paddock_read;

CREATE TABLE users (
	id uuid PRIMARY KEY,
	name text NOT NULL UNIQUE CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,63}$'),
	is_admin boolean NOT NULL DEFAULT false,
	disabled_at timestamptz,
	created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON COLUMN users.name IS 'also the name of the user''s directory below the workspaces';

CREATE TABLE tokens (
	id text PRIMARY KEY CHECK (id ~ '^[0-9a-f]{12}$'),
	user_id uuid NOT NULL REFERENCES users,
	kind text NOT NULL CHECK (kind IN ('user', 'admin', 'service', 'e2b')),
	hash bytea NOT NULL CHECK (octet_length(hash) = 32),
	label text CHECK (octet_length(label) <= 200),
	created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	expires_at timestamptz,
	revoked_at timestamptz
);
CREATE INDEX tokens_user ON tokens (user_id);

CREATE TABLE runs (
	id uuid PRIMARY KEY,
	user_id uuid NOT NULL REFERENCES users,
	thread_id text NOT NULL CHECK (octet_length(thread_id) BETWEEN 1 AND 255),
	status text NOT NULL CHECK (status IN ('pending', 'running', 'cancel_requested', 'completed', 'failed', 'cancelled', 'yielded')),
	oneshot boolean NOT NULL DEFAULT false,
	attempt integer NOT NULL DEFAULT 0,
	max_attempts integer NOT NULL,
	backend text NOT NULL,
	project_id uuid,
	workdir text NOT NULL,
	input json,
	metadata json,
	timeout_ms bigint NOT NULL CHECK (timeout_ms > 0),
	lease_owner text,
	lease_nonce text,
	lease_hash bytea,
	lease_expires_at timestamptz,
	instance_id uuid,
	cleanup_pending boolean NOT NULL DEFAULT false,
	cleanup_next_at timestamptz,
	cleanup_tries integer NOT NULL DEFAULT 0,
	cleanup_error text,
	error_code text,
	error_message text,
	created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	started_at timestamptz,
	deadline_at timestamptz,
	cancel_requested_at timestamptz,
	ended_at timestamptz,
	successor_id uuid REFERENCES runs,
	CHECK ((ended_at IS NOT NULL) = (status IN ('completed', 'failed', 'cancelled', 'yielded'))),
	CHECK ((lease_owner IS NULL) = (lease_hash IS NULL) AND (lease_owner IS NULL) = (lease_expires_at IS NULL) AND (lease_owner IS NULL) = (lease_nonce IS NULL)),
	CHECK (lease_owner IS NULL OR status = 'running'),
	CHECK ((cleanup_next_at IS NOT NULL) = cleanup_pending),
	CHECK (status <> 'running' OR (started_at IS NOT NULL AND deadline_at IS NOT NULL AND attempt > 0 AND NOT cleanup_pending))
) WITH (fillfactor = 80);
COMMENT ON COLUMN runs.oneshot IS 'a Run that ends with its one command';
COMMENT ON COLUMN runs.instance_id IS 'of the present attempt; NULL before its first command and after its clean-up was confirmed';
CREATE INDEX runs_user ON runs (user_id, id);
CREATE INDEX runs_thread ON runs (user_id, thread_id, id);
CREATE INDEX runs_pending ON runs (user_id, created_at, id) WHERE status = 'pending';
CREATE INDEX runs_fence ON runs (user_id, thread_id) WHERE cleanup_pending;
CREATE INDEX runs_cleanup ON runs (cleanup_next_at) WHERE cleanup_pending;
CREATE INDEX runs_lease ON runs (lease_expires_at) WHERE lease_owner IS NOT NULL;
CREATE INDEX runs_deadline ON runs (deadline_at) WHERE ended_at IS NULL AND deadline_at IS NOT NULL;
CREATE INDEX runs_cancel ON runs (cancel_requested_at) WHERE status = 'cancel_requested';

CREATE TABLE run_attempts (
	run_id uuid NOT NULL REFERENCES runs,
	attempt integer NOT NULL CHECK (attempt > 0),
	worker_id text,
	instance_id uuid,
	started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	ended_at timestamptz,
	end_reason text,
	PRIMARY KEY (run_id, attempt),
	CHECK ((ended_at IS NULL) = (end_reason IS NULL))
);
COMMENT ON COLUMN run_attempts.worker_id IS 'holder of the lease; NULL for an attempt without one';

CREATE TABLE instances (
	id uuid PRIMARY KEY,
	run_id uuid NOT NULL REFERENCES runs,
	attempt integer NOT NULL,
	user_id uuid NOT NULL,
	workspace text NOT NULL,
	created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	UNIQUE (run_id, attempt)
);
COMMENT ON TABLE instances IS 'a duty: committed before the executor hears of the id, deleted only when the executor has confirmed that nothing of it is left';

CREATE TABLE sandbox_commands (
	id uuid PRIMARY KEY,
	run_id uuid NOT NULL REFERENCES runs,
	attempt integer NOT NULL,
	user_id uuid NOT NULL,
	instance_id uuid NOT NULL,
	generation bigint,
	stage text,
	status text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'running', 'exited', 'lost')),
	reason text CHECK (reason IN ('exited', 'signaled', 'timeout', 'cancelled', 'output_limit', 'oom', 'not_started', 'lost')),
	exit_code integer,
	signal integer,
	process_group integer,
	command text,
	argv json,
	cwd text NOT NULL,
	timeout_ms bigint NOT NULL CHECK (timeout_ms > 0),
	background boolean NOT NULL,
	created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	started_at timestamptz,
	ended_at timestamptz,
	duration_ms bigint,
	stdout bytea,
	stderr bytea,
	stdout_bytes bigint NOT NULL DEFAULT 0,
	stderr_bytes bigint NOT NULL DEFAULT 0,
	stdout_truncated boolean NOT NULL DEFAULT false,
	stderr_truncated boolean NOT NULL DEFAULT false,
	error_code text,
	error_message text,
	actor_id uuid NOT NULL,
	token_id text,
	request_id text,
	source text,
	CHECK ((command IS NULL) <> (argv IS NULL)),
	CHECK ((ended_at IS NOT NULL) = (status IN ('exited', 'lost')) AND (ended_at IS NOT NULL) = (reason IS NOT NULL))
);
COMMENT ON COLUMN sandbox_commands.stdout IS 'head and tail as the executor kept them';
CREATE INDEX sandbox_commands_run ON sandbox_commands (run_id, id);
CREATE INDEX sandbox_commands_open ON sandbox_commands (user_id, run_id) WHERE ended_at IS NULL;

CREATE TABLE idempotency_keys (
	user_id uuid NOT NULL REFERENCES users,
	scope text NOT NULL CHECK (scope IN ('run', 'command', 'execute')),
	key text NOT NULL CHECK (octet_length(key) BETWEEN 1 AND 255),
	body_hash bytea NOT NULL,
	run_id uuid NOT NULL,
	command_id uuid,
	first json,
	created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
	PRIMARY KEY (user_id, scope, key)
);
CREATE INDEX idempotency_keys_age ON idempotency_keys (created_at);
CREATE INDEX idempotency_keys_command ON idempotency_keys (command_id) WHERE command_id IS NOT NULL;

CREATE TABLE audit (
	id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	at timestamptz NOT NULL DEFAULT clock_timestamp(),
	actor_id uuid,
	actor text,
	user_id uuid,
	token_id text,
	request_id text,
	source text,
	action text NOT NULL,
	object text,
	result text NOT NULL
);
CREATE INDEX audit_user ON audit (user_id, at);
CREATE INDEX audit_at ON audit (at);

-- A command's row holds its own who, for whom, from where and with what result; one place to look for both.
CREATE VIEW audit_log AS
	SELECT a.at, a.actor_id, coalesce(a.actor, u.name) AS actor, a.user_id, a.token_id, a.request_id, a.source, a.action, a.object, a.result
	FROM audit a LEFT JOIN users u ON u.id = a.actor_id
	UNION ALL
	SELECT c.created_at, c.actor_id, u.name, c.user_id, c.token_id, c.request_id, c.source, 'command.start', c.id::text, coalesce(c.reason, c.status)
	FROM sandbox_commands c LEFT JOIN users u ON u.id = c.actor_id;

GRANT SELECT, INSERT ON users, tokens, audit TO paddock_api;
GRANT UPDATE (is_admin, disabled_at) ON users TO paddock_api;
GRANT UPDATE (revoked_at) ON tokens TO paddock_api;
GRANT SELECT, INSERT, UPDATE ON runs, run_attempts, sandbox_commands TO paddock_api;
GRANT SELECT, INSERT, DELETE ON instances, idempotency_keys TO paddock_api;
GRANT SELECT ON audit_log TO paddock_api;
GRANT SELECT ON users, runs, run_attempts, instances, sandbox_commands, audit, audit_log TO paddock_read;
GRANT SELECT (id, user_id, kind, label, created_at, expires_at, revoked_at) ON tokens TO paddock_read;
GRANT SELECT (user_id, scope, key, run_id, command_id, created_at) ON idempotency_keys TO paddock_read;
