/*
 * domain.h -- a domain: a set of data in Redis that is lost, and reclaimed, by itself; private to daemon/core.
 *
 * With one Redis there is one domain, with the number 0. A lock is in the domain of its key for as long as it is there.
 * A claim is in the domain of its lock.
 */
#ifndef RLOCKD_CORE_DOMAIN_H
#define RLOCKD_CORE_DOMAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/list.h"
#include "daemon/core/jobs.h"

struct core;
struct lock;

enum { DOMAINS_MAX = 1 << 16 }; /* lock.domain has 16 bits */

/* The reasons for which the locks of a domain are reviewed. */
struct review {
    unsigned number;   /* of the last one; locks have it when WALK_REVIEW has been there */
    unsigned begun_n;  /* since none stood */
    bool lost, jumped; /* Redis may have lost data; a clock has jumped */
};

struct domain {
    struct list locks;     /* lock.all, in order of creation */
    uint64_t epoch;        /* in which what is held is being asserted; 0 = it is done, and said */
    uint64_t unverified_n; /* claims with VERIFY_LOST */
    struct review review;
    struct walk walk[WALKS];
    struct list dirty_node; /* core.dirty_domains: its review may be over */
};

/* domains.c */
void domains_init(struct core *c, uint32_t n);
void domains_fini(struct core *c);
void domain_note(struct core *c, uint32_t i); /* a lock has come to it, or left it */
/* All locks, domain by domain: the one behind `l`; NULL: the first one. NULL: there is none. */
struct lock *locks_next(const struct core *c, const struct lock *l);

#endif
