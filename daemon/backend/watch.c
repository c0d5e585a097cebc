/*
 * watch.c -- one subscription per channel, however many locks listen to it.
 *
 * I1  A channel is in the table iff at least one lock listens to it.
 * I2  A lock hears WATCHING after each confirmation, so also after every reconnect; before it a message may be missed.
 */
#include "daemon/backend/watch.h"

#include <stdlib.h>

#include "daemon/backend/call.h"
#include "daemon/base/hash.h"

struct listener_lock {
    struct list node; /* channel.locks */
    uint64_t lock;
};

struct channel {
    char *name; /* owned */
    size_t name_n;
    struct list locks;
    UT_hash_handle hh;
};

struct watches {
    const struct backend_env *env;
    struct channel *channels;
};

struct watches *
watches_new(const struct backend_env *env)
{
    struct watches *w = calloc(1, sizeof(*w));

    if (w != NULL) {
        w->env = env;
    }
    return w;
}

static struct channel *
find(struct watches *w, struct slice name)
{
    struct channel *ch = NULL;
    unsigned hash = hash_name(&w->env->secret, name.p, name.n);

    HASH_FIND_BYHASHVALUE(hh, w->channels, name.p, name.n, hash, ch);
    return ch;
}

static struct channel *
channel_new(struct watches *w, const struct buf *name)
{
    struct channel *ch = calloc(1, sizeof(*ch));

    if (ch == NULL) {
        return NULL;
    }
    ch->name = malloc(name->n);
    if (ch->name == NULL) {
        goto fail;
    }
    memcpy(ch->name, name->p, name->n);
    ch->name_n = name->n;
    list_init(&ch->locks);
    HASH_ADD_KEYPTR_BYHASHVALUE(hh, w->channels, ch->name, ch->name_n, hash_name(&w->env->secret, name->p, name->n),
                                ch);
    if (ch->hh.tbl != NULL) {
        return ch;
    }

fail:
    free(ch->name);
    free(ch);
    return NULL;
}

static void
channel_free(struct watches *w, struct channel *ch)
{
    while (!list_empty(&ch->locks)) {
        struct listener_lock *ll = container_of(ch->locks.next, struct listener_lock, node);

        list_remove(&ll->node);
        free(ll);
    }
    HASH_DELETE(hh, w->channels, ch);
    free(ch->name);
    free(ch);
}

void
watches_free(struct watches **wp)
{
    struct watches *w = *wp;
    struct channel *ch, *next;

    if (w == NULL) {
        return;
    }
    HASH_ITER(hh, w->channels, ch, next)
    {
        channel_free(w, ch);
    }
    free(w);
    *wp = NULL;
}

static void
subscribe(struct redis_link *sub, const struct channel *ch, bool on)
{
    struct slice word[2] = {on ? SLICE_LIT("SUBSCRIBE") : SLICE_LIT("UNSUBSCRIBE"), {ch->name, ch->name_n}};

    if (link_up(sub)) { /* else the reconnect does it */
        (void)link_send_push(sub, 2, word);
    }
}

bool
watches_add(struct watches *w, struct redis_link *sub, uint64_t lock, enum kind kind, struct slice key)
{
    struct listener_lock *ll = malloc(sizeof(*ll));
    struct channel *ch = NULL;
    struct buf name;

    if (ll == NULL) {
        return false;
    }
    buf_init(&name, 0);
    call_channel(kind, key, &name);
    if (!name.failed) {
        ch = find(w, buf_slice(&name));
        ch = ch != NULL ? ch : channel_new(w, &name);
    }
    buf_fini(&name);
    if (ch == NULL) {
        free(ll);
        return false;
    }
    ll->lock = lock;
    list_push_back(&ch->locks, &ll->node);
    subscribe(sub, ch, true); /* again if it is heard already: the confirmation is what the new lock waits for */
    return true;
}

void
watches_remove(struct watches *w, struct redis_link *sub, uint64_t lock, enum kind kind, struct slice key)
{
    struct channel *ch = NULL;
    struct list *pos, *nxt;
    struct buf name;

    buf_init(&name, 0);
    call_channel(kind, key, &name);
    if (!name.failed) {
        ch = find(w, buf_slice(&name));
    }
    buf_fini(&name);
    if (ch == NULL) {
        return;
    }
    list_each(pos, nxt, &ch->locks)
    {
        struct listener_lock *ll = container_of(pos, struct listener_lock, node);

        if (ll->lock == lock) {
            list_remove(&ll->node);
            free(ll);
        }
    }
    if (list_empty(&ch->locks)) {
        subscribe(sub, ch, false);
        channel_free(w, ch);
    }
}

void
watches_renew(struct watches *w, struct redis_link *sub)
{
    struct channel *ch, *next;

    HASH_ITER(hh, w->channels, ch, next)
    {
        subscribe(sub, ch, true);
    }
}

static bool
is_text(const struct reply *r)
{
    return r->type == REPLY_TEXT;
}

void
watches_push(struct watches *w, const struct reply *r)
{
    struct core_event ev = {0};
    struct channel *ch;
    struct list *pos;
    uint64_t locks[64];
    size_t n;

    if (r->type != REPLY_ARRAY || r->count < 2 || !is_text(r->item[0]) || !is_text(r->item[1])) {
        return; /* an answer to an idle PING */
    }
    if (slice_is(r->item[0]->text, "subscribe")) {
        ev.type = CORE_WATCHING;
    } else if (slice_is(r->item[0]->text, "message")) {
        ev.type = CORE_HINT;
    } else {
        return;
    }
    /* What a lock does about it may change the table: so ids first. More than one name with one key is rare; the
       timers serve those past the array. */
    ch = find(w, r->item[1]->text);
    n = 0;
    if (ch != NULL) {
        for (pos = ch->locks.next; pos != &ch->locks && n < sizeof(locks) / sizeof(locks[0]); pos = pos->next) {
            locks[n++] = container_of(pos, struct listener_lock, node)->lock;
        }
    }
    for (size_t i = 0; i < n; i++) {
        ev.lock = locks[i];
        w->env->post(w->env->ctx, &ev);
    }
}

size_t
watches_count(const struct watches *w)
{
    return HASH_COUNT(w->channels);
}
