"""The executor and the launcher of this build with provider host, as an account of their own that is made for the test. Needs root and uidmap."""

import itertools
import os
import platform
import pwd
import shutil
import signal
import subprocess
import sys

import lab
from executor import write_ini
from lab import wait_for

FIRST_ID, IDS = 1879048192, 65536


def why_not(build):
    for tool in ("newuidmap", "setpriv", "useradd"):
        if shutil.which(tool) is None:
            return "no %s" % tool
    return lab.why_not(build, "paddock-launcher")


def hierarchies():
    with open("/proc/mounts", encoding="utf-8") as f:
        return [line.split()[1] for line in f if line.split()[2] in ("cgroup", "cgroup2")]


class Account:
    """A system account with subordinate ids and, as set-up does it, a directory of its own in every hierarchy of control groups."""

    numbers = itertools.count()

    def __init__(self):
        self.name = "pdkh%d-%d" % (os.getpid(), next(self.numbers))
        self.group = "/" + self.name
        subprocess.run(["useradd", "--system", "--user-group", "--no-create-home", "--shell", "/usr/sbin/nologin", self.name], check=True)
        entry = pwd.getpwnam(self.name)
        self.pw_uid, self.pw_gid = entry.pw_uid, entry.pw_gid
        self.low = FIRST_ID + self.pw_uid % 4096 * IDS   # of this account alone: other runs of these tests have accounts of their own
        subids = "%d-%d" % (self.low, self.low + IDS - 1)
        subprocess.run(["usermod", "--add-subuids", subids, "--add-subgids", subids, self.name], check=True)
        self.groups_make()

    def groups_make(self):
        for at in hierarchies():
            path = at + self.group
            try:
                os.makedirs(path, exist_ok=True)
            except OSError:
                continue
            for name in ("cpuset.cpus", "cpuset.mems"):
                if os.path.exists(path + "/" + name):
                    with open(at + "/" + name, encoding="utf-8") as source, open(path + "/" + name, "w", encoding="utf-8") as to:
                        to.write(source.read())
            os.chown(path, self.pw_uid, self.pw_gid)
            for name in os.listdir(path):
                if os.path.isfile(path + "/" + name):
                    os.chown(path + "/" + name, self.pw_uid, self.pw_gid)

    def groups(self):
        """Of sandboxes, those that are left."""
        return [at + self.group + "/" + name for at in hierarchies() if os.path.isdir(at + self.group) for name in os.listdir(at + self.group) if name.startswith("host-")]

    def processes(self):
        """{pid: command line} of the account and its subordinate ids, zombies left out."""
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/status" % pid, encoding="utf-8") as f:
                    fields = dict(line.split(":", 1) for line in f if ":" in line)
                uid = int(fields["Uid"].split()[1])
                if (uid == self.pw_uid or self.low <= uid < self.low + IDS) and not fields["State"].strip().startswith("Z"):
                    with open("/proc/%s/cmdline" % pid, "rb") as f:
                        found[int(pid)] = f.read().replace(b"\0", b" ").decode("utf-8", "replace").strip()
            except OSError:
                continue
        return found

    def remove(self):
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        wait_for("nothing of the account runs", lambda: not self.processes())
        for at in hierarchies():
            for path, _, _ in os.walk(at + self.group, topdown=False):
                try:
                    os.rmdir(path)
                except OSError:
                    pass
        subprocess.run(["userdel", self.name], check=False, capture_output=True)


KEYCTL = {"x86_64": 250, "aarch64": 219}.get(platform.machine())

# A session of its own, as a service manager gives one to what it starts. By a program, not between fork and exec: other threads' locks are held there for ever.
OWN_SESSION = "import ctypes, os, sys; ctypes.CDLL(None).syscall(int(sys.argv[1]), 1, None); os.execvp(sys.argv[2], sys.argv[2:])"


class Lab(lab.Lab):
    def __init__(self, build, env=None, **host):
        super().__init__(build, Account(), "pdk-h-", ["paddock-launcher"], {"sandboxes": 0o700, "engine": 0o700}, "/var/tmp")
        self.env = env or {}
        self.fault = self.root + "/fault"
        self.launcher = None
        self.around = ()   # a command that runs the launcher in a surrounding of its own
        self.write(**host)

    def write(self, **host):
        values = {"service": {"provider": "host", "log_level": "debug"},
                  "paths": {"state": self.root + "/state", "workspaces": self.root + "/ws"},
                  "executor": {"socket": self.sock, "api_account": "root"},
                  "container": {"agent": self.root + "/bin/paddock-agent", "agent_dir": self.root + "/agents", "netguard": self.root + "/bin/paddock-netguard",
                                "cgroup_parent": self.account.group},
                  "host": {"i_understand": "yes", "sandboxes": self.root + "/sandboxes", "launcher_socket": self.root + "/engine/launcher.sock",
                           "network": "none", "memory_bytes": "128M", "tmp_bytes": "16M"}}
        values["host"].update(host)
        write_ini(self.root + "/paddock.ini", values)
        os.chmod(self.root + "/paddock.ini", 0o644)

    def arm(self, what=""):
        """Crash points of a build that has them: NAME=kill, or nothing."""
        with open(self.fault + ".new", "w", encoding="utf-8") as f:
            f.write(what)
        os.chmod(self.fault + ".new", 0o644)
        os.rename(self.fault + ".new", self.fault)

    def serve(self, program, *drop, around=()):
        session = (sys.executable, "-I", "-S", "-c", OWN_SESSION, str(KEYCTL)) if KEYCTL else ()
        return self.run_as(program, *drop, around=(*session, *around),
                           env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PADDOCK_FAULT_FILE": self.fault, **self.env})

    def start_launcher(self):
        self.launcher = self.serve("paddock-launcher", around=self.around)
        wait_for("the launcher listens", lambda: os.path.exists(self.root + "/engine/launcher.sock"))

    def spawn(self):
        return self.serve("paddock-executor", "--bounding-set=-all", "--inh-caps=-all")

    def start(self):
        if self.launcher is None:
            self.arm()
            self.start_launcher()
        return super().start()

    # --- what there really is ---

    def dirs(self):
        return sorted(os.listdir(self.root + "/sandboxes"))

    def processes(self):
        """{pid: command line} of what there is besides the executor and the launcher themselves."""
        ours = {p.pid for p in (self.process, self.launcher) if p is not None}
        return {pid: line for pid, line in self.account.processes().items() if pid not in ours}

    def run_record(self, iid):
        with open("%s/sandboxes/%s/run" % (self.root, iid), encoding="utf-8") as f:
            words = f.read().split()
        return {"keeper": int(words[1]), "agent": int(words[4])}

    def mend(self):
        self.arm()
        if self.launcher.poll() is not None:
            self.start_launcher()
        super().mend()

    def end(self):
        self.launcher.terminate()
        self.launcher.wait(10)
        self.account.remove()
        super().end()
