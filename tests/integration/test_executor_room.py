"""How little an executor costs that has nothing to do, and what it does when there is no room: recorded output goes first, records never."""

import os
import signal
import subprocess
import time
import uuid

import pytest
from executor import Executor

BUILD = os.environ.get("PADDOCK_BUILD", os.getcwd())
pytestmark = pytest.mark.skipif(os.getuid() != 0 or not os.path.exists(BUILD + "/tests/lib/paddock-executor-unshare"),
                                reason="needs root and the test build of the executor")


class SmallDisk(Executor):
    """Its state directory is a small tmpfs in a mount namespace that outlives it."""

    def __init__(self, build, size, **options):
        super().__init__(build, **options)
        os.mkdir(self.root + "/state", 0o700)
        self.holder = subprocess.Popen(["unshare", "-m", "--propagation", "private", "sh", "-c", 'mount -t tmpfs -o size=%s none "$0" && echo && exec sleep 600' % size,
                                        self.root + "/state"], stdout=subprocess.PIPE)
        self.holder.stdout.readline()
        self.state_dir = "/proc/%d/root%s/state" % (self.holder.pid, self.root)

    def spawn(self):
        out = open(self.log, "ab")
        return subprocess.Popen(["nsenter", "-m", "-t", str(self.holder.pid), self.build + "/tests/lib/paddock-executor-unshare", "--config",
                                 self.root + "/paddock.ini"], stdout=out, stderr=out, start_new_session=True)

    def close(self):
        super().close()
        self.holder.kill()
        self.holder.wait()

    def fill_inodes(self):
        try:
            for i in range(1 << 20):
                os.mkdir(self.state_dir + "/filler-%d" % i)
        except OSError:
            pass

    def fill(self):
        with open(self.state_dir + "/filler", "wb", buffering=0) as f:
            try:
                while True:
                    f.write(b"x" * 4096)
            except OSError:
                pass


@pytest.fixture
def own():
    made = []

    def make(kind=Executor, *args, **options):
        made.append(kind(BUILD, *args, **options))
        return made[-1].start()
    yield make
    for e in made:
        e.close()


def until(check, seconds=15):
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end
        time.sleep(0.02)


def metric(x, name):
    for line in x.call("GET", "/metrics").body.decode().splitlines():
        if line.startswith("paddock_executor_%s " % name):
            return int(line.split()[1])
    raise AssertionError(name)


def reports(x):
    return x.call("GET", "/v1/reports?limit=500").json["items"]


def ack(x):
    until(lambda: metric(x, "commands_open") == 0)   # the report comes a moment after the answer
    x.call("POST", "/v1/reports/ack", {"keys": [i["key"] for i in reports(x)]})


def switches(pid):
    with open("/proc/%d/status" % pid) as f:
        return sum(int(line.split()[1]) for line in f if "ctxt_switches" in line)


def component(x):
    return next(c for c in x.call("GET", "/v1/health").json["components"] if c["name"] == "journal")


def megabyte(x, iid):
    return x.run(iid, "head -c 1000000 /dev/zero | tr '\\0' x").json["id"]


# --- idle ---

def test_an_idle_executor_sleeps(own):
    x = own()
    iid = str(uuid.uuid4())
    for _ in range(30):
        x.run(iid, "echo x")
    ack(x)
    time.sleep(1.5)   # what was at work comes to rest
    before = switches(x.process.pid)
    time.sleep(4)
    assert switches(x.process.pid) - before <= 8


# --- the cap ---

CAPS = {"stream_head_bytes": "1M", "stream_tail_bytes": "1M", "journal_max_bytes": "6M"}


def test_recorded_output_goes_first_and_the_oldest_first(own):
    x = own(**CAPS)
    iid = str(uuid.uuid4())
    cids = []
    for _ in range(9):
        cids.append(megabyte(x, iid))
        ack(x)
        time.sleep(0.3)   # a file of the archive each
    until(lambda: metric(x, "journal_acknowledged_bytes") <= 6 << 20)
    sizes = [len(x.call("GET", "/v1/commands/%s/stdout" % c).body) for c in cids]
    kept = sizes.count(1000000)
    assert 3 <= kept < 9 and sizes == [0] * (9 - kept) + [1000000] * kept
    assert metric(x, "journal_early_total") == 9 - kept
    # The record is there, and the reader is told that bytes are missing; the id still runs once.
    assert x.state(cids[0])["stdout_bytes"] == 1000000
    assert [e["type"] for e in x.events(cids[0]) if e["type"] not in ("started", "accepted")][-2:] == ["gap", "exit"]
    assert x.put(iid, "true", cid=cids[0])[1].status == 200
    assert component(x)["ok"]


def test_what_is_not_recorded_stays_and_new_commands_are_refused(own):
    x = own(**CAPS)
    iid = str(uuid.uuid4())
    cids = []
    while len(cids) < 20:
        cid, a = x.put(iid, "head -c 1000000 /dev/zero | tr '\\0' x")
        if a.status == 507:
            break
        x.call("GET", "/v1/commands/%s/result" % cid)
        cids.append(cid)
        time.sleep(0.3)
    assert a.json["code"] == "no_space" and "journal_max_bytes" in a.json["detail"]
    assert 6 <= len(cids) < 20
    assert all(len(x.call("GET", "/v1/commands/%s/stdout" % c).body) == 1000000 for c in cids)
    assert not component(x)["ok"] and metric(x, "journal_full") == 1 and metric(x, "journal_refused_total") == 1
    assert x.put(iid, "true", cid=cids[0])[1].status == 200   # known: nothing new
    ack(x)
    until(lambda: x.put(iid, "true")[1].status == 201)
    assert component(x)["ok"]


def test_what_was_there_before_a_restart_counts(own):
    x = own(**CAPS)
    iid = str(uuid.uuid4())
    for _ in range(4):
        megabyte(x, iid)
    ack(x)
    before = metric(x, "journal_acknowledged_bytes")
    assert 4000000 <= before <= 5 << 20
    x.kill()
    x.start()
    until(lambda: metric(x, "journal_acknowledged_bytes") >= before - 4096)


# --- the disk ---

def test_a_full_disk_loses_no_record(own):
    x = own(SmallDisk, "12m", stream_head_bytes="1M", stream_tail_bytes="1M", journal_max_bytes="64M", min_free_bytes="1M")
    iid = str(uuid.uuid4())
    done = [megabyte(x, iid) for _ in range(3)]
    long, _ = x.put(iid, "echo early; read a; echo late; exit 7", keep_stdin=True)
    until(lambda: x.state(long)["stdout_bytes"] == 6)
    x.fill()
    a = x.put(iid, "true")[1]
    assert (a.status, a.json["code"]) == (507, "no_space")
    until(lambda: "min_free_bytes" in x.put(iid, "true")[1].json["detail"])   # it looks once a second
    assert not component(x)["ok"]
    # What runs comes to its end with its record, output that finds no room is counted.
    x.call("POST", "/v1/commands/%s/kill" % long)
    assert x.call("GET", "/v1/commands/%s/result" % long).json["reason"] == "cancelled"
    x.kill(signal.SIGKILL)
    x.start()
    told = {i["command"]["id"]: i["command"] for i in reports(x) if i["kind"] == "command"}
    assert set(told) == {*done, long}
    assert [told[c]["stdout_bytes"] for c in done] == [1000000] * 3 and told[long]["reason"] == "cancelled"
    # They can be acknowledged though there is not one page left, and then they give room.
    ack(x)
    assert [i for i in reports(x) if i["kind"] == "command"] == []
    until(lambda: x.put(iid, "true")[1].status == 201)
    assert all(x.state(c)["status"] == "exited" for c in [*done, long])
    os.unlink(x.state_dir + "/filler")
    until(lambda: os.path.exists(x.state_dir + "/reserve"))


def test_output_that_finds_no_room_is_counted(own):
    x = own(SmallDisk, "6m", stream_head_bytes="4M", stream_tail_bytes="4M", journal_max_bytes="64M", min_free_bytes="0")
    iid = str(uuid.uuid4())
    j = x.run(iid, "head -c 8000000 /dev/zero | tr '\\0' x; exit 3").json
    assert (j["exit_code"], j["stdout_bytes"], j["stdout_truncated"]) == (3, 8000000, True)
    ack(x)
    assert x.state(j["id"])["exit_code"] == 3


@pytest.mark.parametrize("size, fill", [("12m", SmallDisk.fill), ("12m,nr_inodes=400", SmallDisk.fill_inodes)])
def test_on_a_full_disk_scopes_end(own, size, fill):
    """What a Run leaves is killed, and that is confirmed for good: only so its user can have the sandbox removed, which makes room."""
    x = own(SmallDisk, size, min_free_bytes="0")
    iid, mark = str(uuid.uuid4()), str(40 + int(time.time() * 1000) % 100000 / 1e6)
    scopes = [str(uuid.uuid4()) for _ in range(200)]   # more than a block of tombstones
    assert x.run(iid, "setsid sleep %s >/dev/null 2>&1 & echo x" % mark, scope=scopes[0]).json["stdout"] == "x\n"
    cids = [str(uuid.uuid4()) for _ in range(40)]
    for i, cid in enumerate(cids):   # logs of any length
        x.put(iid, "sleep " + mark, cid=cid, scope=scopes[i], record={"id": cid, "run_id": "r", "cwd": "/" * 103 * i})
    until(lambda: all(x.state(c)["status"] == "running" for c in cids))
    os.unlink(x.state_dir + "/reserve")   # somebody else was faster to take what it gives away
    fill(x)
    for sid in scopes:
        a = x.call("DELETE", "/v1/instances/%s/scopes/%s?wait_ms=5000" % (iid, sid))
        assert (a.status, a.json) == (200, {"state": "gone"})
    assert subprocess.run(["pgrep", "-f", "^sleep %s$" % mark], check=False, capture_output=True).stdout == b""
    assert {x.state(c)["reason"] for c in cids} == {"cancelled"}
    x.kill(signal.SIGKILL)
    x.start()
    for sid in scopes:
        assert x.put(iid, "true", scope=sid)[1].json["code"] in ("scope_gone", "no_space")
    assert x.call("DELETE", "/v1/instances/%s?wait_ms=5000" % iid).json["state"] == "gone"
