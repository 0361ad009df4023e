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
