/*
 * shard_calls.c -- operations of a shard as script calls: which link, which batch; each operation ends in one DONE.
 *
 * While a call is in flight on a link, operations gather, and leave together when they are enough (BATCH_ENOUGH), or
 * when the answer comes. So an idle link adds no delay, and a busy one pays the cost of a call once for many names. No
 * item waits for ever: the answer comes, the call passes its deadline, or the link is lost. Then gathered items leave
 * by another link, or are DOWN (they have not run); no item waits for a reconnect. See also SC6, and `waiting`.
 *
 * Memory, when Redis is slow: at most an operation and a renewal for each claim gather or are in flight, and sessions
 * with too many open requests are not read.
 */
#include "daemon/backend/shard_private.h"
#include "daemon/base/clock.h"
#include "daemon/base/freelist.h"

/*
 * SC1 An item is in exactly one place: a batch, `waiting`, a call in flight, or `deferred`. While replicas have to
 *     acknowledge a grant, `replicas` keeps its outcome, and the item is freed.
 * SC2 No outcome is reported from inside a shard_ call: one that is known at once (DOWN) waits in `deferred`.
 * SC3 Items that leave in one turn keep this order on a link: reclaims, releases, breaks, attempts, renewals; within
 *     one verb, kind and domain they leave as they were gathered, but a client's RENEW goes in front, and calls that
 *     are fit for no bundle leave before the bundle.
 *     Of the items that must go alone (denied.h) the reclaims and the releases (O4 of core/order.c) keep that place;
 *     the others leave last.
 *     So a release may overtake an attempt of earlier turns. Items of one name that gather together are of different
 *     claims (and at most one break): each claim gets its own outcome, and none has to run after another; an attempt
 *     behind a release or a break finds the lock free. Only the release of a held claim may overtake earlier items of
 *     its own claim: a re-entry then finds nothing, and a reclaim has left before.
 *     A call in flight is overtaken only if it is sent again at once, because Redis has not run it (unknown script,
 *     wrong guard, a refused key) or by SB1. No reclaim is sent again like that.
 * SC4 An item that was made in another epoch is DOWN, because it relies on lost data. Gathered items of a lost link
 *     leave by others that are up; see shard_route.c.
 * SC5 calls[link] is the number of calls in flight on the link, gathered[link] of items in its batches. After
 *     shard_flush() the batches of a link are empty, unless a call is in flight there and they have fewer than
 *     BATCH_ENOUGH items (shard_flush.c), or are fenced (SR2), or have renewals beyond may_renew(), or by SC6. A bundle
 *     is one call here (SB3).
 * SC6 A call is sent only while the registration is fresh (membership.h). Otherwise all gathered items stay, also
 *     releases (SC3), until the next registration is answered; if that fails, they are DOWN.
 * SC7 An attempt leaves only while shard_grants(), also if it has gathered or was sent before.
 */

enum { JUMP_US = 100 * 1000 }; /* a smaller change of the offset is no jump: guards have this margin */

/* ---- outcomes ---- */

static void
report_done(struct shard *sh, const struct core_op *op, struct core_done *done)
{
    done->claim = op->claim;
    done->op = op->op;
    sh->events.done(sh->events.ctx, done);
}

void
shard_call_free(struct call *c)
{
    const struct shard *sh = c->shard;

    while (!list_empty(&c->items)) {
        item_free(sh->env->freelist, container_of(c->items.next, struct item, node));
    }
    freelist_give(sh->env->freelist, c, sizeof(*c));
}

/* The call is not in flight any more; see shard_note_in_flight(). */
static void
note_returned(struct shard *sh, const struct call *c)
{
    sh->in_flight -= c->n;
    sh->calls[c->link]--;
    sh->renewing -= c->verb == VERB_RENEW;
}

void
shard_note_in_flight(struct shard *sh, const struct call *c)
{
    sh->in_flight += c->n;
    sh->calls[c->link]++;
    sh->renewing += c->verb == VERB_RENEW;
}

void
shard_call_end(struct shard *sh, struct call *c, enum core_outcome outcome, int64_t sent_us)
{
    int64_t guard_us = c->guard_us + c->slack_us + (sh->back_us - c->back_us) + JUMP_US;

    note_returned(sh, c);
    while (!list_empty(&c->items)) {
        struct item *it = container_of(c->items.next, struct item, node);
        struct core_done done = {.outcome = outcome,
                                 .sent_us = sent_us,
                                 .guard_us = guard_us,
                                 .pttl_us = -1,
                                 .denied = c->denied};

        report_done(sh, &it->op, &done);
        item_free(sh->env->freelist, it);
    }
    freelist_give(sh->env->freelist, c, sizeof(*c));
}

void
shard_learn(struct shard *sh, int64_t sent_us, int64_t time_us)
{
    int64_t jump_us = clock_offset_learn(&sh->offset, sent_us, clock_now_us(), time_us);

    sh->back_us -= jump_us < 0 ? jump_us : 0;
    if (sh->back_us - sh->back_reported_us > JUMP_US) { /* guards have a margin for less: shard_call_end() */
        sh->events.life(sh->events.ctx, SHARD_CLOCK_BACK, (uint64_t)(sh->back_us - sh->back_reported_us));
        sh->back_reported_us = sh->back_us;
    }
    if (jump_us > JUMP_US || jump_us < -JUMP_US) {
        log_event(sh->env->log, LOG_WARN, "redis", "clock jump", "address", LOG_S(sh->address->shown), "by_ms",
                  LOG_N(jump_us / US_PER_MS), NULL);
        replicas_jumped(&sh->replicas);
        sh->events.life(sh->events.ctx, SHARD_CLOCK_JUMP, 0);
    }
}

void
shard_call_prepare(struct shard *sh, struct call *c, int64_t now_us)
{
    c->epoch = continuity_epoch(sh->continuity, c->domain);
    c->guard_us = now_us + sh->conf->timeout_us;
    c->slack_us = clock_offset_error(&sh->offset, now_us) + US_PER_MS;
    c->back_us = sh->back_us;
    /* A full release names its owner, so it may run late; a partial one or a CLEAR must not. */
    if (c->verb == VERB_RELEASE && !c->partial && !sh->conf->of_quorum) {
        c->guard_us = 0;
    }
}

struct call_sender
shard_sender(struct shard *sh, const struct call *c)
{
    return (struct call_sender){.uuid = sh->env->uuid,
                                .secret = &sh->env->secret,
                                .offset_us = clock_offset_guess(&sh->offset),
                                .floor = continuity_floor(sh->continuity, c->domain),
                                .keys = continuity_keys(sh->continuity, c->domain),
                                .epoch = continuity_epoch_value(sh->continuity, c->domain, c->reclaim)};
}

bool
shard_call_send(struct shard *sh, struct call *c)
{
    int64_t now_us = clock_now_us();
    struct slice word[LINK_WORDS_MAX];
    struct call_sender sender = shard_sender(sh, c);
    int words;

    shard_call_prepare(sh, c, now_us);
    sender.sha = c->one_key ? "" : sh->server.sha[c->verb][c->kind];
    c->with_text = c->with_text || sender.sha[0] == '\0';
    sender.text = c->with_text ? script_variants_text(sh->events.variants, c->verb, c->kind, c->one_key) : NULL;
    buf_clear(&sh->text, SIZE_MAX);
    words = call_words(c, &sender, &sh->text, word);
    if (!continuity_fresh(sh->continuity, c->domain, now_us)) {
        return false;
    }
    if (c->verb == VERB_ACQUIRE && !shard_grants(sh, now_us)) {
        return false;
    }
    if (c->asking) { /* ASKING holds for the next command only */
        (void)link_send(sh->link[c->link], 1, &(struct slice){"ASKING", 6}, NULL, NULL);
    }
    return link_send(sh->link[c->link], words, word, shard_on_call, c);
}

static void
answered(struct shard *sh, struct call *c, const struct reply *r, int64_t sent_us)
{
    struct call_position at = {0};
    int64_t time_us;

    if (!call_answer_ok(c, r, &time_us)) {
        sh->env->metrics->redis_protocol_errors++;
        link_fail(sh->link[c->link], "a malformed answer");
        shard_call_end(sh, c, CORE_UNKNOWN, sent_us);
        return;
    }
    shard_learn(sh, sent_us, time_us);
    shard_accepted(sh, c);
    if (c->epoch != continuity_epoch(sh->continuity, c->domain)) { /* Redis may have lost the data of this answer */
        shard_call_end(sh, c, CORE_UNKNOWN, sent_us);
        return;
    }
    if (call_is_stale(r) && !c->was_stale && !c->reclaim) { /* the offset is right since this answer: send again */
        c->was_stale = true;
        if (shard_call_send(sh, c)) {
            return;
        }
    }
    note_returned(sh, c);
    while (!list_empty(&c->items)) {
        struct item *it = container_of(c->items.next, struct item, node);
        struct core_done done = {.sent_us = sent_us, .guard_us = c->guard_us, .pttl_us = -1};

        call_outcome(c, r, &at, &done);
        if (done.outcome == CORE_GRACE) {
            continuity_check(sh->continuity, c->domain, sh->link[c->link]);
        }
        /* The tokens that Redis has reserved behind this one are this daemon's to give. */
        continuity_token(sh->continuity, c->domain,
                         done.token == 0 ? 0 : done.token + (done.reserve_denied ? 0 : it->op.reserve));
        if (done.outcome == CORE_OK && it->op.replicas > 0) {
            done.replicas_wanted = it->op.replicas;
            replicas_take(&sh->replicas, &it->op, &done, c->domain);
        } else {
            report_done(sh, &it->op, &done);
        }
        item_free(sh->env->freelist, it);
    }
    replicas_flush(&sh->replicas);
    freelist_give(sh->env->freelist, c, sizeof(*c));
}

/* Redis has refused a call for the key of one of its items. An item that is sent alone shows whether it is that one. */
static void
send_alone(struct shard *sh, const struct call *from, struct item *it)
{
    struct call *c = freelist_take(sh->env->freelist, sizeof(*c));

    *c = *from;
    c->n = 1;
    c->was_stale = false;
    list_init(&c->items);
    list_remove(&it->node);
    list_push_back(&c->items, &it->node);
    if (shard_call_send(sh, c)) {
        shard_note_in_flight(sh, c);
    } else {
        deferred_item(&sh->deferred, it);
        freelist_give(sh->env->freelist, c, sizeof(*c));
    }
}

/* The call has not run. A forbidden key fails only its own name: the names are sent again, each alone, or are DOWN. */
static void
denied(struct shard *sh, struct call *c, int64_t sent_us)
{
    struct redis_link *l = sh->link[c->link];

    if (!shard_denied(sh, c)) {
        shard_call_end(sh, c, c->n == 1 ? CORE_DENIED : CORE_DOWN, sent_us);
        return;
    }
    note_returned(sh, c);
    link_cork(l);
    while (!list_empty(&c->items)) {
        send_alone(sh, c, container_of(c->items.next, struct item, node));
    }
    link_uncork(l);
    freelist_give(sh->env->freelist, c, sizeof(*c));
}

/* The call has not run: another node has its slot, or no node serves it now. */
static void
redirect(struct shard *sh, struct call *c, struct slice error)
{
    note_returned(sh, c);
    while (!list_empty(&c->items)) {
        struct item *it = container_of(c->items.next, struct item, node);

        list_remove(&it->node);
        sh->events.redirected(sh->events.ctx, it, error);
    }
    freelist_give(sh->env->freelist, c, sizeof(*c));
}

void
shard_on_call(void *arg, enum link_result result, const struct reply *r, int64_t sent_us)
{
    struct call *c = arg;
    struct shard *sh = c->shard;
    enum core_outcome outcome;
    bool drop;

    if (result == LINK_UNKNOWN) {
        shard_call_end(sh, c, CORE_UNKNOWN, sent_us);
        return;
    }
    if (call_is_noscript(r) && !c->with_text) { /* has not run: send it again with the text */
        c->with_text = true;
        if (c->reclaim) { /* a release may have left since, so not this call, but the next one has the text */
            sh->server.sha[c->verb][c->kind][0] = '\0';
            shard_call_end(sh, c, CORE_DOWN, sent_us);
        } else if (c->epoch != continuity_epoch(sh->continuity, c->domain) || !shard_call_send(sh, c)) {
            shard_call_end(sh, c, CORE_DOWN, sent_us);
        }
        return;
    }
    if (r->type != REPLY_ERROR) {
        answered(sh, c, r, sent_us);
        return;
    }
    if (sh->events.redirected != NULL && call_is_redirected(r->text)) {
        redirect(sh, c, r->text);
        return;
    }
    outcome = call_error(r->text, &drop);
    shard_log_error(sh, c, r->text);
    if (call_is_denied(r)) {
        denied(sh, c, sent_us);
        return;
    }
    if (call_is_denied_inside(r)) {
        shard_denied_inside(sh, c);
        shard_call_end(sh, c, CORE_UNKNOWN, sent_us);
        return;
    }
    if (drop) {
        link_fail_refused(sh->link[c->link], r->text);
    }
    shard_call_end(sh, c, outcome, sent_us);
}

/* ---- operations ---- */

/* Whether the link of replicas is up. The first call, for a name with `replicas` in its rule, opens it. */
static bool
replicas_link_up(struct shard *sh)
{
    if (sh->replicas.link == NULL) {
        sh->replicas.link = shard_open_link(sh, false);
    }
    return link_up(sh->replicas.link);
}

/* The topology refuses attempts, or, in strict mode, Redis may evict their keys. */
static bool
refuses(const struct shard *sh)
{
    return sh->grant_until_us == 0 || (sh->conf->strict && !server_info_may_grant(&sh->server));
}

bool
shard_grants(const struct shard *sh, int64_t now_us)
{
    return !refuses(sh) && now_us < sh->grant_until_us;
}

/* False for an ACQUIRE that is refused, or that replicas would have to acknowledge while their link is down. */
static bool
may_perform(struct shard *sh, const struct item *it)
{
    return it->verb != VERB_ACQUIRE || (!refuses(sh) && (it->op.replicas == 0 || replicas_link_up(sh)));
}

/* The link for the item. If its current link is lost, the items that have gathered there move first. */
static unsigned
link_of(struct shard *sh, const struct item *it)
{
    unsigned link = sh->current[it->home];

    if (it->verb == VERB_RENEW) {
        return shard_renew_link(sh, it->home);
    }
    if (link_lost(sh->link[link]) && shard_route_leave(sh, link)) {
        shard_gather_again(sh, link);
    }
    return sh->current[it->home];
}

/* Moves the item, off any list, to a batch of its link. It is DOWN if the link is, or if may_perform() is false. */
static void
gather(struct shard *sh, struct item *it)
{
    const struct core_op *op = &it->op;
    unsigned link = link_of(sh, it);
    int b = op->reclaim ? BATCH_RECLAIM : BATCH_VERB + (int)it->verb;
    struct list *batch;

    if (!link_up(sh->link[link]) || !may_perform(sh, it)) {
        deferred_item(&sh->deferred, it);
        return;
    }
    if (it->verb == VERB_ACQUIRE && clock_now_us() >= sh->grant_until_us) {
        list_remove(&it->node);
        list_push_back(&sh->waiting, &it->node);
        return;
    }
    it->alone = it->one_key || shard_goes_alone(sh, op, it->verb);
    batch = &sh->batch[link][it->alone && b > BATCH_VERB + VERB_RELEASE ? BATCH_ALONE : b][op->kind]; /* SC3 */
    list_remove(&it->node);
    if (it->verb == VERB_RENEW && op->exact) { /* a client waits for a RENEW */
        list_push_front(batch, &it->node);
    } else {
        list_push_back(batch, &it->node);
    }
    sh->gathered_n++;
    sh->gathered[link]++;
}

void
shard_perform(struct shard *sh, const struct core_op *op, enum core_action_type action)
{
    struct item *it;

    if (action == CORE_WATCH || action == CORE_UNWATCH) {
        if (action == CORE_UNWATCH) {
            watches_remove(sh->watches, op->queue);
        } else {
            watches_add(sh->watches, op);
        }
        return;
    }
    it = item_new(sh->env->freelist, op);
    it->verb = call_verb_of(action);
    it->domain = continuity_domain(sh->continuity, op->key);
    it->epoch = continuity_epoch(sh->continuity, it->domain);
    shard_take(sh, it);
}

void
shard_take(struct shard *sh, struct item *it)
{
    it->home = shard_home_of(sh, it->op.key);
    gather(sh, it);
}

/* Gathers the items of the list, in their order. */
static void
gather_all(struct shard *sh, struct list *moving)
{
    while (!list_empty(moving)) {
        gather(sh, container_of(moving->next, struct item, node));
    }
}

void
shard_gather_waiting(struct shard *sh)
{
    struct list moving;

    list_init(&moving); /* items that have to wait on return to sh->waiting */
    list_move_all(&moving, &sh->waiting);
    gather_all(sh, &moving);
}

static void
move_batch(struct shard *sh, unsigned link, struct list *batch)
{
    struct list moving;

    list_init(&moving);
    while (!list_empty(batch)) {
        struct list *node = batch->next;

        list_remove(node);
        list_push_back(&moving, node);
        sh->gathered_n--;
        sh->gathered[link]--;
    }
    gather_all(sh, &moving);
}

void
shard_gather_again(struct shard *sh, unsigned link)
{
    for (int k = 0; k < BATCHES * KINDS && sh->gathered[link] > 0; k++) {
        move_batch(sh, link, &sh->batch[link][k / KINDS][k % KINDS]);
    }
}

void
shard_move_gathered(struct shard *sh, unsigned link)
{
    (void)shard_route_leave(sh, link);
    shard_gather_again(sh, link);
}

/* ---- the end ---- */

bool
shard_call_forget(link_reply_fn *fn, void *arg)
{
    if (fn != shard_on_call) {
        return false;
    }
    shard_call_free(arg);
    return true;
}

void
shard_drop_gathered(struct shard *sh)
{
    for (unsigned i = 0; i <= LINKS_MAX; i++) {
        for (int k = 0; k < BATCHES * KINDS; k++) {
            struct list *batch = &sh->batch[i][k / KINDS][k % KINDS];

            while (!list_empty(batch)) {
                item_free(sh->env->freelist, container_of(batch->next, struct item, node));
            }
        }
    }
    while (!list_empty(&sh->waiting)) {
        item_free(sh->env->freelist, container_of(sh->waiting.next, struct item, node));
    }
}
