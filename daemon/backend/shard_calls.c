/*
 * shard_calls.c -- what a shard is asked for, as script calls: which link, which batch; each ends in one DONE.
 *
 * While a call is in flight on a link, what is asked for gathers, until there is enough for a wide call, or the answer
 * comes; then it leaves, all at once. So an idle link adds no delay, and a busy one pays what a call costs Redis once
 * for many names. Nothing else holds an item back, but for I6: the answer comes, or the call is given up at its
 * deadline, or the link is lost. Then what has gathered goes by another link; where none is up it is DOWN, for it has
 * not run: nothing waits for a reconnect.
 *
 * I1  An item is in exactly one place: a batch, a call in flight, or `down`.
 * I2  Nothing is posted from inside a shard_ call: what is known at once (DOWN) waits in `down` for its event.
 * I3  What leaves in one turn keeps this order on a link: reclaims, releases, breaks, attempts, renewals;
 *     inside one verb and kind as they came. Breaks, attempts and renewals that must go alone (denied.h) leave behind
 *     all of these; reclaims, and releases (O4 of core/order.c), keep their turn also alone.
 *     So a release may overtake an attempt that was asked for turns before, as it does within a turn. That is right
 *     because those of one name that gather together are of different claims (and at most one break), each is told what
 *     its own did, and none of them needs to be later than another; an attempt behind a release or a break finds free
 *     what it may have found taken. Where a claim that is held is given back, what it asked for before is overtaken: a
 *     re-entry finds nothing then, and its reclaim has left before. What has left is overtaken only where
 *     Redis has not run it and it is sent again at once (it did not know the script, the guard was wrong, a key of the
 *     call was refused), and never a reclaim.
 * I4  An item leaves in the epoch in which it was asked for; in another one it is DOWN. What the core thought of data
 *     that may be lost is not asked of what has come in its place.
 *     A link that is gone leaves what had gathered for it to others that are up; see shard_route.c.
 * I5  calls[link] is the number of calls in flight there, gathered[link] of items in its batches; which are not empty
 *     behind shard_flush() only where a call is in flight there, and they are less than WIDE, or fenced (shard_route.c,
 *     I2), or renewals, while a call of renewals is in flight on any link; or by I6.
 * I6  No call is sent but while our registration is fresh (membership.h). Where it is not, all that has gathered keeps
 *     its place, releases too (I3), until the next one is answered. Where that comes to nothing it is DOWN.
 *
 * Memory, when Redis is slow: what gathers and is in flight is at most an operation and a renewal for each claim, and
 * sessions are not read from while too many of their requests are open.
 */
#include "daemon/backend/shard_private.h"
#include "daemon/base/clock.h"
#include "daemon/base/freelist.h"

enum {
    BATCH_MAX = 128,
    WIDE = 16, /* names: what a call costs is little for each then; and Redis has work while we have its last answer */
    RENEW_NEAR = 2,       /* calls of renewals on their way, and ... */
    RENEW_CALL_US = 1000, /* ... one more for so long a way to Redis and back */
    RENEW_CALLS = 16,
    JUMP_US = 100 * 1000, /* one of the clocks was set, or stood still; less is in the margin of any lease */
};

/* ---- outcomes ---- */

static void
tell_done(struct shard *sh, const struct core_op *op, struct core_done *done)
{
    done->claim = op->claim;
    done->op = op->op;
    sh->events.done(sh->events.ctx, done);
}

static void
call_free(void *arg)
{
    struct call *c = arg;
    const struct shard *sh = c->shard;

    while (!list_empty(&c->items)) {
        item_free(sh->env->freelist, container_of(c->items.next, struct item, node));
    }
    freelist_give(sh->env->freelist, c, sizeof(*c));
}

/* The call is not in flight any more. */
static void
call_unlink(struct shard *sh, const struct call *c)
{
    sh->flying -= c->n;
    sh->calls[c->link]--;
    sh->renewing -= c->verb == VERB_RENEW;
}

/* The call is in flight from now on. */
static void
take_off(struct shard *sh, const struct call *c)
{
    sh->flying += c->n;
    sh->calls[c->link]++;
    sh->renewing += c->verb == VERB_RENEW;
}

/* The same outcome for every name of the call; the call is gone then. */
static void
finish_all(struct shard *sh, struct call *c, enum core_outcome outcome, int64_t sent_us)
{
    int64_t guard_us = c->guard_us + c->slack_us + (sh->back_us - c->back_us) + JUMP_US;

    call_unlink(sh, c);
    while (!list_empty(&c->items)) {
        struct item *it = container_of(c->items.next, struct item, node);
        struct core_done done = {.outcome = outcome,
                                 .sent_us = sent_us,
                                 .guard_us = guard_us,
                                 .pttl_us = -1,
                                 .denied = c->denied};

        tell_done(sh, &it->op, &done);
        item_free(sh->env->freelist, it);
    }
    freelist_give(sh->env->freelist, c, sizeof(*c));
}

void
shard_learn(struct shard *sh, int64_t sent_us, int64_t time_us)
{
    int64_t jump_us = offset_learn(&sh->offset, sent_us, clock_now_us(), time_us);

    sh->back_us -= jump_us < 0 ? jump_us : 0;
    if (sh->back_us - sh->back_told_us > JUMP_US) { /* of less each guard has a margin: finish_all() */
        sh->events.life(sh->events.ctx, SHARD_CLOCK_BACK, (uint64_t)(sh->back_us - sh->back_told_us));
        sh->back_told_us = sh->back_us;
    }
    if (jump_us > JUMP_US || jump_us < -JUMP_US) {
        log_event(sh->env->log, LOG_WARN, "redis", "clock jump", "address", LOG_S(sh->address->shown), "by_ms",
                  LOG_N(jump_us / US_PER_MS), NULL);
        sh->events.life(sh->events.ctx, SHARD_CLOCK_JUMP, 0);
    }
}

static void on_call(void *arg, enum link_result result, const struct reply *r, int64_t sent_us);

/* Sends the call; false: the link takes nothing, or I6, and nothing was sent. */
static bool
call_send(struct shard *sh, struct call *c)
{
    int64_t now_us = clock_now_us();
    struct slice word[LINK_WORDS_MAX];
    struct call_sender sender = {.sha = sh->hello.sha[c->verb][c->kind],
                               .uuid = sh->env->uuid,
                               .secret = &sh->env->secret,
                               .offset_us = offset_guess(&sh->offset)};
    int words;

    c->epoch = sh->membership.epoch.number;
    sender.epoch = slice_of(c->reclaim ? sh->membership.epoch.now : sh->membership.epoch.open);
    c->whole = c->whole || sender.sha[0] == '\0';
    c->guard_us = now_us + sh->conf->timeout_us;
    c->slack_us = offset_error(&sh->offset, now_us) + US_PER_MS;
    c->back_us = sh->back_us;
    if (c->verb == VERB_RELEASE && !c->partial) { /* it names its owner, so it may run late; CLEAR checks no owner */
        c->guard_us = 0;
    }
    buf_clear(&sh->text, SIZE_MAX);
    words = call_words(c, &sender, &sh->text, word);
    return membership_fresh(&sh->membership, now_us) &&
           link_send(sh->link[c->link], words, word, on_call, c);
}

static void
answered(struct shard *sh, struct call *c, const struct reply *r, int64_t sent_us)
{
    struct call_ticket at = {0};
    int64_t time_us;

    if (!call_answer_ok(c, r, &time_us)) {
        sh->env->metrics->redis_protocol_errors++;
        link_fail(sh->link[c->link], "an answer of an unexpected shape");
        finish_all(sh, c, CORE_UNKNOWN, sent_us);
        return;
    }
    shard_learn(sh, sent_us, time_us);
    shard_accepted(sh, c);
    if (c->epoch != sh->membership.epoch.number) { /* said of data that Redis may not have any more */
        finish_all(sh, c, CORE_UNKNOWN, sent_us);
        return;
    }
    if (call_is_stale(r) && !c->again) { /* in time, and yet past the guard: our offset was wrong; now it is right */
        c->again = true;
        if (call_send(sh, c)) {
            return;
        }
    }
    call_unlink(sh, c);
    while (!list_empty(&c->items)) {
        struct item *it = container_of(c->items.next, struct item, node);
        struct core_done done = {.sent_us = sent_us, .guard_us = c->guard_us, .pttl_us = -1};

        call_outcome(c, r, &at, &done);
        if (done.outcome == CORE_GRACE) {
            membership_ask(&sh->membership, sh->link[c->link]);
        }
        /* This daemon may give all tokens that Redis has set aside behind this one. */
        membership_token(&sh->membership, done.token == 0 ? 0 : done.token + (done.no_room ? 0 : it->op.room));
        tell_done(sh, &it->op, &done);
        item_free(sh->env->freelist, it);
    }
    freelist_give(sh->env->freelist, c, sizeof(*c));
}

/* Redis has refused a call for the key of this item, or of another one: sent alone, the item shows which. */
static void
send_alone(struct shard *sh, const struct call *from, struct item *it)
{
    struct call *c = freelist_take(sh->env->freelist, sizeof(*c));

    *c = *from;
    c->n = 1;
    c->again = false;
    list_init(&c->items);
    list_remove(&it->node);
    list_push_back(&c->items, &it->node);
    if (call_send(sh, c)) {
        take_off(sh, c);
    } else {
        deferred_item(&sh->down, it);
        freelist_give(sh->env->freelist, c, sizeof(*c));
    }
}

/* The call has not run. One key spoils only itself: its names are sent again, each alone, or the core asks again. */
static void
denied(struct shard *sh, struct call *c, int64_t sent_us)
{
    struct redis_link *l = sh->link[c->link];

    if (!shard_denied(sh, c)) {
        finish_all(sh, c, c->n == 1 ? CORE_DENIED : CORE_DOWN, sent_us);
        return;
    }
    call_unlink(sh, c);
    link_cork(l);
    while (!list_empty(&c->items)) {
        send_alone(sh, c, container_of(c->items.next, struct item, node));
    }
    link_uncork(l);
    freelist_give(sh->env->freelist, c, sizeof(*c));
}

static void
on_call(void *arg, enum link_result result, const struct reply *r, int64_t sent_us)
{
    struct call *c = arg;
    struct shard *sh = c->shard;
    enum core_outcome outcome;
    bool drop;

    if (result == LINK_UNKNOWN) {
        finish_all(sh, c, CORE_UNKNOWN, sent_us);
        return;
    }
    if (call_is_noscript(r) && !c->whole) { /* has not run; with its text it will, if that is still wanted */
        c->whole = true;
        if (c->reclaim) { /* what it asserts may have been released behind it; next time it leaves with its text */
            sh->hello.sha[c->verb][c->kind][0] = '\0';
            finish_all(sh, c, CORE_DOWN, sent_us);
        } else if (c->epoch != sh->membership.epoch.number || !call_send(sh, c)) {
            finish_all(sh, c, CORE_DOWN, sent_us);
        }
        return;
    }
    if (r->type != REPLY_ERROR) {
        answered(sh, c, r, sent_us);
        return;
    }
    outcome = call_error(r->text, &drop);
    shard_log_refusal(sh, c, r->text);
    if (call_is_denied(r)) {
        denied(sh, c, sent_us);
        return;
    }
    if (call_is_denied_inside(r)) {
        shard_denied_inside(sh, c);
        finish_all(sh, c, CORE_UNKNOWN, sent_us);
        return;
    }
    if (drop) {
        link_fail(sh->link[c->link], r->text.p);
    }
    finish_all(sh, c, outcome, sent_us);
}

/* ---- what is asked of it ---- */

/* In strict mode nothing is taken in a Redis that could lose it. */
static bool
may_perform(struct shard *sh, struct redis_link *l, enum call_verb verb)
{
    return verb != VERB_ACQUIRE || !sh->conf->strict || server_info_may_grant(&sh->hello, l);
}

static void gather_again(struct shard *sh, unsigned link);

/* By which link the item leaves. What had gathered for one that is gone, before it, leaves by others, too. */
static unsigned
link_of(struct shard *sh, const struct item *it)
{
    unsigned link = sh->at[it->home];

    if (it->verb == VERB_RENEW) {
        return shard_renew_link(sh, it->home);
    }
    if (link_gone(sh->link[link]) && shard_route_leave(sh, link)) {
        gather_again(sh, link);
    }
    return sh->at[it->home];
}

/* Takes the item, from wherever it stands, to what leaves by its link; where none is up, it is DOWN. */
static void
gather(struct shard *sh, struct item *it)
{
    const struct core_op *op = &it->op;
    unsigned link = link_of(sh, it);
    int b = op->reclaim ? BATCH_RECLAIM : BATCH_VERB + (int)it->verb;
    struct list *batch;

    if (!link_up(sh->link[link]) || !may_perform(sh, sh->link[link], it->verb)) {
        deferred_item(&sh->down, it);
        return;
    }
    it->alone = shard_goes_alone(sh, op, it->verb);
    batch = &sh->batch[link][it->alone && b > BATCH_VERB + VERB_RELEASE ? BATCH_ALONE : b][op->kind];
    list_remove(&it->node);
    if (it->verb == VERB_RENEW && op->exact) { /* a request waits for it */
        list_push_front(batch, &it->node);
    } else {
        list_push_back(batch, &it->node);
    }
    sh->batched++;
    sh->gathered[link]++;
}

void
shard_perform(struct shard *sh, const struct core_op *op, enum core_action_type action)
{
    struct item *it;

    if (action == CORE_WATCH || action == CORE_UNWATCH) {
        if (action == CORE_UNWATCH) {
            watches_remove(sh->watches, op->lock);
        } else {
            watches_add(sh->watches, op);
        }
        return;
    }
    it = item_new(sh->env->freelist, op);
    it->verb = call_verb_of(action);
    it->epoch = sh->membership.epoch.number;
    it->home = shard_home_of(sh, op->key);
    gather(sh, it);
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
        sh->batched--;
        sh->gathered[link]--;
    }
    while (!list_empty(&moving)) {
        gather(sh, container_of(moving.next, struct item, node));
    }
}

/* Moves the items of the link's batches, in their order, to the batches of the links that are current now. */
static void
gather_again(struct shard *sh, unsigned link)
{
    for (int k = 0; k < BATCHES * KINDS && sh->gathered[link] > 0; k++) {
        move_batch(sh, link, &sh->batch[link][k / KINDS][k % KINDS]);
    }
}

void
shard_move_gathered(struct shard *sh, unsigned link)
{
    (void)shard_route_leave(sh, link);
    gather_again(sh, link);
}

/* A call with this operation in it, and others that go under the same terms. */
static struct call
call_of(struct list *node)
{
    const struct item *it = container_of(node, struct item, node);
    const struct core_op *op = &it->op;

    return (struct call){
        .verb = it->verb,
        .kind = op->kind,
        .reclaim = op->reclaim,
        .alone = it->alone,
        .epoch = it->epoch,
        /* Run late, a release that leaves some of the holds would take away from what was taken since. */
        .partial = it->verb == VERB_RELEASE && (op->holds > 0 || op->rest > 0),
    };
}

/* At most so many names of the batch as one call; what cannot be sent is DOWN. */
static void
flush_call(struct shard *sh, struct list *batch, unsigned link, size_t max)
{
    struct call *c = freelist_take(sh->env->freelist, sizeof(*c)); /* all is set below */

    *c = call_of(batch->next);
    c->shard = sh;
    c->link = link;
    list_init(&c->items);
    while (!list_empty(batch) && c->n < (c->alone ? 1 : max)) {
        struct list *node = batch->next;
        struct call alike = call_of(node);

        if (alike.partial != c->partial || alike.reclaim != c->reclaim || alike.epoch != c->epoch ||
            alike.alone != c->alone) {
            break; /* one guard, and one epoch, for all names of a call */
        }
        list_remove(node);
        list_push_back(&c->items, node);
        c->n++;
        sh->batched--;
        sh->gathered[link]--;
    }
    if (call_send(sh, c)) {
        take_off(sh, c);
        return;
    }
    while (!list_empty(&c->items)) {
        deferred_item(&sh->down, container_of(c->items.next, struct item, node));
    }
    freelist_give(sh->env->freelist, c, sizeof(*c));
}

/*
 * Of renewals that no request waits for, few calls are in flight at a time, so that what a request waits for is not
 * behind many: two when Redis is near, so that it works on one while we have the answer to the other; more when it is
 * far, for it may answer other calls meanwhile. How far it is, not how long the last answer took: that one has waited
 * for the calls before it, and the more are sent the longer it takes.
 */
static bool
may_renew(const struct shard *sh)
{
    int64_t calls = RENEW_NEAR + offset_way_us(&sh->offset) / RENEW_CALL_US;

    return sh->renewing < (calls < RENEW_CALLS ? calls : RENEW_CALLS);
}

/* All that has gathered for the link; I4. */
static void
flush_link(struct shard *sh, unsigned link)
{
    size_t max = sh->conf->batch_max > BATCH_MAX ? BATCH_MAX : sh->conf->batch_max;

    for (int b = 0; b < BATCHES; b++) {
        bool renews = b == BATCH_VERB + VERB_RENEW;

        for (unsigned i = 0; i < KINDS; i++) {
            unsigned kind = (i + (renews ? sh->renewed : 0)) % KINDS; /* each kind has its turn */
            struct list *batch = &sh->batch[link][b][kind];

            while (!list_empty(batch) && (!renews || may_renew(sh))) {
                struct item *it = container_of(batch->next, struct item, node);

                if (it->epoch == sh->membership.epoch.number) {
                    flush_call(sh, batch, link, max);
                    sh->renewed = renews ? kind + 1 : sh->renewed;
                } else {
                    sh->batched--;
                    sh->gathered[link]--;
                    deferred_item(&sh->down, it);
                }
            }
        }
    }
}

/* Names whose home is up again go there when nothing is in flight any more where they are: I2 of shard_route.c. */
static void
go_home(struct shard *sh)
{
    for (unsigned home = 0; home < sh->lock_links; home++) {
        unsigned link = sh->at[home];

        if (sh->calls[link] == 0 && shard_may_return(sh, home)) {
            sh->at[home] = home;
            gather_again(sh, link);
        }
    }
}

void
shard_flush(struct shard *sh)
{
    if (sh->batched > 0 && membership_pending(&sh->membership)) {
        return;
    }
    go_home(sh);
    for (unsigned link = 0; link <= sh->lock_links && sh->batched > 0; link++) {
        bool wide = sh->gathered[link] >= WIDE && !shard_is_fenced(sh, link) &&
                    (link < sh->lock_links || may_renew(sh));

        if (sh->calls[link] == 0 || wide) {
            link_cork(sh->link[link]);
            flush_link(sh, link);
            link_uncork(sh->link[link]);
        }
    }
}

/* ---- the end ---- */

void
shard_forget(link_reply_fn *fn, void *arg)
{
    if (fn == on_call) {
        call_free(arg);
    } else {
        inspect_forget(fn, arg);
    }
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
}
