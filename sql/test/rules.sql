-- The rules that the schema itself keeps, whoever writes: constraints, and the functions' answers (R2.1, R2.2, R2.3, R2.7, R2.9, R2.10, R5.5).
BEGIN;
SELECT no_plan();

INSERT INTO users (id, name) VALUES ('00000000-0000-7000-8000-000000000001', 'ann'), ('00000000-0000-7000-8000-000000000002', 'bob');
CREATE FUNCTION pg_temp.ann() RETURNS origin LANGUAGE sql AS $$ SELECT ROW('00000000-0000-7000-8000-000000000001', '00000000-0000-7000-8000-000000000001', NULL, 'r', NULL)::origin $$;
CREATE FUNCTION pg_temp.bob() RETURNS origin LANGUAGE sql AS $$ SELECT ROW('00000000-0000-7000-8000-000000000002', '00000000-0000-7000-8000-000000000002', NULL, 'r', NULL)::origin $$;
CREATE FUNCTION pg_temp.run(n integer) RETURNS uuid LANGUAGE sql AS $$ SELECT ('00000000-0000-7000-9000-' || lpad(n::text, 12, '0'))::uuid $$;
CREATE FUNCTION pg_temp.make(n integer, thread text, worker text DEFAULT NULL, attempts integer DEFAULT 2) RETURNS text LANGUAGE sql AS $$
	SELECT (run_create(pg_temp.run(n), thread, 'container', '/home/user/workspace', NULL, NULL, 60000, attempts, worker, 60000, 'n' || n, ('h' || n)::bytea, NULL, NULL, pg_temp.ann())).result $$;
CREATE FUNCTION pg_temp.go(n integer, hash bytea, cmd uuid DEFAULT gen_random_uuid(), who origin DEFAULT pg_temp.ann(), most bigint DEFAULT 10) RETURNS text LANGUAGE sql AS $$
	SELECT (command_start(pg_temp.run(n), hash, gen_random_uuid(), 'ann', ROW(cmd, 'true', NULL, NULL, 1000, false, most, 100, 100, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::command_wish, NULL, NULL, who)).result $$;

-- constraints
SELECT throws_ok($$INSERT INTO users (id, name) VALUES (gen_random_uuid(), '../etc')$$, '23514', NULL, 'a name is no path');
SELECT throws_ok($$INSERT INTO users (id, name) VALUES (gen_random_uuid(), 'ann')$$, '23505', NULL, 'names are unique');
SELECT throws_ok($$INSERT INTO tokens (id, user_id, kind, hash) VALUES ('0123456789ab', '00000000-0000-7000-8000-000000000001', 'root', decode(repeat('00', 32), 'hex'))$$,
	'23514', NULL, 'kinds of tokens are known');

-- a claimed Run
SELECT is(pg_temp.make(1, 'a', 'w'), 'created', 'create with claim');
SELECT is((SELECT status FROM runs WHERE id = pg_temp.run(1)), 'running', 'it runs');
SELECT is((SELECT count(*)::int FROM run_attempts WHERE run_id = pg_temp.run(1)), 1, 'it has an attempt');
SELECT throws_ok($$UPDATE runs SET cleanup_pending = true, cleanup_next_at = now() WHERE id = pg_temp.run(1)$$, '23514', NULL, 'no running Run has clean-up pending');
SELECT throws_ok($$UPDATE runs SET status = 'completed' WHERE id = pg_temp.run(1)$$, '23514', NULL, 'a terminal state has an end time');
SELECT is(pg_temp.go(1, NULL), 'lease_required', 'a leased Run needs its token');
SELECT is(pg_temp.go(1, 'h2'), 'lease_lost', 'a foreign token');
SELECT is(pg_temp.go(1, 'h1', gen_random_uuid(), pg_temp.bob()), 'not_found', 'another user sees nothing');
SELECT is(pg_temp.go(1, 'h1', pg_temp.run(101)), 'created', 'a command');
SELECT is((SELECT count(*)::int FROM instances WHERE run_id = pg_temp.run(1)), 1, 'its instance is on record');
SELECT is(pg_temp.go(1, 'h1', pg_temp.run(102)), 'created', 'another');
SELECT is((SELECT count(DISTINCT instance_id)::int FROM sandbox_commands WHERE run_id = pg_temp.run(1)), 1, 'in the same instance');
SELECT is(pg_temp.go(1, 'h1', gen_random_uuid(), pg_temp.ann(), 2), 'too_many_commands', 'limit of a Run');

CREATE FUNCTION pg_temp.most(n integer, hash bytea, who origin, most_user bigint, most_all bigint) RETURNS text LANGUAGE sql AS $$
	SELECT (command_start(pg_temp.run(n), hash, gen_random_uuid(), 'ann', ROW(gen_random_uuid(), 'true', NULL, NULL, 1000, false, 100, most_user, most_all, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::command_wish,
		NULL, NULL, who)).result $$;
SELECT is(pg_temp.most(1, 'h1', pg_temp.ann(), 2, 100), 'too_many_commands', 'limit of a user');
SELECT is(pg_temp.most(1, 'h1', pg_temp.ann(), 100, 2), 'too_many_commands', 'limit of all');
INSERT INTO runs (id, user_id, thread_id, status, backend, workdir, timeout_ms, max_attempts)
	VALUES (pg_temp.run(30), '00000000-0000-7000-8000-000000000002', 'x', 'pending', 'container', '/home/user/workspace', 60000, 2);
SELECT is(pg_temp.most(30, NULL, pg_temp.bob(), 1, 2), 'too_many_commands', 'whoever they belong to');
SELECT is(pg_temp.most(30, NULL, pg_temp.bob(), 1, 3), 'created', 'another user has a limit of its own');

-- the lease expires
UPDATE runs SET lease_expires_at = now() - interval '1 s' WHERE id = pg_temp.run(1);
SELECT is(pg_temp.go(1, 'h1'), 'lease_lost', 'an expired lease is lost before it is swept');
SELECT is((SELECT (run_heartbeat(pg_temp.run(1), 'h1', 1000, '00000000-0000-7000-8000-000000000001')).result), 'lease_lost', 'and cannot be renewed');
SELECT is((SELECT count(*)::int FROM runs_expire_leases(10)), 1, 'swept');
SELECT is((SELECT ROW(status, cleanup_pending, lease_owner IS NULL)::text FROM runs WHERE id = pg_temp.run(1)), '(pending,t,t)', 'offered again, after clean-up');
SELECT is((SELECT (run_claim(NULL, 'w2', 1000, 'n', 'h', pg_temp.ann())).result), 'nothing', 'not before');
SELECT is(pg_temp.make(2, 'a', 'w'), 'created', 'another Run of the Thread');
SELECT is((SELECT status FROM runs WHERE id = pg_temp.run(2)), 'pending', 'gets no lease');
SELECT is(pg_temp.go(2, NULL), 'cleanup_pending', 'and no first command');
SELECT is((SELECT ((run_create(pg_temp.run(50), 'a', 'container', '/home/user/workspace', NULL, NULL, 60000, 2, 'w', 60000, 'n50', 'h50', NULL, NULL, pg_temp.bob())).run).status), 'running',
	'a Thread of the same name is another user''s own');
SELECT is(pg_temp.make(51, 'free'), 'created', 'a Run that anybody could take');
SELECT is((SELECT (run_claim(NULL, 'w3', 1000, 'n', 'h', pg_temp.bob())).result), 'nothing', 'but only for its user');
SELECT is((SELECT ((run_claim('free', 'w3', 1000, 'n', 'h', pg_temp.ann())).run).id), pg_temp.run(51), 'who gets it');
SELECT is((SELECT (run_cancel(pg_temp.run(51), pg_temp.bob())).result), 'not_found', 'nor does another end it');
SELECT is((SELECT (run_finish(pg_temp.run(51), 'h', 'completed', NULL, NULL, pg_temp.bob())).result), 'not_found', 'with the token neither');
SELECT is((SELECT (run_heartbeat(pg_temp.run(51), 'h', 1000, '00000000-0000-7000-8000-000000000002')).result), 'not_found', 'or renews it');
SELECT is(pg_temp.make(3, 'b'), 'created', 'a Run of another Thread');
SELECT is(pg_temp.go(3, NULL), 'created', 'is not concerned');
SELECT is((SELECT cleanup_confirm(id, instance_id, scope_id, 0) FROM runs WHERE id = pg_temp.run(1)), false, 'not confirmed while a command has no end');
SELECT results_eq($$SELECT what, count(*)::int FROM commands_record(json_build_array(
		json_build_object('id', pg_temp.run(101), 'status', 'exited', 'reason', 'cancelled', 'signal', 9),
		json_build_object('id', pg_temp.run(102), 'status', 'lost', 'reason', 'lost')), ARRAY['out'::bytea, NULL], ARRAY[NULL::bytea, NULL]) GROUP BY 1$$,
	$$SELECT NULL::text, 0 WHERE false$$, 'ends are recorded');
SELECT is((SELECT stdout FROM sandbox_commands WHERE id = pg_temp.run(101)), 'out'::bytea, 'with their output');
SELECT is((SELECT cleanup_confirm(id, gen_random_uuid(), scope_id, 0) FROM runs WHERE id = pg_temp.run(1)), false, 'another instance confirms nothing');
SELECT is((SELECT cleanup_confirm(id, instance_id, scope_id, 0) FROM runs WHERE id = pg_temp.run(1)), true, 'confirmed');
SELECT is((SELECT count(*)::int FROM instances WHERE run_id = pg_temp.run(1)), 0, 'the ledger forgets it');
SELECT is((SELECT (run_claim('a', 'w2', 60000, 'n', 'h', pg_temp.ann())).result), 'claimed', 'and the Run is handed out');
SELECT is((SELECT attempt FROM runs WHERE id = pg_temp.run(1)), 2, 'the oldest first, second attempt');
UPDATE runs SET lease_expires_at = now() - interval '1 s' WHERE id = pg_temp.run(1);
SELECT is((SELECT count(*)::int FROM runs_expire_leases(10)), 1, 'lost again');
SELECT is((SELECT ROW(status, error_code, cleanup_pending)::text FROM runs WHERE id = pg_temp.run(1)), '(failed,lease_expired,t)', 'none left: failed');

-- 'lost' gives way to the truth, the truth to nothing
SELECT lives_ok($$SELECT commands_record(json_build_array(json_build_object('id', pg_temp.run(102), 'status', 'exited', 'reason', 'exited', 'exit_code', 0)), ARRAY[NULL::bytea], ARRAY[NULL::bytea])$$);
SELECT is((SELECT reason FROM sandbox_commands WHERE id = pg_temp.run(102)), 'exited', 'lost, then known');
SELECT lives_ok($$SELECT commands_record(json_build_array(json_build_object('id', pg_temp.run(102), 'status', 'lost', 'reason', 'lost')), ARRAY[NULL::bytea], ARRAY[NULL::bytea])$$);
SELECT is((SELECT reason FROM sandbox_commands WHERE id = pg_temp.run(102)), 'exited', 'known stays known');
SELECT results_eq($$SELECT what, id FROM commands_record(json_build_array(json_build_object('id', pg_temp.run(102), 'status', 'running')), ARRAY[NULL::bytea], ARRAY[NULL::bytea])$$,
	$$SELECT 'stray'::text, pg_temp.run(102)$$, 'a command that runs after its end is a stray');

-- cancel
SELECT is((SELECT (run_cancel(pg_temp.run(3), pg_temp.bob())).result), 'not_found', 'cancel by another user');
SELECT is((SELECT (run_cancel(pg_temp.run(3), pg_temp.ann())).result), 'requested', 'cancel with an open command');
SELECT is((SELECT (run_finish(pg_temp.run(3), NULL, 'completed', NULL, NULL, pg_temp.ann())).result), 'run_ended', 'it cannot be finished any more');
SELECT is((SELECT count(*)::int FROM runs_settle_cancels(10, 60000)), 0, 'it waits for its command');
SELECT is((SELECT what FROM commands_record((SELECT json_build_array(json_build_object('id', id, 'status', 'exited', 'reason', 'cancelled')) FROM sandbox_commands WHERE run_id = pg_temp.run(3)),
	ARRAY[NULL::bytea], ARRAY[NULL::bytea])), 'ended', 'whose end ends it');
SELECT is((SELECT status FROM runs WHERE id = pg_temp.run(3)), 'cancelled', 'cancelled');

-- one-shot
SELECT is((SELECT (execute_start(pg_temp.run(9), pg_temp.run(90), 'ann', 'container', '/home/user/workspace', 1000,
	ROW(pg_temp.run(91), 'true', NULL, NULL, 1000, false, 10, 100, 100, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::command_wish, 'key', 'b', pg_temp.ann())).result), 'created', 'execute');
SELECT is((SELECT (execute_start(pg_temp.run(8), pg_temp.run(80), 'ann', 'container', '/home/user/workspace', 1000,
	ROW(pg_temp.run(81), 'true', NULL, NULL, 1000, false, 10, 100, 100, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::command_wish, 'key', 'b', pg_temp.ann())).command_id), pg_temp.run(91), 'the same key, the same command');
SELECT is((SELECT (execute_start(pg_temp.run(8), pg_temp.run(80), 'ann', 'container', '/home/user/workspace', 1000,
	ROW(pg_temp.run(81), 'true', NULL, NULL, 1000, false, 10, 100, 100, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::command_wish, 'key', 'c', pg_temp.ann())).result), 'idempotency_mismatch', 'another body');
SELECT is((SELECT command_refused(pg_temp.run(91), 'executor_unavailable', 'away')), pg_temp.run(9), 'refused: the Run ends with it');
SELECT is((SELECT ROW(status, error_code, cleanup_pending)::text FROM runs WHERE id = pg_temp.run(9)), '(failed,command_not_started,t)', 'failed, to be cleaned up');
SELECT is((SELECT count(*)::int FROM idempotency_keys), 0, 'and its key is free');

-- a command's record is what the executor says, all of it (R2.7)
SELECT is(pg_temp.make(40, 'record', 'w'), 'created', 'a Run');
UPDATE runs SET attempt = 2, workdir = '/home/user/workspace/projects/p' WHERE id = pg_temp.run(40);
SELECT is((SELECT x.cwd || ' ' || x.workdir FROM command_start(pg_temp.run(40), 'h40', gen_random_uuid(), 'ann', ROW(pg_temp.run(401), 'true', NULL, NULL, 1000, true, 10, 100, 100,
	'build', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::command_wish, NULL, NULL, pg_temp.ann()) x),
	'/home/user/workspace/projects/p /home/user/workspace/projects/p', 'it runs in the workdir when no other place is named');
SELECT is((SELECT ROW(run_id, attempt, stage, status, command, argv, cwd, timeout_ms, background, kind, actor_id, request_id)::text FROM sandbox_commands WHERE id = pg_temp.run(401)),
	ROW(pg_temp.run(40), 2, 'build', 'pending', 'true', NULL, '/home/user/workspace/projects/p', 1000, true, 'command', '00000000-0000-7000-8000-000000000001', 'r')::text, 'on record before it starts');
CREATE FUNCTION pg_temp.said(item json, o bytea DEFAULT NULL, e bytea DEFAULT NULL) RETURNS void LANGUAGE sql AS $$ SELECT commands_record(json_build_array(item), ARRAY[o], ARRAY[e]) $$;
SELECT pg_temp.said(json_build_object('id', pg_temp.run(401), 'status', 'running', 'process_group', 77, 'started_at', '2026-01-01T00:00:00Z'));
SELECT is((SELECT ROW(status, process_group, started_at = '2026-01-01T00:00:00Z', ended_at)::text FROM sandbox_commands WHERE id = pg_temp.run(401)), '(running,77,t,)', 'its start');
SELECT pg_temp.said(json_build_object('id', pg_temp.run(401), 'status', 'exited', 'reason', 'signaled', 'exit_code', 3, 'signal', 11, 'process_group', 78, 'started_at', '2026-01-01T00:00:01Z',
	'ended_at', '2026-01-01T00:00:03Z', 'duration_ms', 2000, 'stdout_bytes', 10, 'stderr_bytes', 20, 'stdout_truncated', true, 'stderr_truncated', true,
	'error_code', 'c', 'error_message', 'm'), 'out', 'err');
SELECT is((SELECT ROW(status, reason, exit_code, signal, process_group, started_at = '2026-01-01T00:00:01Z', ended_at = '2026-01-01T00:00:03Z', duration_ms, stdout, stderr, stdout_bytes,
	stderr_bytes, stdout_truncated, stderr_truncated, error_code, error_message)::text FROM sandbox_commands WHERE id = pg_temp.run(401)),
	ROW('exited', 'signaled', 3, 11, 78, true, true, 2000, 'out'::bytea, 'err'::bytea, 10, 20, true, true, 'c', 'm')::text, 'and its end');

UPDATE sandbox_commands SET stdout = NULL, stderr = NULL WHERE id = pg_temp.run(401);

-- stages: what their commands have used is gone for the next one
SELECT is(pg_temp.make(20, 's', 'w'), 'created', 'a Run with stages');
CREATE FUNCTION pg_temp.stage(n integer, stage text, ms bigint, own bigint DEFAULT 7) RETURNS text LANGUAGE sql AS $$
	SELECT a.result || coalesce(' ' || a.timeout_ms, '') FROM command_start(pg_temp.run(20), 'h20', gen_random_uuid(), 'ann',
		ROW(pg_temp.run(n), 'true', NULL, NULL, own, false, 10, 100, 100, stage, ms, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::command_wish, NULL, NULL, pg_temp.ann()) a $$;
SELECT is(pg_temp.stage(201, 'build', 5000), 'created 5000', 'the first has all of it');
UPDATE sandbox_commands SET status = 'exited', reason = 'exited', started_at = now() - interval '9 s', ended_at = now() - interval '8 s' WHERE id = pg_temp.run(201);
SELECT is(pg_temp.stage(202, 'build', 5000), 'created 4000', 'the next has what is left');
UPDATE sandbox_commands SET status = 'exited', reason = 'exited', started_at = now() - interval '8.5 s', ended_at = now() - interval '6 s' WHERE id = pg_temp.run(202);
SELECT is(pg_temp.stage(203, 'build', 5000), 'created 2000', 'time of several at once counts once');
SELECT is((SELECT stage FROM sandbox_commands WHERE id = pg_temp.run(203)), 'build', 'the stage is on record');
UPDATE sandbox_commands SET started_at = now() - interval '10 s' WHERE id = pg_temp.run(203);
SELECT is(pg_temp.stage(204, 'build', 5000), 'stage_timeout', 'an open command counts; nothing is left');
SELECT is((SELECT count(*)::int FROM sandbox_commands WHERE id = pg_temp.run(204)), 0, 'and nothing was started');
SELECT is(pg_temp.stage(205, 'test', 5000), 'created 5000', 'another stage has its own');
SELECT is(pg_temp.stage(206, 'build', NULL), 'created 7', 'a time-out of the command goes before');
UPDATE runs SET attempt = attempt + 1 WHERE id = pg_temp.run(20);
SELECT is(pg_temp.stage(207, 'build', 5000), 'created 5000', 'the next attempt begins anew');

-- which timer fired
SELECT lives_ok($$SELECT commands_record(json_build_array(json_build_object('id', pg_temp.run(205), 'status', 'exited', 'reason', 'timeout', 'timeout', 'stage')),
	ARRAY['so far'::bytea], ARRAY[NULL::bytea])$$);
SELECT is((SELECT ROW(reason, timeout, stdout)::text FROM sandbox_commands WHERE id = pg_temp.run(205)), ROW('timeout'::text, 'stage'::text, 'so far'::bytea)::text, 'which timer fired');
SELECT throws_ok($$UPDATE sandbox_commands SET timeout = 'day' WHERE id = pg_temp.run(205)$$, '23514', NULL, 'timers are known');
SELECT throws_ok($$UPDATE sandbox_commands SET reason = 'exited' WHERE id = pg_temp.run(205)$$, '23514', NULL, 'a timer goes with reason timeout alone');

-- limits on instances
CREATE FUNCTION pg_temp.box(n integer, who origin, most_user bigint, most_all bigint) RETURNS text LANGUAGE sql AS $$
	SELECT (execute_start(pg_temp.run(n), pg_temp.run(n + 1), 'ann', 'container', '/home/user/workspace', 1000,
		ROW(pg_temp.run(n + 2), 'true', NULL, NULL, 1000, false, 100, 100, 100, NULL, NULL, most_user, most_all, NULL, NULL, NULL, NULL, NULL)::command_wish, NULL, NULL, who)).result $$;
SELECT is(pg_temp.box(300, pg_temp.bob(), 1, 100), 'too_many_instances', 'limit of a user');
SELECT is((SELECT count(*)::int FROM runs WHERE id = pg_temp.run(300)), 0, 'and nothing is left of it');
SELECT is(pg_temp.box(300, pg_temp.bob(), 100, (SELECT count(*) FROM instances)), 'too_many_instances', 'limit of all');
SELECT is(pg_temp.box(300, pg_temp.bob(), 2, 100), 'created', 'room for one');
SELECT is(pg_temp.box(303, pg_temp.bob(), 2, 100), 'too_many_instances', 'and for no other');
SELECT is(pg_temp.box(303, pg_temp.ann(), 100, (SELECT count(*) FROM instances) + 1), 'created', 'another user has a limit of its own');
SELECT is(pg_temp.make(310, 'boxes'), 'created', 'a Run without a lease');
CREATE FUNCTION pg_temp.in_box(most_user bigint) RETURNS text LANGUAGE sql AS $$
	SELECT (command_start(pg_temp.run(310), NULL, gen_random_uuid(), 'ann',
		ROW(gen_random_uuid(), 'true', NULL, NULL, 1000, false, 100, 100, 100, NULL, NULL, most_user, 100, NULL, NULL, NULL, NULL, NULL)::command_wish, NULL, NULL, pg_temp.ann())).result $$;
SELECT is(pg_temp.in_box(1), 'too_many_instances', 'its first command needs one');
SELECT is((SELECT status FROM runs WHERE id = pg_temp.run(310)), 'pending', 'the Run waits as before');
SELECT is(pg_temp.in_box(100), 'created', 'now there is room');
SELECT is(pg_temp.in_box(1), 'created', 'its next command needs none');

-- retention
SELECT throws_ok($$SELECT retire_runs(0, 10)$$, 'P0001', NULL, 'nothing young is removed');
SELECT ok(NOT has_function_privilege('paddock_read', 'retire_audit(bigint, bigint)', 'EXECUTE'), 'readers remove nothing');
SELECT ok(NOT has_table_privilege('paddock_api', 'audit', 'DELETE') AND NOT has_table_privilege('paddock_api', 'runs', 'DELETE'), 'nor does the API but by these functions');
UPDATE runs SET ended_at = now() - interval '3 days' WHERE ended_at IS NOT NULL;
UPDATE sandbox_commands SET ended_at = now() - interval '3 days' WHERE ended_at IS NOT NULL;
SELECT is(retire_outputs(4, 10), 0::bigint, 'outputs of younger commands stay');
SELECT is(retire_outputs(2, 1), 1::bigint, 'a bounded batch');
SELECT is(retire_outputs(2, 10), 1::bigint, 'the rest');
SELECT is((SELECT ROW(reason, stdout IS NULL, stdout_truncated)::text FROM sandbox_commands WHERE id = pg_temp.run(205)), '(timeout,t,f)', 'the record stays');
SELECT is(retire_runs(2, 10), 0::bigint, 'no Run whose clean-up is pending is removed');
UPDATE runs SET cleanup_pending = false, cleanup_next_at = NULL WHERE cleanup_pending AND id <> pg_temp.run(1);
SELECT is((SELECT array_agg(i.run_id) FROM instances i WHERE i.run_id IN (pg_temp.run(3), pg_temp.run(9))) IS NOT NULL, true, 'instances are in the ledger');
SELECT is(retire_runs(2, 10), 0::bigint, 'nor one with an instance');
DELETE FROM instances WHERE run_id IN (pg_temp.run(3), pg_temp.run(9));
INSERT INTO idempotency_keys (user_id, scope, key, body_hash, run_id, created_at)
	VALUES ('00000000-0000-7000-8000-000000000001', 'run', 'old', 'x', pg_temp.run(3), now() - interval '3 days 1 hour');
SELECT is(retire_runs(2, 10), 0::bigint, 'nor one that an Idempotency-Key may stand for');
DELETE FROM idempotency_keys;
UPDATE runs SET successor_id = pg_temp.run(9) WHERE id = pg_temp.run(310);
SELECT is(retire_runs(2, 1), 2::bigint, 'a Run and its command');
SELECT is(retire_runs(2, 10), 0::bigint, 'a successor waits for its predecessor');
UPDATE runs SET successor_id = NULL WHERE id = pg_temp.run(310);
SELECT is(retire_runs(2, 10), 2::bigint, 'and goes behind it');
SELECT is((SELECT count(*)::int FROM runs WHERE id IN (pg_temp.run(3), pg_temp.run(9))) + (SELECT count(*)::int FROM run_attempts WHERE run_id IN (pg_temp.run(3), pg_temp.run(9))), 0, 'gone');
SELECT is((SELECT count(*)::int FROM runs WHERE id IN (pg_temp.run(1), pg_temp.run(20))), 2, 'others are not');
SELECT is((SELECT ROW(actor, result)::text FROM audit_log WHERE action = 'command.start' AND object = pg_temp.run(91)::text), '(ann,not_started)', 'the audit keeps what it did');
UPDATE audit SET at = now() - interval '400 days' WHERE object = pg_temp.run(91)::text;
SELECT is(retire_audit(365, 10), 1::bigint, 'for its own time');
SELECT is((SELECT count(*)::int FROM audit WHERE object = pg_temp.run(91)::text), 0, 'and no longer');

SELECT * FROM finish();
ROLLBACK;
