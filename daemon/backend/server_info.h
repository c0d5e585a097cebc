/*
 * server_info.h -- the first questions on a new connection: version, role, eviction, and the digests of our scripts.
 */
#ifndef RLOCKD_BACKEND_SERVER_INFO_H
#define RLOCKD_BACKEND_SERVER_INFO_H

#include "daemon/backend/backend_ops.h"
#include "daemon/backend/call.h"
#include "daemon/backend/link.h"
#include "daemon/backend/script_forms.h"

/* The latest answers; empty texts until there are any. Embedded in its shard, and outlives the shard's links. */
struct server_info {
    const struct backend_env *env;
    const struct script_forms *forms; /* of its scripts; borrowed, NULL: the plain ones */
    const char *shown; /* the address, for people; borrowed */
    char version[32], run_id[48], role[16], maxmemory_policy[32];
    bool evicts;      /* it has a limit of memory, and may drop keys to stay below it */
    int64_t asked_us; /* when the last answer came, or the last question about eviction went */
    char sha[VERBS][KINDS][41]; /* digest of a script, "" = not known */
};

/* Sends the questions on a link that is greeting. */
void server_info_ask(struct server_info *h, struct redis_link *l);

/* For strict mode: does this Redis keep all keys? Asks again on `l` when the answer is old. */
bool server_info_may_grant(struct server_info *h, struct redis_link *l);

/* Fills in what Redis says of itself. */
void server_info_status(const struct server_info *h, struct backend_status *out);

#endif
