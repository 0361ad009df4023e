"""The executor of this build against the engine of an installed Paddock, as a node of its own: names, labels, state and workspaces apart.

PADDOCK_INSTANCE names the installation (empty: the normal one); contrib/up must have run. Needs root."""

import configparser
import json
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import uuid

from executor import Answer, UnixConnection

SUFFIX = "-" + os.environ["PADDOCK_INSTANCE"] if os.environ.get("PADDOCK_INSTANCE") else ""
INSTALLED = "/etc/paddock%s/paddock.ini" % SUFFIX
PROGRAMS = ("paddock-agent", "paddock-executor", "paddock-netguard")


def why_not(build):
    if os.getuid() != 0:
        return "needs root"
    for program in PROGRAMS:
        if not os.path.exists(os.path.join(build, program)):
            return "no %s in %s" % (program, build)
    try:
        socket_of(installed())
    except (KeyError, OSError) as e:
        return "no installed engine: %s" % e
    return None


def installed():
    ini = configparser.ConfigParser(interpolation=None, inline_comment_prefixes=None)
    with open(INSTALLED, encoding="utf-8") as f:
        ini.read_file(f)
    return ini


def socket_of(ini):
    path = ini["container"]["engine_socket"]
    os.stat(path)
    return path


class Lab:
    def __init__(self, build, **container):
        ini = installed()
        self.engine_socket = socket_of(ini)
        self.account = pwd.getpwuid(os.stat(self.engine_socket).st_uid)
        self.node = "t" + uuid.uuid4().hex[:8]
        self.root = tempfile.mkdtemp(prefix="pdk-c-")
        os.chmod(self.root, 0o711)
        for name, mode in (("bin", 0o755), ("state", 0o700), ("ws", 0o751), ("agents", 0o711), ("run", 0o700)):
            os.mkdir(os.path.join(self.root, name))
            os.chown(os.path.join(self.root, name), self.account.pw_uid, self.account.pw_gid)
            os.chmod(os.path.join(self.root, name), mode)
        for program in PROGRAMS:
            shutil.copy(os.path.join(build, program), self.root + "/bin/")
        self.sock, self.log, self.process = self.root + "/run/e.sock", self.root + "/log", None
        self.write(ini, container)

    def write(self, ini, container):
        values = {"service": {"node": self.node, "log_level": "debug"},
                  "paths": {"state": self.root + "/state", "workspaces": self.root + "/ws"},
                  "executor": {"socket": self.sock, "api_account": "root"},
                  "container": {"engine_socket": self.engine_socket, "agent": self.root + "/bin/paddock-agent", "agent_dir": self.root + "/agents",
                                "netguard": self.root + "/bin/paddock-netguard", "seccomp": ini["container"]["seccomp"],
                                "cgroup_parent": ini["container"].get("cgroup_parent", "/paddock%s" % SUFFIX),
                                "runtime_state": "/run/paddock%s/xdg/runc" % SUFFIX, "memory_bytes": "128M", "tmp_bytes": "16M", "home_bytes": "16M"}}
        values["container"].update(container)
        with open(self.root + "/paddock.ini", "w", encoding="utf-8") as f:
            for section, keys in values.items():
                f.write("[%s]\n" % section + "".join("%s = %s\n" % kv for kv in keys.items()))
        os.chmod(self.root + "/paddock.ini", 0o644)

    def start(self):
        with open(self.log, "ab") as out:
            self.process = subprocess.Popen(
                ["setpriv", "--reuid", str(self.account.pw_uid), "--regid", str(self.account.pw_gid), "--clear-groups", self.root + "/bin/paddock-executor",
                 "--config", self.root + "/paddock.ini"], stdout=out, stderr=out, cwd="/", start_new_session=True)
        end = time.monotonic() + 15
        while True:
            try:
                if self.call("GET", "/healthz").status == 200:
                    return self
            except OSError:
                pass
            assert self.process.poll() is None, self.said()[-2000:]
            assert time.monotonic() < end, "the executor did not start"
            time.sleep(0.02)

    def said(self):
        with open(self.log, encoding="utf-8", errors="replace") as f:
            return f.read()

    def kill(self, sig=signal.SIGKILL):
        self.process.send_signal(sig)
        self.process.wait(20)

    def call(self, method, path, body=None):
        c = UnixConnection(self.sock, 100)
        try:
            c.request(method, path, None if body is None else body, {"Content-Type": "application/json"})
            return Answer(c.getresponse())
        finally:
            c.close()

    def engine(self, method, path, body=None):
        c = UnixConnection(self.engine_socket, 60)
        try:
            c.request(method, "/v4.0.0/libpod" + path, None if body is None else json.dumps(body), {"Content-Type": "application/json"})
            return Answer(c.getresponse())
        finally:
            c.close()

    def container(self, iid):
        return "pdk-%s-%s" % (self.node, iid)

    def mine(self):
        """Names of this node's containers at the engine, storage-only ones included."""
        rows = self.engine("GET", "/containers/json?all=true&external=true").json
        return [name for row in rows for name in (row.get("Names") or []) if name.startswith("pdk-%s-" % self.node)]

    def processes(self):
        """Command lines outside containers that bear this node's names."""
        return [line for line in subprocess.run(["ps", "-eo", "args"], check=True, capture_output=True, text=True).stdout.splitlines()
                if "pdk-%s-" % self.node in line and "conmon" in line]

    def close(self):
        try:
            if self.process.poll() is not None:
                self.start()
            for i in self.call("GET", "/v1/instances").json["items"]:
                self.call("DELETE", "/v1/instances/%s?wait_ms=20000" % i["id"])
            self.kill(signal.SIGTERM)
        finally:
            for name in self.mine():
                self.engine("DELETE", "/containers/%s?force=true&timeout=0" % name)
            shutil.rmtree(self.root, ignore_errors=True)
