"""The executor's side of the agent protocol, written from docs/agent-protocol.md and from nothing else; and a place to run the agent
in without an engine: its own pid namespace, four capabilities."""

import array
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time

HELLO, SYNCED, STARTED, EXITED, STDIN_TAKEN, NOT_RUNNING, SCOPE_ENDED = 1, 2, 3, 4, 5, 6, 7
CONFIG, EXEC, STDIN, SIGNAL, KILL, EXIT_ACK, SCOPE_END = 16, 17, 18, 19, 20, 21, 22
ENDS = ["exited", "signaled", "not_started"]
WHYS = ["none", "timeout", "killed"]
STAGES = ["", "agent", "pipes", "fork", "limits", "user", "cwd", "exec"]


def text(s):
    b = s if isinstance(s, bytes) else s.encode()
    return struct.pack("<I", len(b)) + b + b"\0"


def vector(v):
    return struct.pack("<I", len(v)) + b"".join(text(s) for s in v)


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, fmt):
        v = struct.unpack_from("<" + fmt, self.data, self.at)
        self.at += struct.calcsize("<" + fmt)
        return v[0] if len(v) == 1 else v

    def text(self):
        n = self.take("I")
        s = self.data[self.at:self.at + n]
        assert self.data[self.at + n] == 0
        self.at += n + 1
        return s.decode()


class Peer:
    """One executor's life: listens, takes the agent's connection, keeps what it was told. close() is its death."""

    def __init__(self, path, token="secret", nofile=1024, nproc=0, nice=5, oom=500, configure=True):
        self.path, self.token = path, token
        self.limits = (nofile, nproc, nice, oom)
        self.configure = configure
        if os.path.exists(path):
            os.unlink(path)
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(path)
        os.chmod(path, 0o666)
        self.listener.listen(4)
        self.sock, self.buf, self.fds = None, b"", []
        self.pipes = {}          # exec id -> [out, err]
        self.started, self.exited, self.taken = {}, {}, {}
        self.not_running, self.scopes_ended = [], []
        self.synced = False
        self.hello = None

    def close(self):
        for s in (self.sock, self.listener):
            if s:
                s.close()
        for fd in self.fds + [fd for p in self.pipes.values() for fd in p if fd >= 0]:
            os.close(fd)
        self.sock = self.listener = None
        self.pipes, self.fds = {}, []

    def frame(self, kind, payload=b""):
        self.sock.sendall(struct.pack("<IBBH", len(payload), kind, 0, 0) + payload)

    def accept(self, timeout=5):
        self.listener.settimeout(timeout)
        self.sock, _ = self.listener.accept()
        self.until(lambda: self.hello)
        if self.configure:
            self.frame(CONFIG, struct.pack("<IIIii", 2, *self.limits))
            self.until(lambda: self.synced)
        return self

    def exec(self, eid, argv=None, command=None, cwd="/tmp", env=(), timeout_ms=60000, make_cwd=False, stdin_open=False,
             scope="run", clean=False):
        body = text(eid) + text(scope) + struct.pack("<BBBBq", command is not None, make_cwd, stdin_open, clean, timeout_ms) + text(cwd)
        body += text(command) if command is not None else vector(argv)
        self.frame(EXEC, body + vector(env))

    def stdin(self, eid, offset, data, eof=False):
        self.frame(STDIN, text(eid) + struct.pack("<QBI", offset, eof, len(data)) + data)

    def signal(self, eid, signo):
        self.frame(SIGNAL, text(eid) + struct.pack("<i", signo))

    def kill(self, eid):
        self.frame(KILL, text(eid))

    def ack(self, eid):
        self.frame(EXIT_ACK, text(eid))

    def scope_end(self, scope):
        self.frame(SCOPE_END, text(scope))

    def take_frame(self, kind, nfds, r):
        if kind == HELLO:
            self.hello = (r.take("I"), r.take("I"), r.text())
            assert self.hello[2] == self.token
        elif kind == SYNCED:
            self.synced = True
        elif kind == STARTED:
            assert nfds == 2
            eid = r.text()
            for fd in self.pipes.get(eid, []):
                if fd >= 0:
                    os.close(fd)
            self.pipes[eid] = [self.fds.pop(0), self.fds.pop(0)]
            adopted, pgid, wall, taken = r.take("Biqq")
            self.started[eid] = dict(adopted=bool(adopted), pgid=pgid, wall=wall, taken=taken)
        elif kind == EXITED:
            eid = r.text()
            end, why, stage, code, wall = r.take("BBBiq")
            self.exited[eid] = dict(end=ENDS[end], why=WHYS[why], stage=STAGES[stage], code=code, wall=wall)
        elif kind == STDIN_TAKEN:
            eid = r.text()
            self.taken[eid] = r.take("QQ")
        elif kind == NOT_RUNNING:
            self.not_running.append((r.text(), bool(r.take("B"))))
        elif kind == SCOPE_ENDED:
            self.scopes_ended.append(r.text())
        else:
            raise AssertionError("frame type %d" % kind)
        assert r.at == len(r.data), "bytes after the payload"

    def pump(self, timeout):
        """Takes what has come; False at the end of the connection."""
        if not select.select([self.sock], [], [], timeout)[0]:
            return True
        fds = array.array("i")
        try:
            data, anc, flags, _ = self.sock.recvmsg(65536, socket.CMSG_SPACE(64 * fds.itemsize))
        except ConnectionResetError:
            return False
        assert not flags & socket.MSG_CTRUNC
        for level, kind, d in anc:
            assert (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS)
            fds.frombytes(d)
        self.fds += list(fds)
        if not data:
            return False
        self.buf += data
        while len(self.buf) >= 8:
            n, kind, flags, nfds = struct.unpack_from("<IBBH", self.buf)
            if len(self.buf) < 8 + n:
                break
            payload, self.buf = self.buf[8:8 + n], self.buf[8 + n:]
            assert flags == 0
            self.take_frame(kind, nfds, Reader(payload))
        return True

    def until(self, what, timeout=20):
        end = time.monotonic() + timeout
        while not what():
            left = end - time.monotonic()
            assert left > 0, "nothing within %d s" % timeout
            assert self.pump(left), "the agent hung up"

    def wait(self, eid, timeout=20):
        self.until(lambda: eid in self.exited, timeout)
        return self.exited[eid]

    def read(self, eid, which=0):
        """What the pipe holds now."""
        out = b""
        while True:
            try:
                b = os.read(self.pipes[eid][which], 1 << 20)
            except BlockingIOError:
                return out
            if not b:
                return out
            out += b

    def run(self, eid, timeout=20, **how):
        """A command from start to acknowledged end: its exit, stdout, stderr. Only what fits the pipes."""
        self.exec(eid, **how)
        e = self.wait(eid, timeout)
        out = [self.read(eid, i) for i in (0, 1)] if eid in self.pipes else [b"", b""]
        self.ack(eid)
        return e, out[0], out[1]


# A home of its own, then the words that follow. The program is opened before, for it may lie below /home.
HOME = """exec 9<"$1" && mount -t tmpfs -o mode=755 none /home && mkdir /home/user && chown 1000:1000 /home/user && shift && exec "$@" """


class Agent:
    """The agent as process 1 of a pid namespace, by default with the capabilities that it has in a container."""

    def __init__(self, program, token="secret", bounding="-all,+setuid,+setgid,+setpcap,+kill"):
        self.dir = tempfile.mkdtemp(prefix="paddock-agent-")
        os.chmod(self.dir, 0o711)
        self.path = os.path.join(self.dir, "s")
        self.proc = subprocess.Popen(
            ["unshare", "--fork", "--pid", "--mount-proc", "--", "sh", "-c", HOME, "sh", program, "setpriv", "--no-new-privs",
             "--bounding-set", bounding, "--", "/proc/self/fd/9", self.path],
            env={"PADDOCK_AGENT_TOKEN": token, "PATH": os.environ["PATH"], "OTHER": "secret too"}, stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)

    def pid(self):
        """The agent's pid as seen from here."""
        with open("/proc/%d/task/%d/children" % (self.proc.pid, self.proc.pid)) as f:
            return int(f.read().split()[0])

    def stop(self):
        if self.proc.poll() is None:
            # The agent first: its death is that of its whole namespace, and unshare's wait then ends.
            os.kill(self.pid(), signal.SIGKILL)
        self.proc.wait()
        shutil.rmtree(self.dir, ignore_errors=True)
