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
EXPORTS = "/home/user/.paddock/env-"


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
    want = dict(BASE_ENV, ONE="2", LANG="de_DE.UTF-8", PADDOCK_ENV=EXPORTS + "run")
    assert {k: v for k, v in env.items() if k not in ("PWD", "SHLVL", "_")} == want


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


def test_what_the_agent_was_given_too_much_goes():
    """As root of a whole user namespace, say."""
    agent = Agent(PROGRAM, bounding="+all")
    peer = Peer(agent.path).accept()
    with open("/proc/%d/status" % agent.pid()) as f:
        mine = dict(v.strip().split(":\t") for v in f if v.startswith("Cap"))
    assert {int(mine[name], 16) for name in ("CapEff", "CapPrm", "CapBnd")} == {1 << 5 | 1 << 6 | 1 << 7 | 1 << 8}
    assert int(mine["CapInh"], 16) == int(mine["CapAmb"], 16) == 0
    out = sh(peer, "a", "grep ^Cap /proc/self/status")[1].decode()
    assert [int(v.split()[1], 16) for v in out.splitlines()] == [0] * 5
    peer.close()
    agent.stop()


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


# ---- scopes ----

def ended(peer, scope, timeout=20):
    peer.until(lambda: scope in peer.scopes_ended, timeout)
    peer.scopes_ended.remove(scope)


def alive(agent, marker):
    """Processes below the agent that have this word among their arguments."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % pid, "rb") as f:
                args = f.read().split(b"\0")
            with open("/proc/%s/status" % pid) as f:
                inside = [v for v in f if v.startswith("NSpid:")][0].split()
        except OSError:
            continue
        if marker.encode() in args and len(inside) > 2:
            found.append(int(pid))
    return found


def marked(marker):
    """A command line for a process that lives long and bears a mark."""
    return "python3 -c 'import time; time.sleep(600)' %s" % marker


def wait_for(what, timeout=10):
    end = time.monotonic() + timeout
    while not what():
        assert time.monotonic() < end
        time.sleep(.02)


def test_scope_without_processes_ends_at_once(peer):
    peer.scope_end("nobody")
    ended(peer, "nobody")
    peer.scope_end("nobody")
    ended(peer, "nobody")


def test_scope_end_takes_all_of_it_and_nothing_else(agent, peer):
    mine, other = "m%d" % os.getpid(), "o%d" % os.getpid()
    double_fork = "import os, sys, time; os.fork() and sys.exit(); os.setsid(); os.fork() and sys.exit(); time.sleep(600)"
    peer.exec("run", command="trap '' TERM HUP INT; %s & wait" % marked(mine), scope="one")
    peer.exec("left", command="setsid %s >&- 2>&- & (python3 -c '%s' %s >&- 2>&- &); nohup %s >&- 2>&- & echo done" % (
        marked(mine), double_fork, mine, marked(mine)), scope="one")
    peer.exec("group", argv=[STUBBORN, "double-fork"], scope="one")
    peer.exec("other", command=marked(other), scope="two")
    peer.exec("other-left", command="setsid %s >&- 2>&- & echo done" % marked(other), scope="two")
    assert peer.wait("left")["why"] == "none" and peer.wait("other-left")["why"] == "none"
    peer.ack("left")
    wait_for(lambda: len(alive(agent, mine)) == 4 and len(alive(agent, other)) == 2)
    peer.scope_end("one")
    ended(peer, "one")
    assert alive(agent, mine) == [] and len(alive(agent, other)) == 2
    assert peer.exited["run"] == dict(peer.exited["run"], end="signaled", why="killed", code=9)
    assert peer.exited["group"]["why"] == "killed"
    assert "other" not in peer.exited
    peer.scope_end("two")
    ended(peer, "two")
    assert alive(agent, other) == [] and peer.exited["other"]["why"] == "killed"


def test_scope_end_of_a_tree_that_forks_on(agent):
    peer = Peer(agent.path, nproc=240).accept()
    peer.exec("a", argv=[STUBBORN, "bomb-chain"], scope="one")
    peer.exec("b", argv=COUNT, scope="two")
    peer.until(lambda: "a" in peer.started and "b" in peer.started)
    time.sleep(.3)
    peer.scope_end("one")
    ended(peer, "one")
    assert peer.exited["a"]["why"] == "killed" and "b" not in peer.exited
    peer.read("b")
    wait_for(lambda: peer.read("b"))
    peer.close()


def test_nothing_starts_in_an_ended_scope(peer):
    peer.exec("before", command="sleep 600", scope="one")
    peer.scope_end("one")
    peer.exec("after", command="touch /home/user/after", scope="one")
    e = peer.wait("after")
    assert (e["end"], e["stage"], e["code"]) == ("not_started", "agent", 125), "ECANCELED"
    ended(peer, "one")
    assert peer.exited["before"]["why"] == "killed"
    e = peer.run("late", command="true", scope="one")[0]
    assert (e["end"], e["stage"], e["code"]) == ("not_started", "agent", 125)
    assert peer.run("other", command="ls -a /home/user", scope="two")[1].split() == [b".", b"..", b".paddock"]


def test_an_ended_scope_is_forgotten_after_4096_others(peer):
    for i in range(4097):
        peer.scope_end("s%d" % i)
        if i % 64 == 63:
            peer.until(lambda: len(peer.scopes_ended) > i - 64)
    peer.until(lambda: len(peer.scopes_ended) == 4097)
    assert peer.run("a", command="true", scope="s1")[0]["end"] == "not_started"
    assert peer.run("b", command="true", scope="s0")[0]["end"] == "exited"


def test_scope_end_is_asked_again_by_the_next_executor(agent):
    peer = Peer(agent.path).accept()
    peer.exec("a", argv=[STUBBORN, "many-daemons"], scope="one")
    peer.until(lambda: "a" in peer.started)
    peer.scope_end("one")
    peer.close()
    peer = Peer(agent.path).accept()
    assert peer.scopes_ended == []
    peer.scope_end("one")
    ended(peer, "one")
    assert peer.wait("a")["why"] == "killed"
    peer.close()


def test_kill_takes_what_an_ended_command_left(agent, peer):
    marker, other = "k%d" % os.getpid(), "l%d" % os.getpid()
    left = "setsid %s >&- 2>&- & echo done"
    assert sh(peer, "a", left % marked(marker), scope="one")[0]["why"] == "none"
    peer.exec("b", command=left % marked(marker), scope="one")
    told = peer.wait("b")
    sh(peer, "c", left % marked(other), scope="one")
    wait_for(lambda: len(alive(agent, marker)) == 2)
    for eid in ("a", "b"):
        peer.kill(eid)
        peer.until(lambda: (eid, True) in peer.not_running)
    wait_for(lambda: alive(agent, marker) == [])
    assert len(alive(agent, other)) == 1
    peer.ack("b")
    assert peer.exited["b"] == told, "its end is what it was"


def children(pid):
    return [int(v) for v in open("/proc/%d/task/%d/children" % (pid, pid)).read().split()]


@pytest.mark.parametrize("running", [True, False])
def test_scope_whose_supervisor_was_killed(agent, peer, running):
    """As the kernel does when memory is out: what it left is nobody's, and ends all the same."""
    marker = "s%d" % os.getpid()
    peer.exec("a", command="setsid %s >&- 2>&- & %s" % (marked(marker), "wait" if running else "echo done"), scope="one")
    peer.until(lambda: "a" in peer.started) if running else peer.wait("a")
    wait_for(lambda: len(alive(agent, marker)) == 1)
    supervisor, = children(agent.pid())
    os.kill(supervisor, 9)
    wait_for(lambda: supervisor not in children(agent.pid()))
    peer.scope_end("one")
    ended(peer, "one")
    assert alive(agent, marker) == [] and children(agent.pid()) == []


def test_scope_end_waits_for_those_without_a_supervisor(agent, peer):
    """They are large, so that they do not die in an instant."""
    marker = "w%d" % os.getpid()
    big = "python3 -c 'import time; x = b\"x\" * (200 << 20); print(len(x), flush=True); time.sleep(600)' %s" % marker
    peer.exec("a", command="setsid %s & wait" % big, scope="one")
    peer.until(lambda: "a" in peer.started)
    wait_for(lambda: peer.read("a"))
    process, = alive(agent, marker)
    supervisor, = children(agent.pid())
    os.kill(supervisor, 9)
    peer.scope_end("one")
    ended(peer, "one")
    assert not os.path.exists("/proc/%d" % process)


# ---- exports ----

def show(peer, eid, scope="run", **how):
    e, out, err = peer.run(eid, argv=["env", "-0"], scope=scope, **how)
    assert e["end"] == "exited" and e["code"] == 0, (e, err)
    return dict(v.split("=", 1) for v in out.decode().split("\0") if v)


def test_exports_reach_later_commands_of_the_scope(peer):
    sh(peer, "a", "echo A=1 >> $PADDOCK_ENV; echo 'B=two words = x' >> $PADDOCK_ENV")
    sh(peer, "b", "echo A=2 >> $PADDOCK_ENV; printf C=3 >> $PADDOCK_ENV")
    want = dict(BASE_ENV, PADDOCK_ENV=EXPORTS + "run", A="2", B="two words = x", C="3")
    assert show(peer, "c") == want
    assert show(peer, "d", scope="other") == dict(BASE_ENV, PADDOCK_ENV=EXPORTS + "other")
    assert sh(peer, "e", "stat -c %a:%U:%G $PADDOCK_ENV ~/.paddock; stat -c %u $PADDOCK_ENV")[1].split()[-1] == b"1000"
    assert sh(peer, "f", "stat -c %a $PADDOCK_ENV ~/.paddock")[1].split() == [b"600", b"700"]


def test_order_of_environments(peer):
    sh(peer, "a", "printf 'LANG=exported\\nA=exported\\nPATH=/usr/bin:/bin:/exported\\n' >> $PADDOCK_ENV")
    env = show(peer, "b", env=["A=asked", "PADDOCK_ENV=/etc/passwd", "PADDOCK_PROJECT_DIR=/x"])
    assert env == dict(BASE_ENV, LANG="exported", A="asked", PATH="/usr/bin:/bin:/exported", PADDOCK_PROJECT_DIR="/x",
                       PADDOCK_ENV=EXPORTS + "run")
    sh(peer, "c", "mkdir ~/bin; printf '#!/bin/sh\\necho mine' > ~/bin/tool; chmod +x ~/bin/tool; echo PATH=$HOME/bin:$PATH >> $PADDOCK_ENV")
    assert peer.run("d", argv=["tool"])[1] == b"mine\n", "a program is searched along the exported PATH"


def test_names_that_are_not_taken(peer):
    bad = ["USER=x", "HOME=/", "LD_PRELOAD=/x.so", "LD_LIBRARY_PATH=/x", "PADDOCK_ENV=/x", "PADDOCK_X=1", "1A=1", "A-B=1", " A=1", "A", "=x",
           "N" * 129 + "=1", "export E=1", ""]
    script = "import os\nf = open(os.environ['PADDOCK_ENV'], 'ab')\nf.write(%r)" % ("\n".join(bad + ["OK=1", "B=x\0y", "N" * 128 + "=1"]) + "\n").encode()
    assert peer.run("b", argv=["python3", "-c", script])[0]["code"] == 0
    assert show(peer, "c") == dict(BASE_ENV, PADDOCK_ENV=EXPORTS + "run", OK="1", **{"N" * 128: "1"})


def test_clean_commands_see_nothing(peer):
    sh(peer, "a", "echo A=1 >> $PADDOCK_ENV; echo PATH=/nowhere >> $PADDOCK_ENV")
    assert show(peer, "b", clean=True) == BASE_ENV
    assert show(peer, "c", clean=True, scope="fresh") == BASE_ENV
    assert b"fresh" not in peer.run("d", argv=["/bin/ls", "/home/user/.paddock"], clean=True)[1], "it does not even make the file"


def test_a_clean_command_has_no_environment_of_its_own(agent, peer):
    peer.exec("a", argv=["true"], env=["A=1"], clean=True)
    with pytest.raises(AssertionError, match="hung up"):
        peer.wait("a")


ATTACKS = {
    "link to the agent's environment": "ln -s /proc/1/environ $PADDOCK_ENV",
    "link to a file of the user": "echo STOLEN=1 > ~/other; ln -s ~/other $PADDOCK_ENV",
    "link to nothing": "ln -s ~/made-by-the-agent $PADDOCK_ENV",
    "pipe": "mkfifo $PADDOCK_ENV",
    "pipe with a writer": "mkfifo $PADDOCK_ENV; (while :; do echo STOLEN=1; done) > $PADDOCK_ENV 2>&- &",
    "pipe with bytes in it": "mkfifo $PADDOCK_ENV; (exec 3<>$PADDOCK_ENV 4<$PADDOCK_ENV; echo STOLEN=1 >&3; exec 3>&- >&- 2>&-; sleep 600) & sleep .2",
    "directory": "mkdir $PADDOCK_ENV",
    "socket": "python3 -c 'import socket, os; socket.socket(socket.AF_UNIX).bind(os.environ[\"PADDOCK_ENV\"])'",
    "unreadable": "echo STOLEN=1 > $PADDOCK_ENV; chmod 0 $PADDOCK_ENV",
    "2 MiB": "(echo STOLEN=1; head -c 2097152 /dev/zero | tr '\\0' '\\n') > $PADDOCK_ENV",
    "sparse": "echo STOLEN=1 > $PADDOCK_ENV; truncate -s 1T $PADDOCK_ENV",
    "directory that is a link": "mkdir -p ~/d; echo STOLEN=1 > ~/d/env-run; rm -rf ~/.paddock; ln -s ~/d ~/.paddock",
    "directory that is a file": "rm -rf ~/.paddock; touch ~/.paddock",
    "directory of nobody": "chmod 0 ~/.paddock",
    "no home to write in": "rm -rf ~/.paddock; chmod 555 ~",
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_is_not_a_file_of_the_user_is_not_read(agent, peer, attack):
    e, _, err = sh(peer, "a", "rm -f $PADDOCK_ENV; " + ATTACKS[attack])
    assert e["end"] == "exited", (e, err)
    began = time.monotonic()
    assert show(peer, "b") == dict(BASE_ENV, PADDOCK_ENV=EXPORTS + "run")
    assert time.monotonic() - began < 10, "nothing waits for it"
    assert b"made-by-the-agent" not in sh(peer, "c", "ls ~")[1]
    peer.scope_end("run")
    ended(peer, "run")
    assert show(peer, "d", scope="next")["PADDOCK_ENV"] == EXPORTS + "next"


def test_a_lease_on_the_file_stops_nobody(peer):
    script = ("import fcntl, os, signal, time\nsignal.signal(signal.SIGIO, signal.SIG_IGN)\nf = open(os.environ['PADDOCK_ENV'], 'r+b')\n"
              "fcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_WRLCK)\nprint('held', flush=True)\ntime.sleep(600)")
    peer.exec("a", argv=["python3", "-c", script])
    peer.until(lambda: "a" in peer.started)
    wait_for(lambda: peer.read("a"))
    began = time.monotonic()
    show(peer, "b")
    assert time.monotonic() - began < 10


def test_a_file_that_changes_all_the_time(peer):
    script = ("import os\np = os.environ['PADDOCK_ENV']\nprint('x', flush=True)\nwhile True:\n for n in (1, 70000, 0, 1500000):\n"
              "  f = open(p, 'w'); f.write('A=1\\n' * n); f.close()")
    peer.exec("a", argv=["python3", "-c", script])
    peer.until(lambda: "a" in peer.started)
    wait_for(lambda: peer.read("a"))
    for i in range(100):
        env = show(peer, "b%d" % i)
        assert set(env) - {"A"} == set(BASE_ENV) | {"PADDOCK_ENV"} and env.get("A", "1") in ("1", ""), env


def test_memory_of_exports_is_given_back(agent, peer):
    def resident():
        with open("/proc/%d/statm" % agent.pid()) as f:
            return int(f.read().split()[1]) * 4096

    script = "import os\nf = open(os.environ['PADDOCK_ENV'], 'w')\nf.write(''.join('V%d=' % i + 'v' * 1000 + '\\n' for i in range(900)))"
    peer.run("a", argv=["python3", "-c", script])
    for i in range(8):
        assert sh(peer, "w%d" % i, "echo ${#V899}")[1] == b"1000\n"
    before = resident()
    for i in range(64):
        peer.exec("e%d" % i, argv=["sleep", "600"])
    peer.until(lambda: "e63" in peer.started)
    assert resident() - before < 4 << 20


def test_exports_end_with_their_scope(peer):
    sh(peer, "a", "echo A=1 >> $PADDOCK_ENV", scope="one")
    sh(peer, "b", "echo A=2 >> $PADDOCK_ENV", scope="two")
    peer.scope_end("one")
    ended(peer, "one")
    assert sh(peer, "c", "ls ~/.paddock", scope="two")[1] == b"env-two\n"
    assert show(peer, "d", scope="two")["A"] == "2"


def test_the_process_that_removes_exports_is_out_of_reach(peer):
    """Whatever the user signals, the scope's end comes."""
    peer.exec("a", argv=["python3", "-c", "import os\nwhile True:\n try: os.kill(-1, 19)\n except OSError: pass"], scope="two")
    peer.until(lambda: "a" in peer.started)
    time.sleep(.1)
    for i in range(200):
        peer.scope_end("s%d" % i)
        ended(peer, "s%d" % i)


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
