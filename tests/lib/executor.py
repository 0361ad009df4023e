"""One paddock-executor over the real agent in bare pid namespaces (tests/lib/unshare_provider.c): start, kill, talk. Needs root."""

import base64
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid

from scripted_truth import ScriptedTruth


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout=60):
        super().__init__("x", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Answer:
    def __init__(self, response):
        self.status, self.headers, self.body = response.status, response.headers, response.read()

    @property
    def json(self):
        return json.loads(self.body)


def write_ini(path, values):
    """values: {section: {key: value}}"""
    with open(path, "w", encoding="utf-8") as f:
        for section, keys in values.items():
            f.write("[%s]\n" % section + "".join("%s = %s\n" % kv for kv in keys.items()))


class Daemon:
    """An executor that is started, killed and asked. Who inherits this has sock and log, and says in spawn() how it is started."""

    patience = 60   # seconds for an answer
    process = None

    def start(self):
        self.process = self.spawn()
        end = time.monotonic() + 15
        while True:
            try:
                if self.call("GET", "/healthz").status == 200:
                    return self
            except OSError:
                pass
            assert self.process.poll() is None, self.said()[-2000:]
            assert time.monotonic() < end, "the executor did not start"
            time.sleep(0.01)

    def said(self):
        with open(self.log, encoding="utf-8", errors="replace") as f:
            return f.read()

    def kill(self, sig=signal.SIGKILL):
        self.process.send_signal(sig)
        self.process.wait(20)

    def destroy_all(self, wait_ms):
        for i in self.call("GET", "/v1/instances").json["items"]:
            self.call("DELETE", "/v1/instances/%s?wait_ms=%d" % (i["id"], wait_ms))

    def connection(self, timeout=None):
        return UnixConnection(self.sock, timeout or self.patience)

    def call(self, method, path, body=None, headers=None, timeout=None):
        c = self.connection(timeout)
        try:
            c.request(method, path, body if body is None or isinstance(body, (bytes, str)) else json.dumps(body), headers or {})
            return Answer(c.getresponse())
        finally:
            c.close()


class Executor(Daemon):
    def __init__(self, build, sections=None, **options):
        """options: of [executor]; sections: {section: {key: value}} of others."""
        self.build = build
        self.root = tempfile.mkdtemp(prefix="pdk-x-")
        os.chmod(self.root, 0o755)
        self.sock = self.root + "/e.sock"
        self.log = self.root + "/log"
        os.mkdir(self.root + "/a", 0o755)
        values = {"paths": {"state": self.root + "/state", "workspaces": self.root}, "executor": {"socket": self.sock},
                  "container": {"agent_dir": self.root + "/a", "agent": build + "/paddock-agent"}}
        for name, value in options.items():
            values["executor"][name] = value
        for section, keys in (sections or {}).items():
            values.setdefault(section, {}).update(keys)
        write_ini(self.root + "/paddock.ini", values)

    def spawn(self):
        out = open(self.log, "ab")
        return subprocess.Popen([self.build + "/tests/lib/paddock-executor-unshare", "--config", self.root + "/paddock.ini"], stdout=out, stderr=out,
                                start_new_session=True)

    def close(self):
        if self.process.poll() is None:
            try:
                self.destroy_all(5000)
            finally:
                self.kill(signal.SIGTERM)
        shutil.rmtree(self.root, ignore_errors=True)

    def put(self, instance, command, cid=None, **fields):
        cid = cid or str(uuid.uuid4())
        body = {"instance": instance, "create": {"workspace": "w"}, "cwd": "/tmp", "timeout_ms": 60000, "record": {"id": cid, "run_id": "r"}}
        body["argv" if isinstance(command, list) else "command"] = command
        body.update(fields)
        return cid, self.call("PUT", "/v1/commands/" + cid, {k: v for k, v in body.items() if v is not None})

    def run(self, instance, command, **fields):
        cid, answer = self.put(instance, command, **fields)
        assert answer.status in (200, 201), answer.body
        return self.call("GET", "/v1/commands/%s/result" % cid)

    def events(self, cid, start=0, headers=None, query=""):
        """The events of a stream from a cursor, as they come."""
        c = self.connection()
        try:
            c.request("GET", "/v1/commands/%s/ndjson?from=%d%s" % (cid, start, query), headers=headers or {})
            r = c.getresponse()
            assert r.status == 200, r.read()
            for line in r:
                if line.strip():
                    yield json.loads(line)
        finally:
            c.close()

    def state(self, cid):
        return self.call("GET", "/v1/commands/" + cid).json


class Scripted(Executor):
    """The executor over the scripted provider, whose instances outlive Runs; `other` is the provider's side (scripted_truth.py)."""

    def __init__(self, build, sections=None, per_run=False, **options):
        """per_run: its instances are of one Run each, and do not pause."""
        mine = {"host": {"i_understand": "yes", "create_timeout_ms": 1500}, "sandbox": {"quarantine_tries": 3}}
        if not per_run:
            mine["service"] = {"provider": "host"}
        for section, keys in (sections or {}).items():
            mine.setdefault(section, {}).update(keys)
        super().__init__(build, mine, **options)
        self.other = ScriptedTruth(self.root + "/other")
        self.faults = self.root + "/faults"
        os.mkdir(self.other.dir)

    @staticmethod
    def available(build):
        return os.access(build + "/tests/lib/paddock-executor-scripted", os.X_OK)

    def spawn(self):
        env = {**os.environ, "PADDOCK_SCRIPTED_DIR": self.other.dir, "PADDOCK_FAULT_FILE": self.faults}
        with open(self.log, "ab") as out:
            return subprocess.Popen([self.build + "/tests/lib/paddock-executor-scripted", "--config", self.root + "/paddock.ini"], stdout=out, stderr=out,
                                    start_new_session=True, env=env)

    def dies_at(self, point, do):
        """do() runs into that point, at which the executor is killed; then it is there again."""
        with open(self.faults, "w", encoding="utf-8") as f:
            f.write(point + "=kill\n")
        try:
            do()
        except (OSError, http.client.HTTPException):
            pass
        self.process.wait(10)
        assert self.process.returncode == -signal.SIGKILL, self.said()[-1500:]
        os.unlink(self.faults)
        self.start()

    def loses_its_books(self):
        """Killed, its state directory gone, and there again; the provider's side is as it was."""
        self.kill()
        shutil.rmtree(self.root + "/state")
        self.start()

    def instance(self, iid, query=""):
        return self.call("GET", "/v1/instances/%s%s" % (iid, query)).json

    def make(self, workspace="w", **more):
        """A new instance, ready."""
        iid = str(uuid.uuid4())
        a = self.call("PUT", "/v1/instances/" + iid, {"workspace": workspace, **more})
        assert a.status == 202, a.body
        self.comes(iid, "ready")
        return iid

    def comes(self, iid, state, seconds=10):
        end = time.monotonic() + seconds
        while self.instance(iid)["state"] != state:
            assert time.monotonic() < end, self.instance(iid)
            time.sleep(0.01)
        return self.instance(iid)

    def close(self):
        self.other.script()
        if self.process.poll() is not None:
            self.start()
        super().close()


def piece(event):
    """The bytes of a stdout or stderr event."""
    return event["text"].encode() if "text" in event else base64.b64decode(event["base64"])
