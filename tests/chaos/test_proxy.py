#!/usr/bin/env python3
"""The fault proxy: the faults that it reports have happened, and no others; over Unix sockets and TCP."""
import os
import random
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from world import Proxy, harness  # noqa: E402
from harness import SLOW, Case, until  # noqa: E402


class Echo:
    """Sends back the bytes that it receives, after its name if it has one."""

    def __init__(self, path, name=b""):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.bind(path)
        self.sock.listen(300)
        self.name, self.path, self.ended, self.got = name, path, 0, 0
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                conn = self.sock.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.serve, args=(conn,), daemon=True).start()

    def serve(self, conn):
        with conn:
            try:
                if self.name:  # (to send nothing to a peer that has gone is an error as well)
                    conn.sendall(self.name)
                while True:
                    data = conn.recv(65536)
                    if not data:
                        break
                    self.got += len(data)
                    conn.sendall(data)
            except OSError:
                pass
        self.ended += 1


class Faults(Case):
    tcp = False

    def setUp(self):
        super().setUp()
        self.echo = Echo(self.dir + "/echo")
        self.addCleanup(self.echo.sock.close)
        self.proxy = self._keep(Proxy(self.dir))
        listen = "tcp:127.0.0.1:0" if self.tcp else "unix:%s/way" % self.dir
        port = int(self.proxy.say("route", "way", listen, "unix:" + self.echo.path)[0])
        self.where = ("127.0.0.1", port) if self.tcp else self.dir + "/way"

    def dial(self):
        s = socket.socket() if self.tcp else socket.socket(socket.AF_UNIX)
        self.addCleanup(s.close)
        s.settimeout(10 * SLOW)
        s.connect(self.where)
        return s

    def read(self, s, n):
        got = b""
        while len(got) < n:
            more = s.recv(n - len(got))
            if not more:
                break
            got += more
        return got

    def ended(self, s):
        """All bytes before the end of the connection."""
        got = b""
        try:
            while True:
                more = s.recv(65536)
                if not more:
                    return got
                got += more
        except ConnectionResetError:
            return got

    def in_a_hole(self, s, seen):
        """The proxy has counted more holes than `seen`, and nothing has come out of the present one."""
        until(lambda: self.stat("hole") > seen)
        s.settimeout(0)
        with self.assertRaises(BlockingIOError):
            s.recv(1)
        s.settimeout(10 * SLOW)

    def fault(self, way, name, number):
        self.proxy.say("set", "way", way, name, number)

    def stat(self, name):
        return self.proxy.stats("way")[name]

    def test_nothing_is_wrong(self):
        s = self.dial()
        s.sendall(b"hello")
        self.assertEqual(self.read(s, 5), b"hello")
        stats = self.proxy.stats("way")
        self.assertEqual((stats["up"], stats["down"], stats["open"], stats["accepted"]), (5, 5, 1, 1))
        for name in ("delay", "trip", "jitter", "slice", "cut", "swallow", "hole", "bandwidth", "resets", "refused"):
            self.assertEqual(stats[name], 0, name)

    def test_half_close(self):
        s = self.dial()
        s.sendall(b"hello")
        s.shutdown(socket.SHUT_WR)
        self.assertEqual(self.ended(s), b"hello")
        until(lambda: self.stat("open") == 0)
        self.assertEqual(self.stat("resets"), 0)

    def test_much_arrives_in_order(self):
        data = random.Random(1).randbytes(3 << 20)
        self.fault("both", "jitter", 3)
        s = self.dial()
        threading.Thread(target=lambda: (s.sendall(data), s.shutdown(socket.SHUT_WR)), daemon=True).start()
        self.assertEqual(self.ended(s), data)
        self.assertGreater(self.stat("jitter"), 10)

    def test_many_connections(self):
        all_of = [self.dial() for _ in range(200)]
        for i, s in enumerate(all_of):
            s.sendall(b"%04d" % i)
        for i, s in enumerate(all_of):
            self.assertEqual(self.read(s, 4), b"%04d" % i)
        self.assertEqual(self.stat("open"), 200)

    def test_delay(self):
        s = self.dial()
        for way, least in (("up", 0.08), ("down", 0.08), ("both", 0.16)):
            self.fault(way, "delay", 80)
            began = time.monotonic()
            s.sendall(b"x")
            self.assertEqual(self.read(s, 1), b"x")
            self.assertGreaterEqual(time.monotonic() - began, least)
            self.assertLess(time.monotonic() - began, least + 0.5 * SLOW)
            self.fault("both", "delay", 0)
        self.assertGreaterEqual(self.stat("delay"), 4)

    def test_trip(self):
        """
        Each direction takes the requested time, to a fraction of a millisecond: the fastest of many tries shows it.
        """
        s = self.dial()

        def fastest():
            took = []
            for _ in range(100):
                began = time.monotonic()
                s.sendall(b"x")
                self.assertEqual(self.read(s, 1), b"x")
                took.append(time.monotonic() - began)
            return min(took)
        self.fault("both", "trip", 700)
        self.assertGreaterEqual(fastest(), 0.0014)
        self.assertLess(fastest(), 0.0014 + 0.001 * SLOW)
        self.assertGreaterEqual(self.stat("trip"), 400)
        self.assertEqual(self.stat("delay"), 0)

    def test_slice(self):
        self.fault("down", "slice", 1)
        s = self.dial()
        s.sendall(b"0123456789" * 20)
        self.assertEqual(self.read(s, 200), b"0123456789" * 20)
        self.assertGreaterEqual(self.stat("slice"), 180, "one byte at a time")

    def test_cut(self):
        for n in (1, 7, 100):
            self.fault("down", "cut", n)
            s = self.dial()
            s.sendall(b"x" * 100)
            self.assertEqual(len(self.ended(s)), n, "so many bytes come back, and then the end")
        self.fault("down", "cut", 0)
        got = self.echo.got
        self.fault("up", "cut", 3)
        s = self.dial()
        s.sendall(b"x" * 100)
        self.ended(s)
        until(lambda: self.echo.got - got == 3)
        self.assertEqual(self.stat("cut"), 4)

    def test_cut_counts_from_its_command(self):
        s = self.dial()
        s.sendall(b"x" * 50)
        self.read(s, 50)
        self.fault("down", "cut", 10)
        s.sendall(b"x" * 50)
        self.assertEqual(len(self.ended(s)), 10)

    def test_swallow(self):
        s = self.dial()
        s.sendall(b"one")
        self.assertEqual(self.read(s, 3), b"one")
        self.fault("down", "swallow", 1)
        s.sendall(b"two")
        self.assertEqual(self.ended(s), b"")
        self.assertEqual(self.echo.got, 6, "it was received")
        self.assertEqual(self.stat("swallow"), 1)

    def test_hole(self):
        for way, received in (("up", 0), ("down", 3), ("both", 0)):
            s, before, seen = self.dial(), self.echo.got, self.stat("hole")
            s.sendall(b"a")
            self.assertEqual(self.read(s, 1), b"a")
            self.fault(way, "hole", 1)
            s.sendall(b"bcd")
            self.in_a_hole(s, seen)
            self.assertEqual(self.echo.got - before - 1, received)
            self.fault("both", "hole", 0)
            self.assertEqual(self.read(s, 3), b"bcd", "what was sent arrives later")

    def test_hole_before_the_connection(self):
        self.fault("both", "hole", 1)
        s = self.dial()
        s.sendall(b"abc")
        self.in_a_hole(s, 0)
        self.fault("both", "hole", 0)
        self.assertEqual(self.read(s, 3), b"abc")

    def test_the_end_of_a_client_is_not_seen_through_a_hole(self):
        s = self.dial()
        s.sendall(b"a")
        self.read(s, 1)
        self.fault("both", "hole", 1)
        s.close()
        until(lambda: self.stat("hole") > 0)
        self.assertEqual(self.echo.ended, 0)
        self.fault("both", "hole", 0)
        until(lambda: self.echo.ended == 1)

    def test_bandwidth(self):
        self.fault("down", "bandwidth", 20000)
        s = self.dial()
        began = time.monotonic()
        s.sendall(b"x" * 10000)
        self.assertEqual(len(self.read(s, 10000)), 10000)
        self.assertGreater(time.monotonic() - began, 0.35)
        self.assertLess(time.monotonic() - began, 1.5 * SLOW)
        self.assertGreater(self.stat("bandwidth"), 0)

    def test_reset_and_end(self):
        for word, resets in (("end", 0), ("reset", 1)):
            s = self.dial()
            s.sendall(b"a")
            self.read(s, 1)
            self.proxy.say(word, "way")
            if self.tcp and word == "reset":
                with self.assertRaises(ConnectionResetError):
                    s.recv(1)
            else:
                self.assertEqual(self.ended(s), b"")
            self.assertEqual(self.stat("resets"), resets)

    def test_refuse(self):
        self.proxy.say("refuse", "way", 1)
        try:
            self.assertEqual(self.ended(self.dial()), b"")
        except ConnectionResetError:
            pass
        until(lambda: self.stat("refused") == 1)
        self.proxy.say("clear", "way")
        s = self.dial()
        s.sendall(b"a")
        self.assertEqual(self.read(s, 1), b"a")

    def test_target(self):
        other = Echo(self.dir + "/other", b"other")
        self.addCleanup(other.sock.close)
        old = self.dial()
        old.sendall(b"a")
        self.assertEqual(self.read(old, 1), b"a")
        self.proxy.say("target", "way", "unix:" + other.path)
        self.assertEqual(self.read(self.dial(), 5), b"other")
        old.sendall(b"b")
        self.assertEqual(self.read(old, 1), b"b", "connections that are there stay")

    def test_a_target_that_is_not_there(self):
        self.proxy.say("target", "way", "unix:%s/no-server" % self.dir)
        try:
            self.assertEqual(self.ended(self.dial()), b"")
        except ConnectionResetError:
            pass

    def test_what_it_does_not_understand(self):
        for words in (("set", "nowhere", "up", "delay", 1), ("set", "way", "up", "sorrow", 1), ("dance",),
                      ("target", "way", "smoke:signals"),
                      ("route", "way", "unix:%s/x" % self.dir, "unix:%s/y" % self.dir)):
            with self.assertRaises(AssertionError):
                self.proxy.say(*words)
        self.assertEqual(self.stat("open"), 0)


class FaultsTcp(Faults):
    tcp = True


if __name__ == "__main__":
    harness.main()
