"""Owners that wait for each other, or seem to; and owners without number: long searches in the core."""
import time

from hostile import Scene, flood, pipeline, send_all, until

LEASE = "LEASE 10m"  # a held lock with this lease costs nothing


class Waits:
    conf = {"limits": {"pipeline": 65536, "pipeline_bytes": "64MiB", "waiters": 200000, "session_waiters": 200000,
                       "locks": 200000}}
    connections = 3

    def prepare(self):
        self.c = [self.connect() for _ in range(self.connections)]
        self.last = self.connect()
        self.hold()

    def hold(self):
        raise NotImplementedError

    def on_each(self, lines, send):
        """Sends the lines in turn over the connections; send() is called once for each connection."""
        for k, c in enumerate(self.c):
            send(c, lines[k::self.connections])

    def take(self, lines):
        self.on_each(lines, lambda c, mine: pipeline(c, mine))

    def wait(self, lines):
        """Sends lines that get no answer."""
        self.on_each(lines, lambda c, mine: send_all(c, ("\r\n".join(mine) + "\r\n").encode()))

    def until_waiting(self, n):
        def all_wait():
            """all of them wait"""
            return self.daemon.info("clients").get("blocked_clients") == str(n)
        until(all_wait)

    def deadlock(self, line):
        """Closes the cycle over a connection of its own; the ms until -DEADLOCK comes."""
        began = time.monotonic()
        reply = self.last.cmd(*line.split())
        if not str(reply).startswith("DEADLOCK"):
            raise AssertionError("the reply is %r" % reply)
        return (time.monotonic() - began) * 1000


class Chained(Waits):
    def hold(self):
        self.take(["LOCK n%d OWNER o%d %s" % (i, i, LEASE) for i in range(self.n)])

    def attack(self):
        self.wait(["LOCK n%d OWNER o%d" % (i - 1, i) for i in range(1, self.n)])
        self.until_waiting(self.n - 1)
        return "closed, reported in %.0f ms" % self.deadlock("LOCK n%d OWNER o0" % (self.n - 1))


class Chain(Chained, Scene):
    "3,000 waits over three connections, each for the head of the chain so far; then one closes it"
    n = 3000


class LongChain(Chained, Scene):
    "the same with 100,000 waits"
    n = 100000


class Pools(Waits, Scene):
    "two pools of 600 permits, whose holders wait for the other pool"
    n = 600
    conf = {**Waits.conf, "rules": [{"match": "pool*", "kind": "semaphore", "limit": 600}]}

    def hold(self):
        self.take(["LOCK pool%d OWNER o%d %s" % (i % 2, i, LEASE) for i in range(2 * self.n)])

    def attack(self):
        self.wait(["LOCK pool%d OWNER o%d" % ((i + 1) % 2, i) for i in range(2 * self.n - 1)])
        self.until_waiting(2 * self.n - 1)
        took = [self.deadlock("LOCK pool0 OWNER o%d" % (2 * self.n - 1)) for _ in range(50)]
        return "closed 50 times, reported in %.0f ms at most" % max(took)


class Crowd(Waits, Scene):
    "one name with 10,000 waiters, each with a lock of its own; they come and go"
    n = 10000

    def hold(self):
        self.take(["LOCK n%d OWNER o%d %s" % (i, i, LEASE) for i in range(self.n)])
        self.take(["LOCK hot OWNER last %s" % LEASE])

    def attack(self):
        self.wait(["LOCK hot OWNER o%d WAIT 1s" % i for i in range(self.n)])
        self.until_waiting(self.n)
        took = [self.deadlock("LOCK n%d OWNER last" % (i * 9)) for i in range(200)]
        time.sleep(1)  # all waits end: the measured time
        return "closed 200 times, reported in %.0f ms at most" % max(took)


class ManyOwners(Waits, Scene):
    "one connection has 50,000 OWNERs, and asks for each of them by turns"
    n = 50000
    connections = 1

    def hold(self):
        self.last.cmd("LOCK", "theirs")  # so that Redis has no part in the answers
        self.take(["LOCK n%d OWNER o%d %s" % (i, i, LEASE) for i in range(self.n)])

    def attack(self):
        began = time.monotonic()
        n = 0
        while time.monotonic() - began < 2:
            n += 2000
            self.take(["UNLOCK theirs OWNER o%d" % (k * 7919 % self.n) for k in range(n - 2000, n)])
        return "%d answered" % n


class ManyLosses(Waits, Scene):
    "one owner learns, one after the other, of the loss of 50,000 locks"
    n = 50000
    connections = 1

    def hold(self):
        self.take(["LOCK n%d OWNER loser LEASE 2s" % i for i in range(self.n)])
        until(lambda: self.daemon.info("stats").get("lost") == str(self.n))

    def attack(self):
        self.take(["UNLOCK n%d OWNER loser" % i for i in range(self.n)])


class WantedByMany(Waits, Scene):
    "20,000 readers hold a name, and a writer asks for it again and again, without waiting"
    n = 20000

    def hold(self):
        self.take(["LOCK doc KIND rw SHARED OWNER o%d %s" % (i, LEASE) for i in range(self.n)])

    def attack(self):
        began = time.monotonic()
        while time.monotonic() - began < 1.5:
            self.take(["LOCK doc KIND rw NOWAIT"] * 300)


class PermitsOut(Waits):
    n = 20000

    def hold(self):
        self.take(["LOCK pool KIND semaphore LIMIT %d OWNER o%d %s" % (self.n, i, LEASE) for i in range(self.n)])


class Limits(PermitsOut, Scene):
    "20,000 permits are out, and LOCKs with another LIMIT each time ask for one"

    def attack(self):
        began = time.monotonic()
        while time.monotonic() - began < 1.5:
            self.take(["LOCK pool KIND semaphore LIMIT %d NOWAIT" % (self.n - k % 2) for k in range(300)])


class Tokens(PermitsOut, Scene):
    "20,000 permits are out, and four connections release tokens that no owner has"

    def attack(self):
        conns = [self.connect() for _ in range(4)]
        return "%d answered" % flood(conns, b"UNLOCK pool TOKEN 7\r\n" * 1000, seconds=1.5)


class OnesPermits(Waits, Scene):
    "one owner has 20,000 permits of a name, and asks for more on four connections"
    n = 20000

    def hold(self):
        self.take(["LOCK pool KIND semaphore LIMIT %d OWNER all %s" % (self.n, LEASE)] * self.n)

    def attack(self):
        conns = [self.connect() for _ in range(4)]
        line = b"LOCK pool KIND semaphore LIMIT %d OWNER all NOWAIT\r\n" % self.n
        return "%d answered" % flood(conns, line * 1000, seconds=1.5)


class ProcessEnds(Waits, Scene):
    "a process with 90 connections, each with 1,000 waits, ends"
    connections = 90

    def hold(self):
        self.last.cmd("LOCK", "hot")
        self.wait(["LOCK hot OWNER o%d" % i for i in range(90000)])
        self.until_waiting(90000)

    def attack(self):
        for c in self.c:
            c.close()
        self.until_waiting(0)
