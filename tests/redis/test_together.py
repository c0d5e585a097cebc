#!/usr/bin/env python3
"""Owners that can hold a name together are granted it together, and the requests of one owner go to Redis together: the
number of calls of scripts, by Redis's own count.
"""
import re

import harness
from harness import Case, until

MANY = 100


class Together(Case):
    def setUp(self):
        super().setUp()
        self.r = self.redis()
        self.d = self.rlockd(redis=self.r.url, conf="handoff: { time: 10s }\n")  # longer than any delay here

    def calls(self):
        stats = self.r.cmd("INFO", "commandstats")
        return sum(int(n) for n in re.findall(r"cmdstat_(?:evalsha|eval|fcall):calls=(\d+)", stats))

    def reads(self):
        return int(re.search(r"total_reads_processed:(\d+)", self.r.cmd("INFO", "stats")).group(1))

    def queue_up(self, conns, *words):
        """They wait in this order."""
        for i, c in enumerate(conns):
            c.ask(*words)
            until(lambda: (self.row_of("a") or {}).get("waiters", 0) == i + 1)

    def row_of(self, name):
        with self.d.conn() as c:
            rows = c.maps("LOCKS", name)
        return rows[0] if rows else None

    def come_in(self, conns):
        """All are granted it, in the order of their requests."""
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
        self.assertLessEqual(self.calls() - before, 4)  # one release; 64 attempts, and the rest
        self.assertEqual(self.row_of("a")["holders"], MANY)

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
        # Two calls free the permits; the first waiter may try between these, and again; then 64 attempts, and the rest.
        self.assertLessEqual(self.calls() - before, 8)
        self.assertEqual(self.row_of("a")["holders"], MANY)

    def test_a_permit_goes_on_in_one_trip(self):
        """The release and the next attempt leave together: Redis reads once for both."""
        semaphore = ("LOCK", "a", "KIND", "semaphore", "LIMIT", "1")
        conns = [self.conn(self.d) for _ in range(2)]
        conns[0].cmd(*semaphore)
        calls, reads = self.calls(), self.reads()
        for i in range(1, 41):
            conns[i % 2].ask(*semaphore)
            until(lambda: self.row_of("a")["waiters"] == 1)
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
            # 64 names a call; else each name would be one call
            self.assertLessEqual(self.calls() - before, n // 8, verb)

    def test_many_names_of_one_request(self):
        """MLOCK takes the names one after the other, in a common order; MUNLOCK gives them back together"""
        c, names = self.conn(self.d), ["n%d" % i for i in range(60)]
        self.assertEqual(len(c.cmd("MLOCK", len(names), *names)), len(names))
        before = self.calls()
        self.assertEqual(c.cmd("MUNLOCK", len(names), *names), [0] * len(names))
        self.assertLessEqual(self.calls() - before, 4)


if __name__ == "__main__":
    harness.main()
