#!/usr/bin/env python3
"""A real partition of a cluster, between two network namespaces: a master and a daemon on one side, all other nodes and
another daemon on the other side (R2 of proto/SCRIPTS.md).
"""
import socket
import threading
import time
import unittest

import harness
from clusters import Cluster, slot_of
from harness import Case, Closed, Conn, RError, Rlockd, until, within
from moving import answered
from sentinels import Cable

LEASE = 4  # seconds
NODE_TIMEOUT_MS = 1500
CONF = "redis: { timeout: 500ms, connect_timeout: 500ms }\nlocks: { lease: %ds }\n" % LEASE


def patient(daemon):
    """A connection whose LOCK waits for a failover, and for a new generation of a slot."""
    return Conn(daemon.path, 60 * harness.SLOW)


class Holder:
    """A client of the daemon on the small side, which asks all the time whether it still has its lock."""

    def __init__(self, daemon, name):
        self.name, self.daemon = name, daemon
        # of the lock that it holds; the time of its last other grant; the time of LOST
        self.lease_end, self.granted, self.lost = 0, 0, None
        self.conn, self.other, self.ear = patient(daemon), patient(daemon), patient(daemon)
        self.ear.cmd("PSUBSCRIBE", "lock:*")
        self.token = answered(self.conn, "LOCK", name, "WAIT", "5s")
        self.ends = False
        self.threads = [threading.Thread(target=f) for f in (self.holds, self.grants, self.receives)]
        for t in self.threads:
            t.start()

    def holds(self):
        while not self.ends:
            sent = time.monotonic()
            answer = self.conn.cmd("LOCK", self.name, "ONCE", "NOWAIT", "FULL")
            if isinstance(answer, list) and harness.as_map(answer)["token"] == self.token:
                self.lease_end = max(self.lease_end, sent + harness.as_map(answer)["lease_ms"] / 1000)
            time.sleep(0.01)  # the client asks every 10 ms

    def grants(self):
        n = 0
        while not self.ends:
            n += 1
            if isinstance(self.other.cmd("LOCK", "%s-%d" % (self.name, n), "NOWAIT"), int):
                self.granted = time.monotonic()
            time.sleep(0.01)  # the client asks every 10 ms

    def receives(self):
        try:
            while not self.ends:
                event = self.ear.read()
                if event[-1].startswith("lost %d " % self.token):
                    self.lost = time.monotonic()
        except (OSError, Closed):
            pass  # stop() has ended it, or no event came for a minute

    def asks_no_more(self):
        """Its last requests have been answered."""
        self.ends = True
        for t in self.threads[:2]:
            t.join()

    def stop(self):
        self.asks_no_more()
        self.ear.sock.shutdown(socket.SHUT_RDWR)
        self.threads[2].join()
        for c in (self.ear, self.conn, self.other):
            c.close()


@unittest.skipUnless(Cable.allowed(), "no network namespaces here")
class Partition(Case):
    def part(self, serves):
        """
        Cuts off the first master and daemon a; returns when daemon b has granted the lock of a's client. `serves`: the
        node timeout of that master is so long that it serves during the whole partition.
        """
        self.cable = Cable(self)
        self.c = Cluster(self.dir, self._keep, args=("--cluster-node-timeout", str(NODE_TIMEOUT_MS)),
                         side=lambda i: self.cable.side(min(i, 1)))
        self.first = self.c.masters[0]
        self.tag = next(t for t in map(str, range(100)) if self.c.owner(slot_of(t)) is self.first)
        name = "{%s}x" % self.tag
        self.a, b = [self._keep(Rlockd(self.dir, redis=self.c.url(), conf=CONF, name="side-%d" % i,
                                       under=self.cable.under[i])) for i in range(2)]
        for daemon in (self.a, b):  # a daemon grants when it has registered at two anchors
            with patient(daemon) as c:
                self.assertIsInstance(answered(c, "LOCK", name, "WAIT", "20s"), int)
        if serves:
            self.assertEqual(self.first.cmd("CONFIG", "SET", "cluster-node-timeout", "600000"), "OK")
        self.holder, self.other = Holder(self.a, name), patient(b)
        self.addCleanup(self.holder.stop)
        self.addCleanup(self.other.close)
        until(lambda: self.holder.lease_end and self.holder.granted)
        self.cable.cut()
        self.cut = time.monotonic()
        self.token = self.token_after_the_cut(b, name)
        self.taken = time.monotonic()

    def token_after_the_cut(self, b, name):
        """The token of b's grant. If there is none in a minute, the failure has the answers of b and of all nodes."""
        said = []

        def granted():
            answer = self.other.cmd("LOCK", name, "WAIT", "2s")
            if not said or said[-1][1] != answer:
                said.append((time.monotonic() - self.cut, answer))
            return answer if isinstance(answer, int) else None
        token = within(granted, 60)
        if token is None:
            lines = ["b does not grant:", *("after %.1f s: %r" % pair for pair in said)]
            lines += [b.cmd("INFO", "redis"), "LOCKINFO: %r" % b.cmd("LOCKINFO", name)]
            for node in self.c.nodes:
                lines += ["%s: %s of %s ms" % (node.name, node.ask("TYPE", name), node.ask("PTTL", name)),
                          node.ask("CLUSTER", "NODES")]
            self.fail("\n".join(lines).replace("\r", ""))
        return token

    def it_has_one_holder_at_a_time(self):
        """The client of a learns that its lock ends, and a grants nothing any more, before b grants."""
        h = self.holder
        self.assertGreater(self.token, h.token)
        self.assertGreater(h.lease_end, self.cut)  # else the partition came too late to put the lock at risk
        self.assertLess(h.lease_end, self.taken)
        self.assertLess(h.granted, self.taken)
        until(lambda: h.lost)
        answer = self.a.cmd("LOCK", "{%s}y" % self.tag, "WAIT", "100ms")
        self.assertIsInstance(answer, RError)
        self.assertTrue(answer.startswith("UNAVAILABLE"), answer)

    def mended(self):
        """When the two sides meet again, b's client has the lock, and a grants it after that with a larger token."""
        self.holder.asks_no_more()  # else a request that waits for Redis may be granted what b's client gives back
        self.cable.mend()
        until(self.c.settled, 60, pause=0.05)
        self.assertFalse(self.first.is_master())
        self.assertEqual(answered(self.other, "LOCK", self.holder.name, "ONCE"), self.token)
        self.assertEqual(answered(self.other, "UNLOCK", self.holder.name), 0)
        with patient(self.a) as c:
            token = answered(c, "LOCK", self.holder.name, "WAIT", "20s")
            self.assertIsInstance(token, int, self.a.cmd("LOCKINFO", self.holder.name))
            self.assertGreater(token, self.token)

    def test_an_old_master_that_stops_by_its_node_timeout(self):
        self.part(serves=False)
        self.assertTrue(self.first.cmd("SET", "{%s}z" % self.tag, "1").startswith("CLUSTERDOWN"))
        self.it_has_one_holder_at_a_time()
        self.mended()

    def test_an_old_master_that_serves_on(self):
        """The daemon has to end the hold by itself."""
        self.part(serves=True)
        self.assertEqual(self.first.cmd("SET", "{%s}z" % self.tag, "1"), "OK")
        self.it_has_one_holder_at_a_time()
        self.mended()


if __name__ == "__main__":
    harness.main()
