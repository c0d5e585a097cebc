#!/usr/bin/env python3
"""switch.py [SHAPE] [RUNS] -- how long the death of a master keeps clients waiting, beside the time that the servers
need.

SHAPE is sentinel (the default), cluster or quorum. Each run has servers of its own and two daemons, of which one holds
a lock. A master is killed by KILL, and a client of the other daemon requests a lock. Counted from the kill: when the
servers have another master, and when the client is granted its lock, after the grace period in which the holder's
daemon reclaims. The goal is half a second after the servers.
"""
import os
import shutil
import statistics
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "redis"))
import harness  # noqa: E402
from clusters import Cluster, slot_of  # noqa: E402
from harness import Closed, Conn, Rlockd, RError, until  # noqa: E402
from quorums import Masters  # noqa: E402
from sentinels import Deployment  # noqa: E402

# sentinel: a master, two replicas, three sentinels (down-after 3 s); another master: the first +switch-master.
# cluster: three masters with a replica each (node timeout 2 s); another master: the replica reports that it is one, and
#          another node that all slots are served. Both locks are in slots of the dead master.
# quorum: three masters, of which one dies: nothing else has to happen.

GOAL_S = 0.5
BUILD = os.environ.get("RLOCKD_BUILD", os.path.join(harness.TOP, "build"))


class Stage:
    """A directory, and the end of all processes that were started in it."""

    def __enter__(self):
        self.dir, self.parts = tempfile.mkdtemp(prefix="rlockd-switch."), []
        return self

    def _keep(self, part):
        self.parts.append(part)
        return part

    def __exit__(self, *_):
        for part in reversed(self.parts):
            part.stop()
        shutil.rmtree(self.dir, True)


class Subscriber(threading.Thread):
    """Notes when a sentinel publishes another master."""

    def __init__(self, sentinel):
        super().__init__(daemon=True)
        self.conn, self.at = Conn(sentinel.path, timeout=60), None
        self.conn.cmd("SUBSCRIBE", "+switch-master")
        self.start()

    def run(self):
        try:
            self.conn.read()
            self.at = time.monotonic()
        except (OSError, Closed):
            pass


class Watcher(threading.Thread):
    """Notes when a condition holds; checks it every 5 ms."""

    def __init__(self, holds):
        super().__init__(daemon=True)
        self.holds, self.at = holds, None
        self.start()

    def run(self):
        until(self.holds, 60)
        self.at = time.monotonic()


class BySentinels:
    held, first = "held", "first"

    def __init__(self, stage):
        self.there = Deployment(stage)
        self.url = self.there.url()

    def kill(self):
        """Kills the master; returns the thread that notes when there is another one."""
        watchers = [Subscriber(s) for s in self.there.sentinels]
        self.there.servers[0].kill()
        return watchers


class InCluster:
    def __init__(self, stage):
        self.there = Cluster(stage.dir, stage._keep)
        self.url = self.there.url()
        names, owners = ["name%d" % i for i in range(100)], self.there.owners()
        self.held, self.first = [n for n in names if owners[slot_of(n)] is self.there.masters[1]][:2]

    def kill(self):
        replica, other = self.there.nodes[4], self.there.masters[0]
        self.there.masters[1].kill()
        return [Watcher(lambda: replica.is_master() and "cluster_state:ok" in str(other.ask("CLUSTER", "INFO")))]


class OfQuorum:
    held, first = "held", "first"

    def __init__(self, stage):
        self.there = Masters(stage)
        self.url = self.there.url()

    def kill(self):
        self.there.nodes[0].kill()
        now = Watcher(lambda: True)
        now.join()
        return [now]


SHAPES = {"sentinel": BySentinels, "cluster": InCluster, "quorum": OfQuorum}


def lock(conn, name):
    """Its token; an attempt that Redis could not answer is made again."""
    while isinstance(got := conn.cmd("LOCK", name, "WAIT", "30s"), RError):
        pass
    return got


def run(shape):
    """(when the servers have another master, when the client has its lock), from the kill on."""
    with Stage() as stage:
        there = SHAPES[shape](stage)
        a, b = [stage._keep(Rlockd(stage.dir, redis=there.url, name=name, build=BUILD)) for name in "ab"]
        with a.conn() as holder, Conn(b.path, timeout=60) as c:
            held = lock(holder, there.held)
            # The work of a first use is over: the other daemon has had the lock that it will request.
            lock(c, there.first)
            assert c.cmd("UNLOCK", there.first) == 0
            killed = time.monotonic()
            notes = there.kill()
            lock(c, there.first)
            granted = time.monotonic()
            until(lambda: notes[0].at is not None and all(n.at is not None for n in notes), deadline=30)
            assert holder.cmd("LOCK", there.held, "ONCE") == held, "the holder has lost its lock"
        return min(n.at for n in notes) - killed, granted - killed


def main():
    words = sys.argv[1:]
    shape = words.pop(0) if words and words[0] in SHAPES else "sentinel"
    runs = int(words[0]) if words else 20
    rows = []
    print("%s: seconds from the kill\nrun  another master  first grant  behind it" % shape)
    for i in range(runs):
        another, granted = run(shape)
        rows.append((another, granted, granted - another))
        print("%3d  %14.3f  %11.3f  %9.3f" % (i + 1, *rows[-1]), flush=True)
    print("median %12.3f  %11.3f  %9.3f" % tuple(statistics.median(column) for column in zip(*rows)))
    print("max    %12.3f  %11.3f  %9.3f" % tuple(max(column) for column in zip(*rows)))
    return 0 if statistics.median(row[2] for row in rows) <= GOAL_S else 1


if __name__ == "__main__":
    sys.exit(main())
