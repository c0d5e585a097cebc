#!/usr/bin/env python3
"""A fleet of daemons, as scripts/presence.lua sees it (fleet.py): what beats cost, and how many words a grace takes."""
import os

import harness
from fleet import Fleet, encoded
from harness import Case


class Fleets(Case):
    def fleet(self, n):
        directory = os.path.join(self.dir, "fleet-%d" % n)
        os.mkdir(directory)
        f = Fleet(n, directory)
        self.addCleanup(f.close)
        return f

    def registered(self, n):
        """All are there and know of each other. Nobody listens: nobody has to."""
        f = self.fleet(n)
        for _ in range(2):
            for d in f.daemons:
                f.talk.send(encoded(d.words(f.lease_ms, page=10000)))
                d.hear(f.answers.one())
        self.assertEqual({len(d.peers) for d in f.daemons}, {n - 1})
        return f

    def test_a_beat_costs_the_same(self):
        few, many = self.registered(10), self.registered(1000)
        ratio = None
        for _ in range(5):  # of processors that others use as well
            us_few, commands_few, *bytes_few = few.beats(2000)
            us_many, commands_many, *bytes_many = many.beats(2000)
            self.assertAlmostEqual(commands_few, commands_many, delta=0.5)
            for a, b in zip(bytes_few, bytes_many):
                self.assertLess(b, 1.1 * a + 10)
            ratio = min(ratio or 100, us_many / us_few)
            if ratio <= 1.5:
                break
        self.assertLessEqual(ratio, 1.5)

    def test_nobody_is_forgotten(self):
        """300 members, one of them silent for 7 s, but inside its lease."""
        f = self.registered(300)
        silent, *others = f.daemons
        f.c.cmd("ZINCRBY", "rlock:until", -7000, silent.uuid)
        for d in others[:40]:
            f.talk.send(encoded(d.words(f.lease_ms)))
            d.hear(f.answers.one())
            self.assertIn(silent.uuid, d.peers)
        self.assertEqual(f.c.cmd("HLEN", "rlock:members"), 300)

    def test_a_grace_with_all_alive(self):
        """It is over when all have reported: each asks, comes again at most a few times, reports, and hears the end."""
        f = self.fleet(60)
        f.start()
        seconds = f.grace()
        self.assertLess(seconds, f.lease_ms / 2000)
        self.assertLess(f.calls, 10 * len(f.daemons))
        self.assertEqual(f.c.cmd("HLEN", "rlock:members"), 60)

    def test_a_start_of_all(self):
        """A newcomer makes nobody register: each asks who is there, and that is all."""
        f = self.fleet(60)
        f.start()
        self.assertLess(f.calls, 4 * len(f.daemons))
        for d in f.daemons:
            f.talk.send(encoded(d.words(f.lease_ms)))
            d.hear(f.answers.one())
            self.assertEqual(len(d.peers), 59)


if __name__ == "__main__":
    harness.main()
