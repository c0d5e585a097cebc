#!/usr/bin/env python3
"""switches.py [ROUNDS] -- switches with lost writes, by real sentinels, while clients count under locks.

Each round: no replica hears of the master any more; a client of daemon A is granted a lock that therefore no replica
knows of; the master is killed by KILL, and the sentinels name a replica. A client of daemon B must not get that lock
before A's gives it back, and then with a larger token; a lock that A has held since the first round stays held. All the
while other clients of both daemons count, without any other protection: no update may be lost, and tokens must rise.
The dead master comes back at its old address, in every fourth round as a master without data that the sentinels have
yet to tell, else as a replica.
"""
import os
import statistics
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
for room in ("redis", "bench"):
    sys.path.insert(0, os.path.join(HERE, "..", room))
import harness  # noqa: E402
from harness import RError, Rlockd, until  # noqa: E402
from sentinels import Deployment  # noqa: E402
from switch import Stage  # noqa: E402
from test_sentinel_switch import Counting  # noqa: E402

CONF = "redis: { timeout: 500ms, connect_timeout: 500ms }\nlocks: { lease: 10s }\n"
CLIENTS = 6


def ask(c, *words):
    """The answer, when Redis is there."""
    end = time.monotonic() + 60 * harness.SLOW
    while True:
        answer = c.cmd(*words)
        if not isinstance(answer, RError) or not answer.startswith("UNAVAILABLE") or time.monotonic() > end:
            return answer


class World:
    def __init__(self, stage):
        self.stage, self.wrong, self.lost, self.times = stage, [], 0, []
        self.d = Deployment(stage, bounded=False)
        self.a, self.b = [stage._keep(Rlockd(stage.dir, redis=self.d.url(), name=n, conf=CONF)) for n in "ab"]
        for daemon in (self.a, self.b):
            until(lambda daemon=daemon: daemon.info("redis")["redis_other_daemons"] == "1")
        self.master = self.d.servers[0]
        self.holder, self.other = self.a.conn(), self.b.conn()
        self.kept = self.holder.cmd("LOCK", "kept")

    def check(self, holds, what):
        if not holds:
            self.wrong.append(what)

    def round(self, i):
        old, name = self.master, "lost:%d" % i
        self.d.cut_off(old)
        token = ask(self.holder, "LOCK", name, "WAIT", "5s")
        self.lost += not any(s.cmd("EXISTS", name) for s in self.d.servers if s is not old)
        killed = time.monotonic()
        old.kill()
        self.master = self.d.other(old)
        fresh = ask(self.other, "LOCK", "new:%d" % i, "WAIT", "30s")
        self.times.append(time.monotonic() - killed)
        self.check(isinstance(fresh, int) and fresh > token, "round %d: %r behind %r" % (i, fresh, token))
        self.other.cmd("UNLOCK", "new:%d" % i)
        taken = self.other.cmd("LOCK", name, "NOWAIT")
        self.check(not isinstance(taken, int), "round %d: two holders, %r and %r" % (i, token, taken))
        self.check(ask(self.holder, "LOCK", name, "ONCE") == token, "round %d: the lock was lost" % i)
        self.check(ask(self.holder, "LOCK", "kept", "ONCE") == self.kept, "round %d: the kept lock was lost" % i)
        ask(self.holder, "UNLOCK", name)
        after = ask(self.other, "LOCK", name, "WAIT", "10s")
        self.check(isinstance(after, int) and after > token, "round %d: %r follows %r" % (i, after, token))
        ask(self.other, "UNLOCK", name)
        self.come_back(i, old)

    def come_back(self, i, old):
        again = old.again(None if i % 4 == 3 else self.master)
        self.d.servers[self.d.servers.index(old)] = self.stage._keep(again)

        def whole():
            """both replicas follow the master, and every sentinel sees that"""
            self.master = self.d.master() or self.master  # a second sentinel may switch as well
            return self.master.cmd("INFO", "replication").count("state=online") == 2 and \
                all(len(flags) == 3 and not any("down" in f or "disconnected" in f for f in flags)
                    for flags in map(self.d.flags, self.d.sentinels))
        until(whole, deadline=60, pause=0.05)


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    with Stage() as stage:
        world = World(stage)
        counting = Counting([world.a, world.b], CLIENTS)
        try:
            for i in range(rounds):
                done = counting.done
                until(lambda: counting.done > done + 10 or counting.wrong, deadline=30)
                world.round(i)
                print("round %d: granted again after %.1f s, %d counted" % (i + 1, world.times[-1], counting.done),
                      flush=True)
                if world.wrong or counting.wrong:
                    break
        finally:
            wrong = world.wrong + counting.stop()
        print("%d switches, %d with a lost lock, %d counted; granted again after %.1f s in the median, %.1f s at most"
              % (len(world.times), world.lost, counting.done, statistics.median(world.times), max(world.times)))
        for line in wrong:
            print("WRONG: " + line)
        if wrong:
            print(world.a.log()[-3000:], world.b.log()[-3000:])
        return 1 if wrong or world.lost * 2 < len(world.times) else 0  # a replica may have heard of it all the same


if __name__ == "__main__":
    sys.exit(main())
