#!/usr/bin/env python3
"""run.py -- memory and system calls fail, one after the other, while clients use a real daemon on a real Redis.

  run.py [--short] [--asan] [--build DIR] [--only SCENE,...] [--what start,memory,stop,calls,conf,files] [--report FILE]

A loop is one scene and one way to fail: the n-th call after the mark fails, once or from then on for a while, n = 1, 2,
... until a run without a failure. After each run, without further faults, each request has had one reply or the end of
its connection, each name can be locked and unlocked, and Redis has only keys that are there after a good run. The
daemon survives a failed system call. A failed allocation ends it with status 71 and one line in the log, and the next
process on the same state directory has the locks of named owners. --short tries each caller (by its stack) once instead
of each call, and a stride through the rest.
"""
import argparse
import concurrent.futures
import errno
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import page as page_py
from page import FOREVER, harness
from scenes import CONF, SCENES, Client, Stage, Wrong

FAILURES_MAX = 6  # of one loop: after these the loop ends

# (family, errors): errors that Linux can really return there. A recv() of a socket with bytes never returns EAGAIN, and
# an edge-triggered reader relies on that, so READ has no such error.
CALLS = [
    ("read", ["EINTR", "ENOMEM", "ECONNRESET", "ETIMEDOUT"]),
    ("write", ["EINTR", "EAGAIN", "ENOMEM", "EPIPE", "ECONNRESET"]),
    ("accept", ["EINTR", "EAGAIN", "EMFILE", "ENFILE", "ENOMEM", "ECONNABORTED"]),
    ("connect", ["EINTR", "EAGAIN", "ECONNREFUSED", "ETIMEDOUT", "ENOMEM"]),
    ("epoll_ctl", ["ENOMEM", "ENOSPC"]),
    ("epoll_wait", ["EINTR"]),
    ("socket", ["EMFILE", "ENFILE", "ENOMEM"]),
    ("setsockopt", ["ENOMEM", "EINVAL"]),
    ("open", ["EMFILE", "ENFILE", "EINTR"]),
]
CALL_SCENES = ["lock_unlock", "waiters", "subscribers", "pipelined", "redis_cut", "redis_down", "batch", "http",
               "reload"]
START_CALLS = CALLS + [("getrandom", ["EINTR", "EAGAIN", "ENOSYS"]), ("eventfd", ["EMFILE", "ENFILE", "ENOMEM"])]


THREADS = 4  # most of the time a run waits: for a lock, or for a lease to end
PLAIN = os.path.join(page_py.TOP, "build", "test")  # for loops that start a process for each fault
MODES = {1: "once", 3: "for 3", 12: "for 12"}
NO_MEMORY = 71  # MEMORY_STATUS of daemon/base/memory.h
# Callers in libc, which can do without a buffer; and libcrypto, which does without openssl.cnf where libc cannot open
# it: the frames of the program are deeper in the stack than the shim reads.
WITHOUT = ("dprintf ", "print_conf ", "(not called by the program itself)")
PASSING = ("EINTR", "EAGAIN")  # no kernel returns these for ever
KEPT = (*("rlock:" + x for x in ("clock", "epoch", "members", "until", "changes", "left")),
        "redisson_lock_token:{fenced}")  # in Redis, when a scene is over


class Tally:
    def __init__(self, report):
        self.passed = self.failed = self.injected = self.runs = 0
        self.sites, self.stacks = set(), set()
        self.report = report
        self.lock = threading.Lock()

    def say(self, text):
        print(text, flush=True)
        if self.report:
            self.report.write(text + "\n")
            self.report.flush()

    def met(self, calls):
        """Notes the callers; returns those that were known before."""
        with self.lock:
            before = set(self.stacks)
            self.stacks |= {c[0] for c in calls}
            self.sites |= {c[1] for c in calls}
        return before

    def loop(self, title, runs, injected, calls, wrong, began):
        if not injected and not wrong:
            wrong = ["nothing failed at all"]
        with self.lock:
            self.add(title, runs, injected, calls, wrong, began)

    def add(self, title, runs, injected, calls, wrong, began):
        self.passed += not wrong
        self.failed += bool(wrong)
        self.injected += injected
        self.runs += runs
        self.say("%-6s %-46s %5d calls %5d runs %6d faults %6.1f s" % ("FAILED" if wrong else "ok", title, calls, runs,
                                                                       injected, time.monotonic() - began))
        for w in wrong:
            self.say("    " + w.replace("\n", "\n    "))


def lock_kept(client):
    """
    Locks `kept`, for longer than a new process needs on a busy machine, which may also need longer than redis.timeout;
    returns the reply.
    """
    end = time.monotonic() + 10
    while True:
        token = client.ask("LOCK", "kept", "OWNER", "keeper", "GRACE", "1m", "LEASE", "1m", "NOWAIT")
        if not str(token).startswith("UNAVAILABLE") or time.monotonic() > end:
            return token


class House:
    """A daemon with the shim, its Redis, its page; built anew when the daemon has died."""

    def __init__(self, build, redis_url=None):
        self.build, self.redis_url = build, redis_url
        self.binary = os.path.join(build, "rlockd")
        self.dir = tempfile.mkdtemp(prefix="rlockd-faults.")
        self.page = page_py.Page(os.path.join(self.dir, "page"))
        self.redis = harness.Redis(self.dir)
        self.daemon = None
        self.keys = set(KEPT)

    def up(self):
        if self.daemon is None or not self.daemon.running():
            if self.daemon is not None:
                self.daemon.stop()
            self.page.disarm()
            self.redis.cmd("FLUSHALL")
            shutil.rmtree(os.path.join(self.dir, "state"), True)
            self.daemon = self.rlockd()
        return self.daemon

    def rlockd(self, **more):
        path = os.path.join(self.dir, "rlockd.log")
        if os.path.exists(path):
            os.unlink(path)
        return harness.Rlockd(self.dir, redis=self.redis_url or self.redis.url, conf=CONF % {"dir": self.dir},
                              build=self.build, env=page_py.preload(self.page, self.build), **more)

    def close(self):
        if self.daemon is not None:
            self.daemon.stop()
        self.redis.stop()
        shutil.rmtree(self.dir, True)

    # ---- invariants ----

    def keys_now(self):
        """The keys, without those that a BREAK leaves for the rest of its lock's lease."""
        return {key for key in self.redis.cmd("KEYS", "*") if not key.startswith("rlock:ended:")}

    def settled(self, names):
        """Every name can be locked, and no key of that is left."""
        c = Client(self.daemon.path)
        try:
            for n in sorted(names):
                end = time.monotonic() + harness.DEADLINE
                got = None
                while not isinstance(got, int):
                    c = Client(self.daemon.path) if c.gone else c
                    got = c.ask("LOCK", n, "WAIT", "5s")
                    if time.monotonic() > end:
                        raise Wrong("%s cannot be locked: %s" % (n, got))
                answers = [c.ask("UNLOCK", n)]
                while str(answers[-1]).startswith("UNAVAILABLE") and time.monotonic() < end:  # Redis is late
                    answers.append(c.ask("UNLOCK", n))
                if answers[-1] != 0 and not (len(answers) > 1 and str(answers[-1]).startswith("NOTHELD")):
                    raise Wrong("%s cannot be unlocked: %s" % (n, answers[-1]))
        finally:
            c.conn.close()
        try:
            harness.until(lambda: self.keys_now() <= self.keys, 4, 0.002)
        except AssertionError:
            raise Wrong("left in Redis: %s" % sorted(self.keys_now() - self.keys))

    def died(self):
        log = self.daemon.log()
        at = max(log.find("=="), 0) if "Sanitizer" in log else max(len(log) - 1500, 0)
        return "the daemon ended with %s\n%s" % (self.daemon.proc.returncode, log[at:at + 3000])

    def starved(self):
        """The daemon has ended for lack of memory: its log has that line and no other error. None, or the error."""
        log = self.daemon.log()
        lines = log.count("error memory exhausted bytes=")
        if self.daemon.proc.returncode != NO_MEMORY or lines != 1 or "Sanitizer" in log:
            return self.died()
        return None

    def again(self, held):
        """Starts the next process on the same state directory: a named owner still has its locks."""
        self.daemon.stop()
        self.daemon = self.rlockd()
        c = Client(self.daemon.path)
        try:
            token = lock_kept(c)
            if token != held:
                raise Wrong("kept was held by %s, and is now by %s" % (held, token))
            c.ask("UNLOCK", "kept", "OWNER", "keeper")
            c.ask("UNLOCK", "kept", "OWNER", "keeper")
        finally:
            c.conn.close()

    def hold(self):
        """Takes a lock before any fault; returns its token."""
        c = Client(self.daemon.path)
        try:
            return lock_kept(c)
        finally:
            c.conn.close()

    def starve(self, scene, held):
        """One run in which an allocation fails; the page is armed already."""
        st = Stage(self.daemon, self.redis)
        wrong = None
        try:
            scene(st)
        except (Wrong, harness.Closed, AssertionError, OSError) as e:
            wrong = "%s: %s" % (type(e).__name__, e)  # right where the daemon has ended
        injected = self.page.disarm()
        try:
            if injected:
                harness.within(lambda: not self.daemon.running(), 1, pause=0.002)
                wrong = "an allocation failed, and it goes on" if self.daemon.running() else wrong
            if not self.daemon.running():
                wrong = self.starved()
                st.close()
                self.again(held)
            elif wrong is None:
                for c in st.clients:
                    c.check()
                st.close()
                self.release()
            if wrong is None:
                self.settled(st.names | {"kept"})
        except (Wrong, harness.Closed, AssertionError, OSError) as e:
            wrong = "%s: %s" % (type(e).__name__, e)
        finally:
            st.close()
        return wrong, injected

    def release(self):
        c = Client(self.daemon.path)
        try:
            c.ask("UNLOCK", "kept", "OWNER", "keeper")
        finally:
            c.conn.close()

    def play(self, scene):
        """One run; None, or the error. The page is armed already."""
        st = Stage(self.daemon, self.redis)
        wrong = injected = None
        try:
            scene(st)
            injected = self.page.disarm()
            for c in st.clients:
                c.check()
            st.close()
            self.settled(st.names)
        except Wrong as e:
            wrong = str(e)
        except (harness.Closed, AssertionError, OSError) as e:
            wrong = "%s: %s" % (type(e).__name__, e)
        finally:
            injected = self.page.disarm() if injected is None else injected
            st.close()
        if not self.daemon.running():
            wrong = self.died()
        return wrong, injected

    def end(self):
        """TERM: the daemon drains, and ends with 0; a sanitizer reports at this point."""
        self.daemon.signal(signal.SIGTERM)
        status = self.daemon.wait()
        return None if status == 0 else self.died()


# ---- which calls ----

def picks(calls, seen, stride):
    """
    The first call of each caller that was not tried yet, and every stride-th call from the middle of one: the number of
    calls differs between runs, so the last ones may not come.
    """
    out = []
    for n, who in enumerate(calls, 1):
        if who[0] not in seen or n % stride == stride // 2:
            out.append(n)
        seen.add(who[0])
    return out or [1]


def one_loop(house, tally, title, scene, family, length, error, ns):
    began = time.monotonic()
    wrong, runs, total, n, clean = [], 0, 0, 0, 0
    binary = os.path.join(house.build, "rlockd")
    todo = list(ns) if ns is not None else None
    while len(wrong) < FAILURES_MAX and clean < 3:
        if todo is not None:
            if not todo:
                break
            n = todo.pop(0)
        else:
            n += 1
        house.up()
        held = house.hold() if family == "alloc" else None
        house.page.arm(family, n, length, error)
        what, injected = house.starve(scene, held) if family == "alloc" else house.play(scene)
        runs += 1
        total += injected
        clean = clean + 1 if injected == 0 and todo is None else 0
        if what:
            wrong.append("n = %d (%d failed): %s\n  at %s" % (n, injected, what, house.page.where(binary)))
            if house.daemon.running():
                house.daemon.kill()
    if house.daemon is not None and house.daemon.running():
        what = house.end()
        if what:
            wrong.append("afterwards: " + what)
    tally.loop(title, runs, total, n, wrong, began)


def learn(house, scene, family):
    """Good runs: the keys that always stay in Redis, and the callers."""
    house.up()
    for _ in range(3):
        held = house.hold() if family == "alloc" else None
        house.page.record(family)
        what, _ = house.starve(scene, held) if family == "alloc" else house.play(scene)
        if what:
            return None, what
    return house.page.recorded(family), None


def memory_of(tally, scene, build, short):
    house = House(build)
    try:
        calls, what = learn(house, scene, "alloc")
        if calls is None:
            tally.loop("memory, " + scene.__name__, 0, 0, 0, ["without any fault: " + what], time.monotonic())
            return
        seen = tally.met(calls)
        title = "memory, %s (%d new callers)" % (scene.__name__, len({c[0] for c in calls} - seen))
        if short and {c[0] for c in calls} <= seen:
            return  # other scenes try all of them; and a run of this one may need no such call
        ns = [2, *picks(calls, seen, 40)] if short else None  # a new connection calls it more than twice
        for mode, length in [("once", 1)] if short else [("once", 1), ("on and on", FOREVER)]:
            one_loop(house, tally, "%s, %s" % (title, mode), scene, "alloc", length, 0, ns)
        if short:
            one_loop(house, tally, title + ", on and on", scene, "alloc", FOREVER, 0, ns[::8])
    finally:
        house.close()


def calls_of(tally, scene, build, short):
    house = House(build)
    try:
        for family, errors in CALLS:
            calls, what = learn(house, scene, family)
            if calls is None:
                tally.loop("calls, %s" % scene.__name__, 0, 0, 0, ["without any fault: " + what], time.monotonic())
                break
            if not calls:
                continue
            for i, name in enumerate(errors):
                if short and (i + len(calls)) % len(errors) != 0:
                    continue
                ns = list(range(1, len(calls) + 1, max(1, len(calls) // 6))) if short else None
                # A writer relies on the edge that follows EAGAIN; of many in a row the last one would have none.
                lengths = [1] if short or (family, name) == ("write", "EAGAIN") else [1, 12]
                for mode, length in ((MODES[n], n) for n in lengths):
                    one_loop(house, tally, "%s, %s %s, %s" % (scene.__name__, family, name, mode), scene, family,
                             length, getattr(errno, name), ns)
    finally:
        house.close()


# ---- the start and the end of the process ----

def started(house, patience):
    """Runs the daemon until it serves, has ended, or the patience is over."""
    def serves_or_has_ended():
        if not house.daemon.running():
            return True
        try:
            with harness.Conn(house.daemon.path, 0.1) as c:
                c.cmd("PING")
                return True
        except (OSError, harness.Closed):
            return False
    harness.within(serves_or_has_ended, patience, pause=0.002)


def one_start(house, family, n, length, error):
    """One start with the fault; returns None, or the error, and how often the call failed."""
    house.page.arm(family, n, length, error)
    house.daemon = house.rlockd(wait=False)
    what = None
    try:
        started(house, 0.25)
        injected = house.page.disarm()
        if house.daemon.running():
            harness.until(house.daemon.ready)
            house.settled(["started"])
            what = house.end()
            if family == "alloc" and injected and not house.page.where(house.binary).startswith(WITHOUT):
                what = "an allocation failed, and it goes on"
        elif family == "alloc" and house.daemon.proc.returncode == NO_MEMORY:
            what = house.starved()
        elif house.daemon.proc.returncode != 1 or "Sanitizer" in house.daemon.log():
            what = house.died()
    except (Wrong, AssertionError, OSError, harness.Closed) as e:
        what = "%s: %s\n%s" % (type(e).__name__, e, house.daemon.log()[-800:])
        injected = house.page.disarm()
        if family == "alloc" and house.daemon.proc.poll() == NO_MEMORY:  # it failed a little later
            what = house.starved()
    finally:
        house.daemon.stop()
    return what, injected


def start_of(tally, build, short, family, name, length, redis=None):
    house = House(build, redis)
    try:
        house.page.record(family)
        what, _ = one_start_recorded(house)
        calls = house.page.recorded(family)
        title = "start, %s%s %s, %s" % ("embedded Redis, " if redis else "", family, name,
                                        MODES.get(length, "on and on"))
        began, wrong, total, runs = time.monotonic(), [what] if what else [], 0, 0
        if not calls and not what:
            return
        if family == "alloc":
            tally.met(calls)
        ns = picks(calls, set(), 60) if short else range(1, len(calls) + 1)
        for n in list(ns)[::10] if short and (length > 1 or redis) else ns:
            what, injected = one_start(house, family, n, length, getattr(errno, name))
            runs, total = runs + 1, total + injected
            if what:
                wrong.append("n = %d: %s\n  at %s" % (n, what, house.page.where(os.path.join(build, "rlockd"))))
                if len(wrong) >= FAILURES_MAX:
                    break
        tally.loop(title, runs, total, len(calls), wrong, began)
    finally:
        house.close()


def starts(tally, build, short):
    """One job for each way to fail."""
    plans = [("alloc", "ENOMEM", 1), ("alloc", "ENOMEM", FOREVER)]
    plans += [(f, e, length) for f, errors in START_CALLS for e in errors
              for length in (1, 12 if e in PASSING else FOREVER)]
    for i, (family, name, length) in enumerate(plans):
        if not short or family == "alloc" or i % 7 == 0:
            yield lambda plan=(family, name, length): start_of(tally, build, short, *plan)
    yield lambda: start_of(tally, build, short, "alloc", "ENOMEM", 1, "embedded")
    yield lambda: start_of(tally, build, short, "eventfd", "EMFILE", 1, "embedded")


def one_start_recorded(house):
    """A good start, until it serves and has its Redis."""
    house.daemon = house.rlockd()
    what = house.end()
    house.daemon.stop()
    return what, 0


def stop_of(tally, build, short, family, name, length):
    """
    TERM with a holder and a waiter, and a fault from the mark on. The daemon ends with 0 all the same, or for lack of
    memory.
    """
    house = House(build)
    try:
        began, wrong, total, n, clean, runs = time.monotonic(), [], 0, 0, 0, 0
        while clean < 2 and len(wrong) < FAILURES_MAX:
            n += 5 if short and length == FOREVER else 1
            house.up()
            what, injected = one_stop(house, family, n, length, getattr(errno, name))
            runs, total = runs + 1, total + injected
            clean = clean + 1 if not injected else 0
            if what:
                wrong.append("n = %d: %s\n  at %s" % (n, what, house.page.where(os.path.join(build, "rlockd"))))
        tally.loop("stop, %s %s, %s" % (family, name, MODES.get(length, "on and on")), runs, total, n, wrong, began)
    finally:
        house.close()


def one_stop(house, family, n, length, error):
    a, b = Client(house.daemon.path), Client(house.daemon.path)
    what = None
    try:
        a.ask("LOCK", "held")
        b.send("LOCK", "held", "WAIT", "3s")
        a.ask("LOCKS", "held")
        house.page.arm(family, n, length, error)
        house.daemon.signal(signal.SIGTERM)
        b.receive()
        a.ask("UNLOCK", "held")
        status = house.daemon.wait()
        if family == "alloc" and house.page.at.injected:
            what = house.starved()
        elif status != 0:
            what = house.died()
        elif house.redis.cmd("EXISTS", "held"):
            harness.until(lambda: not house.redis.cmd("EXISTS", "held"), 4)
    except Wrong as e:
        what = str(e)
    except (AssertionError, OSError) as e:
        what = "%s: %s" % (type(e).__name__, e)
    except Exception as e:  # subprocess.TimeoutExpired: it does not end
        what = "it does not end: %s\n%s" % (e, house.daemon.log()[-800:])
    finally:
        injected = house.page.disarm()
        for c in (a, b):
            c.conn.close()
        house.daemon.stop()
    return what, injected


# ---- configurations ----

RULES = """
listen: ["unix:/run/a.sock", "tcp:127.0.0.1:7000"]
redis: { url: "redis://me:word@db.example:6380/2", links: 3, batch: 9 }
locks: { lease: 7s, prefix: "p:" }
rules:
  - { match: "a*", kind: simple, key: "{name}:lock", value: base64-uuid, tracking: true }
  - { match: "b*", kind: semaphore, limit: 3, on_loss: close }
auth: { password: "sesame", admin_password: "open" }
"""
BROKEN = "locks: { lease: never, kind: nothing }\nrules: [{ limit: 0 }, 7]\nnothing: 1\nlisten: {}\n"


def conf_of(tally, build, short, title, path, text=None):
    """-T prints the configuration of the file completely, or refuses it. No part of it is lost."""
    house = House(build)
    try:
        path = path or os.path.join(house.dir, title + ".yaml")
        if text is not None:
            with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w") as f:
                f.write(text)
        words = [os.path.join(build, "rlockd"), "-T", "-c", path]
        env = dict(os.environ, **page_py.preload(house.page, build))

        def run():
            p = subprocess.run(words, capture_output=True, stdin=subprocess.DEVNULL, env=env,
                               preexec_fn=page_py.prepare, timeout=20, check=False)
            return p.returncode, p.stdout, p.stderr

        for length in (1, FOREVER):
            house.page.record("alloc")
            good = run()
            calls = house.page.recorded("alloc")
            tally.met(calls)
            began, wrong, total, n = time.monotonic(), [], 0, 0
            for n in picks(calls, set(), 9)[::4 if short else 1]:
                house.page.arm("alloc", n, length)
                status, out, err = run()
                failed = house.page.disarm()
                total += failed
                ends = failed and not house.page.where(words[0]).startswith(WITHOUT)
                if status != (NO_MEMORY if ends else good[0]) or b"Sanitizer" in err or out != good[1] * (not ends):
                    wrong.append("n = %d: status %d, %r\n  at %s"
                                 % (n, status, err[-300:] or out[:0], house.page.where(words[0])))
            tally.loop("conf, %s, %s" % (title, MODES.get(length, "on and on")), n, total, len(calls),
                       wrong[:FAILURES_MAX], began)
    finally:
        house.close()


# ---- a full table of files (hazard E5 of tests/README.md) ----

def files(tally, build):
    """
    As many clients as there are descriptors, and more: some are refused by an error, and clients are served again as
    soon as others have left.
    """
    began, wrong, refused = time.monotonic(), [], 0
    house = House(build)
    try:
        house.daemon = house.rlockd()
        resource.prlimit(house.daemon.pid, resource.RLIMIT_NOFILE, (64, 64))
        first = Client(house.daemon.path)
        held = first.ask("LOCK", "held")
        callers = [harness.Conn(house.daemon.path) for _ in range(100)]
        served = []
        for c in callers:
            c.sock.settimeout(0.3)
            try:
                served.append(c.cmd("PING"))
            except (harness.Closed, OSError):
                served.append(None)
        refused = sum(isinstance(r, harness.RError) or r is None for r in served)
        checks = [("the holder is not served", first.ask("LOCK", "held") == held),
                  ("some were served", served.count("PONG") > 20), ("some were refused", refused > 0),
                  ("the listener says that it pauses", "accepts no connections" in house.daemon.log())]
        house.redis.cmd("CLIENT", "KILL", "TYPE", "normal")  # a link that comes back finds a full table
        for c in callers:
            c.close()
        checks += [("no client is served afterwards", harness.within(house.daemon.serving))]
        first.ask("UNLOCK", "held"), first.ask("UNLOCK", "held")
        first.end()
        harness.until(house.daemon.ready)
        house.settled(["held"])
        wrong = [text for text, ok in checks if not ok]
        what = house.end()
        wrong += [what] if what else []
    except (Wrong, AssertionError, OSError, harness.Closed) as e:
        wrong.append("%s: %s" % (type(e).__name__, e))
    finally:
        house.close()
    tally.loop("files, 64 descriptors, 101 callers", 1, refused, 101, wrong, began)


def jobs(tally, what, scenes, build, short):
    """Each job has a house of its own."""
    if "start" in what:
        yield from starts(tally, PLAIN, short)
    if "memory" in what:
        for scene in scenes:
            yield lambda scene=scene: memory_of(tally, scene, build, short)
    if "stop" in what:
        for plan in (("alloc", "ENOMEM", 1), ("alloc", "ENOMEM", FOREVER), ("write", "EPIPE", 1),
                     ("write", "EINTR", 12)):
            yield lambda plan=plan: stop_of(tally, build, short, *plan)
    if "calls" in what:
        for scene in scenes:
            if scene.__name__ in CALL_SCENES:
                yield lambda scene=scene: calls_of(tally, scene, build, short)
    if "conf" in what:
        sample = os.path.join(page_py.TOP, "conf", "rlockd.yaml")
        for one in ((("sample", sample), ("rules", None, RULES), ("broken", None, BROKEN))):
            yield lambda one=one: conf_of(tally, PLAIN, short, *one)
    if "files" in what:
        yield lambda: files(tally, build)


def main():
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--short", action="store_true")
    args.add_argument("--asan", action="store_true")
    args.add_argument("--only", default="")
    args.add_argument("--what", default="start,memory,stop,calls,conf,files")
    args.add_argument("--report")
    args.add_argument("--build", help="another one than build/test or build/asan")
    a = args.parse_args()
    build = a.build or os.path.join(page_py.TOP, "build", "asan" if a.asan else "test")
    if a.asan:
        harness.SLOW, harness.DEADLINE = 4.0, 40.0
    scenes = [s for s in SCENES if not a.only or s.__name__ in a.only.split(",")]
    with open(a.report or os.devnull, "a") as report:
        tally = Tally(report)
        with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
            for job in [pool.submit(job) for job in jobs(tally, a.what.split(","), scenes, build, a.short)]:
                job.result()
        tally.say("faults: %d runs, %d faults, %d allocating lines, %d callers of them" % (
            tally.runs, tally.injected, len(tally.sites), len(tally.stacks)))
        tally.say("%d passed, %d failed" % (tally.passed, tally.failed))
    return 1 if tally.failed or not tally.passed else 0


if __name__ == "__main__":
    sys.exit(main())
