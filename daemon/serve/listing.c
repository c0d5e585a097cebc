/*
 * listing.c -- long replies: their turns.
 *
 * Owns the listings that were not done at once. A session is found by id; the listing of one that has ended is dropped
 * when its turn comes.
 */
#include "daemon/serve/listing.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/memory.h"
#include "daemon/serve/cmd.h"
#include "daemon/serve/long_replies.h"
#include "daemon/serve/replies.h"
#include "daemon/serve/sessions.h"

enum {
    TURN_US = 1000, /* of all listings in one turn of the loop */
    VISIT_US = 200, /* of one, before it is another one's turn */
    SHORT_BYTES = 64 * 1024 /* replies up to this length are made, however many long ones there are */
};

struct listing {
    struct list node; /* engine.listings */
    uint64_t session, slot;
    int proto;
    struct listing_work *work; /* owned */
    size_t counted;            /* its bytes that engine.long_replies_bytes counts */
};

/* Works on the listing, for about most_us. True: the work is done. */
static bool
work_on(struct engine *e, struct listing_work *w, int64_t most_us)
{
    int64_t began_us = clock_now_us(), spent_us = 0;
    bool more = true;

    while (more && spent_us < most_us) {
        more = w->advance(w, e);
        spent_us = clock_now_us() - began_us;
    }
    e->listings_left_us -= spent_us;
    return !more;
}

static void
drop(struct engine *e, struct listing *l)
{
    long_replies_recount(e, l->counted, 0);
    list_remove(&l->node);
    l->work->drop(l->work, e);
    free(l);
}

static void
send_reply(struct engine *e, struct listing *l)
{
    struct outbox reply;
    struct writer w = {.out = &reply.bytes, .proto = l->proto};
    int64_t began_us;

    outbox_init(&reply);
    began_us = clock_now_us();
    l->work->finish(l->work, e, &reply, &w);
    e->listings_left_us -= clock_now_us() - began_us;
    slots_put_reply(e, l->session, l->slot, &reply, l->work->more);
    outbox_fini(&reply);
}

size_t
listing_words_bytes(const struct words *w)
{
    size_t n = 0;

    for (unsigned i = 0; i < w->n; i++) {
        n += w->word[i].n;
    }
    return n;
}

void
listing_copy_words(const struct words *from, struct words *to, char *bytes)
{
    to->n = from->n;
    to->bytes = from->bytes;
    to->inline_form = from->inline_form;
    for (unsigned i = 0; i < from->n; i++) {
        memcpy(bytes, from->word[i].n > 0 ? from->word[i].p : "", from->word[i].n);
        to->word[i] = (struct slice){bytes, from->word[i].n};
        bytes += from->word[i].n;
    }
}

enum cmd_result
listing_run(struct cmd *c, struct listing_work *w)
{
    struct engine *e = c->session->engine;
    struct listing *l;
    int64_t began_us;

    if (e->listings_left_us > 0 && list_empty(&e->listings) && work_on(e, w, e->listings_left_us)) {
        began_us = clock_now_us();
        w->finish(w, e, c->box, c->out);
        slots_append(c->session, w->more);
        w->drop(w, e);
        e->listings_left_us -= clock_now_us() - began_us;
        return CMD_DONE;
    }
    l = mem_alloc(sizeof(*l));
    *l = (struct listing){.session = c->session->id, .slot = c->slot, .proto = c->out->proto, .work = w};
    list_push_back(&e->listings, &l->node);
    return CMD_LATER;
}

/* Counts the reply so far. False: all long replies together pass the bound, so this one is refused. */
static bool
count_reply(struct engine *e, struct listing *l)
{
    size_t now = l->work->more != NULL ? chunks_bytes(l->work->more) : 0;

    long_replies_recount(e, l->counted, now);
    l->counted = now;
    if (now <= SHORT_BYTES || !long_replies_past_bound(e)) {
        return true;
    }
    l->work->more->failed = true;
    return false;
}

void
listings_turn(struct engine *e)
{
    e->listings_left_us = TURN_US;
    while (e->listings_left_us > 0 && !list_empty(&e->listings)) {
        struct listing *l = container_of(e->listings.next, struct listing, node);

        list_remove(&l->node);
        list_push_back(&e->listings, &l->node);
        if (session_find(e, l->session) == NULL) {
            drop(e, l);
        } else if (work_on(e, l->work, VISIT_US) || !count_reply(e, l)) {
            send_reply(e, l);
            drop(e, l);
        }
    }
}

void
listings_drop_all(struct engine *e)
{
    while (!list_empty(&e->listings)) {
        drop(e, container_of(e->listings.next, struct listing, node));
    }
}

/* ---- replies that cost much at once ---- */

struct once {
    struct listing_work work;
    cmd_fn *handler;
    uint64_t session;
    enum command_id id;
    struct words words; /* slices into text */
    char text[];
};

static bool
once_advance(struct listing_work *w, struct engine *e)
{
    (void)w;
    (void)e;
    return false;
}

static void
once_finish(struct listing_work *w, struct engine *e, struct outbox *box, struct writer *out)
{
    struct once *o = container_of(w, struct once, work);
    enum reply_form form = FORM_NATIVE;
    struct cmd c = {.session = session_find(e, o->session), .words = &o->words, .id = o->id, .out = out, .box = box,
                    .form = &form};
    enum cmd_result res = o->handler(&c);

    assert(res == CMD_DONE);
}

static void
once_drop(struct listing_work *w, struct engine *e)
{
    (void)e;
    free(container_of(w, struct once, work));
}

enum cmd_result
listing_once(struct cmd *c, cmd_fn *handler)
{
    struct once *o;

    if (c->session->engine->listings_left_us > 0 && list_empty(&c->session->engine->listings)) {
        int64_t began_us = clock_now_us();
        enum cmd_result res = handler(c);

        c->session->engine->listings_left_us -= clock_now_us() - began_us;
        return res;
    }
    o = mem_zalloc(sizeof(*o) + listing_words_bytes(c->words));
    o->work = (struct listing_work){once_advance, once_finish, once_drop, NULL};
    o->handler = handler;
    o->session = c->session->id;
    o->id = c->id;
    listing_copy_words(c->words, &o->words, o->text);
    return listing_run(c, &o->work);
}
