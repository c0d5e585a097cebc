#!/usr/bin/env python3
"""Deadlocks of length 2, 3 and 5 over two daemons: each reported once, to one victim, within 2 s; then undone."""
import random
import time

import loadlib
from world import RError, Wait, check, granted, harness, until

WITHIN = 2.0
SLACK = 0.8 * harness.SLOW
TIMES = 3
SEED = 7


def ring(world, length, number, rng):
    """Makes one deadlock; returns the time until it was found."""
    names = ["ring/%d/%d/%d" % (length, number, i) for i in range(length)]
    conns = [world.conn((world.a, world.b)[i % 2]) for i in range(length)]
    for c, name in zip(conns, names):
        granted(c.cmd("LOCK", name))
    order = list(range(length))
    rng.shuffle(order)
    waits = {}
    for i in order:
        waits[i] = Wait(conns[i], ["LOCK", names[(i + 1) % length], "WAIT", "60s"])
        if number:  # else all at once
            time.sleep(rng.random() * 0.3)
    closed = max(w.sent for w in waits.values())

    def found():
        """an owner gets -DEADLOCK"""
        return [i for i, w in waits.items() if w.done()]
    victims = until(found, WITHIN + SLACK + 2)
    took = waits[victims[0]].at - closed
    time.sleep(2.5)  # no other owner gets it, now or a little later
    victims = found()
    replies = [waits[i].result() for i in victims]
    check(len(victims) == 1, "%d of %d got an answer: %s", len(victims), length, replies)
    check(isinstance(replies[0], RError) and replies[0].startswith("DEADLOCK"), "the victim got %r", replies[0])
    missing = [n for n in names if n not in replies[0]]
    check(not missing, "the report does not name %s: %s", missing, replies[0])
    check(took < WITHIN + SLACK, "found only after %.2f s", took)
    undo(conns, names, waits, victims[0])
    return took


def undo(conns, names, waits, victim):
    """The victim gives up its locks; the others are granted theirs one after the other."""
    length = len(names)
    conns[victim].close()
    for step in range(1, length):
        i = (victim - step) % length
        granted(waits[i].result())
        conns[i].close()


def test(world):
    rng = random.Random(SEED)
    took = {n: [ring(world, n, i, rng) for i in range(TIMES)] for n in (2, 3, 5)}
    return "each once, to one victim; found after at most %s" % ", ".join(
        "%.2f s (length %d)" % (max(t), n) for n, t in took.items())


if __name__ == "__main__":
    loadlib.run(test)
