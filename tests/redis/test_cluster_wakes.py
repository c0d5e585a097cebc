#!/usr/bin/env python3
"""Wake-ups in a cluster, where timers are too late to explain a grant (cluster.md W2 to W5): listeners at replicas,
subscriptions that are lost, open slots, and who is counted where before a lock stays here."""
import harness
from clusters import Shared, slot_of
from harness import until
from moving import answered

CONF = "redis: { timeout: 2s }\nmax_poll: 1h\n"  # leases of 30 s end behind the deadline of each wait here
CHANNEL = "redisson_lock__channel:{%s}"
SHARED = Shared()


def tearDownModule():
    SHARED.stop()


class Case(harness.Case):
    def setUp(self):
        super().setUp()
        self.c = SHARED.get()

    def daemon(self, name, more=""):
        return self.rlockd(redis=self.c.url(), conf=CONF + more, name=name)

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

    def held_and_wanted(self, name):
        """A lock of one daemon that a client of another one waits for, subscribed: holder, waiter, token."""
        holder, waiter = (self.conn(self.daemon(which)) for which in "ab")
        token = answered(holder, "LOCK", name, "WAIT", "10s")
        self.assertIsInstance(token, int)
        waiter.ask("LOCK", name, "WAIT", "1h")
        until(lambda: self.listeners(name) == 1)
        return holder, waiter, token

    def given_to(self, waiter, holder, name, token):
        self.assertTrue(waiter.quiet())
        self.assertEqual(answered(holder, "UNLOCK", name), 0)
        self.assertGreater(waiter.read(), token)


class Listeners(Case):
    def test_at_a_replica(self):
        """The master does not count it, and it hears of the UNLOCK all the same."""
        holder = self.conn(self.daemon("a"))
        ear = self.listens(self.c.replica_of(self.owner("w2")), "w2")
        self.assertEqual(self.listeners("w2"), 0)
        self.assertIsInstance(answered(holder, "LOCK", "w2", "WAIT", "10s"), int)
        self.assertEqual(holder.cmd("UNLOCK", "w2"), 0)
        self.assertEqual(ear.read()[:2], ["smessage", CHANNEL % "w2"])


class Subscriptions(Case):
    def test_the_connection_is_lost(self):
        holder, waiter, token = self.held_and_wanted("w3")

        def ids():
            clients = self.owner("w3").cmd("CLIENT", "LIST").split("\n")
            return {line.split(" ")[0] for line in clients if " ssub=1" in line}
        before = ids()
        self.assertEqual(len(before), 1)
        self.owner("w3").cmd("CLIENT", "KILL", "ID", before.pop()[3:])
        until(lambda: self.listeners("w3") == 1)
        self.given_to(waiter, holder, "w3", token)

    def test_a_replica_takes_over(self):
        holder, waiter, token = self.held_and_wanted("w3")
        new = self.c.fail_over(self.owner("w3"))
        until(lambda: new.cmd("PUBSUB", "SHARDNUMSUB", CHANNEL % "w3")[1] == 1)
        self.given_to(waiter, holder, "w3", token)


class OpenSlots(Case):
    def released_in_the_middle(self, name, end):
        """
        The lock is given back at the target, by ASK, which tells nobody at the source; then `end` closes the slot. It
        is the new generation behind that which lets the waiter try.
        """
        holder, waiter, token = self.held_and_wanted(name)
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
    def test_who_listens_is_counted_at_the_owner(self):
        """A lock that lingers is given back when the poll finds somebody else; also when its slot has moved."""
        d = self.daemon("a", "rules: [ { match: w5, linger: 1s } ]\n")
        c = self.conn(d)

        def yields():
            """locks that were given back early: one more has lingered by now"""
            self.assertIsInstance(answered(c, "LOCK", "w5", "WAIT", "10s"), int)
            self.assertEqual(answered(c, "UNLOCK", "w5"), 0)
            return int(d.info("stats")["linger_yields"])
        self.assertEqual(yields(), 0)
        self.listens(self.owner("w5"), "w5")
        until(yields)
        self.c.move(slot_of("w5"), self.elsewhere("w5"))
        self.assertEqual(self.listeners("w5"), 0)  # the one before was told that its channel is elsewhere
        until(lambda: "slots moved" in d.log())
        before = yields()
        self.listens(self.owner("w5"), "w5")
        until(lambda: yields() > before)


if __name__ == "__main__":
    harness.main()
