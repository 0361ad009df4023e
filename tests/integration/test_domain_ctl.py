"""paddockctl against a database of its own: what it prints, what it refuses, what it leaves on record."""

import os
import re
import secrets
import shutil
import subprocess
import tempfile

import pytest

from conftest import BUILD, TOP, Database

CTL = os.path.join(BUILD, "paddockctl")


class Ctl:
    def __init__(self, root):
        self.conf = root + "/paddock.ini"
        os.mkdir(root + "/keys", 0o700)
        with open(os.open(root + "/keys/pepper", os.O_WRONLY | os.O_CREAT, 0o400), "wb") as f:
            f.write(secrets.token_bytes(32))
        with open(self.conf, "w", encoding="utf-8") as f:
            f.write('[paths]\nkeys = %s/keys\n[database]\nconninfo = "host=%s/pg dbname=paddock user=paddock_api"\n' % (root, root))

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


def test_runs_shows_nothing_that_a_terminal_would_obey(ctl):
    ctl.db.sql("INSERT INTO runs (id, user_id, thread_id, status, max_attempts, backend, workdir, timeout_ms) SELECT gen_random_uuid(), id, E'evil\\x1b[2J', "
               "'pending', 2, 'container', '/home/user/workspace', 1000 FROM users WHERE name = 'ann'")
    out = ctl.ok("runs")
    assert "evil?[2J" in out and "\x1b" not in out and "pending" in out
    assert ctl.ok("runs", "--all", "--limit", "1").count("\n") == 1


def test_without_a_database_it_says_so(ctl):
    ctl.db.tool("halt")
    try:
        done = ctl.run("users", "list")
        assert done.returncode == 1 and "cannot connect to the database" in done.stderr
    finally:
        ctl.db.tool("resume")
