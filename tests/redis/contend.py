#!/usr/bin/env python3
"""contend.py -- many sessions contend for one name and count under it, without any other protection.

    contend.py DAEMON-SOCKET REDIS-SOCKET NAME SESSIONS ROUNDS

Each session: LOCK, GET the counter, SET it one higher (and RPUSH the token), UNLOCK, until all sessions together have
made ROUNDS. Every step is a round trip of its own, so two holders at once would lose an update. Prints a JSON object.
"""
import json
import resource
import selectors
import socket
import sys
import time


class Session:
    def __init__(self, bench, number):
        self.bench, self.number = bench, number
        self.lock = bench.open(bench.daemon, self.on_lock)
        self.redis = bench.open(bench.redis, self.on_redis)
        self.token = 0
        self.waiting_us = []

    def again(self):
        if self.bench.left == 0:
            self.bench.running -= 1
            return
        self.bench.left -= 1
        self.asked = time.monotonic()
        self.lock.sock.send(b"LOCK %s\r\n" % self.bench.name)
        self.on_reply = self.locked

    def on_lock(self, line):
        self.on_reply(line)

    def locked(self, line):
        if line[:1] != b":":
            raise SystemExit("LOCK: %r" % line)
        self.bench.waits.append(time.monotonic() - self.asked)
        self.token = int(line[1:])
        self.step = self.got_length
        self.redis.sock.send(b"GET %s:counter\r\n" % self.bench.name)

    def on_redis(self, line):
        self.step(line)

    def got_length(self, line):
        if line == b"$-1":
            self.got_value(b"0")
        else:
            self.step = self.got_value

    def got_value(self, line):
        self.redis.sock.send(b"SET %s:counter %d\r\nRPUSH %s:tokens %d\r\n"
                             % (self.bench.name, int(line) + 1, self.bench.name, self.token))
        self.step = self.was_set

    def was_set(self, line):
        if line != b"+OK":
            raise SystemExit("SET: %r" % line)
        self.step = self.was_pushed

    def was_pushed(self, line):
        self.lock.sock.send(b"UNLOCK %s\r\n" % self.bench.name)
        self.on_reply = self.unlocked

    def unlocked(self, line):
        if line != b":0":
            raise SystemExit("UNLOCK: %r" % line)
        self.again()


class Line:
    """A connection that returns lines."""

    def __init__(self, sock, on_line):
        self.sock, self.on_line, self.rest = sock, on_line, b""

    def readable(self):
        got = self.sock.recv(65536)
        if not got:
            raise SystemExit("closed")
        lines = (self.rest + got).split(b"\r\n")
        self.rest = lines.pop()
        for line in lines:
            self.on_line(line)


class Bench:
    def __init__(self, daemon, redis, name, sessions, rounds):
        self.daemon, self.redis, self.name = daemon, redis, name.encode()
        self.left, self.running, self.waits = rounds, sessions, []
        self.selector = selectors.EpollSelector()
        self.sessions = [Session(self, i) for i in range(sessions)]

    def open(self, path, on_line):
        s = socket.socket(socket.AF_UNIX)
        s.connect(path)
        line = Line(s, on_line)
        self.selector.register(s, selectors.EVENT_READ, line)
        return line

    def run(self):
        began = time.monotonic()
        for s in self.sessions:
            s.again()
        while self.running:
            for key, _ in self.selector.select(60):
                key.data.readable()
        took = time.monotonic() - began
        self.waits.sort()
        return {"rounds": len(self.waits), "seconds": round(took, 3), "per_second": round(len(self.waits) / took),
                "wait_ms_median": round(self.waits[len(self.waits) // 2] * 1000, 2),
                "wait_ms_max": round(self.waits[-1] * 1000, 2)}


def main():
    daemon, redis, name, sessions, rounds = sys.argv[1:]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4 * int(sessions) + 64)), hard))
    print(json.dumps(Bench(daemon, redis, name, int(sessions), int(rounds)).run()))


if __name__ == "__main__":
    main()
