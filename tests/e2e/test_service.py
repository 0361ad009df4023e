"""paddockctl stop and start: everything goes down and comes back, and what users had is still there."""

import os
import pwd
import socket

import pytest

from paddock import Proc, wait_for

SERVICES = ("db", "engine", "executor", "api", "nginx")
TICKS = "for i in $(seq 300); do echo $i; sleep .05; done"


@pytest.fixture
def stopped(inst):
    """Stops the service when called; whatever a test does, it runs afterwards."""
    yield lambda: inst.ctl("stop")
    inst.ctl("start")
    inst.wait_ready(60)


def states(inst):
    """service -> (up or down, pid or None), from `paddockctl status`, which exits 3 unless all is well. It lists none without a supervisor."""
    done = inst.ctl("status", check=False)
    words = [line.split() for line in done.stdout.splitlines()]
    found = {w[0]: (w[1], int(w[3]) if w[1] == "up" else None) for w in words if w and w[0] in SERVICES}
    if "not running (paddockctl start)" in done.stdout:
        assert not found, done.stdout
        found = dict.fromkeys(SERVICES, ("down", None))
    assert set(found) == set(SERVICES), done.stdout + done.stderr
    assert done.returncode == (0 if all(state == "up" for state, _ in found.values()) else 3), done.stdout
    return found


def port_is_open(inst):
    with socket.socket() as s:
        s.settimeout(5)
        return s.connect_ex(("127.0.0.1", inst.port)) == 0


def own_processes(inst):
    """Processes of the instance's accounts that are of no container. Containers have conmon and slirp4netns outside, and together one process
    of podman that keeps their user namespace."""
    accounts = {pwd.getpwnam(name + inst.suffix).pw_uid for name in ("paddock", "paddock-api")}
    here = os.readlink("/proc/self/ns/pid")

    def is_own(pid):
        try:
            inside = os.readlink("/proc/%d/ns/pid" % pid) != here
        except OSError:
            return False
        kept = Proc.read(pid, "comm").strip() in (b"conmon", b"slirp4netns") or Proc.argv(pid) in ("podman", "podman pause")
        return not inside and not kept and Proc.state(pid) not in ("Z", "X", "")
    return [Proc.argv(p)[:200] for p in Proc.all() if Proc.status(p, "Uid") in accounts and is_own(p)]


def assert_down(inst):
    assert {state for state, _ in states(inst).values()} == {"down"}
    assert not port_is_open(inst)
    assert {role: pids for role, pids in inst.processes().items() if pids} == {}
    wait_for(lambda: "left: %s" % own_processes(inst), lambda: not own_processes(inst), 5)


def test_a_command_goes_on_from_stop_to_start(inst, user, stopped):
    """Stopping deletes no sandbox: the command lives on alone, no line of it is lost, and the Run can still be used."""
    run, token = user.claimed(lease_ms=3600000)
    command = user.background(run["id"], TICKS, lease_token=token)
    user.wait_running(command["id"])
    stopped()
    assert_down(inst)
    alive = [p for p in Proc.all() if TICKS in Proc.argv(p)]
    assert alive
    stopped()   # once more is no error
    assert_down(inst)
    inst.ctl("start")
    inst.wait_ready(60)
    assert {state for state, _ in states(inst).values()} == {"up"}
    assert [p for p in Proc.all() if TICKS in Proc.argv(p)] == alive
    assert user.get_run(run["id"])["status"] == "running"
    ended = user.wait_command(command["id"], 60)
    assert (ended["status"], ended["exit_code"]) == ("exited", 0) and ended["stdout"].split() == ["%d" % n for n in range(1, 301)], ended
    assert user.command(run["id"], "echo here", lease_token=token)["stdout"] == "here\n"
    user.finish(run["id"], token).ok(200)
    user.wait_run(run["id"], 30)


def test_a_second_start_restarts_nothing(inst):
    before = states(inst)
    inst.ctl("start")
    assert states(inst) == before
    inst.wait_ready(10)


def test_records_outlive_a_stop(inst, user, stopped):
    """An ended command, its output, the workspace and the token."""
    run, token = user.claimed()
    command = user.command(run["id"], "echo kept | tee ~/workspace/kept", lease_token=token)
    user.finish(run["id"], token).ok(200)
    ended = user.wait_run(run["id"], 30)
    stopped()
    assert_down(inst)
    inst.ctl("start")
    inst.wait_ready(60)
    assert user.get_command(command["id"]) == command and user.get_run(run["id"])["status"] == ended["status"]
    assert user.execute("cat ~/workspace/kept")["stdout"] == "kept\n"
