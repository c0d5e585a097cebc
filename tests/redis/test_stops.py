#!/usr/bin/env python3
"""P4 as clients see it: no grant arrives after a later grant of the name, wherever the process stood still.

A saturated daemon is stopped for longer than a lease, again and again: 24 stops of 0.45 s with a lease of 0.3 s (8
where clients read late, or grants wait behind another owner's LOCK), or RLOCKD_STOPS of 1.3 s with a lease of 1 s, of
each (60 take two minutes). Tokens show the order of grants: one thread reads all input of both daemons, that of the
stopped one first, so a smaller token after a larger one arrived too late.
"""
import heapq
import os
import random
import re
import selectors
import signal
import subprocess
import sys
import time

import harness
from harness import Case, state, until

LONG = "RLOCKD_STOPS" in os.environ
STOPS = int(os.environ.get("RLOCKD_STOPS", "24"))
FEW = STOPS if LONG else 8
STOP_S, LEASE = (1.3, "1s") if LONG else (0.45, "300ms")
NAMES = 48
GRANT = re.compile(rb"\*14\r\n.*?\$5\r\ntoken\r\n:(\d+)\r\n.*?\$8\r\nlease_ms\r\n:(\d+)\r\n"
                   rb"\$9\r\nwaited_ms\r\n:\d+\r\n", re.S)
NOISE_S = 0.1 if LONG else 0.25  # the delay between the write of a grant and its arrival, on a busy machine

NOISE = r"""
import select, socket, sys
socks = []
words = b"".join(b"LOCK noise:%d NOWAIT OWNER o%d\r\nUNLOCK noise:%d OWNER o%d\r\n" % (i, i, i, i) for i in range(64))
for _ in range(4):
    s = socket.socket(socket.AF_UNIX)
    s.connect(sys.argv[1])
    socks.append(s)
    s.sendall(words)
left = {s: 128 for s in socks}
while True:
    for s in select.select(socks, [], [])[0]:
        got = s.recv(1 << 20)
        if not got:
            sys.exit()
        left[s] -= got.count(b"\n")
        if left[s] <= 64:
            left[s] += 128
            s.sendall(words)
"""


class Watched:
    """One name at one daemon: a connection that locks it, holds it for a moment or not at all, and goes on."""

    reports = {"lock": "LOCK {0} LEASE %s FULL" % LEASE, "unlock": "UNLOCK {0}"}
    unread_until = 0  # it reads nothing before

    def __init__(self, daemon, name):
        self.daemon, self.name = daemon, name
        self.sock = daemon.conn().sock
        self.sock.setblocking(False)
        self.buf = b""
        self.until = 0  # it may believe to hold the lock until then
        self.asked = []  # requests without an answer

    def ask(self, *verbs):
        for verb in verbs:
            self.asked.append(verb)
            self.sock.send((self.reports[verb].format(self.name) + "\r\n").encode())

    def begin(self):
        self.ask("lock")

    def go_on(self):
        """Gives the lock back, after it was held for long enough."""
        self.ask("unlock", "lock")

    def has_lost_it(self):
        self.ask("lock")

    def gave_back(self, test):
        """Its UNLOCK was answered."""

    def answer(self):
        """The match of the first whole reply in the buffer; None: there is none."""
        return GRANT.match(self.buf) if self.buf[:1] == b"*" else re.match(rb"[-:$][^\n]*\r\n", self.buf)

    def answers(self):
        """(the request, the match of its reply) for each reply that has come; a grant's match has groups"""
        got = True
        while got:
            try:
                got = self.sock.recv(1 << 20)
            except BlockingIOError:
                break
            self.buf += got
        while self.buf:
            m = self.answer()
            if m is None:
                return
            self.buf = self.buf[m.end():]
            yield self.asked.pop(0), m


class LateReader(Watched):
    """
    Now and then it requests more data than its socket takes, and the lock behind that, and reads nothing for a while.
    So the grant is still in the daemon when the client begins to read, however long after the lease that is.
    """

    reports = dict(Watched.reports, docs="COMMAND DOCS")
    docs = None  # the reply to `docs`

    def rest(self):
        if random.random() < 0.2:
            self.ask(*["docs"] * (1 + 800000 // len(self.docs)))
            self.unread_until = time.monotonic() + random.uniform(0, 2 * STOP_S)

    def go_on(self):
        self.ask("unlock")
        self.has_lost_it()

    def has_lost_it(self):
        self.rest()
        self.ask("lock")

    def answer(self):
        if self.asked[0] != "docs":
            return super().answer()
        return re.compile(rb"[^\0]{%d}" % len(self.docs)).match(self.buf) if len(self.buf) >= len(self.docs) else None


class Behind(Watched):
    """Its grant waits behind a LOCK of another owner on the same connection, for a name that a third owner holds."""

    reports = {"lock": "LOCK {0} OWNER t2:{0} LEASE %s FULL" % LEASE, "unlock": "UNLOCK {0} OWNER t2:{0}",
            "wait": "LOCK busy:{0} OWNER t1:{0}", "leave": "UNLOCK busy:{0} OWNER t1:{0}"}

    def begin(self):
        self.ask("wait", "lock")

    def go_on(self):
        self.ask("unlock", "leave", "wait", "lock")

    def has_lost_it(self):
        self.ask("leave", "wait", "lock")


class Slow(Watched):
    """It pauses, so that the other daemon's owners get the lock, too."""

    def go_on(self):
        self.ask("unlock")

    def gave_back(self, test):
        test.later(random.uniform(0, STOP_S / 4), self, self.begin)


class InFront(Watched):
    """A holder for which another owner waits: for as long as a lease, sometimes longer."""

    reports = {"lock": "LOCK busy:{0}", "unlock": "UNLOCK busy:{0}"}


class Stops(Case):
    def setUp(self):
        super().setUp()
        self.r = self.redis()
        self.a = self.rlockd(redis=self.r.url, name="a", conf="limits: { output_bytes: 4MiB }\n")
        self.b = self.rlockd(redis=self.r.url, name="b")
        self.addCleanup(lambda: self.a.running() and self.a.signal(signal.SIGCONT))

    def noise(self):
        p = subprocess.Popen([sys.executable, "-c", NOISE, self.a.path], stdin=subprocess.DEVNULL,
                             preexec_fn=harness.die_with_us)
        self.addCleanup(p.wait)
        self.addCleanup(p.kill)

    def later(self, seconds, w, what):
        self.n += 1
        heapq.heappush(self.dues, (time.monotonic() + seconds, self.n, w, what))

    def receive(self, w, now):
        """Takes the replies that came since the last read; counts late grants and second holders."""
        if isinstance(w, InFront):
            for verb, _ in w.answers():
                if verb == "lock":
                    self.later(random.uniform(0, random.choice((0.5, 1.5)) * STOP_S), w, w.go_on)
            return
        other = self.watched[w.name][w.daemon is self.a]
        for verb, m in w.answers():
            if verb == "unlock":
                w.gave_back(self)
            if verb != "lock":
                continue
            if not m.re.groups:
                self.assertRegex(m.group(), b"^-LOST ")
                self.lost += 1
                w.has_lost_it()
                continue
            token, lease = int(m.group(1)), int(m.group(2)) / 1000
            self.grants += 1
            self.late += token < self.newest.get(w.name, 0)
            self.newest[w.name] = max(token, self.newest.get(w.name, 0))
            self.both += other.until > now + NOISE_S
            w.until = self.read_at + lease  # the grant came later than that, however late this process is
            self.later(random.uniform(0, 0.05) if random.random() < 0.2 else 0, w, w.go_on)

    def go_on(self, now):
        while self.dues and self.dues[0][0] <= now:
            _, _, w, what = heapq.heappop(self.dues)
            w.until = 0
            what()

    def listen(self, w):
        self.sel.register(w.sock, selectors.EVENT_READ, w)

    def rest(self, now):
        """Stops the connections that read nothing for a while."""
        for w in [key.data for key in self.sel.get_map().values() if key.data.unread_until > now]:
            self.sel.unregister(w.sock)
            self.later(w.unread_until - now, w, lambda w=w: self.listen(w))

    def run_until(self, end):
        while time.monotonic() < end:
            ready = [key.data for key, _ in self.sel.select(0.002)]
            now = time.monotonic()
            for w in sorted(ready, key=lambda w: w.daemon is self.b):  # the one of the stopped daemon comes first
                self.receive(w, now)
            self.read_at = now
            self.go_on(time.monotonic())
            self.rest(time.monotonic())

    def begin(self, kind):
        self.newest, self.dues, self.n, self.grants, self.late, self.both, self.lost = {}, [], 0, 0, 0, 0, 0
        self.read_at = time.monotonic()
        self.sel = selectors.DefaultSelector()
        self.addCleanup(self.sel.close)
        self.watched = {}
        self.noise()
        for i in range(NAMES):
            name = "n%d" % i
            pair = kind(self.a, name), (Slow if kind is Behind else Watched)(self.b, name)
            self.watched[name] = pair
            for w in (InFront(self.a, name), *pair) if kind is Behind else pair:
                self.listen(w)
                self.addCleanup(w.sock.close)
                w.begin()

    def stop_again_and_again(self, kind, count, least):
        self.begin(kind)
        stops = taken_back = 0
        # a stop need not come between a grant and its write
        while stops < count or (taken_back == 0 and stops < 3 * count):
            self.run_until(time.monotonic() + random.uniform(0.1, 0.3))
            self.a.signal(signal.SIGSTOP)
            until(lambda: state(self.a.pid) == "T")
            self.run_until(time.monotonic() + STOP_S)
            self.a.signal(signal.SIGCONT)
            stops += 1
            if stops >= count:
                self.run_until(time.monotonic() + 0.5)
                taken_back = int(re.search(r"^late_replies:(\d+)", self.a.cmd("INFO", "stats"), re.M).group(1))
        print("%s: %d stops, %d grants, %d late, %d with two holders, %d LOST, %d taken back before they left" %
              (kind.__name__, stops, self.grants, self.late, self.both, self.lost, taken_back), file=sys.stderr)
        self.assertEqual((self.late, self.both), (0, 0), "grants reported late; names with two holders")
        self.assertGreater(self.grants, least * count)
        self.assertGreater(taken_back, 0, "no stop came between a grant and its write")

    def test_a_saturated_daemon_is_stopped_for_longer_than_a_lease(self):
        self.stop_again_and_again(Watched, STOPS, 100)

    def test_readers_that_read_late(self):
        with self.conn(self.a) as c:
            c.send("COMMAND DOCS\r\nPING\r\n")
            while not c.buf.endswith(b"+PONG\r\n"):
                c.fill()
            LateReader.docs = c.buf[:-len(b"+PONG\r\n")]
        self.stop_again_and_again(LateReader, FEW, 20)

    def test_grants_behind_another_owners_waits(self):
        self.stop_again_and_again(Behind, FEW, 20)

    def granted_elsewhere(self, name):
        """An owner of the other daemon gets the lock, which proves that the lease of its holder here is over."""
        c = self.conn(self.b)
        return c.cmd("LOCK", name)

    def test_a_grant_behind_another_owners_wait(self):
        holder, c = self.conn(self.a), self.conn(self.a)
        holder.cmd("LOCK", "busy")
        c.ask("LOCK", "busy", "OWNER", "t1")
        c.ask("LOCK", "b", "OWNER", "t2", "LEASE", "300ms", "FULL")
        c.ask("LOCK", "c", "OWNER", "t3", "FULL")
        until(lambda: [l["state"] for l in holder.maps("LOCKS", "[bc]")] == ["held", "held"])
        self.granted_elsewhere("b")
        holder.cmd("UNLOCK", "busy")
        self.assertIsInstance(c.read(), int)
        self.assertRegex(c.read(), "^LOST ")
        self.assertEqual(harness.as_map(c.read())["name"], "c")

    def test_a_grant_that_its_client_reads_late(self):
        c = self.conn(self.a)
        c.send("COMMAND DOCS\r\n")
        bytes_n = len(repr(c.read()))
        docs = 1000000 // bytes_n  # more than a socket takes, and less than the limit at which the daemon stops reading
        for _ in range(docs):
            c.ask("COMMAND", "DOCS")
        # replies of that size are written in several turns before the daemon reads this request
        c.ask("LOCK", "b", "LEASE", "2s")
        until(lambda: [l["state"] for l in self.conn(self.a).maps("LOCKS", "b")] == ["held"])
        self.granted_elsewhere("b")
        for _ in range(docs):
            c.read()
        self.assertRegex(c.read(), "^LOST ")


if __name__ == "__main__":
    harness.main()
