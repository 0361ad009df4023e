"""The other side of the scripted provider (tests/lib/scripted_provider.h): its script to write, its log to read.

    other = ScriptedTruth(directory)           the value of PADDOCK_SCRIPTED_DIR
    other.script("create lost 50 times 1")     how it misbehaves from now on; None: no more
    other.now("vanish", instance_id)           something happens by itself
    other.read()                               takes in what has been written since
    other.living("w"), other.instances[iid], other.commands[cid], other.violations"""

import os
import time


def boot_us():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


class Instance:
    def __init__(self, iid, workspace):
        self.id, self.workspace, self.state = iid, workspace, "making"
        self.ran, self.since = 0, None      # microseconds; begin of the present stretch

    def moves(self, state, t):
        up = state in ("running", "pausing")
        if self.since is not None and not up:
            self.ran += t - self.since
            self.since = None
        elif self.since is None and up:
            self.since = t
        self.state = state

    def running_ms(self):
        return (self.ran + (boot_us() - self.since if self.since is not None else 0)) // 1000


class Command:
    def __init__(self, cid, instance, scope, begun):
        self.id, self.instance, self.scope, self.begun = cid, instance, scope, begun
        self.starts, self.ended, self.how = 1, None, None     # how: (exited|signaled|lost, code, none|timeout|killed)


class ScriptedTruth:
    STATES = ("running", "pausing", "waking", "paused", "failed", "vanished", "gone")

    def __init__(self, directory):
        self.dir, self.at, self.nonce = directory, 0, 0
        self.instances, self.commands, self.violations, self.calls = {}, {}, [], []

    def script(self, *rules):
        """Each call begins the counts anew."""
        self.nonce += 1
        aside = os.path.join(self.dir, "script.new")
        with open(aside, "w", encoding="utf-8") as f:
            f.write("# %d\n" % self.nonce + "".join(r + "\n" for r in rules if r))
        os.rename(aside, os.path.join(self.dir, "script"))

    def now(self, what, iid, *others):
        self.script("now %s of %s" % (what, iid), *others)

    def read(self):
        try:
            with open(os.path.join(self.dir, "truth"), "rb") as f:
                f.seek(self.at)
                whole = f.read().rpartition(b"\n")[0]
        except FileNotFoundError:
            return self
        if whole:
            self.at += len(whole) + 1
            for line in whole.decode().split("\n"):
                self.take(line.split(" "))
        return self

    def take(self, words):
        t, verb, rest = int(words[0]), words[1], words[2:]
        if verb == "making":
            self.instances[rest[0]] = Instance(rest[0], rest[1])
        elif verb in self.STATES and rest[0] in self.instances:
            self.instances[rest[0]].moves(verb, t)
            if verb in ("paused", "vanished", "gone"):
                self.lose(rest[0], t)
        elif verb == "start":
            if rest[1] in self.commands:
                self.commands[rest[1]].starts += 1
            else:
                self.commands[rest[1]] = Command(rest[1], rest[0], rest[2], t)
        elif verb == "end" and rest[1] in self.commands:
            self.commands[rest[1]].ended, self.commands[rest[1]].how = t, (rest[2], int(rest[3]), rest[4])
        elif verb == "violation":
            self.violations.append(rest)
        elif verb == "call":
            self.calls.append((t, *rest))

    def lose(self, iid, t):
        for c in self.commands.values():
            if c.instance == iid and c.ended is None:
                c.ended, c.how = t, ("lost", 0, "none")

    def living(self, workspace=None):
        """Instances that are there, of one workspace or of all."""
        self.read()
        return [i for i in self.instances.values() if i.state not in ("vanished", "gone") and workspace in (None, i.workspace)]

    def running(self, iid=None):
        self.read()
        return [c for c in self.commands.values() if c.ended is None and iid in (None, c.instance)]

    def asked(self, call):
        self.read()
        return [c[1:] for c in self.calls if c[1] == call]
