#!/usr/bin/env python3
"""way.py -- the way of one uncontended LOCK through the daemon: the moves from a file into another one.

  way.py [--all|--lines] [--most N]

The daemon is built with -finstrument-functions (build/way) and serves one client over a Unix socket. The first LOCK and
UNLOCK load the scripts; what runs for each of the next LOCKs is written down. The way with the fewest moves counts:
heartbeats and the like add some to the others. A call from a function of one file to a function of another is a move if
it leads on: if that function, or one that it calls, calls into one more file. The other calls are questions, and are
only counted. Calls into daemon/base, which knows nothing of locks, are left out. --all prints all calls, --lines the
moves as CONTRIBUTING.md has them. Fails when there are more than N moves.
"""
import argparse
import mmap
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
BUILD = os.path.join(TOP, "build", "way")
os.environ["RLOCKD_BUILD"] = BUILD
sys.path.append(os.path.join(os.path.dirname(HERE), "redis"))

import harness  # noqa: E402

WORDS_MAX = 1 << 20
LOCKS = 12
MACHINERY = ("daemon/base/",)


class Tape:
    """What way.c writes: a word that counts, and addresses; an odd one is a return."""

    def __init__(self, path):
        with open(path, "wb") as f:
            f.truncate(8 * WORDS_MAX)
        with open(path, "rb") as f:
            self.words = memoryview(mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)).cast("Q")

    def at(self):
        return self.words[0]

    def still(self):
        """the turn behind the last answer is over"""
        at = self.at()
        time.sleep(0.05)
        return at if at == self.at() else 0

    def between(self, begin, end):
        return list(self.words[begin + 1:end + 1])


def places(addresses):
    """{address: (function, file)}."""
    asked = sorted(set(addresses))
    out = subprocess.run(["addr2line", "-f", "-e", os.path.join(BUILD, "rlockd")] + ["%x" % a for a in asked],
                         check=True, capture_output=True, text=True).stdout.splitlines()
    return {a: (out[2 * i], os.path.relpath(out[2 * i + 1].split(":")[0], TOP)) for i, a in enumerate(asked)}


class Move:
    """A call that leaves a file. It leads on when something behind it leaves its file as well, else it asks."""

    def __init__(self, came, file, function):
        self.came, self.file, self.function = came, file, function
        self.leads_on = False


def moves(words, machinery):
    """The calls that leave a file, in their order; those into files that begin with `machinery` are left out."""
    where = places(word & ~1 for word in words)
    stack, found = [], []  # of the stack: (file, the move that is open there)
    for word in words:
        function, file = where[word & ~1]
        if word & 1:
            if stack:
                stack.pop()
            continue
        came, open_move = stack[-1] if stack else ("libevent", None)
        move = open_move
        if came != file and not file.startswith(machinery):
            move = Move(came, file, function)
            found.append(move)
            for _, one in stack:
                if one is not None:
                    one.leads_on = True
        stack.append((file, move))
    return found


def one_way(tape, c, name):
    begin = harness.until(tape.still)
    token = c.cmd("LOCK", name)
    end = tape.at()
    assert isinstance(token, int), token
    return tape.between(begin, end)


def leading_on(found):
    return [m for m in found if m.leads_on]


def some_locks(directory):
    path = os.path.join(directory, "tape")
    tape = Tape(path)
    shim = os.path.join(BUILD, "tests", "way", "way.so")
    daemon = harness.Rlockd(directory, env={**os.environ, "LD_PRELOAD": shim, "RLOCKD_WAY": path})
    try:
        daemon.ready()
        with daemon.conn() as c:
            for _ in range(2):
                c.cmd("LOCK", "way:warm")
                c.cmd("UNLOCK", "way:warm")
            ways = [one_way(tape, c, "way:%d" % i) for i in range(LOCKS)]
        return ways
    finally:
        daemon.stop()


def short(file):
    return file.removeprefix("daemon/")


def lines_of(way):
    """The list of CONTRIBUTING.md: caller, then what it calls; consecutive moves from one file are one line."""
    lines = []
    for i, m in enumerate(way):
        called = " %s %s" % (short(m.file), m.function)
        if i == 0 or way[i - 1].came != m.came or len(lines[-1] + called) > 110:
            lines.append("    %-24s" % short(m.came))
        lines[-1] += ("" if lines[-1].endswith(" ") else ",") + called
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--most", type=int)
    parser.add_argument("--lines", action="store_true", help="print the moves as CONTRIBUTING.md has them")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rlockd-way-") as directory:
        found = min((moves(words, () if options.all else MACHINERY) for words in some_locks(directory)),
                    key=lambda one: len(leading_on(one)))
    way = leading_on(found)
    if options.lines:
        print("\n".join(lines_of(way)))
        return 0
    for move in found if options.all else way:
        print("%-32s %-32s %s" % (move.came, move.file, move.function))
    print("%d moves that lead on, through %d files; and %d questions" %
          (len(way), len({m.file for m in way}), len(found) - len(way)))
    return options.most is not None and len(way) > options.most


if __name__ == "__main__":
    sys.exit(main())
