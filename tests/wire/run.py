#!/usr/bin/env python3
"""run.py -- the wire scripts: bytes in, bytes out, against the real daemon with a real Redis.

    run.py [--build DIR] [--under "valgrind ..."] [--shape NAME] [SCRIPT...]
                                                                  default: every *.wire here, then PROTOCOL.md

README.md of the directory above describes the language. Each script has a daemon of its own, with an embedded Redis,
or with an empty one of the shape that is named (tests/redis/shapes.py).
"""
import argparse
import ast
import concurrent.futures
import contextlib
import glob
import os
import queue
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(TOP, "tests", "redis"))
import harness  # noqa: E402
import shapes  # noqa: E402

WORKERS = 2
TYPES = {
    "token": r"[1-9][0-9]*",
    "int": r"-?[0-9]+",
    "any": r".*",
    "word": r"\S+",
    "uuid": r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}",
    "owner": r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}:[0-9]+",
}
HOLE = re.compile(r"<(%s)(?:(==|>=|<=|>|<)([A-Za-z]\w*|\d+)|:(\d+)\.\.(\d+))?(?:=([A-Za-z]\w*))?>|<=([A-Za-z]\w*)>"
                  % "|".join(TYPES))
STATEMENT = re.compile(
    r"([a-z][a-z0-9]*)?(>>|>1|>|<<|<=|<~|<&|<eof|<|!(?:eof|close|reset|silent|tcp))(?: (.*))?$")


class Wrong(Exception):
    pass


def unescape(text, script):
    """The bytes of a quoted Python byte literal, after ${} was filled in."""
    try:
        return ast.literal_eval("b" + text.strip())
    except (SyntaxError, ValueError) as e:
        raise Wrong("not a quoted string: %s (%s)" % (text, e))


class Embedded:
    """The Redis that a daemon starts for itself."""

    def conf(self):
        return ""

    def clear(self):
        pass

    def stop(self):
        pass

    def cli(self, daemon):
        return ["redis-cli", "-s", daemon.embedded_redis()[1]]

    def words(self, daemon, command):
        return [*self.cli(daemon), *command]


class Script:
    def __init__(self, name, lines, daemon, shape):
        self.name, self.lines, self.daemon, self.shape = name, lines, daemon, shape
        self.conns, self.named, self.last = {}, {}, {}
        self.control = daemon.conn()
        self.redis_out = None
        self.checks = 0

    # ---- words ----

    def fill(self, text):
        """${t1} is the text that was caught as t1; ${x*600} is x 600 times."""
        def one(m):
            if m.group(2):
                return m.group(1) * int(m.group(2))
            if m.group(1) not in self.named:
                raise Wrong("nothing was caught as %s" % m.group(1))
            return self.named[m.group(1)]
        return re.sub(r"\$\{(.+?)(?:\*(\d+))?\}", one, text)

    def match(self, want, got, whole=True):
        """Compares text with holes with a text."""
        pattern, at, holes = "", 0, []
        for m in HOLE.finditer(want):
            pattern += re.escape(want[at:m.start()])
            at = m.end()
            if m.group(7):
                pattern += re.escape(self.named[m.group(7)])
            else:
                holes.append(m)
                pattern += "(" + TYPES[m.group(1)] + ")"
        pattern += re.escape(want[at:])
        found = (re.fullmatch if whole else re.search)(pattern, got, re.S)
        if not found:
            return False
        for m, text in zip(holes, found.groups()):
            _, op, than, low, high, name, _ = m.groups()
            if op:
                other = int(than) if than.isdigit() else int(self.named[than])
                n = int(text)
                if not {"==": n == other, ">=": n >= other, "<=": n <= other, ">": n > other, "<": n < other}[op]:
                    return False
            if low and not int(low) <= int(text) <= int(high):
                return False
            if name:
                self.named[name] = text
        return True

    def same(self, want, got):
        """Compares a Python literal, with holes in its strings, with a value. A dict names some keys of a map."""
        if isinstance(want, dict):
            try:
                got = harness.as_map(got)
            except AssertionError:
                return False
            return all(k in got and self.same(v, got[k]) for k, v in want.items())
        if isinstance(want, (list, tuple)):
            return isinstance(got, list) and len(want) == len(got) and all(self.same(w, g) for w, g in zip(want, got))
        if isinstance(want, str):
            if got is None or isinstance(got, (list, dict)):
                return False
            return self.match(want, "-" + got if isinstance(got, harness.RError) else str(got))
        return type(want) is type(got) and want == got

    # ---- statements ----

    def conn(self, name):
        if name not in self.conns:
            self.conns[name] = self.daemon.conn()
        return self.conns[name]

    def say(self, c, op, rest):
        if op == ">":
            self.send_line(c, self.fill(rest))
        elif op == ">>":
            c.send(unescape(self.fill(rest), self))
        else:
            for b in unescape(self.fill(rest), self):
                c.send(bytes([b]))

    @staticmethod
    def send_line(c, text):
        c.line(text)
        c.monitors = c.monitors or text.lower() == "monitor"

    def expect(self, c, name, op, rest):
        self.checks += 1
        if op == "<eof":
            try:
                c.fill()
            except harness.Closed:
                if c.buf:
                    raise Wrong("unread before the end: %r" % c.buf)
                return
            raise Wrong("no end, but %r" % c.buf)
        if op == "<":
            got = c.read_line().decode("utf-8", "surrogateescape")
            if not self.match(self.fill(rest), got):
                raise Wrong("got  %s" % got)
        elif op == "<<":
            want = unescape(self.fill(rest), self)
            got = c.read_bytes(len(want))
            if got != want:
                raise Wrong("got  %r" % got)
        elif op == "<=":
            got = c.read()
            if not self.same(ast.literal_eval(self.fill(rest)), got):
                raise Wrong("got  %r" % (got,))
            self.last[name] = got
        else:
            if op == "<~":
                self.last[name] = c.read()
            got = self.last[name]
            if not self.match(self.fill(rest), ("-" if isinstance(got, harness.RError) else "") + str(got),
                              whole=False):
                raise Wrong("not in %r" % (got,))

    def quiet(self, c):
        """No reply came, although the daemon and Redis have both answered since."""
        for _ in range(2):
            self.ask_control("LOCKINFO", "no-such-lock")
        return c.quiet()

    def ask_control(self, *words):
        return self.control.cmd(*words)

    def act(self, c, name, what):
        if what == "!eof":
            c.sock.shutdown(socket.SHUT_WR)
        elif what == "!close":
            self.drop(name)
        elif what == "!reset":
            c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.drop(name)
        else:
            self.checks += 1
            if not self.quiet(c):
                raise Wrong("unexpected: %r" % c.buf)

    def drop(self, name):
        self.conns.pop(name).close()

    def redis_cli(self, rest):
        words = self.shape.words(self.daemon, [self.fill(w) for w in split_words(rest)])
        self.redis_out = subprocess.run(words, capture_output=True, timeout=harness.DEADLINE, stdin=subprocess.DEVNULL,
                                        text=True).stdout.splitlines()

    def nothing_flies(self):
        """Redis has answered all commands: an answer on its way would be late when the clock has moved"""
        return "redis_in_flight:0\r" in self.ask_control("INFO", "redis")

    def line(self, text):
        if text.startswith("@ +"):
            harness.until(self.nothing_flies)
            reply = self.ask_control("DEBUG", "ADVANCE", text[3:].strip())
            if reply != "OK":
                raise Wrong("DEBUG ADVANCE: %s" % reply)
            return
        if text.startswith("$ "):
            self.redis_cli(text[2:])
            return
        if text.startswith("$<"):
            self.checks += 1
            got = self.redis_out.pop(0) if self.redis_out else "(nothing)"
            if not self.match(self.fill(text[2:].strip()), got):
                raise Wrong("got  %s" % got)
            return
        if text.startswith("? "):
            self.wait_for(text[2:])
            return
        m = STATEMENT.match(text)
        if not m:
            raise Wrong("not a statement")
        name, op, rest = m.group(1) or "a", m.group(2), m.group(3) or ""
        if op == "!tcp":
            self.conns[name] = self.daemon.tcp_conn()
            return
        c = self.conn(name)
        if op.startswith(">"):
            self.say(c, op, rest)
        elif op.startswith("<"):
            self.expect(c, name, op, rest)
        else:
            self.act(c, name, op)

    def wait_for(self, rest):
        """
        `? WORDS = TEXT`: asks the daemon until the whole answer contains the text: for changes that come by themselves.
        """
        words, want = rest.split(" = ", 1)
        want, got = self.fill(want), None

        def contains():
            nonlocal got
            if words.startswith("redis-cli "):
                self.redis_cli(words[10:])
                got = "\n".join(self.redis_out)
            else:
                got = str(self.ask_control(*split_words(self.fill(words))))
            return self.match(want, got, whole=False)
        if not harness.within(contains, pause=0.002):
            raise Wrong("still %s" % got)
        self.checks += 1

    def run(self):
        for number, text in self.lines:
            try:
                self.line(text)
            except Exception as e:  # any error belongs to this line
                raise Wrong("%s:%d: %s\n    %s: %s" % (self.name, number, text, type(e).__name__, e))
        for name, c in self.conns.items():
            if not c.monitors and not self.quiet(c):
                raise Wrong("%s: connection %s got, unasked: %r" % (self.name, name, c.buf))
        self.control.close()
        for c in self.conns.values():
            c.close()


class Example(Script):
    """A ```wire block of PROTOCOL.md: `> line`, `< line`, `2> line`; <word> stands for some bytes, always the same."""

    def match(self, want, got, whole=True):
        pattern, at = "", 0
        seen = []
        for m in re.finditer(r"<([a-z][a-z0-9_]*)>", want):
            pattern += re.escape(want[at:m.start()])
            at = m.end()
            if m.group(1) in self.named:
                pattern += re.escape(self.named[m.group(1)])
            elif m.group(1) in seen:
                pattern += "(?P=%s)" % m.group(1)
            else:
                seen.append(m.group(1))
                pattern += "(?P<%s>.+)" % m.group(1)
        found = re.fullmatch(pattern + re.escape(want[at:]), got, re.S)
        if found:
            self.named.update(found.groupdict())
        return bool(found)

    def line(self, text):
        m = re.match(r"(\d*)([<>])(?: (.*))?$", text)
        if not m:
            raise Wrong("not a line of an example")
        c, name, rest = self.conn(m.group(1) or "1"), m.group(1) or "1", m.group(3) or ""
        if m.group(2) == ">":
            self.send_line(c, re.sub(r"<([a-z][a-z0-9_]*)>", lambda w: self.named.get(w.group(1), w.group(0)), rest))
        elif rest == "[closed]":
            self.expect(c, name, "<eof", "")
            self.conns.pop(name)
        else:
            self.expect(c, name, "<", rest)


def split_words(text):
    """Words between blanks, or in "double quotes"."""
    return [m.group(1) if m.group(1) is not None else m.group(2) for m in re.finditer(r'"([^"]*)"|(\S+)', text)]


def parse(path):
    """(title, conf, numbered statements) of one script file."""
    conf, lines, in_conf = "", [], False
    with open(path, encoding="utf-8") as f:
        for number, text in enumerate(f.read().split("\n"), 1):
            if text == "!conf":
                in_conf = True
            elif in_conf and text.startswith("  "):
                conf += text[2:] + "\n"
            elif text.strip() and not text.startswith("#"):
                in_conf = False
                lines.append((number, text.rstrip()))
    return os.path.basename(path), conf, lines


def parse_protocol(path):
    """Each ```wire block of PROTOCOL.md is a script, run with the default configuration."""
    scripts, lines, inside, where = [], [], False, 0
    with open(path, encoding="utf-8") as f:
        for number, text in enumerate(f.read().split("\n"), 1):
            if text.startswith("```wire"):
                inside, lines, where = True, [], number
            elif inside and text.startswith("```"):
                inside = False
                scripts.append(("PROTOCOL.md:%d" % where, "", lines))
            elif inside and text.strip():
                lines.append((number, text.rstrip()))
    return scripts


def run_one(script, build, under, shapes_free):
    """Runs one script with its own daemon. Returns None or the error, and the number of checks."""
    shape = shapes_free.get()
    try:
        return run_on(shape, script, build, under)
    finally:
        shapes_free.put(shape)


def all_up(daemon):
    """
    every link, and every server that INFO lists, is up: a link that connects would be late when the clock moves; and
    the connections of earlier readers have ended: where sessions are limited they count
    """
    fields = daemon.info("redis")
    if daemon.info("clients").get("connected_clients") != "1":
        return False
    nodes = [value for key, value in fields.items() if re.match(r"redis_node\d", key)]
    return fields.get("redis_links_up") == fields.get("redis_links") and \
        all(re.search(",state=(up|voting),", node) for node in nodes)


def run_on(shape, script, build, under):
    title, conf, lines = script
    directory = tempfile.mkdtemp(prefix="rlockd-wire.")
    daemon = None
    checks = 0
    try:
        shape.clear()
        redis = "embedded" if isinstance(shape, Embedded) else None
        daemon = harness.Rlockd(directory, redis=redis, conf=shape.conf() + conf, build=build, under=under, tcp=True)
        harness.until(lambda: all_up(daemon))
        s = (Example if title.startswith("PROTOCOL.md") else Script)(title, lines, daemon, shape)
        s.run()
        checks = s.checks
        daemon.signal(signal.SIGINT)  # at once: named owners would hold through their grace
        status = daemon.wait()
        if status != 0:
            return "%s: the daemon ended with %s\n%s" % (title, status, daemon.log()[-6000:]), checks
        if checks == 0:
            return "%s: checks nothing" % title, 0
        return None, checks
    except (Wrong, AssertionError, harness.Closed, OSError, subprocess.TimeoutExpired) as e:
        log = daemon.log()[-2500:] if daemon else ""
        return "%s\n%s" % (e, log), checks
    finally:
        if daemon is not None:
            if daemon.running():
                daemon.signal(signal.SIGKILL)
            daemon.stop()
        shutil.rmtree(directory, ignore_errors=True)


def main():
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--build", default=harness.BUILD)
    args.add_argument("--under", default="")
    args.add_argument("--shape", choices=sorted(shapes.SHAPES))
    args.add_argument("-v", action="store_true")
    args.add_argument("scripts", nargs="*")
    a = args.parse_args()
    build = os.path.abspath(a.build)
    if a.under or "asan" in build:
        harness.SLOW, harness.DEADLINE = 4.0, 40.0
    scripts = [parse(p) for p in a.scripts or sorted(glob.glob(os.path.join(HERE, "*.wire")))]
    protocol = os.path.join(TOP, "proto", "PROTOCOL.md")
    if not a.scripts and os.path.exists(protocol):
        scripts += parse_protocol(protocol)
    passed = failed = checks = 0
    shapes_free = queue.Queue()
    with contextlib.ExitStack() as stack, concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        for _ in range(WORKERS):
            shapes_free.put(shapes.SHAPES[a.shape]() if a.shape else Embedded())
            stack.callback(shapes_free.queue[-1].stop)
        skipped = []
        for s in scripts[:] if a.shape else []:
            why = shapes_free.queue[0].skips(s[0], s[1] + "\n".join(text for _, text in s[2]))
            if why:
                skipped.append("%s (%s)" % (s[0], why))
                scripts.remove(s)
        if skipped:
            print("wire over %s: not run: %s" % (a.shape, ", ".join(skipped)), flush=True)
        ran = pool.map(lambda s: run_one(s, build, a.under.split(), shapes_free), scripts)
        for script, (wrong, n) in zip(scripts, ran):
            checks += n
            if wrong:
                failed += 1
                print("FAILED %s" % wrong, flush=True)
            else:
                passed += 1
                if a.v:
                    print("ok     %s (%d)" % (script[0], n), flush=True)
    print("wire%s: %d scripts, %d expectations" % (" over " + a.shape if a.shape else "", len(scripts), checks))
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed or not scripts else 0


if __name__ == "__main__":
    sys.exit(main())
