"""harness.py -- a private Redis, a private rlockd and a small client, for tests with real processes.

Everything lives in a directory of its own under /tmp and listens on Unix sockets or free ports. This file starts every
process, ends it by its pid, and each dies with the test that started it. No fixed sleeps: a test polls a condition
until a deadline (`within`, the one place that sleeps; `until` fails at the deadline).
"""
import ctypes
import functools
import os
import random
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
import unittest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("RLOCKD_BUILD", os.path.join(TOP, "build", "test")))
RLOCK = os.path.join(BUILD, "rlock")
SLOW = float(os.environ.get("RLOCKD_SLOW", "1"))  # factor for deadlines: for sanitizers and valgrind
DEADLINE = 10 * SLOW

_libc = ctypes.CDLL(None)
_ports = []  # sockets: while one is bound to the name of a port, no server that is about to start gets that port


def passing(sockets, names=""):
    """Arguments of Rlockd for a daemon that gets the sockets as systemd passes them, with these LISTEN_FDNAMES."""
    code = """if True:
        import os, sys
        n = int(sys.argv[1])
        for i, fd in enumerate([os.dup(int(fd)) for fd in sys.argv[3:3 + n]]):
            os.dup2(fd, 3 + i)
            os.set_inheritable(3 + i, True)  # dup2(3, 3) keeps close-on-exec
        os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(n))
        if sys.argv[2]:
            os.environ["LISTEN_FDNAMES"] = sys.argv[2]
        os.execv(sys.argv[3 + n], sys.argv[3 + n:])
        """
    passed = [s.fileno() for s in sockets]
    return {"under": [sys.executable, "-c", code, str(len(passed)), names, *map(str, passed)], "pass_fds": passed}


def die_with_us():
    """
    In a child, before exec: KILL when the test process ends; signals at their defaults, also those that nohup or & made
    us ignore.
    """
    _libc.prctl(1, int(signal.SIGKILL))
    for sig in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        signal.signal(sig, signal.SIG_DFL)


def within(what, deadline=None, pause=None):
    """
    Calls what() until its answer is true or the deadline is over; returns the last answer. A pause of its own is for a
    test that must not be late; without, pauses grow to a hundredth of what has passed, as waiting in vain (which tests
    do for most mutants) should leave the processors to others.
    """
    began = time.monotonic()
    end = began + (DEADLINE if deadline is None else deadline * SLOW)
    while True:
        answer, now = what(), time.monotonic()
        if answer or now > end:
            return answer
        time.sleep(max(0.005, (now - began) / 100) if pause is None else pause)


def until(what, deadline=None, pause=None):
    """Calls what() until its answer is true, and returns that; fails after the deadline."""
    answer = within(what, deadline, pause)
    if not answer:
        raise AssertionError("not within the deadline: %s" % (what.__doc__ or what))
    return answer


def at(host, port):
    """Host and port in the form of a URL."""
    return ("[%s]:%d" if ":" in host else "%s:%d") % (host, port)


def free_port():
    """
    A port for a server, below the range from which the kernel gives ports to connections: the kernel could give a port
    of that range to a connection before the server binds it, or while the server is down. Other tests do not take the
    port either: a socket of this process is bound to a name for it.
    """
    with open("/proc/sys/net/ipv4/ip_local_port_range") as f:
        end = int(f.read().split()[0])
    for _ in range(1000 if end > 20000 else 0):
        port, mine = random.randrange(10000, end), socket.socket(socket.AF_UNIX)
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
                mine.bind("\0rlockd-test-port-%d" % port)
            except OSError:
                mine.close()
                continue
        _ports.append(mine)
        if len(_ports) > 256:
            _ports.pop(0).close()
        return port
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@functools.lru_cache
def redis_major():
    """The major version of the redis-server on PATH, e.g. 7; Valkey's versions continue Redis's."""
    output = subprocess.run(["redis-server", "--version"], stdout=subprocess.PIPE, check=True).stdout.decode()
    return int(output.split("v=")[1].split(".")[0])


def state(pid):
    """The state of a process in the kernel: R, S, D, T (stopped), Z (a zombie) ...; X: no such process."""
    try:
        with open("/proc/%d/stat" % pid) as f:
            return f.read().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):  # the second: the process was reaped between open and read
        return "X"


def alive(pid):
    """The process runs, and is no zombie."""
    return state(pid) not in "ZX"


class RError(str):
    """An error reply."""


class Push(list):
    """A RESP3 push."""


class Closed(Exception):
    """The peer ended the connection."""


class Conn:
    """One connection, by Unix path or (host, port). Replies are int, str, None, list, dict, RError."""

    def __init__(self, where, timeout=None):
        if isinstance(where, str):
            self.sock = socket.socket(socket.AF_UNIX)
        else:
            self.sock = socket.socket()
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.settimeout(DEADLINE if timeout is None else timeout)

        def connected():
            """there is room in a Unix socket's queue of connections"""
            try:
                self.sock.connect(where)
                return True
            except BlockingIOError:
                return False
        try:
            if not within(connected, pause=0.001):
                raise BlockingIOError("no process accepts connections on %s" % (where,))
        except OSError:
            self.sock.close()
            raise
        self.buf = b""
        self.monitors = False  # it has sent MONITOR

    def fileno(self):
        return self.sock.fileno()

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send(self, data):
        self.sock.sendall(data if isinstance(data, bytes) else data.encode())

    def line(self, text):
        """Sends one text line."""
        self.send(text + "\r\n")

    def ask(self, *words):
        """Sends one request as RESP."""
        out = [b"*%d\r\n" % len(words)]
        for w in words:
            w = w if isinstance(w, bytes) else str(w).encode()
            out.append(b"$%d\r\n%s\r\n" % (len(w), w))
        self.send(b"".join(out))

    def fill(self):
        try:
            got = self.sock.recv(1 << 16)
        except ConnectionResetError:
            got = b""
        if not got:
            raise Closed("after %r" % self.buf[:200])
        self.buf += got

    def read_line(self):
        while b"\n" not in self.buf:
            self.fill()
        text, self.buf = self.buf.split(b"\n", 1)
        return text[:-1] if text.endswith(b"\r") else text

    def read_bytes(self, n):
        while len(self.buf) < n:
            self.fill()
        out, self.buf = self.buf[:n], self.buf[n:]
        return out

    def read(self):
        """Reads one whole value."""
        head = self.read_line().decode("utf-8", "surrogateescape")
        kind, rest = head[:1], head[1:]
        if kind == "+":
            return rest
        if kind == "-":
            return RError(rest)
        if kind == ":":
            return int(rest)
        if kind == "_":
            return None
        if kind in "$=":
            if rest == "-1":
                return None
            body = self.read_bytes(int(rest) + 2)[:-2].decode("utf-8", "surrogateescape")
            return body[4:] if kind == "=" else body
        if kind in "*~>":
            if rest == "-1":
                return None
            items = [self.read() for _ in range(int(rest))]
            return Push(items) if kind == ">" else items
        if kind == "%":
            return {k: v for k, v in [(self.read(), self.read()) for _ in range(int(rest))]}
        raise AssertionError("not RESP: %r" % head)

    def cmd(self, *words):
        """Sends one request and reads one reply."""
        self.ask(*words)
        return self.read()

    def map(self, *words):
        return as_map(self.cmd(*words))

    def maps(self, *words):
        return [as_map(m) for m in self.cmd(*words)]

    def quiet(self):
        """True when no input is there to be read now."""
        if self.buf:
            return False
        self.sock.settimeout(0)
        try:
            self.buf += self.sock.recv(1 << 16)
        except (BlockingIOError, ConnectionResetError):
            pass
        finally:
            self.sock.settimeout(DEADLINE)
        return not self.buf


def as_map(value):
    """A flat array as a dict."""
    if isinstance(value, dict):
        return value
    if not isinstance(value, list) or len(value) % 2:
        raise AssertionError("not a map: %r" % (value,))
    return dict(zip(value[::2], value[1::2]))


class Process:
    """
    A child of the test with its output in a file, in a process group of its own: in a group that no process outside
    looks after (a job of cron, a container) the kernel sends HUP to all when one process is stopped and another ends.
    """

    stop_signal = signal.SIGTERM

    def __init__(self, args, directory, name, env=None, pass_fds=(), **more):
        self.log_path = os.path.join(directory, name + ".log")
        self.log_file = open(self.log_path, "ab")
        full = dict(os.environ)
        full.pop("NOTIFY_SOCKET", None)
        full.update(env or {})
        self.proc = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=self.log_file, stderr=self.log_file,
                                     env=full, preexec_fn=die_with_us, pass_fds=pass_fds, cwd=directory,
                                     process_group=0, **more)
        self.pid = self.proc.pid

    def log(self):
        with open(self.log_path, errors="replace") as f:
            return f.read()

    def signal(self, sig):
        self.proc.send_signal(sig)

    def running(self):
        return self.proc.poll() is None

    def cpu(self):
        """The seconds of processor time that the process has used."""
        with open("/proc/%d/stat" % self.pid) as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def wait(self, deadline=None):
        """Waits for the end of the process and returns the status."""
        return self.proc.wait(DEADLINE if deadline is None else deadline * SLOW)

    def stop(self):
        """Ends the process by its stop signal, and by KILL if it does not end in time."""
        if self.running():
            self.signal(signal.SIGCONT)
            self.signal(self.stop_signal)
            try:
                self.wait()
            except subprocess.TimeoutExpired:
                self.signal(signal.SIGKILL)
                self.wait()
        self.log_file.close()
        return self.proc.returncode

    def kill(self):
        self.signal(signal.SIGKILL)
        self.wait()


class Redis(Process):
    """A private redis-server on a Unix socket (and, if requested, on a port)."""

    def __init__(self, directory, name="redis", tcp=False, args=(), under=(), wait=True, **more):
        self.path = os.path.join(directory, name + ".sock")
        self.port = free_port() if tcp else 0
        super().__init__([*under, "redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--unixsocket",
                          self.path, "--save", "", "--appendonly", "no", "--dir", directory, *args], directory, name,
                         **more)
        self.directory = directory
        self.password = None
        if wait:
            until(self.answers)

    def answers(self):
        """redis-server answers"""
        try:
            with Conn(self.path) as c:
                reply = c.cmd("PING")
                return reply == "PONG" or isinstance(reply, RError)
        except (OSError, Closed):
            return False

    def conn(self):
        return Conn(self.path)

    def cmd(self, *words):
        with self.conn() as c:
            return c.cmd(*words)

    @property
    def url(self):
        return "unix:" + self.path


class Rlockd(Process):
    """A private rlockd. `conf` is YAML put into its file; `redis` a URL or "embedded"."""

    stop_signal = signal.SIGINT  # without a drain

    def __init__(self, directory, redis="embedded", name="rlockd", conf="", args=(), tcp=False, build=None, under=(),
                 env=None, listen=True, wait=True, pass_fds=(), **more):
        self.path = os.path.join(directory, name + ".sock")
        self.directory = directory
        self.conf_path = os.path.join(directory, name + ".yaml")
        self.write_conf(conf)
        binary = os.path.join(build or BUILD, "rlockd")
        words = [*under, binary, "-c", self.conf_path]
        if redis is not None:
            words += ["--redis", redis]
        if listen:
            words += ["--listen", "unix:" + self.path]
            if tcp:
                words += ["--listen", "tcp:127.0.0.1:0"]
        words += args
        super().__init__(words, directory, name, env, pass_fds, **more)
        if wait:
            until(self.ready)
        self.port = self.tcp_port() if tcp else None

    def write_conf(self, text):
        with open(os.open(self.conf_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as f:
            f.write('run_dir: "%s"\n' % self.directory + text)

    def tcp_port(self):
        def found():
            """the port in the log"""
            return re.search(r"tcp:127\.0\.0\.1:([1-9][0-9]*)", self.log())
        return int(until(found).group(1))

    def ready(self):
        """rlockd answers and is connected to its Redis"""
        if not self.running():
            raise AssertionError("rlockd ended with %s:\n%s" % (self.proc.returncode, self.log()))
        try:
            with self.conn() as c:
                return self.redis_up(c)
        except (OSError, Closed):
            return False

    def serving(self):
        """rlockd answers, whatever the state of its Redis"""
        try:
            with self.conn() as c:
                return c.cmd("PING") == "PONG"
        except (OSError, Closed):
            return False

    @staticmethod
    def redis_up(c):
        return re.search(r"^redis_state:up\r?$", c.cmd("INFO", "redis"), re.M) is not None

    def conn(self):
        return Conn(self.path)

    def tcp_conn(self):
        return Conn(("127.0.0.1", self.port))

    def cmd(self, *words):
        with self.conn() as c:
            return c.cmd(*words)

    def advance(self, duration):
        assert self.cmd("DEBUG", "ADVANCE", duration) == "OK"

    def info(self, section):
        """The `key:value` lines of an INFO section."""
        lines = self.cmd("INFO", section).split("\r\n")
        return dict(line.split(":", 1) for line in lines if ":" in line and not line.startswith("#"))

    def embedded_redis(self):
        """(pid, socket path) of its embedded Redis."""
        def found():
            """it has a Redis of its own"""
            for pid in children(self.pid):
                try:
                    with open("/proc/%d/cmdline" % pid) as f:
                        if "redis-server" in f.read().split("\0")[0]:
                            return pid
                except (FileNotFoundError, ProcessLookupError):  # the process has just ended
                    pass
            return None
        return until(found), until(lambda: find_socket(self.directory))

    @property
    def addr(self):
        return "unix:" + self.path


def children(pid):
    with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
        return [int(p) for p in f.read().split()]


def find_socket(directory):
    """The Unix socket below the directory on which a Redis answers."""
    for base, _, files in os.walk(directory):
        for f in files:
            path = os.path.join(base, f)
            try:
                if not f.startswith("rlockd") and stat.S_ISSOCK(os.stat(path).st_mode):
                    return path
            except FileNotFoundError:  # a Redis that starts creates the socket anew
                pass
    return None


class Case(unittest.TestCase):
    """A test with a directory of its own; at the end the processes that it started are ended, newest first."""

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="rlockd-test.")
        self.addCleanup(shutil.rmtree, self.dir, True)
        self.failed_log = []
        self.addCleanup(self.show_logs)

    def show_logs(self):
        result = self._outcome.result
        wrong = any(getattr(t, "test_case", t) is self for t, _ in result.failures + result.errors)
        for p in self.failed_log if wrong else []:
            sys.stderr.write("--- %s\n%s" % (p.log_path, p.log()[-4000:]))

    def _keep(self, p):
        self.addCleanup(p.stop)
        self.failed_log.append(p)
        return p

    def redis(self, **more):
        return self._keep(Redis(self.dir, **more))

    def rlockd(self, **more):
        return self._keep(Rlockd(self.dir, **more))

    def make_run(self, topology):
        """Starts the processes of `make run TOPOLOGY=...`, in a directory like this one; rlockd is ready."""
        for name in ("scripts", "build"):
            os.mkdir(os.path.join(self.dir, name))
        for name in ("rlockd", "rlock"):
            os.symlink(os.path.join(BUILD, name), os.path.join(self.dir, "build", name))
        with open(os.path.join(TOP, "scripts", "run")) as f:
            text = f.read()
        self.assertIn(" --listen tcp:127.0.0.1:5625", text)
        with open(os.open(os.path.join(self.dir, "scripts", "run"), os.O_WRONLY | os.O_CREAT, 0o700), "w") as f:
            f.write(text.replace(" --listen tcp:127.0.0.1:5625", ""))
        p = self._keep(Process([os.path.join(self.dir, "scripts", "run"), topology], self.dir, "run"))
        ready = within(lambda: "rlockd is ready" in p.log() and p.log().endswith("\n\n"), 120)
        self.assertTrue(ready, p.log())
        return p

    def conn(self, daemon, tcp=False):
        c = daemon.tcp_conn() if tcp else daemon.conn()
        self.addCleanup(c.close)
        return c

    @staticmethod
    def reap(p):
        """Reaps a process with pipes, whether it has ended by itself or not."""
        if p.poll() is None:
            p.kill()
        p.wait()
        p.stdout.close()
        p.stderr.close()

    def run_words(self, words, stdin=b"", env=None, timeout=30, cwd=None):
        """Runs a command to its end; returns (status, stdout, stderr)."""
        full = dict(os.environ)
        full.update(env or {})
        p = subprocess.run(words, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=full,
                           timeout=timeout * SLOW, cwd=cwd or self.dir, preexec_fn=die_with_us)
        return p.returncode, p.stdout.decode(errors="replace"), p.stderr.decode(errors="replace")


def main():
    """For `if __name__ == "__main__"`: prints one summary that scripts/check-count reads."""
    unittest.main(verbosity=1)
