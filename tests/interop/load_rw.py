#!/usr/bin/env python3
"""10 threads of Redisson and 50 sessions of two rlockds on one read-write lock: a writer is always alone.

Over 10,000 grants. The witness is a hash in Redis: a script enters each holder, and another removes it before the
unlock. The witness counts violations.
"""
import loadlib
from world import check, granted, until

THREADS, SESSIONS = 10, 50
EACH_IT, EACH_WE, WRITE_EVERY = 150, 180, 5  # 10,500 in all
DEADLINE = 180

ENTER = """
local r, w = tonumber(redis.call('HGET', KEYS[1], 'r') or '0'), tonumber(redis.call('HGET', KEYS[1], 'w') or '0')
if w > 0 or (ARGV[1] == 'write' and r > 0) then redis.call('HINCRBY', KEYS[1], 'wrong', 1) end
redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
local n = redis.call('HINCRBY', KEYS[1], ARGV[1] == 'write' and 'w' or 'r', 1)
local most = tonumber(redis.call('HGET', KEYS[1], 'most') or '0')
if ARGV[1] == 'read' and n > most then redis.call('HSET', KEYS[1], 'most', n) end
return n
"""
LEAVE = "return redis.call('HINCRBY', KEYS[1], ARGV[1] == 'write' and 'w' or 'r', -1)"


def cycle(world, daemon, name, scripts, first):
    shared = (["SHARED"], "read"), ([], "write")
    with daemon.conn() as c, world.redis.conn() as r:
        c.sock.settimeout(DEADLINE)
        for i in range(EACH_WE):
            options, mode = shared[(first + i) % WRITE_EVERY == 0]
            granted(c.cmd("LOCK", name, *options, "WAIT", "5m"))
            r.cmd("EVALSHA", scripts[0], "1", "witness", mode)
            r.cmd("EVALSHA", scripts[1], "1", "witness", mode)
            check(c.cmd("UNLOCK", name, *options) == 0, "UNLOCK")


def test(world):
    driver = loadlib.redisson_driver(world, "write")
    scripts = [world.redis.cmd("SCRIPT", "LOAD", s) for s in (ENTER, LEAVE)]
    name = "rw/load"
    daemons = (world.a, world.b)
    pending = [driver.send("t%d" % i, "rwcycle", name, *scripts, "witness", EACH_IT, WRITE_EVERY)
               for i in range(THREADS)]
    loadlib.together([lambda i=i: cycle(world, daemons[i % 2], name, scripts, i) for i in range(SESSIONS)], DEADLINE)
    for p in pending:
        check(p.wait(DEADLINE) == str(EACH_IT), "a thread of Redisson's did not get its grants")
    with world.redis.conn() as r:
        seen = r.map("HGETALL", "witness")
    reads, writes, most = (int(seen.get(k, 0)) for k in ("read", "write", "most"))
    total = THREADS * EACH_IT + SESSIONS * EACH_WE
    check(reads + writes == total > 10000, "%d grants of %d", reads + writes, total)
    check("wrong" not in seen, "%s times a writer was not alone", seen.get("wrong"))
    check(writes > total / WRITE_EVERY / 2, "%d writers: no test", writes)
    check(most > 1, "at most %d readers at a time: no test", most)
    until(lambda: world.redis.cmd("KEYS", "*%s*" % name) == [], 10)
    return "%d grants, %d of them writers and always alone, up to %d readers at a time" % (total, writes, most)


if __name__ == "__main__":
    loadlib.run(test)
