#!/usr/bin/env python3
"""The table of hazards in tests/README.md: each row is there once, and names tests that exist and run.

A cell names tests in backquotes: `test_x.c:name`, `test_x.py:Class.test_name`, `x.wire`, `x.sh`, `M7`, `make x`. A row
without a test must have `deferred:` or `refused:` with the reason; text after the first semicolon is for readers. Then
the check proves that it can fail.
"""
import os
import re
import sys

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WANTED = [*("A%d" % n for n in range(1, 16)), *("B%d" % n for n in range(1, 14)), *("C%d" % n for n in range(1, 10)),
          *("D%d" % n for n in range(1, 16)), *("E%d" % n for n in range(1, 15)),
          *("F%d" % n for n in range(1, 13))]
ROW = re.compile(r"^\| ([A-F]\d+) \| (.*) \|$", re.M)


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


def exists(what):
    """The text in backquotes names a test that is run."""
    path, _, name = what.partition(":")
    if re.fullmatch(r"[MR]\d+", what):
        return any('Mutant("%s",' % what in read("mutants", name)
                   for name in os.listdir(os.path.join(TESTS, "mutants")) if name.endswith(".py"))
    if path.startswith("make "):
        return any(re.search(r"^%s:" % re.escape(path[5:]), read(d, "rules.mk"), re.M)
                   for d in os.listdir(TESTS) if os.path.exists(os.path.join(TESTS, d, "rules.mk")))
    room = {".c": "unit", ".py": "redis", ".wire": "wire", ".sh": ""}.get(os.path.splitext(path)[1])
    if room is None or not os.path.exists(os.path.join(TESTS, room, path)):
        return False
    if path.endswith(".c"):
        return bool(name and c_has(read(room, path), name))
    if path.endswith(".py"):
        return bool(name and py_has(read(room, path), name))
    return not name


def wrong_with(table):
    """The errors of the table, line by line."""
    seen = ROW.findall(table)
    ids = [i for i, _ in seen]
    wrong = ["%s: there is no such row" % i for i in WANTED if i not in ids]
    wrong += ["%s: not a hazard, or twice" % i for n, i in enumerate(ids) if i not in WANTED or i in ids[:n]]
    for i, cells in seen:
        parts = cells.split(" | ")
        if len(parts) != 3:
            wrong.append("%s: %d cells" % (i, len(parts)))
            continue
        reason = re.search(r"(deferred|refused): \w", parts[2])
        tests = "" if parts[2].startswith(("deferred: ", "refused: ")) else parts[2].split("; ")[0]
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


def main():
    table = read("README.md")
    wrong = wrong_with(table)
    if not wrong:
        wrong = can_say_no(table)
    for line in wrong:
        print("hazards: " + line)
    rows = ROW.findall(table)
    later = sum("deferred: " in cells for _, cells in rows)
    print("hazards: %d rows, %d tests named, %d rows with something deferred" %
          (len(rows), len(set(re.findall(r"`(?:[\w-]+\.(?:c|py):[\w.]+|[\w-]+\.wire|[MR]\d+)`", table))), later))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
