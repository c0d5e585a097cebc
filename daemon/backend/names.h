/*
 * names.h -- the addresses of a host, asked for without stopping the loop, and which of them is tried next.
 *
 * Each question reads /etc/hosts and /etc/resolv.conf anew, so what changes there counts from the next connection on.
 */
#ifndef RLOCKD_BACKEND_NAMES_H
#define RLOCKD_BACKEND_NAMES_H

#include <event2/util.h>

struct event_base;
struct names;
struct lookup;

/* All who ask share one resolver. */
struct names *names_new(struct event_base *base);
void names_free(struct names **n);

/* The addresses of a host, IPv6 and IPv4, and whose turn it is. All zero: none. */
struct addresses {
    struct evutil_addrinfo *found; /* owned */
    unsigned n;
    unsigned turn; /* it begins with this one, modulo n: the one that was good last, or behind those that were not */
    unsigned left; /* not tried yet */
};

/* Told once of what was found, `error` NULL; or of nothing, and why. It may be told before names_ask() returns. */
typedef void names_found_fn(void *ctx, const char *error);

/* Asks for a host, which may be a number. NULL: it was told already. */
struct lookup *names_ask(struct names *n, const char *host, int port, struct addresses *to, names_found_fn *fn,
                         void *ctx);

/* Nothing will be told. */
void names_cancel(struct lookup **q);

/* The next one to try; NULL: each has been tried. */
const struct evutil_addrinfo *addresses_next(struct addresses *a);

/* The one that was tried last is good: the next time begins with it. */
void addresses_good(struct addresses *a);

void addresses_clear(struct addresses *a);

#endif
