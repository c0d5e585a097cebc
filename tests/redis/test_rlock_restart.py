#!/usr/bin/env python3
"""rlock run when its connection, its daemon or rlock itself ends: two commands never run at once.

The resource is a file that each command locks with flock(2), its children with it: a command that finds it locked logs
an overlap. The kernel frees the file when the last of these processes is dead, by whatever cause.
"""
import os
import signal
import subprocess
import time

import harness
from harness import Case, RLOCK, alive, children, until

SHORT = "locks: { lease: 3s }\ndrain_timeout: 0\nredis: { timeout: 200ms, backoff_max: 50ms }\n"


class World(Case):
    def setUp(self):
        super().setUp()
        self.r = self.redis()
        self.log, self.starts = os.path.join(self.dir, "log"), 0
        open(self.log, "w").close()

    def start(self, state=True, conf=""):
        """Starts a daemon, the next one at the same socket."""
        state_dir = "state_dir: %s\n" % os.path.join(self.dir, "state") if state else ""
        self.d = self.rlockd(redis=self.r.url, conf=state_dir + SHORT + conf)
        return self.d

    def command(self, body):
        """The words of a command that locks the resource, logs its token, and then runs `body`."""
        return ["sh", "-c", "exec 9>%s/res; flock -n 9 || echo OVERLAP >>%s; echo $RLOCK_TOKEN >>%s; %s"
                % (self.dir, self.log, self.log, body)]

    def spawn(self, body, *options):
        before = len(self.lines())
        p = subprocess.Popen([RLOCK, "-s", self.addr, "run", "x", *options, "--", *self.command(body)],
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             process_group=0, preexec_fn=harness.die_with_us)  # as in harness.Process
        self.addCleanup(self.reap, p)
        until(lambda: len(self.lines()) > before)
        return p

    def next_one(self, wait="30s"):
        """Another owner's turn: retried while there is no daemon."""
        def ran():
            """the next command runs"""
            status, _, err = self.run_words([RLOCK, "-s", self.addr, "run", "x", "-w", wait, "--",
                                             *self.command("exit 0")])
            self.assertIn(status, (0, 69), err)
            return status == 0
        until(ran, deadline=40)

    @property
    def addr(self):
        return "unix:" + os.path.join(self.dir, "rlockd.sock")

    def lines(self):
        with open(self.log) as f:
            return f.read().split("\n")[:-1]

    def no_overlap(self, commands):
        lines = self.lines()
        self.assertNotIn("OVERLAP", lines)
        self.assertEqual(len(lines), commands)
        self.assertEqual(lines, sorted(lines, key=int))

    def ends(self, p, status=0):
        self.assertEqual(p.wait(20 * harness.SLOW), status, p.stderr.read())

    def go(self):
        """Lets a command that waits for it go on."""
        open(os.path.join(self.dir, "go"), "w").close()

    @property
    def until_go(self):
        return "while [ ! -e %s/go ]; do sleep 0.02; done; rm %s/go; exit 5" % (self.dir, self.dir)


class Kept(World):
    """The lock is kept: the command goes on, and ends by itself."""

    def over(self, change, conf=""):
        self.start(conf=conf)
        p = self.spawn(self.until_go)
        change()
        c = self.conn(self.d)
        self.assertIsNone(c.cmd("LOCK", "x", "NOWAIT"))
        until(lambda: [s for s in c.maps("LOCKS", "x") if s["session"]])  # it has come back
        self.assertIsNone(c.cmd("LOCK", "x", "WAIT", "200ms"))
        self.assertIsNone(p.poll())
        self.go()
        self.ends(p, 5)
        self.next_one()
        self.no_overlap(2)

    def again(self, how):
        self.d.signal(how)
        self.d.wait()
        self.start(conf=self.conf)

    conf = ""

    def test_kill_9_of_the_daemon(self):
        self.over(lambda: self.again(signal.SIGKILL))

    def test_term_of_the_daemon(self):
        self.over(lambda: self.again(signal.SIGTERM))

    def test_int_of_the_daemon(self):
        self.over(lambda: self.again(signal.SIGINT))

    def test_the_rule_has_no_grace(self):
        self.conf = "rules: [{ match: '*', owner_grace: 0 }]\n"
        self.over(lambda: self.again(signal.SIGKILL), conf=self.conf)

    def test_its_session_is_killed(self):
        def kill():
            with self.d.conn() as c:
                for _ in range(3):
                    self.assertEqual(c.cmd("CLIENT", "KILL", "SKIPME", "yes"), 2)
                    until(lambda: len(c.maps("SESSIONS")) == 3)
        self.over(kill)

    def test_again_and_again(self):
        def restarts():
            for _ in range(3):
                self.again(signal.SIGKILL)
                until(lambda: [s for s in self.d.cmd("SESSIONS") if "x" in str(s)] or len(self.d.cmd("SESSIONS")) > 2)
        self.over(restarts)

    def test_it_ends_while_there_is_no_daemon(self):
        """The command has run under the lock; its lock is freed when the owner grace is over."""
        self.start()
        p = self.spawn(self.until_go)
        self.d.kill()
        self.go()
        self.ends(p, 5)
        self.start()
        self.next_one()
        self.no_overlap(2)


class Waits(World):
    """The command still waits for the lock: the wait goes on, and is granted once."""

    def over(self, change):
        """Our command waits while `change` happens to the daemon; then the holder's command ends, and ours runs."""
        self.start()
        holder = self.spawn(self.until_go)
        p = subprocess.Popen([RLOCK, "-s", self.addr, "run", "x", "-w", "60s", "--", *self.command("exit 0")],
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             process_group=0, preexec_fn=harness.die_with_us)
        self.addCleanup(self.reap, p)
        self.until_both_are_there()
        change()
        self.until_both_are_there()
        self.assertEqual((p.poll(), len(self.lines())), (None, 1))
        self.go()
        self.ends(holder, 5)
        self.ends(p)
        self.no_overlap(2)
        with self.d.conn() as c:
            self.assertGreater(c.cmd("LOCK", "x", "NOWAIT"), 0)  # the one hold was given back

    def until_both_are_there(self):
        with self.d.conn() as c:
            until(lambda: [s for s in c.maps("LOCKS", "x") if s["session"]])
            until(lambda: [w for w in c.maps("WAITERS", "x") if not w["kept"]])

    def again(self, how):
        self.d.signal(how)
        self.d.wait()
        self.start()

    def test_kill_9_of_the_daemon(self):
        self.over(lambda: self.again(signal.SIGKILL))

    def test_term_of_the_daemon(self):
        self.over(lambda: self.again(signal.SIGTERM))

    def test_its_session_is_killed(self):
        def kill():
            with self.d.conn() as c:
                for _ in range(3):
                    self.assertEqual(c.cmd("CLIENT", "KILL", "SKIPME", "yes"), 4)
                    until(lambda: len(c.maps("SESSIONS")) == 5)
        self.over(kill)


class Ended(World):
    """The lock cannot be kept: the command ends before another client has the lock."""

    def over(self, change, body, *options):
        p = self.spawn(body, *options)
        change()
        self.next_one()
        self.ends(p, 79)
        self.no_overlap(2)

    def again(self, how):
        self.d.signal(how)
        self.d.wait()
        self.start(state=False)

    def test_kill_9_of_the_daemon(self):
        self.start(state=False)
        self.over(lambda: self.again(signal.SIGKILL), "while :; do sleep 0.02; done")

    def test_term_of_the_daemon(self):
        self.start(state=False)
        self.over(lambda: self.again(signal.SIGTERM), "while :; do sleep 0.02; done")

    def test_a_command_that_ignores_term(self):
        self.start(state=False)
        self.over(lambda: self.again(signal.SIGKILL), "trap '' TERM; while :; do sleep 0.02; done",
                  "--kill-after", "20s")

    def test_no_daemon_comes_back(self):
        self.start()
        p = self.spawn("while :; do sleep 0.02; done")
        began = time.monotonic()
        self.d.kill()
        self.ends(p, 79)
        self.assertLess(time.monotonic() - began, 3.0)


class Killed(World):
    """KILL of rlock: every process of the command is dead before another client has the lock."""

    BODY = "(sleep 1000 &); setsid sleep 1000 & sh -c 'trap \"\" TERM; sleep 1000; sleep 1000' & echo ready; wait"

    def tree(self, pid):
        found = [pid]
        for p in found:
            try:
                found += children(p)
            except (FileNotFoundError, ProcessLookupError):
                pass
        return found

    def line(self, p):
        """The processes of rlock: the one that was started, the keeper, the one that does the work."""
        pids = [p.pid]
        while len(pids) < 3:
            pids.append(until(lambda: children(pids[-1]))[0])
        return pids

    def over(self, victims):
        """SIGKILL to these of the three processes, while none of them runs in between."""
        self.start()
        p = self.spawn(self.BODY)
        self.assertEqual(p.stdout.readline(), b"ready\n")
        until(lambda: len(self.tree(p.pid)) >= 7)
        tree, line = self.tree(p.pid), self.line(p)
        for sig in (signal.SIGSTOP, signal.SIGKILL):
            for pid in victims(line):
                os.kill(pid, sig)
        began = time.monotonic()
        self.next_one()
        took = time.monotonic() - began
        self.no_overlap(2)
        self.assertEqual([pid for pid in tree if pid not in line and alive(pid)], [])
        until(lambda: not any(alive(pid) for pid in line))  # they unlock first, and then end
        self.assertLess(took, 2 * harness.SLOW, "it is given back at once")

    def test_the_one_that_was_started(self):
        self.over(lambda line: line[:1])

    def test_the_keeper(self):
        self.over(lambda line: line[1:2])

    def test_the_one_that_does_the_work(self):
        self.over(lambda line: line[2:])

    def test_the_one_that_was_started_and_the_keeper(self):
        self.over(lambda line: line[:2])

    def test_the_keeper_and_the_one_that_does_the_work(self):
        self.over(lambda line: line[1:])

    def test_the_one_that_was_started_and_the_one_that_does_the_work(self):
        self.over(lambda line: [line[0], line[2]])

    def test_their_process_group(self):
        """kill -9 %1, timeout(1), a shell that is killed with its job."""
        self.over(lambda line: [pid for pid in line if os.getpgid(pid) == os.getpgid(line[0])])

    def test_all_of_that_name(self):
        """pkill -9 rlock, and pkill -9 -f rlock."""
        def named(line):
            found = []
            for pid in line:
                with open("/proc/%d/cmdline" % pid, "rb") as f, open("/proc/%d/comm" % pid, "rb") as g:
                    found += [pid] if b"rlock" in f.read() + g.read() else []
            self.assertGreaterEqual(len(found), 2)
            return found
        self.over(named)

    def test_the_group_of_a_job(self):
        """As a shell starts it: the job is a process group of its own, and one call kills it."""
        self.start()
        p = self.spawn(self.BODY)
        self.assertEqual(p.stdout.readline(), b"ready\n")
        until(lambda: len(self.tree(p.pid)) >= 7)
        tree = self.tree(p.pid)
        os.killpg(p.pid, signal.SIGKILL)
        self.next_one()
        self.no_overlap(2)
        self.assertEqual([pid for pid in tree if alive(pid)], [])

    def test_all_three_at_once(self):
        """
        The limit: the command itself is dead, and its owner keeps the lock for GRACE; the command's children go on.
        """
        self.start()
        c = self.conn(self.d)
        p = self.spawn("sleep 1000 & echo $$ $!; wait")
        command, left = map(int, p.stdout.readline().split())
        line = self.line(p)
        for pid in line:
            os.kill(pid, signal.SIGSTOP)
        until(lambda: all(harness.state(pid) == "T" for pid in line))  # so that none notices the death of its parent
        # from below: a death orphans the group of the next process, which the kernel then continues
        for pid in reversed(line):
            os.kill(pid, signal.SIGKILL)
        until(lambda: not [pid for pid in (*line, command) if alive(pid)])
        self.assertTrue(alive(left))
        self.assertIsNone(c.cmd("LOCK", "x", "NOWAIT"))
        os.kill(left, signal.SIGKILL)
        until(lambda: not [s for s in c.maps("SESSIONS") if s["name"] is None and s["id"] != c.cmd("CLIENT", "ID")])
        c.cmd("DEBUG", "ADVANCE", "20s")
        self.assertGreater(c.cmd("LOCK", "x", "WAIT", "5s"), 0)

    def test_while_it_waits(self):
        """No request waits for the lock any more, and the command never begins."""
        self.start()
        c = self.conn(self.d)
        self.assertGreater(c.cmd("LOCK", "x"), 0)
        for victims in (lambda line: line[:1], lambda line: line[1:2], lambda line: line[2:], lambda line: line[::2]):
            p = subprocess.Popen([RLOCK, "-s", self.addr, "run", "x", "--", *self.command("exit 0")],
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 process_group=0, preexec_fn=harness.die_with_us)
            self.addCleanup(self.reap, p)
            until(lambda: [w for w in c.maps("WAITERS", "x") if not w["kept"]])
            line = self.line(p)
            for pid in victims(line):
                os.kill(pid, signal.SIGKILL)
            until(lambda: not [pid for pid in line if alive(pid)])
            until(lambda: not [w for w in c.maps("WAITERS", "x") if not w["kept"]])
        self.assertEqual(c.cmd("UNLOCK", "x"), 0)
        self.next_one()
        self.no_overlap(1)

    def test_a_background_process_of_a_lost_lock(self):
        """It is ended with the command, although it has left the process group and ignores TERM."""
        self.start()
        p = self.spawn("setsid sh -c 'trap \"\" TERM; sleep 1000; sleep 1000' & echo ready; wait",
                       "--kill-after", "300ms")
        self.assertEqual(p.stdout.readline(), b"ready\n")
        until(lambda: len(self.tree(p.pid)) >= 6)
        tree = self.tree(p.pid)
        self.assertEqual(self.d.cmd("BREAK", "x"), 1)
        self.ends(p, 79)
        self.assertEqual([pid for pid in tree if alive(pid)], [])

    def test_while_what_is_left_of_a_lost_lock_may_end(self):
        """The command has ended and its background process has a minute to end; without rlock it is killed at once."""
        self.start(conf="rules: [{ match: '*', lease: 10m }]\n")
        for victim in (0, 1):
            p = self.spawn("setsid sh -c 'trap \"\" TERM; echo ready; sleep 1000; sleep 1000' & wait",
                           "--kill-after", "60s")
            self.assertEqual(p.stdout.readline(), b"ready\n")
            line = self.line(p)
            command = children(line[-1])[0]
            left = [pid for pid in self.tree(p.pid) if pid not in (*line, command)]
            self.assertEqual(self.d.cmd("BREAK", "x"), 1)
            until(lambda: not alive(command))
            self.assertEqual([pid for pid in left if not alive(pid)], [])
            os.kill(line[victim], signal.SIGKILL)
            until(lambda: not [pid for pid in left if alive(pid)])

    def test_a_daemon_that_it_has_started_stays(self):
        """Where the command ends by itself, its background processes stay."""
        self.start()
        p = self.spawn("setsid sleep 1000 >/dev/null 2>&1 9>&- & echo $! >&2; exit 0")
        self.assertEqual(p.wait(harness.DEADLINE), 0)
        pid = int(p.stderr.read())
        self.assertTrue(alive(pid))
        os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    harness.main()
