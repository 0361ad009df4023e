"""/healthz, /readyz, /metrics, and what an operator sees."""

import re

import pytest

from paddock import wait_for


def test_healthz(inst):
    answer = inst.anonymous().get("/healthz")
    assert answer.status == 200 and answer.json["status"] == "ok"


@pytest.mark.container
def test_readyz_names_the_components(inst):
    """R1.9: each component with its hint."""
    get = lambda: inst.anonymous().get("/readyz")
    body = wait_for(lambda: get().body, lambda: (a := get()).status == 200 and a.json)   # an engine that has just been restarted may be away
    assert body["status"] == "ok" and {"database", "executor", "engine", "image"} <= set(body["components"]), body
    assert all(component["ok"] is True for component in body["components"].values())


def test_readyz_tells_no_secret(inst):
    body = inst.anonymous().get("/readyz").body
    assert b"/var/lib" not in body and b"password" not in body


LINE = re.compile(r'^[a-zA-Z_:][a-zA-Z0-9_:]*(\{([a-zA-Z_]\w*="(\\.|[^"\\])*",?)*\})? [-+0-9.eEInfNa]+$')


def test_metrics(inst, user):
    user.execute("true")
    answer = inst.anonymous().get("/metrics").ok(200)     # from loopback
    assert answer.headers["Content-Type"].startswith("text/plain")
    lines = [line for line in answer.body.decode().splitlines() if line and not line.startswith("#")]
    assert len(lines) > 10
    for line in lines:
        assert LINE.match(line), line
    assert all(line.startswith("paddock_") for line in lines)
    assert len(lines) == len({line.rsplit(" ", 1)[0] for line in lines}), "a series twice"


@pytest.mark.parametrize("command", ["status", "doctor"])
def test_paddockctl(inst, command):
    done = inst.ctl(command, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout


def test_the_service_gave_up_what_it_does_not_need(inst):
    line = next(line for line in inst.ctl("doctor", check=False).stdout.splitlines() if "confinement" in line)
    assert "under seccomp" in line, line


def test_sql_is_read_only(inst):
    assert inst.value("SELECT count(*) FROM users") >= 1
    done = inst.ctl("sql", "-c", "DELETE FROM sandbox_commands", check=False)
    assert done.returncode != 0 and ("denied" in done.stderr or "read-only" in done.stderr)


def test_security_headers(inst, user):
    headers = user.get("/api/runs").headers
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "nginx/" not in (headers["Server"] or "")
    assert "no-store" in (headers["Cache-Control"] or "")


def test_stream_headers(user):
    with user.live(None, "true") as stream:
        assert stream.headers["Content-Type"].startswith("text/event-stream")
        assert stream.headers["X-Content-Type-Options"] == "nosniff" and stream.headers["X-Request-Id"] and stream.headers.get_all("Cache-Control") == ["private, no-store"]
        list(stream.events())


def test_no_secret_in_the_logs(inst, user):
    import subprocess
    user.command(user.run()["id"], "echo", env={"SECRET": "s3cr3t-" + user.name})
    found = subprocess.run(["grep", "-rlF", "-e", user.token, "-e", user.token[-40:], "-e", "s3cr3t-" + user.name, inst.logs], capture_output=True, text=True)
    assert found.stdout == ""


def test_sql_role_reads_no_hashes(inst):
    done = inst.ctl("sql", "-c", "SELECT * FROM tokens", check=False)
    assert done.returncode != 0 and "denied" in done.stderr
