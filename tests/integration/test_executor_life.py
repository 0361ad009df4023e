"""Instances that outlive Runs, over the scripted provider: pause, wake, replacement, keepalive, lookup, and the executor's death at each step of them.
What is true is what the provider's own log says."""

import os
import threading
import time
import uuid

import pytest
from executor import Scripted

BUILD = os.environ.get("PADDOCK_BUILD", os.getcwd())
pytestmark = pytest.mark.skipif(not Scripted.available(BUILD), reason="no paddock-executor-scripted in " + BUILD)


@pytest.fixture
def own():
    made = []

    def make(**more):
        made.append(Scripted(BUILD, **more).start())
        return made[-1]
    yield make
    for e in made:
        e.close()
        assert not e.other.read().violations


@pytest.fixture
def x(own):
    return own()


def until(check, seconds=10):
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end
        time.sleep(0.01)
    return check()


def said(answer, status, code):
    assert (answer.status, answer.json["code"]) == (status, code), answer.body


def post(x, iid, what, body=None, query=""):
    return x.call("POST", "/v1/instances/%s/%s%s" % (iid, what, query), body if body is not None else {})


def pause(x, iid):
    a = post(x, iid, "pause", query="?wait_ms=5000")
    assert (a.status, a.json["state"]) == (200, "paused"), a.body
    return a.json


def result(x, cid):
    return x.call("GET", "/v1/commands/%s/result" % cid)


# --- the table ---

def test_an_instance_as_json(x):
    iid = x.make()
    j = x.instance(iid)
    assert (j["state"], j["ref"], j["waits_for"], j["destroy_failures"], j["stuck"], j["kept_ms"]) == ("ready", None, None, 0, False, None)
    assert 0 <= j["state_ms"] < 5000 and 0 <= j["running_ms"] < 5000
    assert x.call("GET", "/v1/provider/instances").status == 200
    assert x.instance(iid)["ref"]
    assert x.call("GET", "/v1/instances/%s?lookup=2" % iid).status == 400


def test_pause_and_wake(x):
    iid = x.make()
    x.other.script("pause slow 300", "wake slow 300")
    a = post(x, iid, "pause")
    assert (a.status, a.json["state"]) == (202, "pausing")
    assert post(x, iid, "pause", query="?wait_ms=5000").json["state"] == "paused"
    a = post(x, iid, "pause")
    assert (a.status, a.json["state"]) == (200, "paused")
    a = post(x, iid, "wake")
    assert (a.status, a.json["state"]) == (202, "waking")
    said(post(x, iid, "pause"), 409, "instance_busy")
    a = post(x, iid, "wake", query="?wait_ms=5000")
    assert (a.status, a.json["state"]) == (200, "ready")
    assert post(x, iid, "wake").status == 200
    assert (len(x.other.asked("pause")), len(x.other.asked("wake"))) == (1, 1)
    kinds = [i["instance"]["state"] for i in x.call("GET", "/v1/reports").json["items"] if i["kind"] == "instance"]
    assert kinds == ["ready"]


@pytest.mark.parametrize("what", ["pause", "wake", "keepalive"])
def test_what_is_not_there(x, what):
    body = {"ms": 1000} if what == "keepalive" else {}
    said(post(x, str(uuid.uuid4()), what, body), 404, "not_found")
    for bad in ("x", "..%2f..%2fetc", "0" * 36, str(uuid.uuid4()).upper()):
        assert post(x, bad, what, body).status == 404
    iid = x.make()
    said(post(x, iid, what, {"a": 1}), 400, "unknown_field")
    assert post(x, iid, what, "[]").status == 400
    for wait in ("-1", "30001", "9" * 30, "a"):
        if what != "keepalive":
            assert post(x, iid, what, body, "?wait_ms=" + wait).status == 400
    assert x.call("DELETE", "/v1/instances/%s?wait_ms=5000" % iid).json["state"] == "gone"
    said(post(x, iid, what, body), 410, "instance_gone")


def test_pause_is_refused_while_something_is_open(x):
    iid = x.make()
    cid, _ = x.put(iid, "sleep 30")
    said(post(x, iid, "pause"), 409, "instance_busy")
    x.call("POST", "/v1/commands/%s/kill" % cid)
    result(x, cid)
    until(lambda: post(x, iid, "pause").status in (200, 202))
    x.comes(iid, "paused")


def test_the_provider_says_that_it_is_busy(x):
    iid = x.make()
    x.other.script("pause refuse busy times 1")
    said(post(x, iid, "pause", query="?wait_ms=5000"), 409, "instance_busy")
    assert x.instance(iid)["state"] == "ready"
    x.other.script("pause reject busy times 1")
    said(post(x, iid, "pause"), 409, "instance_busy")
    assert x.instance(iid)["state"] == "ready"
    pause(x, iid)


def test_without_pause(own):
    x = own(per_run=True)
    iid = x.make()
    said(post(x, iid, "pause"), 409, "pause_unsupported")
    assert post(x, iid, "wake").status == 200


def test_keepalive(x):
    iid = x.make()
    a = post(x, iid, "keepalive", {"ms": 60000})
    assert a.status == 200 and 0 <= a.json["kept_ms"] < 5000
    for ms in (0, -1, 2**63, "1", None, 86400001):
        assert post(x, iid, "keepalive", {"ms": ms}).status == 400
    x.other.script("keep refuse unavailable times 1")
    said(post(x, iid, "keepalive", {"ms": 1000}), 503, "control_plane_unavailable")
    x.other.script("keep reject unavailable times 1")
    said(post(x, iid, "keepalive", {"ms": 1000}), 503, "control_plane_unavailable")
    x.other.script("keep late 300 times 1")
    assert post(x, iid, "keepalive", {"ms": 1000}).status == 200
    x.other.script("keep lost 100 times 1")
    said(post(x, iid, "keepalive", {"ms": 1000}), 503, "control_plane_unavailable")
    x.other.script("keep vanish times 1")
    said(post(x, iid, "keepalive", {"ms": 1000}), 409, "instance_not_ready")
    assert x.instance(iid)["state"] == "lost"
    said(post(x, iid, "keepalive", {"ms": 1000}), 409, "instance_not_ready")


def test_a_keepalive_without_an_answer(x):
    iid = x.make()
    x.other.script("keep silent")
    t = time.monotonic()
    said(post(x, iid, "keepalive", {"ms": 1000}), 503, "control_plane_unavailable")
    assert 9 < time.monotonic() - t < 20


def test_the_providers_own_list(x):
    a, b = x.make("a"), x.make("b")
    pause(x, b)
    j = x.call("GET", "/v1/provider/instances").json
    assert j["complete"] and {(i["id"], i["state"]) for i in j["items"]} == {(a, "running"), (b, "paused")} and all(i["ref"] for i in j["items"])
    x.other.script("list part 1")
    j = x.call("GET", "/v1/provider/instances").json
    assert (j["complete"], len(j["items"])) == (False, 1)
    for rule in ("list refuse unavailable", "list reject unavailable", "list lost 50"):
        x.other.script(rule)
        said(x.call("GET", "/v1/provider/instances"), 503, "control_plane_unavailable")
    x.other.script("list late 300")
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(x.call("GET", "/v1/provider/instances").status)) for _ in range(5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert answers == [200] * 5
    assert len(x.other.asked("list")) < 5 + 4 + 2   # who came meanwhile shares one answer


def test_lookup_shows_what_became_of_it(x):
    iid = x.make()
    x.other.now("vanish", iid, "list silent")   # told EXITED at once
    x.comes(iid, "lost")
    iid = x.make("b")
    x.other.script("lookup says paused times 1")
    assert x.instance(iid, "?lookup=1")["state"] == "ready"   # as it is now
    x.comes(iid, "paused")
    x.other.script()
    x.instance(iid, "?lookup=1")
    x.comes(iid, "ready")


def test_forget(x):
    iid = x.make()
    x.other.script("destroy refuse unavailable")
    assert x.call("DELETE", "/v1/instances/%s" % iid).status == 202
    a = x.call("DELETE", "/v1/instances/%s?forget=1" % iid)
    assert (a.status, a.json["state"]) == (200, "gone")
    assert x.call("PUT", "/v1/instances/" + iid, {"workspace": "w"}).status == 410
    assert x.instance(iid)["state"] == "gone"
    never = str(uuid.uuid4())
    assert x.call("DELETE", "/v1/instances/%s?forget=1" % never).json["state"] == "gone"
    assert x.call("PUT", "/v1/instances/" + never, {"workspace": "w"}).status == 410
    assert never in [c[1] for c in x.other.asked("destroy")]
    x.other.script()


# --- commands and sleep ---

def test_a_command_wakes(x):
    iid = x.make()
    pause(x, iid)
    assert x.run(iid, "echo a").json["stdout"] == "a\n"
    assert x.instance(iid)["state"] == "ready"


def test_a_command_while_it_is_being_paused(x):
    iid = x.make()
    x.other.script("pause slow 400")
    assert post(x, iid, "pause").status == 202
    cid, a = x.put(iid, "echo b")
    assert a.status == 201 and x.state(cid)["status"] == "pending"
    assert result(x, cid).json["stdout"] == "b\n"
    assert len(x.other.asked("wake")) == 1 and x.other.read().commands[cid].starts == 1


def test_a_pause_that_fails_hands_the_queue_over(x):
    iid = x.make()
    x.other.script("pause lost 300")          # unknown: looked up; it was paused
    post(x, iid, "pause")
    cid, _ = x.put(iid, "echo c")
    assert result(x, cid).json["stdout"] == "c\n"
    x.other.script("pause refuse unavailable")
    post(x, iid, "pause")
    cid, _ = x.put(iid, "echo d")
    assert result(x, cid).json["stdout"] == "d\n"


def test_wake_failures_are_tried_again(x):
    iid = x.make()
    pause(x, iid)
    x.other.script("wake refuse unavailable times 2")
    assert x.run(iid, "echo e").json["stdout"] == "e\n"


def test_a_wake_that_is_given_up(x):
    iid = x.make()
    pause(x, iid)
    x.other.script("wake refuse unavailable")
    cid, _ = x.put(iid, "true")
    said(result(x, cid), 503, "wake_failed")
    assert (x.state(cid)["reason"], x.state(cid)["error"]["code"]) == ("not_started", "wake_failed")
    j = x.comes(iid, "paused")
    assert j["error"]["code"] == "wake_failed"
    said(post(x, iid, "wake", query="?wait_ms=5000"), 503, "wake_failed")
    x.other.script()
    assert post(x, iid, "wake", query="?wait_ms=5000").json["state"] == "ready"
    assert x.instance(iid)["error"] is None
    pause(x, iid)
    x.other.script("wake silent")             # no answer at all
    cid, _ = x.put(iid, "true")
    said(result(x, cid), 503, "wake_failed")


def test_lost_while_a_command_waits(x):
    iid = x.make()
    pause(x, iid)
    x.other.script("wake vanish")
    cid, _ = x.put(iid, "true")
    said(result(x, cid), 409, "sandbox_not_found")
    assert x.instance(iid)["state"] == "lost"
    said(result(x, x.put(iid, "true")[0]), 409, "sandbox_not_found")


def test_paused_by_itself_loses_what_ran(x):
    iid = x.make()
    cid, _ = x.put(iid, "sleep 30")
    until(lambda: x.other.running(iid))
    x.other.now("pause", iid)
    assert result(x, cid).json["reason"] == "lost"
    assert x.instance(iid)["state"] == "paused"
    assert x.run(iid, "echo again").json["stdout"] == "again\n"


def test_a_pause_that_is_stuck_forever(x):
    iid = x.make()
    x.other.script("pause stuck")
    assert post(x, iid, "pause").status == 202
    cid, _ = x.put(iid, "true")
    said(result(x, cid), 503, "wake_failed")
    assert x.instance(iid)["state"] == "pausing"
    new = x.make(replaces=iid)
    assert x.run(new, "echo f").json["stdout"] == "f\n"


# --- replacement ---

def test_replaced(x):
    old = x.make()
    x.other.script("destroy late 500")
    new = str(uuid.uuid4())
    a = x.call("PUT", "/v1/instances/" + new, {"workspace": "w", "replaces": old})
    assert (a.status, a.json["state"], a.json["waits_for"]) == (202, "creating", old)
    cid, _ = x.put(new, "echo g")
    said(x.call("PUT", "/v1/instances/" + old, {"workspace": "w"}), 410, "instance_gone")
    said(x.put(old, "true")[1], 410, "instance_gone")
    assert result(x, cid).json["stdout"] == "g\n"
    assert [i.id for i in x.other.living("w")] == [new]
    said(x.put(old, "true")[1], 410, "instance_gone")


def test_replaced_by_a_command(x):
    old, never = x.make(), str(uuid.uuid4())
    r = x.run(new := str(uuid.uuid4()), "echo h", create={"workspace": "w", "replaces": old}).json
    assert r["stdout"] == "h\n" and [i.id for i in x.other.living("w")] == [new]
    newer = str(uuid.uuid4())
    assert x.put(newer, "true", create={"workspace": "x", "replaces": never})[1].status == 201
    said(x.put(never, "true")[1], 410, "instance_gone")
    for bad in ("x", 7, "0" * 36):
        assert x.put(str(uuid.uuid4()), "true", create={"workspace": "x", "replaces": bad})[1].status == 400
    itself = str(uuid.uuid4())
    assert x.put(itself, "true", create={"workspace": "x", "replaces": itself})[1].status == 400
    said(x.put(str(uuid.uuid4()), "true", create={"workspace": "x", "replaces": new})[1], 409, "other_workspace")


def test_stuck_is_no_longer_in_the_way(x):
    old = x.make()
    x.other.script("destroy refuse unavailable of " + old)
    new = str(uuid.uuid4())
    assert x.call("PUT", "/v1/instances/" + new, {"workspace": "w", "replaces": old}).status == 202
    cid, _ = x.put(new, "echo i")
    until(lambda: x.instance(old)["destroy_failures"] == 1)
    assert x.instance(new)["waits_for"] == old and not x.instance(old)["stuck"]
    x.kill()                                   # the count is kept
    x.start()
    until(lambda: x.instance(old)["stuck"], 15)
    assert x.comes(new, "ready")["waits_for"] is None
    said(result(x, cid), 503, "executor_restarted")
    assert x.run(new, "echo j").json["stdout"] == "j\n"
    reports = x.call("GET", "/v1/reports").json["items"]
    assert any(i["kind"] == "instance" and i["instance"]["id"] == old and i["instance"]["stuck"] for i in reports)
    x.other.violations.clear()                 # two living ones: that is what stuck means
    x.other.script()
    x.comes(old, "gone", 15)
    x.other.read().violations.clear()


def test_a_create_whose_answer_is_lost(x):
    iid = str(uuid.uuid4())
    x.other.script("create lost 100")
    cid, _ = x.put(iid, "echo k")
    assert result(x, cid).json["stdout"] == "k\n"
    assert len(x.other.asked("create")) == 1 and len(x.other.living()) == 1


# --- death and restart ---

def in_two_seconds(x, iid, *states):
    until(lambda: x.instance(iid)["state"] in states, 5)
    return x.instance(iid)["state"]


@pytest.mark.parametrize("point", ["instance_pausing_written", "instance_pausing_asked"])
def test_killed_while_pausing(x, point):
    iid = x.make()
    x.dies_at(point, lambda: post(x, iid, "pause"))
    assert in_two_seconds(x, iid, "paused")     # what was asked for is done
    assert [i.state for i in x.other.living()] == ["paused"]
    assert x.run(iid, "echo l").json["stdout"] == "l\n"


def test_killed_when_it_was_paused(x):
    iid = x.make()
    x.dies_at("instance_paused_written", lambda: post(x, iid, "pause", query="?wait_ms=3000"))
    assert x.instance(iid)["state"] == "paused"
    x.dies_at("instance_waking_written", lambda: post(x, iid, "wake"))
    assert in_two_seconds(x, iid, "ready")
    pause(x, iid)
    x.dies_at("instance_waking_asked", lambda: post(x, iid, "wake"))
    assert in_two_seconds(x, iid, "ready")
    pause(x, iid)
    x.dies_at("instance_ready_written", lambda: post(x, iid, "wake", query="?wait_ms=3000"))
    assert x.run(iid, "echo m").json["stdout"] == "m\n"


@pytest.mark.parametrize("point", ["instance_creating_written", "instance_creating_asked", "instance_ready_written"])
def test_killed_while_it_is_made(x, point):
    iid = str(uuid.uuid4())
    x.dies_at(point, lambda: (x.call("PUT", "/v1/instances/" + iid, {"workspace": "w"}), time.sleep(1)))
    x.comes(iid, "ready")
    assert len(x.other.living("w")) == 1


@pytest.mark.parametrize("point", ["instance_destroying_written", "instance_destroying_asked", "instance_gone_written"])
def test_killed_while_it_is_replaced(x, point):
    old, new = x.make(), str(uuid.uuid4())
    x.dies_at(point, lambda: (x.call("PUT", "/v1/instances/" + new, {"workspace": "w", "replaces": old}), time.sleep(1)))
    said(x.call("PUT", "/v1/instances/" + old, {"workspace": "w"}), 410, "instance_gone")
    assert x.call("PUT", "/v1/instances/" + new, {"workspace": "w", "replaces": old}).status in (200, 202)
    x.comes(new, "ready")
    assert [i.id for i in x.other.living("w")] == [new]


def test_the_truth_after_a_restart(x):
    """Whatever happened while nobody looked."""
    a, b, c = x.make("a"), x.make("b"), x.make("c")
    pause(x, b)
    x.kill()
    x.other.script("adopt vanish of " + a, "adopt pause of " + c)
    x.start()
    x.comes(a, "lost")
    x.comes(c, "paused")
    assert x.instance(b)["state"] == "paused"


def test_the_provider_is_away_at_a_restart(x):
    iid = x.make()
    for rule in ("adopt reject unavailable times 3", "adopt refuse unavailable times 1", "adopt lost 50 times 1"):
        x.kill()
        x.other.script(rule)
        x.start()
        assert x.run(iid, "echo n").json["stdout"] == "n\n"
    assert len(x.other.asked("create")) == 1


# --- lost books: what lives at the provider has been forgotten here ---

def alone(x, workspace, new, seconds=15):
    """The new one comes; the provider says (`violations`) whether there were ever two."""
    assert x.comes(new, "ready", seconds)["waits_for"] is None
    assert [i.id for i in x.other.living(workspace)] == [new] and not x.other.violations
    assert x.run(new, "echo o").json["stdout"] == "o\n"


@pytest.mark.parametrize("rule", [None, "destroy late 500", "destroy lost 100 times 1", "destroy silent times 1", "destroy twice", "destroy refuse unavailable times 1",
                                  "destroy reject unavailable times 2"])
def test_replaced_when_the_books_were_lost(x, rule):
    old, new = x.make(), str(uuid.uuid4())
    x.loses_its_books()
    assert x.call("GET", "/v1/instances/" + old).status == 404 and [i.id for i in x.other.living("w")] == [old]
    x.other.script(rule)
    a = x.call("PUT", "/v1/instances/" + new, {"workspace": "w", "replaces": old})
    assert (a.status, a.json["state"], a.json["waits_for"]) == (202, "creating", old), a.body
    j = x.instance(old)
    assert j["state"] in ("destroying", "gone") and j["created_at"] is None and j["workspace"] == "w"
    said(x.call("PUT", "/v1/instances/" + old, {"workspace": "w"}), 410, "instance_gone")
    alone(x, "w", new)
    assert x.instance(old)["state"] == "gone"


def test_replaced_by_a_command_when_the_books_were_lost(x):
    old, new = x.make(), str(uuid.uuid4())
    pause(x, old)
    x.loses_its_books()
    assert x.run(new, "echo p", create={"workspace": "w", "replaces": old}).json["stdout"] == "p\n"
    alone(x, "w", new)


def test_released_and_used_again_when_the_books_were_lost(x):
    """Destroyed by its id alone; then the next one names it."""
    old, new = x.make(), str(uuid.uuid4())
    x.loses_its_books()
    x.other.script("destroy late 700")
    a = x.call("DELETE", "/v1/instances/" + old)
    assert (a.status, a.json["state"], a.json["workspace"]) == (202, "destroying", ""), a.body
    a = x.call("PUT", "/v1/instances/" + new, {"workspace": "w", "replaces": old})
    assert (a.status, a.json["waits_for"]) == (202, old), a.body
    alone(x, "w", new)
    reports = {i["instance"]["id"]: i["instance"]["state"] for i in x.call("GET", "/v1/reports").json["items"] if i["kind"] == "instance"}
    assert reports == {old: "gone", new: "ready"}


def test_the_provider_is_away_when_the_books_were_lost(x):
    old, new = x.make(), str(uuid.uuid4())
    x.loses_its_books()
    x.other.script("any reject unavailable")
    assert x.call("DELETE", "/v1/instances/%s?wait_ms=300" % old).json["state"] == "destroying"
    assert x.call("PUT", "/v1/instances/" + new, {"workspace": "w", "replaces": old}).status == 202
    until(lambda: x.instance(old)["destroy_failures"] == 2)
    assert x.instance(new)["waits_for"] == old and [i.id for i in x.other.living()] == [old]
    x.other.script()
    alone(x, "w", new)


def test_stuck_when_the_books_were_lost(x):
    old, new = x.make(), str(uuid.uuid4())
    x.loses_its_books()
    x.other.script("destroy refuse unavailable")
    assert x.call("PUT", "/v1/instances/" + new, {"workspace": "w", "replaces": old}).status == 202
    until(lambda: x.instance(old)["stuck"], 15)
    x.comes(new, "ready")
    x.other.read().violations.clear()          # two living ones: that is what stuck means
    x.other.script()
    x.comes(old, "gone", 15)


@pytest.mark.parametrize("point", ["instance_destroying_written", "instance_destroying_asked", "instance_gone_written"])
def test_killed_while_it_is_replaced_and_the_books_were_lost(x, point):
    old, new = x.make(), str(uuid.uuid4())
    x.loses_its_books()
    x.dies_at(point, lambda: (x.call("PUT", "/v1/instances/" + new, {"workspace": "w", "replaces": old}), time.sleep(1)))
    said(x.call("PUT", "/v1/instances/" + old, {"workspace": "w"}), 410, "instance_gone")
    assert x.call("PUT", "/v1/instances/" + new, {"workspace": "w", "replaces": old}).status in (200, 202)
    alone(x, "w", new)


def test_taken_back_when_the_books_were_lost(x):
    ready, paused, never = x.make(), x.make(workspace="v"), str(uuid.uuid4())
    pause(x, paused)
    cid = x.put(ready, "sleep 30")[0]
    until(lambda: x.state(cid)["status"] == "running")
    ran = x.instance(ready)["running_ms"]
    x.loses_its_books()

    def put(iid, **fields):
        return x.call("PUT", "/v1/instances/" + iid, dict({"workspace": "w"}, **fields))
    for bad in ({"was": "lost"}, {"was": "ready", "replaces": never}, {"running_ms": 1}, {"was": "ready", "running_ms": -1}, {"was": 1}):
        assert put(ready, **bad).status == 400, bad
    a = put(ready, was="ready", running_ms=ran + 60000)
    assert (a.status, a.json["state"]) == (202, "ready") and a.json["running_ms"] == ran + 60000
    assert put(paused, workspace="v", was="paused", running_ms=0).json["state"] == "paused"
    put(never, workspace="u", was="ready", running_ms=7)
    assert put(ready, was="paused", running_ms=0).status == 200 and x.instance(ready)["state"] == "ready"
    j = x.comes(never, "lost")
    assert j["running_ms"] == 7
    until(lambda: not x.other.running(ready))          # what nobody has on record does not run on
    assert x.run(ready, "echo o").json["stdout"] == "o\n" and x.run(paused, "echo p").json["stdout"] == "p\n"
    assert x.instance(ready)["running_ms"] > ran + 60000
    assert len(x.other.living()) == 2 and not x.other.violations and len(x.other.asked("create")) == 2


@pytest.mark.parametrize("point", ["instance_ready_written", "instance_paused_written"])
def test_killed_while_it_is_taken_back(x, point):
    iid, was = x.make(), "paused" if "paused" in point else "ready"
    if was == "paused":
        pause(x, iid)
    x.loses_its_books()
    x.dies_at(point, lambda: x.call("PUT", "/v1/instances/" + iid, {"workspace": "w", "was": was, "running_ms": 9000}))
    assert x.instance(iid)["state"] == was and x.instance(iid)["running_ms"] >= 9000
    assert x.run(iid, "echo o").json["stdout"] == "o\n" and len(x.other.asked("create")) == 1


def test_an_unreadable_record(x):
    iid = x.make()
    x.kill()
    with open(x.root + "/state/instances/%s/state" % iid, "w", encoding="utf-8") as f:
        f.write("{")
    x.start()
    assert x.call("GET", "/v1/instances/" + iid).status == 404
    assert x.call("PUT", "/v1/instances/" + iid, {"workspace": "w", "was": "ready", "running_ms": 0}).status == 202
    assert x.run(iid, "echo o").json["stdout"] == "o\n"
    x.kill()
    x.start()
    assert x.run(iid, "echo o").json["stdout"] == "o\n" and [i.id for i in x.other.living()] == [iid]


def test_one_of_a_run_is_not_taken_back(own):
    x = own(per_run=True)
    said(x.call("PUT", "/v1/instances/" + str(uuid.uuid4()), {"workspace": "w", "was": "ready", "running_ms": 0}), 409, "take_up_unsupported")


def test_one_of_a_run_when_the_books_were_lost(own):
    x = own(per_run=True)
    iid = x.make()
    x.put(iid, "sleep 30")
    x.loses_its_books()
    x.other.script("destroy refuse unavailable times 1")
    a = x.call("DELETE", "/v1/instances/%s?wait_ms=10000" % iid)
    assert (a.status, a.json["state"]) == (200, "gone")
    assert not x.other.living() and not x.other.running()


# --- counting ---

def test_only_running_time_is_counted(x):
    iid, last = x.make(), 0
    for n in range(4):
        time.sleep(0.15)
        if n == 1:
            x.kill()
            time.sleep(0.3)
            x.start()
        if n == 2:
            x.kill(15)
            x.start()
        now = x.instance(iid)["running_ms"]
        assert now >= last
        last = pause(x, iid)["running_ms"]
        assert last >= now
        time.sleep(0.2)
        assert x.instance(iid)["running_ms"] == last
        assert post(x, iid, "wake", query="?wait_ms=5000").json["running_ms"] - last < 100
    x.call("DELETE", "/v1/instances/%s?wait_ms=5000" % iid)
    j, true = x.instance(iid), x.other.read().instances[iid].running_ms()
    assert abs(j["running_ms"] - true) < 250, (j, true)


def test_what_was_told_does_not_fall(x):
    iid, last = x.make(), 0
    for _ in range(5):
        time.sleep(0.1)
        last = x.instance(iid)["running_ms"]
        x.kill()
        x.start()
        assert x.instance(iid)["running_ms"] >= last


def test_death_of_both(x):
    iid = x.make()
    time.sleep(0.5)
    told = x.instance(iid)["running_ms"]
    x.kill()
    x.other.script("adopt vanish")
    time.sleep(1)
    x.start()
    j = x.comes(iid, "lost")
    assert told <= j["running_ms"] < told + 500   # until when we watched: at most 5 s less than what it ran
