#!/usr/bin/env python3
"""Lists the mutants that do not fit the sources any more (each text must stand once in its function), and the catchers
that do not exist. It takes a second, where `run.py` takes a quarter of an hour, so it runs before each commit.
"""
import functools
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)
from mutants import MUTANTS, PROOFS  # noqa: E402
from source import Missing, source_of  # noqa: E402

SORTS = {"unit": "tests/unit/%s.c", "redis": "tests/redis/%s", "wire": "tests/wire/%s"}
source = functools.cache(lambda file: source_of(os.path.join(TOP, file)))


def trouble(m):
    """The error of a row; None: there is none."""
    if not all(isinstance(text, str) for text in m[:6]) or not m.catch or isinstance(m.catch, str):
        return "has not the form that mutants.py describes"
    for file, where, old, new in [(m.file, m.where, m.old, m.new), *m.also]:
        try:
            source(file).exchange(where, old, new)
        except (Missing, OSError) as e:
            return "%s: %s" % (file, e)
    return next(("there is no " + c for c in m.catch if not exists(c)), None)


def exists(catcher):
    """The test that must fail: unit:NAME[ CASE], redis:FILE[ Class[.test]], wire:FILE, sim: or chaos:ARGUMENTS."""
    sort, _, what = catcher.partition(":")
    if sort in ("sim", "chaos"):
        return True
    name, _, case = what.partition(" ")
    path = os.path.join(TOP, SORTS[sort] % name)
    if not os.path.exists(path):
        return False
    with open(path) as f:
        text = f.read()
    if sort == "unit":
        return not case or '"%s"' % case in text
    return all(re.search(r"\b(class|def) %s\b" % word, text) for word in case.split(".") if word)


def proves():
    """Checks trouble() with made-up rows: the proofs of run.py, a row of another form, a row without its catcher."""
    for m, verdict in PROOFS:
        fault = trouble(m) or ""
        assert verdict in fault if m.id in ("P2", "P3", "P6", "P7") else not fault, (m, fault)
    good = PROOFS[0][0]
    for bad in (good._replace(new=["unit:test_core"]), good._replace(catch=()), good._replace(catch=["unit:test_none"]),
                good._replace(catch=["unit:test_core no such case"]),
                good._replace(catch=["redis:test_tls.py Works.test_none"]),
                good._replace(also=[(good.file, "", "no", "")])):
        assert trouble(bad), bad


def main():
    proves()
    ids, bad = [m.id for m in MUTANTS], 0
    for m in MUTANTS:
        fault = "is there twice" if ids.count(m.id) > 1 else trouble(m)
        if fault:
            bad += 1
            print("mutant %s (%s): %s" % (m.id, m.story, fault))
    sys.exit(bad != 0)


if __name__ == "__main__":
    main()
