"""cells_special.py -- features of one family of locks: the column `special` of matrix 1, one function per family."""
import time

from world import PATIENCE, Refused, Skip, check, granted, harness, is_supported, refused, until


class NotThere(Exception):
    """The library has no such feature."""


def exists(r, *keys):
    with r.w.redis.conn() as c:
        return [k for k in keys if c.cmd("EXISTS", k)]


def patient(r, sort, put):
    """A rule `foreign: wait` makes us wait for a key of another kind until it is gone."""
    if not is_supported('match: "x", foreign: wait'):
        raise Skip("this rlockd knows no `foreign: wait`")
    name = "patient/%s/n%d" % (sort, r.w.number())
    with r.w.redis.conn() as c:
        for words in put:
            c.cmd(*[name if w is None else w for w in words])
    began = time.monotonic()
    granted(r.w.ask(r.w.a, "LOCK", name, "WAIT", "10s"))
    took = time.monotonic() - began
    check(1.3 < took < 1.5 + 1.5 * harness.SLOW, "granted after %.1f s, the foreign key lived 1.5 s", took)


def rlock(r):
    patient(r, "rlock", [("SET", None, "somebody", "PX", 1500)])


def simple(r):
    """We see its extended lease; then the rule for foreign kinds."""
    ours, theirs, key = r.fresh()
    check(r.driver.ask("h0", "trylock", theirs, 0, 8000) is not None, "it was refused a free lock")
    r.driver.ask("h0", "extend", theirs, 20000)
    left = r.w.info(ours).get("redis_pttl_ms")
    least = 15000 if r.lib.prefix != "redsync" else 7000  # redsync extends by the lease of its creation
    check(left is not None and least < left <= 20000, "after its extend LOCKINFO shows %s ms", left)
    check(r.w.ask(r.w.a, "LOCK", ours, "NOWAIT") is None, "granted to us while it holds")
    r.driver.ask("h0", "unlock", theirs)
    patient(r, "simple", [("HSET", None, "f", "1"), ("PEXPIRE", None, 1500)])


def fair(r):
    """First come, first served over the library and both daemons; a dead head gives way; no key is left."""
    ours, theirs, key = r.fresh()
    queue = ["redisson_lock_queue:{%s}" % key, "redisson_lock_timeout:{%s}" % key]
    mine = r.we_take_all(ours)[0]
    waiters = []
    for i, kind in enumerate(["a", "it", "b", "it", "a", "b", "it"]):
        if kind == "it":
            waiters.append(r.driver.send("w%d" % i, "lock", theirs, 30000))
        else:
            waiters.append(r.w.wait(getattr(r.w, kind), "LOCK", ours, "WAIT", "60s"))

        def queued():
            """a place in Redis's queue"""
            return r.w.redis.cmd("LLEN", queue[0]) == i + 1
        until(queued, PATIENCE)
    mine.cmd("UNLOCK", ours)
    for i, p in enumerate(waiters):
        until(p.done, 5)
        time.sleep(0.01)
        check(not any(q.done() for q in waiters[i + 1:]), "number %d of 7 was not granted in its turn", i + 1)
        if hasattr(p, "words"):
            check(p.wait() is not None, "it was not granted")
            r.driver.ask("w%d" % i, "unlock", theirs)
        else:
            granted(p.result())
            p.conn.cmd("UNLOCK", ours)
    until(lambda: not exists(r, key, *queue), 5)
    _dead_head(r, ours, theirs, queue)
    return _killed(r)


def _killed(r):
    """Waiters that are killed, before and behind ours: each costs its own wait, in any position."""
    ours, theirs, key = r.fresh()
    victim = r.lib.start(r.w)
    for driver in (r.driver, victim):  # both have started when the time of the first waiter begins
        driver.ask("main", "version")
    waits = [4000, None, None, None, 3000, 3000, None, None, 4000, None]  # ms, of the killed waiter
    kinds = ["victim", "a", "it", "b", "victim", "victim", "a", "b", "victim", "it"]
    holder, queue = r.we_take_all(ours)[0], []
    for i, (kind, wait) in enumerate(zip(kinds, waits)):
        if kind == "victim":
            queue.append(victim.send("v%d" % i, "trylock", theirs, wait, 30000))
        elif kind == "it":
            queue.append(r.driver.send("w%d" % i, "lock", theirs, 30000))
        else:
            queue.append(r.w.wait(getattr(r.w, kind), "LOCK", ours, "WAIT", "5m"))
        until(lambda: r.w.redis.cmd("LLEN", "redisson_lock_queue:{%s}" % key) == i + 1, 5)
    victim.kill()
    holder.cmd("UNLOCK", ours)
    free, dead, most = time.monotonic(), 0, 0
    for i, (kind, wait) in enumerate(zip(kinds, waits)):
        if kind == "victim":
            dead += wait / 1000
            continue
        most = max(most, _next_of_them(r, ours, theirs, i, queue[i], free, dead))
        free, dead = time.monotonic(), 0
    return "%.1f s" % most


def _next_of_them(r, ours, theirs, i, waiter, free, dead):
    """
    The waiter is granted the lock not much later than `dead` s after it was free, and gives it back; returns the delay.
    """
    if hasattr(waiter, "words"):
        check(waiter.wait(60 * harness.SLOW) is not None, "number %d was not granted", i + 1)
    else:
        granted(waiter.result(60 * harness.SLOW))
    late = waiter.at - free - dead
    check(late < 1 * harness.SLOW, "number %d came %.1f s later than after what the killed had for waiting", i + 1,
          late)
    if hasattr(waiter, "words"):
        r.driver.ask("w%d" % i, "unlock", theirs)
    else:
        waiter.conn.cmd("UNLOCK", ours)
    return late


def _dead_head(r, ours, theirs, queue):
    mine = r.w.conn()
    granted(mine.cmd("LOCK", ours, "NOWAIT", "LEASE", "3s"))
    r.driver.send("w", "trylock", theirs, 1500, 30000)
    until(lambda: r.w.redis.cmd("LLEN", queue[0]) == 1, 5)
    waiter = r.w.wait(r.w.b, "LOCK", ours, "WAIT", "60s")
    until(lambda: r.w.redis.cmd("LLEN", queue[0]) == 2, 5)
    r.driver.kill()
    r.drop_driver()
    began = time.monotonic()
    mine.cmd("UNLOCK", ours)
    granted(waiter.result())
    # Its place lasts until its own deadline: the rest of our 3 s, and its 1.5 s.
    check(waiter.at - began < 4.5 + 1.5 * harness.SLOW, "behind a dead head for %.1f s", waiter.at - began)
    waiter.conn.cmd("UNLOCK", ours)
    until(lambda: not exists(r, *queue), 5)


def rw(r):
    """
    Write to read: readers of the other side come in at once. Read to write: -DEADLOCK, and not a wait for oneself.
    """
    ours, theirs, key = r.fresh()
    mine = r.w.conn()
    granted(mine.cmd("LOCK", ours, "NOWAIT"))
    granted(mine.cmd("LOCK", ours, "SHARED", "NOWAIT"))
    reader = r.driver.send("w", "as", "read", "lock", theirs, 30000)
    until(lambda: r.subscribers(theirs) > 0, 5)
    time.sleep(0.03)
    check(not reader.done(), "its reader came in while we write")
    began = time.monotonic()
    mine.cmd("UNLOCK", ours)
    check(reader.wait() is not None, "its reader was not granted")
    check(reader.at - began < 1.0 * harness.SLOW, "its reader came in %.1f s after our downgrade", reader.at - began)
    r.driver.ask("w", "as", "read", "unlock", theirs)
    refused(mine.cmd("LOCK", ours, "WAIT", "10s"), "DEADLOCK")
    mine.cmd("UNLOCK", ours, "SHARED")
    # and the other way round
    r.driver.ask("h0", "lock", theirs, 30000)
    r.driver.ask("h0", "as", "read", "lock", theirs, 30000)
    waiter = r.w.wait(r.w.b, "LOCK", ours, "SHARED", "WAIT", "60s")
    r.w.waits(r.w.b, ours)
    r.driver.ask("h0", "unlock", theirs)  # Redisson publishes no message here: our timer finds it
    granted(waiter.result())
    waiter.conn.cmd("UNLOCK", ours, "SHARED")
    r.driver.ask("h0", "as", "read", "unlock", theirs)
    until(lambda: not exists(r, key), 5)


def rw_read(r):
    """Readers of both sides together, no writer among them, and no key of either side left."""
    ours, theirs, key = r.fresh()
    r.driver.ask("h0", "lock", theirs, 30000)
    mine, other = r.w.conn(r.w.a), r.w.conn(r.w.b)
    granted(mine.cmd("LOCK", ours, "SHARED", "NOWAIT"))
    granted(other.cmd("LOCK", ours, "SHARED", "NOWAIT"))
    check(r.driver.ask("x", "trylock", theirs, 0, 30000) is not None, "its second reader was refused")
    check(r.w.ask(r.w.a, "LOCK", ours, "NOWAIT") is None, "our writer came in")
    check(r.driver.ask("y", "as", "write", "trylock", theirs, 0, 30000) is None, "its writer came in")
    check(r.w.redis.cmd("HGET", key, "mode") == "read", "mode is %s", r.w.redis.cmd("HGET", key, "mode"))
    r.driver.ask("h0", "unlock", theirs)
    r.driver.ask("x", "unlock", theirs)
    check(r.driver.ask("y", "as", "write", "trylock", theirs, 0, 30000) is None, "its writer came in while we read")
    mine.cmd("UNLOCK", ours, "SHARED")
    other.cmd("UNLOCK", ours, "SHARED")
    until(lambda: r.w.redis.cmd("KEYS", "*%s*" % theirs) == [], 5)


def semaphore(r):
    """Permits of both sides are one number, which it sees; it can use a semaphore that we have created."""
    ours, theirs, key = r.fresh()
    mine = r.w.conn()
    r.driver.ask("h0", "lock", theirs, 30000)
    granted(mine.cmd("LOCK", ours, "NOWAIT"))
    check(r.driver.ask("x", "available", theirs) == "0", "it sees permits left")
    check(r.driver.ask("x", "trylock", theirs, 0, 30000) is None, "a third was granted to it")
    check(r.w.ask(r.w.b, "LOCK", ours, "NOWAIT") is None, "a third was granted to us")
    mine.cmd("UNLOCK", ours)
    check(r.driver.ask("x", "available", theirs) == "1", "our UNLOCK gave none back")
    r.driver.ask("h0", "unlock", theirs)
    check(r.driver.ask("x", "available", theirs) == "2", "permits were lost")
    check(not exists(r, "{%s}:timeout" % key), "a permit's expiry is left")
    ours = theirs = "%s/made-n%d" % (r.lib.prefix, r.w.number())
    granted(mine.cmd("LOCK", ours, "NOWAIT"))
    check(r.driver.ask("h0", "trylock", theirs, 0, 30000) is not None, "it was refused the second of two permits")
    check(r.w.ask(r.w.b, "LOCK", ours, "NOWAIT") is None, "a third was granted to us")
    mine.cmd("UNLOCK", ours)
    r.driver.ask("h0", "unlock", theirs)


def fenced(r):
    """Tokens rise in one sequence over the grants of both sides."""
    ours, theirs, key = r.fresh()
    tokens = []
    for who in ["it", "a", "it", "b", "a", "it", "it", "b", "a", "it"]:
        if who == "it":
            tokens.append(int(r.driver.ask("h0", "lock", theirs, 30000)))
            r.driver.ask("h0", "unlock", theirs)
        else:
            with getattr(r.w, who).conn() as c:
                tokens.append(granted(c.cmd("LOCK", ours, "WAIT", "10s")))
                c.cmd("UNLOCK", ours)
    check(all(x < y for x, y in zip(tokens, tokens[1:])), "tokens do not rise: %s", tokens)


def spring(r):
    """Its registry renews a lock when it is locked again; we see the lock held."""
    ours, theirs, key = r.fresh()
    r.driver.ask("h0", "lock", theirs, 0)
    left = r.w.info(ours).get("redis_pttl_ms")
    check(left is not None and 0 < left <= 2000, "LOCKINFO shows %s ms", left)
    r.driver.ask("h0", "unlock", theirs)


def wakes(r):
    """Our UNLOCK and BREAK wake its waiter, which would sleep on else: the rule names the library of the waiters."""
    took = []
    for verb in ("UNLOCK", "BREAK", "UNLOCK", "UNLOCK", "BREAK"):
        ours, theirs, key = r.fresh()
        mine = r.we_take_all(ours)[0]
        p = r.driver.send("w", "lock", theirs, 0)
        time.sleep(0.3)  # no event shows that it sleeps
        check(not p.done(), "it was granted what we hold: %s", p.words)
        began = time.monotonic()
        mine.cmd(verb, ours)
        check(p.wait() is not None, "it was not granted")
        took.append(p.at - began)
        r.driver.ask("w", "unlock", theirs)
    check(max(took) < 0.5 * harness.SLOW, "its waiter woke after %.2f s", max(took))
    return "%.1f ms" % (sorted(took)[len(took) // 2] * 1000)


def python_redis_lock(r):
    """As simple(); and we wake its waiters."""
    simple(r)
    return wakes(r)


def spring_pubsub(r):
    spring(r)
    return wakes(r)


def front(r):
    """Additions of the drop-in: LOCKS shows our token and owner; commands for other data are refused."""
    ours, theirs, key = r.fresh()
    check(r.driver.ask("h0", "trylock", theirs, 0, 20000) is not None, "it was refused a free lock")
    shown = r.w.info(ours)
    check(shown.get("state") == "held" and shown.get("token", 0) > 0, "LOCKINFO: %s", shown)
    r.driver.ask("h0", "extend", theirs, 30000)
    left = r.w.info(ours).get("redis_pttl_ms")
    check(left is not None and 20000 < left <= 30000, "after its extend LOCKINFO shows %s ms", left)
    if "owned" in r.lib.verbs:
        check(r.driver.ask("h0", "owned", theirs) == "1", "it believes that it does not hold its lock")
        check(r.driver.ask("h0", "reacquire", theirs) == "1", "reacquire failed")
        check(r.driver.ask("h0", "locked", theirs) == "1", "it believes that its lock is free")
    with r.w.a.tcp_conn() as c:
        check(c.cmd("GET", key) is not None, "GET does not show the holder's value")
        for words in (("SET", key + "x", "v"), ("INCR", key + "x"), ("EVAL", "return 1", "0"), ("EXPIRE", key, "1"),
                      ("EVALSHA", "0" * 40, "0")):
            reply = c.cmd(*words)
            check(isinstance(reply, harness.RError), "%s was not refused: %r", words[0], reply)
    r.driver.ask("h0", "unlock", theirs)
    check(r.w.redis.cmd("EXISTS", key) == 0, "the key is left behind")
    try:
        r.driver.ask("h0", "unlock", theirs)
        raise AssertionError("its second unlock went through")
    except Refused:
        pass


FAMILIES = {"hash": rlock, "fair": fair, "rw": rw, "rw-read": rw_read, "semaphore": semaphore, "fenced": fenced,
            "simple": simple, "spring": spring, "front": front, "python-redis-lock": python_redis_lock}


def special(r):
    if r.lib.prefix == "spring-ps":
        return spring_pubsub(r)
    return FAMILIES[r.lib.family](r)
