"""Processes, descriptors and memory are back at the start after many commands."""

import threading

from paddock import Proc, wait_for

MIB = 1 << 20


def lasting(pid):
    """Its descriptors but for sockets: nginx keeps up to 64 connections to the executor, as many as it needed at once."""
    return sum(not link.startswith("socket:") for link in Proc.links(pid))


def state(inst):
    roles = inst.processes()
    ours = {role: len(pids) for role, pids in roles.items() if role not in ("podman",)}
    fds = {role: sum(lasting(p) for p in roles[role]) for role in ("executor", "master", "janitor", "worker")}
    sockets = sum(Proc.fds(p) - lasting(p) for p in roles["executor"])
    assert sockets < 64 + 32, "sockets of the executor: %d" % sockets
    return ours, fds, inst.memory()


def work(user, run_id, token, n, share):
    client = user.clone()
    for i in range(n):
        if i % share == 0:
            client.execute("echo x")
        else:
            assert client.command(run_id, "echo %d" % i, lease_token=token)["stdout"] == "%d\n" % i


def round_of(inst, user, n):
    run, token = user.claimed(lease_ms=3600000)
    threads = [threading.Thread(target=work, args=(user, run["id"], token, n // 4, 20)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    user.finish(run["id"], token).ok(200)
    user.wait_run(run["id"], 30)
    wait_for("no container of this user", lambda: inst.value(
        "SELECT count(*) FROM runs r JOIN users u ON u.id = r.user_id WHERE u.name = '%s' AND r.cleanup_pending" % user.name) == 0, 60)


def test_back_to_the_start(request, inst):
    user = inst.user()
    round_of(inst, user, 400)     # caches and pools are filled
    wait_for(lambda: "quiet: %s" % inst.left_of(user), lambda: not inst.left_of(user), 30, 0.5)
    before, strays = state(inst), len(inst.strays())
    n = request.config.getoption("--commands")
    round_of(inst, user, n)
    wait_for(lambda: "quiet: %s" % inst.left_of(user), lambda: not inst.left_of(user), 30, 0.5)
    wait_for(lambda: "no more processes than before (%d): %s" % (strays, inst.strays()), lambda: len(inst.strays()) <= strays, 20, 0.5)
    after = state(inst)
    assert after[0] == before[0], "processes"
    for role, count in after[1].items():
        slack = 24 if role == "executor" else 4   # its archive keeps up to 16 files at hand
        assert count <= before[1][role] + slack, "descriptors of %s: %d, before %d" % (role, count, before[1][role])
    for role in ("executor", "master", "janitor", "worker", "nginx-worker"):
        assert after[2][role] - before[2][role] <= 3 * MIB + 1024 * n, "memory of %s: %d -> %d" % (role, before[2][role], after[2][role])
    print("figure: after %d commands: processes %s, descriptors %s, private MiB %s" % (
        n, after[0], after[1], {k: round(v / MIB, 1) for k, v in after[2].items()}))
