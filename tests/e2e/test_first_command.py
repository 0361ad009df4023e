"""A new user's way: a token, one curl, live output from a container that is gone a moment later."""

import subprocess
import time


def test_the_curl_of_the_readme(inst, user):
    done = subprocess.run(
        ["curl", "-k", "-N", "-sS", "https://localhost:%d/api/execute" % inst.port, "-H", "Authorization: Bearer " + user.token,
         "-H", "Accept: text/event-stream", "-d", '{"command":"python3 -c \\"print(6*7)\\"; ls -la"}'],
        capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("event: start\n"), done.stdout
    assert '"text":"42\\n' in done.stdout.replace('": "', '":"')
    assert '"exit_code":0' in done.stdout.replace(" ", "")
    assert done.stdout.count("event: exit\n") == 1


def test_output_is_live(live):
    with live("echo first; sleep 1.5; echo second") as stream:
        seen = [(event.type, event, time.monotonic()) for event in stream.events()]
    outputs = [(e.bytes, t) for kind, e, t in seen if kind == "stdout"]
    assert b"".join(b for b, _ in outputs) == b"first\nsecond\n"
    assert outputs[-1][1] - outputs[0][1] > 1.0, "the first line did not arrive before the second was written"
    assert seen[0][0] == "start" and seen[-1][0] == "exit"


def test_container_is_gone_a_moment_later(inst, user):
    command = user.execute("echo hi")
    assert (command["stdout"], command["exit_code"]) == ("hi\n", 0)
    run = user.wait_run(command["run_id"], 15)
    assert run["status"] == "completed" and run["runtime_cleanup_pending"] is False
    instance = inst.value("SELECT instance_id FROM sandbox_commands WHERE id = '%s'" % command["id"])
    assert not [name for name in inst.containers() if instance in name]


def test_json_answer(user):
    command = user.execute("echo out; echo err >&2; exit 7")
    assert command["status"] == "exited" and command["reason"] == "exited" and command["exit_code"] == 7
    assert (command["stdout"], command["stderr"]) == ("out\n", "err\n")
    assert (command["stdout_bytes"], command["stderr_bytes"]) == (4, 4)
    assert command["command"].startswith("echo out") and command["signal"] is None
    assert command["attempt"] == 1 and command["duration_ms"] >= 0
    for key in ("started_at", "ended_at"):
        assert command[key].endswith("Z")
    assert user.get_command(command["id"]) == command


def test_ndjson_answer(user):
    with user.live(None, "echo a; echo b >&2", accept="application/x-ndjson") as stream:
        assert stream.status == 200
        kinds = [event.type for event in stream.events()]
    assert kinds[0] == "start" and kinds[-1] == "exit" and sorted(kinds[1:-1]) == ["stderr", "stdout"]


def test_argv_needs_no_shell(sh):
    assert sh(["printf", "%s|", "a b", "$HOME", "*"])["stdout"] == "a b|$HOME|*|"


def test_a_command_that_does_not_exist_as_argv(user, warm):
    answer = user.post("/api/runs/%s/commands" % warm[0], {"argv": ["/no/such/program"], "lease_token": warm[1]})
    assert answer.status == 422 and answer.code == "exec_not_found"


def test_exit_by_signal(sh):
    command = sh("kill -SEGV $$")
    assert command["status"] == "exited" and command["reason"] == "signaled"
    assert command["signal"] in (11, "SEGV", "SIGSEGV") and command["exit_code"] is None
