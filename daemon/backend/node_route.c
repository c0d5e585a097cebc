/*
 * node_route.c -- which link an operation goes by.
 *
 * Names are spread over slots by their key. A slot has a home among the links of locks, and a current link: its
 * home while that is up, else any other link that is, also the one of renewals. So a name is served while a link is up.
 *
 * I1  All operations of a slot but renewals go by its current link, so those of one name keep their order.
 * I2  A slot leaves a link that is connected only for its home, and only while none of its operations is gathered or in
 *     flight (`open`) and the link owes no reply to a command that was given up: nothing overtakes them.
 * I3  A slot leaves a link that is gone at once. What was in flight there is UNKNOWN by then and may run late, as
 *     behind a reconnect; what had gathered goes along, in its order (node_move_gathered()).
 * I4  A link that is about to be dropped (link_fail()) is not gone: what it has in flight is not UNKNOWN yet.
 */
#include "daemon/backend/node_private.h"

void
node_route_init(struct node *n)
{
    n->slots = n->lock_links * ROUTE_SLOTS;
    for (unsigned i = 0; i < n->slots; i++) {
        n->route[i] = (struct route){.link = (uint8_t)(i % n->lock_links)};
    }
}

/* Who chooses names that share a slot gains nothing but that they move together: no keyed hash is needed. */
unsigned
node_slot_of(const struct node *n, struct slice key)
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
    return hash_id(mixed) % n->slots;
}

/* The current link of a slot whose own is gone, or may be left. Where none is up, its home: there it is DOWN. */
static unsigned
pick(const struct node *n, unsigned home)
{
    for (unsigned i = 0; i < n->lock_links; i++) {
        unsigned link = (home + i) % n->lock_links;

        if (link_up(n->link[link])) {
            return link;
        }
    }
    return link_up(n->link[n->lock_links]) ? n->lock_links : home;
}

unsigned
node_lock_link(struct node *n, unsigned slot)
{
    struct route *r = &n->route[slot];
    const struct redis_link *l = n->link[r->link];
    unsigned home = slot % n->lock_links;

    if (link_gone(l)) {
        r->link = (uint8_t)pick(n, home);
    } else if (r->link != home && r->open == 0 && !link_owes(l) && link_up(n->link[home])) {
        r->link = (uint8_t)home;
    }
    return r->link;
}

static bool
answers(const struct redis_link *l)
{
    return link_up(l) && !link_silent(l);
}

/*
 * Renewals go by their own link; while that is away, or does not answer, by the name's, and else by any. They need no
 * order among the other commands of a name: a renewal finds its owner or does nothing, and moves the expiry to later
 * only; a RENEW to less (exact) is alone under way, and has its guard. So whatever is granted can be renewed: there is
 * no grant without a link, and each will do.
 */
unsigned
node_renew_link(const struct node *n, unsigned slot)
{
    unsigned home = slot % n->lock_links;

    if (answers(n->link[n->lock_links])) {
        return n->lock_links;
    }
    for (unsigned i = 0; i < n->lock_links; i++) {
        unsigned link = (home + i) % n->lock_links;

        if (answers(n->link[link])) {
            return link;
        }
    }
    return link_up(n->link[home]) && !link_up(n->link[n->lock_links]) ? home : n->lock_links;
}
