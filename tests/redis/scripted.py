"""scripted.py -- Lua scripts on a private Redis, for their tests: one call of one verb of one kind, columns by name."""
import contextlib
import functools
import hashlib
import os
import subprocess
import uuid

import harness
from harness import Case

SCRIPTS = os.path.join(harness.TOP, "scripts")
OK, TAKEN, GONE, FOREIGN, FULL, STALE, GRACE = 1, 2, 3, 4, 5, 6, 7
VERBS = ("acquire", "renew", "release", "clear")
CLOCK, EPOCH, ENDED = "rlock:clock", "rlock:epoch", "rlock:ended:"
OPEN = "1700000000000000 0123456789abcdef"  # rlock:epoch while Redis grants
LEASE = 30000
UUID = "0f9b8a76-1c2d-4e3f-8a9b-726c6f636b64"
ME = UUID + ":1"
YOU = "8743c9c0-95b2-4ea3-8a3d-3a3a3a3a3a3a:91"
UUID_PATTERN = "^%s%s%%-%s%%-%s%%-%s%%-%s%s%s$" % (("%x%x%x%x",) * 8)


def permit_of(actor):
    """16 readable bytes, different for each actor."""
    return hashlib.md5(actor.encode()).hexdigest()[:16]


def value_of(actor):
    return str(uuid.UUID(hashlib.md5(actor.encode()).hexdigest()))


class Kind:
    """The properties of a kind, by which it differs from other kinds. (The table has semaphores of one permit.)"""

    def __init__(self, itself=True, hash_of=None, taken_by=0, wakes="0", beside=()):
        self.itself = itself      # an owner that asks again is recognized as the holder
        self.hash_of = hash_of    # its hash, when ME has the lock; None: a string
        self.taken_by = taken_by  # a further column of TAKEN
        self.wakes = wakes        # the message that is published when the lock is free
        self.beside = beside      # keys beside the key of a lock that is held, %s its name


RLOCK = [ME, "1"]
KIND = {
    "reentrant": Kind(hash_of=RLOCK),
    "simple": Kind(),
    "counter": Kind(itself=False),
    "fair": Kind(hash_of=RLOCK),
    "rw": Kind(hash_of=["mode", "write", ME + ":write", "1"], taken_by=1, wakes="1"),
    "semaphore": Kind(taken_by=1, wakes="1", beside=("{%s}:timeout",)),
    "fenced": Kind(hash_of=RLOCK, beside=("redisson_lock_token:{%s}",)),
}
KINDS = tuple(KIND)
ITSELF = [k for k in KINDS if KIND[k].itself]
HASHES = [k for k in KINDS if KIND[k].hash_of]
LIKE_RLOCK = [k for k in KINDS if KIND[k].hash_of == RLOCK]


class Made(dict):
    """By kind and verb: what is made when a test first asks for it, since all takes more than a second to make."""

    def __init__(self, every, make):
        super().__init__()
        self.every, self.make = every, make

    def __missing__(self, key):
        self[key] = self.make(*key)
        return self[key]

    def all(self):
        return {key: self[key] for key in self.every}


@functools.lru_cache
def embed(*words):
    return subprocess.run([os.path.join(SCRIPTS, "embed"), *words], stdout=subprocess.PIPE, check=True).stdout.decode()


def row_of(kind, verb):
    """How many of the columns of a script are terms, and the columns, as the header for the daemon lists them."""
    _, terms, *columns = embed("columns", kind, verb).split(", ")
    return int(terms), [c[len("COLUMN_"):].lower() for c in columns]


EVERY = [(kind, verb) for kind in KINDS for verb in VERBS]
TEXT = Made(EVERY, embed)
OF_QUORUM = Made([(kind, verb) for kind in ("reentrant", "simple") for verb in VERBS],
                 lambda kind, verb: embed(kind, verb, "quorum"))
TERMS = Made(EVERY, lambda kind, verb: row_of(kind, verb)[0])
COLUMNS = Made(EVERY, lambda kind, verb: row_of(kind, verb)[1])
OTHERS = ("inspect", "membership", "replicas", "node", "anchor", "record", "quorum", "bundle")  # no verbs
INSPECT, MEMBERSHIP, REPLICAS = embed("inspect"), embed("membership"), embed("replicas")


def columns_of(terms, rows):
    """The columns of all names as words: the terms once where all names have the same."""
    if len({tuple(row[:terms]) for row in rows}) > 1:
        return sum(rows, [])
    return rows[0][:terms] + sum((row[terms:] for row in rows), [])


class Scripted(Case):
    before = ""  # Lua text in front of each script

    def setUp(self):
        super().setUp()
        self.r = self.redis()
        self.c = self.conn(self.r)
        self.flush()

    def flush(self):
        """Empties Redis and opens an epoch, as after the first registration of a daemon."""
        self.c.cmd("FLUSHALL")
        self.c.cmd("SET", EPOCH, OPEN)

    def now_us(self):
        s, us = self.c.cmd("TIME")
        return int(s) * 1000000 + int(us)

    def raw(self, kind, verb, names, guard=0, floor=0, epoch=OPEN, reserve=0):
        """Makes one call. names: (key, the columns that differ from the usual ones)."""
        rows = []
        for key, more in names:
            actor = more.get("owner", ME)
            columns = dict(owner=actor, value=value_of(actor), permit=permit_of(actor), lease=LEASE,
                           holds=0 if verb == "release" else 1, rest=0, reentry=0, exact=0, expiry=0, mode="write",
                           ticket=0, limit=1, declared=1, pattern=UUID_PATTERN, wakes=0, channel="ch:%s" % (key,))
            columns.update(more)
            rows.append([columns[c] for c in COLUMNS[kind, verb]])
        return self.c.cmd("EVAL", self.before + TEXT[kind, verb], 2 + len(names), CLOCK, EPOCH, *[k for k, _ in names],
                          guard, floor, epoch, reserve, *columns_of(TERMS[kind, verb], rows))

    def run_all(self, kind, verb, names, **more):
        before = self.now_us()
        reply = self.raw(kind, verb, names, **more)
        self.assertIsInstance(reply, list, reply)
        for n in reply:
            self.assertIsInstance(n, int)
        self.assertTrue(before <= reply[0] <= self.now_us())
        outcomes = []
        for outcome, a, b, row in zip(*[iter(reply[1:])] * 4):
            rises = verb == "acquire" and outcome == OK
            outcomes += [(outcome, a + i * rises, b) for i in range(row)]
        self.assertEqual((len(outcomes), len(reply) % 4), (len(names), 1))
        return outcomes

    def run_one(self, kind, verb, key="k", guard=0, floor=0, epoch=OPEN, reserve=0, **more):
        return self.run_all(kind, verb, [(key, more)], guard=guard, floor=floor, epoch=epoch, reserve=reserve)[0]

    def held(self, kind, key="k", actor=ME, **more):
        """Acquires the lock for the actor; returns its expiry."""
        outcome, token, expiry = self.run_one(kind, "acquire", key, owner=actor, **more)
        self.assertEqual(outcome, OK)
        self.assertGreater(token, 0)
        return expiry

    def dump(self):
        """All data of Redis; expiries only to about a second."""
        return {k: self.c.cmd("DUMP", k) for k in self.c.cmd("KEYS", "*")}

    def keys(self):
        return sorted(k for k in self.c.cmd("KEYS", "*") if k != EPOCH and not k.startswith(ENDED))

    def left(self, *names):
        """Nothing is left but the clock, the epoch, the traces of a BREAK, and these."""
        self.assertEqual(self.keys(), sorted((CLOCK,) + names))

    @contextlib.contextmanager
    def listening(self, *channels):
        with self.r.conn() as sub:
            for n, channel in enumerate(channels):
                self.assertEqual(sub.cmd("SUBSCRIBE", channel), ["subscribe", channel, n + 1])
            yield sub
            self.received(sub)
            # no client is subscribed any more, from the end of the block on
            self.assertEqual(sub.cmd("RESET"), "RESET")

    def received(self, sub, *messages):
        """These messages (channel, number) came, and no others."""
        for channel, number in messages:
            self.assertEqual(sub.read(), ["message", channel, number])
        sub.ask("PING")
        self.assertEqual(sub.read(), ["pong", ""])

    def ttl_is(self, key, ms, slack=3000):
        left = self.c.cmd("PTTL", key)
        self.assertTrue(ms - slack * harness.SLOW <= left <= ms, left)

    def foreign(self, kind, key="k"):
        self.c.cmd("DEL", key)
        self.c.cmd("RPUSH", key, "x")
        self.c.cmd("PEXPIRE", key, 60000)

    def full(self, yes=True):
        self.c.cmd("CONFIG", "SET", "maxmemory", 1 if yes else 0)
