"""mutants.py -- bugs that lock services have had (M), and some that only rlockd can have, room by room.

Each row: its number (M: of other lock services), the story, the file, the function (or a table, a type or a macro of
C; "" is the whole file), the text that is there once, the text of the bug, and the catchers, the fastest first; for a
bug in more than one place, the others as (file, function, old, new). Texts are compared as tokens: white space, line
breaks and comments make no difference. They are as short as possible: the change, and the words that make it unique in
its function. `texts.py` lists the rows that do not fit the sources any more. M20 (Redlock), M25 (TLS) and M11 (WAIT)
are the nearest bugs of an rlockd with one Redis, without TLS and WAIT; R852 is the bug of WAIT itself.
"""
import backend
import backend_cluster
import backend_cluster_nodes
import backend_generations
import backend_quorum
import base
import chaos
import core_leases
import core_locks
import core_requests
import scripts
import serve
from row import CORE, Mutant

MUTANTS = [m for room in (core_requests, core_locks, core_leases, backend, backend_cluster, backend_cluster_nodes,
                           backend_quorum, backend_generations, serve, scripts, base, chaos)
           for m in room.MUTANTS]

# The verdicts of run.py on these are known, and come first: without them its other verdicts prove nothing.
PROOFS = [
    (Mutant("P1", "no bug", CORE + "times.c", "core_lease_us", "us + us / 99", "us / 99 + us",
            ["unit:test_core_grace"]), "it lives"),
    (Mutant("P2", "text that is not there", CORE + "core.c", "core_step", "no such text", "", ["unit:test_core_grace"]),
     "0 times"),
    (Mutant("P3", "text that is there twice", CORE + "core.c", "", "work_catch_up(c);", "", ["unit:test_core_grace"]),
     "times"),
    (Mutant("P6", "a function that is not there", CORE + "core.c", "no_such", "work_catch_up(c);", "",
            ["unit:test_core_grace"]), "nothing is called no_such"),
    (Mutant("P7", "a change that is none", CORE + "times.c", "core_lease_us", "us + us / 99", "us + us /* no */ / 99",
            ["unit:test_core_grace"]), "is not changed"),
    (Mutant("P4", "no C", CORE + "times.c", "", "return us + us / 99;", "return us +;", ["unit:test_core_grace"]),
     "does not build"),
    (Mutant("P5", "no Lua", "scripts/membership.lua", "", "local OK, DUPLICATE = 1, 2", "local OK, DUPLICATE = 1 2",
            ["redis:test_scripts_membership.py Epochs.test_known"]), "no Lua"),
]
