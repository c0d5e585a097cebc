"""test_reload.py -- the configuration changes under locks that are held: they stay as they were taken until they are
free.

A reload does not change the key of a name at all: for a moment, daemons on one Redis would have different keys for it.
"""
import os
import re
import signal
import subprocess

from harness import BUILD, RLOCK, Case, RError, main, until


class Reload(Case):
    """A daemon whose configuration file is written anew."""

    def begin(self, conf, name="rlockd"):
        self.r = self.redis(name="redis-" + name)
        self.d = self.rlockd(redis=self.r.url, conf=conf, name=name)

    def reload(self, conf, d=None, refused=False):
        d = d or self.d
        words = "not reloaded" if refused else "conf reloaded"
        n = d.log().count(words)
        d.write_conf(conf)
        d.signal(signal.SIGHUP)
        until(lambda: d.log().count(words) > n)



class Tracking(Reload):
    """`tracking` of a rule whose name has a waiter."""

    CONF = "max_poll: 1h\nlocks: { kind: simple, tracking: %s }\n"

    def wait_for_another_client(self, n):
        """n connections that wait for x, which a client without a daemon holds."""
        self.assertEqual(self.r.cmd("SET", "x", "0" * 32, "NX", "PX", "600000"), "OK")
        conns = [self.conn(self.d) for _ in range(n)]
        for i, c in enumerate(conns):
            c.ask("LOCK", "x", "WAIT", "10m")
            self.wait_until_waiting(i + 1)
        return conns

    def wait_until_waiting(self, n):
        def waits():
            with self.d.conn() as c:
                row = c.maps("LOCKS", "x")[0]
            return row["waiters"] == n and row["state"] != "trying"
        until(waits)

    def tracked(self):
        return int(re.search("tracking_total_keys:([0-9]+)", self.r.cmd("INFO", "stats")).group(1))

    def test_on(self):
        self.begin(self.CONF % "false")
        a, = self.wait_for_another_client(1)
        self.reload(self.CONF % "true")
        b = self.conn(self.d)
        b.ask("LOCK", "x", "WAIT", "10m")
        until(lambda: self.tracked() == 1)
        self.r.cmd("DEL", "x")
        self.assertGreater(a.read(), 0)
        self.assertEqual(a.cmd("UNLOCK", "x"), 0)
        self.assertGreater(b.read(), 0)

    def test_off(self):
        """Redis does not notify the daemon of its own renewals: no renewal causes the next one while a client waits."""
        self.begin(self.CONF % "true")
        a, _ = self.wait_for_another_client(2)
        until(lambda: self.tracked() == 1)
        self.r.cmd("DEL", "x")
        self.assertGreater(a.read(), 0)
        self.reload(self.CONF % "false")
        c = self.conn(self.d)
        c.ask("LOCK", "x", "WAIT", "10m")
        self.wait_until_waiting(2)
        renewals = lambda: int(self.d.info("stats")["renewals"])  # noqa: E731
        before = renewals()
        self.d.advance("11s")
        until(lambda: renewals() > before)
        for _ in range(20):  # an effect of the renewal would come one hand-over's time later
            self.d.advance("20ms")
            self.d.cmd("LOCKINFO", "x")
        self.assertLess(renewals(), before + 5)  # the renewal, and those that the jump of the clock brings about


class Held(Reload):
    """Locks that are held under a rule which no longer exists."""

    def test_another_kind(self):
        for was, now in (("reentrant", "simple"), ("reentrant", "rw"), ("rw", "reentrant"), ("semaphore", "reentrant"),
                         ("simple", "semaphore"), ("fair", "reentrant")):
            with self.subTest(was=was, now=now):
                self.begin("locks: { kind: %s, limit: 2 }\n" % was, name="%s-%s" % (was, now))
                a, b = self.conn(self.d), self.conn(self.d)
                token = a.cmd("LOCK", "x", "OWNER", "o")
                before = self.r.cmd("TYPE", "x")
                self.reload("locks: { kind: %s, limit: 2 }\n" % now)
                self.assertEqual(a.cmd("LOCK", "x", "OWNER", "o", "ONCE", "NOWAIT"), token)
                self.assertGreater(a.cmd("RENEW", "x", "20s", "OWNER", "o"), 0)
                info = a.map("LOCKINFO", "x")
                self.assertEqual((info["kind"], info["state"], info["token"]), (was, "held", token))
                if was == "semaphore":  # the next waiter expects to be the only holder
                    self.assertTrue(b.cmd("LOCK", "x").startswith("KIND "))
                else:
                    b.ask("LOCK", "x")
                    until(lambda: a.maps("LOCKS", "x")[0]["waiters"] == 1)
                self.assertEqual(self.r.cmd("TYPE", "x"), before)
                self.assertEqual(a.cmd("UNLOCK", "x", "OWNER", "o"), 0)
                if was != "semaphore":
                    self.assertGreater(b.read(), token)
                    self.assertEqual(b.cmd("UNLOCK", "x"), 0)
                until(lambda: a.cmd("LOCKS", "x") == [])
                self.assertGreater(b.cmd("LOCK", "x"), token)
                self.assertEqual(b.map("LOCKINFO", "x")["kind"], now, "it was free")

    def test_readers(self):
        self.begin("locks: { kind: rw }\n")
        a, b = self.conn(self.d), self.conn(self.d)
        tokens = [c.cmd("LOCK", "x", "SHARED") for c in (a, b)]
        self.reload("locks: { kind: reentrant }\n")
        self.assertEqual(a.cmd("LOCK", "x", "SHARED", "ONCE", "NOWAIT"), tokens[0])
        self.assertEqual(a.cmd("LOCK", "x", "SHARED"), tokens[0])
        self.assertEqual(a.cmd("UNLOCK", "x", "SHARED"), 1)
        self.assertGreater(b.cmd("RENEW", "x", "20s"), 0)
        self.assertEqual([a.cmd("UNLOCK", "x", "SHARED"), b.cmd("UNLOCK", "x", "SHARED")], [0, 0])
        until(lambda: a.cmd("LOCKS", "x") == [])
        self.assertIn("SHARED is for kind rw", a.cmd("LOCK", "x", "SHARED"))

    def test_a_place_in_the_queue(self):
        """a client that waits in short waits keeps its place"""
        self.begin("locks: { kind: semaphore }\n")
        a, b = self.conn(self.d), self.conn(self.d)
        a.cmd("LOCK", "x")
        self.assertIsNone(b.cmd("LOCK", "x", "WAIT", "10ms", "OWNER", "o"))
        self.reload("locks: { kind: reentrant }\n")
        b.ask("LOCK", "x", "WAIT", "10s", "OWNER", "o")
        until(lambda: a.maps("LOCKS", "x")[0]["waiters"] == 1)
        a.cmd("UNLOCK", "x")
        self.assertGreater(b.read(), 0)

    def test_a_shorter_limit_of_names(self):
        self.begin("")
        a, b = self.conn(self.d), self.conn(self.d)
        names = [c * 400 for c in "xyzf"]
        tokens = [a.cmd("LOCK", n) for n in names[:3]]
        self.assertEqual(a.cmd("SET", names[3], "me", "NX", "PX", "20000"), "OK")
        self.reload("limits: { name_bytes: 100, line_bytes: 512, words: 16 }\n")
        self.assertEqual(a.cmd("LOCK", names[0], "ONCE", "NOWAIT"), tokens[0])
        self.assertIsNone(b.cmd("LOCK", names[0], "NOWAIT"))
        self.assertGreater(a.cmd("RENEW", names[0], "20s"), 0)
        self.assertEqual(a.map("LOCKINFO", names[0])["token"], tokens[0])
        self.assertEqual(a.cmd("UNLOCK", names[0]), 0)
        self.assertEqual(a.cmd("MUNLOCK", 2, names[1], names[2]), [0, 0], "more than limits.line_bytes says")
        self.assertEqual(a.cmd("GET", names[3]), "me")
        release = "c3f8721cbb97f72bc19e972846bd7aaf91901658"
        self.assertEqual(a.cmd("EVALSHA", release, 1, names[3], "me"), 1)
        until(lambda: a.cmd("LOCKS") == [])
        for words in (["LOCK", names[0]], ["UNLOCK", names[0]], ["MLOCK", 2, "a", names[0]], ["LOCKINFO", names[0]],
                      ["SET", names[0], "me", "NX", "PX", "20000"], ["BREAK", names[0]]):
            self.assertRegex(a.cmd(*words), "^ERR .*100", "free: now it is too long")
        self.assertEqual(self.r.cmd("DBSIZE"), len(self.r.cmd("KEYS", "rlock:*")))

    def test_rlock_run(self):
        """rlock asks for its lock every sixth of a lease"""
        cases = (("", "locks: { lease: 3s, kind: simple }\n", ()),
                 ("", "locks: { lease: 3s, kind: semaphore }\n", ()),
                 ("", "locks: { lease: 3s }\nlimits: { name_bytes: 8 }\n", ()),
                 ("", "locks: { lease: 3s }\nrules: [{ match: 'a-name-*', kind: fair }]\n", ()),
                 ("rules: [{ match: 'a-*', kind: rw }]\n", "locks: { lease: 3s }\n", ("-S",)))
        for i, (was, now, options) in enumerate(cases):
            with self.subTest(now=now):
                self.begin("locks: { lease: 3s }\n" + was, name="d%d" % i)
                p = subprocess.Popen([RLOCK, "-s", self.d.addr, "run", "a-name-of-20-bytes-1", *options, "--",
                                      "sh", "-c", "echo held; read x; exit 7"],
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                self.addCleanup(self.reap, p)
                self.addCleanup(p.stdin.close)
                self.assertEqual(p.stdout.readline(), b"held\n")
                self.reload(now)
                with self.d.conn() as seen:
                    self.assertEqual(seen.cmd("MONITOR"), "OK")
                    asked = 0
                    while asked < 2:
                        asked += '"ONCE"' in seen.read()
                self.assertIsNone(p.poll(), "it runs on")
                p.stdin.write(b"\n")
                p.stdin.flush()
                self.assertEqual(p.wait(10), 7, p.stderr.read())


class Leases(Reload):
    """
    After a loss of data, other daemons wait for a daemon that is cut off, as long as its longest lease: see
    PROTOCOL.md.
    """

    def reported(self):
        """the longest lease that the daemon has registered, ms"""
        uuid = self.d.info("server")["run_id"]
        return int((self.r.cmd("HGET", "rlock:members", uuid) or "0").split()[-1])

    def registered_anew(self):
        n = int(self.d.info("stats")["redis_connects"])
        self.r.cmd("CLIENT", "KILL", "TYPE", "normal")
        until(lambda: int(self.d.info("stats")["redis_connects"]) >= n + 2 and self.d.ready())

    def test_a_shorter_one_is_for_locks_from_then_on(self):
        self.begin("locks: { lease: 60s }\n")
        until(lambda: self.reported() == 60000)
        with self.d.conn() as c:
            self.assertGreater(c.cmd("LOCK", "x"), 0)
            self.reload("locks: { lease: 10s }\n")
            self.registered_anew()
            self.assertEqual(self.reported(), 60000, "x is renewed with 60 s still")
            self.reload("locks: { lease: 90s }\n")
            self.registered_anew()
            self.assertEqual(self.reported(), 90000)

    def test_what_was_kept_over_a_restart(self):
        state = "state_dir: %s\n" % self.dir
        self.begin("locks: { lease: 60s }\n" + state)
        with self.d.conn() as c:
            c.cmd("LOCK", "x", "OWNER", "o")
        self.d.kill()
        self.d = self.rlockd(redis=self.r.url, conf="locks: { lease: 10s }\n" + state, name="again")
        until(lambda: self.reported() == 60000)


OTHER_KEYS = "another daemon on this Redis gives names other keys"
LATE = """locks: { prefix: 'app:' }
redis: { user: late, password: p, backoff_max: 50ms }
"""


def may_not_subscribe(server):
    """The user of LATE."""
    server.cmd("ACL", "SETUSER", "late", "on", ">p", "~*", "&*", "+@all", "-subscribe", "-ssubscribe")


def may_subscribe(server):
    """... and a daemon of that user does it, as one of its links goes up again."""
    server.cmd("ACL", "SETUSER", "late", "+subscribe", "+ssubscribe")
    link = re.search(r"^id=(\d+) .* user=late ", server.cmd("CLIENT", "LIST"), re.M)[1]
    server.cmd("CLIENT", "KILL", "ID", link)


class Keys(Reload):
    """A reload that would give a name another key is refused: other daemons have not read their configuration yet."""

    def test_is_refused(self):
        was = "locks: { prefix: 'app:' }\nrules: [{ match: 'wl/*', key: '{name}:lock' }]\n"
        self.begin(was)
        c = self.conn(self.d)
        token = c.cmd("LOCK", "x")
        for now in ("locks: { prefix: 'other:' }\nrules: [{ match: 'wl/*', key: '{name}:lock' }]\n",
                    "locks: { prefix: 'app:' }\n",
                    was.replace("wl/*", "w/*"),
                    was.replace("[", "[{ match: '*/x', lease: 5s }, "),
                    was.replace("]", ", { match: 'x', prefix: '' }]")):
            self.reload(now, refused=True)
            self.assertEqual(c.cmd("LOCK", "x", "ONCE", "NOWAIT"), token)
            self.assertEqual(c.cmd("CONFIG", "GET", "locks.prefix"), ["locks.prefix", "app:"])
        self.assertRegex(self.d.log(),
                         "conf refused error=.rules.0 .match .wl/.*: names would have the key .*other:.*: stop")
        self.assertEqual(int(self.d.info("stats")["config_reload_failures"]), 5)
        self.reload(was.replace("[", "[{ match: 'cron/*', wait: 0 }, ") + "limits: { name_bytes: 100 }\n")
        self.assertEqual(c.cmd("LOCK", "x", "ONCE", "NOWAIT"), token)
        self.assertEqual(self.r.cmd("KEYS", "*x"), ["app:x"])

    def test_two_daemons_have_one_key_for_a_name(self):
        """also between the reload of one and that of the other"""
        self.begin("")
        b = self.rlockd(redis=self.r.url, name="b")
        self.assertGreater(b.cmd("LOCK", "x"), 0)
        with b.conn() as holder, self.d.conn() as other:
            self.assertGreater(holder.cmd("LOCK", "x"), 0)
            self.reload("locks: { prefix: 'app:' }\n", refused=True)
            self.assertIsNone(other.cmd("LOCK", "x", "NOWAIT"))

    def test_daemons_that_were_started_with_other_keys(self):
        """one after the other, as in a rolling restart: both warn"""
        self.begin("rules: [{ match: 'cron/*', wait: 0 }]\n")
        same = self.rlockd(redis=self.r.url, name="same", conf="locks: { lease: 10s, kind: rw }\n")
        until(lambda: same.info("redis")["redis_other_daemons"] == "1")
        b = self.rlockd(redis=self.r.url, name="b", conf="locks: { prefix: 'app:' }\n")
        for d in (self.d, same, b):
            until(lambda: OTHER_KEYS in d.log())
        for d in (self.d, same):
            self.assertIn("daemon=" + b.info("server")["run_id"], d.log())
        self.assertNotIn("daemon=" + same.info("server")["run_id"], self.d.log())
        self.assertNotIn("daemon=" + self.d.info("server")["run_id"], same.log())

    def test_a_daemon_that_subscribes_late(self):
        """it asks once more when replies can arrive"""
        self.begin("")
        may_not_subscribe(self.r)
        b = self.rlockd(redis=self.r.url, name="b", conf=LATE)
        until(lambda: OTHER_KEYS in self.d.log())
        until(lambda: "deadlocks across daemons not detected" in b.log())
        self.assertNotIn(OTHER_KEYS, b.log())
        may_subscribe(self.r)
        until(lambda: OTHER_KEYS in b.log())

    def test_kinds_exclude_each_other_over_two_daemons(self):
        """a reload may change the kind: the key is the same, and its type and shape are different"""
        kinds = "reentrant simple counter fair rw semaphore fenced".split()
        self.begin("")
        b = self.rlockd(redis=self.r.url, name="b")
        for one in kinds:
            for two in kinds:
                with self.subTest(one=one, two=two), self.d.conn() as holder, b.conn() as other:
                    name = "%s-%s" % (one, two)
                    self.assertGreater(holder.cmd("LOCK", name, "KIND", one), 0)
                    answer = other.cmd("LOCK", name, "KIND", two, "NOWAIT")
                    self.assertTrue(answer is None or answer.startswith("KIND "), answer)


class OneKey(Reload):
    """Two names with one key, at one daemon and at two."""

    RULES = "locks: { prefix: 'app:', lease: 5m }\nrules: [{ match: 'app:*', prefix: '' }]\n"

    def test_keys_beside_the_key(self):
        """x and {x} would share the key that has the leases of readers: the release of one would free the other"""
        self.begin("locks: { kind: rw }\n")
        b = self.rlockd(redis=self.r.url, name="b", conf="locks: { kind: rw }\n")
        with self.d.conn() as one, self.d.conn() as two, b.conn() as other:
            self.assertGreater(one.cmd("LOCK", "x", "SHARED"), 0)
            self.assertEqual(one.cmd("LOCK", "{x}", "SHARED"),
                             'KIND "{x}" has a key in Redis that is in use by another name, "x"')
            self.assertGreater(two.cmd("LOCK", "x", "SHARED"), 0)
            self.assertIsInstance(one.cmd("UNLOCK", "{x}"), RError)
            self.assertEqual(two.cmd("UNLOCK", "x"), 0)
            self.assertIsNone(other.cmd("LOCK", "x", "NOWAIT"), "the other one reads still")

    def test_over_two_daemons(self):
        self.begin(self.RULES)
        b = self.rlockd(redis=self.r.url, name="b", conf=self.RULES)
        with self.d.conn() as one, b.conn() as two:
            self.assertGreater(one.cmd("LOCK", "app:job"), 0)
            self.assertIsNone(two.cmd("LOCK", "job", "NOWAIT"))
            self.assertIsInstance(one.cmd("LOCK", "job", "NOWAIT"), RError)
            two.ask("LOCK", "job", "WAIT", "10s")
            until(lambda: two.quiet() and b.cmd("WAITERS", "job"))
            self.assertEqual(one.cmd("UNLOCK", "app:job"), 0)
            self.assertGreater(two.read(), 0)
            self.assertIsNone(one.cmd("LOCK", "app:job", "NOWAIT"))

    def test_broken_under_the_other_name(self):
        """its holder is informed at once, although it uses the other name"""
        self.begin(self.RULES)
        b = self.rlockd(redis=self.r.url, name="b", conf=self.RULES)
        with self.d.conn() as one, b.conn() as two:
            self.assertGreater(one.cmd("LOCK", "app:job"), 0)
            self.assertEqual(two.cmd("BREAK", "job"), 1)
            until(lambda: one.maps("LOCKS", "app:job")[0]["state"] == "lost")

    def test_t_reports_it(self):
        d = self.rlockd(conf=self.RULES)
        rlockd = os.path.join(BUILD, "rlockd")
        status, out, err = self.run_words([rlockd, "-t", "-c", d.conf_path, "--redis", "embedded"])
        self.assertEqual((status, out), (0, "configuration ok\n"))
        self.assertIn("two names have one key, such as 'app:x' and 'x'", err)

    def test_after_a_restart(self):
        """a restored name still has its key"""
        state = "state_dir: %s\n" % self.dir
        self.begin(self.RULES + state)
        with self.d.conn() as c:
            token = c.cmd("LOCK", "app:job", "OWNER", "o")
        self.d.kill()
        d = self.rlockd(redis=self.r.url, conf=self.RULES + state, name="again")
        with d.conn() as c:
            self.assertTrue(c.cmd("LOCK", "job", "NOWAIT").startswith("KIND "))
            self.assertEqual(c.cmd("LOCK", "app:job", "OWNER", "o", "ONCE"), token)

    def test_after_a_restart_with_another_kind(self):
        state = "state_dir: %s\n" % self.dir
        self.begin(state)
        with self.d.conn() as c:
            token = c.cmd("LOCK", "x", "OWNER", "o")
        self.d.kill()
        d = self.rlockd(redis=self.r.url, conf="locks: { kind: rw }\n" + state, name="again")
        with d.conn() as c:
            self.assertEqual(c.cmd("LOCK", "x", "OWNER", "o", "ONCE"), token)
            self.assertEqual(c.cmd("UNLOCK", "x", "OWNER", "o"), 0)


if __name__ == "__main__":
    main()
