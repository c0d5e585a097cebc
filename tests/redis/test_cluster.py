#!/usr/bin/env python3
"""Locks in a Redis Cluster of real nodes: many slots, slots that move under held locks, required settings of nodes."""
import os
import re
import select
import signal
import time
import unittest

import clusters
import harness
from clusters import STEADY, Cluster, Node, slot_of
from harness import until, within
from moving import answered
from test_sentinel_switch import Counting

CONF = clusters.Case.CONF


class Case(clusters.Case):
    def target(self, name):
        """A master that does not own the slot of the name."""
        owner = self.c.owner(slot_of(name))
        return next(n for n in self.c.nodes if n.is_master() and n.id != owner.id)

    def listeners(self, key):
        return self.c.cmd(key, "PUBSUB", "SHARDNUMSUB", "redisson_lock__channel:{%s}" % key)[1]

    def plain_listeners(self, key):
        """The subscribers by SUBSCRIBE, at the owner of the slot."""
        return self.c.cmd(key, "PUBSUB", "NUMSUB", "redisson_lock__channel:{%s}" % key)[1]

    def holds(self, name):
        return self.c.cmd(name, "EXISTS", name)


class Slots(Case):
    def test_names_of_many_slots_in_one_turn(self):
        d = self.daemon()
        names = ["name%d" % i for i in range(60)]
        conns = {n: self.conn(d) for n in names}
        self.assertGreater(len({slot_of(n) for n in names}), 50)
        for _ in range(2):  # the second time all records are there: the names leave together
            d.signal(signal.SIGSTOP)
            for n in names:
                conns[n].ask("LOCK", n)
            d.signal(signal.SIGCONT)
            for n in names:
                self.assertIsInstance(conns[n].read(), int, n)
            self.assertEqual(sum(self.holds(n) for n in names[:20]), 20)
            self.assertEqual([conns[n].cmd("UNLOCK", n) for n in names], [0] * len(names))
        until(lambda: not any(self.holds(n) for n in names[:20]))
        self.assertEqual(d.info("stats")["redirects"], "0")

    def test_names_of_one_slot_share_a_call(self):
        d = self.daemon()
        self.assertIsInstance(self.conn(d).cmd("LOCK", "{s}"), int)
        conns = [self.conn(d) for _ in range(60)]
        d.signal(signal.SIGSTOP)
        for i, c in enumerate(conns):
            c.ask("LOCK", "{s}%d" % i)
        before = self.calls()
        d.signal(signal.SIGCONT)
        self.assertTrue(all(isinstance(c.read(), int) for c in conns))
        self.assertLess(self.calls() - before, 20)

    def calls(self):
        return sum(int(line.split("calls=")[1].split(",")[0]) for n in self.c.masters
                   for line in n.cmd("INFO", "commandstats").split("\r\n") if line.startswith("cmdstat_eval"))

    def test_several_names(self):
        c, other = (self.conn(self.daemon(name)) for name in "ab")
        tokens = c.cmd("MLOCK", "3", "m1", "m2", "m3")
        self.assertEqual(len({slot_of(n) for n in ("m1", "m2", "m3")}), 3)
        self.assertTrue(all(isinstance(t, int) for t in tokens), tokens)
        self.assertIsInstance(other.cmd("LOCK", "m0"), int)
        self.assertIsInstance(other.cmd("LOCK", "m4"), int)  # its daemon knows the slots from here on
        self.assertEqual(other.cmd("UNLOCK", "m4"), 0)
        self.assertIsNone(other.cmd("MLOCK", "2", "m4", "m2", "WAIT", "500ms"))
        until(lambda: not self.holds("m4"))
        self.assertEqual(c.cmd("MUNLOCK", "3", "m1", "m2", "m3"), [0, 0, 0])

    def test_a_key_whose_channel_is_in_another_slot(self):
        c = self.conn(self.daemon())
        for name in ("foo{", "{}x", "a}b"):
            self.assertIn("no hash tag", c.cmd("LOCK", name))

    def test_kinds(self):
        c = self.conn(self.daemon())
        for kind in ("reentrant", "simple", "counter", "fair", "rw", "fenced"):
            first = c.cmd("LOCK", kind, "KIND", kind)
            self.assertIsInstance(first, int, kind)
            self.assertEqual(c.cmd("UNLOCK", kind), 0, kind)
            self.assertGreater(c.cmd("LOCK", kind, "KIND", kind), first)


class First(Case):
    """The first LOCK in a slot waits until the slot's record is there, also with NOWAIT."""

    def test_of_many_slots(self):
        d = self.daemon(conf="redis: { timeout: 8s }\n")
        c = self.conn(d)
        for i in range(60):
            self.assertIsInstance(c.cmd("LOCK", "name%d" % i, "NOWAIT"), int, d.log())

    def test_by_two_daemons_at_once(self):
        """One daemon creates the record, and the other may reach the slot before the record is there."""
        conns = [self.conn(self.daemon(name, conf="redis: { timeout: 8s }\n")) for name in "ab"]
        for i in range(60):
            for k, c in enumerate(conns):
                c.ask("LOCK", "{%d}%d" % (i, k), "NOWAIT")
            for c in conns:
                self.assertIsInstance(c.read(), int)


class Waiters(Case):
    def test_a_waiter_at_another_daemon_is_woken(self):
        a, b = self.daemon("a"), self.daemon("b")
        holder, waiter = self.conn(a), self.conn(b)
        for name in ("w1", "w2", "w3", "w4"):
            token = holder.cmd("LOCK", name)
            waiter.ask("LOCK", name, "WAIT", "20s")
            until(lambda name=name: self.listeners(name) == 1)
            self.assertEqual(holder.cmd("UNLOCK", name), 0)
            self.assertGreater(waiter.read(), token)
        self.assertGreater(int(b.info("stats")["hints"]), 0)

    def test_the_slot_moves_under_a_waiter(self):
        a, b = self.daemon("a"), self.daemon("b")
        holder, waiter = self.conn(a), self.conn(b)
        token = holder.cmd("LOCK", "moving")
        waiter.ask("LOCK", "moving", "WAIT", "30s")
        until(lambda: self.listeners("moving") == 1)
        self.c.move(slot_of("moving"), self.target("moving"))
        until(lambda: self.listeners("moving") == 1)
        self.assertEqual(holder.cmd("UNLOCK", "moving"), 0)
        self.assertGreater(waiter.read(), token)

    def test_broadcasts_find_deadlocks(self):
        a, b = self.daemon("a"), self.daemon("b")
        one, two = self.conn(a), self.conn(b)
        self.assertIsInstance(one.cmd("LOCK", "x"), int)
        self.assertIsInstance(two.cmd("LOCK", "y"), int)
        one.ask("LOCK", "y", "WAIT", "20s")
        two.ask("LOCK", "x", "WAIT", "20s")
        self.assertIn("DEADLOCK", str(self.first_of(one, two)))

    def first_of(self, *conns):
        ready, _, _ = select.select(conns, [], [], harness.DEADLINE)
        return ready[0].read()


class Moves(Case):
    CONF = CONF + "locks: { lease: %ds }\n" % (3 * harness.SLOW)

    def test_renewed_and_freed_in_an_open_slot(self):
        self.renewed_and_freed(self.target("open"))

    def test_on_its_way_to_a_master_that_had_none(self):
        """
        As when a new node gets its first slots. ASK names the node by its host name, the map by its address, and the
        daemon may have requested the map last before the node joined.
        """
        self.c = Cluster(self.dir, self._keep, replicas=0, args=(
            *STEADY, "--cluster-announce-hostname", "localhost", "--cluster-preferred-endpoint-type", "hostname"))
        d = self.daemon(conf=self.CONF)
        to = self._keep(Node(self.dir, "new", args=self.c.nodes[0].words))
        self.c.join(to)
        self.renewed_and_freed(to, d)

    def renewed_and_freed(self, to, d=None):
        d = d or self.daemon(conf=self.CONF)
        c = self.conn(d)
        slot = slot_of("open")
        self.assertIsInstance(c.cmd("LOCK", "open"), int)
        self.assertIsInstance(c.cmd("LOCK", "{open}2"), int)
        self.c.move(slot, to, stop=lambda: self.while_open(d, c))
        self.assertEqual(self.c.owner(slot).id, to.id)
        until(lambda: isinstance(c.cmd("LOCK", "{open}3", "WAIT", "1s"), int))
        self.assertEqual(c.cmd("UNLOCK", "open"), 0)
        self.assertGreater(int(d.info("stats")["redirects"]), 0)

    def while_open(self, d, c):
        renewed = int(d.info("stats")["renewals"])
        until(lambda: int(d.info("stats")["renewals"]) > renewed + 6 * 2, 30)  # two leases of two locks
        self.assertEqual(d.info("stats")["lost"], "0")
        self.assertEqual(c.cmd("UNLOCK", "{open}2"), 0)
        refused = c.cmd("LOCK", "{open}new", "WAIT", "300ms")
        self.assertTrue(refused is None or "slot %d is being moved" % slot_of("open") in str(refused), refused)

    def test_kinds_with_side_keys_in_an_open_slot(self):
        """
        Auxiliary keys are at both nodes: locks are neither renewed nor freed, and no other owner gets them meanwhile.
        """
        d, slot, to = self.daemon(conf=self.CONF), slot_of("open"), self.target("open")
        kinds = ("fair", "semaphore", "rw", "fenced")
        held = {kind: self.conn(d) for kind in (*kinds, "reentrant")}
        token = {kind: c.cmd("LOCK", "{open}" + kind, "KIND", kind, "WAIT", "10s") for kind, c in held.items()}
        freed = self.conn(d)
        self.assertIsInstance(freed.cmd("LOCK", "{open}freed", "KIND", "fair", "WAIT", "10s"), int)
        source = self.c.owner(slot)
        self.assertEqual(to.cmd("CLUSTER", "SETSLOT", str(slot), "IMPORTING", source.id), "OK")
        self.assertEqual(source.cmd("CLUSTER", "SETSLOT", str(slot), "MIGRATING", to.id), "OK")
        for key in source.cmd("CLUSTER", "GETKEYSINSLOT", str(slot), "100"):
            source.cmd("MIGRATE", to.host, str(to.port), key, "0", "5000")
        self.assertIn("slot %d is being moved" % slot, str(freed.cmd("UNLOCK", "{open}freed")))
        until(lambda: int(d.info("stats")["lost"]) == len(kinds), 30)
        self.assertEqual(held["reentrant"].cmd("LOCK", "{open}reentrant", "ONCE"), token["reentrant"])
        self.assertNotIsInstance(freed.cmd("LOCK", "{open}fair", "KIND", "fair", "WAIT", "300ms"), int)
        for node in (to, source):
            self.assertEqual(node.cmd("CLUSTER", "SETSLOT", str(slot), "NODE", to.id), "OK")
        for kind in kinds:
            self.assertTrue(str(held[kind].cmd("UNLOCK", "{open}" + kind)).startswith("LOST"), kind)
            self.assertGreater(answered(freed, "LOCK", "{open}" + kind, "KIND", kind, "WAIT", "20s"), token[kind])
        self.assertEqual(held["reentrant"].cmd("UNLOCK", "{open}reentrant"), 0)

    def test_back_and_forth_under_load(self):
        daemons = [self.daemon(name) for name in "ab"]
        counting = Counting(daemons, 6)
        self.addCleanup(counting.stop)
        until(lambda: counting.done > 50)
        for i in range(4):
            name = "counter:%d" % (i % 2)
            self.c.move(slot_of(name), self.target(name))
            done = counting.done
            until(lambda done=done: counting.done > done + 50)
        self.assertEqual(counting.stop(), [])
        self.assertGreater(sum(int(d.info("stats")["redirects"]) for d in daemons), 0)


class Redirected(Case):
    NAMES = 100

    def names_of(self, owner):
        """Names of that master, each in a different slot."""
        owners, found, i = self.c.owners(), {}, 0
        while len(found) < self.NAMES:
            if owners[slot_of("m%d" % i)].id == owner.id:
                found.setdefault(slot_of("m%d" % i), "m%d" % i)
            i += 1
        return list(found.values())

    def give_away(self, at, slot, to):
        """
        From now on the owner redirects requests for the slot to another master, which does not know that it has the
        slot.
        """
        for key in at.cmd("CLUSTER", "GETKEYSINSLOT", str(slot), "10"):
            at.cmd("DEL", key)
        self.assertEqual(at.cmd("CLUSTER", "SETSLOT", str(slot), "NODE", to.id), "OK")

    def monitors(self):
        found = [n.conn() for n in self.c.nodes]
        for monitor in found:
            self.addCleanup(monitor.close)
            self.assertEqual(monitor.cmd("MONITOR"), "OK")
        return found

    def maps(self, monitors):
        """
        How often a daemon asked nodes for the map, without the CLUSTER NODES of node.lua (each node for its own slots).
        """
        n = 0
        for node, monitor in zip(self.c.nodes, monitors):
            node.cmd("ECHO", "the end")
            for line in iter(monitor.read, None):
                if '"the end"' in line:
                    break
                n += '"CLUSTER" "NODES"' in line and " lua]" not in line
        return n

    def test_the_map_is_requested_a_few_times_each_second(self):
        """Slots move one by one, each with a name that a client asks for; most moves are in no map that it has read."""
        source, to = self.c.masters_now()[:2]
        d = self.daemon()
        conns = {name: self.conn(d) for name in self.names_of(source)}
        for name, c in conns.items():
            self.assertIsInstance(c.cmd("LOCK", name, "WAIT", "20s"), int)
            self.assertEqual(c.cmd("UNLOCK", name), 0)
            self.addCleanup(source.cmd, "CLUSTER", "SETSLOT", str(slot_of(name)), "NODE", source.id)
        monitors, began = self.monitors(), time.monotonic()
        with source.conn() as node:
            for i, (name, c) in enumerate(conns.items()):
                self.give_away(node, slot_of(name), to)
                c.ask("LOCK", name, "WAIT", "200ms")
                # no redirect comes if a map that arrived before shows the move
                within(lambda i=i: int(d.info("stats")["redirects"]) > i, 0.1)
        for c in conns.values():
            self.assertNotIsInstance(c.read(), int)
        n, seconds = self.maps(monitors), time.monotonic() - began
        self.assertGreater(int(d.info("stats")["redirects"]), self.NAMES // 4)  # else the test would prove nothing
        self.assertGreater(n, 0)
        # one node of the URL and one master are asked, each every 100 ms at most
        self.assertLessEqual(n, 4 + 20 * seconds)


class Members(Case):
    def seen(self):
        """The uuids that are registered at the anchors, each once."""
        return [text.lstrip("?") for n in self.c.nodes if n.is_master() for key in n.cmd("KEYS", "rlock:*:seen")
                for text in n.cmd("ZRANGE", key, "0", "-1") if text != "#"]

    def test_a_daemon_that_stops_leaves(self):
        """Grace periods do not wait for the daemon any more."""
        d = self.daemon()
        uuid = d.info("server")["run_id"]
        c = self.conn(d)
        self.assertIsInstance(c.cmd("LOCK", "a"), int)
        self.assertEqual(self.seen().count(uuid), 3)
        self.assertEqual(d.stop(), 0)
        self.assertEqual(self.seen().count(uuid), 0)

    def test_a_full_redis(self):
        """Locks are renewed and freed at nodes without free memory."""
        d = self.daemon(conf=CONF + "locks: { lease: %ds }\n" % (3 * harness.SLOW))
        c = self.conn(d)
        names = ["a", "b", "c", "d"]
        for name in names:
            self.assertIsInstance(c.cmd("LOCK", name), int)
        for node in self.c.nodes:
            node.cmd("CONFIG", "SET", "maxmemory", "1")
            self.addCleanup(node.cmd, "CONFIG", "SET", "maxmemory", "0")
        renewed = int(d.info("stats")["renewals"])
        until(lambda: int(d.info("stats")["renewals"]) > renewed + 6 * len(names), 30)  # two leases
        self.assertEqual([c.cmd("UNLOCK", name) for name in names], [0] * len(names))
        self.assertEqual(d.info("stats")["lost"], "0")


class Shown(Case):
    def nodes(self, d):
        """{port: fields} of INFO redis."""
        return {int(fields["address"].rsplit(":", 1)[1]): fields for key, line in d.info("redis").items()
                if key.startswith("redis_node") and key != "redis_nodes"
                for fields in [dict(part.split("=", 1) for part in line.split(","))]}

    def test_nodes(self):
        d = self.daemon()
        until(lambda: [n["state"] for n in self.nodes(d).values()] == ["up"] * 6)
        seen = self.nodes(d)
        for node in self.c.nodes:
            fields = seen[node.port]
            has = sum(int(b or a) - int(a) + 1 for a, _, b in
                      (text.partition("-") for text in node.nodes()[node.id][1] if text[0] != "["))
            self.assertEqual(fields["role"], "master" if node.is_master() else "replica")
            self.assertEqual(int(fields["slots"]), has)
            self.assertEqual(int(fields["rtt_us"]) > 0, has > 0)
        self.assertEqual(sum(int(f["slots"]) for f in seen.values()), 16384)
        epochs = {f["epoch"] for f in seen.values() if f["role"] == "master"}
        self.assertEqual(len(epochs), 3)
        status, out, _ = self.run_words([harness.RLOCK, "-s", "unix:" + d.path, "redis"])
        self.assertEqual(status, 0)
        for fields in seen.values():
            self.assertRegex(out, r"(?m)^%s +%s .* %s slots$" % (fields["role"], fields["address"], fields["slots"]))

    def test_two_anchors_at_one_master(self):
        slot, to, back = 8191, self.c.owner(2730), self.c.owner(8191)
        d = self.daemon()
        self.assertEqual(sorted(f["anchors"] for f in self.nodes(d).values()), ["0", "0", "0", "1", "1", "1"])
        self.c.move(slot, to)
        try:
            until(lambda: "two anchors are at one master" in d.log(), 20)
            self.assertEqual(self.nodes(d)[to.port]["anchors"], "2")
        finally:
            self.c.move(slot, back)
        until(lambda: "each anchor is at a master of its own" in d.log(), 20)


class Rights(Case):
    WIDER = "rights reach beyond the keys of the rules"

    def test_those_of_the_readme_are_enough(self):
        with open(os.path.join(harness.TOP, "README.md")) as f:
            words = next(line for line in f if line.startswith("ACL SETUSER") and "+config|get" in line).split()
        for node in self.c.nodes:
            self.assertEqual(node.cmd(*words), "OK")
            self.addCleanup(node.cmd, "ACL", "DELUSER", words[2])
            node.cmd("CONFIG", "SET", "cluster-node-timeout", "15000")
            self.addCleanup(node.cmd, "CONFIG", "SET", "cluster-node-timeout", "60000")
        conf = CONF.replace("{ ", "{ user: %s, password: %s, " % (words[2], words[4].lstrip(">"))) + \
            "locks: { prefix: 'lock:' }\n"
        a, b = (self.daemon(name, conf) for name in "ab")
        one, two = self.conn(a), self.conn(b)
        for kind in ("reentrant", "simple", "counter", "fair", "rw", "fenced"):
            token = one.cmd("LOCK", kind, "KIND", kind)
            self.assertIsInstance(token, int, a.log())
            two.ask("LOCK", kind, "KIND", kind, "WAIT", "20s")
            if kind == "reentrant":
                until(lambda: self.listeners("lock:" + kind) == 1)
            self.assertEqual(one.cmd("UNLOCK", kind), 0)
            self.assertGreater(two.read(), token)
        self.assertNotIn("NOPERM", a.log() + b.log())
        self.assertNotIn("refused", a.log() + b.log())
        self.assertNotIn(self.WIDER, a.log() + b.log())
        self.assertGreater(int(b.info("stats")["hints"]), 0)

    def test_more_than_are_needed(self):
        """Each node has an ACL of its own: that of one master allows only the keys of the rules."""
        masters = [n for n in self.c.nodes if n.is_master()]
        d = self.daemon(conf=CONF + "locks: { prefix: 'lock:' }\n")
        until(lambda: d.log().count(self.WIDER) == len(masters))
        line = next(line for line in d.log().splitlines() if self.WIDER in line)
        enough = line.rstrip('"').split("ACL SETUSER default ")[1].split()
        master = masters[1]
        self.addCleanup(master.cmd, "ACL", "SETUSER", "default", "resetkeys", "~*")
        self.assertEqual(master.cmd("ACL", "SETUSER", "default", *enough), "OK")
        other = self.daemon("other", conf=CONF + "locks: { prefix: 'lock:' }\n")
        name = next(n for n in map(str, range(100)) if self.c.owner(slot_of("lock:" + n)) is master)
        self.assertIsInstance(answered(self.conn(other), "LOCK", name), int)
        until(lambda: other.log().count(self.WIDER) == len(masters) - 1)
        self.assertNotIn("%s address=redis://%s " % (self.WIDER, master.addr), other.log())

    def test_a_node_that_refuses_info(self):
        """
        No other node is asked for the version: until the node answers, rlockd uses only features of Redis 6, and logs
        that once.
        """
        node = self.c.replica_of(self.c.owner(0))
        self.assertEqual(node.cmd("ACL", "SETUSER", "default", "-info"), "OK")
        self.addCleanup(node.cmd, "ACL", "SETUSER", "default", "+@all")
        d = self.rlockd(redis="cluster:127.0.0.1:%d" % node.port, conf=CONF)
        c = self.conn(d)
        token = answered(c, "LOCK", "a")
        self.assertIsInstance(token, int)
        line = next(line for line in d.log().splitlines() if "is taken for Redis 6" in line)
        self.assertTrue(line.startswith("warn "), line)
        self.assertIn("127.0.0.1:%d" % node.port, line)
        self.assertIn("NOPERM", line)
        self.assertIn("+info", line)
        self.assertEqual(d.info("redis")["redis_last_error"],
                         "redis://127.0.0.1:%d: INFO is refused: allow it (+info)" % node.port)
        waiter = self.conn(d)
        self.conn(self.daemon("other")).cmd("LOCK", "b")
        waiter.ask("LOCK", "b", "WAIT", "60s")
        until(lambda: self.plain_listeners("b") == 1)
        self.assertEqual(self.listeners("b"), 0)
        d.advance("11s")
        until(lambda: node.cmd("ACL", "LOG")[0][1] >= 2)  # the daemon has asked again
        self.assertEqual(d.log().count("is taken for Redis 6"), 1)
        node.cmd("ACL", "SETUSER", "default", "+info")

        def known():
            """the version is known, without a restart"""
            d.advance("1s")
            return d.info("redis")["redis_last_error"] == "" and self.listeners("b") == 1
        until(known, pause=0.1)
        self.assertEqual(self.plain_listeners("b"), 0)
        self.assertIn("the version of the cluster is known address=redis://127.0.0.1:%d" % node.port, d.log())
        self.assertEqual(c.cmd("LOCK", "a"), token)  # it was held meanwhile
        self.assertEqual(c.cmd("UNLOCK", "a"), 1)
        ear = self.c.owner(slot_of("a")).conn()
        self.addCleanup(ear.close)
        ear.cmd("SSUBSCRIBE", "redisson_lock__channel:{a}")
        self.assertEqual(c.cmd("UNLOCK", "a"), 0)
        self.assertEqual(ear.read()[:2], ["smessage", "redisson_lock__channel:{a}"])


class NodeTimeout(Case):
    """A master that is cut off serves until its node timeout, which must be at most half of the longest lease."""

    def setUp(self):
        super().setUp()
        self.addCleanup(self.of_all, 60000)  # the timeout of the shared cluster
        self.of_all(20000)

    def of_all(self, ms):
        for node in self.c.nodes:
            self.assertEqual(node.cmd("CONFIG", "SET", "cluster-node-timeout", str(ms)), "OK")

    def test_too_long(self):
        plain = self.daemon("plain")
        strict = self.daemon("strict", conf=CONF.replace("{ ", "{ strict: true, "))
        c = self.conn(strict)
        why = "cluster-node-timeout (20000 ms) is longer than half of the longest lease (30000 ms)"
        until(lambda: plain.log().count("a master that is cut off may go on granting") == 3)
        self.assertIn(why, plain.log())
        self.assertIsInstance(self.conn(plain).cmd("LOCK", "a"), int)
        self.assertIn("strict: " + why, c.cmd("LOCK", "b", "WAIT", "300ms"))
        self.assertEqual(strict.info("redis")["redis_refusal"], "strict: " + why)
        self.c.owner(slot_of("b")).cmd("CONFIG", "SET", "cluster-node-timeout", "15000")
        until(lambda: isinstance(c.cmd("LOCK", "b", "WAIT", "1s"), int))
        elsewhere = next(n for n in map(str, range(100)) if self.c.owner(slot_of(n)) is not self.c.owner(slot_of("b")))
        self.assertIn(why, c.cmd("LOCK", elsewhere, "WAIT", "300ms"))
        self.of_all(15000)
        until(lambda: plain.log().count("a master that is cut off stops granting") == 3)
        until(lambda: isinstance(c.cmd("LOCK", elsewhere, "WAIT", "1s"), int))
        self.assertEqual(strict.info("redis")["redis_refusal"], "")

    def test_it_may_not_be_asked_for(self):
        for node in self.c.nodes:
            self.assertEqual(node.cmd("ACL", "SETUSER", "default", "-config|get"), "OK")
            self.addCleanup(node.cmd, "ACL", "SETUSER", "default", "+@all")
        plain = self.daemon("plain")
        strict = self.daemon("strict", conf=CONF.replace("{ ", "{ strict: true, "))
        why = "CONFIG GET is refused: allow it (+config|get)"
        until(lambda: why in plain.log())
        self.assertIsInstance(self.conn(plain).cmd("LOCK", "a"), int)
        self.assertIn("strict: " + why, self.conn(strict).cmd("LOCK", "b", "WAIT", "300ms"))


class Starts(Case):
    CONF = CONF + "log: { level: debug }\n"

    @staticmethod
    def warned(d):
        return [line for line in d.log().splitlines() if line.split(" ")[0] in ("warn", "error") and
                "a master that is cut off may go on" not in line]  # the node timeout is 60 s here

    def test_a_healthy_start_warns_of_nothing(self):
        for name in "ab":  # first a new cluster, then a cluster that was used before
            d = self.daemon(name)
            self.assertIsInstance(self.conn(d).cmd("LOCK", name), int)
            until(lambda: d.info("redis")["redis_links_up"] == "9")
            self.assertEqual(self.warned(d), [])

    @unittest.skipIf(harness.redis_major() < 7, "no node of Redis 6 drops packets on request")
    def test_a_replica_that_a_node_takes_for_a_master_is_no_reason(self):
        """
        As right after `redis-cli --cluster create`: the asked node has not learned yet that the new node is a replica.
        """
        debug = (*STEADY, "--enable-debug-command", "yes")
        self.c = Cluster(self.dir, self._keep, replicas=0, args=debug)
        new, asked = self._keep(Node(self.dir, "new", args=debug)), self.c.nodes[1]
        self.c.join(new)
        # neither receives PING, so neither answers PONG, from which the asked node would learn it
        for node in (new, asked):
            self.assertEqual(node.cmd("DEBUG", "DROP-CLUSTER-PACKET-FILTER", "0"), "OK")
        self.assertEqual(new.cmd("CLUSTER", "REPLICATE", self.c.nodes[0].id), "OK")
        d = self.rlockd(redis="cluster:" + asked.addr, conf=self.CONF)
        until(lambda: re.search("debug redis link failed address=redis://%s reason=.this node is no master" % new.addr,
                                d.log()))
        self.assertIsInstance(self.conn(d).cmd("LOCK", "a"), int)
        self.assertIn("master", asked.nodes()[new.id][0])
        self.assertEqual(self.warned(d), [])

    def test_unreachable_nodes_are_warned_of(self):
        port = harness.free_port()
        d = self.rlockd(redis="cluster:127.0.0.1:%d" % port, conf=self.CONF, wait=False)
        until(lambda: any("unreachable address=redis://127.0.0.1:%d " % port in line for line in self.warned(d)))

    def test_a_master_that_is_missed_is_warned_of(self):
        """No other node reports it as failed: their node timeout is 60 s."""
        self.c = Cluster(self.dir, self._keep, replicas=0, args=STEADY)
        self.c.nodes[2].kill()
        d = self.rlockd(redis="cluster:" + self.c.nodes[0].addr, conf=self.CONF)
        until(lambda: "warn redis unreachable address=redis://%s " % self.c.nodes[2].addr in d.log())


class Run(harness.Case):
    """`make run TOPOLOGY=cluster`, in a directory with the files of this one."""

    def test_run(self):
        p = self.make_run("cluster")
        output = {line.split(" #")[0].strip() for line in p.log().split("\n") if " # " in line}
        reshard, kill, info = (next(line for line in output if line.startswith(word))
                               for word in ("redis-cli --cluster reshard", "kill -9", "redis-cli -s"))
        with harness.Conn(os.path.join(self.dir, "build", "run", "rlockd.sock")) as c:
            tokens = {name: c.cmd("LOCK", name) for name in ("a", "b", "c", "d")}
            for line in (reshard, info, kill):
                status, out, err = self.run_words(["bash", "-euc", line])
                self.assertEqual(status, 0, (line, out, err))
            until(lambda: all(isinstance(c.cmd("LOCK", "{%s}2" % name, "WAIT", "1s"), int) for name in tokens), 40)
            for name, token in tokens.items():
                self.assertEqual(c.cmd("LOCK", name, "ONCE"), token)
            servers = [int(pid) for pid in re.findall(r"redis-server 127.0.0.1:(\d+) ", self.servers())]
            self.assertEqual(len(servers), 5)
        p.signal(signal.SIGINT)
        p.wait()
        until(lambda: self.servers() == "")

    def servers(self):
        """The command lines of the processes that serve from this directory."""
        out = ""
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.readlink("/proc/%s/cwd" % pid).startswith(os.path.join(self.dir, "build", "run", "cluster")):
                    with open("/proc/%s/cmdline" % pid) as f:
                        out += f.read().replace("\0", " ") + "\n"
            except OSError:
                continue
        return out


if __name__ == "__main__":
    harness.main()
