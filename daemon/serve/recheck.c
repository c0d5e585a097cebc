/*
 * recheck.c -- sessions that may have ended without an event. Owns engine.recheck and engine.recheck_us.
 *
 * There are two lists, so that one check serves many sessions, and checks no session sooner than RECHECK_US after
 * its read. Most sessions have no input, so one poll() asks about all: reading each would cost more than all else in a
 * hand-off. A check also takes peeked bytes out of the socket: see PK3 of peek.c.
 */
#include "daemon/serve/session_out.h"

#include <poll.h>

#include "daemon/base/clock.h"
#include "daemon/serve/sessions.h"

#define RECHECK_US (2 * US_PER_MS)
#define RECHECK_MAX 64

void
recheck_add(struct engine *e, struct session *s)
{
    list_push_back(&e->recheck[1], &s->recheck_node);
    if (e->recheck_us == CORE_FOREVER) {
        e->recheck_us = clock_now_us() + RECHECK_US;
    }
}

/* Checks the first sessions of the list: wakes those with input, or all of them if poll() fails. */
static void
recheck_some(struct list *recheck)
{
    struct session *s[RECHECK_MAX];
    struct pollfd p[RECHECK_MAX];
    nfds_t n, i;
    bool polled;

    for (n = 0; n < RECHECK_MAX && !list_empty(recheck); n++) {
        s[n] = container_of(recheck->next, struct session, recheck_node);
        peek_take(s[n]);
        p[n] = (struct pollfd){.fd = s[n]->fd, .events = POLLIN};
        list_remove(&s[n]->recheck_node);
    }
    polled = poll(p, n, 0) >= 0;
    for (i = 0; i < n; i++) {
        if (!polled || p[i].revents != 0) {
            s[i]->readable = s[i]->unchecked = true; /* a session that is held up may be broken */
            session_wake(s[i]);
        }
    }
}

void
recheck_run(struct engine *e, int64_t now_us)
{
    while (!list_empty(&e->recheck[0])) {
        recheck_some(&e->recheck[0]);
    }
    list_move_all(&e->recheck[0], &e->recheck[1]);
    e->recheck_us = list_empty(&e->recheck[0]) ? CORE_FOREVER : now_us + RECHECK_US;
}
