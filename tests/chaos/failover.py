#!/usr/bin/env python3
"""failover.py [ROUNDS] -- failover with lost writes, which the plain Redis lock cannot survive.

Each round, with real processes: the replica is cut off from its master; a client of daemon A is granted a lock, and a
plain client (SET NX PX, the DEL script of the manual) another one, on the same Redis; the master is killed by KILL; the
replica, which knows of neither lock, is promoted, and the daemons' address of Redis leads to it; a client of daemon B
asks for the first lock, another plain client for the second one. Counted: how often both hold it, judged by rlcheck.
Then all clients unlock, B must get the lock with a larger token, and the dead master comes back as the new replica.
"""
import collections
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from world import World, harness, now_us, rlcheck  # noqa: E402
from harness import Conn, until  # noqa: E402
import nemeses  # noqa: E402
from run import GRACE, Report  # noqa: E402

DEL = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end"


class Teller:
    """A client whose requests and answers become a history."""

    def __init__(self, lines, daemon, name):
        self.lines, self.tag, self.name, self.ops = lines, daemon.tag, name, 0
        self.conn = Conn(daemon.path)

    def say(self, text):
        self.lines.append("%d %s.0 %s\n" % (now_us(), self.name, text))

    def ask(self, op, name, *words, token=0):
        self.ops += 1
        self.say("inv %d %s %s daemon=%s token=%d" % (self.ops, op, name, self.tag, token))
        reply = self.conn.cmd(*words)
        if isinstance(reply, harness.RError):
            self.say("ret %d FAIL why=%s" % (self.ops, reply.split()[0]))
        elif reply is None:
            self.say("ret %d FAIL why=null" % self.ops)
        elif isinstance(reply, int):
            self.say("ret %d OK n=%d" % (self.ops, reply))
        else:
            reply = harness.as_map(reply)
            self.say("ret %d OK token=%d lease=%d waited=%d"
                     % (self.ops, reply["token"], reply["lease_ms"], reply["waited_ms"]))
        return reply

    def lock(self, name, wait):
        reply = self.ask("LOCK", name, "LOCK", name, "WAIT", wait, "FULL")
        return reply["token"] if isinstance(reply, dict) else None

    def unlock(self, name, token):
        return self.ask("UNLOCK", name, "UNLOCK", name, "TOKEN", str(token), token=token)


class Failovers:
    def __init__(self, world):
        self.w = world
        self.lines = []
        self.plain = self.lossy = self.lost = self.unavailable = self.granted = 0
        self.answers = collections.Counter()
        self.took, self.later = [], []

    def round(self, i):
        w, name = self.w, "fail:%d" % i
        began = time.monotonic()
        w.proxy.say("set", "replication", "both", "hole", 1)
        a, b = Teller(self.lines, w.daemons["A"], "a%d" % i), Teller(self.lines, w.daemons["B"], "b%d" % i)
        token = a.lock(name, "3s")
        assert token is not None, "the holder was granted nothing"
        assert w.redis.cmd("SET", name + ":plain", "one", "NX", "PX", "30000") == "OK"
        self.lossy += self.fail_over(name)
        self.plain += w.redis.cmd("SET", name + ":plain", "two", "NX", "PX", "30000") == "OK"
        second = b.lock(name, os.environ.get("RLOCKD_ASK", "150ms"))
        self.granted += second is not None
        if second is not None:
            b.unlock(name, second)
        there = w.redis.cmd("EXISTS", name)
        freed = a.unlock(name, token)
        self.lost += freed != 0 and "UNAVAILABLE" not in str(freed)
        self.unavailable += freed != 0 and "UNAVAILABLE" in str(freed)
        if freed != 0:
            self.answers["%s (the key was %s)" % (str(freed)[:45], "there" if there else "not there")] += 1
        asked = time.monotonic()
        third = b.lock(name, "5s")
        self.later.append(time.monotonic() - asked)
        assert third is not None and third > token, "the next is granted %r behind %d" % (third, token)
        b.unlock(name, third)
        w.redis.cmd("EVAL", DEL, "1", name + ":plain", "one")
        w.redis.cmd("EVAL", DEL, "1", name + ":plain", "two")
        for teller in (a, b):
            teller.say("close")
            teller.conn.close()
        self.come_back()
        self.took.append(time.monotonic() - began)

    def fail_over(self, name):
        """True when the new master does not know of the locks."""
        w = self.w
        w.redis.kill()
        w.proxy.say("reset", "replication")
        w.proxy.say("clear", "replication")
        unknown = w.replica.cmd("EXISTS", name, name + ":plain") == 0
        w.replica.cmd("REPLICAOF", "NO", "ONE")
        nemeses.turn(w)
        return unknown

    def come_back(self):
        w = self.w
        w.replica.forget()
        w.replica.start()
        w.follow(w.replica, w.redis, w.replication_port())


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    report = Report()
    w = World("failover", replica=True, clients=0, lease=3, redis_args=("--appendonly", "no"))
    f = Failovers(w)
    wrong = None
    try:
        w.follow(w.replica, w.redis, w.replication_port())
        for i in range(rounds):
            f.round(i)
    except Exception as e:
        wrong = "%s: %s" % (type(e).__name__, e)
    w.end(keep="RLOCKD_KEEP" in os.environ)
    verdict = rlcheck.check(f.lines)
    double = len({v.name for v in verdict.of("exclusion")})
    done = len(f.took)
    report.say("failover with lost writes: %d rounds, in %d the locks were lost with the master" % (done, f.lossy))
    report.say("    held twice: plain SET NX PX %d of %d, rlockd %d of %d" % (f.plain, done, double, done))
    if done:
        report.say("    rlockd: %d holders got LOST, %d UNLOCKs UNAVAILABLE (the daemon was not back yet); a "
                   "round took %.2f s (median), the next grant %.0f ms behind the UNLOCK" % (
                       f.lost, f.unavailable, statistics.median(f.took), statistics.median(f.later) * 1000))
    for text, times in f.answers.items():
        report.say("    %d UNLOCKs: %s" % (times, text))
    report.test("failover: %d rounds to their end" % rounds, wrong)
    report.test("failover: the writes were lost", None if f.lossy == done > 0 else "only in %d of %d" % (f.lossy, done))
    report.test("failover: the plain lock is granted twice",
                None if f.plain == done else "only in %d of %d" % (f.plain, done))
    other = [v for v in verdict.violations if v.kind not in ("exclusion", "model")]
    report.test("failover: tokens rise", "; ".join(map(str, other[:3])) if other else None)
    report.test("failover: nothing broke", "\n".join(w.bad) if w.bad else None)
    if GRACE:
        report.test("failover: rlockd never grants twice", "%d of %d" % (double, done) if double else None)
        report.test("failover: holders keep their locks", "%d of %d were LOST" % (f.lost, done) if f.lost else None)
    else:
        report.skipped += 2
    sys.exit(0 if report.end(os.path.join(harness.TOP, "build", "chaos", "failover.txt")) else 1)


if __name__ == "__main__":
    main()
