#!/usr/bin/env python3
"""Broadcasts between the daemons of a cluster that get lost: what works without them, and what is repeated (rule
W6 of tests/README.md).
"""
import re
import select
import signal

import clusters
import harness
from clusters import slot_of
from harness import until
from moving import answered
from test_reload import LATE, OTHER_KEYS, may_not_subscribe, may_subscribe

FIRST = 2730  # the slot of the first anchor, whose master sends broadcasts on


class Case(clusters.Case):
    CONF = "redis: { timeout: 1s }\nmax_poll: 1h\nrules: [ { match: '*-lingers', linger: 1s } ]\n"

    def setUp(self):
        super().setUp()
        self.first = self.c.owner(FIRST)

    def two(self):
        """Two daemons, and a connection to each."""
        self.a, self.b = (self.daemon(name) for name in "ab")
        return self.conn(self.a), self.conn(self.b)

    def names(self, n):
        """n names of other masters than the master of the first anchor."""
        owners = self.c.owners()
        return [name for name in ("t%d" % i for i in range(1000)) if owners[slot_of(name)].id != self.first.id][:n]

    def taken(self, c, name):
        token = answered(c, "LOCK", name, "WAIT", "20s")
        self.assertIsInstance(token, int)
        return token

    def cross(self, one, two, x, y):
        """Each owner asks for the lock of the other owner."""
        one.ask("LOCK", y, "WAIT", "1h")
        two.ask("LOCK", x, "WAIT", "1h")

    def assert_deadlock(self, *conns):
        """
        One of them gets -DEADLOCK within seconds: a search that is lost is repeated when the wait is twice as old. The
        limit is 45 s on any machine: a replica takes over from a master that stands still for 60 s (STEADY).
        """
        ready, _, _ = select.select(conns, [], [], min(40 * harness.SLOW, 45))
        self.assertEqual(len(ready), 1)
        self.assertIn("DEADLOCK", str(ready[0].read()))

    def assert_all_else_goes_on(self, one, two, name):
        """A waiter gets a lock after UNLOCK, also a lock that lingers at another daemon; and a grace period ends."""
        for lock in (name, "{%s}-lingers" % name):
            token = self.taken(one, lock)
            two.ask("LOCK", lock, "WAIT", "1h")
            self.assertEqual(answered(one, "UNLOCK", lock), 0)
            self.assertGreater(two.read(), token)
        token = answered(two, "LOCK", name, "ONCE")
        to = next(n for n in self.c.masters_now() if n.id not in (self.first.id, self.c.owner(slot_of(name)).id))
        self.c.move(slot_of(name), to)
        self.taken(one, "{%s}2" % name)
        self.assertEqual(answered(two, "LOCK", name, "ONCE"), token)


class Begun(Case):
    def test_all_learn_of_a_generation(self):
        """The broadcast has the number of the slot's record. Other generations may have begun before it."""
        one, _ = self.two()
        name = self.names(1)[0]
        self.taken(one, name)
        tag = self.c.owner(FIRST).cmd("KEYS", "rlock:*:seen")[0].split("{")[1].split("}")[0]
        subscriber = self.first.conn()
        self.addCleanup(subscriber.close)
        self.assertEqual(subscriber.cmd("SSUBSCRIBE", "rlock:{%s}:deadlock" % tag)[0], "ssubscribe")
        to = next(n for n in self.c.masters_now() if n.id not in (self.first.id, self.c.owner(slot_of(name)).id))
        self.c.move(slot_of(name), to)
        self.taken(one, "{%s}2" % name)
        begun = {"+" + to.cmd("GET", key).split()[0] for key in to.cmd("KEYS", "rlock:*:epoch")}
        while subscriber.read()[2] not in begun:  # read() fails when no more messages come
            pass


class Forbidden(Case):
    """The daemons may not use the channels of broadcasts."""

    def setUp(self):
        super().setUp()
        for node in self.c.nodes:
            self.assertEqual(node.cmd("ACL", "SETUSER", "default", "resetchannels", "&redisson_*"), "OK")
            self.addCleanup(node.cmd, "ACL", "SETUSER", "default", "allchannels")

    def refused(self):
        """broadcasts have been refused"""
        stats = "".join(n.cmd("INFO", "commandstats") for n in self.c.masters_now())
        return any(int(n) > 0 for n in re.findall(r"cmdstat_spublish:.*?rejected_calls=(\d+)", stats))

    def test_all_else_goes_on(self):
        one, two = self.two()
        self.assert_all_else_goes_on(one, two, *self.names(1))
        self.assertTrue(self.refused())
        for d in (self.a, self.b):
            self.assertIn("deadlocks across daemons not detected", d.log())

    def test_a_deadlock_is_found_when_they_may(self):
        one, two = self.two()
        x, y = self.names(2)
        self.taken(one, x)
        self.taken(two, y)
        for node in self.c.nodes:
            node.cmd("CONFIG", "RESETSTAT")
        self.cross(one, two, x, y)
        until(self.refused)
        self.assertTrue(one.quiet() and two.quiet())
        for node in self.c.nodes:
            node.cmd("ACL", "SETUSER", "default", "allchannels")
            node.cmd("CLIENT", "KILL", "TYPE", "pubsub")
        self.assert_deadlock(one, two)


class OtherKeys(Case):
    """Two daemons that map names to different keys: both warn."""

    def test_one_subscribes_late(self):
        first = self.daemon("first")
        for node in self.c.nodes:
            may_not_subscribe(node)
            self.addCleanup(node.cmd, "ACL", "DELUSER", "late")
        second = self.daemon("second", LATE)
        until(lambda: "deadlocks across daemons not detected" in second.log())
        self.assertNotIn(OTHER_KEYS, second.log())
        for node in self.c.masters_now():
            may_subscribe(node)
        for d in first, second:
            until(lambda d=d: OTHER_KEYS in d.log())


class Lost(Case):
    def test_the_connections_that_listen_are_lost(self):
        one, two = self.two()
        x, y = self.names(2)
        self.taken(one, x)
        self.taken(two, y)
        self.cross(one, two, x, y)
        for node in self.c.nodes:
            node.cmd("CLIENT", "KILL", "TYPE", "pubsub")
        self.assert_deadlock(one, two)

    def test_a_replica_takes_over(self):
        one, two = self.two()
        x, y = self.names(2)
        self.taken(one, x)
        self.taken(two, y)
        self.c.fail_over(self.first)
        self.cross(one, two, x, y)
        self.assert_deadlock(one, two)


class Away(Case):
    """The master that sends broadcasts on stands still, and no replica takes over."""

    def test_a_deadlock_is_found_and_all_else_goes_on(self):
        one, two = self.two()
        x, y, z = self.names(3)
        self.taken(one, x)
        self.taken(two, y)
        self.addCleanup(self.first.signal, signal.SIGCONT)
        self.first.signal(signal.SIGSTOP)
        self.cross(one, two, x, y)
        self.assert_deadlock(one, two)
        self.assert_all_else_goes_on(self.conn(self.a), self.conn(self.b), z)


if __name__ == "__main__":
    harness.main()
