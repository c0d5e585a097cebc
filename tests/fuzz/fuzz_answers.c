/*
 * fuzz_answers.c -- the answer of a script, of every verb and kind, into outcomes for the core: an answer that passes
 * call_answer_ok() keeps the contract of struct core_done; an error becomes one of three outcomes.
 *
 * Input: verb, kind, number of names, then either numbers or the bytes of a reply.
 */
#include <hiredis.h>

#include "daemon/backend/call.h"
#include "daemon/backend/clock_offset.h"
#include "daemon/backend/reply.h"
#include "daemon/base/clock.h"
#include "tests/fuzz/fuzz.h"

enum { NAMES_MAX = 5 };

/* An answer of whole numbers in the form of a script's answer, or nearly. */
static struct reply *
made_up(struct choices *c, size_t names)
{
    struct reply *r = calloc(1, sizeof(*r));
    unsigned how = take_below(c, 16);

    r->type = REPLY_ARRAY;
    r->count = how == 0 ? take_below(c, 20) : 1 + 4 * (how < 8 ? 1 : names) + (how == 15);
    r->room = r->count + 1;
    r->item = calloc(r->room, sizeof(*r->item));
    for (size_t i = 0; i < r->count; i++) {
        r->item[i] = calloc(1, sizeof(**r->item));
        r->item[i]->type = REPLY_INT;
        r->item[i]->n = i % 4 == 1                    ? (int64_t)take_below(c, 8)
                        : i > 0 && i % 4 == 0 && how > 1 ? (int64_t)(r->count < 7 ? names : 1)
                                                         : take_number(c);
    }
    return r;
}

static struct reply *
from_bytes(struct slice in)
{
    struct redisReader *reader = reply_reader_new(NULL);
    void *r = NULL;

    if (redisReaderFeed(reader, in.p, in.n) != REDIS_OK || redisReaderGetReply(reader, &r) != REDIS_OK) {
        r = NULL;
    }
    redisReaderFree(reader);
    return r;
}

/* The contract of struct core_done, as far as a decoder can keep it. */
static void
check_done(const struct call *c, const struct core_done *d)
{
    switch (d->outcome) {
    case CORE_OK:
        CHECK(c->verb != VERB_CLEAR || d->expiry_ms == 0 || d->expiry_ms == 1);
        CHECK(c->verb != VERB_ACQUIRE || d->token <= INT64_MAX, "a token that cannot be printed");
        break;
    case CORE_TAKEN:
    case CORE_FOREIGN:
        CHECK(d->pttl_us >= -1);
        CHECK(d->pttl_us == -1 || d->pttl_us % US_PER_MS == 0);
        CHECK(!d->has_ticket || (kind_rows[c->kind].flags & KIND_F_TICKETS));
        CHECK(d->token == 0 && d->expiry_ms == 0);
        break;
    case CORE_GONE_IN_REDIS:
        CHECK(c->verb != VERB_CLEAR);
        break;
    case CORE_GRACE:
        CHECK(d->pttl_us >= -1 && c->verb != VERB_CLEAR && d->token == 0 && d->expiry_ms == 0);
        break;
    case CORE_FULL:
    case CORE_DOWN:
        CHECK(d->token == 0 && d->expiry_ms == 0);
        break;
    default:
        CHECK(!"an outcome of an answer");
    }
}

static void
check_answer(const struct call *c, const struct reply *r)
{
    struct call_position at = {0};
    struct clock_offset o = {0};
    int64_t time_us;

    if (!call_answer_ok(c, r, &time_us)) {
        return;
    }
    CHECK(r->type == REPLY_ARRAY && r->count <= 1 + 4 * c->n + (c->verb == VERB_ACQUIRE));
    (void)call_is_stale(r);
    for (size_t i = 0; i < c->n; i++) {
        CHECK(1 + 4 * at.row < r->count);
        struct core_done d = {.pttl_us = -1};

        call_outcome(c, r, &at, &d);
        check_done(c, &d);
        CHECK(!d.reserve_denied || (d.outcome == CORE_OK && r->count % 4 == 2));
    }
    /* The time of Redis's clock goes into the offset, where it must not overflow. */
    (void)clock_offset_learn(&o, 1000 * US_PER_S, 1001 * US_PER_S, time_us);
    (void)clock_offset_learn(&o, 1002 * US_PER_S, 1003 * US_PER_S, time_us);
    (void)clock_offset_guess(&o);
    CHECK(clock_offset_error(&o, 1004 * US_PER_S) >= 0);
}

static void
check_error(const struct reply *r)
{
    bool drop = false;
    enum core_outcome o;

    if (r->type != REPLY_ERROR) {
        CHECK(!call_is_noscript(r));
        return;
    }
    o = call_error(r->text, &drop);
    CHECK(o == CORE_DOWN || o == CORE_FULL || o == CORE_UNKNOWN);
    CHECK(!drop || o == CORE_DOWN);
    CHECK(!call_is_noscript(r) || o == CORE_DOWN);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct choices in = {data, size};
    struct call c = {.verb = (enum call_verb)take_below(&in, VERBS), .kind = (enum kind)take_below(&in, KINDS)};
    unsigned how = take_byte(&in);
    struct reply *r;

    list_init(&c.items);
    c.n = 1 + how / 2 % NAMES_MAX;
    r = how % 2 == 0 ? made_up(&in, c.n) : from_bytes(take_rest(&in));
    if (r != NULL) {
        check_answer(&c, r);
        check_error(r);
        reply_free(r);
    }
    return 0;
}
