"""backend_quorum.py -- mutants of a quorum: of its votes, and of what its nodes are asked for. R880 to R909."""
from row import BACKEND, Mutant

QUORUM = "redis:test_quorum.py "

MUTANTS = [
    Mutant("R880", "a write-back goes to nodes that have not voted, too", BACKEND + "votes.c", "raise",
           "b->state == BALLOT_OK && b->counter < token && !b->raising", "b->counter < token && !b->raising",
           ["unit:test_votes"]),
    Mutant("R881", "a node votes right after it has been emptied", BACKEND + "quorum_admit.c", "take",
           "node->voting = node->established", "node->voting = true",
           [QUORUM + "Failures.test_an_emptied_node_does_not_vote_for_a_lease"]),
    Mutant("R882", "what was asked for and not answered is not given back", BACKEND + "quorum_holds.c", "part_launch",
           "p->clean = p->clean && e->verb != CORE_ACQUIRE", "p->clean = p->clean || e->verb == CORE_ACQUIRE",
           [QUORUM + "Failures.test_a_paused_node_costs_nothing"]),
    Mutant("R883", "the deadline is that of the node that keeps it longest", BACKEND + "votes.c", "votes_deadline",
           "above < q && q <= above + same", "above == 0", ["unit:test_votes"]),
    Mutant("R884", "a token is told that one node less than a majority covers", BACKEND + "votes.c", "covered_token",
           "covering(v, b->answer) >= v->q", "covering(v, b->answer) + 1 >= v->q", ["unit:test_votes"]),
    Mutant("R885", "an emptied node keeps the tokens that it began with", "scripts/quorum.lua", "",
           "clock < tonumber(ARGV[2])", "false",
           [QUORUM + "Failures.test_flushall_of_one"]),
    Mutant("R886", "a hole is never filled", BACKEND + "quorum_ops.c", "repair",
           "now_us - p->hole_us >= 2 * qu->conf.timeout_us", "now_us < p->hole_us",
           [QUORUM + "Failures.test_a_hole_is_filled"]),
    Mutant("R887", "a node that has answered above the token covers it", BACKEND + "votes.c", "covers",
           "b->answer <= token && token <= b->counter", "token <= b->counter", ["unit:test_votes"]),
    Mutant("R888", "a raised node that has lost our key still counts", BACKEND + "votes.c", "vote_not_raised",
           "v->node[node] = (struct ballot){.state = BALLOT_FAILED, .outcome = outcome, .pttl_us = -1};",
           "v->node[node].raising = outcome == CORE_OK;", ["unit:test_votes"]),
    Mutant("R889", "a node is not asked again whose clock was set", BACKEND + "quorum_holds.c", "part_suspect",
           "trusted_us(p, node) > now_us", "false",
           [QUORUM + "Clocks.test_what_shows_the_jump_is_asked_again_at_once"]),
    Mutant("R890", "what was said before a clock was set counts beside what is asked again", BACKEND + "votes.c",
           "vote_again", "BALLOT_AWAITED};", "BALLOT_OK};", ["unit:test_votes"]),
]
