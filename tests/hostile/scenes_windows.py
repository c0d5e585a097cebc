"""Operations for Redis by the hundred thousand: each is answered in time, or not sent yet."""
import time

from hostile import DEADLINE, SLOW, Scene, pipeline
from scenes_slices import fill, stat, wait_for

LOCKS = 100000
BATCH = 128    # names of a call, at most
WINDOW = 5000  # operations of one sort, with that timeout: daemon/core/window.c


class InFlight(Scene):
    "Redis loses its data while two sessions have 100,000 locks; then they end. redis.timeout is 500 ms"
    conf = {"redis": {"timeout": "500ms"}, "limits": {"waiters": 400000, "session_waiters": 100000}}
    cycle_ms = 5000  # no lock is granted before all held locks are reclaimed

    def prepare(self):
        self.admin = self.connect()
        self.ends = [self.connect() for _ in range(2)]
        for i, c in enumerate(self.ends):
            fill(c, "w%d:" % i, LOCKS // 2)

    def most_until(self, name, least):
        """The ms until the field is at least `least`, and the most operations in flight meanwhile."""
        began, most = time.monotonic(), 0
        while stat(self.admin, name) < least:
            if time.monotonic() > began + DEADLINE * SLOW:
                raise AssertionError("%s is %d, not %d" % (name, stat(self.admin, name), least))
            redis = dict(line.split(":", 1) for line in self.admin.cmd("INFO", "redis").splitlines() if ":" in line)
            most = max(most, int(redis["redis_queued"]))
        return (time.monotonic() - began) * 1000, most

    def attack(self):
        with self.redis.conn() as c:
            assert c.cmd("FLUSHALL") == "OK"
        reclaimed = self.most_until("reclaims", LOCKS)
        for c in self.ends:
            c.close()
        freed = self.most_until("releases", LOCKS)
        if max(reclaimed[1], freed[1]) > WINDOW + BATCH or stat(self.admin, "lost") > 0:
            raise AssertionError("%d and %d waited, %d lost" % (reclaimed[1], freed[1], stat(self.admin, "lost")))
        return "%d ms until all were asserted, %d ms until all were free, at most %d waited in the backend" % (
            reclaimed[0], freed[0], max(reclaimed[1], freed[1]))


class ReadersReclaimed(Scene):
    "Redis loses its data while 120,000 readers have a name: short leases are asserted before theirs"
    conf = {"rules": [{"match": "doc", "kind": "rw"}]}
    cycle_ms = 10000  # as above
    n = 120000

    def prepare(self):
        self.admin, self.readers = self.connect(), [self.connect() for _ in range(100)]
        for i, c in enumerate(self.readers):
            if pipeline(c, ["LOCK doc SHARED LEASE 1m OWNER r%d:%d" % (i, k) for k in range(self.n // 100)]):
                raise AssertionError("a reader was refused")

    def attack(self):
        with self.redis.conn() as c:
            assert c.cmd("FLUSHALL") == "OK"
        took = wait_for(self.admin, "reclaims", self.n)
        if stat(self.admin, "lost") > 0:
            raise AssertionError("%d lost" % stat(self.admin, "lost"))
        return "%d ms until all were asserted" % took
