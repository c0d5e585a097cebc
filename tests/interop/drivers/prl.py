"""python-redis-lock: prl.py PORT"""
import sys

import redis
import redis_lock
from lines import serve

client = redis.StrictRedis(host="127.0.0.1", port=int(sys.argv[1]))
held = {}


def acquire(place, name, wait, lease):
    """lease 0: none, and its waiters then sleep without end. The library uses whole seconds."""
    lock = redis_lock.Lock(client, name, expire=lease // 1000 or None)
    if not (lock.acquire(blocking=False) if wait == 0 else lock.acquire(timeout=wait and max(1, wait // 1000))):
        return None
    held[place] = lock
    return 1


def verbs(thread, verb, words):
    if verb == "version":
        return redis_lock.__version__
    name, place = words[0], (thread, words[0])
    if verb == "lock":
        return acquire(place, name, None, int(words[1]))
    if verb == "trylock":
        return acquire(place, name, int(words[1]), int(words[2]))
    if verb == "unlock":
        held.pop(place).release()
        return 1
    if verb == "extend":
        held[place].extend(int(words[1]) // 1000)
        return 1
    raise ValueError(verb)


serve(verbs)
