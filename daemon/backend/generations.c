/*
 * generations.c -- the time of the next message to each anchor, and the meaning of its answers.
 */
#include "daemon/backend/generations.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/backend/generations_private.h"
#include "daemon/base/memory.h"

enum {
    GRACE_US = 50 * 1000, /* the first pause between registrations while members are awaited */
    SOON_US = 10 * 1000, /* between two registrations at an anchor */
};

struct generations *
generations_new(const struct anchor_identity *identity, uint64_t random, generations_news_fn *on_news, void *ctx)
{
    struct generations *g = mem_zalloc(sizeof(*g));

    g->identity = *identity;
    g->random = random;
    g->forward_at = (size_t)random;
    g->on_news = on_news;
    g->ctx = ctx;
    g->lists_for = -1;
    g->longest_us = identity->lease_us;
    for (unsigned i = 0; i < SLOTS_N; i++) {
        g->slot[i].entry = g->slot[i].node = NO_INDEX;
    }
    for (unsigned i = 0; i < ANCHORS; i++) {
        buf_init(&g->anchor[i].list, 0);
    }
    return g;
}

void
generations_free(struct generations **gp)
{
    struct generations *g = *gp;

    if (g == NULL) {
        return;
    }
    for (unsigned i = 0; i < ANCHORS; i++) {
        buf_fini(&g->anchor[i].list);
    }
    for (unsigned i = 0; i < g->nodes_n; i++) {
        free(g->proposal[i].range);
    }
    free(g->node);
    free(g->proposal);
    free(g->entry);
    free(g->begin);
    free(g->expected);
    free(g->ranges);
    free(g);
    *gp = NULL;
}

void
generations_lease(struct generations *g, int64_t lease_us)
{
    if (lease_us > g->identity.lease_us) {
        g->identity.lease_us = lease_us;
        g->longest_us = lease_us > g->longest_us ? lease_us : g->longest_us;
        ask_anchors(g);
    }
}

void
generations_leave(struct generations *g)
{
    g->leaving = true;
    ask_anchors(g);
}

void
generations_reached(struct generations *g)
{
    ask_anchors(g);
}

int64_t
generations_bound_us(const struct generations *g)
{
    return g->bound_us;
}

uint64_t
generations_number(const struct generations *g, uint16_t slot)
{
    const struct gslot *s = &g->slot[slot];

    return s->entry != NO_INDEX ? g->entry[s->entry].number : 0;
}

bool
generations_is_open(const struct generations *g, uint16_t slot)
{
    return g->slot[slot].open;
}

bool
generations_is_used(const struct generations *g, uint16_t slot)
{
    return g->slot[slot].used;
}

void
generations_token(struct generations *g, uint64_t token)
{
    g->floor = token > g->floor ? token : g->floor;
}

uint64_t
generations_floor(const struct generations *g)
{
    return g->floor;
}

const struct anchor_identity *
generations_identity(const struct generations *g)
{
    return &g->identity;
}

/* ---- the anchors: what is sent ---- */

/*
 * The anchor had no data when its present birth began. An anchor that votes does not report this any more, but of three
 * new anchors the first one votes before the others know that it was new.
 */
static bool
began_new(const struct ganchor *a)
{
    return a->new_birth != 0 && a->new_birth == a->birth;
}

/* R7: an anchor that wants lists gets those of both other anchors, or the news that all three anchors are new. */
static void
bring(struct generations *g, unsigned i)
{
    struct ganchor *a = &g->anchor[i], *b = &g->anchor[(i + 1) % ANCHORS], *c = &g->anchor[(i + 2) % ANCHORS];
    struct anchor_message *m = &g->message;

    a->brings = false;
    if (a->is_new && began_new(b) && began_new(c)) {
        m->brings_new = true;
        m->brings_birth = a->birth;
    } else if (g->lists_for == (int)i && b->has_list && c->has_list) {
        a->brings = true;
        m->brings[0] = buf_slice(&b->list);
        m->brings[1] = buf_slice(&c->list);
        m->brings_birth = a->birth;
    }
}

const struct anchor_message *
generations_message(struct generations *g, unsigned i, uint16_t node)
{
    struct ganchor *a = &g->anchor[i];
    struct anchor_message *m = &g->message;

    *m = (struct anchor_message){.leaving = g->leaving,
                                 .holds = g->restored || g->registered_us != 0,
                                 .lists = g->lists_for >= 0 && g->lists_for != (int)i && !a->has_list,
                                 .birth = a->birth,
                                 .version = a->version,
                                 .reclaimed = table_reclaimed(g, i),
                                 .suspect_us = g->slot[anchor_slot(i)].open_us,
                                 .longest_us = g->longest_us,
                                 .owner = g->owner,
                                 .floor = g->floor};
    a->node = node;
    a->epoch = node < g->nodes_n ? g->node[node].config_epoch : 0;
    a->sent_lists = m->lists ? g->anchor[g->lists_for].birth : 0;
    a->sent_lease_us = g->identity.lease_us;
    if (a->answered) {
        table_forward(g, i);
    }
    begin_propose(g, i);
    a->sent_batch = 0;
    if (g->batch.n > 0 && (g->batch.asks & 1u << i) != 0) {
        m->slot = g->batch.slot;
        m->slot_number = g->batch.number;
        m->slots_n = g->batch.n;
        a->sent_batch = g->batch.serial;
    }
    bring(g, i);
    m->begin = g->begin;
    m->expected = g->expected;
    for (size_t k = 0, used = 0; k < m->begin_n; used += g->begin[k++].ranges_n) {
        g->begin[k].range = g->ranges + used;
    }
    return m;
}

/* ---- the anchors: their answers ---- */

/* G2: the bound is that of the two anchors with the latest answered registrations. */
static void
move_bound(struct generations *g)
{
    int64_t sent_us = 0, lease_us = 0, bound_us;

    for (unsigned i = 0; i < ANCHORS; i++) {
        const struct ganchor *a = &g->anchor[i], *b = &g->anchor[(i + 1) % ANCHORS];
        int64_t both_us = a->ok_us < b->ok_us ? a->ok_us : b->ok_us;

        if (both_us > sent_us) {
            sent_us = both_us;
            lease_us = a->ok_lease_us < b->ok_lease_us ? a->ok_lease_us : b->ok_lease_us;
        }
    }
    g->registered_us = sent_us;
    bound_us = sent_us == 0 ? 0 : sent_us + lease_us - lease_us / 100 - 2 * US_PER_MS;
    if (bound_us > g->bound_us) {
        g->bound_us = bound_us;
        g->on_news(g->ctx, GENERATION_BOUND, 0, 0);
    }
}

static void
forget_lists(struct generations *g)
{
    g->lists_for = -1;
    for (unsigned i = 0; i < ANCHORS; i++) {
        g->anchor[i].has_list = false;
        buf_clear(&g->anchor[i].list, 0);
    }
}

static void
keep_list(struct generations *g, unsigned i, const struct anchor_answer *a)
{
    struct ganchor *an = &g->anchor[i];

    if (g->lists_for < 0 || an->sent_lists != g->anchor[g->lists_for].birth || a->list.n == 0) {
        return; /* R7: a list requested before the anchor that wants it lost its data may lack members */
    }
    buf_clear(&an->list, SIZE_MAX);
    buf_add_slice(&an->list, a->list);
    an->has_list = true;
    ask_anchor(g, (unsigned)g->lists_for);
}

static void
take_status(struct generations *g, unsigned i, const struct anchor_answer *a)
{
    struct ganchor *an = &g->anchor[i];

    an->status = a->status;
    an->is_new = a->is_new && a->status != ANCHOR_VOTES;
    an->new_birth = an->is_new ? a->birth : an->new_birth;
    if (g->lists_for == (int)i && (an->brings || a->status == ANCHOR_VOTES) && a->status != ANCHOR_WANTS_LISTS) {
        forget_lists(g);
    }
    if (a->status == ANCHOR_WANTS_LISTS) {
        if (g->lists_for != (int)i) {
            forget_lists(g);
            g->lists_for = (int)i;
        }
        ask_anchors(g);
    }
    if (an->is_new && began_new(&g->anchor[(i + 1) % ANCHORS]) && began_new(&g->anchor[(i + 2) % ANCHORS])) {
        ask_anchors(g);
    }
}

/*
 * An anchor moves with its slot. The other anchors know the config epoch of its node, so answers of a former master are
 * recognized, and neither they nor its earlier answers count. The new master votes only with the lists of both other
 * anchors, which learn of its config epoch before they give their lists. So a daemon that registers at one of these and
 * at the former master gets that config epoch before the new master votes.
 */
static void
take_owners(struct generations *g, const struct anchor_answer *a)
{
    for (unsigned i = 0; i < ANCHORS; i++) {
        if (a->owner[i] > g->owner[i]) {
            g->owner[i] = a->owner[i];
        }
        if (g->anchor[i].ok_epoch < g->owner[i]) {
            g->anchor[i].ok_us = 0;
            table_forget_done(g, i);
        }
    }
}

static void
take_answer(struct generations *g, unsigned i, const struct anchor_answer *a, int64_t sent_us, int64_t now_us)
{
    struct ganchor *an = &g->anchor[i];

    if (an->birth != a->birth) {
        if (g->lists_for == (int)i) {
            forget_lists(g);
        }
        table_forget(g, i);
        an->birth = a->birth;
        an->version = 0;
    }
    for (size_t k = 0; k < a->entries_n; k++) {
        table_take(g, i, &a->entry[k], now_us);
    }
    if (a->entries_n > 0) {
        an->due_us = 0; /* at once: generations without used slots are to be reported as reclaimed */
        for (unsigned k = 0; k < ANCHORS; k++) {
            g->anchor[k].waits = 0;
        }
    }
    an->version = a->version;
    an->has_more = a->entries_n >= ANCHOR_ENTRIES_MAX;
    an->answered = true;
    an->answered_us = sent_us;
    g->longest_us = a->longest_us > g->longest_us ? a->longest_us : g->longest_us;
    generations_token(g, a->floor);
    take_status(g, i, a);
    keep_list(g, i, a);
    if (a->status == ANCHOR_VOTES && !g->leaving) {
        table_done(g, i, a->done);
        an->ok_us = sent_us;
        an->ok_lease_us = an->sent_lease_us;
        move_bound(g);
    }
    if (a->status == ANCHOR_VOTES && an->sent_batch == g->batch.serial) {
        batch_answered(g, i, a);
    }
    if (table_lacks(g, i)) {
        an->due_us = 0;
    }
}

/*
 * While members are awaited, the pause between two registrations doubles from GRACE_US up to a beat: the end of a short
 * grace period is known soon, and a long one costs a handful of calls more.
 */
static int64_t
pause_us(const struct generations *g, struct ganchor *a)
{
    int64_t us = GRACE_US << a->waits;

    if (g->open_entries_n == 0 || us >= GENERATION_BEAT_US) {
        return GENERATION_BEAT_US;
    }
    a->waits++;
    return us;
}

/* An answer that took longer than a beat is ignored: it may be from before the anchor lost its data (R7). */
void
generations_anchor_answered(struct generations *g, unsigned i, const struct anchor_answer *a, int64_t sent_us,
                            int64_t now_us)
{
    struct ganchor *an = &g->anchor[i];
    bool counts = a != NULL && a->status != ANCHOR_DUPLICATE_UUID && now_us - sent_us < GENERATION_BEAT_US;

    if (counts) {
        g->owner[i] = an->epoch > g->owner[i] ? an->epoch : g->owner[i];
        take_owners(g, a);
        counts = an->epoch >= g->owner[i];
        an->ok_epoch = counts ? an->epoch : an->ok_epoch;
        if (!counts && an->node < g->nodes_n) {
            g->node[an->node].due_us = 0; /* its config epoch may be higher by now */
        }
    }
    an->asked = false;
    an->due_us = now_us + (!counts ? GENERATION_BEAT_US / 8 : an->again ? 0 : pause_us(g, an));
    an->again = false;
    if (counts) {
        take_answer(g, i, a, sent_us, now_us);
    }
    begin_answered(g, i, counts, now_us);
}

/* ---- due requests ---- */

void
generations_next(struct generations *g, int64_t now_us, struct generation_send *out)
{
    *out = (struct generation_send){.type = SEND_NOTHING};
    begin_all(g, now_us);
    slots_tick(g, now_us);
    batch_tick(g, now_us);
    batch_begin(g, now_us);
    for (unsigned i = 0; i < ANCHORS; i++) {
        struct ganchor *a = &g->anchor[i];

        if (!a->asked && a->due_us <= now_us && now_us - a->asked_us >= SOON_US) {
            a->asked = true;
            a->asked_us = now_us;
            *out = (struct generation_send){.type = SEND_REGISTER, .anchor = i};
            return;
        }
    }
    for (unsigned i = 0; i < g->nodes_n; i++) {
        if (!g->node[i].asked && g->node[i].due_us <= now_us) {
            g->node[i].asked = true;
            *out = (struct generation_send){.type = SEND_NODE, .node = (uint16_t)i};
            return;
        }
    }
    (void)slot_next_record(g, now_us, out);
}

int64_t
generations_due_us(const struct generations *g)
{
    int64_t due_us = INT64_MAX;

    for (unsigned i = 0; i < ANCHORS; i++) {
        const struct ganchor *a = &g->anchor[i];
        int64_t its_us = a->due_us > a->asked_us + SOON_US ? a->due_us : a->asked_us + SOON_US;

        due_us = !a->asked && its_us < due_us ? its_us : due_us;
    }
    for (unsigned i = 0; i < g->nodes_n; i++) {
        const struct gnode *n = &g->node[i];

        due_us = !n->asked && n->due_us < due_us ? n->due_us : due_us;
        if (g->records.n > 0 && n->records_pause_us != 0 && n->records_due_us < due_us) {
            due_us = n->records_due_us;
        }
    }
    if (g->later.n > 0 && g->later_us < due_us) {
        due_us = g->later_us;
    }
    if ((g->batch.n == 0 && g->bits.n > 0) || (g->begin_due && begin_may(g))) {
        return 0;
    }
    return due_us;
}
