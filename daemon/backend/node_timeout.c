/*
 * node_timeout.c -- CONFIG GET cluster-node-timeout.
 */
#include "daemon/backend/node_timeout.h"

#include <inttypes.h>
#include <stdio.h>

#include "daemon/backend/text.h"
#include "daemon/base/clock.h"
#include "daemon/base/units.h"

#define SETTINGS_US (10 * US_PER_S) /* between requests: CONFIG SET may change it; a tenth while it is no bound */

void
node_timeout_init(struct node_timeout *t)
{
    *t = (struct node_timeout){.us = -1};
}

/* A flat array of names and values. */
void
node_timeout_take(struct node_timeout *t, const struct reply *reply)
{
    int64_t ms;

    if (reply->type == REPLY_ERROR && text_error_is_transient(reply->text)) {
        t->asked_us = 0; /* a busy Redis neither forbids the question nor has another timeout: asks again soon */
        return;
    }
    t->refused = reply->type == REPLY_ERROR;
    t->us = -1;
    for (size_t i = 0; reply->type == REPLY_ARRAY && i + 1 < reply->count; i += 2) {
        if (reply->item[i]->type == REPLY_TEXT && reply->item[i + 1]->type == REPLY_TEXT &&
            slice_is(reply->item[i]->text, "cluster-node-timeout") &&
            number_parse(reply->item[i + 1]->text, &ms) && ms <= INT32_MAX) {
            t->us = ms * US_PER_MS;
        }
    }
}

static void
on_timeout(void *arg, enum link_result result, const struct reply *reply, int64_t sent_us)
{
    (void)sent_us;
    if (result == LINK_ANSWERED) {
        node_timeout_take(arg, reply);
    }
}

static const struct slice words[] = {{"CONFIG", 6}, {"GET", 3}, {"cluster-node-timeout", 20}};

void
node_timeout_greet(struct node_timeout *t, struct redis_link *l)
{
    if (link_send(l, 3, words, on_timeout, t)) {
        t->asked_us = clock_now_us();
    }
}

void
node_timeout_tick(struct node_timeout *t, struct shard *sh)
{
    int64_t now_us = clock_now_us();

    if (now_us >= t->asked_us + (t->why_unbounded[0] != '\0' ? SETTINGS_US / 10 : SETTINGS_US) &&
        shard_ask(sh, 3, words, on_timeout, t)) {
        t->asked_us = now_us;
    }
}

bool
node_timeout_bounded(struct node_timeout *t, int64_t lease_us, const struct log *log, const char *address)
{
    bool known = t->refused || t->us >= 0, is_unbounded = true;

    if (t->refused) {
        snprintf(t->why_unbounded, sizeof(t->why_unbounded), "CONFIG GET is refused: allow it (+config|get)");
    } else if (t->us < 0) {
        snprintf(t->why_unbounded, sizeof(t->why_unbounded), "cluster-node-timeout is not known");
    } else if (t->us > lease_us / 2) {
        snprintf(t->why_unbounded, sizeof(t->why_unbounded),
                 "cluster-node-timeout (%" PRId64 " ms) is longer than half of the longest lease (%" PRId64 " ms)",
                 t->us / US_PER_MS, lease_us / US_PER_MS);
    } else {
        t->why_unbounded[0] = '\0';
        is_unbounded = false;
    }
    if (known && is_unbounded != t->logged) {
        t->logged = is_unbounded;
        log_event(log, is_unbounded ? LOG_WARN : LOG_INFO, "redis",
                  is_unbounded ? "a master that is cut off may go on granting"
                               : "a master that is cut off stops granting",
                  "address", LOG_S(address), is_unbounded ? "reason" : NULL, LOG_S(t->why_unbounded), NULL);
    }
    return !is_unbounded;
}
