"""Parts of the benchmarks: the scratch world of floors and peers, measuring, printing.

Absolute figures move with the machine; every comparison is made of rounds in which floor, peer and ours follow one another, and the
ratio is the median of the rounds' ratios."""

import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
import pwd

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))

from paddock import Instance, Proc, wait_for  # noqa: E402

PACKAGES = ["wrk", "libfcgi-dev", "libpq-dev", "postgresql-15", "python3-fastapi", "uvicorn", "python3-uvicorn", "python3-uvloop", "python3-httptools",
            "python3-asyncpg", "python3-psycopg2", "python3-docker", "python3-requests"]
CONTAINER = "paddock-bench"
WORKERS = 4


def family(*roots):
    """These processes and all that descend from them."""
    parents = {pid: Proc.ppid(pid) for pid in Proc.all()}
    found = set(roots)
    while True:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        if not more:
            return found
        found |= more


class World:
    """A scratch directory with an own PostgreSQL, an own nginx (the instance's configuration, other upstreams), the floor's workers,
    the peers and a bench container in the instance's engine. All of it is gone after close()."""

    def __init__(self, inst):
        self.inst = inst
        self.dir = "/tmp/paddock-bench-%d" % os.getpid()
        self.port = inst.port + 1000
        self.children = {}
        os.mkdir(self.dir, 0o755)
        self.pg_dir = self.dir + "/pg"

    def end(self, name):
        """Ends a part of this world, if it was started."""
        child = self.children.pop(name, None)
        if child is None:
            return
        members = self.family_of(child)
        child.send_signal(signal.SIGTERM if name != "postgres" else signal.SIGINT)
        try:
            child.wait(10)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        for pid in members:
            self.inst.kill(pid, signal.SIGTERM)

    @staticmethod
    def family_of(child):
        return family(child.pid) - {child.pid}

    def close(self):
        for name in list(reversed(self.children)):
            self.end(name)
        try:
            self.inst.engine("rm", "-f", "-t", "0", CONTAINER, check=False)
        except subprocess.TimeoutExpired:
            print("the container %s could not be removed" % CONTAINER)
        shutil.rmtree(self.dir, ignore_errors=True)

    def spawn(self, name, argv, **kw):
        log = open("%s/%s.log" % (self.dir, name), "ab")
        environment = {**os.environ, "BENCH_PG": self.dir, "BENCH_ENGINE": self.inst.runtime + "/engine.sock", "BENCH_CONTAINER": CONTAINER,
                       "NODE_PATH": self.dir + "/node_modules", "GLIBC_TUNABLES": "glibc.cpu.x86_rep_movsb_threshold=0x40000000"}   # as the instance's nginx
        self.children[name] = subprocess.Popen(argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment, cwd=kw.pop("cwd", self.dir), **kw)
        log.close()
        return self.children[name]

    def pids(self, *names):
        return family(*(self.children[n].pid for n in names if n in self.children))

    # parts

    def database(self):
        """An own cluster with the settings of the instance's."""
        pgbin = sorted(p for p in (os.path.join("/usr/lib/postgresql", v, "bin") for v in os.listdir("/usr/lib/postgresql")) if os.path.exists(p + "/initdb"))[-1]
        account = pwd.getpwnam("postgres")
        os.mkdir(self.pg_dir, 0o700)
        os.chown(self.pg_dir, account.pw_uid, account.pw_gid)
        os.chmod(self.dir, 0o777)
        run = dict(user=account.pw_uid, group=account.pw_gid, extra_groups=[])
        subprocess.run([pgbin + "/initdb", "-D", self.pg_dir, "-U", "postgres", "--encoding=UTF8", "--locale=C.UTF-8", "--data-checksums", "-A", "trust"],
                       check=True, stdout=subprocess.DEVNULL, cwd=self.dir, **run)
        settings = self.inst.state + "/pg/paddock.conf"
        if os.path.exists(settings):
            with open(settings) as f, open(self.pg_dir + "/postgresql.conf", "a") as out:
                out.write("".join(l for l in f if not re.match(r"\s*(unix_socket|listen|port|hba_file|ident_file|log_|include|cluster_name|external_pid)", l)))
        self.spawn("postgres", [pgbin + "/postgres", "-D", self.pg_dir, "-p", "5444", "-k", self.dir, "-c", "listen_addresses="], **run)
        wait_for("the bench database", lambda: self.psql("SELECT 1", check=False), 20)
        self.psql("CREATE DATABASE bench", database="postgres")
        self.psql(open(os.path.join(HERE, "schema.sql")).read())

    def psql(self, text, check=True, database="bench"):
        done = subprocess.run(["psql", "-X", "-q", "-h", self.dir, "-p", "5444", "-U", "postgres", "-d", database if check else "postgres"], input=text,
                              capture_output=True, text=True)
        if check and (done.returncode or "ERROR" in done.stderr):
            raise RuntimeError(done.stderr)
        return done.returncode == 0

    def compile(self):
        subprocess.run(["cc", "-O2", "-I/usr/include/postgresql", "-o", self.dir + "/floor", HERE + "/floor.c", "-lfcgi", "-lpq"], check=True)
        os.mkdir(self.dir + "/agent")
        os.chmod(self.dir + "/agent", 0o777)
        subprocess.run(["cc", "-O2", "-static", "-o", self.dir + "/agent/miniagent", HERE + "/miniagent.c"], check=True)

    def container(self):
        """A plain container of the same image in the same engine; miniagent is its first process."""
        self.inst.engine("rm", "-f", "-t", "0", CONTAINER, check=False)
        self.inst.engine("run", "-d", "--name", CONTAINER, "--network", "none", "-v", self.dir + "/agent:/bench", "localhost/paddock-sandbox:latest",
                         "/bench/miniagent", "serve", "/bench/s")
        wait_for("miniagent", lambda: os.path.exists(self.dir + "/agent/s"), 10)
        self.inst.engine("exec", CONTAINER, "chmod", "666", "/bench/s")

    def floor(self):
        self.spawn("floor", [self.dir + "/floor", self.dir + "/floor.sock", str(WORKERS), "host=%s port=5444 user=postgres dbname=bench" % self.dir, self.dir + "/agent/s"])

    def fastapi(self):
        self.spawn("fastapi", ["/usr/bin/python3", "-m", "uvicorn", "peer_fastapi:app", "--uds", self.dir + "/fastapi.sock", "--workers", "2", "--no-access-log",
                               "--log-level", "warning"], cwd=HERE)

    def docker(self):
        self.spawn("docker", ["/usr/bin/python3", "-m", "uvicorn", "peer_docker:app", "--uds", self.dir + "/docker.sock", "--workers", "2", "--no-access-log",
                              "--log-level", "warning"], cwd=HERE)

    def node(self):
        subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", self.dir, "pg@8"], check=True, stdout=subprocess.DEVNULL)
        self.spawn("node", ["node", HERE + "/peer_node.js", "2", self.dir + "/node.sock"])

    def nginx(self):
        """The instance's own configuration with other upstreams, so that all go through the same front."""
        with open(self.inst.etc + "/nginx.conf") as f:
            text = f.read()
        text = text.replace("%d ssl" % self.inst.port, "%d ssl" % self.port)
        text = re.sub(r"upstream paddock_api\s*\{[^}]*\}", "upstream paddock_api { server unix:%s/floor.sock; }" % self.dir, text)
        text = text.replace("/var/lib/paddock%s/nginx" % self.inst.suffix, self.dir + "/nginx").replace(self.inst.runtime + "/nginx", self.dir + "/nginx")
        peers = "".join("upstream peer_%s { server unix:%s/%s.sock; keepalive 32; }\n" % (n, self.dir, n) for n in ("fastapi", "docker", "node"))
        text = text.replace("upstream paddock_api", peers + "upstream paddock_api", 1)
        places = "".join("location /%s/ { proxy_pass http://peer_%s/; proxy_http_version 1.1; proxy_set_header Connection \"\"; }\n" % (n, n)
                         for n in ("fastapi", "docker", "node"))
        text = text.replace("location / {", places + "location / {", 1)
        os.makedirs(self.dir + "/nginx", exist_ok=True)
        os.chmod(self.dir + "/nginx", 0o777)
        with open(self.dir + "/nginx.conf", "w") as f:
            f.write(text)
        for name in os.listdir(self.dir):
            if name.endswith(".sock"):
                os.chmod(os.path.join(self.dir, name), 0o666)
        self.spawn("nginx", ["nginx", "-p", self.dir, "-c", self.dir + "/nginx.conf", "-g", "daemon off;"])
        time.sleep(0.5)

    def open_sockets(self, *names):
        for name in names:
            path = "%s/%s.sock" % (self.dir, name)
            wait_for(path, lambda: os.path.exists(path), 20)
            os.chmod(path, 0o666)


def install():
    missing = [p for p in PACKAGES if subprocess.run(["dpkg", "-s", p], capture_output=True).returncode]
    if missing:
        subprocess.run(["apt-get", "install", "-y", "--no-install-recommends", *missing], check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})


def service_pids(inst):
    """Everything of the instance that works on a request, its database sessions too."""
    roles = inst.processes()
    roots = [p for role in ("master", "nginx", "postgres", "executor") for p in roles[role]]
    return family(*roots)


class Sample:
    """One measurement: requests a second, seconds to the middle and the 95th percentile, errors, CPU µs a request."""

    def __init__(self, rate, p50, p95, bad=0, cpu=None):
        self.rate, self.p50, self.p95, self.bad, self.cpu = rate, p50, p95, bad, cpu


def cpu_of(pids):
    """CPU seconds of a family so far, with those of children that ended and were reaped (workers are recycled, and sessions with them)."""
    return sum(Proc.cpu(pid, True) for pid in pids)


def wrk(url, clients, seconds, pids, method="GET", body="", token=""):
    before = cpu_of(pids())
    out = subprocess.run(["wrk", "-t1", "-c%d" % clients, "-d%gs" % seconds, "--timeout", "20s", "-s", HERE + "/wrk.lua", url], capture_output=True, text=True,
                         env={**os.environ, "BENCH_METHOD": method, "BENCH_BODY": body, "BENCH_TOKEN": token}).stdout
    after = cpu_of(pids())
    figures = re.search(r"FIGURES (\d+) (\d+) ([\d.]+) ([\d.]+) (\d+)", out)
    if not figures:
        raise RuntimeError("wrk %s: %s" % (url, out))
    n, micros, p50, p95, bad = (float(x) for x in figures.groups())
    return Sample(n * 1e6 / micros, p50 / 1e6, p95 / 1e6, int(bad), (after - before) * 1e6 / max(n, 1))


def timed(call, n):
    """n calls one after another."""
    seconds = []
    for _ in range(n):
        begin = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - begin)
    seconds.sort()
    return Sample(n / sum(seconds), statistics.median(seconds), seconds[min(n - 1, int(n * 0.95))])


def interleaved(targets, rounds, first_is_warm_up=True):
    """targets: {name: function that gives a Sample}. {name: [Sample a round]}"""
    found = {name: [] for name in targets}
    for i in range(rounds + (1 if first_is_warm_up else 0)):
        for name, measure in targets.items():
            sample = measure()
            if i or not first_is_warm_up:
                found[name].append(sample)
    return found


def median(samples, what):
    values = [getattr(s, what) for s in samples if getattr(s, what) is not None]
    return statistics.median(values) if values else None


def ratio(found, one, other, what):
    """Median over the rounds of one / other; a round in which the other one finished nothing counts as infinite."""
    return statistics.median(getattr(a, what) / getattr(b, what) if getattr(b, what) else float("inf") for a, b in zip(found[one], found[other]))


def table(title, found, base=None, what="rate"):
    print("\n%s" % title)
    print("%-34s %10s %10s %10s %10s %10s %5s" % ("", "per second", "p50 ms", "p95 ms", "CPU us", "ratio", "bad"))
    for name, samples in found.items():
        cpu = median(samples, "cpu")
        print("%-34s %10.1f %10.2f %10.2f %10s %10.3f %5d" % (
            name, median(samples, "rate"), median(samples, "p50") * 1e3, median(samples, "p95") * 1e3, "%.0f" % cpu if cpu is not None else "-",
            ratio(found, name, base or next(iter(found)), what), sum(s.bad for s in samples)))


GOALS = []


def goal(text, value, least=None, most=None):
    met = (least is None or value >= least) and (most is None or value <= most)
    GOALS.append((met, text, value, least, most))
    print("  %-7s %s: %.3g (goal %s)" % ("met" if met else "MISSED", text, value, ">= %g" % least if least is not None else "<= %g" % most))


def summary(path=None):
    print("\n%d of %d goals met" % (sum(g[0] for g in GOALS), len(GOALS)))
    if path:
        with open(path, "w") as f:
            json.dump([{"met": m, "what": t, "value": v, "least": lo, "most": hi} for m, t, v, lo, hi in GOALS], f, indent=1)


def instance():
    inst = Instance.from_environment()
    inst.wait_ready(30)
    return inst
