"""Two complete API nodes, each with its workers and its janitor, on one database and one executor. What holds whatever provider there is (TwoNodes) is tried
over the scripted one and over the real `host`; what only one of them can be made to do stands in its own class."""

import contextlib
import os
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import tempfile
import threading
import time

import pytest

from conftest import BUILD
from nodes import Cluster, Host, Scripted, Stack, Unshare, User, until

USERS, FIRST_USES, ROUNDS = 50, 1000, 200
LOCK_HELD_S = 1.0

pytestmark = [pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
              pytest.mark.skipif(not os.access(BUILD + "/paddock-api", os.X_OK), reason="paddock-api is not built")]


def figure(request, text):
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print("\nfigure: two nodes%s: %s" % (" over " + request.cls.kind.name if request.cls else "", text))


@pytest.fixture(scope="module", name="cluster")
def _cluster():
    root = tempfile.mkdtemp(prefix="paddock-nodes-")
    os.chmod(root, 0o711)
    c = Cluster(BUILD, root)
    yield c
    assert "deadlock detected" not in c.log()
    c.stop()
    shutil.rmtree(root, ignore_errors=True)


@pytest.fixture(scope="class", name="stack")
def _stack(cluster, request):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with Stack(cluster, request.cls.kind, nodes=2, executor_options={"max_commands": 4000, "instance_commands": 1000}, api_workers=6, runs_all_commands=4000,
               runs_user_commands=1000) as s:
        yield s
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def in_parallel(*calls):
    """Runs all at once; raises the first failure."""
    failures, gate = [], threading.Barrier(len(calls))

    def one(fn):
        try:
            gate.wait(60)
            fn()
        except BaseException as e:   # pylint: disable=broad-except
            failures.append(e)
    threads = [threading.Thread(target=one, args=(fn,)) for fn in calls]
    old = threading.stack_size(256 << 10)
    try:
        for t in threads:
            t.start()
    finally:
        threading.stack_size(old)
    for t in threads:
        t.join()
    if failures:
        raise failures[0]


def agree(stack):
    assert not stack.settle(60)
    assert not stack.disagreements()
    assert not stack.provider.violations(stack)
    assert stack.session.one("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()") == "0"


def unwell(node):
    """The parts that are not as they should be, as /readyz names them."""
    return {name for name, part in node.call("GET", "/readyz").json["components"].items() if not part["ok"]}


class Locks:
    """Looks all the time at what the service's transactions hold."""
    QUERY = """SELECT a.pid, a.state, left(a.query, 80) AS query, extract(epoch FROM clock_timestamp() - coalesce(a.xact_start, a.state_change)) AS age,
        string_agg(DISTINCT l.locktype || ' ' || l.mode, ', ') AS locks, bool_and(l.granted) AS granted
        FROM pg_stat_activity a JOIN pg_locks l ON l.pid = a.pid WHERE a.usename = 'paddock_api' AND a.datname = current_database() AND (a.xact_start IS NOT NULL OR l.locktype = 'advisory')
        AND (l.locktype = 'advisory' OR l.locktype = 'tuple' OR l.mode IN ('RowShareLock', 'RowExclusiveLock')) GROUP BY 1, 2, 3, 4"""

    def __init__(self, stack):
        self.session = stack.cluster.session(stack.db)
        self.offenders, self.samples, self.busy, self.oldest, self.stop = [], 0, 0, 0.0, threading.Event()
        self.thread = threading.Thread(target=self.look)

    def look(self):
        while not self.stop.wait(0.02):
            rows = self.session.json(self.QUERY)
            self.samples += 1
            self.busy += bool(rows)
            for r in rows:
                self.oldest = max(self.oldest, r["age"])
                if r["age"] > LOCK_HELD_S or (r["state"].startswith("idle") and r["age"] > 0.2):
                    self.offenders.append(r)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()
        self.session.close()


def blockers(u, what="rebuild"):
    answer = u.call("POST", "/api/user/sandbox/" + what)
    assert (answer.status, answer.code) == (409, "sandbox_busy"), answer
    return set(answer.json["blockers"])


class TwoNodes:
    """`stack` is of the class's kind."""

    def test_fifty_users_have_fifty_sandboxes(self, stack, request):
        """1,000 concurrent first uses."""
        users = [User(stack, "first%d" % i) for i in range(USERS)]
        answers, begin = {}, time.monotonic()

        def use(i):
            u = users[i % USERS].on(stack.nodes[i // USERS % 2])
            mark, command = u.mark()
            answer = u.call("POST", "/api/execute", u.body(command), timeout=120)
            assert answer.status == 200, answer
            answers[i] = (u, mark, answer.headers["X-Paddock-Command"])
        in_parallel(*[lambda i=i: use(i) for i in range(FIRST_USES)])
        took = time.monotonic() - begin
        assert len(answers) == FIRST_USES
        until("all commands have ended", lambda: stack.session.one("SELECT count(*) FROM sandbox_commands WHERE ended_at IS NULL") == "0", 120, 0.2)
        ended = time.monotonic() - begin
        assert stack.session.one("SELECT count(*) || ' ' || min(status) || ' ' || max(status) || ' ' || sum(exit_code) FROM sandbox_commands") == "1000 exited exited 0"
        assert stack.session.one("SELECT count(*) || ' ' || max(generation) FROM user_sandboxes WHERE state = 'ready'") == "50 1"
        assert stack.session.one("SELECT count(*) || ' ' || count(DISTINCT user_id) FROM instances") == "50 50"
        assert sorted(stack.provider.instances(stack.executor).values()) == sorted(u.name for u in users)
        assert stack.provider.ever_made() == USERS
        starts = stack.provider.starts(stack)
        assert all(starts[mark] == 1 for _, mark, _ in answers.values())
        agree(stack)
        figure(request, "%d concurrent first uses by %d users: %d sandboxes; the last was answered after %.1f s and had ended after %.1f s" % (
            FIRST_USES, USERS, len(stack.provider.instances(stack.executor)), took, ended))

    def test_two_hundred_rounds_of_everything(self, stack, request):
        """rebuild ∥ pause ∥ execute ∥ idle sweep ∥ cancel end in a state that rows and provider agree on."""
        users, done, answers = [User(stack, "round%d" % i) for i in range(10)], [0], {}
        seed = random.randrange(1 << 32)
        begin = time.monotonic()

        def note(what, answer):
            key = "%s %s" % (what, "done" if answer.status in (200, 202) else "%d %s" % (answer.status, answer.code))
            answers[key] = answers.get(key, 0) + 1

        def cancelled(u):
            run = u.again("POST", "/api/runs", {"thread_id": "t", "claim": {"worker_id": "w"}}).json
            if not run.get("lease_token"):
                u.cancel(run["id"])   # the Thread's last Run is being cleaned up
                return
            _, command = u.mark(60)
            note("start", u.call("POST", "/api/runs/%s/commands" % run["id"], u.body(command, run["lease_token"])))
            u.cancel(run["id"])

        def insist(what, target, u):
            """Most of the time something stands against it."""
            end = time.monotonic() + 1.5
            answer = u.call("POST", target)
            while answer.status == 409 and time.monotonic() < end:
                time.sleep(0.03)
                answer = u.call("POST", target)
            note(what, answer)

        def idle(u):
            for _ in range(15):
                u.leave_idle()
                time.sleep(0.07)

        def rounds(u, dice):
            for _ in range(ROUNDS // len(users)):
                a, b = (u.on(n) for n in dice.sample(stack.nodes, 2))

                def execute(v):
                    _, command = v.mark()
                    note("execute", v.call("POST", "/api/execute", v.body(command)))
                acts = [lambda a=a: insist("rebuild", "/api/user/sandbox/rebuild", a), lambda b=b: insist("pause", "/api/user/sandbox/pause", b),
                        lambda a=a: execute(a), lambda: idle(u), lambda b=b: cancelled(b)]
                in_parallel(*[lambda act=act, wait=dice.random() * 0.5: (time.sleep(wait), act()) for act in acts])
                done[0] += 1
        with Locks(stack) as locks:
            in_parallel(*[lambda u=u, i=i: rounds(u, random.Random("%d %d" % (seed, i))) for i, u in enumerate(users)])
        took = time.monotonic() - begin
        assert done[0] == ROUNDS, "seed %d" % seed
        assert not [k for k in answers if re.search(" 5[0-9][0-9] ", k)], answers   # nobody was away
        assert all(answers.get(what + " done", 0) >= ROUNDS // 10 for what in ("rebuild", "pause", "execute")), answers
        assert int(stack.session.one("SELECT count(*) FROM audit WHERE action = 'sandbox.pause' AND result = 'idle'")) >= ROUNDS // 20
        agree(stack)
        starts = stack.provider.starts(stack)
        assert all(starts[m] <= 1 for u in users for m in u.marks)
        for u in users:
            mark, command = u.mark()
            assert mark in u.ended(u.execute(command))["stdout"]
        agree(stack)
        figure(request, "%d rounds in %.0f s, seed %d: %s" % (ROUNDS, took, seed, ", ".join("%s %d" % kv for kv in sorted(answers.items()))))
        assert not locks.offenders, locks.offenders[:5]

    def test_no_lock_is_held_while_a_command_runs(self, stack, request):
        users = [User(stack, "slow%d" % i) for i in range(8)]
        for u in users:
            u.ended(u.execute(u.mark()[1]))
        with Locks(stack) as locks:
            cids = []

            def slow(u, node):
                for _ in range(3):
                    cids.append((u, u.on(node).execute(u.mark(4)[1])))
            in_parallel(*[lambda u=u, n=n: slow(u, n) for u in users for n in stack.nodes])
            until("they run", lambda: int(stack.session.one("SELECT count(*) FROM sandbox_commands WHERE status = 'running'")) >= 30)
            before = locks.samples
            time.sleep(2)
            quiet = locks.samples - before
            still = int(stack.session.one("SELECT count(*) FROM sandbox_commands WHERE ended_at IS NULL"))
            # The same users go on meanwhile: nobody waits for a command of his own or of others.
            begin = time.monotonic()
            for u in users:
                assert u.ended(u.execute(u.mark()[1]))["exit_code"] == 0
            others = time.monotonic() - begin
            for u, cid in cids:
                assert u.ended(cid)["exit_code"] == 0
        assert still >= 30 and quiet >= 20
        assert not locks.offenders, locks.offenders[:5]
        assert others < 4 * len(users)
        figure(request, "%d looks at pg_locks with %d commands running, transactions seen in %d: the oldest was %.0f ms old" % (
            locks.samples, still, locks.busy, 1000 * locks.oldest))
        agree(stack)

    def test_provider_away(self, stack):
        """Explicit errors; nothing is rebuilt; all goes on by itself."""
        u = User(stack, "away")
        u.ended(u.execute(u.mark()[1]))
        run, lease = u.run()
        mark, command = u.mark(8)
        cid = u.start(run, lease, command)
        u.started(cid)
        was = u.sandbox()
        before = [unwell(node) for node in stack.nodes]
        stack.executor.kill()
        try:
            for node in stack.nodes:
                v = u.on(node)
                answer = v.call("POST", "/api/execute", v.body(v.mark()[1]))
                assert (answer.status, answer.code) == (503, "executor_unavailable") and answer.headers["Retry-After"], answer
                for what in ("rebuild", "pause", "release"):
                    answer = v.call("POST", "/api/user/sandbox/" + what)
                    assert answer.code == "control_plane_unavailable" and answer.status == 503, answer
                answer = v.call("GET", "/api/user/sandbox")
                assert (answer.status, answer.json["generation"]) == (200, was["generation"]), answer
                assert node.call("GET", "/readyz").status == 503 and "executor" in unwell(node)
            time.sleep(1)
            assert {k: v for k, v in u.sandbox().items() if k in ("instance_id", "generation")} == {k: was[k] for k in ("instance_id", "generation")}
        finally:
            stack.executor.start()
        until("both are ready again", lambda: [unwell(node) for node in stack.nodes] == before, 15, 0.1)
        end = u.ended(cid)
        assert (end["exit_code"], mark in end["stdout"]) == (0, True), end
        assert u.finish(run, lease).status == 200
        mark, command = u.mark()
        assert mark in u.ended(u.execute(command))["stdout"]
        assert u.sandbox()["instance_id"] == was["instance_id"]
        assert stack.provider.starts(stack)[u.marks[1]] == 1
        agree(stack)

    def test_control_plane_away(self, stack, request):
        """The executor is there, what it drives is not: degraded, explicit errors, nothing rebuilt; it recovers by itself."""
        u = User(stack, "nobody-there")
        u.ended(u.execute(u.mark()[1]))
        until("at rest", lambda: not u.unrest())
        was, before, made = u.sandbox(), [unwell(node) for node in stack.nodes], stack.provider.ever_made()
        with stack.provider.away(stack.executor):
            begin = time.monotonic()
            until("both know it", lambda: all(unwell(node) - b for node, b in zip(stack.nodes, before)), 5, 0.05)
            noticed = time.monotonic() - begin
            for node in stack.nodes:
                answer = node.call("GET", "/readyz")
                assert (answer.status, answer.json["status"]) == (503, "degraded"), answer
                for what in ("rebuild", "pause", "release"):
                    answer = u.on(node).call("POST", "/api/user/sandbox/" + what)
                    assert (answer.status, answer.code) == (503, "control_plane_unavailable"), answer
                assert u.on(node).call("GET", "/api/user/sandbox").status == 200
            begin = time.monotonic()
        until("both are ready again", lambda: [unwell(node) for node in stack.nodes] == before, 15, 0.1)
        back = time.monotonic() - begin
        now = u.sandbox()
        assert (now["instance_id"], now["generation"], now["state"]) == (was["instance_id"], was["generation"], "ready")
        assert stack.provider.ever_made() == made
        assert u.ended(u.execute(u.mark()[1]))["exit_code"] == 0
        agree(stack)
        figure(request, "control plane away: known after %.1f s, ready again after %.1f s" % (noticed, back))

    def test_rebuild_is_refused_during_a_file_operation(self, stack):
        """It is on record and in the executor as what it is: it has the base environment alone."""
        u = User(stack, "filer")
        cid = u.file_operation("env; tee notes")
        u.started(cid)
        until("its sandbox is on record as up", lambda: u.sandbox()["state"] == "ready")
        was = u.sandbox()
        assert stack.session.one("SELECT kind FROM sandbox_commands WHERE id = '%s'" % cid) == "file"
        for node in stack.nodes:
            for what in ("rebuild", "release"):
                assert blockers(u.on(node), what) == {"active_runs", "active_operations"}   # it has a Run of its own
            assert blockers(u.on(node), "pause") == {"active_operations"}
            assert u.on(node).call("GET", "/api/user/sandbox").json["active_operations"] == 1
        u.leave_idle()
        time.sleep(0.5)   # several rounds of both janitors
        assert u.sandbox()["state"] == "ready"
        assert u.call("POST", "/api/commands/%s/stdin?eof=1" % cid, "kept").status == 202
        end = u.ended(cid)
        assert end["exit_code"] == 0 and "HOME=/home/user\n" in end["stdout"] and "PADDOCK_" not in end["stdout"], end
        assert stack.session.one("SELECT DISTINCT reason FROM sb_usage_log l JOIN users u ON u.id = l.user_id WHERE u.name = 'filer'") == "file_operation"
        assert "PADDOCK_PROJECT_DIR=" in u.ended(u.execute("env"))["stdout"]
        until("at rest", lambda: not u.unrest())
        assert (u.sandbox()["instance_id"], u.sandbox()["generation"]) == (was["instance_id"], was["generation"])
        assert u.again("POST", "/api/user/sandbox/rebuild").json["generation"] == was["generation"] + 1
        until("the new one is there", lambda: u.sandbox()["state"] == "ready")
        assert "kept" in u.ended(u.execute("cat notes"))["stdout"]
        agree(stack)


@pytest.mark.skipif(not Scripted.available(BUILD), reason="the scripted provider is not built")
class TestScripted(TwoNodes):
    kind = Scripted

    def test_rebuild_is_refused_while_something_goes_on(self, stack):
        u = User(stack, "blocked")
        run, lease = u.run()
        cid = u.start(run, lease, u.mark(600)[1])
        u.started(cid)
        was = u.sandbox()
        assert blockers(u) == {"active_runs", "active_operations"}

        # Its command does not die.
        stack.provider.truth.script("exec_kill silent", "scope_end silent")
        u.cancel(run)
        assert blockers(u) == {"cancel_requested", "active_operations"}
        stack.provider.truth.script("scope_end silent")
        until("its command is killed", lambda: u.command(cid)["status"] == "exited")
        until("it is cancelled", lambda: u.get_run(run)["status"] == "cancelled")
        assert u.get_run(run)["runtime_cleanup_pending"] and blockers(u) == {"cleanup_pending"}
        stack.provider.truth.script()
        until("it is cleaned up", lambda: not u.get_run(run)["runtime_cleanup_pending"], 40)
        until("at rest", lambda: not u.unrest())
        assert u.sandbox()["generation"] == was["generation"] and u.sandbox()["instance_id"] == was["instance_id"]
        assert u.again("POST", "/api/user/sandbox/rebuild").json["generation"] == was["generation"] + 1
        until("the new one is there", lambda: u.sandbox()["state"] == "ready")
        assert u.ended(u.execute(u.mark()[1]))["exit_code"] == 0
        agree(stack)


def lose_books(stack):
    """The executor is killed, its state directory emptied; it is still down."""
    stack.executor.kill()
    subprocess.run(["find", stack.executor.root + "/state", "-mindepth", "1", "-delete"], check=True)


def running(stack, seconds):
    """What the Run below has started and runs."""
    if isinstance(stack.provider, Scripted):
        return stack.provider.truth.running()
    return subprocess.run(["pgrep", "-f", "^sleep %d$" % seconds], stdout=subprocess.PIPE, check=False).stdout.split()


@pytest.mark.parametrize("kind", [Scripted, Host], ids=lambda k: k.name)
def test_the_executor_loses_its_books(cluster, kind):
    """What it had made lives on, is its user's as before, and counts on. What a Run has started there, also what was left in the background, is dead before anybody
    is told that it is cleaned up."""
    if not kind.available(BUILD):
        pytest.skip("provider %s cannot be had here" % kind.name)
    with Stack(cluster, kind, nodes=2) as stack:
        u, idle, seconds = User(stack, "bookless"), User(stack, "asleep", stack.nodes[1]), random.randrange(7000000, 8000000)
        idle.ended(idle.execute(idle.mark()[1]))
        assert idle.again("POST", "/api/user/sandbox/pause").status == 200
        until("it is paused", lambda: idle.sandbox()["state"] == "paused")
        run, lease = u.run()
        for command in ("bg 300; sleep 300",) if kind is Scripted else ("setsid sleep %d >/dev/null 2>&1 & echo x" % seconds, "exec sleep %d" % seconds):
            u.started(u.start(run, lease, command))
        until("it runs", lambda: len(running(stack, seconds)) == (1 if kind is Scripted else 2))
        was, made = {v.name: v.sandbox() for v in (u, idle)}, stack.provider.ever_made()
        lose_books(stack)
        u.cancel(run)
        time.sleep(0.5)
        assert u.get_run(run)["runtime_cleanup_pending"] or u.get_run(run)["status"] == "cancel_requested"
        if kind is Scripted:
            stack.provider.truth.script("adopt reject unavailable times 2", "scope_end refuse unavailable times 1")
        stack.executor.start()
        until("it is cleaned up", lambda: u.get_run(run)["status"] == "cancelled" and not u.get_run(run)["runtime_cleanup_pending"], 90)
        assert not running(stack, seconds)
        for v in (u, idle):
            assert v.ended(v.on(stack.nodes[1]).execute(v.mark()[1]))["exit_code"] == 0
            until("at rest", lambda v=v: not v.unrest())
            now = v.sandbox()
            assert [now[k] for k in ("state", "instance_id", "generation")] == ["ready", was[v.name]["instance_id"], was[v.name]["generation"]]
            assert now["usage_ms"] >= was[v.name]["usage_ms"]
        assert stack.provider.ever_made() == made
        agree(stack)
        assert u.again("POST", "/api/user/sandbox/rebuild").json["generation"] == was[u.name]["generation"] + 1
        until("the new one is there", lambda: u.sandbox()["state"] == "ready")
        agree(stack)
        assert sorted(stack.provider.instances(stack.executor)) == sorted(v.sandbox()["instance_id"] for v in (u, idle))


@pytest.mark.parametrize("way", ["rebuild", "release"])
@pytest.mark.parametrize("kind", [Scripted, Host], ids=lambda k: k.name)
def test_replaced_when_the_books_were_lost(cluster, kind, way):
    """The next one is made when that one is gone, and not a moment before."""
    if not kind.available(BUILD):
        pytest.skip("provider %s cannot be had here" % kind.name)
    with Stack(cluster, kind, nodes=2) as stack:
        u = User(stack, "bookless")
        u.ended(u.execute(u.mark()[1]))
        until("at rest", lambda: not u.unrest())
        was = u.sandbox()
        lose_books(stack)
        if kind is Scripted:
            stack.provider.truth.script("destroy reject unavailable times 1", "destroy late 500")
        stack.executor.start()
        u.on(stack.nodes[1]).again("POST", "/api/user/sandbox/" + way)
        assert u.ended(u.execute(u.mark()[1]))["exit_code"] == 0
        until("at rest", lambda: not u.unrest())
        now = u.sandbox()
        assert (now["state"], now["generation"]) == ("ready", was["generation"] + 1) and now["instance_id"] != was["instance_id"]
        assert list(stack.provider.instances(stack.executor)) == [now["instance_id"]]
        agree(stack)


def test_it_vanishes_with_the_books(cluster):
    """Nothing is made in silence: its user is told."""
    with Stack(cluster, Scripted, nodes=2) as stack:
        u = User(stack, "nothing-left")
        u.ended(u.execute(u.mark()[1]))
        until("at rest", lambda: not u.unrest())
        was = u.sandbox()
        stack.provider.vanish(stack.executor, was["instance_id"])
        lose_books(stack)
        stack.executor.start()
        until("it is known to be lost", lambda: u.sandbox()["state"] == "error", 60)
        assert (u.sandbox()["error_code"], u.sandbox()["generation"]) == ("sandbox_not_found", was["generation"])
        assert not stack.provider.instances(stack.executor)
        u.again("POST", "/api/user/sandbox/rebuild")
        assert u.ended(u.execute(u.mark()[1]))["exit_code"] == 0
        agree(stack)


class Hasty(Host):
    host = {"create_timeout_ms": 4000}


@pytest.mark.skipif(not Host.available(BUILD), reason="provider host needs its programs, uidmap and root")
class TestHost(TwoNodes):
    kind = Host

    def test_rebuild_takes_the_home_and_leaves_the_workspace(self, stack):
        u = User(stack, "mover")
        assert u.ended(u.execute("echo software >~/tool; echo work >/home/user/workspace/notes"))["exit_code"] == 0
        until("at rest", lambda: not u.unrest())
        was = u.sandbox()
        assert u.on(stack.nodes[1]).again("POST", "/api/user/sandbox/rebuild").json["generation"] == was["generation"] + 1
        until("the new one is there", lambda: u.sandbox()["state"] == "ready")
        end = u.ended(u.execute("cat /home/user/workspace/notes; ls ~/tool"))
        assert (end["stdout"], end["exit_code"] != 0) == ("work\n", True), end
        assert was["instance_id"] not in stack.provider.instances(stack.executor)
        agree(stack)

    def test_launcher_away(self, stack, request):
        """What needs it waits and is done when it is back; what runs goes on."""
        u, late, idle = (User(stack, "while-away-" + name) for name in ("runs", "new", "idle"))
        for v in (u, idle):
            v.ended(v.execute(v.mark()[1]))
        assert idle.again("POST", "/api/user/sandbox/pause").status == 200
        until("it is paused", lambda: idle.sandbox()["state"] == "paused")
        was, made = {v.name: v.sandbox() for v in (u, idle)}, stack.provider.ever_made()
        run, lease = u.run()
        mark, command = u.mark(4)
        long = u.start(run, lease, command)
        u.started(long)
        with stack.provider.away(stack.executor):
            cids = [(v, v.on(node).execute(v.mark()[1])) for v, node in zip((late, idle), stack.nodes)]
            assert u.ended(u.execute(u.mark()[1]))["exit_code"] == 0
            time.sleep(1)
            assert [v.command(cid)["status"] for v, cid in cids] == ["pending", "pending"]
            assert (late.sandbox()["state"], idle.sandbox()["state"]) == ("creating", "waking")
        begin = time.monotonic()
        for v, cid in cids:
            assert v.ended(cid)["exit_code"] == 0
        took = time.monotonic() - begin
        assert mark in u.ended(long)["stdout"] and u.finish(run, lease).status == 200
        for v in (u, idle):
            assert (v.sandbox()["instance_id"], v.sandbox()["generation"]) == (was[v.name]["instance_id"], was[v.name]["generation"])
        assert stack.provider.ever_made() == made + 1
        starts = stack.provider.starts(stack)
        assert all(starts[m] == 1 for v in (u, late, idle) for m in v.marks)
        agree(stack)
        figure(request, "launcher away: what had waited for it was done %.1f s after its return" % took)

    def test_launcher_away_for_too_long(self, cluster):
        """What needs it and cannot wait any longer gets an explicit error. Nobody loses his sandbox, and the next use is as ever."""
        with Stack(cluster, Hasty, nodes=2) as stack:
            late, idle = User(stack, "new"), User(stack, "idle", stack.nodes[1])
            idle.ended(idle.execute(idle.mark()[1]))
            assert idle.again("POST", "/api/user/sandbox/pause").status == 200
            until("it is paused", lambda: idle.sandbox()["state"] == "paused")
            was = idle.sandbox()
            with stack.provider.away(stack.executor):
                for v, code in ((late, "instance_failed"), (idle, "wake_failed")):
                    end = v.ended(v.execute(v.mark()[1]))
                    assert (end["reason"], end["error"]["code"]) == ("not_started", code), end
                until("it is paused again", lambda: idle.sandbox()["state"] == "paused")
                assert (idle.sandbox()["instance_id"], idle.sandbox()["generation"]) == (was["instance_id"], was["generation"])
            for v in (late, idle):
                mark, command = v.mark()
                assert mark in v.ended(v.execute(command))["stdout"]
                assert stack.provider.starts(stack)[v.marks[-2]] == 0
            assert idle.sandbox()["instance_id"] == was["instance_id"]
            agree(stack)

    def test_keeper_is_killed(self, stack):
        """Its sandbox ends with what runs in it, and stays its user's: the next use wakes it. The others notice nothing."""
        u, other = User(stack, "kept"), User(stack, "kept-not")
        run, lease = u.run()
        cid, calm = u.start(run, lease, u.mark(600)[1]), other.execute(other.mark(3)[1])
        for v, c in ((u, cid), (other, calm)):
            v.started(c)
        was, before = u.sandbox(), [unwell(node) for node in stack.nodes]
        os.kill(stack.executor.run_record(was["instance_id"])["keeper"], signal.SIGKILL)
        end = u.ended(cid)
        assert end["status"] == "lost", end
        assert [unwell(node) for node in stack.nodes] == before
        assert u.finish(run, lease).status in (200, 409)
        mark, command = u.mark()
        assert mark in u.ended(u.on(stack.nodes[1]).execute(command))["stdout"]
        assert (u.sandbox()["instance_id"], u.sandbox()["generation"]) == (was["instance_id"], was["generation"])
        assert other.ended(calm)["exit_code"] == 0
        starts = stack.provider.starts(stack)
        assert all(starts[m] == 1 for v in (u, other) for m in v.marks)
        agree(stack)


class Clock:
    """The wall clock of a node."""

    def __init__(self, path):
        self.path = path
        self.set_hours(0)

    def set_hours(self, hours):
        with open(self.path, "r+b" if os.path.exists(self.path) else "wb") as f:
            f.write(struct.pack("=q", hours * 3600000))


@pytest.mark.skipif("asan" in subprocess.run(["ldd", BUILD + "/paddock-api"], capture_output=True, text=True, check=False).stdout, reason="the shim would come first")
def test_clock_steps_harm_no_lease(cluster):
    """The application's clock leaps by an hour, forward and back: database time decides."""
    with contextlib.ExitStack() as exits:
        stack = Stack(cluster, Unshare, nodes=2, runs_max_attempts=2)
        clocks = []
        for i, node in enumerate(stack.nodes):
            clocks.append(Clock("%s/clock%d" % (stack.root, i)))
            node.env = {"LD_PRELOAD": BUILD + "/tests/lib/clock_shift.so", "CLOCK_SHIFT_FILE": clocks[-1].path}
        exits.enter_context(stack)
        users = [User(stack, "time%d" % i, stack.nodes[i % 2]) for i in range(4)]
        held = []
        for u in users:
            run, lease = u.run(lease_ms=15000)
            held.append((u, run, lease, u.start(run, lease, u.mark(12)[1])))
        for hours in (1, -1, 0, 1):
            for i, c in enumerate(clocks):
                c.set_hours(hours if i == 0 else -hours)
            made = users[0].again("POST", "/api/runs", {"thread_id": "later"}).json["id"]
            ahead = int(made.replace("-", "")[:12], 16) / 1000 - time.time()
            assert ahead > 3600 * hours - 60, "the clock did not step"   # ids of one process never go back
            time.sleep(1.2)   # several rounds of both janitors
            for u, run, lease, _ in held:
                for node in stack.nodes:
                    answer = u.on(node).call("POST", "/api/runs/%s/heartbeat" % run, {"lease_token": lease, "lease_ms": 15000})
                    assert answer.status == 200, answer
        for u, run, lease, cid in held:
            assert u.ended(cid)["exit_code"] == 0
            assert u.finish(run, lease).status == 200
            assert u.get_run(run)["attempt"] == 1
        # One that is not renewed expires in the database's time, whatever the application's clock says: neither at once nor an hour late.
        u = users[0]
        run, lease = u.run(lease_ms=3000)
        clocks[0].set_hours(-1)
        clocks[1].set_hours(1)
        time.sleep(1)
        assert u.get_run(run)["status"] == "running"
        until("it is offered again", lambda: u.get_run(run)["status"] == "pending", 10)
        assert not stack.settle(40)
        assert not stack.disagreements()
