"""Clients that only connect: to the HTTP page without a request, or without a password."""
import re
import resource
import select
import socket
import time

from hostile import DEADLINE, SLOW, Scene

HEALTHZ_MS = 50


class SilentCallers(Scene):
    "HTTP: 64, then 1,000 silent callers, and some that send a byte a second"

    conf = {"http": {"listen": "tcp:127.0.0.1:0"}}

    def prepare(self):
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.page = ("127.0.0.1", int(re.search(r"http address=tcp:127\.0\.0\.1:(\d+)", self.daemon.log()).group(1)))

    def call(self):
        s = socket.create_connection(self.page, DEADLINE)
        self.open.append(s.close)
        return s

    def healthz(self):
        """The time, in ms, until the page has answered."""
        began = time.monotonic()
        with socket.create_connection(self.page, DEADLINE) as s:
            s.sendall(b"GET /healthz HTTP/1.1\r\n\r\n")
            if not s.recv(4096).startswith(b"HTTP/1.1 200 "):
                raise AssertionError("/healthz does not answer")
        return (time.monotonic() - began) * 1000

    def worst(self, times):
        """Noise only adds time, and falls on one of the times: so the second worst."""
        return sorted(self.healthz() for _ in range(times))[-2]

    def attack(self):
        took = [self.worst(5)]
        silent = [self.call() for _ in range(64)]
        took.append(self.worst(5))
        silent += [self.call() for _ in range(936)]
        took.append(self.worst(5))
        for _ in range(3):
            slow = [s for s in silent if not select.select([s], [], [], 0)[0]]
            for s in slow:
                s.send(b"G")
            took.append(self.worst(3))
            time.sleep(0.2)
        if max(took) > HEALTHZ_MS * SLOW:
            raise AssertionError("/healthz took %s ms" % ["%.1f" % t for t in took])
        return "/healthz %.1f ms, %d callers left" % (max(took), len(slow))


class Guesses(Scene):
    "AUTH: 32 connections guess passwords as fast as they can, and begin anew when they are closed"
    conf = {"auth": {"password": "sesame"}}
    GUESSES = 300  # that the daemon may check in SECONDS: the free ones, and 32 connections each second

    def attack(self):
        where, guess = ("127.0.0.1", self.daemon.port), b"AUTH wrong\r\n" * 3
        end, conns, took = time.monotonic() + 3, {}, None
        right = socket.create_connection(where, DEADLINE)
        self.open.append(right.close)
        while time.monotonic() < end:
            while len(conns) < 32:
                s = socket.create_connection(where, DEADLINE)
                s.setblocking(False)
                s.send(guess)
                conns[s] = True
            if took is None and time.monotonic() > end - 2.5:  # by now every guess waits
                right.sendall(b"AUTH sesame\r\n")
                began, took = time.monotonic(), 0
            for s in select.select([*conns, right], [], [], 0.01)[0]:
                got = s.recv(4096)
                if s is right:
                    if got != b"+OK\r\n":
                        raise AssertionError("a client with the password gets %r" % got)
                    took = time.monotonic() - began
                elif not got:
                    s.close()
                    del conns[s]
        for s in conns:
            s.close()
        guesses = int(self.daemon.info("stats")["auth_failures"])
        if not took or took > 1.5 * SLOW:
            raise AssertionError("who knows the password was let in after %s s" % took)
        if guesses > self.GUESSES:
            raise AssertionError("%d guesses in 3 s" % guesses)
        return "%d guesses, let in after %.1f s" % (guesses, took)
