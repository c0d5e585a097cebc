/*
 * server_info.h -- questions in each greeting of a link of locks or renewals: version, role, eviction policy, and the
 * digests of the scripts.
 */
#ifndef RLOCKD_BACKEND_SERVER_INFO_H
#define RLOCKD_BACKEND_SERVER_INFO_H

#include "daemon/backend/backend_ops.h"
#include "daemon/backend/call.h"
#include "daemon/backend/link.h"
#include "daemon/backend/script_variants.h"

/* The latest answers; texts are "" before. Embedded in its shard, and outlives the shard's links. */
struct server_info {
    const struct backend_env *env;
    const struct script_variants *variants; /* of the scripts; borrowed, NULL: the plain ones */
    const char *shown; /* the address, for people; borrowed */
    char version[32], run_id[48], role[16], maxmemory_policy[32];
    bool evicts;      /* Redis has a memory limit, and may drop keys to keep it */
    int64_t fresh_us; /* when the last answer came, or server_info_ask_again() asked */
    char sha[VERBS][KINDS][41]; /* digest of a script, "" = not known */
};

/* Sends the questions on a link that is greeting. */
void server_info_ask(struct server_info *s, struct redis_link *l);

/* For strict mode: asks again on `l` if the last answer is old. */
void server_info_ask_again(struct server_info *s, struct redis_link *l);

/* For strict mode: whether Redis evicts no keys. */
bool server_info_may_grant(const struct server_info *s);

/* Why strict mode grants nothing at this Redis; "" = it may evict no keys. */
void server_info_explain(const struct server_info *s, char *out, size_t room);

/* Fills in the answers. */
void server_info_status(const struct server_info *s, struct backend_status *out);

/* Of several servers, INFO shows a policy other than noeviction, if there is one. */
void server_info_add_policy(struct backend_status *sum, const struct backend_status *one);

/* Adds the purposes of the links of another server that are down. */
void server_info_add_away(struct backend_status *sum, const struct backend_status *one);

#endif
