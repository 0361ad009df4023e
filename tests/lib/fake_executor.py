"""Stands in for the executor on a Unix socket: remembers what it was asked, answers as docs/executor-api.md says, and can be slow."""

import http.server
import json
import os
import socketserver
import threading
import time


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def address_string(self):
        return "unix"

    def _answer(self, status, o):
        body = json.dumps(o).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json" if status < 400 else "application/problem+json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _body(self):
        left, parts = int(self.headers.get("Content-Length") or 0), []
        while left:
            parts.append(self.rfile.read(min(left, 1 << 20)))
            left -= len(parts[-1])
        return b"".join(parts)

    def _serve(self):
        x = self.server.owner
        path, _, query = self.path.partition("?")
        body = self._body()
        with x.lock:
            x.calls.append((self.command, self.path, len(body)))
        if path.startswith("/v1/commands/") and x.delay_s:
            time.sleep(x.delay_s)
        parts = path.strip("/").split("/")
        if path == "/healthz":
            return self._answer(200, {"status": "ok"})
        if path == "/v1/health":
            x.unwell -= 1   # as the real one: what it says was seen at the look before
            ok = x.unwell < 0
            return self._answer(200, {"status": "ok" if ok else "degraded", "components": [{"name": "engine", "ok": ok, "hint": "no answer"}]})
        if path == "/v1/instances":
            return self._answer(200, {"items": []})
        if path.startswith("/v1/instances/"):
            return self._answer(200, {"id": parts[2], "state": "creating" if self.command == "PUT" else "gone"})
        if path == "/v1/reports":
            time.sleep(0.3)
            return self._answer(200, {"items": []})
        if path == "/v1/reports/ack":
            self.send_response(204)
            self.end_headers()
            return None
        if path == "/v1/commands/query":
            return self._answer(200, {"items": []})
        return self._command(x, parts[2], parts[3:], query, body)

    def _command(self, x, cid, rest, query, body):
        if self.command == "PUT" and x.full:
            return self._answer(507, {"title": "Insufficient Storage", "status": 507, "detail": "the journal is full", "code": "no_space"})
        if self.command == "PUT":
            o = json.loads(body)
            with x.lock:
                new = cid not in x.commands
                x.commands[cid] = dict(o["record"], status="running", reason=None, exit_code=None, signal=None, started_at=None, ended_at=None,
                                       duration_ms=None, stdout_bytes=0, stderr_bytes=0, stdout_truncated=False, stderr_truncated=False)
                x.requests[cid] = o
            return self._answer(201 if new else 200, dict(command=x.commands[cid], **({"ticket": "T-" + cid} if "ticket" in o else {})))
        if cid not in x.commands:
            return self._answer(404, {"title": "Not Found", "status": 404, "detail": "no such command", "code": "not_found"})
        if not rest:
            return self._answer(200, x.commands[cid])
        if rest == ["tickets"]:
            with x.lock:
                x.tickets.append(json.loads(body))
            return self._answer(201, {"ticket": "T-" + cid})
        if rest == ["stdin"]:
            with x.lock:
                x.stdin.setdefault(cid, []).append((len(body), "eof=1" in query))
                x.stdin_bytes[cid] = x.stdin_bytes.get(cid, b"") + body
            return self._answer(202, {"received_bytes": len(body)})
        return self._answer(202, {})

    do_GET = do_PUT = do_POST = do_DELETE = _serve


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 64

    def get_request(self):
        s, _ = super().get_request()
        return s, ("unix", 0)


class FakeExecutor:
    def __init__(self, path):
        self.path, self.lock, self.server = path, threading.Lock(), None
        self.calls, self.commands, self.requests, self.tickets, self.stdin, self.stdin_bytes = [], {}, {}, [], {}, {}
        self.delay_s = 0
        self.full = False
        self.unwell = 0    # health answers that are not well
        self.start()

    def start(self):
        if os.path.exists(self.path):
            os.unlink(self.path)
        self.server = _Server(self.path, _Handler)
        self.server.owner = self
        os.chmod(self.path, 0o666)
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
        os.unlink(self.path)
