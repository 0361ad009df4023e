"""Whole services without nginx: a PostgreSQL cluster, an executor and paddock-api nodes on it. What crash matrix and node tests share. Needs root.

A Stack is one database, one executor and any number of API nodes. Its users' commands leave marks, so that a test can count how often each was really
started; what really exists is asked of the provider, past the executor's books (Unshare, Scripted, Host)."""

import collections
import contextlib
import hashlib
import http.client
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import uuid

import fcgi_client
import host_lab
from executor import Executor
from host_lab import Lab
from host_truth import HostTruth
from scripted_truth import ScriptedTruth

LIB = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(LIB))


def until(what, check, timeout=20.0, every=0.02):
    end = time.monotonic() + timeout
    while True:
        got = check()
        if got:
            return got
        if time.monotonic() >= end:
            raise AssertionError("not within %g s: %s" % (timeout, what() if callable(what) else what))
        time.sleep(every)


def env_of(more):
    keep = {k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")}
    return {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", **keep, **more}


class Session:
    """A psql that stays connected. One statement at a time; may be used by several threads."""

    def __init__(self, host, db, user="postgres"):
        self.lock = threading.Lock()
        self.p = subprocess.Popen(["psql", "-X", "-At", "-q", "-h", host, "-U", user, "-d", db], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, env=env_of({}))

    def rows(self, text):
        """The lines of the answer; AssertionError with psql's words when it fails."""
        mark = "end-" + secrets.token_hex(8)
        with self.lock:
            self.p.stdin.write("%s;\n\\echo %s\n" % (text, mark))
            self.p.stdin.flush()
            out = []
            for line in self.p.stdout:
                line = line.rstrip("\n")
                if line == mark:
                    break
                out.append(line)
            else:
                raise AssertionError("the connection to the database ended: %s" % out)
        assert not any(line.startswith("ERROR:") for line in out), (text, out)
        return out

    def one(self, text):
        return "\n".join(self.rows(text))

    def json(self, text):
        """A list of objects, one a row."""
        return json.loads(self.one("SELECT coalesce(json_agg(x), '[]') FROM (%s) x" % text))

    def close(self):
        with contextlib.suppress(OSError):
            self.p.stdin.close()
        self.p.wait(10)
        self.p.stdout.close()


class Cluster:
    """One server process for all databases of a test program."""

    def __init__(self, build, root):
        self.build, self.dir, self.count = build, root + "/pg", 0
        subprocess.run(["sh", LIB + "/pg.sh", "start", self.dir], check=True, timeout=120)
        conf = root + "/template.ini"
        with open(conf, "w", encoding="utf-8") as f:
            f.write('[database]\nconninfo = "%s"\n' % self.conninfo("paddock"))
        subprocess.run([build + "/paddockctl", "--config", conf, "migrate", "--dir", TOP + "/sql"], check=True, timeout=60, stdout=subprocess.DEVNULL)

    def conninfo(self, db):
        return "host=%s dbname=%s user=paddock_api" % (self.dir, db)

    def database(self):
        """A new one, as migrated."""
        self.count += 1
        name = "paddock_%d" % self.count
        subprocess.run(["psql", "-X", "-q", "-h", self.dir, "-U", "postgres", "-d", "postgres", "-v", "ON_ERROR_STOP=1", "-c",
                        "CREATE DATABASE %s TEMPLATE paddock OWNER paddock_owner" % name], check=True, timeout=60)
        return name

    def session(self, db):
        return Session(self.dir, db)

    def log(self):
        with open(self.dir + "/server.log", encoding="utf-8", errors="replace") as f:
            return f.read()

    def stop(self):
        subprocess.run(["sh", LIB + "/pg.sh", "stop", self.dir], check=False, timeout=60)


class Faults:
    """The file that arms the points of one program."""

    def __init__(self, path):
        self.path, self.number = path, 0
        self.disarm()

    def _write(self, text):
        with open(self.path + ".new", "w", encoding="utf-8") as f:
            f.write(text)
        os.chmod(self.path + ".new", 0o644)
        os.rename(self.path + ".new", self.path)

    def arm(self, *points):
        """Each (name, process or None) kills once, in this order."""
        items = []
        for name, process in points:
            self.number += 1
            items.append("%s=kill%s#%d" % (name, "@" + process if process else "", self.number))
        self._write(",".join(items) + "\n")

    def disarm(self):
        self._write("\n")


class Node:
    """One paddock-api: master, workers, janitor."""

    def __init__(self, stack, number, **options):
        self.stack, self.root = stack, "%s/node%d" % (stack.root, number)
        self.sock, self.conf, self.log = self.root + "/api.sock", self.root + "/paddock.ini", self.root + "/api.log"
        self.process, self.env = None, {}
        os.makedirs(self.root + "/keys", 0o755)
        with open(os.open(self.root + "/keys/pepper", os.O_WRONLY | os.O_CREAT, 0o400), "wb") as f:
            f.write(stack.pepper)
        self.faults = Faults(self.root + "/keys/faults")   # where a confined worker may read
        values = {"service": {"log_level": "info", **stack.provider.service}, "paths": {"keys": self.root + "/keys"},
                  "database": {"conninfo": '"%s"' % stack.cluster.conninfo(stack.db), "connect_timeout_ms": 1000},
                  "api": {"socket": self.sock, "socket_group": "root", "workers": 2, "drain_ms": 1000, "max_requests": 1000000},
                  "executor": {"socket": stack.executor.sock}, "janitor": {"interval_ms": 100, "backoff_min_ms": 100, "backoff_max_ms": 1000, "orphan_grace_ms": 3000},
                  "runs": {}, "sandbox": {}, "retention": {}}
        for name, value in options.items():
            section, _, key = name.partition("_")
            values[section][key] = value
        self.count = values["api"]["workers"]
        with open(self.conf, "w", encoding="utf-8") as f:
            for section, keys in values.items():
                f.write("[%s]\n" % section + "".join("%s = %s\n" % kv for kv in keys.items()))
            f.write(stack.provider.options)

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([self.stack.build + "/paddock-api", "--config", self.conf], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            start_new_session=True, env=env_of({"PADDOCK_FAULT_FILE": self.faults.path, **self.env}))
        until(lambda: "paddock-api is up: " + self.tail(), self.up)
        return self

    def up(self):
        assert self.process.poll() is None, self.tail()
        try:
            return self.call("GET", "/healthz", token=None).status == 200 and len(self.ages("paddock-worker")) == self.count and self.ages("paddock-janitor")
        except (OSError, ConnectionError):
            return False

    def stop(self, sig=signal.SIGTERM):
        if self.process and self.process.poll() is None:
            self.process.send_signal(sig)
            self.process.wait(20)

    def tail(self, n=60):
        with open(self.log, encoding="utf-8", errors="replace") as f:
            return "".join(f.readlines()[-n:])

    def ages(self, name):
        """{pid: seconds of life} of the living children of that name."""
        out = {}
        done = subprocess.run(["ps", "-o", "pid=,stat=,etimes=,comm=", "--ppid", str(self.process.pid)], capture_output=True, text=True, check=False, timeout=10)
        for line in done.stdout.splitlines():
            pid, stat, age, comm = line.split(None, 3)
            if comm == name and not stat.startswith("Z"):
                out[int(pid)] = int(age)
        return out

    def call(self, method, target, body=None, token=None, key=None, timeout=30):
        data = b"" if body is None else json.dumps(body).encode()
        params = [("REQUEST_METHOD", method), ("REQUEST_URI", target), ("CONTENT_TYPE", "application/json" if data else ""),
                  ("CONTENT_LENGTH", str(len(data)) if data else ""), ("REMOTE_ADDR", "203.0.113.9"), ("HTTP_HOST", "test"),
                  ("PADDOCK_REQUEST_ID", uuid.uuid4().hex)]
        if token:
            params.append(("HTTP_AUTHORIZATION", "Bearer " + token))
        if key:
            params.append(("HTTP_IDEMPOTENCY_KEY", key))
        return fcgi_client.request(self.sock, params, data, timeout)


class Kit:
    """What a Stack has to know of a provider: how its executor is started, and what really is, past the executor's books."""
    place, options = {}, ""   # where its commands run, when not in the Workspace; what the configuration says of it

    def __init__(self):
        self.env = {}

    def executor(self, build, **options):
        return ExecutorNode(build, self, **options)

    def violations(self, _stack):
        """What a provider never may do and did."""
        return []


class Unshare(Kit):
    """The executor over the real agent in bare pid namespaces: one sandbox a Run."""
    name, service, persistent = "per-run", {}, False
    place = {"cwd": "/tmp"}   # it has the machine's own files

    def __init__(self, build, root):
        super().__init__()
        self.program = build + "/tests/lib/paddock-executor-unshare"
        self.marks = root + "/marks"
        os.mkdir(self.marks, 0o777)
        os.chmod(self.marks, 0o777)

    @staticmethod
    def available(build):
        return os.access(build + "/tests/lib/paddock-executor-unshare", os.X_OK)

    def command(self, mark, seconds=0):
        return "echo x >>%s/%s; echo %s%s" % (self.marks, mark, mark, "; sleep %g" % seconds if seconds else "")

    def starts(self, stack):
        out = collections.Counter()
        for name in os.listdir(self.marks):
            with open(self.marks + "/" + name, encoding="utf-8") as f:
                out[name] = len(f.readlines())
        return out

    def instances(self, executor):
        """{instance id: workspace or None} of what really lives."""
        out = {}
        for name in os.listdir(executor.root + "/a"):
            if name.endswith(".pid"):
                with contextlib.suppress(OSError, ValueError):
                    with open("%s/a/%s" % (executor.root, name), encoding="utf-8") as f:
                        with open("/proc/%d/stat" % int(f.read()), encoding="utf-8") as p:
                            if p.read().rsplit(")", 1)[1].split()[0] not in "ZX":
                                out[name[:-4]] = None
        return out

    @staticmethod
    def kill(executor, iid):
        """Its namespace's first process: the one that waits outside would leave it behind."""
        with open("%s/a/%s.pid" % (executor.root, iid), encoding="utf-8") as f:
            pid = int(f.read())
        with open("/proc/%d/task/%d/children" % (pid, pid), encoding="utf-8") as f:
            os.kill(int(f.read().split()[0]), signal.SIGKILL)


class Scripted(Kit):
    """The executor over a simulated control plane: one sandbox a user."""
    name, service, persistent = "scripted", {"provider": "host"}, True
    options = "[host]\ni_understand = yes\n"

    def __init__(self, build, root):
        super().__init__()
        self.program = build + "/tests/lib/paddock-executor-scripted"
        os.mkdir(root + "/scripted")
        self.truth = ScriptedTruth(root + "/scripted")
        self.env["PADDOCK_SCRIPTED_DIR"] = root + "/scripted"

    @staticmethod
    def available(build):
        return os.access(build + "/tests/lib/paddock-executor-scripted", os.X_OK)

    @contextlib.contextmanager
    def away(self, _executor):
        """What the executor drives does not answer."""
        self.truth.script("any reject unavailable")
        try:
            yield
        finally:
            self.truth.script()

    def command(self, mark, seconds=0):
        return "echo %s%s" % (mark, "; sleep %g" % seconds if seconds else "")

    def starts(self, stack):
        marks, out = stack.mark_of_command(), collections.Counter()
        for c in self.truth.read().commands.values():
            out[marks.get(c.id)] += c.starts
        return out

    def instances(self, executor):
        return {i.id: i.workspace for i in self.truth.living()}

    def violations(self, _stack):
        return self.truth.read().violations

    def ever_made(self):
        return len(self.truth.read().instances)

    def running_ms(self, executor):
        return {i.id: i.running_ms() for i in self.truth.read().instances.values()}

    def vanish(self, executor, iid):
        self.truth.now("vanish", iid)
        until("it has vanished", lambda: iid not in self.instances(executor))
        self.truth.script()


class ExecutorNode(Executor):
    """An executor that can be armed and started again."""

    def __init__(self, build, provider, **options):
        super().__init__(build, **options)
        self.provider = provider
        with open(self.root + "/paddock.ini", "a", encoding="utf-8") as f:
            f.write("[service]\n" + "".join("%s = %s\n" % kv for kv in provider.service.items()) + provider.options)
        self.faults = Faults(self.root + "/faults")

    def spawn(self):
        with open(self.log, "ab") as out:
            return subprocess.Popen([self.provider.program, "--config", self.root + "/paddock.ini"], stdout=out, stderr=out, start_new_session=True,
                                    env=env_of({"PADDOCK_FAULT_FILE": self.faults.path, **self.provider.env}))

    def start(self):
        """A child of a dead one that has not come to its exec yet holds the lock on the state for a moment."""
        end = time.monotonic() + 3
        while True:
            try:
                return super().start()
            except AssertionError as e:
                if "another executor" not in str(e) or time.monotonic() >= end:
                    raise
                time.sleep(0.1)

    def dead(self):
        return self.process.poll() is not None

    def tail(self, n=60):
        with open(self.log, encoding="utf-8", errors="replace") as f:
            return "".join(f.readlines()[-n:])

    def stop(self):
        """As close(), but also when it is dead or deaf."""
        try:
            if self.dead():
                self.start()
            self.close()
        except (OSError, http.client.HTTPException, AssertionError, subprocess.TimeoutExpired):
            if not self.dead():
                self.kill()
            shutil.rmtree(self.root, ignore_errors=True)


class Host(Kit):
    """The executor and the launcher over provider host, as an account of their own."""
    name, service, persistent = "host", {"provider": "host"}, True
    options = "[host]\ni_understand = yes\n"
    host = {}   # what the executor's configuration says of it besides

    def __init__(self, _build, _root):
        super().__init__()
        self.truth = self.account = None

    @staticmethod
    def available(build):
        return host_lab.why_not(build) is None

    def executor(self, build, **options):
        made = HostExecutor(build, self.host, **options)
        self.truth, self.account = HostTruth(made.root + "/sandboxes"), made.account
        return made

    @contextlib.contextmanager
    def away(self, executor):
        """Nobody starts or removes a sandbox."""
        executor.launcher.kill()
        executor.launcher.wait()
        try:
            yield
        finally:
            executor.start_launcher()

    def command(self, mark, seconds=0):
        return "echo x >>/home/user/workspace/%s; echo %s%s" % (mark, mark, "; sleep %g" % seconds if seconds else "")

    def starts(self, stack):
        out = collections.Counter()
        for folder, _, names in os.walk(stack.executor.root + "/ws"):
            for name in names:
                if re.fullmatch("m[0-9a-f]{12}", name):
                    with open(folder + "/" + name, encoding="utf-8") as f:
                        out[name] = len(f.readlines())
        return out

    def instances(self, _executor):
        return self.truth.living()

    def violations(self, stack):
        left = {os.path.basename(group)[len("host-"):] for group in self.account.groups()}
        owners = stack.session.json("SELECT a.object, u.name FROM audit a JOIN users u ON u.id = a.user_id WHERE a.action IN ('sandbox.create', 'sandbox.rebuild')")
        return self.truth.violations({o["object"]: o["name"] for o in owners}) + ["the control group of %s is left" % iid for iid in left - set(self.truth.living())]

    def ever_made(self):
        return self.truth.ever_made()

    def running_ms(self, executor):
        return {i["id"]: i["running_ms"] for i in executor.call("GET", "/v1/instances").json["items"] if i["state"] != "gone"}


class HostExecutor(Lab):
    """What ExecutorNode is to the others. Both programs read the same file of faults."""

    def __init__(self, build, host, **options):
        super().__init__(build, **host)
        self.faults = Faults(self.fault)
        with open(self.root + "/paddock.ini", encoding="utf-8") as f:
            text = f.read()
        with open(self.root + "/paddock.ini", "w", encoding="utf-8") as f:
            f.write(text.replace("[executor]\n", "[executor]\n" + "".join("%s = %s\n" % kv for kv in options.items())))

    def dead(self):
        return self.process.poll() is not None

    def tail(self, n=60):
        return "".join(self.said().splitlines(True)[-n:])

    def stop(self):
        try:
            self.close()
        except (OSError, http.client.HTTPException, AssertionError, subprocess.TimeoutExpired):
            if not self.dead():
                self.kill()


class User:
    """One account and its token, on a node."""

    def __init__(self, stack, name, node=None):
        self.stack, self.name, self.node = stack, name, node or stack.nodes[0]
        self.token = stack.make_user(name)
        self.marks = []

    def on(self, node):
        other = object.__new__(User)
        other.__dict__.update(self.__dict__, node=node)
        return other

    def call(self, method, target, body=None, key=None, timeout=30):
        return self.node.call(method, target, body, self.token, key, timeout)

    def again(self, method, target, body=None, key=None, fine=(200, 201, 202, 204), timeout=30):
        """Asks until the answer is one of those, as a client does that is told to come back. Gives the last answer."""
        last = [None]

        def ask():
            try:
                last[0] = self.call(method, target, body, key)
            except (OSError, ConnectionError) as e:
                last[0] = e
                return False
            return last[0].status in fine
        until(lambda: "%s %s gives %r, last %r" % (method, target, fine, last[0]), ask, timeout, 0.05)
        return last[0]

    def mark(self, seconds=0):
        """A new mark and the command that leaves it."""
        mark = "m" + secrets.token_hex(6)
        self.marks.append(mark)
        return mark, self.stack.provider.command(mark, seconds)

    def run(self, lease_ms=60000, **fields):
        """A claimed Run: (id, lease token)."""
        o = self.again("POST", "/api/runs", {"thread_id": "t" + secrets.token_hex(6), "claim": {"worker_id": "w", "lease_ms": lease_ms}, **fields}).json
        return o["id"], o["lease_token"]

    def body(self, command, lease=None, **more):
        """Of a request that starts a command: in a Run in the background, or (without a lease) in a Run of its own."""
        return {"command": command, **self.stack.provider.place, **({"lease_token": lease, "background": True} if lease else {}), **more}

    def start(self, run, lease, command, key=None):
        return self.again("POST", "/api/runs/%s/commands" % run, self.body(command, lease), key).json["id"]

    def execute(self, command, key=None):
        return self.again("POST", "/api/execute", self.body(command), key).headers["X-Paddock-Command"]

    def command(self, cid):
        return self.again("GET", "/api/commands/" + cid).json

    def ended(self, cid, timeout=40):
        last = [None]

        def over():
            last[0] = self.command(cid)
            return last[0]["status"] in ("exited", "lost") and last[0]
        return until(lambda: "command %s ends: %r" % (cid, last[0]), over, timeout, 0.05)

    def file_operation(self, command):
        """What the service does to this user's files by that command, which has its standard input open. No request starts one: the rules do."""
        done = subprocess.run([self.stack.build + "/tests/lib/file-operation", self.node.conf, self.token, command], check=True, capture_output=True, text=True, timeout=30,
                              env=env_of({}))
        return done.stdout.strip()

    def started(self, cid, timeout=20):
        return until("command %s runs" % cid, lambda: self.command(cid)["status"] != "pending", timeout, 0.03)

    def finish(self, run, lease, status="completed"):
        return self.again("POST", "/api/runs/%s/finish" % run, {"lease_token": lease, "status": status}, fine=(200, 409))

    def cancel(self, run):
        return self.again("POST", "/api/runs/%s/cancel" % run, fine=(200, 409))

    def sandbox(self):
        """The row of the sandbox, if there is one."""
        rows = self.stack.session.json("SELECT s.* FROM user_sandboxes s JOIN users u ON u.id = s.user_id WHERE u.name = '%s'" % self.name)
        return rows[0] if rows else None

    def unrest(self):
        return [line for line in self.stack.unrest() if line.startswith(self.name + ":")]

    def leave_idle(self):
        """As if nobody had used the sandbox for an hour; an operation on it is as old as it is."""
        self.stack.session.rows("UPDATE user_sandboxes s SET op_at = op_at - interval '1 hour', last_activity_at = last_activity_at - interval '1 hour', "
                                "keep_until = NULL FROM users u WHERE u.id = s.user_id AND s.op_id IS NULL AND u.name = '%s'" % self.name)

    def get_run(self, run):
        return self.again("GET", "/api/runs/" + run).json


class Stack:
    """See above. `with Stack(...) as s:` starts all and takes all down again."""

    def __init__(self, cluster, provider_class, nodes=1, executor_options=None, **options):
        self.cluster, self.build = cluster, cluster.build
        self.root = tempfile.mkdtemp(prefix="pdk-s-")
        os.chmod(self.root, 0o755)
        self.pepper = secrets.token_bytes(32)
        self.provider = provider_class(self.build, self.root)
        self.db = cluster.database()
        self.session = cluster.session(self.db)
        self.executor = self.provider.executor(self.build, **(executor_options or {}))
        self.nodes = [Node(self, i, **options) for i in range(nodes)]

    def __enter__(self):
        try:
            self.executor.start()
            for node in self.nodes:
                node.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for node in self.nodes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                node.stop()
            node.stop(signal.SIGKILL)
        if self.executor.process:
            self.executor.stop()
        self.session.close()
        if os.environ.get("PADDOCK_KEEP"):
            print("kept: " + self.root)
        else:
            shutil.rmtree(self.root, ignore_errors=True)

    def make_user(self, name, kind="user"):
        ident, secret = secrets.token_hex(6), secrets.token_hex(32)
        token = "pdk_%s_%s" % (ident, secret)
        digest = hashlib.blake2b(token.encode(), key=self.pepper, digest_size=32).hexdigest()
        self.session.rows("INSERT INTO users (id, name) VALUES ('%s', '%s') ON CONFLICT (name) DO NOTHING" % (uuid.uuid4(), name))
        self.session.rows("INSERT INTO tokens (id, user_id, kind, hash) SELECT '%s', id, '%s', '\\x%s' FROM users WHERE name = '%s'" % (ident, kind, digest, name))
        return token

    def books(self):
        """What the executor's books have and is not gone: {id: Instance}."""
        items = self.executor.call("GET", "/v1/instances").json["items"]
        return {i["id"]: i for i in items if i["state"] != "gone"}

    # --- what must hold at rest ---

    def unrest(self):
        """What somebody still has to do; empty when the service is at rest."""
        return self.session.rows("""
            SELECT u.name || ': Run ' || r.id || ' ' || r.status || CASE WHEN r.cleanup_pending THEN ' with clean-up pending: ' || coalesce(r.cleanup_error, '-') ELSE '' END
            FROM runs r JOIN users u ON u.id = r.user_id WHERE r.ended_at IS NULL AND r.status <> 'pending' OR r.cleanup_pending
            UNION ALL SELECT u.name || ': command ' || c.id || ' ' || c.status FROM sandbox_commands c JOIN users u ON u.id = c.user_id WHERE c.ended_at IS NULL
            UNION ALL SELECT u.name || ': sandbox ' || s.state FROM user_sandboxes s JOIN users u ON u.id = s.user_id WHERE s.op_id IS NOT NULL
            UNION ALL SELECT u.name || ': instance ' || i.id || ' retired, ' || i.destroy_tries || ' tries: ' || coalesce(i.destroy_error, '-') FROM instances i
            JOIN users u ON u.id = i.user_id WHERE i.retired_at IS NOT NULL AND i.quarantined_at IS NULL""")

    def settle(self, timeout):
        """Waits for rest; gives what is still to do after that time."""
        with contextlib.suppress(AssertionError):
            until("rest", lambda: not self.unrest(), timeout, 0.2)
        return self.unrest()

    def disagreements(self):
        """Between rows, the executor's books and what really is, a line each, beginning with the user's name where one is known."""
        out = []
        ledger = {r["id"]: r for r in self.session.json("SELECT i.id, u.name, i.run_id, i.retired_at FROM instances i JOIN users u ON u.id = i.user_id")}
        books, real = self.books(), self.provider.instances(self.executor)

        def owner(iid):
            return ledger[iid]["name"] if iid in ledger else books[iid]["workspace"] if iid in books else real.get(iid) or "?"
        for iid in sorted(set(ledger) | set(books) | set(real)):
            where = (iid in ledger, iid in books, iid in real)
            if where != (True, True, True):
                out.append("%s: instance %s: ledger %s, executor %s, provider %s" % ((owner(iid), iid) + where))
        for name, n in collections.Counter(owner(iid) for iid in real).items():
            if self.provider.persistent and n > 1:
                out.append("%s: %d instances" % (name, n))
        out += self.session.rows("""
            SELECT u.name || ': the sandbox''s row names ' || coalesce(s.instance_id::text, 'none') || ', the ledger ' || coalesce(i.id::text, 'none')
            FROM user_sandboxes s JOIN users u ON u.id = s.user_id LEFT JOIN instances i ON i.user_id = s.user_id AND i.run_id IS NULL AND i.retired_at IS NULL
            WHERE s.instance_id IS DISTINCT FROM i.id
            UNION ALL SELECT u.name || ': the sum of usage is ' || s.usage_ms || ', its stretches are ' || coalesce(sum(l.ms), 0) FROM user_sandboxes s JOIN users u ON u.id = s.user_id
            LEFT JOIN sb_usage_log l ON l.user_id = s.user_id GROUP BY u.name, s.usage_ms HAVING s.usage_ms <> coalesce(sum(l.ms), 0)""")
        states = {r["instance_id"]: r for r in self.session.json("SELECT s.instance_id, s.state, u.name FROM user_sandboxes s JOIN users u ON u.id = s.user_id "
                                                                 "WHERE s.instance_id IS NOT NULL")}
        for iid, row in states.items():
            if iid in books and row["state"] != books[iid]["state"]:
                out.append("%s: its row says %s, the executor %s" % (row["name"], row["state"], books[iid]["state"]))
        return out

    def mark_of_command(self):
        """{command id: mark}"""
        found = {}
        for r in self.session.json("SELECT id, command FROM sandbox_commands WHERE command IS NOT NULL"):
            m = re.search(r"\bm[0-9a-f]{12}\b", r["command"])
            if m:
                found[r["id"]] = m.group()
        return found

    def usage_errors(self):
        """Where the running time on record is more than a second from the provider's own. Of a Run's own instance: is on record more than once, or is less than a command's in it by as much."""
        if not self.provider.persistent:
            return [r["line"] for r in self.session.json("""
                SELECT u.name || ': instance ' || c.instance_id || ': ' || coalesce(l.ms, 0) || ' ms on record in ' || coalesce(l.n, 0) || ' stretches, a command ran ' || max(c.duration_ms) AS line
                FROM sandbox_commands c JOIN users u ON u.id = c.user_id LEFT JOIN (SELECT instance_id, count(*) AS n, sum(ms) AS ms FROM sb_usage_log GROUP BY 1) l USING (instance_id)
                WHERE c.duration_ms IS NOT NULL GROUP BY u.name, c.instance_id, l.ms, l.n HAVING coalesce(l.n, 0) > 1 OR coalesce(l.ms, 0) < max(c.duration_ms) - 1000""")]
        rows = {r["instance_id"]: r for r in self.session.json("""
            SELECT l.instance_id, u.name, sum(l.ms + CASE WHEN l.ended_at IS NULL THEN 1000 * extract(epoch FROM clock_timestamp() - i.usage_at) ELSE 0 END) AS ms
            FROM sb_usage_log l JOIN users u ON u.id = l.user_id LEFT JOIN instances i ON i.id = l.instance_id GROUP BY 1, 2""")}
        real = self.provider.running_ms(self.executor)
        return ["%s: instance %s: %s ms on record, %d ran" % (rows[iid]["name"] if iid in rows else "?", iid, rows.get(iid, {}).get("ms"), ms)
                for iid, ms in real.items() if abs((rows[iid]["ms"] if iid in rows else 0) - ms) > 1000]
