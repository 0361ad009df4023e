"""Memory and process limits of a container: out of memory is told apart, a fork bomb is bounded, neighbours do not notice."""

import re
import time

import pytest

HOG = "python3 -c \"b=[]\nwhile 1: b.append(bytearray(16<<20)); b[-1][::4096]=b'x'*4096\""


@pytest.fixture(scope="module", autouse=True)
def enforced(inst):
    report = inst.ctl("doctor", check=False)
    if re.search(r"(?m)^nominal\s+limits\b", report.stdout):
        pytest.skip("the kernel here enforces no limits: doctor says nominal")


def test_oom_is_told_apart_and_the_run_goes_on(sh):
    command = sh("echo before; exec " + HOG, timeout_ms=120000)
    assert command["status"] == "exited" and command["reason"] == "oom" and command["stdout"] == "before\n", command
    assert sh("echo fine")["stdout"] == "fine\n"


def test_fork_bomb_is_bounded(inst, user, other):
    run, token = user.claimed()
    bomb = user.background(run["id"], ":(){ :|:& };: ; sleep 20", timeout_ms=3000, lease_token=token)
    user.wait_running(bomb["id"])
    time.sleep(1)
    began = time.monotonic()
    assert other.execute("echo neighbour", timeout_ms=20000)["stdout"] == "neighbour\n"
    assert time.monotonic() - began < 15
    ended = user.wait_command(bomb["id"], 30)
    assert ended["status"] == "exited"
    left = user.command(run["id"], "ls -d /proc/[0-9]* | wc -l", lease_token=token, timeout_ms=20000)
    assert int(left["stdout"]) < 12, "processes of the bomb are left"
    user.cancel(run["id"])
    user.wait_run(run["id"], 30)


def test_tmp_is_sized(sh):
    command = sh("head -c 400000000 /dev/zero > /tmp/fill; stat -c %s /tmp/fill; rm /tmp/fill", timeout_ms=60000)
    assert "No space left" in command["stderr"] and int(command["stdout"]) <= 256 << 20
    command = sh("head -c 700000000 /dev/zero > ~/fill; stat -c %s ~/fill; rm ~/fill", timeout_ms=60000)
    assert "No space left" in command["stderr"] or "Killed" in command["stderr"] or command["reason"] == "oom"


def test_open_files_are_limited(sh):
    assert int(sh("ulimit -n")["stdout"]) <= 4096
