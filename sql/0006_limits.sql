-- What a command's time-out was, how many sandboxes there may be, and how long what is over is kept.

-- Which timer fired (R2.9): a reader must not have to guess whose time was over.
ALTER TABLE sandbox_commands ADD COLUMN timeout text CHECK (timeout IS NULL OR (timeout IN ('command', 'stage', 'run') AND reason = 'timeout'));
COMMENT ON COLUMN sandbox_commands.timeout IS 'the timer that ended it: its own, what its stage had left, or the Run''s ceiling';

CREATE OR REPLACE FUNCTION commands_record(p_items json, p_out bytea[], p_err bytea[]) RETURNS TABLE (what text, id uuid) LANGUAGE plpgsql AS $$
DECLARE
	v_ids uuid[];
	v_runs uuid[];
BEGIN
	SELECT array_agg((e ->> 'id')::uuid) INTO v_ids FROM json_array_elements(p_items) e;
	PERFORM 1 FROM sandbox_commands c WHERE c.id = ANY (v_ids) ORDER BY c.id FOR NO KEY UPDATE;
	WITH x AS (
		SELECT * FROM ROWS FROM (
			json_to_recordset(p_items) AS (id uuid, status text, reason text, timeout text, exit_code integer, signal integer, process_group integer,
				started_at timestamptz, ended_at timestamptz, duration_ms bigint, stdout_bytes bigint, stderr_bytes bigint, stdout_truncated boolean,
				stderr_truncated boolean, error_code text, error_message text),
			unnest(p_out), unnest(p_err)) AS t (id, status, reason, timeout, exit_code, signal, process_group, started_at, ended_at, duration_ms, stdout_bytes,
				stderr_bytes, stdout_truncated, stderr_truncated, error_code, error_message, stdout, stderr)
	), ends AS (
		UPDATE sandbox_commands c SET status = x.status, reason = x.reason, timeout = x.timeout, exit_code = x.exit_code, signal = x.signal,
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

-- Limits on instances. The ledger has them until nothing of them is left, so those that are being cleaned up count.
ALTER TYPE command_wish ADD ATTRIBUTE max_user_instances bigint, ADD ATTRIBUTE max_all_instances bigint;

-- Is one of them reached? Exact: who has counted holds a lock until his row is committed. Taken after the lock of commands_full.
CREATE FUNCTION instances_full(w command_wish, p_user uuid) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	v_user bigint;
	v_all bigint;
BEGIN
	PERFORM pg_advisory_xact_lock(7030002);
	SELECT count(*) FILTER (WHERE user_id = p_user), count(*) INTO v_user, v_all FROM instances;
	RETURN v_user >= w.max_user_instances OR v_all >= w.max_all_instances;
END
$$;

-- created | replayed | idempotency_mismatch | not_found | run_ended | lease_lost | lease_required | cleanup_pending | too_many_commands | too_many_instances |
-- stage_timeout
CREATE OR REPLACE FUNCTION command_start(p_run uuid, p_hash bytea, p_instance uuid, p_workspace text, w command_wish, p_key text, p_body bytea, o origin)
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
	IF v_no IS NULL AND w.stage_ms IS NOT NULL THEN
		w.timeout_ms := w.stage_ms - CASE WHEN r.status = 'pending' THEN 0 ELSE stage_used_ms(r.id, r.attempt, w.stage) END;
		IF w.timeout_ms < 1 THEN
			v_no := 'stage_timeout';
		END IF;
	END IF;
	IF v_no IS NULL AND r.instance_id IS NULL AND instances_full(w, r.user_id) THEN
		v_no := 'too_many_instances';
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

-- created | replayed | idempotency_mismatch | too_many_commands | too_many_instances
CREATE OR REPLACE FUNCTION execute_start(p_run uuid, p_instance uuid, p_workspace text, p_backend text, p_workdir text, p_timeout bigint, w command_wish,
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
	ELSIF instances_full(w, o.user_id) THEN
		a.result := 'too_many_instances';
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

GRANT EXECUTE ON FUNCTION instances_full(command_wish, uuid) TO paddock_api;

-- Retention: what is over is forgotten after a time. The API's account may not delete these rows; these functions may, with their owner's rights, and
-- only what is at least a day old. Each does one bounded batch and gives its size.
CREATE INDEX sandbox_commands_kept ON sandbox_commands (ended_at) WHERE ended_at IS NOT NULL AND (stdout IS NOT NULL OR stderr IS NOT NULL);
CREATE INDEX runs_over ON runs (ended_at) WHERE ended_at IS NOT NULL AND NOT cleanup_pending;
CREATE INDEX runs_successor ON runs (successor_id) WHERE successor_id IS NOT NULL;

CREATE FUNCTION days_ago(p_days bigint) RETURNS timestamptz LANGUAGE plpgsql AS $$
BEGIN
	IF p_days IS NULL OR p_days < 1 THEN
		RAISE EXCEPTION 'nothing younger than a day is removed';
	END IF;
	RETURN clock_timestamp() - p_days * interval '1 day';
END
$$;

-- Head and tail of the output; counts stay, and what is missing is marked as cut.
CREATE FUNCTION retire_outputs(p_days bigint, p_limit bigint) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
	v_before timestamptz := days_ago(p_days);
	v_n bigint;
BEGIN
	UPDATE sandbox_commands SET stdout = NULL, stderr = NULL, stdout_truncated = stdout_truncated OR stdout_bytes > 0,
		stderr_truncated = stderr_truncated OR stderr_bytes > 0
	WHERE id IN (SELECT id FROM sandbox_commands WHERE ended_at IS NOT NULL AND (stdout IS NOT NULL OR stderr IS NOT NULL) AND ended_at < v_before
		ORDER BY ended_at LIMIT p_limit FOR NO KEY UPDATE SKIP LOCKED);
	GET DIAGNOSTICS v_n = ROW_COUNT;
	RETURN v_n;
END
$$;

-- Ended Runs with their attempts and commands, of which the audit keeps who started what, and how it ended. Not those that clean-up, an instance or an
-- Idempotency-Key still needs, nor a successor whose predecessor is still there. p_limit bounds Runs and commands each: a Run of many commands goes in parts.
CREATE FUNCTION retire_runs(p_days bigint, p_limit bigint) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
	v_before timestamptz := least(days_ago(p_days), (SELECT min(created_at) FROM idempotency_keys));
	v_runs uuid[];
	v_commands bigint;
	v_n bigint;
BEGIN
	SELECT array_agg(x.id) INTO v_runs FROM (SELECT r.id FROM runs r WHERE r.ended_at IS NOT NULL AND NOT r.cleanup_pending AND r.ended_at < v_before
			AND NOT EXISTS (SELECT 1 FROM instances i WHERE i.run_id = r.id)
			AND NOT EXISTS (SELECT 1 FROM sandbox_commands c WHERE c.user_id = r.user_id AND c.run_id = r.id AND c.ended_at IS NULL)
			AND NOT EXISTS (SELECT 1 FROM runs p WHERE p.successor_id = r.id)
		ORDER BY r.ended_at LIMIT p_limit FOR UPDATE SKIP LOCKED) x;
	WITH gone AS (
		DELETE FROM sandbox_commands WHERE id IN (SELECT c.id FROM unnest(v_runs) u (run_id) JOIN sandbox_commands c ON c.run_id = u.run_id
			ORDER BY c.id LIMIT p_limit FOR UPDATE OF c) RETURNING *
	)
	INSERT INTO audit (at, actor_id, user_id, token_id, request_id, source, action, object, result)
		SELECT created_at, actor_id, user_id, token_id, request_id, source, 'command.start', id::text, coalesce(reason, status) FROM gone;
	GET DIAGNOSTICS v_commands = ROW_COUNT;
	SELECT array_agg(u) INTO v_runs FROM unnest(v_runs) u WHERE NOT EXISTS (SELECT 1 FROM sandbox_commands c WHERE c.run_id = u);
	DELETE FROM run_attempts WHERE run_id = ANY (v_runs);
	DELETE FROM runs WHERE id = ANY (v_runs);
	GET DIAGNOSTICS v_n = ROW_COUNT;
	RETURN v_n + v_commands;
END
$$;

CREATE FUNCTION retire_audit(p_days bigint, p_limit bigint) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, public, pg_temp AS $$
DECLARE
	v_before timestamptz := days_ago(p_days);
	v_n bigint;
BEGIN
	DELETE FROM audit WHERE id IN (SELECT id FROM audit WHERE at < v_before ORDER BY at LIMIT p_limit FOR UPDATE SKIP LOCKED);
	GET DIAGNOSTICS v_n = ROW_COUNT;
	RETURN v_n;
END
$$;

REVOKE ALL ON FUNCTION retire_outputs(bigint, bigint), retire_runs(bigint, bigint), retire_audit(bigint, bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION days_ago(bigint), retire_outputs(bigint, bigint), retire_runs(bigint, bigint), retire_audit(bigint, bigint) TO paddock_api;

-- Whatever the array holds, the plan is the same; planning it anew took longer than running it.
ALTER FUNCTION commands_record(json, bytea[], bytea[]) SET plan_cache_mode = force_generic_plan;
