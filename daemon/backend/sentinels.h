/*
 * sentinels.h -- the sentinels of a master: those of the URL and those that they report; their answers together.
 *
 * All are asked once a second, so a silent one delays nothing. The list is bounded: a discovered sentinel is dropped
 * when no other reports it any more, and those of the URL stay.
 */
#ifndef RLOCKD_BACKEND_SENTINELS_H
#define RLOCKD_BACKEND_SENTINELS_H

#include "daemon/backend/sentinel_link.h"

struct sentinels;

/*
 * `changed` is called from the loop: after each answer, and once a second. env and `template` are borrowed. `template`
 * is the address of the master; the sentinels share its TLS. The login of the sentinels in conf is copied.
 */
struct sentinels *sentinels_open(const struct sentinel_url *url, const struct backend_conf *conf,
                                 const struct backend_env *env, const struct link_address *template,
                                 void (*changed)(void *ctx), void *ctx);
void sentinels_close(struct sentinels **ss);

/* Something suggests that the master is another one: all are asked at once, if they are not being asked already. */
void sentinels_ask(struct sentinels *ss);

/* What a majority says, as of now. */
void sentinels_verdict(const struct sentinels *ss, struct sentinel_verdict *out);

/* The answers are old because this process stood still; others are on their way, and soon here or missing. */
bool sentinels_awaited(const struct sentinels *ss);

/* The shortest down-after-milliseconds of all sentinels; 0 = not known. */
int64_t sentinels_down_after_ms(const struct sentinels *ss);

/* Why the one that was tried last is down; "" = none is. */
const char *sentinels_last_error(const struct sentinels *ss);

/* User, password, and the TLS that `template` has now: for connections from now on. */
void sentinels_login(struct sentinels *ss, const char *user, const char *password);

/* Replicas, then sentinels: how many were put there, `max` at most. */
size_t sentinels_nodes(const struct sentinels *ss, struct backend_node *out, size_t max);

#endif
