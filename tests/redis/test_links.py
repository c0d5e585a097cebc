"""test_links.py -- some of the daemon's links to Redis are lost and cannot come back: Redis is at maxclients."""
import random
import re
import signal
import time

import harness
from harness import Case, until


class Maxclients(Case):
    """All links of the daemon in the order in which it made them: of locks, of renewals, of subscriptions."""

    def setUp(self):
        super().setUp()
        self.r = self.redis()
        self.d = self.rlockd(redis=self.r.url, conf="redis: { links: 2 }\nlocks: { lease: 1s }\n")
        self.admin = self.r.conn()
        self.addCleanup(self.admin.close)

    def links(self):
        """The ids of the links, in the order of the daemon."""
        lines = self.admin.cmd("CLIENT", "LIST").splitlines()
        ours = [dict(w.partition("=")[::2] for w in line.split()) for line in lines if "name=rlockd " in line]
        return ours

    def cut(self, which):
        """Ends these links, and no new ones can be made."""
        full = len(self.links()) + 1 - len(which)
        assert self.admin.cmd("CONFIG", "SET", "maxclients", str(full)) == "OK"
        for link in which:
            assert self.admin.cmd("CLIENT", "KILL", "ID", link["id"]) == 1

    def test_renewals_go_by_any_link(self):
        """Whichever other link is lost: held locks stay held, and new grants are renewed."""
        for away in range(4):
            with self.subTest(away=away):
                links = sorted(self.links(), key=lambda l: int(l["id"]))
                self.assertEqual(len(links), 4)
                with self.d.conn() as c:
                    before = [n for n in ("a%d" % i for i in range(20)) if c.cmd("LOCK", n, "NOWAIT") > 0]
                    self.assertEqual(len(before), 20)
                    self.cut([links[0]])  # the oldest one: each of the four in turn
                    until(lambda: len(self.links()) == 3)
                    granted = ["b%d" % i for i in range(20)]
                    for name in granted:  # also on the link on which the name was granted
                        self.assertGreater(c.cmd("LOCK", name, "WAIT", "5s"), 0)
                    self.assertEqual(self.d.info("redis")["redis_state"], "up")
                    time.sleep(1.6)  # longer than the lease, for a renewal
                    held = {row["name"] for row in c.maps("LOCKS", "*") if row["state"] == "held"}
                    self.assertEqual(sorted(set(before + granted) - held), [])
                    self.assertEqual(self.admin.cmd("CONFIG", "SET", "maxclients", "1000"), "OK")
                    until(lambda: len(self.links()) == 4)
                    until(lambda: "redis_links_up:4" in c.cmd("INFO", "redis"))
                    self.assertEqual([c.cmd("UNLOCK", n) for n in before + granted], [0] * len(before + granted))

    def test_a_refusal_names_no_lost_link_while_another_serves(self):
        """Redis is late, for names of both links of locks."""
        self.cut([min(self.links(), key=lambda l: int(l["id"]))])
        until(lambda: self.d.info("redis")["redis_links_away"] == "locks")
        with self.d.conn() as c:
            for i in range(20):  # all names have moved to a link that is up
                self.assertGreater(c.cmd("LOCK", "a%d" % i, "WAIT", "5s"), 0)
            self.r.signal(signal.SIGSTOP)
            self.addCleanup(self.r.signal, signal.SIGCONT)
            for i in range(20):
                c.ask("LOCK", "b%d" % i, "NOWAIT")
            for i in range(20):
                self.assertRegex(c.read(), r"^UNAVAILABLE Redis cannot answer in time: calls in flight: [1-9]")

    def test_locks_go_by_any_link(self):
        """Two of the three links that can serve are lost, and stay lost: released locks are freed in Redis at once."""
        served, tries = set(), 0
        # which link serves is reported only when it is lost, so the test tries until both cases occurred
        while served != {"locks", "locks,renewals"}:
            tries += 1
            self.assertLess(tries, 60)
            with self.d.conn() as c, self.d.conn() as other:
                for i in range(20):
                    self.assertGreater(c.cmd("LOCK", "a%d" % i, "WAIT", "5s"), 0)
                self.cut(random.sample([l for l in self.links() if l["sub"] == "0"], 2))
                until(lambda: self.d.info("redis")["redis_links_up"] == "2")
                away = self.d.info("redis")["redis_links_away"]
                if away not in served:
                    self.serve(c, other)
                served.add(away)
                self.assertEqual(self.admin.cmd("CONFIG", "SET", "maxclients", "1000"), "OK")
                until(lambda: self.d.info("redis")["redis_links_up"] == "4")
                self.assertEqual(self.d.info("redis")["redis_links_away"], "")
            until(lambda: len(self.links()) == 4 and any(l["sub"] != "0" for l in self.links()))

    def serve(self, c, other):
        """By the one link that is left."""
        info = self.d.info("redis")
        self.assertEqual(info["redis_state"], "up")
        self.assertNotEqual(info["redis_last_error"], "")
        for i in range(10):
            self.assertEqual(c.cmd("UNLOCK", "a%d" % i), 0)
        until(lambda: not any(self.admin.cmd("EXISTS", "a%d" % i) for i in range(10)))
        c.close()  # the locks of its session are given back as well
        until(lambda: not any(self.admin.cmd("EXISTS", "a%d" % i) for i in range(10, 20)))
        for i in range(20):
            self.assertGreater(other.cmd("LOCK", "a%d" % i, "WAIT", "5s"), 0)
        self.assertEqual(self.d.info("redis")["redis_links_up"], "2")
        self.assertEqual([other.cmd("UNLOCK", "a%d" % i) for i in range(20)], [0] * 20)

    def test_the_reason_and_the_end_are_logged_once(self):
        for away in range(4):
            with self.subTest(away=away):
                reported = len(self.d.log())
                links = sorted(self.links(), key=lambda l: int(l["id"]))
                self.cut([links[0]])  # the oldest one: each of the four in turn
                log = lambda: self.d.log()[reported:]
                until(lambda: "max number of clients reached" in log())
                self.assertIn(self.r.url.replace("unix:", ""), log())
                time.sleep(1)  # long enough for several attempts
                lines = [l for l in log().splitlines() if "max number of clients reached" in l]
                self.assertEqual(len(lines), 1, log())
                self.assertEqual(self.admin.cmd("CONFIG", "SET", "maxclients", "1000"), "OK")
                until(lambda: re.search(r"redis (link )?up ", log()))
                until(lambda: len(self.links()) == 4)


if __name__ == "__main__":
    harness.main()
