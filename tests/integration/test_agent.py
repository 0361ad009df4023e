"""The agent alone: started in a pid namespace of its own and driven over its socket, as the executor does. Needs root.

PADDOCK_AGENT names the program, else that of the build directory (PADDOCK_BUILD, default: the working directory) is taken."""

import hashlib
import os
import random
import struct
import subprocess
import sys
import time

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
import agent_peer as proto  # noqa: E402
from agent_peer import Agent, Peer  # noqa: E402

PROGRAM = os.environ.get("PADDOCK_AGENT", os.path.join(os.environ.get("PADDOCK_BUILD", os.getcwd()), "paddock-agent"))

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: a pid namespace and another account"),
    pytest.mark.skipif(not os.access(PROGRAM, os.X_OK), reason="no agent at %s (PADDOCK_AGENT)" % PROGRAM),
]

BASE_ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/home/user", "USER": "user", "LOGNAME": "user", "SHELL": "/bin/bash",
            "LANG": "C.UTF-8"}


def build_stubborn():
    target = "/tmp/paddock-stubborn-%d" % os.getpid()
    subprocess.run(["cc", "-O1", "-static", "-o", target, os.path.join(HERE, "..", "lib", "stubborn.c")], check=True)
    os.chmod(target, 0o755)
    return target, subprocess.run([target, "list"], check=True, capture_output=True, text=True).stdout.split()


# A neighbour that needs no new process, which it may not get beside a fork bomb of the same account.
COUNT = ["python3", "-uc", "import time\nwhile True: print('x'); time.sleep(.02)"]
STUBBORN, TREES = build_stubborn()


@pytest.fixture(scope="module", autouse=True)
def remove_program():
    yield
    os.unlink(STUBBORN)


@pytest.fixture
def agent():
    a = Agent(PROGRAM)
    yield a
    a.stop()


@pytest.fixture
def peer(agent):
    p = Peer(agent.path).accept()
    yield p
    p.close()


def sh(peer, eid, command, **how):
    return peer.run(eid, command=command, **how)


# ---- one command ----

def test_output_and_status(peer):
    e, out, err = sh(peer, "a", "echo out; echo err >&2; exit 7")
    assert (e["end"], e["why"], e["code"], out, err) == ("exited", "none", 7, b"out\n", b"err\n")
    assert not peer.started["a"]["adopted"] and abs(peer.started["a"]["wall"] / 1000 - time.time()) < 5


def test_argv_is_taken_literally(peer):
    e, out, _ = peer.run("a", argv=["printf", "%s|", "a b", "", "$HOME", "\u263a"])
    assert e["code"] == 0 and out.decode() == "a b||$HOME|\u263a|"


def test_signal_status(peer):
    e, _, _ = sh(peer, "a", "kill -9 $$")
    assert (e["end"], e["why"], e["code"]) == ("signaled", "none", 9)


def test_environment_is_clean(peer):
    e, out, _ = sh(peer, "a", "exec env -0", env=["ONE=1", "LANG=de_DE.UTF-8", "ONE=2"])
    env = dict(v.split("=", 1) for v in out.decode().split("\0") if v)
    assert env == dict(BASE_ENV, ONE="2", LANG="de_DE.UTF-8", PWD="/tmp", SHLVL="0") or \
        {k: v for k, v in env.items() if k not in ("PWD", "SHLVL", "_")} == dict(BASE_ENV, ONE="2", LANG="de_DE.UTF-8")


def test_account_and_limits(peer):
    script = """id -u; id -g; id -G; umask; ulimit -c; ulimit -n; nice; cat /proc/self/oom_score_adj; ls /proc/self/fd | wc -l
grep -E '^(CapEff|CapPrm|CapBnd|CapAmb|SigBlk|SigIgn|NoNewPrivs):' /proc/self/status; ps -o sid=,pgid= -p $$ | xargs; echo $$"""
    e, out, _ = sh(peer, "a", script)
    v = out.decode().split("\n")
    assert v[:5] == ["1000", "1000", "1000", "0022", "0"]
    assert v[5:8] == ["1024", str(os.getpriority(os.PRIO_PROCESS, 0) + 5), "500"]
    assert v[8] == "4", "0, 1, 2 and the directory itself"
    status = dict(x.split(":\t") for x in v[9:16])
    assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == int(status["CapAmb"], 16) == int(status["CapBnd"], 16) == 0
    assert int(status["SigBlk"], 16) & ~0x10000 == 0 and int(status["SigIgn"], 16) == 0 and status["NoNewPrivs"] == "1"
    assert v[16].split() == [v[17], v[17]] == [str(peer.started["a"]["pgid"])] * 2


def test_dev_stdout_can_be_opened(peer):
    assert sh(peer, "a", "echo x > /dev/stdout; echo y > /dev/stderr")[1:] == (b"x\n", b"y\n")


def test_stdin_is_empty_by_default(peer):
    assert sh(peer, "a", "cat; echo done")[1] == b"done\n"


def test_long_command_text(peer):
    body = "x='" + "\u00e4\u263a\U0001f600" * 33333 + "'; printf %s \"$x\" | sha256sum; echo $# \"$0\"; exit 3"
    e, out, err = sh(peer, "a", body)
    assert e["code"] == 3, (e, err)
    want = hashlib.sha256(("\u00e4\u263a\U0001f600" * 33333).encode()).hexdigest()
    assert out.decode().split("\n")[:2] == [want + "  -", "0 /bin/bash"]


def test_text_of_every_length_around_a_piece(peer):
    for n in list(range(102390, 102410)) + [204799, 204800, 204801, 1 << 20]:
        e, out, err = sh(peer, "n%d" % n, "echo ok #".ljust(n, "z"))
        assert (e["code"], out) == (0, b"ok\n"), (n, e, err)


@pytest.mark.parametrize("how,stage,errno", [
    (dict(command="true", cwd="/nonexistent"), "cwd", 2),
    (dict(command="true", cwd="/etc/passwd"), "cwd", 20),
    (dict(command="true", cwd="/root/x", make_cwd=True), "cwd", 13),
    (dict(argv=["/nonexistent"]), "exec", 2),
    (dict(argv=["no-such-program"]), "exec", 2),
    (dict(argv=["/etc/passwd"]), "exec", 13),
    (dict(argv=["x" * 3000]), "exec", 36),
    (dict(argv=["true"], env=["PATH=/nonexistent"]), "exec", 2),
    (dict(argv=["true", "y" * 140000]), "exec", 7),
])
def test_not_started(peer, how, stage, errno):
    e, _, _ = peer.run("a", **how)
    assert (e["end"], e["stage"], e["code"]) == ("not_started", stage, errno)
    assert "a" not in peer.started
    assert sh(peer, "b", "echo still here")[1] == b"still here\n"


def test_make_cwd(peer):
    d = "/tmp/paddock-cwd-%d/a/b" % os.getpid()
    try:
        e, out, _ = sh(peer, "a", "pwd; stat -c %u:%a .", cwd=d, make_cwd=True)
        assert out.decode() == d + "\n1000:755\n"
    finally:
        subprocess.run(["rm", "-rf", "/tmp/paddock-cwd-%d" % os.getpid()])


def test_background_process_does_not_hold_the_end(peer):
    began = time.monotonic()
    e, out, _ = sh(peer, "a", "sleep 300 & echo $!")
    assert e["code"] == 0 and time.monotonic() - began < 3
    look = "for i in $(seq 100); do c=$(ps -o comm= -p %s); [ \"$c\" = sleep ] && break; sleep 0.05; done; echo $c"   # it is bash until its exec
    assert sh(peer, "b", look % out.decode().strip())[1] == b"sleep\n"
    peer.kill("a")
    peer.until(lambda: ("a", True) in peer.not_running)


def test_background_writer_lives_on_after_the_acknowledgement(peer):
    sh(peer, "a", "(trap 'touch /tmp/paddock-pipe-broke' PIPE; head -c 1000000 /dev/zero; "
                  "echo x > /tmp/paddock-bg-%d) & exit 0" % os.getpid())
    for fd in peer.pipes.pop("a"):
        os.close(fd)
    end = time.monotonic() + 10
    while not os.path.exists("/tmp/paddock-bg-%d" % os.getpid()):
        assert time.monotonic() < end
        time.sleep(.05)
    os.unlink("/tmp/paddock-bg-%d" % os.getpid())
    assert not os.path.exists("/tmp/paddock-pipe-broke")


def test_same_id_starts_nothing_twice(peer):
    how = dict(command="echo once; sleep .2")
    peer.exec("a", **how)
    peer.exec("a", **how)
    peer.wait("a")
    peer.exec("a", **how)
    peer.until(lambda: peer.started["a"]["adopted"])
    assert peer.read("a") == b"once\n"
    peer.ack("a")
    peer.signal("a", 15)
    peer.until(lambda: [n[0] for n in peer.not_running] == ["a"])


def test_signal_goes_to_the_group(peer):
    peer.exec("a", command="trap 'echo got; exit 5' TERM; sleep 100 & echo up; wait")
    peer.until(lambda: "a" in peer.started)
    while b"up" not in peer.read("a"):
        time.sleep(.01)
    peer.signal("a", 15)
    e = peer.wait("a")
    assert e["code"] == 5 and peer.read("a") == b"got\n"


def test_limits_of_executions(peer):
    for i in range(100):
        peer.exec("e%d" % i, argv=["sleep", "0.3"])
    peer.until(lambda: len(peer.exited) == 100, 20)
    assert all(e["end"] == "exited" for e in peer.exited.values())


def test_too_many_unacknowledged(agent):
    peer = Peer(agent.path).accept()
    for i in range(300):
        peer.exec("e%d" % i, argv=["true"])
    peer.until(lambda: len(peer.exited) == 300, 30)
    refused = [e for e in peer.exited.values() if e["end"] == "not_started"]
    assert len(refused) >= 44 and all(e["stage"] in ("agent", "pipes") for e in refused)
    for i in range(300):
        peer.ack("e%d" % i)
    assert sh(peer, "again", "echo x")[1] == b"x\n"
    peer.close()


def test_too_many_with_background_processes(agent):
    peer = Peer(agent.path).accept()
    subprocess.run(["prlimit", "--nofile=8192:8192", "--pid", str(agent.pid())], check=True)
    for start in range(0, 1024, 128):
        ids = ["b%d" % i for i in range(start, start + 128)]
        for i in ids:
            peer.exec(i, command="sleep 100 >/dev/null 2>&1 &")
        peer.until(lambda: all(i in peer.exited for i in ids), 60)
        assert all(peer.exited[i]["end"] == "exited" for i in ids)
        for i in ids:
            peer.ack(i)
            for fd in peer.pipes.pop(i):
                os.close(fd)
    for i in ("x", "y", "z"):   # by the same connection
        peer.exec(i, argv=["true"])
        e = peer.wait(i)
        assert (e["end"], e["stage"], e["code"]) == ("not_started", "agent", 11)
        peer.ack(i)
    peer.close()


# ---- standard input ----

def feed(peer, eid, data, eof=True, start=0):
    sent, taken, window = start, start, 65536
    while sent < len(data):
        n = min(window - (sent - taken), 65536, len(data) - sent)
        if n <= 0:
            before = peer.taken.get(eid)
            peer.until(lambda: peer.taken.get(eid) != before)
        else:
            peer.stdin(eid, sent, data[sent:sent + n])
            sent += n
            peer.taken.pop(eid, None)
            peer.until(lambda: eid in peer.taken)
        taken, window = peer.taken[eid]
    if eof:
        peer.stdin(eid, len(data), b"", True)


def test_stdin_is_byte_exact(peer):
    data = os.urandom(5 << 20)
    peer.exec("a", command="sha256sum", stdin_open=True)
    feed(peer, "a", data)
    peer.wait("a")
    assert peer.read("a").split()[0].decode() == hashlib.sha256(data).hexdigest()


def test_stdin_window_is_respected_and_bounded(peer):
    peer.exec("a", command="sleep 100", stdin_open=True)
    taken = 0
    while True:
        peer.stdin("a", taken, b"z" * 65536)
        peer.taken.clear()
        peer.until(lambda: "a" in peer.taken)
        taken, window = peer.taken["a"]
        if window < 65536:
            break
    assert taken <= 65536 * 3
    peer.stdin("a", taken, b"z" * (window + 1) if window < 65536 else b"")
    with pytest.raises(AssertionError, match="hung up"):
        peer.until(lambda: False, 5)


def test_stdin_duplicates_and_gaps(agent, peer):
    peer.exec("a", command="cat", stdin_open=True)
    peer.stdin("a", 0, b"hello ")
    peer.stdin("a", 0, b"hello ")
    peer.stdin("a", 3, b"lo world", True)
    peer.stdin("a", 3, b"lo world", True)
    peer.wait("a")
    assert peer.read("a") == b"hello world"
    peer.exec("b", command="cat", stdin_open=True)
    peer.stdin("b", 1, b"x")
    with pytest.raises(AssertionError, match="hung up"):
        peer.until(lambda: False, 5)


def test_stdin_closed_by_the_command(peer):
    peer.exec("a", command="exec <&-; echo closed; sleep 3", stdin_open=True)
    peer.until(lambda: "a" in peer.started)
    peer.until(lambda: "a" in peer.taken)
    assert peer.taken["a"][1] > 1 << 40
    peer.stdin("a", 0, b"x" * 65536)
    peer.stdin("a", 65536, b"x" * 65536)
    peer.until(lambda: peer.taken["a"][0] == 131072)
    peer.kill("a")
    assert peer.wait("a")["why"] == "killed"


# ---- time-outs and kills ----

def test_timeout(peer):
    e, out, _ = sh(peer, "a", "echo so far; trap '' TERM; sleep 100", timeout_ms=300)
    assert (e["end"], e["why"], e["code"], out) == ("signaled", "timeout", 9, b"so far\n")


def live(peer, eid):
    """Processes of the container but the agent, supervisors and the asking command."""
    script = "for p in /proc/[0-9]*; do [ \"$(stat -c %u $p 2>/dev/null)\" = 1000 ] && " \
             "read -r l < $p/stat 2>/dev/null && echo \"$l\"; done"
    _, out, _ = sh(peer, eid, script)
    own = peer.started[eid]["pgid"]
    found = [x.split(")")[-1].split() for x in out.decode(errors="replace").splitlines()]
    return [f for f in found if f and f[0] != "Z" and int(f[3]) != own]


@pytest.mark.parametrize("tree", TREES)
def test_kill_takes_the_whole_tree_and_nothing_else(agent, tree):
    peer = Peer(agent.path, nproc=240).accept()
    # Two neighbours: one that counts, one that holds a stopped child, which has to stay stopped.
    peer.exec("count", argv=COUNT)
    peer.exec("held", command="sleep 1000 & kill -STOP $!; echo $!; wait")
    peer.until(lambda: "held" in peer.started)
    end = time.monotonic() + 10
    held = b""
    while not held.endswith(b"\n") and time.monotonic() < end:
        held += peer.read("held")
        time.sleep(.01)
    held = held.decode().strip()
    peer.exec("tree", argv=[STUBBORN, tree])
    peer.until(lambda: len(peer.started) == 3)
    end = time.monotonic() + 5
    told = b""
    while b"ready" not in told and time.monotonic() < end:
        told += peer.read("tree")
        time.sleep(.01)
    time.sleep(.3)
    began = time.monotonic()
    peer.kill("tree")
    e = peer.wait("tree", 10)
    took = time.monotonic() - began
    assert e["why"] == "killed" and took < 5, (e, took)
    peer.read("count")
    time.sleep(.2)
    assert peer.read("count"), "the neighbour was stopped or killed"
    left = live(peer, "look")
    print("%s %.1f ms" % (tree, took * 1000))
    if tree != "rebel":    # it continues everybody itself
        _, out, _ = sh(peer, "state", "cut -d' ' -f3 /proc/%s/stat" % held)
        assert out == b"T\n"
    peer.kill("count")
    peer.kill("held")
    peer.wait("count")
    peer.wait("held")
    assert len(left) <= 4, left    # the two neighbours and their sleeps
    assert live(peer, "look2") == []
    peer.close()


def test_two_kills_at_once(agent):
    peer = Peer(agent.path, nproc=200).accept()
    peer.exec("n", argv=COUNT)
    peer.until(lambda: "n" in peer.started)
    end = time.monotonic() + 10
    while not peer.read("n"):
        assert time.monotonic() < end
        time.sleep(.01)
    for i, tree in enumerate(["vfork-chain", "bomb-chain", "session-chain", "plain"]):
        peer.exec("t%d" % i, argv=[STUBBORN, tree])
    time.sleep(.5)
    for i in range(4):
        peer.kill("t%d" % i)
    for i in range(4):
        assert peer.wait("t%d" % i, 10)["why"] == "killed"
    peer.read("n")
    time.sleep(.2)
    assert peer.read("n")
    peer.kill("n")
    peer.wait("n")
    assert live(peer, "look") == []
    peer.close()


def test_user_cannot_reach_the_agent(agent, peer):
    script = """kill -9 1; kill -STOP 1; kill -TERM 1; cat /proc/1/environ; cat /proc/1/maps | head -1; ls -l /proc/1/fd; readlink /proc/1/exe
echo $PPID; kill -9 $PPID; cat /proc/$PPID/environ; ls /proc/$PPID/fd; true"""
    e, out, err = sh(peer, "a", script)
    assert e["end"] == "exited" and len(out.split()) == 1, out
    assert b"secret" not in out + err
    with open("/proc/%d/environ" % agent.pid(), "rb") as f:
        assert b"secret" not in f.read()
    assert sh(peer, "b", "echo fine")[1] == b"fine\n"


# ---- the executor's death ----

def test_timeout_with_nobody_connected(agent, peer):
    peer.exec("a", argv=[STUBBORN, "double-fork"], timeout_ms=700)
    peer.until(lambda: "a" in peer.started)
    peer.close()
    time.sleep(1.5)
    p = Peer(agent.path).accept()
    assert p.started["a"]["adopted"] and p.exited["a"]["why"] == "timeout"
    assert p.exited["a"]["wall"] - p.started["a"]["wall"] < 1100
    assert p.read("a") == b"ready\n"
    assert live(p, "look") == []
    p.close()


def test_ends_are_repeated_until_acknowledged(agent, peer):
    peer.exec("a", command="echo a; exit 3")
    peer.exec("b", argv=["/nonexistent"])
    peer.wait("a")
    peer.wait("b")
    peer.close()
    p = Peer(agent.path).accept()
    assert p.hello[1] == 2 and p.exited["a"]["code"] == 3 and p.exited["b"]["stage"] == "exec" and "b" not in p.started
    assert p.read("a") == b"a\n"
    p.ack("a")
    p.ack("b")
    p.run("c", command="true")
    p.close()
    p = Peer(agent.path).accept()
    assert p.hello[1] == 0 and not p.exited
    p.close()


def test_nothing_is_lost_or_doubled_over_random_deaths(agent):
    """Executors die at random moments while two streams come out and standard input goes in."""
    seed = random.randrange(1 << 30)
    print("seed", seed)
    rnd = random.Random(seed)
    size, given = 8 << 20, rnd.randbytes(1 << 20)
    code = "import sys,random\nr=random.Random(5)\nfor i in range(%d):\n b=r.randbytes(65536)\n sys.stdout.buffer.write(b)\n sys.stderr.buffer.write(b[:100])" % (size >> 16)
    want = random.Random(5)
    pieces = [want.randbytes(65536) for _ in range(size >> 16)]
    got = {"gen": [bytearray(), bytearray()], "echo": [bytearray(), bytearray()]}
    ended, taken, lives, started = {}, 0, 0, set()
    end = time.monotonic() + 60
    while len(ended) < 2:
        assert time.monotonic() < end
        p = Peer(agent.path).accept()
        lives += 1
        for eid, how in (("gen", dict(argv=["python3", "-c", code])), ("echo", dict(argv=["cat"], stdin_open=True))):
            if eid in started:
                assert eid in p.started or eid in ended
            if eid not in p.started and eid not in ended:
                p.exec(eid, **how)
        until = time.monotonic() + rnd.uniform(.001, .12)
        while time.monotonic() < until:
            if "echo" in p.started and "echo" not in p.exited:
                if not p.started["echo"]["adopted"] and "echo" not in p.taken:
                    p.taken["echo"] = (0, 65536)
                taken, window = p.taken.pop("echo", (0, 0))
                if window >= 4000:
                    # Some of it again, as an executor does that is not sure.
                    back = min(taken, rnd.choice([0, 0, 100]))
                    p.stdin("echo", taken - back, given[taken - back:taken + 4000], taken + 4000 >= len(given))
                    p.started["echo"]["adopted"] = True
            p.pump(.002)
            started |= set(p.started)
            for eid in p.pipes:
                for i in (0, 1):
                    # One read is one step of a real executor: what is read here is in the journal.
                    try:
                        got[eid][i] += os.read(p.pipes[eid][i], rnd.choice([1, 100, 65536]))
                    except BlockingIOError:
                        pass
            for eid, e in list(p.exited.items()):
                if eid not in ended:
                    for i in (0, 1):
                        got[eid][i] += p.read(eid, i)
                    ended[eid] = e
                if rnd.random() < .5:
                    p.ack(eid)
        p.close()
    print("lives", lives)
    assert all(e["end"] == "exited" and e["code"] == 0 for e in ended.values()), ended
    assert bytes(got["gen"][0]) == b"".join(pieces)
    assert bytes(got["gen"][1]) == b"".join(b[:100] for b in pieces)
    assert bytes(got["echo"][0]) == given


# ---- bad frames ----

@pytest.mark.parametrize("data", [
    struct.pack("<IBBH", 0xffffffff, proto.EXEC, 0, 0),
    struct.pack("<IBBH", 0, 99, 0, 0),
    struct.pack("<IBBH", 0, proto.HELLO, 0, 0),
    struct.pack("<IBBH", 0, proto.KILL, 1, 0),
    struct.pack("<IBBH", 4, proto.KILL, 0, 0) + b"\xff\xff\xff\xff",
    struct.pack("<IBBH", 6, proto.KILL, 0, 0) + b"\x01\x00\x00\x00/\x00",
    struct.pack("<IBBH", 7, proto.KILL, 0, 0) + b"\x01\x00\x00\x00a\x00x",
])
def test_a_bad_frame_closes_the_connection_and_nothing_else(agent, peer, data):
    peer.exec("a", command="sleep .3; echo alive")
    peer.until(lambda: "a" in peer.started)
    peer.sock.sendall(data)
    with pytest.raises(AssertionError, match="hung up"):
        peer.until(lambda: False, 5)
    peer.close()
    p = Peer(agent.path).accept()
    assert p.wait("a")["code"] == 0 and p.read("a") == b"alive\n"
    p.close()


def test_requests_before_the_configuration_are_refused(agent):
    p = Peer(agent.path, configure=False).accept()
    p.exec("a", command="true")
    with pytest.raises(AssertionError, match="hung up"):
        p.until(lambda: False, 5)
    p.close()


def test_survives_a_full_process_table(agent):
    """The user's processes fill what it may have: commands that cannot be started say so, the agent goes on."""
    peer = Peer(agent.path, nproc=60).accept()
    peer.exec("bomb", argv=[STUBBORN, "bomb"])
    time.sleep(.4)
    e, _, err = peer.run("x", command="echo hi; /bin/true", timeout=10)
    assert (e["end"], e["stage"], e["code"]) == ("not_started", "exec", 11) or e["end"] == "exited", e
    peer.kill("bomb")
    assert peer.wait("bomb")["why"] == "killed"
    assert sh(peer, "y", "echo hi")[1] == b"hi\n"
    peer.close()


def test_terminates_on_sigterm(agent, peer):
    peer.exec("a", argv=[STUBBORN, "double-fork"])
    peer.until(lambda: "a" in peer.started)
    os.kill(agent.pid(), 15)
    assert agent.proc.wait(5) == 0


def test_round_trip_time(peer):
    """Not a bench: a guard against a step of several, beside what the machine takes for a bare start at the same moment."""
    times, bare = [], []
    for i in range(200):
        began = time.perf_counter()
        peer.run("r%d" % i, argv=["/bin/true"])
        times.append(time.perf_counter() - began)
        began = time.perf_counter()
        os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)
        bare.append(time.perf_counter() - began)
    agent_ms, bare_ms = sorted(times)[100] * 1000, sorted(bare)[100] * 1000
    print("round trip of true: median %.3f ms; posix_spawn %.3f ms" % (agent_ms, bare_ms))
    assert agent_ms < bare_ms * 4 + 2
