#!/usr/bin/env python3
"""Stock clients, as they are installed: redis-cli, redis-benchmark, python3-redis, netcat, telnet."""
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import threading
import time
import unittest

import harness
from harness import Case, until

try:
    import redis as pyredis
except ImportError:
    pyredis = None


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, words, directory):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            harness.die_with_us()
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
            os.environ.update(TERM="xterm", HOME=directory, REDISCLI_HISTFILE="/dev/null")
            os.execvp(words[0], words)
        self.seen = ""

    def type(self, text):
        os.write(self.fd, text.encode())

    def wait_for(self, pattern):
        end = time.monotonic() + harness.DEADLINE
        while True:
            self.seen = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.seen)
            m = re.search(pattern, self.seen, re.S)
            if m:
                self.seen = self.seen[m.end():]
                return m
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.fd], [], [], left)[0]:
                raise AssertionError("%r is not in %r" % (pattern, self.seen))
            try:
                self.seen += os.read(self.fd, 65536).decode(errors="replace")
            except OSError:
                raise AssertionError("it ended; %r is not in %r" % (pattern, self.seen))

    def end(self):
        """Its exit status."""
        _, status = os.waitpid(self.pid, 0)
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status)


class RedisCli(Case):
    def setUp(self):
        super().setUp()
        self.d = self.rlockd()

    def cli(self, *words, stdin=b""):
        status, out, err = self.run_words(["redis-cli", "-s", self.d.path, *words], stdin=stdin)
        self.assertEqual(status, 0, err)
        return out

    def test_one_shot(self):
        self.assertEqual(self.cli("PING"), "PONG\n")
        self.assertRegex(self.cli("LOCK", "a"), r"^\d+\n$")
        self.assertRegex(self.cli("LOCK", "a", "NOWAIT"), r"^\d+\n$", "the first one ended, so a is free")
        self.assertRegex(self.cli("UNLOCK", "a"), "^NOTHELD ")
        self.assertRegex(self.cli("FROB"), "^ERR unknown command 'FROB'")
        self.assertRegex(self.cli("INFO", "locks"), "^# Locks")

    def test_options(self):
        self.assertEqual(self.cli("-3", "PING"), "PONG\n")
        self.assertEqual(self.cli("-n", "0", "PING"), "PONG\n")
        self.assertRegex(self.cli("-3", "LOCK", "a", "FULL"), "lease_ms")

    def test_piped_stdin(self):
        out = self.cli(stdin=b"LOCK a\nLOCK a\nUNLOCK a\nUNLOCK a\nUNLOCK a\n").split("\n")
        self.assertRegex(out[0], r"^\d+$")
        self.assertEqual(out[1], out[0])
        self.assertEqual(out[2:4], ["1", "0"])
        self.assertRegex(out[4], "^NOTHELD ")

    def test_pipe_mode(self):
        out = self.cli("--pipe", stdin=b"LOCK a OWNER x\r\nUNLOCK a OWNER x\r\n*1\r\n$4\r\nPING\r\n" * 100)
        self.assertRegex(out, "errors: 0, replies: 300")

    def test_prompt_hints_and_help(self):
        t = Terminal(["redis-cli", "-s", self.d.path], self.dir)
        t.wait_for("> ")
        t.type("lock ")
        t.wait_for("name")
        t.wait_for("WAIT")
        t.type("a full\r")
        t.wait_for('"lease_ms"')
        for typed, shown in (("help lock", r"LOCK name .*summary: .*fencing token"), ("help @lock", "UNLOCK name"),
                             ("info locks", r"NAME +KIND.*\r\na +reentrant +held"),
                             ("nosuch", "ERR unknown command 'nosuch'")):
            t.wait_for("> ")  # from then on it listens
            t.type(typed + "\r")
            t.wait_for(shown)
        t.wait_for("> ")
        t.type("quit\r")
        self.assertEqual(t.end(), 0)

    def test_subscribe(self):
        p = subprocess.Popen(["redis-cli", "-s", self.d.path, "SUBSCRIBE", "lock:a"], stdout=subprocess.PIPE,
                             preexec_fn=harness.die_with_us)
        self.addCleanup(p.stdout.close)
        self.addCleanup(p.wait)
        self.addCleanup(p.kill)
        for want in (b"subscribe", b"lock:a", b"1"):
            self.assertEqual(p.stdout.readline().strip(), want)
        with self.d.conn() as c:
            token = c.cmd("LOCK", "a")
            for want in (rb"message", rb"lock:a", rb"granted %d .*" % token):
                self.assertRegex(p.stdout.readline().strip(), rb"^" + want + rb"$")

    def test_latency_and_stat(self):
        p = subprocess.Popen(["redis-cli", "-s", self.d.path, "--stat", "-i", "0.01"], stdout=subprocess.PIPE,
                             preexec_fn=harness.die_with_us)
        self.addCleanup(p.stdout.close)
        self.addCleanup(p.wait)
        self.addCleanup(p.kill)
        while not re.match(rb"^\d+", p.stdout.readline().strip()):
            pass

    def test_benchmark(self):
        status, out, err = self.run_words(["redis-benchmark", "-s", self.d.path, "-n", "5000", "-c", "20", "-r", "1000",
                                           "-q", "LOCK", "k:__rand_int__", "NOWAIT"], timeout=60)
        self.assertEqual(status, 0, err)
        self.assertRegex(out, r"requests per second")
        self.assertNotRegex(out + err, "(?i)error")
        until(lambda: self.d.cmd("LOCKS") == [])


@unittest.skipIf(pyredis is None, "python3-redis is not installed")
class PythonRedis(Case):
    def setUp(self):
        super().setUp()
        self.d = self.rlockd()
        self.r = pyredis.Redis(unix_socket_path=self.d.path)
        self.addCleanup(self.r.close)

    def test_lock_unlock_by_owner_over_a_pool(self):
        token = self.r.execute_command("LOCK", "a", "OWNER", "me")
        self.assertGreater(token, 0)
        self.assertIsNone(self.r.execute_command("LOCK", "a", "OWNER", "you", "NOWAIT"))
        self.r.connection_pool.disconnect()
        self.assertEqual(self.r.execute_command("UNLOCK", "a", "OWNER", "me", "TOKEN", token), 0)
        with self.assertRaisesRegex(pyredis.ResponseError, "NOTHELD"):
            self.r.execute_command("UNLOCK", "a", "OWNER", "me")

    def test_one_connection(self):
        one = pyredis.Redis(unix_socket_path=self.d.path, single_connection_client=True)
        token = one.execute_command("LOCK", "a")
        self.assertIsNone(self.r.execute_command("LOCK", "a", "NOWAIT"))
        one.close()  # gives the connection back to its pool, which keeps it open
        one.connection_pool.disconnect()
        self.assertGreater(self.r.execute_command("LOCK", "a", "WAIT", "5s"), token)

    def test_a_read_timeout_frees(self):
        holder = self.d.conn()
        self.addCleanup(holder.close)
        holder.cmd("LOCK", "a")
        impatient = pyredis.Redis(unix_socket_path=self.d.path, socket_timeout=0.2)
        with self.assertRaises(pyredis.TimeoutError):
            impatient.execute_command("LOCK", "a")
        until(lambda: holder.maps("LOCKS", "a")[0]["waiters"] == 0)

    def test_pubsub(self):
        p = self.r.pubsub()
        p.subscribe("lock:a")
        p.psubscribe("session:*")
        kinds = [p.get_message(timeout=harness.DEADLINE)["type"] for _ in range(2)]
        self.assertEqual(kinds, ["subscribe", "psubscribe"])
        token = self.r.execute_command("LOCK", "a", "OWNER", "x")
        got = [p.get_message(timeout=harness.DEADLINE) for _ in range(2)]
        self.assertIn(b"lock:a", [m["channel"] for m in got])
        self.assertTrue(all(m["data"].startswith(b"granted") for m in got))
        self.assertTrue(any(str(token).encode() in m["data"] for m in got))
        p.ping()
        self.assertEqual(p.get_message(timeout=harness.DEADLINE)["type"], "pong")
        p.close()

    def test_pipeline(self):
        p = self.r.pipeline(transaction=False)
        for i in range(100):
            p.execute_command("LOCK", "n%d" % i, "OWNER", "x")
        for i in range(100):
            p.execute_command("UNLOCK", "n%d" % i, "OWNER", "x")
        replies = p.execute()
        self.assertTrue(all(t > 0 for t in replies[:100]))
        self.assertEqual(replies[100:], [0] * 100)

    def test_info_and_ping(self):
        self.assertTrue(self.r.ping())
        info = self.r.info()
        self.assertEqual(info["redis_mode"], "standalone")
        self.assertEqual(info["loading"], 0)
        self.assertEqual(self.r.echo("x"), b"x")
        self.assertGreater(self.r.client_id(), 0)

    def test_threads_exclude_each_other(self):
        n = [0]

        def work():
            own = pyredis.Redis(unix_socket_path=self.d.path, single_connection_client=True)
            for _ in range(25):
                own.execute_command("LOCK", "n")
                was = n[0]
                own.ping()
                n[0] = was + 1
                own.execute_command("UNLOCK", "n")
            own.close()
        threads = [threading.Thread(target=work) for _ in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(n[0], 200)


class Netcat(Case):
    def test_n(self):
        d = self.rlockd(tcp=True)
        for where in (["-U", d.path], ["127.0.0.1", str(d.port)]):
            status, out, err = self.run_words(["nc", "-N", *where], stdin=b"LOCK a\nUNLOCK a\nUNLOCK a\n")
            self.assertEqual(status, 0, err)
            self.assertRegex(out, r"^:\d+\r\n:0\r\n-NOTHELD [^\r]*\r\n$")

    def test_interactive(self):
        d = self.rlockd()
        p = subprocess.Popen(["nc", "-U", d.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             preexec_fn=harness.die_with_us)
        self.addCleanup(p.stdout.close)
        for line, want in ((b"lock a\n", rb"^:\d+\r\n"), (b"lock a nowait\n", rb"^:\d+\r\n"),
                           (b"unlock a\n", rb"^:1\r\n"), (b"quit\n", rb"^\+OK\r\n")):
            p.stdin.write(line)
            p.stdin.flush()
            self.assertRegex(p.stdout.readline(), want)
        p.stdin.close()
        self.assertEqual(p.wait(harness.DEADLINE), 0)

    def test_telnet(self):
        d = self.rlockd(tcp=True)
        t = Terminal(["telnet", "127.0.0.1", str(d.port)], self.dir)
        t.wait_for("Escape character")
        t.type("LOCK a\r")
        t.wait_for(r":\d+\r")
        t.type("HELP lock\r")
        t.wait_for(r"LOCK name \[WAIT duration\|NOWAIT\]")
        t.type("UNLOCK a\r")
        t.wait_for(r":0\r")
        t.type("QUIT\r")
        t.wait_for(r"\+OK.*closed by foreign host")
        t.end()


if __name__ == "__main__":
    harness.main()
