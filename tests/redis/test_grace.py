#!/usr/bin/env python3
"""Redis loses writes that it had acknowledged: the holder of a lock keeps it, and no other owner gets it. A plain SET
NX would be granted twice.
"""
import os
import signal
import time

import harness
from harness import DEADLINE, Case, until

PLAIN = "return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])"  # the command of lock libraries
KINDS = ("reentrant", "simple", "counter", "fair", "fenced", "rw", "semaphore")


class Two(Case):
    """Two daemons on one Redis, each with the other in its list of members."""
    conf = conf_b = ""

    def setUp(self):
        super().setUp()
        self.r = self.redis(tcp=True)
        self.a = self.rlockd(redis=self.r.url, name="a", conf=self.conf)
        self.b = self.rlockd(redis=self.r.url, name="b", conf=self.conf_b or self.conf)
        self.holder, self.other = self.conn(self.a), self.conn(self.b)
        for d in (self.a, self.b):
            until(lambda: d.info("redis")["redis_other_daemons"] == "1")

    def in_grace(self, daemon):
        return daemon.info("redis")["redis_grace"] == "1"

    def again(self, data=None):
        """Redis is killed, and comes back with this data, or with none."""
        self.r.kill()
        rdb = os.path.join(self.r.directory, "dump.rdb")
        if os.path.exists(rdb):
            os.unlink(rdb)
        if data is not None:
            with open(rdb, "wb") as f:
                f.write(data)
        self.r = self.redis(name="again")
        os.rename(self.r.path, os.path.join(self.dir, "redis.sock"))
        self.r.path = os.path.join(self.dir, "redis.sock")


class Grace(Two):

    def saved(self):
        """The data that Redis has now."""
        self.r.cmd("SAVE")
        with open(os.path.join(self.r.directory, "dump.rdb"), "rb") as f:
            return f.read()

    def plain(self, actor):
        return self.r.cmd("EVAL", PLAIN, 1, "plain", actor, 30000) == "OK"

    def reunited(self):
        for d in (self.a, self.b):
            until(lambda: d.info("redis")["redis_state"] == "up" and d.info("redis")["redis_grace"] == "0"
                  and d.info("redis")["redis_epoch"] == self.r.cmd("GET", "rlock:epoch").split()[0])

    def keeps(self, lose, lost=()):
        """The holder has one lock of each kind while Redis loses its data; `lost`: the kinds that cannot be kept."""
        tokens = {}
        for kind in KINDS:
            tokens[kind] = self.holder.cmd("LOCK", kind, "KIND", kind)
            self.assertIsInstance(tokens[kind], int)
        self.assertEqual(self.holder.cmd("LOCK", "reentrant"), tokens["reentrant"])
        self.assertTrue(self.plain("first"))
        began = time.monotonic()
        lose()
        self.assertTrue(self.plain("second"), "the plain lock is not granted twice")
        for kind in KINDS:
            self.other.ask("LOCK", kind, "KIND", kind, "WAIT", "30s", *(("LIMIT", "1") if kind == "semaphore" else ()))
            with self.b.conn() as c:
                until(lambda: c.maps("LOCKS", kind) and c.maps("LOCKS", kind)[0]["state"] in ("taken", "held"))
            if kind in lost:
                self.assertRegex(self.holder.cmd("UNLOCK", kind), "^LOST ")
            else:
                self.assertTrue(self.other.quiet(), kind)
                left = self.holder.cmd("RENEW", kind, "20s")
                self.assertIsInstance(left, int, (kind, left))
                for left in range(1 if kind == "reentrant" else 0, -1, -1):
                    self.assertEqual(self.holder.cmd("UNLOCK", kind), left)
            self.assertGreater(self.other.read(), tokens[kind])
            self.assertEqual(self.other.cmd("UNLOCK", kind), 0)
        self.reunited()
        self.assertLess(time.monotonic() - began, 15 * harness.SLOW,
                        "a healthy fleet needs a reconnect, not a lease of 30 s")

    def test_flushed(self):
        self.keeps(lambda: self.r.cmd("FLUSHALL"))

    def test_restarted_empty(self):
        self.keeps(self.again)

    def test_restarted_from_what_it_had_before(self):
        """
        The snapshot was made a moment before: it has the locks of their holders. A string does not name its holder.
        """
        for kind in KINDS:
            self.assertIsInstance(self.other.cmd("LOCK", kind, "KIND", kind, "LEASE", "3s"), int)
        old = self.saved()
        for kind in KINDS:
            self.assertEqual(self.other.cmd("UNLOCK", kind), 0)
        self.keeps(lambda: self.again(old), lost=("simple", "counter"))

    def test_a_replica_that_lacks_the_last_writes(self):
        """The replica is promoted, behind the address of the master that has died."""
        replica = self.redis(name="replica")
        replica.cmd("REPLICAOF", "127.0.0.1", self.r.port)
        until(lambda: "master_link_status:up" in replica.cmd("INFO", "replication"))
        self.r.cmd("SET", "seen", 1)
        until(lambda: replica.cmd("GET", "seen") == "1")
        replica.cmd("REPLICAOF", "127.0.0.1", 1)  # no server is there: the replica receives no more writes
        self.reunited()

        def promoted():
            path, self.r = self.r.path, (self.r.kill(), replica)[1]
            os.rename(replica.path, path)
            replica.path = path
            self.assertEqual(replica.cmd("REPLICAOF", "NO", "ONE"), "OK")
        self.keeps(promoted)

    def test_an_older_master_comes_back(self):
        """Failover, and back to the first master, which has run all the time and lacks the grants made since."""
        first, replica = self.r, self.redis(name="replica")
        replica.cmd("REPLICAOF", "127.0.0.1", first.port)
        until(lambda: "master_link_status:up" in replica.cmd("INFO", "replication"))
        self.reunited()

        def moved(to):
            """Another server is behind the address."""
            was, self.r, path = self.r, to, self.r.path
            was.path = to.path + ".away"
            os.rename(path, was.path)
            os.rename(to.path, path)
            to.path = path
            was.cmd("CLIENT", "KILL", "TYPE", "normal")

        older = first.cmd("GET", "rlock:epoch")
        self.assertEqual(replica.cmd("REPLICAOF", "NO", "ONE"), "OK")
        moved(replica)
        self.reunited()
        token = self.holder.cmd("LOCK", "x")
        self.assertIsInstance(token, int)
        self.assertEqual(first.cmd("EXISTS", "x"), 0)
        self.assertEqual(first.cmd("GET", "rlock:epoch"), older)
        self.a.signal(signal.SIGSTOP)
        moved(first)
        self.other.ask("LOCK", "x", "WAIT", "30s")
        until(lambda: int(self.r.cmd("GET", "rlock:epoch").split()[0]) > int(older.split()[0]))
        until(lambda: self.in_grace(self.b))
        self.assertTrue(self.other.quiet(), "it was granted twice")
        self.a.signal(signal.SIGCONT)
        self.reunited()
        self.assertTrue(self.other.quiet())
        self.assertEqual(self.holder.cmd("UNLOCK", "x", "TOKEN", token), 0)
        self.assertGreater(self.other.read(), token)

    def test_one_that_comes_late_is_waited_for(self):
        self.assertIsInstance(self.other.cmd("LOCK", "theirs"), int)
        self.b.signal(signal.SIGSTOP)
        self.r.cmd("FLUSHALL")
        self.holder.ask("LOCK", "new")
        uuid = self.a.info("server")["run_id"]

        def has_its_own_again():
            """daemon a has reported: if b were not waited for, the grace period would be over"""
            return self.r.cmd("ZSCORE", "rlock:awaited", uuid) == "0"
        until(has_its_own_again)
        self.assertTrue(self.in_grace(self.a))
        self.assertTrue(self.holder.quiet())
        self.b.signal(signal.SIGCONT)
        self.assertIsInstance(self.holder.read(), int)
        self.assertEqual(self.r.cmd("EXISTS", "theirs"), 1)
        self.assertEqual(self.other.cmd("UNLOCK", "theirs"), 0)
        self.reunited()

    def test_one_that_has_left_is_not_waited_for(self):
        self.assertEqual(self.b.stop(), 0)
        self.assertEqual(len(self.r.cmd("HKEYS", "rlock:members")), 1, "it has left")
        until(lambda: self.a.info("redis")["redis_other_daemons"] == "0")
        began = time.monotonic()
        self.assertIsInstance(self.holder.cmd("LOCK", "x"), int)
        self.r.cmd("FLUSHALL")
        self.assertIsInstance(self.holder.cmd("LOCK", "new"), int)
        self.assertEqual(self.holder.cmd("UNLOCK", "x"), 0)
        self.assertLess(time.monotonic() - began, DEADLINE)


class Unknown(Two):
    conf = "redis: { timeout: 200ms }\n"

    def test_a_daemon_that_came_while_all_others_stood_still(self):
        """A daemon that stands still has an old list of members, so it does not end a grace period alone."""
        self.assertEqual(self.b.stop(), 0)
        until(lambda: self.a.info("redis")["redis_other_daemons"] == "0")
        self.a.signal(signal.SIGSTOP)
        stopped = time.monotonic()
        newcomer = self.rlockd(redis=self.r.url, name="c", conf=self.conf)
        theirs = self.conn(newcomer)
        token = theirs.cmd("LOCK", "x")
        self.assertIsInstance(token, int)
        until(lambda: time.monotonic() > stopped + 4 + 2 * 0.2)  # two beats, two timeouts: membership.c
        newcomer.signal(signal.SIGSTOP)
        self.again()
        self.a.signal(signal.SIGCONT)
        self.holder.ask("LOCK", "x", "WAIT", "60s")
        uuid = self.a.info("server")["run_id"]
        until(lambda: self.r.cmd("ZSCORE", "rlock:awaited", uuid) == "0")
        self.assertTrue(self.in_grace(self.a))
        self.assertTrue(self.holder.quiet(), "it was granted twice")
        newcomer.signal(signal.SIGCONT)
        until(lambda: self.r.cmd("EXISTS", "x"))
        until(lambda: not self.in_grace(self.a))
        self.assertTrue(self.holder.quiet())
        self.assertEqual(theirs.cmd("UNLOCK", "x", "TOKEN", token), 0)
        self.assertGreater(self.holder.read(), token)


class ShortLeases(Two):
    conf = "locks: { lease: 3s }\n"

    def test_a_dead_daemon_makes_it_last_a_lease(self):
        self.assertIsInstance(self.other.cmd("LOCK", "theirs"), int)
        self.assertIsInstance(self.holder.cmd("LOCK", "ours"), int)
        self.b.kill()
        self.r.cmd("FLUSHALL")
        began = time.monotonic()
        self.assertIsInstance(self.holder.cmd("LOCK", "theirs"), int)
        took = time.monotonic() - began
        self.assertGreater(took, 2.9, "the dead daemon may have reported a grant")
        self.assertLess(took, 3 + 2 + 2 * harness.SLOW)  # until the loss is noticed, and the lease
        self.assertEqual(self.holder.cmd("UNLOCK", "ours"), 0, "kept all the time")


class TwoLeases(Two):
    conf, conf_b = "locks: { lease: 2s }\n", "locks: { lease: 20s }\n"

    def test_the_longest_counts(self):
        """
        The daemon that notices the loss first renews for two seconds; a daemon that does not answer has a lock for
        twenty.
        """
        token = self.other.cmd("LOCK", "theirs")
        self.assertIsInstance(token, int)
        self.b.signal(signal.SIGSTOP)
        self.r.cmd("FLUSHALL")
        self.holder.ask("LOCK", "theirs", "WAIT", "30s")
        until(lambda: self.in_grace(self.a))
        began_us, _, until_ms = self.r.cmd("GET", "rlock:epoch").split()
        self.assertGreaterEqual(int(until_ms), int(began_us) // 1000 + 20000)
        self.b.signal(signal.SIGCONT)
        until(lambda: self.r.cmd("EXISTS", "theirs"))
        self.assertTrue(self.holder.quiet())
        self.assertEqual(self.other.cmd("UNLOCK", "theirs", "TOKEN", token), 0)
        self.assertGreater(self.holder.read(), token)


class WritableReplica(Case):
    """
    `replica-read-only no`: the replica takes writes, and loses them at the next synchronization. Nothing is granted
    there.
    """
    conf = "redis: { timeout: 300ms, backoff_max: 50ms }\n"

    def replica_of(self, master):
        r = self.redis(name="replica", args=["--replicaof", "127.0.0.1", str(master.port), "--replica-read-only", "no"])
        until(lambda: "master_link_status:up" in r.cmd("INFO", "replication"))
        self.assertEqual(r.cmd("SET", "by hand", 1), "OK")
        return r

    def test_is_refused_until_it_is_promoted(self):
        master = self.redis(name="master", tcp=True, args=["--repl-diskless-sync-delay", "0"])
        r = self.replica_of(master)
        d = self.rlockd(redis=r.url, wait=False, conf=self.conf)
        until(d.serving)
        c = self.conn(d)
        until(lambda: "redis_last_error:READONLY " in c.cmd("INFO", "redis"))
        self.assertRegex(c.cmd("LOCK", "a", "NOWAIT"), "^UNAVAILABLE ")
        self.assertRegex(d.log(), 'warn redis cannot register .*reason="READONLY not a master')
        self.assertEqual(r.cmd("KEYS", "*rlock*"), [])
        c.ask("LOCK", "a", "WAIT", "1m")
        self.assertEqual(r.cmd("REPLICAOF", "NO", "ONE"), "OK")
        self.assertGreater(c.read(), 0)

    def test_a_master_that_becomes_one_is_left(self):
        """At the next beat, on all connections."""
        r = self.redis(args=["--replica-read-only", "no"])
        d = self.rlockd(redis=r.url, conf=self.conf)
        c = self.conn(d)
        token = c.cmd("LOCK", "held")
        self.assertEqual(r.cmd("REPLICAOF", "127.0.0.1", str(harness.free_port())), "OK")
        until(lambda: d.info("redis")["redis_links_up"] == "1")  # except the link of the subscriber
        self.assertRegex(c.cmd("LOCK", "new", "NOWAIT"), "^UNAVAILABLE ")
        self.assertEqual(r.cmd("EXISTS", "new"), 0)
        self.assertEqual(r.cmd("REPLICAOF", "NO", "ONE"), "OK")
        self.assertGreater(c.cmd("LOCK", "new", "WAIT", "1m"), token)
        self.assertEqual(c.cmd("UNLOCK", "held"), 0)


class RedisStopped(Two):
    conf = "locks: { on_loss: close }\n"

    def test_jeopardy_then_lost_then_closed(self):
        token = self.holder.cmd("LOCK", "x")
        subscriber = self.conn(self.a)
        subscriber.cmd("SUBSCRIBE", "lock:x")
        self.r.signal(signal.SIGSTOP)
        self.a.advance("20s")
        news = subscriber.read()
        self.assertRegex(news[2], "^jeopardy %d " % token)
        self.assertTrue(self.holder.quiet())
        self.assertEqual(self.holder.cmd("LOCK", "x", "ONCE"), token, "it is held yet")
        self.a.advance("5s")
        self.assertEqual(self.holder.cmd("PING"), "PONG")
        self.assertTrue(subscriber.quiet(), "once")
        self.a.advance("5s")
        self.assertRegex(subscriber.read()[2], "^lost %d " % token)
        self.assertRaises(harness.Closed, self.holder.read)
        self.r.signal(signal.SIGCONT)
        self.assertEqual(self.a.info("stats")["jeopardies"], "1")


if __name__ == "__main__":
    harness.main()
