-- Steer, the fence it puts up in either kind of sandbox, and the audit of what moves a Run (R2.1-R2.3, R5.5).
BEGIN;
SELECT no_plan();

INSERT INTO users (id, name) VALUES ('00000000-0000-7000-8000-000000000001', 'ann'), ('00000000-0000-7000-8000-000000000002', 'bob');
CREATE FUNCTION pg_temp.who(n integer DEFAULT 1) RETURNS origin LANGUAGE sql AS $$
	SELECT ROW(('00000000-0000-7000-8000-00000000000' || n)::uuid, ('00000000-0000-7000-8000-00000000000' || n)::uuid, 't', 'r', 'a')::origin $$;
CREATE FUNCTION pg_temp.n(n integer) RETURNS uuid LANGUAGE sql AS $$ SELECT ('00000000-0000-7000-9000-' || lpad(n::text, 12, '0'))::uuid $$;
CREATE FUNCTION pg_temp.make(n integer, thread text, worker text DEFAULT 'w') RETURNS text LANGUAGE sql AS $$
	SELECT (run_create(pg_temp.n(n), thread, 'host', '/home/user/workspace', '1', '{"k":1}', 60000, 2, worker, 60000, 'n', ('h' || n)::bytea, NULL, NULL, pg_temp.who())).result $$;
CREATE FUNCTION pg_temp.go(n integer, provider text, hash bytea DEFAULT NULL) RETURNS text LANGUAGE sql AS $$
	SELECT (command_start(pg_temp.n(n), hash, gen_random_uuid(), 'ann', ROW(gen_random_uuid(), 'true', NULL, NULL, 1000, false, 10, 100, 100, NULL, NULL, 100, 100,
		gen_random_uuid(), NULL, provider, 25000, false)::command_wish, NULL, NULL, pg_temp.who())).result $$;
CREATE FUNCTION pg_temp.steer(n integer, successor integer, key text DEFAULT NULL, body bytea DEFAULT 'b', who integer DEFAULT 1) RETURNS steer_answer LANGUAGE sql AS $$
	SELECT run_steer(pg_temp.n(n), pg_temp.n(successor), '"go"', key, body, pg_temp.who(who)) $$;
CREATE FUNCTION pg_temp.claim(thread text) RETURNS uuid LANGUAGE sql AS $$ SELECT ((run_claim(thread, 'w', 60000, 'n', 'h', pg_temp.who())).run).id $$;
CREATE FUNCTION pg_temp.trail(n integer) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(coalesce(actor, 'ann') || ' ' || action || ' ' || result, ', ' ORDER BY id) FROM audit WHERE object = pg_temp.n(n)::text $$;
-- The executor says that nothing is left.
CREATE FUNCTION pg_temp.clean(n integer) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	UPDATE sandbox_commands SET status = 'exited', reason = 'cancelled', ended_at = now() WHERE run_id = pg_temp.n(n) AND ended_at IS NULL;
	RETURN (SELECT cleanup_confirm(id, instance_id, scope_id, 0) FROM runs WHERE id = pg_temp.n(n));
END
$$;

-- refusals
SELECT is(pg_temp.make(1, 'a'), 'created', 'a Run at work');
SELECT is(pg_temp.make(2, 'a', NULL), 'created', 'one that waits');
SELECT is((pg_temp.steer(1, 3, NULL, 'b', 2)).result, 'not_found', 'another user sees nothing');
SELECT is((pg_temp.steer(2, 3)).result, 'not_running', 'its own input would be lost');
SELECT is((SELECT count(*)::int FROM runs), 2, 'a refusal makes no Run');

-- a sandbox that outlives Runs
SELECT is(pg_temp.go(1, 'host', 'h1'), 'created', 'it has a command');
SELECT is(pg_temp.make(4, 'a'), 'created', 'another one at work in the Thread');
SELECT is(pg_temp.go(4, 'host', 'h4'), 'created', 'in the same sandbox');
SELECT is(pg_temp.make(5, 'a'), 'created', 'a third, which has begun nothing');
SELECT is((pg_temp.steer(1, 10, 'key')).result, 'steered', 'steer, leased as it is, without a token');
SELECT is((SELECT ROW(status, cleanup_pending, lease_owner IS NULL, successor_id)::text FROM runs WHERE id = pg_temp.n(1)),
	ROW('yielded', true, true, pg_temp.n(10))::text, 'the old one yields and is to be cleaned up');
SELECT is((SELECT end_reason FROM run_attempts WHERE run_id = pg_temp.n(1)), 'yielded', 'its attempt ends');
SELECT is((SELECT ROW(status, attempt, thread_id, workdir, input, metadata, timeout_ms, max_attempts, backend)::text FROM runs WHERE id = pg_temp.n(10)),
	ROW('pending', 0, 'a', '/home/user/workspace', '"go"'::json, '{"k":1}'::json, 60000, 2, 'host')::text, 'the successor is as it was, but for its input');
SELECT is(pg_temp.claim('a'), NULL, 'nothing is handed out');
SELECT is(pg_temp.make(6, 'a'), 'created', 'create with claim');
SELECT is((SELECT status FROM runs WHERE id = pg_temp.n(6)), 'pending', 'gives no lease');
SELECT is(pg_temp.go(10, 'host'), 'cleanup_pending', 'no first command of the successor');
SELECT is(pg_temp.go(2, 'host'), 'cleanup_pending', 'nor of one that waited');
SELECT is(pg_temp.go(5, 'host', 'h5'), 'cleanup_pending', 'nor of one that was claimed before');
SELECT is(pg_temp.go(4, 'host', 'h4'), 'created', 'what is at work goes on');
SELECT is((pg_temp.steer(1, 11)).result, 'run_ended', 'once');
SELECT is(((pg_temp.steer(1, 11)).run).successor_id, pg_temp.n(10), 'the answer names the successor');
SELECT is((pg_temp.steer(1, 11, 'key')).result, 'replayed', 'the same key');
SELECT is(((pg_temp.steer(1, 11, 'key')).successor).id, pg_temp.n(10), 'the same successor');
SELECT is((pg_temp.steer(1, 11, 'key', 'c')).result, 'idempotency_mismatch', 'another body');
SELECT is((pg_temp.steer(4, 11, 'key')).result, 'idempotency_mismatch', 'another Run');
SELECT is(pg_temp.clean(1), true, 'cleaned up');
SELECT is((SELECT count(*)::int FROM user_sandboxes WHERE state <> 'none'), 1, 'the sandbox stays');
SELECT is(pg_temp.go(5, 'host', 'h5'), 'created', 'all goes on');
SELECT is(pg_temp.claim('a'), pg_temp.n(2), 'the oldest first');
SELECT is(pg_temp.claim('a'), pg_temp.n(10), 'then the successor');
SELECT is((SELECT count(*)::int FROM runs WHERE id = pg_temp.n(10) AND attempt = 1), 1, 'once');
SELECT is(pg_temp.trail(1), 'ann run.create ok, ann run.claim ok, ann run.steer yielded, janitor run.cleanup ok', 'all of it is on record');

-- a sandbox of each attempt's own
SELECT is(pg_temp.make(20, 'b'), 'created', 'a Run at work');
SELECT is(pg_temp.go(20, NULL, 'h20'), 'created', 'in a sandbox of its own');
SELECT is((pg_temp.steer(20, 21)).result, 'steered', 'steer');
SELECT is(pg_temp.claim('b'), NULL, 'not before it is gone');
SELECT is(pg_temp.go(21, NULL), 'cleanup_pending', 'by no way');
SELECT is(pg_temp.clean(20), true, 'gone');
SELECT is(pg_temp.go(21, NULL), 'created', 'a first command takes the input as well as a claim');

-- what else moves a Run
SELECT is(pg_temp.make(30, 'c'), 'created', 'a lease that expires');
UPDATE runs SET lease_expires_at = now() - interval '1 s' WHERE id = pg_temp.n(30);
SELECT is((SELECT count(*)::int FROM runs_expire_leases(10)), 1, 'swept');
UPDATE runs SET cleanup_tries = 1, cleanup_error = 'no' WHERE id = pg_temp.n(30);
UPDATE runs SET cleanup_tries = 2, cleanup_error = 'no' WHERE id = pg_temp.n(30);
SELECT is(pg_temp.clean(30), true, 'cleaned up');
SELECT is(pg_temp.claim('c'), pg_temp.n(30), 'offered again');
SELECT is((SELECT deadline_at - started_at FROM runs WHERE id = pg_temp.n(30)), interval '60 s', 'its time limit counts from the first attempt');
UPDATE runs SET deadline_at = now() WHERE id = pg_temp.n(30);
SELECT is((pg_temp.steer(30, 31)).result, 'run_ended', 'its time is over, swept or not');
SELECT is((SELECT count(*)::int FROM runs_expire_deadlines(10)), 1, 'swept');
SELECT is(pg_temp.trail(30), 'ann run.create ok, ann run.claim ok, janitor run.lease_expired pending, janitor run.cleanup failed, janitor run.cleanup ok, ann run.claim ok, '
	'janitor run.run_timeout failed', 'each is on record, a failing clean-up once');

-- a cancel comes to its end, whatever comes in between
CREATE FUNCTION pg_temp.cancelling(n integer, provider text DEFAULT NULL) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_temp.make(n, 'thread ' || n);
	PERFORM pg_temp.go(n, provider, ('h' || n)::bytea);
	RETURN (run_cancel(pg_temp.n(n), pg_temp.who())).result;
END
$$;
CREATE FUNCTION pg_temp.status(n integer) RETURNS text LANGUAGE sql AS $$
	SELECT status || ' ' || cleanup_pending || coalesce(' ' || error_code, '') FROM runs WHERE id = pg_temp.n(n) $$;
SELECT is(pg_temp.cancelling(40), 'requested', 'a cancel with a command open');
SELECT is((SELECT count(*)::int FROM runs_settle_cancels(10, 30000)), 0, 'its end is waited for');
UPDATE runs SET cancel_requested_at = cancel_requested_at - interval '31 s' WHERE id = pg_temp.n(40);
SELECT is((SELECT count(*)::int FROM runs_settle_cancels(10, 30000)), 1, 'but not for ever');
SELECT is(pg_temp.status(40), 'cancelled true', 'clean-up ends what is left');
SELECT is(pg_temp.cancelling(41), 'requested', 'another');
UPDATE runs SET deadline_at = now() WHERE id = pg_temp.n(41);
SELECT is((SELECT count(*)::int FROM runs_expire_deadlines(10)), 1, 'reaches its time limit meanwhile');
SELECT is(pg_temp.status(41), 'cancelled true', 'it was cancelled all the same');
SELECT is(pg_temp.cancelling(42), 'requested', 'a third');
SELECT is((SELECT count(*)::int FROM instance_lost((SELECT instance_id FROM runs WHERE id = pg_temp.n(42)), 'sandbox_lost', 'it went')), 1, 'loses its sandbox meanwhile');
SELECT is(pg_temp.status(42), 'cancelled true', 'as well');
SELECT is(pg_temp.trail(41), 'ann run.create ok, ann run.claim ok, ann run.cancel requested, janitor run.run_timeout cancelled', 'on record');
SELECT is((SELECT count(*)::int FROM audit WHERE source IS NULL OR (actor_id IS NULL AND actor IS NULL)), 0, 'nobody is nobody');

SELECT * FROM finish();
ROLLBACK;
