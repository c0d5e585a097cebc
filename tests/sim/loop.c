/*
 * loop.c -- libevent's functions, the clock and the dice of the daemons, for daemons in a simulated world.
 *
 * The linker finds the functions here and does not take those of libevent: the backend above them is that of the
 * daemon. The daemon in turn (loop_enter), or the event_base, which is the daemon itself, decides whose clock and dice
 * they use.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/backend/resolver.h"
#include "daemon/backend/push.h"
#include "daemon/base/log.h"
#include "tests/sim/sim.h"

static struct daemon *turn_of;

void
loop_enter(struct daemon *d)
{
    turn_of = d;
}

struct daemon *
loop_turn(void)
{
    return turn_of;
}

/* ---- clocks ---- */

int64_t
daemon_clock(const struct daemon *d, int64_t true_us)
{
    return d->boot_us + true_us + true_us * d->ppm / 1000000;
}

int64_t
daemon_true(const struct daemon *d, int64_t clock_us)
{
    int64_t us;

    if (clock_us > INT64_C(1) << 50) {
        return INT64_MAX;
    }
    us = (clock_us - d->boot_us) * 1000000 / (1000000 + d->ppm);
    while (daemon_clock(d, us) < clock_us) {
        us++;
    }
    return us;
}

int64_t
clock_now_us(void)
{
    return daemon_clock(turn_of, turn_of->world->now_us);
}

int64_t
clock_wall_us(void)
{
    return clock_now_us();
}

uint32_t
arc4random_uniform(uint32_t n)
{
    return n < 2 ? 0 : (uint32_t)below(turn_of->world, n);
}

/* ---- events ---- */

struct event {
    struct happening h;
    event_callback_fn fn;
    void *arg;
};

struct event *
event_new(struct event_base *base, evutil_socket_t fd, short what, event_callback_fn fn, void *arg)
{
    struct event *ev = calloc(1, sizeof(*ev));

    (void)fd;
    (void)what;
    if (ev == NULL) {
        abort();
    }
    ev->h = (struct happening){.type = HAPPENS_EVENT, .daemon = (struct daemon *)base};
    ev->fn = fn;
    ev->arg = arg;
    return ev;
}

/* Timers of libevent are coarse: they come late by up to LATE_US. */
int
event_add(struct event *ev, const struct timeval *tv)
{
    struct daemon *d = ev->h.daemon;
    int64_t in_us = tv->tv_sec * US_PER_S + tv->tv_usec;
    int64_t late_us = in_us > 0 ? below(d->world, LATE_US) : 0;

    schedule(d->world, &ev->h, daemon_true(d, daemon_clock(d, d->world->now_us) + in_us) + late_us);
    return 0;
}

void
event_active(struct event *ev, int what, short calls)
{
    (void)what;
    (void)calls;
    schedule(ev->h.daemon->world, &ev->h, ev->h.daemon->world->now_us);
}

int
event_del(struct event *ev)
{
    unschedule(ev->h.daemon->world, &ev->h);
    return 0;
}

void
event_free(struct event *ev)
{
    (void)event_del(ev);
    free(ev);
}

void
loop_event(struct happening *h)
{
    struct event *ev = container_of(h, struct event, h);

    ev->fn(-1, EV_TIMEOUT, ev->arg);
}

/* ---- input ---- */

struct evbuffer {
    char *p;
    size_t at, n, room;
};

size_t
evbuffer_get_contiguous_space(const struct evbuffer *b)
{
    return b->n - b->at;
}

unsigned char *
evbuffer_pullup(struct evbuffer *b, ev_ssize_t n)
{
    (void)n;
    return (unsigned char *)b->p + b->at;
}

int
evbuffer_drain(struct evbuffer *b, size_t n)
{
    b->at += n;
    if (b->at == b->n) {
        b->at = b->n = 0;
    }
    return 0;
}

static void
put(struct evbuffer *b, const char *p, size_t n)
{
    if (b->n + n > b->room) {
        b->room = (b->n + n) * 2;
        b->p = realloc(b->p, b->room);
        if (b->p == NULL) {
            abort();
        }
    }
    memcpy(b->p + b->n, p, n);
    b->n += n;
}

/* ---- connections ---- */

struct bufferevent {
    struct happening connect;
    struct server *to;
    struct conn *conn; /* NULL: not connected */
    struct evbuffer in;
    bufferevent_data_cb on_read;
    bufferevent_event_cb on_event;
    void *arg;
    bool refused;
};

struct bufferevent *
bufferevent_socket_new(struct event_base *base, evutil_socket_t fd, int options)
{
    struct bufferevent *bev = calloc(1, sizeof(*bev));

    (void)fd;
    (void)options;
    if (bev == NULL) {
        abort();
    }
    bev->connect = (struct happening){.type = HAPPENS_CONNECT, .daemon = (struct daemon *)base};
    return bev;
}

void
bufferevent_free(struct bufferevent *bev)
{
    unschedule(bev->connect.daemon->world, &bev->connect);
    if (bev->conn != NULL) {
        conn_close(bev->conn);
    }
    free(bev->in.p);
    free(bev);
}

void
bufferevent_setcb(struct bufferevent *bev, bufferevent_data_cb on_read, bufferevent_data_cb on_write,
                  bufferevent_event_cb on_event, void *arg)
{
    (void)on_write;
    bev->on_read = on_read;
    bev->on_event = on_event;
    bev->arg = arg;
}

int
bufferevent_enable(struct bufferevent *bev, short what)
{
    (void)bev;
    (void)what;
    return 0;
}

struct evbuffer *
bufferevent_get_input(struct bufferevent *bev)
{
    return &bev->in;
}

evutil_socket_t
bufferevent_getfd(struct bufferevent *bev)
{
    (void)bev;
    return -1;
}

/* The words of a command, from `at` on. */
static const char *
command_end(const char *at)
{
    char *p;

    for (long words = strtol(at + 1, &p, 10); words > 0; words--) {
        long bytes = strtol(p + 3, &p, 10); /* after CR LF $ */

        p += 2 + bytes;
    }
    return p + 2;
}

/* Each command is a parcel of its own: a fault of one need not concern the others that left with it. */
void
push_bytes(struct bufferevent *bev, const char *p, size_t n)
{
    for (const char *at = p; at < p + n;) {
        const char *end = command_end(at);

        conn_send(bev->conn, at, (size_t)(end - at));
        at = end;
    }
}

/* The last number of 10.0.0.N, counted from 0; a path is that of the only Redis. */
static int
node_at(const struct sockaddr *to)
{
    const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)to;

    return to->sa_family == AF_INET ? (int)(ntohl(in->sin_addr.s_addr) & 255) - 1 : 0;
}

int
bufferevent_socket_connect(struct bufferevent *bev, const struct sockaddr *to, int n)
{
    struct daemon *d = bev->connect.daemon;
    struct world *w = d->world;
    int64_t delay_us;

    (void)n;
    bev->to = &w->server[node_at(to)];
    if (net_can_connect(bev->to, d, &bev->refused)) {
        delay_us = 2 * net_delay(w, d);
        schedule(w, &bev->connect, w->now_us + delay_us);
    } /* else the link itself gives up */
    return 0;
}

/* The answer of Redis shows whether the connection is accepted. */
void
loop_connected(struct happening *h)
{
    struct bufferevent *bev = container_of(h, struct bufferevent, connect);
    struct world *w = h->daemon->world;

    if (bev->refused || w->now_us < bev->to->down_until_us) {
        errno = ECONNREFUSED;
        bev->on_event(bev, BEV_EVENT_ERROR, bev->arg);
        return;
    }
    bev->conn = conn_new(bev->to, h->daemon, bev);
    bev->on_event(bev, BEV_EVENT_CONNECTED, bev->arg);
}

void
loop_bytes(struct conn *c, const char *p, size_t n)
{
    put(&c->bev->in, p, n);
    c->bev->on_read(c->bev, c->bev->arg);
}

void
loop_ended(struct conn *c)
{
    c->bev->on_event(c->bev, BEV_EVENT_EOF, c->bev->arg);
}

/* ---- addresses: all hosts are numbers ---- */

struct found {
    struct evutil_addrinfo info; /* first: callers get a pointer to it */
    struct sockaddr_in at;
};

struct resolver *
resolver_new(struct event_base *base)
{
    return (struct resolver *)(void *)base;
}

void
resolver_free(struct resolver **n)
{
    *n = NULL;
}

struct lookup *
resolver_ask(struct resolver *n, const char *host, int port, struct addresses *to, resolver_found_fn *fn, void *ctx)
{
    struct found *f = calloc(1, sizeof(*f));

    (void)n;
    if (f == NULL) {
        abort();
    }
    addresses_clear(to);
    f->at.sin_family = AF_INET;
    f->at.sin_port = htons((uint16_t)port);
    if (inet_pton(AF_INET, host, &f->at.sin_addr) != 1) {
        abort();
    }
    f->info.ai_addr = (struct sockaddr *)(void *)&f->at;
    f->info.ai_addrlen = sizeof(f->at);
    *to = (struct addresses){.found = &f->info, .n = 1, .left = 1};
    fn(ctx, NULL);
    return NULL;
}

void
resolver_cancel(struct lookup **q)
{
    *q = NULL;
}

const struct evutil_addrinfo *
addresses_next(struct addresses *a)
{
    bool one = a->left > 0;

    a->left = 0;
    return one ? a->found : NULL;
}

void
addresses_good(struct addresses *a)
{
    (void)a;
}

void
addresses_clear(struct addresses *a)
{
    free(a->found);
    *a = (struct addresses){.turn = a->turn};
}

/* ---- the log ---- */

void
log_event(const struct log *lg, enum log_level level, const char *room, const char *event, ...)
{
    struct world *w = turn_of->world;
    const char *key;
    char program[16];
    va_list ap;

    (void)lg;
    (void)level;
    if (!w->traced) {
        return;
    }
    snprintf(program, sizeof(program), "daemon-%d", turn_of->index);
    printf("%12.6f %-8s log: %s %s", (double)w->now_us / 1e6, program, room, event);
    va_start(ap, event);
    for (key = va_arg(ap, const char *); key != NULL; key = va_arg(ap, const char *)) {
        struct log_value v = va_arg(ap, struct log_value);

        if (v.type == LOG_VALUE_NUMBER) {
            printf(" %s=%" PRId64, key, v.number);
        } else {
            printf(" %s=%.*s", key, (int)v.text.n, v.text.p);
        }
    }
    va_end(ap);
    putchar('\n');
}
