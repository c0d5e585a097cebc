"""servers.py -- the measured servers, each started at its first use: private, in the bench's directory, ended by pid.

A server is a name in SERVERS; one that cannot be started raises Skip with the reason, which its rows print.
"""
import os
import shutil
import socket
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
os.environ.setdefault("RLOCKD_BUILD", os.path.join(TOP, "build"))
sys.path.append(os.path.join(os.path.dirname(HERE), "redis"))

import certificates  # noqa: E402
import clusters  # noqa: E402
import harness  # noqa: E402
import quorums  # noqa: E402
import sentinels  # noqa: E402

BUILD = harness.BUILD
LOAD = os.path.join(BUILD, "tests", "bench", "load")
FLOOR = os.path.join(BUILD, "tests", "bench", "floor")
PROXY = os.path.join(BUILD, "tests", "chaos", "proxy")
# Defaults except the limits, which some rows reach.
LIMITS = "limits: { sessions: 30000, waiters: 1000000, locks: 10000000 }\n"


# Trips to the nodes of a quorum, in us each way. UNEVEN: the slower of the two fastest nodes is as far as those of FAR.
FAR, UNEVEN = (500, 500, 500), (400, 500, 2000)


class Skip(Exception):
    """The reason why something cannot be measured here."""


class Server:
    """at: the address for the load; tcp: HOST:PORT of the same server; cpu: label -> pid; redis: its Redis."""

    daemon = tcp = None

    def __init__(self, at, cpu, redis=None):
        self.at, self.cpu, self.redis = at, cpu, redis

    def calls(self):
        """The number of commands that the daemon has sent to Redis."""
        return int(self.daemon.info("stats")["redis_calls"]) if self.daemon else 0

    def rest(self):
        """Between two measurements."""


class Direct(Server):
    """Redis itself. Traces of a run (latches) are removed."""

    def __init__(self, stage, name):
        self.process = stage.keep(harness.Redis(stage.directory, name=name, tcp=True, args=["--maxclients", "40000"]))
        super().__init__("unix:" + self.process.path, {"redis": self.process.pid}, "unix:" + self.process.path)
        self.tcp = "127.0.0.1:%d" % self.process.port

    def rest(self):
        self.process.cmd("FLUSHALL", "SYNC")


class Rlockd(Server):
    def __init__(self, stage, name, conf=""):
        self.process = stage.keep(harness.Redis(stage.directory, name=name + "-redis"))
        check(stage, name, conf)
        self.daemon = stage.keep(harness.Rlockd(stage.directory, redis=self.process.url, name=name, conf=LIMITS + conf,
                                                tcp=True))
        super().__init__(self.daemon.addr, {"redis": self.process.pid, "rlockd": self.daemon.pid}, self.process.url)
        self.tcp = "127.0.0.1:%d" % self.daemon.port

    def rest(self):
        harness.until(self.is_empty, 60)

    def is_empty(self):
        """every lock is free again"""
        fields = self.daemon.info("keyspace")
        return fields["locks_held"] == "0" and fields["locks_freeing"] == "0"


class OverTcp(Server):
    """rlockd with a Redis behind a TCP port on this host: without TLS, or with TLS and certificates made here."""

    rest, is_empty = Rlockd.rest, Rlockd.is_empty

    def __init__(self, stage, name, tls):
        port, conf = harness.free_port(), ""
        args = ["--port", str(port)]
        if tls:
            ca = certificates.Authority(stage.directory)
            cert, key = ca.certificate("redis")
            args = ["--tls-port", str(port), "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file",
                    ca.pem, "--tls-auth-clients", "no"]
            conf = 'redis: { tls_ca_file: "%s" }\n' % ca.pem
        self.process = stage.keep(harness.Redis(stage.directory, name=name + "-redis", args=args))
        self.daemon = stage.keep(harness.Rlockd(stage.directory, name=name, conf=LIMITS + conf,
                                                redis="redis%s://localhost:%d" % ("s" if tls else "", port)))
        super().__init__(self.daemon.addr, {"redis": self.process.pid, "rlockd": self.daemon.pid}, self.process.url)


class Replicated(Server):
    """rlockd with a master, which has two replicas and three sentinels: by its address, or through the sentinels."""

    rest, is_empty = Rlockd.rest, Rlockd.is_empty

    def __init__(self, stage, name, by_sentinels=False, conf=""):
        check(stage, name, conf)
        case = Keeps(stage, name)
        there = sentinels.Deployment(case)
        self.process = there.servers[0]
        self.daemon = stage.keep(harness.Rlockd(case.dir, name=name, conf=LIMITS + conf,
                                                redis=there.url() if by_sentinels else self.process.addr))
        super().__init__(self.daemon.addr, {"redis": self.process.pid, "rlockd": self.daemon.pid}, self.process.url)


class OfQuorum(Server):
    """rlockd with three masters: with all of them as a quorum, or with the first alone while the others idle."""

    rest, is_empty = Rlockd.rest, Rlockd.is_empty

    def __init__(self, stage, name, whole):
        case = Keeps(stage, name)
        nodes = quorums.Masters(case)
        self.process = nodes.nodes[0]
        self.daemon = stage.keep(harness.Rlockd(case.dir, name=name, conf=LIMITS,
                                                redis=nodes.url() if whole else self.process.url))
        harness.until(self.takes)
        super().__init__(self.daemon.addr, {"redis": self.process.pid, "rlockd": self.daemon.pid})

    def takes(self):
        """a lock is granted"""
        return isinstance(self.daemon.cmd("LOCK", "begin", "NOWAIT"), int)


class Trips:
    """Routes of the fault proxy (tests/chaos), in which each byte takes `us` microseconds, each way."""

    def __init__(self, stage, directory):
        path = os.path.join(directory, "proxy.ctl")
        stage.keep(harness.Process([PROXY, "unix:" + path], directory, "proxy"))
        self.control = socket.socket(socket.AF_UNIX)  # the proxy ends with its first connection
        harness.until(lambda: self.control.connect_ex(path) == 0)
        self.lines = self.control.makefile("r")

    def say(self, *words):
        self.control.sendall((" ".join(map(str, words)) + "\n").encode())
        return self.lines.readline().split()

    def route(self, name, target, us):
        """The port of a route to the target."""
        ok, port = self.say("route", name, "tcp:127.0.0.1:0", "unix:" + target)
        assert ok == "ok" and self.say("set", name, "both", "trip", us) == ["ok"]
        return int(port)


class Away(Server):
    """
    Three masters, each some us away, each way: rlockd with all of them as a quorum (one is None), or with one alone; or
    that one itself.
    """

    takes = OfQuorum.takes

    def __init__(self, stage, name, trips, one=None, daemon=True):
        case = Keeps(stage, name)
        nodes = quorums.Masters(case)
        way = Trips(stage, case.dir)
        at = ["127.0.0.1:%d" % way.route("node%d" % i, node.path, us)
              for i, (node, us) in enumerate(zip(nodes.nodes, trips))]
        self.process, self.way = nodes.nodes[one or 0], way
        urls = ["redis://" + place for place in at]
        if daemon:
            url = urls[one] if one is not None else "quorum:" + ",".join(urls)
            self.daemon = stage.keep(harness.Rlockd(case.dir, name=name, conf=LIMITS, redis=url))
            harness.until(self.takes)
            super().__init__(self.daemon.addr, {"redis": self.process.pid, "rlockd": self.daemon.pid})
        else:
            super().__init__("tcp:" + at[one], {"redis": self.process.pid}, self.process.url)

    def rest(self):
        if self.daemon:
            Rlockd.rest(self)

    is_empty = Rlockd.is_empty


class OfCluster(Server):
    """rlockd with a cluster of three masters."""

    is_empty, takes = Rlockd.is_empty, OfQuorum.takes

    def __init__(self, stage, name):
        case = Keeps(stage, name)
        there = clusters.Cluster(case.dir, case._keep, replicas=0, args=clusters.STEADY)
        self.daemon = stage.keep(harness.Rlockd(case.dir, name=name, conf=LIMITS, redis=there.url()))
        harness.until(self.takes, 30)
        super().__init__(self.daemon.addr, {"rlockd": self.daemon.pid,
                                            **{"redis%d" % i: node.pid for i, node in enumerate(there.masters)}})

    def rest(self):
        harness.until(self.is_empty, 60)


class Keeps:
    """The interface of a test that a deployment needs: a directory, and the end of all processes."""

    def __init__(self, stage, name):
        self.dir, self._keep = os.path.join(stage.directory, name), stage.keep
        os.mkdir(self.dir)


class Floor(Server):
    def __init__(self, stage, how):
        path = os.path.join(stage.directory, "floor-%s.sock" % how)
        process = stage.keep(harness.Process([FLOOR, how, path], stage.directory, "floor-" + how))
        harness.until(lambda: answers(path))
        super().__init__("unix:" + path, {"floor": process.pid})


def answers(path):
    """A Unix socket takes connections."""
    try:
        harness.Conn(path).close()
        return True
    except OSError:
        return False


def check(stage, name, conf):
    """Skip with the daemon's own error when it refuses this configuration."""
    path = os.path.join(stage.directory, name + "-check.yaml")
    with open(path, "w") as f:
        f.write(LIMITS + conf)
    os.chmod(path, 0o600)
    p = subprocess.run([os.path.join(BUILD, "rlockd"), "-t", "-c", path], stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT)
    if p.returncode:
        words = p.stdout.decode(errors="replace").strip().splitlines()
        raise Skip("rlockd refuses its configuration: " + (words[0].replace(path + ":", "") if words else "?"))


SERVERS = {
    "direct": lambda stage: Direct(stage, "direct"),
    "rlockd": lambda stage: Rlockd(stage, "rlockd"),
    # Every hand-off takes its trip to Redis: this kind is not handed over, but given back and taken in one trip ...
    "trip": lambda stage: Rlockd(stage, "trip", "locks: { kind: fenced }\n"),
    # ... or in two, as between daemons.
    "apart": lambda stage: Rlockd(stage, "apart", "handoff: { max: 0 }\n"),
    # Four permits of one name, all of them at this daemon.
    "permits": lambda stage: Rlockd(stage, "permits", "locks: { kind: semaphore, limit: 4 }\n"),
    "permits-apart": lambda stage: Rlockd(stage, "permits-apart",
                                          "locks: { kind: semaphore, limit: 4 }\nhandoff: { max: 0 }\n"),
    "linger": lambda stage: Rlockd(stage, "linger", "locks: { linger: 50ms }\n"),
    "spin": lambda stage: Rlockd(stage, "spin", "spin: 30us\n"),
    "by-tcp": lambda stage: OverTcp(stage, "by-tcp", False),
    "by-tls": lambda stage: OverTcp(stage, "by-tls", True),
    "replicated": lambda stage: Replicated(stage, "replicated"),
    "by-sentinels": lambda stage: Replicated(stage, "by-sentinels", by_sentinels=True),
    "acknowledged": lambda stage: Replicated(stage, "acknowledged", conf="locks: { replicas: 1 }\n"),
    "quorum": lambda stage: OfQuorum(stage, "quorum", True),
    "cluster": lambda stage: OfCluster(stage, "cluster"),
    "of-quorum": lambda stage: OfQuorum(stage, "of-quorum", False),
    "far-quorum": lambda stage: Away(stage, "far-quorum", FAR),
    "far-node": lambda stage: Away(stage, "far-node", FAR, one=1),
    "far-direct": lambda stage: Away(stage, "far-direct", FAR, one=1, daemon=False),
    "uneven-quorum": lambda stage: Away(stage, "uneven-quorum", UNEVEN),
    "floor-echo": lambda stage: Floor(stage, "echo"),
    "floor-hot": lambda stage: Floor(stage, "hot"),
}


class Stage:
    """All running processes, newest last."""

    def __init__(self, directory):
        self.directory, self.processes, self.servers, self.skipped = directory, [], {}, {}
        self.litter = [directory]  # removed at the end
        self.helpers, self.growth = [], {}  # of scale.py ...
        self.profiled = []  # ... too: (id of a row, label, symbols or why not)

    def keep(self, process):
        self.processes.append(process)
        return process

    def server(self, name):
        if name in self.skipped:
            raise Skip(self.skipped[name])
        if name not in self.servers:
            try:
                self.servers[name] = SERVERS[name](self)
            except Skip as e:
                self.skipped[name] = str(e)
                raise
        return self.servers[name]

    def close(self):
        for p in reversed(self.processes):
            p.stop()
        for path in self.litter:
            shutil.rmtree(path, True)


def cpu(pid):
    """Seconds on a processor."""
    total = 0
    for task in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/schedstat" % (pid, task)) as f:
            total += int(f.read().split()[0])
    return total / 1e9


def busy_elsewhere(seconds=0.2):
    """The part of the machine that is busy while this process does nothing."""
    def read():
        with open("/proc/stat") as f:
            words = [int(w) for w in f.readline().split()[1:9]]
        return sum(words), words[3] + words[4]
    total, idle = read()
    time.sleep(seconds)  # the pause is part of the measurement: other processes work meanwhile
    total2, idle2 = read()
    return 1 - (idle2 - idle) / max(1, total2 - total)
