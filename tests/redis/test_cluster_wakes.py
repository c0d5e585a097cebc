#!/usr/bin/env python3
"""Wake-ups in a cluster, with timers too late to explain a grant (rules W1 to W5): subscribers at replicas, lost
subscriptions, open slots, and where subscribers are counted before a lock stays at a daemon.
"""
import re
import signal

import clusters
import harness
from clusters import slot_of
from harness import until
from moving import answered

# Leases end later than any wait here.
CONF = "redis: { timeout: 2s }\nmax_poll: 1h\nlocks: { lease: %ds }\n" % (30 * harness.SLOW)
CHANNEL = "redisson_lock__channel:{%s}"


class Case(clusters.Case):
    CONF = CONF

    def owner(self, name):
        return self.c.owner(slot_of(name))

    def elsewhere(self, name):
        """A master that does not own the slot of the name."""
        return next(n for n in self.c.masters_now() if n.id != self.owner(name).id)

    def listeners(self, name):
        return self.owner(name).cmd("PUBSUB", "SHARDNUMSUB", CHANNEL % name)[1]

    def listens(self, node, name):
        """A client that is no daemon, subscribed at that node."""
        ear = node.conn()
        self.addCleanup(ear.close)
        self.assertEqual(ear.cmd("SSUBSCRIBE", CHANNEL % name), ["ssubscribe", CHANNEL % name, 1])
        return ear

    def held_and_requested(self, name):
        """One daemon has the lock, and a client of the other waits for it, subscribed: holder, waiter, token."""
        self.daemons = [self.daemon(which) for which in "ab"]
        holder, waiter = (self.conn(d) for d in self.daemons)
        token = answered(holder, "LOCK", name, "WAIT", "10s")
        self.assertIsInstance(token, int)
        waiter.ask("LOCK", name, "WAIT", "1h")
        until(lambda: self.listeners(name) == 1)
        return holder, waiter, token

    def given_to(self, holder, waiter, token, name="w3"):
        self.assertTrue(waiter.quiet())
        self.assertEqual(answered(holder, "UNLOCK", name), 0)
        self.assertGreater(waiter.read(), token)


class Listeners(Case):
    def test_at_a_replica(self):
        """
        The master does not count a subscriber at a replica, which receives the message of the UNLOCK all the same.
        """
        holder = self.conn(self.daemon("a"))
        ear = self.listens(self.c.replica_of(self.owner("w2")), "w2")
        self.assertEqual(self.listeners("w2"), 0)
        self.assertIsInstance(answered(holder, "LOCK", "w2", "WAIT", "10s"), int)
        self.assertEqual(holder.cmd("UNLOCK", "w2"), 0)
        self.assertEqual(ear.read()[:2], ["smessage", CHANNEL % "w2"])


class Plain(Case):
    """Waiters that use SUBSCRIBE, which only `redis.publish: both` wakes."""

    PREFIX = {"rw": "redisson_rwlock:", "semaphore": "redisson_sc:"}

    def both(self, more="", name="both"):
        conf = CONF.replace("redis: { ", "redis: { publish: both, ") + more
        return self.rlockd(redis=self.c.url(), conf=conf, name=name)

    def listens_plain(self, node):
        ear = node.conn()
        self.addCleanup(ear.close)
        self.assertEqual(ear.cmd("PSUBSCRIBE", "redisson_*"), ["psubscribe", "redisson_*", 1])
        return ear

    def received(self, ear, n):
        """The channels of the next n messages."""
        return [ear.read()[2] for _ in range(n)]

    def names_of(self, owner, n):
        """Names of that master, each in a different slot."""
        found = {}
        for i in range(1000):
            if len(found) < n and self.c.owner(slot_of("w6-%d" % i)).id == owner.id:
                found[slot_of("w6-%d" % i)] = "w6-%d" % i
        return sorted(found.values())

    def test_at_a_node_without_the_slot(self):
        name = "w6"
        ear, shard = self.listens_plain(self.elsewhere(name)), self.listens(self.owner(name), name)
        for d in (self.daemon("auto"), self.both()):
            c = self.conn(d)
            self.assertIsInstance(answered(c, "LOCK", name, "WAIT", "10s"), int)
            self.assertEqual(c.cmd("UNLOCK", name), 0)
            self.assertEqual(shard.read()[:2], ["smessage", CHANNEL % name])
            self.owner(name).cmd("PUBLISH", "redisson_mark", "")  # messages of one node stay in order
        self.assertEqual(self.received(ear, 3), ["redisson_mark", CHANNEL % name, "redisson_mark"])

    def test_of_each_kind(self):
        ear = self.listens_plain(self.elsewhere("w6"))
        c = self.conn(self.both())
        for kind in ("simple", "counter", "rw", "fenced", "semaphore"):
            name = "{w6}" + kind
            self.assertIsInstance(answered(c, "LOCK", name, "KIND", kind, "WAIT", "10s"), int)
            self.assertEqual(c.cmd("UNLOCK", name), 0)
            self.assertEqual(self.received(ear, 1), [self.PREFIX.get(kind, "redisson_lock__channel:") + name])

    def test_many_in_one_command(self):
        owner = self.owner("w6")
        ear, d = self.listens_plain(self.elsewhere("w6")), self.both()
        conns = {name: self.conn(d) for name in self.names_of(owner, 30)}
        for _ in range(2):  # the first time the node does not have the script yet, and the names leave one by one
            for name, c in conns.items():
                self.assertIsInstance(answered(c, "LOCK", name, "WAIT", "10s"), int)
            owner.cmd("CONFIG", "RESETSTAT")
            d.signal(signal.SIGSTOP)
            for name, c in conns.items():
                c.ask("UNLOCK", name)
            d.signal(signal.SIGCONT)
            self.assertEqual({c.read() for c in conns.values()}, {0})
            self.assertEqual(set(self.received(ear, 30)), {CHANNEL % name for name in conns})
        scripts = re.findall(r"cmdstat_eval(?:sha)?:calls=(\d+)", owner.cmd("INFO", "commandstats"))
        self.assertLess(sum(map(int, scripts)), 30)

    def test_counted_at_the_owner(self):
        """Both UNLOCK and the poll for a lingering lock count the subscriber."""
        for stat, more in (("handoff_yields", "handoff: { max: 0 }\n"),
                           ("linger_yields", "rules: [ { match: w6, linger: 1s } ]\n")):
            d = self.both(more, name=stat)
            c = self.conn(d)

            def yields(c=c, d=d, stat=stat):
                self.assertIsInstance(answered(c, "LOCK", "w6", "WAIT", "10s"), int)
                self.assertEqual(answered(c, "UNLOCK", "w6"), 0)
                return int(d.info("stats")[stat])
            self.assertEqual(yields(), 0)
            with self.owner("w6").conn() as ear:
                ear.cmd("SUBSCRIBE", CHANNEL % "w6")
                until(yields)
            d.stop()

    def test_a_release_that_publishes_only_there(self):
        """As a release by an old client, which rlockd learns by tracking."""
        waiter = self.conn(self.both("rules: [ { match: w6, tracking: true } ]\n"))
        self.c.cmd("w6", "HSET", "w6", "8743c9c0-95b2-4ea3-8a3d-3a3a3a3a3a3a:91", "1")
        waiter.ask("LOCK", "w6", "WAIT", "1h")
        until(lambda: self.listeners("w6") == 1)
        self.assertTrue(waiter.quiet())
        self.c.cmd("w6", "DEL", "w6")
        self.assertIsInstance(waiter.read(), int)


class Subscriptions(Case):
    def test_the_first_node_greets_late(self):
        """Its version, which decides the type of channels, is known before the map all the same."""
        self.CONF = CONF.replace("timeout: 2s", "timeout: 1m, connect_timeout: 1m")
        self.c.nodes[0].cmd("CLIENT", "PAUSE", str(int(700 * harness.SLOW)), "ALL")  # both daemons start meanwhile
        self.given_to(*self.held_and_requested("w3"))

    def test_the_connection_is_lost(self):
        holder, waiter, token = self.held_and_requested("w3")

        def ids():
            clients = self.owner("w3").cmd("CLIENT", "LIST").split("\n")
            return {line.split(" ")[0] for line in clients if " ssub=1" in line}
        before = ids()
        self.assertEqual(len(before), 1)
        self.owner("w3").cmd("CLIENT", "KILL", "ID", before.pop()[3:])
        until(lambda: self.listeners("w3") == 1)
        self.given_to(holder, waiter, token)

    def test_a_replica_takes_over(self):
        holder, waiter, token = self.held_and_requested("w3")
        new = self.c.fail_over(self.owner("w3"))
        until(lambda: new.cmd("PUBSUB", "SHARDNUMSUB", CHANNEL % "w3")[1] == 1)
        self.given_to(holder, waiter, token)

    def test_the_slot_and_the_last_waiter_leave_together(self):
        """
        The node has lost the slot when it reads SUNSUBSCRIBE: it ends the subscription unasked, and answers -MOVED.
        """
        self.CONF = CONF.replace("timeout: 2s", "timeout: %ds" % (20 * harness.SLOW))  # the node stops for a moment
        name = "w3"
        holder, waiter, token = self.held_and_requested(name)
        source, to = self.owner(name), self.elsewhere(name)
        other = next(n for n in ("w3-%d" % i for i in range(1000)) if self.owner(n).id == source.id)
        self.assertIsInstance(answered(holder, "LOCK", other, "WAIT", "10s"), int)
        operator, slot, b = source.conn(), str(slot_of(name)), self.daemons[1]
        self.addCleanup(operator.close)
        self.assertEqual(to.cmd("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id), "OK")
        self.assertEqual(source.cmd("CLUSTER", "SETSLOT", slot, "MIGRATING", to.id), "OK")
        for key in source.cmd("CLUSTER", "GETKEYSINSLOT", slot, "100"):
            source.cmd("MIGRATE", "127.0.0.1", str(to.port), key, "0", "5000")
        before = b.info("stats")
        source.signal(signal.SIGSTOP)
        operator.ask("CLUSTER", "SETSLOT", slot, "NODE", to.id)
        waiter.ask("CANCEL", name)
        self.assertIsNone(waiter.read())
        self.assertEqual(waiter.read(), 1)
        source.signal(signal.SIGCONT)
        self.assertEqual(operator.read(), "OK")
        self.assertEqual(to.cmd("CLUSTER", "SETSLOT", slot, "NODE", to.id), "OK")
        waiter.ask("LOCK", other, "WAIT", "1h")
        until(lambda: self.listeners(other) == 1)
        for key in ("redis_protocol_errors", "redis_disconnects"):
            self.assertEqual(b.info("stats")[key], before[key])
        self.given_to(holder, waiter, token, other)


class OpenSlots(Case):
    def released_in_the_middle(self, name, end):
        """
        The lock is given back at the target, by ASK, which wakes no subscriber at the source; then `end` closes the
        slot. The new generation that follows makes the waiter try again.
        """
        holder, waiter, token = self.held_and_requested(name)
        source, to = self.owner(name), self.elsewhere(name)
        self.assertEqual(to.cmd("CLUSTER", "SETSLOT", str(slot_of(name)), "IMPORTING", source.id), "OK")
        self.assertEqual(source.cmd("CLUSTER", "SETSLOT", str(slot_of(name)), "MIGRATING", to.id), "OK")
        self.assertEqual(source.cmd("MIGRATE", "127.0.0.1", str(to.port), name, "0", "5000"), "OK")
        self.assertEqual(answered(holder, "UNLOCK", name), 0)
        self.assertEqual(self.asking(to, "EXISTS", name), 0)
        self.assertTrue(waiter.quiet())
        end(source, to)
        self.assertGreater(waiter.read(), token)

    def asking(self, node, *words):
        with node.conn() as c:
            self.assertEqual(c.cmd("ASKING"), "OK")
            return c.cmd(*words)

    def test_it_moves(self):
        def end(source, to):
            for key in source.cmd("CLUSTER", "GETKEYSINSLOT", str(slot_of("w4")), "100"):
                source.cmd("MIGRATE", "127.0.0.1", str(to.port), key, "0", "5000")
            for node in (to, source):
                node.cmd("CLUSTER", "SETSLOT", str(slot_of("w4")), "NODE", to.id)
        self.released_in_the_middle("w4", end)

    def test_it_stays(self):
        def end(source, to):
            for node in (to, source):
                self.assertEqual(node.cmd("CLUSTER", "SETSLOT", str(slot_of("w4")), "STABLE"), "OK")
        self.released_in_the_middle("w4", end)


class Polls(Case):
    def test_listeners_are_counted_at_the_owner(self):
        """A lingering lock is given back when the poll finds another subscriber; also after its slot has moved."""
        d = self.daemon("a", CONF + "rules: [ { match: w5, linger: 1s } ]\n")
        c = self.conn(d)

        def yields():
            """the daemon has given a lingering lock back early (each call adds one that lingers)"""
            self.assertIsInstance(answered(c, "LOCK", "w5", "WAIT", "10s"), int)
            self.assertEqual(answered(c, "UNLOCK", "w5"), 0)
            return int(d.info("stats")["linger_yields"])
        self.assertEqual(yields(), 0)
        self.listens(self.owner("w5"), "w5")
        until(yields)
        self.c.move(slot_of("w5"), self.elsewhere("w5"))
        self.assertEqual(self.listeners("w5"), 0)  # the move has ended the subscription of the former subscriber
        until(lambda: "slots moved" in d.log())
        before = yields()
        self.listens(self.owner("w5"), "w5")
        until(lambda: yields() > before)


if __name__ == "__main__":
    harness.main()
