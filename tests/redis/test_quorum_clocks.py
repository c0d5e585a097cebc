#!/usr/bin/env python3
"""The token clocks of a quorum's nodes: a name does not move the clock of an unrelated name, in any order of votes."""
import harness
from harness import free_port, until
from quorums import CLOCKS, Masters, clock_of
from scripted import CLOCK, EPOCH, GONE, LEASE, ME, OF_QUORUM, OK, OPEN, YOU, Scripted, embed, value_of
from test_quorum import PATIENT, Quorum
from test_sentinel import nodes
from test_tls import Proxy

KINDS = ("reentrant", "simple")
ADMIT = embed("quorum")


def two_parts():
    """Two names with clocks of their own, and a third name with the clock of the first."""
    a, b = "a", "b"
    assert clock_of(a) != clock_of(b)
    return a, b, next(c for c in ("c%d" % i for i in range(10000)) if clock_of(c) == clock_of(a))


class Orders(Quorum):
    """Each daemon reaches one of two nodes by a proxy, so that their votes arrive there in different orders."""

    def place(self, i):
        port = free_port()
        return {"at": "redis://127.0.0.1:%d" % port, "args": ("--port", str(port))}

    def reaches(self, i):
        """A daemon and its proxy to node i."""
        node = self.m.nodes[i]
        way = Proxy(int(node.url.rsplit(":", 1)[1]))
        self.addCleanup(way.close)
        urls = [n.url for n in self.m.nodes]
        urls[i] = "redis://127.0.0.1:%d" % way.port
        r = self.rlockd(redis="quorum:" + ",".join(urls), conf=PATIENT, name="d%d" % i)
        until(lambda: self.voting(r) == 3)
        return r, way

    def second_rounds(self, *daemons):
        return sum(int(n["second_rounds"]) for r in daemons for n in nodes(r))

    def test_votes_for_unrelated_names_in_another_order_need_no_second_round(self):
        a, b, _ = two_parts()
        self.m = Masters(self, 3, self.place)
        (one, one_way), (two, two_way) = self.reaches(0), self.reaches(1)
        self.m.nodes[2].kill()
        until(lambda: self.voting(one) == self.voting(two) == 2)
        one_way.hold()
        two_way.hold()
        first, second = self.conn(one), self.conn(two)
        first.ask("LOCK", a)
        until(lambda: self.m.nodes[1].cmd("EXISTS", a) == 1)
        second.ask("LOCK", b)
        until(lambda: self.m.nodes[0].cmd("EXISTS", b) == 1)
        one_way.go_on()
        two_way.go_on()
        tokens = [first.read(), second.read()]
        self.assertEqual([type(t) for t in tokens], [int, int])
        self.assertEqual(self.second_rounds(one, two), 0)


class Clocks(Scripted):
    def votes(self, kind, verb, names, proposed, reserve=0, owner=ME, lease=LEASE):
        """
        One call of the form for a quorum; the rows of the answer: outcome, a, b of each name, and the last element.
        """
        holder = owner if kind == "reentrant" else value_of(owner)
        terms, own = {"acquire": ([lease, 1, 0], [holder]), "renew": ([lease, 0], [holder])}[verb]
        if kind == "simple" and verb == "acquire":
            terms = [lease]
        reply = self.c.cmd("EVAL", OF_QUORUM[kind, verb], 2 + len(names), CLOCK, EPOCH, *names, 0, proposed, OPEN,
                           reserve, *terms, *own * len(names))
        rows = [reply[i:i + 4] for i in range(1, len(reply) - len(reply) % 4, 4)]
        return sum(([tuple(row[:3])] * row[3] for row in rows), []), len(reply) % 4 == 2

    def tokens(self, *args, **more):
        rows, denied = self.votes(*args, **more)
        self.assertEqual({row[0] for row in rows}, {OK})
        self.assertFalse(denied)
        return [row[1] for row in rows]

    def clock(self, key):
        return int(self.c.cmd("GET", clock_of(key)) or 0)

    def test_a_vote_moves_the_clock_of_its_part_alone(self):
        a, b, _ = two_parts()
        at = self.now_us()
        for kind in KINDS:
            self.flush()
            self.assertEqual(self.tokens(kind, "acquire", [a], at + 500, reserve=64), [at + 500])
            self.assertEqual(self.tokens(kind, "acquire", [b], at, reserve=64), [at])
            self.assertEqual((self.clock(a), self.clock(b)), (at + 564, at + 64))
            self.assertEqual(len(self.c.cmd("KEYS", "rlock:clock*")), 2)

    def test_names_of_all_clocks(self):
        """
        Each of the 64 is the clock of some name, and Redis uses the clock that the tests and the simulator compute.
        """
        names = ["n%d" % i for i in range(1000)]
        self.assertEqual({clock_of(n) for n in names}, set(CLOCKS))
        at = self.now_us()
        for i, name in enumerate(names):
            self.tokens("simple", "acquire", [name], at + 1000 * i)
            self.assertEqual(self.clock(name), at + 1000 * i)

    def test_a_token_is_above_the_clock(self):
        a, _, same = two_parts()
        at = self.now_us()
        for kind in KINDS:
            self.flush()
            self.c.cmd("SET", clock_of(a), at + 10 ** 9)
            self.assertEqual(self.tokens(kind, "acquire", [a], at, reserve=64), [at + 10 ** 9 + 1])
            self.assertEqual(self.tokens(kind, "acquire", [same], at, reserve=64), [at + 10 ** 9 + 66])
            self.assertEqual(self.clock(a), at + 10 ** 9 + 66 + 64)

    def test_names_of_a_call_get_what_was_proposed_for_each(self):
        """As in separate calls, so nodes that group the names differently give the same tokens."""
        at = self.now_us()
        for kind in KINDS:
            for n in (1, 2, 4, 5, 50):
                self.flush()
                names = ["n%d" % i for i in range(n)]
                proposed = [at + 300 * (i % 7) for i in range(n)]
                words = " ".join(map(str, proposed))
                self.assertEqual(self.tokens(kind, "acquire", names, words, reserve=64), proposed)
                self.assertEqual(self.c.cmd("EXISTS", *names), n)
                for clock in set(map(clock_of, names)):
                    want = max(p + 64 for p, name in zip(proposed, names) if clock_of(name) == clock)
                    self.assertEqual(int(self.c.cmd("GET", clock)), want)
                self.flush()
                self.assertEqual(self.tokens(kind, "acquire", names, at, reserve=64), [at] * n)

    def test_one_of_many_is_otherwise(self):
        names = ["n%d" % i for i in range(50)]
        at = self.now_us()
        self.c.cmd("SET", clock_of("n7"), at + 10 ** 9)
        given = dict(zip(names, self.tokens("reentrant", "acquire", names, at)))
        ahead = [n for n in names if clock_of(n) == clock_of("n7")]
        self.assertEqual([n for n in names if given[n] == at + 10 ** 9 + 1], ahead)
        self.assertEqual({given[n] for n in names if n not in ahead}, {at})
        self.assertTrue(all(LEASE - 5000 < self.c.cmd("PTTL", n) <= LEASE for n in names))
        self.flush()
        self.c.cmd("HSET", "n20", YOU, 1)
        self.c.cmd("PEXPIRE", "n20", LEASE)
        rows, _ = self.votes("reentrant", "acquire", names, at)
        self.assertEqual([n for n, row in zip(names, rows) if row[0] != OK], ["n20"])
        self.flush()  # two owners of one name in a wide call: the second finds it taken
        reply = self.c.cmd("EVAL", OF_QUORUM["reentrant", "acquire"], 8, CLOCK, EPOCH, "a", "b", "c", "d", "e", "b",
                           0, at, OPEN, 0, LEASE, 1, 0, *[ME] * 5, YOU)
        self.assertEqual((reply[1:5], reply[5], reply[8]), ([OK, at, reply[3], 5], 2, 1))

    def test_no_reserve_ahead_of_time(self):
        a, b, _ = two_parts()
        at = self.now_us()
        for ahead, denied in ((1000, False), (500 * 1000, True), (10 ** 12, False)):
            self.flush()
            self.c.cmd("SET", clock_of(b), at + ahead)
            rows, was_denied = self.votes("simple", "acquire", [a, b], at, reserve=64)
            self.assertEqual((rows[0][1], rows[1][1], was_denied), (at, at + ahead + 1, denied))
            self.assertEqual(self.clock(b), at + ahead + 1 + (0 if denied else 64))
            self.assertEqual(self.clock(a), at + 64)

    def test_what_is_no_token_is_begun_anew(self):
        at = self.now_us()
        for wrong in (str(2 ** 53), "1e300", "nan", "-5", "x", None):
            self.flush()
            self.c.cmd(*(("SET", clock_of("a"), wrong) if wrong else ("RPUSH", clock_of("a"), "x")))
            self.assertEqual(self.tokens("simple", "acquire", ["a"], at, reserve=64), [at])
            self.assertEqual(self.clock("a"), at + 64)
            self.c.cmd("DEL", clock_of("a"))
            self.c.cmd(*(("SET", clock_of("a"), wrong) if wrong else ("RPUSH", clock_of("a"), "x")))
            self.assertEqual(self.tokens("simple", "renew", ["a"], at + 5), [0])
            self.assertEqual(self.clock("a"), at + 5)

    def test_a_write_back_raises_the_clock_of_a_name_that_is_held(self):
        a, b, same = two_parts()
        at = self.now_us()
        for kind in KINDS:
            self.flush()
            self.tokens(kind, "acquire", [a], at)
            self.tokens(kind, "acquire", [b], at, owner=YOU)
            rows, _ = self.votes(kind, "renew", [a, b, same], at + 700)
            self.assertEqual([row[0] for row in rows], [OK, GONE, GONE])
            self.assertEqual((self.clock(a), self.clock(b)), (at + 700, at))
            self.assertEqual(self.tokens(kind, "renew", [a], at + 600), [0])  # the clock never goes back
            self.assertEqual(self.tokens(kind, "renew", [a], 0), [0])
            self.assertEqual(self.clock(a), at + 700)
            wide = ["n%d" % i for i in range(50)]
            self.tokens(kind, "acquire", wide, at)
            self.tokens(kind, "renew", wide, at + 900)
            self.assertEqual({self.clock(n) for n in wide}, {at + 900})

    def test_break_draws_from_the_clock_of_the_name(self):
        a, b, _ = two_parts()
        at = self.now_us()
        self.c.cmd("SET", clock_of(a), at + 10 ** 9)
        reply = self.c.cmd("EVAL", OF_QUORUM["reentrant", "clear"], 4, CLOCK, EPOCH, a, b, 0, at, OPEN, 0, "x", 1,
                           "ch:a", "ch:b")
        self.assertEqual(reply[1:], [GONE, at + 10 ** 9 + 1, 0, 1, GONE, at, 0, 1])
        self.assertEqual((self.clock(a), self.clock(b)), (at + 10 ** 9 + 1, at))

    # ---- scripts/quorum.lua ----

    def ask_node(self, epoch="", token=0):
        return self.c.cmd("EVAL", ADMIT, 3, CLOCK, EPOCH, "rlock:quorum", epoch, token)

    def all_clocks(self):
        return [int(t or 0) for t in self.c.cmd("MGET", *CLOCKS)]

    def test_the_highest_clock_is_reported(self):
        at = self.now_us()
        self.assertEqual(self.ask_node(), [OPEN, 0, 0])
        for clock in (CLOCKS[0], CLOCKS[63], CLOCKS[17], CLOCK):
            self.flush()
            self.c.cmd("SET", clock, at)
            self.assertEqual(self.ask_node(), [OPEN, 0, at])
        self.flush()
        for wrong in (str(2 ** 53), "1e300", "nan", "-5", "x"):
            self.c.cmd("SET", CLOCKS[5], wrong)
            self.assertEqual(self.ask_node(), [OPEN, 0, 0])
        self.c.cmd("DEL", CLOCKS[5])
        self.c.cmd("RPUSH", CLOCKS[5], "x")
        self.assertEqual(self.ask_node(), [OPEN, 0, 0])

    def test_admission_raises_every_clock(self):
        at = self.now_us()
        self.c.cmd("SET", CLOCKS[9], at + 50)
        self.assertEqual(self.ask_node("1 0123456789abcdef", at), [OPEN, 0, at + 50])  # another epoch
        self.assertEqual(self.c.cmd("EXISTS", *CLOCKS), 1)
        self.assertEqual(self.ask_node(OPEN, at), [OPEN, 1, at + 50])
        self.assertEqual(self.all_clocks(), [at + 50 if i == 9 else at for i in range(64)])
        self.assertEqual(self.ask_node(), [OPEN, 1, at + 50])

    def test_what_a_registered_daemon_knew_counts(self):
        """
        rlock:clock is the floor of membership.lua. Later votes are above it once the daemon has read it, also if the
        node was admitted before.
        """
        at = self.now_us()
        self.ask_node(OPEN, at)
        self.c.cmd("SET", CLOCK, at + 90)
        self.assertEqual(self.ask_node(), [OPEN, 1, at + 90])
        self.assertEqual(self.all_clocks(), [at + 90] * 64)
        self.flush()
        self.c.cmd("SET", CLOCK, at + 90)
        self.ask_node(OPEN, at)
        self.assertEqual(self.all_clocks(), [at + 90] * 64)

    def test_a_full_node_is_not_admitted_and_is_looked_at(self):
        at = self.now_us()
        self.c.cmd("SET", CLOCK, at)
        self.full()
        self.assertIn("OOM", str(self.ask_node(OPEN, at)))
        self.assertEqual(self.ask_node(), [OPEN, 0, at])
        self.assertEqual(self.all_clocks(), [at] * 64)
        self.full(False)

if __name__ == "__main__":
    harness.main()
