"""table.py -- runs cells, keeps their outcomes, and prints them."""
import sys
import time
import traceback

from cells_special import NotThere
from world import Refused, Skip


class Outcome:
    def __init__(self, state, text=""):
        self.state, self.text = state, text  # ok FAILED skipped -

    def __str__(self):
        return " ".join(w for w in (self.state, self.text) if w)


class Table:
    """The rows of one matrix: (library, version) -> outcomes in the order of the columns."""

    def __init__(self, title, columns):
        self.title, self.columns, self.rows = title, columns, []

    def add(self, name, version, outcomes):
        self.rows.append((name, str(version), outcomes))

    def lines(self):
        head = ["library", "version"] + self.columns
        body = [[n, v] + [short(o) for o in outcomes] for n, v, outcomes in self.rows]
        widths = [max(len(r[i]) for r in [head] + body) for i in range(len(head))]
        out = ["", self.title]
        out += ["  ".join(c.ljust(w) for c, w in zip(r, widths)).rstrip() for r in [head] + body]
        return out

    def each(self):
        for name, version, outcomes in self.rows:
            for column, o in zip(self.columns, outcomes):
                yield "%s %s, %s" % (name, version, column), o

    def why(self):
        """Every cell that is not ok, in full."""
        return ["%s: %s" % (what, o) for what, o in self.each() if o.state in ("FAILED", "skipped")]

    def count(self, state):
        return sum(1 for _, o in self.each() if o.state == state)


def short(o):
    """The text of the cell in the table; the reasons stand below the table."""
    return str(o) if o.state in ("ok", "-") else o.state


def outcome(cell, row, end):
    """Runs one cell, unless the time of the run is over."""
    if time.monotonic() > end:
        return Outcome("FAILED", "not run: no time is left")
    try:
        return Outcome("ok", cell(row) or "")
    except NotThere:
        return Outcome("-")
    except Skip as e:
        return Outcome("skipped", str(e))
    except (AssertionError, Refused, OSError) as e:
        return Outcome("FAILED", ("%s" % e or type(e).__name__).replace("\n", " ")[:300])
    except Exception as e:  # an error of the test itself: the table has it, with its trace
        traceback.print_exc(file=sys.stderr)
        return Outcome("FAILED", "%s: %s" % (type(e).__name__, e))


def run_row(row, version_of, columns, world, say, end):
    """All cells of one row. A cell that failed ends its driver."""
    outcomes, version = [], "?"
    mark = world.mark()
    try:
        version = version_of(row)
    except (AssertionError, Refused) as e:
        return "?", [Outcome("FAILED", "does not start: %s" % e)] * len(columns)
    for title, cell in columns:
        began = time.monotonic()
        o = outcome(cell, row, end)
        outcomes.append(o)
        say("%-42s %-12s %5.1f s  %s" % ("%s %s" % (row.lib.name, version), title, time.monotonic() - began, o))
        if o.state == "FAILED":
            row.drop_driver()
        release(row, world, mark)
    row.drop_driver()
    world.release(mark)
    return version, outcomes


def release(row, world, mark):
    """Ends the processes that the cell has started, except the row's driver."""
    keep = [t for t in world.kept[mark:] if t is row._driver]
    for t in keep:
        world.kept.remove(t)
    world.release(mark)
    world.kept += keep
