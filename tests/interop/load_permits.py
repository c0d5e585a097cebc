#!/usr/bin/env python3
"""Permits of a semaphore after 1,000 kill -9s of random holders: never more than the limit, and exactly the limit at the end."""
import os
import random
import select
import signal
import time

import loadlib
from world import check, granted, harness, until

LIMIT, CHILDREN, KILLS, SEED = 5, 16, 1000, 5
LOCK = ("KIND", "semaphore", "LIMIT", str(LIMIT))
NAME = "load/permits"


class Child:
    """A forked process that wants one permit and says so when it has it."""

    def __init__(self, path):
        self.fd, theirs = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            self.work(path, theirs)
        os.close(theirs)

    @staticmethod
    def work(path, out):
        try:
            harness.die_with_us()
            c = harness.Conn(path, timeout=300)
            reply = c.cmd("LOCK", NAME, "WAIT", "5m", *LOCK)
            os.write(out, b"+" if isinstance(reply, int) else str(reply).encode())
            time.sleep(600)
        finally:
            os._exit(1)

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


def heard(children, holders):
    """Takes in who has been granted; waits a little for it."""
    waiting = {c.fd: c for c in children if c not in holders}
    for fd in select.select(list(waiting), [], [], 0.05)[0]:
        said = os.read(fd, 200)
        check(said == b"+", "a child was not granted but: %r", said)
        holders.append(waiting[fd])
    check(len(holders) <= LIMIT, "%d have one of %d permits", len(holders), LIMIT)


def test(world):
    rng = random.Random(SEED)
    paths = [world.a.path, world.b.path]
    children, holders, kills, moved = [], [], 0, time.monotonic()
    try:
        while kills < KILLS:
            while len(children) < CHILDREN:
                children.append(Child(rng.choice(paths)))
            heard(children, holders)
            if holders:
                moved = time.monotonic()
                victim = holders.pop(rng.randrange(len(holders)))
                kills += 1
            elif time.monotonic() - moved > 20 * harness.SLOW:
                raise AssertionError("after %d kills nobody is granted any more" % kills)
            else:
                continue
            children.remove(victim)
            victim.kill()
            if rng.random() < 0.1:  # and now and then one that waits
                children.pop(rng.choice([i for i, c in enumerate(children) if c not in holders])).kill()
    finally:
        for c in children:
            c.kill()
    return count(world, kills)


def count(world, kills):
    """Exactly the limit can be taken now, over both daemons; nothing is left when it is given back."""
    for d in (world.a, world.b):
        until(lambda: world.ask(d, "LOCKS", NAME) == [], 15)
    until(lambda: world.redis.cmd("ZCARD", "{%s}:timeout" % NAME) == 0, 15)
    conns = [world.conn((world.a, world.b)[i % 2]) for i in range(LIMIT + 1)]
    for c in conns[:LIMIT]:
        granted(c.cmd("LOCK", NAME, "NOWAIT", *LOCK))
    for d in (world.a, world.b):
        check(world.ask(d, "LOCK", NAME, "NOWAIT", *LOCK) is None, "more than the limit can be taken")
    for c in conns[:LIMIT]:
        check(c.cmd("UNLOCK", NAME) == 0, "UNLOCK")
    available = world.redis.cmd("GET", NAME)
    check(available in (None, str(LIMIT)), "Redis says that %s of %d are available", available, LIMIT)
    check(world.redis.cmd("ZCARD", "{%s}:timeout" % NAME) == 0, "a permit is left")
    return "%d holders killed, %d of %d permits there" % (kills, LIMIT, LIMIT)


if __name__ == "__main__":
    loadlib.run(test)
