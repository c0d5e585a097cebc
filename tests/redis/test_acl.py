"""test_acl.py -- a Redis user with fewer keys than clients ask for: one forbidden name makes no other name fail."""
import threading

from harness import Case, RError, main


class Keys(Case):
    KINDS = ("reentrant", "simple", "counter", "fenced", "rw", "semaphore", "fair")

    def setUp(self):
        super().setUp()
        self.r = self.redis(args=["--user", "app", "on", ">s3cret", "~rlock:*", "~ok:*", "~{ok:*", "~redisson*{ok:*",
                                  "&*", "+@all"])
        self.d = self.rlockd(redis=self.r.url, conf="redis: { user: app, password: s3cret }\n")

    def test_the_error_names_the_key(self):
        for words in (("NOWAIT",), ("WAIT", "30s")):
            error = self.d.cmd("LOCK", "sess:42", *words)
            self.assertIsInstance(error, RError)
            self.assertRegex(error, r'^NOPERM .*ACL .*: "sess:42"$')
        self.assertRegex(self.d.cmd("BREAK", "sess:42"), "^NOPERM ")
        self.assertRegex(self.d.cmd("MLOCK", "2", "ok:1", "sess:42", "NOWAIT"), 'NOPERM .*"sess:42"')
        self.assertRegex(self.d.log(), r'redis refused .*NOPERM .*key=sess:42')
        self.assertGreater(self.d.cmd("LOCK", "ok:1", "NOWAIT"), 0)

    def test_others_never_fail(self):
        """With every kind; clients ask for the forbidden names all the time."""
        stop, refused, failed = threading.Event(), [], []

        def ask():
            n = 0
            with self.d.conn() as c:
                while not stop.is_set():
                    for i in range(32):
                        c.line("LOCK sess:%d NOWAIT KIND %s" % (n + i, self.KINDS[i % len(self.KINDS)]))
                    n += 32
                    refused.extend(c.read() for _ in range(32))

        threads = [threading.Thread(target=ask) for _ in range(2)]
        for t in threads:
            t.start()
        try:
            with self.d.conn() as c:
                for n in range(60):
                    names = ["ok:%s:%d" % (k, n % 7 if n % 2 else n) for k in self.KINDS]
                    for k, name in zip(self.KINDS, names):
                        c.line("LOCK %s NOWAIT KIND %s%s" % (name, k, " LIMIT 3" if k == "semaphore" else ""))
                    failed += [(k, a) for k, a in ((k, c.read()) for k in self.KINDS) if not isinstance(a, int)]
                    for name in names:
                        c.line("UNLOCK %s" % name)
                    failed += [a for a in (c.read() for _ in names) if not isinstance(a, int)]
        finally:
            stop.set()
            for t in threads:
                t.join()
        self.assertEqual(failed, [])
        self.assertGreater(len(refused), 100)
        self.assertEqual([a for a in refused if not str(a).startswith("NOPERM ")], [])


class Beside(Case):
    """The name itself is allowed, but not the auxiliary key of its kind."""
    BESIDE = (("fenced", ""), ("fair", ""), ("semaphore", " LIMIT 3"), ("rw", " SHARED"))

    def setUp(self):
        super().setUp()
        self.r = self.redis(args=["--user", "app", "on", ">s3cret", "~rlock:*", "~ok:*", "~bad:*", "~*{ok:*", "&*",
                                  "+@all"])
        self.d = self.rlockd(redis=self.r.url, conf="redis: { user: app, password: s3cret }\n")

    def test_it_spoils_only_itself(self):
        """A forbidden name makes others fail in the first call of each kind at most."""
        refused, again, failed, n = [], [], [], 0
        with self.d.conn() as c, self.d.conn() as bad:
            for round in range(12):
                for kind, options in self.BESIDE:
                    n += 1
                    lines = ["LOCK ok:%d:%d NOWAIT KIND %s%s" % (n, i, kind, options) for i in range(20)]
                    bad.send("".join("LOCK bad:%s:%d NOWAIT KIND %s%s\r\n" % (kind, i, kind, options) for i in (0, n)))
                    c.send("".join(line + "\r\n" for line in lines))
                    answers = [c.read() for _ in lines]
                    failed += [] if round == 0 else [(kind, a) for a in answers if not isinstance(a, int)]
                    again += [str(bad.read())][:round]
                    refused += [str(bad.read())][:round]
        self.assertEqual(failed, [])
        self.assertEqual([a for a in refused if not a.startswith("NOPERM ")], [])
        # the release may still be on its way
        self.assertEqual([a for a in again if not a.startswith(("NOPERM ", "UNAVAILABLE "))], [])
        self.assertEqual(len(refused), 44)


if __name__ == "__main__":
    main()
