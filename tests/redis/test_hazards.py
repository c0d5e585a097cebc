#!/usr/bin/env python3
"""Rows of the table of hazards that need a real process, a real Redis or a real kernel; tests/README.md has the table."""
import re
import signal
import socket
import time

import harness
from harness import Case, Closed, Conn, alive, until


class Log(Case):
    def test_a_flood_of_one_sort_is_counted(self):
        d = self.rlockd()
        n = 300
        for _ in range(n):
            with d.conn() as c:
                c.send(b"POST / HTTP/1.1\r\n")
                with self.assertRaises(Closed):
                    c.fill()
        self.assertEqual(d.cmd("PING"), "PONG")
        d.signal(signal.SIGINT)
        self.assertEqual(d.wait(), 0)
        lines = re.findall(r"^warn session cross-protocol .*", d.log(), re.M)
        self.assertLess(len(lines), 220 + 20 * harness.SLOW)
        told = sum(int(x) for x in re.findall(r" cross-protocol left_out=(\d+)", d.log()))
        only_count = [x for x in lines if re.search(r"left_out=\d+$", x)]
        self.assertEqual(len(lines) - len(only_count) + told, n, "each was written or counted")


if __name__ == "__main__":
    harness.main()
