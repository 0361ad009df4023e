"""Executes docs/examples.md: its sh blocks in order, in one shell, as a reader would paste them. A block of another kind that follows
one is what it prints: each of its lines must be there, `...` stands for anything."""

import os
import re
import subprocess

import pytest

PAGE = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "examples.md")
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.M | re.S)


def blocks():
    with open(PAGE, encoding="utf-8") as f:
        return FENCE.findall(f.read())


def matches(expected, actual):
    pattern = "".join(".*" if part == "..." else re.escape(part) for part in re.split(r"(\.\.\.)", expected.strip()))
    return re.search(pattern, actual, re.S)


def test_page_has_examples():
    kinds = [kind for kind, _ in blocks()]
    assert kinds.count("sh") >= 8, kinds
    assert set(kinds) <= {"sh", "text", "json"}, "a block of a kind that nothing checks"


def test_examples(inst, user, tmp_path):
    script, wanted = ["set -eu", "export TOKEN=%s" % user.token], {}
    number = -1
    for kind, body in blocks():
        if kind == "sh":
            number += 1
            script += ["echo @@%d" % number, "echo @@%d >&2" % number, body.replace("8443", str(inst.port))]
        else:
            wanted.setdefault(number, []).append(body)
    done = subprocess.run(["bash", "-c", "\n".join(script)], capture_output=True, text=True, timeout=240, cwd=tmp_path,
                          env=inst.environment(PATH=inst.prefix + "/bin:/usr/bin:/bin"))
    outputs = dict(zip((int(n) for n in re.findall(r"^@@(\d+)$", done.stdout, re.M)), re.split(r"^@@\d+\n", done.stdout, flags=re.M)[1:]))
    last = max(outputs) if outputs else None
    assert done.returncode == 0, "block %s failed:\n%s\n%s" % (last, outputs.get(last), done.stderr[-3000:])
    for block, bodies in wanted.items():
        for body in bodies:
            if not matches(body, outputs[block]):
                pytest.fail("block %d printed\n%s\nthe page says\n%s" % (block, outputs[block], body))
