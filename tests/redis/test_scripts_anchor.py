#!/usr/bin/env python3
"""test_scripts_anchor.py -- the scripts of a cluster's grace periods on a real Redis: node, anchor, record
(proto/SCRIPTS.md).
"""
import random
import re
import uuid

import harness
from scripted import Case, embed

NODE, ANCHOR, RECORD = embed("node"), embed("anchor"), embed("record")
VOTES, ABSTAINS, WANTS, DUPLICATE = 1, 2, 3, 4
LEASE, LISTS = 30000, 6100
O1, O2 = "1111111111111111", "2222222222222222"
# The clock of Redis, ahead by %d ms.
CLOCK = """local true_call, real = redis.call, redis
local redis = setmetatable({call = function(...)
    local r = true_call(...)
    if ... == 'TIME' then
        local us = r[1] * 1000000 + r[2] + %d * 1000
        r = {math.floor(us / 1000000), us %% 1000000}
    end
    return r
end}, {__index = real})
"""


class Answer:
    def __init__(self, r):
        (self.time, self.status, self.new, self.birth, self.version, self.done, self.longest, self.floor,
         self.list, self.bits, self.owners) = r[:11]
        self.entries = [(int(n), o, int(since), int(v), ranges) for n, o, since, v, ranges in
                        (re.match(r"(\d+) (\w+) (\d+) (\d+) (.*)$", e).groups() for e in r[11:])]

    @property
    def ranges(self):
        return {e[0]: e[4] for e in self.entries}


class Daemon:
    """A daemon's knowledge of one anchor."""

    def __init__(self, case, n, **more):
        self.case, self.uuid, self.nonce, self.more = case, str(uuid.UUID(int=n)), "%016x" % n, more
        self.birth = self.version = self.back = 0

    def register(self, at=None, begins=(), bits=(), **more):
        c = dict(lease=LEASE, strict=0, leaving=0, holds=0, lists=0, suspect=0, longest=0, brings=0, both=0, one="",
                 two="", former="", back=self.back, floor=0, owners="0 0 0")
        c.update(self.more)
        c.update(more)
        lines = "".join("%d %s %d %d %s\n" % b for b in begins)
        words = [self.uuid, self.nonce, c["former"], c["lease"], c["strict"], c["leaving"], c["holds"], c["lists"],
                 self.birth, self.version, c["back"], c["suspect"], c["longest"], lines,
                 " ".join("%d %d" % b for b in bits), c["brings"], c["both"], c["one"], c["two"], c["floor"],
                 c["owners"]]
        at = at or self.case.anchor
        keys = ["rlock:{%s}:%s" % (at, k) for k in ("seen", "who", "gen", "back", "used")]
        r = self.case.c.cmd("EVAL", CLOCK % self.case.ahead + ANCHOR, 5, *keys, *words)
        self.case.assertIsInstance(r, list, r)
        a = Answer(r)
        if a.status != DUPLICATE:
            self.birth, self.version = a.birth, a.version
        return a


class Anchored(Case):
    anchor = "a"

    def setUp(self):
        super().setUp()
        self.r = self.redis()
        self.c = self.conn(self.r)
        self.ahead = 0

    def daemons(self, n=2):
        """The anchor votes, as in a cluster whose three anchors are new; the daemons are its members."""
        all_ = [Daemon(self, i + 1) for i in range(n)]
        a = all_[0].register()
        self.assertEqual((a.status, a.new), (WANTS, 1))
        self.assertEqual(all_[0].register(brings=a.birth, both=1).status, VOTES)
        for d in all_[1:]:
            self.assertEqual(d.register().status, VOTES)
        for d in all_:
            d.more = {"holds": 1}
        return all_


class Anchor(Anchored):
    def test_a_generation_is_over_when_all_members_are_back(self):
        one, two = self.daemons()
        a = one.register(begins=[(100, O1, 7, 1, "0-5460")])
        self.assertEqual((a.entries, a.version, a.done), ([(100, O1, 7, 1, "0-5460")], 1, 0))
        self.assertEqual(one.register(back=1).done, 0)
        a = two.register()
        self.assertEqual((len(a.entries), a.done), (1, 0))
        self.assertEqual(two.register(back=1).done, 1)
        self.assertEqual(one.register(back=0).done, 1)  # the number only rises
        self.assertEqual(one.register().entries, [])

    def test_full(self):
        """In a Redis that takes no write which needs memory, registrations and generations go on."""
        self.c.cmd("CONFIG", "SET", "maxmemory", 1)
        one, two = self.daemons()
        one.register(begins=[(100, O1, 7, 1, "0-5460")], bits=[(3, 100)])
        self.assertEqual(one.register(back=1).done, 0)
        two.register()
        self.assertEqual(two.register(back=1).done, 1)
        self.c.cmd("FLUSHALL")
        self.assertEqual(one.register().status, ABSTAINS)

    def test_a_newcomer_is_not_waited_for_unless_it_may_hold_locks(self):
        one, _ = self.daemons()
        one.register(begins=[(100, O1, 7, 1, "0-5460")])
        three, four = Daemon(self, 3), Daemon(self, 4, holds=1)
        one.register(back=1)
        Daemon(self, 2).register(leaving=1)
        self.assertEqual(three.register().done, 1)
        self.assertEqual(four.register().done, 0)
        self.assertEqual(four.register(back=1).done, 1)

    def test_silence_is_waited_for_a_lease_from_the_last_registration(self):
        one, two = self.daemons()
        one.register(begins=[(100, O1, 7, 1, "0")])
        self.ahead = 20000
        two.register()
        one.register(back=1)
        self.ahead = 20000 + LEASE - 100
        self.assertEqual(one.register(back=1).done, 0)
        self.ahead += 200
        self.assertEqual(one.register(back=1).done, 1)

    def test_only_its_own_process_leaves_for_a_member(self):
        one, two = self.daemons()
        late = Daemon(self, 2)
        late.nonce = "f" * 16
        self.assertEqual(late.register().status, DUPLICATE)
        late.register(former=two.nonce)
        two.register(leaving=1, former=late.nonce)
        one.register(begins=[(100, O1, 7, 1, "0")])
        self.assertEqual(one.register(back=1).done, 0)

    def test_the_highest_token_is_of_all_members(self):
        one, two = self.daemons()
        one.register(floor=2 ** 52)
        self.assertEqual(two.register(floor=7).floor, 2 ** 52)

    def test_two_that_begin_at_once(self):
        one, two = self.daemons()
        one.register(begins=[(100, O1, 7, 1, "0-99")])
        self.assertEqual(one.register(begins=[(200, O1, 7, 100, "0-9")]).version, 2)
        a = two.register(begins=[(300, O1, 7, 100, "5-20")])  # it did not know of 200
        self.assertEqual((a.version, a.ranges), (2, {100: "10-99", 200: "0-9"}))
        self.assertEqual(two.register(begins=[(300, O1, 7, 200, "5-20")]).ranges, {300: "5-20"})
        self.assertEqual(Daemon(self, 9).register().ranges, {100: "21-99", 200: "0-4", 300: "5-20"})

    def test_passed_on_it_takes_what_is_not_above_it(self):
        one, _ = self.daemons()
        one.register(begins=[(200, O1, 7, 1, "10-19 30")])
        a = one.register(begins=[(100, O2, 6, 0, "0-40")])
        self.assertEqual(a.ranges, {100: "0-9 20-29 31-40"})
        a = one.register(begins=[(90, O2, 6, 0, "0-40"), (300, O1, 9, 0, "0-9 20-29 31-40")])
        self.assertEqual(a.ranges, {300: "0-9 20-29 31-40"})
        self.assertEqual(set(Daemon(self, 9).register().ranges), {200, 300})

    def test_bits_are_of_a_generation(self):
        one, two = self.daemons()
        one.register(begins=[(100, O1, 7, 1, "0-16383")])
        self.assertEqual(one.register(bits=[(5, 100), (16383, 100), (5, 99)]).bits, "002")
        self.assertEqual(two.register(bits=[(5, 100), (6, 100)]).bits, "10")
        one.register(begins=[(200, O1, 8, 100, "0-20 16383")])
        self.assertEqual(one.register(bits=[(5, 200), (6, 200), (16383, 200), (16382, 100)]).bits, "0000")
        self.assertEqual(two.register(bits=[(5, 200), (6, 100)]).bits, "12")

    def test_many_generations_come_in_parts_and_only_then_count(self):
        one, two = self.daemons()
        for first in range(0, 1200, 100):
            one.register(begins=[(1000 + i, O1, 7, 1, str(i)) for i in range(first, first + 100)])
        a = two.register()
        self.assertEqual((a.status, len(a.entries), a.version), (ABSTAINS, 1000, 1000))
        a = two.register()
        self.assertEqual((a.status, len(a.entries), a.version), (VOTES, 200, 1200))


    def test_generations_begin_as_in_a_model(self):
        """
        Random proposals, and generations that began at other anchors: the slots that they get, and the bits that can be
        set.
        """
        rng = random.Random(3)
        one, _ = self.daemons()
        state, numbers, taken, late = {}, [], 0, 0
        for at in range(400):
            begins = []
            for _ in range(rng.randint(1, 3)):
                if numbers and rng.random() < 0.4:
                    number = rng.choice(numbers)
                else:
                    number = rng.randint(1000 + 2 * at, 1100 + 2 * at)
                expected = rng.choice((0, number - 1, rng.randint(1, number)))
                ranges = [(first, first + rng.randint(0, 9)) for first in range(rng.randint(0, 20), 60, 20)]
                slots = [slot for first, last in ranges for slot in range(first, last + 1)]
                gets = [slot for slot in slots if state.get(slot, 0) < number and
                        (expected == 0 or state.get(slot, 0) <= expected)]
                if expected == 0 or gets == slots:
                    state.update((slot, number) for slot in gets)
                    numbers.append(number)
                    taken += len(gets)
                else:
                    late += 1
                begins.append((number, O1, 7, expected, " ".join("%d-%d" % r for r in ranges)))
            slot = rng.randint(0, 69)
            number = rng.choice([state.get(slot, 1), *numbers[-3:], 1])
            one.version = 0  # so it receives all entries
            a = one.register(begins=begins, bits=[(slot, number)])
            outcomes = {s: n for n, ranges in a.ranges.items() for r in ranges.split()
                    for s in range(int(r.split("-")[0]), int(r.split("-")[-1]) + 1)}
            self.assertEqual(outcomes, state, begins)
            self.assertEqual(a.bits == "2", state.get(slot) != number, (slot, number))
        self.assertGreater(taken, 1000)
        self.assertGreater(late, 100)

    def test_thousands_are_passed_on_in_a_time_that_rises_with_their_number(self):
        one, _ = self.daemons()
        self.c.cmd("CONFIG", "RESETSTAT")
        one.register(begins=[(1000 + i, O1, 7, 0, "%d %d" % (i, i + 8000)) for i in range(4000)])
        us = sum(int(re.search(r"usec=(\d+)", line)[1]) for line in self.c.cmd("INFO", "commandstats").split("\r\n")
                 if line.startswith("cmdstat_eval"))
        self.assertLess(us, 2000000 * harness.SLOW)  # it was 12 s in an earlier version
        self.assertEqual(self.c.cmd("HLEN", "rlock:{a}:gen"), 4001)

    def test_what_is_passed_on_in_parts_is_one_generation(self):
        one, two = self.daemons()
        one.register(begins=[(100, O1, 7, 0, "0-4")])
        one.register(begins=[(90, O2, 7, 0, "0-9")])
        a = two.register(begins=[(100, O1, 7, 0, "3-6")])
        self.assertEqual(a.ranges, {100: "0-6", 90: "7-9"})
        self.assertEqual(Daemon(self, 9).register().ranges, {100: "0-6", 90: "7-9"})

    def test_of_a_message_the_highest_number_has_a_slot(self):
        one, _ = self.daemons()
        a = one.register(begins=[(100, O1, 7, 0, "0-9"), (200, O1, 8, 0, "0-9"), (150, O1, 8, 0, "5-10"),
                             (300, O1, 9, 150, "10"), (301, O1, 9, 199, "9")])
        self.assertEqual(a.ranges, {200: "0-9", 300: "10"})

    def test_a_number_that_leaves_no_room_for_later_ones_is_none(self):
        one, two = self.daemons()
        one.register(begins=[(100, O1, 7, 1, "0-9")])
        for number, words in (("4503599627370496", "%s 7 1 3" % O1), ("99999999999999999999", "%s 7 1 3" % O1),
                              ("x", "%s 7 1 3" % O1), ("101", "no entry")):
            self.c.cmd("HSET", "rlock:{a}:gen", number, words)
        self.assertEqual(two.register().ranges, {100: "0-9"})
        self.assertEqual(one.register(begins=[(2 ** 52, O1, 7, 100, "0")]).entries, [])
        self.assertEqual(one.register(begins=[(2 ** 52 - 1, O1, 7, 100, "0")]).ranges, {2 ** 52 - 1: "0"})
        self.assertEqual(self.c.cmd("HLEN", "rlock:{a}:gen"), 3)


class Owners(Anchored):
    def test_the_highest_that_a_member_knew_of(self):
        one, two = self.daemons()
        self.assertEqual(one.register().owners, "0 0 0")
        self.assertEqual(one.register(owners="5 0 9007199254740991").owners, "5 0 9007199254740991")
        self.assertEqual(two.register(owners="4 7 6").owners, "5 7 9007199254740991")


class Lost(Anchored):
    def test_an_anchor_is_not_new_if_a_daemon_knows_of_data(self):
        one = Daemon(self, 1)
        a = one.register()
        two = Daemon(self, 2)
        two.birth = 77
        self.assertEqual(two.register().new, 0)
        self.assertEqual(one.register(brings=a.birth, both=1).status, ABSTAINS)

    def test_strict_and_flushed_ones_are_not_new(self):
        self.assertEqual(Daemon(self, 1, strict=1).register().new, 0)
        self.c.cmd("FLUSHALL")
        self.assertEqual(Daemon(self, 1).register().new, 0)

    def lose(self):
        self.c.cmd("FLUSHALL")

    def lists(self, *of):
        """
        The lists of two other anchors where they are members; their registrations at the second anchor end sooner.
        """
        one, two = (" ".join("%s %d" % (d.uuid, ms // less) for d, ms in of) for less in (1, 100))
        return dict(one=one + "|", two=two + "|\x01")

    def test_it_votes_when_all_that_others_know_are_there(self):
        one, two, three = self.daemons(3)
        birth = one.birth
        self.lose()
        a = one.register()
        self.assertEqual((a.status, a.new), (ABSTAINS, 0))
        self.assertGreater(a.birth, birth)
        self.ahead = LISTS - 100
        self.assertEqual(one.register().status, ABSTAINS)
        self.ahead = LISTS + 1
        a = one.register()
        self.assertEqual(a.status, WANTS)
        self.assertEqual(two.register().status, ABSTAINS)  # one daemon is asked at a time
        lists = self.lists((one, 25000), (two, 25000), (three, 1000), (Daemon(self, 8), 5000))
        a = one.register(brings=a.birth, **lists)
        self.assertEqual(a.status, ABSTAINS)
        self.assertEqual(two.register().status, ABSTAINS)
        self.ahead += 4900
        self.assertEqual(two.register().status, ABSTAINS)
        self.ahead += 200
        self.assertEqual(two.register().status, VOTES)

    def test_bits_come_back_with_the_lists(self):
        one, _ = self.daemons()
        self.lose()
        one.register()
        self.ahead = LISTS + 1
        a = one.register(begins=[(100, O1, 7, 0, "0-16383")])
        one.register(brings=a.birth, **self.lists((one, 100)))
        self.assertEqual(one.register(bits=[(7, 100), (6, 100)]).bits, "10")

    def test_a_key_of_another_type_is_a_loss(self):
        types = {"seen": "zset", "who": "hash", "gen": "hash", "back": "zset", "used": "string"}
        for key in types:
            with self.subTest(key):
                self.c.cmd("FLUSHALL")
                self.c.cmd("CONFIG", "RESETSTAT")  # which forgets the FLUSHALL
                one, _ = self.daemons()
                birth = one.birth
                self.c.cmd("DEL", "rlock:{a}:" + key)
                self.c.cmd("RPUSH", "rlock:{a}:" + key, "x")
                a = Daemon(self, 3).register()
                self.assertEqual((a.status, a.new), (ABSTAINS, 0))
                self.assertGreater(a.birth, birth)
                self.assertEqual(one.register().status, ABSTAINS)
                for k, expected in types.items():
                    self.assertEqual(self.c.cmd("TYPE", "rlock:{a}:" + k), expected)

    def test_lists_for_another_birth_are_none(self):
        one, _ = self.daemons()
        birth = one.birth
        self.lose()
        self.ahead = LISTS + 1
        one.register()
        one.register(brings=birth, **self.lists((one, 0)))
        self.assertEqual(one.register().status, ABSTAINS)

    def test_a_lease_and_a_half_is_enough(self):
        one, _ = self.daemons()
        self.lose()
        one.register(longest=2 * LEASE)
        self.ahead = 3 * LEASE - 100
        self.assertNotEqual(one.register().status, VOTES)
        self.ahead += 200
        self.assertEqual(one.register().status, VOTES)

    def test_the_longest_lease_is_that_of_a_member(self):
        one, two = self.daemons()
        day = Daemon(self, 3, lease=86400000)
        for d in (day, one, two):
            self.assertEqual(d.register().longest, 86400000)
        day.register(leaving=1)
        self.assertEqual(one.register().longest, LEASE)
        self.assertEqual(one.register(longest=86400000).longest, LEASE)  # a report of an anchor without this lease
        Daemon(self, 4).register(leaving=1, lease=86400000)  # it was no member
        self.assertEqual(one.register().longest, LEASE)
        two.register(lease=2 * LEASE)
        self.assertEqual(one.register().longest, 2 * LEASE)
        two.register()
        self.assertEqual(one.register().longest, LEASE)
        two.register(lease=2 * LEASE)
        self.ahead = 2 * LEASE - 100
        self.assertEqual(one.register().longest, 2 * LEASE)
        self.ahead += 200
        self.assertEqual(one.register().longest, LEASE)
        self.assertEqual(one.register(former=one.nonce, lease=2 * LEASE).longest, 2 * LEASE)

    def test_the_longest_lease_only_rises_while_members_may_be_unknown(self):
        one, two = self.daemons()
        self.lose()
        self.assertEqual(one.register(longest=3 * LEASE).longest, 3 * LEASE)
        self.assertEqual(two.register(leaving=1).longest, 3 * LEASE)
        self.ahead = LISTS + 1
        a = one.register()
        self.assertEqual((a.status, a.longest), (WANTS, 3 * LEASE))
        a = one.register(brings=a.birth, **self.lists((one, 1), (two, 5000)))
        self.assertEqual((a.status, a.longest), (ABSTAINS, 3 * LEASE))
        self.ahead += 5001
        a = one.register()
        self.assertEqual((a.status, a.longest), (VOTES, LEASE))
        self.lose()
        one.register(longest=2 * LEASE)
        self.ahead += 3 * LEASE + 1
        a = one.register()
        self.assertEqual((a.status, a.longest), (VOTES, LEASE))

    def test_which_slots_are_in_use_is_not_known_without_lists(self):
        """
        A daemon that finds the bit set looks for the slot's record, and takes the data for lost where there is none.
        """
        one, _ = self.daemons()
        self.lose()
        one.register()
        self.ahead = 3 * LEASE // 2 + 100
        self.assertEqual(one.register().status, VOTES)
        self.assertEqual(one.register(begins=[(100, O1, 7, 0, "0-16383")]).status, VOTES)
        self.assertEqual(one.register(bits=[(7, 100), (16383, 100)]).bits, "11")
        one.register(begins=[(101, O1, 7, 100, "7")])
        self.assertEqual(one.register(bits=[(7, 101)]).bits, "0")

    def test_members_that_come_back_have_reclaimed_nothing(self):
        one, two = self.daemons()
        one.register(begins=[(100, O1, 7, 1, "0")])
        for d in (one, two):
            d.register(back=1)
        self.lose()
        a = one.register(begins=[(100, O1, 7, 0, "0")], back=1)
        self.assertEqual(a.done, 0)
        self.assertEqual(one.register(back=1).done, 1)

    def test_a_key_that_is_missing_is_a_loss(self):
        for key in ("seen", "who", "gen", "back", "used"):
            self.anchor = key
            one, _ = self.daemons()
            self.c.cmd("DEL", "rlock:{%s}:%s" % (key, key))
            self.assertEqual(one.register().status, ABSTAINS)

    def test_another_origin_is_a_loss_but_generations_stay(self):
        one, _ = self.daemons()
        one.register(begins=[(100, O1, 7, 1, "0")])
        head = self.c.cmd("HGET", "rlock:{a}:gen", "#")
        self.c.cmd("HSET", "rlock:{a}:gen", "#", re.sub(r"^(\d+) \w+", r"\1 " + O2, head))
        a = one.register()
        self.assertEqual((a.status, a.ranges), (ABSTAINS, {100: "0"}))

    def test_its_slot_was_open(self):
        one, _ = self.daemons()
        now = one.register().time
        self.assertEqual(one.register(suspect=now).status, ABSTAINS)
        self.ahead = LISTS + 1
        a = one.register(suspect=now)
        self.assertEqual(one.register(suspect=now, brings=a.birth, **self.lists((one, 100))).status, VOTES)
        self.assertEqual(one.register(suspect=now).status, VOTES)


class Record(Anchored):
    def register(self, number, mode):
        return self.c.cmd("EVAL", RECORD, 1, "rlock:{a}:epoch", number, mode)[1:]

    def test_it_only_rises_and_is_not_opened_into_being(self):
        for number, mode, is_ in ((5, "read", [0, 0]), (5, "open", [0, 0]), (5, "reclaim", [5, 0]),
                                  (4, "grant", [5, 0]), (6, "open", [5, 0]), (5, "grant", [5, 0]),
                                  (5, "open", [5, 1]), (5, "reclaim", [5, 1]), (9, "grant", [9, 1]),
                                  (5, "open", [9, 1]), (10, "reclaim", [10, 0]), (0, "read", [10, 0]),
                                  (1, "spoil", [10, 2]), (10, "open", [10, 2]), (10, "grant", [10, 2]),
                                  (11, "reclaim", [11, 0])):
            self.assertEqual(self.register(number, mode), is_, (number, mode))
        self.assertEqual(self.c.cmd("GET", "rlock:{a}:epoch"), "11 0 0")
        self.c.cmd("DEL", "rlock:{a}:epoch")
        self.assertEqual(self.register(1, "spoil"), [0, 0])

    def test_a_number_that_leaves_no_room_for_later_ones_is_none(self):
        for number in ("4503599627370496", "9007199254740993", "4611686018427387905", "99999999999999999999"):
            for phase in (" 0", " 0 0", " 0 1"):
                self.c.cmd("SET", "rlock:{a}:epoch", number + phase)
                self.assertEqual(self.register(0, "read"), [0, 0])
                self.assertEqual(self.register(3, "open"), [0, 0])
                self.assertEqual(self.register(3, "spoil"), [0, 0])
                self.assertEqual(self.register(3, "reclaim"), [3, 0])
        self.c.cmd("SET", "rlock:{a}:epoch", "4503599627370495 0")
        self.assertEqual(self.register(3, "grant"), [2 ** 52 - 1, 1])

    def test_full(self):
        self.c.cmd("CONFIG", "SET", "maxmemory", 1)
        self.assertEqual(self.register(3, "reclaim"), [3, 0])
        self.assertEqual(self.register(3, "open"), [3, 1])
        self.assertEqual(self.register(3, "spoil"), [3, 2])

    def test_a_key_of_another_type_is_none(self):
        self.c.cmd("RPUSH", "rlock:{a}:epoch", "x")
        self.assertEqual(self.register(3, "grant"), [3, 1])


class Node(Case):
    def setUp(self):
        super().setUp()
        self.r = self.redis(tcp=True, args=("--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf",
                                            "--cluster-port", str(harness.free_port())))
        self.c = self.conn(self.r)

    def test_what_it_says_of_itself(self):
        self.c.cmd("CLUSTER", "ADDSLOTS", *range(10), 16383)
        other = "f" * 40
        time, role, origin, id_, epoch, slots, open_ = self.c.cmd("EVAL", NODE, 0)
        self.assertEqual((role, id_, epoch, slots, open_), ("master", self.c.cmd("CLUSTER", "MYID"), 0, "0-9 16383",
                                                            ""))
        self.assertEqual(self.c.cmd("EVAL", NODE, 0)[2], origin)
        # the node does not know the other one
        self.assertIn("ERR", str(self.c.cmd("CLUSTER", "SETSLOT", 3, "MIGRATING", other)))
        self.assertEqual(self.c.cmd("CLUSTER", "BUMPEPOCH").split()[0], "BUMPED")
        again = self.c.cmd("EVAL", NODE, 0)
        self.assertEqual(again[4], 1)
        self.assertNotEqual(again[2], origin)
        self.assertGreater(again[0], time)


if __name__ == "__main__":
    harness.main()
