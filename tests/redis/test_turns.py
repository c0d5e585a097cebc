#!/usr/bin/env python3
"""While a name goes round among many sessions of one daemon, remote waiters get their turn: at another daemon, or in a
client without a daemon, as Redisson's.

The test uses no clock of its own, which is unreliable on a busy machine. Tokens are enough: in a run of hand-offs they
rise by one, and the first token of a run is the time, by Redis's clock in us, of the grant by Redis. So the test counts
how many runs begin at that daemon from the request of a remote waiter until its grant, and how long the runs are.
"""
import json
import os
import selectors
import socket
import subprocess
import sys

import harness
from harness import Case, until

sys.path.append(os.path.join(harness.TOP, "tests", "chaos"))
from plain import Plain  # noqa: E402

NAME = "hot"
CHANNEL = "redisson_lock__channel:{%s}" % NAME
SESSIONS, TURNS = 16, 50


def go_round(path):
    """Sessions that lock and unlock as fast as they can, until stdin ends; then their tokens are printed."""
    selector, tokens = selectors.DefaultSelector(), []
    selector.register(sys.stdin, selectors.EVENT_READ)
    for _ in range(SESSIONS):
        s = socket.socket(socket.AF_UNIX)
        s.connect(path)
        s.send(b"LOCK %s\r\n" % NAME.encode())
        selector.register(s, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.fileobj is sys.stdin:
                print(json.dumps(tokens))
                return
            for line in key.fileobj.recv(4096).split(b"\r\n")[:-1]:
                if line != b":0":
                    tokens.append(int(line[1:]))
                    key.fileobj.send(b"UNLOCK %s\r\nLOCK %s\r\n" % (NAME.encode(), NAME.encode()))


def runs_of(tokens):
    """The first token of each run, and the number of tokens in it."""
    runs = []
    for t in sorted(tokens):
        if runs and runs[-1][0] + runs[-1][1] == t:
            runs[-1][1] += 1
        else:
            runs.append([t, 1])
    return runs


class Turns(Case):
    def world(self, conf):
        self.r = self.redis()
        self.a = self.rlockd(redis=self.r.url, name="a", conf=conf)
        self.b = self.rlockd(redis=self.r.url, name="b", conf=conf)

    def handed(self):
        return int(self.a.info("stats")["handoffs"])

    def redis_us(self):
        seconds, us = self.r.cmd("TIME")
        return int(seconds) * 1000000 + int(us)

    def until_it_goes_round(self):
        seen = self.handed()
        until(lambda: self.handed() > seen)

    def turn_of_a_daemon(self, c):
        self.until_it_goes_round()
        before = self.redis_us()
        token = c.cmd("LOCK", NAME)
        self.assertIsInstance(token, int)
        self.assertEqual(c.cmd("UNLOCK", NAME), 0)
        return before, token

    def turn_of_redisson(self, plain, c):
        self.until_it_goes_round()
        before = self.redis_us()
        self.assertTrue(plain.attempt(c) is True or plain.waits(c))
        after = self.redis_us()
        plain.gives_back(c)
        return before, after

    def all_turns(self, conf, most):
        self.world(conf)
        load = subprocess.Popen([sys.executable, os.path.abspath(__file__), "round", self.a.path],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                preexec_fn=harness.die_with_us)
        self.addCleanup(self.reap, load)
        b, plain = self.conn(self.b), Plain(self.r.path, NAME, "p", os.devnull)
        c, turns = self.r.conn(), []
        self.addCleanup(c.close)
        for _ in range(TURNS):
            turns.append(self.turn_of_a_daemon(b))
            turns.append(self.turn_of_redisson(plain, c))
        out, _ = load.communicate(b"", timeout=30 * harness.SLOW)
        tokens = json.loads(out)
        runs = runs_of(tokens)
        self.assertEqual(len(tokens), len(set(tokens)))
        self.assertLessEqual(max(n for _, n in runs), most)
        self.assertLess(len(runs) * 2, len(tokens), "hardly anything was handed over")
        for which, some in (("rlockd", turns[::2]), ("Redisson", turns[1::2])):
            begun = sorted(sum(before < first < after for first, _ in runs) for before, after in some)
            print("turns: %s: runs begun before it: median %d, 9 of 10 at most %d, all at most %d; runs of %.1f" % (
                which, begun[TURNS // 2], begun[TURNS * 9 // 10], begun[-1], len(tokens) / len(runs)), file=sys.stderr)
            # A run may begin before Redis knows of the waiter, and more if the waiter misses its turn (5 ms).
            self.assertLessEqual(begun[TURNS * 9 // 10], 3 * harness.SLOW, which)
        return int(self.a.info("stats")["handoff_yields"])

    def test_after_so_many_grants(self):
        self.assertGreater(self.all_turns("handoff: { max: 16, time: 10s }\n", 16), TURNS)

    def test_after_some_time(self):
        self.assertGreater(self.all_turns("handoff: { max: 100000, time: 3ms }\n", 100000), TURNS)

    def test_an_unfair_run_is_counted(self):
        """A holder that keeps the lock for long while a remote waiter is there; and one that does not."""
        self.world("handoff: { max: 1 }\n")
        a, b = self.conn(self.a), self.conn(self.b)
        for late in (0, 1):
            self.assertIsInstance(a.cmd("LOCK", NAME), int)
            b.ask("LOCK", NAME)
            until(lambda: self.r.cmd("PUBSUB", "NUMSUB", CHANNEL)[1] == 1)
            self.a.advance("20ms" if late else "1ms")
            a.ask("UNLOCK", NAME)
            self.assertEqual(a.read(), 0)
            self.assertIsInstance(b.read(), int)
            self.assertEqual(b.cmd("UNLOCK", NAME), 0)
            until(lambda: int(self.a.info("stats")["handoff_yields"]) == 1 + late)
        self.assertEqual(int(self.a.info("stats")["handoff_late"]), 1)


if __name__ == "__main__":
    if sys.argv[1:2] == ["round"]:
        go_round(sys.argv[2])
    else:
        harness.main()
