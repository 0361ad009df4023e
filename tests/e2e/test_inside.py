"""What code inside a container sees and what is out of its reach."""

import os
import re
import socket
import threading
import urllib.request

import pytest

from paddock import Proc

PAGE = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "container.md")


def documented():
    """The table of variables on the page: name -> value."""
    with open(PAGE, encoding="utf-8") as f:
        section = f.read().split("\n## The environment of a command\n")[1].split("\n## ")[0]
    return dict(re.findall(r"^\| `(\w+)` \| `([^`]*)` \|", section, re.M))


DOCUMENTED = documented()


def environment(text):
    """What env -0 wrote; the scope, another one each time, as on the page."""
    got = dict(item.split("=", 1) for item in text.split("\0") if item)
    got["PADDOCK_ENV"] = re.sub(r"/env-[0-9a-f-]{36}$", "/env-SCOPE", got.get("PADDOCK_ENV", ""))
    return got


def test_environment_in_full(sh):
    """R1.10: the documented names and no other."""
    assert len(DOCUMENTED) >= 8
    got = sh(["/usr/bin/env", "-0"])["stdout"]
    assert environment(got) == DOCUMENTED


def test_environment_of_a_shell_command(sh):
    """bash adds these three, nothing else."""
    got = environment(sh("/usr/bin/env -0")["stdout"])
    assert {k: got.pop(k, None) is not None for k in ("PWD", "SHLVL", "_")} and got == DOCUMENTED


def test_environment_of_the_request_is_added(sh):
    got = environment(sh(["/usr/bin/env", "-0"], env={"A": "1", "LANG": "C"})["stdout"])
    assert got == {**DOCUMENTED, "A": "1", "LANG": "C"}


def test_project_dir_is_the_workdir_of_the_run(user):
    """Of another Run than the default one; the request's env does not change it."""
    run, token = user.claimed(workdir="~/workspace/sub")
    got = user.command(run["id"], ["/usr/bin/env", "-0"], lease_token=token, env={"AITROOP_PROJECT_DIR": "/tmp/x"})["stdout"]
    user.finish(run["id"], token)
    names = ("PADDOCK_PROJECT_DIR", "AITROOP_PROJECT_DIR")
    assert environment(got) == {**DOCUMENTED, **dict.fromkeys(names, "/home/user/workspace/sub")}


def test_exports_reach_later_commands_of_the_run(sh):
    """R2.11: and what the request says wins."""
    sh("echo STAGE=one >> $PADDOCK_ENV; echo LANG=exported >> $PADDOCK_ENV; echo USER=root >> $PADDOCK_ENV")
    try:
        got = environment(sh(["/usr/bin/env", "-0"], env={"LANG": "C"})["stdout"])
        assert got == {**DOCUMENTED, "STAGE": "one", "LANG": "C"}
        assert sh("echo $LANG")["stdout"] == "exported\n"
    finally:
        sh(["/bin/sh", "-c", ": > $PADDOCK_ENV"])


@pytest.mark.parametrize("name", ["PADDOCK_X", "PADDOCK_PROJECT_DIR", "PADDOCK_"])
def test_reserved_names(user, warm, name):
    answer = user.post("/api/runs/%s/commands" % warm[0], {"command": "true", "env": {name: "/tmp/x"}, "lease_token": warm[1]})
    assert (answer.status, answer.code) == (422, "bad_env")


def test_account(sh):
    """R1.10: commands run as user."""
    assert sh("id")["stdout"] == "uid=1000(user) gid=1000(user) groups=1000(user)\n"
    assert sh("umask; ulimit -c")["stdout"].split() == ["0022", "0"]


def test_sudo_is_there_and_refused(sh):
    """R1.10: no way to another account."""
    command = sh("sudo -n id; echo $?")
    assert "uid=0" not in command["stdout"] and command["stdout"].strip() != "0" and command["stderr"]
    assert sh("su -c id </dev/null")["exit_code"] != 0


def test_capabilities_and_privileges(sh):
    status = sh("cat /proc/self/status")["stdout"]
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        value = re.search(r"^%s:\s*(\w+)" % name, status, re.M)[1]
        assert int(value, 16) == 0, (name, value)
    assert re.search(r"^NoNewPrivs:\s*1", status, re.M) and re.search(r"^Seccomp:\s*2", status, re.M)


def test_home_is_the_users_own(sh):
    got = sh("stat -c '%U %G %a' ~; chmod 700 ~ && stat -c %a ~; chmod 755 ~; grep CapEff /proc/1/status")
    assert got["stdout"].splitlines()[:3] == ["user user 755", "700", "CapEff:\t00000000000001e0"], got


def test_no_descriptors_are_inherited(sh):
    assert sh(["/bin/ls", "/proc/self/fd"])["stdout"].split() == ["0", "1", "2", "3"]


def test_no_socket_or_secret_in_the_file_system(sh):
    found = sh("find / -xdev \\( -type s -o -name '*.sock' -o -name '*.key' -o -name 'shadow' -readable \\) 2>/dev/null; find /paddock /run 2>/dev/null")["stdout"].split()
    assert [f for f in found if f not in ("/run", "/run/lock", "/paddock", "/run/.containerenv")] == [], found


PROBES = {
    "engine socket": "/run/paddock/engine.sock", "PostgreSQL": "/run/paddock/pg", "executor": "/run/paddock/executor.sock", "workers": "/run/paddock/api.sock",
    "configuration": "/etc/paddock", "state": "/var/lib/paddock", "programs": "/opt/paddock", "logs": "/var/log/paddock",
}


@pytest.mark.parametrize("name", PROBES)
def test_parts_of_the_service_are_not_there(inst, sh, name):
    path = PROBES[name].replace("paddock", "paddock" + inst.suffix, 1)
    for at in (path, PROBES[name]):
        assert sh("ls -d %s" % at)["exit_code"] != 0


def test_agent_socket_is_out_of_reach(sh):
    assert "Permission denied" in sh("ls /paddock")["stderr"]
    got = sh(["python3", "-c", "import socket\ns=socket.socket(socket.AF_UNIX)\ntry: s.connect('/paddock/run/s')\nexcept OSError as e: print(e.errno)"])
    assert got["stdout"].strip() == "13"


def test_pid_1_is_out_of_reach(sh):
    for part in ("environ", "mem", "root", "cwd", "fd", "maps"):
        command = sh("ls /proc/1/%s/ 2>&1; cat /proc/1/%s 2>&1" % (part, part))
        assert "Permission denied" in command["stdout"], (part, command["stdout"][:300])
    assert "Operation not permitted" in sh("kill -9 1")["stderr"]
    assert sh("kill -STOP -1; true", timeout_ms=5000)["status"] == "exited"
    assert sh("echo still there")["stdout"] == "still there\n"


def test_supervisor_of_a_command_cannot_be_killed(sh):
    command = sh("kill -9 $PPID; echo $?")
    assert command["stdout"] == "1\n" and command["status"] == "exited"


def test_mounts(inst, sh):
    mounts = sh("cat /proc/self/mountinfo")["stdout"]
    at = {}
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        at[left.split()[4]] = (set(left.split()[5].split(",")), right.split()[0], left.split()[3])
    assert "ro" in at["/"][0]
    assert {"rw", "nosuid", "nodev"} <= at["/home/user/workspace"][0]
    for tmpfs in ("/tmp", "/home/user"):
        assert at[tmpfs][1] == "tmpfs" and {"nosuid", "nodev"} <= at[tmpfs][0]
    writable = [p for p, (options, kind, _) in at.items() if "rw" in options and kind not in ("proc", "sysfs", "cgroup", "cgroup2", "mqueue", "devpts")]
    mine = {"/tmp", "/home/user", "/home/user/workspace", "/dev", "/dev/shm", "/run", "/var/tmp", "/run/lock"}
    devices = {"/dev/" + name for name in ("null", "zero", "full", "tty", "random", "urandom", "console")}
    masked = {p for p in at if p.startswith(("/proc/", "/sys/"))}
    assert set(writable) - mine - devices - masked == set()
    assert all(sh("test -w %s" % p)["exit_code"] or sh("cat %s/* %s 2>/dev/null | wc -c" % (p, p))["stdout"].strip() == "0" for p in masked & set(writable))


def test_root_is_read_only(sh):
    for path in ("/x", "/etc/x", "/usr/bin/x", "/root/x", "/opt/x", "/var/x"):
        assert sh("touch %s" % path)["exit_code"] != 0


def test_other_users_workspaces(user, other, sh):
    other.execute("echo theirs > ~/workspace/theirs")
    assert "theirs" not in sh("find / -name theirs 2>/dev/null")["stdout"]
    sh("echo mine > ~/workspace/mine")
    assert user.execute("cat ~/workspace/mine; rm ~/workspace/mine")["stdout"] == "mine\n"
    assert "theirs" not in sh("ls -a ~/workspace ~/workspace/.. ~/workspace/../..")["stdout"]


def test_workspace_belongs_to_the_account_outside(inst, sh):
    import pwd
    sh("echo x > ~/workspace/owned")
    account = pwd.getpwnam("paddock" + inst.suffix if _has("paddock" + inst.suffix) else "paddock").pw_uid
    found = []
    for top, _, files in os.walk(inst.state + "/workspaces"):
        found += [os.stat(os.path.join(top, f)).st_uid for f in files if f == "owned"]
    assert found and set(found) == {account}


def _has(name):
    import pwd
    try:
        return bool(pwd.getpwnam(name))
    except KeyError:
        return False


SECCOMP = {
    "unshare a user namespace": "import ctypes;l=ctypes.CDLL(None,use_errno=True);r=l.unshare(0x10000000)",
    "unshare a mount namespace": "import ctypes;l=ctypes.CDLL(None,use_errno=True);r=l.unshare(0x00020000)",
    "clone a user namespace": "import ctypes;l=ctypes.CDLL(None,use_errno=True);r=l.syscall(56,0x10000000|17,0,0,0,0)",
    "clone3": "import ctypes;l=ctypes.CDLL(None,use_errno=True);r=l.syscall(435,0,0)",
    "mount": "import ctypes;l=ctypes.CDLL(None,use_errno=True);r=l.mount(b'x',b'/tmp',b'tmpfs',0,0)",
    "setns": "import ctypes,os;l=ctypes.CDLL(None,use_errno=True);r=l.setns(os.open('/proc/self/ns/net',0),0)",
    "bpf": "import ctypes;l=ctypes.CDLL(None,use_errno=True);r=l.syscall(321,0,0,0)",
    "perf_event_open": "import ctypes;l=ctypes.CDLL(None,use_errno=True);r=l.syscall(298,0,0,0,0,0)",
    "keyctl": "import ctypes;l=ctypes.CDLL(None,use_errno=True);r=l.syscall(250,0,-3,1)",
    "io_uring_setup": "import ctypes;l=ctypes.CDLL(None,use_errno=True);r=l.syscall(425,1,0)",
    "userfaultfd": "import ctypes;l=ctypes.CDLL(None,use_errno=True);r=l.syscall(323,0)",
    "open_by_handle_at": "import ctypes;l=ctypes.CDLL(None,use_errno=True);r=l.syscall(304,0,0,0)",
    "a file lease": "import ctypes,fcntl,os\nr=0\ntry: fcntl.fcntl(os.open('/tmp/l',os.O_CREAT|os.O_RDWR),1024,1)\nexcept OSError as e: r=-1;ctypes.set_errno(e.errno)",
    "a raw socket": "import ctypes,socket\nr=0\ntry: socket.socket(socket.AF_INET,socket.SOCK_RAW,1)\nexcept OSError as e: r=-1;ctypes.set_errno(e.errno)",
    "a packet socket": "import ctypes,socket\nr=0\ntry: socket.socket(17,socket.SOCK_RAW,0)\nexcept OSError as e: r=-1;ctypes.set_errno(e.errno)",
}


@pytest.mark.parametrize("name", SECCOMP)
def test_system_calls_that_are_refused(sh, name):
    command = sh(["python3", "-c", SECCOMP[name] + "\nprint(r, ctypes.get_errno())"])
    result, errno = command["stdout"].split()
    assert int(result) < 0 and int(errno) in (1, 13, 38), command


def test_unshare_program(sh):
    assert sh("unshare -Urm true")["exit_code"] != 0
    assert sh("unshare -n true")["exit_code"] != 0


def test_devices(sh):
    assert set(sh("ls /dev")["stdout"].split()) <= {"console", "core", "fd", "full", "mqueue", "null", "ptmx", "pts", "random", "shm", "stderr",
                                                    "stdin", "stdout", "tty", "urandom", "zero"}
    assert sh("mknod /tmp/sda b 8 0")["exit_code"] != 0


def test_ordinary_work_is_possible(sh):
    """What people do: write to /dev/stdout, threads, processes, local sockets, git, file locks."""
    for command in ("echo x > /dev/stdout", "echo x > /dev/stderr", "cat /proc/self/fd/0", "git init -q /tmp/g && cd /tmp/g && git status >/dev/null",
                    "python3 -c 'import threading; t=threading.Thread(target=print); t.start(); t.join()'", "flock /tmp/lock true",
                    "python3 -c 'import multiprocessing as m; print(m.Pool(2).map(abs,[-1]))'", "mkfifo /tmp/f && (echo a > /tmp/f & cat /tmp/f)",
                    "python3 -c 'import socket as s; l=s.create_server((\"127.0.0.1\",0)); s.create_connection(l.getsockname())'", "rg --version >/dev/null",
                    "ps aux >/dev/null", "mktemp -d >/dev/null"):
        got = sh(command)
        assert got["exit_code"] == 0, (command, got)


class Listener:
    """Something on the host that must not be reached: notes each connection."""

    def __init__(self, address):
        self.socket = socket.create_server((address, 0), family=socket.AF_INET)
        self.port = self.socket.getsockname()[1]
        self.hits = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                self.socket.accept()[0].close()
            except OSError:
                return
            self.hits += 1


def host_addresses():
    import subprocess
    out = subprocess.run(["ip", "-4", "-o", "addr"], capture_output=True, text=True).stdout
    return re.findall(r"inet ([\d.]+)/", out)


def gateways():
    import subprocess
    return re.findall(r"via ([\d.]+)", subprocess.run(["ip", "-4", "route"], capture_output=True, text=True).stdout)


CONNECT = """
import socket, sys
for target in sys.argv[1:]:
    host, port = target.rsplit(":", 1)
    s = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    s.settimeout(1.5)
    try:
        s.connect((host, int(port)))
        print(target, "CONNECTED")
    except OSError as e:
        print(target, "no", e)
"""


def test_host_and_private_addresses_are_out_of_reach(inst, sh):
    """R1.12: the internet, and nothing nearer."""
    listener = Listener("0.0.0.0")
    targets = ["%s:%d" % (address, port) for address in [*host_addresses(), "127.0.0.1", "10.0.2.2"] for port in (listener.port, inst.port)]
    targets += ["169.254.169.254:80", "10.0.0.1:80", "172.16.0.1:80", "192.168.0.1:80", "192.168.1.1:443", "100.64.0.1:80", "224.0.0.1:80", "::1:%d" % listener.port]
    neighbours = ["%s:80" % address for address in gateways()]
    got = sh(["python3", "-c", CONNECT, *targets, *neighbours], timeout_ms=60000)
    assert got["exit_code"] == 0 and "CONNECTED" not in got["stdout"], got["stdout"]
    # A neighbour that refuses would have been asked.
    assert not [line for line in got["stdout"].splitlines() if line.startswith(tuple(neighbours)) and "efused" in line], got["stdout"]
    assert listener.hits == 0
    listener.socket.close()


def test_the_internet_is_within_reach(sh):
    """What this machine installs from, a sandbox can fetch from."""
    address = "http://deb.debian.org/debian/dists/stable/InRelease"
    try:
        urllib.request.urlopen(address, timeout=10).close()
    except OSError as error:
        pytest.skip("this machine has no way to the internet itself: %s" % error)
    got = sh("curl -sS -o /dev/null -w '%%{http_code}' --max-time 20 %s" % address, timeout_ms=30000)
    assert got["exit_code"] == 0 and got["stdout"] == "200", got


def test_other_sandboxes_are_out_of_reach(user, other, sh):
    """R1.12: A server in one container, looked for from another by every address of either."""
    run, token = other.claimed()
    server = other.background(run["id"], ["python3", "-m", "http.server", "8099"], lease_token=token)
    other.wait_running(server["id"])
    addresses = set(other.command(run["id"], "hostname -I", lease_token=token)["stdout"].split()) | {"127.0.0.1"}
    got = sh(["python3", "-c", CONNECT, *["%s:8099" % a for a in addresses if ":" not in a]], timeout_ms=30000)
    assert "CONNECTED" not in got["stdout"]
    other.cancel(run["id"])


def test_nothing_of_the_sandbox_runs_as_a_real_account(inst, user, warm):
    """Outside, `user` is the service's account and container root is a subordinate uid: nobody runs as root."""
    command = user.background(warm[0], "exec sleep 77.25", lease_token=warm[1])
    user.wait_running(command["id"])
    import time
    time.sleep(0.3)
    pids = [p for p in Proc.all() if Proc.argv(p) == "sleep 77.25"]
    assert len(pids) == 1 and Proc.status(pids[0], "Uid") != 0
    agent = Proc.ppid(Proc.ppid(pids[0])) or pids[0]
    assert Proc.status(agent, "Uid") != 0
    user.post("/api/commands/%s/kill" % command["id"])


def test_no_secret_on_any_command_line_or_in_the_engine(inst, user):
    """R1.10: no credential in arguments, environments or the engine."""
    secret = "hidden-" + user.name
    run = user.run()
    command = user.background(run["id"], "sleep 20", env={"S3CRET": secret}, stdin=secret)
    user.wait_running(command["id"])
    inside = inst.engine("ps", "-q").split()
    assert inside
    described = inst.engine("inspect", *inside)
    assert secret not in described and user.token not in described and '"TOKEN' not in described
    holders = [Proc.argv(p) for p in Proc.all() if secret in Proc.argv(p) or user.token in Proc.argv(p)]
    assert holders == []
    assert secret not in inst.ctl("sql", "-A", "-t", "-c", "SELECT * FROM sandbox_commands")
    user.cancel(run["id"])
