"""Whatever ends the engine's keeper, one engine serves the socket afterwards, and none of the old ones is left to take the socket away."""

import os
import signal

import pytest

from paddock import Proc, wait_for


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_no_old_engine_is_left(inst, user, how):
    old, keeper = inst.pids("podman"), inst.pids("engine")
    for pid in old:
        os.kill(pid, signal.SIGSTOP)   # busy with something long
    os.kill(keeper[0], how)
    inst.wait_replaced("engine", keeper)
    wait_for(lambda: "the old ones are gone: %s" % [Proc.argv(p) for p in old if Proc.state(p) not in ("Z", "X", "")],
             lambda: all(Proc.state(p) in ("Z", "X", "") for p in old), 20, 0.2)
    inst.wait_ready(60)
    assert user.execute("echo served")["stdout"] == "served\n"
