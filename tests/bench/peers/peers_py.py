"""Lock libraries of Python: peers_py.py KIND WHERE own|hot CLIENTS WARM SECONDS; KIND redis-py or rlockd.

A process per client, as Python programs have. Prints the input of ../peers.py: pairs of each client in the window, and
the times of pairs and locks in microseconds.
"""
import json
import mmap
import multiprocessing
import struct
import sys
import time

import redis


def redis_py(where, name):
    client = redis.Redis(unix_socket_path=where)
    lock = client.lock(name, timeout=30)  # all other settings are defaults: it sleeps 100 ms between attempts
    return lock.acquire, lock.release


def rlockd(where, name):
    client = redis.Redis(unix_socket_path=where, single_connection_client=True)
    return (lambda: client.execute_command("LOCK", name)), (lambda: client.execute_command("UNLOCK", name))


KINDS = {"redis-py": redis_py, "rlockd": rlockd}


def clients_of(kind, where, mode, number, window, barrier, out):
    lock, unlock = KINDS[kind](where, "bench/hot" if mode == "hot" else "bench/own/%06d" % number)
    lock()
    unlock()
    barrier.wait()
    begin, end = struct.unpack("dd", window[:16])
    while not begin:
        time.sleep(0.001)  # between two looks: the begin is written into shared memory, which wakes no process
        begin, end = struct.unpack("dd", window[:16])
    pairs, locks, now = [], [], time.monotonic()
    while now < end:
        asked = now
        lock()
        got = time.monotonic()
        unlock()
        now = time.monotonic()
        if begin <= now < end:
            pairs.append((now - asked) * 1e6)
        if got >= begin:  # also after the window: a client without a grant in the window has waited longest
            locks.append((got - asked) * 1e6)
    out.put((number, pairs, locks))


def main():
    kind, where, mode, clients, warm, seconds = sys.argv[1:]
    n = int(clients)
    context = multiprocessing.get_context("fork")
    window, barrier, out = mmap.mmap(-1, 16), context.Barrier(n + 1), context.Queue()
    workers = [context.Process(target=clients_of, args=(kind, where, mode, i, window, barrier, out), daemon=True)
               for i in range(n)]
    for w in workers:
        w.start()
    barrier.wait(60)
    begin = time.monotonic() + float(warm)
    window[:16] = struct.pack("dd", begin, begin + float(seconds))
    results = [out.get(timeout=60) for _ in workers]
    for w in workers:
        w.join()
    print(json.dumps({"counts": [len(p) for _, p, _ in sorted(results)],
                      "pair_us": [x for _, p, _ in results for x in p],
                      "lock_us": [x for _, _, k in results for x in k]}))


if __name__ == "__main__":
    main()
