"""backend_cluster_nodes.py -- mutants of a cluster: which nodes a daemon trusts, and what happens to nodes that leave.
"""
from row import BACKEND, Mutant

MUTANTS = [
    Mutant("R925", "the core is informed about a watch that has ended", BACKEND + "cluster_watch.c", "forget",
           "list_remove(&w->due);", "", ["unit:test_cluster_watch"]),
    Mutant("R921", "the map of a node of another cluster is accepted at once", BACKEND + "cluster_map.c", "is_ours",
           "a->news->other_cluster && !a->asked->replaces", "false", ["unit:test_cluster_map"]),
    Mutant("R922", "a node that has left the cluster empties the map", BACKEND + "cluster_map.c", "is_ours",
           "!a->slots", "false", ["unit:test_cluster_map"]),
    Mutant("R923", "a useless seed is asked again and again", BACKEND + "cluster_seeds.c", "on_map",
           "s->useless = !take(s, s->address, result, r);", "(void)take(s, s->address, result, r);",
           ["redis:test_cluster_seeds.py Seeds.test_of_no_use"]),
    Mutant("R924", "a shard closes with a question of LOCKINFO in flight", BACKEND + "shard.c", "shard_idle",
           "sh->inspections_n == 0 &&", "", ["redis:test_cluster_grace.py Stopped.test_what_it_was_asked_is_answered"]),
    Mutant("R926", "watches that a node refuses are requested again at once", BACKEND + "cluster_watch.c",
           "may_resubscribe", "c->resubscribed_us + RESUBSCRIBE_US", "0", ["unit:test_cluster_watch"]),
    Mutant("R1223", "the log warns of a replica that a node still lists as a master", BACKEND + "cluster_masters.c",
           "follow", "node->slots_n > 0 ? NULL : ANCHORS_NO_MASTER", "NULL",
           ["redis:test_cluster.py Starts.test_a_replica_that_a_node_takes_for_a_master_is_no_reason"]),
]
