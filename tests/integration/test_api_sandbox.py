"""What users, admins and operators see of users' sandboxes, through paddock-api and paddockctl. The states of a sandbox are put into the database by hand."""

import json
import os
import subprocess
import time
import uuid

import pytest

from conftest import BUILD, wait_for

MEMBERS = {"backend", "provider", "capabilities", "status", "generation", "paused", "sandbox_id", "created_at", "last_activity_at", "idle_timeout_ms", "total_usage_seconds",
           "active_runs", "active_operations", "cleanup_pending", "rebuild", "warnings", "error"}
SANDBOX = "/api/user/sandbox"


def put(api, user, state, provider="host"):
    """A sandbox of the user's in this state; its instance's id."""
    instance = str(uuid.uuid4())
    forget(api, user)
    if state == "none":
        api.db.sql("INSERT INTO user_sandboxes (user_id, provider, state, generation, op_at) SELECT id, '%s', 'none', 3, now() FROM users WHERE name = '%s'" % (provider, user))
        return None
    moving = state in ("creating", "rebuilding", "pausing", "waking")
    api.db.sql("INSERT INTO user_sandboxes (user_id, provider, state, generation, instance_id, op_id, op_at, created_at, last_activity_at) "
               "SELECT id, '%s', '%s', 3, '%s', %s, now(), now(), now() FROM users WHERE name = '%s'"
               % (provider, state, instance, "gen_random_uuid()" if moving else "NULL", user))
    api.db.sql("INSERT INTO instances (id, user_id, workspace, generation) SELECT '%s', id, name, 3 FROM users WHERE name = '%s'" % (instance, user))
    return instance


def forget(api, user):
    whose = "user_id = (SELECT id FROM users WHERE name = '%s')" % user
    api.db.sql("DELETE FROM user_sandboxes WHERE %s; DELETE FROM instances WHERE run_id IS NULL AND %s; DELETE FROM sb_usage_log WHERE %s" % (whose, whose, whose))


def quarantined(api, user, error=None, never=True):
    ident = str(uuid.uuid4())
    api.db.sql("INSERT INTO instances (id, user_id, workspace, generation, retired_at, destroy_next_at, destroy_tries, destroy_error, quarantined_at) "
               "SELECT '%s', id, name, 2, now(), %s, 5, %s, now() FROM users WHERE name = '%s'"
               % (ident, "'infinity'" if never else "now() + interval '1 hour'", "'%s'" % error if error else "NULL", user))
    return ident


def ctl(api, *argv, code=0):
    done = subprocess.run([os.path.join(BUILD, "paddockctl"), "--config", api.conf, *argv], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, (done.stdout, done.stderr)
    return done.stdout if code == 0 else done.stderr


# --- a backend whose sandboxes are Runs' own ---

def test_per_run_containers_have_none(api):
    token = api.user("cora")
    o = api.get(SANDBOX, token=token).json
    assert set(o) == MEMBERS
    assert (o["backend"], o["provider"], o["status"], o["generation"], o["sandbox_id"], o["paused"], o["error"]) == ("container", "container", "none", 0, None, False, None)
    assert o["capabilities"] == {"persistent": False, "pause": False, "release": False, "mounts": True, "sudo": False}
    assert o["rebuild"] == {"allowed": False, "blockers": ["rebuild_unsupported"]}
    for call, code in (("rebuild", "rebuild_unsupported"), ("pause", "pause_unsupported"), ("release", "release_unsupported"), ("keep-alive", "keep_alive_unsupported")):
        a = api.post(SANDBOX + "/" + call, {}, token=token)
        assert (a.status, a.code) == (409, code), a
        assert "blockers" not in a.json
    run = api.post("/api/runs", {"thread_id": "t"}, token=token).json["id"]
    assert api.post("/api/runs/%s/commands" % run, {"command": "true", "background": True}, token=token).status == 202
    o = api.get(SANDBOX, token=token).json
    assert (o["active_runs"], o["active_operations"], o["cleanup_pending"]) == (1, 1, False)
    assert api.get(SANDBOX).json["active_operations"] == 0, "another user's"


def test_who_may_look(api):
    token, service = api.user("cleo"), api.user("robot", "service")
    assert api.get(SANDBOX, token=None).status == 401
    assert api.get(SANDBOX, token=api.user("eve", "e2b")).status == 403
    assert api.get(SANDBOX, token=service).code == "user_header_required"
    assert api.get(SANDBOX, token=service, headers={"X-Paddock-User": "nobody-here"}).code == "unknown_user"
    assert api.get(SANDBOX, token=token, headers={"X-Paddock-User": "ada"}).code == "forbidden"
    assert api.get(SANDBOX, token=service, headers={"X-Paddock-User": "cleo"}).status == 200
    assert api.get(SANDBOX + "?user=ada", token=token).code == "unknown_parameter"
    assert api.call("HEAD", SANDBOX, token=token).status == 200
    assert api.call("DELETE", SANDBOX, token=token).status == 405


def test_bodies_of_moves(api):
    for call in ("rebuild", "pause", "release"):
        assert api.post(SANDBOX + "/" + call, {"force": True}).code == "unknown_field"
        assert api.call("POST", SANDBOX + "/" + call, b"[]").code == "bad_json"
        assert api.call("POST", SANDBOX + "/" + call, b"").status == 409
    assert api.post(SANDBOX + "/keep-alive", {"timeout_ms": "1"}).code == "bad_field"
    assert api.post(SANDBOX + "/keep-alive", {"timeout": 1}).code == "unknown_field"


# --- how long ---

def stretch(api, user, begin, end, ms, reason, run=None):
    api.db.sql("INSERT INTO sb_usage_log (user_id, instance_id, generation, provider, reason, run_id, started_at, ended_at, ms) "
               "SELECT id, gen_random_uuid(), 1, 'host', '%s', %s, '%s', '%s', %d FROM users WHERE name = '%s'"
               % (reason, "'%s'" % run if run else "NULL", begin, end, ms, user))


def test_usage(api):
    token, other, run = api.user("uma"), api.user("udo"), str(uuid.uuid4())
    stretch(api, "uma", "2026-03-01T23:30:00Z", "2026-03-02T00:30:00Z", 1800000, "agent_run", run)
    stretch(api, "uma", "2026-03-05T10:00:00Z", "2026-03-05T10:00:02.5Z", 2500, "execute")
    get = lambda query, who=token: api.get("/api/user/usage?" + query, token=who)   # noqa: E731
    march = "from=2026-03-01&to=2026-04-01"
    assert get(march).json == {"from": "2026-03-01T00:00:00.000Z", "to": "2026-04-01T00:00:00.000Z", "by": "day", "total_seconds": 1802.5, "items": [
        {"day": "2026-03-05", "seconds": 2.5}, {"day": "2026-03-02", "seconds": 900}, {"day": "2026-03-01", "seconds": 900}]}
    assert get(march + "&by=run").json["items"] == [{"run_id": run, "seconds": 1800}, {"run_id": None, "seconds": 2.5}]
    assert get(march + "&by=reason").json["items"] == [{"reason": "agent_run", "seconds": 1800}, {"reason": "execute", "seconds": 2.5}]
    assert get("from=2026-03-02T00:15:00%2B00:00&to=2026-03-03").json["total_seconds"] == 450
    assert get(march, other).json["items"] == []
    assert api.get("/api/user/usage", token=None).status == 401


@pytest.mark.parametrize("query,status,code", [
    ("by=hour", 422, "bad_by"), ("by=", 422, "bad_by"), ("by=day%00", 400, "bad_query"), ("from=", 422, "bad_time"), ("from=2026-13-01", 422, "bad_time"),
    ("from=2026-02-02&to=2026-02-01", 422, "bad_time"), ("from=2026-02-02&to=2026-02-02", 422, "bad_time"), ("to=0", 422, "bad_time"),
    ("from=2024-01-01&to=2026-01-01", 422, "bad_time"), ("from=2026-01-01T00:00:00+01:00", 422, "bad_time"), ("from=%27%3B%20DROP%20TABLE%20users", 422, "bad_time"),
    ("from=%ff", 400, "bad_query"), ("from=2026-01-01&from=2026-01-02", 400, "duplicate_parameter"), ("until=now", 400, "unknown_parameter"),
    ("from=99999999999999999999-01-01", 422, "bad_time"), ("from=" + "1" * 3000, 422, "bad_time"), ("from=9999-12-31", 422, "bad_time"), ("by=run&by=run", 400, "duplicate_parameter")])
def test_bad_ranges(api, query, status, code):
    a = api.get("/api/user/usage?" + query)
    assert (a.status, a.code) == (status, code), a


# --- quarantine ---

def test_quarantine_is_for_admins(api):
    api.user("quin")
    admin, service = api.user("root", "admin", admin=True), api.user("robot", "service")
    ids = sorted([quarantined(api, "quin", "the engine said no"), quarantined(api, "quin"), quarantined(api, "quin", "it is stuck", never=False)])
    for who in ({"token": api.token}, {"token": service, "headers": {"X-Paddock-User": "root"}}):
        assert api.get("/api/admin/quarantine", **who).code == "admin_required"
        assert api.post("/api/admin/quarantine/%s/retire" % ids[0], **who).code == "admin_required"
    first = api.get("/api/admin/quarantine?limit=2", token=admin).json
    second = api.get("/api/admin/quarantine?limit=2&cursor=" + first["next_cursor"], token=admin).json
    items = first["items"] + second["items"]
    assert [i["id"] for i in items] == ids and second["next_cursor"] is None
    for i in items:
        assert (i["user"], i["generation"], i["tries"]) == ("quin", 2, 5) and "paddockctl sandboxes retire " + i["id"] in i["advice"]
    assert any("it is stuck" in i["advice"] for i in items)
    for query, code in (("limit=0", "bad_limit"), ("cursor=x", "bad_cursor"), ("all=1", "unknown_parameter")):
        assert api.get("/api/admin/quarantine?" + query, token=admin).code == code
    retire = "/api/admin/quarantine/%s/retire"
    a = api.post(retire % ids[0], token=admin)
    assert a.status == 204, a
    assert ("DELETE", "/v1/instances/%s?forget=1" % ids[0], 0) in api.executor.calls
    assert api.post(retire % ids[0], token=admin).status == 404
    assert api.post(retire % uuid.uuid4(), token=admin).status == 404
    assert api.post(retire % "x", token=admin).status == 404
    assert [i["id"] for i in api.get("/api/admin/quarantine", token=admin).json["items"]] == ids[1:]
    assert api.db.sql("SELECT count(*) FROM audit WHERE action = 'sandbox.retire' AND object = '%s'" % ids[0]) == "1"
    assert ctl(api, "sandboxes", "retire", ids[1]) == ""
    assert "there is no such" in ctl(api, "sandboxes", "retire", ids[1], code=1)
    forget(api, "quin")


# --- paddockctl ---

def test_ctl_lists_what_is_stuck(api):
    api.user("carl")
    instance = put(api, "carl", "waking", "daytona")
    api.db.sql("UPDATE user_sandboxes SET op_at = now() - interval '10 minutes' WHERE instance_id = '%s'" % instance)
    evil = "no\x1b[31m answer \u009b31m \u009d0;x\u009c \x7f\U0001f4a9"
    stuck = quarantined(api, "carl", evil)
    line = [text for text in ctl(api, "sandboxes").splitlines() if text.startswith("carl") and instance in text][0]
    for word in ("daytona", "waking", "without progress for 6", "of another provider", "1 former instance(s) not gone yet"):
        assert word in line, line
    everything = ctl(api, "sandboxes", "list")
    assert "retire " + stuck in everything and "\x1b" not in everything
    shown = ctl(api, "sandboxes", "show", "carl")
    assert instance in shown and "without progress" in shown
    for argv in ((), ("list",), ("show", "carl"), ("--json",), ("show", "carl", "--json")):
        assert all(c == "\n" or " " <= c <= "~" for c in ctl(api, "sandboxes", *argv)), argv
    o = json.loads(ctl(api, "sandboxes", "--json"))
    assert evil in [i["error"] for i in o["left"]]
    assert [s["instance_id"] for s in o["sandboxes"] if s["user"] == "carl"] == [instance] and stuck in [i["id"] for i in o["left"]]
    o = json.loads(ctl(api, "sandboxes", "show", "carl", "--json"))
    assert {s["user"] for s in o["sandboxes"] + o["left"]} == {"carl"} and len(o["sandboxes"][0]["stuck"]) == 3
    assert ctl(api, "sandboxes", "show", "nobody") == "nobody has no sandbox\n"
    forget(api, "carl")


def test_ctl_refuses_nonsense(api):
    for argv in (["show"], ["retry"], ["quarantine"], ["retire"], ["burn", "carl"], ["show", "a", "b"], ["--all"], ["retry", "carl", "--json"], ["list", "carl"]):
        assert "usage:" in ctl(api, "sandboxes", *argv, code=2), argv
    for argv in (["retry", "nobody-here"], ["quarantine", "nobody-here"], ["retire", "x"], ["retire", str(uuid.uuid4())]):
        assert "there is no such" in ctl(api, "sandboxes", *argv, code=1) or "has no sandbox" in ctl(api, "sandboxes", *argv, code=1)


def test_ctl_retry_and_quarantine(fresh):
    """The janitor, which would go on with it, is away: what retry leaves for it is looked at."""
    api = fresh
    api.user("rita")
    instance = put(api, "rita", "waking")
    left, stranger = quarantined(api, "rita", "later", never=False), quarantined(api, "rita")
    api.stop()
    ctl(api, "sandboxes", "retry", "rita")
    assert api.db.sql("SELECT op_at < now() - interval '59 minutes' FROM user_sandboxes WHERE instance_id = '%s'" % instance) == "t"
    assert api.db.sql("SELECT destroy_next_at <= now() FROM instances WHERE id = '%s'" % left) == "t"
    assert api.db.sql("SELECT destroy_next_at FROM instances WHERE id = '%s'" % stranger) == "infinity"
    assert api.db.sql("SELECT count(*) FROM audit WHERE action = 'sandbox.retry' AND object = 'rita'") == "1"
    ctl(api, "sandboxes", "quarantine", "rita")
    assert api.db.sql("SELECT state FROM user_sandboxes s JOIN users u ON u.id = s.user_id WHERE name = 'rita'") == "none"
    assert "has no sandbox" in ctl(api, "sandboxes", "quarantine", "rita", code=1)
    forget(api, "rita")


# --- a backend with sandboxes of users ---

@pytest.fixture(name="host")
def _host(world):
    """paddock-api with the backend host; its janitor rests, so that what was put into the database stays."""
    world.stop()
    world.configure(service_provider="host", host_i_understand="yes", janitor_interval_ms=3600000)
    check = subprocess.run([os.path.join(BUILD, "paddock-api"), "--config", world.conf, "--check"], capture_output=True, text=True, timeout=30, check=False)
    assert check.returncode == 0, check.stderr
    world.start()
    wait_for("the janitor's first round", lambda: world.children())
    yield world
    world.stop()


STATES = {"none": ("none", False), "creating": ("creating", False), "rebuilding": ("rebuilding", False), "ready": ("ready", True), "pausing": ("ready", True),
          "paused": ("paused", True), "waking": ("paused", True), "error": ("error", True)}


def test_every_status(host):
    token = host.user("hal")
    o = host.get(SANDBOX, token=token).json
    assert o["generation"] == 0 and any("processes of the server itself" in w for w in o["warnings"])
    for state, (status, has_id) in STATES.items():
        instance = put(host, "hal", state)
        o = host.get(SANDBOX, token=token).json
        assert set(o) == MEMBERS
        assert (o["backend"], o["provider"], o["status"], o["generation"], o["paused"]) == ("host", "host", status, 3, status == "paused"), state
        assert o["sandbox_id"] == (instance if has_id else None), state
        busy = state in ("creating", "rebuilding", "pausing", "waking")
        assert o["rebuild"] == {"allowed": not busy, "blockers": ["operation_in_progress"] if busy else []}
    assert host.get(SANDBOX).json["status"] == "none", "another user's"
    service = host.user("robot", "service")
    assert host.get(SANDBOX, token=service, headers={"X-Paddock-User": "hal"}).json["status"] == "error"
    forget(host, "hal")


def test_a_look_writes_nothing_and_asks_nobody(host):
    token = host.user("lou")
    put(host, "lou", "paused")
    rows = "SELECT s.xmin || ' ' || s.ctid || ' ' || s::text FROM user_sandboxes s JOIN users u ON u.id = s.user_id WHERE u.name = 'lou'"
    before, calls = host.db.sql(rows), [c for c in host.executor.calls if "instances" in c[1]]
    writes = "SELECT txid_snapshot_xmax(txid_current_snapshot())"
    first = host.db.sql(writes)
    for _ in range(50):
        assert host.get(SANDBOX, token=token).json["status"] == "paused"
    assert host.db.sql(rows) == before
    assert int(host.db.sql(writes)) - int(first) < 50, "not one transaction with a write a look"
    assert [c for c in host.executor.calls if "instances" in c[1]] == calls
    forget(host, "lou")


def test_a_look_costs_one_round_trip(host):
    """Who asks and what he sees is one statement."""
    token, looks = host.user("una"), 20
    put(host, "una", "ready")
    host.get(SANDBOX, token=token)
    log = host.db.dir + "/server.log"
    host.db.sql("ALTER ROLE paddock_api SET log_statement = 'all'")
    try:
        host.stop()
        host.start()   # sessions of its own
        for _ in range(looks):
            host.get(SANDBOX, token=token)
        time.sleep(0.2)
        begin = os.path.getsize(log)
        for _ in range(looks):
            assert host.get(SANDBOX, token=token).json["status"] == "ready"
        time.sleep(0.2)
        with open(log, encoding="utf-8", errors="replace") as f:
            f.seek(begin)
            seen = [line for line in f if "LOG:  execute " in line or "LOG:  statement: " in line]
    finally:
        host.db.sql("ALTER ROLE paddock_api RESET log_statement")
    looking, made = set(), []   # of the sessions that look, from their first look on: before it a session is set up, and others have the janitor's duties
    for line in seen:
        session = line[line.index("["):line.index("]")]
        if session in looking or "execute auth_sandbox" in line:
            looking.add(session)
            made.append(line)
    assert len(made) == looks and all("execute auth_sandbox" in line for line in made), made[:4]
    forget(host, "una")


def test_what_is_in_the_way_is_named(host):
    token = host.user("bea")
    instance = put(host, "bea", "ready")
    host.db.sql("INSERT INTO runs (id, user_id, thread_id, status, backend, workdir, timeout_ms, max_attempts, attempt, started_at, deadline_at) SELECT gen_random_uuid(), id, 't', "
                "'running', 'host', '/home/user/workspace', 1000000, 1, 1, now(), now() + interval '1 hour' FROM users WHERE name = 'bea'")
    for call in ("rebuild", "release"):
        a = host.post(SANDBOX + "/" + call, token=token)
        assert (a.status, a.code, a.json["blockers"]) == (409, "sandbox_busy", ["active_runs"]), a
    assert host.get(SANDBOX, token=token).json["rebuild"] == {"allowed": False, "blockers": ["active_runs"]}
    assert host.get(SANDBOX, token=token).json["sandbox_id"] == instance
    assert host.post(SANDBOX + "/keep-alive", {"timeout_ms": 0}, token=token).code == "bad_timeout"
    assert host.post(SANDBOX + "/keep-alive", {"timeout_ms": 604800001}, token=token).code == "bad_timeout"
    forget(host, "bea")


def test_rebuild_and_release(host):
    token = host.user("rob")
    old = put(host, "rob", "ready")
    a = host.post(SANDBOX + "/rebuild", token=token)
    assert (a.status, a.json["status"], a.json["generation"]) == (200, "rebuilding", 4), a
    assert a.json["sandbox_id"] is None
    assert host.post(SANDBOX + "/rebuild", token=token).json["blockers"] == ["operation_in_progress"]
    assert old != host.db.sql("SELECT instance_id FROM user_sandboxes s JOIN users u ON u.id = s.user_id WHERE name = 'rob'")
    put(host, "rob", "ready")
    a = host.post(SANDBOX + "/release", token=token)
    assert (a.status, a.json["status"], a.json["sandbox_id"], a.json["generation"]) == (200, "none", None, 3), a
    assert host.post(SANDBOX + "/release", token=token).status == 200, "nothing to give up"
    forget(host, "rob")
