#!/usr/bin/env python3
"""plain.py -- a client of Redis that locks as Redisson's RLock does, beside rlockd and without it, until TERM.

    plain.py REDIS-SOCKET NAME ID HISTORY

It tries; when the name is taken it subscribes to the channel, tries again, and then after each message or when the
holder's time is over. Each attempt is an owner of its own, so an attempt whose answer was lost never counts twice. Its
history has an operation PLAIN for each attempt (see rlcheck.py), and a line `turn NAME US` for each wait, with its
length from the subscription on.
"""
import os
import select
import signal
import sys
import time
import uuid

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "redis"))
from harness import Closed, Conn, RError  # noqa: E402

LEASE_MS = 3000
LOCK = """
if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
    redis.call('hincrby', KEYS[1], ARGV[2], 1)
    redis.call('pexpire', KEYS[1], ARGV[1])
    return nil
end
return redis.call('pttl', KEYS[1])
"""
UNLOCK = """
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
    return nil
end
if redis.call('hincrby', KEYS[1], ARGV[1], -1) > 0 then
    return 0
end
redis.call('del', KEYS[1])
redis.call('publish', KEYS[2], '0')
return 1
"""
stopping = False


def on_term(*_):
    global stopping
    stopping = True


def now_us():
    return time.monotonic_ns() // 1000


class Plain:
    def __init__(self, path, name, me, history):
        self.path, self.name, self.me = path, name, me
        self.channel = "redisson_lock__channel:{%s}" % name
        self.history = os.open(history, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.asked, self.token = 0, 0
        self.uuid = uuid.uuid4()

    def say(self, text):
        os.write(self.history, ("%d %s.0 %s\n" % (now_us(), self.me, text)).encode())

    def attempt(self, c):
        """True: it has the lock. Else the time for which it is taken, in ms."""
        self.asked += 1
        number, self.owner = self.asked, "%s:%d" % (self.uuid, self.asked)
        self.say("inv %d PLAIN %s daemon=P shared=0 token=0 owner=%s" % (number, self.name, self.owner))
        try:
            left = c.cmd("EVAL", LOCK, 1, self.name, LEASE_MS, self.owner)
        except (OSError, Closed):
            self.say("ret %d INFO why=closed" % number)
            raise
        if left is None:
            self.token = -now_us()  # different from all others
            self.say("ret %d OK token=%d lease=%d waited=0 holds=1" % (number, self.token, LEASE_MS))
            return True
        self.say("ret %d FAIL why=%s" % (number, "error" if isinstance(left, RError) else "taken"))
        return 50 if isinstance(left, RError) else left

    def waits(self, c):
        """Waits for the lock by the channel."""
        with Conn(self.path) as ear:
            ear.cmd("SUBSCRIBE", self.channel)
            since = now_us()
            left = self.attempt(c)
            while left is not True and not stopping:
                if ear.quiet():
                    select.select([ear.sock], [], [], min(left if left > 0 else 1000, 1000) / 1000)
                while not ear.quiet():
                    ear.read()
                left = self.attempt(c)
        if left is True:
            self.say("turn %s %d" % (self.name, now_us() - since))
        return left is True

    def gives_back(self, c):
        self.asked += 1
        self.say("inv %d UNLOCK %s daemon=P shared=0 token=%d owner=%s" % (self.asked, self.name, self.token,
                                                                           self.owner))
        end = time.monotonic() + LEASE_MS / 1000
        while time.monotonic() < end:
            try:
                reply = c.cmd("EVAL", UNLOCK, 2, self.name, self.channel, self.owner)
                if not isinstance(reply, RError):
                    self.say("ret %d %s" % (self.asked, "OK n=0" if reply == 1 else "FAIL why=gone"))
                    return
            except (OSError, Closed):
                c = self.connected()
            time.sleep(0.02)  # the pause is the workload: a client's own, between two attempts
        self.say("ret %d INFO why=error" % self.asked)

    def connected(self):
        while True:
            try:
                return Conn(self.path)
            except (OSError, Closed):
                time.sleep(0.02)  # the pause is the workload: a client's own, while Redis is down
                if stopping:
                    sys.exit(0)

    def run(self):
        c = None
        while not stopping:
            try:
                c = c or self.connected()
                if self.attempt(c) is True or self.waits(c):
                    time.sleep(0.001)  # the work under the lock
                    self.gives_back(c)
                time.sleep(0.02)  # the client's pause between two rounds
            except (OSError, Closed):
                c = None


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, on_term)
    Plain(*sys.argv[1:]).run()
