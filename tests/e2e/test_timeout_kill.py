"""Time-outs give the output so far and leave nobody: stubborn process trees, one by one."""

import base64
import os
import subprocess
import time

import pytest

from paddock import wait_for

SOURCE = os.path.join(os.path.dirname(__file__), "..", "lib", "stubborn.c")


def build():
    """The trees' program, static, as bytes; and its list of trees."""
    target = "/tmp/stubborn-%d" % os.getpid()
    subprocess.run(["cc", "-O1", "-static", "-o", target, SOURCE], check=True)
    try:
        names = subprocess.run([target, "list"], check=True, capture_output=True, text=True, timeout=10).stdout.split()
        with open(target, "rb") as f:
            return f.read(), names
    finally:
        os.unlink(target)


PROGRAM, TREES = build()
# Everything in the container but the agent, this command's supervisor and this command.
COUNT = ["python3", "-c", """
import os
me = {1, os.getpid(), os.getppid()}
for p in os.listdir('/proc'):
    if p.isdigit() and int(p) not in me:
        try:
            state = open('/proc/%s/stat' % p).read().rpartition(')')[2].split()[0]
            print(p, state, open('/proc/%s/cmdline' % p).read().replace(chr(0), ' '))
        except OSError:
            pass
"""]


@pytest.fixture(scope="module")
def stubborn(user, warm):
    command = user.background(warm[0], "base64 -d > ~/workspace/stubborn && chmod +x ~/workspace/stubborn", keep_stdin=True, lease_token=warm[1])
    user.request("POST", "/api/commands/%s/stdin?eof=1" % command["id"], base64.b64encode(PROGRAM)).ok(202)
    assert user.wait_command(command["id"])["exit_code"] == 0
    return "/home/user/workspace/stubborn"


def left(sh):
    return sh(COUNT, timeout_ms=10000)["stdout"]


def test_there_are_25_trees():
    assert len(TREES) >= 25


@pytest.mark.parametrize("tree", TREES)
def test_timeout_kills_the_tree(sh, stubborn, tree):
    """R2.4, R2.5: nobody of the tree is left, whatever it does."""
    began = time.monotonic()
    command = sh("echo so far; exec %s %s" % (stubborn, tree), timeout_ms=1000)
    assert command["status"] == "exited" and command["reason"] == "timeout", command
    assert command["stdout"].startswith("so far\n") and "ready\n" in command["stdout"] and time.monotonic() - began < 15
    assert left(sh) == ""


@pytest.mark.parametrize("tree", TREES[::4])
def test_kill_kills_the_tree(user, warm, sh, stubborn, tree):
    command = user.background(warm[0], "echo so far; exec %s %s" % (stubborn, tree), lease_token=warm[1])
    user.wait_running(command["id"])
    time.sleep(0.4)
    user.post("/api/commands/%s/kill" % command["id"]).ok(202)
    ended = user.wait_command(command["id"], 10)
    assert ended["reason"] == "cancelled" and ended["stdout"].startswith("so far\n")
    assert left(sh) == "", "said to be killed, and still there"


def test_a_kill_touches_no_other_command(user, warm, sh, stubborn):
    """R2.5: neighbours of the same Run live on."""
    neighbour = user.background(warm[0], "for i in $(seq 40); do echo $i; sleep .1; done", lease_token=warm[1])
    user.wait_running(neighbour["id"])
    for tree in TREES[::6]:
        sh("exec %s %s" % (stubborn, tree), timeout_ms=500)
    ended = user.wait_command(neighbour["id"])
    assert ended["exit_code"] == 0 and ended["stdout"] == "".join("%d\n" % i for i in range(1, 41))


def test_timeout_answer(sh):
    """R2.9: a time-out answers with the output so far."""
    command = sh("echo out; echo err >&2; sleep 100", timeout_ms=700)
    assert (command["status"], command["reason"], command["stdout"], command["stderr"]) == ("exited", "timeout", "out\n", "err\n")
    assert 600 <= command["duration_ms"] < 3000 and command["timeout_ms"] == 700 and command["exit_code"] is None
    assert command["timeout"] == "command"
    assert sh("true")["timeout"] is None, "no time-out, no timer"


def test_a_timeout_says_which_timer_fired(inst, user, warm):
    """R2.9: command, stage, Run, each with the output so far; live, as a result, and from the row afterwards."""
    run_id, token = warm

    def live(accept, **fields):
        with user.live(run_id, "echo out; sleep 100", accept=accept, lease_token=token, **fields) as stream:
            return list(stream.events())
    for accept in ("text/event-stream", "application/x-ndjson"):
        for fields, timer in (({"timeout_ms": 500}, "command"), ({"stage": {"id": "t-" + accept[:4], "timeout_ms": 600}}, "stage")):
            events = live(accept, **fields)
            assert [e.type for e in events] == ["start", "stdout", "exit"]
            assert (events[-1].data["reason"], events[-1].data["timeout"]) == ("timeout", timer)
            assert user.get_command(events[-1].data["id"])["timeout"] == timer
    lower = user.run(timeout_ms=2500)
    command = user.command(lower["id"], "echo out; sleep 100")
    assert (command["reason"], command["timeout"], command["stdout"]) == ("timeout", "run", "out\n")
    assert user.wait_run(lower["id"])["error"]["code"] == "run_timeout"
    for one in (command["id"], events[-1].data["id"]):
        wait_for("its end is on record", lambda: inst.value("SELECT timeout IS NOT NULL FROM sandbox_commands WHERE id = '%s'" % one) is True, 10)
    kept = user.get_command(command["id"])
    assert (kept["timeout"], kept["stdout"]) == ("run", "out\n")


def test_timeout_in_a_live_answer(live):
    with live("echo out; sleep 100", timeout_ms=700) as stream:
        events = list(stream.events())
    assert [e.type for e in events] == ["start", "stdout", "exit"] and events[0].data["timeout_ms"] == 700
    assert (events[-1].data["reason"], events[-1].data["timeout"]) == ("timeout", "command")


def test_a_background_child_does_not_hold_the_answer(sh):
    began = time.monotonic()
    command = sh("sleep 300 & echo started", timeout_ms=60000)
    assert command["stdout"] == "started\n" and command["exit_code"] == 0 and time.monotonic() - began < 5


def test_a_background_child_that_holds_the_pipes_and_writes(sh):
    command = sh("(while :; do echo noise; sleep .01; done) & sleep .3; echo last", timeout_ms=60000)
    assert command["exit_code"] == 0 and "last\n" in command["stdout"]


def test_default_timeout_is_three_minutes(user, warm):
    """R2.9: a command of no stage has the default of a stage."""
    command = user.background(warm[0], "true", lease_token=warm[1])
    assert command["timeout_ms"] == 180000


def test_sigkill_of_the_whole_container_by_itself(sh):
    """A command that kills all it can reach ends itself only."""
    assert sh("kill -9 -1", timeout_ms=5000)["status"] == "exited"
    assert sh("echo alive")["stdout"] == "alive\n"
