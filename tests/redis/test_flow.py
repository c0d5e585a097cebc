#!/usr/bin/env python3
"""Back-pressure: the daemon stops reading from a client that asks for more than Redis can do, so requests that wait
take no memory in the daemon.
"""
import re
import signal
import socket
import subprocess
import sys

import harness
from harness import Case, until

SESSIONS = 8
PIPELINE = 64
OUTPUT = 256 << 10  # limits.output_bytes: for replies that no client reads
REFUSAL = 60  # bytes of -LIMIT, at least
PUSHED = 4 << 20  # bytes that each session tries to send


class Flood:
    """A session that sends LOCKs of its own names as long as the kernel takes them."""

    def __init__(self, d, number, words):
        self.c = d.conn()
        self.c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 14)
        self.c.sock.setblocking(False)
        lines = ["LOCK flood:%d:%07d OWNER %0100d %s\r\n" % (number, i, i, words) for i in range(PUSHED // 128)]
        self.left = "".join(lines).encode()

    def push(self):
        """How many bytes the kernel took."""
        before = len(self.left)
        try:
            while self.left:
                self.left = self.left[self.c.sock.send(self.left[:1 << 16]):]
        except BlockingIOError:
            pass
        return before - len(self.left)


class SlowRedis(Case):
    def start(self):
        self.r = self.redis()
        self.d = self.rlockd(redis=self.r.url, conf="limits: { pipeline: %d }\n" % PIPELINE)

    def stop_redis(self):
        self.r.signal(signal.SIGSTOP)
        self.addCleanup(lambda: self.r.running() and self.r.signal(signal.SIGCONT))

    def used(self):
        return int(self.d.info("memory")["used_memory"])

    def flood(self, words):
        floods = [Flood(self.d, i, words) for i in range(SESSIONS)]
        for f in floods:
            self.addCleanup(f.c.close)

        def full():
            """the kernel takes no more bytes of any session"""
            return sum(f.push() for f in floods) == 0
        until(full)
        return floods

    def test_a_flood_is_not_read_while_redis_stands_still(self):
        self.start()
        asked = int(self.d.info("stats")["requests"])
        used = self.used()
        self.stop_redis()
        floods = self.flood("WAIT 1h")
        self.assertTrue(all(f.left for f in floods), "the kernel holds them up")
        with self.d.conn() as other:
            self.assertEqual(other.cmd("PING"), "PONG")
            stats = other.cmd("INFO", "stats")
            asked = int(re.search(r"^requests:(\d+)", stats, re.M)[1]) - asked
            # Each request past limits.pipeline makes the daemon refuse the oldest one, until limits.output_bytes are
            # unread.
            self.assertLess(asked, SESSIONS * (PIPELINE + OUTPUT // REFUSAL + 50))
            self.assertGreaterEqual(asked, SESSIONS * PIPELINE)
            # A waiting request has its records, and a session has one read of 64 KiB that the daemon has not processed
            # yet.
            self.assertLess(self.used() - used, SESSIONS * (PIPELINE * 4096 + (160 << 10) + (300 << 10)))
            for f in floods:
                f.c.close()
            self.r.signal(signal.SIGCONT)
            self.assertGreater(other.cmd("LOCK", "mine"), 0)
        until(lambda: int(self.d.info("clients")["connected_clients"]) == 1)

    def test_a_redis_that_is_up_but_late(self):
        """The refusal names the operation that Redis is late with; nothing else is wrong."""
        self.start()
        self.stop_redis()
        self.assertRegex(self.d.cmd("LOCK", "mine", "NOWAIT"),
                         r"^UNAVAILABLE Redis cannot answer in time: calls in flight: [1-9]\d*, operations behind "
                         r"them: \d+, the last round trip: \d+ ms$")

    def test_a_redis_that_is_killed(self):
        """The refusal of a request that was in flight names the lost connection: Redis is late with nothing."""
        self.start()
        self.stop_redis()
        c = self.d.conn()
        c.ask("LOCK", "mine", "NOWAIT")
        until(lambda: int(self.d.info("redis")["redis_in_flight"]) > 0)
        self.r.kill()
        self.assertRegex(c.read(), r"^UNAVAILABLE Redis cannot answer: unix:\S+: (the connection|Connection|closed)")

    def test_a_flood_that_does_not_wait(self):
        """
        Requests are answered -UNAVAILABLE by shares; sessions do not read the replies, so these hold them up as well.
        """
        self.start()
        used = self.used()
        self.stop_redis()
        floods = self.flood("WAIT 0")
        # As above, and limits.output_bytes of replies.
        self.assertLess(self.used() - used, SESSIONS * (PIPELINE * 4096 + (160 << 10) + (300 << 10)))
        self.assertEqual(self.d.cmd("PING"), "PONG")
        self.assertRegex(self.d.cmd("LOCK", "mine", "WAIT", "0"), "^UNAVAILABLE ")
        for f in floods:
            f.c.close()
        self.r.signal(signal.SIGCONT)
        self.assertGreater(self.d.cmd("LOCK", "mine", "WAIT", "10s"), 0)


class LongReplies(Case):
    """LOCKS of many names, which several sessions request and do not read."""
    LOCKS, READERS = 16000, 6
    WAITS = 6 << 20  # bytes of each reply, at least
    # It may take Redis long to grant 1,000 requests.
    CONF = "limits: { locks: 100000, pipeline: 4096 }\nredis: { timeout: 1m }\n"

    def start(self):
        self.d = self.rlockd(redis=self.redis().url, conf=self.CONF)
        self.one = self.conn(self.d)
        for n in range(0, self.LOCKS, 1000):
            self.one.send("".join("LOCK l:%0200d NOWAIT LEASE 1h\r\n" % (n + i) for i in range(1000)))
            for _ in range(1000):
                self.assertGreater(self.one.read(), 0)

    def rss(self):
        with open("/proc/%d/status" % self.d.pid) as f:
            return int(re.search(r"VmRSS:\s+(\d+)", f.read())[1]) << 10

    def ask(self):
        readers = [self.conn(self.d) for _ in range(self.READERS)]
        for c in readers:
            c.send("LOCKS\r\nPING\r\n")

        def made():
            unread = [int(n) for n in re.findall(r" omem=(\d+) events=r cmd=locks ", self.one.cmd("CLIENT", "LIST"))]
            return len(unread) == self.READERS and min(unread) > self.WAITS
        until(made)
        return readers

    def check(self, end):
        """The replies take memory while they wait, and that memory goes back to the kernel by `end`."""
        self.start()
        before = self.rss()
        readers = self.ask()
        peak = self.rss()
        self.assertGreater(peak - before, self.READERS * self.WAITS)
        # Their records come behind the replies in the heap.
        self.one.send("".join("LOCK m:%d NOWAIT LEASE 1h\r\n" % i for i in range(1000)))
        for _ in range(1000):
            self.assertGreater(self.one.read(), 0)
        end(readers)
        until(lambda: self.rss() - before < (peak - before) / 4)

    def test_memory_goes_back_when_they_are_read(self):
        def read(readers):
            for c in readers:
                end = b""
                while not end.endswith(b"\r\n+PONG\r\n"):
                    received = c.sock.recv(1 << 20)
                    self.assertNotEqual(received, b"", "the daemon has closed it")
                    end = (end + received)[-20:]
        self.check(read)

    def test_memory_goes_back_with_their_sessions(self):
        self.check(lambda readers: [c.close() for c in readers])


class OneConnection(Case):
    def test_an_owner_holds_what_others_on_it_wait_for(self):
        """all tasks of a process use one connection: unread requests must not keep back those of the holder"""
        redis = self.redis()
        d = self.rlockd(redis=redis.url)
        code = """if True:
            import socket, sys
            s = socket.socket(socket.AF_UNIX)
            s.connect(sys.argv[1])
            s.settimeout(%d)
            s.sendall(b"LOCK a OWNER t0\\r\\n")
            s.recv(100)
            for i in range(1, 901):
                s.sendall(b"LOCK a OWNER t%%d\\r\\n" %% i)
            s.sendall(b"UNLOCK a OWNER t0\\r\\n")
            sys.exit(s.recv(1) != b":")
            """ % harness.DEADLINE
        for _ in range(1):  # a second round would wait for owner_grace
            self.assertEqual(subprocess.run([sys.executable, "-c", code, d.path]).returncode, 0)


if __name__ == "__main__":
    harness.main()
