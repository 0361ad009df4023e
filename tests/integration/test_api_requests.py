"""What a worker takes, refuses and answers; one table row a rule."""

import json
import re
import uuid

import fcgi_client
import pytest

from conftest import wait_for

NONE = str(uuid.UUID(int=0x0190_0000_0000_7000_8000_0000_0000_0000))


def test_every_answer_has_the_request_id(api):
    for target in ("/healthz", "/api/nothing", "/api/auth/me", "/a//b"):
        assert api.get(target, rid="abc-123").headers["X-Request-Id"] == "abc-123"
    assert api.get("/api/nothing", rid="abc-123").json["request_id"] == "abc-123"


def test_a_problem_has_all_its_members(api):
    a = api.get("/api/nothing")
    assert a.status == 404 and a.headers["Content-Type"] == "application/problem+json"
    assert set(a.json) == {"type", "title", "status", "detail", "code", "request_id"}


@pytest.mark.parametrize("method,target,allow", [
    ("DELETE", "/api/runs", "GET, HEAD, POST"), ("GET", "/api/execute", "POST"), ("BREW", "/healthz", "GET, HEAD"), ("PATCH", "/api/runs/" + NONE, "GET, HEAD"),
    ("POST", "/api/user/tokens/0123456789ab", "DELETE")])
def test_wrong_methods(api, method, target, allow):
    a = api.call(method, target)
    assert (a.status, a.code, a.headers["Allow"]) == (405, "method_not_allowed", allow)


@pytest.mark.parametrize("target,code", [
    ("/api//runs", "bad_path"), ("/api/./runs", "bad_path"), ("/api/%2e%2e/runs", "bad_path"), ("/api%2fruns", "bad_path"), ("/api/runs/", "bad_path"),
    ("/api/runs?limit=1&limit=2", "duplicate_parameter"), ("/api/runs?colour=red", "unknown_parameter"), ("/api/runs?limit=%", "bad_query"),
    ("/api/runs?limit=0", "bad_limit"), ("/api/runs?limit=201", "bad_limit"), ("/api/runs?status=asleep", "bad_status"), ("/api/runs?cursor=%21", "bad_cursor"),
    ("/api/runs/x", "not_found"), ("/api/runs/" + NONE.upper(), "not_found"), ("/api/runs/" + NONE, "not_found"), ("/api/commands/" + NONE, "not_found"),
    ("/api/commands/%s/events?from=-1" % NONE, "bad_cursor"), ("/api/commands/%s/events?encoding=rot13" % NONE, "bad_encoding")])
def test_bad_targets(api, target, code):
    a = api.get(target)
    assert a.code == code, a
    assert a.status in (400, 404, 422)


@pytest.mark.parametrize("token,status,code", [
    (None, 401, "unauthorized"), ("x", 401, "unauthorized"), ("pdk_0123456789ab_" + "0" * 64, 401, "unauthorized"), ("a b", 401, "unauthorized"),
    ("e2b_" + "0" * 40, 401, "unauthorized")])
def test_bad_tokens(api, token, status, code):
    for target in ("/api/auth/me", "/api/runs/" + NONE, "/_auth"):
        a = api.get(target, token=token)
        assert (a.status, a.code) == (status, code), a
        assert a.headers["WWW-Authenticate"] == "Bearer"


def test_kinds_of_token(api):
    service, e2b, admin = api.user("robot", "service"), api.user("eve", "e2b"), api.user("root", "admin", admin=True)
    a = api.get("/api/auth/me", token=service)
    assert (a.status, a.code) == (400, "user_header_required")
    a = api.get("/api/auth/me", token=service, headers={"X-Paddock-User": "nobody-here"})
    assert (a.status, a.code) == (404, "unknown_user")
    a = api.get("/api/auth/me", token=service, headers={"X-Paddock-User": "ada"})
    assert (a.json["user"], a.json["actor"], a.json["kind"], a.json["admin"]) == ("ada", "robot", "service", False)
    a = api.get("/api/auth/me", headers={"X-Paddock-User": "root"})
    assert (a.status, a.code) == (403, "forbidden")
    for target in ("/api/auth/me", "/api/runs/" + NONE, "/_auth"):
        a = api.get(target, token=e2b)
        assert a.status in (403, 404) if NONE in target else a.status == 403
    assert api.get("/api/admin/workers").code == "admin_required"
    assert api.get("/api/admin/workers", token=admin).json["workers"]


def test_the_auth_subrequest(api):
    a = api.get("/_auth")
    assert (a.status, a.headers["X-Paddock-User"], a.headers["X-Paddock-Kind"], a.body) == (204, "ada", "user", b"")
    service = api.user("robot", "service")
    assert api.get("/_auth", token=service).status == 403
    assert api.get("/_auth", token=service, headers={"X-Paddock-User": "nobody-here"}).status == 403


def test_the_list_of_tokens_has_pages(api):
    mine, other = api.user("pat"), api.user("pia")
    made = [mine.split("_")[1]] + [api.post("/api/user/tokens", {}, token=mine).json["token"].split("_")[1] for _ in range(6)]
    got, cursor = [], None
    while cursor or not got:
        page = api.get("/api/user/tokens?limit=3" + ("&cursor=" + cursor if cursor else ""), token=mine).json
        assert 1 <= len(page["items"]) <= 3
        got += [t["id"] for t in page["items"]]
        cursor = page["next_cursor"]
    assert got == made, "each once, oldest first"
    assert len(api.get("/api/user/tokens", token=mine).json["items"]) == 7 and len(api.get("/api/user/tokens", token=other).json["items"]) == 1
    for query, status, code in (("limit=0", 422, "bad_limit"), ("limit=201", 422, "bad_limit"), ("cursor=x", 400, "bad_cursor"),
                                ("cursor=000000000000", 400, "bad_cursor"), ("cursor=" + other.split("_")[1], 400, "bad_cursor")):
        answer = api.get("/api/user/tokens?" + query, token=mine)
        assert (answer.status, answer.code) == (status, code), query


def test_own_tokens(api):
    made = api.post("/api/user/tokens", {"label": "laptop"})
    assert made.status == 201, made
    secret = made.json["token"]
    assert api.get("/api/auth/me", token=secret).json["user"] == "ada"
    ident = secret.split("_")[1]
    assert ident in [t["id"] for t in api.get("/api/user/tokens").json["items"]]
    other = api.user("bob")
    assert api.call("DELETE", "/api/user/tokens/" + ident, token=other).status == 404
    assert api.call("DELETE", "/api/user/tokens/" + ident).status == 204
    assert api.get("/api/auth/me", token=secret).status == 401
    assert api.post("/api/user/tokens", {"kind": "admin"}).code == "admin_required"
    assert api.post("/api/user/tokens", {"kind": "king"}).code == "bad_kind"
    assert api.post("/api/user/tokens", token=api.user("robot", "service"), headers={"X-Paddock-User": "ada"}).code == "forbidden"
    assert secret not in open(api.log, encoding="utf-8").read()


BODIES = [
    (b"", 400, "body_required"), (b"{", 400, "bad_json"), (b"[]", 400, "bad_json"), (b'{"a":1}x', 400, "bad_json"), (b'{"command":"a","command":"b"}', 400, "bad_json"),
    (b'{"command":"\xff"}', 400, "bad_json"), (b'{"command":NaN}', 400, "bad_json"), (b'{"env":' + b'{"a":' * 40 + b"1" + b"}" * 41, 400, "bad_json"),
    (b'{"command":1}', 400, "bad_field"), (b'{"comand":"a"}', 400, "unknown_field"), (b'{"command":"a","stage":{}}', 400, "unknown_field"),
    (b'{"command":"a","with_sandbox":true}', 409, "with_sandbox_unsupported"), (b'{"command":"a","with_sandbox":1}', 400, "bad_field"), (b'{"command":"a","background":true}', 400, "unknown_field"), (b"{}", 400, "bad_field"),
    (b'{"command":"a","argv":["a"]}', 400, "bad_field"), (b'{"command":""}', 422, "bad_command"), (b'{"argv":[]}', 422, "bad_argv"),
    (b'{"command":"a","cwd":"x"}', 422, "bad_cwd"), (b'{"command":"a","cwd":"/a/../b"}', 422, "bad_cwd"), (b'{"command":"a","timeout_ms":0}', 422, "bad_timeout"),
    (b'{"command":"a","timeout_ms":-1}', 422, "bad_timeout"), (b'{"command":"a","env":{"A=":"b"}}', 422, "bad_env")]


@pytest.mark.parametrize("body,status,code", BODIES)
def test_bad_bodies_start_nothing(api, body, status, code):
    before = len(api.executor.commands)
    a = api.call("POST", "/api/execute", body)
    assert (a.status, a.code) == (status, code), a
    assert len(api.executor.commands) == before


def test_an_unknown_field_is_named(api):
    assert "comand" in api.post("/api/execute", {"comand": "true"}).json["detail"]


@pytest.mark.parametrize("value", ["9223372036854775808", "1e99", "1.5", '"1"', "true"])
def test_numbers_that_are_none(api, value):
    a = api.call("POST", "/api/execute", b'{"command":"a","timeout_ms":%s}' % value.encode())
    assert a.code in ("bad_field", "bad_timeout") and a.status in (400, 422), a


def test_nul_in_a_command(api):
    a = api.call("POST", "/api/execute", b'{"command":"a\\u0000b"}')
    assert a.status in (400, 422) and a.code in ("bad_field", "bad_command"), a


@pytest.mark.parametrize("kind,status", [("", 202), ("application/json", 202), ("application/json; charset=UTF-8", 202), ("application/x-www-form-urlencoded", 202),
                                         ("text/plain", 415), ("application/xml", 415), ("application/json; charset=latin1", 415)])
def test_content_types(api, kind, status):
    run = api.post("/api/runs", {"thread_id": "types"}).json["id"]
    a = api.post("/api/runs/%s/commands" % run, {"command": "true", "background": True}, headers={"CONTENT_TYPE": kind})
    assert a.status == status, a
    assert status != 415 or a.code == "unsupported_media_type"


def test_a_body_may_be_so_large_and_no_larger(api):
    def body(n):
        frame = b'{"thread_id":"big","input":"%s"}'
        return frame % (b"a" * (n - len(frame) + 2))
    assert api.call("POST", "/api/runs", body(1 << 20)).status in (201, 422)
    a = api.call("POST", "/api/runs", body((1 << 20) + 1))
    assert (a.status, a.code) == (413, "body_too_large")
    assert api.call("POST", "/api/runs", b"x" * (8 << 20)).status == 413   # refused without being read, and the answer still arrives


def test_what_nginx_may_not_pass(api):
    p = api.params("GET", "/api/auth/me", api.token)
    twice = fcgi_client.request(api.sock, p + [("HTTP_AUTHORIZATION", "Bearer x")])
    assert (twice.status, twice.code) == (400, "duplicate_header")
    a = fcgi_client.request(api.sock, p + [("HTTP_X_PADDOCK_USER", ""), ("HTTP_X_PADDOCK_USER", "root")])
    assert a.code == "duplicate_header"
    a = fcgi_client.request(api.sock, [kv for kv in p if kv[0] != "PADDOCK_REQUEST_ID"])
    assert (a.status, a.code) == (500, "internal") and re.fullmatch("[0-9a-f]{32}", a.headers["X-Request-Id"])
    a = fcgi_client.request(api.sock, p + [("REMOTE_USER", "root"), ("HTTP_COOKIE", "a=b")])
    assert a.json["user"] == "ada"


def test_runs(api):
    a = api.post("/api/runs", {"thread_id": "t1", "input": {"x": [1]}, "metadata": {"k": "v"}, "workdir": "~/workspace/p"})
    assert a.status == 201, a
    run = a.json
    assert set(run) >= {"id", "thread_id", "user", "status", "attempt", "backend", "project_id", "workdir", "input", "metadata", "runtime_cleanup_pending", "lease",
                        "error", "created_at", "started_at", "ended_at", "successor_id"}
    assert (run["user"], run["input"], run["metadata"], run["workdir"], run["lease"]) == ("ada", {"x": [1]}, {"k": "v"}, "/home/user/workspace/p", None)
    assert api.get("/api/runs/" + run["id"]).json == run
    assert run["id"] in [r["id"] for r in api.get("/api/runs?thread_id=t1").json["items"]]
    assert api.get("/api/runs/" + run["id"], token=api.user("bob")).status == 404
    assert api.call("HEAD", "/api/runs/" + run["id"]).status == 200
    a = api.post("/api/runs/%s/cancel" % run["id"])
    assert (a.status, a.json["status"]) == (200, "cancelled"), a
    a = api.post("/api/runs/%s/finish" % run["id"], {"status": "completed"})
    assert (a.status, a.code) == (409, "run_ended"), a


def test_steer(api):
    a = api.post("/api/runs", {"thread_id": "steer", "metadata": {"k": 1}, "claim": {"worker_id": "w1"}})
    run, lease = a.json["id"], a.json["lease_token"]
    target = "/api/runs/%s/steer" % run
    for body, code in ((b"", "body_required"), (b"{}", "bad_field"), (b'{"input":null}', "bad_field"), (b'{"input":1,"lease_token":"x"}', "unknown_field")):
        bad = api.call("POST", target, body)
        assert (bad.status, bad.code) == (400, code), bad
    assert api.post(target, {"input": 1}, token=api.user("bob")).status == 404
    key = {"Idempotency-Key": "steer-1"}
    a = api.post(target, {"input": ["go", {"left": True}]}, headers=key)
    assert a.status == 201 and set(a.json) == {"run", "successor"}, a
    old, new = a.json["run"], a.json["successor"]
    assert (old["id"], old["status"], old["successor_id"], old["lease"], old["runtime_cleanup_pending"]) == (run, "yielded", new["id"], None, True)
    assert (new["status"], new["thread_id"], new["input"], new["metadata"], new["attempt"]) == ("pending", "steer", ["go", {"left": True}], {"k": 1}, 0)
    assert api.post(target, {"input": ["go", {"left": True}]}, headers=key).json == a.json
    assert api.post(target, {"input": 2}, headers=key).code == "idempotency_mismatch"
    a = api.post(target, {"input": 2})
    assert (a.status, a.code) == (409, "run_ended") and new["id"] in a.json["detail"], a
    assert api.post("/api/runs/%s/steer" % new["id"], {"input": 2}).code == "not_running"
    assert api.post("/api/runs/%s/heartbeat" % run, {"lease_token": lease}).code == "run_ended"
    got = wait_for("the successor is offered", lambda: (lambda c: c.status == 200 and c)(api.post("/api/runs/claim", {"worker_id": "w2", "thread_id": "steer"})), 10)
    assert got.json["run"]["id"] == new["id"] and got.json["run"]["input"] == ["go", {"left": True}]
    command = api.post("/api/execute", {"command": "true"}).headers["X-Paddock-Command"]
    oneshot = api.get("/api/commands/" + command).json["run_id"]
    assert api.post("/api/runs/%s/steer" % oneshot, {"input": 1}).code == "not_steerable"


def test_leases(api):
    a = api.post("/api/runs", {"thread_id": "leases", "claim": {"worker_id": "w1", "lease_ms": 60000}})
    assert a.status == 201 and a.json["lease"]["owner"] == "w1", a
    run, lease = a.json["id"], a.json["lease_token"]
    assert api.post("/api/runs/%s/heartbeat" % run, {"lease_token": lease}).json["expires_at"]
    assert api.post("/api/runs/%s/heartbeat" % run, {"lease_token": lease[:-1] + "x"}).code == "lease_lost"
    assert api.post("/api/runs/%s/commands" % run, {"command": "true"}).code == "lease_required"
    assert api.post("/api/runs/%s/finish" % run, {"status": "failed", "error": {"code": "x", "why": 1}}).code == "unknown_field"
    a = api.post("/api/runs/%s/finish" % run, {"lease_token": lease, "status": "failed", "error": {"code": "x", "message": "y"}})
    assert a.json["error"] == {"code": "x", "message": "y"}, a
    lonely = api.user("lonely")
    assert api.post("/api/runs/claim", {"worker_id": "w"}, token=lonely).status == 204
    made = api.post("/api/runs", {"thread_id": "q"}, token=lonely).json["id"]
    a = api.post("/api/runs/claim", {"worker_id": "w"}, token=lonely)
    assert (a.status, a.json["run"]["id"]) == (200, made) and a.json["lease_token"]
    assert api.post("/api/runs/claim", {"worker_id": "w", "lease_ms": -5}, token=lonely).code == "bad_lease"


@pytest.mark.parametrize("accept,kind,view", [
    ("", "application/json", "result"), ("*/*", "application/json", "result"), ("text/event-stream", "text/event-stream", "sse"),
    ("application/x-ndjson", "application/x-ndjson", "ndjson"), ("text/event-stream;q=0.1, application/x-ndjson;q=0.9", "application/x-ndjson", "ndjson")])
def test_a_command_is_handed_to_nginx(api, accept, kind, view):
    a = api.post("/api/execute", {"command": "echo hi"}, headers={"Accept": accept})
    assert a.status == 200 and a.body == b"", a
    command = a.headers["X-Paddock-Command"]
    assert a.headers["X-Accel-Redirect"] == "/_x/T-" + command
    assert a.headers["Content-Type"] == kind
    assert api.executor.requests[command]["ticket"]["view"] == view
    assert api.executor.requests[command]["command"] == "echo hi"


def test_a_full_journal_is_said_to_be_full(api):
    run = api.post("/api/runs", {"thread_id": "full"}).json["id"]
    api.executor.full = True
    try:
        for target in ("/api/execute", "/api/runs/%s/commands" % run):
            a = api.post(target, {"command": "true"})
            assert (a.status, a.code) == (507, "no_space"), a
    finally:
        api.executor.full = False


def test_a_command_in_the_background(api):
    run = api.post("/api/runs", {"thread_id": "bg"}).json["id"]
    a = api.post("/api/runs/%s/commands" % run, {"argv": ["true"], "background": True, "keep_stdin": True, "env": {"A": "b"}})
    assert a.status == 202 and a.json["run_id"] == run and a.json["argv"] == ["true"], a
    cid = a.json["id"]
    assert a.headers["X-Paddock-Command"] == cid
    assert cid in [c["id"] for c in api.get("/api/runs/%s/commands" % run).json["items"]]
    assert api.get("/api/commands/" + cid).json["status"] == "running"
    other = api.user("bob")
    for target in ("", "/events", "/stdout", "/stderr"):
        assert api.get("/api/commands/" + cid + target, token=other).status == 404
    for target, kind in (("/events?from=7", "text/event-stream"), ("/stdout", "application/octet-stream"), ("/stderr", "application/octet-stream")):
        a = api.get("/api/commands/" + cid + target)
        assert (a.status, a.headers["Content-Type"], a.headers["X-Accel-Redirect"]) == (200, kind, "/_x/T-" + cid), a
    assert api.executor.tickets[-3]["from"] == 7
    api.get("/api/commands/%s/events?from=7&encoding=base64" % cid, headers={"Last-Event-ID": "9", "Accept": "application/x-ndjson"})
    assert (api.executor.tickets[-1]["from"], api.executor.tickets[-1]["view"], api.executor.tickets[-1]["base64"]) == (9, "ndjson", True)
    assert api.post("/api/commands/%s/signal" % cid, {"signal": "TERM"}).status == 202
    assert api.post("/api/commands/%s/signal" % cid, {"signal": 9}).status == 202
    assert api.post("/api/commands/%s/signal" % cid, {"signal": "NONSENSE"}).code == "bad_signal"
    assert api.post("/api/commands/%s/signal" % cid, {"signal": [1]}).code == "bad_field"
    assert api.post("/api/commands/%s/kill" % cid).status == 202
    assert api.post("/api/commands/%s/kill" % cid, {"hard": True}).code == "unknown_field"


def test_input_goes_through_in_pieces(api):
    run = api.post("/api/runs", {"thread_id": "stdin"}).json["id"]
    cid = api.post("/api/runs/%s/commands" % run, {"command": "cat", "background": True, "keep_stdin": True}).json["id"]
    data = bytes(range(256)) * (20 << 10) + b"end"
    a = api.call("POST", "/api/commands/%s/stdin?eof=1" % cid, data)
    assert (a.status, a.json) == (202, {"received_bytes": len(data)}), a
    assert api.executor.stdin_bytes[cid] == data
    pieces = api.executor.stdin[cid]
    assert len(pieces) == 6 and [eof for _, eof in pieces] == [False] * 5 + [True]
    assert api.call("POST", "/api/commands/%s/stdin" % cid).json == {"received_bytes": 0}
    assert api.call("POST", "/api/commands/%s/stdin?eof=2" % cid, b"x").code == "bad_flag"
    assert api.call("POST", "/api/commands/%s/stdin" % NONE, b"x").code == "not_found"


def test_an_idempotency_key_gives_the_first_answer(api):
    body = {"thread_id": "idem"}
    first = api.post("/api/runs", body, headers={"Idempotency-Key": "k1"})
    again = api.post("/api/runs", body, headers={"Idempotency-Key": "k1"})
    assert first.status == again.status == 201 and first.json["id"] == again.json["id"]
    assert api.post("/api/runs", {"thread_id": "other"}, headers={"Idempotency-Key": "k1"}).code == "idempotency_mismatch"
    assert api.post("/api/runs", body, headers={"Idempotency-Key": "x" * 256}).code == "bad_idempotency_key"
    a = api.post("/api/execute", {"command": "true"}, headers={"Idempotency-Key": "k2"})
    b = api.post("/api/execute", {"command": "true"}, headers={"Idempotency-Key": "k2"})
    assert a.headers["X-Paddock-Command"] == b.headers["X-Paddock-Command"]


def test_health_and_metrics(api):
    assert api.get("/healthz", token=None).json == {"status": "ok"}
    ready = api.get("/readyz", token=None)
    assert ready.status == 200 and ready.json["components"]["database"]["ok"] is True, ready
    text = api.get("/metrics", token=None, addr="127.0.0.1").body.decode()
    assert re.search(r'^paddock_api_requests_total\{class="2xx"\} [1-9]', text, re.M)
    assert "paddock_api_database_up 1\n" in text
    assert api.get("/metrics", token=None).status == 401
    assert api.get("/metrics").code == "admin_required"
    assert api.get("/metrics", token=api.user("root", "admin", admin=True)).status == 200


def test_log_lines(api):
    rid = "log-" + NONE
    api.post("/api/runs?x=secret-in-query", {"thread_id": "secret-in-body"}, rid=rid)
    line = wait_for("the line, which goes out after the answer", lambda: [text for text in api.lines("event=request") if rid in text])[0]
    for word in ("method=POST", "path=/api/runs", "status=400", "user=ada", "op=createRun"):
        assert word in line, line
    assert re.search(r"dur_ms=\d+\.\d\d", line)
    log = open(api.log, encoding="utf-8").read()
    assert "secret-in" not in log and api.token not in log and api.token.split("_")[2] not in log


def test_json_is_what_it_says(api):
    a = api.post("/api/runs", {"thread_id": "u\u2028\U0001f600"})
    assert json.loads(a.body)["thread_id"] == "u\u2028\U0001f600" and int(a.headers["Content-Length"]) == len(a.body)
