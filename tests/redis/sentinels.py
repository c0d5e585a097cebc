"""sentinels.py -- a master, its replicas and their sentinels, all private to the test that starts them.

Everything is on loopback, or, for a partition, in two network namespaces with a cable between them (Cable). The files
of the sentinels name the replicas and the other sentinels, so no test has to wait until the sentinels have found these.
"""
import os
import secrets
import subprocess
import time

import harness
from harness import Closed, Conn, Process, free_port, until

NAME = "m"


def tls_words(tls, port):
    """The settings of a server, or a sentinel, that uses TLS alone."""
    return [("port", "0"), ("tls-port", str(port)), ("tls-cert-file", tls[0]), ("tls-key-file", tls[1]),
            ("tls-ca-cert-file", tls[2]), ("tls-auth-clients", "no"), ("tls-replication", "yes")]


class Server(harness.Redis):
    """A redis-server that others reach by TCP. It can be started again with the data that it has."""

    def __init__(self, directory, name, host="127.0.0.1", port=None, args=(), under=(), follows=None, tls=None):
        self.host, self.words, self.under, self.tls = host, args, under, tls
        self.name, self.dump = name, name + ".rdb"
        port = port or free_port()
        super().__init__(directory, name, tcp=True, under=under,
                         args=("--bind", host, "--protected-mode", "no", "--dbfilename", self.dump, *self.at(port),
                               "--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0",
                               "--repl-ping-replica-period", "1", "--repl-timeout", "5",
                               "--replica-announce-ip", host, *args,
                               *(("--replicaof", "%s %d" % (follows.host, follows.port)) if follows else ())))
        self.port = port

    def at(self, port):
        """The words for the ports; with TLS, (certificate, key, authority), it listens on a TLS port alone."""
        return ("--port", str(port)) if self.tls is None else sum(
            [["--" + word, text] for word, text in tls_words(self.tls, port)], [])

    def again(self, follows=None, old=False):
        """Starts another process at the same address: without data, or with the data of its last SAVE."""
        dump = os.path.join(self.directory, self.dump)
        if not old and os.path.exists(dump):
            os.unlink(dump)
        return Server(self.directory, self.name, self.host, self.port, self.words, self.under, follows, self.tls)

    def info(self, field, section="replication"):
        for line in self.cmd("INFO", section).split("\r\n"):
            if line.startswith(field + ":"):
                return line.split(":", 1)[1]
        return None

    def is_master(self):
        """the server reports that it is a master"""
        try:
            return self.info("role") == "master"
        except (OSError, Closed):
            return False

    @property
    def addr(self):
        return "redis://%s:%d" % (self.host, self.port)


class Sentinel(Process):
    def __init__(self, directory, name, host, port, lines, under=()):
        self.path = os.path.join(directory, name + ".sock")
        self.host, self.port = host, port
        self.conf = os.path.join(directory, name + ".conf")
        self.directory, self.name, self.under = directory, name, under
        with open(self.conf, "w") as f:
            f.write("\n".join(["port %d" % port, "bind %s" % host, "unixsocket %s" % self.path, "dir %s" % directory,
                               "protected-mode no", *lines, ""]))
        self._start()

    def _start(self):
        super().__init__([*self.under, "redis-server", self.conf, "--sentinel"], self.directory, self.name)
        until(self.answers)

    def again(self):
        self._start()
        return self

    def answers(self):
        """the sentinel answers"""
        try:
            return self.cmd("PING") is not None
        except (OSError, Closed):
            return False

    def cmd(self, *words, timeout=None):
        with Conn(self.path, timeout) as c:
            return c.cmd(*words)

    def names(self):
        """The port of the master that the sentinel names, 0 when it names none."""
        try:
            return int((self.cmd("SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME, timeout=1) or [0, 0])[1])
        except (OSError, Closed):
            return 0


class Deployment:
    """`spread` places each server and sentinel: the words of a command that it runs under, and its host."""

    def __init__(self, case, replicas=2, sentinels=3, down_after=None, bounded=True, password=None,
                 sentinel_password=None, sides=None, args=(), ports=(),
                 name="", tls=None):
        down_after = down_after or (3000 if bounded else 1000)  # the reason is in replication.h
        self.case, self.dir = case, os.path.join(case.dir, name)
        os.makedirs(self.dir, exist_ok=True)
        here = ((), "127.0.0.1")
        sides = sides or (lambda kind, i: here)
        args = (*(("--min-replicas-to-write", "1", "--min-replicas-max-lag", "1") if bounded else ()), *args)
        args = (*(("--requirepass", password, "--masterauth", password) if password else ()), *args)
        self.password, self.sentinel_password, self.tls = password, sentinel_password, tls
        self.servers = []
        for i in range(1 + replicas):
            under, host = sides("server", i)
            self.servers.append(case._keep(Server(self.dir, "redis%d" % i, host, args=args, under=under,
                                                  follows=self.servers[0] if i else None, tls=tls)))
        self.sentinels = []
        places = []
        for i in range(sentinels):
            under, host = sides("sentinel", i)
            port = ports[i] if i < len(ports) else free_port()
            places.append((under, host, port, secrets.token_hex(20)))
        for i, (under, host, port, _) in enumerate(places):
            self.sentinels.append(case._keep(Sentinel(self.dir, "sentinel%d" % i, host, port,
                                                      self.lines(i, places, down_after), under)))
        until(self.settled)

    def lines(self, i, places, down_after):
        m = self.servers[0]
        out = ["sentinel myid %s" % places[i][3],
               "sentinel monitor %s %s %d %d" % (NAME, m.host, m.port, len(places) // 2 + 1),
               "sentinel down-after-milliseconds %s %d" % (NAME, down_after),
               "sentinel failover-timeout %s 6000" % NAME]
        out += ["sentinel known-replica %s %s %d" % (NAME, r.host, r.port) for r in self.servers[1:]]
        out += ["sentinel known-sentinel %s %s %d %s" % (NAME, host, port, myid)
                for k, (_, host, port, myid) in enumerate(places) if k != i]
        if self.tls:
            out += ["%s %s" % pair for pair in tls_words(self.tls, places[i][2])]
        if self.password:
            out.append("sentinel auth-pass %s %s" % (NAME, self.password))
        if self.sentinel_password:
            out.append("requirepass %s" % self.sentinel_password)
            out.append("sentinel sentinel-pass %s" % self.sentinel_password)
        return out

    def settled(self):
        """all replicas are in step, and every sentinel sees master and replicas"""
        if self.password or self.sentinel_password:
            return all(s.answers() for s in self.sentinels)
        with self.servers[0].conn() as c:
            info = c.cmd("INFO", "replication")
        if info.count("state=online") != len(self.servers) - 1:
            return False
        for s in self.sentinels:
            if any("down" in flags or "disconnected" in flags for flags in self.flags(s)):
                return False
        return True

    @staticmethod
    def flags(sentinel):
        replicas = sentinel.cmd("SENTINEL", "REPLICAS", NAME)
        return [harness.as_map(m)["flags"] for m in [sentinel.cmd("SENTINEL", "MASTER", NAME), *replicas]]

    def url(self, sentinels=None, more=""):
        listed = ",".join(harness.at(s.host, s.port) for s in sentinels or self.sentinels)
        return "sentinel%s:%s/%s%s" % ("+tls" if self.tls else "", listed, NAME, more)

    def master(self, among=None):
        """
        The server that a majority of the sentinels names and that reports itself as a master; None: there is none now.
        """
        names = [s.names() for s in self.sentinels if harness.state(s.pid) not in "XZT"]
        for server in among or self.servers:
            if names.count(server.port) * 2 > len(self.sentinels) and server.running() and \
                    harness.state(server.pid) != "T" and server.is_master():
                return server
        return None

    def other(self, than):
        """The master, when it is another server than that one."""
        return until(lambda: self.master([s for s in self.servers if s is not than]), deadline=30, pause=0.02)

    @staticmethod
    def cut_off(master):
        """From now on no replica receives a write, and none comes back; connected clients stay connected."""
        with master.conn() as c:
            c.cmd("CONFIG", "SET", "requirepass", secrets.token_hex(8))
            c.cmd("CLIENT", "KILL", "TYPE", "replica")

    def replace(self, server, by):
        self.servers[self.servers.index(server)] = self.case._keep(by)
        return by


class Cable:
    """Two network namespaces, private to the test, and a cable between them. None where the test may not make them."""

    hosts = ("10.77.0.1", "10.77.0.2")

    def __init__(self, case):
        self.sleeper = [case._keep(Process(["unshare", "--net", "sleep", "infinity"], case.dir, "side%d" % i))
                        for i in range(2)]
        for p in self.sleeper:
            until(lambda p=p: os.readlink("/proc/%d/ns/net" % p.pid) != os.readlink("/proc/self/ns/net"))
        self.under = [("nsenter", "--target", str(p.pid), "--net", "--") for p in self.sleeper]
        self.must(*self.under[0], "ip", "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns",
                  str(self.sleeper[1].pid))
        for i in range(2):
            self.must(*self.under[i], "ip", "addr", "add", self.hosts[i] + "/24", "dev", "cable")
            for dev in ("lo", "cable"):
                self.must(*self.under[i], "ip", "link", "set", dev, "up")

    @staticmethod
    def allowed():
        words = ["unshare", "--net", "ip", "link", "set", "lo", "up"]
        try:
            return subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL).returncode == 0
        except OSError:
            return False

    @staticmethod
    def must(*words):
        p = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if p.returncode != 0:
            raise AssertionError("failed: %s: %r" % (" ".join(words), p.stdout))

    def side(self, i):
        return self.under[i], self.hosts[i]

    def cut(self):
        for i in range(2):
            self.must(*self.under[i], "ip", "route", "add", "blackhole", self.hosts[1 - i] + "/32")

    def mend(self):
        for i in range(2):
            self.must(*self.under[i], "ip", "route", "del", "blackhole", self.hosts[1 - i] + "/32")
