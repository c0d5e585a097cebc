#!/usr/bin/env python3
"""Locks in a switch to another master: kill, pause and partition of real servers. A partition is between two network
namespaces, where those are allowed.
"""
import os
import signal
import threading
import time
import unittest

import harness
from harness import Closed, RError, until
from sentinels import Cable, Deployment
from test_sentinel import Sentinels, nodes

SLOWLY = "redis: { timeout: 30s, connect_timeout: 1s }\nlocks: { lease: 4s }\n"  # a link outlasts a failover
SHORT = "redis: { timeout: 300ms, connect_timeout: 300ms }\nlocks: { lease: 3s }\n"


class Counting:
    """Clients that count under locks, without any other protection; two holders at once lose an update."""

    NAMES = tuple("counter:%d" % k for k in range(4))

    def __init__(self, daemons, clients, names=NAMES):
        self.names, self.done, self.wrong, self.stopped = names, 0, [], False
        self.counter = [0] * len(names)
        self.last = [0] * len(names)  # token
        self.mutex = threading.Lock()  # of `done` and `wrong` alone
        self.threads = [threading.Thread(target=self.run, args=(daemons[i % len(daemons)], i)) for i in range(clients)]
        for t in self.threads:
            t.start()

    def run(self, daemon, i):
        while not self.stopped:
            try:
                with daemon.conn() as c:
                    while not self.stopped:
                        self.count(c, i)
                        i += 1
            except (OSError, Closed) as e:
                if not self.stopped:
                    self.wrong.append("%s: %r" % (daemon.path, e))
                    return

    def count(self, c, i):
        k = i % len(self.names)
        token = c.cmd("LOCK", self.names[k], "WAIT", "1s")
        if not isinstance(token, int):
            return
        seen, before = self.counter[k], self.last[k]
        time.sleep(0.001)
        if token <= before:
            self.wrong.append("token %d behind %d" % (token, before))
        self.counter[k], self.last[k] = seen + 1, token
        with self.mutex:
            self.done += 1
        c.cmd("UNLOCK", self.names[k])

    def stop(self):
        self.stopped = True
        for t in self.threads:
            t.join()
        return self.wrong + (["%d counted, %d done" % (sum(self.counter), self.done)]
                             if sum(self.counter) != self.done else [])


class Switch(Sentinels):
    def two(self, conf=""):
        """Two daemons that know of each other."""
        pair = [self.daemon(conf=conf, name=name) for name in "ab"]
        for d in pair:
            until(lambda d=d: d.info("redis")["redis_other_daemons"] == "1")
        return pair

    def test_kill_with_lost_writes_and_the_old_one_back(self):
        self.d = Deployment(self, bounded=False)
        a, b = self.two()
        holder, other = self.conn(a), self.conn(b)
        kept = holder.cmd("LOCK", "kept")
        counting = Counting([a, b], 6)
        self.addCleanup(counting.stop)
        until(lambda: counting.done > 20)
        old = self.d.servers[0]
        self.d.cut_off(old)
        lost = holder.cmd("LOCK", "lost")
        self.assertEqual([r.cmd("EXISTS", "lost") for r in self.d.servers[1:]], [0, 0])
        old.kill()
        new = self.d.other(old)
        until(lambda: nodes(a)[0]["address"] == nodes(b)[0]["address"] == new.addr)
        for d in (a, b):
            rows = [(n["role"], n["address"], n["state"]) for n in nodes(d) if n["role"] != "sentinel"]
            self.assertEqual(sorted(address for _, address, _ in rows), sorted(s.addr for s in self.d.servers))
            self.assertIn(("replica", old.addr, "down"), rows)
        self.assertGreater(self.granted(other, "new"), lost)
        for name, token in (("kept", kept), ("lost", lost)):
            self.assertNotIsInstance(other.cmd("LOCK", name, "NOWAIT"), int)
            self.assertEqual(holder.cmd("LOCK", name, "ONCE"), token)

        # The former master comes back without data, as a master, until the sentinels change its role.
        old = self.d.replace(old, old.again())
        self.assertTrue(old.is_master())
        fresh = self.daemon(name="c")
        self.assertEqual(nodes(fresh)[0]["address"], new.addr)
        done = counting.done
        until(lambda: counting.done > done + 20)
        self.assertEqual(old.cmd("EXISTS", "rlock:epoch"), 0)
        self.assertEqual(holder.cmd("UNLOCK", "lost"), 0)
        self.assertGreater(self.granted(other, "lost"), lost)
        self.assertEqual(counting.stop(), [])

    def test_what_a_master_before_answers_does_not_count(self):
        """The former master stops with a LOCK of a, and goes on when another owner has the lock in the new master."""
        self.d = Deployment(self, bounded=False)
        a = self.daemon(conf=SLOWLY, name="a")
        old = self.d.servers[0]
        winner = self.conn(a)
        self.assertGreater(winner.cmd("LOCK", "y"), 0)
        old.signal(signal.SIGSTOP)
        winner.ask("LOCK", "x", "WAIT", "60s")
        self.assertEqual(a.cmd("PING"), "PONG")
        new = self.d.other(old)
        loser = self.conn(self.daemon(conf=SLOWLY, name="b"))
        loser.ask("LOCK", "x", "WAIT", "60s")
        until(lambda: not winner.quiet() or not loser.quiet(), deadline=20)
        if winner.quiet():
            winner, loser = loser, winner
        token = winner.read()
        old.signal(signal.SIGCONT)
        until(lambda: old.answers() and old.cmd("EXISTS", "x"))  # the command runs there all the same
        self.assertEqual(a.cmd("PING"), "PONG")  # a has read the answer, if it reads any
        self.assertTrue(loser.quiet())
        self.assertEqual(winner.cmd("LOCK", "x", "ONCE"), token)
        self.assertEqual(nodes(a)[0]["address"], new.addr)
        self.assertEqual(winner.cmd("UNLOCK", "x"), 0)
        self.assertGreater(loser.read(), token)

    def test_a_planned_switch(self):
        self.d = Deployment(self)
        a, b = self.two()
        holder = self.conn(a)
        token = holder.cmd("LOCK", "kept")
        counting = Counting([a, b], 6)
        self.addCleanup(counting.stop)
        until(lambda: counting.done > 20)
        old = self.d.servers[0]
        self.assertEqual(self.d.sentinels[1].cmd("SENTINEL", "FAILOVER", "m"), "OK")
        new = self.d.other(old)
        done = counting.done
        until(lambda: counting.done > done + 20)
        self.assertEqual(nodes(a)[0]["address"], new.addr)
        self.assertIn("master name=m address=%s before=%s\n" % (new.addr, old.addr), a.log())
        self.assertIn('lost address=%s reason="the data is at another server now"' % old.addr, a.log())
        self.assertEqual(holder.cmd("LOCK", "kept", "ONCE"), token)
        self.assertEqual(counting.stop(), [])


@unittest.skipUnless(Cable.allowed(), "no network namespaces here")
class Partition(Sentinels):
    """A master, a sentinel, a daemon and its holder on one side; replicas, two sentinels and a daemon on the other."""

    def overlap(self, bounded):
        """Whether the old holder still has the lock when the other side grants it."""
        cable = Cable(self)
        d = Deployment(self, bounded=bounded, name=str(bounded), sides=lambda kind, i: cable.side(min(i, 1)))
        old, new = [self._keep(harness.Rlockd(d.dir, redis=d.url(), conf=SHORT, name="side-%d" % i,
                                              under=cable.under[i])) for i in range(2)]
        for daemon in (old, new):
            until(lambda daemon=daemon: daemon.info("redis")["redis_other_daemons"] == "1")
        holder, other = self.conn(old), self.conn(new)
        token = holder.cmd("LOCK", "x")
        cable.cut()
        granted = self.granted(other, "x", deadline=40)
        kept = holder.cmd("LOCK", "x", "ONCE")
        self.assertGreater(granted, token)
        self.assertIn("1 of 3 sentinels answer", old.info("redis")["redis_refusal"])
        self.assertIsInstance(self.conn(old).cmd("LOCK", "y", "WAIT", "100ms"), RError)
        cable.mend()
        until(lambda: nodes(old)[0]["address"] == nodes(new)[0]["address"])
        self.assertEqual(other.cmd("LOCK", "x", "ONCE"), granted)
        return kept == token

    def test_an_old_master_ends_by_its_own_settings(self):
        """... and without them there are two holders."""
        two = {}
        sides = [threading.Thread(target=lambda b=b: two.update({b: self.overlap(b)})) for b in (True, False)]
        for t in sides:
            t.start()
        for t in sides:
            t.join()
        self.assertEqual(two, {True: False, False: True})


if __name__ == "__main__":
    harness.main()
