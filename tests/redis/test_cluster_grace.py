#!/usr/bin/env python3
"""Losses of data in a cluster, and the holders afterwards: masters killed with writes that their replica never
received, data flushed away, slots that move meanwhile (R1 to R8 of proto/SCRIPTS.md).
"""
import re
import signal
import time

import clusters
import harness
from clusters import STEADY, Cluster, slot_of
from harness import RError, until, within
from test_sentinel_switch import Counting

CONF = "redis: { timeout: 1s, connect_timeout: 1s }\n"


class Case(clusters.Case):
    CONF = CONF

    def two(self, conf=CONF):
        """Two daemons, which have granted and released locks in some slots."""
        pair = [self.daemon(name, conf) for name in "ab"]
        for d in pair:
            with d.conn() as c:
                for i in range(4):
                    self.assertIsInstance(c.cmd("LOCK", "counter:%d" % i, "WAIT", "20s"), int)
                    c.cmd("UNLOCK", "counter:%d" % i)
        return pair

    def replaced(self, node, slot):
        node.kill()
        until(lambda: (self.c.owner(slot) or node).id != node.id, 30)

    def not_given(self, conn, name):
        answer = conn.cmd("LOCK", name, "WAIT", "100ms")
        self.assertNotIsInstance(answer, int)


class Flushed(Case):
    """A node loses its data, and goes on."""

    LEASE = 4 * harness.SLOW

    def held(self):
        """
        A lock in a slot in which both daemons have been granted locks, and another client that waits for the lock.
        """
        self.a, self.b = (self.daemon(name, CONF + "locks: { lease: %ds }\n" % self.LEASE) for name in "ab")
        self.holder, self.other = self.conn(self.a), self.conn(self.b)
        for c in (self.holder, self.other):
            self.assertIsInstance(c.cmd("LOCK", "{kept}before", "WAIT", "20s"), int)
            self.assertEqual(c.cmd("UNLOCK", "{kept}before"), 0)
        self.token = self.holder.cmd("LOCK", "kept")
        self.assertIsInstance(self.token, int)

    def renewals(self):
        return int(self.a.info("stats")["renewals"])

    def kept(self, until_renewals, may_be_lost):
        granted = not self.other.quiet()
        answer = self.holder.cmd("LOCK", "kept", "ONCE")
        if may_be_lost and str(answer).startswith("LOST"):
            return answer
        self.assertEqual(answer, self.token)
        self.assertFalse(granted, "two holders")
        return answer if self.renewals() > until_renewals else None

    def kept_and_granted(self, may_be_lost=False):
        """
        The holder keeps the lock for longer than a lease; then it gives it back, and the other client gets a larger
        token.
        """
        self.other.ask("LOCK", "kept", "WAIT", "120s")
        first = self.renewals()
        answer = until(lambda: self.kept(first + 4, may_be_lost), 5 * self.LEASE, pause=0.05)
        if answer == self.token:
            self.assertEqual(self.holder.cmd("UNLOCK", "kept"), 0)
        until(lambda: not self.other.quiet(), 3 * (self.LEASE + 6))
        self.assertGreater(self.other.read(), self.token)

    def test_a_master(self):
        self.held()
        self.c.owner(slot_of("kept")).cmd("FLUSHALL")
        self.kept_and_granted()
        self.assertEqual(self.a.info("stats")["lost"], "0")

    def test_all_masters(self):
        """
        All anchors are lost: nothing is renewed for a lease, so the lock may be lost; then its holder is informed
        first.
        """
        self.held()
        self.c.clear()
        self.kept_and_granted(may_be_lost=True)

    def test_two_masters(self):
        """
        Two anchors are lost, and only the third one knows the daemon of the holder, which stands still: no owner is
        granted a lock for 1.5 times the longest registered lease (R7), and then the holder is informed.
        """
        self.held()
        self.a.signal(signal.SIGSTOP)
        self.addCleanup(self.a.signal, signal.SIGCONT)
        lost, anchors = self.c.owner(slot_of("kept")), [self.c.owner(slot) for slot in (2730, 8191, 13652)]
        self.assertEqual(len({node.port for node in anchors}), 3)
        since = time.monotonic()
        for node in lost, next(node for node in anchors if node.port != lost.port):
            node.cmd("FLUSHALL")
        self.other.ask("LOCK", "kept", "WAIT", "120s")
        until(lambda: not self.other.quiet(), 6 * (self.LEASE + 6))
        self.assertGreaterEqual(time.monotonic() - since, 1.5 * (self.LEASE + 6))
        self.assertGreater(self.other.read(), self.token)
        self.a.signal(signal.SIGCONT)
        self.assertRegex(self.holder.cmd("LOCK", "kept", "ONCE"), "^LOST")

    def test_a_newcomer_asks_first(self):
        holder = self.conn(self.two()[0])
        self.assertIsInstance(holder.cmd("LOCK", "kept"), int)
        self.c.owner(slot_of("kept")).cmd("FLUSHALL")
        other = self.conn(self.daemon("new"))
        until(lambda: self.not_given(other, "kept") or self.c.cmd("kept", "EXISTS", "kept") == 1)
        self.not_given(other, "kept")


    def test_the_grace_period_is_shown(self):
        """The grace period waits for the lease of the daemon that died."""
        lease = 2 * harness.SLOW
        a, b = self.two("locks: { lease: %ds }\n" % lease)
        self.assertEqual(a.info("redis")["redis_grace"], "0")
        b.kill()
        self.c.owner(slot_of("counter:0")).cmd("FLUSHALL")
        with self.conn(a) as c:
            self.not_given(c, "counter:0")
            until(lambda: a.info("redis")["redis_grace"] == "1")
            until(lambda: a.info("redis")["redis_grace"] == "0", 3 * (lease + 6))
            self.assertIsInstance(c.cmd("LOCK", "counter:0", "WAIT", "10s"), int)


class New(harness.Case):
    """A daemon starts while two of three anchors have no data, and the master of the third anchor stands still."""

    WHY = ("two of three anchors must vote: 1 does not answer, 2 are new or have lost data; "
           r"two vote in (\d+) s at the latest")

    def begin(self):
        self.c = Cluster(self.dir, self._keep, replicas=0, args=(*STEADY, "--cluster-require-full-coverage", "no"))
        self.away, self.name = self.c.nodes[1], "{a}2"
        self.assertIsNot(self.c.owner(slot_of(self.name)), self.away)

    def stops(self):
        self.away.signal(signal.SIGSTOP)
        self.addCleanup(self.away.signal, signal.SIGCONT)

    def reported(self, conn):
        def text():
            answer = conn.cmd("LOCK", self.name, "WAIT", "100ms")
            self.assertNotIsInstance(answer, int)
            return re.search("^UNAVAILABLE .*: %s$" % self.WHY, answer)
        return until(text)

    def test_a_master_is_away(self):
        """No daemon has used the cluster before: the daemon grants as soon as the third anchor is new, too."""
        self.begin()
        self.stops()
        d = self.rlockd(redis=self.c.url(), conf=CONF, wait=False)
        until(d.serving)
        conn = self.conn(d)
        text = self.reported(conn)
        self.assertLessEqual(int(text[1]), 55)  # 1.5 times 30 s and 6 s, and 1 % of that
        self.assertGreater(int(text[1]), 55 - 20 * harness.SLOW)
        info = d.info("redis")
        self.assertEqual(info["redis_state"], "up")
        self.assertRegex(info["redis_refusal"], self.WHY)
        until(lambda: re.search('warn redis nothing is granted reason="' + self.WHY, d.log()))
        self.away.signal(signal.SIGCONT)
        self.assertIsInstance(conn.cmd("LOCK", self.name, "WAIT", "15s"), int)
        self.assertEqual(d.info("redis")["redis_refusal"], "")
        until(lambda: "info redis two anchors vote" in d.log())

    def test_the_third_knows_a_holder(self):
        """Two masters come back empty: a daemon that starts then cannot tell them from masters of a new cluster."""
        self.begin()
        conf = CONF + "locks: { lease: 60s }\n"
        a = self.rlockd(redis=self.c.url(), conf=conf, name="a")
        holder = self.conn(a)
        self.assertIsInstance(holder.cmd("LOCK", self.name, "WAIT", "20s"), int)
        a.signal(signal.SIGSTOP)
        self.addCleanup(a.signal, signal.SIGCONT)
        for i in 0, 2:
            self.c.nodes[i].kill()
            self.c.nodes[i] = self._keep(self.c.nodes[i].again())
        until(lambda: all("cluster_state:ok" in str(self.c.nodes[i].ask("CLUSTER", "INFO")) for i in (0, 2)))
        self.stops()
        b = self.rlockd(redis=self.c.url(), conf=conf, name="b", wait=False)
        until(b.serving)
        other = self.conn(b)
        self.reported(other)
        self.away.signal(signal.SIGCONT)
        a.signal(signal.SIGCONT)
        self.assertNotIsInstance(other.cmd("LOCK", self.name, "WAIT", "2s"), int)
        self.assertEqual(a.info("stats")["lost"], "0")


class Mortal(Case):
    """A cluster for one test, whose nodes end, and are replaced soon."""

    def cluster(self):
        return Cluster(self.dir, self._keep)


class Killed(Mortal):
    def test_a_replica_takes_over_and_goes_too(self):
        """
        Held locks stay held; slots of other masters are granted meanwhile; an error names a slot without a master.
        """
        d = self.daemon()
        c = self.conn(d)
        slot = slot_of("here")
        self.assertIsInstance(c.cmd("LOCK", "here", "WAIT", "20s"), int)
        old = self.c.owner(slot)
        name = next("n%d" % i for i in range(1000) if self.c.owner(slot_of("n%d" % i)).id != old.id)
        until(lambda: old.cmd("WAIT", "1", "1000") == 1)
        old.kill()
        until(lambda: isinstance(c.cmd("LOCK", name, "NOWAIT"), int))
        self.assertNotIsInstance(c.cmd("LOCK", "{here}down", "NOWAIT"), int)
        until(lambda: (self.c.owner(slot) or old).id != old.id, 30)
        began = time.monotonic()
        until(lambda: isinstance(c.cmd("LOCK", "{here}", "WAIT", "1s"), int), 30)
        self.assertLess(time.monotonic() - began, 5 * harness.SLOW)
        self.assertEqual(c.cmd("UNLOCK", "here"), 0)
        self.c.owner(slot).kill()
        refused = until(lambda: [r for r in [c.cmd("LOCK", "{here}2", "WAIT", "200ms")] if isinstance(r, RError)])[0]
        self.assertIn("slot %d" % slot, refused)

    def test_a_master_is_killed_with_writes_that_its_replica_lacks(self):
        a, b = self.two()
        holder, other = self.conn(a), self.conn(b)
        slot = slot_of("kept")
        node = self.c.owner(slot)
        self.c.cut_off(node)
        token = holder.cmd("LOCK", "kept")
        self.assertIsInstance(token, int)
        self.replaced(node, slot)
        until(lambda: self.not_given(other, "kept") or self.c.cmd("kept", "EXISTS", "kept") == 1, 20)
        self.not_given(other, "kept")
        self.assertEqual(holder.cmd("UNLOCK", "kept"), 0)
        self.assertGreater(until(lambda: other.cmd("LOCK", "kept", "WAIT", "5s")), token)
        self.assertEqual(a.info("stats")["lost"], "0")

    def test_no_count_is_lost_while_masters_go(self):
        pair = self.two(CONF + "locks: { lease: 4s }\n")  # two anchors that are lost at once stop grants for a lease
        counting = Counting(pair, 6)
        self.addCleanup(counting.stop)
        until(lambda: counting.done > 50)
        for i in range(2):
            slot = slot_of("counter:%d" % i)
            node = self.c.owner(slot)
            self.c.cut_off(node)
            done = counting.done
            until(lambda done=done: counting.done > done + 20, 60)  # it may wait for the anchor of the last round
            self.replaced(node, slot)
            done = counting.done
            until(lambda done=done: counting.done > done + 50, 60)
            self.c.owner(slot_of("counter:3")).cmd("FLUSHALL")
            done = counting.done
            until(lambda done=done: counting.done > done + 50, 60)
            self._keep(node.again())
            until(lambda: self.c.settled(), 20)
        self.assertEqual(counting.stop(), [])


class Planned(Case):
    def test_known_soon(self):
        """No connection ends: the answer of an anchor's former master makes the daemon ask for the map at once."""
        def asked():
            return sum(int(line.split("calls=")[1].split(",")[0]) for n in self.c.nodes
                       for line in n.cmd("INFO", "commandstats").split("\r\n") if "cmdstat_cluster|nodes" in line)
        d = self.daemon()
        old = self.c.owner(slot_of("{54h}"))  # the tag of an anchor: slot 2730
        before = asked()
        until(lambda: asked() > before)  # the next periodic question comes 5 s later
        new = self.c.fail_over(old)
        until(lambda: "slots moved" in d.log())
        refused = re.search(r"errorstat_MOVED:count=(\d+)", old.cmd("INFO", "errorstats"))
        self.assertLess(int(refused.group(1)) if refused else 0, 8)  # four each second
        until(lambda: new.cmd("HGET", "rlock:{54h}:gen", "#").split()[3] == "v", 20)  # it votes
        self.assertNotIn("NOSCRIPT", d.log())  # the daemon sends the text of the script itself: no error


class Stopped(Mortal):
    """A master stands still, and goes on when another master has its slots."""

    SLOT = slot_of("counter:0")

    def stopped(self, meanwhile=lambda: None):
        """Stops the master until it is replaced; returns the function that lets it go on."""
        node = self.c.owner(self.SLOT)
        node.signal(signal.SIGSTOP)

        def replaced():
            meanwhile()
            return (self.c.owner(self.SLOT) or node).id != node.id
        until(replaced, 30, pause=0.05)

        def go_on():
            node.signal(signal.SIGCONT)
            until(lambda: self.c.settled(), 30)
        return go_on

    def test_what_it_was_asked_is_answered(self):
        # when the master is replaced, some commands for it have no answer yet
        d = self.daemon(conf="redis: { timeout: 30s }\n")
        asked = []

        def ask():
            asked.append(self.conn(d))
            asked[-1].ask("LOCKINFO", "counter:0")
        at = "%d,state=failed" % self.c.owner(self.SLOT).port
        go_on = self.stopped(ask)
        # the daemon, too, knows the move ...
        until(lambda: "slots moved" in d.log() and at in d.cmd("INFO", "redis"), pause=0.05)
        # ... and would have closed the links to the old master by then
        within(lambda: d.info("redis")["redis_links"] == "9", 3)
        go_on()
        for c in asked:
            c.read()  # any answer will do: a read without an answer fails
        self.assertGreater(len(asked), 20)

    def test_it_comes_back_old(self):
        """Two clients never hold a lock at the same time."""
        counting = Counting(self.two(CONF + "locks: { lease: %ds }\n" % (4 * harness.SLOW)), 6)
        self.addCleanup(counting.stop)

        def more():
            done = counting.done
            until(lambda: counting.done > done + 50, 60)
        for _ in range(2):
            more()
            go_on = self.stopped()
            more()
            go_on()
        more()
        self.assertEqual(counting.stop(), [])


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
        """
        The slot stays at its master, which loses a key while the slot is open: that does not prove a loss of the lock.
        """
        a, b = self.two(CONF + "locks: { lease: %ds }\n" % (8 * harness.SLOW))
        holder, other = self.conn(a), self.conn(b)
        token = holder.cmd("LOCK", "kept")
        self.assertIsInstance(token, int)
        slot = slot_of("kept")
        owner = self.c.owner(slot)
        to = next(n for n in self.c.nodes if n.is_master() and n.id != owner.id)
        to.cmd("CLUSTER", "SETSLOT", str(slot), "IMPORTING", owner.id)
        owner.cmd("CLUSTER", "SETSLOT", str(slot), "MIGRATING", to.id)
        refused = until(lambda: [r for r in [other.cmd("LOCK", "{kept}2", "WAIT", "100ms")]
                                 if "is being moved" in str(r)])
        self.assertTrue(refused)
        owner.cmd("DEL", "kept")
        until(lambda: a.info("stats")["renewals_failed"] != "0" or a.info("stats")["lost"] != "0")
        for node in (owner, to):
            node.cmd("CLUSTER", "SETSLOT", str(slot), "STABLE")
        until(lambda: self.not_given(other, "kept") or self.c.cmd("kept", "EXISTS", "kept") == 1)
        self.not_given(other, "kept")
        self.assertEqual(holder.cmd("LOCK", "kept", "ONCE"), token)
        self.assertEqual(holder.cmd("UNLOCK", "kept"), 0)
        self.assertEqual(a.info("stats")["lost"], "0")


class Freed(Case):
    """An operator deletes a lock: another owner takes it before its holder learns of that."""

    def a_generation(self, slot):
        """A generation begins in the slot, which keeps its data."""
        owner = self.c.owner(slot)
        other = next(n for n in self.c.masters_now() if n.id != owner.id)

        def bumped():
            """the master has a higher config epoch than before"""
            if owner.cmd("CLUSTER", "BUMPEPOCH").startswith("BUMPED"):
                return True
            other.cmd("CLUSTER", "BUMPEPOCH")  # the master has the highest config epoch: now another one has
            return False
        until(bumped, 20, pause=0.1)

    def test_the_later_lock_is_not_buried(self):
        a, b = self.two()
        former, later = self.conn(a), self.conn(b)
        self.assertIsInstance(former.cmd("LOCK", "kept"), int)
        self.c.cmd("kept", "DEL", "kept")
        token = later.cmd("LOCK", "kept", "WAIT", "20s")
        self.assertIsInstance(token, int)
        a.signal(signal.SIGSTOP)
        self.a_generation(slot_of("kept"))
        until(lambda: int(b.info("stats")["reclaims"]) > 0, 20)
        a.signal(signal.SIGCONT)
        until(lambda: a.info("stats")["lost"] == "1", 20)
        self.assertTrue(str(former.cmd("UNLOCK", "kept")).startswith("LOST"))
        self.assertEqual(later.cmd("LOCK", "kept", "ONCE", "WAIT", "20s"), token)
        self.assertEqual(later.cmd("UNLOCK", "kept"), 0)
        self.assertEqual(b.info("stats")["lost"], "0")


if __name__ == "__main__":
    harness.main()
