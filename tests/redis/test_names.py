#!/usr/bin/env python3
"""The host of Redis's URL: /etc/hosts, a name server, each of its addresses, and a new lookup for each connection."""
import os
import signal
import socket
import struct
import subprocess
import threading

import harness
from harness import Case, free_port, until


class NameServer:
    """Answers for every name with the addresses that it has; None: it does not answer."""

    def __init__(self):
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.bind(("127.0.0.1", 0))
        self.port = self.sock.getsockname()[1]
        self.v4, self.v6, self.asked = ["127.0.0.1"], [], 0
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                query, sender = self.sock.recvfrom(2000)
            except OSError:
                return
            self.asked += 1
            end = query.index(b"\0", 12) + 5
            kind = struct.unpack(">H", query[end - 4:end - 2])[0]
            found = self.v4 if kind == 1 else self.v6
            if found is None:
                continue
            family = socket.AF_INET if kind == 1 else socket.AF_INET6
            rows = [socket.inet_pton(family, a) for a in found]
            answer = query[:2] + struct.pack(">HHHHH", 0x8180 if self.v4 or self.v6 else 0x8183, 1, len(rows), 0, 0)
            answer += query[12:end]
            for row in rows:
                answer += struct.pack(">HHHIH", 0xc00c, kind, 1, 0, len(row)) + row
            self.sock.sendto(answer, sender)

    def close(self):
        self.sock.close()


class Names(Case):
    def setUp(self):
        super().setUp()
        lib = os.path.join(self.dir, "etc.so")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-D_GNU_SOURCE", "-o", lib,
                        os.path.join(harness.TOP, "tests", "redis", "etc.c"), "-ldl"], check=True)
        self.server = NameServer()
        self.addCleanup(self.server.close)
        self.env = {"ETC": self.dir, "LD_PRELOAD": lib}
        self.put("hosts", "")
        self.put("resolv.conf", "nameserver 127.0.0.1:%d\n" % self.server.port)
        self.port = free_port()

    def put(self, name, text):
        with open(os.path.join(self.dir, name), "w") as f:
            f.write(text)

    def redis_at(self, *addresses, name="redis"):
        return self.redis(name=name, args=["--port", str(self.port), "--bind", *addresses])

    def daemon(self, wait=True, host="redis.example"):
        return self.rlockd(redis="redis://%s:%d" % (host, self.port), conf="redis: { backoff_max: 50ms }\n",
                           env=self.env, wait=wait)

    def again(self, d, r):
        until(lambda: d.info("redis")["redis_links_up"] == "3")
        was = int(d.info("stats")["redis_connects"])
        r.cmd("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        r.cmd("CLIENT", "KILL", "TYPE", "pubsub")
        until(lambda: int(d.info("stats")["redis_connects"]) >= was + 3)

    def test_hosts(self):
        """... are used before any name server, and IPv6 like IPv4."""
        for i, address in enumerate(("127.0.0.1", "::1")):
            self.port = free_port()
            self.put("hosts", "%s other redis.example # here\n" % address)
            self.redis_at(address, name="r%d" % i)
            d = self.rlockd(redis="redis://redis.example:%d" % self.port, env=self.env, name="d%d" % i)
            self.assertGreater(d.cmd("LOCK", "a"), 0)
        self.assertEqual(self.server.asked, 0)

    def test_number(self):
        """An address needs no lookup: no server is asked."""
        self.redis_at("::1")
        self.assertGreater(self.daemon(host="[::1]").cmd("LOCK", "a"), 0)
        self.assertEqual(self.server.asked, 0)

    def test_pending_at_the_end(self):
        """A lookup without an answer ends with the process; the build with sanitizers shows that it leaks nothing."""
        self.server.v4 = self.server.v6 = None
        d = self.daemon(wait=False)
        until(d.serving)
        until(lambda: self.server.asked > 0)
        d.signal(signal.SIGINT)
        self.assertEqual(d.wait(), 0)

    def test_every_address(self):
        """Redis may be at any of the addresses."""
        self.server.v4, self.server.v6 = ["127.0.0.2", "127.0.0.3", "127.0.0.4"], ["::1"]
        for i, address in enumerate(("127.0.0.4", "::1", "127.0.0.2")):
            self.port = free_port()
            self.redis_at(address, name="r%d" % i)
            d = self.rlockd(redis="redis://redis.example:%d" % self.port, env=self.env, name="d%d" % i)
            self.assertGreater(d.cmd("LOCK", "a"), 0)
            self.assertNotIn("warn redis", d.log())

    def test_one_that_is_silent(self):
        """The first address takes connections and does not answer: the next attempt uses the other one."""
        self.server.v4 = ["127.0.0.2", "127.0.0.3"]
        self.redis_at("127.0.0.3")
        with socket.create_server(("127.0.0.2", self.port)):
            d = self.daemon()
            self.assertGreater(d.cmd("LOCK", "a"), 0)

    def test_it_moves(self):
        """Redis has another address: the next connection goes there; with /etc/hosts as with a name server."""
        first = self.redis_at("127.0.0.1", name="r1")
        d = self.daemon()
        until(lambda: d.info("redis")["redis_links_up"] == "3")
        second = self.redis_at("127.0.0.2", name="r2")
        self.server.v4 = ["127.0.0.2"]
        first.stop()
        until(d.ready)
        third = self.redis_at("127.0.0.3", name="r3")
        self.put("hosts", "127.0.0.3 redis.example\n")
        until(lambda: d.info("redis")["redis_links_up"] == "3")
        asked = self.server.asked
        second.stop()
        until(lambda: d.ready() and d.info("redis")["redis_run_id"] in third.cmd("INFO", "server"))
        self.assertEqual(self.server.asked, asked)

    def test_another_name_server(self):
        r = self.redis_at("127.0.0.1")
        self.put("resolv.conf", "nameserver 127.0.0.1:%d\n" % free_port())
        d = self.daemon(wait=False)
        until(d.serving)
        until(lambda: d.info("redis")["redis_last_error"] != "")
        self.put("resolv.conf", "nameserver 127.0.0.1:%d\n" % self.server.port)
        until(d.ready)
        self.again(d, r)

    def test_half_a_name_server(self):
        """A server that does not answer for IPv6 delays nothing."""
        self.server.v6 = None
        self.redis_at("127.0.0.1")
        d = self.daemon()
        self.assertGreater(d.cmd("LOCK", "a"), 0)

    def test_no_such_name(self):
        self.server.v4 = []
        d = self.daemon(wait=False)
        until(lambda: "unreachable" in d.log())
        self.assertRegex(d.log(), "unreachable .*reason=.*(nodename nor servname|not known|no address)")
        self.server.v4 = ["127.0.0.1"]
        self.redis_at("127.0.0.1")
        until(d.ready)

    def test_no_name_server_answers(self):
        """The daemon serves all the same: its clients learn at once that Redis is unreachable."""
        self.server.v4 = self.server.v6 = None
        d = self.daemon(wait=False)
        until(d.serving)
        self.assertRegex(d.cmd("LOCK", "a", "NOWAIT"), "^UNAVAILABLE")
        until(lambda: "no name server has resolved this host in time" in d.info("redis")["redis_last_error"])
        # questions that were given up do not delay those to the name server that resolv.conf names now
        other = NameServer()
        self.addCleanup(other.close)
        self.put("resolv.conf", "nameserver 127.0.0.1:%d\n" % other.port)
        self.redis_at("127.0.0.1")
        until(d.ready)
        self.assertGreater(other.asked, 0)


if __name__ == "__main__":
    harness.main()
