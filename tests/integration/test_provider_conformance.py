"""The suite that every provider passes (tests/unit/test_provider.c), against the real ones: the container provider with the installed engine."""

import os
import shutil
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "lib"))

import container_lab  # noqa: E402

BUILD = os.environ.get("PADDOCK_BUILD", os.getcwd())
SUITE = os.path.join(BUILD, "tests/unit/test_provider")


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
        for name in lab.mine():
            lab.engine("DELETE", "/containers/%s?force=true&timeout=0" % name)
        shutil.rmtree(lab.root, ignore_errors=True)
