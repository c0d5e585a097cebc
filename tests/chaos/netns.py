"""netns.py -- a cable between two network namespaces, both private to this run: it changes nothing of the host, leaves
nothing behind, and two runs do not interfere. Needs root (or CAP_SYS_ADMIN and CAP_NET_ADMIN) and iproute2.
"""
import os
import subprocess
import sys

from harness import Process, until

MARK = "RLOCKD_CHAOS_NETNS"
_count = [0]


def quiet(*words):
    return subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL).returncode == 0


def enter():
    """Moves this program into a network namespace of its own, where that is allowed."""
    if MARK in os.environ:
        Cable.must("ip", "link", "set", "lo", "up")
        return
    try:
        may = quiet("unshare", "--net", "ip", "link", "set", "lo", "up") and quiet("nsenter", "--version")
    except OSError:
        may = False
    if may:
        os.execvpe("unshare", ["unshare", "--net", sys.executable, *sys.argv], {**os.environ, MARK: "1"})


def allowed():
    return MARK in os.environ


class Cable:
    """One end here, one end in the namespace of a process that sleeps; programs run there by the words `under`."""

    def __init__(self, directory):
        _count[0] += 1
        n = _count[0]
        self.process = Process(["unshare", "--net", "sleep", "infinity"], directory, "cable")
        self.here, self.there = "10.77.%d.1" % n, "10.77.%d.2" % n
        self.under = ("nsenter", "--target", str(self.process.pid), "--net", "--")
        until(self.elsewhere)
        names = ("here%d" % n, "there%d" % n)
        self.must("ip", "link", "add", names[0], "type", "veth", "peer", "name", names[1], "netns",
                  str(self.process.pid))
        self.must("ip", "addr", "add", self.here + "/24", "dev", names[0])
        self.must("ip", "link", "set", names[0], "up")
        self.must(*self.under, "ip", "addr", "add", self.there + "/24", "dev", names[1])
        self.must(*self.under, "ip", "link", "set", names[1], "up")

    def elsewhere(self):
        """the sleeper is in a namespace of its own"""
        return os.readlink("/proc/%d/ns/net" % self.process.pid) != os.readlink("/proc/self/ns/net")

    @staticmethod
    def must(*words):
        if not quiet(*words):
            raise AssertionError("failed: %s" % " ".join(words))

    def cut(self, sides):
        """Packets that these sides send are lost."""
        if "here" in sides:
            self.must("ip", "route", "add", "blackhole", self.there + "/32")
        if "there" in sides:
            self.must(*self.under, "ip", "route", "add", "blackhole", self.here + "/32")

    def mend(self, sides):
        if "here" in sides:
            self.must("ip", "route", "del", "blackhole", self.there + "/32")
        if "there" in sides:
            self.must(*self.under, "ip", "route", "del", "blackhole", self.here + "/32")

    def reaches(self, port):
        """Whether a connection from there succeeds."""
        return quiet(*self.under, "timeout", "1", "bash", "-c", "exec 3<>/dev/tcp/%s/%d" % (self.here, port))


def cable(directory):
    return Cable(directory) if allowed() else None
