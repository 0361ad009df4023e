"""Commands in the background: signals, kill, and what becomes of them."""

import time

import pytest

from paddock import Collected, wait_for


def test_background_answers_at_once(user, warm):
    began = time.monotonic()
    command = user.background(warm[0], "sleep 1; echo done", lease_token=warm[1])
    assert time.monotonic() - began < 0.8 and command["status"] in ("pending", "running") and command["exit_code"] is None
    ended = user.wait_command(command["id"])
    assert ended["exit_code"] == 0 and ended["stdout"] == "done\n"


def test_events_of_a_background_command(user, warm):
    command = user.background(warm[0], "for i in 1 2 3; do echo $i; sleep .2; done", lease_token=warm[1])
    with user.events(command["id"]) as stream:
        got = Collected(stream.events())
    assert bytes(got.stdout) == b"1\n2\n3\n" and got.exit["exit_code"] == 0


def ready(user, command):
    """The command has printed `ready`: its traps are set."""
    wait_for("ready", lambda: user.get("/api/commands/%s" % command["id"]).json["stdout_bytes"], 10)


@pytest.mark.parametrize("asked", ["TERM", "SIGUSR1", "INT", "HUP", 15, "10"])
def test_signals_arrive(user, warm, asked):
    trap = "trap 'echo got TERM; exit 3' TERM; trap 'echo got USR1; exit 3' USR1; trap 'echo got INT; exit 3' INT; trap 'echo got HUP; exit 3' HUP"
    command = user.background(warm[0], trap + "; echo ready; while :; do sleep .05; done", lease_token=warm[1])
    ready(user, command)
    user.post("/api/commands/%s/signal" % command["id"], {"signal": asked}).ok(202)
    ended = user.wait_command(command["id"])
    name = {15: "TERM", "10": "USR1"}.get(asked, str(asked).replace("SIG", ""))
    assert ended["exit_code"] == 3 and ended["stdout"] == "ready\ngot %s\n" % name


def test_signal_ends_a_command_as_signaled(user, warm):
    command = user.background(warm[0], "exec sleep 300", lease_token=warm[1])
    user.wait_running(command["id"])
    time.sleep(0.2)
    user.post("/api/commands/%s/signal" % command["id"], {"signal": "KILL"}).ok(202)
    ended = user.wait_command(command["id"])
    assert ended["reason"] == "signaled" and ended["exit_code"] is None and ended["signal"] in (9, "KILL", "SIGKILL")


def test_kill(user, warm):
    command = user.background(warm[0], "trap '' TERM INT HUP; echo ready; while :; do sleep 1; done", lease_token=warm[1])
    ready(user, command)
    user.post("/api/commands/%s/kill" % command["id"]).ok(202)
    ended = user.wait_command(command["id"])
    assert ended["status"] == "exited" and ended["reason"] == "cancelled" and ended["stdout"] == "ready\n"


@pytest.mark.parametrize("what", ["signal", "kill", "stdin"])
def test_ended_commands_take_nothing(user, sh, what):
    command = sh("true")
    body = {"signal": "TERM"} if what == "signal" else {}
    answer = user.post("/api/commands/%s/%s" % (command["id"], what), body)
    assert answer.status == 409 and answer.code == "not_running"


def test_a_client_that_goes_away_does_not_end_the_command(user, live):
    with live("echo begin; sleep 2; echo end") as stream:
        command_id = next(stream.events()).data["command_id"]
    ended = user.wait_command(command_id)
    assert ended["exit_code"] == 0 and ended["stdout"] == "begin\nend\n"


def test_a_cut_waiting_client_can_ask_again(user, warm):
    """X-Paddock-Command names the command of a live answer before it ends."""
    with user.live(warm[0], "sleep 1; echo later", lease_token=warm[1]) as stream:
        command_id = stream.headers["X-Paddock-Command"]
    assert user.wait_command(command_id)["stdout"] == "later\n"
