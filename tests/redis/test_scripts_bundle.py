#!/usr/bin/env python3
"""test_scripts_bundle.py -- scripts/bundle.lua on nodes of a real cluster: usual names are done, all others are left.
"""
import shutil
import tempfile

import harness
from clusters import Cluster, slot_of
from scripted import LEASE, ME, OPEN, YOU, embed, value_of

BUNDLE = embed("bundle")
LEFT, DONE = 0, 1


class Bundles(harness.Case):
    """One cluster for all tests: each test finds it empty, with no slot open."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        directory = tempfile.mkdtemp(prefix="rlockd-bundle.")
        cls.addClassCleanup(shutil.rmtree, directory, True)
        cls.cluster = Cluster(directory, cls.keep_for_all, masters=2, replicas=0)

    @classmethod
    def keep_for_all(cls, process):
        cls.addClassCleanup(process.stop)
        return process

    def setUp(self):
        super().setUp()
        self.cluster.clear()
        self.node, self.other = self.cluster.masters
        self.c = self.conn(self.node)
        names, owners = ["n%d" % i for i in range(200)], self.cluster.owners()
        self.here = [n for n in names if owners[slot_of(n)] is self.node][:20]
        self.there = next(n for n in names if owners[slot_of(n)] is self.other)
        for n in self.here:
            self.set(n, "epoch", OPEN)

    @staticmethod
    def key(name, what):
        """The key of the slot's record or clock, with the name as the tag, which hashes to the slot."""
        return "rlock:{%s}:%s" % (name, what)

    def set(self, name, what, value):
        self.assertEqual(self.c.cmd("SET", self.key(name, what), value), "OK")

    def get(self, name, what="clock"):
        return self.c.cmd("GET", self.key(name, what))

    def now_us(self):
        s, us = self.c.cmd("TIME")
        return int(s) * 1000000 + int(us)

    def ask(self, verb, *names, kind="reentrant", actor=ME, guard=0, floor=0, reserve=0, lease=LEASE):
        """(token, expiry, outcome of each name); None: the guard was over for all."""
        actor = actor if kind == "reentrant" else value_of(actor)
        words = []
        for n in names:
            words += {"acquire": [n, OPEN, n, actor], "renew": [n, actor], "release": [n, actor, "ch:{%s}" % n]}[verb]
        r = self.c.cmd("EVAL", BUNDLE, 0, verb, kind, guard, floor, reserve, lease, 1, *words)
        self.assertIsInstance(r, list, r)
        return None if len(r) == 1 else (r[1], r[2], r[4:])

    def outcomes(self, *words, **more):
        return self.ask(*words, **more)[2]

    def test_all_is_usual(self):
        for kind in ("reentrant", "simple"):
            before = self.now_us()
            token, expiry, outcomes = self.ask("acquire", *self.here, kind=kind, reserve=7)
            self.assertEqual(outcomes, [DONE] * len(self.here), kind)
            self.assertTrue(before <= token <= self.now_us())
            self.assertEqual(expiry, token // 1000 + LEASE)
            for n in self.here:
                self.assertEqual(self.get(n), str(token + 7))
                self.assertEqual(self.c.cmd("PEXPIRETIME", n), expiry)
                if kind == "reentrant":
                    self.assertEqual(self.c.cmd("HGETALL", n), [ME, "1"])
                else:
                    self.assertEqual(self.c.cmd("GET", n), value_of(ME))
            _, later, outcomes = self.ask("renew", *self.here, kind=kind, lease=2 * LEASE)
            self.assertEqual(outcomes, [DONE] * len(self.here), kind)
            self.assertEqual({self.c.cmd("PEXPIRETIME", n) for n in self.here}, {later})
            with self.node.conn() as ear:
                ear.cmd("SSUBSCRIBE", "ch:{%s}" % self.here[3])
                outcomes = self.outcomes("release", *self.here, kind=kind)
                self.assertEqual(outcomes, [DONE + (n == self.here[3]) for n in self.here])
                self.assertEqual(ear.read()[2], "0")
                ear.cmd("SUNSUBSCRIBE", "ch:{%s}" % self.here[3])
            self.assertEqual([self.c.cmd("EXISTS", n) for n in self.here], [0] * len(self.here))

    def each(self, verb, bad, **more):
        """The call leaves this name and does all others."""
        outcomes = self.outcomes(verb, *self.here, **more)
        self.assertEqual(outcomes, [LEFT if n == bad else DONE for n in self.here])

    def test_a_name_that_is_taken_stays_as_it_is(self):
        bad = self.here[5]
        for kind, words in (("reentrant", ["HSET", bad, YOU, "1"]), ("simple", ["SET", bad, value_of(YOU)]),
                            ("reentrant", ["SET", bad, "x"]), ("simple", ["LPUSH", bad, "x"]),
                            ("reentrant", ["HSET", bad, ME, "1"]), ("simple", ["SET", bad, value_of(ME)])):
            self.c.cmd(*words)
            was = self.c.cmd("DUMP", bad)
            self.each("acquire", bad, kind=kind)
            self.assertEqual(self.c.cmd("DUMP", bad), was, words)
            self.assertEqual(self.c.cmd("PTTL", bad), -1)
            for n in self.here:
                self.c.cmd("DEL", n)

    def test_an_epoch_that_differs(self):
        bad = self.here[7]
        for value in ("other", None):
            self.c.cmd("DEL", self.key(bad, "epoch"))
            if value:
                self.set(bad, "epoch", value)
            self.each("acquire", bad)
            self.assertEqual(self.c.cmd("EXISTS", bad), 0)
            self.outcomes("release", *self.here)

    def test_a_clock_that_is_ahead_is_kept(self):
        bad, ahead = self.here[2], str(self.now_us() + 10 ** 9)
        self.set(bad, "clock", ahead)
        self.each("acquire", bad)
        self.assertEqual(self.get(bad), ahead)
        self.assertEqual(self.c.cmd("EXISTS", bad), 0)  # the call that follows, which may be refused, finds it free

    def test_a_clock_that_is_none(self):
        for words in (["SET", self.key(self.here[2], "clock"), "x"], ["LPUSH", self.key(self.here[2], "clock"), "x"]):
            self.c.cmd("DEL", self.key(self.here[2], "clock"))
            self.c.cmd(*words)
            was = self.c.cmd("DUMP", self.key(self.here[2], "clock"))
            self.each("acquire", self.here[2])
            self.assertEqual(self.c.cmd("DUMP", self.key(self.here[2], "clock")), was)
            self.assertEqual(self.c.cmd("EXISTS", self.here[2]), 0)
            self.outcomes("release", *self.here)

    def test_two_names_of_one_slot_have_two_tokens(self):
        n = self.here[0]
        outcomes = self.outcomes("acquire", n, n)
        self.assertEqual(outcomes, [DONE, LEFT])
        words = [n, OPEN, "{%s}2" % n, ME]
        r = self.c.cmd("EVAL", BUNDLE, 0, "acquire", "reentrant", 0, self.now_us() - 10 ** 6, 0, LEASE, 1, *words)
        self.assertEqual(r[4:], [DONE])
        self.assertEqual(self.get(n), str(r[1]))

    def test_a_token_is_above_all_that_is_known(self):
        floor = self.now_us() + 10 ** 7
        token, _, outcomes = self.ask("acquire", *self.here, floor=floor)
        self.assertEqual((token, set(outcomes)), (floor + 1, {DONE}))

    def test_no_reserve_ahead_of_time(self):
        """
        Else a daemon whose next floor is above each reserve moves the token clocks ahead of time, as fast as it asks.
        """
        # the last one: Redis's clock went back
        for ahead, reserve in ((-10 ** 6, 50), (500 * 1000, 0), (10 ** 12, 50)):
            words = [w for n in self.here for w in (n, OPEN, n, ME)]
            floor = self.now_us() + ahead
            r = self.c.cmd("EVAL", BUNDLE, 0, "acquire", "reentrant", 0, floor, 50, LEASE, 1, *words)
            self.assertEqual((r[3], set(r[4:])), (reserve, {DONE}), ahead)
            self.assertEqual(self.get(self.here[0]), str(r[1] + reserve))
            self.assertEqual(set(self.outcomes("release", *self.here)), {DONE})

    def test_too_late(self):
        self.assertIsNone(self.ask("acquire", *self.here, guard=self.now_us() - 1))
        self.assertEqual([self.c.cmd("EXISTS", n) for n in self.here], [0] * len(self.here))
        self.assertIsNotNone(self.ask("acquire", *self.here, guard=self.now_us() + 10 ** 7))

    def test_what_is_not_the_owners(self):
        bad = self.here[4]
        for kind in ("reentrant", "simple"):
            self.outcomes("acquire", *self.here, kind=kind)
            self.c.cmd("DEL", bad)
            self.c.cmd(*(["HSET", bad, YOU, "1"] if kind == "reentrant" else ["SET", bad, value_of(YOU) + "x"]))
            was = self.c.cmd("DUMP", bad)
            self.each("renew", bad, kind=kind, lease=2 * LEASE)
            self.each("release", bad, kind=kind)
            self.assertEqual(self.c.cmd("DUMP", bad), was)
            self.c.cmd("DEL", bad)

    def test_a_lease_that_is_longer_already(self):
        self.outcomes("acquire", *self.here, lease=3 * LEASE)
        was = self.c.cmd("PEXPIRETIME", self.here[0])
        self.assertEqual(set(self.outcomes("renew", *self.here)), {LEFT})
        self.assertEqual(self.c.cmd("PEXPIRETIME", self.here[0]), was)

    def test_a_slot_of_another_node(self):
        names = [*self.here[:3], self.there, *self.here[3:]]
        for verb in ("acquire", "renew", "release"):
            outcomes = self.outcomes(verb, *names, lease=LEASE if verb == "acquire" else 2 * LEASE)
            self.assertEqual(outcomes, [LEFT if n == self.there else DONE for n in names])
        self.assertEqual(self.other.cmd("EXISTS", self.there), 0)

    def open(self, name):
        """
        Opens the slot of the name, as if it moved to the other node; the end of the test closes it, and nothing has
        moved.
        """
        slot = slot_of(name)
        for n in (self.node, self.other):
            self.addCleanup(n.cmd, "CLUSTER", "SETSLOT", str(slot), "STABLE")
        self.addCleanup(self.other.cmd, "FLUSHALL")
        self.assertEqual(self.other.cmd("CLUSTER", "SETSLOT", str(slot), "IMPORTING", self.node.id), "OK")
        self.assertEqual(self.node.cmd("CLUSTER", "SETSLOT", str(slot), "MIGRATING", self.other.id), "OK")

    def test_an_open_slot(self):
        bad = self.here[6]
        self.open(bad)
        self.each("acquire", bad)  # only the other node may know whether the name is free
        self.outcomes("release", *self.here)
        for key in (bad, self.key(bad, "epoch"), self.key(bad, "clock")):
            self.assertEqual(self.c.cmd("EXISTS", self.key(self.here[0], "epoch")), 1)
            self.c.cmd("MIGRATE", "127.0.0.1", str(self.other.port), key, "0", "5000")
        self.each("acquire", bad)
        self.each("renew", bad, lease=2 * LEASE)
        self.each("release", bad)

    def test_a_held_name_in_an_open_slot(self):
        self.outcomes("acquire", *self.here)
        self.open(self.here[6])
        self.assertEqual(set(self.outcomes("renew", *self.here, lease=2 * LEASE)), {DONE})
        self.assertEqual(set(self.outcomes("release", *self.here)), {DONE})

    def test_a_full_redis(self):
        self.outcomes("acquire", *self.here[:3])
        self.addCleanup(self.node.cmd, "CONFIG", "SET", "maxmemory", "0")
        self.c.cmd("CONFIG", "SET", "maxmemory", "1")
        self.assertEqual(self.outcomes("acquire", *self.here[3:6]), [LEFT] * 3)
        self.assertEqual(self.outcomes("renew", *self.here[:3], lease=2 * LEASE), [DONE] * 3)
        self.assertEqual(self.outcomes("release", *self.here[:3]), [DONE] * 3)

    def test_an_acl_that_forbids_keys(self):
        bad = self.here[9]
        self.c.cmd("ACL", "SETUSER", "u", "on", "nopass", "+@all", "allchannels",
                   *["~%s" % n for n in self.here if n != bad], "~rlock:*")
        self.addCleanup(self.node.cmd, "ACL", "DELUSER", "u")
        self.assertEqual(self.c.cmd("AUTH", "u", "x"), "OK")
        self.each("acquire", bad)
        self.each("renew", bad, lease=2 * LEASE)
        self.each("release", bad)


if __name__ == "__main__":
    harness.main()
