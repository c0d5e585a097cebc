#!/usr/bin/env python3
"""fair.lua among fair waiters of Redisson, some of which have died: how long the queue stops for each of the dead.

Scripts play the clients of Redisson: they run the commands of RedissonFairLock (4.7) one by one. Time passes by a
change of all times in Redis (pass_).
"""
import random

import harness
from scripted import LEASE, OK, TAKEN, UUID, Scripted

WAIT = 300000  # the wait of Redisson's lock(), which has no argument for it
LIST, SET, CHANNEL = "redisson_lock_queue:{k}", "redisson_lock_timeout:{k}", "ch:k"
SLACK = 1000 * harness.SLOW

# ARGV: now. Each script of Redisson begins with it.
STALE = """
while true do
    local head = redis.call('lindex', KEYS[2], 0)
    local score = head and redis.call('zscore', KEYS[3], head)
    if not score or tonumber(score) > tonumber(ARGV[1]) then break end
    redis.call('zrem', KEYS[3], head)
    redis.call('lpop', KEYS[2])
end
"""
# ARGV: now, owner, lease, wait. nil: granted; else a time to wait.
LOCK = STALE + """
local head = redis.call('lindex', KEYS[2], 0)
if redis.call('exists', KEYS[1]) == 0 and (not head or head == ARGV[2]) then
    redis.call('lpop', KEYS[2])
    redis.call('zrem', KEYS[3], ARGV[2])
    for _, name in ipairs(redis.call('zrange', KEYS[3], 0, -1)) do
        redis.call('zincrby', KEYS[3], -tonumber(ARGV[4]), name)
    end
    redis.call('hset', KEYS[1], ARGV[2], 1)
    redis.call('pexpire', KEYS[1], ARGV[3])
    return nil
end
if redis.call('zscore', KEYS[3], ARGV[2]) then
    return math.max(0, redis.call('pttl', KEYS[1]))
end
local last = redis.call('lindex', KEYS[2], -1)
local score = last and last ~= ARGV[2] and redis.call('zscore', KEYS[3], last)
local ttl = score and tonumber(score) - tonumber(ARGV[1]) or redis.call('pttl', KEYS[1])
if redis.call('zadd', KEYS[3], ttl + tonumber(ARGV[4]) + tonumber(ARGV[1]), ARGV[2]) == 1 then
    redis.call('rpush', KEYS[2], ARGV[2])
end
return ttl
"""
# ARGV: now, owner, channel
UNLOCK = STALE + """
if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then return nil end
redis.call('del', KEYS[1])
local head = redis.call('lindex', KEYS[2], 0)
if head then redis.call('publish', ARGV[3] .. ':' .. head, '0') end
return 1
"""
# ARGV: owner, wait
GIVE_UP = """
local queue, behind = redis.call('lrange', KEYS[2], 0, -1), false
for _, name in ipairs(queue) do
    if behind then redis.call('zincrby', KEYS[3], -tonumber(ARGV[2]), name) end
    behind = behind or name == ARGV[1]
end
redis.call('zrem', KEYS[3], ARGV[1])
redis.call('lrem', KEYS[2], 0, ARGV[1])
"""


class Waiter:
    """ours: an owner of a daemon; else a client of Redisson that calls tryLock(wait ms)."""

    def __init__(self, number, ours=False, wait=WAIT, dead=False, daemon=0):
        self.ours, self.wait, self.dead = ours, wait, dead
        uuid = "%07d" % daemon + UUID[7:] if ours else "%08d-2222-4333-8444-555555555555" % number
        self.name = uuid + ":%d" % number

    def __repr__(self):
        return "%s%s" % ("us" if self.ours else "it(%d)" % self.wait, " dead" if self.dead else "")


def us(number, daemon=0):
    return Waiter(number, ours=True, daemon=daemon)


def it(number, wait=WAIT, dead=False):
    return Waiter(number, wait=wait, dead=dead)


class Strangers(Scripted):
    def eval(self, script, *words):
        reply = self.c.cmd("EVAL", script, 3, "k", LIST, SET, *words)
        self.assertNotIsInstance(reply, harness.RError)
        return reply

    def now_ms(self):
        return self.now_us() // 1000

    def pass_(self, ms):
        """Lets `ms` pass: changes the TTLs in Redis, and all times in its keys."""
        for name in self.c.cmd("ZRANGE", SET, 0, -1):
            self.c.cmd("ZINCRBY", SET, -ms, name)
        left = self.c.cmd("PTTL", "k")
        if left >= 0:
            self.c.cmd("PEXPIRE", "k", left - ms)

    def ask(self, w, ticket=1):
        """Whether the waiter is granted the lock now."""
        if w.ours:
            outcome = self.run_one("fair", "acquire", owner=w.name, ticket=ticket)[0]
            self.assertIn(outcome, (OK, TAKEN))
            return outcome == OK
        return self.eval(LOCK, self.now_ms(), w.name, LEASE, w.wait) is None

    def renew(self, w, **more):
        if w.ours:
            self.assertEqual(self.run_one("fair", "renew", owner=w.name, **more)[0], OK)
        else:  # its watchdog
            self.c.cmd("PEXPIRE", "k", LEASE)

    def unlock(self, w):
        if w.ours:
            self.assertEqual(self.run_one("fair", "release", owner=w.name)[0], OK)
        else:
            self.assertEqual(self.eval(UNLOCK, self.now_ms(), w.name, CHANNEL), 1)

    def give_up(self, w):
        if w.ours:
            self.unlock(w)
        else:
            self.eval(GIVE_UP, w.name, w.wait)

    def score(self, w):
        """ms from now."""
        return int(self.c.cmd("ZSCORE", SET, w.name)) - self.now_ms()

    def near(self, ms, expected, text=""):
        self.assertTrue(abs(ms - expected) <= SLACK, "%d, not %d: %s" % (ms, expected, text))

    def work(self, holder, queue, ms):
        """The holder has the lock for `ms`; all tickets and the hold are renewed as daemons and watchdogs do."""
        while ms > 0:
            step = min(ms, LEASE / 3)
            self.pass_(int(step))
            ms -= step
            if step == LEASE / 3:
                self.renew(holder)
                for w in queue:
                    if w.ours:
                        self.renew(w, ticket=1)

    def serve(self, queue, works=lambda: 100, step=500):
        """
        Grants the lock to each living waiter as soon as possible; [(waiter, ms for which the lock was free before)].
        """
        waiting, stood, served = [w for w in queue if not w.dead], 0, []
        while waiting:
            for w in list(waiting):
                if self.ask(w, ticket=0):
                    served.append((w, stood))
                    waiting.remove(w)
                    stood = 0
                    self.work(w, waiting, works())
                    self.unlock(w)
                    break
            else:
                stood += step
                self.pass_(step)
                if stood % 10000 == 0:
                    for w in waiting:
                        if w.ours:
                            self.renew(w, ticket=1)
                self.assertLess(stood, 4 * WAIT, queue)
        return served

    def check(self, queue, before=0, works=lambda: 100):
        """
        An owner of a daemon holds the lock while the queue fills, and for `before` ms more; then no waiter waits longer
        than the time that its dead predecessors cost.
        """
        self.flush()
        holder = us(99)
        self.assertTrue(self.ask(holder))
        for w in queue:
            self.assertFalse(self.ask(w))
        self.work(holder, queue, before)
        self.unlock(holder)
        late = us(98)  # a last waiter, too, waits only for the dead
        served = self.serve(queue, works) + self.serve([late])
        alive = [w for w in queue if not w.dead]
        if before < 5000:
            self.assertEqual([w for w, _ in served], alive + [late])
        for w, stood in served:
            dead, at = 0, (queue + [late]).index(w)
            while at > 0 and queue[at - 1].dead:
                at -= 1
                dead += queue[at].wait + 1000
            self.assertLessEqual(stood, dead + SLACK, "%s in %s" % (w, queue))
        self.assertEqual(self.c.cmd("EXISTS", LIST, SET), 0)

    def test_killed_behind_ours(self):
        """Issue 16: 306 s, because Redisson counts on from our ticket behind the first."""
        self.check([it(1), us(2), it(3, 8000, dead=True), us(4)])
        self.check([it(1, 8000), us(2), it(3, 8000, dead=True), it(4)])

    def test_killed_on_both_sides(self):
        self.check([it(1, 8000, dead=True), us(2), it(3, 8000, dead=True), us(4)])
        self.check([it(1, 8000, dead=True), us(2), us(3, 1), us(4), it(5, 2000, dead=True), it(6, 3000, dead=True),
                    us(7), it(8, 8000, dead=True), it(9)])

    def test_killed_while_ours_hold_it_for_long(self):
        for before in (4000, 25000, 100000):
            self.check([it(1, 8000, dead=True), us(2), it(3, 8000, dead=True), us(4)], before, works=lambda: 12000)

    def test_living_strangers_keep_their_turn(self):
        """A stranger's ticket lasts for its own wait, from when the lock is free or the waiter before it leaves."""
        holder, queue = us(99), [us(1), it(2, 20000), it(3, 40000), us(4), it(5, 20000)]
        self.assertTrue(self.ask(holder))
        for w in queue:
            self.assertFalse(self.ask(w))
        self.work(holder, queue, 2 * LEASE)
        for a, b in zip(queue[:2] + queue[3:4], queue[1:3] + queue[4:]):
            self.near(self.score(b) - self.score(a), b.wait, queue)
        self.unlock(holder)
        self.assertTrue(self.ask(queue[0]))
        self.near(self.score(queue[1]), LEASE + 20000)
        self.near(self.score(queue[2]), LEASE + 60000)
        self.unlock(queue[0])
        self.near(self.score(queue[1]), 20000)
        self.near(self.score(queue[2]), 60000)
        self.pass_(15000)
        self.assertTrue(self.ask(queue[1]))
        self.near(self.score(queue[2]), 25000)

    def test_giving_a_place_up_closes_the_gap(self):
        for first in (us(1), it(1)):
            for free in (False, True):
                with self.subTest(first=first, free=free):
                    self.flush()
                    holder, mine, dead = us(99), us(2), it(3, 8000)
                    self.assertTrue(self.ask(holder))
                    for w in (first, mine, dead):
                        self.assertFalse(self.ask(w))
                    self.work(holder, [mine], LEASE / 3)
                    if free:
                        self.c.cmd("DEL", "k")
                    was = self.score(first)
                    self.give_up(mine)
                    self.near(self.score(first), was)
                    self.near(self.score(dead), was + 8000)
                    self.give_up(first)
                    if first.ours:
                        self.near(self.score(dead), 8000 + (0 if free else LEASE))

    def test_a_lease_made_shorter(self):
        mine, dead = us(1), it(2, 8000)
        self.assertTrue(self.ask(mine))
        self.assertFalse(self.ask(dead))
        self.run_one("fair", "renew", owner=mine.name, lease=3600000)
        self.near(self.score(dead), LEASE + 8000)
        self.run_one("fair", "renew", owner=mine.name, lease=10 * LEASE, exact=1)
        self.assertLessEqual(self.score(dead), 11 * LEASE)
        self.run_one("fair", "renew", owner=mine.name, lease=2000, exact=1)
        self.assertLessEqual(self.score(dead), 2000 + 8000 + 1000)

    def test_the_first_has_no_subscription(self):
        """Then a second message goes to the next waiter, which removes the first when the first's time is over."""
        dead, others = [it(1, 8000), it(2, 8000)], [it(3), it(4)]
        holder = us(99)
        self.assertTrue(self.ask(holder))
        for w in dead + others:
            self.ask(w)
        with self.listening(*[CHANNEL + ":" + w.name for w in others]) as sub:
            self.unlock(holder)
            self.received(sub, (CHANNEL + ":" + others[0].name, "0"))
        with self.listening(*[CHANNEL + ":" + w.name for w in dead + others]) as sub:
            self.assertTrue(self.c.cmd("HSET", "k", us(99).name, 1))
            self.unlock(us(99))
            self.received(sub, (CHANNEL + ":" + dead[0].name, "0"))

    def test_many_strangers_move_with_ours(self):
        """At most a thousand, since other clients decide how long the queue is."""
        holder, mine = us(99), us(1)
        self.assertTrue(self.ask(holder))
        self.assertFalse(self.ask(mine))
        for n in range(1100):
            self.ask(it(n + 2, 10))
        self.pass_(10000)
        self.renew(mine, ticket=1)
        self.near(self.score(it(1001, 10)) - self.score(mine), 10000)
        self.near(self.score(it(1002, 10)) - self.score(mine), 10010 - 10000)

    def test_random_queues(self):
        for seed in range(30):
            rng = random.Random(seed)
            queue, kind = [], None
            for n in range(rng.randint(3, 9)):
                kind = rng.random()
                queue.append(us(n, rng.randint(0, 1)) if kind < 0.5 else it(n, rng.choice((WAIT, 600000))) if kind < 0.7
                             else it(n, rng.choice((1000, 3000, 8000)), dead=True))
            with self.subTest(seed=seed, queue=queue):
                self.check(queue, before=rng.choice((0, 3000, 15000)), works=lambda: rng.choice((100, 2000, 11000)))


if __name__ == "__main__":
    harness.main()
