#!/usr/bin/env python3
"""run.py -- chaos: worlds of clients, daemons and Redis, harmed by one nemesis after the other, judged by rlcheck.

    run.py [--duration SECONDS] [--seed N] [--clients N] [--only NEMESIS,...] [--keep]

Each nemesis runs once; with a longer duration all of them again, in random order, and random pairs of them. One test
each: the harm happened, and every process works again after it; and for each world: the history is sound, nothing is
left. build/chaos/nemeses.txt has the same at length.
"""
import argparse
import collections
import os
import random
import shutil
import sys
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from world import LEASE, World, now_us, harness  # noqa: E402
from harness import until  # noqa: E402
import nemeses  # noqa: E402
import netns  # noqa: E402

# With grace and reclaim mutual exclusion outlives lost writes.
GRACE = os.environ.get("RLOCKD_GRACE", "1") == "1"  # 0: count violations, and do not fail for them
PARTS = {"single": {}, "net": {}, "pair": {"replica": True}, "clock": {"clock": True}}


class Report:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.lines = []
        self.happened = collections.Counter()

    def say(self, text):
        self.lines.append(text)
        print(text, flush=True)

    def test(self, what, wrong):
        """One test: `wrong` is None, or the reason."""
        self.passed += wrong is None
        self.failed += wrong is not None
        self.say("%s %s%s" % ("ok  " if wrong is None else "BAD ", what, "" if wrong is None else ": " + wrong))

    def end(self, path):
        summary = "%d passed, %d failed" % (self.passed, self.failed)
        if self.skipped:
            summary += ", %d skipped" % self.skipped
        self.say(summary)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write("\n".join(self.lines) + "\n")
        return self.failed == 0


def strict(n):
    """Whether mutual exclusion must outlive it."""
    return n.loses is None or (n.loses == "grace" and GRACE)


def strike(world, group, report):
    """Runs some nemeses at a time; then every process must work again."""
    name = " + ".join(n.name for n in group)
    began = now_us()
    wrong = None
    try:
        seen = [0] * len(group)
        if any(n.loses for n in group):
            world.plain_ends()
        world.beside += world.plain is not None
        world.until_in_runs()

        def watched(i, n):
            seen[i] = int((yield from n.run(world)) or 0)
        parts = nemeses.together([watched(i, n) for i, n in enumerate(group)])
        for seconds in parts:
            time.sleep(seconds)  # the harm itself lasts so long
        for n, times in zip(group, seen):
            report.happened[n.name] += times
            if times <= 0:
                wrong = "%s did not happen" % n.name
        wrong = wrong or world.lives()
        world.until_in_runs()
        if world.plain is None and world.has_plain:
            world.plain_begins()
    except Exception as e:
        wrong = "%s: %s" % (type(e).__name__, e)
        world.bad.append(traceback.format_exc())
    world.timeline.append((began, now_us(), name))
    report.test("%s: %s (%.1f s)" % (world.title, name, (now_us() - began) / 1e6), wrong)
    return wrong is None


def during(world, at):
    """The harms of the world at this time."""
    last = "nothing"
    for began, _, name in world.timeline:
        if at and began <= at:
            last = name
    return last


def judge_plain(world, report, verdict):
    turns = world.turns() or [0]
    report.say("     %s: the plain client had the lock %d times, and waited %.1f ms for it (median; 9 of 10 times less "
               "than %.1f)" % (world.title, verdict.plain, turns[len(turns) // 2], turns[len(turns) * 9 // 10]))
    report.test("%s: the plain client has its turn" % world.title,
                None if verdict.plain * 4 >= world.beside else "%d times" % verdict.plain)


def judge(world, report, is_strict):
    world.leaks()
    lost, writes, refused = world.numbers()
    verdict = world.verdict()
    report.say("     %s: %s" % (world.title, verdict))
    report.say("     %s: lost updates: %d of %d unfenced, %d of %d fenced (%d refused)" % (
        world.title, lost["plain"], writes["plain"], lost["fenced"], writes["fenced"], refused))
    lingers = sum(world.lingered.values())
    report.say("     %s: %d hand-overs; %d times a lock lingered" % (world.title, sum(world.handed.values()), lingers))
    if world.has_plain:
        judge_plain(world, report, verdict)
    report.test("%s: locks lingered" % world.title, None if lingers > 0 else "none did")
    double = [v for v in verdict.violations if v.kind in ("exclusion", "model")]
    other = [v for v in verdict.violations if v.kind not in ("exclusion", "model")]
    blame = collections.Counter(during(world, v.at) for v in double if v.kind == "exclusion")
    if blame:
        report.say("     %s: double grants: %s"
                   % (world.title, ", ".join("%d by %s" % (n, k) for k, n in blame.most_common())))
    for v in (double if is_strict else [])[:10] + other[:10]:
        report.say("     ! %s [%s]" % (v, during(world, v.at)))
    if is_strict:
        report.test("%s: one holder at a time" % world.title, "%d violations" % len(double) if double else None)
    else:
        report.say("     %s: one holder at a time is not asked of these" % world.title)
    report.test("%s: tokens, queues, answers, deadlines, nothing left" % world.title,
                "%d violations" % len(other) if other else None)
    report.test("%s: no fenced update is lost" % world.title, "%d" % lost["fenced"] if lost["fenced"] else None)
    enough = 200 if is_strict else 50  # where all data is lost again and again, few locks are granted
    report.test("%s: enough was done" % world.title, None if verdict.grants > enough else "%d grants" % verdict.grants)


def play(title, part, rows, is_strict, args, report, end=0):
    """One world, from its beginning to its check."""
    rng, failed = random.Random(args.seed), report.failed
    world = World(title, seed=args.seed, clients=args.clients, **PARTS[part])
    world.timeline = []
    try:
        world.listeners()
        world.fifo_clients()
        world.hot_clients()
        world.plain_begins()
        until(world.at_work)
        fine = all([strike(world, [n], report) for n in rows])
        while fine and time.monotonic() < end:
            group = rng.sample(rows, min(len(rows), rng.choice((1, 2, 2))))
            if nemeses.compatible(group):
                fine = strike(world, group, report)
        judge(world, report, is_strict)
    except Exception as e:
        report.test("%s: the run itself" % title, "%s: %s" % (type(e).__name__, e))
        world.bad.append(traceback.format_exc())
    finally:
        bad = report.failed > failed
        world.end(keep=args.keep or bad)
        report.test("%s: nothing broke" % title, "\n".join(world.bad) if world.bad else None)
        if args.keep or bad:
            report.say("     kept: %s" % world.dir)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--duration", type=float, default=0)
    p.add_argument("--seed", type=int, default=int(time.time()))
    p.add_argument("--clients", type=int, default=16)
    p.add_argument("--only", default="")
    p.add_argument("--keep", action="store_true")
    p.add_argument("--report", default=os.path.join(harness.TOP, "build", "chaos", "nemeses.txt"))
    args = p.parse_args()
    only = set(filter(None, args.only.split(",")))
    rows = [n for n in nemeses.TABLE if not only or n.name in only]
    unknown = only - {n.name for n in rows}
    if unknown:
        sys.exit("no such nemesis: %s" % ", ".join(sorted(unknown)))
    report = Report()
    report.say("chaos: seed %d, lease %.1f s, %d clients, %d nemeses, grace %s" % (
        args.seed, LEASE, args.clients, len(rows), "on" if GRACE else "not there yet"))
    if not netns.allowed():
        away = [n for n in rows if n.world == "net"]
        report.skipped += len(away)
        report.say("skip %s: no network namespaces here" % ", ".join(n.name for n in away))
        rows = [n for n in rows if n.world != "net"]
    groups = [(part, kind, [n for n in rows if n.world == part and strict(n) == kind]) for part in PARTS
              for kind in (True, False)]
    groups = [g for g in groups if g[2]]
    share = args.duration / max(1, len(groups))
    for part, kind, some in groups:
        play(part + ("" if kind else "-lossy"), part, some, kind, args, report,
             time.monotonic() + share if args.duration else 0)
    report.say("")
    for n in rows:
        report.say("     %-24s %6d times  %s; heals: %s%s" % (
            n.name, report.happened[n.name], n.does, n.heals,
            {None: "", "grace": "  [needs grace]", "always": "  [loses]"}[n.loses]))
    sys.exit(0 if report.end(args.report) else 1)


if __name__ == "__main__":
    netns.enter()
    main()
