/*
 * cluster_poll.c -- the number of subscribers of some channels: each master is asked for the channels of its slots,
 * for the sharded and for the plain ones if releases are published on both.
 *
 * If a master does not answer, or a slot has no master, the poll ends without an event; the core can do without one.
 * Likewise if a slot has moved meanwhile: a node without the slot answers 0, which proves nothing.
 * One poll is in flight at a time; the deadlines of the links end it.
 */
#include "daemon/backend/cluster_private.h"
#include "daemon/backend/waiter_poll.h"

static void
finish_part(struct cluster *c, bool ok)
{
    c->poll.failed = c->poll.failed || !ok;
    if (--c->poll.left > 0) {
        return;
    }
    if (!c->poll.failed && c->poll.moves == c->moves) {
        cluster_post(c, &(struct core_event){.type = CORE_WAITERS_POLLED,
                                             .polled = {c->poll.op, c->poll.subscribers, c->poll.n}});
    }
    c->poll.op = 0;
}

static void
on_part(void *arg, enum link_result result, const struct reply *r, int64_t sent_us)
{
    struct cluster_poll_part *part = arg;
    int64_t subscribers[CORE_WAITER_POLL_MAX];
    bool ok = result == LINK_ANSWERED && r->type == REPLY_ARRAY && waiter_poll_read(r, part->n, subscribers);

    (void)sent_us;
    if (part->op == part->cluster->poll.op) { /* else that poll has ended without this part */
        for (size_t i = 0; ok && i < part->n; i++) {
            part->cluster->poll.subscribers[part->at[i]] += subscribers[i];
        }
        finish_part(part->cluster, ok);
    }
    part->op = --part->asked_n > 0 ? part->op : 0;
}

/* Sends the master's part of the poll. No question is sent if the part is empty, or no link is up. */
static void
ask(struct cluster_master *m, const struct core_waiter_poll *p)
{
    struct slice word[2 + CORE_WAITER_POLL_MAX] = {SLICE_LIT("PUBSUB")};
    struct cluster_poll_part *part = &m->poll;
    const struct script_variants *variants = &m->cluster->variants;
    struct buf channels;
    const char *at;

    buf_init(&channels, 0);
    part->n = 0;
    part->asked_n = 0;
    for (size_t i = 0; i < p->n; i++) {
        size_t from = channels.n;

        if (m->cluster->master_of[slot_of(p->name[i].key)] == m) {
            call_channel(p->name[i].kind, p->name[i].key, &channels);
            word[2 + part->n].n = channels.n - from;
            part->at[part->n++] = (uint16_t)i;
        }
    }
    at = channels.p;
    for (size_t i = 0; i < part->n; i++) { /* the words point into the text only now: it moved while it grew */
        word[2 + i].p = at;
        at += word[2 + i].n;
    }
    for (int plain = 0; plain < 2 && part->n > 0; plain++) {
        word[1] = plain ? SLICE_LIT("NUMSUB") : SLICE_LIT("SHARDNUMSUB");
        if (plain ? variants->publishes_both || !variants->sharded : variants->sharded) {
            part->asked_n += shard_ask(m->shard, (int)part->n + 2, word, on_part, part);
        }
    }
    buf_fini(&channels);
    part->op = part->asked_n > 0 ? p->op : 0;
}

void
cluster_poll(struct cluster *c, const struct core_waiter_poll *p)
{
    struct list *pos, *nxt;
    size_t asked = 0;

    if (c->poll.op != 0) {
        return;
    }
    c->poll.op = p->op;
    c->poll.moves = c->moves;
    c->poll.n = p->n;
    c->poll.left = 1; /* this function, until all parts are sent */
    c->poll.failed = false;
    memset(c->poll.subscribers, 0, p->n * sizeof(c->poll.subscribers[0]));
    list_for_each_safe(pos, nxt, &c->masters)
    {
        struct cluster_master *m = container_of(pos, struct cluster_master, node);

        if (m->poll.op == 0) {
            ask(m, p);
            c->poll.left += m->poll.asked_n;
            asked += m->poll.asked_n > 0 ? m->poll.n : 0;
        }
    }
    if (c->poll.left > 1) {
        c->env.metrics->probes++;
        finish_part(c, asked == p->n);
    } else { /* no part was sent; no event may be posted from inside this function */
        c->poll.op = 0;
    }
}
