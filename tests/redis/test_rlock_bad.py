#!/usr/bin/env python3
"""rlock and faults around it: a daemon that is none, or sends odd answers, and system calls that fail."""
import fcntl
import os
import resource
import socket
import subprocess
import sys
import termios
import threading
import time

import harness
from harness import Case, until

RLOCK = os.path.join(harness.BUILD, "rlock")
GRANT = b"*4\r\n$5\r\ntoken\r\n$1\r\n5\r\n$8\r\nlease_ms\r\n:%d\r\n"
USUAL = {"CLIENT": b":7\r\n", "SUBSCRIBE": b"*3\r\n$9\r\nsubscribe\r\n$9\r\nsession:7\r\n:1\r\n", "LOCK": GRANT % 60000,
         "UNLOCK": b":0\r\n", "CANCEL": b":0\r\n"}
NONSENSE = b"HTTP/1.1 400 Bad Request\r\n"
MESSAGE = b"*3\r\n$7\r\nmessage\r\n$9\r\nsession:7\r\n$%d\r\n%s\r\n"


def grant(lease_ms, token):
    return GRANT.replace(b"$1\r\n5", b"$%d\r\n%s" % (len(token), token)) % lease_ms


class Daemon(threading.Thread):
    """
    A false rlockd, which sends what the test wants, at a path or at (host, port).

    answers: for each command its answer: bytes, or a list of them, one for each time that the command comes. None
    closes the connection, b"" is no answer.
    """

    def __init__(self, path, answers):
        super().__init__(daemon=True)
        self.answers = {word: list(a) if isinstance(a, list) else a for word, a in {**USUAL, **answers}.items()}
        self.requests, self.links, self.arrived = [], {}, threading.Condition()
        self.listener = socket.socket(socket.AF_UNIX if isinstance(path, str) else socket.AF_INET)
        self.listener.bind(path)
        self.listener.listen(4)
        self.start()

    def run(self):
        while True:
            try:
                link, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(link,), daemon=True).start()

    def serve(self, link):
        stream = link.makefile("rb")
        try:
            while True:
                head = stream.readline()
                if not head:
                    return
                words = []
                for _ in range(int(head[1:])):
                    n = int(stream.readline()[1:])
                    words.append(stream.read(n + 2)[:-2].decode())
                answer = self.answer_to(words, link)
                if answer is None:
                    return
                link.sendall(answer)
        except OSError:
            pass
        finally:
            stream.close()
            link.close()

    def answer_to(self, words, link):
        with self.arrived:
            self.requests.append(words)
            self.links[words[0]] = link
            self.arrived.notify_all()
            answer = self.answers[words[0]]
            if isinstance(answer, list):
                answer = answer.pop(0) if len(answer) > 1 else answer[0]
        return answer(self) if callable(answer) else answer

    def wait_for(self, word, times=1):
        with self.arrived:
            if not self.arrived.wait_for(lambda: sum(w[0] == word for w in self.requests) >= times, harness.DEADLINE):
                raise AssertionError("no client sent %s: %s" % (word, self.requests))

    def push(self, word, data):
        """Sends data, unasked, on the connection of that command; None shuts the connection down."""
        link = self.links[word]
        link.shutdown(socket.SHUT_RDWR) if data is None else link.sendall(data)

    def unread(self, word):
        """Bytes that were sent on the connection of that command and that rlock has not read."""
        left = bytearray(4)
        fcntl.ioctl(self.links[word], termios.TIOCOUTQ, left)
        return int.from_bytes(left, sys.byteorder)

    def close(self):
        """Accepts no more connections; open ones stay."""
        try:
            self.listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it was closed before
        self.listener.close()


class Bad(Case):
    def daemon(self, **answers):
        path = os.path.join(self.dir, "false.sock")
        if os.path.exists(path):
            os.unlink(path)
        self.d = Daemon(path, answers)
        self.addCleanup(self.d.close)
        return path

    def rlock(self, *words, path=None, env=None, **answers):
        """(status, stderr) of rlock with a daemon that gives these answers."""
        path = path or self.daemon(**answers)
        status, out, err = self.run_words([RLOCK, "-s", path, *words], env=env)
        self.assertEqual(out, "")
        return status, err

    def runs(self, *words, **answers):
        """rlock run, with a command that writes when it runs and when it receives TERM."""
        path = self.daemon(**answers)
        p = subprocess.Popen([RLOCK, "-s", path, "run", "x", *words, "--", "sh", "-c",
                              "trap 'echo term; exit 3' TERM; echo ready; while :; do sleep 0.01; done"],
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             preexec_fn=harness.die_with_us)
        self.addCleanup(self.reap, p)
        self.assertEqual(p.stdout.readline(), b"ready\n")
        return p

    def assert_lost(self, p, why):
        self.assertEqual(p.wait(harness.DEADLINE), 79)
        self.assertEqual(p.stdout.read(), b"term\n")
        self.assertIn(why, p.stderr.read().decode())


class Before(Bad):
    """Before the grant: an answer that is no grant starts no command."""

    def refused(self, status, why, **answers):
        mark = os.path.join(self.dir, "ran")
        got, err = self.rlock("run", "x", "--", "touch", mark, **answers)
        self.assertEqual((got, err), (status, "rlock: x: %s\n" % why))
        self.assertFalse(os.path.exists(mark))

    def test_our_client_id(self):
        self.refused(69, "refused: NOAUTH Authentication required.", CLIENT=b"-NOAUTH Authentication required.\r\n")
        self.refused(69, "cannot reach rlockd: the daemon closed the connection", CLIENT=None)
        self.refused(69, "cannot reach rlockd: the reply is not rlockd's", CLIENT=NONSENSE)

    def test_events(self):
        self.refused(69, "refused: LIMIT too many", SUBSCRIBE=b"-LIMIT too many\r\n")
        self.refused(69, "cannot reach rlockd: the daemon closed the connection", SUBSCRIBE=None)

    def test_only_one_connection(self):
        path = os.path.join(self.dir, "false.sock")
        self.refused(69, "cannot reach rlockd: %s: Connection refused" % path,
                     CLIENT=lambda d: d.close() or USUAL["CLIENT"])

    def test_the_answer(self):
        self.refused(75, "busy", LOCK=b"$-1\r\n")
        self.refused(75, "busy", LOCK=b"*-1\r\n")
        self.refused(64, "refused: ERR syntax error", LOCK=b"-ERR syntax error\r\n")
        self.refused(69, "refused: LIMIT too many", LOCK=b"-LIMIT too many\r\n")
        for odd in (b"+OK\r\n", b":5\r\n", b"*0\r\n", b"*1\r\n:5\r\n", grant(0, b"5"), grant(1000, b"-5"),
                    grant(1000, b"x")):
            self.refused(69, "refused: the reply is not rlockd's", LOCK=odd)

    def test_what_is_no_answer(self):
        for odd in (NONSENSE, b"\r\n", b":x\r\n", b"$-2\r\n", b"$x\r\n", b"*-2\r\n", b"*999999999999\r\n",
                    b"*4194305\r\n", b"*1\r\n" * 20, b"*1\r\n:\r\n"):
            self.refused(69, "while waiting: the reply is not rlockd's", LOCK=odd)

    GONE = "the daemon closed the connection"

    def waits_on(self, status, why, *options, again="waiting goes on: " + GONE, **answers):
        mark = os.path.join(self.dir, "ran")
        got, err = self.rlock("run", "x", *options, "--", "touch", mark, **answers)
        self.assertEqual((got, err), (status, "rlock: x: %s\nrlock: x: %s\n" % (again, why)))
        self.assertFalse(os.path.exists(mark))

    def test_it_closes_while_we_wait(self):
        """rlock tries until -w is over; -n has no time left."""
        self.waits_on(69, "while waiting: " + self.GONE, "-w", "300ms", LOCK=None)
        self.assertGreater([w[0] for w in self.d.requests].count("LOCK"), 1)
        mark = os.path.join(self.dir, "ran")
        self.assertEqual(self.rlock("run", "x", "-n", "--", "touch", mark, LOCK=None),
                         (69, "rlock: x: while waiting: %s\n" % self.GONE))
        self.assertFalse(os.path.exists(mark))

    def test_answers_after_it_was_closed(self):
        """Only an answer that another attempt cannot change ends the wait; no attempt takes the lock twice."""
        self.waits_on(75, "busy", LOCK=[None, b"-DRAINING it ends\r\n", b"-UNAVAILABLE Redis cannot answer\r\n",
                                        b"-LIMIT too many\r\n", b"-LOST it was held and has been lost\r\n", b"$-1\r\n"])
        locks = [w for w in self.d.requests if w[0] == "LOCK"]
        self.assertEqual((len(locks), [w[7:] for w in locks]), (6, [["ONCE"]] * 6))
        self.assertEqual(len({tuple(w) for w in locks}), 1)
        self.waits_on(64, "refused: ERR syntax error", LOCK=[None, b"-ERR syntax error\r\n"])
        self.waits_on(75, "busy", again="waiting goes on: DRAINING it ends",
                      LOCK=[b"-DRAINING it ends\r\n", b"$-1\r\n"])
        self.waits_on(75, "busy", CLIENT=[b":7\r\n", b"-ERR max number of clients reached\r\n", b":7\r\n"],
                      LOCK=[None, b"$-1\r\n"])

    def test_a_client_that_is_not_let_in_again(self):
        for word in (b"NOAUTH", b"WRONGPASS", b"NOPERM"):
            self.waits_on(69, "while waiting: %s no" % word.decode(), LOCK=None,
                          CLIENT=[b":7\r\n", b"-%s no\r\n" % word])

    def test_the_daemon_begins_at_another_address(self):
        """The name is resolved again where its former address does not answer."""
        source = """#include <dlfcn.h>
                    #include <netdb.h>
                    #include <stdio.h>
                    #include <string.h>
                    int getaddrinfo(const char *host, const char *port, const struct addrinfo *want,
                                    struct addrinfo **all)
                    {
                        int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **) =
                            dlsym(RTLD_NEXT, "getaddrinfo");
                        char now[40] = "";
                        FILE *f = strcmp(host, "rlockd.example") == 0 ? fopen("%s", "r") : NULL;

                        if (f != NULL) {
                            fscanf(f, "%%39s", now);
                            fclose(f);
                        }
                        return real(f != NULL ? now : host, port, want, all);
                    }
                    """
        where, lib, port = os.path.join(self.dir, "where"), os.path.join(self.dir, "where.so"), harness.free_port()
        subprocess.run(["cc", "-w", "-D_GNU_SOURCE", "-x", "c", "-shared", "-fPIC", "-o", lib, "-", "-ldl"],
                       input=(source % where).encode(), check=True)

        def daemon(host, **answers):
            with open(where, "w") as f:
                f.write(host)
            d = Daemon((host, port), answers)
            self.addCleanup(d.close)
            return d

        def move(d):
            d.close()
            daemon("127.0.0.2", LOCK=[None, b"$-1\r\n"])

        daemon("127.0.0.1", LOCK=move)
        self.assertEqual(self.rlock("run", "x", "--", "true", path="tcp:rlockd.example:%d" % port,
                                    env={"LD_PRELOAD": lib}),
                         (75, "rlock: x: waiting goes on: %s\nrlock: x: busy\n" % self.GONE))

    def test_what_is_left_of_the_wait(self):
        self.waits_on(75, "busy", "-w", "60s", LOCK=[None, b"$-1\r\n"])
        first, second = [w for w in self.d.requests if w[0] == "LOCK"]
        self.assertEqual((first[7:], second[7], second[9]), (["WAIT", "60s", "ONCE"], "WAIT", "ONCE"))
        self.assertTrue(50000 < int(second[8].removesuffix("ms")) < 60000, second)

    def test_it_closes_the_other_one_while_we_wait(self):
        def shut(d):
            d.push("SUBSCRIBE", None)
            return b""

        self.waits_on(69, "while waiting: " + self.GONE, "-w", "300ms", LOCK=shut)

    def test_in_pieces(self):
        def pieces(d):
            for byte in GRANT % 60000:
                d.push("LOCK", bytes([byte]))
                until(lambda: d.unread("LOCK") == 0, pause=0)
            return b""

        self.assertEqual(self.rlock("run", "x", "--", "true", LOCK=pieces), (0, ""))

    def test_granted_after_long_and_lost_meanwhile(self):
        """
        Much of the lease may be over when its grant is read: rlock asks for the lock again before it runs the command.
        """
        def late(d):
            time.sleep(0.15)  # a sixth of the lease and more
            return GRANT % 600

        for second, why in ((b"-LOST the lock was held and has been lost\r\n", "lock lost: the daemon says so"),
                            (grant(60000, b"6"), "lock lost: the daemon says so"),
                            (None, "lock lost: the daemon closed the connection")):
            self.refused(79, why, LOCK=[late, second])
        self.assertEqual(self.rlock("run", "x", "--", "true", LOCK=[late, GRANT % 600]), (0, ""))
        words = [w[0] for w in self.d.requests]
        self.assertEqual((words[:4], words[-1]), (["CLIENT", "SUBSCRIBE", "LOCK", "LOCK"], "UNLOCK"))
        request = self.d.requests[3]
        self.assertEqual(request[:4] + request[7:], ["LOCK", "x", "FULL", "OWNER", "NOWAIT", "ONCE"])


class While(Bad):
    """While the command runs: the first sign that the lock is lost ends the command."""

    def test_the_event(self):
        p = self.runs()
        self.d.push("SUBSCRIBE", MESSAGE % (9, b"granted 5") + b":1\r\n" + MESSAGE % (3, b"los"))
        self.d.push("SUBSCRIBE", MESSAGE % (6, b"lost 5"))
        self.assert_lost(p, "lock lost: the daemon says so")

    def test_out_of_memory(self):
        """The inner process gets no memory for a reply: rlock ends the command, and then unlocks."""
        p = self.runs()
        keeper, = harness.children(p.pid)
        inner, = harness.children(keeper)
        command, = harness.children(inner)
        with open("/proc/%d/statm" % inner) as f:
            in_use = int(f.read().split()[0]) * resource.getpagesize()
        resource.prlimit(inner, resource.RLIMIT_AS, (in_use, in_use))
        try:
            self.d.push("SUBSCRIBE", MESSAGE % (8 << 20, b"x" * (8 << 20)))
        except OSError:
            pass  # the process has ended, and has not read all
        self.assertEqual(p.wait(harness.DEADLINE), 71)
        self.assertRegex(p.stderr.read().decode(), r"error memory exhausted bytes=\d+\n"
                                                   r"rlock: x: out of memory: rlock has killed the command\n$")
        self.assertFalse(os.path.exists("/proc/%d" % command))
        self.d.wait_for("UNLOCK")

    def test_nonsense(self):
        for link in ("SUBSCRIBE", "LOCK"):
            p = self.runs()
            self.d.push(link, NONSENSE)
            self.assert_lost(p, "lock lost: the reply is not rlockd's")

    def test_closed(self):
        """rlock connects again, and asks for its lock; only the loss of its own token is a loss."""
        for link in ("SUBSCRIBE", "LOCK"):
            p = self.runs()
            self.d.push(link, None)
            self.d.wait_for("LOCK", 2)
            again = [w for w in self.d.requests if w[0] == "LOCK"][1]
            self.assertEqual(again[:4] + again[7:], ["LOCK", "x", "FULL", "OWNER", "WAIT", "2s", "ONCE"])
            self.d.push("SUBSCRIBE", MESSAGE % (6, b"lost 4") + MESSAGE % (7, b"lost 55"))
            self.d.push("SUBSCRIBE", MESSAGE % (6, b"lost 5"))
            self.assert_lost(p, "connection lost, the command goes on: the daemon closed the connection\n"
                                "rlock: x: lock lost: the daemon says so")

    def test_no_room_when_it_comes_back(self):
        """A daemon that takes no more sessions, or cannot reach Redis, reports nothing about the lock."""
        p = self.runs(LOCK=[GRANT % 60000, b"-ERR max number of clients reached\r\n",
                            b"-UNAVAILABLE Redis cannot answer\r\n", GRANT % 60000, b"-LOST it was lost\r\n"])
        self.d.push("LOCK", None)
        self.d.wait_for("LOCK", 4)
        self.assertIsNone(p.poll())
        self.d.push("LOCK", None)
        self.assert_lost(p, "lock lost: the daemon says so")

    def test_another_grant_after_it_was_closed(self):
        """
        The lock was free meanwhile, and may have had another holder: the command ends under the new grant, which is
        given back.
        """
        p = self.runs(LOCK=[GRANT % 60000, grant(60000, b"6")])
        self.d.push("LOCK", None)
        self.assert_lost(p, "lock lost: the daemon says so")
        self.assertEqual([w[0] for w in self.d.requests][-1], "UNLOCK")
        self.assertNotIn("TOKEN", self.d.requests[-1])

    def test_asked_again(self):
        """UNAVAILABLE and LIMIT report nothing about the lock; another token does, and so does LOST."""
        for nothing, last in ((b"-UNAVAILABLE Redis cannot answer\r\n", b"-LOST it was held and has been lost\r\n"),
                              (b"-LIMIT too many\r\n", grant(60000, b"6"))):
            p = self.runs(LOCK=[GRANT % 3000, nothing, GRANT % 3000, last])
            self.assert_lost(p, "lock lost: the daemon says so")
            self.assertEqual([w[0] for w in self.d.requests].count("LOCK"), 4)

    def test_a_daemon_that_drains_and_is_silent_then(self):
        """It lets holders finish, and reports a lost lock: without a report the lock is not lost."""
        p = self.runs(LOCK=[GRANT % 1200, b"-DRAINING the daemon is shutting down\r\n"])
        self.d.wait_for("LOCK", 9)  # each a sixth of the lease later: by then the first lease is over
        self.assertIsNone(p.poll())
        self.d.push("SUBSCRIBE", MESSAGE % (6, b"lost 5"))
        self.assert_lost(p, "lock lost: the daemon says so")

    def test_another_daemon_that_drains(self):
        """It may not have the lock at all, so the lock ends with its lease."""
        p = self.runs(LOCK=[GRANT % 2000, b"-DRAINING the daemon is shutting down\r\n"])
        self.d.push("LOCK", None)
        begun = time.monotonic()
        self.assert_lost(p, "lock lost: it could not be renewed in time")
        self.assertLess(time.monotonic() - begun, 5)


class After(Bad):
    """The command has ended: had it the lock to the end?"""

    def test_lost_at_the_end(self):
        status, err = self.rlock("run", "x", "--", "true", UNLOCK=b"-LOST the lock was held and has been lost\r\n")
        self.assertEqual((status, err), (79, "rlock: x: lock lost: LOST the lock was held and has been lost\n"))

    def test_the_daemon_goes_at_the_end(self):
        """The daemon frees the locks of its sessions, so the command had its lock to the end."""
        self.assertEqual(self.rlock("run", "x", "--", "sh", "-c", "exit 5", UNLOCK=None), (5, ""))

    def test_redis_is_away_at_the_end(self):
        """The command had its lock to the end, and rlockd gives the lock back as soon as Redis answers."""
        away = b"-UNAVAILABLE Redis cannot answer\r\n"
        for unlock in (away, [away, b"-NOTHELD this owner does not hold the lock\r\n"]):
            self.assertEqual(self.rlock("run", "x", "--", "sh", "-c", "exit 5", UNLOCK=unlock), (5, ""))
            self.assertGreaterEqual([w[0] for w in self.d.requests].count("UNLOCK"), 2)

    def test_an_answer_that_comes_late(self):
        """rlock had asked for the lock when the command ended: that reply comes before the reply to UNLOCK."""
        fifo = os.path.join(self.dir, "go")
        os.mkfifo(fifo)
        path = self.daemon(LOCK=[GRANT % 1200, b""], UNLOCK=GRANT % 1200 + b"-LOST too late\r\n")
        p = subprocess.Popen([RLOCK, "-s", path, "run", "x", "--", "cat", fifo], stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=harness.die_with_us)
        self.addCleanup(self.reap, p)
        self.d.wait_for("LOCK", 2)
        open(fifo, "w").close()
        self.assertEqual(p.wait(harness.DEADLINE), 79)
        self.assertEqual(p.stderr.read(), b"rlock: x: lock lost: LOST too late\n")


class Calls(Bad):
    """System calls that fail."""

    def limited(self, files, *words):
        """As rlock(), with at most `files` descriptors; the first three are open already."""
        path = self.daemon()

        def prepare():
            harness.die_with_us()
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

        p = subprocess.run([RLOCK, "-s", path, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, preexec_fn=prepare, timeout=harness.DEADLINE)
        lines = p.stderr.decode().split("\n")  # gcov complains, too
        return (p.returncode, "".join(line + "\n" for line in lines if line.startswith("rlock: ")),
                [w[0] for w in self.d.requests])

    def test_no_descriptors(self):
        full = "Too many open files\n"
        words = ("run", "x", "--", "true")
        path = os.path.join(self.dir, "false.sock")
        self.assertEqual(self.limited(4, *words), (69, "rlock: x: cannot reach rlockd: %s: %s" % (path, full), []))
        self.assertEqual(self.limited(5, *words),
                         (69, "rlock: x: cannot reach rlockd: %s: %s" % (path, full), ["CLIENT"]))
        given_back = ["CLIENT", "SUBSCRIBE", "LOCK", "UNLOCK"]
        for files in (6, 7):
            self.assertEqual(self.limited(files, *words), (126, "rlock: true: " + full, given_back))
        self.assertEqual(self.limited(8, *words), (0, "", given_back))

    def failing(self, call):
        """An environment in which this system call fails."""
        lib = os.path.join(self.dir, call + ".so")
        source = "#include <errno.h>\nint %s() { errno = EAGAIN; return -1; }\n" % call
        subprocess.run(["cc", "-w", "-x", "c", "-shared", "-fPIC", "-o", lib, "-"], input=source.encode(), check=True)
        return {"LD_PRELOAD": lib}

    def test_no_process(self):
        status, err = self.rlock("run", "x", "--", "true", env=self.failing("fork"))
        self.assertEqual((status, err), (126, "rlock: true: Resource temporarily unavailable\n"))
        self.assertEqual(self.d.requests, [])

    def test_no_signals(self):
        status, err = self.rlock("run", "x", "--", "true", env=self.failing("signalfd"))
        self.assertEqual((status, err), (69, "rlock: x: signalfd: Resource temporarily unavailable\n"))
        self.assertEqual(self.d.requests, [])

    def test_not_executable_on_a_terminal(self):
        """The command had the terminal already: rlock gets it back, and can still write there."""
        from test_clients import Terminal
        t = Terminal([RLOCK, "-s", self.daemon(), "run", "x", "--", "no-such-command"], self.dir)
        t.wait_for("rlock: no-such-command: No such file or directory")
        self.assertEqual(t.end(), 127)

    def test_addresses(self):
        for addr, why in (("unix:/" + "x" * 200, "File name too long"),
                          ("tcp:" + "h" * 300 + ":1", "File name too long"),
                          ("tcp:nohost", "an address is unix:PATH or tcp:HOST:PORT"),
                          ("tcp:127.0.0.1:nosuchport", "not supported|Servname"),
                          ("tcp:[::1]:1", "refused|unreachable|assign"), ("nothing", "an address is unix:PATH or")):
            status, err = self.rlock("ping", path=addr)
            self.assertEqual(status, 69, addr)
            self.assertRegex(err, why)


class Ls(Bad):
    def test_odd_answers(self):
        self.assertEqual(self.rlock("ls", LOCKS=NONSENSE)[0], 69)
        status, err = self.rlock("ls", LOCKS=b"-NOPERM this connection may not do that\r\n")
        self.assertEqual((status, err), (69, "rlock: NOPERM this connection may not do that\n"))


if __name__ == "__main__":
    harness.main()
