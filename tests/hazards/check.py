#!/usr/bin/env python3
"""The tables of hazards and of rules in tests/README.md: each row is there once, and names tests that exist and run.

A cell names tests in backquotes: `test_x.c:name`, `test_x.py:Class.test_name`, `x.wire`, `x.sh`, `M7`, `make x`; a rule
also those of OTHER, below. A row without a test must have `deferred:` or `refused:` with the reason; text after the
first semicolon is for readers. Then the check proves that it can fail.
"""
import glob
import os
import re
import sys

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WANTED = [*("A%d" % n for n in range(1, 16)), *("B%d" % n for n in range(1, 14)), *("C%d" % n for n in range(1, 10)),
          *("D%d" % n for n in range(1, 16)), *("E%d" % n for n in range(1, 15)),
          *("F%d" % n for n in range(1, 13))]
ROW = re.compile(r"^\| ([A-Z]\d+) \| (.*) \|$", re.M)
RULES = [letter + str(n) for letter, last in (("R", 10), ("S", 3), ("F", 4), ("W", 6), ("I", 8))
         for n in range(1, last + 1)]
CELLS = 3, 2  # behind the name of a row: of a hazard, of a rule


def read(*path):
    with open(os.path.join(TESTS, *path)) as f:
        return f.read()


def c_has(text, name):
    """The test is defined, and put into a case: by itself, or in a table of tests."""
    used = r"(tcase_add_\w*test\(\w+, |[,{]\s*|^\s+)%s\s*[,)}]" % name
    return "START_TEST(%s)" % name in text and re.search(used, text, re.M)


def py_has(text, name):
    """The class has this method."""
    cls, _, method = name.partition(".")
    body = re.search(r"^class %s\(.*?(?=^class |^if __name__|\Z)" % re.escape(cls), text, re.M | re.S)
    if body is None or not method.startswith("test_"):
        return False
    return re.search(r"^    def %s\(self" % re.escape(method), body.group(), re.M)


# Names that are not those of functions: the room of the file, and how the file has the name, which is {}: a check of a
# fuzz target (`fuzz_x.c:CM1`), a check of the simulator (`x.c:Q2`), a row of one of its tables (`x.def:name`), and a
# variant or an invariant of a model (`x.pml:NAME`).
OTHER = {
    r"fuzz_\w+\.c": ("fuzz", r'\bCHECK\(.*"{}:'),
    r"(?!test_)\w+\.c": ("sim", r'\bviolated\([^"]*"{}"'),
    r"\w+\.def": ("sim", r'^\w+\((\w+, )*"?{}"?, '),
    r"\w+\.pml": ("models", r"^(#ifn?def {}$| \*   {}  )"),
}


def other_exists(path, name):
    """Whether the file has this check, row, variant or invariant; None: it is no file of OTHER."""
    for pattern, (room, has) in OTHER.items():
        if re.fullmatch(pattern, path):
            return bool(name and os.path.exists(os.path.join(TESTS, room, path)) and
                        re.search(has.replace("{}", re.escape(name)), read(room, path), re.M))
    return None


def exists(what):
    """The text in backquotes names a test that is run."""
    path, _, name = what.partition(":")
    if re.fullmatch(r"[MR]\d+", what):
        return any('Mutant("%s",' % what in read("mutants", name)
                   for name in os.listdir(os.path.join(TESTS, "mutants")) if name.endswith(".py"))
    if path.startswith("make "):
        return any(re.search(r"^%s:" % re.escape(path[5:]), read(file), re.M)
                   for file in (*glob.glob("*/*.mk", root_dir=TESTS), os.path.join("..", "Makefile")))
    other = other_exists(path, name)
    if other is not None:
        return other
    room = {".c": "unit", ".py": "redis", ".wire": "wire", ".sh": ""}.get(os.path.splitext(path)[1])
    if room is None or not os.path.exists(os.path.join(TESTS, room, path)):
        return False
    if path.endswith(".c"):
        return bool(name and c_has(read(room, path), name))
    if path.endswith(".py"):
        return bool(name and py_has(read(room, path), name))
    return not name


def wrong_with(table, wanted=WANTED, cells_n=CELLS[0]):
    """The errors of the table, line by line."""
    seen = ROW.findall(table)
    ids = [i for i, _ in seen]
    wrong = ["%s: there is no such row" % i for i in wanted if i not in ids]
    wrong += ["%s: not in the list, or twice" % i for n, i in enumerate(ids) if i not in wanted or i in ids[:n]]
    for i, cells in seen:
        parts = cells.split(" | ")
        if len(parts) != cells_n:
            wrong.append("%s: %d cells" % (i, len(parts)))
            continue
        reason = re.search(r"(deferred|refused): \w", parts[-1])
        tests = "" if parts[-1].startswith(("deferred: ", "refused: ")) else parts[-1].split("; ")[0]
        named = re.findall(r"`([^`]+)`", tests)
        if re.sub(r"`[^`]+`(, |$)", "", tests):
            wrong.append("%s: names that cannot be read" % i)
        wrong += ["%s: there is no test %s" % (i, t) for t in named if not exists(t)]
        if not named and not reason:
            wrong.append("%s: neither a test nor a reason" % i)
    return wrong


def can_say_no(table):
    """Each of these changes makes one row of a good table wrong."""
    row = ROW.search(table)
    a1 = row.group()
    test = re.search(r"`(test_\w+\.c:\w+)`", a1).group(1)
    bad = {
        "a test of another name": a1.replace(test, test + "x"),
        "a file of another name": a1.replace("test_core_lease.c", "test_core_leese.c"),
        "a file without a test": a1.replace(test, test.split(":")[0]),
        "no rule": a1.replace(test, "make nothing"),
        "no mutant": a1.replace("`M1`", "`M99`"),
        "no wire script": a1.replace(test, "00-pong.wire"),
        "a method of another class": a1.replace(test, "test_hazards.py:Log.test_a_slow_script"),
        "no method": a1.replace(test, "test_hazards.py:Log"),
        "neither test nor reason": re.sub(r"\| [^|]* \|$", "| it is fine |", a1),
        "twice": a1 + "\n" + a1,
        "not there": "",
        "another": a1 + "\n" + a1.replace("| A1 |", "| E15 |"),
    }
    return ["it does not see: " + what for what, line in bad.items() if not wrong_with(table.replace(a1, line))]


def can_say_no_of_rules(table):
    """The same for the names that only rules have."""
    bad = []
    for name in "controls.def:redirect-first", "faults.def:CLUSTER_ANCHOR_MOVE", "cluster.pml:NO_HANGING", \
                "quorum.pml:I1", "masters.c:Q2", "fuzz_map.c:CM1":
        for other in name + "x", name.split(":")[0], "x" + name:
            if not wrong_with(table.replace("`%s`" % name, "`%s`" % other), RULES, CELLS[1]):
                bad.append("it does not see: %s for %s" % (other, name))
    return bad


def section(text, title):
    return re.search(r"^## %s\n(.*?)(?=^## |\Z)" % re.escape(title), text, re.M | re.S).group(1)


def main():
    text = read("README.md")
    table, rules = section(text, "Hazards"), section(text, "Rules")
    wrong = wrong_with(table) + wrong_with(rules, RULES, CELLS[1])
    if not wrong:
        wrong = can_say_no(table) + can_say_no_of_rules(rules)
    for line in wrong:
        print("hazards: " + line)
    rows, both = ROW.findall(table), table + rules
    later = sum("deferred: " in cells for _, cells in rows)
    named = set(re.findall(r"`(?:[\w-]+\.(?:c|py|def|pml):[\w.-]+|[\w-]+\.wire|[MR]\d+)`", both))
    print("hazards: %d rows and %d rules, %d tests named, %d rows with something deferred" %
          (len(rows), len(ROW.findall(rules)), len(named), later))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
