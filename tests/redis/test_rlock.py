#!/usr/bin/env python3
"""rlock, the command line: exit codes, signals, and the promise that a command never outlives its lock.

The cases come from faults of similar programs over the years: a program that ignores signals while it waits, QUIT and
HUP that are not passed on, children of `sh -c` that survive, a daemon that is restarted, a lock that is taken away.
"""
import os
import re
import signal
import subprocess
import sys
import time

import harness
from harness import Case, RLOCK, alive, until
from test_clients import Terminal

SHORT = "locks: { lease: 3s }\nredis: { timeout: 200ms, backoff_max: 50ms }\n"


class Rlock(Case):
    def setUp(self):
        super().setUp()
        self.procs = []

    def start_daemon(self, **more):
        self.d = self.rlockd(**more)
        self.c = self.conn(self.d)
        return self.d

    def rlock(self, *words, stdin=b"", env=None):
        return self.run_words([RLOCK, "-s", self.d.addr, *words], stdin=stdin, env=env)

    def spawn(self, *words, **more):
        more.setdefault("process_group", None if "start_new_session" in more else 0)  # harness.Process has the reason
        p = subprocess.Popen([RLOCK, "-s", self.d.addr, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, preexec_fn=harness.die_with_us, **more)
        self.addCleanup(self.reap, p)
        return p

    @staticmethod
    def command_of(p):
        """The process of the command: below the three processes of rlock."""
        return Rlock.command_of_pid(p.pid)

    @staticmethod
    def command_of_pid(pid):
        keeper = until(lambda: harness.children(pid))[0]
        inner = until(lambda: harness.children(keeper))[0]
        return until(lambda: harness.children(inner))[0]

    def state(self, name):
        locks = self.c.maps("LOCKS", name)
        return (locks[0]["state"], locks[0]["waiters"]) if locks else None

    def held(self, name):
        until(lambda: self.state(name) and self.state(name)[0] == "held")

    def free(self, name):
        until(lambda: self.state(name) is None)


class Ending(Rlock):
    def test_the_childs_status(self):
        self.start_daemon()
        for code, script in ((0, "true"), (9, "exit 9"), (143, "kill -TERM $$"), (137, "kill -KILL $$"),
                             (79, "exit 79")):
            self.assertEqual(self.rlock("run", "x", "--", "sh", "-c", script)[0], code)
        self.free("x")

    def test_not_found_and_not_executable(self):
        self.start_daemon()
        path = os.path.join(self.dir, "plain")
        open(path, "w").close()
        status, _, err = self.rlock("run", "x", "--", "no-such-command")
        self.assertEqual(status, 127)
        self.assertIn("no-such-command", err)
        self.assertEqual(self.rlock("run", "x", "--", path)[0], 126)
        self.assertEqual(self.rlock("run", "x", "--", self.dir)[0], 126)
        self.free("x")

    def test_usage(self):
        self.d = None
        for words in ([], ["run"], ["run", "x"], ["run", "x", "--"], ["run", "-w", "soon", "x", "--", "true"], ["frob"],
                      ["--frob"], ["run", "-n", "-w", "1s", "x", "--", "true"], ["run", "", "--", "true"],
                      ["run", "x", "--frob", "--", "true"], ["ping", "x"]):
            status, out, err = self.run_words([RLOCK, *words])
            self.assertEqual(status, 64, words)
            self.assertTrue(err)
        status, out, _ = self.run_words([RLOCK, "--help"])
        self.assertEqual(status, 0)
        for code in ("64", "69", "75", "79", "126", "127"):
            self.assertIn(code, out)
        self.assertRegex(self.run_words([RLOCK, "--version"])[1], r"^rlock \d")

    def test_help(self):
        whole = self.run_words([RLOCK, "--help"])
        self.assertEqual(self.run_words([RLOCK, "help"]), whole)
        self.assertEqual(self.run_words([RLOCK, "run", "--help"]), whole)
        self.assertEqual(self.run_words([RLOCK, "run", "x", "-h"]), whole)
        self.assertEqual(self.run_words([RLOCK, "show"])[2],
                         "rlock: there is no verb 'show': run, ls, tree, redis, ping or help\nTry: rlock --help\n")
        self.assertEqual(self.run_words([RLOCK, "ping", "x"])[2], "rlock: ping takes other words\nTry: rlock --help\n")

    def test_what_is_wrong(self):
        for words, output in ((["run", "--", "true"], "rlock: run needs a name before --, and a command behind it"),
                            (["run", "x"], "rlock: run needs a command"),
                            (["run", "x", "--frob"], "rlock run: unrecognized option '--frob'"),
                            (["run", "--frob"], "rlock run: unrecognized option '--frob'"),
                            (["run", "x", "-S", "-N", "2", "--", "true"], "rlock: -S and -N exclude each other"),
                            (["run", "x", "-n", "-w", "1s", "--", "true"],
                             "rlock: -n and -w exclude each other, and are given once"),
                            (["run", "x", "-w", "99999999999", "--", "true"], "rlock: a duration is like 500ms, "
                             "30s (or 30), 2m or 1h, and at most 365 days")):
            self.assertEqual(self.run_words([RLOCK, *words])[2].split("\n")[0], output)
        self.assertEqual(self.run_words([RLOCK, "run", "x", "-w"])[2], "rlock run: option requires an argument -- 'w'\n"
                         "rlock: run cannot use that option\nTry: rlock --help\n")

    def test_a_plain_number_is_seconds(self):
        """As for flock -w 5 and sleep 5."""
        self.start_daemon()
        self.c.cmd("LOCK", "x")
        began = time.monotonic()
        self.assertEqual(self.rlock("run", "x", "-w", "1", "--", "true")[0], 75)
        self.assertGreaterEqual(time.monotonic() - began, 0.9)
        began = time.monotonic()
        self.assertEqual(self.rlock("run", "x", "-w", "1".zfill(50), "--", "true")[0], 75)
        self.assertGreaterEqual(time.monotonic() - began, 0.9)
        self.spawn("run", "x", "-w", "100", "--kill-after", "7", "--", "true")
        until(lambda: any(w["deadline_ms"] > 90000 for w in self.c.maps("WAITERS", "x")))

    def test_a_name_that_is_refused(self):
        self.start_daemon()
        status, _, err = self.rlock("run", "x" * 600, "--", "true")
        self.assertEqual(status, 64)
        self.assertTrue(err)

    def test_unreachable(self):
        for addr in ("unix:" + os.path.join(self.dir, "none"), "tcp:127.0.0.1:1", "nonsense", "tcp:nonsense"):
            for words in (["run", "x", "--", "true"], ["ping"], ["ls"]):
                self.assertEqual(self.run_words([RLOCK, "-s", addr, *words])[0], 69, addr)

    def test_where(self):
        self.start_daemon(tcp=True)
        self.assertEqual(self.run_words([RLOCK, "-s", "tcp:127.0.0.1:%d" % self.d.port, "ping"])[:2], (0, "PONG\n"))
        self.assertEqual(self.run_words([RLOCK, "ping"], env={"RLOCK_SOCKET": self.d.addr})[:2], (0, "PONG\n"))
        self.assertEqual(self.run_words([RLOCK, "ping"], env={"RLOCK_SOCKET": self.d.path})[:2], (0, "PONG\n"))

    def test_password(self):
        self.start_daemon(tcp=True, conf="auth: { password: sesame }\n")
        words = [RLOCK, "-s", "tcp:127.0.0.1:%d" % self.d.port, "run", "x", "--", "true"]
        self.assertEqual(self.run_words(words)[0], 69)
        self.assertEqual(self.run_words(words, env={"RLOCK_PASSWORD": "wrong"})[0], 69)
        self.assertEqual(self.run_words(words, env={"RLOCK_PASSWORD": "sesame"})[0], 0)

    def test_an_empty_password_is_none(self):
        """Also where a password is set, a client without one is told to give one, not that its own is wrong."""
        self.start_daemon(tcp=True)
        words = [RLOCK, "-s", "tcp:127.0.0.1:%d" % self.d.port, "ping"]
        self.assertEqual(self.run_words(words, env={"RLOCK_PASSWORD": ""}), (0, "PONG\n", ""))
        self.d.stop()
        self.start_daemon(tcp=True, conf="auth: { password: sesame }\n")
        words[2] = "tcp:127.0.0.1:%d" % self.d.port
        without = self.run_words(words)
        self.assertEqual(without[0], 69)
        self.assertEqual(self.run_words(words, env={"RLOCK_PASSWORD": ""}), without)


class Holding(Rlock):
    def test_held_while_it_runs_and_no_longer(self):
        self.start_daemon()
        status, out, _ = self.rlock("run", "x", "--", "sh", "-c",
                                    "echo $RLOCK_NAME $RLOCK_TOKEN; redis-cli -s %s LOCKS x" % self.d.path)
        self.assertEqual(status, 0)
        lines = out.split("\n")
        name, token = lines[0].split()
        self.assertEqual(name, "x")
        self.assertIn("held", lines)
        self.assertIn(token, lines)
        self.assertGreater(self.c.cmd("LOCK", "x", "NOWAIT"), int(token))

    def test_busy(self):
        self.start_daemon()
        self.c.cmd("LOCK", "x")
        mark = os.path.join(self.dir, "ran")
        for words in (["run", "x", "-n"], ["run", "-n", "x"], ["run", "x", "-w", "50ms"], ["run", "-w", "1", "x"]):
            status, _, err = self.rlock(*words, "--", "touch", mark)
            self.assertEqual(status, 75)
            self.assertIn("busy", err)
        self.assertFalse(os.path.exists(mark))

    def test_a_waiter_that_gives_up_leaves_no_ticket(self):
        """Neither in the queue of the daemon nor in Redis: it is removed before the next request."""
        self.start_daemon(conf="locks: { place_grace: 10m }\n")
        self.c.cmd("LOCK", "x", "KIND", "fair")
        status = self.rlock("run", "x", "--kind", "fair", "-w", "200ms", "--kill-after", "5m", "--", "true")[0]
        self.assertEqual(status, 75)
        until(lambda: self.c.maps("WAITERS", "x") == [])
        p = self.spawn("run", "x", "--kind", "fair", "--kill-after", "5m", "--", "true")
        until(lambda: self.state("x") == ("held", 1))
        p.send_signal(signal.SIGTERM)
        self.assertEqual(p.wait(harness.DEADLINE), 128 + signal.SIGTERM)
        until(lambda: self.c.maps("WAITERS", "x") == [])
        self.c.cmd("UNLOCK", "x")
        self.free("x")

    def test_waits_its_turn(self):
        self.start_daemon()
        self.c.cmd("LOCK", "x")
        p = self.spawn("run", "x", "-w", "1h", "--", "echo", "now")
        until(lambda: self.state("x") == ("held", 1))
        self.assertIsNone(p.poll())
        self.c.cmd("UNLOCK", "x")
        self.assertEqual(p.wait(harness.DEADLINE), 0)
        self.assertEqual(p.stdout.read(), b"now\n")

    def test_many_exclude_each_other(self):
        self.start_daemon()
        path = os.path.join(self.dir, "n")
        with open(path, "w") as f:
            f.write("0\n")
        ps = [self.spawn("run", "x", "--", "sh", "-c", "read n <%s; sleep 0.01; echo $((n+1)) >%s" % (path, path))
              for _ in range(20)]
        for p in ps:
            self.assertEqual(p.wait(30 * harness.SLOW), 0)
        with open(path) as f:
            self.assertEqual(f.read(), "20\n")

    def test_stdin_and_descriptors(self):
        self.start_daemon()
        self.assertEqual(self.rlock("run", "x", "--", "cat", stdin=b"a\nb\n")[:2], (0, "a\nb\n"))
        out = self.rlock("run", "x", "--", "ls", "/proc/self/fd")[1].split()
        self.assertEqual(len(out), 4, "0, 1, 2 and the directory itself: %s" % out)

    def test_signals_are_passed_on(self):
        self.start_daemon()
        for name in ("TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "WINCH"):
            with self.subTest(signal=name):
                p = self.spawn("run", "x", "--", "sh", "-c",
                               "trap 'echo got; exit 7' %s; echo ready; while :; do sleep 0.01; done" % name)
                self.assertEqual(p.stdout.readline(), b"ready\n")
                p.send_signal(getattr(signal, "SIG" + name))
                self.assertEqual(p.wait(harness.DEADLINE), 7)
                self.assertEqual(p.stdout.read(), b"got\n")
        p = self.spawn("run", "x", "--", "sleep", "1000")
        self.held("x")
        until(lambda: harness.children(p.pid))
        p.send_signal(signal.SIGTERM)
        self.assertEqual(p.wait(harness.DEADLINE), 143)
        self.free("x")

    HANDLES = ("import signal\n"
             "heard = {signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT, signal.SIGQUIT}\n"
             "signal.pthread_sigmask(signal.SIG_BLOCK, heard)\n"
             "print('ready', flush=True)\n"
             "while True:\n"
             "    print(signal.sigwait(heard).name, flush=True)\n")

    def test_a_signal_to_the_process_group_comes_once(self):
        """
        It reaches both processes of rlock; only the one that the caller started forwards it, and that one is stopped
        here. USR2 comes by the way in which it forwards signals: if the other process had forwarded USR1, USR1 would
        come before USR2.
        """
        self.start_daemon()
        p = self.spawn("run", "x", "--", sys.executable, "-c", self.HANDLES, process_group=0)
        self.assertEqual(p.stdout.readline(), b"ready\n")
        keeper, = harness.children(p.pid)
        p.send_signal(signal.SIGSTOP)
        os.killpg(p.pid, signal.SIGUSR1)
        os.kill(keeper, signal.SIGRTMIN + signal.SIGUSR2)
        self.assertEqual(p.stdout.readline(), b"SIGUSR2\n")
        p.send_signal(signal.SIGCONT)
        self.assertEqual(p.stdout.readline(), b"SIGUSR1\n")
        p.terminate()
        self.assertEqual(p.wait(harness.DEADLINE), 143)

    def test_signals_that_the_test_ignores_reach_what_it_starts(self):
        """
        `nohup make check &`: the shell makes the test ignore these signals, and an ignored signal stays ignored over
        exec.
        """
        for sig in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
            before = signal.signal(sig, signal.SIG_IGN)
            self.addCleanup(signal.signal, sig, before)
            p = subprocess.Popen(["sleep", "1000"], preexec_fn=harness.die_with_us)
            p.send_signal(sig)
            try:
                self.assertEqual(p.wait(harness.DEADLINE), -sig)
            finally:
                p.kill()
                p.wait()

    def test_signals_while_it_waits(self):
        self.start_daemon()
        self.c.cmd("LOCK", "x")
        mark = os.path.join(self.dir, "ran")
        for name in ("TERM", "INT", "HUP", "QUIT", "USR1"):
            p = self.spawn("run", "x", "--", "touch", mark)
            until(lambda: self.state("x") == ("held", 1))
            p.send_signal(signal.SIGWINCH)
            p.send_signal(getattr(signal, "SIG" + name))
            self.assertEqual(p.wait(harness.DEADLINE), 128 + getattr(signal, "SIG" + name))
            until(lambda: self.state("x") == ("held", 0))
        self.assertFalse(os.path.exists(mark))

    def test_ignored_signals_stay_ignored(self):
        """While rlock waits, and while the command runs."""
        self.start_daemon()
        self.c.cmd("LOCK", "x")
        p = subprocess.Popen(
            ["nohup", RLOCK, "-s", self.d.addr, "run", "x", "--", sys.executable, "-c", self.HANDLES],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=harness.die_with_us)
        self.addCleanup(self.reap, p)
        until(lambda: self.state("x") == ("held", 1))
        p.send_signal(signal.SIGHUP)
        self.all_signals_taken(p)
        self.c.cmd("UNLOCK", "x")
        self.assertEqual(p.stdout.readline(), b"ready\n")
        p.send_signal(signal.SIGHUP)
        p.send_signal(signal.SIGUSR1)
        self.assertEqual(p.stdout.readline(), b"SIGUSR1\n")
        p.send_signal(signal.SIGTERM)
        self.assertEqual(p.wait(harness.DEADLINE), 143)

    @staticmethod
    def all_signals_taken(p):
        """No process of rlock has a signal that it has not read; the last one read may not have been sent on yet."""
        def none_pending(pid):
            with open("/proc/%d/status" % pid) as f:
                return re.search(r"^ShdPnd:\t0+$", f.read(), re.M)

        keeper, = harness.children(p.pid)
        inner, = harness.children(keeper)
        for pid in p.pid, keeper, inner:  # in the order of the signal's way
            until(lambda: none_pending(pid))

    def test_kill_9_of_rlock_ends_the_child_and_frees(self):
        self.start_daemon()
        p = self.spawn("run", "x", "--", "sleep", "1000")
        self.held("x")
        child = self.command_of(p)
        p.kill()
        self.assertGreater(self.c.cmd("LOCK", "x", "WAIT", "10s"), 0)
        until(lambda: not alive(child))

    def test_renewed_while_it_runs(self):
        self.start_daemon(conf="locks: { lease: 2s }\n")
        status, _, err = self.rlock("run", "x", "--", "sleep", "3")
        self.assertEqual(status, 0, err)


class Kinds(Rlock):
    """-S, -N and --kind: the lock that a command holds, and which runs may hold it together."""

    def child(self, *words):
        """A run of rlock that ends when its standard input ends."""
        p = subprocess.Popen([RLOCK, "-s", self.d.addr, "run", *words, "--", "cat"], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=harness.die_with_us)
        self.addCleanup(self.reap, p)
        return p

    def end(self, p):
        p.stdin.close()
        self.assertEqual(p.wait(harness.DEADLINE), 0)

    def holders(self, name):
        locks = self.c.maps("LOCKS", name)
        return locks[0]["holders"] if locks else 0

    def test_readers_together_and_a_writer_alone(self):
        self.start_daemon()
        readers = [self.child("doc", "-S") for _ in range(2)]
        until(lambda: self.holders("doc") == 2)
        self.assertEqual(self.c.maps("LOCKS", "doc")[0]["mode"], "shared")
        self.assertEqual(self.rlock("run", "doc", "-n", "--kind", "rw", "--", "true")[0], 75)
        self.assertEqual(self.rlock("run", "-S", "-n", "doc", "--", "true")[0], 0)
        writer = self.child("doc", "--kind", "rw")
        until(lambda: self.c.maps("LOCKS", "doc")[0]["waiters"] == 1)
        for p in readers:
            self.end(p)
        until(lambda: self.c.maps("LOCKS", "doc")[0]["mode"] == "exclusive")
        self.assertEqual(self.rlock("run", "doc", "-n", "-S", "--", "true")[0], 75)
        self.end(writer)
        self.free("doc")

    def test_slots(self):
        self.start_daemon()
        running = [self.child("pool", "-N", "2") for _ in range(2)]
        until(lambda: self.holders("pool") == 2)
        self.assertEqual(self.rlock("run", "pool", "-N", "2", "-n", "--", "true")[0], 75)
        self.end(running[0])
        until(lambda: self.holders("pool") == 1)
        self.assertEqual(self.rlock("run", "pool", "-N", "2", "-n", "--", "true")[0], 0)
        self.end(running[1])
        self.free("pool")

    def test_without_s_beside_s(self):
        """Its kind differs from that of the holder, so it is refused at once."""
        self.start_daemon()
        running = self.child("doc", "-S")
        until(lambda: self.holders("doc") == 1)
        status, _, err = self.rlock("run", "doc", "--", "true")
        self.assertEqual(status, 69)
        self.assertIn("refused: KIND", err)
        self.end(running)

    def test_beats_know_the_kind(self):
        """
        Every sixth of a lease rlock asks for its lock, with the same kind: else the daemon would report the lock as
        lost.
        """
        self.start_daemon(conf="locks: { lease: 1s }\n")
        for words in (["-S"], ["-N", "2"], ["--kind", "simple"]):
            self.assertEqual(self.rlock("run", "beat", *words, "--", "sleep", "0.6"), (0, "", ""))
            self.free("beat")

    def test_words_that_do_not_go_together(self):
        self.start_daemon()
        for words in (["-S", "-N", "2"], ["-N", "0"], ["-N", "x"], ["-S", "--kind", "simple"], ["--kind", "nosuch"]):
            status, _, err = self.rlock("run", "x", *words, "--", "true")
            self.assertEqual(status, 64, words)
            self.assertTrue(err)


class Tree(Rlock):
    def test_root_first(self):
        self.start_daemon()
        self.assertEqual(self.rlock("tree"), (0, "nobody waits\n", ""))
        self.c.cmd("LOCK", "a", "OWNER", "root")
        self.c.cmd("LOCK", "b", "OWNER", "leaf")
        self.c.cmd("LOCK", "a", "NOWAIT", "OWNER", "leaf")
        p = self.spawn("run", "b", "--", "true")
        until(lambda: self.state("b") == ("held", 1))
        status, out, _ = self.rlock("tree", "b")
        self.assertEqual(status, 0)
        self.assertRegex(out, r'^owner "leaf" by session \d+ \(.*\)\n  holds b for \S+, token \d+\n'
                              r'    1\. owner "rlock:\S+" by session \d+ \(.*\), waiting \S+\n$')
        self.assertIn('1. owner "leaf"', self.rlock("tree")[1])
        self.c.cmd("UNLOCK", "b", "OWNER", "leaf")
        self.assertEqual(p.wait(harness.DEADLINE), 0)


class Servers(Rlock):
    def test_one_line_for_each(self):
        self.start_daemon()
        status, out, err = self.rlock("redis")
        head, line = out.splitlines()
        self.assertEqual((status, err, head.split()[:3]), (0, "", ["ROLE", "ADDRESS", "STATE"]))
        self.assertRegex(line, r"^master +unix:\S+/redis.sock +up +\d+ +\d{16}$")


class Losing(Rlock):
    def run_trap(self, *options, trap="trap 'echo term; exit 0' TERM", **more):
        p = self.spawn("run", "x", *options, "--", "sh", "-c", trap + "; echo ready; while :; do sleep 0.01; done",
                       **more)
        self.assertEqual(p.stdout.readline(), b"ready\n")
        return p

    def assert_lost(self, p, output=b"term\n"):
        self.assertEqual(p.wait(harness.DEADLINE), 79)
        self.assertEqual(p.stdout.read(), output)
        self.assertIn(b"lock lost", p.stderr.read())

    def test_taken_away(self):
        self.start_daemon()
        p = self.run_trap()
        self.assertEqual(self.c.cmd("BREAK", "x"), 1)
        self.assert_lost(p)

    def test_our_session_is_killed(self):
        """The owner keeps the lock, and rlock comes back for it."""
        self.start_daemon()
        p = self.run_trap()
        was = self.c.maps("LOCKS", "x")[0]
        self.c.cmd("KILL", was["session"])
        until(lambda: self.c.maps("LOCKS", "x")[0]["session"] not in (None, was["session"]))
        self.assertEqual(self.c.maps("LOCKS", "x")[0]["token"], was["token"])
        self.assertIsNone(p.poll())
        self.assertEqual(self.c.cmd("BREAK", "x"), 1)  # rlock learns of it by its new session
        self.assert_lost(p)

    def test_the_daemon_is_killed(self):
        """No daemon comes back: see test_rlock_restart.py for one that does."""
        self.start_daemon(conf=SHORT)
        p = self.run_trap()
        self.d.kill()
        self.assert_lost(p)

    def test_a_child_that_does_not_listen_is_killed(self):
        self.start_daemon()
        p = self.run_trap("--kill-after", "200ms", trap="trap '' TERM")
        child = self.command_of(p)
        self.c.cmd("BREAK", "x")
        self.assert_lost(p, b"")
        self.assertFalse(alive(child))

    def test_grandchildren_too(self):
        self.start_daemon()
        p = self.spawn("run", "x", "--", "sh", "-c", "sleep 1000 & echo $!; wait")
        grandchild = int(p.stdout.readline())
        self.c.cmd("BREAK", "x")
        self.assertEqual(p.wait(harness.DEADLINE), 79)
        until(lambda: not alive(grandchild))

    def test_a_stopped_child_too(self):
        self.start_daemon()
        p = self.run_trap()
        os.kill(self.command_of(p), signal.SIGSTOP)
        self.c.cmd("BREAK", "x")
        self.assert_lost(p)

    def before_the_lease_ends(self, stop):
        """After `stop` nothing renews the lock: TERM must come before the lease of 3 s is over."""
        p = self.run_trap("--kill-after", "1s")
        began = time.monotonic()
        stop()
        self.assertEqual(p.wait(harness.DEADLINE), 79)
        self.assertLess(time.monotonic() - began, 3.0)
        self.assertEqual(p.stdout.read(), b"term\n")

    def test_redis_is_gone(self):
        r = self.redis()
        self.start_daemon(redis=r.url, conf=SHORT)
        self.before_the_lease_ends(r.kill)

    def test_the_daemon_is_paused(self):
        self.start_daemon(conf=SHORT)
        self.before_the_lease_ends(lambda: self.d.signal(signal.SIGSTOP))

    def test_a_child_that_ignores_term_is_dead_when_the_lease_is_over(self):
        self.start_daemon(conf=SHORT)
        p = self.run_trap(trap="trap '' TERM")
        began = time.monotonic()
        self.d.signal(signal.SIGSTOP)
        self.assertEqual(p.wait(harness.DEADLINE), 79)
        self.assertLess(time.monotonic() - began, 3.1)

    def test_the_daemon_ends_while_we_wait(self):
        self.start_daemon()
        self.c.cmd("LOCK", "x")
        p = self.spawn("run", "x", "-w", "1s", "--", "true")
        until(lambda: self.state("x") == ("held", 1))
        self.d.kill()
        self.assertEqual(p.wait(harness.DEADLINE), 69)

    def asks_for_a_whole_lease(self):
        """Waits for seven requests of rlock, one each sixth of a lease: by then the first lease is over."""
        first, ours = None, 0

        def seven_times():
            """rlock asks for its lock"""
            nonlocal first, ours
            requests = int(re.search(r"^requests:(\d+)", self.c.cmd("INFO", "stats"), re.M).group(1))
            first = requests if first is None else first
            ours += 1
            return requests - first - (ours - 1) >= 7
        until(seven_times)

    def test_drain_lets_it_finish(self):
        self.start_daemon(conf="drain_timeout: 1h\nlocks: { lease: 1s }\n")
        fifo = os.path.join(self.dir, "go")
        os.mkfifo(fifo)
        p = self.spawn("run", "x", "--", "sh", "-c", "echo ready; read a <%s; exit 5" % fifo)
        self.assertEqual(p.stdout.readline(), b"ready\n")
        self.d.signal(signal.SIGTERM)
        until(lambda: "draining:1" in self.c.cmd("INFO", "server"))
        self.asks_for_a_whole_lease()
        self.assertIsNone(p.poll())
        with open(fifo, "w") as f:
            f.write("\n")
        self.assertEqual(p.wait(harness.DEADLINE), 5)
        self.assertEqual(self.d.wait(), 0)


class OnATerminal(Rlock):
    def terminal(self, *words):
        t = Terminal([RLOCK, "-s", self.d.addr, *words], self.dir)
        return t

    def test_reads_writes_and_interrupt(self):
        self.start_daemon()
        t = self.terminal("run", "x", "--", "sh", "-c", "read a; echo heard $a; exec cat")
        t.type("hello\n")
        t.wait_for("heard hello")
        t.type("\x03")
        self.assertEqual(t.end(), 130)
        self.free("x")

    def test_reads_the_terminal_with_its_output_elsewhere(self):
        self.start_daemon()
        out = os.path.join(self.dir, "out")
        t = Terminal(["sh", "-c", "%s -s %s run x -- sh -c 'read a; echo status $? heard $a' >%s" %
                      (RLOCK, self.d.addr, out)], self.dir)
        t.type("hello\n")
        self.assertEqual(t.end(), 0)
        with open(out) as f:
            self.assertEqual(f.read(), "status 0 heard hello\n")

    def test_keys_with_its_output_elsewhere(self):
        """
        rlock has the terminal then, and the terminal's signals go to rlock's process group: each is passed on once.
        """
        self.start_daemon()
        out = os.path.join(self.dir, "out")
        t = Terminal(["sh", "-c", "exec %s -s %s run x -- %s -c \"$0\" >%s" % (RLOCK, self.d.addr, sys.executable, out),
                      Holding.HANDLES], self.dir)
        received = ["ready\n"]

        def all_received():
            """the command received each key once"""
            if not os.path.exists(out):
                return False
            with open(out) as f:
                return f.read() == "".join(received)

        for _ in range(20):
            for key, name in ("\x03", "SIGINT\n"), ("\x1c", "SIGQUIT\n"):
                until(all_received)
                t.type(key)
                received.append(name)
        until(all_received)
        os.kill(t.pid, signal.SIGTERM)
        self.assertEqual(t.end(), 143)

    def test_stop_and_go_on(self):
        self.start_daemon()
        t = Terminal(["bash", "--norc", "--noprofile", "-i"], self.dir)
        t.type("PS1='ready> '; %s -s %s run x -- cat\n" % (RLOCK, self.d.addr))
        self.held("x")
        t.type("one\n")
        t.wait_for("one\r\none\r\n")
        group = os.tcgetpgrp(t.fd)
        t.type("\x1a")
        t.wait_for("Stopped")
        self.assertNotEqual(os.tcgetpgrp(t.fd), group)
        self.held("x")
        t.type("fg\n")
        until(lambda: os.tcgetpgrp(t.fd) == group)
        t.type("two\n")
        t.wait_for("two\r\n.*two\r\n")
        t.type("\x04")
        t.type("echo status=$?\n")
        t.wait_for("status=0")
        t.type("exit\n")
        t.end()

    def test_stop_and_go_on_while_it_waits(self):
        self.start_daemon()
        self.c.cmd("LOCK", "x")
        t = Terminal(["bash", "--norc", "--noprofile", "-i"], self.dir)
        t.type("PS1='ready> '; %s -s %s run x -- echo mine\n" % (RLOCK, self.d.addr))
        until(lambda: self.state("x") == ("held", 1))
        t.type("\x1a")
        t.wait_for("Stopped.*ready> ")
        self.assertEqual(self.state("x"), ("held", 1), "it keeps its place")
        self.c.cmd("UNLOCK", "x")
        t.type("fg\n")
        t.wait_for("\nmine\r\n.*ready> ")
        t.type("exit\n")
        self.assertEqual(t.end(), 0)
        self.free("x")

    def test_killed_where_the_terminal_stops_jobs_of_the_background(self):
        """stty tostop: the keeper is in no group of the foreground, and has a message to write."""
        self.start_daemon()
        t = Terminal(["bash", "--norc", "--noprofile", "-i"], self.dir)
        t.type("PS1='ready> '; stty tostop; %s -s %s run x -- sleep 1000\n" % (RLOCK, self.d.addr))
        self.held("x")
        rlock = until(lambda: [p for p in harness.children(t.pid) if harness.children(p)])[0]
        keeper = harness.children(rlock)[0]
        sleep = self.command_of_pid(rlock)
        os.kill(harness.children(keeper)[0], signal.SIGKILL)
        t.wait_for("rlock was killed, and the command with it.*ready> ")
        t.type("echo status=$?\n")
        t.wait_for("status=137\r\n.*ready> ")
        self.free("x")
        until(lambda: not alive(sleep))
        t.type("exit\n")
        t.end()

    def test_lost_where_the_terminal_stops_jobs_of_the_background(self):
        """The command has the terminal: rlock writes its message about the loss from the background."""
        self.start_daemon()
        t = Terminal(["bash", "--norc", "--noprofile", "-i"], self.dir)
        t.type("PS1='ready> '; stty tostop; %s -s %s run x -- sleep 1000\n" % (RLOCK, self.d.addr))
        self.held("x")
        self.assertEqual(self.c.cmd("BREAK", "x"), 1)
        t.wait_for("lock lost.*ready> ")
        t.type("echo status=$?\n")
        t.wait_for("status=79\r\n.*ready> ")
        t.type("exit\n")
        t.end()

    def test_interrupted_while_it_waits(self):
        self.start_daemon()
        self.c.cmd("LOCK", "x")
        t = self.terminal("run", "x", "--", "true")
        until(lambda: self.state("x") == ("held", 1))
        t.type("\x03")
        self.assertEqual(t.end(), 130)


class Ls(Rlock):
    def test_table(self):
        self.start_daemon()
        self.assertRegex(self.rlock("ls")[1], r"^NAME +KIND +STATE +OWNER +TOKEN +HOLDS +LEFT +WAITERS\n$")
        token = self.c.cmd("LOCK", "orders:42", "OWNER", "me")
        self.c.cmd("LOCK", "orders:42", "OWNER", "me")
        self.c.cmd("LOCK", "a \n\x7f", "OWNER", "you", "KIND", "simple")
        status, out, err = self.rlock("ls")
        self.assertEqual(status, 0, err)
        lines = out.rstrip("\n").split("\n")
        self.assertEqual(len(lines), 3)
        self.assertRegex(lines[1], r"^orders:42 +reentrant +held +me +%d +2 +\d+\.\ds +0$" % token)
        self.assertRegex(lines[2], r"^a \\x0A\\x7F +simple|^a \\x0a\\x7f +simple")
        self.assertEqual(len({len(line) for line in lines}), 1, "aligned")
        self.assertEqual(len(self.rlock("ls", "orders*")[1].split("\n")), 3)

    def test_many(self):
        self.start_daemon(conf="limits: { output_bytes: 64MiB }\n")
        self.c.send(b"".join(b"LOCK name-%d OWNER me\n" % i for i in range(5000)))
        for _ in range(5000):
            self.c.read()
        status, out, err = self.rlock("ls")
        self.assertEqual(status, 0, err)
        self.assertEqual(len(out.rstrip("\n").split("\n")), 5001)


if __name__ == "__main__":
    harness.main()
