/* load_work.c -- a worker: its clients in one epoll loop; see load.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <signal.h>
#include <unistd.h>

#include "load.h"

enum { EVENTS = 256, PATIENCE_MS = 30000 };

void
worker_send(struct worker *w, struct conn *c, const char *bytes, size_t n)
{
    conn_put(c, bytes, n);
    w->result->requests++;
    if (!c->dirty) {
        c->dirty = true;
        w->dirty[w->dirty_n++] = c;
    }
}

static void
watch(struct worker *w, struct conn *c, int verb, uint32_t events)
{
    struct epoll_event e = {.events = events, .data.ptr = c};

    if (epoll_ctl(w->epoll, verb, c->fd, &e) < 0) {
        die("epoll_ctl: %s", strerror(errno));
    }
}

static void
flush(struct worker *w)
{
    unsigned i;

    for (i = 0; i < w->dirty_n; i++) {
        struct conn *c = w->dirty[i];

        c->dirty = false;
        if (!conn_flush(c)) {
            watch(w, c, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT);
        }
    }
    w->dirty_n = 0;
}

/* A wait counts also when it ended after the window: a client without a grant in the window has waited longest. */
void
worker_pair(struct worker *w, struct slot *s, int64_t now)
{
    w->result->pairs++;
    if (now >= w->begin && now < w->end) {
        w->counts[s->client->index - w->first]++;
        hist_add(&w->result->pair, (uint64_t)(now - s->asked));
    }
    if (s->got >= w->begin) {
        hist_add(&w->result->lock, (uint64_t)(s->got - s->asked));
    }
}

bool
worker_ends(struct worker *w, int64_t now)
{
    if (now < w->end) {
        return false;
    }
    w->running--;
    return true;
}

static void
received(struct conn *c, const struct reply *r)
{
    struct client *client = c->client;
    struct slot *s;

    if (c->is_sub) {
        slot_received(&client->slot[0], r);
        return;
    }
    if (client->fifo_n == 0) {
        die("an answer without a request: %c%.*s", r->type, (int)r->n, r->text);
    }
    s = client->fifo[client->fifo_at];
    client->fifo_at = (client->fifo_at + 1) % client->fifo_max;
    client->fifo_n--;
    if (s != NULL) {
        slot_reply(s, r);
    }
}

static void
take(struct worker *w, struct conn *c, bool wait)
{
    size_t at = 0, n;
    struct reply r;

    if (!conn_fill(c, wait)) {
        return;
    }
    while ((n = reply_parse(c->in + at, c->in_n - at, &r)) > 0) {
        received(c, &r);
        at += n;
    }
    conn_took(c, at);
    flush(w);
}

static void
turn(struct worker *w, int timeout_ms)
{
    struct epoll_event events[EVENTS];
    int i, n = epoll_wait(w->epoll, events, EVENTS, timeout_ms);

    if (n == 0 && w->sleeping == 0) {
        die("%s: nothing has come for %d s", w->o->proto->name, timeout_ms / 1000);
    }
    for (i = 0; i < n; i++) {
        struct conn *c = events[i].data.ptr;

        if ((events[i].events & EPOLLOUT) != 0 && conn_flush(c)) {
            watch(w, c, EPOLL_CTL_MOD, EPOLLIN);
        }
        if ((events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) {
            take(w, c, false);
        }
    }
}

/* Wakes slots whose time has come, and returns the milliseconds until the next such time. */
static int
sleepers(struct worker *w)
{
    int64_t now = now_ns(), next = INT64_MAX;
    unsigned i;

    if (w->sleeping == 0) {
        return PATIENCE_MS;
    }
    for (i = 0; i < w->n; i++) {
        struct slot *s = &w->clients[i].slot[0];

        if (s->step == SLEEPING && s->again <= now) {
            slot_wake(s);
        } else if (s->step == SLEEPING && s->again < next) {
            next = s->again;
        }
    }
    flush(w);
    return next == INT64_MAX ? PATIENCE_MS : (int)((next - now) / 1000000) + 1;
}

static void
client_init(struct worker *w, struct client *c, unsigned index)
{
    const struct options *o = w->o;
    unsigned i;

    memset(c, 0, sizeof(*c));
    c->worker = w;
    c->index = index;
    conn_init(&c->conn, o->at, c);
    watch(w, &c->conn, EPOLL_CTL_ADD, EPOLLIN);
    if (o->hot && o->proto->lock_script != NULL) {
        conn_init(&c->sub, o->at, c);
        c->sub.is_sub = true;
        watch(w, &c->sub, EPOLL_CTL_ADD, EPOLLIN);
    }
    c->fifo_max = o->pipeline * 3;
    c->fifo = need(calloc(c->fifo_max, sizeof(c->fifo[0])));
    c->slot = need(calloc(o->pipeline, sizeof(c->slot[0])));
    for (i = 0; i < o->pipeline; i++) {
        slot_init(&c->slot[i], c, o, i);
    }
}

static void
begin(struct worker *w)
{
    unsigned i, j;

    w->begin = w->board->begin;
    w->end = w->board->end;
    for (i = 0; i < w->n; i++) {
        for (j = 0; j < w->o->pipeline; j++) {
            w->running++;
            slot_begin(&w->clients[i].slot[j]);
        }
    }
    flush(w);
}

void
worker_run(struct worker *w, int start)
{
    char go;
    unsigned i;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    w->epoll = epoll_create1(EPOLL_CLOEXEC);
    w->clients = need(calloc(w->n, sizeof(w->clients[0])));
    w->dirty = need(calloc((size_t)w->n * 2, sizeof(w->dirty[0])));
    for (i = 0; i < w->n; i++) {
        client_init(w, &w->clients[i], w->first + i);
    }
    w->alone = w->n == 1 && w->o->pipeline == 1 && w->clients[0].sub.in == NULL;
    w->board->ready++;
    if (read(start, &go, 1) != 0) {
        die("no start");
    }
    begin(w);
    while (w->running > 0) {
        if (w->alone && w->sleeping == 0) {
            take(w, &w->clients[0].conn, true);
        } else {
            turn(w, sleepers(w));
        }
    }
    w->board->ended++;
    _exit(0);
}
