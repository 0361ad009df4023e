"""R2.10: 200 commands at once in 20 Runs: all correct."""

import re
import signal
import threading
import time

import pytest

from paddock import Collected, Sampler, wait_for


@pytest.fixture
def sixteen_workers(inst):
    """[api] workers = 16 by reload, and a way to set more; as it was afterwards."""
    path = inst.etc + "/paddock.ini"
    with open(path, encoding="utf-8") as f:
        text = f.read()
    before = len(inst.pids("worker"))

    def use(config, workers):
        old = inst.pids("worker")
        with open(path, "w", encoding="utf-8") as f:
            f.write(config)
        inst.kill(inst.pids("master")[0], signal.SIGHUP)
        wait_for(lambda: "%d new workers: %s" % (workers, inst.pids("worker")),
                 lambda: len(inst.pids("worker")) == workers and not set(old) & set(inst.pids("worker")), 20)
    without = re.sub(r"(?m)^workers\s*=.*\n", "", text)
    sixteen = without.replace("[api]\n", "[api]\nworkers = 16\n") if "[api]\n" in without else without + "\n[api]\nworkers = 16\n"
    use(sixteen, 16)
    yield lambda more: use(sixteen + more, 16)
    use(text, before)


def test_200_commands_in_20_runs(inst, sixteen_workers):
    users = [inst.user() for _ in range(4)]
    runs = [(user, *user.claimed(lease_ms=600000)) for user in users for _ in range(5)]
    wrong, done, lock = [], [0], threading.Lock()

    def work(user, run, token, i):
        client = user.clone()
        size = 1000 * (i % 7 + 1)
        text = "for k in 1 2 3; do head -c %d /dev/zero | tr '\\0' '%s'; sleep .2; done; echo $K >&2; exit %d" % (size, "abcdefg"[i % 7], i % 5)
        fields = {"env": {"K": "%s/%d" % (run["id"], i)}, "lease_token": token, "timeout_ms": 120000}
        try:
            if i % 2:
                with client.live(run["id"], text, timeout=180, **fields) as stream:
                    assert stream.status == 200, stream.status
                    got = Collected(stream.events())
                    out, err, code = bytes(got.stdout), bytes(got.stderr), got.exit["exit_code"]
            else:
                answer = client.post("/api/runs/%s/commands" % run["id"], {"command": text, **fields}, timeout=180).ok(200).json
                out, err, code = answer["stdout"].encode(), answer["stderr"].encode(), answer["exit_code"]
            assert out == b"abcdefg"[i % 7:i % 7 + 1] * size * 3 and err.decode() == "%s/%d\n" % (run["id"], i) and code == i % 5
            with lock:
                done[0] += 1
        except BaseException as error:   # noqa: B902 - all of them are reported below
            with lock:
                wrong.append((run["id"], i, repr(error)[:500]))

    began = time.monotonic()
    with Sampler(inst) as sampler:
        threads = [threading.Thread(target=work, args=(*runs[i % 20], i)) for i in range(200)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    seconds = time.monotonic() - began
    print("figure: 200 commands in 20 new Runs: %.1f s; %d workers; private memory: %s" % (seconds, len(inst.pids("worker")), sampler.report()))
    assert not wrong and done[0] == 200, (done, wrong[:5])
    for user, run, token in runs:
        user.finish(run["id"], token).ok(200)
    for user, run, token in runs:
        user.wait_run(run["id"], 60)


def test_the_limit_on_sandboxes_is_exact(inst, sixteen_workers):
    """However many ask at the same moment: 429 with a code, no row and no container beyond the limit; room again when they are gone."""
    sixteen_workers("\n[runs]\nuser_instances = 3\n")
    user = inst.user()
    mine = "WHERE user_id = (SELECT id FROM users WHERE name = '%s')" % user.name
    began, answers, lock = threading.Barrier(12), [], threading.Lock()

    def ask():
        client = user.clone()
        began.wait()
        answer = client.post("/api/execute", {"command": "sleep 25", "timeout_ms": 60000}, timeout=60)
        with lock:
            answers.append(answer)
    threads = [threading.Thread(target=ask) for _ in range(12)]
    for thread in threads:
        thread.start()
    wait_for("the refused ones are answered", lambda: len(answers) >= 9, 20)
    assert inst.value("SELECT count(*) FROM instances " + mine) == 3
    assert inst.value("SELECT count(*) FROM runs " + mine) == 3
    for thread in threads:
        thread.join(60)
    refused = [answer for answer in answers if answer.status != 200]
    assert len(refused) == 9 and all((a.status, a.code) == (429, "too_many_instances") and a.headers["Retry-After"] for a in refused), refused
    wait_for("they are gone", lambda: inst.value("SELECT count(*) FROM instances " + mine) == 0, 30)
    assert user.execute("echo again")["stdout"] == "again\n"
