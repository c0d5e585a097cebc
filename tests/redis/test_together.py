#!/usr/bin/env python3
"""Those who can have a name together come in together, and what an owner asks for together goes together: how many
calls of scripts that takes, as Redis counts them."""
import re

import harness
from harness import Case, until

MANY = 100


class Together(Case):
    def setUp(self):
        super().setUp()
        self.r = self.redis()
        self.d = self.rlockd(redis=self.r.url, conf="handoff: { time: 10s }\n")  # no matter how slow all this is

    def calls(self):
        stats = self.r.cmd("INFO", "commandstats")
        return sum(int(n) for n in re.findall(r"cmdstat_(?:evalsha|eval|fcall):calls=(\d+)", stats))

    def reads(self):
        return int(re.search(r"total_reads_processed:(\d+)", self.r.cmd("INFO", "stats")).group(1))

    def queue_up(self, conns, *words):
        """They wait, in this order, and Redis has been told all that it is told."""
        for i, c in enumerate(conns):
            c.ask(*words)
            until(lambda: (self.look("a") or {}).get("waiters", 0) == i + 1)

    def look(self, name):
        with self.d.conn() as c:
            rows = c.maps("LOCKS", name)
        return rows[0] if rows else None

    def come_in(self, conns):
        """All are granted it, in the order in which they asked."""
        last = 0
        for c in conns:
            token = c.read()
            self.assertGreater(token, last)
            last = token

    def test_readers_behind_a_writer(self):
        writer, readers = self.conn(self.d), [self.conn(self.d) for _ in range(MANY)]
        writer.cmd("LOCK", "a", "KIND", "rw")
        self.queue_up(readers, "LOCK", "a", "SHARED", "KIND", "rw")
        before = self.calls()
        self.assertEqual(writer.cmd("UNLOCK", "a"), 0)
        self.come_in(readers)
        self.assertLessEqual(self.calls() - before, 4)  # one release; 64 of them, and the rest
        self.assertEqual(self.look("a")["holders"], MANY)

    def test_permits(self):
        other = self.rlockd(redis=self.r.url, name="other")
        semaphore = ("LOCK", "a", "KIND", "semaphore", "LIMIT", str(MANY))
        holder, takers = self.conn(other), [self.conn(self.d) for _ in range(MANY)]
        for _ in range(MANY):
            holder.ask(*semaphore)
        self.come_in([holder] * MANY)
        self.queue_up(takers, *semaphore)
        before = self.calls()
        holder.close()
        self.come_in(takers)
        # Two calls free them; the first taker may ask between these, and again; then 64, and the rest.
        self.assertLessEqual(self.calls() - before, 8)
        self.assertEqual(self.look("a")["holders"], MANY)

    def test_a_permit_goes_on_in_one_trip(self):
        """What is given back and the next attempt leave together: Redis reads once for both."""
        semaphore = ("LOCK", "a", "KIND", "semaphore", "LIMIT", "1")
        conns = [self.conn(self.d) for _ in range(2)]
        conns[0].cmd(*semaphore)
        calls, reads = self.calls(), self.reads()
        for i in range(1, 41):
            conns[i % 2].ask(*semaphore)
            until(lambda: self.look("a")["waiters"] == 1)
            conns[1 - i % 2].cmd("UNLOCK", "a")
            conns[i % 2].read()
        self.assertLessEqual(self.calls() - calls, 2 * 40 + 10)  # heartbeats are among them
        self.assertLessEqual(self.reads() - reads, 60)           # ... here too

    def test_many_names_of_one_owner(self):
        """requests that cannot wait for each other, in one write"""
        c, n = self.conn(self.d), 256
        for verb in ("LOCK n%d NOWAIT", "RENEW n%d 60s", "UNLOCK n%d"):
            before = self.calls()
            c.send("".join(verb % i + "\r\n" for i in range(n)))
            replies = [c.read() for _ in range(n)]
            self.assertEqual(replies == [0] * n, verb.startswith("UNLOCK"))
            self.assertTrue(all(isinstance(r, int) for r in replies), replies)
            self.assertLessEqual(self.calls() - before, n // 8, verb)  # 64 at a time; one for each without that

    def test_many_names_of_one_request(self):
        """MLOCK takes one after the other, in everyone's order; given back they go together"""
        c, names = self.conn(self.d), ["n%d" % i for i in range(60)]
        self.assertEqual(len(c.cmd("MLOCK", len(names), *names)), len(names))
        before = self.calls()
        self.assertEqual(c.cmd("MUNLOCK", len(names), *names), [0] * len(names))
        self.assertLessEqual(self.calls() - before, 4)


if __name__ == "__main__":
    harness.main()
