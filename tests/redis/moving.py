"""moving.py -- who uses locks while slots move and masters change: clients of two daemons count under locks, and one
client holds locks all the time, which another wants. test_cluster_moves.py says what is done to the cluster meanwhile.
(tests/chaos/nodes.py has clients of its own, whose history is checked.)
"""
import time

import harness
from clusters import slot_of
from harness import RError, until
from test_sentinel_switch import Counting

# A hash tag, and rules by what stands behind it. Kinds of one key are all that an open slot renews.
KINDS = {"reentrant": "re", "simple": "si", "counter": "co"}
CONF = """redis: { timeout: 1s, connect_timeout: 1s }
locks: { lease: %ds }
rules:
  - { match: "*si", kind: simple }
  - { match: "*co", kind: counter }
"""


def tags_below(slot, n):
    """So many hash tags whose slots are different, and lower than that."""
    found = {}
    i = 0
    while len(found) < n:
        i += 1
        at = slot_of("t%d" % i)
        if at < slot:
            found.setdefault(at, "t%d" % i)
    return list(found.values())


def answered(c, *words, deadline=60):
    """The first answer that is another than -UNAVAILABLE."""
    end = time.monotonic() + deadline * harness.SLOW
    while True:
        answer = c.cmd(*words)
        if not isinstance(answer, RError) or not answer.startswith("UNAVAILABLE") or time.monotonic() > end:
            return answer


class Kept:
    """Locks that a client of one daemon holds, and that one of the other daemon waits for all the time."""

    def __init__(self, holder, waiter):
        self.holder, self.waiter, self.token, self.waiting = holder, waiter, {}, {}

    def take(self, name):
        """One more; `waiter` makes a connection."""
        self.token[name] = answered(self.holder, "LOCK", name, "WAIT", "20s")
        assert isinstance(self.token[name], int), self.token[name]
        self.waiting[name] = self.waiter()
        self.waiting[name].ask("LOCK", name, "WAIT", "1h")

    def wrong(self, may_be_lost=()):
        """What is not as it should be: nothing is lost, but where that may be, and nobody else has it."""
        out = []
        for name, waiter in list(self.waiting.items()):
            taken = not waiter.quiet()  # before the holder is asked: it may lose the lock in between, not get it back
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
        """Each waiter is granted what the holder gives back, with a larger token; what is not so."""
        out = []
        for name, waiter in self.waiting.items():
            freed = answered(self.holder, "UNLOCK", name)
            token = waiter.read() if freed == 0 else None
            if not isinstance(token, int) or token <= self.token[name]:
                out.append("%s: UNLOCK answers %r, the next is granted %r" % (name, freed, token))
        return out


class Load:
    """Three slots below `below`: one lock of each kind of one key in each of them, and one more that is kept."""

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
        """Takes a lock of each kind in each of the slots, for good."""
        for tag in self.tags:
            for end in KINDS.values():
                self.kept.take("{%s}%s%s" % (tag, word, end))

    def goes_on(self, n=30, deadline=60):
        """Until so many more have been counted."""
        done = self.counting.done

        def counted():
            """clients count under locks"""
            return self.counting.done > done + n or self.counting.wrong
        until(counted, deadline)

    def end(self, may_be_lost=()):
        """Everything that went wrong."""
        wrong = self.counting.stop()
        return wrong + self.kept.wrong(may_be_lost) + self.kept.given_back()
