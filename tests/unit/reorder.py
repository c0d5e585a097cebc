#!/usr/bin/env python3
"""reorder.py -- `make reorder`: which unit tests of the core rely on an order that no promise fixes. None may.

  reorder.py [-l | --fits] [NAME ...]

The opposite of a mutant: each row changes the order of unrelated actions, in a copy of the sources below build/reorder.
The tests of the core (test_core*) must pass there, except those that the row names with their promise, which must fail.
Another test that fails pins today's code. build/test has to be up to date (`make test`). -l lists the rows; --fits
only checks that each text of a row stands in the sources once.
"""
import glob
import os
import re
import shutil
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COPY = os.path.join(TOP, "build", "reorder")
CORE = "daemon/core/"

# name, why no promise fixes it, [(file, text that stands there once, text in its place)], {test that minds: promise}
ROWS = (
    ("locks-last-come-first", "locks that a step has changed are unrelated: each has its own queue",
     [(CORE + "dirty.c",
       "        *c->dirty_locks.end = l;\n        c->dirty_locks.end = &l->dirty_next;\n",
       "        l->dirty_next = c->dirty_locks.first;\n        c->dirty_locks.first = l;\n"
       "        c->dirty_locks.end = l->dirty_next != NULL ? c->dirty_locks.end : &l->dirty_next;\n")], {}),
    ("owners-last-come-first", "owners that a step has changed are unrelated: each has its own order of requests",
     [(CORE + "dirty.c",
       "list_push_back(&c->dirty_owners, &o->dirty_node)",
       "list_push_front(&c->dirty_owners, &o->dirty_node)")],
     {"to_and_fro": "two owners that pipeline take turns (PROTOCOL, Waiting)"}),
    ("domains-last-come-first", "domains are unrelated",
     [(CORE + "dirty.c",
       "list_push_back(&c->dirty_domains, &d->dirty_node)",
       "list_push_front(&c->dirty_domains, &d->dirty_node)")], {}),
    ("locks-before-owners", "an owner's next request and a lock's next attempt do not wait for each other",
     [(CORE + "work.c",
       "        if (!list_empty(&c->dirty_owners)) {",
       "        if (c->dirty_locks.first != NULL) {\n            lock_advance(c);\n"
       "        } else if (!list_empty(&c->dirty_owners)) {"),
      (CORE + "work.c",
       "        } else if (c->dirty_locks.first != NULL) {\n            lock_advance(c);\n        } else {\n"
       "            return;", "        } else {\n            return;")], {}),
    ("freed-before-multilocks", "requests of freed claims and multilocks that are whole do not wait for each other",
     [(CORE + "work.c",
       "        multilocks_advance(c);\n        requests_rerun(c);\n",
       "        requests_rerun(c);\n        multilocks_advance(c);\n")], {}),
    ("walks-from-the-newest", "what a walk does to a lock is about that lock alone",
     [(CORE + "jobs.c", "w->next = d->locks.next;\n        w->last = d->locks.prev;",
       "w->next = d->locks.prev;\n        w->last = d->locks.next;"),
      (CORE + "jobs.c", "            w->next = l->all.next;\n        } else if (w->last == &l->all) {\n"
       "            w->last = l->all.prev;\n        }\n    }\n",
       "            w->next = l->all.prev;\n        } else if (w->last == &l->all) {\n"
       "            w->last = l->all.next;\n        }\n    }\n"),
      (CORE + "work.c", "    w->next = w->next->next;\n", "    w->next = w->next->prev;\n")], {}),
    ("watch-before-attempt", "watches have a link of their own",
     [(CORE + "locks.c",
       "    attempts_advance(c, l, next);\n    if (list_empty(&q->claims)) {\n",
       "    if (!list_empty(&q->claims) && q->watch != WATCH_OFF) {\n"
       "        watch_set(c, l, true, policy(l)->called_apart ? first_called(l) : NULL);\n    }\n"
       "    attempts_advance(c, l, next);\n    if (list_empty(&q->claims)) {\n")], {}),
    ("claims-end-from-the-newest", "an owner that ends gives its locks back, each by itself",
     [(CORE + "sessions.c",
       "container_of(o->unreleased.next, struct claim, owner_node)",
       "container_of(o->unreleased.prev, struct claim, owner_node)")], {}),
)


def tests():
    return sorted(os.path.basename(p)[:-2] for p in glob.glob(os.path.join(TOP, "tests/unit/test_core*.c")))


def copy():
    shutil.rmtree(COPY, True)
    for name in ("Makefile", "daemon", "proto", "conf", "scripts", "tests"):
        source, to = os.path.join(TOP, name), os.path.join(COPY, name)
        os.makedirs(os.path.dirname(to), exist_ok=True)
        if os.path.isdir(source):
            shutil.copytree(source, to)
        else:
            shutil.copy2(source, to)
    shutil.copytree(os.path.join(TOP, "build/test"), os.path.join(COPY, "build/test"))


def changed(top, file, old, new):
    """The text of the file with the change."""
    with open(os.path.join(top, file)) as f:
        text = f.read()
    if text.count(old) != 1:
        sys.exit("reorder: %s: this text stands there %d times:\n%s" % (file, text.count(old), old))
    return text.replace(old, new)


def change(texts):
    """In the copy."""
    for file, old, new in texts:
        text = changed(COPY, file, old, new)
        with open(os.path.join(COPY, file), "w") as f:
            f.write(text)


def failures(names):
    """None: it does not compile."""
    run = subprocess.run(["make", "-s", "-j%d" % os.cpu_count(), "B=build/test", "TEST_CLOCK=1"] +
                         ["build/test/tests/unit/" + n for n in names], cwd=COPY, capture_output=True, text=True)
    if run.returncode != 0:
        print(run.stderr[-2000:])
        return None
    run = subprocess.run(["scripts/check-unit"] + ["build/test/tests/unit/" + n for n in names], cwd=COPY,
                         capture_output=True, text=True)
    return [line for line in run.stdout.splitlines() if re.search(r":[FE]:|and no summary", line)]


def main():
    if sys.argv[1:] == ["-l"]:
        for name, why, _, _ in ROWS:
            print("%-28s %s" % (name, why))
        return 0
    if sys.argv[1:] == ["--fits"]:
        for _, _, texts, _ in ROWS:
            for file, old, new in texts:
                changed(TOP, file, old, new)
        print("%d passed, 0 failed" % len(ROWS))
        return 0
    rows = [r for r in ROWS if not sys.argv[1:] or r[0] in sys.argv[1:]]
    bad = 0
    copy()
    for name, _, texts, promises in rows:
        change(texts)
        lines = failures(tests())
        pinned = [line for line in lines or [] if not any(":%s:" % test in line for test in promises)]
        missing = [test for test in promises if not any(":%s:" % test in line for line in lines or [])]
        wrong = lines is None or pinned or missing
        bad += bool(wrong)
        print("%s %s" % ("FAILED" if wrong else "passed", name), flush=True)
        for line in pinned:
            print("    " + line)
        for test in missing:
            print("    %s does not mind" % test)
        for file in {file for file, _, _ in texts}:
            shutil.copy(os.path.join(TOP, file), os.path.join(COPY, file))
    print("%d passed, %d failed" % (len(rows) - bad, bad))
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())
