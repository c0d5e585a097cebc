"""shapes.py -- the shapes of Redis that rlockd runs in front of, each begun once and used by many daemons in turn.

A shape has the conf that a daemon needs for it, a way to send commands to its data by redis-cli, and a way to become
empty again. Everything is private to the test, see harness.py.
"""
import os
import re
import shutil
import sys
import tempfile

import harness
from certificates import Authority
from clusters import STEADY, Cluster, slot_of
from quorums import Masters
from sentinels import Deployment, tls_words
from test_tls import TlsRedis


class Shape:
    """The processes that are started for it end with it, newest first."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="rlockd-shape.")
        self.kept = []
        try:
            self.begin()
        except BaseException:
            self.stop()
            raise

    def _keep(self, p):
        self.kept.append(p)
        return p

    def stop(self):
        for p in reversed(self.kept):
            p.stop()
        shutil.rmtree(self.dir, ignore_errors=True)

    def begin(self):
        """Starts the servers; afterwards `self.url` names them."""
        raise NotImplementedError

    def redis_conf(self):
        """The keys below `redis:`."""
        return {"url": self.url}

    def conf(self):
        return "redis:\n" + "".join('  %s: "%s"\n' % row for row in self.redis_conf().items())

    def server(self):
        """The server with the data."""
        return self.kept[0]

    def cli(self, _daemon):
        """The words of redis-cli in front of a command."""
        return ["redis-cli", "-s", self.server().path]

    SKIPPED = {}

    def skips(self, title, text):
        """The reason why it cannot run a wire script with that name and text; None: it can."""
        return self.SKIPPED.get(title) or ("PEXPIRETIME" in text and harness.redis_major() < 7 and
                                           "Redis 6 has no PEXPIRETIME") or None

    def words(self, daemon, command):
        """The words that send the command to the data, where a script has a command for one Redis."""
        return [*self.cli(daemon), *command]

    def clear(self):
        """Makes the servers empty, as new ones."""
        assert self.server().cmd("FLUSHALL") == "OK"


class Tcp(Shape):
    def begin(self):
        self.url = "redis://127.0.0.1:%d" % self._keep(harness.Redis(self.dir, tcp=True)).port


class WithTls(Shape):
    """A shape whose servers have certificates of `self.ca`."""

    def redis_conf(self):
        return {**super().redis_conf(), "tls_ca_file": self.ca.pem}


class Tls(WithTls):
    def begin(self):
        self.ca = Authority(self.dir)
        self.url = self._keep(TlsRedis(self.dir, self.ca.certificate("redis"), self.ca)).url


class Sentinel(Shape):
    """A master that requires a replica, two replicas, three sentinels."""

    def begin(self):
        self.url = Deployment(self).url()


class SentinelIpv6(Sentinel):
    def begin(self):
        self.url = Deployment(self, sides=lambda _kind, _i: ((), "::1")).url()


class SentinelTls(WithTls):
    """The same, where sentinels and servers use TLS alone."""

    def begin(self):
        self.ca = Authority(self.dir)
        cert, key = self.ca.certificate("redis")
        self.url = Deployment(self, tls=(cert, key, self.ca.pem)).url()


class Quorum(Shape):
    """Three independent masters. A command of redis-cli goes to all of them."""

    REFUSED = re.compile(r"\b(kind:|KIND) *(fair|rw|semaphore|fenced|counter)\b")
    SKIPPED = {"39-own-keys.wire": "the token clocks have other keys, and the reserve of a vote in front of the token",
               "88-info.wire": "INFO counts the links of one server"}

    def skips(self, title, text):
        kind = self.REFUSED.search(text)
        return "kind " + kind.group(2) if kind else super().skips(title, text)

    def begin(self):
        self.m = Masters(self, place=self.place)
        self.url = self.m.url()

    @staticmethod
    def place(_i):
        return {}

    def cli(self, _daemon):
        return [sys.executable, "-SE", os.path.join(os.path.dirname(os.path.abspath(__file__)), "everywhere.py"),
                ",".join(node.path for node in self.m.nodes)]

    def clear(self):
        assert self.m.cmd("FLUSHALL") == ["OK"] * len(self.m.nodes)


class QuorumIpv6(Quorum):
    @staticmethod
    def place(_i):
        return {"host": "::1"}


class QuorumTls(WithTls, Quorum):
    def begin(self):
        self.ca = Authority(self.dir)
        super().begin()

    def place(self, i):
        port = harness.free_port()
        return {"at": "rediss://127.0.0.1:%d" % port,
                "args": sum((("--" + word, text) for word, text in
                             tls_words((*self.ca.certificate("node%d" % i), self.ca.pem), port)), ())}


class ClusterOfSix(Shape):
    """Three masters, and a replica of each."""

    HOST = "127.0.0.1"
    tls = None
    tool = ["redis-cli"]

    def begin(self):
        self.cluster = Cluster(self.dir, self._keep, args=STEADY, tls=self.tls, side=lambda i: ((), self.HOST))
        self.url = self.cluster.url()

    SKIPPED = {"39-own-keys.wire": "each slot has a clock of its own",
               "88-info.wire": "INFO counts the links of one server"}

    def cli(self, _daemon):
        return [*self.tool, "-c", "-h", self.HOST, "-p", str(self.cluster.nodes[0].port)]

    def words(self, daemon, command):
        if harness.redis_major() < 7 and command[0] != "KEYS":  # it lacks sharded channels
            return super().words(daemon, command)
        if command[:2] == ["PUBSUB", "NUMSUB"]:
            command = ["PUBSUB", "SHARDNUMSUB", *command[2:]]
        elif command[0] == "PUBLISH":
            return super().words(daemon, ["SPUBLISH", *command[1:]])
        elif command[0] != "KEYS":
            return super().words(daemon, command)
        return [*self.tool, "-h", self.HOST, "-p", str(self.cluster.owner(slot_of(command[-1])).port), *command]

    def clear(self):
        self.cluster.renew()


class ClusterIpv6(ClusterOfSix):
    HOST = "::1"


class ClusterTls(WithTls, ClusterOfSix):
    def begin(self):
        self.ca = Authority(self.dir)
        self.tls = (*self.ca.certificate("node"), self.ca.pem)
        self.tool = ["redis-cli", "--tls", "--cacert", self.ca.pem]
        super().begin()


SHAPES = {"tcp": Tcp, "tls": Tls, "sentinel": Sentinel, "sentinel+tls": SentinelTls, "sentinel+ipv6": SentinelIpv6,
          "quorum": Quorum, "quorum+tls": QuorumTls, "quorum+ipv6": QuorumIpv6, "cluster": ClusterOfSix,
          "cluster+tls": ClusterTls, "cluster+ipv6": ClusterIpv6}
