"""redis-cli as a client of rlockd: redis_cli.py PORT. It runs as for a person, with a pipe as its input."""
import re
import subprocess
import sys
import threading

from lines import say, serve

port = sys.argv[1]
cli = subprocess.Popen(["redis-cli", "-p", port], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)


def ask(words):
    cli.stdin.write(" ".join(words) + "\n")
    cli.stdin.flush()
    answer = cli.stdout.readline().rstrip("\n")
    if re.match(r"[A-Z]{3,} ", answer):
        cli.stdout.readline()  # an empty line follows an error
        raise RuntimeError(answer)
    return answer or None


def listen(channel):
    p = subprocess.Popen(["redis-cli", "-p", port, "SUBSCRIBE", channel], stdout=subprocess.PIPE, text=True)
    while True:
        kind, where, what = (p.stdout.readline().rstrip("\n") for _ in range(3))
        if not kind:
            return
        say("subscribed %s" % where if kind == "subscribe" else "event %s %s" % (where, what))


def verbs(thread, verb, words):
    if verb == "version":
        return subprocess.run(["redis-cli", "--version"], stdout=subprocess.PIPE, text=True).stdout.split()[1]
    if verb in ("do", "long"):
        return ask(words)
    if verb == "subscribe":
        threading.Thread(target=listen, args=(words[0],), daemon=True).start()
        return 1
    raise ValueError(verb)


serve(verbs)
