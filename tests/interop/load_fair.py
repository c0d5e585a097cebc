#!/usr/bin/env python3
"""10 threads of Redisson and 50 sessions of two rlockds on one fair lock: grants in the order of arrival, none lost.

Two ways: waiters that come one by one, each with its place in Redis's queue before the next, and are granted the lock
in exactly that order; then all of them in a loop, with Redis's MONITOR as the log: it has every entry of the queue and
every grant in the order in which Redis ran them.
"""
import collections
import random
import re
import threading

import loadlib
from world import Closed, check, granted, until

THREADS, SESSIONS = 10, 50
STAGED, ROUNDS = 3, 12  # rounds of each way
SEED = 3
DEADLINE = 100


def cycle(world, daemon, name, log, who, n):
    """N times: lock, append our name to the log, unlock."""
    with daemon.conn() as c, world.redis.conn() as r:
        c.sock.settimeout(DEADLINE)
        for _ in range(n):
            granted(c.cmd("LOCK", name, "WAIT", "5m"))
            r.cmd("RPUSH", log, who)
            check(c.cmd("UNLOCK", name) == 0, "UNLOCK")


def staged(world, driver, rng, number):
    """Waiters one by one; returns their number."""
    name, log = "fair/staged%d" % number, "log:staged%d" % number
    queue = "redisson_lock_queue:{%s}" % name
    names = ["it%d" % i for i in range(THREADS)] + ["we%d" % i for i in range(SESSIONS)]
    rng.shuffle(names)
    holder = world.conn(world.a)
    granted(holder.cmd("LOCK", name))
    workers, pending = [], []
    for place, who in enumerate(names):
        if who.startswith("it"):
            pending.append(driver.send(who, "cycle", name, log, who, 1))
        else:
            daemon = rng.choice([world.a, world.b])
            t = threading.Thread(target=cycle, args=(world, daemon, name, log, who, 1), daemon=True)
            t.start()
            workers.append(t)

        def queued():
            """a place in the queue"""
            return world.redis.cmd("LLEN", queue) == place + 1
        until(queued, 5)
    holder.cmd("UNLOCK", name)
    for t in workers:
        t.join(DEADLINE)
    for p in pending:
        check(p.wait(DEADLINE) == "1", "a thread of Redisson's was not granted")
    order = world.redis.cmd("LRANGE", log, "0", "-1")
    wrong = [i for i, (x, y) in enumerate(zip(order, names)) if x != y]
    check(len(order) == len(names), "%d of %d were granted", len(order), len(names))
    check(not wrong, "granted out of turn: the places %s; %s for %s", wrong[:5], order[:70], names)
    left = world.redis.cmd("KEYS", "*{%s}*" % name)
    check(not left, "left behind: %s", left)
    return len(order)


class Monitor(threading.Thread):
    """Keeps the lines of Redis's MONITOR."""

    def __init__(self, world):
        super().__init__(daemon=True)
        self.conn = world.keep(world.redis.conn())
        self.conn.sock.settimeout(None)
        check(self.conn.cmd("MONITOR") == "OK", "MONITOR")
        self.lines = []
        self.start()

    def run(self):
        try:
            while True:
                line = self.conn.read_line()
                if b'"end of the log"' in line:
                    return
                self.lines.append(line)
        except (Closed, OSError):
            pass


LINE = re.compile(rb'^\+[0-9.]+ \[0 [^\]]*\] (.*)$')
WORD = re.compile(rb'"((?:[^"\\]|\\.)*)"')


class Replay:
    """The queue and the holder of one fair lock, by Redis's own log of commands."""

    def __init__(self, name):
        self.key, self.list = name.encode(), b"redisson_lock_queue:{%s}" % name.encode()
        self.queue, self.popped, self.holder = collections.deque(), set(), None
        self.grants, self.queued, self.wrong = 0, 0, []

    def grant(self, owner):
        if owner == self.holder:
            return  # a re-entry, or a count
        ahead = list(self.queue)
        if owner in ahead:
            ahead = ahead[:ahead.index(owner)]
        elif owner in self.popped:
            ahead = []
        if ahead:
            self.wrong.append((owner, len(ahead)))
        self.holder, self.grants = owner, self.grants + 1
        self.popped.clear()

    def line(self, raw):
        m = LINE.match(raw)
        words = WORD.findall(m.group(1)) if m else []
        if len(words) < 2:
            return
        verb, key = words[0].lower(), words[1]
        if key == self.list:
            self.on_queue(verb, words)
        elif key == self.key:
            self.on_lock(verb, words)

    def on_lock(self, verb, words):
        if verb in (b"hset", b"hsetnx") or verb == b"hincrby" and not words[3].startswith(b"-"):
            self.grant(words[2])
        elif verb in (b"del", b"unlink", b"hdel"):
            self.holder = None

    def on_queue(self, verb, words):
        if verb == b"rpush":
            self.queue.append(words[2])
            self.queued += 1
        elif verb == b"lpop" and self.queue:
            self.popped.add(self.queue.popleft())
        elif verb == b"lrem" and words[3] in self.queue:
            self.queue.remove(words[3])
            self.popped.add(words[3])
        elif verb in (b"del", b"unlink"):
            self.queue.clear()


def running(world, driver):
    """All clients in a loop; returns (grants, grants from the queue)."""
    name, log = "fair/running", "log:running"
    monitor = Monitor(world)
    pending = [driver.send("it%d" % i, "cycle", name, log, "it%d" % i, ROUNDS) for i in range(THREADS)]
    loadlib.together([lambda i=i: cycle(world, (world.a, world.b)[i % 2], name, log, "we%d" % i, ROUNDS)
                      for i in range(SESSIONS)], DEADLINE)
    for p in pending:
        check(p.wait(DEADLINE) == str(ROUNDS), "a thread of Redisson's did not get its grants")
    each = collections.Counter(world.redis.cmd("LRANGE", log, "0", "-1"))
    check(len(each) == THREADS + SESSIONS and set(each.values()) == {ROUNDS}, "grants were lost: %s", each)
    until(lambda: world.redis.cmd("KEYS", "*{%s}*" % name) == [], 10)
    world.redis.cmd("ECHO", "end of the log")
    monitor.join(30)
    replay = Replay(name)
    for line in monitor.lines:
        replay.line(line)
    total = (THREADS + SESSIONS) * ROUNDS
    check(replay.grants == total, "the log shows %d grants, not %d", replay.grants, total)
    check(replay.queued > total / 2, "only %d of %d grants came from the queue", replay.queued, total)
    wrong = replay.wrong
    check(not wrong, "%d of %d were granted past a waiter; the first: %s", len(wrong), total, wrong[:3])
    return total, replay.queued


def test(world):
    rng = random.Random(SEED)
    driver = loadlib.redisson_driver(world, "fair")
    one_by_one = sum(staged(world, driver, rng, i) for i in range(STAGED))
    total, queued = running(world, driver)
    return "%d grants one by one, %d in a loop (%d by the queue), all in the order of arrival" % (
        one_by_one, total, queued)


if __name__ == "__main__":
    loadlib.run(test)
