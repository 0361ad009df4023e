"""PostgreSQL crashes and comes back: 503 with Retry-After, everything recovers, no worker dies."""

import http.client
import signal
import threading
import time

import pytest

from paddock import Collected, wait_for


def test_immediate_restart_under_load(inst, user):
    run = user.run()
    user.command(run["id"], "true")
    workers = set(inst.pids("worker"))
    stop, bad, counts = threading.Event(), [], {}

    def load():
        client = user.clone()
        while not stop.is_set():
            try:
                answer = client.get("/api/runs/" + run["id"])
            except (OSError, http.client.HTTPException) as error:
                bad.append(repr(error))
                continue
            counts[answer.status] = counts.get(answer.status, 0) + 1
            if answer.status == 503:
                if not answer.headers["Retry-After"] or not answer.code:
                    bad.append(answer)
                time.sleep(0.02)
            elif answer.status != 200:
                bad.append(answer)
    threads = [threading.Thread(target=load) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(3):
        time.sleep(0.7)
        inst.restart_database("immediate")
        wait_for("PostgreSQL is back", lambda: user.clone().get("/api/runs/" + run["id"]).status == 200, 30, 0.1)
    stop.set()
    for thread in threads:
        thread.join()
    assert not bad, bad[:5]
    assert counts.get(503), "the restart was not even noticed: %s" % counts
    assert set(inst.pids("worker")) == workers, "a worker died"
    assert user.command(run["id"], "echo again")["stdout"] == "again\n"
    user.cancel(run["id"])


@pytest.fixture
def stopped_database(inst):
    """PostgreSQL does not answer at all: its processes are stopped. Goes on afterwards, whatever happens."""
    from paddock import Proc
    main = inst.pids("postgres")
    assert len(main) == 1
    family = main + [p for p in Proc.all() if Proc.ppid(p) == main[0]]

    def stop():
        for pid in family:
            inst.kill(pid, signal.SIGSTOP)
    yield stop
    for pid in family:
        inst.kill(pid, signal.SIGCONT)


def test_commands_survive_while_the_database_is_away(inst, user):
    """A running command is not touched, its output is complete and its end reaches its row afterwards."""
    run, token = user.claimed()
    command = user.background(run["id"], "for i in $(seq 60); do echo $i; sleep .05; done", lease_token=token)
    user.wait_running(command["id"])
    with user.events(command["id"]) as stream:
        events = stream.events()
        head = [next(events), next(events)]
        inst.restart_database("immediate")
        got = Collected(head + list(events))
    assert [int(n) for n in got.stdout.split()] == list(range(1, 61))
    inst.wait_ready(30)
    ended = user.wait_command(command["id"])
    assert ended["exit_code"] == 0 and ended["stdout_bytes"] == len(got.stdout)
    wait_for("the row", lambda: inst.value("SELECT status FROM sandbox_commands WHERE id = '%s'" % command["id"]) == "exited", 15)
    user.finish(run["id"], token).ok(200)
    user.wait_run(run["id"], 20)


def test_a_database_that_hangs(inst, user, stopped_database):
    """Not an error but silence: requests end in 503 in bounded time, and all is well when it goes on."""
    user.execute("true")
    stopped_database()
    began = time.monotonic()
    answer = user.get("/api/runs", timeout=60)
    assert answer.status == 503 and answer.headers["Retry-After"], answer
    assert time.monotonic() - began < 25


def test_after_the_hang(inst, user):
    inst.wait_ready(40)
    assert user.execute("echo ok")["stdout"] == "ok\n"

