#!/usr/bin/env python3
"""The README as written: each block of it is run or checked, in a directory with the same files as after `make run`.

    console   typed and answered lines of a dialogue      sh      run line by line; a text block after it is its output
    python    run                                         js      run, when node has the library
    sql       run on SQLite, with and against a token     yaml    checked by rlockd -t
"""
import glob
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import unittest

import harness
from certificates import Authority
from harness import Case, until


def blocks():
    """(language, text, line) of each fenced block."""
    out, language, lines, where = [], None, [], 0
    with open(os.path.join(harness.TOP, "README.md")) as f:
        for number, line in enumerate(f.read().split("\n"), 1):
            if language is None and line.startswith("```"):
                language, lines, where = line[3:], [], number
            elif language is not None and line == "```":
                out.append((language, "\n".join(lines), where))
                language = None
            elif language is not None:
                lines.append(line)
    return out


BLOCKS = blocks()


def plain(text):
    """The text without tokens, which differ from run to run."""
    return re.sub(r"\d{12,}", "TOKEN", text.replace("\r", ""))


class Readme(Case):
    def setUp(self):
        super().setUp()
        os.makedirs(os.path.join(self.dir, "build", "run"))
        for name in ("rlock", "rlockd"):
            os.symlink(os.path.join(harness.BUILD, name), os.path.join(self.dir, "build", name))
        # As scripts/run does it, but without its port, which two runs of the tests could not share.
        self.d = self._keep(harness.Process([os.path.join(self.dir, "build", "rlockd"), "--redis", "embedded",
                                             "--listen", "unix:build/run/rlockd.sock", "--listen", "tcp:127.0.0.1:0"],
                                            self.dir, "rlockd"))
        until(lambda: self.run_words(["build/rlock", "-s", "unix:build/run/rlockd.sock", "ping"])[0] == 0)
        until(lambda: "redis_state:up" in self.run_words(
            ["redis-cli", "-s", "build/run/rlockd.sock", "INFO", "redis"])[1])

    def of(self, language):
        found = [(text, where) for lang, text, where in BLOCKS if lang == language]
        self.assertTrue(found, "the README has no %s" % language)
        return found

    def test_console(self):
        for text, where in self.of("console"):
            lines = text.split("\n")
            self.assertTrue(lines[0].startswith("$ "))
            p = subprocess.Popen(lines[0][2:], shell=True, cwd=self.dir, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 preexec_fn=harness.die_with_us)
            for line in lines[1:]:
                if line == "^C":
                    p.terminate()
                elif line[0] in ":+-$*":
                    self.assertEqual(plain(p.stdout.readline().decode()), plain(line + "\n"), "README.md:%d" % where)
                else:
                    p.stdin.write(line.encode() + b"\n")
                    p.stdin.flush()
            p.stdin.close()
            p.stdout.close()
            p.wait(harness.DEADLINE)

    def test_sh(self):
        for i, (language, text, where) in enumerate(BLOCKS):
            if language != "sh":
                continue
            status, out, err = self.run_words(["bash", "-euc", text])
            self.assertEqual((status, err), (0, ""), "README.md:%d" % where)
            self.assertNotRegex(out, r"(?m)^(-|ERR|\(error\))", "README.md:%d" % where)
            if i + 1 < len(BLOCKS) and BLOCKS[i + 1][0] == "text":
                self.assertEqual(plain(out), plain(BLOCKS[i + 1][1] + "\n"), "README.md:%d" % where)

    def test_the_first_minute_needs_what_setup_installs(self):
        """
        Each command of the blocks before Python's is rlockd's, or is part of every Debian, or is installed by `make
        run`.
        """
        with open(os.path.join(harness.TOP, "scripts", "setup")) as f:
            wanted = " ".join(re.findall(r'^build="(.*)"$', f.read(), re.M)).split()
        python = next(where for language, _, where in BLOCKS if language == "python")
        words = {word for language, text, where in BLOCKS if language in ("sh", "console") and where < python
                 for line in text.split("\n") if language == "sh" or line.startswith("$ ")
                 for word in re.findall(r"(?:^|\$ |\| |-- )([a-z][\w/.-]*)", line)}
        self.assertLessEqual({"nc", "redis-cli", "printf", "build/rlock", "sh"}, words)
        for word in words - {"printf", "export"}:
            if not word.startswith("build/"):
                path = os.path.realpath(shutil.which(word))
                owner = {line.split(":")[0] for at in (path, path.replace("/usr/", "/", 1))
                         for line in self.run_words(["dpkg-query", "-S", at])[1].splitlines()}
                essential = self.run_words(["dpkg-query", "-W", "-f", "${Essential}", *owner])[1]
                self.assertTrue(owner & set(wanted) or essential == "yes", "%s is of %s" % (word, owner))

    def test_a_second_make_run(self):
        """The second run reports that the first one is there, and not that it is ready itself."""
        os.mkdir(os.path.join(self.dir, "scripts"))
        run = shutil.copy(os.path.join(harness.TOP, "scripts", "run"), os.path.join(self.dir, "scripts"))
        status, out, err = self.run_words([run])
        self.assertEqual((status, out), (1, ""))
        self.assertIn("already running", err)

    def test_a_lock_is_seen_while_it_is_held(self):
        """`rlock ls` shows a lock at the place of the README that shows its output."""
        out = "".join(self.run_words(["bash", "-euc", text])[1] for text, _ in self.of("sh") if "rlock ls" in text)
        self.assertRegex(out, r"(?m)^nightly-backup +reentrant +held ")

    def test_python(self):
        try:
            import redis  # noqa: F401
        except ImportError:
            self.skipTest("python3-redis is not installed")
        for text, where in self.of("python"):
            status, out, err = self.run_words([sys.executable, "-c", text])
            self.assertEqual(status, 0, "README.md:%d\n%s" % (where, err))
            self.assertEqual(plain(out), "working, with token TOKEN\n")

    def test_node(self):
        node = shutil.which("node")
        missing = []
        for text, where in self.of("js"):
            library = re.search(r"from '(\w+)'", text).group(1)
            path = os.path.join(self.dir, "%s.mjs" % library)
            with open(path, "w") as f:
                f.write(text)
            if node is None or self.run_words([node, "-e", "require.resolve('%s')" % library])[0] != 0:
                missing.append(library)
                continue
            # import ignores NODE_PATH, but follows a link.
            found = self.run_words([node, "-p", "require.resolve('%s')" % library])[1].strip()
            root = found[:found.rindex("/node_modules/") + len("/node_modules")]
            if not os.path.exists(os.path.join(self.dir, "node_modules")):
                os.symlink(root, os.path.join(self.dir, "node_modules"))
            status, out, err = self.run_words([node, path])
            self.assertEqual(status, 0, "README.md:%d\n%s" % (where, err))
            self.assertEqual(plain(out), "working, with token TOKEN\n")
        if missing:
            self.skipTest("not for node here: %s" % ", ".join(missing))

    def test_sql(self):
        for text, where in self.of("sql"):
            db = sqlite3.connect(":memory:")
            db.execute("CREATE TABLE account (id, balance, fence)")
            db.execute("INSERT INTO account VALUES (1, 100, 0)")
            for token, changed in ((7, 1), (7, 1), (9, 1), (8, 0), (10, 1)):
                cur = db.execute(text, {"balance": token, "token": token, "id": 1})
                self.assertEqual(cur.rowcount, changed, "README.md:%d, token %d" % (where, token))
            self.assertEqual(db.execute("SELECT balance, fence FROM account").fetchone(), (10, 10))
            db.close()

    def test_yaml(self):
        """With test files in place of those below /etc/rlockd, and of those that systemd would pass."""
        ours = os.path.join(self.dir, "etc")
        os.mkdir(ours)
        authority = Authority(ours)
        cert, key = authority.certificate("rlockd")
        for name, path in (("ca.pem", authority.pem), ("rlockd.pem", cert), ("rlockd.key", key)):
            os.symlink(path, os.path.join(ours, name))
        for name in ("redis", "sentinel"):
            with open(os.open(os.path.join(ours, name), os.O_WRONLY | os.O_CREAT, 0o600), "w") as f:
                f.write("secret\n")
        for text, where in self.of("yaml"):
            path = os.path.join(self.dir, "readme.yaml")
            with open(path, "w") as f:
                f.write(text.replace("/etc/rlockd", ours) + "\n")
            status, _, err = self.run_words(["build/rlockd", "-t", "-c", path], env={"CREDENTIALS_DIRECTORY": ours})
            self.assertEqual(status, 0, err)

    def test_no_block_is_left_out(self):
        tested = {"console", "sh", "text", "python", "js", "sql", "yaml"}
        self.assertEqual({language for language, _, _ in BLOCKS} - tested, set())

    def test_contributing_names_files_that_exist(self):
        """A word in backquotes that begins with a room is a path; capitals stand for a name, * for any text."""
        with open(os.path.join(harness.TOP, "CONTRIBUTING.md")) as f:
            text = f.read()
        paths = set(re.findall(r"`((?:daemon|proto|conf|scripts|tests)/[\w./*-]+)", text))
        self.assertGreater(len(paths), 50)
        for path in paths:
            pattern = re.sub(r"[A-Z]{4,}(?=\.|$)", "*", path)
            if not path.endswith(".md"):
                self.assertTrue(glob.glob(os.path.join(harness.TOP, pattern)), path)
        self.commands_and_files_exist(text)

    def test_commands_and_files_exist(self):
        with open(os.path.join(harness.TOP, "README.md")) as f:
            self.commands_and_files_exist(f.read())

    def commands_and_files_exist(self, text):
        rules = glob.glob(os.path.join(harness.TOP, "tests", "*", "*.mk"))
        makefile = ""
        for path in [os.path.join(harness.TOP, "Makefile"), *rules]:
            with open(path) as f:
                makefile += f.read()
        for target in set(re.findall(r"(?:^    |`|sudo )make ([\w-]+)", text, re.M)):
            self.assertTrue(re.search(r"(?m)^%s:" % target, makefile), target)
        for path in re.findall(r"\]\(([^)#:]+)\)", text):
            self.assertTrue(os.path.exists(os.path.join(harness.TOP, path)), path)


class MakeRun(unittest.TestCase):
    def test_what_make_run_says_works(self):
        """The lines that scripts/run prints for all topologies are the lines that this test runs: they need no port."""
        with open(os.path.join(harness.TOP, "scripts", "run")) as f:
            text = re.sub(r"\$\{more:\+\n.*?\}", "", f.read())
        lines = re.search(r"from here:\n(.*?)\n\n", text, re.S).group(1).split("\n")
        self.assertEqual(len(lines), 3)
        case = Readme("test_console")
        case.setUp()
        try:
            for line in lines:
                status, out, err = case.run_words(["bash", "-euc", line.replace("$sock", "build/run/rlockd.sock")])
                self.assertEqual((status, err), (0, ""), line)
                self.assertTrue(out)
        finally:
            case.doCleanups()


if __name__ == "__main__":
    harness.main()
