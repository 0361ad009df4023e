"""Each process that acts on duties is killed right before and right after each of its writes and calls. After a restart and one round of the janitor rows and
provider agree, nothing is left to do, nothing was done twice, and the service works on. The cases are made from src/base/fault_steps.def."""

import collections
import os
import shutil
import tempfile
import threading
import time

import pytest

import crash
import crash_recipes  # noqa: F401  pylint: disable=unused-import
from conftest import BUILD
from nodes import Cluster, Host, Scripted, Stack, Unshare

KINDS = {k.name: k for k in (Unshare, Scripted, Host) if k.available(BUILD)}
TABLE, COMPILED_IN = crash.points(BUILD) if os.access(BUILD + "/tests/lib/fault-list", os.X_OK) else ([], False)
PARTS = {"per-run": 1, "scripted": 3, "host": 3}   # each on a service of its own, side by side: they wait most of the time
ONLY = os.environ.get("PADDOCK_CRASH_ONLY", "")   # a part of a case's name
CASES, MISSING = crash.matrix(TABLE, KINDS)


def name_of(case):
    return "%s-%s-%s-%s" % (case.kind, case.actor, case.point, case.recipe.__name__)


CASES = [case for case in CASES if ONLY in name_of(case)]
pytestmark = [pytest.mark.skipif(not COMPILED_IN, reason="built without --enable-fault"), pytest.mark.skipif(os.geteuid() != 0, reason="needs root")]


def figure(request, text):
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print("\nfigure: crash matrix: " + text)


@pytest.fixture(scope="module", name="walks")
def _walks(request):
    root = tempfile.mkdtemp(prefix="paddock-crash-")
    os.chmod(root, 0o711)
    cluster = Cluster(BUILD, root)
    walks, failures = [], []

    def walk(kind, part):
        try:
            with Stack(cluster, KINDS[kind], runs_max_attempts=3, sandbox_keepalive_ms=500) as stack:
                w = crash.Walk(stack, [case for case in CASES if case.kind == kind][part::PARTS[kind]])
                w.run()
                walks.append(w)
        except BaseException as e:   # pylint: disable=broad-except  - raised again below, by the test's own thread
            failures.append(e)
    sizes = collections.Counter(case.kind for case in CASES)
    threads = [threading.Thread(target=walk, args=(kind, part)) for kind, n in sizes.items() for part in range(min(n, PARTS[kind]))]
    begin = time.monotonic()
    try:
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        if failures:
            raise failures[0]
        for w in walks:
            figure(request, "%s: %d deaths in %.0f s, at rest %.1f s after the last; the longest: %s" % (
                w.cases[0].kind, len(w.cases), sum(w.took.values()), w.settled_s,
                ", ".join("%s %.1f s" % (name_of(c), w.took[c]) for c in sorted(w.took, key=w.took.get)[-3:])))
        figure(request, "%d points, %d deaths, %.0f s" % (len({(c.point, c.actor) for c in CASES}), len(CASES), time.monotonic() - begin))
        yield walks
    finally:
        cluster.stop()
        shutil.rmtree(root, ignore_errors=True)


def test_no_step_is_left_out():
    """Each point of the list has a way that leads to it."""
    assert not MISSING and len(TABLE) > 30


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_dies_and_recovers(walks, case):
    problems, = [w.problems[case] for w in walks if case in w.problems]
    assert not problems, "\n".join(problems)


def test_nothing_is_nobodys(walks):
    """No instance, Run or sandbox that belongs to none of the cases."""
    assert not [line for w in walks for line in w.general]
