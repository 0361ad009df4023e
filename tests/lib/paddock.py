"""Black-box access to one installed Paddock: HTTP with live streams, users and tokens, its processes, its database, its engine.

The instance is the one named by PADDOCK_INSTANCE (empty: the normal one). Nothing here knows more than an operator does: the HTTP
API, paddockctl, /proc. Every wait has a deadline."""

import base64
import http.client
import itertools
import json
import os
import pwd
import re
import signal
import socket
import ssl
import subprocess
import time
import urllib.parse
import uuid

TIMEOUT_S = 90


def _tls():
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


TLS = _tls()


def wait_for(what, check, timeout=20.0, every=0.05):
    """Calls check() until it answers something true and returns that; what names it when the time is over."""
    end = time.monotonic() + timeout
    while True:
        answer = check()
        if answer:
            return answer
        if time.monotonic() > end:
            raise AssertionError("not within %g s: %s" % (timeout, what() if callable(what) else what))
        time.sleep(every)


class Answer:
    """A whole HTTP answer."""

    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def code(self):
        """The stable code of a problem, None for anything else."""
        if "problem+json" not in (self.headers.get("Content-Type") or ""):
            return None
        return self.json.get("code")

    def ok(self, *statuses):
        assert self.status in (statuses or (200, 201, 202, 204)), "%d %s" % (self.status, self.body[:2000])
        return self

    def __repr__(self):
        return "Answer(%d, %r)" % (self.status, self.body[:400])


class Event:
    __slots__ = ("type", "data", "id")

    def __init__(self, kind, data, ident):
        self.type = kind
        self.data = data
        self.id = ident

    @property
    def bytes(self):
        if "base64" in self.data:
            return base64.b64decode(self.data["base64"], validate=True)
        return self.data["text"].encode()

    @property
    def seq(self):
        return self.data.get("seq")

    def __repr__(self):
        return "Event(%s, %s)" % (self.type, str(self.data)[:200])


class Stream:
    """An answer that is read while it arrives, on a connection of its own. `comments` counts keep-alive lines."""

    def __init__(self, connection, response):
        self.connection = connection
        self.response = response
        self.status = response.status
        self.headers = response.headers
        self.comments = 0
        self.clean_end = False
        self._buffer = b""

    def chunks(self, size=65536):
        while True:
            piece = self.response.read1(size)
            if not piece:
                self.clean_end = True
                return
            yield piece

    def lines(self):
        for piece in self.chunks():
            parts = (self._buffer + piece).split(b"\n")
            self._buffer = parts.pop()
            yield from parts

    def events(self):
        """Events in order of arrival, for both live forms."""
        if "ndjson" in (self.headers.get("Content-Type") or ""):
            yield from self._ndjson()
        else:
            yield from self._sse()
        assert self._buffer == b"", "the stream ends inside a line: %r" % self._buffer[:200]

    def _ndjson(self):
        for line in self.lines():
            if line.strip():
                data = json.loads(line)
                yield Event(data.pop("type"), data, None)
            else:
                self.comments += 1

    def _sse(self):
        kind, data, ident = None, [], None
        for line in self.lines():
            if line == b"":
                if data:
                    yield Event(kind, json.loads(b"\n".join(data)), ident)
                kind, data, ident = None, [], None
                continue
            if line.startswith(b":"):
                self.comments += 1
                continue
            field, _, value = line.partition(b":")
            value = value[1:] if value.startswith(b" ") else value
            if field == b"event":
                kind = value.decode()
            elif field == b"data":
                data.append(value)
            elif field == b"id":
                ident = value.decode()

    def read_all(self):
        return b"".join(self.chunks())

    def close(self):
        self.response.close()
        self.connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()


class Collected:
    """What a stream of events amounts to."""

    def __init__(self, events):
        self.start = self.exit = None
        self.stdout, self.stderr, self.merged = bytearray(), bytearray(), bytearray()
        self.gaps, self.events = [], []
        last = -1
        for event in events:
            assert self.exit is None, "%r after the exit event" % event
            self.events.append(event)
            if event.type == "start":
                assert self.start is None
                self.start = event.data
            elif event.type == "exit":
                self.exit = event.data
            elif event.type == "gap":
                self.gaps.append((event.data["from"], event.data["to"]))
            elif event.type in ("stdout", "stderr"):
                getattr(self, event.type).extend(event.bytes)
                self.merged.extend(event.bytes)
                assert event.seq > last, "seq goes backwards: %d after %d" % (event.seq, last)
                last = event.seq
            else:
                raise AssertionError("unknown event %r" % event)


class Client:
    """One caller (a token or none) with one kept connection; streams have connections of their own."""

    def __init__(self, instance, token=None, name=None):
        self.instance = instance
        self.token = token
        self.name = name
        self._kept = None

    def _headers(self, headers, body, as_json):
        all_headers = {}
        if self.token is not None:
            all_headers["Authorization"] = "Bearer " + self.token
        if as_json:
            all_headers["Content-Type"] = "application/json"
        all_headers.update(headers or {})
        return {k: v for k, v in all_headers.items() if v is not None}

    def _connect(self, timeout):
        return http.client.HTTPSConnection("127.0.0.1", self.instance.port, timeout=timeout, context=TLS)

    def request(self, method, path, body=None, *, json_body=None, headers=None, timeout=TIMEOUT_S):
        """One request on the kept connection; sent again only when a kept connection turns out to be closed before any answer."""
        if json_body is not None:
            body = json.dumps(json_body).encode()
        headers = self._headers(headers, body, json_body is not None)
        for attempt in (1, 2):
            fresh = self._kept is None
            if fresh:
                self._kept = self._connect(timeout)
            if self._kept.sock:
                self._kept.sock.settimeout(timeout)
            try:
                self._kept.request(method, path, body, headers)
                response = self._kept.getresponse()
                data = response.read()
            except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError, ssl.SSLEOFError):
                self.close()
                if fresh or attempt == 2:
                    raise
                continue
            except BaseException:
                self.close()
                raise
            if response.will_close:
                self.close()
            return Answer(response.status, response.headers, data)

    def get(self, path, **kw):
        return self.request("GET", path, **kw)

    def post(self, path, json_body=None, **kw):
        return self.request("POST", path, json_body=json_body if json_body is not None or "body" in kw else {}, **kw)

    def stream(self, method, path, body=None, *, json_body=None, headers=None, timeout=TIMEOUT_S, rcvbuf=None):
        if json_body is not None:
            body = json.dumps(json_body).encode()
        connection = self._connect(timeout)
        if rcvbuf:
            connection.sock = self._small_socket(rcvbuf, timeout)
        connection.request(method, path, body, self._headers(headers, body, json_body is not None))
        return Stream(connection, connection.getresponse())

    def _small_socket(self, rcvbuf, timeout):
        raw = socket.socket()
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        raw.settimeout(timeout)
        raw.connect(("127.0.0.1", self.instance.port))
        return TLS.wrap_socket(raw)

    def close(self):
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def clone(self):
        """The same caller with a connection of its own, for another thread."""
        return Client(self.instance, self.token, self.name)

    # What tests do all the time

    def execute(self, command, **fields):
        """Waits for one command in a Run of its own; the Command."""
        return self.post("/api/execute", _command(command, fields)).ok(200).json

    def run(self, thread_id=None, **fields):
        """A new Run."""
        body = {"thread_id": thread_id or "t-" + uuid.uuid4().hex, **fields}
        return self.post("/api/runs", body).ok(201).json

    def claimed(self, thread_id=None, lease_ms=120000, **fields):
        """A new Run, claimed by this caller: (run, lease_token)."""
        run = self.run(thread_id, claim={"worker_id": "test", "lease_ms": lease_ms}, **fields)
        return run, run.get("lease_token")

    def command(self, run_id, command, **fields):
        """Waits for one command in a Run; the Command."""
        return self.post("/api/runs/%s/commands" % run_id, _command(command, fields)).ok(200).json

    def background(self, run_id, command, **fields):
        return self.post("/api/runs/%s/commands" % run_id, _command(command, {"background": True, **fields})).ok(202).json

    def live(self, run_id, command, accept="text/event-stream", timeout=TIMEOUT_S, rcvbuf=None, **fields):
        """A command whose events are read live; run_id None: in a Run of its own."""
        path = "/api/runs/%s/commands" % run_id if run_id else "/api/execute"
        return self.stream("POST", path, json_body=_command(command, fields), headers={"Accept": accept}, timeout=timeout, rcvbuf=rcvbuf)

    def events(self, command_id, start=None, accept="text/event-stream", headers=None, query=None, timeout=TIMEOUT_S):
        query = dict(query or {})
        if start is not None:
            query["from"] = start
        path = "/api/commands/%s/events%s" % (command_id, "?" + urllib.parse.urlencode(query) if query else "")
        return self.stream("GET", path, headers={"Accept": accept, **(headers or {})}, timeout=timeout)

    def get_command(self, command_id):
        return self.get("/api/commands/" + command_id).ok(200).json

    def get_run(self, run_id):
        return self.get("/api/runs/" + run_id).ok(200).json

    def wait_command(self, command_id, timeout=30, states=("exited", "lost")):
        last = {}

        def check():
            last.update(self.get_command(command_id))
            return last["status"] in states
        wait_for(lambda: "command %s is %s: %s" % (command_id, states, last), check, timeout, 0.1)
        return last

    def wait_running(self, command_id, timeout=30):
        return self.wait_command(command_id, timeout, ("running", "exited", "lost"))

    def wait_run(self, run_id, timeout=30, clean=True):
        """Until the Run is in a final state and (clean) its duty to clean up is done."""
        last = {}

        def check():
            last.update(self.get_run(run_id))
            return last["status"] in FINAL and not (clean and last["runtime_cleanup_pending"])
        wait_for(lambda: "run %s is final%s: %s" % (run_id, " and clean" if clean else "", last), check, timeout, 0.1)
        return last

    def finish(self, run_id, lease_token=None, status="completed"):
        body = {"status": status}
        if lease_token:
            body["lease_token"] = lease_token
        return self.post("/api/runs/%s/finish" % run_id, body)

    def cancel(self, run_id):
        return self.post("/api/runs/%s/cancel" % run_id)


FINAL = ("completed", "failed", "cancelled", "yielded")


def _command(command, fields):
    body = {"argv": command} if isinstance(command, (list, tuple)) else {"command": command}
    body.update(fields)
    return body


def text(command, stream="stdout"):
    """A stream's bytes as the Command holds them."""
    value = command[stream] or ""
    return base64.b64decode(value) if command[stream + "_encoding"] == "base64" else value.encode()


class Proc:
    """What /proc says about one process."""

    @staticmethod
    def read(pid, name):
        try:
            with open("/proc/%d/%s" % (pid, name), "rb") as f:
                return f.read()
        except (FileNotFoundError, ProcessLookupError):
            return b""

    @staticmethod
    def all():
        return [int(n) for n in os.listdir("/proc") if n.isdigit()]

    @staticmethod
    def argv(pid):
        return Proc.read(pid, "cmdline").rstrip(b"\0").decode(errors="replace").replace("\0", " ")

    @staticmethod
    def exe(pid):
        try:
            return os.readlink("/proc/%d/exe" % pid).replace(" (deleted)", "")
        except OSError:
            return ""

    @staticmethod
    def ppid(pid):
        stat = Proc.read(pid, "stat").decode(errors="replace")
        return int(stat.rpartition(")")[2].split()[1]) if stat else 0

    @staticmethod
    def state(pid):
        stat = Proc.read(pid, "stat").decode(errors="replace")
        return stat.rpartition(")")[2].split()[0] if stat else ""

    @staticmethod
    def status(pid, key):
        match = re.search(r"^%s:\s*(\d+)" % key, Proc.read(pid, "status").decode(errors="replace"), re.M)
        return int(match[1]) if match else 0

    @staticmethod
    def rss(pid):
        """Resident bytes that are the process's own (no shared pages of files)."""
        return Proc.status(pid, "RssAnon") * 1024

    @staticmethod
    def fds(pid):
        try:
            return len(os.listdir("/proc/%d/fd" % pid))
        except OSError:
            return 0

    @staticmethod
    def links(pid):
        """What its descriptors are."""
        found = []
        try:
            names = os.listdir("/proc/%d/fd" % pid)
        except OSError:
            return found
        for fd in names:
            try:
                found.append(os.readlink("/proc/%d/fd/%s" % (pid, fd)))
            except OSError:   # closed meanwhile
                pass
        return found

    @staticmethod
    def cpu(pid, with_reaped=False):
        """CPU seconds so far; with_reaped adds those of its children that it has waited for."""
        stat = Proc.read(pid, "stat").decode(errors="replace")
        if not stat:
            return 0.0
        fields = stat.rpartition(")")[2].split()
        return sum(int(n) for n in fields[11:15 if with_reaped else 13]) / os.sysconf("SC_CLK_TCK")


class Instance:
    """An installed service and what belongs to it."""

    def __init__(self, name="", port=None):
        self.name = name
        self.suffix = "-" + name if name else ""
        self.port = int(port or os.environ.get("PADDOCK_HTTPS_PORT") or 8443)
        self.prefix = "/opt/paddock" + self.suffix
        self.etc = "/etc/paddock" + self.suffix
        self.state = "/var/lib/paddock" + self.suffix
        self.runtime = "/run/paddock" + self.suffix
        self.logs = "/var/log/paddock" + self.suffix
        self._names = itertools.count()
        self._psql = None
        self.callers = []
        self._salt = "%x" % (time.time_ns() // 1000000 % 0xfffffff)

    @classmethod
    def from_environment(cls):
        return cls(os.environ.get("PADDOCK_INSTANCE", ""))

    # Operator's commands

    def environment(self, **more):
        return {**os.environ, "PADDOCK_INSTANCE": self.name, "PADDOCK_HTTPS_PORT": str(self.port), **more}

    def ctl(self, *args, check=True, timeout=120, stdin=None):
        done = subprocess.run([self.prefix + "/bin/paddockctl", *args], env=self.environment(), input=stdin, capture_output=True,
                              text=True, timeout=timeout)
        if check and done.returncode != 0:
            raise AssertionError("paddockctl %s: %d\n%s%s" % (" ".join(args), done.returncode, done.stdout, done.stderr))
        return done.stdout if check else done

    def sql(self, query):
        """Rows of a query as dicts, through the read-only role. One psql is kept; a new one is tried while the database is away."""
        end = time.monotonic() + 30
        while True:
            try:
                return json.loads(self._psql_line("SELECT coalesce(json_agg(t), '[]') FROM (%s) t" % query))
            except (OSError, EOFError) as error:
                self._psql = None
                if time.monotonic() > end:
                    raise AssertionError("no answer from the database: %s" % error) from error
                time.sleep(0.2)

    def _psql_line(self, query):
        if self._psql is None or self._psql.poll() is not None:
            self._psql = subprocess.Popen([self.prefix + "/bin/paddockctl", "sql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"], text=True,
                                          env=self.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._psql.stdin.write("\\pset format unaligned\nSELECT replace((%s)::text, E'\\n', '') \\g\n" % query)
        self._psql.stdin.flush()
        line = self._psql.stdout.readline()
        if not line:
            error = self._psql.stderr.read()
            self._psql.wait()
            if "ERROR:" in error and "terminating connection" not in error:
                raise AssertionError(error)
            raise EOFError(error)
        return line

    def value(self, query):
        rows = self.sql(query)
        return next(iter(rows[0].values())) if rows else None

    def engine(self, *args, check=True):
        return self.ctl("engine", "--", *args, check=check)

    def containers(self):
        """Names of all containers of the instance's engine, half-made ones and storage-only entries included."""
        out = self.engine("ps", "-a", "--external", "--format", "{{.Names}}")
        return [line for line in out.split() if line]

    def left_of(self, user):
        """What there still is of a user's instances: containers, and directories of agent sockets."""
        ids = [row["id"] for row in self.sql(
            "SELECT a.instance_id AS id FROM run_attempts a JOIN runs r ON r.id = a.run_id JOIN users u ON u.id = r.user_id "
            "WHERE u.name = '%s' AND a.instance_id IS NOT NULL" % user.name)]
        return [name for name in self.containers() + os.listdir(self.runtime + "/agents") if any(ident in name for ident in ids)]

    def strays(self):
        """Processes of the engine's account that belong to a container, alive or half-made."""
        account = pwd.getpwnam("paddock" + self.suffix).pw_uid
        return [Proc.argv(p)[:200] for p in Proc.all() if Proc.status(p, "Uid") == account
                and Proc.read(p, "comm").strip() in (b"conmon", b"slirp4netns", b"runc", b"runc:[2:INIT]", b"paddock-netguar")]

    # Callers

    def user(self, name=None, admin=False, kind="user"):
        name = name or "u%s-%d" % (self._salt, next(self._names))
        self.ctl("users", "create", name, *(["--admin"] if admin else []))
        return self.login(name, kind)

    def login(self, name, kind="user"):
        token = self.ctl("tokens", "create", "--user", name, "--kind", kind).strip()
        assert token and "\n" not in token, "the secret is to stand alone on standard output: %r" % token
        self.callers.append(Client(self, token, name))
        return self.callers[-1]

    def end_runs(self):
        """Cancels what the callers of this process left open (tests that failed)."""
        for client in self.callers:
            try:
                for status in ("pending", "running"):
                    for run in client.get("/api/runs?limit=200&status=" + status).ok(200).json["items"]:
                        client.cancel(run["id"])
            except (OSError, http.client.HTTPException, AssertionError) as error:
                print("runs of %s could not be ended: %s" % (client.name, error))
            client.close()

    def anonymous(self):
        return Client(self)

    # Processes

    def processes(self):
        """role -> pids: executor, master, worker, janitor, nginx, nginx-worker, engine (its watcher), podman, postgres."""
        found = {role: [] for role in ("executor", "master", "worker", "janitor", "nginx", "nginx-worker", "engine", "podman", "postgres")}
        for pid in Proc.all():
            role = self._role(pid)
            if role:
                found[role].append(pid)
        return found

    def _role(self, pid):
        exe, argv = Proc.exe(pid), Proc.argv(pid)
        if Proc.state(pid) in ("Z", "X", ""):
            return None
        if exe == self.prefix + "/sbin/paddock-executor":
            return "executor"
        if exe == self.prefix + "/sbin/paddock-api":
            if Proc.exe(Proc.ppid(pid)) != exe:
                return "master"
            comm = Proc.read(pid, "comm").decode(errors="replace")
            return "janitor" if "janitor" in argv + comm else "worker"
        if exe == self.prefix + "/libexec/paddock/paddock-engine":
            return "engine"
        if exe.endswith("/podman") and "system service" in argv and self.runtime + "/" in argv:
            return "podman"
        if exe.endswith("/nginx"):
            if self.etc + "/nginx.conf" in argv:
                return "nginx"
            if self._front_of(pid):
                return "nginx-worker"
        if exe.endswith("/postgres") and " -D %s/pg" % self.state in argv:
            return "postgres"
        return None

    def pids(self, role):
        return self.processes()[role]

    def wait_replaced(self, role, old, timeout=30):
        """Until there are processes of that role and none of them is an old one."""
        def check():
            now = self.pids(role)
            return now and not set(now) & set(old)
        wait_for("a new " + role, check, timeout)

    def _front_of(self, pid):
        """Is it a worker of this instance's nginx, also one whose master is gone? Its log pipe and its port tell."""
        parent = Proc.ppid(pid)
        if Proc.exe(parent).endswith("/nginx"):
            return self.etc + "/nginx.conf" in Proc.argv(parent)
        return bool(self._listening() & set(Proc.links(pid)))

    def _listening(self):
        """Socket inodes that listen on the HTTPS port."""
        found = set()
        for table in ("/proc/net/tcp", "/proc/net/tcp6"):
            with open(table, encoding="ascii") as f:
                for line in f.readlines()[1:]:
                    fields = line.split()
                    if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == self.port:
                        found.add("socket:[%s]" % fields[9])
        return found

    def kill(self, pid, signo=signal.SIGKILL):
        try:
            os.kill(pid, signo)
            return True
        except ProcessLookupError:
            return False

    def memory(self):
        """Private resident bytes by role (all processes of a role together)."""
        return {role: sum(Proc.rss(p) for p in pids) for role, pids in self.processes().items()}

    def is_ready(self):
        try:
            return Client(self).get("/readyz", timeout=5).status == 200
        except (OSError, http.client.HTTPException):
            return False

    def wait_ready(self, timeout=60):
        wait_for(lambda: "ready: %s" % self._readiness(), self.is_ready, timeout, 0.2)

    def _readiness(self):
        try:
            return Client(self).get("/readyz", timeout=5).body
        except (OSError, http.client.HTTPException) as error:
            return error

    def restart_database(self, mode="immediate"):
        """What a crash of PostgreSQL looks like: the postmaster is told to drop everything; its supervisor starts it again."""
        for pid in self.pids("postgres"):
            self.kill(pid, signal.SIGQUIT if mode == "immediate" else signal.SIGINT)


class Sampler:
    """Highest private memory of each role while something goes on, in a child thread."""

    def __init__(self, instance, every=0.2):
        import threading
        self.instance, self.every = instance, every
        self.before = instance.memory()
        self.peak = dict(self.before)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def _work(self):
        while not self._stop.wait(self.every):
            for role, size in self.instance.memory().items():
                self.peak[role] = max(self.peak[role], size)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *unused):
        self._stop.set()
        self._thread.join()

    def grown(self, role):
        return self.peak[role] - self.before[role]

    def report(self):
        return ", ".join("%s %.1f->%.1f MiB" % (r, self.before[r] / 2**20, self.peak[r] / 2**20) for r in self.peak)
