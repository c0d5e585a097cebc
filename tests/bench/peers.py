"""peers.py -- alternatives to rlockd: libraries and services, each beside rlockd with a client in the same language.

A kind is a driver and a library or service in it ("node/redlock"); each driver can do "rlockd" too. Libraries come from
tests/interop/install.py, at the versions named there, and etcd's and ZooKeeper's clients at the versions below.
"""
import json
import os
import shutil
import subprocess
import sys
import time

import servers
from rows import Cell, Row, rate, longest_wait
from servers import TOP, Skip, harness

sys.path.append(os.path.join(TOP, "tests", "interop"))
import install  # noqa: E402

HERE = os.path.join(servers.HERE, "peers")
BIN = os.path.join(servers.BUILD, "bench")
GO = ["go.etcd.io/etcd/client/v3@v3.5.21", "github.com/go-zookeeper/zk@v1.0.4", "go.uber.org/zap@v1.27.0"]
CLIENTS = (1, 16, 64)
# The directory of the other services' logs: in memory, since Redis writes nothing either.
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


# ---- the drivers ----

def installed(package):
    """Skip when a package of tests/interop cannot be installed."""
    if package not in install._why:
        install.everything({package})
    if install.why(package):
        raise Skip("%s: %s" % (package, install.why(package)))


def python_words():
    if subprocess.run(["/usr/bin/python3", "-c", "import redis"], stderr=subprocess.DEVNULL).returncode:
        raise Skip("python3-redis is not installed")
    return ["/usr/bin/python3", os.path.join(HERE, "peers_py.py")], {}


def node_words():
    installed("npm")
    return (["node", os.path.join(HERE, "peers.js")],
            {"NODE_PATH": install.path("npm", "node_modules"), "NODE_NO_WARNINGS": "1"})


def built(name, sources, build):
    """Calls build(directory) unless the sources are unchanged."""
    target = os.path.join(BIN, name)
    text = [open(s).read() for s in sources]
    stamp, file = install.stamp_of(text, GO, install.JARS), target + ".stamp"
    if not (os.path.exists(file) and open(file).read() == stamp):
        shutil.rmtree(target, True)
        os.makedirs(target)
        os.makedirs(install.ROOT, exist_ok=True)
        try:
            build(target)
        except install.Missing as e:
            raise Skip("%s: %s" % (name, e))
        with open(file, "w") as f:
            f.write(stamp)
    return target


def java_words():
    installed("redisson-new")
    jars, source = install.path("redisson-new", "jars", "*"), os.path.join(HERE, "Peers.java")
    target = built("java", [source],
                   lambda d: install.run(["javac", "-nowarn", "-cp", jars, "-d", d, source], cwd=d, log="bench-java"))
    return ["java", "-Xmx1g", "-cp", target + ":" + jars, "Peers"], {}


def go_words():
    source = os.path.join(HERE, "go", "main.go")

    def build(d):
        env = {"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod"}
        shutil.copy(source, d)
        install.run(["go", "mod", "init", "bench"], cwd=d, env=env, log="bench-go")
        install.run(["go", "get", *GO], cwd=d, env=env, log="bench-go")
        install.run(["go", "build", "-o", "peers", "."], cwd=d, env=env, log="bench-go")
    return [os.path.join(built("go", [source], build), "peers")], {}


# Driver -> (its words, whether it connects by TCP, seconds until it runs at full speed).
DRIVERS = {"py": (python_words, False, 0.3), "node": (node_words, False, 1.0), "java": (java_words, True, 3.0),
           "go": (go_words, True, 0.5)}
_ready = {}


def driver(name):
    if name not in _ready:
        try:
            _ready[name] = DRIVERS[name][0]()
        except Skip as e:
            _ready[name] = e
    if isinstance(_ready[name], Skip):
        raise _ready[name]
    return _ready[name]


def summary(us):
    """In the form of load's histograms."""
    us = sorted(us)
    if not us:
        return {"n": 0, "p50": 0, "p90": 0, "p99": 0, "max": 0}
    return {"n": len(us), "max": us[-1], **{"p%d" % q: us[min(len(us) - 1, len(us) * q // 100)] for q in (50, 90, 99)}}


def measure(cell, server, seconds):
    """One cell, once, in the form of load's output."""
    name, kind = cell.proto.split("/")
    words, env = driver(name)
    _, tcp, warm = DRIVERS[name]
    where = server.tcp if tcp else server.at.split(":", 1)[1]
    words = [*words, kind, where, "hot" if cell.hot else "own", str(cell.clients), str(warm), str(seconds)]
    p = subprocess.run(words, env=dict(os.environ, **env), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       preexec_fn=harness.die_with_us, timeout=120)
    if p.returncode:
        raise Skip("%s: %s" % (cell.proto, p.stderr.decode(errors="replace").strip()[-300:]))
    m = json.loads(p.stdout)
    counts = m["counts"]
    return {"proto": cell.proto, "clients": cell.clients, "hot": cell.hot, "seconds": seconds, "cpu": {},
            "pairs_per_s": sum(counts) / seconds, "whole": {"pairs": sum(counts), "requests": 0},
            "share": {"min": min(counts), "mean": sum(counts) / len(counts), "max": max(counts)},
            "pair_us": summary(m["pair_us"]), "lock_us": summary(m["lock_us"])}


def benchmark(cell, server, seconds):
    """redis-benchmark: single requests, not pairs; every name is a new one."""
    if not shutil.which("redis-benchmark"):
        raise Skip("no redis-benchmark on this machine")
    key = "bench/__rand_int__"
    words = {"lock": ["LOCK", key, "NOWAIT"],
             "eval": ["EVAL", LOCK_SCRIPT, "1", key, "30000", "da85976b-52b5-4961-8ddf-9d6d01bc6d6b:22"],
             "set": ["SET", key, "da85976b-52b5-4961-8ddf-9d6d01bc6d6b:22", "NX", "PX", "30000"]}
    words = words[cell.proto.split("/")[1]]
    n = int(20000 * seconds)
    p = subprocess.run(["redis-benchmark", "-s", server.at.split(":", 1)[1], "-n", str(n), "-c", str(cell.clients),
                        "-r", "1000000000000", "--csv", *words],
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
    lines = [line.rsplit('","', 7) for line in p.stdout.decode(errors="replace").splitlines() if line.startswith('"')]
    if p.returncode or len(lines) < 2:
        raise Skip("redis-benchmark: " + p.stderr.decode(errors="replace").strip()[-300:])
    per_s, _, _, p50, _, p99, slowest = [float(x.strip('"')) for x in lines[-1][1:]]
    us = {"n": n, "p50": p50 * 1e3, "p90": 0, "p99": p99 * 1e3, "max": slowest * 1e3}
    return {"proto": cell.proto, "clients": cell.clients, "hot": False, "seconds": n / per_s, "cpu": {},
            "pairs_per_s": per_s, "whole": {"pairs": n, "requests": n}, "share": {"min": 1, "mean": 1, "max": 1},
            "pair_us": us, "lock_us": us}


LOCK_SCRIPT = ("if ((redis.call('exists', KEYS[1]) == 0) or (redis.call('hexists', KEYS[1], ARGV[2]) == 1)) then "
               "redis.call('hincrby', KEYS[1], ARGV[2], 1); redis.call('pexpire', KEYS[1], ARGV[1]); return nil; end; "
               "return redis.call('pttl', KEYS[1]);")


# ---- the services ----

def place(stage, name):
    """A directory of its own in memory, removed at the end."""
    if MEMORY is None:
        return os.path.join(stage.directory, name)
    path = os.path.join(MEMORY, os.path.basename(stage.directory) + "." + name)
    stage.litter.append(path)
    return path


def opens(port):
    try:
        harness.Conn(("127.0.0.1", port)).close()
        return True
    except OSError:
        return False


class Etcd(servers.Server):
    def __init__(self, stage):
        if not shutil.which("etcd"):
            raise Skip("no etcd on this machine (Debian: etcd-server)")
        port, peers = harness.free_port(), harness.free_port()
        client, peer = "http://127.0.0.1:%d" % port, "http://127.0.0.1:%d" % peers
        p = stage.keep(harness.Process(
            ["etcd", "--data-dir", place(stage, "etcd"),
             "--listen-client-urls", client, "--advertise-client-urls", client,
             "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default=" + peer],
            stage.directory, "etcd"))
        harness.until(lambda: opens(port), 30)
        super().__init__("tcp:127.0.0.1:%d" % port, {"etcd": p.pid})
        self.tcp = "127.0.0.1:%d" % port


class ZooKeeper(servers.Server):
    def __init__(self, stage):
        jar = "/usr/share/java/zookeeper.jar"
        if not (os.path.exists(jar) and shutil.which("java")):
            raise Skip("no ZooKeeper on this machine (Debian: zookeeper)")
        port, data = harness.free_port(), place(stage, "zookeeper")
        os.makedirs(data)
        conf = os.path.join(stage.directory, "zoo.cfg")
        with open(conf, "w") as f:
            f.write("tickTime=2000\ndataDir=%s\nclientPort=%d\nclientPortAddress=127.0.0.1\nmaxClientCnxns=0\n"
                    "forceSync=no\nadmin.enableServer=false\n" % (data, port))
        p = stage.keep(harness.Process(
            ["java", "-Xmx1g", "-Dzookeeper.log.dir=" + data, "-cp", jar,
             "org.apache.zookeeper.server.quorum.QuorumPeerMain", conf], stage.directory, "zookeeper"))
        harness.until(lambda: opens(port), 30)
        super().__init__("tcp:127.0.0.1:%d" % port, {"zookeeper": p.pid})
        self.tcp = "127.0.0.1:%d" % port


servers.SERVERS["etcd"] = Etcd
servers.SERVERS["zookeeper"] = ZooKeeper


# ---- the rows ----

# (id, title, the server, kind, the same driver with rlockd)
PEERS = [
    ("redis-py", "python3-redis Lock, a process per client", "direct", "py/redis-py"),
    ("redlock", "npm redlock 5", "direct", "node/redlock"),
    ("warlock", "npm node-redis-warlock", "direct", "node/warlock"),
    ("rlock", "Redisson 4.7 RLock, a thread per client", "direct", "java/rlock"),
    ("fairlock", "Redisson 4.7 FairLock, a thread per client", "direct", "java/fair"),
    ("etcd", "etcd, its concurrency recipe", "etcd", "go/etcd"),
    ("zookeeper", "ZooKeeper, its lock recipe", "zookeeper", "go/zookeeper"),
]


def _rows():
    for ident, what, server, kind in PEERS:
        twin = kind.split("/")[0] + "/rlockd"
        for n in CLIENTS:
            ours, theirs = Cell("rlockd", twin, clients=n), Cell(server, kind, clients=n)
            title = "%s: rlockd from the same language / it, own names, %d clients" % (what, n)
            yield Row("peer-%s-own-%d" % (ident, n), title, rate, ours, theirs, "> 1")
            if n == 1:  # the effect of a rule on the second hop
                lingers = ours._replace(server="linger")
                yield Row("peer-%s-own-1-linger" % ident, "the same with linger", rate, lingers, theirs, "> 1")
            if n > 1:
                ours, theirs = ours._replace(hot=True), theirs._replace(hot=True)
                yield Row("peer-%s-hot-%d" % (ident, n), "the same, one name", rate, ours, theirs, "> 1")
                title = "the same, the longest wait"
                yield Row("peer-%s-wait-%d" % (ident, n), title, longest_wait, ours, theirs, "< 1")
    for n in CLIENTS:
        for proto, what in (("eval", "EVAL of the lock script"), ("set", "SET NX PX")):
            title = "redis-benchmark -c %d: LOCK at rlockd / %s at Redis, requests/s" % (n, what)
            yield Row("peer-benchmark-%s-%d" % (proto, n), title, rate, Cell("rlockd", "benchmark/lock", clients=n),
                      Cell("direct", "benchmark/" + proto, clients=n), "> 1" if proto == "eval" else None)


ROWS = list(_rows())


def measures(cell):
    """The function that measures this cell, None when it is load's."""
    if "/" not in cell.proto:
        return None
    return benchmark if cell.proto.startswith("benchmark/") else measure
