-- A user's sandbox: one owner, one truth, no forgotten duty, and its hours (R2.1, R2.5, R2.6, R3.1-R3.9, R5.5).
BEGIN;
SELECT no_plan();

INSERT INTO users (id, name) VALUES ('00000000-0000-7000-8000-000000000001', 'ann'), ('00000000-0000-7000-8000-000000000002', 'bob');
CREATE FUNCTION pg_temp.ann() RETURNS origin LANGUAGE sql AS $$ SELECT ROW('00000000-0000-7000-8000-000000000001', '00000000-0000-7000-8000-000000000001', NULL, 'r', NULL)::origin $$;
CREATE FUNCTION pg_temp.n(n integer) RETURNS uuid LANGUAGE sql AS $$ SELECT ('00000000-0000-7000-9000-' || lpad(n::text, 12, '0'))::uuid $$;
CREATE FUNCTION pg_temp.wish(cmd integer, renew boolean DEFAULT false, provider text DEFAULT 'host', kind text DEFAULT NULL) RETURNS command_wish LANGUAGE sql AS $$
	SELECT ROW(pg_temp.n(cmd), 'true', NULL, NULL, 1000, false, 10, 100, 100, NULL, NULL, 100, 100, pg_temp.n(cmd + 500), kind, provider, 25000, renew)::command_wish $$;
CREATE FUNCTION pg_temp.run(run integer, thread text DEFAULT 't') RETURNS text LANGUAGE sql AS $$
	SELECT (run_create(pg_temp.n(run), thread, 'host', '/home/user/workspace', NULL, NULL, 60000, 2, NULL, NULL, NULL, NULL, NULL, NULL, pg_temp.ann())).result $$;
CREATE FUNCTION pg_temp.go(run integer, cmd integer, inst integer, renew boolean DEFAULT false, provider text DEFAULT 'host') RETURNS command_answer LANGUAGE sql AS $$
	SELECT command_start(pg_temp.n(run), NULL, pg_temp.n(inst), 'ann', pg_temp.wish(cmd, renew, provider), NULL, NULL, pg_temp.ann()) $$;
CREATE FUNCTION pg_temp.state() RETURNS text LANGUAGE sql AS $$ SELECT state || ' ' || generation FROM user_sandboxes $$;
CREATE FUNCTION pg_temp.seen(inst integer, state text, ms bigint DEFAULT 0, v bigint DEFAULT NULL) RETURNS bigint LANGUAGE sql AS $$
	SELECT count(*) FROM sandbox_observe(pg_temp.n(inst), v, state, NULL, ms, NULL, NULL) $$;
CREATE FUNCTION pg_temp.ended(cmd integer) RETURNS bigint LANGUAGE sql AS $$
	SELECT count(*) FROM commands_record(json_build_array(json_build_object('id', pg_temp.n(cmd), 'status', 'exited', 'reason', 'exited', 'exit_code', 0)),
		ARRAY[NULL::bytea], ARRAY[NULL::bytea]) $$;
CREATE FUNCTION pg_temp.later(what interval) RETURNS void LANGUAGE sql AS $$
	UPDATE user_sandboxes SET op_at = op_at - what, last_activity_at = last_activity_at - what, keep_until = keep_until - what $$;

-- first use
SELECT is(pg_temp.run(1), 'created', 'a Run');
SELECT is((pg_temp.go(1, 101, 11)).result, 'created', 'its first command');
SELECT is(pg_temp.state(), 'creating 1', 'makes the sandbox');
SELECT is((SELECT fresh FROM pg_temp.go(1, 102, 12)), true, 'a second one goes to the same, which is still to be made');
SELECT is((SELECT count(DISTINCT instance_id)::int FROM sandbox_commands), 1, 'one instance');
SELECT is((SELECT count(*)::int FROM instances), 1, 'one row in the ledger');
SELECT is((SELECT scope_id FROM runs WHERE id = pg_temp.n(1)), pg_temp.n(601), 'the attempt has a scope of its own');
SELECT is((SELECT sandbox_id || ':' || status || ':' || type FROM sb_container), ':creating:local', 'the view, while it is made');
SELECT is(pg_temp.seen(11, 'creating'), 1::bigint, 'progress');
SELECT is(pg_temp.seen(12, 'ready'), 0::bigint, 'what was never ours is not taken');
SELECT is(pg_temp.seen(11, 'ready', 0), 1::bigint, 'ready');
SELECT is(pg_temp.state(), 'ready 1', 'is ready');
SELECT ok((SELECT running_at IS NOT NULL FROM user_sandboxes), 'and runs');
SELECT is((SELECT status || ':' || paused FROM sb_container), 'ready:false', 'the view, when it is ready');
SELECT is((pg_temp.go(1, 103, 13)).fresh, false, 'no one is told to make it again');

-- what stands against replacing it
CREATE FUNCTION pg_temp.rebuild(inst integer, max bigint DEFAULT 100) RETURNS text LANGUAGE sql AS $$
	SELECT x.result || ' ' || array_to_string(x.blockers, ',') FROM sandbox_rebuild('host', pg_temp.n(inst), 'ann', 25000, max, 100, pg_temp.ann()) x $$;
CREATE FUNCTION pg_temp.pause(idle bigint DEFAULT NULL) RETURNS text LANGUAGE sql AS $$ SELECT (sandbox_pause('host', idle, 25000, pg_temp.ann())).result $$;
SELECT is(pg_temp.rebuild(20), 'sandbox_busy active_runs,active_operations', 'a Run and its commands');
SELECT is(pg_temp.pause(), 'sandbox_busy', 'commands keep it awake');
SELECT pg_temp.ended(c) FROM unnest(ARRAY[101, 102, 103]) c;
SELECT is(pg_temp.rebuild(20), 'sandbox_busy active_runs', 'a Run');
SELECT is(pg_temp.pause(0), 'sandbox_busy', 'an active Run keeps it from idle pause');
SELECT is((run_finish(pg_temp.n(1), NULL, 'completed', NULL, NULL, pg_temp.ann())).result, 'finished', 'the Run ends');
SELECT is(pg_temp.rebuild(20), 'sandbox_busy cleanup_pending', 'clean-up');
SELECT is(pg_temp.pause(), 'sandbox_busy', 'clean-up keeps it awake');
SELECT is(cleanup_confirm(pg_temp.n(1), pg_temp.n(11), pg_temp.n(999), 0), false, 'another scope confirms nothing');
SELECT is(cleanup_confirm(pg_temp.n(1), pg_temp.n(11), pg_temp.n(601), 0), true, 'its own does');
SELECT is((SELECT count(*)::int FROM instances), 1, 'and leaves the sandbox alone');
SELECT is((SELECT count(*)::int FROM sb_usage_log), 1, 'and counts nothing twice');

-- pause and wake
SELECT is(pg_temp.pause(1000), 'sandbox_busy', 'not idle for long enough');
SELECT pg_temp.later('2 s');
SELECT is(pg_temp.pause(1000), 'pausing', 'idle');
SELECT is(pg_temp.pause(), 'pausing', 'asked again');
UPDATE sb_usage_log SET started_at = started_at - interval '1 h' WHERE ended_at IS NULL;
SELECT is(pg_temp.seen(11, 'paused', 7000), 1::bigint, 'paused');
SELECT is((SELECT ended_at - started_at FROM sb_usage_log), interval '7 s', 'a stretch is as long as it ran');
SELECT is(pg_temp.state(), 'paused 1', 'is paused');
SELECT ok((SELECT running_at IS NULL FROM user_sandboxes), 'and does not run');
SELECT is((SELECT usage_ms::int FROM user_sandboxes), 7000, 'it ran for 7 s');
SELECT is(pg_temp.seen(11, 'paused', 7000), 1::bigint, 'told twice');
SELECT is((SELECT usage_ms::int FROM user_sandboxes), 7000, 'counted once');
SELECT is((SELECT status || ':' || paused FROM sb_container), 'ready:true', 'the view, when it is paused');
SELECT is((SELECT row_to_json(v)::jsonb - 'last_activity_at' - 'lock_version' FROM sb_container v), jsonb_build_object('username', 'ann', 'sandbox_id', pg_temp.n(11), 'status', 'ready',
	'paused', true, 'type', 'local', 'total_usage_seconds', 7), 'all of it, in seconds');
SELECT is((SELECT v.lock_version = s.lock_version AND v.last_activity_at IS NOT DISTINCT FROM s.last_activity_at FROM sb_container v, user_sandboxes s), true, 'and as the row has it');
SELECT is((SELECT (sandbox_keep('host', 1000, 25000, pg_temp.ann())).result), 'sandbox_not_running', 'nothing to keep alive');
SELECT is(pg_temp.run(2, 'u'), 'created', 'another Run');
SELECT is((pg_temp.go(2, 201, 21)).result, 'created', 'its command');
SELECT is(pg_temp.state(), 'waking 1', 'wakes the same instance');
SELECT is((SELECT status || ':' || paused FROM sb_container), 'ready:true', 'the view, while it is woken');
SELECT is(pg_temp.seen(11, 'paused', 7000), 1::bigint, 'an old report comes late');
SELECT is(pg_temp.state(), 'waking 1', 'and changes nothing: a command is on its way');
SELECT is(pg_temp.seen(11, 'ready', 7000), 1::bigint, 'awake');
SELECT is(pg_temp.seen(11, 'paused', 9000), 1::bigint, 'it pauses by itself while a command is open');
SELECT is(pg_temp.state(), 'waking 1', 'it will be woken');
SELECT pg_temp.ended(201);
SELECT is(pg_temp.seen(11, 'ready', 9000), 1::bigint, 'awake');
SELECT is((SELECT sum(ms)::int FROM sb_usage_log), 9000, 'stretches add up to the count');
SELECT is((SELECT string_agg(reason, ',' ORDER BY id) FROM sb_usage_log), 'agent_run,agent_run,agent_run', 'used by Runs');
SELECT is((SELECT string_agg(run_id::text, ',' ORDER BY id) FROM sb_usage_log), concat_ws(',', pg_temp.n(1), pg_temp.n(2), pg_temp.n(2)), 'each with its Run');

-- a stretch goes over to another Run; our own clock may have run ahead of the executor's count
SELECT is(pg_temp.run(3, 'v'), 'created', 'a third Run');
UPDATE instances SET usage_at = usage_at - interval '5 s';
UPDATE sandbox_commands SET ended_at = NULL, status = 'running', reason = NULL WHERE id = pg_temp.n(201);
SELECT is((pg_temp.go(3, 302, 31)).result, 'created', 'its command');
SELECT is((SELECT count(*)::int FROM sb_usage_log WHERE ended_at IS NULL AND run_id = pg_temp.n(2)), 1, 'the time stays with the Run whose command runs');
SELECT pg_temp.ended(c) FROM unnest(ARRAY[201, 302]) c;
SELECT is((pg_temp.go(3, 301, 31)).result, 'created', 'another one');
SELECT is((SELECT count(*)::int FROM sb_usage_log WHERE ended_at IS NULL AND run_id = pg_temp.n(3)), 1, 'the time is now its');
SELECT ok((SELECT usage_ms BETWEEN 14000 AND 15000 FROM user_sandboxes), 'what was not counted yet is estimated');
SELECT is(pg_temp.seen(11, 'ready', 10000), 1::bigint, 'the count comes');
SELECT is((SELECT usage_ms::int FROM user_sandboxes), 10000, 'and is what holds');
SELECT is((SELECT sum(ms)::int FROM sb_usage_log), 10000, 'for the stretches, too');

-- keep-alive
SELECT is((SELECT (sandbox_keep('host', 60000, 25000, pg_temp.ann())).result), 'kept', 'kept alive');
SELECT is((SELECT (sandbox_keep('host', 1, 25000, pg_temp.ann())).result), 'kept', 'for less');
SELECT ok((SELECT keep_until > clock_timestamp() + interval '50 s' FROM user_sandboxes), 'shortens nothing');
SELECT pg_temp.ended(301);
SELECT (run_finish(pg_temp.n(r), NULL, 'completed', NULL, NULL, pg_temp.ann())).result FROM unnest(ARRAY[2, 3]) r;
SELECT cleanup_confirm(id, instance_id, scope_id, 0) FROM runs WHERE cleanup_pending;
SELECT is(pg_temp.pause(1000), 'sandbox_busy', 'no idle pause before its time');
SELECT pg_temp.later('70 s');

-- rebuild
SELECT is(pg_temp.rebuild(40, 0), 'too_many_instances ', 'no more than there may be');
UPDATE instances SET usage_at = usage_at - interval '5 s';
SELECT is(pg_temp.rebuild(40, 1), 'rebuilt ', 'at rest, in the place of the one that there is');
SELECT ok((SELECT usage_ms BETWEEN 15000 AND 16000 FROM user_sandboxes), 'its time up to now counts, the executor''s count is still to come');
SELECT is(pg_temp.state(), 'rebuilding 2', 'generation + 1');
SELECT is((SELECT sandbox_id || ':' || status || ':' || paused FROM sb_container), ':creating:false', 'the view, while it is replaced');
SELECT is((SELECT previous_id FROM user_sandboxes), pg_temp.n(11), 'what was before is named');
SELECT is((SELECT ROW(last_activity_at, kept_at, keep_until, error_code)::text FROM user_sandboxes), '(,,,)', 'and nothing else of it holds for the new one');
SELECT is((SELECT count(*)::int FROM instances WHERE retired_at IS NOT NULL AND id = pg_temp.n(11)), 1, 'and is to be destroyed');
SELECT is(pg_temp.rebuild(41), 'sandbox_busy operation_in_progress', 'one at a time');
SELECT is(pg_temp.seen(11, 'ready', 10500), 0::bigint, 'the old one no longer speaks for the user');
SELECT is(pg_temp.state(), 'rebuilding 2', 'as before');
SELECT pg_temp.seen(11, 'paused', 10500);
SELECT pg_temp.seen(11, 'ready', 10500);
SELECT ok((SELECT usage_ms = 10500 AND running_at IS NULL FROM user_sandboxes), 'what it says of itself counts, and says nothing of the new one');
SELECT instance_destroy_later(pg_temp.n(11), 'it does not answer', true, 100, 1000);
SELECT ok((SELECT quarantined_at IS NOT NULL AND destroy_tries = 1 FROM instances WHERE id = pg_temp.n(11)), 'what cannot be removed is put aside');
SELECT instance_destroy_later(pg_temp.n(11), 'nor now', true, 10000, 60000);
SELECT ok((SELECT destroy_next_at BETWEEN clock_timestamp() + interval '19 s' AND clock_timestamp() + interval '20 s' FROM instances WHERE id = pg_temp.n(11)), 'tried again, each time later');
SELECT instance_destroy_later(pg_temp.n(11), 'nor now', true, 100000, 60000);
SELECT ok((SELECT destroy_next_at < clock_timestamp() + interval '61 s' FROM instances WHERE id = pg_temp.n(11)), 'but not for ever later');
SELECT instance_destroy_later(pg_temp.n(11), NULL, false, 1000, 60000);
SELECT is((SELECT ROW(destroy_tries, destroy_error)::text FROM instances WHERE id = pg_temp.n(11)), '(3,)', 'what is under way is no failure');
SELECT is((SELECT count(*)::int FROM audit WHERE action = 'sandbox.quarantine'), 1, 'put aside once');
SELECT is((SELECT count(*) FROM sandbox_observe(pg_temp.n(11), NULL, 'destroying', NULL, NULL, NULL, NULL)), 0::bigint, 'a count that is not known');
SELECT is((SELECT usage_ms::int FROM user_sandboxes), 10500, 'takes nothing back');
SELECT instance_gone(pg_temp.n(11), 11000, NULL);
SELECT is((SELECT count(*)::int FROM instances WHERE id = pg_temp.n(11)), 0, 'gone after all');
SELECT is((SELECT usage_ms::int FROM user_sandboxes), 11000, 'its last second counts');
SELECT is((SELECT count(*)::int FROM sb_usage_log WHERE ended_at IS NULL), 0, 'and no stretch is open');
SELECT is(pg_temp.seen(40, 'ready', 0), 1::bigint, 'the new one is ready');

-- stale operations, and the compare-and-swap
SELECT pg_temp.later('1 h');
SELECT is(pg_temp.pause(1000), 'pausing', 'a pause begins');
SELECT pg_temp.later('30 s');
SELECT is(pg_temp.run(5, 'w'), 'created', 'a Run');
SELECT is((pg_temp.go(5, 501, 51)).result, 'sandbox_stale', 'no progress: somebody has to ask first');
SELECT is(pg_temp.seen(40, 'pausing', 0, (SELECT lock_version - 1 FROM user_sandboxes)), 0::bigint, 'who read an older version loses');
SELECT is(pg_temp.seen(40, 'pausing', 0, (SELECT lock_version FROM user_sandboxes)), 1::bigint, 'still at it: renewed');
SELECT is((pg_temp.go(5, 501, 51)).result, 'created', 'and on it goes');
SELECT is(pg_temp.seen(40, 'ready', 0), 1::bigint, 'awake');

-- lost: explicit, never replaced in silence
SELECT is(pg_temp.seen(40, 'lost', 0), 1::bigint, 'it vanished');
SELECT is(pg_temp.state(), 'error 2', 'an error');
SELECT is((SELECT sandbox_id || ':' || status FROM sb_container), pg_temp.n(40) || ':error', 'the view, when it is lost');
SELECT is((pg_temp.go(5, 502, 52)).result, 'sandbox_not_found', 'a command is refused');
SELECT is((SELECT status FROM runs WHERE id = pg_temp.n(5)), 'running', 'the Run goes on');
SELECT is((SELECT (command_again(pg_temp.n(501), pg_temp.n(53), 'ann', pg_temp.wish(503), pg_temp.ann())).result), 'created', 'with_sandbox: once more');
SELECT is(pg_temp.state(), 'creating 3', 'in a new one');
SELECT is((SELECT reason || ' ' || error_code FROM sandbox_commands WHERE id = pg_temp.n(501)), 'not_started sandbox_not_found', 'the first row stays');
SELECT is((SELECT generation::int FROM sandbox_commands WHERE id = pg_temp.n(503)), 3, 'the second has the new generation');
SELECT is((SELECT instance_id FROM runs WHERE id = pg_temp.n(5)), pg_temp.n(53), 'the Run has moved');
SELECT is((SELECT scope_id FROM runs WHERE id = pg_temp.n(5)), pg_temp.n(1001), 'with its scope');
SELECT is((pg_temp.go(5, 504, 54, false, 'e2b')).result, 'provider_changed', 'another provider keeps its hands off');

-- a creation that failed
SELECT is((SELECT count(*) FROM sandbox_observe(pg_temp.n(53), NULL, 'failed', NULL, 0, 'no_image', 'no image')), 1::bigint, 'it failed');
SELECT is(pg_temp.state(), 'none 3', 'there is none');
SELECT is((SELECT count(*)::int FROM sb_container), 0, 'nor in the view');
SELECT is((SELECT error_code FROM user_sandboxes), 'no_image', 'and why');
SELECT is((pg_temp.go(5, 505, 55)).previous_id, pg_temp.n(53), 'the next one waits until nothing of it is left');
SELECT is(pg_temp.state(), 'creating 4', 'the generation never falls');
SELECT is((SELECT (sandbox_quarantine('00000000-0000-7000-8000-000000000001', pg_temp.ann())).result), 'quarantined', 'an operator puts it aside');
SELECT ok((SELECT quarantined_at IS NOT NULL AND destroy_next_at <= clock_timestamp() FROM instances ORDER BY created_at DESC LIMIT 1), 'in sight, and to be destroyed at once');
SELECT is(pg_temp.state(), 'none 4', 'out of its user''s hands');
SELECT is((SELECT (sandbox_release('host', 25000, pg_temp.ann())).result), 'nothing', 'nothing to release');
SELECT throws_ok($$INSERT INTO instances (id, user_id, workspace, generation) SELECT gen_random_uuid(), '00000000-0000-7000-8000-000000000002', 'bob', 1 FROM generate_series(1, 2)$$,
	'23505', NULL, 'two at once are impossible');
SELECT is((SELECT string_agg(DISTINCT action, ',' ORDER BY action) FROM audit WHERE action LIKE 'sandbox.%'),
	'sandbox.create,sandbox.failed,sandbox.gone,sandbox.keep_alive,sandbox.lost,sandbox.pause,sandbox.paused,sandbox.quarantine,sandbox.rebuild,sandbox.wake', 'all of it is on record');

-- what time was used for
SELECT is((SELECT string_agg(usage_reason(k, o), ' ' ORDER BY k, o) FROM unnest(ARRAY['command', 'file', 'verify']) k, unnest(ARRAY[false, true]) o),
	'agent_run execute agent_run file_operation agent_run verify', 'each kind has its reason');

-- with_sandbox: once, whoever asks how often; and the end that says why does not end the Run first
CREATE FUNCTION pg_temp.execute(run integer, cmd integer, inst integer) RETURNS command_answer LANGUAGE sql AS $$
	SELECT execute_start(pg_temp.n(run), pg_temp.n(inst), 'ann', 'host', '/home/user/workspace', 60000, pg_temp.wish(cmd, true), 'k', 'b', pg_temp.ann()) $$;
CREATE FUNCTION pg_temp.again(cmd integer, other integer, inst integer) RETURNS text LANGUAGE sql AS $$
	SELECT x.result || coalesce(' ' || x.command_id, '') FROM command_again(pg_temp.n(cmd), pg_temp.n(inst), 'ann', pg_temp.wish(other, true), pg_temp.ann()) x $$;
CREATE FUNCTION pg_temp.missing(cmd integer) RETURNS bigint LANGUAGE sql AS $$
	SELECT count(*) FROM commands_record(json_build_array(json_build_object('id', pg_temp.n(cmd), 'status', 'exited', 'reason', 'not_started',
		'error_code', 'sandbox_not_found')), ARRAY[NULL::bytea], ARRAY[NULL::bytea]) $$;
SELECT is((pg_temp.execute(6, 601, 61)).result, 'created', 'a command that wants its sandbox');
SELECT is(pg_temp.missing(601), 0::bigint, 'a janitor hears that the sandbox is no more');
SELECT is((SELECT status FROM runs WHERE id = pg_temp.n(6)), 'running', 'the Run is not over: its caller is about to come');
SELECT is(pg_temp.again(601, 602, 62), 'created ' || pg_temp.n(602), 'and comes');
SELECT is(pg_temp.again(601, 603, 63), 'replayed ' || pg_temp.n(602), 'who asks with the same key at the same time starts nothing');
SELECT is((SELECT count(*)::int FROM sandbox_commands WHERE run_id = pg_temp.n(6)), 2, 'two rows');
SELECT is((pg_temp.execute(7, 604, 64)).command_id, pg_temp.n(602), 'the key stands for the second');
SELECT is(pg_temp.missing(602), 1::bigint, 'the second is not replaced');
SELECT is((SELECT status || ' ' || error_code FROM runs WHERE id = pg_temp.n(6)), 'failed command_not_started', 'it ends the Run');
DELETE FROM idempotency_keys;
SELECT is((pg_temp.execute(8, 605, 65)).result, 'created', 'another, whose caller dies');
UPDATE sandbox_commands SET created_at = created_at - interval '31 s' WHERE id = pg_temp.n(605);
SELECT is(pg_temp.missing(605), 1::bigint, 'nobody is waited for without end');
SELECT is(pg_temp.again(605, 606, 66), 'run_ended', 'too late');
DELETE FROM idempotency_keys;
SELECT is((pg_temp.execute(11, 609, 69)).result, 'created', 'one more');
SELECT is(pg_temp.ended(609), 1::bigint, 'that ends as commands do');
SELECT is((SELECT status FROM runs WHERE id = pg_temp.n(11)), 'completed', 'is waited for by nobody');
SELECT is(pg_temp.run(9, 'x'), 'created', 'a Run');
SELECT is((pg_temp.go(9, 607, 67, true)).result, 'created', 'with a command');
UPDATE runs SET attempt = 2 WHERE id = pg_temp.n(9);
SELECT is(pg_temp.again(607, 608, 68), 'lease_lost', 'of an attempt that is over nothing is started again');

-- the backend changes under a Run: sandboxes of one kind are not gone on with in the other
CREATE FUNCTION pg_temp.enter(run integer, cmd integer, inst integer, provider text) RETURNS text LANGUAGE sql AS $$
	SELECT (pg_temp.go(run, cmd, inst, false, provider)).result $$;
SELECT is(pg_temp.run(10, 'y'), 'created', 'a Run');
SELECT is(pg_temp.enter(10, 701, 71, NULL), 'created', 'in a container of its own');
SELECT is(pg_temp.enter(10, 702, 72, 'host'), 'provider_changed', 'does not leave it behind');
SELECT is((SELECT instance_id FROM runs WHERE id = pg_temp.n(10)), pg_temp.n(71), 'its duty is still named');
SELECT is(pg_temp.enter(9, 703, 73, NULL), 'provider_changed', 'nor is a container made in the place of a user''s sandbox');

-- a container's time is told until its last report is acknowledged, which may be before its Run's clean-up is confirmed
SELECT pg_temp.ended(701);
SELECT is((run_finish(pg_temp.n(10), NULL, 'completed', NULL, NULL, pg_temp.ann())).result, 'finished', 'the Run ends');
UPDATE instances SET usage_ms = 4000 WHERE id = pg_temp.n(71);
SELECT is(cleanup_confirm(pg_temp.n(10), pg_temp.n(71), pg_temp.n(71), 0), true, 'and is cleaned up');
SELECT is((SELECT sum(ms)::int FROM sb_usage_log WHERE run_id = pg_temp.n(10)), 4000, 'what was reported counts');
SELECT is((SELECT usage_ms FROM user_sandboxes), (SELECT sum(ms)::bigint FROM sb_usage_log), 'in the user''s sum, too');

-- of a user who never had a sandbox to keep
INSERT INTO instances (id, user_id, run_id, attempt, workspace, usage_ms) SELECT pg_temp.n(80), '00000000-0000-7000-8000-000000000002', id, 1, 'bob', 700 FROM runs WHERE id = pg_temp.n(10);
UPDATE runs SET user_id = '00000000-0000-7000-8000-000000000002', cleanup_pending = true, cleanup_next_at = now(), instance_id = pg_temp.n(80), scope_id = pg_temp.n(80) WHERE id = pg_temp.n(10);
SELECT is(cleanup_confirm(pg_temp.n(10), pg_temp.n(80), pg_temp.n(80), 900), true, 'bob''s container is gone');
SELECT is((SELECT usage_ms || ' ' || state || ' ' || generation FROM user_sandboxes WHERE user_id = '00000000-0000-7000-8000-000000000002'), '900 none 0', 'his time is summed up');
SELECT is((SELECT count(*)::int FROM sb_container WHERE username = 'bob'), 0, 'and he has no sandbox');
DELETE FROM user_sandboxes WHERE user_id = '00000000-0000-7000-8000-000000000002';

-- given up, and gone without anybody's wish
DELETE FROM idempotency_keys;
DELETE FROM sandbox_commands;
DELETE FROM run_attempts;
DELETE FROM instances;
DELETE FROM runs;
DELETE FROM user_sandboxes;
SELECT is(pg_temp.run(12, 'z'), 'created', 'a Run');
SELECT is((pg_temp.go(12, 801, 81)).result, 'created', 'its command');
SELECT is(pg_temp.state(), 'creating 1', 'in a new sandbox');
SELECT is(pg_temp.seen(81, 'ready'), 1::bigint, 'ready');
CREATE FUNCTION pg_temp.release() RETURNS text LANGUAGE sql AS $$ SELECT concat_ws(' ', x.result, array_to_string(x.blockers, ',')) FROM sandbox_release('host', 25000, pg_temp.ann()) x $$;
SELECT is(pg_temp.release(), 'sandbox_busy active_runs,active_operations', 'not given up in the midst of it');
SELECT pg_temp.ended(801);
SELECT is(pg_temp.pause(), 'pausing', 'its user may let it sleep while a Run thinks');
SELECT is(pg_temp.seen(81, 'ready'), 1::bigint, 'it goes on all the same');
SELECT is((run_finish(pg_temp.n(12), NULL, 'completed', NULL, NULL, pg_temp.ann())).result, 'finished', 'the Run ends');
SELECT is(pg_temp.release(), 'sandbox_busy cleanup_pending', 'nor before it is cleaned up');
SELECT cleanup_confirm(id, instance_id, scope_id, 0) FROM runs WHERE cleanup_pending;
CREATE TEMPORARY TABLE before AS SELECT lock_version AS version FROM user_sandboxes;
SELECT is(pg_temp.release(), 'released ', 'at rest');
SELECT is(pg_temp.state(), 'none 1', 'there is none, and the generation is kept');
SELECT ok((SELECT s.lock_version > b.version FROM user_sandboxes s, before b), 'a decision like any other: who read it before loses');
SELECT ok((SELECT retired_at IS NOT NULL FROM instances WHERE id = pg_temp.n(81)), 'what there was is to be destroyed');
SELECT is((SELECT string_agg(action || ' ' || result, ', ' ORDER BY id) FROM audit WHERE object = pg_temp.n(81)::text), 'sandbox.create generation 1, sandbox.pause asked, sandbox.release generation 1', 'on record');
SELECT is((SELECT result FROM pg_temp.execute(13, 802, 82)), 'created', 'the next use');
SELECT is(pg_temp.state(), 'creating 2', 'makes another');
SELECT is(pg_temp.seen(82, 'paused', 2500), 1::bigint, 'it ran and stopped before anybody heard');
SELECT is((SELECT ms || ' ' || (ended_at IS NOT NULL) FROM sb_usage_log WHERE instance_id = pg_temp.n(82)), '2500 true', 'that counts as well');
SELECT is(pg_temp.seen(82, 'ready', 2500), 1::bigint, 'ready');
SELECT instance_gone(pg_temp.n(82), 4000, 'somebody removed it');
SELECT is(pg_temp.state(), 'error 2', 'gone although nobody wished it: an error');
SELECT is((SELECT count(*)::int FROM instances WHERE id = pg_temp.n(82)), 1, 'the ledger names it until somebody decides');

-- readers
SELECT is((SELECT string_agg(table_name || '.' || column_name, ' ' ORDER BY 1) FROM information_schema.columns WHERE table_schema = 'public'
	AND column_name ~ 'hash|nonce|sealed|^first$' AND has_column_privilege('paddock_read', quote_ident(table_name), column_name, 'SELECT')), NULL,
	'see nothing that is secret');
SELECT is((SELECT string_agg(column_name, ' ') FROM information_schema.columns WHERE table_schema = 'public' AND table_name = 'runs'
	AND column_name NOT IN ('lease_hash', 'lease_nonce') AND NOT has_column_privilege('paddock_read', 'runs', column_name, 'SELECT')), NULL, 'and all else of a Run');

SELECT * FROM finish();
ROLLBACK;
