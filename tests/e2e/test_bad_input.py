"""Bad input: a documented code each, and nothing is started."""

import json
import os
import re
import socket
import time
import uuid

import pytest

from paddock import TLS

SOMEONE = "0190c0de-0000-7000-8000-000000000000"


@pytest.fixture(scope="module")
def run(user):
    run, token = user.claimed(lease_ms=3600000)
    yield run["id"], token
    user.finish(run["id"], token)


@pytest.fixture(scope="module")
def theirs(other):
    """Another user's claimed Run and an ended command in it: (run id, lease token, command id)."""
    run, token = other.claimed(lease_ms=3600000)
    command = other.command(run["id"], "echo secret", lease_token=token)
    yield run["id"], token, command["id"]
    other.finish(run["id"], token)


def sandboxes(inst):
    """Names of those that are there or are being made: each has a directory before its container."""
    return set(os.listdir(inst.runtime + "/agents"))


@pytest.fixture
def unchanged(inst, user):
    """Nothing was started: rows of the caller before and after are the same, and no sandbox has come."""
    def count():
        tables = ("runs", "run_attempts", "sandbox_commands", "idempotency_keys")
        where = {"run_attempts": "run_id IN (SELECT id FROM runs WHERE user_id = %s)" % mine}
        return inst.sql("SELECT " + ", ".join("(SELECT count(*) FROM %s WHERE %s) AS %s" % (t, where.get(t, "user_id = " + mine), t) for t in tables))

    def ledger():   # what clean-up is still at goes from it
        return {row["id"] for row in inst.sql("SELECT id FROM instances WHERE user_id = " + mine)}

    mine = "(SELECT id FROM users WHERE name = '%s')" % user.name
    rows, known, boxes = count(), ledger(), sandboxes(inst)
    yield
    assert count() == rows and ledger() <= known, "something was recorded"
    assert sandboxes(inst) <= boxes, "a sandbox was made"


def nested(depth):
    return ('{"command":"true","env":' + "[" * depth + "]" * depth + "}").encode()


EXECUTE = [
    # name, body, status, code
    ("no body", b"", 400, "body_required"),
    ("not json", b"{command: true}", 400, "bad_json"),
    ("half", b'{"command":"tr', 400, "bad_json"),
    ("trailing garbage", b'{"command":"true"} x', 400, "bad_json"),
    ("two documents", b'{"command":"true"}{"command":"true"}', 400, "bad_json"),
    ("single quotes", b"{'command':'true'}", 400, "bad_json"),
    ("comment", b'{"command":"true" /* x */}', 400, "bad_json"),
    ("trailing comma", b'{"command":"true",}', 400, "bad_json"),
    ("NaN", b'{"command":"true","timeout_ms":NaN}', 400, "bad_json"),
    ("array", b"[]", 400, "bad_json"),
    ("string", b'"true"', 400, "bad_json"),
    ("null", b"null", 400, "bad_json"),
    ("duplicate keys", b'{"command":"true","command":"false"}', 400, "bad_json"),
    ("duplicate keys, one escaped", b'{"command":"true","comm\\u0061nd":"false"}', 400, "bad_json"),
    ("unknown field", b'{"command":"true","image":"x"}', 400, "unknown_field"),
    ("user is no field", b'{"command":"true","user":"root"}', 400, "unknown_field"),
    ("too deep", nested(40), 400, "bad_json"),
    ("much too deep", nested(100000), 400, "bad_json"),
    ("invalid utf-8", b'{"command":"\xff"}', 400, "bad_json"),
    ("lone surrogate", b'{"command":"\\ud800"}', 400, "bad_json"),
    ("utf-16", '{"command":"true"}'.encode("utf-16"), 400, "bad_json"),
    ("neither command nor argv", b"{}", 400, "bad_field"),
    ("both", b'{"command":"true","argv":["true"]}', 400, "bad_field"),
    ("command is a number", b'{"command":1}', 400, "bad_field"),
    ("command is empty", b'{"command":""}', 422, "bad_command"),
    ("NUL in the command", b'{"command":"true\\u0000"}', 400, "bad_field"),
    ("argv empty", b'{"argv":[]}', 422, "bad_argv"),
    ("argv of numbers", b'{"argv":[1]}', 400, "bad_field"),
    ("argv[0] empty", b'{"argv":[""]}', 422, "bad_argv"),
    ("NUL in argv", b'{"argv":["echo","a\\u0000b"]}', 422, "bad_argv"),
    ("env is a list", b'{"command":"true","env":[]}', 400, "bad_field"),
    ("env value is a number", b'{"command":"true","env":{"A":1}}', 400, "bad_field"),
    ("env name with =", b'{"command":"true","env":{"A=B":"1"}}', 422, "bad_env"),
    ("env name empty", b'{"command":"true","env":{"":"1"}}', 422, "bad_env"),
    ("NUL in env", b'{"command":"true","env":{"A":"a\\u0000"}}', 422, "bad_env"),
    ("stdin is a number", b'{"command":"true","stdin":1}', 400, "bad_field"),
    ("cwd outside", b'{"command":"true","cwd":"relative"}', 422, "bad_cwd"),
    ("cwd with ..", b'{"command":"true","cwd":"/home/user/workspace/../../x"}', 422, "bad_cwd"),
    ("cwd with .", b'{"command":"true","cwd":"/home/./user"}', 422, "bad_cwd"),
    ("cwd of another home", b'{"command":"true","cwd":"~root"}', 422, "bad_cwd"),
    ("NUL in cwd", b'{"command":"true","cwd":"/tmp\\u0000"}', 400, "bad_field"),
    ("cwd too long", b'{"command":"true","cwd":"/%s"}' % (b"a/" * 2100), 422, "bad_cwd"),
    ("time-out 0", b'{"command":"true","timeout_ms":0}', 422, "bad_timeout"),
    ("time-out -1", b'{"command":"true","timeout_ms":-1}', 422, "bad_timeout"),
    ("time-out 2^63", b'{"command":"true","timeout_ms":9223372036854775808}', 400, "bad_field"),
    ("time-out 2^63-1", b'{"command":"true","timeout_ms":9223372036854775807}', 422, "bad_timeout"),
    ("time-out 10^30", b'{"command":"true","timeout_ms":1000000000000000000000000000000}', 400, "bad_json"),
    ("time-out 1.5", b'{"command":"true","timeout_ms":1.5}', 400, "bad_field"),
    ("time-out 1e3", b'{"command":"true","timeout_ms":1e3}', 400, "bad_field"),
    ("time-out as text", b'{"command":"true","timeout_ms":"1000"}', 400, "bad_field"),
    ("time-out true", b'{"command":"true","timeout_ms":true}', 400, "bad_field"),
    ("background is no boolean", b'{"command":"true","background":1}', 400, "unknown_field"),
    ("body of 2 MiB", b'{"command":"' + b"x" * (2 << 20) + b'"}', 413, "too_large"),
]


@pytest.mark.parametrize("body,status,code", [case[1:] for case in EXECUTE], ids=[case[0] for case in EXECUTE])
def test_execute_refuses(user, unchanged, body, status, code):
    answer = user.request("POST", "/api/execute", body, headers={"Content-Type": "application/json"})
    check_problem(answer, status, code)


RUN_BODIES = [
    ("no thread", b"{}", 400, "bad_field"),
    ("thread is a number", b'{"thread_id":1}', 400, "bad_field"),
    ("thread is empty", b'{"thread_id":""}', 422, "bad_thread_id"),
    ("thread with NUL", b'{"thread_id":"a\\u0000"}', 400, "bad_field"),
    ("thread too long", b'{"thread_id":"%s"}' % (b"x" * 5000), 422, "bad_thread_id"),
    ("unknown field", b'{"thread_id":"a","owner":"x"}', 400, "unknown_field"),
    ("status is no field", b'{"thread_id":"a","status":"completed"}', 400, "unknown_field"),
    ("workdir outside", b'{"thread_id":"a","workdir":"/etc"}', 422, "bad_workdir"),
    ("workdir with ..", b'{"thread_id":"a","workdir":"/home/user/workspace/../x"}', 422, "bad_workdir"),
    ("workdir like the root", b'{"thread_id":"a","workdir":"/home/user/workspacex"}', 422, "bad_workdir"),
    ("time-out 0", b'{"thread_id":"a","timeout_ms":0}', 422, "bad_timeout"),
    ("time-out negative", b'{"thread_id":"a","timeout_ms":-5}', 422, "bad_timeout"),
    ("claim without worker", b'{"thread_id":"a","claim":{}}', 400, "bad_field"),
    ("claim is true", b'{"thread_id":"a","claim":true}', 400, "bad_field"),
    ("lease of 0", b'{"thread_id":"a","claim":{"worker_id":"w","lease_ms":0}}', 422, "bad_lease"),
    ("lease of a year", b'{"thread_id":"a","claim":{"worker_id":"w","lease_ms":31536000000}}', 422, "bad_lease"),
    ("unknown field in claim", b'{"thread_id":"a","claim":{"worker_id":"w","x":1}}', 400, "unknown_field"),
]


@pytest.mark.parametrize("body,status,code", [case[1:] for case in RUN_BODIES], ids=[case[0] for case in RUN_BODIES])
def test_create_run_refuses(user, unchanged, body, status, code):
    check_problem(user.request("POST", "/api/runs", body, headers={"Content-Type": "application/json"}), status, code)


def documented():
    """Codes of docs/openapi.yaml and the status of each."""
    with open(os.path.join(os.path.dirname(__file__), "..", "..", "docs", "openapi.yaml"), encoding="utf-8") as f:
        return {code: int(status) for code, status in re.findall(r"(?m)^    (\w+): \{status: (\d+), meaning:", f.read())}


DOCUMENTED = documented()


def check_problem(answer, status, code):
    """Exactly this status and code, and the documentation says so."""
    assert (answer.status, answer.code) == (status, code), answer
    assert DOCUMENTED[code] == status
    assert answer.headers["Content-Type"].startswith("application/problem+json")
    problem = answer.json
    assert set(problem) >= {"type", "title", "status", "detail", "code", "request_id"}, problem
    assert problem["status"] == answer.status and problem["request_id"] == answer.headers["X-Request-Id"]


def test_an_unknown_field_is_named(user):
    answer = user.post("/api/execute", {"command": "true", "privileged": True})
    check_problem(answer, 400, "unknown_field")
    assert "privileged" in json.dumps(answer.json)


def test_huge_declared_body(inst, user, unchanged):
    """A body that is announced and never sent costs nothing."""
    with socket.create_connection(("127.0.0.1", inst.port)) as raw, TLS.wrap_socket(raw) as tls:
        tls.settimeout(20)
        tls.sendall(("POST /api/execute HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n"
                     "Content-Length: 99999999999\r\n\r\n" % user.token).encode())
        assert b" 413 " in tls.recv(4096).split(b"\r\n")[0]


def test_cwd_that_does_not_exist(user, run):
    answer = user.post("/api/runs/%s/commands" % run[0], {"command": "true", "cwd": "/home/user/workspace/missing", "lease_token": run[1]})
    check_problem(answer, 422, "cwd_not_found")


def test_cwd_that_is_a_file(user, run):
    answer = user.post("/api/runs/%s/commands" % run[0], {"command": "true", "cwd": "/etc/passwd", "lease_token": run[1]})
    check_problem(answer, 422, "cwd_not_found")


@pytest.mark.container
def test_cwd_that_is_forbidden(user, run):
    answer = user.post("/api/runs/%s/commands" % run[0], {"command": "true", "cwd": "/root", "lease_token": run[1]})
    check_problem(answer, 422, "cwd_forbidden")


@pytest.mark.parametrize("cwd,wanted", [("~/workspace", "/home/user/workspace"), ("/tmp", "/tmp"), ("/home/user/workspace/", "/home/user/workspace")])
def test_cwds_that_are_fine(user, run, cwd, wanted):
    assert user.command(run[0], "pwd", cwd=cwd, lease_token=run[1])["stdout"].strip() == wanted


# Who may do what

def everything(run_id, lease, command_id):
    """Every call that names a Run or a command."""
    run, command = "/api/runs/" + run_id, "/api/commands/" + command_id
    return [
        ("GET", run, None), ("GET", run + "/commands", None),
        ("POST", run + "/commands", {"command": "true"}), ("POST", run + "/commands", {"command": "true", "lease_token": lease}),
        ("POST", run + "/heartbeat", {"lease_token": lease}), ("POST", run + "/finish", {"lease_token": lease, "status": "failed"}),
        ("POST", run + "/cancel", {}), ("GET", command, None), ("GET", command + "/events", None), ("GET", command + "/stdout", None),
        ("GET", command + "/stderr", None), ("POST", command + "/stdin", {}), ("POST", command + "/signal", {"signal": "TERM"}),
        ("POST", command + "/kill", {}),
    ]


def test_another_users_ids_are_not_found(inst, user, other, theirs, unchanged):
    for method, path, body in everything(*theirs):
        answer = user.request(method, path, json_body=body)
        check_problem(answer, 404, "not_found")
        assert b"secret" not in answer.body
        unknown = user.request(method, path.replace(theirs[0], SOMEONE).replace(theirs[2], SOMEONE), json_body=body)
        assert unknown.status == 404 and unknown.json["code"] == answer.json["code"] and unknown.json["detail"] == answer.json["detail"], \
            "the answer tells that the id exists"
    assert other.get_run(theirs[0])["status"] == "running"


def test_lists_hold_own_things_only(user, other, theirs):
    ids = [item["id"] for item in user.get("/api/runs?limit=200").ok(200).json["items"]]
    assert theirs[0] not in ids


@pytest.mark.parametrize("token", [None, "", "x", "pdk_000000000000_" + "A" * 43, "pdk_000000000000_" + "0" * 64, "\u00e9", pytest.param("pdk_" + "f" * 5000, id="5000 bytes")])
def test_bad_tokens(inst, user, unchanged, theirs, run, token):
    headers = {"Authorization": ("Bearer " + token).encode("utf-8")} if token is not None else {}
    stranger = inst.anonymous()
    for method, path, body in everything(run[0], run[1], theirs[2]) + [("POST", "/api/execute", {"command": "true"}), ("GET", "/api/runs", None)]:
        answer = stranger.request(method, path, json_body=body, headers=headers)
        check_problem(answer, 401, "unauthorized")
        assert answer.headers["WWW-Authenticate"]


@pytest.mark.parametrize("value", ["Basic YWRtaW46eA==", "Bearer", "bearer\t{}", "Token {}", "Bearer {} x", "Bearer  {} {}", "{}"])
def test_bad_authorization_headers(inst, user, unchanged, value):
    answer = inst.anonymous().post("/api/execute", {"command": "true"}, headers={"Authorization": value.format(user.token, user.token)})
    check_problem(answer, 401, "unauthorized")


def test_almost_the_right_token(inst, user, unchanged):
    for token in (user.token[:-1], user.token + "a", user.token[:-1] + ("a" if user.token[-1] != "a" else "b"), user.token.upper()):
        check_problem(inst.anonymous().post("/api/execute", {"command": "true"}, headers={"Authorization": "Bearer " + token}), 401, "unauthorized")


@pytest.mark.parametrize("name", ["REMOTE_USER", "Remote-User", "X-Paddock-User", "X-User", "PADDOCK-USER", "Paddock_User", "SBX-USER", "Cookie"])
def test_no_header_names_a_user(inst, user, other, name):
    assert inst.anonymous().get("/api/runs", headers={name: other.name}).status == 401
    me = user.get("/api/runs", headers={name: other.name})
    assert me.status in (200, 400, 403)
    if me.status == 200:
        assert all(item["user"] == user.name for item in me.json["items"])


@pytest.fixture(scope="module")
def expired(user):
    """A Run whose lease ran out: (run id, token)."""
    run, token = user.claimed(lease_ms=1000)
    time.sleep(2.5)
    return run["id"], token


def lease_calls(client, run_id, token):
    base = "/api/runs/" + run_id
    yield client.post(base + "/commands", {"command": "true", "lease_token": token})
    yield client.post(base + "/heartbeat", {"lease_token": token})
    yield client.post(base + "/finish", {"lease_token": token, "status": "completed"})


@pytest.mark.parametrize("wrong", ["", "x", "A" * 43, "é", pytest.param("0" * 10000, id="10000 bytes")])
def test_wrong_lease_tokens(user, run, unchanged, wrong):
    for answer in lease_calls(user, run[0], wrong):
        check_problem(answer, 409, "lease_lost")


@pytest.fixture(scope="module")
def second(user):
    run, token = user.claimed(lease_ms=3600000)
    yield run["id"], token
    user.finish(run["id"], token)


def test_a_lease_token_of_another_run(user, run, second, theirs, unchanged):
    for token in (second[1], theirs[1]):
        for answer in lease_calls(user, run[0], token):
            check_problem(answer, 409, "lease_lost")


def test_an_expired_lease_token(user, expired, unchanged):
    for answer in lease_calls(user, *expired):
        check_problem(answer, 409, "lease_lost")


def test_a_command_without_the_token_while_a_lease_is_held(user, run, unchanged):
    answer = user.post("/api/runs/%s/commands" % run[0], {"command": "true"})
    check_problem(answer, 409, "lease_required")


@pytest.fixture(scope="module")
def ended(user):
    """An ended Run: (run id, the token that it had)."""
    run, token = user.claimed()
    user.finish(run["id"], token).ok(200)
    return run["id"], token


def test_a_command_in_an_ended_run(user, ended, unchanged):
    check_problem(user.post("/api/runs/%s/commands" % ended[0], {"command": "true", "lease_token": ended[1]}), 409, "run_ended")


# Paths, methods, types

@pytest.mark.parametrize("method,path,allow", [
    ("GET", "/api/execute", {"POST"}), ("PUT", "/api/execute", {"POST"}), ("DELETE", "/api/runs", {"GET", "POST"}),
    ("PATCH", "/api/runs", {"GET", "POST"}), ("OPTIONS", "/api/auth/me", {"GET"}), ("GET", "/api/runs/claim", {"POST"}),
    ("GET", "/api/runs/%s/finish" % SOMEONE, {"POST"}),
    ("DELETE", "/api/commands/%s" % SOMEONE, {"GET"}), ("POST", "/api/commands/%s/events" % SOMEONE, {"GET"}), ("POST", "/healthz", {"GET"}),
])
def test_wrong_methods(user, unchanged, method, path, allow):
    answer = user.request(method, path, json_body={"command": "true"} if method in ("PUT", "POST") else None)
    check_problem(answer, 405, "method_not_allowed")
    assert set(answer.headers["Allow"].replace(" ", "").split(",")) == allow | ({"HEAD"} if "GET" in allow else set())


@pytest.mark.parametrize("method,status,code", [
    ("BREW", 405, "method_not_allowed"), ("CONNECT", 405, "method_not_allowed"), ("TRACE", 405, "method_not_allowed"), ("get", 400, "bad_request")])
def test_unknown_methods(user, unchanged, method, status, code):
    check_problem(user.request(method, "/api/runs"), status, code)


@pytest.mark.parametrize("path", [
    "/api", "/api/x", "/api/run", "/api/executes", "/api/execute/x", "/api/commands", "/api/runs/%s/x" % SOMEONE, "/_auth", "/_x/", "/_x/abc", "/t/abc",
    "/v1/instances", "/.git/config", "/etc/passwd",
])
def test_unknown_paths(user, unchanged, path):
    answer = user.get(path)
    check_problem(answer, 404, "not_found")
    assert b"nginx/" not in answer.body


@pytest.mark.parametrize("path,code", [
    ("/api/", "bad_path"), ("/api/runs/", "bad_path"), ("/api/runs//commands", "bad_path"), ("/api/execute/", "bad_path"), ("/api/commands/", "bad_path"),
    ("/_x/../api/runs", "bad_path"), ("/api/%2e%2e/metrics", "bad_path"), ("/%00", "bad_request"), ("/api/runs%00", "bad_request"),
])
def test_bad_paths(user, unchanged, path, code):
    answer = user.get(path)
    check_problem(answer, 400, code)
    assert b"nginx/" not in answer.body


@pytest.mark.parametrize("ident", ["x", "1", "0", "-1", SOMEONE[:-1], SOMEONE + "0", SOMEONE.upper() + "x", "{%s}" % SOMEONE, "..", "%00", "'", pytest.param("a" * 3000, id="3000 bytes"),
                                   SOMEONE.replace("-", ""), str(uuid.uuid4())])
def test_bad_ids(user, unchanged, ident):
    for path in ("/api/runs/%s", "/api/commands/%s", "/api/commands/%s/events", "/api/commands/%s/stdout"):
        answer = user.get(path % ident)
        check_problem(answer, *{"..": (400, "bad_path"), "%00": (400, "bad_request")}.get(ident, (404, "not_found")))


@pytest.mark.parametrize("accept", ["image/png", "text/html", "application/xml", "text/event-stream;q=0"])
def test_an_accept_that_names_none_of_ours_means_json(user, accept):
    answer = user.post("/api/execute", {"command": "true"}, headers={"Accept": accept})
    assert answer.status == 200 and answer.headers["Content-Type"].startswith("application/json")


@pytest.mark.parametrize("accept", ["*/*", "application/*", "application/json, text/plain;q=0.5", "text/html, */*;q=0.1", None])
def test_accepts_that_mean_json(user, accept):
    answer = user.post("/api/execute", {"command": "true"}, headers={"Accept": accept})
    assert answer.status == 200 and answer.headers["Content-Type"].startswith("application/json")


@pytest.mark.parametrize("kind", ["text/xml", "multipart/form-data; boundary=x", "application/octet-stream", "application/json; charset=utf-16"])
def test_content_types_that_are_not_json(user, unchanged, kind):
    answer = user.request("POST", "/api/execute", b'{"command":"true"}', headers={"Content-Type": kind})
    check_problem(answer, 415, "unsupported_media_type")


@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-8", "Application/JSON", "application/x-www-form-urlencoded", None])
def test_content_types_that_are(user, kind):
    """curl -d says application/x-www-form-urlencoded; the documented examples rely on it."""
    answer = user.request("POST", "/api/execute", b'{"command":"true"}', headers={"Content-Type": kind})
    assert answer.status == 200, answer


@pytest.mark.parametrize("query,status,code", [
    ("limit=0", 422, "bad_limit"), ("limit=201", 422, "bad_limit"), ("limit=-1", 422, "bad_limit"), ("limit=x", 422, "bad_limit"),
    ("limit=1e1", 422, "bad_limit"), ("cursor=x", 400, "bad_cursor"), pytest.param("cursor=" + "A" * 500, 400, "bad_cursor", id="cursor of 500 bytes"),
    ("status=weird", 422, "bad_status"), ("foo=1", 400, "unknown_parameter"), ("limit=1&limit=2", 400, "duplicate_parameter")])
def test_bad_queries(user, query, status, code):
    check_problem(user.get("/api/runs?" + query), status, code)


@pytest.fixture(scope="module")
def sleeper(user, warm):
    """A command that runs."""
    command = user.background(warm[0], "sleep 100", lease_token=warm[1])
    user.wait_running(command["id"])
    yield command["id"]
    user.post("/api/commands/%s/kill" % command["id"]).ok(202)


@pytest.mark.parametrize("signal,status,code", [
    ("", 422, "bad_signal"), ("X", 422, "bad_signal"), ("SIGX", 422, "bad_signal"), (0, 422, "bad_signal"), (-1, 422, "bad_signal"), (65, 422, "bad_signal"),
    (1.5, 400, "bad_field"), (None, 400, "bad_field"), ("KILL; rm", 422, "bad_signal"), ("9" * 30, 422, "bad_signal")])
def test_bad_signals(user, sleeper, unchanged, signal, status, code):
    check_problem(user.post("/api/commands/%s/signal" % sleeper, {"signal": signal}), status, code)
    assert user.get_command(sleeper)["status"] == "running"


def raw(inst, data, timeout=15):
    with socket.create_connection(("127.0.0.1", inst.port)) as sock, TLS.wrap_socket(sock) as tls:
        tls.settimeout(timeout)
        tls.sendall(data)
        try:
            return tls.recv(65536)
        except OSError:
            return b""


@pytest.mark.parametrize("head", [
    b"Content-Length: 5\r\nContent-Length: 6\r\n", b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", b"Transfer-Encoding: xchunked\r\n",
    b"Content-Length: -1\r\n", b"Content-Length: 1x\r\n", b"Transfer-Encoding : chunked\r\n", b"X: a\0b\r\n",
])
def test_smuggling(inst, user, unchanged, head):
    answer = raw(inst, b"POST /api/execute HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + user.token.encode() + b"\r\n" + head + b"\r\nhello")
    assert answer == b"" or answer.split(b" ")[1] in (b"400", b"411", b"501", b"413"), answer[:200]


def test_chunked_body_is_read(inst, user):
    body = b'{"command":"echo chunked"}'
    answer = raw(inst, b"POST /api/execute HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer " + user.token.encode()
                 + b"\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
                 + b"".join(b"1\r\n%c\r\n" % c for c in body) + b"0\r\n\r\n", 60)
    assert b"200 OK" in answer.split(b"\r\n")[0], answer


def test_a_client_that_goes_away_in_mid_request(inst, user, unchanged):
    for n in (20, 150):
        raw_request = ("POST /api/execute HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n"
                       "Content-Length: 200\r\n\r\n{\"command\":\"true\"" % user.token).encode()
        with socket.create_connection(("127.0.0.1", inst.port)) as sock, TLS.wrap_socket(sock) as tls:
            tls.sendall(raw_request[:-n])


def test_every_answer_has_a_request_id(inst, user):
    seen = set()
    for client, path in ((user, "/api/runs"), (user, "/api/nothing"), (inst.anonymous(), "/api/runs"), (user, "/healthz")):
        ident = client.get(path).headers["X-Request-Id"]
        assert ident and ident not in seen
        seen.add(ident)


def test_the_clients_own_request_id_is_not_believed(user):
    assert user.get("/api/runs", headers={"X-Request-Id": "evil id"}).headers["X-Request-Id"] != "evil id"


def test_service_answers_after_all_this(user):
    assert user.execute("echo fine")["stdout"] == "fine\n"
