#!/usr/bin/env python3
"""Which nodes of a cluster are asked for its map, and whose answers count."""
import socket
import threading
import time

import harness
from clusters import STEADY, Cluster, Node, Shared, slot_of
from harness import Redis, until

CONF = "redis: { timeout: 1s, connect_timeout: 2s }\n"
SHARED = Shared()


def tearDownModule():
    SHARED.stop()


class Late:
    """A way to a port on which the first bytes need a while, as where connections are made over a long distance."""

    def __init__(self, port, seconds):
        self.to, self.seconds, self.open = port, seconds, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, far = self.listener.accept()[0], socket.create_connection(("127.0.0.1", self.to))
            except OSError:
                return
            self.open += [near, far]
            for a, b in ((near, far), (far, near)):
                threading.Thread(target=self.carry, args=(a, b), daemon=True).start()

    def carry(self, a, b):
        time.sleep(self.seconds)  # this is what the test is about
        try:
            while (some := a.recv(1 << 16)):
                b.sendall(some)
        except OSError:
            pass
        for s in (a, b):
            s.close()

    def stop(self):
        for s in [self.listener, *self.open]:
            s.close()


class Case(harness.Case):
    def daemon(self, *ports, name="rlockd", conf=CONF):
        return self.rlockd(redis="cluster:" + ",".join("127.0.0.1:%d" % p for p in ports), conf=conf, name=name)

    def granted(self, c, name, deadline=None):
        return until(lambda: isinstance(c.cmd("LOCK", name, "WAIT", "1s"), int), deadline)


class Seeds(Case):
    def test_of_no_use(self):
        """One Redis, and a node that has not joined, stand in front of one that knows the cluster."""
        c = SHARED.get()
        alone = self._keep(Node(self.dir, "alone", args=STEADY))
        d = self.daemon(self._keep(Redis(self.dir, tcp=True)).port, alone.port, c.nodes[0].port)
        self.granted(self.conn(d), "a")
        self.assertEqual(d.info("redis")["redis_nodes"], "6")

    def test_it_leaves_the_cluster(self):
        """As by `redis-cli --cluster del-node`: what it says from then on is that it knows of no other node."""
        c = SHARED.get()
        seed = self._keep(Node(self.dir, "seed", args=STEADY))
        c.join(seed)
        self.addCleanup(c.nodes.remove, seed)
        d = self.daemon(seed.port)
        conn = self.conn(d)
        self.granted(conn, "held")
        self.assertEqual(d.info("redis")["redis_nodes"], "7")
        for node in c.nodes[:-1]:
            self.assertEqual(node.cmd("CLUSTER", "FORGET", seed.id), "OK")
        self.assertEqual(seed.cmd("CLUSTER", "RESET", "SOFT"), "OK")
        until(lambda: d.info("redis")["redis_nodes"] == "6", 20)
        until(lambda: "the node is in no cluster" in d.log(), 20)
        before = int(d.info("stats")["renewals"])
        self.granted(conn, "another")
        self.assertEqual(len({slot_of(n) for n in ("held", "another")}), 2)
        self.assertEqual(conn.cmd("UNLOCK", "held"), 0)
        self.assertEqual(d.info("stats")["lost"], "0")
        self.assertGreaterEqual(int(d.info("stats")["renewals"]), before)

    def test_far_away(self):
        """It needs longer to let us in than the pause between two tries."""
        c = SHARED.get()
        late = self._keep(Late(c.nodes[0].port, 0.4))
        d = self.daemon(late.port)
        self.granted(self.conn(d), "far")


class Anew(Case):
    def test_at_the_same_addresses(self):
        """All nodes lose all they had, also their ids; the new ones have lower config epochs."""
        lease = 2 * harness.SLOW
        conf = CONF + "locks: { lease: %ds }\n" % lease
        old = Cluster(self.dir, self._keep, replicas=0, epoch=11, args=STEADY)
        d = self.daemon(*(n.port for n in old.nodes), conf=conf)
        conn = self.conn(d)
        self.granted(conn, "a")
        self.assertEqual(conn.cmd("UNLOCK", "a"), 0)
        for node in old.nodes:
            node.kill()
        new = Cluster(self.dir, self._keep, replicas=0, like=old, name="anew", args=STEADY)
        self.granted(conn, "a", 3 * (lease + 6) + 10)
        self.assertIn("another cluster", d.log())
        self.assertEqual(new.cmd("a", "EXISTS", "a"), 1)
        late = self.conn(self.daemon(*(n.port for n in new.nodes), conf=conf, name="late"))
        self.granted(late, "b")


if __name__ == "__main__":
    harness.main()
