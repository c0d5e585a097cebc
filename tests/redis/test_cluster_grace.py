#!/usr/bin/env python3
"""What a cluster loses, and who holds what then: masters killed with writes that their replica never had, data flushed
away, slots that move meanwhile (cluster.md R1..R8)."""
import os
import time

import harness
from clusters import Cluster, slot_of
from harness import RError, until
from test_sentinel_switch import Counting

CONF = "redis: { timeout: 1s, connect_timeout: 1s }\n"


class Case(harness.Case):
    def setUp(self):
        super().setUp()
        self.c = Cluster(self.dir, self._keep)

    def daemon(self, name="rlockd", conf=CONF):
        return self.rlockd(redis=self.c.url(), conf=conf, name=name)

    def two(self, conf=CONF):
        """Two daemons, in whose cluster locks have been had in some slots."""
        pair = [self.daemon(name, conf) for name in "ab"]
        for d in pair:
            with d.conn() as c:
                for i in range(4):
                    self.assertIsInstance(c.cmd("LOCK", "counter:%d" % i, "WAIT", "20s"), int)
                    c.cmd("UNLOCK", "counter:%d" % i)
        return pair

    def loses_writes(self, node):
        """From now on its replica hears of nothing that is written there."""
        self.assertEqual(node.cmd("ACL", "SETUSER", "default", "-psync", "-sync"), "OK")
        node.cmd("CLIENT", "KILL", "TYPE", "replica")

    def replaced(self, node, slot):
        node.kill()
        until(lambda: (self.c.owner(slot) or node).id != node.id, 30)

    def not_given(self, conn, name):
        answer = conn.cmd("LOCK", name, "WAIT", "100ms")
        self.assertNotIsInstance(answer, int)


class Lost(Case):
    def test_one_master_is_flushed(self):
        a, b = self.two()
        holder, other = self.conn(a), self.conn(b)
        token = holder.cmd("LOCK", "kept")
        self.assertIsInstance(token, int)
        self.c.owner(slot_of("kept")).cmd("FLUSHALL")
        until(lambda: self.not_given(other, "kept") or self.c.cmd("kept", "EXISTS", "kept") == 1)
        self.not_given(other, "kept")
        self.assertEqual(holder.cmd("UNLOCK", "kept"), 0)
        self.assertGreater(until(lambda: other.cmd("LOCK", "kept", "WAIT", "5s")), token)

    def test_a_newcomer_to_flushed_data_asks_first(self):
        holder = self.conn(self.two()[0])
        self.assertIsInstance(holder.cmd("LOCK", "kept"), int)
        self.c.owner(slot_of("kept")).cmd("FLUSHALL")
        other = self.conn(self.daemon("new"))
        until(lambda: self.not_given(other, "kept") or self.c.cmd("kept", "EXISTS", "kept") == 1)
        self.not_given(other, "kept")

    def test_a_master_is_killed_with_writes_that_its_replica_lacks(self):
        a, b = self.two()
        holder, other = self.conn(a), self.conn(b)
        slot = slot_of("kept")
        node = self.c.owner(slot)
        self.loses_writes(node)
        token = holder.cmd("LOCK", "kept")
        self.assertIsInstance(token, int)
        self.replaced(node, slot)
        until(lambda: self.not_given(other, "kept") or self.c.cmd("kept", "EXISTS", "kept") == 1, 20)
        self.not_given(other, "kept")
        self.assertEqual(holder.cmd("UNLOCK", "kept"), 0)
        self.assertGreater(until(lambda: other.cmd("LOCK", "kept", "WAIT", "5s")), token)
        self.assertEqual(a.info("stats")["lost"], "0")

    def test_nobody_counts_twice_while_masters_go(self):
        pair = self.two(CONF + "locks: { lease: 4s }\n")  # two anchors that are lost at once take a lease
        counting = Counting(pair, 6)
        self.addCleanup(counting.stop)
        until(lambda: counting.done > 50)
        for i in range(2):
            slot = slot_of("counter:%d" % i)
            node = self.c.owner(slot)
            self.loses_writes(node)
            done = counting.done
            until(lambda done=done: counting.done > done + 20)
            self.replaced(node, slot)
            done = counting.done
            until(lambda done=done: counting.done > done + 50, 60)
            self.c.owner(slot_of("counter:3")).cmd("FLUSHALL")
            done = counting.done
            until(lambda done=done: counting.done > done + 50, 60)
            self._keep(node.again())
            until(lambda: self.c.settled(), 20)
        self.assertEqual(counting.stop(), [])

    def test_first_grant_behind_a_kill(self):
        """How much longer it takes than the cluster itself."""
        pair = self.two()
        slot = slot_of("counter:0")
        node = self.c.owner(slot)
        c = self.conn(pair[0])
        node.kill()
        until(lambda: (self.c.owner(slot) or node).id != node.id, 30)
        began = time.monotonic()
        until(lambda: isinstance(c.cmd("LOCK", "counter:0", "WAIT", "1s"), int), 30)
        self.assertLess(time.monotonic() - began, 3 * harness.SLOW)


class Moves(Case):
    def test_what_is_held_goes_along(self):
        a, b = self.two()
        holder, other = self.conn(a), self.conn(b)
        token = holder.cmd("LOCK", "kept")
        slot = slot_of("kept")
        owner = self.c.owner(slot)
        to = next(n for n in self.c.nodes if n.is_master() and n.id != owner.id)
        self.c.move(slot, to)
        self.not_given(other, "kept")
        self.assertEqual(until(lambda: [r for r in [holder.cmd("UNLOCK", "kept")] if not isinstance(r, RError)]), [0])
        self.assertGreater(until(lambda: other.cmd("LOCK", "kept", "WAIT", "5s")), token)

    def test_lost_while_it_was_open(self):
        """The slot stays where it was, but a key has gone astray."""
        a, b = self.two()
        holder, other = self.conn(a), self.conn(b)
        self.assertIsInstance(holder.cmd("LOCK", "kept"), int)
        slot = slot_of("kept")
        owner = self.c.owner(slot)
        to = next(n for n in self.c.nodes if n.is_master() and n.id != owner.id)
        to.cmd("CLUSTER", "SETSLOT", str(slot), "IMPORTING", owner.id)
        owner.cmd("CLUSTER", "SETSLOT", str(slot), "MIGRATING", to.id)
        refused = until(lambda: [r for r in [other.cmd("LOCK", "{kept}2", "WAIT", "100ms")]
                                 if "is being moved" in str(r)])
        self.assertTrue(refused)
        owner.cmd("DEL", "kept")
        for node in (owner, to):
            node.cmd("CLUSTER", "SETSLOT", str(slot), "STABLE")
        until(lambda: self.not_given(other, "kept") or self.c.cmd("kept", "EXISTS", "kept") == 1)
        self.not_given(other, "kept")
        self.assertEqual(holder.cmd("UNLOCK", "kept"), 0)


if __name__ == "__main__":
    os.environ["RLOCKD_UNSAFE_CLUSTER"] = "1"
    harness.main()
