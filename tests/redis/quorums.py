"""quorums.py -- independent masters for a quorum, all private to the test that starts them."""
import hashlib
import os
import signal

import harness
from harness import Closed, free_port

CLOCKS = ["rlock:clock:%d" % part for part in range(64)]


def clock_of(key):
    """The token clock of a name with that key, as scripts/clocks.lua computes it."""
    return CLOCKS[hashlib.sha1(key.encode()).digest()[0] % 64]


class Master(harness.Redis):
    """
    A redis-server without replicas, which can be started again. at: the URL by which daemons reach it; host: where it
    has a port.
    """

    def __init__(self, directory, name, args=(), at=None, under=(), host=None, port=None):
        port = port or (free_port() if host else 0)
        self.name, self.dump = name, name + ".rdb"
        self.place = {"args": args, "at": at, "under": under, "host": host, "port": port}
        there = ("--bind", host, "--protected-mode", "no", "--port", str(port)) if host else ()
        super().__init__(directory, name, args=("--dbfilename", self.dump, *there, *args), under=under)

    @property
    def url(self):
        place = self.place
        return place["at"] or ("redis://" + harness.at(place["host"], place["port"]) if place["host"] else super().url)

    def again(self, old=False):
        """Starts another process at the same address: without data, or with the data of its last SAVE."""
        dump = os.path.join(self.directory, self.dump)
        if not old and os.path.exists(dump):
            os.unlink(dump)
        return Master(self.directory, self.name, **self.place)


class Masters:
    """N masters. `case` keeps the processes (harness.Case, or a shape); place(i): the arguments of Master i."""

    def __init__(self, case, n=3, place=lambda i: {}):
        self.case = case
        self.nodes = [case._keep(Master(case.dir, "node%d" % i, **place(i))) for i in range(n)]

    def url(self):
        return "quorum:" + ",".join(node.url for node in self.nodes)

    def cmd(self, *words):
        """The answer of each master; None: it does not answer."""
        return [self.of(node, *words) for node in self.nodes]

    @staticmethod
    def of(node, *words):
        try:
            return node.cmd(*words) if node.running() else None
        except (OSError, Closed):
            return None

    def again(self, i):
        """Starts a master again without data, after a kill."""
        self.nodes[i] = self.case._keep(self.nodes[i].again())

    def pause(self, *which):
        for i in which:
            self.nodes[i].signal(signal.SIGSTOP)

    def resume(self, *which):
        for i in which:
            self.nodes[i].signal(signal.SIGCONT)
