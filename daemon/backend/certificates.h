/*
 * certificates.h -- the certificates of a connection to Redis, and a warning before one of them expires.
 */
#ifndef RLOCKD_BACKEND_CERTIFICATES_H
#define RLOCKD_BACKEND_CERTIFICATES_H

#include "daemon/backend/link.h"
#include "daemon/backend/tls.h"

/* Zeroed: no warning yet. */
struct certificates {
    int64_t due_us; /* the next check */
    struct certificate_warning peer; /* about Redis's certificate; about the daemon's: tls_own_warning() */
};

/*
 * Logs a warning a day for each certificate (Redis's, the daemon's) that expires within 14 days, or, if it is valid for
 * less than six weeks, is in the last third of that time. Call it in each turn of the loop if the address has TLS. The
 * link `l` may be in any state.
 */
void certificates_turn(struct certificates *c, const struct backend_env *env, const struct link_address *address,
                       const struct redis_link *l);

#endif
