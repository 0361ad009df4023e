"""A user's own sandbox, end to end: made once, shared by his Runs, asleep and awake, rebuilt, released, lost out loud, accounted for."""

import os
import shutil
import signal
import threading
import time
import uuid

import pytest

from paddock import wait_for

pytestmark = pytest.mark.persistent


def sandbox(user):
    return user.get("/api/user/sandbox").ok(200).json


def move(user, what, body=None):
    return user.post("/api/user/sandbox/" + what, body or {})


def settled(user, *statuses):
    return wait_for("the sandbox is %s" % (statuses,), lambda: (s := sandbox(user))["status"] in statuses and s, 30)


def directory(inst, instance):
    return "/var/lib/paddock%s/sandboxes/%s" % ("-" + inst.name if inst.name else "", instance)


def agent_of(inst, instance):
    """The agent's pid, as the provider wrote it down."""
    with open(directory(inst, instance) + "/run", encoding="utf-8") as f:
        return int(next(line for line in f if line.startswith("agent ")).split()[1])


@pytest.fixture
def own(inst):
    """A user whose sandbox nobody else touches."""
    client = inst.user()
    yield client
    client.close()


def test_there_is_none_before_the_first_use(own):
    before = sandbox(own)
    assert (before["status"], before["generation"], before["sandbox_id"]) == ("none", 0, None)
    assert before["capabilities"] == {"persistent": True, "pause": True, "release": True, "mounts": True, "sudo": False}
    assert any("host" in w for w in before["warnings"]), "it says what it is in every answer"
    assert sandbox(own) == before, "looking makes none"


def test_runs_share_it_side_by_side(own):
    """R1.5, R2.10: Threads share home and software; each Run has its own commands, ended with it alone."""
    a, ta = own.claimed()
    b, tb = own.claimed()
    first = own.background(a["id"], "echo mine > ~/shared; exec sleep 300", lease_token=ta)
    own.wait_running(first["id"])
    second = own.background(b["id"], "sleep 300", lease_token=tb)
    own.wait_running(second["id"])
    assert own.command(b["id"], "cat ~/shared", lease_token=tb)["stdout"] == "mine\n"
    left = own.command(a["id"], "setsid sleep 4321 >/dev/null 2>&1 & echo $!", lease_token=ta)
    assert left["exit_code"] == 0
    own.finish(a["id"], ta).ok(200)
    assert own.wait_command(first["id"])["reason"] == "cancelled"
    own.wait_run(a["id"])
    assert own.get_command(second["id"])["status"] == "running", "another Run's command goes on"
    assert own.command(b["id"], "pgrep -fc 'sleep 432[1]'", lease_token=tb)["stdout"] == "0\n", "what a Run left in the background goes with it"
    own.finish(b["id"], tb).ok(200)
    own.wait_run(b["id"])
    assert sandbox(own)["generation"] == 1


def test_asleep_and_awake(own):
    own.execute("echo soft > ~/soft; echo hard > ~/workspace/hard")
    paused = move(own, "pause").ok(200).json
    paused = paused if paused["paused"] else settled(own, "paused")
    used = paused["total_usage_seconds"]
    time.sleep(2.5)
    assert sandbox(own)["total_usage_seconds"] == used, "asleep costs nothing, and looking does not wake"
    assert own.execute("cat ~/soft ~/workspace/hard")["stdout"] == "soft\nhard\n"
    after = settled(own, "ready")
    assert after["generation"] == 1 and after["sandbox_id"] == paused["sandbox_id"], "the same one"


def test_nothing_is_paused_under_a_command(own):
    run, token = own.claimed()
    command = own.background(run["id"], "sleep 300", lease_token=token)
    own.wait_running(command["id"])
    answer = move(own, "pause")
    assert (answer.status, answer.code) == (409, "sandbox_busy") and answer.json["blockers"] == ["active_operations"]
    assert own.get_command(command["id"])["status"] == "running"
    own.cancel(run["id"]).ok(200)
    own.wait_run(run["id"])


def test_rebuild(own):
    """R3.7: software and home go, the Workspace stays, the generation counts; what is going on stands in the way."""
    run, token = own.claimed()
    own.command(run["id"], "echo soft > ~/soft; echo hard > ~/workspace/hard", lease_token=token)
    answer = move(own, "rebuild")
    assert (answer.status, answer.code, answer.json["blockers"]) == (409, "sandbox_busy", ["active_runs"])
    command = own.background(run["id"], "sleep 300", lease_token=token)
    own.wait_running(command["id"])
    assert move(own, "rebuild").json["blockers"] == ["active_runs", "active_operations"]
    assert sandbox(own)["rebuild"] == {"allowed": False, "blockers": ["active_runs", "active_operations"]}
    own.cancel(run["id"]).ok(200)
    own.wait_run(run["id"])
    before = sandbox(own)
    after = move(own, "rebuild").ok(200).json
    assert after["generation"] == before["generation"] + 1 and after["status"] in ("rebuilding", "ready")
    assert own.execute("cat ~/workspace/hard; ls ~/soft")["stdout"] == "hard\n"
    assert settled(own, "ready")["sandbox_id"] != before["sandbox_id"]


def test_release(own):
    own.execute("echo soft > ~/soft")
    assert move(own, "release").ok(200).json["status"] == "none"
    assert own.execute("ls ~/soft")["exit_code"] != 0
    assert sandbox(own)["generation"] == 2


def test_keep_alive(own):
    own.execute("true")
    assert move(own, "keep-alive", {"timeout_ms": 2 * 86400000}).ok(200).json["idle_timeout_ms"] > 86400000
    kept = move(own, "keep-alive", {"timeout_ms": 3600000}).ok(200).json
    assert kept["idle_timeout_ms"] > 86400000, "it only lengthens"
    for bad in (0, -1, 2 ** 62):
        assert move(own, "keep-alive", {"timeout_ms": bad}).status == 422


def test_first_uses_at_once_make_one(own, inst):
    answers, threads = [], []
    for _ in range(12):
        client = own.clone()
        threads.append(threading.Thread(target=lambda c=client: answers.append(c.execute("echo ok")["stdout"])))
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert answers == ["ok\n"] * 12
    assert sandbox(own)["generation"] == 1
    assert str(inst.value("SELECT count(*) FROM instances i JOIN users u ON u.id = i.user_id WHERE u.name = '%s'" % own.name)) == "1"


def test_its_processes_are_killed(own, inst):
    """The agent dies: running commands are lost, the files are not; the next command starts it again."""
    own.execute("echo soft > ~/soft")
    run, token = own.claimed()
    command = own.background(run["id"], "sleep 300", lease_token=token)
    own.wait_running(command["id"])
    os.kill(agent_of(inst, settled(own, "ready")["sandbox_id"]), signal.SIGKILL)
    assert own.wait_command(command["id"])["status"] == "lost"
    assert own.command(run["id"], "cat ~/soft", lease_token=token)["stdout"] == "soft\n"
    own.finish(run["id"], token).ok(200)


def test_it_vanishes(own, inst):
    """R3.5, R3.6: an explicit error, never a silent rebuild; with_sandbox is the one exception."""
    own.execute("true")
    move(own, "pause").ok(200)
    gone = settled(own, "paused")
    shutil.rmtree(directory(inst, gone["sandbox_id"]))
    answer = own.post("/api/execute", {"command": "echo here"})
    assert (answer.status, answer.code) == (409, "sandbox_not_found"), answer
    lost = settled(own, "error")
    assert lost["error"]["code"] == "sandbox_not_found" and lost["generation"] == 1 and lost["rebuild"]["allowed"]
    again = own.post("/api/execute", {"command": "echo here"})
    assert (again.status, again.code) == (409, "sandbox_not_found"), "still: nothing is made in silence"
    assert own.execute("echo here", with_sandbox=True)["stdout"] == "here\n"
    assert settled(own, "ready")["generation"] == 2
    # Found out on the way: the command itself is started once more.
    move(own, "pause").ok(200)
    gone = settled(own, "paused")
    shutil.rmtree(directory(inst, gone["sandbox_id"]))
    run, token = own.claimed()
    assert own.command(run["id"], "echo here", lease_token=token, with_sandbox=True)["stdout"] == "here\n"
    rows = own.get("/api/runs/%s/commands" % run["id"]).ok(200).json["items"]
    assert [(c["reason"], (c.get("error") or {}).get("code")) for c in rows] == [("not_started", "sandbox_not_found"), ("exited", None)]
    assert settled(own, "ready")["generation"] == 3
    own.finish(run["id"], token).ok(200)


def test_usage_adds_up(own):
    own.execute("sleep 1.2")
    move(own, "pause").ok(200)
    total = settled(own, "paused")["total_usage_seconds"]
    for by in ("day", "run", "reason"):
        usage = own.get("/api/user/usage?by=" + by).ok(200).json
        assert abs(sum(i["seconds"] for i in usage["items"]) - usage["total_seconds"]) < 0.01
        assert total <= usage["total_seconds"] < total + 1


def test_somebody_elses_is_out_of_sight(own, inst):
    stranger = inst.user()
    own.execute("echo secret > ~/secret; echo secret > ~/workspace/secret")
    seen = stranger.execute("cat /home/user/secret /home/user/workspace/secret; find / -name secret 2>/dev/null; ls /var/lib /run/paddock* 2>&1")
    assert "secret\n" not in seen["stdout"]
    assert settled(stranger, "ready")["sandbox_id"] != settled(own, "ready")["sandbox_id"]
    stranger.close()


def test_the_service_dies_and_nothing_is_lost(own, inst):
    """R3.5, R6.3: the executor is killed under a command: it goes on, and its output is whole."""
    run, token = own.claimed("kill-" + uuid.uuid4().hex)
    command = own.background(run["id"], "for i in $(seq 1 30); do echo $i; sleep 0.1; done", lease_token=token)
    own.wait_running(command["id"])
    old = inst.pids("executor")
    inst.kill(old[0])
    inst.wait_replaced("executor", old)
    inst.wait_ready(60)
    ended = own.wait_command(command["id"])
    assert ended["reason"] == "exited" and ended["stdout"] == "".join("%d\n" % i for i in range(1, 31))
    assert sandbox(own)["generation"] == 1
    own.finish(run["id"], token).ok(200)


def test_the_audit_has_all_of_it(own, inst):
    own.execute("true")
    move(own, "pause").ok(200)
    settled(own, "paused")
    own.execute("true")
    move(own, "rebuild").ok(200)
    settled(own, "ready")
    move(own, "release").ok(200)
    actions = inst.value("SELECT string_agg(DISTINCT action, ' ' ORDER BY action) FROM audit_log a JOIN users u ON u.id = a.user_id "
                         "WHERE u.name = '%s' AND action LIKE 'sandbox.%%'" % own.name)
    assert set(actions.split()) >= {"sandbox.create", "sandbox.pause", "sandbox.paused", "sandbox.wake", "sandbox.rebuild", "sandbox.release"}
