/*
 * resolver.h -- asynchronous lookups of a host's addresses, and the order in which these are tried.
 *
 * A lookup reads /etc/hosts and /etc/resolv.conf anew, unless another one is pending and they were read less than 2 s
 * ago (READ_US in resolver.c): a change there applies from the next connection on, or 2 s later.
 */
#ifndef RLOCKD_BACKEND_RESOLVER_H
#define RLOCKD_BACKEND_RESOLVER_H

#include <event2/util.h>

struct event_base;
struct resolver;
struct lookup;

/* A resolver. After resolver_free() it lives on until its pending lookups have ended: resolver_run_until_freed(). */
struct resolver *resolver_new(struct event_base *base);
void resolver_free(struct resolver **r);

/* Runs the loop, which has no other events any more, until the freed resolvers have ended; for eight turns at most. */
void resolver_run_until_freed(struct event_base *base);

/* The addresses of a host, IPv6 and IPv4, and the one to be tried next. Zeroed: no addresses. */
struct addresses {
    struct evutil_addrinfo *found; /* owned */
    unsigned n;
    unsigned turn; /* the next one to try, modulo n; addresses_good() sets it back to the address tried last */
    unsigned left; /* addresses that were not tried yet */
};

/* Called once, perhaps before resolver_ask() returns. `error`: why no address was found, or NULL. */
typedef void resolver_found_fn(void *ctx, const char *error);

/* Looks up a host, by name or numeric address. NULL: fn was called already. */
struct lookup *resolver_ask(struct resolver *r, const char *host, int port, struct addresses *to, resolver_found_fn *fn,
                            void *ctx);

/* Cancels the lookup: fn is not called. */
void resolver_cancel(struct lookup **q);

/* The next address to try; NULL: all were tried. */
const struct evutil_addrinfo *addresses_next(struct addresses *a);

/* The address that was tried last is good: the next connect begins with it. */
void addresses_good(struct addresses *a);

void addresses_clear(struct addresses *a);

#endif
