"""moving.py -- clients that use locks while slots move and masters change: clients of two daemons count under locks,
and one client holds locks all the time, for which another client waits. test_cluster_moves.py describes what happens to
the cluster meanwhile. (tests/chaos/nodes.py has clients of its own, whose history is checked.)
"""
import time

import harness
from clusters import slot_of
from harness import RError, until
from test_sentinel_switch import Counting

# A hash tag, and rules by the text behind the tag. In an open slot only kinds with one key are renewed.
KINDS = {"reentrant": "re", "simple": "si", "counter": "co"}
CONF = """redis: { timeout: 1s, connect_timeout: 1s }
locks: { lease: %ds }
rules:
  - { match: "*si", kind: simple }
  - { match: "*co", kind: counter }
"""


def tags_below(slot, n):
    """n hash tags whose slots are different, and lower than `slot`."""
    found = {}
    i = 0
    while len(found) < n:
        i += 1
        at = slot_of("t%d" % i)
        if at < slot:
            found.setdefault(at, "t%d" % i)
    return list(found.values())


def answered(c, *words, deadline=60):
    """The first answer that is not -UNAVAILABLE."""
    end = time.monotonic() + deadline * harness.SLOW
    while True:
        answer = c.cmd(*words)
        if not isinstance(answer, RError) or not answer.startswith("UNAVAILABLE") or time.monotonic() > end:
            return answer


class Kept:
    """Locks that a client of one daemon holds, and for which a client of the other daemon waits all the time."""

    def __init__(self, holder, waiter):
        self.holder, self.waiter, self.token, self.waiting = holder, waiter, {}, {}

    def take(self, name):
        """Takes one more lock; `waiter` makes a connection."""
        self.token[name] = answered(self.holder, "LOCK", name, "WAIT", "20s")
        assert isinstance(self.token[name], int), self.token[name]
        self.waiting[name] = self.waiter()
        self.waiting[name].ask("LOCK", name, "WAIT", "1h")

    def wrong(self, may_be_lost=()):
        """The faults: a lock was lost that may not be lost, or another client has it."""
        out = []
        for name, waiter in list(self.waiting.items()):
            # before the holder is asked: meanwhile it may lose the lock, but not get it back
            taken = not waiter.quiet()
            has = answered(self.holder, "LOCK", name, "ONCE")
            if has != self.token[name] and any(name.endswith(end) for end in may_be_lost):
                del self.waiting[name]
                token = waiter.read()
                out += [] if isinstance(token, int) and token > self.token[name] else ["%s: %r" % (name, token)]
            elif has != self.token[name]:
                out.append("%s is lost: %r, not %d" % (name, has, self.token[name]))
            elif taken:
                out.append("%s has two holders" % name)
        return out

    def given_back(self):
        """The holder gives back each lock, and its waiter is granted it with a larger token; returns the faults."""
        out = []
        for name, waiter in self.waiting.items():
            freed = answered(self.holder, "UNLOCK", name)
            token = waiter.read() if freed == 0 else None
            if not isinstance(token, int) or token <= self.token[name]:
                out.append("%s: UNLOCK answers %r, the next is granted %r" % (name, freed, token))
        return out


class Load:
    """Three slots lower than `below`: in each of them one lock of each kind with one key, and one more that is kept."""

    def __init__(self, daemons, below, conn, clients=6):
        self.tags = tags_below(below, 3)
        names = ["{%s}%s" % (tag, end) for tag, end in zip(self.tags, KINDS.values())] + ["{%s}re" % self.tags[2]]
        self.kept = Kept(conn(daemons[0]), lambda: conn(daemons[1]))
        self.keep("kept-")
        self.counting = Counting(daemons, clients, names)

    @property
    def slots(self):
        return [slot_of(tag) for tag in self.tags]

    def keep(self, word):
        """Takes a lock of each kind in each of the slots, and keeps it."""
        for tag in self.tags:
            for end in KINDS.values():
                self.kept.take("{%s}%s%s" % (tag, word, end))

    def goes_on(self, n=30, deadline=60):
        """Waits until `n` more rounds have been counted."""
        done = self.counting.done

        def counted():
            """clients count under locks"""
            return self.counting.done > done + n or self.counting.wrong
        until(counted, deadline)

    def end(self, may_be_lost=()):
        """Returns all faults."""
        wrong = self.counting.stop()
        return wrong + self.kept.wrong(may_be_lost) + self.kept.given_back()
