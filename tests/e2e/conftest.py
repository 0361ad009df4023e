"""Fixtures of the end-to-end tests. They run against an installed and started instance (PADDOCK_INSTANCE, PADDOCK_HTTPS_PORT)."""

import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))

from paddock import Instance  # noqa: E402


def pytest_addoption(parser):
    group = parser.getgroup("paddock")
    group.addoption("--pause", type=float, default=60, help="seconds for which the slow reader stops")
    group.addoption("--kills", type=int, default=30, help="how many random kills the chaos test does")
    group.addoption("--seed", type=int, default=None, help="seed of the chaos test")
    group.addoption("--commands", type=int, default=1000, help="commands of the leak test")


def pytest_terminal_summary(terminalreporter):
    """What tests that passed have measured: lines that they print with "figure: " in front."""
    for report in terminalreporter.getreports("passed"):
        for line in report.capstdout.splitlines():
            if line.startswith("figure: "):
                terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def inst():
    instance = Instance.from_environment()
    try:
        instance.wait_ready(60)
    except AssertionError as error:
        pytest.exit("no ready service on port %d: %s" % (instance.port, error), returncode=3)
    yield instance
    instance.end_runs()


@pytest.fixture(scope="module")
def user(inst):
    """A user of the module's own."""
    client = inst.user()
    yield client
    client.close()


@pytest.fixture(scope="module")
def other(inst):
    """Somebody else."""
    client = inst.user()
    yield client
    client.close()


@pytest.fixture(scope="module")
def warm(user):
    """A claimed Run of the module with its container up: (run id, lease token). Ended with the module."""
    run, token = user.claimed(lease_ms=3600000)
    user.command(run["id"], "true", lease_token=token)
    yield run["id"], token
    user.finish(run["id"], token)


@pytest.fixture
def sh(user, warm):
    """Runs a command in the module's warm Run and gives the Command."""
    run_id, token = warm

    def call(command, **fields):
        return user.command(run_id, command, lease_token=token, **fields)
    return call


@pytest.fixture
def live(user, warm):
    """The same with a live answer."""
    run_id, token = warm

    def call(command, **fields):
        return user.live(run_id, command, lease_token=token, **fields)
    return call
