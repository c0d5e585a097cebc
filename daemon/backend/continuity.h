/*
 * continuity.h -- a shard's questions about its data: is it still the known data, and may calls leave now?
 *
 * A domain is the unit in which data is lost and reclaimed. A Redis with one data set has domain 0, for which the
 * membership answers (membership.h). In a cluster each slot is a domain, for which the topology answers.
 */
#ifndef RLOCKD_BACKEND_CONTINUITY_H
#define RLOCKD_BACKEND_CONTINUITY_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/slice.h"

struct continuity;
struct redis_link;

/* The first two keys of each script call: the token clock, and the epoch. */
struct continuity_keys {
    struct slice clock, epoch; /* valid until the next continuity_keys() */
    struct slice tag;          /* the hash tag of both, in a cluster */
};

struct continuity_ops {
    uint16_t (*domain)(const struct continuity *c, struct slice key);
    uint64_t (*epoch)(const struct continuity *c, uint16_t domain);
    struct slice (*epoch_value)(const struct continuity *c, uint16_t domain, bool reclaim);
    struct continuity_keys (*keys)(struct continuity *c, uint16_t domain);
    void (*greet)(struct continuity *c, struct redis_link *l);
    void (*lost)(struct continuity *c, const struct redis_link *l);
    void (*check)(struct continuity *c, uint16_t domain, struct redis_link *l);
    void (*token)(struct continuity *c, uint16_t domain, uint64_t token);
    uint64_t (*floor)(const struct continuity *c, uint16_t domain);
    bool (*fresh)(struct continuity *c, uint16_t domain, int64_t now_us);
    bool (*pending)(struct continuity *c);
    void (*received)(struct continuity *c, struct slice text);
    bool (*origin)(const struct continuity *c, uint16_t domain, uint64_t *out);
};

/* The head of the answering record: a membership, or a master of a cluster. */
struct continuity {
    const struct continuity_ops *ops;
};

/* The domain of a name with that key. */
static inline uint16_t
continuity_domain(const struct continuity *c, struct slice key)
{
    return c->ops->domain(c, key);
}

/* The known epoch of the domain; 0 = none yet. Items that were made in another epoch are not sent. */
static inline uint64_t
continuity_epoch(const struct continuity *c, uint16_t domain)
{
    return c->ops->epoch(c, domain);
}

/* The value that the epoch's key must have: that of a Redis that grants, or, to reclaim, the latest known one. */
static inline struct slice
continuity_epoch_value(const struct continuity *c, uint16_t domain, bool reclaim)
{
    return c->ops->epoch_value(c, domain, reclaim);
}

static inline struct continuity_keys
continuity_keys(struct continuity *c, uint16_t domain)
{
    return c->ops->keys(c, domain);
}

/*
 * The origin of the data in which the domain's epoch has begun, as node.lua computes it; 0: the value of the epoch's
 * key contains the origin. False: other data may be there by now, or the domain is at another node.
 */
static inline bool
continuity_origin(const struct continuity *c, uint16_t domain, uint64_t *out)
{
    *out = 0;
    return c->ops->origin == NULL || c->ops->origin(c, domain, out);
}

/* A link of locks or renewals is greeting: sends what must be answered before the link is up. */
static inline void
continuity_greet(struct continuity *c, struct redis_link *l)
{
    if (c->ops->greet != NULL) {
        c->ops->greet(c, l);
    }
}

/* A link of locks or renewals has gone down. */
static inline void
continuity_lost(struct continuity *c, const struct redis_link *l)
{
    c->ops->lost(c, l);
}

/* An answer on that link suggests another epoch of the domain. */
static inline void
continuity_check(struct continuity *c, uint16_t domain, struct redis_link *l)
{
    c->ops->check(c, domain, l);
}

/* A token of the domain was given: all later ones must be larger. 0 = no token was given. */
static inline void
continuity_token(struct continuity *c, uint16_t domain, uint64_t token)
{
    c->ops->token(c, domain, token);
}

/* The highest token known to be given in the domain: new ones must be larger. 0 = the continuity does not know. */
static inline uint64_t
continuity_floor(const struct continuity *c, uint16_t domain)
{
    return c->ops->floor != NULL ? c->ops->floor(c, domain) : 0;
}

/* Whether a call of the domain may leave: see membership_fresh(). */
static inline bool
continuity_fresh(struct continuity *c, uint16_t domain, int64_t now_us)
{
    return c->ops->fresh(c, domain, now_us);
}

/* Whether calls wait for a registration: see membership_pending(). */
static inline bool
continuity_pending(struct continuity *c)
{
    return c->ops->pending(c);
}

/* Another daemon has broadcast something about the data: a text that is empty or begins with "+". */
static inline void
continuity_received(struct continuity *c, struct slice text)
{
    c->ops->received(c, text);
}

#endif
