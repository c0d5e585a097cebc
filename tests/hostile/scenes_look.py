"""Commands that read: long lists, slow patterns, records with many waiters or holders."""
import time

from hostile import SLOW, Scene, flood, pipeline

LOCKS = 60000


class Listings(Scene):
    "LOCKS, WAITERS, INFO locks, waiters, sessions and tree, CLIENT LIST over 60,000 locks, 9 connections in a loop"
    conf = {"limits": {"locks": 10000000, "pipeline": 65536}}
    words = ["LOCKS", "LOCKS *%sb" % ("a" * 200), "WAITERS", "INFO locks", "INFO waiters *%sb" % ("a" * 200),
             "INFO tree *b", "INFO stats", "SESSIONS", "CLIENT LIST"]

    def prepare(self):
        self.holder = self.connect()
        for n in range(0, LOCKS, 20000):
            errors = pipeline(self.holder, ["LOCK l:%s:%d NOWAIT LEASE 1h" % ("a" * 200, n + i) for i in range(20000)])
            assert errors == 0
        self.conns = {w: self.connect() for w in self.words}

    def attack(self):
        data = {c: (w + "\r\n").encode() * 50 for w, c in self.conns.items()}
        lines = flood(list(data), data, seconds=3)
        return "%d lines came" % lines


class HotName(Scene):
    "GET, DEL, LOCKINFO and INFO lock of one name that 20,000 wait for, 4 connections in a loop"
    def prepare(self):
        self.holder = self.connect()
        assert pipeline(self.holder, ["LOCK hot OWNER first"]) == 0
        for n in range(0, 20000, 1000):
            self.connect().send("".join("LOCK hot OWNER o%d\r\n" % (n + i) for i in range(1000)))
        with self.connect() as c:
            c.cmd("PING")
        self.conns = [self.connect() for _ in range(4)]

    def attack(self):
        return "%d lines came" % flood(
            self.conns, b"GET hot\r\nINFO lock hot\r\nDEL hot2 hot3\r\nLOCKINFO hot\r\n" * 100, seconds=2)


class NewValues(Scene):
    "SET hot <new value> NX of a name that is taken, 2 connections in a loop"

    def prepare(self):
        self.holder = self.connect()
        assert self.holder.cmd("SET", "hot", "holder", "NX") == "OK"
        self.conns = [self.connect() for _ in range(2)]
        self.n = 0

    def next_values(self):
        self.n += 1000
        return "".join("SET hot v%d NX\r\n" % (self.n + i) for i in range(1000)).encode()

    def attack(self):
        lines = flood(self.conns, self.next_values, seconds=3)
        with self.connect() as c:  # and one by one
            begin = time.monotonic()
            for i in range(200):
                assert c.cmd("SET", "hot", "w%d" % i, "NX") is None
            each_us = (time.monotonic() - begin) * 1e6 / 200
        assert lines > 60000 / SLOW, "%d answers in 3 s" % lines
        return "%d answers in 3 s, %d us each" % (lines, each_us)


class DearAnswers(Scene):
    "CONFIG GET of 60 slow patterns, COMMAND DOCS, HELP, MLOCK and SUBSCRIBE of 50 names, 4 connections each in a loop"

    def attack(self):
        patterns = " ".join("*" * 240 + "#%d" % i for i in range(60))
        names = " ".join("m%d" % i for i in range(50))
        words = ["CONFIG GET " + patterns, "COMMAND DOCS", "HELP", "MLOCK 50 %s NOWAIT" % names,
                 "SUBSCRIBE " + " ".join("lock:" + name for name in names.split())]
        data = {self.connect(): (w + "\r\n").encode() * 20 for w in words for _ in range(4)}
        return "%d lines came" % flood(list(data), data, seconds=2)
