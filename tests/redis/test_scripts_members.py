#!/usr/bin/env python3
"""scripts/membership.lua by itself on a real Redis: the members, the messages about them, and the lengths of their
leases.
"""
import harness
from harness import RError, until
from membership import (A, AWAITED, B, BEAT, C, CHANGES, CHANNEL, DUPLICATE, GRACE_MS, KEYS, LEFT, MEMBERS, NONCE, TAIL,
                        UNTIL, WINDOW_MS, Membership)
from scripted import EPOCH, OK


class Graces(Membership):
    """Daemons that renew leases of different lengths: the longest counts."""
    def left(self, a):
        """The length of a grace period that has just begun, to the nearest 100 ms."""
        return round((a.until - self.began // 1000) / 100) * 100

    def registered(self, actor, **more):
        self.began = self.now_us()
        return self.register(actor, **more)

    def test_its_length_is_reported(self):
        self.register(A, grace=5000)
        self.assertEqual(self.c.cmd("HGET", MEMBERS, A), "a" * 16 + " 5000")
        self.assertEqual(self.register(B, grace=20000).graces, {A: 5000})
        self.assertEqual(self.register(A, grace=6000).graces, {B: 20000})
        self.assertEqual(self.register(B, grace=20000).graces, {A: 6000})

    def test_a_member_without_a_lease_has_ours(self):
        self.put(B)
        self.c.cmd("HSET", MEMBERS, B, "bb")
        self.assertEqual(self.register(A, grace=7000).graces, {B: 7000})

    def test_none_is_longer_than_a_day(self):
        self.put(B)
        self.c.cmd("HSET", MEMBERS, B, "bb " + "9" * 400)
        self.assertEqual(self.register(A).graces, {B: 86400000})

    def test_of_those_that_are_in_the_data(self):
        self.register(A, grace=5000)
        self.register(B, grace=20000)
        long_ago = self.now_us() // 1000 - 70000
        self.put(C, long_ago, 60000)
        self.c.cmd("SET", EPOCH, "17 fedcba9876543210")
        a = self.registered(A, known=0, grace=5000)
        self.assertEqual(self.left(a), 20000, "C has lost what it had")

    def test_of_those_that_were_met(self):
        """Redis has lost all data, but the daemon that notices it first had received the leases of the others."""
        epoch = self.register(B, grace=20000).epoch
        self.register(A, grace=5000)
        self.c.cmd("FLUSHALL")
        a = self.registered(A, known=epoch, grace=5000, met=["%s %d" % (B, 20000), "%s %d" % (C, 10000)])
        self.assertEqual(self.left(a), 20000)
        self.assertEqual(self.awaited(), {A: "1", B: "1", C: "1", "?": "0"})
        again = self.register(A, known=a.epoch, grace=5000, met=["%s %d" % (B, 20000)])
        self.assertEqual(again.until, a.until)

    def test_a_newcomer_may_hold_locks_for_longer(self):
        epoch = self.meets()
        self.c.cmd("FLUSHALL")
        a = self.registered(A, known=epoch, grace=5000)
        self.assertEqual(self.left(a), 5000)
        self.assertEqual(self.register(C, grace=60000).until, a.until, "it has no epoch, and holds nothing")
        b = self.register(B, known=epoch, grace=20000)
        self.assertEqual(self.left(b), 20000, "since it began")
        self.assertEqual(self.register(B, known=epoch, grace=20000).until, b.until, "not since the report")
        self.assertEqual(self.register(A, known=a.epoch, reclaimed=a.epoch, grace=5000).until, b.until)
        self.assertEqual(self.register(B, known=a.epoch, reclaimed=a.epoch, grace=20000).until, 0)

    def test_a_newcomer_with_a_shorter_one(self):
        epoch = self.meets()
        self.c.cmd("FLUSHALL")
        a = self.register(A, known=epoch, grace=20000)
        self.assertEqual(self.register(B, known=epoch, grace=5000).until, a.until)

    def test_over_already(self):
        """No grace period begins anew: there have been grants since."""
        epoch = self.meets()
        self.c.cmd("FLUSHALL")
        a = self.register(A, known=epoch, grace=1)
        over = until(lambda: self.register(A, known=a.epoch) if self.now_us() // 1000 >= a.until else None)
        self.assertEqual(over.until, 0)
        self.assertEqual(self.register(B, known=epoch, grace=20000).until, 0)


class MembersPresent(Membership):
    def test_twin(self):
        self.register(A)
        a = self.register(A, nonce="d" * 16)
        self.assertEqual((a.status, a.epoch, a.until, a.word), (DUPLICATE, 0, 0, ""))
        self.assertTrue(self.c.cmd("HGET", MEMBERS, A).startswith(NONCE[A]))
        self.assertEqual(self.register(A).status, OK, "the first one stays")

    def test_its_next_process(self):
        self.register(A)
        self.assertEqual(self.register(A, nonce="d" * 16, former=NONCE[A]).status, OK)
        self.assertEqual(self.register(A).status, DUPLICATE, "that one has been replaced")

    def test_a_member_that_was_silent_for_long(self):
        for seen, status in ((-3 * BEAT - 500, OK), (-3 * BEAT + 500, DUPLICATE), (BEAT - 500, DUPLICATE),
                             (BEAT + 5000, OK)):
            with self.subTest(seen):
                self.put(A, self.now_us() // 1000 + seen, nonce="e" * 16)
                self.assertEqual(self.register(A).status, status)

    def test_a_member_that_comes_back_later_is_announced_at_once(self):
        """For the other daemons it holds nothing any more, whether Redis has forgotten it yet or not."""
        self.register(A)
        for age, news in ((WINDOW_MS + 1000, True), (WINDOW_MS - 3000, False)):
            with self.subTest(age), self.listening(CHANNEL) as b:
                self.put(A, self.now_us() // 1000 - age, nonce=NONCE[A])
                a = self.register(A)
                if news:
                    self.received(b, (CHANNEL, "+%s %d %d" % (A, GRACE_MS, a.version)))
                else:
                    self.c.cmd("PUBLISH", CHANNEL, "nothing before")
                    self.received(b, (CHANNEL, "nothing before"))

    def test_reported_as_long_as_it_may_hold_something(self):
        a = self.register(A)
        self.assertEqual(int(self.c.cmd("ZSCORE", UNTIL, A)), a.time // 1000 + WINDOW_MS)
        now = self.now_us() // 1000
        self.put(B, now - WINDOW_MS + 3000)
        self.put(C, now - WINDOW_MS - 10)
        a = self.register(A)
        self.assertEqual((a.others, a.gone), ([B], [C]))
        self.put(C, now - 2 * BEAT)
        self.assertEqual(self.register(A, grace=1).others, [B, C])

    def test_reported_as_long_as_their_leases_last(self):
        now = self.now_us() // 1000
        self.put(B, now - 60000 - 2 * BEAT, 60000)
        self.put(C, now - 7010 - 3 * BEAT, 7000)
        self.assertEqual(self.register(A).others, [B])

    def test_forgotten_when_it_can_hold_nothing(self):
        """A member is forgotten after its own lease, and never before, however many members there are."""
        now = self.now_us() // 1000
        self.put(B, now - 60000 - 3 * BEAT - 10, 60000)
        self.put(C, now - 60000, 60000)
        self.register(A)
        self.assertEqual(sorted(self.c.cmd("HKEYS", MEMBERS)), [A, C])
        self.assertEqual(self.c.cmd("ZRANGE", LEFT, 0, -1), [B])
        for key in (UNTIL, CHANGES):
            self.assertIsNone(self.c.cmd("ZSCORE", key, B))

    def test_forgotten_some_at_a_time(self):
        for i in range(40):
            self.put("%08x" % i + TAIL, 1)
        left = [len(self.register(A).others) for _ in range(4)]
        self.assertEqual(left, [24, 8, 0, 0])
        self.assertEqual(self.c.cmd("HKEYS", MEMBERS), [A])

    def test_nonsense_among_them(self):
        self.register(A)
        self.put(B)
        self.c.cmd("HSET", MEMBERS, B, "no such thing", A, "neither")
        a = self.register(A)
        self.assertEqual((a.status, a.graces), (OK, {B: GRACE_MS}))

    def test_part_of_the_members_is_lost(self):
        """The rest of the list is not trusted then: all members register anew."""
        for spoil in (("DEL", CHANGES), ("DEL", UNTIL), ("DEL", MEMBERS), ("HSET", MEMBERS, "x", "y"),
                      ("ZREM", CHANGES, B), ("ZREM", CHANGES, ">"), ("ZADD", CHANGES, "inf", ">"), ("ZREM", UNTIL, A)):
            with self.subTest(spoil):
                self.c.cmd("FLUSHALL")
                epoch = self.meets()
                was = self.register(A, known=epoch)
                self.c.cmd(*spoil)
                with self.listening(CHANNEL) as b:
                    a = self.register(A, known=epoch, since=was.version)
                    self.received(b, (CHANNEL, "+%s %d %d" % (A, GRACE_MS, a.version)))
                self.assertEqual((a.epoch, a.until, a.anew, a.others), (epoch, 0, 1, []))
                self.assertEqual(self.register(B, known=epoch).others, [A])

    def test_a_silent_member_is_waited_for_however_many_there_are(self):
        """300 members, one of them silent for 7 s, but within its lease."""
        now = self.now_us() // 1000
        self.put(B, now - 7000)
        for i in range(300):
            self.put("%08x" % i + TAIL, now)
        self.assertEqual(len(self.register(A).others), 301)
        self.assertEqual(self.c.cmd("HLEN", MEMBERS), 302)
        self.c.cmd("SET", EPOCH, "17 fedcba9876543210")
        self.assertGreater(self.register(A).until, 0)
        self.assertEqual(self.awaited()[B], "1")
        self.assertEqual(len(self.awaited()), 301)

    def test_a_longer_lease_is_announced_at_once(self):
        self.register(A, grace=5000)
        with self.listening(CHANNEL) as b:
            a = self.register(A, grace=6000)
            self.received(b, (CHANNEL, "+%s 6000 %d" % (A, a.version)))
        self.register(A, grace=4000)
        self.assertEqual(self.register(B).graces, {A: 4000})

    def test_no_room_for_more(self):
        self.c.cmd("EVAL", """for i = 1, 10000 do
            local who = string.format('%08x', i) .. ARGV[1]
            redis.call('HSET', KEYS[1], who, 'bb 30000')
            redis.call('ZADD', KEYS[2], ARGV[2], who)
            redis.call('ZADD', KEYS[3], i + 10, who)
        end redis.call('ZADD', KEYS[3], 1, '<', 20000, '>')""", 3, MEMBERS, UNTIL, CHANGES, TAIL,
                   self.now_us() // 1000 + 30000)
        answered = self.register_raw(A)
        self.assertIsInstance(answered, RError)
        self.assertRegex(answered, "^ERR 10000 daemons are registered")
        self.assertEqual(self.c.cmd("HEXISTS", MEMBERS, A), 0)
        self.assertEqual(self.register("%08x" % 7 + TAIL, nonce="bb", page=0).status, OK)

    def test_leaving(self):
        epoch = self.meets()
        self.assertEqual(self.register(B, known=epoch, leaving=1).epoch, epoch)
        self.assertEqual(self.c.cmd("HKEYS", MEMBERS), [A])
        self.assertEqual(self.register(A, known=epoch).others, [])

    def test_leaving_in_a_grace_ends_it(self):
        epoch = self.meets()
        self.c.cmd("FLUSHALL")
        a = self.register(A, known=epoch, met=[B])
        self.register(A, known=a.epoch, reclaimed=a.epoch)
        self.assertEqual(self.register(B, known=epoch, leaving=1).until, 0)


class Changes(Membership):
    """The changes of the list of members since a version, in pages."""
    def names(self, n):
        return ["%08x" % i + TAIL for i in range(n)]

    def test_nothing_has_changed(self):
        self.meets()
        a = self.register(A)
        self.assertEqual((a.anew, a.upto, a.others), (1, a.version, [B]))
        for _ in range(2):
            again = self.register(A, since=a.version)
            self.assertEqual((again.anew, again.upto, again.version, again.changes), (0, a.version, a.version, []))
        self.assertEqual(self.register(A, since=a.version, page=0).upto, 0)

    def test_since_then(self):
        self.register(A)
        was = self.register(B).version
        c = self.register(C).version
        self.register(B, grace=40000)
        a = self.register(A, since=was)
        self.assertEqual((a.anew, a.graces), (0, {B: 40000, C: GRACE_MS}))
        self.assertEqual(self.register(A, since=c).graces, {B: 40000})
        self.register(C, leaving=1)
        a = self.register(A, since=a.version)
        self.assertEqual(a.changes, [[C, "-", str(a.version)]])
        self.register(C)
        self.assertEqual(self.register(A, since=a.version).others, [C])

    def test_in_pages(self):
        names = self.names(10)
        for actor in names:
            self.register(actor)
        for actor in names[:3]:
            self.register(actor, leaving=1, nonce="9" * 16)
        first = a = self.register(A, page=4)
        outcomes, gone, pages = a.others[:], a.gone[:], 1
        self.assertEqual(a.anew, 1)
        while a.upto < a.version:
            a = self.register(A, since=first.version, cursor=a.upto, page=4)
            self.assertEqual(a.anew, 0)
            outcomes += a.others
            gone += a.gone
            pages += 1
        self.assertEqual((sorted(outcomes), sorted(gone)), (names[3:], names[:3]))
        self.assertLessEqual(pages, 4)

    def test_too_old(self):
        """
        A member that left is remembered for a while only: a daemon with an older version receives the whole list anew.
        """
        first = self.register(A).version
        self.register(B)
        since = self.register(A, since=first)
        self.register(B, leaving=1)
        self.c.cmd("EVAL", """for i = 1, 1001 do redis.call('ZADD', KEYS[1], ARGV[1] + i, 'x' .. i) end
            redis.call('ZADD', KEYS[2], ARGV[1] + 1001, '>')""", 2, LEFT, CHANGES, since.version + 10)
        self.register(C)
        self.register(C, leaving=1)
        a = self.register(A, since=since.version)
        self.assertEqual((a.anew, a.others), (1, []))
        self.assertLessEqual(self.c.cmd("ZCARD", LEFT), 1002)
        for since in (0, a.version + 10 ** 9):
            self.assertEqual(self.register(A, since=since).anew, 1)


class Lists(Membership):
    """The lists of members that daemons bring to a Redis which has lost its own."""
    def lost(self):
        epoch = self.meets()
        self.c.cmd("FLUSHALL")
        return epoch

    def test_the_grace_goes_on_until_the_lists_arrive(self):
        epoch = self.lost()
        a = self.register_once(A, known=epoch, met=[C])
        self.assertEqual((a.bring, self.awaited()[A]), (2, "list"))
        a = self.register_once(A, known=a.epoch, reclaimed=a.epoch, of=epoch, met=[C], part=(1, []))
        self.assertEqual((a.bring, a.until > 0), (2, True))
        a = self.register_once(A, known=a.epoch, reclaimed=a.epoch, of=epoch, met=[C], part=(2, [C]))
        self.assertEqual((a.bring, a.until > 0, self.awaited()), (0, True, {A: "0", C: "1", "?": "0"}))
        self.register(C, known=epoch)
        self.assertEqual(self.register(C, known=a.epoch, reclaimed=a.epoch).until, 0)

    def test_as_long_as_the_longest_lease_in_them(self):
        """Also when the list is never brought."""
        epoch = self.lost()
        a = self.register_once(A, known=epoch, met=["%s %d" % (C, 3 * GRACE_MS)])
        self.assertGreaterEqual(a.until, a.time // 1000 + 3 * GRACE_MS - 10)

    def test_one_at_a_time(self):
        epoch = self.lost()
        a = self.register_once(A, known=epoch, met=[B, C], version=7)
        self.c.cmd("ZADD", AWAITED, a.time // 1000 + 20, "!")
        self.assertEqual(self.register_once(B, known=epoch, met=[A, C], version=7).bring, 1)
        self.assertEqual(self.register_once(B, known=a.epoch, of=epoch, met=[A, C], version=7, leaving=1).bring, 2)
        until(lambda: self.register_once(B, known=a.epoch, of=epoch, met=[A, C], version=7).bring == 2)
        self.c.cmd("ZADD", AWAITED, a.time // 1000 + 3600000, "!")  # by another clock
        self.assertEqual(self.register_once(B, known=a.epoch, of=epoch, met=[A, C], version=7).bring, 2)

    def test_covered(self):
        epoch = self.lost()
        a = self.register(A, known=epoch, met=[B, C], version=7)
        self.assertEqual(self.register_once(B, known=epoch, met=[A, C], version=7).bring, 0)
        for actor in (B, A):
            self.assertGreater(self.register(actor, known=a.epoch, reclaimed=a.epoch).until, 0)
        self.register(C, known=epoch, met=[A, B], version=6)
        self.assertEqual(self.register(C, known=a.epoch, reclaimed=a.epoch).until, 0)

    def test_a_later_one_is_not_covered(self):
        """D came last, and only B knows that."""
        epoch = self.lost()
        d = "d" * 8 + TAIL
        self.register(A, known=epoch, met=[B, C], version=7)
        for more in (dict(version=8), dict(version=7, last=8), dict(version=0, last=8)):
            self.assertNotEqual(self.register_once(B, known=epoch, met=[A, C, d], **more).bring, 0)
        self.register(B, known=epoch, met=[A, C, d], version=8)
        self.assertEqual(self.awaited()[d], "1")

    def test_a_list_that_is_not_whole_covers_none(self):
        """A knows of D by a broadcast, but not of C, which came before D; B knows both."""
        epoch = self.lost()
        d = "d" * 8 + TAIL
        self.register(A, known=epoch, met=[B, d], version=6, last=8)
        self.register(B, known=epoch, met=[A, C, d], version=8)
        self.assertEqual(self.awaited()[C], "1")

    def test_of_a_member_that_does_not_know_all(self):
        epoch = self.lost()
        self.register(A, known=epoch, met=["?", B], version=7)
        self.assertEqual(self.awaited(), {A: "1", B: "1", "?": "1"})
        self.register(C, known=epoch, met=[A, B], version=7)
        self.assertEqual(self.awaited(), {A: "1", B: "1", C: "1", "?": "0"})

    def test_lost_again_between_two_parts(self):
        epoch = self.lost()
        a = self.register_once(A, known=epoch, met=[B, C])
        self.register_once(A, known=a.epoch, of=epoch, met=[B, C], part=(1, [B]))
        self.c.cmd("FLUSHALL")
        again = self.register_once(A, known=a.epoch, of=epoch, met=[B, C], part=(2, [C]))
        self.assertEqual((again.epoch > a.epoch, again.bring), (True, 2))
        self.assertEqual(self.awaited(), {A: "list"})
        self.register(A, known=again.epoch, of=epoch, met=[B, C])
        self.assertEqual(self.awaited(), {A: "1", B: "1", C: "1", "?": "0"})

    def test_a_process_that_comes_after_has_none(self):
        """
        The former process was asked for its list, and ended before it brought it: the members to wait for stay unknown.
        """
        epoch = self.lost()
        a = self.register_once(A, known=epoch, met=[B, C])
        self.register_once(A, known=epoch, nonce="d" * 16, former=NONCE[A], met=["?"])
        self.assertEqual(self.awaited(), {A: "1", "?": "1"})
        over = self.register_once(A, known=a.epoch, nonce="d" * 16, reclaimed=a.epoch)
        self.assertEqual((over.until > 0, self.awaited()), (True, {A: "0", "?": "1"}))

    def test_a_word_from_before_changes_nothing(self):
        """A registration of another connection that comes late."""
        epoch = self.lost()
        a = self.register(A, known=epoch, met=[B, C])
        self.assertEqual(self.register_once(A, known=epoch, met=[B, C]).bring, 0)
        self.register(A, known=a.epoch, reclaimed=a.epoch)
        self.assertEqual(self.register_once(A, known=epoch, met=[B, C]).bring, 0)
        self.assertEqual(self.awaited()[A], "0")


if __name__ == "__main__":
    harness.main()
