/*
 * resolver.c -- libevent's resolver, and turns among the addresses of a host.
 *
 * A host whose first address does not answer must stay reachable: if a connect spent all its time on one address, the
 * next connect begins with the next address.
 */
#include "daemon/backend/resolver.h"

#include <event2/dns.h>
#include <event2/event.h>
#include <event2/util.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/memory.h"

#ifndef RESOLV_CONF
#define RESOLV_CONF "/etc/resolv.conf"
#endif
#define READ_US (2 * US_PER_S) /* what was read from the files for pending lookups serves others for that time */
#define SKEW_S "0.3" /* the wait for the second answer: IPv6 and IPv4 have one each */

/* What was read from the files. It changes only while no lookup is pending. */
struct dns {
    struct event_base *base;
    struct evdns_base *evdns; /* owned */
    unsigned lookups_n; /* those that libevent has not answered, also cancelled ones */
    bool closed;        /* no resolver uses it any more: the last lookup frees it */
};

struct resolver {
    struct dns *dns;
    int64_t read_us; /* when the files were read */
};

struct lookup {
    struct dns *dns;
    struct evdns_getaddrinfo_request *request;
    struct addresses *to;
    resolver_found_fn *fn; /* NULL: cancelled */
    void *ctx;
    bool answered;
};

static struct dns *
dns_new(struct event_base *base)
{
    struct dns *d = mem_zalloc(sizeof(*d));

    d->evdns = evdns_base_new(base, EVDNS_BASE_DISABLE_WHEN_INACTIVE);
    if (d->evdns == NULL) {
        mem_exhausted(sizeof(*d));
    }
    d->base = base;
    return d;
}

static void
on_end(evutil_socket_t fd, short what, void *arg)
{
    struct dns *d = arg;

    (void)fd;
    (void)what;
    evdns_base_free(d->evdns, 1);
    free(d);
}

static void
dns_close(struct dns *d)
{
    if (d->lookups_n > 0) {
        d->closed = true;
    } else {
        on_end(-1, 0, d);
    }
}

struct resolver *
resolver_new(struct event_base *base)
{
    struct resolver *r = mem_zalloc(sizeof(*r));

    r->dns = dns_new(base);
    return r;
}

void
resolver_free(struct resolver **rp)
{
    struct resolver *r = *rp;

    *rp = NULL;
    if (r != NULL) {
        dns_close(r->dns);
        free(r);
    }
}

void
resolver_run_until_freed(struct event_base *base)
{
    for (int turns = 0; turns < 8 && event_base_loop(base, EVLOOP_NONBLOCK) == 0; turns++) {
    }
}

/*
 * Reads /etc/hosts and /etc/resolv.conf anew. Pending lookups go on with what was read for them: with many links, some
 * lookup may be pending at any time while a name server is silent.
 */
static void
read_again(struct resolver *r)
{
    struct evdns_base *dns;

    if (r->dns->lookups_n > 0) {
        struct event_base *base = r->dns->base;

        dns_close(r->dns);
        r->dns = dns_new(base);
    }
    dns = r->dns->evdns;
    r->read_us = clock_now_us();
    evdns_base_clear_host_addresses(dns);
    evdns_base_search_clear(dns);
    (void)evdns_base_clear_nameservers_and_suspend(dns);
    (void)evdns_base_resolv_conf_parse(dns, DNS_OPTIONS_ALL, RESOLV_CONF);
    (void)evdns_base_set_option(dns, "getaddrinfo-allow-skew:", SKEW_S);
    (void)evdns_base_resume(dns);
}

static void
take(struct addresses *to, struct evutil_addrinfo *found)
{
    to->found = found;
    for (; found != NULL; found = found->ai_next) {
        to->n++;
    }
    to->left = to->n;
}

/* Frees a lookup. A closed dns ends in a later turn, since libevent uses it until on_answer() has returned. */
static void
end_lookup(struct lookup *q)
{
    const struct timeval at_once = {0, 0};
    struct dns *d = q->dns;

    free(q);
    d->lookups_n--;
    if (d->closed && d->lookups_n == 0) {
        (void)event_base_once(d->base, -1, EV_TIMEOUT, on_end, d, &at_once);
    }
}

static void
on_answer(int error, struct evutil_addrinfo *found, void *arg)
{
    struct lookup *q = arg;

    q->answered = true;
    if (q->fn == NULL) {
        if (found != NULL) {
            evutil_freeaddrinfo(found);
        }
    } else {
        addresses_clear(q->to); /* of an earlier lookup, also if this one has failed */
        if (error == 0) {
            take(q->to, found);
        }
        q->fn(q->ctx, error == 0 ? NULL : evutil_gai_strerror(error));
    }
    if (q->request != NULL) { /* else resolver_ask() frees the lookup */
        end_lookup(q);
    }
}

struct lookup *
resolver_ask(struct resolver *r, const char *host, int port, struct addresses *to, resolver_found_fn *fn, void *ctx)
{
    struct evutil_addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_protocol = IPPROTO_TCP}, *number;
    struct lookup *q;
    char service[8];

    snprintf(service, sizeof(service), "%d", port);
    hints.ai_flags = EVUTIL_AI_NUMERICHOST;
    if (evutil_getaddrinfo(host, service, &hints, &number) == 0) {
        addresses_clear(to);
        take(to, number);
        fn(ctx, NULL);
        return NULL;
    }
    hints.ai_flags = 0;
    if (r->dns->lookups_n == 0 || clock_now_us() >= r->read_us + READ_US) {
        read_again(r);
    }
    q = mem_zalloc(sizeof(*q));
    *q = (struct lookup){.dns = r->dns, .to = to, .fn = fn, .ctx = ctx};
    q->request = evdns_getaddrinfo(r->dns->evdns, host, service, &hints, on_answer, q);
    if (q->answered) {
        free(q);
        return NULL;
    }
    q->dns->lookups_n++;
    return q;
}

void
resolver_cancel(struct lookup **qp)
{
    struct lookup *q = *qp;

    *qp = NULL;
    if (q != NULL) {
        q->fn = NULL;
        evdns_getaddrinfo_cancel(q->request); /* on_answer() comes later */
    }
}

/* ---- turns ---- */

const struct evutil_addrinfo *
addresses_next(struct addresses *a)
{
    const struct evutil_addrinfo *at = a->found;

    if (a->left == 0) {
        return NULL;
    }
    a->left--;
    for (unsigned i = a->turn++ % a->n; i > 0; i--) {
        at = at->ai_next;
    }
    return at;
}

void
addresses_good(struct addresses *a)
{
    if (a->n > 0) {
        a->turn--;
    }
}

void
addresses_clear(struct addresses *a)
{
    if (a->found != NULL) {
        evutil_freeaddrinfo(a->found);
    }
    a->found = NULL;
    a->n = a->left = 0;
}
