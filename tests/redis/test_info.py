#!/usr/bin/env python3
"""The lines of INFO and of /metrics are the lines that PROTOCOL.md describes."""
import os
import re
import socket

import harness
from harness import Case

ROW = re.compile(r"^\| (\w+) \| `(\w+)` \| (.+) \|$", re.M)
METRIC = re.compile(r'^METRIC\((\w+), "(.*)"\)$', re.M)


def text_of(path):
    with open(os.path.join(harness.TOP, path), encoding="utf-8") as f:
        return f.read()


def described():
    """(section, line) -> the text of the document, from the one table under INFO."""
    section = re.search(r"^### INFO\n(.*?)^### ", text_of("proto/PROTOCOL.md"), re.M | re.S)[1]
    return {(at, line): what for at, line, what in ROW.findall(section)}


def errors_of():
    """{command: prefixes of its errors} of the document; -ERR is common to all."""
    sections = dict(re.findall(r"^### ([A-Z]+)\n(.*?)(?=^##|\Z)", text_of("proto/PROTOCOL.md"), re.M | re.S))

    def errors_in(name):
        paragraph = re.search(r"Errors:\s(.*?)(?:\n\n|\Z)", sections[name], re.S)
        if not paragraph:
            return set()
        included, _, excepted = paragraph[1].partition("except ")
        excepted = excepted.split(".")[0].split(",")[0]
        others = re.findall(r"(?:as for|those of) (?:\[|`)([A-Z]+)", included)
        mine = set(re.findall(r"`-([A-Z]+)", paragraph[1])) - {"ERR"}
        return set().union(mine, *(errors_in(other) for other in others)) - set(re.findall(r"`-([A-Z]+)", excepted))

    return {name: errors_in(name) for name in sections}


class Info(Case):
    def printed(self, d):
        """(section, line) of all lines of INFO, except the configuration."""
        section, lines = None, []
        for line in d.cmd("INFO").split("\r\n"):
            if line.startswith("# "):
                section = line[2:].lower()
            elif line and section != "config":
                lines.append((section, line.split(":")[0]))
        return lines

    def test_each_line_is_described_and_no_other_is(self):
        d = self.rlockd(conf='state_dir: "%s"\n' % os.path.join(self.dir, "state"))
        printed = self.printed(d)
        self.assertEqual(len(printed), len(set(printed)))
        self.assertGreater(len(printed), 50)
        self.assertEqual(set(printed), set(described()))

    def test_counters_are_described_in_their_own_words(self):
        documented, rows = described(), text_of("daemon/base/metrics.def")
        self.assertEqual(len(METRIC.findall(rows)), len(re.findall(r"^METRIC", rows, re.M)))
        for name, what in METRIC.findall(rows):
            self.assertEqual(documented["stats", name], what)

    def test_the_configuration_has_the_names_of_the_sample(self):
        d = self.rlockd(redis=None, conf="redis: { url: embedded }\n")
        sample, section = set(), ""
        for line in text_of("conf/rlockd.yaml").split("\n"):
            key = re.match(r"( *)#?([a-z_]+):( |$)", line)
            if key and not key[1]:
                section = "" if key[3] else key[2] + "."
            if key:
                sample.add((section if key[1] else "") + key[2])
        lines = [line.split(":")[0] for line in d.cmd("INFO", "config").split("\r\n")[1:] if line]
        self.assertGreater(len(lines), 40)
        self.assertEqual([n for n in lines if n not in sample and not n.startswith("rules")], [])

    def test_memory_is_reported_as_it_is(self):
        """The memory figures of INFO, against the sum of the daemon's allocations."""
        d = self.rlockd(conf="limits: { sessions: 1000 }\n")

        def read(line):
            return int(re.search(r"^%s:(\d+)" % line, d.cmd("INFO"), re.M)[1])
        used = read("used_memory")
        if used == 0:
            self.skipTest("an allocator that does not count")
        self.assertEqual((read("session_bytes"), read("lock_bytes")), (0, 0))
        conns = [d.conn() for _ in range(500)]
        for c in conns:
            self.addCleanup(c.close)
            self.assertEqual(c.cmd("PING"), "PONG")
        used, before = read("used_memory"), used
        reported = read("session_bytes")
        self.assertLessEqual(reported, 2048)
        self.assertAlmostEqual(reported, (used - before) / 500, delta=reported / 5)
        # one by one: after a larger burst the free lists keep more (base/freelist.h)
        for i, c in enumerate(conns[:20]):
            c.send("".join("LOCK %032d\r\n" % (100 * i + j) for j in range(100)))
            self.assertTrue(all(c.read() > 0 for _ in range(100)))
        used, before = read("used_memory"), used
        reported = read("lock_bytes")
        self.assertLessEqual(reported, 560)
        self.assertAlmostEqual(reported, (used - before) / 2000, delta=reported / 5)

    def test_each_holder_counts(self):
        d = self.rlockd()
        a, b = self.conn(d), self.conn(d)
        for c in (a, b):
            self.assertGreater(c.cmd("LOCK", "r", "KIND", "rw", "SHARED"), 0)
        for _ in range(2):
            self.assertGreater(a.cmd("LOCK", "p", "KIND", "semaphore", "LIMIT", 3), 0)
        info = d.info("keyspace")
        self.assertEqual((info["db0"], info["locks_held"]), ("keys=4,expires=4,avg_ttl=0", "4"))
        self.assertEqual(info["locks_known"], "2")
        self.assertEqual(a.cmd("DRAIN"), "OK")
        self.assertEqual(d.info("server")["drain_held"], "4")

    def test_help_has_the_errors_of_the_document(self):
        d, errors_in = self.rlockd(), errors_of()
        admin = set(re.findall(r"^COMMAND\((\w+), \d+, \d+, ADMIN", text_of("proto/commands.def"), re.M)) - {"DEBUG"}
        self.assertGreater(len(errors_in), 35)
        self.assertGreater(len(set().union(*errors_in.values())), 11)
        for name, errors in errors_in.items():
            printed = {line.split()[0][1:] for line in d.cmd("HELP", name)[2:]}
            self.assertEqual(printed, errors | ({"NOPERM"} if name in admin else set()), name)

    def test_metrics_are_described(self):
        path = os.path.join(self.dir, "http.sock")
        self.rlockd(conf='http: { listen: "unix:%s" }\n' % path)
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(harness.DEADLINE)
            s.connect(path)
            s.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
            page = b"".join(iter(lambda: s.recv(1 << 16), b"")).decode()
        self.assertTrue(page.startswith("HTTP/1.1 200 "), page[:100])
        names = re.findall(r"^# TYPE rlockd_(\w+) \w+$", page, re.M)
        documented = {"`rlockd_%s_total`" % line for at, line in described() if at == "stats"}
        documented.update(re.findall(r"`rlockd_\w+`", text_of("proto/PROTOCOL.md")))
        self.assertGreater(len(names), 30)
        self.assertEqual([n for n in names if "`rlockd_%s`" % n not in documented], [])


if __name__ == "__main__":
    harness.main()
