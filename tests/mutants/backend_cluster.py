"""backend_cluster.py -- mutants of a cluster: slots, maps, redirections. R910 to R939."""
from row import BACKEND, Mutant

MUTANTS = [
    Mutant("R910", "an old master's map of the cluster wins", BACKEND + "cluster_map.c", "merge_slots",
           "is == CLUSTER_NOBODY || epoch < m->epoch[slot]", "is == CLUSTER_NOBODY",
           ["unit:test_cluster_map"]),
    Mutant("R911", "an empty hash tag is one", BACKEND + "slot.c", "slot_of",
           "tag.n > 0 ?", "tag.p != NULL ?",
           ["unit:test_cluster_map"]),
    Mutant("R912", "a key suits whose channel is in another slot", BACKEND + "slot.c", "slot_suits",
           "&& memchr(key.p, '}', key.n) == NULL", "",
           ["unit:test_cluster_map"]),
    Mutant("R913", "names of several slots share a call", BACKEND + "shard_flush.c", "flush_call",
           "container_of(node, struct item, node)->domain != c->domain", "false",
           ["redis:test_cluster.py Slots.test_names_of_many_slots_in_one_turn"]),
    Mutant("R914", "a waiter listens on where its slot was", BACKEND + "cluster_watch.c", "cluster_watches_follow",
           "w->at != c->of[w->slot] || slot_set_has(&c->stray, w->slot)", "false",
           ["redis:test_cluster.py Waiters.test_the_slot_moves_under_a_waiter"]),
    Mutant("R915", "in an open slot nothing is renewed", BACKEND + "cluster_park.c", "in_open_slot",
           "bool one_key = script_forms_text(&c->forms, it->verb, it->op.kind, true) != NULL;",
           "bool one_key = false;",
           ["redis:test_cluster.py Moves.test_renewed_and_freed_in_an_open_slot"]),
    Mutant("R916", "a call behind ASK is sent without ASKING", BACKEND + "shard_calls.c", "shard_call_send",
           "if (c->asking)", "if (false)",
           ["redis:test_cluster.py Moves.test_renewed_and_freed_in_an_open_slot"]),
]
