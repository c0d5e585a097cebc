#!/usr/bin/env python3
"""The door: a second daemon at the same addresses, clients of the HTTP page, the role of an admin, wrong passwords."""
import os
import signal
import socket
import stat
import sys

import harness
from harness import Case, Conn, until

ROUNDS = 12


class SecondDaemon(Case):
    """
    Two daemons want the same socket (and the same private Redis): one serves, and the other changes nothing of it.
    """

    def start(self, **more):
        """Starts a daemon at the one socket, and does not wait for it."""
        return self.rlockd(wait=False, **more)

    def redis_of(self, d):
        """The pid and the inode of a daemon's private Redis."""
        pid, path = d.embedded_redis()
        return pid, path, os.stat(path).st_ino

    def test_the_second_one_touches_nothing(self):
        first = self.rlockd()
        token = first.cmd("LOCK", "a", "OWNER", "x")
        before = self.redis_of(first), os.stat(first.path).st_ino
        second = self.start()
        self.assertEqual(second.wait(), 1)
        self.assertIn("already running: process %d" % first.pid, second.log())
        self.assertEqual((self.redis_of(first), os.stat(first.path).st_ino), before)
        with Conn(before[0][1]) as r:
            self.assertEqual(r.cmd("PING"), "PONG")
        self.assertEqual(first.cmd("UNLOCK", "a", "OWNER", "x", "TOKEN", token), 0)

    def test_other_addresses_beside_the_same_private_redis(self):
        tcp = ["--listen", "tcp:127.0.0.1:0"]
        first = self.rlockd()
        before = self.redis_of(first)
        second = self.start(name="rlockd-b", listen=False, args=tcp)
        self.assertEqual(second.wait(), 1)
        self.assertRegex(second.log(), r"run_dir .*already running: process %d" % first.pid)
        self.assertEqual(self.redis_of(first), before)

    def test_other_sockets_in_the_same_directory(self):
        """Each has a Redis of its own, also after that Redis is started again."""
        pair = [self.rlockd(name=name) for name in ("rlockd-a", "rlockd-b")]
        urls = {p.embedded_redis()[0] for p in pair}
        self.assertEqual(len(urls), 2)
        for p in pair:
            self.assertGreater(p.cmd("LOCK", "x"), 0)
            os.kill(p.embedded_redis()[0], signal.SIGKILL)
            until(lambda p=p: "embedded redis has ended" in p.log())
            until(p.ready)
        self.assertEqual([p.running() for p in pair], [True, True])

    def test_other_sockets_whose_names_begin_alike(self):
        """Only the end .sock is left out of the name of the private Redis, not all behind the first dot."""
        for name in ("a.x", "a.y"):
            p = self.rlockd(name=name)
            self.assertIn("embedded redis url=unix:%s/redis-%s.sock " % (self.dir, name), p.log())
            with p.conn() as c:
                self.assertGreater(c.cmd("LOCK", "x"), 0)
                p.signal(signal.SIGHUP)
                until(lambda p=p: "conf reloaded" in p.log())
                self.assertEqual(c.cmd("UNLOCK", "x"), 0)

    def test_a_race(self):
        """Both start at once: always one of them serves, with a Redis that it reaches and that no process unlinks."""
        for n in range(ROUNDS):
            pair = [harness.Rlockd(self.dir, wait=False) for _ in range(2)]
            try:
                until(lambda: sum(p.running() for p in pair) == 1, pause=0.001)
                winner = [p for p in pair if p.running()][0]
                loser = [p for p in pair if p is not winner][0]
                self.assertEqual(loser.wait(), 1)
                until(winner.ready)
                self.assertGreater(winner.cmd("LOCK", "a"), 0)
                self.assertTrue(stat.S_ISSOCK(os.stat(winner.embedded_redis()[1]).st_mode))
                if n % 2:
                    winner.kill()  # the files that are left behind must not hinder the next start
            finally:
                for p in pair:
                    p.stop()

    def test_what_a_killed_one_left_is_replaced(self):
        first = self.rlockd()
        first.kill()
        self.assertTrue(os.path.exists(first.path))
        second = self.rlockd()
        self.assertGreater(second.cmd("LOCK", "a"), 0)
        second.stop()
        self.assertEqual([f for f in os.listdir(self.dir) if f.endswith((".sock", ".lock"))], [])

    def test_while_the_first_one_drains(self):
        """Its socket and its Redis are still in use, by holders and by sessions that read."""
        first = self.rlockd(conf="drain_timeout: 1m\n")
        c = self.conn(first)
        c.cmd("LOCK", "a")
        before = self.redis_of(first)
        first.signal(signal.SIGTERM)
        until(lambda: "draining:1" in c.cmd("INFO", "server"))
        second = self.start()
        self.assertEqual(second.wait(), 1)
        self.assertEqual(self.redis_of(first), before)
        self.assertEqual(first.cmd("PING"), "PONG")
        self.assertEqual(c.cmd("UNLOCK", "a"), 0)
        self.assertEqual(first.wait(), 0)
        self.rlockd()

    def test_a_test_of_the_configuration_touches_nothing(self):
        first = self.rlockd()
        before = os.stat(first.path).st_ino
        status, out, err = self.run_words([os.path.join(harness.BUILD, "rlockd"), "-t", "-c", first.conf_path,
                                           "--redis", "embedded", "--listen", first.addr])
        self.assertEqual((status, out, err), (0, "configuration ok\n", ""))
        self.assertEqual(os.stat(first.path).st_ino, before)
        self.assertGreater(first.cmd("LOCK", "a"), 0)

    def test_a_lock_file_that_cannot_be_opened_is_reported(self):
        sub = os.path.join(self.dir, "sub")
        os.mkdir(sub)
        open(os.path.join(sub, "rlockd.sock.lock"), "w").close()
        os.mkdir(os.path.join(sub, "x.sock.lock"))
        d = self.start(listen=False, args=["--listen", "unix:%s/x.sock" % sub])
        self.assertEqual(d.wait(), 1)
        self.assertRegex(d.log(), r"x\.sock\.lock: ")
        self.rlockd(listen=False, args=["--listen", "unix:%s/rlockd.sock" % sub], wait=False, name="b")
        until(lambda: os.path.exists(sub + "/rlockd.sock"))


class Protected(Case):
    """
    Protected mode: over TCP no client is an admin without a password, and other hosts may not connect without one.
    """

    OPEN = "other hosts may reach it without a password: set auth.password, or protected_mode: false"

    def refused(self, conf, *listen):
        """The start refuses it, and so does -t."""
        d = self.rlockd(name="refused", wait=False, listen=False, conf=conf, args=listen)
        self.assertIn(d.wait(), (1, 64))
        self.assertIn(self.OPEN, d.log())
        status, _, err = self.run_words([os.path.join(harness.BUILD, "rlockd"), "-t", "-c", d.conf_path, *listen])
        self.assertEqual(status, d.proc.returncode)
        self.assertIn(self.OPEN, err)

    def test_other_hosts(self):
        self.refused('listen: ["tcp:0.0.0.0:0"]\n')
        self.refused("", "--listen", "tcp:*:0")
        self.refused("auth: { admin_password: x }\n", "--listen", "tcp:[::]:0")
        d = self.rlockd(conf="auth: { password: sesame }\n", args=["--listen", "tcp:0.0.0.0:0"])
        self.assertTrue(d.running())
        d = self.rlockd(name="rlockd-b", conf="protected_mode: false\n", args=["--listen", "tcp:0.0.0.0:0"])
        self.assertTrue(d.running())

    def test_a_page_that_other_hosts_reach(self):
        """The page has no password: the start and -t warn of that."""
        reason = "other hosts may reach it without a password"
        remedy = "set http.listen to an address of this host, or protected_mode: false"
        for n, (addr, more, warned) in enumerate((
                ("tcp:0.0.0.0:0", "", True), ("tcp:[::]:0", "auth: { password: x }\n", True),
                ("tcp:127.0.0.1:0", "", False), ("unix:%s/page" % self.dir, "", False),
                ("tcp:0.0.0.0:0", "protected_mode: false\n", False))):
            with self.subTest(addr=addr, more=more):
                d = self.rlockd(name="d%d" % n, conf='http: { listen: "%s" }\n%s' % (addr, more))
                until(lambda: "rlockd http " in d.log())
                self.assertEqual('reason="%s" remedy="%s"' % (reason, remedy) in d.log(), warned)
                self.assertEqual("warn rlockd http " in d.log(), warned)
                status, _, err = self.run_words([os.path.join(harness.BUILD, "rlockd"), "-t", "-c", d.conf_path])
                self.assertEqual(status, 0)
                self.assertEqual("warning: http.listen: %s: %s: %s\n" % (addr, reason, remedy) in err, warned)

    def test_a_passed_socket_that_other_hosts_reach(self):
        with socket.create_server(("0.0.0.0", 0)) as s:
            passed = harness.passing([s])
            d = self.rlockd(**passed, listen=False, wait=False)
            self.assertEqual(d.wait(), 1)
            self.assertIn(self.OPEN, d.log())
            d = self.rlockd(**passed, listen=False, wait=False, name="b",
                            conf="auth: { password: sesame, timeout: 1m }\n")
            with Conn(s.getsockname()) as c:
                self.assertEqual(c.cmd("AUTH", "sesame"), "OK")
                d.write_conf("auth: { timeout: 1m }\n")
                d.signal(signal.SIGHUP)
                until(lambda: "not reloaded" in d.log())
                self.assertIn(self.OPEN, d.log())
                with Conn(s.getsockname()) as other:
                    self.assertRegex(other.cmd("LOCK", "a"), "^NOAUTH ")

    def test_a_reload_takes_the_role_from_its_sessions(self):
        d = self.rlockd(tcp=True, conf="protected_mode: false\n")
        t = self.conn(d, tcp=True)
        self.assertEqual(t.cmd("DEBUG", "ADVANCE", "1ms"), "OK")
        d.write_conf("")
        d.signal(signal.SIGHUP)
        until(lambda: "conf reloaded" in d.log())
        self.assertRegex(t.cmd("DEBUG", "ADVANCE", "1ms"), "^NOPERM ")
        self.assertGreater(t.cmd("LOCK", "a"), 0)


if __name__ == "__main__":
    harness.main()
