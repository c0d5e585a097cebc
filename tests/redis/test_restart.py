#!/usr/bin/env python3
"""A daemon is killed, and the next one has the same state directory: locks of sessions are freed within a round trip to
Redis, and named owners keep theirs.
"""
import os
import re
import select
import shutil
import signal
import stat
import struct
import sys
import time
import unittest

import harness
from harness import Case, Conn, Rlockd, until

CONF = 'state_dir: "%s"\n'


class Restart(Case):
    def setUp(self):
        super().setUp()
        self.r = self.redis()
        self.state = os.path.join(self.dir, "state")

    def start(self, name="rlockd", conf="", **more):
        """Starts a daemon on the state directory."""
        return self.rlockd(redis=self.r.url, name=name, conf=CONF % self.state + conf, **more)

    def again(self, d, name, **more):
        """Kills the daemon and starts the next one."""
        d.kill()
        return self.start(name, **more)

    def key_of(self, name):
        return self.r.cmd("EXISTS", name)

    def wait_until_queued(self, d, name, n):
        until(lambda: len([w for w in d.cmd("WAITERS", name)]) == n)


class Sessions(Restart):
    def test_what_sessions_left_is_free_at_once(self):
        d = self.start()
        c = self.conn(d)
        kinds = {"plain": [], "one": ["KIND", "simple"], "count": ["KIND", "counter"], "fair": ["KIND", "fair"],
                 "write": ["KIND", "rw"], "read": ["KIND", "rw", "SHARED"], "fence": ["KIND", "fenced"]}
        tokens = {n: c.cmd("LOCK", n, *words) for n, words in kinds.items()}
        for n in range(3):
            c.cmd("LOCK", "permits", "KIND", "semaphore", "LIMIT", 3)
        self.assertTrue(all(isinstance(t, int) for t in tokens.values()), tokens)
        self.assertEqual([self.key_of(n) for n in kinds], [1] * len(kinds))
        self.assertEqual(self.r.cmd("ZCARD", "{permits}:timeout"), 3)
        d.kill()
        began = time.monotonic()
        d = self.start("second", wait=False)
        with self.r.conn() as r:
            until(lambda: sum(r.cmd("EXISTS", n) for n in kinds) == 0, pause=0.0005)
            took = time.monotonic() - began
            until(lambda: r.cmd("ZCARD", "{permits}:timeout") == 0)
        until(d.ready)
        freed = until(lambda: re.search(r"state released.*start_us=(\d+) redis_us=(\d+)", d.log()))
        start_us, redis_us = map(int, freed.groups())
        self.assertLess(redis_us, 250000 * harness.SLOW,
                        "it was done when Redis was reached, and not at some later time")
        self.assertRegex(d.log(), r"restored held=0 positions=0 releasing=10 lost=0 not_restored=0 torn=0")
        c = self.conn(d)
        for n, words in kinds.items():
            self.assertGreater(c.cmd("LOCK", n, "NOWAIT", *words), tokens[n])
        rtt = int(d.info("redis")["redis_rtt_us"])
        print("restart: 10 locks of sessions free %.1f ms after exec, %.1f ms after the engine's start, %.2f ms after "
              "Redis was reached; a round trip is %.2f ms" % (took * 1e3, start_us / 1e3, redis_us / 1e3, rtt / 1e3),
              file=sys.stderr)

    def test_place_in_redis_of_a_session_is_given_back(self):
        d = self.start()
        other = self.rlockd(redis=self.r.url, name="other")
        c, w = self.conn(other), self.conn(d)
        c.cmd("LOCK", "f", "KIND", "fair")
        w.line("LOCK f KIND fair")
        until(lambda: self.r.cmd("LLEN", "redisson_lock_queue:{f}") == 1)
        self.again(d, "second")
        until(lambda: self.r.cmd("LLEN", "redisson_lock_queue:{f}") == 0)
        self.assertEqual(c.cmd("UNLOCK", "f"), 0)

    def test_acquire_on_its_way(self):
        """Killed between an ACQUIRE and its reply: the lock that Redis grants to no session is freed at once."""
        d = self.start(conf="redis: { timeout: 500ms }\n")
        c = self.conn(d)
        c.cmd("LOCK", "warm")
        self.r.signal(signal.SIGSTOP)
        c.line("LOCK lost")
        c.line("LOCK named OWNER w")
        held = os.path.join(self.state, "held")

        def kept():
            """both are in the state file"""
            with open(held, "rb") as f:
                table = f.read()
            return b"lost" in table and b"named" in table
        until(kept)
        for _ in range(3):
            d.cmd("PING")  # after this many turns of the daemon's loop the commands to Redis are written
        d.kill()
        self.r.signal(signal.SIGCONT)
        until(lambda: self.key_of("lost") == 1)
        d = self.start("second", conf="redis: { timeout: 500ms }\n")
        until(lambda: self.key_of("lost") + self.key_of("warm") == 0)
        until(lambda: self.key_of("named") == 0, deadline=8)
        self.assertRegex(d.log(), r"restored held=0 positions=1 releasing=2")
        self.assertIsInstance(self.conn(d).cmd("LOCK", "lost", "NOWAIT"), int)


    def test_killed_under_load(self):
        """Killed at any moment: no record of the state file is torn, and no key of its locks is left in Redis."""
        freed, quick = 0, "redis: { timeout: 300ms }\n"  # an attempt without an answer is swept up after twice that
        for n in range(8):
            d = self.start("d%d" % n, conf=quick)
            conns = [self.conn(d) for _ in range(8)]
            for i, c in enumerate(conns):
                c.sock.setblocking(False)
                words = ["", "KIND simple", "KIND fair", "KIND rw SHARED"][i % 4]
                pairs = "".join("LOCK %d-%d WAIT 5s %s\r\nUNLOCK %d-%d\r\n" % (i % 4, k % 3, words, i % 4, k % 3)
                                for k in range(400))
                c.sock.send(pairs.encode()[:60000])
            until(lambda: sum(len(c.sock.recv(1 << 16)) for c in self.readable(conns)) > 0, pause=0.0005 * n)
            d.kill()
            d = self.start("e%d" % n, conf=quick)
            restored = re.search(r"restored held=0 positions=0 releasing=([0-9]+) lost=0 not_restored=0 torn=0",
                                 d.log())
            freed += int(restored.group(1))
            self.assertEqual(d.info("persistence")["state_lost"], "0")
            until(lambda: d.info("persistence")["state_kept"] == "0")
            left = [k for k in self.r.cmd("KEYS", "*") if not k.startswith("rlock:")]
            self.assertEqual(left, [])
            d.kill()
        self.assertGreater(freed, 0)

    def test_killed_while_the_table_shrinks(self):
        """Killed while records move: each record that is kept is there once."""
        for n in range(6):
            d = self.start("d%d" % n)
            c = self.conn(d)
            keep = ["LOCK keep%d:%d OWNER o" % (n, i) for i in range(10)]
            for i in range(10):
                lines = ["LOCK n%d:%d:%d" % (n, i, k) for k in range(300)] + keep[i:i + 1]
                self.pipeline(c, lines)
            large = int(d.info("persistence")["state_bytes"])
            c.close()
            until(lambda: int(d.info("persistence")["state_kept"]) < 500 - 80 * n, pause=0.0001)
            d.kill()
            d = self.start("e%d" % n)
            self.assertRegex(d.log(), r"restored held=10 positions=0 releasing=[0-9]+ lost=0 not_restored=0 torn=0")
            until(lambda: int(d.info("persistence")["state_kept"]) == 10)
            until(lambda: int(d.info("persistence")["state_bytes"]) < large / 4)
            with self.conn(d) as c:
                for i in range(10):
                    self.assertEqual(c.cmd("UNLOCK", "keep%d:%d" % (n, i), "OWNER", "o"), 0)
            until(lambda: d.info("persistence")["state_kept"] == "0")
            d.kill()

    @staticmethod
    def pipeline(c, lines):
        c.sock.sendall(("\r\n".join(lines) + "\r\n").encode())
        got = b""
        while got.count(b"\n") < len(lines):
            got += c.sock.recv(1 << 16)

    @staticmethod
    def readable(conns):
        return select.select(conns, [], [], 0)[0]


class Named(Restart):
    def test_locks_and_places_are_kept(self):
        d = self.start()
        c, w = self.conn(d), [self.conn(d) for _ in range(3)]
        token = c.cmd("LOCK", "a", "OWNER", "w0")
        self.assertEqual(c.cmd("LOCK", "a", "OWNER", "w0"), token)
        for i, conn in enumerate(w):
            conn.line("LOCK a OWNER w%d" % (i + 1))
            self.wait_until_queued(d, "a", i + 1)
        d = self.again(d, "second")
        self.assertRegex(d.log(), r"restored held=1 positions=3 releasing=0")
        info = d.info("persistence")
        self.assertEqual([info["state" + k] for k in ("_kept", "_not_kept", "_adopted", "_freed", "_lost")],
                         ["4", "0", "4", "0", "0"])
        new = self.conn(d)
        new.line("LOCK a OWNER late")
        self.wait_until_queued(d, "a", 4)
        w = [self.conn(d) for _ in range(3)]
        for i in (2, 1, 0):
            w[i].line("LOCK a OWNER w%d" % (i + 1))
        c = self.conn(d)
        info = c.map("LOCKINFO", "a")
        self.assertEqual((info["token"], info["holds"], info["owner"]), (token, 2, "w0"))
        self.assertEqual(c.cmd("LOCK", "a", "OWNER", "w0", "ONCE"), token)
        self.assertEqual(c.cmd("UNLOCK", "a", "OWNER", "w0"), 1)
        self.assertEqual(c.cmd("UNLOCK", "a", "OWNER", "w0", "TOKEN", token), 0)
        for i in range(3):
            t = w[i].read()
            self.assertGreater(t, token)
            token = t
            self.assertEqual(w[i].cmd("UNLOCK", "a", "OWNER", "w%d" % (i + 1)), 0)
        self.assertGreater(new.read(), token)

    def test_a_grace_of_its_own(self):
        """
        Where the rule has no owner grace: a GRACE that an owner has requested holds over a crash, from the next start
        on.
        """
        conf = "locks: { owner_grace: 0 }\n"
        d = self.start(conf=conf)
        c = self.conn(d)
        token = c.cmd("LOCK", "a", "OWNER", "w", "GRACE", "20s")
        c.cmd("LOCK", "b", "OWNER", "plain")
        d = self.again(d, "second", conf=conf)
        c = self.conn(d)
        self.assertGreater(c.cmd("LOCK", "b", "WAIT", "10s"), 0)
        d.advance("15s")
        self.assertIsNone(c.cmd("LOCK", "a", "NOWAIT"))
        self.assertEqual(c.cmd("LOCK", "a", "OWNER", "w", "ONCE", "WAIT", "5s"), token)

    def test_every_kind(self):
        d = self.start(conf='locks: { lease: 3s }\n')
        c = self.conn(d)
        kinds = {"plain": [], "one": ["KIND", "simple"], "count": ["KIND", "counter"], "fair": ["KIND", "fair"],
                 "write": ["KIND", "rw"], "read": ["KIND", "rw", "SHARED"], "fence": ["KIND", "fenced"],
                 "permits": ["KIND", "semaphore", "LIMIT", 2], "leased": ["LEASE", "60s"]}
        token = {n: c.cmd("LOCK", n, "OWNER", "w", *words) for n, words in kinds.items()}
        for n in range(3):
            d = self.again(d, "next%d" % n, conf='locks: { lease: 3s }\n')
            # All are renewed at once. (If the daemon died before the answer, it would not recognize a lock of kind
            # `counter`.)
            until(lambda: int(d.info("stats")["renewals"]) >= 8)
        c = self.conn(d)
        for n in kinds:
            self.assertEqual(c.map("LOCKINFO", n)["token"], token[n])
            self.assertEqual(c.cmd("UNLOCK", n, "OWNER", "w", "TOKEN", token[n]), 0, n)
        self.assertEqual([self.key_of(n) for n in kinds if n != "permits"], [0] * (len(kinds) - 1))
        self.assertEqual(self.r.cmd("ZCARD", "{permits}:timeout"), 0)

    def test_place_in_redis_is_kept(self):
        d = self.start()
        other = self.rlockd(redis=self.r.url, name="other")
        c, w, last = self.conn(other), self.conn(d), self.conn(other)
        c.cmd("LOCK", "f", "KIND", "fair")
        w.line("LOCK f KIND fair OWNER w")
        until(lambda: self.r.cmd("LLEN", "redisson_lock_queue:{f}") == 1)
        last.line("LOCK f KIND fair")
        until(lambda: self.r.cmd("LLEN", "redisson_lock_queue:{f}") == 2)
        queue = self.r.cmd("LRANGE", "redisson_lock_queue:{f}", 0, -1)
        d = self.again(d, "second")
        w = self.conn(d)
        w.line("LOCK f KIND fair OWNER w")
        self.wait_until_queued(d, "f", 1)
        self.assertEqual(self.r.cmd("LRANGE", "redisson_lock_queue:{f}", 0, -1), queue)
        self.assertEqual(c.cmd("UNLOCK", "f"), 0)
        first = w.read()
        self.assertEqual(w.cmd("UNLOCK", "f", "OWNER", "w"), 0)
        self.assertGreater(last.read(), first)

    def test_an_owner_that_does_not_come_back_has_ended(self):
        d = self.start()
        self.conn(d).cmd("LOCK", "a", "OWNER", "w")
        d = self.again(d, "second")
        self.assertEqual(self.key_of("a"), 1)
        d.advance("9s")
        self.assertEqual(self.conn(d).map("LOCKINFO", "a")["state"], "held")
        d.advance("2s")
        until(lambda: self.key_of("a") == 0)

    def test_a_vanished_owner_ends_in_a_crash_loop(self):
        """Started again and again within owner_grace, and killed: the first deadline counts, for locks and places."""
        conf = "locks: { owner_grace: 3s }\n"
        d = self.start(conf=conf)
        c, w = self.conn(d), self.conn(d)
        c.cmd("LOCK", "a", "OWNER", "gone", "KIND", "fair")
        w.line("LOCK a OWNER waits KIND fair")
        until(lambda: self.r.cmd("LLEN", "redisson_lock_queue:{a}") == 1)
        began = time.monotonic()
        for conn in (c, w):
            conn.close()
        until(lambda: d.info("persistence")["state_owners"] == "2")
        freed = None
        for n in range(12):
            d = self.again(d, "d%d" % n, conf=conf)
            end = time.monotonic() + 0.5
            while freed is None and time.monotonic() < end:
                freed = time.monotonic() - began if self.key_of("a") == 0 else None
                time.sleep(0.01)
            if freed is not None:
                break
        self.assertIsNotNone(freed, "after 12 starts it is still held")
        self.assertGreater(freed, 2.9)
        until(lambda: self.r.cmd("LLEN", "redisson_lock_queue:{a}") == 0)
        until(lambda: d.info("persistence")["state_owners"] == "0")

    def test_an_owner_that_came_back_has_its_whole_grace(self):
        conf = "locks: { owner_grace: 3s }\n"
        d = self.start(conf=conf)
        c = self.conn(d)
        token = c.cmd("LOCK", "a", "OWNER", "w")
        c.close()
        until(lambda: d.info("persistence")["state_owners"] == "1")
        d.advance("2900ms")
        c = self.conn(d)
        self.assertEqual(c.cmd("LOCK", "a", "OWNER", "w", "ONCE"), token)
        self.assertEqual(d.info("persistence")["state_owners"], "0")
        d = self.again(d, "second", conf=conf)
        d.advance("2s")
        self.assertEqual(self.conn(d).cmd("LOCK", "a", "OWNER", "w", "ONCE", "WAIT", "10s"), token)

    def test_what_ran_out_meanwhile_is_lost_and_reported_once(self):
        d = self.start()
        c = self.conn(d)
        c.cmd("LOCK", "a", "LEASE", "200ms", "OWNER", "w")
        d.kill()
        until(lambda: self.key_of("a") == 0)
        d = self.start("second")
        self.assertRegex(d.log(), r"restored held=0 positions=0 releasing=0 lost=1")
        d = self.again(d, "third")
        c = self.conn(d)
        self.assertRegex(c.cmd("UNLOCK", "a", "OWNER", "w"), "^LOST")
        self.assertRegex(c.cmd("UNLOCK", "a", "OWNER", "w"), "^NOTHELD")

    def test_freed_before_redis_was_reached(self):
        """
        The log has the time that freeing took since Redis was reached, and no such time where Redis was not reached.
        """
        d = self.start()
        self.conn(d).cmd("LOCK", "a", "LEASE", "200ms", "OWNER", "w")
        d.kill()
        until(lambda: self.key_of("a") == 0)
        self.r.kill()
        d = self.start("second", wait=False)
        line = until(lambda: re.search(r"state released .*", d.log()))[0]
        self.assertRegex(line, r"locks=1 start_us=\d+$")

    def test_lost_in_redis_meanwhile(self):
        d = self.start()
        self.conn(d).cmd("LOCK", "a", "OWNER", "w")
        d.kill()
        self.r.cmd("DEL", "a")
        d = self.start("second")
        until(lambda: int(d.info("stats")["lost"]) == 1)
        self.assertRegex(self.conn(d).cmd("UNLOCK", "a", "OWNER", "w"), "^LOST")

    def test_redis_lost_all_meanwhile(self):
        """The locks of a named owner are reclaimed, and no other daemon grants them before that."""
        d = self.start()
        other = self.rlockd(redis=self.r.url, name="other")
        until(lambda: other.info("redis")["redis_other_daemons"] == "1")
        token = self.conn(d).cmd("LOCK", "x", "OWNER", "alice")
        d.kill()
        self.r.cmd("FLUSHALL")
        w = self.conn(other)
        w.ask("LOCK", "x", "WAIT", "20s")
        until(lambda: other.info("redis")["redis_grace"] == "1")
        d = self.start("second")
        until(lambda: other.info("redis")["redis_grace"] == "0")
        self.assertEqual(self.conn(d).cmd("LOCK", "x", "OWNER", "alice", "ONCE"), token)
        self.assertTrue(w.quiet())
        self.assertEqual(self.conn(d).cmd("UNLOCK", "x", "OWNER", "alice"), 0)
        self.assertGreater(w.read(), token)

    def test_broken_meanwhile_is_not_taken_again(self):
        """In the same Redis: a lock that an operator broke is lost, also if no owner has taken it since."""
        other = self.rlockd(redis=self.r.url, name="other")
        d = self.start()
        self.conn(d).cmd("LOCK", "a", "OWNER", "w")
        d.kill()
        self.assertEqual(other.cmd("BREAK", "a"), 1)
        d = self.start("second")
        c = self.conn(d)
        self.assertRegex(c.cmd("LOCK", "a", "OWNER", "w", "ONCE"), "^LOST")
        self.assertEqual(self.key_of("a"), 0)

    def test_redis_restarts_empty_meanwhile(self):
        """Daemon and Redis end together: the holder has its lock in the new data, and no other owner gets it before."""
        d = self.start()
        token = self.conn(d).cmd("LOCK", "a", "OWNER", "w")
        d.kill()
        self.r.kill()
        os.unlink(self.r.path)
        self.r = self.redis(name="redis")
        other = self.rlockd(redis=self.r.url, name="other")
        d = self.start("second")
        c = self.conn(d)
        self.assertEqual(c.cmd("LOCK", "a", "OWNER", "w", "ONCE"), token)
        self.assertEqual(self.key_of("a"), 1)
        self.assertIsNone(other.cmd("LOCK", "a", "NOWAIT"))
        self.assertEqual(c.cmd("UNLOCK", "a", "OWNER", "w", "TOKEN", token), 0)
        self.assertGreater(other.cmd("LOCK", "a"), token)

    def test_stop_and_start(self):
        """TERM while one named owner holds and another one waits: both go on with the next process."""
        d = self.start(conf="drain_timeout: 100ms\n")
        c, w, s = self.conn(d), self.conn(d), self.conn(d)
        token = c.cmd("LOCK", "a", "OWNER", "w0")
        s.cmd("LOCK", "b")
        w.line("LOCK a OWNER w1")
        self.wait_until_queued(d, "a", 1)
        d.signal(signal.SIGTERM)
        self.assertRegex(w.read(), "^DRAINING")
        self.assertEqual(d.wait(), 0)
        self.assertEqual((self.key_of("a"), self.key_of("b")), (1, 0))
        d = self.start("second")
        self.assertRegex(d.log(), r"restored held=1 positions=1 releasing=0")
        c, w, new = self.conn(d), self.conn(d), self.conn(d)
        new.line("LOCK a OWNER new")
        self.wait_until_queued(d, "a", 2)
        w.line("LOCK a OWNER w1")
        self.assertEqual(c.cmd("UNLOCK", "a", "OWNER", "w0", "TOKEN", token), 0)
        self.assertGreater(w.read(), token)
        self.assertEqual(w.cmd("UNLOCK", "a", "OWNER", "w1"), 0)
        self.assertGreater(new.read(), token)


class Directory(Restart):
    def test_same_daemon_new_ids(self):
        d = self.start()
        uuid, first = d.info("server")["run_id"], self.conn(d).cmd("CLIENT", "ID")
        self.assertTrue(uuid.endswith("726c6f636b64"))
        d = self.again(d, "second")
        self.assertEqual(d.info("server")["run_id"], uuid)
        self.assertGreater(self.conn(d).cmd("CLIENT", "ID"), first + 1000000)
        for f in os.listdir(self.state):
            self.assertEqual(stat.S_IMODE(os.stat(os.path.join(self.state, f)).st_mode), 0o600, f)
        self.assertEqual(stat.S_IMODE(os.stat(self.state).st_mode), 0o700)

    def timeout_kept(self):
        with open(os.path.join(self.state, "held"), "rb") as f:
            return struct.unpack_from("<q", f.read(160), 152)[0]  # struct head of state_file.c

    def test_a_longer_timeout_counts_while_its_commands_may_run(self):
        """Also for a third process, which a restart of the second one follows at once."""
        d = self.start(conf="redis: { timeout: 3s }\n")
        self.assertEqual(self.timeout_kept(), 3000000)
        began = time.monotonic()
        d = self.again(d, "second", conf="redis: { timeout: 500ms }\n")
        self.assertEqual(self.timeout_kept(), 3000000)
        until(lambda: d.cmd("PING") and self.timeout_kept() == 500000)
        self.assertGreater(time.monotonic() - began, 6)
        d = self.again(d, "third", conf="redis: { timeout: 1s }\n")
        self.assertEqual(self.timeout_kept(), 1000000)

    def refused(self, name, **more):
        d = self.start(name, wait=False, **more)
        self.assertEqual(d.wait(), 1)
        return d.log()

    def test_second_daemon_is_refused(self):
        d = self.start()
        self.assertIn("in use by another rlockd, pid %d" % d.pid, self.refused("second"))
        self.assertEqual(d.cmd("PING"), "PONG")
        d.kill()
        self.start("third")

    def test_copy_of_the_directory(self):
        """The daemon takes it for another host: only the successor of the process that runs may serve."""
        self.start().stop()
        copy = os.path.join(self.dir, "copy")
        shutil.copytree(self.state, copy)
        d = self.start("second")
        c = self.conn(d)
        c.cmd("LOCK", "a", "OWNER", "w")
        self.state = copy
        clone = self.start("clone", wait=False)
        until(lambda: "another daemon has our uuid" in clone.log())
        self.assertEqual(clone.info("redis")["redis_state"], "down")
        self.assertRegex(clone.cmd("LOCK", "b", "NOWAIT"), "^UNAVAILABLE")
        self.assertEqual(d.info("redis")["redis_state"], "up")
        self.assertEqual(c.cmd("UNLOCK", "a", "OWNER", "w"), 0)

    @unittest.skipUnless(os.geteuid() == 0, "mounts need root")
    def test_a_boot_that_is_not_known(self):
        """Without its id a restart may be a reboot on which another process has the directory's registration."""
        hides = ["unshare", "--mount", "sh", "-c", 'mount -t proc -o subset=pid proc /proc && exec "$@"', "sh"]
        d = self.start(under=hides)
        c = self.conn(d)
        self.assertGreater(c.cmd("LOCK", "named", "OWNER", "w"), 0)
        c.cmd("LOCK", "a")
        d = self.again(d, "second", under=hides, wait=False)
        until(d.ready, 60)
        self.assertEqual(len(re.findall("the boot of this host is not known", d.log())), 1)
        self.assertIn("boot_id: No such file", d.log())
        self.assertRegex(d.log(), "restored held=0 .* lost=1 ")
        until(lambda: self.key_of("a") + self.key_of("named") == 0)

    def test_secret_that_others_may_read_is_refused(self):
        self.start().stop()
        path = os.path.join(self.state, "id")
        os.chmod(path, 0o640)
        self.assertIn("others may read it (mode 0640", self.refused("second"))
        os.chmod(path, 0o600)
        with open(path, "a") as f:
            f.write("more\n")
        self.assertIn("not understood", self.refused("third"))

    def test_systemd_directory(self):
        env = {"STATE_DIRECTORY": self.state + ":/nowhere"}
        d = self.rlockd(redis=self.r.url, env=env)
        self.assertIn("id", os.listdir(self.state))
        d.stop()
        d = self.rlockd(redis=self.r.url, name="none", env={"STATE_DIRECTORY": self.dir + "/x"},
                        conf="state_dir: none\n")
        self.assertFalse(os.path.exists(self.dir + "/x"))

    def test_many(self):
        """More locks than the state file begins with, and names of the maximum length."""
        d = self.start()
        c = self.conn(d)
        n = 700
        for i in range(n):
            c.ask("LOCK", "m%d" % i)
        for i in range(40):
            c.ask("LOCK", "x" * 500 + "%d" % i, "OWNER", "o" * 128)
        self.assertTrue(all(isinstance(c.read(), int) for _ in range(n + 40)))
        for i in range(0, n, 2):
            c.ask("UNLOCK", "m%d" % i)
        self.assertEqual({c.read() for _ in range(0, n, 2)}, {0})
        d = self.again(d, "second")
        self.assertRegex(d.log(), r"restored held=40 positions=0 releasing=350 lost=0 not_restored=0 torn=0")
        until(lambda: re.search(r"state released.*redis_us", d.log()))
        self.assertEqual(sum(self.key_of("m%d" % i) for i in range(n)), 0)


if __name__ == "__main__":
    harness.main()
