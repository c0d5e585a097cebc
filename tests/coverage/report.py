#!/usr/bin/env python3
"""Runs the tests on a build that counts (gcc -O0 --coverage), and says what they reach.

  report.py [--run] BUILD [--report FILE] [--show ROOM]

Fails when less than 95 % of all lines are reached, or when a branch of what must be known through and through (core,
reader, decoders of replies) is not.
"""
import argparse
import collections
import concurrent.futures
import glob
import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
LINES_LEAST = 95.0
THROUGH = ("daemon/core/", "proto/reader.c", "daemon/backend/reply.c", "daemon/backend/call.c",
           "daemon/backend/call_words.c", "daemon/backend/epoch.c", "daemon/backend/text.c")
RULES = """\
A line or branch is reached when any test reached it: the same function in several objects (a header's, or a file that a
test compiles into itself with another malloc) is one. Branches not counted, and no others:
  - those inside assert(): it says that one side is impossible, and stays on in what users get;
  - of a switch, the way to a case that is assert(false) or abort(); and the way past all cases where there is no
    default and each is a value of an enum, for -Wswitch (an error in `make check`) sees to it that none is missing;
Not counted as a line: abort(), which stands where an assert could not.
"""
IMPOSSIBLE = re.compile(r"\bassert\(false\)|\babort\(\)")
NOT_OURS = re.compile(r"\bassert\(")
AT_ONCE = 2


# ---- the tests ----

def suites(build):
    """Every test that ends its processes in order, so that they write down what they counted; the slowest first."""
    bin_of = os.path.join(TOP, build)
    yield [sys.executable, "tests/faults/run.py", "--build", bin_of, "--short", "--what", "memory,calls",
           "--only", "lock_unlock,waiters,subscribers,http,redis_cut,batch"]
    for t in sorted(glob.glob("tests/redis/test_*.py"), key=os.path.getsize, reverse=True):
        yield [sys.executable, t]
    yield [sys.executable, "tests/wire/run.py", "--build", build]
    for t in sorted(glob.glob(build + "/tests/unit/test_*")):
        if os.access(t, os.X_OK):
            yield ["scripts/check-unit", t]
    for t in sorted(glob.glob(build + "/tests/fuzz/fuzz_*")):
        if os.access(t, os.X_OK):
            yield [t, "0", *sorted(glob.glob("tests/fuzz/corpus/%s/*" % os.path.basename(t)[len("fuzz_"):]))]


def run_suite(build, words):
    began = time.monotonic()
    env = dict(os.environ, RLOCKD_BUILD=os.path.join(TOP, build), RLOCKD_SLOW="4", RLOCKD_ROUNDS="400")
    p = subprocess.run(words, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    title = os.path.basename(words[1] if words[0] in (sys.executable, "scripts/check-unit") else words[0])
    if words[1].endswith("run.py"):
        title = os.path.basename(os.path.dirname(words[1]))
    print("%-28s %6.1f s  %s" % (title, time.monotonic() - began,
                                 "ok" if p.returncode == 0 else "FAILED\n" + p.stdout.decode(errors="replace")[-3000:]),
          flush=True)
    return p.returncode == 0


def run_tests(build):
    """How many failed. Two at a time: most of them wait for a clock more than they run."""
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        good = list(pool.map(lambda words: run_suite(build, words), list(suites(build))))
    print("%d tests in %.0f s" % (len(good), time.monotonic() - began), flush=True)
    return good.count(False)


# ---- what gcov counted ----

def gcov(gcno):
    """[(file, function, line, count, [branch counts])] of one object."""
    out = subprocess.run(["gcov", "--json-format", "--stdout", "--branch-probabilities", gcno], stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL).stdout
    if out[:2] == b"\x1f\x8b":
        out = gzip.decompress(out)
    rows = []
    for line in out.decode().splitlines():
        for f in json.loads(line)["files"]:
            name = os.path.normpath(f["file"])
            if not name.startswith(("/", "..", "build", "tests")):
                rows += [(name, r.get("function_name"), r["line_number"], r["count"],
                          [b["count"] for b in r["branches"]])
                         for r in f["lines"]]
    return rows


def counted(build):
    """file -> line -> [count, [branch counts]], over all objects, those of tests as well."""
    places = {}
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        for rows in pool.map(gcov, glob.glob(build + "/**/*.gcno", recursive=True)):
            for name, function, line, count, branches in rows:
                at = places.setdefault((name, function, line), [0, []])
                at[0] += count
                if len(branches) == len(at[1]):
                    at[1] = [a + b for a, b in zip(at[1], branches)]
                elif len(branches) > len(at[1]):
                    at[1] = branches  # an object that was compiled otherwise; only a file that a test rewrites has that
    files = collections.defaultdict(dict)
    for (name, _, line), (count, branches) in places.items():
        at = files[name].setdefault(line, [0, []])
        at[0] += count
        at[1] = at[1] + branches
    return files


# ---- what is not to be counted ----

def closing(text, at, pair):
    """Where the bracket that opens at `at` ends."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] == pair[0]) - (text[i] == pair[1])
        if depth == 0:
            return i
    return len(text)


def line_at(text, at):
    return text.count("\n", 0, at) + 1


def left_out(text):
    """(lines whose branches are not ours, line of a switch -> how many of its ways are declared impossible)"""
    lines, switches = set(), {}
    for m in NOT_OURS.finditer(text):
        lines.update(range(line_at(text, m.start()), line_at(text, closing(text, m.end() - 1, "()")) + 1))
    for m in re.finditer(r"\bswitch \(", text):
        start = text.index("{", closing(text, m.end() - 1, "()"))
        body = text[start:closing(text, start, "{}")]
        whole_enum = "default:" not in body and not re.search(r"\bcase (?![A-Z_]+:)", body)
        switches[line_at(text, m.start())] = len(IMPOSSIBLE.findall(body)) + whole_enum
    return lines, switches


# ---- the report ----

def room_of(name):
    return os.path.dirname(name) + "/" if name.count("/") and os.path.dirname(name) != "daemon" else name


class Sums:
    def __init__(self):
        self.rooms = collections.defaultdict(lambda: [0, 0, 0, 0])
        self.missed, self.shown = [], []

    def add(self, name, lines, show):
        with open(name) as f:
            text = f.read()
        source = [""] + text.split("\n")
        not_ours, switches = left_out(text)
        room = self.rooms[room_of(name)]
        for number, (count, branches) in sorted(lines.items()):
            if "abort()" in source[number]:
                continue
            room[0] += 1
            room[1] += count > 0
            if show and name.startswith(show) and count == 0:
                self.shown.append("%s:%d: %s" % (name, number, source[number].strip()))
            if number in not_ours:
                continue
            taken = sum(b > 0 for b in branches)
            ours = len(branches) - min(switches.get(number, 0), len(branches) - taken)
            room[2] += ours
            room[3] += taken
            if name.startswith(THROUGH) and taken < ours:
                self.missed.append("%s:%d: %d of %d: %s" % (name, number, taken, ours, source[number].strip()))

    def table(self):
        total = [sum(r[i] for r in self.rooms.values()) for i in range(4)]
        for name, (lines, hit, branches, taken) in sorted(self.rooms.items()) + [("all", total)]:
            yield "%-26s lines %6d %6.2f %%   branches %6d %6.2f %%" % (
                name, lines, 100.0 * hit / max(lines, 1), branches, 100.0 * taken / max(branches, 1))

    def enough_lines(self):
        return sum(r[1] for r in self.rooms.values()) * 100.0 >= sum(r[0] for r in self.rooms.values()) * LINES_LEAST


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--report")
    parser.add_argument("--show", help="name each line of this room that is not reached")
    parser.add_argument("build")
    args = parser.parse_args()
    os.chdir(TOP)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also when started in the background: tests send them
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    failed = run_tests(args.build) if args.run else 0
    sums = Sums()
    for name, lines in sorted(counted(args.build).items()):
        sums.add(name, lines, args.show)
    good = [failed == 0, sums.enough_lines(), not sums.missed]
    out = [RULES, *sums.table(), "",
           "branches not taken in what must be known through and through: %d" % len(sums.missed),
           *sums.missed, *sums.shown, "%d passed, %d failed" % (sum(good), len(good) - sum(good))]
    print("\n".join(out))
    if args.report:
        with open(args.report, "w") as f:
            f.write("\n".join(out) + "\n")
    sys.exit(not all(good))


if __name__ == "__main__":
    main()
