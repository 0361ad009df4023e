"""The crash matrix: which process dies where while what is going on. Made from src/base/fault_steps.def by way of the program fault-list.

A recipe is a generator over a User: what it does before its first yield brings the service into the state in which the step happens; what it yields is
called while the point is armed; what follows is what a sensible client does next. It says with u.expect() how often a command may have been started.
It may yield a pair: the call and the point at which a worker has to die before, so that what the call began is left to others."""

import collections
import secrets
import subprocess
import threading
import time
import traceback

from nodes import User, until

REACHED_S = 10
TRIES = 3              # another process may have been quicker
SETTLE_S = 50          # 30 s are left to a command that the executor has not heard of (START_SETTLE_MS)
JANITOR_YOUNG_S = 4    # a janitor that dies younger is started again with a delay that doubles (LIMIT_YOUNG_MS) ...
YOUNG_IN_A_ROW = 3     # ... from 0.1 s: so many times it is not worth waiting
PROCESS = {"worker": "paddock-worker", "janitor": "paddock-janitor", "executor": "paddock-executo", "launcher": "paddock-launche"}   # 15 bytes, as the kernel has them
ACTORS = tuple(PROCESS)

Case = collections.namedtuple("Case", "kind point step place actor recipe")


def points(build):
    """[(name, step, place, [actor])] of a build, and whether it has them compiled in."""
    done = subprocess.run([build + "/tests/lib/fault-list"], capture_output=True, text=True, timeout=10, check=False)
    rows = [line.split() for line in done.stdout.splitlines()]
    return [(name, step, place, who.split(",")) for name, step, place, who in rows], done.returncode == 0


RECIPES = collections.defaultdict(list)   # (step, side or None, actor) -> [(recipe, kinds)]


def recipe(kinds, *ways):
    """ways: "step:actor", "step/row:actor", "step/call:actor" or "step/<place>:actor"."""
    def add(fn):
        for way in ways:
            what, actor = way.split(":")
            step, _, side = what.partition("/")
            RECIPES[step, side or None, actor].append((fn, kinds))
        return fn
    return add


def recipes_of(step, place, actor, kind):
    found = []
    for side in {None, place.rpartition("_")[2], place}:
        found += [fn for fn, kinds in RECIPES.get((step, side, actor), []) if kind in kinds]
    return found


def matrix(table, kinds):
    """([Case], [point and actor that no recipe leads to])"""
    cases, missing = [], []
    for name, step, place, actors in table:
        for actor in actors:
            if actor not in ACTORS or "engine" in actors:
                continue
            mine = [Case(kind, name, step, place, actor, fn) for kind in kinds for fn in recipes_of(step, place, actor, kind)]
            cases += mine
            if not mine and not any(recipes_of(step, place, actor, kind) for kind in ("per-run", "scripted", "host")):
                missing.append("%s of the %s" % (name, actor))
    return cases, missing


class Traveller(User):
    """The user of one case."""

    def __init__(self, stack, name, case):
        super().__init__(stack, name)
        self.allowed, self.point = {}, case.point

    def expect(self, mark, *counts):
        self.allowed[mark] = counts


def new_key():
    return "k" + secrets.token_hex(8)


class Walk:
    """All cases of one kind on one stack, one after the other; what came of them."""

    def __init__(self, stack, cases):
        self.stack, self.cases = stack, cases
        self.problems = {case: [] for case in cases}
        self.users, self.general, self.took, self.settled_s, self.young = {}, [], {}, 0, 0

    def run(self):
        waiting = list(self.cases)
        while waiting:
            case = self.next(waiting)
            waiting.remove(case)
            begin = time.monotonic()
            self.one(case)
            self.took[case] = time.monotonic() - begin
        self.judge()

    def janitor_may_die(self):
        return self.young < YOUNG_IN_A_ROW or self.stack.nodes[0].ages("paddock-janitor") and self.janitor_age() >= JANITOR_YOUNG_S

    def janitor_age(self):
        return min(self.stack.nodes[0].ages("paddock-janitor").values(), default=0)

    def next(self, waiting):
        """A janitor that was killed young several times is left alone for a while, if something else can be done."""
        first = self.janitor_may_die()
        for case in waiting:
            if (case.actor == "janitor") == bool(first):
                return case
        return waiting[0]

    def one(self, case):
        node, executor = self.stack.nodes[0], self.stack.executor
        program = executor if case.actor in ("executor", "launcher") else node
        name = "%s.%s" % (case.point.replace("_", "-"), case.recipe.__name__.replace("_", "-"))
        u = self.users[case] = Traveller(self.stack, ("%s.%s%d" % (name[:54], case.actor[0], len(self.users))).lower(), case)
        try:
            for _ in range(TRIES):
                if case.actor == "janitor":
                    until("the janitor is old enough", self.janitor_may_die, 15)
                    self.young = self.young + 1 if self.janitor_age() < JANITOR_YOUNG_S else 0
                if self.travel(case, program, u):
                    return
            raise AssertionError("the %s never came to %s" % (case.actor, case.point))
        except Exception:   # pylint: disable=broad-except  - whatever it is, it is this case's
            self.problems[case].append(traceback.format_exc(limit=-6))
        finally:
            program.faults.disarm()
            if executor.dead():
                executor.start()

    def travel(self, case, program, u):
        """True: it died there. False: another process did what was to be done, and all is well."""
        steps = case.recipe(u)
        got = next(steps)
        trigger, before = got if isinstance(got, tuple) else (got, None)
        with open(program.log, "rb") as f:
            begin = f.seek(0, 2)
        program.faults.arm(*([(before, PROCESS["worker"])] if before else []), (case.point, PROCESS[case.actor]))
        asker = threading.Thread(target=self.ask, args=(trigger,))
        asker.start()
        died = self.death(case, program, begin)
        asker.join(60)
        for _ in steps:
            raise AssertionError("a recipe yields once")
        return died

    @staticmethod
    def ask(trigger):
        try:
            trigger()
        except (OSError, KeyError, AssertionError):
            pass   # whoever should have answered is dead, or waits for him

    def death(self, case, program, begin):
        def seen():
            with open(program.log, "rb") as f:
                f.seek(begin)
                lines = f.read().decode(errors="replace").split("\n")
            return any("fault_kill" in line and "point=" + case.point in line.split() for line in lines)
        end = time.monotonic() + REACHED_S
        while not seen():
            if time.monotonic() >= end:
                program.faults.disarm()
                return False
            time.sleep(0.02)
        program.faults.disarm()
        if case.actor == "executor":
            program.process.wait(10)
            assert program.process.returncode == -9, program.process.returncode
            program.start()
        elif case.actor != "launcher":   # of that it was a process for one request
            until("the %s is back" % case.actor, program.up, 15)
        return True

    # --- afterwards ---

    def blame(self, lines, what):
        """Lines begin with a user's name."""
        by_name = {u.name: case for case, u in self.users.items()}
        for line in lines:
            case = by_name.get(line.partition(":")[0])
            (self.problems[case] if case else self.general).append("%s: %s" % (what, line))

    def judge(self):
        begin = time.monotonic()
        self.blame(self.stack.settle(SETTLE_S), "still to do")
        self.settled_s = time.monotonic() - begin
        if self.stack.provider.persistent:
            self.pause_all()
        self.blame(self.stack.disagreements(), "disagreement")
        self.blame(self.stack.usage_errors(), "usage")
        starts = self.stack.provider.starts(self.stack)
        for case, u in self.users.items():
            for mark in u.marks:
                allowed = u.allowed.get(mark, (0, 1))
                if starts[mark] not in allowed:
                    self.problems[case].append("%s was started %d times, not %s" % (mark, starts[mark], " or ".join(map(str, allowed))))
        self.further()

    def each_user(self, what, fn):
        todo, lock = list(self.users.items()), threading.Lock()

        def work():
            while True:
                with lock:
                    if not todo:
                        return
                    case, u = todo.pop()
                try:
                    fn(u)
                except Exception:   # pylint: disable=broad-except
                    self.problems[case].append("%s: %s" % (what, traceback.format_exc(limit=-3)))
        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()

    def pause_all(self):
        """So that all running time has an end and is on record."""
        def pause(u):
            answer = u.again("POST", "/api/user/sandbox/pause", fine=(200, 409))
            assert answer.status == 200 or answer.json["code"] == "sandbox_not_found", answer
        self.each_user("pause", pause)
        self.blame(self.stack.settle(SETTLE_S), "still to do after a pause")

    def further(self):
        """The service still works for everybody."""
        def once_more(u):
            mark, command = u.mark()
            end = u.ended(u.execute(command))
            assert (end["status"], end["exit_code"]) == ("exited", 0), end
            assert mark in end["stdout"], end
        self.each_user("a further command", once_more)
        self.blame(self.stack.settle(SETTLE_S), "still to do after a further command")
        self.blame(self.stack.disagreements(), "disagreement after a further command")
