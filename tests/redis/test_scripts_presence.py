#!/usr/bin/env python3
"""scripts/presence.lua by itself on a real Redis: who is there, when a new epoch begins, and when its grace is over."""
import os
import re
import time

import harness
from harness import RError, until
from scripted import (CLOCK, EPOCH, FULL, GONE, GRACE, KIND, KINDS, LEASE, LIKE_RLOCK, ME, OK, OPEN, PRESENCE, STALE,
                      TAKEN, UUID, YOU, Scripted)

TWIN = 2
CHANNEL = "rlock:deadlock:0"
MEMBERS, UNTIL, CHANGES, LEFT, AWAITED = ("rlock:" + x for x in ("members", "until", "changes", "left", "awaited"))
KEYS = (CLOCK, EPOCH, MEMBERS, UNTIL, CHANGES, LEFT, AWAITED)
TAIL = "-1c2d-4e3f-8a9b-726c6f636b64"  # of each daemon's uuid
A, B, C = ("%s" % (x * 8) + TAIL for x in "abc")
NONCE = {A: "a" * 16, B: "b" * 16, C: "c" * 16}
GRACE_MS, BEAT = 30000, 2000
WINDOW_MS = GRACE_MS + 3 * BEAT  # so long behind its last word a daemon may hold a lock


class Answer:
    def __init__(self, reply):
        self.time, self.status, self.epoch, self.until, self.word = reply[:5]
        self.version, self.upto, self.anew, self.bring = reply[5:9]
        self.changes = [who.split(" ") for who in reply[9:]]
        self.others = sorted(who for who, grace, _ in self.changes if grace != "-")
        self.graces = {who: int(grace) for who, grace, _ in self.changes if grace != "-"}
        self.gone = sorted(who for who, grace, _ in self.changes if grace == "-")


class Presence(Scripted):
    def setUp(self):
        super().setUp()
        self.c.cmd("FLUSHALL")

    def say_raw(self, who, c=None, known=0, reclaimed=0, nonce=None, former="0" * 16, grace=GRACE_MS, strict=0, floor=0,
                leaving=0, stranded=0, met=(), since=0, cursor=None, page=10000, version=0, last=None, of=None,
                part=None):
        """met: what it brings: uuids, and how long leases they have; ? and !<ms>."""
        peers = [w for w in met if w[0] not in "?!"]
        lasts = [w[1:] for w in met if w[0] == "!"]
        longest = max([grace] + [int(w[37:] or 0) for w in peers])
        return (c or self.c).cmd(
            "EVAL", PRESENCE, len(KEYS), *KEYS, who, nonce or NONCE.get(who, "9" * 16), former, known, reclaimed, grace,
            BEAT, strict, floor, leaving, stranded, CHANNEL, since, since if cursor is None else cursor, page,
            known if of is None else of, version, version if last is None else last, len(peers), int("?" in met),
            longest, (lasts or [""])[0], *([0] if part is None else [part[0], *part[1]]))

    def say_once(self, who, **more):
        before = self.now_us()
        reply = self.say_raw(who, **more)
        self.assertIsInstance(reply, list, reply)
        a = Answer(reply)
        if more.get("c") is None:
            self.assertTrue(before <= a.time <= self.now_us())
        if a.status == OK:
            number, origin = a.word.split(" ")
            self.assertEqual(int(number), a.epoch)
            self.assertRegex(origin, "^[0-9a-f]{16}$")
            now = (more.get("c") or self.c).cmd("GET", EPOCH)
            self.assertEqual(now, a.word + (" %d" % a.until if a.until else ""))
        return a

    def say(self, who, **more):
        """And brings its list if it has to, in two parts."""
        a = self.say_once(who, **more)
        time_us = a.time
        more.setdefault("of", more.get("known", 0))
        while a.bring == 1:
            more["known"] = a.epoch
            a = self.say_once(who, **more)
        if a.bring:
            peers = [w[:36] for w in more["met"] if w[0] not in "?!"]
            more["known"] = a.epoch
            self.assertEqual(self.say_once(who, part=(1, peers[:1]), **more).bring, 2)
            a = self.say_once(who, part=(2, peers[1:]), **more)
            self.assertEqual(a.bring, 0)
        a.time = time_us  # when it was heard of first
        return a

    def awaited(self, c=None):
        """By name: 1 awaited, list: awaited, and so is its list, 0 back, 2 left; ?: 1 unknown, 0 known."""
        of_all = (c or self.c).map("ZRANGE", AWAITED, 0, -1, "WITHSCORES")
        as_said = {"1": "1", "1.75": "1", "1.25": "list", "1.5": "list", "0": "0", "2": "2", "3": "0"}
        return {who: is_[1:] if who in "#^" else as_said.get(is_, is_) for who, is_ in of_all.items()
                if who[0] not in "!="}

    def put(self, who, seen=None, grace=GRACE_MS, nonce="bb", c=None):
        """A member that registered then (ms)."""
        c = c or self.c
        now = self.now_us()
        seen = now // 1000 if seen is None else seen
        if not c.cmd("ZSCORE", CHANGES, "<"):
            c.cmd("ZADD", CHANGES, now, "<", now, ">")
        version = max(now, int(c.cmd("ZSCORE", CHANGES, ">")) + 1)
        c.cmd("ZADD", CHANGES, version, who, version, ">")
        c.cmd("HSET", MEMBERS, who, "%s %d" % (nonce, grace))
        c.cmd("ZADD", UNTIL, seen + grace + 3 * BEAT, who)

    def another_redis(self, rdb=None):
        """Another process, with what `rdb` says."""
        self.others = getattr(self, "others", 0) + 1
        path = os.path.join(self.dir, "other%d" % self.others)
        os.mkdir(path)
        if rdb is not None:
            with open(os.path.join(path, "dump.rdb"), "wb") as f:
                f.write(rdb)
        r = self._keep(harness.Redis(path, name="other%d" % self.others))
        return r, self.conn(r)

    def saved(self):
        self.c.cmd("SAVE")
        with open(os.path.join(self.r.directory, "dump.rdb"), "rb") as f:
            return f.read()

    def meets(self):
        """A and B know each other, in the first epoch."""
        first = self.say(A)
        self.say(B)
        self.say(A, known=first.epoch)
        return first.epoch


class Epochs(Presence):
    def test_the_first_daemon_trusts_it(self):
        before = self.now_us()
        a = self.say(A)
        self.assertEqual((a.status, a.until, a.others), (OK, 0, []))
        self.assertTrue(before <= a.epoch <= self.now_us())
        self.assertEqual(self.c.cmd("HKEYS", MEMBERS), [A])
        self.assertEqual(self.c.cmd("TTL", EPOCH), -1)
        self.assertEqual(self.c.cmd("EXISTS", AWAITED, CLOCK), 0)

    def test_known(self):
        epoch = self.meets()
        for _ in range(3):
            a = self.say(A, known=epoch)
            self.assertEqual((a.epoch, a.until, a.others), (epoch, 0, [B]))
        self.assertEqual(self.say(B, known=epoch).others, [A])
        self.assertEqual(self.say(C).epoch, epoch)

    def test_flushed_and_a_new_daemon_comes_first(self):
        """It knows nothing, but hears that others are there: they may hold locks, and say so when they are woken."""
        first = self.say(A)
        with self.listening(CHANNEL) as b:
            self.c.cmd("FLUSHALL")
            a = self.say(C)
            self.heard(b, (CHANNEL, ""))
        self.assertGreater(a.until, 0)
        self.assertEqual(self.awaited(), {"#": "1"})
        self.assertGreater(self.say(C, known=a.epoch, reclaimed=a.epoch).until, 0)
        self.assertGreater(self.say(A, known=first.epoch, met=[B]).until, 0)
        self.assertGreater(self.say(A, known=a.epoch, reclaimed=a.epoch).until, 0)
        self.assertEqual(self.say(B, known=a.epoch, reclaimed=a.epoch).until, 0)

    def test_flushed_and_strict(self):
        """However long the process has been up: its data has just gone, and somebody is there who had locks in it."""
        self.say(A)
        with self.listening(CHANNEL) as a:
            self.c.cmd("FLUSHALL")
            until(lambda: int(re.search("uptime_in_seconds:([0-9]+)", self.c.cmd("INFO", "server")).group(1)) >= 1)
            self.assertGreater(self.say(C, strict=1, grace=500).until, 0)
            self.heard(a, (CHANNEL, ""))

    def test_flushed_before_anybody_has_heard_of_a_daemon(self):
        """A does not know of B, which has just come and holds a lock; but it listens, as A does."""
        epoch = self.say(A).epoch
        with self.listening(CHANNEL) as a, self.listening(CHANNEL) as b:
            news = "+%s %d %d" % (B, GRACE_MS, self.say(B).version)
            self.heard(a, (CHANNEL, news))  # who comes is heard of at once
            self.heard(b, (CHANNEL, news))
            self.c.cmd("FLUSHALL")
            again = self.say(A, known=epoch)
            self.heard(a, (CHANNEL, ""))
            self.heard(b, (CHANNEL, ""))
            self.assertGreater(self.say(A, known=again.epoch, reclaimed=again.epoch).until, 0)
            self.assertGreater(self.say(B, known=epoch).until, 0)
            self.assertEqual(self.say(B, known=again.epoch, reclaimed=again.epoch).until, 0)
            self.heard(a, (CHANNEL, ""))  # nor need they ask for the end
            self.heard(b, (CHANNEL, ""))

    def test_flushed_and_a_restarted_daemon_comes_first(self):
        """It knows that there were others, but not who they are: it waits for one that does."""
        epoch = self.meets()
        self.c.cmd("FLUSHALL")
        a = self.say(A, known=epoch, met=["?"])
        self.assertGreater(self.say(A, known=a.epoch, reclaimed=a.epoch).until, 0)
        self.assertGreater(self.say(B, known=epoch, met=[A]).until, 0)
        self.assertEqual(self.say(B, known=a.epoch, reclaimed=a.epoch).until, 0)

    def test_an_epoch_that_nobody_can_outdo(self):
        for number in (2 ** 53 - 1, 10 ** 20):
            self.c.cmd("SET", EPOCH, "%d abcdef" % number)
            a = self.say(A, known=2 ** 53 - 1)
            self.assertLess(a.epoch, self.now_us() + 1000)
            self.c.cmd("FLUSHALL")
            self.assertGreater(self.say(A, known=a.epoch).epoch, a.epoch)
            self.c.cmd("FLUSHALL")

    def test_flushed(self):
        epoch = self.meets()
        self.c.cmd("FLUSHALL")
        a = self.say(A, known=epoch, met=[B])
        self.assertGreater(a.epoch, epoch)
        self.assertTrue(a.time // 1000 + GRACE_MS - 5 <= a.until <= a.time // 1000 + GRACE_MS + 5)
        self.assertEqual(self.awaited(), {A: "1", B: "1", "?": "0"})
        self.assertGreater(self.c.cmd("TTL", AWAITED), 80000)
        self.assertEqual(self.say(A, known=a.epoch, met=[B]).until, a.until, "the grace has one end")
        self.assertEqual(self.say(A, known=a.epoch, reclaimed=epoch).until, a.until, "of the epoch before")
        self.assertEqual(self.say(A, known=a.epoch, reclaimed=a.epoch).until, a.until, "B has not said anything")
        b = self.say(B, known=epoch)
        self.assertEqual((b.epoch, b.until), (a.epoch, a.until))
        self.assertEqual(self.say(B, known=a.epoch).until, a.until)
        over = self.say(B, known=a.epoch, reclaimed=a.epoch)
        self.assertEqual((over.epoch, over.until, over.word), (a.epoch, 0, a.word))
        self.assertEqual(self.c.cmd("EXISTS", AWAITED), 0)
        self.assertEqual(self.say(A, known=a.epoch, reclaimed=a.epoch).until, 0)

    def test_the_epoch_alone_is_gone(self):
        epoch = self.meets()
        self.c.cmd("DEL", EPOCH)
        a = self.say(A, known=epoch)
        self.assertGreater(a.epoch, epoch)
        self.assertGreater(a.until, 0)

    def test_one_alone_is_over_with_its_word(self):
        first = self.say(A)
        self.c.cmd("FLUSHALL")
        a = self.say(A, known=first.epoch)
        self.assertGreater(a.until, 0)
        self.assertEqual(self.say(A, known=a.epoch, reclaimed=a.epoch).until, 0)

    def test_who_comes_later_may_hold_locks_too(self):
        """Nobody has told of C, but it comes before the grace is over."""
        epoch = self.meets()
        self.c.cmd("FLUSHALL")
        a = self.say(A, known=epoch)
        self.say(C, known=epoch)
        self.assertEqual(self.say(A, known=a.epoch, reclaimed=a.epoch).until, a.until)
        self.assertEqual(self.say(C, known=a.epoch, reclaimed=a.epoch).until, 0)

    def test_a_new_one_is_not_waited_for(self):
        epoch = self.meets()
        self.c.cmd("FLUSHALL")
        a = self.say(A, known=epoch)
        self.say(C)
        self.assertEqual(self.say(A, known=a.epoch, reclaimed=a.epoch).until, 0)

    def test_over_by_time(self):
        epoch = self.meets()
        self.c.cmd("FLUSHALL")
        a = self.say(A, known=epoch, met=[B], grace=100)
        self.assertGreater(a.until, 0)
        self.assertEqual(until(lambda: self.say(C) if self.now_us() // 1000 >= a.until else None).until, 0)

    def test_another_process_empty(self):
        epoch = self.meets()
        _, c = self.another_redis()
        a = self.say(A, c=c, known=epoch, met=[B])
        self.assertGreater(a.epoch, epoch)
        self.assertGreater(a.until, 0)
        self.assertEqual(self.awaited(c), {A: "1", B: "1", "?": "0"})

    def test_another_process_with_what_was_saved(self):
        """Of those who were there then, and of those that somebody knows. Even if nobody knows anything."""
        for known in (True, False):
            with self.subTest(known=known):
                self.c.cmd("FLUSHALL")
                epoch = self.meets()
                old = self.c.cmd("GET", EPOCH)
                self.put(C, 1)  # long ago
                _, c = self.another_redis(self.saved())
                self.assertEqual(c.cmd("GET", EPOCH), old)
                a = self.say(A, c=c, **(dict(known=epoch) if known else {}))
                self.assertGreater(a.epoch, epoch)
                self.assertNotEqual(a.word.split()[1], old.split()[1])
                self.assertGreater(a.until, 0)
                self.assertEqual(self.awaited(c), {A: "1", B: "1", "?": "0"} if known else {B: "1"})
                if known:
                    self.say(A, c=c, known=a.epoch, reclaimed=a.epoch)
                self.assertEqual(self.say(B, c=c, known=epoch).until, a.until)
                self.assertEqual(self.say(B, c=c, known=a.epoch, reclaimed=a.epoch).until, 0)

    def test_a_replica_becomes_master(self):
        epoch = self.meets()
        r, c = self.another_redis()
        self.assertEqual(c.cmd("REPLICAOF", "127.0.0.1", "1"), "OK")
        reply = self.say_raw(A, c=c, known=epoch)
        self.assertIsInstance(reply, RError)
        self.assertRegex(reply, "READONLY")
        old = c.cmd("INFO", "replication")
        c.cmd("REPLICAOF", "NO", "ONE")
        a = self.say(A, c=c, known=epoch)
        b = self.say(A, c=c, known=a.epoch, reclaimed=a.epoch)
        self.assertEqual((b.epoch, b.until), (a.epoch, 0))
        c.cmd("REPLICAOF", "127.0.0.1", "1")
        c.cmd("REPLICAOF", "NO", "ONE")  # another line of replication in the same process
        self.assertNotEqual(c.cmd("INFO", "replication"), old)
        again = self.say(A, c=c, known=a.epoch, reclaimed=a.epoch)
        self.assertGreater(again.epoch, a.epoch)
        self.assertGreater(again.until, 0)

    def test_clocks_that_went_back(self):
        """The number rises above what the daemon and the data know of."""
        far = self.now_us() + 10 ** 12
        a = self.say(A, known=far)
        self.assertTrue(far < a.epoch <= far + 2 ** 16)
        self.c.cmd("SET", EPOCH, "%d fedcba9876543210" % (far + 10))
        self.assertTrue(far + 10 < self.say(A, known=far).epoch <= far + 10 + 2 ** 16)

    def test_lost_twice_while_clocks_are_behind(self):
        """two epochs that follow the same one are not the same: who has heard of the first has to hear of the second"""
        known = self.now_us() + 3600 * 1000000
        seen = set()
        for who in (A, B, A, B):
            self.c.cmd("FLUSHALL")
            a = self.say(who, known=known)
            self.assertGreater(a.epoch, known)
            seen.add(a.epoch)
        self.assertGreater(len(seen), 1)

    def test_lost_again_in_the_grace(self):
        """Who was known stays known: to B, which has not come yet, nothing is promised away."""
        epoch = self.meets()
        self.c.cmd("FLUSHALL")
        a = self.say(A, known=epoch, met=[B])
        self.c.cmd("FLUSHALL")
        again = self.say(A, known=a.epoch, reclaimed=a.epoch, met=[B])
        self.assertGreater(again.epoch, a.epoch)
        self.assertEqual(self.awaited(), {A: "1", B: "1", "?": "0"})

    def test_lost_again_in_a_grace_that_waited_for_nobody_knows_whom(self):
        """Of those that the first grace was for nothing is known any more: it goes on to its end, or until one comes
        that does."""
        for how in (dict(strict=1), dict(known=self.now_us(), grace=3 * GRACE_MS)):
            self.c.cmd("FLUSHALL")
            a = self.say(A, **how)
            self.assertGreater(a.until, a.time // 1000)
            self.c.cmd("FLUSHALL")
            lasts = ["!%d" % (a.until - a.epoch // 1000)]
            again = self.say(A, known=a.epoch, reclaimed=a.epoch, met=lasts)
            self.assertGreater(again.epoch, a.epoch)
            self.assertGreaterEqual(again.until, a.until)
            self.assertEqual(self.awaited(), {A: "1", "?": "1"})
            over = self.say(A, known=again.epoch, reclaimed=again.epoch, met=lasts)
            self.assertEqual(over.until, again.until)
            self.say(B, known=1, met=[A])
            self.assertEqual(self.say(B, known=again.epoch, reclaimed=again.epoch).until, 0)

    def test_lost_again_before_it_was_heard_who_had_come(self):
        """B registers while A stands still, so A knows of nobody; and has reclaimed its locks when all is lost again. A
        must not end that grace alone, though it has met nobody in either epoch and never said that it had reclaimed."""
        first = self.say(A)
        self.say(B)
        self.c.cmd("FLUSHALL")
        a = self.say(A, known=first.epoch)
        self.assertEqual((a.until > 0, a.others), (True, []))
        self.say(B, known=first.epoch, met=[A])
        self.assertGreater(self.say(B, known=a.epoch, reclaimed=a.epoch).until, 0)
        self.c.cmd("FLUSHALL")
        lasts = ["!%d" % (a.until - a.epoch // 1000)]
        again = self.say(A, known=a.epoch, met=lasts)
        self.assertEqual(again.others, [])
        self.assertGreater(self.say(A, known=again.epoch, reclaimed=again.epoch, met=["?"] + lasts).until, 0)

    def test_for_nobody_knows_whom_and_then_a_failover(self):
        """The data has that it is unknown. Who was in it knows no better, and must not lift it."""
        a = self.say(A, strict=1)
        self.c.cmd("FLUSHALL")
        lasts = ["!%d" % (a.until - a.epoch // 1000)]
        a = self.say(A, known=a.epoch, met=lasts)
        _, c = self.another_redis(self.saved())
        again = self.say(A, c=c, known=a.epoch, reclaimed=a.epoch, met=lasts)
        self.assertEqual(self.awaited(c), {A: "1", "?": "1", "^": str(a.epoch)})
        self.assertGreater(self.say(A, c=c, known=again.epoch, reclaimed=again.epoch, met=lasts).until, 0)

    def test_for_whom_is_lost_alone_and_then_a_failover(self):
        a = self.say(A, strict=1)
        self.c.cmd("DEL", AWAITED)
        _, c = self.another_redis(self.saved())
        lasts = ["!%d" % (a.until - a.epoch // 1000)]
        again = self.say(A, c=c, known=a.epoch, met=lasts)
        self.assertGreater(self.say(A, c=c, known=again.epoch, reclaimed=again.epoch, met=lasts).until, 0)

    def test_the_end_of_a_grace_is_in_the_data_and_was_not_heard(self):
        first = self.say(A)
        self.c.cmd("FLUSHALL")
        a = self.say(A, known=first.epoch)
        self.assertEqual(self.say(A, known=a.epoch, reclaimed=a.epoch).until, 0)
        _, c = self.another_redis(self.saved())
        lasts = ["!%d" % (a.until - a.epoch // 1000)]
        again = self.say(A, c=c, known=a.epoch, reclaimed=a.epoch, met=lasts)
        self.assertEqual(self.say(A, c=c, known=again.epoch, reclaimed=again.epoch, met=lasts).until, 0)

    def test_how_long_a_grace_was_to_last_is_no_matter_where_it_goes_on(self):
        a = self.say(A, known=1)
        for far in (2 ** 60, 0):
            again = self.say(A, known=a.epoch, met=["!%d" % far])
            self.assertEqual((again.epoch, again.until), (a.epoch, a.until))
        self.c.cmd("FLUSHALL")
        again = self.say(A, known=a.epoch, met=["!%d" % 2 ** 60])
        self.assertEqual(again.until, again.epoch // 1000 + 86400000)

    def test_a_failover_in_the_grace(self):
        """C is cut off all the time. Who comes first to the next master does not know of it, but the data does."""
        epoch = self.meets()
        self.c.cmd("FLUSHALL")
        a = self.say(A, known=epoch, grace=5 * GRACE_MS)
        self.assertGreater(self.say(B, known=epoch, reclaimed=epoch, met=[A, C]).until, 0)
        self.assertEqual(self.awaited(), {A: "1", B: "1", C: "1", "?": "0"})
        self.say(B, known=a.epoch, reclaimed=a.epoch)
        self.c.cmd("ZADD", AWAITED, -2, "#")
        _, c = self.another_redis(self.saved())
        again = self.say(A, c=c, known=a.epoch, met=["!%d" % (5 * GRACE_MS)])
        self.assertGreater(again.epoch, a.epoch)
        self.assertGreaterEqual(again.until, a.until)
        absent = self.awaited(c)
        self.assertEqual(absent.pop("^"), str(a.epoch))
        self.assertEqual(absent, {A: "1", B: "1", C: "1", "?": "0", "#": "2"})
        for who in (A, B):
            self.assertGreater(self.say(who, c=c, known=again.epoch, reclaimed=again.epoch).until, 0)
        self.say(C, c=c, known=epoch)
        self.assertEqual(self.say(C, c=c, known=again.epoch, reclaimed=again.epoch).until, 0)

    def test_a_failover_in_the_grace_to_another_clock(self):
        """The time in the word is that of another machine; how long the grace was to be is all that it says."""
        for ahead_ms in (-3600000, -1, 3600000):
            with self.subTest(ahead_ms=ahead_ms):
                self.c.cmd("FLUSHALL")
                now = self.now_us()
                began = now + ahead_ms * 1000
                self.c.cmd("SET", EPOCH, "%d %s %d" % (began, "0123456789abcdef", began // 1000 + 40000))
                self.c.cmd("ZADD", AWAITED, 0, A, 1, B, 2, C, 3, "?")
                a = self.say(A, known=began)
                self.assertEqual(self.awaited(),
                                 {A: "1", B: "1", C: "2", "?": "0", "^": str(began)})
                self.assertTrue(a.time // 1000 + 39000 <= a.until <= a.time // 1000 + 40000, a.until - a.time // 1000)

    def test_a_time_that_is_none(self):
        self.c.cmd("SET", EPOCH, "%d %s %d" % (2 ** 53, "0123456789abcdef", 2 ** 53))
        a = self.say(A, known=1)
        self.assertTrue(a.until <= a.time // 1000 + GRACE_MS)

    def test_who_left_in_the_grace_is_not_waited_for_again(self):
        epoch = self.meets()
        self.c.cmd("FLUSHALL")
        a = self.say(A, known=epoch, met=[B])
        self.say(B, known=epoch, leaving=1)
        _, c = self.another_redis(self.saved())
        again = self.say(A, c=c, known=a.epoch)
        self.assertGreater(again.until, 0)
        self.assertEqual(self.say(A, c=c, known=again.epoch, reclaimed=again.epoch).until, 0)

    def test_who_listens_to_everything_is_no_daemon(self):
        self.say(A)
        with self.r.conn() as tool:
            tool.cmd("PSUBSCRIBE", "*")
            self.c.cmd("FLUSHALL")
            self.assertEqual(self.say(B).until, 0)
            self.assertEqual(tool.read(), ["pmessage", "*", CHANNEL, ""])

    def test_an_older_one_says_which(self):
        a = self.say(A)
        b = self.say(B, known=a.epoch + 10 ** 9)
        self.assertEqual((b.epoch, b.until), (a.epoch, 0))

    def test_an_older_one_that_is_all_there_is(self):
        """What was granted since is lost in it: nobody gets anything until all that were there then have been heard."""
        first = self.meets()
        later = first + 10 ** 9
        self.assertEqual(self.say(A, known=later, met=[B, C]).epoch, first, "it may be that the other one is there yet")
        with self.listening(CHANNEL) as b:
            a = self.say(A, known=later, stranded=1, met=[B, C])
            self.heard(b, (CHANNEL, ""))
        self.assertGreater(a.epoch, later)
        self.assertGreater(a.until, a.time // 1000)
        self.assertEqual(self.awaited(), {A: "1", B: "1", C: "1", "?": "0", "#": "1"})
        again = self.say(A, known=a.epoch, reclaimed=a.epoch, stranded=1, met=[B, C])
        self.assertEqual((again.epoch, again.until), (a.epoch, a.until))
        self.assertGreater(self.say(C, known=later, stranded=1).until, 0, "the grace is theirs, too")
        self.assertGreater(self.say(B, known=first).until, 0, "it has never been there")
        self.say(B, known=a.epoch, reclaimed=a.epoch)
        self.assertEqual(self.say(C, known=a.epoch, reclaimed=a.epoch).until, 0)

    def test_who_is_stranded_where_nothing_is_older(self):
        epoch = self.meets()
        for known in (0, epoch - 1, epoch):
            a = self.say(A, known=known, stranded=1)
            self.assertEqual((a.epoch, a.until), (epoch, 0))


class Strict(Presence):
    def test_waits_until_redis_has_been_up_for_a_grace(self):
        a = self.say(A, strict=1)
        up = int(re.search(r"uptime_in_seconds:(\d+)", self.c.cmd("INFO", "server")).group(1))
        left = a.until - a.time // 1000
        self.assertTrue(GRACE_MS - 1000 * (up + 1) - 5 <= left <= GRACE_MS + 5, left)
        self.assertEqual(self.say(A, known=a.epoch, reclaimed=a.epoch, strict=1).until, a.until)

    def test_is_at_once_when_it_has(self):
        self.c.cmd("CONFIG", "RESETSTAT")  # what tests before this one have flushed
        until(lambda: re.search(r"uptime_in_seconds:[1-9]", self.c.cmd("INFO", "server")))
        a = self.say(A, strict=1, grace=900)
        self.assertEqual(a.until, 0)

    def test_how_long_what_was_flushed_has_been_up_says_nothing(self):
        """A daemon that is gone had granted locks in what it had."""
        until(lambda: re.search(r"uptime_in_seconds:[1-9]", self.c.cmd("INFO", "server")))
        for flush in ("FLUSHALL", "FLUSHDB"):
            self.c.cmd("CONFIG", "RESETSTAT")
            self.c.cmd(flush)
            a = self.say(A, strict=1, grace=900)
            self.assertGreater(a.until, a.time // 1000 + 500)

    def test_how_long_a_replica_has_been_up_says_nothing(self):
        """What it lost was granted until just now, by those whom it knows of."""
        self.meets()
        _, c = self.another_redis(self.saved())
        until(lambda: re.search(r"uptime_in_seconds:[1-9]", c.cmd("INFO", "server")))
        a = self.say(C, c=c, strict=1, grace=900)
        self.assertGreater(a.until, a.time // 1000 + 500)
        self.assertEqual(self.awaited(c)[B], "1")

    def test_flushed_is_as_ever(self):
        a = self.say(A, strict=1, grace=1)
        self.c.cmd("FLUSHALL")
        a = self.say(A, known=a.epoch, strict=1)
        self.assertGreater(a.until, 0)
        self.assertEqual(self.say(A, known=a.epoch, reclaimed=a.epoch, strict=1).until, 0)


class Graces(Presence):
    """Daemons that renew leases of different lengths: it is the longest that counts."""
    def left(self, a):
        """How long a grace that has just begun is, to the nearest 100 ms."""
        return round((a.until - self.began // 1000) / 100) * 100

    def says(self, who, **more):
        self.began = self.now_us()
        return self.say(who, **more)

    def test_is_told(self):
        self.say(A, grace=5000)
        self.assertEqual(self.c.cmd("HGET", MEMBERS, A), "a" * 16 + " 5000")
        self.assertEqual(self.say(B, grace=20000).graces, {A: 5000})
        self.assertEqual(self.say(A, grace=6000).graces, {B: 20000})
        self.assertEqual(self.say(B, grace=20000).graces, {A: 6000})

    def test_who_does_not_say_has_ours(self):
        self.put(B)
        self.c.cmd("HSET", MEMBERS, B, "bb")
        self.assertEqual(self.say(A, grace=7000).graces, {B: 7000})

    def test_none_is_longer_than_a_day(self):
        self.put(B)
        self.c.cmd("HSET", MEMBERS, B, "bb " + "9" * 400)
        self.assertEqual(self.say(A).graces, {B: 86400000})

    def test_of_those_that_are_in_the_data(self):
        self.say(A, grace=5000)
        self.say(B, grace=20000)
        long_ago = self.now_us() // 1000 - 70000
        self.put(C, long_ago, 60000)
        self.c.cmd("SET", EPOCH, "17 fedcba9876543210")
        a = self.says(A, known=0, grace=5000)
        self.assertEqual(self.left(a), 20000, "C has lost what it had")

    def test_of_those_that_were_met(self):
        """Redis knows nothing any more, but who notices first was told."""
        epoch = self.say(B, grace=20000).epoch
        self.say(A, grace=5000)
        self.c.cmd("FLUSHALL")
        a = self.says(A, known=epoch, grace=5000, met=["%s %d" % (B, 20000), "%s %d" % (C, 10000)])
        self.assertEqual(self.left(a), 20000)
        self.assertEqual(self.awaited(), {A: "1", B: "1", C: "1", "?": "0"})
        again = self.say(A, known=a.epoch, grace=5000, met=["%s %d" % (B, 20000)])
        self.assertEqual(again.until, a.until)

    def test_who_joins_may_hold_locks_for_longer(self):
        epoch = self.meets()
        self.c.cmd("FLUSHALL")
        a = self.says(A, known=epoch, grace=5000)
        self.assertEqual(self.left(a), 5000)
        self.assertEqual(self.say(C, grace=60000).until, a.until, "it knows nothing, and holds nothing")
        b = self.say(B, known=epoch, grace=20000)
        self.assertEqual(self.left(b), 20000, "since it began")
        self.assertEqual(self.say(B, known=epoch, grace=20000).until, b.until, "and not since it was said")
        self.assertEqual(self.say(A, known=a.epoch, reclaimed=a.epoch, grace=5000).until, b.until)
        self.assertEqual(self.say(B, known=a.epoch, reclaimed=a.epoch, grace=20000).until, 0)

    def test_who_joins_with_a_shorter_one(self):
        epoch = self.meets()
        self.c.cmd("FLUSHALL")
        a = self.say(A, known=epoch, grace=20000)
        self.assertEqual(self.say(B, known=epoch, grace=5000).until, a.until)

    def test_over_already(self):
        """Nothing begins anew: it has been granted since."""
        epoch = self.meets()
        self.c.cmd("FLUSHALL")
        a = self.say(A, known=epoch, grace=1)
        over = until(lambda: self.say(A, known=a.epoch) if self.now_us() // 1000 >= a.until else None)
        self.assertEqual(over.until, 0)
        self.assertEqual(self.say(B, known=epoch, grace=20000).until, 0)


class WhoIsThere(Presence):
    def test_twin(self):
        self.say(A)
        a = self.say(A, nonce="d" * 16)
        self.assertEqual((a.status, a.epoch, a.until, a.word), (TWIN, 0, 0, ""))
        self.assertTrue(self.c.cmd("HGET", MEMBERS, A).startswith(NONCE[A]))
        self.assertEqual(self.say(A).status, OK, "the first one stays")

    def test_who_comes_after_it(self):
        self.say(A)
        self.assertEqual(self.say(A, nonce="d" * 16, former=NONCE[A]).status, OK)
        self.assertEqual(self.say(A).status, TWIN, "that one has been replaced")

    def test_who_has_not_been_heard_for_long(self):
        for seen, status in ((-3 * BEAT - 500, OK), (-3 * BEAT + 500, TWIN), (BEAT - 500, TWIN), (BEAT + 5000, OK)):
            with self.subTest(seen):
                self.put(A, self.now_us() // 1000 + seen, nonce="e" * 16)
                self.assertEqual(self.say(A).status, status)

    def test_who_comes_back_after_that_is_heard_of_at_once(self):
        """The others do not count on it any more, whether Redis has forgotten it yet or not."""
        self.say(A)
        for age, news in ((WINDOW_MS + 1000, True), (WINDOW_MS - 3000, False)):
            with self.subTest(age), self.listening(CHANNEL) as b:
                self.put(A, self.now_us() // 1000 - age, nonce=NONCE[A])
                a = self.say(A)
                if news:
                    self.heard(b, (CHANNEL, "+%s %d %d" % (A, GRACE_MS, a.version)))
                else:
                    self.c.cmd("PUBLISH", CHANNEL, "nothing before")
                    self.heard(b, (CHANNEL, "nothing before"))

    def test_told_as_long_as_it_may_hold_something(self):
        a = self.say(A)
        self.assertEqual(int(self.c.cmd("ZSCORE", UNTIL, A)), a.time // 1000 + WINDOW_MS)
        now = self.now_us() // 1000
        self.put(B, now - WINDOW_MS + 3000)
        self.put(C, now - WINDOW_MS - 10)
        a = self.say(A)
        self.assertEqual((a.others, a.gone), ([B], [C]))
        self.put(C, now - 2 * BEAT)
        self.assertEqual(self.say(A, grace=1).others, [B, C])

    def test_told_for_as_long_as_they_say(self):
        now = self.now_us() // 1000
        self.put(B, now - 60000 - 2 * BEAT, 60000)
        self.put(C, now - 7010 - 3 * BEAT, 7000)
        self.assertEqual(self.say(A).others, [B])

    def test_forgotten_when_it_can_hold_nothing(self):
        """And never before: by its own lease, however many there are."""
        now = self.now_us() // 1000
        self.put(B, now - 60000 - 3 * BEAT - 10, 60000)
        self.put(C, now - 60000, 60000)
        self.say(A)
        self.assertEqual(sorted(self.c.cmd("HKEYS", MEMBERS)), [A, C])
        self.assertEqual(self.c.cmd("ZRANGE", LEFT, 0, -1), [B])
        for key in (UNTIL, CHANGES):
            self.assertIsNone(self.c.cmd("ZSCORE", key, B))

    def test_forgotten_some_at_a_time(self):
        for i in range(40):
            self.put("%08x" % i + TAIL, 1)
        left = [len(self.say(A).others) for _ in range(4)]
        self.assertEqual(left, [24, 8, 0, 0])
        self.assertEqual(self.c.cmd("HKEYS", MEMBERS), [A])

    def test_nonsense_among_them(self):
        self.say(A)
        self.put(B)
        self.c.cmd("HSET", MEMBERS, B, "no such thing", A, "neither")
        a = self.say(A)
        self.assertEqual((a.status, a.graces), (OK, {B: GRACE_MS}))

    def test_part_of_the_members_is_lost(self):
        """Then nothing of the rest is to be trusted: all register anew."""
        for spoil in (("DEL", CHANGES), ("DEL", UNTIL), ("DEL", MEMBERS), ("HSET", MEMBERS, "x", "y"),
                      ("ZREM", CHANGES, B), ("ZREM", CHANGES, ">"), ("ZADD", CHANGES, "inf", ">"), ("ZREM", UNTIL, A)):
            with self.subTest(spoil):
                self.c.cmd("FLUSHALL")
                epoch = self.meets()
                was = self.say(A, known=epoch)
                self.c.cmd(*spoil)
                with self.listening(CHANNEL) as b:
                    a = self.say(A, known=epoch, since=was.version)
                    self.heard(b, (CHANNEL, "+%s %d %d" % (A, GRACE_MS, a.version)))
                self.assertEqual((a.epoch, a.until, a.anew, a.others), (epoch, 0, 1, []))
                self.assertEqual(self.say(B, known=epoch).others, [A])

    def test_who_is_silent_is_waited_for_however_many_there_are(self):
        """300 members, one of them silent for 7 s, but inside its lease."""
        now = self.now_us() // 1000
        self.put(B, now - 7000)
        for i in range(300):
            self.put("%08x" % i + TAIL, now)
        self.assertEqual(len(self.say(A).others), 301)
        self.assertEqual(self.c.cmd("HLEN", MEMBERS), 302)
        self.c.cmd("SET", EPOCH, "17 fedcba9876543210")
        self.assertGreater(self.say(A).until, 0)
        self.assertEqual(self.awaited()[B], "1")
        self.assertEqual(len(self.awaited()), 301)

    def test_a_longer_lease_is_heard_of_at_once(self):
        self.say(A, grace=5000)
        with self.listening(CHANNEL) as b:
            a = self.say(A, grace=6000)
            self.heard(b, (CHANNEL, "+%s 6000 %d" % (A, a.version)))
        self.say(A, grace=4000)
        self.assertEqual(self.say(B).graces, {A: 4000})

    def test_no_room_for_more(self):
        self.c.cmd("EVAL", """for i = 1, 10000 do
            local who = string.format('%08x', i) .. ARGV[1]
            redis.call('HSET', KEYS[1], who, 'bb 30000')
            redis.call('ZADD', KEYS[2], ARGV[2], who)
            redis.call('ZADD', KEYS[3], i + 10, who)
        end redis.call('ZADD', KEYS[3], 1, '<', 20000, '>')""", 3, MEMBERS, UNTIL, CHANGES, TAIL,
                   self.now_us() // 1000 + 30000)
        said = self.say_raw(A)
        self.assertIsInstance(said, RError)
        self.assertRegex(said, "^ERR 10000 daemons are registered")
        self.assertEqual(self.c.cmd("HEXISTS", MEMBERS, A), 0)
        self.assertEqual(self.say("%08x" % 7 + TAIL, nonce="bb", page=0).status, OK)

    def test_leaving(self):
        epoch = self.meets()
        self.assertEqual(self.say(B, known=epoch, leaving=1).epoch, epoch)
        self.assertEqual(self.c.cmd("HKEYS", MEMBERS), [A])
        self.assertEqual(self.say(A, known=epoch).others, [])

    def test_leaving_in_a_grace_ends_it(self):
        epoch = self.meets()
        self.c.cmd("FLUSHALL")
        a = self.say(A, known=epoch, met=[B])
        self.say(A, known=a.epoch, reclaimed=a.epoch)
        self.assertEqual(self.say(B, known=epoch, leaving=1).until, 0)


class Changes(Presence):
    """What is told of members: changes since a version, in pages."""
    def names(self, n):
        return ["%08x" % i + TAIL for i in range(n)]

    def test_nothing_has_changed(self):
        self.meets()
        a = self.say(A)
        self.assertEqual((a.anew, a.upto, a.others), (1, a.version, [B]))
        for _ in range(2):
            again = self.say(A, since=a.version)
            self.assertEqual((again.anew, again.upto, again.version, again.changes), (0, a.version, a.version, []))
        self.assertEqual(self.say(A, since=a.version, page=0).upto, 0)

    def test_since_then(self):
        self.say(A)
        was = self.say(B).version
        c = self.say(C).version
        self.say(B, grace=40000)
        a = self.say(A, since=was)
        self.assertEqual((a.anew, a.graces), (0, {B: 40000, C: GRACE_MS}))
        self.assertEqual(self.say(A, since=c).graces, {B: 40000})
        self.say(C, leaving=1)
        a = self.say(A, since=a.version)
        self.assertEqual(a.changes, [[C, "-", str(a.version)]])
        self.say(C)
        self.assertEqual(self.say(A, since=a.version).others, [C])

    def test_in_pages(self):
        names = self.names(10)
        for who in names:
            self.say(who)
        for who in names[:3]:
            self.say(who, leaving=1, nonce="9" * 16)
        first = a = self.say(A, page=4)
        told, gone, pages = a.others[:], a.gone[:], 1
        self.assertEqual(a.anew, 1)
        while a.upto < a.version:
            a = self.say(A, since=first.version, cursor=a.upto, page=4)
            self.assertEqual(a.anew, 0)
            told += a.others
            gone += a.gone
            pages += 1
        self.assertEqual((sorted(told), sorted(gone)), (names[3:], names[:3]))
        self.assertLessEqual(pages, 4)

    def test_too_old(self):
        """Who left is remembered for a while only: behind that all are told anew."""
        first = self.say(A).version
        self.say(B)
        since = self.say(A, since=first)
        self.say(B, leaving=1)
        self.c.cmd("EVAL", """for i = 1, 1001 do redis.call('ZADD', KEYS[1], ARGV[1] + i, 'x' .. i) end
            redis.call('ZADD', KEYS[2], ARGV[1] + 1001, '>')""", 2, LEFT, CHANGES, since.version + 10)
        self.say(C)
        self.say(C, leaving=1)
        a = self.say(A, since=since.version)
        self.assertEqual((a.anew, a.others), (1, []))
        self.assertLessEqual(self.c.cmd("ZCARD", LEFT), 1002)
        for since in (0, a.version + 10 ** 9):
            self.assertEqual(self.say(A, since=since).anew, 1)


class Lists(Presence):
    """What daemons bring of others to a Redis that has lost them."""
    def lost(self):
        epoch = self.meets()
        self.c.cmd("FLUSHALL")
        return epoch

    def test_the_grace_goes_on_until_they_are_heard(self):
        epoch = self.lost()
        a = self.say_once(A, known=epoch, met=[C])
        self.assertEqual((a.bring, self.awaited()[A]), (2, "list"))
        a = self.say_once(A, known=a.epoch, reclaimed=a.epoch, of=epoch, met=[C], part=(1, []))
        self.assertEqual((a.bring, a.until > 0), (2, True))
        a = self.say_once(A, known=a.epoch, reclaimed=a.epoch, of=epoch, met=[C], part=(2, [C]))
        self.assertEqual((a.bring, a.until > 0, self.awaited()), (0, True, {A: "0", C: "1", "?": "0"}))
        self.say(C, known=epoch)
        self.assertEqual(self.say(C, known=a.epoch, reclaimed=a.epoch).until, 0)

    def test_as_long_as_the_longest_lease_in_them(self):
        """Also when it is never brought."""
        epoch = self.lost()
        a = self.say_once(A, known=epoch, met=["%s %d" % (C, 3 * GRACE_MS)])
        self.assertGreaterEqual(a.until, a.time // 1000 + 3 * GRACE_MS - 10)

    def test_one_at_a_time(self):
        epoch = self.lost()
        a = self.say_once(A, known=epoch, met=[B, C], version=7)
        self.c.cmd("ZADD", AWAITED, a.time // 1000 + 20, "!")
        self.assertEqual(self.say_once(B, known=epoch, met=[A, C], version=7).bring, 1)
        self.assertEqual(self.say_once(B, known=a.epoch, of=epoch, met=[A, C], version=7, leaving=1).bring, 2)
        until(lambda: self.say_once(B, known=a.epoch, of=epoch, met=[A, C], version=7).bring == 2)
        self.c.cmd("ZADD", AWAITED, a.time // 1000 + 3600000, "!")  # of another clock
        self.assertEqual(self.say_once(B, known=a.epoch, of=epoch, met=[A, C], version=7).bring, 2)

    def test_covered(self):
        epoch = self.lost()
        a = self.say(A, known=epoch, met=[B, C], version=7)
        self.assertEqual(self.say_once(B, known=epoch, met=[A, C], version=7).bring, 0)
        for who in (B, A):
            self.assertGreater(self.say(who, known=a.epoch, reclaimed=a.epoch).until, 0)
        self.say(C, known=epoch, met=[A, B], version=6)
        self.assertEqual(self.say(C, known=a.epoch, reclaimed=a.epoch).until, 0)

    def test_a_later_one_is_not_covered(self):
        """D came last, as B has heard."""
        epoch = self.lost()
        d = "d" * 8 + TAIL
        self.say(A, known=epoch, met=[B, C], version=7)
        for more in (dict(version=8), dict(version=7, last=8), dict(version=0, last=8)):
            self.assertNotEqual(self.say_once(B, known=epoch, met=[A, C, d], **more).bring, 0)
        self.say(B, known=epoch, met=[A, C, d], version=8)
        self.assertEqual(self.awaited()[d], "1")

    def test_a_list_that_is_not_whole_covers_none(self):
        """A has heard of D by message, but not of C, which came before it; B has."""
        epoch = self.lost()
        d = "d" * 8 + TAIL
        self.say(A, known=epoch, met=[B, d], version=6, last=8)
        self.say(B, known=epoch, met=[A, C, d], version=8)
        self.assertEqual(self.awaited()[C], "1")

    def test_of_who_does_not_know_all(self):
        epoch = self.lost()
        self.say(A, known=epoch, met=["?", B], version=7)
        self.assertEqual(self.awaited(), {A: "1", B: "1", "?": "1"})
        self.say(C, known=epoch, met=[A, B], version=7)
        self.assertEqual(self.awaited(), {A: "1", B: "1", C: "1", "?": "0"})

    def test_lost_again_between_two_parts(self):
        epoch = self.lost()
        a = self.say_once(A, known=epoch, met=[B, C])
        self.say_once(A, known=a.epoch, of=epoch, met=[B, C], part=(1, [B]))
        self.c.cmd("FLUSHALL")
        again = self.say_once(A, known=a.epoch, of=epoch, met=[B, C], part=(2, [C]))
        self.assertEqual((again.epoch > a.epoch, again.bring), (True, 2))
        self.assertEqual(self.awaited(), {A: "list"})
        self.say(A, known=again.epoch, of=epoch, met=[B, C])
        self.assertEqual(self.awaited(), {A: "1", B: "1", C: "1", "?": "0"})

    def test_a_process_that_comes_after_has_none(self):
        """The one before was asked for its list, which it takes with it: it is not known whom to wait for."""
        epoch = self.lost()
        a = self.say_once(A, known=epoch, met=[B, C])
        self.say_once(A, known=epoch, nonce="d" * 16, former=NONCE[A], met=["?"])
        self.assertEqual(self.awaited(), {A: "1", "?": "1"})
        over = self.say_once(A, known=a.epoch, nonce="d" * 16, reclaimed=a.epoch)
        self.assertEqual((over.until > 0, self.awaited()), (True, {A: "0", "?": "1"}))

    def test_a_word_from_before_changes_nothing(self):
        """Of another connection."""
        epoch = self.lost()
        a = self.say(A, known=epoch, met=[B, C])
        self.assertEqual(self.say_once(A, known=epoch, met=[B, C]).bring, 0)
        self.say(A, known=a.epoch, reclaimed=a.epoch)
        self.assertEqual(self.say_once(A, known=epoch, met=[B, C]).bring, 0)
        self.assertEqual(self.awaited()[A], "0")


class Rights(Presence):
    def test_without_info_it_says_so(self):
        """Nobody could tell an old snapshot, or a promoted replica, from what was there before."""
        self.c.cmd("ACL", "SETUSER", "blind", "on", ">p", "~*", "&*", "+@all", "-info")
        with self.r.conn() as blind:
            self.assertEqual(blind.cmd("AUTH", "blind", "p"), "OK")
            said = self.say_raw(A, c=blind)
        self.assertIsInstance(said, RError)
        self.assertRegex(said, "^NOPERM .* run the 'info' command")
        self.assertEqual(self.c.cmd("EXISTS", MEMBERS), 0)

    def test_without_the_channel_it_stays_outside(self):
        """It would hold locks, and after a flush nobody would wait for it."""
        self.c.cmd("ACL", "SETUSER", "mute", "on", ">p", "~*", "resetchannels", "&redisson_*", "+@all")
        with self.r.conn() as c:
            self.assertEqual(c.cmd("AUTH", "mute", "p"), "OK")
            for known in (0, 1):
                reply = self.say_raw(A, c=c, known=known)
                self.assertIsInstance(reply, RError)
                self.assertRegex(reply, "channel")
                self.assertEqual(self.c.cmd("KEYS", "*"), [])
            self.say(B)
            self.assertRegex(self.say_raw(A, c=c), "channel")
            self.assertNotIn(A, self.c.map("HGETALL", MEMBERS))
            self.c.cmd("ACL", "SETUSER", "mute", "&" + CHANNEL)
            epoch = self.say(A, c=c).epoch
            self.c.cmd("ACL", "SETUSER", "mute", "resetchannels")
            self.c.cmd("SET", EPOCH, "%d %s" % (epoch, "0123456789abcdef"))
            self.assertRegex(self.say_raw(A, c=c, known=epoch), "channel")
            self.assertEqual(self.c.cmd("GET", EPOCH), "%d %s" % (epoch, "0123456789abcdef"))

    def test_without_pubsub_it_stays_outside(self):
        self.c.cmd("ACL", "SETUSER", "uncounting", "on", ">p", "~*", "&*", "+@all", "-pubsub")
        with self.r.conn() as c:
            self.assertEqual(c.cmd("AUTH", "uncounting", "p"), "OK")
            self.assertRegex(self.say_raw(A, c=c), "command")  # Redis 7.0 does not say which


class Role(Presence):
    def test_a_replica_that_takes_writes(self):
        """It drops them whenever its master says so."""
        self.c.cmd("CONFIG", "SET", "replica-read-only", "no")
        self.c.cmd("REPLICAOF", "127.0.0.1", "1")
        said = self.say_raw(A)
        self.assertIsInstance(said, RError)
        self.assertRegex(said, "^READONLY not a master")
        self.assertEqual(self.c.cmd("KEYS", "*"), [])
        self.c.cmd("REPLICAOF", "NO", "ONE")
        self.assertEqual(self.say(A).status, OK)


class Keys(Presence):
    def test_of_another_type(self):
        for key in KEYS[1:]:
            for spoil in (("RPUSH", key, "x"), ("SADD", key, "x")):
                with self.subTest(key):
                    self.c.cmd("FLUSHALL")
                    epoch = self.meets()
                    self.c.cmd("DEL", key)
                    self.c.cmd(*spoil)
                    a = self.say(A, known=epoch, met=[B])
                    self.assertEqual(a.until > 0, key == EPOCH)
                    self.assertEqual(a.epoch > epoch, key == EPOCH)

    def test_nonsense_in_the_epoch(self):
        for word in ("", "x", "1", "-1 abc", "12 xyz", "5 0123456789abcdef x", "9" * 400, OPEN + " "):
            with self.subTest(word):
                self.c.cmd("SET", EPOCH, word)
                self.assertGreater(self.say(A, known=1).until, 0)

    def test_an_epoch_that_would_expire_does_not(self):
        epoch = self.meets()
        self.c.cmd("EXPIRE", EPOCH, 100)
        self.assertEqual(self.say(A, known=epoch).epoch, epoch)
        self.assertEqual(self.c.cmd("TTL", EPOCH), -1)

    def test_full(self):
        """The first daemon, a known epoch and a lost one, in a Redis without room."""
        self.full()
        epoch = self.meets()
        self.full(False)
        self.c.cmd("FLUSHALL")
        self.full()
        a = self.say(A, known=epoch, met=[B])
        self.assertGreater(a.until, 0)
        self.say(A, known=a.epoch, reclaimed=a.epoch)
        self.say(B, known=epoch)
        self.assertEqual(self.say(B, known=a.epoch, reclaimed=a.epoch).until, 0)

    def test_token_floor(self):
        far = self.now_us() + 10 ** 12
        self.say(A, floor=far)
        self.assertEqual(self.c.cmd("GET", CLOCK), str(far))
        self.say(A, floor=far - 5)
        self.assertEqual(self.c.cmd("GET", CLOCK), str(far), "never back")
        for spoil in (("SET", CLOCK, "nonsense"), ("RPUSH", CLOCK, "x")):
            self.c.cmd("DEL", CLOCK)
            self.c.cmd(*spoil)
            self.say(A, floor=far)
            self.assertEqual(self.c.cmd("GET", CLOCK), str(far))
        self.c.cmd("DEL", CLOCK)
        self.say(A)
        self.assertEqual(self.c.cmd("EXISTS", CLOCK), 0)


class InAGrace(Scripted):
    """Every verb of every kind, in data that has lost locks."""

    def setUp(self):
        super().setUp()
        self.until = self.now_us() // 1000 + GRACE_MS
        self.word = "%s %d" % (OPEN, self.until)

    def begins(self):
        self.c.cmd("SET", EPOCH, self.word)

    def test_nobody_gets_anything(self):
        for kind in KINDS:
            for epoch, told in ((self.word, True), (OPEN.replace("17", "18"), False), (None, False), ("list", False)):
                with self.subTest((kind, epoch)):
                    self.flush()
                    self.c.cmd("DEL", EPOCH)
                    if epoch == "list":
                        self.c.cmd("RPUSH", EPOCH, OPEN)
                    elif epoch is not None:
                        self.c.cmd("SET", EPOCH, epoch)
                    was = self.dump()
                    outcome, left, _ = self.run_one(kind, "acquire", place=1)
                    self.assertEqual(outcome, GRACE)
                    self.assertTrue(GRACE_MS - 5000 * harness.SLOW < left <= GRACE_MS if told else left == 0, left)
                    self.assertEqual(self.dump(), was)
                    self.assertEqual(self.run_one(kind, "acquire", guard=1)[0], STALE)

    def test_also_not_who_has_it(self):
        """Only as a reclaim: it says which grace it knows of."""
        for kind in KINDS:
            with self.subTest(kind):
                self.flush()
                stamp = self.held(kind)
                self.begins()
                self.assertEqual(self.run_one(kind, "acquire", stamp=stamp)[0], GRACE)
                outcome, token, _ = self.run_one(kind, "acquire", stamp=stamp, epoch=self.word)
                self.assertEqual(outcome, OK)
                self.assertGreater(token, 0)

    def test_renewed_and_given_back_as_ever(self):
        for kind in KINDS:
            for verb in ("renew", "release", "clear"):
                with self.subTest((kind, verb)):
                    self.flush()
                    stamp = self.held(kind)
                    self.begins()
                    self.assertEqual(self.run_one(kind, verb, stamp=stamp)[0], OK)

    def test_what_is_not_there_may_have_been_lost(self):
        for kind in KINDS:
            for verb in ("renew", "release", "clear"):
                with self.subTest((kind, verb)):
                    self.flush()
                    self.assertEqual(self.run_one(kind, verb)[0], GONE)
                    self.begins()
                    outcome, token, _ = self.run_one(kind, verb)
                    self.assertEqual(outcome, GRACE)
                    self.assertEqual(token > 0, verb == "clear")

    def test_reclaimed(self):
        for kind in KINDS:
            with self.subTest(kind):
                self.flush()
                self.begins()
                self.held(kind, epoch=self.word)
                if KIND[kind].hash_of:
                    self.assertEqual(self.c.cmd("HGETALL", "k"), KIND[kind].hash_of)
                self.flush()
                self.assertEqual(self.run_one(kind, "acquire", epoch=self.word)[0], GRACE, "over meanwhile")

    def test_over_ghosts(self):
        """A daemon that has it in old data lost it since, or it would have been told so."""
        ghost = A + ":7"
        for kind in KINDS:
            with self.subTest(kind):
                self.flush()
                self.held(kind, who=ghost, lease=2 * LEASE)
                self.begins()
                outcome = self.run_one(kind, "acquire", epoch=self.word)[0]
                if kind in ("simple", "counter"):  # a string does not say whose it is
                    self.assertEqual(outcome, TAKEN)
                    continue
                self.assertEqual(outcome, OK)
                if KIND[kind].hash_of:
                    self.assertEqual(self.c.cmd("HGETALL", "k"), KIND[kind].hash_of)
                    self.ttl_is("k", LEASE)

    def test_not_over_strangers(self):
        for kind in KINDS:
            with self.subTest(kind):
                self.flush()
                self.held(kind, who=YOU)
                was = self.dump()
                self.begins()
                outcome = self.run_one(kind, "acquire", epoch=self.word)[0]
                if kind == "semaphore":  # whoever has had one has one: the number is put right as they are given back
                    self.assertEqual(outcome, OK)
                    continue
                self.assertEqual(outcome, TAKEN)
                del was[EPOCH]
                self.assertEqual({k: v for k, v in self.dump().items() if k != EPOCH}, was)

    def test_not_over_ghosts_when_it_is_over(self):
        for kind in LIKE_RLOCK + ["rw"]:
            with self.subTest(kind):
                self.flush()
                self.held(kind, who=A + ":7")
                self.assertEqual(self.run_one(kind, "acquire")[0], TAKEN)

    def test_several_ghosts_and_a_stranger(self):
        self.begins()
        for n in range(3):
            self.run_one("rw", "acquire", owner=A + ":%d" % n, mode="read", epoch=self.word)
        self.assertEqual(self.run_one("rw", "acquire", epoch=self.word)[0], OK)
        self.assertEqual(self.c.cmd("HGETALL", "k"), ["mode", "write", ME + ":write", "1"])
        self.assertEqual(self.c.cmd("KEYS", "*rwlock_timeout*"), [])
        self.flush()
        self.begins()
        self.c.cmd("HSET", "k", "mode", "read", A + ":1", 1, YOU, 1)
        self.c.cmd("PEXPIRE", "k", 5000)
        self.assertEqual(self.run_one("rw", "acquire", epoch=self.word)[0], TAKEN)
        self.assertEqual(self.c.cmd("HLEN", "k"), 3)
        self.assertEqual(self.run_one("rw", "acquire", mode="read", epoch=self.word)[0], OK, "one more reader")
        self.assertEqual(self.c.cmd("HLEN", "k"), 4)

    def test_what_we_have_is_not_buried(self):
        self.held("rw")
        self.begins()
        self.assertEqual(self.run_one("rw", "acquire", mode="read", holds=2, epoch=self.word)[0], OK)
        self.assertEqual(self.c.map("HGETALL", "k"), {"mode": "write", ME + ":write": "1", ME: "2"})
        self.assertEqual(self.run_one("rw", "acquire", holds=3, epoch=self.word)[0], OK)
        self.assertEqual(self.c.map("HGETALL", "k"), {"mode": "write", ME + ":write": "3", ME: "2"})

    def test_a_fair_lock_is_reclaimed_past_its_queue(self):
        self.held("fair", who=A + ":7")
        self.assertEqual(self.run_one("fair", "acquire", owner=YOU, place=1)[0], TAKEN)
        self.begins()
        self.assertEqual(self.run_one("fair", "acquire", epoch=self.word)[0], OK)
        self.assertEqual(self.c.cmd("LRANGE", "redisson_lock_queue:{k}", 0, -1), [YOU])

    def test_permits_above_the_limit_come_down_again(self):
        """What was given since the snapshot is all asserted, whatever else is in it."""
        ghosts = ["g%015d" % i for i in range(2)]
        ours = ["o%015d" % i for i in range(3)]
        for p in ghosts:
            self.held("semaphore", who=p, limit=3)
        self.begins()
        for p in ours:
            self.assertEqual(self.run_one("semaphore", "acquire", owner=p, limit=3, epoch=self.word)[0], OK)
        self.c.cmd("SET", EPOCH, OPEN)
        for p in ours[:2]:
            self.assertEqual(self.run_one("semaphore", "release", owner=p)[0], OK)
            self.assertEqual(self.run_one("semaphore", "acquire", owner="n" * 16, limit=3)[0], TAKEN)
        self.assertEqual(self.run_one("semaphore", "release", owner=ours[2])[0], OK)
        self.assertEqual(self.run_one("semaphore", "acquire", owner="n" * 16, limit=3)[0], OK)

    def test_a_counter_is_reclaimed_by_its_stamp_alone(self):
        stamp = self.held("counter")
        self.begins()
        self.assertEqual(self.run_one("counter", "acquire", stamp=stamp + 5000, epoch=self.word)[0], TAKEN)
        self.assertEqual(self.run_one("counter", "acquire", stamp=stamp, lease=2 * LEASE, epoch=self.word)[0], OK)
        self.ttl_is("k", 2 * LEASE)

    def test_fenced_tokens_go_on(self):
        self.begins()
        self.c.cmd("SET", "redisson_lock_token:{k}", 10 ** 15 * 5)
        outcome, token, _ = self.run_one("fenced", "acquire", epoch=self.word)
        self.assertEqual((outcome, token), (OK, 10 ** 15 * 5 + 1))

    def test_full(self):
        """Nothing of it is written, also when a ghost had to go first."""
        for kind in LIKE_RLOCK + ["rw"]:
            with self.subTest(kind):
                self.full(False)
                self.flush()
                self.begins()
                self.full()
                self.assertEqual(self.run_one(kind, "acquire", epoch=self.word)[0], FULL)
                self.assertEqual(self.run_one(kind, "acquire")[0], GRACE)


if __name__ == "__main__":
    harness.main()
