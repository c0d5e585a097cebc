#!/usr/bin/env python3
"""run.py -- the models, each searched by spin to the end, and each broken on purpose: spin has to find that.

    run.py [--build DIR] [MODEL...]          cluster, newcomer, generations, quorum; default: all

The second comment of a model lists the rules that it proves, and the names of its broken variants.
"""
import argparse
import os
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
MODELS = {
    "cluster": ("NO_HANGING", "REPORTED_TOO_SOON", "SILENT_FORGOTTEN", "EMPTIED_VOTES", "HAPPENS"),
    "newcomer": ("NOT_ANNOUNCED", "TRIP", "LIST_LATE", "OVER_UNREPORTED", "NO_LASTS", "SWEPT",
                 "NONE_COUNTED", "HAPPENS"),
    "generations": ("NO_ORIGIN", "NO_SPOIL", "NO_MARK", "MISSING_IS_NEW", "TOO_SOON", "HAPPENS"),
    "quorum": ("WRITE_BACK_ANYWHERE", "READ_EARLY", "NO_QUARANTINE", "RELEASE_BELIEVED", "HAPPENS"),
}
MEGABYTES = 4000
SECONDS = 600


def search(model, broken, build):
    """(states, the violated assertion; None: all assertions hold)."""
    directory = os.path.join(build, model + ("-" + broken.lower() if broken else ""))
    os.makedirs(directory, exist_ok=True)
    spin = ["spin", *(["-D" + broken] if broken else []), "-a", os.path.join(HERE, model + ".pml")]
    gcc = ["gcc", "-O2", "-w", "-DSAFETY", "-DCOLLAPSE", "-DMEMLIM=%d" % MEGABYTES, "-o", "pan", "pan.c"]
    for words in (spin, gcc):
        subprocess.run(words, cwd=directory, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    out = subprocess.run(["./pan", "-m100000", "-E"], cwd=directory, stdin=subprocess.DEVNULL, check=True,
                          stdout=subprocess.PIPE, text=True, timeout=SECONDS).stdout
    violated = re.search(r"^pan:\d+: (.*) \(at depth", out, re.M)
    if not violated and (not re.search(r"errors: 0$", out, re.M) or "not completed" in out or "too small" in out):
        raise SystemExit("models: %s: the search did not end:\n%s" % (model, out))
    return int(re.search(r"(\d+) states, stored", out).group(1)), violated and violated.group(1)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--build", default=os.path.join(TOP, "build", "models"))
    p.add_argument("models", nargs="*", choices=[*MODELS, []])
    o = p.parse_args()
    failed = passed = 0
    for model in o.models or MODELS:
        for broken in (None, *MODELS[model]):
            began = time.monotonic()
            states, violated = search(model, broken, o.build)
            right = bool(violated) == bool(broken)
            passed, failed = passed + right, failed + (not right)
            print("%s %-8s %-20s %9d states, %3.0f s: %s" % (
                "ok    " if right else "FAILED", model, broken or "", states, time.monotonic() - began,
                "found: " + violated if violated else "all of it holds"), flush=True)
    print("%d passed, %d failed" % (passed, failed))
    return failed


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
