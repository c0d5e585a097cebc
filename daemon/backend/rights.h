/*
 * rights.h -- warns once if rlockd's user at Redis may use keys to which no rule maps a name.
 *
 * The user needs only the keys to which the rules map names. The test is one EXISTS of another key; it writes nothing.
 * Each server has an ACL of its own, also in a cluster: each is tested.
 */
#ifndef RLOCKD_BACKEND_RIGHTS_H
#define RLOCKD_BACKEND_RIGHTS_H

#include "daemon/backend/backend_env.h"
#include "daemon/backend/link.h"
#include "daemon/base/buf.h"

/* Embedded in its shard, and outlives the shard's links. */
struct rights {
    const struct backend_env *env;
    const struct link_address *address;
    char *unmapped_key, *patterns; /* of the configuration, owned; NULL: no test */
    bool asked;               /* the test was sent; reset if it was not answered, so that it is sent again */
    bool allows_unmapped;          /* the user may use unmapped_key */
};

void rights_init(struct rights *r, const struct backend_conf *conf, const struct backend_env *env,
                 const struct link_address *address);
void rights_fini(struct rights *r);

/* Sends the test on a link that is greeting, once. */
void rights_ask(struct rights *r, struct redis_link *l);

/* The ACL command that leaves the user only the keys that it needs. */
void rights_advice(const struct rights *r, struct buf *out);

#endif
