/*
 * membership_domain.c -- the membership as the continuity of a shard with one set of data (continuity.h).
 */
#include "daemon/backend/call.h"
#include "daemon/backend/membership.h"
#include "daemon/base/clock.h"

static struct membership *
self(struct continuity *c)
{
    return (struct membership *)(void *)c;
}

static const struct membership *
const_self(const struct continuity *c)
{
    return (const struct membership *)(const void *)c;
}

static uint16_t
one_domain_of(const struct continuity *c, struct slice key)
{
    (void)c;
    (void)key;
    return 0;
}

static uint64_t
one_epoch(const struct continuity *c, uint16_t domain)
{
    (void)domain;
    return const_self(c)->epoch.number;
}

static struct slice
one_epoch_value(const struct continuity *c, uint16_t domain, bool reclaim)
{
    const struct epoch *e = &const_self(c)->epoch;

    (void)domain;
    return slice_of(reclaim ? e->last_value : e->granting_value);
}

static struct continuity_keys
one_pair_of_keys(struct continuity *c, uint16_t domain)
{
    (void)c;
    (void)domain;
    return (struct continuity_keys){.clock = SLICE_LIT(CALL_CLOCK_KEY), .epoch = SLICE_LIT(CALL_EPOCH_KEY)};
}

static void
one_greet(struct continuity *c, struct redis_link *l)
{
    membership_greet(self(c), l);
}

static void
one_lost(struct continuity *c, const struct redis_link *l)
{
    membership_lost(self(c), l);
}

static void
one_check(struct continuity *c, uint16_t domain, struct redis_link *l)
{
    (void)domain;
    membership_ask(self(c), l);
}

static void
one_token(struct continuity *c, uint16_t domain, uint64_t token)
{
    (void)domain;
    membership_token(self(c), token);
}

static bool
one_fresh(struct continuity *c, uint16_t domain, int64_t now_us)
{
    (void)domain;
    return membership_fresh(const_self(c), now_us);
}

static bool
one_pending(struct continuity *c)
{
    return !membership_is_calm(const_self(c), clock_now_us()) && membership_pending(self(c));
}

/* Empty: a new epoch has begun, or its grace period is over. "+...": a newcomer. */
static void
one_received(struct continuity *c, struct slice text)
{
    if (text.n == 0) {
        membership_ask_again(self(c));
    } else {
        membership_newcomer(self(c), (struct slice){text.p + 1, text.n - 1});
    }
}

/* Without `floor`: each registration raises rlock:clock to the highest known token (scripts/membership.lua). */
const struct continuity_ops membership_one_domain = {
    .domain = one_domain_of,
    .epoch = one_epoch,
    .epoch_value = one_epoch_value,
    .keys = one_pair_of_keys,
    .greet = one_greet,
    .lost = one_lost,
    .check = one_check,
    .token = one_token,
    .fresh = one_fresh,
    .pending = one_pending,
    .received = one_received,
};
