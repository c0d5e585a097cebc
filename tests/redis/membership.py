"""membership.py -- a daemon that sends registrations to scripts/membership.lua, and the answers that it receives."""
import os

import harness
from scripted import CLOCK, EPOCH, OK, MEMBERSHIP, Scripted

DUPLICATE = 2
CHANNEL = "rlock:deadlock:0"
MEMBERS, UNTIL, CHANGES, LEFT, AWAITED = ("rlock:" + x for x in ("members", "until", "changes", "left", "awaited"))
KEYS = (CLOCK, EPOCH, MEMBERS, UNTIL, CHANGES, LEFT, AWAITED)
TAIL = "-1c2d-4e3f-8a9b-726c6f636b64"  # the end of each daemon's uuid
A, B, C = ("%s" % (x * 8) + TAIL for x in "abc")
NONCE = {A: "a" * 16, B: "b" * 16, C: "c" * 16}
GRACE_MS, BEAT = 30000, 2000
WINDOW_MS = GRACE_MS + 3 * BEAT  # for this time after its last registration a daemon may hold a lock


class Answer:
    def __init__(self, reply):
        self.time, self.status, self.epoch, self.until, self.word = reply[:5]
        self.version, self.upto, self.anew, self.bring = reply[5:9]
        self.changes = [actor.split(" ") for actor in reply[9:]]
        self.others = sorted(actor for actor, grace, _ in self.changes if grace != "-")
        self.graces = {actor: int(grace) for actor, grace, _ in self.changes if grace != "-"}
        self.gone = sorted(actor for actor, grace, _ in self.changes if grace == "-")


class Membership(Scripted):
    def setUp(self):
        super().setUp()
        self.c.cmd("FLUSHALL")

    def register_raw(self, actor, c=None, known=0, reclaimed=0, nonce=None, former="0" * 16, grace=GRACE_MS, strict=0,
                     floor=0, leaving=0, rolled_back=0, met=(), since=0, cursor=None, page=10000, version=0, last=None,
                     of=None, part=None):
        """met: the list that it brings: uuids with the lengths of their leases; ? and !<ms>."""
        peers = [w for w in met if w[0] not in "?!"]
        lasts = [w[1:] for w in met if w[0] == "!"]
        longest = max([grace] + [int(w[37:] or 0) for w in peers])
        return (c or self.c).cmd(
            "EVAL", MEMBERSHIP, len(KEYS), *KEYS, actor, nonce or NONCE.get(actor, "9" * 16), former, known, reclaimed,
            grace, BEAT, strict, floor, leaving, rolled_back, CHANNEL, since, since if cursor is None else cursor, page,
            known if of is None else of, version, version if last is None else last, len(peers), int("?" in met),
            longest, (lasts or [""])[0], *([0] if part is None else [part[0], *part[1]]))

    def register_once(self, actor, **more):
        before = self.now_us()
        reply = self.register_raw(actor, **more)
        self.assertIsInstance(reply, list, reply)
        a = Answer(reply)
        if more.get("c") is None:
            self.assertTrue(before <= a.time <= self.now_us())
        if a.status == OK:
            number, origin = a.word.split(" ")
            self.assertEqual(int(number), a.epoch)
            self.assertRegex(origin, "^[0-9a-f]{16}$")
            now = (more.get("c") or self.c).cmd("GET", EPOCH)
            self.assertEqual(now, a.word + (" %d" % a.until if a.until else ""))
        return a

    def register(self, actor, **more):
        """Registers, and brings its list if the answer requests that, in two parts."""
        a = self.register_once(actor, **more)
        time_us = a.time
        more.setdefault("of", more.get("known", 0))
        while a.bring == 1:
            more["known"] = a.epoch
            a = self.register_once(actor, **more)
        if a.bring:
            peers = [w[:36] for w in more["met"] if w[0] not in "?!"]
            more["known"] = a.epoch
            self.assertEqual(self.register_once(actor, part=(1, peers[:1]), **more).bring, 2)
            a = self.register_once(actor, part=(2, peers[1:]), **more)
            self.assertEqual(a.bring, 0)
        a.time = time_us  # the time at which Redis learned of it first
        return a

    def awaited(self, c=None):
        """By name: 1 awaited, list: awaited, and so is its list, 0 back, 2 left; ?: 1 unknown, 0 known."""
        of_all = (c or self.c).map("ZRANGE", AWAITED, 0, -1, "WITHSCORES")
        as_registered = {"1": "1", "1.75": "1", "1.25": "list", "1.5": "list", "0": "0", "2": "2", "3": "0"}
        return {actor: is_[1:] if actor in "#^" else as_registered.get(is_, is_) for actor, is_ in of_all.items()
                if actor[0] not in "!="}

    def put(self, actor, seen=None, grace=GRACE_MS, nonce="bb", c=None):
        """A member that registered at `seen` (ms)."""
        c = c or self.c
        now = self.now_us()
        seen = now // 1000 if seen is None else seen
        if not c.cmd("ZSCORE", CHANGES, "<"):
            c.cmd("ZADD", CHANGES, now, "<", now, ">")
        version = max(now, int(c.cmd("ZSCORE", CHANGES, ">")) + 1)
        c.cmd("ZADD", CHANGES, version, actor, version, ">")
        c.cmd("HSET", MEMBERS, actor, "%s %d" % (nonce, grace))
        c.cmd("ZADD", UNTIL, seen + grace + 3 * BEAT, actor)

    def another_redis(self, rdb=None):
        """Another process of Redis, with the data of `rdb`."""
        self.others = getattr(self, "others", 0) + 1
        path = os.path.join(self.dir, "other%d" % self.others)
        os.mkdir(path)
        if rdb is not None:
            with open(os.path.join(path, "dump.rdb"), "wb") as f:
                f.write(rdb)
        r = self._keep(harness.Redis(path, name="other%d" % self.others))
        return r, self.conn(r)

    def saved(self):
        self.c.cmd("SAVE")
        with open(os.path.join(self.r.directory, "dump.rdb"), "rb") as f:
            return f.read()

    def meets(self):
        """A and B register and learn of each other, in the first epoch."""
        first = self.register(A)
        self.register(B)
        self.register(A, known=first.epoch)
        return first.epoch
