"""nemeses.py -- the harms of a world, one row each: name, description, healing, code.

The code is a generator: it harms, yields the seconds for which the harm should stay, heals, and returns how often the
harm was observed (not: ordered). A run without any observation fails.
"""
import collections
import os
import resource
import signal
import socket
import tempfile
import time

from harness import Closed, Conn, RError, free_port, state, until
from world import LEASE, PROGRAMS, Process, Server

Nemesis = collections.namedtuple("Nemesis", "name does heals world run loses")
TABLE = []


def nemesis(name, does, heals, world="single", loses=None):
    """A row. `loses`: None; "grace": acknowledged writes are lost, which needs grace; "always": nothing can help."""
    def add(run):
        TABLE.append(Nemesis(name, does, heals, world, run, loses))
        return run
    return add


def any_daemon(w):
    return w.daemons[w.rng.choice("AB")]


# --- daemons

@nemesis("daemon-kill", "kill -9 of a daemon", "it is started anew")
def _(w):
    d = any_daemon(w)
    d.die()
    yield w.rng.choice((0, 0.3, LEASE * 1.1))
    d.start()
    return d.lives > 1


@nemesis("daemon-term", "TERM of a daemon: it drains", "it is started anew")
def _(w):
    d = any_daemon(w)
    w.flaky(d.tag, True)
    w.flaky(d.tag + "/p", True)
    d.signal(signal.SIGTERM)
    yield 0.3
    d.wait()
    w.event("down", d.tag)
    w.flaky(d.tag, False)
    w.flaky(d.tag + "/p", False)
    ended = d.proc.returncode == 0
    d.start()
    return ended


def stopped(process, seconds):
    """SIGSTOP for that time; true when the process was seen stopped."""
    process.signal(signal.SIGSTOP)

    until(lambda: state(process.pid) in "Tt")
    yield seconds
    process.signal(signal.SIGCONT)
    return 1


for factor, word in ((0.5, "half"), (1.0, "one"), (3.0, "three")):
    @nemesis("daemon-stop-" + word, "SIGSTOP of a daemon for %.1f leases" % factor, "SIGCONT")
    def _(w, factor=factor):
        return (yield from stopped(any_daemon(w), factor * LEASE))


@nemesis("daemon-fds", "prlimit: a daemon gets no more file descriptors, and many want to connect", "the old limit")
def _(w):
    d = any_daemon(w)
    old = resource.prlimit(d.pid, resource.RLIMIT_NOFILE)
    have = len(os.listdir("/proc/%d/fd" % d.pid))
    resource.prlimit(d.pid, resource.RLIMIT_NOFILE, (have + 4, old[1]))
    crowd = [dialled(d.path) for _ in range(40)]
    w.proxy.say("reset", "vip-" + d.tag)  # it must also come back to Redis
    yield 1
    full = len(os.listdir("/proc/%d/fd" % d.pid))
    for s in crowd:
        s.close()
    resource.prlimit(d.pid, resource.RLIMIT_NOFILE, old)
    return full >= have


def dialled(path):
    s = socket.socket(socket.AF_UNIX)
    s.setblocking(False)
    try:
        s.connect(path)
    except OSError:
        pass
    return s


@nemesis("connect-flood", "300 connections at once, each asks for a lock and goes", "they have gone")
def _(w):
    d, seen = any_daemon(w), 0
    crowd = [dialled(d.path) for _ in range(300)]
    for s in crowd:
        try:
            s.send(b"LOCK re:0 NOWAIT\nLOCK re:flood WAIT 1s\n")
            seen += 1
        except OSError:
            pass
    yield 0.3
    for s in crowd:
        s.close()
    return seen > 100


@nemesis("slow-reader", "a client asks and asks and never reads", "it goes")
def _(w):
    d = any_daemon(w)
    s = dialled(d.path)
    sent = 0
    try:
        while sent < 4 << 20:
            sent += s.send(b"LOCK re:slow WAIT 1s\n" + b"COMMAND DOCS\n" * 1000)
    except OSError:
        pass  # it accepts no more connections, as expected
    yield 1
    s.close()
    return sent > 10000


# --- clients

@nemesis("client-kill", "kill -9 of some clients", "others come instead")
def _(w):
    names = w.rng.sample(sorted(w.clients), 3)
    dead = [w.kill_client(n) for n in names]
    yield 0.1
    for c in dead:
        w.client(c.route, *c.words)
    return all(c.proc.returncode == -signal.SIGKILL for c in dead)


@nemesis("client-stop", "SIGSTOP of some clients for 1.3 leases", "SIGCONT")
def _(w):
    parts = [stopped(w.clients[n], 0) for n in w.rng.sample(sorted(w.clients), 3)]
    for p in parts:
        next(p)
    yield 1.3 * LEASE
    for p in parts:
        for _ in p:
            pass
    return len(parts)


# --- Redis

@nemesis("redis-kill-aof", "kill -9 of Redis", "it is started anew with what it had written down")
def _(w):
    r, run_id = w.redis, w.redis.info("run_id")
    r.kill()
    yield 0.2
    r.start()
    return r.info("run_id") != run_id


@nemesis("redis-kill-empty", "kill -9 of Redis", "it is started anew, empty", loses="grace")
def _(w):
    r, run_id = w.redis, w.redis.info("run_id")
    r.kill()
    r.forget()
    yield 0.1
    r.start()
    return r.info("run_id") != run_id


@nemesis("flushall", "FLUSHALL", "nothing is to be healed", loses="grace")
def _(w):
    w.redis.cmd("SET", "rlock:chaos", "1")
    w.redis.cmd("FLUSHALL")
    yield 0
    return w.redis.cmd("EXISTS", "rlock:chaos") == 0


@nemesis("script-flush", "SCRIPT FLUSH", "nothing is to be healed")
def _(w):
    def missed():
        """how often a missing script was requested"""
        return int((w.redis.info("errorstat_NOSCRIPT") or "count=0").split("=")[1])
    before = missed()
    for _ in range(3):
        w.redis.cmd("SCRIPT", "FLUSH", "SYNC")
        yield 0.1
    return until(lambda: missed() - before)


@nemesis("redis-stop-short", "SIGSTOP of Redis for a third of a lease", "SIGCONT")
def _(w):
    return (yield from stopped(w.redis, LEASE / 3))


@nemesis("redis-stop-long", "SIGSTOP of Redis for 1.5 leases: what it was sent meanwhile runs later", "SIGCONT")
def _(w):
    return (yield from stopped(w.redis, LEASE * 1.5))


@nemesis("redis-oom", "maxmemory below what is used, noeviction: -OOM", "the old maxmemory")
def _(w):
    w.redis.cmd("CONFIG", "SET", "maxmemory-policy", "noeviction", "maxmemory", "1000000")
    seen = refused(w, "OOM")
    yield 1
    w.redis.cmd("CONFIG", "SET", "maxmemory", "0")
    return seen


@nemesis("redis-evicts", "maxmemory with allkeys-random: locks are evicted", "the old maxmemory", loses="always")
def _(w):
    before = int(w.redis.info("evicted_keys"))
    w.redis.cmd("CONFIG", "SET", "maxmemory-policy", "allkeys-random", "maxmemory", "1000000")
    yield 1
    w.redis.cmd("CONFIG", "SET", "maxmemory", "0", "maxmemory-policy", "noeviction")
    return int(w.redis.info("evicted_keys")) > before


def refused(w, word):
    """Redis refuses a write with this word."""
    reply = w.redis.cmd("SET", "rlock:chaos", "1")
    return isinstance(reply, RError) and reply.startswith(word)


@nemesis("redis-readonly", "REPLICAOF a host that is not there: -READONLY", "REPLICAOF NO ONE")
def _(w):
    w.redis.cmd("REPLICAOF", "127.0.0.1", str(free_port()))
    seen = refused(w, "READONLY")
    yield 1
    w.redis.cmd("REPLICAOF", "NO", "ONE")
    return seen


@nemesis("redis-noreplicas", "min-replicas-to-write 1, and there is none: -NOREPLICAS", "0")
def _(w):
    w.redis.cmd("CONFIG", "SET", "min-replicas-to-write", "9")
    seen = refused(w, "NOREPLICAS")
    yield 1
    w.redis.cmd("CONFIG", "SET", "min-replicas-to-write", "0")
    return seen


@nemesis("redis-misconf", "its disk takes no snapshot: -MISCONF", "it does again")
def _(w):
    place = os.path.join(w.redis.home, "no.rdb")
    os.makedirs(os.path.join(place, "x"), exist_ok=True)
    w.redis.cmd("CONFIG", "SET", "save", "3600 1", "dbfilename", "no.rdb")

    def tried(result):
        w.redis.cmd("BGSAVE")
        return lambda: (w.redis.info("rdb_bgsave_in_progress") == "0"
                        and w.redis.info("rdb_last_bgsave_status") == result)
    until(tried("err"))
    seen = refused(w, "MISCONF")
    yield 1
    w.redis.cmd("CONFIG", "SET", "dbfilename", "yes.rdb")
    until(tried("ok"))
    w.redis.cmd("CONFIG", "SET", "save", "")
    return seen


@nemesis("redis-sleeps", "DEBUG SLEEP 0.8", "it wakes up")
def _(w):
    with w.redis.conn() as c:
        c.ask("DEBUG", "SLEEP", "0.8")
        yield 0.8
        return c.read() == "OK"


@nemesis("redis-busy", "a script that does not end: -BUSY", "SCRIPT KILL")
def _(w):
    w.redis.cmd("CONFIG", "SET", "busy-reply-threshold", "50")
    with w.redis.conn() as c:
        c.ask("EVAL", "while true do end", "0")
        until(lambda: refused(w, "BUSY"))
        yield 0.6
        killed = w.redis.cmd("SCRIPT", "KILL")
        c.read()
    return killed == "OK"


@nemesis("redis-paused", "CLIENT PAUSE of writes, then of all", "UNPAUSE")
def _(w):
    with w.redis.conn() as c:
        w.redis.cmd("CLIENT", "PAUSE", "60000", "WRITE")
        c.ask("SET", "rlock:chaos", "1")
        yield 0.6
        seen = c.quiet()
        w.redis.cmd("CLIENT", "UNPAUSE")
        c.read()
        w.redis.cmd("CLIENT", "PAUSE", "600", "ALL")
        c.ask("PING")
        yield 0.3
        seen += c.quiet()
        yield 0.3
        c.read()
        w.redis.cmd("CLIENT", "UNPAUSE")
    return seen == 2


# --- the connection, by the proxy

def faulty(w, route, way, fault, number, seconds):
    """A fault of a route, and whether the proxy has counted it."""
    before = w.proxy.stats(route)[fault]
    w.proxy.say("set", route, way, fault, number)
    yield seconds
    seen = w.proxy.stats(route)[fault] - before
    w.proxy.say("set", route, way, fault, 0)
    return seen


WAYS = (  # fault, direction, amount, duration, description
    ("delay", "both", 40, 1.0, "each byte takes 40 ms"),
    ("jitter", "both", 120, 1.0, "each byte takes up to 120 ms"),
    ("slice", "both", 1, 1.0, "one byte at a time"),
    ("cut", "up", 333, 1.0, "reset when 333 bytes have gone to it"),
    ("cut", "down", 77, 1.0, "reset when 77 bytes have come back"),
    ("swallow", "down", 1, 1.0, "an answer is lost, and the connection with it"),
    ("hole", "up", 1, 1.2, "what goes to it does not arrive, until the hole is closed"),
    ("hole", "down", 1, 1.2, "what comes back does not"),
    ("hole", "both", 1, LEASE * 1.4, "neither does, for 1.4 leases"),
    ("bandwidth", "both", 3000, 1.0, "3000 bytes a second"),
)


def way_rows():
    for fault, way, number, seconds, text in WAYS:
        def to_redis(w, fault=fault, way=way, number=number, seconds=seconds):
            tags = w.rng.choice(("A", "B", "AB"))
            parts = [faulty(w, "vip-" + t, way, fault, number, seconds) for t in tags]
            return (yield from together(parts))

        def to_client(w, fault=fault, way=way, number=number, seconds=seconds):
            for t in "AB":
                w.flaky(t + "/p", True)
            seen = yield from together([faulty(w, r, way, fault, number, seconds) for r in ("via-A", "tcp-B")])
            yield 0.3  # the clients of cut connections have noticed by then
            for t in "AB":
                w.flaky(t + "/p", False)
            return seen
        suffix = fault if way == "both" else "%s-%s" % (fault, way)
        nemesis("redis-way-" + suffix, "daemon to Redis: " + text, "no fault")(to_redis)
        nemesis("client-way-" + suffix, "client to daemon: " + text, "no fault")(to_client)


def together(parts):
    """Runs generators side by side, in step; returns the sum of their results."""
    seen, wait = 0, 0
    while parts:
        wait, left = 0, []
        for p in parts:
            try:
                wait = max(wait, next(p))
                left.append(p)
            except StopIteration as end:
                seen += int(end.value or 0)
        parts = left
        if parts:
            yield wait
    return seen


way_rows()


@nemesis("redis-way-reset", "every connection to Redis is reset, five times", "nothing is to be healed")
def _(w):
    before = w.proxy.stats("vip-A")["resets"]
    for _ in range(5):
        for t in "AB":
            w.proxy.say("reset", "vip-" + t)
        yield 0.15
    return w.proxy.stats("vip-A")["resets"] - before


@nemesis("client-way-reset", "every connection of the clients behind the proxy is reset", "they connect again")
def _(w):
    before = w.proxy.stats("tcp-B")["resets"]
    for t, route in (("A", "via-A"), ("B", "tcp-B")):
        w.flaky(t + "/p", True)
        w.proxy.say("reset", route)
    yield 0.3
    for t in "AB":
        w.flaky(t + "/p", False)
    return w.proxy.stats("tcp-B")["resets"] - before


@nemesis("redis-way-refused", "Redis refuses connections, and those that are there are reset", "it takes them again")
def _(w):
    d = any_daemon(w)
    w.proxy.say("refuse", "vip-" + d.tag, 1)
    w.proxy.say("reset", "vip-" + d.tag)
    yield 1
    seen = w.proxy.stats("vip-" + d.tag)["refused"]
    w.proxy.say("refuse", "vip-" + d.tag, 0)
    return seen


# --- the network between some clients and their daemon (only where network namespaces are allowed)

def cable_cut(w, sides):
    """Packets are lost without an error, for longer than dead_peer, so that the daemon gives the peers up."""
    w.flaky("B/n", True)
    w.cable.cut(sides)
    yield 2.6
    seen = not w.cable.reaches(w.daemons["B"].listen)
    w.cable.mend(sides)
    yield 0.5
    w.flaky("B/n", False)
    return seen and w.cable.reaches(w.daemons["B"].listen)


for sides, word in (("there", "from clients to their daemon"), ("here", "from a daemon to its clients"),
                    ("both", "both ways")):
    @nemesis("net-hole-" + sides, "packets are lost " + word + ", for 1.3 times dead_peer", "none is lost", "net")
    def _(w, sides=sides):
        return (yield from cable_cut(w, ("here", "there") if sides == "both" else (sides,)))


# --- another Redis takes over (the daemons' address of Redis is the proxy's, which is redirected)

def turn(w):
    """The replica becomes the master: new connections go there, and those to the old one end."""
    w.redis, w.replica = w.replica, w.redis
    for t in "ABP":
        w.proxy.say("target", "vip-" + t, "unix:" + w.redis.path)
        w.proxy.say("reset", "vip-" + t)


def follow_again(w, start=False):
    """The old master follows the new one."""
    if start:
        w.replica.forget()
        w.replica.start()
    w.follow(w.replica, w.redis)


@nemesis("failover-clean", "FAILOVER: the master waits until its replica has everything", "the old one follows", "pair")
def _(w):
    replid = w.redis.info("master_replid")
    assert w.redis.cmd("FAILOVER", "TO", "127.0.0.1", str(w.replica.port), "TIMEOUT", "3000") in ("OK",)
    until(lambda: w.replica.info("role") == "master")
    turn(w)
    yield 0.5
    follow_again(w)
    return w.redis.info("master_replid") != replid


@nemesis("promotion", "REPLICAOF NO ONE on the replica while the master lives", "the old one follows", "pair",
         loses="grace")
def _(w):
    w.replica.cmd("REPLICAOF", "NO", "ONE")
    turn(w)
    yield 0.5
    promoted = w.redis.info("role") == "master"
    follow_again(w)
    return promoted


@nemesis("failover-lossy", "the replica receives nothing from the master, which dies: the last writes are lost",
         "the old one follows", "pair", loses="grace")
def _(w):
    w.follow(w.replica, w.redis, w.replication_port())
    w.proxy.say("set", "replication", "both", "hole", 1)
    yield 0.3
    written = int(w.redis.info("master_repl_offset"))
    w.redis.kill()
    w.proxy.say("reset", "replication")
    w.proxy.say("clear", "replication")
    had = int(w.replica.info("slave_repl_offset"))
    w.replica.cmd("REPLICAOF", "NO", "ONE")
    turn(w)
    yield 0.5
    follow_again(w, start=True)
    return written > had


def sentinels(w):
    """Three sentinels, which know the master."""
    out = []
    for _ in range(3):
        home = tempfile.mkdtemp(prefix="sentinel.", dir=w.dir)
        path, port = os.path.join(home, "s.sock"), free_port()
        conf = os.path.join(home, "s.conf")
        with open(conf, "w") as f:
            f.write("port %d\nbind 127.0.0.1\nunixsocket %s\ndir %s\nsentinel monitor m 127.0.0.1 %d 2\n"
                    "sentinel down-after-milliseconds m 300\nsentinel failover-timeout m 3000\n"
                    % (port, path, home, w.redis.port))
        s = Process(["redis-server", conf, "--sentinel"], home, "log")
        s.path = path
        w.parts.append(s)
        out.append(s)
    until(lambda: all(is_complete(s) for s in out))
    return out


def ask(path, *words):
    try:
        with Conn(path) as c:
            return c.cmd(*words)
    except (OSError, Closed):
        return None


def is_complete(s):
    """the sentinel knows the replica and the other sentinels"""
    reply = ask(s.path, "SENTINEL", "MASTER", "m")
    if not isinstance(reply, list):
        return False
    m = dict(zip(reply[::2], reply[1::2]))
    return m.get("num-slaves") == "1" and m.get("num-other-sentinels") == "2"


def switched(s, port):
    return lambda: (ask(s.path, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", "m") or [0, 0])[1] == str(port)


def sentinel_failover(w, harm):
    three = sentinels(w)
    try:
        harm(three)
        until(switched(three[0], w.replica.port), deadline=20)
        until(lambda: w.replica.info("role") == "master")
        turn(w)
        yield 0.5
    finally:
        for s in three:
            s.stop()
            w.parts.remove(s)


@nemesis("sentinel-kill", "kill -9 of the master; three sentinels promote the replica", "the old one follows", "pair",
         loses="grace")
def _(w):
    old = w.redis
    yield from sentinel_failover(w, lambda three: old.kill())
    follow_again(w, start=True)
    return w.redis is not old


@nemesis("sentinel-failover", "SENTINEL FAILOVER of a healthy master", "the old one follows", "pair", loses="grace")
def _(w):
    old = w.redis
    yield from sentinel_failover(w, lambda three: ask(three[0].path, "SENTINEL", "FAILOVER", "m"))
    follow_again(w)
    return w.redis is not old


# --- Redis's clock, by clock.so

def jump(w, seconds):
    before, began = int(w.redis.cmd("TIME")[0]), time.monotonic()
    w.set_clock(w.ahead + seconds)
    until(lambda: abs(int(w.redis.cmd("TIME")[0]) - before - (time.monotonic() - began)) > 3)
    yield 1
    return 1


@nemesis("clock-forward", "Redis's clock jumps 5 s ahead: keys expire", "nothing is to be healed", "clock",
         loses="always")
def _(w):
    return (yield from jump(w, 5))


@nemesis("clock-back", "Redis's clock jumps 5 s back: keys live longer", "a lease later the keys have gone", "clock")
def _(w):
    return (yield from jump(w, -5))


def compatible(group):
    """Whether these may be done at the same time: no two may kill, stop or redirect the same process."""
    def victim(n):
        for word in ("redis-way", "client-way", "net-hole", "daemon", "client"):
            if n.name.startswith(word):
                return word
        return "redis"
    victims = [victim(n) for n in group]
    return len(set(victims)) == len(victims)
