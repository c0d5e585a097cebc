#!/usr/bin/env python3
"""HUP with several servers, in a cluster or a quorum: each of them takes another login and other certificates.

A HUP with another URL needs a restart: until then the URL in use stays, and the new configuration must suit that URL.
"""
import os
import signal

import harness
from certificates import Authority
from clusters import STEADY, Cluster, Node, slot_of
from harness import free_port, until
from quorums import Masters
from test_sentinel import nodes

USER = "app"  # the tests themselves use the Unix sockets, as the user without a password


class Reload(harness.Case):
    def setUp(self):
        super().setUp()
        self.paths = {name: os.path.join(self.dir, "our-" + name) for name in ("password", "cert", "key", "ca")}
        self.other = Authority(self.dir, "other")
        self.ca = Authority(self.dir, "first")
        self.put("one", self.ca)

    def put(self, password, ca):
        """Writes the files that the daemon reads: password, certificate, key, and the authority that it trusts."""
        cert, key = ca.certificate("rlockd")
        texts = {"password": password + "\n"}
        for name, path in (("cert", cert), ("key", key), ("ca", ca.pem)):
            with open(path) as f:
                texts[name] = f.read()
        for name, text in texts.items():
            with open(os.open(self.paths[name], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as f:
                f.write(text)

    def daemon(self, url):
        return self.rlockd(redis=url, conf=(
            'redis: { timeout: 5s, backoff_max: 50ms, user: %s, password_file: "%s", tls_cert_file: "%s", '
            'tls_key_file: "%s", tls_ca_file: "%s" }\nlocks: { lease: 200s }\n') % (USER, *self.paths.values()))

    def allow(self, node, password):
        self.assertEqual(node.cmd("ACL", "SETUSER", USER, "reset", "on", ">" + password, "~*", "&*", "+@all"), "OK")

    def exchange(self, servers):
        """From now on each server takes the other password alone, and has a certificate of the other authority."""
        for i, node in enumerate(servers):
            self.allow(node, "two")
            cert, key = self.other.certificate("node%d" % i)
            self.assertEqual(node.cmd("CONFIG", "SET", "tls-cert-file", cert, "tls-key-file", key,
                                      "tls-ca-cert-file", self.other.pem), "OK")

    def hup(self, d):
        self.put("two", self.other)
        d.signal(signal.SIGHUP)
        until(lambda: "conf reloaded" in d.log())

    def cut(self, d, servers):
        """Ends all connections of the daemon, which connects again."""
        was = d.info("redis")["redis_links"]
        connects = int(d.info("stats")["redis_connects"])
        for node in servers:
            node.cmd("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
            node.cmd("CLIENT", "KILL", "TYPE", "pubsub")
        until(lambda: int(d.info("stats")["redis_connects"]) >= connects + int(was), 20)
        until(lambda: d.info("redis")["redis_links_up"] == was, 20)


class OfAQuorum(Reload):
    def place(self, i):
        port = free_port()
        cert, key = self.ca.certificate("node%d" % i)
        return {"at": "rediss://localhost:%d" % port,
                "args": ("--tls-port", str(port), "--bind", "127.0.0.1", "::1", "--tls-auth-clients", "yes",
                         "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", self.ca.pem)}

    def test_of_all_nodes(self):
        m = Masters(self, 3, self.place)
        for node in m.nodes:
            self.allow(node, "one")
        d = self.daemon(m.url())
        until(lambda: [n["state"] for n in nodes(d)] == ["voting"] * 3)
        c = self.conn(d)
        t = c.cmd("LOCK", "a")
        self.exchange(m.nodes)
        self.hup(d)
        self.cut(d, m.nodes)
        until(lambda: [n["state"] for n in nodes(d)] == ["voting"] * 3)
        self.assertGreater(c.cmd("LOCK", "b"), t)
        self.assertEqual(c.cmd("UNLOCK", "a"), 0)


class OfACluster(Reload):
    def tls(self, ca):
        return (*ca.certificate("node"), ca.pem)

    def test_of_all_nodes_and_of_one_that_comes_later(self):
        """The links that ask for the map have the new login as well: no node refuses any link."""
        cluster = Cluster(self.dir, self._keep, replicas=0, args=STEADY, tls=self.tls(self.ca))
        for node in cluster.nodes:
            self.allow(node, "one")
            self.assertEqual(node.cmd("CONFIG", "SET", "tls-auth-clients", "yes"), "OK")
        d = self.daemon(cluster.url())
        c = self.conn(d)
        self.assertIsInstance(c.cmd("LOCK", "a"), int)
        self.exchange(cluster.nodes)
        self.hup(d)
        self.cut(d, cluster.nodes)
        self.assertIsInstance(c.cmd("LOCK", "b", "WAIT", "10s"), int)
        self.assertEqual(c.cmd("UNLOCK", "a"), 0)
        new = self._keep(Node(self.dir, "new", args=STEADY, tls=self.tls(self.other)))
        self.allow(new, "two")
        self.assertEqual(new.cmd("CONFIG", "SET", "tls-auth-clients", "yes"), "OK")
        cluster.join(new)
        cluster.move(slot_of("c"), new)
        until(lambda: isinstance(c.cmd("LOCK", "c", "WAIT", "1s"), int), 30)
        self.assertEqual(new.cmd("EXISTS", "c"), 1)
        # An error of OpenSSL: not of a connection that its client gave up.
        self.assertNotIn("Error accepting a client connection: error:", "".join(n.log() for n in cluster.nodes))


class OtherUrl(harness.Case):
    """The file has the URL of one Redis, while the daemon uses a cluster or a quorum, or the reverse."""

    def begin(self, url):
        self.url, self.other = url, self.redis(name="other").url
        self.d = self.rlockd(redis=None, conf=self.conf(url))
        self.c = self.conn(self.d)
        until(lambda: isinstance(self.c.cmd("LOCK", "y", "WAIT", "1s"), int), 30)
        self.assertEqual(self.c.cmd("UNLOCK", "y"), 0)

    def conf(self, url, more="", login=""):
        return 'redis: { url: "%s"%s }\n%s' % (url, login, more)

    def hup(self, conf, taken=True):
        """The lines of the log about the reload."""
        words = "conf reloaded" if taken else "conf not reloaded"
        n, was = len(self.d.log()), self.d.log().count(words)
        self.d.write_conf(conf)
        self.d.signal(signal.SIGHUP)
        until(lambda: self.d.log().count(words) > was)
        return self.d.log()[n:]

    def is_in_use(self):
        self.assertEqual(self.c.cmd("CONFIG", "GET", "redis.url"), ["redis.url", self.url])
        self.assertEqual(self.c.cmd("CONFIG", "GET", "redis.user"), ["redis.user", ""])
        self.assertIsInstance(self.c.cmd("LOCK", "y"), int)
        self.assertEqual(self.c.cmd("UNLOCK", "y"), 0)

    def refuses(self, rule, why):
        """A rule that the shape in use cannot have, while the shape of the other URL could."""
        log = self.hup(self.conf(self.other, "rules: [ { match: y*, %s } ]\n" % rule), taken=False)
        self.assertIn("redis.url: the URL in use stays until a restart: " + why, log)
        self.assertNotIn("needs a restart key", log)
        self.is_in_use()

    def returns(self):
        """Each HUP with another URL logs that it needs a restart; a HUP with the URL in use logs nothing."""
        for _ in range(2):
            log = self.hup(self.conf(self.other, "locks: { lease: 7s }\n", ", user: other, timeout: 3s"))
            self.assertIn("conf needs a restart key=redis.url", log)
            self.assertIn("conf needs a restart key=redis.timeout", log)
            self.is_in_use()
            self.assertEqual(self.c.cmd("CONFIG", "GET", "redis.timeout"), ["redis.timeout", "1s"])
            self.assertEqual(self.c.cmd("CONFIG", "GET", "locks.lease"), ["locks.lease", "7s"])
        self.assertNotIn("needs a restart", self.hup(self.conf(self.url)))
        self.is_in_use()

    def test_a_quorum_is_in_use(self):
        self.begin(Masters(self, 3).url())
        self.refuses("replicas: 1", "a quorum has the kinds reentrant and simple, without replicas, and rules.0 (y*) "
                                    "says replicas")
        self.refuses("kind: rw", "a quorum has the kinds reentrant and simple, without replicas, and rules.0 (y*) "
                                 "says rw")
        self.returns()

    def test_a_cluster_is_in_use(self):
        self.begin(Cluster(self.dir, self._keep, replicas=0, args=STEADY).url())
        self.refuses("wakes: spring", "locks in a cluster have no wakes, and rules.0 (y*) says wakes")
        self.returns()

    def test_one_redis_is_in_use(self):
        self.begin(self.redis().url)
        self.other = "quorum:redis://127.0.0.1:1,redis://127.0.0.1:2,redis://127.0.0.1:3"
        log = self.hup(self.conf(self.other, "rules: [ { match: y*, kind: rw } ]\n"), taken=False)
        # a restart with this configuration would fail
        self.assertIn("redis.url: a quorum has the kinds reentrant and simple", log)
        self.returns()


if __name__ == "__main__":
    harness.main()
