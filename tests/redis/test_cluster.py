#!/usr/bin/env python3
"""Locks in a Redis Cluster of real nodes: many slots, slots that move under them, what nodes must be set to."""
import os
import re
import select
import signal

import harness
from clusters import STEADY, Cluster, Node, Shared, slot_of
from harness import until
from test_sentinel_switch import Counting

CONF = "redis: { timeout: 2s }\n"
SHARED = Shared()


def tearDownModule():
    SHARED.stop()


class Case(harness.Case):
    """All tests here have one cluster, whose nodes stay, and whose data is new for each of them."""

    def setUp(self):
        super().setUp()
        self.c = SHARED.get()

    def daemon(self, name="rlockd", conf=CONF):
        return self.rlockd(redis=self.c.url(), conf=conf, name=name)

    def target(self, name):
        """A master that does not own the slot of the name."""
        owner = self.c.owner(slot_of(name))
        return next(n for n in self.c.nodes if n.is_master() and n.id != owner.id)

    def listeners(self, key):
        return self.c.cmd(key, "PUBSUB", "SHARDNUMSUB", "redisson_lock__channel:{%s}" % key)[1]

    def holds(self, name):
        return self.c.cmd(name, "EXISTS", name)


class Slots(Case):
    def test_names_of_many_slots_in_one_turn(self):
        d = self.daemon()
        names = ["name%d" % i for i in range(60)]
        conns = {n: self.conn(d) for n in names}
        self.assertGreater(len({slot_of(n) for n in names}), 50)
        for _ in range(2):  # the second time all records are there: they leave together
            d.signal(signal.SIGSTOP)
            for n in names:
                conns[n].ask("LOCK", n)
            d.signal(signal.SIGCONT)
            for n in names:
                self.assertIsInstance(conns[n].read(), int, n)
            self.assertEqual(sum(self.holds(n) for n in names[:20]), 20)
            self.assertEqual([conns[n].cmd("UNLOCK", n) for n in names], [0] * len(names))
        until(lambda: not any(self.holds(n) for n in names[:20]))
        self.assertEqual(d.info("stats")["redirects"], "0")

    def test_names_of_one_slot_share_a_call(self):
        d = self.daemon()
        self.assertIsInstance(self.conn(d).cmd("LOCK", "{s}"), int)
        conns = [self.conn(d) for _ in range(60)]
        d.signal(signal.SIGSTOP)
        for i, c in enumerate(conns):
            c.ask("LOCK", "{s}%d" % i)
        before = self.calls()
        d.signal(signal.SIGCONT)
        self.assertTrue(all(isinstance(c.read(), int) for c in conns))
        self.assertLess(self.calls() - before, 20)

    def calls(self):
        return sum(int(line.split("calls=")[1].split(",")[0]) for n in self.c.masters
                   for line in n.cmd("INFO", "commandstats").split("\r\n") if line.startswith("cmdstat_eval"))

    def test_several_names(self):
        c, other = (self.conn(self.daemon(name)) for name in "ab")
        tokens = c.cmd("MLOCK", "3", "m1", "m2", "m3")
        self.assertEqual(len({slot_of(n) for n in ("m1", "m2", "m3")}), 3)
        self.assertTrue(all(isinstance(t, int) for t in tokens), tokens)
        self.assertIsInstance(other.cmd("LOCK", "m0"), int)
        self.assertIsInstance(other.cmd("LOCK", "m4"), int)  # whose slots are known from here on
        self.assertEqual(other.cmd("UNLOCK", "m4"), 0)
        self.assertIsNone(other.cmd("MLOCK", "2", "m4", "m2", "WAIT", "500ms"))
        until(lambda: not self.holds("m4"))
        self.assertEqual(c.cmd("MUNLOCK", "3", "m1", "m2", "m3"), [0, 0, 0])

    def test_a_key_whose_channel_is_in_another_slot(self):
        c = self.conn(self.daemon())
        for name in ("foo{", "{}x", "a}b"):
            self.assertIn("no hash tag", c.cmd("LOCK", name))

    def test_kinds(self):
        c = self.conn(self.daemon())
        for kind in ("reentrant", "simple", "counter", "fair", "rw", "fenced"):
            first = c.cmd("LOCK", kind, "KIND", kind)
            self.assertIsInstance(first, int, kind)
            self.assertEqual(c.cmd("UNLOCK", kind), 0, kind)
            self.assertGreater(c.cmd("LOCK", kind, "KIND", kind), first)


class First(Case):
    """The first use of a slot waits until its record is there, also where the LOCK does not wait."""

    def test_of_many_slots(self):
        d = self.daemon(conf="redis: { timeout: 8s }\n")
        c = self.conn(d)
        for i in range(60):
            self.assertIsInstance(c.cmd("LOCK", "name%d" % i, "NOWAIT"), int, d.log())

    def test_by_two_daemons_at_once(self):
        """One of them creates the record, and the other may be there before it."""
        conns = [self.conn(self.daemon(name, conf="redis: { timeout: 8s }\n")) for name in "ab"]
        for i in range(60):
            for k, c in enumerate(conns):
                c.ask("LOCK", "{%d}%d" % (i, k), "NOWAIT")
            for c in conns:
                self.assertIsInstance(c.read(), int)


class Waiters(Case):
    def test_a_waiter_at_another_daemon_is_woken(self):
        a, b = self.daemon("a"), self.daemon("b")
        holder, waiter = self.conn(a), self.conn(b)
        for name in ("w1", "w2", "w3", "w4"):
            token = holder.cmd("LOCK", name)
            waiter.ask("LOCK", name, "WAIT", "20s")
            until(lambda name=name: self.listeners(name) == 1)
            self.assertEqual(holder.cmd("UNLOCK", name), 0)
            self.assertGreater(waiter.read(), token)
        self.assertGreater(int(b.info("stats")["hints"]), 0)

    def test_the_slot_moves_under_a_waiter(self):
        a, b = self.daemon("a"), self.daemon("b")
        holder, waiter = self.conn(a), self.conn(b)
        token = holder.cmd("LOCK", "moving")
        waiter.ask("LOCK", "moving", "WAIT", "30s")
        until(lambda: self.listeners("moving") == 1)
        self.c.move(slot_of("moving"), self.target("moving"))
        until(lambda: self.listeners("moving") == 1)
        self.assertEqual(holder.cmd("UNLOCK", "moving"), 0)
        self.assertGreater(waiter.read(), token)

    def test_broadcasts_find_deadlocks(self):
        a, b = self.daemon("a"), self.daemon("b")
        one, two = self.conn(a), self.conn(b)
        self.assertIsInstance(one.cmd("LOCK", "x"), int)
        self.assertIsInstance(two.cmd("LOCK", "y"), int)
        one.ask("LOCK", "y", "WAIT", "20s")
        two.ask("LOCK", "x", "WAIT", "20s")
        self.assertIn("DEADLOCK", str(self.first_of(one, two)))

    def first_of(self, *conns):
        ready, _, _ = select.select(conns, [], [], harness.DEADLINE)
        return ready[0].read()


class Moves(Case):
    CONF = CONF + "locks: { lease: %ds }\n" % (5 * harness.SLOW)

    def test_renewed_and_freed_in_an_open_slot(self):
        self.renewed_and_freed(self.target("open"))

    def test_on_its_way_to_a_master_that_had_none(self):
        """As each new node is given its first slots. ASK names it by its host name, and the map by its address."""
        self.c = Cluster(self.dir, self._keep, replicas=0, args=(
            *STEADY, "--cluster-announce-hostname", "localhost", "--cluster-preferred-endpoint-type", "hostname"))
        d = self.daemon(conf=self.CONF)
        to = self._keep(Node(self.dir, "new", args=self.c.nodes[0].words))
        self.c.join(to)
        until(lambda: d.info("redis")["redis_nodes"] == "4", 20)
        self.renewed_and_freed(to, d)

    def renewed_and_freed(self, to, d=None):
        d = d or self.daemon(conf=self.CONF)
        c = self.conn(d)
        slot = slot_of("open")
        self.assertIsInstance(c.cmd("LOCK", "open"), int)
        self.assertIsInstance(c.cmd("LOCK", "{open}2"), int)
        self.c.move(slot, to, stop=lambda: self.while_open(d, c))
        self.assertEqual(self.c.owner(slot).id, to.id)
        until(lambda: isinstance(c.cmd("LOCK", "{open}3", "WAIT", "1s"), int))
        self.assertEqual(c.cmd("UNLOCK", "open"), 0)
        self.assertGreater(int(d.info("stats")["redirects"]), 0)

    def while_open(self, d, c):
        renewed = int(d.info("stats")["renewals"])
        until(lambda: int(d.info("stats")["renewals"]) > renewed + 4)  # longer than a lease
        self.assertEqual(d.info("stats")["lost"], "0")
        self.assertEqual(c.cmd("UNLOCK", "{open}2"), 0)
        refused = c.cmd("LOCK", "{open}new", "WAIT", "300ms")
        self.assertTrue(refused is None or "slot %d is being moved" % slot_of("open") in str(refused), refused)

    def test_back_and_forth_under_load(self):
        daemons = [self.daemon(name) for name in "ab"]
        counting = Counting(daemons, 6)
        self.addCleanup(counting.stop)
        until(lambda: counting.done > 50)
        for i in range(4):
            name = "counter:%d" % (i % 2)
            self.c.move(slot_of(name), self.target(name))
            done = counting.done
            until(lambda done=done: counting.done > done + 50)
        self.assertEqual(counting.stop(), [])
        self.assertGreater(sum(int(d.info("stats")["redirects"]) for d in daemons), 0)


class Members(Case):
    def seen(self):
        """The uuids that are registered at the anchors, once for each."""
        return [text.lstrip("?") for n in self.c.nodes if n.is_master() for key in n.cmd("KEYS", "rlock:*:seen")
                for text in n.cmd("ZRANGE", key, "0", "-1") if text != "#"]

    def test_who_stops_leaves(self):
        """Grace periods do not wait for it any more."""
        d = self.daemon()
        uuid = d.info("server")["run_id"]
        c = self.conn(d)
        self.assertIsInstance(c.cmd("LOCK", "a"), int)
        self.assertEqual(self.seen().count(uuid), 3)
        self.assertEqual(d.stop(), 0)
        self.assertEqual(self.seen().count(uuid), 0)

    def test_a_full_redis(self):
        """Locks are renewed and freed where no memory is left."""
        d = self.daemon(conf=CONF + "locks: { lease: %ds }\n" % (3 * harness.SLOW))
        c = self.conn(d)
        names = ["a", "b", "c", "d"]
        for name in names:
            self.assertIsInstance(c.cmd("LOCK", name), int)
        for node in self.c.nodes:
            node.cmd("CONFIG", "SET", "maxmemory", "1")
            self.addCleanup(node.cmd, "CONFIG", "SET", "maxmemory", "0")
        renewed = int(d.info("stats")["renewals"])
        until(lambda: int(d.info("stats")["renewals"]) > renewed + 6 * len(names), 30)  # two leases
        self.assertEqual([c.cmd("UNLOCK", name) for name in names], [0] * len(names))
        self.assertEqual(d.info("stats")["lost"], "0")


class Shown(Case):
    def nodes(self, d):
        """{port: fields} of INFO redis."""
        return {int(fields["address"].rsplit(":", 1)[1]): fields for key, line in d.info("redis").items()
                if key.startswith("redis_node") and key != "redis_nodes"
                for fields in [dict(part.split("=", 1) for part in line.split(","))]}

    def test_nodes(self):
        d = self.daemon()
        until(lambda: [n["state"] for n in self.nodes(d).values()] == ["up"] * 6)
        seen = self.nodes(d)
        for node in self.c.nodes:
            fields = seen[node.port]
            has = sum(int(b or a) - int(a) + 1 for a, _, b in
                      (text.partition("-") for text in node.nodes()[node.id][1] if text[0] != "["))
            self.assertEqual(fields["role"], "master" if node.is_master() else "replica")
            self.assertEqual(int(fields["slots"]), has)
            self.assertEqual(int(fields["rtt_us"]) > 0, has > 0)
        self.assertEqual(sum(int(f["slots"]) for f in seen.values()), 16384)
        epochs = {f["epoch"] for f in seen.values() if f["role"] == "master"}
        self.assertEqual(len(epochs), 3)
        status, out, _ = self.run_words([harness.RLOCK, "-s", "unix:" + d.path, "redis"])
        self.assertEqual(status, 0)
        for fields in seen.values():
            self.assertRegex(out, r"(?m)^%s +%s .* %s slots$" % (fields["role"], fields["address"], fields["slots"]))

    def test_two_anchors_at_one_master(self):
        slot, to, back = 8191, self.c.owner(2730), self.c.owner(8191)
        d = self.daemon()
        self.assertEqual(sorted(f["anchors"] for f in self.nodes(d).values()), ["0", "0", "0", "1", "1", "1"])
        self.c.move(slot, to)
        try:
            until(lambda: "two anchors are at one master" in d.log(), 20)
            self.assertEqual(self.nodes(d)[to.port]["anchors"], "2")
        finally:
            self.c.move(slot, back)
        until(lambda: "each anchor is at another master" in d.log(), 20)


class Rights(Case):
    def test_those_of_the_readme_are_enough(self):
        with open(os.path.join(harness.TOP, "README.md")) as f:
            words = next(line for line in f if line.startswith("ACL SETUSER") and "+config|get" in line).split()
        for node in self.c.nodes:
            self.assertEqual(node.cmd(*words), "OK")
            self.addCleanup(node.cmd, "ACL", "DELUSER", words[2])
            node.cmd("CONFIG", "SET", "cluster-node-timeout", "15000")
            self.addCleanup(node.cmd, "CONFIG", "SET", "cluster-node-timeout", "60000")
        conf = CONF.replace("{ ", "{ user: %s, password: %s, " % (words[2], words[4].lstrip(">"))) + \
            "locks: { prefix: 'lock:' }\n"
        a, b = (self.daemon(name, conf) for name in "ab")
        one, two = self.conn(a), self.conn(b)
        for kind in ("reentrant", "simple", "counter", "fair", "rw", "fenced"):
            token = one.cmd("LOCK", kind, "KIND", kind)
            self.assertIsInstance(token, int, a.log())
            two.ask("LOCK", kind, "KIND", kind, "WAIT", "20s")
            if kind == "reentrant":
                until(lambda: self.listeners("lock:" + kind) == 1)
            self.assertEqual(one.cmd("UNLOCK", kind), 0)
            self.assertGreater(two.read(), token)
        self.assertNotIn("NOPERM", a.log() + b.log())
        self.assertNotIn("refused", a.log() + b.log())
        self.assertGreater(int(b.info("stats")["hints"]), 0)


class NodeTimeout(Case):
    """A master that is cut off serves until its node timeout: for no more than half of the longest lease."""

    def setUp(self):
        super().setUp()
        self.addCleanup(self.of_all, 60000)  # as Shared has it
        self.of_all(20000)

    def of_all(self, ms):
        for node in self.c.nodes:
            self.assertEqual(node.cmd("CONFIG", "SET", "cluster-node-timeout", str(ms)), "OK")

    def test_too_long(self):
        plain = self.daemon("plain")
        strict = self.daemon("strict", conf=CONF.replace("{ ", "{ strict: true, "))
        c = self.conn(strict)
        why = "cluster-node-timeout (20000 ms) is longer than half of the longest lease (30000 ms)"
        until(lambda: plain.log().count("a master that is cut off may go on granting") == 3)
        self.assertIn(why, plain.log())
        self.assertIsInstance(self.conn(plain).cmd("LOCK", "a"), int)
        self.assertIn("strict: " + why, c.cmd("LOCK", "b", "WAIT", "300ms"))
        self.assertEqual(strict.info("redis")["redis_refusal"], "strict: " + why)
        self.c.owner(slot_of("b")).cmd("CONFIG", "SET", "cluster-node-timeout", "15000")
        until(lambda: isinstance(c.cmd("LOCK", "b", "WAIT", "1s"), int))
        elsewhere = next(n for n in map(str, range(100)) if self.c.owner(slot_of(n)) is not self.c.owner(slot_of("b")))
        self.assertIn(why, c.cmd("LOCK", elsewhere, "WAIT", "300ms"))
        self.of_all(15000)
        until(lambda: plain.log().count("a master that is cut off stops granting") == 3)
        until(lambda: isinstance(c.cmd("LOCK", elsewhere, "WAIT", "1s"), int))
        self.assertEqual(strict.info("redis")["redis_refusal"], "")

    def test_it_may_not_be_asked_for(self):
        for node in self.c.nodes:
            self.assertEqual(node.cmd("ACL", "SETUSER", "default", "-config|get"), "OK")
            self.addCleanup(node.cmd, "ACL", "SETUSER", "default", "+@all")
        plain = self.daemon("plain")
        strict = self.daemon("strict", conf=CONF.replace("{ ", "{ strict: true, "))
        why = "CONFIG GET is refused: allow it (+config|get)"
        until(lambda: why in plain.log())
        self.assertIsInstance(self.conn(plain).cmd("LOCK", "a"), int)
        self.assertIn("strict: " + why, self.conn(strict).cmd("LOCK", "b", "WAIT", "300ms"))


class Run(harness.Case):
    """`make run TOPOLOGY=cluster`, in a directory that looks like ours."""

    def test_run(self):
        for name in ("scripts", "build"):
            os.mkdir(os.path.join(self.dir, name))
        for name in ("rlockd", "rlock"):
            os.symlink(os.path.join(harness.BUILD, name), os.path.join(self.dir, "build", name))
        with open(os.path.join(harness.TOP, "scripts", "run")) as f:
            text = f.read()
        self.assertIn(" --listen tcp:127.0.0.1:5625", text)
        with open(os.open(os.path.join(self.dir, "scripts", "run"), os.O_WRONLY | os.O_CREAT, 0o700), "w") as f:
            f.write(text.replace(" --listen tcp:127.0.0.1:5625", ""))
        p = self._keep(harness.Process([os.path.join(self.dir, "scripts", "run"), "cluster"], self.dir, "run"))
        until(lambda: "rlockd is ready" in p.log() and p.log().endswith("\n\n"), 60)
        said = {line.split(" #")[0].strip() for line in p.log().split("\n") if " # " in line}
        reshard, kill, info = (next(line for line in said if line.startswith(word))
                               for word in ("redis-cli --cluster reshard", "kill -9", "redis-cli -s"))
        with harness.Conn(os.path.join(self.dir, "build", "run", "rlockd.sock")) as c:
            tokens = {name: c.cmd("LOCK", name) for name in ("a", "b", "c", "d")}
            for line in (reshard, info, kill):
                status, out, err = self.run_words(["bash", "-euc", line])
                self.assertEqual(status, 0, (line, out, err))
            until(lambda: all(isinstance(c.cmd("LOCK", "{%s}2" % name, "WAIT", "1s"), int) for name in tokens), 40)
            for name, token in tokens.items():
                self.assertEqual(c.cmd("LOCK", name, "ONCE"), token)
            servers = [int(pid) for pid in re.findall(r"redis-server 127.0.0.1:(\d+) ", self.servers())]
            self.assertEqual(len(servers), 5)
        p.signal(signal.SIGINT)
        p.wait()
        until(lambda: self.servers() == "")

    def servers(self):
        """The command lines of those that serve from this directory."""
        out = ""
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.readlink("/proc/%s/cwd" % pid).startswith(os.path.join(self.dir, "build", "run", "cluster")):
                    with open("/proc/%s/cmdline" % pid) as f:
                        out += f.read().replace("\0", " ") + "\n"
            except OSError:
                continue
        return out


if __name__ == "__main__":
    harness.main()
