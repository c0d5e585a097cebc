#!/usr/bin/env python3
"""The kinds with several holders or a queue in Redis over two daemons, deadlocks between the daemons, and wake-ups by
tracking.
"""
import random
import re
import select
import threading
import time

import harness
from harness import Case, RError, until



class Kinds(Case):
    conf = "deadlock_delay: 100ms\nrules: [{ match: 'py/*', kind: simple, value: hex32, tracking: true }]\n"

    def setUp(self):
        super().setUp()
        self.r = self.redis()
        self.a = self.rlockd(redis=self.r.url, name="a", conf=self.conf)
        self.b = self.rlockd(redis=self.r.url, name="b", conf=self.conf)

    def sessions(self, n):
        """n connections, in turn to each daemon."""
        return [self.conn((self.a, self.b)[i % 2]) for i in range(n)]

    def waits(self, daemon, name, n):
        """n waiters wait there, and the daemon knows that the name is taken"""
        rows = daemon.maps("LOCKS", name) if isinstance(daemon, harness.Conn) else self.rows_of(daemon, name)
        return rows and rows[0]["waiters"] == n

    def rows_of(self, daemon, name):
        with daemon.conn() as c:
            return c.maps("LOCKS", name)

    def granted(self, conns):
        """{connection: answer} of the connections that have an answer now."""
        ready = select.select(conns, [], [], 0)[0]
        return [(c, c.read()) for c in ready]

    def leftovers(self):
        """The keys in Redis besides those that daemons share."""
        return [k for k in self.r.cmd("KEYS", "*") if not k.startswith("rlock:")]

    def in_queue(self, name):
        return self.r.cmd("LLEN", "redisson_lock_queue:{%s}" % name)

    def test_a_key_with_a_far_expiry_costs_no_link(self):
        """Another client has given the key an expiry in us where Redis wants s."""
        c, holder = self.conn(self.a), self.conn(self.b)
        for kind in ("reentrant", "simple", "counter", "fair", "rw", "semaphore", "fenced"):
            with self.subTest(kind):
                name = "far-" + kind
                self.assertEqual(self.r.cmd("RPUSH", name, "x"), 1)
                self.assertEqual(self.r.cmd("EXPIREAT", name, 1763701200123456), 1)
                self.assertEqual(str(c.cmd("LOCK", name, "NOWAIT", "KIND", kind)).split()[0], "KIND")
                self.r.cmd("DEL", name)
                self.assertGreater(holder.cmd("LOCK", name, "KIND", kind), 0)
                self.assertEqual(self.r.cmd("EXPIREAT", name, 1763701200123456), 1)
                self.assertIsNone(c.cmd("LOCK", name, "NOWAIT", "KIND", kind))
                self.assertIsNone(c.cmd("LOCK", name, "WAIT", "100ms", "KIND", kind))
        stats = self.a.info("stats")
        self.assertEqual((stats["redis_protocol_errors"], stats["redis_disconnects"]), ("0", "0"))

    def test_fair_is_first_come_first_served_over_two_daemons(self):
        conns = self.sessions(20)
        self.assertGreater(conns[0].cmd("LOCK", "f", "KIND", "fair"), 0)
        for i, c in enumerate(conns[1:]):
            c.ask("LOCK", "f", "KIND", "fair")
            until(lambda: self.in_queue("f") == i + 1)
        last = 0
        for i, c in enumerate(conns):
            if i > 0:
                token = c.read()
                self.assertGreater(token, last)
                last = token
            self.assertEqual(self.granted(conns[i + 1:]), [])
            self.assertEqual(c.cmd("UNLOCK", "f"), 0)
        until(lambda: self.leftovers() == [])

    def test_fair_places_of_waiters_that_give_up_or_die_are_free(self):
        conns = self.sessions(6)
        conns[0].cmd("LOCK", "f", "KIND", "fair")
        for i, c in enumerate(conns[1:]):
            c.ask("LOCK", "f", "WAIT", "400ms" if i == 1 else "1h", "KIND", "fair")
            until(lambda: self.in_queue("f") == i + 1)
        self.assertIsNone(conns[2].read())
        conns[1].close()
        conns[4].close()
        until(lambda: self.in_queue("f") == 2)
        self.assertIsNone(conns[2].cmd("LOCK", "f", "NOWAIT", "KIND", "fair"))
        self.assertEqual(self.in_queue("f"), 2)
        conns[0].cmd("UNLOCK", "f")
        self.assertGreater(conns[3].read(), 0)
        conns[3].close()
        self.assertGreater(conns[5].read(), 0)
        conns[5].cmd("UNLOCK", "f")
        until(lambda: self.leftovers() == [])

    def test_fair_goes_on_when_a_daemon_with_waiters_was_killed(self):
        holder, dead, mine = self.conn(self.b), [self.conn(self.a) for _ in range(3)], self.conn(self.b)
        holder.cmd("LOCK", "f", "KIND", "fair")
        for i, c in enumerate(dead + [mine]):
            c.ask("LOCK", "f", "KIND", "fair")
            until(lambda: self.in_queue("f") == i + 1)
        self.a.kill()
        scores = "redisson_lock_timeout:{f}"
        for member in self.r.cmd("LRANGE", "redisson_lock_queue:{f}", "0", "2"):
            self.assertGreater(float(self.r.cmd("ZSCORE", scores, member)), time.time() * 1000)
            self.r.cmd("ZADD", scores, "1", member)  # as if it had expired
        holder.cmd("UNLOCK", "f")
        self.assertGreater(mine.read(), 0)
        mine.cmd("UNLOCK", "f")
        until(lambda: self.leftovers() == [])

    def test_readers_and_writers_over_two_daemons(self):
        """A witness in Redis: readers add 1, writers 1000; any sum that is not allowed is counted."""
        wrong, grants, stop = [], [0, 0], time.monotonic() + 4 * harness.SLOW
        key = "inside"

        def work(daemon, seed):
            rnd = random.Random(seed)
            try:
                with daemon.conn() as c, self.r.conn() as r:
                    while time.monotonic() < stop:
                        writes = rnd.random() < 0.3
                        c.cmd("LOCK", "rw", "KIND", "rw", *([] if writes else ["SHARED"]))
                        inside = r.cmd("INCRBY", key, 1000 if writes else 1)
                        if inside != 1000 if writes else inside >= 1000:
                            wrong.append(inside)
                        r.cmd("DECRBY", key, 1000 if writes else 1)
                        grants[writes] += 1
                        if c.cmd("UNLOCK", "rw") != 0:
                            wrong.append("unlock")
            except Exception as e:  # the test shows it
                wrong.append(repr(e))

        threads = [threading.Thread(target=work, args=((self.a, self.b)[i % 2], i)) for i in range(16)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])
        self.assertGreater(min(grants), 50, grants)
        self.r.cmd("DEL", key)
        until(lambda: self.leftovers() == [])

    def test_permits_over_two_daemons(self):
        conns = self.sessions(7)
        for c in conns[:4]:
            self.assertGreater(c.cmd("LOCK", "s", "KIND", "semaphore", "LIMIT", "4"), 0)
        for c in conns[4:]:
            self.assertIsNone(c.cmd("LOCK", "s", "NOWAIT", "KIND", "semaphore", "LIMIT", "4"))
        for c in conns[4:]:
            c.ask("LOCK", "s", "KIND", "semaphore", "LIMIT", "4")
        until(lambda: self.waits(self.a, "s", 2) and self.waits(self.b, "s", 1))
        self.assertEqual(self.granted(conns[4:]), [])
        conns[0].close()
        conns[1].close()
        got = []
        until(lambda: got.extend(self.granted([c for c in conns[4:] if c not in [g for g, _ in got]])) or len(got) == 2)
        conns[2].cmd("UNLOCK", "s")
        last = [c for c in conns[4:] if c not in [g for g, _ in got]][0]
        self.assertGreater(last.read(), 0)
        self.assertEqual(self.r.cmd("ZCARD", "{s}:timeout"), 4)
        for c in conns[3:]:
            c.close()
        until(lambda: self.leftovers() == [])

    def deadlock(self, length):
        """Each holds its own name and then waits for the name of the next, over both daemons in turn."""
        conns = self.sessions(length)
        names = ["d%d" % i for i in range(length)]
        for c, n in zip(conns, names):
            self.assertGreater(c.cmd("LOCK", n), 0)
        began = time.monotonic()
        for i, c in enumerate(conns):
            c.ask("LOCK", names[(i + 1) % length])
        answers = []
        until(lambda: answers.extend(self.granted(conns)) or answers, 2)
        took = time.monotonic() - began
        self.assertEqual(len(answers), 1, answers)
        victim, text = answers[0]
        self.assertIsInstance(text, RError)
        self.assertRegex(text, "^DEADLOCK session [0-9]+ waits for")
        for n in names:
            self.assertIn('"%s"' % n, text)
        self.assertEqual(len(re.findall("of daemon", text)) > 0, length > 1)
        # no other owner gets an error: each of the others is granted its lock when the victim gives up its own
        time_is_up = time.monotonic() + 0.5
        until(lambda: time.monotonic() > time_is_up)
        self.assertEqual(self.granted(conns), [])
        at = conns.index(victim)
        victim.cmd("UNLOCK", names[at])
        for i in range(1, length):
            c = conns[(at - i) % length]
            self.assertGreater(c.read(), 0)
            c.close()
        victim.close()
        until(lambda: self.leftovers() == [])
        return took

    def test_deadlocks_between_daemons_are_reported_once_to_one(self):
        for length in (2, 3, 5):
            self.deadlock(length)
        with self.a.conn() as x, self.b.conn() as y:
            reported = sum(int(re.search("deadlocks:([0-9]+)", c.cmd("INFO", "stats")).group(1)) for c in (x, y))
        self.assertEqual(reported, 3)

    def test_a_redis_user_with_the_rights_that_the_readme_names(self):
        with open(harness.os.path.join(harness.TOP, "README.md")) as f:
            text = f.read()
        words = re.search("^ACL SETUSER rlockd .*$", text, re.M).group(0).split()
        prefix = re.search("^locks: { prefix: .*$", text, re.M).group(0) + "\n"
        self.assertEqual(self.r.cmd(*words), "OK")
        self.a.stop()
        d = self.rlockd(redis=self.r.url, name="c",
                        conf="redis: { user: rlockd, password: secret }\n" + prefix + self.conf)
        holder, waiter = self.conn(d), self.conn(d)
        for kind in ("reentrant", "simple", "counter", "fair", "rw", "semaphore", "fenced"):
            self.assertGreater(holder.cmd("LOCK", kind, "KIND", kind), 0)
            waiter.ask("LOCK", kind, "KIND", kind)
            until(lambda: self.waits(d, kind, 1))
            self.assertEqual(holder.cmd("UNLOCK", kind), 0)
            self.assertGreater(waiter.read(), 0)
            self.assertEqual(waiter.cmd("UNLOCK", kind), 0)
        self.r.cmd("SET", "lock:py/1", "0" * 32, "NX", "PX", "30000")
        holder.ask("LOCK", "py/1")
        until(lambda: int(re.search("tracking_total_keys:([0-9]+)", self.r.cmd("INFO", "stats")).group(1)) >= 1)
        self.r.cmd("DEL", "lock:py/1")
        self.assertGreater(holder.read(), 0)
        self.assertNotRegex(d.log(), "(?m)^(warn|error) redis")

    def test_what_publishes_nothing_is_noticed_by_tracking(self):
        c = self.conn(self.a)
        took = []
        for i in range(20):
            key = "py/%d" % i
            self.assertEqual(self.r.cmd("SET", key, "0" * 32, "NX", "PX", "30000"), "OK")
            c.ask("LOCK", key)
            until(lambda: self.waits(self.a, key, 1) and self.rows_of(self.a, key)[0]["state"] == "taken")
            until(lambda: int(re.search("tracking_total_keys:([0-9]+)", self.r.cmd("INFO", "stats")).group(1)) >= 1)
            began = time.monotonic()
            self.r.cmd("DEL", key)
            self.assertGreater(c.read(), 0)
            took.append(time.monotonic() - began)
            self.assertEqual(c.cmd("UNLOCK", key), 0)
        self.assertLess(sorted(took)[10], 0.1 * harness.SLOW, took)


if __name__ == "__main__":
    harness.main()
