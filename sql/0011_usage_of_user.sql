-- A look at a user's sandbox finds all that is to be summed up in the user's row: how long sandboxes ran, and since when the present one runs.
-- The row is there from the first time that is accounted for, also where each Run has a sandbox of its own: then of generation 0.

ALTER TABLE user_sandboxes ADD COLUMN usage_ms bigint NOT NULL DEFAULT 0 CHECK (usage_ms >= 0),
	ADD COLUMN running_at timestamptz,
	DROP CONSTRAINT user_sandboxes_generation_check,
	ADD CHECK (generation > 0 OR (generation = 0 AND state = 'none'));
COMMENT ON COLUMN user_sandboxes.usage_ms IS 'the sum of ms in sb_usage_log';
COMMENT ON COLUMN user_sandboxes.running_at IS 'up to when the running time of the present instance is accounted for; NULL: it does not run';

INSERT INTO user_sandboxes AS s (user_id, provider, state, generation, op_at, usage_ms)
SELECT t.user_id, l.provider, 'none', 0, clock_timestamp(), t.ms
FROM sb_usage_total t CROSS JOIN LATERAL (SELECT provider FROM sb_usage_log WHERE user_id = t.user_id ORDER BY started_at DESC LIMIT 1) l
ON CONFLICT (user_id) DO UPDATE SET usage_ms = excluded.usage_ms;
UPDATE user_sandboxes s SET running_at = i.usage_at
FROM instances i WHERE i.id = s.instance_id AND EXISTS (SELECT 1 FROM sb_usage_log l WHERE l.instance_id = i.id AND l.ended_at IS NULL);

CREATE OR REPLACE VIEW sb_container AS
	SELECT u.name AS username, CASE WHEN s.state IN ('creating', 'rebuilding') THEN '' ELSE coalesce(s.provider_ref, s.instance_id::text) END AS sandbox_id,
		CASE WHEN s.state IN ('creating', 'rebuilding') THEN 'creating' WHEN s.state = 'error' THEN 'error' ELSE 'ready' END AS status,
		s.state IN ('paused', 'waking') AS paused, CASE s.provider WHEN 'host' THEN 'local' ELSE s.provider END AS type, s.lock_version,
		s.usage_ms / 1000 AS total_usage_seconds, s.last_activity_at
	FROM user_sandboxes s JOIN users u ON u.id = s.user_id
	WHERE s.state <> 'none';
DROP TABLE sb_usage_total;
DROP INDEX instances_of_user;

-- The two together would be ambiguous for who names two arguments.
DROP FUNCTION usage_count(instances, bigint);
-- As before, with the sum in the user's row, which the caller has locked. Does the instance run on?
CREATE FUNCTION usage_count(i instances, p_ms bigint, p_running boolean DEFAULT true) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	v_left bigint := p_ms - i.usage_ms;
	v_part bigint;
	l sb_usage_log;
BEGIN
	IF v_left <> 0 THEN
		FOR l IN SELECT * FROM sb_usage_log WHERE instance_id = i.id ORDER BY id DESC FOR NO KEY UPDATE LOOP
			v_part := greatest(v_left, -l.ms);
			UPDATE sb_usage_log SET ms = ms + v_part WHERE id = l.id;
			v_left := v_left - v_part;
			EXIT WHEN v_left >= 0;
		END LOOP;
	END IF;
	UPDATE user_sandboxes SET usage_ms = greatest(usage_ms + p_ms - i.usage_ms, 0),
		running_at = CASE WHEN instance_id = i.id THEN CASE WHEN p_running THEN clock_timestamp() END ELSE running_at END
	WHERE user_id = i.user_id;
	UPDATE instances SET usage_ms = p_ms, usage_at = clock_timestamp() WHERE id = i.id;
END
$$;

-- The executor's count of an instance's running time is p_ms (NULL: it does not know any more); does it run on?
CREATE OR REPLACE FUNCTION usage_meter(p_instance uuid, p_provider text, p_ms bigint, p_running boolean) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	i instances;
	v_open boolean;
BEGIN
	SELECT * INTO i FROM instances WHERE id = p_instance FOR NO KEY UPDATE;
	IF NOT FOUND THEN
		RETURN;
	END IF;
	p_ms := coalesce(p_ms, i.usage_ms);
	v_open := EXISTS (SELECT 1 FROM sb_usage_log WHERE instance_id = p_instance AND ended_at IS NULL);
	IF NOT v_open AND (p_running OR p_ms > i.usage_ms) THEN
		PERFORM usage_open(i, p_provider, greatest(p_ms - i.usage_ms, 0));
		v_open := true;
	END IF;
	PERFORM usage_count(i, p_ms, p_running);
	IF v_open AND NOT p_running THEN
		UPDATE sb_usage_log SET ended_at = least(started_at + ms * interval '1 ms', clock_timestamp()) WHERE instance_id = p_instance AND ended_at IS NULL;
	END IF;
END
$$;

-- It is to be destroyed. Until the executor's last word on its time that is what our own clock makes of it, so that the user's sum never falls.
CREATE OR REPLACE FUNCTION instance_retire(p_instance uuid) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	i instances;
BEGIN
	UPDATE instances SET retired_at = clock_timestamp(), destroy_next_at = clock_timestamp() WHERE id = p_instance AND retired_at IS NULL RETURNING * INTO i;
	IF FOUND AND EXISTS (SELECT 1 FROM sb_usage_log WHERE instance_id = p_instance AND ended_at IS NULL) THEN
		PERFORM usage_count(i, i.usage_ms + (1000 * extract(epoch FROM clock_timestamp() - i.usage_at))::bigint, false);
	END IF;
END
$$;

-- The resources of the Run's attempt are released: its own instance is gone (p_instance), or nothing of its scope is left in its user's (p_scope).
-- p_running_ms: how long an instance of its own ran, unless its last report has said more: the executor tells it no longer once that is acknowledged. true when the duty is cleared (or was already).
CREATE OR REPLACE FUNCTION cleanup_confirm(p_run uuid, p_instance uuid, p_scope uuid, p_running_ms bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	r runs;
	v_reported bigint;
BEGIN
	PERFORM sandbox_lock(user_id) FROM instances WHERE id = p_instance AND run_id = p_run;
	SELECT * INTO r FROM runs WHERE id = p_run FOR NO KEY UPDATE;
	IF NOT FOUND OR NOT r.cleanup_pending THEN
		RETURN true;
	END IF;
	IF r.instance_id IS DISTINCT FROM p_instance OR r.scope_id IS DISTINCT FROM p_scope
			OR EXISTS (SELECT 1 FROM sandbox_commands WHERE user_id = r.user_id AND run_id = p_run AND ended_at IS NULL) THEN
		RETURN false;
	END IF;
	DELETE FROM instances WHERE id = p_instance AND run_id = p_run RETURNING usage_ms INTO v_reported;
	p_running_ms := greatest(p_running_ms, v_reported);
	IF v_reported IS NOT NULL AND p_running_ms > 0 THEN
		INSERT INTO sb_usage_log (user_id, instance_id, provider, reason, run_id, started_at, ended_at, ms)
		VALUES (r.user_id, p_instance, r.backend, CASE WHEN r.oneshot THEN 'execute' ELSE 'agent_run' END, p_run,
			clock_timestamp() - p_running_ms * interval '1 ms', clock_timestamp(), p_running_ms);
		INSERT INTO user_sandboxes AS s (user_id, provider, state, generation, op_at, usage_ms)
		VALUES (r.user_id, r.backend, 'none', 0, clock_timestamp(), p_running_ms)
		ON CONFLICT (user_id) DO UPDATE SET usage_ms = s.usage_ms + p_running_ms;
	END IF;
	UPDATE runs SET cleanup_pending = false, cleanup_next_at = NULL, cleanup_error = NULL, instance_id = NULL, scope_id = NULL WHERE id = p_run;
	RETURN true;
END
$$;

GRANT SELECT (usage_ms) ON user_sandboxes TO paddock_read;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO paddock_api;
