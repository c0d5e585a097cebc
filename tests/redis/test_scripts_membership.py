#!/usr/bin/env python3
"""scripts/membership.lua by itself on a real Redis: when a new epoch begins, and when its grace period is over."""
import re
import time

import harness
from harness import RError, until
from membership import A, AWAITED, B, C, CHANNEL, GRACE_MS, KEYS, MEMBERS, Membership
from scripted import CLOCK, EPOCH, OK, OPEN


class Epochs(Membership):
    def test_the_first_daemon_trusts_it(self):
        before = self.now_us()
        a = self.register(A)
        self.assertEqual((a.status, a.until, a.others), (OK, 0, []))
        self.assertTrue(before <= a.epoch <= self.now_us())
        self.assertEqual(self.c.cmd("HKEYS", MEMBERS), [A])
        self.assertEqual(self.c.cmd("TTL", EPOCH), -1)
        self.assertEqual(self.c.cmd("EXISTS", AWAITED, CLOCK), 0)

    def test_known(self):
        epoch = self.meets()
        for _ in range(3):
            a = self.register(A, known=epoch)
            self.assertEqual((a.epoch, a.until, a.others), (epoch, 0, [B]))
        self.assertEqual(self.register(B, known=epoch).others, [A])
        self.assertEqual(self.register(C).epoch, epoch)

    def test_flushed_and_a_new_daemon_comes_first(self):
        """
        It has no list, but there are subscribers: those daemons may hold locks, and they register when they are woken.
        """
        first = self.register(A)
        with self.listening(CHANNEL) as b:
            self.c.cmd("FLUSHALL")
            a = self.register(C)
            self.received(b, (CHANNEL, ""))
        self.assertGreater(a.until, 0)
        self.assertEqual(self.awaited(), {"#": "1"})
        self.assertGreater(self.register(C, known=a.epoch, reclaimed=a.epoch).until, 0)
        self.assertGreater(self.register(A, known=first.epoch, met=[B]).until, 0)
        self.assertGreater(self.register(A, known=a.epoch, reclaimed=a.epoch).until, 0)
        self.assertEqual(self.register(B, known=a.epoch, reclaimed=a.epoch).until, 0)

    def test_flushed_and_strict(self):
        """
        Redis's uptime does not count: its data has just been lost, and there is a daemon that had locks in the data.
        """
        self.register(A)
        with self.listening(CHANNEL) as a:
            self.c.cmd("FLUSHALL")
            until(lambda: int(re.search("uptime_in_seconds:([0-9]+)", self.c.cmd("INFO", "server")).group(1)) >= 1)
            self.assertGreater(self.register(C, strict=1, grace=500).until, 0)
            self.received(a, (CHANNEL, ""))

    def test_flushed_before_the_others_have_learned_of_a_daemon(self):
        """A does not know of B, which has just come and holds a lock; but B is subscribed, as A is."""
        epoch = self.register(A).epoch
        with self.listening(CHANNEL) as a, self.listening(CHANNEL) as b:
            news = "+%s %d %d" % (B, GRACE_MS, self.register(B).version)
            self.received(a, (CHANNEL, news))  # a newcomer is announced at once
            self.received(b, (CHANNEL, news))
            self.c.cmd("FLUSHALL")
            again = self.register(A, known=epoch)
            self.received(a, (CHANNEL, ""))
            self.received(b, (CHANNEL, ""))
            self.assertGreater(self.register(A, known=again.epoch, reclaimed=again.epoch).until, 0)
            self.assertGreater(self.register(B, known=epoch).until, 0)
            self.assertEqual(self.register(B, known=again.epoch, reclaimed=again.epoch).until, 0)
            self.received(a, (CHANNEL, ""))  # nor need they ask for the end
            self.received(b, (CHANNEL, ""))

    def test_flushed_and_a_restarted_daemon_comes_first(self):
        """It knows that there were other daemons, but not which: it waits for a daemon that knows."""
        epoch = self.meets()
        self.c.cmd("FLUSHALL")
        a = self.register(A, known=epoch, met=["?"])
        self.assertGreater(self.register(A, known=a.epoch, reclaimed=a.epoch).until, 0)
        self.assertGreater(self.register(B, known=epoch, met=[A]).until, 0)
        self.assertEqual(self.register(B, known=a.epoch, reclaimed=a.epoch).until, 0)

    def test_an_epoch_that_no_daemon_can_outdo(self):
        for number in (2 ** 53 - 1, 10 ** 20):
            self.c.cmd("SET", EPOCH, "%d abcdef" % number)
            a = self.register(A, known=2 ** 53 - 1)
            self.assertLess(a.epoch, self.now_us() + 1000)
            self.c.cmd("FLUSHALL")
            self.assertGreater(self.register(A, known=a.epoch).epoch, a.epoch)
            self.c.cmd("FLUSHALL")

    def test_flushed(self):
        epoch = self.meets()
        self.c.cmd("FLUSHALL")
        a = self.register(A, known=epoch, met=[B])
        self.assertGreater(a.epoch, epoch)
        self.assertTrue(a.time // 1000 + GRACE_MS - 5 <= a.until <= a.time // 1000 + GRACE_MS + 5)
        self.assertEqual(self.awaited(), {A: "1", B: "1", "?": "0"})
        self.assertGreater(self.c.cmd("TTL", AWAITED), 80000)
        self.assertEqual(self.register(A, known=a.epoch, met=[B]).until, a.until, "the grace has one end")
        self.assertEqual(self.register(A, known=a.epoch, reclaimed=epoch).until, a.until, "of the epoch before")
        self.assertEqual(self.register(A, known=a.epoch, reclaimed=a.epoch).until, a.until, "B has reported nothing")
        b = self.register(B, known=epoch)
        self.assertEqual((b.epoch, b.until), (a.epoch, a.until))
        self.assertEqual(self.register(B, known=a.epoch).until, a.until)
        over = self.register(B, known=a.epoch, reclaimed=a.epoch)
        self.assertEqual((over.epoch, over.until, over.word), (a.epoch, 0, a.word))
        self.assertEqual(self.c.cmd("EXISTS", AWAITED), 0)
        self.assertEqual(self.register(A, known=a.epoch, reclaimed=a.epoch).until, 0)

    def test_the_epoch_alone_is_gone(self):
        epoch = self.meets()
        self.c.cmd("DEL", EPOCH)
        a = self.register(A, known=epoch)
        self.assertGreater(a.epoch, epoch)
        self.assertGreater(a.until, 0)

    def test_one_alone_is_over_with_its_word(self):
        first = self.register(A)
        self.c.cmd("FLUSHALL")
        a = self.register(A, known=first.epoch)
        self.assertGreater(a.until, 0)
        self.assertEqual(self.register(A, known=a.epoch, reclaimed=a.epoch).until, 0)

    def test_a_daemon_that_comes_later_may_hold_locks_too(self):
        """No daemon brings C in its list, but C comes before the grace period is over."""
        epoch = self.meets()
        self.c.cmd("FLUSHALL")
        a = self.register(A, known=epoch)
        self.register(C, known=epoch)
        self.assertEqual(self.register(A, known=a.epoch, reclaimed=a.epoch).until, a.until)
        self.assertEqual(self.register(C, known=a.epoch, reclaimed=a.epoch).until, 0)

    def test_a_new_one_is_not_waited_for(self):
        epoch = self.meets()
        self.c.cmd("FLUSHALL")
        a = self.register(A, known=epoch)
        self.register(C)
        self.assertEqual(self.register(A, known=a.epoch, reclaimed=a.epoch).until, 0)

    def test_over_by_time(self):
        epoch = self.meets()
        self.c.cmd("FLUSHALL")
        a = self.register(A, known=epoch, met=[B], grace=100)
        self.assertGreater(a.until, 0)
        self.assertEqual(until(lambda: self.register(C) if self.now_us() // 1000 >= a.until else None).until, 0)

    def test_another_process_empty(self):
        epoch = self.meets()
        _, c = self.another_redis()
        a = self.register(A, c=c, known=epoch, met=[B])
        self.assertGreater(a.epoch, epoch)
        self.assertGreater(a.until, 0)
        self.assertEqual(self.awaited(c), {A: "1", B: "1", "?": "0"})

    def test_another_process_with_what_was_saved(self):
        """The members of the snapshot, and those that a daemon knows, are awaited; also if no daemon knows any."""
        for known in (True, False):
            with self.subTest(known=known):
                self.c.cmd("FLUSHALL")
                epoch = self.meets()
                old = self.c.cmd("GET", EPOCH)
                self.put(C, 1)  # long ago
                _, c = self.another_redis(self.saved())
                self.assertEqual(c.cmd("GET", EPOCH), old)
                a = self.register(A, c=c, **(dict(known=epoch) if known else {}))
                self.assertGreater(a.epoch, epoch)
                self.assertNotEqual(a.word.split()[1], old.split()[1])
                self.assertGreater(a.until, 0)
                self.assertEqual(self.awaited(c), {A: "1", B: "1", "?": "0"} if known else {B: "1"})
                if known:
                    self.register(A, c=c, known=a.epoch, reclaimed=a.epoch)
                self.assertEqual(self.register(B, c=c, known=epoch).until, a.until)
                self.assertEqual(self.register(B, c=c, known=a.epoch, reclaimed=a.epoch).until, 0)

    def test_a_replica_becomes_master(self):
        epoch = self.meets()
        r, c = self.another_redis()
        self.assertEqual(c.cmd("REPLICAOF", "127.0.0.1", "1"), "OK")
        reply = self.register_raw(A, c=c, known=epoch)
        self.assertIsInstance(reply, RError)
        self.assertRegex(reply, "READONLY")
        old = c.cmd("INFO", "replication")
        c.cmd("REPLICAOF", "NO", "ONE")
        a = self.register(A, c=c, known=epoch)
        b = self.register(A, c=c, known=a.epoch, reclaimed=a.epoch)
        self.assertEqual((b.epoch, b.until), (a.epoch, 0))
        c.cmd("REPLICAOF", "127.0.0.1", "1")
        c.cmd("REPLICAOF", "NO", "ONE")  # another line of replication in the same process
        self.assertNotEqual(c.cmd("INFO", "replication"), old)
        again = self.register(A, c=c, known=a.epoch, reclaimed=a.epoch)
        self.assertGreater(again.epoch, a.epoch)
        self.assertGreater(again.until, 0)

    def test_clocks_that_went_back(self):
        """The number of the epoch rises above the numbers that the daemon and the data have."""
        far = self.now_us() + 10 ** 12
        a = self.register(A, known=far)
        self.assertTrue(far < a.epoch <= far + 2 ** 16)
        self.c.cmd("SET", EPOCH, "%d fedcba9876543210" % (far + 10))
        self.assertTrue(far + 10 < self.register(A, known=far).epoch <= far + 10 + 2 ** 16)

    def test_lost_twice_while_clocks_are_behind(self):
        """two epochs with the same predecessor differ: a daemon that knows of the first has to learn of the second"""
        known = self.now_us() + 3600 * 1000000
        seen = set()
        for actor in (A, B, A, B):
            self.c.cmd("FLUSHALL")
            a = self.register(actor, known=known)
            self.assertGreater(a.epoch, known)
            seen.add(a.epoch)
        self.assertGreater(len(seen), 1)

    def test_lost_again_in_the_grace(self):
        """Known members stay known: B, which has not come yet, is still awaited."""
        epoch = self.meets()
        self.c.cmd("FLUSHALL")
        a = self.register(A, known=epoch, met=[B])
        self.c.cmd("FLUSHALL")
        again = self.register(A, known=a.epoch, reclaimed=a.epoch, met=[B])
        self.assertGreater(again.epoch, a.epoch)
        self.assertEqual(self.awaited(), {A: "1", B: "1", "?": "0"})

    def test_lost_again_in_a_grace_that_waited_for_unknown_members(self):
        """
        The members that the first grace period waited for are unknown now: the second goes on until its end, or until a
        member with a list comes.
        """
        for how in (dict(strict=1), dict(known=self.now_us(), grace=3 * GRACE_MS)):
            self.c.cmd("FLUSHALL")
            a = self.register(A, **how)
            self.assertGreater(a.until, a.time // 1000)
            self.c.cmd("FLUSHALL")
            lasts = ["!%d" % (a.until - a.epoch // 1000)]
            again = self.register(A, known=a.epoch, reclaimed=a.epoch, met=lasts)
            self.assertGreater(again.epoch, a.epoch)
            self.assertGreaterEqual(again.until, a.until)
            self.assertEqual(self.awaited(), {A: "1", "?": "1"})
            over = self.register(A, known=again.epoch, reclaimed=again.epoch, met=lasts)
            self.assertEqual(over.until, again.until)
            self.register(B, known=1, met=[A])
            self.assertEqual(self.register(B, known=again.epoch, reclaimed=again.epoch).until, 0)

    def test_lost_again_before_the_other_knows_the_newcomer(self):
        """
        B registers while A stands still, so A knows of no other member; B has reclaimed its locks when all data is lost
        again. A must not end that grace period alone, though it met no other member in either epoch, nor reported a
        reclaim.
        """
        first = self.register(A)
        self.register(B)
        self.c.cmd("FLUSHALL")
        a = self.register(A, known=first.epoch)
        self.assertEqual((a.until > 0, a.others), (True, []))
        self.register(B, known=first.epoch, met=[A])
        self.assertGreater(self.register(B, known=a.epoch, reclaimed=a.epoch).until, 0)
        self.c.cmd("FLUSHALL")
        lasts = ["!%d" % (a.until - a.epoch // 1000)]
        again = self.register(A, known=a.epoch, met=lasts)
        self.assertEqual(again.others, [])
        self.assertGreater(self.register(A, known=again.epoch, reclaimed=again.epoch, met=["?"] + lasts).until, 0)

    def test_for_unknown_members_and_then_a_failover(self):
        """
        By the data the members are unknown. A daemon of that grace period has no list either, and must not end it.
        """
        a = self.register(A, strict=1)
        self.c.cmd("FLUSHALL")
        lasts = ["!%d" % (a.until - a.epoch // 1000)]
        a = self.register(A, known=a.epoch, met=lasts)
        _, c = self.another_redis(self.saved())
        again = self.register(A, c=c, known=a.epoch, reclaimed=a.epoch, met=lasts)
        self.assertEqual(self.awaited(c), {A: "1", "?": "1", "^": str(a.epoch)})
        self.assertGreater(self.register(A, c=c, known=again.epoch, reclaimed=again.epoch, met=lasts).until, 0)

    def test_the_awaited_are_lost_alone_and_then_a_failover(self):
        a = self.register(A, strict=1)
        self.c.cmd("DEL", AWAITED)
        _, c = self.another_redis(self.saved())
        lasts = ["!%d" % (a.until - a.epoch // 1000)]
        again = self.register(A, c=c, known=a.epoch, met=lasts)
        self.assertGreater(self.register(A, c=c, known=again.epoch, reclaimed=again.epoch, met=lasts).until, 0)

    def test_the_end_of_a_grace_is_in_the_data_and_was_not_received(self):
        first = self.register(A)
        self.c.cmd("FLUSHALL")
        a = self.register(A, known=first.epoch)
        self.assertEqual(self.register(A, known=a.epoch, reclaimed=a.epoch).until, 0)
        _, c = self.another_redis(self.saved())
        lasts = ["!%d" % (a.until - a.epoch // 1000)]
        again = self.register(A, c=c, known=a.epoch, reclaimed=a.epoch, met=lasts)
        self.assertEqual(self.register(A, c=c, known=again.epoch, reclaimed=again.epoch, met=lasts).until, 0)

    def test_how_long_a_grace_was_to_last_is_no_matter_where_it_goes_on(self):
        a = self.register(A, known=1)
        for far in (2 ** 60, 0):
            again = self.register(A, known=a.epoch, met=["!%d" % far])
            self.assertEqual((again.epoch, again.until), (a.epoch, a.until))
        self.c.cmd("FLUSHALL")
        again = self.register(A, known=a.epoch, met=["!%d" % 2 ** 60])
        self.assertEqual(again.until, again.epoch // 1000 + 86400000)

    def test_a_failover_in_the_grace(self):
        """C is cut off all the time. The first daemon at the next master does not know of C, but the data does."""
        epoch = self.meets()
        self.c.cmd("FLUSHALL")
        a = self.register(A, known=epoch, grace=5 * GRACE_MS)
        self.assertGreater(self.register(B, known=epoch, reclaimed=epoch, met=[A, C]).until, 0)
        self.assertEqual(self.awaited(), {A: "1", B: "1", C: "1", "?": "0"})
        self.register(B, known=a.epoch, reclaimed=a.epoch)
        self.c.cmd("ZADD", AWAITED, -2, "#")
        _, c = self.another_redis(self.saved())
        again = self.register(A, c=c, known=a.epoch, met=["!%d" % (5 * GRACE_MS)])
        self.assertGreater(again.epoch, a.epoch)
        self.assertGreaterEqual(again.until, a.until)
        absent = self.awaited(c)
        self.assertEqual(absent.pop("^"), str(a.epoch))
        self.assertEqual(absent, {A: "1", B: "1", C: "1", "?": "0", "#": "2"})
        for actor in (A, B):
            self.assertGreater(self.register(actor, c=c, known=again.epoch, reclaimed=again.epoch).until, 0)
        self.register(C, c=c, known=epoch)
        self.assertEqual(self.register(C, c=c, known=again.epoch, reclaimed=again.epoch).until, 0)

    def test_a_failover_in_the_grace_to_another_clock(self):
        """The time in the epoch is that of another machine: only the length of the grace period counts."""
        for ahead_ms in (-3600000, -1, 3600000):
            with self.subTest(ahead_ms=ahead_ms):
                self.c.cmd("FLUSHALL")
                now = self.now_us()
                began = now + ahead_ms * 1000
                self.c.cmd("SET", EPOCH, "%d %s %d" % (began, "0123456789abcdef", began // 1000 + 40000))
                self.c.cmd("ZADD", AWAITED, 0, A, 1, B, 2, C, 3, "?")
                a = self.register(A, known=began)
                self.assertEqual(self.awaited(),
                                 {A: "1", B: "1", C: "2", "?": "0", "^": str(began)})
                self.assertTrue(a.time // 1000 + 39000 <= a.until <= a.time // 1000 + 40000, a.until - a.time // 1000)

    def test_a_time_that_is_none(self):
        self.c.cmd("SET", EPOCH, "%d %s %d" % (2 ** 53, "0123456789abcdef", 2 ** 53))
        a = self.register(A, known=1)
        self.assertTrue(a.until <= a.time // 1000 + GRACE_MS)

    def test_a_member_that_left_in_the_grace_is_not_waited_for_again(self):
        epoch = self.meets()
        self.c.cmd("FLUSHALL")
        a = self.register(A, known=epoch, met=[B])
        self.register(B, known=epoch, leaving=1)
        _, c = self.another_redis(self.saved())
        again = self.register(A, c=c, known=a.epoch)
        self.assertGreater(again.until, 0)
        self.assertEqual(self.register(A, c=c, known=again.epoch, reclaimed=again.epoch).until, 0)

    def test_a_listener_to_everything_is_no_daemon(self):
        self.register(A)
        with self.r.conn() as tool:
            tool.cmd("PSUBSCRIBE", "*")
            self.c.cmd("FLUSHALL")
            self.assertEqual(self.register(B).until, 0)
            self.assertEqual(tool.read(), ["pmessage", "*", CHANNEL, ""])

    def test_an_older_one_says_which(self):
        a = self.register(A)
        b = self.register(B, known=a.epoch + 10 ** 9)
        self.assertEqual((b.epoch, b.until), (a.epoch, 0))

    def test_an_older_one_that_is_all_there_is(self):
        """Grants made since are lost in this data: nothing is granted until all members of that time have reported."""
        first = self.meets()
        later = first + 10 ** 9
        self.assertEqual(self.register(A, known=later, met=[B, C]).epoch, first, "the other one may still be there")
        with self.listening(CHANNEL) as b:
            a = self.register(A, known=later, rolled_back=1, met=[B, C])
            self.received(b, (CHANNEL, ""))
        self.assertGreater(a.epoch, later)
        self.assertGreater(a.until, a.time // 1000)
        self.assertEqual(self.awaited(), {A: "1", B: "1", C: "1", "?": "0", "#": "1"})
        again = self.register(A, known=a.epoch, reclaimed=a.epoch, rolled_back=1, met=[B, C])
        self.assertEqual((again.epoch, again.until), (a.epoch, a.until))
        self.assertGreater(self.register(C, known=later, rolled_back=1).until, 0, "the grace is theirs, too")
        self.assertGreater(self.register(B, known=first).until, 0, "it has never been there")
        self.register(B, known=a.epoch, reclaimed=a.epoch)
        self.assertEqual(self.register(C, known=a.epoch, reclaimed=a.epoch).until, 0)

    def test_rolled_back_where_nothing_is_older(self):
        epoch = self.meets()
        for known in (0, epoch - 1, epoch):
            a = self.register(A, known=known, rolled_back=1)
            self.assertEqual((a.epoch, a.until), (epoch, 0))


class Strict(Membership):
    def test_waits_until_redis_has_been_up_for_a_grace(self):
        a = self.register(A, strict=1)
        up = int(re.search(r"uptime_in_seconds:(\d+)", self.c.cmd("INFO", "server")).group(1))
        left = a.until - a.time // 1000
        self.assertTrue(GRACE_MS - 1000 * (up + 1) - 5 <= left <= GRACE_MS + 5, left)
        self.assertEqual(self.register(A, known=a.epoch, reclaimed=a.epoch, strict=1).until, a.until)

    def test_is_at_once_when_it_has(self):
        self.c.cmd("CONFIG", "RESETSTAT")  # the counters of FLUSHALL by the tests before
        until(lambda: re.search(r"uptime_in_seconds:[1-9]", self.c.cmd("INFO", "server")))
        a = self.register(A, strict=1, grace=900)
        self.assertEqual(a.until, 0)

    def test_how_long_what_was_flushed_has_been_up_says_nothing(self):
        """A daemon that is gone had granted locks in the data before the flush."""
        until(lambda: re.search(r"uptime_in_seconds:[1-9]", self.c.cmd("INFO", "server")))
        for flush in ("FLUSHALL", "FLUSHDB"):
            self.c.cmd("CONFIG", "RESETSTAT")
            self.c.cmd(flush)
            a = self.register(A, strict=1, grace=900)
            self.assertGreater(a.until, a.time // 1000 + 500)

    def test_how_long_a_replica_has_been_up_says_nothing(self):
        """Locks that it lacks were granted until just now, by the members that it knows of."""
        self.meets()
        _, c = self.another_redis(self.saved())
        until(lambda: re.search(r"uptime_in_seconds:[1-9]", c.cmd("INFO", "server")))
        a = self.register(C, c=c, strict=1, grace=900)
        self.assertGreater(a.until, a.time // 1000 + 500)
        self.assertEqual(self.awaited(c)[B], "1")

    def test_flushed_is_as_ever(self):
        a = self.register(A, strict=1, grace=1)
        self.c.cmd("FLUSHALL")
        a = self.register(A, known=a.epoch, strict=1)
        self.assertGreater(a.until, 0)
        self.assertEqual(self.register(A, known=a.epoch, reclaimed=a.epoch, strict=1).until, 0)


class Rights(Membership):
    def test_without_info_it_says_so(self):
        """Without INFO a daemon cannot distinguish an old snapshot, or a promoted replica, from the former data."""
        self.c.cmd("ACL", "SETUSER", "blind", "on", ">p", "~*", "&*", "+@all", "-info")
        with self.r.conn() as blind:
            self.assertEqual(blind.cmd("AUTH", "blind", "p"), "OK")
            answered = self.register_raw(A, c=blind)
        self.assertIsInstance(answered, RError)
        self.assertRegex(answered, "^NOPERM .* run the 'info' command")
        self.assertEqual(self.c.cmd("EXISTS", MEMBERS), 0)

    def test_without_the_channel_it_stays_outside(self):
        """Else it would hold locks, and after a flush no daemon would wait for it."""
        self.c.cmd("ACL", "SETUSER", "mute", "on", ">p", "~*", "resetchannels", "&redisson_*", "+@all")
        with self.r.conn() as c:
            self.assertEqual(c.cmd("AUTH", "mute", "p"), "OK")
            for known in (0, 1):
                reply = self.register_raw(A, c=c, known=known)
                self.assertIsInstance(reply, RError)
                self.assertRegex(reply, "channel")
                self.assertEqual(self.c.cmd("KEYS", "*"), [])
            self.register(B)
            self.assertRegex(self.register_raw(A, c=c), "channel")
            self.assertNotIn(A, self.c.map("HGETALL", MEMBERS))
            self.c.cmd("ACL", "SETUSER", "mute", "&" + CHANNEL)
            epoch = self.register(A, c=c).epoch
            self.c.cmd("ACL", "SETUSER", "mute", "resetchannels")
            self.c.cmd("SET", EPOCH, "%d %s" % (epoch, "0123456789abcdef"))
            self.assertRegex(self.register_raw(A, c=c, known=epoch), "channel")
            self.assertEqual(self.c.cmd("GET", EPOCH), "%d %s" % (epoch, "0123456789abcdef"))

    def test_without_pubsub_it_stays_outside(self):
        self.c.cmd("ACL", "SETUSER", "uncounting", "on", ">p", "~*", "&*", "+@all", "-pubsub")
        with self.r.conn() as c:
            self.assertEqual(c.cmd("AUTH", "uncounting", "p"), "OK")
            self.assertRegex(self.register_raw(A, c=c), "command")  # Redis 7.0 does not name the command


class Role(Membership):
    def test_a_replica_that_takes_writes(self):
        """It drops the writes at the next synchronization with its master."""
        self.c.cmd("CONFIG", "SET", "replica-read-only", "no")
        self.c.cmd("REPLICAOF", "127.0.0.1", "1")
        answered = self.register_raw(A)
        self.assertIsInstance(answered, RError)
        self.assertRegex(answered, "^READONLY not a master")
        self.assertEqual(self.c.cmd("KEYS", "*"), [])
        self.c.cmd("REPLICAOF", "NO", "ONE")
        self.assertEqual(self.register(A).status, OK)


class Keys(Membership):
    def test_of_another_type(self):
        for key in KEYS[1:]:
            for spoil in (("RPUSH", key, "x"), ("SADD", key, "x")):
                with self.subTest(key):
                    self.c.cmd("FLUSHALL")
                    epoch = self.meets()
                    self.c.cmd("DEL", key)
                    self.c.cmd(*spoil)
                    a = self.register(A, known=epoch, met=[B])
                    self.assertEqual(a.until > 0, key == EPOCH)
                    self.assertEqual(a.epoch > epoch, key == EPOCH)

    def test_nonsense_in_the_epoch(self):
        for word in ("", "x", "1", "-1 abc", "12 xyz", "5 0123456789abcdef x", "9" * 400, OPEN + " "):
            with self.subTest(word):
                self.c.cmd("SET", EPOCH, word)
                self.assertGreater(self.register(A, known=1).until, 0)

    def test_an_epoch_that_would_expire_does_not(self):
        epoch = self.meets()
        self.c.cmd("EXPIRE", EPOCH, 100)
        self.assertEqual(self.register(A, known=epoch).epoch, epoch)
        self.assertEqual(self.c.cmd("TTL", EPOCH), -1)

    def test_full(self):
        """The first daemon, a known epoch and a lost one, in a full Redis."""
        self.full()
        epoch = self.meets()
        self.full(False)
        self.c.cmd("FLUSHALL")
        self.full()
        a = self.register(A, known=epoch, met=[B])
        self.assertGreater(a.until, 0)
        self.register(A, known=a.epoch, reclaimed=a.epoch)
        self.register(B, known=epoch)
        self.assertEqual(self.register(B, known=a.epoch, reclaimed=a.epoch).until, 0)

    def test_token_floor(self):
        far = self.now_us() + 10 ** 12
        self.register(A, floor=far)
        self.assertEqual(self.c.cmd("GET", CLOCK), str(far))
        self.register(A, floor=far - 5)
        self.assertEqual(self.c.cmd("GET", CLOCK), str(far), "never back")
        for spoil in (("SET", CLOCK, "nonsense"), ("RPUSH", CLOCK, "x")):
            self.c.cmd("DEL", CLOCK)
            self.c.cmd(*spoil)
            self.register(A, floor=far)
            self.assertEqual(self.c.cmd("GET", CLOCK), str(far))
        self.c.cmd("DEL", CLOCK)
        self.register(A)
        self.assertEqual(self.c.cmd("EXISTS", CLOCK), 0)


if __name__ == "__main__":
    harness.main()
