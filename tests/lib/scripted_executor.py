#!/usr/bin/python3
"""An executor of straw that keeps docs/executor-api.md to the letter, and fails as it is told.

    scripted_executor.py SOCKET STATE

It remembers everything in STATE (JSON, rewritten at each change), so that it can be killed and started again. Only tests use /control:

    POST /control {"lose": n}      the next n writing calls are carried out, their answers lost
                  {"refuse": n}    the next n calls are cut off before anything is done
                  {"busy": n}      the next n calls get 503
                  {"late_ms": n}   every answer comes so late
                  {"deaf": n}      the next n acknowledgements are forgotten although answered
                  {"slow_gone": n} a destroyed instance is `destroying` for the next n looks at it
                  {"slow_ready": n} the next n instances are `creating` until the test says otherwise
                  {"stuck": true}  destructions fail for good: `destroying`, stuck
                  {"forget": true} the journal of every acknowledged command is dropped
                  {"parts": […]}   the components of the health answer
    POST /control/end {"id"|"any": …, "code": n, "stdout": "…"}   a running command ends; with "timeout": true by its own timer
    POST /control/instance {"id"|"any": …, "state": "lost"|"failed"|"ready"|"paused"|"missing"|"forgotten", "running_ms": n}   missing: it has never heard of it,
                                   and there is none; forgotten: its books are lost, with what they had on commands; the instance is there
    GET  /control/state            {instances, commands, starts: {cid: n}, violations: […]}

Violations are what must never happen: a command started twice, a start in an instance that is gone, two instances of one Run or of one persistent workspace
alive at once (a scope of its own tells a persistent one), a pause under a running command."""

import http.server
import json
import os
import random
import socket
import socketserver
import sys
import threading
import time
import urllib.parse

ENDED = ("exited", "lost")


def now():
    t = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(t)) + ".%03dZ" % (t * 1000 % 1000)


class Model:
    def __init__(self, path):
        self.path = path
        self.changed = threading.Condition()
        self.faults = dict.fromkeys(("lose", "refuse", "busy", "late_ms", "deaf", "slow_gone", "slow_ready", "stuck"), 0)
        self.parts = []
        self.s = {"instances": {}, "commands": {}, "starts": {}, "acked": {}, "versions": {}, "violations": [], "scopes": [], "kept": 0, "hits": [],
                  "forgotten": {}}
        if os.path.exists(path):
            with open(path, encoding="utf-8") as f:
                self.s = json.load(f)

    def save(self):
        with open(self.path + ".new", "w", encoding="utf-8") as f:
            json.dump(self.s, f)
        os.rename(self.path + ".new", self.path)

    def touch(self, oid):
        self.s["versions"][oid] = self.s["versions"].get(oid, 0) + 1
        self.save()
        self.changed.notify_all()

    def fault(self, name):
        if self.faults[name] > 0:
            self.faults[name] -= 1
            return True
        return False

    def wrong(self, text):
        self.s["violations"].append(text)
        self.save()

    # instances
    def ensure(self, iid, workspace, replaces=None):
        i = self.s["instances"].get(iid)
        if i:
            return i
        if replaces:
            self.destroy(replaces)
        i = {"id": iid, "workspace": workspace, "state": "creating" if self.fault("slow_ready") else "ready", "created_at": now(), "ready_at": now(), "error": None,
             "limits": "nominal", "commands": 0, "running_ms": 0, "stuck": False}
        self.s["instances"][iid] = i
        self.touch(iid)
        return i

    def destroy(self, iid):
        i = self.s["instances"].setdefault(iid, {"id": iid, "workspace": "", "state": "gone", "created_at": now(), "ready_at": None, "error": None,
                                                 "limits": "nominal", "commands": 0, "stuck": False})
        if i["state"] == "gone":
            return i
        if self.faults["stuck"]:
            i.update(state="destroying", stuck=True, error={"code": "leftovers", "message": "it does not go"})
            self.touch(iid)
            return i
        for c in self.s["commands"].values():
            if c["instance"] == iid:
                self.end(c, "cancelled", signal=9)
        i["state"] = "destroying" if self.fault("slow_gone") else "gone"
        self.touch(iid)
        return i

    def open_in(self, iid):
        return [c for c in self.s["commands"].values() if c["instance"] == iid and c["view"]["status"] not in ENDED]

    def rest(self, iid, body):
        """pause, wake: at once."""
        i = self.s["instances"].get(iid)
        if not i or i["state"] == "gone":
            return (410, "instance_gone") if i else (404, "not_found")
        if body == "pause" and (i["state"] not in ("ready", "paused") or self.open_in(iid)):
            return 409, "instance_busy"
        if body == "wake" and i["state"] not in ("ready", "paused"):
            return 409, "instance_not_ready"
        i["state"] = "paused" if body == "pause" else "ready"
        self.touch(iid)
        return 200, i

    def take_back(self, iid, body):
        """One that was made: in the books, or as the provider has it; or no more."""
        if iid not in self.s["instances"]:
            there = self.s["forgotten"].pop(iid, None)
            i = {"id": iid, "workspace": body["workspace"], "state": body["was"], "created_at": now(), "ready_at": None, "error": None, "limits": "nominal", "commands": 0,
                 "running_ms": body["running_ms"], "stuck": False}
            if not there:
                i.update(state="lost", error={"code": "instance_lost", "message": "it is no more"})
            self.s["instances"][iid] = i
            self.touch(iid)
        return self.s["instances"][iid]

    def end_scope(self, iid, scope, reason):
        if iid not in self.s["instances"] and scope not in self.s["scopes"]:
            return 404, "instance_not_found"
        if scope not in self.s["scopes"]:
            self.s["scopes"].append(scope)
        for c in self.s["commands"].values():
            if c["scope"] == scope and c["view"]["status"] not in ENDED:
                if c["instance"] != iid:
                    self.wrong("scope %s is ended in %s, its command is in %s" % (scope, iid, c["instance"]))
                self.end(c, reason, signal=9, timeout="run" if reason == "timeout" else None)
        self.save()
        return 200, {"state": "gone"}

    def instance_state(self, iid, state, running_ms=None):
        i = self.s["instances"][iid]
        if running_ms is not None:
            i["running_ms"] = running_ms
        if state in ("missing", "forgotten"):
            if state == "forgotten":
                self.s["forgotten"][iid] = True
                self.s["commands"] = {cid: c for cid, c in self.s["commands"].items() if c["instance"] != iid}
            del self.s["instances"][iid], self.s["versions"][iid]
            self.s["acked"].pop(iid, None)
            self.save()
            return
        i["state"] = state
        if state in ("ready", "paused"):
            self.touch(iid)
            return
        i["error"] = {"code": "instance_" + state, "message": "told so by the test"}
        for c in self.s["commands"].values():
            if c["instance"] == iid and c["view"]["status"] not in ENDED:
                c["view"].update(status="lost", reason="lost", ended_at=now())
                self.touch(c["view"]["id"])
        self.touch(iid)

    # commands
    def start(self, cid, b):
        iid = b["instance"]
        scope = b.get("scope", iid)
        if b.get("kind") == "file" and b["env"]:
            return 400, "bad_field"
        i = self.s["instances"].get(iid)
        if not i and "create" not in b:
            return 404, "instance_not_found"
        i = i or self.ensure(iid, b["create"]["workspace"], b["create"].get("replaces"))
        if scope in self.s["scopes"]:
            return 410, "scope_gone"
        if i["state"] == "paused":
            i["state"] = "ready"
            self.touch(iid)
        if i["state"] not in ("ready", "lost") or (i["state"] == "lost" and scope == iid):
            return 410, "instance_gone"
        if scope != iid:
            for other in self.s["instances"].values():
                if other["id"] != iid and other["workspace"] == i["workspace"] and other["state"] in ("ready", "paused", "creating"):
                    self.wrong("workspace %s has instances %s and %s at once" % (i["workspace"], iid, other["id"]))
        run = b["record"]["run_id"]
        for c in self.s["commands"].values():
            other = self.s["instances"][c["instance"]]
            if c["view"]["run_id"] == run and c["instance"] != iid and other["state"] not in ("gone", "lost"):
                self.wrong("run %s has instances %s and %s at once" % (run, iid, c["instance"]))
        self.s["starts"][cid] = self.s["starts"].get(cid, 0) + 1
        if self.s["starts"][cid] > 1:
            self.wrong("command %s was started twice" % cid)
        view = dict(b["record"], status="running", reason=None, timeout=None, exit_code=None, signal=None, process_group=42, started_at=now(), ended_at=None, duration_ms=None,
                    stdout_bytes=0, stderr_bytes=0, stdout_truncated=False, stderr_truncated=False, error=None)
        c = {"instance": iid, "scope": scope, "view": view, "stdout": "", "stderr": "", "env": sorted(b["env"]), "make_cwd": b["make_cwd"], "stdin": b.get("stdin_base64"),
             "timer": b["timer"]}
        self.s["commands"][cid] = c
        if i["state"] == "lost":
            self.not_started(c, "sandbox_not_found")
        elif b["cwd"] == "/nowhere":
            self.not_started(c, "cwd_not_found")
        self.touch(cid)
        return 201, c

    def end(self, c, reason, code=None, signal=None, stdout="", timeout=None):
        v = c["view"]
        if v["status"] in ENDED:
            return
        c["stdout"] = stdout
        v.update(status="exited", reason=reason, timeout=timeout, exit_code=code, signal=signal, ended_at=now(), duration_ms=5, stdout_bytes=len(stdout))
        self.touch(v["id"])

    def not_started(self, c, code):
        self.end(c, "not_started")
        c["view"].update(started_at=None, process_group=None, error={"code": code, "message": code})

    def texts(self, c):
        return dict(c["view"], stdout=c["stdout"], stderr=c["stderr"], stdout_encoding="utf-8", stderr_encoding="utf-8")

    def reports(self, limit):
        out = []
        for oid, version in self.s["versions"].items():
            if self.s["acked"].get(oid, 0) >= version or len(out) >= limit:
                continue
            key = "%s/%d" % (oid, version)
            if oid in self.s["commands"]:
                c = self.s["commands"][oid]
                out.append({"key": key, "kind": "command", "command": self.texts(c) if c["view"]["status"] in ENDED else c["view"]})
            elif oid in self.s["instances"]:
                out.append({"key": key, "kind": "instance", "instance": self.s["instances"][oid]})
        random.shuffle(out)
        return out

    def ack(self, keys):
        if self.fault("deaf"):
            return
        for key in keys:
            oid, _, version = key.partition("/")
            self.s["acked"][oid] = max(self.s["acked"].get(oid, 0), int(version))
        self.save()

    def forget(self):
        for cid in [c for c, v in self.s["commands"].items() if v["view"]["status"] in ENDED and self.s["acked"].get(c, 0) >= self.s["versions"][c]]:
            del self.s["commands"][cid], self.s["versions"][cid]
        self.save()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def address_string(self):
        return "unix"

    def answer(self, status, o=None):
        body = json.dumps(o).encode() if o is not None else b""
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def problem(self, status, code):
        self.answer(status, {"title": code, "status": status, "detail": code, "code": code})

    def cut(self):
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def serve(self):
        m = self.server.model
        url = urllib.parse.urlsplit(self.path)
        q = dict(urllib.parse.parse_qsl(url.query))
        n = int(self.headers.get("Content-Length") or 0)
        raw = self.rfile.read(n) if n else b""
        parts = url.path.strip("/").split("/")
        if parts[0] == "control":
            with m.changed:
                return self.control(m, parts[1:], json.loads(raw or b"{}"))
        with m.changed:
            if m.fault("refuse"):
                return self.cut()
            if m.fault("busy"):
                return self.problem(503, "unavailable")
            late = m.faults["late_ms"]
        time.sleep(late / 1000)
        if url.path == "/v1/reports" and self.command == "GET":
            return self.give_reports(m, int(q.get("wait_ms", 0)), int(q.get("limit", 500)))
        body = raw if len(parts) > 3 and parts[3] == "stdin" else json.loads(raw or b"{}")
        with m.changed:
            status, o = self.route(m, self.command, parts[1:], q, body)
            lost = self.command != "GET" and m.fault("lose")
        if lost:
            return self.cut()
        return self.problem(status, o) if status >= 400 else self.answer(status, o)

    def give_reports(self, m, wait_ms, limit):
        end = time.monotonic() + wait_ms / 1000
        with m.changed:
            while True:
                items = m.reports(limit)
                left = end - time.monotonic()
                if items or left <= 0:
                    break
                m.changed.wait(left)
        self.answer(200, {"items": items})

    def route(self, m, verb, p, q, body):
        if p == ["health"]:
            return 200, {"status": "ok" if all(c["ok"] for c in m.parts) else "degraded", "components": m.parts}
        if p == ["reports", "ack"]:
            m.ack(body["keys"])
            return 204, None
        if p == ["instances"]:
            return 200, {"items": list(m.s["instances"].values())}
        if p[0] == "instances":
            return self.one_instance(m, verb, p[1], p[2:], q, body)
        if p == ["commands", "query"]:
            return 200, {"items": [m.s["commands"][i]["view"] for i in body["ids"] if i in m.s["commands"]]}
        return self.one_command(m, verb, p[1], p[2:], q, body)

    def one_instance(self, m, verb, iid, rest, q, body):
        if rest and rest[0] == "scopes":
            return m.end_scope(iid, rest[1], q.get("reason", "cancelled"))
        if rest == ["keepalive"]:
            if not 1 <= body["ms"] <= 86400000:
                return 400, "bad_field"
            i = m.s["instances"].get(iid)
            if not i or i["state"] != "ready":
                return (409, "instance_not_ready") if i else (404, "not_found")
            m.s["kept"] += 1
            return 200, i
        if rest:
            return m.rest(iid, rest[0])
        if verb == "DELETE" and q.get("forget"):
            m.s["instances"][iid]["state"] = "gone"
            m.touch(iid)
            return 200, m.s["instances"][iid]
        if verb == "DELETE":
            i = m.destroy(iid)
            return (200 if i["state"] == "gone" else 202), i
        if verb == "PUT" and "was" in body:
            return 200, m.take_back(iid, body)
        if verb == "PUT":
            i = m.ensure(iid, body["workspace"], body.get("replaces"))
            return (410, "instance_gone") if i["state"] == "gone" else (200, i)
        return (200, m.s["instances"][iid]) if iid in m.s["instances"] else (404, "not_found")

    def one_command(self, m, verb, cid, rest, q, body):
        c = m.s["commands"].get(cid)
        if verb == "PUT":
            status = 200
            if not c:
                status, c = m.start(cid, body)
            if status >= 400:
                return status, c
            return status, dict({"command": c["view"]}, **({"ticket": "t-" + cid} if "ticket" in body else {}))
        if not c:
            return 404, "not_found"
        if verb == "GET":
            return 200, m.texts(c) if q.get("texts") else c["view"]
        if rest == ["tickets"]:
            return 201, {"ticket": "t-" + cid}
        if c["view"]["status"] in ENDED:
            return 409, "not_running"
        if rest in (["kill"], ["signal"]):
            m.s["hits"].append([rest[0], cid, body.get("instance")])
            if body.get("instance", c["instance"]) != c["instance"]:
                return 409, "other_instance"
        if rest == ["kill"]:
            reason = body.get("reason", "cancelled")
            m.end(c, reason, signal=9, timeout="run" if reason == "timeout" else None)
            return 202, {}
        return 202, {"received_bytes": len(body) if isinstance(body, bytes) else 0}

    def control(self, m, p, body):
        if p == ["state"]:
            return self.answer(200, m.s)
        if p == ["end"]:
            running = [c for c in m.s["commands"].values() if c["view"]["status"] == "running"]
            c = m.s["commands"].get(body.get("id")) if "id" in body else random.choice(running) if running else None
            if c:
                if body.get("timeout"):
                    m.end(c, "timeout", signal=9, stdout=body.get("stdout", ""), timeout=c["timer"])
                else:
                    m.end(c, "exited", code=body.get("code", 0), stdout=body.get("stdout", ""))
        elif p == ["instance"]:
            ready = [i for i, v in m.s["instances"].items() if v["state"] == "ready"]
            iid = body.get("id") or (random.choice(ready) if ready else None)
            if iid:
                m.instance_state(iid, body["state"], body.get("running_ms"))
        else:
            if body.pop("forget", False):
                m.forget()
            m.parts = body.pop("parts", m.parts)
            m.faults.update(body)
        return self.answer(200, {})

    do_GET = do_POST = do_PUT = do_DELETE = serve


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, *_):
        pass


def main():
    path, state = sys.argv[1:3]
    if os.path.exists(path):
        os.unlink(path)
    with Server(path, Handler) as server:
        server.model = Model(state)
        server.serve_forever()


if __name__ == "__main__":
    main()
