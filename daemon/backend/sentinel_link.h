/*
 * sentinel_link.h -- one sentinel: a link for questions, one for its messages, and its latest answers.
 *
 * A sentinel is asked for the master at each sentinel_ask(), and at once when it publishes +switch-master, which is a
 * hint and nothing more. What changes slowly (other sentinels, replicas, settings) is asked in each greeting and every
 * LOOK.
 */
#ifndef RLOCKD_BACKEND_SENTINEL_LINK_H
#define RLOCKD_BACKEND_SENTINEL_LINK_H

#include "daemon/backend/backend_ops.h"
#include "daemon/backend/link.h"
#include "daemon/backend/sentinel_votes.h"

struct sentinel;

enum { SENTINEL_REPLICAS_MAX = 16 };

/* What a sentinel says of a replica of the master. */
struct sentinel_replica {
    char host[SENTINEL_HOST_ROOM];
    int port;
    bool up; /* as that sentinel sees it */
};

/* Called from the loop, never from inside a sentinel_ call. */
struct sentinel_events {
    void (*changed)(void *ctx); /* an answer has come, or the connection has gone */
    void (*discovered)(void *ctx, struct slice id, const char *host, int port); /* it knows another sentinel, there */
    void *ctx;
};

/* All is borrowed but the address, which is taken over; `master` is the name that sentinels know it by. */
struct sentinel *sentinel_open(struct link_address *address, const char *master, const struct backend_conf *conf,
                               const struct backend_env *env, struct names *names, struct sentinel_events events);
void sentinel_close(struct sentinel **s);

/* Asks it for the master, unless a question is in flight; then once more behind that one if `again`. */
void sentinel_ask(struct sentinel *s, bool again);

/* Another user and password, and the files of TLS: for connections from now on. */
struct link_address *sentinel_address(struct sentinel *s);

const struct sentinel_vote *sentinel_vote(const struct sentinel *s);
bool sentinel_up(const struct sentinel *s);
const char *sentinel_last_error(const struct sentinel *s); /* "" = none */

/* down-after-milliseconds of the master there; 0 = not known. */
int64_t sentinel_down_after_ms(const struct sentinel *s);

/* The replicas that it has listed; how many. */
size_t sentinel_replicas(const struct sentinel *s, const struct sentinel_replica **out);

void sentinel_node(const struct sentinel *s, struct backend_node *out);

#endif
