/*
 * node.c -- one Redis node: which link, which batch, which clock; every operation ends in one DONE.
 *
 * Links: [0, lock_links) for acquire, release and break, a key always on the
 * same one, so that its commands keep their order; then one for renewals,
 * never behind a queue of attempts; then one for subscriptions. What is
 * neither (LOCKINFO, reads for tracking, what daemons say, who listens) goes
 * along on 0.
 *
 * I1  An item is in exactly one place: a batch of this turn, a call in flight, or `down`.
 * I2  Nothing is posted from inside a node_ call: what is known at once (DOWN) waits in `down` for its event.
 * I3  What leaves in one turn keeps this order on a link: releases, breaks, attempts, renewals; inside one verb as
 *     they came. The core never asks for two operations of one name in one turn that need any other order.
 */
#include "daemon/backend/node.h"

#include <event2/dns.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/backend/address.h"
#include "daemon/backend/call.h"
#include "daemon/backend/down.h"
#include "daemon/backend/hello.h"
#include "daemon/backend/inspect.h"
#include "daemon/backend/offset.h"
#include "daemon/backend/presence.h"
#include "daemon/backend/probe.h"
#include "daemon/backend/say.h"
#include "daemon/backend/text.h"
#include "daemon/backend/watch.h"
#include "daemon/base/clock.h"

enum {
    LINKS_MAX = 16,
    BATCH_MAX = 128,
    JUMP_US = 100 * 1000, /* one of the clocks was set, or stood still; less is in the margin of any lease */
};

struct node {
    struct link_address *address; /* owned */
    const struct backend_conf *conf;
    const struct backend_env *env;
    unsigned lock_links, links_n;
    struct redis_link *link[LINKS_MAX + 2];
    struct list batch[LINKS_MAX + 2][VERBS][KINDS]; /* item.node */
    size_t batched, flying;
    struct hello hello;
    struct presence presence;
    struct say say;
    struct probe probe;
    bool listens; /* to what others say */
    struct buf text; /* scratch of call_words() */
    struct watches *watches;
    struct offset offset;
    struct down down;
    struct evdns_base *dns;
    bool up, told; /* told: the log knows of the state */
};

static struct redis_link *
sub_link(const struct node *n)
{
    return n->link[n->lock_links + 1];
}

/* ---- outcomes ---- */

static void
post_done(struct node *n, const struct core_op *op, struct core_done *done)
{
    struct core_event ev = {.type = CORE_DONE};

    done->claim = op->claim;
    done->op = op->op;
    ev.done = *done;
    n->env->post(n->env->ctx, &ev);
}

static void
call_free(void *arg)
{
    struct call *c = arg;

    while (!list_empty(&c->items)) {
        item_free(container_of(c->items.next, struct item, node));
    }
    free(c);
}

/* The same outcome for every name of the call; the call is gone then. */
static void
finish_all(struct node *n, struct call *c, enum core_outcome outcome, int64_t sent_us)
{
    n->flying -= c->n;
    while (!list_empty(&c->items)) {
        struct item *it = container_of(c->items.next, struct item, node);
        struct core_done done = {.outcome = outcome,
                                 .sent_us = sent_us,
                                 .guard_us = c->guard_us + c->slack_us,
                                 .pttl_us = -1};

        list_remove(&it->node);
        post_done(n, &it->op, &done);
        free(it);
    }
    free(c);
}

static void
learn(struct node *n, int64_t sent_us, int64_t time_us)
{
    int64_t jump_us = offset_learn(&n->offset, sent_us, clock_now_us(), time_us);

    if (jump_us > JUMP_US || jump_us < -JUMP_US) {
        log_event(n->env->log, LOG_WARN, "redis", "clock jump", "address", LOG_S(n->address->shown), "by_ms",
                  LOG_N(jump_us / US_PER_MS), NULL);
        n->env->post(n->env->ctx, &(struct core_event){.type = CORE_SUSPECT});
    }
}

static void on_call(void *arg, enum link_result result, const struct reply *r, int64_t sent_us);

/* Sends the call; false: the link takes nothing, and nothing was sent. */
static bool
call_send(struct node *n, struct call *c)
{
    struct slice word[LINK_WORDS_MAX];
    struct call_terms terms = {.sha = n->hello.sha[c->verb][c->kind],
                               .uuid = n->env->uuid,
                               .secret = &n->env->secret,
                               .offset_us = offset_guess(&n->offset)};
    int words;

    c->epoch = n->presence.epoch.number;
    terms.epoch = slice_of(c->reclaim ? n->presence.epoch.now : n->presence.epoch.open);
    c->whole = c->whole || terms.sha[0] == '\0';
    c->guard_us = clock_now_us() + n->conf->timeout_us;
    c->slack_us = offset_error(&n->offset, clock_now_us()) + US_PER_MS;
    if (c->verb == VERB_RELEASE && !c->partial) { /* it names its owner, so it may run late; CLEAR asks nobody */
        c->guard_us = 0;
    }
    buf_clear(&n->text, SIZE_MAX);
    words = call_words(c, &terms, &n->text, word);
    return !n->text.failed && link_send(n->link[c->link], words, word, on_call, c);
}

static void
answered(struct node *n, struct call *c, const struct reply *r, int64_t sent_us)
{
    int64_t time_us;
    size_t i = 0;

    if (!call_answer_ok(c, r, &time_us)) {
        n->env->metrics->redis_protocol_errors++;
        link_fail(n->link[c->link], "an answer of an unexpected shape");
        finish_all(n, c, CORE_UNKNOWN, sent_us);
        return;
    }
    learn(n, sent_us, time_us);
    if (c->epoch != n->presence.epoch.number) { /* said of data that Redis may not have any more */
        finish_all(n, c, CORE_UNKNOWN, sent_us);
        return;
    }
    if (call_is_stale(r) && !c->again) { /* in time, and yet past the guard: our offset was wrong; now it is right */
        c->again = true;
        if (call_send(n, c)) {
            return;
        }
    }
    n->flying -= c->n;
    while (!list_empty(&c->items)) {
        struct item *it = container_of(c->items.next, struct item, node);
        struct core_done done = {.sent_us = sent_us, .guard_us = c->guard_us, .pttl_us = -1};

        call_outcome(c, r, i++, &done);
        if (done.outcome == CORE_GRACE) {
            presence_ask(&n->presence, n->link[c->link]);
        }
        presence_token(&n->presence, done.token);
        list_remove(&it->node);
        post_done(n, &it->op, &done);
        free(it);
    }
    free(c);
}

static void
on_call(void *arg, enum link_result result, const struct reply *r, int64_t sent_us)
{
    struct call *c = arg;
    struct node *n = c->node;
    enum core_outcome outcome;
    char text[TEXT_ERROR_ROOM];
    bool drop;

    if (result == LINK_UNKNOWN) {
        finish_all(n, c, CORE_UNKNOWN, sent_us);
        return;
    }
    if (call_is_noscript(r) && !c->whole) { /* has not run; with its text it will */
        c->whole = true;
        if (!call_send(n, c)) {
            finish_all(n, c, CORE_DOWN, sent_us);
        }
        return;
    }
    if (r->type != REPLY_ERROR) {
        answered(n, c, r, sent_us);
        return;
    }
    outcome = call_error(r->text, &drop);
    log_event(n->env->log, LOG_WARN, "redis", "refused", "address", LOG_S(n->address->shown), "error",
              LOG_S(text_error(text, r->text, n->address->user)), "names", LOG_N(c->n), NULL);
    if (drop) {
        link_fail(n->link[c->link], r->text.p);
    }
    finish_all(n, c, outcome, sent_us);
}

/* ---- what is asked of it ---- */

static unsigned
link_of(const struct node *n, struct slice key, enum call_verb verb)
{
    if (verb == VERB_RENEW) {
        return n->lock_links;
    }
    return n->lock_links == 1 ? 0 : hash_name(&n->env->secret, key.p, key.n) % n->lock_links;
}

/* In strict mode nothing is taken in a Redis that could lose it. */
static bool
may_perform(struct node *n, struct redis_link *l, enum core_action_type action)
{
    return action != CORE_ACQUIRE || !n->conf->strict || hello_may_grant(&n->hello, l);
}

void
node_perform(struct node *n, const struct core_op *op, enum core_action_type action)
{
    enum call_verb verb;
    struct item *it;
    unsigned link;

    if (action == CORE_WATCH || action == CORE_UNWATCH) {
        if (action == CORE_UNWATCH) {
            watches_remove(n->watches, op->lock);
        } else {
            (void)watches_add(n->watches, op); /* without it, its timer wakes the lock */
        }
        return;
    }
    verb = call_verb_of(action);
    link = link_of(n, op->key, verb);
    it = item_new(op);
    if (it == NULL) {
        down_op(&n->down, op);
    } else if (!link_up(n->link[link]) || !may_perform(n, n->link[link], action)) {
        down_item(&n->down, it);
    } else {
        list_push_back(&n->batch[link][verb][op->kind], &it->node);
        n->batched++;
    }
}

/* A call with this operation in it, and others that go under the same terms. */
static struct call
call_of(struct list *node, enum call_verb verb)
{
    const struct core_op *op = &container_of(node, struct item, node)->op;

    return (struct call){
        .verb = verb,
        .kind = op->kind,
        .reclaim = op->reclaim,
        /* Run late, a release that leaves some of the holds would take away from what was taken since. */
        .partial = verb == VERB_RELEASE && (op->holds > 0 || op->rest > 0),
    };
}

/* At most batch_max names of the batch as one call; what cannot be sent is DOWN. */
static void
flush_call(struct node *n, struct list *batch, unsigned link, enum call_verb verb)
{
    size_t max = n->conf->batch_max > BATCH_MAX ? BATCH_MAX : n->conf->batch_max;
    struct call *c = calloc(1, sizeof(*c));

    if (c == NULL) {
        for (; !list_empty(batch); n->batched--) {
            down_item(&n->down, container_of(batch->next, struct item, node));
        }
        return;
    }
    *c = call_of(batch->next, verb);
    c->node = n;
    c->link = link;
    list_init(&c->items);
    while (!list_empty(batch) && c->n < max) {
        struct list *node = batch->next;
        struct call alike = call_of(node, verb);

        if (alike.partial != c->partial || alike.reclaim != c->reclaim) {
            break; /* one guard, and one epoch, for all names of a call */
        }
        list_remove(node);
        list_push_back(&c->items, node);
        c->n++;
        n->batched--;
    }
    if (call_send(n, c)) {
        n->flying += c->n;
        return;
    }
    while (!list_empty(&c->items)) {
        down_item(&n->down, container_of(c->items.next, struct item, node));
    }
    free(c);
}

void
node_flush(struct node *n)
{
    if (n->batched == 0) {
        return;
    }
    for (unsigned link = 0; link <= n->lock_links; link++) {
        for (int verb = 0; verb < VERBS; verb++) {
            for (int kind = 0; kind < KINDS; kind++) {
                while (!list_empty(&n->batch[link][verb][kind])) {
                    flush_call(n, &n->batch[link][verb][kind], link, (enum call_verb)verb);
                }
            }
        }
    }
}

void
node_say(struct node *n, struct slice what)
{
    say_send(&n->say, n->link[0], what);
}

void
node_probe(struct node *n, const struct core_probe *p)
{
    probe_send(&n->probe, n->link[0], p);
}

bool
node_look(struct node *n, uint64_t id, struct slice key)
{
    struct inspect *q = inspect_new(n->env, id);

    if (q != NULL && !inspect_send(q, n->link[0], key)) {
        down_look(&n->down, q);
    }
    return q != NULL;
}

void
node_configure(struct node *n, int64_t grace_us)
{
    if (grace_us > n->presence.epoch.grace_us) { /* never less: what is held goes on being renewed as it was taken */
        n->presence.epoch.grace_us = grace_us;
    }
}

void
node_reclaimed(struct node *n, uint64_t epoch)
{
    presence_reclaimed(&n->presence, epoch);
}

void
node_leave(struct node *n)
{
    presence_leave(&n->presence);
}

/* ---- greeting ---- */

static void
on_time(void *arg, enum link_result result, const struct reply *r, int64_t sent_us)
{
    struct node *n = arg;

    if (result == LINK_ANSWERED && r->type == REPLY_ARRAY && r->count == 2 && r->item[0]->type == REPLY_TEXT &&
        r->item[1]->type == REPLY_TEXT) {
        learn(n, sent_us, strtoll(r->item[0]->text.p, NULL, 10) * US_PER_S + strtoll(r->item[1]->text.p, NULL, 10));
    }
}

static void
on_hello(void *ctx, struct redis_link *l)
{
    struct node *n = ctx;
    struct slice word = SLICE_LIT("TIME");

    if (l == sub_link(n)) {
        watches_hello(n->watches);
        return;
    }
    (void)link_send(l, 1, &word, on_time, n);
    presence_hello(&n->presence, l);
    hello_ask(&n->hello, l);
    n->probe.refused = n->probe.refused && l != n->link[0]; /* its rights may be others now */
}

static void
on_state(void *ctx, struct redis_link *l, bool link_is_up)
{
    struct node *n = ctx;
    bool up = true;

    if (l == sub_link(n) || l == n->link[0]) {
        watches_link(n->watches, l, link_is_up);
    }
    n->listens = n->listens && (link_is_up || l != sub_link(n));
    if (!n->listens && link_up(sub_link(n)) && n->presence.epoch.number != 0) { /* not sooner: see presence.lua */
        n->listens = true;
        say_listen(&n->say, sub_link(n));
    }
    if (l == sub_link(n)) {
        return;
    }
    for (unsigned i = 0; i <= n->lock_links; i++) {
        up = up && link_up(n->link[i]);
    }
    if (up != n->up) {
        n->up = up;
        n->told = true;
        log_event(n->env->log, up ? LOG_INFO : LOG_WARN, "redis", up ? "up" : "lost", "address",
                  LOG_S(n->address->shown), up ? NULL : "reason", LOG_S(link_last_error(l)), NULL);
        n->env->state(n->env->ctx, up);
    } else if (!up && !link_is_up && !n->told) {
        n->told = true; /* once; INFO redis has the latest reason */
        log_event(n->env->log, LOG_WARN, "redis", "unreachable", "address", LOG_S(n->address->shown), "reason",
                  LOG_S(link_last_error(l)), NULL);
    }
}

static void
on_message(void *ctx, struct slice channel, const struct reply *what)
{
    struct node *n = ctx;

    if (!say_heard(&n->say, channel, what)) {
        watches_heard(n->watches, channel, what);
    } else if (what->type == REPLY_TEXT && what->text.n == 0) {
        presence_beat(&n->presence); /* a daemon that knows nothing has met a Redis that knows nothing */
    }
}

/* ---- begin and end ---- */

/* The link is closing with this in flight. */
static void
forget(link_reply_fn *fn, void *arg)
{
    if (fn == on_call) {
        call_free(arg);
    } else {
        inspect_forget(fn, arg);
    }
}

/* A name is looked up without stopping the loop; a number needs no looking up. */
static struct evdns_base *
resolver(const struct link_address *a, struct event_base *base)
{
    if (!address_is_name(a)) {
        return NULL;
    }
    return evdns_base_new(base, EVDNS_BASE_INITIALIZE_NAMESERVERS | EVDNS_BASE_DISABLE_WHEN_INACTIVE);
}

struct node *
node_open(struct link_address *address, const struct backend_conf *conf, const struct backend_env *env)
{
    struct node *n = calloc(1, sizeof(*n));
    unsigned links = conf->links < 1 ? 1 : conf->links > LINKS_MAX ? LINKS_MAX : conf->links;
    bool ok;

    if (n == NULL) {
        address_free(address);
        return NULL;
    }
    n->address = address;
    n->conf = conf;
    n->env = env;
    n->lock_links = links;
    n->hello.env = env;
    n->hello.shown = address->shown;
    say_init(&n->say, env, address);
    probe_init(&n->probe, env, address);
    buf_init(&n->text, 0);
    for (unsigned i = 0; i < LINKS_MAX + 2; i++) {
        for (int k = 0; k < VERBS * KINDS; k++) {
            list_init(&n->batch[i][k / KINDS][k % KINDS]);
        }
    }
    n->dns = resolver(address, env->base);
    ok = down_init(&n->down, env);
    ok = presence_init(&n->presence, conf, env, address, n->say.channel) && ok; /* node_close() ends both */
    ok = ok && (n->dns != NULL || !address_is_name(address));
    for (n->links_n = 0; ok && n->links_n < links + 2; n->links_n++) {
        struct link_owner owner = {on_hello, on_state, on_message, n};

        n->link[n->links_n] = link_open(address, conf, env, n->dns, n->links_n == links + 1, owner);
        ok = n->link[n->links_n] != NULL;
        if (ok && n->links_n <= links) {
            presence_add(&n->presence, n->link[n->links_n]);
        }
    }
    /* No link says anything before we return. */
    n->watches = ok ? watches_new(env, address, sub_link(n), n->link[0]) : NULL;
    if (n->watches == NULL) {
        node_close(&n);
    }
    return n;
}

void
node_close(struct node **np)
{
    struct node *n = *np;

    if (n == NULL) {
        return;
    }
    for (unsigned i = 0; i < LINKS_MAX + 2; i++) {
        for (int k = 0; k < VERBS * KINDS; k++) {
            struct list *batch = &n->batch[i][k / KINDS][k % KINDS];

            while (!list_empty(batch)) {
                item_free(container_of(batch->next, struct item, node));
            }
        }
        link_close(&n->link[i], forget);
    }
    down_fini(&n->down);
    if (n->dns != NULL) {
        evdns_base_free(n->dns, 1);
    }
    presence_fini(&n->presence);
    watches_free(&n->watches);
    probe_fini(&n->probe);
    buf_fini(&n->text);
    address_free(n->address);
    free(n);
    *np = NULL;
}

bool
node_idle(const struct node *n)
{
    return n->batched == 0 && n->flying == 0 && down_idle(&n->down) && !presence_busy(&n->presence);
}

void
node_status(const struct node *n, struct backend_status *out)
{
    *out = (struct backend_status){
        .up = n->up, .links = n->links_n, .queued = n->batched, .watched = watches_count(n->watches)};
    snprintf(out->address, sizeof(out->address), "%s", n->address->shown);
    hello_status(&n->hello, out);
    out->offset_us = offset_guess(&n->offset);
    out->rtt_us = link_rtt_us(n->link[0]);
    out->epoch = n->presence.epoch.number;
    out->grace = n->presence.epoch.until_ms != 0;
    out->daemons = n->presence.epoch.peers_n;
    for (unsigned i = 0; i < n->links_n; i++) {
        out->links_up += link_up(n->link[i]);
        out->in_flight += link_in_flight(n->link[i]);
        if (out->last_error[0] == '\0') {
            snprintf(out->last_error, sizeof(out->last_error), "%s", link_last_error(n->link[i]));
        }
    }
}
