"""harness.py -- scenes of hostile clients, and how long a bystander waits meanwhile.

A scene is a class below Scene in a file scenes_*.py of this directory; its docstring is one line that names the attack.
Each try has a Redis, a daemon and a bystander of its own. A try is good when the worst PING took at most `ping_ms`, the
worst LOCK or UNLOCK `cycle_ms`, no reply was an error, and the bystander's renewed lock was never lost. One good try of
TRIES is enough: noise only adds time, and a stall of the daemon is in every try. Neither time includes waits for a
processor (bystander.py); RLOCKD_SLOW multiplies both. `must_fail = "PING"` (or the beginning of another reason): the
scene is a control, and passes when every try fails for that reason.
"""
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "redis"))
from harness import DEADLINE, SLOW, Closed, Conn, Redis, Rlockd, die_with_us, until, within  # noqa: E402,F401

# class SlowPatterns(Scene):
#     "PSUBSCRIBE: 2 x 1,024 slow patterns, 250 LOCKs"
#     conf = {"limits": {"pipeline": 4096}}                 # the daemon's configuration, beside LEASE
#
#     def prepare(self):      # before the bystander starts: connections, locks, ... (may be missing)
#         self.c = self.connect()
#     def attack(self):       # this is measured
#         flood([self.c], b"LOCK x\r\n", seconds=2)
#         return "so many were answered"                    # optional: printed in the scene's line

TRIES = 3
LEASE = "1500ms"  # of the renewed locks: a stall of a second loses the bystander's lock
PING_MS = 50
CYCLE_MS = 500


def send_all(conn, data):
    """Sends everything and reads replies meanwhile, so that neither side waits for the other for ever."""
    left, received = memoryview(data), []
    conn.sock.setblocking(False)
    while left:
        readable, writable, _ = select.select([conn.sock], [conn.sock], [], DEADLINE)
        if not readable and not writable:
            raise AssertionError("the daemon neither reads nor writes")
        if readable:
            received.append(take(conn))
        if writable:
            try:
                left = left[conn.sock.send(left[:1 << 18]):]
            except BlockingIOError:
                pass
    conn.sock.settimeout(DEADLINE)
    return b"".join(received)


def take(conn):
    try:
        got = conn.sock.recv(1 << 20)
    except BlockingIOError:
        return b""
    except ConnectionResetError:
        got = b""
    if not got:
        raise Closed("the daemon has closed the connection")
    return got


def pipeline(conn, lines, replies=None):
    """Sends text lines at once and reads as many replies of one line each; returns the number of errors."""
    lines = list(lines)
    data = ("\r\n".join(lines) + "\r\n").encode()
    want = len(lines) if replies is None else replies
    received = send_all(conn, data)
    got, errors = received.count(b"\n"), (b"\n" + received).count(b"\n-")
    last = received[-1:]
    while got < want:
        more = conn.sock.recv(1 << 20)
        if not more:
            raise Closed("the daemon has closed the connection")
        got += more.count(b"\n")
        errors += (last + more).count(b"\n-") + (0 if last else more.startswith(b"-"))
        last = more[-1:]
    return errors


def flood(conns, data, seconds, wish=None):
    """
    Sends `data` (bytes, or a function that makes the next bytes, or a dict with the bytes of each connection) again and
    again on all connections for `seconds`, and drops the replies. A connection that the daemon closes stays closed.
    Returns the number of lines that came.
    """
    make = data.__getitem__ if isinstance(data, dict) else lambda c: data() if callable(data) else data
    left = {c: memoryview(make(c)) for c in conns}
    end, lines = time.monotonic() + seconds, 0
    for c in conns:
        c.sock.setblocking(False)
    while time.monotonic() < end and left and (wish is None or not wish(lines)):
        readable, writable, _ = select.select([c.sock for c in left], [c.sock for c in left], [], 0.1)
        for c in list(left):
            try:
                if c.sock in readable:
                    lines += take(c).count(b"\n")
                if c.sock in writable:
                    left[c] = left[c][c.sock.send(left[c][:1 << 16]):]
                    if not left[c]:
                        left[c] = memoryview(make(c))
            except BlockingIOError:
                pass
            except (Closed, OSError):
                del left[c]
    for c in conns:
        c.sock.settimeout(DEADLINE)
    return lines


class Bystander:
    def __init__(self, daemon):
        self.p = subprocess.Popen([sys.executable, os.path.join(HERE, "bystander.py"), daemon.path, str(daemon.pid)],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=die_with_us, text=True)
        if self.p.stdout.readline() != "ready\n":
            self.end()
            raise AssertionError("the bystander did not get an answer before the attack")

    def end(self):
        """The measured times; {} when it has failed."""
        out, _ = self.p.communicate(timeout=90 * SLOW)
        return json.loads(out.strip().splitlines()[-1]) if out.strip() else {}

    def kill(self):
        if self.p.poll() is None:
            self.p.kill()
            self.p.wait()


class Scene:
    conf = {}
    ping_ms, cycle_ms = PING_MS, CYCLE_MS
    must_fail = None
    grants = True  # False: the attack ends all granting, so the bystander's LOCKs are refused

    def __init__(self, directory):
        self.dir = directory
        self.open = []
        self.redis = self.daemon = None

    def start(self):
        self.redis = Redis(self.dir)
        self.open.append(self.redis.stop)
        self.daemon = Rlockd(self.dir, redis=self.redis.url, conf=self.text_of_conf(), tcp=True)
        self.open.append(self.daemon.stop)

    def text_of_conf(self):
        both = {"locks": {"lease": LEASE}}
        for key, value in self.conf.items():
            both[key] = {**both.get(key, {}), **value} if isinstance(value, dict) else value
        return "".join("%s: %s\n" % (k, json.dumps(v)) for k, v in both.items())

    def connect(self, tcp=False):
        c = self.daemon.tcp_conn() if tcp else self.daemon.conn()
        self.open.append(c.close)
        return c

    def prepare(self):
        pass

    def attack(self):
        raise NotImplementedError

    def close(self):
        for end in reversed(self.open):
            end()


class Verdict:
    """The result of one try."""

    def __init__(self, scene, felt, note):
        self.note, self.why = note or "", []
        self.ping, self.cycle = felt.get("ping", {}), felt.get("cycle", {})
        if not felt:
            self.why.append("the bystander broke")
            return
        if self.ping["net_ms"] > scene.ping_ms * SLOW:
            self.why.append("PING")
        if self.cycle["net_ms"] > scene.cycle_ms * SLOW:
            self.why.append("LOCK")
        self.why += self.ping["errors"] + (self.cycle["errors"] if scene.grants else [])
        if felt["kept"] != "kept":
            self.why.append("the renewed lock: " + felt["kept"])

    def text(self):
        if not self.ping:
            return ", ".join(self.why)
        return "PING %g ms (felt %g), LOCK %g ms (felt %g)%s%s" % (
            self.ping["net_ms"], self.ping["felt_ms"], self.cycle["net_ms"], self.cycle["felt_ms"],
            "; " + self.note if self.note else "", "; " + ", ".join(self.why) if self.why else "")


def one_try(kind):
    directory = tempfile.mkdtemp(prefix="rlockd-hostile.")
    scene, bystander = kind(directory), None
    try:
        scene.start()
        scene.prepare()
        bystander = Bystander(scene.daemon)
        note = scene.attack()
        verdict = Verdict(scene, bystander.end(), note)
        if not scene.daemon.running():
            verdict.why.append("rlockd ended: " + scene.daemon.log()[-2000:])
        return verdict
    finally:
        if bystander is not None:
            bystander.kill()
        scene.close()
        shutil.rmtree(directory, True)


def run_scene(kind):
    """True when the scene passed; prints the measured times in one line."""
    began, passed, tries = time.monotonic(), False, 0
    while tries < TRIES and not (passed and kind.must_fail is None):
        tries += 1
        try:
            verdict = one_try(kind)
            why, text = verdict.why, verdict.text()
        except Exception as e:  # a scene that raises has failed, and the others go on
            text = "broken: %s: %s" % (type(e).__name__, e)
            why = [text]
        if kind.must_fail is None:
            passed = not why
        else:
            passed = any(w.startswith(kind.must_fail) for w in why)
            if not passed:
                break
    print("%-4s %-18s %s: %s (%s%.1f s)" % (
        "ok" if passed else "FAIL", kind.__name__, kind.__doc__, text,
        "" if tries == 1 else "%d tries, " % tries, time.monotonic() - began), flush=True)
    return passed
