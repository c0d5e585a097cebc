#!/usr/bin/env python3
"""Lock libraries made for Redis, unmodified, with rlockd in its place: redis-py's Lock, npm redlock and warlock.

Any redis-py can be tested: that of Debian, or another one by PYTHONPATH. The npm libraries are tested when node finds
them.
"""
import shutil
import signal
import subprocess
import sys
import threading
import unittest

import harness
from harness import Case, state, until

try:
    import redis
    from redis.exceptions import LockError, LockNotOwnedError, ResponseError
    from redis.lock import Lock
except ImportError:
    redis = None


class Front(Case):
    def setUp(self):
        super().setUp()
        self.d = self.rlockd()

    def maps(self, *words):
        with self.d.conn() as c:
            return c.maps(*words)

    def lock(self, name):
        """The row of LOCKS for the name."""
        return self.maps("LOCKS", name)[0]

    def left_ms(self, name):
        return self.lock(name)["lease_ms"]


@unittest.skipIf(redis is None, "python3-redis is not installed")
class RedisPy(Front):
    def client(self):
        r = redis.Redis(unix_socket_path=self.d.path)
        self.addCleanup(r.connection_pool.disconnect)
        return r

    def test_acquire_and_release(self):
        a, b = (self.client().lock("job", timeout=60) for _ in range(2))
        self.assertFalse(a.locked())
        self.assertTrue(a.acquire())
        self.assertEqual((a.locked(), a.owned(), b.locked(), b.owned()), (True, True, True, False))
        self.assertEqual(self.lock("job")["owner"].encode(), a.local.token)
        self.assertFalse(b.acquire(blocking=False))
        a.release()
        self.assertFalse(a.locked())
        with b:
            self.assertTrue(b.owned())
        self.assertIsNone(self.client().get("job"))
        with self.assertRaises(LockError):
            b.release()

    def test_same_token_again(self):
        lock = self.client().lock("job", timeout=60)
        self.assertTrue(lock.acquire(token="mine"))
        self.assertFalse(lock.acquire(blocking=False, token="mine"))
        lock.release()
        self.assertTrue(lock.acquire(token="mine"))

    def test_two_clients_take_turns(self):
        """Each holds it alone, many times."""
        inside, most, done = [], [], []

        def work(r):
            for _ in range(10):
                with r.lock("job", timeout=60, sleep=0.002):
                    inside.append(1)
                    most.append(len(inside))
                    r.ping()
                    inside.pop()
            done.append(1)

        threads = [threading.Thread(target=work, args=(self.client(),)) for _ in range(2)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(harness.DEADLINE)
        self.assertEqual((len(done), len(most), max(most)), (2, 20, 1))

    def test_blocking_acquire(self):
        a, b = (self.client().lock("job", timeout=60, sleep=0.01) for _ in range(2))
        self.assertTrue(a.acquire())
        self.assertFalse(b.acquire(blocking_timeout=0.05))
        got = []
        t = threading.Thread(target=lambda: got.append(b.acquire(token="b")))
        t.start()
        until(lambda: self.maps("WAITERS", "job"))  # a place is kept for a client that asks again and again
        self.assertEqual(got, [])
        a.release()
        t.join(harness.DEADLINE)
        self.assertEqual((got, self.lock("job")["owner"]), ([True], "b"))

    def test_extend_and_reacquire(self):
        lock = self.client().lock("job", timeout=30)
        lock.acquire()
        self.assertTrue(lock.extend(30))
        self.assertTrue(55000 < self.left_ms("job") <= 60000, self.left_ms("job"))
        self.assertTrue(lock.extend(20, replace_ttl=True))
        self.assertTrue(15000 < self.left_ms("job") <= 20000, self.left_ms("job"))
        self.assertTrue(lock.reacquire())
        self.assertTrue(25000 < self.left_ms("job") <= 30000, self.left_ms("job"))
        lock.release()

    def test_not_the_owner(self):
        a, b = (self.client().lock("job", timeout=60, thread_local=False) for _ in range(2))
        a.acquire(token="a")
        for what in (b.release, lambda: b.extend(5), b.reacquire):
            b.local.token = b"b"
            self.assertRaises(LockNotOwnedError, what)
        self.assertTrue(a.owned())

    def test_time_is_over(self):
        a, b = (self.client().lock("job", timeout=20) for _ in range(2))
        a.acquire()
        self.d.advance("21s")
        self.assertFalse(a.owned())
        self.assertRaises(LockNotOwnedError, lambda: a.extend(5))
        self.assertTrue(b.acquire(blocking_timeout=harness.DEADLINE))
        self.assertRaises(LockNotOwnedError, a.release)
        self.assertTrue(b.owned())

    def test_cron_guard(self):
        """One fixed value again and again, each time after its lease has ended: granted every time, as by Redis."""
        for client in (self.client(), None):  # over one connection, and over a new one each time
            for i in range(4):
                r = client or self.client()
                self.assertTrue(r.set("cron", "host", nx=True, ex=1), i)
                self.assertIsNone(r.set("cron", "host", nx=True, ex=1), i)
                if client is None:
                    r.connection_pool.disconnect()
                self.d.advance("1300ms")

    def test_fixed_token_after_the_time_is_over(self):
        lock = self.client().lock("job", timeout=20)
        for i in range(3):
            self.assertTrue(lock.acquire(blocking=False, token="host"), i)
            self.d.advance("21s")

    def test_without_timeout_it_is_renewed(self):
        lock = self.client().lock("job")
        lock.acquire()
        for _ in range(4):
            self.d.advance("11s")
            until(lambda: self.left_ms("job") > 25000)
        self.assertTrue(lock.owned())
        lock.release()

    def test_lost_in_redis(self):
        lock = self.client().lock("job", timeout=60)
        lock.acquire()
        _, path = self.d.embedded_redis()
        with harness.Conn(path) as c:
            self.assertEqual(c.cmd("DEL", "job"), 1)
        self.assertRaises(LockNotOwnedError, lock.reacquire)

    def test_killed_client(self):
        """The lock is free owner_grace (10 s) after its client's end, long before its timeout."""
        code = ("import redis, sys, time; r = redis.Redis(unix_socket_path=sys.argv[1]);"
                "print(r.lock('job', timeout=3600).acquire(), flush=True); time.sleep(3600)")
        p = subprocess.Popen([sys.executable, "-c", code, self.d.path], stdout=subprocess.PIPE,
                             preexec_fn=harness.die_with_us)
        self.addCleanup(p.stdout.close)
        self.assertEqual(p.stdout.readline(), b"True\n")
        pids = lambda: [s["pid"] for s in self.maps("SESSIONS")]  # noqa: E731
        self.assertIn(p.pid, pids())
        p.send_signal(signal.SIGKILL)
        p.wait()
        until(lambda: p.pid not in pids())
        lock = self.client().lock("job", timeout=60)
        self.d.advance("9s")
        self.assertFalse(lock.acquire(blocking=False))
        self.d.advance("2s")
        self.assertTrue(lock.acquire(blocking_timeout=harness.DEADLINE))

    def test_scripts_by_text(self):
        r = self.client()
        lock = r.lock("job", timeout=60)
        lock.acquire(token="t")
        self.assertEqual(r.eval(Lock.LUA_EXTEND_SCRIPT, 1, "job", "t", 1000, "0"), 1)
        self.assertEqual(r.eval(Lock.LUA_REACQUIRE_SCRIPT, 1, "job", "other", 1000), 0)
        sha = r.script_load(Lock.LUA_RELEASE_SCRIPT)
        self.assertEqual(r.script_exists(sha, "0" * 40), [True, False])
        self.assertEqual(r.evalsha(sha, 1, "job", "t"), 1)
        with self.assertRaisesRegex(ResponseError, "no script is run here"):
            r.register_script("return 1")()

    def test_what_is_no_lock_is_refused(self):
        r = self.client()
        for what in (lambda: r.set("k", "v"), lambda: r.set("k", "v", xx=True), lambda: r.incr("k"),
                     lambda: r.set("k", "v", nx=True, keepttl=True)):
            self.assertRaises(ResponseError, what)
        self.assertIsNone(r.get("k"))

    def test_refusals_are_counted_and_in_the_log(self):
        """The log has the refused commands of a program whose address is wrong, and never a value."""
        r = self.client()
        before = int(r.info("stats")["front_refused"])
        for what in (lambda: r.set("k", "a-secret"), lambda: r.set("k", "a-secret", nx=True, xx=True),
                     lambda: r.incr("k"), lambda: r.eval("return 'a-secret'", 0),
                     lambda: r.config_set("a", "a-secret")):
            self.assertRaises(redis.RedisError, what)
        self.assertEqual(int(r.info("stats")["front_refused"]), before + 5)
        lines = [line for line in self.d.log().split("\n") if line.startswith("info front refused")][-5:]
        self.assertEqual([line.split("command=")[1].split()[0] for line in lines],
                         ["SET", "SET", "INCRBY", "EVAL", "CONFIG"])
        self.assertNotIn("a-secret", self.d.log())
        self.assertRegex(lines[0], r"reason=.*NX is missing")

    def test_a_flood_of_refusals_does_not_fill_the_log(self):
        with self.d.conn() as c:
            c.send("GETSET k v\r\n" * 2000)
            for _ in range(2000):
                c.read()
        self.assertEqual(self.d.info("stats")["front_refused"], "2000")
        self.assertLess(self.d.log().count("front refused"), 300)

    def test_info_as_libraries_read_it(self):
        info = self.client().info()
        self.assertEqual([info[k] for k in ("redis_mode", "role", "loading", "cluster_enabled", "maxmemory",
                                            "maxmemory_policy", "uptime_in_days", "connected_slaves")],
                         ["standalone", "master", 0, 0, 0, "noeviction", 0, 0])
        self.assertGreaterEqual(int(info["redis_version"].split(".")[0]), 7)

    def test_native_users_and_this(self):
        lock = self.client().lock("job", timeout=60)
        c = self.conn(self.d)
        token = c.cmd("LOCK", "job")
        self.assertFalse(lock.acquire(blocking=False))
        self.assertEqual(c.cmd("UNLOCK", "job"), 0)
        self.assertTrue(lock.acquire(blocking=False))
        self.assertGreater(self.lock("job")["token"], token)
        self.assertIsNone(c.cmd("LOCK", "job", "NOWAIT"))

    def test_redis_is_away(self):
        store = self.redis(name="store")  # beside the embedded one
        self.d = self.rlockd(redis=store.url, name="another")
        lock = self.client().lock("job", timeout=60)
        store.signal(signal.SIGSTOP)
        until(lambda: state(store.pid) == "T")
        with self.assertRaisesRegex(ResponseError, "UNAVAILABLE"):
            lock.acquire(blocking=False)
        store.signal(signal.SIGCONT)
        until(lambda: lock.acquire(blocking=False))


COMMON = """
const assert = require('assert')
const path = process.argv[1]
const left = async (r, name) => {
  const row = (await r.call('LOCKS', name))[0]
  return row instanceof Map ? row.get('lease_ms') : Array.isArray(row) ? row[row.indexOf('lease_ms') + 1] : row.lease_ms
}
const main = async () => { %s }
main().then(() => { console.log('done'); process.exit(0) }, e => { console.error(e); process.exit(1) })
"""

REDLOCK = """
const Redis = require('ioredis'), Redlock = require('redlock').default
const r = new (Redis.default || Redis)({ path, maxRetriesPerRequest: 0 })
const redlock = new Redlock([r], { retryCount: 0 })
const patient = new Redlock([r], { retryCount: 200, retryDelay: 5, retryJitter: 1 })
"""

REDLOCK_ONE = REDLOCK + """
let lock = await redlock.acquire(['job'], 20000)
await assert.rejects(redlock.acquire(['job'], 20000))
lock = await lock.extend(60000)
const ms = await left(r, 'job')
assert(ms > 55000 && ms <= 60000, ms)
const next = patient.acquire(['job'], 20000)
await lock.release()
await assert.rejects(lock.release())
lock = await next
await lock.release()
assert.strictEqual(await patient.using(['job'], 5000, async signal => signal.aborted), false)
assert.strictEqual(await r.get('job'), null)
"""

REDLOCK_SEVERAL = REDLOCK + """
let lock = await redlock.acquire(['a', 'b', 'c'], 20000)
await assert.rejects(redlock.acquire(['d', 'b'], 20000))
assert.strictEqual(await r.get('d'), null)
lock = await lock.extend(60000)
for (const name of ['a', 'b', 'c']) { const ms = await left(r, name); assert(ms > 55000 && ms <= 60000, ms) }
await lock.release()
await (await redlock.acquire(['c', 'a'], 20000)).release()
"""

WARLOCK = """
const { promisify } = require('util')
const r = require('redis3').createClient({ path })
const warlock = require('node-redis-warlock')(r)
const lock = (...a) => new Promise((done, no) =>
  warlock.lock(...a, (e, unlock, id) => e ? no(e) : done({ unlock, id })))
const optimistic = promisify(warlock.optimistic)
const a = await lock('job', 20000)
assert.strictEqual(typeof a.unlock, 'function')
assert.strictEqual((await lock('job', 20000)).unlock, false)
assert.strictEqual(await promisify(r.get).call(r, 'job:lock'), a.id)
assert.strictEqual(await warlock.touch('job', a.id, 60000), 'OK')
assert.strictEqual(await warlock.touch('job', 'other', 60000), 0)
await assert.rejects(optimistic('job', 20000, 2, 5))
assert.strictEqual(await promisify(warlock.unlock)('job', 'other'), 0)
assert.strictEqual(await promisify(a.unlock)(), 1)
assert.strictEqual(await promisify(a.unlock)(), 0)
const b = await optimistic('job', 20000, 100, 5)
assert.strictEqual(await promisify(b)(), 1)
assert.strictEqual(await promisify(r.get).call(r, 'job:lock'), null)
"""


class Npm(Front):
    def run_js(self, text, *libraries):
        node = shutil.which("node")
        for name in libraries:
            if node is None or self.run_words([node, "-e", "require.resolve('%s')" % name])[0] != 0:
                self.skipTest("not for node here: %s" % name)
        status, out, err = self.run_words([node, "--no-deprecation", "-e", COMMON % text, self.d.path])
        self.assertEqual((status, out, err), (0, "done\n", ""))

    def test_redlock(self):
        self.run_js(REDLOCK_ONE, "ioredis", "redlock")

    def test_redlock_several(self):
        self.run_js(REDLOCK_SEVERAL, "ioredis", "redlock")

    def test_warlock(self):
        self.run_js(WARLOCK, "redis3", "node-redis-warlock")


if __name__ == "__main__":
    harness.main()
