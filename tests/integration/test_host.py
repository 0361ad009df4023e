"""The provider host with real namespaces, real bubblewrap where it is installed, and the real agent: what a sandbox is, what it cannot reach, what outlives
whom, and that nothing of it stays."""

import ctypes
import fcntl
import http.client
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import uuid

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "lib"))

import host_lab  # noqa: E402
from host_lab import wait_for  # noqa: E402

BUILD = os.environ.get("PADDOCK_BUILD", os.getcwd())
TOP = os.path.dirname(os.path.dirname(HERE))
pytestmark = pytest.mark.skipif(host_lab.why_not(BUILD) is not None, reason=str(host_lab.why_not(BUILD)))
needs_bwrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap")

SECRETS = {"DATABASE_URL": "postgresql://u:planted-database@db/x", "PADDOCK_DATABASE_CONNINFO": "host=/planted-conninfo", "JWT_SECRET": "planted-jwt",
           "COOKIE_KEY": "planted-cookie", "SESSION_SECRET": "planted-session", "E2B_API_KEY": "planted-provider", "DAYTONA_API_KEY": "planted-daytona",
           "OAUTH_CLIENT_SECRET": "planted-oauth", "AWS_SECRET_ACCESS_KEY": "planted-s3", "S3_SECRET_KEY": "planted-s3-too", "PGPASSWORD": "planted-pg",
           "PGHOST": "planted-pghost", "PGUSER": "planted-pguser", "LD_PRELOAD_HINT": "planted-other"}
BASE_NAMES = {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "PWD", "SHLVL", "_", "PADDOCK_ENV"}


def new():
    return str(uuid.uuid4())


def alive(pid):
    """A zombie whose parent does not reap is as dead as can be."""
    try:
        with open("/proc/%d/stat" % pid, encoding="utf-8") as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def marked(mark):
    return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if alive(pid) and mark in cmdline(pid)]


def cmdline(pid):
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as f:
            return f.read().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""


@pytest.fixture(scope="module")
def lab():
    x = host_lab.Lab(BUILD, env=SECRETS).start()
    yield x
    x.close()


@pytest.fixture(scope="module")
def box(lab):
    iid = new()
    lab.out(iid, "true")
    return iid


@pytest.fixture
def own():
    made = []

    def make(**options):
        made.append(host_lab.Lab(BUILD, **options).start())
        return made[-1]
    yield make
    for x in made:
        x.close()


# --- what a sandbox is ---

def test_identity(lab, box):
    assert lab.out(box, "id -u; id -g; id -G").split() == ["1000", "1000", "1000"]
    fields = dict(line.split(":", 1) for line in lab.out(box, "cat /proc/self/status").splitlines())
    assert {int(fields[name], 16) for name in ("CapEff", "CapPrm", "CapInh", "CapAmb", "CapBnd")} == {0}
    assert fields["NoNewPrivs"].strip() == "1"
    assert lab.out(box, "hostname") == "sandbox\n"


def test_home_and_workspace(lab, box):
    lab.out(box, "echo w > /home/user/workspace/f; echo h > /home/user/h; cd; pwd; touch x", cwd="/home/user")
    for path in ("ws/w/files/f", "sandboxes/%s/home/h" % box):
        st = os.stat(lab.root + "/" + path)
        assert (st.st_uid, st.st_gid, st.st_mode & 0o777) == (lab.account.pw_uid, lab.account.pw_gid, 0o644)
    assert lab.out(box, "stat -c %U:%G:%a /home/user /home/user/workspace").split() == ["user:user:755"] * 2
    assert lab.run(box, "rmdir /home/user/workspace; mv /home/user/workspace /home/user/other")["exit_code"] != 0


def test_other_namespaces_cannot_be_made(lab, box):
    for command in ("unshare -U true", "unshare -Ur true", "unshare -n true", "unshare -m true"):
        assert lab.run(box, command)["exit_code"] != 0, command
    assert lab.out(box, "cat /proc/sys/user/max_user_namespaces") == "0\n"


def test_processes_are_its_own(lab, box):
    names = lab.out(box, "ps -e -o comm= | sort -u").split()
    assert set(names) <= {"agent", "paddock-agent", "bash", "ps", "sort"}
    assert lab.run(box, "kill -9 1")["exit_code"] != 0 and lab.run(box, "kill -9 2")["exit_code"] != 0   # the agent and a supervisor are root's
    lab.run(box, "kill -9 -1")
    assert lab.out(box, "echo on") == "on\n"


@needs_bwrap
def test_the_host_is_not_there(lab, box):
    script = r"""
for p in /etc/paddock /run/paddock /var/lib/paddock %s /root /home/user/.ssh /etc/shadow /etc/sudoers /boot /sys /mnt /srv /opt; do [ -e $p ] && echo "there is $p"; done
for p in /paddock /paddock/run /paddock/run/s /paddock/agent /proc/1/environ /proc/1/mem /proc/1/fd /proc/1/root/ /proc/2/environ; do
    ls $p >/dev/null 2>&1 && head -c1 $p >/dev/null 2>&1 && echo "reached $p"
done
for p in /x /etc/x /usr/bin/x /run/x /dev/x /home/x; do (echo x > $p) 2>/dev/null && echo "wrote $p"; done
ls -A /home
true""" % lab.root
    assert lab.out(box, script) == "user\n"
    assert lab.out(box, "for d in /tmp /var/tmp /dev/shm; do echo x > $d/x && cat $d/x; done") == "x\n" * 3
    assert lab.run(box, "head -c 20000000 /dev/zero > /tmp/big")["exit_code"] != 0   # tmp_bytes


def test_no_secret_of_the_service_reaches_a_child(lab, box):
    """R1.8: one of each kind is in the environment of executor and launcher."""
    for p in (lab.process, lab.launcher):
        with open("/proc/%d/environ" % p.pid, "rb") as f:
            assert b"planted-jwt" in f.read()
    names = set(lab.out(box, "env | cut -d= -f1").split())
    assert names <= BASE_NAMES
    assert "planted" not in lab.out(box, "cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n'; true").replace("planted-in-script", "")
    # seen from outside, too: of everything that belongs to the sandbox
    run = lab.run_record(box)
    cid, _ = lab.put(box, "sleep 300")
    wait_for("the command runs", lambda: lab.call("GET", "/v1/commands/" + cid).json["status"] == "running")
    looked = 0
    for pid in lab.processes():
        if pid == run["keeper"]:
            continue   # our own program outside the sandbox: it is what hands nothing on
        try:
            with open("/proc/%d/environ" % pid, "rb") as f:
                text = f.read() + cmdline(pid).encode()
        except (FileNotFoundError, ProcessLookupError):
            continue   # of an earlier command, and over by now
        assert b"planted" not in text, (pid, text)
        looked += 1
    assert looked >= 3   # the agent, a supervisor, the command
    lab.call("POST", "/v1/commands/%s/kill" % cid)


def test_the_token_is_on_no_command_line(lab, box):
    for pid in lab.processes():
        line = cmdline(pid)
        assert "TOKEN" not in line and not any(len(word) == 64 for word in line.split()), line
    with open("%s/sandboxes/%s/run" % (lab.root, box), encoding="utf-8") as f:
        token_hash = f.read().split()[7]
    assert len(token_hash) == 64
    assert token_hash not in lab.out(box, "cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'; true")


def test_memory_and_processes_are_limited(lab, box):
    if lab.instance(box)["limits"] != "enforced":
        pytest.skip("no control group here that the account may write")
    j = lab.run(box, "python3 -c 'x = bytearray(400 << 20)'; echo $?")
    assert j["stdout"].strip() != "0"
    assert lab.run(box, "i=0; while [ $i -lt 400 ]; do sleep 5 & i=$((i+1)); done 2>&1 | grep -c -i 'resource\\|retry' ; true", timeout_ms=20000)["status"] == "exited"
    assert lab.out(box, "echo on") == "on\n"


def test_two_users_do_not_see_each_other(lab, box):
    other, mark = new(), "7%s" % os.getpid()
    lab.out(box, "echo mine > /home/user/secret-file; echo mine > /tmp/secret-file; echo mine > /home/user/workspace/secret-file")
    cid, _ = lab.put(box, "sleep %s000" % mark)
    wait_for("the command runs", lambda: lab.call("GET", "/v1/commands/" + cid).json["status"] == "running")
    found = lab.out(other, "find / -name secret-file 2>/dev/null; grep -l 'sl[e]ep.%s000' /proc/*/cmdline; ipcs -m | grep 0x; true" % mark, workspace="v")
    assert found == ""
    assert lab.run(other, "pkill -9 sleep", workspace="v")["exit_code"] == 1
    assert lab.call("GET", "/v1/commands/" + cid).json["status"] == "running"
    lab.call("POST", "/v1/commands/%s/kill" % cid)
    lab.destroy(other)


def test_kill_takes_the_tree(lab, box):
    mark = "61%d" % os.getpid()
    cid, _ = lab.put(box, "trap '' TERM; setsid sleep %s & (setsid sleep %s &) ; sleep %s" % (mark, mark, mark))
    wait_for("it runs", lambda: len(marked("sleep " + mark)) >= 3)
    assert lab.call("POST", "/v1/commands/%s/kill" % cid).status == 202
    assert lab.call("GET", "/v1/commands/%s/result" % cid).json["reason"] == "cancelled"
    assert marked("sleep " + mark) == []


def test_health_names_what_is_there(lab):
    j = wait_for("the trial is done", lambda: next((h for h in [lab.call("GET", "/v1/health").json] if len(h["components"]) > 6), None))
    facts = {c["name"]: c for c in j["components"]}
    for name in ("launcher", "subordinate_ids", "user_namespaces", "sandboxes", "agent", "network"):
        assert facts[name]["ok"], facts[name]
    assert facts["bubblewrap"]["ok"] == (shutil.which("bwrap") is not None)
    assert all(c["ok"] or c["hint"] for c in j["components"])


@pytest.mark.parametrize("name,path,hint", [("agent", "/bin/paddock-agent", "agent is not there"), ("sandboxes", "/sandboxes", "run contrib/up"),
                                            ("network", "/bin/paddock-netguard", "packages slirp4netns and nftables")])
def test_what_is_missing_is_named_until_it_is_there(own, name, path, hint):
    """R1.9: what, how to get it, and well again by itself."""
    if name == "network" and (shutil.which("slirp4netns") is None or shutil.which("nft") is None):
        pytest.skip("needs slirp4netns and nftables")
    x = own(network="internet") if name == "network" else own()

    def fact(ok):
        return lambda: next((c for c in x.call("GET", "/v1/health").json["components"] if c["name"] == name and c["ok"] == ok), None)
    wait_for("it is there", fact(True), 10)
    os.rename(x.root + path, x.root + path + ".away")
    if name == "network":
        x.kill()
        x.start()   # what is well is not tried out again for half a minute
    assert hint in wait_for("that is told", fact(False), 10)["hint"]
    assert x.call("GET", "/v1/health").json["status"] == "degraded"
    os.rename(x.root + path + ".away", x.root + path)
    wait_for("and that it is there again", fact(True), 10)


def test_the_start_is_loud(lab):
    lines = [line for line in lab.said().splitlines() if "event=host_provider" in line]
    assert lines and all("lvl=warn" in line for line in lines)
    assert any("processes of the server itself" in line for line in lines)


@pytest.mark.parametrize("word", ["no", "Yes", ""])
@pytest.mark.parametrize("program", ["paddock-executor", "paddock-launcher"])
def test_refused_without_the_words(own, program, word):
    x = own()
    x.write(i_understand=word)
    done = subprocess.run([x.root + "/bin/" + program, "--config", x.root + "/paddock.ini"], capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 2 and "i_understand = yes" in done.stderr and "processes of this machine" in done.stderr
    x.write()


# --- network ---

def test_no_network(lab, box):
    assert lab.out(box, "cat /proc/net/dev | tail -n +3 | cut -d: -f1").split() == ["lo"]
    assert lab.run(box, "exec 3<>/dev/tcp/1.1.1.1/80")["exit_code"] != 0


def test_internet_keeps_the_host_out(own):
    """The same promises as for containers: out, but not to this machine, private ranges, metadata."""
    if shutil.which("slirp4netns") is None or shutil.which("nft") is None:
        pytest.skip("needs slirp4netns and nftables")
    x, iid = own(network="internet"), new()
    listener = subprocess.Popen([sys.executable, "-c", "import socket,time\ns=socket.socket()\ns.bind(('0.0.0.0',0))\ns.listen()\nprint(s.getsockname()[1],flush=True)\n"
                                 "time.sleep(600)"], stdout=subprocess.PIPE, text=True)
    try:
        port = listener.stdout.readline().strip()
        ours = subprocess.run(["hostname", "-I"], capture_output=True, text=True, check=False).stdout.split()
        script = "for a in %s; do timeout 5 bash -c \"exec 3<>/dev/tcp/$a/%s\" 2>/dev/null && echo reached $a; done; true" % (
            " ".join(["127.0.0.1", "10.0.2.2", "10.0.2.3"] + [a for a in ours if ":" not in a]), port)
        assert x.out(iid, script) == ""
        assert x.run(iid, "timeout 5 bash -c 'exec 3<>/dev/tcp/169.254.169.254/80'")["exit_code"] != 0
        assert "10.0.2.100" in x.out(iid, "cat /proc/net/fib_trie")
        assert x.out(iid, "cat /etc/resolv.conf") == "nameserver 10.0.2.3\n"
        slirp = [pid for pid in x.processes() if "slirp4netns" in cmdline(pid)]
        assert len(slirp) == 1
        x.kill()
        x.start()
        assert alive(slirp[0])   # it is the sandbox's, not the executor's
        assert x.out(iid, "echo on") == "on\n"
        x.destroy(iid)
        wait_for("the network ends with the sandbox", lambda: not alive(slirp[0]), 5)
    finally:
        listener.kill()
        listener.wait()


def answer_names(pid, ready):
    """Knows one name, at 127.0.0.53 of the network of that process, until that is told to be enough."""
    with open("/proc/%d/ns/net" % pid, "rb") as net:
        assert ctypes.CDLL(None, use_errno=True).setns(net.fileno(), 0) == 0   # this thread alone
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        fcntl.ioctl(s, 0x8914, struct.pack("16sh14x", b"lo", 1))   # SIOCSIFFLAGS: up
        s.bind(("127.0.0.53", 53))
        ready.set()
        while True:
            query, peer = s.recvfrom(512)
            if query == b"enough":
                return
            asked, known = query[12:query.index(b"\0", 12) + 5], query[12:].startswith(b"\5known\4test\0\0\1")
            answer = b"\xc0\x0c\0\1\0\1\0\0\0\5\0\4" + socket.inet_aton("192.0.2.7") if known else b""
            s.sendto(query[:2] + b"\x81\x80\0\1\0" + bytes([known]) + b"\0\0\0\0" + asked + answer, peer)


@needs_bwrap
@pytest.mark.parametrize("form", ["file", "link", "absent"])
def test_a_shared_network_resolves_names_as_the_host_does(form):
    """The launcher is in a network, an /etc and a /run of the test's: names come from there, and nothing else of it is in the sandbox."""
    x, iid = host_lab.Lab(BUILD, network="shared"), new()
    text = "# planted\nnameserver 127.0.0.53\noptions timeout:2 attempts:2\n"
    try:
        os.mkdir(x.root + "/etc")
        for name in ("alternatives", "ld.so.cache", "nsswitch.conf", "passwd", "group", "subuid", "subgid", "ssl"):
            if os.path.exists("/etc/" + name):
                subprocess.run(["cp", "-a", "/etc/" + name, x.root + "/etc/"], check=True)
        if form == "link":
            os.symlink("../run/systemd/resolve/stub-resolv.conf", x.root + "/etc/resolv.conf")
        with open(x.root + ("/etc/resolv.conf" if form == "file" else "/stub"), "w", encoding="utf-8") as f:
            f.write(text)
        x.around = ("unshare", "--mount", "--net", "sh", "-ec", 'mount --bind "$0/etc" /etc; mount -t tmpfs -o mode=755 tmpfs /run; mkdir -p /run/systemd/resolve; '
                    'touch /run/other; ! [ -e "$0/stub" ] || cp "$0/stub" /run/systemd/resolve/stub-resolv.conf; exec "$@"', x.root)
        x.start()
        assert x.out(iid, "cat /etc/resolv.conf") == ("" if form == "absent" else text)
        assert x.out(iid, "stat -c '%F %a' /etc/resolv.conf; ls -A /run").splitlines() == ["regular empty file 444" if form == "absent" else "regular file 444"]
        assert x.run(iid, "echo x >> /etc/resolv.conf")["exit_code"] != 0 and x.run(iid, "rm -f /etc/resolv.conf")["exit_code"] != 0
        if form != "absent":
            ready = threading.Event()
            threading.Thread(target=answer_names, args=(x.launcher.pid, ready), daemon=True).start()
            assert ready.wait(10)
            assert x.out(iid, "getent hosts known.test; echo -n enough > /dev/udp/127.0.0.53/53").split()[0] == "192.0.2.7"
    finally:
        x.close()


# --- who outlives whom ---

def test_the_executor_dies_and_the_command_goes_on(own):
    x, iid = own(), new()
    cid, _ = x.put(iid, "for i in $(seq 1 40); do echo line $i; sleep 0.05; done; exit 5")
    wait_for("output comes", lambda: x.call("GET", "/v1/commands/" + cid).json["stdout_bytes"] > 0)
    before = x.run_record(iid)
    x.kill()
    time.sleep(0.7)
    x.start()
    j = x.call("GET", "/v1/commands/%s/result" % cid).json
    assert j["stdout"] == "".join("line %d\n" % i for i in range(1, 41)) and j["exit_code"] == 5
    assert x.run_record(iid) == before and x.instance(iid)["state"] == "ready"


def test_a_stop_ends_nothing(own):
    """R3.5: executor and launcher are stopped as they are at each stop of the service."""
    x, iid = own(), new()
    x.out(iid, "echo h > /home/user/h")
    cid, _ = x.put(iid, "for i in $(seq 1 30); do echo line $i; sleep 0.1; done; cat /home/user/h")
    wait_for("output comes", lambda: x.call("GET", "/v1/commands/" + cid).json["stdout_bytes"] > 0)
    before = x.run_record(iid)
    for process in (x.process, x.launcher):
        process.terminate()
        assert process.wait(20) == 0
    assert alive(before["agent"]) and alive(before["keeper"])
    x.start_launcher()
    x.start()
    assert x.call("GET", "/v1/commands/%s/result" % cid).json["stdout"] == "".join("line %d\n" % i for i in range(1, 31)) + "h\n"
    assert x.run_record(iid) == before and x.instance(iid)["state"] == "ready"


def test_the_launcher_dies_and_nothing_else(own):
    x, iid = own(), new()
    cid, _ = x.put(iid, "sleep 1; echo done")
    wait_for("it runs", lambda: x.call("GET", "/v1/commands/" + cid).json["status"] == "running")
    x.launcher.kill()
    x.launcher.wait()
    assert x.call("GET", "/v1/commands/%s/result" % cid).json["stdout"] == "done\n"
    degraded = wait_for("health tells", lambda: next((c for c in x.call("GET", "/v1/health").json["components"] if c["name"] == "launcher" and not c["ok"]), None), 2)
    assert "paddock-launcher" in degraded["hint"] and degraded["away"] is True
    late, _ = x.put(new(), "echo late", workspace="late")
    x.start_launcher()
    assert x.call("GET", "/v1/commands/%s/result" % late).json["stdout"] == "late\n"   # it waited for the launcher
    wait_for("health recovers", lambda: x.call("GET", "/v1/health").json["status"] == "ok" or
             all(c["ok"] or c["name"] in ("limits", "bubblewrap", "network") for c in x.call("GET", "/v1/health").json["components"]))


def test_destroy_leaves_nothing(own):
    x, iid = own(), new()
    deep = "import os\nfor i in range(3000):\n    os.mkdir('d')\n    os.chdir('d')\n"
    x.out(iid, "cd /home/user; mkdir -p a/b/c; touch a/b/c/f; ln -s /etc/passwd link; ln -s / a/root; mkfifo p; chmod 0 a/b; touch no; chmod 0 no\n"
               "(cd a && python3 - <<'E'\n%sE\n)\nmkdir sealed; mkdir sealed/in; touch sealed/in/f; chmod 0 sealed/in sealed" % deep, timeout_ms=60000)
    x.out(iid, "sleep 1000 & setsid sleep 1000 & echo keep > /home/user/workspace/kept")
    canary = x.root + "/ws/w/files/kept"
    x.destroy(iid)
    assert x.dirs() == [] and os.listdir(x.root + "/agents") == [] and x.account.groups() == []
    quiet(x)
    with open(canary, encoding="utf-8") as f:
        assert f.read() == "keep\n"   # the Workspace is not the sandbox's
    assert os.path.exists("/etc/passwd")


def test_the_directory_vanishes(own):
    x, iid = own(), new()
    x.out(iid, "true")
    agent = x.run_record(iid)["agent"]
    x.kill()
    os.kill(agent, signal.SIGKILL)
    wait_for("it ends", lambda: not alive(agent))
    shutil.rmtree(x.root + "/sandboxes/" + iid)
    x.start()
    wait_for("that is told", lambda: x.instance(iid)["state"] in ("lost", "exited", "failed"))
    assert x.dirs() == []   # never made anew under that id
    x.destroy(iid)


# --- what cannot be started ---

def no_workspaces_parent(x, iid):
    os.chmod(x.root + "/ws", 0)


def a_file_for_a_workspace(x, iid):
    with open(x.root + "/ws/w", "w", encoding="utf-8"):
        pass


def a_link_for_the_files(x, iid):
    os.mkdir(x.root + "/ws/w")
    os.chown(x.root + "/ws/w", x.account.pw_uid, x.account.pw_gid)
    os.symlink("/etc", x.root + "/ws/w/files")


def no_agents_directory(x, iid):
    os.rmdir(x.root + "/agents")


def no_agent(x, iid):
    os.unlink(x.root + "/bin/paddock-agent")


def no_sandboxes_directory(x, iid):
    os.rmdir(x.root + "/sandboxes")


def no_launcher(x, iid):
    x.launcher.kill()
    x.launcher.wait()
    os.unlink(x.root + "/engine/launcher.sock")


@pytest.mark.parametrize("plainly", [{}, {"bwrap": "/nonexistent"}], ids=["bwrap", "plainly"])
@pytest.mark.parametrize("spoil", [no_workspaces_parent, a_file_for_a_workspace, a_link_for_the_files, no_agents_directory, no_agent, no_sandboxes_directory, no_launcher])
def test_a_failed_start_names_no_path_of_the_host(spoil, plainly):
    """R4.1: the log has the whole; no answer and no record does."""
    x, iid = host_lab.Lab(BUILD, create_timeout_ms=1500, **plainly).start(), new()
    try:
        spoil(x, iid)
        cid, put = x.put(iid, "true")
        answers = [put] + ([x.call("GET", "/v1/commands/%s/result" % cid)] if put.status < 300 else [])
        answers += [x.call("GET", "/v1/commands/" + cid), x.call("GET", "/v1/instances/" + iid), x.call("GET", "/v1/instances")]
        assert any(b'"error":{' in a.body or a.status >= 400 for a in answers), [a.body for a in answers]
        for a in answers:
            assert x.root.encode() not in a.body and b"/var/" not in a.body and b"oldroot" not in a.body, a.body
        assert x.instance(iid).get("state") in ("failed", None), x.instance(iid)
    finally:
        x.kill()
        x.end()


# --- pause and wake ---

def state(x, iid, *wanted):
    return wait_for("it is " + " or ".join(wanted), lambda: x.instance(iid)["state"] in wanted and x.instance(iid)["state"])


def test_pause_keeps_the_files_and_ends_the_processes(own):
    x, iid = own(), new()
    mark = "63%d" % os.getpid()
    x.out(iid, "echo h > /home/user/h; echo w > /home/user/workspace/w; echo t > /tmp/t; setsid sleep %s & true" % mark)
    before = x.run_record(iid)
    assert len(marked("sleep " + mark)) == 1
    assert x.call("POST", "/v1/instances/%s/pause?wait_ms=10000" % iid, {}).json["state"] == "paused"
    assert marked("sleep " + mark) == [] and x.account.groups() == [] and x.dirs() == [iid]
    quiet(x)
    listed = x.call("GET", "/v1/provider/instances").json
    assert listed == {"items": [{"ref": iid, "id": iid, "state": "paused"}], "complete": True}
    assert x.call("POST", "/v1/instances/%s/wake?wait_ms=10000" % iid, {}).json["state"] == "ready"
    assert x.out(iid, "cat /home/user/h /home/user/workspace/w; ls /tmp") == "h\nw\n"
    assert x.run_record(iid)["agent"] != before["agent"]
    assert x.call("GET", "/v1/provider/instances").json["items"][0]["state"] == "running"
    # a command wakes it, too
    x.call("POST", "/v1/instances/%s/pause?wait_ms=10000" % iid, {})
    assert x.out(iid, "cat /home/user/h") == "h\n"


def test_a_home_that_its_user_closed_is_woken(own):
    x, iid = own(), new()
    x.out(iid, "chmod 0 /home/user", cwd="/")
    assert x.call("POST", "/v1/instances/%s/pause?wait_ms=10000" % iid, {}).json["state"] == "paused"
    assert x.out(iid, "chmod 755 /home/user && cd /home/user/workspace && echo open", cwd="/") == "open\n"


def test_a_busy_one_is_not_paused(own):
    x, iid = own(), new()
    cid, _ = x.put(iid, "sleep 30")
    wait_for("it runs", lambda: x.call("GET", "/v1/commands/" + cid).json["status"] == "running")
    a = x.call("POST", "/v1/instances/%s/pause?wait_ms=5000" % iid, {})
    assert (a.status, a.json["code"]) == (409, "instance_busy")
    x.call("POST", "/v1/commands/%s/kill" % cid)
    x.call("GET", "/v1/commands/%s/result" % cid)
    wait_for("it is paused then", lambda: x.call("POST", "/v1/instances/%s/pause?wait_ms=5000" % iid, {}).json.get("state") == "paused")


def test_the_executor_dies_and_finds_it_paused(own):
    x, iid = own(), new()
    x.out(iid, "echo h > /home/user/h")
    x.call("POST", "/v1/instances/%s/pause?wait_ms=10000" % iid, {})
    x.kill()
    x.start()
    assert state(x, iid, "paused")
    quiet(x)
    assert x.out(iid, "cat /home/user/h") == "h\n"


@needs_bwrap
@pytest.mark.parametrize("who", ["agent", "keeper"])
def test_killed_from_outside_it_is_paused(own, who):
    x, iid = own(), new()
    x.out(iid, "echo h > /home/user/h")
    cid, _ = x.put(iid, "sleep 300")
    wait_for("it runs", lambda: x.call("GET", "/v1/commands/" + cid).json["status"] == "running")
    os.kill(x.run_record(iid)[who], signal.SIGKILL)
    j = x.call("GET", "/v1/commands/%s/result" % cid).json
    assert j["status"] == "lost" or j.get("reason") == "lost", j
    assert state(x, iid, "paused")
    quiet(x)
    assert x.out(iid, "cat /home/user/h") == "h\n" and len(agents(x)) == 1


def test_killed_while_nobody_looks(own):
    """The executor is away; the pid of what it knew may be another's by then."""
    x, iid = own(), new()
    x.out(iid, "echo h > /home/user/h")
    x.kill()
    agent = x.run_record(iid)["agent"]
    os.kill(agent, signal.SIGKILL)
    wait_for("it ends", lambda: not x.processes())
    other = subprocess.Popen(["sleep", "60"])
    try:
        with open("%s/sandboxes/%s/run" % (x.root, iid), "w", encoding="utf-8") as f:   # as if the record had stayed and its pids were taken
            f.write("keeper %d 1\nagent %d 1\ntoken %s\n" % (other.pid, other.pid, "0" * 64))
        os.chown("%s/sandboxes/%s/run" % (x.root, iid), x.account.pw_uid, x.account.pw_gid)
        x.start()
        assert state(x, iid, "paused")
        assert x.out(iid, "cat /home/user/h") == "h\n"
        x.destroy(iid)
        assert other.poll() is None   # never taken for ours
    finally:
        other.kill()
        other.wait()


def test_the_directory_vanishes_while_it_is_paused(own):
    x, iid = own(), new()
    x.out(iid, "true")
    x.call("POST", "/v1/instances/%s/pause?wait_ms=10000" % iid, {})
    shutil.rmtree(x.root + "/sandboxes/" + iid)
    x.call("POST", "/v1/instances/%s/wake?wait_ms=10000" % iid, {})
    assert state(x, iid, "lost") and x.dirs() == []


@needs_bwrap
def test_a_wake_that_cannot_be(own):
    x, iid = own(create_timeout_ms="3000"), new()
    x.out(iid, "echo h > /home/user/h")
    x.call("POST", "/v1/instances/%s/pause?wait_ms=10000" % iid, {})
    os.rename(x.root + "/bin/paddock-agent", x.root + "/bin/away")
    a = x.call("POST", "/v1/instances/%s/wake?wait_ms=20000" % iid, {})
    assert a.status == 503 and a.json["code"] == "wake_failed", a.body
    assert state(x, iid, "paused")
    quiet(x)
    os.rename(x.root + "/bin/away", x.root + "/bin/paddock-agent")
    assert x.out(iid, "cat /home/user/h") == "h\n"


def test_a_scope_ends_and_the_sandbox_goes_on(own):
    x, iid, scope = own(), new(), new()
    mark = "64%d" % os.getpid()
    x.out(iid, "setsid sleep %s1 & true" % mark, scope=scope)
    x.out(iid, "setsid sleep %s2 & true" % mark, scope=new())
    assert x.call("DELETE", "/v1/instances/%s/scopes/%s?wait_ms=10000" % (iid, scope)).json["state"] == "gone"
    assert marked("sleep %s1" % mark) == [] and len(marked("sleep %s2" % mark)) == 1
    assert x.put(iid, "true", scope=scope)[1].status == 410


# --- a death at each step of the creation ---

EXECUTOR_STEPS = ["host_make_directory", "host_make_home", "host_make_lock", "host_make_done", "host_launch_asked", "host_launch_answered", "instance_creating_written",
                  "instance_creating_asked", "instance_ready_written"]
END_STEPS = ["host_end_ended", "host_end_removed"]
KEEPER_STEPS = ["host_keeper_locked", "host_keeper_spawned", "host_keeper_mapped", "host_keeper_network", "host_keeper_recorded"]


def points():
    """{name: actors} of this build; None: it has none in it."""
    done = subprocess.run([os.path.join(BUILD, "tests/lib/fault-list")], capture_output=True, text=True, check=False)
    return None if done.returncode else {line.split()[0]: line.split()[3].split(",") for line in done.stdout.splitlines()}


def has_faults():
    return os.path.exists(os.path.join(BUILD, "tests/lib/fault-list")) and points() is not None


needs_faults = pytest.mark.skipif(not has_faults(), reason="needs a build with crash points (--enable-fault)")


@needs_faults
def test_no_step_is_left_out():
    assert {name for name, actors in points().items() if "host" in actors} == {p for p in EXECUTOR_STEPS + END_STEPS + KEEPER_STEPS if p.startswith("host_")}


def quiet(x):
    """Nothing runs but, for a moment, a trial of the launcher's."""
    wait_for("nothing of it runs", lambda: not x.processes(), 5)


def agents(x):
    return [pid for pid in x.processes() if alive(pid) and cmdline(pid).strip() == "/paddock/agent" and
            "\nNSpid:" in open("/proc/%d/status" % pid).read() and
            open("/proc/%d/status" % pid).read().split("\nNSpid:")[1].split("\n")[0].split()[-1] == "1"]


@needs_faults
@needs_bwrap
@pytest.mark.parametrize("point", EXECUTOR_STEPS)
def test_the_executor_dies_while_it_makes_one(own, point):
    x, iid = own(), new()
    x.arm(point + "=kill")
    try:
        cid, _ = x.put(iid, "echo made")
    except (OSError, http.client.HTTPException):   # it may die before it answers
        cid = None
    x.process.wait(20)
    assert x.process.returncode == -signal.SIGKILL
    x.arm()
    x.start()
    cid = cid or x.put(iid, "echo made")[0]
    a = x.call("GET", "/v1/commands/%s/result" % cid)
    if a.status == 404 or a.json.get("code") == "executor_restarted":   # it died before the command was handed over, and says so
        cid = x.put(iid, "echo made")[0]
        a = x.call("GET", "/v1/commands/%s/result" % cid)
    assert a.json["stdout"] == "made\n", a.body
    assert x.dirs() == [iid] and len(agents(x)) == 1
    x.destroy(iid)
    assert x.dirs() == [] and agents(x) == []


@needs_faults
@needs_bwrap
@pytest.mark.parametrize("point", KEEPER_STEPS)
def test_the_keeper_dies_while_it_brings_one_up(own, point):
    x, iid = own(), new()
    x.arm(point + "=kill#1")
    cid, _ = x.put(iid, "echo made")
    assert x.call("GET", "/v1/commands/%s/result" % cid).json["stdout"] == "made\n"
    assert "point=" + point in x.said()
    assert x.dirs() == [iid] and len(agents(x)) == 1
    x.destroy(iid)
    assert agents(x) == [] and x.account.groups() == []


@needs_faults
@needs_bwrap
@pytest.mark.parametrize("point", END_STEPS)
def test_the_executor_dies_while_it_destroys_one(own, point):
    x, iid = own(), new()
    x.out(iid, "touch /home/user/f")
    x.arm(point + "=kill")
    try:
        x.call("DELETE", "/v1/instances/%s?wait_ms=5000" % iid)
    except (OSError, http.client.HTTPException):
        pass
    x.process.wait(20)
    x.arm()
    x.start()
    wait_for("it is gone", lambda: x.call("GET", "/v1/instances/" + iid).json.get("state", "gone") == "gone")
    assert x.dirs() == [] and agents(x) == []


@pytest.mark.skipif(host_lab.KEYCTL is None, reason="needs to know the number of keyctl()")
@pytest.mark.parametrize("plainly", [{}, {"bwrap": "/nonexistent"}])
def test_keys_are_a_sandbox_s_own(own, plainly):
    x = own(**plainly)
    ask = ["python3", "-c", "import ctypes; print(ctypes.CDLL(None).syscall(%d, 0, -3, 0))" % host_lab.KEYCTL]
    sessions = {x.out(new(), ask, workspace=w) for w in ("a", "b")}
    assert len(sessions) == 2


KEYS_TAKEN = """
import ctypes, os, select, sys, time
os.setgroups([])
os.setresgid(*3 * [int(sys.argv[1])])
os.setresuid(*3 * [int(sys.argv[1])])
libc, (join, add) = ctypes.CDLL(None), map(int, sys.argv[2:4])
libc.syscall(join, 1, None)
n, last = 0, time.monotonic()
while n < 40000 and time.monotonic() < last + 1:   # the kernel gives back the keys of what has ended a little later
    if libc.syscall(add, b"user", b"k%d" % n, b"x", 1, -3) > 0:
        n, last = n + 1, time.monotonic()
    else:
        time.sleep(0.001)
print(n, flush=True)
while not select.select([sys.stdin], [], [], 0.001)[0]:
    n += libc.syscall(add, b"user", b"k%d" % n, b"x", 1, -3) > 0
"""


@pytest.mark.skipif(host_lab.KEYCTL is None, reason="needs to know the number of keyctl()")
def test_keys_are_never_shared_for_want_of_quota(own):
    """The uid of all sandboxes' roots has as many keys as it may: what would have to do with the launcher's session does not start."""
    x, iid = own(), new()
    x.out(new(), "true", workspace="v")
    held = subprocess.Popen([sys.executable, "-c", KEYS_TAKEN, str(x.account.low), str(host_lab.KEYCTL), str(host_lab.KEYCTL - 2)],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        if int(held.stdout.readline()) >= 40000:
            pytest.skip("the quota of keys is too large to be used up")
        assert x.run(iid, "echo ran").get("code") == "instance_failed"
        assert "session keyring: Disk quota exceeded" in x.said()
    finally:
        held.communicate("")
    wait_for("the keys are gone", lambda: x.run(new(), "echo ran", workspace="z").get("stdout") == "ran\n")


# --- without bubblewrap ---

def test_plainly(own):
    x, iid = own(bwrap="/nonexistent", env=SECRETS), new()
    assert x.out(iid, "id -u; echo $HOME; ls -A /home; echo w > /home/user/workspace/f; echo h > /home/user/h").split() == ["1000", "/home/user", ".paddock", "user"]
    assert x.out(iid, "ps -o args= -p 1").startswith("paddock-agent")
    assert os.path.exists(x.root + "/ws/w/files/f") and os.path.exists("%s/sandboxes/%s/home/h" % (x.root, iid))
    # our own directories are covered even so, and the limits are out of its hands
    script = "for p in %s/sandboxes %s/ws %s/state %s/agents %s/run %s/engine /sys/fs/cgroup /home/.paddock; do ls $p >/dev/null 2>&1 && echo reached $p; done; true" % ((x.root,) * 6)
    assert x.out(iid, script) == ""
    # nor does it change what the account owns elsewhere, in sight as that is
    own_dir = tempfile.mkdtemp(dir="/var/lib", prefix="pdk-h-")
    try:
        os.chown(own_dir, x.account.pw_uid, x.account.pw_gid)
        said = x.out(iid, "ls -d %s && ! touch %s/f 2>&1" % (own_dir, own_dir))
        assert said.startswith(own_dir) and "Read-only" in said and os.listdir(own_dir) == []
    finally:
        shutil.rmtree(own_dir)
    # and no variable of the service reaches it
    assert set(x.out(iid, "env | cut -d= -f1").split()) <= BASE_NAMES
    assert "planted" not in x.out(iid, "cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n'; true")
    fields = dict(line.split(":", 1) for line in x.out(iid, "cat /proc/self/status").splitlines())
    assert {int(fields[name], 16) for name in ("CapEff", "CapPrm", "CapInh", "CapAmb", "CapBnd")} == {0} and fields["NoNewPrivs"].strip() == "1"
    mark = "62%d" % os.getpid()
    cid, _ = x.put(iid, "setsid sleep %s & (setsid sleep %s &) ; sleep %s" % (mark, mark, mark))
    wait_for("it runs", lambda: len(marked("sleep " + mark)) >= 3)
    x.call("POST", "/v1/commands/%s/kill" % cid)
    x.call("GET", "/v1/commands/%s/result" % cid)
    assert marked("sleep " + mark) == []
    fact = wait_for("the trial is done", lambda: next((c for c in x.call("GET", "/v1/health").json["components"] if c["name"] == "bubblewrap"), None))
    assert not fact["ok"] and "install the package bubblewrap" in fact["hint"]
    assert "NO BUBBLEWRAP" in x.said()
    x.destroy(iid)
    assert x.dirs() == []
    quiet(x)
