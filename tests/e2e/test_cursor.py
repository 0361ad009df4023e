"""R2.8: A reader that is cut off continues at its cursor and gets the same bytes."""

import itertools

import pytest

from paddock import Collected, wait_for

PROGRAM = """
import os, time
for i in range(40):
    os.write(1 + (i % 3 == 2), ("%d \\U0001f600é" % i).encode())
    time.sleep(0.02)
"""


def whole(user, command_id):
    with user.events(command_id) as stream:
        return Collected(stream.events())


def test_from_every_event_of_an_ended_command(user, live):
    with live(["python3", "-c", PROGRAM]) as stream:
        first = Collected(stream.events())
    command_id = first.start["command_id"]
    assert len(first.events) > 15
    position = 0
    for event in first.events:
        if event.type not in ("stdout", "stderr"):
            continue
        position += len(event.bytes)
        with user.events(command_id, event.seq) as stream:
            rest = Collected(stream.events())
        assert rest.start is None or event.seq == 0
        assert bytes(rest.merged) == bytes(first.merged[position:]) and rest.exit == first.exit and not rest.gaps


@pytest.mark.parametrize("how", ["from", "Last-Event-ID", "ndjson"])
def test_reconnect_after_every_event_while_it_runs(user, warm, how):
    command = user.background(warm[0], ["python3", "-c", PROGRAM], lease_token=warm[1])
    events, cursor = [], None
    for _ in range(300):
        headers = {"Last-Event-ID": str(cursor)} if how == "Last-Event-ID" and cursor is not None else None
        accept = "application/x-ndjson" if how == "ndjson" else "text/event-stream"
        with user.events(command["id"], cursor if how != "Last-Event-ID" else None, headers=headers, accept=accept) as stream:
            # one event a connection; `start` has no position, so the one after it is taken too
            for event in itertools.islice(stream.events(), 1 if cursor is not None else 2):
                events.append(event)
                cursor = event.seq if event.seq is not None else cursor
        if events[-1].type == "exit":
            break
    cut = Collected(events)
    all_at_once = whole(user, command["id"])
    assert cut.exit is not None
    assert cut.stdout == all_at_once.stdout and cut.stderr == all_at_once.stderr and cut.merged == all_at_once.merged


def test_a_cursor_inside_a_character(user, live):
    with live("printf 'a\\xf0\\x9f\\x98\\x80z'") as stream:
        first = Collected(stream.events())
    for cursor in range(7):
        with user.events(first.start["command_id"], cursor) as stream:
            assert bytes(Collected(stream.events()).merged) == "a\U0001f600z".encode()[cursor:]


def test_a_cursor_at_the_end_gives_the_exit_alone(user, live):
    with live("printf abc") as stream:
        first = Collected(stream.events())
    with user.events(first.start["command_id"], 3) as stream:
        assert [event.type for event in stream.events()] == ["exit"]


@pytest.mark.parametrize("cursor", ["-1", "x", "1.5", "0x1", "", "99999999999999999999999"])
def test_bad_cursors(user, sh, cursor):
    command = sh("printf abc")
    answer = user.get("/api/commands/%s/events?from=%s" % (command["id"], cursor))
    assert (answer.status, answer.code) == (400, "bad_cursor")


def test_late_reader_of_a_running_command_gets_everything(user, warm):
    command = user.background(warm[0], "echo one; sleep 1; echo two", lease_token=warm[1])
    user.wait_running(command["id"])
    assert bytes(whole(user, command["id"]).stdout) == b"one\ntwo\n"


def test_many_readers_of_one_command(user, warm):
    command = user.background(warm[0], ["python3", "-c", PROGRAM], lease_token=warm[1])
    streams = [user.events(command["id"]) for _ in range(12)]
    results = [bytes(Collected(stream.events()).merged) for stream in streams]
    for stream in streams:
        stream.close()
    assert len(set(results)) == 1 and results[0].endswith("39 \U0001f600é".encode())


def test_cursor_behind_the_end(user, warm):
    """A place that no event can have named is refused, while the command runs and afterwards; the end itself is a place."""
    run, token = warm
    command = user.post("/api/runs/%s/commands" % run, {"command": "printf 12345678; sleep 60", "background": True, "lease_token": token}).ok(202).json
    wait_for("all was written", lambda: user.get_command(command["id"])["stdout_bytes"] == 8, 20)
    for ended in (False, True):
        for where in ("?from=9", "?from=9000000000000000000"):
            answer = user.get("/api/commands/%s/events%s" % (command["id"], where))
            assert (answer.status, answer.code) == (400, "bad_cursor"), answer
        if not ended:
            user.post("/api/commands/%s/kill" % command["id"]).ok(202)
            wait_for("the end", lambda: user.get_command(command["id"])["status"] == "exited", 20)
    events = user.get("/api/commands/%s/events?from=8" % command["id"]).ok(200).body
    assert b"event: exit" in events and b"event: stdout" not in events
