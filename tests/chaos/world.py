"""world.py -- a small world to be harmed: Redis (with a replica, if requested), two daemons, many clients, a proxy
between each of them, and the history of all clients.

    client -> [via-A] -> rlockd A -> [vip-A] -> Redis          [..] are routes of the fault proxy
    client -> [tcp-B] -> rlockd B -> [vip-B] -> Redis          (other clients talk to the daemons directly)

All files are in one directory; this file starts every process and ends it by its pid.
"""
import glob
import os
import random
import re
import shutil
import signal
import socket
import struct
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "redis"))
import harness  # noqa: E402
from harness import Closed, Conn, Process, free_port, until, within  # noqa: E402

import netns  # noqa: E402
import rlcheck  # noqa: E402

LEASE = 1.5  # seconds; short, so that a run is short, too
PROGRAMS = os.path.join(harness.TOP, "build", "test", "tests", "chaos")  # the daemon may be of another build
CONF = """
redis: { timeout: 300ms, connect_timeout: 300ms, backoff_min: 10ms, backoff_max: 200ms }
locks: { lease: %dms, owner_grace: 1s, place_grace: 1s }
max_poll: 1s
deadlock_delay: 1s
dead_peer: 2s
drain_timeout: 500ms
protected_mode: false
rules:
  - { match: "si:*", kind: simple }
  - { match: "co:*", kind: counter }
  - { match: "fa:*", kind: fair }
  - { match: "rw:*", kind: rw }
  - { match: "se:*", kind: semaphore, limit: 3 }
  - { match: "fe:*", kind: fenced }
  - { match: "li:*", linger: 300ms }
"""
NAMES = "re:0,re:1,li:0,si:0,co:0,fa:0,fe:0,rw:0,se:0"
HOT = ("re:hot", 3), ("si:hot", 2)  # names that go round all the time, and how many sessions want each at each daemon
PLAIN = "re:hot"
QUEUE = "redisson_lock_queue:{%s}"
FAULTS = ("delay", "jitter", "slice", "cut", "swallow", "hole", "bandwidth")


def now_us():
    return time.monotonic_ns() // 1000


def listens(path):
    """A process listens there. (By the kernel's table: a connection would disturb it.)"""
    with open("/proc/net/unix") as f:
        return any(line.endswith(" %s\n" % path) and line.split()[3] == "00010000" for line in f)


class Proxy(Process):
    def __init__(self, directory, name="proxy"):
        self.path = os.path.join(directory, name + ".ctl")
        super().__init__([os.path.join(PROGRAMS, "proxy"), "unix:" + self.path], directory, name)
        until(lambda: listens(self.path))
        self.control = socket.socket(socket.AF_UNIX)
        self.control.settimeout(harness.DEADLINE)
        self.control.connect(self.path)
        self.lines = self.control.makefile("r")

    def say(self, *words):
        """Sends one command; returns its answer without `ok`."""
        self.control.sendall((" ".join(map(str, words)) + "\n").encode())
        answer = self.lines.readline().split()
        if not answer or answer[0] != "ok":
            raise AssertionError("proxy: %s: %s" % (words, answer))
        return answer[1:]

    def stats(self, route):
        return {k: int(v) for k, v in (w.split("=") for w in self.say("stats", route))}

    def stop(self):
        self.lines.close()
        self.control.close()
        return super().stop()


class Server(Process):
    """A redis-server that can be killed and started again at the same place."""

    def __init__(self, directory, name, args=(), env=None):
        self.name, self.args, self.env = name, args, env
        self.home = os.path.join(directory, name)
        os.mkdir(self.home)
        self.path = os.path.join(self.home, "s.sock")
        self.port = free_port()
        self.start()

    def start(self, *more):
        Process.__init__(self, ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--unixsocket",
                                self.path, "--save", "", "--dir", self.home, "--enable-debug-command", "yes",
                                "--repl-diskless-sync-delay", "0", "--enable-protected-configs", "yes",
                                "--repl-ping-replica-period", "1", *self.args, *more],
                         self.home, "log", self.env)
        until(self.answers)

    def answers(self):
        """redis-server answers"""
        try:
            return self.cmd("PING") == "PONG"
        except (OSError, Closed):
            return False

    def forget(self):
        """Deletes its data on the disk."""
        shutil.rmtree(os.path.join(self.home, "appendonlydir"), ignore_errors=True)

    def conn(self, timeout=None):
        return Conn(self.path, timeout)

    def cmd(self, *words):
        with self.conn() as c:
            return c.cmd(*words)

    def info(self, key):
        found = re.search(r"^%s:([^\r]*)\r?$" % key, self.cmd("INFO", "everything"), re.M)
        return found.group(1) if found else None


class Daemon(harness.Rlockd):
    """An rlockd that can be killed and started again at the same place."""

    def __init__(self, world, tag, redis, under=()):
        self.world, self.tag, self.url, self.under = world, tag, redis, under
        self.listen = free_port()
        self.more = ()  # further addresses
        if tag == "B" and world.cable is not None:
            self.more = ("--listen", "tcp:%s:%d" % (world.cable.here, self.listen))
        self.lives = 0
        self.start()

    def start(self):
        super().__init__(self.world.dir, redis=self.url, name=self.tag, conf=self.world.conf(), under=self.under,
                         wait=False, args=("--listen", "tcp:127.0.0.1:%d" % self.listen, *self.more))
        self.lives += 1
        until(self.serving)

    def die(self, sig=signal.SIGKILL):
        """Ends this process; the history has that before it happens."""
        self.world.event("down", self.tag)
        self.signal(sig)
        self.wait()


class Client(Process):
    pass


class World:
    names = NAMES
    has_plain = True  # plain.py knows one Redis
    patience = None  # how long until() waits for hand-overs: its own default

    def __init__(self, title, seed=1, replica=False, clock=False, clients=8, lease=LEASE,
                 redis_args=("--appendonly", "yes"), options=()):
        self.title, self.lease, self.options = title, lease, list(options)
        self.rng = random.Random(seed)
        self.dir = tempfile.mkdtemp(prefix="rlockd-chaos.")
        self.parts = []
        self.bad = []
        self.repl_port, self.ahead, redis_env = None, 0, None
        self.clock = os.path.join(self.dir, "clock")
        if clock:
            self.set_clock(0)
            redis_env = {"LD_PRELOAD": os.path.join(PROGRAMS, "clock.so"), "RLOCKD_CLOCK": self.clock}
        self.clients, self.born = {}, 0
        self.plain, self.beside, self.handed, self.lingered = None, 0, {}, {}
        self.log = open(os.path.join(self.dir, "world.history"), "a", buffering=1)
        try:
            self.build(replica, clients, redis_env, redis_args)
        except BaseException:
            self.end()
            raise

    def build(self, replica, clients, redis_env, redis_args):
        keep = self.parts.append
        self.proxy = Proxy(self.dir)
        keep(self.proxy)
        self.redis = Server(self.dir, "r1", redis_args, redis_env)
        keep(self.redis)
        self.replica = None
        if replica:
            self.replica = Server(self.dir, "r2", redis_args, redis_env)
            keep(self.replica)
            self.follow(self.replica, self.redis)
        self.begin_resource()
        self.cable = netns.cable(self.dir)
        if self.cable is not None:
            keep(self.cable.process)
        self.daemons = {}
        for tag in "AB":
            vip = "unix:%s/vip-%s" % (self.dir, tag)
            self.proxy.say("route", "vip-" + tag, vip, "unix:" + self.redis.path)
            self.daemons[tag] = Daemon(self, tag, vip)
            keep(self.daemons[tag])
            until(self.daemons[tag].ready)
        self.proxy.say("route", "vip-P", "unix:%s/vip-P" % self.dir, "unix:" + self.redis.path)
        a, b = self.daemons["A"], self.daemons["B"]
        self.proxy.say("route", "via-A", "unix:%s/via-A" % self.dir, "unix:" + a.path)
        port = self.proxy.say("route", "tcp-B", "tcp:127.0.0.1:0", "tcp:127.0.0.1:%d" % b.listen)[0]
        self.routes = {"A": ("A", a.addr), "A/p": ("A", "unix:%s/via-A" % self.dir),
                       "B": ("B", b.addr), "B/p": ("B", "tcp:127.0.0.1:" + port)}
        self.event("limit", "se:0", "3")
        if self.cable is not None:
            self.routes["B/n"] = ("B", "tcp:%s:%d" % (self.cable.here, b.listen))
            for _ in range(clients // 5):
                self.client("B/n")
        self.mixed_clients(clients)

    def conf(self):
        """The configuration of the daemons."""
        return CONF % (self.lease * 1000)

    def begin_resource(self):
        self.resource = Process([os.path.join(PROGRAMS, "resource"), "unix:" + self.dir + "/resource"], self.dir,
                                "resource")
        self.parts.append(self.resource)
        until(lambda: listens(self.dir + "/resource"))

    def mixed_clients(self, n):
        """Starts n of them, over all routes."""
        routes = [r for r in ("A", "B", "A/p", "B/p") if r in self.routes]
        for i in range(n):
            self.client(routes[i % len(routes)],
                        *(("named=1",) if i % 8 == 4 else ("lease=1000",) if i % 8 == 5 else ()))

    def replication_port(self):
        """A port of the proxy that leads to the master: route `replication`."""
        target = "tcp:127.0.0.1:%d" % self.redis.port
        if self.repl_port is None:
            self.repl_port = int(self.proxy.say("route", "replication", "tcp:127.0.0.1:0", target)[0])
        self.proxy.say("target", "replication", target)
        return self.repl_port

    def set_clock(self, ahead_s):
        """Sets Redis's clock ahead by these seconds (only where it was started with clock.so)."""
        with open(self.clock, "r+b" if os.path.exists(self.clock) else "wb") as f:
            f.write(struct.pack("=q", ahead_s * 1000000))
        self.ahead = ahead_s

    @staticmethod
    def follow(replica, master, port=None):
        """Makes it a replica, and waits until it has all data."""
        replica.cmd("REPLICAOF", "127.0.0.1", str(port or master.port))

        def synced():
            """the replica has all data"""
            return replica.info("master_link_status") == "up"
        until(synced)

    # --- the history

    def event(self, *words):
        self.log.write("%d - %s\n" % (now_us(), " ".join(words)))

    def flaky(self, route, on):
        self.event("flaky" if on else "steady", route)

    # --- clients

    def client(self, route, *words):
        """Starts one more client over that route; returns its id."""
        name = "c%d" % self.born
        self.born += 1
        under = self.cable.under if route == "B/n" else ()
        c = Client([*under, os.path.join(PROGRAMS, "client"), "id=" + name, "tag=" + route,
                    "daemon=" + self.routes[route][1], "history=%s/%s.history" % (self.dir, name),
                    "resource=unix:%s/resource" % self.dir, "seed=%d" % self.rng.randrange(1 << 30),
                    "watchdog=%d" % (self.lease * 1000), "names=" + self.names,
                    *self.options, *words], self.dir, name)
        c.route, c.words = route, words
        self.clients[name] = c
        return name

    def listeners(self):
        """Starts the subscribers that log events into the history. No nemesis harms them."""
        for tag in "AB":
            name = self.client(tag, "mode=listen")
            self.parts.append(self.clients.pop(name))

    def fifo_clients(self):
        for tag in "AB":
            self.client(tag, "mode=fifo", "names=re:fifo-" + tag)
            self.client(tag, "mode=fifo", "names=fe:fifo-" + tag)

    def hot_clients(self):
        """Starts clients at each daemon that want the same name all the time, so that it is handed over there."""
        for tag in "AB":
            for name, many in HOT:
                for i in range(many):
                    by_proxy = i == 1 and tag + "/p" in self.routes
                    self.client(tag + "/p" * by_proxy, "mode=hot", "names=" + name)

    def plain_begins(self):
        """Starts a client of Redis that locks as Redisson does, beside the daemons and their hand-overs."""
        name = "p%d" % self.born
        self.born += 1
        self.plain = Process([sys.executable, os.path.join(HERE, "plain.py"), self.dir + "/vip-P", PLAIN, name,
                              "%s/%s.history" % (self.dir, name)], self.dir, name)

    def plain_ends(self):
        """Ends it before Redis loses data, since it ignores grace periods."""
        if self.plain is not None:
            self.plain.signal(signal.SIGTERM)
            if self.plain.wait() not in (0, -signal.SIGTERM):  # the latter: it had not begun yet
                self.bad.append("the plain client: %s" % self.plain.log()[-1000:])
            self.plain.log_file.close()
            self.plain = None

    def turns(self):
        """The waits of the plain client for its turns, in ms."""
        out = []
        for path in glob.glob(self.dir + "/p*.history"):
            with open(path) as f:
                out += [int(line.split()[4]) / 1000 for line in f if line.split()[2] == "turn"]
        return sorted(out)

    def handoffs(self):
        """The number of hand-overs of the daemons, in all of their processes."""
        for tag, d in self.daemons.items():
            stats = d.info("stats")
            self.handed[tag, d.lives] = int(stats["handoffs"])
            self.lingered[tag, d.lives] = int(stats["lingers"])
        return sum(self.handed.values())

    def until_in_runs(self):
        """Returns while locks are being handed over."""
        before = self.handoffs()

        def handed():
            """locks are handed over"""
            return self.handoffs() > before
        until(handed, self.patience)

    def at_work(self):
        """each client has been granted a lock, and the subscriptions of the listeners have arrived"""
        for path in ["%s/%s.history" % (self.dir, name) for name in self.clients] + glob.glob(self.dir + "/p*.history"):
            try:
                with open(path) as f:
                    if " OK token=" not in f.read():
                        return False
            except FileNotFoundError:
                return False
        return all(" sub=1 " in d.cmd("CLIENT", "LIST") for d in self.daemons.values())

    def kill_client(self, name):
        c = self.clients.pop(name)
        self.event("kill", name)
        c.signal(signal.SIGKILL)
        c.wait()
        c.log_file.close()
        return c

    # --- checks after any harm

    def lives(self, deadline=8):
        """
        All harms are healed: each daemon grants a free lock, within a lease and a little. Returns a reason, or None.
        """
        end = time.monotonic() + deadline * harness.SLOW
        for tag, d in self.daemons.items():
            if not d.running():
                return "daemon %s has ended with %s" % (tag, d.proc.returncode)
            reply = None

            def grants():
                nonlocal reply
                try:
                    with Conn(d.path, timeout=max(0.1, end - time.monotonic())) as c:
                        reply = c.cmd("LOCK", "probe:" + tag, "WAIT", "1s")
                except (OSError, Closed) as e:
                    reply = e
                return isinstance(reply, int)
            if not within(grants, (end - time.monotonic()) / harness.SLOW, pause=0.02):
                return "daemon %s grants nothing: %r" % (tag, reply)
        return None

    def leaks(self):
        """Ends the clients; a key that is there a lease later is a leak."""
        self.plain_ends()
        for c in self.clients.values():
            c.signal(signal.SIGCONT)
            c.signal(signal.SIGTERM)
        for name, c in self.clients.items():
            if c.wait() != 0:
                self.bad.append("client %s ended with %s: %s" % (name, c.proc.returncode, c.log()[-500:]))
            c.log_file.close()
        self.clients = {}
        self.an_owner_comes_by()
        left = []

        def clean():
            left[:] = self.left()
            return not left
        within(clean, self.lease + 6, pause=0.05)
        for what in left:
            self.event("left", what)

    def an_owner_comes_by(self):
        """A promoted replica may bring back places that were given up: the next owner drops those that are over."""
        if self.replica is not None:
            self.drop_places(self.redis.cmd("KEYS", QUEUE % "*"))

    def drop_places(self, queues):
        with self.daemons["A"].conn() as c:
            for key in queues:
                name = key[len(QUEUE % "") - 1:-1]
                token = c.cmd("LOCK", name, "WAIT", "10s")
                if not isinstance(token, int) or c.cmd("UNLOCK", name) != 0:
                    self.bad.append("%s is not free when all have gone: %s" % (name, token))

    def keys(self):
        """The keys in Redis."""
        return self.redis.cmd("KEYS", "*")

    def left(self):
        keys = [k for k in self.keys() if not k.startswith(rlcheck.HOUSE)]
        for tag, d in self.daemons.items():
            try:
                with d.conn() as c:
                    keys += ["%s/LOCKS/%s/%s" % (tag, m["name"], m["state"])
                             for m in c.maps("LOCKS") if m["state"] != "idle"]
                    keys += ["%s/WAITERS/%s" % (tag, m["name"]) for m in c.maps("WAITERS")]
            except (OSError, Closed) as e:
                keys.append("%s/%s" % (tag, type(e).__name__))
        return keys

    def numbers(self, names=None):
        """Lost updates, unfenced and fenced, and the number of refused writes, from the resource."""
        names = names or ",".join([self.names] + [name for name, _ in HOT])
        lost, writes, refused = {"plain": 0, "fenced": 0}, {"plain": 0, "fenced": 0}, 0
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(harness.DEADLINE)
            s.connect(self.dir + "/resource")
            lines = s.makefile("r")
            for name in names.split(","):
                for what in lost:
                    s.sendall(("stat %s/%s\n" % (name, what)).encode())
                    got = {k: int(v) for k, v in (w.split("=") for w in lines.readline().split()[1:])}
                    lost[what] += got["writes"] - got["value"]
                    writes[what] += got["writes"]
                    refused += got["refused"]
            lines.close()
        return lost, writes, refused

    def verdict(self, most_windows=1500):
        paths = [os.path.join(self.dir, f) for f in sorted(os.listdir(self.dir)) if f.endswith(".history")]
        self.log.flush()
        return rlcheck.check(rlcheck.read_files(paths), most_windows)

    def end(self, keep=False):
        plain = [self.plain] if self.plain is not None else []
        for c in plain + list(self.clients.values()) + self.parts[::-1]:
            try:
                c.signal(signal.SIGCONT)
                c.stop()
            except Exception as e:  # the others must end all the same
                self.bad.append("%s: %r" % (type(c).__name__, e))
        for d in getattr(self, "daemons", {}).values():
            if re.search(r"Assertion|AddressSanitizer|runtime error|LeakSanitizer", d.log()):
                self.bad.append("daemon %s: %s" % (d.tag, d.log()[-3000:]))
        self.log.close()
        if not keep:
            shutil.rmtree(self.dir, ignore_errors=True)
