/*
 * continuity.h -- what a shard asks about its data: is it what we know, and may calls leave now?
 *
 * A domain is a set of data that is lost, and reclaimed, by itself. Of a Redis with one such set the membership
 * answers (membership.h), for domain 0; of a node of a cluster its slots do, each of which is a domain.
 */
#ifndef RLOCKD_BACKEND_CONTINUITY_H
#define RLOCKD_BACKEND_CONTINUITY_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/slice.h"

struct continuity;
struct redis_link;

/* The two keys that each script call names first: the clock of tokens, and the epoch. */
struct continuity_keys {
    struct slice clock, epoch; /* valid until the next continuity_ call */
    struct slice tag;          /* the hash tag of both, in a cluster */
};

struct continuity_ops {
    uint16_t (*domain)(const struct continuity *c, struct slice key);
    uint64_t (*epoch)(const struct continuity *c, uint16_t domain);
    struct slice (*word)(const struct continuity *c, uint16_t domain, bool reclaim);
    struct continuity_keys (*keys)(struct continuity *c, uint16_t domain);
    void (*greet)(struct continuity *c, struct redis_link *l);
    void (*lost)(struct continuity *c, const struct redis_link *l);
    void (*ask)(struct continuity *c, uint16_t domain, struct redis_link *l);
    void (*token)(struct continuity *c, uint16_t domain, uint64_t token);
    uint64_t (*floor)(const struct continuity *c);
    bool (*fresh)(struct continuity *c, uint16_t domain, int64_t now_us);
    bool (*pending)(struct continuity *c);
};

/* The head of the record that answers: a membership, or a master of a cluster. */
struct continuity {
    const struct continuity_ops *ops;
};

/* The domain of a name with that key. */
static inline uint16_t
continuity_domain(const struct continuity *c, struct slice key)
{
    return c->ops->domain(c, key);
}

/* The epoch of the domain that is known; 0 = none yet. What was asked for in another one is not sent any more. */
static inline uint64_t
continuity_epoch(const struct continuity *c, uint16_t domain)
{
    return c->ops->epoch(c, domain);
}

/* What the epoch's key has to be: as it is while Redis grants; `reclaim`: as it was last, in a grace period, too. */
static inline struct slice
continuity_word(const struct continuity *c, uint16_t domain, bool reclaim)
{
    return c->ops->word(c, domain, reclaim);
}

static inline struct continuity_keys
continuity_keys(struct continuity *c, uint16_t domain)
{
    return c->ops->keys(c, domain);
}

/* A link of locks or renewals is greeting: what must be answered before it is up is sent now. */
static inline void
continuity_greet(struct continuity *c, struct redis_link *l)
{
    if (c->ops->greet != NULL) {
        c->ops->greet(c, l);
    }
}

/* Such a link has gone down. */
static inline void
continuity_lost(struct continuity *c, const struct redis_link *l)
{
    c->ops->lost(c, l);
}

/* An answer on that link suggests another epoch of the domain. */
static inline void
continuity_ask(struct continuity *c, uint16_t domain, struct redis_link *l)
{
    c->ops->ask(c, domain, l);
}

/* A token of the domain has been given: none that is not larger must ever be given there. 0 = none was. */
static inline void
continuity_token(struct continuity *c, uint16_t domain, uint64_t token)
{
    c->ops->token(c, domain, token);
}

/* No token may be lower: what others have given, as far as it is known here. */
static inline uint64_t
continuity_floor(const struct continuity *c)
{
    return c->ops->floor != NULL ? c->ops->floor(c) : 0;
}

/* Whether a call of the domain may leave: see membership_fresh(). */
static inline bool
continuity_fresh(struct continuity *c, uint16_t domain, int64_t now_us)
{
    return c->ops->fresh(c, domain, now_us);
}

/* Whether they wait for that to be so: see membership_pending(). */
static inline bool
continuity_pending(struct continuity *c)
{
    return c->ops->pending(c);
}

#endif
