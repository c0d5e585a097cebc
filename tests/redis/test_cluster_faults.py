#!/usr/bin/env python3
"""test_cluster_faults.py -- a cluster in which some nodes refuse writes: full nodes, and nodes that lack replicas."""
import re
import signal

import clusters
import harness
from clusters import STEADY, Cluster, slot_of
from harness import until

CONF = "redis: { timeout: 1s, connect_timeout: 1s }\n"


class Case(clusters.Case):
    CONF = CONF

    def name_at(self, node, n=0):
        """The n-th name whose slot that master owns."""
        owners = self.c.owners()
        return [x for x in ("name%d" % i for i in range(300)) if owners[slot_of(x)].id == node.id][n]

    def after(self, node, *words):
        """Schedules a command for the end of the test."""
        self.addCleanup(node.cmd, *words)


class Full(Case):
    LEASE = 4 * harness.SLOW

    def test_held_locks_are_renewed_and_slots_come_into_use(self):
        """Two of three anchors are full."""
        d = self.daemon(conf=CONF + "locks: { lease: %ds }\n" % self.LEASE)
        conns = [(self.conn(d), self.name_at(m)) for m in self.c.masters]
        for c, name in conns:
            self.assertIsInstance(c.cmd("LOCK", name, "WAIT", "20s"), int)
        for m in self.c.masters[:2]:
            self.after(m, "CONFIG", "SET", "maxmemory", "0")
            m.cmd("CONFIG", "SET", "maxmemory", "1")
        first = int(d.info("stats")["renewals"])
        until(lambda: int(d.info("stats")["renewals"]) > first + 18, 8 * self.LEASE)  # three locks, for two leases
        self.assertEqual(d.info("stats")["lost"], "0")
        self.assertEqual([c.cmd("UNLOCK", name) for c, name in conns], [0, 0, 0])
        self.assertNotIn("cannot register", d.log())


class Killed(Case):
    LOST = "UNAVAILABLE Redis cannot answer: a connection to the master of slot %d is lost: redis://%s"

    def test_the_refusal_of_a_request_in_flight_names_the_master(self):
        """The master is late with nothing: the connection to it is lost."""
        self.c = Cluster(self.dir, self._keep, replicas=0, args=STEADY)
        d = self.daemon()
        c = self.conn(d)
        self.assertIsInstance(c.cmd("LOCK", "open", "WAIT", "10s"), int)
        node = self.c.owner(slot_of("open"))
        node.signal(signal.SIGSTOP)
        c.ask("LOCK", "{open}2", "NOWAIT")
        until(lambda: int(d.info("redis")["redis_in_flight"]) > 0)
        node.kill()
        self.assertEqual(c.read(), self.LOST % (slot_of("open"), node.addr))
        slot = slot_of("open")
        down = "UNAVAILABLE Redis cannot answer: the master of slot %d is down: redis://%s" % (slot, node.addr)
        until(lambda: c.cmd("LOCK", "{open}3", "NOWAIT") == down)

    def test_the_refusal_does_not_call_a_master_down_for_one_connection(self):
        """The other connections to the master are up."""
        self.c = Cluster(self.dir, self._keep, replicas=0, args=STEADY)
        d = self.daemon(conf="redis: { links: 2 }\n")
        c = self.conn(d)
        self.assertIsInstance(c.cmd("LOCK", "open", "WAIT", "10s"), int)
        node = self.c.owner(slot_of("open"))
        admin = node.conn()
        self.addCleanup(admin.close)

        def waiting():
            """The ids of the daemon's connections whose command the node does not run."""
            return re.findall(r"^id=(\d+) .* name=rlockd .* flags=\w*b", admin.cmd("CLIENT", "LIST"), re.M)
        for _ in range(100):
            until(lambda: not waiting())
            self.assertEqual(admin.cmd("CLIENT", "PAUSE", "60000", "WRITE"), "OK")
            c.ask("LOCK", "{open}2", "NOWAIT")
            until(lambda: int(d.info("redis")["redis_in_flight"]) > 0 and waiting())
            if len(waiting()) == 1 and admin.cmd("CLIENT", "KILL", "ID", waiting()[0]) == 1:
                break
            self.assertEqual(admin.cmd("CLIENT", "UNPAUSE"), "OK")
            self.assertIsInstance(c.read(), int)
            self.assertEqual(c.cmd("UNLOCK", "{open}2"), 0)
        else:
            self.fail("both connections of the daemon wait each time")
        reply = c.read()
        self.assertEqual(admin.cmd("CLIENT", "UNPAUSE"), "OK")
        self.assertEqual(reply, self.LOST % (slot_of("open"), node.addr))


class Evicting(Case):
    def evicting(self):
        """The names at each master, the second of which may evict keys; a daemon that is strict, and its reason."""
        names = [self.name_at(m) for m in self.c.masters]
        # the slots have been used before, so that the eviction policy is the only reason of `strict`
        before = self.daemon(name="before")
        c = self.conn(before)
        self.assertTrue(all(isinstance(c.cmd("LOCK", name, "WAIT", "20s"), int) for name in names))
        self.assertEqual([c.cmd("UNLOCK", name) for name in names], [0, 0, 0])
        self.assertEqual(before.stop(), 0)
        node = self.c.masters[1]
        self.after(node, "CONFIG", "SET", "maxmemory", "0", "maxmemory-policy", "noeviction")
        node.cmd("CONFIG", "SET", "maxmemory", "1gb", "maxmemory-policy", "allkeys-lru")
        for m in self.c.masters:
            self.after(m, "CONFIG", "SET", "cluster-node-timeout", m.cmd("CONFIG", "GET", "cluster-node-timeout")[1])
            m.cmd("CONFIG", "SET", "cluster-node-timeout", "1000")
        d = self.daemon(conf="redis: { strict: true, links: 2 }\n")
        why = "strict: redis://%s may evict locks: its maxmemory_policy is allkeys-lru" % node.addr
        return names, node, d, why

    def test_strict_grants_nothing_at_that_master_and_says_why(self):
        """INFO shows the policy of the master that may evict keys."""
        names, node, d, why = self.evicting()
        c = self.conn(d)
        self.assertIsInstance(c.cmd("LOCK", names[0], "WAIT", "20s"), int)
        self.assertRegex(c.cmd("LOCK", names[1], "NOWAIT"), "^UNAVAILABLE .*" + why)
        info = d.info("redis")
        self.assertRegex(info["redis_refusal"], "^" + why)
        self.assertEqual(info["redis_maxmemory_policy"], "allkeys-lru")
        node.cmd("CONFIG", "SET", "maxmemory-policy", "noeviction")

        def reported():
            """INFO shows no reason any more, without any LOCK"""
            d.advance("1s")
            return d.info("redis")["redis_refusal"] == ""
        until(reported, pause=0.1)

    def test_the_reason_stays_while_one_link_of_locks_is_down(self):
        """The other links serve, so the master is not down; no new link can be made."""
        names, node, d, why = self.evicting()
        c, admin = self.conn(d), node.conn()
        self.addCleanup(admin.close)
        self.assertIsInstance(c.cmd("LOCK", names[0], "WAIT", "20s"), int)
        self.addCleanup(admin.cmd, "CONFIG", "SET", "maxclients", "1000")
        admin.cmd("CONFIG", "SET", "maxclients", "1")
        ids = re.findall(r"^id=(\d+) .* name=rlockd ", admin.cmd("CLIENT", "LIST"), re.M)
        for which in ids:
            lost = int(d.info("stats")["redis_disconnects"])
            self.assertEqual(admin.cmd("CLIENT", "KILL", "ID", which), 1)
            until(lambda: int(d.info("stats")["redis_disconnects"]) > lost)
            if "locks" in d.info("redis")["redis_links_away"]:
                break
        else:
            self.fail("no link of locks is down")
        self.assertRegex(c.cmd("LOCK", names[1], "NOWAIT"), "^UNAVAILABLE .*: " + why)


class Refused(Case):
    def generations(self):
        """The number of generations that have begun, by an anchor at another master."""
        return int(self.c.masters[0].cmd("HGET", "rlock:{54h}:gen", "#").split()[2])

    def refuses_info(self, node):
        """From now on the node refuses INFO, by which each new link asks for the origin."""
        self.after(node, "ACL", "SETUSER", "default", "+info")
        node.cmd("ACL", "LOG", "RESET")
        node.cmd("ACL", "SETUSER", "default", "-info")
        node.cmd("CLIENT", "KILL", "TYPE", "normal")

    def test_a_record_that_cannot_be_created_is_not_one_that_was_lost(self):
        d = self.daemon()
        c = self.conn(d)
        self.assertIsInstance(c.cmd("LOCK", self.name_at(self.c.masters[0]), "WAIT", "20s"), int)
        node = self.c.masters[2]
        name = self.name_at(node)
        self.after(node, "CONFIG", "SET", "min-replicas-to-write", "0")
        node.cmd("CONFIG", "SET", "min-replicas-to-write", "9")
        until(lambda: self.generations() == len(self.c.masters))  # those of the other masters may begin later
        before = self.generations()
        self.assertNotIsInstance(c.cmd("LOCK", name, "WAIT", "3s"), int)
        self.assertEqual(self.generations(), before)
        node.cmd("CONFIG", "SET", "min-replicas-to-write", "0")
        until(lambda: isinstance(c.cmd("LOCK", name, "WAIT", "2s"), int))

    def test_refusals_of_one_node_are_one_line_while_others_answer(self):
        d = self.daemon()
        self.assertIsInstance(d.cmd("LOCK", self.name_at(self.c.masters[0]), "WAIT", "20s"), int)
        node = self.c.masters[1]
        self.refuses_info(node)

        def refused():
            """INFO has been refused ten times"""
            d.advance("1s")
            entry = node.cmd("ACL", "LOG", "1")
            return entry and entry[0][1] >= 10
        until(refused, pause=0.05)
        self.assertEqual(d.log().count("cannot ask for origins"), 1)
        d.advance("1m")
        until(lambda: d.log().count("cannot ask for origins") == 2)

    def test_a_node_that_refuses_info_is_down_for_that_reason(self):
        """The node serves again when it accepts INFO, without a restart of the daemon."""
        d = self.daemon()
        node = self.c.masters[1]
        name = self.name_at(node)
        c = self.conn(d)
        self.assertIsInstance(c.cmd("LOCK", name, "WAIT", "20s"), int)
        self.refuses_info(node)
        why = ": ACL SETUSER default .*\\+info$"  # Redis 7.0 does not name the command in the error

        def counted():
            """INFO has the error of Redis, and the remedy"""
            d.advance("1s")
            return re.search(why, d.info("redis")["redis_last_error"])
        until(counted, pause=0.05)
        self.assertNotIn("no master", d.log())
        node.cmd("ACL", "SETUSER", "default", "+info")

        def used():
            """its slots are used again"""
            d.advance("1s")
            return isinstance(self.conn(d).cmd("LOCK", self.name_at(node, 1), "WAIT", "2s"), int)
        until(used, pause=0.05)
        until(lambda: d.info("redis")["redis_last_error"] == "")  # of each link, until that is up again


if __name__ == "__main__":
    harness.main()
