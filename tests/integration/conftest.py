"""paddock-api as it is built, with a PostgreSQL cluster of its own and a stand-in for the executor. No nginx: a FastCGI client takes its place.

PADDOCK_BUILD names the build directory (default: the working directory). Skipped when it has no paddock-api and paddockctl."""

import contextlib
import hashlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "lib"))

import fcgi_client  # noqa: E402
from fake_executor import FakeExecutor  # noqa: E402

BUILD = os.environ.get("PADDOCK_BUILD", os.getcwd())


def wait_for(what, check, timeout=15.0):
    end = time.monotonic() + timeout
    while True:
        got = check()
        if got:
            return got
        assert time.monotonic() < end, "not within %g s: %s" % (timeout, what)
        time.sleep(0.02)


class Database:
    def __init__(self, path):
        self.dir = path
        self.tool("start")

    def migrate(self, conf):
        subprocess.run([os.path.join(BUILD, "paddockctl"), "--config", conf, "migrate", "--dir", os.path.join(TOP, "sql")], check=True, timeout=60,
                       stdout=subprocess.DEVNULL)

    def tool(self, verb):
        done = subprocess.run(["sh", os.path.join(TOP, "tests", "lib", "pg.sh"), verb, self.dir], check=False, timeout=60)
        if done.returncode == 77:
            pytest.skip("no PostgreSQL server here")
        done.check_returncode()

    def sql(self, text, user="postgres"):
        return subprocess.run(["psql", "-X", "-At", "-q", "-h", self.dir, "-U", user, "-d", "paddock", "-v", "ON_ERROR_STOP=1", "-c", text], check=True,
                              timeout=30, capture_output=True, text=True).stdout.strip()


class Api:
    """One paddock-api: start, talk, look at its processes."""

    def __init__(self, root, db, executor):
        self.root, self.db, self.executor = root, db, executor
        self.sock, self.conf, self.log = root + "/api.sock", root + "/paddock.ini", root + "/api.log"
        self.pepper = secrets.token_bytes(32)
        self.process, self.count = None, 0
        os.mkdir(root + "/keys", 0o700)
        with open(os.open(root + "/keys/pepper", os.O_WRONLY | os.O_CREAT, 0o400), "wb") as f:
            f.write(self.pepper)
        self.configure()

    def configure(self, **options):
        """Writes the configuration; options are section_key=value."""
        values = {"service": {"log_level": "info"}, "paths": {"keys": self.root + "/keys"},
                  "database": {"conninfo": '"host=%s dbname=paddock user=paddock_api"' % self.db_dir(), "connect_timeout_ms": 1000},
                  "api": {"socket": self.sock, "socket_group": "root", "workers": 3, "drain_ms": 4000, "max_requests": 1000000}, "executor": {"socket": self.executor_path()},
                  "janitor": {}}
        for name, value in options.items():
            section, _, key = name.partition("_")
            values.setdefault(section, {})[key] = value
        self.count = values["api"]["workers"]
        with open(self.conf + ".new", "w", encoding="utf-8") as f:
            for section, keys in values.items():
                f.write("[%s]\n" % section + "".join("%s = %s\n" % kv for kv in keys.items()))
        os.rename(self.conf + ".new", self.conf)

    def db_dir(self):
        return self.root + "/pg"

    def executor_path(self):
        return self.root + "/executor.sock"

    def start(self, ready=True):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([os.path.join(BUILD, "paddock-api"), "--config", self.conf], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env={"PATH": "/usr/bin:/bin", **{k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")}})
        if ready:
            self.ready()
        return self.process

    def ready(self):
        def live():
            try:
                return self.get("/healthz", token=None).status == 200
            except OSError:
                assert self.process.poll() is None, self.tail()
                return False
        wait_for("paddock-api answers", live)
        wait_for("all workers are there", lambda: len(self.workers()) == self.count)

    def stop(self, sig=signal.SIGTERM, timeout=15):
        if self.process and self.process.poll() is None:
            self.process.send_signal(sig)
            self.process.wait(timeout)
        return self.process.returncode if self.process else None

    def tail(self, n=40):
        with open(self.log, encoding="utf-8", errors="replace") as f:
            return "".join(f.readlines()[-n:])

    def lines(self, word):
        with open(self.log, encoding="utf-8", errors="replace") as f:
            return [line for line in f if word in line]

    def children(self, master=None):
        """{pid: name} of the living children."""
        out = {}
        for pid in subprocess.run(["ps", "-o", "pid=,stat=,comm=", "--ppid", str(master or self.process.pid)], capture_output=True, text=True, check=False).stdout.splitlines():
            number, stat, name = pid.split(None, 2)
            if not stat.startswith("Z"):
                out[int(number)] = name
        return out

    def workers(self):
        return {pid for pid, name in self.children().items() if name == "paddock-worker"}

    def params(self, method, target, token=None, headers=None, body=b"", **more):
        p = [("REQUEST_METHOD", method), ("REQUEST_URI", target), ("CONTENT_TYPE", ""), ("CONTENT_LENGTH", str(len(body)) if body else ""),
             ("REMOTE_ADDR", more.get("addr", "203.0.113.9")), ("HTTP_HOST", "test"), ("PADDOCK_REQUEST_ID", more.get("rid", uuid.uuid4().hex))]
        if token:
            p.append(("HTTP_AUTHORIZATION", "Bearer " + token))
        for name, value in (headers or {}).items():
            key = name if name.isupper() else "HTTP_" + name.upper().replace("-", "_")
            p = [kv for kv in p if kv[0] != key] + [(key, value)]
        return p

    def call(self, method, target, body=b"", token="", headers=None, **more):
        token = self.token if token == "" else token
        return fcgi_client.request(self.sock, self.params(method, target, token, headers, body, **more), body)

    def get(self, target, **more):
        return self.call("GET", target, **more)

    def post(self, target, o=None, **more):
        import json
        return self.call("POST", target, json.dumps(o).encode() if o is not None else b"", **more)

    def user(self, name, kind="user", admin=False):
        """Makes the account if need be and a token for it; as paddockctl would, but without it."""
        ident, secret = secrets.token_hex(6), secrets.token_hex(32)
        token = "pdk_%s_%s" % (ident, secret)
        digest = hashlib.blake2b(token.encode(), key=self.pepper, digest_size=32).hexdigest()
        self.db.sql("INSERT INTO users (id, name, is_admin) VALUES ('%s', '%s', %s) ON CONFLICT (name) DO NOTHING" % (uuid.uuid4(), name, admin))
        self.db.sql("INSERT INTO tokens (id, user_id, kind, hash) SELECT '%s', id, '%s', '\\x%s' FROM users WHERE name = '%s'" % (ident, kind, digest, name))
        return token


@pytest.fixture(scope="module")
def world():
    for name in ("paddock-api", "paddockctl"):
        if not os.access(os.path.join(BUILD, name), os.X_OK):
            pytest.skip("%s has no %s" % (BUILD, name))
    root = tempfile.mkdtemp(prefix="paddock-api-test-")
    os.chmod(root, 0o711)
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, root, ignore_errors=True)
        executor = FakeExecutor(root + "/executor.sock")
        stack.callback(executor.stop)
        api = Api(root, None, executor)
        stack.callback(api.stop, signal.SIGKILL)
        api.db = Database(root + "/pg")
        stack.callback(api.db.tool, "stop")
        api.db.migrate(api.conf)
        api.token = api.user("ada")
        yield api


@pytest.fixture
def api(world):
    """A running paddock-api with the usual configuration; whatever a test did to it is undone."""
    world.executor.delay_s = 0
    if world.process is None or world.process.poll() is not None:
        world.configure()
        world.start()
    yield world
    world.executor.delay_s = 0


@pytest.fixture
def fresh(world):
    """Like api, but started for this test, and stopped behind it."""
    world.stop()
    world.configure()
    world.executor.delay_s = 0
    world.start()
    yield world
    world.executor.delay_s = 0
    world.stop(signal.SIGKILL)
