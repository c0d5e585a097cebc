#!/usr/bin/env python3
"""100,000 random lock orders without a cycle give no -DEADLOCK; one daemon's verdicts are those of a reference search.

The orders: sessions of both daemons lock two or three of a few names, always in the order of the names, so that no
cycle is possible. The reference: sessions of one daemon lock and unlock at random; this program keeps holders and
waiters, searches before each wait whether it would close a cycle, and the daemon must give the same verdict.
"""
import random
import selectors
import socket
import time

import loadlib
from world import RError, check, granted, until

ORDERS, SESSIONS, NAMES, BATCH = 100000, 24, 16, 20  # sessions of each daemon; orders in one write
STEPS, REF_SESSIONS, REF_NAMES = 6000, 12, 9
SEED = 11
DEADLINE = 180


class Session:
    """A connection that sends whole orders and counts their answers."""

    def __init__(self, path, rng):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(path)
        self.rng, self.answers, self.tail = rng, 0, b""

    def send(self, orders):
        lines = []
        for _ in range(orders):
            names = sorted(self.rng.sample(range(NAMES), self.rng.choice((2, 3))))
            lines += ["LOCK order/%02d" % n for n in names] + ["UNLOCK order/%02d" % n for n in reversed(names)]
        self.answers = len(lines)
        self.sock.sendall(("\r\n".join(lines) + "\r\n").encode())

    def read(self):
        """Reads answers; True when the orders are done."""
        got = self.sock.recv(1 << 16)
        check(got, "the daemon closed the connection")
        lines = (self.tail + got).split(b"\r\n")
        self.tail = lines.pop()
        wrong = [line for line in lines if not line.startswith(b":")]
        check(not wrong, "an answer was no grant: %s", wrong[:1])
        self.answers -= len(lines)
        return self.answers == 0


def orders(world):
    """All orders, by sessions of both daemons. Returns the time that they took."""
    began, left = time.monotonic(), ORDERS
    box = selectors.DefaultSelector()
    sessions = [Session(d.path, random.Random(SEED + i)) for i in range(SESSIONS) for d in (world.a, world.b)]
    running = 0
    for s in sessions:
        box.register(s.sock, selectors.EVENT_READ, s)
        s.send(BATCH)
        left, running = left - BATCH, running + 1
    while running:
        ready = box.select(15)
        check(ready, "nothing moves with %d orders to go", left)
        check(time.monotonic() - began < DEADLINE, "not done in %d s: %d orders to go", DEADLINE, left)
        for key, _ in ready:
            if not key.data.read():
                continue
            n = min(left, BATCH)
            left -= n
            if n:
                key.data.send(n)
            else:
                running -= 1
    for s in sessions:
        s.sock.close()
    return time.monotonic() - began


class Reference:
    """Holders and waiters, and the verdicts that the daemon must give."""

    def __init__(self, world):
        self.world, self.conns = world, [world.conn(world.a) for _ in range(REF_SESSIONS)]
        for c in self.conns:
            c.sock.settimeout(15)
        self.holder, self.queue, self.waiting = {}, {}, {}
        self.reader = world.conn(world.a)
        self.cycles = self.waits = 0

    def closes(self, who, name):
        """
        Whether a wait for the name would close a cycle: each session waits for one name, and a name has one holder.
        """
        at = self.holder[name]
        while at != who and at in self.waiting:
            at = self.holder[self.waiting[at]]
        return at == who

    def lock(self, who, name):
        c = self.conns[who]
        c.ask("LOCK", name, "WAIT", "10m")
        if name not in self.holder:
            granted(c.read())
            self.holder[name] = who
        elif self.closes(who, name):
            reply = c.read()
            check(isinstance(reply, RError) and reply.startswith("DEADLOCK"), "a cycle was answered %r", reply)
            self.cycles += 1
        else:
            self.queue.setdefault(name, []).append(who)
            self.waiting[who] = name
            n = len(self.queue[name])
            until(lambda: self.reader.maps("LOCKS", name)[0]["waiters"] == n, 10, 0)
            check(c.quiet(), "a wait without a cycle was answered %r", c.buf)
            self.waits += 1

    def unlock(self, who, name):
        check(self.conns[who].cmd("UNLOCK", name) == 0, "UNLOCK")
        del self.holder[name]
        if self.queue.get(name):
            following = self.queue[name].pop(0)
            granted(self.conns[following].read())
            del self.waiting[following]
            self.holder[name] = following

    def step(self, rng):
        who = rng.choice([i for i in range(REF_SESSIONS) if i not in self.waiting])
        held = [n for n, h in self.holder.items() if h == who]
        free = [n for n in ("ref/%d" % i for i in range(REF_NAMES)) if n not in held]
        if held and (not free or rng.random() < 0.4):
            self.unlock(who, rng.choice(sorted(held)))
        else:
            self.lock(who, rng.choice(free))


def test(world):
    took = orders(world)
    print("%d orders in %.0f s without a report" % (ORDERS, took), flush=True)
    reference, rng = Reference(world), random.Random(SEED)
    for _ in range(STEPS):
        reference.step(rng)
    check(reference.cycles > 100 and reference.waits > 100, "too few cycles to be a test: %d", reference.cycles)
    return "%d orders in %.0f s without a report; %d cycles and %d waits classified as by the reference" % (
        ORDERS, took, reference.cycles, reference.waits)


if __name__ == "__main__":
    loadlib.run(test)
