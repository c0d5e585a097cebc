#!/usr/bin/env python3
"""everywhere.py SOCKET,SOCKET,... COMMAND... -- sends the command to all nodes of a quorum, and prints, as redis-cli
would, the answer of most of them, or the first node's answer where no two agree.
"""
import collections
import socket
import sys


def read(f):
    line = f.readline()[:-2]
    sort, rest = line[:1], line[1:]
    if sort == b"$":
        return b"" if rest == b"-1" else f.read(int(rest) + 2)[:-2]
    if sort == b"*":
        return b"\n".join(read(f) for _ in range(max(int(rest), 0)))
    return rest


def main():
    words = [w.encode() for w in sys.argv[2:]]
    requests = b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)
    nodes = []
    for path in sys.argv[1].split(","):
        s = socket.socket(socket.AF_UNIX)
        s.connect(path)
        s.sendall(requests)
        nodes.append(s)
    answers = [read(s.makefile("rb")) for s in nodes]
    sys.stdout.buffer.write(collections.Counter(answers).most_common(1)[0][0] + b"\n")


if __name__ == "__main__":
    main()
