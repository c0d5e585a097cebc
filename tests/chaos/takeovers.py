#!/usr/bin/env python3
"""takeovers.py [ROUNDS] -- masters of a Redis Cluster that die with writes that their replica lacks.

Each round: the slot of a lock under which clients of both daemons count moves to another master, key by key; then the
replica of one master is cut off. A client of daemon A is granted a lock there, and a plain client (SET NX PX) another
one, which no other node has; the master is killed by KILL. An operator replaces it at once (CLUSTER FAILOVER TAKEOVER),
in every fourth round the cluster itself. Another plain client and a client of daemon B request the same two locks: that
of rlockd must not be granted before A's client unlocks it, and then with a larger token. A lock in each shard that A
has held since the first round stays held; no counted update may be lost, and tokens must rise. The dead node comes back
as a replica, in every fourth round with the data of its last SAVE.
"""
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
for room in ("redis", "bench"):
    sys.path.insert(0, os.path.join(HERE, "..", room))
sys.path.insert(0, HERE)  # before bench, which has a run.py, too
import harness  # noqa: E402
from clusters import Cluster, slot_of  # noqa: E402
from harness import Conn, Rlockd, until  # noqa: E402
from moving import answered  # noqa: E402
from rounds import Rounds, main  # noqa: E402
from test_sentinel_switch import Counting  # noqa: E402

CONF = "redis: { timeout: 1s, connect_timeout: 1s }\n"  # leases of 30 s outlast the time that the cluster itself needs
NODE_TIMEOUT_MS = 4000  # long on a busy machine
ANCHORS = ("54h", "7ho", "80c")  # the tags of slots 2730, 8191 and 13652


class World(Rounds):
    TITLE = "takeovers"

    def __init__(self, stage):
        self.stage = stage
        self.c = Cluster(stage.dir, stage._keep, args=("--cluster-node-timeout", str(NODE_TIMEOUT_MS)))
        daemons = [stage._keep(Rlockd(stage.dir, redis=self.c.url(), name=n, conf=CONF)) for n in "ab"]
        super().__init__(*daemons, *(Conn(d.path, timeout=90 * harness.SLOW) for d in daemons))
        owners = self.c.owners()
        self.tags = [next(t for t in map(str, range(1000)) if owners[slot_of(t)] is m) for m in self.c.masters]
        self.kept = {name: answered(self.holder, "LOCK", name) for name in ("kept{%s}" % tag for tag in self.tags)}
        until(self.votes, 30)

    def votes(self):
        """all three anchors vote, with data of the process that has their slot"""
        for tag in ANCHORS:
            node = self.c.owner(slot_of(tag))
            head = str(node.ask("HGET", "rlock:{%s}:gen" % tag, "#")).split() if node else []
            if len(head) < 4 or head[3] != "v":
                return False
        return True

    def round(self, i):
        self.move(i)
        tag = self.tags[i % 3]
        name, free, plain = ("{%s}%s:%d" % (tag, what, i) for what in ("lost", "free", "plain"))
        old = self.c.owner(slot_of(tag))
        heir = until(lambda: self.c.replica_of(old), 30)
        if i % 4 == 3:
            old.cmd("SAVE")
        self.c.cut_off(old)
        token = answered(self.holder, "LOCK", name, "WAIT", "20s")
        assert isinstance(token, int), "the holder is granted nothing: %r" % (token,)
        assert old.cmd("SET", plain, "one", "NX", "PX", "60000") == "OK"
        killed = time.monotonic()
        old.kill()
        self.take_over(i, heir)
        self.plain += heir.cmd("SET", plain, "two", "NX", "PX", "60000") == "OK"
        self.no_other_client(i, name, token, "WAIT", "150ms")
        self.granted_again(i, free, token, killed)
        self.handed_on(i, name, token)
        self.come_back(i, old)

    @staticmethod
    def take_over(i, heir):
        def is_master():
            """the replica is the master"""
            return heir.is_master() or (i % 4 and heir.ask("CLUSTER", "FAILOVER", "TAKEOVER") and False)
        until(is_master, 60)

    def come_back(self, i, old):
        again = self.stage._keep(old.again(old=i % 4 == 3))
        self.c.nodes[self.c.nodes.index(old)] = again
        until(lambda: not again.is_master(), 30)
        until(self.c.settled, 60, pause=0.05)
        until(self.votes, 60, pause=0.05)

    def move(self, i):
        """Moves the slot of a lock that clients count under."""
        slot = slot_of(Counting.NAMES[i % len(Counting.NAMES)])
        owner = self.c.owner(slot)
        others = [n for n in self.c.masters_now() if n.id != owner.id]
        self.c.move(slot, others[i % 2])
        until(self.votes, 60, pause=0.05)  # an anchor may be in that slot


if __name__ == "__main__":
    sys.exit(main(World))
