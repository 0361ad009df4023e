"""The executor of this build over real sandboxes, as an account of its own and in a directory of its own: what container_lab and host_lab have in common."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid

from executor import Daemon

PROGRAMS = ("paddock-agent", "paddock-executor", "paddock-netguard")
DIRECTORIES = {"bin": 0o755, "state": 0o700, "ws": 0o751, "agents": 0o711, "run": 0o700}


def why_not(build, *more):
    if os.getuid() != 0:
        return "needs root"
    for program in PROGRAMS + more:
        if not os.path.exists(os.path.join(build, program)):
            return "no %s in %s" % (program, build)
    return None


def wait_for(what, check, seconds=20):
    end = time.monotonic() + seconds
    while True:
        got = check()
        if got:
            return got
        assert time.monotonic() < end, what
        time.sleep(0.02)


class Lab(Daemon):
    patience = 100

    def __init__(self, build, account, prefix, programs=(), directories=None, below=None):
        self.account = account
        self.root = tempfile.mkdtemp(prefix=prefix, dir=below)
        os.chmod(self.root, 0o711)
        for name, mode in {**DIRECTORIES, **(directories or {})}.items():
            os.mkdir(os.path.join(self.root, name))
            os.chown(os.path.join(self.root, name), account.pw_uid, account.pw_gid)
            os.chmod(os.path.join(self.root, name), mode)
        for program in PROGRAMS + tuple(programs):
            shutil.copy(os.path.join(build, program), self.root + "/bin/")
        self.sock, self.log, self.process = self.root + "/run/e.sock", self.root + "/log", None

    def run_as(self, program, *drop, around=(), **how):
        """drop: words for setpriv; around: a command that runs it in a surrounding of its own."""
        with open(self.log, "ab") as out:
            return subprocess.Popen([*around, "setpriv", "--reuid", str(self.account.pw_uid), "--regid", str(self.account.pw_gid), "--clear-groups", *drop,
                                     self.root + "/bin/" + program, "--config", self.root + "/paddock.ini"], stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd="/",
                                    start_new_session=True, **how)

    # --- commands and instances ---

    def put(self, iid, command, workspace="w", timeout_ms=60000, **more):
        cid = str(uuid.uuid4())
        body = {"instance": iid, "create": {"workspace": workspace}, "cwd": "/home/user/workspace", "env": {}, "timeout_ms": timeout_ms, "record": {"id": cid}}
        body["argv" if isinstance(command, list) else "command"] = command
        body.update(more)
        return cid, self.call("PUT", "/v1/commands/" + cid, body)

    def run(self, iid, command, **more):
        cid, answer = self.put(iid, command, **more)
        assert answer.status in (200, 201), answer.body
        return self.call("GET", "/v1/commands/%s/result" % cid).json

    def out(self, iid, command, **more):
        r = self.run(iid, command, **more)
        assert r.get("exit_code") == 0, r
        return r["stdout"]

    def instance(self, iid):
        return self.call("GET", "/v1/instances/" + iid).json

    def destroy(self, iid):
        assert self.call("DELETE", "/v1/instances/%s?wait_ms=25000" % iid).json["state"] == "gone"

    def mend(self):
        """What has ended is there again."""
        if self.process.poll() is not None:
            self.start()

    def close(self):
        try:
            self.mend()
            self.destroy_all(20000)
            self.kill(signal.SIGTERM)
        finally:
            self.end()

    def end(self):
        """The executor has ended: what is left goes."""
        shutil.rmtree(self.root, ignore_errors=True)
