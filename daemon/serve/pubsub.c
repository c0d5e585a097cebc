/*
 * pubsub.c -- who hears what.
 *
 * Owns topics (a channel, or a pattern) and subscriptions. A subscription
 * hangs on two lists, its topic's and its session's; a topic lives as long as
 * it has a subscription. Talks to no socket: frames go to session_push().
 *
 * I1  A session has at most one subscription to a topic.
 * I2  session.subscriptions is NULL iff the session has none.
 * I3  With no topic at all, news costs two comparisons.
 */
#include "daemon/serve/pubsub.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/glob.h"
#include "daemon/serve/commands_private.h"

#define FRAME_KEEP_BYTES 4096

struct topic {
    UT_hash_handle hh;
    bool pattern;
    struct list subs; /* sub.in_topic */
    struct slice name; /* points behind this struct */
};

struct sub {
    struct list in_topic, in_session;
    struct topic *topic;     /* borrowed */
    struct session *session; /* borrowed */
};

/* What session.subscriptions points at. */
struct subs {
    struct list list; /* sub.in_session, oldest first */
    int n;
};

struct pubsub {
    struct engine *engine;   /* borrowed */
    struct topic *topics[2]; /* uthash; [0] channels, [1] patterns; owned */
    struct buf channel, payload, frame[2]; /* scratch; frame per RESP version */
};

struct pubsub *
pubsub_new(struct engine *e)
{
    struct pubsub *p = calloc(1, sizeof(*p));

    if (p != NULL) {
        p->engine = e;
    }
    return p;
}

void
pubsub_free(struct pubsub **pp)
{
    struct pubsub *p = *pp;

    if (p == NULL) {
        return;
    }
    /* Sessions go first, and take their subscriptions with them. */
    assert(p->topics[0] == NULL && p->topics[1] == NULL);
    buf_fini(&p->channel);
    buf_fini(&p->payload);
    buf_fini(&p->frame[0]);
    buf_fini(&p->frame[1]);
    free(p);
    *pp = NULL;
}

/* ---- subscriptions ---- */

static struct subs *
subs_of(const struct session *s)
{
    return s->subscriptions;
}

int
pubsub_count(const struct session *s)
{
    return s->subscriptions == NULL ? 0 : subs_of(s)->n;
}

static struct topic *
find_topic(const struct pubsub *p, struct slice name, bool pattern)
{
    struct topic *t = NULL;
    unsigned hash = hash_name(&p->engine->hash, name.p, name.n);

    HASH_FIND_BYHASHVALUE(hh, p->topics[pattern], name.p, name.n, hash, t);
    return t;
}

/* NULL when out of memory. */
static struct topic *
add_topic(struct pubsub *p, struct slice name, bool pattern)
{
    struct topic *t = malloc(sizeof(*t) + name.n);
    char *copy = (char *)(t + 1);

    if (t == NULL) {
        return NULL;
    }
    memset(t, 0, sizeof(*t));
    if (name.n > 0) {
        memcpy(copy, name.p, name.n);
    }
    t->name = (struct slice){copy, name.n};
    t->pattern = pattern;
    list_init(&t->subs);
    HASH_ADD_KEYPTR_BYHASHVALUE(hh, p->topics[pattern], t->name.p, t->name.n,
                                hash_name(&p->engine->hash, name.p, name.n), t);
    if (t->hh.tbl == NULL) {
        free(t);
        return NULL;
    }
    return t;
}

static void
drop_topic_if_unheard(struct pubsub *p, struct topic *t)
{
    if (list_empty(&t->subs)) {
        HASH_DEL(p->topics[t->pattern], t);
        free(t);
    }
}

static struct sub *
find_sub(const struct session *s, const struct topic *t)
{
    struct list *node, *next;

    if (s->subscriptions == NULL || t == NULL) {
        return NULL;
    }
    list_each(node, next, &subs_of(s)->list) {
        struct sub *sub = container_of(node, struct sub, in_session);

        if (sub->topic == t) {
            return sub;
        }
    }
    return NULL;
}

/* False when out of memory. */
static bool
add_sub(struct session *s, struct topic *t)
{
    struct subs *subs = subs_of(s);
    struct sub *sub = malloc(sizeof(*sub));

    if (sub == NULL) {
        return false;
    }
    if (subs == NULL) {
        subs = malloc(sizeof(*subs));
        if (subs == NULL) {
            free(sub);
            return false;
        }
        list_init(&subs->list);
        subs->n = 0;
        s->subscriptions = subs;
    }
    *sub = (struct sub){.topic = t, .session = s};
    list_push_back(&t->subs, &sub->in_topic);
    list_push_back(&subs->list, &sub->in_session);
    subs->n++;
    return true;
}

static void
drop_sub(struct pubsub *p, struct sub *sub)
{
    struct session *s = sub->session;
    struct topic *t = sub->topic;

    list_remove(&sub->in_topic);
    list_remove(&sub->in_session);
    free(sub);
    drop_topic_if_unheard(p, t);
    if (--subs_of(s)->n == 0) {
        free(s->subscriptions);
        s->subscriptions = NULL;
    }
}

int
pubsub_subscribe(struct pubsub *p, struct session *s, struct slice channel, bool pattern)
{
    struct topic *t = find_topic(p, channel, pattern);

    if (find_sub(s, t) != NULL) {
        return pubsub_count(s);
    }
    if (t == NULL) {
        t = add_topic(p, channel, pattern);
    }
    if (t == NULL) {
        return -1;
    }
    if (!add_sub(s, t)) {
        drop_topic_if_unheard(p, t);
        return -1;
    }
    return pubsub_count(s);
}

int
pubsub_unsubscribe(struct pubsub *p, struct session *s, struct slice channel, bool pattern)
{
    struct sub *sub = find_sub(s, find_topic(p, channel, pattern));

    if (sub != NULL) {
        drop_sub(p, sub);
    }
    return pubsub_count(s);
}

void
pubsub_each(const struct session *s, bool pattern, void (*fn)(void *ctx, struct slice channel), void *ctx)
{
    struct list *node, *next;
    int left = pubsub_count(s);

    if (left == 0) {
        return;
    }
    /* fn may end the subscription it is told about, and with the last one the list itself goes: hence the count. */
    node = subs_of(s)->list.next;
    for (; left > 0; left--, node = next) {
        const struct topic *t = container_of(node, struct sub, in_session)->topic;

        next = node->next;
        if (t->pattern == pattern) {
            fn(ctx, t->name);
        }
    }
}

void
pubsub_drop(struct pubsub *p, struct session *s)
{
    while (s->subscriptions != NULL) {
        drop_sub(p, container_of(subs_of(s)->list.next, struct sub, in_session));
    }
}

/* ---- news ---- */

static const char *const news_words[] = {
    [CORE_NEWS_GRANTED] = "granted",
    [CORE_NEWS_RELEASED] = "released",
    [CORE_NEWS_LOST] = "lost",
    [CORE_NEWS_WANTED] = "wanted",
    [CORE_NEWS_JEOPARDY] = "jeopardy",
};

/* The frame in one RESP version; made once however many hear it. */
static struct slice
frame(struct pubsub *p, const struct topic *t, int proto)
{
    struct buf *b = &p->frame[proto == 3];
    struct writer w = {.out = b, .proto = proto};

    if (b->n > 0) {
        return buf_slice(b);
    }
    writer_push(&w, t->pattern ? 4 : 3);
    writer_text(&w, t->pattern ? "pmessage" : "message");
    if (t->pattern) {
        writer_bulk(&w, t->name);
    }
    writer_bulk(&w, buf_slice(&p->channel));
    writer_bulk(&w, buf_slice(&p->payload));
    return buf_slice(b);
}

static void
tell_topic(struct pubsub *p, const struct topic *t)
{
    struct list *node, *next;

    buf_clear(&p->frame[0], FRAME_KEEP_BYTES);
    buf_clear(&p->frame[1], FRAME_KEEP_BYTES);
    list_each(node, next, &t->subs) {
        struct session *s = container_of(node, struct sub, in_topic)->session;
        struct slice bytes = frame(p, t, s->proto);

        /* A frame that could not be made whole is not sent: half of one would break the connection. */
        if (!p->frame[s->proto == 3].failed) {
            session_push(s, bytes);
        }
    }
}

/* Everybody who hears this channel, by name or by pattern. */
static void
tell_channel(struct pubsub *p)
{
    const struct topic *t = find_topic(p, buf_slice(&p->channel), false);

    if (p->channel.failed || p->payload.failed) {
        return;
    }
    if (t != NULL) {
        tell_topic(p, t);
    }
    for (t = p->topics[1]; t != NULL; t = t->hh.next) {
        if (glob_match(t->name, buf_slice(&p->channel))) {
            tell_topic(p, t);
        }
    }
}

static void
add_owner(struct pubsub *p, const struct core_publish *news)
{
    char owner[OWNER_BYTES];

    if (news->owner_name.n > 0) {
        buf_add_slice(&p->payload, news->owner_name);
    } else {
        owner_print(p->engine, news->owner, owner);
        buf_adds(&p->payload, owner);
    }
}

void
pubsub_news(struct pubsub *p, const struct core_publish *news)
{
    if (p->topics[0] == NULL && p->topics[1] == NULL) {
        return;
    }
    buf_clear(&p->payload, FRAME_KEEP_BYTES);
    buf_printf(&p->payload, "%s %" PRIu64 " ", news_words[news->news], news->token);
    add_owner(p, news);
    buf_clear(&p->channel, FRAME_KEEP_BYTES);
    buf_adds(&p->channel, "lock:");
    buf_add_slice(&p->channel, news->name);
    tell_channel(p);

    /* The same for those who follow one session; the name comes last, because it may hold any byte. */
    buf_adds(&p->payload, " ");
    buf_add_slice(&p->payload, news->name);
    buf_clear(&p->channel, FRAME_KEEP_BYTES);
    buf_printf(&p->channel, "session:%" PRIu64, news->session);
    tell_channel(p);
}
