#!/usr/bin/python3
"""Writes the seeds of tests/fuzz/corpus and the dictionaries of tests/fuzz/dict.

Sessions come from tests/wire and from the examples of proto/PROTOCOL.md, words from the tables of the sources; this
file has the rest. Seeds have names; files that fuzzing found are named after their bytes (tests/fuzz/run merge), and
stay.
"""
import ast
import pathlib
import re

HERE = pathlib.Path(__file__).parent
TOP = HERE.parent.parent
KINDS, VERBS = 7, 4


def put(target, name, data):
    data = data.encode("latin-1") if isinstance(data, str) else data
    path = HERE / "corpus" / target / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data[:2048])


def words_of(path, pattern):
    return sorted(set(re.findall(pattern, (TOP / path).read_text())))


def put_dict(target, words):
    lines = []
    for w in words:
        w = w.encode("latin-1") if isinstance(w, str) else w
        lines.append('"' + "".join(chr(b) if 0x20 <= b < 0x7F and b not in b'"\\' else "\\x%02x" % b for b in w)
                     + '"\n')
    (HERE / "dict").mkdir(exist_ok=True)
    (HERE / "dict" / (target + ".dict")).write_text("".join(lines))


# ---- sessions ----

def unvar(text):
    return re.sub(r"\$\{[^}]*\}", "101", text)


def script_of(lines):
    """A wire script as a script of talk.h: its requests, and a settling wherever the script expects a reply."""
    out, names, now = [], {}, None

    def talk(name):
        nonlocal now
        number = names.setdefault(name, len(names) % 4)
        if number != now:
            out.append("\x01%d" % number)
            now = number

    for line in lines:
        m = re.match(r"(\w*)(!tcp)?(>>?)(\d*) (.*)", line)
        if m:
            talk(m[1])
            text = unvar(m[5])
            try:
                out.append(ast.literal_eval("b" + text).decode("latin-1") if m[3] == ">>" else text + "\r\n")
            except (ValueError, SyntaxError):
                out.append(text + "\n")
            continue
        m = re.match(r"(\w*)!(close|eof|reset)", line)
        if m:
            talk(m[1])
            out.append("\x01w" if m[2] == "eof" else "\x01x")
        elif re.match(r"@ ", line):
            out.append("\x01t\x03" if "ms" in line else "\x01t\x06")
        elif re.match(r"\w*<", line) and out and out[-1] != "\x01.":
            out.append("\x01.")
    return "".join(out)


def sessions():
    paths = sorted((TOP / "tests" / "wire").glob("*.wire"))
    for i in range(0, len(paths), 2):  # in pairs: fewer files
        put("session", "wire-" + paths[i].stem, "".join(script_of(p.read_text().split("\n")) for p in paths[i : i + 2]))
    blocks = re.findall(r"```wire\n(.*?)```", (TOP / "proto" / "PROTOCOL.md").read_text(), re.S)
    for i in range(0, len(blocks), 4):
        put("session", "protocol-%02d" % i, "".join(script_of(b.split("\n")) for b in blocks[i : i + 4]))
    more = {
        "monitor": "MONITOR\n\x011LOCK a\nAUTH u p\n\x01.\x010\x01.",
        "subscriber": "HELLO 3\nSUBSCRIBE lock:a session:1\nPSUBSCRIBE lock:*\n\x011LOCK a\nUNLOCK a\n"
                      "\x01.\x010\x01.RESET\n",
        "taken": "\x01o\x01LOCK a WAIT 3s\nLOCK b NOWAIT\n\x01.\x01t\x01\x01.\x01o\x00\x01t\x04\x01.",
        "unknown": "\x01o\x03LOCK a\n\x01.\x01o\x00\x01t\x03\x01.UNLOCK a\n\x01.",
        "away": "\x01uLOCK a NOWAIT\nUNLOCK a\n\x01 \x01t\x04\x01 \x01u\x01.",
        "lost": "LOCK a\n\x01.\x01e\x02\x01t\x05\x01.RENEW a 5s\nUNLOCK a\n\x01.",
        "deadlock": "LOCK a\n\x011LOCK b\n\x01.\x010LOCK b\n\x011LOCK a\n\x01.",
        "rw": "LOCK a KIND rw SHARED\n\x011LOCK a KIND rw WAIT 5s\n\x01.\x010UNLOCK a SHARED\n\x01.",
        "many": "MLOCK 3 a b c OWNER me\nMUNLOCK 3 a b c OWNER me\n\x01.LOCKS\nWAITERS\nINFO\nINFO tree\nSESSIONS\n"
                "\x01.",
        "front": "SET a v NX PX 5000\nGET a\nDEL a\nEXISTS a\n\x01.SCRIPT LOAD x\nEVALSHA 00 1 a v\n",
        "info": "INFO server\nINFO everything\nHELP\nHELP lock\nCOMMAND\nCOMMAND DOCS lock\nCOMMAND COUNT\n"
                "CONFIG GET *\n\x01.",
        "client": "CLIENT ID\nCLIENT SETNAME x\nCLIENT GETNAME\nCLIENT SETINFO lib-name y\nCLIENT LIST\nCLIENT INFO\n"
                  "CLIENT KILL ID 2\n",
        "lockinfo": "\x01r\x0d\x05a\"\nb!LOCK a\nLOCKINFO a\nLOCKINFO b\n\x01.",
        "close-on-loss": "\x01KLOCK a LEASE 1s\n\x01.\x01t\x04\x01.PING\n",
        "kinds": "".join("\x01k%c%cLOCK n%d LIMIT 2\nLOCK n%d SHARED\nUNLOCK n%d\n\x01." % (k, k % 2, k, k, k)
                         for k in range(KINDS)),
        "drain": "LOCK a\n\x011LOCK a\n\x01.DRAIN\n\x01.LOCK b\n\x010UNLOCK a\n\x01.",
        "break": "LOCK a\n\x011BREAK a\nKILL 1\n\x01.",
        "halfclosed": "LOCK a\n\x011LOCK a\n\x01.\x01w\x01.\x010\x01x\x01.",
        "unread": "\x01q" + "HELP\n" * 20 + "\x01.\x01t\x05\x01.\x01q\x01.",
        "broadcast": "LOCK a\n\x01.\x01s\x20rlock 1 0b9c2c1e-3f57 1 a 2 b\n\x01.",
        "owners": "LOCK a OWNER w ONCE WAIT 1s\nLOCK a OWNER w ONCE\n\x011LOCK a OWNER v WAIT 2s FULL\n"
                  "\x01.\x010\x01x\x01t\x05\x01.",
        "data-lost": "LOCK a\nLOCK b KIND rw SHARED\n\x01.\x01l\x01o\x02\x01.\x01o\x00\x01cUNLOCK a\n\x01.\x01g\x01.",
        "grace": "LOCK a\n\x011LOCK a\n"
                 "\x01.\x01l\x01o\x07\x01e\x07\x01.\x01t\x02\x01o\x00\x01e\x00\x01g\x01.UNLOCK a\n\x01.",
        "breaks-off": "LOCK a\n\x01.\x01 PING\n\x01 UNLOC\x01x\x01.",
        "breaks-off-waiting": "\x011LOCK b\n\x01.\x010LOCK a\n\x01 \x01 LOCK b\n\x01x\x01.",
        "quit": "LOCK a\nQUIT\nLOCK b\n\x01.",
        "bytes": "*3\r\n$4\r\nLO\x01 CK\r\n$1\r\n\x01 a\r\n$6\r\nNOW\x01 AIT\r\n\x01.",
    }
    for name, text in more.items():
        put("session", name, text)
    auth = {
        "password": "\0AUTH sesame\nLOCK a\n\x01.", "wrong": "\0AUTH x\nAUTH y\nAUTH z\nPING\n\x01.",
        "hello": "\0HELLO 3 AUTH default sesame SETNAME x\nLOCK a\n\x01.",
        "admin": "\1AUTH admin 'open it'\nDRAIN\n\x01.",
        "no-auth": "\0LOCK a\nLOCKS\nMONITOR\nSUBSCRIBE lock:a\nSET a v NX\nBREAK a\nKILL 1\n\x01.",
        "user": "\1AUTH default sesame\nMONITOR\nRESET\nLOCK a\n\x01.", "too-much": "\0" + "PING\n" * 60 + "\x01.",
        "line": "\0" + "x" * 300 + "\n\x01.", "array": "\0*2\r\n$4\r\nAUTH\r\n$6\r\nses\x01 ame\r\n\x01.",
        "big-bulk": "\0*2\r\n$4\r\nAUTH\r\n$257\r\n", "slow": "\0AU\x01.TH\x01t\x04\x01.",
        "tls": "\0\x16\x03\x01\x02\x00\x01\x00\x01\xfc", "post": "\0POST / HTTP/1.1\r\nHost: x\r\n\r\n\x01.",
        "two": "\0AUTH x\n\x011AUTH sesame\nLOCK a\n\x010LOCK a\n\x01.",
        "reset": "\1AUTH sesame\nLOCK a\nRESET\nUNLOCK a\n\x01.", "escaped": "\0AUTH \"s\\x65same\"\nLOCK a\n\x01.",
    }
    for name, text in auth.items():
        put("auth", name, text)


# ---- the others ----

def readers():
    requests = {
        "line": "LOCK orders:42\n", "crlf": "LOCK a NOWAIT\r\nUNLOCK a\r\n",
        "array": "*2\r\n$4\r\nLOCK\r\n$9\r\norders:42\r\n",
        "both": "PING\r\n*1\r\n$4\r\nPING\r\n\r\n*0\r\n*-1\r\nPING\n",
        "quotes": "ECHO \"a\\x00\\n\\\"\" 'b\\' c' \"\"\n",
        "unbalanced": "ECHO \"a\nPING\n", "inside": "ECHO a\"b\"c\n", "big-count": "*99999999999999999999\r\n",
        "bad-bulk": "*1\r\n:1\r\n", "no-crlf": "*1\r\n$4\r\nPINGPING", "negative": "*1\r\n$-1\r\n",
        "zero": "*2\r\n$0\r\n\r\n$1\r\na\r\n", "words": "a " * 70 + "\n",
        "long": "x" * 300 + "\n", "blank": " \t\x0b\x0c\r \n\n\r\n", "leading-zero": "*01\r\n$4\r\nPING\r\n",
        "half": "*3\r\n$3\r\nSET\r\n$1", "space": "*2 \r\n", "expected": "*1\r\n\x80",
        "many": "*64\r\n" + "$1\r\na\r\n" * 64,
    }
    for name, text in requests.items():
        for limits in ("\0", "\4"):
            put("reader", name + ("" if limits == "\0" else "-small"), limits + "\7" + text)
    # each word alone is in bounds, not all together
    for limits, word in enumerate(["x" * 200, "x" * 200, "x" * 12, "x", "x" * 8, "x" * 8]):
        put("reader", "together-%d" % limits, chr(limits) + "\7*3\r\n" + 3 * ("$%d\r\n%s\r\n" % (len(word), word)))
        put("reader", "line-%d" % limits, chr(limits) + "\7" + word * 2 + "\n")
    replies = {
        "ok": "+OK\r\n", "int": ":42\r\n:-1\r\n:9223372036854775807\r\n", "bulk": "$3\r\nabc\r\n$0\r\n\r\n$-1\r\n",
        "error": "-ERR x\r\n", "array": "*4\r\n:1\r\n:1\r\n:2\r\n:3\r\n",
        "nested": "*2\r\n*1\r\n*1\r\n:1\r\n$1\r\na\r\n", "null": "*-1\r\n_\r\n", "empty": "*0\r\n",
        "resp3": "%1\r\n+a\r\n:1\r\n~1\r\n,3.5\r\n#t\r\n>2\r\n+a\r\n+b\r\n=5\r\ntxt:a\r\n(12345678901234567890\r\n",
        "most": "*4096\r\n:1\r\n", "too-many": "*4097\r\n", "more": "*2147483648\r\n", "huge-bulk": "$536870913\r\n",
        "deep": "*1\r\n" * 12 + ":1\r\n", "lists": "*4096\r\n" * 7, "half": "*3\r\n$10\r\nabc", "junk": "hello\r\n",
        "message": "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nx\r\n",
        "fields": "*4\r\n$4\r\nname\r\n$1\r\na\r\n$5\r\ntoken\r\n:7\r\n",
        "odd": "*3\r\n$5\r\ntoken\r\n$2\r\n12\r\n$1\r\nx\r\n",
    }
    for name, text in replies.items():
        put("reply", name, "\7" + text)
        put("rlock", name, "\7" + text)
    put_dict("reader", ["*", "$", "\r\n", "*1\r\n$4\r\nPING\r\n", "\\x", "\"", "'", "\\", "*-1\r\n", "$0\r\n\r\n",
                        "LOCK", "999999999999999999"])
    put_dict("reply", ["+OK\r\n", ":1\r\n", "$1\r\na\r\n", "*2\r\n", "$-1\r\n", "*-1\r\n", "_\r\n", ",1.5\r\n",
                       "#t\r\n", "%1\r\n", "~1\r\n", ">1\r\n", "=5\r\ntxt:a\r\n", "(1\r\n", "*4096\r\n", "*4097\r\n",
                       "$1048577\r\n", "9223372036854775807", "-9223372036854775808", "\r\n"])
    put_dict("rlock", ["+OK\r\n", ":1\r\n", "$1\r\na\r\n", "*2\r\n", "$-1\r\n", "*-1\r\n", "$5\r\ntoken\r\n", "\r\n",
                       "$268435457\r\n", "*268435456\r\n"])


def decoders():
    for verb in range(VERBS):
        for kind in range(KINDS):
            numbers = bytes([verb, kind, 2, 1, 100, 1, 50, 60, 2, 127, 1])
            put("answers", "numbers-%d-%d" % (verb, kind), numbers)
    put("answers", "reply", b"\2\0\1*5\r\n:1700000000000000\r\n:1\r\n:1700000000000001\r\n:1700000030000\r\n:1\r\n")
    for name, text in {"oom": "-OOM command not allowed\r\n", "noscript": "-NOSCRIPT No matching\r\n",
                       "loading": "-LOADING x\r\n", "readonly": "-READONLY x\r\n", "other": "-ERR x\r\n",
                       "short": "*2\r\n:1\r\n:1\r\n", "text": "$1\r\na\r\n",
                       "mixed": "*5\r\n:1\r\n$1\r\n1\r\n:1\r\n:1\r\n:1\r\n",
                       "stale": "*5\r\n:1\r\n:6\r\n:0\r\n:0\r\n:1\r\n"}.items():
        put("answers", "reply-" + name, b"\2\0\1" + text.encode())
    put_dict("answers", [p + " " for p in words_of("daemon/backend/call.c", r'\{"([A-Z]+) "')]
             + ["-", "*5\r\n", "*9\r\n", ":1\r\n", ":2\r\n", ":6\r\n"])
    info = "# Server\r\nredis_version:7.2.4\r\nrun_id:0123456789abcdef0123456789abcdef01234567\r\n# Replication\r\n" \
           "role:master\r\nmaxmemory_policy:noeviction\r\n"
    for i in range(6):
        put("text", "info-%d" % i, bytes([0, i, 30]) + info.encode())
    put("text", "info-cut", b"\0\2\5role:mas\x01\xffter\r")
    put("text", "error", b"\1LOADING Redis is loading\r\n\x80\"\\")
    for i, text in enumerate(["5s", "250ms", "8760h", "1GiB", "9223372036854775807", "0", "1m", "16KiB", "-1",
                              "9999999999999999999"]):
        put("text", "units-%d" % i, b"\2" + text.encode())
    for i, (p, n) in enumerate([("*a*b*", "xaxxb"), ("[a-z]?", "q1"), ("[^a\\]", "b"), ("\\*", "*"), ("**", ""),
                                ("[z-a]", "c"), ("a[", "a")]):
        put("text", "glob-%d" % i, bytes([3, len(p)]) + (p + n).encode())
    put("text", "channel", b"\4\0orders:42")
    put("text", "channel-braces", b"\4\5a{b}c")
    put_dict("text", ["redis_version:", "run_id:", "role:", "maxmemory_policy:", "\r\n", "LOADING ", "BUSY ", "OOM ",
                      "ms", "h", "KiB", "GiB", "[^", "\\]"])
    def answered(outcome, number, until, word, *changes, counts=(9, 9, 1, 0)):
        head = [":%d\r\n" % n for n in (1700000000000000, outcome, number, until)]
        counts = [":%d\r\n" % n for n in counts]
        texts = ["$%d\r\n%s\r\n" % (len(t), t) for t in (word,) + changes]
        return "*%d\r\n%s" % (9 + len(changes), "".join(head + texts[:1] + counts + texts[1:]))

    one, two = "1b9c2c1e-3f57-4c6a-9b0e-5a3d7f5c9f10 30000 7", "2b9c2c1e-3f57-4c6a-9b0e-5a3d7f5c9f10 - 9"
    put("epoch", "life", "\0" + answered(1, 5, 0, "5 abc") + answered(1, 6, 1700000030000, "6 def", one)
        + answered(1, 6, 0, "6 def", one, two))
    put("epoch", "list", "\0" + answered(1, 5, 0, "5 abc", one, counts=(9, 7, 1, 0)) + answered(1, 5, 0, "5 abc", two)
        + answered(1, 6, 1700000030000, "6 abc", counts=(9, 0, 0, 2))
        + answered(1, 6, 0, "6 abc", one, counts=(8, 8, 0, 1)))
    put("epoch", "old", "\4" + answered(1, 5, 0, "5 abc") + answered(1, 4, 0, "4 abc") + answered(1, 4, 0, "4 abc"))
    put("epoch", "twin", "\3" + answered(2, 5, 0, "5 abc"))
    put("epoch", "negative", "\0" + answered(1, -5, 0, "5 abc") + answered(1, 5, -1, "5"))
    put("epoch", "long",
        "\0" + answered(1, 5, 9, "x" * 47) + answered(1, 6, 2**53, "x" * 48) + answered(1, 7, 0, "", one[:-1]))
    put("epoch", "error", "\0-NOPERM x\r\n*0\r\n:1\r\n")
    put_dict("epoch", [answered(1, 5, 0, "a"), answered(1, 6, 7, "a", one), "$46\r\n" + one, ":2\r\n", ":0\r\n",
                       "*6\r\n", "*7\r\n", ":9223372036854775807\r\n", ":-1\r\n"])
    urls = ["unix:/run/r.sock", "unix:/run/r.sock?db=15", "redis://h", "redis://h:1/2", "redis://[::1]:7000/1",
            "redis://me:secret@h:1", "redis://:p%40ss@h", "redis://me:a@b@h:1/", "redis://[::1", "unix:", "redis://",
            "unix:/a?db=", "redis://h:0", "redis://h:65536", "redis://h/65536", "http://x", "redis://%00@h",
            "redis://a:b@/1", "unix:%2", "redis://u@[fe80::1%25eth0]:1",
            "rediss://h", "rediss://me:secret@[::1]:1/2", "rediss:/h",
            "sentinel:a.example:26379,[::1]:1,127.0.0.1:65535/my-master?db=3", "sentinel+tls:a:1/m", "sentinel:a:1,/m"]
    for i, url in enumerate(urls):
        put("address", "url-%02d" % i, bytes([i % 16]) + url.encode())
    put_dict("address",
             ["unix:", "redis://", "rediss://", "?db=", "@", ":", "[", "]", "/", "%40", "%00", "::1", "65535",
              "127.0.0.1"])


def lines():
    requests = "LOCK a \"b\\n\\x00\" 'c\\' d'\nAUTH user password-of-mine\nHELLO 3 AUTH u hidden-word SETNAME x\n" \
           "HELLO 3 SETNAME AUTH AUTH u p\n"
    put("escape", "monitor", b"\1" + requests.encode())
    put("escape", "log", b"\0\x05a\n=\"\\\x06b c=d\x00\x05" + b"info room event k=v\n\xff\x1b[31m")
    put("escape", "log-long", b"\0\xff" + b"\n" * 255 + b"\xff" + b"=" * 255 + b"\1" + b"\\" * 400)
    put("escape", "error", b"\2\0\0a\r\n-ERR forged\r\n\x80")
    put_dict("escape", ["AUTH", "HELLO 3 ", "SETNAME", "\r\n", "\\x0a", "\"", "\\", "=", "MONITOR", "(redacted)", "] "])
    options = words_of("proto/options.c", r'\{"([A-Z]+)",') + words_of("proto/commands.def", r"\b([A-Z]{2,})\b")
    for cmd, text in enumerate(["LOCK a WAIT 5s LEASE 2s KIND rw SHARED OWNER o ONCE FULL", "UNLOCK a OWNER o TOKEN 7",
                                "RENEW a 5s OWNER o TOKEN 1", "MLOCK 3 a b c NOWAIT LIMIT 2 KIND semaphore",
                                "MUNLOCK 2 a b OWNER o", "SET a v NX PX 5000", "EVAL x 1 a v",
                                "EVALSHA 0123 1 a v"]):
        put("options", "row-%d" % cmd, bytes([cmd, 200]) + text.encode())
    put("options", "set-ex", b"\5\xc8SET a v EX 5 NX")
    put("options", "twice", b"\3\xc8MLOCK 2 a a")
    put("options", "forever", b"\0\xc8LOCK a WAIT forever LEASE 365d")
    scripts = sorted(set(re.findall(r'"([0-9a-f]{40})"', (TOP / "daemon/serve/front.c").read_text())))
    for i, sha in enumerate(scripts):
        put("options", "sha-%d" % i, b"\7\xc8EVALSHA " + sha.encode() + b" 1 a v 5000 1000")
        put("options", "shas-%d" % i, b"\7\xc8EVALSHA " + sha.encode() + b" 2 a b v 5000")
        put("session", "sha-%d" % i, "EVALSHA %s 1 a v 5000 1000\nEVALSHA %s 1 a v\nGET a\n\x01." % (sha, sha))
    put_dict("options", options + ["5s", "250ms", "forever", "reentrant", "simple", "counter", "fair", "rw",
                                   "semaphore", "fenced"] + scripts)
    talk = ["\x01" + c for c in "0123 .wxqtoeharskuKlcg"] + ["\x01t\x05", "\x01o\x01", "\x01o\x03", "\x01e\x02", "\r\n",
                                                             "\n"]
    put_dict("session", talk + options + words_of("daemon/serve/commands_client.c", r'"([A-Z-]{3,})"')
             + ["lock:a", "session:1", "5s", "rw", "HELLO 3\n"])
    put_dict("auth", talk + ["AUTH ", "sesame", "'open it'", "HELLO 3 AUTH default sesame", "SETNAME x", "LOCK a\n",
                             "RESET\n", "*2\r\n$4\r\nAUTH\r\n"])


def configurations():
    sample = (TOP / "conf" / "rlockd.yaml").read_text()
    keys = re.findall(r"^ *#?([a-z_]+):", sample, re.M)
    put("conf", "empty", "")
    put("conf", "braces", "{}\n")
    for i, section in enumerate(re.split(r"\n\n", sample)):
        text = "\n".join(re.sub(r"^( *)#(?=[^ ])", r"\1", l) for l in section.split("\n") if "_file" not in l
                         and not re.match(r" *# ", l))
        put("conf", "sample-%02d" % i, text[:1500] + "\n")
    more = {
        "rules": "rules:\n- {match: 'a*', lease: 5s, kind: fair, key: 'x:{name}', prefix: p}\n- match: '[a-z]?'\n"
                 "  limit: 3\n  kind: semaphore\n",
        "flow": "{listen: ['unix:/a', 'tcp:[::1]:0'], locks: {lease: 30s, wait: forever}}",
        "bad": "locks: {laese: 5s}\nlimits: {words: 99}\n",
        "twice": "locks: {lease: 5s}\nlocks: {wait: 1s}\n", "tab": "locks:\n\tlease: 5s\n",
        "alias": "locks: &a {lease: 5s}\nrules: [*a]\n", "utf8": "locks: {prefix: \"\xc3\xa9\"}\n",
        "control": "locks: {prefix: \"a\\x01\"}\n", "auth": "auth: {password: geheim, unix: true, bytes: 300}\n",
        "units": "limits: {line_bytes: 1MiB, output_bytes: 64KiB}\nredis: {timeout: 250ms, links: 4}\n",
        "mode": "socket_mode: 0600\n", "redis": "redis: {url: 'redis://u:p@h:1/2', user: x, password: y}\n",
        "docs": "--- {}\n--- {}\n", "tags": "locks: !!map {lease: !x 5s}\n",
        "deep": "[" * 200, "bom": "\xef\xbb\xbflog: {level: debug}\n", "merge": "<<: {lease: 5s}\n",
    }
    for name, text in more.items():
        put("conf", name, text)
    put_dict("conf", sorted({k + ": " for k in keys if not k.endswith("_file")}) + [
        "- ", "{", "}", "[", "]", ", ", "\n  ", "5s", "1MiB", "forever", "true",
                                                         "semaphore", "hex32", "{name}", "unix:/a", "tcp:h:1",
                                                         "redis://h", "'", "\"", "\\x", "*"])


def events():
    """For fuzz_core: rows of (event, its bytes)."""
    lock, unlock, yes, time = [19, 0], [17, 0], [23, 0, 0], [8, 0]
    rows = {
        "grant": lock + [0, 1, 0] + yes + unlock + [0, 0, 0] + yes,
        "wait": lock + [0, 1, 0] + yes + [19, 1, 0, 1, 0] + unlock + [0, 0, 0] + yes + yes,
        "unknown": lock + [0, 1, 0, 23, 0, 3] + time + yes + time, "taken": lock + [0, 1, 0, 23, 0, 1, 20] + time + yes,
        "lost": lock + [0, 5, 0, 2] + yes + time * 6 + unlock + [0, 0, 0],
        "bundle": [14, 0, 0, 1, 0, 2, 1, 1, 0, 2, 1, 0] + yes * 3 + [12, 0, 0, 0, 0, 2] + yes * 3,
        "renew": lock + [0, 1, 0] + yes + [16, 0, 0, 0, 0, 3] + yes,
        "break": lock + [0, 1, 0] + yes + [7, 1, 0, 0, 0] + yes * 2,
        "gone": lock + [0, 1, 0] + yes + [0, 128, 0, 0] + yes, "eof": lock + [0, 1, 0, 0, 0],
        "named": lock + [6, 1, 0] + yes + [0, 128, 8, 190, 8, 190] + yes,
        "drain": lock + [0, 1, 0] + yes + [19, 1, 0, 1, 0, 230], "hint": lock + [0, 1, 0, 23, 0, 1, 200, 5, 4] + yes,
        "deadlock": lock + [0, 1, 0] + yes + [19, 1, 1, 1, 0] + yes + [19, 0, 1, 1, 0, 19, 1, 0, 1, 0],
        "say": lock + [0, 1, 0, 23, 0, 1, 100] + time * 3 + [2, 1, 2, 3, 9, 1, 65],
        "reclaim": lock + [0, 1, 0] + yes + [6, 160, 6, 1] + yes + lock + [0, 1, 0],
        "grace": [6, 160] + lock + [0, 1, 0, 23, 0, 7, 50] + time + yes,
        "verify": [211, 0, 112, 112, 3, 255, 45, 40, 38, 219, 219, 63, 112, 112, 112, 112, 112, 242, 150, 148, 112,
                   112],
        "verify-renewal": [6, 211, 0, 112, 3, 49, 54, 255, 45, 40, 6, 0, 255, 80, 80, 148, 242, 150, 148, 80, 6, 0,
                           52, 80, 80, 80, 80, 80, 255, 80, 192, 245, 59, 59, 65, 245, 38, 0, 219, 219, 219, 219, 219,
                           219],
        "rw": lock + [4, 129, 0, 0] + yes + [19, 1, 4, 129, 0] + yes + [19, 1, 4, 1, 0],
        "down": lock + [0, 1, 0, 23, 0, 4] + time * 2 + yes,
        "conf": [1, 7] + lock + [0, 1, 0] + yes + lock + [1, 1, 0] + lock + [2, 1, 0],
    }
    for name, row in rows.items():
        put("core", name, bytes(row))


def resp(value):
    """A value in the form of Redis's replies; an Exception is an error."""
    if value is None:
        return "*-1\r\n"
    if isinstance(value, Exception):
        return "-%s\r\n" % value
    if isinstance(value, int):
        return ":%d\r\n" % value
    if isinstance(value, str):
        return "$%d\r\n%s\r\n" % (len(value), value)
    return "*%d\r\n%s" % (len(value), "".join(map(resp, value)))


def clusters():
    for i, text in enumerate(["MOVED 3999 127.0.0.1:6381", "ASK 3999 ::1:6381", "MOVED 0 :6381", "MOVED 16383 ?:65535",
                              "ASK 1 node-1.example:7000", "MOVED 16384 h:1", "ASK 5 fe80::1%eth0:0", "MOVED 1 a b:1",
                              "ERR no", "MOVED", "ASK  :1", "MOVED 12 h:", "MOVED 007 " + "h" * 255 + ":9"]):
        put("redirect", "text-%02d" % i, text)
    put_dict("redirect", ["MOVED ", "ASK ", "16383", "16384", "?:", ":6379", "::1", "65535", "65536", "%eth0"])
    ids = [c * 40 for c in "abcd"]

    def line(n, flags, more="", host=None, epoch=None, link="connected", name=""):
        return "%s %s:700%d@1700%d%s %s - 0 0 %d %s%s\n" % (
            ids[n], "10.0.0.%d" % n if host is None else host, n, n, name, flags, n + 1 if epoch is None else epoch,
            link, " " + more if more else "")

    three = [line(0, "myself,master", "0-5460"), line(1, "master", "5461-10922"), line(2, "master", "10923-16383")]
    moved = [line(0, "myself,master", "1-5460"), line(1, "master", "0 5461-10922", epoch=9), three[2]]
    answers = {
        "three": ["".join(three)], "moved": ["".join(three), "".join(moved), "".join(three)],
        "replicas": ["".join(three) + line(3, "slave")],
        "failed": ["".join(three), "".join([three[0], line(1, "master,fail", link="disconnected"), three[2]])],
        "takes-over": ["".join(three), line(3, "myself,master", "0-5460", epoch=7) + line(0, "slave,fail?") + three[1]],
        "open": [three[0][:-1] + " [7->-%s] [9-<-%s]\n" % (ids[1], ids[2]) + three[1]],
        "noaddr": [three[0] + line(1, "master,noaddr", "5461", host="")], "alone": [line(0, "myself,master")],
        "unknown-host": [line(0, "myself,master", "0-16383", host="") + line(1, "slave", host="?")],
        "names": [line(0, "myself,master", "0-9", name=",node-0,shard-id=1") + line(1, "master", "10", name=",")],
        "twice": [three[0] + three[0] + line(1, "master", "0-9")], "old": ["".join(moved), "".join(three[1:])],
        "other": ["".join(three), line(3, "myself,master", "0-16383").replace("d" * 40, "e" * 40)],
        "bad": ["".join(three).replace("5461-10922", "5461-16384"), "".join(three).replace("-5460", "-")],
    }
    for name, texts in answers.items():
        for how in range(4):
            put("map", "%s-%d" % (name, how), "".join(chr(how) + text + "\0" for text in texts))
    put_dict("map", ids + ["myself,", "master", "slave", "fail?", ",fail", ",noaddr", "handshake", " connected",
                           " disconnected", " 0-16383", " [7->-", " [7-<-", "@17000", ",node-0", "shard-id=1", "\n",
                           "\0\1", "\0\0"])


def anchors():
    entry = "12 00000000000000ab 11 5 0-5460 5462"

    def anchor(status, *entries, new=0, longest=30000, bits="", owners="5 0 6", members=""):
        return resp([1700000000000000, status, new, 4, 5, 6, longest, 8, members, bits, owners, *entries])

    node = [1700000000000000, "master", "00000000000000ab", "a" * 40, 3, "0-5460 5462", "7 9"]
    put("anchor", "votes", anchor(1, entry, "13 ff 12 6 5461", bits="0120") + anchor(2, new=1) + anchor(3) + anchor(4))
    put("anchor", "lists", anchor(1, members="0b9c2c1e-3f57-4c6a-9b0e-5a3d7f5c9f10 30000 1\n"))
    put("anchor", "long", anchor(1, longest=2**63 - 1) + anchor(2, longest=86400000))
    for i, bad in enumerate(["", "12", "12 ab 11 5 7-3", "12 ab 11 5 0-16384", "0 ab 11 5 0", "12 ab 11 0 0",
                             "12 zz 11 5 0", "12 ab 11 5 0-", "99999999999999999999 ab 11 5 0"]):
        put("anchor", "bad-%d" % i, anchor(1, entry, bad))
    put("anchor", "owners", anchor(1, owners="1 2") + anchor(1, owners="18446744073709551616 0 0"))
    put("anchor", "bits", anchor(1, bits="3") + anchor(1, bits="012"))
    put("anchor", "node", resp(node) + resp([*node[:1], "slave", *node[2:5], "", ""]))
    put("anchor", "node-bad", resp([*node[:3], "a" * 41, *node[4:]]) + resp([*node[:6], "16384"]) + resp(node[:6]))
    put("anchor", "record", resp([1700000000000000, 12, 1]) + resp([1, 0, 2]) + resp([1, -1, 0]) + resp([1, 2]))
    put("anchor", "error", resp(Exception("READONLY not a master")) + resp(None))
    put_dict("anchor", [entry, "$36\r\n" + entry + "\r\n", ":9223372036854775807\r\n", ":-1\r\n", "*11\r\n", "*12\r\n",
                        "*7\r\n", "*3\r\n", "$0\r\n\r\n", "$5\r\n5 0 6\r\n", "0-16383", "16384",
                        "18446744073709551616"])


def sentinels():
    up, down, lost, hint, later, reply = ([n << 1] for n in (0, 1, 2, 3, 4, 5))
    flat = ["name", "x", "ip", "10.0.0.2", "port", "26379", "runid", "b" * 40, "flags", "sentinel"]
    replica = ["ip", "10.0.0.3", "port", "6379", "flags", "slave"]
    whole = ["a" * 40, [flat], ["down-after-milliseconds", "5000"], [replica, [*replica[:4], "flags", "slave,s_down"]],
             ["10.0.0.1", "6379"]]
    rows = {
        "greets": (up + reply * 5 + down, whole),
        "alone": (up + reply * 5 + down + later + reply, [*whole[:1], [], *whole[2:], ["10.0.0.1", "6379"]]),
        "switch": (up + [1] + reply * 5 + hint + [11] + reply + later + reply * 4,
                   [*whole, ["10.0.0.2", "6380"], *whole[1:4], None]),
        "lost": (up + reply * 2 + lost + up + reply * 5, whole[:2] + whole),
        "no-such": (up + reply * 5, [*whole[:4], None]),
        "no-id": (up + reply * 5 + down, [Exception("ERR"), *whole[1:]]),
        "bad-host": (up + reply * 5, [*whole[:4], ["a\r\nredis_state:up", "0"]]),
        "many": (up + reply * 5, ["a", [flat] * 40, [], [replica] * 40, ["h", "65535"]]),
        "shapes": (up + reply * 5, [7, [7, [], ["ip"]], "text", [[["ip"]], ["ip", 7, "port", None]], ["h"]]),
    }
    for name, (steps, replies) in rows.items():
        put("sentinel", name, bytes([len(steps), *steps]).decode("latin-1") + "".join(map(resp, replies)))
    put_dict("sentinel", [resp(flat), resp(replica), resp(["10.0.0.1", "6379"]), "$2\r\nip\r\n", "$4\r\nport\r\n",
                          "$5\r\nrunid\r\n", "$5\r\nflags\r\n", "*-1\r\n", "*0\r\n", "s_down", "65536"])


def tally():
    """The number of nodes less one, the reserve, the validity, then rows of time, node, event and its arguments."""
    def ok(node, token, until=127, reserved=0):
        return [0, node, 1 | reserved, token, until]

    def no(node, why, pttl=20):
        return [0, node, why << 1, pttl] if pttl is not None else [0, node, why << 1 | 16]

    taken, gone, unknown, down, foreign, denied, full, grace = range(8)
    rows = {
        "agrees": ok(0, 5) + ok(2, 5), "reserve": ok(0, 5, reserved=2) + ok(1, 41, reserved=2),
        "raised": ok(0, 5) + ok(1, 10) + [0, 0, 1] + [0, 0, 1, 12],
        "not-raised": ok(0, 5) + ok(1, 10) + [0, 0, 1, 0, 0, 0],
        "again": ok(0, 5) + [0, 0, 2] + ok(0, 7) + no(1, taken) + no(2, taken, None), "late": ok(0, 5, 1) + ok(1, 5, 1),
        "taken": no(2, down) + no(0, taken) + no(1, taken), "gone": no(0, gone) + no(1, unknown) + ok(2, 1),
        "grace": no(0, grace, 90) + ok(1, 5) + no(2, grace), "foreign": no(0, foreign, None) + no(1, foreign),
        "denied": no(0, denied) + no(1, denied) + no(2, full), "full": no(1, full) + no(2, full) + no(0, taken),
    }
    for name, row in rows.items():
        put("tally", name, bytes([2, 64, 0, *row]))
    put("tally", "one", bytes([0, 0, 0, *ok(0, 1)]))
    put("tally", "nine", bytes([8, 9, 3, *sum((ok(i, 100 - i) for i in range(9)), [])]))


sessions()
readers()
clusters()
anchors()
sentinels()
tally()
decoders()
lines()
configurations()
events()
