#!/usr/bin/env python3
"""A fleet of daemons, as the scripts see it: the cost of beats, and the number of messages in a grace period. fleet.py:
membership.lua of one Redis; fleet_cluster.py: anchor.lua and node.lua of a cluster.
"""
import os
import time

import harness
from fleet import Fleet, encoded
from fleet_cluster import KEYS, SLOTS, ClusterFleet
from harness import Case


def costs_the_same(case, of_few, of_many):
    """
    Both functions return us, commands, bytes of a beat in and out: with many daemons a beat costs what it costs with
    few.
    """
    ratio = None
    for _ in range(5):  # other processes use the processors as well
        us_few, commands_few, *bytes_few = of_few()
        us_many, commands_many, *bytes_many = of_many()
        case.assertAlmostEqual(commands_few, commands_many, delta=0.5)
        for a, b in zip(bytes_few, bytes_many):
            case.assertLess(b, 1.1 * a + 10)
        ratio = min(ratio or 100, us_many / us_few)
        if ratio <= 1.5:
            break
    case.assertLessEqual(ratio, 1.5)


class Fleets(Case):
    def fleet(self, n):
        directory = os.path.join(self.dir, "fleet-%d" % n)
        os.mkdir(directory)
        f = Fleet(n, directory)
        self.addCleanup(f.close)
        return f

    def registered(self, n):
        """All are registered and know of each other. None subscribes, since none has to."""
        f = self.fleet(n)
        for _ in range(2):
            for d in f.daemons:
                f.talk.send(encoded(d.words(f.lease_ms, page=10000)))
                d.take_answer(f.answers.one())
        self.assertEqual({len(d.peers) for d in f.daemons}, {n - 1})
        return f

    def test_a_beat_costs_the_same(self):
        few, many = self.registered(10), self.registered(1000)
        costs_the_same(self, lambda: few.beats(2000), lambda: many.beats(2000))

    def test_no_member_is_forgotten(self):
        """300 members, one of them silent for 7 s, but within its lease."""
        f = self.registered(300)
        silent, *others = f.daemons
        f.c.cmd("ZINCRBY", "rlock:until", -7000, silent.uuid)
        for d in others[:40]:
            f.talk.send(encoded(d.words(f.lease_ms)))
            d.take_answer(f.answers.one())
            self.assertIn(silent.uuid, d.peers)
        self.assertEqual(f.c.cmd("HLEN", "rlock:members"), 300)

    def test_a_grace_with_all_alive(self):
        """
        It is over when all have reported: each asks, asks again a few times at most, reports, and learns of the end.
        """
        f = self.fleet(60)
        f.start()
        seconds = f.grace()
        self.assertLess(seconds, f.lease_ms / 2000)
        self.assertLess(f.calls, 10 * len(f.daemons))
        self.assertEqual(f.c.cmd("HLEN", "rlock:members"), 60)

    def test_a_start_of_all(self):
        """A newcomer makes no member register: each only asks for the members."""
        f = self.fleet(60)
        f.start()
        self.assertLess(f.calls, 4 * len(f.daemons))
        for d in f.daemons:
            f.talk.send(encoded(d.words(f.lease_ms)))
            d.take_answer(f.answers.one())
            self.assertEqual(len(d.peers), 59)


class Clusters(Case):
    def fleet(self, n):
        directory = os.path.join(self.dir, "fleet-%d" % n)
        os.mkdir(directory)
        f = ClusterFleet(n, directory)
        self.addCleanup(f.close)
        f.start(proposers=1)
        return f

    def test_a_beat_costs_the_same(self):
        few, many = self.fleet(10), self.fleet(1000)
        def without_scripts(us, _, commands, *size):
            return us, commands, *size
        costs_the_same(self, lambda: without_scripts(*few.beats(100)), lambda: without_scripts(*many.beats(1)))

    def test_no_member_is_forgotten(self):
        """300 members, one of them silent for 7 s, but within its lease: a generation is not over without it."""
        f = self.fleet(300)
        silent, *others = f.members
        for keys, c in zip(KEYS, f.conns):
            c.cmd("ZINCRBY", keys[0], -7000, silent.uuid)
        f.register(others, slots=["0-100"], number=1 << 51)
        over = list(others[0].version)
        for m in others:
            m.back = list(m.version)
        f.register(others)
        for keys, c in zip(KEYS, f.conns):
            self.assertEqual(c.cmd("ZCARD", keys[0]), 301)  # and "#"
        self.assertTrue(all(d < v for m in others for d, v in zip(m.done, over)))
        f.register([silent])
        silent.back = list(silent.version)
        f.register([silent])
        f.register(others)
        self.assertEqual({tuple(m.done) for m in others}, {tuple(over)})

    def test_a_generation_with_all_alive(self):
        """Each proposes the generation, reports, and learns of its end: no message makes others send more."""
        f = self.fleet(60)
        _, _, calls = f.generation()
        self.assertLess(calls, 3 * 4 * len(f.members))

    def test_a_proposal_that_comes_late_costs_no_more_than_a_few_beats(self):
        """All daemons notice a loss, and all propose a generation: one proposal is taken."""
        f = self.fleet(100)
        for slots in (SLOTS, SLOTS[1:2]):
            number, ratio = int(time.time() * 1e6), 100
            f.register(f.members[:1], slots=slots, number=number)
            for _ in range(5):  # other processes use the processors as well
                us = [f.cost(lambda: f.register(f.members)),
                      f.cost(lambda: f.register(f.members, slots=slots, number=number))]
                ratio = min(ratio, us[1] / us[0])
                if ratio <= 4:
                    break
            self.assertLessEqual(ratio, 4)

    def test_a_generation_with_three_dead(self):
        """It is over when their registered leases are over, and not before."""
        f = self.fleet(60)
        f.lease_ms = 2000
        seconds, _, _ = f.generation(dead=3)
        self.assertGreater(seconds, 1)


if __name__ == "__main__":
    harness.main()
