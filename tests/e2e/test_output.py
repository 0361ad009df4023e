"""R2.8: Byte-exact output, whatever the bytes are and however they are fetched."""

import base64
import hashlib
import time

import pytest

from paddock import Collected, text

SSE, NDJSON = "text/event-stream", "application/x-ndjson"

RANDOM = """
import hashlib, os, sys
digest, left = hashlib.sha256(), %d
while left:
    piece = os.urandom(min(left, 1 << 20))
    digest.update(piece)
    left -= len(piece)
    while piece:
        piece = piece[os.write(1, piece):]
sys.stderr.write(digest.hexdigest())
"""

PIECES = {
    "nul": b"a\0b\0",
    "line separator": "a\u2028b\u2029c".encode(),
    "invalid utf-8": b"\xff\xfe\x80 abc \xc3",
    "overlong": b"\xc0\xaf\xe0\x80\xaf",
    "surrogates": b"\xed\xa0\x80\xed\xb0\x80",
    "carriage returns": b"a\rb\r\nc\n\rd",
    "sse look-alike": b"\n\nevent: exit\ndata: {}\n\n:x\nid: 9\n\n",
    "ndjson look-alike": b'{"type":"exit"}\n',
    "quotes and controls": bytes(range(0x20)) + b'"\\/\x7f</script>',
    "four bytes": "\U0001f600\U0001f468\u200d\U0001f469".encode(),
    "no newline": b"no newline at the end",
    "all bytes": bytes(range(256)),
    "bom": b"\xef\xbb\xbfx",
}


def write(data):
    return ["python3", "-c", "import base64,os; os.write(1, base64.b64decode('%s'))" % base64.b64encode(data).decode()]


def test_100_mb_random_bytes(user, warm, sh):
    command = sh(["python3", "-c", RANDOM % 100_000_000], timeout_ms=120000)
    assert command["exit_code"] == 0 and command["stdout_bytes"] == 100_000_000 and command["stdout_truncated"] is True
    wanted = command["stderr"]
    with user.stream("GET", "/api/commands/%s/stdout" % command["id"]) as stream:
        assert stream.status == 200 and stream.headers["Content-Length"] == "100000000"
        digest, n = hashlib.sha256(), 0
        for piece in stream.chunks(1 << 20):
            digest.update(piece)
            n += len(piece)
    assert n == 100_000_000 and digest.hexdigest() == wanted


def test_raw_output_while_it_is_written(user, warm):
    run_id, token = warm
    command = user.background(run_id, ["python3", "-c", RANDOM.replace("left -= len(piece)", "left -= len(piece); __import__('time').sleep(.05)") % 20_000_000],
                              lease_token=token)
    user.wait_running(command["id"])
    with user.stream("GET", "/api/commands/%s/stdout" % command["id"]) as stream:
        assert stream.status == 200
        got = stream.read_all()
    ended = user.wait_command(command["id"])
    assert hashlib.sha256(got).hexdigest() == ended["stderr"] and len(got) == 20_000_000


@pytest.mark.parametrize("name", PIECES)
def test_bytes_in_every_form(user, warm, live, name):
    data = PIECES[name]
    for accept in (SSE, NDJSON):
        with live(write(data), accept=accept) as stream:
            got = Collected(stream.events())
        assert bytes(got.stdout) == data, accept
        assert got.exit["stdout_bytes"] == len(data)
    command_id = got.start["command_id"]
    again = user.get_command(command_id)
    assert text(again) == data
    valid = True
    try:
        data.decode()
    except UnicodeDecodeError:
        valid = False
    assert again["stdout_encoding"] == ("utf-8" if valid else "base64")
    assert user.get("/api/commands/%s/stdout" % command_id).ok(200).body == data
    with user.events(command_id, query={"encoding": "base64"}) as stream:
        pieces = [event for event in stream.events() if event.type == "stdout"]
    assert all("base64" in event.data for event in pieces) and b"".join(event.bytes for event in pieces) == data


def test_json_answer_holds_any_bytes(sh):
    for data in PIECES.values():
        assert text(sh(write(data))) == data


def test_emoji_one_byte_at_a_time(live):
    data = "\U0001f600é€\U0001f680".encode() * 8
    program = "import os,time\nfor b in %r: os.write(1, bytes([b])); time.sleep(0.004)" % data
    with live(["python3", "-c", program]) as stream:
        got = Collected(stream.events())
    assert bytes(got.stdout) == data
    assert len(got.events) > 6, "the characters were to arrive in several events: %r" % got.events
    assert all("text" in e.data for e in got.events if e.type == "stdout"), "a character was split"


def test_half_a_character_at_the_end_arrives(live):
    with live(write(b"ok \xf0\x9f\x98")) as stream:
        assert bytes(Collected(stream.events()).stdout) == b"ok \xf0\x9f\x98"


def test_half_a_character_is_not_held_back_by_the_other_stream(live):
    program = "import os\nfor i in range(50):\n os.write(1,b'\\xf0\\x9f'); os.write(2,b'\\xc3'); os.write(1,b'\\x98\\x80'); os.write(2,b'\\xa9')"
    with live(["python3", "-c", program]) as stream:
        got = Collected(stream.events())
    assert bytes(got.stdout) == "\U0001f600".encode() * 50 and bytes(got.stderr) == "é".encode() * 50


def test_empty_output(user, live, sh):
    command = sh("true")
    assert (command["stdout"], command["stderr"], command["stdout_bytes"], command["stdout_truncated"]) == ("", "", 0, False)
    answer = user.get("/api/commands/%s/stdout" % command["id"]).ok(200)
    assert answer.body == b"" and answer.headers["Content-Length"] == "0"


@pytest.mark.parametrize("accept", [SSE, NDJSON])
def test_true_ends_cleanly(live, accept):
    with live("true", accept=accept) as stream:
        events = list(stream.events())
        assert stream.clean_end
    assert [event.type for event in events] == ["start", "exit"]
    assert events[-1].data["exit_code"] == 0


def test_both_streams_interleaved_are_complete(live):
    program = "import os\nfor i in range(4000): os.write(1 + i % 2, b'%06d\\n' % i)"
    with live(["python3", "-c", program]) as stream:
        got = Collected(stream.events())
    assert [int(n) for n in got.stdout.split()] == list(range(0, 4000, 2))
    assert [int(n) for n in got.stderr.split()] == list(range(1, 4000, 2))
    assert got.exit["stdout_bytes"] == got.exit["stderr_bytes"] == 14000


def test_order_between_the_streams_is_order_of_arrival(live):
    with live("for i in 1 2 3; do echo o$i; sleep .15; echo e$i >&2; sleep .15; done") as stream:
        got = Collected(stream.events())
    assert bytes(got.merged) == b"o1\ne1\no2\ne2\no3\ne3\n"


def test_exit_comes_after_the_last_byte(live):
    for _ in range(10):
        with live("head -c 3000000 /dev/zero | tr '\\0' x; echo end >&2") as stream:
            got = Collected(stream.events())   # refuses anything behind the exit event
        assert len(got.stdout) == 3000000 and bytes(got.stderr) == b"end\n"


def test_seq_is_the_position_behind_the_piece(live):
    with live("printf abc; sleep .2; printf defg >&2; sleep .2; printf h") as stream:
        events = list(stream.events())
    position = 0
    for event in events:
        if event.type in ("stdout", "stderr"):
            position += len(event.bytes)
            assert event.seq == position and event.id == str(position)
    assert position == 8


@pytest.mark.parametrize("asked,status,slice_,content_range", [
    ("bytes=0-4", 206, slice(0, 5), "bytes 0-4/1000"),
    ("bytes=10-", 206, slice(10, None), "bytes 10-999/1000"),
    ("bytes=-7", 206, slice(-7, None), "bytes 993-999/1000"),
    ("bytes=990-5000", 206, slice(990, None), "bytes 990-999/1000"),
    ("bytes=1000-", 416, None, "bytes */1000"),
])
def test_ranges(user, sh, asked, status, slice_, content_range):
    data = bytes(i * 7 % 251 for i in range(1000))
    command = sh(write(data))
    answer = user.get("/api/commands/%s/stdout" % command["id"], headers={"Range": asked})
    assert answer.status == status and answer.headers["Content-Range"] == content_range
    if slice_:
        assert answer.body == data[slice_]


def test_a_long_text_is_cut_in_the_middle_and_says_so(sh):
    command = sh("seq -f 'line %07g' 400000")
    assert command["stdout_truncated"] is True and command["stdout_bytes"] == 400000 * 13
    assert len(command["stdout"]) <= (1 << 20) + 200
    assert command["stdout"].startswith("line 0000001\n") and command["stdout"].endswith("line 0400000\n")


def test_a_waiting_answer_stays_open(live):
    """A comment line every 15 s keeps proxies awake."""
    begin = time.monotonic()
    with live("sleep 17; echo late") as stream:
        got = Collected(stream.events())
        assert stream.comments >= 1
    assert bytes(got.stdout) == b"late\n" and time.monotonic() - begin >= 17
