/*
 * http.c -- /healthz, /readyz and /metrics.
 *
 * Owns its listening socket and libevent's evhttp on it. Refuses everything
 * but GET and HEAD, bodies, and more than a few KiB of headers. No names of
 * locks leave here: they are the clients' and without bound.
 */
#include "daemon/serve/http.h"

#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/serve/listener.h"
#include "daemon/version.h"

#define HEADERS_BYTES_MAX 8192
#define TIMEOUT_S 5

struct http {
    struct engine *engine;  /* borrowed */
    struct evhttp *evhttp;  /* owned */
    struct listening on;    /* owned; the fd is evhttp's */
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
print_counters(const struct metrics *m, struct evbuffer *out)
{
    size_t i;

    for (i = 0; i < sizeof(counters) / sizeof(counters[0]); i++) {
        uint64_t value;

        memcpy(&value, (const char *)m + counters[i].at, sizeof(value));
        evbuffer_add_printf(out, "# HELP rlockd_%s_total %s\n# TYPE rlockd_%s_total counter\nrlockd_%s_total %llu\n",
                            counters[i].name, counters[i].help, counters[i].name, counters[i].name,
                            (unsigned long long)value);
    }
}

static void
print_gauges(const struct engine *e, struct evbuffer *out)
{
    struct core_totals t = core_totals(e->core);
    const struct {
        const char *name, *help;
        uint64_t value;
    } gauges[] = {
        {"locks_held", "locks held here now", t.held},
        {"waiters", "requests waiting for a lock now", t.waiters},
        {"owners", "owners known now", t.owners},
        {"sessions", "open connections", e->sessions_n},
        {"upstream_up", "1 while Redis answers", e->redis_up},
        {"draining", "1 while nothing is granted any more", e->draining},
    };
    size_t i;

    for (i = 0; i < sizeof(gauges) / sizeof(gauges[0]); i++) {
        evbuffer_add_printf(out, "# HELP rlockd_%s %s\n# TYPE rlockd_%s gauge\nrlockd_%s %llu\n", gauges[i].name,
                            gauges[i].help, gauges[i].name, gauges[i].name, (unsigned long long)gauges[i].value);
    }
    evbuffer_add_printf(out,
                        "# HELP rlockd_build_info what runs here\n# TYPE rlockd_build_info gauge\n"
                        "rlockd_build_info{version=\"%s\"} 1\n",
                        RLOCKD_VERSION);
}

static int
page_metrics(const struct engine *e, struct evbuffer *out)
{
    print_counters(&e->metrics, out);
    print_gauges(e, out);
    return HTTP_OK;
}

/* That it answers at all is the answer. */
static int
page_healthz(const struct engine *e, struct evbuffer *out)
{
    (void)e;
    evbuffer_add_printf(out, "ok\n");
    return HTTP_OK;
}

static int
page_readyz(const struct engine *e, struct evbuffer *out)
{
    if (e->draining) {
        evbuffer_add_printf(out, "draining: nothing is granted any more\n");
    }
    if (!e->redis_up) {
        evbuffer_add_printf(out, "redis: down\n");
    }
    if (e->draining || !e->redis_up) {
        return HTTP_SERVUNAVAIL;
    }
    evbuffer_add_printf(out, "ok\n");
    return HTTP_OK;
}

static const struct {
    const char *path, *type;
    int (*print)(const struct engine *e, struct evbuffer *out);
} pages[] = {
    {"/healthz", "text/plain; charset=utf-8", page_healthz},
    {"/readyz", "text/plain; charset=utf-8", page_readyz},
    {"/metrics", "text/plain; version=0.0.4; charset=utf-8", page_metrics},
};

static const char *
reason(int status)
{
    return status == HTTP_OK ? "OK" : status == HTTP_SERVUNAVAIL ? "Service Unavailable" : "Not Found";
}

static void
on_request(struct evhttp_request *req, void *arg)
{
    struct http *h = arg;
    struct evkeyvalq *headers = evhttp_request_get_output_headers(req);
    const char *path = evhttp_uri_get_path(evhttp_request_get_evhttp_uri(req));
    const char *type = "text/plain; charset=utf-8";
    struct evbuffer *body = evbuffer_new();
    int status = HTTP_NOTFOUND;
    size_t i;

    if (body == NULL) {
        evhttp_send_error(req, HTTP_INTERNAL, NULL);
        return;
    }
    for (i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
        if (path != NULL && strcmp(path, pages[i].path) == 0) {
            type = pages[i].type;
            status = pages[i].print(h->engine, body);
        }
    }
    if (status == HTTP_NOTFOUND) {
        evbuffer_add_printf(body, "only /healthz, /readyz and /metrics are here\n");
    }
    evhttp_add_header(headers, "Content-Type", type);
    evhttp_add_header(headers, "Cache-Control", "no-store");
    evhttp_add_header(headers, "X-Content-Type-Options", "nosniff");
    evhttp_send_reply(req, status, reason(status), body);
    evbuffer_free(body);
}

/* ---- life ---- */

/* Takes what listens, also when it fails. */
static struct http *
start(struct engine *e, struct listening *on, char error[160])
{
    struct http *h = calloc(1, sizeof(*h));

    if (h == NULL) {
        close(on->fd);
        listening_forget(on);
        snprintf(error, 160, "out of memory");
        return NULL;
    }
    h->engine = e;
    h->on = *on;
    h->evhttp = evhttp_new(e->base);
    if (h->evhttp == NULL || evhttp_accept_socket_with_handle(h->evhttp, on->fd) == NULL) {
        close(on->fd);
        http_close(&h);
        snprintf(error, 160, "out of memory");
        return NULL;
    }
    evhttp_set_allowed_methods(h->evhttp, EVHTTP_REQ_GET | EVHTTP_REQ_HEAD);
    evhttp_set_max_headers_size(h->evhttp, HEADERS_BYTES_MAX);
    evhttp_set_max_body_size(h->evhttp, 0);
    evhttp_set_timeout(h->evhttp, TIMEOUT_S);
    evhttp_set_gencb(h->evhttp, on_request, h);
    return h;
}

struct http *
http_open(struct engine *e, const char *addr, char error[160])
{
    struct listening on;

    return listening_open(&on, addr, (unsigned)e->conf->socket_mode, error) ? start(e, &on, error) : NULL;
}

struct http *
http_adopt(struct engine *e, int fd, char error[160])
{
    struct listening on;

    return listening_adopt(&on, fd, error) ? start(e, &on, error) : NULL;
}

const char *
http_addr(const struct http *h)
{
    return h->on.addr;
}

void
http_close(struct http **hp)
{
    struct http *h = *hp;

    if (h == NULL) {
        return;
    }
    if (h->evhttp != NULL) {
        evhttp_free(h->evhttp);
    }
    listening_forget(&h->on);
    free(h);
    *hp = NULL;
}
