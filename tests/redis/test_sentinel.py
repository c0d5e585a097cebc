#!/usr/bin/env python3
"""A master that sentinels name: how it is found, and what happens to locks in a switch. Sentinels, replicas and
partitions are real; a partition is between two network namespaces, where those are allowed.
"""
import os
import re
import signal
import socket
import threading
import time

import harness
from certificates import Authority
from harness import Case, RError, free_port, until
from sentinels import NAME, Deployment, Server

CONF = "redis: { timeout: 500ms, connect_timeout: 500ms }\nlocks: { lease: 6s }\n"


def nodes(daemon):
    """The servers that INFO redis lists."""
    out = []
    for key, value in daemon.info("redis").items():
        if key.startswith("redis_node") and key != "redis_nodes":
            out.append(dict(pair.split("=", 1) for pair in value.split(",")))
    return out


def unread(port):
    """A connection of that port on loopback has bytes that its process has not read."""
    with open("/proc/net/tcp") as f:
        rows = [line.split() for line in f.readlines()[1:]]
    return any(row[1].endswith(":%04X" % port) and row[3] == "01" and int(row[4].split(":")[1], 16) > 0
               for row in rows)


class Sentinels(Case):
    conf = CONF

    def start(self, listed=None, conf="", name="rlockd", **more):
        self.d = Deployment(self, **more)
        return self.daemon(listed=listed, conf=conf, name=name)

    def daemon(self, listed=None, conf="", name="rlockd", **more):
        return self.rlockd(redis=self.d.url(listed), conf=conf or self.conf, name=name, **more)

    def granted(self, c, name, deadline=30):
        """The token of a LOCK that is repeated until it is granted."""
        end = time.monotonic() + deadline * harness.SLOW
        while True:
            answer = c.cmd("LOCK", name, "WAIT", "2s")
            if not isinstance(answer, RError):
                return answer
            self.assertTrue(answer.startswith("UNAVAILABLE"), answer)
            self.assertLess(time.monotonic(), end, answer)


class Found(Sentinels):
    """Which sentinels are asked, and how their answers are used."""

    def test_one_is_listed_and_the_others_are_discovered(self):
        r = self.start()
        self.assertEqual(len(nodes(r)), 6)
        self.assertEqual(r.cmd("LOCK", "a") > 0, True)
        r = self.daemon(listed=self.d.sentinels[:1], name="one")

        def all_there():
            """one master, two replicas and three sentinels are listed, and up"""
            return sorted(n["role"] for n in nodes(r)) == ["master", "replica", "replica"] + 3 * ["sentinel"] and \
                all(n["state"] == "up" for n in nodes(r))
        until(all_there)
        by_role = {n["role"]: n for n in nodes(r)}
        self.assertEqual(by_role["master"]["address"], self.d.servers[0].addr)
        self.assertEqual(by_role["master"]["epoch"], self.d.servers[0].cmd("GET", "rlock:epoch").split()[0])
        self.assertGreater(int(by_role["sentinel"]["rtt_us"]), 0)

    def test_what_is_killed_is_shown_and_missed_by_no_client(self):
        r = self.start()
        self.d.sentinels[2].kill()
        self.d.servers[2].kill()

        c = self.conn(r)
        self.assertGreater(c.cmd("LOCK", "a"), 0)
        until(lambda: [n["role"] for n in nodes(r) if n["state"] == "down"] == ["sentinel"])
        self.assertGreater(c.cmd("LOCK", "b"), 0)
        self._keep(self.d.sentinels[2].again())
        until(lambda: "sentinel up address=redis://127.0.0.1:%d" % self.d.sentinels[2].port in r.log())

    def test_a_name_and_a_number_may_be_one_sentinel(self):
        self.d = Deployment(self, replicas=0, bounded=False)
        ports = [s.port for s in self.d.sentinels]
        r = self.rlockd(redis="sentinel:localhost:%d,127.0.0.1:%d,127.0.0.1:%d/m" % (ports[0], ports[1], ports[2]),
                        conf=CONF)
        self.assertGreater(self.conn(r).cmd("LOCK", "a"), 0)
        until(lambda: len([n for n in nodes(r) if n["role"] == "sentinel" and n["state"] == "up"]) == 3)
        twice = self.rlockd(redis="sentinel:localhost:%d,127.0.0.1:%d/m" % (ports[0], ports[0]), conf=CONF,
                            name="twice")
        until(lambda: len([n for n in nodes(twice) if n["role"] == "sentinel" and n["state"] == "up"]) == 4)
        for s in self.d.sentinels[1:]:
            s.signal(signal.SIGSTOP)
        until(lambda: twice.info("redis")["redis_refusal"] == "1 of 3 sentinels answer: no majority")

    def test_all_with_tls(self):
        authority = Authority(self.dir)
        tls = (*authority.certificate("redis"), authority.pem)
        self.d = Deployment(self, replicas=1, bounded=False, tls=tls)
        conf = CONF.replace("{ timeout", "{ tls_ca_file: %s, timeout" % authority.pem)
        r = self.daemon(listed=self.d.sentinels[:1], conf=conf)
        until(lambda: len(nodes(r)) == 5 and all(n["state"] == "up" for n in nodes(r)))
        self.assertTrue(all(n["address"].startswith("rediss://127.0.0.1:") for n in nodes(r)))
        self.assertGreater(self.conn(r).cmd("LOCK", "a"), 0)
        # untrusting has the authorities of the system only
        untrusting = self.rlockd(redis=self.d.url(), conf=CONF, name="untrusting", wait=False)
        until(lambda: "certificate" in untrusting.log())
        self.assertEqual(untrusting.info("redis")["redis_state"], "down")

    def test_silent_ones_delay_nothing_and_a_minority_grants_nothing(self):
        self.d = Deployment(self)
        first, second, third = self.d.sentinels
        first.signal(signal.SIGSTOP)  # it is the first that the daemon asks, and it accepts connections
        began = time.monotonic()
        r = self.daemon()
        self.assertLess(time.monotonic() - began, 5 * harness.SLOW)
        c = self.conn(r)
        self.assertGreater(c.cmd("LOCK", "kept"), 0)
        second.signal(signal.SIGSTOP)
        until(lambda: "1 of 3 sentinels answer" in r.info("redis")["redis_refusal"])
        refused = c.cmd("LOCK", "other", "WAIT", "300ms")
        self.assertIsInstance(refused, RError)
        self.assertIn("1 of 3 sentinels answer: no majority", refused)
        self.assertEqual(r.info("redis")["redis_state"], "up")
        left = self.d.servers[0].cmd("PTTL", "kept")
        until(lambda: self.d.servers[0].cmd("PTTL", "kept") > left)  # held locks are renewed all the same
        first.signal(signal.SIGCONT)
        self.assertGreater(self.granted(c, "other"), 0)
        self.assertEqual(r.info("redis")["redis_refusal"], "")

    def test_a_healthy_start_warns_of_nothing(self):
        r = self.start(conf=CONF.replace("connect_timeout: 500ms", "connect_timeout: %ds" % (5 * harness.SLOW)))
        self.assertGreater(self.conn(r).cmd("LOCK", "a"), 0)
        self.assertEqual(self.warned(r), [])

    def test_silent_sentinels_are_warned_of(self):
        """... soon, though no warning comes before the first answers."""
        r = self.rlockd(redis="sentinel:127.0.0.1:%d/m" % free_port(), conf=CONF, wait=False)
        warning = "\nwarn redis unreachable .* reason=.no sentinel reports where m is: Connection refused"
        until(lambda: re.search(warning, r.log()))

    @staticmethod
    def warned(r):
        return [line for line in r.log().splitlines() if line.split(" ")[0] in ("warn", "error")]

    def test_no_sentinel_at_the_start(self):
        port = free_port()
        r = self.rlockd(redis="sentinel:127.0.0.1:%d/m" % port, conf=CONF, wait=False)
        until(r.serving)
        began = time.monotonic()
        answer = self.conn(r).cmd("LOCK", "a", "WAIT", "300ms")
        self.assertLess(time.monotonic() - began, 5 * harness.SLOW)
        self.assertTrue(answer.startswith("UNAVAILABLE Redis cannot answer: no sentinel reports where m is"), answer)
        waiting = self.conn(r)
        waiting.ask("LOCK", "b", "WAIT", "60s")
        self.d = Deployment(self, replicas=1, bounded=False, ports=[port])
        self.assertGreater(waiting.read(), 0)

    def test_a_master_that_they_do_not_know(self):
        self.d = Deployment(self, replicas=0, bounded=False)
        r = self.rlockd(redis=self.d.url().replace("/" + NAME, "/other"), conf=CONF, wait=False)
        until(r.serving)
        until(lambda: {n["state"] for n in nodes(r) if n["role"] == "sentinel"} == {"knows no such master"})
        self.assertEqual(r.info("redis")["redis_refusal"], "no sentinel reports where other is")

    def test_passwords_of_sentinels_are_their_own(self):
        self.d = Deployment(self, replicas=0, bounded=False, password="for-redis", sentinel_password="for-sentinels")
        with open(os.open(os.path.join(self.dir, "secret"), os.O_WRONLY | os.O_CREAT, 0o600), "w") as f:
            f.write("for-sentinels\n")
        both = "{ password: for-redis, sentinel_password_file: %s/secret, timeout" % self.dir
        r = self.daemon(conf=CONF.replace("{ timeout", both))
        self.assertGreater(self.conn(r).cmd("LOCK", "a"), 0)
        wrong = self.daemon(conf=CONF.replace("{ timeout", "{ password: for-redis, timeout"), name="wrong", wait=False)
        until(wrong.serving)
        until(lambda: "NOAUTH" in wrong.info("redis")["redis_refusal"])
        wrong.write_conf(CONF.replace("{ timeout", both))
        wrong.signal(signal.SIGHUP)
        until(wrong.ready)
        for daemon in (r, wrong):
            self.assertNotIn("for-", daemon.log() + str(daemon.info("redis")))

    def test_a_server_that_is_no_master_is_not_used(self):
        """The sentinels name a replica: the daemon asks it for its role, and nothing else."""
        self.d = Deployment(self, replicas=0, bounded=False)
        elsewhere = self._keep(Server(self.dir, "elsewhere"))
        self.d.servers[0].cmd("REPLICAOF", elsewhere.host, elsewhere.port)
        until(lambda: self.d.servers[0].info("master_link_status") == "up")
        r = self.daemon(wait=False)
        until(r.serving)
        until(lambda: r.info("redis")["redis_last_error"] == "not a master")
        self.assertTrue(self.conn(r).cmd("LOCK", "a", "WAIT", "300ms").startswith("UNAVAILABLE"))
        self.assertEqual(self.d.servers[0].cmd("PUBSUB", "CHANNELS", "rlock:*"), [])
        elsewhere.stop()
        self.d.servers[0].cmd("REPLICAOF", "NO", "ONE")
        self.assertGreater(self.granted(self.conn(r), "a"), 0)

    def test_strict_wants_a_master_that_stops_when_it_is_cut_off(self):
        self.d = Deployment(self, bounded=False, down_after=3000, args=("--min-replicas-to-write", "1"))  # lag: 10 s
        plain = self.daemon(name="plain")  # first: without an epoch, strict would wait for a lease
        strict = self.daemon(conf=CONF.replace("{ timeout", "{ strict: true, timeout"), name="strict")
        until(lambda: "a master that is cut off may go on granting" in plain.log())
        self.assertGreater(self.conn(plain).cmd("LOCK", "a"), 0)
        c = self.conn(strict)
        self.assertIn("min-replicas-max-lag + 2 s is longer than down-after-milliseconds",
                      c.cmd("LOCK", "b", "WAIT", "300ms"))
        self.d.servers[0].cmd("CONFIG", "SET", "min-replicas-max-lag", "2")
        self.assertIsInstance(c.cmd("LOCK", "b", "WAIT", "2s"), RError)  # the settings have been read again by then
        self.d.servers[0].cmd("CONFIG", "SET", "min-replicas-max-lag", "1")
        self.assertGreater(self.granted(c, "b"), 0)
        until(lambda: "a master that is cut off stops granting" in plain.log())


class Pause(Sentinels):
    """rlockd stood still, as on a suspended machine: the last answers of the sentinels are too old."""

    conf = "locks: { lease: 1h }\n"

    def test_the_first_request_is_served(self):
        d = self.start()
        c = self.conn(d)
        began = time.monotonic()
        for i in range(10):
            d.advance("10s")
            self.assertGreater(c.cmd("LOCK", "a%d" % i, "NOWAIT"), 0)
        self.assertLess(time.monotonic() - began, 3 * harness.SLOW)  # they are asked at once, not within a second
        self.assertNotIn("do not agree", d.log())

    def test_answers_on_their_way_are_asked_for_again(self):
        d = self.start()
        c = self.conn(d)
        for i in range(4):
            for s in self.d.sentinels:
                s.signal(signal.SIGSTOP)
            until(lambda: all(unread(s.port) for s in self.d.sentinels))
            d.advance("10s")
            if i % 2 == 0:
                c.line("LOCK a%d NOWAIT" % i)
                d.cmd("PING")
            for s in self.d.sentinels:
                s.signal(signal.SIGCONT)
            if i % 2 == 1:
                until(lambda: not any(unread(s.port) for s in self.d.sentinels))
                c.line("LOCK a%d NOWAIT" % i)
            self.assertGreater(c.read(), 0)
        self.assertNotIn("do not agree", d.log())

    def test_where_none_answers_any_more_nothing_is_granted(self):
        d = self.start()
        c = self.conn(d)
        self.assertGreater(c.cmd("LOCK", "a"), 0)
        for s in self.d.sentinels[1:]:
            s.signal(signal.SIGSTOP)
        d.advance("10s")

        def reason_logged():
            """the refusal says that a majority is missing"""
            refused = c.cmd("LOCK", "b", "NOWAIT")
            self.assertIsInstance(refused, RError)
            return refused.endswith(": 1 of 3 sentinels answer: no majority")
        until(reason_logged)
        self.assertEqual(self.d.servers[0].cmd("EXISTS", "b"), 0)


class Liar(threading.Thread):
    """A false sentinel, whose answers may be nonsense and endless."""

    MANY = 3000

    def __init__(self):
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.asked = 0

    def run(self):
        while True:
            try:
                conn = self.listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.talk, args=(conn,), daemon=True).start()

    def talk(self, conn):
        received = conn.makefile("rb")
        try:
            while True:
                words = [self.word(received) for _ in range(int(received.readline()[1:]))]
                conn.sendall(self.answer([w.upper() for w in words]))
        except (OSError, ValueError):
            conn.close()

    @staticmethod
    def word(received):
        n = int(received.readline()[1:])
        return received.read(n + 2)[:-2]

    @staticmethod
    def bulk(text):
        return b"$%d\r\n%s\r\n" % (len(text), text)

    def table(self, prefix, host):
        rows = []
        for i in range(self.MANY):
            words = [b"ip", host % (i // 250, i % 250), b"port", b"%d" % (1 + i), b"runid", b"%s%d" % (prefix, i),
                     b"flags", b"slave", b"ip"]  # an odd number
            rows.append(b"*%d\r\n" % len(words) + b"".join(self.bulk(w) for w in words))
        return b"*%d\r\n" % len(rows) + b"".join(rows)

    def answer(self, words):
        if words[:2] == [b"SENTINEL", b"MYID"]:
            return self.bulk(b"liar\r\nredis_state:up" + b"x" * 1000)
        if words[:2] == [b"SENTINEL", b"SENTINELS"]:
            return self.table(b"s", b"127.1.%d.%d")
        if words[:2] == [b"SENTINEL", b"REPLICAS"]:
            self.asked += 1
            return self.table(b"r", b"a\r\nredis_state:up,%d.%d" if self.asked % 2 else b"127.2.%d.%d")
        if words[:2] == [b"SENTINEL", b"MASTER"]:
            return b"*3\r\n" + self.bulk(b"down-after-milliseconds") + b":-5\r\n*0\r\n"
        if words[0] == b"SENTINEL":
            return b"*2\r\n" + self.bulk(b"127.0.0.1\r\n") + self.bulk(b"99999999999999999999")
        if words[0] == b"SUBSCRIBE":
            return b"*3\r\n" + self.bulk(b"subscribe") + self.bulk(words[1]) + b":1\r\n" + 1000 * (
                b"*3\r\n" + self.bulk(b"message") + self.bulk(b"+switch-master") + self.bulk(b"m"))
        return b"+PONG\r\n"


class Lies(Sentinels):
    def test_what_a_sentinel_makes_long_is_cut(self):
        liar = Liar()
        liar.start()
        self.addCleanup(liar.listener.close)
        self.d = Deployment(self, replicas=0, sentinels=1, bounded=False)
        r = self.rlockd(redis="sentinel:127.0.0.1:%d/m" % liar.port, conf=CONF, wait=False)
        until(r.serving)
        until(lambda: "too many sentinels" in r.log())
        until(lambda: liar.asked >= 1)
        self.assertLessEqual(len(nodes(r)), 1 + 16 + 16)
        self.assertEqual(r.info("redis")["redis_state"], "down")
        self.assertTrue(self.conn(r).cmd("LOCK", "a", "WAIT", "100ms").startswith("UNAVAILABLE"))
        asked = r.info("stats")["redis_calls"]
        self.assertLess(int(asked), 2000)
        self.assertLess(r.cpu(), 5 * harness.SLOW)


if __name__ == "__main__":
    harness.main()
