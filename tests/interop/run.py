#!/usr/bin/env python3
"""run.py -- `make interop`: real lock libraries and stock clients beside and in front of rlockd, and load.

    run.py [--only TEXT] [--cell TEXT] [--jobs N] [--locks|--watched|--cluster|--quorum|--clients|--load]

prints its steps, then the tables, the reasons of all cells that did not pass, and `N passed, N failed[, N
skipped]`; the same goes to build/interop/report.txt. Status 0 exactly when nothing failed. N parts run at a time (as
many as there are processors), and then the loads, one after the other.
"""
import argparse
import glob
import os
import signal
import subprocess
import sys
import time

import install
import parts
from parts import fitting, say
from table import Outcome, Table
from world import harness

HERE = os.path.dirname(os.path.abspath(__file__))
LOAD_TIMEOUT = 200 * harness.SLOW
# After these seconds no cell begins, so that a daemon without answers does not stop the run for hours. Then come the
# loads.
MATRIX_TIMEOUT = 1300 * harness.SLOW
OPTIONS = ("locks", "watched", "cluster", "quorum", "clients", "load")


def load_outcome(script):
    """Runs one tests/interop/load_*.py. Status 0: ok and its last line; 77: skipped."""
    try:
        p = subprocess.run([sys.executable, script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, timeout=LOAD_TIMEOUT, preexec_fn=harness.die_with_us)
    except subprocess.TimeoutExpired:
        return Outcome("FAILED", "not done in %d s" % LOAD_TIMEOUT)
    lines = p.stdout.decode(errors="replace").strip().split("\n")
    if p.returncode == 0:
        return Outcome("ok", lines[-1])
    if p.returncode == 77:
        return Outcome("skipped", lines[-1])
    return Outcome("FAILED", " | ".join(lines[-3:])[-400:])


def load(asked):
    table = Table("Load", ["outcome"])
    for script in fitting(sorted(glob.glob(os.path.join(HERE, "load_*.py"))), asked.only, os.path.basename):
        began = time.monotonic()
        o = load_outcome(script)
        name = os.path.basename(script)[5:-3]
        say("%-42s %-12s %5.1f s  %s" % ("load", name, time.monotonic() - began, o))
        table.add("load " + name, "", [o])
    return table


def report(tables, began):
    lines = []
    for t in tables:
        lines += t.lines()
    reasons = [line for t in tables for line in t.why()]
    if reasons:
        lines += ["", "Not ok:"] + reasons
    passed, failed, skipped = (sum(t.count(s) for t in tables) for s in ("ok", "FAILED", "skipped"))
    lines += ["", "%.0f s" % (time.monotonic() - began)]
    lines.append("%d passed, %d failed%s" % (passed, failed, ", %d skipped" % skipped if skipped else ""))
    path = install.path("report.txt")
    with open("%s.%d" % (path, os.getpid()), "w") as f:
        f.write("\n".join(lines) + "\n")
    os.replace(f.name, path)
    say("\n".join(lines))
    return failed or not passed


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--only", help="rows whose name has this")
    p.add_argument("--cell", help="columns whose name has this")
    p.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="parts at a time")
    for option in OPTIONS:
        p.add_argument("--" + option, action="store_true", help="only this part")
    asked = p.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the exit ends all started processes
    every = not any(getattr(asked, option) for option in OPTIONS)
    began = time.monotonic()
    for package, why in sorted(install.everything().items()):
        say("skipped: %s: %s" % (package, why))
    say("installed in %.0f s" % (time.monotonic() - began))
    end = time.monotonic() + MATRIX_TIMEOUT
    matrices = [m for m in parts.matrices() if every or getattr(asked, m.option)]
    parts.run([p for m in matrices for p in m.parts(asked, end)], max(1, asked.jobs))
    tables = [m.table() for m in matrices]
    if every or asked.load:
        tables.append(load(asked))
    return 1 if report(tables, began) else 0


if __name__ == "__main__":
    sys.exit(main())
