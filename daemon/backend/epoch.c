/*
 * epoch.c -- words and answers of scripts/presence.lua.
 */
#include "daemon/backend/epoch.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "daemon/backend/call.h"
#include "daemon/base/clock.h"

enum { ANSWER_OK = 1, ANSWER_DUPLICATE_UUID };
enum { HEAD = 5, UUID_BYTES = 36 }; /* what the answer has before the other daemons */

int
epoch_words(const struct epoch *e, uint64_t token_floor, struct buf *text, struct slice *words)
{
    static const char *const fixed[] = {"4", CALL_CLOCK_KEY, CALL_EPOCH_KEY, "rlock:daemons", "rlock:absent"};
    const int64_t number[] = {(int64_t)e->number,       (int64_t)e->reclaimed,
                              e->grace_us / US_PER_MS,  EPOCH_BEAT_MS,
                              e->strict,                (int64_t)token_floor,
                              e->leaving,               e->rolled_back};
    size_t ends[16], at = 0;
    int n = 0, made = 0, first;

    words[n++] = SLICE_LIT("EVAL");
    words[n++] = slice_of(call_other_text(OTHER_PRESENCE));
    for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++) {
        words[n++] = slice_of(fixed[i]);
    }
    words[n++] = slice_of(e->uuid);
    first = n;
    buf_clear(text, SIZE_MAX);
    buf_printf(text, "%016" PRIx64, e->nonce);
    ends[made++] = text->n;
    for (size_t i = 0; i < EPOCH_FORMERS; i++) {
        buf_printf(text, "%s%016" PRIx64, i > 0 ? " " : "", e->former[i]);
    }
    ends[made++] = text->n;
    for (size_t i = 0; i < sizeof(number) / sizeof(number[0]); i++) {
        buf_printf(text, "%" PRId64, number[i]);
        ends[made++] = text->n;
    }
    if (e->until_ms != 0) { /* how long: its end is by the clock of a Redis that may be another one now */
        int64_t lasts_ms = e->until_ms - (int64_t)(e->number / US_PER_MS);

        buf_printf(text, "!%" PRId64, lasts_ms > 0 ? lasts_ms : 0);
    }
    for (int i = 0; i < made; i++) { /* only now does the text not move any more */
        words[first + i] = (struct slice){text->p + at, ends[i] - at};
        at = ends[i];
    }
    n += made;
    words[n++] = slice_of(e->channel);
    if (e->members_unknown) {
        words[n++] = SLICE_LIT("?");
    }
    if (e->until_ms != 0) {
        words[n++] = (struct slice){text->p + at, text->n - at}; /* what is left of it */
    }
    for (size_t i = 0; i < e->peers_n; i++) {
        words[n++] = slice_of(e->peer[i]);
    }
    assert(n <= EPOCH_WORDS_MAX);
    return n;
}

/* "<uuid>" or "<uuid> <number>", and room for it. */
static bool
is_peer(struct slice text)
{
    if (text.n == UUID_BYTES) {
        return true;
    }
    if (text.n < UUID_BYTES + 2 || text.n >= sizeof(((struct epoch *)0)->peer[0]) || text.p[UUID_BYTES] != ' ') {
        return false;
    }
    for (size_t i = UUID_BYTES + 1; i < text.n; i++) {
        if (text.p[i] < '0' || text.p[i] > '9') {
            return false;
        }
    }
    return true;
}

/* Head of integers but for the word; other daemons behind it. */
static bool
is_shaped(const struct reply *r)
{
    if (r->type != REPLY_ARRAY || r->count < HEAD) {
        return false;
    }
    for (size_t i = 0; i < r->count; i++) {
        enum reply_type wanted = i < HEAD - 1 ? REPLY_INT : REPLY_TEXT;

        if (r->item[i]->type != wanted || (i >= HEAD && !is_peer(r->item[i]->text))) {
            return false;
        }
    }
    return r->item[HEAD - 1]->text.n < sizeof(((struct epoch *)0)->open);
}

/* Its index in peer[], or the one that it would get. */
static size_t
ticket_of(const struct epoch *e, struct slice peer)
{
    size_t i = 0;

    while (i < e->peers_n && memcmp(e->peer[i], peer.p, UUID_BYTES) != 0) {
        i++;
    }
    return i;
}

/*
 * The members that Redis knows. In a grace period those known before are kept: they may hold locks, have not come back
 * yet, and Redis may lose its data once more before they do. And members_unknown stays set (by a grace period that the
 * next loss cut off, for instance): Redis then lists only those that have come back.
 */
static void
take_peers(struct epoch *e, const struct reply *r)
{
    if (e->until_ms == 0) {
        e->members_unknown = false;
        e->peers_n = 0;
    }
    for (size_t i = HEAD; i < r->count; i++) {
        struct slice peer = r->item[i]->text;
        size_t at = ticket_of(e, peer);

        if (at < EPOCH_PEERS_MAX) {
            memcpy(e->peer[at], peer.p, peer.n);
            e->peer[at][peer.n] = '\0';
            e->peers_n = at == e->peers_n ? at + 1 : e->peers_n;
        }
    }
}

enum epoch_news
epoch_answer(struct epoch *e, const struct reply *r)
{
    enum epoch_news news = EPOCH_SAME;
    uint64_t number;
    bool grace = e->until_ms != 0;

    if (!is_shaped(r)) {
        return EPOCH_BROKEN;
    }
    number = (uint64_t)r->item[2]->n;
    if (r->item[1]->n == ANSWER_DUPLICATE_UUID) {
        return EPOCH_DUPLICATE_UUID;
    } else if (r->item[1]->n != ANSWER_OK || r->item[2]->n <= 0 || r->item[3]->n < 0) {
        return EPOCH_BROKEN;
    } else if (number < e->number && e->number < EPOCH_FAR) {
        return EPOCH_OLD;
    }
    if (number != e->number) {
        /*
         * Only the Redis of that epoch knew for which daemons its grace period was. A daemon that has met no other is
         * no exception. Another one may have registered, and locked, when this one stood still or was cut off before
         * the first loss, and have reclaimed its locks behind the answer that listed nobody. Where Redis has restarted
         * again, all links are new, nobody listens, and who comes first would end the grace period alone.
         */
        e->members_unknown = e->members_unknown || grace;
        news = EPOCH_NEW;
    } else if (grace && r->item[3]->n == 0) {
        news = EPOCH_OVER;
    }
    e->number = number;
    e->rolled_back = false;
    e->until_ms = r->item[3]->n;
    snprintf(e->open, sizeof(e->open), "%s", r->item[HEAD - 1]->text.p);
    snprintf(e->now, sizeof(e->now), e->until_ms != 0 ? "%s %" PRId64 : "%s", e->open, e->until_ms);
    take_peers(e, r);
    return news;
}
