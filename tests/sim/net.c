/*
 * net.c -- the network between daemons and Redis: bytes in order, late, or lost; and the bytes under way when one end
 * closes a connection.
 *
 * I1  On a connection parcels arrive in the order they were sent, each direction by itself.
 * I2  A connection lives until neither end has it and no parcel is under way on it; the end of the daemon's side always
 *     arrives at Redis in the end, by TCP keep-alive.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/sim/cluster.h"

enum { KEEP_ALIVE_US = 60 * 1000 * 1000 };

/* A delay in one direction, mostly usual for this seed; now and then much longer. */
int64_t
net_delay(struct world *w, struct daemon *d)
{
    int64_t us = 10 + below(w, 2 * w->habit.delay_us);

    if (w->now_us < d->slow_until_us) {
        us += below(w, 2 * d->slow_us);
    }
    if (fault(w, FAULT_SLOW)) {
        int64_t more_us = 20 * US_PER_MS;

        while (more_us < 4 * US_PER_S && chance(w, 60000)) {
            more_us *= 2;
        }
        us += below(w, more_us);
        last_failure(w, us);
    }
    return us;
}

/* One link may be away for long without a loss; if more links are away, locks may be lost. */
static void
no_more_links(struct server *s, struct daemon *d)
{
    struct world *w = s->world;
    struct list *pos, *nxt;
    int links = 0;

    list_for_each_safe(pos, nxt, &s->conns)
    {
        const struct conn *c = container_of(pos, struct conn, node);

        links += c->daemon == d && c->life == d->life && c->bev != NULL && c->open && !c->waits;
    }
    if (links < w->habit.links + 1) { /* links of locks, the link of renewals, the link of subscriptions */
        last_failure(w, d->no_links_us - w->now_us + 4 * US_PER_S);
    }
}

/* The time until which the two cannot reach each other: by the daemon's own trouble, or a partition. */
static int64_t
cut_until_us(const struct server *s, const struct daemon *d, int64_t own_us)
{
    return s->apart != d->apart && s->world->parted_until_us > own_us ? s->world->parted_until_us : own_us;
}

/* A paused Redis accepts connections: its kernel does that. */
bool
net_can_connect(struct server *s, struct daemon *d, bool *refused)
{
    struct world *w = s->world;

    *refused = w->now_us < s->down_until_us;
    if (w->now_us < d->no_links_us && s->type == SERVER_REDIS) {
        no_more_links(s, d);
        *refused = true;
    }
    return w->now_us >= cut_until_us(s, d, d->no_there_us) && w->now_us >= d->no_back_us;
}

struct conn *
conn_new(struct server *s, struct daemon *d, struct bufferevent *bev)
{
    struct conn *c = calloc(1, sizeof(*c));

    if (c == NULL) {
        abort();
    }
    c->world = s->world;
    c->server = s;
    c->daemon = d;
    c->bev = bev;
    c->open = true;
    c->id = ++c->world->conns_made;
    c->life = d->life;
    list_init(&c->there);
    list_init(&c->back);
    list_init(&c->channels);
    list_push_back(&s->conns, &c->node);
    return c;
}

static void
parcel_free(struct parcel *p)
{
    unschedule(p->conn->world, &p->h);
    list_remove(&p->node);
    free(p);
}

static void
conn_free(struct conn *c)
{
    server_hangs_up(c);
    while (!list_empty(&c->there)) {
        parcel_free(container_of(c->there.next, struct parcel, node));
    }
    while (!list_empty(&c->back)) {
        parcel_free(container_of(c->back.next, struct parcel, node));
    }
    list_remove(&c->node);
    free(c);
}

static void
free_if_done(struct conn *c)
{
    if (c->bev == NULL && !c->open && list_empty(&c->there) && list_empty(&c->back)) {
        conn_free(c);
    }
}

static struct parcel *
parcel_new(struct conn *c, enum happening_type type, const void *bytes, size_t n)
{
    struct parcel *p = malloc(sizeof(*p) + n);

    if (p == NULL) {
        abort();
    }
    *p = (struct parcel){.h = {.type = type, .daemon = type == HAPPENS_BACK ? c->daemon : NULL},
                         .conn = c,
                         .sent_us = c->world->now_us,
                         .n = n};
    list_init(&p->node);
    if (n > 0) {
        memcpy(p->bytes, bytes, n);
    }
    return p;
}

/* I1. */
static void
send_there(struct conn *c, struct parcel *p, int64_t at_us)
{
    at_us = at_us > c->last_there_us ? at_us : c->last_there_us;
    c->last_there_us = at_us;
    list_push_back(&c->there, &p->node);
    schedule(c->world, &p->h, at_us);
}

static void
send_back(struct conn *c, struct parcel *p, int64_t at_us)
{
    at_us = at_us > c->last_back_us ? at_us : c->last_back_us;
    c->last_back_us = at_us;
    list_push_back(&c->back, &p->node);
    schedule(c->world, &p->h, at_us);
}

/* ---- to the server ---- */

void
conn_send(struct conn *c, const void *bytes, size_t n)
{
    struct world *w = c->world;
    struct parcel *p;
    int64_t at_us, cut_us;

    if (!daemon_does(c->daemon)) {
        return;
    }
    p = parcel_new(c, HAPPENS_THERE, bytes, n);
    at_us = w->now_us + net_delay(w, c->daemon);
    cut_us = cut_until_us(c->server, c->daemon, c->daemon->no_there_us);
    at_us = at_us > cut_us ? at_us : cut_us;
    send_there(c, p, at_us);
    if (c->server->back_under_us != 0 && server_is_acquire(p)) {
        nature_set_back(c);
    }
}

/*
 * Parcels under way mostly arrive; they may be lost, and the network or a Redis that does not read may keep them for
 * long.
 */
void
conn_close(struct conn *c)
{
    struct world *w = c->world;
    struct parcel *p = parcel_new(c, HAPPENS_THERE, NULL, 0);
    int64_t at_us = w->now_us + net_delay(w, c->daemon), cut_us;

    p->type = PARCEL_END;
    c->bev = NULL;
    c->closed_us = w->now_us;
    cut_us = cut_until_us(c->server, c->daemon, c->daemon->no_there_us);
    at_us = at_us > cut_us ? at_us : cut_us;
    if (w->faults_on && chance(w, 25000)) {
        c->lost = true;
        at_us = w->now_us + KEEP_ALIVE_US;
    } else if (w->faults_on && chance(w, 30000)) {
        c->held_until_us = w->now_us + between(w, 10, 12000) * US_PER_MS;
    }
    send_there(c, p, at_us);
}

void
conn_cut(struct conn *c, bool notified)
{
    struct world *w = c->world;

    server_hangs_up(c);
    if (c->bev != NULL && notified && !c->mute) {
        struct parcel *p = parcel_new(c, HAPPENS_BACK, NULL, 0);
        int64_t at_us = w->now_us + net_delay(w, c->daemon), cut_us;

        p->type = PARCEL_END;
        cut_us = cut_until_us(c->server, c->daemon, c->daemon->no_back_us);
    at_us = at_us > cut_us ? at_us : cut_us;
        send_back(c, p, at_us);
    }
    c->mute = true;
}

static void
arrives(struct conn *c, struct parcel *p)
{
    struct world *w = c->world;

    if (p->type == PARCEL_END) {
        server_hangs_up(c);
    } else if (!c->open || c->lost) {
        trace(w, c->daemon->name, "conn %d: %d bytes lost", (int)c->id, (int)p->n);
    } else if (fault(w, FAULT_CUT_REQUEST)) {
        trace(w, c->daemon->name, "conn %d: cut, request lost", (int)c->id);
        last_failure(w, 0);
        conn_cut(c, chance(w, 70000));
    } else {
        server_runs(c, p);
    }
}

/* I1: takes the first parcel, whichever parcel's time it is; that time becomes the time of the other one. */
static struct parcel *
take_first(struct list *parcels, struct happening *h)
{
    struct parcel *first = container_of(parcels->next, struct parcel, node);
    struct world *w = first->conn->world;

    list_remove(&first->node);
    if (&first->h != h) {
        schedule(w, h, heap_at(&w->heap, &first->h.node));
        unschedule(w, &first->h);
    }
    return first;
}

void
net_there(struct happening *h)
{
    struct parcel *p;
    struct conn *c = container_of(h, struct parcel, h)->conn;
    struct world *w = c->world;
    int64_t until_us = c->server->paused_until_us;

    until_us = until_us > c->held_until_us ? until_us : c->held_until_us;
    if (w->now_us < until_us) {
        schedule(w, h, until_us);
        return;
    }
    p = take_first(&c->there, h);
    arrives(c, p);
    free(p);
    free_if_done(c);
}

/* ---- back to the daemon ---- */

/* `pushed`: a message, no reply. A reply may be swallowed, after which no more come; or cut at any byte. */
void
conn_reply(struct conn *c, const char *bytes, size_t n, bool pushed)
{
    struct world *w = c->world;
    int64_t at_us = w->now_us + net_delay(w, c->daemon) + cluster_delay(c->server), cut_us;
    bool cut = false;

    if (c->mute || c->bev == NULL) {
        return;
    }
    if (!pushed && fault(w, FAULT_SWALLOWED)) {
        trace(w, c->daemon->name, "conn %d: reply swallowed", (int)c->id);
        last_failure(w, 3 * US_PER_S);
        c->mute = true;
        return;
    }
    if (!pushed && fault(w, FAULT_CUT_REPLY)) {
        cut = true;
        n = (size_t)below(w, (int64_t)n);
        trace(w, c->daemon->name, "conn %d: cut, reply lost", (int)c->id);
        last_failure(w, 0);
    }
    cut_us = cut_until_us(c->server, c->daemon, c->daemon->no_back_us);
    at_us = at_us > cut_us ? at_us : cut_us;
    send_back(c, parcel_new(c, HAPPENS_BACK, bytes, n), at_us);
    if (cut) {
        conn_cut(c, chance(w, 70000));
    }
}

/* I1 holds: the order on the connection stays. */
void
conn_late(struct conn *c, int64_t for_us)
{
    struct list *pos, *nxt;

    list_for_each_safe(pos, nxt, &c->back)
    {
        struct parcel *p = container_of(pos, struct parcel, node);

        schedule(c->world, &p->h, heap_at(&c->world->heap, &p->h.node) + for_us);
    }
    c->last_back_us += for_us;
}

void
net_back(struct happening *h)
{
    struct conn *c = container_of(h, struct parcel, h)->conn;
    struct parcel *p = take_first(&c->back, h);

    if (c->bev != NULL && p->type == PARCEL_END) {
        loop_ended(c);
    } else if (c->bev != NULL && p->n > 0) {
        loop_bytes(c, p->bytes, p->n);
    }
    free(p);
    free_if_done(c);
}

void
net_free(struct world *w)
{
    for (int i = 0; i < w->nodes_n; i++) {
        while (!list_empty(&w->server[i].conns)) {
            conn_free(container_of(w->server[i].conns.next, struct conn, node));
        }
    }
}
