"""profile.py -- the functions that take the time in a cell: perf on the daemon while the same load runs again.

For rows that missed their goal. Not part of any figure: perf slows the process that it watches.
"""
import collections
import os
import re
import shutil
import subprocess

from servers import Skip, cpu, harness

SECONDS = 30.0  # of the load, which is ended before
TOP = 14  # symbols
LINE = re.compile(r"^\s*([0-9.]+)%\s+(\S+)\s+\[(.)\] (.*?)[\s-]*$")


WARM_S = 0.1  # a load has begun after so much work; a process that hardly works is watched after 10 s all the same


def symbols(text):
    """[(percent, dso, symbol)] of perf's report; "k" marks the kernel's."""
    found = [LINE.match(line) for line in text.splitlines()]
    return [(float(m.group(1)), "kernel" if m.group(3) == "k" else m.group(2), m.group(4)) for m in found if m]


def perf(pid, directory, running):
    """Watches a process for a second, while `running` does."""
    if not shutil.which("perf"):
        raise Skip("no perf on this machine (Debian: linux-perf)")
    data = os.path.join(directory, "perf.%d" % pid)
    began = cpu(pid)
    harness.within(lambda: cpu(pid) - began >= WARM_S or running.poll() is not None, 10)
    p = subprocess.run(["perf", "record", "-q", "-N", "-e", "cpu-clock", "-F", "997", "-p", str(pid), "-o", data, "--",
                        "sleep", "1"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       preexec_fn=harness.die_with_us, timeout=60)
    if p.returncode or running.poll() is not None:
        raise Skip("perf: " + (p.stdout.decode(errors="replace").strip().splitlines() or ["the load had ended"])[-1])
    out = subprocess.run(["perf", "report", "-q", "-i", data, "--stdio", "--no-children", "-s", "dso,symbol"],
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=120).stdout
    os.unlink(data)
    return symbols(out.decode(errors="replace"))


def of(words, pid, directory):
    """The profile of process `pid` during the load `words`."""
    load = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=harness.die_with_us)
    try:
        return perf(pid, directory, load)
    finally:
        load.terminate()  # its workers end with it
        load.wait(120)


def markdown(label, found):
    """One cell."""
    if isinstance(found, Skip):
        yield "**%s**: no profile: %s" % (label, found)
    else:
        sums = collections.Counter()
        for percent, dso, _ in found:
            sums[dso] += percent
        yield "**%s**: %s" % (label, ", ".join("%.0f %% in %s" % (n, dso) for dso, n in sums.most_common(4)))
        yield ""
        yield "| % | where | what |"
        yield "|---|---|---|"
        for percent, dso, symbol in found[:TOP]:
            yield "| %.1f | %s | `%s` |" % (percent, dso, symbol)
    yield ""
