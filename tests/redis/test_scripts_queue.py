#!/usr/bin/env python3
"""The Lua scripts of the kinds that are reentrant and have an auxiliary key: fair (a queue), fenced (a counter)."""
import harness
from scripted import CLOCK, FOREIGN, FULL, GONE, LEASE, ME, OK, TAKEN, UUID, YOU, Scripted

WAIT, DAY = 300000, 86400000
LIST, SET = "redisson_lock_queue:{k}", "redisson_lock_timeout:{k}"
OTHER = "11111111-2222-4333-8444-555555555555:7"  # of a third client
THIRD = OTHER[:37] + "8"
US = [UUID + ":%d" % n for n in range(10)]


def named(letter, n):
    """An owner of another client."""
    return "%s-2222-4333-8444-555555555555:%d" % (letter * 8, n)


class Fair(Scripted):
    def try_(self, actor, key="k", **more):
        return self.run_one("fair", "acquire", key, owner=actor, **more)

    def queue(self):
        return self.c.cmd("LRANGE", LIST, 0, -1)

    def score(self, actor):
        score = self.c.cmd("ZSCORE", SET, actor)
        return None if score is None else int(score)

    def redisson(self, *waiters, wait=WAIT):
        """The entries that clients of Redisson make, one after the other; wait < 0: the time of the entry is over."""
        for actor in waiters:
            last = self.c.cmd("LINDEX", LIST, "-1")
            good = max(self.score(last) if last and wait > 0 else 0, self.now_us() // 1000)
            self.c.cmd("RPUSH", LIST, actor)
            self.c.cmd("ZADD", SET, good + wait, actor)

    def score_is(self, actor, ms, slack=3000):
        left = self.score(actor) - self.now_us() // 1000
        self.assertTrue(ms - slack * harness.SLOW <= left <= ms, left)

    def test_places_in_the_order_they_came(self):
        self.held("fair", actor=YOU)
        for actor in US[:3]:
            outcome, pttl, queued = self.try_(actor, ticket=1)
            self.assertEqual((outcome, queued), (TAKEN, 1))
            self.assertTrue(LEASE - 3000 * harness.SLOW <= pttl <= LEASE)
        self.assertEqual(self.queue(), US[:3])
        for actor in US[:3]:
            self.score_is(actor, LEASE)
        self.assertEqual(self.c.cmd("TYPE", LIST) + self.c.cmd("TYPE", SET), "list" + "zset")
        for key in (LIST, SET):
            self.ttl_is(key, LEASE + DAY)
        self.left("k", LIST, SET)
        self.assertEqual(self.try_(US[0], ticket=1)[2], 1)  # a second request changes nothing
        self.assertEqual(self.queue(), US[:3])

    def test_no_place_unless_asked_for(self):
        self.held("fair", actor=YOU)
        self.assertEqual(self.try_(ME)[2], 0)
        self.left("k")
        self.try_(ME, ticket=1)
        was = self.score(ME)
        self.assertEqual(self.try_(ME, lease=2 * LEASE)[2], 1)  # the script reports the ticket, and does not change it
        self.assertEqual((self.queue(), self.score(ME)), ([ME], was))

    def test_strangers_in_front_make_a_place_last_longer(self):
        self.held("fair", actor=YOU)
        self.redisson(YOU, OTHER)
        self.try_(US[1], ticket=1)
        self.redisson(THIRD)
        self.run_all("fair", "acquire", [("k", dict(owner=actor, ticket=1)) for actor in US[2:4]])
        self.assertEqual(self.queue(), [YOU, OTHER, US[1], THIRD, US[2], US[3]])
        self.score_is(US[1], LEASE + 2 * WAIT)
        self.score_is(US[2], LEASE + 4 * WAIT)  # a stranger's score includes its own WAIT at first: one too many
        self.score_is(US[3], LEASE + 4 * WAIT)
        for actor in US[1:4]:  # as Redisson does when it is granted the lock: tickets of daemons have not expired
            self.c.cmd("ZINCRBY", SET, -2 * WAIT, actor)
            self.assertGreater(self.score(actor), self.now_us() // 1000)
        self.run_one("fair", "renew", owner=US[1], ticket=1, lease=2 * LEASE)
        self.score_is(US[1], 2 * LEASE)  # and no stranger is in front of it any more

    def test_other_daemons_in_front_do_not(self):
        """Else each ticket of a daemon that died would hold up all others for minutes."""
        self.held("fair", actor=YOU)
        theirs = ["11111111-2222-4333-8444-726c6f636b64:%d" % i for i in range(3)]
        for actor in [*theirs, US[1]]:
            self.try_(actor, ticket=1)
        for actor in [*theirs, US[1]]:
            self.score_is(actor, LEASE)

    def test_no_place_is_good_for_long(self):
        """Its time has to be shorter than the 5 minutes that each stranger in front adds to a ticket."""
        self.held("fair", actor=YOU)
        self.try_(ME, ticket=1, lease=24 * 3600 * 1000)
        self.score_is(ME, 240000)

    def test_only_the_first_may(self):
        self.held("fair", actor=YOU)
        self.try_(US[1], ticket=1)
        self.try_(US[2], ticket=1)
        self.run_one("fair", "release", owner=YOU)
        outcome, wait, queued = self.try_(US[2], ticket=1)
        self.assertEqual((outcome, queued), (TAKEN, 1))
        self.assertTrue(0 < wait <= LEASE)  # until the ticket of the first expires
        self.assertEqual(self.try_(OTHER)[0::2], (TAKEN, 0))
        self.assertEqual(self.try_(US[1])[0], OK)
        self.assertEqual((self.queue(), self.score(US[1])), ([US[2]], None))
        self.run_one("fair", "release", owner=US[1])
        self.assertEqual(self.try_(US[2])[0], OK)
        self.left("k")
        self.run_one("fair", "release", owner=US[2])
        self.left()

    def test_a_daemon_at_the_head_names_its_next_owner(self):
        """A ticket that was given up is there again, from a replica: its daemon never asks for it."""
        them = ["11111111-2222-4333-8444-726c6f636b64:%d" % i for i in range(3)]
        self.held("fair", actor=YOU)
        for actor in [them[0], US[1], them[1], US[2], OTHER]:
            self.try_(actor, ticket=1)
        self.c.cmd("ZADD", SET, 1, them[0])  # its time is over
        self.assertEqual(self.try_(US[2])[0], TAKEN)
        self.run_one("fair", "release", owner=YOU)
        self.c.cmd("RPUSH", LIST, US[3])
        self.c.cmd("ZADD", SET, self.score(US[1]), US[4])
        for actor in (them[1], US[3], US[4], US[5]):  # another daemon's; half a ticket, and another half; none
            self.assertEqual(self.try_(actor)[0], TAKEN)
        self.assertEqual(self.try_(US[2], ticket=1)[0], TAKEN)  # this request asks for a ticket, not for the lock
        self.c.cmd("LPUSH", LIST, them[0])
        self.c.cmd("ZADD", SET, 1, them[0])
        till = self.score(US[1])
        self.assertEqual(self.try_(US[2])[0], OK)
        self.assertEqual((self.queue(), self.score(US[2])), ([them[1], US[1], OTHER, US[3]], None))
        self.assertEqual((self.score(US[1]), self.score(them[0])), (till, None))

    def test_an_unused_place_runs_out(self):
        """
        A ticket of a process that has ended: other owners of its daemon pass it, and that does not make it live longer.
        """
        self.c.cmd("HSET", "k", YOU, 1)
        self.try_(US[1], lease=5000, ticket=1)
        self.redisson(OTHER)
        for _ in range(3):
            self.try_(US[2], ticket=1)
            in_front = (self.score(US[2]) - self.now_us() // 1000) // WAIT
            self.assertGreater(in_front, 0)
            self.run_one("fair", "release", owner=YOU)
            self.assertEqual(self.try_(US[2])[0], OK)
            self.assertEqual(self.queue(), [OTHER, US[1]])
            self.score_is(US[1], in_front * WAIT + 5000)
            self.c.cmd("LREM", LIST, 1, US[1])
            self.c.cmd("LPUSH", LIST, US[1])
            self.run_one("fair", "release", owner=US[2])
            self.c.cmd("HSET", "k", YOU, 1)

    def test_at_least_a_ms(self):
        self.c.cmd("HSET", "k", YOU, 1)
        self.c.cmd("PEXPIRE", "k", 1)
        for _ in range(20):
            outcome, wait, _ = self.try_(ME)
            self.assertTrue(outcome == OK or wait >= 1)
        self.c.cmd("DEL", "k")
        self.held("fair", actor=YOU)
        self.c.cmd("PERSIST", "k")
        self.assertEqual(self.try_(ME, ticket=1), (TAKEN, -1, 1))

    def test_stale_heads_are_dropped_by_any_caller(self):
        for verb, more in (("acquire", dict(owner=ME, ticket=1)), ("acquire", dict(owner=ME)),
                           ("release", dict(owner=YOU)), ("renew", dict(owner=US[5], ticket=1)), ("clear", {}),
                           ("release", dict(owner=OTHER))):
            with self.subTest(verb, **more):
                self.flush()
                self.held("fair", actor=YOU)
                self.redisson(named("a", 1), named("b", 2), wait=-1000)
                self.redisson(OTHER + "0")
                self.try_(US[5], ticket=1) if verb == "renew" else None
                self.c.cmd("LPUSH", LIST, named("c", 3))  # without a score: the ticket of no client
                self.run_one("fair", verb, **more)
                self.assertEqual(self.queue()[0], OTHER + "0")
                self.assertEqual((self.score(named("a", 1)), self.score(named("b", 2))), (None, None))

    def test_behind_stale_heads_the_lock_is_free(self):
        self.redisson(named("a", 1), named("b", 2), wait=-1000)
        self.assertEqual(self.try_(ME)[0], OK)
        self.left("k")
        self.run_one("fair", "release")
        self.redisson(*[named("c", n) for n in range(2500)], wait=-1)  # a call removes a thousand
        for left in (1500, 500):
            self.assertEqual(self.try_(ME), (TAKEN, 1, 0))
            self.assertEqual(self.c.cmd("LLEN", LIST), left)
        self.assertEqual(self.try_(ME)[0], OK)
        self.left("k")

    def test_the_first_after_a_stale_head_is_woken(self):
        self.redisson(named("a", 1), wait=-1000)
        self.redisson(OTHER)
        with self.listening("ch:k", "ch:k:" + OTHER) as sub:
            self.assertEqual(self.try_(ME, ticket=1)[0], TAKEN)
            self.received(sub, ("ch:k", "0"), ("ch:k:" + OTHER, "0"))
            self.try_(ME, ticket=1)  # no second message
            self.c.cmd("HSET", "k", YOU, 1)
            self.c.cmd("LPUSH", LIST, "no-owner")
            self.try_(ME, ticket=1)  # it would not get the lock

    def test_a_caller_is_alive(self):
        """However late it asks: its ticket is still in the queue."""
        self.redisson(ME, wait=-1000)
        self.redisson(OTHER)
        self.c.cmd("HSET", "k", YOU, 1)
        self.assertEqual(self.try_(ME, ticket=1)[2], 1)
        self.assertEqual(self.queue(), [ME, OTHER])
        self.score_is(ME, LEASE)
        self.c.cmd("ZADD", SET, 1, ME)
        self.assertEqual(self.run_one("fair", "renew", ticket=1)[0], OK)
        self.c.cmd("ZADD", SET, 1, ME)
        self.c.cmd("DEL", "k")
        self.assertEqual(self.try_(ME)[0], OK)
        self.assertEqual(self.queue(), [OTHER])

    def test_half_a_place_is_made_whole(self):
        self.held("fair", actor=YOU)
        self.c.cmd("RPUSH", LIST, ME, OTHER)
        self.assertEqual(self.try_(ME, ticket=1)[2], 1)
        self.assertEqual(self.queue(), [ME, OTHER])
        self.score_is(ME, LEASE)
        self.c.cmd("LPOP", LIST)
        self.assertEqual(self.try_(ME, ticket=1)[2], 1)
        self.assertEqual(self.queue()[-1], ME)

    def test_renewing_a_place(self):
        self.held("fair", actor=YOU)
        self.redisson(OTHER)
        self.try_(ME, ticket=1)
        for _ in range(2):
            outcome, a, till = self.run_one("fair", "renew", ticket=1, lease=2 * LEASE)
            self.assertEqual((outcome, a, till), (OK, 0, self.score(ME)))
            self.score_is(ME, 2 * LEASE + WAIT)
        self.run_one("fair", "renew", ticket=1, lease=1000, exact=1)
        self.score_is(ME, 2 * LEASE + WAIT)  # never less
        self.ttl_is("k", LEASE)
        self.assertEqual(self.queue(), [OTHER, ME])
        for actor in (US[5], YOU):  # an owner without a ticket, and the holder
            self.assertEqual(self.run_one("fair", "renew", owner=actor, ticket=1), (GONE, 0, 0))
        for spoil in (("ZREM", SET, ME), ("LREM", LIST, 0, ME)):
            self.try_(ME, ticket=1)
            self.c.cmd(*spoil)
            self.assertEqual(self.run_one("fair", "renew", ticket=1), (GONE, 0, 0))
            self.assertEqual((self.queue(), self.score(ME)), ([OTHER], None))

    def test_giving_a_place_back(self):
        self.held("fair", actor=YOU)
        for actor in US[1:4]:
            self.try_(actor, ticket=1)
        with self.listening("ch:k", "ch:k:" + US[1], "ch:k:" + US[3]) as sub:
            self.assertEqual(self.run_one("fair", "release", owner=US[2]), (OK, 0, 0))
            self.assertEqual(self.run_one("fair", "release", owner=US[2]), (GONE, 0, 0))
            self.assertEqual(self.queue(), [US[1], US[3]])
            self.received(sub)  # no message: the lock is not free
            self.assertEqual(self.run_one("fair", "release", owner=YOU), (OK, 2, 0))
            self.received(sub, ("ch:k", "0"), ("ch:k:" + US[1], "0"))
            self.assertEqual(self.run_one("fair", "release", owner=US[1]), (OK, 2, 0))  # it was first, and woken
            self.received(sub, ("ch:k", "0"), ("ch:k:" + US[3], "0"))
        self.assertEqual(self.run_one("fair", "release", owner=US[3])[0], OK)
        self.left()

    def test_holds_left_leave_the_queue_alone(self):
        self.held("fair", holds=2)
        self.try_(YOU, ticket=1)
        with self.listening("ch:k", "ch:k:" + YOU):
            self.assertEqual(self.run_one("fair", "release", holds=1)[0], OK)
        self.assertEqual(self.queue(), [YOU])
        self.assertEqual(self.c.cmd("HGETALL", "k"), [ME, "1"])

    def test_asking_again_when_it_was_granted(self):
        """The reply was lost; what is left of its ticket is removed."""
        self.held("fair")
        self.redisson(ME)
        self.assertEqual(self.try_(ME)[0], OK)
        self.left("k")

    def test_breaking_wakes_the_first_waiter(self):
        self.held("fair", actor=YOU)
        self.try_(ME, ticket=1)
        with self.listening("ch:k", "ch:k:" + ME) as sub:
            outcome, token, woken = self.run_one("fair", "clear")
            self.assertEqual((outcome, woken), (OK, 2))
            self.received(sub, ("ch:k", "0"), ("ch:k:" + ME, "0"))
        self.assertEqual(self.queue(), [ME])
        self.assertGreater(self.try_(ME)[1], token)
        self.left("k")

    def test_a_queue_of_another_type_is_none(self):
        for key, spoil in ((LIST, ("SET", LIST, "x")), (SET, ("SET", SET, "x")), (LIST, ("ZADD", LIST, 1, "x"))):
            with self.subTest(spoil):
                self.flush()
                self.c.cmd("RPUSH", LIST, OTHER)
                self.c.cmd("DEL", key)
                self.c.cmd(*spoil)
                self.held("fair")
                names = [("k", dict(owner=YOU, ticket=1)), ("fine", dict(owner=YOU, ticket=1))]
                self.assertEqual([r[::2] for r in self.run_all("fair", "acquire", names)][0], (TAKEN, 0))
                self.assertEqual(self.c.cmd("EXISTS", "fine"), 1)
                self.assertEqual(self.run_one("fair", "renew")[0], OK)
                self.assertEqual(self.run_one("fair", "renew", owner=YOU, ticket=1)[0], GONE)
                self.assertEqual(self.run_one("fair", "release")[0], OK)
                self.assertEqual(self.run_one("fair", "release")[0], GONE)
                self.assertEqual(self.run_one("fair", "clear")[0], GONE)
                self.assertEqual(self.c.cmd("TYPE", key), {"SET": "string", "ZADD": "zset"}[spoil[0]])

    def test_a_full_redis_gives_no_places_and_takes_none_away(self):
        self.held("fair", actor=YOU)
        self.try_(US[1], ticket=1)
        self.full()
        outcome, _, queued = self.try_(US[2], ticket=1)
        self.assertEqual((outcome, queued), (TAKEN, 0))
        self.assertEqual((self.queue(), self.score(US[2])), ([US[1]], None))
        self.assertEqual(self.try_(US[1], ticket=1, lease=2 * LEASE)[2], 1)
        self.score_is(US[1], 2 * LEASE)
        self.assertEqual(self.run_one("fair", "renew", owner=US[1], ticket=1, lease=3 * LEASE)[0], OK)
        self.score_is(US[1], 3 * LEASE)
        self.assertEqual(self.run_one("fair", "release", owner=YOU)[0], OK)
        self.assertEqual(self.try_(US[1]), (FULL, 0, 0))
        self.assertEqual((self.queue(), self.c.cmd("EXISTS", "k")), ([US[1]], 0))  # it may try again
        self.assertEqual(self.run_one("fair", "release", owner=US[1])[0], OK)
        self.left()

    def test_names_that_bring_their_braces(self):
        self.held("fair", "a{b}c", actor=YOU)
        self.assertEqual(self.try_(ME, "a{b}c", ticket=1)[2], 1)
        self.left("a{b}c", "redisson_lock_queue:a{b}c", "redisson_lock_timeout:a{b}c")

    def test_many_at_once(self):
        """One call for all waiters, and the queue is in their order."""
        self.held("fair", actor=YOU)
        owners = [UUID + ":%d" % n for n in range(100, 220)]
        reply = self.run_all("fair", "acquire", [("k", dict(owner=actor, ticket=1)) for actor in owners])
        self.assertEqual({r[0::2] for r in reply}, {(TAKEN, 1)})
        self.assertEqual(self.queue(), owners)
        reply = self.run_all("fair", "release", [("k", dict(owner=actor)) for actor in [*owners, YOU]])
        self.assertEqual({r[0] for r in reply}, {OK})
        self.left()


COUNTER = "redisson_lock_token:{k}"


class Fenced(Scripted):
    def take(self, **more):
        outcome, token, _ = self.run_one("fenced", "acquire", **more)
        self.assertEqual(outcome, OK)
        return token

    def counter(self):
        return int(self.c.cmd("GET", COUNTER))

    def test_both_rise_in_one_sequence(self):
        last = 0
        for _ in range(3):
            token = self.take()
            self.assertEqual(self.counter(), token)
            self.assertGreater(token, last)
            self.run_one("fenced", "release")
            last = self.c.cmd("INCR", COUNTER)  # a client of Redisson
            self.assertEqual(last, token + 1)
        self.assertEqual(self.c.cmd("PTTL", COUNTER), -1)
        far = self.now_us() + 10 ** 12
        self.c.cmd("SET", COUNTER, far)
        self.assertEqual(self.take(), far + 1)
        self.assertEqual(self.c.cmd("GET", CLOCK), str(far + 1))
        self.assertGreater(self.held("reentrant", "other"), 0)

    def test_reentry_leaves_it_alone(self):
        token = self.take()
        self.assertEqual(self.run_one("fenced", "acquire", holds=2, reentry=1)[:2], (OK, 0))
        self.assertEqual(self.run_one("fenced", "renew")[0], OK)
        self.assertEqual(self.run_one("fenced", "release", holds=1)[0], OK)
        self.assertEqual(self.run_one("fenced", "acquire", owner=YOU)[0], TAKEN)
        self.assertEqual(self.counter(), token)
        self.run_one("fenced", "release")
        self.left(COUNTER)

    def test_breaking_raises_it(self):
        token = self.take()
        outcome, broken, _ = self.run_one("fenced", "clear")
        self.assertEqual((outcome, broken > token, self.counter()), (OK, True, broken))
        self.foreign("fenced")
        self.assertEqual(self.run_one("fenced", "clear")[0], FOREIGN)
        self.assertEqual(self.counter(), broken)

    def test_what_is_no_counter_stays_and_nothing_is_granted(self):
        for n, spoil in enumerate((("RPUSH", COUNTER, "x"), ("SET", COUNTER, "nonsense"), ("SET", COUNTER, "-1"),
                                   ("SET", COUNTER, "nan"), ("SET", COUNTER, "inf"), ("SET", COUNTER, "0x10"),
                                   ("SET", COUNTER, "1e3"), ("SET", COUNTER, ""), ("SET", COUNTER, 7, "PX", 50000),
                                   ("HSET", COUNTER, ME, 1))):
            with self.subTest(spoil):
                self.c.cmd("DEL", COUNTER, "k")
                self.c.cmd(*spoil)
                was = self.c.cmd("DUMP", COUNTER), self.c.cmd("PEXPIRETIME", COUNTER)
                reply = self.run_all("fenced", "acquire", [("k", {}), ("b%d" % n, {})])
                self.assertEqual([r[0] for r in reply], [FOREIGN, OK])
                self.assertEqual(self.c.cmd("EXISTS", "k"), 0)
                self.held("reentrant")
                token = int(self.c.cmd("GET", CLOCK))
                outcome, broken, _ = self.run_one("fenced", "clear")
                self.assertEqual((outcome, broken > token), (OK, True))
                self.assertEqual((self.c.cmd("DUMP", COUNTER), self.c.cmd("PEXPIRETIME", COUNTER)), was)

    def test_a_counter_without_room_stays(self):
        self.c.cmd("SET", COUNTER, "9007199254740992")
        self.assertLessEqual(self.take(), self.now_us())
        self.assertEqual(self.run_one("fenced", "clear")[0], OK)
        self.assertEqual(self.counter(), 9007199254740992)

    def test_a_full_redis_does_not_raise_it(self):
        self.take()
        was = self.counter()
        self.run_one("fenced", "release")
        self.full()
        self.assertEqual(self.run_one("fenced", "acquire"), (FULL, 0, 0))
        self.assertEqual(self.counter(), was)

    def test_names_that_bring_their_braces(self):
        self.held("fenced", "a{b}c")
        self.left("a{b}c", "redisson_lock_token:a{b}c")


if __name__ == "__main__":
    harness.main()
