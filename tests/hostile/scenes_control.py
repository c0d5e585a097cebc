"""Controls: no attack at all, and a daemon that is known to stand still."""
import time

from hostile import Scene, flood


class Quiet(Scene):
    "control: no client attacks"

    def attack(self):
        time.sleep(1)  # the measured time


class Stalls(Scene):
    "control, must be noticed: the daemon stands still for 600 ms (DEBUG STALL)"
    must_fail = "PING"

    def attack(self):
        with self.connect() as c:
            assert c.cmd("DEBUG", "STALL", "600ms") == "OK"


class LosesLocks(Scene):
    "control, must be noticed: the bystander's lock is broken"
    must_fail = "the renewed lock"

    def attack(self):
        with self.connect() as c:
            assert c.cmd("BREAK", "bystander:kept") == 1


class Pings(Scene):
    "20 connections send PINGs as fast as they can"

    def attack(self):
        conns = [self.connect() for _ in range(20)]
        return "%d answered" % flood(conns, b"PING\r\n" * 1000, seconds=1.5)
