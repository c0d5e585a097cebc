#!/usr/bin/env python3
"""The daemon as a process: signals, its Redis, systemd, limits of connections, clients that die or do not read."""
import os
import re
import resource
import signal
import socket
import stat
import subprocess
import sys
import time

import harness
from harness import Case, Closed, Conn, RError, Redis, alive, until

DRAINING = "DRAINING the daemon is shutting down"


class Signals(Case):
    def test_term_with_nothing_held_ends_at_once(self):
        d = self.rlockd()
        pid, _ = d.embedded_redis()
        d.signal(signal.SIGTERM)
        self.assertEqual(d.wait(), 0)
        self.assertFalse(os.path.exists(d.path), "the socket stays behind")
        until(lambda: not alive(pid))

    def test_a_healthy_start_warns_of_nothing(self):
        """
        It waits for its Redis at the start, and its settings ask for no more connections than the limit of files
        allows.
        """
        d = self.rlockd()
        self.conn(d).cmd("PING")
        self.assertEqual([line for line in d.log().splitlines() if line.split(" ")[0] in ("warn", "error")], [])
        self.assertNotIn("reason=", d.log())

    def test_term_lets_holders_finish_and_grants_nothing(self):
        d = self.rlockd(conf="drain_timeout: 1h\n")
        holder, waiter = self.conn(d), self.conn(d)
        self.assertGreater(holder.cmd("LOCK", "a"), 0)
        waiter.ask("LOCK", "a")
        until(lambda: holder.maps("LOCKS", "a")[0]["waiters"] == 1)
        d.signal(signal.SIGTERM)
        self.assertEqual(waiter.read(), DRAINING)
        self.assertEqual(holder.cmd("LOCK", "b"), DRAINING)
        self.assertGreater(holder.cmd("RENEW", "a", "20s"), 0)
        self.assertTrue(d.running())
        self.assertEqual(holder.cmd("UNLOCK", "a"), 0)
        self.assertEqual(d.wait(), 0)

    def drains(self, how):
        """Eleven locks are held; returns the lines of INFO about the drain, read by a later connection."""
        d = self.d = self.rlockd(conf="drain_timeout: 1h\n")
        self.holder = self.conn(d)
        self.assertGreater(self.holder.cmd("LOCK", "a=b c", "OWNER", "my job"), 0)
        for i in range(10):
            self.assertGreater(self.holder.cmd("LOCK", "n%d" % i), 0)
        self.session = self.holder.cmd("CLIENT", "ID")
        how(d)
        until(lambda: "draining:1" in self.holder.cmd("INFO", "server"))
        late = self.conn(d)
        self.assertEqual(late.cmd("PING"), "PONG")
        self.assertEqual(len(late.cmd("LOCKS")), 11)
        self.assertEqual(late.map("LOCKINFO", "n3")["session"], self.session)
        self.assertEqual(late.cmd("LOCK", "other"), DRAINING)
        return dict(line.split(":", 1) for line in late.cmd("INFO", "server").split("\r\n") if ":" in line)

    def waits_for(self, how, timeout):
        info = self.drains(how)
        named = ", ".join("n%d (session %d)" % (i, self.session) for i in range(7))
        names = "a=b c (owner my job), %s and 3 more" % named
        self.assertEqual((info["drain_held"], info["drain_locks"]), ("11", names))
        self.assertRegex(self.d.log(), r'(?m)draining sessions=[12] held=11 releasing=0 locks="%s"%s$' %
                         (re.escape(names), timeout))
        for i in range(9):
            self.assertEqual(self.holder.cmd("UNLOCK", "n%d" % i), 0)
        self.assertIn("drain_locks:a=b c (owner my job), n9 (session %d)\r\n" % self.session, self.d.cmd("INFO"))

    def test_drain_says_what_it_waits_for(self):
        self.waits_for(lambda d: self.assertEqual(d.cmd("DRAIN"), "OK"), "")  # until the holders have finished
        self.assertTrue(self.d.running())

    def test_term_says_what_it_waits_for(self):
        self.waits_for(lambda d: d.signal(signal.SIGTERM), " timeout_ms=3600000")
        with self.d.conn() as another:  # the connection of a pool
            self.assertEqual(another.cmd("UNLOCK", "a=b c", "OWNER", "my job"), 0)
        self.assertEqual(self.holder.cmd("UNLOCK", "n9"), 0)
        self.assertEqual(self.d.wait(), 0)
        self.assertNotIn("drain timeout", self.d.log())

    def test_a_drain_that_is_over_says_what_was_held(self):
        d = self.rlockd(conf="drain_timeout: 100ms\n")
        c = self.conn(d)
        c.cmd("LOCK", "a", "OWNER", "w7")
        d.signal(signal.SIGTERM)
        self.assertEqual(d.wait(), 0)
        self.assertRegex(d.log(), r'warn engine drain timeout sessions=1 held=1 releasing=0 locks="a \(owner w7\)" '
                                  r'timeout_ms=100 effect=".*" remedy="a longer drain_timeout')

    def test_a_drain_says_what_redis_is_still_to_free(self):
        """Odd bytes of names are escaped once, in the log too."""
        r = self.redis()
        d = self.rlockd(redis=r.url, conf="drain_timeout: 1h\n")
        c, owner = self.conn(d), 'w"7'
        c.cmd("LOCK", "a")
        c.cmd("LOCK", "b", "OWNER", owner)
        r.signal(signal.SIGSTOP)
        c.ask("UNLOCK", "a")
        self.assertEqual(d.cmd("DRAIN"), "OK")
        until(lambda: "drain_locks:a (freeing), b (owner w\\x227)\r\n" in d.cmd("INFO", "server"))
        self.assertRegex(d.log(), r'draining sessions=\d held=1 releasing=1 locks="a \(freeing\), b \(owner w\\x227\)"')
        r.signal(signal.SIGCONT)
        self.assertEqual(c.read(), 0)
        self.assertEqual(c.cmd("UNLOCK", "b", "OWNER", owner), 0)
        until(lambda: "drain_locks:\r\n" in d.cmd("INFO", "server"))

    def test_a_drain_does_not_wait_for_a_lost_lock(self):
        d = self.rlockd(conf="drain_timeout: 1h\n")
        c = self.conn(d)
        c.cmd("LOCK", "lost", "OWNER", "w7", "LEASE", "1s")
        c.cmd("LOCK", "kept", "OWNER", "w7")
        c.cmd("DEBUG", "ADVANCE", "2s")
        self.assertEqual(c.cmd("DRAIN"), "OK")
        self.assertIn("drain_held:1\r\n", c.cmd("INFO", "server"))
        # The key of the lost lock is released at once, and INFO names the lock until Redis has answered.
        until(lambda: "drain_locks:kept (owner w7)\r\n" in c.cmd("INFO", "server"))

    def test_drain_ends_after_its_time(self):
        r = self.redis()
        d = self.rlockd(redis=r.url, conf="drain_timeout: 100ms\n")
        c = self.conn(d)
        c.cmd("LOCK", "a")
        d.signal(signal.SIGTERM)
        self.assertEqual(d.wait(), 0)
        self.assertEqual(r.cmd("EXISTS", "a"), 0, "what was held is given back at the end")

    def test_second_term_and_int_end_now(self):
        for sigs in ([signal.SIGTERM, signal.SIGTERM], [signal.SIGINT], [signal.SIGTERM, signal.SIGINT]):
            with self.subTest(sigs=sigs):
                r = self.redis(name="redis%d%d" % (len(sigs), sigs[-1]))
                d = self.rlockd(redis=r.url, name="d%d%d" % (len(sigs), sigs[-1]), conf="drain_timeout: 1h\n")
                c = self.conn(d)
                c.cmd("LOCK", "a")
                for i, s in enumerate(sigs):
                    if i:
                        until(lambda: "draining:1" in c.cmd("INFO", "server"))
                    d.signal(s)
                self.assertEqual(d.wait(), 0)
                self.assertEqual(r.cmd("EXISTS", "a"), 0)

    def test_hup_takes_what_may_change(self):
        d = self.rlockd(conf="locks: { lease: 30s }\n")
        c = self.conn(d)
        d.write_conf("locks: { lease: 60s }\nlog: { level: debug }\n")
        d.signal(signal.SIGHUP)
        until(lambda: c.cmd("CONFIG", "GET", "locks.lease") in (["locks.lease", "60s"], ["locks.lease", "1m"]))
        full = c.map("LOCK", "a", "FULL")
        self.assertGreater(full["lease_ms"], 50000)
        self.assertNotIn("needs a restart", d.log())
        d.write_conf("redis: { timeout: 2s }\n")
        d.signal(signal.SIGHUP)
        until(lambda: "conf needs a restart key=redis.timeout" in d.log())

    def test_hup_keeps_the_old_on_error(self):
        d = self.rlockd(conf="locks: { lease: 31s }\n")
        c = self.conn(d)
        d.write_conf("locks: { leese: 60s }\n")
        d.signal(signal.SIGHUP)
        until(lambda: re.search(r"rlockd\.yaml:2:\d+: .*lease", d.log()))
        self.assertEqual(c.cmd("CONFIG", "GET", "locks.lease"), ["locks.lease", "31s"])
        self.assertGreater(c.cmd("LOCK", "a"), 0)


class Embedded(Case):
    def test_no_orphan_after_kill_9(self):
        d = self.rlockd()
        pid, path = d.embedded_redis()
        self.assertTrue(alive(pid))
        d.kill()
        until(lambda: not alive(pid))

    def test_private_and_without_a_port(self):
        d = self.rlockd()
        pid, path = d.embedded_redis()
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode) & 0o007, 0, "others may not connect")
        with Conn(path) as r:
            self.assertEqual(r.cmd("CONFIG", "GET", "port"), ["port", "0"])
            self.assertEqual(r.cmd("CONFIG", "GET", "save"), ["save", ""])
            self.assertEqual(r.cmd("CONFIG", "GET", "appendonly"), ["appendonly", "no"])

    def test_two_in_one_directory_do_not_meet(self):
        a = self.rlockd(name="a")
        b = self.rlockd(name="b")
        self.assertGreater(a.cmd("LOCK", "x"), 0)
        self.assertGreater(b.cmd("LOCK", "x", "NOWAIT"), 0)

    def test_two_sockets_that_differ_in_their_end_do_not_meet(self):
        a = self.rlockd(name="a")
        bare = os.path.join(self.dir, "a")
        b = self.rlockd(name="b", listen=False, args=["--listen", "unix:" + bare], wait=False)
        b.path = bare
        until(b.ready)
        self.assertGreater(a.cmd("LOCK", "x"), 0)
        self.assertGreater(b.cmd("LOCK", "x", "NOWAIT"), 0)


class RedisAway(Case):
    def start(self, conf="redis: { timeout: 200ms, backoff_max: 50ms }\n"):
        self.r = self.redis()
        self.d = self.rlockd(redis=self.r.url, conf=conf)
        self.c = self.conn(self.d)

    def pause(self):
        self.r.signal(signal.SIGSTOP)
        self.addCleanup(lambda: self.r.running() and self.r.signal(signal.SIGCONT))

    def test_spin(self):
        """A daemon polls before it sleeps, as long as that pays; and then it sleeps."""
        self.start("spin: 1ms\n")
        for _ in range(200):
            self.assertGreater(self.c.cmd("LOCK", "a"), 0)
            self.assertEqual(self.c.cmd("UNLOCK", "a"), 0)
        asleep = 0
        for _ in range(50):  # a daemon that polls all the time is never asleep, however little processor time it gets
            time.sleep(0.01)
            with open("/proc/%d/stat" % self.d.pid) as f:
                asleep += f.read().rpartition(")")[2].split()[0] == "S"
        self.assertGreater(asleep, 25)

    def test_paused(self):
        self.start()
        token = self.c.cmd("LOCK", "held")
        self.pause()
        began = time.monotonic()
        self.assertRegex(self.c.cmd("LOCK", "new", "WAIT", "300ms"), "^UNAVAILABLE ")
        took = time.monotonic() - began
        self.assertGreater(took, 0.29)
        self.assertLess(took, 2 * harness.SLOW)
        self.assertRegex(self.c.cmd("LOCK", "new", "NOWAIT"), "^UNAVAILABLE ")
        self.assertEqual(self.c.cmd("LOCK", "held", "ONCE"), token, "what is held stays held")
        self.r.signal(signal.SIGCONT)
        self.assertGreater(self.c.cmd("LOCK", "new", "WAIT", "10s"), 0)
        self.assertEqual(self.c.cmd("UNLOCK", "held"), 0)
        self.assertEqual(self.c.cmd("UNLOCK", "new"), 0)
        until(lambda: self.r.cmd("EXISTS", "held", "new") == 0)

    def test_a_wait_goes_on_when_it_comes_back(self):
        self.start()
        self.pause()
        self.c.ask("LOCK", "x", "WAIT", "30s")
        with self.d.conn() as other:
            until(lambda: not self.d.redis_up(other))
        self.r.signal(signal.SIGCONT)
        self.assertGreater(self.c.read(), 0)

    def test_held_until_the_deadline_and_then_lost(self):
        self.start()
        self.c.cmd("LOCK", "a")
        subscriber = self.conn(self.d)
        subscriber.cmd("SUBSCRIBE", "lock:a")
        self.r.kill()
        other = self.conn(self.d)
        other.cmd("DEBUG", "ADVANCE", "10s")
        self.assertEqual(other.maps("LOCKS", "a")[0]["state"], "held")
        self.assertTrue(subscriber.quiet())
        other.cmd("DEBUG", "ADVANCE", "10s")
        self.assertEqual(other.maps("LOCKS", "a")[0]["state"], "held")
        self.assertRegex(subscriber.read()[2], "^jeopardy ")
        other.cmd("DEBUG", "ADVANCE", "10s")
        self.assertRegex(subscriber.read()[2], "^lost ")
        self.assertRegex(self.c.cmd("UNLOCK", "a"), "^LOST ")
        self.assertRegex(self.c.cmd("UNLOCK", "a"), "^NOTHELD ", "reported once")
        self.assertRegex(self.d.log(), "lost.*a")

    def test_restarted_empty(self):
        self.start()
        first = self.c.cmd("LOCK", "a")
        self.r.kill()
        until(lambda: not self.d.redis_up(self.c))
        os.unlink(self.r.path)
        self.redis(name="redis")
        until(lambda: self.d.redis_up(self.c))
        # Lost or reclaimed: in either case one answer, and the next token is larger.
        self.c.cmd("DEBUG", "ADVANCE", "11s")
        until(lambda: self.c.maps("LOCKS", "a") == [] or self.c.cmd("LOCKINFO", "a"))
        self.c.cmd("UNLOCK", "a")
        self.assertGreater(self.c.cmd("LOCK", "a", "WAIT", "10s"), first)

    def test_not_there_at_the_start(self):
        path = os.path.join(self.dir, "redis.sock")
        d = self.rlockd(redis="unix:" + path, wait=False, conf="redis: { backoff_max: 50ms }\n")
        until(d.serving)
        c = self.conn(d)
        self.assertEqual(c.cmd("PING"), "PONG")
        self.assertRegex(c.cmd("LOCK", "a", "NOWAIT"), "^UNAVAILABLE ")
        c.ask("LOCK", "a", "WAIT", "30s")
        self.redis()
        self.assertGreater(c.read(), 0)

    def test_links_cut_scripts_flushed(self):
        self.start()
        token = self.c.cmd("LOCK", "a")
        for _ in range(5):
            self.r.cmd("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            self.r.cmd("SCRIPT", "FLUSH")
            self.assertGreater(self.c.cmd("LOCK", "b", "WAIT", "10s"), 0)
            self.assertEqual(self.c.cmd("UNLOCK", "b"), 0)
            self.r.cmd("CLIENT", "KILL", "TYPE", "pubsub")
        self.assertEqual(self.c.cmd("UNLOCK", "a", "TOKEN", token), 0)

    def test_a_waiter_survives_a_cut_subscription(self):
        self.start()
        holder = self.conn(self.d)
        self.r.cmd("HSET", "a", "0b9c2c1e-3f57-4c6a-9b0e-5a3d7f5c9f10:84", "1")
        self.r.cmd("PEXPIRE", "a", "60000")
        self.c.ask("LOCK", "a")
        until(lambda: self.r.cmd("PUBSUB", "NUMSUB", "redisson_lock__channel:{a}")[1] == 1)
        self.r.cmd("CLIENT", "KILL", "TYPE", "pubsub")
        self.r.cmd("DEL", "a")  # no wake-up comes: the renewed subscription must make the waiter try by itself
        self.assertGreater(self.c.read(), 0)
        holder.close()

    def test_full(self):
        self.start()
        self.c.cmd("LOCK", "a")
        self.r.cmd("CONFIG", "SET", "maxmemory-policy", "noeviction")
        self.r.cmd("CONFIG", "SET", "maxmemory", "1")
        self.assertRegex(self.c.cmd("LOCK", "b", "NOWAIT"), "^UNAVAILABLE ")
        self.assertEqual(self.r.cmd("EXISTS", "b"), 0)
        self.assertEqual(self.c.cmd("UNLOCK", "a"), 0, "what is held can be given back to a full Redis")


class RedisAddress(Case):
    def test_password_user_and_db_over_tcp(self):
        r = self.redis(tcp=True, args=["--requirepass", "other", "--user", "app", "on", ">s3cret", "~*", "&*", "+@all"])
        r.password = "other"
        d = self.rlockd(redis="redis://app:s3cret@127.0.0.1:%d/3" % r.port)
        self.assertGreater(d.cmd("LOCK", "a", "OWNER", "x"), 0)
        with r.conn() as c:
            self.assertEqual(c.cmd("AUTH", "other"), "OK")
            self.assertEqual(c.cmd("EXISTS", "a"), 0)
            c.cmd("SELECT", "3")
            self.assertEqual(c.cmd("EXISTS", "a"), 1)
        self.assertNotIn("s3cret", d.log())
        self.assertNotIn("s3cret", d.cmd("INFO", "redis") + d.cmd("INFO", "config"))

    def test_password_by_conf_and_db_over_unix(self):
        r = self.redis(args=["--requirepass", "other"])
        d = self.rlockd(redis=r.url + "?db=2", conf="redis: { password: other }\n")
        self.assertGreater(d.cmd("LOCK", "a", "OWNER", "x"), 0)
        with r.conn() as c:
            c.cmd("AUTH", "other")
            c.cmd("SELECT", "2")
            self.assertEqual(c.cmd("EXISTS", "a"), 1)
        self.assertNotIn("other", d.cmd("CONFIG", "GET", "redis.*"))

    def test_wrong_password_is_reported(self):
        r = self.redis(args=["--requirepass", "other"])
        d = self.rlockd(redis=r.url, wait=False)
        until(d.serving)
        self.assertRegex(d.cmd("LOCK", "a", "NOWAIT"), "^UNAVAILABLE ")
        until(lambda: "NOAUTH" in d.log() or "NOAUTH" in d.cmd("INFO", "redis"))


class Systemd(Case):
    def notify(self):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(s.close)
        self.notify_path = os.path.join(self.dir, "notify")
        s.bind(self.notify_path)
        s.settimeout(harness.DEADLINE)
        self.received = []
        return s

    def receive(self, s, what):
        while True:
            for line in s.recv(4096).decode().split("\n"):
                self.received.append(line)
            if any(line.startswith(what) for line in self.received):
                return next(line for line in self.received if line.startswith(what))

    def test_status_says_what_a_drain_waits_for(self):
        s = self.notify()
        d = self.rlockd(env={"NOTIFY_SOCKET": self.notify_path}, conf="drain_timeout: 1h\n")
        self.receive(s, "READY=1")
        c = self.conn(d)
        self.assertGreater(c.cmd("LOCK", "a", "OWNER", "w7"), 0)
        d.signal(signal.SIGTERM)
        self.assertEqual(self.receive(s, "STATUS=Draining"),
                         "STATUS=Draining: 1 locks, 0 waiting, redis up; waits for a (owner w7)")
        c.cmd("UNLOCK", "a", "OWNER", "w7")
        self.assertEqual(d.wait(), 0)

    def test_notify(self):
        s = self.notify()
        d = self.rlockd(env={"NOTIFY_SOCKET": self.notify_path, "WATCHDOG_USEC": "200000"})
        self.receive(s, "READY=1")
        self.assertRegex(self.receive(s, "STATUS="), "redis")
        self.received = []
        self.receive(s, "WATCHDOG=1")
        self.received = []
        self.receive(s, "WATCHDOG=1")
        self.received = []
        d.signal(signal.SIGHUP)
        self.receive(s, "RELOADING=1")
        self.assertTrue(any(line.startswith("MONOTONIC_USEC=") for line in self.received))
        self.received = []
        self.receive(s, "READY=1")
        d.signal(signal.SIGTERM)
        self.receive(s, "STOPPING=1")
        self.assertEqual(d.wait(), 0)

    def test_a_reload_before_redis_is_reached_is_not_ready(self):
        s = self.notify()
        d = self.rlockd(redis="unix:" + os.path.join(self.dir, "none"), env={"NOTIFY_SOCKET": self.notify_path},
                        wait=False)
        until(d.serving)
        d.signal(signal.SIGHUP)
        until(lambda: " reloaded" in d.log())
        s.settimeout(0.3)
        with self.assertRaises(socket.timeout):
            self.receive(s, "READY=1")

    def test_a_stuck_loop_does_not_feed_the_watchdog(self):
        s = self.notify()
        d = self.rlockd(env={"NOTIFY_SOCKET": self.notify_path, "WATCHDOG_USEC": "200000"})
        self.receive(s, "WATCHDOG=1")
        d.signal(signal.SIGSTOP)
        s.settimeout(0)
        try:
            while s.recv(4096):
                pass
        except BlockingIOError:
            pass
        s.settimeout(0.3)
        with self.assertRaises(socket.timeout):
            s.recv(4096)
        d.signal(signal.SIGCONT)

    def test_a_call_at_a_passed_socket_while_it_drains_waits_for_the_next_process(self):
        path = os.path.join(self.dir, "rlockd.sock")
        unix = socket.socket(socket.AF_UNIX)
        self.addCleanup(unix.close)
        unix.bind(path)
        unix.listen(16)
        d = self.rlockd(**harness.passing([unix]), listen=False, conf="drain_timeout: 1h\n")
        c = self.conn(d)
        self.assertGreater(c.cmd("LOCK", "a"), 0)
        d.signal(signal.SIGTERM)
        until(lambda: "draining:1" in c.cmd("INFO", "server"))
        with socket.socket(socket.AF_UNIX) as later:
            later.connect(path)
            later.sendall(b"PING\r\n")
            self.assertEqual(c.cmd("UNLOCK", "a"), 0)
            self.assertEqual(d.wait(), 0)
            unix.settimeout(harness.DEADLINE)
            with unix.accept()[0] as call:
                self.assertEqual(call.recv(16), b"PING\r\n")

    def test_passed_sockets(self):
        path = os.path.join(self.dir, "rlockd.sock")
        unix = socket.socket(socket.AF_UNIX)
        unix.bind(path)
        unix.listen(16)
        tcp = socket.socket()
        tcp.bind(("127.0.0.1", 0))
        tcp.listen(16)
        port = tcp.getsockname()[1]
        http = socket.create_server(("127.0.0.1", 0))
        page = http.getsockname()
        d = self.rlockd(**harness.passing([unix, tcp, http], "a:b:http"), listen=False)
        for s in (unix, tcp, http):
            s.close()
        with socket.create_connection(page, harness.DEADLINE) as s:
            s.sendall(b"GET /readyz HTTP/1.1\r\n\r\n")
            self.assertRegex(s.makefile().read(), r"^HTTP/1.1 200 (.|\n)*ok\n$")
        self.assertGreater(d.cmd("LOCK", "a", "OWNER", "x"), 0)
        with Conn(("127.0.0.1", port)) as c:
            self.assertIsNone(c.cmd("LOCK", "a", "NOWAIT"))
        d.signal(signal.SIGINT)
        self.assertEqual(d.wait(), 0)
        self.assertTrue(os.path.exists(path), "a passed socket is systemd's to remove")

    def test_two_passed_sockets_for_the_page(self):
        """The second one must not become a socket for locks, which has no password."""
        both = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
        d = self.rlockd(**harness.passing(both, "http:http"), wait=False,
                        redis="unix:" + os.path.join(self.dir, "none"))
        for s in both:
            s.close()
        self.assertEqual(d.wait(), 1)
        self.assertIn("more than one is named http", d.log())

    def test_more_passed_sockets_than_can_be_served(self):
        """All or none: a client at a socket that nothing serves would wait for ever."""
        some = [socket.create_server(("127.0.0.1", 0)) for _ in range(33)]
        d = self.rlockd(**harness.passing(some), wait=False,
                        redis="unix:" + os.path.join(self.dir, "none"))
        for s in some:
            s.close()
        self.assertEqual(d.wait(), 1)
        self.assertIn("passed sockets: more than 32 for clients", d.log())

    def test_log_priorities(self):
        d = self.rlockd(env={"JOURNAL_STREAM": "1:1"})
        d.signal(signal.SIGTERM)
        d.wait()
        lines = d.log().splitlines()
        self.assertTrue(lines)
        ours = [line for line in lines if " rlockd " in line]
        self.assertTrue(ours)
        for line in ours:
            self.assertRegex(line, r"^<[0-7]>")


class CommandLine(Case):
    def rlockd_words(self, *words):
        return self.run_words([os.path.join(harness.BUILD, "rlockd"), *words])

    def test_version_and_help(self):
        status, out, _ = self.rlockd_words("--version")
        self.assertEqual(status, 0)
        self.assertRegex(out, r"^rlockd \d+\.\d+\.\d+")
        status, out, _ = self.rlockd_words("--help")
        self.assertEqual(status, 0)
        for word in ("-c", "-t", "-T", "--listen", "--redis", "--log-level", "--version"):
            self.assertIn(word, out)
        with open(os.path.join(harness.TOP, "conf", "rlockd.yaml")) as f:
            self.assertEqual(self.rlockd_words("--sample-config")[:2], (0, f.read()))

    def test_usage_errors_are_64(self):
        for words in (["--nosuch"], ["word"], ["--listen"], ["--listen", "nonsense"], ["--redis", "nonsense:x"],
                      ["--log-level", "loud"], ["-c"], ["--listen", "unix:/x"] * 33):
            with self.subTest(words=words):
                status, out, err = self.rlockd_words(*words)
                self.assertEqual(status, 64, err)
                self.assertTrue(err)

    def test_t_prints_every_error(self):
        path = os.path.join(self.dir, "bad.yaml")
        with open(path, "w") as f:
            f.write("locks:\n  leese: 30s\n  wait: 5 apples\nlocks:\n  kind: reentrant\nlimits: { words: 1000000 }\n")
        status, out, err = self.rlockd_words("-t", "-c", path)
        self.assertEqual(status, 1)
        lines = (out + err).splitlines()
        self.assertTrue(all(line.startswith(path + ":") for line in lines), lines)
        self.assertTrue(any(re.match(re.escape(path) + r":2:3: .*leese.*lease", line) for line in lines), lines)
        self.assertTrue(any(re.match(re.escape(path) + r":3:9: ", line) for line in lines), lines)
        self.assertTrue(any(re.match(re.escape(path) + r":4:1: ", line) for line in lines), lines)
        self.assertTrue(any(re.match(re.escape(path) + r":6:\d+: ", line) for line in lines), lines)

    def test_t_of_a_good_one_and_of_none(self):
        self.assertEqual(self.rlockd_words("-t")[0], 0)
        self.assertEqual(self.rlockd_words("-t", "-c", os.path.join(harness.TOP, "conf", "rlockd.yaml"))[0], 0)
        self.assertEqual(self.rlockd_words("-t", "-c", os.path.join(self.dir, "nosuch"))[0], 1)

    def test_what_T_prints_is_a_config(self):
        status, out, err = self.rlockd_words("-T", "--listen", "tcp:127.0.0.1:7000", "--redis", "unix:/x")
        self.assertEqual(status, 0, err)
        path = os.path.join(self.dir, "t.yaml")
        with open(path, "w") as f:
            f.write(out)
        status, again, err = self.rlockd_words("-T", "-c", path)
        self.assertEqual(status, 0, err)
        self.assertEqual(out, again)
        self.assertIn("127.0.0.1:7000", out)

    def test_an_address_in_use_is_reported(self):
        d = self.rlockd(tcp=True)
        for addr in ("unix:" + d.path, "tcp:127.0.0.1:%d" % d.port):
            status, out, err = self.rlockd_words("--redis", "unix:/nosuch", "--listen", addr)
            self.assertEqual(status, 1)
            self.assertIn(addr.split(":", 1)[1], err)
        self.assertEqual(d.cmd("PING"), "PONG")

    def test_a_stale_socket_is_replaced(self):
        d = self.rlockd()
        d.kill()
        self.assertTrue(os.path.exists(d.path))
        d = self.rlockd()
        self.assertEqual(d.cmd("PING"), "PONG")


class Clients(Case):
    def test_kill_9_of_a_holder_frees_at_once(self):
        d = self.rlockd(tcp=True)
        for where in (["-U", d.path], ["127.0.0.1", str(d.port)]):
            holder = subprocess.Popen(["nc", *where], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      preexec_fn=harness.die_with_us)
            holder.stdin.write(b"LOCK a\n")
            holder.stdin.flush()
            self.assertRegex(holder.stdout.readline(), rb"^:\d+")
            c = self.conn(d)
            c.ask("LOCK", "a", "WAIT", "20s")
            until(lambda: self.waiting(d, "a") == 1)
            began = time.monotonic()
            holder.kill()
            self.assertGreater(c.read(), 0)
            self.assertLess(time.monotonic() - began, 0.5 * harness.SLOW)
            holder.wait()
            holder.stdin.close()
            holder.stdout.close()
            c.cmd("UNLOCK", "a")

    @staticmethod
    def waiting(d, name):
        with d.conn() as c:
            locks = c.maps("LOCKS", name)
            return locks[0]["waiters"] if locks else 0

    def test_a_half_acquired_lock_is_released(self):
        r = self.redis()
        d = self.rlockd(redis=r.url)
        r.signal(signal.SIGSTOP)
        c = d.conn()
        c.ask("LOCK", "a")
        until(lambda: d.cmd("PING") == "PONG")
        c.close()
        r.signal(signal.SIGCONT)
        other = self.conn(d)
        self.assertGreater(other.cmd("LOCK", "a", "WAIT", "10s"), 0)

    def test_sessions_show_the_peer(self):
        d = self.rlockd(tcp=True)
        c = self.conn(d)
        me = c.cmd("CLIENT", "ID")
        t = self.conn(d, tcp=True)
        t.cmd("PING")
        rows = {s["id"]: s for s in c.maps("SESSIONS")}
        self.assertEqual((rows[me]["pid"], rows[me]["uid"], rows[me]["gid"]), (os.getpid(), os.getuid(), os.getgid()))
        other = [s for i, s in rows.items() if s["peer"].startswith("127.0.0.1:")]
        self.assertEqual(len(other), 1)
        self.assertEqual(int(other[0]["peer"].split(":")[1]), t.sock.getsockname()[1])

    def test_eof_at_every_byte(self):
        d = self.rlockd()
        requests = [b"LOCK a WAIT 5s\n", b"*2\r\n$6\r\nUNLOCK\r\n$1\r\na\r\n", b"ECHO \"x y\"\n", b"PING\n"]
        lines_of = [1, 1, 2, 1]
        text = b"".join(requests)
        ends = [(len(b"".join(requests[:i + 1])), k) for i, k in enumerate(lines_of)]
        for n in range(len(text) + 1):
            with d.conn() as c:
                c.send(text[:n])
                c.sock.shutdown(socket.SHUT_WR)
                try:
                    while True:
                        c.fill()
                except Closed:
                    pass
                lines = c.buf.split(b"\r\n")[:-1]
                want = sum(k for at, k in ends if n >= at)
                self.assertEqual(len(lines), want, (n, c.buf))
                self.assertFalse(any(line.startswith(b"-") for line in lines), (n, c.buf))
        with d.conn() as c:
            self.assertEqual(c.cmd("LOCKS"), [])

    def test_any_chunks_give_the_same_replies(self):
        d = self.rlockd()
        text = b"".join(b"*2\r\n$4\r\nECHO\r\n$%d\r\n%s\r\nECHO 'a b %d'\n" % (len(str(i)), str(i).encode(), i)
                        for i in range(50))
        with d.conn() as c:
            c.send(text)
            whole = b"".join(b"$%d\r\n%d\r\n$%d\r\na b %d\r\n" % (len(str(i)), i, 4 + len(str(i)), i)
                             for i in range(50))
            self.assertEqual(c.read_bytes(len(whole)), whole)
            for size in (1, 2, 3, 7, 64, 1000):
                for at in range(0, len(text), size):
                    c.send(text[at:at + size])
                self.assertEqual(c.read_bytes(len(whole)), whole)

    def test_thousands_of_connections(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        n = min(5000, hard - 200)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 2 * n)), hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        # NOWAIT has a quarter of it, which is enough on a slow machine
        d = self.rlockd(conf="redis: { timeout: 20s }\n")
        conns = [d.conn() for _ in range(n)]
        for i, c in enumerate(conns):
            c.ask("LOCK", "n%d" % (i // 2), "NOWAIT")
        answers = [c.read() for c in conns]
        self.assertEqual(sum(isinstance(a, int) for a in answers), (n + 1) // 2)
        self.assertEqual(answers.count(None), n // 2)
        self.assertEqual(int(d.info("clients")["connected_clients"]), n + 1)
        for c in conns:
            c.close()
        until(lambda: int(d.info("clients")["connected_clients"]) == 1)
        until(lambda: d.cmd("LOCKS") == [])

    def test_a_client_that_does_not_read(self):
        d = self.rlockd(conf="limits: { output_bytes: 64KiB }\n")
        good = self.conn(d)
        rss = self.rss(d)
        bad = self.conn(d)
        bad.sock.setblocking(False)
        line = b"ECHO " + b"x" * 10000 + b"\r\n"
        closed = False
        sent = 0
        end = time.monotonic() + harness.DEADLINE
        while not closed and time.monotonic() < end:
            try:
                sent += bad.sock.send(line)
            except BlockingIOError:
                self.assertEqual(good.cmd("PING"), "PONG")
            except (BrokenPipeError, ConnectionResetError):
                closed = True
        self.assertTrue(closed or until(lambda: "output not read" in d.log()))
        began = time.monotonic()
        self.assertEqual(good.cmd("PING"), "PONG")
        self.assertLess(time.monotonic() - began, 0.5 * harness.SLOW)
        self.assertLess(self.rss(d) - rss, 20000 if harness.SLOW == 1 else 10 ** 9)

    def test_a_subscriber_that_does_not_read(self):
        d = self.rlockd(conf="limits: { output_bytes: 16KiB }\n")
        unread = self.conn(d)
        unread.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        unread.cmd("PSUBSCRIBE", "lock:*")
        c = self.conn(d)
        name = "n" * 500

        def closed():
            """the daemon closes it"""
            for _ in range(50):
                c.cmd("LOCK", name)
                c.cmd("UNLOCK", name)
            return "output not read" in d.log()
        until(closed)
        self.assertEqual(c.cmd("PING"), "PONG")

    @staticmethod
    def rss(d):
        with open("/proc/%d/status" % d.pid) as f:
            return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1))

    def test_ten_thousand_waiters_cost_redis_one(self):
        r = self.redis()
        d = self.rlockd(redis=r.url)
        holder = self.conn(d)
        holder.cmd("LOCK", "a")
        conns = [self.conn(d) for _ in range(20)]
        for i, c in enumerate(conns):
            c.send(b"".join(b"LOCK a OWNER w%d-%d\r\n" % (i, k) for k in range(500)))
        until(lambda: holder.maps("LOCKS", "a")[0]["waiters"] == 10000, deadline=60)
        self.assertLessEqual(r.cmd("PUBSUB", "NUMSUB", "redisson_lock__channel:{a}")[1], 1)

        def calls():
            stats = r.cmd("INFO", "commandstats")
            return sum(int(n) for n in re.findall(r"cmdstat_(?:evalsha|eval|fcall):calls=(\d+)", stats))
        before = calls()
        rounds = 20
        self.assertEqual(holder.cmd("UNLOCK", "a"), 0)
        # Replies come in the order of the requests: the first twenty owners of the first connection, one after the
        # other.
        last = 0
        for k in range(rounds):
            token = conns[0].read()
            self.assertGreater(token, last)
            last = token
            with d.conn() as c:
                self.assertEqual(c.cmd("UNLOCK", "a", "TOKEN", token), 0)
        self.assertLessEqual(calls() - before, 3 * rounds + 5)
        self.assertLessEqual(r.cmd("PUBSUB", "NUMSUB", "redisson_lock__channel:{a}")[1], 1)


if __name__ == "__main__":
    harness.main()
