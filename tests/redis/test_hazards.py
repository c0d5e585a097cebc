#!/usr/bin/env python3
"""Rows of the table of hazards (tests/README.md) that need a real process, a real Redis or a real kernel."""
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

import harness
from harness import Case, Closed, RError, alive, state, until


class Log(Case):
    def test_a_flood_of_one_sort_is_counted(self):
        d = self.rlockd()
        n = 300
        for _ in range(n):
            with d.conn() as c:
                c.send(b"POST / HTTP/1.1\r\n")
                with self.assertRaises(Closed):
                    c.fill()
        self.assertEqual(d.cmd("PING"), "PONG")
        d.signal(signal.SIGINT)
        self.assertEqual(d.wait(), 0)
        lines = re.findall(r"^warn session cross-protocol .*", d.log(), re.M)
        self.assertLess(len(lines), 220 + 20 * harness.SLOW)
        counted = sum(int(x) for x in re.findall(r" cross-protocol left_out=(\d+)", d.log()))
        only_count = [x for x in lines if re.search(r"left_out=\d+$", x)]
        self.assertEqual(len(lines) - len(only_count) + counted, n, "each was written or counted")

    def test_the_first_loss_of_a_session_is_logged_beside_many_of_another(self):
        d = self.rlockd()
        n = 300
        with d.conn() as many, d.conn() as one, d.conn() as breaks:
            for i in range(n):
                many.cmd("LOCK", f"many{i}")
            one.cmd("LOCK", "one")
            for i in range(n):
                self.assertEqual(breaks.cmd("BREAK", f"many{i}"), 1)
            self.assertEqual(breaks.cmd("BREAK", "one"), 1)
        self.assertEqual(re.findall(r"^warn lock lost name=(\S+)", d.log(), re.M), ["many0", "one"])
        others = re.findall(r"^warn lock lost also(?: left_out=\d+)? name=", d.log(), re.M)
        self.assertGreaterEqual(len(others), 200)
        self.assertLess(len(others), 220 + 20 * harness.SLOW, "they are bounded")

    def test_a_lease_of_the_clients_own_ends_without_a_warning(self):
        d = self.rlockd()
        with d.conn() as c:
            self.assertEqual(c.cmd("SET", "set", "me", "NX", "EX", "1"), "OK")
            self.assertGreater(c.cmd("LOCK", "lock", "LEASE", "1s"), 0)
            d.advance("2s")
            until(lambda: len(re.findall(r"^info lock lease over name=(?:set|lock) ", d.log(), re.M)) == 2)
        self.assertNotIn("warn lock ", d.log())


class Inherited(Case):
    """A forked child keeps the socket of a holder that has ended."""

    HOLDER = ("import os, signal, socket, sys\n"
              "s = socket.socket(socket.AF_UNIX)\n"
              "s.connect(sys.argv[1])\n"
              "f = s.makefile('rb')\n"
              "for line in sys.argv[2:]:\n"
              "    s.sendall(line.encode() + b'\\n')\n"
              "    print(f.readline().decode().strip(), flush=True)\n"
              "child = os.fork()\n"
              "if child == 0:\n"
              "    signal.pause()\n"
              "print(child, flush=True)\n"
              "last = sys.stdin.readline()\n"
              "s.sendall(last.encode())\n")

    def holder(self, d, *lines):
        """
        A process that has sent the lines, and has forked a child that has the socket: (process, answers, pid of the
        child)
        """
        p = subprocess.Popen([sys.executable, "-c", self.HOLDER, d.path, *lines], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True, preexec_fn=harness.die_with_us)
        self.addCleanup(p.stdout.close)
        self.addCleanup(p.wait)
        self.addCleanup(p.kill)
        self.addCleanup(p.stdin.close)
        answers = [p.stdout.readline().strip() for _ in lines]
        child = int(p.stdout.readline())
        self.addCleanup(self.end, child)
        return p, answers, child

    def send_last(self, p, line):
        p.stdin.write(line)
        p.stdin.close()
        p.wait(harness.DEADLINE)

    @staticmethod
    def end(child):
        try:
            os.kill(child, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def test_its_locks_are_freed(self):
        d = self.rlockd()
        p, (token,), child = self.holder(d, "LOCK a")
        other, idle = self.conn(d), self.conn(d)
        self.assertIsNone(other.cmd("LOCK", "a", "NOWAIT"), "both are alive")
        other.ask("LOCK", "a", "WAIT", "20s")
        p.kill()
        p.wait()
        p.stdin.close()
        self.assertTrue(alive(child))
        self.assertGreater(other.read(), int(token[1:]))
        self.assertIn('reason="process ended"', d.log())
        self.assertEqual(len(other.maps("SESSIONS")), 2)
        self.assertEqual(idle.cmd("PING"), "PONG")

    def test_the_childs_end_ends_no_session(self):
        d = self.rlockd()
        p, _, child = self.holder(d, "LOCK a")
        os.kill(child, signal.SIGKILL)
        other = self.conn(d)
        until(lambda: not alive(child))
        self.assertIsNone(other.cmd("LOCK", "a", "NOWAIT"))
        self.send_last(p, "UNLOCK a\n")
        self.assertGreater(other.cmd("LOCK", "a", "WAIT", "10s"), 0)
        self.assertNotIn("process ended", d.log())

    def test_what_it_asked_for_with_its_last_breath_is_done(self):
        d = self.rlockd()
        p, _, child = self.holder(d, "LOCK a OWNER me WAIT 10s")
        d.signal(signal.SIGSTOP)  # it receives the words and the end at once
        self.addCleanup(lambda: d.running() and d.signal(signal.SIGCONT))
        self.send_last(p, "UNLOCK a OWNER me\n")
        d.signal(signal.SIGCONT)
        with d.conn() as other:
            self.assertGreater(other.cmd("LOCK", "a", "WAIT", "5s"), 0, "owner_grace would have kept it for 10 s")
        self.assertTrue(alive(child))

    def test_all_sessions_of_a_process(self):
        d = self.rlockd()
        many = ("import os, socket, sys\n"
                "all = [socket.socket(socket.AF_UNIX) for _ in range(50)]\n"
                "for n, s in enumerate(all):\n"
                "    s.connect(sys.argv[1])\n"
                "    s.sendall(b'LOCK n%d\\n' % n)\n"
                "    s.recv(100)\n"
                "if os.fork() == 0:\n"
                "    sys.stdin.readline()\n")
        p = subprocess.Popen([sys.executable, "-c", many, d.path], stdin=subprocess.PIPE,
                             preexec_fn=harness.die_with_us)
        self.addCleanup(p.stdin.close)  # ends the child
        self.assertEqual(p.wait(harness.DEADLINE), 0)
        c = self.conn(d)
        until(lambda: len(c.maps("SESSIONS")) == 1)
        until(lambda: c.cmd("LOCKS") == [])
        self.assertLess(len(os.listdir("/proc/%d/fd" % d.pid)), 40, "the descriptors are given back")

    def test_not_where_the_configuration_says_so(self):
        d = self.rlockd(conf="dead_process: false\n")
        self.goes_on_with_the_child(d)

    def test_not_where_the_configuration_says_so_by_now(self):
        d = self.rlockd()
        self.goes_on_with_the_child(d, lambda: self.reload(d, "dead_process: false\n"))

    def test_where_the_configuration_says_so_by_now(self):
        d = self.rlockd(conf="dead_process: false\n")
        p, (token,), child = self.holder(d, "LOCK a")
        self.reload(d, "dead_process: true\n")
        other = self.conn(d)
        self.assertIsNone(other.cmd("LOCK", "a", "NOWAIT"), "both are alive")
        other.ask("LOCK", "a", "WAIT", "20s")
        p.kill()
        p.wait()
        p.stdin.close()
        self.assertGreater(other.read(), int(token[1:]))
        self.assertTrue(alive(child))

    def test_the_configuration_says_so_when_it_has_ended(self):
        d = self.rlockd(conf="dead_process: false\n")
        p, (token,), child = self.holder(d, "LOCK a")
        p.kill()
        p.wait()
        p.stdin.close()
        other = self.conn(d)
        self.assertIsNone(other.cmd("LOCK", "a", "NOWAIT"), "its child has the socket")
        other.ask("LOCK", "a", "WAIT", "20s")
        self.reload(d, "dead_process: true\n")
        self.assertGreater(other.read(), int(token[1:]))
        self.assertTrue(alive(child))
        self.assertEqual(len(other.maps("SESSIONS")), 1, "who is alive stays")

    def test_not_in_a_namespace_that_we_do_not_see_into(self):
        alone = ["unshare", "--pid", "--fork", "--kill-child"]
        if subprocess.run([*alone, "true"], stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("no pid namespaces here")
        r = self.redis()
        d = self.rlockd(redis=r.url, under=alone)
        self.addCleanup(d.kill)
        c = self.conn(d)
        self.assertIsNone(c.maps("SESSIONS")[0]["pid"])
        self.goes_on_with_the_child(d)

    def reload(self, d, conf):
        d.write_conf(conf)
        d.signal(signal.SIGHUP)
        until(lambda: "conf reloaded" in d.log())

    def goes_on_with_the_child(self, d, meanwhile=None):
        p, _, child = self.holder(d, "LOCK a")
        if meanwhile:
            meanwhile()
        p.kill()
        p.wait()
        p.stdin.close()
        other = self.conn(d)
        self.assertIsNone(other.cmd("LOCK", "a", "NOWAIT"))
        other.ask("LOCK", "a", "WAIT", "20s")
        self.end(child)
        self.assertGreater(other.read(), 0)


class Embedded(Case):
    """redis: embedded. Its Redis is killed; it keeps nothing on disk."""

    def test_is_started_again(self):
        d = self.rlockd(conf="redis: { backoff_min: 10ms, backoff_max: 50ms }\n")
        c = self.conn(d)
        first = c.cmd("LOCK", "a")
        was, path = d.embedded_redis()
        os.kill(was, signal.SIGKILL)
        until(lambda: not alive(was))
        other = self.conn(d)
        self.assertGreater(other.cmd("LOCK", "b", "WAIT", "9s"), first, "tokens rise, as after any loss of data")
        until(lambda: [p for p in harness.children(d.pid)] not in ([], [was]))
        now, again = d.embedded_redis()
        self.assertNotEqual(now, was)
        self.assertEqual(again, path)
        self.assertIn("embedded redis has ended pid=%d" % was, d.log())
        c.cmd("UNLOCK", "a")  # kept or lost, with the matching answer: then it is free
        self.assertGreater(other.cmd("LOCK", "a", "WAIT", "9s"), first)

    def test_one_that_does_not_stay_ends_the_daemon(self):
        d = self.rlockd(conf="redis: { backoff_min: 10ms, backoff_max: 50ms }\n")
        killed = set()
        for _ in range(6):
            if not d.running():
                break
            pid = until(lambda: next((p for p in harness.children(d.pid) if p not in killed), None))
            killed.add(pid)
            os.kill(pid, signal.SIGKILL)
            until(lambda: not d.running() or not alive(pid))
        self.assertEqual(d.wait(), 1)
        self.assertEqual(len(killed), 6)
        self.assertIn("it ends again and again; see", d.log())

    def test_one_that_is_only_stopped_is_the_same(self):
        d = self.rlockd()
        pid, _ = d.embedded_redis()
        os.kill(pid, signal.SIGSTOP)
        os.kill(pid, signal.SIGCONT)
        self.assertGreater(d.cmd("LOCK", "a"), 0)
        self.assertEqual(d.embedded_redis()[0], pid)


class Eviction(Case):
    """A Redis that may evict keys to stay below its limit of memory."""

    def start(self, conf="", limit="1gb"):
        self.r = self.redis(args=["--maxmemory", limit, "--maxmemory-policy", "volatile-lru"])
        # an epoch is there, so that the policy is the only reason of `strict`
        before = self.rlockd(redis=self.r.url, name="before")
        self.assertGreater(before.cmd("LOCK", "x"), 0)
        until(lambda: self.r.cmd("EXISTS", "x") == 0)
        before.stop()
        self.d = self.rlockd(redis=self.r.url, conf=conf)
        self.c = self.conn(self.d)

    def policy(self, name):
        self.assertEqual(self.r.cmd("CONFIG", "SET", "maxmemory-policy", name), "OK")

    def test_is_logged(self):
        self.start()
        self.assertGreater(self.c.cmd("LOCK", "a"), 0)
        self.assertIn("may evict locks", self.d.log())
        self.assertIn("maxmemory_policy=volatile-lru", self.d.log())

    def test_without_a_limit_there_is_none(self):
        self.start("redis: { strict: true }\n", limit="0")
        self.assertGreater(self.c.cmd("LOCK", "a"), 0)
        self.assertNotIn("may evict", self.d.log())

    def test_strict_grants_nothing_there(self):
        self.start("redis: { strict: true }\n")
        why = "strict: .* may evict locks: its maxmemory_policy is volatile-lru, not noeviction"
        self.assertRegex(self.c.cmd("LOCK", "a", "NOWAIT"), "^UNAVAILABLE .*" + why)
        self.assertRegex(self.d.info("redis")["redis_refusal"], why)
        self.assertEqual(self.r.cmd("EXISTS", "a"), 0)
        self.c.ask("LOCK", "a", "WAIT", "1h")
        self.policy("noeviction")
        other = self.conn(self.d)

        def granted():
            """the waiter is granted it, soon after the policy was corrected"""
            other.cmd("DEBUG", "ADVANCE", "1s")
            return not self.c.quiet()
        until(granted)
        self.assertGreater(self.c.read(), 0)
        self.assertEqual(self.d.info("redis")["redis_refusal"], "")
        # The policy is made bad again while it runs: held locks can be renewed and released, and nothing else.
        self.policy("allkeys-random")

        def refuses():
            """nothing is granted any more"""
            other.cmd("DEBUG", "ADVANCE", "5s")
            answer = other.cmd("LOCK", "b", "NOWAIT")
            return isinstance(answer, RError) and answer.startswith("UNAVAILABLE") or other.cmd("UNLOCK", "b") is None
        until(refuses)
        self.assertEqual(self.c.maps("LOCKS", "a")[0]["state"], "held")
        self.assertGreater(self.c.cmd("RENEW", "a", "1m"), 0)
        self.assertEqual(self.c.cmd("UNLOCK", "a"), 0)
        until(lambda: self.r.cmd("EXISTS", "a") == 0)


    def test_what_strict_says_follows_the_policy(self):
        """INFO shows it without any LOCK."""
        self.start("redis: { strict: true }\n")
        for policy, refuses in (("noeviction", False), ("allkeys-lru", True), ("noeviction", False)):
            self.policy(policy)

            def reported():
                """INFO has the policy"""
                self.d.cmd("DEBUG", "ADVANCE", "10s")
                info = self.d.info("redis")
                return info["redis_maxmemory_policy"] == policy and bool(info["redis_refusal"]) == refuses
            until(reported, pause=0.1)


class Jumping(Case):
    """A clock that a file sets, for all programs that start with the environment of jumping_clock()."""

    def jumping_clock(self, slept=False):
        """The environment of a program whose wall clock jumps; slept: CLOCK_BOOTTIME instead."""
        lib, source = os.path.join(self.dir, "jump.so"), os.path.join(harness.TOP, "tests", "redis", "jump.c")
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", lib, source], check=True)
        self.file = os.path.join(self.dir, "jump")
        self.set_clock(0)
        return {"LD_PRELOAD": lib, "RLOCKD_TEST_JUMP": self.file, **({"RLOCKD_TEST_SLEPT": "1"} if slept else {})}

    def set_clock(self, ahead_s):
        with open(os.open(self.file, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as f:
            f.write(ahead_s.to_bytes(8, sys.byteorder, signed=True))

    def sleeping_daemon(self, **more):
        """The clock of the daemon jumps; the clock of its Redis does not."""
        r = self.redis()
        return self.rlockd(redis=r.url, env=self.jumping_clock(slept=True), **more)


class Clocks(Jumping):
    def two_clocks(self, boottime_s, monotonic_s):
        """
        BOOTTIME and MONOTONIC are eleven days apart: if the daemon mixes them, a lease is over at once, or endless.
        """
        words = ["unshare", "--time", "--boottime", str(boottime_s), "--monotonic", str(monotonic_s)]
        if subprocess.run([*words, "true"], stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("no time namespaces here")
        r = self.redis()
        d = self.rlockd(redis=r.url, under=words, conf="redis: { timeout: 300ms, backoff_max: 50ms }\n")
        c, other = self.conn(d), self.conn(d)
        full = c.map("LOCK", "a", "FULL")
        self.assertTrue(25000 < full["lease_ms"] <= 30000, full)
        self.assertTrue(25000 < r.cmd("PTTL", "a") <= 30000)
        offset = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) - boottime_s
        self.assertAlmostEqual(int(d.info("redis")["redis_clock_offset_us"]) / 1e6, offset, delta=60,
                               msg="it reckons by the clock that counts suspend")
        began = time.monotonic()
        self.assertIsNone(other.cmd("LOCK", "a", "WAIT", "200ms"))
        self.assertTrue(0.19 < time.monotonic() - began < 3 * harness.SLOW)
        self.assertEqual(c.cmd("RENEW", "a", "20s") // 1000, 19)
        self.assertEqual(c.maps("LOCKS", "a")[0]["state"], "held")
        c.cmd("LOCK", "b")
        r.cmd("PEXPIRE", "b", "20000")
        other.cmd("DEBUG", "ADVANCE", "11s")
        until(lambda: r.cmd("PTTL", "b") > 20000)  # renewed by the watchdog
        r.kill()
        other.cmd("DEBUG", "ADVANCE", "9s")
        self.assertEqual(c.maps("LOCKS", "b")[0]["state"], "held", "a third of its lease is left")
        other.cmd("DEBUG", "ADVANCE", "21s")
        self.assertRegex(c.cmd("UNLOCK", "b"), "^LOST ")

    def test_boottime_is_ahead(self):
        self.two_clocks(1000000, 0)

    def test_monotonic_is_ahead(self):
        self.two_clocks(0, 1000000)

    def test_the_machine_slept(self):
        """
        BOOTTIME has gone on, MONOTONIC has not: held locks are over for the daemon, though this Redis has not slept.
        """
        d = self.sleeping_daemon()
        c, other = self.conn(d), self.conn(d)
        token = c.cmd("LOCK", "a")
        self.set_clock(5)
        self.assertEqual(other.maps("LOCKS", "a")[0]["state"], "held", "a short nap")
        self.set_clock(60)
        self.assertNotEqual(other.maps("LOCKS", "a")[0]["state"], "held")
        self.assertRegex(str(c.cmd("UNLOCK", "a")), "^LOST ")
        self.assertGreater(other.cmd("LOCK", "a", "WAIT", "9s"), token)

    def jumping_redis(self):
        """A Redis whose clock is set by a file, and a daemon with two locks in it."""
        self.r = self.redis(env=self.jumping_clock())
        self.d = self.rlockd(redis=self.r.url)
        self.c = self.conn(self.d)
        self.tokens = [self.c.cmd("LOCK", name) for name in ("a", "b")]

    @staticmethod
    def lost(c):
        return c.maps("LOCKS", "a")[0]["state"] == "lost"

    def test_redis_jumps_ahead(self):
        self.jumping_redis()
        self.set_clock(60)
        until(lambda: self.r.cmd("EXISTS", "a", "b") == 0)  # by Redis's clock their leases are over
        other = self.conn(self.d)
        self.assertGreater(other.cmd("LOCK", "c"), self.tokens[1], "not late because Redis is ahead")
        until(lambda: "clock jump" in self.d.log())
        until(lambda: self.lost(other) or self.r.cmd("EXISTS", "a") == 1, deadline=3)  # long before its next renewal
        lost = self.lost(other)
        self.assertRegex(str(self.c.cmd("UNLOCK", "a")), "^LOST " if lost else "^0$", "reported as lost, or held again")
        self.assertGreater(other.cmd("LOCK", "a", "WAIT", "9s"), self.tokens[0])

    def test_redis_jumps_back(self):
        self.jumping_redis()
        self.set_clock(-60)
        until(lambda: self.r.cmd("PTTL", "a") > 60000)
        other = self.conn(self.d)
        self.assertIsNone(other.cmd("LOCK", "a", "NOWAIT"))
        self.assertGreater(self.c.cmd("RENEW", "a", "20s"), 0)
        until(lambda: "clock jump" in self.d.log())
        self.assertEqual(self.c.cmd("UNLOCK", "a"), 0)
        self.assertGreater(other.cmd("LOCK", "a", "WAIT", "9s"), self.tokens[0], "tokens rise all the same")
        self.assertEqual(self.c.cmd("UNLOCK", "b"), 0)
        until(lambda: self.r.cmd("EXISTS", "b") == 0)


class Warned(Case):
    def test_jeopardy_comes_before_lost(self):
        r = self.redis()
        d = self.rlockd(redis=r.url, conf="locks: { lease: 30s }\nredis: { timeout: 300ms, backoff_max: 50ms }\n")
        c, subscriber, clock = self.conn(d), self.conn(d), self.conn(d)
        token = c.cmd("LOCK", "a")
        subscriber.cmd("SUBSCRIBE", "lock:a")
        r.kill()
        for by in ("19s", "2s", "9s"):
            if by == "2s":
                self.assertTrue(subscriber.quiet(), "two thirds of the lease are not over")
            clock.cmd("DEBUG", "ADVANCE", by)
            if by == "2s":
                self.assertRegex(subscriber.read()[2], "^jeopardy %d " % token)
                self.assertEqual(clock.maps("LOCKS", "a")[0]["state"], "held")
        self.assertRegex(subscriber.read()[2], "^lost %d " % token)
        self.assertRegex(c.cmd("UNLOCK", "a"), "^LOST ")


class Paused(Jumping):
    """The daemon itself stands still for a while; its clock does not."""

    def paused(self, d, seconds, c, *words):
        """
        Stops the daemon for so long. The request of c is there when the daemon wakes up, before any timer has run.
        """
        d.signal(signal.SIGSTOP)
        self.addCleanup(lambda: d.running() and d.signal(signal.SIGCONT))
        until(lambda: state(d.pid) == "T")
        c.ask(*words)
        self.set_clock(seconds)
        d.signal(signal.SIGCONT)

    def test_past_the_lease_nothing_is_reported_as_held(self):
        d = self.sleeping_daemon()
        c, other = self.conn(d), self.conn(d)
        token = c.cmd("LOCK", "a")
        other.ask("LOCK", "a", "WAIT", "10m")
        until(lambda: c.maps("LOCKS", "a")[0]["waiters"] == 1)
        self.paused(d, 31, c, "LOCK", "a", "ONCE")
        self.assertRegex(c.read(), "^LOST ")
        self.assertGreater(other.read(), token)

    def test_within_the_lease_it_goes_on(self):
        d = self.sleeping_daemon()
        c = self.conn(d)
        token = c.cmd("LOCK", "a")
        self.paused(d, 20, c, "LOCK", "a", "ONCE")
        self.assertEqual(c.read(), token)


class Zombies(Jumping):
    """Redis runs commands that it received while it was stopped, though no daemon waits for them any more."""

    def test_nothing_is_taken_or_broken_too_late(self):
        r = self.redis(env=self.jumping_clock())
        d = self.rlockd(redis=r.url, conf="redis: { timeout: 200ms, backoff_max: 50ms }\n")
        c, other = self.conn(d), self.conn(d)
        r.cmd("SET", "theirs", "x", "PX", "600000")
        r.cmd("HSET", "theirs2", "0b9c2c1e-3f57-4c6a-9b0e-5a3d7f5c9f10:84", "1")
        r.cmd("PEXPIRE", "theirs2", "600000")
        until(lambda: d.redis_up(c))

        def calls():
            stats = r.cmd("INFO", "commandstats")
            return sum(int(n) for n in re.findall(r"cmdstat_evalsha?:calls=(\d+)", stats))
        before = calls()
        r.signal(signal.SIGSTOP)
        self.addCleanup(lambda: r.running() and r.signal(signal.SIGCONT))
        c.ask("LOCK", "a", "NOWAIT")
        other.ask("BREAK", "theirs2")
        self.assertRegex(c.read(), "^UNAVAILABLE ")
        self.assertRegex(other.read(), "^UNAVAILABLE ")
        c.close()
        until(lambda: not d.redis_up(other))
        self.set_clock(2)  # the clock of Redis, which must pass the guard
        r.signal(signal.SIGCONT)
        until(lambda: calls() >= before + 2)  # they have run
        self.assertEqual(r.cmd("EXISTS", "a"), 0)
        self.assertEqual(r.cmd("EXISTS", "theirs", "theirs2"), 2)
        until(lambda: d.redis_up(other))
        self.assertGreater(other.cmd("LOCK", "a", "WAIT", "9s"), 0)


class Twins(Case):
    def test_a_copy_of_a_daemon_is_kept_out(self):
        """The image from which both machines were made has a state directory."""
        self.start(copy_running=False)
        self.one_of_them_serves()

    def test_a_copy_of_a_running_one_is_kept_out(self):
        self.start(copy_running=True)
        self.one_of_them_serves()

    def test_a_copy_takes_over_when_the_first_is_silent(self):
        self.start(copy_running=True)
        self.d.kill()
        other = self.conn(self.twin)
        self.assertGreater(other.cmd("LOCK", "b", "WAIT", "9s"), self.token)

    def start(self, copy_running):
        self.r = self.redis()
        states = [os.path.join(self.dir, "state%d" % n) for n in (1, 2)]
        conf = "state_dir: %s\nredis: { backoff_max: 50ms }\n"
        if not copy_running:
            self.rlockd(redis=self.r.url, name="image", conf=conf % states[0]).stop()
            shutil.copytree(states[0], states[1])
        self.d = self.rlockd(redis=self.r.url, conf=conf % states[0])
        if copy_running:
            shutil.copytree(states[0], states[1])
        self.c = self.conn(self.d)
        self.token = self.c.cmd("LOCK", "a")
        self.twin = self.rlockd(redis=self.r.url, name="twin", conf=conf % states[1], wait=False)
        until(self.twin.serving)
        until(lambda: "another daemon has our uuid" in self.twin.log())

    def one_of_them_serves(self):
        other = self.conn(self.twin)
        self.assertRegex(other.cmd("LOCK", "a", "NOWAIT"), "^UNAVAILABLE ")
        self.assertRegex(other.cmd("LOCK", "b", "NOWAIT"), "^UNAVAILABLE ")
        self.assertEqual(self.c.cmd("LOCK", "a", "ONCE"), self.token)
        self.assertEqual(self.c.cmd("UNLOCK", "a"), 0)
        self.assertGreater(self.c.cmd("LOCK", "b"), self.token)


class Foreign(Case):
    """Effects of another program in the same Redis."""

    def start(self, **more):
        self.r = self.redis(**more)
        self.d = self.rlockd(redis=self.r.url, conf="redis: { timeout: 300ms, backoff_max: 50ms }\n")
        self.c, self.other = self.conn(self.d), self.conn(self.d)

    def test_a_slow_script(self):
        self.start(args=["--busy-reply-threshold", "50"])
        token = self.c.cmd("LOCK", "held")
        slow = self.r.conn()
        self.addCleanup(slow.close)
        slow.ask("EVAL", "while true do end", 0)
        until(lambda: str(self.r.cmd("GET", "x")).startswith("BUSY "))
        self.assertRegex(self.c.cmd("LOCK", "new", "NOWAIT"), "^UNAVAILABLE ")
        self.c.ask("LOCK", "new", "WAIT", "1m")
        self.assertEqual(self.other.maps("LOCKS", "held")[0]["state"], "held")
        self.assertEqual(self.r.cmd("SCRIPT", "KILL"), "OK")
        self.assertGreater(self.c.read(), 0)
        self.assertEqual(self.c.cmd("LOCK", "held", "ONCE"), token)

    def test_what_could_not_be_freed_is_freed_later(self):
        self.start(args=["--busy-reply-threshold", "50"])
        self.c.cmd("LOCK", "held")
        slow = self.r.conn()
        self.addCleanup(slow.close)
        slow.ask("EVAL", "while true do end", 0)
        until(lambda: str(self.r.cmd("GET", "x")).startswith("BUSY "))
        self.c.close()
        until(lambda: len(self.other.maps("SESSIONS")) == 1)
        self.assertEqual(self.r.cmd("SCRIPT", "KILL"), "OK")
        until(lambda: self.r.cmd("EXISTS", "held") == 0)

    def test_paused_writes(self):
        """As in a failover by hand; expiry stands still as well."""
        self.start()
        token = self.c.cmd("LOCK", "held")
        self.assertEqual(self.r.cmd("CLIENT", "PAUSE", "600000", "WRITE"), "OK")
        self.assertRegex(self.c.cmd("LOCK", "new", "NOWAIT"), "^UNAVAILABLE ")
        until(lambda: not self.d.redis_up(self.other))
        self.assertEqual(self.r.cmd("CLIENT", "UNPAUSE"), "OK")
        until(lambda: self.d.redis_up(self.other))
        self.assertEqual(self.r.cmd("EXISTS", "new"), 0, "nothing of what was given up is done")
        self.assertEqual(self.c.cmd("LOCK", "held", "ONCE"), token)
        self.assertGreater(self.c.cmd("LOCK", "new", "WAIT", "9s"), token)


class Replicas(Case):
    def start(self):
        self.r = self.redis(tcp=True)
        self.d = self.rlockd(redis=self.r.url, conf="redis: { timeout: 300ms, backoff_max: 50ms }\n")
        self.c, self.other = self.conn(self.d), self.conn(self.d)

    def test_a_master_that_is_demoted_and_comes_back(self):
        self.start()
        token = self.c.cmd("LOCK", "held")
        self.assertEqual(self.r.cmd("REPLICAOF", "127.0.0.1", str(harness.free_port())), "OK")
        self.assertRegex(self.c.cmd("LOCK", "new", "NOWAIT"), "^UNAVAILABLE ")
        self.assertIn("READONLY", self.d.log())
        self.c.ask("LOCK", "new", "WAIT", "1m")
        self.assertEqual(self.other.maps("LOCKS", "held")[0]["state"], "held")
        self.assertEqual(self.r.cmd("EXISTS", "new"), 0)
        self.assertEqual(self.r.cmd("REPLICAOF", "NO", "ONE"), "OK")
        self.assertGreater(self.c.read(), token)
        self.assertEqual(self.c.cmd("UNLOCK", "held"), 0)
        until(lambda: self.r.cmd("EXISTS", "held") == 0)

    def test_a_promoted_replica_that_lacks_our_lock(self):
        self.start()
        second = self.rlockd(redis=self.r.url, name="second")
        token = self.c.cmd("LOCK", "a")
        rival = self.conn(second)
        rival.ask("LOCK", "a", "WAIT", "1m")
        until(lambda: self.conn(second).maps("LOCKS", "a")[0]["waiters"] == 1)
        empty = self.redis(name="empty", tcp=True, args=["--repl-diskless-sync-delay", "0"])
        self.assertEqual(self.r.cmd("REPLICAOF", "127.0.0.1", empty.port), "OK")
        until(lambda: "master_link_status:up" in self.r.cmd("INFO", "replication"))
        self.assertEqual(self.r.cmd("EXISTS", "a"), 0)
        self.assertEqual(self.r.cmd("REPLICAOF", "NO", "ONE"), "OK")
        until(lambda: self.r.cmd("EXISTS", "a") == 1)  # the answers below show which daemon has put it there
        self.assertEqual(self.c.cmd("LOCK", "a", "ONCE"), token)
        self.assertTrue(rival.quiet(), "one holder")
        self.assertEqual(self.c.cmd("UNLOCK", "a"), 0)
        self.assertGreater(rival.read(), token)

    def test_a_replica_given_as_the_master(self):
        master = self.redis(name="master", tcp=True, args=["--repl-diskless-sync-delay", "0"])
        r = self.redis(args=["--replicaof", "127.0.0.1", str(master.port)])
        until(lambda: "master_link_status:up" in r.cmd("INFO", "replication"))
        d = self.rlockd(redis=r.url, wait=False, conf="redis: { timeout: 300ms, backoff_max: 50ms }\n")
        until(d.serving)
        c = self.conn(d)
        until(lambda: "redis_last_error:READONLY " in c.cmd("INFO", "redis"))
        self.assertRegex(c.cmd("LOCK", "a", "NOWAIT"), "^UNAVAILABLE ")
        c.ask("LOCK", "a", "WAIT", "1m")
        until(lambda: "READONLY" in d.log())
        self.assertEqual(master.cmd("KEYS", "*"), [])
        self.assertEqual(r.cmd("REPLICAOF", "NO", "ONE"), "OK")
        self.assertGreater(c.read(), 0)


class Descriptors(Case):
    def test_when_there_are_no_more(self):
        r = self.redis()
        d = self.rlockd(redis=r.url, under=["prlimit", "--nofile=48:48"])
        holder = self.conn(d)
        token = holder.cmd("LOCK", "a")
        crowd = [d.conn() for _ in range(60)]
        self.addCleanup(lambda: [c.close() for c in crowd])

        def refused():
            """one of them is refused"""
            for c in crowd:
                c.sock.settimeout(0)
                try:
                    if c.sock.recv(1000).startswith(b"-ERR max number of clients reached"):
                        return True
                except OSError:
                    pass
            return False
        until(refused)
        self.assertRegex(d.log(), "warn listener accepts no connections .*for_ms=100 error=.* remedy=.*LimitNOFILE")
        self.assertEqual(holder.cmd("LOCK", "a", "ONCE"), token, "who is in is served")
        r.cmd("PEXPIRE", "a", "20000")
        holder.cmd("DEBUG", "ADVANCE", "11s")
        until(lambda: r.cmd("PTTL", "a") > 20000)  # renewed: the connections to Redis were made first
        began = d.cpu()
        time.sleep(0.3)  # the test measures the processor time of an interval
        self.assertLess(d.cpu() - began, 0.2 * harness.SLOW, "it rests, and does not spin")
        for c in crowd:
            c.close()

        def welcome():
            """a new client is admitted"""
            with d.conn() as c:
                try:
                    return c.cmd("PING") == "PONG"
                except (Closed, OSError):
                    return False
        until(welcome)


class Rights(Case):
    def test_needs_none(self):
        """No user of its own, no group, no capability, and no way to get any."""
        if os.geteuid() != 0:
            self.skipTest("not root: so it is tried all the time")
        os.chmod(self.dir, 0o777)
        d = self.rlockd(under=["sh", "-c", "chown 65534:65534 rlockd.yaml && exec setpriv --reuid=65534 --regid=65534 "
                               "--clear-groups --no-new-privs --inh-caps=-all --bounding-set=-all \"$@\"", "sh"])
        with open("/proc/%d/status" % d.pid) as f:
            status = f.read()
        self.assertRegex(status, r"Uid:\t65534\t65534\t65534\t65534")
        self.assertRegex(status, r"CapEff:\t0+\n")
        self.assertGreater(d.cmd("LOCK", "a"), 0)

    def test_the_socket_is_never_more_open_than_it_should_be(self):
        """bind() creates the socket with its final mode: strace would show a chmod(), and the mode between the two."""
        old = os.umask(0)
        self.addCleanup(os.umask, old)
        d = self.rlockd(conf='socket_mode: "0600"\n')
        self.assertEqual(os.stat(d.path).st_mode & 0o777, 0o600)


class Secrets(Case):
    def test_are_nowhere_to_be_seen(self):
        r = self.redis(args=["--requirepass", "redis-5ecret"])
        r.password = "redis-5ecret"
        conf = ("redis: { password: redis-5ecret }\n"
                "auth: { password: client-5ecret, admin_password: admin-5ecret, unix: true }\n")
        d = self.rlockd(redis=r.url, conf=conf, wait=False)

        def connected():
            """it listens: the socket file is there a moment earlier"""
            try:
                return self.conn(d)
            except OSError:
                return None
        c = until(connected)
        self.assertRegex(c.cmd("AUTH", "wrong-5ecret"), "^WRONGPASS ")
        self.assertEqual(c.cmd("AUTH", "admin", "admin-5ecret"), "OK")
        until(lambda: d.redis_up(c))
        self.assertGreater(c.cmd("LOCK", "a"), 0)
        seen = [d.log(), str(c.cmd("CONFIG", "GET", "*")), c.cmd("INFO", "everything"), str(c.cmd("SESSIONS"))]
        for name in ("cmdline", "environ"):
            with open("/proc/%d/%s" % (d.pid, name)) as f:
                seen.append(f.read())
        for text in seen:
            self.assertNotIn("5ecret", text)

    def test_not_on_the_command_line_either(self):
        self.start_with_password("redis-5ecret")

    def test_nor_a_long_one(self):
        self.start_with_password("redis-5ecret" * 300)

    def start_with_password(self, password):
        r = self.redis(tcp=True, args=["--requirepass", password])
        r.password = password
        d = self.rlockd(redis="redis://default:%s@127.0.0.1:%d" % (password, r.port))
        self.assertGreater(d.cmd("LOCK", "a"), 0)
        with open("/proc/%d/cmdline" % d.pid) as f:
            line = f.read()
        self.assertNotIn("5ecret", line)
        self.assertIn("--listen\0unix:" + d.path, line)
        d.signal(signal.SIGHUP)
        until(lambda: "conf reloaded" in d.log())
        self.assertNotIn("needs a restart", d.log(), "a reload keeps the options of the command line")


if __name__ == "__main__":
    harness.main()
