/*
 * generation_records.h -- the records of an anchor, of a node, of a known generation, and of the proposal of a new one;
 * for the files of generations_private.h.
 */
#ifndef RLOCKD_BACKEND_GENERATION_RECORDS_H
#define RLOCKD_BACKEND_GENERATION_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/backend/anchor_words.h"
#include "daemon/backend/slot.h"
#include "daemon/base/buf.h"

/* Its last answers, and the registration in flight. */
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
    uint64_t asked_for;  /* the birth of the anchor for which that registration asks for a list; 0: for none */
    bool sent_others;    /* the last registration has the lists of both other anchors */
    struct buf list;     /* the anchor's members and bits, if has_list */
    bool has_list;
};

/* Slots that a node reports open without owning them: generation_marks.c. */
struct slot_marks {
    uint8_t bit[SLOTS / 8];
    uint8_t late[SLOTS / 8]; /* GM5: those that count no more */
    int64_t since_us;        /* since when all answers of the node, with its present origin, have had marks */
};

struct generation_node {
    char id[NODE_ID_ROOM];
    uint64_t origin, config_epoch;
    uint64_t time_us;  /* the node's clock in its last answer */
    uint64_t digest;   /* of the last answer; an answer with another digest is taken in */
    int64_t answered_us;   /* when the last answered question left; 0 = no answer counts */
    int64_t due_us;
    int64_t records_due_us; /* the node gets no record script before this time ... */
    int64_t records_pause_us; /* ... because it refused the last one, or did not answer; 0: it did answer */
    bool records_fail;      /* the last record script has failed; takes_records() turns that into a pause */
    int64_t valid_from_us;  /* an answer to an earlier question shows only that the node is up */
    bool asked;
    bool kept; /* generations_node_keep() */
    struct slot_marks *marks; /* owned: the slots that the node reports open and does not own; NULL: none */
};

struct known_generation {
    uint64_t number, origin, since_us;
    uint64_t version[ANCHORS]; /* the generation's version at the anchor; 0 = the anchor has not named it */
    uint64_t inherited[ANCHORS]; /* the lowest version of the generations whose unreclaimed slots it got; 0 = none */
    unsigned slots_n;
    unsigned unreclaimed_n; /* slots in which this daemon has still to reclaim locks */
    unsigned done;          /* a bit for each anchor whose members have all reclaimed this generation */
    bool end_seen;          /* a record shows that it is over: generation_table_end_seen() */
    unsigned answered;      /* ... a bit for each anchor: it has answered a registration that was sent since */
    unsigned in_flight;     /* ... and for each whose registration was in flight at that time */
    bool live;              /* it has slots; else the record is free */
    bool over;
    uint64_t floor;         /* over: generations.floor at its end */
    int64_t named_us;       /* when an anchor named it first */
};

/* A new generation of the slots of one node. */
struct generation_proposal {
    uint64_t number, expected, origin, since_us;
    struct slot_range *range; /* owned */
    size_t ranges_n;
    unsigned receivers;      /* the anchors that get it, a bit each: at first the one that has to take it (GB2) */
    unsigned sent, answered; /* the receivers to which it is on its way; those that have answered it */
    int64_t due_us;  /* the end of the random time for others to begin the generation (GB2); 0: no slot needs one */
    int64_t news_asked_us; /* since when an anchor is asked for news; 0: not yet ... */
    unsigned news_asked_n; /* ... and how many have been asked ... */
    bool has_news;         /* ... and the last of these has answered */
    int64_t began_us;
    bool live;       /* it has a number, and is sent */
    bool reported;   /* by GENERATION_BEGUN */
};

#endif
