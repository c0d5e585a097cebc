/*
 * rlockd_notify.h -- messages to systemd; none without NOTIFY_SOCKET.
 */
#ifndef RLOCKD_NOTIFY_H
#define RLOCKD_NOTIFY_H

#include "daemon/serve/engine_record.h"

struct notify {
    struct event *tick; /* owned; NULL: neither NOTIFY_SOCKET nor a watchdog */
    bool due;           /* the tick has come: messages leave after the turn */
    bool watchdog;      /* systemd expects WATCHDOG messages */
    char status[160];   /* the status that was sent last */
};

void notify_start(struct notify *n, struct event_base *base);
void notify_stop(struct notify *n);

void notify_ready(void);
void notify_reloading(void); /* a reload begins; notify_ready() ends it */
void notify_stopping(void);

/* Sends the status line, when it has changed. */
void notify_status(struct notify *n, const struct engine *e);

/* After every turn: the watchdog and the status when they are due, so only a loop that turns sends them. */
void notify_turn(struct notify *n, const struct engine *e);

#endif
