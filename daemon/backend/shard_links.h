/*
 * shard_links.h -- the links of a shard by their purpose, for shard.c, which explains them, and for shard_view.c.
 */
#ifndef RLOCKD_BACKEND_SHARD_LINKS_H
#define RLOCKD_BACKEND_SHARD_LINKS_H

#include "daemon/backend/shard_private.h"

/* Whether the shard's own membership answers for its data. */
static inline bool
shard_has_membership(const struct shard *sh)
{
    return sh->continuity == &sh->membership.head;
}

/* The first link of locks or renewals that is up, else link 0. */
static inline struct redis_link *
shard_any_link(const struct shard *sh)
{
    unsigned i = 0;

    while (i < sh->lock_links && !link_up(sh->link[i])) {
        i++;
    }
    return sh->link[link_up(sh->link[i]) ? i : 0];
}

static inline struct redis_link *
shard_sub_link(const struct shard *sh)
{
    return sh->link[sh->lock_links + 1];
}

/* The link's purpose, for the log and INFO. */
static inline const char *
shard_purpose_of(const struct shard *sh, unsigned i)
{
    static const char *const behind[] = {"renewals", "subscriptions", "replicas"};

    return i < sh->lock_links ? "locks" : behind[i - sh->lock_links];
}

#endif
