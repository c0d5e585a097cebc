/*
 * sentinel_link.h -- one sentinel: a link for questions, one for its messages, and its latest answers.
 *
 * sentinel_ask() asks the sentinel for the master. A published +switch-master is only a hint: the link asks at once. In
 * each greeting, and every DETAILS_US, the link asks for what changes slowly: other sentinels, replicas, settings.
 */
#ifndef RLOCKD_BACKEND_SENTINEL_LINK_H
#define RLOCKD_BACKEND_SENTINEL_LINK_H

#include "daemon/backend/backend_ops.h"
#include "daemon/backend/link.h"
#include "daemon/backend/sentinel_answers.h"

struct sentinel;

enum { SENTINEL_REPLICAS_MAX = 16 };

/* A replica of the master, as a sentinel reports it. */
struct sentinel_replica {
    char host[HOST_ROOM];
    int port;
    bool up; /* as that sentinel reports */
};

/* Called from the loop, never from inside a sentinel_ call. */
struct sentinel_events {
    void (*changed)(void *ctx); /* the question for the master has ended, or the link for questions is up or down */
    void (*discovered)(void *ctx, struct slice id, const char *host, int port); /* it has reported another sentinel */
    void *ctx;
};

/* Takes the address over, and borrows the rest. `master`: the name of the master among the sentinels. */
struct sentinel *sentinel_open(struct link_address *address, const char *master, const struct backend_conf *conf,
                               const struct backend_env *env, struct resolver *resolver, struct sentinel_events events);
void sentinel_close(struct sentinel **s);

/* Asks for the master. If a question is in flight, asks once more after its answer only if `again`. */
void sentinel_ask(struct sentinel *s, bool again);

/* The address, to set user, password and TLS for new connections. */
struct link_address *sentinel_address(struct sentinel *s);

const struct sentinel_answer *sentinel_answer(const struct sentinel *s);
bool sentinel_up(const struct sentinel *s);
const char *sentinel_last_error(const struct sentinel *s); /* "" = none */

/* down-after-milliseconds of the master there; 0 = not known. */
int64_t sentinel_down_after_ms(const struct sentinel *s);

/* The replicas in its last list; returns their number. */
size_t sentinel_replicas(const struct sentinel *s, const struct sentinel_replica **out);

void sentinel_node(const struct sentinel *s, struct backend_node *out);

#endif
