-- Steer: a running Run yields to a successor that goes on with its user's input. And what moves a Run leaves a row in the audit, whoever moved it.

-- --- audit ---

-- Who acts without an account is named after where the act came from: the service by itself ('janitor'), the operator's program.
CREATE OR REPLACE FUNCTION audit_add(p_origin origin, p_action text, p_object text, p_result text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO audit (actor_id, actor, user_id, token_id, request_id, source, action, object, result)
	VALUES (p_origin.actor_id, CASE WHEN p_origin.actor_id IS NULL THEN p_origin.source END, p_origin.user_id, p_origin.token_id, p_origin.request_id,
		p_origin.source, p_action, p_object, p_result);
END
$$;

-- By rule and nobody's wish, whichever process came to it first.
CREATE FUNCTION audit_own(p_user uuid, p_action text, p_object text, p_result text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM audit_add(ROW(NULL, p_user, NULL, NULL, 'janitor')::origin, p_action, p_object, p_result);
END
$$;

-- The duty to clean up is cleared, or fails for the first time. Of a one-shot Run only what went wrong: its command is on record.
CREATE FUNCTION runs_audit_cleanup() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM audit_own(NEW.user_id, 'run.cleanup', NEW.id::text, CASE WHEN NEW.cleanup_pending THEN 'failed' ELSE 'ok' END);
	RETURN NULL;
END
$$;
CREATE TRIGGER runs_audit_cleanup AFTER UPDATE OF cleanup_pending, cleanup_tries ON runs FOR EACH ROW
	WHEN ((NOT NEW.cleanup_pending AND OLD.cleanup_pending AND (OLD.cleanup_tries > 0 OR NOT OLD.oneshot))
		OR (NEW.cleanup_pending AND NEW.cleanup_tries = 1 AND OLD.cleanup_tries = 0))
	EXECUTE FUNCTION runs_audit_cleanup();

-- An attempt came to nothing (lease expired, sandbox gone): offered again after clean-up, or the end. The caller has locked the Run.
CREATE OR REPLACE FUNCTION run_attempt_lost(p_run uuid, p_code text, p_message text) RETURNS runs LANGUAGE plpgsql AS $$
DECLARE
	r runs;
	v_now timestamptz := clock_timestamp();
BEGIN
	SELECT * INTO r FROM runs WHERE id = p_run FOR NO KEY UPDATE;
	IF r.ended_at IS NOT NULL OR r.status = 'pending' THEN
		RETURN r;
	END IF;
	IF r.status = 'cancel_requested' THEN
		r := run_end(p_run, 'cancelled', NULL, NULL);
	ELSIF r.lease_owner IS NULL OR r.oneshot OR r.attempt >= r.max_attempts THEN
		r := run_end(p_run, 'failed', p_code, p_message);
	ELSE
		UPDATE runs SET status = 'pending', lease_owner = NULL, lease_nonce = NULL, lease_hash = NULL, lease_expires_at = NULL,
			cleanup_pending = true, cleanup_next_at = v_now, cleanup_tries = 0, cleanup_error = NULL
		WHERE id = p_run RETURNING * INTO r;
		UPDATE run_attempts SET ended_at = v_now, end_reason = p_code WHERE run_id = p_run AND attempt = r.attempt AND ended_at IS NULL;
	END IF;
	PERFORM audit_own(r.user_id, 'run.' || p_code, p_run::text, r.status);
	RETURN r;
END
$$;

CREATE OR REPLACE FUNCTION runs_expire_deadlines(p_limit integer) RETURNS SETOF uuid LANGUAGE plpgsql AS $$
DECLARE
	r runs;
BEGIN
	FOR r IN SELECT * FROM runs WHERE ended_at IS NULL AND deadline_at <= clock_timestamp()
			ORDER BY deadline_at LIMIT p_limit FOR NO KEY UPDATE SKIP LOCKED LOOP
		IF r.status = 'cancel_requested' THEN
			r := run_end(r.id, 'cancelled', NULL, NULL);
		ELSE
			r := run_end(r.id, 'failed', 'run_timeout', 'the Run reached its time limit');
		END IF;
		PERFORM audit_own(r.user_id, 'run.run_timeout', r.id::text, r.status);
		RETURN NEXT r.id;
	END LOOP;
END
$$;

CREATE OR REPLACE FUNCTION runs_settle_cancels(p_limit integer, p_patience_ms bigint) RETURNS SETOF uuid LANGUAGE plpgsql AS $$
DECLARE
	r runs;
BEGIN
	FOR r IN SELECT x.* FROM runs x WHERE x.status = 'cancel_requested'
			AND (x.cancel_requested_at + p_patience_ms * interval '1 ms' <= clock_timestamp()
				OR NOT EXISTS (SELECT 1 FROM sandbox_commands c WHERE c.user_id = x.user_id AND c.run_id = x.id AND c.ended_at IS NULL))
			ORDER BY x.cancel_requested_at LIMIT p_limit FOR NO KEY UPDATE SKIP LOCKED LOOP
		PERFORM run_end(r.id, 'cancelled', NULL, NULL);
		PERFORM audit_own(r.user_id, 'run.cancelled', r.id::text, 'ok');
		RETURN NEXT r.id;
	END LOOP;
END
$$;

-- Runs that end with their commands: one-shot ones, and those that were only waiting to be cancelled. Gives those that it ended. The end of a one-shot
-- Run is the end of its command, which is on record.
CREATE OR REPLACE FUNCTION runs_follow_commands(p_runs uuid[]) RETURNS SETOF uuid LANGUAGE plpgsql AS $$
DECLARE
	r runs;
	v_reason text;
	v_code text;
BEGIN
	FOR r IN SELECT * FROM runs WHERE id = ANY (p_runs) AND ended_at IS NULL AND (oneshot OR status = 'cancel_requested') ORDER BY id FOR NO KEY UPDATE LOOP
		CONTINUE WHEN EXISTS (SELECT 1 FROM sandbox_commands WHERE user_id = r.user_id AND run_id = r.id AND ended_at IS NULL);
		IF r.status = 'cancel_requested' THEN
			PERFORM run_end(r.id, 'cancelled', NULL, NULL);
			PERFORM audit_own(r.user_id, 'run.cancelled', r.id::text, 'ok');
		ELSE
			SELECT reason, error_code INTO v_reason, v_code FROM sandbox_commands WHERE run_id = r.id ORDER BY id DESC LIMIT 1;
			IF v_reason IN ('lost', 'not_started') THEN
				PERFORM run_end(r.id, 'failed', 'command_' || v_reason, coalesce('the command was not started: ' || v_code, 'the command was lost'));
			ELSE
				PERFORM run_end(r.id, 'completed', NULL, NULL);
			END IF;
		END IF;
		RETURN NEXT r.id;
	END LOOP;
END
$$;

-- created | replayed | idempotency_mismatch. A key that is being used at this moment makes this fail with unique_violation: ask again.
CREATE OR REPLACE FUNCTION run_create(p_id uuid, p_thread text, p_backend text, p_workdir text, p_input json, p_metadata json, p_timeout bigint, p_max_attempts integer,
	p_worker text, p_lease_ms bigint, p_nonce text, p_hash bytea, p_key text, p_body bytea, o origin) RETURNS run_answer LANGUAGE plpgsql AS $$
DECLARE
	r runs;
	k idempotency_keys;
BEGIN
	IF p_key IS NOT NULL THEN
		SELECT * INTO k FROM idempotency_keys WHERE user_id = o.user_id AND scope = 'run' AND key = p_key;
		IF FOUND THEN
			IF k.body_hash <> p_body THEN
				RETURN ROW('idempotency_mismatch', NULL::runs)::run_answer;
			END IF;
			r := json_populate_record(NULL::runs, k.first);
			SELECT input, metadata INTO r.input, r.metadata FROM runs WHERE id = k.run_id;
			RETURN ROW('replayed', r)::run_answer;
		END IF;
	END IF;
	INSERT INTO runs (id, user_id, thread_id, status, backend, workdir, input, metadata, timeout_ms, max_attempts)
	VALUES (p_id, o.user_id, p_thread, 'pending', p_backend, p_workdir, p_input, p_metadata, p_timeout, p_max_attempts) RETURNING * INTO r;
	PERFORM audit_add(o, 'run.create', p_id::text, 'ok');
	IF p_worker IS NOT NULL AND NOT thread_fenced(o.user_id, p_thread) THEN
		r := run_begin(p_id, p_worker, p_lease_ms, p_nonce, p_hash);
		PERFORM audit_add(o, 'run.claim', p_id::text, 'ok');
	END IF;
	IF p_key IS NOT NULL THEN
		r.input := NULL;
		r.metadata := NULL;
		INSERT INTO idempotency_keys (user_id, scope, key, body_hash, run_id, first) VALUES (o.user_id, 'run', p_key, p_body, p_id, row_to_json(r));
		r.input := p_input;
		r.metadata := p_metadata;
	END IF;
	RETURN ROW('created', r)::run_answer;
END
$$;

-- --- steer ---

ALTER TABLE idempotency_keys DROP CONSTRAINT idempotency_keys_scope_check,
	ADD CONSTRAINT idempotency_keys_scope_check CHECK (scope IN ('run', 'command', 'execute', 'steer'));

CREATE TYPE steer_answer AS (result text, run runs, successor runs);

-- steered | replayed | idempotency_mismatch | not_found | not_running | not_steerable | run_ended (the Run is given: it may name a successor)
CREATE FUNCTION run_steer(p_run uuid, p_successor uuid, p_input json, p_key text, p_body bytea, o origin) RETURNS steer_answer LANGUAGE plpgsql AS $$
DECLARE
	a steer_answer;
	r runs;
	s runs;
	k idempotency_keys;
BEGIN
	-- Locked before the key is looked for: of two with the same key the later one sees what the earlier one did.
	SELECT * INTO r FROM runs WHERE id = p_run AND user_id = o.user_id FOR NO KEY UPDATE;
	IF NOT FOUND THEN
		a.result := 'not_found';
		RETURN a;
	END IF;
	IF p_key IS NOT NULL THEN
		SELECT * INTO k FROM idempotency_keys WHERE user_id = o.user_id AND scope = 'steer' AND key = p_key;
		IF FOUND AND (k.body_hash <> p_body OR k.run_id <> p_run) THEN
			a.result := 'idempotency_mismatch';
			RETURN a;
		ELSIF FOUND THEN
			RETURN steer_replay(k);
		END IF;
	END IF;
	a.result := CASE
		WHEN r.ended_at IS NOT NULL OR r.status = 'cancel_requested' OR r.deadline_at <= clock_timestamp() THEN 'run_ended'
		WHEN r.oneshot THEN 'not_steerable'
		WHEN r.status = 'pending' THEN 'not_running' END;
	IF a.result IS NOT NULL THEN
		a.run := r;
		RETURN a;
	END IF;
	INSERT INTO runs (id, user_id, thread_id, status, backend, project_id, workdir, input, metadata, timeout_ms, max_attempts)
	VALUES (p_successor, r.user_id, r.thread_id, 'pending', r.backend, r.project_id, r.workdir, p_input, r.metadata, r.timeout_ms, r.max_attempts)
	RETURNING * INTO s;
	PERFORM run_end(p_run, 'yielded', NULL, NULL);
	UPDATE runs SET successor_id = p_successor WHERE id = p_run RETURNING * INTO r;
	PERFORM audit_add(o, 'run.steer', p_run::text, 'yielded');
	PERFORM audit_add(o, 'run.create', p_successor::text, 'ok');
	IF p_key IS NOT NULL THEN
		INSERT INTO idempotency_keys (user_id, scope, key, body_hash, run_id, first)
		VALUES (o.user_id, 'steer', p_key, p_body, p_run, steer_first(r, s));
	END IF;
	RETURN ROW('steered', r, s)::steer_answer;
END
$$;

-- What a key keeps of the answer. Input and metadata never change, and json_populate_record() cannot carry an escaped NUL: they are taken from the rows.
CREATE FUNCTION steer_first(r runs, s runs) RETURNS json LANGUAGE plpgsql AS $$
BEGIN
	r.input := NULL;
	r.metadata := NULL;
	s.input := NULL;
	s.metadata := NULL;
	RETURN json_build_object('run', r, 'successor', s);
END
$$;

CREATE FUNCTION steer_replay(k idempotency_keys) RETURNS steer_answer LANGUAGE plpgsql AS $$
DECLARE
	r runs := json_populate_record(NULL::runs, k.first -> 'run');
	s runs := json_populate_record(NULL::runs, k.first -> 'successor');
BEGIN
	SELECT input, metadata INTO r.input, r.metadata FROM runs WHERE id = r.id;
	SELECT input, metadata INTO s.input, s.metadata FROM runs WHERE id = s.id;
	RETURN ROW('replayed', r, s)::steer_answer;
END
$$;

GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO paddock_api;
