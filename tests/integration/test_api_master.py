"""The master and its children: replaced, drained, reloaded, recycled; and what is left when somebody is killed."""

import os
import re
import signal
import socket
import subprocess
import threading
import time

import fcgi_client
from conftest import BUILD, wait_for


class Load:
    """Requests from n clients until stop(); every one must be answered."""

    def __init__(self, api, n=3, target="/api/auth/me"):
        self.api, self.target, self.done, self.wrong, self.on = api, target, 0, [], True
        self.threads = [threading.Thread(target=self.run, daemon=True) for _ in range(n)]
        for t in self.threads:
            t.start()

    def run(self):
        while self.on:
            try:
                a = self.api.get(self.target)
                if a.status != 200:
                    self.wrong.append(a)
            except OSError as e:
                self.wrong.append(e)
            self.done += 1

    def stop(self):
        self.on = False
        for t in self.threads:
            t.join(20)
        return self


def in_flight(api, delay_s):
    """A request that is being worked on: the executor takes its time. Returns a function that waits for the answer."""
    before = len(api.executor.calls)
    api.executor.delay_s = delay_s
    s = fcgi_client.connect(api.sock)
    s.sendall(fcgi_client.encode(api.params("POST", "/api/execute", api.token, body=b'{"command":"true"}'), b'{"command":"true"}'))
    wait_for("the executor is asked", lambda: any(c[0] == "PUT" for c in api.executor.calls[before:]))
    return lambda: fcgi_client.read_answer(s)


def confined_status(pid):
    with open("/proc/%d/status" % pid, encoding="ascii") as f:
        status = f.read()
    return "Seccomp:\t2" in status and status


def test_what_it_starts(fresh):
    names = wait_for("three workers and a janitor", lambda: sorted(fresh.children().values()) == ["paddock-janitor"] + ["paddock-worker"] * 3)
    assert names
    assert os.stat(fresh.sock).st_mode & 0o777 == 0o660
    for pid in fresh.children():
        status = wait_for("it has given up what it does not need", lambda: confined_status(pid))
        assert "NoNewPrivs:\t1" in status and "Umask:\t0077" in status
        with open("/proc/%d/limits" % pid, encoding="ascii") as f:
            assert re.search(r"Max core file size +0 +0", f.read())
        assert "Threads:\t1\n" in status


def test_one_master_at_a_time(api):
    done = subprocess.run([os.path.join(BUILD, "paddock-api"), "--config", api.conf], capture_output=True, text=True, timeout=10, check=False)
    assert done.returncode == 1 and "another master" in done.stderr
    assert api.get("/healthz").status == 200


def test_a_stop_lets_requests_finish(fresh):
    answer = in_flight(fresh, 1.0)
    fresh.process.send_signal(signal.SIGTERM)
    a = answer()
    assert a.status == 200 and "X-Accel-Redirect" in a.headers
    assert fresh.process.wait(5) == 0
    assert not os.path.exists(fresh.sock)


def test_a_stop_serves_what_is_queued(fresh):
    answers = [in_flight(fresh, 0.6) for _ in range(3)]
    queued = []
    for _ in range(5):
        s = fcgi_client.connect(fresh.sock)
        s.sendall(fcgi_client.encode(fresh.params("GET", "/api/auth/me", fresh.token)))
        queued.append(s)
    fresh.process.send_signal(signal.SIGTERM)
    assert [a().status for a in answers] == [200] * 3
    assert [fcgi_client.read_answer(s).status for s in queued] == [200] * 5
    assert fresh.process.wait(5) == 0


def test_a_stop_does_not_wait_for_ever(world):
    world.stop()
    world.configure(api_drain_ms=500)
    world.start()
    in_flight(world, 3.0)
    from_ = time.monotonic()
    world.process.send_signal(signal.SIGTERM)
    assert world.process.wait(3) == 0
    assert 0.4 < time.monotonic() - from_ < 2.5
    assert world.lines("child_killed")


def test_dead_workers_are_replaced(fresh):
    for sig in (signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM):
        before = fresh.workers()
        os.kill(min(before), sig)
        wait_for("a new worker", lambda b=before: len(fresh.workers()) == 3 and fresh.workers() != b)
    load = Load(fresh)
    for _ in range(5):
        os.kill(max(fresh.workers()), signal.SIGTERM)   # the request in hand is finished
        time.sleep(0.1)
    assert not load.stop().wrong
    janitor = [p for p, n in fresh.children().items() if n == "paddock-janitor"][0]
    os.kill(janitor, signal.SIGKILL)
    wait_for("a new janitor", lambda: any(n == "paddock-janitor" and p != janitor for p, n in fresh.children().items()))


def test_recycling_drops_nothing(world):
    world.stop()
    world.configure(api_max_requests=20)
    world.start()
    first = world.workers()
    load = Load(world)
    wait_for("many requests", lambda: load.done > 300)
    assert not load.stop().wrong
    assert wait_for("others", world.workers) and not first & world.workers()
    assert not world.lines("child_died pid=%d" % min(first))


def test_a_reload_drops_nothing(fresh):
    load = Load(fresh)
    master = fresh.process.pid
    for workers in (5, 2, 3):
        before = fresh.workers()
        fresh.configure(api_workers=workers)
        fresh.process.send_signal(signal.SIGHUP)
        wait_for("%d new workers" % workers, lambda b=before, n=workers: len(fresh.workers()) == n and not fresh.workers() & b)
    load.stop()
    assert not load.wrong and load.done > 50
    assert fresh.process.pid == master and fresh.process.poll() is None


def test_a_reload_lets_requests_finish(fresh):
    before = fresh.workers()
    answer = in_flight(fresh, 1.5)
    fresh.process.send_signal(signal.SIGHUP)
    wait_for("new workers", lambda: len(fresh.workers() - before) == 3)
    assert fresh.get("/healthz").status == 200
    assert answer().status == 200
    wait_for("the old ones leave", lambda: not fresh.workers() & before)


def test_a_bad_configuration_changes_nothing(fresh):
    before = fresh.workers()
    fresh.configure(api_workers="many")
    fresh.process.send_signal(signal.SIGHUP)
    wait_for("the refusal is logged", lambda: any("workers" in line for line in fresh.lines("event=reload_failed")))
    assert fresh.workers() == before and fresh.get("/api/auth/me").status == 200


def test_workers_that_cannot_start_change_nothing(fresh):
    before = fresh.workers()
    fresh.configure(paths_keys=fresh.root + "/nowhere")
    fresh.process.send_signal(signal.SIGHUP)
    wait_for("it is given up", lambda: any("did not get ready" in line for line in fresh.lines("event=reload_failed")), timeout=20)
    wait_for("the old workers alone", lambda: fresh.workers() == before)
    assert fresh.get("/api/auth/me").status == 200
    fresh.configure()
    fresh.process.send_signal(signal.SIGHUP)
    wait_for("new workers", lambda: len(fresh.workers()) == 3 and not fresh.workers() & before)


def test_a_crash_loop_is_slow(world):
    world.stop()
    world.configure(paths_keys=world.root + "/nowhere")
    open(world.log, "w", encoding="ascii").close()
    world.start(ready=False)
    from_ = time.monotonic()
    wait_for("each child died twice", lambda: len(world.lines("event=child_died")) >= 8, timeout=30)
    time.sleep(2)
    # Seven times 0.1 + 0.2 + 0.4 + ... is more than twelve seconds.
    assert len(world.lines("event=child_died")) <= 4 * 7 or time.monotonic() - from_ > 12
    assert world.process.poll() is None
    assert world.stop() == 0


def test_after_a_killed_master_the_next_can_start_at_once(fresh):
    answer = in_flight(fresh, 1.0)
    orphans = set(fresh.children())
    load = Load(fresh, 2, "/healthz")
    fresh.process.kill()
    fresh.process.wait(5)
    fresh.executor.delay_s = 0
    fresh.start()
    load.stop()
    # Between the kill and the new master nobody takes connections; none is cut that an old worker had taken.
    assert all(isinstance(w, (FileNotFoundError, ConnectionRefusedError)) for w in load.wrong), load.wrong[:3]
    assert answer().status == 200
    wait_for("the old children leave", lambda: not any(os.path.exists("/proc/%d" % p) for p in orphans))
    assert len(fresh.workers()) == 3 and fresh.get("/api/auth/me").status == 200


def test_peers_that_misbehave_cost_nobody_else(fresh):
    silent = [fcgi_client.connect(fresh.sock) for _ in range(2)]   # each holds a worker for the two seconds that libfcgi waits
    garbage = fcgi_client.connect(fresh.sock)
    garbage.sendall(b"GET / HTTP/1.0\r\n\r\n" * 10)
    assert fresh.get("/healthz").status == 200
    whole = fcgi_client.encode(fresh.params("POST", "/api/runs", fresh.token, body=b"x" * 1000), b"x" * 1000)
    for cut in (1, 8, 20, 200, len(whole) - 600, len(whole) - 9):
        with fcgi_client.connect(fresh.sock) as s:
            s.sendall(whole[:cut])
            s.shutdown(socket.SHUT_RDWR)
    before = fresh.workers()
    assert fresh.get("/healthz").status == 200
    assert fresh.workers() == before
    for s in silent:
        s.close()


def test_a_client_that_goes_away_before_the_answer(fresh):
    before = fresh.workers()
    fresh.executor.delay_s = 0.3
    for _ in range(6):
        s = fcgi_client.connect(fresh.sock)
        s.sendall(fcgi_client.encode(fresh.params("POST", "/api/execute", fresh.token, body=b'{"command":"true"}'), b'{"command":"true"}'))
        s.close()
    wait_for("all were taken", lambda: len([c for c in fresh.executor.calls if c[0] == "PUT"]) >= 6)
    fresh.executor.delay_s = 0
    assert fresh.get("/healthz").status == 200 and fresh.workers() == before


def test_the_database_goes_and_comes(fresh):
    before = fresh.workers()
    assert fresh.get("/api/auth/me").status == 200
    fresh.db.tool("halt")
    try:
        for _ in range(4):
            for a in (fresh.get("/api/auth/me"), fresh.post("/api/execute", {"command": "true"})):
                assert (a.status, a.code, a.headers["Retry-After"]) == (503, "database_unavailable", "2"), a
                assert fresh.db.dir not in a.body.decode()
        assert fresh.get("/healthz").status == 200
        ready = fresh.get("/readyz")
        assert ready.status == 503 and ready.json["components"]["database"]["ok"] is False and ready.headers["Retry-After"] == "2"
        text = fresh.get("/metrics", addr="::1").body.decode()
        assert "paddock_api_database_up 0\n" in text
    finally:
        fresh.db.tool("resume")
    wait_for("it is back", lambda: fresh.get("/api/auth/me").status == 200)
    assert fresh.workers() == before


def test_the_database_crashes_under_load(fresh):
    before = fresh.workers()
    load = Load(fresh)
    for _ in range(3):
        fresh.db.tool("restart")
        time.sleep(0.3)
    time.sleep(0.5)
    load.stop()
    assert all(getattr(w, "status", 0) == 503 for w in load.wrong), [w for w in load.wrong if getattr(w, "status", 0) != 503][:3]
    assert fresh.get("/api/auth/me").status == 200 and fresh.workers() == before


def test_the_executor_goes_and_comes(fresh):
    before = fresh.workers()
    fresh.executor.stop()
    try:
        a = fresh.post("/api/execute", {"command": "true"})
        assert (a.status, a.code) == (503, "executor_unavailable") and a.headers["Retry-After"] == "2", a
        assert fresh.get("/readyz").status == 503
        assert fresh.get("/api/auth/me").status == 200
    finally:
        fresh.executor.start()
    assert fresh.post("/api/execute", {"command": "true"}).status == 200
    assert fresh.workers() == before


def test_every_client_gets_its_share(fresh):
    shares = [0] * 16

    def client(i, until):
        while time.monotonic() < until:
            assert fresh.get("/api/auth/me").status == 200
            shares[i] += 1
    threads = [threading.Thread(target=client, args=(i, time.monotonic() + 2)) for i in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert min(shares) >= max(shares) * 0.5, shares
