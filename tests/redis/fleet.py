#!/usr/bin/env python3
"""fleet.py -- a fleet of daemons on one redis-server, as scripts/membership.lua sees it.

    fleet.py [DAEMONS...]      a table; default: 10 100 1000

Each daemon sends the registrations of membership.c, at the times at which a daemon would, and subscribes; it holds no
locks. The time of Redis is that of its main thread. With three dead daemons, leases are of 5 s.
"""
import hashlib
import heapq
import random
import selectors
import sys
import tempfile
import time

import harness
from scripted import MEMBERSHIP

SHA = hashlib.sha1(MEMBERSHIP.encode()).hexdigest()
KEYS = ["rlock:" + x for x in ("clock", "epoch", "members", "until", "changes", "left", "awaited")]
CHANNEL = "rlock:deadlock:0"
BEAT_MS, SOON_MS, SPREAD_MS, PAGE, PART = 2000, 50, 300, 256, 256  # as in epoch.h, membership.c
TIME, STATUS, NUMBER, UNTIL, WORD, VERSION, UPTO, ANEW, BRING, HEAD = range(10)


class Daemon:
    def __init__(self, i):
        self.uuid = "%08x-1c2d-4e3f-8a9b-726c6f636b64" % i
        self.nonce = "%016x" % (i + 1)
        self.known = self.reclaimed = self.since = self.cursor = self.of = self.whole = self.last = self.until = 0
        self.anew = self.unknown = False
        self.peers, self.old, self.sub, self.serial = {}, {}, None, 0

    def words(self, lease_ms, page=PAGE, part=None):
        whole = 0 if self.until or self.unknown else self.since
        return ["EVALSHA", SHA, len(KEYS), *KEYS, self.uuid, self.nonce, "0" * 16, self.known, self.reclaimed, lease_ms,
                BEAT_MS, 0, 0, 0, 0, CHANNEL, self.since, self.cursor, page, self.of or self.known,
                self.whole if self.of else whole, self.last, len(self.peers), int(self.unknown), lease_ms,
                max(self.until - self.known // 1000, 0) if self.until else "", *(part or [0])]

    def current(self):
        return self.since != 0 and self.cursor == self.since and not self.anew

    def take_answer(self, reply):
        """Takes the answer to a registration. True: the daemon is in another epoch than before."""
        if reply[STATUS] != 1:
            raise SystemExit("fleet: %s" % (reply,))
        new, over = reply[NUMBER] != self.known, self.until and not reply[UNTIL]
        if new:
            self.of, self.whole = self.known, 0 if self.until or self.unknown else self.since
            self.unknown = self.unknown or bool(self.until)
        if new or over or reply[UNTIL]:
            self.since = self.cursor = 0
        self.known, self.until = reply[NUMBER], reply[UNTIL]
        self.of = self.of if reply[BRING] else 0
        if not self.until:
            self.take(reply)
        return new

    def take(self, reply):
        complete = False
        if reply[UPTO] and (self.since or reply[ANEW]):
            if reply[ANEW]:
                self.old, self.peers, self.since, self.anew = self.peers, {}, reply[VERSION], True
            for change in reply[HEAD:]:
                member, lease, version = change.split()
                self.peers[member] = int(version)
                self.last = max(self.last, int(version))
                if lease == "-":
                    del self.peers[member]
            self.cursor = reply[UPTO]
            complete = self.cursor >= reply[VERSION]
            if complete:
                self.since, self.anew = self.cursor, False
        self.unknown = not complete and (self.unknown or not self.current())

    def spread_ms(self):
        return random.randint(0, min(len(self.peers), SPREAD_MS))


def encoded(words):
    words = [str(w).encode() for w in words]
    return b"*%d\r\n%s" % (len(words), b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))


class Answers:
    """The answers of a connection, read in order. (Conn.read() is for few and small answers.)"""
    def __init__(self, sock):
        self.sock, self.buf, self.at = sock, b"", 0

    def line(self):
        end = self.buf.find(b"\r\n", self.at)
        while end < 0:
            got = self.sock.recv(1 << 18)
            if not got:
                raise SystemExit("fleet: redis-server has gone")
            self.buf, self.at = self.buf[self.at:] + got, 0
            end = self.buf.find(b"\r\n")
        at, self.at = self.at, end + 2
        return self.buf[at:end].decode()

    def one(self):
        """One answer: an error, or an array of numbers and of texts without line ends."""
        head = self.line()
        if head[0] != "*":
            raise SystemExit("fleet: " + head)
        return [self.line() if kind[0] == "$" else int(kind[1:])
                for kind in (self.line() for _ in range(int(head[1:])))]


class Fleet:
    def __init__(self, n, directory, lease_ms=30000):
        self.r = harness.Redis(directory, args=("--maxclients", str(n + 100)))
        self.c = self.r.conn()
        self.c.cmd("SCRIPT", "LOAD", MEMBERSHIP)
        self.talk = self.r.conn()
        self.answers = Answers(self.talk.sock)
        self.daemons = [Daemon(i) for i in range(n)]
        self.lease_ms, self.due, self.calls = lease_ms, [], 0
        self.selector = selectors.DefaultSelector()

    def close(self):
        for d in self.daemons:
            if d.sub is not None:
                d.sub.close()
        self.c.close()
        self.talk.close()
        self.r.stop()

    # ---- which daemon sends a registration, and when ----

    def at(self, d, ms, what):
        """Schedules a registration of d, which replaces the one that was scheduled before."""
        d.serial += 1
        heapq.heappush(self.due, (time.monotonic() + ms / 1000, d.uuid, d.serial, d, what))

    def listen(self, d):
        d.sub = self.r.conn()
        d.sub.cmd("SUBSCRIBE", CHANNEL)
        d.sub.sock.setblocking(False)
        self.selector.register(d.sub.sock, selectors.EVENT_READ, d)

    def take_messages(self):
        """A daemon that is woken registers at once; a newcomer is learned from its broadcast alone."""
        for key, _ in self.selector.select(0):
            d = key.data
            try:
                d.sub.buf += d.sub.sock.recv(1 << 16)
            except BlockingIOError:
                continue
            *lines, d.sub.buf = d.sub.buf.split(b"\r\n")
            whole = len(lines) // 7 * 7
            for what in lines[6:whole:7]:
                if what == b"":
                    self.at(d, 0, "beat")
                    continue
                member, _, version = what[1:].decode().split()
                if int(version) > d.cursor and member != d.uuid:
                    d.peers[member] = int(version)
                    d.last = max(d.last, int(version))
            d.sub.buf = b"".join(line + b"\r\n" for line in lines[whole:]) + d.sub.buf

    def bring(self, d):
        uuids = list(d.peers)
        for at in range(0, len(uuids), PART):
            part = [2 if at + PART >= len(uuids) else 1, *uuids[at:at + PART]]
            self.talk.send(encoded(d.words(self.lease_ms, part=part)))
            d.take_answer(self.answers.one())
            self.calls += 1

    def answered(self, d, reply):
        """Schedules the next registration of d."""
        new = d.take_answer(reply)
        if d.sub is None:
            self.listen(d)
        if new:
            d.reclaimed = d.known
        if reply[BRING] == 2:
            self.bring(d)
        if d.until and new:
            self.at(d, d.spread_ms(), "report")
        elif reply[BRING] == 1:
            self.at(d, SOON_MS + d.spread_ms(), "ask again")
        elif not d.until and not d.current():
            self.at(d, d.spread_ms(), "ask for more")
        elif d.until:
            left_ms = max(d.until - reply[TIME] // 1000, 0)
            self.at(d, min(BEAT_MS, left_ms + 1 + d.spread_ms()), "beat")
        else:
            self.at(d, BEAT_MS, "beat")

    def register_due(self):
        """Sends the registrations that are due, in one write: else each answer would wake this process."""
        batch = []
        while self.due and self.due[0][0] <= time.monotonic() and len(batch) < 200:
            _, _, serial, d, _ = heapq.heappop(self.due)
            if serial == d.serial:
                batch.append(d)
        self.talk.send(b"".join(encoded(d.words(self.lease_ms)) for d in batch))
        for d, reply in [(d, self.answers.one()) for d in batch]:
            self.calls += 1
            self.answered(d, reply)

    def run(self, done, seconds=300):
        """Goes on until done() is true; returns the seconds that this took."""
        began = time.monotonic()
        while not done():
            if time.monotonic() - began > seconds:
                raise SystemExit("fleet: not done in %d s" % seconds)
            self.take_messages()
            self.register_due()
        return time.monotonic() - began

    # ---- the measurements ----

    def start(self):
        for d in self.daemons:
            self.at(d, 0, "greet")
        return self.run(lambda: all(d.current() for d in self.daemons))

    def beats(self, n=2000):
        """(us of Redis's processor, commands, bytes to Redis, bytes from Redis) for each beat."""
        def some(n):
            for i in range(n):
                d = self.daemons[i % len(self.daemons)]
                d.take_answer(self.c.cmd(*d.words(self.lease_ms)))
        some(len(self.daemons))
        self.c.cmd("CONFIG", "RESETSTAT")
        began_us = self.cpu_us()
        some(n)
        us = self.cpu_us() - began_us
        commands = sum(int(line.split("calls=")[1].split(",")[0])
                       for line in self.c.cmd("INFO", "commandstats").split("\r\n") if "calls=" in line)
        return us / n, commands / n, *(int(self.stat("stats", "total_net_%sput_bytes" % x)) / n for x in ("in", "out"))

    def cpu_us(self):
        return sum(float(self.stat("cpu", "used_cpu_%s_main_thread" % x)) for x in ("user", "sys")) * 1e6

    def stat(self, section, name):
        for line in self.c.cmd("INFO", section).split("\r\n"):
            if line.startswith(name + ":"):
                return line[len(name) + 1:]
        raise KeyError(name)

    def grace(self, dead=0):
        """A grace period: Redis is emptied, and the last `dead` daemons are not there any more."""
        gone = self.daemons[len(self.daemons) - dead:]
        for d in gone:
            d.serial += 1
            self.selector.unregister(d.sub.sock)
            d.sub.close()
        self.daemons = self.daemons[:len(self.daemons) - dead]
        self.calls = 0
        self.c.cmd("FLUSHALL")
        self.c.cmd("CONFIG", "RESETSTAT")
        self.at(self.daemons[0], 0, "beat")
        began = self.daemons[0].known
        return self.run(lambda: all(d.known != began and not d.until for d in self.daemons))


def measure(n):
    with tempfile.TemporaryDirectory(prefix="rlockd-fleet-") as directory:
        f = Fleet(n, directory)
        try:
            began_us = f.cpu_us()
            start_s = f.start()
            start_us, start_calls = f.cpu_us() - began_us, f.calls
            us, _, bytes_in, bytes_out = f.beats()
            began_us = f.cpu_us()
            all_s = f.grace()
            grace_us, grace_calls = f.cpu_us() - began_us, f.calls
            f.run(lambda: all(d.current() for d in f.daemons))
            f.lease_ms = 5000
            dead_s = f.grace(dead=3)
            return dict(n=n, start_s=start_s, start_us=start_us, start_calls=start_calls, us=us, bytes_in=bytes_in,
                        bytes_out=bytes_out, all_s=all_s, grace_us=grace_us, grace_calls=grace_calls, dead_s=dead_s)
        finally:
            f.close()


def main():
    print("| daemons | us of Redis a beat | part of a core | KB/s in | KB/s out | grace, all alive | of Redis in it |"
          " grace, 3 dead | start of all | of Redis in it |\n|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    for n in [int(a) for a in sys.argv[1:]] or [10, 100, 1000]:
        m = measure(n)
        rate = n * 1000 / BEAT_MS
        row = "| %d | %.0f | %.2f %% | %.1f | %.1f | %.2f s | %.2f s, %d calls | %.2f s | %.2f s | %.2f s, %d calls |"
        print(row % (
            n, m["us"], m["us"] * rate / 1e4, m["bytes_in"] * rate / 1e3, m["bytes_out"] * rate / 1e3, m["all_s"],
            m["grace_us"] / 1e6, m["grace_calls"], m["dead_s"], m["start_s"], m["start_us"] / 1e6, m["start_calls"]),
            flush=True)


if __name__ == "__main__":
    main()
