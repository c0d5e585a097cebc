#!/usr/bin/env python3
"""Rows of the table of hazards that need a real process, a real Redis or a real kernel; tests/README.md has the table."""
import os
import re
import signal
import socket
import subprocess
import sys
import time

import harness
from harness import Case, Closed, RError, alive, until


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
        told = sum(int(x) for x in re.findall(r" cross-protocol left_out=(\d+)", d.log()))
        only_count = [x for x in lines if re.search(r"left_out=\d+$", x)]
        self.assertEqual(len(lines) - len(only_count) + told, n, "each was written or counted")


class Inherited(Case):
    """A child that was forked keeps the socket of a holder that has ended."""

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
        """Has said the lines, and has forked a child that has the socket. (process, answers, pid of the child)"""
        p = subprocess.Popen([sys.executable, "-c", self.HOLDER, d.path, *lines], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             text=True, preexec_fn=harness.die_with_us)
        self.addCleanup(p.stdout.close)
        self.addCleanup(p.wait)
        self.addCleanup(p.kill)
        self.addCleanup(p.stdin.close)
        answers = [p.stdout.readline().strip() for _ in lines]
        child = int(p.stdout.readline())
        self.addCleanup(self.end, child)
        return p, answers, child

    def say_last(self, p, line):
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

    def test_the_childs_end_is_nobodys(self):
        d = self.rlockd()
        p, _, child = self.holder(d, "LOCK a")
        os.kill(child, signal.SIGKILL)
        other = self.conn(d)
        until(lambda: not alive(child))
        self.assertIsNone(other.cmd("LOCK", "a", "NOWAIT"))
        self.say_last(p, "UNLOCK a\n")
        self.assertGreater(other.cmd("LOCK", "a", "WAIT", "10s"), 0)
        self.assertNotIn("process ended", d.log())

    def test_what_it_asked_for_with_its_last_breath_is_done(self):
        d = self.rlockd()
        for n in range(20):  # the end of the process and its words come in any order
            p, _, child = self.holder(d, "LOCK a OWNER me WAIT 10s")
            self.say_last(p, "UNLOCK a OWNER me\n")
            with d.conn() as other:
                self.assertGreater(other.cmd("LOCK", "a", "WAIT", "5s"), 0, "owner_grace would have kept it for 10 s")
            self.end(child)

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
        p = subprocess.Popen([sys.executable, "-c", many, d.path], stdin=subprocess.PIPE, preexec_fn=harness.die_with_us)
        self.addCleanup(p.stdin.close)  # the end of the child
        self.assertEqual(p.wait(harness.DEADLINE), 0)
        c = self.conn(d)
        until(lambda: len(c.maps("SESSIONS")) == 1)
        until(lambda: c.cmd("LOCKS") == [])
        self.assertLess(len(os.listdir("/proc/%d/fd" % d.pid)), 40, "the descriptors are given back")

    def test_not_where_the_configuration_says_so(self):
        d = self.rlockd(conf="dead_process: false\n")
        p, _, child = self.holder(d, "LOCK a")
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
        c.cmd("UNLOCK", "a")  # kept or lost, with the answer that goes with it: then it is free
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
        self.assertIn("it does not stay; see", d.log())

    def test_one_that_is_only_stopped_is_the_same(self):
        d = self.rlockd()
        pid, _ = d.embedded_redis()
        os.kill(pid, signal.SIGSTOP)
        os.kill(pid, signal.SIGCONT)
        self.assertGreater(d.cmd("LOCK", "a"), 0)
        self.assertEqual(d.embedded_redis()[0], pid)


class Eviction(Case):
    """A Redis that may drop keys to stay below its limit of memory."""

    def start(self, conf=""):
        self.r = self.redis(args=["--maxmemory", "1gb", "--maxmemory-policy", "volatile-lru"])
        self.d = self.rlockd(redis=self.r.url, conf=conf)
        self.c = self.conn(self.d)

    def policy(self, name):
        self.assertEqual(self.r.cmd("CONFIG", "SET", "maxmemory-policy", name), "OK")

    def test_is_said(self):
        self.start()
        self.assertGreater(self.c.cmd("LOCK", "a"), 0)
        self.assertIn("may evict locks", self.d.log())
        self.assertIn("maxmemory_policy=volatile-lru", self.d.log())

    def test_without_a_limit_there_is_none(self):
        r = self.redis(args=["--maxmemory-policy", "allkeys-lru"])
        d = self.rlockd(redis=r.url, conf="redis: { strict: true }\n")
        self.assertGreater(d.cmd("LOCK", "a"), 0)
        self.assertNotIn("may evict", d.log())

    def test_strict_grants_nothing_there(self):
        self.start("redis: { strict: true }\n")
        self.assertRegex(self.c.cmd("LOCK", "a", "NOWAIT"), "^UNAVAILABLE ")
        self.assertEqual(self.r.cmd("KEYS", "*"), [])
        self.c.ask("LOCK", "a", "WAIT", "1h")
        self.policy("noeviction")
        other = self.conn(self.d)

        def granted():
            """the waiter has it, soon after the policy was mended"""
            other.cmd("DEBUG", "ADVANCE", "1s")
            return not self.c.quiet()
        until(granted)
        self.assertGreater(self.c.read(), 0)
        # While it runs, the policy is made bad again: what is held can be kept and given back, and that is all.
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


if __name__ == "__main__":
    harness.main()
