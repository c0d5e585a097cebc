"""Long replies that are read slowly, with many parts that may become untrue meanwhile."""
import itertools
import time

from hostile import SLOW, Scene, pipeline

LOCKS = 60000
READ = 32 << 20  # bytes, at least: on a slow machine that takes longer than 4 s
PAUSE_S = 0.005  # the workload: between two reads of 64 KiB, and between two groups of short leases


class UnreadListings(Scene):
    "LOCKS of 60,000 rows, 8 connections that read 64 KiB each 5 ms; 20 leases of 30 ms begin each 5 ms"
    conf = {"limits": {"locks": 10000000, "pipeline": 65536, "output_bytes": "1MiB"}}

    def prepare(self):
        self.holder = self.connect()
        for n in range(0, LOCKS, 20000):
            assert pipeline(self.holder, ["LOCK l:%d NOWAIT LEASE 1h" % (n + i) for i in range(20000)]) == 0
        self.readers = [self.connect() for _ in range(8)]
        self.short = self.connect()

    def attack(self):
        names, read = itertools.count(), 0
        for c in self.readers:
            c.send("LOCKS\r\n" * 20)
            c.sock.setblocking(False)
        self.short.sock.setblocking(False)
        began = first = time.monotonic()
        while began < first + 4 or (read < READ and began < first + 20 * SLOW):
            began = time.monotonic()
            self.short.sock.sendall(b"".join(b"LOCK s:%d NOWAIT LEASE 30ms\r\n" % next(names) for _ in range(20)))
            for c in [*self.readers, self.short]:
                try:
                    read += len(c.sock.recv(1 << 16))
                except BlockingIOError:
                    pass
            time.sleep(max(0.0, PAUSE_S - (time.monotonic() - began)))
        assert read >= READ, "%d MB read" % (read >> 20)
        return "%d MB read, %d leases" % (read >> 20, next(names))
