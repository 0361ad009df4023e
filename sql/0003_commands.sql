-- Commands: the row first, the executor after it, the end from the executor's reports.

CREATE TYPE command_answer AS (result text, command_id uuid, run_id uuid, attempt integer, instance_id uuid, cwd text, workdir text, timeout_ms bigint, ended boolean);
-- What is to be run, and how much may be open at once.
CREATE TYPE command_wish AS (id uuid, command text, argv json, cwd text, timeout_ms bigint, background boolean, max_run bigint, max_user bigint, max_all bigint);

-- Are the limits on open commands reached? Counted without a lock while there is room; near a limit (16 or fewer left) an advisory lock
-- makes the count exact, unless more than 16 processes start a command in the same instant.
CREATE FUNCTION commands_full(w command_wish, p_user uuid, p_run uuid) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	v_run bigint;
	v_user bigint;
	v_all bigint;
BEGIN
	FOR i IN 1..2 LOOP
		SELECT count(*) FILTER (WHERE c.run_id = p_run), count(*) FILTER (WHERE c.user_id = p_user), count(*) INTO v_run, v_user, v_all
		FROM sandbox_commands c WHERE c.ended_at IS NULL;
		IF v_run >= w.max_run OR v_user >= w.max_user OR v_all >= w.max_all THEN
			RETURN true;
		END IF;
		EXIT WHEN i = 2 OR (v_user < w.max_user - 16 AND v_all < w.max_all - 16);
		PERFORM pg_advisory_xact_lock(7030001);
	END LOOP;
	RETURN false;
END
$$;

CREATE FUNCTION command_insert(w command_wish, r runs, o origin) RETURNS void LANGUAGE sql AS $$
	INSERT INTO sandbox_commands (id, run_id, attempt, user_id, instance_id, command, argv, cwd, timeout_ms, background, actor_id, token_id, request_id, source)
	VALUES (w.id, r.id, r.attempt, r.user_id, r.instance_id, w.command, w.argv, coalesce(w.cwd, r.workdir), w.timeout_ms, w.background,
		o.actor_id, o.token_id, o.request_id, o.source);
$$;

-- The command that an Idempotency-Key stands for. NULL: the key is new.
CREATE FUNCTION command_replay(p_scope text, p_run uuid, p_key text, p_body bytea, p_user uuid) RETURNS command_answer LANGUAGE plpgsql AS $$
DECLARE
	k idempotency_keys;
	a command_answer;
BEGIN
	SELECT * INTO k FROM idempotency_keys WHERE user_id = p_user AND scope = p_scope AND key = p_key;
	IF NOT FOUND THEN
		RETURN NULL;
	ELSIF k.body_hash <> p_body OR (p_run IS NOT NULL AND k.run_id <> p_run) THEN
		RETURN ROW('idempotency_mismatch', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::command_answer;
	END IF;
	SELECT 'replayed', c.id, c.run_id, c.attempt, c.instance_id, c.cwd, r.workdir, c.timeout_ms, c.ended_at IS NOT NULL INTO a
	FROM sandbox_commands c JOIN runs r ON r.id = c.run_id WHERE c.id = k.command_id;
	RETURN a;
END
$$;

-- created | replayed | idempotency_mismatch | not_found | run_ended | lease_lost | lease_required | cleanup_pending | too_many_commands
CREATE FUNCTION command_start(p_run uuid, p_hash bytea, p_instance uuid, p_workspace text, w command_wish, p_key text, p_body bytea, o origin)
RETURNS command_answer LANGUAGE plpgsql AS $$
DECLARE
	r runs;
	a command_answer;
	v_no text;
BEGIN
	IF p_key IS NOT NULL THEN
		a := command_replay('command', p_run, p_key, p_body, o.user_id);
		IF a.result IS NOT NULL THEN
			RETURN a;
		END IF;
	END IF;
	SELECT * INTO r FROM runs WHERE id = p_run AND user_id = o.user_id FOR NO KEY UPDATE;
	IF NOT FOUND THEN
		a.result := 'not_found';
		RETURN a;
	END IF;
	v_no := run_refuses(r, p_hash);
	IF v_no IS NULL AND (r.cleanup_pending OR (r.instance_id IS NULL AND thread_fenced(r.user_id, r.thread_id))) THEN
		v_no := 'cleanup_pending';
	ELSIF v_no IS NULL AND commands_full(w, r.user_id, r.id) THEN
		v_no := 'too_many_commands';
	END IF;
	IF v_no IS NOT NULL THEN
		a.result := v_no;
		RETURN a;
	END IF;
	IF r.status = 'pending' THEN
		r := run_begin(r.id, NULL, NULL, NULL, NULL);
	END IF;
	IF r.instance_id IS NULL THEN
		INSERT INTO instances (id, run_id, attempt, user_id, workspace) VALUES (p_instance, r.id, r.attempt, r.user_id, p_workspace);
		UPDATE runs SET instance_id = p_instance WHERE id = r.id RETURNING * INTO r;
		UPDATE run_attempts SET instance_id = p_instance WHERE run_id = r.id AND attempt = r.attempt;
	END IF;
	PERFORM command_insert(w, r, o);
	IF p_key IS NOT NULL THEN
		INSERT INTO idempotency_keys (user_id, scope, key, body_hash, run_id, command_id) VALUES (o.user_id, 'command', p_key, p_body, r.id, w.id);
	END IF;
	RETURN ROW('created', w.id, r.id, r.attempt, r.instance_id, coalesce(w.cwd, r.workdir), r.workdir, w.timeout_ms, false)::command_answer;
END
$$;

-- A Run of its own for one command; its Thread is itself, so no fence concerns it. created | replayed | idempotency_mismatch | too_many_commands
CREATE FUNCTION execute_start(p_run uuid, p_instance uuid, p_workspace text, p_backend text, p_workdir text, p_timeout bigint, w command_wish,
	p_key text, p_body bytea, o origin) RETURNS command_answer LANGUAGE plpgsql AS $$
DECLARE
	r runs;
	a command_answer;
	v_now timestamptz := clock_timestamp();
BEGIN
	IF p_key IS NOT NULL THEN
		a := command_replay('execute', NULL, p_key, p_body, o.user_id);
		IF a.result IS NOT NULL THEN
			RETURN a;
		END IF;
	END IF;
	IF commands_full(w, o.user_id, p_run) THEN
		a.result := 'too_many_commands';
		RETURN a;
	END IF;
	INSERT INTO runs (id, user_id, thread_id, status, oneshot, attempt, max_attempts, backend, workdir, timeout_ms, instance_id, started_at, deadline_at)
	VALUES (p_run, o.user_id, p_run::text, 'running', true, 1, 1, p_backend, p_workdir, p_timeout, p_instance, v_now, v_now + p_timeout * interval '1 ms')
	RETURNING * INTO r;
	INSERT INTO run_attempts (run_id, attempt, instance_id) VALUES (p_run, 1, p_instance);
	INSERT INTO instances (id, run_id, attempt, user_id, workspace) VALUES (p_instance, p_run, 1, o.user_id, p_workspace);
	PERFORM command_insert(w, r, o);
	IF p_key IS NOT NULL THEN
		INSERT INTO idempotency_keys (user_id, scope, key, body_hash, run_id, command_id) VALUES (o.user_id, 'execute', p_key, p_body, p_run, w.id);
	END IF;
	RETURN ROW('created', w.id, p_run, 1, p_instance, coalesce(w.cwd, p_workdir), p_workdir, w.timeout_ms, false)::command_answer;
END
$$;

-- Runs that end with their commands: one-shot ones, and those that were only waiting to be cancelled. Gives those that it ended.
CREATE FUNCTION runs_follow_commands(p_runs uuid[]) RETURNS SETOF uuid LANGUAGE plpgsql AS $$
DECLARE
	r runs;
	v_reason text;
	v_code text;
BEGIN
	FOR r IN SELECT * FROM runs WHERE id = ANY (p_runs) AND ended_at IS NULL AND (oneshot OR status = 'cancel_requested') ORDER BY id FOR NO KEY UPDATE LOOP
		CONTINUE WHEN EXISTS (SELECT 1 FROM sandbox_commands WHERE user_id = r.user_id AND run_id = r.id AND ended_at IS NULL);
		IF r.status = 'cancel_requested' THEN
			PERFORM run_end(r.id, 'cancelled', NULL, NULL);
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

-- What the executor reports, one element a command: starts and ends. A row that has an end keeps it, but for 'lost', which truth replaces.
-- p_out and p_err are the kept bytes, in the same order. Gives ('ended', run) for each Run that ended with its command, and ('stray', command) for each
-- command that runs although its row is missing or final.
CREATE FUNCTION commands_record(p_items json, p_out bytea[], p_err bytea[]) RETURNS TABLE (what text, id uuid) LANGUAGE plpgsql AS $$
DECLARE
	v_ids uuid[];
	v_runs uuid[];
BEGIN
	SELECT array_agg((e ->> 'id')::uuid) INTO v_ids FROM json_array_elements(p_items) e;
	PERFORM 1 FROM sandbox_commands c WHERE c.id = ANY (v_ids) ORDER BY c.id FOR NO KEY UPDATE;
	WITH x AS (
		SELECT * FROM ROWS FROM (
			json_to_recordset(p_items) AS (id uuid, status text, reason text, exit_code integer, signal integer, process_group integer, started_at timestamptz,
				ended_at timestamptz, duration_ms bigint, stdout_bytes bigint, stderr_bytes bigint, stdout_truncated boolean, stderr_truncated boolean,
				error_code text, error_message text),
			unnest(p_out), unnest(p_err)) AS t (id, status, reason, exit_code, signal, process_group, started_at, ended_at, duration_ms, stdout_bytes,
				stderr_bytes, stdout_truncated, stderr_truncated, error_code, error_message, stdout, stderr)
	), ends AS (
		UPDATE sandbox_commands c SET status = x.status, reason = x.reason, exit_code = x.exit_code, signal = x.signal,
			process_group = coalesce(x.process_group, c.process_group), started_at = coalesce(x.started_at, c.started_at),
			ended_at = coalesce(x.ended_at, clock_timestamp()), duration_ms = x.duration_ms, stdout = x.stdout, stderr = x.stderr,
			stdout_bytes = coalesce(x.stdout_bytes, 0), stderr_bytes = coalesce(x.stderr_bytes, 0),
			stdout_truncated = coalesce(x.stdout_truncated, false), stderr_truncated = coalesce(x.stderr_truncated, false),
			error_code = x.error_code, error_message = x.error_message
		FROM x WHERE c.id = x.id AND x.status IN ('exited', 'lost') AND (c.ended_at IS NULL OR (c.status = 'lost' AND x.status = 'exited'))
		RETURNING c.run_id
	), starts AS (
		UPDATE sandbox_commands c SET status = 'running', started_at = x.started_at, process_group = x.process_group
		FROM x WHERE c.id = x.id AND x.status = 'running' AND c.status = 'pending'
		RETURNING c.id
	)
	SELECT array_agg(DISTINCT ends.run_id) INTO v_runs FROM ends;
	RETURN QUERY SELECT 'ended', f FROM runs_follow_commands(v_runs) f;
	RETURN QUERY SELECT 'stray', (e ->> 'id')::uuid FROM json_array_elements(p_items) e
		WHERE e ->> 'status' IN ('pending', 'running')
		AND NOT EXISTS (SELECT 1 FROM sandbox_commands c WHERE c.id = (e ->> 'id')::uuid AND c.ended_at IS NULL);
END
$$;

-- The executor has refused the command for good: it never ran and never will. Its Idempotency-Key is free again. Gives the Runs that ended with it.
CREATE FUNCTION command_refused(p_command uuid, p_code text, p_message text) RETURNS SETOF uuid LANGUAGE plpgsql AS $$
DECLARE
	c sandbox_commands;
BEGIN
	UPDATE sandbox_commands SET status = 'exited', reason = 'not_started', ended_at = clock_timestamp(), error_code = p_code, error_message = p_message
	WHERE id = p_command AND ended_at IS NULL RETURNING * INTO c;
	IF NOT FOUND THEN
		RETURN;
	END IF;
	DELETE FROM idempotency_keys WHERE command_id = p_command;
	RETURN QUERY SELECT * FROM runs_follow_commands(ARRAY[c.run_id]);
END
$$;

GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO paddock_api;
