#!/usr/bin/env python3
"""A daemon in front of a cluster, with the same behaviour as in front of one Redis: restarts with a state directory,
the commands of admins, stock clients of Redis, TLS.
"""
import os
import signal

import harness
from certificates import Authority
from clusters import Case, Cluster, slot_of
from harness import RError, until

# The script by which npm warlock unlocks.
WARLOCK = """--
-- Delete a key if content is equal
--
-- KEYS[1]   - key
-- ARGV[1]   - content
local key     = KEYS[1]
local content = ARGV[1]

local value = redis.call('get', key)

if value == content then
  return redis.call('del', key);
end

return 0
"""
NAMES = ["name%d" % i for i in range(12)]


class Names(Case):
    def taken(self, names):
        """How many of the keys are there."""
        return sum(self.c.cmd(name, "EXISTS", name) for name in names)


class Restart(Names):
    def start(self, name):
        return self.daemon(name, self.CONF + 'state_dir: "%s"\n' % os.path.join(self.dir, "state"))

    def test_killed(self):
        """The locks of sessions, in many slots, are freed; named owners keep their locks."""
        d = self.start("first")
        c = self.conn(d)
        mine, named = NAMES[:6], NAMES[6:]
        tokens = {}
        for name in mine:
            tokens[name] = c.cmd("LOCK", name)
        for name in named:
            tokens[name] = c.cmd("LOCK", name, "OWNER", "w")
        self.assertTrue(all(isinstance(t, int) for t in tokens.values()), tokens)
        self.assertGreater(len({slot_of(name) for name in NAMES}), 10)
        d.kill()
        d = self.start("second")
        until(lambda: self.taken(mine) == 0)
        c, other = self.conn(d), self.conn(self.daemon("other"))
        for name in named:
            self.assertEqual(c.cmd("LOCK", name, "OWNER", "w", "ONCE", "WAIT", "5s"), tokens[name], d.log())
            self.assertIsNone(other.cmd("LOCK", name, "WAIT", "100ms"))
        for name in mine:
            self.assertGreater(other.cmd("LOCK", name, "WAIT", "5s"), tokens[name])
        self.assertEqual([c.cmd("UNLOCK", name, "OWNER", "w") for name in named], [0] * len(named))
        until(lambda: self.taken(named) == 0)

    def test_killed_while_masters_lose_their_data(self):
        """The next process reclaims its locks, and no other owner is granted them meanwhile."""
        d = self.start("first")
        other = self.conn(self.daemon("other"))
        with d.conn() as c:
            tokens = {name: c.cmd("LOCK", name, "OWNER", "w") for name in NAMES}
        for name in NAMES:
            self.assertIsNone(other.cmd("LOCK", name, "WAIT", "100ms"))
        d.kill()
        self.c.owner(slot_of(NAMES[0])).cmd("FLUSHALL")
        for name in NAMES:
            self.assertNotIsInstance(other.cmd("LOCK", name, "WAIT", "50ms"), int)
        c = self.conn(self.start("second"))
        for name in NAMES:
            self.assertEqual(c.cmd("LOCK", name, "OWNER", "w", "ONCE", "WAIT", "10s"), tokens[name])
            self.assertNotIsInstance(other.cmd("LOCK", name, "WAIT", "50ms"), int)


class Commands(Names):
    def test_of_admins(self):
        a, b = self.daemon("a"), self.daemon("b")
        holder, other = self.conn(a), self.conn(b)
        tokens = {name: holder.cmd("LOCK", name) for name in NAMES}
        self.assertEqual(sorted(m["name"] for m in holder.maps("LOCKS")), sorted(NAMES))
        for name in NAMES:
            info = other.map("LOCKINFO", name)
            self.assertEqual(info["redis_owner"].split(":")[0], a.info("server")["run_id"])
            self.assertEqual(self.conn(a).map("LOCKINFO", name)["token"], tokens[name])
        for name in NAMES[:6]:  # slots that b has not used yet
            self.assertNotIsInstance(other.cmd("BREAK", name), RError)
        until(lambda: self.taken(NAMES[:6]) == 0)
        for name in NAMES[:6]:
            self.assertGreater(other.cmd("LOCK", name, "WAIT", "5s"), tokens[name])
            self.assertIn("LOST", str(holder.cmd("UNLOCK", name)))

    def test_drain(self):
        d = self.daemon()
        c = self.conn(d)
        for name in NAMES:
            self.assertIsInstance(c.cmd("LOCK", name), int)
        d.signal(signal.SIGTERM)
        until(lambda: "draining" in d.log())
        self.assertEqual([c.cmd("UNLOCK", name) for name in NAMES], [0] * len(NAMES))
        self.assertEqual(d.wait(), 0)
        self.assertEqual(self.taken(NAMES), 0)

    def test_as_redis(self):
        """The recipe of clients that use a Redis for locks."""
        d = self.daemon()
        one, two = self.conn(d), self.conn(self.daemon("b"))
        for name in NAMES[:4]:
            self.assertEqual(one.cmd("SET", name, "v1", "NX", "PX", "30000"), "OK")
            self.assertIsNone(two.cmd("SET", name, "v2", "NX", "PX", "30000"))
            self.assertEqual(one.cmd("GET", name), "v1")
            self.assertEqual(self.taken([name]), 1)
            self.assertEqual(two.cmd("EVAL", WARLOCK, "1", name, "v2"), 0)
            self.assertEqual(one.cmd("EVAL", WARLOCK, "1", name, "v1"), 1)
            self.assertEqual(two.cmd("SET", name, "v2", "NX", "PX", "30000"), "OK")


class Tls(harness.Case):
    def test_all_with_tls(self):
        """A replica takes over with TLS, too."""
        ca = Authority(self.dir)
        cluster = Cluster(self.dir, self._keep, tls=(*ca.certificate("node"), ca.pem))
        conf = 'redis: { timeout: 2s, tls_ca_file: "%s" }\n' % ca.pem
        a, b = (self.rlockd(redis=cluster.url(), conf=conf, name=name) for name in "ab")
        holder, other = self.conn(a), self.conn(b)
        tokens = {name: holder.cmd("LOCK", name) for name in NAMES[:6]}
        self.assertTrue(all(isinstance(t, int) for t in tokens.values()), tokens)
        self.assertIn("TLSv1", a.info("redis")["redis_tls_version"])
        old = cluster.owner(slot_of(NAMES[0]))
        old.kill()
        until(lambda: (cluster.owner(slot_of(NAMES[0])) or old).id != old.id, 30)
        other.ask("LOCK", NAMES[0], "WAIT", "60s")
        until(lambda: a.info("stats")["reclaims"] != "0", 20)
        self.assertEqual([holder.cmd("LOCK", name, "ONCE", "WAIT", "10s") for name in tokens], list(tokens.values()))
        self.assertTrue(other.quiet())
        self.assertEqual(holder.cmd("UNLOCK", NAMES[0]), 0)
        until(lambda: not other.quiet(), 20)
        self.assertGreater(other.read(), tokens[NAMES[0]])


if __name__ == "__main__":
    harness.main()
