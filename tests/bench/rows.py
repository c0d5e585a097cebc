"""rows.py -- the table: the measurements, and the figures that they give.

A Cell is one measurement: a load on a server. Rows name their cells; equal cells are run once. A row is a figure of one
cell, or the ratio of the same figure of two cells, with the goal of the issue where it has one.
"""
import collections

Cell = collections.namedtuple("Cell", "server proto clients pipeline processes hot retry one_owner",
                              defaults=(1, 1, False, False, 0, False))
Row = collections.namedtuple("Row", "id title figure ours theirs goal", defaults=(None, None))


# ---- figures of a measurement (load's output, and redis_calls) ----

def rate(m):
    return m["pairs_per_s"]


def p50(m):
    return m["pair_us"]["p50"]


def wait_p99(m):
    return m["lock_us"]["p99"]


def longest_wait(m):
    """Of a LOCK, in milliseconds; includes LOCKs that were granted after the window."""
    return m["lock_us"]["max"] / 1e3


def redis_cpu(m):
    """Microseconds of Redis's processor time per pair; of all nodes together, where there are several."""
    return sum(s for label, s in m["cpu"].items() if label.startswith("redis")) * 1e6 / max(1, m["pair_us"]["n"])


def daemon_cpu(m):
    return m["cpu"]["rlockd"] * 1e6 / max(1, m["pair_us"]["n"])


def calls(m):
    """Commands to Redis per pair: by the daemon, or by clients without rlockd."""
    return (m["redis_calls"] or m["whole"]["requests"]) / max(1, m["whole"]["pairs"])


def unfair(m):
    """
    The distance of the client with the most or the fewest pairs from its share, with one pair for the begin of the
    window.
    """
    s = m["share"]
    return max(0, s["max"] - s["mean"] - 1, s["mean"] - s["min"] - 1) / max(1, s["mean"])


UNITS = {rate: "pairs/s", p50: "us, median of a pair", wait_p99: "us, p99 of LOCK", longest_wait: "ms",
         redis_cpu: "us of Redis's CPU per pair", daemon_cpu: "us of rlockd's CPU per pair",
         calls: "Redis commands per pair", unfair: "off its share"}


# ---- cells ----

def rlockd(**more):
    return Cell("rlockd", "rlockd", **more)


def linger(**more):
    return Cell("linger", "rlockd", **more)


def trip(**more):
    return Cell("trip", "rlockd", hot=True, **more)


def apart(**more):
    return Cell("apart", "rlockd", hot=True, **more)


def direct(proto, **more):
    return Cell("direct", proto, **more)


def echo(**more):
    return Cell("floor-echo", "rlockd", **more)


def hot_floor(**more):
    return Cell("floor-hot", "rlockd", hot=True, **more)


def _own():
    many, deep = {"clients": 64}, {"clients": 16, "pipeline": 16}
    ours = rlockd(**many)
    yield Row("own-64-classic", "64 connections, own names: rlockd / direct, classic scripts", rate, ours,
              direct("classic", **many), ">= 1.3")
    yield Row("own-64-redisson", "the same / direct, Redisson 4.7's scripts", rate, ours,
              direct("redisson", **many), ">= 1.7")
    yield Row("own-64-redisson-del", "the same / and the DEL of the latch that the library sends behind them", rate,
              ours, direct("redisson-del", **many))
    yield Row("own-64-setnx", "the same / direct, SET NX PX and compare-and-delete", rate, ours,
              direct("setnx", **many))
    yield Row("own-64-floor", "the same / echo floor", rate, ours, echo(**many))
    yield Row("own-64-cpu", "64 connections, own names: rlockd's processor time", daemon_cpu, ours)
    ours = rlockd(**deep)
    yield Row("deep-classic", "16 connections x 16 pipelined: rlockd / direct, classic scripts", rate, ours,
              direct("classic", **deep), ">= 1.6")
    yield Row("deep-cpu", "the same: Redis's processor time per pair, rlockd / direct classic", redis_cpu, ours,
              direct("classic", **deep), "<= 0.6")
    yield Row("deep-setnx", "the same / direct, SET NX PX and compare-and-delete", rate, ours, direct("setnx", **deep))
    yield Row("deep-floor", "the same / echo floor", rate, ours, echo(**deep))
    yield Row("one-owner-classic", "16 connections x 16 pipelined, one owner each: rlockd / direct, classic scripts",
              rate, rlockd(one_owner=True, **deep), direct("classic", **deep), ">= 1.5")


def _processes():
    for n in (16, 64):
        procs = {"clients": n, "processes": True}
        name, title, ours = "procs-%d" % n, "%d client processes, own names: rlockd" % n, rlockd(**procs)
        yield Row(name + "-redisson", title + " / direct, Redisson's scripts", rate, ours, direct("redisson", **procs),
                  ">= 1.0")
        yield Row(name + "-linger", title + " with linger / direct, Redisson's scripts", rate, linger(**procs),
                  direct("redisson", **procs), ">= 1.5")
        yield Row(name + "-classic", title + " / direct, classic scripts", rate, ours, direct("classic", **procs))
    yield Row("one-p50", "1 client, own name, p50 of a pair: rlockd / direct classic", p50, rlockd(), direct("classic"),
              "<= 1.25")
    yield Row("one-p50-redisson", "the same / direct, Redisson's scripts", p50, rlockd(), direct("redisson"))
    yield Row("one-p50-floor", "the same / echo floor", p50, rlockd(), echo())


def _hot():
    for n in (16, 64):
        for procs in (False, True):
            many = {"clients": n, "processes": procs}
            name = "hot-procs-%d" % n if procs else "hot-%d" % n
            title = "%d client%s, one name, hand-offs/s: rlockd / " % (n, " processes" if procs else "s")
            hot = rlockd(hot=True, **many)
            yield Row(name + "-floor", title + "hot floor", rate, hot, hot_floor(**many), None if procs else ">= 0.9")
            yield Row(name + "-trip", title + "with a trip to Redis per hand-off", rate, hot, trip(**many),
                      None if procs else ">= 1.7")
            yield Row(name + "-apart", title + "with two, one behind the other", rate, hot, apart(**many))
            # The scheduler decides when processes wake: there the floor has uneven shares, too.
            yield Row(name + "-fair", "the same: how far any client is from its share", unfair, hot, None,
                      None if procs else "<= 0.05")
            yield Row(name + "-calls", "the same: Redis commands per hand-off", calls, hot, None, "<= 0.1")
    wide = rlockd(clients=512, hot=True)
    yield Row("hot-512", "one name, 512 clients / 16 clients", rate, wide, rlockd(clients=16, hot=True), ">= 0.9")
    yield Row("hot-512-floor", "the same of the hot floor", rate, hot_floor(clients=512), hot_floor(clients=16))


def _permits():
    many = {"clients": 64, "hot": True}
    ours = Cell("permits", "rlockd", **many)
    yield Row("permits-64", "64 clients, 4 permits of one name: rlockd / with two trips to Redis per hand-off", rate,
              ours, Cell("permits-apart", "rlockd", **many), ">= 1.7")
    yield Row("permits-64-calls", "the same: Redis commands per hand-off", calls, ours, None, "<= 0.1")


def _contended():
    """The cost of a hot name without rlockd."""
    for procs in (False, True):
        many = {"clients": 64, "processes": procs, "hot": True}
        name, title = ("hot-procs-64", "64 client processes") if procs else ("hot-64", "64 clients")
        ours, recipe = rlockd(**many), direct("redisson", **many)
        yield Row(name + "-recipe", title + ", one name: rlockd / Redisson's recipe in C", rate, ours, recipe, ">= 20")
        yield Row(name + "-recipe-calls", "the same: requests of the recipe per hand-off", calls, recipe)
        for retry in (0, 1, 10):
            how = "after %d ms" % retry if retry else "at once"
            yield Row("%s-setnx-%d" % (name, retry), "the same / SET NX PX, again " + how, rate, ours,
                      direct("setnx", retry=retry, **many))


def _spin():
    """Lower latency for more processor time."""
    spin = Cell("spin", "rlockd")
    yield Row("spin-one", "1 client, own name, p50 of a pair: with spin: 30us / without", p50, spin, rlockd())
    spin = spin._replace(clients=16, hot=True)
    yield Row("spin-hot-16", "16 clients, one name, hand-offs/s: with spin: 30us / without", rate, spin,
              rlockd(clients=16, hot=True))


def _linger():
    many = {"clients": 16}
    yield Row("linger-16", "linger, 16 clients, own names again and again / direct classic", rate, linger(**many),
              direct("classic", **many), ">= 2")
    yield Row("linger-16-calls", "the same: Redis commands per pair", calls, linger(**many), None, "<= 0.05")


def _tls():
    """The cost of TLS to Redis, beside a plain port on the same host."""
    for name, title, load in (("one", "1 client, own name", {}), ("64", "64 connections, own names", {"clients": 64}),
                              ("deep", "16 connections x 16 pipelined", {"clients": 16, "pipeline": 16})):
        ours, theirs = Cell("by-tls", "rlockd", **load), Cell("by-tcp", "rlockd", **load)
        yield Row("tls-%s-cpu" % name, title + ": rlockd's processor time with rediss:// / redis://", daemon_cpu, ours,
                  theirs)
        yield Row("tls-%s-redis" % name, "the same: Redis's", redis_cpu, ours, theirs)
        yield Row("tls-%s-p50" % name, "the same: p50 of a pair", p50, ours, theirs)


def _replicated():
    """The cost of the other shapes of Redis: each beside the same master, with as many replicas, by its address."""
    for name, title, load in (("one", "1 client, own name", {}), ("64", "64 connections, own names", {"clients": 64})):
        plain = Cell("replicated", "rlockd", **load)
        for what, words, server in (("sentinel", "by sentinels", "by-sentinels"), ("replicas", "with replicas: 1",
                                                                                   "acknowledged")):
            ours, row = Cell(server, "rlockd", **load), "%s-%s-" % (what, name)
            yield Row(row + "cpu", "%s: rlockd's processor time %s / without" % (title, words), daemon_cpu, ours, plain)
            yield Row(row + "redis", "the same: Redis's", redis_cpu, ours, plain)
            yield Row(row + "p50", "the same: p50 of a pair", p50, ours, plain)


def _quorum():
    """The cost of a majority: three masters, of which the second fastest answer counts, beside one of them."""
    for name, title, load in (("one", "1 client, own name", {}), ("64", "64 connections, own names", {"clients": 64})):
        ours, theirs = Cell("quorum", "rlockd", **load), Cell("of-quorum", "rlockd", **load)
        yield Row("quorum-%s-p50" % name, title + ": p50 of a pair by a quorum of three / by one of its nodes", p50,
                  ours, theirs, "<= 1.3")
        yield Row("quorum-%s-cpu" % name, "the same: rlockd's processor time", daemon_cpu, ours, theirs)


def _quorum_away():
    """The same with a fixed trip to each node, which is longer than two cores need for their part of a pair."""
    far, node, direct_node = Cell("far-quorum", "rlockd"), Cell("far-node", "rlockd"), Cell("far-direct", "classic")
    title = "1 client, own name, nodes 0.5 ms away each way: p50 of a pair by a quorum of three / by one of them"
    yield Row("quorum-one-p50-far", title, p50, far, node, "<= 1.3")
    yield Row("quorum-one-p50-far-direct", "the same / direct classic, at one of them", p50, far, direct_node, "<= 1.3")
    uneven = Cell("uneven-quorum", "rlockd")
    title = "1 client, own name, nodes 0.4, 0.5 and 2 ms away: p50 of a pair by a quorum of them / by the one at 0.5"
    yield Row("quorum-one-p50-uneven", title, p50, uneven, node, "<= 1.3")
    yield Row("quorum-one-p50-uneven-direct", "the same / direct classic, at the one at 0.5", p50, uneven, direct_node,
              "<= 1.3")


def _cluster():
    """The cost of slots: a cluster of three masters, each call at its slot's master, beside one server. Both by TCP."""
    deep = {"clients": 16, "pipeline": 16}
    for name, title, load, most in (("one", "1 client, own name", {}, None),
                                    ("64", "64 connections, own names", {"clients": 64}, "<= 1.25"),
                                    ("deep", "16 connections x 16 pipelined", deep, "<= 1.25")):
        ours, theirs = Cell("cluster", "rlockd", **load), Cell("by-tcp", "rlockd", **load)
        yield Row("cluster-%s-redis" % name, title + ": processor time of a cluster's three masters / of one server",
                  redis_cpu, ours, theirs, most)
        yield Row("cluster-%s-cpu" % name, "the same: rlockd's", daemon_cpu, ours, theirs)
        yield Row("cluster-%s-p50" % name, "the same: p50 of a pair", p50, ours, theirs)
        yield Row("cluster-%s-calls" % name, "the same: Redis commands per pair", calls, ours, theirs)


CORE = [*_own(), *_processes(), *_hot(), *_permits(), *_contended(), *_linger(), *_spin(), *_tls(), *_replicated(),
        *_quorum(), *_quorum_away(), *_cluster()]


def cells(rows):
    """The cells of these rows, each once, in their order."""
    out = {}
    for r in rows:
        for c in (r.ours, r.theirs):
            if c is not None:
                out[c] = True
    return list(out)


def label(c):
    """A cell in words."""
    words = [c.server if c.proto == "rlockd" else c.server + " " + c.proto, "hot" if c.hot else "own", "%d" % c.clients]
    if c.pipeline > 1:
        words[-1] += "x%d" % c.pipeline
    if c.one_owner:
        words.append("one owner each")
    if c.processes:
        words.append("processes")
    if c.retry:
        words.append("every %d ms" % c.retry)
    return " ".join(words)
