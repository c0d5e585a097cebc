"""growth.py -- throughput and memory over held locks and over sessions: a table each, and one picture (growth.png)."""
import json
import os
import subprocess
import sys

from figures import short

# Table -> (its heading, the column of x, [(column, its meaning)]).
TABLES = {
    "locks": ("Held locks", "locks", [
        ("taken_per_s", "LOCK/s while taking them"), ("pairs_per_s", "pairs/s of 16 clients"),
        ("lock_p99_us", "p99 of a LOCK, us"), ("bytes_per_lock", "bytes per lock, rlockd"),
        ("redis_bytes_per_lock", "bytes per lock, Redis"), ("lost", "lost so far")]),
    "sessions": ("Sessions", "sessions", [
        ("bytes_per_session", "bytes per idle session"), ("pairs_per_s", "pairs/s with all at work"),
        ("pair_p99_us", "p99 of a pair, us"), ("refused", "LOCKs refused")]),
}
# The four panels of the picture: table, columns, title.
PANELS = [("locks", ["pairs_per_s", "taken_per_s"], "throughput over held locks"),
          ("locks", ["bytes_per_lock", "redis_bytes_per_lock"], "bytes per held lock"),
          ("sessions", ["pairs_per_s"], "throughput over sessions at work"),
          ("sessions", ["bytes_per_session"], "bytes per idle session")]


def tables(growth):
    """The tables in Markdown."""
    for name, rows in growth.items():
        heading, x, columns = TABLES[name]
        yield "### " + heading
        yield ""
        yield "| %s | %s |" % (x, " | ".join(title for _, title in columns))
        yield "|---" * (1 + len(columns)) + "|"
        for r in rows:
            yield "| %d | %s |" % (r[x], " | ".join(short(r.get(c)) for c, _ in columns))
        yield ""


def draw(growth, path):
    """Draws the picture; called in a process of its own, since matplotlib is large and may be absent."""
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    panels = [p for p in PANELS if growth.get(p[0])]
    figure, axes = pyplot.subplots(1, len(panels), figsize=(4.2 * len(panels), 3.6), squeeze=False)
    for axis, (name, columns, title) in zip(axes[0], panels):
        _, x, labels = TABLES[name]
        for column in columns:
            points = [(r[x], r[column]) for r in growth[name] if column in r]
            axis.plot(*zip(*points), marker="o", label=dict(labels)[column])
        axis.set_xscale("log")
        axis.set_ylim(bottom=0)
        axis.set_xlabel(x)
        axis.set_title(title, fontsize=10)
        axis.legend(fontsize=8)
        axis.grid(True, alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def picture(growth, path):
    """None, or the reason why there is no picture."""
    code = "import sys, json; sys.path.insert(0, %r); import growth; growth.draw(json.load(sys.stdin), %r)" % (
        os.path.dirname(os.path.abspath(__file__)), path)
    p = subprocess.run([sys.executable, "-c", code], input=json.dumps(growth).encode(), stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT)
    if p.returncode:
        return p.stdout.decode(errors="replace").strip().splitlines()[-1] + " (Debian: python3-matplotlib)"
    return None
