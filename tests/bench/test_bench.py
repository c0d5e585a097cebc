#!/usr/bin/env python3
"""The parts of the bench: its histogram, its medians, and that it counts the same as Redis and rlockd.

    test_bench.py             with build/rlockd and build/tests/bench/; RLOCKD_BUILD names another build
"""
import json
import os
import random
import shutil
import subprocess
import tempfile
import unittest
import unittest.mock
import zipfile

import figures
import peers
import profile
import rows
import run
import scale
import servers
import tried
from servers import LOAD, TOP


def load(*words, data=None):
    p = subprocess.run([LOAD, *[str(w) for w in words]], input=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       timeout=60)
    if p.returncode:
        raise AssertionError(p.stderr.decode())
    return json.loads(p.stdout)


class Histogram(unittest.TestCase):
    def quantiles(self, values):
        """load's quantiles of the values, in nanoseconds again."""
        h = load("hist", data="\n".join(map(str, values)).encode())["hist"]
        return {k: v if k == "n" else v * 1000 for k, v in h.items()}

    def test_quantiles_are_within_a_step(self):
        rng = random.Random(5)
        values = [int(rng.lognormvariate(11, 2)) for _ in range(20000)]
        h = self.quantiles(values)
        values.sort()
        self.assertEqual(h["n"], len(values))
        for name, q in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
            exact = values[int(q * len(values))]
            self.assertAlmostEqual(h[name] / exact, 1, delta=0.009, msg=name)
        self.assertAlmostEqual(h["max"], values[-1], delta=6)

    def test_one_and_none(self):
        h = self.quantiles([7000])
        self.assertEqual((h["n"], h["max"]), (1, 7000))
        self.assertAlmostEqual(h["p50"], 7000, delta=56)
        self.assertEqual(self.quantiles([]), {"n": 0, "p50": 0, "p90": 0, "p99": 0, "max": 0})

    def test_the_largest_has_a_place(self):
        h = self.quantiles([1, 2 ** 62])
        self.assertEqual(h["n"], 2)
        self.assertAlmostEqual(h["max"] / 2 ** 62, 1, delta=0.01)


class Figures(unittest.TestCase):
    def test_median_and_spread(self):
        f = figures.Figure([5, 1, 9, 3])
        self.assertEqual((f.median, f.low, f.high), (4, 1, 9))
        self.assertEqual(figures.spread(f), "4.00 (1.00..9.00)")
        self.assertEqual(figures.spread(figures.Figure([12345.0])), "12.3 k")

    def test_a_ratio_is_of_each_round(self):
        # Both drift alike, and the ratio does not change.
        f = figures.ratio([10, 20, 40], [5, 10, 20])
        self.assertEqual((f.median, f.low, f.high), (2, 2, 2))

    def test_goals(self):
        for text, value, met in ((">= 1.3", 1.3, True), (">= 1.3", 1.29, False), ("<= 0.1", 0.1, True),
                                 ("<= 0.1", 0.11, False), ("> 1", 1, False), ("< 1", 0.9, True)):
            self.assertEqual(figures.Goal(text).met(value), met, (text, value))
        self.assertRaises(KeyError, figures.Goal, "about 3")

    def test_numbers_for_people(self):
        self.assertEqual([figures.short(x) for x in (0, 0.0123, 0.5, 12.34, 123.4, 1234, 12345, 123456, 2500000)],
                         ["0", "0.0123", "0.50", "12.3", "123", "1.23 k", "12.3 k", "123 k", "2.50 M"])

    def test_one_pair_more_is_not_unfair(self):
        self.assertEqual(rows.unfair({"share": {"min": 9, "mean": 10, "max": 11}}), 0)
        self.assertEqual(rows.unfair({"share": {"min": 5, "mean": 10, "max": 11}}), 0.4)


class Table(unittest.TestCase):
    def test_ids_are_unique_and_goals_can_be_read(self):
        lines = [*rows.CORE, *peers.ROWS, *(line for j in scale.JOBS for line in j.lines)]
        self.assertEqual(len({r.id for r in lines}), len(lines))
        for r in lines:
            if r.goal:
                figures.Goal(r.goal)

    def test_every_server_is_there(self):
        for c in rows.cells([*rows.CORE, *peers.ROWS]):
            self.assertIn(c.server, servers.SERVERS)

    def test_patterns(self):
        ids = [r.id for r in run.chosen("hot-64-fl* deep-", rows.CORE)]
        self.assertEqual(ids, ["deep-classic", "deep-cpu", "deep-setnx", "deep-floor", "hot-64-floor"])


class Counting(unittest.TestCase):
    """With real servers, for a tenth of a second each."""

    @classmethod
    def setUpClass(cls):
        cls.stage = servers.Stage(tempfile.mkdtemp(prefix="rlockd-bench."))
        cls.addClassCleanup(cls.stage.close)

    def measure(self, server, proto, **more):
        return run.measure(self.stage, rows.Cell(server, proto, **more), 0.1, 0.02)

    def consistent(self, m):
        n = m["pair_us"]["n"]
        self.assertGreater(n, 0)
        self.assertAlmostEqual(m["pairs_per_s"], n / m["seconds"], delta=1)
        self.assertAlmostEqual(m["share"]["mean"] * m["clients"], n, delta=0.01 * m["clients"])
        # The last pair of each slot ended after the window.
        self.assertLessEqual(n + m["clients"] * m["pipeline"], m["whole"]["pairs"])
        return m["whole"]["pairs"]

    def test_scripts_are_counted_as_redis_counts_them(self):
        table = (("classic", 2, 2), ("redisson", 2, 2), ("redisson-del", 2, 3), ("setnx", 1, 2))
        for proto, scripts, requests in table:
            for more in ({"clients": 3}, {"clients": 2, "pipeline": 8}, {"clients": 2, "processes": True}):
                m = self.measure("direct", proto, **more)
                pairs = self.consistent(m)
                self.assertEqual(m["redis"]["scripts"], scripts * pairs, proto)
                self.assertEqual(m["whole"]["requests"], requests * pairs, proto)

    def test_what_redis_has_afterwards(self):
        # Every pair has freed its name, with each protocol.
        server = self.stage.server("direct")
        for proto in ("classic", "redisson-del", "setnx"):
            load("--proto", proto, "--at", server.at, "--clients", 4, "--seconds", 0.05, "--prefix", "left")
            self.assertEqual(server.process.cmd("KEYS", "left*"), [])

    def test_contention(self):
        # Each hand-off is one unlock that found its owner (else load would fail): no other client had the lock
        # meanwhile.
        for proto in ("classic", "redisson", "setnx"):
            for processes in (False, True):
                m = self.measure("direct", proto, clients=4, hot=True, processes=processes, retry=1)
                pairs = self.consistent(m)
                self.assertGreaterEqual(m["redis"]["scripts"], (1 if proto == "setnx" else 2) * pairs)
                self.assertGreaterEqual(m["whole"]["requests"], 2 * pairs)

    def test_rlockd_counts_the_same_requests(self):
        server = self.stage.server("rlockd")
        for more in ({"clients": 3, "pipeline": 4}, {"clients": 4, "hot": True, "processes": True}):
            words = run.load_words(rows.Cell("rlockd", "rlockd", **more), server, 0.1, 0.02)
            before = server.daemon.info("stats")
            m = load(*words[1:])
            after = server.daemon.info("stats")
            pairs = self.consistent(m)
            self.assertEqual(int(after["requests"]) - int(before["requests"]), 2 * pairs + 1)  # and this INFO
            m["redis_calls"] = int(after["redis_calls"]) - int(before["redis_calls"])
            self.assertEqual(m["whole"]["requests"], 2 * pairs)
            self.assertGreater(m["redis_calls"], 0)
            self.assertLessEqual(m["redis"]["scripts"], m["redis_calls"])
            self.assertGreater(m["cpu"]["rlockd"], 0)
            self.assertGreater(m["cpu"]["load"], 0)

    def test_the_floor_is_fair(self):
        self.consistent(self.measure("floor-echo", "rlockd", clients=2, pipeline=4))
        m = self.measure("floor-hot", "rlockd", clients=8, hot=True)
        self.consistent(m)
        self.assertEqual(rows.unfair(m), 0)

    def test_what_is_many(self):
        server = self.stage.server("rlockd")
        hold = scale.Helper(self.stage, "hold", "--at", server.at, "--clients", 3, "--names", 1000)
        self.assertEqual(hold.first["held"], 1000)
        self.assertEqual(int(server.daemon.info("keyspace")["locks_held"]), 1000)
        held = map(servers.harness.as_map, server.daemon.cmd("LOCKS", "bench/held/*"))
        self.assertEqual({len(m["name"]) for m in held}, {32})
        idle = scale.Helper(self.stage, "idle", "--at", server.at, "--clients", 20)
        self.assertGreaterEqual(int(server.daemon.info("clients")["connected_clients"]), 24)
        wait = scale.Helper(self.stage, "wait", "--at", server.at, "--clients", 7, "--names", 100, "--prefix", "queue")
        servers.harness.until(lambda: int(server.daemon.info("clients")["blocked_clients"]) == 100)
        self.assertEqual(wait.go_on()["served"], 100)
        for h in (hold, idle, wait):
            h.stop()
        servers.harness.until(lambda: server.daemon.info("keyspace")["locks_held"] == "0")

    def test_killed(self):
        server = self.stage.server("rlockd")
        self.assertEqual(load("killed", "--at", server.at, "--rounds", 3)["us"]["n"], 3)

    def test_a_refusal_is_reported(self):
        p = subprocess.run([LOAD, "--proto", "rlockd", "--at", "unix:/nowhere"], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE)
        self.assertEqual((p.returncode, p.stdout), (1, b""))
        self.assertIn(b"/nowhere", p.stderr)
        self.assertRaises(servers.Skip, servers.check, self.stage, "nonsense", "nonsense: 1\n")


class Profile(unittest.TestCase):
    def test_what_perf_says(self):
        text = """
     9.10%  [kernel.kallsyms]     [k] finish_task_switch.isra.0
     5.05%  rlockd                [.] core_step                   -      -

"""
        found = profile.symbols(text)
        self.assertEqual(found, [(9.1, "kernel", "finish_task_switch.isra.0"), (5.05, "rlockd", "core_step")])
        self.assertIn("**x**: 9 % in kernel, 5 % in rlockd", list(profile.markdown("x", found)))
        self.assertIn("| 9.1 | kernel | `finish_task_switch.isra.0` |", list(profile.markdown("x", found)))


class Tried(unittest.TestCase):
    def test_the_longest_key_counts(self):
        with unittest.mock.patch.dict(tried.TRIED, {"a-": "short", "a-b": "long"}, clear=True):
            self.assertEqual((tried.of("a-c"), tried.of("a-bc"), tried.of("b")), ("short", "long", None))
            lines = [{"id": "a-1", "met": False}, {"id": "a-2", "met": False}, {"id": "a-b", "met": True},
                     {"id": "a-0"}]
            self.assertEqual(list(tried.markdown(lines)), ["* `a-1`, `a-2`: short"])

    def test_every_key_is_of_a_row(self):
        ids = [r.id for r in [*rows.CORE, *peers.ROWS]] + [line.id for job in scale.JOBS for line in job.lines]
        for key in tried.TRIED:
            self.assertTrue(any(i.startswith(key) for i in ids), key)


class Scripts(unittest.TestCase):
    """The scripts of load are those of the library."""

    def same(self, folder, jar, texts):
        path = os.path.join(TOP, "build", "interop", folder, "jars", jar)
        if not os.path.exists(path):
            self.skipTest("no %s: make interop brings it" % jar)
        with zipfile.ZipFile(path) as z:
            theirs = z.read("org/redisson/RedissonLock.class")
        with open(LOAD, "rb") as f:
            ours = f.read()
        for text in texts:
            self.assertIn(text, theirs)
            self.assertIn(text, ours)

    LOCK = (b"if ((redis.call('exists', KEYS[1]) == 0) or (redis.call('hexists', KEYS[1], ARGV[2]) == 1)) then "
            b"redis.call('hincrby', KEYS[1], ARGV[2], 1); redis.call('pexpire', KEYS[1], ARGV[1]); return nil; end; "
            b"return redis.call('pttl', KEYS[1]);")
    CLASSIC = (b"if (redis.call('hexists', KEYS[1], ARGV[3]) == 0) then return nil;end; "
               b"local counter = redis.call('hincrby', KEYS[1], ARGV[3], -1); if (counter > 0) then "
               b"redis.call('pexpire', KEYS[1], ARGV[2]); return 0; else redis.call('del', KEYS[1]); "
               b"redis.call(ARGV[4], KEYS[2], ARGV[1]); return 1; end; return nil;")
    LATCH = (b"local val = redis.call('get', KEYS[3]); if val ~= false then return tonumber(val);end; "
             b"if (redis.call('hexists', KEYS[1], ARGV[3]) == 0) then return nil;end; "
             b"local counter = redis.call('hincrby', KEYS[1], ARGV[3], -1); if (counter > 0) then "
             b"redis.call('pexpire', KEYS[1], ARGV[2]); redis.call('set', KEYS[3], 0, 'px', ARGV[5]); "
             b"return 0; else redis.call('del', KEYS[1]); "
             b"redis.call(ARGV[4], KEYS[2], ARGV[1]); redis.call('set', KEYS[3], 1, 'px', ARGV[5]); return 1; end; ")

    def test_3_23_5(self):
        self.same("redisson-old", "redisson-3.23.5.jar", [self.LOCK, self.CLASSIC])

    def test_4_7_0(self):
        self.same("redisson-new", "redisson-4.7.0.jar", [self.LOCK, self.LATCH])


class Whole(unittest.TestCase):
    def test_a_short_run_writes_its_report(self):
        out = tempfile.mkdtemp(prefix="rlockd-bench.")
        self.addCleanup(shutil.rmtree, out, True)
        subprocess.run(["/usr/bin/python3", os.path.join(servers.HERE, "run.py"), "--rows", "one-p50* linger-16",
                        "--rounds", "2", "--seconds", "0.1", "--out", out], check=True, stdout=subprocess.DEVNULL)
        with open(os.path.join(out, "report.json")) as f:
            by_id = {line["id"]: line for line in json.load(f)["rows"]}
        self.assertEqual(by_id["one-p50"]["ratio"]["n"], 2)
        self.assertIn("met", by_id["one-p50"])
        self.assertIn("linger", by_id["linger-16"].get("skipped", "linger"))
        with open(os.path.join(out, "report.md")) as f:
            self.assertIn("| one-p50 |", f.read())


if __name__ == "__main__":
    unittest.main(verbosity=1)
