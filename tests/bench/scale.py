"""scale.py -- large numbers: held locks, sessions, waiters; and a killed holder.

A Job starts fresh servers of its own, and gives figures by the ids of its lines. Growth (throughput and memory over
locks and over sessions) also becomes tables and a plot.
"""
import collections
import json
import resource
import subprocess
import time

import profile
import servers
from figures import Figure
from servers import LOAD, Skip, cpu, harness

# A line of the report: its id, its title, the unit, the goal.
Line = collections.namedtuple("Line", "id title unit goal", defaults=(None,))
Job = collections.namedtuple("Job", "run lines quick", defaults=(False,))

SESSIONS = (10, 100, 1000, 10000, 20000)
LOCKS = (1000, 10000, 100000, 1000000)
WAITERS = 100000


class Sizes:
    """The sizes of the jobs; smaller for a trial (--small)."""

    def __init__(self, small):
        self.small = small
        self.sessions = [n for n in SESSIONS if not small or n <= 1000]
        self.locks = [n for n in LOCKS if not small or n <= 10000]
        self.waiters = 2000 if small else WAITERS
        self.rounds = 20 if small else 200
        self.remote_s = 1 if small else 5
        self.watch_s = 11 if small else 30  # rounds of renewals, 10 s each


class Helper:
    """A load subcommand that stays: its first line of JSON, and a way to go on."""

    def __init__(self, stage, *words, deadline=600):
        self.proc = subprocess.Popen([LOAD, *[str(w) for w in words]], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                     stderr=subprocess.PIPE, preexec_fn=harness.die_with_us)
        stage.helpers.append(self)
        self.deadline = deadline
        self.first = self.line()

    def line(self):
        text = self.proc.stdout.readline()
        if not text:
            self.proc.wait()
            raise Skip("load: " + self.proc.stderr.read().decode(errors="replace").strip())
        return json.loads(text)

    def go_on(self):
        self.proc.stdin.write(b"go\n")
        self.proc.stdin.flush()
        return self.line()

    def stop(self):
        if self.proc.poll() is None:
            self.proc.stdin.close()
            self.proc.wait(60)


def rss(pid):
    with open("/proc/%d/status" % pid) as f:
        for line in f:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    return 0


def run_load(*words):
    """Runs load to its end; returns its output."""
    p = subprocess.run([LOAD, *[str(w) for w in words]], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       preexec_fn=harness.die_with_us, timeout=300)
    if p.returncode:
        raise Skip("load: " + p.stderr.decode(errors="replace").strip())
    return json.loads(p.stdout)


class Place:
    """A fresh daemon and its Redis, in a directory below the stage's."""

    def __init__(self, stage, name):
        self.stage = stage
        self.server = servers.Rlockd(stage, name)
        self.daemon, self.redis = self.server.daemon, self.server.process

    def load(self, clients, seconds=1.0, prefix="bench"):
        return run_load("--proto", "rlockd", "--at", self.server.at, "--clients", clients, "--seconds", seconds,
                        "--warm", "0.25", "--prefix", prefix)

    def p99(self, seconds=2.0):
        """Of a LOCK by one client, in microseconds."""
        return self.load(1, seconds, prefix="probe")["lock_us"]["p99"]

    def stat(self, name):
        return int(self.daemon.info("stats")[name])

    def helper(self, *words):
        return Helper(self.stage, words[0], "--at", self.server.at, *words[1:])

    def stop(self):
        self.daemon.stop()
        self.redis.stop()


def settle(place, seconds=0.5):
    """Answers are in, but the daemon may still work because of them: waits until it hardly works any more."""
    def calm():
        """the daemon is calm"""
        before = cpu(place.daemon.pid)
        time.sleep(seconds)  # the pause is part of the measurement: how much the daemon works in it
        return cpu(place.daemon.pid) - before < 0.6 * seconds
    harness.until(calm, 60)


def watched(pid, directory, running):
    """The functions that a process runs now: symbols, or the reason why there are none."""
    try:
        return profile.perf(pid, directory, running)
    except (Skip, OSError, subprocess.SubprocessError) as e:
        return Skip(str(e))


# ---- jobs: each puts values by ids into out, step by step, and may add to stage.growth ----

def locks(stage, sizes, out):
    """Held locks in steps, then the cost of the renewals of the last step."""
    place = Place(stage, "scale-locks")
    idle_p99 = place.p99()
    place.load(64)  # as many sessions as will hold
    base, table, held = rss(place.daemon.pid), [], 0
    redis_base = rss(place.redis.pid)
    holders, stage.growth["locks"] = [], table
    for n in sizes.locks:
        holders.append(place.helper("hold", "--clients", 64, "--names", n - held, "--prefix", "h%d" % n))
        first, held = holders[-1].first, n
        m = place.load(16, prefix="own%d" % n)
        table.append({"locks": n, "taken_per_s": first["per_s"], "pairs_per_s": m["pairs_per_s"],
                      "lock_p99_us": place.p99(1.0), "bytes_per_lock": (rss(place.daemon.pid) - base) / n,
                      "redis_bytes_per_lock": (rss(place.redis.pid) - redis_base) / n, "lost": place.stat("lost")})
    out["mem-lock"] = [table[-1]["bytes_per_lock"]]
    out["grow-locks"] = [table[-1]["pairs_per_s"] / table[0]["pairs_per_s"]]
    settle(place)
    before = cpu(place.daemon.pid), cpu(place.redis.pid), time.monotonic(), place.stat("renewals")
    time.sleep(sizes.watch_s)  # the pause is part of the measurement: the renewals in it
    took = time.monotonic() - before[2]
    out["renew-rlockd"] = [(cpu(place.daemon.pid) - before[0]) / took]
    out["renew-redis"] = [(cpu(place.redis.pid) - before[1]) / took]
    out["renew-rate"] = [(place.stat("renewals") - before[3]) / took / held]
    if not sizes.small:
        for row, pid in (("renew-rlockd", place.daemon.pid), ("renew-redis", place.redis.pid)):
            stage.profiled.append((row, "%d held locks, nothing but renewals, %s" % (held, row.split("-")[1]),
                                   watched(pid, stage.directory, holders[-1].proc)))
    out["renew-p99"] = [place.p99(max(10, sizes.watch_s / 2)) / idle_p99]
    out["renew-lost"] = [place.stat("lost")]
    for h in holders:
        h.stop()
    place.stop()


def sessions(stage, sizes, out):
    """Sessions in steps: idle ones for memory, then that many at work."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    place = Place(stage, "scale-sessions")
    base, table, held, helpers = rss(place.daemon.pid), [], 0, []
    for n in sorted({min(n, soft - 200) for n in sizes.sessions}):  # up to the limit of descriptors
        helpers.append(place.helper("idle", "--clients", n - held, "--prefix", "s%d" % n))
        held = n
        table.append({"sessions": n, "bytes_per_session": (rss(place.daemon.pid) - base) / n})
    for h in helpers:
        h.stop()
    place.stop()
    out["mem-session"] = [table[-1]["bytes_per_session"]]
    stage.growth["sessions"] = table
    place = Place(stage, "scale-busy")
    for row in table:
        m = place.load(row["sessions"], 2.0)
        row.update(pairs_per_s=m["pairs_per_s"], pair_p99_us=m["pair_us"]["p99"], refused=m["whole"]["refused"])
    place.stop()
    out["grow-sessions"] = [table[-1]["pairs_per_s"] / max(r["pairs_per_s"] for r in table)]
    out["refused-sessions"] = [table[-1]["refused"]]


def waiters(stage, sizes, out):
    """Owners on 1000 sessions wait for one name; their effect on other sessions; and how fast they are served."""
    place = Place(stage, "scale-waiters")
    idle_p99 = place.p99()
    base = rss(place.daemon.pid)
    helper = place.helper("wait", "--clients", min(1000, sizes.waiters), "--names", sizes.waiters, "--prefix", "queue")

    def queued():
        """all owners wait"""
        return int(place.daemon.info("clients").get("blocked_clients", sizes.waiters)) >= sizes.waiters
    harness.until(queued, 120)
    out["wait-bytes"] = [(rss(place.daemon.pid) - base) / sizes.waiters]
    out["wait-p99"] = [place.p99() / idle_p99]
    out["wait-served"] = [helper.go_on()["per_s"]]
    helper.stop()
    place.stop()


def killed(stage, sizes, out):
    """The holder is killed; the waiter is at the same daemon, and at another."""
    place = Place(stage, "killed")
    other = stage.keep(harness.Rlockd(stage.directory, redis=place.redis.url, name="killed-other"))
    for name, at, settle_ms in (("one", place.server.at, 3), ("two", other.addr, 30)):
        us = run_load("killed", "--at", place.server.at, "--also", at, "--rounds", sizes.rounds, "--settle",
                      settle_ms)["us"]
        out["killed-%s-p50" % name], out["killed-%s" % name] = [us["p50"] / 1e3], [us["p99"] / 1e3]
    other.stop()
    place.stop()


def remote(stage, sizes, out):
    """16 clients hand a name round at one daemon; one more waits for it at another daemon, or is a Redisson client."""
    place = Place(stage, "remote")
    other = stage.keep(harness.Rlockd(stage.directory, redis=place.redis.url, name="remote-other"))
    for name, proto, at in (("rlockd", "rlockd", other.addr), ("redisson", "redisson", place.redis.url)):
        busy = subprocess.Popen([LOAD, "--proto", "rlockd", "--at", place.server.at, "--clients", "16", "--hot",
                                 "--seconds", "60"], stdout=subprocess.DEVNULL, preexec_fn=harness.die_with_us)
        try:
            m = run_load("--proto", proto, "--at", at, "--hot", "--warm", "1", "--seconds", sizes.remote_s)
        finally:
            busy.terminate()
            busy.wait()
        out["remote-" + name] = [m["lock_us"]["p99"] / 1e3]
        out["remote-%s-max" % name] = [m["lock_us"]["max"] / 1e3]
        harness.until(place.server.is_empty, 60)
    other.stop()
    place.stop()


JOBS = [
    Job(killed, [Line("killed-one-p50", "holder killed -> waiter has it, one daemon, p50", "ms"),
                 Line("killed-one", "the same, p99", "ms", "<= 10"),
                 Line("killed-two-p50", "holder killed -> waiter at another daemon has it, p50", "ms"),
                 Line("killed-two", "the same, p99", "ms", "<= 20")], True),
    Job(remote, [Line("remote-rlockd", "16 clients hand a name round, one waits at another daemon: its p99", "ms",
                      "<= 12"),
                 Line("remote-rlockd-max", "the same: its longest wait", "ms"),
                 Line("remote-redisson", "the same: one more that is a Redisson client (its recipe)", "ms", "<= 12"),
                 Line("remote-redisson-max", "the same: its longest wait", "ms")], True),
    Job(sessions, [Line("mem-session", "memory per idle session that has locked once", "bytes", "<= 2048"),
                   Line("grow-sessions", "pairs/s with the most sessions at work / the best of all steps", ""),
                   Line("refused-sessions", "the same: LOCKs refused (-UNAVAILABLE, -LIMIT)", "", "<= 0")]),
    Job(locks, [Line("mem-lock", "memory per held lock with a name of 32 bytes", "bytes", "<= 512"),
                Line("grow-locks", "pairs/s of 16 clients with the most locks held / with 1000", ""),
                Line("renew-rlockd", "all held locks renewed every 10 s: rlockd's share of a core", "cores", "<= 0.25"),
                Line("renew-redis", "the same: Redis's share of a core", "cores", "<= 0.4"),
                Line("renew-rate", "the same: renewals per lock and second", "1/s", ">= 0.09"),
                Line("renew-lost", "the same: locks lost since the first was taken", "locks", "<= 0"),
                Line("renew-p99", "the same: p99 of a LOCK meanwhile / in an idle daemon", "", "<= 3")]),
    Job(waiters, [Line("wait-bytes", "memory per waiter", "bytes"),
                  Line("wait-p99", "p99 of a LOCK of another name while all wait / in an idle daemon", ""),
                  Line("wait-served", "the queue served, one after the other", "hand-offs/s")]),
]


def more_files(wanted=65536):
    """Raises the limit of descriptors as far as possible; children inherit it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for n in (max(wanted, hard), hard):
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (n, n))
            return
        except (ValueError, OSError):
            continue


def run(stage, jobs, small):
    """The lines of the report."""
    sizes, out = Sizes(small), []
    for job in jobs:
        began, values, why = time.monotonic(), {}, None
        try:
            job.run(stage, sizes, values)
        except (Skip, AssertionError, OSError, subprocess.TimeoutExpired) as e:
            why = str(e)
        finally:
            for h in stage.helpers:
                h.stop()
            stage.helpers.clear()
        print("%s: %.0f s%s" % (job.run.__name__, time.monotonic() - began, ", not all of it: " + why if why else ""),
              flush=True)
        for line in job.lines:
            row = {"id": line.id, "title": line.title, "unit": line.unit, "goal": line.goal}
            if line.id in values:
                row["ours"] = Figure(values[line.id])
            else:
                row["skipped"] = why or "not measured"
            out.append(row)
    return out
