"""Scopes: one attempt of a Run inside an instance ends as a whole and for good. Waiting for a start, file operations, and whose command is killed.
Over the scripted provider, whose log is the truth, and over the real agent."""

import os
import shutil
import time
import uuid

import pytest
from executor import Executor, Scripted

BUILD = os.environ.get("PADDOCK_BUILD", os.getcwd())
pytestmark = pytest.mark.skipif(not Scripted.available(BUILD), reason="no paddock-executor-scripted in " + BUILD)


@pytest.fixture
def x():
    e = Scripted(BUILD).start()
    yield e
    e.close()
    assert not e.other.read().violations


@pytest.fixture(scope="module")
def real():
    if os.getuid() != 0:
        pytest.skip("needs root")
    e = Executor(BUILD).start()
    yield e
    e.close()


def until(check, seconds=10):
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end
        time.sleep(0.01)
    return check()


def said(answer, status, code):
    assert (answer.status, answer.json["code"]) == (status, code), answer.body


def new():
    return str(uuid.uuid4())


def end(x, iid, sid, query="?wait_ms=5000"):
    return x.call("DELETE", "/v1/instances/%s/scopes/%s%s" % (iid, sid, query))


def is_gone(answer):
    return (answer.status, answer.json) == (200, {"state": "gone"})


def running(x, cid):
    until(lambda: x.state(cid)["status"] == "running")


# --- scopes ---

def test_ends_as_a_whole(x):
    iid, one, two = x.make(), new(), new()
    mine = [x.put(iid, "sleep 30", scope=one)[0] for _ in range(3)]
    other = x.put(iid, "sleep 30", scope=two)[0]
    own = x.put(iid, "sleep 30")[0]
    for c in mine + [other, own]:
        running(x, c)
    assert is_gone(end(x, iid, one, "?wait_ms=5000&reason=timeout"))
    for c in mine:
        j = x.state(c)
        assert (j["reason"], j["timeout"]) == ("timeout", "run")
    assert x.state(other)["status"] == x.state(own)["status"] == "running"
    said(x.put(iid, "true", scope=one)[1], 410, "scope_gone")
    assert x.put(iid, "true", scope=one, cid=mine[0])[1].status == 200   # a repetition starts nothing
    assert is_gone(end(x, iid, one))
    assert is_gone(end(x, iid, iid))                                     # what named no scope
    assert x.state(own)["reason"] == "cancelled" and x.state(other)["status"] == "running"
    assert x.run(iid, "true", scope=two).status == 200


def test_never_seen(x):
    """Nobody here can say what is left in it."""
    iid, sid = new(), new()
    said(end(x, iid, sid, ""), 404, "instance_not_found")
    assert x.call("GET", "/v1/instances/" + iid).status == 404
    for bad in ("x", "..%2f..", new().upper()):
        assert end(x, iid, bad).status == end(x, bad, sid).status == 404
    assert end(x, iid, sid, "?reason=exited").status == end(x, iid, sid, "?wait_ms=30001").status == 400
    assert x.put(iid, "true", scope="x")[1].status == x.put(iid, "true", scope=7)[1].status == 400


def take_back(x, iid, was="ready", running_ms=0):
    return x.call("PUT", "/v1/instances/" + iid, {"workspace": "w", "was": was, "running_ms": running_ms})


def test_the_books_were_lost(x):
    """Nothing is gone before the instance is known again and its provider has confirmed it."""
    iid, sid, other = x.make(), new(), new()
    for scope in (sid, other):
        running(x, x.put(iid, "bg 30; sleep 30", scope=scope)[0])
    x.loses_its_books()
    said(end(x, iid, sid), 404, "instance_not_found")
    assert x.other.running(iid)
    x.other.script("adopt reject unavailable times 3")
    a = take_back(x, iid)
    assert (a.status, a.json["state"]) == (202, "ready"), a.body
    assert end(x, iid, sid, "").json == {"state": "ending"}   # it is not taken up yet
    assert x.other.running(iid)
    assert is_gone(end(x, iid, sid)) and is_gone(end(x, iid, other))
    assert not x.other.running(iid)
    said(x.put(iid, "true", scope=sid)[1], 410, "scope_gone")
    assert x.run(iid, "echo o").json["stdout"] == "o\n" and x.other.living() and not x.other.violations


def test_the_books_were_lost_but_for_what_is_ending(x):
    iid, sid = x.make(), new()
    running(x, x.put(iid, "bg 30; sleep 30", scope=sid)[0])
    x.other.script("scope_end refuse unavailable")
    assert end(x, iid, sid, "").status == 202
    x.kill()
    shutil.rmtree(x.root + "/state/instances")
    x.other.script()
    asked = len(x.other.asked("scope_end"))
    x.start()
    time.sleep(0.5)
    said(end(x, iid, sid), 404, "instance_not_found")
    assert os.path.exists(x.root + "/state/ending/" + sid) and len(x.other.asked("scope_end")) == asked
    assert take_back(x, iid).status == 202
    until(lambda: len(x.other.asked("scope_end")) > asked)   # nobody asked again
    assert is_gone(end(x, iid, sid)) and not x.other.running(iid)


def test_the_books_were_lost_and_it_is_destroyed(x):
    """Its scopes are gone when it is, and not before."""
    iid, sid = x.make(), new()
    running(x, x.put(iid, "bg 30; sleep 30", scope=sid)[0])
    x.loses_its_books()
    x.other.script("destroy refuse unavailable times 1")
    assert x.call("DELETE", "/v1/instances/" + iid).status == 202
    assert end(x, iid, sid, "").json == {"state": "ending"} and x.other.running(iid)
    assert is_gone(end(x, iid, sid)) and not x.other.living()


@pytest.mark.parametrize("rule", ["scope_end refuse unavailable times 3", "scope_end lost 100 times 2", "scope_end reject unavailable times 2", "scope_end twice",
                                  "scope_end late 400"])
def test_asked_for_until_it_is_confirmed(x, rule):
    iid, sid = x.make(), new()
    cid = x.put(iid, "bg 30; sleep 30", scope=sid)[0]
    running(x, cid)
    x.other.script(rule)
    a = end(x, iid, sid, "")
    assert (a.status, a.json) == (202, {"state": "ending"})
    said(x.put(iid, "true", scope=sid)[1], 410, "scope_gone")
    if "twice" not in rule:
        said(x.call("POST", "/v1/instances/%s/pause" % iid, {}), 409, "instance_busy")
    assert is_gone(end(x, iid, sid, "?wait_ms=10000"))
    assert x.state(cid)["reason"] == "cancelled" and not x.other.running(iid)
    assert x.call("POST", "/v1/instances/%s/pause?wait_ms=5000" % iid, {}).json["state"] == "paused"


def test_queued_commands_of_it_end(x):
    iid, sid = x.make(), new()
    x.call("POST", "/v1/instances/%s/pause?wait_ms=5000" % iid, {})
    x.other.script("wake slow 500")
    cid = x.put(iid, "true", scope=sid)[0]
    other = x.put(iid, "echo o")[0]
    assert is_gone(end(x, iid, sid))
    assert x.state(cid)["reason"] == "cancelled" and x.state(cid)["started_at"] is None
    assert x.call("GET", "/v1/commands/%s/result" % other).json["stdout"] == "o\n"
    assert cid not in x.other.read().commands


def test_where_nothing_can_be_left(x):
    iid, sid = x.make(), new()
    x.call("POST", "/v1/instances/%s/pause?wait_ms=5000" % iid, {})
    assert is_gone(end(x, iid, new()))
    x.call("POST", "/v1/instances/%s/wake?wait_ms=5000" % iid, {})
    cid = x.put(iid, "sleep 30", scope=sid)[0]
    running(x, cid)
    x.other.script("scope_end silent")
    assert end(x, iid, sid, "").status == 202
    x.other.now("vanish", iid, "scope_end silent")
    assert is_gone(end(x, iid, sid))
    assert x.state(cid)["reason"] in ("lost", "cancelled")
    assert is_gone(end(x, iid, new(), ""))


def test_ends_with_its_instance(x):
    iid, sid = x.make(), new()
    running(x, x.put(iid, "sleep 30", scope=sid)[0])
    x.other.script("scope_end refuse unavailable")
    assert end(x, iid, sid, "").status == 202
    said(end(x, new(), sid), 409, "other_instance")
    assert x.call("DELETE", "/v1/instances/%s?wait_ms=5000" % iid).json["state"] == "gone"
    assert is_gone(end(x, iid, sid))


@pytest.mark.parametrize("point", ["scope_ending_written", "scope_ending_asked", "scope_gone_written"])
def test_killed_at_each_step(x, point):
    iid, sid = x.make(), new()
    cid = x.put(iid, "bg 30; sleep 30", scope=sid)[0]
    running(x, cid)
    x.dies_at(point, lambda: end(x, iid, sid, "?reason=timeout"))
    said(x.put(iid, "true", scope=sid)[1], 410, "scope_gone")
    until(lambda: not x.other.running(iid))    # nobody has to ask again
    assert is_gone(end(x, iid, sid))
    assert x.state(cid)["reason"] == "timeout"
    assert sid in [c[2] for c in x.other.asked("scope_end")]


def test_ends_though_it_cannot_be_written_down(x):
    iid, sid = x.make(), new()
    cid = x.put(iid, "bg 30; sleep 30", scope=sid)[0]
    running(x, cid)
    in_the_way = x.root + "/state/ending/" + sid
    os.mkdir(in_the_way)
    x.other.script("scope_end refuse unavailable")
    assert (end(x, iid, sid, "").status, end(x, iid, sid, "").json) == (202, {"state": "ending"})
    until(lambda: x.state(cid)["reason"] == "cancelled")
    said(x.put(iid, "true", scope=sid)[1], 410, "scope_gone")
    os.rmdir(in_the_way)
    until(lambda: os.path.isfile(in_the_way))   # what is asked again is written again
    os.unlink(in_the_way)
    x.kill()                                    # as if it had not been: who was not told that it is gone asks again
    x.other.script()
    x.start()
    assert x.put(iid, "sleep 30", scope=sid)[1].status == 201
    assert is_gone(end(x, iid, sid)) and not x.other.running(iid)
    said(x.put(iid, "true", scope=sid)[1], 410, "scope_gone")


def test_commands_have_their_scope_after_a_restart(x):
    iid, sid = x.make(), new()
    cid, other = x.put(iid, "sleep 30", scope=sid)[0], x.put(iid, "sleep 30")[0]
    running(x, cid)
    running(x, other)
    x.kill()
    x.start()
    assert is_gone(end(x, iid, sid))
    assert x.state(cid)["reason"] == "cancelled" and x.state(other)["status"] == "running"


def test_with_the_real_agent(real):
    iid, sid, mark = new(), new(), str(30 + int(time.time() * 1000) % 100000 / 1e6)
    assert real.run(iid, "setsid sleep %s >/dev/null 2>&1 & echo x" % mark, scope=sid).json["stdout"] == "x\n"
    cid = real.put(iid, "sleep %s" % mark, scope=sid)[0]
    running(real, cid)
    assert real.run(iid, "pgrep -cf 'sleep %s$'" % mark).json["stdout"].strip() >= "2"
    assert is_gone(end(real, iid, sid))
    assert real.state(cid)["reason"] == "cancelled"
    assert real.run(iid, "pgrep -f '^sleep %s$'" % mark).json["stdout"] == ""
    said(real.put(iid, "true", scope=sid)[1], 410, "scope_gone")


# --- waiting for the start ---

def wait_start(x, iid, command, ms, cid=None, **fields):
    cid = cid or new()
    body = {"instance": iid, "create": {"workspace": "w"}, "command": command, "cwd": "/tmp", "timeout_ms": 60000, "record": {"id": cid}, **fields}
    t = time.monotonic()
    a = x.call("PUT", "/v1/commands/%s?wait_start_ms=%s" % (cid, ms), body)
    return cid, a, time.monotonic() - t


def test_the_answer_waits_for_the_start(x):
    iid = new()
    x.other.script("create slow 400")
    cid, a, took = wait_start(x, iid, "sleep 30", 5000)
    assert (a.status, a.json["command"]["status"]) == (201, "running") and 0.3 < took < 3
    _, a, took = wait_start(x, iid, "sleep 30", 5000, cid)
    assert (a.status, a.json["command"]["id"]) == (200, cid) and took < 1
    x.call("POST", "/v1/instances/%s/scopes/%s" % (iid, iid))
    assert is_gone(end(x, iid, iid))
    x.call("POST", "/v1/instances/%s/pause?wait_ms=5000" % iid, {})
    x.other.script("wake silent")
    _, a, took = wait_start(x, iid, "true", 300, scope=new())
    assert (a.status, a.json["command"]["status"]) == (201, "pending") and 0.3 <= took < 1.4
    x.other.script("wake refuse unavailable")
    _, a, took = wait_start(x, iid, "true", 20000, scope=new(), ticket={"view": "result"})
    assert (a.json["command"]["reason"], a.json["command"]["error"]["code"]) == ("not_started", "wake_failed")
    r = x.call("GET", "/t/" + a.json["ticket"])
    said(r, 503, "wake_failed")
    for bad in ("30001", "-1", "x"):
        assert wait_start(x, iid, "true", bad)[1].status == 400


def test_who_waits_and_hangs_up(x):
    iid = new()
    x.other.script("create slow 1000")
    for _ in range(20):
        c = x.connection(0.1)
        try:
            c.request("PUT", "/v1/commands/%s?wait_start_ms=30000" % new(), '{"instance":"%s","create":{"workspace":"w"},"command":"true","timeout_ms":1000}' % iid)
            c.getresponse()
        except OSError:
            pass
        c.close()
    x.comes(iid, "ready")
    assert x.run(iid, "echo p").json["stdout"] == "p\n"


# --- file operations ---

def test_a_file_operation_sees_nothing_of_the_user(real):
    iid, sid = new(), new()
    assert "PADDOCK_ENV=" in real.run(iid, ["/usr/bin/env"], scope=sid).json["stdout"]
    out = real.run(iid, ["/usr/bin/env"], scope=sid, kind="file").json["stdout"]
    assert "PATH=" in out and "PADDOCK_ENV" not in out
    assert real.put(iid, ["/usr/bin/env"], kind="file", env={"A": "1"})[1].status == 400
    assert real.put(iid, "true", kind="other")[1].status == 400
    assert real.run(iid, ["/usr/bin/env"], kind="file", env={}).status == 200


# --- whose command ---

def test_kill_and_signal_name_the_instance(x):
    iid = x.make()
    cid = x.put(iid, "sleep 30")[0]
    running(x, cid)
    said(x.call("POST", "/v1/commands/%s/kill" % cid, {"instance": new()}), 409, "other_instance")
    said(x.call("POST", "/v1/commands/%s/signal" % cid, {"instance": new(), "signal": "TERM"}), 409, "other_instance")
    said(x.call("POST", "/v1/commands/%s/kill" % cid, {"instance": "x"}), 409, "other_instance")
    assert x.call("POST", "/v1/commands/%s/kill" % cid, {"instance": 7}).status == 400
    assert x.state(cid)["status"] == "running"
    assert x.call("POST", "/v1/commands/%s/signal" % cid, {"instance": iid, "signal": "CONT"}).status == 202
    assert x.call("POST", "/v1/commands/%s/kill" % cid, {"instance": iid}).status == 202
    assert x.call("GET", "/v1/commands/%s/result" % cid).json["reason"] == "cancelled"
    said(x.call("POST", "/v1/commands/%s/kill" % cid, {"instance": iid}), 409, "not_running")
