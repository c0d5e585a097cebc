#!/usr/bin/env python3
"""second_rounds.py [SECONDS] -- how often unrelated names cost a second round in a quorum.

Names share the token clocks of a node, a 64th of them each, and each daemon has its own estimate of time. A vote
reserves 64 tokens, so that only nodes whose clocks are further apart need a second round (a write-back of the higher
token). Three masters; 1, 2 and 4 daemons; each has clients with names of their own, which lock and unlock as fast as
they can.
"""
import os
import subprocess
import sys

from switch import BUILD, Stage

from harness import Rlockd, until
from quorums import Masters

DAEMONS, CLIENTS = (1, 2, 4), (1, 16)


def nodes(r):
    info = r.info("redis")
    return [dict(f.split("=", 1) for f in info["redis_node%d" % i].split(",")) for i in range(int(info["redis_nodes"]))]


def count(daemons):
    """(grants, second rounds of a node) of all daemons."""
    grants = sum(int(r.info("stats")["attempts"]) for r in daemons)
    return grants, sum(int(n["second_rounds"]) for r in daemons for n in nodes(r))


def run(daemons_n, clients, seconds):
    with Stage() as stage:
        m = Masters(stage)
        daemons = [stage._keep(Rlockd(stage.dir, redis=m.url(), name="d%d" % i, build=BUILD)) for i in range(daemons_n)]
        until(lambda: all(n["state"] == "voting" for r in daemons for n in nodes(r)))
        grants, rounds = count(daemons)
        words = [os.path.join(BUILD, "tests/bench/load"), "--proto", "rlockd", "--clients", str(clients),
                 "--seconds", str(seconds)]
        load = [subprocess.Popen([*words, "--at", "unix:" + r.path, "--prefix", "n%d-" % i], stdout=subprocess.DEVNULL)
                for i, r in enumerate(daemons)]
        assert [p.wait() for p in load] == [0] * daemons_n
        after = count(daemons)
        return after[0] - grants, after[1] - rounds


def main():
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    print("daemons  clients of each   attempts  second rounds (of a node)  of an attempt")
    for daemons_n in DAEMONS:
        for clients in CLIENTS:
            grants, rounds = run(daemons_n, clients, seconds)
            print("%7d  %15d  %9d  %25d  %11.2f %%" % (daemons_n, clients, grants, rounds, 100 * rounds / grants),
                  flush=True)


if __name__ == "__main__":
    main()
