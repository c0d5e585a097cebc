#!/usr/bin/env python3
"""rlcheck -- reads the history of the requests of rlockd's clients and of the answers, and reports violations.

    rlcheck.py FILE...         lines as session.h writes them, of all processes of one host, in any order

A client holds a name from the reply that reports it until the first of: the reported deadline (LOCK FULL's lease_ms,
counted from the earliest moment at which the reply can have been written), its own UNLOCK, the end of its connection,
an event `lost` that it could have read. A reply that reports a hold (UNLOCK :n, a re-entry, RENEW) proves that the
client held the name until its request. PLAIN is a lock that was taken without rlockd: it has no token, but a negative
number of its own; it excludes the others, and has no other check.
"""
import bisect
import collections
import heapq
import sys

# Lines of the process that ran the clients (process `-`):
#   TIME - kill CLIENT         every connection CLIENT.* ends now
#   TIME - down DAEMON         the daemon dies, and every connection to it
#   TIME - flaky ROUTE         from now on connections by this route may end without the client's knowledge ...
#   TIME - steady ROUTE        ... until now
#   TIME - limit NAME N        a semaphore
#   TIME - left KEY            a key that was still there at the end
#   TIME - lasts               Redis loses nothing that a lock needs: no lock may be lost before its deadline
#
# Checks, per name:
#   answers     one answer to each request, none without a request, no grant to a connection that has ended
#   exclusion   no two holders that exclude each other at a time (a sweep over the intervals)
#   order       a grant that was reported before the request of another one has the smaller token
#   unique      no token is granted twice
#   reentry     a re-entry has the token of the first entry, and counts
#   claim       no "held" at or after the deadline; no "held" to a client that received LOST
#   early       where locks last (`lasts`), no LOST before the reported deadline: LOST ends the hold, so `exclusion`
#               does not see to whom the name is granted then
#   fifo        a waiter that was seen in the daemon's queue before another waiter's request is granted first
#   leak        no key is left at the end
#   model       (WGL) the steps of grants that follow each other can be put in an order that a reentrant fenced lock
#               allows

INF = float("inf")
GRANTING = ("LOCK", "AGAIN", "CHECK", "PLAIN")


class Violation(collections.namedtuple("Violation", "kind name text at")):
    def __str__(self):
        return "%s %s: %s" % (self.kind, self.name, self.text)


class Op:
    """A request and its answer; `result` None: never answered, which counts as INFO."""

    __slots__ = ("proc", "id", "op", "name", "inv", "ret", "result", "field", "queued", "daemon", "route", "owner",
                 "shared")

    def __init__(self, proc, number, op, name, inv, field):
        self.proc, self.id, self.op, self.name, self.inv = proc, number, op, name, inv
        self.ret, self.result, self.field, self.queued = INF, None, field, INF
        self.route = field.get("daemon", "A")
        self.daemon = self.route.split("/")[0]
        self.owner = field.get("owner", proc)
        self.shared = field.get("shared", "0") == "1"

    def number(self, key, default=0):
        return int(self.field.get(key, default))

    def __str__(self):
        return "%s %s by %s [%s, %s] %s" % (self.op, self.name, self.owner, self.inv, self.ret, self.result)


class Grant:
    """One grant: from the answer that reported it to its end, with the later answers about it."""

    __slots__ = ("op", "name", "token", "owner", "shared", "start", "valid", "confirmed", "ended", "end", "steps",
                 "released", "open")

    def __init__(self, op):
        self.op, self.name, self.token = op, op.name, op.number("token")
        self.owner, self.shared, self.start = op.owner, op.shared, op.ret
        self.valid = op.inv + 1000 * (op.number("waited") + op.number("lease"))
        self.confirmed = op.inv
        self.ended = INF  # by its owner, as far as the owner knows
        self.end = INF
        self.steps = []  # (op, "again" or "release"): the steps with an answer "held"
        self.released = None
        self.open = False  # it is unknown whether a hold was given back: holds are not counted

    def __str__(self):
        return "token %d of %s [%s, %s]" % (self.token, self.owner, self.start, self.end)


class History:
    def __init__(self):
        self.ops = {}
        self.closed, self.killed = {}, {}
        self.losses, self.losses_of = {}, collections.defaultdict(dict)  # when a token was reported as lost
        self.downs = collections.defaultdict(list)
        self.windows = collections.defaultdict(list)
        self.limits = {}
        self.lasts = False
        self.left = []
        self.broken = []

    def read(self, lines):
        """Lines must be in the order of their times (a stable sort is enough)."""
        for line in lines:
            word = line.split()
            if len(word) < 3:
                continue
            at, proc, what, rest = int(word[0]), word[1], word[2], word[3:]
            if proc == "-":
                self.event(at, what, rest)
            elif what == "inv":
                if (proc, rest[0]) in self.ops or at > self.closed.get(proc, INF):
                    self.broken.append(Violation("answers", rest[2],
                                                 "asked twice, or by an ended connection: " + line.strip(), at))
                field = dict(f.split("=", 1) for f in rest[3:])
                self.ops[proc, rest[0]] = Op(proc, rest[0], rest[1], rest[2], at, field)
            elif what == "ret":
                self.answer(at, proc, rest, line)
            elif what == "queued" and (proc, rest[0]) in self.ops:
                self.ops[proc, rest[0]].queued = at
            elif what == "lost":
                self.losses.setdefault((rest[0], int(rest[1])), at)
                self.losses_of[rest[0]].setdefault(int(rest[1]), at)
            elif what == "close":
                self.closed.setdefault(proc, at)
        return self

    def event(self, at, what, rest):
        if what == "kill":
            self.killed[rest[0]] = at
        elif what == "down":
            self.downs[rest[0]].append(at)
        elif what == "flaky":
            self.windows[rest[0]].append([at, INF])
        elif what == "steady":
            self.windows[rest[0]][-1][1] = at
        elif what == "limit":
            self.limits[rest[0]] = int(rest[1])
        elif what == "left":
            self.left.append(rest[0])
        elif what == "lasts":
            self.lasts = True

    def answer(self, at, proc, rest, line):
        op = self.ops.get((proc, rest[0]))
        if op is None or op.result is not None:
            self.broken.append(Violation("answers", op.name if op else "?", "an answer to nothing: " + line.strip(),
                                         at))
            return
        if rest[1] == "OK" and at > self.closed.get(proc, INF):
            self.broken.append(Violation("answers", op.name, "granted to an ended connection: " + line.strip(), at))
        op.ret, op.result = at, rest[1]
        op.field.update(f.split("=", 1) for f in rest[2:])

    def end_of(self, op):
        """The time at which the connection of this op ended, as far as its client could know."""
        end = self.closed.get(op.proc, INF)
        end = min(end, self.killed.get(op.proc.split(".")[0], INF))
        downs = self.downs.get(op.daemon, ())
        i = bisect.bisect_left(downs, op.ret if op.result == "OK" else op.inv)
        return min(end, downs[i]) if i < len(downs) else end

    def trusted_until(self, op, start, end):
        """`end`, or the begin of a flaky time of the route before that."""
        for a, b in self.windows.get(op.route, ()):
            if start < b and end > a:
                return max(op.inv, a)
        return end


class Name:
    """The events of one name."""

    def __init__(self, history, name, ops):
        self.h, self.name = history, name
        self.ops = sorted(ops, key=lambda o: (o.inv, o.ret))
        self.limit = history.limits.get(name, 1)
        self.bad = []
        grants = self.build()
        self.grants = [g for g in grants if g.op.op != "PLAIN"]
        self.plain = [g for g in grants if g.op.op == "PLAIN"]

    def wrong(self, kind, text, at):
        self.bad.append(Violation(kind, self.name, text, at))

    # The grants, and the later answers about them.
    def build(self):
        grants, lost = {}, dict(self.h.losses_of[self.name])
        granting = [o for o in self.ops if o.op in GRANTING and o.result == "OK"]
        for o in sorted(granting, key=lambda o: (o.op != "LOCK", o.ret)):
            g = grants.get(o.number("token"))
            if o.number("lease", 1) <= 0:
                self.wrong("claim", "held, with nothing left of the lease: %s" % o, o.ret)
            if g is None and o.op == "AGAIN":
                self.wrong("reentry", "another token than the first entry: %s" % o, o.ret)
            if g is None:
                grants[o.number("token")] = Grant(o)
            elif g.owner != o.owner:
                self.wrong("unique", "%s, and %s" % (g, o), o.ret)
            elif o.op == "LOCK" and not self.may_hold_yet(g, o):
                self.wrong("unique", "%s, and again %s" % (g, o), o.ret)
            else:
                self.confirm(g, o, "again", o.inv + 1000 * o.number("lease"))
        for o in self.ops:
            if o.op not in ("UNLOCK", "RENEW"):
                continue
            g = grants.get(o.number("token"))
            if g is not None and (g.owner == o.owner):
                self.later(g, o, lost)
        for g in grants.values():
            self.close(g)
        return sorted(grants.values(), key=lambda g: g.token)

    def may_hold_yet(self, g, o):
        """It is unknown whether its owner has given it back: then its LOCK is a re-entry, and its answer shows that."""
        gave = [u for u in self.ops if u.op == "UNLOCK" and u.inv < o.inv and
                (u.owner, u.number("token")) == (g.owner, g.token)]
        return bool(gave) and all(u.result not in ("OK", "FAIL") for u in gave) and o.number("holds", 1) > 1

    def confirm(self, g, o, step, valid=0):
        g.confirmed = max(g.confirmed, o.inv)
        g.valid = max(g.valid, valid)
        g.steps.append((o, step))

    def later(self, g, o, lost):
        """An UNLOCK or RENEW of this grant."""
        if o.result == "OK" and lost.get(g.token, INF) < o.inv:
            self.wrong("claim", "answered LOST, then held: %s" % o, o.ret)
        if o.op == "RENEW":
            if o.result == "OK":
                self.confirm(g, o, "again", o.inv + 1000 * o.number("n"))
        elif o.result == "OK" and o.number("n") > 0:
            self.confirm(g, o, "again")
        else:
            g.ended = min(g.ended, o.inv)
            g.open |= o.result != "OK"
            if o.result == "OK":
                if g.released is not None:
                    self.wrong("reentry", "freed twice: %s" % o, o.ret)
                self.confirm(g, o, "release")
                g.released = o
        if o.result == "FAIL" and o.field.get("why") == "LOST":
            lost.setdefault(g.token, o.ret)

    def close(self, g):
        reported = self.h.losses.get((g.name, g.token), INF)
        g.ended = min(g.ended, self.h.end_of(g.op))
        if self.h.lasts and reported < min(g.valid, g.ended):
            text = "LOST %d us before the deadline: token %d of %s" % (g.valid - reported, g.token, g.owner)
            self.wrong("early", text, reported)
        g.ended = min(g.ended, reported)
        end = min(g.valid, g.ended)
        g.end = max(g.confirmed, self.h.trusted_until(g.op, g.start, end))

    # One sweep over the intervals, by their beginning.
    def exclusion(self):
        active = []
        for g in sorted(self.grants + self.plain, key=lambda g: g.start):
            while active and active[0][0] <= g.start:
                heapq.heappop(active)
            if g.end <= g.start:
                continue
            others = [a for _, _, a in active]
            if not ((g.shared and all(a.shared for a in others)) or len(others) < self.limit):
                self.wrong("exclusion", "%s while %s" % (g, others[0]), g.start)
            heapq.heappush(active, (g.end, g.token, g))

    def order(self):
        granted = sorted(self.grants, key=lambda g: g.start)
        i, largest = 0, None
        for g in sorted(self.grants, key=lambda g: g.op.inv):
            while i < len(granted) and granted[i].start < g.op.inv:
                if largest is None or granted[i].token > largest.token:
                    largest = granted[i]
                i += 1
            if largest is not None and g.token < largest.token:
                self.wrong("order", "%s asked for after %s" % (g, largest), g.start)

    def counts(self):
        """Holds of one grant: each re-entry adds one, each UNLOCK takes one; only for requests one after the other."""
        for g in self.grants:
            steps = sorted(g.steps, key=lambda s: s[0].inv)
            if g.op.op != "LOCK" or g.open or any(a[0].ret > b[0].inv for a, b in zip(steps, steps[1:])):
                continue
            holds = 1
            for o, _ in steps:
                if o.op == "RENEW":
                    continue
                holds += {"AGAIN": 1, "CHECK": 0, "UNLOCK": -1}[o.op]
                answered = o.number("n") if o.op == "UNLOCK" else o.number("holds", holds)
                if answered != holds:
                    self.wrong("reentry", "%d holds answered, %d counted: %s" % (answered, holds, o), o.ret)
                    break

    def fifo(self):
        groups = collections.defaultdict(list)
        for g in self.grants:
            o = g.op
            downs = self.h.downs.get(o.daemon, ())
            life = bisect.bisect_left(downs, o.inv)
            if o.op == "LOCK" and life == bisect.bisect_left(downs, o.ret) and not o.shared and self.limit == 1:
                groups[o.daemon, life].append(g)
        for group in groups.values():
            seen = sorted((g for g in group if g.op.queued < INF), key=lambda g: g.op.queued)
            i, largest = 0, None
            for g in sorted(group, key=lambda g: g.op.inv):
                while i < len(seen) and seen[i].op.queued < g.op.inv:
                    if largest is None or seen[i].token > largest.token:
                        largest = seen[i]
                    i += 1
                if largest is not None and g.token < largest.token:
                    self.wrong("fifo", "%s passed %s, seen in the queue before it asked" % (g, largest), g.start)

    def model(self, size=8, most=INF):
        """Windows of `size` successive grants, each overlapping half of the last one; returns their number."""
        windows = 0
        for i in range(0, max(1, len(self.grants) - size // 2), size // 2):
            window = self.grants[i:i + size]
            if not window or windows >= most:
                break
            windows += 1
            steps = steps_of(window)
            if len(steps) <= 64 and not linearizable(steps, self.limit):
                self.wrong("model", "no order explains %s" % ", ".join(map(str, window)), window[0].start)
        return windows


# --- Wing, Gong, Lowe: is there an order of the steps, each between its request and its answer, that the model allows?

def steps_of(grants):
    """
    (inv, ret, what, token, shared) of all steps of these grants. An order that the model allows is still allowed when
    it is restricted to some of the grants: the steps of each grant stand between its first and its last step.
    """
    out = []
    for g in grants:
        out.append((g.op.inv, g.start, "acquire", g.token, g.shared))
        out += [(o.inv, o.ret, step, g.token, g.shared) for o, step in g.steps if step == "again"]
        if g.released is not None:
            out.append((g.released.inv, g.released.ret, "release", g.token, g.shared))
        else:
            out.append((g.end, INF, "release", g.token, g.shared))  # some time, or never
    return sorted(out)


def model_step(state, step, limit):
    """The reentrant fenced lock: (largest token, holders) after this step, or None when the step is not allowed."""
    largest, holders = state
    _, _, what, token, shared = step
    if what == "acquire":
        if token <= largest or not ((shared and all(s for _, s in holders)) or len(holders) < limit):
            return None
        return token, holders | {(token, shared)}
    if (token, shared) not in holders:
        return None
    return state if what == "again" else (largest, holders - {(token, shared)})


def linearizable(steps, limit=1):
    needed = sum(1 << i for i, s in enumerate(steps) if s[1] < INF)
    seen = set()
    stack = [(0, (0, frozenset()))]
    while stack:
        done, state = stack.pop()
        if done & needed == needed:
            return True
        first = min(s[1] for i, s in enumerate(steps) if not done >> i & 1)
        for i, s in enumerate(steps):
            if s[0] > first:
                break
            if done >> i & 1:
                continue
            after = model_step(state, s, limit)
            if after is not None and (done | 1 << i, after) not in seen:
                seen.add((done | 1 << i, after))
                stack.append((done | 1 << i, after))
    return False


class Verdict:
    def __init__(self):
        self.violations, self.ops, self.grants, self.names, self.windows, self.lost = [], 0, 0, 0, 0, 0
        self.plain = 0

    def of(self, kind):
        return [v for v in self.violations if v.kind == kind]

    def __str__(self):
        count = collections.Counter(v.kind for v in self.violations)
        return "%d operations, %d grants, %d of them lost, %d names, %d windows: %s" % (
            self.ops, self.grants, self.lost, self.names, self.windows,
            ", ".join("%d %s" % (n, k) for k, n in sorted(count.items())) or "sound")


HOUSE = ("rlock:", "redisson_lock_token:")  # keys that stay: rlockd's own, and the counters of Redisson's fenced locks


def check(lines, most_windows=INF):
    """Checks the lines of one history."""
    h = History().read(sorted(lines, key=lambda l: int(l.split(None, 1)[0])))
    v = Verdict()
    v.violations += h.broken
    names = collections.defaultdict(list)
    for o in h.ops.values():
        names[o.name].append(o)
    for name, ops in sorted(names.items()):
        n = Name(h, name, ops)
        n.exclusion()
        n.order()
        n.counts()
        n.fifo()
        v.windows += n.model(most=most_windows)
        v.violations += n.bad
        v.ops += len(ops)
        v.grants += len(n.grants)
        v.plain += len(n.plain)
    v.names, v.lost = len(names), len(h.losses)
    v.violations += [Violation("leak", key, "was still there at the end", 0)
                     for key in h.left if not key.startswith(HOUSE)]
    return v


def read_files(paths):
    lines = []
    for path in paths:
        with open(path, errors="replace") as f:
            lines += [l for l in f if l.endswith("\n")]
    return lines


def main(paths):
    verdict = check(read_files(paths))
    for v in verdict.violations:
        print(v)
    print(verdict)
    return 1 if verdict.violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
