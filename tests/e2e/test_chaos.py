"""R2.2, R2.4, R2.7, R6.3: kill -9 of any part at random moments under a load of short and long commands. Afterwards every command has a truthful end on record,
no container and no duty to clean up is left, and a running command lost no byte when executor or workers died.

    pytest test_chaos.py --kills 30 --seed 7"""

import hashlib
import http.client
import random
import threading
import time

from paddock import wait_for

PARTS = ["worker", "janitor", "executor", "nginx", "podman", "postgres"]
TRANSIENT = (OSError, http.client.HTTPException)

LONG = """
import hashlib, os, sys, time
digest = hashlib.sha256()
for i in range(%d):
    piece = os.urandom(5000)
    digest.update(piece)
    while piece:
        piece = piece[os.write(1, piece):]
    time.sleep(0.1)
sys.stderr.write(digest.hexdigest())
"""


class Load:
    """Clients that go on whatever happens, and remember what they were promised."""

    def __init__(self, inst, user, seed):
        self.inst, self.user, self.stop = inst, user, threading.Event()
        self.acknowledged, self.finished, self.errors = [], [], []
        self.lock = threading.Lock()
        self.random = random.Random(seed)
        self.threads = [threading.Thread(target=self._short, args=(i,)) for i in range(3)] + [threading.Thread(target=self._long) for _ in range(2)]

    def _try(self, what, *statuses):
        """The answer, or None when the service said that it is away for the moment."""
        try:
            answer = what()
        except TRANSIENT:
            return None
        if answer.status in (502, 503, 504, 429, 500) or answer.status == 409 and answer.code in ("cleanup_pending", "sandbox_lost"):
            if answer.status == 500:
                self.errors.append(answer)
            return None
        if answer.status not in statuses:
            self.errors.append(answer)
            return None
        return answer.json

    def _short(self, i):
        client = self.user.clone()
        while not self.stop.is_set():
            mark = "%d-%d" % (i, time.monotonic_ns())
            got = self._try(lambda: client.post("/api/execute", {"command": "echo " + mark, "timeout_ms": 60000}, timeout=90), 200, 422)
            if got and got.get("status") == "exited" and got["reason"] == "exited":
                if got["stdout"] != mark + "\n" or got["exit_code"] != 0:
                    self.errors.append(got)
                with self.lock:
                    self.finished.append(got["id"])
            elif got is None:
                time.sleep(0.2)

    def _long(self):
        client = self.user.clone()
        while not self.stop.is_set():
            run = self._try(lambda: client.post("/api/runs", {"thread_id": "c-%d" % time.monotonic_ns(), "claim": {"worker_id": "w", "lease_ms": 3600000}}), 201)
            if not run or not run.get("lease_token"):
                time.sleep(0.2)
                continue
            path = "/api/runs/%s/commands" % run["id"]
            self._try(lambda: client.post(path, {"command": "true", "lease_token": run["lease_token"]}, timeout=60), 200, 422)
            commands = [self._start_long(client, path, run) for _ in range(3)]
            for command in filter(None, commands):
                self._wait(client, command["id"])
            finished = None
            while not finished and not self.stop.is_set():
                try:
                    answer = client.post("/api/runs/%s/finish" % run["id"], {"lease_token": run["lease_token"], "status": "completed"})
                    finished = answer.status in (200, 409)
                except TRANSIENT:
                    pass
                if not finished:
                    time.sleep(0.3)

    def _start_long(self, client, path, run):
        body = {"argv": ["python3", "-c", LONG % self.random.randrange(20, 80)], "background": True, "lease_token": run["lease_token"]}
        command = self._try(lambda: client.post(path, body), 202)
        if command:
            with self.lock:
                self.acknowledged.append((command["id"], run["id"], run["lease_token"]))
        return command

    def _wait(self, client, command_id):
        while not self.stop.is_set():
            got = self._try(lambda: client.get("/api/commands/" + command_id), 200)
            if got and got["status"] in ("exited", "lost"):
                return
            time.sleep(0.3)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *unused):
        self.stop.set()
        for thread in self.threads:
            thread.join(120)


def test_random_kills(request, inst):
    seed = request.config.getoption("--seed")
    seed = seed if seed is not None else random.randrange(1 << 30)
    kills = request.config.getoption("--kills")
    print("figure: chaos: seed %d, %d kills" % (seed, kills))
    chance = random.Random(seed)
    user = inst.user()
    strays = len(inst.strays())
    order = [PARTS[i % len(PARTS)] for i in range(kills)]
    chance.shuffle(order)
    done = []
    with Load(inst, user, seed) as load:
        time.sleep(2)
        for part in order:
            pids = wait_for("a process of " + part, lambda: inst.pids(part), 60)
            victim = chance.choice(pids)
            if part == "postgres":
                inst.restart_database("immediate")
            else:
                inst.kill(victim)
            done.append(part)
            time.sleep(chance.uniform(0.3, 2.5))
        inst.wait_ready(90)
        time.sleep(2)
    assert not load.errors, load.errors[:5]
    settle(inst, user)
    wait_for(lambda: "no more processes than before (%d): %s" % (strays, inst.strays()), lambda: len(inst.strays()) <= strays, 30, 0.5)
    check_commands(inst, user, load)


def settle(inst, user):
    """Ends what the load left open, and waits until nothing is owed."""
    inst.wait_ready(60)
    where = "FROM runs r JOIN users u ON u.id = r.user_id WHERE u.name = '%s'" % user.name
    for row in inst.sql("SELECT r.id %s AND r.status NOT IN ('completed', 'failed', 'cancelled', 'yielded')" % where):
        user.cancel(row["id"])
    wait_for(lambda: "every Run has ended: %s" % inst.sql("SELECT r.id, r.status " + where + " AND r.status NOT IN ('completed', 'failed', 'cancelled', 'yielded')"),
             lambda: inst.value("SELECT count(*) %s AND r.status NOT IN ('completed', 'failed', 'cancelled', 'yielded')" % where) == 0, 60, 0.5)
    wait_for(lambda: "no duty is left: %s" % inst.sql("SELECT r.id, r.status " + where + " AND r.cleanup_pending"),
             lambda: inst.value("SELECT count(*) %s AND r.cleanup_pending" % where) == 0, 90, 0.5)
    wait_for(lambda: "no container is left: %s" % inst.left_of(user), lambda: not inst.left_of(user), 60, 0.5)


def check_commands(inst, user, load):
    rows = {row["id"]: row for row in inst.sql(
        "SELECT c.* FROM sandbox_commands c JOIN runs r ON r.id = c.run_id JOIN users u ON u.id = r.user_id WHERE u.name = '%s'" % user.name)}
    for ident, row in rows.items():
        assert row["status"] in ("exited", "lost") and row["reason"], "no end on record: %s" % row
    for ident in load.finished:
        assert rows[ident]["status"] == "exited", "an acknowledged end is not on record: %s" % rows[ident]
    whole, reasons = 0, {}
    for ident, _, _ in load.acknowledged:   # id, run, lease token
        command = user.get_command(ident)
        reasons[command["reason"]] = reasons.get(command["reason"], 0) + 1
        # what was queued when the executor died is never started (its environment was in memory only), and says so
        never_started = command["reason"] == "not_started" and command["started_at"] is None and command["error"]["code"]
        assert command["reason"] in ("exited", "cancelled") or never_started, "a running command was lost: %s" % command
        if command["reason"] == "exited":
            answer = user.get("/api/commands/%s/stdout" % ident)
            raw = answer.ok(200).body
            assert len(raw) == command["stdout_bytes"] and hashlib.sha256(raw).hexdigest() == command["stderr"], "bytes were lost: %s" % ident
            whole += 1
    print("figure: chaos: %d rows, %d short acknowledged, long %s, %d verified byte for byte" % (len(rows), len(load.finished), reasons, whole))
    assert load.finished and whole, "nothing was tried"
