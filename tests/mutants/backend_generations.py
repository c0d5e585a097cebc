"""backend_generations.py -- the continuity of a cluster: generations.h and its scripts."""
from row import BACKEND, Mutant

MUTANTS = [
    Mutant("R940", "leases do not hang on registrations at two anchors", BACKEND + "generations.c", "move_bound",
           "sent_us + lease_us - lease_us / 100", "sent_us + 4 * lease_us", ["unit:test_generations"]),
    Mutant("R941", "what was promoted is taken for what it was", BACKEND + "generation_slots.c", "slot_is_sound",
           "e->origin == g->node[s->node].origin", "true", ["unit:test_generations"]),
    Mutant("R942", "a missing record is taken for a new slot", BACKEND + "generation_slots.c", "record_missing",
           "spoil(g, slot);", "send_record(g, slot, RECORD_CREATE_GRANT);", ["unit:test_generations"]),
    Mutant("R943", "a connection is believed before it has said what data it has", BACKEND + "generations.c",
           "generations_node_lost", "n->heard_us = 0;", "", ["unit:test_generations"]),
    Mutant("R944", "reported back is what is not reclaimed yet", BACKEND + "generation_table.c", "table_back",
           "e->live && e->unreclaimed_n > 0", "false", ["unit:test_generations"]),
    Mutant("R945", "no generation when an open slot closes", BACKEND + "generation_slots.c", "slot_is_sound",
           "e->since_us > s->open_us", "true", ["unit:test_generations"],
           [(BACKEND + "generation_slots.c", "slot_opens", "!was && s->entry != NOBODY", "false && was")]),
    Mutant("R946", "an anchor that lost its data votes at once", "scripts/anchor.lua", "",
           "math.max(now, birth + 1), origin, 'a', now, 0, 0", "math.max(now, birth + 1), origin, 'v', now, 0, 0",
           ["redis:test_scripts_anchor.py Lost"]),
    Mutant("R947", "an anchor waits for nobody", "scripts/anchor.lua", "",
           "math.min(least[1] == '#' and version or tonumber(least[2]), version)", "version",
           ["redis:test_scripts_anchor.py Anchor"]),
    Mutant("R948", "a record is opened into being", "scripts/record.lua", "",
           "mode == 'open' and is == number and now == 0", "mode == 'open'", ["redis:test_scripts_anchor.py Record"]),
    Mutant("R949", "what came up while a registration was in flight waits for the next beat",
           BACKEND + "generations_private.h", "ask_anchor", "g->anchor[i].again = g->anchor[i].asked;",
           "g->anchor[i].again = false;", ["unit:test_generations"]),
]
