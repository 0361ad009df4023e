"""The executor with the real agent, without an engine: every answer of docs/executor-api.md, byte-exact streams, and its own death."""

import hashlib
import http.client
import itertools
import json
import os
import random
import resource
import select
import signal
import socket
import subprocess
import threading
import time
import uuid

import pytest
from executor import Executor, piece

BUILD = os.environ.get("PADDOCK_BUILD", os.getcwd())
pytestmark = pytest.mark.skipif(os.getuid() != 0 or not os.path.exists(BUILD + "/tests/lib/paddock-executor-unshare"),
                                reason="needs root and the test build of the executor")


@pytest.fixture(scope="module")
def x():
    e = Executor(BUILD, stream_head_bytes="1M", stream_tail_bytes="2M", text_bytes="16K", stdin_bytes="8M", output_limit_bytes="64M", instance_commands=40).start()
    yield e
    e.close()


@pytest.fixture(scope="module")
def box(x):
    iid = str(uuid.uuid4())
    assert x.run(iid, "true").status == 200
    return iid


@pytest.fixture
def own():
    """An executor of its own, for tests that kill it."""
    made = []

    def make(**options):
        made.append(Executor(BUILD, **options).start())
        return made[-1]
    yield make
    for e in made:
        if e.process.poll() is not None:
            e.start()
        e.close()


def collect(x, cid, start=0):
    out, err, last = bytearray(), bytearray(), None
    for e in x.events(cid, start):
        if e["type"] in ("stdout", "stderr"):
            (out if e["type"] == "stdout" else err).extend(piece(e))
        last = e
    return bytes(out), bytes(err), last


def until(check, seconds=10):
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end
        time.sleep(0.01)


# --- commands ---

def test_a_result(x, box):
    a = x.run(box, "echo out; echo err >&2; exit 3")
    j = a.json
    assert a.headers["X-Paddock-Command"] == j["id"] and j["run_id"] == "r"
    assert (j["status"], j["reason"], j["exit_code"], j["signal"], j["error"]) == ("exited", "exited", 3, None, None)
    assert (j["stdout"], j["stderr"], j["stdout_bytes"], j["stderr_bytes"]) == ("out\n", "err\n", 4, 4)
    assert (j["stdout_encoding"], j["stdout_truncated"]) == ("utf-8", False)


def test_a_timeout_says_whose_it_was(x, box):
    """R2.9: in every form of the answer."""
    assert x.run(box, "true", timer="stage").json["timeout"] is None
    for given, told in (({}, "command"), ({"timer": "command"}, "command"), ({"timer": "stage"}, "stage")):
        j = x.run(box, "echo so far; sleep 30", timeout_ms=500, **given).json
        assert (j["reason"], j["timeout"], j["stdout"]) == ("timeout", told, "so far\n")
        assert list(x.events(j["id"]))[-1]["timeout"] == x.state(j["id"])["timeout"] == told
    assert x.put(box, "true", timer="run")[1].status == 400
    cid = x.put(box, "echo so far; sleep 30")[0]
    assert any(e["type"] == "stdout" for e in itertools.islice(x.events(cid), 2))
    assert x.call("POST", "/v1/commands/%s/kill" % cid, {"reason": "timeout"}).status == 202
    j = x.call("GET", "/v1/commands/%s/result" % cid).json
    assert (j["reason"], j["timeout"], j["stdout"]) == ("timeout", "run", "so far\n")


def test_argv_is_no_shell(x, box):
    assert x.run(box, ["/bin/echo", "$HOME", "a b"]).json["stdout"] == "$HOME a b\n"


def test_env_and_stdin(x, box):
    j = x.run(box, "cat; printf %s \"$A\"", env={"A": "é=1"}, stdin="text\n").json
    assert j["stdout"] == "text\né=1"
    assert x.run(box, "cat", stdin_base64="AP8=").json["stdout"] == "AP8="
    assert x.run(box, "cat").json["stdout"] == ""


@pytest.mark.parametrize("command,reason,key,value", [("kill -9 $$", "signaled", "signal", 9), ("sleep 30", "timeout", "signal", 9)])
def test_reasons(x, box, command, reason, key, value):
    j = x.run(box, command, timeout_ms=700).json
    assert (j["reason"], j[key]) == (reason, value)


@pytest.mark.parametrize("command,cwd,code", [("true", "/nowhere", "cwd_not_found"), ("true", "/root", "cwd_forbidden"), (["/nothing"], "/tmp", "exec_not_found"),
                                              (["/etc/passwd"], "/tmp", "exec_forbidden")])
def test_not_started(x, box, command, cwd, code):
    a = x.run(box, command, cwd=cwd)
    assert (a.status, a.json["code"]) == (422, code) and a.json["command_id"]
    j = x.state(a.json["command_id"])
    assert (j["status"], j["reason"], j["error"]["code"]) == ("exited", "not_started", code)


def test_the_same_id_runs_once(x, box):
    path = "/tmp/pdk-once-" + uuid.uuid4().hex
    cid, first = x.put(box, "echo x >> %s" % path)
    second = x.put(box, "echo x >> %s" % path, cid=cid)[1]
    assert (first.status, second.status) == (201, 200)
    x.call("GET", "/v1/commands/%s/result" % cid)
    assert x.put(box, "echo x >> %s" % path, cid=cid)[1].status == 200
    assert open(path).read() == "x\n"
    os.unlink(path)


def test_kill_takes_the_tree(x, box):
    mark = "9%08d" % random.randrange(10**8)
    cid, _ = x.put(box, "trap '' TERM; setsid sleep %s & (sleep %s &) ; sleep %s" % (mark, mark, mark))
    until(lambda: x.state(cid)["status"] == "running")
    time.sleep(0.2)
    assert x.call("POST", "/v1/commands/%s/kill" % cid).status == 202
    j = x.call("GET", "/v1/commands/%s/result" % cid).json
    assert j["reason"] == "cancelled"
    assert subprocess.run(["pgrep", "-f", "sleep " + mark], stdout=subprocess.DEVNULL).returncode == 1
    again = x.call("POST", "/v1/commands/%s/kill" % cid)
    assert (again.status, again.json["code"]) == (409, "not_running")


def test_signal(x, box):
    cid, _ = x.put(box, "trap 'echo got; exit 7' USR1; echo ready; while :; do sleep 0.05; done")
    until(lambda: x.state(cid)["stdout_bytes"] == 6)
    assert x.call("POST", "/v1/commands/%s/signal" % cid, {"signal": "SIGUSR1"}).status == 202
    j = x.call("GET", "/v1/commands/%s/result" % cid).json
    assert (j["exit_code"], j["stdout"]) == (7, "ready\ngot\n")
    assert x.call("POST", "/v1/commands/%s/signal" % cid, {"signal": "NOPE"}).status == 422


def test_stdin_in_parts(x, box):
    data = random.Random(1).randbytes(5 << 20)
    cid, _ = x.put(box, "sha256sum", keep_stdin=True)
    for i in range(0, len(data), 1 << 20):
        a = x.call("POST", "/v1/commands/%s/stdin" % cid, data[i:i + (1 << 20)])
        assert a.status == 202
    assert a.json == {"received_bytes": len(data)}
    assert x.call("POST", "/v1/commands/%s/stdin" % cid, bytes(4 << 20)).json["code"] == "stdin_too_large"
    x.call("POST", "/v1/commands/%s/stdin?eof=1" % cid)
    j = x.call("GET", "/v1/commands/%s/result" % cid).json
    assert j["stdout"].split()[0] == hashlib.sha256(data).hexdigest()
    assert x.call("POST", "/v1/commands/%s/stdin" % cid, b"x").status == 409
    assert not os.path.exists("%s/state/output/%s.in" % (x.root, cid))


def test_a_background_child_does_not_hold_the_answer(x, box):
    t = time.monotonic()
    cid, _ = x.put(box, "(sleep 0.7; echo late) & echo early")
    assert x.call("GET", "/v1/commands/%s/stdout" % cid).body == b"early\n"
    assert time.monotonic() - t < 0.6
    time.sleep(0.9)
    assert x.state(cid)["stdout_bytes"] == 6


def test_background_children_cost_the_executor_nothing(x, box):
    folder = "/proc/%d/fd/" % x.process.pid

    def target(n):
        try:
            return os.readlink(folder + n)
        except FileNotFoundError:   # closed since it was listed
            return ""

    def fds():
        return sum("pipe:" in target(n) for n in os.listdir(folder))

    before, mark, path = fds(), "8%08d" % random.randrange(10**8), "/tmp/pdk-bg-" + uuid.uuid4().hex
    for _ in range(30):
        x.run(box, "sleep %s & echo x" % mark)
    cid = x.run(box, "(sleep 0.2; head -c 3000000 /dev/zero; echo done > %s) & echo x" % path).json["id"]
    assert fds() == before
    until(lambda: os.path.exists(path))   # a pipe that nobody reads would stop it, a closed one kill it
    assert x.state(cid)["stdout_bytes"] == 2
    os.unlink(path)
    x.run(box, "pkill -f 'sleep %s'" % mark)


def test_output_limit(x, box):
    j = x.run(box, "cat /dev/zero").json
    assert j["reason"] == "output_limit" and j["stdout_bytes"] > 64 << 20 and j["stdout_truncated"]


def test_too_many(x, box):
    cids = [x.put(box, "sleep 20")[0] for _ in range(40)]
    a = x.put(box, "true")[1]
    assert (a.status, a.json["code"]) == (429, "too_many_commands")
    for c in cids:
        x.call("POST", "/v1/commands/%s/kill" % c)
    for c in cids:
        assert x.call("GET", "/v1/commands/%s/result" % c).json["reason"] == "cancelled"


BAD = [({"unknown": 1}, 400, "unknown_field"), ({"timeout_ms": 0}, 400, "bad_field"), ({"timeout_ms": -1}, 400, "bad_field"), ({"timeout_ms": 2**63}, 400, "bad_field"),
       ({"cwd": "tmp"}, 422, "bad_cwd"), ({"cwd": "/" + "a" * 4100}, 422, "bad_cwd"), ({"command": "a\0b"}, 400, "bad_field"), ({"argv": ["x"], "command": "true"}, 400, "bad_field"),
       ({"command": None, "argv": []}, 422, "bad_argv"), ({"env": {"A=B": "x"}}, 422, "bad_env"), ({"env": {"A": 1}}, 422, "bad_env"), ({"instance": "x"}, 400, "bad_field"),
       ({"stdin": "a", "stdin_base64": "YQ=="}, 400, "bad_field"), ({"stdin_base64": "*"}, 400, "bad_field"), ({"ticket": {"view": "x"}}, 400, "bad_field")]


@pytest.mark.parametrize("fields,status,code", BAD)
def test_bad_bodies_start_nothing(x, box, fields, status, code):
    body = dict({"instance": box, "command": "true", "cwd": "/tmp", "timeout_ms": 1000}, **fields)
    cid = str(uuid.uuid4())
    a = x.call("PUT", "/v1/commands/" + cid, {k: v for k, v in body.items() if v is not None})
    assert (a.status, a.json["code"]) == (status, code)
    assert x.call("GET", "/v1/commands/" + cid).status == 404


def test_bad_requests(x):
    assert x.call("PUT", "/v1/commands/" + str(uuid.uuid4()), "{").json["code"] == "bad_json"
    assert x.call("PUT", "/v1/commands/x", {}).status == 404
    assert x.call("GET", "/nothing").status == 404
    assert x.call("POST", "/healthz", "").status == 405
    assert x.call("PUT", "/v1/commands/" + str(uuid.uuid4()), "x" * (5 << 20)).status == 413
    assert x.call("PUT", "/v1/commands/" + str(uuid.uuid4()), {"instance": str(uuid.uuid4()), "command": "true", "timeout_ms": 1}).json["code"] == "instance_not_found"


# --- streams ---

def test_bytes_are_exact(x, box):
    data = random.Random(2).randbytes(2 << 20)
    path = "/tmp/pdk-bytes-" + uuid.uuid4().hex
    with open(path, "wb") as f:
        f.write(data)
    cid, _ = x.put(box, "cat %s; cat %s >&2" % (path, path))
    out, err, last = collect(x, cid)
    assert out == data and err == data and last["type"] == "exit"
    assert x.call("GET", "/v1/commands/%s/stdout" % cid).body == data
    os.unlink(path)


def test_texts_that_are_hard(x, box):
    text = "a\0b\u2028c\u2029d\x7f\"\\\t\r😀"
    cid, _ = x.put(box, "cat", stdin=text)
    out, _, _ = collect(x, cid)
    assert out == text.encode()
    cid, _ = x.put(box, "cat", stdin_base64="//7/YQ==")
    events = [e for e in x.events(cid) if e["type"] == "stdout"]
    assert b"".join(map(piece, events)) == b"\xff\xfe\xffa" and "base64" in events[0]


def test_a_character_is_never_split(x, box):
    cid, _ = x.put(box, ["python3", "-c", "import os,time\nfor _ in range(40):\n for b in '😀é'.encode():\n  os.write(1,bytes([b])); os.write(2,b'.'); time.sleep(0.002)"])
    out = err = ""
    for e in x.events(cid):
        if e["type"] == "stdout":
            out += e["text"]
        elif e["type"] == "stderr":
            err += e["text"]
    assert out == "😀é" * 40 and err == "." * 240


def test_base64_when_asked(x, box):
    cid, _ = x.put(box, "echo hi")
    assert all("base64" in e for e in x.events(cid, query="&base64=1") if e["type"] == "stdout")


def test_sse_and_last_event_id(x, box):
    cid, _ = x.put(box, "echo one; sleep 0.1; echo two")
    x.call("GET", "/v1/commands/%s/result" % cid)
    a = x.call("GET", "/v1/commands/%s/sse" % cid)
    assert a.headers["Content-Type"] == "text/event-stream"
    assert a.body.startswith(b"event: start\ndata: {") and b"event: stdout\nid: 8\ndata: {\"seq\":8,\"text\":\"one\\ntwo\\n\"}\n\n" in a.body
    b = x.call("GET", "/v1/commands/%s/sse" % cid, headers={"Last-Event-ID": "4"})
    assert b.body.startswith(b"event: stdout\nid: 8\n") and b"event: exit\nid: 8\n" in b.body


def test_reconnecting_after_every_event(x, box):
    cid, _ = x.put(box, "for i in $(seq 30); do echo out$i; echo err$i >&2; sleep 0.01; done")
    whole = {"stdout": b"", "stderr": b""}
    seq, done = 0, False
    while not done:
        for e in x.events(cid, seq):
            if e["type"] in whole:
                whole[e["type"]] += piece(e)
                seq = e["seq"]
                break
            done = e["type"] == "exit"
    assert whole["stdout"] == b"".join(b"out%d\n" % i for i in range(1, 31))
    assert whole["stderr"] == b"".join(b"err%d\n" % i for i in range(1, 31))


def test_caps_keep_head_and_tail(x, box):
    program = "import sys\nfor i in range(1<<20): sys.stdout.write('%07d\\n' % i)"
    cid, _ = x.put(box, ["python3", "-c", program])
    j = x.call("GET", "/v1/commands/%s/result" % cid).json
    whole = b"".join(b"%07d\n" % i for i in range(1 << 20))
    assert j["stdout_bytes"] == len(whole) and j["stdout_truncated"] and len(j["stdout"]) == 16 << 10
    assert whole.startswith(j["stdout"][:8 << 10].encode()) and whole.endswith(j["stdout"][8 << 10:].encode())
    got, at = bytearray(), 0
    for e in x.events(cid):
        if e["type"] == "gap":
            assert e["from"] == at and e["seq"] == e["to"]
            assert 1 << 20 <= e["from"] < e["to"] <= len(whole) - (2 << 20)
            at = e["to"]
        elif e["type"] == "stdout":
            assert piece(e) == whole[at:e["seq"]]
            at = e["seq"]
    assert at == len(whole)
    a = x.call("GET", "/v1/commands/%s/stdout" % cid)
    assert a.headers["X-Paddock-Truncated"] == "1" and int(a.headers["Content-Length"]) == len(a.body)
    assert 3 << 20 <= len(a.body) < 5 << 20 and whole.startswith(a.body[:1 << 20]) and whole.endswith(a.body[1 << 20:])
    part = x.call("GET", "/v1/commands/%s/stdout" % cid, headers={"Range": "bytes=%d-%d" % ((1 << 20) - 8, (1 << 20) + 7)})
    assert part.status == 206 and part.body == a.body[(1 << 20) - 8:(1 << 20) + 8]
    assert os.stat("%s/state/output/%s.out" % (x.root, cid)).st_blocks * 512 < 6 << 20


def test_ranges(x, box):
    cid, _ = x.put(box, "printf 0123456789")
    x.call("GET", "/v1/commands/%s/result" % cid)
    path = "/v1/commands/%s/stdout" % cid
    for header, status, body in (("bytes=2-4", 206, b"234"), ("bytes=7-", 206, b"789"), ("bytes=-3", 206, b"789"), ("bytes=0-99", 206, b"0123456789"),
                                 ("bytes=a", 200, b"0123456789"), ("bytes=1-2,4-5", 200, b"0123456789")):
        a = x.call("GET", path, headers={"Range": header})
        assert (a.status, a.body) == (status, body), header
    a = x.call("GET", path, headers={"Range": "bytes=10-"})
    assert a.status == 416 and a.headers["Content-Range"] == "bytes */10"
    assert x.call("GET", "/v1/commands/%s/stderr" % cid).body == b""


def test_a_stopped_reader_costs_no_memory(x, box):
    rss = lambda: int(open("/proc/%d/statm" % x.process.pid).read().split()[1]) * 4096
    before = rss()
    cid, _ = x.put(box, "head -c 60000000 /dev/zero | tr '\\0' x")
    c = x.connection()
    c.request("GET", "/v1/commands/%s/ndjson" % cid)
    r = c.getresponse()
    until(lambda: x.state(cid)["status"] == "exited", 60)
    assert rss() - before < 4 << 20
    assert sum(1 for line in r if b'"type":"gap"' in line) >= 1
    c.close()


@pytest.mark.parametrize("start", [0, (1 << 17) - 1000])
def test_a_raw_reader_that_stops_gets_all_that_is_kept(x, box, start):
    """What it was promised and has gone meanwhile is replaced by what comes behind the hole; the end is not a clean one, because the headers said nothing of it."""
    rss = lambda: int(open("/proc/%d/statm" % x.process.pid).read().split()[1]) * 4096
    program = "import os,time\nos.write(1, b'%07d\\n' % 0)\ntime.sleep(1)\nfor i in range(1, 5 << 20, 1 << 13): os.write(1, b''.join(b'%07d\\n' % k for k in range(i, i + (1 << 13))))"
    cid, _ = x.put(box, ["python3", "-c", program])
    readers = []
    for _ in range(50):
        c = x.connection()
        c.request("GET", "/v1/commands/%s/stdout?from=%d" % (cid, 8 * start))
        readers.append((c, c.getresponse()))
        assert readers[-1][1].status == 200 and "X-Paddock-Truncated" not in readers[-1][1].headers
    before = rss()
    until(lambda: x.state(cid)["status"] == "exited", 60)
    with open(BUILD + "/tests/lib/paddock-executor-unshare", "rb") as f:
        assert rss() - before < 1 << 20 or b"__asan_init" in f.read()   # a sanitizer keeps what was freed
    whole = b"".join(b"%07d\n" % k for k in range((5 << 20) + 1))
    for c, r in readers[:5]:
        with pytest.raises(http.client.IncompleteRead) as cut:
            r.read()
        got = cut.value.partial
        same = next(i for i in range(len(got)) if got[i] != whole[8 * start + i])
        assert 8 * start + same >= 1 << 20 and whole.endswith(got[same:]) and len(got) - same >= (2 << 20) - 8
    for c, _ in readers:
        c.close()


def test_streams_in_old_and_short_forms(x, box):
    cid, _ = x.put(box, "seq 100000")
    whole = x.call("GET", "/v1/commands/%s/stdout" % cid).body
    x.call("GET", "/v1/commands/%s/result" % cid)
    for view, sized in (("stdout", True), ("ndjson", False)):
        plain = x.call("GET", "/v1/commands/%s/%s" % (cid, view))
        head = x.call("HEAD", "/v1/commands/%s/%s" % (cid, view))
        assert head.status == 200 and head.body == b"" and head.headers["Content-Type"] == plain.headers["Content-Type"]
        assert head.headers["Content-Length"] == (str(len(whole)) if sized else None)
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(x.sock)
            s.sendall(b"GET /v1/commands/%s/%s HTTP/1.0\r\n\r\n" % (cid.encode(), view.encode()))
            answer = b"".join(iter(lambda: s.recv(1 << 16), b""))
        head, body = answer.split(b"\r\n\r\n", 1)
        assert b"chunked" not in head and body == plain.body


# --- tickets, peers ---

def test_tickets_are_used_once(x, box):
    cid, a = x.put(box, "echo hi", ticket={"view": "stdout"})
    ticket = a.json["ticket"]
    assert x.call("GET", "/t/" + ticket).body == b"hi\n"
    assert x.call("GET", "/t/" + ticket).status == 404
    t = x.call("POST", "/v1/commands/%s/tickets" % cid, {"view": "ndjson", "from": 3})
    assert t.status == 201 and x.call("GET", "/t/" + t.json["ticket"]).body.startswith(b'{"type":"exit"')
    assert x.call("POST", "/v1/commands/%s/tickets" % uuid.uuid4(), {"view": "sse"}).status == 404


def as_account(uid, x, path):
    return subprocess.run(["setpriv", "--reuid", str(uid), "--clear-groups", "curl", "-s", "-m", "5", "-o", "/dev/null", "-w", "%{http_code}",
                           "--unix-socket", x.sock, "http://x" + path], capture_output=True, text=True).stdout


def test_who_may_speak(x):
    import pwd
    www = pwd.getpwnam("www-data").pw_uid
    assert as_account(0, x, "/healthz") == "200"
    assert as_account(www, x, "/healthz") == "403"
    assert as_account(www, x, "/t/" + "0" * 64) == "404"
    assert as_account(54321, x, "/healthz") == "000"


def peers_of(x, program):
    """Runs python that knows the socket as SOCK, as an account that nobody knows."""
    program = "import socket, sys\nSOCK = %r\n" % x.sock + program
    return subprocess.run(["setpriv", "--reuid", "54321", "--clear-groups", "/usr/bin/python3", "-c", program], check=True, timeout=60)


def refused(x):
    with open(x.log, encoding="utf-8") as f:
        return [int(line.split("count=")[1].split()[0]) for line in f if "event=peer_refused" in line]


def test_refused_peers_do_not_fill_the_log(own):
    x = own()
    peers_of(x, "for i in range(500):\n s = socket.socket(socket.AF_UNIX)\n s.connect(SOCK)\n s.settimeout(10)\n assert s.recv(1) == b''")
    assert refused(x) == [1]
    assert x.call("GET", "/healthz").status == 200
    until(lambda: len(refused(x)) == 2, 15)
    assert refused(x) == [1, 499]


def closed_after(s, seconds=20):
    begin = time.monotonic()
    s.settimeout(seconds)
    try:
        while s.recv(1 << 16):
            pass
    except ConnectionResetError:
        pass
    return time.monotonic() - begin


def test_silent_peers_are_closed_and_nobody_else(own):
    x = own(request_ms=1000)
    iid = str(uuid.uuid4())
    assert x.run(iid, "true").status == 200
    cid, _ = x.put(iid, "echo first; sleep 4; echo late")
    live = x.events(cid)
    assert [next(live)["type"], next(live)["text"]] == ["start", "first\n"]
    result, kept = x.connection(), x.connection()
    result.request("GET", "/v1/commands/%s/result" % cid)
    kept.request("GET", "/healthz")
    assert kept.getresponse().read()
    big, _ = x.put(iid, "head -c 900000 /dev/zero | tr '\\0' x")
    until(lambda: x.state(big)["status"] == "exited")
    slow = x.connection()
    slow.request("GET", "/v1/commands/%s/result" % big)
    halves = []
    for text in (b"", b"GET /heal", b"POST /v1/reports/ack HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"):
        halves.append(socket.socket(socket.AF_UNIX))
        halves[-1].connect(x.sock)
        halves[-1].sendall(text)
    assert all(closed_after(s) < 3 for s in halves)
    assert next(live)["text"] == "late\n" and next(live)["type"] == "exit"
    assert b"late" in result.getresponse().read()
    assert len(slow.getresponse().read()) > 900000
    kept.request("GET", "/healthz")
    assert kept.getresponse().status == 200
    for c in (result, kept, slow):
        c.close()


def test_without_descriptors(own):
    """The streams that are open go on, newcomers are told by a close, the loop rests, and all is well when there are descriptors again."""
    x = own()
    iid = str(uuid.uuid4())
    cid, _ = x.put(iid, "echo first; sleep 5; echo late")
    live = x.events(cid)
    assert [next(live)["type"], next(live)["text"]] == ["start", "first\n"]
    pid = x.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    fds = {int(n) for n in os.listdir("/proc/%d/fd" % pid)}
    most = max(fds) + 1
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (most, before[1]))
    room, late = most - len(fds), []
    for _ in range(room + 200):
        s = socket.socket(socket.AF_UNIX)
        s.connect(x.sock)
        late.append(s)
    until(lambda: len(select.select(late, [], [], 0)[0]) >= 180)   # the end of what was closed; a few descriptors may have become free
    assert len(select.select(late, [], [], 1)[0]) <= 200
    ticks = lambda: sum(int(n) for n in open("/proc/%d/stat" % pid).read().rsplit(")", 1)[1].split()[11:13])
    spent = ticks()
    time.sleep(1)
    assert ticks() - spent < 20
    assert next(live)["text"] == "late\n" and next(live)["type"] == "exit"
    resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
    for s in late:
        s.close()
    assert x.run(iid, "echo again").json["stdout"] == "again\n"
    assert open(x.log, encoding="utf-8").read().count("event=descriptors_exhausted") <= 2


# --- reports ---

def test_reports_are_repeated_until_acknowledged(own):
    x = own()
    iid = str(uuid.uuid4())
    cid = x.run(iid, "echo hi").json["id"]
    until(lambda: any(i["kind"] == "command" for i in x.call("GET", "/v1/reports?wait_ms=100").json["items"]))   # a moment after the answer
    items = x.call("GET", "/v1/reports").json["items"]
    mine = [i for i in items if i["kind"] == "command"]
    assert [(i["command"]["id"], i["command"]["stdout"]) for i in mine] == [(cid, "hi\n")]
    assert any(i["kind"] == "instance" and i["instance"]["state"] == "ready" for i in items)
    x.kill()
    x.start()
    assert [i["command"]["id"] for i in x.call("GET", "/v1/reports").json["items"] if i["kind"] == "command"] == [cid]
    keys = [i["key"] for i in x.call("GET", "/v1/reports").json["items"]] + ["c:x", "nonsense"]
    assert x.call("POST", "/v1/reports/ack", {"keys": keys}).status == 204
    t = time.monotonic()
    assert x.call("GET", "/v1/reports?wait_ms=300").json["items"] == [] and time.monotonic() - t > 0.25
    assert x.run(iid, "true", cid=cid).json["stdout"] == "hi\n"
    waiting = []
    t = threading.Thread(target=lambda: waiting.append(x.call("GET", "/v1/reports?wait_ms=5000").json["items"]))
    t.start()
    time.sleep(0.1)
    x.run(iid, "true")
    t.join(2)
    assert len(waiting[0]) == 1


def test_a_long_command_is_reported_running(x, box):
    cid, _ = x.put(box, "sleep 1")
    until(lambda: any(i["kind"] == "command" and i["command"]["id"] == cid and i["command"]["status"] == "running"
                      for i in x.call("GET", "/v1/reports?limit=500").json["items"]))


def test_the_acknowledgement_of_a_start_is_not_that_of_the_end(own):
    """Both are there at once: the agent's word that the command has ended, and an acknowledgement that was on its way."""
    x = own()
    iid = str(uuid.uuid4())
    cid, _ = x.put(iid, "sleep 0.5; exit 4")
    until(lambda: any(i["key"] == "c:%s:2" % cid for i in x.call("GET", "/v1/reports?limit=500").json["items"]))
    c, waiter = x.connection(), x.connection()
    c.request("GET", "/healthz")
    c.getresponse().read()
    waiter.request("GET", "/v1/commands/%s/result" % cid)
    time.sleep(0.1)
    x.process.send_signal(signal.SIGSTOP)
    time.sleep(0.8)
    c.request("POST", "/v1/reports/ack", json.dumps({"keys": ["c:%s:2" % cid]}))
    x.process.send_signal(signal.SIGCONT)
    assert c.getresponse().status == 204
    c.close()
    assert json.loads(waiter.getresponse().read())["exit_code"] == 4
    waiter.close()
    until(lambda: any(i["key"] == "c:%s:3" % cid for i in x.call("GET", "/v1/reports?limit=500").json["items"]))


def test_retention(own):
    x = own(journal_keep_ms=0)
    iid = str(uuid.uuid4())
    cid = x.run(iid, "echo hi").json["id"]
    x.call("DELETE", "/v1/instances/%s?wait_ms=5000" % iid)
    assert x.call("GET", "/v1/commands/%s/stdout" % cid).body == b"hi\n"
    x.call("POST", "/v1/reports/ack", {"keys": [i["key"] for i in x.call("GET", "/v1/reports").json["items"]]})
    until(lambda: x.call("GET", "/v1/commands/" + cid).status == 404)
    for d in ("acked", "output"):
        until(lambda: os.listdir(x.root + "/state/" + d) == [])
    assert all(os.stat(x.root + "/state/journal/" + n).st_size == 0 for n in os.listdir(x.root + "/state/journal"))


# --- instances ---

def test_destroying_ends_the_commands(x):
    iid = str(uuid.uuid4())
    x.run(iid, "true")
    cid, _ = x.put(iid, "echo before; sleep 60")
    until(lambda: x.state(cid)["stdout_bytes"] == 7)
    a = x.call("DELETE", "/v1/instances/%s?wait_ms=5000" % iid)
    assert (a.status, a.json["state"]) == (200, "gone")
    j = x.call("GET", "/v1/commands/%s/result" % cid).json
    assert (j["status"], j["reason"], j["stdout"]) == ("exited", "cancelled", "before\n")
    assert x.put(iid, "true")[1].status == 410
    assert x.call("GET", "/v1/instances/" + iid).json["state"] == "gone"


def test_an_instance_that_dies_loses_its_commands(x):
    iid = str(uuid.uuid4())
    x.run(iid, "true")
    cid, _ = x.put(iid, "echo before; sleep 60")
    until(lambda: x.state(cid)["stdout_bytes"] == 7)
    pid = open("%s/a/%s.pid" % (x.root, iid)).read()
    os.kill(int(open("/proc/%s/task/%s/children" % (pid, pid)).read().split()[0]), signal.SIGKILL)
    j = x.call("GET", "/v1/commands/%s/result" % cid).json
    assert (j["status"], j["reason"], j["exit_code"], j["stdout"]) == ("lost", "lost", None, "before\n")
    a = x.run(iid, "true")
    assert (a.status, a.json["code"]) == (503, "instance_failed")


# --- our own death ---

def test_it_starts_once(x):
    second = x.spawn()
    assert second.wait(10) == 1
    assert "pid %d" % x.process.pid in open(x.log).read()


def test_a_queued_command_survives_as_not_started(own):
    x = own()
    iid = str(uuid.uuid4())
    x.run(iid, "true")
    x.call("GET", "/v1/reports")
    cid, _ = x.put(iid, "sleep 60", stdin="x")
    until(lambda: x.state(cid)["status"] == "running")
    x.kill()
    # as if it had been killed between the journal and the agent, and while it wrote an entry
    ghost, torn, journal = str(uuid.uuid4()), str(uuid.uuid4()), x.root + "/state/journal/"
    lines = [t for t in (open(journal + n).read() for n in os.listdir(journal)) if cid in t][0].split("\n")
    with open(journal + "100", "w") as f:
        f.write(lines[0].replace(cid, ghost) + "\n" + lines[1].replace(cid, ghost) + "\n{\"handed\":17")
    with open(journal + "101", "w") as f:
        f.write(lines[0].replace(cid, torn)[:90])
    x.start()
    a = x.call("GET", "/v1/commands/%s/result" % ghost)
    assert (a.status, a.json["code"]) == (503, "executor_restarted")
    assert x.call("GET", "/v1/commands/" + torn).status == 404
    assert x.state(cid)["status"] == "running"
    x.call("POST", "/v1/commands/%s/kill" % cid)
    assert x.call("GET", "/v1/commands/%s/result" % cid).json["reason"] == "cancelled"


def test_a_spool_does_not_outlive_its_command(own):
    x = own()
    cid = x.run(str(uuid.uuid4()), "cat", stdin="text").json["id"]
    until(lambda: any(i["key"] == "c:%s:3" % cid for i in x.call("GET", "/v1/reports").json["items"]))
    x.kill()
    spool = "%s/state/output/%s.in" % (x.root, cid)
    with open(spool, "w", encoding="utf-8") as f:   # as if it had been killed between the end and what is done then
        f.write("text")
    x.start()
    assert x.state(cid)["stdout_bytes"] == 4 and not os.path.exists(spool)


STREAM = """
import os, random, sys, time
r = random.Random(7)
for i in range(int(sys.argv[1])):
    os.write(1, b"%06d " % i + b"o" * r.randrange(2000) + b"\\n")
    if i % 3 == 0:
        os.write(2, b"%06d \\xf0\\x9f\\x98\\x80\\n" % i)
    if i % 50 == 0:
        time.sleep(0.01)
"""


def expected(n):
    r = random.Random(7)
    out = b"".join(b"%06d " % i + b"o" * r.randrange(2000) + b"\n" for i in range(n))
    return out, b"".join(b"%06d \xf0\x9f\x98\x80\n" % i for i in range(0, n, 3))


def test_killed_at_random_moments(own):
    x = own()
    iid, n, rng = str(uuid.uuid4()), 6000, random.Random(os.getpid())
    x.run(iid, "true")
    cids = [x.put(iid, ["python3", "-c", STREAM, str(n)])[0] for _ in range(3)]
    fed, _ = x.put(iid, "sha256sum", stdin="s" * 1000000)
    waiter, _ = x.put(iid, "sleep 4; exit 9")
    short = []
    seen = {c: [b"", b"", 0] for c in cids}
    for _ in range(12):
        time.sleep(rng.random() * 0.25)
        short.append(x.put(iid, "echo short; exit 5")[0])
        c = rng.choice(cids)   # a client that reads a little and remembers its cursor
        for k, e in enumerate(x.events(c, seen[c][2])):
            if e["type"] in ("stdout", "stderr"):
                seen[c][e["type"] == "stderr"] += piece(e)
                seen[c][2] = e["seq"]
            if k > 20:
                break
        x.kill()
        x.start()
    for c in cids:
        j = x.call("GET", "/v1/commands/%s/result" % c).json
        assert (j["status"], j["exit_code"]) == ("exited", 0)
        out, err, _ = collect(x, c, seen[c][2])
        assert (seen[c][0] + out, seen[c][1] + err) == expected(n)
        assert x.call("GET", "/v1/commands/%s/stdout" % c).body == expected(n)[0]
    j = x.call("GET", "/v1/commands/%s/result" % fed).json
    assert j["reason"] == "exited" and j["stdout"].split()[0] == hashlib.sha256(b"s" * 1000000).hexdigest(), j
    assert x.call("GET", "/v1/commands/%s/result" % waiter).json["exit_code"] == 9
    for c in short:
        a = x.call("GET", "/v1/commands/%s/result" % c)
        assert a.status == 503 and a.json["code"] == "executor_restarted" or (a.json["exit_code"], a.json["stdout"]) == (5, "short\n")
