/*
 * domain.h -- a domain: a set of data in Redis that is lost, and reclaimed, by itself; private to daemon/core.
 *
 * With one Redis there is one domain, with the number 0. A lock is in the domain of its key as long as its record
 * lives. A claim is in the domain of its lock.
 */
#ifndef RLOCKD_CORE_DOMAIN_H
#define RLOCKD_CORE_DOMAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/list.h"
#include "daemon/core/jobs.h"

struct bookmark;
struct core;
struct lock;

enum { DOMAINS_MAX = 1 << 16 }; /* lock.domain has 16 bits */

/* The last review of the locks of a domain, and the reasons for it. */
struct review {
    unsigned number;   /* the number of the last review; WALK_REVIEW gives it to each lock */
    unsigned begun_n;  /* consecutive reviews: each but the first began before the previous one had ended */
    bool lost, jumped; /* Redis may have lost data; a clock has jumped */
};

struct domain {
    struct list locks;     /* lock.all, in order of creation */
    struct bookmark *end_bookmark; /* of cursors that go on with the next lock, or end before it; NULL: none */
    uint64_t epoch;        /* the epoch in which holds are being reclaimed; 0: none are, or not any more */
    uint64_t unverified_n; /* claims with VERIFY_LOST */
    struct review review;
    struct walk walk[WALKS];
    struct list dirty_node; /* core.dirty_domains: its review may be over */
};

/* domains.c */
void domains_init(struct core *c, uint32_t n);
void domains_fini(struct core *c);
/* All locks, domain by domain: the lock after `l`, or the first one (l NULL). NULL: no more. */
struct lock *domains_next_lock(const struct core *c, const struct lock *l);

#endif
