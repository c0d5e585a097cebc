#!/usr/bin/env python3
"""Permits of a semaphore through 1,000 kill -9s of random holders: never above the limit, exactly the limit at the end.

Once with a semaphore that rlockd creates, once with one that Redisson's trySetPermits has created (a string without
expiry): there the number in Redis decides, and a permit that is not given back is missing for ever.
"""
import os
import random
import select
import signal
import time

import loadlib
from world import check, granted, harness, until

LIMIT, CHILDREN, KILLS, SEED = 5, 16, 1000, 5
LOCK = ("KIND", "semaphore", "LIMIT", str(LIMIT))


class Child:
    """A forked process that waits for one permit and reports when it has it."""

    def __init__(self, path, name):
        self.fd, theirs = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            self.work(path, name, theirs)
        os.close(theirs)

    @staticmethod
    def work(path, name, out):
        try:
            harness.die_with_us()
            c = harness.Conn(path, timeout=300)
            reply = c.cmd("LOCK", name, "WAIT", "5m", *LOCK)
            os.write(out, b"+" if isinstance(reply, int) else str(reply).encode())
            time.sleep(600)
        finally:
            os._exit(1)

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


def received(children, holders):
    """Notes the children that have been granted a permit; waits a little for that."""
    waiting = {c.fd: c for c in children if c not in holders}
    for fd in select.select(list(waiting), [], [], 0.05)[0]:
        answer = os.read(fd, 200)
        check(answer == b"+", "a child was not granted but: %r", answer)
        holders.append(waiting[fd])
    check(len(holders) <= LIMIT, "%d have one of %d permits", len(holders), LIMIT)


def kill_holders(world, name, rng):
    """Kills 1,000 holders; then all others."""
    paths = [world.a.path, world.b.path]
    children, holders, kills, moved = [], [], 0, time.monotonic()
    try:
        while kills < KILLS:
            while len(children) < CHILDREN:
                children.append(Child(rng.choice(paths), name))
            received(children, holders)
            if holders:
                moved = time.monotonic()
                victim = holders.pop(rng.randrange(len(holders)))
                kills += 1
            elif time.monotonic() - moved > 20 * harness.SLOW:
                raise AssertionError("after %d kills no child is granted any more" % kills)
            else:
                continue
            children.remove(victim)
            victim.kill()
            if rng.random() < 0.1:  # and now and then a waiter
                children.pop(rng.choice([i for i, c in enumerate(children) if c not in holders])).kill()
    finally:
        for c in children:
            c.kill()


def count(world, name, made):
    """Exactly the limit can be taken now, over both daemons; no key is left when all are given back."""
    for d in (world.a, world.b):
        until(lambda: world.ask(d, "LOCKS", name) == [], 15)
    until(lambda: world.redis.cmd("ZCARD", "{%s}:timeout" % name) == 0, 15)
    conns = [world.conn((world.a, world.b)[i % 2]) for i in range(LIMIT + 1)]
    for c in conns[:LIMIT]:
        granted(c.cmd("LOCK", name, "NOWAIT", *LOCK))
    for d in (world.a, world.b):
        check(world.ask(d, "LOCK", name, "NOWAIT", *LOCK) is None, "more than the limit can be taken")
    for c in conns[:LIMIT]:
        check(c.cmd("UNLOCK", name) == 0, "UNLOCK")
    available = world.redis.cmd("GET", name)
    good = available == str(LIMIT) or available is None and not made
    check(good, "Redis says that %s of %d are available", available, LIMIT)
    check(world.redis.cmd("ZCARD", "{%s}:timeout" % name) == 0, "a permit is left")


def test(world):
    rng = random.Random(SEED)
    for name, made in (("load/ours", False), ("load/made", True)):
        if made:
            world.redis.cmd("SET", name, LIMIT)
        kill_holders(world, name, rng)
        count(world, name, made)
    return "twice %d holders killed, %d of %d permits there" % (KILLS, LIMIT, LIMIT)


if __name__ == "__main__":
    loadlib.run(test)
