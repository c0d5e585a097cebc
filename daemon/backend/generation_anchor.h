/*
 * generation_anchor.h -- the record of an anchor: its last answers, and the registration in flight; for the files of
 * generations_private.h.
 */
#ifndef RLOCKD_BACKEND_GENERATION_ANCHOR_H
#define RLOCKD_BACKEND_GENERATION_ANCHOR_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/backend/anchor_words.h"
#include "daemon/base/buf.h"

struct generation_anchor {
    uint64_t birth, version;
    int64_t longest_us;  /* the longest lease of a member, by the last answer */
    enum anchor_status status;
    bool answered, is_new;
    bool has_more;       /* the last answer left later generations out */
    uint64_t new_birth;  /* the birth in the anchor's last answer with `is_new`; 0: there was none */
    bool silent;         /* the last registration got no answer that counts */
    bool asked;          /* a registration is in flight ... */
    bool ask_again;      /* ... and lacks some news: the next one leaves at once */
    uint16_t node;       /* the receiver of the last registration ... */
    uint64_t epoch;      /* ... and its config epoch */
    uint64_t ok_epoch;   /* the config epoch of the node whose answer was the last that counts */
    int64_t low_us;      /* since when answers do not count, because the node's config epoch is too low; 0: they do */
    int64_t due_us, asked_us;
    int64_t sent_lease_us; /* the lease in the last registration */
    unsigned grace_answers; /* answers since the last new generation, while a generation is not over */
    int64_t ok_us, ok_lease_us; /* when the last registration that counts left, and the lease in it */
    int64_t answered_us;    /* when the last answered registration left */
    int64_t votes_us;       /* if it abstains: when it votes at the latest, by its last answer */
    uint64_t sent_query; /* bit_query.serial that the registration in flight asks for */
    uint64_t asked_for; /* the birth of the anchor for which that one asks for a list; 0: for none */
    bool sent_others;    /* the last registration has the lists of both other anchors */
    struct buf list;     /* the anchor's members and bits, if has_list */
    bool has_list;
};

#endif
