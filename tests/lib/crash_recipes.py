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


# --- the executor's own ---

@recipe(ALL, "command_put:executor", "command_hand:executor", "command_end:executor", "command_ack:executor", "command:executor", "instance:executor")
@recipe(PER_RUN, "instance_destroying:executor", "instance_gone:executor")
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


def in_own_sandbox(u):
    """The sandbox is there and works."""
    mark, command = u.mark()
    done(u, u.execute(command), mark)


@recipe(PERSISTENT, "instance_pausing:executor", "instance_paused:executor", "instance_waking:executor")
def nap(u):
    key, (mark, command) = new_key(), u.mark()
    in_own_sandbox(u)

    def trigger():
        u.again("POST", "/api/user/sandbox/pause")
        u.call("POST", "/api/execute", u.body(command), key)
    yield trigger
    done(u, u.execute(command, key), mark, 0, 1)


@recipe(PERSISTENT, "instance_destroying:executor", "instance_gone:executor")
def rebuild(u):
    in_own_sandbox(u)
    yield lambda: u.call("POST", "/api/user/sandbox/rebuild")
    in_own_sandbox(u)


@recipe(PERSISTENT, "scope_ending:executor", "scope_gone:executor")
def run_in_own_sandbox(u):
    mark, command = u.mark()
    run, lease = u.run()
    done(u, u.start(run, lease, command), mark)
    yield lambda: u.finish(run, lease)
    assert run_ended(u, run)["status"] == "completed"
