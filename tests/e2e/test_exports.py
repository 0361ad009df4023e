"""R2.11: what a command writes into $PADDOCK_ENV reaches the later commands of its Run's attempt, and nobody else."""


def value(call, name, **fields):
    return call('printf %%s "${%s-unset}"' % name, **fields)["stdout"]


def test_an_export_reaches_the_next_commands(user, sh):
    assert sh('echo FIRST=1 >> "$PADDOCK_ENV"; echo "SECOND=a b=c" >> "$PADDOCK_ENV"')["exit_code"] == 0
    assert value(sh, "FIRST") == "1" and value(sh, "SECOND") == "a b=c"
    assert sh('echo FIRST=2 >> "$PADDOCK_ENV"')["exit_code"] == 0
    assert value(sh, "FIRST") == "2", "the last line holds"
    assert value(sh, "FIRST", env={"FIRST": "mine"}) == "mine", "a command's own variable goes before"


def test_what_is_no_variable_is_ignored(sh):
    lines = ["PADDOCK_X=1", "LD_PRELOAD=/x.so", "HOME=/", "USER=root", "1BAD=x", "no equals sign", "=x", " GOOD_ONE = y", "GOOD_TWO=z"]
    assert sh('cat >> "$PADDOCK_ENV"', stdin="\n".join(lines) + "\n")["exit_code"] == 0
    got = dict(line.split("=", 1) for line in sh("env")["stdout"].splitlines() if "=" in line)
    assert got["GOOD_TWO"] == "z" and got["HOME"] == "/home/user" and got["USER"] == "user"
    assert not {"PADDOCK_X", "LD_PRELOAD", "1BAD", ""} & set(got)


def test_a_hostile_file_stops_nothing(sh):
    for wreck in ("mkdir", "mkfifo", "ln -s /proc/1/environ", "ln -s /dev/zero"):
        assert sh('rm -rf "$PADDOCK_ENV"; %s "$PADDOCK_ENV"' % wreck)["exit_code"] == 0, wreck
        answer = sh("echo still here")
        assert answer["stdout"] == "still here\n", wreck
    assert sh('rm -rf "$PADDOCK_ENV"; head -c 3000000 /dev/zero | tr "\\0" "x" > "$PADDOCK_ENV"')["exit_code"] == 0
    assert sh("echo still here")["stdout"] == "still here\n"


def test_another_run_sees_nothing(user, sh):
    assert sh('rm -rf "$PADDOCK_ENV"; echo MINE=secret > "$PADDOCK_ENV"')["exit_code"] == 0
    assert value(sh, "MINE") == "secret"
    run, token = user.claimed()
    assert user.command(run["id"], 'printf %s "${MINE-unset}"', lease_token=token)["stdout"] == "unset"
    user.finish(run["id"], token).ok(200)
    assert user.execute('printf %s "${MINE-unset}"')["stdout"] == "unset"
