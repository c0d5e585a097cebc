"""LOCKs that do not wait, or do not wait any longer: one outcome, or a DRAIN, answers very many of them."""
import signal
import time

from hostile import Closed, Scene, send_all


class Crowd:
    n = 60000
    words = "OWNER o%d NOWAIT"
    conf = {"limits": {"pipeline": 65536, "pipeline_bytes": "64MiB", "waiters": 200000, "session_waiters": 200000},
            "redis": {"timeout": "30s"}, "deadlock_delay": 0}
    ping_ms = 25  # in one step the answers took 37 ms
    cycle_ms = 10000  # Redis stands still, or nothing is granted any more

    def prepare(self):
        self.c = [self.connect() for _ in range(3)]

    def ask(self):
        for k, c in enumerate(self.c):
            line = "LOCK hot %s\r\n" % self.words
            send_all(c, "".join(line % i if "%d" in line else line for i in range(k, self.n, 3)).encode())

    def answers(self, known):
        """The time, in ms, until each has an answer that begins like `known`."""
        began = time.monotonic()
        for c in self.c:
            got = b""
            while got.count(b"\n") < self.n // 3:
                more = c.sock.recv(1 << 20)
                if not more:
                    raise Closed("the daemon has closed the connection")
                got += more
            other = [line for line in got.splitlines() if not line.startswith(known)]
            if other:
                raise AssertionError("%d others, such as %r" % (len(other), other[0]))
        return "%d ms until all had their answers" % ((time.monotonic() - began) * 1000)

    def behind_a_slow_redis(self):
        self.redis.signal(signal.SIGSTOP)
        try:
            self.ask()
            time.sleep(1)
        finally:
            self.redis.signal(signal.SIGCONT)


class NowaitsTaken(Crowd, Scene):
    "60,000 NOWAITs of one name behind a slow Redis, which answers that it is taken"

    def attack(self):
        with self.redis.conn() as c:
            assert c.cmd("HSET", "hot", "somebody:1", "1") == 1 and c.cmd("PEXPIRE", "hot", "60000") == 1
        self.behind_a_slow_redis()
        return self.answers((b"$-1",))


class NowaitsGranted(Crowd, Scene):
    "60,000 NOWAITs of one name behind a slow Redis, which grants it to the first"

    def attack(self):
        self.behind_a_slow_redis()
        return self.answers((b"$-1", b":"))


class OnesNowaits(Crowd, Scene):
    "60,000 NOWAITs of one owner for one name with ONCE behind a slow Redis, which grants it"
    words = "OWNER one NOWAIT ONCE"
    ping_ms = 12

    def attack(self):
        self.behind_a_slow_redis()
        return self.answers((b":",))


class Drains(Crowd, Scene):
    "DRAIN with 60,000 waits for one name"
    words = "OWNER o%d"
    grants = False

    def prepare(self):
        super().prepare()
        self.admin = self.connect()
        assert self.admin.cmd("LOCK", "hot") > 0
        self.ask()

    def attack(self):
        began = time.monotonic()
        assert self.admin.cmd("DRAIN") == "OK"
        return "%s, DRAIN %d ms" % (self.answers((b"-DRAINING",)), (time.monotonic() - began) * 1000)
