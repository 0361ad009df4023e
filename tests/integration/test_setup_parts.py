"""Parts of set-up that an installation which is well does not pass: a service that is down, a clone that the accounts may not enter."""

import os
import shutil
import subprocess
import time

import pytest

LIB = os.path.join(os.path.dirname(__file__), "..", "..", "contrib", "lib")
SCRIPT = ("set -euo pipefail; . %s/common.sh; . %s/service.sh; have_systemd() { false; }; run=$1/run etc=$1/etc prefix=$1/opt; cd $1; shift; \"$@\""
          % (LIB, LIB))


def run(root, *call):
    env = {k: v for k, v in os.environ.items() if not k.startswith("PADDOCK_")}
    return subprocess.run(["bash", "-c", SCRIPT, "bash", str(root), *call], env=env, check=True, capture_output=True, text=True, timeout=30).stdout


@pytest.fixture(name="supervised")
def _supervised(tmp_path):
    if not shutil.which("s6-svscan"):
        pytest.skip("s6 is not installed")
    (tmp_path / "etc").mkdir()
    program = tmp_path / "run/service/api/run"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    scan = subprocess.Popen(["s6-svscan", str(tmp_path / "run/service")], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    service = str(program.parent)
    end = time.monotonic() + 10
    while subprocess.run(["s6-svok", service], check=False).returncode and time.monotonic() < end:
        time.sleep(0.05)
    yield tmp_path, service
    subprocess.run(["s6-svscanctl", "-t", str(tmp_path / "run/service")], check=True)
    scan.wait(timeout=10)


def up(root, version):
    (root / "etc/paddock.ini").write_text(version)
    run(root, "service_up", "api")


def pid(service):
    subprocess.run(["s6-svwait", "-u", "-t", "5000", service], check=True)
    return subprocess.run(["s6-svstat", "-o", "pid", service], check=True, capture_output=True, text=True).stdout


def test_a_service_that_is_down_and_has_changed_is_started(supervised):
    root, service = supervised
    up(root, "1")
    pid(service)
    subprocess.run(["s6-svc", "-wD", "-d", service], check=True)
    up(root, "2")
    assert int(pid(service)) > 0


def test_only_what_has_changed_is_restarted(supervised):
    root, service = supervised
    up(root, "1")
    first = pid(service)
    up(root, "1")
    assert pid(service) == first
    subprocess.run(["s6-svc", "-wD", "-d", service], check=True)
    subprocess.run(["s6-svc", "-wu", "-u", service], check=True)
    first = pid(service)
    up(root, "2")
    end = time.monotonic() + 10
    while pid(service) == first and time.monotonic() < end:
        time.sleep(0.05)
    assert pid(service) != first


def test_an_account_works_from_a_directory_that_it_may_enter(tmp_path):
    """The clone is where root's home is, say."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    tmp_path.chmod(0o700)
    assert run(tmp_path, "as", "daemon", "pwd") == "/\n"
