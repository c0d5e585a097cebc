#!/usr/bin/env python3
"""Grants that replicas have to acknowledge (`replicas` of a rule). Master and replicas are real; they are stopped,
killed and continued.
"""
import os
import re
import signal

from harness import Case, RError, as_map, main, until
from sentinels import Deployment, Server
from test_hazards import Jumping

CONF = """redis: { timeout: %s, backoff_max: 200ms }
locks: { lease: 4s }
rules:
- { match: "one/*", replicas: 1 }
- { match: "two/*", replicas: %d }
- { match: "linger/*", replicas: 2, linger: 1s }
"""


class Acknowledged:
    """Checks of grants that replicas acknowledge, for a Case with a daemon `d`; also for a cluster."""

    def count(self, name):
        return int(self.d.info("stats")[name])

    def is_refused(self, answer, got, wanted):
        self.assertIsInstance(answer, RError)
        self.assertEqual(answer, "NOREPLICAS too few replicas have acknowledged the lock in time: %d of %d" %
                         (got, wanted))


class Replicas(Case, Acknowledged):
    def setUp(self):
        super().setUp()
        self.servers, self.env = [], {}

    def begin(self, replicas=2, timeout="800ms", two=2):
        """A master, its replicas, all in step, and a daemon on the master."""
        for i in range(1 + replicas):
            follows = self.servers[0] if i else None
            under = () if i else ["env", *("%s=%s" % pair for pair in self.env.items())]
            self.servers.append(self._keep(Server(self.dir, "redis%d" % i, follows=follows, under=under)))
        self.master, self.replicas = self.servers[0], self.servers[1:]
        until(self.in_step)
        self.conf = CONF % (timeout, two)
        self.d = self.daemon()

    def daemon(self, name="rlockd"):
        d = self.rlockd(redis=self.master.addr, conf=self.conf, name=name)
        until(lambda: d.info("redis")["redis_grace"] == "0")  # of the epoch that the first replica has begun
        return d

    def in_step(self):
        """every replica acknowledges a write"""
        with self.master.conn() as c:
            c.cmd("SET", "in_step", "1")
            return c.cmd("WAIT", len(self.replicas), 1000) == len(self.replicas)

    def stop_replica(self, i=-1):
        self.replicas[i].signal(signal.SIGSTOP)

    def go_on(self, i=-1):
        self.replicas[i].signal(signal.SIGCONT)

    def is_free(self, name):
        """no key of it is left in Redis"""
        until(lambda: self.master.cmd("EXISTS", name) == 0)

    def reload(self, two):
        n = self.d.log().count("conf reloaded")
        self.d.write_conf(CONF % ("800ms", two))
        self.d.signal(signal.SIGHUP)
        until(lambda: self.d.log().count("conf reloaded") > n)


class Enough(Replicas):
    def test_they_have_it_when_the_client_is_answered(self):
        self.begin()
        c = self.conn(self.d)
        for i in range(50):
            got = c.map("LOCK", "two/%d" % i, "FULL")
            self.assertEqual(got["replicas"], 2)
            self.assertEqual([r.cmd("EXISTS", "two/%d" % i) for r in self.replicas], [1, 1])

    def test_one_is_enough_where_one_is_asked_for(self):
        self.begin()
        self.stop_replica()
        self.assertEqual(self.conn(self.d).map("LOCK", "one/a", "FULL")["replicas"], 1)

    def test_full_says_it_only_where_replicas_are_asked_for(self):
        self.begin()
        self.assertNotIn("replicas", self.conn(self.d).map("LOCK", "a", "FULL"))
        self.assertEqual(self.d.info("redis")["redis_links"], "3")  # the link of WAIT is made when it is first needed
        self.assertEqual(self.count("replica_waits"), 0)

    def test_many_share_a_wait(self):
        self.begin()
        c = self.conn(self.d)
        for i in range(500):
            c.ask("LOCK", "two/%d" % i, "OWNER", i)
        self.assertEqual([c.read() > 0 for _ in range(500)], [True] * 500)
        self.assertLess(self.count("replica_waits"), 250)

    def test_all_kinds(self):
        self.begin()
        c = self.conn(self.d)
        for kind in ("reentrant", "simple", "counter", "fair", "rw", "semaphore", "fenced"):
            self.assertEqual(c.map("LOCK", "two/" + kind, "KIND", kind, "FULL")["replicas"], 2)
        for kind in ("reentrant", "simple", "counter", "fair", "rw", "semaphore", "fenced"):
            self.assertEqual(c.cmd("UNLOCK", "two/" + kind), 0)

    def test_a_second_hold_asks_no_replica(self):
        self.begin()
        c = self.conn(self.d)
        token = c.cmd("LOCK", "two/a")
        self.stop_replica()
        got = c.map("LOCK", "two/a", "FULL")
        self.assertEqual([got["token"], got["holds"], got["replicas"]], [token, 2, 2])
        self.assertGreater(c.cmd("RENEW", "two/a", "2s"), 0)


class TooFew(Replicas):
    def test_one_hangs(self):
        self.begin()
        self.stop_replica()
        c = self.conn(self.d)
        self.is_refused(c.cmd("LOCK", "two/a", "NOWAIT"), 1, 2)
        self.is_free("two/a")
        self.assertEqual(c.cmd("UNLOCK", "two/a"), "NOTHELD this owner does not hold the lock")
        self.assertGreater(self.count("replica_shortfalls"), 0)
        self.go_on()
        self.assertGreater(c.cmd("LOCK", "two/a", "WAIT", "30s"), 0)

    def test_one_is_killed(self):
        self.begin()
        self.replicas[1].kill()
        c = self.conn(self.d)
        self.is_refused(c.cmd("LOCK", "two/a", "NOWAIT"), 1, 2)
        self.assertGreater(c.cmd("LOCK", "one/a", "NOWAIT"), 0)

    def test_there_are_none(self):
        self.begin(replicas=0)
        c = self.conn(self.d)
        self.is_refused(c.cmd("LOCK", "one/a", "NOWAIT"), 0, 1)
        self.is_free("one/a")

    def test_every_kind_is_given_back(self):
        self.begin(replicas=0)
        c = self.conn(self.d)
        for kind in ("reentrant", "simple", "counter", "fair", "rw", "semaphore", "fenced"):
            self.is_refused(c.cmd("LOCK", "one/" + kind, "KIND", kind, "NOWAIT"), 0, 1)
            if kind != "semaphore":  # its number of free permits stays there
                self.is_free("one/" + kind)
        until(lambda: self.master.cmd("GET", "one/semaphore") in (None, "1"))

    def test_a_waiter_is_granted_it_when_they_are_enough(self):
        self.begin()
        self.stop_replica()
        c = self.conn(self.d)
        c.ask("LOCK", "two/a", "WAIT", "60s")
        until(lambda: self.count("replica_shortfalls") >= 2)
        self.assertTrue(c.quiet())
        self.go_on()
        self.assertGreater(c.read(), 0)

    def test_a_waiter_in_vain_has_the_numbers(self):
        self.begin()
        self.stop_replica()
        c, other = self.conn(self.d), self.conn(self.d)
        other.ask("LOCK", "two/a", "WAIT", "60s")
        c.ask("LOCK", "two/a", "WAIT", "1500ms")
        self.is_refused(c.read(), 1, 2)
        self.assertTrue(other.quiet())

    def test_mlock_names_it(self):
        self.begin()
        self.stop_replica()
        c = self.conn(self.d)
        answer = c.cmd("MLOCK", 2, "free", "two/a", "NOWAIT")
        self.assertEqual(answer, 'NOREPLICAS too few replicas have acknowledged the lock in time: 1 of 2: "two/a"')
        self.is_free("free")
        self.is_free("two/a")

    def test_of_two_rules_each_has_its_number(self):
        self.begin()
        self.stop_replica()
        c = self.conn(self.d)
        c.ask("LOCK", "one/a", "NOWAIT", "OWNER", "a")
        c.ask("LOCK", "two/a", "NOWAIT", "OWNER", "b")
        self.assertIsInstance(c.read(), int)
        self.is_refused(c.read(), 1, 2)


class Unknown(Replicas):
    """A grant whose acknowledgement is uncertain is never reported, and never makes a second holder."""

    def pending(self):
        """A LOCK that Redis has granted and that replicas have not acknowledged, since they are stopped."""
        self.begin(timeout="8s", two=2)
        self.other = self.daemon("other")
        for i in range(2):
            self.stop_replica(i)
        self.c = self.conn(self.d)
        self.c.ask("LOCK", "two/a", "WAIT", "60s")
        until(lambda: self.master.cmd("EXISTS", "two/a") == 1)
        until(self.waiting)

    def waiting(self):
        """the id of the client that is blocked in WAIT"""
        for line in self.master.cmd("CLIENT", "LIST").split("\n"):
            if "cmd=wait" in line and "flags=b" in line:
                return int(line.split()[0].split("=")[1])
        return None

    def test_the_link_is_lost_in_the_wait(self):
        self.pending()
        first = self.waiting()
        self.assertEqual(self.master.cmd("CLIENT", "KILL", "ID", first), 1)
        until(lambda: self.waiting() not in (None, first))
        self.assertGreater(self.count("unknowns"), 0)
        self.assertTrue(self.c.quiet())
        self.assertIsNone(self.conn(self.other).cmd("LOCK", "two/a", "NOWAIT"))
        for i in range(2):
            self.go_on(i)
        self.assertGreater(self.c.read(), 0)
        self.assertIsNone(self.conn(self.other).cmd("LOCK", "two/a", "NOWAIT"))

    def test_the_master_is_killed_before_they_have_it(self):
        self.pending()
        for server in self.servers:
            server.kill()
        self.assertTrue(self.c.quiet())
        self.master = self._keep(self.master.again())  # with no data
        until(lambda: self.d.info("redis")["redis_state"] == "up")
        self.assertTrue(self.c.quiet())
        self.replicas = [self._keep(r.again(self.master)) for r in self.replicas]
        self.assertGreater(self.c.read(), 0)
        self.assertEqual([r.cmd("EXISTS", "two/a") for r in self.replicas], [1, 1])
        self.assertIsNone(self.conn(self.other).cmd("LOCK", "two/a", "NOWAIT"))

    def test_the_data_is_lost_in_the_wait(self):
        """A grant, acknowledged or not, in data that was lost is no grant in the data that is there now."""
        self.begin(timeout="40s")  # a WAIT may take 10 s
        for i in range(2):
            self.stop_replica(i)
        c = self.conn(self.d)
        c.ask("LOCK", "two/a", "WAIT", "60s", "OWNER", "a")
        until(self.waiting)
        c.ask("LOCK", "two/b", "WAIT", "60s", "OWNER", "b")  # for the next WAIT
        until(lambda: self.master.cmd("EXISTS", "two/b") == 1)
        epoch = self.d.info("redis")["redis_epoch"]
        self.master.cmd("FLUSHALL")
        until(lambda: self.d.info("redis")["redis_epoch"] != epoch)
        for i in range(2):
            self.go_on(i)
        for name in ("two/a", "two/b"):
            self.assertGreater(c.read(), 0)
            self.assertEqual([s.cmd("EXISTS", name) for s in self.servers], [1, 1, 1])
        self.assertGreaterEqual(self.count("unknowns"), 2)

    def broken(self, daemon, kind):
        """
        The lock is broken at that daemon before its grant is acknowledged, and another owner has it since: the former
        grant is never reported.
        """
        self.begin(timeout="8s")
        self.other = self.daemon("other")
        for i in range(2):
            self.stop_replica(i)
        first, second = self.conn(self.d), self.conn(self.other)
        first.ask("LOCK", "two/a", "KIND", kind, "WAIT", "60s", "LEASE", "60s")
        until(lambda: self.master.cmd("EXISTS", "two/a") == 1)
        until(self.waiting)
        before = self.master.cmd("HKEYS", "two/a")
        self.assertEqual(getattr(self, daemon).cmd("BREAK", "two/a"), 1)
        second.ask("LOCK", "two/a", "KIND", kind, "WAIT", "60s", "LEASE", "60s")
        until(lambda: self.master.cmd("HKEYS", "two/a") not in ([], before))
        for i in range(2):
            self.go_on(i)
        token = second.read()
        self.assertGreater(token, 0)
        until(lambda: int(self.d.info("stats")["attempts_taken"]) > 0 or not first.quiet(), deadline=10)
        self.assertTrue(first.quiet(), "two holders")
        self.assertEqual(second.cmd("UNLOCK", "two/a"), 0)
        self.assertGreater(first.read(), token)

    def test_it_is_broken_in_the_wait(self):
        self.broken("d", "reentrant")

    def test_it_is_broken_in_the_wait_by_another_daemon(self):
        self.broken("other", "reentrant")

    def test_a_fair_one_is_broken_in_the_wait(self):
        self.broken("d", "fair")

    def test_a_fair_one_is_broken_in_the_wait_by_another_daemon(self):
        self.broken("other", "fair")

    def test_another_server_is_at_its_address(self):
        """The daemon refuses a write by a process that is not the one which has granted the lock."""
        self.begin()
        c = self.conn(self.d)
        self.assertGreater(c.cmd("LOCK", "two/a"), 0)
        epoch = self.master.cmd("GET", "rlock:epoch")
        number, origin = epoch.split()
        theirs = "%s %s" % (number, origin[::-1])
        with self.master.conn() as r:
            r.cmd("MULTI")  # blocks the daemon, which writes as well
            for words in (("SET", "rlock:epoch", theirs), self.write(epoch), self.write(theirs),
                          ("SET", "rlock:epoch", epoch), ("INFO", "persistence"), self.write(epoch),
                          ("INFO", "persistence"), ("DEL", "rlock:clock"), self.write(epoch)):
                self.assertEqual(r.cmd(*words), "QUEUED")
            got = r.cmd("EXEC")
        changes = [int(re.search(r"rdb_changes_since_last_save:(\d+)", got.pop(i)).group(1)) for i in (6, 4)]
        self.assertEqual(got, ["OK", 0, 0, "OK", 1, 1, 0])
        self.assertEqual(changes[0], changes[1] + 1)

    def write(self, epoch):
        return "EVAL", self.script(), 2, "rlock:clock", "rlock:epoch", epoch

    def script(self):
        top = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts", "embed")
        code, out, err = self.run_words([top, "replicas"])
        self.assertEqual((code, err), (0, ""))
        return out

    def test_a_user_without_the_right_to_wait(self):
        self.begin()
        self.master.cmd("ACL", "SETUSER", "default", "-wait")
        c = self.conn(self.d)
        answer = c.cmd("LOCK", "two/a", "NOWAIT")
        self.assertRegex(answer, "^UNAVAILABLE Redis cannot answer: .*NOPERM.*wait")
        until(lambda: "link=replicas" in self.d.log() and "NOPERM" in self.d.log())
        self.assertEqual(self.d.info("redis")["redis_links_away"], "replicas")
        self.assertGreater(c.cmd("LOCK", "a", "NOWAIT"), 0)
        self.master.cmd("ACL", "SETUSER", "default", "+wait")
        self.assertGreater(c.cmd("LOCK", "two/a", "WAIT", "30s"), 0)


class Jumps(Replicas, Jumping):
    def test_the_lease_is_over_in_the_wait(self):
        """Redis's clock jumps ahead, and Redis drops the lock before the replicas acknowledge it."""
        self.env = self.jumping_clock()
        self.begin(timeout="40s")  # a WAIT may take 10 s
        for i in range(2):
            self.stop_replica(i)
        c = self.conn(self.d)
        c.ask("LOCK", "two/a", "WAIT", "60s")
        until(lambda: self.count("replica_waits") > 0)
        self.set_clock(5)  # a lease, and half of the WAIT
        until(lambda: self.master.cmd("EXISTS", "two/a") == 0)
        self.conn(self.d).cmd("LOCK", "by")
        until(lambda: "clock jump" in self.d.log())
        for i in range(2):
            self.go_on(i)
        self.assertGreater(c.read(), 0)
        self.assertEqual(self.master.cmd("EXISTS", "two/a"), 1)


class Failover(Replicas):
    def test_what_was_acknowledged_survives_the_master(self):
        """
        Sentinels promote a replica that has the lock, and its holder keeps it. All links move, also the link of WAIT.
        """
        self.d = None
        setup = Deployment(self)
        self.conf = CONF % ("500ms", 2)
        d = self.rlockd(redis=setup.url(), conf=self.conf.replace("lease: 4s", "lease: 20s"))
        c, other = self.conn(d), self.conn(d)
        master = until(setup.master)
        until(lambda: isinstance(c.cmd("LOCK", "one/a", "WAIT", "1s"), int))
        full = c.map("LOCK", "one/a", "ONCE", "FULL")
        self.assertGreaterEqual(full["replicas"], 1)
        master.kill()
        now = setup.other(master)
        self.assertEqual(now.cmd("EXISTS", "one/a"), 1)
        until(lambda: isinstance(other.cmd("LOCK", "one/b", "WAIT", "2s"), int), deadline=30)
        self.assertEqual(c.map("LOCK", "one/a", "ONCE", "FULL")["token"], full["token"])
        self.assertIsNone(other.cmd("LOCK", "one/a", "NOWAIT"))


class HandOver(Replicas):
    def run_of_three(self):
        """a holds the lock, by a grant with a reserve for hand-offs; b waits."""
        first, a, b = (self.conn(self.d) for _ in range(3))
        self.assertGreater(first.cmd("LOCK", "two/a"), 0)
        for n, c in enumerate((a, b)):
            c.ask("LOCK", "two/a", "WAIT", "60s", "FULL")
            until(lambda n=n: first.maps("LOCKS", "two/a")[0]["waiters"] == n + 1)
        self.assertEqual(first.cmd("UNLOCK", "two/a"), 0)
        return a, as_map(a.read()), b

    def test_they_have_it_already(self):
        self.begin()
        a, got, b = self.run_of_three()
        waits = self.count("replica_waits")
        for i in range(2):
            self.stop_replica(i)
        self.assertEqual(a.cmd("UNLOCK", "two/a"), 0)
        passed = as_map(b.read())
        self.assertEqual([got["replicas"], passed["replicas"], passed["token"]], [2, 2, got["token"] + 1])
        self.assertEqual([self.count("handoffs"), self.count("replica_waits")], [1, waits])
        for i in range(2):
            self.go_on(i)
        self.assertEqual([r.cmd("EXISTS", "two/a") for r in self.replicas], [1, 1])

    def test_not_where_the_rule_wants_more_by_now(self):
        self.begin(two=1)
        self.stop_replica()
        a, got, b = self.run_of_three()
        self.assertEqual(got["replicas"], 1)
        self.reload(2)
        c = self.conn(self.d)
        c.ask("LOCK", "two/a", "WAIT", "60s")  # the request that brings the new rule
        until(lambda: a.maps("LOCKS", "two/a")[0]["waiters"] == 2)
        self.assertEqual(a.cmd("UNLOCK", "two/a"), 0)
        until(lambda: self.count("replica_shortfalls") > 0)
        self.assertTrue(b.quiet())
        self.assertEqual(self.count("handoffs"), 0)
        self.go_on()
        self.assertEqual(as_map(b.read())["replicas"], 2)

    def test_what_lingers(self):
        self.begin()
        a, b = self.conn(self.d), self.conn(self.d)
        for c in (a, b):
            self.assertEqual(c.map("LOCK", "linger/a", "FULL")["replicas"], 2)
            self.assertEqual(c.cmd("UNLOCK", "linger/a"), 0)
        self.assertGreater(self.count("lingers"), 0)


class Bystanders(Replicas):
    def test_a_thousand_pairs_while_replicas_hang(self):
        self.begin(timeout="40s")  # a WAIT may take 10 s
        for i in range(2):
            self.stop_replica(i)
        waits = [self.conn(self.d) for _ in range(20)]
        for i, c in enumerate(waits):
            c.ask("LOCK", "two/%d" % i, "NOWAIT")
        until(lambda: self.count("replica_waits") > 0)
        c = self.conn(self.d)
        for i in range(1000):
            name = "by/%d" % (i % 100)
            self.assertGreater(c.cmd("LOCK", name, "WAIT", "5s"), 0)
            self.assertEqual(c.cmd("UNLOCK", name), 0)
        self.assertEqual(self.count("replica_waits"), 1)  # the first one is still in flight
        self.assertEqual(self.count("replica_shortfalls"), 0)
        for w in waits:
            self.assertTrue(w.quiet())


class Reload(Replicas):
    def test_a_rule_asks_for_them_and_does_not_any_more(self):
        self.begin(two=0)
        self.stop_replica()
        c = self.conn(self.d)
        self.assertGreater(c.cmd("LOCK", "two/a", "NOWAIT"), 0)
        self.reload(2)
        self.assertGreater(c.cmd("LOCK", "two/a", "NOWAIT"), 0)  # a held lock stays as it was taken
        self.is_refused(c.cmd("LOCK", "two/b", "NOWAIT"), 1, 2)
        self.reload(0)
        self.assertGreater(c.cmd("LOCK", "two/b", "NOWAIT"), 0)


if __name__ == "__main__":
    main()
