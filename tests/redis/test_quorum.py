#!/usr/bin/env python3
"""A quorum of three independent masters: locks while some of the masters are killed, paused or emptied."""
import re
import secrets
import signal
import threading
import time
import uuid

import harness
from harness import Case, RError, until
from quorums import CLOCKS, Masters, clock_of
from test_sentinel import nodes

CONF = "redis: { timeout: 500ms, connect_timeout: 500ms }\nlocks: { lease: 3s }\n"
PATIENT = "redis: { timeout: 10s, connect_timeout: 10s }\nlocks: { lease: 200s }\n"


class Quorum(Case):
    n = 3

    def start(self, place=lambda i: {}, **more):
        self.m = Masters(self, self.n, place)
        return self.daemon(**more)

    def daemon(self, name="rlockd", conf=CONF, **more):
        r = self.rlockd(redis=self.m.url(), conf=conf, name=name, **more)
        until(lambda: self.voting(r) == self.n)
        return r

    @staticmethod
    def voting(r):
        return sum(n["state"] == "voting" for n in nodes(r))

    def granted(self, c, name, deadline=30):
        """The token of a LOCK that is repeated until it is granted."""
        end = time.monotonic() + deadline * harness.SLOW
        while True:
            answer = c.cmd("LOCK", name, "WAIT", "2s")
            if answer is not None and not isinstance(answer, RError):
                return answer
            self.assertLess(time.monotonic(), end, answer)

    @staticmethod
    def renewed(r, times=4):
        """Waits for `times` more renewals: four take longer than the lease."""
        at = int(r.info("stats")["renewals"])
        until(lambda: int(r.info("stats")["renewals"]) >= at + times, 30)

    def where(self, key):
        return [n == 1 for n in self.m.cmd("EXISTS", key)]


class Plain(Quorum):
    """No node fails."""

    def test_a_lock_is_on_every_node_and_on_none_behind_its_release(self):
        r = self.start()
        c = self.conn(r)
        self.assertGreater(c.cmd("LOCK", "a"), 0)
        until(lambda: self.where("a") == [True] * 3)
        self.assertEqual(c.cmd("LOCK", "a") > 0, True)
        self.assertEqual(c.cmd("UNLOCK", "a"), 1)
        self.assertEqual(c.cmd("UNLOCK", "a"), 0)
        until(lambda: self.where("a") == [False] * 3)

    def test_another_kind_is_refused_by_name(self):
        d = self.start()
        refusal = ('^ERR the key of "a" in Redis cannot be of kind %s: '
                   'a quorum has the kinds reentrant and simple; usage: %s ')
        for kind in "fair", "rw", "semaphore", "fenced", "counter":
            self.assertRegex(d.cmd("LOCK", "a", "KIND", kind), refusal % (kind, "LOCK"))
        self.assertRegex(d.cmd("MLOCK", "2", "a", "b", "KIND", "fair", "NOWAIT"), refusal % ("fair", "MLOCK"))
        self.assertGreater(d.cmd("LOCK", "a", "KIND", "simple"), 0)
        self.assertRegex(d.cmd("LOCK", "b", "SHARED"), "^ERR SHARED is for kind rw")

    def test_a_second_round_raises_the_tokens_of_nodes_that_are_behind(self):
        r = self.start()
        c = self.conn(r)
        t = c.cmd("LOCK", "a")
        clocks = [t + ahead for ahead in (10**9, 2 * 10**9, 3 * 10**9)]
        for node, clock in zip(self.m.nodes, clocks):
            self.assertEqual(node.cmd("SET", clock_of("b"), clock), "OK")

        def raised():
            return [int(n["second_rounds"]) for n in nodes(r)]
        before = raised()
        t = c.cmd("LOCK", "b")
        self.assertGreater(t, clocks[1])  # above the tokens of two nodes alone
        self.assertGreater(sum(raised()), sum(before))
        self.assertEqual(raised()[2], before[2])  # no node is ahead of it
        self.assertGreaterEqual(sorted(int(x) for x in self.m.cmd("GET", clock_of("b")))[1], t)

    def test_a_waiter_at_another_daemon_is_woken(self):
        r, other = self.start(), self.daemon(name="other")
        a, b = self.conn(r), self.conn(other)
        t = a.cmd("LOCK", "a")
        b.ask("LOCK", "a", "WAIT", "20s")
        b.quiet()
        self.assertEqual(a.cmd("UNLOCK", "a"), 0)
        self.assertGreater(b.read(), t)
        self.assertIsNone(a.cmd("LOCK", "a", "NOWAIT"))

    def test_two_daemons_count(self):
        """Each adds one under the lock, with a larger token each time."""
        r, other = self.start(), self.daemon(name="other")
        state = {"n": 0, "token": 0, "in": 0}

        def work(daemon):
            with daemon.conn() as c:
                for _ in range(60):
                    token = self.granted(c, "counter")
                    self.assertEqual(state["in"], 0)
                    state["in"] = 1
                    self.assertGreater(token, state["token"])
                    state["token"] = token
                    state["n"] += 1
                    state["in"] = 0
                    self.assertEqual(c.cmd("UNLOCK", "counter"), 0)
        threads = [threading.Thread(target=work, args=(d,)) for d in (r, other, r, other)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(state["n"], 240)


class Hints(Quorum):
    """Each poll is minutes away, so only a hint makes a waiter ask."""

    CONF = "max_poll: 1h\n" + CONF.replace("lease: 3s", "lease: 10m")
    CHANNEL = "redisson_lock__channel:{a}"

    def test_a_waiter_is_woken_while_a_node_is_away(self):
        r, other = self.start(conf=self.CONF), self.daemon(name="other", conf=self.CONF)
        a, b = self.conn(r), self.conn(other)
        self.m.nodes[2].kill()
        t = a.cmd("LOCK", "a")
        b.ask("LOCK", "a", "WAIT", "5m")
        channel = "redisson_lock__channel:{a}"
        until(lambda: self.m.cmd("PUBSUB", "NUMSUB", channel)[:2] == [[channel, 1]] * 2)
        self.assertEqual(a.cmd("UNLOCK", "a"), 0)
        self.assertGreater(b.read(), t)

    def of_another(self, *which):
        """These nodes have the key of another owner, for longer than any test lasts."""
        owner = "%s:1" % uuid.uuid4()
        for i in which:
            self.m.nodes[i].cmd("HSET", "a", owner, 1)
            self.m.nodes[i].cmd("PEXPIRE", "a", 600000)

    @staticmethod
    def taken(r):
        return int(r.info("stats")["attempts_taken"])

    def test_a_release_while_a_subscription_is_renewed(self):
        r = self.start(conf=self.CONF)
        c = self.conn(r)
        self.of_another(0, 1)
        c.ask("LOCK", "a", "WAIT", "5m")
        until(lambda: self.m.cmd("PUBSUB", "NUMSUB", self.CHANNEL) == [[self.CHANNEL, 1]] * 3)
        for node in self.m.nodes[:2]:  # the last attempt is made when the daemon knows that it is subscribed at both
            at = self.taken(r)
            node.cmd("PUBLISH", self.CHANNEL, "0")
            until(lambda: self.taken(r) > at)
        time.sleep(0.05)  # 4 ms later the daemon learns that its release at the third node is done
        r.signal(signal.SIGSTOP)
        self.m.nodes[0].cmd("CLIENT", "KILL", "TYPE", "pubsub")
        self.m.nodes[0].cmd("DEL", "a")
        r.signal(signal.SIGCONT)
        self.assertGreater(c.read(), 0)

    def test_a_node_that_was_away_votes_again(self):
        """One more node has the key of another owner. No message hints that the node is back."""
        r = self.start(conf=self.CONF)
        c = self.conn(r)
        self.of_another(0)
        self.m.pause(2)
        until(lambda: [n["state"] for n in nodes(r)] == ["voting", "voting", "down"])
        c.ask("LOCK", "a", "WAIT", "5m")
        until(lambda: self.taken(r) >= 6)
        self.m.resume(2)
        self.assertGreater(c.read(), 0)

    def test_none_is_lost(self):
        r, other = self.start(conf=self.CONF), self.daemon(name="other", conf=self.CONF)
        answers = []

        def work(daemon):
            with daemon.conn() as c:
                c.sock.settimeout(60 * harness.SLOW)
                for _ in range(100):
                    answers.append(c.cmd("LOCK", "a", "WAIT", "5m"))
                    answers.append(c.cmd("UNLOCK", "a"))
        threads = [threading.Thread(target=work, args=(d,)) for d in (r, other, r, other)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(sum(isinstance(x, int) for x in answers), 800)


class Starts(Quorum):
    """The lines of the log about nodes that vote."""

    WARNED = ("no majority votes", "no spare node votes")

    def warned(self, r):
        return [text for text in self.WARNED if text in r.log()]

    def test_a_healthy_start_warns_of_nothing(self):
        patient = CONF.replace("timeout: 500ms", "timeout: 5s")
        for name in ("first", "second"):  # first the quorum is new; then it was used before
            r = self.start(conf=patient) if name == "first" else self.daemon(conf=patient, name=name)
            until(lambda: "spare nodes vote" in r.log())
            self.assertEqual(self.warned(r), [])
            self.assertNotIn("an even number of nodes", r.log())
        self.m.nodes[0].kill()
        until(lambda: self.warned(r) == ["no spare node votes"])
        self.m.nodes[1].kill()
        until(lambda: self.warned(r) == list(self.WARNED))

    def test_missing_nodes_are_logged(self):
        self.m = Masters(self, self.n)
        self.m.nodes[0].kill()
        r = self.rlockd(redis=self.m.url(), conf=CONF)
        until(lambda: self.warned(r) == ["no spare node votes"] or self.warned(r) == ["no majority votes"])
        self.m.nodes[1].kill()
        until(lambda: "no majority votes" in self.warned(r))


class Failures(Quorum):
    """Nodes fail, one or two of three."""

    def test_one_of_three_is_missed_by_no_client(self):
        r = self.start()
        c = self.conn(r)
        t = c.cmd("LOCK", "held")
        self.m.nodes[1].kill()
        until(lambda: r.info("redis")["redis_links_away"] == "locks,renewals,subscriptions")
        for i in range(20):
            self.assertGreater(c.cmd("LOCK", "n%d" % i), t)
            self.assertEqual(c.cmd("UNLOCK", "n%d" % i), 0)
        self.renewed(r)
        self.assertEqual(c.cmd("UNLOCK", "held"), 0)

    def test_two_of_three_and_nothing_is_granted_until_they_are_back(self):
        r = self.start()
        c = self.conn(r)
        t = c.cmd("LOCK", "a")
        self.m.nodes[1].kill()
        self.m.nodes[2].kill()
        self.assertTrue(c.cmd("LOCK", "b", "WAIT", "1s").startswith("UNAVAILABLE"))
        self.m.again(1)
        self.m.again(2)
        self.assertGreater(self.granted(self.conn(r), "b"), t)

    def test_a_paused_node_costs_nothing(self):
        r = self.start(conf=PATIENT)
        c = self.conn(r)
        c.cmd("LOCK", "a")
        self.m.pause(0)
        begin = time.monotonic()
        for i in range(10):
            self.assertGreater(c.cmd("LOCK", "n%d" % i), 0)
        self.assertLess(time.monotonic() - begin, 10)  # the longest wait for a node
        self.m.resume(0)
        for i in range(10):
            self.assertEqual(c.cmd("UNLOCK", "n%d" % i), 0)
        until(lambda: all(self.where("n%d" % i) == [False] * 3 for i in range(10)))

    def test_an_emptied_node_does_not_vote_for_a_lease(self):
        r = self.start()
        c = self.conn(r)
        c.cmd("LOCK", "a")
        until(lambda: self.where("a") == [True] * 3)
        clock = max(int(x) for x in self.m.cmd("GET", clock_of("a")))
        self.m.nodes[0].kill()
        self.m.again(0)
        begin = time.monotonic()
        until(lambda: [n["state"] for n in nodes(r)] == ["quarantine", "voting", "voting"])
        self.m.nodes[1].kill() # no majority votes now
        answer = self.conn(r).cmd("LOCK", "b", "WAIT", "500ms")
        self.assertTrue(answer is None or answer.startswith("UNAVAILABLE"), answer)
        self.m.again(1)
        until(lambda: self.voting(r) == 3, 30)
        self.assertGreater(time.monotonic() - begin, 3)
        self.assertGreaterEqual(int(self.m.nodes[0].cmd("GET", clock_of("a"))), clock)

    def test_a_hole_is_filled(self):
        r = self.start()
        c = self.conn(r)
        c.cmd("LOCK", "a")
        until(lambda: self.where("a") == [True] * 3)
        self.m.nodes[0].cmd("DEL", "a")
        until(lambda: self.where("a") == [True] * 3)
        self.m.nodes[1].kill()
        self.m.again(1)
        until(lambda: self.where("a") == [True] * 3)
        self.m.nodes[0].kill()  # the repaired key of node 1 counts
        self.renewed(r)
        self.assertEqual(c.cmd("UNLOCK", "a"), 0)

    def test_flushall_of_one(self):
        r = self.start()
        c = self.conn(r)
        t = c.cmd("LOCK", "a")
        self.m.nodes[2].cmd("FLUSHALL")
        until(lambda: self.voting(r) == 2)
        self.assertEqual(c.cmd("LOCK", "b") > t, True)
        clock = 10**9 + max(int(node.cmd("GET", clock_of("b"))) for node in self.m.nodes[:2])
        for node in self.m.nodes[:2]: # the highest token that the other nodes gave
            node.cmd("SET", clock_of("a"), clock)
        until(lambda: self.voting(r) == 3, 30)
        self.assertEqual([t for t in self.m.nodes[2].cmd("MGET", *CLOCKS) if int(t or 0) < clock], [])
        self.assertEqual(c.cmd("UNLOCK", "a"), 0)

    def test_flushall_of_two(self):
        r, other = self.start(), self.daemon(name="other")
        c = self.conn(r)
        t = c.cmd("LOCK", "a")
        for i in (1, 2):
            self.m.nodes[i].cmd("FLUSHALL")
        until(lambda: self.voting(r) == 1)
        until(lambda: self.voting(r) == 3, 30)
        self.assertEqual(c.cmd("UNLOCK", "a"), 0) # it was reclaimed
        self.assertGreater(self.granted(self.conn(other), "a"), t)

    def test_an_unused_rule_makes_a_quarantine_longer(self):
        """Such a rule is the way to declare longer leases of clients of other libraries."""
        r = self.start(conf=CONF + "rules: [{ match: unused, lease: 1h }]\n")
        self.m.nodes[0].cmd("FLUSHALL")
        until(lambda: self.voting(r) == 2)

        def ends():
            """the epoch of the node has the end of its grace period, before which the node is not admitted"""
            return (self.m.nodes[0].cmd("GET", "rlock:epoch") or "").split()[2:]
        self.assertGreater(int(until(ends)[0]) / 1000 - time.time(), 3500)

    def test_two_paused_nodes_are_reported_within_the_bound(self):
        r = self.start()
        c = self.conn(r)
        self.assertGreater(c.cmd("LOCK", "a"), 0)
        self.m.pause(0, 2)
        begin = time.monotonic()
        answer = c.cmd("LOCK", "b", "WAIT", "1s")
        self.assertTrue(answer.startswith("UNAVAILABLE"), answer)
        self.assertLess(time.monotonic() - begin, 1 + 2 * 0.5 + harness.SLOW)
        self.m.resume(0, 2)
        t = self.granted(self.conn(r), "b")
        until(lambda: self.where("b") == [True] * 3)
        self.assertGreater(self.granted(self.conn(r), "c"), t)


    def test_a_node_is_waited_for_no_longer_than_a_tenth_of_the_lease(self):
        r = self.start(conf=CONF.replace("timeout: 500ms,", "timeout: 60s,"))
        c = self.conn(r)
        self.m.pause(0, 2)
        begin = time.monotonic()
        answer = c.cmd("LOCK", "b", "WAIT", "1s")
        self.assertTrue(answer.startswith("UNAVAILABLE"), answer)
        self.assertLess(time.monotonic() - begin, 12)  # after 15 s without an answer the links are closed
        self.m.resume(0, 2)


class Clocks(Quorum):
    """The daemon's clock jumps: answers from before the jump do not confirm that a majority has a name."""

    def test_what_shows_the_jump_is_asked_again_at_once(self):
        r = self.start(conf=CONF.replace("lease: 3s", "lease: 30s"))
        c = self.conn(r)
        self.assertGreater(c.cmd("LOCK", "a"), 0)
        until(lambda: self.where("a") == [True] * 3)
        for words, answer in ((("LOCK", "a"), int), (("UNLOCK", "a"), 1), (("RENEW", "a", "20s"), int),
                              (("LOCK", "b", "NOWAIT"), int), (("UNLOCK", "a"), 0)):
            until(lambda: r.info("redis")["redis_in_flight"] == "0")
            r.advance("1s")
            got = c.cmd(*words)
            if answer is int:
                self.assertGreater(got, 0, words)
            else:
                self.assertEqual(got, answer, words)
        self.assertEqual(r.info("stats")["unknowns"], "0")


class Restarts(Quorum):
    """The daemon is killed, and the next process uses its state directory."""

    def test_named_owners_go_on_and_sessions_are_free(self):
        conf = 'state_dir: "%s/state"\n' % self.dir + CONF
        r = self.start(conf=conf)
        c = self.conn(r)
        t = c.cmd("LOCK", "named", "OWNER", "me", "GRACE", "20s")
        self.assertGreater(t, 0)
        self.assertGreater(c.cmd("LOCK", "session"), 0)
        until(lambda: self.where("named") == self.where("session") == [True] * 3)
        r.kill()
        r = self.daemon(name="again", conf=conf)
        until(lambda: self.where("session") == [False] * 3)
        self.assertEqual(self.where("named"), [True] * 3)
        c = self.conn(r)
        self.assertIsNone(c.cmd("LOCK", "named", "NOWAIT"))
        self.assertEqual(c.cmd("UNLOCK", "named", "OWNER", "me"), 0)
        until(lambda: self.where("named") == [False] * 3)
        self.assertGreater(c.cmd("LOCK", "named"), t)

    def test_broadcasts_of_the_next_process_are_received(self):
        """They are not taken for those of the former process, which had the same uuid."""
        # the next renewal is due long after the deadline of this test
        slow = CONF.replace("lease: 3s", "lease: %ds" % (90 * harness.SLOW))
        conf = 'state_dir: "%s/state"\n' % self.dir + slow
        r, other = self.start(conf=conf), self.daemon(name="other", conf=slow)
        c = self.conn(other)
        for i in range(24):
            if i == 12:
                r.kill()
                r = self.daemon(name="again", conf=conf)
            self.assertGreater(c.cmd("LOCK", "a%d" % i), 0)
            self.assertEqual(r.cmd("BREAK", "a%d" % i), 1)
            until(lambda: other.info("stats")["lost"] == str(i + 1))


class Redlock:
    """The plain algorithm of the libraries: SET NX PX at each node, compare and DEL at all of them."""

    FREE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"

    def __init__(self, masters):
        self.m, self.q = masters, len(masters.nodes) // 2 + 1

    def lock(self, key, ttl_ms=10000):
        value = secrets.token_hex(16)
        taken = self.m.cmd("SET", key, value, "NX", "PX", ttl_ms)
        if taken.count("OK") >= self.q:
            return value
        self.free(key, value)
        return None

    def free(self, key, value):
        self.m.cmd("EVAL", self.FREE, 1, key, value)

    FILL = ("if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end "
            "return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) and 1 or 0")

    def extend(self, key, value, ttl_ms=10000):
        """As redsync does with WithSetNXOnExtend: also where the key is missing. Returns whether a majority has it."""
        return self.m.cmd("EVAL", self.FILL, 1, key, value, ttl_ms).count(1) >= self.q


class OtherClients(Quorum):
    """Clients without a daemon lock the same names on the same nodes."""

    def test_a_plain_redlock_keeps_us_out_and_we_it(self):
        r = self.start(conf=CONF + "rules: [{ match: 's*', kind: simple }]\n")
        c, other = self.conn(r), Redlock(self.m)
        for name in ("s", "reentrant"):
            value = other.lock(name)
            self.assertIsNotNone(value)
            answer = c.cmd("LOCK", name, "NOWAIT")
            if name == "s":
                self.assertIsNone(answer)
            else:
                self.assertTrue(answer.startswith("KIND"), answer)
            other.free(name, value)
            self.assertGreater(c.cmd("LOCK", name, "WAIT", "10s"), 0)
            self.assertIsNone(other.lock(name))
            self.assertEqual(c.cmd("UNLOCK", name), 0)
            value = until(lambda: other.lock(name))
            other.free(name, value)

    def test_a_redlock_that_fills_holes_when_it_extends(self):
        """It gets back locks that are free, and never one that rlockd holds."""
        r = self.start(conf=CONF.replace("lease: 3s", "lease: 3s, kind: simple"))
        c, other = self.conn(r), Redlock(self.m)
        value = other.lock("s")
        for node in self.m.nodes[:2]:  # as if its lease had ended there
            self.assertEqual(node.cmd("DEL", "s"), 1)
        t = c.cmd("LOCK", "s", "WAIT", "5s")
        self.assertGreater(t, 0)
        self.assertFalse(other.extend("s", value, 600000))
        # it fills the hole of rlockd's lock before the repair does
        self.assertEqual(self.m.nodes[1].cmd("DEL", "s"), 1)
        self.assertTrue(other.extend("s", value, 600000))
        self.assertTrue(c.cmd("RENEW", "s", "3s").startswith("LOST"))
        self.assertIsNone(c.cmd("LOCK", "s", "NOWAIT"))
        other.free("s", value)
        self.assertGreater(self.granted(c, "s"), t)
        self.assertFalse(other.extend("s", value))
        self.renewed(r)
        self.assertEqual(self.where("s"), [True] * 3)
        self.assertEqual(c.cmd("UNLOCK", "s"), 0)

    def scripts(self):
        """How many scripts the nodes have run."""
        rows = [re.search(r"^cmdstat_evalsha:calls=(\d+)", node.cmd("INFO", "commandstats"), re.M)
                for node in self.m.nodes]
        return sum(int(row.group(1)) for row in rows if row is not None)

    def test_a_waiter_for_a_majority_asks_seldom(self):
        """A waiter that gives back its minority wakes no other waiter, which would get a minority as well."""
        conf = CONF.replace("lease: 3s", "lease: 3s, kind: simple")
        waiting = [self.conn(r) for r in (self.start(conf=conf), self.daemon(name="other", conf=conf))]
        for node in self.m.nodes[:2]:
            self.assertEqual(node.cmd("SET", "s", secrets.token_hex(16), "NX", "PX", 600000), "OK")
        for c in waiting:
            c.ask("LOCK", "s", "WAIT", "60s")
        channel = "redisson_lock__channel:{s}"
        until(lambda: self.m.cmd("PUBSUB", "NUMSUB", channel) == [[channel, 2]] * 3)
        began, at = time.monotonic(), self.scripts()
        time.sleep(3)  # for a rate of calls
        rate = (self.scripts() - at) / (time.monotonic() - began)
        self.assertLess(rate, 30)
        for node in self.m.nodes[:2]:
            self.assertEqual(node.cmd("DEL", "s"), 1)
        until(lambda: self.where("s") == [True] * 3, 30)

    def test_a_waiter_for_a_key_without_a_ttl_asks_seldom(self):
        r = self.start(conf=CONF.replace("lease: 3s", "lease: 3s, kind: simple"))
        c, other = self.conn(r), self.conn(r)
        for node in self.m.nodes:
            self.assertEqual(node.cmd("SET", "s", secrets.token_hex(16)), "OK")
        c.ask("LOCK", "s", "WAIT", "60s")
        until(lambda: other.maps("WAITERS", "s"))
        began, at = time.monotonic(), self.scripts()
        time.sleep(2)  # for a rate of calls
        self.assertLess((self.scripts() - at) / (time.monotonic() - began), 30)
        self.m.cmd("DEL", "s")
        self.assertGreater(c.read(), 0)

    def test_both_count(self):
        r = self.start(conf=CONF.replace("lease: 3s", "lease: 3s, kind: simple"))
        state, other = {"in": 0, "n": 0}, Redlock(self.m)

        def inside():
            self.assertEqual(state["in"], 0)
            state["in"] = 1
            time.sleep(0.001)
            state["n"] += 1
            state["in"] = 0

        def ours():
            with r.conn() as c:
                for _ in range(40):
                    self.granted(c, "counter")
                    inside()
                    self.assertEqual(c.cmd("UNLOCK", "counter"), 0)

        def theirs():
            for _ in range(40):
                value = until(lambda: other.lock("counter"))
                inside()
                other.free("counter", value)
        threads = [threading.Thread(target=f) for f in (ours, theirs, ours)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(state["n"], 120)


class Storm(Quorum):
    """All faults at once, while tokens rise."""

    def test_tokens_rise_whatever_fails(self):
        r, other = self.start(), self.daemon(name="other")
        state = {"token": 0, "in": 0, "n": 0, "wrong": []}
        stop = threading.Event()

        def work(daemon):
            with daemon.conn() as c:
                while not stop.is_set():
                    answer = c.cmd("LOCK", "a", "WAIT", "1s")
                    if answer is None or isinstance(answer, RError):
                        continue
                    if state["in"] or answer <= state["token"]:
                        state["wrong"].append((state["in"], answer, state["token"]))
                    state["in"], state["token"] = 1, answer
                    state["n"] += 1
                    state["in"] = 0
                    c.cmd("UNLOCK", "a")
        threads = [threading.Thread(target=work, args=(d,)) for d in (r, other)]
        for t in threads:
            t.start()
        try:
            for i in (0, 1, 2):
                at = state["n"]
                if i == 0:
                    self.m.nodes[i].cmd("FLUSHALL")
                elif i == 1:
                    self.m.nodes[i].kill()
                    self.m.again(i)
                else:
                    self.m.pause(i)
                    until(lambda: state["n"] > at + 20)
                    self.m.resume(i)
                until(lambda: state["n"] > at + 40)
                until(lambda: self.voting(r) == 3 and self.voting(other) == 3, 30)
            for i in (0, 1):
                self.m.nodes[i].cmd("FLUSHALL")
            until(lambda: self.voting(r) == 1)
            until(lambda: self.voting(r) == 3, 30)
            at = state["n"]
            until(lambda: state["n"] > at + 20)
        finally:
            stop.set()
            for t in threads:
                t.join()
        self.assertEqual(state["wrong"], [])


if __name__ == "__main__":
    harness.main()
