"""redis-py as a client of rlockd: clients.py PORT"""
import sys
import threading

import redis
from lines import say, serve

port = int(sys.argv[1])
client = redis.Redis(host="127.0.0.1", port=port, decode_responses=True)


def subscribe(channel):
    events = redis.Redis(host="127.0.0.1", port=port, decode_responses=True, socket_timeout=None).pubsub()
    events.subscribe(channel)

    def listen():
        for m in events.listen():
            if m["type"] == "subscribe":
                say("subscribed %s" % m["channel"])
            elif m["type"] == "message":
                say("event %s %s" % (m["channel"], m["data"]))
    threading.Thread(target=listen, daemon=True).start()
    return 1


def patient(words):
    """As PROTOCOL.md advises: no read timeout, and no request is sent twice."""
    own = redis.Redis(host="127.0.0.1", port=port, decode_responses=True, socket_timeout=None, retry=None)
    try:
        return own.execute_command(*words)
    finally:
        own.close()


def verbs(thread, verb, words):
    if verb == "version":
        return redis.__version__
    if verb == "do":
        return client.execute_command(*words)
    if verb == "long":
        return patient(words)
    if verb == "subscribe":
        return subscribe(words[0])
    raise ValueError(verb)


serve(verbs)
