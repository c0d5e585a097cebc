#!/usr/bin/env python3
"""Clients reach locks only: the data of an application in the same Redis is the same before and after every command of
every kind, and no reply shows it.
"""
import os

import harness
from harness import Case, RError, until

KINDS = ("reentrant", "simple", "counter", "fair", "rw", "semaphore", "fenced")
ELSE = "8743c9c0-95b2-4ea3-8a3d-3a3a3a3a3a3a"  # a client of Redisson
OWNER = ELSE + ":91"
UUID, HEX, PLAIN64, URL64 = ELSE, "0123456789abcdef" * 2, "QUJDREVGR0hJSktMTU5PUA==", "QUJDREVGR0hJSktMTU5PUA"
SECRET = "s3cr3t"
LIFE = 3600000
NOW = 1763701200123
PERMIT = "0123456789abcdef"

# Data of an application, and data that differs from a lock in one respect only.
FOREIGN = {
    "text": [("SET", SECRET)],
    "empty": [("SET", "")],
    "json": [("SET", '{"user":"%s"}' % SECRET)],
    "long": [("SET", SECRET * 1000)],
    "number": [("SET", 41)],
    "below zero": [("SET", "-7")],
    "uuid": [("SET", UUID)],
    "hex32": [("SET", HEX)],
    "base64": [("SET", PLAIN64)],
    "base64url": [("SET", URL64)],
    "hash": [("HSET", "name", SECRET, "age", 41)],
    "counts": [("HSET", "41", 1)],
    "owner's text": [("HSET", OWNER, SECRET)],
    "two owners": [("HSET", OWNER, 1, ELSE + ":92", 1)],
    "owner and more": [("HSET", OWNER, 1, "name", SECRET)],
    "mode alone": [("HSET", "mode", "read")],
    "file": [("HSET", "mode", "read", "path", SECRET)],
    "device": [("HSET", "mode", "write", "path", SECRET)],
    "readers and more": [("HSET", "mode", "read", OWNER, 1, "path", SECRET)],
    "reader's text": [("HSET", "mode", "read", OWNER, SECRET)],
    "large file": [("HSET", "mode", "read", *[x for i in range(600) for x in ("f%d" % i, SECRET)])],
    "list": [("RPUSH", SECRET, "b")],
    "set": [("SADD", SECRET, "b")],
    "zset": [("ZADD", 1, SECRET, 2, "b")],
    "zset of permits that never were": [("ZADD", 1, PERMIT)],
    "stream": [("XADD", "1-1", "f", SECRET)],
}
# Names that the operator has declared by a rule; their data has the form of a lock of that kind.
DECLARED = {
    "semaphore": ("number", "below zero"),
    "counter": ("number",),
    "simple": ("uuid",),
}
# Without an expiry these are locks of other clients that have died, or of rlockd.
CONF = "deadlock_delay: 0\nrules:\n" + "".join(
    "  - { match: 'rule/%s/*', kind: %s, limit: 3 }\n" % (k, k) for k in KINDS) + (
    "  - { match: 'wait/*', kind: simple, foreign: wait }\n")


class Deputy(Case):
    def setUp(self):
        super().setUp()
        self.r = self.redis()
        self.d = self.rlockd(redis=self.r.url, conf=CONF)
        self.k = self.conn(self.r)
        self.c = self.conn(self.d)

    def space(self):
        """All data of Redis, except rlockd's own."""
        keys = sorted(k for k in self.k.cmd("KEYS", "*") if not k.startswith("rlock:"))
        return {k: (self.k.cmd("DUMP", k), self.k.cmd("PEXPIRETIME", k)) for k in keys}

    def put(self, key, what, lives):
        self.k.cmd("DEL", key)
        for words in FOREIGN[what]:
            self.k.cmd(words[0], key, *words[1:])
        if lives:
            self.k.cmd("PEXPIRE", key, LIFE)

    def commands(self, name, kind, by_rule):
        """Every command that takes a name."""
        how = [] if by_rule else ["KIND", kind]
        more = ["LIMIT", 3] if kind == "semaphore" else []
        if kind == "rw":  # first: they concern the taken lock, once the daemon has a record of it
            yield ("LOCK", name, "NOWAIT", "SHARED", *how)
        yield ("LOCK", name, "NOWAIT", *how, *more)
        yield ("LOCK", name, "WAIT", "3ms", *how, *more, "LEASE", "1m")
        yield ("MLOCK", 1, name, "NOWAIT", *how, *more)
        yield ("RENEW", name, "10s")
        yield ("UNLOCK", name)
        yield ("MUNLOCK", 1, name)
        yield ("UNLOCK", name, "TOKEN", 7)
        yield ("BREAK", name)
        yield ("GET", name)
        yield ("LOCKINFO", name)
        yield ("INFO", "lock", name)
        yield ("SET", name, "v", "NX", "PX", 30000)
        yield ("SET", name, UUID, "NX")
        yield ("DEL", name)
        yield ("EVALSHA", "c3f8721cbb97f72bc19e972846bd7aaf91901658", 1, name, UUID)
        yield ("EVALSHA", "a4e8783852e6b949f9ef3a97212805108459a890", 1, name, UUID, 1000, 1)
        yield ("EVALSHA", "96da70f7716f27d278a5218544df37fd8b0a5e4c", 1, name, HEX, 1000)
        yield ("EVALSHA", "aed6f382e410db8ba7926d4e5e9aab410bf2a78a", 1, name, HEX, 1000)
        yield ("EVALSHA", "e4612211c9f8f51c257e26e056b0a654b3187242", 1, name, HEX)

    def shows_nothing(self, reply, command):
        text = repr(reply)
        for secret in (SECRET, UUID, HEX, PLAIN64, URL64, "-7"):
            self.assertNotIn(secret, text, command)

    def try_all(self, name, kind, by_rule):
        was = self.space()
        for command in self.commands(name, kind, by_rule):
            reply = self.c.cmd(*command)
            now = self.space()
            self.assertEqual({k: now.get(k) for k in was}, was, (command, reply))
            self.shows_nothing(reply, command)
            if command[0] in ("LOCK", "MLOCK", "SET"):
                self.assertTrue(reply is None or str(reply).startswith(("KIND ", "DEADLOCK ")), (command, reply))
        until(lambda: self.space() == was)  # nor is a place in a queue left

    def test_the_key_space_is_the_same_whatever_kind_a_client_says(self):
        for kind in KINDS:
            for what in FOREIGN:
                for lives in (False, True):
                    with self.subTest(kind, what=what, lives=lives):
                        name = "app/%s/%s/%d" % (kind, what, lives)  # each is new to the daemon
                        self.put(name, what, lives)
                        self.try_all(name, kind, False)
                        self.k.cmd("DEL", name)

    def test_the_key_space_is_the_same_whatever_kind_a_rule_says(self):
        for kind in KINDS:
            for what in FOREIGN:
                for lives in (False, True):
                    if what in DECLARED.get(kind, ()):
                        continue
                    with self.subTest(kind, what=what, lives=lives):
                        name = "rule/%s/%s/%d" % (kind, what, lives)
                        self.put(name, what, lives)
                        self.try_all(name, kind, True)
                        self.k.cmd("DEL", name)

    def test_keys_beside_a_lock(self):
        """Data of an application under the name of a queue, a counter, or a set of permits."""
        beside = {"fair": ("redisson_lock_queue:{n}", "redisson_lock_timeout:{n}"),
                  "fenced": ("redisson_lock_token:{n}",), "semaphore": ("{n}:timeout", "{n}:rlockd")}
        other = self.conn(self.d)
        for kind, keys in beside.items():
            for key in keys:
                for what in FOREIGN:
                    for lives in (False, True):
                        if kind == "fenced" and what == "number" and not lives:
                            continue  # that key is Redisson's counter
                        with self.subTest(key, what=what, lives=lives):
                            self.k.cmd("DEL", "n", *keys)
                            self.put(key, what, lives)
                            was = self.space()
                            how = ["KIND", kind] + (["LIMIT", 1] if kind == "semaphore" else [])
                            granted = self.c.cmd("LOCK", "n", "NOWAIT", *how)
                            if isinstance(granted, int):
                                other.cmd("LOCK", "n", "WAIT", "5ms", *how)
                                other.ask("LOCK", "n", "WAIT", "1s", *how)
                                self.assertEqual(self.c.cmd("UNLOCK", "n"), 0)
                                self.assertIsInstance(other.read(), int)
                                self.assertEqual(other.cmd("RENEW", "n", "10s") // 1000, 9)
                                self.assertEqual(self.c.cmd("BREAK", "n"), 1)
                                self.assertTrue(other.cmd("UNLOCK", "n").startswith("LOST "))
                            else:
                                self.assertTrue(granted.startswith("KIND "))
                                self.assertIn(self.c.cmd("BREAK", "n"), (0, "KIND the key in Redis is of another kind"))
                            until(lambda: self.space() == was, 1)

    def test_a_fenced_lock_leaves_a_lock_of_that_name_alone(self):
        """Else the lock whose key is used as the counter would lose its expiry, and be held for ever."""
        name = "redisson_lock_token:{f}"
        self.assertEqual(self.k.cmd("SET", name, 5, "PX", LIFE), "OK")
        was = self.space()
        self.assertTrue(self.c.cmd("LOCK", "f", "KIND", "fenced", "NOWAIT").startswith("KIND "))
        self.assertEqual(self.space(), was)

    def test_a_semaphore_that_a_client_says_needs_proof(self):
        self.k.cmd("SET", "pool", 3)  # Redisson's trySetPermits, or a stock of goods
        how = ["KIND", "semaphore", "LIMIT", 3, "NOWAIT"]
        self.assertTrue(self.c.cmd("LOCK", "pool", *how).startswith("KIND "))
        self.k.cmd("ZADD", "{pool}:timeout", NOW * 2, PERMIT)
        self.k.cmd("SET", "pool", 2)
        self.assertIsInstance(self.c.cmd("LOCK", "pool", *how), int)
        self.assertEqual(self.k.cmd("GET", "pool"), "1")
        self.assertEqual(self.c.cmd("UNLOCK", "pool"), 0)
        self.k.cmd("SET", "rule/semaphore/pool", 1)  # a number under a name that the rules declare is no stock of goods
        self.assertIsInstance(self.c.cmd("LOCK", "rule/semaphore/pool", "NOWAIT"), int)
        self.assertEqual(self.k.cmd("GET", "rule/semaphore/pool"), "0")

    def test_a_semaphore_of_ours_goes_on_between_permits(self):
        """The number of permits is left for listeners; a request with KIND uses it again."""
        how = ["KIND", "semaphore", "LIMIT", 2]
        with self.conn(self.r) as sub:
            sub.cmd("SUBSCRIBE", "redisson_sc:{pool}")
            self.assertIsInstance(self.c.cmd("LOCK", "pool", *how), int)
            self.assertEqual(self.c.cmd("UNLOCK", "pool"), 0)
            self.assertEqual(sorted(self.space()), ["pool", "{pool}:rlockd"])
            self.assertIsInstance(self.c.cmd("LOCK", "pool", *how), int)
        until(lambda: self.k.cmd("PUBSUB", "NUMSUB", "redisson_sc:{pool}")[1] == 0)
        self.assertEqual(self.c.cmd("UNLOCK", "pool"), 0)
        self.assertEqual(self.space(), {})
        self.k.cmd("SET", "pool", 2, "PX", LIFE)
        self.k.cmd("SET", "{pool}:rlockd", 1, "PX", LIFE // 2)  # of a semaphore that ended at another time
        self.assertIsNone(self.c.cmd("LOCK", "pool", *how, "NOWAIT"))
        self.k.cmd("DEL", "{pool}:rlockd")  # as an older daemon leaves it: the request waits for its end
        self.c.ask("LOCK", "pool", *how)
        until(lambda: self.d.cmd("LOCKS", "pool"))
        self.k.cmd("PEXPIRE", "pool", 1)
        self.k.cmd("PUBLISH", "redisson_sc:{pool}", 1)
        self.assertIsInstance(self.c.read(), int)
        self.assertEqual(self.k.cmd("GET", "pool"), "1")

    def test_a_restart_knows_what_the_rules_declare(self):
        """
        Only Redisson's number is left, in data that has lost the permits: by the rule it is a semaphore all the same.
        """
        conf = CONF + "state_dir: '%s/state'\n" % self.dir
        d = self.rlockd(redis=self.r.url, name="kept", conf=conf)
        for name in ("rule/semaphore/p", "p"):
            self.k.cmd("SET", name, 3, "PX", LIFE)
            self.k.cmd("ZADD", "{%s}:timeout" % name, NOW * 2, PERMIT)
            self.assertIsInstance(d.cmd("LOCK", name, "OWNER", "o", "KIND", "semaphore", "LIMIT", 3), int)
        d.kill()
        self.k.cmd("FLUSHALL")
        for name in ("rule/semaphore/p", "p"):
            self.k.cmd("SET", name, 3)
        d = self.rlockd(redis=self.r.url, name="kept", conf=conf)
        self.assertEqual(d.cmd("UNLOCK", "rule/semaphore/p", "OWNER", "o"), 0)
        self.assertTrue(d.cmd("UNLOCK", "p", "OWNER", "o").startswith("LOST "))
        self.assertEqual((self.k.cmd("GET", "rule/semaphore/p"), self.k.cmd("GET", "p")), ("3", "3"))

    def test_locks_of_others_are_broken(self):
        """BREAK recognizes a lock of each kind by type and shape."""
        locks = {
            "reentrant": [("HSET", "%s", OWNER, 2)], "fair": [("HSET", "%s", OWNER, 1)],
            "fenced": [("HSET", "%s", OWNER, 1)], "counter": [("SET", "%s", 4)], "simple": [("SET", "%s", UUID)],
            "rw": [("HSET", "%s", "mode", "write", OWNER + ":write", 1, OWNER, 2)],
            "semaphore": [("SET", "%s", 2), ("ZADD", "{%s}:timeout", NOW * 2, PERMIT)],
        }
        for kind, makes in locks.items():
            with self.subTest(kind):
                name = "rule/%s/theirs" % kind
                for words in makes:
                    self.k.cmd(words[0], words[1] % name, *words[2:])
                    self.k.cmd("PEXPIRE", words[1] % name, LIFE)
                self.assertEqual(self.c.cmd("BREAK", name), 1)
                self.assertEqual([k for k in self.space() if name in k and "token" not in k], [])

    def test_a_clients_word_breaks_nothing(self):
        """
        Data that looks like a lock of a kind which no rule gives stays: even a waiter's KIND in its queue changes
        nothing.
        """
        for kind, words in (("counter", ("SET", "limit:ip", 4)), ("simple", ("SET", "limit:ip", UUID))):
            with self.subTest(kind):
                self.k.cmd(*words, "PX", LIFE)
                was = self.space()
                waiter = self.conn(self.d)
                waiter.ask("LOCK", "limit:ip", "KIND", kind)
                until(lambda: self.c.maps("LOCKS", "limit:ip"))
                self.assertTrue(self.c.cmd("BREAK", "limit:ip").startswith("KIND "))
                self.assertEqual(self.space(), was)
                waiter.close()
                until(lambda: not self.c.maps("LOCKS", "limit:ip"))
        self.k.cmd("DEL", "limit:ip")
        self.assertIsInstance(self.c.cmd("LOCK", "limit:ip", "KIND", "counter"), int)
        self.assertEqual(self.c.cmd("BREAK", "limit:ip"), 1)  # this lock is rlockd's own
        self.assertEqual(self.space(), {})

    def test_get_says_that_it_is_taken_and_not_by_what(self):
        self.k.cmd("SET", "rule/simple/a", UUID, "PX", LIFE)
        first = self.c.cmd("GET", "rule/simple/a")
        self.assertRegex(first, "^[0-9a-f]{16}$")
        self.assertEqual(self.c.cmd("GET", "rule/simple/a"), first)
        self.k.cmd("SET", "rule/simple/b", UUID, "PX", LIFE)
        self.assertNotEqual(self.c.cmd("GET", "rule/simple/b"), first)  # nor does GET show that two values are the same
        self.k.cmd("SET", "rule/simple/a", HEX, "PX", LIFE)
        self.assertNotEqual(self.c.cmd("GET", "rule/simple/a"), first)
        self.assertEqual(self.c.map("LOCKINFO", "rule/simple/b")["redis_owner"], self.c.cmd("GET", "rule/simple/b"))
        self.assertTrue(self.c.cmd("GET", "a").startswith("KIND ") if self.k.cmd("SET", "a", UUID) else None)
        self.k.cmd("SET", "wait/a", SECRET)
        self.assertIsInstance(self.c.cmd("GET", "wait/a"), str)
        self.k.cmd("DEL", "wait/a")
        self.k.cmd("HSET", "wait/a", "f", SECRET)
        self.assertRegex(self.c.cmd("GET", "wait/a"), "^[0-9a-f]{16}$")  # a request waits for it
        self.k.cmd("HSET", "h", OWNER, 3)
        self.k.cmd("PEXPIRE", "h", LIFE)
        self.assertEqual(self.c.cmd("GET", "h"), OWNER)
        self.assertEqual(self.c.cmd("SET", "mine", "my value", "NX"), "OK")
        self.assertEqual(self.c.cmd("GET", "mine"), "my value")
        info = self.c.map("LOCKINFO", "h")
        self.assertEqual((info["redis_owner"], info["redis_holds"]), (OWNER, 3))
        self.k.cmd("PERSIST", "h")
        info = self.c.map("LOCKINFO", "h")
        self.assertEqual((info["redis_type"], info["redis_owner"], info["redis_holds"]), ("hash", None, None))


class AnyNumber(Case):
    """
    The number of permits of a semaphore is a plain number: a rule for all keys also declares numbers of applications.
    """

    def test_reported_by_the_start_and_by_t(self):
        for n, (conf, warned) in enumerate((
                ("locks: { kind: semaphore }\n", True), ("rules: [{ match: '*', kind: semaphore }]\n", True),
                ("locks: { kind: semaphore, prefix: 'p:' }\n", False))):
            with self.subTest(conf=conf):
                d = self.rlockd(name="d%d" % n, conf=conf)
                self.assertEqual("warn conf kind kind=semaphore reason=" in d.log(), warned)
                status, _, err = self.run_words([os.path.join(harness.BUILD, "rlockd"), "-t", "-c", d.conf_path])
                self.assertEqual(status, 0)
                self.assertEqual("rlockd: warning: kind: semaphore: any number in Redis, " in err, warned)


class Rights(Case):
    RULES = "locks: { prefix: 'app:' }\nrules:\n" + "".join(
        "  - { match: '%s/*', kind: %s, limit: 2 }\n" % (k, k) for k in KINDS) + (
        "  - { match: 'wl/*', kind: simple, key: '{name}:lock', value: base64-uuid, prefix: '' }\n")
    WIDER = "rights reach beyond the keys of the rules"

    def user(self, r, keys):
        self.assertEqual(r.cmd("ACL", "SETUSER", "rl", "reset", "on", ">p", "&redisson_*", "&rlock:deadlock:*",
                               "&__redis__:invalidate", *keys, "+@all", "-@admin", "-@dangerous", "+info"), "OK")

    def test_reported_at_the_start_and_enough(self):
        """The advice in the log removes the rights that are not needed, and no others."""
        r = self.redis()
        self.user(r, ["~*"])
        conf = self.RULES + "redis: { user: rl, password: p }\n"
        wide = self.rlockd(redis=r.url, name="wide", conf=conf)
        until(lambda: self.WIDER in wide.log())
        line, = [x for x in wide.log().split("\n") if self.WIDER in x]
        self.assertTrue(line.startswith("warn redis "), line)
        keys = [w for w in line.rstrip('"').split() if w.startswith("~")]
        self.assertEqual(line.split("ACL SETUSER rl resetkeys ")[1], " ".join(keys) + '"')
        self.user(r, keys)
        a, b = (self.rlockd(redis=r.url, name=n, conf=conf) for n in "ab")
        self.assertNotIn(self.WIDER, a.log() + b.log())
        for kind in KINDS + ("wl", "plain"):
            for name in ("%s/x" % kind, "%s/{x}y" % kind):
                with a.conn() as one, b.conn() as two, b.conn() as three:
                    self.assertIsInstance(one.cmd("LOCK", name), int)
                    for c in (two, three):
                        c.ask("LOCK", name, "WAIT", "10s")
                    until(lambda: kind == "semaphore" or b.cmd("LOCKS", name))
                    self.assertEqual(one.cmd("UNLOCK", name), 0)
                    self.assertIsInstance(two.read(), int)
                    self.assertEqual(two.cmd("RENEW", name, "9s") // 1000, 8)
                    self.assertEqual(two.cmd("BREAK", name), 1)
                    self.assertIsInstance(three.read(), int)
                    self.assertIsInstance(three.cmd("GET", name), (str, type(None)))
                    self.assertIn(three.cmd("UNLOCK", name), (0, "LOST the lock was held and has been lost"))
        self.assertNotIn("NOPERM", a.log() + b.log())

    def test_no_warning_where_any_key_may_be_a_locks(self):
        r = self.redis()
        self.user(r, ["~*"])
        for n, conf in enumerate(("", "rules: [{ match: 'a/*', prefix: 'p:' }]\n")):
            d = self.rlockd(redis=r.url, name="d%d" % n, conf=conf + "redis: { user: rl, password: p }\n")
            self.assertNotIn(self.WIDER, d.log())

    def test_reported_by_minus_t(self):
        r = self.redis()
        path = "%s/t.yaml" % self.dir

        def test(url, rules):
            with open(path, "w") as f:
                f.write(rules)
            return self.run_words([harness.BUILD + "/rlockd", "-t", "-c", path, "--redis", url])
        status, out, err = test(r.url, self.RULES)
        self.assertEqual((status, out), (0, "configuration ok\n"))
        self.assertIn("the user at %s may use keys that no rule gives" % r.url, err)
        self.assertIn("ACL SETUSER default resetkeys ~rlock:* ~", err)
        self.assertEqual(test(r.url, ""), (0, "configuration ok\n", ""))
        self.assertEqual(test("unix:%s/no-server.sock" % self.dir, self.RULES), (0, "configuration ok\n", ""))
        self.assertEqual(r.cmd("DBSIZE"), 0)
        r.cmd("ACL", "SETUSER", "default", "resetkeys", "~app:*")
        self.assertEqual(test(r.url, self.RULES), (0, "configuration ok\n", ""))


if __name__ == "__main__":
    harness.main()
