#!/usr/bin/env python3
"""instructions.py -- instructions of rlockd per pair, counted by callgrind: the same on a machine that is busy.

    instructions.py [--redis] [--rounds N] [--cells "own64 hot64"] [--top N] [--keep DIR] BUILD...

For each BUILD (a directory with rlockd, as build/) and each load: instructions in user space per LOCK and UNLOCK, and
with --top the functions with the most of them; with --redis those of Redis in place of rlockd's. The load is in step:
the daemon is stopped while all clients ask, goes on, and has answered all of them before they ask again. So its turns
and batches are equally full each time.
"""
import argparse
import collections
import os
import re
import signal
import subprocess
import sys
import tempfile

import servers
from servers import harness

Load = collections.namedtuple("Load", "clients pipeline hot conf one_owner", defaults=(1, False, "", False))
LOADS = {
    "own64": Load(64),
    "16x16": Load(16, 16),
    "one-owner": Load(16, 16, one_owner=True),
    "hot64": Load(64, 1, True),
    "linger": Load(64, 1, False, "locks: { linger: 1s }\n"),
    "one": Load(1),
}
COUNT = re.compile(r"^\s*([0-9,]+) \([ 0-9.]+%\)\s+\S*?:?([^:\s]+) \[")


def words(*all_words):
    return b"*%d\r\n" % len(all_words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in all_words)


class Client:
    def __init__(self, daemon, i, load):
        self.conn = harness.Conn(daemon.path, timeout=60)
        names = [(b"bench:hot" if load.hot else b"bench:%d:%d" % (i, k), b"o%d" % k) for k in range(load.pipeline)]
        more = [[b"OWNER", owner] if load.pipeline > 1 and not load.one_owner else [] for _, owner in names]
        nowait = [b"NOWAIT"] if load.one_owner else []
        self.lock = b"".join(words(b"LOCK", n, *m, *nowait) for (n, _), m in zip(names, more))
        self.unlock = b"".join(words(b"UNLOCK", n, *m) for (n, _), m in zip(names, more))
        self.n = load.pipeline

    def answered(self):
        for _ in range(self.n):
            answer = self.conn.read()
            assert isinstance(answer, int), answer


def together(daemon, texts):
    """Each of these clients sends its text, and the daemon reads all of them at once."""
    daemon.signal(signal.SIGSTOP)
    harness.until(lambda: harness.state(daemon.pid) == "T", pause=0.0005)
    for client, text in texts:
        client.conn.send(text)
    daemon.signal(signal.SIGCONT)
    for client, _ in texts:
        client.answered()


def apart(daemon, clients, rounds):
    for _ in range(rounds):
        together(daemon, [(c, c.lock) for c in clients])
        together(daemon, [(c, c.unlock) for c in clients])
    return rounds * len(clients) * clients[0].n


def hot(daemon, clients, rounds):
    """The holder gives the lock back, and waits for it again when the next one does."""
    for i in range(rounds):
        holder, last = clients[i % len(clients)], clients[(i - 1) % len(clients)] if i > 0 else None
        daemon.signal(signal.SIGSTOP)
        harness.until(lambda: harness.state(daemon.pid) == "T", pause=0.0005)
        holder.conn.send(holder.unlock)
        if last is not None:
            last.conn.send(last.lock)
        daemon.signal(signal.SIGCONT)
        holder.answered()
        clients[(i + 1) % len(clients)].answered()
    return rounds


def control(pid, *words_):
    subprocess.run(["callgrind_control", *words_, str(pid)], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, timeout=60)


def functions(path):
    """[(instructions, name)] of a dump, the most first; and their sum."""
    text = subprocess.run(["callgrind_annotate", "--threshold=100", "--auto=no", "--tree=none", path],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=120)
    text = text.stdout.decode(errors="replace")
    found = [(int(m.group(1).replace(",", "")), m.group(2)) for m in map(COUNT.match, text.splitlines()) if m]
    total = int(re.search(r"^\s*([0-9,]+) .*PROGRAM TOTALS", text, re.M).group(1).replace(",", ""))
    return found, total


def run(daemon, counted, load, rounds):
    """The load, once to warm up and once with the instructions of process `counted` counted; returns its pairs."""
    clients = [Client(daemon, i, load) for i in range(load.clients)]
    if load.hot:
        for i, c in enumerate(clients):
            c.conn.send(c.lock)
            harness.until(lambda: int(daemon.info("clients")["blocked_clients"]) == i)
        clients[0].answered()
        work, rounds = hot, rounds * 20
        rounds -= rounds % len(clients) - 1  # the same client has it, and the one before it asks for it
    else:
        work = apart
        rounds = rounds if load.clients > 1 else rounds * 5
    work(daemon, clients, rounds - 1 if load.hot else 5)
    if load.hot:
        clients = clients[(rounds - 1) % len(clients):] + clients[:(rounds - 1) % len(clients)]
        clients[-1].conn.send(clients[-1].lock)
    control(counted.pid, "-i", "on")
    pairs = work(daemon, clients, rounds)
    control(counted.pid, "-i", "off")
    return pairs


def measure(build, cell, options, directory):
    """(instructions per pair, [(of a function per pair, name)], pairs)"""
    load = LOADS[cell]
    dump = os.path.join(directory, "callgrind")
    under = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--callgrind-out-file=" + dump]
    requests = ["--toggle-collect=readQueryFromClient"]  # without the work that Redis does by its clock
    redis = harness.Redis(directory, under=under + requests if options.redis else [])
    conf = servers.LIMITS + load.conf + ("redis: { timeout: 60s }\n" if options.redis else "")
    daemon = harness.Rlockd(directory, redis=redis.url, conf=conf, build=build, under=[] if options.redis else under)
    try:
        pairs = run(daemon, redis if options.redis else daemon, load, options.rounds)
    finally:
        daemon.stop()
        redis.stop()
    found, total = functions(dump)
    if options.keep:
        name = "%s.%s.%d" % (os.path.basename(os.path.dirname(build)), cell, pairs)
        os.replace(dump, os.path.join(options.keep, name))
    return total / pairs, [(n / pairs, name) for n, name in found], pairs


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--redis", action="store_true", help="count Redis's in place of rlockd's")
    p.add_argument("--rounds", type=int, default=40)
    p.add_argument("--cells", default=" ".join(LOADS))
    p.add_argument("--top", type=int, default=0)
    p.add_argument("--keep", metavar="DIR", help="callgrind's files, for kcachegrind")
    p.add_argument("build", nargs="+")
    options = p.parse_args()
    for cell in options.cells.split():
        for build in options.build:
            with tempfile.TemporaryDirectory(prefix="rlockd-instructions.") as directory:
                total, found, pairs = measure(os.path.abspath(build), cell, options, directory)
            print("%-8s %-30s %9.0f instructions per pair (%d pairs)" % (cell, build, total, pairs), flush=True)
            for n, name in found[:options.top]:
                print("    %9.1f %s" % (n, name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
