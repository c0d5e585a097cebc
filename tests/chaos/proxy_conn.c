/*
 * proxy_conn.c -- one connection through the fault proxy: two pipes of chunks, each due at a time.
 *
 * Invariants: a pipe reads only while it has room and no hole; it writes bytes in the order in which it read them; a
 * connection is freed in one place, and a function that may free it returns at once after that.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/chaos/proxy.h"

#define ROOM ((size_t)256 * 1024)

struct chunk {
    struct chunk *next;
    int64_t due_us;
    size_t at, n;
    char bytes[];
};

static void on_readable(evutil_socket_t fd, short what, void *arg);
static void on_writable(evutil_socket_t fd, short what, void *arg);

static void
pipe_clear(struct pipe *p)
{
    for (struct chunk *c = p->first, *next; c != NULL; c = next) {
        next = c->next;
        free(c);
    }
    p->first = NULL;
    p->last = &p->first;
    p->queued = 0;
}

void
conn_close(struct conn *c, bool reset)
{
    for (int way = 0; way < WAYS; way++) {
        struct pipe *p = &c->pipe[way];

        pipe_clear(p);
        if (p->readable != NULL) {
            event_free(p->readable);
            event_free(p->writable);
        }
        event_free(p->timer);
    }
    for (int side = 0; side < WAYS; side++) {
        if (c->fd[side] >= 0) {
            struct linger now = {.l_onoff = 1, .l_linger = 0};

            if (reset) {
                (void)setsockopt(c->fd[side], SOL_SOCKET, SO_LINGER, &now, sizeof(now));
            }
            close(c->fd[side]);
        }
    }
    if (reset) {
        c->route->resets++;
    }
    list_remove(&c->in_route);
    free(c);
}

static long
fault_of(const struct pipe *p, enum fault f)
{
    return p->conn->route->fault[p->way][f];
}

static void
happened(const struct pipe *p, enum fault f)
{
    p->conn->route->happened[f]++;
}

static void
wake_in(struct pipe *p, int64_t us)
{
    struct timeval tv = {.tv_sec = us / 1000000, .tv_usec = us % 1000000};

    evtimer_add(p->timer, &tv);
}

/* The number of bytes that the bandwidth allows now; if that is 0, sets the timer. */
static size_t
allowance(struct pipe *p, int64_t now, size_t wanted)
{
    double rate = (double)fault_of(p, FAULT_bandwidth);

    if (rate <= 0) {
        return wanted;
    }
    p->bucket += rate * (double)(now - p->filled_us) / 1e6;
    p->filled_us = now;
    if (p->bucket > rate / 10) { /* at most a tenth of a second at once */
        p->bucket = rate / 10 < 1 ? 1 : rate / 10;
    }
    if (p->bucket < 1) {
        happened(p, FAULT_bandwidth);
        wake_in(p, (int64_t)((1 - p->bucket) / rate * 1e6) + 1);
        return 0;
    }
    return wanted < (size_t)p->bucket ? wanted : (size_t)p->bucket;
}

/* The number of bytes of the first chunk that may be written now: 0 when another event will continue. */
static size_t
may_write(struct pipe *p, const struct chunk *c, int64_t now)
{
    size_t n = c->n - c->at;
    long slice = fault_of(p, FAULT_slice), cut = fault_of(p, FAULT_cut);

    if (c->due_us > now) {
        happened(p, fault_of(p, FAULT_trip) != 0 ? FAULT_trip : FAULT_delay);
        wake_in(p, c->due_us - now);
        return 0;
    }
    if (slice > 0 && n > (size_t)slice) {
        happened(p, FAULT_slice);
        n = (size_t)slice;
    }
    if (cut > 0 && n > (size_t)cut - p->passed) {
        n = (size_t)cut - p->passed;
    }
    return allowance(p, now, n);
}

/* Puts the end after the last byte. False: the connection is gone. */
static bool
pipe_end(struct pipe *p)
{
    struct conn *c = p->conn;

    if (!p->eof || p->first != NULL || p->shut) {
        return true;
    }
    p->shut = true;
    (void)shutdown(c->fd[p->way], SHUT_WR);
    if (c->pipe[UP].shut && c->pipe[DOWN].shut) {
        conn_close(c, false);
        return false;
    }
    return true;
}

/* Writes the bytes that may be written. False: the connection is gone. */
static bool
pump(struct pipe *p)
{
    struct conn *c = p->conn;
    int to = c->fd[p->way];

    while (p->first != NULL && to >= 0) {
        struct chunk *head = p->first;
        int64_t now = proxy_now_us();
        size_t n;
        ssize_t put;

        if (fault_of(p, FAULT_hole) != 0) {
            happened(p, FAULT_hole);
            return true;
        }
        n = may_write(p, head, now);
        if (n == 0) {
            return true;
        }
        put = send(to, head->bytes + head->at, n, MSG_NOSIGNAL);
        if (put < 0) {
            if (errno == EAGAIN || errno == EINTR) {
                event_add(p->writable, NULL);
                return true;
            }
            conn_close(c, true);
            return false;
        }
        p->passed += (uint64_t)put;
        p->queued -= (size_t)put;
        p->bucket -= (double)put;
        c->route->bytes[p->way] += (uint64_t)put;
        head->at += (size_t)put;
        if (head->at == head->n) {
            p->first = head->next;
            if (p->first == NULL) {
                p->last = &p->first;
            }
            free(head);
        }
        if (fault_of(p, FAULT_cut) > 0 && p->passed >= (uint64_t)fault_of(p, FAULT_cut)) {
            happened(p, FAULT_cut);
            conn_close(c, true);
            return false;
        }
        if (fault_of(p, FAULT_slice) > 0 && p->first != NULL) {
            wake_in(p, 0);
            return true;
        }
    }
    return pipe_end(p);
}

/* In a hole the first byte is noticed, and not read: see on_readable. */
static void
read_again(struct pipe *p)
{
    if (p->readable == NULL) {
        return;
    }
    if (p->eof || p->queued >= ROOM) {
        event_del(p->readable);
    } else if (fault_of(p, FAULT_hole) == 0) {
        event_add(p->readable, NULL);
    }
}

static uint64_t
random_of(struct proxy *x)
{
    x->random ^= x->random << 13;
    x->random ^= x->random >> 7;
    x->random ^= x->random << 17;
    return x->random;
}

/* One read, as one chunk. */
static void
keep(struct pipe *p, const char *bytes, size_t n)
{
    struct chunk *c = malloc(sizeof(*c) + n);
    long jitter = fault_of(p, FAULT_jitter);
    int64_t wait_ms = fault_of(p, FAULT_delay), wait_us;

    if (c == NULL) {
        abort();
    }
    if (jitter > 0) {
        happened(p, FAULT_jitter);
        wait_ms += (int64_t)(random_of(p->conn->route->proxy) % (uint64_t)(jitter + 1));
    }
    wait_us = wait_ms * 1000 + fault_of(p, FAULT_trip);
    *c = (struct chunk){.due_us = wait_us == 0 ? 0 : proxy_now_us() + wait_us, .n = n};
    memcpy(c->bytes, bytes, n);
    *p->last = c;
    p->last = &c->next;
    p->queued += n;
}

static void
on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct pipe *p = arg;
    char bytes[16384];
    ssize_t got;

    (void)what;
    if (fault_of(p, FAULT_hole) != 0) {
        happened(p, FAULT_hole);
        event_del(p->readable);
        return;
    }
    got = recv(fd, bytes, sizeof(bytes), 0);
    if (got < 0) {
        if (errno != EAGAIN && errno != EINTR) {
            conn_close(p->conn, true);
        }
        return;
    }
    if (got == 0) {
        p->eof = true;
    } else if (fault_of(p, FAULT_swallow) != 0) {
        happened(p, FAULT_swallow);
        conn_close(p->conn, true);
        return;
    } else {
        keep(p, bytes, (size_t)got);
    }
    if (pump(p)) {
        read_again(p);
    }
}

static void
on_writable(evutil_socket_t fd, short what, void *arg)
{
    struct pipe *p = arg;

    (void)fd, (void)what;
    if (pump(p)) {
        read_again(p);
    }
}

/* Both ends are connected: bytes may flow. */
static void
conn_join(struct conn *c)
{
    for (int way = 0; way < WAYS; way++) {
        struct pipe *p = &c->pipe[way];
        int from = c->fd[way == UP ? DOWN : UP];
        struct event_base *base = c->route->proxy->base;

        p->readable = event_new(base, from, EV_READ | EV_PERSIST, on_readable, p);
        p->writable = event_new(base, c->fd[way], EV_WRITE, on_writable, p);
        read_again(p);
    }
}

/* Connects to the target, unless there is a hole before it. False: the connection is gone. */
static bool
conn_reach(struct conn *c)
{
    const struct route *r = c->route;
    int one = 1, fd;

    if (r->fault[UP][FAULT_hole] != 0 || r->fault[DOWN][FAULT_hole] != 0) {
        c->route->happened[FAULT_hole]++;
        return true;
    }
    fd = socket(r->target.sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    /* Targets are on this host: connect() returns at once, and a full queue of a stopped process is a refusal. */
    if (fd >= 0 && evutil_make_socket_nonblocking(fd) == 0 &&
        (connect(fd, (const struct sockaddr *)&r->target.sa, r->target.len) == 0 || errno == EINPROGRESS)) {
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        c->fd[UP] = fd;
        conn_join(c);
        return true;
    }
    if (fd >= 0) {
        close(fd);
    }
    conn_close(c, true);
    return false;
}

struct conn *
conn_open(struct route *r, int client)
{
    struct conn *c = calloc(1, sizeof(*c));
    int one = 1;

    if (c == NULL) {
        abort();
    }
    (void)setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    c->route = r;
    c->fd[DOWN] = client;
    c->fd[UP] = -1;
    for (int way = 0; way < WAYS; way++) {
        struct pipe *p = &c->pipe[way];

        *p = (struct pipe){.conn = c, .way = (enum way)way, .filled_us = proxy_now_us()};
        p->last = &p->first;
        p->timer = evtimer_new(r->proxy->base, on_writable, p);
    }
    list_push_back(&r->conns, &c->in_route);
    return conn_reach(c) ? c : NULL;
}

void
conn_changed(struct conn *c)
{
    if (c->fd[UP] < 0) {
        (void)conn_reach(c);
        return;
    }
    for (int way = 0; way < WAYS; way++) {
        c->pipe[way].bucket = 0;
        c->pipe[way].filled_us = proxy_now_us();
    }
    /* Frees nothing: the pipes continue from the loop. */
    for (int way = 0; way < WAYS; way++) {
        read_again(&c->pipe[way]);
        wake_in(&c->pipe[way], 0);
    }
}
