"""cells_quorum.py -- matrix over three masters: a library that asks a majority, and rlockd with the same three as a
quorum.

Cells are as in cells_locks.py. Those after the exclusion examine what the library does where nodes disagree, and the
effect on rlockd; their observations stand beside `ok`.
"""
import threading
import time

from cells_locks import Row as OneRow
from cells_special import NotThere
from quorums import CLOCKS
from world import PATIENCE, Refused, check, granted, refused, until

ROUNDS = 20
LONG = 8 * PATIENCE  # Redisson asks one node after the other, and each of them several times


class Row(OneRow):
    def where(self, key):
        """The key at each node: its type, and its TTL in ms."""
        return list(zip(self.w.redis.cmd("TYPE", key), self.w.redis.cmd("PTTL", key)))

    def has(self, key):
        return [there == 1 for there in self.w.redis.cmd("EXISTS", key)]

    def everywhere(self, key, there):
        until(lambda: self.has(key) == [there] * 3, PATIENCE)

    def it_extends(self, theirs, key):
        """Its lock is extended, by its watchdog where it has one."""
        if "extend" in self.lib.verbs:
            self.driver.ask("h0", "extend", theirs, 9000)
            return

        def left():
            return max(ms for _, ms in self.where(key))
        until(lambda: left() < 25000, 2 * PATIENCE)
        until(lambda: left() > 26000, 2 * PATIENCE)

    def it_takes_and_extends(self, theirs):
        self.it_takes_all(theirs, 9000 if "extend" in self.lib.verbs else 0)


def it_holds(r):
    """It holds: both daemons are refused, wait, and get the lock one after the other when it unlocks."""
    ours, theirs, key = r.fresh()
    r.it_takes_all(theirs, 30000)
    for d in (r.w.a, r.w.b):
        check(r.w.ask(d, "LOCK", ours, "NOWAIT") is None, "we were granted what it holds")
    one, two = r.w.wait(r.w.a, "LOCK", ours, "WAIT", "60s"), r.w.wait(r.w.b, "LOCK", ours, "WAIT", "60s")
    r.w.waits(r.w.a, ours), r.w.waits(r.w.b, ours)
    check(not one.done() and not two.done(), "our wait ended while it holds")
    r.driver.ask("h0", "unlock", theirs)
    until(lambda: one.done() or two.done(), PATIENCE)
    winner, other = (one, two) if one.done() else (two, one)
    token = granted(winner.result())
    check(not other.done(), "both of our waiters were granted")
    check(winner.conn.cmd("UNLOCK", ours) == 0, "our UNLOCK")
    check(granted(other.result()) > token, "a token that is not larger")
    check(other.conn.cmd("UNLOCK", ours) == 0, "our UNLOCK")
    r.everywhere(key, False)


def we_hold(r):
    """We hold: it is refused, waits, and gets the lock when we unlock."""
    ours, theirs, key = r.fresh()
    mine = r.w.conn(r.w.a)
    granted(mine.cmd("LOCK", ours, "NOWAIT"))
    check(r.driver.ask("x", "trylock", theirs, 0, 5000) is None, "it was granted what we hold")
    p = r.it_waits(theirs)
    check(not p.done(), "its wait ended while we hold: %s", p.words)
    check(mine.cmd("LOCK", ours, "ONCE") > 0, "we lost it")
    check(mine.cmd("UNLOCK", ours) == 0, "our UNLOCK")
    check(p.wait(LONG) is not None, "it was not granted")
    check(r.w.ask(r.w.b, "LOCK", ours, "NOWAIT") is None, "we were granted what it holds")
    r.driver.ask("w", "unlock", theirs)
    granted(r.w.ask(r.w.b, "LOCK", ours, "WAIT", "10s"))


def both_count(r):
    """The library, and a client of each daemon, count one at a time."""
    ours, theirs, key = r.fresh()
    state = {"inside": 0, "n": 0, "wrong": []}

    def inside():
        state["inside"] += 1
        if state["inside"] != 1:
            state["wrong"].append(state["inside"])
        time.sleep(0.002)  # the work
        state["n"] += 1
        state["inside"] -= 1

    def work(take, give):
        try:
            for _ in range(ROUNDS):
                take()
                inside()
                give()
        except Exception as e:  # reported below
            state["wrong"].append(e)
    workers = [(lambda c=c: granted(c.cmd("LOCK", ours, "WAIT", "60s")), lambda c=c: c.cmd("UNLOCK", ours))
               for c in (r.w.conn(r.w.a), r.w.conn(r.w.b))]
    workers.append((lambda: check(r.driver.send("h0", "lock", theirs, 30000).wait(LONG) is not None,
                                  "it was not granted"),
                    lambda: r.driver.ask("h0", "unlock", theirs)))
    threads = [threading.Thread(target=work, args=pair) for pair in workers]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    check(not state["wrong"], "%s", state["wrong"][:3])
    check(state["n"] == 3 * ROUNDS, "%d of %d", state["n"], 3 * ROUNDS)


def a_node_away(r):
    """One of three nodes is paused: each side still excludes the other."""
    ours, theirs, key = r.fresh()
    r.w.redis.pause(1)
    try:
        mine, began = r.w.conn(r.w.a), time.monotonic()
        granted(mine.cmd("LOCK", ours, "WAIT", "10s"))
        we_took = time.monotonic() - began
        check(r.driver.send("x", "trylock", theirs, 0, 5000).wait(LONG) is None, "it was granted what we hold")
        check(mine.cmd("UNLOCK", ours) == 0, "our UNLOCK")
        p = r.driver.send("h0", "trylock", theirs, 20000, 60000)
        taken = p.wait(LONG) is not None
        check(not taken or r.w.ask(r.w.a, "LOCK", ours, "NOWAIT") is None, "we were granted what it holds")
    finally:
        r.w.redis.resume(1)
    if taken:
        r.driver.send("h0", "unlock", theirs).wait(LONG)
    return "%s %.1f s, we %.1f" % ("in" if taken else "not in", p.at - p.sent, we_took)


def tokens(r):
    """The library has no tokens: our next token is larger than our last one, by our own clocks."""
    ours, theirs, key = r.fresh()
    mine = r.w.conn(r.w.a)
    before = granted(mine.cmd("LOCK", ours, "NOWAIT"))
    mine.cmd("UNLOCK", ours)
    r.everywhere(key, False)
    clocks = r.w.redis.cmd("MGET", *CLOCKS)
    r.it_takes_all(theirs, 30000)
    check(r.w.redis.cmd("MGET", *CLOCKS) == clocks, "it has counted")
    r.driver.ask("h0", "unlock", theirs)
    check(granted(mine.cmd("LOCK", ours, "WAIT", "10s")) > before, "a token that is not larger")
    mine.cmd("UNLOCK", ours)
    return "none"


def a_hole(r):
    """One node loses the key of a holder: whether the key comes back; ours does."""
    ours, theirs, key = r.fresh()
    mine = r.w.conn(r.w.a)
    granted(mine.cmd("LOCK", ours, "NOWAIT"))
    r.everywhere(key, True)
    r.w.redis.nodes[1].cmd("DEL", key)
    r.everywhere(key, True)
    check(mine.cmd("UNLOCK", ours) == 0, "our UNLOCK")
    r.everywhere(key, False)
    r.it_takes_and_extends(theirs)
    r.everywhere(key, True)
    r.w.redis.nodes[1].cmd("DEL", key)
    r.it_extends(theirs, key)
    filled = r.has(key)[1]
    check(filled == r.lib.fills, "the hole %s", "comes back" if filled else "stays")
    check(r.w.ask(r.w.b, "LOCK", ours, "NOWAIT") is None, "we were granted what it holds")
    r.driver.ask("h0", "unlock", theirs)
    granted(r.w.ask(r.w.b, "LOCK", ours, "WAIT", "10s"))
    return "comes back" if filled else "stays"


def a_loss(r):
    """
    Two nodes lose the key of a holder, so the other side is granted the lock: whether the holder learns that. Ours
    does.
    """
    ours, theirs, key = r.fresh()
    mine, other = r.w.conn(r.w.a), r.w.conn(r.w.b)
    granted(mine.cmd("LOCK", ours, "NOWAIT"))
    r.everywhere(key, True)
    for node in r.w.redis.nodes[:2]:
        node.cmd("DEL", key)
    refused(mine.cmd("RENEW", ours, "20s"), "LOST ")
    r.everywhere(key, False)
    r.it_takes_and_extends(theirs)
    r.everywhere(key, True)
    for node in r.w.redis.nodes[:2]:
        node.cmd("DEL", key)
    granted(other.cmd("LOCK", ours, "WAIT", "10s"))
    notified = []
    asks = {"extend": lambda: r.it_extends(theirs, key), "unlock": lambda: r.driver.ask("h0", "unlock", theirs)}
    for what, ask in asks.items():
        try:
            ask()
        except Refused:
            notified.append(what)
    check(other.cmd("LOCK", ours, "ONCE") > 0, "we lost it to an unlock that was not its own")
    check(other.cmd("UNLOCK", ours) == 0, "our UNLOCK")
    return "notified by " + " and ".join(notified) if notified else "not notified"


def notified_by_an_extend(r, theirs, key):
    try:
        r.it_extends(theirs, key)
    except Refused:
        return True
    return False


def a_gap(r):
    """
    As a loss, but the new holder has freed the lock since: whether the former holder learns of the loss. Ours does.
    """
    ours, theirs, key = r.fresh()
    mine = r.w.conn(r.w.a)
    granted(mine.cmd("LOCK", ours, "NOWAIT"))
    r.everywhere(key, True)
    for node in r.w.redis.nodes[:2]:
        node.cmd("DEL", key)
    # None: our renewal was faster, and has found the loss already
    if r.driver.ask("x", "trylock", theirs, 0, 5000) is not None:
        r.driver.ask("x", "unlock", theirs)
    refused(mine.cmd("RENEW", ours, "20s"), "LOST ")
    r.everywhere(key, False)
    r.it_takes_and_extends(theirs)
    r.everywhere(key, True)
    for node in r.w.redis.nodes[:2]:
        node.cmd("DEL", key)
    token = granted(r.w.ask(r.w.b, "LOCK", ours, "WAIT", "10s", "OWNER", "o"))
    check(r.w.ask(r.w.b, "UNLOCK", ours, "OWNER", "o") == 0, "our UNLOCK")
    until(lambda: r.has(key) == [False, False, True], PATIENCE)
    notified = notified_by_an_extend(r, theirs, key)
    if r.lib.fills:
        check(not notified and all(r.has(key)), "it has not taken it anew")
        check(r.w.ask(r.w.b, "LOCK", ours, "NOWAIT") is None, "we were granted what it holds")
    try:
        r.driver.ask("h0", "unlock", theirs)
    except Refused:
        pass
    check(granted(r.w.ask(r.w.b, "LOCK", ours, "WAIT", "10s")) > token, "a token that is not larger")
    return "notified" if notified else "not notified"


def a_hole_of_ours(r):
    """
    It has lost the lock to us, and extends while one node lacks our key: whether it keeps that node, which does no
    harm.
    """
    ours, theirs, key = r.fresh()
    if "extend" not in r.lib.verbs:
        raise NotThere
    r.it_takes_all(theirs, 9000)
    r.everywhere(key, True)
    for node in r.w.redis.nodes:
        node.cmd("DEL", key)
    mine, last = r.w.conn(r.w.a), r.w.redis.nodes[2]
    granted(mine.cmd("LOCK", ours, "WAIT", "10s"))
    r.everywhere(key, True)
    our_value = last.cmd("GET", key)
    last.cmd("DEL", key)
    check(notified_by_an_extend(r, theirs, key), "its extend has succeeded while we hold")
    keeps = last.cmd("GET", key) not in (None, our_value)
    check(keeps == r.lib.fills, "its key is %s", "there" if keeps else "not there")
    check(mine.cmd("RENEW", ours, "20s") > 0, "we lost it to a minority")
    check(r.driver.ask("x", "trylock", theirs, 0, 5000) is None, "it was granted what we hold")
    if keeps:  # our renewals fill the hole when its key has gone
        last.cmd("PEXPIRE", key, 1)
    # one renewal finds the hole, and the next one fills it
    until(lambda: last.cmd("GET", key) == our_value, 2 * PATIENCE)
    check(mine.cmd("UNLOCK", ours) == 0, "our UNLOCK")
    r.everywhere(key, False)
    return "keeps it" if keeps else "leaves it"


def minority(r):
    """It waits for a lock that we have on two nodes of three: whether it keeps the third node from us meanwhile."""
    ours, theirs, key = r.fresh()
    mine = r.w.conn(r.w.a)
    granted(mine.cmd("LOCK", ours, "NOWAIT"))
    r.everywhere(key, True)
    p = r.it_waits(theirs)
    field = r.w.redis.nodes[0].cmd("GET" if r.where(key)[0][0] == "string" else "HKEYS", key)
    r.w.redis.nodes[2].cmd("DEL", key)
    theirs_n = n = 0
    end = time.monotonic() + 2  # the time of the observation
    while time.monotonic() < end:
        kind, _ = r.where(key)[2]
        is_there = r.w.redis.nodes[2].cmd("GET" if kind == "string" else "HKEYS", key) if kind != "none" else None
        n += 1
        theirs_n += bool(is_there) and is_there != field
    check(not p.done(), "it was granted what we hold")
    check(mine.cmd("LOCK", ours, "ONCE") > 0, "we lost it")
    check(mine.cmd("UNLOCK", ours) == 0, "our UNLOCK")
    check(p.wait(LONG) is not None, "it was not granted")
    r.driver.ask("w", "unlock", theirs)
    granted(r.w.ask(r.w.b, "LOCK", ours, "WAIT", "10s"))
    return "%d %%" % (100 * theirs_n // n)


COLUMNS = [("it holds", it_holds), ("we hold", we_hold), ("both count", both_count), ("tokens", tokens),
           ("a hole", a_hole), ("our hole", a_hole_of_ours), ("a loss", a_loss), ("a gap", a_gap),
           ("a minority", minority), ("a node away", a_node_away)]
