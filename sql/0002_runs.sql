-- Runs: each function is one decision and its rows, in one round trip. They run with the caller's rights.
-- Lock order everywhere: commands by id, then the Run.

-- Who acts: the five facts that the audit keeps.
CREATE TYPE origin AS (actor_id uuid, user_id uuid, token_id text, request_id text, source text);
CREATE TYPE run_answer AS (result text, run runs);

CREATE FUNCTION audit_add(p_origin origin, p_action text, p_object text, p_result text) RETURNS void LANGUAGE sql AS $$
	INSERT INTO audit (actor_id, user_id, token_id, request_id, source, action, object, result)
	VALUES (p_origin.actor_id, p_origin.user_id, p_origin.token_id, p_origin.request_id, p_origin.source, p_action, p_object, p_result);
$$;

CREATE FUNCTION thread_fenced(p_user uuid, p_thread text) RETURNS boolean LANGUAGE sql STABLE AS $$
	SELECT EXISTS (SELECT 1 FROM runs WHERE user_id = p_user AND thread_id = p_thread AND cleanup_pending);
$$;

-- pending -> running: the next attempt, leased when p_worker is given. The caller has locked the Run and checked the fence.
CREATE FUNCTION run_begin(p_run uuid, p_worker text, p_lease_ms bigint, p_nonce text, p_hash bytea) RETURNS runs LANGUAGE plpgsql AS $$
DECLARE
	r runs;
	v_now timestamptz := clock_timestamp();
BEGIN
	UPDATE runs SET status = 'running', attempt = attempt + 1, started_at = coalesce(started_at, v_now),
		deadline_at = coalesce(deadline_at, v_now + timeout_ms * interval '1 ms'),
		lease_owner = p_worker, lease_nonce = p_nonce, lease_hash = p_hash, lease_expires_at = v_now + p_lease_ms * interval '1 ms'
	WHERE id = p_run RETURNING * INTO r;
	INSERT INTO run_attempts (run_id, attempt, worker_id) VALUES (r.id, r.attempt, p_worker);
	RETURN r;
END
$$;

-- To a terminal state, with the duty to clean up, in one statement's transaction. The caller has locked the Run.
CREATE FUNCTION run_end(p_run uuid, p_status text, p_code text, p_message text) RETURNS runs LANGUAGE plpgsql AS $$
DECLARE
	r runs;
	v_now timestamptz := clock_timestamp();
BEGIN
	UPDATE runs SET status = p_status, ended_at = v_now, error_code = p_code, error_message = p_message,
		lease_owner = NULL, lease_nonce = NULL, lease_hash = NULL, lease_expires_at = NULL,
		cleanup_pending = true, cleanup_next_at = v_now, cleanup_tries = 0, cleanup_error = NULL
	WHERE id = p_run AND ended_at IS NULL RETURNING * INTO r;
	UPDATE run_attempts SET ended_at = v_now, end_reason = coalesce(p_code, p_status)
	WHERE run_id = p_run AND attempt = r.attempt AND ended_at IS NULL;
	RETURN r;
END
$$;

-- An attempt came to nothing (lease expired, sandbox gone): offered again after clean-up, or the end. The caller has locked the Run.
CREATE FUNCTION run_attempt_lost(p_run uuid, p_code text, p_message text) RETURNS runs LANGUAGE plpgsql AS $$
DECLARE
	r runs;
	v_now timestamptz := clock_timestamp();
BEGIN
	SELECT * INTO r FROM runs WHERE id = p_run FOR NO KEY UPDATE;
	IF r.ended_at IS NOT NULL OR r.status = 'pending' THEN
		RETURN r;
	END IF;
	IF r.status = 'cancel_requested' THEN
		RETURN run_end(p_run, 'cancelled', NULL, NULL);
	END IF;
	IF r.lease_owner IS NULL OR r.oneshot OR r.attempt >= r.max_attempts THEN
		RETURN run_end(p_run, 'failed', p_code, p_message);
	END IF;
	UPDATE runs SET status = 'pending', lease_owner = NULL, lease_nonce = NULL, lease_hash = NULL, lease_expires_at = NULL,
		cleanup_pending = true, cleanup_next_at = v_now, cleanup_tries = 0, cleanup_error = NULL
	WHERE id = p_run RETURNING * INTO r;
	UPDATE run_attempts SET ended_at = v_now, end_reason = p_code WHERE run_id = p_run AND attempt = r.attempt AND ended_at IS NULL;
	RETURN r;
END
$$;

-- NULL when the caller may go on in this Run, else the word that says why not.
CREATE FUNCTION run_refuses(r runs, p_hash bytea) RETURNS text LANGUAGE sql AS $$
	SELECT CASE
		WHEN r.ended_at IS NOT NULL OR r.status = 'cancel_requested' OR r.deadline_at <= clock_timestamp() THEN 'run_ended'
		WHEN r.lease_owner IS NULL THEN CASE WHEN p_hash IS NULL THEN NULL ELSE 'lease_lost' END
		WHEN p_hash IS NULL THEN 'lease_required'
		WHEN p_hash <> r.lease_hash OR r.lease_expires_at <= clock_timestamp() THEN 'lease_lost'
	END;
$$;

-- created | replayed | idempotency_mismatch. A key that is being used at this moment makes this fail with unique_violation: ask again.
CREATE FUNCTION run_create(p_id uuid, p_thread text, p_backend text, p_workdir text, p_input json, p_metadata json, p_timeout bigint, p_max_attempts integer,
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
			RETURN ROW('replayed', json_populate_record(NULL::runs, k.first))::run_answer;
		END IF;
	END IF;
	INSERT INTO runs (id, user_id, thread_id, status, backend, workdir, input, metadata, timeout_ms, max_attempts)
	VALUES (p_id, o.user_id, p_thread, 'pending', p_backend, p_workdir, p_input, p_metadata, p_timeout, p_max_attempts) RETURNING * INTO r;
	IF p_worker IS NOT NULL AND NOT thread_fenced(o.user_id, p_thread) THEN
		r := run_begin(p_id, p_worker, p_lease_ms, p_nonce, p_hash);
	END IF;
	IF p_key IS NOT NULL THEN
		INSERT INTO idempotency_keys (user_id, scope, key, body_hash, run_id, first) VALUES (o.user_id, 'run', p_key, p_body, p_id, row_to_json(r));
	END IF;
	PERFORM audit_add(o, 'run.create', p_id::text, 'ok');
	RETURN ROW('created', r)::run_answer;
END
$$;

-- claimed | nothing
CREATE FUNCTION run_claim(p_thread text, p_worker text, p_lease_ms bigint, p_nonce text, p_hash bytea, o origin) RETURNS run_answer LANGUAGE plpgsql AS $$
DECLARE
	r runs;
	v_id uuid;
BEGIN
	SELECT c.id INTO v_id FROM runs c
	WHERE c.user_id = o.user_id AND c.status = 'pending' AND NOT c.cleanup_pending AND (p_thread IS NULL OR c.thread_id = p_thread)
		AND NOT EXISTS (SELECT 1 FROM runs f WHERE f.user_id = c.user_id AND f.thread_id = c.thread_id AND f.cleanup_pending)
	ORDER BY c.created_at, c.id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED;
	IF NOT FOUND THEN
		RETURN ROW('nothing', NULL::runs)::run_answer;
	END IF;
	r := run_begin(v_id, p_worker, p_lease_ms, p_nonce, p_hash);
	PERFORM audit_add(o, 'run.claim', v_id::text, 'ok');
	RETURN ROW('claimed', r)::run_answer;
END
$$;

-- renewed | not_found | run_ended | lease_lost
CREATE FUNCTION run_heartbeat(p_run uuid, p_hash bytea, p_lease_ms bigint, p_user uuid) RETURNS run_answer LANGUAGE plpgsql AS $$
DECLARE
	r runs;
	v_no text;
BEGIN
	SELECT * INTO r FROM runs WHERE id = p_run AND user_id = p_user FOR NO KEY UPDATE;
	IF NOT FOUND THEN
		RETURN ROW('not_found', NULL::runs)::run_answer;
	END IF;
	v_no := run_refuses(r, p_hash);
	IF v_no IS NOT NULL THEN
		RETURN ROW(v_no, NULL::runs)::run_answer;
	END IF;
	UPDATE runs SET lease_expires_at = clock_timestamp() + p_lease_ms * interval '1 ms' WHERE id = p_run RETURNING * INTO r;
	RETURN ROW('renewed', r)::run_answer;
END
$$;

-- finished | not_found | run_ended | lease_lost | lease_required | not_running
CREATE FUNCTION run_finish(p_run uuid, p_hash bytea, p_status text, p_code text, p_message text, o origin) RETURNS run_answer LANGUAGE plpgsql AS $$
DECLARE
	r runs;
	v_no text;
BEGIN
	SELECT * INTO r FROM runs WHERE id = p_run AND user_id = o.user_id FOR NO KEY UPDATE;
	IF NOT FOUND THEN
		RETURN ROW('not_found', NULL::runs)::run_answer;
	END IF;
	v_no := run_refuses(r, p_hash);
	IF v_no IS NULL AND r.status = 'pending' THEN
		v_no := 'not_running';
	END IF;
	IF v_no IS NOT NULL THEN
		RETURN ROW(v_no, NULL::runs)::run_answer;
	END IF;
	r := run_end(p_run, p_status, p_code, p_message);
	PERFORM audit_add(o, 'run.finish', p_run::text, p_status);
	RETURN ROW('finished', r)::run_answer;
END
$$;

-- cancelled | requested | again | not_found | run_ended
CREATE FUNCTION run_cancel(p_run uuid, o origin) RETURNS run_answer LANGUAGE plpgsql AS $$
DECLARE
	r runs;
	v_result text := 'cancelled';
BEGIN
	SELECT * INTO r FROM runs WHERE id = p_run AND user_id = o.user_id FOR NO KEY UPDATE;
	IF NOT FOUND THEN
		RETURN ROW('not_found', NULL::runs)::run_answer;
	ELSIF r.status IN ('cancel_requested', 'cancelled') THEN
		RETURN ROW('again', r)::run_answer;
	ELSIF r.ended_at IS NOT NULL THEN
		RETURN ROW('run_ended', NULL::runs)::run_answer;
	ELSIF EXISTS (SELECT 1 FROM sandbox_commands WHERE user_id = r.user_id AND run_id = p_run AND ended_at IS NULL) THEN
		UPDATE runs SET status = 'cancel_requested', cancel_requested_at = clock_timestamp(),
			lease_owner = NULL, lease_nonce = NULL, lease_hash = NULL, lease_expires_at = NULL
		WHERE id = p_run RETURNING * INTO r;
		v_result := 'requested';
	ELSE
		r := run_end(p_run, 'cancelled', NULL, NULL);
	END IF;
	PERFORM audit_add(o, 'run.cancel', p_run::text, v_result);
	RETURN ROW(v_result, r)::run_answer;
END
$$;

-- The sweeps: each gives the Runs that it moved. Any number of janitors may call them at once.
CREATE FUNCTION runs_expire_leases(p_limit integer) RETURNS SETOF uuid LANGUAGE plpgsql AS $$
DECLARE
	v_id uuid;
BEGIN
	FOR v_id IN SELECT id FROM runs WHERE lease_owner IS NOT NULL AND lease_expires_at <= clock_timestamp()
			ORDER BY lease_expires_at LIMIT p_limit FOR NO KEY UPDATE SKIP LOCKED LOOP
		PERFORM run_attempt_lost(v_id, 'lease_expired', 'the lease was not renewed in time');
		RETURN NEXT v_id;
	END LOOP;
END
$$;

CREATE FUNCTION runs_expire_deadlines(p_limit integer) RETURNS SETOF uuid LANGUAGE plpgsql AS $$
DECLARE
	v_id uuid;
	v_status text;
BEGIN
	FOR v_id, v_status IN SELECT id, status FROM runs WHERE ended_at IS NULL AND deadline_at <= clock_timestamp()
			ORDER BY deadline_at LIMIT p_limit FOR NO KEY UPDATE SKIP LOCKED LOOP
		IF v_status = 'cancel_requested' THEN
			PERFORM run_end(v_id, 'cancelled', NULL, NULL);
		ELSE
			PERFORM run_end(v_id, 'failed', 'run_timeout', 'the Run reached its time limit');
		END IF;
		RETURN NEXT v_id;
	END LOOP;
END
$$;

-- cancel_requested -> cancelled when no command is open, or when that took longer than p_patience_ms: clean-up ends what is left.
CREATE FUNCTION runs_settle_cancels(p_limit integer, p_patience_ms bigint) RETURNS SETOF uuid LANGUAGE plpgsql AS $$
DECLARE
	v_id uuid;
BEGIN
	FOR v_id IN SELECT r.id FROM runs r WHERE r.status = 'cancel_requested'
			AND (r.cancel_requested_at + p_patience_ms * interval '1 ms' <= clock_timestamp()
				OR NOT EXISTS (SELECT 1 FROM sandbox_commands c WHERE c.user_id = r.user_id AND c.run_id = r.id AND c.ended_at IS NULL))
			ORDER BY r.cancel_requested_at LIMIT p_limit FOR NO KEY UPDATE SKIP LOCKED LOOP
		PERFORM run_end(v_id, 'cancelled', NULL, NULL);
		RETURN NEXT v_id;
	END LOOP;
END
$$;

-- An instance is lost or will never be ready: its attempt came to nothing. Gives the Run when that moved it.
CREATE FUNCTION instance_lost(p_instance uuid, p_code text, p_message text) RETURNS SETOF uuid LANGUAGE plpgsql AS $$
DECLARE
	v_run uuid;
BEGIN
	SELECT r.id INTO v_run FROM instances i JOIN runs r ON r.id = i.run_id
	WHERE i.id = p_instance AND r.instance_id = i.id AND r.status IN ('running', 'cancel_requested') FOR NO KEY UPDATE OF r;
	IF FOUND THEN
		PERFORM run_attempt_lost(v_run, p_code, p_message);
		RETURN NEXT v_run;
	END IF;
END
$$;

-- The executor has confirmed that nothing of p_instance is left (NULL: there never was one) and each of its commands has an end.
-- true when the duty is cleared (or was already).
CREATE FUNCTION cleanup_confirm(p_run uuid, p_instance uuid) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	r runs;
BEGIN
	SELECT * INTO r FROM runs WHERE id = p_run FOR NO KEY UPDATE;
	IF NOT FOUND OR NOT r.cleanup_pending THEN
		RETURN true;
	END IF;
	IF r.instance_id IS DISTINCT FROM p_instance
			OR EXISTS (SELECT 1 FROM sandbox_commands WHERE user_id = r.user_id AND run_id = p_run AND ended_at IS NULL) THEN
		RETURN false;
	END IF;
	DELETE FROM instances WHERE id = p_instance AND run_id = p_run;
	UPDATE runs SET cleanup_pending = false, cleanup_next_at = NULL, cleanup_error = NULL, instance_id = NULL WHERE id = p_run;
	RETURN true;
END
$$;

GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO paddock_api;
