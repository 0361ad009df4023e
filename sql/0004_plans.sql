-- Functions in SQL are planned anew by each query that calls them; those in PL/pgSQL keep their plans for the session. On the way of every command
-- that is half the time of its start.
-- And: a replayed answer takes input and metadata from the Run, where they never change; json_populate_record() cannot carry an escaped NUL.

CREATE OR REPLACE FUNCTION audit_add(p_origin origin, p_action text, p_object text, p_result text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO audit (actor_id, user_id, token_id, request_id, source, action, object, result)
	VALUES (p_origin.actor_id, p_origin.user_id, p_origin.token_id, p_origin.request_id, p_origin.source, p_action, p_object, p_result);
END
$$;

CREATE OR REPLACE FUNCTION thread_fenced(p_user uuid, p_thread text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	RETURN EXISTS (SELECT 1 FROM runs WHERE user_id = p_user AND thread_id = p_thread AND cleanup_pending);
END
$$;

CREATE OR REPLACE FUNCTION run_refuses(r runs, p_hash bytea) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	IF r.ended_at IS NOT NULL OR r.status = 'cancel_requested' OR r.deadline_at <= clock_timestamp() THEN
		RETURN 'run_ended';
	ELSIF r.lease_owner IS NULL THEN
		RETURN CASE WHEN p_hash IS NOT NULL THEN 'lease_lost' END;
	ELSIF p_hash IS NULL THEN
		RETURN 'lease_required';
	ELSIF p_hash <> r.lease_hash OR r.lease_expires_at <= clock_timestamp() THEN
		RETURN 'lease_lost';
	END IF;
	RETURN NULL;
END
$$;

CREATE OR REPLACE FUNCTION command_insert(w command_wish, r runs, o origin) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO sandbox_commands (id, run_id, attempt, user_id, instance_id, command, argv, cwd, timeout_ms, background, actor_id, token_id, request_id, source)
	VALUES (w.id, r.id, r.attempt, r.user_id, r.instance_id, w.command, w.argv, coalesce(w.cwd, r.workdir), w.timeout_ms, w.background,
		o.actor_id, o.token_id, o.request_id, o.source);
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
	IF p_worker IS NOT NULL AND NOT thread_fenced(o.user_id, p_thread) THEN
		r := run_begin(p_id, p_worker, p_lease_ms, p_nonce, p_hash);
	END IF;
	PERFORM audit_add(o, 'run.create', p_id::text, 'ok');
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
