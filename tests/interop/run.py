#!/usr/bin/env python3
"""run.py -- `make interop`: real lock libraries and stock clients beside and in front of rlockd, and load.

    run.py [--only TEXT] [--cell TEXT] [--locks|--watched|--cluster|--quorum|--clients|--load]

prints its steps, then the tables, the reasons of all cells that did not pass, and `N passed, N failed[, N
skipped]`; the same goes to build/interop/report.txt. Status 0 exactly when nothing failed.
"""
import argparse
import glob
import os
import signal
import subprocess
import sys
import time

import cells_clients
import cells_cluster
import cells_locks
import cells_quorum
import install
import libraries
from table import Outcome, Table, run_row
from world import Clustered, ClusteredPlain, OverThree, Watched, World, harness

HERE = os.path.dirname(os.path.abspath(__file__))
LOAD_TIMEOUT = 200 * harness.SLOW
# After these seconds no cell begins, so that a daemon without answers does not stop the run for hours. Then come the
# loads.
MATRIX_TIMEOUT = 1300 * harness.SLOW


def say(text):
    print(text, flush=True)


def fitting(items, text, name):
    return [i for i in items if text is None or text in name(i)]


def matrix(world, title, rows, module, asked, end, columns=None):
    """One table. The row of a library that could not be installed has only skips."""
    columns = fitting(columns or module.COLUMNS, asked.cell, lambda c: c[0])
    table = Table(title, [c[0] for c in columns])
    for lib in fitting(rows, asked.only, lambda r: r.name):
        if lib.why():
            table.add(lib.name, "-", [Outcome("skipped", lib.why())] * len(columns))
            say("%-42s skipped: %s" % (lib.name, lib.why()))
            continue
        row = module.Row(world, lib)
        table.add(lib.name, *run_row(row, lambda r: r.driver.ask("main", "version"), columns, world, say, end))
    return table


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
    for part in ("locks", "watched", "cluster", "quorum", "clients", "load"):
        p.add_argument("--" + part, action="store_true", help="only this part")
    asked = p.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the exit ends all started processes
    every = not any((asked.locks, asked.watched, asked.cluster, asked.quorum, asked.clients, asked.load))
    began, tables = time.monotonic(), []
    for package, why in sorted(install.everything().items()):
        say("skipped: %s: %s" % (package, why))
    say("installed in %.0f s" % (time.monotonic() - began))
    end = time.monotonic() + MATRIX_TIMEOUT
    if every or asked.locks or asked.clients:
        with World("locks: { owner_grace: 1s }\n") as world:
            if every or asked.locks:
                tables.append(matrix(world, "Lock libraries", libraries.locks(), cells_locks, asked, end))
            if every or asked.clients:
                tables.append(matrix(world, "Stock clients", libraries.clients(), cells_clients, asked, end))
    if every or asked.watched:
        with Watched("locks: { owner_grace: 1s }\n") as world:
            tables.append(matrix(world, "Lock libraries with sentinels", libraries.watched(), cells_locks, asked, end,
                                 cells_locks.WATCHED))
    if every or asked.cluster:
        with Clustered("locks: { owner_grace: 1s, lease: 6s }\n") as world:
            tables.append(matrix(world, "Lock libraries in a cluster", libraries.clustered(), cells_cluster, asked,
                                 end))
        with ClusteredPlain("locks: { owner_grace: 1s, lease: 6s }\nredis: { publish: both }\n") as world:
            tables.append(matrix(world, "Lock libraries in a cluster, by PUBLISH", libraries.plain(), cells_cluster,
                                 asked, end, cells_cluster.PLAIN))
    if every or asked.quorum:
        with OverThree("locks: { owner_grace: 1s, lease: 6s }\n") as world:
            tables.append(matrix(world, "Lock libraries over three masters", libraries.quorum(), cells_quorum, asked,
                                 end))
    if every or asked.load:
        tables.append(load(asked))
    return 1 if report(tables, began) else 0


if __name__ == "__main__":
    sys.exit(main())
