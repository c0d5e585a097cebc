/*
 * names.h -- the addresses of a host, looked up without stopping the loop, and which of them is tried next.
 *
 * Each lookup reads /etc/hosts and /etc/resolv.conf anew, so a change there applies from the next connection on.
 */
#ifndef RLOCKD_BACKEND_NAMES_H
#define RLOCKD_BACKEND_NAMES_H

#include <event2/util.h>

struct event_base;
struct names;
struct lookup;

/* One resolver for all lookups of its user. Behind names_free() it outlives pending lookups: names_turns(). */
struct names *names_new(struct event_base *base);
void names_free(struct names **n);

/* Turns of a loop in which nothing else happens any more, until the resolvers that were freed have ended. */
void names_turns(struct event_base *base);

/* The addresses of a host, IPv6 and IPv4, and whose turn it is. All zero: none. */
struct addresses {
    struct evutil_addrinfo *found; /* owned */
    unsigned n;
    unsigned turn; /* it begins with this one, modulo n: the one that was good last, or behind those that were not */
    unsigned left; /* not tried yet */
};

/* Called once: `error` NULL, or why no address was found. It may be called before names_ask() returns. */
typedef void names_found_fn(void *ctx, const char *error);

/* Looks up a host, which may be a number. NULL: fn was called already. */
struct lookup *names_ask(struct names *n, const char *host, int port, struct addresses *to, names_found_fn *fn,
                         void *ctx);

/* fn will not be called. */
void names_cancel(struct lookup **q);

/* The next one to try; NULL: each has been tried. */
const struct evutil_addrinfo *addresses_next(struct addresses *a);

/* The one that was tried last is good: the next time begins with it. */
void addresses_good(struct addresses *a);

void addresses_clear(struct addresses *a);

#endif
