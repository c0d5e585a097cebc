/*
 * checkpoint.h -- the checkpoints that the state file has for the next process.
 */
#ifndef RLOCKD_CORE_CHECKPOINT_H
#define RLOCKD_CORE_CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/kinds.h"
#include "daemon/base/slice.h"

enum core_checkpoint_state {
    CORE_CHECKPOINT_NOTHING,
    CORE_CHECKPOINT_QUEUED,
    CORE_CHECKPOINT_HELD,
    CORE_CHECKPOINT_RELEASING,
    CORE_CHECKPOINT_LOST
};

/*
 * The part of a claim's checkpoint that may change. It has no pointers, and the same bytes for the same values, so that
 * checkpoints can be compared by a checksum.
 */
struct core_checkpoint_part {
    uint64_t claim;          /* its id, which operations name; values and permits are derived from it */
    uint64_t redis_owner;    /* see claim.redis_owner */
    uint64_t token;          /* HELD, LOST, RELEASING: of the grant */
    uint64_t order;          /* QUEUED: smaller ones first, among the claims with a ticket, and among those without */
    int64_t deadline_us;     /* HELD; RELEASING: after this time Redis cannot have the claim */
    int64_t granted_us;
    int64_t lease_us;
    union { /* the layout of the state file stays the same: earlier versions had only the first */
        int64_t ticket_life_us; /* QUEUED with a ticket */
        int64_t outlasts_us;    /* HELD: for so long after deadline_us Redis may have the claim, if an operation
                                   without an answer has run; 0 in the files of earlier versions */
    };
    int64_t shrink_lease_us; /* HELD: a RENEW may still shorten the lease to this; 0 = none may */
    int64_t expiry_ms;
    uint32_t holds, shared;
    uint8_t state;           /* core_checkpoint_state */
    bool named;              /* belongs to a named owner; else to an owner that has ended, or ends with this process */
    bool watchdog, fresh;
    bool has_ticket;         /* QUEUED: has a ticket */
    bool acquire_unresolved; /* an acquire may still run, or has run without an answer */
    bool partial;            /* HELD: a release of some of the holds may still run */
    bool lost;               /* RELEASING: its loss is still to be reported to its owner */
};

/* All that Redis may have of a claim, and its owner. The texts of a claim never change, and its graces only rise. */
struct core_checkpoint {
    struct core_checkpoint_part part;
    struct slice name, key, owner;    /* owner.n == 0: a session's own */
    enum kind kind;
    enum value_format value;
    uint32_t limit;
    uint16_t domain;                  /* in RESTORE: of the key, see core_spec */
    bool declared;                    /* in RESTORE: the present rules name that kind, see core_spec */
    enum wakes wakes;                 /* in RESTORE: by the present rules */
    int64_t owner_grace_us, queue_grace_us;
};

/* A named owner that no session uses, and the time at which it ends, in this process or the next. */
struct core_owner_checkpoint {
    uint64_t id;      /* of the checkpoint */
    struct slice name;
    int64_t owner_grace_until_us;
};

/* The checkpoints that the former process left, and what has become of them. */
struct core_restored {
    struct core_checkpoint *checkpoint; /* the core sorts them */
    size_t n;
    const struct core_owner_checkpoint *owner;
    size_t owners_n;
    uint64_t serial;        /* ids up to this one may have been used */
    uint64_t token;         /* every token that was given is at most this, as far as is known */
    int64_t op_timeout_us;  /* the longest of the processes whose commands may still run; 0 = not known */
    size_t held, positions, released, lost, failed; /* set by the core: how many claims were restored as what */
};

#endif
