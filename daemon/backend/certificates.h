/*
 * certificates.h -- the certificates of a connection to Redis, and a warning before one of them expires.
 */
#ifndef RLOCKD_BACKEND_CERTIFICATES_H
#define RLOCKD_BACKEND_CERTIFICATES_H

#include "daemon/backend/link.h"
#include "daemon/backend/tls.h"

/* What was logged of one certificate. */
struct certificate_warning {
    int64_t expires_s; /* of which one */
    int64_t again_us;  /* not before */
};

/* All zero at first. */
struct certificates {
    int64_t due_us; /* the next look */
    struct certificate_warning peer, own;
};

/*
 * Logs a warning where the certificate of Redis, or our own, expires within 14 days (of a short life: within its last
 * third): one a day for each. To be called in each turn of the loop, where the address has TLS; `l` is a link to it, in
 * any state.
 */
void certificates_turn(struct certificates *c, const struct backend_env *env, const struct link_address *address,
                       const struct redis_link *l);

#endif
