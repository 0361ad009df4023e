"""Runs: create, claim, heartbeat, finish, cancel, expiry, attempts, clean-up; what lasts inside a Run and what does not."""

import threading
import time
import uuid

import pytest

from paddock import wait_for

FIELDS = {"id", "thread_id", "user", "status", "attempt", "backend", "project_id", "workdir", "input", "metadata", "runtime_cleanup_pending",
          "lease", "error", "created_at", "started_at", "ended_at", "successor_id"}


def test_a_new_run_is_pending(user):
    run = user.run("thread-a", input={"text": "é"}, metadata={"k": [1, None]})
    assert set(run) >= FIELDS
    assert (run["status"], run["attempt"], run["lease"], run["ended_at"]) == ("pending", 0, None, None)
    assert run["input"] == {"text": "é"} and run["metadata"] == {"k": [1, None]} and run["user"] == user.name
    assert run["backend"] in ("container", "host") and run["workdir"] == "/home/user/workspace" and "lease_token" not in run
    assert user.get_run(run["id"]) == run
    user.cancel(run["id"])


def test_claim_on_creation(user):
    """R2.1: a claimed Run is running and has a lease."""
    run, token = user.claimed()
    assert run["status"] == "running" and run["attempt"] == 1 and token
    assert run["lease"]["owner"] == "test" and run["lease"]["expires_at"].endswith("Z")
    assert "lease_token" not in user.get_run(run["id"]), "a read tells the lease token"
    user.finish(run["id"], token).ok(200)


def test_claim_from_the_queue(user):
    thread = "q-" + uuid.uuid4().hex
    first, second = user.run(thread), user.run(thread)
    answer = user.post("/api/runs/claim", {"worker_id": "w1", "thread_id": thread}).ok(200).json
    assert answer["run"]["id"] == first["id"] and answer["run"]["status"] == "running" and answer["lease_token"]
    assert answer["run"]["lease"]["owner"] == "w1"
    again = user.post("/api/runs/claim", {"worker_id": "w2", "thread_id": thread})
    if again.status == 200:
        assert again.json["run"]["id"] == second["id"]
        user.finish(second["id"], again.json["lease_token"])
    else:
        assert again.status == 204 and again.body == b""
    user.finish(first["id"], answer["lease_token"]).ok(200)
    user.cancel(second["id"])


def test_nothing_to_claim(user):
    answer = user.post("/api/runs/claim", {"worker_id": "w", "thread_id": "nothing-here"})
    assert answer.status == 204 and answer.body == b""


def test_many_claimers_never_get_the_same_run(user):
    """R2.1: a Run is handed out once."""
    thread_ids = ["m-" + uuid.uuid4().hex for _ in range(12)]
    runs = {user.run(thread)["id"] for thread in thread_ids}
    got, lock = [], threading.Lock()

    def claim():
        client = user.clone()
        while True:
            answer = client.post("/api/runs/claim", {"worker_id": "w"})
            if answer.status == 204:
                return
            with lock:
                got.append((answer.ok(200).json["run"]["id"], answer.json["lease_token"]))
    threads = [threading.Thread(target=claim) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ids = [ident for ident, _ in got]
    assert len(ids) == len(set(ids)) and runs <= set(ids)
    for ident, token in got:
        user.finish(ident, token)


def test_heartbeat_renews(user):
    """R2.1: a heartbeat renews the lease."""
    run, token = user.claimed(lease_ms=1500)
    for _ in range(4):
        time.sleep(0.8)
        answer = user.post("/api/runs/%s/heartbeat" % run["id"], {"lease_token": token, "lease_ms": 1500}).ok(200)
        assert answer.json["expires_at"].endswith("Z")
    assert user.get_run(run["id"])["status"] == "running"
    user.finish(run["id"], token).ok(200)


def test_finish(user):
    run, token = user.claimed()
    ended = user.finish(run["id"], token).ok(200).json
    assert ended["status"] == "completed" and ended["ended_at"] and ended["lease"] is None
    run, token = user.claimed()
    answer = user.post("/api/runs/%s/finish" % run["id"], {"lease_token": token, "status": "failed", "error": {"code": "x", "message": "why"}})
    assert answer.ok(200).json["status"] == "failed" and answer.json["error"] == {"code": "x", "message": "why"}
    for bad in ("running", "cancelled", "yielded", "", 1):
        assert user.post("/api/runs/%s/finish" % run["id"], {"lease_token": token, "status": bad}).status in (400, 409, 422)


def test_finish_twice(user):
    run, token = user.claimed()
    user.finish(run["id"], token).ok(200)
    assert user.finish(run["id"], token).status in (200, 409)
    assert user.finish(run["id"], token, "failed").status == 409
    assert user.get_run(run["id"])["status"] == "completed"


@pytest.mark.container
def test_an_ended_run_has_its_container_destroyed(inst, user):
    """R1.4, R2.2: the end of a Run destroys its container; only then is the duty cleared."""
    run, token = user.claimed()
    user.command(run["id"], "true", lease_token=token)
    instance = inst.value("SELECT instance_id FROM runs WHERE id = '%s'" % run["id"])
    assert [name for name in inst.containers() if instance in name]
    ended = user.finish(run["id"], token).ok(200).json
    assert ended["runtime_cleanup_pending"] is True, "the duty is to be there in the same transaction"
    user.wait_run(run["id"], 15)
    assert not [name for name in inst.containers() if instance in name]


def test_a_run_without_commands_needs_no_cleanup_for_long(user):
    run, token = user.claimed()
    user.finish(run["id"], token).ok(200)
    user.wait_run(run["id"], 10)


def test_cancel_kills_running_commands(user):
    """R2.4: a cancel kills what runs, at once."""
    run, token = user.claimed()
    command = user.background(run["id"], "echo started; sleep 300", lease_token=token)
    user.wait_running(command["id"])
    time.sleep(0.3)
    began = time.monotonic()
    answer = user.cancel(run["id"]).ok(200).json
    assert answer["status"] in ("cancel_requested", "cancelled")
    ended = user.wait_command(command["id"], 15)
    assert ended["reason"] == "cancelled" and ended["stdout"] == "started\n"
    assert user.wait_run(run["id"], 15)["status"] == "cancelled"
    assert time.monotonic() - began < 15


def test_cancel_of_a_pending_run(user):
    run = user.run()
    assert user.cancel(run["id"]).ok(200).json["status"] == "cancelled"
    answer = user.post("/api/runs/%s/commands" % run["id"], {"command": "true"})
    assert answer.status == 409 and answer.code == "run_ended"


@pytest.mark.container
def test_expired_lease_ends_the_attempt_and_offers_the_run_again(user):
    """R2.1, R2.4: an expired lease ends the attempt and its commands; the last one fails the Run."""
    thread = "e-" + uuid.uuid4().hex
    run, token = user.claimed(thread, lease_ms=1000)
    command = user.background(run["id"], "touch /tmp/first; sleep 300", lease_token=token)
    user.wait_running(command["id"])
    wait_for(lambda: "offered again: %s" % user.get_run(run["id"]), lambda: user.get_run(run["id"])["status"] == "pending", 15)
    assert user.wait_command(command["id"], 15)["reason"] == "cancelled"
    wait_for("clean-up", lambda: not user.get_run(run["id"])["runtime_cleanup_pending"], 15)
    again = user.post("/api/runs/claim", {"worker_id": "second", "thread_id": thread, "lease_ms": 1000}).ok(200).json
    assert again["run"]["id"] == run["id"] and again["run"]["attempt"] == 2 and again["lease_token"] != token
    files = user.command(run["id"], "ls /tmp", lease_token=again["lease_token"])
    assert files["stdout"] == "" and files["attempt"] == 2, "the second attempt is to have a fresh container"
    ended = user.wait_run(run["id"], 20)
    assert ended["status"] == "failed" and ended["error"]["code"] == "lease_expired"


def test_no_attempt_is_handed_out_before_cleanup(user):
    """R2.2: Between the loss of a lease and the confirmed clean-up a claim gives nothing."""
    thread = "f-" + uuid.uuid4().hex
    run, token = user.claimed(thread, lease_ms=1000)
    user.command(run["id"], "true", lease_token=token)

    def claimed_or_none():
        before = user.get_run(run["id"])
        answer = user.post("/api/runs/claim", {"worker_id": "w", "thread_id": thread})
        if answer.status == 200:
            return answer.json
        assert answer.status == 204, (answer, before)
        return None
    got = wait_for("the second attempt", claimed_or_none, 20, 0.05)
    assert got["run"]["runtime_cleanup_pending"] is False and got["run"]["attempt"] == 2
    user.finish(run["id"], got["lease_token"])


def test_create_with_claim_while_the_thread_has_cleanup_pending(user):
    """The fence of R2.3: the Run comes without a lease, a lease-less command gets cleanup_pending, later both work."""
    thread = "g-" + uuid.uuid4().hex
    run, token = user.claimed(thread)
    user.command(run["id"], "true", lease_token=token)
    user.finish(run["id"], token).ok(200)
    nxt, lease = user.claimed(thread)
    if lease is None:
        assert nxt["status"] == "pending"
        answer = user.post("/api/runs/%s/commands" % nxt["id"], {"command": "true"})
        assert answer.status in (409, 200)
        if answer.status == 409:
            assert answer.code == "cleanup_pending"
        user.wait_run(run["id"], 15)
        lease = user.post("/api/runs/claim", {"worker_id": "w", "thread_id": thread}).ok(200).json["lease_token"]
    assert user.command(nxt["id"], "echo ok", lease_token=lease)["stdout"] == "ok\n"
    user.finish(nxt["id"], lease).ok(200)


def test_a_person_with_curl_needs_no_lease(user):
    run = user.run()
    assert user.command(run["id"], "echo hi")["stdout"] == "hi\n"
    assert user.get_run(run["id"])["status"] == "running"
    assert user.finish(run["id"]).ok(200).json["status"] == "completed"
    user.wait_run(run["id"], 15)


def test_run_ceiling(user):
    """R2.1, R2.9: the ceiling ends a Run as failed with run_timeout."""
    run, token = user.claimed(timeout_ms=2000)
    command = user.background(run["id"], "echo before; sleep 300", lease_token=token)
    ended = user.wait_run(run["id"], 20)
    assert ended["status"] == "failed" and ended["error"]["code"] == "run_timeout"
    assert user.wait_command(command["id"])["reason"] in ("timeout", "cancelled")


@pytest.mark.container
def test_files_last_within_a_run_and_not_beyond(user):
    """R1.4: files last from command to command, and no longer than the Run; the workspace stays."""
    run, token = user.claimed()
    user.command(run["id"], "echo a > /tmp/a; echo b > ~/b; echo c > ~/workspace/c-%s" % run["id"], lease_token=token)
    got = user.command(run["id"], "cat /tmp/a ~/b ~/workspace/c-%s" % run["id"], lease_token=token)
    assert got["stdout"] == "a\nb\nc\n"
    user.finish(run["id"], token)
    run2, token2 = user.claimed()
    got = user.command(run2["id"], "ls /tmp; test -e ~/b && echo b; cat ~/workspace/c-%s; rm ~/workspace/c-*" % run["id"], lease_token=token2)
    assert got["stdout"] == "c\n", "only the Workspace lasts"
    user.finish(run2["id"], token2)


def test_background_processes_last_within_a_run(user, sh):
    sh("echo $$ > /tmp/pid; (sleep 60 & echo $! > /tmp/child) >/dev/null 2>&1")
    assert sh("kill -0 $(cat /tmp/child) && echo alive")["stdout"] == "alive\n"
    sh("kill $(cat /tmp/child)")


@pytest.mark.container
def test_two_threads_are_isolated(user):
    """R1.4: two Threads see neither processes nor container files of each other."""
    one, token1 = user.claimed()
    two, token2 = user.claimed()
    user.command(one["id"], "echo secret > /tmp/x; (sleep 61 & ) >/dev/null 2>&1", lease_token=token1)
    got = user.command(two["id"], "ls /tmp ~ | grep -v workspace; grep -l 'sleep' /proc/[0-9]*/comm; hostname", lease_token=token2)
    assert "x" not in got["stdout"].split() and "/comm" not in got["stdout"], got["stdout"]
    assert got["stdout"].strip() != user.command(one["id"], "hostname", lease_token=token1)["stdout"].strip()
    user.finish(one["id"], token1)
    user.finish(two["id"], token2)


def test_workdir(user):
    run, token = user.claimed(workdir="~/workspace/projects/p1")
    assert run["workdir"] == "/home/user/workspace/projects/p1"
    got = user.command(run["id"], "pwd; echo $PADDOCK_PROJECT_DIR $AITROOP_PROJECT_DIR; stat -c %U .", lease_token=token)
    assert got["stdout"] == "%s\n%s %s\nuser\n" % (run["workdir"], run["workdir"], run["workdir"])
    assert got["cwd"] == run["workdir"]
    user.finish(run["id"], token)


def test_a_workspace_that_its_owner_closed_can_be_opened_again(user):
    """Whatever mode he gives it: the next Run's sandbox is made all the same, and there he can change it."""
    assert user.execute("chmod 000 ~/workspace")["exit_code"] == 0
    shut = user.post("/api/execute", {"command": "true"})
    assert (shut.status, shut.code) == (422, "cwd_forbidden"), shut
    got = user.execute("chmod 755 ~/workspace && ls -ld ~/workspace", cwd="/tmp")
    assert got["exit_code"] == 0 and got["stdout"].startswith("drwxr-xr-x"), got
    assert user.execute("pwd")["stdout"] == "/home/user/workspace\n"


def test_commands_of_a_run_in_order(user, warm):
    run, token = user.claimed()
    ids = [user.command(run["id"], "echo %d" % i, lease_token=token)["id"] for i in range(5)]
    page = user.get("/api/runs/%s/commands?limit=3" % run["id"]).ok(200).json
    rest = user.get("/api/runs/%s/commands?limit=3&cursor=%s" % (run["id"], page["next_cursor"])).ok(200).json
    assert [item["id"] for item in page["items"] + rest["items"]] == ids and rest["next_cursor"] is None
    user.finish(run["id"], token)


def test_list_of_runs(user):
    thread = "l-" + uuid.uuid4().hex
    ids = [user.run(thread)["id"] for _ in range(5)]
    seen, cursor = [], None
    while True:
        page = user.get("/api/runs?thread_id=%s&limit=2%s" % (thread, "&cursor=" + cursor if cursor else "")).ok(200).json
        seen += [item["id"] for item in page["items"]]
        cursor = page["next_cursor"]
        if not cursor:
            break
    assert sorted(seen) == sorted(ids)
    assert len(user.get("/api/runs?thread_id=%s&status=pending" % thread).json["items"]) == 5
    assert user.get("/api/runs?thread_id=%s&status=completed" % thread).json["items"] == []
    for ident in ids:
        user.cancel(ident)


def test_a_page_of_large_rows_ends_early(user):
    """Whatever limit asks for, a page fits in an answer, and the next ones have the rest."""
    thread, big = "l-" + uuid.uuid4().hex, "x" * 1000000
    ids = [user.post("/api/runs", {"thread_id": thread, "input": big}).ok(201).json["id"] for _ in range(12)]
    seen, pages, cursor = [], 0, None
    while pages == 0 or cursor:
        page = user.get("/api/runs?thread_id=%s&limit=200%s" % (thread, "&cursor=" + cursor if cursor else "")).ok(200).json
        assert page["items"] and all(item["input"] == big for item in page["items"])
        seen += [item["id"] for item in page["items"]]
        cursor, pages = page["next_cursor"], pages + 1
    assert seen == sorted(ids, reverse=True) and pages > 1
    for ident in ids:
        user.cancel(ident)


def test_too_many_commands(user):
    """R2.10: one command above the limit of a Run is refused."""
    run, token = user.claimed()
    statuses = []
    for _ in range(70):
        statuses.append(user.post("/api/runs/%s/commands" % run["id"], {"command": "sleep 60", "background": True, "lease_token": token}))
        if statuses[-1].status != 202:
            break
    assert statuses[-1].status == 429 and statuses[-1].code == "too_many_commands" and len(statuses) == 65
    user.cancel(run["id"]).ok(200)
    user.wait_run(run["id"], 30)


def test_parallel_commands_of_one_run(user):
    """R2.10: commands of one Run run at the same time."""
    run, token = user.claimed()
    user.command(run["id"], "true", lease_token=token)
    began = time.monotonic()
    commands = [user.background(run["id"], "sleep 1; echo %d" % i, lease_token=token) for i in range(8)]
    assert [user.wait_command(c["id"])["stdout"] for c in commands] == ["%d\n" % i for i in range(8)]
    assert time.monotonic() - began < 6
    user.finish(run["id"], token)


@pytest.mark.parametrize("stage", [{"id": "build", "timeout_ms": 1500}])
def test_stage_timeout(inst, user, warm, stage):
    """R2.9: the time of a stage is that of all its commands; a time-out of a command goes before."""
    run_id, token = warm
    body = {"command": "sleep 0.8", "lease_token": token, "stage": stage}
    first = user.post("/api/runs/%s/commands" % run_id, body).ok(200).json
    assert first["reason"] == "exited"
    second = user.post("/api/runs/%s/commands" % run_id, {**body, "command": "echo x; sleep 30"}).ok(200).json
    assert second["reason"] == "timeout" and second["stdout"] == "x\n" and second["duration_ms"] < 1500
    third = user.post("/api/runs/%s/commands" % run_id, {**body, "command": "true"})
    assert (third.status, third.code) == (409, "stage_timeout")
    own = user.post("/api/runs/%s/commands" % run_id, {**body, "command": "true", "timeout_ms": 5000}).ok(200).json
    assert own["reason"] == "exited" and own["timeout_ms"] == 5000
    other = user.post("/api/runs/%s/commands" % run_id, {**body, "command": "true", "stage": {"id": "test"}}).ok(200).json
    assert other["timeout_ms"] == 180000
    rows = inst.sql("SELECT DISTINCT stage FROM sandbox_commands WHERE run_id = '%s' AND stage IS NOT NULL ORDER BY stage" % run_id)
    assert [row["stage"] for row in rows] == ["build", "test"]


@pytest.mark.parametrize("stage,code", [
    ({}, "bad_field"), ("build", "bad_field"), ({"id": 1}, "bad_field"), ({"id": ""}, "bad_stage"), ({"id": "x" * 129}, "bad_stage"), ({"id": "a\n"}, "bad_stage"),
    ({"id": "a", "timeout_ms": 0}, "bad_timeout"), ({"id": "a", "timeout_ms": -1}, "bad_timeout"), ({"id": "a", "name": "b"}, "unknown_field")])
def test_bad_stages(user, warm, stage, code):
    run_id, token = warm
    answer = user.post("/api/runs/%s/commands" % run_id, {"command": "true", "lease_token": token, "stage": stage})
    assert (answer.status, answer.code) == (422 if code in ("bad_stage", "bad_timeout") else 400, code)
