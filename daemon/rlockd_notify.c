/*
 * rlockd_notify.c -- messages to systemd: READY, STATUS, WATCHDOG, RELOADING, STOPPING.
 */
#include "daemon/rlockd_notify.h"

#include <event2/event.h>
#include <event2/util.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-daemon.h>

#include "daemon/base/clock.h"
#include "daemon/serve/drain.h"

#define STATUS_US (1 * US_PER_S)

static void
on_tick(evutil_socket_t fd, short what, void *arg)
{
    struct notify *n = arg;

    (void)fd;
    (void)what;
    n->due = true;
}

void
notify_start(struct notify *n, struct event_base *base)
{
    uint64_t watchdog_us = 0;
    int64_t every_us = STATUS_US;
    struct timeval tv;

    n->watchdog = sd_watchdog_enabled(0, &watchdog_us) > 0;
    if (!n->watchdog && getenv("NOTIFY_SOCKET") == NULL) {
        return;
    }
    if (n->watchdog && (int64_t)(watchdog_us / 2) < every_us) {
        every_us = (int64_t)(watchdog_us / 2);
    }
    tv.tv_sec = (time_t)(every_us / US_PER_S);
    tv.tv_usec = (suseconds_t)(every_us % US_PER_S);
    n->tick = event_new(base, -1, EV_PERSIST, on_tick, n);
    event_add(n->tick, &tv);
}

void
notify_stop(struct notify *n)
{
    if (n->tick != NULL) {
        event_free(n->tick);
        n->tick = NULL;
    }
}

void
notify_ready(void)
{
    sd_notify(0, "READY=1");
}

void
notify_stopping(void)
{
    sd_notify(0, "STOPPING=1");
}

void
notify_reloading(void)
{
    struct evutil_monotonic_timer *clock = evutil_monotonic_timer_new();
    struct timeval tv = {0, 0};
    char text[64];

    if (evutil_configure_monotonic_time(clock, EV_MONOT_PRECISE) == 0) {
        (void)evutil_gettime_monotonic(clock, &tv);
    }
    evutil_monotonic_timer_free(clock);
    snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%lld", (long long)tv.tv_sec * US_PER_S + tv.tv_usec);
    sd_notify(0, text); /* sd_notifyf() would ask libc for memory */
}

void
notify_status(struct notify *n, const struct engine *e)
{
    struct core_totals t = core_totals(e->core);
    char status[sizeof(n->status)], text[sizeof(status) + sizeof("STATUS=")];
    struct buf names;

    buf_init(&names, 0);
    drain_print(e, &names, NULL);
    snprintf(status, sizeof(status), "%s: %llu locks, %llu waiting, redis %s%s%.*s",
             e->draining ? "Draining" : "Serving", (unsigned long long)t.held_claims, (unsigned long long)t.waiters,
             e->redis_up ? "up" : "down", names.n > 0 ? "; waits for " : "", (int)names.n, names.n > 0 ? names.p : "");
    buf_fini(&names);
    if (strcmp(status, n->status) != 0) {
        memcpy(n->status, status, sizeof(status));
        snprintf(text, sizeof(text), "STATUS=%s", status);
        sd_notify(0, text);
    }
}

void
notify_turn(struct notify *n, const struct engine *e)
{
    if (!n->due) {
        return;
    }
    n->due = false;
    if (n->watchdog) {
        sd_notify(0, "WATCHDOG=1");
    }
    notify_status(n, e);
}
