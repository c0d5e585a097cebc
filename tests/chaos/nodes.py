#!/usr/bin/env python3
"""nodes.py -- chaos where Redis is several nodes: a cluster, a master with sentinels, a quorum.

    nodes.py [--shape cluster,sentinel,quorum,sentinel+tls] [--duration S] [--seed N] [--only NEMESIS,...]
             [--keep|--discard]

Daemons, clients and checker are those of run.py; daemons find the nodes by themselves, so there is no proxy. Each
nemesis of TABLE for a shape runs once, in the order of the table, then again in random order until `duration` is over.
When the duration is less than SHORT, no nemesis begins later than that, and without --only those of SLOW and
sentinel+tls are left out. Where network namespaces are allowed, node 0, a sentinel and daemon A are on one side of a
cable. Report: build/chaos/nodes.txt.
"""
import argparse
import os
import random
import signal
import sys
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from world import CONF, Daemon, World, harness  # noqa: E402  (it leads to tests/redis, too)
from certificates import Authority  # noqa: E402
from clusters import Cluster, slot_of  # noqa: E402
from harness import Closed, RError, until, within  # noqa: E402
from quorums import Masters  # noqa: E402
from sentinels import Cable, Deployment  # noqa: E402
from test_sentinel import nodes  # noqa: E402
import nemeses  # noqa: E402
import run  # noqa: E402

NODE_TIMEOUT_MS = 2000
SECOND = "redis: { timeout: 500ms, connect_timeout: 500ms, "  # for nodes that are far, or stand still
REPORT = os.path.join(harness.TOP, "build", "chaos", "nodes.txt")


class Nodes(World):
    """Two daemons and their clients in front of the nodes of one shape."""

    has_plain, patience, longest = False, 40, 4  # seconds: for hand-overs; the lease

    def __init__(self, shape, seed, clients):
        self.timeline = []
        super().__init__(shape, seed=seed, clients=clients, lease=self.longest)

    def _keep(self, process):
        self.parts.append(process)
        return process

    def build(self, replica, clients, redis_env, redis_args):
        self.cable = self.replica = None  # attributes of other worlds
        self.begin_resource()
        self.between = Cable(self) if Cable.allowed() else None
        self.begin_nodes()
        self.daemons = {}
        for i, tag in enumerate("AB"):
            self.daemons[tag] = self._keep(Daemon(self, tag, self.url(), self.side(i)[0]))
        for d in self.daemons.values():
            until(d.ready, 30)
        self.routes = {tag: (tag, d.addr) for tag, d in self.daemons.items()}
        self.event("limit", "se:0", "3")
        self.mixed_clients(clients)

    def side(self, i):
        """The first node is on a side of its own."""
        return self.between.side(min(i, 1)) if self.between else ((), "127.0.0.1")

    def conf(self):
        return (CONF % (self.lease * 1000)).replace("redis: { timeout: 300ms, connect_timeout: 300ms, ", SECOND)

    def a_name(self):
        return self.rng.choice(self.names.split(","))

    def lives(self, deadline=40):
        return super().lives(deadline)

    def flush_noticed(self):
        """Waits, where that is needed, before the next harm."""

    def refuses(self, tag):
        """The daemon answers that Redis is not reachable."""
        with self.daemons[tag].conn() as c:
            reply = c.cmd("LOCK", "cut:" + tag, "WAIT", "100ms")
            return isinstance(reply, RError) and reply.startswith("UNAVAILABLE")

    def grants(self, tag):
        with self.daemons[tag].conn() as c:
            return isinstance(c.cmd("LOCK", "cut:" + tag, "WAIT", "1s"), int)


class ClusterWorld(Nodes):
    def begin_nodes(self):
        self.c = Cluster(self.dir, self._keep, args=("--cluster-node-timeout", str(NODE_TIMEOUT_MS)), side=self.side)
        self.url = self.c.url

    def server_of(self, name):
        return until(lambda: self.c.owner(slot_of(name)), 30)

    def keys(self):
        return [key for node in self.c.masters_now() for key in node.cmd("KEYS", "*")]

    def an_owner_comes_by(self):
        self.drop_places([k for k in self.keys() if k.startswith("redisson_lock_queue:")])

    def lose_writes(self, node):
        until(lambda: self.c.replica_of(node), 30)
        self.c.cut_off(node)

    def heir_of(self, node):
        """A replica of that master."""
        return until(lambda: self.c.replica_of(node), 30)

    @staticmethod
    def taken_over(heir):
        """By the cluster itself, or by an operator where no election succeeds for long, as on a busy machine."""
        if not within(heir.is_master, 15):
            heir.ask("CLUSTER", "FAILOVER", "TAKEOVER")
        until(heir.is_master, 30)

    def back(self, node, old=False):
        again = self._keep(node.again(old=old))
        self.c.nodes[self.c.nodes.index(node)] = again
        self.c.masters = [again if m is node else m for m in self.c.masters]
        return again

    def whole(self):
        """all slots have a master, and each master its replica, as every node sees it"""
        return self.c.settled() and len(self.c.masters_now()) == len(self.c.masters)

    def a_replica(self):
        return self.heir_of(self.server_of(self.a_name()))

    def is_missed(self, replica):
        """the other nodes report that this node does not answer"""
        return any("fail" in node.nodes().get(replica.id, ([], []))[0] for node in self.c.nodes)

    def replace(self):
        """A planned failover."""
        old = self.server_of(self.a_name())
        return self.c.fail_over(old) is not old

    def lead(self):
        """The node on the small side becomes a master."""
        first = self.c.nodes[0]
        if not first.is_master():
            self.c.fail_over(next(m for m in self.c.masters_now() if self.c.replica_of(m) is first))

    def follow(self):
        """The node on the small side becomes a replica."""
        first = self.c.nodes[0]
        if first.is_master():
            self.c.fail_over(first)


class SentinelWorld(Nodes):
    longest, tls = 3, None

    def begin_nodes(self):
        self.d = Deployment(self, sides=lambda kind, i: self.side(i), tls=self.tls)
        self.url = self.d.url

    def server_of(self, _name):
        return until(self.d.master, 30)

    def keys(self):
        return self.server_of("").cmd("KEYS", "*")

    def an_owner_comes_by(self):
        self.drop_places([k for k in self.keys() if k.startswith("redisson_lock_queue:")])

    def lose_writes(self, server):
        self.d.cut_off(server)

    def heir_of(self, server):
        return server

    def taken_over(self, before):
        self.d.other(before)

    def back(self, server, old=False):
        return self.d.replace(server, server.again(None if old or self.rng.random() < 0.3 else self.d.master(), old))

    def a_replica(self):
        master = self.server_of("")
        return self.rng.choice([server for server in self.d.servers if server is not master])

    def is_missed(self, replica):
        """the master has no link to that replica any more"""
        return "port=%d,state=online" % replica.port not in self.server_of("").cmd("INFO", "replication")

    def whole(self):
        """all replicas follow the master, and every sentinel sees that"""
        try:
            master = self.d.master()
            return master and master.cmd("INFO", "replication").count("state=online") == 2 and \
                all(len(flags) == 3 and not any("down" in f or "disconnected" in f for f in flags)
                    for flags in map(self.d.flags, self.d.sentinels))
        except (OSError, Closed):
            return False

    def replace(self, by=None):
        """`by`: a sentinel."""
        old = self.server_of("")
        until(lambda: (by or self.d.sentinels[1]).cmd("SENTINEL", "FAILOVER", "m") == "OK", 30, pause=0.2)
        return self.d.other(old) is not old

    def lead(self):
        """It is the master until the sentinels have chosen another one."""

    def follow(self):
        """The server on the small side becomes a replica."""
        if self.server_of("") is self.d.servers[0]:
            self.replace()


class SentinelTlsWorld(SentinelWorld):
    """The same, where servers and sentinels use TLS alone."""

    def begin_nodes(self):
        self.ca = Authority(self.dir)
        self.tls = (*self.certificate("redis"), self.ca.pem)
        super().begin_nodes()

    def certificate(self, name, **times):
        """A certificate for the addresses of both sides."""
        return self.ca.certificate(name, ",".join("IP:" + host for host in ("127.0.0.1", *Cable.hosts)), **times)

    def conf(self):
        return super().conf().replace(SECOND, SECOND + 'tls_ca_file: "%s", ' % self.ca.pem)


class QuorumWorld(Nodes):
    longest = 2
    names = "re:0,re:1,li:0,si:0"

    def begin_nodes(self):
        self.m = Masters(self, place=lambda i: dict(zip(("under", "host"), self.side(i))))
        self.url = self.m.url
        self.event("lasts")  # no majority loses its data

    def conf(self):
        return "\n".join(row for row in super().conf().split("\n") if "kind:" not in row or "simple" in row)

    def fifo_clients(self):
        for tag in "AB":
            self.client(tag, "mode=fifo", "names=re:fifo-" + tag)

    def server_of(self, _name):
        return self.rng.choice(self.m.nodes)

    def keys(self):
        return [key for node in self.m.nodes for key in node.cmd("KEYS", "*")]

    def an_owner_comes_by(self):
        """Without replicas there are no old places."""

    def lose_writes(self, node):
        """It has no replica."""

    def heir_of(self, node):
        return node

    def taken_over(self, _node):
        until(lambda: self.grants("A") and self.grants("B"), 30)

    def back(self, node, old=False):
        again = self._keep(node.again(old))
        self.m.nodes[self.m.nodes.index(node)] = again
        return again

    def whole(self):
        """every node votes, as both daemons see it: with one in quarantine, no other may be away"""
        return all([n["state"] for n in nodes(d)] == ["voting"] * 3 for d in self.daemons.values())

    def flush_noticed(self):
        until(lambda: not self.whole(), pause=0.01)

    def lead(self):
        """Each node is a master."""


# --- harms; `run` is as in nemeses.py

ALL = ("cluster", "sentinel", "quorum")
WITH_TLS = "sentinel+tls"  # all harms of sentinels apply here, too
CUTS = ("node-cut", "replica-cut")  # in network namespaces
SLOW = (*CUTS, "node-stop",  # they wait for a failover, and until the old master learns of it
        "certificate-expired", "sentinel-kill", "sentinel-stop", "replica-kill", "replica-stop")
SHORT = 30  # seconds; in a shorter run not each nemesis has a turn
TABLE = []


def nemesis(name, does, heals, shapes=ALL):
    def add(code):
        TABLE.append(nemeses.Nemesis(name, does, heals, shapes, code, None))
        return code
    return add


def heal(w):
    until(w.whole, 90, pause=0.05)


@nemesis("node-cut", "node 0, a sentinel and daemon A are cut off from all others", "the cable is mended")
def _(w):
    w.lead()
    w.between.cut()
    until(lambda: w.refuses("A"), 60)
    until(lambda: w.grants("B"), 60)
    yield w.lease
    refused = w.refuses("A")
    w.between.mend()
    heal(w)
    return refused


@nemesis("replica-cut", "a replica, a sentinel and daemon A are cut off from all others", "the cable is mended",
         ("cluster", "sentinel"))
def _(w):
    w.follow()
    w.between.cut()
    until(lambda: w.refuses("A"), 60)
    yield w.lease
    granted = w.refuses("A") and w.grants("B")
    w.between.mend()
    heal(w)
    return granted


@nemesis("certificate-expired", "a master has a certificate that expired, and its connections are cut; the sentinels "
         "choose another one", "it has a valid certificate", (WITH_TLS,))
def _(w):
    old = w.server_of("")

    def exchange(tls):
        return old.cmd("CONFIG", "SET", "tls-cert-file", tls[0], "tls-key-file", tls[1]) == "OK"

    def warnings():
        return [d.log().count("/CN=expired") for d in w.daemons.values()]
    before = warnings()

    def refused():
        """both daemons log that they refuse the certificate"""
        return all(now > was for now, was in zip(warnings(), before))

    exchanged = exchange(w.certificate("expired", begin=-7200, end=-3600))
    for kind in ("normal", "pubsub"):
        old.cmd("CLIENT", "KILL", "TYPE", kind)
    until(refused, 30)
    w.taken_over(old)
    yield w.lease
    exchanged = exchange(w.tls) and exchanged
    heal(w)
    return exchanged


@nemesis("node-behind", "a node stands still until all locks have the other two; one of these loses its data, and the "
         "first goes on", "SIGCONT", ("quorum",))
def _(w):
    behind, flushed = w.rng.sample(w.m.nodes, 2)
    behind.signal(signal.SIGSTOP)
    until(lambda: harness.state(behind.pid) in "Tt")
    w.taken_over(behind)
    yield w.lease
    gone = flushed.cmd("DBSIZE") > 0 and flushed.cmd("FLUSHALL") == "OK"
    behind.signal(signal.SIGCONT)
    w.flush_noticed()
    yield 0.5
    heal(w)
    return gone


@nemesis("node-flush", "FLUSHALL of one master", "nothing is to be healed")
def _(w):
    name = w.a_name()
    node, key = w.server_of(name), "rlock:{%s}:chaos" % name
    node.cmd("SET", key, "1")
    flushed = node.cmd("FLUSHALL")
    gone = node.cmd("EXISTS", key) == 0
    w.flush_noticed()
    yield 0.5
    heal(w)
    return flushed == "OK" and gone


@nemesis("node-old", "kill -9 of a master, and a start at once with the data of some moments before",
         "nothing is to be healed")
def _(w):
    node = w.server_of(w.a_name())
    saved = node.cmd("SAVE")
    yield 0.5
    node.kill()
    again = w.back(node, old=True)
    loaded = "DB loaded from disk" in again.log() or "keys loaded" in again.log()
    heal(w)
    return saved == "OK" and loaded


def master_dies(w):
    """The master dies with its last writes; returns the killed process."""
    old = w.server_of(w.a_name())
    heir = w.heir_of(old)
    w.lose_writes(old)
    yield 0.3
    old.kill()
    w.taken_over(heir)
    return old


@nemesis("node-kill", "kill -9 of a master with writes that no replica has; another takes over", "it is started anew")
def _(w):
    old = yield from master_dies(w)
    yield 1
    w.back(old)
    heal(w)
    return not harness.alive(old.pid)


@nemesis("sentinel-kill", "kill -9 of a sentinel, and then of a master with writes that no replica has; the other "
         "sentinels choose the next one", "both are started anew", ("sentinel",))
def _(w):
    sentinel = w.rng.choice(w.d.sentinels)
    sentinel.kill()
    old = yield from master_dies(w)
    yield 1
    killed = not harness.alive(sentinel.pid) and not harness.alive(old.pid)
    w.back(old)
    sentinel.again()
    heal(w)
    return killed


@nemesis("sentinel-stop", "SIGSTOP of a sentinel, which learns nothing of a failover by plan", "SIGCONT", ("sentinel",))
def _(w):
    sentinel, other = w.rng.sample(w.d.sentinels, 2)
    sentinel.signal(signal.SIGSTOP)
    until(lambda: harness.state(sentinel.pid) in "Tt")
    replaced = w.replace(other)
    yield w.lease / 2
    sentinel.signal(signal.SIGCONT)
    heal(w)
    return replaced


@nemesis("replica-kill", "kill -9 of a replica", "it is started anew, empty", ("cluster", "sentinel"))
def _(w):
    replica = w.a_replica()
    replica.kill()
    until(lambda: w.is_missed(replica), 30)
    yield w.lease / 2
    killed = not harness.alive(replica.pid)
    w.back(replica)
    heal(w)
    return killed


@nemesis("replica-stop", "SIGSTOP of a replica", "SIGCONT", ("cluster", "sentinel"))
def _(w):
    replica = w.a_replica()
    replica.signal(signal.SIGSTOP)
    until(lambda: harness.state(replica.pid) in "Tt" and w.is_missed(replica), 30)
    yield w.lease / 2
    replica.signal(signal.SIGCONT)
    heal(w)
    return 1


@nemesis("reshard", "slots in use move to another master", "they move back", ("cluster",))
def _(w):
    moved = []
    for name in w.rng.sample(sorted(w.names.split(",")), 3):
        slot, source = slot_of(name), w.server_of(name)
        to = w.rng.choice([m for m in w.c.masters_now() if m is not source])
        w.c.move(slot, to)
        moved.append((slot, source, to))
    yield 1
    seen = 0
    for slot, source, to in moved:
        until(lambda slot=slot, to=to: w.c.owner(slot) is to)
        w.c.move(slot, source)
        seen += 1
    heal(w)
    return seen


@nemesis("node-stop", "SIGSTOP of a master until another has taken over, and for a while", "SIGCONT")
def _(w):
    node = w.server_of(w.a_name())
    heir = w.heir_of(node)
    node.signal(signal.SIGSTOP)
    until(lambda: harness.state(node.pid) in "Tt")
    w.taken_over(heir)
    yield w.lease / 2
    node.signal(signal.SIGCONT)
    heal(w)
    return 1


@nemesis("node-replaced", "a failover by plan", "nothing is to be healed", ("cluster", "sentinel"))
def _(w):
    replaced = w.replace()
    yield 0.5
    heal(w)
    return replaced


for row in nemeses.TABLE:
    if row.name in ("daemon-kill", "daemon-stop-three", "client-kill"):
        TABLE.append(row._replace(world=ALL))


# --- one world for each shape

WORLDS = {"cluster": ClusterWorld, "sentinel": SentinelWorld, "quorum": QuorumWorld, WITH_TLS: SentinelTlsWorld}


def applies(row, shape):
    return shape in row.world or shape == WITH_TLS and "sentinel" in row.world


def harm(world, rows, seconds, report):
    """Strikes until the time is over, or a check fails; returns the rows that had no turn."""
    end = time.monotonic() + seconds
    rng, turns = random.Random(world.rng.random()), list(rows)
    while turns or time.monotonic() < end:
        if seconds < SHORT and len(turns) < len(rows) and time.monotonic() >= end:
            break
        row = turns.pop(0) if turns else rng.choice(rows)
        if not run.strike(world, [row], report):
            break
    return turns


def play(shape, rows, args, report):
    failed = report.failed
    world = WORLDS[shape](shape, args.seed, args.clients)
    try:
        world.listeners()
        world.fifo_clients()
        world.hot_clients()
        until(world.at_work, 60, pause=0.05)
        left = harm(world, rows, args.duration, report)
        if left:
            report.skipped += len(left)
            report.say("     %s: the time was over before %s" % (shape, ", ".join(n.name for n in left)))
        run.judge(world, report, True)
    except Exception as e:
        report.test("%s: the run itself" % shape, "%s: %s" % (type(e).__name__, e))
        world.bad.append(traceback.format_exc())
    finally:
        bad = report.failed > failed
        keep = args.keep or (bad and not args.discard)
        world.end(keep=keep)
        report.test("%s: nothing broke" % shape, "\n".join(world.bad) if world.bad else None)
        if keep:
            report.say("     kept: %s" % world.dir)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--shape", default="")
    p.add_argument("--duration", type=float, default=60)
    p.add_argument("--seed", type=int, default=int(time.time()))
    p.add_argument("--clients", type=int, default=8)
    p.add_argument("--only", default="")
    p.add_argument("--keep", action="store_true")
    p.add_argument("--discard", action="store_true")  # also the directory of a world that failed
    args = p.parse_args()
    short = args.duration < SHORT
    shapes = args.shape.split(",") if args.shape else ALL if short else (*ALL, WITH_TLS)
    only = set(filter(None, args.only.split(",")))
    unknown = (only - {n.name for n in TABLE}) | (set(shapes) - set(WORLDS))
    if unknown:
        sys.exit("no such nemesis, or shape: %s" % ", ".join(sorted(unknown)))
    report = run.Report()
    report.say("chaos of nodes: seed %d, %d clients, %.0f s for each of %s" % (
        args.seed, args.clients, args.duration, ",".join(shapes)))
    rows = [n for n in TABLE if not only or n.name in only]
    if not Cable.allowed():
        report.say("skip %s: no network namespaces here" % ", ".join(CUTS))
        report.skipped += len([n for n in rows if n.name in CUTS])
        rows = [n for n in rows if n.name not in CUTS]
    if short and not only:
        report.say("skip %s: not in so short a time" % ", ".join(SLOW))
        report.skipped += len(SLOW)
        rows = [n for n in rows if n.name not in SLOW]
    for shape in shapes:
        play(shape, [n for n in rows if applies(n, shape)], args, report)
    for n in rows:
        report.say("     %-18s %6d times  %s; heals: %s" % (n.name, report.happened[n.name], n.does, n.heals))
    sys.exit(0 if report.end(REPORT) else 1)


if __name__ == "__main__":
    main()
