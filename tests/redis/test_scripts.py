#!/usr/bin/env python3
"""Each Lua script by itself on a real Redis: the behaviour that all kinds share; the rest is in test_scripts_*.py."""
import ast
import itertools
import os
import re
import shutil
import subprocess
from unittest import mock

import harness
from harness import Case, RError
from scripted import (CLOCK, COLUMNS, EPOCH, FOREIGN, FULL, GONE, HASHES, ITSELF, KIND, KINDS, LEASE,
                      LIKE_RLOCK, INSPECT, ME, OF_QUORUM, OK, OPEN, OTHERS, SCRIPTS, STALE, TAKEN, TERMS, TEXT, UUID,
                      VERBS, YOU, Scripted, embed, columns_of, value_of)

NEAR_MS = 3 + 200 * (harness.SLOW > 1)  # a script that is interrupted sets its expiry up to this much later


class Acquire(Scripted):
    def test_free(self):
        for kind in KINDS:
            with self.subTest(kind):
                before = self.now_us()
                outcome, token, expiry = self.run_one(kind, "acquire", kind)
                self.assertEqual(outcome, OK)
                self.assertTrue(before < token <= self.now_us())
                self.ttl_is(kind, LEASE)
                self.assertTrue(before // 1000 + LEASE <= expiry <= self.now_us() // 1000 + LEASE)
                self.assertEqual(self.c.cmd("GET", CLOCK), str(token))
        for kind in HASHES:
            self.assertEqual(self.c.cmd("HGETALL", kind), KIND[kind].hash_of)
        self.assertEqual(self.c.cmd("GET", "simple"), value_of(ME))
        self.assertEqual(self.c.cmd("GET", "counter"), "1")

    def test_taken_and_untouched(self):
        for kind in KINDS:
            with self.subTest(kind):
                self.flush()
                self.held(kind)
                at = self.c.cmd("PEXPIRETIME", "k")
                was = self.dump()
                outcome, pttl, b = self.run_one(kind, "acquire", owner=YOU, lease=90000)
                self.assertEqual((outcome, b), (TAKEN, KIND[kind].taken_by))
                self.assertTrue(LEASE - 3000 * harness.SLOW <= pttl <= LEASE)
                self.assertEqual(self.dump(), was)
                self.assertEqual(self.c.cmd("PEXPIRETIME", "k"), at)

    def test_taken_for_ever(self):
        for kind in KINDS:
            if kind == "semaphore":
                continue  # permits have ends of their own
            with self.subTest(kind):
                self.flush()
                self.held(kind)
                self.c.cmd("PERSIST", "k")
                self.assertEqual(self.run_one(kind, "acquire", owner=YOU), (TAKEN, -1, KIND[kind].taken_by))
                self.assertEqual(self.c.cmd("PTTL", "k"), -1)

    def test_far_expiry(self):
        """
        No number of an answer is above 2^53, whatever expiry another client has given the key: the daemon takes a
        larger one for a malformed answer.
        """
        for kind in KINDS:
            for far in (1763701200123456000, 2 ** 63 - 1):
                with self.subTest(kind, far=far):
                    self.flush()
                    self.foreign(kind)
                    self.c.cmd("PEXPIREAT", "k", far)
                    self.far(kind, "acquire", FOREIGN)
                    self.far(kind, "clear", FOREIGN)
                    self.c.cmd("DEL", "k")
                    self.held(kind)
                    self.c.cmd("PEXPIREAT", "k", far)
                    if kind != "semaphore":  # permits have ends of their own
                        self.far(kind, "acquire", TAKEN, owner=YOU)
                    if kind == "counter":
                        continue  # its expiry is its owner
                    self.far(kind, "acquire", OK)
                    self.c.cmd("PEXPIREAT", "k", far)
                    self.far(kind, "renew", OK)
                    if kind in HASHES:
                        self.c.cmd("PEXPIREAT", "k", far)
                        self.far(kind, "release", OK, holds=1)
                    self.c.cmd("PEXPIREAT", "k", far)
                    self.far(kind, "clear", OK)

    def far(self, kind, verb, expected, **more):
        outcome, a, b = self.run_one(kind, verb, **more)
        self.assertEqual(outcome, expected, (kind, verb))
        self.assertTrue(0 <= a < 2 ** 53 and 0 <= b < 2 ** 53, (kind, verb, a, b))
        if outcome in (TAKEN, FOREIGN):
            self.assertGreater(a, 10 ** 15)

    def test_foreign(self):
        for kind in KINDS:
            for persist in (False, True):
                with self.subTest(kind, persist=persist):
                    self.foreign(kind)
                    if persist:
                        self.c.cmd("PERSIST", "k")
                    outcome, pttl, _ = self.run_one(kind, "acquire")
                    self.assertEqual(outcome, FOREIGN)
                    self.assertTrue(pttl == -1 if persist else 50000 < pttl <= 60000)
                    self.assertEqual(self.c.cmd("LRANGE", "k", 0, -1), ["x"])
        self.assertEqual(self.c.cmd("EXISTS", CLOCK), 0)

    def test_strings_and_hashes_keep_each_other_out(self):
        self.held("simple")
        self.assertEqual(self.run_one("reentrant", "acquire")[0], FOREIGN)
        self.assertEqual(self.run_one("counter", "acquire")[0], TAKEN)
        self.c.cmd("DEL", "k")
        self.held("reentrant")
        self.assertEqual(self.run_one("simple", "acquire")[0], FOREIGN)
        self.assertEqual(self.run_one("counter", "acquire")[0], FOREIGN)

    def test_again_by_the_same_owner(self):
        for kind in ITSELF:
            with self.subTest(kind):
                self.held(kind, kind)
                first = int(self.c.cmd("GET", CLOCK))
                self.c.cmd("PEXPIRE", kind, 1000)
                outcome, token, expiry = self.run_one(kind, "acquire", kind)
                self.assertEqual(outcome, OK)
                self.assertGreater(token, first)
                self.ttl_is(kind, LEASE)
                self.c.cmd("PEXPIRE", kind, 90000)
                _, _, expiry = self.run_one(kind, "acquire", kind)
                self.ttl_is(kind, 90001)  # a renewal only ever makes it later
                if kind != "semaphore":
                    self.assertLessEqual(abs(expiry - self.c.cmd("PEXPIRETIME", kind)), NEAR_MS)
        for kind in HASHES:
            self.assertEqual(self.c.cmd("HGETALL", kind), KIND[kind].hash_of)
        self.held("counter", "counter")
        self.assertEqual(self.run_one("counter", "acquire", "counter")[0], TAKEN)

    def test_reentry(self):
        self.held("reentrant")
        clock = self.c.cmd("GET", CLOCK)
        for holds in (2, 3, 3):
            outcome, token, expiry = self.run_one("reentrant", "acquire", holds=holds, reentry=1, lease=2 * LEASE)
            self.assertEqual((outcome, token), (OK, 0))
            self.assertEqual(self.c.cmd("HGETALL", "k"), [ME, str(holds)])
            self.ttl_is("k", 2 * LEASE)
        self.assertEqual(self.c.cmd("GET", CLOCK), clock)
        self.assertEqual(self.run_one("reentrant", "acquire", owner=YOU, reentry=1), (GONE, 0, 0))
        self.foreign("reentrant")
        self.assertEqual(self.run_one("reentrant", "acquire", reentry=1), (GONE, 0, 0))
        self.c.cmd("DEL", "k")
        self.assertEqual(self.run_one("reentrant", "acquire", reentry=1), (GONE, 0, 0))
        self.assertEqual(self.c.cmd("EXISTS", "k"), 0)

    def test_one_of_many_is_otherwise(self):
        """
        In a wide call whose names have all terms in common: one differs; each of the others has the outcome of a call
        alone.
        """
        states = {"free": OK, "ours": OK, "theirs": TAKEN, "of another type": FOREIGN, "twice": TAKEN}
        for kind in LIKE_RLOCK:
            for state, at in itertools.product(states, (0, 4, 8)):
                with self.subTest(kind, state=state, at=at):
                    self.flush()
                    names = [("n%d" % i, {"lease": 10000, "owner": UUID + ":%d" % (i + 7)}) for i in range(9)]
                    odd = names[at][0]
                    if state == "ours":
                        self.held(kind, odd, actor=names[at][1]["owner"], lease=60000)
                    elif state == "theirs":
                        self.held(kind, odd, actor=YOU)
                    elif state == "of another type":
                        self.foreign(kind, odd)
                    elif state == "twice":  # the first owner has it
                        names.insert(at + 1, (odd, {"lease": 10000, "owner": YOU}))
                        at += 1
                    outcomes = self.run_all(kind, "acquire", names)
                    tokens = [a for outcome, a, _ in outcomes if outcome == OK]
                    self.assertEqual(tokens, sorted(set(tokens)))
                    self.assertGreaterEqual(int(self.c.cmd("GET", CLOCK)), tokens[-1])
                    for i, ((n, more), (outcome, _, expiry)) in enumerate(zip(names, outcomes)):
                        self.assertEqual(outcome, states[state] if i == at else OK, n)
                        if outcome == OK:
                            self.assertEqual(self.c.cmd("HGETALL", n), [more["owner"], "1"])
                            self.assertLessEqual(abs(expiry - self.c.cmd("PEXPIRETIME", n)), NEAR_MS)
                            self.ttl_is(n, 60000 if n == odd and state == "ours" else 10000)

    def test_many_that_are_free_cost_two_commands_each(self):
        self.c.cmd("CONFIG", "RESETSTAT")
        self.run_all("reentrant", "acquire", [("n%d" % i, {}) for i in range(50)])
        calls = dict(re.findall(r"cmdstat_(\w+):calls=(\d+)", self.c.cmd("INFO", "commandstats")))
        self.assertEqual([calls.get(k, "0") for k in ("exists", "hset", "pexpireat", "pttl", "hget")],
                         ["1", "50", "50", "0", "0"])

    def test_redissons_read_write_lock_is_taken(self):
        self.c.cmd("HSET", "k", "mode", "read", YOU, 1)
        self.assertEqual(self.run_one("reentrant", "acquire"), (TAKEN, -1, 0))

    def test_expired_is_free(self):
        for kind in KINDS:
            with self.subTest(kind):
                self.flush()
                self.held(kind, lease=1)
                harness.until(lambda: self.c.cmd("EXISTS", "k") == 0)
                self.held(kind, actor=YOU)


class Tokens(Scripted):
    def test_rise_within_a_call(self):
        for kind in KINDS:
            names = [("%s%d" % (kind, i), {}) for i in range(100)]
            tokens = [token for _, token, _ in self.run_all(kind, "acquire", names)]
            self.assertEqual(tokens, sorted(set(tokens)))
            self.assertEqual(self.c.cmd("GET", CLOCK), str(tokens[-1]))

    def test_rise_over_names_that_are_held(self):
        """
        A token may break the row: a re-entry has none, and a token of kind fenced may be larger than the next one.
        """
        self.held("reentrant", "held")
        names = [("a", {}), ("b", {}), ("held", {"holds": 2, "reentry": 1}), ("c", {}), ("d", {})]
        a, b, held, c, d = (token for _, token, _ in self.run_all("reentrant", "acquire", names))
        self.assertEqual((held, b - a, c - b, d - c), (0, 1, 1, 1))
        far = self.now_us() + 10 ** 12
        self.c.cmd("SET", "redisson_lock_token:{y}", far)
        x, y, z = (token for _, token, _ in self.run_all("fenced", "acquire", [("x", {}), ("y", {}), ("z", {})]))
        self.assertTrue(x < far and y == far + 1 and z > y)
        self.assertEqual([self.c.cmd("GET", "redisson_lock_token:{%s}" % k) for k in "xyz"],
                         [str(token) for token in (x, y, z)])

    def test_above_clock_and_floor(self):
        far = self.now_us() + 10 ** 12
        self.c.cmd("SET", CLOCK, far)
        self.assertEqual(self.run_one("simple", "acquire", "a")[1], far + 1)
        self.assertEqual(self.run_one("reentrant", "acquire", "b", floor=far + 10)[1], far + 11)
        self.assertEqual(self.run_one("counter", "acquire", "c", floor=far)[1], far + 12)
        self.assertEqual(self.run_one("counter", "clear", "c", floor=far + 20)[1], far + 21)
        self.assertEqual(self.c.cmd("GET", CLOCK), str(far + 21))

    def test_room(self):
        """The reserve behind each new token goes to no other owner, whatever the clock of Redis shows."""
        far = self.now_us() + 10 ** 12
        self.assertEqual(self.run_one("reentrant", "acquire", "a", floor=far, reserve=50)[1], far + 1)
        a, b = self.run_all("simple", "acquire", [("b", {}), ("c", {})], reserve=7)
        self.assertGreater(a[1], far + 51)
        self.assertEqual(b[1], a[1] + 1)
        self.assertGreater(self.run_one("reentrant", "acquire", "d")[1], b[1] + 7)
        self.flush()
        # more than the time that passes meanwhile
        token = self.run_one("reentrant", "acquire", "a", reserve=10 ** 9)[1]
        self.assertGreater(self.run_one("reentrant", "acquire", "b")[1], token + 10 ** 9)
        self.assertEqual(self.run_one("reentrant", "acquire", "a", reentry=1, holds=2, reserve=5)[1], 0)

    def test_no_room_ahead_of_time(self):
        """
        Tokens do not run ahead of time, so even if every key with tokens is lost, later tokens are above the earlier
        ones.
        """
        for ahead, is_room in ((0, True), (500 * 1000, False), (10 ** 12, True)):
            self.flush()
            self.c.cmd("SET", CLOCK, self.now_us() + ahead)
            reply = self.raw("simple", "acquire", [("a", {}), ("b", {})], reserve=50)
            self.assertEqual((reply[1], reply[4], reply[5:]), (OK, 2, [] if is_room else [1]))
            self.assertEqual(int(self.c.cmd("GET", CLOCK)), reply[2] + 1 + (50 if is_room else 0))
        self.flush()
        self.c.send(b"".join(b"EVALSHA x 0\r\n" for _ in range(0)))
        refused = 0
        for i in range(300):
            refused += len(self.raw("simple", "acquire", [("n%d" % i, {})], reserve=1024)) == 6
            self.assertLess(int(self.c.cmd("GET", CLOCK)), self.now_us() + 1000 + 1024 + 2)
        self.assertGreater(refused, 0)

    def test_what_a_call_costs_besides_its_names(self):
        """
        The clock is written once, whatever the reserve; the epoch is read only where a name is taken, or its key is
        missing.
        """
        names = [("n%d" % i, {}) for i in range(50)]
        for verb, commands in (("acquire", {"time": 1, "get": 1, "getset": 1}), ("renew", {"time": 1}),
                               ("release", {"time": 1}), ("release", {"time": 1, "get": 1})):
            self.c.cmd("CONFIG", "RESETSTAT")
            self.run_all("reentrant", verb, names, reserve=9)
            calls = {k: int(n) for k, n in re.findall(r"cmdstat_(\w+):calls=(\d+)", self.c.cmd("INFO", "commandstats"))}
            calls["time"] -= 2  # run_all asks before and after
            self.assertEqual({k: n for k, n in calls.items() if k in ("time", "get", "getset", "set")}, commands, verb)

    def acquires_without(self, command, kind, columns, reserve=0):
        """
        An acquire of "a" and "b" by a user who may not use that command: an error. Returns the value of the clock
        before.
        """
        far = self.now_us() + 10 ** 12
        self.c.cmd("SET", CLOCK, far)
        self.c.cmd("ACL", "SETUSER", "lacks", "reset", "on", ">p", "~*", "&*", "+@all", "-" + command)
        with self.r.conn() as c:
            self.assertEqual(c.cmd("AUTH", "lacks", "p"), "OK")
            reply = c.cmd("EVAL", TEXT[kind, "acquire"], 4, CLOCK, EPOCH, "a", "b", 0, 0, OPEN, reserve,
                          *columns_of(TERMS[kind, "acquire"], [columns] * 2))
        self.assertIsInstance(reply, RError)
        return far

    def test_clock_is_never_left_behind(self):
        """Also when the call ends in an error after a token was drawn."""
        self.c.cmd("SET", "b", "x")
        far = self.acquires_without("hget", "reentrant", [LEASE, 1, 0, ME])
        self.assertGreater(int(self.c.cmd("GET", CLOCK)), far)

    def test_clock_is_not_left_behind_by_a_call_that_is_cut_off(self):
        """One name has its token; the next one is held by the same owner, and its lease cannot be moved."""
        self.c.cmd("SET", "b", "mine")
        far = self.acquires_without("pexpire", "simple", [LEASE, "mine"], reserve=30)
        self.assertEqual(self.c.cmd("GET", "a"), "mine")
        self.assertGreaterEqual(int(self.c.cmd("GET", CLOCK)), far + 31)

    def test_nonsense_in_the_clock(self):
        for value in ("nonsense", "nan", "inf", "-inf", "-5", "1e300", "9007199254740992", ""):
            with self.subTest(value):
                self.c.cmd("DEL", "k")
                self.c.cmd("SET", CLOCK, value)
                token = self.run_one("simple", "acquire")[1]
                self.assertLessEqual(token, self.now_us())
                self.assertEqual(self.c.cmd("GET", CLOCK), str(token))
        self.c.cmd("DEL", CLOCK, "k")
        self.c.cmd("RPUSH", CLOCK, "x")
        self.assertEqual(self.run_one("simple", "acquire")[0], OK)

    def test_losers_draw_none(self):
        for kind in KINDS:
            self.held(kind, kind)
        clock = self.c.cmd("GET", CLOCK)
        for kind in KINDS:
            self.run_one(kind, "acquire", kind, owner=YOU)
        self.assertEqual(self.c.cmd("GET", CLOCK), clock)


class Renew(Scripted):
    def test_lengthens(self):
        for kind in KINDS:
            with self.subTest(kind):
                expiry = self.held(kind, kind)
                outcome, a, later = self.run_one(kind, "renew", kind, expiry=expiry, lease=2 * LEASE)
                self.assertEqual((outcome, a), (OK, 0))
                self.ttl_is(kind, 2 * LEASE)
                self.assertLessEqual(abs(later - self.c.cmd("PEXPIRETIME", kind)), NEAR_MS)
                _, _, same = self.run_one(kind, "renew", kind, expiry=later, lease=1000)
                self.ttl_is(kind, 2 * LEASE)
                self.assertLessEqual(abs(same - later), 3)
                _, _, less = self.run_one(kind, "renew", kind, expiry=same, lease=1000, exact=1)
                if kind != "semaphore":
                    self.assertLessEqual(self.c.cmd("PTTL", kind), 1000)
                self.assertLess(less, same)

    def test_gone(self):
        for kind in KINDS:
            for exact in (0, 1):
                with self.subTest(kind, exact=exact):
                    self.flush()
                    expiry = self.held(kind)
                    self.flush()
                    self.assertEqual(self.run_one(kind, "renew", expiry=expiry, exact=exact), (GONE, 0, 0))
                    self.assertEqual(self.c.cmd("EXISTS", "k"), 0)
                    self.held(kind, actor=YOU, lease=60000)
                    at = self.c.cmd("PEXPIRETIME", "k")
                    self.assertEqual(self.run_one(kind, "renew", expiry=expiry, exact=exact, lease=90000), (GONE, 0, 0))
                    self.assertEqual(self.c.cmd("PEXPIRETIME", "k"), at)
                    self.foreign(kind)
                    self.assertEqual(self.run_one(kind, "renew", expiry=expiry, exact=exact), (GONE, 0, 0))

    def test_a_key_that_lost_its_expiry_gets_one(self):
        for kind in HASHES + ["simple"]:
            self.held(kind, kind)
            self.c.cmd("PERSIST", kind)
            self.assertEqual(self.run_one(kind, "renew", kind)[0], OK)
            self.ttl_is(kind, LEASE)

    def test_many_at_once(self):
        """As one by one, where the expiry of a call is made as text once; also in a Redis without GT."""
        for kind in ("reentrant", "simple"):
            text = TEXT[kind, "renew"]
            self.assertIn("'GT'", text)
            for columns_of in (text, text.replace("'GT'", "'OF'")):
                with self.subTest(kind, old=columns_of != text), mock.patch.dict(TEXT, {(kind, "renew"): columns_of}):
                    self.renews_many(kind)

    def renews_many(self, kind):
        self.flush()
        names = ["n%d" % i for i in range(9)]
        for n in names:
            self.held(kind, n, lease=10000)
        self.c.cmd("PEXPIRE", "n2", 3 * LEASE)
        self.c.cmd("PERSIST", "n3")
        self.c.cmd("DEL", "n4")
        self.foreign(kind, "n5")
        for exact, longest in ((0, 3 * LEASE), (1, LEASE)):
            outcomes = self.run_all(kind, "renew", [(n, {"lease": LEASE + (n == "n6"), "exact": exact}) for n in names])
            for n, (outcome, _, expiry) in zip(names, outcomes):
                self.assertEqual(outcome, GONE if n in ("n4", "n5") else OK, n)
                if outcome == OK:
                    self.assertLessEqual(abs(expiry - self.c.cmd("PEXPIRETIME", n)), NEAR_MS)
                    self.ttl_is(n, longest if n == "n2" else LEASE + (n == "n6"))

    def test_one_of_many_is_otherwise(self):
        """
        In a wide call whose names have all terms in common: one differs; each of the others has the outcome of a call
        alone.
        """
        states = {"ours": OK, "later": OK, "for ever": OK, "gone": GONE, "theirs": GONE, "of another type": GONE}
        for kind in LIKE_RLOCK + ["simple"]:
            for state, at, exact in itertools.product(states, (0, 4, 8), (0, 1)):
                with self.subTest(kind, state=state, at=at, exact=exact):
                    self.flush()
                    names = ["n%d" % i for i in range(9)]
                    odd = names[at]
                    for n in names:
                        self.held(kind, n, lease=10000)
                    if state == "later":
                        self.c.cmd("PEXPIRE", odd, 3 * LEASE)
                    elif state == "for ever":
                        self.c.cmd("PERSIST", odd)
                    elif state != "ours":
                        self.c.cmd("DEL", odd)
                    if state == "theirs":
                        self.held(kind, odd, actor=YOU, lease=10000)
                    elif state == "of another type":
                        self.foreign(kind, odd)
                    outcomes = self.run_all(kind, "renew", [(n, {"exact": exact}) for n in names])
                    for n, (outcome, a, expiry) in zip(names, outcomes):
                        self.assertEqual((outcome, a), (states[state] if n == odd else OK, 0), n)
                        if outcome == OK:
                            self.assertLessEqual(abs(expiry - self.c.cmd("PEXPIRETIME", n)), NEAR_MS)
                            self.ttl_is(n, 3 * LEASE if n == odd and state == "later" and not exact else LEASE)
                        elif state == "theirs":
                            self.assertLessEqual(self.c.cmd("PTTL", n), 10000)


class Release(Scripted):
    def test_frees_and_wakes(self):
        for kind in KINDS:
            with self.subTest(kind):
                self.flush()
                expiry = self.held(kind)
                with self.listening("ch:k") as sub:
                    self.assertEqual(self.run_one(kind, "release", expiry=expiry), (OK, 1, 0))
                    self.received(sub, ("ch:k", KIND[kind].wakes))
                    self.assertEqual(self.c.cmd("EXISTS", "k"), 1 if kind == "semaphore" else 0)
                    self.assertEqual(self.run_one(kind, "release", expiry=expiry), (GONE, 0, 0))
                    self.assertEqual(self.run_all(kind, "acquire", [("k", {})])[0][0], OK)
                    self.received(sub)

    def test_leaves_nothing(self):
        for kind in KINDS:
            with self.subTest(kind):
                self.flush()
                expiry = self.held(kind)
                self.left("k", *[name % "k" for name in KIND[kind].beside])
                self.assertEqual(self.run_one(kind, "release", expiry=expiry), (OK, 0, 0))
                self.left(*(["redisson_lock_token:{k}"] if kind == "fenced" else []))

    def test_not_ours(self):
        for kind in KINDS:
            with self.subTest(kind):
                self.flush()
                expiry = self.held(kind)
                self.flush()
                self.held(kind, actor=YOU, lease=60000)
                was = self.dump()
                self.assertEqual(self.run_one(kind, "release", expiry=expiry), (GONE, 0, 0))
                self.assertEqual(self.dump(), was)
                self.foreign(kind)
                self.assertEqual(self.run_one(kind, "release", expiry=expiry), (GONE, 0, 0))
                self.assertEqual(self.c.cmd("LLEN", "k"), 1)

    def test_holds_left(self):
        for kind in LIKE_RLOCK:
            with self.subTest(kind):
                self.flush()
                self.held(kind, holds=3)
                for holds in (2, 1, 1):
                    outcome, woken, expiry = self.run_one(kind, "release", holds=holds, lease=2 * LEASE)
                    self.assertEqual((outcome, woken), (OK, 0))
                    self.assertEqual(self.c.cmd("HGETALL", "k"), [ME, str(holds)])
                    self.ttl_is("k", 2 * LEASE)
                    self.assertLessEqual(abs(expiry - self.c.cmd("PEXPIRETIME", "k")), 2)
                self.assertEqual(self.run_one(kind, "release", owner=YOU, holds=1), (GONE, 0, 0))
                self.foreign(kind)
                self.assertEqual(self.run_one(kind, "release", holds=1), (GONE, 0, 0))
                self.c.cmd("DEL", "k")
                self.assertEqual(self.run_one(kind, "release", holds=1), (GONE, 0, 0))
                self.assertEqual(self.c.cmd("EXISTS", "k"), 0)

    def test_one_of_many_is_otherwise(self):
        """
        In a wide call whose names have all terms in common: one differs; each of the others has the outcome of a call
        alone.
        """
        states = {"ours": OK, "subscribed": OK, "gone": GONE, "theirs": GONE, "of another type": GONE}
        for kind in LIKE_RLOCK:
            for state, at in itertools.product(states, (0, 4, 8)):
                with self.subTest(kind, state=state, at=at):
                    self.flush()
                    names = ["n%d" % i for i in range(9)]
                    odd = names[at]
                    for n in names:
                        self.held(kind, n)
                    if state in ("gone", "theirs", "of another type"):
                        self.c.cmd("DEL", odd)
                    if state == "theirs":
                        self.held(kind, odd, actor=YOU)
                    elif state == "of another type":
                        self.foreign(kind, odd)
                    with self.listening("ch:" + (odd if state == "subscribed" else "other")) as sub:
                        outcomes = self.run_all(kind, "release", [(n, {}) for n in names])
                        self.received(sub, *[("ch:" + odd, "0")] * (state == "subscribed"))
                    for n, (outcome, woken, expiry) in zip(names, outcomes):
                        self.assertEqual((outcome, woken, expiry),
                                         (states[state], int(state == "subscribed"), 0) if n == odd else (OK, 0, 0), n)
                        self.assertEqual(self.c.cmd("EXISTS", n), n == odd and state in ("theirs", "of another type"))

    def test_frees_without_leave_to_publish(self):
        self.c.cmd("ACL", "SETUSER", "mute", "on", ">p", "~*", "resetchannels", "+@all")
        for kind in KINDS:
            with self.subTest(kind):
                expiry = self.held(kind)
                watcher, self.c = self.c, self.conn(self.r)
                self.assertEqual(self.c.cmd("AUTH", "mute", "p"), "OK")
                self.assertEqual(self.run_one(kind, "release", expiry=expiry), (OK, 0, 0))
                self.c = watcher
                self.assertEqual(self.c.cmd("EXISTS", "k"), 0)
        names = [("n%d" % i, {}) for i in range(9)]
        self.run_all("reentrant", "acquire", names)
        watcher, self.c = self.c, self.conn(self.r)
        self.assertEqual(self.c.cmd("AUTH", "mute", "p"), "OK")
        self.assertEqual(self.run_all("reentrant", "release", names), [(OK, 0, 0)] * 9)
        self.c = watcher
        self.assertEqual(self.c.cmd("EXISTS", *[n for n, _ in names]), 0)

    def test_takes_no_field_but_its_own(self):
        for kind in LIKE_RLOCK:
            self.c.cmd("HSET", "k", ME, 1, YOU, 1)
            self.assertEqual(self.run_one(kind, "release")[0], OK)
            self.assertEqual(self.c.cmd("HGETALL", "k"), [YOU, "1"])

    def test_the_expiry_is_the_proof_of_a_counter(self):
        expiry = self.held("counter")
        for wrong in (0, expiry - 5, expiry + 100, 1):
            self.assertEqual(self.run_one("counter", "release", expiry=wrong), (GONE, 0, 0), wrong)
        self.assertEqual(self.c.cmd("GET", "k"), "1")
        self.c.cmd("INCR", "k")  # a client of another library that did not get the lock
        self.assertEqual(self.run_one("counter", "release", expiry=expiry)[0], OK)

    def test_the_expiry_holds_in_a_long_call(self):
        """Time passes while a call does many names; the proof of the last name must stay exact."""
        names = [("k%d" % i, {}) for i in range(3000)]
        expiries = [expiry for _, _, expiry in self.run_all("counter", "acquire", names)]
        renewed = self.run_all("counter", "renew", [(k, dict(expiry=s)) for (k, _), s in zip(names, expiries)])
        self.assertEqual({outcome for outcome, _, _ in renewed}, {OK})
        freed = self.run_all("counter", "release", [(k, dict(expiry=r[2])) for (k, _), r in zip(names, renewed)])
        self.assertEqual({outcome for outcome, _, _ in freed}, {OK})


class Clear(Scripted):
    def test_clear(self):
        for kind in KINDS:
            with self.subTest(kind):
                self.flush()
                expiry = self.held(kind)
                last = int(self.c.cmd("GET", CLOCK))
                with self.listening("ch:k") as sub:
                    outcome, token, woken = self.run_one(kind, "clear")
                    self.assertEqual((outcome, woken), (OK, 1))
                    self.received(sub, ("ch:k", KIND[kind].wakes))
                    self.assertGreater(token, last)
                    self.assertEqual(self.c.cmd("EXISTS", "k"), 1 if kind == "semaphore" else 0)
                    outcome, again, woken = self.run_one(kind, "clear")
                    self.assertEqual((outcome, woken), (GONE, 1))
                    self.received(sub, ("ch:k", KIND[kind].wakes))
                    self.assertGreater(again, token)
                    self.assertEqual(self.run_one(kind, "release", expiry=expiry), (GONE, 0, 0))

    def test_data_stays(self):
        for kind in KINDS:
            self.foreign(kind)
            with self.listening("ch:k") as sub:
                outcome, pttl, _ = self.run_one(kind, "clear")
                self.received(sub)
                self.assertEqual(outcome, FOREIGN)
                self.assertTrue(50000 < pttl <= 60000)
                self.assertEqual(self.c.cmd("LLEN", "k"), 1)


class Guard(Scripted):
    def test_past_it_nothing_is_done(self):
        for kind in KINDS:
            expiry = self.held(kind, kind)
            for verb in VERBS:
                with self.subTest(kind, verb=verb):
                    was = self.dump(), self.c.cmd("PEXPIRETIME", kind)
                    past = self.now_us() - 1
                    reply = self.run_all(kind, verb, [(kind, dict(expiry=expiry)), ("free", {})], guard=past)
                    self.assertEqual(reply, [(STALE, 0, 0)] * 2)
                    self.assertEqual((self.dump(), self.c.cmd("PEXPIRETIME", kind)), was)

    def test_before_it_all_is_done(self):
        for kind in KINDS:
            self.assertEqual(self.run_one(kind, "acquire", kind, guard=self.now_us() + 60 * 1000000)[0], OK)


class Full(Scripted):
    def test_nothing_is_taken(self):
        for kind in KINDS:
            with self.subTest(kind):
                self.full(False)
                self.flush()
                self.held(kind, "held", actor=YOU)
                self.c.cmd("DEL", CLOCK)
                self.full()
                reply = self.run_all(kind, "acquire", [("a", {}), ("held", {}), ("b", {})])
                self.assertEqual([r[0] for r in reply], [FULL, TAKEN, FULL])
                reply = self.run_all(kind, "acquire", [("n%d" % i, {}) for i in range(9)])
                self.assertEqual([r[0] for r in reply], [FULL] * 9)
                self.assertEqual(self.keys(), sorted(["held"] + [name % "held" for name in KIND[kind].beside]))

    def test_all_that_is_held_can_be_kept_and_freed(self):
        for kind in KINDS:
            with self.subTest(kind):
                self.full(False)
                self.flush()
                expiry = self.held(kind)
                self.full()
                outcome, _, expiry = self.run_one(kind, "renew", expiry=expiry, lease=2 * LEASE)
                self.assertEqual(outcome, OK)
                self.ttl_is("k", 2 * LEASE)
                if kind in LIKE_RLOCK:
                    self.assertEqual(self.run_one(kind, "release", holds=2)[0], OK)
                    self.assertEqual(self.c.cmd("HGETALL", "k"), [ME, "2"])
                self.assertEqual(self.run_one(kind, "release", expiry=expiry)[0], OK)
                self.assertEqual(self.c.cmd("EXISTS", "k"), 0)
                self.assertEqual(self.run_one(kind, "clear")[0], GONE)

    def test_asking_again_needs_no_memory(self):
        for kind in ITSELF:
            with self.subTest(kind):
                self.full(False)
                self.held(kind, kind)
                self.full()
                self.assertEqual(self.run_one(kind, "acquire", kind)[0], OK)
                if kind in HASHES:
                    self.assertEqual(self.run_one(kind, "acquire", kind, holds=2, reentry=1), (FULL, 0, 0))


class Batches(Scripted):
    def test_one_of_each(self):
        """All outcomes in one call: none changes another."""
        self.held("reentrant", "mine")
        self.held("reentrant", "yours", actor=YOU)
        self.c.cmd("SET", "foreign", "x")
        names = [("foreign", {}), ("free", {}), ("yours", {}), ("gone", dict(reentry=1)),
                 ("mine", dict(reentry=1, holds=2)), ("free", dict(owner=YOU))]
        self.assertEqual([r[0] for r in self.run_all("reentrant", "acquire", names)],
                         [FOREIGN, OK, TAKEN, GONE, OK, TAKEN])
        names = [("foreign", {}), ("free", {}), ("yours", {}), ("nothing", {}), ("mine", {})]
        for verb in ("renew", "release"):
            self.assertEqual([r[0] for r in self.run_all("reentrant", verb, names)], [GONE, OK, GONE, GONE, OK], verb)

    def test_refusals_come_as_they_are(self):
        """With their first word, also from the middle of a script."""
        for kind in KINDS:
            expiry = self.held(kind, kind)
            self.c.cmd("CONFIG", "SET", "min-replicas-to-write", 1)
            for verb, key in (("acquire", "free"), ("renew", kind), ("release", kind), ("clear", kind)):
                with self.subTest(kind, verb=verb):
                    reply = self.raw(kind, verb, [(key, dict(expiry=expiry))])
                    self.assertIsInstance(reply, RError)
                    self.assertTrue(reply.startswith("NOREPLICAS "), reply)
            self.c.cmd("CONFIG", "SET", "min-replicas-to-write", 0)
            self.assertEqual(self.c.cmd("EXISTS", kind, "free"), 1)

    def test_names_are_bytes(self):
        key = bytes(range(256)).decode("latin-1").encode("latin-1")
        for kind in KINDS:
            expiry = self.held(kind, key)
            self.assertEqual(self.c.cmd("EXISTS", key), 1)
            self.assertEqual(self.run_one(kind, "release", key, expiry=expiry)[0], OK)
            self.assertEqual(self.c.cmd("EXISTS", key), 0)


class Inspect(Scripted):
    def inspect(self, key="k"):
        reply = self.c.cmd("EVAL", INSPECT, 1, key)
        self.assertEqual([type(x) for x in reply], [int, str, str, int, int, str])
        self.assertLessEqual(abs(reply[0] - self.now_us()), 5 * 1000000)
        return reply[1:]

    def test_fields(self):
        self.assertEqual(self.inspect(), ["none", "", 0, -2, ""])
        self.c.cmd("SET", "k", "x" * 500)
        self.assertEqual(self.inspect(), ["string", "", 1, -1, "x" * 128])
        self.c.cmd("DEL", "k")
        self.held("reentrant", holds=7)
        kind, owner, holds, pttl, value = self.inspect()
        self.assertEqual((kind, owner, holds, value), ("hash", ME, 7, ""))
        self.assertTrue(0 < pttl <= LEASE)
        for i, words in enumerate((("RPUSH", "x"), ("SADD", "x"), ("ZADD", 1, "x"), ("XADD", "*", "f", "v"))):
            self.c.cmd(words[0], "o%d" % i, *words[1:])
            self.assertEqual(self.inspect("o%d" % i)[1:], ["", 0, -1, ""])

    def test_a_hash_that_is_a_locks(self):
        us = YOU[:37]
        for fields, seen in (((YOU, 2), (YOU, 2)), (("mode", "read", YOU, 2), (YOU, 2)),
                             (("mode", "write", YOU + ":write", 3, YOU, 1), (YOU + ":write", 3)),
                             ((YOU, "notanumber"), ("", 0)), (("f", 1), ("", 0)), ((YOU, 1, "f", 1), ("", 0)),
                             ((YOU, 1, "f", "text"), ("", 0)), (("mode", "read"), ("", 0)), ((YOU, -1), ("", 0)),
                             (("mode", "read", YOU, 1, "path", "x"), ("", 0)), ((YOU, "1" * 20), ("", 0)),
                             ((YOU, 1, us + "1", 1), ("", 0)),
                             (["mode", "read"] + [x for i in range(63) for x in (us + str(i), 1)], (us + "0", 1)),
                             (["mode", "read"] + [x for i in range(64) for x in (us + str(i), 1)], ("", 0))):
            with self.subTest(fields=fields[:6]):
                self.c.cmd("DEL", "k")
                self.c.cmd("HSET", "k", *fields)
                self.assertEqual(self.inspect(), ["hash", "", 0, -1, ""])  # a lock would have an expiry
                self.c.cmd("PEXPIRE", "k", LEASE)
                self.assertEqual(tuple(self.inspect()[1:3]), seen)

    def test_it_only_reads(self):
        self.held("reentrant")
        was = self.dump(), self.c.cmd("PEXPIRETIME", "k")
        self.c.cmd("CONFIG", "SET", "min-replicas-to-write", 1)
        self.inspect()
        self.assertEqual((self.dump(), self.c.cmd("PEXPIRETIME", "k")), was)


class Embed(Case):
    def test_every_kind_has_every_verb(self):
        rows = re.findall(r'^SCRIPT\((\w+), (\w+),\n(?:    ".*"\n)*    ".*"((?:, \w+)*)\)$', embed(), re.M)
        self.assertEqual({(kind.lower(), verb.lower()): row for kind, verb, row in rows},
                         {(k, v): embed("columns", k, v) for k in KINDS for v in VERBS})
        for kind, verb in COLUMNS.all():
            terms = TERMS[kind, verb]
            own = len(COLUMNS[kind, verb]) - terms
            self.assertIn("local verb, takes = %s, %s\n" % (verb, "true" if verb == "acquire" else "false"),
                          TEXT[kind, verb])
            self.assertIn("if #ARGV > 4 + %d + %d * (#KEYS - 2) then\n" % (terms, own), TEXT[kind, verb])
            words, = re.findall(r"verb\(KEYS\[i\], (.*)\)\n", TEXT[kind, verb])
            at = [("term", i) for i in range(terms)] + [("own", i) for i in range(own)]
            self.assertEqual(sorted(words.split(", ")),
                             sorted("ARGV[%s%s]" % (of, " + %d" % i if i else "") for of, i in at))

    def test_a_script_has_only_what_it_needs(self):
        for (kind, verb), text in (*TEXT.all().items(), *OF_QUORUM.all().items()):
            defined = re.findall(r"^local function (\w+)", text, re.M)
            for name in set(defined):
                uses = len(re.findall(r"\b%s\b" % name, text)) - defined.count(name)
                self.assertGreater(uses, 0, (kind, verb, name))
            if kind in ("reentrant", "simple", "counter"):
                self.assertNotIn("prefixed", text)

    def test_a_kind_may_go_on_where_another_ends(self):
        self.assertEqual(TEXT["fenced", "renew"], TEXT["reentrant", "renew"])
        self.assertEqual(TEXT["fenced", "release"], TEXT["reentrant", "release"])
        self.assertEqual(re.findall(r"^local function (acquire|plain_\w+)", TEXT["fenced", "acquire"], re.M),
                         ["acquire"] * 2)

    def test_the_header_is_the_scripts(self):
        """The daemon sends the scripts that are tested here: the C strings of the header have the same text."""
        texts = []
        for line in embed().splitlines():
            if line.startswith(("SCRIPT(", "QUORUM_SCRIPT(", "OTHER_SCRIPT(")):
                texts.append("")
            elif line.startswith('    "'):
                texts[-1] += ast.literal_eval(line[4:line.rindex('"') + 1])
        order = [(kind, verb) for kind in sorted(KINDS) for verb in VERBS]
        forms = [form[k] for k in order for form in (TEXT, OF_QUORUM) if k in form.every]
        self.assertEqual(texts, forms + [embed(name) for name in OTHERS])

    def test_what_is_quoted_stays_as_it_is(self):
        """Commands of Redis are words in capitals, too; a number of the same name must not replace them."""
        d = os.path.join(self.dir, "scripts")
        shutil.copytree(SCRIPTS, d)
        with open(os.path.join(d, "simple.lua"), "a") as f:
            f.write("local GET, SET, DEL, PX, PEXPIREAT = 1, 2, 3, 4, 5\n")
        for verb in VERBS:
            out = subprocess.run([os.path.join(d, "embed"), "simple", verb], stdout=subprocess.PIPE, check=True).stdout
            self.assertEqual(out.decode(), TEXT["simple", verb])

    def test_no_shebang(self):
        """A full Redis would refuse a script with a shebang as a whole, also a release."""
        for text in TEXT.all().values():
            self.assertFalse(text.startswith("#!"))


if __name__ == "__main__":
    harness.main()
