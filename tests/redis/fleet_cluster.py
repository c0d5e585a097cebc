#!/usr/bin/env python3
"""fleet_cluster.py -- a fleet of daemons on a cluster of three masters, as scripts/anchor.lua and node.lua see it.

    fleet_cluster.py [DAEMONS...]      a table; default: 10 100 1000

Each daemon sends the messages of anchor_words.c: at each beat one to each anchor, and the question to each master. All
notice a loss at the same moment, so all propose a generation; then each reports, and asks until the grace period is
over, with the pauses of generations.c. The time of Redis is that of the main threads of all three masters. With three
dead daemons, registered leases are of 5 s.
"""
import hashlib
import sys
import tempfile
import time

import clusters
import harness
from fleet import Answers, encoded
from scripted import embed

NODE, ANCHOR = embed("node"), embed("anchor")
NODE_SHA, ANCHOR_SHA = (hashlib.sha1(text.encode()).hexdigest() for text in (NODE, ANCHOR))
TAGS = ("54h", "7ho", "80c")  # in the slots 2730, 8191, 13652: one for each master
KEYS = [["rlock:{%s}:%s" % (tag, key) for key in ("seen", "who", "gen", "back", "used")] for tag in TAGS]
VOTES, ABSTAINS, WANTS = 1, 2, 3
BEAT_MS, GRACE_MS, TOGETHER = 2000, 50, 100
SLOTS = ("0-5460", "5461-10922", "10923-16383")
TIME, STATUS, NEW, BIRTH, VERSION, DONE, LONGEST, FLOOR, LIST, BITS, OWNERS, HEAD = range(12)


class Member:
    """What a daemon knows of each anchor."""

    def __init__(self, i):
        self.uuid = "%08x-1c2d-4e3f-8a9b-726c6f636b64" % i
        self.nonce = "%016x" % (i + 1)
        self.birth, self.version, self.back, self.done = [0] * 3, [0] * 3, [0] * 3, [0] * 3
        self.holds = 0

    def proposal(self, number, slots):
        """The proposals of generation_begin.c: numbers differ, and are above the expected number."""
        own = number + int(self.nonce, 16)
        return "%d %016x %d %d %s\n" % (own, own, own, number, slots)

    def words(self, a, lease_ms, slots=(), number=0, new=False):
        begins = "".join(self.proposal(number, s) for s in slots)
        return ["EVALSHA", ANCHOR_SHA, 5, *KEYS[a], self.uuid, self.nonce, " ".join(["0" * 16] * 4), lease_ms, 0, 0,
                self.holds, 0, self.birth[a], self.version[a], self.back[a], 0, lease_ms, begins, "",
                self.birth[a] if new else 0, int(new), "", "", 1700000000000000, "1 2 3"]

    def take_answer(self, a, reply):
        if reply[STATUS] not in (VOTES, ABSTAINS, WANTS):
            raise SystemExit("fleet: %s" % (reply,))
        self.birth[a], self.version[a], self.done[a] = reply[BIRTH], reply[VERSION], reply[DONE]
        return reply


class ClusterFleet:
    def __init__(self, n, directory, lease_ms=36000):
        self.kept = []
        self.cluster = clusters.Cluster(directory, self._keep, replicas=0, args=clusters.STEADY)
        masters = [self.cluster.owner(clusters.slot_of(keys[0])) for keys in KEYS]
        assert len(set(masters)) == 3, "two anchors at one master"
        self.conns = [m.conn() for m in masters]
        for c in self.conns:
            c.cmd("SCRIPT", "LOAD", NODE), c.cmd("SCRIPT", "LOAD", ANCHOR)
        self.answers = [Answers(c.sock) for c in self.conns]
        self.members = [Member(i) for i in range(n)]
        self.lease_ms, self.calls = lease_ms, 0

    def _keep(self, process):
        self.kept.append(process)
        return process

    def close(self):
        for c in self.conns:
            c.close()
        for p in reversed(self.kept):
            p.stop()

    # ---- messages ----

    def register(self, members, **more):
        """
        Each member registers at each anchor; many messages in one write, else each answer would wake this process.
        """
        for at in range(0, len(members), TOGETHER):
            part = members[at:at + TOGETHER]
            for a, c in enumerate(self.conns):
                c.send(b"".join(encoded(m.words(a, self.lease_ms, **more)) for m in part))
            for a, answers in enumerate(self.answers):
                for m in part:
                    m.take_answer(a, answers.one())
            self.calls += 3 * len(part)

    def ask_nodes(self, n):
        for at in range(0, n, TOGETHER):
            part = min(TOGETHER, n - at)
            for c in self.conns:
                c.send(encoded(["EVALSHA", NODE_SHA, 0]) * part)
            for answers in self.answers:
                for _ in range(part):
                    answers.one()
            self.calls += 3 * part

    # ---- costs ----

    def cpu_us(self):
        """us of the main thread of each master."""
        return [sum(float(self.stat(c, "cpu", "used_cpu_%s_main_thread" % x)) for x in ("user", "sys")) * 1e6
                for c in self.conns]

    @staticmethod
    def stat(conn, section, name):
        for line in conn.cmd("INFO", section).split("\r\n"):
            if line.startswith(name + ":"):
                return line[len(name) + 1:]
        raise KeyError(name)

    def cost(self, what):
        """us of all masters while what() runs."""
        began = sum(self.cpu_us())
        what()
        return sum(self.cpu_us()) - began

    def script_us(self):
        """us of EVALSHA, by Redis's own count, of all three masters."""
        rows = [self.stat(c, "commandstats", "cmdstat_evalsha") for c in self.conns]
        return sum(int(row.split("usec=")[1].split(",")[0]) for row in rows)

    def counted(self, section, names):
        return sum(int(self.stat(c, section, name)) for c in self.conns for name in names)

    def commands(self):
        """The commands that scripts have run, and the scripts."""
        return sum(int(line.split("calls=")[1].split(",")[0]) for c in self.conns
                   for line in c.cmd("INFO", "commandstats").split("\r\n") if "calls=" in line)

    def beats(self, rounds):
        """For each beat of one daemon: us of the processor, us of scripts, commands, bytes in and out."""
        self.register(self.members), self.ask_nodes(len(self.members))
        for c in self.conns:
            c.cmd("CONFIG", "RESETSTAT")
        began = sum(self.cpu_us())
        for _ in range(rounds):
            self.register(self.members), self.ask_nodes(len(self.members))
        us, n = sum(self.cpu_us()) - began, rounds * len(self.members)
        return (us / n, self.script_us() / n, self.commands() / n,
                *(self.counted("stats", ["total_net_%sput_bytes" % x]) / n for x in ("in", "out")))

    # ---- the measurements ----

    def start(self, proposers=None):
        """All daemons start at once, on a new cluster: (seconds, us of Redis, calls). proposers None: all propose."""
        began, began_us = time.monotonic(), sum(self.cpu_us())
        self.calls = 0
        self.register(self.members), self.ask_nodes(len(self.members))
        self.register(self.members, new=True)
        for m in self.members:
            m.holds = 1
        self.register(self.members[:proposers], slots=SLOTS, number=1)
        return time.monotonic() - began, sum(self.cpu_us()) - began_us, self.calls

    def generation(self, dead=0):
        """A generation of one master's slots; (seconds until all know that it is over, us of Redis, calls)."""
        self.register(self.members)
        alive = self.members[dead:]
        began, began_us = time.monotonic(), sum(self.cpu_us())
        self.calls, pause_ms = 0, GRACE_MS
        self.register(alive, slots=SLOTS[1:2], number=int(time.time() * 1e6))
        over = list(alive[0].version)
        for m in alive:
            m.back = list(m.version)
        self.register(alive)
        while not all(sum(d >= v for d, v in zip(m.done, over)) >= 2 for m in alive):
            if time.monotonic() - began > 60:
                raise SystemExit("fleet: a generation is not over in 60 s")
            time.sleep(pause_ms / 1000)  # the pauses of the daemons are the workload
            pause_ms = min(2 * pause_ms, BEAT_MS)
            self.register(alive)
        return time.monotonic() - began, sum(self.cpu_us()) - began_us, self.calls


def measure(n):
    with tempfile.TemporaryDirectory(prefix="rlockd-fleet-") as directory:
        f = ClusterFleet(n, directory)
        try:
            start = f.start()
            beats = f.beats(max(2, 4000 // n))
            alive = f.generation()
            f.lease_ms = 5000
            f.register(f.members)
            return start, beats, alive, f.generation(dead=3)
        finally:
            f.close()


def main():
    print("| daemons | a beat: us of three masters, of scripts | of a core | commands | KB/s in | KB/s out |"
          " generation, all alive | 3 dead, 5 s | start of all |\n|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    for n in [int(a) for a in sys.argv[1:]] or [10, 100, 1000]:
        start, (us, script_us, commands, bytes_in, bytes_out), alive, dead = measure(n)
        rate, triple = n * 1000 / BEAT_MS, "%.2f s, %.2f s, %d calls"
        words = (n, us, script_us, us * rate / 1e4, commands, bytes_in * rate / 1e3, bytes_out * rate / 1e3)
        print("| %d | %.0f, %.0f | %.2f %% | %.0f | %.1f | %.1f | %s | %.1f s | %s |" % (
            *words, triple % (alive[0], alive[1] / 1e6, alive[2]), dead[0],
            triple % (start[0], start[1] / 1e6, start[2])), flush=True)


if __name__ == "__main__":
    main()
