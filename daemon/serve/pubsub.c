/*
 * pubsub.c -- subscriptions, and the text of each event. Owns topics (a channel, or a pattern) and subscriptions.
 *
 * A subscription is on two lists, its topic's and its session's; a topic lives as long as it has a subscription.
 * pubsub_frame.c writes one event, channels.c and patterns.c bring it to many sessions.
 * PS1 A session has at most one subscription to a topic.
 * PS2 session.subscriptions is NULL iff the session has none.
 * PS3 Without any topic, an event costs one comparison.
 */
#include "daemon/serve/pubsub_private.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/memory.h"
#include "daemon/serve/commands_reply.h"
#include "daemon/serve/session_record.h"

struct pubsub *
pubsub_new(struct engine *e)
{
    struct pubsub *p = mem_zalloc(sizeof(*p));

    p->engine = e;
    list_init(&p->current);
    list_init(&p->lagging);
    list_init(&p->events);
    list_init(&p->channels);
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
    assert(p->topics[0].count == 0 && p->topics[1].count == 0 && p->subs.count == 0 && list_empty(&p->events));
    map_fini(&p->topics[0]);
    map_fini(&p->topics[1]);
    map_fini(&p->subs);
    buf_fini(&p->channel);
    buf_fini(&p->payload);
    buf_fini(&p->frame[0]);
    buf_fini(&p->frame[1]);
    free(p);
    *pp = NULL;
}

/* ---- subscriptions ---- */

static struct subscriber *
subscriber_of(const struct session *s)
{
    return s->subscriptions;
}

int
pubsub_count(const struct session *s)
{
    return s->subscriptions == NULL ? 0 : subscriber_of(s)->n;
}

static struct topic *
find_topic(const struct pubsub *p, struct slice name, bool pattern)
{
    struct map_node *n = map_find(&p->topics[pattern], hash_bytes(&p->engine->hash, name.p, name.n));

    while (n != NULL && !slice_eq(container_of(n, struct topic, by_name)->name, name)) {
        n = map_next(n);
    }
    return n != NULL ? container_of(n, struct topic, by_name) : NULL;
}

static struct topic *
add_topic(struct pubsub *p, struct slice name, bool pattern)
{
    struct topic *t = mem_alloc(sizeof(*t) + name.n);
    char *copy = (char *)(t + 1);
    size_t i;

    *t = (struct topic){.pattern = pattern, .name = {copy, name.n}};
    if (name.n > 0) {
        memcpy(copy, name.p, name.n);
    }
    for (i = 0; pattern && i < name.n; i++) {
        t->sets += name.p[i] == '[';
    }
    list_init(&t->subs);
    list_init(&t->kept);
    list_init(&t->node);
    map_add(&p->topics[pattern], &t->by_name, hash_bytes(&p->engine->hash, name.p, name.n));
    return t;
}

static void
drop_topic_if_unused(struct pubsub *p, struct topic *t)
{
    if (list_empty(&t->subs)) {
        map_remove(&p->topics[t->pattern], &t->by_name);
        p->framed = p->framed == t ? NULL : p->framed;
        channels_drop(p, t);
        free(t);
    }
}

static uint64_t
pair_of(const struct pubsub *p, const struct session *s, const struct topic *t)
{
    const void *const pair[] = {t, s};

    return hash_bytes(&p->engine->hash, pair, sizeof(pair));
}

static struct sub *
find_sub(const struct pubsub *p, const struct session *s, const struct topic *t)
{
    struct map_node *n = t != NULL && s->subscriptions != NULL ? map_find(&p->subs, pair_of(p, s, t)) : NULL;

    for (; n != NULL; n = map_next(n)) {
        struct sub *sub = container_of(n, struct sub, by_pair);

        if (sub->topic == t && sub->session == s) {
            return sub;
        }
    }
    return NULL;
}

static struct subscriber *
subscriber_get(struct session *s)
{
    struct subscriber *subscriber = subscriber_of(s);

    if (subscriber == NULL) {
        subscriber = mem_zalloc(sizeof(*subscriber));
        subscriber->session = s;
        list_init(&subscriber->list);
        list_init(&subscriber->node);
        s->subscriptions = subscriber;
    }
    return subscriber;
}

static void
drop_if_empty(struct subscriber *subscriber)
{
    if (subscriber->n == 0) {
        subscriber->session->subscriptions = NULL;
        free(subscriber);
    }
}

static void
add_sub(struct pubsub *p, struct session *s, struct topic *t)
{
    struct subscriber *subscriber = subscriber_get(s);
    struct sub *sub = mem_zalloc(sizeof(*sub));

    map_add(&p->subs, &sub->by_pair, pair_of(p, s, t));
    sub->topic = t;
    sub->session = s;
    sub->since = p->serial;
    list_push_back(&t->subs, &sub->in_topic);
    list_push_back(&subscriber->list, &sub->in_session);
    subscriber->n++;
    if (t->pattern && subscriber->patterns_n++ == 0) {
        patterns_attach(p, subscriber);
    }
}

static void
drop_sub(struct pubsub *p, struct sub *sub)
{
    struct subscriber *subscriber = subscriber_of(sub->session);
    struct topic *t = sub->topic;

    if (subscriber->at == &sub->in_session) {
        subscriber->at = sub->in_session.next;
    }
    map_remove(&p->subs, &sub->by_pair);
    channels_skip(t, &sub->in_topic);
    list_remove(&sub->in_topic);
    list_remove(&sub->in_session);
    free(sub);
    if (t->pattern && --subscriber->patterns_n == 0) {
        patterns_detach(p, subscriber);
    }
    drop_topic_if_unused(p, t);
    subscriber->n--;
    drop_if_empty(subscriber);
}

int
pubsub_subscribe(struct pubsub *p, struct session *s, struct slice channel, bool pattern)
{
    struct topic *t = find_topic(p, channel, pattern);

    if (find_sub(p, s, t) != NULL) {
        return pubsub_count(s);
    }
    if (t == NULL) {
        t = add_topic(p, channel, pattern);
    }
    add_sub(p, s, t);
    return pubsub_count(s);
}

bool
pubsub_has(const struct pubsub *p, const struct session *s, struct slice channel, bool pattern)
{
    return find_sub(p, s, find_topic(p, channel, pattern)) != NULL;
}

int
pubsub_unsubscribe(struct pubsub *p, struct session *s, struct slice channel, bool pattern)
{
    struct sub *sub = find_sub(p, s, find_topic(p, channel, pattern));

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
    /* fn may end its subscription, and with the last one the list itself goes: hence the count. */
    node = subscriber_of(s)->list.next;
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
        drop_sub(p, container_of(subscriber_of(s)->list.next, struct sub, in_session));
    }
}

/* ---- events of the core ---- */

static const char *const news_words[] = {
    [CORE_NEWS_GRANTED] = "granted",
    [CORE_NEWS_RELEASED] = "released",
    [CORE_NEWS_LOST] = "lost",
    [CORE_NEWS_WANTED] = "wanted",
    [CORE_NEWS_JEOPARDY] = "jeopardy",
};

/* All subscribers of this channel, by name or by pattern. */
static void
publish_event(struct pubsub *p, const struct core_publish *news)
{
    struct engine *e = p->engine;
    struct pubsub_event event = {.serial = ++p->serial,
                                 .channel = buf_slice(&p->channel),
                                 .payload = buf_slice(&p->payload),
                                 .grant = news->grant,
                                 .losses = e->metrics.lost,
                                 .cause = e->input_session != 0 ? e->input_session : news->session};
    struct topic *t = find_topic(p, event.channel, false);

    if (t != NULL) {
        channels_send(p, t, &event);
    }
    if (p->topics[1].count > 0) {
        patterns_send(p, &event);
    }
}

/* Written like a word of a text request: quoted if it is not plain, so that its end can be found. */
static void
add_word(struct buf *out, struct slice word)
{
    bool plain = word.n > 0;

    for (size_t i = 0; i < word.n && plain; i++) {
        unsigned char c = (unsigned char)word.p[i];

        plain = c > 0x20 && c != 0x7f && c != '"' && c != '\'';
    }
    if (plain) {
        buf_add_slice(out, word);
        return;
    }
    buf_adds(out, "\"");
    buf_add_escaped(out, word);
    buf_adds(out, "\"");
}

static void
add_owner(struct pubsub *p, const struct core_publish *news)
{
    char owner[OWNER_BYTES];

    if (news->owner_name.n > 0) {
        add_word(&p->payload, news->owner_name);
    } else {
        command_print_owner(p->engine, news->owner, owner);
        buf_adds(&p->payload, owner);
    }
}

void
pubsub_news(struct pubsub *p, const struct core_publish *news)
{
    if (p->topics[0].count + p->topics[1].count == 0) {
        return;
    }
    buf_clear(&p->payload, PUBSUB_KEEP_BYTES);
    buf_printf(&p->payload, "%s %" PRIu64 " ", news_words[news->news], news->token);
    add_owner(p, news);
    buf_clear(&p->channel, PUBSUB_KEEP_BYTES);
    buf_adds(&p->channel, "lock:");
    buf_add_slice(&p->channel, news->name);
    publish_event(p, news);

    /* The same for channels session:<id>; the name comes last, because it may hold any byte. */
    buf_adds(&p->payload, " ");
    buf_add_slice(&p->payload, news->name);
    buf_clear(&p->channel, PUBSUB_KEEP_BYTES);
    buf_printf(&p->channel, "session:%" PRIu64, news->session);
    publish_event(p, news);
}

void
pubsub_turn(struct pubsub *p)
{
    channels_turn(p);
    patterns_turn(p);
}

bool
pubsub_lags(const struct pubsub *p)
{
    return !list_empty(&p->lagging) || !list_empty(&p->channels);
}
