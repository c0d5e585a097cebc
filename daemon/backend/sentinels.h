/*
 * sentinels.h -- the sentinels of a master, listed in the URL or discovered from the others, and their verdict.
 *
 * All are asked once a second, so a silent one delays nothing. The list is bounded. Listed sentinels stay; a discovered
 * one is dropped when it is down and no other has reported it for a minute, or when an earlier entry that is up is the
 * same sentinel.
 */
#ifndef RLOCKD_BACKEND_SENTINELS_H
#define RLOCKD_BACKEND_SENTINELS_H

#include "daemon/backend/sentinel_link.h"

struct sentinels;

/*
 * `changed` is called from the loop: when a question for the master has ended, when a sentinel goes up or down, and
 * once a second. env and `template` are borrowed. `template` is the address of the master; the sentinels share its TLS.
 * The login of the sentinels in conf is copied.
 */
struct sentinels *sentinels_open(const struct sentinel_url *url, const struct backend_conf *conf,
                                 const struct backend_env *env, const struct link_address *template,
                                 void (*changed)(void *ctx), void *ctx);
void sentinels_close(struct sentinels **ss);

/* Asks at once all sentinels that have no question in flight: the master may have changed. */
void sentinels_ask(struct sentinels *ss);

/* The verdict of the sentinels as of now. */
void sentinels_verdict(const struct sentinels *ss, struct sentinel_verdict *out);

/* The answers are old because this process stood still, and new ones are awaited for a second. */
bool sentinels_awaited(const struct sentinels *ss);

/* The shortest down-after-milliseconds of all sentinels; 0 = not known. */
int64_t sentinels_down_after_ms(const struct sentinels *ss);

/* The last error of a sentinel that is down; "" = none. */
const char *sentinels_last_error(const struct sentinels *ss);

/* Sets user, password and the present TLS of `template` for new connections. */
void sentinels_login(struct sentinels *ss, const char *user, const char *password);

/* The master was at that address until now. Until the sentinels list it, sentinels_nodes() does: as a down replica. */
void sentinels_switched(struct sentinels *ss, const char *host, int port);

/* Lists replicas, then sentinels, `max` at most; returns their number. */
size_t sentinels_nodes(const struct sentinels *ss, struct backend_node *out, size_t max);

#endif
