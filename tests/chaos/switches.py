#!/usr/bin/env python3
"""switches.py [ROUNDS] -- switches with lost writes, by real sentinels, while clients count under locks.

Each round: all replicas are cut off from the master; a client of daemon A is granted a lock that no replica knows of,
and a plain client (SET NX PX) another one; the master is killed by KILL, and the sentinels name a replica. Another
plain client and a client of daemon B ask for the same locks: B's must not get its lock before A's gives it back, and
then with a larger token; a lock that A has held since the first round stays held. All the while other clients of both
daemons count, without any other protection: no update may be lost, and tokens must rise. The dead master comes back at
its old address, in every fourth round as a master without data until the sentinels change its role, else as a replica.
"""
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
for room in ("redis", "bench"):
    sys.path.insert(0, os.path.join(HERE, "..", room))
sys.path.insert(0, HERE)
from harness import Rlockd, until  # noqa: E402
from moving import answered  # noqa: E402
from rounds import Rounds, main  # noqa: E402
from sentinels import Deployment  # noqa: E402

CONF = "redis: { timeout: 500ms, connect_timeout: 500ms }\nlocks: { lease: 10s }\n"


class World(Rounds):
    TITLE = "switches"
    LOST = 0.5  # a replica may have received the locks all the same

    def __init__(self, stage):
        self.stage = stage
        self.d = Deployment(stage, bounded=False)
        daemons = [stage._keep(Rlockd(stage.dir, redis=self.d.url(), name=n, conf=CONF)) for n in "ab"]
        for daemon in daemons:
            until(lambda daemon=daemon: daemon.info("redis")["redis_other_daemons"] == "1")
        self.master = self.d.servers[0]
        super().__init__(*daemons, *(daemon.conn() for daemon in daemons))
        self.kept["kept"] = self.holder.cmd("LOCK", "kept")

    def round(self, i):
        old, name, plain = self.master, "lost:%d" % i, "plain:%d" % i
        # a connection from before the cut, as those of the daemons: a later one would need a password
        with old.conn() as c:
            self.d.cut_off(old)
            assert c.cmd("SET", plain, "one", "NX", "PX", "60000") == "OK"
        token = answered(self.holder, "LOCK", name, "WAIT", "5s")
        killed = time.monotonic()
        old.kill()
        self.master = self.d.other(old)
        self.granted_again(i, "new:%d" % i, token, killed)
        self.plain += self.d.master().cmd("SET", plain, "two", "NX", "PX", "60000") == "OK"
        self.no_other_client(i, name, token, "NOWAIT")
        self.handed_on(i, name, token)
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


if __name__ == "__main__":
    sys.exit(main(World))
