/*
 * http.c -- /healthz, /readyz and /metrics. A visit is a connection with one request and one response. Owns its
 * listener and the visits.
 *
 * Refuses methods other than GET and HEAD, and also bodies and more than a few KiB of headers. Names of locks never
 * appear here: clients choose them, without bound. evhttp 2.1.12 is not used: it accepts all visits in one turn, cannot
 * list those that have sent nothing, and spins when descriptors run out.
 * H1  A visit has one of its two events added until it ends; it ends after IDLE_US without that event, or at its
 *     deadline.
 * H2  http.visits is in the order of the last byte that moved. With VISITS_MAX visits, a new one replaces the one that
 *     has been silent longest; if its whole request has come, it first gets what its socket takes of the response.
 */
#include "daemon/serve/http.h"

#include <errno.h>
#include <event2/event.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/buf.h"
#include "daemon/base/clock.h"
#include "daemon/base/list.h"
#include "daemon/base/memory.h"
#include "daemon/serve/listener.h"
#include "daemon/version.h"

#define HEADERS_BYTES_MAX 8192
#define VISITS_MAX 64
#define IDLE_US (5 * US_PER_S)
#define VISIT_US (10 * US_PER_S) /* from the connection to the last byte of the response */

struct http {
    struct engine *engine;     /* borrowed */
    struct listener *listener; /* owned */
    struct list visits;        /* visit.node, silent longest first; owned */
    unsigned visits_n;
};

struct visit {
    struct list node;
    struct http *http;
    int64_t deadline_us;
    int fd;                        /* owned */
    struct event *reads, *writes;  /* owned */
    struct buf in, out;
};

static const struct {
    const char *name, *help;
    size_t at;
} counters[] = {
#define METRIC(id, text) {#id, text, offsetof(struct metrics, id)},
#include "daemon/base/metrics.def"
#undef METRIC
};

/* ---- the pages ---- */

static void
print_counters(const struct metrics *m, struct buf *out)
{
    size_t i;

    for (i = 0; i < sizeof(counters) / sizeof(counters[0]); i++) {
        uint64_t value;

        memcpy(&value, (const char *)m + counters[i].at, sizeof(value));
        buf_printf(out, "# HELP rlockd_%s_total %s\n# TYPE rlockd_%s_total counter\nrlockd_%s_total %llu\n",
                   counters[i].name, counters[i].help, counters[i].name, counters[i].name, (unsigned long long)value);
    }
}

static void
print_gauges(const struct engine *e, struct buf *out)
{
    struct core_totals t = core_totals(e->core);
    const struct {
        const char *name, *help;
        uint64_t value;
    } gauges[] = {
        {"locks_held", "locks held here now, once for each owner and each permit", t.held_claims},
        {"waiters", "requests waiting for a lock now", t.waiters},
        {"owners", "owners known now", t.owners},
        {"sessions", "open sessions", e->sessions_n},
        {"upstream_up", "1 while Redis answers", e->redis_up},
        {"draining", "1 while nothing is granted any more", e->draining},
    };
    size_t i;

    for (i = 0; i < sizeof(gauges) / sizeof(gauges[0]); i++) {
        buf_printf(out, "# HELP rlockd_%s %s\n# TYPE rlockd_%s gauge\nrlockd_%s %llu\n", gauges[i].name, gauges[i].help,
                   gauges[i].name, gauges[i].name, (unsigned long long)gauges[i].value);
    }
    buf_printf(out, "# HELP rlockd_build_info what runs here\n# TYPE rlockd_build_info gauge\n"
                    "rlockd_build_info{version=\"%s\"} 1\n", RLOCKD_VERSION);
}

static int
page_metrics(const struct engine *e, struct buf *out)
{
    print_counters(&e->metrics, out);
    print_gauges(e, out);
    return 200;
}

/* Any response means that the daemon lives. */
static int
page_healthz(const struct engine *e, struct buf *out)
{
    (void)e;
    buf_printf(out, "ok\n");
    return 200;
}

static int
page_readyz(const struct engine *e, struct buf *out)
{
    if (e->draining) {
        buf_printf(out, "draining: nothing is granted any more\n");
    }
    if (!e->redis_up) {
        buf_printf(out, "redis: down\n");
    }
    if (e->draining || !e->redis_up) {
        return 503;
    }
    buf_printf(out, "ok\n");
    return 200;
}

static const struct {
    const char *path, *type;
    int (*print)(const struct engine *e, struct buf *out);
} pages[] = {
    {"/healthz", "text/plain; charset=utf-8", page_healthz},
    {"/readyz", "text/plain; charset=utf-8", page_readyz},
    {"/metrics", "text/plain; version=0.0.4; charset=utf-8", page_metrics},
};

/* ---- requests ---- */

static const char *
reason(int status)
{
    switch (status) {
    case 200:
        return "OK";
    case 400:
        return "Bad Request";
    case 404:
        return "Not Found";
    case 413:
        return "Content Too Large";
    case 501:
        return "Not Implemented";
    default:
        return "Service Unavailable";
    }
}

/* The end of a line, or NULL; *next is behind it. */
static const char *
line_end(const char *at, const char *end, const char **next)
{
    const char *nl = memchr(at, '\n', (size_t)(end - at));

    if (nl == NULL) {
        return NULL;
    }
    *next = nl + 1;
    return nl > at && nl[-1] == '\r' ? nl - 1 : nl;
}

/* Reads the headers up to the blank line: 0 = not all have come, 413 = they announce a body, 200 = fine. */
static int
read_headers(const char *at, const char *end)
{
    const char *stop, *next;
    bool body = false;

    while ((stop = line_end(at, end, &next)) != NULL) {
        if (stop == at) {
            return body ? 413 : 200;
        }
        if (stop - at > 15 && strncasecmp(at, "Content-Length:", 15) == 0) {
            at += 15;
            at += strspn(at, " 0");
            body = body || at < stop;
        }
        body = body || (stop - at > 18 && strncasecmp(at, "Transfer-Encoding:", 18) == 0);
        at = next;
    }
    return 0;
}

/* The status of the request so far; 0 = not whole. *path: of the target, without the part from "?" on. */
static int
read_request(const struct buf *in, bool *head_only, struct slice *path)
{
    const char *end = in->p + in->n, *next, *stop = line_end(in->p, end, &next), *at;
    int status;

    if (stop == NULL) {
        return 0;
    }
    status = read_headers(next, end);
    if (status != 200) {
        return status;
    }
    at = memchr(in->p, ' ', (size_t)(stop - in->p));
    if (at == NULL) {
        return 400;
    }
    *head_only = slice_is((struct slice){in->p, (size_t)(at - in->p)}, "HEAD");
    if (!*head_only && !slice_is((struct slice){in->p, (size_t)(at - in->p)}, "GET")) {
        return 501;
    }
    *path = (struct slice){at + 1, 0};
    while (path->p + path->n < stop && strchr(" ?", path->p[path->n]) == NULL) {
        path->n++;
    }
    return 200;
}

static void
print_response(const struct engine *e, int status, bool head_only, struct slice path, struct buf *out)
{
    const char *type = "text/plain; charset=utf-8";
    struct buf body;

    buf_init(&body, 0);
    if (status == 200) {
        status = 404;
        for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
            if (slice_is(path, pages[i].path)) {
                type = pages[i].type;
                status = pages[i].print(e, &body);
            }
        }
    }
    if (body.n == 0) {
        buf_adds(&body, status == 404 ? "only /healthz, /readyz and /metrics are here\n"
                                      : "only GET and HEAD, without a body\n");
    }
    buf_printf(out, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nCache-Control: no-store\r\n"
                    "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
               status, reason(status), type, body.n);
    if (!head_only) {
        buf_add_slice(out, buf_slice(&body));
    }
    buf_fini(&body);
}

/* ---- visits ---- */

static void
end_visit(struct visit *v)
{
    char piece[4096];

    for (int i = 0; v->out.n > 0 && i < 16 && recv(v->fd, piece, sizeof(piece), MSG_DONTWAIT) > 0; i++) {
        /* close() with unread input would reset the connection, and the reply would be lost */
    }
    list_remove(&v->node);
    v->http->visits_n--;
    event_free(v->reads);
    event_free(v->writes);
    close(v->fd);
    buf_fini(&v->in);
    buf_fini(&v->out);
    free(v);
}

/* Waits for the event. Ends the visit if its time is over, or if the event cannot be added. */
static void
await(struct visit *v, struct event *ev)
{
    int64_t left_us = v->deadline_us - clock_now_us(), us = left_us < IDLE_US ? left_us : IDLE_US;
    struct timeval timeout = {.tv_sec = (time_t)(us / US_PER_S), .tv_usec = (suseconds_t)(us % US_PER_S)};

    if (us <= 0 || event_add(ev, &timeout) != 0) {
        end_visit(v);
    }
}

static bool
is_over(ssize_t n)
{
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

/* Bytes of the visit have moved: keeps H2. */
static void
note_progress(struct visit *v)
{
    list_remove(&v->node);
    list_push_back(&v->http->visits, &v->node);
}

static void
on_writable(evutil_socket_t fd, short what, void *arg)
{
    struct visit *v = arg;
    ssize_t n = (what & EV_WRITE) != 0 ? send(fd, v->out.p, v->out.n, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;

    if (is_over(n) || n == (ssize_t)v->out.n) {
        end_visit(v); /* all is sent, it took too long, or the peer has gone */
        return;
    }
    if (n > 0) {
        buf_drop(&v->out, (size_t)n);
        note_progress(v);
    }
    await(v, v->writes);
}

enum received { RECEIVED_PART, RECEIVED_ALL, RECEIVED_END };

/* Reads once. RECEIVED_ALL: the response is in v->out. */
static enum received
receive(struct visit *v)
{
    struct slice path = {NULL, 0};
    char piece[HEADERS_BYTES_MAX + 1];
    ssize_t n = recv(v->fd, piece, sizeof(piece), MSG_DONTWAIT);
    bool head_only = false;
    int status;

    if (n <= 0) {
        return is_over(n) ? RECEIVED_END : RECEIVED_PART;
    }
    note_progress(v);
    buf_add(&v->in, piece, (size_t)n);
    status = v->in.n > HEADERS_BYTES_MAX ? 400 : read_request(&v->in, &head_only, &path);
    if (status == 0) {
        return RECEIVED_PART;
    }
    print_response(v->http->engine, status, head_only, path, &v->out);
    return RECEIVED_ALL;
}

static void
on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct visit *v = arg;

    (void)fd;
    switch ((what & EV_READ) != 0 ? receive(v) : RECEIVED_END) {
    case RECEIVED_PART:
        await(v, v->reads);
        break;
    case RECEIVED_ALL:
        await(v, v->writes);
        break;
    case RECEIVED_END:
        end_visit(v);
        break;
    }
}

/* Keeps H2: when many connect at once, the whole request of the visit may have come and not been read yet. */
static void
give_way(struct visit *v)
{
    if (v->out.n > 0 || receive(v) == RECEIVED_ALL) {
        (void)send(v->fd, v->out.p, v->out.n, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    end_visit(v);
}

static void
on_connect(void *ctx, int fd, const struct listening *on)
{
    struct http *h = ctx;
    struct visit *v = mem_zalloc(sizeof(*v));

    (void)on;
    while (h->visits_n >= VISITS_MAX) {
        give_way(container_of(h->visits.next, struct visit, node));
    }
    v->http = h;
    v->deadline_us = clock_now_us() + VISIT_US;
    v->fd = fd;
    buf_init(&v->in, 0);
    buf_init(&v->out, 0);
    v->reads = event_new(h->engine->base, fd, EV_READ, on_readable, v);
    v->writes = event_new(h->engine->base, fd, EV_WRITE, on_writable, v);
    list_push_back(&h->visits, &v->node);
    h->visits_n++;
    await(v, v->reads);
}

static void
refuse(int fd)
{
    static const char line[] = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";

    (void)send(fd, line, sizeof(line) - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* ---- life ---- */

struct http *
http_serve(struct engine *e, struct listening *on, char error[160])
{
    struct http *h = mem_zalloc(sizeof(*h));
    struct listener_callbacks callbacks = {on_connect, h, refuse};

    h->engine = e;
    list_init(&h->visits);
    h->listener = listener_start(e, on, callbacks, error);
    if (h->listener == NULL) {
        free(h);
        return NULL;
    }
    return h;
}

const char *
http_addr(const struct http *h)
{
    return listener_addr(h->listener);
}

void
http_close(struct http **hp)
{
    struct http *h = *hp;

    if (h == NULL) {
        return;
    }
    listener_close(&h->listener);
    while (!list_empty(&h->visits)) {
        end_visit(container_of(h->visits.next, struct visit, node));
    }
    free(h);
    *hp = NULL;
}
