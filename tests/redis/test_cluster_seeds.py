#!/usr/bin/env python3
"""Which nodes of a cluster a daemon asks for the map, and which answers count."""
import itertools
import os
import re
import socket
import threading
import time

import harness
from certificates import Authority
from clusters import SLOTS, STEADY, Cluster, Node, Shared, slot_of
from harness import Redis, free_port, until
from test_tls import TlsRedis

CONF = "redis: { timeout: 1s, connect_timeout: 2s }\n"
SHARED = Shared()


class Late:
    """A way to a port on which the first bytes are delayed, as on connections over a long distance."""

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
        time.sleep(self.seconds)  # the delay is what the test is about
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


def requests(nodes):
    """How often the nodes were asked for the map."""
    return sum(int(node.cmd("INFO", "commandstats").partition("cmdstat_cluster|nodes:calls=")[2].split(",")[0] or 0)
               for node in nodes)


class Case(harness.Case):
    def daemon(self, *ports, name="rlockd", conf=CONF):
        return self.rlockd(redis="cluster:" + ",".join("127.0.0.1:%d" % p for p in ports), conf=conf, name=name)

    def granted(self, c, name, deadline=None):
        return until(lambda: isinstance(c.cmd("LOCK", name, "WAIT", "1s"), int), deadline)


class Seeds(Case):
    def test_of_no_use(self):
        """The URL names one Redis, and a node that has not joined, before a node that knows the cluster."""
        c = SHARED.get()
        alone = self._keep(Node(self.dir, "alone", args=STEADY))
        d = self.daemon(self._keep(Redis(self.dir, tcp=True)).port, alone.port, c.nodes[0].port)
        self.granted(self.conn(d), "a")
        self.assertEqual(d.info("redis")["redis_nodes"], "6")

    def test_it_leaves_the_cluster(self):
        """As by `redis-cli --cluster del-node`: from then on the map of the node names no other node."""
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
        """To connect takes longer than the pause between two attempts."""
        c = SHARED.get()
        late = self._keep(Late(c.nodes[0].port, 0.4))
        d = self.daemon(late.port)
        self.granted(self.conn(d), "far")


class Lost(Case):
    def test_the_map_is_requested_until_another_node_is_master(self):
        """The daemon asks for the map more often than it tries to connect to the lost master."""
        c = Cluster(self.dir, self._keep, replicas=0, args=STEADY)
        pauses = "redis: { timeout: 1s, backoff_min: 1m, backoff_max: 1m }\n"
        d = self.daemon(c.nodes[0].port, conf=pauses)
        self.granted(self.conn(d), "a")
        c.nodes[1].kill()
        others = [c.nodes[0], c.nodes[2]]
        before = requests(others)
        until(lambda: requests(others) >= before + 20, 15)  # every 5 s while all masters are up


class Anew(Case):
    def test_at_the_same_addresses(self):
        """All nodes lose all their data, also their ids; the new nodes have lower config epochs."""
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


class Crowd(Case):
    """A cluster of more masters than rlockd serves: one real node, whose file of nodes lists the others."""

    def test_more_masters_than_are_served(self):
        masters, port = 192, free_port()
        node = ["%040x 127.0.0.1:%d@%d %s - 0 0 %d connected %d-%d" % (
            i + 1, port if i == 0 else 1, port + 1 if i == 0 else 2, "myself,master" if i == 0 else "master", i + 1,
            SLOTS * i // masters, SLOTS * (i + 1) // masters - 1) for i in range(masters)]
        os.makedirs(os.path.join(self.dir, "crowd"))
        with open(os.path.join(self.dir, "crowd.nodes"), "w") as f:
            f.write("\n".join([*node, "vars currentEpoch %d lastVoteEpoch 0\n" % masters]))
        url = "cluster:127.0.0.1:%d" % self._keep(Node(self.dir, "crowd", port=port, args=STEADY)).port
        d = self.rlockd(redis=url, conf=CONF, wait=False)
        until(d.serving)  # it need not have a Redis: the one real node may be beyond the 128 masters that are served
        until(lambda: d.info("redis")["redis_nodes"] != "0")
        self.assertEqual(d.info("redis")["redis_refusal"],
                         "nothing is granted in the slots of 64 masters: at most 128 are served")
        c, names = self.conn(d), itertools.count()
        reported = until(lambda: [r for r in [c.cmd("LOCK", "n%d" % next(names), "NOWAIT")]
                                  if "is served" in str(r)])[0]
        self.assertIn("at most 128 masters are, and the cluster has more", reported)
        self.assertEqual(d.log().count("the cluster has too many masters"), 1)


class Many(Case):
    def test_a_long_list(self):
        """A list of nodes of more than 512 bytes."""
        c = SHARED.get()
        far = ["node-%02d.redis.some-cluster.eu-central-1.cloud.invalid:6379" % i for i in range(60)]
        d = self.rlockd(redis="cluster:127.0.0.1:%d,%s" % (c.nodes[0].port, ",".join(far)), conf=CONF)
        self.granted(self.conn(d), "many")


class Unusable(harness.Case):
    """A cluster that cannot be used: log, INFO and -UNAVAILABLE give the reason; the log gives it once."""

    def check(self, url, reason, more="", tries=4, name="rlockd"):
        conf = "redis: { backoff_min: 10ms, backoff_max: 20ms%s }\n" % more
        d = self.rlockd(redis=url, conf=conf, args=("--log-level", "debug"), name=name, wait=False)
        until(lambda: len(re.findall("debug redis link (?:failed|up) ", d.log())) >= tries)
        lines = re.findall("(?m)^warn redis unreachable address=(.*) reason=(.*)$", d.log())
        self.assertEqual(len(lines), 1, lines)
        self.assertRegex(lines[0][1], reason)
        info = d.info("redis")
        self.assertRegex(info["redis_last_error"], reason)
        self.assertRegex(info["redis_refusal"], "^no map of the cluster is known: rediss?://.*: .*%s" % reason)
        self.assertRegex(d.cmd("LOCK", "a", "WAIT", "50ms"), "^UNAVAILABLE .*no map .*%s" % reason)
        d.stop()

    def test_no_server(self):
        self.check("cluster:127.0.0.1:%d" % free_port(), "Connection refused")

    def test_no_host(self):
        self.check("cluster:no-such-host.invalid:7000", "not known|no address|nodename|name server", tries=2)

    def test_no_cluster(self):
        self.check("cluster:127.0.0.1:%d" % self.redis(tcp=True).port, "cluster support disabled")

    def test_passwords(self):
        url = "cluster:127.0.0.1:%d" % self.redis(tcp=True, args=("--requirepass", "right")).port
        self.check(url, "WRONGPASS", ", password: wrong")
        self.check(url, "NOAUTH", name="without")

    def test_an_issuer_that_is_not_trusted(self):
        ours, theirs = Authority(self.dir, "ours"), Authority(self.dir, "theirs")
        server = TlsRedis(self.dir, theirs.certificate("redis"), theirs)
        self._keep(server)
        self.check("cluster+tls:127.0.0.1:%d" % server.tls_port, "certificate", ", tls_ca_file: '%s'" % ours.pem)

    def test_a_cluster_that_comes_later(self):
        r = self.redis(tcp=True, args=("--requirepass", "right"))
        c = Cluster(self.dir, self._keep, replicas=0, args=STEADY)
        d = self.rlockd(redis="cluster:127.0.0.1:%d,%s" % (r.port, c.nodes[0].addr), conf=CONF)
        self.assertRegex(d.log(), "warn redis unreachable address=redis://127.0.0.1:%d reason=.*NOAUTH" % r.port)
        self.assertNotIn("no map", d.info("redis")["redis_refusal"])


if __name__ == "__main__":
    harness.main()
