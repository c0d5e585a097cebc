"""parts.py -- the matrices of `make interop`, and how they run side by side.

Each part runs in a process of its own, and not in a thread: what die_with_us() of tests/redis/harness.py starts ends
with the thread that started it.
"""
import multiprocessing
import multiprocessing.connection
import os
import signal

import cells_clients
import cells_cluster
import cells_locks
import cells_quorum
import libraries
from table import Outcome, Table, run_row
from world import Clustered, ClusteredPlain, OverThree, Watched, World, harness

FORK = multiprocessing.get_context("fork")  # a new process knows what install.py has found


def say(text):
    print(text, flush=True)


def fitting(items, text, name):
    return [i for i in items if text is None or text in name(i)]


class Matrix:
    """
    One table of the report. option: the option of run.py that asks for it; name: stands before its steps; seconds: of
    one of its shares, about. shares: the rows are dealt out to so many parts, each with a world of its own.
    """

    def __init__(self, option, name, title, world, conf, rows, module, columns=None, shares=1, seconds=0):
        self.option, self.name, self.title, self.world, self.conf = option, name, title, world, conf
        self.all_rows, self.module, self.all_columns = rows, module, columns or module.COLUMNS
        self.shares, self.seconds = shares, seconds

    def parts(self, asked, end):
        """What is asked for. No cell begins after `end`."""
        self.libs = fitting(self.all_rows(), asked.only, lambda lib: lib.name)
        self.columns = fitting(self.all_columns, asked.cell, lambda c: c[0])
        self.rows = {}
        return [Part(self, range(i, len(self.libs), self.shares), end) for i in range(min(self.shares, len(self.libs)))]

    def table(self):
        """All rows that have arrived, in their order."""
        table = Table(self.title, [c[0] for c in self.columns])
        for i in sorted(self.rows):
            table.add(*self.rows[i])
        return table

    def row(self, world, lib, end):
        """(name, version, outcomes). The row of a library that could not be installed has only skips."""
        def step(text):
            say("%-8s %s" % (self.name, text))
        if lib.why():
            step("%-42s skipped: %s" % (lib.name, lib.why()))
            return lib.name, "-", [Outcome("skipped", lib.why())] * len(self.columns)
        row = self.module.Row(world, lib)
        return (lib.name, *run_row(row, lambda r: r.driver.ask("main", "version"), self.columns, world, step, end))


class Part:
    """Some rows of a matrix, with a world and a process of their own, which sends each row when it is done."""

    def __init__(self, matrix, numbers, end):
        self.matrix, self.numbers, self.end = matrix, numbers, end

    def start(self):
        """Returns the pipe from which rows come, and its end when the process ends."""
        out, into = FORK.Pipe(duplex=False)
        self.process = FORK.Process(target=self._run, args=(into,))
        self.process.start()
        into.close()
        return out

    def _run(self, into):
        harness.die_with_us()
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # ^C is for run.py, which sends TERM
        with self.matrix.world(self.matrix.conf) as world:
            for i in self.numbers:
                into.send((i, self.matrix.row(world, self.matrix.libs[i], self.end)))

    def stop(self):
        """Ends the process, which ends its world."""
        self.process.terminate()
        self.ended()

    def ended(self):
        """Rows that have not come are failures: the world did not start, or the process was killed. So is a bad end."""
        self.process.join(60 * harness.SLOW)
        if self.process.exitcode is None:
            self.process.kill()
            self.process.join()
        failed = [Outcome("FAILED", "its world ended with %s" % self.process.exitcode)] * len(self.matrix.columns)
        missing = [i for i in self.numbers if i not in self.matrix.rows]
        for i in missing:
            self.matrix.rows[i] = (self.matrix.libs[i].name, "?", failed)
        if self.process.exitcode != 0 and not missing:
            self.matrix.rows[self.numbers[-1] + 0.5] = ("the end of the world", "-", failed)


def run(parts, at_a_time):
    """Runs the parts to their ends, the longest ones first."""
    waiting, running = sorted(parts, key=lambda p: -p.matrix.seconds), {}
    try:
        while waiting or running:
            while waiting and len(running) < at_a_time:
                part = waiting.pop(0)
                running[part.start()] = part
            for pipe in multiprocessing.connection.wait(list(running)):
                part = running[pipe]
                try:
                    i, row = pipe.recv()
                    part.matrix.rows[i] = row
                except EOFError:
                    del running[pipe]
                    pipe.close()
                    part.ended()
    finally:
        for part in running.values():
            part.stop()


PLAIN = "locks: { owner_grace: 1s }\n"
SHORT = "locks: { owner_grace: 1s, lease: 6s }\n"


def matrices():
    """In the order of the report."""
    return [
        Matrix("locks", "locks", "Lock libraries", World, PLAIN, libraries.locks, cells_locks, shares=2, seconds=200),
        Matrix("clients", "clients", "Stock clients", World, PLAIN, libraries.clients, cells_clients, seconds=130),
        Matrix("watched", "watched", "Lock libraries with sentinels", Watched, PLAIN, libraries.watched, cells_locks,
               cells_locks.WATCHED, seconds=180),
        Matrix("cluster", "cluster", "Lock libraries in a cluster", Clustered, SHORT, libraries.clustered,
               cells_cluster, seconds=145),
        Matrix("cluster", "publish", "Lock libraries in a cluster, by PUBLISH", ClusteredPlain,
               SHORT + "redis: { publish: both }\n", libraries.plain, cells_cluster, cells_cluster.PLAIN, seconds=20),
        Matrix("quorum", "quorum", "Lock libraries over three masters", OverThree, SHORT, libraries.quorum,
               cells_quorum, seconds=230),
    ]
