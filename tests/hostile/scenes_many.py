"""Very many of one sort: connections that send at once, readers and waiters of one name."""
import resource
import time

from hostile import Scene, send_all, take, until


class Talkers(Scene):
    "15,000 connections have sent 2,000 PINGs each, which takes the daemon some seconds"
    conf = {"limits": {"sessions": 18000}}
    n = 15000

    def prepare(self):
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.many = [self.connect() for _ in range(self.n)]
        for c in self.many:
            c.sock.sendall(b"PING\r\n" * 2000)

    def attack(self):
        time.sleep(2)


class WaitersSentAway(Scene):
    "100,000 wait for one name on 100 connections, and then its key is an application's"
    conf = {"limits": {"pipeline": 65536, "waiters": 200001, "session_waiters": 100000}, "deadlock_delay": 0}
    n, connections = 100000, 100

    def prepare(self):
        each = self.n // self.connections
        self.holder = self.connect()
        assert self.holder.cmd("LOCK", "hot", "LEASE", "10m") > 0
        self.many = [self.connect() for _ in range(self.connections)]
        for i, c in enumerate(self.many):
            send_all(c, b"".join(b"LOCK hot OWNER o%d:%d\r\n" % (i, k) for k in range(each)))

        def all_wait():
            """all of them wait"""
            return self.daemon.info("clients").get("blocked_clients") == str(self.n)
        until(all_wait)

    def attack(self):
        with self.redis.conn() as c:
            assert c.cmd("SET", "hot", "theirs") == "OK"
        self.holder.cmd("UNLOCK", "hot")
        began = time.monotonic()
        for c in self.many:
            received = 0
            while received < self.n // self.connections:
                received += take(c).count(b"\n")
        return "%d ms until all knew" % ((time.monotonic() - began) * 1000)


class Vanishers(Scene):
    "4,000 connections send 400 LOCKs each, which wait for ever, and close at once"
    conf = {"limits": {"sessions": 18000}}
    n, each = 4000, 400

    def sessions(self):
        return int(self.daemon.info("clients")["connected_clients"])

    def attack(self):
        before = self.sessions()
        for _ in range(self.n):
            with self.daemon.conn() as c:
                c.sock.sendall(b"LOCK z WAIT forever\r\n" * self.each)
        began = time.monotonic()

        def all_ended():
            """all sessions but those of the bystander have ended"""
            return self.sessions() <= before
        until(all_ended)
        took = (time.monotonic() - began) * 1000
        run = int(self.daemon.info("stats")["total_commands_processed"])
        assert run < self.n * self.each / 4, "%d requests were run for closed connections" % run
        return "%d of %d requests were run; the last session ended %d ms after the last close" % (
            run, self.n * self.each, took)
