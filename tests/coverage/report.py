#!/usr/bin/env python3
"""Runs the tests on a build that counts (gcc --coverage), and says what they reach.

  report.py [--run] BUILD [--report FILE] [--show ROOM]

Fails when less than 95 % of all lines are reached, or when a branch of what must be known through and through (core,
reader, decoders of replies) is not. Not counted: branches of assert() and abort(), which say that they are never taken,
and those inside uthash's macros, which are the library's.
"""
import argparse
import collections
import glob
import gzip
import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
LINES_LEAST = 95.0
THROUGH = ("daemon/core/", "proto/reader.c", "daemon/backend/reply.c", "daemon/backend/call.c", "daemon/backend/epoch.c",
           "daemon/backend/text.c")
NO_BRANCH = re.compile(r"\bassert\(|\babort\(|\bHASH_[A-Z_]+\(|\bcore_check\b")


def run_tests(build):
    """Every test that ends its daemons in order, so that they write down what they counted."""
    suites = [["scripts/check-unit", *sorted(p for p in glob.glob(build + "/tests/unit/test_*") if os.access(p, os.X_OK))],
              [sys.executable, "tests/wire/run.py", "--build", build]]
    suites += [[sys.executable, t] for t in sorted(glob.glob("tests/redis/test_*.py"))]
    env = dict(os.environ, RLOCKD_BUILD=os.path.join(TOP, build), RLOCKD_SLOW="4", RLOCKD_ROUNDS="400")
    for words in suites:
        p = subprocess.run(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        print("%s: %s" % (" ".join(words[:2]), "ok" if p.returncode == 0 else "FAILED\n" + p.stdout.decode(errors="replace")[-2000:]), flush=True)


def counted(build):
    """source file -> line -> [count, [branch counts]]"""
    files = collections.defaultdict(lambda: collections.defaultdict(lambda: [0, []]))
    for gcno in glob.glob(build + "/**/*.gcno", recursive=True):
        if "/tests/" in gcno:
            continue
        out = subprocess.run(["gcov", "--json-format", "--stdout", "--branch-probabilities", gcno], stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL).stdout
        if out[:2] == b"\x1f\x8b":
            out = gzip.decompress(out)
        for line in out.decode().splitlines():
            for f in json.loads(line)["files"]:
                name = os.path.normpath(f["file"])
                if name.startswith(("/", "..")) or name.startswith("build"):
                    continue
                for row in f["lines"]:
                    at = files[name][row["line_number"]]
                    at[0] += row["count"]
                    counts = [b["count"] for b in row["branches"]]
                    if len(counts) == len(at[1]):
                        at[1] = [a + b for a, b in zip(at[1], counts)]
                    elif len(counts) > len(at[1]):
                        at[1] = counts
    return files


def room_of(name):
    return os.path.dirname(name) + "/" if name.count("/") and os.path.dirname(name) != "daemon" else name


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--report")
    parser.add_argument("--show")
    parser.add_argument("build")
    args = parser.parse_args()
    os.chdir(TOP)
    if args.run:
        run_tests(args.build)
    rooms = collections.defaultdict(lambda: [0, 0, 0, 0])
    missed, out, shown = [], [], []
    for name, lines in sorted(counted(args.build).items()):
        with open(name) as f:
            text = f.read().split("\n")
        room = rooms[room_of(name)]
        for number, (count, branches) in sorted(lines.items()):
            source = text[number - 1] if number <= len(text) else ""
            if re.search(r"\babort\(", source):
                continue
            room[0] += 1
            room[1] += count > 0
            if args.show and name.startswith(args.show) and count == 0:
                shown.append("%s:%d: %s" % (name, number, source.strip()))
            if NO_BRANCH.search(source):
                continue
            room[2] += len(branches)
            room[3] += sum(b > 0 for b in branches)
            if name.startswith(THROUGH) and any(b == 0 for b in branches):
                missed.append("%s:%d: %d of %d: %s" % (name, number, sum(b > 0 for b in branches), len(branches), source.strip()))
    total = [sum(r[i] for r in rooms.values()) for i in range(4)]
    for name, (lines, hit, branches, taken) in sorted(rooms.items()) + [("all", total)]:
        out.append("%-20s lines %6d %6.2f %%   branches %6d %6.2f %%" % (name, lines, 100.0 * hit / max(lines, 1), branches,
                                                                       100.0 * taken / max(branches, 1)))
    out += ["", "branches not taken in what must be known through and through: %d" % len(missed), *missed, *shown]
    good = 100.0 * total[1] / max(total[0], 1) >= LINES_LEAST, not missed
    out.append("%d passed, %d failed" % (sum(good), 2 - sum(good)))
    print("\n".join(out))
    if args.report:
        with open(args.report, "w") as f:
            f.write("\n".join(out) + "\n")
    sys.exit(not all(good))


if __name__ == "__main__":
    main()
