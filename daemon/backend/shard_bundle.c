/*
 * shard_bundle.c -- calls of one name each, whose slots differ, leave as one command: bundle.h.
 *
 * SB1 A call that the script leaves undone, or whose bundle ends in an error, is sent again at once by itself. Then the
 *     script of its verb gives the outcome. So a call may run twice: an attempt or a renewal then finds its own effect,
 *     and repeats it; a release that the script left undone has changed nothing.
 * SB2 If such a call may not be sent any more, it is UNKNOWN, since the bundle may have run it.
 * SB3 A bundle is one command in flight (SC5), whatever the number of its calls; a call that is sent again counts by
 *     itself.
 */
#include "daemon/backend/bundle.h"
#include "daemon/backend/script_variants.h"
#include "daemon/backend/shard_private.h"
#include "daemon/base/clock.h"
#include "daemon/base/freelist.h"

struct bundle {
    struct shard *shard;
    struct list calls; /* call.node; of the same link */
    size_t n;
    unsigned link;
    enum call_verb verb;
    bool with_text;
};

static struct call *
first_of(const struct bundle *b)
{
    return container_of(b->calls.next, struct call, node);
}

static struct call *
pop(struct bundle *b)
{
    struct call *c = first_of(b);

    list_remove(&c->node);
    return c;
}

static void
bundle_free(struct bundle *b)
{
    while (!list_empty(&b->calls)) {
        shard_call_free(pop(b));
    }
    freelist_give(b->shard->env->freelist, b, sizeof(*b));
}

/* ---- answers ---- */

/* The bundle is not in flight any more. */
static void
note_returned(struct shard *sh, const struct bundle *b)
{
    sh->in_flight -= b->n;
    sh->calls[b->link]--;
    sh->renewing -= b->verb == VERB_RENEW;
}

/* SB1, SB2: sends each call of the bundle by itself; each counts as in flight already. */
static void
send_again(struct shard *sh, struct bundle *b, int64_t sent_us)
{
    struct redis_link *l = sh->link[b->link];

    link_cork(l);
    while (!list_empty(&b->calls)) {
        struct call *c = pop(b);

        if (c->epoch != continuity_epoch(sh->continuity, c->domain) || !shard_call_send(sh, c)) {
            shard_call_end(sh, c, CORE_UNKNOWN, sent_us);
        }
    }
    link_uncork(l);
}

static void
on_bundle(void *arg, enum link_result result, const struct reply *r, int64_t sent_us)
{
    struct bundle *b = arg;
    struct shard *sh = b->shard;
    bool refused = result == LINK_ANSWERED && r->type == REPLY_ERROR;
    struct list *pos, *nxt;
    size_t i = 0;

    sh->bundle_with_text = refused && call_is_noscript(r);
    note_returned(sh, b);
    if (result == LINK_ANSWERED && !refused && !bundle_answer_ok(r, b->n)) {
        sh->env->metrics->redis_protocol_errors++;
        link_fail(sh->link[b->link], "a malformed answer");
        result = LINK_UNKNOWN;
    }
    list_for_each_safe(pos, nxt, &b->calls)
    {
        struct call *c = container_of(pos, struct call, node);
        struct bundle_answer storage;
        const struct reply *own = NULL;

        shard_note_in_flight(sh, c);
        if (result == LINK_ANSWERED && !refused) {
            own = bundle_answer(r, i++, c, &storage);
        }
        if (own != NULL || result == LINK_UNKNOWN) {
            list_remove(&c->node);
            shard_on_call(c, result, own, sent_us);
        }
    }
    if (!list_empty(&b->calls)) {
        send_again(sh, b, sent_us);
    }
    bundle_free(b);
}

/* ---- sending ---- */

static bool
send(struct shard *sh, struct bundle *b)
{
    struct slice word[LINK_WORDS_MAX];
    struct bundle_words w;
    struct call_sender sender;
    struct list *pos, *nxt;
    int words;

    buf_clear(&sh->text, SIZE_MAX);
    sender = shard_sender(sh, first_of(b));
    list_for_each_safe(pos, nxt, &b->calls)
    {
        uint64_t floor = continuity_floor(sh->continuity, container_of(pos, struct call, node)->domain);

        sender.floor = floor > sender.floor ? floor : sender.floor;
    }
    bundle_begin(&w, &sh->text, &b->calls, first_of(b)->guard_us == 0 ? 0 : first_of(b)->guard_us + sender.offset_us,
                 &sender);
    list_for_each_safe(pos, nxt, &b->calls)
    {
        struct call *c = container_of(pos, struct call, node);

        if (b->verb == VERB_ACQUIRE) { /* the only verb whose bundle checks the slot's record */
            sender.keys = continuity_keys(sh->continuity, c->domain);
            sender.epoch = continuity_epoch_value(sh->continuity, c->domain, false);
        }
        bundle_add(&w, c, &sender);
    }
    words = bundle_end(&w, b->with_text ? script_variants_bundle(sh->events.variants) : NULL, sh->bundle_sha, word);
    return link_send(sh->link[b->link], words, word, on_bundle, b);
}

/* The call was not sent, and will not be: its items are DOWN. */
static void
give_up(struct shard *sh, struct call *c)
{
    while (!list_empty(&c->items)) {
        deferred_item(&sh->deferred, container_of(c->items.next, struct item, node));
    }
    shard_call_free(c);
}

static void
send_single(struct shard *sh, struct call *c)
{
    if (shard_call_send(sh, c)) {
        shard_note_in_flight(sh, c);
    } else {
        give_up(sh, c);
    }
}

bool
shard_bundle_add(struct shard *sh, struct call *c)
{
    struct bundle *b = sh->bundle;

    if (!script_variants_sharded(sh->events.variants) || !bundle_takes(c)) {
        return false;
    }
    if (b != NULL && (b->n == SHARD_BATCH_MAX || !bundle_joins(first_of(b), c))) {
        shard_bundle_send(sh);
        b = NULL;
    }
    if (b == NULL) {
        b = sh->bundle = freelist_take(sh->env->freelist, sizeof(*b));
        *b = (struct bundle){.shard = sh, .link = c->link, .verb = c->verb, .with_text = sh->bundle_with_text};
        list_init(&b->calls);
    }
    list_push_back(&b->calls, &c->node);
    b->n++;
    return true;
}

void
shard_bundle_send(struct shard *sh)
{
    struct bundle *b = sh->bundle;
    int64_t now_us = clock_now_us();
    struct list *pos, *nxt;

    if (b == NULL) {
        return;
    }
    sh->bundle = NULL;
    list_for_each_safe(pos, nxt, &b->calls)
    {
        struct call *c = container_of(pos, struct call, node);

        shard_call_prepare(sh, c, now_us);
        if (!continuity_fresh(sh->continuity, c->domain, now_us)) {
            list_remove(&c->node);
            b->n--;
            give_up(sh, c);
        }
    }
    if (b->n == 1) {
        send_single(sh, pop(b));
    } else if (b->n > 1 && send(sh, b)) {
        sh->in_flight += b->n;
        sh->calls[b->link]++;
        sh->renewing += b->verb == VERB_RENEW;
        return;
    }
    while (!list_empty(&b->calls)) {
        give_up(sh, pop(b));
    }
    bundle_free(b);
}

bool
shard_bundle_forget(link_reply_fn *fn, void *arg)
{
    if (fn != on_bundle) {
        return false;
    }
    bundle_free(arg);
    return true;
}
