/*
 * generations.c -- the time of the next message to each anchor, and the meaning of its answers.
 */
#include "daemon/backend/generations.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/backend/generation_marks.h"
#include "daemon/backend/generation_sends.h"
#include "daemon/backend/generation_table.h"
#include "daemon/backend/generations_private.h"
#include "daemon/base/memory.h"

enum {
    GRACE_PAUSE_US = 50 * 1000, /* the first pause between registrations while members are awaited */
    SOON_US = 10 * 1000, /* the shortest pause between two registrations at an anchor */
};

#define DAY_US (86400 * US_PER_S) /* anchor.lua: the longest lease */

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
    for (unsigned i = 0; i < SLOTS; i++) {
        g->slot[i].generation = g->slot[i].node = NO_INDEX;
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
        free(g->node[i].marks);
    }
    free(g->node);
    free(g->proposal);
    free(g->known);
    free(g->outgoing);
    free(g->expected);
    free(g->ranges);
    free(g);
    *gp = NULL;
}

void
generations_set_lease(struct generations *g, int64_t lease_us)
{
    if (lease_us > g->identity.lease_us) {
        g->identity.lease_us = lease_us;
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
    const struct generation_slot *s = &g->slot[slot];

    return s->generation != NO_INDEX ? g->known[s->generation].number : 0;
}

bool
generations_is_open(const struct generations *g, uint16_t slot)
{
    return generation_slot_is_open(&g->slot[slot]);
}

bool
generations_is_used(const struct generations *g, uint16_t slot)
{
    return g->slot[slot].used;
}

void
generations_token(struct generations *g, uint16_t slot, uint64_t token)
{
    struct generation_slot *s = &g->slot[slot];

    s->floor = token > s->floor ? token : s->floor;
    g->floor = token > g->floor ? token : g->floor;
}

uint64_t
generations_floor(const struct generations *g, uint16_t slot)
{
    const struct generation_slot *s = &g->slot[slot];
    uint64_t floor = s->generation != NO_INDEX && g->known[s->generation].over ? g->known[s->generation].floor
                                                                                : g->floor;

    return s->floor > floor ? s->floor : floor;
}

/* Not at once: soon the node may report a higher config epoch, or the map may name another node. */
bool
generations_anchor_is_low(const struct generations *g, unsigned anchor, int64_t now_us)
{
    int64_t low_us = g->anchor[anchor].low_us;

    return low_us != 0 && now_us - low_us >= GENERATION_FRESH_BEATS * GENERATION_BEAT_US;
}

bool
generations_in_grace(const struct generations *g)
{
    return g->in_grace_n > 0;
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
began_new(const struct generation_anchor *a)
{
    return a->new_birth != 0 && a->new_birth == a->birth;
}

/* R7: an anchor that wants lists gets those of both other anchors, or the news that all three anchors are new. */
static void
append_others(struct generations *g, unsigned i)
{
    struct generation_anchor *a = &g->anchor[i], *b = &g->anchor[(i + 1) % ANCHORS], *c = &g->anchor[(i + 2) % ANCHORS];
    struct anchor_message *m = &g->message;

    a->sent_others = false;
    if (a->is_new && began_new(b) && began_new(c)) {
        m->all_new = true;
        m->lists_birth = a->birth;
    } else if (g->lists_for == (int)i && b->has_list && c->has_list) {
        a->sent_others = true;
        m->lists[0] = buf_slice(&b->list);
        m->lists[1] = buf_slice(&c->list);
        m->lists_birth = a->birth;
    }
}

const struct anchor_message *
generations_message(struct generations *g, unsigned i, uint16_t node)
{
    struct generation_anchor *a = &g->anchor[i];
    struct anchor_message *m = &g->message;

    *m = (struct anchor_message){.leaving = g->leaving,
                                 .holds = g->restored || g->bound_us != 0, /* with a bound, locks may be held */
                                 .asks_list = g->lists_for >= 0 && g->lists_for != (int)i && !a->has_list,
                                 .birth = a->birth,
                                 .version = a->version,
                                 .reclaimed = generation_table_reclaimed(g, i),
                                 .suspect_us = g->slot[anchor_slot(i)].open_us,
                                 .longest_us = generations_longest_us(g),
                                 .owner_epoch = g->owner_epoch,
                                 .floor = g->floor};
    a->node = node;
    a->epoch = node < g->nodes_n ? g->node[node].config_epoch : 0;
    a->asked_for = m->asks_list ? g->anchor[g->lists_for].birth : 0;
    a->sent_lease_us = g->identity.lease_us;
    if (a->answered) {
        generation_table_forward(g, i);
    }
    generation_begin_append(g, i);
    a->sent_query = 0;
    if (g->bit_query.n > 0 && (g->bit_query.to_ask & 1u << i) != 0) {
        m->slot = g->bit_query.slot;
        m->slot_number = g->bit_query.number;
        m->slots_n = g->bit_query.n;
        a->sent_query = g->bit_query.serial;
    }
    append_others(g, i);
    m->generation = g->outgoing;
    m->expected = g->expected;
    for (size_t k = 0, used = 0; k < m->generations_n; used += g->outgoing[k++].ranges_n) {
        g->outgoing[k].range = g->ranges + used;
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
        const struct generation_anchor *a = &g->anchor[i], *b = &g->anchor[(i + 1) % ANCHORS];
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
    struct generation_anchor *an = &g->anchor[i];

    if (g->lists_for < 0 || an->asked_for != g->anchor[g->lists_for].birth || a->list.n == 0) {
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
    struct generation_anchor *an = &g->anchor[i];

    an->status = a->status;
    an->is_new = a->is_new && a->status != ANCHOR_VOTES;
    an->new_birth = an->is_new ? a->birth : an->new_birth;
    if (g->lists_for == (int)i && (an->sent_others || a->status == ANCHOR_VOTES) && a->status != ANCHOR_WANTS_LISTS) {
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
 * recognized, and do not count, nor do those that have counted before. The new master votes only with the lists of both
 * other anchors, which learn of its config epoch before they give their lists. So a daemon that registers at one of
 * these and at the former master gets that config epoch before the new master votes.
 */
static void
take_owners(struct generations *g, const struct anchor_answer *a)
{
    for (unsigned i = 0; i < ANCHORS; i++) {
        if (a->owner_epoch[i] > g->owner_epoch[i]) {
            g->owner_epoch[i] = a->owner_epoch[i];
        }
        if (g->anchor[i].ok_epoch < g->owner_epoch[i]) {
            g->anchor[i].ok_us = 0;
            generation_table_forget_done(g, i);
        }
    }
}

/*
 * R7: for how long the anchor abstains at the latest. Its present birth is the time of the loss by the node's clock, or
 * a later time if that clock was set back.
 */
static int64_t
abstains_us(const struct anchor_answer *a)
{
    int64_t longest_us = a->longest_us < DAY_US ? a->longest_us : DAY_US;
    int64_t wait_us = longest_us + longest_us / 2;
    int64_t since_us = a->time_us - (int64_t)a->birth;

    return since_us < 0 ? wait_us : since_us < wait_us ? wait_us - since_us : 0;
}

static void
take_answer(struct generations *g, unsigned i, const struct anchor_answer *a, int64_t sent_us, int64_t now_us)
{
    struct generation_anchor *an = &g->anchor[i];
    bool is_new = false;

    if (an->birth != a->birth) {
        if (g->lists_for == (int)i) {
            forget_lists(g);
        }
        generation_table_forget(g, i);
        an->birth = a->birth;
        an->version = 0;
    }
    for (size_t k = 0; k < a->entries_n; k++) {
        is_new = generation_table_take(g, i, &a->entry[k], now_us) || is_new;
    }
    if (a->entries_n > 0) {
        generation_marks_check_all(g); /* slots may be in other generations */
        an->due_us = 0; /* at once: generations without used slots are to be reported as reclaimed */
        for (unsigned k = 0; k < ANCHORS; k++) {
            g->anchor[k].grace_answers = 0;
        }
    }
    if (is_new) { /* the other anchors name it, too, and wait for this daemon's report */
        ask_anchors(g);
    }
    an->version = a->version;
    an->has_more = a->entries_n >= ANCHOR_ENTRIES_MAX;
    an->answered = true;
    an->answered_us = sent_us;
    an->longest_us = a->longest_us;
    an->votes_us = now_us + abstains_us(a);
    g->floor = a->floor > g->floor ? a->floor : g->floor;
    take_status(g, i, a);
    keep_list(g, i, a);
    if (a->status == ANCHOR_VOTES && !g->leaving) {
        generation_table_done(g, i, a->done);
        an->ok_us = sent_us;
        an->ok_lease_us = an->sent_lease_us;
        move_bound(g);
    }
    if (a->status == ANCHOR_VOTES && an->sent_query == g->bit_query.serial) {
        bit_query_answered(g, i, a);
    }
    if (generation_table_lacks(g, i)) {
        an->due_us = 0;
    }
}

/*
 * While members are awaited, the pause between two registrations doubles from GRACE_PAUSE_US up to a beat: the end of a
 * short grace period is known soon, and a long one costs a handful of calls more.
 */
static int64_t
pause_us(const struct generations *g, struct generation_anchor *a)
{
    int64_t us = GRACE_PAUSE_US << a->grace_answers;

    if (g->in_grace_n == 0 || us >= GENERATION_BEAT_US) {
        return GENERATION_BEAT_US;
    }
    a->grace_answers++;
    return us;
}

/* An answer that took longer than a beat is ignored: it may be from before the anchor lost its data (R7). */
void
generations_anchor_answered(struct generations *g, unsigned i, const struct anchor_answer *a, int64_t sent_us,
                            int64_t now_us)
{
    struct generation_anchor *an = &g->anchor[i];
    bool counts = a != NULL && a->status != ANCHOR_DUPLICATE_UUID && now_us - sent_us < GENERATION_BEAT_US;

    if (counts) {
        g->owner_epoch[i] = an->epoch > g->owner_epoch[i] ? an->epoch : g->owner_epoch[i];
        take_owners(g, a);
        counts = an->epoch >= g->owner_epoch[i];
        an->ok_epoch = counts ? an->epoch : an->ok_epoch;
        an->low_us = counts ? 0 : an->low_us != 0 ? an->low_us : now_us;
        if (!counts && an->node < g->nodes_n) {
            g->node[an->node].due_us = 0; /* its config epoch may be higher by now */
        }
    }
    an->silent = !counts;
    an->asked = false;
    an->due_us = now_us + (!counts ? GENERATION_BEAT_US / 8 : an->ask_again ? 0 : pause_us(g, an));
    an->ask_again = false;
    if (counts) {
        take_answer(g, i, a, sent_us, now_us);
    }
    generation_table_registered(g, i, counts && a->status == ANCHOR_VOTES);
    generation_begin_answered(g, i, counts, sent_us, now_us);
}

static bool
is_fresh(int64_t sent_us, int64_t now_us)
{
    return sent_us != 0 && now_us - sent_us < GENERATION_FRESH_BEATS * GENERATION_BEAT_US;
}

bool
generations_two_vote(const struct generations *g, int64_t now_us, struct anchor_votes *out)
{
    int64_t first_us = INT64_MAX, second_us = INT64_MAX; /* the shortest waits for anchors that abstain */
    bool one_votes = false;

    *out = (struct anchor_votes){.wait_us = INT64_MAX};
    for (unsigned i = 0; i < ANCHORS; i++) {
        const struct generation_anchor *a = &g->anchor[i];

        if (is_fresh(a->ok_us, now_us)) {
            one_votes = true;
        } else if (a->status != ANCHOR_VOTES && is_fresh(a->answered_us, now_us)) {
            int64_t wait_us = a->votes_us > now_us ? a->votes_us - now_us : 0;

            out->abstaining++;
            second_us = wait_us < first_us ? first_us : wait_us < second_us ? wait_us : second_us;
            first_us = wait_us < first_us ? wait_us : first_us;
        } else {
            out->silent++;
        }
    }
    out->wait_us = one_votes ? first_us : second_us;
    return is_fresh(g->registered_us, now_us);
}

/* ---- due requests ---- */

void
generations_next(struct generations *g, int64_t now_us, struct generation_send *out)
{
    *out = (struct generation_send){.type = SEND_NOTHING};
    generation_begin_tick(g, now_us);
    generation_slots_tick(g, now_us);
    bit_query_tick(g, now_us);
    bit_query_begin(g, now_us);
    for (unsigned i = 0; i < ANCHORS; i++) {
        struct generation_anchor *a = &g->anchor[i];

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
    generation_slot_next_record(g, now_us, out);
}

int64_t
generations_due_us(const struct generations *g)
{
    int64_t due_us = INT64_MAX;

    for (unsigned i = 0; i < ANCHORS; i++) {
        const struct generation_anchor *a = &g->anchor[i];
        int64_t its_us = a->due_us > a->asked_us + SOON_US ? a->due_us : a->asked_us + SOON_US;

        due_us = !a->asked && its_us < due_us ? its_us : due_us;
    }
    for (unsigned i = 0; i < g->nodes_n; i++) {
        const struct generation_node *n = &g->node[i];

        due_us = !n->asked && n->due_us < due_us ? n->due_us : due_us;
        if (g->records.n > 0 && n->records_pause_us != 0 && n->records_due_us < due_us) {
            due_us = n->records_due_us;
        }
    }
    if (g->later.n > 0 && g->later_us < due_us) {
        due_us = g->later_us;
    }
    if (g->bit_query.n == 0 && g->bits.n > 0) {
        return 0;
    }
    return generation_begin_next_us(g) < due_us ? generation_begin_next_us(g) : due_us;
}
