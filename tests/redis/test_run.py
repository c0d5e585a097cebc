#!/usr/bin/env python3
"""`make run TOPOLOGY=sentinel` and `=quorum`, in a directory with the files of this one; `rlock redis` there."""
import os
import re
import signal

import harness
from harness import until


class Run(harness.Case):
    def begin(self, topology):
        self.topology = topology
        self.p = self.make_run(topology)
        self.path = os.path.join(self.dir, "build", "run", "rlockd.sock")
        c = harness.Conn(self.path)
        self.addCleanup(c.close)
        return c

    def output(self, pattern):
        """Runs the line that the script has printed and that begins with `pattern`; returns its output."""
        line = re.search("^  (%s[^#\n]*?)(?: #|$)" % pattern, self.p.log(), re.M).group(1)
        status, out, err = self.run_words(["bash", "-euc", line])
        self.assertEqual(status, 0, (line, out, err))
        return out

    def shown(self):
        """`rlock redis`: the words of each line."""
        status, out, err = self.run_words([harness.RLOCK, "-s", "unix:" + self.path, "redis"])
        self.assertEqual(status, 0, err)
        return [re.split("  +", line) for line in out.splitlines()]

    def end(self):
        """All processes that the script started end with it."""
        self.assertGreater(len(self.servers()), 0)
        self.p.signal(signal.SIGINT)
        self.assertEqual(self.p.wait(), 0)
        until(lambda: self.servers() == [])

    def servers(self):
        """The processes that serve from this directory."""
        out = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.readlink("/proc/%s/cwd" % pid).startswith(os.path.join(self.dir, "build", "run", self.topology)):
                    out.append(pid)
            except OSError:
                pass
        return out

    def kill(self):
        """Kills the server by the command that the script prints for that; the server is gone."""
        before = len(self.servers())
        self.output("kill -9")
        until(lambda: len(self.servers()) == before - 1)

    def test_sentinel(self):
        c = self.begin("sentinel")
        t = c.cmd("LOCK", "a")
        until(lambda: [row[::2][:2] for row in self.shown()[1:]] ==
              [["master", "up"]] + [["replica", "up"]] * 2 + [["sentinel", "up"]] * 3)
        self.assertEqual(len(re.findall("role=sentinel", self.output("redis-cli -s .* INFO"))), 3)
        master = self.shown()[1][1]
        self.assertIn(master.rsplit(":", 1)[1], self.output("redis-cli -p").split())
        self.kill()
        until(lambda: isinstance(c.cmd("LOCK", "b", "WAIT", "1s"), int), 40)
        self.assertNotEqual(self.shown()[1][1], master)
        self.assertEqual(c.cmd("LOCK", "a", "ONCE"), t)
        self.end()

    def test_quorum(self):
        c = self.begin("quorum")
        self.assertEqual(self.votes(), [0, 0, 0])
        t = c.cmd("LOCK", "a")
        until(lambda: min(self.votes()) > 0)
        self.assertEqual(self.output("redis-cli -s .* INFO").count("state=voting,"), 3)
        self.kill()
        before = sum(self.votes())
        self.assertGreater(c.cmd("LOCK", "b"), t)
        until(lambda: sorted(row[2] for row in self.shown()[1:]) == ["down", "voting", "voting"])
        until(lambda: sum(self.votes()) >= before + 2)
        self.end()

    def votes(self):
        """How often each node has voted, by `rlock redis`."""
        return [int(re.fullmatch(r"votes (\d+), second rounds \d+", row[-1]).group(1)) for row in self.shown()[1:]]


if __name__ == "__main__":
    harness.main()
