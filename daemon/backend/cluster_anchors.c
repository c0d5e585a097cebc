/*
 * cluster_anchors.c -- why nothing is granted in any slot while fewer than two of the three anchors vote (R1, R7).
 *
 * If two anchors are new and the third one does not answer, they abstain like anchors that have lost their data: the
 * third one may know members, which may hold locks. See R7 in proto/SCRIPTS.md.
 */
#include "daemon/backend/cluster_anchors.h"

#include <inttypes.h>
#include <stdio.h>

#include "daemon/backend/generation_sends.h"
#include "daemon/base/clock.h"

#define ANCHORS_WAIT_US US_PER_S /* at a start, or after a failover, fewer than two anchors vote for a moment */

bool
cluster_anchors_too_few_vote(const struct cluster *c, char why[160])
{
    int64_t now_us = clock_now_us();
    struct anchor_votes v;
    char silent[28] = "", abstaining[40] = "", wait[52] = "";

    if (!c->known || generations_two_vote(generations_of(&c->slots), now_us, &v)) {
        return false;
    }
    if (v.silent > 0) {
        snprintf(silent, sizeof(silent), "%u %s not answer", v.silent, v.silent == 1 ? "does" : "do");
    }
    if (v.abstaining > 0) {
        snprintf(abstaining, sizeof(abstaining), "%s%u %s lost data", v.silent > 0 ? ", " : "", v.abstaining,
                 v.abstaining == 1 ? "is new or has" : "are new or have");
    }
    if (v.wait_us != INT64_MAX) {
        snprintf(wait, sizeof(wait), "; two vote in %" PRId64 " s at the latest", v.wait_us / US_PER_S + 1);
    }
    snprintf(why, 160, "two of three anchors must vote: %s%s%s", silent, abstaining, wait);
    return true;
}

void
cluster_anchors_log(struct cluster *c)
{
    int64_t now_us = clock_now_us();
    char why[160];

    if (!c->up || !cluster_anchors_too_few_vote(c, why)) {
        if (c->few_votes_logged && c->up) {
            log_event(c->env.log, LOG_INFO, "redis", "two anchors vote", NULL);
        }
        c->few_votes_logged = c->few_votes_logged && !c->up;
        c->few_votes_us = 0;
    } else if (c->few_votes_us == 0) {
        c->few_votes_us = now_us;
    } else if (!c->few_votes_logged && now_us - c->few_votes_us >= ANCHORS_WAIT_US) {
        c->few_votes_logged = true;
        log_event(c->env.log, LOG_WARN, "redis", "nothing is granted", "reason", LOG_S(why), NULL);
    }
}
