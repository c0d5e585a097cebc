#!/usr/bin/env python3
"""switch.py [RUNS] -- how long a switch to another master keeps clients waiting, beside what Sentinel itself takes.

Each run has servers of its own: a master, two replicas, three sentinels (down-after 1 s) and two daemons, of which
one holds a lock. The master is killed by KILL, and a client of the other daemon asks for a lock. Counted from the
kill: when the first sentinel says +switch-master, when a majority has said it, and when the client is granted its
lock; which is behind the grace period, in which the holder's daemon reclaims what it has. Goal: half a second behind
the first one.
"""
import os
import shutil
import statistics
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "redis"))
import harness  # noqa: E402
from harness import Closed, Conn, Rlockd, RError, until  # noqa: E402
from sentinels import Deployment  # noqa: E402

GOAL_S = 0.5
BUILD = os.environ.get("RLOCKD_BUILD", os.path.join(harness.TOP, "build"))


class Stage:
    """A directory, and the end of all that was started in it."""

    def __enter__(self):
        self.dir, self.parts = tempfile.mkdtemp(prefix="rlockd-switch."), []
        return self

    def _keep(self, part):
        self.parts.append(part)
        return part

    def __exit__(self, *_):
        for part in reversed(self.parts):
            part.stop()
        shutil.rmtree(self.dir, True)


class Ear(threading.Thread):
    """Notes when a sentinel says that there is another master."""

    def __init__(self, sentinel):
        super().__init__(daemon=True)
        self.conn, self.at = Conn(sentinel.path, timeout=60), None
        self.conn.cmd("SUBSCRIBE", "+switch-master")
        self.start()

    def run(self):
        try:
            self.conn.read()
            self.at = time.monotonic()
        except (OSError, Closed):
            pass


def run():
    with Stage() as stage:
        d = Deployment(stage)
        a, b = [stage._keep(Rlockd(stage.dir, redis=d.url(), name=name, build=BUILD)) for name in "ab"]
        for daemon in (a, b):
            until(lambda daemon=daemon: daemon.info("redis")["redis_other_daemons"] == "1")
        with a.conn() as holder, Conn(b.path, timeout=60) as c:
            held = holder.cmd("LOCK", "held")
            ears = [Ear(s) for s in d.sentinels]
            killed = time.monotonic()
            d.servers[0].kill()
            while isinstance(c.cmd("LOCK", "first", "WAIT", "30s"), RError):
                pass
            granted = time.monotonic()
            until(lambda: all(e.at is not None for e in ears), deadline=30)
            assert holder.cmd("LOCK", "held", "ONCE") == held, "the holder has lost its lock"
        said = sorted(e.at for e in ears)
        return [at - killed for at in (said[0], said[1], granted)]


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    rows = []
    print("run  first +switch-master  majority  first grant  behind the first  (s)")
    for i in range(runs):
        first, majority, granted = run()
        rows.append((first, majority, granted, granted - first))
        print("%3d  %20.3f  %8.3f  %11.3f  %16.3f" % (i + 1, *rows[-1]), flush=True)
    print("median %18.3f  %8.3f  %11.3f  %16.3f" % tuple(statistics.median(column) for column in zip(*rows)))
    print("max    %18.3f  %8.3f  %11.3f  %16.3f" % tuple(max(column) for column in zip(*rows)))
    return 0 if statistics.median(row[3] for row in rows) <= GOAL_S else 1


if __name__ == "__main__":
    sys.exit(main())
