"""In a quorum names share the token clocks of each node, so grants of unrelated names affect each other."""
import time

from hostile import Rlockd, Scene, flood, until
from quorums import CLOCKS, Masters

CONNS, NAMES, SECONDS = 8, 100, 2
# A clock that is ahead of time gives no reserve (common.lua), and each name takes Redis longer than 1 us.
AHEAD_US = 20000
LEAD = """
local t, highest = redis.call('TIME'), 0
for _, c in ipairs(redis.call('MGET', unpack(KEYS))) do highest = math.max(highest, tonumber(c) or 0) end
return highest - t[1] * 1000000 - t[2]
"""


class Votes:
    conf = {"locks": {"lease": "6s"}}
    attackers = 2  # daemons

    def start(self):
        self.nodes = Masters(self)
        self.daemon, *self.others = [self.over("rlockd-%d" % i) for i in range(1 + self.attackers)]
        for d in (self.daemon, *self.others):
            until(lambda d=d: self.rounds(d)[2] == 3)

    def _keep(self, process):
        self.open.append(process.stop)
        return process

    def over(self, name):
        return self._keep(Rlockd(self.dir, redis=self.nodes.url(), conf=self.text_of_conf(), name=name, tcp=True))

    @staticmethod
    def rounds(daemon):
        """Votes of all nodes, the second rounds, and how many nodes vote."""
        fields = daemon.info("redis")
        rows = [dict(word.split("=", 1) for word in fields["redis_node%d" % i].split(",")) for i in range(3)]
        return (sum(int(r["votes"]) for r in rows), sum(int(r["second_rounds"]) for r in rows),
                sum(r["state"] == "voting" for r in rows))

    def prepare(self):
        self.conns = [d.conn() for d in self.others or [self.daemon] for _ in range(CONNS)]
        self.open += [c.close for c in self.conns]
        pair = "LOCK n/%d/%d NOWAIT\r\nUNLOCK n/%d/%d\r\n"
        self.words = {c: "".join(pair % (i, k, i, k) for k in range(NAMES)).encode() for i, c in enumerate(self.conns)}

    def attack(self):
        votes, second, _ = self.rounds(self.daemon)
        ahead, self.next_read_at = -1 << 60, time.monotonic()

        def read_clocks(_):
            nonlocal ahead
            if time.monotonic() > self.next_read_at:
                ahead = max(ahead, *self.nodes.cmd("EVAL", LEAD, len(CLOCKS), *CLOCKS))
                self.next_read_at += 0.05
        lines = flood(self.conns, self.words, SECONDS, read_clocks)
        votes, second = (now - before for now, before in zip(self.rounds(self.daemon), (votes, second)))
        if second > votes or ahead > AHEAD_US:
            raise AssertionError("%d second rounds of %d votes, a clock is %d us ahead" % (second, votes, ahead))
        return "%d grants/s, of 100 votes here %d took a second round, a clock is %d us ahead" % (
            lines / 2 / SECONDS, 100 * second // max(1, votes), ahead)


class VotesElsewhere(Votes, Scene):
    "1,600 names at two other daemons of a quorum, locked and unlocked without end"


class VotesHere(Votes, Scene):
    "800 names at the same daemon of a quorum, locked and unlocked without end"
    attackers = 0
