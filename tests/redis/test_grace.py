#!/usr/bin/env python3
"""Redis loses what it had acknowledged: who holds a lock keeps it, nobody else gets it; a plain SET NX grants it twice."""
import os
import shutil
import time

import harness
from harness import Case, until

PLAIN = "return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])"  # what lock libraries run
KINDS = ("reentrant", "simple", "counter", "fair", "fenced", "rw", "semaphore")


class Grace(Case):
    def setUp(self):
        super().setUp()
        self.r = self.redis()
        self.a = self.rlockd(redis=self.r.url, name="a")
        self.b = self.rlockd(redis=self.r.url, name="b")
        self.holder, self.other = self.conn(self.a), self.conn(self.b)
        until(lambda: self.a.info("redis")["redis_other_daemons"] == "1" and self.b.info("redis")["redis_other_daemons"] == "1")

    def saved(self):
        """What Redis has now."""
        self.r.cmd("SAVE")
        with open(os.path.join(self.r.directory, "dump.rdb"), "rb") as f:
            return f.read()

    def again(self, data=None):
        """Redis is killed, and comes back with this, or with nothing."""
        self.r.kill()
        rdb = os.path.join(self.r.directory, "dump.rdb")
        if os.path.exists(rdb):
            os.unlink(rdb)
        if data is not None:
            with open(rdb, "wb") as f:
                f.write(data)
        self.r = self.redis(name="again")
        os.rename(self.r.path, os.path.join(self.dir, "redis.sock"))
        self.r.path = os.path.join(self.dir, "redis.sock")

    def plain(self, who):
        return self.r.cmd("EVAL", PLAIN, 1, "plain", who, 30000) == "OK"

    def reunited(self):
        for d in (self.a, self.b):
            until(lambda: d.info("redis")["redis_state"] == "up" and d.info("redis")["redis_grace"] == "0"
                  and d.info("redis")["redis_epoch"] == self.r.cmd("GET", "rlock:epoch").split()[0])

    def keeps(self, lose, lost=()):
        """The holder has one lock of each kind while Redis loses its data; `lost`: kinds that could not be kept."""
        tokens = {}
        for kind in KINDS:
            tokens[kind] = self.holder.cmd("LOCK", kind, "KIND", kind)
            self.assertIsInstance(tokens[kind], int)
        self.assertEqual(self.holder.cmd("LOCK", "reentrant"), tokens["reentrant"])
        self.assertTrue(self.plain("first"))
        began = time.monotonic()
        lose()
        self.assertTrue(self.plain("second"), "the plain lock is not granted twice")
        for kind in KINDS:
            self.other.ask("LOCK", kind, "KIND", kind, "WAIT", "30s", *(("LIMIT", "1") if kind == "semaphore" else ()))
            with self.b.conn() as c:
                until(lambda: c.maps("LOCKS", kind) and c.maps("LOCKS", kind)[0]["state"] in ("taken", "held"))
            if kind in lost:
                self.assertRegex(self.holder.cmd("UNLOCK", kind), "^LOST ")
            else:
                self.assertTrue(self.other.quiet(), kind)
                left = self.holder.cmd("RENEW", kind, "20s")
                self.assertIsInstance(left, int, (kind, left))
                for left in range(1 if kind == "reentrant" else 0, -1, -1):
                    self.assertEqual(self.holder.cmd("UNLOCK", kind), left)
            self.assertGreater(self.other.read(), tokens[kind])
            self.assertEqual(self.other.cmd("UNLOCK", kind), 0)
        self.reunited()
        return time.monotonic() - began

    def test_flushed(self):
        self.keeps(lambda: self.r.cmd("FLUSHALL"))

    def test_restarted_empty(self):
        self.keeps(self.again)

    def test_restarted_from_what_it_had_before(self):
        """Not long before: the locks of those who had them then are in it. A string does not say whose it is."""
        for kind in KINDS:
            self.assertIsInstance(self.other.cmd("LOCK", kind, "KIND", kind, "LEASE", "3s"), int)
        old = self.saved()
        for kind in KINDS:
            self.assertEqual(self.other.cmd("UNLOCK", kind), 0)
        self.keeps(lambda: self.again(old), lost=("simple", "counter"))


if __name__ == "__main__":
    harness.main()
