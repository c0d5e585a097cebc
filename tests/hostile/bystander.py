#!/usr/bin/env python3
"""bystander.py SOCKET DAEMON-PID -- measures how long a client that does nothing unusual waits while others attack.

Three connections in one thread, none of which waits for another one:
  ping   PING every 3 ms; the attack is measured by the time to its reply
  keeper holds `bystander:kept` by the watchdog, and receives the events of this lock
  cycle  LOCK and UNLOCK of `bystander:cycle`, again and again, with a pause of 5 ms
It prints a line `ready` when each connection has had a reply, and one line of JSON when its stdin ends.
"""
import json
import os
import select
import socket
import sys
import time

# On a machine with two processors all processes wait for one of them: noise of the test, no stall of the daemon.
# /proc/PID/schedstat counts these waits (ns that a process was runnable and did not run). So each PING has two times:
# as measured (`felt`), and without the waits of the daemon and of this process for a processor (`net`). Both include
# CPU that the daemon uses, and calls that block the daemon.

PING_S = 0.003
CYCLE_S = 0.005
KEPT, CYCLE = b"bystander:kept", b"bystander:cycle"
SILENCE_S = 30  # a connection without a reply for this time is reported


def run_delay(pid):
    """The seconds for which a process was runnable and did not run."""
    with open("/proc/%d/schedstat" % pid) as f:
        return int(f.read().split()[1]) / 1e9


def connect(path):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(10)
    s.connect(path)
    return s


class Timed:
    """Requests one by one on one connection; for each reply the time that it took, in seconds: (felt, net)."""

    def __init__(self, path, daemon, words, pause):
        self.sock = connect(path)
        self.daemon, self.words, self.pause = daemon, words, pause
        self.next = 0            # index of the next word
        self.sent = None         # (time, run delays) of the present request
        self.due = time.monotonic()
        self.buf = b""
        self.n, self.worst, self.worst_at, self.errors = 0, (0.0, 0.0), 0.0, []
        self.worst_net = 0.0

    def fileno(self):
        return self.sock.fileno()

    def delays(self):
        return run_delay(self.daemon) + run_delay(os.getpid())

    def send(self, now):
        self.sent = (now, self.delays())
        self.sock.sendall(self.words[self.next] + b"\r\n")
        self.next = (self.next + 1) % len(self.words)

    def took(self, began):
        felt = time.monotonic() - self.sent[0]
        net = max(0.0, felt - (self.delays() - self.sent[1]))
        self.n += 1
        self.worst_net = max(self.worst_net, net)
        if felt > self.worst[0]:
            self.worst, self.worst_at = (felt, net), time.monotonic() - began

    def read(self, began):
        got = self.sock.recv(65536)
        if not got:
            self.errors.append("closed by the daemon")
            return False
        self.buf += got
        while b"\n" in self.buf:
            line, self.buf = self.buf.split(b"\n", 1)
            self.took(began)
            self.sent = None
            self.due = time.monotonic() + (self.pause if self.next == 0 else 0)
            if line[:1] in b"-_" or line.startswith(b"$-1"):
                self.errors.append(line.decode(errors="replace").strip())
        return True

    def report(self):
        """The worst time, also of a request without any reply."""
        if self.sent is not None:
            felt = time.monotonic() - self.sent[0]
            if felt > SILENCE_S:
                self.errors.append("no answer for %d s" % SILENCE_S)
            self.worst = max(self.worst, (felt, felt))
            self.worst_net = max(self.worst_net, max(0.0, felt - (self.delays() - self.sent[1])))
        return {"n": self.n, "felt_ms": round(self.worst[0] * 1000, 1), "net_ms": round(self.worst_net * 1000, 1),
                "at_s": round(self.worst_at, 2), "errors": self.errors[:3]}


class Keeper:
    """Holds a name, and receives the event of its end."""

    def __init__(self, path):
        self.sock, self.subscriber = connect(path), connect(path)
        self.subscriber.sendall(b"SUBSCRIBE lock:%s\r\n" % KEPT)
        self.received = b""
        while b":1\r\n" not in self.received:
            self.received += self.subscriber.recv(65536)
        self.sock.sendall(b"LOCK %s WAIT 5s\r\n" % KEPT)
        answer = self.sock.recv(65536)
        if answer[:1] != b":":
            raise SystemExit("bystander: LOCK was answered %r" % answer)

    def fileno(self):
        return self.subscriber.fileno()

    def read(self):
        got = self.subscriber.recv(65536)
        self.received += got
        return got != b""

    def report(self):
        """Whether the lock is still held, by the daemon's answer to UNLOCK."""
        try:
            self.sock.sendall(b"UNLOCK %s\r\n" % KEPT)
            self.sock.settimeout(SILENCE_S)
            answer = self.sock.recv(65536)
        except OSError as e:
            answer = str(e).encode()
        if b"lost " in self.received:
            return "lost (event)"
        return "kept" if answer == b":0\r\n" else "lost (%s)" % answer.decode(errors="replace").strip()


def listen(timed, keeper, wake, until):
    """One round: sends due requests, reads replies. False: stdin has ended, or `until` is true."""
    now = time.monotonic()
    for t in timed:
        if t.sent is None and now >= t.due:
            t.send(now)
    due = min([t.due for t in timed if t.sent is None], default=now + 0.2)
    ready, _, _ = select.select([*timed, keeper, wake], [], [], max(0.0, min(0.2, due - time.monotonic())))
    for r in ready:
        if r is wake:
            return False
        if not (r.read(until) if r is not keeper else r.read()):
            timed[:] = [t for t in timed if t is not r]
            if r is keeper:
                return False
    return True


def main():
    path, daemon = sys.argv[1], int(sys.argv[2])
    try:
        os.nice(-10)  # it measures the daemon, and not its own place in the kernel's queue
    except OSError:
        pass
    keeper = Keeper(path)
    ping = Timed(path, daemon, [b"PING"], PING_S)
    cycle = Timed(path, daemon, [b"LOCK " + CYCLE + b" WAIT 20s", b"UNLOCK " + CYCLE], CYCLE_S)
    timed, began = [ping, cycle], time.monotonic()
    while ping.n < 2 or cycle.n < 2:
        if not listen(timed, keeper, sys.stdin, began):
            return
    ping.worst = cycle.worst = (0.0, 0.0)
    ping.worst_net = cycle.worst_net = 0.0
    print("ready", flush=True)
    while listen(timed, keeper, sys.stdin, began):
        pass
    report = {"ping": ping.report(), "cycle": cycle.report()}
    report["kept"] = keeper.report()
    print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main()
