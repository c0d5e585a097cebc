"""rounds.py -- the rounds of switches.py, takeovers.py and emptied.py: a master dies with a lock that no other server
knows of, and with a plain one (SET NX PX). The first stays the lock of its holder, other locks are granted soon, tokens
rise, and clients count all the while. The plain lock is granted twice, which shows that writes really were lost.
"""
import os
import statistics
import sys
import time

import harness
from harness import until
from moving import answered
from run import Report
from switch import Stage
from test_sentinel_switch import Counting

CLIENTS = 6


class Rounds:
    """
    a, b: two daemons; `holder` and `other`: a client of each. `kept`: name -> token of the locks that the holder keeps
    for all rounds. `plain`, `double`: how often a second client was granted the plain lock, and that of rlockd.
    """

    TITLE = "rounds"
    LOST = 1.0  # the least part of the rounds in which the plain lock is granted twice

    def __init__(self, a, b, holder, other):
        self.a, self.b, self.holder, self.other, self.kept = a, b, holder, other, {}
        self.wrong, self.times = [], []
        self.plain = self.double = 0

    def check(self, holds, what):
        if not holds:
            self.wrong.append(what)

    def no_other_client(self, i, name, token, *words):
        """The other client asks for the lock; a grant is a violation."""
        taken = self.other.cmd("LOCK", name, *words)
        self.check(not isinstance(taken, int), "round %d: two holders, %r and %r" % (i, token, taken))
        self.double += isinstance(taken, int)

    def granted_again(self, i, name, token, killed):
        """The other client is granted a lock that is free."""
        fresh = answered(self.other, "LOCK", name, "WAIT", "30s")
        self.times.append(time.monotonic() - killed)
        self.check(isinstance(fresh, int) and fresh > token, "round %d: %r behind %r" % (i, fresh, token))
        answered(self.other, "UNLOCK", name)

    def handed_on(self, i, name, token):
        """The holder still has its lock; then it gives the lock back, and the other client is granted it."""
        for its, had in {name: token, **self.kept}.items():
            self.check(answered(self.holder, "LOCK", its, "ONCE") == had, "round %d: %s was lost" % (i, its))
        self.check(answered(self.holder, "UNLOCK", name) == 0, "round %d: UNLOCK" % i)
        after = answered(self.other, "LOCK", name, "WAIT", "20s")
        self.check(isinstance(after, int) and after > token, "round %d: %r follows %r" % (i, after, token))
        answered(self.other, "UNLOCK", name)

    def run(self, rounds, counting):
        """Runs until the first round with a violation; true: no round had one."""
        for i in range(rounds):
            done = counting.done
            until(lambda: counting.done > done + 10 or counting.wrong, deadline=60)
            self.round(i)
            print("round %d: granted again after %.1f s, %d counted" % (i + 1, self.times[-1], counting.done),
                  flush=True)
            if self.wrong or counting.wrong:
                return False
        return True

    def round(self, i):
        raise NotImplementedError


def report_line(world, counting, rounds, ended):
    """Prints the result; returns the exit status of the program."""
    report, done, title = Report(), len(world.times), world.TITLE
    wrong = world.wrong + counting.stop()
    report.say("%s: %d rounds with lost writes, %d counted" % (title, done, counting.done))
    report.say("    held twice: plain SET NX PX %d of %d, rlockd %d of %d" % (world.plain, done, world.double, done))
    report.say("    granted again %.1f s behind the kill (median), %.1f s at most" % (
        statistics.median(world.times or [0]), max(world.times or [0])))
    report.test("%s: %d rounds to their end" % (title, rounds), ended)
    report.test("%s: the writes were lost, and the plain lock was granted twice" % title,
                None if world.plain >= world.LOST * done > 0 else "only in %d of %d" % (world.plain, done))
    report.test("%s: rlockd never grants twice" % title, "%d of %d" % (world.double, done) if world.double else None)
    report.test("%s: holders keep their locks, no update is lost, tokens rise" % title, "; ".join(wrong[:5]) or None)
    if wrong or ended:
        print(world.a.log()[-3000:], world.b.log()[-3000:])
    return 0 if report.end(os.path.join(harness.TOP, "build", "chaos", "%s.txt" % title)) else 1


def main(make):
    """The program: as many rounds as its argument, in the world that make(stage) makes; returns the exit status."""
    rounds, ended = int(sys.argv[1]) if len(sys.argv) > 1 else 10, None
    with Stage() as stage:
        world = make(stage)
        counting = Counting([world.a, world.b], CLIENTS)
        try:
            if not world.run(rounds, counting):
                ended = "something was wrong in round %d" % len(world.times)
        except Exception as e:
            ended = "%s: %s" % (type(e).__name__, e)
        return report_line(world, counting, rounds, ended)
