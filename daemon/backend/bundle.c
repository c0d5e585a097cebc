/*
 * bundle.c -- the words of a bundle, and its answer as those of its calls.
 */
#include "daemon/backend/bundle.h"

#include <assert.h>

#include "daemon/base/clock.h"

enum { HEAD = 4 }; /* numbers of an answer in front of those of the names */

static const struct core_op *
op_of(const struct call *c)
{
    return &container_of(c->items.next, struct item, node)->op;
}

bool
bundle_takes(const struct call *c)
{
    const struct core_op *op = op_of(c);

    if (c->n != 1 || c->alone || c->one_key || c->asking || c->with_text || c->reclaim || c->partial ||
        (kind_rows[c->kind].flags & KIND_F_ONE_KEY) == 0) {
        return false;
    }
    switch (c->verb) {
    case VERB_ACQUIRE:
        return !op->reentry;
    case VERB_RENEW:
        return !op->exact;
    case VERB_RELEASE:
        return op->wakes == 0;
    default: /* CLEAR */
        return false;
    }
}

bool
bundle_joins(const struct call *c, const struct call *other)
{
    return c->verb == other->verb && c->kind == other->kind && c->link == other->link &&
           (c->verb == VERB_RELEASE || op_of(c)->lease_us == op_of(other)->lease_us) &&
           (c->verb != VERB_ACQUIRE || op_of(c)->holds == op_of(other)->holds);
}

static void
end_word(struct bundle_words *w)
{
    w->end[w->n++] = w->text->n;
}

static void
put_slice(struct bundle_words *w, struct slice word)
{
    buf_add_slice(w->text, word);
    end_word(w);
}

static void
put_number(struct bundle_words *w, int64_t n)
{
    buf_add_i64(w->text, n);
    end_word(w);
}

void
bundle_begin(struct bundle_words *w, struct buf *text, const struct list *calls, int64_t guard_us,
             const struct call_sender *sender)
{
    static const char *const verbs[VERBS] = {
        [VERB_ACQUIRE] = "acquire", [VERB_RENEW] = "renew", [VERB_RELEASE] = "release"};
    const struct call *first = container_of(calls->next, struct call, node);
    uint64_t floor = sender->floor;
    uint32_t reserve = 0;
    struct list *pos, *nxt;

    list_for_each_safe(pos, nxt, calls)
    {
        const struct core_op *op = op_of(container_of(pos, struct call, node));

        floor = op->token_floor > floor ? op->token_floor : floor;
        reserve = op->reserve > reserve ? op->reserve : reserve;
    }
    w->text = text;
    w->n = 0;
    put_slice(w, slice_of(verbs[first->verb]));
    put_slice(w, slice_of(kind_rows[first->kind].name));
    put_number(w, guard_us);
    put_number(w, (int64_t)floor);
    put_number(w, reserve);
    put_number(w, op_of(first)->lease_us / US_PER_MS);
    put_number(w, op_of(first)->holds);
}

void
bundle_add(struct bundle_words *w, const struct call *c, const struct call_sender *sender)
{
    const struct core_op *op = op_of(c);

    if (c->verb == VERB_ACQUIRE) {
        put_slice(w, sender->keys.tag);
        put_slice(w, sender->epoch);
    }
    put_slice(w, op->key);
    call_put_holder(op, sender, w->text);
    end_word(w);
    if (c->verb == VERB_RELEASE) {
        call_channel(c->kind, op->key, w->text);
        end_word(w);
    }
}

int
bundle_end(const struct bundle_words *w, const char *text, const char *sha, struct slice words[LINK_WORDS_MAX])
{
    size_t at = 0;
    int n = 0;

    words[n++] = text != NULL ? SLICE_LIT("EVAL") : SLICE_LIT("EVALSHA");
    words[n++] = slice_of(text != NULL ? text : sha);
    words[n++] = SLICE_LIT("0");
    assert(w->n <= LINK_WORDS_MAX - n);
    for (int i = 0; i < w->n; i++) {
        words[n++] = (struct slice){w->text->p + at, w->end[i] - at};
        at = w->end[i];
    }
    return n;
}

bool
bundle_answer_ok(const struct reply *r, size_t n)
{
    if (r->type != REPLY_ARRAY || (r->count != 1 && r->count != HEAD + n)) {
        return false;
    }
    for (size_t i = 0; i < r->count; i++) {
        if (r->item[i]->type != REPLY_INT || r->item[i]->n < 0) {
            return false;
        }
    }
    return true;
}

const struct reply *
bundle_answer(const struct reply *r, size_t i, const struct call *c, struct bundle_answer *out)
{
    int64_t answer = r->count == 1 ? 0 : r->item[HEAD + i]->n, number[6];
    bool reserve_denied;

    if (answer == 0) {
        return NULL;
    }
    number[0] = r->item[0]->n;
    number[1] = 1; /* OK of common.lua */
    number[2] = c->verb == VERB_ACQUIRE ? r->item[1]->n : answer - 1;
    number[3] = c->verb == VERB_RELEASE ? 0 : r->item[2]->n;
    number[4] = 1; /* names in the row */
    number[5] = 1; /* behind the row: the reserve was denied; else `count` leaves it out */
    reserve_denied = c->verb == VERB_ACQUIRE && op_of(c)->reserve > r->item[3]->n;
    for (int k = 0; k < 6; k++) {
        out->number[k] = (struct reply){.type = REPLY_INT, .n = number[k]};
        out->item[k] = &out->number[k];
    }
    out->whole = (struct reply){.type = REPLY_ARRAY, .count = reserve_denied ? 6 : 5, .item = out->item};
    return &out->whole;
}
