/*
 * epoch.c -- words and answers of scripts/membership.lua.
 */
#include "daemon/backend/epoch.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "daemon/backend/call.h"
#include "daemon/base/clock.h"

enum { ANSWER_OK = 1, ANSWER_DUPLICATE_UUID };
/* The head of an answer; changes of members follow it. */
enum { AT_TIME, AT_STATUS, AT_NUMBER, AT_UNTIL, AT_GRANTING_VALUE, AT_VERSION, AT_UPTO, AT_ANEW, AT_BRING, HEAD };

enum { DERIVED_MAX = 24 }; /* words */

/* Derived words, one behind the other in a text that may move while it grows. */
struct derived {
    struct buf *text;
    size_t end[DERIVED_MAX];
    int n;
};

static void
derive_number(struct derived *m, int64_t number)
{
    buf_printf(m->text, "%" PRId64, number);
    m->end[m->n++] = m->text->n;
}

static void
derive_nonces(struct derived *m, const struct epoch *e)
{
    buf_printf(m->text, "%016" PRIx64, e->nonce);
    m->end[m->n++] = m->text->n;
    for (size_t i = 0; i < EPOCH_FORMER_NONCES; i++) {
        buf_printf(m->text, "%s%016" PRIx64, i > 0 ? " " : "", e->former_nonce[i]);
    }
    m->end[m->n++] = m->text->n;
}

static int64_t
at_least(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* What this daemon knows of the other members, but for their uuids. */
static void
derive_list_terms(struct derived *m, const struct epoch *e, const struct members *members)
{
    bool is_complete = e->until_ms == 0 && !e->members_unknown;
    int64_t known_grace_ms = e->until_ms - (int64_t)(e->number / US_PER_MS);

    derive_number(m, (int64_t)(e->list_epoch != 0 ? e->list_epoch : e->number));
    derive_number(m, (int64_t)(e->list_epoch != 0 ? e->list_upto : is_complete ? e->since : 0));
    derive_number(m, (int64_t)members->last);
    derive_number(m, (int64_t)members_count(members));
    derive_number(m, e->members_unknown);
    derive_number(m, at_least(members_longest_ms(members), e->longest_lease_us / US_PER_MS));
    if (e->until_ms != 0) { /* as a duration, since this Redis may have another clock */
        buf_printf(m->text, "%" PRId64, at_least(known_grace_ms, 0));
    }
    m->end[m->n++] = m->text->n;
}

int
epoch_words(const struct epoch *e, const struct members *members, const struct epoch_ask *ask, struct buf *text,
            struct slice *words)
{
    static const char *const fixed[] = {"7", CALL_CLOCK_KEY, CALL_EPOCH_KEY, "rlock:members", "rlock:until",
                                        "rlock:changes", "rlock:left", "rlock:awaited"};
    struct derived m = {.text = text};
    size_t at = 0;
    int n = 0, channel_at;

    buf_clear(text, SIZE_MAX);
    derive_nonces(&m, e);
    derive_number(&m, (int64_t)e->number);
    derive_number(&m, (int64_t)e->reclaimed);
    derive_number(&m, e->longest_lease_us / US_PER_MS);
    derive_number(&m, EPOCH_BEAT_MS);
    derive_number(&m, e->strict);
    derive_number(&m, (int64_t)ask->token_floor);
    derive_number(&m, e->leaving);
    derive_number(&m, e->rolled_back);
    channel_at = m.n;
    derive_number(&m, (int64_t)e->since);
    derive_number(&m, (int64_t)e->cursor);
    derive_number(&m, ask->changes ? EPOCH_PAGE : 0);
    derive_list_terms(&m, e, members);
    derive_number(&m, ask->part.p == NULL ? 0 : ask->last ? 2 : 1);
    assert(m.n <= DERIVED_MAX);
    words[n++] = ask->sha != NULL ? SLICE_LIT("EVALSHA") : SLICE_LIT("EVAL");
    words[n++] = slice_of(ask->sha != NULL ? ask->sha : call_other_text(OTHER_MEMBERSHIP));
    for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++) {
        words[n++] = slice_of(fixed[i]);
    }
    words[n++] = slice_of(e->uuid);
    for (int i = 0; i < m.n; i++) {
        if (i == channel_at) {
            words[n++] = slice_of(e->channel);
        }
        words[n++] = (struct slice){text->p + at, m.end[i] - at};
        at = m.end[i];
    }
    for (size_t i = 0; i + MEMBERS_UUID_BYTES <= ask->part.n; i += MEMBERS_UUID_BYTES) {
        words[n++] = (struct slice){ask->part.p + i, MEMBERS_UUID_BYTES};
    }
    assert(n <= EPOCH_WORDS_MAX);
    return n;
}

/* ---- changes of members ---- */

struct change {
    struct slice uuid;
    int64_t lease_ms;
    uint64_t version;
    bool gone;
};

/* The text is a number below EPOCH_END. */
static bool
take_number(const char *p, size_t n, uint64_t *number)
{
    *number = 0;
    for (size_t i = 0; i < n; i++) {
        if (p[i] < '0' || p[i] > '9' || *number >= EPOCH_END) {
            return false;
        }
        *number = *number * 10 + (uint64_t)(p[i] - '0');
    }
    return n > 0 && *number < EPOCH_END;
}

/* "<uuid> <lease> <version>" of a member, "<uuid> - <version>" of one that has left. */
static bool
take_change(struct slice text, struct change *c)
{
    size_t at = MEMBERS_UUID_BYTES + 1, n = 0;
    uint64_t lease_ms = 0;

    if (text.n <= at || text.p[MEMBERS_UUID_BYTES] != ' ') {
        return false;
    }
    while (at + n < text.n && text.p[at + n] != ' ') {
        n++;
    }
    *c = (struct change){.uuid = {text.p, MEMBERS_UUID_BYTES}, .gone = n == 1 && text.p[at] == '-'};
    if (at + n >= text.n || !(c->gone || take_number(text.p + at, n, &lease_ms)) ||
        !take_number(text.p + at + n + 1, text.n - at - n - 1, &c->version)) {
        return false;
    }
    c->lease_ms = (int64_t)lease_ms;
    return true;
}

/* An answer has a head of integers from 0 on, but for the text AT_GRANTING_VALUE, and then changes. */
static bool
is_well_formed(const struct reply *r)
{
    struct change c;

    if (r->type != REPLY_ARRAY || r->count < HEAD) {
        return false;
    }
    for (size_t i = 0; i < r->count; i++) {
        enum reply_type wanted = i < HEAD && i != AT_GRANTING_VALUE ? REPLY_INT : REPLY_TEXT;

        if (r->item[i]->type != wanted || (i >= HEAD && !take_change(r->item[i]->text, &c)) ||
            (wanted == REPLY_INT && r->item[i]->n < 0)) {
            return false;
        }
    }
    return r->item[AT_BRING]->n <= EPOCH_BRING_NOW &&
           r->item[AT_GRANTING_VALUE]->text.n < sizeof(((struct epoch *)0)->granting_value);
}

/*
 * Called outside of a grace period. During one Redis reports no changes, and the known members stay: they may hold
 * locks without having come back, and Redis may lose its data once more before they do. When the grace period ends,
 * Redis lists all members anew.
 */
static void
take_changes(struct epoch *e, struct members *members, const struct reply *r)
{
    uint64_t version = (uint64_t)r->item[AT_VERSION]->n, upto = (uint64_t)r->item[AT_UPTO]->n;
    bool anew = r->item[AT_ANEW]->n != 0;
    struct change c;

    if (upto == 0 || (e->since == 0 && !anew)) {
        return; /* no changes were requested, or they continue a list that was dropped */
    }
    if (anew) {
        members_begin(members);
        e->since = version;
        e->anew = true;
    }
    for (size_t i = HEAD; i < r->count; i++) {
        (void)take_change(r->item[i]->text, &c);
        if (c.gone) {
            members_remove(members, c.uuid, c.version);
        } else {
            members_put(members, c.uuid, c.lease_ms, c.version);
        }
    }
    e->cursor = upto;
    e->complete = upto >= version;
    if (e->complete) {
        if (e->anew) {
            members_end(members, version);
        }
        e->anew = false;
        e->since = upto;
    }
}

/*
 * An answer with all changes makes the members known. Otherwise they stay known only if all earlier changes were
 * received: then each newcomer since has been announced (epoch_newcomer()).
 */
static void
take_members(struct epoch *e, struct members *members, const struct reply *r)
{
    e->complete = false;
    if (e->until_ms == 0) {
        take_changes(e, members, r);
        e->members_unknown = members->overflow || (e->complete ? false : e->members_unknown || !epoch_is_current(e));
    }
}

void
epoch_newcomer(const struct epoch *e, struct members *members, struct slice text)
{
    struct change c;

    if (take_change(text, &c) && !c.gone && !slice_eq(c.uuid, slice_of(e->uuid)) && c.version > e->cursor) {
        members_put(members, c.uuid, c.lease_ms, c.version);
    }
}

/* ---- answers ---- */

/* Another epoch begins: the known members become the list of the former epoch. */
static void
leave_epoch(struct epoch *e)
{
    bool grace = e->until_ms != 0;

    e->list_epoch = e->number;
    e->list_upto = grace || e->members_unknown ? 0 : e->since;
    /*
     * Only the Redis of the former epoch had the list of daemons that its grace period awaited. This daemon may lack
     * some of them, even if it knows of no member: another daemon may have registered, and may have reclaimed locks,
     * while this one stood still or was cut off. If members_unknown were not set, the next grace period would end when
     * the first daemon has registered: no daemon is subscribed to a Redis that has just restarted.
     */
    e->members_unknown = e->members_unknown || grace;
}

enum epoch_news
epoch_answer(struct epoch *e, struct members *members, const struct reply *r)
{
    enum epoch_news news = EPOCH_SAME;
    uint64_t number;

    if (!is_well_formed(r)) {
        return EPOCH_MALFORMED;
    }
    number = (uint64_t)r->item[AT_NUMBER]->n;
    if (r->item[AT_STATUS]->n == ANSWER_DUPLICATE_UUID) {
        return EPOCH_DUPLICATE_UUID;
    } else if (r->item[AT_STATUS]->n != ANSWER_OK || number == 0) {
        return EPOCH_MALFORMED;
    } else if (number < e->number && e->number < EPOCH_END) {
        return EPOCH_OLD;
    }
    if (number != e->number) {
        leave_epoch(e);
        news = EPOCH_NEW;
    } else if (e->until_ms != 0 && r->item[AT_UNTIL]->n == 0) {
        news = EPOCH_OVER;
    }
    if (news != EPOCH_SAME || r->item[AT_UNTIL]->n != 0) {
        e->since = e->cursor = 0;
        e->anew = false;
    }
    e->number = number;
    e->rolled_back = false;
    e->until_ms = r->item[AT_UNTIL]->n;
    e->remaining_ms = e->until_ms == 0 ? 0 : at_least(e->until_ms - r->item[AT_TIME]->n / US_PER_MS, 0);
    e->bring = (enum epoch_bring)r->item[AT_BRING]->n;
    e->list_epoch = e->bring == EPOCH_BRING_NOTHING ? 0 : e->list_epoch;
    snprintf(e->granting_value, sizeof(e->granting_value), "%s", r->item[AT_GRANTING_VALUE]->text.p);
    snprintf(e->last_value, sizeof(e->last_value), e->until_ms != 0 ? "%s %" PRId64 : "%s", e->granting_value,
             e->until_ms);
    take_members(e, members, r);
    return news;
}
