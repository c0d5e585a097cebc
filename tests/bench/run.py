#!/usr/bin/env python3
"""run.py -- `make bench`: all measurements side by side in one run, round after round, and a report of the ratios.

    run.py [--quick] [--rows PATTERN] [--rounds N] [--seconds S] [--small] [--out DIR] [--list]

Each round runs every cell of the table once, in an order that is rotated from round to round. See README.md.
"""
import argparse
import fnmatch
import json
import os
import subprocess
import sys
import tempfile
import time

import peers
import profile
import report
import rows
import scale
import servers
from figures import Figure, ratio


def load_words(cell, server, seconds, warm):
    words = [servers.LOAD, "--proto", cell.proto, "--at", server.at, "--clients", str(cell.clients),
             "--pipeline", str(cell.pipeline), "--seconds", str(seconds), "--warm", str(warm),
             "--retry", str(cell.retry)]
    words += ["--hot"] if cell.hot else []
    words += ["--one-owner"] if cell.one_owner else []
    words += ["--processes"] if cell.processes else []
    words += ["--redis", server.redis] if server.redis else []
    for name, pid in server.cpu.items():
        words += ["--cpu", "%s=%d" % (name, pid)]
    return words


def measure(stage, cell, seconds, warm):
    """One cell, once: load's output."""
    server = stage.server(cell.server)
    other = peers.measures(cell)
    if other:
        m = dict(other(cell, server, seconds), redis_calls=0)
        server.rest()
        return m
    before = server.calls()
    p = subprocess.run(load_words(cell, server, seconds, warm), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       preexec_fn=servers.harness.die_with_us, timeout=60 + 4 * seconds)
    if p.returncode:
        raise servers.Skip("load: " + p.stderr.decode(errors="replace").strip())
    m = json.loads(p.stdout)
    m["redis_calls"] = server.calls() - before
    server.rest()
    return m


class Bench:
    def __init__(self, options, stage, table):
        self.options, self.stage, self.table = options, stage, table
        self.cells = rows.cells(table)
        self.got = {c: [] for c in self.cells}  # measurements, one a round
        self.skipped = {}
        self.busy = []
        self.profiled = []

    def one(self, cell):
        if cell in self.skipped:
            return
        try:
            self.got[cell].append(measure(self.stage, cell, self.options.seconds, self.options.warm))
        except servers.Skip as e:
            self.skipped[cell] = str(e)

    def run(self):
        if not self.cells:
            self.busy.append(servers.busy_elsewhere())
            return
        for i in range(self.options.rounds):
            began = time.monotonic()
            self.busy.append(servers.busy_elsewhere())
            turn = i * len(self.cells) // self.options.rounds
            for cell in self.cells[turn:] + self.cells[:turn]:
                self.one(cell)
            print("round %d of %d: %d cells in %.0f s; before it, %.0f %% of the machine was busy with other things" % (
                i + 1, self.options.rounds, len(self.cells), time.monotonic() - began, 100 * self.busy[-1]), flush=True)

    def profiles(self, lines):
        """The functions that take the time in rows that missed their goal: [(label, symbols or the reason why not)]."""
        missed = {line["id"] for line in lines if line.get("met") is False}
        cells = {r.ours: True for r in self.table if r.id in missed and r.ours.proto == "rlockd"}
        out = []
        for cell in cells:
            server = self.stage.server(cell.server)
            words = load_words(cell, server, profile.SECONDS, self.options.warm)
            try:
                found = profile.of(words, server.cpu["rlockd"], self.stage.directory)
            except servers.Skip as e:
                found = e
            out.append((rows.label(cell) + ", rlockd", found))
            server.rest()
        return out + [p for row, *p in self.stage.profiled if row in missed]

    def values(self, cell, figure):
        return [figure(m) for m in self.got[cell]]

    def line(self, row):
        """A row in the form of the report."""
        out = {"id": row.id, "title": row.title, "unit": rows.UNITS[row.figure], "goal": row.goal}
        for c in (row.ours, row.theirs):
            if c is not None and c in self.skipped:
                return dict(out, skipped=self.skipped[c])
        ours = self.values(row.ours, row.figure)
        out["ours"] = Figure(ours)
        if row.theirs is not None:
            theirs = self.values(row.theirs, row.figure)
            out["theirs"] = Figure(theirs)
            out["ratio"] = ratio(ours, theirs)
        return out


def parse():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--quick", action="store_true", help="one short round of the core rows")
    p.add_argument("--rows", default="*", help="only rows whose id fits one of these patterns, or begins with it")
    p.add_argument("--rounds", type=int, default=0)
    p.add_argument("--seconds", type=float, default=0.0, help="of one measurement")
    p.add_argument("--small", action="store_true", help="scale rows up to 10,000 locks and 1000 sessions only")
    p.add_argument("--out", default=os.path.join(servers.BUILD, "bench"), help="directory of the report")
    p.add_argument("--list", action="store_true")
    o = p.parse_args()
    o.rounds = o.rounds or (1 if o.quick else 5)
    o.seconds = o.seconds or (0.4 if o.quick else 1.0)
    o.small = o.small or o.quick
    o.warm = 0.1 if o.quick else 0.25
    return o


def chosen(pattern, table):
    """Rows or lines of jobs: all whose id fits one of the patterns, or begins with it."""
    return [r for r in table if any(fnmatch.fnmatchcase(r.id, p) or r.id.startswith(p) for p in pattern.split())]


def plan(options):
    """(rows, jobs) of this run. --quick leaves out peers and scale, unless they are requested."""
    brief = options.quick and options.rows == "*"
    table = chosen(options.rows, rows.CORE + ([] if brief else peers.ROWS))
    return table, [j for j in scale.JOBS if chosen(options.rows, j.lines) and (j.quick or not brief)]


def show(table, jobs):
    for r in [*table, *(line for j in jobs for line in j.lines)]:
        print("%-24s %-8s %s" % (r.id, r.goal or "", r.title))


def main():
    options = parse()
    table, jobs = plan(options)
    if options.list:
        show(table, jobs)
        return 0
    if not table and not jobs:
        sys.exit("bench: no row fits %r" % options.rows)
    scale.more_files()
    stage = servers.Stage(tempfile.mkdtemp(prefix="rlockd-bench."))
    machine = report.machine()
    try:
        bench = Bench(options, stage, table)
        bench.run()
        lines = [bench.line(r) for r in table] + scale.run(stage, jobs, options.small)
        report.judge(lines)
        bench.profiled = [] if options.quick else bench.profiles(lines)
        print(report.write(options.out, bench, lines, machine))
    finally:
        stage.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
