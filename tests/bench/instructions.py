#!/usr/bin/env python3
"""instructions.py -- instructions of rlockd per pair, counted by callgrind: exact on a machine that is busy.

    instructions.py [--seconds S] [--cells "own64 hot64"] [--top N] [--keep DIR] BUILD...

For each BUILD (a directory with rlockd, as build/) and each load: instructions in user space per LOCK and UNLOCK, as a
table; with --top, the functions with the most of them. The load is `load` of the first BUILD for all of them. Under
callgrind the daemon is 50 times slower than its clients and Redis, so its turns and batches are as full as they get.
"""
import argparse
import collections
import json
import os
import re
import subprocess
import sys
import tempfile

import servers
from servers import harness

Load = collections.namedtuple("Load", "words conf", defaults=("",))
LOADS = {
    "own64": Load(["--clients", "64"]),
    "16x16": Load(["--clients", "16", "--pipeline", "16"]),
    "hot64": Load(["--clients", "64", "--hot"]),
    "linger": Load(["--clients", "16"], "locks: { linger: 50ms }\n"),
    "one": Load(["--clients", "1"]),
}
COUNT = re.compile(r"^\s*([0-9,]+) \([ 0-9.]+%\)\s+\S*?:?([^:\s]+) \[")


def control(pid, *words):
    subprocess.run(["callgrind_control", *words, str(pid)], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, timeout=60)


def functions(path):
    """[(instructions, name)] of a dump, the most first; and their sum."""
    text = subprocess.run(["callgrind_annotate", "--threshold=100", "--auto=no", "--tree=none", path], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, timeout=120).stdout.decode(errors="replace")
    found = [(int(m.group(1).replace(",", "")), m.group(2)) for m in map(COUNT.match, text.splitlines()) if m]
    total = int(re.search(r"^\s*([0-9,]+) .*PROGRAM TOTALS", text, re.M).group(1).replace(",", ""))
    return found, total


def measure(build, cell, options, directory):
    """(instructions per pair, [(of a function per pair, name)])."""
    load = LOADS[cell]
    redis = harness.Redis(directory)
    dump = os.path.join(directory, "callgrind")
    daemon = harness.Rlockd(directory, redis=redis.url, conf=servers.LIMITS + load.conf, build=build, under=[
        "valgrind", "--tool=callgrind", "--instr-atstart=no", "--callgrind-out-file=" + dump])
    try:
        words = [os.path.join(options.build[0], "tests", "bench", "load"), "--proto", "rlockd", "--at", daemon.addr,
                 "--redis", redis.url, "--warm", "0.2", "--seconds", str(options.seconds), *load.words]
        control(daemon.pid, "-i", "on")
        out = subprocess.run(words, check=True, stdout=subprocess.PIPE, timeout=60 + 4 * options.seconds).stdout
        control(daemon.pid, "-i", "off")
        pairs = json.loads(out)["whole"]["pairs"]
    finally:
        daemon.stop()
        redis.stop()
    found, total = functions(dump)
    if options.keep:
        os.replace(dump, os.path.join(options.keep, "%s.%s.%d" % (os.path.basename(os.path.dirname(build)), cell, pairs)))
    return total / pairs, [(n / pairs, name) for n, name in found], pairs


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--seconds", type=float, default=6)
    p.add_argument("--cells", default=" ".join(LOADS))
    p.add_argument("--top", type=int, default=0)
    p.add_argument("--keep")
    p.add_argument("build", nargs="+")
    options = p.parse_args()
    for cell in options.cells.split():
        for build in options.build:
            with tempfile.TemporaryDirectory(prefix="rlockd-instructions.") as directory:
                total, found, pairs = measure(os.path.abspath(build), cell, options, directory)
            print("%-8s %-30s %9.0f instructions per pair (%d pairs)" % (cell, build, total, pairs), flush=True)
            for n, name in found[:options.top]:
                print("    %9.1f %s" % (n, name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
