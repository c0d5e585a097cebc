#!/usr/bin/env python3
"""The Lua scripts of the kinds that several owners may hold together: rw and semaphore."""
import harness
from scripted import (CLOCK, COLUMNS, EPOCH, FOREIGN, FULL, GONE, LEASE, ME, OK, OPEN, TAKEN, TEXT, UUID, YOU, Scripted,
                      permit_of)

US = [UUID + ":%d" % n for n in range(10)]


def end(actor, n, key="{k}"):
    return "%s:%s:rwlock_timeout:%d" % (key, actor, n)


class Rw(Scripted):
    def read(self, actor=ME, **more):
        return self.run_one("rw", "acquire", owner=actor, mode="read", **more)

    def write(self, actor=ME, **more):
        return self.run_one("rw", "acquire", owner=actor, **more)

    def reads(self, *actor, **more):
        for w in actor:
            self.assertEqual(self.read(w, **more)[0], OK)

    def free(self, actor=ME, mode="read", holds=0, rest=0, **more):
        return self.run_one("rw", "release", owner=actor, mode=mode, holds=holds, rest=rest, **more)

    def hash(self):
        flat = self.c.cmd("HGETALL", "k")
        return dict(zip(flat[::2], flat[1::2]))

    def test_one_reader(self):
        for again in range(2):
            outcome, token, expiry = self.read()
            self.assertEqual(outcome, OK)
            self.assertGreater(token, 0)
            self.assertEqual(self.hash(), {"mode": "read", ME: "1"})
            self.assertEqual(self.c.cmd("GET", end(ME, 1)), "1")
            self.ttl_is("k", LEASE)
            self.ttl_is(end(ME, 1), LEASE)
            self.assertLessEqual(abs(expiry - self.c.cmd("PEXPIRETIME", "k")), 3)
        with self.listening("ch:k") as sub:
            self.assertEqual(self.free(), (OK, 1, 0))
            self.received(sub, ("ch:k", "0"))
            self.left()
            self.assertEqual(self.free(), (GONE, 0, 0))

    def test_many_readers_and_no_writer(self):
        self.reads(ME, YOU, US[2])
        self.assertEqual(self.hash(), {"mode": "read", ME: "1", YOU: "1", US[2]: "1"})
        for actor in (US[3], ME):  # an owner that reads may not write either
            outcome, pttl, holders = self.write(actor)
            self.assertEqual((outcome, holders), (TAKEN, 3))
            self.assertTrue(0 < pttl <= LEASE)
        self.assertEqual(self.write(ME, reentry=1)[0], TAKEN)
        with self.listening("ch:k") as sub:
            self.assertEqual(self.free(YOU), (OK, 0, 0))
            self.assertEqual(self.free(ME), (OK, 0, 0))
            self.received(sub)
            self.assertEqual(self.free(US[2]), (OK, 1, 0))
            self.received(sub, ("ch:k", "0"))
        self.left()

    def test_a_writer_and_no_other_owner(self):
        self.held("rw")
        for mode in ("read", "write"):
            self.assertEqual(self.run_one("rw", "acquire", owner=YOU, mode=mode)[0::2], (TAKEN, 1))
            self.assertEqual(self.run_one("rw", "acquire", owner=YOU, mode=mode, reentry=1), (GONE, 0, 0))
        self.assertEqual(self.hash(), {"mode": "write", ME + ":write": "1"})
        with self.listening("ch:k") as sub:
            self.assertEqual(self.free(mode="write"), (OK, 1, 0))
            self.received(sub, ("ch:k", "1"))
        self.left()

    def test_counts_are_set(self):
        self.held("rw")
        for holds in (2, 3, 3):
            self.assertEqual(self.write(holds=holds, reentry=1)[:2], (OK, 0))
            self.assertEqual(self.hash()[ME + ":write"], str(holds))
        for holds in (1, 1):
            outcome, woken, expiry = self.free(mode="write", holds=holds, lease=2 * LEASE)
            self.assertEqual((outcome, woken), (OK, 0))
            self.assertEqual(self.hash()[ME + ":write"], str(holds))
            self.ttl_is("k", 2 * LEASE)
            self.assertLessEqual(abs(expiry - self.c.cmd("PEXPIRETIME", "k")), 2)
        self.flush()
        self.read()
        for holds in (2, 3, 3):
            self.assertEqual(self.read(holds=holds, reentry=1)[:2], (OK, 0))
            self.assertEqual(self.hash()[ME], str(holds))
            for n in range(1, holds + 1):
                self.ttl_is(end(ME, n), LEASE)
            self.left("k", *[end(ME, n) for n in range(1, holds + 1)])
        for holds in (1, 1):
            self.assertEqual(self.free(holds=holds)[:2], (OK, 0))
            self.left("k", end(ME, 1))
        self.assertEqual(self.free()[0], OK)
        self.left()

    def test_a_writer_may_read_besides(self):
        self.held("rw")
        self.assertEqual(self.read(reentry=1)[:2], (OK, 0))
        self.assertEqual(self.hash(), {"mode": "write", ME + ":write": "1", ME: "1"})
        self.assertEqual(self.read(YOU)[0::2], (TAKEN, 1))
        with self.listening("ch:k") as sub:
            for _ in range(2):  # the read hold is released first
                self.assertEqual(self.free(rest=1)[:2], (OK, 0))
                self.assertEqual(self.hash(), {"mode": "write", ME + ":write": "1"})
            self.left("k")
            self.read(reentry=1)
            self.received(sub)
            for woken in (1, 0):  # the write hold is released first: other readers may come in, and receive a message
                self.assertEqual(self.free(mode="write", rest=1, lease=2 * LEASE)[:2], (OK, woken))
                self.assertEqual(self.hash(), {"mode": "read", ME: "1"})
                self.ttl_is("k", 2 * LEASE)
                self.ttl_is(end(ME, 1), 2 * LEASE)
            self.received(sub, ("ch:k", "1"))
            self.reads(YOU)
            self.assertEqual(self.free()[0], OK)
            self.assertEqual(self.free(YOU)[0], OK)
            self.received(sub, ("ch:k", "0"))
        self.left()

    def test_everything_goes_at_once(self):
        for mode in ("read", "write"):
            self.held("rw", holds=2)
            self.read(holds=3)
            with self.listening("ch:k") as sub:
                self.assertEqual(self.free(mode=mode), (OK, 1, 0))
                self.received(sub, ("ch:k", "1"))
                self.left()
                self.assertEqual(self.free(mode=mode), (GONE, 0, 0))

    def test_what_is_gone_is_not_brought_back(self):
        self.held("rw")
        self.assertEqual(self.free(holds=1, rest=1)[0], GONE)  # it had no read hold
        self.assertEqual(self.hash(), {"mode": "write", ME + ":write": "1"})
        self.assertEqual(self.free(holds=1)[0], GONE)  # this gives up the write hold, too
        self.left()
        self.reads(ME, YOU)
        self.assertEqual(self.free(US[2], holds=1)[0], GONE)
        self.c.cmd("HDEL", "k", ME)
        self.assertEqual(self.free(holds=1)[0], GONE)
        self.assertEqual(self.free()[0], GONE)
        self.left("k", end(YOU, 1))  # the rest of its holds is gone

    def test_readers_that_stay_decide_how_long(self):
        self.reads(ME, lease=2 * LEASE)
        self.reads(YOU, lease=LEASE)
        self.ttl_is("k", 2 * LEASE)
        self.assertEqual(self.free()[0], OK)
        self.ttl_is("k", LEASE)
        self.assertEqual(self.hash(), {"mode": "read", YOU: "1"})

    def test_the_dead_do_not_stay(self):
        self.reads(ME)
        self.c.cmd("HSET", "k", YOU, 2, "x", "y")  # a client that died: its auxiliary keys have expired
        with self.listening("ch:k") as sub:
            self.assertEqual(self.free(), (OK, 1, 0))
            self.received(sub, ("ch:k", "0"))
        self.left()
        self.held("rw")
        self.c.cmd("HSET", "k", YOU, 2)
        with self.listening("ch:k") as sub:
            self.assertEqual(self.free(mode="write"), (OK, 1, 0))
            self.received(sub, ("ch:k", "1"))
        self.left()

    def test_a_writer_leaves_readers_behind(self):
        self.held("rw")
        self.c.cmd("HSET", "k", YOU, 1)
        self.c.cmd("SET", end(YOU, 1), 1, "PX", 10000)
        with self.listening("ch:k") as sub:
            self.assertEqual(self.free(mode="write"), (OK, 1, 0))
            self.received(sub, ("ch:k", "1"))
        self.assertEqual(self.hash(), {"mode": "read", YOU: "1"})
        self.ttl_is("k", 10000)

    def test_a_reader_does_not_end_anothers_writing(self):
        self.held("rw", actor=YOU)
        self.c.cmd("HSET", "k", ME, 1)
        with self.listening("ch:k"):
            self.assertEqual(self.free(), (OK, 0, 0))
        self.assertEqual(self.hash(), {"mode": "write", YOU + ":write": "1"})
        self.ttl_is("k", LEASE)

    def test_too_many_are_not_asked(self):
        for fields in ([x for n in range(300) for x in (YOU[:37] + str(n), 1)], [YOU, 10 ** 9]):
            self.flush()
            self.reads(ME)
            self.c.cmd("HSET", "k", *fields)
            self.assertEqual(self.free(), (OK, 0, 0))
            self.ttl_is("k", LEASE)
            self.assertEqual(self.c.cmd("HLEN", "k"), 1 + len(fields) // 2)
            self.assertEqual(self.run_one("rw", "clear")[0], OK)
            self.left()

    def test_more_holds_than_keys(self):
        self.reads(ME, holds=1000)
        self.assertEqual(self.c.cmd("DBSIZE"), 3 + 256)
        self.assertEqual(self.free(holds=255)[0], OK)
        self.assertEqual(self.c.cmd("DBSIZE"), 3 + 255)
        self.assertEqual(self.free()[0], OK)
        self.left()

    def test_renew(self):
        self.reads(ME, holds=2)
        self.reads(YOU)
        self.c.cmd("DEL", end(ME, 2))
        outcome, a, expiry = self.run_one("rw", "renew", lease=2 * LEASE)
        self.assertEqual((outcome, a), (OK, 0))
        self.assertLessEqual(abs(expiry - self.c.cmd("PEXPIRETIME", "k")), 2)
        for key in ("k", end(ME, 1), end(ME, 2)):
            self.ttl_is(key, 2 * LEASE)
        self.ttl_is(end(YOU, 1), LEASE)
        self.run_one("rw", "renew", lease=1000)
        self.ttl_is(end(ME, 1), 2 * LEASE)  # never less
        outcome, _, expiry = self.run_one("rw", "renew", lease=1000, exact=1)  # exact: less, and of no other reader
        self.ttl_is(end(ME, 2), 1000)
        self.ttl_is("k", LEASE)
        self.assertLessEqual(expiry, self.now_us() // 1000 + 1000)
        self.assertEqual(self.run_one("rw", "renew", owner=US[3]), (GONE, 0, 0))
        self.free(YOU)
        self.run_one("rw", "renew", lease=900, exact=1)
        self.ttl_is("k", 900)

    def test_another_kinds_hash_is_foreign(self):
        self.held("reentrant", lease=50000)
        for verb, more, wanted in (("acquire", dict(mode="read"), FOREIGN), ("acquire", {}, FOREIGN),
                                   ("clear", {}, FOREIGN), ("acquire", dict(reentry=1), GONE), ("renew", {}, GONE),
                                   ("release", {}, GONE)):
            with self.subTest(verb, **more):
                outcome, pttl, _ = self.run_one("rw", verb, **more)
                self.assertEqual(outcome, wanted)
                if wanted == FOREIGN:
                    self.assertTrue(LEASE < pttl <= 50000)
        self.assertEqual(self.hash(), {ME: "1"})
        self.c.cmd("HSET", "k", "mode", "nonsense")
        self.assertEqual(self.read()[0], FOREIGN)

    def test_spoilt_neighbours(self):
        self.c.cmd("RPUSH", end(ME, 1), "x")  # overwritten: the name of the key makes it ours
        self.reads(ME)
        self.ttl_is(end(ME, 1), LEASE)
        self.c.cmd("DEL", end(ME, 1))
        self.c.cmd("RPUSH", end(ME, 1), "x")
        self.c.cmd("HSET", "k", ME, "nonsense")
        names = [("k", {}), ("b", {})]
        self.held("rw", "b")
        for verb in ("renew", "release"):
            self.assertEqual([r[0] for r in self.run_all("rw", verb, names)], [OK, OK])
        self.left()

    def test_breaking(self):
        self.reads(ME, YOU, holds=2)
        with self.listening("ch:k") as sub:
            self.assertEqual(self.run_one("rw", "clear")[0::2], (OK, 1))
            self.received(sub, ("ch:k", "1"))
        self.left()

    def test_full(self):
        self.reads(ME, holds=2)
        self.full()
        self.assertEqual(self.read(YOU), (FULL, 0, 0))
        self.assertEqual(self.read(holds=3, reentry=1), (FULL, 0, 0))
        self.assertEqual(self.read(holds=2)[0], OK)
        self.c.cmd("DEL", end(ME, 1))
        self.assertEqual(self.run_one("rw", "renew", lease=2 * LEASE)[0], OK)
        self.ttl_is(end(ME, 1), 2 * LEASE)
        self.assertEqual(self.free(holds=1)[0], OK)
        self.assertEqual(self.hash(), {"mode": "read", ME: "1"})
        self.assertEqual(self.free()[0], OK)
        self.full(False)
        self.held("rw")
        self.read()
        self.full()
        self.assertEqual(self.free(mode="write", rest=1)[0], OK)
        self.assertEqual(self.hash(), {"mode": "read", ME: "1"})

    def test_names_that_bring_their_braces(self):
        self.run_one("rw", "acquire", "a{b}c", mode="read")
        self.left("a{b}c", end(ME, 1, "a{b}c"))


SET = "{k}:timeout"


class Semaphore(Scripted):
    def take(self, actor=ME, limit=3, **more):
        return self.run_one("semaphore", "acquire", owner=actor, limit=limit, **more)

    def takes(self, *actor, **more):
        for w in actor:
            self.assertEqual(self.take(w, **more)[0], OK)

    def free(self, actor=ME, **more):
        return self.run_one("semaphore", "release", owner=actor, **more)

    def number(self):
        return self.c.cmd("GET", "k")

    def permits(self):
        return sorted(self.c.cmd("ZRANGE", SET, 0, -1))

    def of(self, *actor):
        return sorted(permit_of(w) for w in actor)

    def over(self, *actor):
        """The leases of these permits are over, and no call has removed them yet."""
        for w in actor:
            self.c.cmd("ZADD", SET, "XX", self.now_us() // 1000 - 1, permit_of(w))

    def test_up_to_the_limit(self):
        before = self.now_us() // 1000
        outcome, token, expiry = self.take()
        self.assertEqual((outcome, self.number(), self.permits()), (OK, "2", self.of(ME)))
        self.assertEqual(int(self.c.cmd("ZSCORE", SET, permit_of(ME))), expiry)
        self.assertTrue(before + LEASE <= expiry <= self.now_us() // 1000 + LEASE)
        for key in ("k", SET):
            self.ttl_is(key, LEASE)
        self.takes(YOU, US[2], lease=2 * LEASE)
        self.assertGreater(self.take(YOU)[1], token)
        self.assertEqual((self.number(), len(self.permits())), ("0", 3))
        for key in ("k", SET):
            self.ttl_is(key, 2 * LEASE)
        outcome, wait, taken = self.take(US[3])
        self.assertEqual((outcome, taken), (TAKEN, 3))
        self.assertTrue(LEASE - 3000 * harness.SLOW <= wait <= LEASE)  # until the first lease ends
        self.assertEqual(len(self.permits()), 3)
        for n, actor in enumerate((ME, YOU, US[2])):
            self.assertEqual((self.number(), self.free(actor)[0]), (str(n), OK))
        self.left()

    def test_asking_again_takes_no_second_one(self):
        self.takes(ME, ME, ME)
        self.assertEqual((self.number(), self.permits()), ("2", self.of(ME)))
        self.take(ME, lease=2 * LEASE)
        expiry = self.take(ME)[2]
        self.assertGreater(expiry, self.now_us() // 1000 + LEASE + 1000)  # never less
        self.ttl_is(SET, 2 * LEASE)

    def test_giving_back(self):
        self.takes(ME, YOU)
        with self.listening("ch:k") as sub:
            self.assertEqual(self.free(), (OK, 1, 0))
            self.received(sub, ("ch:k", "2"))
            self.assertEqual(self.free(), (GONE, 0, 0))
            self.assertEqual(self.number(), "2")
            self.assertEqual(self.free(YOU), (OK, 1, 0))
            self.received(sub, ("ch:k", "3"))
            self.assertEqual(self.number(), "3")  # a client is subscribed and may need the number
            self.ttl_is("k", LEASE)
            self.assertEqual(self.c.cmd("EXISTS", SET), 0)
        self.takes(ME)
        self.free()
        self.left()

    def test_what_is_over_is_taken_back(self):
        self.takes(ME, YOU, US[2])
        self.over(YOU, US[2])
        with self.listening("ch:k") as sub:
            self.assertEqual(self.take(US[3])[0], OK)
            self.received(sub, ("ch:k", "1"))
        self.assertEqual((self.number(), self.permits()), ("1", self.of(ME, US[3])))
        self.assertEqual(self.free(YOU)[0], GONE)
        self.flush()
        self.takes(*["w%d" % n for n in range(1000)], limit=1000)
        self.over(*["w%d" % n for n in range(1000)])
        for left in (745, 490, 235):
            self.assertEqual(self.take("again%d" % left, limit=1000)[0], OK)
            self.assertEqual(len(self.permits()), left)
        self.takes("last", limit=1000)
        self.assertEqual((self.number(), len(self.permits())), ("996", 4))

    def test_over_but_still_there(self):
        self.takes(ME, YOU)
        self.over(ME)
        self.assertEqual(self.run_one("semaphore", "renew")[0], OK)  # no other owner has it
        self.over(ME)
        with self.listening("ch:k") as sub:
            self.assertEqual(self.free(), (GONE, 0, 0))  # given back, but it did not belong to that owner any more
            self.received(sub, ("ch:k", "2"))
        self.assertEqual((self.number(), self.permits()), ("2", self.of(YOU)))
        self.over(YOU)
        self.takes(YOU)
        self.assertEqual((self.number(), self.permits()), ("2", self.of(YOU)))

    def test_renew(self):
        self.takes(ME, YOU)
        for _ in range(2):
            outcome, a, expiry = self.run_one("semaphore", "renew", lease=2 * LEASE)
            self.assertEqual((outcome, a), (OK, 0))
            self.assertEqual(int(self.c.cmd("ZSCORE", SET, permit_of(ME))), expiry)
            for key in ("k", SET):
                self.ttl_is(key, 2 * LEASE)
        self.assertGreaterEqual(self.run_one("semaphore", "renew", lease=1000)[2], expiry)
        less = self.run_one("semaphore", "renew", lease=1000, exact=1)[2]
        self.assertLessEqual(less, self.now_us() // 1000 + 1000)
        self.ttl_is(SET, 2 * LEASE)
        self.assertEqual(self.take(US[2], limit=2)[0], TAKEN)
        self.assertLessEqual(self.take(US[2], limit=2)[1], 1000)
        self.assertEqual(self.run_one("semaphore", "renew", owner=US[2]), (GONE, 0, 0))
        self.assertEqual((self.number(), self.permits()), ("0", self.of(ME, YOU)))

    def test_redissons_number_counts(self):
        self.c.cmd("SET", "k", 2)
        self.takes(ME, limit=10)
        self.assertEqual((self.number(), self.c.cmd("PTTL", "k"), self.c.cmd("PTTL", SET)), ("1", -1, -1))
        self.takes(YOU, limit=10)
        outcome, wait, taken = self.take(US[2], limit=10)
        self.assertEqual((outcome, taken), (TAKEN, 2))
        self.assertTrue(0 < wait <= LEASE)
        self.assertEqual(self.run_one("semaphore", "renew")[0], OK)
        self.free()
        self.assertEqual(self.take(US[2], limit=1)[0::2], (TAKEN, 1))  # never more than the limit of the rule
        self.over(YOU)
        self.takes(US[2], limit=1)
        self.assertEqual((self.number(), self.permits()), ("1", self.of(US[2])))
        self.free(US[2])
        self.assertEqual((self.number(), self.c.cmd("PTTL", "k")), ("2", -1))  # and it stays
        self.c.cmd("ZADD", SET, 922337203685477, "redisson permit!")
        self.c.cmd("SET", "k", 0)
        self.c.cmd("PEXPIRE", SET, 60000)
        self.assertEqual(self.take(), (TAKEN, -1, 1))  # its permit has no end
        self.c.cmd("SET", "k", 1)
        self.takes(ME)
        self.assertEqual(self.c.cmd("PTTL", SET), -1)  # nor has the set
        self.flush()
        self.c.cmd("SET", "k", 0)
        self.assertEqual(self.take(), (TAKEN, -1, 0))

    def test_another_limit_corrects_our_number(self):
        self.takes(ME, YOU, limit=2)
        self.takes(US[2], limit=5)
        self.assertEqual(self.number(), "2")
        self.assertEqual(self.take(US[3], limit=1)[0::2], (TAKEN, 3))
        self.assertEqual(self.number(), "-2")
        self.ttl_is("k", LEASE)
        with self.listening("ch:k") as sub:
            self.assertEqual(self.free(), (OK, 0, 0))
            self.assertEqual(self.free(YOU), (OK, 0, 0))
            self.received(sub)  # no permit is free yet
            self.assertEqual(self.free(US[2]), (OK, 1, 0))
            self.received(sub, ("ch:k", "1"))

    def test_a_number_that_is_lost_is_made_again(self):
        self.takes(ME, YOU)
        self.c.cmd("DEL", "k")
        self.assertEqual(self.take(US[2], limit=2)[0::2], (TAKEN, 2))
        self.assertEqual(self.c.cmd("EXISTS", "k"), 0)
        self.assertEqual(self.run_one("semaphore", "renew", lease=2 * LEASE)[0], OK)
        self.ttl_is(SET, 2 * LEASE)
        with self.listening("ch:k") as sub:
            self.assertEqual(self.free(YOU), (OK, 1, 0))
            self.received(sub, ("ch:k", "1"))
        self.assertEqual(self.c.cmd("EXISTS", "k"), 0)  # a number without an expiry would stay for ever
        self.takes(US[2])
        self.assertEqual(self.number(), "1")
        self.c.cmd("DEL", "k")
        self.takes(US[3])
        self.assertEqual(self.number(), "0")
        self.ttl_is("k", 2 * LEASE)  # the same as that of the set: the two keys prove each other, and end together
        self.assertLessEqual(abs(self.c.cmd("PTTL", "k") - self.c.cmd("PTTL", SET)), 2)

    def test_spoilt(self):
        for key, spoil, pttl in (("k", ("SET", "k", "nonsense"), -1), ("k", ("SET", "k", "1" * 30), -1),
                                 ("k", ("SET", "k", ""), -1), ("k", ("HSET", "k", "f", 1), -1),
                                 (SET, ("SET", SET, "x"), -2)):
            with self.subTest(spoil):
                self.flush()
                self.c.cmd(*spoil)
                was = {k: v for k, v in self.dump().items() if k != EPOCH}
                names = [("k", {}), ("b", {})]
                for verb, wanted in (("acquire", (FOREIGN, OK)), ("renew", (GONE, OK)), ("release", (GONE, OK)),
                                     ("clear", (FOREIGN, GONE))):
                    reply = self.run_all("semaphore", verb, names)
                    self.assertEqual(tuple(r[0] for r in reply), wanted, verb)
                    if wanted[0] == FOREIGN:
                        self.assertEqual(reply[0][1], pttl)
                    self.assertEqual({k: v for k, v in self.dump().items() if k in ("k", SET)}, was)
        self.flush()
        self.takes(ME)
        self.c.cmd("SET", "k", "nonsense")  # the permit can be given back all the same
        self.assertEqual(self.free()[0], OK)
        self.assertEqual(self.number(), "nonsense")

    def test_breaking_frees_all(self):
        self.takes(ME, YOU)
        with self.listening("ch:k") as sub:
            self.assertEqual(self.run_one("semaphore", "clear")[0::2], (OK, 1))
            self.received(sub, ("ch:k", "3"))
        self.assertEqual((self.number(), self.permits()), ("3", []))
        self.assertEqual(self.free()[0], GONE)
        self.takes(ME)
        self.assertEqual(self.run_one("semaphore", "clear")[0::2], (OK, 0))
        self.left()
        self.c.cmd("SET", "k", 1)
        self.takes(ME)
        self.assertEqual(self.run_one("semaphore", "clear")[0], OK)
        self.assertEqual((self.number(), self.c.cmd("PTTL", "k")), ("1", -1))

    def test_full(self):
        self.takes(ME, YOU)
        self.full()
        self.assertEqual(self.take(US[2]), (FULL, 0, 0))
        self.assertEqual((self.number(), self.permits()), ("1", self.of(ME, YOU)))
        self.assertEqual(self.take(US[2], limit=1)[0::2], (TAKEN, 2))  # and the number is not corrected
        self.assertEqual(self.run_one("semaphore", "renew", lease=2 * LEASE)[0], OK)
        self.assertEqual(self.take(ME)[0], OK)
        for actor in (ME, YOU):
            self.assertEqual(self.free(actor)[0], OK)
        self.assertEqual(self.permits(), [])
        self.full(False)
        self.flush()
        self.c.cmd("SET", "k", 2)
        self.takes(ME, YOU)
        self.full()
        self.assertEqual(self.run_one("semaphore", "renew", lease=2 * LEASE)[0], OK)
        self.assertEqual(self.free()[0], OK)
        self.assertEqual(self.number(), "1")

    def test_permits_are_bytes_and_names_bring_braces(self):
        permit = bytes(range(240, 256))
        columns = dict(permit=permit, lease=LEASE, limit=1, channel="ch", exact=0, declared=0)
        for verb, keys in (("acquire", ["a{b}c", "a{b}c:timeout"]), ("renew", ["a{b}c", "a{b}c:timeout"]),
                           ("release", [])):
            argv = [columns[c] for c in COLUMNS["semaphore", verb]]
            reply = self.c.cmd("EVAL", TEXT["semaphore", verb], 3, CLOCK, EPOCH, "a{b}c", 0, 0, OPEN, 0, *argv)
            self.assertEqual(reply[1], OK)
            self.left(*keys)


if __name__ == "__main__":
    harness.main()
