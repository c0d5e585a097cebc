#!/usr/bin/env python3
"""Bundles: names of many slots that go to a node of a cluster in one command, and what can go wrong with them there."""
import re
import signal

import clusters
import harness
from clusters import Shared, slot_of
from harness import until

YOU = "8743c9c0-95b2-4ea3-8a3d-3a3a3a3a3a3a:91"
N = 60


class Case(clusters.Case):
    CLUSTER = Shared(replicas=0)
    CONF = "redis: { timeout: 5s }\n"

    def setUp(self):
        super().setUp()
        self.d = self.daemon()
        self.names = ["name%d" % i for i in range(N)]
        self.assertGreater(len({slot_of(n) for n in self.names}), N - 5)
        self.conns = {n: self.conn(self.d) for n in self.names}
        self.together("LOCK", "WAIT", "20s")  # now the record of each slot is there
        self.tokens = self.together("UNLOCK")

    def together(self, command, *more):
        """
        Each connection sends the command, and the daemon reads all requests in one turn; returns the answers by name.
        """
        self.d.signal(signal.SIGSTOP)
        for n in self.names:
            self.conns[n].ask(command, n, *more)
        self.d.signal(signal.SIGCONT)
        return [self.conns[n].read() for n in self.names]

    def commands(self):
        """The number of calls for locks that the nodes have run."""
        return int(self.d.info("stats")["redis_calls"])

    def lock_all(self, *more):
        tokens = self.together("LOCK", *more)
        self.assertTrue(all(isinstance(t, int) for t in tokens), tokens)
        return tokens

    def holders(self):
        return [self.c.cmd(n, "HLEN", n) for n in self.names]


class Bundles(Case):
    def test_many_names_in_few_commands(self):
        before = self.commands()
        first = self.lock_all()
        self.assertEqual(self.holders(), [1] * N)
        self.assertEqual(self.together("UNLOCK"), [0] * N)
        until(lambda: self.holders() == [0] * N)
        # Besides heartbeats: one or two commands to each node for LOCK, and as many for UNLOCK.
        self.assertLess(self.commands() - before, N)
        second = self.lock_all()
        self.assertTrue(all(a < b for a, b in zip(first, second)))

    def test_kind_simple(self):
        before = self.commands()
        self.lock_all("KIND", "simple")
        self.assertEqual([self.c.cmd(n, "STRLEN", n) > 0 for n in self.names], [True] * N)
        self.assertEqual(self.together("UNLOCK"), [0] * N)
        until(lambda: not any(self.c.cmd(n, "EXISTS", n) for n in self.names))
        self.assertLess(self.commands() - before, N)

    def test_leases_that_differ(self):
        self.d.signal(signal.SIGSTOP)
        for i, n in enumerate(self.names):
            self.conns[n].ask("LOCK", n, "LEASE", "%ds" % (100 + i))
        self.d.signal(signal.SIGCONT)
        for n in self.names:
            self.assertIsInstance(self.conns[n].read(), int)
        for i, n in enumerate(self.names):
            self.assertTrue(60 + i < int(self.c.cmd(n, "PTTL", n)) / 1000 <= 100 + i, n)

    def test_some_are_taken(self):
        taken = self.names[::7]
        for n in taken:
            self.c.cmd(n, "HSET", n, YOU, "1")
            self.c.cmd(n, "PEXPIRE", n, "60000")
        answers = dict(zip(self.names, self.together("LOCK", "NOWAIT")))
        for n in self.names:
            self.assertEqual(answers[n] is None, n in taken, (n, answers[n]))
        self.assertEqual([self.c.cmd(n, "HGETALL", n) for n in taken], [[YOU, "1"]] * len(taken))

    def test_nodes_that_have_forgotten_their_scripts(self):
        for _ in range(2):
            for node in self.c.masters:
                self.assertEqual(node.cmd("SCRIPT", "FLUSH"), "OK")
            self.lock_all()
            self.assertEqual(self.together("UNLOCK"), [0] * N)
        before = self.commands()
        self.lock_all()
        self.assertLess(self.commands() - before, N // 2)

    def test_a_node_that_does_not_answer(self):
        """The outcome of its names is unknown, and each is asked for again when the node is back."""
        node = self.c.masters[1]
        node.signal(signal.SIGSTOP)
        self.d.signal(signal.SIGSTOP)
        for n in self.names:
            self.conns[n].ask("LOCK", n, "WAIT", "60s")
        self.d.signal(signal.SIGCONT)
        theirs = [n for n in self.names if self.c.masters[0].cmd("CLUSTER", "KEYSLOT", n) in range(5461, 10922)]
        self.assertGreater(len(theirs), 5)
        for n in self.names:
            if n not in theirs:
                self.assertIsInstance(self.conns[n].read(), int)
        until(lambda: "did not answer" in self.d.log() or "no answer" in self.d.log(), 20)
        node.signal(signal.SIGCONT)
        for n in theirs:
            self.assertIsInstance(self.conns[n].read(), int, n)
        self.assertEqual(self.holders(), [1] * N)


class Renewals(Case):
    """Held names are renewed by bundles as well."""
    CONF = "redis: { timeout: 5s }\nlocks: { lease: %ds }\n" % (6 * harness.SLOW)

    def scripts(self):
        """
        The number of scripts that the nodes have run: renewals, and two of the daemon's own each second. With all else
        that it sends, the calls of a long test would be more than its renewals.
        """
        return sum(int(n) for node in self.c.masters
                   for n in re.findall(r"cmdstat_evalsha:calls=(\d+)", node.cmd("INFO", "commandstats")))

    def test_renewals_in_few_commands(self):
        self.lock_all()
        stats, before = self.d.info("stats"), self.scripts()
        until(lambda: int(self.d.info("stats")["renewals"]) - int(stats["renewals"]) >= 3 * N, 60 * harness.SLOW)
        now = self.d.info("stats")
        renewals = int(now["renewals"]) - int(stats["renewals"])
        self.assertLess(self.scripts() - before, renewals // 2)
        self.assertEqual(self.holders(), [1] * N)
        self.assertEqual(now["lost"], stats["lost"])


if __name__ == "__main__":
    harness.main()
