/*
 * kind_policy.c -- what each kind of lock answers to the questions of kind_policy.h; what a row does not name is "no".
 */
#include "daemon/core/kind_policy.h"

const struct kind_policy kind_policies[KINDS] = {
    [KIND_REENTRANT] = {.holders = HOLDERS_ONE, .reentrant = true, .try_behind = true, .handoff = true,
                        .cacheable = true},
    [KIND_SIMPLE] = {.holders = HOLDERS_ONE, .try_behind = true, .handoff = true, .cacheable = true},
    [KIND_COUNTER] = {.holders = HOLDERS_ONE, .expiry_proves = true},
    [KIND_FAIR] = {.holders = HOLDERS_ONE, .aux_keys = true, .reentrant = true, .tickets = true,
                   .called_apart = true},
    [KIND_RW] = {.holders = HOLDERS_SHARED, .aux_keys = true, .reentrant = true, .two_sorts = true,
                 .try_behind = true, .only_last_reports = true, .handoff = true, .cacheable = true},
    /* Not cacheable: another daemon may have a waiter for a free permit. */
    [KIND_SEMAPHORE] = {.holders = HOLDERS_LIMIT, .any_makes_room = true, .aux_keys = true, .claim_each = true,
                        .try_behind = true, .handoff = true},
    /* Each grant has to raise Redisson's own token counter, in Redis: so no lock is handed over or cached. */
    [KIND_FENCED] = {.holders = HOLDERS_ONE, .reentrant = true, .try_behind = true},
};
