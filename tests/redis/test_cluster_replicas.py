#!/usr/bin/env python3
"""Grants in a cluster that replicas have to acknowledge (`replicas` of a rule): each master's own replicas are asked.
Nodes are real; replicas are stopped, killed and continued, slots move, masters die.
"""
import signal

import clusters
from clusters import STEADY, Cluster, Shared, slot_of
from harness import main, until
from scripted import REPLICAS, embed
from test_replicas import Acknowledged
from test_sentinel_switch import Counting

CONF = """redis: { timeout: %s, backoff_max: 200ms }
locks: { lease: %s }
rules:
- { match: "one/*", replicas: 1 }
- { match: "two/*", replicas: 2 }
- { match: "*/one", replicas: 1 }
"""
NODE = embed("node")
KINDS = ("reentrant", "simple", "counter", "fair", "rw", "semaphore", "fenced")


class Replicas(clusters.Case, Acknowledged):
    """Three masters, each with one replica."""

    CLUSTER = Shared()

    def begin(self, timeout="800ms", lease="4s"):
        self.d = self.daemon(conf=CONF % (timeout, lease))
        until(self.in_step)
        return self.conn(self.d)

    def in_step(self):
        """every replica acknowledges a write of its master"""
        for node in self.c.masters_now():
            with node.conn() as c:
                c.cmd("SET", self.name_at(node, "step/%d"), "1", "PX", "1")
                if c.cmd("WAIT", "1", "1000") < 1:
                    return False
        return True

    def name_at(self, node, pattern):
        """A name whose slot this master has."""
        owners = self.c.owners()
        return next(pattern % i for i in range(1000) if owners[slot_of(pattern % i)] is node)

    def pause(self, node):
        node.signal(signal.SIGSTOP)
        self.addCleanup(node.signal, signal.SIGCONT)

    @staticmethod
    def own_key(node, slot, end):
        return next(key for key in node.cmd("CLUSTER", "GETKEYSINSLOT", str(slot), "1000")
                    if key.startswith("rlock:") and key.endswith(end))

    def bump(self, node):
        """Gives the node another config epoch. Redis refuses that to the node with the highest one."""
        next(other for other in self.c.masters_now() if other is not node).cmd("CLUSTER", "BUMPEPOCH")
        until(lambda: node.cmd("CLUSTER", "BUMPEPOCH").startswith("BUMPED"))

    def is_free(self, name):
        """no key of it is left in Redis"""
        until(lambda: self.c.cmd(name, "EXISTS", name) == 0)

    def waiting(self, node):
        """the id of the client of the node that is blocked in WAIT"""
        for line in node.cmd("CLIENT", "LIST").split("\n"):
            if "cmd=wait" in line and "flags=b" in line:
                return int(line.split()[0].split("=")[1])
        return None


class Enough(Replicas):
    def test_they_have_it_when_the_client_is_told(self):
        c = self.begin()
        replica = {node.id: self.c.replica_of(node) for node in self.c.masters_now()}
        asked = set()
        for i in range(40):
            self.assertEqual(c.map("LOCK", "one/%d" % i, "FULL")["replicas"], 1)
            owner = self.c.owner(slot_of("one/%d" % i))
            with replica[owner.id].conn() as r:
                self.assertEqual(r.cmd("READONLY"), "OK")
                self.assertEqual(r.cmd("EXISTS", "one/%d" % i), 1)
            asked.add(owner.id)
        self.assertEqual(len(asked), 3)

    def test_no_connection_waits_before_a_rule_needs_one(self):
        c = self.begin()
        self.assertGreater(c.cmd("LOCK", "a"), 0)
        links = int(self.d.info("redis")["redis_links"])
        self.assertEqual(self.count("replica_waits"), 0)
        self.assertGreater(c.cmd("LOCK", "one/a"), 0)
        self.assertEqual(int(self.d.info("redis")["redis_links"]), links + 1)  # at the master of that slot

    def test_many_share_a_wait(self):
        c = self.begin()
        for i in range(500):
            c.ask("LOCK", "one/%d" % i, "OWNER", i)
        self.assertEqual([c.read() > 0 for _ in range(500)], [True] * 500)
        self.assertLess(self.count("replica_waits"), 250)
        for i in range(500):
            c.ask("UNLOCK", "one/%d" % i, "OWNER", i)
        self.assertEqual([c.read() for _ in range(500)], [0] * 500)

    def test_all_kinds(self):
        c = self.begin()
        for kind in KINDS:
            self.assertEqual(c.map("LOCK", "one/" + kind, "KIND", kind, "FULL")["replicas"], 1)
        for kind in KINDS:
            self.assertEqual(c.cmd("UNLOCK", "one/" + kind), 0)


class TooFew(Replicas):
    def test_there_is_only_one(self):
        c = self.begin()
        for kind in KINDS:
            self.is_refused(c.cmd("LOCK", "two/" + kind, "KIND", kind, "NOWAIT"), 1, 2)
            if kind != "semaphore":  # its number of free permits stays there
                self.is_free("two/" + kind)
        until(lambda: self.c.cmd("two/semaphore", "GET", "two/semaphore") in (None, "1"))
        self.assertGreaterEqual(self.count("replica_shortfalls"), len(KINDS))

    def test_one_hangs_and_others_go_on(self):
        c = self.begin()
        master, other = self.c.masters_now()[:2]
        here, there = self.name_at(master, "one/%d"), self.name_at(other, "one/%d")
        replica = self.c.replica_of(master)
        self.pause(replica)
        self.is_refused(c.cmd("LOCK", here, "NOWAIT"), 0, 1)
        self.is_free(here)
        self.assertEqual(c.cmd("UNLOCK", here), "NOTHELD this owner does not hold the lock")
        self.assertGreater(c.cmd("LOCK", there, "NOWAIT"), 0)
        self.assertGreater(c.cmd("LOCK", self.name_at(master, "by/%d"), "NOWAIT"), 0)
        answer = c.cmd("MLOCK", 2, "free", here, "NOWAIT")
        self.assertEqual(answer, 'NOREPLICAS too few replicas have acknowledged the lock in time: 0 of 1: "%s"' % here)
        self.is_free("free")
        self.is_free(here)
        c.ask("LOCK", here, "WAIT", "60s")
        n = self.count("replica_shortfalls")
        until(lambda: self.count("replica_shortfalls") >= n + 2)
        self.assertTrue(c.quiet())
        replica.signal(signal.SIGCONT)
        self.assertGreater(c.read(), 0)

    def test_one_is_killed(self):
        self.c = Cluster(self.dir, self._keep, args=STEADY)
        c = self.begin()
        master, other = self.c.masters_now()[:2]
        self.c.replica_of(master).kill()
        here, there = self.name_at(master, "one/%d"), self.name_at(other, "one/%d")
        self.is_refused(c.cmd("LOCK", here, "NOWAIT"), 0, 1)
        self.is_free(here)
        self.assertGreater(c.cmd("LOCK", there, "NOWAIT"), 0)


class Unknown(Replicas):
    """A grant whose acknowledgement is uncertain is never reported, and never makes a second holder."""

    def pending(self, name, timeout="40s"):
        """A LOCK that the master has granted and its replica has not acknowledged. A WAIT may take 10 s."""
        c = self.begin(timeout)
        self.assertGreater(c.cmd("LOCK", name), 0)  # all that a first use needs is there
        self.assertEqual(c.cmd("UNLOCK", name), 0)
        self.master = self.c.owner(slot_of(name))
        self.replica = self.c.replica_of(self.master)
        self.pause(self.replica)
        c.ask("LOCK", name, "WAIT", "60s")
        until(lambda: self.waiting(self.master))
        self.assertEqual(self.master.cmd("EXISTS", name), 1)
        return c

    def test_the_slot_is_opened_in_the_wait(self):
        c = self.pending("{open}/one")
        slot = slot_of("{open}/one")
        record = self.own_key(self.master, slot, ":epoch")
        before = self.master.cmd("GET", record)
        to = next(node for node in self.c.masters_now() if node is not self.master)
        self.assertEqual(to.cmd("CLUSTER", "SETSLOT", str(slot), "IMPORTING", self.master.id), "OK")
        self.assertEqual(self.master.cmd("CLUSTER", "SETSLOT", str(slot), "MIGRATING", to.id), "OK")
        until(lambda: self.master.cmd("GET", record) != before)  # the daemon has noticed it, and spoils the record
        self.replica.signal(signal.SIGCONT)
        until(lambda: self.waiting(self.master) is None)
        until(lambda: self.count("unknowns") > 0)
        self.assertTrue(c.quiet())
        for node in (self.master, to):
            self.assertEqual(node.cmd("CLUSTER", "SETSLOT", str(slot), "STABLE"), "OK")
        self.assertGreater(c.read(), 0)
        self.assertEqual(self.master.cmd("EXISTS", "{open}/one"), 1)

    def test_the_data_is_of_another_epoch_after_the_wait(self):
        c = self.pending("one/a")
        waits = self.count("replica_waits")
        self.bump(self.master)
        until(lambda: self.d.info("redis")["redis_grace"] == "1" or "grace" in self.d.log())
        self.replica.signal(signal.SIGCONT)
        self.assertGreater(c.read(), 0)
        self.assertGreater(self.count("unknowns"), 0)
        self.assertGreater(self.count("replica_waits"), waits)

    def test_the_link_is_lost_in_the_wait(self):
        c = self.pending("one/a")
        first = self.waiting(self.master)
        self.assertEqual(self.master.cmd("CLIENT", "KILL", "ID", first), 1)
        until(lambda: self.waiting(self.master) not in (None, first))
        self.assertGreater(self.count("unknowns"), 0)
        self.assertTrue(c.quiet())
        self.replica.signal(signal.SIGCONT)
        self.assertGreater(c.read(), 0)

    def test_the_write_checks_record_and_origin(self):
        """The script writes only in the data of the grant: same record, process, line of replication, config epoch."""
        c = self.begin()
        self.assertGreater(c.cmd("LOCK", "{a}/one"), 0)
        node = self.c.owner(slot_of("a"))
        clock, record = (self.own_key(node, slot_of("a"), end) for end in (":clock", ":epoch"))
        value = node.cmd("GET", record)
        origin = node.cmd("EVAL", NODE, 0)[2]

        def write(value, origin):
            return node.cmd("EVAL", REPLICAS, 2, clock, record, value, origin)
        self.assertEqual(write(value, origin), 1)
        self.assertEqual(write(value + "0", origin), 0)
        self.assertEqual(write(value, origin[::-1]), 0)
        self.bump(node)
        self.assertEqual(write(value, origin), 0)
        self.assertEqual(write(value, node.cmd("EVAL", NODE, 0)[2]), 1)
        replica = self.c.replica_of(node)
        self.assertIn("MOVED", replica.ask("EVAL", REPLICAS, 2, clock, record, value, origin))


class Moves(Replicas):
    def test_after_a_move_the_replicas_of_the_other_master_are_asked(self):
        c = self.begin()
        name = self.name_at(self.c.masters_now()[0], "{moves%d}/one")
        self.assertEqual(c.map("LOCK", name, "FULL")["replicas"], 1)
        self.assertEqual(c.cmd("UNLOCK", name), 0)
        to = next(node for node in self.c.masters_now() if node is not self.c.owner(slot_of(name)))
        self.c.move(slot_of(name), to)
        replica = self.c.replica_of(to)
        self.pause(replica)
        until(lambda: str(c.cmd("LOCK", name, "NOWAIT")).startswith("NOREPLICAS"))
        replica.signal(signal.SIGCONT)
        self.assertGreater(c.cmd("LOCK", name, "WAIT", "30s"), 0)


class Failover(Replicas):
    def test_what_was_acknowledged_survives_the_master(self):
        self.c = Cluster(self.dir, self._keep)
        c, other = self.begin(timeout="2s", lease="30s"), self.conn(self.d)
        master = self.c.masters_now()[0]
        name = self.name_at(master, "one/%d")
        replica = self.c.replica_of(master)
        full = c.map("LOCK", name, "ONCE", "FULL")
        self.assertEqual(full["replicas"], 1)
        master.kill()
        until(replica.is_master, 60)
        self.assertEqual(replica.cmd("EXISTS", name), 1)
        until(lambda: c.map("LOCK", name, "ONCE", "FULL")["token"] == full["token"])
        self.assertIsNone(other.cmd("LOCK", name, "NOWAIT"))
        fresh = self.name_at(replica, "one/new%d")  # the former master is no replica of it yet
        until(lambda: str(other.cmd("LOCK", fresh, "WAIT", "2s")).startswith("NOREPLICAS"), 60)

    def test_counting_goes_on_over_a_planned_failover(self):
        self.c = Cluster(self.dir, self._keep)
        daemons = [self.daemon(name=name, conf=CONF % ("1s", "4s")) for name in "ab"]
        counting = Counting(daemons, 6, names=["one/%d" % i for i in range(6)])  # slots of all masters
        self.addCleanup(counting.stop)
        until(lambda: counting.done > 30)
        master = self.c.owner(slot_of("one/0"))
        new = self.c.fail_over(master)
        self.assertIs(self.c.owner(slot_of("one/0")), new)
        with daemons[0].conn() as c:
            until(lambda: isinstance(c.cmd("LOCK", "one/0", "WAIT", "2s"), int), 60)
            self.assertEqual(c.cmd("UNLOCK", "one/0"), 0)
        done = counting.done
        until(lambda: counting.done > done + 30)
        self.assertEqual(counting.stop(), [])
        self.assertGreater(sum(int(d.info("stats")["replica_waits"]) for d in daemons), 60)


if __name__ == "__main__":
    main()
