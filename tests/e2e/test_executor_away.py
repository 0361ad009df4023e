"""The executor dies or is away: commands go on, no byte is lost, callers are told."""

import hashlib
import os
import signal
import threading
import time

import pytest

from paddock import Collected, wait_for

WRITER = """
import hashlib, os, sys, time
digest = hashlib.sha256()
for i in range(60):
    piece = os.urandom(1 << 18)
    digest.update(piece)
    while piece:
        piece = piece[os.write(1, piece):]
    time.sleep(0.05)
sys.stderr.write(digest.hexdigest())
"""


@pytest.mark.parametrize("signo", [signal.SIGKILL, signal.SIGTERM])
def test_running_commands_survive_without_losing_a_byte(inst, user, signo):
    """R2.7, R2.8: output and end are on record though the executor died in between."""
    run, token = user.claimed(lease_ms=600000)
    command = user.background(run["id"], ["python3", "-c", WRITER], lease_token=token)
    user.wait_running(command["id"])
    for _ in range(3):
        old = inst.pids("executor")
        inst.kill(old[0], signo)
        inst.wait_replaced("executor", old)
        time.sleep(0.7)
    ended = user.wait_command(command["id"], 60)
    assert ended["exit_code"] == 0 and ended["stdout_bytes"] == 60 << 18
    raw = user.get("/api/commands/%s/stdout" % command["id"]).ok(200).body
    assert hashlib.sha256(raw).hexdigest() == ended["stderr"]
    user.finish(run["id"], token).ok(200)
    user.wait_run(run["id"], 20)


def test_a_live_reader_continues_at_its_cursor(inst, user):
    run, token = user.claimed(lease_ms=600000)
    command = user.background(run["id"], "for i in $(seq 100); do echo $i; sleep .03; done", lease_token=token)
    events, cursor, tries = [], None, 0
    while not events or events[-1].type != "exit":
        tries += 1
        assert tries < 100
        try:
            with user.events(command["id"], cursor) as stream:
                if stream.status != 200:
                    assert stream.status in (502, 503, 504)
                    time.sleep(0.2)
                    continue
                for event in stream.events():
                    if event.type == "start" and events:
                        continue
                    events.append(event)
                    cursor = event.seq if event.seq is not None else cursor
                    if tries == 1 and len(events) == 20:
                        inst.kill(inst.pids("executor")[0])
        except (OSError, AssertionError, ValueError, __import__("http.client").client.HTTPException):
            time.sleep(0.2)
    got = Collected(events)
    assert [int(n) for n in got.stdout.split()] == list(range(1, 101)) and tries > 1
    user.finish(run["id"], token)


@pytest.fixture
def silent_executor(inst):
    pid = inst.pids("executor")[0]
    os.kill(pid, signal.SIGSTOP)
    yield pid
    inst.kill(pid, signal.SIGCONT)


@pytest.fixture
def frozen_engine(inst):
    """No sandbox comes into being: commands for new ones are queued."""
    pids = inst.pids("podman")
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    yield
    for pid in pids:
        os.kill(pid, signal.SIGCONT)


@pytest.fixture
def queued_when_it_died(inst, user, frozen_engine):
    """The answer to a command that was queued when the executor was killed."""
    answers = []
    asking = threading.Thread(target=lambda: answers.append(user.clone().post("/api/execute", {"command": "echo hi"}, timeout=60)))
    asking.start()
    mine = "FROM sandbox_commands WHERE user_id = (SELECT id FROM users WHERE name = '%s') AND ended_at IS NULL" % user.name
    wait_for("it is on record", lambda: inst.value("SELECT count(*) " + mine) == 1, 10)
    time.sleep(0.5)
    old = inst.pids("executor")
    inst.kill(old[0])
    asking.join(60)
    inst.wait_replaced("executor", old)
    return answers[0]


@pytest.mark.container
def test_a_command_queued_when_it_dies_was_not_started(inst, user, queued_when_it_died):
    """The caller is told that it may run, and under which id; the record says that it did not, with a code that means: ask again."""
    answer = queued_when_it_died
    assert (answer.status, answer.code) == (503, "outcome_unknown") and answer.headers["Retry-After"], answer
    command = answer.headers["X-Paddock-Command"]
    for pid in inst.pids("podman"):
        os.kill(pid, signal.SIGCONT)
    ended = user.wait_command(command, 60)
    assert (ended["status"], ended["reason"], ended["error"]["code"]) == ("exited", "not_started", "executor_restarted"), ended
    with user.events(command) as stream:
        last = list(stream.events())[-1]
    assert (last.type, last.data["reason"], last.data["error"]["code"]) == ("exit", "not_started", "executor_restarted")
    run = user.wait_run(ended["run_id"], 30)
    assert (run["status"], run["error"]["code"]) == ("failed", "command_not_started")
    inst.wait_ready(30)
    assert user.execute("echo again")["stdout"] == "again\n"


def test_an_executor_that_does_not_answer(inst, user, silent_executor):
    """503 in bounded time, and the worker is free again."""
    began = time.monotonic()
    answer = user.post("/api/execute", {"command": "true"}, timeout=60)
    assert answer.status == 503 and answer.headers["Retry-After"] and answer.code in ("executor_unavailable", "outcome_unknown"), answer
    assert time.monotonic() - began < 30
    assert user.get("/api/runs").status == 200, "what needs no executor works"


def test_afterwards_all_is_settled(inst, user):
    """What the silent executor was asked came to a truthful end."""
    inst.wait_ready(30)
    wait_for("every command has an end", lambda: inst.value(
        "SELECT count(*) FROM sandbox_commands c JOIN runs r ON r.id = c.run_id JOIN users u ON u.id = r.user_id "
        "WHERE u.name = '%s' AND c.status NOT IN ('exited', 'lost')" % user.name) == 0, 60, 0.5)
    assert user.execute("echo ok")["stdout"] == "ok\n"


@pytest.mark.container
def test_the_engine_is_started_again(inst, user):
    """R1.9: readiness recovers by itself."""
    old = inst.pids("podman")
    assert old
    for pid in old:
        inst.kill(pid)
    inst.wait_replaced("podman", old)
    inst.wait_ready(30)
    assert user.execute("echo ok")["stdout"] == "ok\n"


def test_it_refuses_to_start_twice(inst):
    import subprocess
    done = subprocess.run([inst.prefix + "/sbin/paddock-executor", "--config", inst.etc + "/paddock.ini"], capture_output=True, text=True, timeout=20)
    assert done.returncode != 0 and done.stderr
