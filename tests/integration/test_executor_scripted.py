"""The executor over the scripted provider: what it makes of answers that are late, lost, doubled or wrong, and of its own death meanwhile."""

import os
import subprocess
import sys
import time
import uuid

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "lib"))

from executor import Executor  # noqa: E402
from scripted_truth import ScriptedTruth  # noqa: E402

BUILD = os.environ.get("PADDOCK_BUILD", os.getcwd())
PROGRAM = BUILD + "/tests/lib/paddock-executor-scripted"
pytestmark = pytest.mark.skipif(not os.path.exists(PROGRAM), reason="no paddock-executor-scripted in " + BUILD)


class Scripted(Executor):
    def __init__(self, provider="container"):
        super().__init__(BUILD)
        if provider != "container":
            with open(self.root + "/paddock.ini", "a", encoding="utf-8") as f:
                f.write("[service]\nprovider=%s\n[%s]\ni_understand=yes\n" % (provider, provider))
        os.mkdir(self.root + "/other")
        self.other = ScriptedTruth(self.root + "/other")

    def spawn(self):
        out = open(self.log, "ab")
        return subprocess.Popen([PROGRAM, "--config", self.root + "/paddock.ini"], stdout=out, stderr=out, start_new_session=True,
                                env={**os.environ, "PADDOCK_SCRIPTED_DIR": self.other.dir})


@pytest.fixture
def x():
    e = Scripted().start()
    yield e
    e.other.script()
    e.close()


@pytest.fixture
def lasting():
    e = Scripted("host").start()
    yield e
    e.other.script()
    e.close()


def gone(x, iid):
    end = time.monotonic() + 15
    while x.call("DELETE", "/v1/instances/%s?wait_ms=1000" % iid).json["state"] != "gone":
        assert time.monotonic() < end


def test_a_command_is_simulated(x):
    r = x.run(str(uuid.uuid4()), "echo out; echo err >&2; sleep 0.05; exit 3").json
    assert (r["exit_code"], r["stdout"], r["stderr"], r["reason"]) == (3, "out\n", "err\n", "exited")


def test_time_goes_on_while_the_executor_is_dead(x):
    iid = str(uuid.uuid4())
    cid, _ = x.put(iid, "sleep 1; exit 7")
    while not x.other.running(iid):
        time.sleep(0.01)
    x.kill()
    time.sleep(1.2)
    x.start()
    r = x.call("GET", "/v1/commands/%s/result" % cid).json
    assert (r["exit_code"], r["reason"]) == (7, "exited")
    assert 950 <= r["duration_ms"] <= 1100
    assert x.other.read().commands[cid].starts == 1 and not x.other.violations


@pytest.mark.parametrize("rule", ["create late 300", "create slow 300", "create twice", "exec late 200", "exec twice", "exec_ack lost", "exec reject unavailable times 1"])
def test_what_harms_nothing(x, rule):
    iid = str(uuid.uuid4())
    x.other.script(rule)
    assert x.run(iid, "exit 4").json["exit_code"] == 4
    assert len(x.other.living()) == 1 and not x.other.violations
    gone(x, iid)


def test_killed_while_it_is_made(x):
    iid = str(uuid.uuid4())
    x.other.script("create slow 800")
    cid, _ = x.put(iid, "exit 5")
    x.kill()
    x.start()
    r = x.call("GET", "/v1/commands/%s/result" % cid)
    assert (r.status, r.json["code"]) == (503, "executor_restarted")   # its environment was in memory only
    end = time.monotonic() + 5
    while [i.state for i in x.other.living()] != ["running"]:
        assert time.monotonic() < end
        time.sleep(0.05)
    assert not x.other.violations


def test_it_vanishes(x):
    iid = str(uuid.uuid4())
    cid, _ = x.put(iid, "sleep 60")
    while not x.other.running(iid):
        time.sleep(0.01)
    x.other.now("vanish", iid)
    assert x.call("GET", "/v1/commands/%s/result" % cid).json["reason"] == "lost"
    assert x.call("GET", "/v1/instances/" + iid).json["state"] == "lost"


@pytest.mark.parametrize("rule", ["destroy refuse unavailable times 2", "destroy lost 100 times 1", "destroy reject busy times 1", "destroy twice", "destroy late 200"])
def test_an_end_is_asked_for_until_it_is_confirmed(x, rule):
    iid = str(uuid.uuid4())
    x.run(iid, "true")
    x.other.script(rule)
    gone(x, iid)
    assert not x.other.living()


def test_the_control_plane_is_away(x):
    iid, other = str(uuid.uuid4()), str(uuid.uuid4())
    x.run(iid, "true")
    x.other.script("any reject unavailable")
    assert x.call("GET", "/v1/health").json["status"] == "degraded"
    _, refused = x.put(other, "true")
    assert (refused.status, refused.json["code"]) == (503, "control_plane_unavailable"), refused.body
    x.call("DELETE", "/v1/instances/" + iid)
    time.sleep(0.3)
    assert [i.id for i in x.other.living()] == [iid] and x.call("GET", "/v1/instances/" + iid).json["state"] == "destroying"
    x.other.script()
    assert x.call("GET", "/v1/health").json["status"] == "ok"
    gone(x, iid)
    assert not x.other.living() and not x.other.violations


@pytest.mark.parametrize("rule", ["exec_kill reject unavailable times 1", "exec_kill reject unknown times 1"])
def test_a_kill_is_asked_for_until_it_is_taken(x, rule):
    """The control plane was away for a moment and no connection broke."""
    iid = str(uuid.uuid4())
    cid, _ = x.put(iid, "sleep 60")
    while not x.other.running(iid):
        time.sleep(0.01)
    x.other.script(rule)
    assert x.call("POST", "/v1/commands/%s/kill" % cid, {}).status == 202
    assert x.call("GET", "/v1/commands/%s/result" % cid).json["reason"] == "cancelled"
    assert not x.other.violations
    gone(x, iid)


def test_killed_before_it_could_be_started(x):
    iid = str(uuid.uuid4())
    x.run(iid, "true")
    x.other.script("exec reject unavailable")
    cid, _ = x.put(iid, "exit 4")
    time.sleep(0.6)
    assert x.call("GET", "/v1/commands/" + cid).json["status"] == "pending"
    assert x.call("POST", "/v1/commands/%s/kill" % cid, {}).status == 202
    assert x.call("GET", "/v1/commands/%s/result" % cid).json["reason"] == "cancelled"
    x.other.script()
    time.sleep(0.6)
    assert cid not in x.other.read().commands and not x.other.violations
    gone(x, iid)


def test_a_sandbox_that_vanished_without_a_word_is_found_out(lasting):
    x, iid = lasting, str(uuid.uuid4())
    x.other.script("exec vanish times 1")
    r = x.run(iid, "true")
    assert (r.status, r.json["code"]) == (409, "sandbox_not_found")
    end = time.monotonic() + 5
    while x.call("GET", "/v1/instances/" + iid).json["state"] != "lost":
        assert time.monotonic() < end
        time.sleep(0.01)
