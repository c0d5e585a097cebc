"""cells_clients.py -- matrix 2: stock Redis clients, as installed, as clients of rlockd."""
import time

from cells_special import NotThere
from world import PATIENCE, Refused, check, granted, until

WAIT_MOST = 6  # seconds: a test does not wait for a longer default timeout


class Row:
    def __init__(self, world, client):
        self.w, self.lib, self._driver = world, client, None

    @property
    def driver(self):
        if self._driver is None:
            self._driver = self.lib.start(self.w)
        return self._driver

    def drop_driver(self):
        if self._driver is not None:
            self._driver.stop()
            self._driver = None

    def do(self, *words):
        return self.driver.ask("main", "do", *words)

    def fresh(self):
        return "client/n%d" % self.w.number()


def connect(r):
    """The set-up of the client is accepted; where it asks for caching, nothing is ever cached."""
    check(r.do("PING") in ("PONG", "True", "1"), "PING")  # as the libraries render it
    check(int(r.do("CLIENT", "ID")) > 0, "CLIENT ID")
    info = r.do("INFO") if r.lib.info else None
    for line in ("redis_version", "redis_mode", "role", "loading", "cluster_enabled", "maxmemory_policy"):
        check(info is None or line in info, "no %s in INFO", line)
    if r.lib.caches:
        nothing_is_cached(r)


def nothing_is_cached(r):
    """Reads for its cache fail, or give the present value: never an old one."""
    name = r.fresh()

    def cached():
        try:
            return r.driver.ask("main", "cached", name)
        except Refused as e:
            return "refused: %s" % e
    with r.w.a.conn() as c:
        for n in range(3):
            check(cached() is None or "refused" in cached(), "free, and its cache says %s", cached())
            check(c.cmd("SET", name, "v", "NX") == "OK", "SET was refused")
            check(cached() == "v" or "refused" in (cached() or ""), "held, and its cache says %s", cached())
            check(c.cmd("DEL", name) == 1, "DEL was refused")


def lock_unlock(r):
    name = r.fresh()
    token = r.do("LOCK", name, "OWNER", "me")
    granted(int(token or 0))
    check(r.w.ask(r.w.b, "LOCK", name, "NOWAIT") is None, "granted to another while it holds")
    check(r.do("LOCK", name, "NOWAIT", "OWNER", "you") is None, "null is no null")
    check(r.do("UNLOCK", name, "OWNER", "me", "TOKEN", token) == "0", "UNLOCK")
    try:
        reply = r.do("UNLOCK", name, "OWNER", "me")
        raise AssertionError("an error came as a value: %s" % reply)
    except Refused as e:
        check("NOTHELD" in str(e), "the error is %s", e)


def wait_long(r):
    """Longer than the default read timeout, with the setting that PROTOCOL.md names for it."""
    name = r.fresh()
    holder = r.w.conn(r.w.b)
    token = granted(holder.cmd("LOCK", name))
    default = r.lib.default_s or 0
    sit = default + 0.7 if default <= WAIT_MOST else 1.0
    p = r.driver.send("main", "long", "LOCK", name, "WAIT", "60s", "OWNER", "patient")
    r.w.waits(r.w.a, name)
    time.sleep(sit)
    check(not p.done(), "answered while the lock is held: %s", p.words)
    with r.w.a.conn() as c:
        check(c.maps("LOCKS", name)[0]["waiters"] == 1, "it waits more than once")
    holder.cmd("UNLOCK", name)
    value = p.wait()
    check(int(value or 0) > token, "granted as %s after %s", value, token)
    check(r.do("UNLOCK", name, "OWNER", "patient", "TOKEN", value) == "0", "UNLOCK")
    return "%.1f s" % sit if default <= WAIT_MOST else "%.1f s of %d" % (sit, default)


def sessions(r):
    with r.w.a.conn() as c:
        return c.maps("SESSIONS")


def subscribe(r):
    name = r.fresh()
    r.w.conn().cmd("SUBSCRIBE", "lock:other-" + name)  # a session of a former driver may be there still
    there = {s["id"] for s in sessions(r)}
    driver = r.lib.start(r.w)  # some can do nothing else afterwards
    driver.send("main", "subscribe", "lock:" + name)
    driver.received("subscribed")  # phpredis prints that before it has asked

    def listens():
        """its own session, which has subscribed"""
        return [s for s in sessions(r) if s["subscriptions"] and s["id"] not in there]
    until(listens, PATIENCE)
    with r.w.a.conn() as c:
        token = granted(c.cmd("LOCK", name))
        c.cmd("UNLOCK", name)
    for word in ("granted", "released"):
        got = driver.received("event")
        check(got[:3] == ["lock:" + name, word, str(token)], "%s expected, got %s", word, got)


def resp3(r):
    """RESP3 works where the client uses it by default."""
    if not r.lib.resp3:
        raise NotThere
    r.do("PING")
    its = [s for s in sessions(r) if s["id"] == int(r.do("CLIENT", "ID"))]
    check(its and its[0]["proto"] == 3, "its connection speaks %s", its and its[0]["proto"])
    name = r.fresh()
    token = granted(int(r.do("LOCK", name, "OWNER", "me") or 0))
    check(r.do("LOCK", name, "OWNER", "you", "WAIT", "50ms") is None, "null is no null")
    check(r.do("UNLOCK", name, "OWNER", "me", "TOKEN", str(token)) == "0", "UNLOCK")


def cron_guard(r):
    """SET NX EX 1 of one value every 1.3 s: granted every time, by Redis and by rlockd."""
    name = r.fresh()
    drivers = {"Redis": r.lib.start(r.w, r.w.redis), "rlockd": r.driver}
    words = ("SET", name, "host", "NX", "EX", "1")
    for n in range(4):
        for who, driver in drivers.items():  # rlockd's rule for the name has another key than Redis's own
            key = (words[0], "plain/" + name) + words[2:] if who == "Redis" else words
            check(driver.ask("main", "do", *key) in ("OK", "True", "1"), "number %d was not granted by %s", n, who)
        time.sleep(1.3)
    drivers["Redis"].stop()


COLUMNS = [("connect", connect), ("lock+unlock", lock_unlock), ("waits long", wait_long), ("subscribe", subscribe),
           ("RESP3", resp3), ("cron guard", cron_guard)]
