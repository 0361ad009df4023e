"""Idempotency-Key: the same key by the same caller gives the first answer again, and starts nothing twice."""

import threading
import uuid

import pytest

from paddock import Collected


def key():
    return {"Idempotency-Key": uuid.uuid4().hex}


def test_create_run_twice(user):
    headers = key()
    body = {"thread_id": "i-" + uuid.uuid4().hex, "claim": {"worker_id": "w"}}
    first = user.post("/api/runs", body, headers=headers).ok(201).json
    second = user.post("/api/runs", body, headers=headers).ok(201).json
    assert second["id"] == first["id"] and second["lease_token"] == first["lease_token"]
    user.finish(first["id"], first["lease_token"]).ok(200)


def test_command_twice_runs_once(user, warm, sh):
    headers = key()
    body = {"command": "echo x >> /tmp/once", "lease_token": warm[1]}
    path = "/api/runs/%s/commands" % warm[0]
    first = user.post(path, body, headers=headers).ok(200).json
    second = user.post(path, body, headers=headers).ok(200).json
    assert first["id"] == second["id"] and second["exit_code"] == 0
    assert sh("cat /tmp/once")["stdout"] == "x\n"


def test_execute_twice_at_the_same_time(inst, user):
    headers, answers = key(), []
    body = {"command": "echo $RANDOM$RANDOM; sleep 1"}
    threads = [threading.Thread(target=lambda: answers.append(user.clone().post("/api/execute", body, headers=headers))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    good = [answer.json for answer in answers if answer.status == 200]
    assert all(answer.status in (200, 409) for answer in answers) and good
    assert len({command["id"] for command in good}) == 1 and len({command["stdout"] for command in good}) == 1


def test_live_answer_again(user, warm):
    headers = {**key(), "Accept": "text/event-stream"}
    body = {"command": "echo live", "lease_token": warm[1]}
    ids = set()
    for _ in range(2):
        with user.stream("POST", "/api/runs/%s/commands" % warm[0], json_body=body, headers=headers) as stream:
            got = Collected(stream.events())
        assert bytes(got.stdout) == b"live\n"
        ids.add(got.start["command_id"])
    assert len(ids) == 1


def test_another_body_under_the_same_key(user, warm):
    headers = key()
    path = "/api/runs/%s/commands" % warm[0]
    user.post(path, {"command": "true", "lease_token": warm[1]}, headers=headers).ok(200)
    answer = user.post(path, {"command": "false", "lease_token": warm[1]}, headers=headers)
    assert (answer.status, answer.code) == (422, "idempotency_mismatch")


def test_keys_are_the_callers_own(user, other):
    headers = key()
    thread = "k-" + uuid.uuid4().hex
    mine = user.post("/api/runs", {"thread_id": thread}, headers=headers).ok(201).json
    theirs = other.post("/api/runs", {"thread_id": thread}, headers=headers).ok(201).json
    assert mine["id"] != theirs["id"] and theirs["user"] == other.name
    user.cancel(mine["id"])
    other.cancel(theirs["id"])


@pytest.mark.parametrize("value", ["x" * 300, "é"])
def test_bad_keys(user, value):
    answer = user.post("/api/runs", {"thread_id": "x"}, headers={"Idempotency-Key": value.encode()})
    assert (answer.status, answer.code) == (400, "bad_idempotency_key")


def test_a_token_twice_is_made_once(user):
    key = {"Idempotency-Key": uuid.uuid4().hex}
    first = user.post("/api/user/tokens", {"kind": "user"}, headers=key).ok(201).json
    assert user.post("/api/user/tokens", {"kind": "user"}, headers=key).ok(201).json == first
    other = user.post("/api/user/tokens", {"kind": "user", "label": "x"}, headers=key)
    assert (other.status, other.code) == (422, "idempotency_mismatch")
    assert len(user.get("/api/user/tokens").ok(200).json["items"]) == 2
