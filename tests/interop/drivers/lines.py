"""The line protocol of the drivers: `id thread verb words...` in, `id ok value`, `id no` or `id err why` out."""
import queue
import sys
import threading

_say = threading.Lock()


def say(line):
    with _say:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def _work(verbs, lines):
    while True:
        number, thread, verb, *words = lines.get()
        try:
            value = verbs(thread, verb, words)
            say("%s no" % number if value is None else "%s ok %s" % (number, value))
        except Exception as e:  # any error is an answer for the runner
            say("%s err %s" % (number, ("%s: %s" % (type(e).__name__, e)).replace("\n", " ")))


def serve(verbs):
    """
    verbs(thread, verb, words): None is `no`, any other value is `ok` and the value. Each thread has its own worker.
    """
    threads = {}
    say("ready")
    for line in sys.stdin:
        parts = line.rstrip("\n").split(" ")
        if parts[1] not in threads:
            threads[parts[1]] = queue.Queue()
            threading.Thread(target=_work, args=(verbs, threads[parts[1]]), daemon=True).start()
        threads[parts[1]].put(parts)
