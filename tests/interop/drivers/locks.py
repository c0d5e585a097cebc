"""redis-py's Lock: locks.py PORT"""
import sys

import redis
from lines import serve

client = redis.Redis(host="127.0.0.1", port=int(sys.argv[1]))
held = {}


def acquire(place, name, wait, lease):
    lock = client.lock(name, timeout=(lease or 30000) / 1000, blocking_timeout=wait, sleep=0.05, thread_local=False)
    if not lock.acquire():
        return None
    held[place] = lock
    return 1


def verbs(thread, verb, words):
    if verb == "version":
        return redis.__version__
    name, place = words[0], (thread, words[0])
    if verb == "lock":
        return acquire(place, name, None, int(words[1]))
    if verb == "trylock":
        return acquire(place, name, int(words[1]) / 1000, int(words[2]))
    if verb == "unlock":
        held.pop(place).release()
        return 1
    if verb == "extend":
        return 1 if held[place].extend(int(words[1]) / 1000, replace_ttl=True) else None
    if verb == "reacquire":
        return 1 if held[place].reacquire() else None
    if verb == "owned":
        return 1 if held[place].owned() else 0
    if verb == "locked":
        return 1 if client.lock(name).locked() else 0
    raise ValueError(verb)


serve(verbs)
