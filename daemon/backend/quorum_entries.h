/*
 * quorum_entries.h -- an owner's entry for a name on all nodes of a quorum, and the order of errands on each; for
 * quorum.c and quorum_*.c.
 */
#ifndef RLOCKD_BACKEND_QUORUM_ENTRIES_H
#define RLOCKD_BACKEND_QUORUM_ENTRIES_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/backend/backend_ops.h"
#include "daemon/base/list.h"
#include "daemon/base/map.h"
#include "daemon/base/timer.h"

struct errand;
struct quorum;
struct quorum_node;
struct quorum_op;

/* What a release has to name beside owner and key: claims of one owner may differ in it (H4 of quorum_entries.c). */
struct written {
    uint64_t claim; /* of kind `simple`, whose value is derived from it; else 0 */
    enum kind kind : 8;
    enum value_format value : 8;
    enum wakes wakes : 8;
};

/* One node's part of an entry. Times are by the daemon's clock. */
struct quorum_part {
    struct list queue;   /* of errands, in their order: the first one is in flight if `in_flight` */
    bool in_flight;
    bool clean;          /* the node does not have the owner's key, and no command in flight can set it */
    struct written written; /* of the owner's key, if the node may have it */
    int64_t sent_us;     /* when the last command that set the expiry left */
    int64_t deadline_us; /* the node has the owner's key until then at least; 0 = it may be missing */
    uint64_t epoch;      /* the epoch of the node's data when it confirmed that */
    int64_t missing_since_us; /* when the owner's key was first found missing (O4); 0 = it is there */
    int64_t shown_us;    /* when the last command that found the owner's key left; 0 = none did, or it is missing */
    int64_t repaired_us; /* when a repair had set the owner's key, which does not count yet (O7); 0 = it counts */
    int64_t acquire_until_us; /* an UNKNOWN attempt may run until then, ... */
    int64_t release_until_us; /* ... and an UNKNOWN release until then, ... */
    int64_t shrink_until_us; /* ... and an UNKNOWN RENEW, which may shorten the lease to shrink_lease_us */
    int64_t shrink_lease_us;
};

/* One owner's entry for a name, on all nodes; the key follows the parts. */
struct quorum_entry {
    struct map_node by_hash; /* hash of key and owner */
    struct timer timer;
    struct core_op op;       /* the core's latest operation; the entry owns its key */
    uint64_t incarnation;    /* rises with each attempt and each release; outcomes of older operations are ignored */
    bool wanted;             /* the core requests or holds the name: the owner's key may stay on nodes */
    bool confirmed;          /* this process was granted the name, or has confirmed the hold: deadlines count */
    unsigned ops_n;          /* operations in progress, and callers that keep the entry */
    int64_t fill_us;         /* when holes of nodes that do not vote are filled (O9); 0 = none is known */
    int64_t check_us;        /* when nodes are asked for the key, so that repaired ones count (O7); 0 = they are not */
    int64_t until_us;        /* later no node can have the owner's key */
    struct quorum_part part[]; /* one for each node */
};

struct quorum_entry *quorum_entry_of(struct quorum *qu, const struct core_op *op);

/* An operation has ended: frees the entry, or arms its timer. */
void quorum_entry_settle(struct quorum *qu, struct quorum_entry *entry);

int64_t quorum_entry_deadline_us(const struct quorum *qu, const struct quorum_entry *entry);

/*
 * A clock was set, so nodes may have dropped the owner's key: answers received until now neither confirm the hold nor
 * end it. The core has got SUSPECT, and asks again.
 */
bool quorum_entry_suspect(const struct quorum *qu, const struct quorum_entry *entry, int64_t now_us);

/* Until this time the node has the owner's key, or does not vote. */
int64_t quorum_part_deadline_us(const struct quorum_part *p, const struct quorum_node *node);

/* The node has confirmed the owner's key, and a clock was set since. */
bool quorum_part_suspect(const struct quorum_part *p, const struct quorum_node *node, int64_t now_us);

/* O9. The node does not vote, and lacks the owner's key as far as is known: sets the time to fill the hole. */
void quorum_note_hole(struct quorum *qu, struct quorum_entry *entry, unsigned node);

void quorum_entries_jumped(struct quorum *qu); /* a clock was set: posts SUSPECT if a held lock is concerned */
void quorum_entries_set_back(struct quorum *qu, unsigned node, int64_t back_us); /* the clock of that node was */
void quorum_entries_free(struct quorum *qu);

/* Queues a new errand for the node, or puts it on quorum.unsent if the queue is full. token: see struct errand. */
void quorum_part_push(struct quorum *qu, struct quorum_op *o, unsigned node, enum core_action_type verb,
                      uint64_t token);

/* Takes an answered errand off its queue, and updates its part. quorum_part_launch() then sends the next one. */
void quorum_part_done(struct quorum *qu, struct errand *e, const struct core_done *done);
void quorum_part_launch(struct quorum *qu, struct quorum_part *p);

#endif
