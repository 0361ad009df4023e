"""The executor of this build against the engine of an installed Paddock, as a node of its own: names, labels, state and workspaces apart.

PADDOCK_INSTANCE names the installation (empty: the normal one); contrib/up must have run. Needs root."""

import configparser
import json
import os
import pwd
import subprocess
import uuid

import lab
from executor import Answer, UnixConnection, write_ini

SUFFIX = "-" + os.environ["PADDOCK_INSTANCE"] if os.environ.get("PADDOCK_INSTANCE") else ""
INSTALLED = "/etc/paddock%s/paddock.ini" % SUFFIX


def why_not(build):
    try:
        socket_of(installed())
    except (KeyError, OSError) as e:
        return "no installed engine: %s" % e
    return lab.why_not(build)


def installed():
    ini = configparser.ConfigParser(interpolation=None, inline_comment_prefixes=None)
    with open(INSTALLED, encoding="utf-8") as f:
        ini.read_file(f)
    return ini


def socket_of(ini):
    path = ini["container"]["engine_socket"]
    os.stat(path)
    return path


class Lab(lab.Lab):
    def __init__(self, build, **container):
        ini = installed()
        self.engine_socket = socket_of(ini)
        super().__init__(build, pwd.getpwuid(os.stat(self.engine_socket).st_uid), "pdk-c-")
        self.node = "t" + uuid.uuid4().hex[:8]
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
        write_ini(self.root + "/paddock.ini", values)
        os.chmod(self.root + "/paddock.ini", 0o644)

    def spawn(self):
        return self.run_as("paddock-executor")

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

    def end(self):
        for name in self.mine():
            self.engine("DELETE", "/containers/%s?force=true&timeout=0" % name)
        super().end()
