"""Sizes at and beyond the limits: command text, arguments, standard input, environment."""

import hashlib
import os
import time

import pytest

from paddock import wait_for

MIB = 1 << 20


@pytest.mark.parametrize("size", [100, 99 * 1024, 100 * 1024 - 1, 100 * 1024, 128 * 1024, 200 * 1024, 700 * 1024, 1047000])
def test_long_command_texts(sh, size):
    tail = "\necho \"$0\" $# end"
    command = sh(": '%s'%s" % ("x" * (size - 5 - len(tail)), tail))
    assert command["exit_code"] == 0 and command["stdout"].endswith(" 0 end\n"), command["stdout"]


def test_a_long_text_keeps_every_byte(sh):
    marks = "".join("%07d " % i for i in range(25600))
    command = sh("printf %%s '%s' | sha256sum" % marks)
    assert command["stdout"].split()[0] == hashlib.sha256(marks.encode()).hexdigest()


def test_a_long_text_with_multi_byte_characters(sh):
    marks = "é\U0001f600" * 40000
    command = sh("printf %%s '%s' | sha256sum" % marks)
    assert command["stdout"].split()[0] == hashlib.sha256(marks.encode()).hexdigest()


def test_a_text_of_characters_that_json_escapes(sh):
    marks = "\x01" * 170000
    assert sh("printf %%s '%s' | wc -c" % marks)["stdout"] == "170000\n"


def test_a_text_above_the_body_limit(user, warm):
    answer = user.post("/api/runs/%s/commands" % warm[0], {"command": ": " + "x" * (MIB + 10), "lease_token": warm[1]})
    assert (answer.status, answer.code) == (413, "too_large")


def test_many_arguments(sh):
    assert sh(["printf", "%s\n"] + ["a%d" % i for i in range(3000)])["stdout_bytes"] == sum(len("a%d" % i) + 1 for i in range(3000))


def test_stdin_in_the_request(sh):
    given = "é\U0001f600\n" * 40000
    command = sh("sha256sum", stdin=given)
    assert command["stdout"].split()[0] == hashlib.sha256(given.encode()).hexdigest()


def test_empty_stdin(sh):
    assert sh("wc -c", stdin="")["stdout"].strip() == "0"


def test_cat_without_stdin_ends(sh):
    began = time.monotonic()
    assert sh("cat", timeout_ms=20000)["exit_code"] == 0
    assert time.monotonic() - began < 5


def test_stdin_given_to_a_command_that_does_not_read_it(sh):
    assert sh("true", stdin="x" * 500000)["exit_code"] == 0


def test_5_mb_of_stdin(user, warm):
    given = os.urandom(5_000_000)
    command = user.background(warm[0], "sha256sum", keep_stdin=True, lease_token=warm[1])
    answer = user.request("POST", "/api/commands/%s/stdin?eof=1" % command["id"], given, headers={"Content-Type": "application/octet-stream"})
    answer.ok(202)
    ended = user.wait_command(command["id"])
    assert ended["stdout"].split()[0] == hashlib.sha256(given).hexdigest()


def test_stdin_in_pieces(user, warm):
    command = user.background(warm[0], "while read -r l; do echo got $l; done; echo over", keep_stdin=True, lease_token=warm[1])
    path = "/api/commands/%s/stdin" % command["id"]
    user.wait_running(command["id"])
    for i in range(10):
        user.request("POST", path, b"%d\n" % i).ok(202)
    wait_for("lines come back while stdin is open",
             lambda: user.get("/api/commands/%s" % command["id"]).json["status"] == "running", 5)
    user.request("POST", path + "?eof=1", b"last\n").ok(202)
    ended = user.wait_command(command["id"])
    assert ended["stdout"] == "".join("got %d\n" % i for i in range(10)) + "got last\nover\n"
    answer = user.request("POST", path, b"late")
    assert answer.status == 409 and answer.code == "not_running"


def test_stdin_text_first_then_more(user, warm):
    command = user.background(warm[0], "cat", stdin="one ", keep_stdin=True, lease_token=warm[1])
    user.request("POST", "/api/commands/%s/stdin?eof=1" % command["id"], b"two").ok(202)
    assert user.wait_command(command["id"])["stdout"] == "one two"


def test_stdin_above_its_limit(user, warm):
    command = user.background(warm[0], "sleep 30", keep_stdin=True, lease_token=warm[1])
    answer = user.request("POST", "/api/commands/%s/stdin" % command["id"], bytes(65 * MIB), timeout=60)
    assert (answer.status, answer.code) == (413, "too_large")
    user.post("/api/commands/%s/kill" % command["id"]).ok(202)
    assert user.wait_command(command["id"])["reason"] == "cancelled"


def test_environment_of_a_request(sh):
    command = sh('printf "%s|" "$A" "$LONG" | sha256sum', env={"A": "é = ' \" $x", "LONG": "y" * 100000})
    assert command["stdout"].split()[0] == hashlib.sha256(("é = ' \" $x|%s|" % ("y" * 100000)).encode()).hexdigest()
