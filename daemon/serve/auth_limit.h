/*
 * auth_limit.h -- the rate at which one client may guess passwords.
 *
 * A client is a user here (user_key() of peer.h): an IPv4 address, the upper half of an IPv6 address, or a Unix uid.
 * Its first AUTH_LIMIT_FREE wrong passwords are compared at once. Then each AUTH (or HELLO ... AUTH) of that client
 * waits AUTH_LIMIT_DELAY_US (at most half of auth.timeout) before its password is compared, and a wrong one ends
 * its connection: a guess costs a connection and a second. The right password from the same address counts after that
 * second.
 */
#ifndef RLOCKD_SERVE_AUTH_LIMIT_H
#define RLOCKD_SERVE_AUTH_LIMIT_H

#include "daemon/serve/session_record.h"

enum {
    AUTH_LIMIT_FREE = 32,     /* wrong passwords without a delay; one more after each AUTH_LIMIT_REGAIN_US */
    AUTH_LIMIT_WAITING = 256, /* AUTHs of one client that may wait at a time */
};

#define AUTH_LIMIT_DELAY_US (1 * US_PER_S)
#define AUTH_LIMIT_REGAIN_US (2 * US_PER_S)

enum auth_limit { AUTH_LIMIT_GO, AUTH_LIMIT_WAIT, AUTH_LIMIT_REFUSE };

/*
 * May this request run now? WAIT: session.auth_wait is set; when the delay is over the session is woken, and the next
 * call clears it and answers GO. REFUSE: too many wait already. A request without a password may always GO.
 */
enum auth_limit auth_limit_check(struct session *s, enum command_id id, const struct words *w);

static inline enum auth_limit
auth_limit_ask(struct session *s, enum command_id id, const struct words *w)
{
    bool no_limits = s->auth_wait == NULL && s->engine->auth_limits == NULL;

    return no_limits ? AUTH_LIMIT_GO : auth_limit_check(s, id, w);
}

/* True: the oldest request is an AUTH that waits, and nothing is read behind it. */
bool auth_limit_waits(const struct session *s);

/* A password was wrong. True: the connection must end. */
bool auth_limit_failed(struct session *s);

/* The session has ended. */
void auth_limit_leave(struct session *s);

/* Wakes the sessions whose delay is over; the time when the next delay ends (CORE_FOREVER: there is none). */
void auth_limit_due(struct engine *e, int64_t now_us);
int64_t auth_limit_next_us(const struct engine *e);

void auth_limit_free(struct engine *e);

#endif
