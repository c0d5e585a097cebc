#!/usr/bin/env python3
"""Breaks the daemon on purpose, one mutant at a time, and shows which test notices. A mutant that lives is a failure.

  run.py [--jobs N] [--some] [--find] [--every] [--in-check] [--report FILE] [M5 M21 ...]

Each mutant is one replacement in one function, in a copy of the sources and objects of build/test, which must be up to
date. A catcher is `unit:NAME[ CASE]` (tests/unit/NAME.c, one case of Check), `redis:FILE[ Class.test]`, `wire:FILE`,
`sim:ARGUMENTS` (rlsim) or `chaos:ARGUMENTS` (nodes.py, only its checker's verdict counts); the first that fails is
enough. --every runs all catchers of a mutant; --find those of all mutants, to find catchers for a new one. --some takes
another half of the mutants each day, and a quarter of those with real daemons. A catcher must pass without a mutant:
with --in-check only sim and chaos are run for that, since `make check` runs all tests of unit, redis and wire.
"""
import argparse
import concurrent.futures
import os
import queue
import random
import re
import shutil
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)
from mutants import MUTANTS, PROOFS  # noqa: E402
from source import Missing, source_of  # noqa: E402

BUILD = "build/test"
ALONE = os.path.join(HERE, "alone.py")
PLACE = os.path.join(TOP, "build", "mutants")
KEPT = os.path.join(PLACE, "kept")
ENV = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "RLOCKD_BUILD")}
SOURCES = ("Makefile", "README.md", "daemon", "proto", "conf", "scripts", "tests/unit", "tests/redis", "tests/sim",
           "tests/wire", "tests/chaos")
FAST_PARTS, SLOW_PARTS = 2, 4  # see some_of()
TIME_MAX = 120 * int(os.environ.get("RLOCKD_SLOW", "1"))
# The errors of a script that is invalid Lua: a test that fails by one of these proves nothing.
NO_LUA = re.compile(r"compiling script|nonexistent global variable|attempt to (call|index|perform|compare|concatenate)")
# The line by which a test framework, a sanitizer or an assertion reports a failure.
REPORTED = re.compile(r":[FE]:|Assertion `|ERROR: \w+Sanitizer|runtime error:|^seed \d+( at [^:]*)?: |^(FAIL|ERROR): |"
                  r"^FAILED \S+\.wire:\d+: |^BAD  \w+: (one holder|tokens)|\d  FAILED$")


class NoMutant(Exception):
    pass


class Tree:
    """A copy of the sources and of their build, which may be broken."""

    def __init__(self, number, kept):
        self.path = os.path.join(PLACE, "tree%d" % number)
        for name in SOURCES:
            whole, copy = os.path.join(TOP, name), os.path.join(self.path, name)
            os.makedirs(os.path.dirname(copy), exist_ok=True)
            if os.path.isdir(whole):
                shutil.copytree(whole, copy, symlinks=True)
            else:
                shutil.copy2(whole, copy)
        self.kept = kept
        for name in self.kept:
            self.renew(name)

    def renew(self, name):
        copy = os.path.join(self.path, BUILD, name)
        os.makedirs(os.path.dirname(copy), exist_ok=True)
        shutil.copy2(os.path.join(KEPT, name), copy)

    def mend(self):
        """Restores the build, so that make compiles only the files that the next mutant changes."""
        top = os.path.join(self.path, BUILD)
        for folder, _, names in os.walk(top):
            for name in names:
                path = os.path.join(folder, name)
                name = os.path.relpath(path, top)
                if name not in self.kept:
                    os.unlink(path)
                elif os.stat(path).st_mtime_ns != self.kept[name]:
                    self.renew(name)

    def make(self, *targets):
        p = subprocess.run(["make", "-s", "B=" + BUILD, "TEST_CLOCK=1", "CFLAGS=-O0", *targets], cwd=self.path,
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=ENV)
        if p.returncode != 0:
            raise NoMutant("does not build: " + p.stdout.decode(errors="replace")[-600:])

    def catches(self, catcher):
        """The report of the failed test; None: it passed."""
        sort, _, what = catcher.partition(":")
        if sort == "unit":
            self.make(BUILD + "/tests/unit/" + what.split()[0])
        elif sort == "sim":
            self.make(BUILD + "/tests/sim/rlsim")
        elif sort == "chaos":
            self.make(BUILD + "/rlockd", *(BUILD + "/tests/chaos/" + name for name in ("client", "resource")))
        elif not what.startswith("test_scripts"):
            self.make(BUILD + "/rlockd", BUILD + "/rlock")
        status, out = run(self.path, words_of(catcher))
        return None if status == 0 else evidence(out, status)

    def try_mutant(self, m, catchers, every):
        """[(catcher, evidence)] of the tests that failed: one, unless all are requested."""
        found = []
        try:
            for edit in [(m.file, m.where, m.old, m.new), *m.also]:
                self.exchange(*edit)
            for catcher in catchers:
                report = self.catches(catcher)
                if report is not None:
                    found.append((catcher, report))
                    if not every:
                        break
        finally:
            for edit in [(m.file, m.where, m.old, m.new), *m.also]:
                shutil.copy2(os.path.join(TOP, edit[0]), os.path.join(self.path, edit[0]))
            self.mend()
        return found

    def exchange(self, file, where, old, new):
        path = os.path.join(self.path, file)
        try:
            text = source_of(path).exchange(where, old, new)
        except Missing as e:
            raise NoMutant("%s: %s" % (file, e)) from None
        with open(path, "w") as f:
            f.write(text)


def built(catchers):
    """
    Copies the files of BUILD that a tree needs to KEPT, {name: time}: objects, and of the tests only catchers. Without
    what debuggers read each mutant is linked sooner.
    """
    units = {c.partition(":")[2].split()[0] for c in catchers if c.startswith("unit:")}
    sim = any(c.startswith("sim:") for c in catchers)
    kept, top = [], os.path.join(TOP, BUILD)
    for folder, _, names in os.walk(top):
        room = os.path.relpath(folder, top)
        for name in names:
            base, end = os.path.splitext(name)
            if end not in (".o", ".d", ".h") or (room == "tests/unit" and base not in {"core_check", *units}) or \
                    (room.startswith("tests/") and room != "tests/unit" and not (sim and room == "tests/sim")):
                continue
            kept.append(os.path.relpath(os.path.join(folder, name), top))
            os.makedirs(os.path.join(KEPT, room), exist_ok=True)
            shutil.copy2(os.path.join(folder, name), os.path.join(KEPT, room))
    objects = [name for name in kept if name.endswith(".o")]
    subprocess.run(["strip", "--strip-debug", "--preserve-dates", *objects], cwd=KEPT, check=True)
    return {name: os.stat(os.path.join(KEPT, name)).st_mtime_ns for name in kept}


def words_of(catcher):
    sort, _, what = catcher.partition(":")
    if sort == "unit":
        name, _, case = what.partition(" ")
        return [*(["env", "CK_RUN_CASE=" + case] if case else []), os.path.join(BUILD, "tests/unit", name)]
    if sort == "sim":
        shape = [] if "--shape" in what else ["--shape", "standalone"]
        return [os.path.join(BUILD, "tests/sim/rlsim"), *shape, *what.split()]
    if sort == "chaos":
        return [sys.executable, "tests/chaos/nodes.py", "--discard", *what.split()]
    if sort == "wire":
        return [sys.executable, "tests/wire/run.py", "--build", BUILD, os.path.join("tests/wire", what)]
    return [sys.executable, os.path.join("tests/redis", what.split()[0]), *what.split()[1:]]


def run(where, words):
    """(status, output). A test that runs too long counts as failed: it hangs. Ends all processes that it started."""
    p = subprocess.run([sys.executable, "-I", "-S", ALONE, str(TIME_MAX), *words], cwd=where, stdin=subprocess.DEVNULL,
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True, env=ENV)
    out = p.stdout.decode(errors="replace")
    if p.returncode == 124:
        return 124, out[-400:]
    return 128 - p.returncode if p.returncode > 128 else p.returncode, out


def proves():
    """A process that has left its parent, its session and its signals is ended with the test."""
    status, out = run(TOP, [sys.executable, "-c", """
import subprocess
words = ["sh", "-c", "trap '' TERM HUP; echo $$; sleep 1000; sleep 1000"]
p = subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True)
print(int(p.stdout.readline()), flush=True)
raise SystemExit(3)
"""])
    assert status == 3, out
    assert not os.path.exists("/proc/%d" % int(out)), "what a test left goes on"
    assert run(TOP, ["sh", "-c", "kill -9 $$"])[0] == -signal.SIGKILL, "blind to a test that a signal ended"


def evidence(out, status):
    """The line that reports the failure; for unittest the name of the test, and then the line."""
    if status == 124:
        return "still running after %d s" % TIME_MAX
    if NO_LUA.search(out):
        raise NoMutant("no Lua: " + next(line for line in out.split("\n") if NO_LUA.search(line))[:300])
    lines = [line.strip() for line in out.split("\n")]
    for at, line in enumerate(lines):
        if REPORTED.search(line):
            if line.startswith(("FAIL: ", "ERROR: ")):
                error = next((e for e in lines[at:] if re.match(r"[\w.]+(Error|Exception|Expired)\b", e)), "")
                line = "%s: %s" % (line.split()[1], error)
            return re.sub(r"^tests/unit/|:\w+:\d+(?=: )", "", line)[:160]
    if status < 0:
        return "ended by signal %d" % -status
    raise NoMutant("status %d, and no line reports why: %s" % (status, out[-300:]))


def is_slow(m):
    """Its tests have real daemons, which mostly wait."""
    return m.catch[0].startswith(("redis:", "chaos:")) and not m.catch[0].startswith("redis:test_scripts")


def mixed(mutants):
    """In an order in which tests that wait run beside tests that compute, and in which no slow one comes late."""
    order = random.Random(1).sample(mutants, len(mutants))
    late = [m for m in order[-len(order) // 4:] if is_slow(m)]
    return late + [m for m in order if m not in late]


def some_of(mutants):
    """A part of the mutants, each day another one, since all are too many for each `make check`. CI runs all."""
    day = int(time.time() / 86400)
    slow = [m for m in mutants if is_slow(m)]
    fast = [m for m in mutants if not is_slow(m)]
    chosen = fast[day % FAST_PARTS::FAST_PARTS] + slow[day % SLOW_PARTS::SLOW_PARTS]
    return [m for m in mutants if m in chosen]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=4 * (os.cpu_count() or 1))  # most of them wait
    parser.add_argument("--some", action="store_true")
    parser.add_argument("--find", action="store_true")
    parser.add_argument("--every", action="store_true")
    parser.add_argument("--in-check", action="store_true")
    parser.add_argument("--report")
    parser.add_argument("only", nargs="*")
    args = parser.parse_args()
    began = time.monotonic()
    proves()
    chosen = [m for m in MUTANTS if not args.only or m.id in args.only]
    if args.some:
        chosen = some_of(chosen)
    unknown = set(args.only) - {m.id for m in MUTANTS}
    if unknown:
        sys.exit("no such mutant: " + " ".join(sorted(unknown)))
    everything = list(dict.fromkeys(c for m in MUTANTS for c in m.catch))
    asked = {m.id: everything if args.find else m.catch for m in chosen}
    asked.update((m.id, m.catch) for m, _ in PROOFS)
    every = args.find or args.every
    trees = queue.Queue()
    shutil.rmtree(PLACE, True)
    kept = built({c for which in asked.values() for c in which})
    for n in range(args.jobs):
        trees.put(Tree(n, kept))
    lines, failed, used = [], 0, []

    def work(m):
        tree, since = trees.get(), time.monotonic()
        try:
            found = tree.try_mutant(m, asked[m.id], every)
            return found, "" if found else "it lives", time.monotonic() - since
        except NoMutant as e:
            return [], str(e), time.monotonic() - since
        finally:
            trees.put(tree)

    def log_line(line):
        lines.append(line)
        print(line, flush=True)

    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        tried = {m.id: pool.submit(work, m) for m in [*(m for m, _ in PROOFS), *mixed(chosen)]}
        for m, verdict in PROOFS:
            if verdict not in tried[m.id].result()[1]:
                failed += 1
                log_line("%-4s %s: FAILED: verdict: %s" % (m.id, m.story, tried[m.id].result()))
        for m in chosen:
            found, trouble, took = tried[m.id].result()
            failed += not found
            used += [c for c, _ in found]
            caught = "; ".join("caught by %s: %s" % f for f in found)
            log_line("%-4s %s (%.1f s): %s" % (m.id, m.story, took, caught or "FAILED: " + trouble))
        used = list(dict.fromkeys(used))
        if args.in_check:
            used = [c for c in used if not c.startswith(("unit:", "redis:", "wire:"))]
        for catcher, (status, out) in zip(used, pool.map(lambda c: run(TOP, words_of(c)), used)):
            if status != 0:
                failed += 1
                log_line("FAILED: %s fails without any mutant: %s" % (catcher, out[-300:]))
    shutil.rmtree(PLACE, True)
    for line in [line for line in lines if "FAILED: " in line]:  # once more, at the end of the log
        log_line(line)
    spent = os.times()
    log_line("%d mutants, %d catchers without a mutant: %.0f s, of the processors %.0f s" % (
        len(chosen), len(used), time.monotonic() - began, sum(spent[:4])))
    log_line("%d passed, %d failed" % (max(len(chosen) - failed, 0), failed))
    if args.report:
        os.makedirs(os.path.dirname(args.report) or ".", exist_ok=True)
        with open(args.report, "w") as f:
            f.write("\n".join([*lines, ""]))
    sys.exit(failed != 0)


if __name__ == "__main__":
    main()
