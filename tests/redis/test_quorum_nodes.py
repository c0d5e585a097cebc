#!/usr/bin/env python3
"""A quorum of more nodes than three, of nodes with TLS, of nodes on both sides of a partition; and BREAK in a quorum.
"""
import re
import time
import unittest

import harness
from certificates import Authority
from harness import free_port, until, within
from quorums import Master, Masters
from sentinels import Cable
from test_quorum import CONF, PATIENT, Quorum
from test_reload import LATE, OTHER_KEYS, may_not_subscribe, may_subscribe
from test_sentinel import nodes


class Four(Quorum):
    n = 4

    def test_it_is_warned_of_and_bears_the_loss_of_one(self):
        r = self.start()
        self.assertIn('warn redis an even number of nodes nodes=4 reason="one node fewer tolerates as many failures"',
                      r.log())
        c = self.conn(r)
        self.m.nodes[0].kill()
        self.assertGreater(c.cmd("LOCK", "a"), 0)
        self.m.nodes[1].kill()
        self.assertTrue(c.cmd("LOCK", "b", "WAIT", "1s").startswith("UNAVAILABLE"))


class Five(Quorum):
    n = 5

    def test_two_down_cost_nothing(self):
        r = self.start(conf=PATIENT)
        c = self.conn(r)
        t = c.cmd("LOCK", "held")
        self.m.nodes[1].kill()
        self.m.pause(3)
        begin = time.monotonic()
        for i in range(10):
            self.assertGreater(c.cmd("LOCK", "n%d" % i), t)
        self.assertLess(time.monotonic() - begin, 10)  # the longest wait for a node
        self.m.resume(3)
        for name in ["held"] + ["n%d" % i for i in range(10)]:
            self.assertEqual(c.cmd("UNLOCK", name), 0)
            until(lambda: [n for i, n in enumerate(self.where(name)) if i != 1] == [False] * 4)

    def test_two_are_emptied_while_one_holds(self):
        """Held locks stay held, and no other owner gets them; when a third node is lost, too, there is no majority."""
        conf = CONF.replace("lease: 3s", "lease: 60s")  # a quarantine that does not end during the test
        r, other = self.start(conf=conf), self.daemon(name="other", conf=conf)
        c = self.conn(r)
        t = c.cmd("LOCK", "held")
        for i in (0, 1):
            self.m.nodes[i].cmd("FLUSHALL")
        until(lambda: self.voting(r) == self.voting(other) == 3)
        self.assertIsNone(self.conn(other).cmd("LOCK", "held", "NOWAIT"))
        self.assertGreater(self.conn(other).cmd("LOCK", "more", "WAIT", "10s"), t)
        self.m.nodes[2].kill()
        until(lambda: self.voting(r) == self.voting(other) == 2)
        self.assertNotIsInstance(self.conn(other).cmd("LOCK", "none", "WAIT", "1s"), int)
        self.assertEqual(c.cmd("UNLOCK", "held"), 0)


class OneByOne(Quorum):
    """Never more than one of three nodes is down at a time."""

    def test_a_long_lease_that_no_daemon_renews(self):
        """Its lease is longer than the quarantine of an emptied node."""
        conf = CONF.replace("lease: 3s", "lease: 1s")
        r, other = self.start(conf=conf), self.daemon(name="other", conf=conf)
        c = self.conn(r)
        self.assertGreater(c.cmd("LOCK", "a", "LEASE", "600s"), 0)
        until(lambda: self.where("a") == [True] * 3)

        def admissions(daemon):
            return daemon.log().count("redis node votes")
        before = [admissions(daemon) for daemon in (r, other)]
        for i, node in enumerate(self.m.nodes[:2]):
            node.cmd("FLUSHALL")
            until(lambda: [admissions(daemon) - n for daemon, n in zip((r, other), before)] == [i + 1] * 2, 30)
            self.assertIsNone(other.cmd("LOCK", "a", "NOWAIT"))
        until(lambda: self.where("a") == [True] * 3)
        self.assertEqual(c.cmd("UNLOCK", "a"), 0)
        until(lambda: self.where("a") == [False] * 3)

    def test_a_lock_is_there_again_long_before_its_next_renewal(self):
        c = self.conn(self.start(conf=PATIENT))
        self.assertGreater(c.cmd("LOCK", "a"), 0)
        until(lambda: self.where("a") == [True] * 3)
        self.m.nodes[0].cmd("FLUSHALL")
        until(lambda: self.where("a") == [True] * 3)
        self.assertEqual(c.cmd("UNLOCK", "a"), 0)


class Replaced(Quorum):
    """
    A node is replaced as PROTOCOL.md describes: it is stopped first, and for a while daemons have different lists.
    """

    def test_no_name_has_two_holders(self):
        r = self.start()
        c = self.conn(r)
        self.assertGreater(c.cmd("LOCK", "held"), 0)
        self.m.nodes[2].kill()
        until(lambda: [n["state"] for n in nodes(r)] == ["voting", "voting", "down"])
        new = self._keep(Master(self.dir, "new"))
        urls = [node.url for node in (*self.m.nodes[:2], new)]
        d = self.rlockd(redis="quorum:" + ",".join(urls), name="d", conf=CONF)

        def is_over():
            self.assertNotIsInstance(other.cmd("LOCK", "held", "NOWAIT"), int)
            return nodes(d)[2]["state"] == "voting"
        with d.conn() as other:
            until(lambda: self.voting(d) == 2)
            until(is_over, 30)
            until(lambda: self.where("held")[:2] == [True] * 2)
            self.assertEqual(new.cmd("EXISTS", "held"), 0)
            self.m.pause(1)
            t = self.granted(other, "a")  # granted by the first node and the new one
            self.m.resume(1)
            until(lambda: self.voting(r) == 2)
            self.assertNotIsInstance(c.cmd("LOCK", "a", "WAIT", "500ms"), int)
            self.assertEqual(other.cmd("UNLOCK", "a"), 0)
            self.assertGreater(self.granted(c, "a"), t)


TURN = 0.6  # a daemon reads its clock at least twice a second


class Lists(Quorum):
    """Two daemons, each with three nodes: if these are not the same servers, both daemons warn."""
    n = 4
    WORDS = "warn redis another daemon has other nodes: one name can have two holders daemon="

    def pair(self, first, second):
        self.m = Masters(self, self.n)
        urls = [node.url for node in self.m.nodes]
        self.pair_of = [self.rlockd(redis="quorum:" + ",".join(f(urls)), name=name, conf=PATIENT)
                        for f, name in ((first, "first"), (second, "second"))]
        self.wait_for_nodes()

    def wait_for_nodes(self):
        for d in self.pair_of:
            until(lambda: "down" not in [n["state"] for n in nodes(d)], 30)

    def warned(self):
        """The number of warnings of each daemon, one TURN later or more."""
        for d in self.pair_of:
            d.advance("6s")
        return [d.log().count(self.WORDS) for d in self.pair_of]

    def test_one_node_is_another(self):
        self.pair(lambda urls: urls[:3], lambda urls: urls[:2] + urls[3:])
        until(lambda: self.warned() == [1, 1], 30, TURN)
        first, second = self.pair_of
        uuid = re.search("rlockd start .* uuid=(.*)", second.log()).group(1)
        self.assertEqual(first.info("redis")["redis_last_error"], "another daemon has other nodes: " + uuid)
        self.assertIn(self.WORDS + uuid, first.log())
        second.stop()
        self.pair_of = [first]
        until(lambda: self.warned() and first.info("redis")["redis_last_error"] == "", 30, TURN)
        self.assertIn("info redis no other daemon with other nodes daemon=" + uuid, first.log())

    def test_more_nodes(self):
        self.pair(lambda urls: urls[:3], lambda urls: urls)
        until(lambda: self.warned() == [1, 1], 30, TURN)

    def test_the_same_servers_in_another_order_and_by_other_names(self):
        self.pair(lambda urls: urls[:3], lambda urls: [url + "?db=0" for url in reversed(urls[:3])])
        self.assertFalse(within(lambda: any(self.warned()), 3, TURN))
        self.m.nodes[0].cmd("SAVE")
        self.m.nodes[0].kill()
        self.assertFalse(within(lambda: any(self.warned()), 2, TURN))
        self.m.nodes[0] = self._keep(self.m.nodes[0].again(old=True))  # another run_id
        self.wait_for_nodes()
        self.assertFalse(within(lambda: any(self.warned()), 3, TURN))


class Rules(Quorum):
    """Two daemons that map names to different keys: both warn."""

    def test_one_subscribes_late(self):
        first = self.start()
        for node in self.m.nodes:
            may_not_subscribe(node)
        second = self.daemon("second", LATE)
        until(lambda: OTHER_KEYS in first.log())
        until(lambda: second.log().count("deadlocks across daemons not detected") == 3)
        self.assertNotIn(OTHER_KEYS, second.log())
        for node in self.m.nodes[:2]:
            may_subscribe(node)
        until(lambda: OTHER_KEYS in second.log())


class Reclaimed(Quorum):
    """A node is emptied: the locks that are held are reclaimed there, and the nodes that vote confirm them."""

    def test_what_nodes_that_vote_do_not_have_is_lost(self):
        """Such a node answers as it answers a renewal: no grace period makes up for the missing key."""
        c = self.conn(r := self.start(conf=PATIENT))  # the next renewal is due long after the deadline of this test
        self.assertGreater(c.cmd("LOCK", "a"), 0)
        until(lambda: self.where("a") == [True] * 3)
        for node in self.m.nodes[1:]:
            self.assertEqual(node.cmd("DEL", "a"), 1)
        self.assertEqual(self.m.nodes[0].cmd("FLUSHALL"), "OK")
        until(lambda: r.info("stats")["lost"] == "1")

    def test_what_is_put_anew_and_what_is_released_is_not_mixed_up(self):
        """
        Reclaims gather at the emptied node while other locks turn out to be lost, and errands free these at the same
        node.
        """
        r = self.start(conf=PATIENT.replace("timeout: 10s", "timeout: 500ms"))  # several rounds of reclaims
        c, names = self.conn(r), ["n%03d" % i for i in range(3000)]
        for name in names:
            c.ask("LOCK", name)
        self.assertEqual([c.read() for _ in names].count(None), 0)
        until(lambda: self.m.cmd("EXISTS", *names) == [len(names)] * 3)
        for node in self.m.nodes[1:]:
            self.assertEqual(node.cmd("DEL", *names[1::2]), len(names) // 2)
        self.assertEqual(self.m.nodes[0].cmd("FLUSHALL"), "OK")
        until(lambda: r.info("stats")["lost"] == str(len(names) // 2), 30)

        def settled():
            """all nodes have the keys of the names that are held, and no others"""
            return [self.m.cmd("EXISTS", *names[i::2]) for i in (0, 1)] == [[len(names) // 2] * 3, [0] * 3]
        until(settled, 30)
        self.assertEqual(c.cmd("MUNLOCK", "32", *names[:64:2]), [0] * 32)

    def test_what_a_node_answers_too_late_is_put_there_again(self):
        """The node sleeps in the middle of the reclaims; the next renewal is due long after the end of this test."""
        r = self.start(conf=PATIENT.replace("timeout: 10s", "timeout: 500ms"))
        c, names = self.conn(r), ["n%04d" % i for i in range(3000)]
        for name in names:
            c.ask("LOCK", name)
        self.assertEqual([c.read() for _ in names].count(None), 0)
        until(lambda: self.m.cmd("EXISTS", *names) == [len(names)] * 3)

        def reclaims():
            return int(r.info("stats")["reclaims"])
        for _ in range(20):
            at = reclaims()
            self.assertEqual(self.m.nodes[0].cmd("FLUSHALL"), "OK")
            until(lambda: reclaims() > at + 100, pause=0)
            self.m.pause(0)
            if reclaims() < at + len(names):
                break
            self.m.resume(0)
            until(lambda: self.m.cmd("EXISTS", *names) == [len(names)] * 3)
        self.assertLess(reclaims(), at + len(names))
        until(lambda: reclaims() == at + len(names), 30)  # the other nodes confirm all locks
        until(lambda: nodes(r)[0]["state"] == "down", 30)
        held, freed = names[:-32], names[-32:]
        self.assertEqual(c.cmd("MUNLOCK", "32", *freed), [0] * 32)
        self.m.resume(0)
        until(lambda: self.m.nodes[0].cmd("EXISTS", *held) == len(held), 30)
        until(lambda: r.info("redis")["redis_in_flight"] == "0" and self.m.cmd("EXISTS", *freed) == [0] * 3)
        self.assertEqual(r.info("stats")["renewals"], "0")

    def test_what_a_node_misses_while_it_is_down_is_put_there_again(self):
        """The node lacks the key, and is down when another loss makes the daemon reclaim its locks."""
        r = self.start(conf=PATIENT.replace("timeout: 10s", "timeout: 500ms"))
        c = self.conn(r)
        self.assertGreater(c.cmd("LOCK", "a"), 0)
        until(lambda: self.where("a") == [True] * 3)
        self.m.nodes[0].cmd("FLUSHALL")
        until(lambda: self.voting(r) == 2 and self.where("a") == [True] * 3)
        self.assertEqual(self.m.nodes[0].cmd("DEL", "a"), 1)
        self.m.pause(0)
        until(lambda: nodes(r)[0]["state"] == "down", 30)
        self.m.nodes[1].cmd("FLUSHALL")
        until(lambda: self.voting(r) == 1 and self.m.nodes[1].cmd("EXISTS", "a") == 1)
        self.m.resume(0)
        until(lambda: self.where("a") == [True] * 3, 30)
        self.assertEqual(r.info("stats")["renewals"], "0")
        self.assertEqual(c.cmd("UNLOCK", "a"), 0)
        until(lambda: self.where("a") == [False] * 3)


class TlsNodes(Quorum):
    """Each node has a certificate of its own; the daemon trusts their authority."""

    def setUp(self):
        super().setUp()
        self.ca, self.other_ca = Authority(self.dir), Authority(self.dir, "other_ca")
        self.conf = CONF.replace("redis: {", 'redis: { tls_ca_file: "%s",' % self.ca.pem)

    def place(self, i):
        port = free_port()
        certificate, key = self.ca.certificate("node%d" % i)
        return {"at": "rediss://localhost:%d" % port,
                "args": ("--tls-port", str(port), "--bind", "127.0.0.1", "::1", "--tls-auth-clients", "no",
                         "--tls-cert-file", certificate, "--tls-key-file", key, "--tls-ca-cert-file", self.ca.pem)}

    @staticmethod
    def exchange(node, signed):
        """The node gets another certificate, and all of its connections end."""
        certificate, key = signed.certificate("another")
        assert node.cmd("CONFIG", "SET", "tls-cert-file", certificate, "tls-key-file", key) == "OK"
        node.cmd("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        node.cmd("CLIENT", "KILL", "TYPE", "pubsub")

    def test_a_lock_over_tls_and_a_node_that_goes_and_comes(self):
        r = self.start(place=self.place, conf=self.conf)
        c = self.conn(r)
        self.assertEqual([n["address"] for n in nodes(r)], [node.url for node in self.m.nodes])
        t = c.cmd("LOCK", "a")
        until(lambda: self.where("a") == [True] * 3)
        self.m.nodes[0].kill()
        self.assertGreater(c.cmd("LOCK", "b"), t)
        self.m.again(0)
        until(lambda: self.where("a")[0], 30)  # the key was put there again
        until(lambda: self.voting(r) == 3, 30)
        self.assertEqual(c.cmd("UNLOCK", "a"), 0)
        until(lambda: self.where("a") == [False] * 3)

    def test_a_node_with_a_wrong_certificate_is_missed_until_it_has_another(self):
        r = self.start(place=self.place, conf=self.conf)
        c = self.conn(r)
        t = c.cmd("LOCK", "a")
        self.exchange(self.m.nodes[2], self.other_ca)
        until(lambda: [n["state"] for n in nodes(r)] == ["voting", "voting", "down"])
        until(lambda: "certificate" in r.info("redis")["redis_last_error"])
        self.assertGreater(c.cmd("LOCK", "b"), t)
        self.exchange(self.m.nodes[2], self.ca)
        until(lambda: self.voting(r) == 3, 30)  # the node has its data, so it votes at once
        until(lambda: self.where("a") == self.where("b") == [True] * 3, 30)


@unittest.skipUnless(Cable.allowed(), "no network namespaces here")
class Partition(Quorum):
    """Two nodes are beside the daemons; the third node, and a daemon of its own, are at the other end of a cable."""

    def start(self, **more):
        self.cable = Cable(self)
        port = free_port()
        under, host = self.cable.side(1)
        far = {"at": "redis://%s:%d" % (host, port), "under": under,
               "args": ("--port", str(port), "--bind", host, "--protected-mode", "no")}
        return super().start(place=lambda i: far if i == 2 else {}, under=self.cable.under[0], **more)

    def test_a_holder_with_a_majority_goes_on(self):
        r = self.start(conf=CONF.replace("lease: 3s", "lease: 6s"))
        c = self.conn(r)
        before = [c.cmd("LOCK", name) for name in ("kept", "freed")]
        until(lambda: self.where("kept") == self.where("freed") == [True] * 3)
        self.cable.cut()
        self.assertEqual(c.cmd("UNLOCK", "freed"), 0)
        t = self.granted(self.conn(r), "freed")
        self.assertGreater(t, max(before))
        self.assertGreater(c.cmd("LOCK", "new"), t)
        until(lambda: [n["state"] for n in nodes(r)] == ["voting", "voting", "down"], 30)
        until(lambda: not self.where("kept")[2], 30)  # there its lease is over
        self.assertEqual(c.cmd("LOCK", "kept", "ONCE"), before[0])
        self.cable.mend()
        until(lambda: self.voting(r) == 3, 30)
        until(lambda: self.where("kept") == self.where("new") == [True] * 3, 30)
        self.assertEqual(c.cmd("UNLOCK", "kept"), 0)
        until(lambda: self.where("kept") == [False] * 3)


class Broken(Quorum):
    """BREAK, and the repair of holes, which must not undo a BREAK."""

    CONF = CONF.replace("lease: 3s", "lease: 9s")  # renewed every 3 s

    def states(self, key, until_then):
        """The nodes that had the key, until `until_then` is true: a list of states without repetitions."""
        seen = []

        def noted():
            seen.append(self.where(key))
            return until_then()
        until(noted, 30)
        return [s for i, s in enumerate(seen) if i == 0 or s != seen[i - 1]]

    def test_what_a_majority_has_broken_is_not_written_back(self):
        r, other = self.start(conf=self.CONF), self.daemon(name="other", conf=self.CONF)
        c = self.conn(r)
        t = c.cmd("LOCK", "a")
        until(lambda: self.where("a") == [True] * 3)
        self.m.pause(0)  # BREAK does not reach this node in time
        self.assertEqual(other.cmd("BREAK", "a"), 1)
        until(lambda: r.info("stats")["lost"] == "1")
        self.m.resume(0)
        seen = self.states("a", lambda: self.where("a") == [False] * 3)
        self.assertLessEqual({tuple(s) for s in seen}, {(True, False, False), (False, False, False)})
        self.assertTrue(c.cmd("UNLOCK", "a").startswith("LOST"))
        self.assertGreater(self.granted(self.conn(other), "a"), t)

    def fills(self, renew):
        """
        A renewal finds the hole, and the renewal after it fills the hole; the node answers later than the majority.
        """
        r = self.start(conf=CONF.replace("lease: 3s", "lease: 60s").replace("timeout: 500ms", "timeout: 5s"))
        c = self.conn(r)
        c.cmd("LOCK", "a")
        until(lambda: self.where("a") == [True] * 3)
        self.m.nodes[2].cmd("DEL", "a")
        self.m.pause(2)
        renew(r, c)
        self.m.resume(2)
        self.assertEqual(self.m.nodes[2].cmd("EXISTS", "a"), 0)
        until(lambda: r.info("redis")["redis_in_flight"] == "0")
        r.advance("20s")  # two timeouts are over
        until(lambda: self.where("a") == [True] * 3, 15 / harness.SLOW)  # the renewal after this one is due in 20 s

    def test_a_hole_that_a_renewal_finds(self):
        def renew(r, _):
            r.advance("20s")
            until(lambda: int(r.info("stats")["renewals"]) > 0)
        self.fills(renew)

    def test_a_hole_that_a_client_finds(self):
        self.fills(lambda _, c: self.assertGreater(c.cmd("RENEW", "a", "60s"), 0))

    def test_no_hole_is_filled_while_a_break_may_be_under_way(self):
        """
        Else the first node that a BREAK has reached would have the key again when the BREAK reaches the last node.
        """
        r = self.start(conf=self.CONF.replace("timeout: 500ms", "timeout: 10s"))
        c = self.conn(r)
        c.cmd("LOCK", "a")
        until(lambda: self.where("a") == [True] * 3)

        def renewals():
            return int(r.info("stats")["renewals"])
        self.m.nodes[1].cmd("DEL", "a")
        at = renewals()
        self.assertEqual(self.states("a", lambda: renewals() >= at + 3), [[True, False, True]])
        self.m.nodes[2].cmd("DEL", "a")
        seen = self.states("a", lambda: self.where("a") == [False] * 3)
        self.assertNotIn(True, [s[1] for s in seen])
        self.assertTrue(c.cmd("UNLOCK", "a").startswith("LOST"))

    def test_a_node_in_quarantine_without_the_key_is_not_freed(self):
        """The holder's daemon may be writing the key there anew, and that write counts at once."""
        r = self.start(conf=self.CONF.replace("9s", "60s"))  # a quarantine that does not end during the test
        c = self.conn(r)
        c.cmd("LOCK", "a")
        self.m.nodes[0].cmd("FLUSHALL")
        until(lambda: self.voting(r) == 2 and self.where("a") == [True] * 3)
        self.m.nodes[0].cmd("DEL", "a")
        self.m.pause(2)
        answer = r.cmd("BREAK", "a")
        self.m.resume(2)
        self.assertTrue(str(answer).startswith("UNAVAILABLE"), answer)
        until(lambda: self.voting(r) == 2)
        self.assertEqual(r.cmd("BREAK", "a"), 1)
        self.assertEqual(r.cmd("BREAK", "not-held"), 0)

    def test_a_node_in_quarantine_that_had_the_key_is_not_freed(self):
        """A renewal that finds no key there does not end the hold: the node may have lost the key with its data."""
        conf = self.CONF.replace("9s", "60s")  # a quarantine that does not end during the test
        r, other = self.start(conf=conf), self.daemon(name="other", conf=conf)
        c = self.conn(r)
        c.cmd("LOCK", "a")
        self.m.nodes[0].cmd("FLUSHALL")
        until(lambda: self.voting(r) == self.voting(other) == 2 and self.where("a") == [True] * 3)
        self.m.pause(2)
        answer = other.cmd("BREAK", "a")
        until(lambda: [nodes(daemon)[2]["state"] for daemon in (r, other)] == ["down"] * 2)
        self.m.resume(2)
        until(lambda: self.voting(r) == self.voting(other) == 2)
        self.assertEqual(self.where("a"), [False, False, True])
        self.assertTrue(str(answer).startswith("UNAVAILABLE"), answer)
        self.assertEqual(other.cmd("BREAK", "a"), 1)
        until(lambda: r.info("stats")["lost"] == "1")
        self.assertTrue(c.cmd("UNLOCK", "a").startswith("LOST"))

    def test_what_a_majority_has_not_broken_is(self):
        r, other = self.start(conf=self.CONF), self.daemon(name="other", conf=self.CONF)
        c = self.conn(r)
        t = c.cmd("LOCK", "a")
        until(lambda: self.where("a") == [True] * 3)
        self.m.pause(1, 2)
        answer = other.cmd("BREAK", "a")
        self.assertEqual(self.m.nodes[0].cmd("EXISTS", "a"), 0)
        self.m.resume(1, 2)
        self.assertTrue(str(answer).startswith("UNAVAILABLE"), answer)
        until(lambda: self.where("a") == [True] * 3, 30)
        self.assertEqual(c.cmd("LOCK", "a", "ONCE"), t)
        self.assertEqual(c.cmd("UNLOCK", "a"), 0)


class Filled(Quorum):
    """A hole is filled, and then another node dies: one of three nodes is down, and two have the key."""

    CONF = CONF.replace("lease: 3s", "lease: 600s")

    def looked_up(self):
        """How often each node has looked up a key for a renewal."""
        calls = [re.search(r"cmdstat_hexists:calls=(\d+)", stats) for stats in self.m.cmd("INFO", "commandstats")]
        return [int(found.group(1)) if found else 0 for found in calls]

    def test_the_loss_of_another_node_costs_nothing(self):
        r = self.start(conf=self.CONF)
        c = self.conn(r)
        c.cmd("LOCK", "a")
        until(lambda: self.where("a") == [True] * 3)
        self.m.nodes[0].cmd("DEL", "a")

        def renewal():
            at = int(r.info("stats")["renewals"])
            r.advance("200s")
            until(lambda: int(r.info("stats")["renewals"]) > at and r.info("redis")["redis_in_flight"] == "0")
        renewal()
        renewal()
        until(lambda: self.where("a") == [True] * 3 and r.info("redis")["redis_in_flight"] == "0")
        before = self.looked_up()
        r.advance("1s")  # two timeouts; the next renewal is due in 199 s
        until(lambda: all(now > at for now, at in zip(self.looked_up()[1:], before[1:])) and
              r.info("redis")["redis_in_flight"] == "0")
        self.m.nodes[1].kill()
        for _ in range(2):
            renewal()
        until(lambda: self.where("a")[0::2] == [True] * 2)
        r.advance("300s")
        self.assertEqual(r.info("stats")["lost"], "0")
        self.assertEqual(c.cmd("UNLOCK", "a"), 0)


class BrokenOfFive(Quorum):
    """A BREAK that reaches three nodes of five, and frees the name because one of them lacked the key before."""

    n = 5
    CONF = CONF.replace("lease: 3s", "lease: 60s").replace("timeout: 500ms", "timeout: 5s")

    def renewal(self, r):
        """A renewal that every node has answered."""
        at = int(r.info("stats")["renewals"])
        r.advance("20s")
        until(lambda: int(r.info("stats")["renewals"]) > at and r.info("redis")["redis_in_flight"] == "0")

    def repaired(self):
        """A daemon and the owner of a lock whose hole at the first node was filled a moment ago."""
        r = self.start(conf=self.CONF)
        c = self.conn(r)
        c.cmd("LOCK", "a")
        until(lambda: self.where("a") == [True] * 5)
        self.m.nodes[0].cmd("DEL", "a")
        self.renewal(r)
        self.assertEqual(self.where("a"), [False] + [True] * 4)
        self.renewal(r)
        until(lambda: self.where("a") == [True] * 5 and r.info("redis")["redis_in_flight"] == "0")
        return r, c

    def reached(self, *which):
        """A BREAK of another daemon reaches these nodes only now."""
        for i in which:
            self.m.nodes[i].cmd("DEL", "a")

    def test_a_hole_that_was_filled_behind_a_break_does_not_undo_it(self):
        """The BREAK reached the first node before its hole was filled, and reaches two other nodes after that."""
        r, c = self.repaired()
        self.reached(1, 2)
        r.advance("20s")
        until(lambda: self.where("a") == [False] * 5)
        self.assertTrue(c.cmd("UNLOCK", "a").startswith("LOST"))

    def test_it_counts_when_no_break_can_be_under_way(self):
        r, c = self.repaired()
        self.renewal(r)
        self.reached(1, 2)
        self.renewal(r)
        self.renewal(r)
        self.assertEqual(self.where("a"), [True] * 5)
        self.assertEqual(c.cmd("UNLOCK", "a"), 0)

    def test_a_node_that_a_break_of_this_daemon_does_not_reach_is_rid_of_the_key(self):
        r = self.start(conf=CONF.replace("lease: 3s", "lease: 60s"))
        c = self.conn(r)
        t = c.cmd("LOCK", "a")
        until(lambda: self.where("a") == [True] * 5)
        self.m.pause(3, 4)
        self.assertEqual(r.cmd("BREAK", "a"), 1)
        until(lambda: [n["state"] for n in nodes(r)][3:] == ["down"] * 2)
        self.m.resume(3, 4)
        until(lambda: self.where("a") == [False] * 5)
        self.assertTrue(c.cmd("UNLOCK", "a").startswith("LOST"))
        self.assertGreater(c.cmd("LOCK", "a"), t)


if __name__ == "__main__":
    harness.main()
