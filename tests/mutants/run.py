#!/usr/bin/env python3
"""Breaks the daemon on purpose, one mutant at a time, and shows which test notices. A mutant that lives is a failure.

  run.py [--jobs N] [--find] [--report FILE] [M5 M21 ...]

Each mutant is one replacement in one file, in a copy of the tree below build/mutants; its test is built and run there.
A catcher is `unit:NAME` (tests/unit/NAME.c), `redis:FILE[ Class.test]` or `sim:ARGUMENTS` (rlsim). --find tries every
catcher that any mutant has, and names all that notice: for whoever writes a new mutant.
"""
import argparse
import concurrent.futures
import os
import queue
import shutil
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)
from mutants import MUTANTS  # noqa: E402

BUILD = "build/test"
LEFT_OUT = ("build", ".git")
TIME_MAX = 240


class Tree:
    """A copy of the sources, and of what is built of them, that may be broken."""

    def __init__(self, number):
        self.path = os.path.join(TOP, "build", "mutants", "tree%d" % number)
        shutil.rmtree(self.path, True)
        shutil.copytree(TOP, self.path, symlinks=True, ignore=lambda d, names: [n for n in names if d == TOP and n in LEFT_OUT])
        shutil.copytree(os.path.join(TOP, BUILD), os.path.join(self.path, BUILD), symlinks=True)

    def run(self, words, **more):
        """(status, the end of what it said); what runs too long has noticed, too: it hangs."""
        p = subprocess.Popen(words, cwd=self.path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             start_new_session=True, **more)
        try:
            out = p.communicate(timeout=TIME_MAX)[0].decode(errors="replace")
        except subprocess.TimeoutExpired:
            os.killpg(p.pid, signal.SIGKILL)
            return 124, "still running after %d s\n" % TIME_MAX + p.communicate()[0].decode(errors="replace")[-400:]
        return p.returncode, out

    def make(self, *targets):
        status, out = self.run(["make", "-s", "B=" + BUILD, "TEST_CLOCK=1", *targets])
        if status != 0:
            raise RuntimeError("does not build: " + out[-600:])

    def catches(self, catcher):
        """What the test said when it failed; None: it passed."""
        sort, _, what = catcher.partition(":")
        if sort == "unit":
            program = os.path.join(BUILD, "tests/unit", what)
            self.make(program)
            status, out = self.run([program])
        elif sort == "redis":
            self.make(BUILD + "/rlockd", BUILD + "/rlock")
            status, out = self.run([sys.executable, os.path.join("tests/redis", what.split()[0]), *what.split()[1:]])
        else:
            program = os.path.join(BUILD, "tests/sim/rlsim")
            self.make(program)
            status, out = self.run([program, *what.split()])
        return None if status == 0 else evidence(out, status)

    def try_mutant(self, m, catchers, every):
        """[(catcher, evidence)] of those that noticed, one unless all are wanted."""
        path = os.path.join(self.path, m.file)
        with open(path) as f:
            text = f.read()
        if text.count(m.old) != 1:
            raise RuntimeError("%s has the text %d times" % (m.file, text.count(m.old)))
        found = []
        try:
            write(path, text.replace(m.old, m.new))
            for catcher in catchers:
                said = self.catches(catcher)
                if said is not None:
                    found.append((catcher, said))
                    if not every:
                        break
        finally:
            write(path, text)
        return found


def write(path, text):
    with open(path, "w") as f:
        f.write(text)
    soon = time.time() + 1  # newer than what was built of the other text in this second
    os.utime(path, (soon, soon))


def evidence(out, status):
    """The line that says what went wrong."""
    lines = [line for line in out.split("\n") if line.strip()]
    for sign in (":F:", ":E:", "Assertion", "violation", "Error:", "FAIL"):
        for line in lines:
            if sign in line:
                return line.strip()[:160]
    return ("status %d: %s" % (status, lines[-1] if lines else ""))[:160]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--find", action="store_true")
    parser.add_argument("--report")
    parser.add_argument("only", nargs="*")
    args = parser.parse_args()
    chosen = [m for m in MUTANTS if not args.only or m.id in args.only]
    unknown = set(args.only) - {m.id for m in MUTANTS}
    if unknown:
        sys.exit("no such mutant: " + " ".join(sorted(unknown)))
    everything = list(dict.fromkeys(c for m in MUTANTS for c in m.catch))
    trees = queue.Queue()
    for n in range(min(args.jobs, len(chosen))):
        trees.put(Tree(n))
    lines, failed = [], 0

    def work(m):
        tree = trees.get()
        try:
            return tree.try_mutant(m, everything if args.find else m.catch, args.find)
        finally:
            trees.put(tree)

    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for m, future in [(m, pool.submit(work, m)) for m in chosen]:
            try:
                found = future.result()
                verdict = "; ".join("%s: %s" % f for f in found) if found else "LIVES"
            except RuntimeError as e:
                found, verdict = [], str(e)
            failed += not found
            lines.append("%-4s %s\n     %s" % (m.id, m.story, verdict))
            print(lines[-1], flush=True)
    shutil.rmtree(os.path.join(TOP, "build", "mutants"), True)
    last = "%d passed, %d failed" % (len(chosen) - failed, failed)
    if args.report:
        os.makedirs(os.path.dirname(args.report) or ".", exist_ok=True)
        with open(args.report, "w") as f:
            f.write("\n".join([*lines, last, ""]))
    print(last)
    sys.exit(failed != 0)


if __name__ == "__main__":
    main()
