"""scenes.py -- the actions of clients during faults: each scene is one function of a Stage.

A scene sends requests and reads replies through Client, which requires that a reply or the end of the connection comes,
and nothing else. It asserts nothing about the replies: with a fault, any refusal is right.
"""
import os
import re
import signal
import socket

from page import harness

PATIENCE = 4.0  # s: a reply, or the end of the connection
REFUSED = "ERR the system takes no more clients"  # sent without a request, to a client that finds no room

CONF = """
redis: { timeout: 250ms, connect_timeout: 250ms, backoff_min: 1ms, backoff_max: 10ms }
locks: { lease: 2s, owner_grace: 30ms, place_grace: 30ms, wait: 1s }
deadlock_delay: 20ms
max_poll: 200ms
drain_timeout: 1s
state_dir: "%(dir)s/state"
log: { level: debug }
http: { listen: "unix:%(dir)s/http.sock" }
rules:
  - { match: "simple*", kind: simple, key: "{name}:lock", tracking: true }
  - { match: "fair*", kind: fair }
  - { match: "rw*", kind: rw }
  - { match: "pool*", kind: semaphore, limit: 2 }
  - { match: "fenced*", kind: fenced }
  - { match: "close*", on_loss: close }
"""


class Wrong(Exception):
    """A violation, whatever failed."""


class Client:
    """One connection. After its end nothing is sent, and nothing is expected."""

    def __init__(self, path):
        self.gone, self.pending, self.pushes = False, [], False
        try:
            self.conn = harness.Conn(path, PATIENCE * harness.SLOW)
        except (ConnectionRefusedError, ConnectionResetError, FileNotFoundError) as e:
            raise Wrong("no process listens any more: %s" % e)

    def send(self, *words):
        """Sends one request; receive() reads its reply later."""
        self.send_bytes(b"".join([b"*%d\r\n" % len(words)] + [b"$%d\r\n%s\r\n" % (len(w), w.encode()) for w in words]),
                        words)

    def send_bytes(self, data, words=("bytes",)):
        if self.gone:
            return
        try:
            self.conn.send(data)
            self.pending.append(words)
        except (BrokenPipeError, ConnectionResetError):
            self.pending.append(words)
            self.drain()

    def drain(self):
        """Reads the bytes that came before the daemon closed the connection."""
        while not self.gone:
            self.pending = self.pending or [("the end",)]
            self.receive()

    def must_end(self, why):
        if self.gone:
            return
        try:
            raise Wrong("%s, and yet %r" % (why, self.conn.read()))
        except harness.Closed:
            self.end()
        except (TimeoutError, socket.timeout):
            raise Wrong("%s, and it stays" % why)

    def end(self):
        self.gone, self.pending = True, []
        self.conn.close()

    def receive(self):
        """The reply of the oldest request that has none; None also when the connection is over."""
        if self.gone:
            return None
        try:
            reply = self.conn.read()
            while self.pushes and is_push(reply):
                reply = self.conn.read()
        except harness.Closed:
            self.end()
            return None
        except (TimeoutError, socket.timeout):
            raise Wrong("no reply to %s" % " ".join(map(str, self.pending[0])))
        if reply == REFUSED and not self.pending[0][0].startswith("RESP3"):
            self.expect_end()
            return None
        self.pending.pop(0)
        return reply

    def expect_end(self):
        try:
            more = self.conn.read()
        except harness.Closed:
            self.end()
            return
        except (TimeoutError, socket.timeout):
            more = "nothing"
        if not (self.pending and isinstance(more, (str, int))):
            raise Wrong("out of memory, and then %r" % (more,))
        self.pending.pop(0)  # it was the reply of a request after all; this one is the next request's
        self.pending and self.pending.pop(0)

    def ask(self, *words):
        self.send(*words)
        while self.pending:
            reply = self.receive()
        return None if self.gone else reply

    def check(self):
        """No reply is missing, and none came without a request."""
        while self.pending:
            self.receive()
        if not self.gone and not self.pushes and self.ask("PING") != "PONG" and not self.gone:
            raise Wrong("a reply more than was asked for")


def is_push(reply):
    return isinstance(reply, list) and len(reply) > 0 and reply[0] in ("message", "pmessage") or \
        isinstance(reply, str) and re.match(r"[0-9]+\.[0-9]+ \[", reply) is not None


class Stage:
    """A daemon on a private Redis, and the clients of one run of a scene."""

    def __init__(self, daemon, redis):
        self.daemon, self.redis = daemon, redis
        self.clients, self.names = [], set()

    def client(self):
        c = Client(self.daemon.path)
        self.clients.append(c)
        return c

    def name(self, text):
        self.names.add(text)
        return text

    def close(self):
        for c in self.clients:
            c.conn.close()
        self.clients = []

    def http(self, path):
        """A complete answer, or none."""
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(6 * harness.SLOW)
        got = b""
        try:
            s.connect(os.path.join(self.daemon.directory, "http.sock"))
            s.sendall(b"GET %s HTTP/1.0\r\n\r\n" % path.encode())
            while True:
                more = s.recv(1 << 16)
                if not more:
                    break
                got += more
        except (ConnectionResetError, BrokenPipeError):
            return b""
        except (TimeoutError, socket.timeout):
            raise Wrong("http: no end after %r" % got[-100:])
        finally:
            s.close()
        head, _, body = got.partition(b"\r\n\r\n")
        size = re.search(rb"Content-Length: ([0-9]+)", head)
        if got and not re.match(rb"HTTP/1\.[01] [2-5][0-9][0-9] ", got):
            raise Wrong("http: %r" % got[:100])
        if size and int(size.group(1)) == len(body) and b" 200 " in head[:16] and path == "/metrics" and \
                not body.endswith(b'"} 1\n'):
            raise Wrong("http: half of the metrics as if they were all: ...%r" % body[-60:])
        return body


# ---- the scenes ----

def lock_unlock(st):
    a, n = st.client(), st.name("plain")
    a.ask("LOCK", n)
    a.ask("LOCK", n, "WAIT", "100ms")
    a.ask("RENEW", n, "3s")
    a.ask("UNLOCK", n)
    a.ask("UNLOCK", n)


def of_kind(name):
    def scene(st):
        a, b, n = st.client(), st.client(), st.name(name)
        a.ask("LOCK", n)
        b.ask("LOCK", n, "NOWAIT")
        a.ask("RENEW", n, "3s")
        a.ask("UNLOCK", n)
        b.ask("UNLOCK", n)
    scene.__name__ = "kind_" + name
    return scene


def waiters(st):
    n = st.name("wanted")
    a, b, c, d = (st.client() for _ in range(4))
    a.ask("LOCK", n)
    b.send("LOCK", n, "WAIT", "500ms")
    c.send("LOCK", n, "WAIT", "500ms")
    d.ask("LOCK", n, "WAIT", "30ms")
    a.ask("UNLOCK", n)
    b.receive()
    b.ask("UNLOCK", n)
    c.receive()
    c.ask("UNLOCK", n)


def waiter_dies(st):
    n = st.name("left")
    a, b, c = (st.client() for _ in range(3))
    a.ask("LOCK", n)
    b.send("LOCK", n, "WAIT", "500ms")
    c.send("LOCK", n, "WAIT", "500ms")
    st.client().ask("WAITERS", n)
    b.end()
    a.end()
    c.receive()


def foreign_holder(st):
    """A client without a daemon has the lock, releases it and publishes that: a watch, a hint, an attempt."""
    n = st.name("outside")
    a, b = st.client(), st.client()
    with st.redis.conn() as r:
        r.cmd("HSET", n, "somebody:1", "1")
        r.cmd("PEXPIRE", n, "1000")
        a.send("LOCK", n, "WAIT", "500ms")
        b.ask("LOCKS", n)
        r.cmd("DEL", n)
        r.cmd("PUBLISH", "redisson_lock__channel:{%s}" % n, "0")
    a.receive()
    a.ask("UNLOCK", n)


def foreign_tracked(st):
    n = st.name("simple-outside")
    a, b = st.client(), st.client()
    with st.redis.conn() as r:
        r.cmd("SET", n + ":lock", "somebody", "PX", "1000")
        a.send("LOCK", n, "WAIT", "500ms")
        b.ask("LOCKS", n)
        r.cmd("DEL", n + ":lock")
    a.receive()
    a.ask("UNLOCK", n)


def fair_queue(st):
    n = st.name("fair-queue")
    a, b, c = (st.client() for _ in range(3))
    a.ask("LOCK", n)
    b.send("LOCK", n, "WAIT", "400ms")
    c.send("LOCK", n, "WAIT", "60ms")
    c.receive()
    a.ask("UNLOCK", n)
    b.receive()
    b.ask("UNLOCK", n)


def readers_writers(st):
    n = st.name("rw-book")
    a, b, c = (st.client() for _ in range(3))
    a.ask("LOCK", n, "SHARED")
    b.ask("LOCK", n, "SHARED", "NOWAIT")
    c.send("LOCK", n, "WAIT", "400ms")
    a.ask("UNLOCK", n)
    b.ask("UNLOCK", n)
    c.receive()
    a.ask("LOCK", n, "SHARED", "WAIT", "20ms")
    c.ask("UNLOCK", n)


def several(st):
    a, b = st.client(), st.client()
    x, y, z = st.name("m1"), st.name("m2"), st.name("m3")
    a.ask("MLOCK", "3", x, y, z)
    b.send("MLOCK", "2", y, z, "WAIT", "300ms")
    a.ask("MUNLOCK", "3", x, y, z)
    b.receive()
    b.ask("MUNLOCK", "2", y, z)
    b.ask("MLOCK", "2", x, y, "NOWAIT")


def deadlock(st):
    a, b = st.client(), st.client()
    x, y = st.name("d1"), st.name("d2")
    a.ask("LOCK", x)
    b.ask("LOCK", y)
    a.send("LOCK", y, "WAIT", "300ms")
    b.send("LOCK", x, "WAIT", "300ms")
    a.receive()
    b.receive()
    a.ask("INFO", "tree")


def named_owners(st):
    a, b = st.client(), st.client()
    n = st.name("named")
    a.ask("LOCK", n, "OWNER", "alice")
    b.ask("LOCK", n, "OWNER", "bob", "NOWAIT")
    b.ask("LOCK", n, "OWNER", "alice")
    a.end()
    b.ask("UNLOCK", n, "OWNER", "alice")
    b.ask("UNLOCK", n, "OWNER", "alice")


def subscribers(st):
    a, b, c = (st.client() for _ in range(3))
    n = st.name("received")
    b.pushes = c.pushes = True
    b.ask("SUBSCRIBE", "lock:" + n)
    b.ask("PSUBSCRIBE", "session:*")
    c.ask("HELLO", "3")
    c.ask("SUBSCRIBE", "lock:" + n)
    a.ask("LOCK", n)
    a.ask("UNLOCK", n)
    b.ask("UNSUBSCRIBE", "lock:" + n)


def monitor(st):
    a, b = st.client(), st.client()
    b.pushes = True
    b.ask("MONITOR")
    a.ask("LOCK", st.name("seen"), "NOWAIT")
    a.ask("CLIENT", "LIST")


def client_commands(st):
    a, b = st.client(), st.client()
    a.ask("HELLO", "2", "SETNAME", "one")
    a.ask("CLIENT", "SETNAME", "somebody-with-a-name")
    a.ask("CLIENT", "SETINFO", "LIB-NAME", "lib")
    a.ask("CLIENT", "LIST")
    a.ask("CLIENT", "INFO")
    i = b.ask("CLIENT", "ID")
    if isinstance(i, int):
        a.ask("CLIENT", "KILL", "ID", str(i))
    a.ask("RESET")


def asking(st):
    a, b = st.client(), st.client()
    n = st.name("asked")
    a.ask("LOCK", n)
    b.send("LOCK", n, "WAIT", "40ms")
    a.ask("LOCKINFO", n)
    a.ask("LOCKINFO", "not-held")
    for words in (["LOCKS"], ["WAITERS", n], ["SESSIONS"], ["OWNERS"], ["INFO"], ["INFO", "tree"], ["COMMAND"],
                  ["HELP", "lock"], ["CONFIG", "GET", "*"], ["COMMAND", "DOCS", "LOCK"]):
        a.ask(*words)
    b.receive()


def pipelined(st):
    """Answers behind a request that waits: slots, deferred commands, a reply that is put together later."""
    a, b = st.client(), st.client()
    n = st.name("piped")
    a.ask("LOCK", n)
    b.send("LOCK", n, "WAIT", "60ms")
    for words in (["PING"], ["LOCKS", n], ["LOCK", st.name("piped2"), "NOWAIT"], ["CLIENT", "LIST"],
                  ["ECHO", "x" * 3000], ["UNLOCK", n]):
        b.send(*words)
    while b.pending:
        b.receive()


def broken_requests(st):
    a, b = st.client(), st.client()
    a.ask("LOCK")
    a.ask("NO-SUCH-COMMAND", "x" * 200)
    a.ask("LOCK", st.name("ok"), "WAIT", "never")
    b.send_bytes("*1\r\n$x\r\n")
    b.receive()
    b.must_end("it lost its framing")


def front(st):
    a, b = st.client(), st.client()
    n = st.name("front")
    a.ask("SET", n, "v1", "NX", "PX", "1500")
    b.ask("SET", n, "v2", "NX", "PX", "1500")
    b.ask("GET", n)
    a.ask("EVALSHA", "1cac51482acf5858da00f6d685d68f886cd6b6b2", "1", n, "v1", "1500")
    a.ask("DEL", n)


def http(st):
    for path in ("/healthz", "/readyz", "/metrics", "/nothing"):
        st.http(path)


def redis_cut(st):
    """Every link of the daemon is cut while one owner holds and others wait; then the scripts are gone as well."""
    a, b = st.client(), st.client()
    n = st.name("cut")
    a.ask("LOCK", n)
    b.send("LOCK", n, "WAIT", "300ms")
    with st.redis.conn() as r:
        r.cmd("CLIENT", "KILL", "TYPE", "normal")
        r.cmd("CLIENT", "KILL", "TYPE", "pubsub")
    a.ask("PING")
    with st.redis.conn() as r:
        r.cmd("SCRIPT", "FLUSH")
    a.ask("UNLOCK", n)
    b.receive()
    b.ask("LOCKINFO", n)
    b.ask("LOCK", st.name("cut2"), "WAIT", "200ms")


def redis_down(st):
    """Requests that come while no link is up are answered all the same."""
    a, b = st.client(), st.client()
    n = st.name("down")
    with st.redis.conn() as r:
        r.cmd("CLIENT", "KILL", "TYPE", "normal")
    a.ask("LOCK", n, "NOWAIT")
    a.ask("LOCKINFO", n)
    b.ask("MLOCK", "2", n, st.name("down2"), "WAIT", "50ms")
    a.ask("UNLOCK", n)


def batch(st):
    """Many names of several kinds in one turn, released together by the end of the connection."""
    a = st.client()
    for i in range(12):
        a.send("LOCK", st.name("%s-b%d" % (("simple", "fair", "b")[i % 3], i)), "NOWAIT")
    while a.pending:
        a.receive()
    a.end()
    st.client().ask("PING")


def lease_over(st):
    a = st.client()
    n = st.name("close-me")
    a.ask("LOCK", n, "LEASE", "1s")
    a.ask("BREAK", n)
    a.ask("PING")


def reload(st):
    a = st.client()
    st.daemon.signal(signal.SIGHUP)
    for _ in range(3):
        a.ask("PING")  # each is a turn of the loop, and the signal is handled in one of the first two
    a.ask("LOCK", st.name("reloaded"), "NOWAIT")


SCENES = [lock_unlock, of_kind("simple"), of_kind("fair"), of_kind("rw"), of_kind("pool"), of_kind("fenced"), waiters,
          waiter_dies, foreign_holder, foreign_tracked, fair_queue, readers_writers, several, deadlock, named_owners,
          subscribers, monitor, client_commands, asking, pipelined, broken_requests, front, http, redis_cut, redis_down,
          batch, lease_over, reload]
