#!/usr/bin/env python3
"""test_cluster_faults.py -- a cluster some of whose nodes refuse to write: full ones, and ones that lack replicas."""
import harness
from clusters import Shared, slot_of
from harness import until

CONF = "redis: { timeout: 1s, connect_timeout: 1s }\n"
SHARED = Shared()


def tearDownModule():
    SHARED.stop()


class Case(harness.Case):
    def setUp(self):
        super().setUp()
        self.c = SHARED.get()

    def daemon(self, name="rlockd", conf=CONF):
        return self.rlockd(redis=self.c.url(), conf=conf, name=name)

    def name_at(self, node, n=0):
        """A name whose slot that master owns; the n-th."""
        return [x for x in ("name%d" % i for i in range(300)) if self.c.owner(slot_of(x)).id == node.id][n]

    def after(self, node, *words):
        """Run at the end of the test."""
        self.addCleanup(node.cmd, *words)


class Full(Case):
    LEASE = 4 * harness.SLOW

    def test_held_locks_are_renewed_and_slots_come_into_use(self):
        """Two of three anchors are full."""
        d = self.daemon(conf=CONF + "locks: { lease: %ds }\n" % self.LEASE)
        conns = [(self.conn(d), self.name_at(m)) for m in self.c.masters]
        for c, name in conns:
            self.assertIsInstance(c.cmd("LOCK", name, "WAIT", "20s"), int)
        for m in self.c.masters[:2]:
            self.after(m, "CONFIG", "SET", "maxmemory", "0")
            m.cmd("CONFIG", "SET", "maxmemory", "1")
        first = int(d.info("stats")["renewals"])
        until(lambda: int(d.info("stats")["renewals"]) > first + 18, 8 * self.LEASE)  # three locks, for two leases
        self.assertEqual(d.info("stats")["lost"], "0")
        self.assertEqual([c.cmd("UNLOCK", name) for c, name in conns], [0, 0, 0])
        self.assertNotIn("cannot register", d.log())


class Refused(Case):
    def generations(self):
        """How many have begun, as an anchor elsewhere counts them."""
        return int(self.c.masters[0].cmd("HGET", "rlock:{54h}:gen", "#").split()[2])

    def test_a_record_that_cannot_be_created_is_not_one_that_was_lost(self):
        d = self.daemon()
        c = self.conn(d)
        self.assertIsInstance(c.cmd("LOCK", self.name_at(self.c.masters[0]), "WAIT", "20s"), int)
        node = self.c.masters[2]
        name = self.name_at(node)
        self.after(node, "CONFIG", "SET", "min-replicas-to-write", "0")
        node.cmd("CONFIG", "SET", "min-replicas-to-write", "9")
        before = self.generations()
        self.assertNotIsInstance(c.cmd("LOCK", name, "WAIT", "3s"), int)
        self.assertEqual(self.generations(), before)
        node.cmd("CONFIG", "SET", "min-replicas-to-write", "0")
        until(lambda: isinstance(c.cmd("LOCK", name, "WAIT", "2s"), int))


if __name__ == "__main__":
    harness.main()
