"""Keys that Redis's ACL keeps from rlockd."""
import itertools
import time

from hostile import Scene, flood


class ForbiddenKeys(Scene):
    "ACL: two connections ask for one forbidden name after another, others lock names of their own"

    def prepare(self):
        with self.redis.conn() as c:
            assert c.cmd("ACL", "SETUSER", "default", "resetkeys", "~rlock:*", "~bystander:*", "~ok:*") == "OK"
        self.hostile = [self.connect() for _ in range(2)]
        self.others = [self.connect() for _ in range(8)]

    def attack(self):
        number = itertools.count()
        errors = []

        def forbidden():
            return b"".join(b"LOCK sess:%d NOWAIT\r\n" % next(number) for _ in range(256))

        end = time.monotonic() + 2.5
        done = lines = 0
        for c in self.others:
            c.line("LOCK ok:%d NOWAIT" % c.fileno())
        while time.monotonic() < end:
            lines += flood(self.hostile, forbidden, seconds=0.02)
            for c in self.others:
                answer = c.read()
                if not isinstance(answer, int):
                    errors.append(answer)
                c.line("UNLOCK ok:%d" % c.fileno() if done % 2 == 0 else "LOCK ok:%d NOWAIT" % c.fileno())
            done += 1
        for c in self.others:
            errors += [a for a in [c.read()] if not isinstance(a, int)]
        if errors or lines == 0 or done < 10:
            raise AssertionError("%d of others' requests failed: %s" % (len(errors), errors[:2]))
        return "%d were refused, %d of others' were not" % (lines, done * len(self.others))
