/*
 * replication.c -- INFO replication and CONFIG GET min-replicas-*.
 */
#include "daemon/backend/replication.h"

#include <stdio.h>
#include <string.h>

#include "daemon/backend/text.h"
#include "daemon/base/clock.h"
#include "daemon/base/units.h"

#define SETTINGS_US (10 * US_PER_S) /* between requests: CONFIG SET may change them; a tenth while they are too weak */
#define LAG_LATE_MS 2000 /* Redis counts the lag in whole seconds, and acts on it once a second */

void
replication_init(struct replication *r, const struct backend_env *env, const struct link_address *address)
{
    *r = (struct replication){.env = env, .address = address};
    replication_forget(r);
}

void
replication_forget(struct replication *r)
{
    r->min_replicas = r->lag_ms = -1;
    r->refused = false;
    r->asked_us = 0;
}

/* arg is the link. The answer is of its present server: link_retarget() ends earlier questions. */
static void
on_role(void *arg, enum link_result result, const struct reply *reply, int64_t sent_us)
{
    struct redis_link *l = arg;
    char role[16] = "";

    (void)sent_us;
    if (result != LINK_ANSWERED) {
        return;
    }
    if (reply->type == REPLY_TEXT) {
        text_info_field(reply->text, "role", role, sizeof(role));
        if (strcmp(role, "master") != 0) {
            link_fail(l, "not a master");
        }
    } else if (reply->type == REPLY_ERROR) {
        link_fail_refused(l, reply->text);
    } else {
        link_fail(l, "no answer to INFO");
    }
}

/* A flat array of names and values. */
static void
on_settings(void *arg, enum link_result result, const struct reply *reply, int64_t sent_us)
{
    struct replication *r = arg;

    (void)sent_us;
    if (result != LINK_ANSWERED) {
        return;
    }
    if (reply->type == REPLY_ERROR && text_error_is_transient(reply->text)) {
        r->asked_us = 0; /* a busy Redis neither forbids the question nor has other settings: asks again soon */
        return;
    }
    r->refused = reply->type == REPLY_ERROR;
    r->min_replicas = r->lag_ms = -1;
    for (size_t i = 0; reply->type == REPLY_ARRAY && i + 1 < reply->count; i += 2) {
        int64_t n;

        if (reply->item[i]->type != REPLY_TEXT || reply->item[i + 1]->type != REPLY_TEXT ||
            !number_parse(reply->item[i + 1]->text, &n)) {
            continue;
        }
        if (slice_is(reply->item[i]->text, "min-replicas-to-write")) {
            r->min_replicas = n;
        } else if (slice_is(reply->item[i]->text, "min-replicas-max-lag")) {
            r->lag_ms = n > INT32_MAX ? INT64_MAX : n * 1000;
        }
    }
}

static const struct slice settings[] = {{"CONFIG", 6}, {"GET", 3}, {"min-replicas-*", 14}};

void
replication_greet(struct replication *r, struct redis_link *l)
{
    const struct slice role[] = {SLICE_LIT("INFO"), SLICE_LIT("replication")};

    (void)link_send(l, 2, role, on_role, l);
    if (link_send(l, 3, settings, on_settings, r)) {
        r->asked_us = clock_now_us();
    }
}

void
replication_tick(struct replication *r, struct shard *sh)
{
    int64_t now_us = clock_now_us();

    if (now_us >= r->asked_us + (r->why_unbounded[0] != '\0' ? SETTINGS_US / 10 : SETTINGS_US) &&
        shard_ask(sh, 3, settings, on_settings, r)) {
        r->asked_us = now_us;
    }
}

/* Why an old master is not bounded; NULL: it is. */
static const char *
why_unbounded(const struct replication *r, int64_t down_after_ms)
{
    if (r->refused) {
        return "CONFIG GET is refused: allow it (+config|get)";
    }
    if (r->min_replicas < 0 || r->lag_ms < 0) {
        return "the settings of Redis are not known";
    }
    if (r->min_replicas == 0 || r->lag_ms == 0) {
        return "min-replicas-to-write and min-replicas-max-lag must be 1 or more";
    }
    if (down_after_ms == 0) {
        return "the sentinels do not report down-after-milliseconds";
    }
    return r->lag_ms > down_after_ms - LAG_LATE_MS ?
        "min-replicas-max-lag + 2 s is longer than down-after-milliseconds" : NULL;
}

bool
replication_bounded(struct replication *r, int64_t down_after_ms)
{
    const char *why = why_unbounded(r, down_after_ms);
    bool known = r->refused || r->min_replicas >= 0;

    snprintf(r->why_unbounded, sizeof(r->why_unbounded), "%s", why != NULL ? why : "");
    if (known && down_after_ms > 0 && (why != NULL) != r->logged) {
        r->logged = why != NULL;
        log_event(r->env->log, r->logged ? LOG_WARN : LOG_INFO, "redis",
                  r->logged ? "a master that is cut off may go on granting" : "a master that is cut off stops granting",
                  "address", LOG_S(r->address->shown), r->logged ? "reason" : NULL, LOG_S(r->why_unbounded), NULL);
    }
    return why == NULL;
}
