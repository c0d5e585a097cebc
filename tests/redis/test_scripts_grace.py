#!/usr/bin/env python3
"""Every verb of every kind by itself on a real Redis that has lost locks: the requests that a grace period lets pass.
"""
import harness
from membership import A, GRACE_MS
from scripted import (ENDED, EPOCH, FULL, GONE, GRACE, HASHES, KIND, KINDS, LEASE, LIKE_RLOCK, ME, OK, OPEN, STALE,
                      TAKEN, YOU, Scripted)


class InAGrace(Scripted):
    """Every verb of every kind, in data that has lost locks."""

    def setUp(self):
        super().setUp()
        self.until = self.now_us() // 1000 + GRACE_MS
        self.word = "%s %d" % (OPEN, self.until)

    def begins(self):
        self.c.cmd("SET", EPOCH, self.word)

    def test_no_owner_is_granted_anything(self):
        for kind in KINDS:
            for epoch, good in ((self.word, True), (OPEN.replace("17", "18"), False), (None, False), ("list", False)):
                with self.subTest((kind, epoch)):
                    self.flush()
                    self.c.cmd("DEL", EPOCH)
                    if epoch == "list":
                        self.c.cmd("RPUSH", EPOCH, OPEN)
                    elif epoch is not None:
                        self.c.cmd("SET", EPOCH, epoch)
                    was = self.dump()
                    outcome, left, _ = self.run_one(kind, "acquire", ticket=1)
                    self.assertEqual(outcome, GRACE)
                    self.assertTrue(GRACE_MS - 5000 * harness.SLOW < left <= GRACE_MS if good else left == 0, left)
                    self.assertEqual(self.dump(), was)
                    self.assertEqual(self.run_one(kind, "acquire", guard=1)[0], STALE)

    def test_how_long_it_lasts_if_the_origin_has_no_letters(self):
        for epoch, is_grace in (("1700000000000000 1234567890123456", False),
                                ("1700000000000000 1234567890123456 %d" % self.until, True)):
            with self.subTest(epoch):
                self.flush()
                self.c.cmd("SET", EPOCH, epoch)
                outcome, left, _ = self.run_one("reentrant", "acquire")
                self.assertEqual(outcome, GRACE)
                self.assertTrue(GRACE_MS - 5000 * harness.SLOW < left <= GRACE_MS if is_grace else left == 0, left)

    def test_nor_is_the_holder(self):
        """The holder gets it only by a reclaim, which names the grace period that its daemon knows of."""
        for kind in KINDS:
            with self.subTest(kind):
                self.flush()
                expiry = self.held(kind)
                self.begins()
                self.assertEqual(self.run_one(kind, "acquire", expiry=expiry)[0], GRACE)
                outcome, token, _ = self.run_one(kind, "acquire", expiry=expiry, epoch=self.word)
                self.assertEqual(outcome, OK)
                self.assertGreater(token, 0)

    def test_renewed_and_given_back_as_ever(self):
        for kind in KINDS:
            for verb in ("renew", "release", "clear"):
                with self.subTest((kind, verb)):
                    self.flush()
                    expiry = self.held(kind)
                    self.begins()
                    self.assertEqual(self.run_one(kind, verb, expiry=expiry)[0], OK)

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
        """A ghost has the lock in old data, and has lost it since: else no other owner would reclaim the lock."""
        ghost = A + ":7"
        for kind in KINDS:
            with self.subTest(kind):
                self.flush()
                self.held(kind, actor=ghost, lease=2 * LEASE)
                self.begins()
                outcome = self.run_one(kind, "acquire", epoch=self.word)[0]
                if kind in ("simple", "counter"):  # a string does not name its holder
                    self.assertEqual(outcome, TAKEN)
                    continue
                self.assertEqual(outcome, OK)
                if KIND[kind].hash_of:
                    self.assertEqual(self.c.cmd("HGETALL", "k"), KIND[kind].hash_of)
                    self.ttl_is("k", LEASE)

    def test_not_over_other_clients(self):
        for kind in KINDS:
            with self.subTest(kind):
                self.flush()
                self.held(kind, actor=YOU)
                was = self.dump()
                self.begins()
                outcome = self.run_one(kind, "acquire", epoch=self.word)[0]
                # a former holder has a permit: the number of free permits is corrected as permits are given back
                if kind == "semaphore":
                    self.assertEqual(outcome, OK)
                    continue
                self.assertEqual(outcome, TAKEN)
                del was[EPOCH]
                self.assertEqual({k: v for k, v in self.dump().items() if k != EPOCH}, was)

    def test_not_over_ghosts_when_it_is_over(self):
        for kind in LIKE_RLOCK + ["rw"]:
            with self.subTest(kind):
                self.flush()
                self.held(kind, actor=A + ":7")
                self.assertEqual(self.run_one(kind, "acquire")[0], TAKEN)

    def reclaim(self, kind, token, actor=ME, **more):
        return self.run_one(kind, "acquire", owner=actor, reentry=token, epoch=self.word, **more)[0]

    def is_of(self, kind, actor):
        self.assertEqual(self.c.cmd("HGETALL", "k"), [w.replace(ME, actor) for w in KIND[kind].hash_of])

    def test_of_two_that_reclaim_the_later_one_has_it(self):
        """The former lock was freed by hand, or by a BREAK that its holder does not know of."""
        later = A + ":7"
        for kind in HASHES:
            with self.subTest(kind):
                self.flush()
                self.begins()
                self.assertEqual(self.reclaim(kind, 2000, later), OK)
                self.assertEqual(self.reclaim(kind, 1999), TAKEN)
                self.is_of(kind, later)
                self.ttl_is(ENDED + "k", 2 * LEASE)
                self.flush()
                self.begins()
                self.assertEqual(self.reclaim(kind, 1999), OK)
                self.assertEqual(self.reclaim(kind, 2000, later), OK, "the former one came first")
                self.assertEqual(self.reclaim(kind, 1999), TAKEN)
                self.is_of(kind, later)
                self.c.cmd("DEL", "k")
                self.assertEqual(self.reclaim(kind, 1999), TAKEN, "the later one has been freed since")
                self.assertEqual(self.reclaim(kind, 2000, later), OK, "the same one once more")
                self.c.cmd("SET", EPOCH, OPEN)
                self.assertEqual(self.run_one(kind, "release", owner=later)[0], OK)
                self.assertEqual(self.run_one(kind, "acquire")[0], OK, "no reclaim")

    def test_what_was_broken_is_not_reclaimed(self):
        for kind in HASHES:
            with self.subTest(kind):
                self.flush()
                token = self.run_one(kind, "acquire")[1]
                outcome, broken, _ = self.run_one(kind, "clear")
                self.assertEqual(outcome, OK)
                self.ttl_is(ENDED + "k", LEASE)  # for as long as the holder could go on
                later = self.run_one(kind, "acquire", owner=A + ":7")[1]
                self.begins()
                self.assertEqual(self.reclaim(kind, token), TAKEN)
                self.is_of(kind, A + ":7")
                self.assertTrue(token < broken < later)
                self.assertEqual(self.reclaim(kind, later, A + ":7"), OK)

    def test_readers_end_no_earlier_ones(self):
        self.begins()
        self.assertEqual(self.reclaim("rw", 2000, A + ":7", mode="read"), OK)
        self.assertEqual(self.reclaim("rw", 1999, mode="read"), OK)
        self.flush()
        self.begins()
        self.assertEqual(self.reclaim("rw", 2000, A + ":7"), OK)
        self.assertEqual(self.reclaim("rw", 1999, mode="read"), TAKEN)
        self.assertEqual(self.reclaim("rw", 2000, A + ":7", mode="read"), OK, "it reads besides")

    def test_whatever_else_is_in_the_place_of_tokens(self):
        for other in (("SET", ENDED + "k", "x"), ("HSET", ENDED + "k", "k", "x"), ("RPUSH", ENDED + "k", "x")):
            self.flush()
            self.begins()
            self.c.cmd(*other)
            self.assertEqual(self.reclaim("reentrant", 1999), OK)

    def test_several_ghosts_and_another_client(self):
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
        self.held("fair", actor=A + ":7")
        self.assertEqual(self.run_one("fair", "acquire", owner=YOU, ticket=1)[0], TAKEN)
        self.begins()
        self.assertEqual(self.run_one("fair", "acquire", epoch=self.word)[0], OK)
        self.assertEqual(self.c.cmd("LRANGE", "redisson_lock_queue:{k}", 0, -1), [YOU])

    def test_permits_above_the_limit_come_down_again(self):
        """All permits that were granted since the snapshot are reclaimed, whatever permits the snapshot has."""
        ghosts = ["g%015d" % i for i in range(2)]
        ours = ["o%015d" % i for i in range(3)]
        for p in ghosts:
            self.held("semaphore", actor=p, limit=3)
        self.begins()
        for p in ours:
            self.assertEqual(self.run_one("semaphore", "acquire", owner=p, limit=3, epoch=self.word)[0], OK)
        self.c.cmd("SET", EPOCH, OPEN)
        for p in ours[:2]:
            self.assertEqual(self.run_one("semaphore", "release", owner=p)[0], OK)
            self.assertEqual(self.run_one("semaphore", "acquire", owner="n" * 16, limit=3)[0], TAKEN)
        self.assertEqual(self.run_one("semaphore", "release", owner=ours[2])[0], OK)
        self.assertEqual(self.run_one("semaphore", "acquire", owner="n" * 16, limit=3)[0], OK)

    def test_a_counter_is_reclaimed_by_its_expiry_alone(self):
        expiry = self.held("counter")
        self.begins()
        self.assertEqual(self.run_one("counter", "acquire", expiry=expiry + 5000, epoch=self.word)[0], TAKEN)
        self.assertEqual(self.run_one("counter", "acquire", expiry=expiry, lease=2 * LEASE, epoch=self.word)[0], OK)
        self.ttl_is("k", 2 * LEASE)

    def test_fenced_tokens_go_on(self):
        self.begins()
        self.c.cmd("SET", "redisson_lock_token:{k}", 10 ** 15 * 5)
        outcome, token, _ = self.run_one("fenced", "acquire", epoch=self.word)
        self.assertEqual((outcome, token), (OK, 10 ** 15 * 5 + 1))

    def test_full(self):
        """Nothing of the lock is written, also when the key of a ghost had to be deleted first."""
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
