#!/usr/bin/env python3
"""A URL whose scheme is for servers of another sort: -UNAVAILABLE and INFO name the scheme that the server needs, in
full, and name none where the server only stands still.
"""
import re
import signal
import socket
import threading

import harness
from certificates import Authority
from clusters import STEADY, Cluster
from harness import Case, until
from sentinels import Deployment
from test_tls import TlsRedis

SENTINEL = r"a sentinel\? Its URL is sentinel:HOST:PORT/MASTER"
CLUSTER = r"a node of a cluster\? Its URL is cluster:HOST:PORT"


class Schemes(Case):
    def check(self, url, hint, conf="", name="rlockd"):
        d = self.rlockd(redis=url, conf=conf, name=name, wait=False)
        until(d.serving)

        def reported():
            """the hint is in INFO"""
            info = d.info("redis")
            return re.search(hint, info["redis_last_error"] + info["redis_refusal"])
        until(reported)
        self.assertRegex(d.cmd("LOCK", "a", "WAIT", "100ms"), "^UNAVAILABLE .*" + hint)
        d.stop()

    def test_of_a_sentinel(self):
        at = "127.0.0.1:%d" % Deployment(self, replicas=1).sentinels[0].port
        self.check("redis://" + at, SENTINEL, name="plain")
        self.check("cluster:" + at, SENTINEL, name="cluster")
        self.check("quorum:redis://%s,redis://127.0.0.1:1,redis://127.0.0.1:2" % at, SENTINEL, name="quorum")

    def test_of_a_cluster(self):
        c = Cluster(self.dir, self._keep, replicas=0, args=STEADY)
        self.check("redis://" + c.nodes[0].addr, CLUSTER)

    def test_of_a_plain_redis(self):
        at = "127.0.0.1:%d" % self.redis(tcp=True).port
        self.check("sentinel:%s/m" % at, r"SENTINEL MYID\): it is no sentinel, or older than Redis 6\.2$",
                   name="sentinel")
        self.check("cluster:" + at, "cluster support disabled$", name="cluster")


class Silent(Case):
    """A server that takes connections and never answers."""
    GUESS = "begins with rediss://"

    def reason(self, port, name="rlockd"):
        d = self.rlockd(redis="redis://127.0.0.1:%d" % port, conf="redis: { connect_timeout: 300ms }\n", name=name,
                        wait=False)
        until(d.serving)
        return until(lambda: d.info("redis")["redis_last_error"]), d.log()

    def test_a_stopped_one_may_speak_without_tls(self):
        r = self.redis(tcp=True)
        r.signal(signal.SIGSTOP)
        self.addCleanup(r.signal, signal.SIGCONT)
        error, log = self.reason(r.port)
        self.assertEqual(error, "no answer within redis.connect_timeout")
        self.assertIn(error, log)
        self.assertNotIn(self.GUESS, log)

    def test_one_that_closes_may_speak_tls(self):
        for reset in (False, True):
            with self.subTest(reset=reset), socket.create_server(("127.0.0.1", 0)) as s:
                def close(s=s, reset=reset):
                    while True:
                        try:
                            c = s.accept()[0]
                        except OSError:
                            return
                        if not reset:
                            c.recv(1000)  # unread bytes turn a FIN into a RST
                        c.close()
                threading.Thread(target=close, daemon=True).start()
                self.assertIn(self.GUESS, self.reason(s.getsockname()[1], "d%d" % reset)[0])
                s.shutdown(socket.SHUT_RDWR)


class Whole(Case):
    def test_the_reason_of_tls_is_not_cut(self):
        ours, theirs = Authority(self.dir, "ours"), Authority(self.dir, "theirs")
        server = TlsRedis(self.dir, theirs.certificate("redis"), theirs)
        self._keep(server)
        at = "127.0.0.1:%d" % server.tls_port
        for i, url in enumerate(("sentinel+tls:%s/m" % at, "cluster+tls:" + at,
                                 "quorum:rediss://%s,rediss://127.0.0.1:1,rediss://127.0.0.1:2" % at)):
            d = self.rlockd(redis=url, conf="redis: { tls_ca_file: '%s' }\n" % ours.pem, name="d%d" % i, wait=False)
            until(d.serving)

            def reported(d=d):
                """the refusal ends where the reason ends"""
                return re.search(r"issued by .*, who is not in .*\(redis.tls_ca_file\)$",
                                         d.info("redis")["redis_refusal"])
            until(reported)
            d.stop()


if __name__ == "__main__":
    harness.main()
