#!/usr/bin/env python3
"""Servers that quote Redis's password in an error: rlockd shows the password nowhere."""
import contextlib
import socket
import threading

import harness
from harness import Case, until

SECRET = "hushhush5"
HALF = SECRET[:5]
NOT_AUTH = ("--requirepass", SECRET, "--rename-command", "AUTH", "")


class Echo:
    """A false Redis: it answers each command by an error with the password in it, and AUTH by one with half of it."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        try:
            while True:
                threading.Thread(target=self.answer, args=(self.listener.accept()[0],), daemon=True).start()
        except OSError:
            pass

    @staticmethod
    def answer(conn):
        with contextlib.suppress(ConnectionError), conn, conn.makefile("rb") as lines:
            for line in lines:
                if line.startswith(b"*"):
                    lines.readline()
                    quoted = HALF if lines.readline() == b"AUTH\r\n" else SECRET
                    conn.sendall(b"-ERR what is AUTH " + quoted.encode() + b"?\r\n")

    def close(self):
        self.listener.close()


class Quoted(Case):
    def shown(self, url):
        """The texts of a client, the log and INFO about a server that cannot be used."""
        login = "sentinel_password" if url.startswith("sentinel:") else "password"
        d = self.rlockd(redis=url, conf="redis: { %s: %s }\n" % (login, SECRET), wait=False)
        until(d.serving)
        until(lambda: "AUTH" in str(d.info("redis")))
        c = self.conn(d)
        refused = c.cmd("LOCK", "a", "WAIT", "100ms")
        shown = {"answer": refused, "log": d.log(), "INFO": c.cmd("INFO", "everything"),
                 "CONFIG": str(c.cmd("CONFIG", "GET", "*"))}
        d.stop()
        return refused, shown

    def check(self, port):
        address = "127.0.0.1:%d" % port
        for url in ("redis://" + address, "sentinel:%s/m" % address, "cluster:" + address,
                    "quorum:redis://%s,redis://127.0.0.1:1,redis://127.0.0.1:2" % address):
            with self.subTest(url=url):
                refused, shown = self.shown(url)
                self.assertRegex(refused, "^UNAVAILABLE .*AUTH")
                self.assertEqual([place for place, text in shown.items() if HALF in text], [])

    def test_by_a_redis_without_auth(self):
        self.check(self.redis(tcp=True, args=NOT_AUTH).port)

    def test_by_what_is_no_redis(self):
        server = Echo()
        self.addCleanup(server.close)
        self.check(server.port)


if __name__ == "__main__":
    harness.main()
