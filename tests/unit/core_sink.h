/*
 * core_sink.h -- keeps the actions of a core for a test: operations, answers, news, checkpoints; see core_world.h.
 */
#ifndef RLOCKD_TESTS_CORE_SINK_H
#define RLOCKD_TESTS_CORE_SINK_H

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/core/view.h"

#define MS(n) ((n)*US_PER_MS)
#define SEC(n) ((n)*US_PER_S)
#define REPORTED_30S (SEC(30) - MS(300) - MS(2)) /* the part of the watchdog's 30 s that is reported */

enum { WORLD_SESSIONS = 12000, WORLD_TEXT = 24 };

/* An operation in flight, or a (UN)WATCH. */
struct flight {
    enum core_action_type verb;
    struct core_op op;
    char key[WORLD_TEXT];
    size_t index;  /* of world.flights */
    int64_t at_us;
    bool seen;     /* the test has asked for it */
    bool answered; /* or needs no answer */
};

/* One name of an MLOCK, or one link of a cycle: its reply or hop, with texts of their own. */
struct detail {
    struct core_reply part;
    struct core_hop hop;
    char name[WORLD_TEXT], daemon[WORLD_TEXT], owner[WORLD_TEXT];
};

struct answer {
    struct core_reply reply; /* part and hop are NULL, see part() and hop() */
    char name[WORLD_TEXT], other[WORLD_TEXT];
    struct detail *detail;   /* reply.parts + reply.hops of them */
    bool seen;
};

/* A broadcast to all daemons. */
struct broadcast_copy {
    char *p;
    size_t n;
};

struct news {
    struct core_publish publish;
    char name[WORLD_TEXT], owner_name[WORLD_TEXT];
    bool seen;
};

/* The checkpoint of a claim for the next process. */
struct claim_checkpoint {
    struct core_checkpoint cp;
    char name[WORLD_TEXT], key[WORLD_TEXT], owner[WORLD_TEXT];
};

/* A named owner that no session uses. */
struct owner_checkpoint {
    struct core_owner_checkpoint cp;
    char name[WORLD_TEXT];
};

/* A waiter poll. */
struct polled {
    uint64_t op;
    size_t n;
    char key[CORE_WAITER_POLL_MAX][WORLD_TEXT];
    int64_t at_us;
};

struct world {
    struct core *core;
    struct metrics metrics;
    struct core_conf conf;
    int64_t now_us;
    uint64_t request, token; /* the last ones */
    struct flight *flights;
    struct answer *answers;
    struct news *news;
    struct broadcast_copy *broadcasts;
    struct claim_checkpoint *checkpoints;
    size_t checkpoints_n, checkpoints_room;
    struct owner_checkpoint *owner_checkpoints;
    size_t owner_checkpoints_n, owner_checkpoints_room;
    size_t flights_n, answers_n, news_n, broadcasts_n, flights_room, answers_room, news_room, broadcasts_room;
    size_t flights_seen, answers_seen; /* all before are seen */
    struct flight *watch;              /* the WATCH of each key that is watched, in any order */
    size_t watches_n, watches_room;
    struct polled waiter_poll;               /* the last one */
    unsigned polls_n;                 /* how many there were */
    uint64_t reclaimed;                /* epoch of the last RECLAIMED */
    uint16_t reclaimed_domain;         /* ... and its domain */
    unsigned reclaimed_n;              /* how many there were */
    uint64_t session[WORLD_SESSIONS];  /* open ones, in any order */
    size_t sessions_n;
    bool one_turn;  /* all events come before core_end_turn(); else each event is a turn of its own */
    bool in_order;  /* actions keep the order of the core; see core_disorder.h */
    bool unchecked; /* for large worlds: core_check() only at the end */
};

static inline void *
world_room(void *p, size_t n, size_t *room, size_t size)
{
    if (n < *room) {
        return p;
    }
    *room = *room == 0 ? 64 : *room * 2;
    p = realloc(p, *room * size);
    ck_assert_ptr_nonnull(p);
    return p;
}

static inline void
world_text(char out[WORLD_TEXT], struct slice s)
{
    ck_assert_uint_lt(s.n, WORLD_TEXT);
    if (s.n > 0) {
        memcpy(out, s.p, s.n);
    }
    out[s.n] = '\0';
}

static inline void
world_details(struct answer *r)
{
    const struct core_reply *rp = &r->reply;

    r->detail = rp->parts + rp->hops > 0 ? calloc(rp->parts + rp->hops, sizeof(*r->detail)) : NULL;
    for (size_t i = 0; i < rp->parts; i++) {
        r->detail[i].part = rp->part[i];
        world_text(r->detail[i].name, rp->part[i].name);
    }
    for (size_t i = 0; i < rp->hops; i++) {
        struct detail *d = &r->detail[rp->parts + i];

        d->hop = rp->hop[i];
        world_text(d->name, rp->hop[i].name);
        world_text(d->daemon, rp->hop[i].daemon);
        world_text(d->owner, rp->hop[i].owner_name);
    }
    r->reply.part = NULL;
    r->reply.hop = NULL;
}

/* The checkpoint of the claim; the entry behind the last if there is none. */
static inline struct claim_checkpoint *
world_checkpoint(const struct world *w, uint64_t claim)
{
    size_t i = 0;

    while (i < w->checkpoints_n && w->checkpoints[i].cp.part.claim != claim) {
        i++;
    }
    return &w->checkpoints[i];
}

static inline void
world_store(struct world *w, const struct core_checkpoint *k)
{
    struct claim_checkpoint *r, now;
    bool is_new;

    world_text(now.name, k->name);
    world_text(now.key, k->key);
    world_text(now.owner, k->owner);
    w->checkpoints = world_room(w->checkpoints, w->checkpoints_n, &w->checkpoints_room, sizeof(*w->checkpoints));
    r = world_checkpoint(w, k->part.claim);
    is_new = r == &w->checkpoints[w->checkpoints_n];
    w->checkpoints_n += is_new;
    ck_assert_msg(is_new || !k->part.named || strcmp(r->owner, now.owner) == 0,
                  "the texts of a checkpoint never change: \"%s\" was \"%s\"", now.owner, r->owner);
    now.cp = *k;
    *r = now;
}

static inline void
world_drop(struct world *w, uint64_t claim)
{
    struct claim_checkpoint *r = world_checkpoint(w, claim);

    ck_assert_msg(r != &w->checkpoints[w->checkpoints_n], "claim %d is dropped, and was not stored", (int)claim);
    *r = w->checkpoints[--w->checkpoints_n];
}

static inline struct owner_checkpoint *
world_owner_checkpoint(const struct world *w, uint64_t id)
{
    size_t i = 0;

    while (i < w->owner_checkpoints_n && w->owner_checkpoints[i].cp.id != id) {
        i++;
    }
    return &w->owner_checkpoints[i];
}

static inline void
world_store_owner(struct world *w, const struct core_owner_checkpoint *k)
{
    struct owner_checkpoint *r;

    w->owner_checkpoints = world_room(w->owner_checkpoints, w->owner_checkpoints_n, &w->owner_checkpoints_room,
                                      sizeof(*w->owner_checkpoints));
    r = world_owner_checkpoint(w, k->id);
    ck_assert_msg(r == &w->owner_checkpoints[w->owner_checkpoints_n] && k->owner_grace_until_us > 0,
                  "an owner is stored once");
    w->owner_checkpoints_n++;
    r->cp = *k;
    world_text(r->name, k->name);
}

static inline void
world_drop_owner(struct world *w, uint64_t id)
{
    struct owner_checkpoint *r = world_owner_checkpoint(w, id);

    ck_assert_msg(r != &w->owner_checkpoints[w->owner_checkpoints_n], "owner %d is dropped, and was not stored",
                  (int)id);
    *r = w->owner_checkpoints[--w->owner_checkpoints_n];
}

static inline bool
is_watch(enum core_action_type verb)
{
    return verb == CORE_WATCH || verb == CORE_UNWATCH;
}

/* The WATCH of the key that is in force; the entry behind the last if there is none. */
static inline struct flight *
world_watch(const struct world *w, const char *key)
{
    size_t i = 0;

    while (i < w->watches_n && strcmp(w->watch[i].key, key) != 0) {
        i++;
    }
    return &w->watch[i];
}

static inline void
world_note_watch(struct world *w, const struct flight *f)
{
    struct flight *now;

    w->watch = world_room(w->watch, w->watches_n, &w->watches_room, sizeof(*w->watch));
    now = world_watch(w, f->key);
    ck_assert_msg((now == &w->watch[w->watches_n]) == (f->verb == CORE_WATCH),
                  "%s is watched twice, or was not watched", f->key);
    *now = f->verb == CORE_WATCH ? *f : w->watch[w->watches_n - 1];
    w->watches_n += f->verb == CORE_WATCH ? 1 : (size_t)-1;
}

static inline void
world_sink(void *ctx, const struct core_action *a)
{
    struct world *w = ctx;
    struct flight *f;
    struct answer *r;
    struct broadcast_copy *s;
    struct news *n;

    switch (a->type) {
    case CORE_REPLY:
        w->answers = world_room(w->answers, w->answers_n, &w->answers_room, sizeof(*w->answers));
        r = &w->answers[w->answers_n++];
        *r = (struct answer){.reply = a->reply};
        world_text(r->name, a->reply.name);
        world_text(r->other, a->reply.other);
        world_details(r);
        break;
    case CORE_BROADCAST:
        w->broadcasts = world_room(w->broadcasts, w->broadcasts_n, &w->broadcasts_room, sizeof(*w->broadcasts));
        s = &w->broadcasts[w->broadcasts_n++];
        *s = (struct broadcast_copy){malloc(a->broadcast.n), a->broadcast.n};
        ck_assert_ptr_nonnull(s->p);
        memcpy(s->p, a->broadcast.p, a->broadcast.n);
        break;
    case CORE_WAITER_POLL:
        ck_assert_uint_ge(a->waiter_poll.n, 1);
        ck_assert_uint_le(a->waiter_poll.n, CORE_WAITER_POLL_MAX);
        w->waiter_poll = (struct polled){.op = a->waiter_poll.op, .n = a->waiter_poll.n, .at_us = w->now_us};
        for (size_t i = 0; i < a->waiter_poll.n; i++) {
            world_text(w->waiter_poll.key[i], a->waiter_poll.name[i].key);
        }
        w->polls_n++;
        break;
    case CORE_RECLAIMED:
        w->reclaimed = a->epoch;
        w->reclaimed_domain = a->domain;
        w->reclaimed_n++;
        break;
    case CORE_PUBLISH:
        w->news = world_room(w->news, w->news_n, &w->news_room, sizeof(*w->news));
        n = &w->news[w->news_n++];
        *n = (struct news){.publish = a->publish};
        world_text(n->name, a->publish.name);
        world_text(n->owner_name, a->publish.owner_name);
        break;
    case CORE_STORE:
        world_store(w, &a->store);
        break;
    case CORE_DROP:
        world_drop(w, a->drop);
        break;
    case CORE_STORE_OWNER:
        world_store_owner(w, &a->store_owner);
        break;
    case CORE_DROP_OWNER:
        world_drop_owner(w, a->drop);
        break;
    default:
        w->flights = world_room(w->flights, w->flights_n, &w->flights_room, sizeof(*w->flights));
        f = &w->flights[w->flights_n];
        *f = (struct flight){.verb = a->type, .op = a->op, .index = w->flights_n, .at_us = w->now_us};
        f->answered = is_watch(a->type);
        ck_assert_msg(!w->conf.stores_checkpoints || a->type > CORE_RELEASE ||
                          world_checkpoint(w, a->op.claim) != &w->checkpoints[w->checkpoints_n],
                      "operation %d on a claim that is not stored", (int)a->type);
        world_text(f->key, a->op.key);
        if (is_watch(a->type)) {
            world_note_watch(w, f);
        }
        w->flights_n++;
        break;
    }
}

#endif
