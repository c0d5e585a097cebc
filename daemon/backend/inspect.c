/*
 * inspect.c -- sends scripts/inspect.lua, and reads its answer into struct inspected_key; serve/lockinfo.c prints that.
 */
#include "daemon/backend/inspect.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/backend/call.h"
#include "daemon/backend/text.h"
#include "daemon/base/memory.h"

enum { TIME, TYPE, OWNER, HOLDS, PTTL, VALUE, FIELDS };

static bool
is_answer(const struct reply *r)
{
    return r->type == REPLY_ARRAY && r->count == FIELDS && r->item[TYPE]->type >= REPLY_TEXT &&
           r->item[OWNER]->type == REPLY_TEXT && r->item[HOLDS]->type == REPLY_INT &&
           r->item[PTTL]->type == REPLY_INT && r->item[VALUE]->type == REPLY_TEXT;
}

/* The digest depends on a secret and the key, so no client can test guessed values, or compare two keys. */
static void
print_digest(const struct inspect *q, struct slice value, char out[17])
{
    uint64_t part[2] = {q->key_hash, hash_bytes(&q->env->secret, value.p, value.n)};

    snprintf(out, 17, "%016" PRIx64, hash_bytes(&q->env->secret, part, sizeof(part)));
}

static void
on_inspected(void *arg, enum link_result result, const struct reply *r, int64_t sent_us)
{
    struct inspect *q = arg;
    struct inspected_key found = {.pttl_ms = -1};

    (void)sent_us;
    --*q->in_flight;
    if (result == LINK_ANSWERED && is_answer(r)) {
        found.ok = true;
        found.exists = !slice_is(r->item[TYPE]->text, "none");
        text_print(found.type, sizeof(found.type), r->item[TYPE]->text);
        text_print(found.owner, sizeof(found.owner), r->item[OWNER]->text);
        print_digest(q, r->item[VALUE]->text, found.digest);
        found.holds = r->item[HOLDS]->n;
        found.pttl_ms = r->item[PTTL]->n < 0 ? -1 : r->item[PTTL]->n;
    }
    q->events->inspected(q->events->ctx, q->id, &found);
    free(q);
}

struct inspect *
inspect_new(const struct backend_env *env, const struct shard_events *events, uint64_t id)
{
    struct inspect *q = mem_alloc(sizeof(*q));

    *q = (struct inspect){.env = env, .events = events, .id = id};
    list_init(&q->node);
    return q;
}

bool
inspect_send(struct inspect *q, struct redis_link *l, struct slice key, unsigned *in_flight)
{
    struct slice word[4] = {SLICE_LIT("EVAL"), slice_of(call_other_text(OTHER_INSPECT)), SLICE_LIT("1"), key};
    bool sent;

    q->key_hash = hash_bytes(&q->env->secret, key.p, key.n);
    q->in_flight = in_flight;
    sent = link_up(l) && link_send(l, 4, word, on_inspected, q);
    *in_flight += sent;
    return sent;
}

void
inspect_unanswered(struct inspect *q)
{
    q->events->inspected(q->events->ctx, q->id, &(struct inspected_key){.ok = false});
    free(q);
}

void
inspect_forget(link_reply_fn *fn, void *arg)
{
    if (fn == on_inspected) {
        free(arg);
    }
}
