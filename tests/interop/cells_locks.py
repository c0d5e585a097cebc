"""cells_locks.py -- matrix 1: a lock library and rlockd on the same keys. A cell is one function of a Row.

A cell passes when it returns; its result stands beside `ok`. It fails by AssertionError or Refused, is skipped by Skip,
and is `-` for a library without that feature (NotThere). `It` is the library, `we` are rlockd and its clients.
"""
import signal
import statistics
import subprocess
import sys
import time

import cells_special
from cells_special import NotThere
from world import LEASE, PATIENCE, Refused, after, check, granted, harness, refused, until

HAND_OVERS, WARM_UP, TRIES = 25, 8, 3
SLACK = 1.5 * harness.SLOW  # seconds that may pass between the end of a TTL and a grant
POLL = 2.5 * harness.SLOW   # ... between an unlock without a message and a grant to a waiter that polls, or has a timer


class Row:
    """One library at work: its driver, and unused names."""

    def __init__(self, world, lib):
        self.w, self.lib, self._driver = world, lib, None

    @property
    def driver(self):
        if self._driver is None:
            self._driver = self.lib.start(self.w)
        return self._driver

    def drop_driver(self):
        if self._driver is not None:
            self._driver.stop()
            self._driver = None

    def fresh(self):
        """A new lock: (our name, its name, its key)."""
        ours, theirs, key = self.lib.names("n%d" % self.w.number())
        if self.lib.family == "semaphore":
            self.driver.ask("main", "setpermits", theirs, self.lib.limit)
        return ours, theirs, key

    def it_takes_all(self, theirs, lease=0):
        """The library takes all holds that the lock allows, by threads h0, h1 ..."""
        for i in range(self.lib.limit):
            check(self.driver.ask("h%d" % i, "lock", theirs, lease) is not None, "it did not get a free lock")

    def we_take_all(self, ours, daemon=None, *options):
        """We take all holds that the lock allows; returns their connections."""
        conns = [self.w.conn(daemon) for _ in range(self.lib.limit)]
        for c in conns:
            granted(c.cmd("LOCK", ours, "NOWAIT", *options))
        return conns

    def it_waits(self, theirs, *how):
        """Waits until it waits: until it is subscribed, where it subscribes."""
        p = self.driver.send("w", *how, "lock", theirs, 30000)
        if self.lib.notified:
            def subscribed():
                """its subscription"""
                return p.done() or self.subscribers(theirs) > 0
            until(subscribed, PATIENCE)
        time.sleep(0.03)  # it asks once more after it has subscribed, or polls; no event shows that
        check(not p.done(), "it was granted what we hold: %s", p.words)
        return p

    def subscribers(self, theirs):
        with self.w.redis.conn() as c:
            channels = c.cmd("PUBSUB", "CHANNELS", "*{%s}*" % theirs)
            counts = c.cmd("PUBSUB", "NUMSUB", *channels) if channels else []
        return sum(counts[1::2])


def it_holds(r):
    """It holds: we are refused, wait on both daemons, and get the lock one after the other when it unlocks."""
    ours, theirs, key = r.fresh()
    r.it_takes_all(theirs)
    for d in (r.w.a, r.w.b):
        check(r.w.ask(d, "LOCK", ours, "NOWAIT") is None, "we were granted what it holds")
    one, two = r.w.wait(r.w.a, "LOCK", ours, "WAIT", "60s"), r.w.wait(r.w.b, "LOCK", ours, "WAIT", "60s")
    r.w.waits(r.w.a, ours), r.w.waits(r.w.b, ours)
    check(not one.done() and not two.done(), "our wait ended while it holds")
    for i in range(r.lib.limit):
        r.driver.ask("h%d" % i, "unlock", theirs)

    def first():
        """one of our waiters is granted the lock"""
        return one.done() or two.done()
    until(first, PATIENCE)
    if r.lib.limit == 1:
        time.sleep(0.05)
        check(not (one.done() and two.done()), "both of our waiters were granted")
    winner, other = (one, two) if one.done() else (two, one)
    granted(winner.result())
    check(winner.conn.cmd("UNLOCK", ours) == 0, "our UNLOCK")
    granted(other.result())
    check(other.conn.cmd("UNLOCK", ours) == 0, "our UNLOCK")
    check(r.driver.ask("h0", "trylock", theirs, 2000, 5000) is not None, "it does not get it back")
    r.driver.ask("h0", "unlock", theirs)


def we_hold(r):
    """We hold: it is refused, waits, and gets the lock when we unlock."""
    ours, theirs, key = r.fresh()
    conns = r.we_take_all(ours)
    check(r.driver.ask("x", "trylock", theirs, 0, 5000) is None, "it was granted what we hold")
    p = r.it_waits(theirs)
    after(p.sent, 0.3)
    check(not p.done(), "its wait ended while we hold: %s", p.words)
    began = time.monotonic()
    for c in conns:
        check(c.cmd("UNLOCK", ours) == 0, "our UNLOCK")
    check(p.wait() is not None, "it was not granted")
    check(p.at - began < (1.0 * harness.SLOW if r.lib.notified else POLL), "it got it only after %.1f s", p.at - began)
    if r.lib.limit == 1:
        check(r.w.ask(r.w.b, "LOCK", ours, "NOWAIT") is None, "we were granted what it holds")
    r.driver.ask("w", "unlock", theirs)
    granted(r.w.ask(r.w.b, "LOCK", ours, "WAIT", "10s"))


def _between(value, least, most, what):
    check(value is not None and least <= int(value) <= most, "%s is %s, not %d..%d", what, value, least, most)


def counts(r):
    """Hold counts and the time left, of each side, as the other side sees them."""
    if r.lib.family in ("semaphore", "spring"):
        raise NotThere
    ours, theirs, key = r.fresh()
    times = 2 if r.lib.reentrant else 1
    for _ in range(times):
        r.driver.ask("h0", "lock", theirs, 20000)
    for d in (r.w.a, r.w.b):
        shown = r.w.info(ours, d)
        if r.lib.port == "redis":
            check(shown.get("foreign") == 1, "LOCKINFO does not show a foreign holder: %s", shown)
        if r.lib.reentrant and not r.lib.family.startswith("rw"):
            seen = shown.get("redis_holds")
            check(seen == times, "LOCKINFO shows redis_holds %s, not %d", seen, times)
        # Redisson's write lock adds the lease to the time left when it is locked again.
        _between(shown.get("redis_pttl_ms"), 15000, 40000 if r.lib.family == "rw" else 20000, "LOCKINFO redis_pttl_ms")
    for i in range(times):
        check(r.w.ask(r.w.a, "LOCK", ours, "NOWAIT") is None, "granted to us after %d of its %d unlocks", i, times)
        r.driver.ask("h0", "unlock", theirs)
    mine = r.w.conn()
    for _ in range(times):
        granted(mine.cmd("LOCK", ours, "WAIT", "10s", "LEASE", "20s"))
    _it_sees(r, theirs, 1)
    for i in range(times, 0, -1):
        check(mine.cmd("UNLOCK", ours) == i - 1, "our UNLOCK number %d", times - i + 1)
        _it_sees(r, theirs, 1 if i > 1 else 0)
    check(r.w.redis.cmd("EXISTS", key) == 0, "the key is left behind")


def _it_sees(r, theirs, locked):
    if "locked" in r.lib.verbs and r.lib.family != "rw-read":  # a read lock of Redisson's counts only readers as locked
        check(r.driver.ask("x", "locked", theirs) == str(locked), "it sees locked = %d", 1 - locked)
    elif r.lib.family != "rw-read":
        got = r.driver.ask("x", "trylock", theirs, 0, 5000)
        check((got is None) == (locked == 1), "it sees the lock as %s", "free" if locked else "taken")
        if got is not None:
            r.driver.ask("x", "unlock", theirs)
    if "ttl" in r.lib.verbs and locked:
        _between(r.driver.ask("x", "ttl", theirs), 15000, 20000, "remainTimeToLive")
        check(r.driver.ask("x", "holds", theirs) == "0", "it believes that it holds our lock")


def force(r):
    """Its forced unlock takes our lock away: its waiter gets the lock, our UNLOCK answers LOST and frees no lock."""
    if "force" not in r.lib.verbs:
        raise NotThere
    ours, theirs, key = r.fresh()
    # Redisson's read lock forces readers out; the waiter for that is a writer.
    shared, writer = (["SHARED"], ["as", "write"]) if r.lib.family == "rw-read" else ([], [])
    mine = r.we_take_all(ours, None, *shared)[0]
    p = r.it_waits(theirs, *writer)
    check(r.driver.ask("x", "force", theirs) == "1", "forceUnlock answered that it was not held")
    check(p.wait() is not None, "its waiter was not granted")
    refused(mine.cmd("UNLOCK", ours, *shared), "LOST|NOTHELD")
    check(r.w.ask(r.w.b, "LOCK", ours, "NOWAIT") is None, "our late UNLOCK freed its lock")
    r.driver.ask("w", *writer, "unlock", theirs)
    granted(mine.cmd("LOCK", ours, "WAIT", "10s"))


def break_(r):
    """BREAK takes its lock away: our waiter gets the lock, its unlock fails and frees no lock."""
    ours, theirs, key = r.fresh()
    r.it_takes_all(theirs)
    if r.lib.family == "python-redis-lock":  # 24 characters of base64 are no value that rlockd recognizes
        refused(r.w.ask(r.w.a, "BREAK", ours), "KIND")
        r.driver.ask("h0", "unlock", theirs)
        return "-KIND"
    waiter = r.w.wait(r.w.b, "LOCK", ours, "WAIT", "60s")
    r.w.waits(r.w.b, ours)
    check(r.w.ask(r.w.a, "BREAK", ours) == 1, "BREAK answered that there was no lock")
    granted(waiter.result())
    try:
        r.driver.ask("h0", "unlock", theirs)
        raise AssertionError("its unlock after BREAK went through")
    except Refused:
        pass
    if r.lib.limit == 1:
        check(r.w.ask(r.w.a, "LOCK", ours, "NOWAIT") is None, "its late unlock freed our lock")
    check(waiter.conn.cmd("UNLOCK", ours) == 0, "our UNLOCK")


def it_dies(r):
    """
    kill -9 of the library's process: we get the lock when its TTL has ended, and not before.

    With the drop-in it is a session like any other: its locks are free at once.
    """
    ours, theirs, key = r.fresh()
    front = r.lib.port == "rlockd"
    began = time.monotonic()
    r.it_takes_all(theirs, 30000 if front else LEASE)
    took = time.monotonic()
    waiter = r.w.wait(r.w.b, "LOCK", ours, "WAIT", "60s")
    r.w.waits(r.w.b, ours)
    r.driver.kill()
    r.drop_driver()
    killed = time.monotonic()
    granted(waiter.result())
    if front:
        check(waiter.at - killed < 3 * harness.SLOW, "freed only %.1f s after its end", waiter.at - killed)
        return "%.0f ms" % ((waiter.at - killed) * 1000)
    check(waiter.at >= began + LEASE / 1000 - 0.1, "granted before its TTL ended, after %.1f s", waiter.at - began)
    check(waiter.at < took + LEASE / 1000 + SLACK, "granted only %.1f s after it locked", waiter.at - took)


def rlockd_dies(r):
    """kill -9 of the daemon with our lock: the TTL frees the lock, and the library gets it."""
    ours, theirs, key = r.fresh()
    third = r.w.daemon("c", "locks: { lease: %dms }\n" % LEASE)
    r.we_take_all(ours, third)
    p = r.it_waits(theirs)
    third.kill()
    killed = time.monotonic()
    if r.lib.sleeps_on:
        return woken_by_hand(r, theirs, key, p)
    check(p.wait() is not None, "it was not granted")
    most = LEASE / 1000 + (SLACK if r.lib.notified else POLL)
    check(p.at < killed + most, "granted only %.1f s after the kill", p.at - killed)
    r.driver.ask("w", "unlock", theirs)


def woken_by_hand(r, theirs, key, p):
    """The TTL frees the key; the library's waiter would sleep on, so it receives the message of an unlock."""
    until(lambda: r.w.redis.cmd("EXISTS", key) == 0, LEASE / 1000 + SLACK)
    with r.w.redis.conn() as c:
        for channel in c.cmd("PUBSUB", "CHANNELS", "*{%s}*" % theirs):
            c.cmd("PUBLISH", channel, "0")
        if r.lib.family == "python-redis-lock":
            c.cmd("LPUSH", "lock-signal:" + theirs, "1")
    check(p.wait() is not None, "it was not granted")
    r.driver.ask("w", "unlock", theirs)
    return "(woken by hand)"


HOLDER = """import socket, sys, time
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(b"LOCK %s NOWAIT\\n" % sys.argv[2].encode())
print(s.recv(100).decode().strip(), flush=True)
time.sleep(600)
"""


def client_dies(r):
    """kill -9 of a client of ours: its lock is free at once, and the library gets it."""
    ours, theirs, key = r.fresh()
    processes = []
    try:
        for _ in range(r.lib.limit):
            p = subprocess.Popen([sys.executable, "-c", HOLDER, r.w.a.path, ours], stdout=subprocess.PIPE,
                                 preexec_fn=harness.die_with_us)
            processes.append(p)
            check(p.stdout.readline().startswith(b":"), "our client was not granted")
        waiting = r.it_waits(theirs)
        began = time.monotonic()
        for p in processes:
            p.send_signal(signal.SIGKILL)
        check(waiting.wait() is not None, "it was not granted")
        took = waiting.at - began
        check(took < (1.0 * harness.SLOW if r.lib.notified else POLL), "freed only after %.1f s", took)
        r.driver.ask("w", "unlock", theirs)
        return "%.0f ms" % (took * 1000)
    finally:
        for p in processes:
            p.kill()
            p.wait()
            p.stdout.close()


def median_within(measure, bound_ms):
    """
    At most bound_ms more than the library needs by itself, by the medians of one run. A miss is measured again: a busy
    machine only adds time.
    """
    for _ in range(TRIES):
        took, alone = (statistics.median(times) * 1000 for times in measure())
        if took <= alone + bound_ms:
            return "%.1f ms" % took
    raise AssertionError("median %.1f ms, %d times; alone %.1f, bound %.1f ms more" % (took, TRIES, alone, bound_ms))


def timed_ask(r, *words):
    """The seconds that its driver took for the answer."""
    p = r.driver.send(*words)
    check(p.wait() is not None, "%s failed", words)
    return p.at - p.sent


def wake_us(r):
    """
    From its unlock (the moment of its driver's request) to our grant: 5 ms and the time of its own unlock (medians).
    """
    return median_within(lambda: _wake_us(r), 5 * harness.SLOW)


def _wake_us(r):
    took, alone = [], []
    for i in range(HAND_OVERS + WARM_UP):
        ours, theirs, key = r.fresh()
        r.it_takes_all(theirs)
        waiter = r.w.wait(r.w.b, "LOCK", ours, "WAIT", "60s")
        r.w.waits(r.w.b, ours)
        time.sleep(0.01)  # our watch of the name is confirmed and Redis was asked again
        p = r.driver.send("h0", "unlock", theirs)
        granted(waiter.result())
        p.wait()
        check(waiter.at - p.sent < 3 * harness.SLOW, "no wake-up: granted only after %.1f s", waiter.at - p.sent)
        check(waiter.conn.cmd("UNLOCK", ours) == 0, "our UNLOCK")
        for h in range(1, r.lib.limit):
            r.driver.ask("h%d" % h, "unlock", theirs)
        r.driver.ask("h0", "lock", theirs, 0)
        own = timed_ask(r, "h0", "unlock", theirs)
        if i >= WARM_UP:
            took.append(waiter.at - p.sent)
            alone.append(own)
        waiter.conn.close()
    return took, alone


def wake_it(r):
    """
    From our UNLOCK to its grant: 5 ms and the time in which its own unlock wakes it; a library that polls has its poll.
    """
    return median_within(lambda: _wake_it(r), 5 * harness.SLOW if r.lib.notified else POLL * 1000)


def _it_wakes_itself(r):
    """From its own unlock to its grant, in seconds, without rlockd; a library that polls takes its poll."""
    ours, theirs, key = r.fresh()
    if not r.lib.notified:
        return 0
    if r.lib.family == "rw-read":  # its readers do not wait for each other
        return timed_ask(r, "w", "lock", theirs, 0)
    r.it_takes_all(theirs)
    p = r.it_waits(theirs)
    unlocking = r.driver.send("h0", "unlock", theirs)
    check(p.wait() is not None, "it was not granted what it gave back itself")
    unlocking.wait()
    r.driver.ask("w", "unlock", theirs)
    for h in range(1, r.lib.limit):
        r.driver.ask("h%d" % h, "unlock", theirs)
    return p.at - unlocking.sent


def _wake_it(r):
    took, alone = [], []
    mine = [r.w.conn() for _ in range(r.lib.limit)]
    warm_up = WARM_UP if r.lib.notified else 0
    for i in range(warm_up + (HAND_OVERS if r.lib.notified else 5)):
        ours, theirs, key = r.fresh()
        for c in mine:
            granted(c.cmd("LOCK", ours))
        p = r.it_waits(theirs)
        began = time.monotonic()
        check(mine[0].cmd("UNLOCK", ours) == 0, "our UNLOCK")
        check(p.wait() is not None, "it was not granted")
        r.driver.ask("w", "unlock", theirs)
        for c in mine[1:]:
            c.cmd("UNLOCK", ours)
        own = _it_wakes_itself(r)
        if i >= warm_up:
            took.append(p.at - began)
            alone.append(own)
    return took, alone


def foreign_kind(r):
    """A key of another kind under the name: -KIND at once, the key stays, and there is no error when it is gone."""
    if r.lib.port == "rlockd":
        raise NotThere
    ours, theirs, key = r.lib.names("n%d" % r.w.number())
    with r.w.redis.conn() as c:
        if r.lib.family in ("hash", "fair", "fenced"):
            c.cmd("SET", key, "somebody", "PX", 1500)
        else:  # an RLock, to a semaphore, a string, and a ReadWriteLock (which has a mode)
            c.cmd("HSET", key, "5d1c8c2e-0000-4000-8000-000000000001:1", 1)
            c.cmd("PEXPIRE", key, 1500)
        kind = c.cmd("TYPE", key)
        for d in (r.w.a, r.w.b):
            refused(r.w.ask(d, "LOCK", ours, "NOWAIT"), "KIND ")
            refused(r.w.ask(d, "LOCK", ours, "WAIT", "10s"), "KIND ")
        check(c.cmd("TYPE", key) == kind, "the foreign key was touched")
        granted_after = until(lambda: c.cmd("EXISTS", key) == 0, 4)
        check(granted_after, "the foreign key stays")
    granted(r.w.ask(r.w.a, "LOCK", ours, "WAIT", "10s"))


def it_has_moved(r):
    """Waits until its writes arrive at the new master."""
    _, theirs, key = r.lib.names("n%d" % r.w.number())

    def arrived():
        """it writes at the new master"""
        try:
            if r.lib.family == "semaphore":
                r.driver.ask("x", "setpermits", theirs, 1)
            else:
                r.driver.ask("x", "trylock", theirs, 0, 600000)
        except Refused:  # the former master refuses all writes
            pass
        return r.w.redis.cmd("EXISTS", key)
    until(arrived, 2 * PATIENCE)


def switched(r):
    """
    A planned switch of the master while it holds one lock and we hold another: both stay held, and are given back
    there.
    """
    (its, its_theirs, _), (ours, ours_theirs, _) = r.fresh(), r.fresh()
    r.it_takes_all(its_theirs)
    conns = r.we_take_all(ours)
    r.w.switch()
    it_has_moved(r)
    waiter = r.w.wait(r.w.b, "LOCK", its, "WAIT", "60s")
    r.w.waits(r.w.b, its)
    check(not waiter.done(), "we were granted what it holds: %r", waiter.reply)
    for i in range(r.lib.limit):
        r.driver.ask("h%d" % i, "unlock", its_theirs)
    granted(waiter.result(60))
    check(waiter.conn.cmd("UNLOCK", its) == 0, "our UNLOCK")
    check(r.driver.ask("x", "trylock", ours_theirs, 0, 5000) is None, "it was granted what we hold")
    p = r.it_waits(ours_theirs)
    for c in conns:
        check(c.cmd("UNLOCK", ours) == 0, "our UNLOCK")
    check(p.wait() is not None, "it was not granted")
    r.driver.ask("w", "unlock", ours_theirs)


# With sentinels. (The time of a hand-off is measured without them.)
WATCHED = [("it holds", it_holds), ("we hold", we_hold), ("counts+ttl", counts), ("force", force), ("BREAK", break_),
           ("it dies", it_dies), ("rlockd dies", rlockd_dies), ("client dies", client_dies), ("switched", switched)]

COLUMNS = [("it holds", it_holds), ("we hold", we_hold), ("counts+ttl", counts), ("force", force), ("BREAK", break_),
           ("it dies", it_dies), ("rlockd dies", rlockd_dies), ("client dies", client_dies), ("wakes us", wake_us),
           ("wakes it", wake_it), ("-KIND", foreign_kind), ("special", cells_special.special)]
