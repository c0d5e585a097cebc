"""Many records that end at once: sessions with very many locks, leases, readers of one name."""
import resource
import signal
import time

from hostile import DEADLINE, SLOW, Scene, pipeline, send_all, until

TOGETHER = 60  # names of one MLOCK


def fill(conn, prefix, n, words="LEASE 1m"):
    """Takes n names; reads a line of the reply for each, and one for each MLOCK."""
    lines = []
    for i in range(0, n, TOGETHER):
        names = ["%s%d" % (prefix, k) for k in range(i, min(i + TOGETHER, n))]
        lines.append("MLOCK %d %s %s" % (len(names), " ".join(names), words))
    errors = pipeline(conn, lines, replies=n + len(lines))
    if errors:
        raise AssertionError("%d MLOCKs were refused" % errors)


def stat(conn, name):
    for line in conn.cmd("INFO", "stats").splitlines():
        if line.startswith(name + ":"):
            return int(line.split(":")[1])
    raise AssertionError("no %s" % name)


def wait_for(conn, name, least):
    """The time, in ms, until the field is at least `least`."""
    began = time.monotonic()
    while stat(conn, name) < least:
        if time.monotonic() > began + DEADLINE * SLOW:
            raise AssertionError("%s is %d, not %d" % (name, stat(conn, name), least))
        time.sleep(0.02)
    return (time.monotonic() - began) * 1000


class SessionsEnd(Scene):
    "two sessions with 100,000 locks end"
    conf = {"limits": {"waiters": 400000, "session_waiters": 100000}}

    def prepare(self):
        self.admin = self.connect()
        self.ends = [self.connect() for _ in range(2)]
        for i, c in enumerate(self.ends):
            fill(c, "end%d:" % i, 50000)

    def attack(self):
        for c in self.ends:
            c.close()
        return "%d ms until all were free" % wait_for(self.admin, "releases", 100000)


class LeasesEnd(Scene):
    "up to 60,000 leases run out at one moment"
    conf = {"limits": {"waiters": 400000, "session_waiters": 100000}}

    def prepare(self):
        self.admin, self.owner, self.n = self.connect(), self.connect(), 0
        end = time.monotonic() + 6
        while self.n < 60000 and end - time.monotonic() > 1:
            left_ms = (end - time.monotonic()) * 1000  # the reported deadline is 1 % and 2 ms earlier
            fill(self.owner, "lease%d:" % self.n, 2000, "LEASE %dms" % (left_ms / 0.99 + 2))
            self.n += 2000

    def attack(self):
        return "%d, %d ms until all were lost" % (self.n, wait_for(self.admin, "lost", self.n))


class ReadersBroken(Scene):
    "BREAK of a name with 120,000 readers"
    conf = {"rules": [{"match": "doc", "kind": "rw"}]}

    def prepare(self):
        self.admin, self.readers = self.connect(), [self.connect() for _ in range(100)]
        for i, c in enumerate(self.readers):
            if pipeline(c, ["LOCK doc SHARED LEASE 1m OWNER r%d:%d" % (i, k) for k in range(1200)]):
                raise AssertionError("a reader was refused")

    def attack(self):
        assert self.admin.cmd("BREAK", "doc") == 1
        return "%d ms until all had lost it" % wait_for(self.admin, "lost", 120000)


class WaitsOfFew(Scene):
    "four connections wait for as many names as they can, then end"
    conf = {"limits": {"waiters": 40000, "session_waiters": 20000}, "deadlock_delay": 0}

    def prepare(self):
        self.holder = self.connect()
        fill(self.holder, "w", TOGETHER)
        self.few = [self.connect() for _ in range(4)]

    def attack(self):
        names = " ".join("w%d" % i for i in range(TOGETHER))
        for i, c in enumerate(self.few):
            send_all(c, b"".join(b"MLOCK %d %s OWNER %d:%d\r\n" % (TOGETHER, names.encode(), i, k)
                                 for k in range(1000)))
        with self.connect() as other:  # an owner without a place gets one, and a request that needs none is not refused
            assert other.cmd("LOCK", "other", "NOWAIT") > 0
            assert other.cmd("LOCK", "w0", "WAIT", "10ms") is None
        for c in self.few:
            c.close()
        time.sleep(0.5)


class Reloads(Scene):
    "10,000 connections by TCP, and HUP again and again with another dead_peer each time"
    conf = {"limits": {"sessions": 20000}}
    ping_ms = 25

    def prepare(self):
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.many = [self.connect(tcp=True) for _ in range(min(10000, hard - 1000))]

    def attack(self):
        for i in range(10):
            self.daemon.write_conf("dead_peer: %ds\n" % (20 + i) + self.text_of_conf())
            self.daemon.signal(signal.SIGHUP)
            time.sleep(0.1)
        until(lambda: self.daemon.log().count("conf reloaded") == 10)
        return "%d connections" % len(self.many)
