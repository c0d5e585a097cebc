/*
 * shard_flush.c -- gathered operations leave as calls, by the rules of shard_calls.c.
 */
#include "daemon/backend/shard_private.h"
#include "daemon/base/clock.h"
#include "daemon/base/freelist.h"

enum {
    SKIPPED_MAX = 128, /* items of other domains, while a call is filled */
    BATCH_ENOUGH = 16, /* names that share the cost of a call well enough to leave before the last answer is read */
    RENEW_CALLS_MIN = 2,  /* calls of renewals that may be in flight, and ... */
    RENEW_RTT_US = 1000,  /* ... one more for each such part of the round trip, ... */
    RENEW_CALLS_MAX = 16, /* ... up to so many */
};

/* A call for this item, and others that may share it. */
static struct call
call_of(struct list *node)
{
    const struct item *it = container_of(node, struct item, node);
    const struct core_op *op = &it->op;

    return (struct call){
        .verb = it->verb,
        .kind = op->kind,
        .reclaim = op->reclaim,
        .alone = it->alone,
        .epoch = it->epoch,
        .domain = it->domain,
        .one_key = it->one_key,
        .asking = it->asking,
        /* A release that leaves some holds would undo later holds if it ran late. */
        .partial = it->verb == VERB_RELEASE && (op->holds > 0 || op->other_sort > 0),
    };
}

/* Sends a call of at most `max` names of the batch, or adds it to the bundle. Items that cannot be sent are DOWN. */
static void
flush_call(struct shard *sh, struct list *batch, unsigned link, size_t max)
{
    struct call *c = freelist_take(sh->env->freelist, sizeof(*c)); /* all is set below */
    struct list *node, *next;
    size_t skipped = 0;

    *c = call_of(batch->next);
    c->of_quorum = sh->conf->of_quorum;
    c->shard = sh;
    c->link = link;
    list_init(&c->items);
    list_for_each_safe(node, next, batch)
    {
        struct call alike;

        if (c->n == (c->alone ? 1 : max) || skipped == SKIPPED_MAX) {
            break;
        }
        if (container_of(node, struct item, node)->domain != c->domain) { /* another domain has another call */
            skipped++;
            continue;
        }
        alike = call_of(node);
        if (alike.partial != c->partial || alike.reclaim != c->reclaim || alike.epoch != c->epoch ||
            alike.alone != c->alone) {
            break; /* one guard, and one epoch, for all names of a call */
        }
        list_remove(node);
        list_push_back(&c->items, node);
        c->n++;
        sh->gathered_n--;
        sh->gathered[link]--;
    }
    if (shard_bundle_add(sh, c)) {
        return;
    }
    if (shard_call_send(sh, c)) {
        shard_note_in_flight(sh, c);
        return;
    }
    while (!list_empty(&c->items)) {
        deferred_item(&sh->deferred, container_of(c->items.next, struct item, node));
    }
    freelist_give(sh->env->freelist, c, sizeof(*c));
}

/*
 * Few calls of renewals are in flight, so that no request of a client waits behind many: two if Redis is near (it works
 * on one while the daemon reads the answer to the other), more if it is far. The distance is the round trip of a fast
 * answer; the last answer may have waited behind other calls, the longer the more were sent.
 */
static bool
may_renew(const struct shard *sh)
{
    int64_t calls = RENEW_CALLS_MIN + clock_offset_rtt_us(&sh->offset) / RENEW_RTT_US;

    return sh->renewing < (calls < RENEW_CALLS_MAX ? calls : RENEW_CALLS_MAX);
}

/* Sends all that has gathered for the link; SC4. */
static void
flush_link(struct shard *sh, unsigned link)
{
    size_t max = sh->conf->batch_max > SHARD_BATCH_MAX ? SHARD_BATCH_MAX : sh->conf->batch_max;

    for (int b = 0; b < BATCHES && sh->gathered[link] > 0; b++) {
        bool renews = b == BATCH_VERB + VERB_RENEW;

        for (unsigned i = 0; i < KINDS && sh->gathered[link] > 0; i++) {
            unsigned kind = (i + (renews ? sh->next_renewed : 0)) % KINDS; /* each kind has its turn */
            struct list *batch = &sh->batch[link][b][kind];

            while (!list_empty(batch) && (!renews || may_renew(sh))) {
                struct item *it = container_of(batch->next, struct item, node);

                if (it->epoch == continuity_epoch(sh->continuity, it->domain)) {
                    flush_call(sh, batch, link, max);
                    sh->next_renewed = renews ? kind + 1 : sh->next_renewed;
                } else {
                    sh->gathered_n--;
                    sh->gathered[link]--;
                    deferred_item(&sh->deferred, it);
                }
            }
            shard_bundle_send(sh); /* SC3: later calls are of another verb or kind */
        }
    }
}

/* Names whose home is up again return when nothing is in flight on their current link: SR2. */
static void
go_home(struct shard *sh)
{
    for (unsigned home = 0; home < sh->lock_links; home++) {
        unsigned link = sh->current[home];

        if (sh->calls[link] == 0 && shard_may_return(sh, home)) {
            sh->current[home] = home;
            shard_gather_again(sh, link);
        }
    }
}

void
shard_flush(struct shard *sh)
{
    if (sh->address->tls != NULL) {
        certificates_turn(&sh->certificates, sh->env, sh->address, sh->link[0]);
    }
    if (sh->gathered_n > 0 && continuity_pending(sh->continuity)) {
        return;
    }
    go_home(sh);
    for (unsigned link = 0; link <= sh->lock_links && sh->gathered_n > 0; link++) {
        bool enough = sh->gathered[link] >= BATCH_ENOUGH && !shard_is_fenced(sh, link) &&
                    (link < sh->lock_links || may_renew(sh));

        if (sh->calls[link] == 0 || enough) {
            if (!shard_grants(sh, clock_now_us())) { /* SC7 */
                shard_gather_again(sh, link);
            }
            link_cork(sh->link[link]);
            flush_link(sh, link);
            link_uncork(sh->link[link]);
        }
    }
}
