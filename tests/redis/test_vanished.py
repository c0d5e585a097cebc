#!/usr/bin/env python3
"""A TCP peer that vanishes without FIN or RST: its locks are free within `dead_peer`.

The daemon and its client live in two network namespaces joined by a veth pair; then the client's side drops its own
packets, as an unplugged host does. Needs root and iproute2, else it is skipped.
"""
import os
import shutil
import subprocess
import sys
import time

import harness
from harness import Case, until

CLIENT = """
import socket, sys, time
s = socket.create_connection(("10.77.0.1", 5625))
s.sendall(b"LOCK gone\\n")
print(s.makefile().readline(), flush=True)
sys.stdin.read()
"""


def ip(*words):
    return subprocess.run(["ip", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


class Vanished(Case):
    def setUp(self):
        super().setUp()
        self.a, self.b = ("rl%d%s" % (os.getpid(), side) for side in "ab")
        if os.geteuid() != 0 or shutil.which("ip") is None or not ip("netns", "add", self.a):
            self.skipTest("no network namespaces here")
        self.addCleanup(ip, "netns", "del", self.a)
        self.assertTrue(ip("netns", "add", self.b))
        self.addCleanup(ip, "netns", "del", self.b)
        veth = (self.a[-14:], self.b[-14:])
        if not ip("link", "add", veth[0], "netns", self.a, "type", "veth", "peer", "name", veth[1], "netns", self.b):
            self.skipTest("no veth here")
        for ns, dev, address in ((self.a, veth[0], "10.77.0.1/24"), (self.b, veth[1], "10.77.0.2/24")):
            self.assertTrue(ip("-n", ns, "addr", "add", address, "dev", dev))
            self.assertTrue(ip("-n", ns, "link", "set", dev, "up"))

    def test_its_locks_are_freed(self):
        d = self.rlockd(conf="dead_peer: 3s\nprotected_mode: false\n", args=("--listen", "tcp:10.77.0.1:5625"),
                        under=("ip", "netns", "exec", self.a))
        client = subprocess.Popen(["ip", "netns", "exec", self.b, sys.executable, "-c", CLIENT], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, preexec_fn=harness.die_with_us)
        self.addCleanup(client.stdout.close)
        self.addCleanup(client.wait)
        self.addCleanup(client.stdin.close)
        self.addCleanup(client.kill)
        self.assertRegex(client.stdout.readline(), b"^:[0-9]+")
        c = self.conn(d)
        self.assertEqual(c.maps("LOCKS", "gone")[0]["state"], "held")
        self.assertTrue(ip("-n", self.b, "route", "add", "blackhole", "10.77.0.1/32"))
        began = time.monotonic()
        until(lambda: c.maps("LOCKS", "gone") == [], deadline=20)
        took = time.monotonic() - began
        self.assertIsNone(client.poll(), "it was the network that failed, not the client")
        self.assertGreater(took, 0.5, "it was noticed by the silence")
        print("vanished: freed after %.1f s (dead_peer 3 s)" % took, file=sys.stderr)


if __name__ == "__main__":
    harness.main()
