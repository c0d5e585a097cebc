/*
 * shard_route.c -- the link of each operation.
 *
 * The key of a name decides its home among the links of locks. The name's current link is its home while that is up,
 * else any other link that is up, also that of renewals. So all names are served while one link is up. Rules SR1 to SR4
 * keep the commands of a name in order while its link changes.
 */
#include "daemon/backend/shard_private.h"

/*
 * SR1 All names of a home share a current link, and all their operations but renewals leave by it. So the commands of a
 *     name keep their order; with one link of locks those of all names do (core_conf.one_link).
 * SR2 Names leave a connected link only for their home, behind a fence: once the home is up again, nothing leaves by
 *     the link abroad until all commands in flight there are answered (shard_flush()). So no command is overtaken.
 *     While a straggler is in flight abroad, which may still run, the names stay there, without a fence.
 * SR3 Names leave a lost link at once. Commands in flight there are UNKNOWN by then and may run late, as after any
 *     reconnect; gathered items move to the other link in their order.
 * SR4 A link that is about to be dropped (link_fail()) is not lost yet: its commands in flight are not UNKNOWN.
 */

void
shard_route_init(struct shard *sh)
{
    for (unsigned i = 0; i < sh->lock_links; i++) {
        sh->current[i] = i;
    }
}

/* No keyed hash is needed: a client gains nothing by names that share a home. */
unsigned
shard_home_of(const struct shard *sh, struct slice key)
{
    uint64_t mixed = key.n, word;
    size_t at;

    for (at = 0; key.n - at >= sizeof(word); at += sizeof(word)) {
        memcpy(&word, key.p + at, sizeof(word));
        mixed = hash_id(mixed ^ word) + mixed * 31;
    }
    for (; at < key.n; at++) {
        mixed = mixed * 31 + (unsigned char)key.p[at];
    }
    return hash_id(mixed) % sh->lock_links;
}

/* A new current link for names of the home; the home itself if no link is up: their operations are DOWN then. */
static unsigned
pick(const struct shard *sh, unsigned home)
{
    for (unsigned i = 0; i < sh->lock_links; i++) {
        unsigned link = (home + i) % sh->lock_links;

        if (link_up(sh->link[link])) {
            return link;
        }
    }
    return link_up(sh->link[sh->lock_links]) ? sh->lock_links : home;
}

bool
shard_locks_away(const struct shard *sh)
{
    unsigned i = 0;

    while (i < sh->lock_links && link_up(sh->link[sh->current[i]])) {
        i++;
    }
    return i < sh->lock_links;
}

bool
shard_route_leave(struct shard *sh, unsigned link)
{
    bool left = false;

    for (unsigned home = 0; home < sh->lock_links; home++) {
        if (sh->current[home] == link) {
            sh->current[home] = pick(sh, home);
            left = left || sh->current[home] != link;
        }
    }
    return left;
}

bool
shard_may_return(const struct shard *sh, unsigned home)
{
    return sh->current[home] != home && link_up(sh->link[home]) && !link_has_straggler(sh->link[sh->current[home]]);
}

bool
shard_is_fenced(const struct shard *sh, unsigned link)
{
    bool fenced = false;

    for (unsigned home = 0; home < sh->lock_links; home++) {
        fenced = fenced || (sh->current[home] == link && shard_may_return(sh, home));
    }
    return fenced;
}

static bool
answers(const struct redis_link *l)
{
    return link_up(l) && !link_silent(l);
}

/*
 * Renewals use their own link. While that is down or does not answer, they use the name's home, else any link. They
 * need no order among the commands of a name: a renewal finds its owner or does nothing, and only extends the expiry; a
 * RENEW to a shorter lease (exact) is the claim's only operation in flight, and has a guard. So every granted lock can
 * be renewed while any link answers.
 */
unsigned
shard_renew_link(const struct shard *sh, unsigned home)
{
    if (answers(sh->link[sh->lock_links])) {
        return sh->lock_links;
    }
    for (unsigned i = 0; i < sh->lock_links; i++) {
        unsigned link = (home + i) % sh->lock_links;

        if (answers(sh->link[link])) {
            return link;
        }
    }
    return link_up(sh->link[home]) && !link_up(sh->link[sh->lock_links]) ? home : sh->lock_links;
}
