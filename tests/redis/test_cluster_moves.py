#!/usr/bin/env python3
"""Slots that move, by redis-cli and key by key, and masters that end, come back, or come back with old data, while
clients of two daemons count under locks: no update is lost, no lock has two holders, tokens rise (R1 to R8).
"""
import signal
import time

import harness
from clusters import STEADY, Cluster, slot_of
from harness import RError, until
from moving import CONF, Load, answered, tags_below

LEASE = 8
SLOTS = 12  # the slots that move at a time; those in use are among them
MANY = 500
MOVED_ON = ("co",)  # MIGRATE may change an expiry, and the expiry is the only proof of a hold of kind counter


class Case(harness.Case):
    REPLICAS, WORDS = 1, ()

    def setUp(self):
        super().setUp()
        self.c = Cluster(self.dir, self._keep, replicas=self.REPLICAS, args=self.WORDS)

    def daemon(self, name):
        return self.rlockd(redis=self.c.url(), conf=CONF % LEASE, name=name)

    def load(self):
        self.a, self.b = self.daemon("a"), self.daemon("b")
        load = Load([self.a, self.b], SLOTS, self.conn)
        self.addCleanup(load.counting.stop)
        load.goes_on()
        return load

    def other(self, slot):
        """A master that does not own the slot."""
        owner = self.c.owner(slot)
        return next(n for n in self.c.masters_now() if n.id != owner.id)

    def nothing_wrong(self, wrong):
        self.assertEqual(wrong, [], "%s%s" % (self.a.log()[-3000:], self.b.log()[-3000:]))


class Reshards(Case):
    WORDS = STEADY

    def test_back_and_forth(self):
        """By redis-cli, as an operator does it."""
        load = self.load()
        one, two = self.c.masters[:2]
        for source, to in ((one, two), (two, one)) * 2:
            self.c.reshard(source, to, SLOTS)
            self.assertEqual({self.c.owner(slot).id for slot in load.slots}, {to.id})
            load.goes_on()
            self.nothing_wrong(load.kept.wrong(may_be_lost=MOVED_ON))
        self.nothing_wrong(load.end(may_be_lost=MOVED_ON))

    def test_five_hundred_slots(self):
        """In one run; every tenth slot has a held lock for which another client waits, for longer than a lease."""
        load = self.load()
        one, two = self.c.masters[:2]
        for tag in tags_below(MANY, MANY // 10):
            load.kept.take("{%s}many-re" % tag)
        began = time.monotonic()
        self.c.reshard(one, two, MANY)
        self.assertEqual({self.c.owner(slot).id for slot in range(MANY)}, {two.id})
        load.goes_on()
        until(lambda: time.monotonic() > began + LEASE + 1)  # each lease was renewed
        self.nothing_wrong(load.kept.wrong(may_be_lost=MOVED_ON))
        self.assertLessEqual(int(self.a.info("stats")["lost"]), 2 * len(load.slots))  # only locks of kind counter
        self.nothing_wrong(load.end(may_be_lost=MOVED_ON))


class Killed(Case):
    """
    kill -9 of the source or the target in the middle of a move, with writes that its replica never received; the
    replica takes over, and redis-cli repairs the open slot.
    """

    def interrupted(self, of_target):
        load = self.load()
        slot = load.slots[0]
        source, to = self.c.owner(slot), self.other(slot)
        dies, stays = (to, source) if of_target else (source, to)
        heir = until(lambda: self.c.replica_of(dies))
        self.c.cut_off(dies)
        load.keep("late-")
        self.c.move_half(slot, to)
        dies.kill()
        until(heir.is_master, 30)
        self.c.fix(stays)
        until(lambda: self.c.owner(slot), 20)
        load.goes_on()
        # Of two versions of a key redis-cli may keep the older one, and a string does not name its holder.
        self.nothing_wrong(load.end(may_be_lost=("si", "co")))

    def test_the_source(self):
        self.interrupted(of_target=False)

    def test_the_target(self):
        self.interrupted(of_target=True)


class Failovers(Case):
    def test_planned(self):
        load = self.load()
        for _ in range(2):
            self.c.fail_over(self.c.owner(load.slots[0]))
            load.goes_on()
            self.nothing_wrong(load.kept.wrong())
        self.nothing_wrong(load.end())

    def test_a_master_that_stood_still(self):
        """When it goes on it takes itself for the master, until the other nodes correct it."""
        load = self.load()
        old = self.c.owner(load.slots[0])
        heir = until(lambda: self.c.replica_of(old))
        self.c.cut_off(old)
        load.keep("late-")
        old.signal(signal.SIGSTOP)
        until(heir.is_master, 30)
        load.goes_on()
        old.signal(signal.SIGCONT)
        until(lambda: not old.is_master(), 30)
        load.goes_on()
        self.nothing_wrong(load.end())


class Disks(Case):
    """Without replicas: a node that is started again is the master of its slots, with the data that it has."""

    REPLICAS, WORDS = 0, STEADY

    def test_empty(self):
        """The first request comes from a daemon that has not used the slots before."""
        load = self.load()
        new = self.conn(self.daemon("new"))
        node = self.c.owner(load.slots[0])
        self.a.signal(signal.SIGSTOP)  # so that the other daemon asks before anything is reclaimed
        node.kill()
        self._keep(node.again())
        name = next(iter(load.kept.waiting))
        answer = answered(new, "LOCK", name, "WAIT", "300ms", deadline=1)
        self.a.signal(signal.SIGCONT)
        self.assertNotIsInstance(answer, int)
        load.goes_on()
        self.nothing_wrong(load.end())

    def test_old(self):
        """The old data has locks that have been given back since, and lacks locks that have been granted since."""
        load = self.load()
        holder, other = self.conn(self.a), self.conn(self.b)
        name = "{%s}since" % load.tags[0]
        node = self.c.owner(slot_of(name))
        earlier = answered(holder, "LOCK", name)
        self.assertEqual(node.cmd("SAVE"), "OK")
        self.assertEqual(holder.cmd("UNLOCK", name), 0)
        token = answered(other, "LOCK", name, "WAIT", "10s")
        self.assertGreater(token, earlier)
        node.kill()
        self._keep(node.again(old=True))
        self.assertGreater(len(node.cmd("KEYS", "*")), 0)
        self.assertNotIsInstance(answered(holder, "LOCK", name, "WAIT", "300ms"), int)
        self.assertEqual(answered(other, "LOCK", name, "ONCE"), token)
        load.goes_on()
        self.assertEqual(answered(other, "UNLOCK", name), 0)
        self.assertGreater(answered(holder, "LOCK", name, "WAIT", "10s"), token)
        # A saved string does not name its holder.
        self.nothing_wrong(load.end(may_be_lost=("si", "co")))


class Former(Case):
    """
    A master that was saved before slots left it is started again: it has old keys of these slots, and reports the slots
    `importing`. redis-cli moves the old keys to the owner, or the owner's keys back, whichever of the two nodes has
    more of them. No owner reports its slot open meanwhile.
    """

    REPLICAS, WORDS = 0, STEADY

    def comes_back(self, load, more=0):
        """
        Slots leave a master, which then comes back with its old data; `more` further keys of each slot are there alone.
        """
        former, owner = self.c.masters[:2]
        filler = [("{%s}%d" % (tag, i)) for tag in load.tags for i in range(more)]
        for key in filler:
            former.cmd("SET", key, "")
        self.assertEqual(former.cmd("SAVE"), "OK")
        for key in filler:
            former.cmd("DEL", key)
        self.c.reshard(former, owner, SLOTS)
        until(lambda: self.all_grant(load), 20)  # else held locks are not reclaimed before the slots are open again
        former.kill()
        back = self._keep(former.again(old=True))
        self.c.nodes[0] = self.c.masters[0] = back
        until(lambda: "cluster_state:ok" in str(back.ask("CLUSTER", "INFO")), 30)
        mine = " ".join(w for flags, words in back.nodes().values() if "myself" in flags for w in words)
        for slot in load.slots:
            self.assertIn("[%d-<-%s]" % (slot, owner.id), mine)
            self.assertEqual(self.c.owner(slot).id, owner.id)
        return back, owner

    def all_grant(self, load):
        """both daemons grant in the slots"""
        for daemon in (self.a, self.b):
            with harness.Conn(daemon.path) as c:
                for tag in load.tags:
                    if not isinstance(c.cmd("LOCK", "{%s}free-re" % tag, "WAIT", "1s"), int):
                        return False
        return True

    def all_open(self, load):
        """both daemons refuse to grant in the slots, because these are open"""
        for daemon in (self.a, self.b):
            with harness.Conn(daemon.path) as c:
                for tag in load.tags:
                    answer = c.cmd("LOCK", "{%s}free-re" % tag, "NOWAIT")
                    if not isinstance(answer, RError) or "is being moved from one node to another" not in answer:
                        return False
        return True

    def fixed(self, more):
        load = self.load()
        back, owner = self.comes_back(load, more)
        until(lambda: self.all_open(load), 20)
        self.c.fix(owner)
        for slot in load.slots:
            self.assertEqual(self.c.owner(slot).id, (back if more else owner).id)
        load.goes_on()
        # Of two versions of a key redis-cli may keep the older one, and a string does not name its holder.
        self.nothing_wrong(load.end(may_be_lost=("si", "co")))

    def test_the_owner_gets_the_old_keys(self):
        self.fixed(more=0)

    def test_the_former_owner_gets_the_slots(self):
        self.fixed(more=20)


if __name__ == "__main__":
    harness.main()
