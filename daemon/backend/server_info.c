/*
 * server_info.c -- INFO and SCRIPT LOAD, once for each new connection.
 */
#include "daemon/backend/server_info.h"

#include <stdio.h>

#include "daemon/backend/text.h"
#include "daemon/base/clock.h"

#define EVICTION_US (10 * US_PER_S) /* strict mode: the longest age of an answer; a tenth of it while Redis evicts */

/* Every policy but noeviction drops keys with an expiry, such as locks, when the memory limit is reached. */
static void
learn_eviction(struct server_info *h, struct slice info)
{
    char limit[24] = "";
    bool was = h->evicts;

    text_info_field(info, "maxmemory", limit, sizeof(limit));
    text_info_field(info, "maxmemory_policy", h->maxmemory_policy, sizeof(h->maxmemory_policy));
    h->asked_us = clock_now_us();
    h->evicts = limit[0] != '\0' && strcmp(limit, "0") != 0 && h->maxmemory_policy[0] != '\0' &&
                strcmp(h->maxmemory_policy, "noeviction") != 0;
    if (h->evicts != was) {
        log_event(h->env->log, h->evicts ? LOG_WARN : LOG_INFO, "redis",
                  h->evicts ? "may evict locks" : "evicts no locks", "address", LOG_S(h->shown), "maxmemory_policy",
                  LOG_S(h->maxmemory_policy), NULL);
    }
}

static void
on_info(void *arg, enum link_result result, const struct reply *r, int64_t sent_us)
{
    struct server_info *h = arg;

    (void)sent_us;
    if (result != LINK_ANSWERED || r->type != REPLY_TEXT) {
        return;
    }
    text_info_field(r->text, "redis_version", h->version, sizeof(h->version));
    text_info_field(r->text, "run_id", h->run_id, sizeof(h->run_id));
    text_info_field(r->text, "role", h->role, sizeof(h->role));
    learn_eviction(h, r->text);
}

/* SCRIPT LOAD answers the digest for EVALSHA, which is copied to arg. */
static void
on_loaded(void *arg, enum link_result result, const struct reply *r, int64_t sent_us)
{
    (void)sent_us;
    if (result == LINK_ANSWERED && r->type == REPLY_TEXT && r->text.n == 40) {
        memcpy(arg, r->text.p, 41);
    }
}

void
server_info_ask(struct server_info *h, struct redis_link *l)
{
    struct slice word[3] = {SLICE_LIT("INFO")};

    (void)link_send(l, 1, word, on_info, h);
    word[0] = SLICE_LIT("SCRIPT");
    word[1] = SLICE_LIT("LOAD");
    for (int verb = 0; verb < VERBS; verb++) {
        for (int kind = 0; kind < KINDS; kind++) {
            word[2] = slice_of(script_forms_text(h->forms, (enum call_verb)verb, (enum kind)kind, false));
            (void)link_send(l, 3, word, on_loaded, h->sha[verb][kind]);
        }
    }
}

bool
server_info_may_grant(struct server_info *h, struct redis_link *l)
{
    struct slice word = SLICE_LIT("INFO");
    int64_t now_us = clock_now_us();

    if (now_us - h->asked_us >= (h->evicts ? EVICTION_US / 10 : EVICTION_US)) {
        h->asked_us = now_us; /* CONFIG SET may have changed it unnoticed */
        (void)link_send(l, 1, &word, on_info, h);
    }
    return !h->evicts && h->maxmemory_policy[0] != '\0'; /* "": the ACL forbids INFO */
}

void
server_info_status(const struct server_info *h, struct backend_status *out)
{
    snprintf(out->version, sizeof(out->version), "%s", h->version);
    snprintf(out->run_id, sizeof(out->run_id), "%s", h->run_id);
    snprintf(out->role, sizeof(out->role), "%s", h->role);
    snprintf(out->maxmemory_policy, sizeof(out->maxmemory_policy), "%s", h->maxmemory_policy);
}
