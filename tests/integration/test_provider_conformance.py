"""The suite that every provider passes (tests/unit/test_provider.c), against the real ones: the container provider with the installed engine, the host
provider with a launcher of its own, and tests/lib/unshare_provider.c, which is the agent in a pid namespace and nothing more."""

import os
import shutil
import subprocess
import sys
import tempfile

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "lib"))

import container_lab  # noqa: E402
import host_lab  # noqa: E402

BUILD = os.environ.get("PADDOCK_BUILD", os.getcwd())
SUITE = os.path.join(BUILD, "tests/unit/test_provider")
WITH_AGENT = os.path.join(BUILD, "tests/lib/test_provider_unshare")
AGENT = os.environ.get("PADDOCK_AGENT", os.path.join(BUILD, "paddock-agent"))
INI = """[service]
node = suite
[paths]
workspaces = {0}/ws
[container]
agent_dir = {0}/agents
agent = {1}
"""


def failed(account, lab, provider):
    """The tests that failed; the output is shown with them."""
    shutil.copy(SUITE, lab.root + "/bin/")
    os.chmod(lab.root + "/bin/test_provider", 0o755)
    run = subprocess.run(["setpriv", "--reuid", str(account.pw_uid), "--regid", str(account.pw_gid), "--clear-groups", lab.root + "/bin/test_provider", provider,
                          lab.root + "/paddock.ini"], cwd="/", env={**os.environ, "CMOCKA_MESSAGE_OUTPUT": "TAP", "TMPDIR": lab.root + "/run"},
                         capture_output=True, text=True, timeout=800, check=False)
    print(run.stdout, run.stderr)
    lines = run.stdout.splitlines()
    assert sum(line.startswith(("ok ", "not ok ")) for line in lines) > 20, "it did not run to its end"
    return [line for line in lines if line.startswith("not ok ")], run.returncode


@pytest.mark.skipif(container_lab.why_not(BUILD) is not None or not os.path.exists(SUITE), reason=container_lab.why_not(BUILD) or "no test_provider")
def test_container():
    lab = container_lab.Lab(BUILD)
    try:
        assert failed(lab.account, lab, "container") == ([], 0)
        assert not lab.mine() and not lab.processes()
    finally:
        lab.end()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: a pid namespace and another account")
@pytest.mark.skipif(not os.path.exists(WITH_AGENT) or not os.access(AGENT, os.X_OK), reason="no test_provider_unshare or no agent")
def test_agent():
    root = tempfile.mkdtemp(prefix="pdk-u-")
    try:
        os.chmod(root, 0o711)
        for name in ("ws", "agents"):
            os.mkdir(os.path.join(root, name), 0o711)
        with open(root + "/ini", "w", encoding="utf-8") as f:
            f.write(INI.format(root, os.path.abspath(AGENT)))
        run = subprocess.run([WITH_AGENT, "unshare", root + "/ini"], cwd="/", env={**os.environ, "CMOCKA_MESSAGE_OUTPUT": "TAP", "TMPDIR": root},
                             capture_output=True, text=True, timeout=300, check=False)
        print(run.stdout, run.stderr)
        lines = run.stdout.splitlines()
        assert sum(line.startswith("ok ") for line in lines) > 25 and run.returncode == 0
    finally:
        shutil.rmtree(root, ignore_errors=True)


@pytest.mark.skipif(host_lab.why_not(BUILD) is not None or not os.path.exists(SUITE), reason=host_lab.why_not(BUILD) or "no test_provider")
def test_host():
    lab = host_lab.Lab(BUILD)
    try:
        lab.arm()
        lab.start_launcher()
        assert failed(lab.account, lab, "host") == ([], 0)
        host_lab.wait_for("nothing is left", lambda: not lab.processes() and not lab.account.groups(), 5)
    finally:
        lab.end()
