/*
 * anchors.c -- sends the questions and registrations of generations.h, and posts its news in a later turn of the loop.
 *
 * An anchor or a node has one message in flight at most, and a struct flight of its own; a script for a slot's record
 * takes a free one. So only greetings are allocated. Scripts go as EVALSHA to nodes that have run their text.
 */
#include "daemon/backend/anchors.h"

#include <event2/event.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/backend/call.h"
#include "daemon/backend/generation_sends.h"
#include "daemon/backend/sha1.h"
#include "daemon/backend/slot.h"
#include "daemon/backend/text.h"
#include "daemon/base/clock.h"
#include "daemon/base/memory.h"

enum { SENDS_MAX = 256 };

#define UNSENT_US (50 * US_PER_MS) /* until a message that found no link is sent again, unless one comes up before */
#define QUIET_US (60 * US_PER_S)

enum pending { PENDING_NEW = 1, PENDING_OVER = 2, PENDING_ASK_AGAIN = 4 };

/* A message in flight. */
struct flight {
    struct anchors *of;
    struct generation_send send;
    uint16_t node; /* the receiver; GENERATION_NODES_MAX: none is known, and the message ends at once */
    bool busy;
    bool leaves;   /* the message is a registration by which this daemon leaves the members */
};

/* The question to a node whose link is greeting. */
struct greeting {
    struct anchors *of;
    struct redis_link *link; /* outlives the answer */
    uint16_t node;
};

struct anchors {
    const struct backend_env *env; /* borrowed */
    struct anchors_io io;
    struct generations *generations;
    struct event *timer;
    struct buf text; /* scratch */
    char sha[SEND_RECORD + 1][41];
    uint8_t has_script[GENERATION_NODES_MAX]; /* scripts that the node has, a bit for each type */
    struct flight anchor[ANCHORS], node[GENERATION_NODES_MAX], record[GENERATION_RECORDS_MAX];
    uint8_t pending[SLOTS]; /* for each slot the news that is not posted yet */
    uint16_t news_slot[SLOTS]; /* the slots with pending news; news_n of them */
    unsigned news_n;
    bool bound_moved;
    uint64_t begun; /* the number of a generation that this daemon has begun, if that is not posted yet */
    bool leaving;
    bool duplicate; /* the last answer of an anchor was that another daemon has the uuid */
    int64_t quiet_until_us; /* no refusal is logged before */
    bool left[ANCHORS]; /* the leaving registration at the anchor has ended, with an answer or without */
    bool woken; /* the timer is due at once */
    bool unsent; /* in this turn of the timer a message found no link */
};

struct generations *
anchors_generations(struct anchors *a)
{
    return a->generations;
}

/* ---- news ---- */

static void
on_news(void *ctx, enum generation_news news, uint16_t slot, uint64_t number)
{
    static const uint8_t bit[] = {PENDING_NEW, PENDING_OVER, PENDING_ASK_AGAIN};
    struct anchors *a = ctx;

    if (news == GENERATION_BOUND) {
        a->bound_moved = true;
    } else if (news == GENERATION_BEGUN) {
        a->begun = number; /* of several the last is enough: a daemon that registers because of it gets all of them */
    } else { /* post_news() reads the number anew: it may have changed by then */
        if (a->pending[slot] == 0) {
            a->news_slot[a->news_n++] = slot;
        }
        a->pending[slot] |= bit[news];
    }
    anchors_wake(a);
}

/* Posts the news of each slot: NEW, OVER, ASK_AGAIN. News that arrives meanwhile waits for the next turn. */
static void
post_news(struct anchors *a)
{
    unsigned n = a->news_n;

    for (unsigned i = 0; i < n; i++) {
        uint16_t slot = a->news_slot[i];
        uint8_t what = a->pending[slot];
        uint64_t number = generations_number(a->generations, slot);

        a->pending[slot] = 0;
        if (what & PENDING_NEW) {
            a->io.on_news(a->io.ctx, GENERATION_NEW, slot, number);
        }
        if (what & PENDING_OVER) {
            a->io.on_news(a->io.ctx, GENERATION_OVER, slot, number);
        }
        if (what & PENDING_ASK_AGAIN) {
            a->io.on_news(a->io.ctx, GENERATION_ASK_AGAIN, slot, number);
        }
    }
    memmove(a->news_slot, a->news_slot + n, (a->news_n - n) * sizeof(a->news_slot[0]));
    a->news_n -= n;
    if (a->bound_moved) {
        a->bound_moved = false;
        a->io.on_news(a->io.ctx, GENERATION_BOUND, 0, 0);
    }
    if (a->begun != 0) {
        a->io.on_news(a->io.ctx, GENERATION_BEGUN, 0, a->begun);
        a->begun = 0;
    }
}

/* ---- answers ---- */

/* Logs one refusal a minute at most: a node that refuses does so on each new link, also while other nodes answer. */
static void
log_error(struct anchors *a, const char *what, const struct reply *r)
{
    char text[TEXT_ERROR_ROOM];

    if (clock_now_us() >= a->quiet_until_us && r->type == REPLY_ERROR && !call_is_noscript(r)) {
        log_event(a->env->log, LOG_WARN, "redis", what, "reason", LOG_S(text_error(text, r->text, a->io.login)), NULL);
        a->quiet_until_us = clock_now_us() + QUIET_US;
    }
}

static void
anchor_answered(struct anchors *a, const struct flight *f, const struct reply *r, int64_t sent_us)
{
    struct anchor_answer answer;
    bool ok = r != NULL && anchor_answer_take(r, &answer);

    generations_anchor_answered(a->generations, f->send.anchor, ok ? &answer : NULL, sent_us, clock_now_us());
    if (ok && answer.status == ANCHOR_DUPLICATE_UUID && !a->duplicate) {
        log_event(a->env->log, LOG_ERROR, "redis", "duplicate uuid", "reason", LOG_S("another daemon has our uuid"),
                  "uuid", LOG_S(a->env->uuid), NULL);
    }
    if (ok) {
        a->duplicate = answer.status == ANCHOR_DUPLICATE_UUID;
        anchor_answer_free(&answer);
    } else if (r != NULL) {
        log_error(a, "cannot register", r);
    }
}

/* A planned failover or a moved slot ends no connection; the answers of nodes show it, and the map is requested. */
static void
request_map_if_moved(struct anchors *a, const struct reply *r, bool is_same_master)
{
    if (!is_same_master || (r != NULL && r->type == REPLY_ERROR && call_is_redirected(r->text))) {
        a->io.map_outdated(a->io.ctx);
    }
}

static bool
node_answered(struct anchors *a, uint16_t node, const struct reply *r, int64_t sent_us)
{
    struct node_answer answer;
    bool ok = r != NULL && node_answer_take(r, &answer), is_same_master;

    if (!ok && r != NULL) {
        log_error(a, "cannot ask for origins", r);
    }
    is_same_master = generations_node_answered(a->generations, node, ok ? &answer : NULL, sent_us, clock_now_us());
    request_map_if_moved(a, r, is_same_master && !generations_slots_moved(a->generations));
    if (ok) {
        node_answer_free(&answer);
    }
    return ok && is_same_master;
}

static void perform(struct anchors *a, const struct generation_send *s);

/* r NULL: the message has no answer. */
static void
end_flight(struct flight *f, const struct reply *r, int64_t sent_us)
{
    struct anchors *a = f->of;
    const struct generation_send send = f->send;
    struct record_answer record;

    f->busy = false;
    if (r != NULL) {
        uint8_t bit = (uint8_t)(1u << f->send.type);

        a->has_script[f->node] =
            (uint8_t)(call_is_noscript(r) ? a->has_script[f->node] & ~bit : a->has_script[f->node] | bit);
        if (call_is_noscript(r)) { /* the node lacks the script: sends the text */
            perform(a, &send);
            return;
        }
        request_map_if_moved(a, r, true);
        if (f->send.type == SEND_RECORD && r->type == REPLY_ERROR && !call_is_redirected(r->text)) {
            log_error(a, "cannot keep the record of a slot", r);
        }
    }
    switch (f->send.type) {
    case SEND_REGISTER:
        a->left[f->send.anchor] = a->left[f->send.anchor] || f->leaves;
        anchor_answered(a, f, r, sent_us);
        break;
    case SEND_NODE:
        (void)node_answered(a, f->send.node, r, sent_us);
        break;
    case SEND_RECORD:
        generations_record_answered(a->generations, &f->send,
                                    r != NULL && record_answer_take(r, &record) ? &record : NULL);
        break;
    case SEND_NOTHING:
        break;
    }
}

static void
on_reply(void *arg, enum link_result result, const struct reply *r, int64_t sent_us)
{
    struct flight *f = arg;

    end_flight(f, result == LINK_ANSWERED ? r : NULL, sent_us);
    anchors_wake(f->of);
}

/* ---- messages ---- */

static struct flight *
flight_of(struct anchors *a, const struct generation_send *s)
{
    struct flight *f = a->record;

    if (s->type == SEND_REGISTER) {
        return &a->anchor[s->anchor];
    } else if (s->type == SEND_NODE) {
        return &a->node[s->node];
    }
    while (f->busy) { /* one is free: generations_next() keeps GENERATION_RECORDS_MAX in flight */
        f++;
    }
    return f;
}

static void
perform(struct anchors *a, const struct generation_send *s)
{
    struct flight *f = flight_of(a, s);
    struct slice word[ANCHOR_WORDS_MAX];
    char key[RECORD_KEY_ROOM];
    uint16_t node = s->type == SEND_REGISTER ? a->io.owner(a->io.ctx, anchor_slot(s->anchor)) : s->node;
    int words;

    *f = (struct flight){.of = a, .send = *s, .node = node, .busy = true, .leaves = a->leaving};
    if (s->type == SEND_REGISTER) {
        words = anchor_words(s->anchor, generations_identity(a->generations),
                             generations_message(a->generations, s->anchor, node), &a->text, word);
    } else if (s->type == SEND_NODE) {
        words = node_words(word);
    } else {
        record_key(a->io.tag(a->io.ctx, s->slot), key);
        words = record_words(slice_of(key), s->number, s->mode, &a->text, word);
    }
    if (node < GENERATION_NODES_MAX && (a->has_script[node] & 1u << s->type) != 0) {
        word[0] = SLICE_LIT("EVALSHA");
        word[1] = slice_of(a->sha[s->type]);
    }
    if (node >= GENERATION_NODES_MAX || !a->io.send(a->io.ctx, node, words, word, on_reply, f)) {
        end_flight(f, NULL, clock_now_us());
        a->unsent = true;
    }
}

static void
on_timer(evutil_socket_t fd, short what, void *ctx)
{
    struct anchors *a = ctx;
    struct generation_send s;
    int64_t now_us = clock_now_us(), due_us;

    (void)fd;
    (void)what;
    a->woken = a->unsent = false;
    generations_next(a->generations, now_us, &s);
    for (unsigned i = 0; s.type != SEND_NOTHING; i++) {
        perform(a, &s);
        if (i == SENDS_MAX) { /* generations_next() returns a record whose node has no link again and again */
            break;
        }
        generations_next(a->generations, now_us, &s);
    }
    post_news(a);
    due_us = generations_due_us(a->generations) - clock_now_us();
    due_us = due_us < US_PER_MS ? US_PER_MS : due_us > US_PER_S ? US_PER_S : due_us;
    due_us = a->unsent && due_us > UNSENT_US ? UNSENT_US : due_us;
    if (!a->woken) { /* else the timer is due at once */
        event_add(a->timer, &(struct timeval){due_us / US_PER_S, due_us % US_PER_S});
    }
}

void
anchors_wake(struct anchors *a)
{
    a->woken = true;
    event_add(a->timer, &(struct timeval){0, 0});
}

/* ---- greetings ---- */

static void
on_greeted(void *arg, enum link_result result, const struct reply *r, int64_t sent_us)
{
    struct greeting *g = arg;
    bool noscript = result == LINK_ANSWERED && call_is_noscript(r);

    if (result == LINK_ANSWERED && !noscript && !node_answered(g->of, g->node, r, sent_us)) {
        if (r->type == REPLY_ERROR) {
            link_fail_refused(g->link, r->text);
        } else {
            link_fail(g->link, ANCHORS_NO_MASTER);
        }
    }
    anchors_wake(g->of);
    free(g);
}

bool
anchors_forget(link_reply_fn *fn, void *arg)
{
    if (fn != on_greeted) {
        return false;
    }
    free(arg);
    return true;
}

void
anchors_greet(struct anchors *a, uint16_t node, struct redis_link *l)
{
    struct greeting *g = mem_alloc(sizeof(*g));
    struct slice word[3];

    *g = (struct greeting){a, l, node};
    generations_node_lost(a->generations, node, clock_now_us());
    if (!link_send(l, node_words(word), word, on_greeted, g)) {
        free(g);
    }
}

void
anchors_reached(struct anchors *a)
{
    generations_reached(a->generations);
    anchors_wake(a);
}

void
anchors_closed(struct anchors *a, uint16_t node)
{
    for (unsigned i = 0; i < ANCHORS; i++) {
        if (a->anchor[i].busy && a->anchor[i].node == node) {
            end_flight(&a->anchor[i], NULL, clock_now_us());
        }
    }
    for (unsigned i = 0; i < GENERATION_RECORDS_MAX; i++) {
        if (a->record[i].busy && a->record[i].node == node) {
            end_flight(&a->record[i], NULL, clock_now_us());
        }
    }
    if (a->node[node].busy) {
        end_flight(&a->node[node], NULL, clock_now_us());
    }
    anchors_wake(a);
    generations_node_lost(a->generations, node, clock_now_us());
}

/* ---- begin and end ---- */

struct anchors *
anchors_new(const struct backend_conf *conf, const struct backend_env *env, const struct anchors_io *io)
{
    static const enum other_script script[] = {
        [SEND_REGISTER] = OTHER_ANCHOR, [SEND_NODE] = OTHER_NODE, [SEND_RECORD] = OTHER_RECORD};
    struct anchor_identity identity = {.nonce = env->nonce, .lease_us = conf->longest_lease_us, .strict = conf->strict};
    struct anchors *a = mem_zalloc(sizeof(*a));

    a->env = env;
    a->io = *io;
    memcpy(identity.uuid, env->uuid, sizeof(identity.uuid));
    memcpy(identity.former_nonce, env->former_nonce, sizeof(identity.former_nonce));
    a->generations = generations_new(&identity, env->nonce, on_news, a);
    buf_init(&a->text, 0);
    for (unsigned i = SEND_REGISTER; i <= SEND_RECORD; i++) {
        sha1_hex(slice_of(call_other_text(script[i])), a->sha[i]);
    }
    a->timer = event_new(env->base, -1, 0, on_timer, a);
    anchors_wake(a);
    return a;
}

void
anchors_free(struct anchors **ap)
{
    struct anchors *a = *ap;

    if (a == NULL) {
        return;
    }
    event_free(a->timer);
    generations_free(&a->generations);
    buf_fini(&a->text);
    free(a);
    *ap = NULL;
}

void
anchors_leave(struct anchors *a)
{
    a->leaving = true;
    generations_leave(a->generations);
    anchors_wake(a);
}

bool
anchors_busy(const struct anchors *a)
{
    return a->leaving && !(a->left[0] && a->left[1] && a->left[2]);
}
