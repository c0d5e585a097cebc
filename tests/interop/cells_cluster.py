"""cells_cluster.py -- the matrix over a Redis Cluster: Redisson in cluster mode, and rlockd with the same nodes.

Cells are as in cells_locks.py. Waiters are subscribed by SSUBSCRIBE at the node that has the slot, on both sides.
"""
import time

from cells_locks import Row, it_holds, we_hold  # noqa: F401
from world import PATIENCE, check, granted, harness, until

SOON = 2 * harness.SLOW  # seconds from an unlock to a grant: without a message it takes longer


def _same_master(r):
    """Two new locks whose slots one master has."""
    first, second = r.fresh(), r.fresh()
    while r.w.owner(first[2]).id != r.w.owner(second[2]).id:
        second = r.fresh()
    return first, second


def _granting_again(r, key):
    """Both daemons grant in the slot again, and then there is a subscription to the lock's channel."""
    for d in (r.w.a, r.w.b):
        def grants():
            """the daemon grants another name of the slot"""
            return isinstance(r.w.ask(d, "LOCK", "probe-%d{%s}" % (r.w.number(), key), "WAIT", "1s"), int)
        until(grants, 2 * PATIENCE)
    _listened(r, key)


def _listened(r, theirs):
    def subscribed():
        """a subscription to the channel of the lock at a node of the cluster"""
        return r.subscribers(theirs) > 0
    until(subscribed, PATIENCE)


def _while_both_wait(r, change, keeps_listening):
    """
    The library holds one lock and rlockd another, and each waits for the lock of the other; then `change` is done to
    their slots. Holders keep their locks, and waiters are granted them after the unlock. keeps_listening: Redisson is
    subscribed after the change.
    """
    (its, its_theirs, its_key), (ours, ours_theirs, our_key) = _same_master(r)
    r.it_takes_all(its_theirs)
    # Redisson asks again when the lease that it knows ends: not in the middle of a failover, where it may throw.
    conns = r.we_take_all(ours, None, *(("LEASE", "60s") if keeps_listening else ()))
    waiter = r.w.wait(r.w.b, "LOCK", its, "WAIT", "60s")
    r.w.waits(r.w.b, its)
    p = r.it_waits(ours_theirs)
    change(its_key, our_key)
    check(not waiter.done(), "we were granted what it holds: %r", waiter.reply)
    check(not p.done(), "it was granted what we hold: %s", p.words)
    check(r.driver.ask("x", "trylock", ours_theirs, 0, 5000) is None, "it was granted what we hold")
    check(not isinstance(r.w.ask(r.w.a, "LOCK", its, "NOWAIT"), int), "we were granted what it holds")
    _granting_again(r, its_key)
    began = time.monotonic()
    for i in range(r.lib.limit):
        r.driver.ask("h%d" % i, "unlock", its_theirs)
    granted(waiter.result(60))
    check(waiter.at - began < SOON, "granted to us only after %.1f s", waiter.at - began)
    check(waiter.conn.cmd("UNLOCK", its) == 0, "our UNLOCK")
    if keeps_listening:
        _listened(r, ours_theirs)
    began = time.monotonic()
    for c in conns:
        freed = c.cmd("UNLOCK", ours)
        check(freed == 0, "our UNLOCK: %r", freed)
    check(p.wait(60) is not None, "it was not granted")
    check(p.at - began < (SOON if keeps_listening else PATIENCE), "granted to it only after %.1f s", p.at - began)
    r.driver.ask("w", "unlock", ours_theirs)
    return "" if keeps_listening else "%.1f s" % (p.at - began)


def moved(r):
    """The slots of both locks move to other masters: the waiter at our daemon learns where they are now."""
    def move(*keys):
        for key in keys:
            r.w.move(key)
    return _while_both_wait(r, move, keeps_listening=False)


def failed_over(r):
    """A planned failover (CLUSTER FAILOVER) of the master of both locks."""
    return _while_both_wait(r, lambda key, _: r.w.fail_over(key), keeps_listening=True)


def wakes_us(r):
    """The library unlocks: a waiter of ours, which shares only the key with it, is woken at once."""
    ours, theirs, _ = r.fresh()
    r.it_takes_all(theirs)
    waiter = r.w.wait(r.w.a, "LOCK", ours, "WAIT", "60s")
    r.w.waits(r.w.a, ours)
    began = time.monotonic()
    for i in range(r.lib.limit):
        r.driver.ask("h%d" % i, "unlock", theirs)
    granted(waiter.result(60))
    check(waiter.at - began < SOON, "granted to us only after %.1f s", waiter.at - began)
    check(waiter.conn.cmd("UNLOCK", ours) == 0, "our UNLOCK")
    return "%.0f ms" % (1e3 * (waiter.at - began))


def wakes_it(r):
    """We unlock, at the master of the slot: the library is woken at once, at whichever node it is subscribed."""
    ours, theirs, _ = r.fresh()
    conns = r.we_take_all(ours, None, "LEASE", "60s")
    p = r.it_waits(theirs)
    began = time.monotonic()
    for c in conns:
        check(c.cmd("UNLOCK", ours) == 0, "our UNLOCK")
    check(p.wait(60) is not None, "it was not granted")
    check(p.at - began < SOON, "granted to it only after %.1f s", p.at - began)
    r.driver.ask("w", "unlock", theirs)
    return "%.0f ms" % (1e3 * (p.at - began))


COLUMNS = [("it holds", it_holds), ("we hold", we_hold), ("slot moved", moved), ("failover", failed_over)]
PLAIN = [("it holds", it_holds), ("we hold", we_hold), ("wakes us", wakes_us), ("wakes it", wakes_it)]
