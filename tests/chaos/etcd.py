#!/usr/bin/env python3
"""etcd.py [SECONDS] -- Jepsen's workload for etcd's locks: leases of 2 s, and clients that are stopped for 5 s between
their read and their write. Updates are lost where the resource ignores tokens; where it checks them, none may be lost.
"""
import glob
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from world import World, harness  # noqa: E402
from run import Report  # noqa: E402

NAMES = "re:0,fe:0,si:0"


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60
    report = Report()
    w = World("etcd", clients=0)
    try:
        for i in range(12):
            w.client("AB"[i % 2], "mode=etcd", "lease=2000", "pause=5000", "wait=4000", "names=" + NAMES)
        time.sleep(seconds)  # the pause is the workload: the clients lock, are stopped, and write in it
        w.leaks()
        lost, writes, refused = w.numbers(NAMES)
        verdict = w.verdict()
        paused = 0
        for path in glob.glob(w.dir + "/c*.history"):
            with open(path) as f:
                paused += sum(" paused " in line for line in f)
    finally:
        w.end()
    report.say("leases of 2 s, pauses of 5 s, for %.0f s: %d grants, %d pauses" % (seconds, verdict.grants, paused))
    for kind, text in (("plain", "without fencing"), ("fenced", "with fencing")):
        report.say("    %-15s %d of %d updates lost (%.1f %%)%s" % (
            text, lost[kind], writes[kind], 100 * lost[kind] / max(1, writes[kind]),
            ", %d refused" % refused if kind == "fenced" else ""))
    report.say("    %s" % verdict)
    report.test("etcd: clients were stopped, and updates lost",
                None if paused and lost["plain"] and refused else "none")
    report.test("etcd: no fenced update is lost", "%d" % lost["fenced"] if lost["fenced"] else None)
    report.test("etcd: the history is sound",
                "; ".join(map(str, verdict.violations[:5])) if verdict.violations else None)
    report.test("etcd: nothing broke", "\n".join(w.bad) if w.bad else None)
    sys.exit(0 if report.end(os.path.join(harness.TOP, "build", "chaos", "etcd.txt")) else 1)


if __name__ == "__main__":
    main()
