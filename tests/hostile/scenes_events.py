"""Events: subscribers whose patterns are slow, or many."""
import time

from hostile import Scene, pipeline, send_all, take


class SlowPatterns(Scene):
    "PSUBSCRIBE: two sessions with 1,024 patterns of 512 bytes each, and 250 LOCKs of a name of 500"

    def prepare(self):
        self.name = "a" * 500
        self.subscribers = [self.connect() for _ in range(2)]
        for n, c in enumerate(self.subscribers):
            received = 0
            for i in range(0, 1024, 16):
                words = " ".join("lock:*%s%d%04d%s*" % ("a" * 250, n, i + k, "x" * 250) for k in range(16))
                received += send_all(c, ("PSUBSCRIBE %s\r\n" % words).encode()).count(b"\n")
            while received < 1024 * 6:  # lines of the frames
                received += take(c).count(b"\n")
        self.c = self.connect()

    def attack(self):
        errors = 0
        for _ in range(250):
            errors += pipeline(self.c, ["LOCK " + self.name, "UNLOCK " + self.name])
        return "%d errors" % errors


class Fanout(Scene):
    "SUBSCRIBE: 4,000 sessions to the same 20 channels, and one that locks and unlocks the 20 names"
    conf = {"limits": {"sessions": 6000}}

    def prepare(self):
        names = ["f%d" % i for i in range(20)]
        self.c = self.connect()  # first: select() takes no high descriptor
        self.subscribers = [self.connect() for _ in range(4000)]
        for c in self.subscribers:
            c.sock.sendall(("SUBSCRIBE %s\r\n" % " ".join("lock:" + n for n in names)).encode())
        for c in self.subscribers:
            received = 0
            while received < 20 * 6:  # lines of the frames
                received += take(c).count(b"\n")
        self.lines = ["LOCK %s NOWAIT" % n for n in names] + ["UNLOCK %s" % n for n in names]

    def attack(self):
        end, rounds = time.monotonic() + 2, 0
        while time.monotonic() < end:
            pipeline(self.c, self.lines)
            rounds += 1
        return "%d events for each of them" % (rounds * len(self.lines))
