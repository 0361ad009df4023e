"""R2.8: A reader that stops while the command writes 1 GB: our memory stays flat, the reader gets all that was kept or is told what was not."""

import time

import pytest

from paddock import Proc, Sampler, wait_for

MIB = 1 << 20
SIZE = 1000 * MIB
# Each block of 1 MiB says which one it is, every 64 bytes.
WRITER = """
import os
for i in range(%d):
    block = (b'%%063d\\n' %% i) * 16384
    while block:
        block = block[os.write(1, block):]
""" % (SIZE // MIB)


def expected(start, n):
    """What the command wrote at these positions."""
    out, position = [], start
    while position < start + n:
        block, offset = divmod(position, MIB)
        take = min(MIB - offset, start + n - position)
        line = b"%063d\n" % block
        phase = offset % 64
        out.append((line * (take // 64 + 2))[phase:phase + take])
        position += take
    return b"".join(out)


@pytest.mark.parametrize("accept", ["text/event-stream"])
def test_reader_stops_while_1_gb_is_written(request, inst, user, warm, accept):
    pause = request.config.getoption("--pause")
    with Sampler(inst) as sampler:
        with user.live(warm[0], ["python3", "-c", WRITER], accept=accept, lease_token=warm[1], timeout_ms=300000, rcvbuf=65536,
                       timeout=pause + 60) as stream:
            events = stream.events()
            start = next(events)
            first = next(events)
            command_id = start.data["command_id"]
            stopped = time.monotonic()
            wait_for("the command ends although nobody reads", lambda: user.get_command(command_id)["status"] == "exited", 120, 0.5)
            time.sleep(max(0.0, pause - (time.monotonic() - stopped)))
            position, missing, ended = 0, 0, None
            for event in chain(first, events):
                if event.type == "gap":
                    assert event.data["from"] == position and event.data["to"] > position
                    missing += event.data["to"] - event.data["from"]
                    position = event.data["to"]
                elif event.type == "stdout":
                    data = event.bytes
                    assert data == expected(position, len(data)), "wrong bytes at %d" % position
                    position += len(data)
                else:
                    ended = event
    assert ended.type == "exit" and ended.data["stdout_bytes"] == SIZE and position == SIZE
    assert 0 < SIZE - missing, "nothing was kept"
    print("figure: slow reader: %d MiB kept, %d MiB named in gaps; %s" % ((SIZE - missing) // MIB, missing // MIB, sampler.report()))
    for role, most in (("executor", 16), ("nginx-worker", 16), ("worker", 16), ("janitor", 16)):
        assert sampler.grown(role) <= most * MIB, "%s grew: %s" % (role, sampler.report())


def chain(first, rest):
    yield first
    yield from rest


def test_raw_download_of_what_was_kept(user, warm, sh):
    """Head and tail of a stream above its cap, by /stdout; the Command says that it was cut."""
    command = sh(["python3", "-c", WRITER], timeout_ms=300000)
    assert command["stdout_bytes"] == SIZE and command["stdout_truncated"] is True
    with user.stream("GET", "/api/commands/%s/stdout" % command["id"]) as stream:
        assert stream.status == 200
        kept = stream.read_all()
    n = len(kept)
    assert kept[:MIB] == expected(0, MIB) and kept[-MIB:] == expected(SIZE - MIB, MIB)
    assert 64 * MIB < n <= SIZE


def test_many_idle_readers_cost_little(inst, user, warm):
    command = user.background(warm[0], "sleep 8", lease_token=warm[1])
    user.wait_running(command["id"])
    executor = inst.pids("executor")[0]
    before = Proc.rss(executor)
    streams = [user.events(command["id"], timeout=60) for _ in range(100)]
    for stream in streams:
        assert stream.status == 200
    grown = Proc.rss(executor) - before
    for stream in streams:
        stream.close()
    print("figure: executor: %.1f KiB an open stream" % (grown / 1024 / len(streams)))
    assert grown <= len(streams) * 32 * 1024 + MIB


def test_readers_that_vanish_leave_nothing(inst, user, warm):
    command = user.background(warm[0], "for i in $(seq 100); do echo $i; sleep .1; done", lease_token=warm[1])
    user.wait_running(command["id"])
    executor = inst.pids("executor")[0]
    before = Proc.fds(executor)
    for _ in range(40):
        with user.events(command["id"]) as stream:
            next(stream.events())
    wait_for(lambda: "executor's descriptors %d, before %d" % (Proc.fds(executor), before), lambda: Proc.fds(executor) <= before + 2, 10)
    assert user.wait_command(command["id"])["exit_code"] == 0
