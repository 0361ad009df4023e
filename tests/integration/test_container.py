"""The container provider with the real engine: what a sandbox is, what it cannot reach, and that nothing of it stays."""

import json
import os
import subprocess
import sys
import time
import uuid

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "lib"))

import container_lab  # noqa: E402
from lab import wait_for  # noqa: E402

BUILD = os.environ.get("PADDOCK_BUILD", os.getcwd())
pytestmark = pytest.mark.skipif(container_lab.why_not(BUILD) is not None, reason=str(container_lab.why_not(BUILD)))


@pytest.fixture(scope="module")
def lab():
    x = container_lab.Lab(BUILD).start()
    yield x
    x.close()


@pytest.fixture(scope="module")
def box(lab):
    iid = str(uuid.uuid4())
    lab.out(iid, "true")
    return iid


def test_identity(lab, box):
    assert lab.out(box, "id").startswith("uid=1000(user) gid=1000(user)")
    status = lab.out(box, "cat /proc/self/status")
    fields = dict(line.split(":", 1) for line in status.splitlines())
    assert int(fields["CapEff"], 16) == int(fields["CapPrm"], 16) == int(fields["CapInh"], 16) == int(fields["CapAmb"], 16) == int(fields["CapBnd"], 16) == 0
    assert fields["NoNewPrivs"].strip() == "1" and fields["Seccomp"].strip() == "2"


def test_sudo_is_there_and_refused(lab, box):
    r = lab.run(box, "command -v sudo && sudo -n true")
    assert r["exit_code"] != 0 and "/usr/bin/sudo" in r["stdout"] and "no new privileges" in r["stderr"]


PROBE = r"""
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
def call(nr, *args):
    ctypes.set_errno(0)
    return 0 if libc.syscall(nr, *args) >= 0 else ctypes.get_errno()
calls = {"unshare": (272, 0x10000000), "setns": (308, 0, 0), "mount": (165, b"none", b"/tmp", b"tmpfs", 0, 0), "umount2": (166, b"/tmp", 0),
         "pivot_root": (155, b"/", b"/"), "keyctl": (250, 0, 0, 0), "add_key": (248, b"user", b"a", b"b", 1, -3), "bpf": (321, 0, 0, 0),
         "perf_event_open": (298, 0, 0, 0, 0, 0), "userfaultfd": (323, 0), "process_vm_readv": (310, 1, 0, 0, 0, 0, 0), "pidfd_getfd": (438, 0, 0, 0),
         "name_to_handle_at": (303, 0, 0, 0, 0, 0), "open_by_handle_at": (304, 0, 0, 0), "fsopen": (430, b"tmpfs", 0), "open_tree": (428, -1, b"/", 0),
         "clone3": (435, 0, 0), "io_uring_setup": (425, 1, 0), "clone(NEWUSER)": (56, 0x10000011, 0, 0, 0, 0), "socket(PACKET)": (41, 17, 3, 0),
         "socket(VSOCK)": (41, 40, 1, 0), "socket(ALG)": (41, 38, 5, 0), "socket(NETFILTER)": (41, 16, 3, 12), "socket(RAW)": (41, 2, 3, 1)}
for name, args in calls.items():
    e = call(*args)
    print(name, errno.errorcode.get(e, e))
fd = os.open("/tmp/lease", os.O_RDWR | os.O_CREAT)
print("F_SETLEASE", errno.errorcode.get(call(72, fd, 1024, 1)))
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers of x86-64")
def test_seccomp(lab, box):
    got = dict(line.rsplit(" ", 1) for line in lab.out(box, "python3 - <<'E'\n%s\nE" % PROBE).splitlines())
    wrong = {name: what for name, what in got.items() if what not in ("EPERM", "ENOSYS")}
    assert not wrong and len(got) == 25


def test_what_is_out_of_reach(lab, box):
    script = r"""
for p in /paddock /paddock/run /paddock/run/s /paddock/agent /proc/1/environ /proc/1/mem /proc/1/maps /proc/1/fd /proc/1/root/ /proc/1/ns /etc/shadow /root; do
    ls $p >/dev/null 2>&1 && head -c1 $p >/dev/null 2>&1 && echo "reached $p"
done
for p in /etc/x /usr/bin/x /x /run/x /dev/x /home/x; do (echo x > $p) 2>/dev/null && echo "wrote $p"; done
for s in %s %s /run/paddock /var/lib/paddock /run/podman; do [ -e $s ] && echo "there is $s"; done
kill -9 1 2>/dev/null && echo "killed the agent"
ps -e -o args= | grep -v -e agent -e bash -e ps -e grep -e sort
find / -xdev -type f -perm /6000 2>/dev/null | grep -v ^/usr/bin/sudo$
true""" % (lab.engine_socket, lab.sock)
    assert lab.out(box, script) == ""


def test_workspaces_are_apart_and_the_gate_is_closed(lab, box):
    a, b = str(uuid.uuid4()), str(uuid.uuid4())
    assert lab.run(a, "echo secret > mine", workspace="one")["exit_code"] == 0
    assert lab.run(b, "ls -A; ls -A ..", workspace="two")["stdout"] == ".paddock\nworkspace\n"
    gate = os.stat(lab.root + "/ws/one")
    assert gate.st_mode & 0o777 == 0o750 and os.stat(lab.root + "/ws/one/files").st_mode & 0o777 == 0o755
    assert os.stat(lab.root + "/ws/one/files/mine").st_uid == lab.account.pw_uid
    # the mounted root is not the gate: what is done to it inside does not open or shut the gate
    lab.run(a, "chmod 777 . ; chmod 777 ..", workspace="one")
    assert os.stat(lab.root + "/ws/one").st_mode & 0o777 == 0o750
    lab.destroy(a)
    lab.destroy(b)
    assert os.path.exists(lab.root + "/ws/one/files/mine")


def test_writable_places_and_their_sizes(lab, box):
    for place, megabytes in (("/tmp", 16), ("/var/tmp", 16), ("/home/user", 16)):
        r = lab.run(box, "cd %s && dd if=/dev/zero of=big bs=1M count=64 2>&1; stat -c %%s big; rm -f big" % place)
        assert "No space left" in r["stdout"], r
        assert int(r["stdout"].split()[-1]) <= megabytes << 20
    assert lab.out(box, "echo x > ~/.profile2 && cat ~/.profile2 && rm ~/.profile2") == "x\n"
    mounts = lab.out(box, "cat /proc/mounts").splitlines()
    options = {m.split()[1]: m.split()[3].split(",") for m in mounts}
    for place in ("/tmp", "/var/tmp", "/home/user", "/home/user/workspace", "/dev/shm"):
        assert {"rw", "nosuid", "nodev"} <= set(options[place]), place
    assert "ro" in options["/"]
    # `user` cannot look below /paddock, but the table of mounts tells how they are mounted
    assert "ro" in options["/paddock/run"] and "ro" in options["/paddock/agent"]


def test_exports_reach_later_commands(lab):
    """R2.11, with the engine's own seccomp profile and mounts."""
    one, two = str(uuid.uuid4()), str(uuid.uuid4())
    lab.out(one, "echo STAGE=one >> $PADDOCK_ENV; stat -c %U:%a $PADDOCK_ENV")
    assert lab.out(one, "echo $STAGE") == "one\n"
    assert lab.out(one, "stat -c %U:%a $PADDOCK_ENV ~/.paddock") == "user:600\nuser:700\n"
    assert lab.out(two, "echo $STAGE") == "\n"
    lab.out(one, "rm $PADDOCK_ENV; ln -s /proc/1/environ $PADDOCK_ENV")
    assert "TOKEN" not in lab.out(one, "env") and lab.out(one, "echo $STAGE") == "\n"
    lab.destroy(one)
    lab.destroy(two)


def test_the_end_of_a_scope(lab):
    """R2.5: with what its commands left in the background, and nothing of another one."""
    iid, one, two = (str(uuid.uuid4()) for _ in range(3))
    look = "ps -e -o args= | grep '^sleep 30[12]$' | sort"
    lab.run(iid, "setsid sleep 301 >&- 2>&- & true", scope=one)
    lab.run(iid, "setsid sleep 302 >&- 2>&- & true", scope=two)
    assert lab.run(iid, look, scope=two)["stdout"] == "sleep 301\nsleep 302\n"
    assert lab.call("DELETE", "/v1/instances/%s/scopes/%s?wait_ms=20000" % (iid, one)).json["state"] == "gone"
    assert lab.run(iid, look, scope=two)["stdout"] == "sleep 302\n"
    assert lab.put(iid, "true", scope=one)[1].status == 410
    assert lab.instance(iid)["state"] == "ready"
    lab.destroy(iid)


def test_hosts_file_tells_nothing_of_the_host(lab, box):
    text = lab.out(box, "cat /etc/hosts /etc/hostname; hostname")
    assert os.uname().nodename not in text.split() and "host.containers.internal" not in text


def test_network(lab, box):
    """R1.12: from inside, only the internet is reached."""
    addresses = json.loads(subprocess.run(["ip", "-j", "-4", "addr"], check=True, capture_output=True, text=True).stdout)
    host = [a["local"] for i in addresses for a in i["addr_info"] if not a["local"].startswith("127.")]
    targets = host + ["10.0.2.2", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "224.0.0.1"]
    script = """
import socket, sys, time
for a in sys.argv[1:]:
    s = socket.socket(); s.settimeout(4); t = time.time()
    try: s.connect((a, 80)); print(a, "connected")
    except OSError as e: print(a, "timeout" if time.time() - t > 3 else "refused")
try: socket.create_connection(("2606:4700:4700::1111", 53), 3); print("v6 connected")
except OSError: pass
"""
    got = lab.out(box, "python3 - %s <<'E'\n%s\nE" % (" ".join(targets), script)).splitlines()
    assert got == [a + " refused" for a in targets]
    assert "nameserver 10.0.2.3" in lab.out(box, "cat /etc/resolv.conf")


def test_limits_hold(lab):
    iid = str(uuid.uuid4())
    lab.out(iid, "true")
    if lab.instance(iid)["limits"] != "enforced":
        pytest.skip("limits are nominal on this machine")
    r = lab.run(iid, "python3 -c 'x = bytearray(400 << 20)'")
    assert (r["reason"], r["signal"]) == ("oom", 9), r
    r = lab.run(iid, "bash -c \"python3 -c 'x = bytearray(400 << 20)'; exit \\$?\"")
    assert (r["reason"], r["exit_code"]) == ("oom", 137), r
    r = lab.run(iid, "python3 -c 'import os; os.kill(os.getpid(), 9)'")
    assert (r["reason"], r["signal"]) == ("signaled", 9), "killed, but not for want of memory"
    r = lab.run(iid, "python3 -c '\nimport os\nn = 0\ntry:\n  while n < 2000:\n    os.posix_spawn(\"/bin/sleep\", [\"sleep\", \"30\"], {})\n    n += 1\n"
                      "except OSError: print(n, flush=True)\nos.killpg(0, 9)'", timeout_ms=30000)
    assert 100 < int(r["stdout"]) < 256
    lab.destroy(iid)


def test_nothing_of_it_stays(lab):
    iid = str(uuid.uuid4())
    lab.out(iid, "setsid sleep 300 & true")
    name = lab.container(iid)
    pid = lab.engine("GET", "/containers/%s/json" % name).json["State"]["Pid"]
    assert name in lab.mine() and os.path.exists(lab.root + "/agents/" + iid)
    lab.destroy(iid)
    assert name not in lab.mine() and not os.path.exists("/proc/%d" % pid)
    assert not [p for p in lab.processes() if name in p]
    assert not os.path.exists(lab.root + "/agents/" + iid)
    assert lab.call("PUT", "/v1/instances/" + iid, '{"workspace":"w"}').status == 410


def conmon_of(name):
    return [line for line in subprocess.run(["ps", "-eo", "args"], check=True, capture_output=True, text=True).stdout.splitlines()
            if "conmon" in line.split()[0] and " -n %s " % name in line]


def test_the_engine_starts_no_podman_for_our_containers_ends(lab, box):
    with open(container_lab.INSTALLED.replace("paddock.ini", "containers.conf"), encoding="utf-8") as f:
        if "paddock-conmon" not in f.read():
            pytest.skip("the installed engine knows no paddock-conmon")
    ours = conmon_of(lab.container(box))
    assert len(ours) == 1 and "--exit-command" not in ours[0], ours
    other = "other-" + lab.node
    lab.engine("POST", "/containers/create", {"name": other, "image": "localhost/paddock-sandbox:latest", "command": ["sleep", "60"], "netns": {"nsmode": "none"}})
    try:
        assert lab.engine("POST", "/containers/%s/start" % other).status == 204
        theirs = conmon_of(other)
        assert len(theirs) == 1 and "--exit-command" in theirs[0], theirs
    finally:
        lab.engine("DELETE", "/containers/%s?force=true&timeout=0" % other)


def test_processes_end_at_once_and_removals_give_way(lab):
    """A destroyed container's processes do not outlive the request while others are made; it is gone soon after."""
    old, new = str(uuid.uuid4()), [str(uuid.uuid4()) for _ in range(3)]
    lab.out(old, "setsid sleep 300 & true")
    pid = lab.engine("GET", "/containers/%s/json" % lab.container(old)).json["State"]["Pid"]
    for iid in new:
        lab.put(iid, "true")
    assert lab.call("DELETE", "/v1/instances/%s?wait_ms=0" % old).status in (200, 202)
    wait_for("its first process has ended", lambda: not os.path.exists("/proc/%d" % pid), 1)
    for iid in new:
        lab.out(iid, "true")
    lab.destroy(old)
    assert lab.container(old) not in lab.mine()
    for iid in new:
        lab.destroy(iid)


def test_destroy_at_any_moment_of_its_making(lab):
    for ms in (0, 15, 40, 80, 150, 300):
        iid = str(uuid.uuid4())
        assert lab.call("PUT", "/v1/instances/" + iid, '{"workspace":"w"}').status == 202
        time.sleep(ms / 1000)
        lab.destroy(iid)
    assert not [n for n in lab.mine() if n.endswith(iid)]


def test_the_executor_dies_at_any_moment_of_a_making():
    lab = container_lab.Lab(BUILD).start()
    try:
        for ms in (5, 60, 200, 400):
            iid = str(uuid.uuid4())
            lab.put(iid, "echo hi")
            time.sleep(ms / 1000)
            lab.kill()
            lab.start()
            wait_for("ready", lambda i=iid: lab.instance(i)["state"] == "ready")
            assert lab.out(iid, "echo still") == "still\n"
            assert lab.mine() == [lab.container(iid)]
            lab.destroy(iid)
        assert not lab.mine() and not lab.processes()
    finally:
        lab.close()


def test_a_running_command_survives_the_executor():
    lab = container_lab.Lab(BUILD).start()
    try:
        iid = str(uuid.uuid4())
        lab.out(iid, "true")
        cid, _ = lab.put(iid, "for i in $(seq 1 40); do echo $i; sleep 0.1; done")
        time.sleep(1)
        lab.kill()
        time.sleep(0.5)
        lab.start()
        r = lab.call("GET", "/v1/commands/%s/result" % cid).json
        assert r["stdout"] == "".join("%d\n" % i for i in range(1, 41)) and r["reason"] == "exited"
        lab.destroy(iid)
    finally:
        lab.close()


def test_a_container_that_ends_by_itself_is_told(lab):
    iid = str(uuid.uuid4())
    lab.out(iid, "true")
    cid, _ = lab.put(iid, "sleep 60")
    time.sleep(0.3)
    lab.engine("POST", "/containers/%s/kill" % lab.container(iid))
    wait_for("lost", lambda: lab.instance(iid)["state"] == "lost")
    assert lab.call("GET", "/v1/commands/%s/result" % cid).json["status"] == "lost"
    lab.destroy(iid)


def test_orphans_are_swept():
    lab = container_lab.Lab(BUILD).start()
    try:
        iid = str(uuid.uuid4())
        lab.out(iid, "true")
        lab.kill()
        subprocess.run(["rm", "-rf", lab.root + "/state/instances/" + iid], check=True)
        lab.start()
        wait_for("the orphan is gone", lambda: not lab.mine(), 30)
        wait_for("its socket is gone", lambda: not os.path.exists(lab.root + "/agents/" + iid), 40)
    finally:
        lab.close()


def test_no_network_and_the_compatible_routes():
    lab = container_lab.Lab(BUILD, network="none", engine="docker").start()
    try:
        iid = str(uuid.uuid4())
        assert lab.out(iid, "id -u; ls /sys/class/net") == "1000\nlo\n"
        lab.destroy(iid)
        assert not lab.mine()
    finally:
        lab.close()


def test_health(lab):
    """R1.9: what is missing is named."""
    wait_for("the probe has answered", lambda: all(c["ok"] for c in lab.call("GET", "/v1/health").json["components"]
                                                   if c["name"] in ("engine", "image", "seccomp", "agent", "network", "subordinate_ids")))
