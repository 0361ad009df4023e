"""paddockctl against a database of its own: what it prints, what it refuses, what it leaves on record."""

import json
import os
import re
import secrets
import shutil
import subprocess
import tempfile
import uuid

import pytest
from fake_executor import FakeExecutor

from conftest import BUILD, TOP, Database

CTL = os.path.join(BUILD, "paddockctl")


class Ctl:
    def __init__(self, root):
        self.conf = root + "/paddock.ini"
        os.mkdir(root + "/keys", 0o700)
        with open(os.open(root + "/keys/pepper", os.O_WRONLY | os.O_CREAT, 0o400), "wb") as f:
            f.write(secrets.token_bytes(32))
        with open(self.conf, "w", encoding="utf-8") as f:
            f.write('[paths]\nkeys = %s/keys\n[database]\nconninfo = "host=%s/pg dbname=paddock user=paddock_api"\n'
                    '[executor]\nsocket = %s/executor.sock\n' % (root, root, root))

    def run(self, *argv):
        return subprocess.run([CTL, "--config", self.conf, *argv], capture_output=True, text=True, timeout=60, check=False)

    def ok(self, *argv):
        done = self.run(*argv)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module", name="ctl")
def _ctl():
    if not os.path.exists(CTL):
        pytest.skip("paddockctl is not built")
    root = tempfile.mkdtemp(prefix="paddock-ctl-test-")
    os.chmod(root, 0o711)
    c = Ctl(root)
    c.db = Database(root + "/pg")
    c.db.migrate(c.conf)
    yield c
    c.db.tool("stop")
    shutil.rmtree(root, ignore_errors=True)


def test_migrate_again_does_nothing(ctl):
    out = ctl.ok("migrate", "--dir", os.path.join(TOP, "sql"))
    assert re.fullmatch(r"schema version \d+, nothing to do\n", out)


@pytest.fixture(name="absent")
def _absent(tmp_path):
    """Of an installation that is not there: what should not happen happens to nobody."""
    conf = tmp_path / "paddock.ini"
    conf.write_text("[service]\ninstance = absent\n", encoding="utf-8")
    return lambda *argv: subprocess.run([CTL, "--config", str(conf), *argv], capture_output=True, text=True, timeout=60, check=False)


COMMANDS = ("status", "doctor", "start", "stop", "migrate", "users", "tokens", "runs", "commands", "cleanup", "sandboxes", "sql", "engine")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_is_all_that_it_does(absent, command):
    done = absent(command, "--help")
    assert (done.returncode, done.stderr) == (0, ""), done
    assert done.stdout.startswith("usage: paddockctl " + command), done.stdout


@pytest.mark.parametrize("command", ("status", "doctor", "start", "stop"))
def test_what_takes_no_argument_refuses_one(absent, command):
    done = absent(command, "api")
    assert (done.returncode, done.stdout) == (2, ""), done
    assert done.stderr.startswith("usage: paddockctl " + command), done.stderr


@pytest.mark.parametrize("unwell, word", [(0, "ok"), (1, "ok"), (2, "MISSING")])
def test_doctor_believes_no_look_of_long_ago(tmp_path, unwell, word):
    """Right after a start the executor tells what it saw when somebody asked last."""
    conf = tmp_path / "paddock.ini"
    conf.write_text("[service]\ninstance = absent\n[executor]\nsocket = %s\n" % (tmp_path / "x.sock"), encoding="utf-8")
    x = FakeExecutor(str(tmp_path / "x.sock"))
    x.unwell = unwell
    try:
        done = subprocess.run([CTL, "--config", str(conf), "doctor"], capture_output=True, text=True, timeout=60, check=False)
    finally:
        x.stop()
    assert re.search(r"^(\w+) +executor ", done.stdout, re.M).group(1) == word, done.stdout


def test_help_names_every_command(absent):
    assert re.findall(r"^  (\w+)", absent("--help").stdout, re.M) == list(COMMANDS)


def test_migrate_names_a_missing_directory(ctl):
    done = ctl.run("migrate", "--dir", "/nonexistent")
    assert done.returncode == 1 and "/nonexistent" in done.stderr


def test_users(ctl):
    assert ctl.ok("users", "create", "root.1", "--admin") == "root.1\n"
    assert ctl.ok("users", "create", "ann") == "ann\n"
    again = ctl.run("users", "create", "ann")
    assert again.returncode == 1 and "there is a user of this name" in again.stderr
    for bad in ("", "Ann", "../x", "-x", "a" * 65, "a b"):
        assert ctl.run("users", "create", bad).returncode == 1, bad
    assert [line.split()[:2] for line in ctl.ok("users", "list").splitlines()] == [["ann", "user"], ["root.1", "admin"]]


def test_a_tokens_secret_is_alone_on_standard_output(ctl):
    done = ctl.run("tokens", "create", "--user", "ann", "--kind", "user", "--label", "laptop", "--days", "3")
    assert done.returncode == 0 and done.stderr == ""
    found = re.fullmatch(r"pdk_([0-9a-f]{12})_[0-9a-f]{64}\n", done.stdout)
    assert found
    listed = ctl.ok("tokens", "list", "--user", "ann")
    assert found.group(1) in listed and "laptop" in listed and done.stdout.strip() not in listed
    assert re.fullmatch(r"e2b_[0-9a-f]{76}\n", ctl.ok("tokens", "create", "--user", "ann", "--kind", "e2b"))
    assert done.stdout.strip() not in ctl.db.sql("SELECT string_agg(t::text, ' ') FROM tokens t")
    ctl.ok("tokens", "revoke", found.group(1))
    assert ctl.db.sql("SELECT revoked_at IS NOT NULL FROM tokens WHERE id = '%s'" % found.group(1)) == "t"


def test_refusals(ctl):
    cases = {("tokens", "create", "--user", "nobody", "--kind", "user"): (1, "no user of this name"),
             ("tokens", "create", "--user", "ann", "--kind", "admin"): (1, "admin account"),
             ("tokens", "create", "--user", "ann", "--kind", "root"): (2, "usage"), ("tokens", "create", "--user", "ann"): (2, "usage"),
             ("tokens", "create", "--user", "ann", "--kind", "user", "--days", "0"): (2, "usage"), ("tokens", "revoke", "0" * 12): (1, "no such token"),
             ("tokens", "revoke", "x"): (1, "no such token"), ("users",): (2, "usage"), ("nonsense",): (2, "no command"), (): (2, "usage")}
    for argv, (code, word) in cases.items():
        done = ctl.run(*argv)
        assert (done.returncode, word in done.stderr) == (code, True), (argv, done)
        assert done.stdout == ""


def test_changes_are_on_record(ctl):
    rows = ctl.db.sql("SELECT action || ' ' || actor || ' ' || source || ' ' || result FROM audit ORDER BY id").splitlines()
    assert "user.create_admin root paddockctl ok" in rows and "token.create root paddockctl ok" in rows and "token.revoke root paddockctl ok" in rows


EVIL = "E'ev\\x1b[2J il\\u009b31m \\U0001f4a9\\x7f'"


@pytest.fixture(name="things")
def _things(ctl):
    """Runs in every state in which one can wait, for a user of the test's own."""
    user = "u" + uuid.uuid4().hex[:8]
    ctl.ok("users", "create", user)
    ids = {}

    def run(name, thread, status, **columns):
        ids[name] = str(uuid.uuid4())
        values = dict({"id": "'%s'" % ids[name], "thread_id": thread, "status": "'%s'" % status, "max_attempts": "2", "backend": "'container'", "workdir": "'/w'", "timeout_ms": "1000",
                       "attempt": "1", "started_at": "now()", "deadline_at": "now() + interval '1 h'"}, **columns)
        ctl.db.sql("INSERT INTO runs (user_id, %s) SELECT id, %s FROM users WHERE name = '%s'" % (", ".join(values), ", ".join(values.values()), user))

    over = {"ended_at": "now()", "cleanup_pending": "true", "cleanup_next_at": "now() + interval '1 h'"}
    lease = {"lease_owner": "'w1'", "lease_nonce": "'n'", "lease_hash": "'h'"}
    run("failed", "'fence'", "completed", cleanup_tries="7", cleanup_error="E'cannot \\x1b]0;evil\\x07'", instance_id="gen_random_uuid()", **over)
    run("fenced", "'fence'", "pending")
    run("fresh", "'fence2'", "cancelled", **over)
    run("behind", "'fence2'", "pending")
    run("unclaimed", EVIL, "pending")
    run("leased", "'x'", "running", lease_expires_at="now() + interval '1 min'", **lease)
    run("expired", "'x'", "running", lease_expires_at="now() - interval '2 min'", **lease)
    run("cancelling", "'x'", "cancel_requested", cancel_requested_at="now() - interval '2 min'")
    run("over", "'x'", "completed", ended_at="now()")
    yield user, ids
    ctl.db.sql("UPDATE runs SET status = 'completed', ended_at = now(), cleanup_pending = false, cleanup_next_at = NULL, lease_owner = NULL, lease_nonce = NULL, lease_hash = NULL, "
               "lease_expires_at = NULL WHERE id IN (%s)" % ", ".join("'%s'" % i for i in ids.values()))


def rows(ctl, *argv):
    return [json.loads(line) for line in ctl.ok(*argv, "--json").splitlines()]


def test_runs_say_why_they_wait(ctl, things):
    user, ids = things
    found = {r["id"]: r for r in rows(ctl, "runs", "--user", user)}
    assert {n: found[i]["why"] for n, i in ids.items() if i in found} == {
        "failed": "cleanup_failed", "fenced": "fenced", "fresh": "cleanup", "behind": "fenced", "unclaimed": "unclaimed", "leased": "leased", "expired": "lease_expired",
        "cancelling": "cancelling"}
    assert found[ids["fenced"]]["fenced_by"] == ids["failed"] and found[ids["leased"]]["lease_owner"] == "w1" and found[ids["leased"]]["lease_expires_at"]
    assert found[ids["failed"]]["cleanup_tries"] == 7 and found[ids["failed"]]["cleanup_next_at"] and "cannot" in found[ids["failed"]]["error"]
    assert found[ids["cancelling"]]["cancel_requested_at"] and found[ids["unclaimed"]]["lease_owner"] is None
    stuck = {r["id"] for r in rows(ctl, "runs", "--user", user, "--stuck")}
    assert stuck == {ids[n] for n in ("failed", "fenced", "expired", "cancelling")}
    assert {r["id"] for r in rows(ctl, "runs", "--user", user, "--status", "completed")} == {ids["failed"], ids["over"]}
    assert [r["id"] for r in rows(ctl, "runs", "--run", ids["over"])] == [ids["over"]]
    assert len(rows(ctl, "runs", "--user", user, "--all")) == len(ids) and len(rows(ctl, "runs", "--limit", "1")) == 1


def test_nothing_reaches_a_terminal_that_it_would_obey(ctl, things):
    user, ids = things
    ctl.db.sql("INSERT INTO sandbox_commands (id, run_id, attempt, user_id, instance_id, command, cwd, timeout_ms, background, actor_id) SELECT gen_random_uuid(), '%s', 1, user_id, "
               "gen_random_uuid(), %s || repeat('x', 5000), '/w', 1, false, user_id FROM runs WHERE id = '%s'" % (ids["leased"], EVIL, ids["leased"]))
    for argv in (("runs", "--user", user), ("commands", "--user", user), ("cleanup", "--user", user)):
        for more in ((), ("--json",)):
            out = ctl.ok(*argv, *more)
            assert all(c == "\n" or " " <= c <= "~" for c in out), (argv, more)
    assert "ev?[2J il??31m ????? " in ctl.ok("runs", "--user", user)
    assert {r["thread_id"] for r in rows(ctl, "runs", "--user", user)} >= {"ev\x1b[2J il\u009b31m \U0001f4a9\x7f"}
    assert rows(ctl, "commands", "--user", user)[0]["command"].startswith("ev\x1b[2J")


def test_columns_are_stable(ctl, things):
    user, _ = things
    for argv, first in ((("runs",), "id"), (("cleanup",), "run_id")):
        lines = ctl.ok(*argv, "--user", user).splitlines()
        assert lines[0].startswith(first + " ") and len(lines) > 2
        at = [m.start() for m in re.finditer(r"\S+", lines[0])]
        for line in lines[1:]:
            assert all(i == 0 or line[i - 1] == " " for i in at) and all(line[i] != " " for i in at), line


def test_cleanup_is_tried_again_when_asked(ctl, things):
    user, ids = things
    listed = rows(ctl, "cleanup", "--user", user)
    assert {r["run_id"] for r in listed} == {ids["failed"], ids["fresh"]}
    assert [r["tries"] for r in listed if r["run_id"] == ids["failed"]] == [7]
    due = "SELECT cleanup_next_at <= now() FROM runs WHERE id = '%s'"
    assert ctl.ok("cleanup", "retry", ids["failed"]) == ids["failed"] + "\n"
    assert ctl.db.sql(due % ids["failed"]) == "t" and ctl.db.sql(due % ids["fresh"]) == "f"
    assert ctl.db.sql("SELECT actor || ' ' || u.name || ' ' || source || ' ' || result FROM audit a JOIN users u ON u.id = a.user_id WHERE action = 'run.cleanup_retry' AND object = '%s'"
                      % ids["failed"]) == "root %s paddockctl ok" % user
    assert set(ctl.ok("cleanup", "retry", "--all").split()) >= {ids["failed"], ids["fresh"]}
    assert ctl.db.sql(due % ids["fresh"]) == "t"
    for bad in (ids["over"], str(uuid.uuid4()), "x"):
        done = ctl.run("cleanup", "retry", bad)
        assert done.returncode == 1 and "no such clean-up" in done.stderr and not done.stdout


def test_commands_are_listed_and_killed(ctl, things):
    user, ids = things
    made = {}
    for name, more in (("open", ""), ("over", ", status = 'exited', reason = 'exited', exit_code = 0, ended_at = now(), duration_ms = 5")):
        made[name] = str(uuid.uuid4())
        ctl.db.sql("INSERT INTO sandbox_commands (id, run_id, attempt, user_id, instance_id, command, cwd, timeout_ms, background, actor_id) SELECT '%s', id, 1, user_id, "
                   "gen_random_uuid(), '%s', '/w', 1, false, user_id FROM runs WHERE id = '%s'" % (made[name], name, ids["leased"]))
        if more:
            ctl.db.sql("UPDATE sandbox_commands SET " + more[2:] + " WHERE id = '%s'" % made[name])
    assert {r["id"] for r in rows(ctl, "commands", "--run", ids["leased"])} == set(made.values())
    assert [(r["id"], r["command"]) for r in rows(ctl, "commands", "--user", user, "--open")] == [(made["open"], "open")]
    done = ctl.run("commands", "kill", made["open"])
    assert done.returncode == 1 and "executor" in done.stderr
    executor = FakeExecutor(os.path.dirname(ctl.conf) + "/executor.sock")
    try:
        executor.commands[made["open"]] = {"id": made["open"]}
        assert ctl.ok("commands", "kill", made["open"]) == ""
        assert ("POST", "/v1/commands/%s/kill" % made["open"]) in [c[:2] for c in executor.calls]
        for bad, why in ((made["over"], "has ended"), (str(uuid.uuid4()), "no such command"), ("x", "no such command")):
            done = ctl.run("commands", "kill", bad)
            assert done.returncode == 1 and why in done.stderr, done
    finally:
        executor.stop()
    noted = ctl.db.sql("SELECT actor || ' ' || u.name || ' ' || a.source || ' ' || result FROM audit a JOIN users u ON u.id = a.user_id WHERE action = 'command.kill' AND object = '%s' "
                       "ORDER BY a.id" % made["open"]).splitlines()
    assert noted == ["root %s paddockctl executor_unavailable" % user, "root %s paddockctl ok" % user]


def test_wrong_options(ctl):
    for argv in (("runs", "--nothing"), ("runs", "--limit", "0"), ("runs", "--limit"), ("runs", "--run", "x"), ("commands", "kill"), ("commands", "x"), ("cleanup", "retry"),
                 ("cleanup", "retry", "a", "b")):
        done = ctl.run(*argv)
        assert done.returncode == 2 and "usage: paddockctl " + argv[0] in done.stderr and not done.stdout, argv


def test_without_a_database_it_says_so(ctl):
    ctl.db.tool("halt")
    try:
        done = ctl.run("users", "list")
        assert done.returncode == 1 and "cannot connect to the database" in done.stderr
    finally:
        ctl.db.tool("resume")
