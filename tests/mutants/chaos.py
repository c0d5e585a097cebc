"""chaos.py -- mutants that the history checker must notice before each shape of Redis (tests/chaos). R1300 to R1302.

A short run beside others may miss one: then a longer one has to notice it.
"""
from row import BACKEND, Mutant

GRANT_IN_GRACE = ("scripts/common.lua", "", "takes and not is_known()", "false")

MUTANTS = [
    Mutant("R1300", "a node that was emptied votes at once, and grants in its grace period", BACKEND + "quorum_admit.c",
           "take", "node->voting = node->established", "node->voting = true",
           ["chaos:--shape quorum --only node-behind --duration 10 --seed 1",
            "chaos:--shape quorum --only node-behind --duration 30 --seed 2"], [GRANT_IN_GRACE]),
    Mutant("R1301", "a master that lost its data grants in its grace period", *GRANT_IN_GRACE,
           ["chaos:--shape sentinel --only node-flush,node-old --duration 10 --seed 1",
            "chaos:--shape sentinel --only node-flush,node-old --duration 30 --seed 2"]),
    Mutant("R1302", "a slot whose record is lost counts as new", BACKEND + "generation_slots.c", "take_missing_record",
           "lose_record(g, slot);", "send_record(g, slot, RECORD_MODE_CREATE_GRANT);",
           ["chaos:--shape cluster --only node-flush,node-old --duration 10 --seed 1",
            "chaos:--shape cluster --only node-flush,node-old --duration 30 --seed 2"]),
]
