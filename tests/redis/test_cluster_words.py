#!/usr/bin/env python3
"""Answers of real nodes for a slot that moves, by the table against which the simulated nodes are tested, too."""
import ast
import os
import re
import unittest

import harness
from clusters import STEADY, Cluster, slot_of
from harness import Conn

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "sim", "slots.def")


def rows():
    """[(macro, side, [texts])] of the table."""
    with open(TABLE, encoding="ascii") as f:
        text = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
    for macro, args in re.findall(r"^(ROW|MOVES)\((.*?)\)$", text, flags=re.S | re.M):
        side, _, rest = args.partition(",") if macro == "ROW" else ("", "", args)
        yield macro, side, list(ast.literal_eval("(%s,)" % rest.strip()))


class Words(harness.Case):
    def test_a_slot_moves(self):
        c = Cluster(self.dir, self._keep, masters=2, replicas=0, args=STEADY)
        slot = slot_of("{x}")
        source = c.owner(slot)
        target = next(n for n in c.nodes if n is not source)
        for key in "ab":
            self.assertEqual(source.cmd("SET", "{x}" + key, key), "OK")
        self.assertEqual(target.cmd("CLUSTER", "SETSLOT", str(slot), "IMPORTING", source.id), "OK")
        self.assertEqual(source.cmd("CLUSTER", "SETSLOT", str(slot), "MIGRATING", target.id), "OK")
        counted = 0
        for macro, side, words in rows():
            if macro == "MOVES":
                self.assertEqual(source.cmd("MIGRATE", "127.0.0.1", str(target.port), words[0], "0", "5000"), "OK")
                continue
            node, other = (source, target) if side == "SOURCE" else (target, source)
            want = words.pop(0).replace("@", other.addr)
            with Conn(node.path, 5 * harness.SLOW) as conn:
                if side == "ASKING":
                    self.assertEqual(conn.cmd("ASKING"), "OK")
                reported = str(conn.cmd(*words))
            self.assertTrue(reported.startswith(want), "%s %s: %s" % (side, words, reported))
            counted += 1
        self.assertGreater(counted, 25)


if __name__ == "__main__":
    unittest.main()
