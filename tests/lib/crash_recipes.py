"""The ways into each step of src/base/fault_steps.def (see crash.py). A step without one fails the matrix."""

from crash import new_key, recipe
from nodes import until

PER_RUN, PERSISTENT = ("per-run",), ("scripted", "host")
ALL = PER_RUN + PERSISTENT


def done(u, cid, mark, *counts):
    """It ended well and was started once."""
    end = u.ended(cid)
    assert (end["status"], end["reason"], end["exit_code"]) == ("exited", "exited", 0), end
    assert mark in end["stdout"], end
    u.expect(mark, *(counts or (1,)))


def run_ended(u, run):
    return until("the Run has ended", lambda: (lambda r: r["ended_at"] and r)(u.get_run(run)))


# --- Runs ---

@recipe(ALL, "create:worker")
def create(u):
    key, wish = new_key(), {"thread_id": "only", "claim": {"worker_id": "w"}}
    yield lambda: u.call("POST", "/api/runs", wish, key)
    run = u.again("POST", "/api/runs", wish, key).json
    assert u.finish(run["id"], run["lease_token"]).status == 200
    assert len(u.again("GET", "/api/runs?thread_id=only").json["items"]) == 1


@recipe(ALL, "claim:worker")
def claim(u):
    run = u.again("POST", "/api/runs", {"thread_id": "only"}).json["id"]
    yield lambda: u.call("POST", "/api/runs/claim", {"worker_id": "w", "lease_ms": 1000})
    got = u.again("POST", "/api/runs/claim", {"worker_id": "w"}, fine=(200,)).json
    assert got["run"]["id"] == run and got["run"]["attempt"] in (1, 2), got
    assert u.finish(run, got["lease_token"]).status == 200


@recipe(ALL, "start:worker")
def start(u):
    key, (mark, command) = new_key(), u.mark()
    run, lease = u.run()
    yield lambda: u.call("POST", "/api/runs/%s/commands" % run, u.body(command, lease), key)
    done(u, u.start(run, lease, command, key), mark)
    assert u.finish(run, lease).status == 200


@recipe(ALL, "start:worker")
def start_forgotten(u):
    """The client does not ask again."""
    _, command = u.mark()
    run, lease = u.run()
    yield lambda: u.call("POST", "/api/runs/%s/commands" % run, u.body(command, lease))
    assert u.finish(run, lease).status == 200
    assert run_ended(u, run)["status"] == "completed"


@recipe(ALL, "execute/row:worker", "start/call:worker")
def execute(u):
    key, (mark, command) = new_key(), u.mark()
    yield lambda: u.call("POST", "/api/execute", u.body(command), key)
    done(u, u.execute(command, key), mark)


@recipe(ALL, "execute/row:worker", "start/call:worker")
def execute_forgotten(u):
    _, command = u.mark()
    yield lambda: u.call("POST", "/api/execute", u.body(command))


@recipe(ALL, "finish:worker")
def finish(u):
    run, lease = u.run()
    mark, command = u.mark()
    done(u, u.start(run, lease, command), mark)
    yield lambda: u.call("POST", "/api/runs/%s/finish" % run, {"lease_token": lease, "status": "completed"})
    u.finish(run, lease)
    assert run_ended(u, run)["status"] == "completed"


@recipe(ALL, "finish:worker")
def finish_forgotten(u):
    """Nobody was told that it was finished: if it was not, the lease expires."""
    run, lease = u.run(lease_ms=3000)
    mark, command = u.mark()
    done(u, u.start(run, lease, command), mark)
    yield lambda: u.call("POST", "/api/runs/%s/finish" % run, {"lease_token": lease, "status": "completed"})
    until("the Run is offered again or has ended", lambda: u.get_run(run)["status"] in ("pending", "completed"))


@recipe(ALL, "steer:worker")
def steer(u):
    """The input is taken once, and delivered once, after what the Run did was ended."""
    key, wish = new_key(), {"input": {"say": "stop"}}
    run, lease = u.run()
    mark, command = u.mark(600)
    cid = u.start(run, lease, command)
    u.started(cid)
    u.expect(mark, 1)
    yield lambda: u.call("POST", "/api/runs/%s/steer" % run, wish, key)
    answer = u.again("POST", "/api/runs/%s/steer" % run, wish, key).json
    assert (answer["run"]["id"], answer["run"]["status"]) == (run, "yielded"), answer
    got = until("the successor is offered", lambda: (lambda a: a.status == 200 and a.json)(u.again("POST", "/api/runs/claim", {"worker_id": "w"}, fine=(200, 204))))
    assert (got["run"]["id"], got["run"]["input"]) == (answer["successor"]["id"], wish["input"]), got
    assert u.ended(cid)["reason"] == "cancelled"
    assert u.again("POST", "/api/runs/claim", {"worker_id": "w"}, fine=(200, 204)).status == 204
    assert u.finish(got["run"]["id"], got["lease_token"]).status == 200


@recipe(ALL, "cancel:worker")
def cancel(u):
    run, lease = u.run()
    mark, command = u.mark(600)
    cid = u.start(run, lease, command)
    u.started(cid)
    u.expect(mark, 1)
    yield lambda: u.call("POST", "/api/runs/%s/cancel" % run)
    u.cancel(run)
    end = u.ended(cid)
    assert end["reason"] == "cancelled", end
    assert run_ended(u, run)["status"] == "cancelled"


@recipe(ALL, "cancel/call:janitor")
def ceiling(u):
    """A Run reaches its time limit."""
    run, lease = u.run(timeout_ms=4000)
    mark, command = u.mark(600)
    cid = u.start(run, lease, command)
    u.started(cid)
    u.expect(mark, 1)
    yield lambda: None
    end = u.ended(cid)
    assert (end["reason"], end["timeout"]) == ("timeout", "run"), end
    assert run_ended(u, run)["error"]["code"] == "run_timeout"


# --- clean-up ---

@recipe(ALL, "cleanup/call:worker")
def cleanup_of_finish(u):
    yield from finish(u)


@recipe(ALL, "cleanup/row:worker")
def cleanup_of_nothing(u):
    """A Run that never had a sandbox: the worker that ends it clears the duty itself."""
    run, lease = u.run()
    yield lambda: u.call("POST", "/api/runs/%s/finish" % run, {"lease_token": lease, "status": "completed"})
    u.finish(run, lease)
    assert run_ended(u, run)["status"] == "completed"


@recipe(ALL, "cleanup:janitor", "ends:janitor", "reports:janitor")
def end_of_execute(u):
    """A one-shot Run ends with its command, when the janitor hears of it."""
    mark, command = u.mark()
    got = []
    yield lambda: got.append(u.call("POST", "/api/execute", u.body(command)).headers["X-Paddock-Command"])
    done(u, got[0], mark)


@recipe(ALL, "cleanup:janitor")
def lease_lost(u):
    run, lease = u.run(lease_ms=2000)
    mark, command = u.mark(600)
    u.expect(mark, 1)
    cid = u.start(run, lease, command)
    u.started(cid)
    yield lambda: None
    end = u.ended(cid)
    assert end["reason"] == "cancelled", end
    until("the Run is offered again", lambda: u.get_run(run)["status"] == "pending")
    got = u.again("POST", "/api/runs/claim", {"worker_id": "w2"}, fine=(200,)).json
    assert (got["run"]["id"], got["run"]["attempt"]) == (run, 2), got
    assert u.finish(run, got["lease_token"]).status == 200


# --- sandboxes that outlive Runs ---

def ready(u):
    """A sandbox that is there and at rest; its row."""
    mark, command = u.mark()
    done(u, u.execute(command), mark)
    return at_rest(u, "ready")


def at_rest(u, *states):
    def rest():
        row = u.sandbox()
        return row and row["state"] in states and not u.unrest() and row
    return until(lambda: "the sandbox is %s and at rest: %r, %r" % (states, u.sandbox(), u.unrest()), rest)


def paused(u):
    ready(u)
    assert u.again("POST", "/api/user/sandbox/pause").status == 200
    return at_rest(u, "paused")


def works(u):
    mark, command = u.mark()
    done(u, u.execute(command), mark)
    return u.sandbox()


def is_before_row(u):
    return u.point.endswith("_before_row")


def post(u, what, wish=None):
    return lambda: u.call("POST", "/api/user/sandbox/" + what, wish)


@recipe(PERSISTENT, "make/call:worker", "rebuild:worker")
def rebuild(u):
    was = ready(u)
    yield post(u, "rebuild")
    row = at_rest(u, "ready")
    assert row["generation"] == was["generation"] + (u.point != "rebuild_before_row"), (was, row)
    assert works(u)["instance_id"] == row["instance_id"]


@recipe(PERSISTENT, "make/call:janitor")
def rebuild_left(u):
    """The worker that decided it told nobody."""
    was = ready(u)
    yield post(u, "rebuild"), "rebuild_after_row"
    row = at_rest(u, "ready")
    assert row["generation"] == was["generation"] + 1, (was, row)
    assert works(u)["instance_id"] == row["instance_id"]


@recipe(PERSISTENT, "make/call:janitor")
def first_use_left(u):
    mark, command = u.mark()
    u.expect(mark, 0, 1)
    yield (lambda: u.call("POST", "/api/execute", u.body(command))), "execute_after_row"
    row = until("the sandbox is there", lambda: (lambda r: r and r["state"] == "ready" and r)(u.sandbox()))
    assert (row["generation"], works(u)["instance_id"]) == (1, row["instance_id"])


@recipe(PERSISTENT, "release:worker", "retire/call:worker")
def release(u):
    was = ready(u)
    yield post(u, "release")
    row = at_rest(u, "ready" if is_before_row(u) else "none")
    now = works(u)
    assert now["generation"] == was["generation"] + (row["state"] == "none"), (was, now)


@recipe(PERSISTENT, "retire/call:janitor")
def release_left(u):
    was = ready(u)
    yield post(u, "release"), "release_after_row"
    at_rest(u, "none")
    assert works(u)["generation"] == was["generation"] + 1


@recipe(PERSISTENT, "pause:worker", "observe:worker")
def pause(u):
    was = ready(u)
    yield post(u, "pause")
    row = at_rest(u, "ready" if u.point == "pause_before_row" else "paused")
    assert row["instance_id"] == was["instance_id"]
    assert works(u)["instance_id"] == was["instance_id"]


@recipe(PERSISTENT, "pause/call:janitor")
def pause_left(u):
    was = ready(u)
    yield post(u, "pause"), "pause_after_row"
    assert at_rest(u, "paused")["instance_id"] == was["instance_id"]
    assert works(u)["instance_id"] == was["instance_id"]


@recipe(PERSISTENT, "idle_pause:janitor", "pause/call:janitor", "observe:janitor")
def idle(u):
    was = ready(u)
    yield lambda: u.leave_idle()
    assert at_rest(u, "paused")["instance_id"] == was["instance_id"]
    assert works(u)["instance_id"] == was["instance_id"]


@recipe(PERSISTENT, "wake/call:janitor")
def wake_left(u):
    was = paused(u)
    mark, command = u.mark()
    u.expect(mark, 0, 1)
    yield (lambda: u.call("POST", "/api/execute", u.body(command))), "execute_after_row"
    assert until("it is awake", lambda: (lambda r: r["state"] == "ready" and r)(u.sandbox()))["instance_id"] == was["instance_id"]
    assert works(u)["instance_id"] == was["instance_id"]


@recipe(PERSISTENT, "execute/row:worker", "start/call:worker", "ends:janitor")
def execute_paused(u):
    """A command that wakes."""
    was = paused(u)
    key, (mark, command) = new_key(), u.mark()
    yield lambda: u.call("POST", "/api/execute", u.body(command), key)
    done(u, u.execute(command, key), mark)
    assert u.sandbox()["instance_id"] == was["instance_id"]


@recipe(PERSISTENT, "keepalive:worker")
def keep_alive(u):
    was = ready(u)
    yield post(u, "keep-alive", {"timeout_ms": 60000})
    assert u.again("POST", "/api/user/sandbox/keep-alive", {"timeout_ms": 60000}).status == 200
    assert works(u)["instance_id"] == was["instance_id"]


@recipe(PERSISTENT, "keepalive/call:janitor")
def kept_by_run(u):
    """We keep it alive while a Run is active."""
    was = ready(u)
    run, lease = u.run()
    mark, command = u.mark()
    yield lambda: done(u, u.start(run, lease, command), mark)
    assert u.finish(run, lease).status == 200
    assert at_rest(u, "ready")["instance_id"] == was["instance_id"]


@recipe(("scripted",), "again:worker")
def with_sandbox(u):
    """It vanished, and its user wants another."""
    was = ready(u)
    u.stack.provider.truth.script("exec vanish times 1 of " + was["instance_id"])
    key, (mark, command) = new_key(), u.mark()
    run, lease = u.run()
    wish = u.body(command, lease, with_sandbox=True)
    yield lambda: u.call("POST", "/api/runs/%s/commands" % run, wish, key)
    answer = u.again("POST", "/api/runs/%s/commands" % run, wish, key, fine=(202, 409))
    if answer.status == 202:
        u.ended(answer.json["id"])
    u.expect(mark, 0, 1)
    assert u.finish(run, lease).status == 200
    again = u.again("POST", "/api/runs", {"thread_id": "more", "claim": {"worker_id": "w"}}).json
    mark, command = u.mark()
    cid = u.again("POST", "/api/runs/%s/commands" % again["id"], u.body(command, again["lease_token"], with_sandbox=True)).json["id"]
    done(u, cid, mark)
    assert u.finish(again["id"], again["lease_token"]).status == 200
    assert at_rest(u, "ready")["generation"] == was["generation"] + 1


# --- the executor's own ---

@recipe(ALL, "command_put:executor", "command_hand:executor", "command_end:executor", "command_ack:executor", "command:executor", "instance:executor")
@recipe(("host",), "host_make:executor", "host_launch:executor", "host_keeper:launcher")
def execute_over(u):
    """It was run once, or the answer says that it was not run."""
    key, (mark, command) = new_key(), u.mark()
    yield lambda: u.call("POST", "/api/execute", u.body(command), key)
    cid = u.execute(command, key)
    end = u.ended(cid)
    if end["reason"] == "not_started":
        assert end["error"]["code"] == "executor_restarted", end
        u.expect(mark, 0)
    else:
        done(u, cid, mark)


@recipe(PER_RUN, "instance_over:executor")
def sandbox_dies(u):
    run, lease = u.run()
    mark, command = u.mark(600)
    before = u.stack.provider.instances(u.stack.executor)
    u.started(u.start(run, lease, command))
    u.expect(mark, 1)
    mine, = set(u.stack.provider.instances(u.stack.executor)) - set(before)
    yield lambda: u.stack.provider.kill(u.stack.executor, mine)
    until("the Run is offered again", lambda: u.get_run(run)["status"] == "pending")
    got = u.again("POST", "/api/runs/claim", {"worker_id": "w2"}, fine=(200,)).json
    assert u.finish(run, got["lease_token"]).status == 200


@recipe(ALL, "instance_destroying:executor", "instance_gone:executor")
@recipe(("host",), "host_end:executor")
def destroyed(u):
    """The sandbox is given up: with its Run, or by its user."""
    if u.stack.provider.persistent:
        was = ready(u)
        yield post(u, "release")
        at_rest(u, "none")
        assert works(u)["generation"] == was["generation"] + 1
    else:
        yield from execute_over(u)


@recipe(PERSISTENT, "instance_pausing:executor", "instance_paused:executor")
def pause_over(u):
    was = ready(u)
    yield post(u, "pause")
    assert at_rest(u, "paused")["instance_id"] == was["instance_id"]
    assert works(u)["instance_id"] == was["instance_id"]


@recipe(PERSISTENT, "instance_waking:executor")
def wake_over(u):
    was = paused(u)
    yield from execute_over(u)
    assert u.sandbox()["instance_id"] == was["instance_id"]


@recipe(PERSISTENT, "instance_destroying:executor", "instance_gone:executor", "instance:executor")
def rebuild_over(u):
    was = ready(u)
    yield post(u, "rebuild")
    row = at_rest(u, "ready")
    assert row["generation"] == was["generation"] + 1
    assert works(u)["instance_id"] == row["instance_id"]


@recipe(PERSISTENT, "scope_ending:executor", "scope_gone:executor")
def scope_over(u):
    """A Run is cancelled while its command runs."""
    was = ready(u)
    run, lease = u.run()
    mark, command = u.mark(600)
    cid = u.start(run, lease, command)
    u.started(cid)
    u.expect(mark, 1)
    yield lambda: u.call("POST", "/api/runs/%s/cancel" % run)
    u.cancel(run)
    assert u.ended(cid)["reason"] == "cancelled"
    assert run_ended(u, run)["status"] == "cancelled"
    assert at_rest(u, "ready")["instance_id"] == was["instance_id"]


@recipe(("scripted",), "instance_over:executor")
def vanished(u):
    """What its commands ran in is no more."""
    ready(u)
    run, lease = u.run()
    mark, command = u.mark(600)
    cid = u.start(run, lease, command)
    u.started(cid)
    u.expect(mark, 1)
    instance = u.sandbox()["instance_id"]
    yield lambda: u.stack.provider.vanish(u.stack.executor, instance)
    assert u.ended(cid)["status"] == "lost"
    assert u.finish(run, lease).status == 200
    at_rest(u, "error")
    refused = u.again("POST", "/api/execute", u.body("true"), fine=(200, 409))
    assert refused.status == 409 and refused.code == "sandbox_not_found", refused
    assert u.again("POST", "/api/user/sandbox/rebuild").status == 200
    at_rest(u, "ready")
