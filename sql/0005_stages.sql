-- Stages: commands of an attempt that name the same stage share one allowance of wall clock. A command that names none has its own.

ALTER TYPE command_wish ADD ATTRIBUTE stage text, ADD ATTRIBUTE stage_ms bigint;
COMMENT ON COLUMN command_wish.stage_ms IS 'what the stage has in all; NULL when the command has a time-out of its own, which goes before';

-- The time in which commands of the stage ran, in milliseconds: what several ran at once counts once. An open command counts until now.
CREATE FUNCTION stage_used_ms(p_run uuid, p_attempt integer, p_stage text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	v_now timestamptz := clock_timestamp();
BEGIN
	RETURN (SELECT coalesce(ceil(sum(1000 * extract(epoch FROM greatest(t.upto - greatest(t.since, t.before), interval '0')))), 0)
		FROM (SELECT s.since, s.upto, max(s.upto) OVER (ORDER BY s.since, s.id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
			FROM (SELECT id, coalesce(started_at, created_at) AS since, coalesce(ended_at, v_now) AS upto FROM sandbox_commands
				WHERE run_id = p_run AND attempt = p_attempt AND stage = p_stage AND (started_at IS NOT NULL OR ended_at IS NULL)) s) t);
END
$$;

CREATE OR REPLACE FUNCTION command_insert(w command_wish, r runs, o origin) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO sandbox_commands (id, run_id, attempt, stage, user_id, instance_id, command, argv, cwd, timeout_ms, background, actor_id, token_id, request_id, source)
	VALUES (w.id, r.id, r.attempt, w.stage, r.user_id, r.instance_id, w.command, w.argv, coalesce(w.cwd, r.workdir), w.timeout_ms, w.background,
		o.actor_id, o.token_id, o.request_id, o.source);
END
$$;

-- created | replayed | idempotency_mismatch | not_found | run_ended | lease_lost | lease_required | cleanup_pending | too_many_commands | stage_timeout
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

GRANT EXECUTE ON FUNCTION stage_used_ms(uuid, integer, text) TO paddock_api;
