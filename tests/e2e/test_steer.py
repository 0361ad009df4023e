"""R2.3: steering replaces a running Run by a successor that has the user's new input; nothing is lost, nothing is delivered twice."""

import threading
import uuid

from paddock import wait_for


def claim(user, thread, worker="w"):
    answer = user.post("/api/runs/claim", {"worker_id": worker, "thread_id": thread})
    assert answer.status in (200, 204), answer
    return answer.json if answer.status == 200 else None


def claim_until(user, thread, seconds=30):
    return wait_for("the successor is offered", lambda: claim(user, thread), timeout=seconds)


def test_steer_ends_the_old_one_and_offers_the_new_one(user):
    thread = "steer-" + uuid.uuid4().hex
    run, token = user.claimed(thread, input={"say": "old"})
    command = user.background(run["id"], "trap '' TERM; sleep 300", lease_token=token)
    user.wait_running(command["id"])
    answer = user.post("/api/runs/%s/steer" % run["id"], {"input": {"say": "new"}}).ok(201).json
    old, new = answer["run"], answer["successor"]
    assert old["status"] == "yielded" and old["successor_id"] == new["id"] and new["status"] == "pending" and new["input"] == {"say": "new"}
    ended = user.wait_command(command["id"])
    assert ended["reason"] == "cancelled", "its commands are killed at once"
    got = claim_until(user, thread)
    assert got["run"]["id"] == new["id"] and got["run"]["input"] == {"say": "new"}
    assert user.get_run(old["id"])["runtime_cleanup_pending"] is False, "not before the old environment is gone"
    assert user.post("/api/runs/%s/commands" % old["id"], {"command": "true"}).code == "run_ended"
    assert user.command(new["id"], "echo here", lease_token=got["lease_token"])["stdout"] == "here\n"
    user.finish(new["id"], got["lease_token"]).ok(200)
    assert claim(user, thread) is None


def test_only_a_running_run_is_steered(user):
    run = user.run()
    assert user.post("/api/runs/%s/steer" % run["id"], {"input": 1}).code == "not_running", "its own input would be lost"
    user.cancel(run["id"])
    assert user.post("/api/runs/%s/steer" % run["id"], {"input": 1}).code == "run_ended"


def test_of_many_who_steer_one_wins(user):
    thread = "steer-" + uuid.uuid4().hex
    run, _token = user.claimed(thread)
    answers, lock = [], threading.Lock()

    def steer(n):
        client = user.clone()
        answer = client.post("/api/runs/%s/steer" % run["id"], {"input": n})
        with lock:
            answers.append(answer)
        client.close()
    threads = [threading.Thread(target=steer, args=(n,)) for n in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    won = [a for a in answers if a.status == 201]
    assert len(won) == 1 and all(a.code == "run_ended" for a in answers if a.status != 201)
    got = claim_until(user, thread)
    assert got["run"]["input"] == won[0].json["successor"]["input"]
    assert claim(user, thread) is None, "delivered once"
    user.finish(got["run"]["id"], got["lease_token"]).ok(200)


def test_somebody_elses_run_is_not_there(user, other):
    run, token = user.claimed()
    assert other.post("/api/runs/%s/steer" % run["id"], {"input": 1}).status == 404
    user.finish(run["id"], token).ok(200)
