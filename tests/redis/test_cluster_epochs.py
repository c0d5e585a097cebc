#!/usr/bin/env python3
"""test_cluster_epochs.py -- a master is lost, and an operator gives its slots to a node with a lower config epoch."""
import harness
from clusters import STEADY, SLOTS, Cluster, Node, slot_of
from harness import until

ADVICE = "if the former master is lost for good, run CLUSTER BUMPEPOCH at redis://"


class Low(harness.Case):
    def replace_by_hand(self, cluster, old):
        """The master is lost with its data, and an empty node gets its slots."""
        first = SLOTS * cluster.masters.index(old) // len(cluster.masters)
        last = SLOTS * (cluster.masters.index(old) + 1) // len(cluster.masters)
        old.kill()
        cluster.nodes.remove(old)
        for node in cluster.nodes:
            self.assertEqual(node.ask("CLUSTER", "FORGET", old.id), "OK")
        new = self._keep(Node(cluster.dir, "new", args=STEADY))
        cluster.nodes[0].cmd("CLUSTER", "MEET", "127.0.0.1", str(new.port), str(new.bus))
        cluster.nodes.append(new)
        until(lambda: all(len(n.nodes()) == len(cluster.nodes) and
                          all("handshake" not in f for f, _ in n.nodes().values()) for n in cluster.nodes), 60)
        self.assertEqual(new.ask("CLUSTER", "ADDSLOTS", *map(str, range(first, last))), "OK")
        until(lambda: all("cluster_state:ok" in str(n.ask("CLUSTER", "INFO")) for n in cluster.nodes), 60)
        return new

    def test_a_new_node_has_the_slots_of_a_lost_master(self):
        cluster = Cluster(self.dir, self._keep, masters=3, replicas=0, args=STEADY)
        d = self.rlockd(redis=cluster.url(), conf="locks: { lease: 3s }\n")
        c = self.conn(d)
        name = next("n%d" % i for i in range(999) if slot_of("n%d" % i) > 11000)
        self.assertIsInstance(c.cmd("LOCK", name, "WAIT", "20s"), int)
        c.cmd("UNLOCK", name)
        new = self.replace_by_hand(cluster, cluster.masters[2])
        until(lambda: d.info("redis")["redis_refusal"] == "slot 10922: " + ADVICE + new.addr, 30)
        self.assertIn("slot %d: %s" % (slot_of(name), ADVICE + new.addr), str(c.cmd("LOCK", name, "NOWAIT")))
        # A daemon that starts now accepts the map; but the anchors know the higher config epoch of the lost master.
        late = self.rlockd(redis="cluster:" + ",".join(n.addr for n in cluster.nodes), name="late",
                           conf="locks: { lease: 3s }\n")
        why = "slot 13652, an anchor: " + ADVICE + new.addr
        until(lambda: late.info("redis")["redis_refusal"] == why, 30)
        for each in d, late:
            until(lambda each=each: "the config epoch of a master is too low" in each.log())
        self.assertIn("BUMPED", new.cmd("CLUSTER", "BUMPEPOCH"))
        self.assertIsInstance(c.cmd("LOCK", name, "WAIT", "30s"), int)
        for each in d, late:
            until(lambda each=each: each.info("redis")["redis_refusal"] == "", 30)


if __name__ == "__main__":
    harness.main()
