"""world.py -- one private Redis, two private rlockds with the rules of every library, and the drivers of the libraries.

A driver is a small program in the library's own language with lines on stdin and stdout (README.md). Times are taken
here, when a line is sent and when its answer arrives, so all drivers are measured by the same clock.
"""
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "redis"))
os.environ.setdefault("RLOCKD_BUILD", os.path.join(os.path.dirname(os.path.dirname(HERE)), "build"))

import harness  # noqa: E402
from clusters import Cluster, slot_of  # noqa: E402
from harness import Closed, Redis, Rlockd, RError, until  # noqa: E402,F401
from quorums import Masters  # noqa: E402
from sentinels import NAME, Deployment  # noqa: E402

PATIENCE = 15 * harness.SLOW  # seconds; no wait here is longer unless a comment gives the reason
LEASE = 2000  # ms, where a test waits for the end of a lease

# The rules that README.md and the sample configuration advise for each library. {more} is the option for locks that
# publish no messages; each name below belongs to one row of the matrix.
RULES = [
    'match: "fair/*", kind: fair',
    'match: "rw/*", kind: rw',
    'match: "sem/*", kind: semaphore, limit: 2',
    'match: "load/made", kind: semaphore, limit: 5',
    'match: "fenced/*", kind: fenced',
    'match: "redis-py/*", kind: simple, value: hex32{more}',
    'match: "redlock/*", kind: simple, value: hex32{more}',
    'match: "warlock/*", kind: simple, key: "{name}:lock", value: base64-uuid{more}',
    'match: "redsync/*", kind: simple, value: base64-uuid{more}',
    'match: "redislock/*", kind: simple, value: base64-url{more}',
    'match: "spring/*", kind: simple, value: uuid{more}',
    'match: "spring-ps/*", kind: simple, value: uuid{more}{spring}',
    'match: "prl/*", kind: simple, key: "lock:{name}"{more}{prl}',
    'match: "spin/*", kind: reentrant{more}',
    'match: "front/*", kind: simple, value: hex32',
    'match: "patient/rlock/*", kind: reentrant{wait}',
    'match: "patient/simple/*", kind: simple{wait}',
]


class Skip(Exception):
    """This cell cannot run here; has the reason."""


class Refused(Exception):
    """A driver's library threw an error."""


def is_supported(rule):
    """Whether this rlockd accepts such a rule."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
        f.write("rules:\n  - { %s }\n" % rule)
        f.flush()
        words = [os.path.join(harness.BUILD, "rlockd"), "-t", "-c", f.name]
        return subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def configuration(extra="", rules=tuple(RULES)):
    """The YAML of both daemons, without keys that this rlockd does not have yet."""
    more = ", tracking: true" if is_supported('match: "x", tracking: true') else ""
    wait = ", foreign: wait" if is_supported('match: "x", foreign: wait') else ""
    parts = {"{more}": more, "{wait}": wait}
    for part, library in (("{spring}", "spring"), ("{prl}", "python-redis-lock")):
        parts[part] = ", wakes: " + library if is_supported('match: "x", wakes: ' + library) else ""
    lines = []
    for rule in rules:
        for part, text in parts.items():
            rule = rule.replace(part, text)
        lines.append(rule)
    return extra + "rules:\n" + "".join("  - { %s }\n" % r for r in lines)


class Pending:
    """One request on its way: its answer, the times of the request and of the answer."""

    def __init__(self):
        self.sent = time.monotonic()
        self.at = None
        self.words = None
        self.came = threading.Event()

    def done(self):
        return self.came.is_set()

    def wait(self, deadline=PATIENCE):
        """The value of `ok` as text, None for `no`; Refused for `err`."""
        if not self.came.wait(deadline):
            raise AssertionError("no answer from the driver in %.0f s" % deadline)
        if self.words[0] == "err":
            raise Refused(" ".join(self.words[1:]))
        return " ".join(self.words[1:]) if self.words[0] == "ok" else None


class Driver:
    """A running driver. Its standard error goes to a log."""

    def __init__(self, words, directory, name, env=None):
        self.log_path = os.path.join(directory, name + ".log")
        self.log_file = open(self.log_path, "ab")
        self.proc = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log_file,
                                     env=dict(os.environ, **(env or {})), preexec_fn=harness.die_with_us, cwd=directory)
        self.pid = self.proc.pid
        self.number = 0
        self.pending = {}
        self.notices = queue.Queue()  # lines that are no answer: subscribed, event
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        self.received("ready", 60 * harness.SLOW)

    def _read(self):
        for raw in self.proc.stdout:
            at = time.monotonic()
            words = raw.decode(errors="replace").rstrip("\n").split(" ")
            waiting = self.pending.pop(words[0], None)
            if waiting is None:
                self.notices.put(words)
                continue
            waiting.at, waiting.words = at, words[1:]
            waiting.came.set()
        for waiting in list(self.pending.values()):  # it has ended
            waiting.at, waiting.words = time.monotonic(), ["err", "the driver has ended"]
            waiting.came.set()
        self.notices.put(["end"])

    def received(self, first, deadline=PATIENCE):
        """The next line that is no answer and begins so; drops others before it."""
        end = time.monotonic() + deadline
        while True:
            try:
                words = self.notices.get(timeout=max(0.001, end - time.monotonic()))
            except queue.Empty:
                raise AssertionError("the driver did not say %s in %.0f s: %s" % (first, deadline, self.last_words()))
            if words[0] == first:
                return words[1:]
            if words[0] == "end":
                raise AssertionError("the driver has ended: %s" % self.last_words())

    def last_words(self):
        with open(self.log_path, errors="replace") as f:
            return " | ".join(f.read().strip().split("\n")[-3:])[-300:]

    def send(self, thread, verb, *words):
        self.number += 1
        p = Pending()
        self.pending[str(self.number)] = p
        line = " ".join([str(self.number), thread, verb, *map(str, words)]) + "\n"
        p.sent = time.monotonic()
        try:
            self.proc.stdin.write(line.encode())
            self.proc.stdin.flush()
        except BrokenPipeError:
            raise AssertionError("the driver has ended: %s" % self.last_words())
        return p

    def ask(self, thread, verb, *words):
        return self.send(thread, verb, *words).wait()

    def kill(self):
        """kill -9."""
        self.proc.send_signal(signal.SIGKILL)
        self.proc.wait()

    def stop(self):
        if self.proc.poll() is None:
            try:
                self.proc.stdin.close()
                self.proc.wait(2)
            except (subprocess.TimeoutExpired, BrokenPipeError):
                self.kill()
        self.reader.join(5)
        self.proc.stdout.close()
        self.log_file.close()


class Wait:
    """A LOCK of ours under way on a connection of its own; at: when its answer arrived."""

    def __init__(self, conn, words):
        self.conn, self.reply, self.at, self.error = conn, None, None, None
        self.sent = time.monotonic()
        conn.ask(*words)
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        try:
            self.reply = self.conn.read()
        except (Closed, OSError) as e:
            self.error = e
        self.at = time.monotonic()

    def done(self):
        return self.at is not None

    def result(self, deadline=PATIENCE):
        self.thread.join(deadline)
        if not self.done():
            raise AssertionError("our LOCK was not answered in %.0f s" % deadline)
        if self.error:
            raise AssertionError("our connection ended: %r" % self.error)
        return self.reply


class World:
    """Redis on a port and a socket, daemons a and b. As a context it ends all its processes, newest first."""

    def __init__(self, extra="", daemons=("a", "b")):
        self.extra, self.names = extra, daemons
        self.dir, self.kept, self.serial, self.numbers = None, [], 0, 0

    def serve(self):
        """Starts Redis; `redis` is the server, `url` the address for a daemon, `place` the address for a driver."""
        self.redis = self.keep(Redis(self.dir, tcp=True, args=("--enable-debug-command", "no")))
        self.url, self.place = self.redis.url, str(self.redis.port)

    def __enter__(self):
        self.dir = tempfile.mkdtemp(prefix="rlockd-interop.")
        try:
            self.serve()
            for name in self.names:
                setattr(self, name, self.daemon(name))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        while self.kept:
            thing = self.kept.pop()
            thing.stop() if hasattr(thing, "stop") else thing.close()
        shutil.rmtree(self.dir, True)

    def keep(self, thing):
        self.kept.append(thing)
        return thing

    def mark(self):
        """The present number of kept processes; release(mark) ends those that came after it."""
        return len(self.kept)

    def release(self, mark):
        while len(self.kept) > mark:
            thing = self.kept.pop()
            thing.stop() if hasattr(thing, "stop") else thing.close()

    def rules(self, extra):
        return configuration(extra)

    def daemon(self, name, extra=None):
        conf = self.rules(self.extra if extra is None else extra)
        return self.keep(Rlockd(self.dir, redis=self.url, name=name, conf=conf, tcp=True))

    def number(self):
        """An unused number for names."""
        self.numbers += 1
        return self.numbers

    def conn(self, daemon=None):
        c = self.keep((daemon or self.a).conn())
        c.sock.settimeout(None)  # bounded by the join of the reading thread
        return c

    def driver(self, words, env=None):
        self.serial += 1
        return self.keep(Driver(words, self.dir, "driver%d" % self.serial, env))

    def wait(self, daemon, *words):
        return Wait(self.conn(daemon), words)

    def ask(self, daemon, *words):
        with daemon.conn() as c:
            return c.cmd(*words)

    def info(self, name, daemon=None):
        """LOCKINFO as a dict, or {}."""
        with (daemon or self.a).conn() as c:
            reply = c.cmd("LOCKINFO", name)
            return {} if reply is None else harness.as_map(reply)

    def waits(self, daemon, name, n=1):
        """Waits until n requests of that daemon wait for the name."""
        def shown():
            """our LOCK waits"""
            with daemon.conn() as c:
                return [w for w in c.maps("LOCKS", name) if w["waiters"] >= n]
        return until(shown, PATIENCE)


class Watched(World):
    """The same with a master, two replicas and three sentinels; `redis` is the present master."""

    _keep = World.keep

    def serve(self):
        self.deployment = Deployment(self, bounded=False)
        self.url = self.deployment.url()
        self.place = "sentinel:%s/%s" % (",".join(str(s.port) for s in self.deployment.sentinels), NAME)

    @property
    def redis(self):
        return until(self.deployment.master, PATIENCE)

    def switch(self):
        """
        A failover by an operator; returns when all sentinels and both daemons use the new master, and the former master
        follows it (sentinels make it follow after ten seconds).
        """
        before = self.redis
        until(lambda: self.deployment.sentinels[0].cmd("SENTINEL", "FAILOVER", NAME) == "OK", PATIENCE)

        def moved():
            """sentinels and daemons use another master"""
            now = self.deployment.master()
            return now is not None and now is not before and all(
                d.info("redis")["redis_node0"].split(",")[1] == "address=" + now.addr for d in (self.a, self.b))
        until(moved, 4 * PATIENCE)
        now = self.redis
        before.cmd("REPLICAOF", now.host, str(now.port))
        until(lambda: before.info("master_link_status") == "up", PATIENCE)


class Slots:
    """Sends the commands of a cell to the master of the key's slot; sharded: channels, too."""

    def __init__(self, cluster, sharded=True):
        self.cluster, self.sharded = cluster, sharded

    def conn(self):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def cmd(self, *words):
        masters = [n for n in self.cluster.nodes if n.is_master()]
        if words[0] == "KEYS":
            return sum((m.cmd(*words) for m in masters), [])
        if words[0] == "PUBSUB":  # a replica has subscribers, too
            words = ("PUBSUB", ("SHARD" if self.sharded else "") + words[1], *words[2:])
            return sum((n.cmd(*words) for n in self.cluster.nodes), [])
        if words[0] == "PUBLISH" and self.sharded:
            words = ("SPUBLISH", *words[1:])
        return self.cluster.cmd(words[1], *words)


class Clustered(World):
    """The same with a cluster of three masters, and a replica of each; `redis` is the owner of the key."""

    _keep = World.keep

    def serve(self):
        # A busy machine must not look like a dead node; only cells cause failovers.
        self.cluster = Cluster(self.dir, self.keep, args=("--cluster-node-timeout", "10000"))
        self.redis, self.url = Slots(self.cluster), self.cluster.url()
        self.place = self.url.replace("127.0.0.1:", "")

    def rules(self, extra):
        return configuration(extra, [rule for rule in RULES if "{spring}" not in rule and "{prl}" not in rule])

    def owner(self, key):
        return self.cluster.owner(slot_of(key))

    def move(self, key):
        """Moves the slot of the key to another master, key by key."""
        before = self.owner(key)
        self.cluster.move(slot_of(key), next(n for n in self.cluster.masters_now() if n.id != before.id))

    def fail_over(self, key):
        """A failover by an operator: the replica of the key's master takes over, and all nodes know that at the end."""
        self.cluster.fail_over(self.owner(key))


class ClusteredPlain(Clustered):
    """
    The same for a library without sharded channels: our unlocks reach it by `redis.publish: both` (an option of
    `extra`), and its own unlocks reach us by tracking.
    """

    def serve(self):
        super().serve()
        self.redis = Slots(self.cluster, sharded=False)

    def rules(self, extra):
        return configuration(extra, ['match: "rlock/*", tracking: true', 'match: "fair/*", kind: fair, tracking: true',
                                     'match: "rw/*", kind: rw, tracking: true',
                                     'match: "sem/*", kind: semaphore, limit: 2, tracking: true'])


class OverThree(World):
    """The same over three independent masters; `redis` is all of them."""

    _keep = World.keep

    def serve(self):
        ports = [harness.free_port() for _ in range(3)]
        self.redis = Masters(self, place=lambda i: {"args": ("--port", str(ports[i]))})
        self.url, self.place = self.redis.url(), ",".join(map(str, ports))

    def rules(self, extra):
        return configuration(extra, [rule for rule in RULES if re.match('match: "(redlock|redsync)/', rule)])


def granted(reply):
    """The token of a grant; any other reply is a failure."""
    if isinstance(reply, int) and not isinstance(reply, bool) and reply > 0:
        return reply
    raise AssertionError("no grant but %r" % (reply,))


def refused(reply, prefix):
    if not (isinstance(reply, RError) and re.match(prefix, reply)):
        raise AssertionError("%s expected, got %r" % (prefix, reply))


def check(truth, text, *what):
    if not truth:
        raise AssertionError(text % what if what else text)


def after(moment, seconds):
    """Sleeps until that time after a moment: for an event that must not have come yet."""
    left = moment + seconds - time.monotonic()
    if left > 0:
        time.sleep(left)
