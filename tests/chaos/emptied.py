#!/usr/bin/env python3
"""emptied.py [ROUNDS] -- nodes of a quorum that lose all data, while clients count under locks.

Each round: one of three masters is stopped (SIGSTOP), so a lock has the other two. A client of daemon A is granted a
lock, and a client of the plain algorithm (Redlock: SET NX PX at each node, a majority) another one. Then the stopped
node goes on, and one of the two is killed by KILL and starts again at once, empty: only one node knows of both locks.
Another plain client and a client of daemon B ask for them: rlockd's lock must not be granted before A's client gives it
back, and then with a larger token. A lock that A has held since the first round stays held, and clients count all the
while: no update may be lost, and tokens must rise.
"""
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
for room in ("redis", "bench"):
    sys.path.insert(0, os.path.join(HERE, "..", room))
sys.path.insert(0, HERE)  # before bench, which has a run.py, too
import harness  # noqa: E402
from harness import Conn, Rlockd, until  # noqa: E402
from moving import answered  # noqa: E402
from quorums import Masters  # noqa: E402
from rounds import Rounds, main  # noqa: E402
from test_quorum import Redlock  # noqa: E402

CONF = "redis: { timeout: 500ms, connect_timeout: 500ms }\nlocks: { lease: 10s }\n"


class World(Rounds):
    TITLE = "emptied"

    def __init__(self, stage):
        self.m = Masters(stage)
        daemons = [stage._keep(Rlockd(stage.dir, redis=self.m.url(), name=n, conf=CONF)) for n in "ab"]
        super().__init__(*daemons, *(Conn(d.path, timeout=60 * harness.SLOW) for d in daemons))
        self.kept["kept"] = answered(self.holder, "LOCK", "kept", "WAIT", "20s")
        until(self.all_vote, 60)

    def all_vote(self):
        """all nodes vote, by the INFO of both daemons"""
        return all("state=voting" in d.info("redis")["redis_node%d" % i] for d in (self.a, self.b) for i in range(3))

    def round(self, i):
        away, lost = i % 3, (i + 1) % 3
        name, free, plain = ("%s:%d" % (what, i) for what in ("lost", "free", "plain"))
        self.m.pause(away)
        token = answered(self.holder, "LOCK", name, "WAIT", "20s")
        assert isinstance(token, int), "the holder is granted nothing: %r" % (token,)
        others = [node for node in self.m.nodes if node is not self.m.nodes[away]]
        assert [node.cmd("SET", plain, "one", "NX", "PX", "60000") for node in others] == ["OK", "OK"]
        killed = time.monotonic()
        self.m.nodes[lost].kill()
        self.m.again(lost)
        self.m.resume(away)
        self.plain += Redlock(self.m).lock(plain, 60000) is not None
        self.no_other_client(i, name, token, "WAIT", "150ms")
        self.granted_again(i, free, token, killed)
        self.handed_on(i, name, token)
        until(self.all_vote, 60, pause=0.05)


if __name__ == "__main__":
    sys.exit(main(World))
