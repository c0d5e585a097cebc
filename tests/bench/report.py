"""report.py -- build/bench/report.md, report.json and growth.png."""
import json
import os
import platform
import subprocess
import time

import growth
import profile
import rows
import tried
from figures import Figure, Goal, short, spread


def machine():
    """The machine of the figures."""
    def first(words):
        try:
            output = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout
            return output.decode().splitlines()[0]
        except (OSError, IndexError):
            return "?"
    model = "?"
    with open("/proc/cpuinfo") as f:
        for line in f:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
    top = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return {"cores": os.cpu_count(), "processor": model, "kernel": platform.release(), "load_before": os.getloadavg(),
            "redis": first(["redis-server", "--version"]),
            "rlockd": first(["git", "-C", top, "describe", "--always", "--dirty"]),
            "time": time.strftime("%Y-%m-%d %H:%M:%S")}


def _plain(value):
    if isinstance(value, Figure):
        return value.as_json()
    raise TypeError(type(value))


def _row(line):
    if "skipped" in line:
        return "| %s | %s | | | %s | skipped: %s |" % (line["id"], line["title"], line["goal"] or "", line["skipped"])
    if "ratio" in line:
        result = spread(line["ratio"])
        of = "%s / %s %s" % (short(line["ours"].median), short(line["theirs"].median), line["unit"])
    else:
        result, of = spread(line["ours"]), line["unit"]
    met = "" if "met" not in line else "met" if line["met"] else "**missed**"
    return "| %s | %s | %s | %s | %s | %s |" % (line["id"], line["title"], result, of, line["goal"] or "", met)


def _cores(rounds):
    """The part of a core that each process used: where this is 1, or the sum is 2, no more is possible."""
    return ", ".join("%s %.2f" % (name, Figure([m["cpu"][name] / m["seconds"] for m in rounds]).median)
                     for name in rounds[0]["cpu"])


def _cells(bench):
    yield "## Measurements"
    yield ""
    heads = ["measurement", "pairs/s", "pair p50 us", "LOCK p99 us", "longest LOCK ms", "Redis us/pair",
             "rlockd us/pair", "commands/pair", "off its share", "cores"]
    yield "| %s |" % " | ".join(heads)
    yield "|---" * len(heads) + "|"
    for c in bench.cells:
        if not bench.got[c]:
            continue
        some = bench.got[c][0]
        redis, daemon = any(label.startswith("redis") for label in some["cpu"]), "rlockd" in some["cpu"]
        figures = [rows.rate, rows.p50, rows.wait_p99, rows.longest_wait, rows.redis_cpu if redis else None,
                   rows.daemon_cpu if daemon else None, rows.calls if redis else None, rows.unfair]
        words = [spread(Figure(bench.values(c, f))) if f else "-" for f in figures]
        yield "| %s | %s | %s |" % (rows.label(c), " | ".join(words), _cores(bench.got[c]))


def judge(lines):
    """Notes for each line with a goal whether it is met."""
    for line in lines:
        if line["goal"] and "skipped" not in line:
            line["met"] = Goal(line["goal"]).met(line.get("ratio", line["ours"]).median)


def text(bench, machine_, lines):
    met = [line["met"] for line in lines if "met" in line]
    skipped = [line for line in lines if "skipped" in line]
    out = ["# Benchmark of %s" % machine_["rlockd"], "",
           "%s. %d cores, %s, Linux %s; %s." % tuple(machine_[k] for k in ("time", "cores", "processor", "kernel",
                                                                           "redis")),
           "Load of the machine before: %s, after: %s; before the rounds something else had %s of it." % (
               " ".join("%.2f" % x for x in machine_["load_before"]), " ".join("%.2f" % x for x in os.getloadavg()),
               ", ".join("%.0f %%" % (100 * b) for b in bench.busy)),
           "%d rounds of %g s for each measurement; medians (smallest..largest). What is many was measured once%s." % (
               bench.options.rounds, bench.options.seconds, ", and small" if bench.options.small else ""),
           "", "%d of %d goals met, %d rows skipped." % (sum(met), len(met), len(skipped)), "",
           "| row | what | result | of | goal | |", "|---|---|---|---|---|---|"]
    out += [_row(line) for line in lines]
    out.append("")
    if bench.stage.growth:
        out += ["## Growth", "", *growth.tables(bench.stage.growth), bench.stage.picture, ""]
    if bench.cells:
        out += _cells(bench)
    if not all(met):
        out += ["", "## What missed its goal, and what was tried", "", *tried.markdown(lines)]
    if bench.profiled:
        out += ["", "## Where the time goes in what missed its goal", ""]
        for label, found in bench.profiled:
            out += profile.markdown(label, found)
    return "\n".join(out) + "\n"


def write(directory, bench, lines, machine_):
    """Writes the files and returns the report."""
    os.makedirs(directory, exist_ok=True)
    if bench.stage.growth:
        why = growth.picture(bench.stage.growth, os.path.join(directory, "growth.png"))
        bench.stage.picture = "No picture: " + why if why else "![growth](growth.png)"
    out = text(bench, machine_, lines)
    with open(os.path.join(directory, "report.md"), "w") as f:
        f.write(out)
    with open(os.path.join(directory, "report.json"), "w") as f:
        json.dump({"machine": machine_, "load_after": os.getloadavg(), "busy_elsewhere": bench.busy,
                   "rounds": bench.options.rounds, "seconds": bench.options.seconds, "rows": lines,
                   "growth": bench.stage.growth,
                   "measurements": [{"cell": c._asdict(), "rounds": bench.got[c]} for c in bench.cells],
                   "skipped": {rows.label(c): why for c, why in bench.skipped.items()}}, f, indent=1, default=_plain)
    return out
