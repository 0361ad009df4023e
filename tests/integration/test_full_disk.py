"""A disk that a user's command has filled: the executor's books, sandboxes and Workspaces on one file system, as set-up puts them. Runs end, what they left is
killed, and the user himself makes room by throwing his sandbox away; nobody else has to do anything."""

import os
import shutil
import subprocess
import tempfile

import pytest

from conftest import BUILD
from host_truth import HostTruth
from nodes import Cluster, Host, HostExecutor, Stack, User, until

pytestmark = [pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
              pytest.mark.skipif(not os.access(BUILD + "/paddock-api", os.X_OK), reason="paddock-api is not built"),
              pytest.mark.skipif(not Host.available(BUILD), reason="provider host needs its programs, uidmap and root")]

BYTES = """
import os, time
f = os.open('/home/user/big', os.O_CREAT | os.O_WRONLY)
while True:
    for n in (65536, 1):
        try:
            while True: os.write(f, b'x' * n)
        except OSError: time.sleep(0.001)
"""
INODES = """
import os, time
n = 0
while True:
    try:
        os.mkdir('/home/user/%d' % n)
        n += 1
    except OSError: time.sleep(0.001)
"""


class SmallHost(Host):
    """All that grows is on one small file system."""
    disk = "size=48m,nr_inodes=700"

    def executor(self, build, **options):
        made = HostExecutor(build, self.host, **options)
        self.mounts = [made.root + "/disk"]
        os.mkdir(self.mounts[0], 0o711)
        subprocess.run(["mount", "-t", "tmpfs", "-o", self.disk + ",mode=711", "none", self.mounts[0]], check=True)
        for name in ("state", "ws", "sandboxes"):
            at, on = made.root + "/" + name, self.mounts[0] + "/" + name
            os.mkdir(on)
            shutil.copystat(at, on)
            os.chown(on, made.account.pw_uid, made.account.pw_gid)
            subprocess.run(["mount", "--bind", on, at], check=True)
            self.mounts.append(at)
        self.truth, self.account = HostTruth(made.root + "/sandboxes"), made.account
        return made

    def close(self):
        for at in reversed(self.mounts):
            subprocess.run(["umount", "-l", at], check=False)
        shutil.rmtree(os.path.dirname(self.mounts[0]), ignore_errors=True)


@pytest.fixture(name="stack")
def _stack():
    root = tempfile.mkdtemp(prefix="paddock-nodes-")
    os.chmod(root, 0o711)
    cluster = Cluster(BUILD, root)
    s = Stack(cluster, SmallHost, executor_options={"min_free_bytes": "1M"})
    try:
        with s:
            yield s
    finally:
        s.provider.close()
        cluster.stop()
        shutil.rmtree(root, ignore_errors=True)


def alive(mark):
    return subprocess.run(["pgrep", "-f", "^sleep %s$" % mark], check=False, capture_output=True).returncode == 0


def room(stack):
    """Blocks or inodes, whichever are fewer, in percent."""
    v = os.statvfs(stack.provider.mounts[0])
    return min(100 * v.f_bavail // v.f_blocks, 100 * v.f_favail // v.f_files)


def clean(user, run):
    def over():
        r = user.get_run(run)
        return r["status"] in ("completed", "cancelled") and not r["runtime_cleanup_pending"]
    until("the end of Run " + run, over)


@pytest.mark.parametrize("program, ends, dies", [(BYTES, "rebuild", False), (INODES, "release", True)], ids=["bytes", "inodes"])
def test_it_comes_to_rest_by_itself(stack, program, ends, dies):
    who, other, mark = User(stack, "who"), User(stack, "other"), "7%d" % os.getpid()
    runs = {}
    for user in (who, other):
        run, lease = user.run()
        runs[user] = run, lease, user.start(run, lease, "setsid sleep %s1 & sleep %s2" % (mark, mark))
        user.started(runs[user][2])
    filler, lease = who.run()
    who.start(filler, lease, 'setsid python3 -c "%s" & sleep %s3' % (program, mark))
    until("the disk is full", lambda: room(stack) == 0)
    # while it is being filled, Runs end as ever
    who.finish(*runs[who][:2])
    other.cancel(runs[other][0])
    for user, (run, _, cid) in runs.items():
        clean(user, run)
        assert user.command(cid)["reason"] == "cancelled"
    assert not alive(mark + "1") and not alive(mark + "2") and alive(mark + "3")
    # and so does the one that fills it: the disk stays full, until its user wants another sandbox, or none
    if dies:
        stack.executor.kill()
        stack.executor.start()
    who.cancel(filler)
    clean(who, filler)
    assert not alive(mark + "3") and room(stack) < 20
    who.again("POST", "/api/user/sandbox/" + ends)
    until("there is room", lambda: room(stack) > 20)
    for user in (who, other):
        user.ended(user.execute("echo x"))
    assert not stack.settle(30) and not stack.disagreements()
