/*
 * rights.h -- whether rlockd's user at Redis may use keys that no rule gives to a name; then the log says so, once.
 *
 * A client can reach what names can be mapped to, so that is all the user needs. It is asked for one key that no name
 * can have; nothing is written.
 */
#ifndef RLOCKD_BACKEND_RIGHTS_H
#define RLOCKD_BACKEND_RIGHTS_H

#include "daemon/backend/backend.h"
#include "daemon/backend/link.h"

/* Embedded in its owner, and outlives the owner's links. */
struct rights {
    const struct backend_env *env;
    const struct link_address *address;
    char *outside, *patterns; /* of the configuration, owned; NULL: nothing is asked */
    bool asked;               /* and perhaps answered; no answer, and it is asked again */
    bool answered;
    bool wider;               /* it may */
};

/* False: out of memory; rights_fini() is needed all the same. */
bool rights_init(struct rights *r, const struct backend_conf *conf, const struct backend_env *env,
                 const struct link_address *address);
void rights_fini(struct rights *r);

/* Asks on a link that is greeting, unless that was done. */
void rights_ask(struct rights *r, struct redis_link *l);

/* What would take away the rights that are not needed; "" = out of memory. */
void rights_advice(const struct rights *r, struct buf *out);

#endif
