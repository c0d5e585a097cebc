#!/usr/bin/env python3
"""TLS to Redis: connections that work, refusals and their messages, certificates that are exchanged or expire."""
import os
import re
import signal
import socket
import struct
import subprocess
import threading
import time

import harness
import test_kinds
from certificates import Authority
from clusters import STEADY, Cluster
from harness import Case, free_port, until, within


class TlsRedis(harness.Redis):
    """A private Redis with TLS on a port, and without TLS on its Unix socket. `tls`: (certificate, key)."""

    def __init__(self, directory, tls, ca, clients="no", args=(), **more):
        self.tls_port = free_port()
        super().__init__(directory, args=["--tls-port", str(self.tls_port), "--bind", "127.0.0.1", "::1",
                                          "--tls-cert-file", tls[0], "--tls-key-file", tls[1], "--tls-ca-cert-file",
                                          ca.pem, "--tls-auth-clients", clients, *args], **more)

    def exchange(self, tls):
        assert self.cmd("CONFIG", "SET", "tls-cert-file", tls[0], "tls-key-file", tls[1]) == "OK"

    def cut(self):
        """Ends each connection of rlockd."""
        self.cmd("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        self.cmd("CLIENT", "KILL", "TYPE", "pubsub")

    @property
    def url(self):
        return "rediss://localhost:%d" % self.tls_port


class Tls(Case):
    CERTIFICATE = {}

    def setUp(self):
        super().setUp()
        self.ca = Authority(self.dir)

    def redis(self, tls=None, ca=None, **more):
        return self._keep(TlsRedis(self.dir, tls or self.ca.certificate("redis", **self.CERTIFICATE), ca or self.ca,
                                   **more))

    def conf(self, url=None, **keys):
        keys = {"tls_ca_file": self.ca.pem, "backoff_max": "50ms", **keys}
        rows = "".join(', %s: "%s"' % row for row in keys.items() if row[1] is not None)
        return 'redis: { url: "%s"%s }\n' % (url or self.r.url, rows)

    def daemon(self, url=None, name="rlockd", more="", wait=True, env=None, **keys):
        return self.rlockd(redis=None, conf=self.conf(url, **keys) + more, name=name, wait=wait, env=env)

    def refused(self, d):
        """The one warning of a start without Redis; INFO has the same text, and neither has the password."""
        def counted():
            """the log has the reason why Redis is unreachable"""
            return re.findall(r'^warn redis (.*)$', d.log(), re.M)
        line = until(counted)[0]
        reason = re.search(r'reason="?(.*?)"?$', line).group(1)
        until(d.serving)
        self.assertEqual(d.info("redis")["redis_state"], "down")
        return reason.replace(r"\x22", '"'), d.info("redis")["redis_last_error"]


class Works(Tls):
    def test_lock_renew_unlock(self):
        self.r = self.redis(args=["--requirepass", "s3cret"])
        d = self.daemon(password="s3cret")
        self.assertEqual(d.info("redis")["redis_address"], self.r.url)
        with d.conn() as c, d.conn() as other:
            self.assertGreater(c.cmd("LOCK", "a", "LEASE", "30s"), 0)
            self.assertIsNone(other.cmd("LOCK", "a", "NOWAIT"))
            self.assertGreater(c.cmd("RENEW", "a", "60s"), 0)
            d.advance("25s")
            self.assertIsNone(other.cmd("LOCK", "a", "NOWAIT"))
            other.ask("LOCK", "a", "WAIT", "10s")
            self.assertEqual(c.cmd("UNLOCK", "a"), 0)
            self.assertGreater(other.read(), 0)
        self.assertNotIn("s3cret", d.log() + str(d.info("redis")))
        self.assertNotIn("certificates", d.log())

    def test_cut_off_again_and_again(self):
        """
        Redis ends a connection by TLS's close_notify; that is no refusal, after which the pause is 5 min at least.
        """
        self.r = self.redis()
        d = self.daemon(backoff_max="10m")
        with self.r.conn() as r:
            for _ in range(4):
                was = int(d.info("stats")["redis_connects"])
                self.assertEqual(r.cmd("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"), 2)
                until(lambda: int(d.info("stats")["redis_connects"]) >= was + 2)

    def test_by_name_and_by_number(self):
        self.r = self.redis(tls=self.ca.certificate("redis", "DNS:localhost,IP:127.0.0.1,IP:::1"))
        for i, host in enumerate(("localhost", "127.0.0.1", "[::1]")):
            d = self.daemon("rediss://%s:%d" % (host, self.r.tls_port), name="d%d" % i)
            self.assertGreater(d.cmd("LOCK", "a%d" % i), 0)

    def test_another_name(self):
        """The certificate has no name that the URL could have: tls_server_name gives the expected name."""
        self.r = self.redis(tls=self.ca.certificate("lock-redis", "DNS:redis.example"))
        self.assertGreater(self.daemon(tls_server_name="redis.example").cmd("LOCK", "a"), 0)

    def test_pinned(self):
        """The file of authorities has the certificate itself, whose authority is unknown."""
        tls = self.ca.certificate("redis")
        self.r = self.redis(tls=tls)
        self.assertGreater(self.daemon(tls_ca_file=tls[0]).cmd("LOCK", "a"), 0)

    def test_the_systems_store(self):
        self.r = self.redis()
        d = self.daemon(tls_ca_file=None, env={"SSL_CERT_FILE": self.ca.pem, "SSL_CERT_DIR": self.dir})
        self.assertGreater(d.cmd("LOCK", "a"), 0)

    def test_much_at_once(self):
        """More data than a TLS record and a socket's buffer take, in both directions."""
        self.r = self.redis()
        d = self.daemon(more="limits: { pipeline: 8192, pipeline_bytes: 16MiB, output_bytes: 16MiB }\n")
        with d.conn() as c:
            names = ["%04d-%s" % (i, "x" * 400) for i in range(4000)]
            for what in ("LOCK", "UNLOCK"):
                sender = threading.Thread(target=c.send, args=("".join("%s %s\r\n" % (what, n) for n in names),))
                sender.start()
                answers = [c.read() for _ in names]
                sender.join()
                self.assertTrue(all(isinstance(a, int) for a in answers), answers[:3])
        self.assertEqual(self.r.cmd("EXISTS", names[0]), 0)

    def test_in_crumbs(self):
        """Data that comes and goes byte by byte."""
        self.r = self.redis()
        proxy = Proxy(self.r.tls_port, piece=1)
        self.addCleanup(proxy.close)
        d = self.daemon("rediss://localhost:%d" % proxy.port, connect_timeout="10s", timeout="10s", links=1)
        with d.conn() as c:
            self.assertGreater(c.cmd("LOCK", "a"), 0)
            self.assertEqual(c.cmd("UNLOCK", "a"), 0)

    def test_cut(self):
        """Holders keep their locks while connections are made anew."""
        self.r = self.redis()
        d = self.daemon()
        with d.conn() as c:
            token = c.cmd("LOCK", "a")
            for _ in range(3):
                until(lambda: d.info("redis")["redis_links_up"] == "3")
                was = int(d.info("stats")["redis_connects"])
                self.r.cut()
                until(lambda: int(d.info("stats")["redis_connects"]) >= was + 3)
                until(d.ready)
            self.assertGreater(c.cmd("LOCK", "b"), token)
            self.assertEqual(c.cmd("UNLOCK", "a"), 0)
        until(lambda: self.r.cmd("EXISTS", "a") == 0)

    def test_what_is_changed_on_the_way(self):
        self.r = self.redis()
        proxy = Proxy(self.r.tls_port)
        self.addCleanup(proxy.close)
        d = self.daemon("rediss://localhost:%d" % proxy.port)
        proxy.flip = True
        until(lambda: "bad record mac" in d.log())
        proxy.flip = False
        until(lambda: isinstance(d.cmd("LOCK", "a", "NOWAIT"), int))


    def test_an_end_without_a_goodbye(self):
        """A connection that ends without close_notify, by FIN or by RST, has ended."""
        self.r = self.redis()
        for i, hard in enumerate((False, True)):
            proxy = Proxy(self.r.tls_port)
            self.addCleanup(proxy.close)
            d = self.daemon("rediss://localhost:%d" % proxy.port, name="d%d" % i)
            with d.conn() as c:
                self.assertGreater(c.cmd("LOCK", "a%d" % i), 0)
                until(lambda: d.info("redis")["redis_links_up"] == "3")
                was = int(d.info("stats")["redis_disconnects"])
                proxy.cut(hard)
                until(lambda: int(d.info("stats")["redis_disconnects"]) >= was + 3)
                until(d.ready)
                self.assertEqual(c.cmd("UNLOCK", "a%d" % i), 0)


class Proxy:
    """A proxy in front of Redis: passes bytes on in pieces, holds those of rlockd, or changes bytes of Redis."""

    def __init__(self, port, piece=1 << 16):
        self.to, self.piece, self.flip = port, piece, False
        self.change = lambda reported: reported  # the bytes of Redis, changed
        self.passes = threading.Event()
        self.go_on()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.socks = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                a = self.listener.accept()[0]
                b = socket.create_connection(("127.0.0.1", self.to))
            except OSError:
                return
            for s in (a, b):
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.socks += [a, b]
            threading.Thread(target=self.carry, args=(a, b, False), daemon=True).start()
            threading.Thread(target=self.carry, args=(b, a, True), daemon=True).start()

    def carry(self, a, b, back):
        try:
            while True:
                got = bytearray(a.recv(1 << 16))
                if not got:
                    break
                if self.flip and back:
                    got[-1] ^= 1
                if back:
                    got = self.change(got)
                else:
                    self.passes.wait()
                for i in range(0, len(got), self.piece):
                    b.sendall(got[i:i + self.piece])
        except OSError:
            pass
        for s in (a, b):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def hold(self):
        """Keeps the bytes that rlockd sends until go_on()."""
        self.passes.clear()

    def go_on(self):
        self.passes.set()

    def cut(self, hard):
        """Ends all connections: by FIN, or hard by RST."""
        ended, self.socks = self.socks, []
        for s in ended:
            try:
                if hard:
                    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            s.close()

    def close(self):
        self.go_on()
        self.listener.close()
        for s in self.socks:
            s.close()


class Refused(Tls):
    """Each refusal with its reason: in one line of the log, and in INFO."""

    def error_is(self, want, **more):
        d = self.daemon(wait=False, password="s3cret", **more)
        reason, now = self.refused(d)
        self.assertRegex(reason, want)
        self.assertRegex(now.replace(r"\x22", '"'), want)
        self.assertNotIn("s3cret", d.log())
        self.assertRegex(d.cmd("LOCK", "a", "WAIT", "50ms"), "^UNAVAILABLE")
        tries = int(d.info("stats").get("redis_connects", 0))
        self.assertEqual(tries, 0)
        self.assertEqual(len(re.findall("^warn redis", d.log(), re.M)), 1, d.log())
        return d

    def test_expired(self):
        self.r = self.redis(tls=self.ca.certificate("old", begin=-7200, end=-3600))
        self.error_is(r'^Redis\'s certificate "/CN=old" expired on 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC$')

    def test_not_yet_valid(self):
        self.r = self.redis(tls=self.ca.certificate("young", begin=3600))
        self.error_is(r'^Redis\'s certificate "/CN=young" is not valid before 20\d\d-.* UTC$')

    def test_another_host(self):
        self.r = self.redis(tls=self.ca.certificate("other", "DNS:a.example,DNS:*.b.example,IP:10.0.0.1"))
        self.error_is(r"^Redis's certificate is for a.example, \*.b.example, 10.0.0.1, not for localhost "
                      r"\(redis.tls_server_name\)$")

    def test_another_number(self):
        """A numeric address is compared with the addresses of the certificate alone."""
        self.r = self.redis(tls=self.ca.certificate("127.0.0.1", "DNS:127.0.0.1,DNS:localhost"))
        self.error_is("^Redis's certificate is for 127.0.0.1, localhost, not for 127.0.0.1 ",
                 url="rediss://127.0.0.1:%d" % self.r.tls_port)

    def test_server_name_counts_alone(self):
        self.r = self.redis()
        self.error_is("for localhost, 127.0.0.1, not for redis.example ", tls_server_name="redis.example")

    def test_unknown_issuer(self):
        other = Authority(self.dir, "other")
        self.r = self.redis(tls=other.certificate("redis"))
        self.error_is(r'^Redis\'s certificate "/CN=redis" was issued by "/CN=test other", who is not in .*/ca/ca.pem ')

    def test_self_signed(self):
        other = Authority(self.dir, "other")
        self.r = self.redis(tls=(other.pem, other.key))
        self.error_is('^Redis\'s certificate "/CN=test other" was issued by "/CN=test other", who is not in ')

    def test_hostile_words_in_a_certificate(self):
        self.r = self.redis(tls=self.ca.certificate("a\nwarn redis up", "DNS:evil\" x=y,DNS:" + "z" * 200))
        self.error_is("not for localhost")

    def test_wants_a_certificate_of_ours(self):
        for i, protocols in enumerate(("TLSv1.3", "TLSv1.2")):
            self.r = self.redis(clients="yes", name="r%d" % i, args=["--tls-protocols", protocols])
            self.error_is(r"(wants|may want) a certificate of ours \(redis.tls_cert_file\)", name="d%d" % i)

    def test_has_gone_before_all_was_sent(self):
        """
        Redis refuses and closes between two writes of a greeting; the second write fails, and the reason is still
        unread.
        """
        lib = os.path.join(self.dir, "late.so")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-D_GNU_SOURCE", "-o", lib,
                        os.path.join(harness.TOP, "tests", "redis", "late.c"), "-ldl"], check=True)
        self.r = self.redis(clients="yes", args=["--tls-protocols", "TLSv1.3"])
        self.error_is(r"^Redis wants a certificate of ours \(redis.tls_cert_file\)$", env={"LD_PRELOAD": lib})

    def test_does_not_know_our_issuer(self):
        other = Authority(self.dir, "other")
        cert, key = other.certificate("me")
        for i, protocols in enumerate(("TLSv1.3", "TLSv1.2")):
            self.r = self.redis(clients="yes", name="r%d" % i, args=["--tls-protocols", protocols])
            self.error_is("^Redis does not know who issued our certificate", tls_cert_file=cert, tls_key_file=key,
                     name="d%d" % i)

    def test_a_plain_port(self):
        r = self._keep(harness.Redis(self.dir, tcp=True))
        self.r = r
        self.error_is("^no answer within redis.connect_timeout in the handshake of TLS; does it speak TLS at this port",
                 url="rediss://127.0.0.1:%d" % r.port, connect_timeout="300ms")

    def test_a_port_that_speaks_something_else(self):
        with socket.create_server(("127.0.0.1", 0)) as s:
            def answer():
                while True:
                    try:
                        c = s.accept()[0]
                    except OSError:
                        return
                    c.sendall(b"-DENIED Redis is running in protected mode\r\n")
                    c.recv(1000)
                    c.close()
            threading.Thread(target=answer, daemon=True).start()
            self.error_is("^what answers does not speak TLS; without it the URL begins with redis://$",
                     url="rediss://127.0.0.1:%d" % s.getsockname()[1])
            s.shutdown(socket.SHUT_RDWR)

    def test_spoken_to_plainly(self):
        self.r = self.redis()
        self.error_is("at a port that speaks TLS the URL begins with rediss://$", tls_ca_file=None,
                 url="redis://127.0.0.1:%d" % self.r.tls_port)

    def test_an_old_protocol(self):
        """Nothing below TLS 1.2, whatever the system allows."""
        conf = os.path.join(self.dir, "openssl.cnf")
        with open(conf, "w") as f:
            f.write("openssl_conf = a\n[a]\nssl_conf = b\n[b]\nsystem_default = c\n[c]\nMinProtocol = TLSv1\n"
                    "CipherString = DEFAULT@SECLEVEL=0\n")
        env = {"OPENSSL_CONF": conf}
        self.r = self.redis(args=["--tls-protocols", "TLSv1.1", "--tls-ciphers", "DEFAULT@SECLEVEL=0"], env=env)
        self.error_is("^Redis speaks no TLS 1.2 or later$", env=env)


class Ours(Tls):
    def test_a_certificate_of_ours(self):
        cert, key = self.ca.certificate("me")
        for i, protocols in enumerate(("TLSv1.3", "TLSv1.2")):
            self.r = self.redis(clients="yes", name="r%d" % i, args=["--tls-protocols", protocols])
            d = self.daemon(name="d%d" % i, tls_cert_file=cert, tls_key_file=key)
            self.assertGreater(d.cmd("LOCK", "a"), 0)


class Expiry(Tls):
    DAY = 86400

    def warnings(self, d):
        return re.findall(r'^warn redis "?(certificate .*?)"? address=rediss:\S+ certificate=(\S+) days=(\d+) ',
                          d.log(), re.M)

    def certificate(self, name, **more):
        return self.ca.certificate(name, **{"begin": -60 * self.DAY, **more})

    def test_short_lives(self):
        """For a certificate of three days, the warning comes on its last day."""
        self.r = self.redis(tls=self.certificate("redis", begin=-3600, end=3 * self.DAY - 3600))
        d = self.daemon()
        d.advance("24h")
        until(d.ready)
        self.assertEqual(self.warnings(d), [])
        d.advance("24h")
        until(lambda: self.warnings(d) == [("certificate expires soon", "redis", "0")])

    def test_warned_once_a_day(self):
        """... of each certificate that ends within 14 days, from then on."""
        self.r = self.redis(tls=self.certificate("redis", end=14 * self.DAY + 7200), clients="yes")
        cert, key = self.certificate("me", end=13 * self.DAY - 60)
        d = self.daemon(tls_cert_file=cert, tls_key_file=key)
        ours, peers = ("certificate expires soon", "redis.tls_cert_file"), ("certificate expires soon", "redis")
        until(lambda: self.warnings(d) == [(*ours, "12")])
        d.advance("12h")
        until(lambda: self.warnings(d) == [(*ours, "12"), (*peers, "13")])
        d.advance("12h")
        until(lambda: self.warnings(d) == [(*ours, "12"), (*peers, "13"), (*ours, "11")])
        d.advance("2m")
        until(d.ready)
        self.assertEqual(len(self.warnings(d)), 3)

    def test_ours_is_one_certificate_however_many_masters_there_are(self):
        nodes = (*self.certificate("node", end=14 * self.DAY - 60), self.ca.pem)
        cluster = Cluster(self.dir, self._keep, replicas=0, args=STEADY, tls=nodes)
        cert, key = self.certificate("me", end=13 * self.DAY - 60)
        d = self.daemon(url=cluster.url(), tls_cert_file=cert, tls_key_file=key)
        of_nodes = ("certificate expires soon", "redis", "13")  # each node has a file of its own
        until(lambda: self.warnings(d).count(of_nodes) == 3)
        until(d.ready)
        self.assertEqual(len(self.warnings(d)), 4, d.log())

    def test_info(self):
        self.r = self.redis(tls=self.ca.certificate("redis", end=30 * self.DAY), clients="yes",
                            args=["--tls-protocols", "TLSv1.2"])
        cert, key = self.ca.certificate("me", end=20 * self.DAY)
        d = self.daemon(tls_cert_file=cert, tls_key_file=key)
        info = d.info("redis")
        self.assertEqual(info["redis_tls_version"], "TLSv1.2")
        self.assertRegex(info["redis_tls_cipher"], "^ECDHE-")
        for field, days in (("peer", 30), ("own", 20)):
            at = time.mktime(time.strptime(info["redis_tls_%s_expires" % field], "%Y-%m-%dT%H:%M:%SZ")) - time.timezone
            self.assertLess(abs(at - time.time() - days * self.DAY), 600)
        self.assertEqual(self.warnings(d), [])

    def test_without_tls(self):
        d = self.rlockd()
        fields = ("version", "cipher", "peer_expires", "own_expires")
        self.assertEqual([d.info("redis")["redis_tls_" + f] for f in fields], [""] * 4)


class Time(Tls):
    def test_it_runs_out(self):
        """Open connections go on; new ones are refused; a new certificate is accepted when it is there."""
        life = 4 * harness.SLOW
        self.r = self.redis(tls=self.ca.certificate("short", end=life))
        over = time.monotonic() + life
        d = self.daemon()
        with d.conn() as c:
            self.assertGreater(c.cmd("LOCK", "a"), 0)
            within(lambda: time.monotonic() > over + 1)
            self.assertGreater(c.cmd("LOCK", "b"), 0)
            self.r.cut()
            until(lambda: "expired on" in d.info("redis")["redis_last_error"])
            self.r.exchange(self.ca.certificate("long"))
            until(d.ready)
            self.assertEqual(c.cmd("UNLOCK", "a"), 0)


class Files(Tls):
    """Errors of the files that `rlockd -t` and a start report, before any connection is made."""

    def setUp(self):
        super().setUp()
        self.cert, self.key = self.ca.certificate("me")

    def check(self, env=None, url="rediss://localhost:1", **keys):
        """(status, output of -t)"""
        path = os.path.join(self.dir, "t.yaml")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as f:
            f.write(self.conf(url, **keys))
        status, out, err = self.run_words([os.path.join(harness.BUILD, "rlockd"), "-t", "-c", path], env=env)
        return status, out + err

    def refuses(self, want, env=None, **keys):
        status, reported = self.check(env, **keys)
        self.assertRegex(reported, want)
        self.assertNotIn("configuration ok", reported)
        self.assertEqual(status, 1)

    def test_good(self):
        status, reported = self.check(tls_cert_file=self.cert, tls_key_file=self.key)
        self.assertEqual((status, reported), (0, "configuration ok\n"))

    def test_every_shape(self):
        nodes = "quorum:unix:/none,rediss://localhost:2,rediss://localhost:3"
        for url in ("sentinel+tls:localhost:1/master", "cluster+tls:localhost:1", nodes):
            with self.subTest(url=url):
                self.refuses("^redis.tls_ca_file: No such file or directory: /none$", url=url, tls_ca_file="/none")
                status, reported = self.check(url=url, tls_cert_file=self.cert, tls_key_file=self.key)
                self.assertEqual((status, reported), (0, "configuration ok\n"))

    def test_a_start_says_the_same(self):
        d = self.daemon("rediss://localhost:1", wait=False, tls_ca_file="/none")
        self.assertEqual(d.wait(), 1)
        self.assertIn('error="redis.tls_ca_file: No such file or directory: /none"', d.log())

    def test_not_there_or_nothing_in_it(self):
        self.refuses("^redis.tls_ca_file: No such file or directory: /none$", tls_ca_file="/none")
        self.refuses("^redis.tls_ca_file: has no certificate in PEM format: /dev/null$", tls_ca_file="/dev/null")
        self.refuses("^redis.tls_ca_file: has no certificate in PEM format: ", tls_ca_file=self.ca.revocation_list())
        self.refuses("^redis.tls_cert_file: No such file or directory: /none$", tls_cert_file="/none",
                     tls_key_file=self.key)
        self.refuses("^redis.tls_cert_file: has no certificate in PEM format: ", tls_cert_file=self.key,
                     tls_key_file=self.key)
        self.refuses("^redis.tls_key_file: cannot be opened: No such file or directory: /none$",
                     tls_cert_file=self.cert, tls_key_file="/none")
        self.refuses("^redis.tls_key_file: is a directory: ", tls_cert_file=self.cert, tls_key_file=self.dir)
        self.refuses("^redis.tls_key_file: has no private key in PEM format: ", tls_cert_file=self.cert,
                     tls_key_file=self.cert if os.chmod(self.cert, 0o600) is None else "")

    def test_what_belongs_together(self):
        other = self.ca.certificate("other")
        self.refuses("^redis.tls_key_file: is not the key of the certificate in tls_cert_file: ",
                     tls_cert_file=self.cert, tls_key_file=other[1])
        self.refuses("^redis.tls_cert_file: there is no tls_key_file to it: ", tls_cert_file=self.cert)
        self.refuses("^redis.tls_key_file: there is no tls_cert_file that it belongs to: ", tls_key_file=self.key)

    def test_a_key_that_everyone_may_read(self):
        os.chmod(self.key, 0o604)
        self.refuses(r"^redis.tls_key_file: may be read by everyone \(mode 0604\): chmod o-r: ",
                     tls_cert_file=self.cert, tls_key_file=self.key)

    def test_a_key_with_a_passphrase(self):
        """No passphrase is asked for, on any terminal."""
        locked = os.path.join(self.dir, "locked.key")
        self.ca.openssl("ec", "-in", self.key, "-aes128", "-passout", "pass:word", "-out", locked)
        os.chmod(locked, 0o600)
        self.refuses("^redis.tls_key_file: is encrypted, and a daemon cannot ask for the passphrase: ",
                     tls_cert_file=self.cert, tls_key_file=locked)

    def test_over_or_not_yet(self):
        """Only a warning: Redis decides, and by its own clock."""
        for life, want in (({"begin": -7200, "end": -3600}, "expired on "), ({"begin": 3600}, "not valid before ")):
            cert, key = self.ca.certificate("me", **life)
            status, reported = self.check(tls_cert_file=cert, tls_key_file=key)
            self.assertRegex(reported, r"rlockd: warning: redis.tls_cert_file: %s20\d\d-.* UTC: " % want)
            self.assertEqual(status, 0)
            d = self.daemon("rediss://localhost:1", name=want[:3], wait=False, tls_cert_file=cert, tls_key_file=key)
            until(d.serving)
            self.assertIn('warn redis certificates reason="redis.tls_cert_file: %s' % want, d.log())

    def test_trust_that_is_over(self):
        cert, key = self.ca.certificate("ca", begin=-7200, end=-3600)
        self.assertRegex(self.check(tls_ca_file=cert)[1], "rlockd: warning: redis.tls_ca_file: expired on ")

    def test_credentials(self):
        passed = os.path.join(self.dir, "credentials")
        os.mkdir(passed)
        for name, path in (("ca", self.ca.pem), ("cert", self.cert), ("key", self.key)):
            os.link(path, os.path.join(passed, name))
        with open(os.open(os.path.join(passed, "password"), os.O_WRONLY | os.O_CREAT, 0o400), "w") as f:
            f.write("s3cret\n")
        keys = {"tls_ca_file": "credential:ca", "tls_cert_file": "credential:cert", "tls_key_file": "credential:key",
                "password_file": "credential:password"}
        env = {"CREDENTIALS_DIRECTORY": passed}
        self.r = self.redis(clients="yes", args=["--requirepass", "s3cret"])
        d = self.daemon(env=env, **keys)
        self.assertGreater(d.cmd("LOCK", "a"), 0)
        self.assertNotIn("s3cret", d.log() + d.cmd("INFO", "all") + str(d.cmd("CONFIG", "GET", "*")))
        self.assertIn("credential:password", str(d.cmd("CONFIG", "GET", "redis.*")))
        d.stop()
        none = "is a credential, and systemd has passed none"
        self.refuses("redis.password_file: %s" % none, **keys)
        keys["password_file"] = None
        self.refuses("^redis.tls_ca_file: %s" % none, **keys)
        self.refuses("^redis.tls_ca_file: is not the name of a credential: ", env=env, **{**keys, "tls_ca_file":
                     "credential:../ca/ca.pem"})
        os.chmod(os.path.join(passed, "key"), 0o444)
        self.refuses("^redis.tls_key_file: may be read by everyone", env=env, **keys)


class Reload(Tls):
    def hup(self, d, want, **keys):
        """Exchanges the configuration, and waits for the line of the log about it."""
        d.write_conf(self.conf(**keys))
        n = len(re.findall('conf "?(?:not )?reloaded', d.log()))
        d.signal(signal.SIGHUP)
        until(lambda: len(re.findall('conf "?(?:not )?reloaded', d.log())) > n)
        self.assertIn(want, d.log().split("signal name=Hangup")[-1])

    def test_a_certificate_of_ours(self):
        """In the same files: new connections use the new certificate, and open ones stay."""
        mine, key = self.ca.certificate("first")
        self.r = self.redis(clients="yes")
        d = self.daemon(tls_cert_file=mine, tls_key_file=key)
        with d.conn() as c:
            self.assertGreater(c.cmd("LOCK", "a"), 0)
            new, new_key = self.ca.certificate("second")
            other = Authority(self.dir, "other")
            os.replace(new, mine)
            self.hup(d, "redis.tls_key_file: is not the key of the certificate", tls_cert_file=mine, tls_key_file=key)
            self.assertIn("not reloaded: the old configuration stays", d.log())
            self.again(d)  # with the files that were read before
            os.replace(new_key, key)
            self.hup(d, "conf reloaded", tls_cert_file=mine, tls_key_file=key)
            was = d.info("stats")["redis_connects"]
            self.assertEqual(d.info("redis")["redis_links_up"], "3")
            self.assertEqual(d.info("stats")["redis_disconnects"], "3")
            self.assertEqual(d.info("stats")["redis_connects"], was)
            self.again(d)
            theirs = other.certificate("third")
            self.hup(d, "conf reloaded", tls_cert_file=theirs[0], tls_key_file=theirs[1])
            self.r.cut()
            until(lambda: "does not know who issued our certificate" in d.info("redis")["redis_last_error"])
            self.hup(d, "conf reloaded", tls_cert_file=mine, tls_key_file=key)
            until(d.ready)
            self.assertEqual(c.cmd("UNLOCK", "a"), 0)

    def again(self, d):
        """Ends all links, and waits until they are up again."""
        until(lambda: d.info("redis")["redis_links_up"] == "3")
        was = int(d.info("stats")["redis_connects"])
        self.r.cut()
        until(lambda: int(d.info("stats")["redis_connects"]) >= was + 3)

    def test_the_authority_that_we_trust(self):
        """Redis has a certificate of another authority: new connections require that authority."""
        other = Authority(self.dir, "other")
        self.r = self.redis()
        d = self.daemon()
        self.r.exchange(other.certificate("redis"))
        self.hup(d, "conf reloaded", tls_ca_file=other.pem)
        self.again(d)
        self.hup(d, "conf reloaded")
        self.r.cut()
        until(lambda: "issued by" in d.info("redis")["redis_last_error"])

    def test_the_password(self):
        self.r = self.redis(args=["--requirepass", "one"])
        secret = os.path.join(self.dir, "secret")

        def put(text, mode=0o600):
            with open(os.open(secret, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as f:
                f.write(text)
            os.chmod(secret, mode)
        put("one\n")
        d = self.daemon(password_file=secret)
        put("two\n", 0o644)
        self.hup(d, "redis.password_file: may be read by everyone", password_file=secret)
        put("two\n")
        with self.r.conn() as c:
            self.assertEqual(c.cmd("AUTH", "one"), "OK")
            self.assertEqual(c.cmd("CONFIG", "SET", "requirepass", "two"), "OK")
            self.hup(d, "conf reloaded", password_file=secret)
            was = int(d.info("stats")["redis_connects"])
            self.assertEqual(c.cmd("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"), 2)
            until(lambda: int(d.info("stats")["redis_connects"]) >= was + 2)
        until(d.ready)
        self.assertNotIn("two", d.log())

    def test_another_url_needs_a_restart(self):
        """... and the files beside the new URL are for that URL."""
        self.r = self.redis()
        d = self.daemon()
        self.hup(d, "needs a restart key=redis.url", url="redis://localhost:1", tls_ca_file=None)
        self.again(d)
        self.hup(d, "conf reloaded", url="redis://localhost:1", tls_ca_file=None)
        self.again(d)

    def test_another_password_in_the_url_needs_a_restart(self):
        """... and so does another topology; until then the URL in use stays."""
        self.r = self.redis(args=["--requirepass", "one"])
        d = self.daemon(password="one")
        with self.r.conn() as c:
            self.assertEqual(c.cmd("AUTH", "one"), "OK")
            for keys in ({"url": self.r.url.replace("//", "//:one@")}, {"url": "embedded", "tls_ca_file": None}):
                self.hup(d, "needs a restart key=redis.url", **keys)
                until(lambda: d.info("redis")["redis_links_up"] == "3")
                was = int(d.info("stats")["redis_connects"])
                self.assertEqual(c.cmd("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"), 2)
                until(lambda: int(d.info("stats")["redis_connects"]) >= was + 2)


class Run(Case):
    """`make run TOPOLOGY=tls`, in a directory with the files of this one."""

    def test_run(self):
        p = self.make_run("tls")
        self.assertRegex(p.log(), r"\ninfo redis up [^\n]*\n(?s:.*)\nrlockd is ready\. (?s:.*) --cacert ")
        self.assertNotIn("\n\n\n", p.log())
        with harness.Conn(os.path.join(self.dir, "build", "run", "rlockd.sock")) as c:
            self.assertGreater(c.cmd("LOCK", "a"), 0)
            self.assertIn("redis_address:rediss://localhost:", c.cmd("INFO", "redis"))
        line = re.search("^  (redis-cli -p .*?) #", p.log(), re.M).group(1)
        status, out, err = self.run_words(line.split())
        self.assertEqual(status, 0, err)
        self.assertEqual(len(re.findall(" name=rlockd ", out)), 3)
        p.signal(signal.SIGINT)
        p.wait()
        until(lambda: self.run_words(line.split())[0] != 0)


class OverTls:
    """A suite of another file, over TLS."""

    def setUp(self):
        self.ca = None
        super().setUp()

    def redis(self, **more):
        self.ca = self.ca or Authority(self.dir)
        return self._keep(TlsRedis(self.dir, self.ca.certificate("redis"), self.ca, **more))

    def rlockd(self, conf="", **more):
        ours = 'redis: { tls_ca_file: "%s", ' % self.ca.pem
        conf = conf.replace("redis: { ", ours) if "redis: { " in conf else ours + "}\n" + conf
        return super().rlockd(conf=conf, **more)


class Kinds(OverTls, test_kinds.Kinds):
    """The same as over connections without TLS."""


if __name__ == "__main__":
    harness.main()
