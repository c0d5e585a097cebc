/*
 * kind_policy.h -- how kinds of lock differ for the core, as questions; private to daemon/core.
 *
 * Each question is here once, and each kind answers it in its row of kind_policy.c. An algorithm asks policy(l), or a
 * predicate below if the answer depends on the lock as well; no other file of the core names a kind or reads the flags
 * of kinds.def (proved by scripts/arrows). To add a kind, read this file and write one row; where the new kind does
 * what no other does, there is one more question.
 */
#ifndef RLOCKD_CORE_KIND_POLICY_H
#define RLOCKD_CORE_KIND_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/core/bounds.h"
#include "daemon/core/lock.h"

enum kind_holders {
    HOLDERS_ONE,
    HOLDERS_SHARED, /* one, or any number of SHARED ones */
    HOLDERS_LIMIT,  /* as many as the limit of the lock */
};

struct kind_policy {
    /* ---- who may hold it ---- */
    enum kind_holders holders; /* How many owners may hold the lock at a time? */
    bool any_makes_room;       /* Does a waiter wait for the end of any one of several holders, not of all? */
    bool aux_keys;             /* Has the lock auxiliary keys that name its holders, or whose turn it is? Then a lock
                                  with the twin of its key (lock_index.c) would share them. (A shared token counter does
                                  no harm.) */

    /* ---- what its owner has ---- */
    bool claim_each;    /* Does each LOCK take a claim of its own? Then an UNLOCK means the newest, or the one with its
                           token. */
    bool reentrant;     /* Does a LOCK of its owner add a hold? Else (unless claim_each) that LOCK would wait for
                           itself, and is refused: request_waits_for_itself(). */
    bool two_sorts;     /* Does Redis keep SHARED holds of an owner apart from exclusive ones? Then an operation that
                           runs late could meet holds of the other sort, and must not. */
    bool expiry_proves; /* Is the expiry in Redis the only proof of ownership? Then one operation is under way at a
                           time, and the next owner must get another expiry. */

    /* ---- whose turn it is ---- */
    bool tickets;      /* Does Redis keep a queue, in which waiters have tickets? A ticket outlives attempts, is asked
                          for while others hold the lock, and is given back like a lock. */
    bool called_apart; /* Does Redis call the next owner of its queue on a channel of that owner alone? */
    bool try_behind;   /* May an attempt be sent behind a release that is under way? A6 of attempts.c. */
    bool only_last_reports; /* Does Redis report how many subscribe only when the last of several holders leaves? */

    /* ---- what needs no operation in Redis ---- */
    bool handoff; /* May a hold pass to the next waiter here? handoff.c; with a limit, see lock_may_hand_off(). */
    bool cacheable; /* May a hold stay for an owner that comes here later, if the rule of the name has `linger`? */
};

/* kind_policy.c; by enum kind */
extern const struct kind_policy kind_policies[KINDS];

static inline const struct kind_policy *
policy(const struct lock *l)
{
    return &kind_policies[l->kind];
}

/* The limit counts: holders come and go beside each other, each with a token of its own. */
static inline bool
lock_has_limit(const struct lock *l)
{
    return policy(l)->holders == HOLDERS_LIMIT;
}

/* The number of owners that may hold the lock at a time without SHARED. */
static inline uint32_t
lock_holders_max(const struct lock *l)
{
    return lock_has_limit(l) ? l->limit : 1;
}

/* Several owners may hold the lock at a time. */
static inline bool
lock_allows_several(const struct lock *l)
{
    return policy(l)->holders != HOLDERS_ONE;
}

/* Whether holds of this sort, shared or not, can be beside each other. */
static inline bool
lock_has_room_beside(const struct lock *l, bool shared)
{
    return lock_has_limit(l) || shared;
}

/* The lock may pass to the next waiter here while Redis has it as taken; see handoff.c. */
static inline bool
lock_may_hand_off(const struct lock *l)
{
    return policy(l)->handoff && lock_holders_max(l) <= HANDOFF_PERMITS;
}

/* ... and be cached for the next request, if the rule of its name has `linger`. */
static inline bool
lock_may_cache(const struct lock *l)
{
    return l->linger_us > 0 && policy(l)->cacheable;
}

#endif
