#!/usr/bin/env python3
"""A quorum with a node that keeps its data and is out of reach, is full, takes no writes, or answers nonsense."""
import re

import harness
from harness import free_port, until
from quorums import Masters, clock_of
from test_quorum import CONF, PATIENT, Quorum
from test_sentinel import nodes
from test_tls import Proxy

TOKENS_END = 1 << 53


class OutOfReach(Quorum):
    """Daemons use a port, which a node closes and opens again; the node keeps its data meanwhile."""

    def place(self, i):
        port = free_port()
        return {"at": "redis://127.0.0.1:%d" % port, "args": ("--port", str(port))}

    def leave(self, r, i):
        node = self.m.nodes[i]
        self.assertEqual(node.cmd("CONFIG", "SET", "port", "0"), "OK")
        node.cmd("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        node.cmd("CLIENT", "KILL", "TYPE", "pubsub")
        until(lambda: nodes(r)[i]["state"] == "down")

    def come(self, r, i):
        node = self.m.nodes[i]
        self.assertEqual(node.cmd("CONFIG", "SET", "port", node.url.rsplit(":", 1)[1]), "OK")
        until(lambda: nodes(r)[i]["state"] == "voting", 30)

    def values(self, key):
        return self.m.cmd("GET", key)

    def left_behind(self, r, c):
        """The value of a lock that was given back while the last node was out of reach: that node still has it."""
        self.assertGreater(c.cmd("LOCK", "s", "KIND", "simple", "LEASE", "200s"), 0)
        until(lambda: self.where("s") == [True] * 3)
        self.leave(r, 2)
        self.assertEqual(c.cmd("UNLOCK", "s"), 0)
        until(lambda: self.where("s") == [False, False, True])
        return self.values("s")[2]

    def test_the_next_lock_of_an_owner_forgets_no_value_of_the_one_before(self):
        """Each lock of the kind has a value of its own, and only that value frees it."""
        for kind in ("simple", "reentrant"):
            with self.subTest(kind=kind):
                r = self.start(place=self.place, conf=PATIENT, name=kind)
                c = self.conn(r)
                self.left_behind(r, c)
                self.assertGreater(c.cmd("LOCK", "s", "KIND", kind), 0)
                self.assertEqual(c.cmd("UNLOCK", "s"), 0)
                self.come(r, 2)
                until(lambda: self.where("s") == [False] * 3)

    def test_a_node_with_a_value_from_before_gets_that_of_the_present_lock(self):
        r = self.start(place=self.place)
        c = self.conn(r)
        before = self.left_behind(r, c)
        self.assertGreater(c.cmd("LOCK", "s", "KIND", "simple"), 0)
        now = self.values("s")[0]
        self.assertNotEqual(now, before)
        self.come(r, 2)
        until(lambda: self.values("s") == [now] * 3, 30)
        self.assertEqual(c.cmd("UNLOCK", "s"), 0)
        until(lambda: self.where("s") == [False] * 3)

    def test_a_value_is_not_forgotten_while_its_release_is_on_its_way(self):
        """The release gets no answer, and runs too late; the next lock of the owner has begun meanwhile."""
        r = self.start()
        c = self.conn(r)
        self.assertGreater(c.cmd("LOCK", "s", "KIND", "simple", "LEASE", "200s"), 0)
        until(lambda: self.where("s") == [True] * 3)
        self.m.pause(2)
        for words in ("UNLOCK", "s"), ("LOCK", "s", "KIND", "simple", "LEASE", "200s"), ("UNLOCK", "s"):
            self.assertIsInstance(c.cmd(*words), int)
        until(lambda: nodes(r)[2]["state"] == "down")
        self.m.resume(2)
        until(lambda: nodes(r)[2]["state"] == "voting", 30)
        until(lambda: self.where("s") == [False] * 3)

    def test_a_node_is_not_asked_for_another_value_while_the_one_before_may_yet_get_there(self):
        """The link was lost before the answer, so the attempt may run in Redis until its guard."""
        r = self.start(conf=PATIENT)
        c, node = self.conn(r), self.m.nodes[2]
        self.assertEqual(node.cmd("CLIENT", "PAUSE", "100000", "WRITE"), "OK")
        self.assertGreater(c.cmd("LOCK", "s", "KIND", "simple"), 0)
        until(lambda: "blocked_clients:0" not in node.cmd("INFO", "clients"))
        node.cmd("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        self.assertEqual(node.cmd("CLIENT", "UNPAUSE"), "OK")
        until(lambda: nodes(r)[2]["state"] == "voting", 30)
        before = int(nodes(r)[2]["votes"])
        self.assertEqual(c.cmd("UNLOCK", "s"), 0)
        self.assertGreater(c.cmd("LOCK", "s", "KIND", "simple"), 0)
        self.assertGreater(c.cmd("LOCK", "t"), 0)
        until(lambda: self.where("t") == [True] * 3)
        self.assertEqual(self.where("s"), [True, True, False])
        self.assertEqual(int(nodes(r)[2]["votes"]), before + 1)

    def test_a_lock_that_two_nodes_have_lost_is_lost_though_one_is_away(self):
        r = self.start(place=self.place, conf=PATIENT)
        c = self.conn(r)
        self.assertGreater(c.cmd("LOCK", "a"), 0)
        until(lambda: self.where("a") == [True] * 3)
        self.leave(r, 2)
        for node in self.m.nodes[:2]:
            self.assertEqual(node.cmd("DEL", "a"), 1)
        answer = c.cmd("RENEW", "a", "100s")
        self.assertTrue(str(answer).startswith("LOST"), answer)

    def test_break_of_what_a_node_lacks_while_another_is_away(self):
        r, other = self.start(place=self.place, conf=PATIENT), self.daemon(name="other", conf=PATIENT)
        c = self.conn(r)
        t = c.cmd("LOCK", "a")
        until(lambda: self.where("a") == [True] * 3)
        self.leave(other, 2)
        self.assertEqual(self.m.nodes[1].cmd("DEL", "a"), 1)
        self.m.nodes[1].cmd("CLIENT", "PAUSE", "300", "WRITE")  # and the node answers last
        self.assertEqual(other.cmd("BREAK", "a"), 1)
        until(lambda: r.info("stats")["lost"] == "1")
        self.assertGreater(self.granted(self.conn(other), "a"), t)

    def test_jeopardy_comes_before_lost(self):
        """
        The deadline comes nearer without a LOST: a node lacks the key, so the hold depends on a node that the last
        renewal did not reach.
        """
        lease = 9 * harness.SLOW
        r = self.start(place=self.place, conf=CONF.replace("lease: 3s", "lease: %ds" % lease))
        c, subscriber = self.conn(r), self.conn(r)
        token = c.cmd("LOCK", "a")
        until(lambda: self.where("a") == [True] * 3)
        subscriber.cmd("SUBSCRIBE", "lock:a")
        self.leave(r, 1)
        self.renewed(r, 1)
        self.assertTrue(subscriber.quiet())
        self.assertEqual(self.m.nodes[0].cmd("DEL", "a"), 1)
        self.leave(r, 2)
        subscriber.sock.settimeout(2 * lease)
        self.assertRegex(subscriber.read()[2], "^jeopardy %d " % token)
        self.assertGreater(c.cmd("LOCK", "a", "ONCE"), 0)
        self.assertRegex(subscriber.read()[2], "^lost %d " % token)
        self.assertRegex(c.cmd("UNLOCK", "a"), "^LOST ")


class Full(Quorum):
    """maxmemory is reached, and nothing may be evicted."""

    def fill(self, *which):
        for i in which:
            self.assertEqual(self.m.nodes[i].cmd("CONFIG", "SET", "maxmemory", "1"), "OK")

    def drain(self, i):
        self.assertEqual(self.m.nodes[i].cmd("CONFIG", "SET", "maxmemory", "0"), "OK")

    def test_one_full_node_is_missed_by_no_client(self):
        r = self.start()
        c = self.conn(r)
        t = c.cmd("LOCK", "held")
        until(lambda: self.where("held") == [True] * 3)
        self.fill(0)
        self.assertGreater(c.cmd("LOCK", "a"), t)
        self.assertEqual(c.cmd("UNLOCK", "a"), 0)
        self.renewed(r)  # at the full node, too: a renewal takes no memory
        self.assertEqual(self.where("held"), [True] * 3)
        self.assertEqual(c.cmd("UNLOCK", "held"), 0)
        until(lambda: self.where("held") == [False] * 3)

    def test_two_full_nodes_are_reported_and_what_is_held_stays_so(self):
        r = self.start()
        c = self.conn(r)
        t = c.cmd("LOCK", "held")
        until(lambda: self.where("held") == [True] * 3)
        self.fill(0, 1)
        self.assertRegex(c.cmd("LOCK", "a", "NOWAIT"), "^UNAVAILABLE .*out of memory")
        self.assertRegex(c.cmd("LOCK", "a", "WAIT", "1s"), "^UNAVAILABLE .*out of memory")
        until(lambda: self.where("a") == [False] * 3)  # the third node's grant was given back
        self.renewed(r)
        self.assertEqual(c.cmd("LOCK", "held", "ONCE"), t)
        self.assertEqual(c.cmd("UNLOCK", "held"), 0)
        until(lambda: self.where("held") == [False] * 3)
        self.drain(1)
        self.assertGreater(self.granted(c, "a"), t)

    def test_a_full_node_is_admitted_when_it_has_room(self):
        r = self.start()
        self.fill(0)
        self.assertEqual(self.m.nodes[0].cmd("FLUSHALL"), "OK")
        until(lambda: "node cannot be admitted" in r.log(), 30)
        self.assertRegex(r.log(), r'warn redis node cannot be admitted .*node0.*reason="OOM ')
        admitted = r.log().count("redis node admitted")
        self.assertEqual(nodes(r)[0]["state"], "quarantine")
        self.drain(0)
        until(lambda: self.voting(r) == 3)
        self.assertEqual(r.log().count("redis node admitted"), admitted + 1)
        self.assertEqual(r.log().count("node cannot be admitted"), 1)


class Evicting(Quorum):
    def test_strict_needs_a_majority_that_evicts_nothing(self):
        """INFO shows the policy of a node that may evict keys."""
        before = self.start(name="before")  # the nodes have an epoch, so that the policy is the only reason of `strict`
        before.stop()

        def evict(i):
            self.m.nodes[i].cmd("CONFIG", "SET", "maxmemory", "1gb", "maxmemory-policy", "allkeys-lru")
            return self.daemon(name="with%d" % i, conf="redis: { strict: true }\n")
        d = evict(1)
        self.assertEqual(d.info("redis")["redis_maxmemory_policy"], "allkeys-lru")
        self.assertEqual(d.info("redis")["redis_refusal"], "")
        self.assertGreater(self.granted(self.conn(d), "a"), 0)
        d.stop()
        d = evict(2)
        why = "1 of 3 nodes grant: no majority; strict: .*node1.* may evict locks: its maxmemory_policy is allkeys-lru"
        self.assertRegex(d.cmd("LOCK", "b", "NOWAIT"), "^UNAVAILABLE .*" + why)
        self.assertRegex(d.info("redis")["redis_refusal"], why)


class Named(Quorum):
    """Mistakes in the list of URLs are reported: in INFO, in the answer to a LOCK, in the log."""

    def begin(self, url):
        r = self.rlockd(redis=url, conf=CONF, wait=False)
        until(r.serving)
        return r

    def refused(self, r, states, why):
        until(lambda: [n["state"] for n in nodes(r)] == states)
        until(lambda: re.search(why, r.info("redis")["redis_refusal"]))
        self.assertRegex(r.cmd("LOCK", "free", "WAIT", "200ms"), "^UNAVAILABLE .*" + why)

    def replicate(self, i, of):
        node = self.m.nodes[i]
        self.assertEqual(node.cmd("REPLICAOF", "127.0.0.1", self.m.nodes[of].place["args"][1]), "OK")
        until(lambda: "master_link_status:up" in node.cmd("INFO", "replication"))

    def place(self, i):
        return {"args": ("--port", str(free_port()))}

    def test_one_server_by_two_addresses(self):
        """The server counts once, so a new quorum lacks a majority."""
        self.m = Masters(self, 3, self.place)
        urls = [node.url for node in self.m.nodes]
        twice = "redis://127.0.0.1:" + self.m.nodes[0].place["args"][1]
        r = self.begin("quorum:" + ",".join(urls[:2] + [twice]))
        self.refused(r, ["quarantine", "quarantine", "twin"], "%s is the same server as %s" % (twice, urls[0]))
        r.stop()
        self.daemon(name="established").stop()
        r = self.begin("quorum:" + ",".join(urls[:2] + [twice]))
        until(lambda: [n["state"] for n in nodes(r)] == ["voting", "voting", "twin"])
        c = self.conn(r)
        self.assertGreater(self.granted(c, "a"), 0)
        self.assertRegex(r.log(), "error redis two nodes of the quorum are the same server address=" + twice)
        self.assertNotIn("spare nodes vote", r.log())
        self.m.nodes[1].kill()
        self.refused(r, ["voting", "down", "twin"], "1 of 3 nodes answer: no majority")

    def test_two_with_another_password(self):
        self.m = Masters(self, 3, lambda i: {"args": ("--requirepass", "another")} if i > 0 else {})
        r = self.begin(self.m.url())
        self.refused(r, ["quarantine", "down", "down"], "1 of 3 nodes answer: no majority; .*node1.*NOAUTH")
        self.assertNotIn("another", r.log())
        for i, node in enumerate(self.m.nodes[1:], 1):
            with node.conn() as c:
                c.cmd("AUTH", "another")
                self.assertEqual(c.cmd("CONFIG", "SET", "requirepass", ""), "OK")
        until(lambda: self.voting(r) == 3, 30)
        self.assertGreater(self.granted(self.conn(r), "a"), 0)

    def test_a_replica(self):
        self.m = Masters(self, 3, self.place)
        self.replicate(2, 0)
        r = self.begin(self.m.url())
        self.refused(r, ["quarantine", "quarantine", "down"], "0 of 3 nodes vote: no majority; .*node2.*not a master")
        self.assertEqual(self.m.nodes[2].cmd("REPLICAOF", "NO", "ONE"), "OK")
        until(lambda: self.voting(r) == 3, 30)
        c = self.conn(r)
        t = self.granted(c, "a")
        until(lambda: self.where("a") == [True] * 3)
        self.replicate(2, 0)  # its vote would be the vote of the master
        until(lambda: nodes(r)[2]["state"] == "down")
        self.assertGreater(self.granted(c, "b"), t)
        self.m.nodes[0].kill()
        self.refused(r, ["down", "voting", "down"], "1 of 3 nodes answer: no majority")


class Nonsense(Quorum):
    """A node's token clock raises the clocks of other nodes, so an answer that is no token is rejected."""

    ANSWER = re.compile(rb"(\*3\r\n\$\d+\r\n[^\r]*\r\n:\d\r\n:)\d+\r\n")  # the answer of scripts/quorum.lua

    def place(self, i):
        port = free_port()
        if i < 2:
            return {}
        self.proxy = Proxy(port)
        self.addCleanup(self.proxy.close)
        return {"at": "redis://127.0.0.1:%d" % self.proxy.port, "args": ("--port", str(port))}

    def token_clock(self, i, key):
        """The token clock of the name at a node; -1 while it is no number."""
        text = self.m.nodes[i].cmd("GET", clock_of(key))
        return int(text) if text.isdigit() else -1

    def test_a_node_that_says_what_is_no_token_does_not_vote(self):
        r = self.start(place=self.place)
        self.proxy.change = lambda reported: self.ANSWER.sub(rb"\g<1>%d\r\n" % TOKENS_END, reported)
        self.proxy.cut(False)
        until(lambda: int(r.info("stats")["redis_protocol_errors"]) >= 2)  # one each time that the node is back
        until(lambda: self.voting(r) == 2)
        token = self.granted(self.conn(r), "a")
        self.m.nodes[0].cmd("FLUSHALL")
        until(lambda: self.voting(r) == 1)
        errors = int(r.info("stats")["redis_protocol_errors"])
        until(lambda: nodes(r)[0]["state"] == "quarantine" and
              int(r.info("stats")["redis_protocol_errors"]) >= errors + 2, 30)
        self.proxy.change = lambda reported: reported
        until(lambda: self.voting(r) == 3, 30)
        self.assertGreaterEqual(self.token_clock(0, "a"), token)
        self.assertLess(self.token_clock(0, "a"), TOKENS_END)

    def test_a_clock_that_is_no_token_is_begun_anew(self):
        """Another program has written the key: each vote begins it anew."""
        r = self.start(place=self.place)
        for wrong in (str(TOKENS_END), "1e300", "nan", "-5", "x"):
            for key in ("rlock:clock", clock_of("a" + wrong)):
                self.assertEqual(self.m.nodes[2].cmd("SET", key, wrong), "OK")
            at = int(r.info("stats")["redis_connects"])
            self.proxy.cut(False)
            until(lambda: int(r.info("stats")["redis_connects"]) > at and self.voting(r) == 3)
            token = self.granted(self.conn(r), "a" + wrong)
            self.assertLess(token, TOKENS_END)
            until(lambda: token <= self.token_clock(2, "a" + wrong) < TOKENS_END)
        self.assertEqual(r.info("stats")["redis_protocol_errors"], "0")


if __name__ == "__main__":
    harness.main()
