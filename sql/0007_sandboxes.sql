-- Sandboxes that outlive Runs: one a user, its states, its ledger, its hours. What moves what: docs/lifecycle.md, "A user's sandbox".
-- Lock order: the user's advisory lock, user_sandboxes, instances, commands by id, runs. Nothing here waits for a provider.

CREATE TABLE user_sandboxes (
	user_id uuid PRIMARY KEY REFERENCES users,
	provider text NOT NULL,
	state text NOT NULL CHECK (state IN ('none', 'creating', 'rebuilding', 'ready', 'pausing', 'paused', 'waking', 'error')),
	generation bigint NOT NULL CHECK (generation > 0),
	instance_id uuid UNIQUE,
	previous_id uuid,
	provider_ref text,
	credential_sealed bytea,
	op_id uuid,
	op_at timestamptz NOT NULL,
	lock_version bigint NOT NULL DEFAULT 1,
	created_at timestamptz,
	last_activity_at timestamptz,
	kept_at timestamptz,
	keep_until timestamptz,
	error_code text,
	error_message text,
	CHECK ((state = 'none') = (instance_id IS NULL)),
	CHECK ((state IN ('creating', 'rebuilding', 'pausing', 'waking')) = (op_id IS NOT NULL))
) WITH (fillfactor = 70);
COMMENT ON COLUMN user_sandboxes.instance_id IS 'the operation id of its create, under which executor and provider know it; a new one with each generation';
COMMENT ON COLUMN user_sandboxes.previous_id IS 'the instance before: gone, or on its way, before this one is made';
COMMENT ON COLUMN user_sandboxes.credential_sealed IS 'what a remote control plane gave for it, sealed; NULL where there is none';
COMMENT ON COLUMN user_sandboxes.op_at IS 'the last progress of the operation in op_id, or when the state was entered';
COMMENT ON COLUMN user_sandboxes.last_activity_at IS 'the last successful provider call that executed, touched its files or kept it alive';
CREATE INDEX user_sandboxes_moving ON user_sandboxes (op_at) WHERE op_id IS NOT NULL;
CREATE INDEX user_sandboxes_running ON user_sandboxes (user_id) WHERE state = 'ready';

-- The ledger has every instance that exists or may exist: one of a Run, or one of a user (run_id NULL). What is retired is to be destroyed.
ALTER TABLE instances ALTER COLUMN run_id DROP NOT NULL, ALTER COLUMN attempt DROP NOT NULL,
	ADD COLUMN generation bigint,
	ADD COLUMN provider text,
	ADD COLUMN retired_at timestamptz,
	ADD COLUMN destroy_next_at timestamptz,
	ADD COLUMN destroy_tries integer NOT NULL DEFAULT 0,
	ADD COLUMN destroy_error text,
	ADD COLUMN quarantined_at timestamptz,
	ADD COLUMN usage_ms bigint NOT NULL DEFAULT 0,
	ADD COLUMN usage_at timestamptz,
	ADD COLUMN usage_reason text,
	ADD COLUMN usage_run uuid,
	ADD CHECK ((run_id IS NULL) = (attempt IS NULL) AND (run_id IS NULL) = (generation IS NOT NULL)),
	ADD CHECK (retired_at IS NULL OR run_id IS NULL),
	ADD CHECK ((retired_at IS NULL) = (destroy_next_at IS NULL)),
	ADD CHECK (quarantined_at IS NULL OR retired_at IS NOT NULL);
COMMENT ON COLUMN instances.provider IS 'of a user''s own: only an executor of this provider knows whether it is gone';
COMMENT ON COLUMN instances.quarantined_at IS 'it can be neither used nor removed; somebody has to look at it';
COMMENT ON COLUMN instances.usage_ms IS 'how far the executor''s count of its running time is accounted for';
CREATE UNIQUE INDEX instances_user ON instances (user_id) WHERE run_id IS NULL AND retired_at IS NULL;
CREATE INDEX instances_retired ON instances (destroy_next_at) WHERE retired_at IS NOT NULL;
GRANT UPDATE ON instances TO paddock_api;

ALTER TABLE runs ADD COLUMN scope_id uuid;
COMMENT ON COLUMN runs.scope_id IS 'names what the present attempt runs in its instance; what is ended as one';
ALTER TABLE run_attempts ADD COLUMN scope_id uuid;
ALTER TABLE sandbox_commands ADD COLUMN scope_id uuid,
	ADD COLUMN kind text NOT NULL DEFAULT 'command' CHECK (kind IN ('command', 'file', 'verify')),
	ADD COLUMN renew boolean NOT NULL DEFAULT false,
	ADD COLUMN again_id uuid;
COMMENT ON COLUMN sandbox_commands.renew IS 'its caller waits to have it started once more, should its sandbox turn out to be no more';
COMMENT ON COLUMN sandbox_commands.again_id IS 'the command that was started in its place, in another sandbox';
UPDATE runs SET scope_id = instance_id WHERE instance_id IS NOT NULL;

-- Running time, one row a stretch of it that was used for one thing.
CREATE TABLE sb_usage_log (
	id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	user_id uuid NOT NULL REFERENCES users,
	instance_id uuid NOT NULL,
	generation bigint,
	provider text NOT NULL,
	reason text NOT NULL CHECK (reason IN ('agent_run', 'execute', 'file_operation', 'verify', 'rebuild', 'wake')),
	run_id uuid,
	started_at timestamptz NOT NULL,
	ended_at timestamptz,
	ms bigint NOT NULL CHECK (ms >= 0)
);
COMMENT ON COLUMN sb_usage_log.ms IS 'by the executor''s count; of an open stretch as far as accounted for';
CREATE UNIQUE INDEX sb_usage_log_open ON sb_usage_log (instance_id) WHERE ended_at IS NULL;
CREATE INDEX sb_usage_log_instance ON sb_usage_log (instance_id, id);
CREATE INDEX sb_usage_log_user ON sb_usage_log (user_id, started_at);
CREATE TABLE sb_usage_total (
	user_id uuid PRIMARY KEY REFERENCES users,
	ms bigint NOT NULL
) WITH (fillfactor = 50);

CREATE VIEW sb_container AS
	SELECT u.name AS username, CASE WHEN s.state IN ('creating', 'rebuilding') THEN '' ELSE coalesce(s.provider_ref, s.instance_id::text) END AS sandbox_id,
		CASE WHEN s.state IN ('creating', 'rebuilding') THEN 'creating' WHEN s.state = 'error' THEN 'error' ELSE 'ready' END AS status,
		s.state IN ('paused', 'waking') AS paused, CASE s.provider WHEN 'host' THEN 'local' ELSE s.provider END AS type, s.lock_version,
		coalesce(t.ms, 0) / 1000 AS total_usage_seconds, s.last_activity_at
	FROM user_sandboxes s JOIN users u ON u.id = s.user_id LEFT JOIN sb_usage_total t ON t.user_id = s.user_id
	WHERE s.state <> 'none';

-- What the service does by itself.
CREATE FUNCTION own_origin(p_user uuid) RETURNS origin LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	RETURN ROW(NULL, p_user, NULL, NULL, 'janitor')::origin;
END
$$;

-- --- running time ---

-- Accounts for the time up to p_ms of the executor's count. A count below what was already accounted for (a stretch was begun by our own clock) is given
-- back by the latest stretches, so that their sum is always the count.
CREATE FUNCTION usage_count(i instances, p_ms bigint) RETURNS void LANGUAGE plpgsql AS $$
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
		INSERT INTO sb_usage_total (user_id, ms) VALUES (i.user_id, greatest(p_ms - i.usage_ms, 0))
		ON CONFLICT (user_id) DO UPDATE SET ms = greatest(sb_usage_total.ms + p_ms - i.usage_ms, 0);
	END IF;
	UPDATE instances SET usage_ms = p_ms, usage_at = clock_timestamp() WHERE id = i.id;
END
$$;

CREATE FUNCTION usage_open(i instances, p_provider text, p_ago_ms bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO sb_usage_log (user_id, instance_id, generation, provider, reason, run_id, started_at, ms)
	VALUES (i.user_id, i.id, i.generation, p_provider, coalesce(i.usage_reason, 'wake'), i.usage_run, clock_timestamp() - p_ago_ms * interval '1 ms', 0);
END
$$;

-- The executor's count of an instance's running time is p_ms (NULL: it does not know any more); does it run on?
CREATE FUNCTION usage_meter(p_instance uuid, p_provider text, p_ms bigint, p_running boolean) RETURNS void LANGUAGE plpgsql AS $$
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
	PERFORM usage_count(i, p_ms);
	IF v_open AND NOT p_running THEN
		UPDATE sb_usage_log SET ended_at = least(started_at + ms * interval '1 ms', clock_timestamp()) WHERE instance_id = p_instance AND ended_at IS NULL;
	END IF;
END
$$;

-- From now on the instance's time is p_reason's and p_run's, unless another Run that has its time runs a command.
CREATE FUNCTION usage_attribute(p_instance uuid, p_provider text, p_reason text, p_run uuid) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	i instances;
BEGIN
	SELECT * INTO i FROM instances WHERE id = p_instance FOR NO KEY UPDATE;
	IF NOT FOUND OR (i.usage_reason = p_reason AND i.usage_run IS NOT DISTINCT FROM p_run) THEN
		RETURN;
	ELSIF EXISTS (SELECT 1 FROM sandbox_commands WHERE user_id = i.user_id AND run_id = i.usage_run AND ended_at IS NULL) THEN
		RETURN;
	END IF;
	UPDATE instances SET usage_reason = p_reason, usage_run = p_run WHERE id = p_instance;
	IF EXISTS (SELECT 1 FROM sb_usage_log WHERE instance_id = p_instance AND ended_at IS NULL) THEN
		PERFORM usage_count(i, i.usage_ms + (1000 * extract(epoch FROM clock_timestamp() - i.usage_at))::bigint);
		UPDATE sb_usage_log SET ended_at = clock_timestamp() WHERE instance_id = p_instance AND ended_at IS NULL;
		SELECT * INTO i FROM instances WHERE id = p_instance;
		PERFORM usage_open(i, p_provider, 0);
	END IF;
END
$$;

-- --- decisions on a user's sandbox ---

ALTER TYPE command_wish ADD ATTRIBUTE scope uuid, ADD ATTRIBUTE kind text, ADD ATTRIBUTE provider text, ADD ATTRIBUTE stale_ms bigint, ADD ATTRIBUTE renew boolean;
ALTER TYPE command_answer ADD ATTRIBUTE scope_id uuid, ADD ATTRIBUTE previous_id uuid, ADD ATTRIBUTE fresh boolean;
COMMENT ON COLUMN command_wish.provider IS 'of sandboxes that outlive Runs; NULL: each Run''s attempt has one of its own';
COMMENT ON COLUMN command_wish.renew IS 'a sandbox that is no more is replaced';
COMMENT ON COLUMN command_answer.fresh IS 'the instance is still to be made: whoever names it to the executor says so';
CREATE TYPE sandbox_answer AS (result text, sandbox user_sandboxes, blockers text[]);

CREATE FUNCTION sandbox_lock(p_user uuid) RETURNS user_sandboxes LANGUAGE plpgsql AS $$
DECLARE
	s user_sandboxes;
BEGIN
	PERFORM pg_advisory_xact_lock(7030003, hashtext(p_user::text));
	SELECT * INTO s FROM user_sandboxes WHERE user_id = p_user FOR NO KEY UPDATE;
	RETURN s;
END
$$;

-- Why nothing can be done with it now; NULL: it can be used, made or woken.
-- provider_changed | sandbox_stale (ask the executor what became of its operation) | sandbox_not_found
CREATE FUNCTION sandbox_refuses(s user_sandboxes, p_provider text, p_stale_ms bigint, p_renew boolean) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	IF s.state IS NULL OR s.state = 'none' THEN
		RETURN NULL;
	ELSIF s.provider <> p_provider THEN
		RETURN 'provider_changed';
	ELSIF s.state = 'error' AND NOT coalesce(p_renew, false) THEN
		RETURN 'sandbox_not_found';
	ELSIF s.op_id IS NOT NULL AND s.op_at < clock_timestamp() - p_stale_ms * interval '1 ms' THEN
		RETURN 'sandbox_stale';
	END IF;
	RETURN NULL;
END
$$;

CREATE FUNCTION instance_retire(p_instance uuid) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	UPDATE instances SET retired_at = clock_timestamp(), destroy_next_at = clock_timestamp() WHERE id = p_instance AND retired_at IS NULL;
END
$$;

-- A new instance takes the place of what there was, if anything; generation + 1. The caller holds the lock and has checked what stands against it.
CREATE FUNCTION sandbox_replace(s user_sandboxes, p_state text, p_provider text, p_instance uuid, p_workspace text, p_reason text, p_run uuid, o origin)
RETURNS user_sandboxes LANGUAGE plpgsql AS $$
DECLARE
	v_now timestamptz := clock_timestamp();
BEGIN
	PERFORM instance_retire(s.instance_id);
	INSERT INTO user_sandboxes AS x (user_id, provider, state, generation, instance_id, op_id, op_at, created_at)
	VALUES (o.user_id, p_provider, p_state, 1, p_instance, p_instance, v_now, v_now)
	ON CONFLICT (user_id) DO UPDATE SET provider = p_provider, state = p_state, generation = x.generation + 1, instance_id = p_instance,
		previous_id = coalesce(x.instance_id, x.previous_id), provider_ref = NULL, credential_sealed = NULL, op_id = p_instance, op_at = v_now,
		lock_version = x.lock_version + 1, created_at = v_now, last_activity_at = NULL, kept_at = NULL, keep_until = NULL, error_code = NULL,
		error_message = NULL
	RETURNING x.* INTO s;
	INSERT INTO instances (id, user_id, workspace, generation, provider, usage_reason, usage_run)
	VALUES (p_instance, o.user_id, p_workspace, s.generation, p_provider, p_reason, p_run);
	PERFORM audit_add(o, CASE p_state WHEN 'rebuilding' THEN 'sandbox.rebuild' ELSE 'sandbox.create' END, p_instance::text, 'generation ' || s.generation);
	RETURN s;
END
$$;

-- For a command or file operation: made when there is none, woken when it is paused.
CREATE FUNCTION sandbox_use(s user_sandboxes, p_provider text, p_instance uuid, p_workspace text, p_reason text, p_run uuid, o origin)
RETURNS user_sandboxes LANGUAGE plpgsql AS $$
BEGIN
	IF s.state IS NULL OR s.state IN ('none', 'error') THEN
		RETURN sandbox_replace(s, 'creating', p_provider, p_instance, p_workspace, p_reason, p_run, o);
	END IF;
	PERFORM usage_attribute(s.instance_id, p_provider, p_reason, p_run);
	IF s.state IN ('paused', 'pausing') THEN
		UPDATE user_sandboxes SET state = 'waking', op_id = gen_random_uuid(), op_at = clock_timestamp(), lock_version = lock_version + 1
		WHERE user_id = s.user_id RETURNING * INTO s;
		PERFORM audit_add(o, 'sandbox.wake', s.instance_id::text, 'ok');
	END IF;
	RETURN s;
END
$$;

-- What stands against replacing it.
CREATE FUNCTION sandbox_blockers(p_user uuid, s user_sandboxes) RETURNS text[] LANGUAGE plpgsql AS $$
BEGIN
	RETURN array_remove(ARRAY[
		CASE WHEN EXISTS (SELECT 1 FROM runs WHERE user_id = p_user AND status = 'running' AND ended_at IS NULL) THEN 'active_runs' END,
		CASE WHEN EXISTS (SELECT 1 FROM runs WHERE user_id = p_user AND status = 'cancel_requested' AND ended_at IS NULL) THEN 'cancel_requested' END,
		CASE WHEN EXISTS (SELECT 1 FROM sandbox_commands WHERE user_id = p_user AND ended_at IS NULL) THEN 'active_operations' END,
		CASE WHEN EXISTS (SELECT 1 FROM runs WHERE user_id = p_user AND cleanup_pending) THEN 'cleanup_pending' END,
		CASE WHEN s.op_id IS NOT NULL THEN 'operation_in_progress' END], NULL);
END
$$;
CREATE INDEX runs_live ON runs (user_id) WHERE ended_at IS NULL AND status IN ('running', 'cancel_requested');

-- The limits are those of command_wish; the instance that is replaced does not count against its successor, but those that cannot be removed do.
-- rebuilt | sandbox_busy | too_many_instances | provider_changed | sandbox_stale
CREATE FUNCTION sandbox_rebuild(p_provider text, p_instance uuid, p_workspace text, p_stale_ms bigint, p_max_user bigint, p_max_all bigint, o origin)
RETURNS sandbox_answer LANGUAGE plpgsql AS $$
DECLARE
	w command_wish;
	s user_sandboxes := sandbox_lock(o.user_id);
	v_no text := sandbox_refuses(s, p_provider, p_stale_ms, true);
	v_blockers text[] := sandbox_blockers(o.user_id, s);
BEGIN
	IF v_no IS NULL AND cardinality(v_blockers) > 0 THEN
		v_no := 'sandbox_busy';
	END IF;
	w.max_user_instances := p_max_user + CASE WHEN s.instance_id IS NULL THEN 0 ELSE 1 END;
	w.max_all_instances := p_max_all + CASE WHEN s.instance_id IS NULL THEN 0 ELSE 1 END;
	IF v_no IS NULL AND instances_full(w, o.user_id) THEN
		v_no := 'too_many_instances';
	END IF;
	IF v_no IS NULL THEN
		s := sandbox_replace(s, 'rebuilding', p_provider, p_instance, p_workspace, 'rebuild', NULL, o);
	END IF;
	RETURN ROW(coalesce(v_no, 'rebuilt'), s, v_blockers)::sandbox_answer;
END
$$;

-- released | nothing | sandbox_busy | provider_changed | sandbox_stale
CREATE FUNCTION sandbox_release(p_provider text, p_stale_ms bigint, o origin) RETURNS sandbox_answer LANGUAGE plpgsql AS $$
DECLARE
	s user_sandboxes := sandbox_lock(o.user_id);
	v_no text := sandbox_refuses(s, p_provider, p_stale_ms, true);
	v_blockers text[] := sandbox_blockers(o.user_id, s);
BEGIN
	IF s.state IS NULL OR s.state = 'none' THEN
		v_no := 'nothing';
	ELSIF v_no IS NULL AND cardinality(v_blockers) > 0 THEN
		v_no := 'sandbox_busy';
	END IF;
	IF v_no IS NULL THEN
		PERFORM instance_retire(s.instance_id);
		UPDATE user_sandboxes SET state = 'none', previous_id = instance_id, instance_id = NULL, provider_ref = NULL, credential_sealed = NULL,
			op_id = NULL, op_at = clock_timestamp(), lock_version = lock_version + 1, created_at = NULL, keep_until = NULL, error_code = NULL,
			error_message = NULL
		WHERE user_id = s.user_id RETURNING * INTO s;
		PERFORM audit_add(o, 'sandbox.release', s.previous_id::text, 'generation ' || s.generation);
	END IF;
	RETURN ROW(coalesce(v_no, 'released'), s, v_blockers)::sandbox_answer;
END
$$;

-- When it was last of use to somebody.
CREATE FUNCTION sandbox_idle_since(s user_sandboxes) RETURNS timestamptz LANGUAGE plpgsql STABLE AS $$
BEGIN
	RETURN greatest(s.op_at, s.last_activity_at);
END
$$;

-- By its user (p_idle_ms NULL), or because nobody used it for p_idle_ms: then no Run may be active either.
-- pausing | paused | nothing | sandbox_busy | provider_changed | sandbox_stale | sandbox_not_found
CREATE FUNCTION sandbox_pause(p_provider text, p_idle_ms bigint, p_stale_ms bigint, o origin) RETURNS sandbox_answer LANGUAGE plpgsql AS $$
DECLARE
	s user_sandboxes := sandbox_lock(o.user_id);
	v_no text := sandbox_refuses(s, p_provider, p_stale_ms, false);
	v_blockers text[];
BEGIN
	IF s.state IS NULL OR s.state = 'none' THEN
		v_no := 'nothing';
	ELSIF v_no IS NULL AND s.state IN ('paused', 'pausing') THEN
		v_no := s.state;
	ELSIF v_no IS NULL THEN
		v_blockers := sandbox_blockers(o.user_id, s);
		IF p_idle_ms IS NULL THEN
			v_blockers := array_remove(v_blockers, 'active_runs');
		END IF;
		IF cardinality(v_blockers) > 0 OR (p_idle_ms IS NOT NULL AND (s.keep_until > clock_timestamp()
				OR sandbox_idle_since(s) > clock_timestamp() - p_idle_ms * interval '1 ms')) THEN
			v_no := 'sandbox_busy';
		END IF;
	END IF;
	IF v_no IS NULL THEN
		UPDATE user_sandboxes SET state = 'pausing', op_id = gen_random_uuid(), op_at = clock_timestamp(), lock_version = lock_version + 1
		WHERE user_id = s.user_id RETURNING * INTO s;
		PERFORM audit_add(o, 'sandbox.pause', s.instance_id::text, CASE WHEN p_idle_ms IS NULL THEN 'asked' ELSE 'idle' END);
	END IF;
	RETURN ROW(coalesce(v_no, 'pausing'), s, v_blockers)::sandbox_answer;
END
$$;

-- Its idle time-out does not begin before p_ms from now. kept | nothing | sandbox_not_running | provider_changed | sandbox_stale | sandbox_not_found
CREATE FUNCTION sandbox_keep(p_provider text, p_ms bigint, p_stale_ms bigint, o origin) RETURNS sandbox_answer LANGUAGE plpgsql AS $$
DECLARE
	s user_sandboxes := sandbox_lock(o.user_id);
	v_no text := sandbox_refuses(s, p_provider, p_stale_ms, false);
BEGIN
	IF s.state IS NULL OR s.state = 'none' THEN
		v_no := 'nothing';
	ELSIF v_no IS NULL AND s.state <> 'ready' THEN
		v_no := 'sandbox_not_running';
	END IF;
	IF v_no IS NULL THEN
		UPDATE user_sandboxes SET keep_until = greatest(keep_until, clock_timestamp() + p_ms * interval '1 ms'), lock_version = lock_version + 1
		WHERE user_id = s.user_id RETURNING * INTO s;
		PERFORM audit_add(o, 'sandbox.keep_alive', s.instance_id::text, p_ms || ' ms');
	END IF;
	RETURN ROW(coalesce(v_no, 'kept'), s, NULL)::sandbox_answer;
END
$$;

-- --- what executor and provider say ---

-- The present state of a user's instance as the executor knows it: a fact, not a wish. p_version: only when the row is still of that version.
-- Gives the sandbox as it is then; no row when the instance is nobody's present one, or the version has passed.
CREATE FUNCTION sandbox_observe(p_instance uuid, p_version bigint, p_state text, p_ref text, p_running_ms bigint, p_code text, p_message text)
RETURNS SETOF user_sandboxes LANGUAGE plpgsql AS $$
DECLARE
	s user_sandboxes;
	v_user uuid;
	v_to text;
BEGIN
	SELECT user_id INTO v_user FROM instances WHERE id = p_instance AND run_id IS NULL;
	IF NOT FOUND THEN
		RETURN;
	END IF;
	s := sandbox_lock(v_user);
	PERFORM usage_meter(p_instance, coalesce(s.provider, ''), p_running_ms, p_state IN ('ready', 'pausing'));
	IF s.instance_id IS DISTINCT FROM p_instance OR (p_version IS NOT NULL AND s.lock_version <> p_version) THEN
		RETURN;
	END IF;
	v_to := CASE p_state
		WHEN 'ready' THEN 'ready'
		WHEN 'paused' THEN CASE WHEN EXISTS (SELECT 1 FROM sandbox_commands WHERE user_id = v_user AND instance_id = p_instance AND ended_at IS NULL)
			THEN 'waking' ELSE 'paused' END
		WHEN 'failed' THEN 'none'
		WHEN 'lost' THEN 'error'
		WHEN 'gone' THEN 'error'
		ELSE s.state END;
	IF v_to = s.state AND s.op_id IS NOT NULL THEN
		UPDATE user_sandboxes SET op_at = clock_timestamp() WHERE user_id = v_user RETURNING * INTO s;
	ELSIF v_to = 'none' THEN
		PERFORM instance_retire(p_instance);
		UPDATE user_sandboxes SET state = 'none', previous_id = p_instance, instance_id = NULL, provider_ref = NULL, op_id = NULL, op_at = clock_timestamp(),
			lock_version = lock_version + 1, created_at = NULL, error_code = p_code, error_message = p_message
		WHERE user_id = v_user RETURNING * INTO s;
		PERFORM audit_add(own_origin(v_user), 'sandbox.failed', p_instance::text, coalesce(p_code, 'failed'));
	ELSIF v_to <> s.state THEN
		UPDATE user_sandboxes SET state = v_to, provider_ref = coalesce(p_ref, provider_ref),
			op_id = CASE WHEN v_to = 'waking' THEN coalesce(op_id, gen_random_uuid()) END, op_at = clock_timestamp(), lock_version = lock_version + 1,
			error_code = CASE WHEN v_to = 'error' THEN 'sandbox_not_found' END, error_message = CASE WHEN v_to = 'error' THEN p_message END
		WHERE user_id = v_user RETURNING * INTO s;
		IF v_to IN ('error', 'paused') THEN
			PERFORM audit_add(own_origin(v_user), CASE v_to WHEN 'error' THEN 'sandbox.lost' ELSE 'sandbox.paused' END, p_instance::text, coalesce(p_code, 'ok'));
		END IF;
	END IF;
	RETURN NEXT s;
END
$$;

-- The executor has confirmed that nothing of an instance is left.
CREATE FUNCTION instance_gone(p_instance uuid, p_running_ms bigint, p_message text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	v_user uuid;
	v_retired timestamptz;
BEGIN
	PERFORM sandbox_observe(p_instance, NULL, 'gone', NULL, p_running_ms, NULL, p_message);
	DELETE FROM instances WHERE id = p_instance AND run_id IS NULL AND retired_at IS NOT NULL RETURNING user_id, retired_at INTO v_user, v_retired;
	IF FOUND THEN
		PERFORM audit_add(own_origin(v_user), 'sandbox.gone', p_instance::text, 'ok');
	END IF;
END
$$;

-- A destruction that is not confirmed yet. p_why NULL: it is under way. p_stuck: it goes nowhere.
CREATE FUNCTION instance_destroy_later(p_instance uuid, p_why text, p_stuck boolean, p_min_ms bigint, p_max_ms bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	i instances;
BEGIN
	UPDATE instances SET destroy_error = p_why, destroy_tries = CASE WHEN p_why IS NULL THEN destroy_tries ELSE destroy_tries + 1 END,
		destroy_next_at = clock_timestamp() + CASE WHEN p_why IS NULL THEN p_min_ms ELSE least(p_max_ms, p_min_ms * (1::bigint << least(destroy_tries, 20))) END
			* interval '1 ms'
	WHERE id = p_instance AND retired_at IS NOT NULL RETURNING * INTO i;
	IF p_stuck AND i.quarantined_at IS NULL THEN
		UPDATE instances SET quarantined_at = clock_timestamp() WHERE id = p_instance AND retired_at IS NOT NULL;
		IF FOUND THEN
			PERFORM audit_add(own_origin(i.user_id), 'sandbox.quarantine', p_instance::text, coalesce(left(p_why, 200), 'stuck'));
		END IF;
	END IF;
END
$$;

-- An operator takes a sandbox that is of no use out of its user's hands: it is to be destroyed, the next use makes another. quarantined | nothing
CREATE FUNCTION sandbox_quarantine(p_user uuid, o origin) RETURNS sandbox_answer LANGUAGE plpgsql AS $$
DECLARE
	s user_sandboxes := sandbox_lock(p_user);
BEGIN
	IF s.state IS NULL OR s.state = 'none' THEN
		RETURN ROW('nothing', s, NULL)::sandbox_answer;
	END IF;
	PERFORM instance_retire(s.instance_id);
	UPDATE instances SET quarantined_at = clock_timestamp() WHERE id = s.instance_id;
	UPDATE user_sandboxes SET state = 'none', previous_id = instance_id, instance_id = NULL, provider_ref = NULL, credential_sealed = NULL, op_id = NULL,
		op_at = clock_timestamp(), lock_version = lock_version + 1, created_at = NULL, error_code = NULL, error_message = NULL
	WHERE user_id = p_user RETURNING * INTO s;
	PERFORM audit_add(o, 'sandbox.quarantine', s.previous_id::text, 'by an operator');
	RETURN ROW('quarantined', s, NULL)::sandbox_answer;
END
$$;

-- --- commands: as before, in either kind of sandbox ---

CREATE OR REPLACE FUNCTION command_insert(w command_wish, r runs, o origin) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO sandbox_commands (id, run_id, attempt, stage, user_id, instance_id, scope_id, generation, kind, renew, command, argv, cwd, timeout_ms,
		background, actor_id, token_id, request_id, source)
	VALUES (w.id, r.id, r.attempt, w.stage, r.user_id, r.instance_id, r.scope_id,
		CASE WHEN w.provider IS NOT NULL THEN (SELECT generation FROM instances WHERE id = r.instance_id) END, coalesce(w.kind, 'command'),
		w.provider IS NOT NULL AND coalesce(w.renew, false), w.command, w.argv, coalesce(w.cwd, r.workdir), w.timeout_ms, w.background, o.actor_id, o.token_id, o.request_id, o.source);
END
$$;

CREATE FUNCTION command_said(p_result text, w command_wish, r runs, s user_sandboxes) RETURNS command_answer LANGUAGE plpgsql AS $$
BEGIN
	RETURN ROW(p_result, w.id, r.id, r.attempt, r.instance_id, coalesce(w.cwd, r.workdir), r.workdir, w.timeout_ms, false, r.scope_id, s.previous_id,
		w.provider IS NULL OR s.state IN ('creating', 'rebuilding'))::command_answer;
END
$$;

-- What a command's caller was told, once more. replayed
CREATE FUNCTION command_known(p_command uuid) RETURNS command_answer LANGUAGE plpgsql AS $$
DECLARE
	a command_answer;
BEGIN
	SELECT 'replayed', c.id, c.run_id, c.attempt, c.instance_id, c.cwd, r.workdir, c.timeout_ms, c.ended_at IS NOT NULL, c.scope_id, s.previous_id,
		c.generation IS NULL OR coalesce(s.state IN ('creating', 'rebuilding'), false) INTO a
	FROM sandbox_commands c JOIN runs r ON r.id = c.run_id LEFT JOIN user_sandboxes s ON s.instance_id = c.instance_id WHERE c.id = p_command;
	RETURN a;
END
$$;

CREATE OR REPLACE FUNCTION command_replay(p_scope text, p_run uuid, p_key text, p_body bytea, p_user uuid) RETURNS command_answer LANGUAGE plpgsql AS $$
DECLARE
	k idempotency_keys;
	a command_answer;
BEGIN
	SELECT * INTO k FROM idempotency_keys WHERE user_id = p_user AND scope = p_scope AND key = p_key;
	IF NOT FOUND THEN
		RETURN NULL;
	ELSIF k.body_hash <> p_body OR (p_run IS NOT NULL AND k.run_id <> p_run) THEN
		a.result := 'idempotency_mismatch';
		RETURN a;
	END IF;
	RETURN command_known(k.command_id);
END
$$;

-- Takes the Run's attempt into a sandbox: one of its own, or its user's. The caller has locked both and checked what stands against it.
CREATE FUNCTION run_enter(r runs, s user_sandboxes, p_instance uuid, w command_wish) RETURNS runs LANGUAGE plpgsql AS $$
DECLARE
	v_instance uuid := coalesce(s.instance_id, p_instance);
BEGIN
	IF r.instance_id IS NOT DISTINCT FROM v_instance OR (w.provider IS NULL AND r.instance_id IS NOT NULL) THEN
		RETURN r;
	END IF;
	UPDATE runs SET instance_id = v_instance, scope_id = coalesce(scope_id, CASE WHEN w.provider IS NULL THEN v_instance ELSE w.scope END)
	WHERE id = r.id RETURNING * INTO r;
	UPDATE run_attempts SET instance_id = r.instance_id, scope_id = r.scope_id WHERE run_id = r.id AND attempt = r.attempt;
	RETURN r;
END
$$;

-- created | replayed | idempotency_mismatch | not_found | run_ended | lease_lost | lease_required | cleanup_pending | too_many_commands | too_many_instances |
-- stage_timeout | provider_changed | sandbox_stale | sandbox_not_found
CREATE OR REPLACE FUNCTION command_start(p_run uuid, p_hash bytea, p_instance uuid, p_workspace text, w command_wish, p_key text, p_body bytea, o origin)
RETURNS command_answer LANGUAGE plpgsql AS $$
DECLARE
	r runs;
	s user_sandboxes;
	a command_answer;
	v_no text;
BEGIN
	IF p_key IS NOT NULL THEN
		a := command_replay('command', p_run, p_key, p_body, o.user_id);
		IF a.result IS NOT NULL THEN
			RETURN a;
		END IF;
	END IF;
	IF w.provider IS NOT NULL THEN
		s := sandbox_lock(o.user_id);
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
		IF w.timeout_ms < 10 THEN   -- clocks count in milliseconds: a stage that ended by its time may seem to have one or two left
			v_no := 'stage_timeout';
		END IF;
	END IF;
	-- It is at work in a sandbox of the other kind: there is no way from one into the other.
	IF v_no IS NULL AND r.instance_id IS NOT NULL AND (w.provider IS NULL) <> (r.scope_id = r.instance_id) THEN
		v_no := 'provider_changed';
	END IF;
	IF v_no IS NULL AND w.provider IS NOT NULL THEN
		v_no := sandbox_refuses(s, w.provider, w.stale_ms, w.renew);
	END IF;
	IF v_no IS NULL AND s.instance_id IS NULL AND (w.provider IS NOT NULL OR r.instance_id IS NULL) AND instances_full(w, r.user_id) THEN
		v_no := 'too_many_instances';
	END IF;
	IF v_no IS NOT NULL THEN
		a.result := v_no;
		a.instance_id := s.instance_id;
		RETURN a;
	END IF;
	IF r.status = 'pending' THEN
		r := run_begin(r.id, NULL, NULL, NULL, NULL);
	END IF;
	IF w.provider IS NOT NULL THEN
		s := sandbox_use(s, w.provider, p_instance, p_workspace, 'agent_run', r.id, o);
	ELSIF r.instance_id IS NULL THEN
		INSERT INTO instances (id, run_id, attempt, user_id, workspace) VALUES (p_instance, r.id, r.attempt, r.user_id, p_workspace);
	END IF;
	r := run_enter(r, s, p_instance, w);
	PERFORM command_insert(w, r, o);
	IF p_key IS NOT NULL THEN
		INSERT INTO idempotency_keys (user_id, scope, key, body_hash, run_id, command_id) VALUES (o.user_id, 'command', p_key, p_body, r.id, w.id);
	END IF;
	RETURN command_said('created', w, r, s);
END
$$;

-- created | replayed | idempotency_mismatch | too_many_commands | too_many_instances | provider_changed | sandbox_stale | sandbox_not_found
CREATE OR REPLACE FUNCTION execute_start(p_run uuid, p_instance uuid, p_workspace text, p_backend text, p_workdir text, p_timeout bigint, w command_wish,
	p_key text, p_body bytea, o origin) RETURNS command_answer LANGUAGE plpgsql AS $$
DECLARE
	r runs;
	s user_sandboxes;
	a command_answer;
	v_now timestamptz := clock_timestamp();
BEGIN
	IF p_key IS NOT NULL THEN
		a := command_replay('execute', NULL, p_key, p_body, o.user_id);
		IF a.result IS NOT NULL THEN
			RETURN a;
		END IF;
	END IF;
	IF w.provider IS NOT NULL THEN
		s := sandbox_lock(o.user_id);
		a.result := sandbox_refuses(s, w.provider, w.stale_ms, w.renew);
		a.instance_id := s.instance_id;
	END IF;
	IF a.result IS NOT NULL THEN
		RETURN a;
	ELSIF commands_full(w, o.user_id, p_run) THEN
		a.result := 'too_many_commands';
		RETURN a;
	ELSIF s.instance_id IS NULL AND instances_full(w, o.user_id) THEN
		a.result := 'too_many_instances';
		RETURN a;
	END IF;
	INSERT INTO runs (id, user_id, thread_id, status, oneshot, attempt, max_attempts, backend, workdir, timeout_ms, started_at, deadline_at,
		instance_id, scope_id)
	VALUES (p_run, o.user_id, p_run::text, 'running', true, 1, 1, p_backend, p_workdir, p_timeout, v_now, v_now + p_timeout * interval '1 ms',
		CASE WHEN w.provider IS NULL THEN p_instance END, CASE WHEN w.provider IS NULL THEN p_instance END)
	RETURNING * INTO r;
	INSERT INTO run_attempts (run_id, attempt, instance_id, scope_id) VALUES (p_run, 1, r.instance_id, r.scope_id);
	IF w.provider IS NOT NULL THEN
		s := sandbox_use(s, w.provider, p_instance, p_workspace, usage_reason(w.kind, true), p_run, o);
		r := run_enter(r, s, p_instance, w);
	ELSE
		INSERT INTO instances (id, run_id, attempt, user_id, workspace) VALUES (p_instance, p_run, 1, o.user_id, p_workspace);
	END IF;
	PERFORM command_insert(w, r, o);
	IF p_key IS NOT NULL THEN
		INSERT INTO idempotency_keys (user_id, scope, key, body_hash, run_id, command_id) VALUES (o.user_id, 'execute', p_key, p_body, p_run, w.id);
	END IF;
	RETURN command_said('created', w, r, s);
END
$$;

CREATE FUNCTION usage_reason(p_kind text, p_oneshot boolean) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	RETURN CASE WHEN NOT p_oneshot THEN 'agent_run' WHEN p_kind = 'file' THEN 'file_operation' WHEN p_kind = 'verify' THEN 'verify' ELSE 'execute' END;
END
$$;

-- The command was not started because its sandbox is no more, and its caller wants it to be replaced: a second row, in another instance, generation + 1
-- (unless somebody has replaced it meanwhile). Once: who comes later is told of the second one. w.id is the new command's.
-- created | replayed | not_found | run_ended | lease_lost | provider_changed | sandbox_stale
CREATE FUNCTION command_again(p_first uuid, p_instance uuid, p_workspace text, w command_wish, o origin) RETURNS command_answer LANGUAGE plpgsql AS $$
DECLARE
	c sandbox_commands;
	r runs;
	s user_sandboxes := sandbox_lock(o.user_id);
	a command_answer;
	v_reason text;
BEGIN
	SELECT * INTO c FROM sandbox_commands WHERE id = p_first AND user_id = o.user_id FOR NO KEY UPDATE;
	IF c.again_id IS NOT NULL THEN
		RETURN command_known(c.again_id);
	END IF;
	SELECT * INTO r FROM runs WHERE id = c.run_id FOR NO KEY UPDATE;
	a.result := CASE WHEN r.id IS NULL THEN 'not_found' WHEN r.ended_at IS NOT NULL OR r.status <> 'running' THEN 'run_ended'
		WHEN r.attempt <> c.attempt THEN 'lease_lost' ELSE sandbox_refuses(s, w.provider, w.stale_ms, true) END;
	IF a.result IS NOT NULL THEN
		a.instance_id := s.instance_id;
		RETURN a;
	END IF;
	UPDATE sandbox_commands SET status = 'exited', reason = 'not_started', ended_at = clock_timestamp(), error_code = 'sandbox_not_found',
		error_message = 'the sandbox no longer exists'
	WHERE id = p_first AND ended_at IS NULL;
	UPDATE sandbox_commands SET again_id = w.id WHERE id = p_first;
	v_reason := usage_reason(c.kind, r.oneshot);
	IF s.instance_id = c.instance_id THEN
		s := sandbox_replace(s, 'creating', w.provider, p_instance, p_workspace, v_reason, r.id, o);
	ELSE
		s := sandbox_use(s, w.provider, p_instance, p_workspace, v_reason, r.id, o);
	END IF;
	r := run_enter(r, s, p_instance, w);
	w.command := c.command;
	w.argv := c.argv;
	w.cwd := c.cwd;
	w.timeout_ms := c.timeout_ms;
	w.background := c.background;
	w.stage := c.stage;
	w.kind := c.kind;
	w.renew := false;
	PERFORM command_insert(w, r, o);
	UPDATE idempotency_keys SET command_id = w.id WHERE command_id = p_first;
	RETURN command_said('created', w, r, s);
END
$$;

-- As before; but an end that only says that the sandbox is no more waits for the caller who will have the command started again, as long as he may
-- still come: it would be the end of a one-shot Run. When he does not come the end is taken with those of open commands that nobody reports.
CREATE FUNCTION command_waits(c sandbox_commands, p_code text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	RETURN p_code IS NOT DISTINCT FROM 'sandbox_not_found' AND c.ended_at IS NULL AND c.created_at > clock_timestamp() - interval '30 s'
		AND EXISTS (SELECT 1 FROM runs WHERE id = c.run_id AND status = 'running' AND oneshot);
END
$$;

CREATE OR REPLACE FUNCTION commands_record(p_items json, p_out bytea[], p_err bytea[]) RETURNS TABLE (what text, id uuid) LANGUAGE plpgsql
	SET plan_cache_mode = force_generic_plan AS $$
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
			AND NOT (c.renew AND command_waits(c, x.error_code))
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

-- The resources of the Run's attempt are released: its own instance is gone (p_instance), or nothing of its scope is left in its user's (p_scope).
-- p_running_ms: how long an instance of its own ran, unless its last report has said more: the executor tells it no longer once that is acknowledged. true when the duty is cleared (or was already).
DROP FUNCTION cleanup_confirm(uuid, uuid);
CREATE FUNCTION cleanup_confirm(p_run uuid, p_instance uuid, p_scope uuid, p_running_ms bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	r runs;
	v_reported bigint;
BEGIN
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
		INSERT INTO sb_usage_total AS t (user_id, ms) VALUES (r.user_id, p_running_ms) ON CONFLICT (user_id) DO UPDATE SET ms = t.ms + p_running_ms;
	END IF;
	UPDATE runs SET cleanup_pending = false, cleanup_next_at = NULL, cleanup_error = NULL, instance_id = NULL, scope_id = NULL WHERE id = p_run;
	RETURN true;
END
$$;

-- A Run whose attempt has an instance of its own; a user's instance that is lost ends no Run.
CREATE OR REPLACE FUNCTION instance_lost(p_instance uuid, p_code text, p_message text) RETURNS SETOF uuid LANGUAGE plpgsql AS $$
DECLARE
	v_run uuid;
BEGIN
	SELECT r.id INTO v_run FROM instances i JOIN runs r ON r.id = i.run_id
	WHERE i.id = p_instance AND i.run_id IS NOT NULL AND r.instance_id = i.id AND r.status IN ('running', 'cancel_requested') FOR NO KEY UPDATE OF r;
	IF FOUND THEN
		PERFORM run_attempt_lost(v_run, p_code, p_message);
		RETURN NEXT v_run;
	END IF;
END
$$;

GRANT UPDATE (command_id) ON idempotency_keys TO paddock_api;
GRANT SELECT, INSERT, UPDATE ON user_sandboxes, sb_usage_log, sb_usage_total TO paddock_api;
GRANT SELECT (user_id, provider, state, generation, instance_id, previous_id, provider_ref, op_id, op_at, lock_version, created_at, last_activity_at, kept_at,
	keep_until, error_code, error_message) ON user_sandboxes TO paddock_read;
GRANT SELECT ON sb_container, sb_usage_log, sb_usage_total TO paddock_read, paddock_api;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO paddock_api;

-- Readers see no secret's hash, a lease's neither.
REVOKE SELECT ON runs FROM paddock_read;
GRANT SELECT (id, user_id, thread_id, status, oneshot, attempt, max_attempts, backend, project_id, workdir, input, metadata, timeout_ms, lease_owner,
	lease_expires_at, instance_id, scope_id, cleanup_pending, cleanup_next_at, cleanup_tries, cleanup_error, error_code, error_message, created_at, started_at,
	deadline_at, cancel_requested_at, ended_at, successor_id) ON runs TO paddock_read;
