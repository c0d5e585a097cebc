#!/usr/bin/env python3
"""The Lua scripts in an old Redis, and with long data of other clients."""
import harness
import test_scripts
from scripted import FOREIGN, GONE, KINDS, LIKE_RLOCK, ME, OK, TAKEN, Scripted

# Redis 6 puts the line of the script in front of an error that it raises itself (scripting.c, luaPushError).
REDIS_6 = """
local real = redis
local redis = {call = real.call, pcall = function(...)
    local reply = real.pcall(...)
    if type(reply) == 'table' and reply.err and reply.err:find('^OOM ') then
        reply.err = '@user_script: 9: -' .. reply.err
    end
    return reply
end}
"""
LONG = 1 << 20


class FullRedis6(test_scripts.Full):
    before = REDIS_6


class LongData(Scripted):
    """Data that another client has put in a key is not read whole: no reply of a command in a script is long."""

    def setUp(self):
        super().setUp()
        self.c.cmd("SET", "k", "x" * LONG, "PX", 60000)

    def stats(self, call):
        """The reply of the call, and how often a script has read a value whole."""
        self.c.cmd("CONFIG", "RESETSTAT")
        reply = call()
        text = self.c.cmd("INFO", "commandstats")
        return reply, {n: int(text.split("cmdstat_%s:calls=" % n)[1].split(",")[0])
                       for n in ("get", "hgetall", "hget", "hkeys") if "cmdstat_%s:" % n in text}

    def test_of_a_string(self):
        """GET reads the epoch, once, and nothing else."""
        for kind in KINDS:
            for verb, outcomes in (("acquire", (TAKEN, FOREIGN)), ("renew", (GONE,)), ("release", (GONE,)),
                                   ("clear", (FOREIGN,))):
                with self.subTest(kind=kind, verb=verb):
                    (outcome, _, _), read = self.stats(lambda: self.run_one(kind, verb))
                    self.assertIn(outcome, outcomes)
                    self.assertLessEqual(read.pop("get", 0), 1)
                    self.assertLessEqual(read.pop("hget", 0), 1)  # refused, since the type is wrong
                    self.assertEqual(read, {})

    def test_of_a_hash(self):
        self.c.cmd("DEL", "k")
        self.c.cmd("HSET", "k", ME, "1" * LONG)
        self.c.cmd("PEXPIRE", "k", 60000)
        for kind in LIKE_RLOCK:
            with self.subTest(kind=kind):
                (outcome, _, _), read = self.stats(lambda: self.run_one(kind, "clear"))
                self.assertEqual(outcome, FOREIGN)
                self.assertEqual((read.get("hget", 0), read.get("hgetall", 0)), (0, 0))

    def test_beside_a_lock(self):
        self.c.cmd("DEL", "k")
        self.c.cmd("SET", "redisson_lock_token:{k}", "1" * LONG)
        (outcome, _, _), read = self.stats(lambda: self.run_one("fenced", "acquire"))
        self.assertEqual(outcome, FOREIGN)
        self.assertLessEqual(read["get"], 1)
        self.c.cmd("SET", "{k}:rlockd", "1" * LONG)
        self.held("semaphore")
        (outcome, _, _), read = self.stats(lambda: self.run_one("semaphore", "release"))
        self.assertEqual((outcome, read.get("get", 0)), (OK, 0))
        self.assertEqual(self.c.cmd("STRLEN", "{k}:rlockd"), LONG)

    def test_a_counter_has_nineteen_digits_at_most(self):
        self.c.cmd("DEL", "k")
        for digits, outcome in ((19, OK), (20, FOREIGN)):
            self.c.cmd("SET", "redisson_lock_token:{k}", "9" * digits)
            self.assertEqual(self.run_one("fenced", "acquire")[0], outcome)
            self.run_one("fenced", "release")


class Wakes(Scripted):
    """
    The rule of a name decides which other libraries a release wakes, and the release changes none of their other keys.
    """
    SIGNAL = "lock-signal:a:b"

    def release(self, key, wakes, verb="release"):
        self.held("simple", key)
        outcome, _, woken = self.run_one("simple", verb, key, wakes=wakes)
        self.assertEqual(outcome, OK)
        return woken

    def test_spring(self):
        """The channel of each registry that may own the key: the name of a registry ends before a colon."""
        key = "a:b:c:d:e:f"
        channels = [key[:n] + "-channel:" + key for n in range(1, 8, 2)]
        for verb in ("release", "clear"):
            with self.listening(*channels, "a:b:c:d:e-channel:" + key, "ch:" + key) as sub:
                self.release(key, 1, verb)
                self.received(sub, *[(c, key) for c in channels], ("ch:" + key, "0"))
        with self.listening("r-channel:r:x", "-channel:x") as sub:
            self.release("r:x", 1)
            self.received(sub, ("r-channel:r:x", "r:x"))
            self.release("x", 1)
            self.release("r:x", 0)
            self.release("r:x", 2)
            self.run_one("simple", "release", "r:x", wakes=1)

    def test_python_redis_lock(self):
        for verb in ("release", "clear"):
            with self.r.conn() as waiter:
                waiter.ask("BLPOP", self.SIGNAL, "30")
                harness.until(lambda: "blocked_clients:1" in self.c.cmd("INFO", "clients"))
                self.release("lock:a:b", 2, verb)
                self.assertEqual(waiter.read(), [self.SIGNAL, "1"])
            self.assertEqual(self.c.cmd("EXISTS", self.SIGNAL), 0)
        for _ in range(2):  # the entry is there for a waiter that comes just now, and only once
            self.release("lock:a:b", 2)
            self.assertEqual(self.c.cmd("LRANGE", self.SIGNAL, 0, -1), ["1"])
            self.ttl_is(self.SIGNAL, 1000, 900)
        self.release("lock:a:b", 0)
        self.assertEqual(self.run_one("simple", "release", "lock:a:b", wakes=2)[0], GONE)

    def test_what_is_no_signal_stays(self):
        for put in (("SET", self.SIGNAL, "x"), ("RPUSH", self.SIGNAL, "job"), ("RPUSH", self.SIGNAL, "1", "2")):
            with self.subTest(put):
                self.c.cmd("DEL", self.SIGNAL)
                self.c.cmd(*put)
                was = self.c.cmd("DUMP", self.SIGNAL)
                self.release("lock:a:b", 2)
                self.assertEqual((self.c.cmd("DUMP", self.SIGNAL), self.c.cmd("PTTL", self.SIGNAL)), (was, -1))
        self.flush()
        for key in ("a:b", "xlock:a:b", "loc"):
            self.release(key, 2)
        self.left()


if __name__ == "__main__":
    harness.main()
