"""clusters.py -- a Redis Cluster, private to the test that starts it: masters with their slots, and replicas.

This file introduces the nodes to each other and assigns the slots itself: `redis-cli --cluster create` asks questions,
and waits for whole seconds. Everything is on loopback; the ports of the bus are free ports, too.
"""
import os
import shutil
import socket
import subprocess
import tempfile
import unittest

import harness
from harness import Closed, Conn, RError, free_port, until, within

SLOTS = 16384


def crc16(data):
    crc = 0
    for byte in data:
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xffff
    return crc


def slot_of(key):
    """The hash slot of a key, as the specification of Redis Cluster computes it."""
    key = key if isinstance(key, bytes) else key.encode()
    at = key.find(b"{")
    end = key.find(b"}", at + 1) if at >= 0 else -1
    return crc16(key[at + 1:end] if end > at + 1 else key) % SLOTS


# where no replica is to take over: a slow answer of a busy machine must not count as a dead node
STEADY = ("--cluster-node-timeout", "60000")


BUS = 10000  # from the port of a node to the port of its bus, unless the configuration names another port


def two_ports():
    """A free port whose port of the bus is free as well."""
    while True:
        port = free_port()
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port + BUS))
                return port
            except OSError:
                pass


class Node(harness.Redis):
    """
    `tls`: (certificate, key, authorities): the node uses TLS alone, except on its Unix socket. `side`: the words of a
    command that the node runs under, and its host.
    """

    def __init__(self, directory, name, port=None, bus=None, args=(), tls=None, side=((), "127.0.0.1"), wait=True):
        if harness.redis_major() < 7:  # has no other port of the bus
            port = port or two_ports()
            bus = port + BUS
        self.bus, self.words, self.tls = bus or free_port(), args, tls
        self.name, self.dump = name, name + ".rdb"
        self.side, self.host = side, side[1]
        port = port or free_port()
        super().__init__(directory, name, tcp=True, under=side[0], wait=False, args=(
            "--bind", self.host, "--protected-mode", "no",
            "--port", str(port), "--cluster-enabled", "yes", "--cluster-config-file", name + ".nodes",
            "--dbfilename", self.dump,
            *(("--cluster-port", str(self.bus)) if harness.redis_major() >= 7 else ()),
            "--cluster-node-timeout", "2000", "--repl-diskless-sync-delay", "0",
            "--repl-ping-replica-period", "1", "--cluster-replica-validity-factor", "0",
            "--cluster-allow-replica-migration", "no", *args, *(
                ("--port", "0", "--tls-port", str(port), "--tls-cluster", "yes", "--tls-replication", "yes",
                 "--tls-cert-file", tls[0], "--tls-key-file", tls[1], "--tls-ca-cert-file", tls[2],
                 "--tls-auth-clients", "no") if tls else ())))
        self.port = port
        if wait:
            self.begun()

    def begun(self):
        until(self.answers, 30)
        self.id = self.cmd("CLUSTER", "MYID")
        return self

    def again(self, old=False):
        """
        Starts another process with the same place in the cluster: without data, or with the data of its last SAVE.
        """
        dump = os.path.join(self.directory, self.dump)
        if not old and os.path.exists(dump):
            os.unlink(dump)
        return Node(self.directory, self.name, self.port, self.bus, self.words, self.tls, self.side)

    @property
    def addr(self):
        return harness.at(self.host, self.port)

    def ask(self, *words):
        """Sends a command, and returns also an error; the error stands for a missing answer, too."""
        if harness.state(self.pid) == "T":
            return RError("it is stopped")
        try:
            with Conn(self.path, 2) as c:
                return c.cmd(*words)
        except (OSError, Closed) as e:
            return RError(str(e))

    def nodes(self):
        """{id: (flags, slots)} as this node sees it."""
        out = {}
        for line in str(self.ask("CLUSTER", "NODES")).split("\n"):
            word = line.split(" ")
            if len(word) >= 8:
                out[word[0]] = (word[2].split(","), word[8:])
        return out

    def is_master(self):
        """the node reports that it is a master"""
        return "role:master" in str(self.ask("INFO", "replication"))


class Cluster:
    """
    `keep`: keeps a process until the end of the test. `epoch`: the config epoch of the first master; `like`: another
    cluster, whose addresses this one uses. `side`: where each node is, see Node.
    """

    def __init__(self, directory, keep, masters=3, replicas=1, args=(), epoch=1, like=None, name="cluster",
                 tls=None, side=lambda i: ((), "127.0.0.1")):
        self.tls = tls
        self.dir, self.keep = os.path.join(directory, name), keep
        os.makedirs(self.dir, exist_ok=True)
        n = masters * (1 + replicas)
        places = [(node.port, node.bus) for node in like.nodes] if like else [(None, None)] * n
        begun = [keep(Node(self.dir, "node%d" % i, *places[i], args=args, tls=tls, side=side(i), wait=False))
                 for i in range(n)]
        self.nodes = [node.begun() for node in begun]
        self.masters = self.nodes[:masters]
        for i, m in enumerate(self.masters):
            assert m.cmd("CLUSTER", "SET-CONFIG-EPOCH", str(epoch + i)) == "OK"
            slots = range(SLOTS * i // masters, SLOTS * (i + 1) // masters)
            assert m.cmd("CLUSTER", "ADDSLOTS", *map(str, slots)) == "OK"
        self.greet(lambda node, other: node.port < other.port)
        until(lambda: all(len(node.nodes()) == n and all("handshake" not in f for f, _ in node.nodes().values())
                          for node in self.nodes), 30)
        for i, node in enumerate(self.nodes[masters:]):
            until(lambda node=node, i=i: node.ask("CLUSTER", "REPLICATE", self.masters[i % masters].id) == "OK")
        self.greet()  # every node learns slots and replicas at once, not only at its next gossip
        until(self.settled, 30)

    def greet(self, which=lambda node, other: node is not other):
        """Each node sends its state to the others; two nodes that know each other already learn what is new."""
        for node in self.nodes:
            with node.conn() as c:
                for other in self.nodes:
                    if which(node, other):
                        assert c.cmd("CLUSTER", "MEET", other.host, str(other.port), str(other.bus)) == "OK"

    def join(self, node):
        """Adds one more node, which is a master without slots."""
        self.nodes.append(node)
        self.greet(lambda _, other: other is node)
        until(lambda: all(len(n.nodes()) == len(self.nodes) and "cluster_state:ok" in str(n.ask("CLUSTER", "INFO")) and
                          all("handshake" not in f for f, _ in n.nodes().values()) for n in self.nodes), 30)

    def settled(self):
        """every node knows all slots and all replicas, and these have their data"""
        for node in self.nodes:
            if "cluster_state:ok" not in str(node.ask("CLUSTER", "INFO")):
                return False
            known = node.nodes().values()
            if len([1 for flags, _ in known if "slave" in flags]) != len(self.nodes) - len(self.masters) or \
                    any("handshake" in flags for flags, _ in known):
                return False
        return all(n.is_master() or "master_link_status:up" in str(n.ask("INFO", "replication")) for n in self.nodes)

    def url(self):
        return ("cluster+tls:" if self.tls else "cluster:") + ",".join(node.addr for node in self.nodes[:3])

    def owners(self):
        """For each slot the first master that claims it now, or None."""
        out = [None] * SLOTS
        for node in reversed(self.nodes):
            for other, (flags, slots) in node.nodes().items():
                if "myself" not in flags or "master" not in flags:
                    continue
                for text in slots:
                    first, _, last = text.partition("-")
                    if text[0] != "[":
                        n = int(last or first) + 1 - int(first)
                        out[int(first):int(first) + n] = [next(x for x in self.nodes if x.id == other)] * n
        return out

    def owner(self, slot):
        return self.owners()[slot]

    def masters_now(self):
        return [node for node in self.nodes if node.is_master()]

    def replica_of(self, master):
        """A replica of that master, by the replica's own report."""
        for node in self.nodes:
            for line in str(node.ask("CLUSTER", "NODES")).split("\n"):
                if "myself,slave" in line and line.split(" ")[3] == master.id:
                    return node
        return None

    def fail_over(self, master):
        """Runs a failover as an operator would; returns the new master when every node knows it and has its data."""
        replica = until(lambda: self.replica_of(master), 20)

        def takes_over():
            """the replica has become the master"""
            if not replica.is_master():
                replica.ask("CLUSTER", "FAILOVER")
            return replica.is_master()
        until(takes_over, 20, pause=0.1)

        def known():
            """every node sees the new master, and the former master as a replica"""
            return all("master" in node.nodes().get(replica.id, ([], []))[0] and
                       "slave" in node.nodes().get(master.id, ([], []))[0] for node in self.nodes)
        until(known, 60)
        until(self.settled, 60)
        return replica

    @staticmethod
    def cut_off(node):
        """From now on the replicas of the node receive no write."""
        assert node.cmd("ACL", "SETUSER", "default", "-psync", "-sync") == "OK"
        node.cmd("CLIENT", "KILL", "TYPE", "replica")

    def tool(self, *words, timeout=120):
        """Runs redis-cli --cluster with these words; returns its exit status and its whole output."""
        done = subprocess.run(["redis-cli", "--cluster", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=timeout * harness.SLOW, check=False)
        return done.returncode, done.stdout.decode(errors="replace")

    def reshard(self, source, to, slots):
        """redis-cli moves `slots` slots, the lowest ones of the source, while clients go on."""
        status, output = self.tool("reshard", to.addr, "--cluster-from", source.id, "--cluster-to", to.id,
                                 "--cluster-slots", str(slots), "--cluster-yes")
        assert status == 0, output[-2000:]

    def fix(self, node):
        """redis-cli repairs open slots until it finds nothing more to repair. Older keys may replace newer ones."""
        def mended():
            """redis-cli --cluster fix finds every slot covered, and none open"""
            _, output = self.tool("fix", node.addr, "--cluster-yes", "--cluster-replace",
                                     "--cluster-fix-with-unreachable-masters")
            self.output = output
            return self.tool("check", node.addr)[0] == 0
        assert within(mended, 30, pause=0.2), self.output[-3000:]

    def move_half(self, slot, to):
        """Opens the slot, and moves every second key of it; returns the source."""
        source = self.owner(slot)
        assert to.cmd("CLUSTER", "SETSLOT", str(slot), "IMPORTING", source.id) == "OK"
        assert source.cmd("CLUSTER", "SETSLOT", str(slot), "MIGRATING", to.id) == "OK"
        for key in sorted(source.cmd("CLUSTER", "GETKEYSINSLOT", str(slot), "1000"))[::2]:
            source.cmd("MIGRATE", to.host, str(to.port), key, "0", "5000")
        return source

    def move(self, slot, to, stop=None):
        """Moves a slot, key by key, as redis-cli does. `stop`: called when half of its keys have gone."""
        source = self.owner(slot)
        assert to.cmd("CLUSTER", "SETSLOT", str(slot), "IMPORTING", source.id) == "OK"
        assert source.cmd("CLUSTER", "SETSLOT", str(slot), "MIGRATING", to.id) == "OK"
        keys = source.cmd("CLUSTER", "GETKEYSINSLOT", str(slot), "1000")
        half = len(keys) // 2
        for i, key in enumerate([*keys, None]):
            if i == half and stop is not None:
                stop()
            if key is not None:
                source.cmd("MIGRATE", to.host, str(to.port), key, "0", "5000")
        while True:
            keys = source.cmd("CLUSTER", "GETKEYSINSLOT", str(slot), "1000")
            if not keys:
                break
            for key in keys:
                source.cmd("MIGRATE", to.host, str(to.port), key, "0", "5000")
        assert to.cmd("CLUSTER", "SETSLOT", str(slot), "NODE", to.id) == "OK"
        source.ask("CLUSTER", "SETSLOT", str(slot), "NODE", to.id)

    def data(self, key):
        """The redis-cli words of the node that has the key."""
        return self.owner(slot_of(key))

    def cmd(self, key, *words):
        return self.owner(slot_of(key)).cmd(*words)

    def clear(self):
        for node in self.nodes:
            if node.is_master():
                with node.conn() as c:
                    assert c.cmd("FLUSHALL") == "OK"
                    if len(self.nodes) > len(self.masters):
                        c.cmd("WAIT", "1", "5000")  # the replica counts the FLUSHALL, too, when it has received it

    def renew(self):
        """Resets the counters of FLUSHALL: a node whose counter is not 0 is not new (scripts/anchor.lua)."""
        self.clear()
        for node in self.nodes:
            assert node.cmd("CONFIG", "RESETSTAT") == "OK"


class Shared:
    """
    One cluster for all tests of a module, none of which ends a node: begun with the first test, ended after the last.
    """

    def __init__(self, **how):
        self.how, self.dir, self.kept, self.cluster = {"args": STEADY, **how}, None, [], None

    def _keep(self, p):
        self.kept.append(p)
        return p

    def get(self):
        if self.cluster is None:
            unittest.addModuleCleanup(self.stop)
            self.dir = tempfile.mkdtemp(prefix="rlockd-test.")
            self.cluster = Cluster(self.dir, self._keep, **self.how)
        else:
            self.cluster.renew()
        return self.cluster

    def stop(self):
        for p in reversed(self.kept):
            p.stop()
        if self.dir is not None:
            shutil.rmtree(self.dir, ignore_errors=True)
        self.dir, self.kept, self.cluster = None, [], None


class Case(harness.Case):
    """
    A test with a cluster that it shares with other tests; the data is new for each. CONF is the conf of its daemons.
    """

    CLUSTER = Shared()
    CONF = "redis: { timeout: 2s }\n"

    def setUp(self):
        super().setUp()
        self.c = self.cluster()

    def cluster(self):
        return self.CLUSTER.get()

    def daemon(self, name="rlockd", conf=None):
        return self.rlockd(redis=self.c.url(), conf=self.CONF if conf is None else conf, name=name)
