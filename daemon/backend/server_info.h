/*
 * server_info.h -- questions in each greeting: version, role, eviction policy, and the digests of our scripts.
 */
#ifndef RLOCKD_BACKEND_SERVER_INFO_H
#define RLOCKD_BACKEND_SERVER_INFO_H

#include "daemon/backend/backend_ops.h"
#include "daemon/backend/call.h"
#include "daemon/backend/link.h"
#include "daemon/backend/script_forms.h"

/* The latest answers; texts are "" before. Embedded in its shard, and outlives the shard's links. */
struct server_info {
    const struct backend_env *env;
    const struct script_forms *forms; /* of the scripts; borrowed, NULL: the plain ones */
    const char *shown; /* the address, for people; borrowed */
    char version[32], run_id[48], role[16], maxmemory_policy[32];
    bool evicts;      /* Redis has a memory limit, and may drop keys to keep it */
    int64_t asked_us; /* when the last answer came, or the last question about eviction left */
    char sha[VERBS][KINDS][41]; /* digest of a script, "" = not known */
};

/* Sends the questions on a link that is greeting. */
void server_info_ask(struct server_info *h, struct redis_link *l);

/* For strict mode: whether Redis evicts no keys. Asks again on `l` if the answer is old. */
bool server_info_may_grant(struct server_info *h, struct redis_link *l);

/* Fills in the answers. */
void server_info_status(const struct server_info *h, struct backend_status *out);

#endif
