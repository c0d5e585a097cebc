#!/usr/bin/env python3
"""The checker on hand-made histories: those of histories/good must pass, those of histories/bad must not.

A case begins with `== title`; of a bad case the title begins with the finding. Times are milliseconds.
"""
import os
import random
import sys
import unittest

import rlcheck

# Lines of a case:
#   10 12 c1 LOCK x =5 lease=1000 ...   requested at 10, token 5 at 12 (default: lease=10000); also AGAIN and CHECK
#   10 12 c1 LOCK x null                not granted; `info`: outcome unknown; `10 - c1 LOCK x`: never answered
#   30 31 c1 UNLOCK x =5 n=0            of token 5 (default: n=0); `lost`, `nothield`, `info`. RENEW: n=MS
#   40 c1 close    40 - kill c1    40 - down A    40 - flaky A    50 - steady A    0 - limit x 2    90 - left KEY
#   0 - lasts
#   40 raw TEXT                         a line as it is written
# Options: @B (the daemon), shared, owner=O, waited=MS, holds=N, queued=MS, why=WORD.

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "histories")
WHY = {"null": "FAIL why=null", "lost": "FAIL why=LOST", "nothield": "FAIL why=NOTHELD", "info": "INFO why=closed"}


def op_lines(word, number):
    """The native lines of one request and its answer."""
    inv, ret, client, op, name, rest = word[0], word[1], word[2], word[3], word[4], word[5:]
    proc = client if "." in client else client + ".0"
    option = dict(w.split("=", 1) for w in rest if "=" in w and not w.startswith("="))
    token = next((w[1:] for w in rest if w.startswith("=")), "0")
    route = next((w[1:] for w in rest if w.startswith("@")), "A")
    yield inv * 1000, "%s inv %d %s %s daemon=%s shared=%d token=%s owner=%s" % (
        proc, number, op, name, route, "shared" in rest, token if op in ("UNLOCK", "RENEW") else "0",
        option.get("owner", proc))
    if "queued" in option:
        yield int(option["queued"]) * 1000, "%s queued %d" % (proc, number)
    if ret is None:
        return
    why = next((WHY[w] for w in rest if w in WHY), None)
    if why is None and op in rlcheck.GRANTING:
        why = "OK token=%s lease=%s waited=%s holds=%s" % (
            token, option.get("lease", "10000"), option.get("waited", "0"), option.get("holds", "1"))
    elif why is None:
        why = "OK n=%s" % option.get("n", "0")
    yield ret * 1000, "%s ret %d %s" % (proc, number, why)


def native(text):
    """The lines of session.h that a case stands for."""
    out = []
    for number, line in enumerate(text.split("\n")):
        word = line.split("#")[0].split()
        if not word:
            continue
        at = int(word[0])
        if word[1] == "raw":
            out.append((at * 1000, " ".join(word[2:])))
        elif word[1] == "-" and word[2] in ("kill", "down", "flaky", "steady", "limit", "left", "lasts"):
            out.append((at * 1000, " ".join(word[1:])))
        elif word[2] == "close":
            out.append((at * 1000, "%s close" % (word[1] if "." in word[1] else word[1] + ".0")))
        else:
            out += op_lines([at, None if word[1] == "-" else int(word[1])] + word[2:], number)
    return ["%d %s\n" % line for line in sorted(out, key=lambda l: l[0])]


def cases(name):
    with open(os.path.join(HERE, name)) as f:
        for part in f.read().split("\n== ")[1:]:
            title, _, text = part.partition("\n")
            yield title, text


class Table(unittest.TestCase):
    def test_good(self):
        seen = set()
        for title, text in cases("good"):
            with self.subTest(title):
                lines = native(text)
                self.assertEqual([str(v) for v in rlcheck.check(lines).violations], [])
                self.assertNotIn(tuple(lines), seen)
                seen.add(tuple(lines))
        self.assertGreaterEqual(len(seen), 50)
        print("rlcheck: %d good histories accepted" % len(seen), file=sys.stderr)

    def test_bad(self):
        seen = set()
        for title, text in cases("bad"):
            with self.subTest(title):
                lines = native(text)
                found = {v.kind for v in rlcheck.check(lines).violations}
                for kind in title.split(":")[0].split(","):
                    self.assertIn(kind.strip(), found, "found: %s" % found)
                self.assertNotIn(tuple(lines), seen)
                seen.add(tuple(lines))
        self.assertGreaterEqual(len(seen), 50)
        print("rlcheck: %d bad histories rejected" % len(seen), file=sys.stderr)


class Made(unittest.TestCase):
    """Histories made by a correct lock, and by one with a fault."""

    def make(self, seed, grants=200, wrong=None):
        """
        A lock that is free now and then; each grant is reported late, and so is its UNLOCK. `wrong`: the fault of the
        k-th.
        """
        rng = random.Random(seed)
        now, token, lines = 1000, 0, []
        for k in range(grants):
            token += rng.randint(1, 1000)
            taken, freed = now + rng.randint(1, 20), now + rng.randint(40, 60)
            answered, asked = taken + rng.randint(0, 10), freed - rng.randint(0, 8)
            t = token
            if k == grants // 2 and wrong == "token":
                t = token - 5000
            if k == grants // 2 and wrong == "early":
                taken = answered = now - 15
            inv = rng.randint(max(0, now - 200), taken) if wrong is None else now - 16
            lines.append("%d %d c%d LOCK x =%d waited=0" % (inv, answered, k, t))
            lines.append("%d %d c%d UNLOCK x =%d" % (asked, freed + rng.randint(0, 20), k, t))
            now = freed
        return native("\n".join(lines))

    def test_right(self):
        for seed in range(20):
            v = rlcheck.check(self.make(seed))
            self.assertEqual([str(x) for x in v.violations], [])
            self.assertEqual(v.grants, 200)
            self.assertGreater(v.windows, 40)

    def test_wrong(self):
        for seed in range(20):
            self.assertTrue(rlcheck.check(self.make(seed, wrong="token")).of("order"))
            v = rlcheck.check(self.make(seed, wrong="early"))
            self.assertTrue(v.of("exclusion"))
            self.assertTrue(v.of("model"), "the search agrees with the sweep")

    def test_speed(self):
        """A long history is checked in about linear time."""
        v = rlcheck.check(self.make(1, grants=20000), most_windows=100)
        self.assertEqual(v.violations, [])


if __name__ == "__main__":
    unittest.main()
