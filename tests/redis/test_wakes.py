#!/usr/bin/env python3
"""Rules that choose the waiters of other libraries which an UNLOCK wakes: through the daemon, also after a reload or a
restart.
"""
import os
import signal

import harness
from harness import Case, until

RULES = """rules:
  - { match: "prl/*", kind: simple, key: "lock:{name}", wakes: python-redis-lock }
  - { match: "spring/*", kind: simple, key: "registry:{name}", wakes: spring }
  - { match: "plain/*", kind: simple, key: "lock:{name}" }
"""


class Wakes(Case):
    def setUp(self):
        super().setUp()
        self.r = self.redis()
        self.conf = "state_dir: \"%s\"\n" % os.path.join(self.dir, "state")
        self.d = self.rlockd(redis=self.r.url, conf=self.conf + RULES)

    def signals(self):
        return self.r.cmd("KEYS", "lock-signal:*")

    def test_python_redis_lock(self):
        with self.d.conn() as c:
            for verb in ("UNLOCK", "BREAK"):
                for name in ("prl/x", "plain/x"):
                    self.assertGreater(c.cmd("LOCK", name), 0)
                    c.cmd(verb, name)
                self.assertEqual(self.signals(), ["lock-signal:prl/x"])
                self.assertTrue(0 < self.r.cmd("PTTL", "lock-signal:prl/x") <= 1000)
                self.r.cmd("DEL", "lock-signal:prl/x")

    def test_spring(self):
        with self.d.conn() as c, self.r.conn() as sub:
            sub.cmd("SUBSCRIBE", "registry-channel:registry:spring/x")
            for verb in ("UNLOCK", "BREAK"):
                self.assertGreater(c.cmd("LOCK", "spring/x"), 0)
                c.cmd(verb, "spring/x")
                self.assertEqual(sub.read(), ["message", "registry-channel:registry:spring/x", "registry:spring/x"])

    def test_what_a_killed_daemon_has_left(self):
        """The next process frees the lock, and its rules choose the library that it wakes."""
        with self.d.conn() as c:
            self.assertGreater(c.cmd("LOCK", "prl/x"), 0)
            self.d.kill()
        self.rlockd(redis=self.r.url, name="next", conf=self.conf + RULES)
        until(self.signals)

    def test_a_reload_takes_it(self):
        with self.d.conn() as c:
            self.assertGreater(c.cmd("LOCK", "plain/x"), 0)
            self.d.write_conf(self.conf + RULES.replace('"lock:{name}" }', '"lock:{name}", wakes: python-redis-lock }'))
            self.d.signal(signal.SIGHUP)
            until(lambda: "reloaded" in self.d.log())
            c.cmd("UNLOCK", "plain/x")  # the rule by which it was taken
            self.assertEqual(self.signals(), [])
            self.assertGreater(c.cmd("LOCK", "plain/x"), 0)
            c.cmd("UNLOCK", "plain/x")
            self.assertEqual(self.signals(), ["lock-signal:plain/x"])


if __name__ == "__main__":
    harness.main()
